"""Planes of whole numbers to bytes and back, several of one layout side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.running import spread
from elmfield._array.typing import Floats, Integers
from elmfield.codec import ans
from elmfield.codec.ans import Words
from elmfield.codec.container import ByteReader, ByteWriter, damaged
from elmfield.codec.lossless import plane_model, wavefront
from elmfield.codec.lossless.frame import Frame, choose_bins, coding_order
from elmfield.codec.lossless.plane_model import N_TOKENS, RAW, TOKEN_BITS, Model
from elmfield.codec.lossless.wavefront import BINS, FRACTION, MAX_HALVINGS, Layout, Stencil
from elmfield.codec.symbol_tables import join_tables

LANE_BITS, LANE_SHARE = 9, 0.006
"""A lane costs about 9 bits; all of them may cost 0.6 % of the stream."""
LEARNING_SAMPLES = 1500
"""With fewer samples nothing is learned: weights would cost more than they save."""
MAX_CHANNELS = {1: 8, 2: 8, 3: 4, 4: 2}
"""Channels of one plane, by number of axes besides; further ones begin anew."""
SAMPLES_TOGETHER = 1 << 22
"""Samples that are coded side by side, at most (unless one plane has more)."""
ENCODING_SHARE = 2
"""Compiled loops save a fourth of the time on a sample that is encoded, as compared to decoded."""

NO_WORDS = np.zeros(0, np.uint16)


@dataclass(eq=False)
class Plane:
    """A plane as it stands in a tile; without a header all samples are 0.

    Parameters
    ----------
    layout : Layout
        Its steps.
    halvings : int
        How often the number of lanes is halved.
    header : bytes
        What a decoder must know first.
    words, tail : arrays of uint16
        The stream, and what stands behind it: one side knows the tail first, the other the words.
    entries : array of uint32, shape (contexts * tokens,)
        To encode: those of all tokens in all contexts.
    pairs, z : arrays of integers, shape (n,)
        To encode, in the order of coding: which entry every sample has, and the number whose low
        bits may follow it.
    samples : array, shape (C, A, Z, Y, X)
        Known once decoded.
    """

    layout: Layout
    halvings: int
    header: bytes
    words: Words

    def __post_init__(self) -> None:
        self.tail = NO_WORDS
        self.entries = np.zeros(0, np.uint32)
        self.pairs = self.z = np.zeros(0, np.int64)
        self.samples: NDArray[np.integer] = np.zeros(0, np.int64)


def group_equal(planes: Sequence[Plane]) -> Iterator[list[Plane]]:
    """Yield planes that can be coded side by side: of equal layouts and lanes, not too many."""
    groups: dict[tuple[Layout, int], list[Plane]] = {}
    for plane in planes:
        groups.setdefault((plane.layout, plane.halvings), []).append(plane)
    for (layout, _), members in groups.items():
        n = max(1, SAMPLES_TOGETHER // layout.n_samples)
        yield from (members[a : a + n] for a in range(0, len(members), n))


# --- encoding -------------------------------------------------------------------------------------


class PlaneWriter(ByteWriter):
    """Bytes, and planes that are written at the end, each at its place."""

    def __init__(self, start: bytes) -> None:
        super().__init__()
        self.data += start
        self.waiting: list[tuple[int, Plane]] = []

    def planes(self, values: NDArray[np.integer], ndim: int, tail: Words = NO_WORDS) -> None:
        """Append samples from 0, (C, A, Z, Y, X); the tail goes with the first plane."""
        for part in np.array_split(values, -(-len(values) // MAX_CHANNELS[ndim])):
            if not part.any() and not tail.size:
                self.number(0)
                continue
            plane = _prepare_plane(part, Layout.of(part.shape, ndim), tail)
            self.waiting.append((len(self.data), plane))
            tail = NO_WORDS

    def finish(self) -> bytes:
        """Return all bytes, once the streams of all planes are encoded."""
        out, at = ByteWriter(), 0
        for place, plane in self.waiting:
            out.data += self.data[at:place]
            at = place
            for n in (len(plane.header), plane.halvings, len(plane.words)):
                out.number(n)
            out.data += plane.header + plane.words.astype("<u2").tobytes()
        return bytes(out.data + self.data[at:])


def finish_writers(writers: Sequence[PlaneWriter]) -> list[bytes]:
    """Return the bytes of some writers; planes of equal layout are encoded side by side."""
    planes = [plane for writer in writers for _, plane in writer.waiting]
    if running.pays(0):
        from elmfield.codec.lossless.stream_kernels import encode_plane

        spread(encode_plane, planes)
    else:
        for group in group_equal(planes):
            _encode_streams(group)
    return [writer.finish() for writer in writers]


def _encode_streams(planes: Sequence[Plane]) -> None:
    """Encode the streams of planes of equal layout and lanes.

    Steps are coded backwards: tokens of a step come before its raw bits when they are read.
    """
    layout, S = planes[0].layout, len(planes)
    steps = layout_steps(layout, L := layout.n_lanes(planes[0].halvings))
    pairs, z = (np.stack(of) for of in zip(*((p.pairs, p.z) for p in planes)))
    entries = np.stack([p.entries.take(p.pairs) for p in planes])
    raw = np.tile(RAW, 2 * BINS).take(pairs)
    pieces = []
    for low in range(0, int(raw.max()), 15):
        bits = np.minimum(np.maximum(raw, low) - low, 15).astype(np.uint32)
        pieces.append((z >> low).astype(np.uint32) & ((1 << bits) - 1))
        pieces[-1] <<= 16
        pieces[-1] |= bits
    some = [np.logical_or.reduceat(piece.any(axis=0), steps[:, 0]).tolist() for piece in pieces]
    size = entries.shape[1] * (1 + len(pieces)) + 4 * L
    stacks, alive = ans.WordStacks([plane.tail for plane in planes], size), 0
    x = np.zeros((S, L), np.uint32)
    for t, (a, b, n) in reversed(list(enumerate(steps.tolist()))):
        if n > alive:
            x[:, alive:n] = stacks.pop_states(n - alive)
            alive = n
        for piece, there in zip(pieces[::-1], some[::-1]):
            if there[t]:
                ans.encode_raw(x, piece[:, a:b], stacks)
        ans.encode(x, entries[:, a:b], TOKEN_BITS, stacks)
    for plane, states, words in zip(planes, x, stacks.content()):
        plane.words = np.concatenate([states.astype("<u4").view("<u2"), words])


def _prepare_plane(values: NDArray[np.integer], layout: Layout, tail: Words) -> Plane:
    """Return what is to be written of samples 0 <= v <= MAX_RANGE, (C, A, Z, Y, X)."""
    frame = Frame.of(values, layout)
    top, learned, shift = int(values.max()), values.size >= LEARNING_SAMPLES, 8
    if learned:
        weights, shift = frame.learn_weights()
        learned = plane_model.is_exact(weights, top, shift)
    if not learned:
        weights = plane_model.set_anchors(
            plane_model.default_weights(frame.stencil, shift), frame.stencil, shift
        )
    none, empty = np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
    model = Model(top, frame.first, shift, weights, none, 0, 0, none, empty, learned)
    if running.pays(values.size >> ENCODING_SHARE):
        from elmfield.codec.lossless.prediction_kernels import predict_frame

        error, z, far = predict_frame(frame, model)
    else:
        error, z, far = frame.predict(model)
    gains = frame.learn_gains(error) if learned else plane_model.default_gains(frame.stencil)
    energy = frame.expect(error, gains)
    lowest, coarse = choose_bins(energy)
    pairs = wavefront.find_contexts(energy, far, lowest, coarse)
    pairs *= N_TOKENS
    pairs += plane_model.find_tokens(z)
    counts = np.bincount(pairs, minlength=2 * BINS * N_TOKENS).reshape(2 * BINS, N_TOKENS)
    classes = plane_model.cluster_contexts(counts)
    levels = plane_model.frequency_levels(counts, classes)
    model = Model(top, frame.first, shift, weights, gains, lowest, coarse, classes, levels, learned)
    entries = model.tables().entries[classes]  # of every context and token
    price = TOKEN_BITS - np.log2(np.maximum(entries & np.uint32(0xFFFF), 1)) + RAW
    bits = float((counts * price).sum()) + 16 * len(tail)
    halvings = 0
    while halvings < MAX_HALVINGS and LANE_BITS * layout.n_lanes(halvings) > LANE_SHARE * bits:
        halvings += 1
    plane = Plane(layout, halvings, model.pack(frame.stencil), NO_WORDS)
    order = coding_order(layout)
    plane.tail, plane.entries, plane.pairs, plane.z = (
        tail,
        entries.ravel(),
        pairs.take(order),
        z.take(order),
    )
    return plane


def layout_steps(layout: Layout, n_lanes: int) -> Integers:
    """Return of every step its samples, from one to another, and the lanes that are in use."""
    ends = np.cumsum(layout.sizes)
    kept = np.minimum.accumulate([n_lanes, *layout.later[:-1].tolist()])
    return np.stack([ends - layout.sizes, ends, kept], axis=1)


# --- decoding -------------------------------------------------------------------------------------


def read_sections(reader: ByteReader, shape: tuple[int, ...], ndim: int) -> list[Plane]:
    """Return the sections of an array of this shape, not decoded yet."""
    C, out = shape[0], []
    n = -(-C // MAX_CHANNELS[ndim])
    for i in range(n):
        layout = Layout.of((C // n + (i < C % n), *shape[1:]), ndim)
        if not (n_header := reader.number()):
            out.append(Plane(layout, 0, b"", NO_WORDS))
            continue
        halvings, n_words = reader.number(), reader.number()
        if halvings > MAX_HALVINGS:
            raise damaged("has impossible lanes")
        header = reader.take(n_header)
        words = reader.array("<u2", n_words).astype(np.uint16)
        out.append(Plane(layout, halvings, header, words))
    return out


def decode_sections(sections: Sequence[Plane]) -> None:
    """Decode sections; by NumPy, those of equal layout are decoded side by side."""
    coded = []
    for section in sections:
        if section.header:
            coded.append(section)
        else:
            section.samples = np.zeros(section.layout.shape, np.int64)
    if running.pays(sum(plane.layout.n_samples for plane in coded)):
        from elmfield.codec.lossless.prediction_kernels import decode_plane

        spread(decode_plane, coded)
        return
    for group in group_equal(coded):
        wave = _Wave(group)
        for t in range(wave.layout.n_steps):
            wave.step(t)
        for one, samples, tail in zip(group, wave.planes(), wave.decoder.finish(), strict=True):
            one.samples, one.tail = samples, tail


class _Wave:
    """Samples by step, (steps, planes * G, lines, B), with margins, and errors of predictions.

    Lane (g, u, b) of step t holds sample x = t - 2u of row y = u - skew(g): neighbours are slices.
    """

    def __init__(self, sections: Sequence[Plane]) -> None:
        self.layout = layout = sections[0].layout
        self.stencil = Stencil.of(layout)
        models = [Model.unpack(section.header, self.stencil) for section in sections]
        self.n, self.G, self.B = len(models), layout.n_groups, layout.n_blocks
        words = [section.words for section in sections]
        self.decoder = ans.Decoder(words, layout.n_lanes(sections[0].halvings))
        self.tables = join_tables([m.tables() for m in models])
        firsts = np.cumsum([0] + [len(m.levels) for m in models])[:-1]
        self.classes = np.concatenate([m.classes + a for m, a in zip(models, firsts, strict=True)])
        numbers = np.array([[m.lowest, m.coarse, m.top, m.first] for m in models])
        columns = np.repeat(numbers, self.G, axis=0).T[..., None, None]
        (self.lowest, self.coarse), (self.top, self.first) = columns[:2], columns[2:].astype(float)
        self.map_start = np.repeat(2 * BINS * np.arange(self.n), self.G)[:, None, None]
        self.matrices = np.concatenate([m.matrices(self.stencil) for m in models])
        self.P = self.matrices.shape[1]
        self.gains = np.concatenate([m.gains[self.stencil.kinds] for m in models]).astype(float)
        self.table = wavefront.level_weights()
        self._allocate()

    def _allocate(self) -> None:
        layout, N = self.layout, self.n * self.G
        self.back = max(run.back for run in self.stencil.samples)
        self.lift = max(abs(run.du) for run in self.stencil.samples) + 1
        lines = self.lift + layout.n_lines + wavefront.BELOW
        self.early = 2 * self.lift + wavefront.LEFT + 1
        steps = self.early + layout.n_steps + wavefront.RIGHT + 2 * wavefront.BELOW
        self.S = np.zeros((steps, self.back + N, lines, self.B))
        self.S[:, self.back :] = self.first
        self.errors = np.zeros(self.S.shape)
        self.squares = np.zeros((4, N, self.P, lines, self.B))
        self.near = np.empty(N * self.stencil.n_neighbours * layout.n_lines * self.B)
        self.past = np.empty(N * self.stencil.n_errors * layout.n_lines * self.B)
        self.edges = self._edges()
        self.live = np.tile(layout.valid, (self.n, 1, 1)).astype(np.float64)
        self.whole = bool(layout.valid.all())

    def _edges(self) -> list[tuple[Integers, Integers, Integers, Integers]]:
        """Lanes at an edge of their block by line: (u, lanes (g, u, b), neighbours, anchors)."""
        layout, out = self.layout, []
        g, b = np.divmod(np.arange(self.n * self.G * self.B), self.B)
        for row, k, anchor in self.stencil.outside:
            y = np.full(self.B, row) if row >= 0 else layout.heights - 1
            u = layout.skew[g % self.G] + y[b]
            order = np.argsort(u, kind="stable")
            lanes = np.stack([g[order], u[order], b[order]])
            out.append((u[order], lanes, k[:, None], anchor[:, None]))
        return out

    def step(self, t: int) -> None:
        """Decode the samples of step t."""
        layout, at, up = self.layout, t + self.early, self.lift
        S = self.S
        a, b = layout.lines(t)
        if t % 2 == 0 and t // 2 < layout.n_lines:  # a row begins: left of it stands what is above
            u = up + t // 2
            S[at - wavefront.LEFT : at, :, u] = S[at - 2, :, u - 1]
        if b > a:
            S[at, self.back :, up + a : up + b] = self._samples(at, a, b)
            self.decoder.release(int(layout.later[t]))
        ended = (t - layout.block[3]) // 2
        if 0 <= ended < layout.n_lines:
            S[at, :, up + ended] = S[at - 1, :, up + ended]
            self.squares[at % 4, :, :, up + ended] = 0.0

    def _samples(self, at: int, a: int, b: int) -> Floats:
        """Samples of lines a to b, (planes * G, lines, B)."""
        near = self._near(at, a, b)
        guess = np.floor(self.matrices @ near).reshape(len(near), self.P, b - a, self.B)
        blend = wavefront.blend(guess, self._past(at, a, b), self.table, 1)
        whole, above = wavefront.round_blend(blend, self.top)
        rows = wavefront.find_contexts(
            self._energy(at, a, b), wavefront.is_far(above), self.lowest, self.coarse
        )
        rows += self.map_start
        valid = None if self.whole else self.layout.valid[:, a:b].ravel().nonzero()[0]
        value = self._residuals(rows, valid)
        np.negative(value, out=value, where=above < 0)
        value += whole
        np.maximum(value, 0.0, out=value)
        np.minimum(value, self.top, out=value)
        if not self.whole:
            # Left of a first row stands `first`: rows take what is there from the line above.
            np.copyto(value, self.first, where=self.live[:, a:b] == 0)
        self._learn(at, a, b, value, guess, blend)
        return value

    def _gather(
        self, source: Floats, runs: list[wavefront.Run], room: Floats, at: int, a: int, b: int
    ) -> Floats:
        """What runs of neighbours of lines a to b hold, (planes * G, neighbours, lines, B)."""
        N, K, k = self.n * self.G, sum(run.n for run in runs), 0
        out = room[: N * K * (b - a) * self.B].reshape(N, K, b - a, self.B)
        for back, _, dx, count, du in runs:
            groups, t = slice(self.back - back, self.back - back + N), at + 2 * du + dx
            lines = slice(self.lift + a + du, self.lift + b + du)
            out[:, k : k + count] = source[t : t + count, groups, lines].transpose(1, 0, 2, 3)
            k += count
        return out

    def _near(self, at: int, a: int, b: int) -> Floats:
        """Neighbours of lines a to b, (planes * G, K, lines * B)."""
        near = self._gather(self.S, self.stencil.samples, self.near, at, a, b)
        for u, lanes, ks, anchor in self.edges:
            first, last = u.searchsorted((a, b))
            if first < last:
                g, line, block = lanes[:, first:last]
                near[g, ks, line - a, block] = near[g, anchor, line - a, block]
        return near.reshape(*near.shape[:2], -1)

    def _past(self, at: int, a: int, b: int) -> Floats:
        """Squared errors of the predictors at four neighbours, summed, plus 256."""
        q, here = self.squares, slice(self.lift + a, self.lift + b)
        over = slice(here.start - 1, here.stop - 1)
        past: Floats = q[(at - 1) % 4, :, :, here] + q[(at - 2) % 4, :, :, over]
        past += q[(at - 3) % 4, :, :, over]
        past += q[(at - 1) % 4, :, :, over]
        past += FRACTION**2
        return past

    def _energy(self, at: int, a: int, b: int) -> Floats:
        """Expected errors, (planes * G, lines, B)."""
        past = self._gather(self.errors, self.stencil.errors, self.past, at, a, b)
        energy = (self.gains[:, None, :-1] @ past.reshape(*past.shape[:2], -1))[:, 0]
        energy += FRACTION * self.gains[:, -1:]
        return np.asarray(energy.reshape(-1, b - a, self.B), np.float64)

    def _residuals(self, rows: Integers, valid: Integers | None) -> Floats:
        """Residuals of the lanes that hold samples, 0 elsewhere, in the shape of the contexts."""
        context = rows.reshape(self.n, -1)
        context = context if valid is None else context[:, valid]
        token = self.decoder.decode(self.tables, self.classes.take(context))
        z, bits = plane_model.LEAST.take(token), RAW.take(token)
        most, low = int(bits.max(initial=0)), 0
        while low < most:
            piece = np.minimum(np.maximum(bits - low, 0), 15)
            z += self.decoder.decode_raw(piece).astype(np.int64) << low
            low += 15
        signed = (z + 1) >> 1
        np.negative(signed, out=signed, where=(z & 1) == 0)
        if valid is None:
            return signed.reshape(rows.shape).astype(np.float64)
        out = np.zeros(rows.shape)
        out.reshape(self.n, -1)[:, valid] = signed
        return out

    def _learn(self, at: int, a: int, b: int, value: Floats, guess: Floats, blend: Floats) -> None:
        """Remember how wrong predictions were, and 0 where there is no sample."""
        here = slice(self.lift + a, self.lift + b)
        true = FRACTION * value
        live = self.live[:, a:b]
        away = guess - true[:, None]
        away *= away
        np.minimum(away, wavefront.SQUARE_LIMIT, out=away)
        if not self.whole:
            away *= live[:, None]
        self.squares[at % 4, :, :, here] = away
        error = np.minimum(np.abs(blend - true), wavefront.ERROR_LIMIT)
        if not self.whole:
            error *= live
        self.errors[at, self.back :, here] = error

    def planes(self) -> list[NDArray[np.integer]]:
        """The decoded planes."""
        layout, out = self.layout, []
        for i in range(self.n):
            steps = self.S[self.early :, self.back + i * self.G :]
            rows = [layout.slant(steps, g, self.lift).transpose(2, 0, 1) for g in range(self.G)]
            out.append(layout.join(np.stack(rows).astype(np.int64)))
        return out
