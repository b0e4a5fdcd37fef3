"""The overview of a large file without loss: means of its samples, seen before a tile is decoded.

Tiles that were coded with loss begin with such means; others must be decoded whole.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.coefficients.tiles import Tiling, Totals

MIN_SAMPLES = 1 << 20
"""Of an array that has an overview."""

MIN_HALVINGS = 10
"""How often its axes are halved, all together: it has about a thousandth of the samples."""

MAX_NUMBERS = 1 << 18
"""Of an overview: more would not be seen at once."""

BATCH_NUMBERS = 1 << 22
"""Averaged at a time."""


@dataclass(frozen=True, eq=False)
class Means:
    """An overview: means of 2^level samples on each axis, channels last."""

    level: int
    values: Array

    @classmethod
    def of(cls, totals: Totals, kind: str) -> "Means":
        """Return the means of samples of a dtype, as a file keeps them."""
        out = totals.means()
        if np.dtype(kind).kind in "iu":
            out = np.rint(out)
        return cls(totals.k, out.astype(kind_of(kind)))

    @property
    def tiling(self) -> Tiling:
        """Return their one tile."""
        return Tiling.whole(self.values.shape)


def make_overview(
    tiling: Tiling, kind: str, read: Callable[[tuple[slice, ...]], Array]
) -> Means | None:
    """Return the overview of samples in tiles, of a dtype; None of few.

    `read` gives the samples of a slab of the array, channels last.
    """
    k = level_of(tiling)
    return None if k is None else Means.of(Totals.of(tiling, k, read, BATCH_NUMBERS), kind)


def level_of(tiling: Tiling) -> int | None:
    """Return how often the axes of an overview are halved; None of few samples."""
    *sizes, _ = tiling.sizes
    if math.prod(sizes) < MIN_SAMPLES:
        return None
    k = -(-MIN_HALVINGS // len(sizes))
    while math.prod(-(-n >> k) for n in sizes) > MAX_NUMBERS:
        k += 1
    return k


def tiling_of(tiling: Tiling, k: int) -> Tiling:
    """Return the one tile of means of 2^k samples on each axis."""
    *sizes, C = tiling.sizes
    return Tiling.whole((*(-(-n >> k) for n in sizes), C))


def kind_of(kind: str) -> str:
    """Return the dtype of the means of samples of a dtype."""
    return "float32" if np.dtype(kind).itemsize == 8 else kind
