"""The encoder's side of prediction: all samples of a plane at once, and learning how.

Only the encoder learns: in float64, from a part of the samples; the decoder gets whole numbers.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from elmfield._array.typing import Bools, Floats, Integers
from elmfield.codec.lossless import wavefront
from elmfield.codec.lossless.plane_model import Model, set_anchors
from elmfield.codec.lossless.wavefront import (
    ABOVE,
    BELOW,
    BINS,
    ERROR_LIMIT,
    FRACTION,
    LEFT,
    RIGHT,
    SQUARE_LIMIT,
    Layout,
    Run,
    Stencil,
)

CHUNK_SAMPLES = 8192


@dataclass(frozen=True)
class Frame:
    """Blocks with what stands around them, flat, with `front` more numbers before and behind.

    Left of a row stands the first sample of the row above, left of row 0 `first`; right of a row
    stands its last sample. Rows above and below are never read (:meth:`Stencil.outside`).

    Parameters
    ----------
    stencil : Stencil
        Neighbours.
    samples : array
        Blocks in their frames.
    shape : tuple of int
        (G, B, rows, columns) of the framed blocks.
    rows : array of bool, shape (G, B, hy)
        Which rows of blocks lie in the array.
    """

    stencil: Stencil
    samples: Floats
    shape: tuple[int, int, int, int]
    front: int
    rows: NDArray[np.bool_]
    first: int

    @classmethod
    def of(cls, values: NDArray[np.integer], layout: Layout) -> "Frame":
        """Return the frame of samples (C, A, Z, Y, X)."""
        stencil, blocks = Stencil.of(layout), layout.cut(values)
        G, B, hy, hx = blocks.shape
        shape = _, _, H, W = G, B, ABOVE + hy + BELOW, LEFT + hx + RIGHT
        front = 1 + max(run.back * B * H * W + 3 * W for run in stencil.samples)
        samples, first = np.zeros(G * B * H * W + 2 * front), int(blocks[0, 0, 0, 0])
        framed = samples[front:-front].reshape(shape)
        framed[...] = first
        inner = framed[:, :, ABOVE : ABOVE + hy]
        inner[..., LEFT : LEFT + hx] = blocks
        inner[:, :, 1:, :LEFT] = blocks[:, :, :-1, :1]
        inner[..., LEFT + hx :] = blocks[..., -1:]
        rows = (np.arange(hy) < layout.heights[:, None]) & layout.filled[:, :, None]
        return cls(stencil, samples, shape, front, rows, first)

    def _blocks(self, flat: NDArray[Any]) -> NDArray[Any]:
        """A view of flat framed numbers without their frames, (G, B, hy, hx)."""
        hy, hx = self.stencil.layout.block[2:]
        framed = flat[self.front : -self.front].reshape(self.shape)
        return framed[:, :, ABOVE : ABOVE + hy, LEFT : LEFT + hx]

    def _samples_of(self, flat: Floats) -> Floats:
        """The numbers that belong to samples, in the order (g, b, y, x), shape (n,)."""
        return self._blocks(flat)[self.rows].ravel()

    def _offsets(self, runs: list[Run]) -> list[int]:
        """The flat offset of every neighbour."""
        _, B, H, W = self.shape
        return [r.dx + r.dy * W - r.back * B * H * W + j for r in runs for j in range(r.n)]

    def learn_weights(self) -> tuple[Integers, int]:
        """Return learned weights of every kind of group, and their bits."""
        stencil = self.stencil
        found, shift = [], 6
        for kind in range(stencil.n_kinds):
            windows = choose_windows(stencil, kind)
            X, target = self._within(windows, self.samples, stencil.samples)
            for row, k, anchor in stencil.outside:
                last = stencil.layout.heights[windows.block] - 1
                down = (row if row >= 0 else last) - windows.row
                n = np.flatnonzero((down >= 0) & (down < windows.shape[0]))
                X[k[:, None], n, down[n]] = X[anchor[:, None], n, down[n]]
            found.append(_learn_predictors(X, target, stencil, stencil.present[kind]))
            shift = max(shift, _choose_shift(X, target, found[-1]))
        whole = np.clip(np.rint(np.stack(found) * (1 << shift)), -32767, 32767).astype(np.int64)
        return set_anchors(whole, stencil, shift), shift

    def _within(self, windows: "Windows", flat: Floats, runs: list[Run]) -> tuple[Floats, Floats]:
        """Numbers of windows: those of neighbours, (k, n, rows, columns), and their own."""
        _, B, H, W = self.shape
        block = windows.group * B + windows.block
        corner = (block * H + ABOVE + windows.row) * W + LEFT + windows.column + self.front
        rows, columns = windows.shape
        size = flat.size - (rows - 1) * W - columns + 1
        step = flat.itemsize
        starts = as_strided(flat, (size, rows, columns), (step, W * step, step), writeable=False)
        return starts[corner + np.array(self._offsets(runs))[:, None]], starts[corner]

    def _edges(self) -> list[tuple[NDArray[np.bool_], Integers, Integers]]:
        """Which samples lie on an edge of their block, flat, and which neighbours read anchors."""
        B, out = self.shape[1], []
        for row, k, anchor in self.stencil.outside:
            edge = np.zeros(self.shape, np.bool_)
            rows = np.full(B, ABOVE + row) if row >= 0 else ABOVE - 1 + self.stencil.layout.heights
            edge[:, np.arange(B), rows] = True
            out.append((edge.ravel(), k, anchor))
        return out

    def _chunks(self) -> list[tuple[int, int, int]]:
        """(group, first, last) flat spans that cover all groups in order."""
        size = self.shape[1] * self.shape[2] * self.shape[3]
        out = []
        for g in range(self.shape[0]):
            begin, end = self.front + g * size, self.front + (g + 1) * size
            out += [(g, a, min(a + CHUNK_SAMPLES, end)) for a in range(begin, end, CHUNK_SAMPLES)]
        return out

    def predict(self, model: Model) -> tuple[Floats, Integers, Bools]:
        """Predict all samples.

        Returns
        -------
        error : array
            Errors of the blend in sixteenths, flat and framed.
        z, far : arrays, shape (n,)
            Residuals as numbers from 0, and whether the blend is far from a whole number.
        """
        S, row, used = self.samples, self.shape[3] + 1, self.stencil.used
        matrices, offsets = model.matrices(self.stencil), self._offsets(self.stencil.samples)
        outside = np.ones(S.size, np.bool_)
        self._blocks(outside)[...] = ~self.rows[..., None]
        table, edges = wavefront.level_weights(), self._edges()
        squares = np.zeros((matrices.shape[1], row + CHUNK_SAMPLES))  # from a row before
        error, blend = np.zeros(S.size), np.zeros(S.size)
        near = np.zeros((self.stencil.n_neighbours, CHUNK_SAMPLES))
        for g, a, b in self._chunks():
            n, K = b - a, int(used[g])
            for k, j in enumerate(offsets[:K]):
                near[k, :n] = S[a + j : b + j]
            for edge, ks, anchor in edges:
                at = np.flatnonzero(edge[a - self.front : b - self.front])
                if at.size:
                    near[ks[:, None], at] = near[anchor[:, None], at]
            guess = np.floor(matrices[g, :, :K] @ near[:K, :n])
            true = FRACTION * S[a:b]
            away = guess - true
            away *= away
            np.minimum(away, SQUARE_LIMIT, out=away)
            frame = outside[a:b].nonzero()[0]
            away[:, frame] = 0.0
            squares[:, row : row + n] = away
            past = squares[:, row - 1 : row - 1 + n] + squares[:, 1 : 1 + n]
            past += squares[:, :n]
            past += squares[:, 2 : 2 + n]
            past += FRACTION**2
            squares[:, :row] = squares[:, n : n + row].copy()
            blend[a:b] = wavefront.blend(guess, past, table, 0)
            left = np.minimum(np.abs(blend[a:b] - true), ERROR_LIMIT)
            left[frame] = 0.0
            error[a:b] = left
        whole, above = wavefront.round_blend(self._samples_of(blend), float(model.top))
        residual = (self._samples_of(S) - whole).astype(np.int64)
        np.negative(residual, out=residual, where=above < 0)
        # 0, 1, -1, 2, -2, ... become 0, 1, 2, 3, 4, ...
        z = 2 * np.abs(residual)
        z -= residual > 0
        return error, z, wavefront.is_far(above)

    def learn_gains(self, error: Floats) -> Integers:
        """Return learned weights of past errors, one row for each kind of group."""
        out = []
        for kind in range(self.stencil.n_kinds):
            windows = choose_windows(self.stencil, kind)
            past, own = self._within(windows, error, self.stencil.errors)
            there = self.stencil.present_errors[kind][:, None]
            out.append(_learn_gains(past.reshape(len(past), -1) * there, own.ravel()))
        return np.stack(out)

    def expect(self, error: Floats, gains: Integers) -> Floats:
        """Return the expected error of every sample."""
        offsets = self._offsets(self.stencil.errors)
        energy = np.zeros(error.size)
        per_group = gains[self.stencil.kinds].astype(np.float64)
        for g, a, b in self._chunks():
            total = np.full(b - a, FRACTION * per_group[g, -1])
            for gain, j in zip(per_group[g, :-1], offsets, strict=True):
                if gain:
                    total += gain * error[a + j : b + j]
            energy[a:b] = total
        return self._samples_of(energy)

    def coding_order(self) -> NDArray[np.intp]:
        """Return the numbers of samples, counted as (g, b, y, x), in the order of coding."""
        layout, (G, B, _, _) = self.stencil.layout, self.shape
        full = np.zeros((G, B, *layout.block[2:]), np.intp)
        full[self.rows] = 1 + np.arange(self.rows.sum() * full.shape[3]).reshape(-1, full.shape[3])
        steps = np.zeros((layout.n_steps, G, layout.n_lines, B), np.intp)
        for g in range(G):
            layout.slant(steps, g)[...] = full[g].transpose(1, 2, 0)
        flat = steps.ravel()
        return flat[flat > 0] - 1


def choose_bins(energy: Floats) -> tuple[int, int]:
    """Return the lowest bin of expected errors, and how coarse bins are."""
    some = np.sort(energy[:: max(1, energy.size // 4096)].view(np.int64) >> 50)
    low, high = some[int(0.002 * some.size)], some[int(0.995 * (some.size - 1))]
    coarse = 0 if high - low < BINS else 1 if high - low < 2 * BINS else 2
    return int(low) >> coarse, coarse


# --- learning -------------------------------------------------------------------------------------

LEARNED_SAMPLES = 16_000
"""Samples to learn predictors from."""
WINDOW_ROWS, WINDOW_COLUMNS = 4, 16
PREDICTORS = 4
ROUNDS = 4
"""So many times samples go to the predictor that does best around them, and it is fitted anew."""


class Windows(NamedTuple):
    """Some samples of a kind of group, n times rows x columns.

    Parameters
    ----------
    group, block, row, column : arrays, shape (n,)
        Where the first sample of each lies.
    shape : tuple of int
        Rows and columns.
    """

    group: Integers
    block: Integers
    row: Integers
    column: Integers
    shape: tuple[int, int]


@lru_cache(maxsize=64)
def choose_windows(stencil: Stencil, kind: int) -> Windows:
    """Return windows all over a kind of group."""
    layout = stencil.layout
    hy, hx = layout.block[2:]
    rows, columns = min(WINDOW_ROWS, hy), min(WINDOW_COLUMNS, hx)
    groups = np.flatnonzero(stencil.kinds == kind)
    starts = np.arange(0, hy - rows + 1, rows), np.arange(0, hx - columns + 1, columns)
    corners = np.meshgrid(groups, np.arange(layout.n_blocks), *starts, indexing="ij")
    g, b, y, x = (v.ravel() for v in corners)
    inside = np.flatnonzero((y + rows <= layout.heights[b]) & layout.filled[g, b])
    if inside.size:
        g, b, y, x = g[inside], b[inside], y[inside], x[inside]
    # Every window is as likely: steps of the golden ratio through all of them, none twice.
    most = min(len(g), max(1, LEARNED_SAMPLES // (rows * columns)))
    some = np.unique((np.arange(most) * 0.6180339887498949 % 1.0 * len(g)).astype(int))
    return Windows(g[some], b[some], y[some], x[some], (rows, columns))


def _learn_predictors(X: Floats, target: Floats, stencil: Stencil, present: Bools) -> Floats:
    """Return weights (P, K) of neighbours X, (K, n, rows, hx), for a target; 0 for anchors."""
    changes = np.empty_like(X)
    keep = present.copy()
    for first, n, anchor in stencil.anchors:
        changes[first : first + n] = X[first : first + n] - X[anchor]
        keep[anchor] = False
    shape, K = target.shape, int(keep.sum())
    weights = np.zeros((PREDICTORS, len(X)))
    both = np.empty((K + 1, target.size))  # what predicts, and what is predicted
    both[:-1] = changes[keep].reshape(K, -1)
    both[-1] = (target - X[1]).ravel()
    if K == 0 or not both[:-1].any():
        return weights
    near = _sum_3x3(np.abs(_errors(_solve(both @ both.T), both)).reshape(shape)).ravel()
    trusted = both / np.sqrt(near + 0.25 * near.mean() + 1e-9)
    owner = _sort_by_direction(X)
    for rounds_left in reversed(range(ROUNDS)):
        fits = _fit_owners(trusted, owner)
        if rounds_left:
            errors = _errors(fits, both)
            errors *= errors
            owner = _sum_3x3(errors.reshape(PREDICTORS, *shape)).argmin(axis=0).ravel()
    weights[:, keep] = fits
    return weights


def _errors(fits: Floats, both: Floats) -> Floats:
    """Return what fits, (..., K), leave of the last row by those before it."""
    return np.asarray(np.concatenate([fits, np.full((*fits.shape[:-1], 1), -1.0)], axis=-1) @ both)


def _fit_owners(both: Floats, owner: Integers) -> Floats:
    """Return every predictor's fit to the samples it owns, (P, K)."""
    order = np.argsort(owner.astype(np.int8), kind="stable")
    ends = np.searchsorted(owner, np.arange(PREDICTORS + 1), sorter=order).tolist()
    both = both.take(order, axis=1)
    parts = [both[:, i:j] for i, j in pairwise(ends)]
    return _solve(np.stack([part @ part.T for part in parts]))


def _sort_by_direction(X: Floats) -> Integers:
    """Return first owners of samples: by whether they change more along rows or columns."""
    ww, w, nw, n, ne, nn, nne = X[:7]
    across = np.abs(n - nw) + np.abs(n - ne) + np.abs(w - ww)
    down = np.abs(w - nw) + np.abs(n - nn) + np.abs(ne - nne)
    ratio = ((across - down) / (across + down + 1.0)).ravel()
    edges = np.quantile(ratio, np.arange(1, PREDICTORS) / PREDICTORS)
    return np.asarray(np.searchsorted(edges, ratio), np.int64)


def _solve(products: Floats) -> Floats:
    """Return least squares of the last row by those before it, with a little ridge; (..., K).

    From products of rows with rows, (..., K + 1, K + 1).
    """
    A, b = products[..., :-1, :-1], products[..., :-1, -1:]
    K = A.shape[-1]
    ridge = 1e-6 * np.trace(A, axis1=-2, axis2=-1) / K + 1e-12
    return np.asarray(np.linalg.solve(A + ridge[..., None, None] * np.eye(K), b)[..., 0])


def _sum_3x3(values: Floats) -> Floats:
    """Return sums over 3 x 3 samples of the last two axes."""
    out = values.copy()
    out[..., 1:] += values[..., :-1]
    out[..., :-1] += values[..., 1:]
    total = out.copy()
    total[..., 1:, :] += out[..., :-1, :]
    total[..., :-1, :] += out[..., 1:, :]
    return total


def _choose_shift(X: Floats, target: Floats, weights: Floats) -> int:
    """Return the bits that weights need: rounding must stay well below the errors left."""
    D, y = (X[:7] - X[1]).reshape(7, -1), (target - X[1]).ravel()
    left = np.abs(weights[:, :7] @ D - y).min(axis=0)
    changes, typical = np.sqrt(np.mean(D * D)) + 1e-9, max(float(np.median(left)), 0.5)
    return int(np.clip(np.ceil(np.log2(changes / typical)) + 5, 6, 12))


def _learn_gains(past: Floats, error: Floats) -> Integers:
    """Return weights, in 64ths, of past errors (F, n) in the expected next one, and a constant."""
    level = past.mean(axis=0)
    rows = np.concatenate([past, np.full((1, past.shape[1]), 16.0), error[None]])
    rows /= level + 0.25 * level.mean() + 1.0
    products = rows @ rows.T
    used = np.ones(len(past) + 1, np.bool_)
    fit = np.zeros(used.size)
    for _ in range(3):
        fit[:] = 0.0
        if not used.any():
            break
        own = np.append(np.flatnonzero(used), used.size)
        fit[used] = _solve(products[np.ix_(own, own)])
        used = fit > 1 / 128
    out = np.clip(np.rint(64 * fit), 0, 255)
    out[-1] = max(out[-1], 1.0)
    return out.astype(np.int64)
