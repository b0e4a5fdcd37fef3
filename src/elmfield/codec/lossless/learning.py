"""Predictors learned from the samples they will predict, and what past errors say of the next.

Only the encoder learns: in float64, from a part of the samples. The decoder gets whole numbers.
"""

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.lossless.neighbours import Stencil

ENOUGH = 16_000
"""Samples to learn predictors from."""
ROWS, COLUMNS = 4, 16
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
def windows(stencil: Stencil, kind: int) -> Windows:
    """Windows all over a kind of group."""
    layout = stencil.layout
    hy, hx = layout.block[2:]
    rows, columns = min(ROWS, hy), min(COLUMNS, hx)
    groups = np.flatnonzero(stencil.kinds == kind)
    starts = np.arange(0, hy - rows + 1, rows), np.arange(0, hx - columns + 1, columns)
    corners = np.meshgrid(groups, np.arange(layout.n_blocks), *starts, indexing="ij")
    g, b, y, x = (v.ravel() for v in corners)
    inside = np.flatnonzero((y + rows <= layout.heights[b]) & layout.filled[g, b])
    if inside.size:
        g, b, y, x = g[inside], b[inside], y[inside], x[inside]
    # Every window is as likely: steps of the golden ratio through all of them, none twice.
    most = min(len(g), max(1, ENOUGH // (rows * columns)))
    some = np.unique((np.arange(most) * 0.6180339887498949 % 1.0 * len(g)).astype(int))
    return Windows(g[some], b[some], y[some], x[some], (rows, columns))


def predictors(X: Floats, target: Floats, stencil: Stencil, present: NDArray[np.bool_]) -> Floats:
    """Weights (P, K) of neighbours X, (K, n, rows, hx), for a target; those of anchors are 0."""
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
    near = _around(np.abs(_errors(_solved(both @ both.T), both)).reshape(shape)).ravel()
    trusted = both / np.sqrt(near + 0.25 * near.mean() + 1e-9)
    owner = _by_direction(X)
    for rounds_left in reversed(range(ROUNDS)):
        fits = _of_owners(trusted, owner)
        if rounds_left:
            errors = _errors(fits, both)
            errors *= errors
            owner = _around(errors.reshape(PREDICTORS, *shape)).argmin(axis=0).ravel()
    weights[:, keep] = fits
    return weights


def _errors(fits: Floats, both: Floats) -> Floats:
    """What fits, (..., K), leave of the last row by those before it."""
    return np.asarray(np.concatenate([fits, np.full((*fits.shape[:-1], 1), -1.0)], axis=-1) @ both)


def _of_owners(both: Floats, owner: Integers) -> Floats:
    """Every predictor's fit to the samples it owns, (P, K)."""
    order = np.argsort(owner.astype(np.int8), kind="stable")
    ends = np.searchsorted(owner, np.arange(PREDICTORS + 1), sorter=order).tolist()
    both = both.take(order, axis=1)
    parts = [both[:, i:j] for i, j in pairwise(ends)]
    return _solved(np.stack([part @ part.T for part in parts]))


def _by_direction(X: Floats) -> Integers:
    """Predictors' first samples: sorted by whether they change more along rows or along columns."""
    ww, w, nw, n, ne, nn, nne = X[:7]
    across = np.abs(n - nw) + np.abs(n - ne) + np.abs(w - ww)
    down = np.abs(w - nw) + np.abs(n - nn) + np.abs(ne - nne)
    ratio = ((across - down) / (across + down + 1.0)).ravel()
    edges = np.quantile(ratio, np.arange(1, PREDICTORS) / PREDICTORS)
    return np.asarray(np.searchsorted(edges, ratio), np.int64)


def _solved(products: Floats) -> Floats:
    """Least squares of the last row by those before it, with a little ridge; (..., K).

    From products of rows with rows, (..., K + 1, K + 1).
    """
    A, b = products[..., :-1, :-1], products[..., :-1, -1:]
    K = A.shape[-1]
    ridge = 1e-6 * np.trace(A, axis1=-2, axis2=-1) / K + 1e-12
    return np.asarray(np.linalg.solve(A + ridge[..., None, None] * np.eye(K), b)[..., 0])


def _around(values: Floats) -> Floats:
    """Sums over 3 x 3 samples of the last two axes."""
    out = values.copy()
    out[..., 1:] += values[..., :-1]
    out[..., :-1] += values[..., 1:]
    total = out.copy()
    total[..., 1:, :] += out[..., :-1, :]
    total[..., :-1, :] += out[..., 1:, :]
    return total


def shift_for(X: Floats, target: Floats, weights: Floats) -> int:
    """Bits that weights need: rounding them must stay well below the errors that are left."""
    D, y = (X[:7] - X[1]).reshape(7, -1), (target - X[1]).ravel()
    left = np.abs(weights[:, :7] @ D - y).min(axis=0)
    changes, typical = np.sqrt(np.mean(D * D)) + 1e-9, max(float(np.median(left)), 0.5)
    return int(np.clip(np.ceil(np.log2(changes / typical)) + 5, 6, 12))


def gains(past: Floats, error: Floats) -> Integers:
    """Weights, in 64ths, of past errors (F, n) in the expected size of the next, and a constant."""
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
        fit[used] = _solved(products[np.ix_(own, own)])
        used = fit > 1 / 128
    out = np.clip(np.rint(64 * fit), 0, 255)
    out[-1] = max(out[-1], 1.0)
    return out.astype(np.int64)
