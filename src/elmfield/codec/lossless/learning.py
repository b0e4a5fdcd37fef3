"""Predictors learned from the samples they will predict, and what past errors say of the next.

Only the encoder learns: in float64, from a part of the samples. The decoder gets whole numbers.
"""

from itertools import pairwise

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


def windows(stencil: Stencil, kind: int, strides: tuple[int, int, int], front: int) -> Integers:
    """Places of samples in the framed array, (n, rows, columns): windows all over this kind."""
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
    s_g, s_b, s_y = strides
    corner = front + g[some] * s_g + b[some] * s_b + y[some] * s_y + x[some]
    inner = np.arange(rows)[:, None] * s_y + np.arange(columns)
    return np.asarray(corner[:, None, None] + inner, np.int64)


def predictors(X: Floats, target: Floats, stencil: Stencil, present: NDArray[np.bool_]) -> Floats:
    """Weights (P, K) of neighbours X, (K, n, rows, hx), for a target; those of anchors are 0."""
    changes = np.empty_like(X)
    keep = present.copy()
    for first, n, anchor in stencil.anchors:
        changes[first : first + n] = X[first : first + n] - X[anchor]
        keep[anchor] = False
    D = changes[keep].reshape(int(keep.sum()), -1)
    y = (target - X[1]).ravel()
    shape = target.shape
    weights = np.zeros((PREDICTORS, len(X)))
    if len(D) == 0 or not D.any():
        return weights
    whole = _solved(*_products(D, y, np.ones(y.size)))
    near = _around(np.abs(y - whole @ D).reshape(shape)).ravel()
    trust = 1.0 / (near + 0.25 * near.mean() + 1e-9)
    owner = _by_direction(X)
    for rounds_left in reversed(range(ROUNDS)):
        fits = _of_owners(D, y, trust, owner)
        if rounds_left:
            errors = fits @ D
            errors -= y
            errors *= errors
            owner = _around(errors.reshape(PREDICTORS, *shape)).argmin(axis=0).ravel()
    weights[:, keep] = fits
    return weights


def _of_owners(D: Floats, y: Floats, trust: Floats, owner: Integers) -> Floats:
    """Every predictor's fit to the samples it owns, (P, K)."""
    order = np.argsort(owner.astype(np.int8), kind="stable")
    ends = np.searchsorted(owner, np.arange(PREDICTORS + 1), sorter=order).tolist()
    D, y, trust = D.take(order, axis=1), y[order], trust[order]
    spans = [slice(i, j) for i, j in pairwise(ends)]
    pairs = [_products(D[:, own], y[own], trust[own]) for own in spans]
    return _solved(np.stack([A for A, _ in pairs]), np.stack([b for _, b in pairs]))


def _by_direction(X: Floats) -> Integers:
    """Predictors' first samples: sorted by whether they change more along rows or along columns."""
    ww, w, nw, n, ne, nn, nne = X[:7]
    across = np.abs(n - nw) + np.abs(n - ne) + np.abs(w - ww)
    down = np.abs(w - nw) + np.abs(n - nn) + np.abs(ne - nne)
    ratio = ((across - down) / (across + down + 1.0)).ravel()
    edges = np.quantile(ratio, np.arange(1, PREDICTORS) / PREDICTORS)
    return np.asarray(np.searchsorted(edges, ratio), np.int64)


def _products(D: Floats, y: Floats, trust: Floats) -> tuple[Floats, Floats]:
    """Normal equations of y by the rows of D, (K, n), weighted: (K, K) and (K,)."""
    weighted = D * trust
    return weighted @ D.T, weighted @ y


def _solved(A: Floats, b: Floats) -> Floats:
    """Their solutions with a little ridge; (..., K)."""
    K = A.shape[-1]
    ridge = 1e-6 * np.trace(A, axis1=-2, axis2=-1) / K + 1e-12
    A = A + ridge[..., None, None] * np.eye(K)
    return np.asarray(np.linalg.solve(A, b[..., None])[..., 0], np.float64)


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
    changes = np.sqrt(np.mean((X[:7] - X[1]) ** 2)) + 1e-9
    left = np.abs(np.einsum("pk,k...->p...", weights[:, :7], X[:7] - X[1]) + X[1] - target).min(
        axis=0
    )
    typical = max(float(np.median(left)), 0.5)
    return int(np.clip(np.ceil(np.log2(changes / typical)) + 5, 6, 12))


def gains(past: Floats, error: Floats) -> Integers:
    """Weights, in 64ths, of past errors (F, n) in the expected size of the next, and a constant."""
    F = np.concatenate([past, np.full((1, past.shape[1]), 16.0)])
    level = past.mean(axis=0)
    trust = 1.0 / (level + 0.25 * level.mean() + 1.0) ** 2
    used = np.ones(len(F), np.bool_)
    fit = np.zeros(len(F))
    for _ in range(3):
        fit[:] = 0.0
        if not used.any():
            break
        fit[used] = _solved(*_products(F[used], error, trust))
        used = fit > 1 / 128
    out = np.clip(np.rint(64 * fit), 0, 255)
    out[-1] = max(out[-1], 1.0)
    return out.astype(np.int64)
