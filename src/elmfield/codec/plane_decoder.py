"""Planes of integers from bytes, step by step, several of one layout side by side."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec import neighbours
from elmfield.codec.ans import Decoder, Words, joined
from elmfield.codec.neighbours import BINS, FRACTION, Stencil
from elmfield.codec.plane import Model
from elmfield.codec.plane_encoder import MOST_LANES, present_errors
from elmfield.codec.tokens import LEAST, RAW
from elmfield.codec.wavefront import ABOVE, BELOW, LEFT, RIGHT, Layout

KEPT = 16
"""Steps of errors that are remembered: a neighbour's is at most 10 back with one more axis, 20 with two."""


def decoded(
    headers: Sequence[bytes], streams: Sequence[Words], layout: Layout
) -> tuple[list[Integers], list[Words]]:
    """Planes (C, A, Z, Y, X) and tails of packed planes that share a layout."""
    wave = _Wave(headers, streams, layout)
    for t in range(layout.n_steps):
        wave.step(t)
    return wave.planes(), wave.decoder.finish()


class _Wave:
    """Samples by step, (steps, planes * G, lines, B), with room around, and what was learned of them.

    Lane (g, u, b) of step t holds sample x = t - 2u of row y = u - skew(g): neighbours are slices.
    """

    def __init__(self, headers: Sequence[bytes], streams: Sequence[Words], layout: Layout) -> None:
        self.layout, self.stencil = layout, Stencil(layout)
        models = [Model.unpacked(h, self.stencil) for h in headers]
        self.n, self.G, self.B = len(models), layout.n_groups, layout.n_blocks
        sizes = layout.sizes
        self.later = np.append(np.maximum.accumulate(sizes[::-1])[::-1][1:], 0).tolist()
        self.decoder = Decoder(streams, int(min(sizes.max(), MOST_LANES)))
        self.tables = joined([m.tables() for m in models])
        firsts = np.cumsum([0] + [len(m.levels) for m in models])[:-1]
        self.classes = np.concatenate([m.classes + a for m, a in zip(models, firsts, strict=True)])
        self.map_start = np.repeat(2 * BINS * np.arange(self.n), self.G)[:, None, None]
        self.lowest = np.repeat([m.lowest for m in models], self.G)[:, None, None]
        self.top = np.repeat([float(m.top) for m in models], self.G)[:, None, None]
        self.matrices = np.concatenate([m.matrices(self.stencil) for m in models])
        self.P = self.matrices.shape[1]
        present = present_errors(self.stencil)
        self.gains = np.concatenate([_gains(m, present)[self.stencil.kinds] for m in models])
        self.table = neighbours.weights_of_levels()
        self._rooms([m.first for m in models])

    def _rooms(self, firsts: list[int]) -> None:
        layout, N = self.layout, self.n * self.G
        self.back = max(run[0] for run in self.stencil.samples)
        self.lift = int(max(abs(self._du(run)) for run in self.stencil.samples)) + 1
        lines = self.lift + layout.n_lines + BELOW
        self.early = 2 * self.lift + LEFT + 1
        steps = self.early + layout.n_steps + RIGHT + 2 * BELOW
        first = np.repeat(np.array([0] * self.back + firsts, float), [1] * self.back + [self.G] * self.n)
        self.S = np.empty((steps, self.back + N, lines, self.B))
        self.S[...] = first[:, None, None]
        self.errors = np.zeros((KEPT * 2, self.back + N, lines, self.B))
        self.squares = np.zeros((4, N, self.P, lines, self.B))
        self.near = np.empty((N, self.stencil.n_neighbours, layout.n_lines * self.B))
        self.past = np.empty((N, self.stencil.n_errors, layout.n_lines * self.B))
        self._guards()

    def _du(self, run: tuple[int, int, int, int, int]) -> int:
        """Lines to the neighbour of a run."""
        return run[1] - run[4]

    def _guards(self) -> None:
        """Rows that repeat another of the same step: two above the first, one below the last."""
        layout = self.layout
        lines, N = self.S.shape[2], self.S.shape[1]
        lane = np.arange(N * lines * self.B).reshape(N, lines, self.B)[self.back :]
        lane = lane.reshape(self.n, self.G, lines, self.B)
        to, source = [], []
        for g, skew in enumerate(layout.skew.tolist()):
            row = self.lift + skew
            for up in range(1, ABOVE + 1):
                to.append(lane[:, g, row - up])
                source.append(lane[:, g, row])
            b = np.arange(self.B)
            to.append(lane[:, g, row + layout.heights, b])
            source.append(lane[:, g, row + layout.heights - 1, b])
        self.guard, self.guarded = np.concatenate(to, axis=None), np.concatenate(source, axis=None)
        self.live = np.tile(layout.valid, (self.n, 1, 1)).astype(np.float64)

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
        ended = (t - layout.block[2]) // 2
        if 0 <= ended < layout.n_lines:
            S[at, :, up + ended] = S[at - 1, :, up + ended]
            self.errors[at % len(self.errors), :, up + ended] = 0.0
            self.squares[at % 4, :, :, up + ended] = 0.0
        flat = S[at].reshape(-1)
        flat[self.guard] = flat[self.guarded]

    def _samples(self, at: int, a: int, b: int) -> Floats:
        """Samples of lines a to b, (planes * G, lines, B), where there are any; guesses elsewhere."""
        N, lines, n, up = self.n * self.G, b - a, (b - a) * self.B, self.lift
        near, k = self.near[:, :, :n], 0
        for run in self.stencil.samples:
            back, _, dx, count, _ = run
            du = self._du(run)
            t0 = at + 2 * du + dx
            source = self.S[t0 : t0 + count, self.back - back : self.back - back + N, up + a + du : up + b + du]
            near[:, k : k + count] = source.transpose(1, 0, 2, 3).reshape(N, count, n)
            k += count
        guess = np.floor(self.matrices @ near).reshape(N, self.P, lines, self.B)
        q, here, above_line = self.squares, slice(up + a, up + b), slice(up + a - 1, up + b - 1)
        past = q[(at - 1) % 4, :, :, here] + q[(at - 2) % 4, :, :, above_line]
        past += q[(at - 3) % 4, :, :, above_line]
        past += q[(at - 1) % 4, :, :, above_line]
        past += FRACTION**2
        blend = neighbours.blended(guess, past, self.table, 1)
        whole, above = neighbours.rounded(blend, self.top)
        rows = neighbours.contexts(self._energy(at, a, b), above, self.lowest)
        rows += self.map_start
        valid = np.flatnonzero(self.layout.valid[:, a:b])
        residual = self._residuals(rows, valid)
        np.negative(residual, out=residual, where=above < 0)
        value = np.clip(whole + residual, 0.0, self.top)
        self._learn(at, a, b, value, guess, blend)
        return value

    def _energy(self, at: int, a: int, b: int) -> Floats:
        """Expected errors, (planes * G, lines, B)."""
        N, n, up, kept = self.n * self.G, (b - a) * self.B, self.lift, len(self.errors)
        past, k = self.past[:, :, :n], 0
        for run in self.stencil.errors:
            back, _, dx, count, _ = run
            du = self._du(run)
            groups = slice(self.back - back, self.back - back + N)
            for j in range(count):
                row = self.errors[(at + 2 * du + dx + j) % kept]
                past[:, k] = row[groups, up + a + du : up + b + du].reshape(N, n)
                k += 1
        energy = (self.gains[:, None, :-1] @ past)[:, 0]
        energy += FRACTION * self.gains[:, -1:]
        return np.asarray(energy.reshape(N, b - a, self.B), np.float64)

    def _residuals(self, rows: Integers, valid: Integers) -> Floats:
        """Residuals of the lanes that hold samples, 0 elsewhere, in the shape of the contexts `rows`."""
        context = rows.reshape(self.n, -1)
        whole = valid.size == context.shape[1]
        context = context if whole else context[:, valid]
        token = self.decoder.decode(self.tables, self.classes[context])
        z = LEAST[token]
        bits = RAW[token]
        low = 0
        while (piece := np.clip(bits - low, 0, 15)).any():
            z += self.decoder.raw(piece).astype(np.int64) << low
            low += 15
        signed = np.where(z & 1, (z + 1) >> 1, -(z >> 1)).astype(np.float64)
        if whole:
            return signed.reshape(rows.shape)
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
        away *= live[:, None]
        self.squares[at % 4, :, :, here] = away
        error = np.minimum(np.abs(blend - true), neighbours.ERROR_LIMIT)
        error *= live
        self.errors[at % len(self.errors), self.back :, here] = error

    def planes(self) -> list[Integers]:
        """The decoded planes."""
        layout, out = self.layout, []
        for i in range(self.n):
            steps = self.S[self.early :, self.back + i * self.G :]
            rows = [layout.slanted(steps, g, self.lift).transpose(2, 0, 1) for g in range(self.G)]
            out.append(layout.joined(np.stack(rows).astype(np.int64)))
        return out


def _gains(model: Model, present: NDArray[np.bool_]) -> Floats:
    gains = model.gains.astype(np.float64)
    gains[:, :-1] *= present
    return gains
