"""The encoder's side of prediction: all samples of a plane at once, and learning how.

Only the encoder learns: in float64, from a part of the samples; the decoder gets whole numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Bools, Floats, Integers
from elmfield.codec.lossless import wavefront
from elmfield.codec.lossless.plane_model import N_PREDICTORS, Model, set_anchors
from elmfield.codec.lossless.wavefront import ABOVE, FRACTION, LEFT, Layout, Neighbours

CHUNK_SAMPLES = 8192


@dataclass(frozen=True)
class Frame:
    """Blocks with what stands around them, (G, B, rows, columns).

    Left of a row stands the first sample of the row above, left of row 0 `first`; right of a row
    stands its last sample; below a block stands, for every sample, the one to the left of it in the
    last row. Rows above are never read (:meth:`Layout.outside`).

    Parameters
    ----------
    layout : Layout
        The blocks.
    samples : array
        Blocks in their frames.
    rows : array of bool, shape (G, B, hy)
        Which rows of blocks lie in the array.
    """

    layout: Layout
    samples: Floats
    rows: NDArray[np.bool_]
    first: int

    @classmethod
    def of(cls, values: NDArray[np.integer], layout: Layout) -> "Frame":
        """Return the frame of samples (C, A, Z, Y, X)."""
        blocks = layout.cut(values)
        G, B, hy, hx = blocks.shape
        first = int(blocks[0, 0, 0, 0])
        H, W = ABOVE + hy + wavefront.BELOW, LEFT + hx + wavefront.RIGHT
        samples = np.full((G, B, H, W), float(first))
        inner = samples[:, :, ABOVE : ABOVE + hy]
        inner[..., LEFT : LEFT + hx] = blocks
        inner[:, :, 1:, :LEFT] = blocks[:, :, :-1, :1]
        inner[..., LEFT + hx :] = blocks[..., -1:]
        b, below = np.arange(B), ABOVE + layout.rows[0]
        samples[:, b, below, 1:] = samples[:, b, below - 1, :-1]
        return cls(layout, samples, _find_rows(layout), first)

    def _parts(self) -> Iterator[tuple[int, slice]]:
        """Groups in order, and some of their blocks at a time."""
        G, B, hy = self.rows.shape
        n = max(1, CHUNK_SAMPLES // (hy * self.samples.shape[3]))
        yield from ((g, slice(b, b + n)) for g in range(G) for b in range(0, B, n))

    def _views(self, framed: Floats, near: Neighbours, g: int, some: slice) -> list[Floats]:
        """Numbers of every neighbour of the samples of some blocks, (blocks, hy, hx)."""
        hy, hx = self.layout.block[2:]
        return [
            framed[max(g - back, 0), some, ABOVE + dy :, LEFT + dx :][:, :hy, :hx]
            for back, dy, dx in zip(near.back, near.down, near.right)
        ]

    def learn_weights(self) -> tuple[Integers, int]:
        """Return learned weights of every kind of group, and their bits."""
        layout, found, shift = self.layout, [], 6
        for kind, present in enumerate(layout.present_near):
            inner, first = choose_windows(layout, kind)
            X, target = _within(inner, self.samples, layout.near)
            for row, k, anchor in layout.outside[:2]:
                down = row - first
                n = np.flatnonzero((down >= 0) & (down < inner.shape[1]))
                X[k[:, None], n, down[n]] = X[anchor[:, None], n, down[n]]
            found.append(_learn_predictors(X, target, layout, present))
            shift = max(shift, _choose_shift(X, target, found[-1]))
        whole = np.clip(np.rint(np.stack(found) * (1 << shift)), -32767, 32767).astype(np.int64)
        return set_anchors(whole, layout, shift), shift

    def predict(self, model: Model) -> tuple[Floats, Integers, Bools]:
        """Predict all samples.

        Returns
        -------
        error : array
            Errors of the blend in sixteenths, framed.
        z, far : arrays, shape (n,)
            Residuals as numbers from 0, and whether the blend is far from a whole number.
        """
        S, layout = self.samples, self.layout
        hy, hx = layout.block[2:]
        matrices, error = model.matrices(layout), np.zeros(S.shape)
        blends = np.zeros((*self.rows.shape, hx))
        for g, some in self._parts():
            K = int(layout.used[g])
            near = np.stack(self._views(S, layout.near, g, some)[:K])
            for row, ks, anchor in layout.outside[: min(hy, 2)]:
                k = ks[ks < K]
                near[k, :, row] = near[anchor[: len(k)], :, row]
            guess = np.floor(np.tensordot(matrices[g, :, :K], near, 1))
            true = FRACTION * S[g, some, ABOVE : ABOVE + hy, LEFT : LEFT + hx]
            away = np.minimum((guess - true) ** 2, wavefront.SQUARE_LIMIT)
            away[:, ~self.rows[g, some]] = 0.0
            squares = np.pad(away, [(0, 0), (0, 0), (1, 0), (1, 1)])
            past = squares[:, :, 1:, :-2] + squares[:, :, :-1, 2:] + FRACTION**2
            past += squares[:, :, :-1, :-2]
            past += squares[:, :, :-1, 1:-1]
            blends[g, some] = wavefront.blend(guess, past, 0)
            left = np.minimum(np.abs(blends[g, some] - true), wavefront.ERROR_LIMIT)
            left[~self.rows[g, some]] = 0.0
            error[g, some, ABOVE : ABOVE + hy, LEFT : LEFT + hx] = left
        whole, above = wavefront.round_blend(blends[self.rows].ravel(), float(model.top))
        own = S[:, :, ABOVE : ABOVE + hy, LEFT : LEFT + hx][self.rows].ravel()
        residual = (own - whole).astype(np.int64)
        np.negative(residual, out=residual, where=above < 0)
        # 0, 1, -1, 2, -2, ... become 0, 1, 2, 3, 4, ...
        z = 2 * np.abs(residual)
        z -= residual > 0
        return error, z, wavefront.is_far(above)

    def learn_gains(self, error: Floats) -> Integers:
        """Return learned weights of past errors, one row for each kind of group."""
        out = []
        for kind, present in enumerate(self.layout.present_past):
            inner, _ = choose_windows(self.layout, kind)
            past, own = _within(inner, error, self.layout.past)
            out.append(_learn_gains(past.reshape(len(past), -1) * present[:, None], own.ravel()))
        return np.stack(out)

    def expect(self, error: Floats, gains: Integers) -> Floats:
        """Return the expected error of every sample."""
        energy = np.empty((*self.rows.shape, self.layout.block[3]))
        per_group = gains[self.layout.kinds].astype(np.float64)
        for g, some in self._parts():
            energy[g, some] = FRACTION * per_group[g, -1]
            near = self._views(error, self.layout.past, g, some)
            for gain, past in zip(per_group[g, :-1], near, strict=True):
                if gain:
                    energy[g, some] += gain * past
        return energy[self.rows].ravel()


@lru_cache(maxsize=4)
def coding_order(layout: Layout) -> NDArray[np.intp]:
    """Return the numbers of samples, counted as (g, b, y, x), in the order of coding."""
    G, B, (hy, hx) = layout.n_groups, layout.n_blocks, layout.block[2:]
    rows = _find_rows(layout)
    full = np.zeros((G, B, hy, hx), np.intp)
    full[rows] = 1 + np.arange(rows.sum() * hx).reshape(-1, hx)
    steps = np.zeros((layout.n_steps, G, layout.n_lines, B), np.intp)
    for g in range(G):
        layout.slant(steps, g)[...] = full[g].transpose(1, 2, 0)
    flat = steps.ravel()
    return flat[flat > 0] - 1


def _find_rows(layout: Layout) -> Bools:
    """Return which rows of blocks lie in the array, (G, B, hy)."""
    return np.asarray(np.arange(layout.block[2]) < layout.rows[:, :, None])


def choose_bins(energy: Floats) -> tuple[int, int]:
    """Return the lowest bin of expected errors, and how coarse bins are."""
    some = np.sort(energy[:: max(1, energy.size // 4096)].view(np.int64) >> 50)
    low, high = some[int(0.002 * some.size)], some[int(0.995 * (some.size - 1))]
    coarse = 0 if high - low < wavefront.BINS else 1 if high - low < 2 * wavefront.BINS else 2
    return int(low) >> coarse, coarse


# --- learning -------------------------------------------------------------------------------------

LEARNED_SAMPLES = 16_000
"""Samples to learn predictors from: of 10 000 a mask became 4 % larger, an eighth faster."""
WINDOW_ROWS, WINDOW_COLUMNS = 4, 16
ROUNDS = 4
"""So many times samples go to the predictor that does best around them, and it is fitted anew."""


@lru_cache(maxsize=64)
def choose_windows(layout: Layout, kind: int) -> tuple[Integers, Integers]:
    """Return windows all over a kind of group: n times rows x columns of samples.

    Their places in a frame, flat, (n, rows, columns), and their first rows, (n,).
    """
    hy, hx = layout.block[2:]
    rows, columns = min(WINDOW_ROWS, hy), min(WINDOW_COLUMNS, hx)
    groups = np.flatnonzero(layout.kinds == kind)
    starts = np.arange(0, hy - rows + 1, rows), np.arange(0, hx - columns + 1, columns)
    corners = np.meshgrid(groups, np.arange(layout.n_blocks), *starts, indexing="ij")
    g, b, y, x = (v.ravel() for v in corners)
    inside = np.flatnonzero(y + rows <= layout.rows[g, b])  # the first block is whole
    g, b, y, x = g[inside], b[inside], y[inside], x[inside]
    # Every window is as likely: steps of the golden ratio through all of them, none twice.
    most = min(len(g), max(1, LEARNED_SAMPLES // (rows * columns)))
    some = np.unique((np.arange(most) * 0.6180339887498949 % 1.0 * len(g)).astype(int))
    g, b, y, x = g[some], b[some], y[some], x[some]
    H, W = ABOVE + hy + wavefront.BELOW, LEFT + hx + wavefront.RIGHT
    corner = ((g * layout.n_blocks + b) * H + ABOVE + y) * W + LEFT + x
    return corner[:, None, None] + W * np.arange(rows)[:, None] + np.arange(columns), y


def _within(inner: Integers, framed: Floats, near: Neighbours) -> tuple[Floats, Floats]:
    """Return numbers of neighbours in windows, (k, n, rows, columns), and their own."""
    _, B, H, W = framed.shape
    offsets = near.right + near.down * W - near.back * B * H * W
    # Groups that are not there have no weight: any number does.
    return np.stack([framed.take(inner + o, mode="clip") for o in offsets]), framed.take(inner)


def _learn_predictors(X: Floats, target: Floats, layout: Layout, present: Bools) -> Floats:
    """Return weights (P, K) of neighbours X, (K, n, rows, hx), for a target; 0 for anchors."""
    changes = np.empty_like(X)
    keep = present.copy()
    for first, n, anchor in layout.anchors:
        changes[first : first + n] = X[first : first + n] - X[anchor]
        keep[anchor] = False
    shape, K = target.shape, int(keep.sum())
    weights = np.zeros((N_PREDICTORS, len(X)))
    both = np.empty((target.size, K + 1))  # what predicts, and what is predicted
    both[:, :-1] = changes[keep].reshape(K, -1).T
    both[:, -1] = (target - X[1]).ravel()
    if not both[:, :-1].any():
        return weights
    near = _sum_3x3(np.abs(_errors(_solve(both.T @ both), both)).reshape(shape)).ravel()
    trusted = both / np.sqrt(near + 0.25 * near.mean() + 1e-9)[:, None]
    owner = _sort_by_direction(X)
    for rounds_left in reversed(range(ROUNDS)):
        fits = _fit_owners(trusted, owner)
        if rounds_left:
            errors = _errors(fits, both)
            errors *= errors
            owner = _sum_3x3(errors.reshape(N_PREDICTORS, *shape)).argmin(axis=0).ravel()
    weights[:, keep] = fits
    return weights


def _errors(fits: Floats, both: Floats) -> Floats:
    """Return what fits, (..., K), leave of the last column by those before it, (..., n)."""
    signs = np.concatenate([fits, np.full((*fits.shape[:-1], 1), -1.0)], axis=-1)
    return np.asarray(signs @ both.T)


def _fit_owners(both: Floats, owner: Integers) -> Floats:
    """Return every predictor's fit to the samples it owns, (P, K)."""
    order = np.argsort(owner.astype(np.int8), kind="stable")
    ends = np.searchsorted(owner, np.arange(N_PREDICTORS + 1), sorter=order).tolist()
    both = both.take(order, axis=0)
    parts = [both[i:j] for i, j in pairwise(ends)]
    return _solve(np.stack([part.T @ part for part in parts]))


def _sort_by_direction(X: Floats) -> Integers:
    """Return first owners of samples: by whether they change more along rows or columns."""
    ww, w, nw, n, ne, nn, nne = X[:7]
    across = np.abs(n - nw) + np.abs(n - ne) + np.abs(w - ww)
    down = np.abs(w - nw) + np.abs(n - nn) + np.abs(ne - nne)
    ratio = ((across - down) / (across + down + 1.0)).ravel()
    edges = np.quantile(ratio, np.arange(1, N_PREDICTORS) / N_PREDICTORS)
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
    some = X[:7, ::4]
    D, y = (some - some[1]).reshape(7, -1), (target[::4] - some[1]).ravel()
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
