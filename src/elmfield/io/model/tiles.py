"""Samples in a model file: a Zarr array of coded tiles, and what the metadata says about it.

Which samples a file holds and how they are written is settled here, and how tiles are read again,
every claim checked. What is in a tile is the codec's business.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array import compiled
from elmfield._array.memory import runs
from elmfield._array.progress import silent
from elmfield._array.threads import n_threads, spread
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.field.blended import Group
from elmfield.field.boxes import Boxes
from elmfield.field.tiles import Coded, Decoded, Tiles
from elmfield.field.tiling import TOGETHER, Tiling, packed, packed_many
from elmfield.io.model import overview
from elmfield.io.model.blocks import LARGEST_BLOCK, put_document
from elmfield.io.model.entries import Entries, Sink, document

KINDS = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "float16", "float32", "float64",
)  # fmt: skip
"""Dtypes of samples in a file."""


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class SamplePlan:
    """Which samples go into a file, in which tiles; what `Plan` is for coefficients.

    Parameters
    ----------
    field : Field
        A field that is its samples.
    boxes : Boxes
        These.
    dtype : str
        In which a reader computes.
    tile : tuple of int or None
        Samples of a tile on each axis, and channels; by default as their bytes have it.
    """

    field: Field
    boxes: Boxes
    dtype: str
    tile: tuple[int, ...] | None = None

    @property
    def groups(self) -> tuple[Group, ...]:
        """The field's groups."""
        return self.field.blended.groups

    @cached_property
    def which(self) -> Integers:
        """Group of each region, (N,)."""
        return self.field.blended.group_of[0]

    @property
    def n_values(self) -> int:
        """Coefficients that regions have; a file does not hold them."""
        return self.field.n_coefficients

    @cached_property
    def _needed(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first sample that regions' boxes need on each axis, and the first beyond."""
        low, high = self.field.blended.needed
        return (*low, 0), (*high, self.boxes.n_channels)

    @property
    def is_lossy(self) -> bool:
        """Whether samples were coded with loss."""
        coded = self.boxes.coded
        return coded is not None and coded.is_lossy

    @cached_property
    def is_raw(self) -> bool:
        """Whether samples are stored in the caller's units, as they are.

        Else in the unit of the fit, with the digits that were asked for.
        """
        if self.is_lossy:
            return True
        wide = np.dtype(self.boxes.kind)
        fits = wide.kind in "iu" or wide.itemsize <= np.dtype(self.dtype).itemsize
        return self.boxes.is_raw and fits

    @property
    def kind(self) -> str:
        """Dtype of the samples in the file."""
        if self.is_raw or np.dtype(self.boxes.kind).itemsize <= np.dtype(self.dtype).itemsize:
            return self.boxes.kind
        return self.dtype

    @cached_property
    def _copied(self) -> tuple[Tiling, list[int]] | None:
        """Tiles that can be copied, and their numbers there; None where they must be made.

        What was coded with loss is never coded again; else a small part of large tiles is.
        """
        coded = self.boxes.coded
        if coded is None or coded.own is not None or self.kind != coded.kind:
            return None
        if not coded.is_lossy and self.is_raw != coded.is_raw:
            return None
        low, high = self._needed
        tiling, numbers = coded.tiling.part(low, high)
        small = math.prod(b - a for a, b in zip(low, high)) < tiling.n_values / 2
        return None if small and not coded.is_lossy else (tiling, numbers)

    @cached_property
    def tiling(self) -> Tiling:
        """The samples in the file."""
        if self._copied is not None:
            return self._copied[0]
        if self.tile is not None:
            return Tiling(*self._needed, self.tile)
        return Tiling.by_bytes(*self._needed, np.dtype(self.kind).itemsize)

    def tiles(self) -> Iterator[bytes]:
        """The coded tiles, in array order."""
        if self._copied is not None:
            coded = self.boxes.coded
            assert coded is not None
            for number in self._copied[1]:
                yield coded.decoded.tiles.read(number)
            return
        # Compiled loops take tiles one by one, so that no thread waits for long.
        loops = compiled.pays(self.tiling.n_values)
        for i, j in runs(self.tiling.n_tiles, (4 if loops else 1) * TOGETHER * n_threads()):
            share = 1 if loops else -(-(j - i) // n_threads())
            for made in spread(
                self._made, [range(a, min(a + share, j)) for a in range(i, j, share)]
            ):
                yield from made

    def _made(self, numbers: range) -> list[bytes]:
        """Some tiles, coded without loss."""
        return packed_many([self._values(i) for i in numbers])

    def _values(self, number: int) -> Array:
        """The samples of a tile, channels last, as they are stored."""
        *slab, channels = self.tiling.slab(number)
        return self._as_stored(tuple(slab))[..., channels]

    def _brought(self, slab: tuple[slice, ...]) -> Array:
        """Samples in the unit of the fit, with fewer digits."""
        with np.errstate(over="ignore"):
            values = np.asarray(self.boxes.block(slab)).astype(self.kind)
        if not np.isfinite(values).all():
            raise ValueError(f"some samples exceed what {self.kind} holds; save as 'float32'.")
        return values

    @property
    def has_channels(self) -> bool:
        """Whether the array in the file has an axis of channels."""
        return self.field.channel_axis is not None or self.boxes.n_channels > 1

    @cached_property
    def _gaps(self) -> int | None:
        """Channels of the array that says what was missing; None if nothing was."""
        low, _ = self._needed
        found = self.boxes.gaps(tuple(slice(a, a + 1) for a in low[:-1]))
        return None if found is None else int(found.shape[-1])

    def said(self, checks: str, missing: int | None, missing_checks: str) -> dict[str, Any]:
        """What the metadata says about the arrays, once their tiles have check sums."""
        said: dict[str, Any] = {
            "low": list(self.tiling.low[:-1]),
            "high": list(self.tiling.high[:-1]),
            "dtype": self.kind,
            "raw": self.is_raw,
            "lossy": self.is_lossy,
            "checks": checks,
        }
        if missing is not None:
            said |= {"missing": missing, "missing_checks": missing_checks}
        return said

    def write(self, sink: Sink, progress: Progress) -> dict[str, Any]:
        """Put the arrays into `sink`; what the metadata says about them."""
        checks = _put_tiles(
            sink, "samples", self.tiling, self.kind, self.tiles(), self.has_channels, progress
        )
        C, missing_checks = self._gaps, ""
        if C is not None:
            tiling = self.tiling.with_channels(C)
            found = (packed(self._gone(tiling.slab(i))) for i in range(tiling.n_tiles))
            missing_checks = _put_tiles(sink, "missing", tiling, "uint8", found, C > 1, progress)
        said = self.said(checks, C, missing_checks)
        means = self._overview
        return said if means is None else {**said, **put_overview(sink, means, self.has_channels)}

    @property
    def _overview(self) -> overview.Means | None:
        """Means that go into the file; None where all tiles begin with such means."""
        coded = self.boxes.coded
        if overview.level_of(self.tiling) is None:
            return None
        kept = None if coded is None or self._copied is None else coded.overview
        if coded is not None and kept is not None and coded.tiling == self.tiling:
            return overview.Means(kept[0], kept[1].whole())
        if coded is None or (self.is_lossy and not coded.decoded.have_coarse):
            return overview.made(self.tiling, self.kind, self._as_stored)
        return None

    def _as_stored(self, slab: tuple[slice, ...]) -> Array:
        """Samples of all channels, as they are stored."""
        return self.boxes.kept(slab) if self.is_raw else self._brought(slab)

    def _gone(self, slab: tuple[slice, ...]) -> Array:
        """1 where samples were missing, 0 elsewhere."""
        gone = self.boxes.gaps(slab[:-1])
        assert gone is not None
        return np.asarray(gone).astype(np.uint8)


def put_overview(sink: Sink, means: overview.Means, has_channels: bool) -> dict[str, Any]:
    """Write an overview; what the metadata says about it."""
    tile, kind = iter([packed(means.values)]), means.values.dtype.name
    seen = _put_tiles(sink, "overview", means.tiling, kind, tile, has_channels, silent)
    return {"overview": means.level, "overview_checks": seen}


def _put_tiles(
    sink: Sink,
    name: str,
    tiling: Tiling,
    kind: str,
    tiles: Iterator[bytes],
    has_channels: bool,
    progress: Progress,
) -> str:
    """Write coded tiles as a Zarr array; their check sums, eight hexadecimal digits each."""
    put_about(sink, name, tiling, kind, has_channels)
    checks = []
    for number, tile in enumerate(tiles):
        checks.append(put_tile(sink, name, tiling, number, tile, has_channels))
        progress("save", number + 1, tiling.n_tiles)
    return "".join(checks)


def put_about(sink: Sink, name: str, tiling: Tiling, kind: str, has_channels: bool) -> None:
    """Write what describes a Zarr array of coded tiles."""
    d = len(tiling.tile) if has_channels else len(tiling.tile) - 1
    about = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(tiling.sizes[:d]),
        "data_type": kind,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(tiling.tile[:d])}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "elmfield", "configuration": {}}, {"name": "crc32c"}],
    }
    put_document(sink, f"{name}/zarr.json", about)


def put_tile(
    sink: Sink, name: str, tiling: Tiling, number: int, tile: bytes, has_channels: bool
) -> str:
    """Write one coded tile; its check sum, eight hexadecimal digits."""
    from numcodecs.checksum32 import CRC32C

    data = bytes(memoryview(CRC32C(location="end").encode(tile)))
    sink.put(tile_key(name, tiling, number, has_channels), data)
    return data[-4:].hex()


def tile_key(name: str, tiling: Tiling, number: int, has_channels: bool) -> str:
    """The entry of a tile."""
    d = len(tiling.tile) if has_channels else len(tiling.tile) - 1
    return _key(name, tiling.place(number)[:d])


def _key(name: str, place: Sequence[int]) -> str:
    """The entry of a tile."""
    return "/".join([name, "c", *map(str, place)])


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class InFile:
    """Coded tiles of a file.

    Parameters
    ----------
    entries : Entries
        Where they lie.
    name : str
        Of their array.
    keys : sequence of str
        Their entries, in array order.
    checks : str
        Their check sums, eight hexadecimal digits each: a tile in the place of another is noticed.
    sizes : mapping of str to int
        Bytes of each entry.
    """

    entries: Entries
    name: str
    keys: Sequence[str]
    checks: str
    sizes: dict[str, int]

    def read(self, number: int) -> bytes:
        """The bytes of one tile, its check sum verified."""
        from numcodecs.checksum32 import CRC32C

        data = self.entries.read(self.keys[number])
        try:
            raw = bytes(memoryview(CRC32C(location="end").decode(data)))
        except (RuntimeError, ValueError, TypeError) as error:
            raise StoreError(
                f"{self.entries.name} is damaged: array {self.name!r}: tile {number} cannot be "
                f"decoded ({error})."
            ) from error
        if data[-4:].hex() != self.checks[8 * number : 8 * number + 8]:
            raise StoreError(
                f"{self.entries.name} is damaged: array {self.name!r}: tile {number} belongs to "
                "another place or file."
            )
        return raw

    def size(self, number: int) -> int:
        """Bytes of one tile."""
        return self.sizes[self.keys[number]] - 4


def coded_in(
    entries: Entries,
    sizes: dict[str, int],
    said: dict[str, Any],
    shape: tuple[int, ...],
    *,
    units: tuple[Floats, Floats],
    dtype: Any,
    has_channels: bool,
) -> Coded:
    """The samples of a file, of an array of this shape; units are offset and scale.

    They are handed out in `dtype`.
    """
    offset, scale = units
    low, high = (tuple(map(int, said[name])) for name in ("low", "high"))
    fits = len(low) == len(high) == len(shape)
    if not (fits and all(0 <= a < b <= n for a, b, n in zip(low, high, shape))):
        raise StoreError(f"{entries.name} is damaged: which samples it holds.")
    opened = [
        _opened(entries, sizes, "samples", (low, high), len(offset), str(said["dtype"]),
                str(said["checks"]), has_channels)
    ]  # fmt: skip
    if said.get("missing") is not None:
        C = int(said["missing"])
        if C not in (1, len(offset)):
            raise StoreError(f"{entries.name} is damaged: what is missing in {C} channels.")
        opened.append(
            _opened(entries, sizes, "missing", (low, high), C, "uint8",
                    str(said["missing_checks"]), C > 1)
        )  # fmt: skip
    is_raw = bool(said["raw"])
    means, k = None, said.get("overview")
    if k is not None:
        if not (isinstance(k, int) and 1 <= k <= 62):
            raise StoreError(f"{entries.name} is damaged: an overview of level {k!r}.")
        own = overview.tiling_of(opened[0].tiling, k)
        corners, kind = (own.low[:-1], own.high[:-1]), overview.kind_of(str(said["dtype"]))
        checks = str(said["overview_checks"])
        means = (
            k,
            _opened(entries, sizes, "overview", corners, len(offset), kind, checks, has_channels),
        )
    return Coded(
        decoded=opened[0],
        offset=offset if is_raw else None,
        scale=scale if is_raw else None,
        dtype=dtype,
        is_lossy=bool(said["lossy"]),
        missing=opened[1] if len(opened) > 1 else None,
        overview=means,
    )


def _opened(
    entries: Entries,
    sizes: dict[str, int],
    name: str,
    corners: tuple[tuple[int, ...], tuple[int, ...]],
    n_channels: int,
    kind: str,
    checks: str,
    has_channels: bool,
) -> Decoded:
    """An array of coded tiles, its description held against what is expected."""
    low, high = corners
    d = len(low) + has_channels
    tiling_of = {"low": (*low, 0), "high": (*high, n_channels)}
    whole = tuple(b - a for a, b in zip(low, high)) + (n_channels,) * has_channels
    meta = document(entries, f"{name}/zarr.json")

    def damaged(why: str) -> StoreError:
        return StoreError(f"{entries.name} is damaged: array {name!r}: {why}.")

    try:
        tile = tuple(int(n) for n in meta["chunk_grid"]["configuration"]["chunk_shape"])
        plain = (
            meta["zarr_format"] == 3
            and meta["node_type"] == "array"
            and tuple(meta["shape"]) == whole
            and meta["data_type"] == kind
            and kind in KINDS
            and meta["chunk_grid"]["name"] == "regular"
            and meta["chunk_key_encoding"]["name"] == "default"
            and [codec["name"] for codec in meta["codecs"]] == ["elmfield", "crc32c"]
            and len(tile) == d
            and min(tile) >= 1
            and max(tile) < 1 << 40
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged("its description makes no sense") from error
    if not plain:
        raise damaged(f"{kind} of shape {whole} in coded tiles was expected")
    dtype = np.dtype(kind)
    if math.prod(map(min, zip(tile, whole))) * dtype.itemsize > LARGEST_BLOCK:
        raise damaged(f"tiles of {tile} samples")
    tiling = Tiling(**tiling_of, tile=(*tile, 1)[: len(low) + 1])
    if tiling.n_tiles > len(sizes) or len(checks) != 8 * tiling.n_tiles:
        raise damaged("tiles are missing")
    keys = [_key(name, tiling.place(i)[:d]) for i in range(tiling.n_tiles)]
    if not all(key in sizes for key in keys):
        raise damaged("tiles are missing")
    tiles: Tiles = InFile(entries=entries, name=name, keys=keys, checks=checks, sizes=sizes)
    return Decoded(tiles, tiling, dtype)
