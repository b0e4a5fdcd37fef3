"""An array cut into tiles: which samples each holds, and how one goes into the codec."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as cartesian

import numpy as np

from elmfield._array.typing import Array
from elmfield.codec import pack, pack_many

TILE = 1 << 19
"""Bytes of a tile before it is coded, about."""

UNIT = 64
"""Tiles are multiples of this along an axis, where they are not much smaller."""

CHANNELS = 4096
"""Channels of a tile at most."""

TOGETHER = 8
"""Tiles that are coded side by side."""


@dataclass(frozen=True)
class Tiling:
    """Samples from `low` to `high` on each axis, channels the last, in tiles.

    Parameters
    ----------
    low, high : tuple of int
        The first sample on each axis, and the first beyond; for channels, 0 and C.
    tile : tuple of int
        Samples of a tile on each axis; the last ones may have fewer.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    tile: tuple[int, ...]

    @classmethod
    def by_bytes(cls, low: Sequence[int], high: Sequence[int], itemsize: int) -> "Tiling":
        """Tiles of about `TILE` bytes, as long on all axes as that allows."""
        sizes = [b - a for a, b in zip(low, high)]
        tile = [0] * len(sizes)
        tile[-1] = min(sizes[-1], CHANNELS)
        room = max(1.0, TILE / (itemsize * tile[-1]))
        # Short axes first: what they do not take is left for the others.
        wide = sorted(range(len(sizes) - 1), key=sizes.__getitem__)
        for place, k in enumerate(wide):
            side = room ** (1 / (len(wide) - place))
            parts = max(1, round(sizes[k] / side))
            tile[k] = -(-sizes[k] // parts)
            if parts > 1:  # whole boxes of the codec, and coarse pictures that fit together
                unit = min(UNIT, 1 << max(0, int(side).bit_length() - 2))
                tile[k] = -(-tile[k] // unit) * unit
            room = max(1.0, room / tile[k])
        return cls(tuple(low), tuple(high), tuple(tile))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples on each axis, and channels."""
        return tuple(b - a for a, b in zip(self.low, self.high))

    @property
    def counts(self) -> tuple[int, ...]:
        """Tiles on each axis."""
        return tuple(-(-n // t) for n, t in zip(self.sizes, self.tile))

    @property
    def n_tiles(self) -> int:
        """Tiles in all."""
        return math.prod(self.counts)

    @property
    def n_values(self) -> int:
        """Numbers in all."""
        return math.prod(self.sizes)

    def place(self, number: int) -> tuple[int, ...]:
        """Which tile it is on each axis; tiles are numbered in array order."""
        return tuple(map(int, np.unravel_index(number, self.counts)))

    def slab(self, number: int) -> tuple[slice, ...]:
        """The samples of a tile, channels included, as slices of the whole array."""
        return tuple(
            slice(a + i * t, min(a + (i + 1) * t, b))
            for i, t, a, b in zip(self.place(number), self.tile, self.low, self.high)
        )

    def shape(self, number: int) -> tuple[int, ...]:
        """Samples of a tile on each axis, and channels."""
        return tuple(s.stop - s.start for s in self.slab(number))

    def with_channels(self, n: int) -> "Tiling":
        """The same samples of another number of channels, all in one tile."""
        return Tiling(self.low, (*self.high[:-1], n), (*self.tile[:-1], n))

    def part(self, low: Sequence[int], high: Sequence[int]) -> tuple["Tiling", list[int]]:
        """The tiles that hold the samples between two corners, and their numbers here."""
        firsts = [(a - o) // t for a, o, t in zip(low, self.low, self.tile)]
        lasts = [-(-(b - o) // t) for b, o, t in zip(high, self.low, self.tile)]
        new = Tiling(
            tuple(o + i * t for o, i, t in zip(self.low, firsts, self.tile)),
            tuple(min(o + j * t, e) for o, j, t, e in zip(self.low, lasts, self.tile, self.high)),
            self.tile,
        )
        every = cartesian(*(range(i, j) for i, j in zip(firsts, lasts)))
        return new, [int(np.ravel_multi_index(at, self.counts)) for at in every]


def without_channels(values: Array) -> tuple[Array, int | None]:
    """A tile as the codec takes it, and where its channels are: one channel has no axis.

    Axes beyond the fourth, and there are few such arrays, are folded into the first.
    """
    C = values.shape[-1]
    if values.ndim > 5:
        values = values.reshape(-1, *values.shape[-4:])
    return (
        (np.ascontiguousarray(values), -1)
        if C > 1
        else (np.ascontiguousarray(values[..., 0]), None)
    )


def packed(values: Array, **asked: float) -> bytes:
    """A tile, channels last, coded; without loss if nothing is asked."""
    values, channel_axis = without_channels(values)
    return pack(values, channel_axis=channel_axis, **asked)


def packed_many(tiles: Sequence[Array], **asked: float) -> list[bytes]:
    """Some tiles of an array, channels last; together is faster, unless a step is asked for."""
    if "step" in asked:
        return [packed(tile, **asked) for tile in tiles]
    found = [without_channels(values) for values in tiles]
    axis = found[0][1] if found else None
    return pack_many([values for values, _ in found], channel_axis=axis, **asked)
