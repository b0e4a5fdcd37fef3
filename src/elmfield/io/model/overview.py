"""The overview of a large file without loss: means of its samples, seen before a tile is decoded.

Tiles that were coded with loss begin with such means; others must be decoded whole.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.tiling import Tiling

SEEN = 1 << 20
"""Samples from which on there is an overview, and"""
HALVINGS = 10
"""how often its axes are halved, all together: it has about a thousandth of the samples."""

MOST = 1 << 18
"""Numbers of an overview at most: more would not be seen at once."""

AT_ONCE = 1 << 22
"""Numbers that are averaged together."""


@dataclass(frozen=True, eq=False)
class Means:
    """Means of 2^level samples on each axis, channels last."""

    level: int
    values: Array

    @property
    def tiling(self) -> Tiling:
        """Their one tile."""
        return Tiling((0,) * self.values.ndim, self.values.shape, self.values.shape)


def made(tiling: Tiling, kind: str, read: Callable[[tuple[slice, ...]], Array]) -> Means | None:
    """The overview of samples in tiles, of a dtype; None of few.

    `read` gives the samples of a slab of the array, channels last.
    """
    k = level_of(tiling)
    if k is None:
        return None
    totals = Totals(tiling, k)
    first, *others = (slice(a, b) for a, b in list(zip(tiling.low, tiling.high))[:-1])
    rows = max(1, AT_ONCE // math.prod(tiling.sizes[1:]) >> k) << k
    for a in range(first.start, first.stop, rows):
        slab = (slice(a, min(a + rows, first.stop)), *others)
        totals.add(slab, sums_of(tiling, k, slab, read(slab)))
    return totals.means(kind)


def level_of(tiling: Tiling) -> int | None:
    """How often the axes of an overview are halved; None of few samples, which have none."""
    *sizes, _ = tiling.sizes
    if math.prod(sizes) < SEEN:
        return None
    k = -(-HALVINGS // len(sizes))
    while math.prod(-(-n >> k) for n in sizes) > MOST:
        k += 1
    return k


def sums_of(tiling: Tiling, k: int, slab: tuple[slice, ...], values: Array) -> Array:
    """Sums over boxes of 2^k samples on each axis, of those in a slab; channels last."""
    out: Array = values
    for axis, (s, low) in enumerate(zip(slab, tiling.low)):
        a, b = s.start - low, s.stop - low
        first = np.arange(a >> k << k, b, 1 << k) - a
        out = np.add.reduceat(out, np.maximum(first, 0), axis=axis, dtype=np.float64)
    return out


class Totals:
    """Sums over boxes of 2^k samples on each axis, added up from slabs in any cut and order.

    Sums of numbers of 32 bits are exact in float64, as long as these do not differ in size by more
    than a factor of half a million: then the means do not depend on the cut.
    """

    def __init__(self, tiling: Tiling, k: int) -> None:
        self._tiling, self._k = tiling, k
        self.sums = np.zeros(tiling_of(tiling, k).sizes)

    def add(self, slab: tuple[slice, ...], sums: Array) -> None:
        """Put the sums of a slab to those of the boxes it lies in."""
        low = self._tiling.low
        first = [(s.start - a) >> self._k for s, a in zip(slab, low)]
        self.sums[tuple(slice(i, i + n) for i, n in zip(first, sums.shape))] += sums

    def means(self, kind: str) -> Means:
        """The overview of samples of a dtype."""
        out = self.sums
        for axis, n in enumerate(self._tiling.sizes[:-1]):
            each = np.diff([*range(0, n, 1 << self._k), n])
            out = out / each.reshape(-1, *(1,) * (out.ndim - 1 - axis))
        if np.dtype(kind).kind in "iu":
            out = np.rint(out)
        return Means(self._k, out.astype(kind_of(kind)))


def tiling_of(tiling: Tiling, k: int) -> Tiling:
    """The one tile of means of 2^k samples on each axis."""
    sizes = (*(-(-n >> k) for n in tiling.sizes[:-1]), tiling.sizes[-1])
    return Tiling((0,) * len(sizes), sizes, sizes)


def kind_of(kind: str) -> str:
    """Dtype of the means of samples of a dtype."""
    return "float32" if kind == "float64" else kind
