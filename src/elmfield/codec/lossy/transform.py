"""Boxes of samples and their cosine modes, rotation of channels, prediction from box means.

The transform runs forwards in floats, backwards in integers.

Arrays are mode-major: one row for each mode of a box, one column for each box, ``(B^d, C G_1 ...
G_d)``. Rows are sorted by diagonal (the sum of a mode's indices), so that a diagonal is a slab of
rows.

Notes
-----
Backwards, integers are multiplied by an integer basis of 2^SCALE_BITS in float64. All products and
their sums stay below 2^53, so they are exact in any order, and every machine finds the same
samples.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

S = TypeVar("S", bound=np.generic)
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

SCALE_BITS = 18
FRACTION = 6
UNIT = 1 << FRACTION
"""Coefficients and samples are whole multiples of ``step / 2^FRACTION`` in the decoder."""
SPANS = (1, 2, 3, 4, 6, 9, 13, 21)
"""First diagonals of the spans that tell positions of modes, with three shapes, apart."""
LARGEST = 1 << 30
"""No whole number in the decoder's transform may be larger: 2^30 · 2^18 · sqrt(2 · 128) < 2^53."""


@lru_cache(maxsize=32)
def cosines(B: int) -> Floats:
    """Return the orthonormal DCT-II, shape (modes, samples)."""
    k, n = np.arange(B)[:, None], np.arange(B)[None, :]
    basis = np.cos(np.pi * k * (2 * n + 1) / (2 * B)) * math.sqrt(2 / B)
    basis[0] = math.sqrt(1 / B)
    return basis


@lru_cache(maxsize=32)
def whole_cosines(B: int) -> Floats:
    """Return the same, transposed, times 2^SCALE_BITS, rounded, shape (samples, modes)."""
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
    position : array, shape (M,)
        Where a mode lies: by spans of diagonals, and how near to an axis.
    high : array of bool, shape (M, d)
        For each axis whether the mode's index is its largest there.
    lower : array, shape (d + d + pairs, M)
        Rows of the mode less one along each axis, less two along each axis, less one along each
        pair of axes; M where there is none.
    """

    B: int
    d: int
    index: Whole
    rows: Whole
    starts: list[int]
    position: NDArray[np.intp]
    high: NDArray[np.bool_]
    lower: NDArray[np.intp]

    @property
    def n_diagonals(self) -> int:
        """How many diagonals there are."""
        return len(self.starts) - 1


@lru_cache(maxsize=32)
def modes(B: int, d: int) -> Modes:
    """Return the modes of a box."""
    index = np.array(list(product(range(B), repeat=d)), np.int64).reshape(-1, d)
    rows = np.argsort(index.sum(axis=1), kind="stable")
    index = index[rows]
    total, top = index.sum(axis=1), index.max(axis=1)
    starts = np.searchsorted(total, np.arange(d * (B - 1) + 2)).tolist()
    span = np.searchsorted(np.array(SPANS), np.maximum(total, 1), side="right") - 1
    rest = total - top
    shape = np.where(rest == 0, 0, np.where(4 * rest < total, 1, 2))
    one = np.eye(d, dtype=np.int64)
    pairs = [one[k] + one[l] for k, l in combinations(range(d), 2)]
    lower = index - np.stack([*one, *(2 * one), *pairs])[:, None]
    place = np.where((lower < 0).any(axis=2), len(total), lower @ B ** np.arange(d - 1, -1, -1))
    lower = np.append(np.argsort(rows), len(total))[place]
    return Modes(B, d, index, rows, starts, span * 3 + shape, index == top[:, None], lower)


def cut_boxes(values: NDArray[np.generic], B: int) -> NDArray[np.generic]:
    """Return samples (C, n_1, ..., n_d), n multiples of B, as (B, ..., B, C, G_1, ..., G_d)."""
    d = values.ndim - 1
    split = values.reshape(values.shape[0], *(v for n in values.shape[1:] for v in (n // B, B)))
    inner, outer = [2 + 2 * k for k in range(d)], [1 + 2 * k for k in range(d)]
    return split.transpose(*inner, 0, *outer)


def join_boxes(boxes: NDArray[np.generic], d: int) -> Whole:
    """Return what :func:`cut_boxes` was given: (B, ..., C, G_1, ...) as (C, n_1, ...)."""
    C, *grid = boxes.shape[d:]
    B = boxes.shape[0]
    order = [d] + [v for k in range(d) for v in (d + 1 + k, k)]
    return boxes.transpose(order).astype(np.int64, order="C").reshape(C, *(g * B for g in grid))


def _apply_along_axes(X: Floats, basis: Floats, d: int, is_whole: bool) -> Floats:
    """Apply a matrix along each of the first d axes; round after each, halves up, if asked to."""
    B = len(basis)
    shape = X.shape
    for k in range(d):
        X = np.matmul(basis, X.reshape(B**k, B, -1))
        if is_whole:
            X += 0.5
            np.floor(X, out=X)
    return X.reshape(shape)


def find_modes(values: NDArray[np.generic], B: int) -> Floats:
    """Return the modes of all boxes of B samples, rows in natural order, shape (B^d, boxes).

    The last samples are repeated up to whole boxes. Single precision stays single: half the time,
    and an encoder may err a little.
    """
    d = values.ndim - 1
    dtype: Any = np.float32 if values.dtype == np.float32 else np.float64
    width = [(0, -n % B) for n in values.shape[1:]]
    whole = np.pad(values, [(0, 0), *width], mode="edge") if any(map(any, width)) else values
    X = np.ascontiguousarray(cut_boxes(whole, B), dtype)
    return _apply_along_axes(X, cosines(B).astype(dtype), d, False).reshape(B**d, -1)


def find_samples(X: Floats, B: int, d: int) -> Floats:
    """Return whole samples of boxes from whole modes, both in natural order, (B^d, N)."""
    # multiples of 2^-18, and their sums, are as exact as whole numbers
    return _apply_along_axes(X, whole_cosines(B) * 2.0**-SCALE_BITS, d, True)


# --- channels that say much the same --------------------------------------------------------------

MAX_ROTATED_CHANNELS = 32
"""Channels that are rotated at most; the matrix has their square."""
ROTATION_BITS = 14
ROTATION_SAMPLES, ROTATION_EVERY = 1 << 16, 5
"""Of so many samples and more, differences are looked at in every fifth row along another axis."""
LEAST_SQUARE = 2.0**-7
"""The squared difference of neighbouring samples, in steps, where a channel stops to matter."""


def find_rotation(x: Floats) -> Floats | None:
    """Return a matrix (C, C) in 2^-14 that makes samples from channels that say different things.

    None where that does not pay. Its columns are the main axes of the differences between
    neighbouring samples; what counts for bits is the product of variances.
    """
    C = len(x)
    if not 1 < C <= MAX_ROTATED_CHANNELS:
        return None
    S = np.zeros((C, C))
    for k in range(1, x.ndim):
        if x.shape[k] > 1:
            some = x
            if x.ndim > 2 and x.size >= ROTATION_SAMPLES:
                some = x[:, ::ROTATION_EVERY] if k > 1 else x[..., ::ROTATION_EVERY]
            D = np.diff(some, axis=k).reshape(C, -1)
            S += D @ D.T / D.shape[1]
    # below the step nothing is coded, but low modes of a box gather what many samples say
    own = np.log2(np.diag(S) + LEAST_SQUARE).sum()
    values, axes = np.linalg.eigh(S + 1e-9 * np.trace(S) * np.eye(C))
    main = np.log2(np.maximum(values, 0) + LEAST_SQUARE).sum()
    if own - main < 0.05:
        return None
    axes = axes[:, ::-1] * np.where(axes.sum(axis=0)[::-1] < 0, -1, 1)
    return np.asarray(np.rint(axes * (1 << ROTATION_BITS)))


def separate_channels(x: Floats, M: Floats | None) -> Floats:
    """Return independent channels of samples."""
    if M is None:
        return x
    back = np.linalg.inv(M / (1 << ROTATION_BITS)).astype(x.dtype)
    return np.asarray(back @ x.reshape(len(x), -1)).reshape(x.shape)


def mix_channels(y: Whole, M: Floats | None) -> Floats:
    """Return whole samples of whole independent channels: ``floor((M y + 2^13) / 2^14)``, exact."""
    z = y.astype(np.float64)
    if M is None:
        return z
    z = M @ z.reshape(len(y), -1)
    z += 1 << ROTATION_BITS >> 1
    z *= 2.0**-ROTATION_BITS
    return np.floor(z, out=z).reshape(y.shape)


# --- the plane of box means -----------------------------------------------------------------------
#
# The first mode of all boxes is a smaller array. It is coded first, by boxes again: a decoder has
# it, as whole multiples of ``step / 2^FRACTION``, before the other modes.

MEAN_WEIGHT_BITS = 7


def expect_magnitudes(plane: Whole) -> NDArray[np.int32]:
    """Return the mean difference from neighbours in steps, (boxes,): stands for the first mode."""
    d = plane.ndim - 1
    steps = plane >> FRACTION
    total = np.zeros(plane.shape, np.int64)
    for k in range(d):
        for near in neighbours(steps, 1 + k):
            total += np.abs(steps - near)
    return np.minimum(total // (2 * d), 1 << 20).astype(np.int32).ravel()


def neighbours(x: NDArray[S], axis: int) -> tuple[NDArray[S], NDArray[S]]:
    """Return the samples before and behind each along an axis; ends are repeated."""
    i = np.arange(x.shape[axis])
    return x.take(np.maximum(i - 1, 0), axis), x.take(np.minimum(i + 1, len(i) - 1), axis)


def plane_differences(plane: Whole, m: Modes) -> Whole:
    """Return the differences that the first rows, but row 0, follow, shape (rows, boxes).

    Modes ``e_k`` follow first differences, ``2 e_k`` second ones, ``e_k + e_l`` mixed ones.
    """
    around = [neighbours(plane, 1 + k) for k in range(m.d)]
    first = [behind - ahead for behind, ahead in around]
    found = []
    for mode in m.index[1 : m.starts[min(3, m.n_diagonals)]].tolist():
        k, *others = (k for k in range(m.d) if mode[k])
        if others:
            behind, ahead = neighbours(first[k], 1 + others[0])
            diff = behind - ahead
        else:
            diff = first[k] if mode[k] == 1 else sum(around[k]) - 2 * plane
        found.append(np.ravel(diff))
    return np.stack(found)


def fit_weights(differences: Whole, X: Floats) -> NDArray[np.int8]:
    """Return weights of differences in 128ths; `X` are modes in steps, rows sorted, (M, boxes)."""
    weights = []
    for x, own in zip(differences / UNIT, X[1:]):
        power = float(x @ x)
        w = float(x @ own) / power if power > 0 else 0.0
        weights.append(int(np.clip(round(w * (1 << MEAN_WEIGHT_BITS)), -127, 127)))
    return np.array(weights, np.int8)


def predict_rows(differences: Whole, weights: NDArray[np.int8]) -> Whole:
    """Return what is predicted of those rows, in units of ``step / 2^FRACTION``."""
    return differences * weights[:, None] >> MEAN_WEIGHT_BITS
