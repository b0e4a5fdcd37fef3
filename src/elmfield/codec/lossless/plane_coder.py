"""Planes of whole numbers to bytes and back."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.running import spread
from elmfield._array.typing import Bools, Floats, Integers
from elmfield.codec.ans import RAW_BITS, StreamReader, StreamWriter, Words, raw_entries
from elmfield.codec.container import ByteReader, ByteWriter, damaged
from elmfield.codec.lossless import plane_model, wavefront
from elmfield.codec.lossless.frame import Frame, choose_bins, coding_order
from elmfield.codec.lossless.plane_model import N_TOKENS, RAW, Model
from elmfield.codec.lossless.wavefront import BINS, FRACTION, Layout

LEARNING_SAMPLES = 1500
"""With fewer samples nothing is learned: weights would cost more than they save."""
MAX_CHANNELS = {1: 8, 2: 8, 3: 4, 4: 2}
"""Channels of one plane, by number of axes besides; further ones begin anew."""
ENCODING_SHARE = 2
"""Compiled loops save a fourth of the time on a sample that is encoded, as compared to decoded."""

NO_WORDS = np.zeros(0, np.uint16)


# --- encoding -------------------------------------------------------------------------------------


def write_planes(
    out: ByteWriter, values: NDArray[np.integer], ndim: int, tail: Words = NO_WORDS
) -> None:
    """Append samples from 0, (C, A, Z, Y, X); the tail goes with the first plane."""
    for part in np.array_split(values, -(-len(values) // MAX_CHANNELS[ndim])):
        if not part.any() and not tail.size:
            out.number(0)
            continue
        header, stream = _encode_plane(part, Layout.of(part.shape, ndim), tail)
        out.number(len(header))
        out.number(len(stream))
        out.data += header + stream
        tail = NO_WORDS


def _encode_plane(values: NDArray[np.integer], layout: Layout, tail: Words) -> tuple[bytes, bytes]:
    """Return header and stream of samples 0 <= v <= MAX_RANGE, (C, A, Z, Y, X)."""
    frame = Frame.of(values, layout)
    top, learned, shift = int(values.max()), values.size >= LEARNING_SAMPLES, 8
    if learned:
        weights, shift = frame.learn_weights()
        learned = plane_model.is_exact(weights, top, shift)
    if not learned:
        weights = plane_model.default_weights(layout, shift)
    none, empty = np.zeros(0, np.int64), np.zeros((0, 0), np.uint8)
    gains = plane_model.default_gains(layout)
    model = Model(top, frame.first, shift, weights, gains, 0, 0, none, empty, learned)
    if running.pays(values.size >> ENCODING_SHARE):
        from elmfield.codec.lossless.prediction_kernels import predict_frame

        error, z, far = predict_frame(frame, model)
    else:
        error, z, far = frame.predict(model)
    gains = frame.learn_gains(error) if learned else gains
    energy = frame.expect(error, gains)
    lowest, coarse = choose_bins(energy)
    pairs = wavefront.find_contexts(energy, far, lowest, coarse)
    pairs *= N_TOKENS
    pairs += plane_model.find_tokens(z)
    counts = np.bincount(pairs, minlength=2 * BINS * N_TOKENS).reshape(2 * BINS, N_TOKENS)
    classes = plane_model.cluster_contexts(counts)
    levels = plane_model.frequency_levels(counts, classes)
    model = replace(
        model, gains=gains, lowest=lowest, coarse=coarse, classes=classes, levels=levels
    )
    entries = model.tables().entries[classes].ravel()  # of every context and token
    pairs, z = pairs.take(coding_order(layout)), z.take(coding_order(layout))
    stream = _encode_stream(entries.take(pairs), z, RAW.take(pairs % N_TOKENS), layout.sizes, tail)
    return model.pack(layout), stream


def _encode_stream(
    tokens: NDArray[np.uint32], z: Integers, widths: Integers, sizes: Integers, tail: Words
) -> bytes:
    """Return the stream of tokens, and of raw bits of z: 8 at a time behind those of a step."""
    ends, levels = np.cumsum(sizes), [(tokens, sizes)]
    for low in range(0, int(widths.max()), RAW_BITS):
        some = np.flatnonzero(widths > low)
        n = np.diff(np.searchsorted(some, ends), prepend=0)
        levels.append((raw_entries(z[some], low, widths[some]), n))
    cuts = [pairwise([0, *np.cumsum(n).tolist()]) for _, n in levels]
    batches = zip(*([own[a:b] for a, b in cut] for cut, (own, _) in zip(cuts, levels)))
    entries = np.concatenate([batch for step in batches for batch in step])
    writer = StreamWriter()
    writer.append(entries, np.stack([n for _, n in levels], axis=1).ravel())
    return writer.content(tail)


# --- decoding -------------------------------------------------------------------------------------


def read_planes(
    reader: ByteReader, shape: tuple[int, ...], ndim: int, n_words: int = 0
) -> tuple[NDArray[np.integer], Words]:
    """Return what :func:`write_planes` wrote: samples of this shape, and a tail of `n_words`."""
    C, coded = shape[0], []
    n = -(-C // MAX_CHANNELS[ndim])
    for i in range(n):
        layout = Layout.of((C // n + (i < C % n), *shape[1:]), ndim)
        n_header = reader.number()
        n_stream = reader.number() if n_header else 0
        coded.append((layout, reader.take(n_header), reader.take(n_stream)))
    running.pays(sum(math.prod(layout.shape) for layout, header, _ in coded if header))
    found = spread(_decode_plane, coded)
    tail = found[0][1]
    if tail.size < n_words:
        raise damaged("lacks low bits")
    if tail[n_words:].any() or any(rest.any() for _, rest in found[1:]):
        raise damaged("holds more than its samples need")
    planes = [samples for samples, _ in found]
    return planes[0] if n == 1 else np.concatenate(planes), tail[:n_words]


def _decode_plane(coded: tuple[Layout, bytes, bytes]) -> tuple[NDArray[np.integer], Words]:
    """Return the samples of a plane, (C, A, Z, Y, X), and the tail of its stream.

    Without a header all samples are 0.
    """
    layout, header, data = coded
    if not header:
        return np.zeros(layout.shape, np.int64), NO_WORDS
    model, stream = Model.unpack(header, layout), StreamReader(data)
    if running.pays(0):
        from elmfield.codec.lossless.prediction_kernels import decode_plane

        samples = decode_plane(layout, model, stream)
    else:
        samples = _Wave(layout, model, stream).samples()
    return samples, stream.finish()


class _Wave:
    """Samples by step, (steps, G, lines, B), with margins, and errors of predictions.

    Lane (g, u, b) of step t holds sample x = t - 2u of row y = u - skew(g).
    """

    def __init__(self, layout: Layout, model: Model, stream: StreamReader) -> None:
        self.layout, self.model = layout, model
        self.stream, self.tables = stream, model.tables()
        self.N, self.B, self.top = layout.n_groups, layout.n_blocks, float(model.top)
        self.matrices = model.matrices(layout)
        self.gains = model.gains[layout.kinds].astype(float)
        self.back = int(layout.near.back.max())
        self.lift = 1 - int(layout.near.lines.min())
        self.early = 2 * self.lift + wavefront.LEFT + 1
        steps = self.early + layout.n_steps + wavefront.RIGHT + 2 * wavefront.BELOW
        lines = self.lift + layout.n_lines + wavefront.BELOW
        self.S = np.zeros((steps, self.back + self.N, lines, self.B))
        self.S[:, self.back :] = model.first
        self.errors = np.zeros(self.S.shape)
        self.squares = np.zeros((4, self.N, self.matrices.shape[1], lines, self.B))
        self.near, self.past = self._places(layout.near), self._places(layout.past)
        y = np.arange(layout.n_lines)[:, None] - layout.skew[:, None, None]
        for row, k, anchor in layout.outside:
            g, u, b = np.nonzero(y == np.where(row < 0, layout.rows[0] - 1, row))
            self.near[g, k[:, None], u, b] = self.near[g, anchor[:, None], u, b]

    def _places(self, near: wavefront.Neighbours) -> Integers:
        """Return where neighbours of all lanes lie at step 0, flat, (G, neighbours, lines, B)."""
        step = self.S[0]
        lanes = np.arange(step.size).reshape(step.shape)[self.back :, self.lift :]
        offsets = near.steps * step.size + (near.lines - near.back * step.shape[1]) * self.B
        return np.asarray(lanes[:, None, : self.layout.n_lines] + offsets[:, None, None])

    def step(self, t: int) -> None:
        """Decode the samples of step t."""
        layout, at, up = self.layout, t + self.early, self.lift
        S = self.S
        a, b = layout.spans[t].tolist()
        if t % 2 == 0 and t // 2 < layout.n_lines:  # a row begins: left of it stands what is above
            u = up + t // 2
            S[at - wavefront.LEFT : at, :, u] = S[at - 2, :, u - 1]
        if b > a:
            S[at, self.back :, up + a : up + b] = self._samples(at, a, b)
        ended = (t - layout.block[3]) // 2
        if 0 <= ended < layout.n_lines:
            S[at, :, up + ended] = S[at - 1, :, up + ended]
            self.squares[at % 4, :, :, up + ended] = 0.0

    def _samples(self, at: int, a: int, b: int) -> Floats:
        """Samples of lines a to b, (G, lines, B)."""
        near = self._gather(self.S, self.near, at, a, b)
        guess = np.floor(self.matrices @ near).reshape(self.N, -1, b - a, self.B)
        blend = wavefront.blend(guess, self._past(at, a, b), 1)
        whole, above = wavefront.round_blend(blend, self.top)
        far, model = wavefront.is_far(above), self.model
        rows = wavefront.find_contexts(self._energy(at, a, b), far, model.lowest, model.coarse)
        valid = self.layout.valid[:, a:b]
        value = self._residuals(rows, valid)
        np.negative(value, out=value, where=above < 0)
        value += whole
        np.maximum(value, 0.0, out=value)
        np.minimum(value, self.top, out=value)
        # Left of a first row stands `first`: rows take what is there from the line above.
        np.copyto(value, model.first, where=~valid)
        self._learn(at, a, b, value, guess, blend, valid)
        return value

    def _gather(self, source: Floats, places: Integers, at: int, a: int, b: int) -> Floats:
        """Return what neighbours of lines a to b hold, (G, neighbours, lines * B)."""
        some = places[:, :, a:b] + at * self.S[0].size
        return np.asarray(source.take(some.reshape(*some.shape[:2], -1)))

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
        """Expected errors, (G, lines, B)."""
        past = self._gather(self.errors, self.past, at, a, b)
        energy = (self.gains[:, None, :-1] @ past)[:, 0]
        energy += FRACTION * self.gains[:, -1:]
        return np.asarray(energy.reshape(-1, b - a, self.B), np.float64)

    def _residuals(self, rows: Integers, valid: Bools) -> Floats:
        """Residuals of the lanes that hold samples, 0 elsewhere, in the shape of the contexts."""
        token = self.stream.decode(self.tables, self.model.classes.take(rows[valid]))
        z = plane_model.LEAST.take(token) + self.stream.numbers(RAW.take(token))
        signed = (z + 1) >> 1
        np.negative(signed, out=signed, where=(z & 1) == 0)
        out = np.zeros(rows.shape)
        out[valid] = signed
        return out

    def _learn(
        self, at: int, a: int, b: int, value: Floats, guess: Floats, blend: Floats, valid: Bools
    ) -> None:
        """Remember how wrong predictions were, and 0 where there is no sample."""
        here = slice(self.lift + a, self.lift + b)
        true = FRACTION * value
        away = guess - true[:, None]
        away *= away
        np.minimum(away, wavefront.SQUARE_LIMIT, out=away)
        away *= valid[:, None]
        self.squares[at % 4, :, :, here] = away
        error = np.minimum(np.abs(blend - true), wavefront.ERROR_LIMIT)
        error *= valid
        self.errors[at, self.back :, here] = error

    def samples(self) -> NDArray[np.integer]:
        """Decode and return the plane."""
        for t in range(self.layout.n_steps):
            self.step(t)
        layout, steps = self.layout, self.S[self.early :, self.back :]
        rows = [layout.slant(steps, g, self.lift).transpose(2, 0, 1) for g in range(self.N)]
        return layout.join(np.stack(rows).astype(np.int64))
