"""Planes of integers from bytes, step by step, several of one layout side by side."""

from collections.abc import Sequence

import numpy as np

from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import Decoder, Words, joined
from elmfield.codec.lossless import neighbours
from elmfield.codec.lossless.neighbours import BINS, FRACTION, Stencil
from elmfield.codec.lossless.plane import Model
from elmfield.codec.lossless.tokens import LEAST, RAW
from elmfield.codec.lossless.wavefront import BELOW, LEFT, RIGHT, Layout


def decoded(
    headers: Sequence[bytes], streams: Sequence[Words], layout: Layout, lanes: int
) -> tuple[list[Integers], list[Words]]:
    """Planes (C, A, Z, Y, X) and tails of packed planes that share a layout."""
    wave = _Wave(headers, streams, layout, lanes)
    for t in range(layout.n_steps):
        wave.step(t)
    return wave.planes(), wave.decoder.finish()


class _Wave:
    """Samples by step, (steps, planes * G, lines, B), with room around, and errors of predictions.

    Lane (g, u, b) of step t holds sample x = t - 2u of row y = u - skew(g): neighbours are slices.
    """

    def __init__(
        self, headers: Sequence[bytes], streams: Sequence[Words], layout: Layout, lanes: int
    ) -> None:
        self.layout, self.stencil = layout, Stencil.of(layout)
        models = [Model.unpacked(h, self.stencil) for h in headers]
        self.n, self.G, self.B = len(models), layout.n_groups, layout.n_blocks
        sizes = layout.sizes
        self.later = np.append(np.maximum.accumulate(sizes[::-1])[::-1][1:], 0).tolist()
        self.decoder = Decoder(streams, lanes)
        self.tables = joined([m.tables() for m in models])
        firsts = np.cumsum([0] + [len(m.levels) for m in models])[:-1]
        self.classes = np.concatenate([m.classes + a for m, a in zip(models, firsts, strict=True)])
        self.map_start = np.repeat(2 * BINS * np.arange(self.n), self.G)[:, None, None]
        self.lowest = np.repeat([m.lowest for m in models], self.G)[:, None, None]
        self.coarse = np.repeat([m.coarse for m in models], self.G)[:, None, None]
        self.top = np.repeat([float(m.top) for m in models], self.G)[:, None, None]
        self.matrices = np.concatenate([m.matrices(self.stencil) for m in models])
        self.P = self.matrices.shape[1]
        self.gains = np.concatenate([m.gains[self.stencil.kinds] for m in models]).astype(float)
        self.table = neighbours.weights_of_levels()
        self._rooms([m.first for m in models])

    def _rooms(self, firsts: list[int]) -> None:
        layout, N = self.layout, self.n * self.G
        self.back = max(run.back for run in self.stencil.samples)
        self.lift = max(abs(run.du) for run in self.stencil.samples) + 1
        lines = self.lift + layout.n_lines + BELOW
        self.early = 2 * self.lift + LEFT + 1
        steps = self.early + layout.n_steps + RIGHT + 2 * BELOW
        first = np.repeat(
            np.array([0] * self.back + firsts, float), [1] * self.back + [self.G] * self.n
        )
        self.first = np.repeat(np.array(firsts, float), self.G)[:, None, None]
        self.S = np.empty((steps, self.back + N, lines, self.B))
        self.S[...] = first[:, None, None]
        self.errors = np.zeros(self.S.shape)
        self.squares = np.zeros((4, N, self.P, lines, self.B))
        self.K, self.F = self.stencil.n_neighbours, self.stencil.n_errors
        self.near = np.empty(N * self.K * layout.n_lines * self.B)
        self.past = np.empty(N * self.F * layout.n_lines * self.B)
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
            S[at - LEFT : at, :, u] = S[at - 2, :, u - 1]
        if b > a:
            S[at, self.back :, up + a : up + b] = self._samples(at, a, b)
            self.decoder.release(self.later[t])
        ended = (t - layout.block[3]) // 2
        if 0 <= ended < layout.n_lines:
            S[at, :, up + ended] = S[at - 1, :, up + ended]
            self.squares[at % 4, :, :, up + ended] = 0.0

    def _samples(self, at: int, a: int, b: int) -> Floats:
        """Samples of lines a to b, (planes * G, lines, B)."""
        near = self._near(at, a, b)
        guess = np.floor(self.matrices @ near).reshape(len(near), self.P, b - a, self.B)
        blend = neighbours.blended(guess, self._past(at, a, b), self.table, 1)
        whole, above = neighbours.rounded(blend, self.top)
        rows = neighbours.contexts(
            self._energy(at, a, b), neighbours.far(above), self.lowest, self.coarse
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

    def _near(self, at: int, a: int, b: int) -> Floats:
        """Neighbours of lines a to b, (planes * G, K, lines * B)."""
        N, up, k = self.n * self.G, self.lift, 0
        size = N * self.K * (b - a) * self.B
        near = self.near[:size].reshape(N, self.K, b - a, self.B)
        for back, _, dx, count, du in self.stencil.samples:
            groups, t = slice(self.back - back, self.back - back + N), at + 2 * du + dx
            source = self.S[t : t + count, groups, up + a + du : up + b + du]
            near[:, k : k + count] = source.transpose(1, 0, 2, 3)
            k += count
        for u, lanes, ks, anchor in self.edges:
            first, last = u.searchsorted((a, b))
            if first < last:
                g, line, block = lanes[:, first:last]
                near[g, ks, line - a, block] = near[g, anchor, line - a, block]
        return near.reshape(N, self.K, -1)

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
        N, n, up = self.n * self.G, (b - a) * self.B, self.lift
        past, k = self.past[: N * self.F * n].reshape(N, self.F, b - a, self.B), 0
        for back, _, dx, count, du in self.stencil.errors:
            t = at + 2 * du + dx
            source = self.errors[t : t + count, self.back - back : self.back - back + N]
            past[:, k : k + count] = source[:, :, up + a + du : up + b + du].transpose(1, 0, 2, 3)
            k += count
        energy = (self.gains[:, None, :-1] @ past.reshape(N, self.F, n))[:, 0]
        energy += FRACTION * self.gains[:, -1:]
        return np.asarray(energy.reshape(N, b - a, self.B), np.float64)

    def _residuals(self, rows: Integers, valid: Integers | None) -> Floats:
        """Residuals of the lanes that hold samples, 0 elsewhere, in the shape of the contexts."""
        context = rows.reshape(self.n, -1)
        context = context if valid is None else context[:, valid]
        token = self.decoder.decode(self.tables, self.classes.take(context))
        z, bits = LEAST.take(token), RAW.take(token)
        most, low = int(bits.max(initial=0)), 0
        while low < most:
            piece = np.minimum(np.maximum(bits - low, 0), 15)
            z += self.decoder.raw(piece).astype(np.int64) << low
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
        np.minimum(away, neighbours.SQUARE_LIMIT, out=away)
        if not self.whole:
            away *= live[:, None]
        self.squares[at % 4, :, :, here] = away
        error = np.minimum(np.abs(blend - true), neighbours.ERROR_LIMIT)
        if not self.whole:
            error *= live
        self.errors[at, self.back :, here] = error

    def planes(self) -> list[Integers]:
        """The decoded planes."""
        layout, out = self.layout, []
        for i in range(self.n):
            steps = self.S[self.early :, self.back + i * self.G :]
            rows = [layout.slanted(steps, g, self.lift).transpose(2, 0, 1) for g in range(self.G)]
            out.append(layout.joined(np.stack(rows).astype(np.int64)))
        return out
