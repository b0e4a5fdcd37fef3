"""Boxes of samples and their cosine modes: forwards in floats, backwards in integers.

Arrays are mode-major: one row for each mode of a box, one column for each box, ``(B^d, C G_1 ...
G_d)``. Rows are sorted by diagonal (the sum of a mode's indices), so that a diagonal is a slab of
rows.

Notes
-----
Backwards, integers are multiplied by an integer basis of `SCALE` in float64. All products and
their sums stay below 2^53, so they are exact in any order, and every machine finds the same
samples.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SCALE_BITS = 18
FRACTION = 6
"""Coefficients and samples are whole multiples of ``step / 2^FRACTION`` in the decoder."""
LARGEST = 1 << 30
"""No whole number in the decoder's transform may be larger: 2^30 · 2^18 · sqrt(2 · 128) < 2^53."""


@lru_cache(maxsize=32)
def cosines(B: int) -> Floats:
    """The orthonormal DCT-II, shape (modes, samples)."""
    k, n = np.arange(B)[:, None], np.arange(B)[None, :]
    basis = np.cos(np.pi * k * (2 * n + 1) / (2 * B)) * math.sqrt(2 / B)
    basis[0] = math.sqrt(1 / B)
    return basis


@lru_cache(maxsize=32)
def whole_cosines(B: int) -> Floats:
    """The same, transposed, times `SCALE`, rounded: whole numbers, shape (samples, modes)."""
    # Rounding half a unit of 2^-18 is far from any tie for these B, so every libm agrees (a test
    # holds the sums).
    return np.ascontiguousarray(np.rint(cosines(B) * (1 << SCALE_BITS)).T)


@dataclass(frozen=True)
class Modes:
    """The modes of a box of B samples on each of d axes, in the order of rows.

    Parameters
    ----------
    index : array, shape (M, d)
        Indices of the modes, sorted by their sum, then as they come.
    rows : array, shape (M,)
        Place of row m in the natural order of indices.
    starts : list of int
        Diagonal s is rows ``starts[s]`` to ``starts[s + 1]``.
    lower1, lower2, lower11 : lists of lists of arrays
        For each diagonal s: for every mode, the place in diagonal s - 1 of the mode less one
        along each axis; in diagonal s - 2 of the mode less two along each axis, less one along
        each pair of axes. Where there is none, one more than the last.
    """

    B: int
    d: int
    index: Ints
    rows: Ints
    starts: list[int]
    lower1: list[list[NDArray[np.intp]]]
    lower2: list[list[NDArray[np.intp]]]
    lower11: list[list[NDArray[np.intp]]]

    @property
    def n_diagonals(self) -> int:
        """How many diagonals there are."""
        return len(self.starts) - 1


@lru_cache(maxsize=32)
def modes(B: int, d: int) -> Modes:
    """The order of modes of a box."""
    index = np.array(list(product(range(B), repeat=d)), np.int64).reshape(-1, d)
    total = index.sum(axis=1)
    rows = np.argsort(total, kind="stable")
    index = index[rows]
    starts = np.searchsorted(total[rows], np.arange(d * (B - 1) + 2)).tolist()
    place = np.empty(len(rows), np.int64)
    place[rows] = np.arange(len(rows))
    weights = B ** np.arange(d - 1, -1, -1)

    def less(step: Ints) -> list[NDArray[np.intp]]:
        """For each diagonal, places of its modes less a step in the diagonal they then are of."""
        down, found = int(step.sum()), []
        for s in range(len(starts) - 1):
            lower = index[starts[s] : starts[s + 1]] - step
            first, end = (starts[s - down], starts[s - down + 1]) if s >= down else (0, 0)
            inside = (lower >= 0).all(axis=1)
            at = np.where(inside, place[np.where(inside, lower @ weights, 0)] - first, end - first)
            found.append(at.astype(np.intp))
        return found

    def all_of(steps: list[Ints]) -> list[list[NDArray[np.intp]]]:
        return [list(of) for of in zip(*map(less, steps))] if steps else [[] for _ in starts]

    one = np.eye(d, dtype=np.int64)
    pairs = [one[k] + one[l] for k in range(d) for l in range(k + 1, d)]
    return Modes(
        B, d, index, rows, starts, all_of(list(one)), all_of([2 * e for e in one]), all_of(pairs)
    )


def cut(values: NDArray[np.generic], B: int) -> NDArray[np.generic]:
    """Samples (C, n_1, ..., n_d), n multiples of B, as (B, ..., B, C, G_1, ..., G_d)."""
    d = values.ndim - 1
    split = values.reshape(values.shape[0], *(v for n in values.shape[1:] for v in (n // B, B)))
    inner, outer = [2 + 2 * k for k in range(d)], [1 + 2 * k for k in range(d)]
    return split.transpose(*inner, 0, *outer)


def joined(boxes: NDArray[np.generic], d: int) -> NDArray[np.generic]:
    """What :func:`cut` undid: (B, ..., B, C, G_1, ..., G_d) as (C, n_1, ..., n_d)."""
    C, *grid = boxes.shape[d:]
    B = boxes.shape[0]
    order = [d] + [v for k in range(d) for v in (d + 1 + k, k)]
    return boxes.transpose(order).reshape(C, *(g * B for g in grid))


def _along_axes(X: Floats, basis: Floats, d: int, shift: int) -> Floats:
    """A matrix applied to each of the first d axes; divided by 2^shift and rounded after each."""
    B = len(basis)
    shape = X.shape
    for k in range(d):
        X = np.matmul(basis, X.reshape(B**k, B, -1))
        if shift:
            # floor(x / 2^shift + 1/2), exact in float64
            X *= 2.0**-shift
            X += 0.5
            np.floor(X, out=X)
    return X.reshape(shape)


def transformed(values: NDArray[np.generic], B: int) -> Floats:
    """Modes of all boxes of B samples, rows in natural order, shape (B^d, boxes).

    Single precision stays single: half the time, and an encoder may err a little.
    """
    d = values.ndim - 1
    dtype: Any = np.float32 if values.dtype == np.float32 else np.float64
    X = np.ascontiguousarray(cut(values, B), dtype)
    return _along_axes(X, cosines(B).astype(dtype), d, 0).reshape(B**d, -1)


def samples(X: Floats, B: int, d: int) -> Floats:
    """Whole samples of boxes from whole modes, both in natural order: (B^d, N) as (B^d, N)."""
    return _along_axes(X, whole_cosines(B), d, SCALE_BITS)
