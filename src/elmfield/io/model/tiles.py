"""Samples in a model file: a box of an array cut into tiles, so that a window reads few blocks.

A field of regions that choose what they believe is its samples. Which of them a file holds, where
each lies among its numbers, and how boxes of them are taken out again, is settled here.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from elmfield._array.backend import move, to_numpy
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.errors import StoreError
from elmfield.field import Field, Sampled
from elmfield.field.blended import Group
from elmfield.field.sampled import Whole, rounding
from elmfield.local.bases import WaveModel
from elmfield.local.model import LocalModel
from elmfield.partition import Partition

TILE = {1: 4096, 2: 64, 3: 16}
"""Samples of a tile per axis, by number of axes: 4096 in all."""

WHOLE = ("uint8", "int8", "uint16", "int16", "uint32", "int32")
"""Whole numbers that are stored as they came."""


@dataclass(frozen=True)
class Tiling:
    """Samples from `low` to `high` on each axis, tile after tile, in array order, channels fastest.

    Parameters
    ----------
    low, high : tuple of int
        The first sample on each axis, and the first beyond.
    tile : int
        Samples of a tile on each axis; the last may have fewer.
    n_channels : int
        C.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    tile: int
    n_channels: int

    @classmethod
    def read(cls, said: dict[str, Any], shape: tuple[int, ...], n_channels: int) -> "Tiling | None":
        """What a file says of the samples of an array of this shape; None if that is nonsense."""
        low, high = (tuple(map(int, said[name])) for name in ("low", "high"))
        fits = len(low) == len(high) == len(shape) and int(said["tile"]) >= 1
        known = said["dtype"] in (*WHOLE, "float64", "float32", "float16")
        if not (fits and known and all(0 <= a < b <= n for a, b, n in zip(low, high, shape))):
            return None
        return cls(low, high, int(said["tile"]), n_channels)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return tuple(b - a for a, b in zip(self.low, self.high))

    @property
    def n_values(self) -> int:
        """Numbers in all."""
        return math.prod(self.sizes) * self.n_channels

    def place(self, at: list[Integers]) -> tuple[Integers, Integers, Integers]:
        """Where the tile of each sample begins, its size, and the sample's place in it.

        All in samples; `at` holds their positions on each axis, arrays of one shape.
        """
        begin, size, inner = (np.zeros_like(at[0]) for _ in range(3))
        heights = np.ones_like(at[0])
        for k, (x, n) in enumerate(zip(at, self.sizes)):
            if (x < self.low[k]).any() or (x >= self.high[k]).any():
                raise StoreError("the model file lacks samples that its regions need.")
            x = x - self.low[k]
            first = x // self.tile * self.tile
            height = np.minimum(self.tile, n - first)
            begin += heights * first * math.prod(self.sizes[k + 1 :])
            inner = inner * height + (x - first)
            heights = heights * height
        size += heights
        return begin, size, inner

    def tiles(self) -> Iterator[tuple[slice, ...]]:
        """Slabs of the array, one for each tile, in the order of the file."""
        counts = [-(-n // self.tile) for n in self.sizes]
        for t in np.ndindex(*counts):
            yield tuple(
                slice(a + i * self.tile, min(a + (i + 1) * self.tile, b))
                for i, a, b in zip(t, self.low, self.high)
            )


class Numbers(Protocol):
    """Numbers of a file, or of memory, by runs."""

    def gather(self, starts: Integers, counts: Integers) -> Array:
        """The runs of numbers that begin at `starts`, one after the other."""


@dataclass(frozen=True, eq=False)
class Held:
    """All numbers of a file, in memory."""

    values: Array = field(repr=False)

    def gather(self, starts: Integers, counts: Integers) -> Array:
        """The runs of numbers that begin at `starts`, one after the other."""
        runs = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return self.values[runs + np.arange(int(counts.sum()))]


@dataclass(frozen=True, eq=False, kw_only=True)
class InFile:
    """Boxes of samples that are read when asked for.

    Parameters
    ----------
    numbers : Numbers
        The samples, in the order of `tiling`.
    tiling : Tiling
        Which are there, and where.
    offset, scale : arrays, shape (C,)
        Of the field; None where samples are stored in the unit of the fit.
    dtype : NumPy dtype
        In which they are handed out.
    own : tuple of int, optional
        Which channels; all by default.
    """

    numbers: Numbers
    tiling: Tiling
    offset: Floats | None
    scale: Floats | None
    dtype: Any
    own: tuple[int, ...] | None = None

    @property
    def like(self) -> Array:
        """An empty array of the samples' dtype."""
        return np.empty(0, self.dtype)

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return self.tiling.n_channels if self.own is None else len(self.own)

    def of(self, partition: Partition, regions: Integers, box: tuple[int, ...]) -> Array:
        """Samples (G, S, C) of the boxes of some regions, in the unit of the fit."""
        starts, d = partition.boxes[0][regions], len(box)
        at = []
        for k, b in enumerate(box):
            along = partition.within(k, starts[:, k, None] + np.arange(b))  # (G, b)
            shape = tuple(b if j == k else 1 for j in range(d))
            along = along.reshape(len(regions), *shape)
            at.append(np.broadcast_to(along, (len(regions), *box)).reshape(len(regions), -1))
        return self._read(at)

    def block(self, slab: tuple[slice, ...]) -> Array:
        """The samples of a slab of the array, (..., C), in the unit of the fit."""
        at = np.meshgrid(*(np.arange(s.start, s.stop) for s in slab), indexing="ij")
        return self._read([np.ascontiguousarray(a) for a in at])

    def _read(self, at: list[Integers]) -> Array:
        """Samples (..., C) at positions on each axis."""
        C = self.tiling.n_channels
        begin, size, inner = self.tiling.place(at)
        tiles, first, which = np.unique(begin, return_index=True, return_inverse=True)
        sizes = size.reshape(-1)[first]
        values = self.numbers.gather(tiles * C, sizes * C).reshape(-1, C)
        place = (np.cumsum(sizes) - sizes)[which.reshape(begin.shape)] + inner
        found = values[place].astype(self.dtype)
        if self.offset is not None and self.scale is not None:
            found = (found - self.offset) / self.scale
        return found if self.own is None else found[..., list(self.own)]

    def moved(self, like: Array) -> Whole:
        """All samples in memory, in the library and on the device of `like`."""
        low, high = self.tiling.low, self.tiling.high
        own = to_numpy(self.block(tuple(slice(a, b) for a, b in zip(low, high))))
        # What a crop does not hold none of its boxes asks for.
        return Whole(move(np.pad(own, [*((a, 0) for a in low), (0, 0)]), like))

    def channels(self, own: slice) -> "InFile":
        """The same for some of the channels."""
        every = range(self.tiling.n_channels) if self.own is None else self.own
        return replace(self, own=tuple(every[own]))


def group_of(
    model: LocalModel,
    partition: Partition,
    numbers: Numbers,
    tiling: Tiling,
    *,
    units: tuple[Floats, Floats],
    is_raw: bool,
) -> Group:
    """The regions of a file that holds their samples: offset and scale, and whether as they came.

    What they believe is found again when they are asked.
    """
    if not isinstance(model, WaveModel):
        raise StoreError("the model file holds samples of regions that are not oriented.")
    offset, scale = units
    boxes = InFile(
        numbers=numbers,
        tiling=tiling,
        offset=offset if is_raw else None,
        scale=scale if is_raw else None,
        dtype=offset.dtype,
    )
    regions = np.arange(partition.n_regions)
    coefficients = Sampled(
        boxes=boxes,
        partition=partition,
        regions=regions,
        beliefs=model.beliefs,
        rounding=rounding(offset, scale.astype(np.float64), boxes.like),
    )
    return Group(model=model, regions=regions, coefficients=coefficients)


# --- what a file says about them ------------------------------------------------------------------


def sampled_in(field: Field) -> tuple[Group, Sampled] | None:
    """The one group of a field that is its samples; None for other fields."""
    for group in field.blended.groups:
        if isinstance(group.coefficients, Sampled):
            return group, group.coefficients
    return None


@dataclass(frozen=True, eq=False)
class SamplePlan:
    """Samples in the order of the file; what `Plan` is for coefficients.

    Parameters
    ----------
    field : Field
        A field that is its samples.
    """

    field: Field

    @property
    def _sampled(self) -> Sampled:
        found = sampled_in(self.field)
        assert found is not None
        return found[1]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The field's one group."""
        return self.field.blended.groups

    @property
    def which(self) -> Integers:
        """Group of each region, (N,)."""
        return np.zeros(self.field.partition.n_regions, np.int64)

    @property
    def tiling(self) -> Tiling:
        """The samples that the regions' boxes need."""
        c = self._sampled
        starts = c.partition.boxes[0][c.regions]
        low, high = [], []
        for k, n in enumerate(c.partition.shape):
            wraps = c.partition.periodic[k]
            low.append(0 if wraps else int(starts[:, k].min()))
            high.append(n if wraps else int(starts[:, k].max()) + c.beliefs.box[k])
        wide = sum(n > 1 for n in c.partition.shape)
        return Tiling(tuple(low), tuple(high), TILE[min(max(wide, 1), 3)], c.boxes.n_channels)

    @property
    def n_values(self) -> int:
        """Numbers in all."""
        return self.tiling.n_values

    def kind(self, dtype: str) -> tuple[str, bool]:
        """The dtype of the stored numbers, and whether they are the samples as they came.

        Whole numbers are, where nothing was filled in or taken off: to take the offset off and to
        divide by the scale then gives what the field has, bit for bit.
        """
        own = str(self.field.coefficient_dtype).removeprefix("torch.")
        wanted = self.field.input_dtype
        if wanted not in WHOLE or dtype != own or self.field.is_complex:
            return dtype, False
        info = np.iinfo(wanted)
        for tile in self.tiling.tiles():
            y, raw = self._raw(tile)
            fits = (raw >= info.min).all() and (raw <= info.max).all()
            if not fits or not np.array_equal((raw - self._offset) / self._scale, y):
                return dtype, False
        return wanted, True

    @property
    def _offset(self) -> Array:
        return to_numpy(self.field.offset)

    @property
    def _scale(self) -> Array:
        return to_numpy(self.field.scale)

    def _raw(self, tile: tuple[slice, ...]) -> tuple[Array, Array]:
        """Samples of a tile in the unit of the fit, and the whole numbers next to them."""
        y = to_numpy(self._sampled.boxes.block(tile))
        return y, np.round(y * self._scale + self._offset)

    def numbers(self, dtype: str, progress: Progress) -> Iterator[Array]:
        """The samples in file order, tile by tile."""
        kind, raw = self.kind(dtype)
        total = math.prod(-(-n // self.tiling.tile) for n in self.tiling.sizes)
        for done, tile in enumerate(self.tiling.tiles(), 1):
            y, whole = self._raw(tile)
            with np.errstate(over="ignore"):
                values = (whole if raw else y).astype(kind).reshape(-1)
            if kind == "float16" and not np.isfinite(values).all():
                raise ValueError("some samples exceed what float16 holds; save as 'float32'.")
            yield values
            progress("save", done, total)

    def told(self, dtype: str) -> dict[str, Any]:
        """What the metadata says about the samples."""
        kind, raw = self.kind(dtype)
        t = self.tiling
        return {
            "low": list(t.low), "high": list(t.high), "tile": t.tile, "dtype": kind, "raw": raw,
        }  # fmt: skip
