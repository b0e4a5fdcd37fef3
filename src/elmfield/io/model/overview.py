"""The overview of a large file without loss: means of its samples, seen before a tile is decoded.

Tiles that were coded with loss begin with such means; others must be decoded whole.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.tiles import block_means
from elmfield.field.tiling import Tiling

SEEN = 1 << 20
"""Samples from which on there is an overview, and"""
HALVINGS = 10
"""how often its axes are halved, all together: it has about a thousandth of the samples."""

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
    *sizes, C = tiling.sizes
    if math.prod(sizes) < SEEN:
        return None
    k = -(-HALVINGS // len(sizes))
    out = np.empty(tiling_of(tiling, k).sizes, kind_of(kind))
    rows = max(1, AT_ONCE // (math.prod(sizes[1:]) * C) >> k)
    first, *others = (slice(a, b) for a, b in list(zip(tiling.low, tiling.high))[:-1])
    for i in range(0, len(out), rows):
        ends = first.start + (i << k), min(first.start + ((i + rows) << k), first.stop)
        means = block_means(read((slice(*ends), *others)), k)
        out[i : i + rows] = np.rint(means) if out.dtype.kind in "iu" else means
    return Means(k, out)


def tiling_of(tiling: Tiling, k: int) -> Tiling:
    """The one tile of means of 2^k samples on each axis."""
    sizes = (*(-(-n >> k) for n in tiling.sizes[:-1]), tiling.sizes[-1])
    return Tiling((0,) * len(sizes), sizes, sizes)


def kind_of(kind: str) -> str:
    """Dtype of the means of samples of a dtype."""
    return "float32" if kind == "float64" else kind
