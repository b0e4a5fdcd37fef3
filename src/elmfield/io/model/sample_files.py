"""Samples in a model file: Zarr arrays of coded tiles, and what the metadata says about them.

Which samples a file holds and how they are written is settled here, and how tiles are read again,
every claim checked. What is in a tile is the codec's business.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.progress import silent
from elmfield._array.running import n_threads, runs
from elmfield._array.typing import Array, Progress
from elmfield.codec import has_coarse, unpack
from elmfield.field import Field
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import (
    TILES_PER_BATCH,
    CodedTiles,
    Tiling,
    Totals,
    code_tiles,
    packed,
)
from elmfield.io.model.metadata import Metadata, SamplesRecord
from elmfield.io.store import blocks
from elmfield.io.store.blocks import ArrayReader, damaged_array
from elmfield.io.store.stores import Store
from elmfield.samples import EXACT

DTYPES = (*EXACT.values(), "float32", "float64")
"""Of samples in a file."""

CODECS = ("elmfield", "crc32c")

MIN_SAMPLES = 1 << 20
"""Of an array without loss that has an overview: means of its samples, seen before a tile is
decoded. Tiles that were coded with loss begin with such means."""

MIN_HALVINGS = 10
"""How often its axes are halved, all together: it has about a thousandth of the samples."""

MAX_NUMBERS = 1 << 18
"""Of an overview: more would not be seen at once."""

Overview = tuple[int, Array]
"""How often axes are halved, k, and means of 2^k samples on each axis, channels last."""


@dataclass(frozen=True)
class TileArray:
    """A Zarr array of coded tiles.

    Parameters
    ----------
    name : str
        Of the array.
    tiling : Tiling
        Which samples are in which tile, channels included.
    dtype : str
        Of the samples.
    has_channels : bool
        Whether the array has an axis of channels.
    """

    name: str
    tiling: Tiling
    dtype: str
    has_channels: bool

    @property
    def _n_axes(self) -> int:
        return len(self.tiling.tile) - (not self.has_channels)

    def overview(self, k: int) -> "TileArray":
        """Return the array, of one tile, of means of 2^k samples on each axis."""
        *sizes, C = self.tiling.sizes
        tiling = Tiling.whole((*(-(-n >> k) for n in sizes), C))
        return TileArray("overview", tiling, _kind_of_means(self.dtype), self.has_channels)

    def key(self, number: int) -> str:
        """Return the entry of a tile."""
        place = self.tiling.place(number)[: self._n_axes]
        return blocks.block_key(self.name, place)

    def write_document(self, store: Store) -> None:
        """Write what describes the array."""
        shape, tile = self.tiling.sizes[: self._n_axes], self.tiling.tile[: self._n_axes]
        codecs: list[dict[str, Any]] = [{"name": name} for name in CODECS]
        codecs[0]["configuration"] = {}
        blocks.describe_array(store, self.name, shape, self.dtype, tile, codecs)

    def write_tile(self, store: Store, number: int, tile: bytes) -> str:
        """Write one coded tile; return its check sum, eight hexadecimal digits."""
        return blocks.write_block(store, self.key(number), tile)

    def write(self, store: Store, tiles: Iterator[bytes], progress: Progress = silent) -> str:
        """Write all of the array; return the check sums of its tiles."""
        self.write_document(store)
        checks = []
        for number, tile in enumerate(tiles):
            checks.append(self.write_tile(store, number, tile))
            progress("save", number + 1, self.tiling.n_tiles)
        return "".join(checks)

    def read(self, arrays: ArrayReader, checks: str) -> CodedTiles:
        """Return the array in a file, all claims checked; its document has the size of tiles."""
        store, own = arrays.store, self.tiling.sizes[: self._n_axes]
        shape, kind, tile, codecs = blocks.read_description(store, self.name)
        fits = (shape, kind, tuple(codecs)) == (own, self.dtype, CODECS)
        if not fits or self.dtype not in DTYPES:
            why = f"{self.dtype} of shape {own} in coded tiles was expected"
            raise damaged_array(store, self.name, why)
        dtype = np.dtype(self.dtype)
        if math.prod(map(min, zip(tile, own))) * dtype.itemsize > blocks.MAX_BLOCK_BYTES:
            raise damaged_array(store, self.name, f"tiles of {tile} samples")
        tiling = replace(self.tiling, tile=(*tile, 1)[: len(self.tiling.tile)])
        keys = arrays.blocks_of(self.name, checks, own, tile)
        tiles = TilesInFile(store, replace(self, tiling=tiling), checks)
        return CodedTiles(tiles, tiling, dtype, [arrays.sizes[key] - 4 for key in keys])


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class SamplePlan:
    """Writes the samples of a field that they settle: which of them, and in which tiles.

    Parameters
    ----------
    field : Field
        The field.
    dtype : str
        In which a reader computes.
    tile : tuple of int or None
        Samples of a tile on each axis, and channels; by default as their bytes have it.
    """

    field: Field
    dtype: str
    tile: tuple[int, ...] | None = None

    @cached_property
    def boxes(self) -> SampleBoxes:
        """The samples."""
        boxes = self.field.model.blended.source_samples
        assert boxes is not None
        return boxes

    @cached_property
    def _needed(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first sample that regions' boxes need on each axis, and the first beyond."""
        low, high = self.field.model.blended.needed
        return (*low, 0), (*high, self.boxes.n_channels)

    @cached_property
    def is_raw(self) -> bool:
        """Whether samples are stored in the caller's units, as they are.

        Else in the unit of the fit, with the digits that were asked for.
        """
        is_kept = np.dtype(self.boxes.kind).kind in "iu" or self._is_narrow
        return self.boxes.is_lossy or (self.boxes.is_raw and is_kept)

    @property
    def _is_narrow(self) -> bool:
        return np.dtype(self.boxes.kind).itemsize <= np.dtype(self.dtype).itemsize

    @property
    def kind(self) -> str:
        """Return the dtype of the samples in the file."""
        return self.boxes.kind if self.is_raw or self._is_narrow else self.dtype

    @cached_property
    def _copied(self) -> tuple[Tiling, list[int], CodedTiles] | None:
        """Tiles that can be copied, and their numbers there; None where they must be made.

        What was coded with loss is never coded again; else a small part of large tiles is.
        """
        boxes, tiles = self.boxes, self.boxes.tiles
        if tiles is None or boxes.own is not None or self.kind != boxes.kind:
            return None
        if not boxes.is_lossy and self.is_raw != boxes.is_raw:
            return None
        low, high = self._needed
        tiling, numbers = tiles.tiling.part(low, high)
        small = math.prod(b - a for a, b in zip(low, high)) < tiling.n_values / 2
        return None if small and not boxes.is_lossy else (tiling, numbers, tiles)

    @cached_property
    def samples(self) -> TileArray:
        """Return the array of samples."""
        if self._copied is not None:
            tiling = self._copied[0]
        elif self.tile is not None:
            tiling = Tiling(*self._needed, self.tile)
        else:
            tiling = Tiling.by_bytes(*self._needed, np.dtype(self.kind).itemsize)
        has_channels = self.field.model.channel_axis is not None or self.boxes.n_channels > 1
        return TileArray("samples", tiling, self.kind, has_channels)

    def missing(self, n_channels: int) -> TileArray:
        """Return the array of what was missing: of one channel where all miss the same."""
        tiling = self.samples.tiling.with_channels(n_channels)
        return TileArray("missing", tiling, "uint8", n_channels > 1)

    def _tiles(self) -> Iterator[bytes]:
        """Yield the coded tiles, in array order."""
        if self._copied is not None:
            _, numbers, copied = self._copied
            yield from map(copied.tiles.__getitem__, numbers)
            return
        for i, j in runs(self.samples.tiling.n_tiles, TILES_PER_BATCH * n_threads()):
            yield from code_tiles(range(i, j), self._tile, lambda _i, data, _found, _errors: data)

    def _tile(self, number: int) -> Array:
        """Return the samples of a tile, as they are stored."""
        *slab, channels = self.samples.tiling.slab(number)
        return self._stored_values(tuple(slab))[..., channels]

    def _stored_values(self, slab: tuple[slice, ...]) -> Array:
        """Return samples of all channels, as they are stored."""
        if self.is_raw:
            return self.boxes.read(slab)
        with np.errstate(over="ignore"):
            values = np.asarray(self.boxes.read_standardised(slab)).astype(self.kind)
        if not np.isfinite(values).all():
            raise ValueError(f"some samples exceed what {self.kind} holds; save as 'float32'.")
        return values

    def write(self, store: Store, meta: Metadata, compress: bool, progress: Progress) -> Metadata:
        """Write the arrays; return the metadata with what they say about them."""
        checks, missing = self.samples.write(store, self._tiles(), progress), None
        first = self.boxes.gaps(tuple(slice(a, a + 1) for a in self._needed[0][:-1]))
        if first is not None:
            array = self.missing(int(first.shape[-1]))
            slabs = map(array.tiling.slab, range(array.tiling.n_tiles))
            gaps = (np.asarray(self.boxes.gaps(s[:-1])).astype(np.uint8) for s in slabs)
            missing = array.tiling.sizes[-1], array.write(store, map(packed, gaps), progress)
        return self.complete(store, meta, checks, missing, self._overview(), self.boxes.is_lossy)

    def complete(
        self,
        store: Store,
        meta: Metadata,
        checks: str,
        missing: tuple[int, str] | None,
        means: Overview | None,
        is_lossy: bool,
    ) -> Metadata:
        """Write an overview, if there is one; return the metadata of arrays that are written.

        Of samples there are the check sums; of what was missing the channels, and the check sums.
        """
        tiling, shape = self.samples.tiling, self.field.shape
        corners = list(tiling.low[:-1]), list(tiling.high[:-1])
        low, high = (None, None) if corners == ([0] * len(shape), list(shape)) else corners
        n, gaps = missing or (None, "")
        record = SamplesRecord(
            dtype=self.kind, checks=checks, low=low, high=high, raw=self.is_raw, lossy=is_lossy,
            missing=n, missing_checks=gaps,
        )  # fmt: skip
        if means is not None:
            sums = self.samples.overview(means[0]).write(store, iter([packed(means[1])]))
            record = replace(record, overview=means[0], overview_checks=sums)
        return replace(meta, samples=record)

    def _overview(self) -> Overview | None:
        """Return means that go into the file; None where all tiles begin with such means."""
        boxes, tiles, tiling = self.boxes, self.boxes.tiles, self.samples.tiling
        if (k := level_of(tiling)) is None:
            return None
        if tiles is not None and self._copied is not None and tiles.tiling == tiling:
            seen = boxes.overview_means()
            if boxes.overview is not None and seen is not None:
                return boxes.overview[0], seen
        if tiles is None or (boxes.is_lossy and not tiles.have_coarse):
            return overview_of(Totals.of(tiling, k, self._stored_values), self.kind)
        return None


def level_of(tiling: Tiling) -> int | None:
    """Return how often the axes of an overview are halved; None of few samples."""
    *sizes, _ = tiling.sizes
    if math.prod(sizes) < MIN_SAMPLES:
        return None
    k = -(-MIN_HALVINGS // len(sizes))
    while math.prod(-(-n >> k) for n in sizes) > MAX_NUMBERS:
        k += 1
    return k


def overview_of(totals: Totals, kind: str) -> Overview:
    """Return the means of samples of a dtype, as a file keeps them."""
    out = totals.means()
    out = np.rint(out) if np.dtype(kind).kind in "iu" else out
    return totals.k, out.astype(_kind_of_means(kind))


def _kind_of_means(kind: str) -> str:
    return "float32" if np.dtype(kind).itemsize == 8 else kind


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TilesInFile:
    """Coded tiles of a file.

    Parameters
    ----------
    store : Store
        Where they lie.
    array : TileArray
        Which they are.
    checks : str
        Their check sums, eight hexadecimal digits each: a tile in the place of another is noticed.
    """

    store: Store
    array: TileArray
    checks: str

    def __getitem__(self, number: int) -> bytes:
        """Return the bytes of one tile, its check sum verified."""
        data = self.store.read(self.array.key(number))
        try:
            raw = blocks.strip_check(data)
        except ValueError as error:
            why = f"tile {number} cannot be decoded ({error})"
            raise damaged_array(self.store, self.array.name, why) from error
        check = self.checks[blocks.CHECK_DIGITS * number : blocks.CHECK_DIGITS * (number + 1)]
        if data[-4:].hex() == check:
            return raw
        # Samples may have been appended since: then what the tile held before is in it still, and
        # coded again it has the check sum that it had.
        values, shape = unpack(raw), self.array.tiling.shape(number)
        values = values if shape[-1] > 1 else values[..., None]
        fits = values.ndim == len(shape) and not has_coarse(raw)
        before = packed(values[tuple(map(slice, shape))]) if fits else b""
        if blocks.add_check(before)[-4:].hex() != check:
            why = f"tile {number} belongs to another place or file"
            raise damaged_array(self.store, self.array.name, why)
        return before


def read_samples(
    arrays: ArrayReader, meta: Metadata, record: SamplesRecord, shape: tuple[int, ...], dtype: Any
) -> SampleBoxes:
    """Return the samples of a file, of an array of this shape; they are handed out in `dtype`."""
    offset, scale = (np.asarray(v, np.float64) for v in (meta.offset, meta.scale))
    if np.can_cast(np.dtype(record.dtype), dtype):
        narrow = [v.astype(dtype) for v in (offset, scale)]
        if all(map(np.array_equal, narrow, (offset, scale))):
            offset, scale = narrow  # as the fit did, bit for bit
    low = tuple([0] * len(shape) if record.low is None else record.low)
    high = tuple(shape if record.high is None else record.high)
    fits = len(low) == len(high) == len(shape)
    fits = fits and all(0 <= a < b <= n for a, b, n in zip(low, high, shape))
    arrays.require(fits, "which samples it holds")
    C, tile = len(offset), (1,) * (len(shape) + 1)
    tiling = Tiling((*low, 0), (*high, C), tile)
    has_channels = meta.channel_axis is not None or C > 1
    samples = TileArray("samples", tiling, record.dtype, has_channels)
    decoded, missing, means = samples.read(arrays, record.checks), None, None
    if (n := record.missing) is not None:
        arrays.require(n in (1, C), f"what is missing in {n} channels")
        array = TileArray("missing", tiling.with_channels(n), "uint8", n > 1)
        missing = array.read(arrays, record.missing_checks)
    if (k := record.overview) is not None:
        arrays.require(1 <= k <= 62, f"an overview of level {k!r}")
        means = k, samples.overview(k).read(arrays, record.overview_checks)
    return SampleBoxes(
        source=decoded,
        offset=offset,
        scale=scale,
        like=np.empty(0, dtype),
        kind=record.dtype,
        is_raw=record.raw,
        is_lossy=record.lossy,
        missing=missing,
        overview=means,
    )
