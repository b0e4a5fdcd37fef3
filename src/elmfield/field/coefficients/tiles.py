"""An array cut into coded tiles: which samples each holds, and how they are decoded and summed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from itertools import product as cartesian
from typing import Any, Protocol, TypeVar

import numpy as np

from elmfield._array import running
from elmfield._array.cache import Recent
from elmfield._array.checks import USUAL_EFFORT
from elmfield._array.running import capacity, n_threads, runs, spread
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.codec import has_coarse, pack_decoded, unpack, unpack_many
from elmfield.errors import StoreError
from elmfield.measure.metrics import Errors, error_sums
from elmfield.partition import Partition

R = TypeVar("R")

TILE_BYTES = 1 << 20
"""Bytes of a tile before it is coded, about. ERA5 in tiles of one and of two MiB, two cores: within
0.1 K coded at 51 and 42 MB/s, at 50 dB at 35 and 22, without loss read at 154 and 91, in 2 %, 5 %
and 0.2 % more bytes; in tiles of half of one MiB half as fast."""

TILE_MULTIPLE = 64
"""Tiles are multiples of this along an axis, where they are not much smaller."""

TILE_MAX_CHANNELS = 4096
"""Channels of a tile at most."""

TILES_PER_BATCH = 4
"""Tiles that are coded side by side."""

TILE_CACHE_BYTES = 1 << 26
"""Bytes of decoded tiles kept at hand, at most; half a batch where memory is limited."""


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
        """Tiles of about `TILE_BYTES` bytes, as long on all axes as that allows."""
        sizes = [b - a for a, b in zip(low, high)]
        tile = [0] * len(sizes)
        tile[-1] = min(sizes[-1], TILE_MAX_CHANNELS)
        room = max(1.0, TILE_BYTES / (itemsize * tile[-1]))
        # Short axes first: what they do not take is left for the others.
        wide = sorted(range(len(sizes) - 1), key=sizes.__getitem__)
        for place, k in enumerate(wide):
            side = room ** (1 / (len(wide) - place))
            parts = max(1, round(sizes[k] / side))
            tile[k] = -(-sizes[k] // parts)
            if parts > 1:  # whole boxes of the codec, and coarse pictures that fit together
                unit = min(TILE_MULTIPLE, 1 << max(0, int(side).bit_length() - 2))
                tile[k] = -(-tile[k] // unit) * unit
            room = max(1.0, room / tile[k])
        return cls(tuple(low), tuple(high), tuple(tile))

    @classmethod
    def whole(cls, sizes: Sequence[int]) -> "Tiling":
        """All samples in one tile."""
        return cls((0,) * len(sizes), tuple(sizes), tuple(sizes))

    @property
    def extent(self) -> tuple[slice, ...]:
        """All samples, channels apart, as slices of the whole array."""
        return tuple(map(slice, self.low[:-1], self.high[:-1]))

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

    def cut(self, values: Array, number: int, first: Sequence[int] | None = None) -> Array:
        """A tile of an array (..., C or 1) that begins at `first`, by default at `low`; a view."""
        *slab, channels = self.slab(number)
        at = [slice(s.start - a, s.stop - a) for s, a in zip(slab, first or self.low)]
        return values[(*at, channels if values.shape[-1] > 1 else slice(None))]

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
    own, axis = (values, -1) if C > 1 else (values[..., 0], None)
    return np.ascontiguousarray(own), axis


def packed(values: Array) -> bytes:
    """A tile, channels last, coded without loss."""
    return pack_tiles([values])[0][0]


def pack_tiles(
    tiles: Sequence[Array], *, effort: int = USUAL_EFFORT, **asked: float
) -> list[tuple[bytes, Array]]:
    """Some tiles of an array, channels last, coded together; and what they are decoded to.

    Without loss, unless a `step` or a `max_error` is asked for.
    """
    found = [without_channels(values) for values in tiles]
    axis = found[0][1] if found else None
    given = [values for values, _ in found]
    made = pack_decoded(given, channel_axis=axis, effort=effort, **asked)
    return [(data, values.reshape(tile.shape)) for (data, values), tile in zip(made, tiles)]


def code_tiles(
    numbers: Sequence[int],
    values: Callable[[int], Array],
    finish: Callable[[int, bytes, Array, Errors], R],
    *,
    there: Callable[[int], Array] | None = None,
    effort: int = USUAL_EFFORT,
    **asked: float,
) -> list[R]:
    """Code tiles on all threads, some side by side; parameters are those of `pack_tiles`.

    ``values(number)`` are the samples of a tile, channels last; ``there(number)`` says at which of
    them errors count, by default at all. What comes back is what ``finish`` makes of a tile's
    number, its bytes, the samples that these are decoded to, and the errors of those.
    """

    def work(some: Sequence[int]) -> list[R]:
        own, found = [values(i) for i in some], []
        made = pack_tiles(own, effort=effort, **asked)
        for i, y, (data, decoded) in zip(some, own, made):
            errors: Errors = (0.0, 0.0, y.size)
            if asked:
                gap = np.subtract(decoded, y, dtype=np.float64)
                errors = error_sums(np.abs(gap, out=gap), None if there is None else there(i))
            found.append(finish(i, data, decoded, errors))
        return found

    most = max(1, min(TILES_PER_BATCH, len(numbers) // n_threads()))
    shares = [numbers[a:b] for a, b in runs(len(numbers), most)]
    return list(chain.from_iterable(spread(work, shares)))


# --- decoding -------------------------------------------------------------------------------------


class TileBytes(Protocol):
    """Coded tiles by number, and how many bytes each has: a tuple of bytes, or those of a file."""

    def __getitem__(self, number: int, /) -> bytes: ...


class CodedTiles:
    """An array in coded tiles, channels last: a source of samples that keeps the last decoded.

    Parameters
    ----------
    tiles : TileBytes
        The bytes of each tile.
    tiling : Tiling
        Which samples they hold.
    dtype : NumPy dtype
        Of the samples.
    sizes : sequence of int, optional
        Bytes of each tile; by default those of `tiles` are counted.
    """

    def __init__(
        self, tiles: TileBytes, tiling: Tiling, dtype: DType, sizes: Sequence[int] | None = None
    ) -> None:
        self.tiles, self.tiling, self.dtype = tiles, tiling, np.dtype(dtype)
        self.sizes = sizes or [len(tiles[i]) for i in range(tiling.n_tiles)]
        self._kept = Recent[int, Array]()

    def __reduce__(self) -> tuple[Any, ...]:  # decoded tiles stay here
        return CodedTiles, (self.tiles, self.tiling, self.dtype, self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, counted from 0 where a crop begins later, and channels."""
        return self.tiling.high

    @property
    def n_bytes(self) -> int:
        """Bytes of all tiles."""
        return sum(self.sizes)

    def __call__(self, number: int) -> Array:
        """Return the samples of a tile, channels last."""
        values = self._kept.find(number)
        if values is None:
            (values,) = self.decode([number])
            self._kept.keep(number, values, self._room)
        return values

    @property
    def _room(self) -> int:
        """Tiles that are kept at most."""
        each = math.prod(self.tiling.tile) * int(self.dtype.itemsize)
        most = min(TILE_CACHE_BYTES, 4 * capacity(np.empty(0)))  # half of what a batch may take
        return max(1, most // each)

    def prefetch(self, numbers: Iterable[int]) -> None:
        """Decode those tiles that are not at hand, if there is room for all: together is faster."""
        wanted = sorted(set(numbers))
        if len(wanted) > self._room:
            return
        missing = [i for i in wanted if self._kept.find(i) is None]
        for i, values in zip(missing, self.decode(missing) if missing else ()):
            self._kept.keep(i, values, self._room)

    def know(self, decoded: dict[int, Array]) -> None:
        """Take over decoded tiles, if there is room for all."""
        if len(decoded) <= self._room:
            self._kept.update(decoded)

    def decode(self, numbers: Sequence[int]) -> list[Array]:
        """Decode some tiles anew; StoreError if one is not what was expected."""
        found = []
        for i, values in zip(numbers, unpack_many([self.tiles[i] for i in numbers])):
            shape = self.tiling.shape(i)
            if values.dtype != self.dtype or values.size != math.prod(shape):
                raise StoreError(
                    f"a coded tile holds {values.dtype} of shape {values.shape}; {self.dtype} of "
                    f"{shape} was expected. It is damaged."
                )
            found.append(values.reshape(shape))
        return found

    def in_memory(self) -> "CodedTiles":
        """The same without a file."""
        every = tuple(self.tiles[i] for i in range(self.tiling.n_tiles))
        return CodedTiles(every, self.tiling, self.dtype)

    def read(self, slab: Sequence[Integers | slice] = ()) -> Array:
        """Samples (..., C) of a slab, or on a grid of ascending positions on each axis."""
        t = self.tiling
        every = [*positions(slab or t.extent), np.arange(t.sizes[-1])]
        spans: list[list[tuple[int, slice, Any]]] = []
        for at, low, high, n in zip(every, t.low, t.high, t.tile):
            if len(at) and (at[0] < low or at[-1] >= high):
                raise StoreError("the model file lacks samples that its regions need.")
            tile, first = np.unique((at - low) // n, return_index=True)
            ends = [*first[1:].tolist(), len(at)]
            spans.append(
                [
                    (int(i), slice(a, b), run_of(at[a:b] - low - i * n))
                    for i, a, b in zip(tile, first.tolist(), ends)
                ]
            )
        out = np.empty(tuple(map(len, every)), self.dtype)
        running.pays(out.size)
        corners = list(cartesian(*spans))
        numbers = [int(np.ravel_multi_index([i for i, _, _ in c], t.counts)) for c in corners]
        room = self._room
        for i, (corner, number) in enumerate(zip(corners, numbers)):
            if i % room == 0:
                self.prefetch(numbers[i : i + room])
            values: Array = self(number)
            for k, (_, _, inner) in enumerate(corner):
                values = values[(slice(None),) * k + (inner,)]
            out[tuple(s for _, s, _ in corner)] = values
        return out

    def batches(
        self, partition: Partition, starts: Integers, box: tuple[int, ...]
    ) -> Iterator[Integers]:
        """Rows of boxes that begin in the same tile; what all of them need is decoded first."""
        t = self.tiling
        ends: list[Integers] = []  # tiles of the corners along each axis, (G, corners)
        tile = np.zeros(len(starts), np.int64)
        for k, b in enumerate(box):
            corners = starts[:, k, None] + np.minimum(np.arange(0, b + t.tile[k], t.tile[k]), b - 1)
            last = t.counts[k] - 1
            ends.append(np.clip((partition.within(k, corners) - t.low[k]) // t.tile[k], 0, last))
            first = np.clip((starts[:, k] - t.low[k]) // t.tile[k], 0, last)
            tile = tile * t.counts[k] + first
        place = np.zeros((len(starts), 1), np.int64)
        for along, n in zip(ends, t.counts):
            place = (place[:, :, None] * n + along[:, None, :]).reshape(len(starts), -1)
        touched = np.unique(place)[:, None] * t.counts[-1] + np.arange(t.counts[-1])
        self.prefetch(touched.reshape(-1).tolist())
        order = np.argsort(tile, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(tile[order])) + 1)

    @property
    def have_coarse(self) -> bool:
        """Whether all tiles begin with a coarse picture."""
        return all(has_coarse(self.tiles[i]) for i in range(self.tiling.n_tiles))

    def means(self, k: int) -> Array:
        """Means of 2^k samples on each axis, tile by tile."""
        totals = Totals(self.tiling, k)
        for number in range(self.tiling.n_tiles):
            *slab, channels = self.tiling.slab(number)
            totals.add(slab, self._sums(number, k), channels)
        return totals.means()

    def _sums(self, number: int, k: int) -> Array:
        """What a tile adds to the :class:`Totals` of all; from its first part, if that is enough.

        Only tiles coded in boxes begin with means of their own, whose blocks lie on the tile: they
        serve up to the level at which it begins with a block of the array.
        """
        tiling, data = self.tiling, self.tiles[number]
        *slab, _ = tiling.slab(number)
        starts = [s.start - a for s, a in zip(slab, tiling.low)]
        of = min([k, *((n & -n).bit_length() - 1 for n in starts if n)])
        if of == 0 or not has_coarse(data):
            return sums_of(tiling, k, slab, self(number))
        *sizes, C = tiling.shape(number)
        values, shape = unpack(data, coarse=of), (*(-(-n >> of) for n in sizes), C)
        if values.size != math.prod(shape):
            raise StoreError(f"a coarse tile has shape {values.shape}; {shape} was expected.")
        return sums_of(tiling, k, slab, values.reshape(shape), of)


def sums_of(tiling: Tiling, k: int, slab: Sequence[slice], values: Array, of: int = 0) -> Array:
    """Sums over blocks of 2^k samples on each axis, of those in a slab; channels last.

    `values` are the slab's samples, or means of 2^of of them where it begins with a block of these.
    """
    out: Array = values
    for axis, (s, low) in enumerate(zip(slab, tiling.low)):
        starts = np.arange(s.start - low, s.stop - low, 1 << of)
        if of:
            each = np.diff(starts, append=s.stop - low)
            out = out * each.reshape(-1, *(1,) * (out.ndim - 1 - axis))
        first = np.flatnonzero(np.diff(starts >> k, prepend=-1))
        out = np.add.reduceat(out, first, axis=axis, dtype=np.float64)
    return out


class Totals:
    """Sums over blocks of 2^k samples on each axis, added up from slabs in any cut and order.

    Sums of numbers of 32 bits are exact in float64, as long as these do not differ in size by more
    than a factor of half a million: then the means do not depend on the cut.
    """

    def __init__(self, tiling: Tiling, k: int) -> None:
        self.tiling, self.k = tiling, k
        *sizes, C = tiling.sizes
        self.sums = np.zeros((*(-(-n >> k) for n in sizes), C))

    @classmethod
    def of(cls, tiling: Tiling, k: int, read: Callable[[tuple[slice, ...]], Array]) -> "Totals":
        """Those of all samples; `read` gives those of a slab, some rows of the first axis."""
        totals, (first, *others) = cls(tiling, k), tiling.extent
        rows = max(1, capacity(np.empty(0)) // 4 // max(1, math.prod(tiling.sizes[1:])))
        for a in range(first.start, first.stop, rows):
            slab = (slice(a, min(a + rows, first.stop)), *others)
            totals.add(slab, sums_of(tiling, k, slab, read(slab)))
        return totals

    def add(self, slab: Sequence[slice], sums: Array, channels: slice = slice(None)) -> None:
        """Put the sums of a slab, those of :func:`sums_of`, to those of the blocks it lies in."""
        first = [(s.start - a) >> self.k for s, a in zip(slab, self.tiling.low)]
        at = tuple(slice(i, i + n) for i, n in zip(first, sums.shape))
        self.sums[(*at, channels)] += sums

    def means(self) -> Floats:
        """The means; blocks at the end of an axis may have fewer samples."""
        out = self.sums
        for axis, n in enumerate(self.tiling.sizes[:-1]):
            each = np.diff([*range(0, n, 1 << self.k), n])
            out = out / each.reshape(-1, *(1,) * (out.ndim - 1 - axis))
        return out


# --- positions ------------------------------------------------------------------------------------


def positions(x: Sequence[Integers | slice]) -> list[Integers]:
    """Return slices as the positions that they span."""
    return [np.arange(s.start, s.stop) if isinstance(s, slice) else s for s in x]


def run_of(at: Integers | slice) -> Integers | slice:
    """Positions as a slice where they are one run."""
    if isinstance(at, slice) or not len(at):
        return at
    if int(at[-1]) - int(at[0]) == len(at) - 1:
        return slice(int(at[0]), int(at[-1]) + 1)
    return at
