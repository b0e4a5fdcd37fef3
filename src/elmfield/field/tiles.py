"""Samples in coded tiles: a box of an array cut into tiles, decoded where somebody looks.

Tiles lie in memory or in a file, all the same here: numbers in, bytes out. The last few that were
decoded are kept.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from itertools import product as cartesian
from typing import Any, Protocol

import numpy as np

from elmfield._array.memory import capacity
from elmfield._array.typing import Array, Floats, Integers
from elmfield.codec import has_coarse, unpack, unpack_many
from elmfield.errors import StoreError
from elmfield.field.tiling import Tiling
from elmfield.partition import Partition

FIRST = 6
"""Halvings of the means that a tile coded with loss begins with."""

CACHE = 1 << 26
"""Bytes of decoded tiles kept at hand, at most; half a batch where memory is limited."""


class Tiles(Protocol):
    """Coded tiles, by number."""

    def read(self, number: int) -> bytes:
        """The bytes of one tile."""

    def size(self, number: int) -> int:
        """How many they are."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """Coded tiles in memory."""

    tiles: Sequence[bytes] = field(repr=False)

    def read(self, number: int) -> bytes:
        """The bytes of one tile."""
        return self.tiles[number]

    def size(self, number: int) -> int:
        """How many they are."""
        return len(self.tiles[number])


class Decoded:
    """Tiles, decoded when asked for; those asked for last are kept.

    Parameters
    ----------
    tiles : Tiles
        Their bytes.
    tiling : Tiling
        Which samples they hold.
    dtype : NumPy dtype
        Of the samples.
    """

    def __init__(self, tiles: Tiles, tiling: Tiling, dtype: Any) -> None:
        self.tiles, self.tiling, self.dtype = tiles, tiling, np.dtype(dtype)
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoded, (self.tiles, self.tiling, self.dtype)  # what is at hand stays here

    def __call__(self, number: int) -> Array:
        """The samples of a tile, channels last."""
        with self._lock:
            if number in self._kept:
                self._kept.move_to_end(number)
                return self._kept[number]
        (values,) = self.read([number])
        self._keep(number, values)
        return values

    @property
    def room(self) -> int:
        """Tiles that are kept at most."""
        each = math.prod(self.tiling.tile) * int(self.dtype.itemsize)
        most = min(CACHE, 4 * capacity(np.empty(0)))  # half of what a batch may take
        return max(1, most // each)

    def ready(self, numbers: Iterable[int]) -> None:
        """Decode those tiles that are not at hand, if there is room for all: together is faster."""
        wanted = sorted(set(numbers))
        if len(wanted) > self.room:
            return
        with self._lock:
            missing = [i for i in wanted if i not in self._kept]
            for i in wanted:
                if i in self._kept:
                    self._kept.move_to_end(i)
        for i, values in zip(missing, self.read(missing) if missing else ()):
            self._keep(i, values)

    def _keep(self, number: int, values: Array) -> None:
        room = self.room
        with self._lock:
            self._kept[number] = values
            while len(self._kept) > room:
                self._kept.popitem(last=False)

    def read(self, numbers: Sequence[int]) -> list[Array]:
        """Some tiles, decoded anew."""
        found = unpack_many([self.tiles.read(i) for i in numbers])
        return [self.checked(v, self.tiling.shape(i)) for i, v in zip(numbers, found)]

    def whole(self) -> Array:
        """All samples, channels last, decoded anew."""
        out = np.empty(self.tiling.sizes, self.dtype)
        for i, values in enumerate(self.read(range(self.tiling.n_tiles))):
            slab = zip(self.tiling.slab(i), self.tiling.low)
            out[tuple(slice(s.start - a, s.stop - a) for s, a in slab)] = values
        return out

    def in_memory(self) -> "Decoded":
        """The same without a file."""
        every = tuple(self.tiles.read(i) for i in range(self.tiling.n_tiles))
        return Decoded(InMemory(every), self.tiling, self.dtype)

    def checked(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Samples of a tile, if they are what was expected."""
        if values.dtype != self.dtype or values.size != math.prod(shape):
            raise StoreError(
                f"a coded tile holds {values.dtype} of shape {values.shape}; {self.dtype} of "
                f"{shape} was expected. It is damaged."
            )
        return values.reshape(shape)

    @property
    def have_coarse(self) -> bool:
        """Whether all tiles begin with a coarse picture."""
        return all(has_coarse(self.tiles.read(i)) for i in range(self.tiling.n_tiles))

    def coarse(self, number: int, k: int) -> Array:
        """Means of 2^k samples of a tile on each axis; from the first part of its bytes, if it can.

        Only tiles coded in boxes have a coarse picture of their own.
        """
        *sizes, C = self.tiling.shape(number)
        data, shape = self.tiles.read(number), (*(-(-n >> k) for n in sizes), C)
        if not has_coarse(data):
            return block_means(self(number), k)
        values = unpack(data, coarse=k)
        if values.size != math.prod(shape):
            raise StoreError(f"a coarse tile has shape {values.shape}; {shape} was expected.")
        return values.reshape(shape)


def block_means(values: Array, k: int, of: int = 0, sizes: Sequence[int] = ()) -> Array:
    """Means (..., C) of 2^k samples on each axis; at its end there may be fewer.

    Of samples, or of means of 2^of of them, where the axes have so many samples.
    """
    out: Array = values
    for axis, n in enumerate(sizes or values.shape[:-1]):
        each = np.diff([*range(0, n, 1 << of), n]).reshape(-1, *(1,) * (values.ndim - 1 - axis))
        first = np.arange(0, len(each), 1 << (k - of))
        weighed = out * each if of else out
        sums = np.add.reduceat(weighed, first, axis=axis, dtype=np.float64)
        out = sums / np.add.reduceat(each, first, axis=0)
    return out.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Coded:
    """Boxes of samples that are taken out of coded tiles.

    Parameters
    ----------
    decoded : Decoded
        The tiles.
    offset, scale : arrays, shape (C,), or None
        Taken off the samples, and divided by; None where they are stored so.
    dtype : NumPy dtype
        In which samples are handed out.
    is_lossy : bool
        Whether something was lost when they were coded.
    missing : Decoded or None
        Which samples were missing, 1 where, of one channel for all or of each.
    own : tuple of int or None
        Which channels; all by default.
    overview : pair of int and Decoded, or None
        Means of 2^k samples on each axis, as samples are stored, and k.
    """

    decoded: Decoded
    offset: Floats | None
    scale: Floats | None
    dtype: Any
    is_lossy: bool = False
    missing: Decoded | None = None
    own: tuple[int, ...] | None = None
    overview: tuple[int, Decoded] | None = None

    @property
    def tiling(self) -> Tiling:
        """Which samples there are."""
        return self.decoded.tiling

    @property
    def like(self) -> Array:
        """An empty array of the dtype of what is handed out."""
        return np.empty(0, self.dtype)

    @property
    def kind(self) -> str:
        """Dtype of the samples as they are stored."""
        return str(self.decoded.dtype.name)

    @property
    def is_raw(self) -> bool:
        """Whether samples are stored in the caller's units."""
        return self.offset is not None

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return self.tiling.sizes[-1] if self.own is None else len(self.own)

    def of(self, partition: Partition, regions: Integers, box: tuple[int, ...]) -> Array:
        """Samples (G, S, C) of the boxes of some regions, in the unit of the fit."""
        starts, G = partition.boxes[0][regions], len(regions)
        out = np.empty((G, math.prod(box), self.n_channels), self.dtype)
        self.decoded.ready(self._touched(partition, starts, box))
        for rows in self._by_tile(starts):
            out[rows] = on_boxes(self.at, partition, starts[rows], box)
        return out

    def _touched(
        self, partition: Partition, starts: Integers, box: tuple[int, ...]
    ) -> Iterable[int]:
        """Numbers of the tiles that some boxes lie in: those of their corners, and between."""
        t = self.tiling
        ends = []
        for k, b in enumerate(box):
            corners = starts[:, k, None] + np.minimum(np.arange(0, b + t.tile[k], t.tile[k]), b - 1)
            ends.append(
                np.clip((partition.within(k, corners) - t.low[k]) // t.tile[k], 0, t.counts[k] - 1)
            )
        place = np.zeros((len(starts), 1), np.int64)
        for along, n in zip(ends, t.counts):
            place = (place[:, :, None] * n + along[:, None, :]).reshape(len(starts), -1)
        first = np.unique(place) * t.counts[-1]
        return (first[:, None] + np.arange(t.counts[-1])).reshape(-1).tolist()

    def _by_tile(self, starts: Integers) -> Iterator[Integers]:
        """Rows of boxes that begin in the same tile."""
        tile = np.zeros(len(starts), np.int64)
        for k, (t, n, low) in enumerate(zip(self.tiling.tile, self.tiling.counts, self.tiling.low)):
            if k < starts.shape[1]:
                tile = tile * n + np.clip((starts[:, k] - low) // t, 0, n - 1)
        order = np.argsort(tile, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(tile[order])) + 1)

    def at(self, x: Sequence[Integers]) -> Array:
        """Samples (..., C) on the grid of ascending positions on each axis, in the fit's unit."""
        values = self.stored(x)
        if self.offset is not None and self.scale is not None:
            values = values.astype(self.offset.dtype)
            values -= self.offset
            values /= self.scale
        values = values.astype(self.dtype, copy=False)
        return values if self.own is None else values[..., list(self.own)]

    def stored(self, x: Sequence[Integers]) -> Array:
        """The same as they are stored, all channels."""
        return outer(self.decoded, x)

    @property
    def n_bytes(self) -> int:
        """Bytes of all tiles."""
        return sum(self.decoded.tiles.size(i) for i in range(self.tiling.n_tiles))

    @property
    def coded(self) -> "Coded":
        """Itself: samples lie in tiles."""
        return self

    def kept(self, slab: tuple[slice, ...]) -> Array:
        """The samples of a slab as they are stored."""
        values = self.stored(_positions(slab))
        return values if self.own is None else values[..., list(self.own)]

    def gaps(self, slab: tuple[slice, ...]) -> Array | None:
        """Which samples of a slab were missing."""
        if self.missing is None:
            return None
        gone = outer(self.missing, _positions(slab)) != 0
        return gone if self.own is None or gone.shape[-1] == 1 else gone[..., list(self.own)]

    def block(self, slab: tuple[slice, ...]) -> Array:
        """The samples of a slab of the array, (..., C), in the unit of the fit."""
        return self.at(_positions(slab))

    @property
    def glance(self) -> int | None:
        """How often axes must be halved for a `coarse` that is quick; None if it never is."""
        if self.overview is not None:
            return self.overview[0]
        return FIRST if self.is_lossy else None

    def coarse(self, k: int) -> Array:
        """Means of 2^k samples on each axis, (..., C), in the unit of the fit."""
        if self.overview is not None and k >= self.overview[0]:
            level, kept = self.overview
            out = block_means(kept.whole(), k, level, self.tiling.sizes[:-1])
        else:
            out = self._coarse_tiles(k)
        if self.offset is not None and self.scale is not None:
            out = (out - self.offset) / self.scale
        out = out.astype(self.dtype)
        return out if self.own is None else out[..., list(self.own)]

    def _coarse_tiles(self, k: int) -> Array:
        """The same as samples are stored, tile by tile."""
        t = self.tiling
        out = np.empty((*(-(-n >> k) for n in t.sizes[:-1]), t.sizes[-1]))
        for number in range(t.n_tiles):
            *slab, own = t.slab(number)
            first = [(s.start - a) >> k for s, a in zip(slab, t.low)]
            means = self.decoded.coarse(number, k)
            at = tuple(slice(i, i + n) for i, n in zip(first, means.shape))
            out[(*at, own)] = means
        return out

    def in_memory(self) -> "Coded":
        """The same without a file."""
        missing = None if self.missing is None else self.missing.in_memory()
        overview = (
            None if self.overview is None else (self.overview[0], self.overview[1].in_memory())
        )
        return replace(self, decoded=self.decoded.in_memory(), missing=missing, overview=overview)

    def moved(self, like: Array) -> Any:
        """All samples, decoded, in the library and on the device of `like`."""
        from elmfield.field.boxes import Whole  # which knows this room

        ends = list(zip(self.tiling.low, self.tiling.high))[:-1]
        slab = tuple(slice(a, b) for a, b in ends)
        # What lies before a crop none of its boxes asks for.
        before = [*((a, 0) for a, _ in ends), (0, 0)]
        gaps = self.gaps(slab)
        C, own = self.tiling.sizes[-1], np.dtype(self.dtype)
        offset = np.zeros(C) if self.offset is None else self.offset
        scale = np.ones(C) if self.scale is None else self.scale
        picked = slice(None) if self.own is None else list(self.own)
        return Whole(
            values=np.pad(self.kept(slab), before),
            offset=np.asarray(offset)[picked].astype(own),
            scale=np.asarray(scale)[picked].astype(own),
            kind=self.kind,
            missing=None if gaps is None else np.pad(gaps, before),
        ).moved(like)

    def channels(self, own: slice) -> "Coded":
        """The same for some of the channels."""
        every = range(self.tiling.sizes[-1]) if self.own is None else self.own
        return replace(self, own=tuple(every[own]))


def on_boxes(
    at: Callable[[Sequence[Integers]], Array],
    partition: Partition,
    starts: Integers,
    box: tuple[int, ...],
) -> Array:
    """Samples (G, S, C) of boxes that begin at `starts`, (G, d).

    `at` gives samples (..., C) on the grid of ascending positions on each axis.
    """
    along = [partition.within(k, starts[:, k, None] + np.arange(b)) for k, b in enumerate(box)]
    spans = [np.unique(a, return_inverse=True) for a in along]  # along: (G, b) each
    values = at([u for u, _ in spans])
    index = np.zeros((len(starts), 1), np.int64)
    for (u, inner), a in zip(spans, along):
        inner = inner.reshape(a.shape)
        index = (index[:, :, None] * len(u) + inner[:, None, :]).reshape(len(starts), -1)
    return values.reshape(-1, values.shape[-1])[index]


def runs_of(x: Sequence[Integers]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Slabs of an array that make up a grid of positions, and where each goes in it."""
    spans = []
    for at in x:
        ends = [0, *(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
        spans.append(
            [(slice(int(at[i]), int(at[j - 1]) + 1), slice(i, j)) for i, j in pairwise(ends)]
        )
    for corner in cartesian(*spans):
        yield tuple(a for a, _ in corner), tuple(b for _, b in corner)


def outer(decoded: Decoded, x: Sequence[Integers]) -> Array:
    """Samples (..., C) of tiles on the grid of ascending positions on each axis."""
    tiling = decoded.tiling
    every = [*x, np.arange(tiling.sizes[-1])]
    spans: list[list[tuple[int, slice, Any]]] = []
    for at, low, high, t in zip(every, tiling.low, tiling.high, tiling.tile):
        if len(at) and (at[0] < low or at[-1] >= high):
            raise StoreError("the model file lacks samples that its regions need.")
        tile, first = np.unique((at - low) // t, return_index=True)
        ends = [*first[1:].tolist(), len(at)]
        spans.append(
            [
                (int(i), slice(a, b), _run(at[a:b] - low - i * t))
                for i, a, b in zip(tile, first.tolist(), ends)
            ]
        )
    out = np.empty(tuple(map(len, every)), decoded.dtype)
    corners = list(cartesian(*spans))
    numbers = [int(np.ravel_multi_index([i for i, _, _ in c], tiling.counts)) for c in corners]
    for i, (corner, number) in enumerate(zip(corners, numbers)):
        if i % decoded.room == 0:
            decoded.ready(numbers[i : i + decoded.room])
        values: Array = decoded(number)
        for k, (_, _, inner) in enumerate(corner):
            values = values[(slice(None),) * k + (inner,)]
        out[tuple(s for _, s, _ in corner)] = values
    return out


def _positions(slab: tuple[slice, ...]) -> list[Integers]:
    return [np.arange(s.start, s.stop) for s in slab]


def _run(at: Integers) -> Any:
    """Positions as a slice where they are one run."""
    if int(at[-1]) - int(at[0]) == len(at) - 1:
        return slice(int(at[0]), int(at[-1]) + 1)
    return at
