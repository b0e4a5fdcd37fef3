"""The model file: a Field to a Zarr 3 hierarchy in one zip file or a folder, and back.

The layout is that of docs/format.md. Writing makes the whole file or folder beside its target and
then puts it in place with one rename. Reading takes the metadata, and coefficients block by block
when a query needs them.
"""

import errno
import json
import math
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmfield.backend import to_numpy
from elmfield.domain import Axis, Domain
from elmfield.errors import StoreError, StoreVersionError
from elmfield.field import Blended, Field, Group
from elmfield.field.ragged import Ragged
from elmfield.fit import silent
from elmfield.io import recipes
from elmfield.io.blocks import Blocks, put_array, put_document
from elmfield.io.gridded import fingerprint
from elmfield.io.plain import from_plain, to_plain
from elmfield.io.source import (
    ArchiveSink,
    FolderSink,
    Memory,
    Sink,
    Source,
    document,
    filesystem,
    is_url,
    open_source,
)
from elmfield.io.stored import Kept, Shelf, Stored, StoredGroup
from elmfield.modes import half_widths
from elmfield.partition import Partition
from elmfield.typing import Array, Floats, Integers, Progress

VERSION = 2
"""Of the format. A reader refuses a higher one."""

BATCH = 1 << 22
"""Coefficients gathered at a time while writing."""

FOLDER = ".zarr"
"""A target whose name ends so becomes a folder; any other a single file."""


# --- writing -------------------------------------------------------------------------------------


def save(
    field: Field,
    path: str | Path,
    *,
    dtype: str | None = None,
    compress: bool = True,
    source: Array | None = None,
    progress: Progress = silent,
) -> int:
    """Write a field to a model file; its size in bytes.

    Parameters
    ----------
    field : Field
        The field.
    path : str or path
        ``name.elm`` becomes one file, ``name.elm.zarr`` a folder; also an fsspec URL.
    dtype : {"float64", "float32", "float16"}, optional
        Of the stored coefficients; by default the field's own. float16 leaves about 78 dB.
    compress : bool
        Whether coefficients are compressed (without loss).
    source : array, optional
        The samples the field came from: their shape, dtype, range and SHA-256 go into the file.
    progress : callable, optional
        Called with (stage, done, total).

    Notes
    -----
    The old file, if any, is replaced in one step once the new one is complete: an interrupted or
    failing save leaves the old one, or none. The same field gives the same bytes.

    Raises
    ------
    StoreError
        If the file cannot be written, for instance because the disk is full.
    """
    own = str(field.dtype).removeprefix("torch.")
    dtype = own if dtype is None else str(dtype)
    if dtype not in ("float64", "float32", "float16"):
        raise ValueError(f"`dtype` must be 'float64', 'float32' or 'float16'; got {dtype!r}.")
    if source is not None:
        known = {**field.attributes.get("source", {}), **fingerprint(source)}
        field = replace(field, attributes={**field.attributes, "source": known})
    try:
        if is_url(path):
            return _save_remote(field, str(path), dtype, compress, progress)
        return _save_local(field, Path(path), dtype, compress, progress)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise StoreError(f"cannot write {path}: its folder does not exist.") from error
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why += "; free some space or choose another place"
        raise StoreError(f"cannot write {path}: {why}. Nothing was left behind.") from error


def as_stored(field: Field, dtype: str) -> Field:
    """The field as it would come back from a file with coefficients of this dtype."""
    memory = Memory()
    _write(field, memory, dtype, False, silent)
    return field_of(memory)


def _save_local(field: Field, path: Path, dtype: str, compress: bool, progress: Progress) -> int:
    whole = path.name.endswith(FOLDER)
    if path.is_dir() and not (whole and (path / "zarr.json").exists()):
        raise StoreError(f"cannot write {path}: there is a folder of that name.")
    if whole and path.is_file():
        raise StoreError(f"cannot write the folder {path}: there is a file of that name.")
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        made = work / "model"
        if whole:
            made.mkdir()
            size = _write(field, FolderSink(made), dtype, compress, progress)
            _usual_mode(made, 0o777)
            if path.exists():  # a folder cannot be replaced in one step: the old one goes first
                os.replace(path, work / "old")
        else:
            with made.open("wb") as file, ArchiveSink(file) as sink:
                _write(field, sink, dtype, compress, progress)
            with made.open("rb") as written:
                os.fsync(written.fileno())
            size = made.stat().st_size
            _usual_mode(made)
        os.replace(made, path)
        return size
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _usual_mode(path: Path, mode: int = 0o666) -> None:
    """Permissions a new file of the user's would have; mkdtemp's are private."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)


def _save_remote(field: Field, url: str, dtype: str, compress: bool, progress: Progress) -> int:
    system, target = filesystem(url)
    with tempfile.TemporaryDirectory(prefix="elmfield-") as work:
        name = target.rstrip("/").rsplit("/", 1)[-1] or "model.elm"
        local = Path(work) / name
        size = _save_local(field, local, dtype, compress, progress)
        if local.is_dir():
            if system.exists(target):
                system.rm(target, recursive=True)
            for file in sorted(p for p in local.rglob("*") if p.is_file()):
                place = f"{target.rstrip('/')}/{file.relative_to(local).as_posix()}"
                system.makedirs(place.rsplit("/", 1)[0], exist_ok=True)
                system.put_file(str(file), place)
        else:
            system.put_file(str(local), target)
    return size


def _write(field: Field, sink: Sink, dtype: str, compress: bool, progress: Progress) -> int:
    """Put the whole hierarchy into `sink`; bytes of its entries."""
    meta, arrays, plan = _described(field, dtype)
    root = {"zarr_format": 3, "node_type": "group", "attributes": {"elmfield": meta}}
    size = put_document(sink, "zarr.json", root)
    for name, values in arrays.items():
        size += put_array(sink, name, iter([values]), len(values), values.dtype.name, compress)
    numbers = plan.numbers(dtype, progress)
    return size + put_array(sink, "coefficients", numbers, plan.n_values, dtype, compress)


class _Plan:
    """Which region's coefficients follow which in the file."""

    def __init__(self, field: Field) -> None:
        self.groups = field.blended.groups
        self.order = file_order(field.partition)
        N = len(self.order)
        self.which = np.empty(N, np.int64)
        self.row = np.empty(N, np.int64)
        for g, group in enumerate(self.groups):
            self.which[group.regions] = g
            self.row[group.regions] = np.arange(len(group.regions))
        self.counts = np.empty(N, np.int64)
        for group in self.groups:
            self.counts[group.regions] = _counts(group)
        self.n_values = int(self.counts.sum())

    def numbers(self, dtype: str, progress: Progress) -> Iterator[Array]:
        """The coefficients in file order, batch by batch."""
        N, ends = len(self.order), np.cumsum(self.counts[self.order])
        first = 0
        while first < N:
            before = 0 if first == 0 else int(ends[first - 1])
            last = max(first + 1, int(np.searchsorted(ends, before + BATCH, side="right")))
            regions = self.order[first:last]
            counts = self.counts[regions]
            places = np.cumsum(counts) - counts
            out = np.empty(int(counts.sum()), dtype)
            for g, group in enumerate(self.groups):
                at = np.flatnonzero(self.which[regions] == g)
                if not len(at):
                    continue
                values = to_numpy(_numbers(group, self.row[regions[at]])).reshape(-1)
                with np.errstate(over="ignore"):
                    values = values.astype(dtype)
                if dtype == "float16" and not np.isfinite(values).all():
                    raise ValueError(
                        "some coefficients exceed what float16 holds (65504); save as 'float32'."
                    )
                if len(at) == len(regions):
                    out = values  # the only group here: already one after the other
                    break
                n, begin = counts[at], places[at]
                index = np.repeat(begin - (np.cumsum(n) - n), n) + np.arange(len(values))
                out[index] = values
            yield out
            first = last
            progress("save", first, N)


def _ragged(group: Group) -> Any:
    """What knows the group's kept ranks, if its regions keep different modes; else None."""
    c = group.coefficients
    if isinstance(c, Ragged) or (isinstance(c, Stored) and c.ranking is not None):
        return c
    return None


def _counts(group: Group) -> Integers:
    """Stored numbers of each of the group's regions."""
    c = group.coefficients
    if isinstance(c, Ragged):
        return np.asarray(c.counts.sum(axis=1))
    if isinstance(c, Stored):
        return c.shelf.counts[c.regions]
    return np.full(len(group.regions), c.shape[1] * c.shape[2])


def _numbers(group: Group, rows: Integers) -> Array:
    """The stored numbers of some of a group's regions, one after the other."""
    c = _ragged(group)
    return group.take(rows) if c is None else c.rows(rows).values


def file_order(partition: Partition) -> Integers:
    """Regions in the order of the file: along a Z-order curve through their first cells.

    Regions that are close in space are then close in the file, and a window reads few blocks.
    """
    labels = partition.labels.reshape(-1)
    if partition.is_regular:
        first = labels
    else:
        _, first = np.unique(labels, return_index=True)
    cells = np.unravel_index(first, partition.n_cells)
    d = len(cells)
    key = np.zeros(len(first), np.uint64)
    bits = min(63 // d, max(int(c.max()).bit_length() for c in cells))
    wide = [c.astype(np.uint64) for c in cells]
    for bit in range(bits):
        for k, c in enumerate(wide):
            one = (c >> np.uint64(bit)) & np.uint64(1)
            key |= one << np.uint64(bit * d + d - 1 - k)
    return np.argsort(key, kind="stable")


def _described(field: Field, dtype: str) -> tuple[dict[str, Any], dict[str, Array], _Plan]:
    """The metadata, the small arrays, and the order of the coefficients."""
    from elmfield import __version__

    part, d = field.partition, len(field.shape)
    arrays: dict[str, Array] = {}
    plan = _Plan(field)
    axes = []
    for k, a in enumerate(field.domain.axes):
        entry: dict[str, Any] = {"name": a.name, "size": a.size, "period": a.period}
        if a.coordinates is not None:
            entry |= {"origin": a.origin, "step": a.step, "even": a.knots is None}
            if not np.array_equal(a.coordinates, a.origin + a.step * np.arange(a.size)):
                entry["listed"] = True
                arrays[f"coordinates_{k}"] = np.asarray(a.coordinates, np.float64)
        axes.append(entry)
    edges: list[Any] = []
    for k, e in enumerate(part.edges):
        count = len(e) - 1
        even = np.round(np.linspace(0, part.shape[k], count + 1))
        edges.append(count if np.array_equal(e, even) else "listed")
        if edges[-1] == "listed":
            arrays[f"edges_{k}"] = np.asarray(e, np.int64)
    if not part.is_regular:
        arrays["labels"] = _smallest(part.labels.reshape(-1))
    groups: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    inside: list[Array] = []
    for group in field.blended.groups:
        kept = group.__dict__.get("kept")  # still in a file: no need to make its modes
        if kept is None:
            m = group.modes
            kept = Kept(
                recipes.recipe_of(m), int(m.n_modes), recipes.probe(m, d), d,
                getattr(m, "inside", None),
            )  # fmt: skip
        recipe = dict(kept.recipe)
        if "network" in recipe:  # said once, not in every group
            if recipe["network"] not in networks:
                networks.append(recipe["network"])
            recipe["network"] = networks.index(recipe["network"])
        if kept.inside is not None:
            inside.append(np.asarray(kept.inside, bool).reshape(-1))
        probe = [float(f"{v:.9g}") for v in kept.probe]
        entry = {"modes": recipe, "n_modes": kept.n_modes, "probe": probe}
        if _ragged(group) is not None:
            entry["ragged"] = True
        groups.append(entry)
    if len(groups) > 1:
        arrays["group"] = _smallest(plan.which)
    if inside:
        arrays["inside"] = np.packbits(np.concatenate(inside))
    _describe_ragged(plan, arrays)
    frames = "boxes"
    centres, radii = frames_of(part, groups, plan.which)
    own, sizes = field.blended, part.boxes[1]
    boxes = np.asarray([g["modes"].get("box", sizes[0]) for g in groups])[plan.which]
    if not all(map(np.array_equal, (centres, radii, sizes), (own.centres, own.radii, boxes))):
        frames = "listed"
        arrays["frames"] = np.concatenate([own.centres, own.radii], axis=1).reshape(-1)
    if field.residual is not None:
        arrays["residual"] = to_numpy(field.residual).astype(np.float32)
    kind = np.float64 if dtype == "float64" else np.float32  # in which a reader will compute
    meta = {
        "format": "elmfield model",
        "version": 2 if part.mirrored else 1,
        "written_by": f"elmfield {__version__}",
        "domain": {"axes": axes, "low": list(field.domain.low), "high": list(field.domain.high)},
        "partition": {
            "shape": list(part.shape),
            "edges": edges,
            "overlap": list(map(float, part.overlap)),
            "periodic": list(map(bool, part.periodic)),
            "equal_boxes": bool(part.equal_boxes),
            "context": int(part.context),
            "mirrored": bool(part.mirrored),
            "regular": part.is_regular,
            "n_regions": part.n_regions,
        },
        "networks": networks,
        "groups": groups,
        "frames": frames,
        "n_coefficients": plan.n_values,
        "dtype": dtype,
        "offset": to_numpy(field.offset).astype(kind).astype(np.float64).tolist(),
        "scale": to_numpy(field.scale).astype(kind).astype(np.float64).tolist(),
        "channel_axis": field.channel_axis,
        "complex": field.is_complex,
        "input_dtype": field.input_dtype,
        "data_range": float(field.data_range),
        "residual": field.residual is not None,
        "settings": recipes.settings_to_plain(field.settings),
        "attributes": field.attributes,
    }
    meta = to_plain(meta)
    return {**meta, "digest": digest(meta)}, arrays, plan


def digest(meta: Mapping[str, Any]) -> str:
    """A check sum of the metadata: CRC-32 of its JSON with sorted keys and no spaces."""
    content = {k: v for k, v in meta.items() if k != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(text.encode()):08x}"


def _describe_ragged(plan: _Plan, arrays: dict[str, Array]) -> None:
    """Add which modes each region keeps: counts and lengths by run, and a bitmap; file order."""
    parts = []
    rankings = []
    for group in plan.groups:
        c = _ragged(group)
        if c is not None:
            c = c.loaded() if isinstance(c, Stored) else c
            rankings.append(c.ranking)
        parts.append(c)
    if not rankings:
        return
    counts, lengths, ranks = [], [], []
    batch = 4096
    for i in range(0, len(plan.order), batch):
        regions = plan.order[i : i + batch]
        for g in np.unique(plan.which[regions]) if len(plan.groups) > 1 else [0]:
            if parts[g] is None:
                continue
            at = np.flatnonzero(plan.which[regions] == g)
            some = parts[g].rows(plan.row[regions[at]])
            counts.append((regions[at], some.counts))
            lengths.append(some.lengths)
            ranks.append((some.ranks, some.lengths.reshape(-1), some.starts))
    listed = np.concatenate([r for r, _ in counts])
    position = np.empty(len(plan.order), np.int64)
    position[plan.order] = np.arange(len(plan.order))
    by_place = np.argsort(position[listed], kind="stable")
    all_counts = np.concatenate([c for _, c in counts])[by_place]
    all_lengths = np.concatenate(lengths)[by_place]
    arrays["counts"] = _smallest(all_counts.reshape(-1))
    arrays["lengths"] = _smallest(all_lengths.reshape(-1))
    arrays["ranking"] = _smallest(np.concatenate(rankings))
    C = all_counts.shape[1]
    # Bits of each run in the order of `listed`, then put in the order of the file.
    flat = all_lengths.reshape(-1)
    begins = np.cumsum(flat) - flat
    bits = np.zeros(int(flat.sum()), bool)
    inverse = np.empty(len(by_place), np.int64)
    inverse[by_place] = np.arange(len(by_place))
    seen = 0
    for rank, runs, starts in ranks:
        n = np.diff(starts)
        row = inverse[seen + np.repeat(np.arange(len(runs) // C), C)]
        run = row * C + np.tile(np.arange(C), len(runs) // C)
        bits[np.repeat(begins[run], n) + rank] = True
        seen += len(runs) // C
    arrays["bitmap"] = np.packbits(bits)


def _smallest(values: Array) -> Array:
    """Whole numbers from 0 in the narrowest of the format's types that holds them."""
    values = np.asarray(values)
    top = int(values.max(initial=0))
    return values.astype("uint8" if top < 1 << 8 else "uint16" if top < 1 << 16 else "uint32")


def frames_of(
    part: Partition, groups: list[dict[str, Any]], which: Integers
) -> tuple[Floats, Floats]:
    """Centres and radii, (N, d) each, of regions whose boxes are the partition's."""
    starts, sizes = part.boxes
    d = len(part.shape)
    radius = np.ones((len(groups), d))
    for g, kept in enumerate(groups):
        if kept["modes"]["kind"] in ("plain", "smooth", "shaped"):
            radius[g] = half_widths(tuple(kept["modes"]["box"]))
    return starts + (sizes - 1) / 2, radius[which]


# --- reading -------------------------------------------------------------------------------------


def load(path: str | Path, *, lazy: bool = True) -> Field:
    """The field in a model file.

    Parameters
    ----------
    path : str or path
        Of the file or folder; also an fsspec URL.
    lazy : bool
        Read coefficients when a query first needs them, and only those; else all of them now.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    StoreError
        If the file is damaged or is no model file.
    StoreVersionError
        If it was written by a newer elmfield than this one.

    Notes
    -----
    Coefficients stored in float16 come back in float32. A lazy field keeps its file open; replacing
    the file meanwhile does not disturb it, replacing a folder does.
    """
    return field_of(open_source(path), lazy=lazy)


def field_of(source: Source, *, lazy: bool = True) -> Field:
    """The field in a source of bytes."""
    meta = metadata(source)
    try:
        return _Reader(source, meta, lazy).field()
    except StoreError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, AttributeError,
            MemoryError, ArithmeticError, AssertionError) as error:  # fmt: skip
        raise StoreError(
            f"{source.name} is damaged: its metadata makes no sense ({type(error).__name__}: "
            f"{error})."
        ) from error


def metadata(source: Source) -> dict[str, Any]:
    """What a model file says about itself, its version checked."""
    found = document(source, "zarr.json")
    attributes = found.get("attributes")
    meta = attributes.get("elmfield") if isinstance(attributes, dict) else None
    if not isinstance(meta, dict) or meta.get("format") != "elmfield model":
        raise StoreError(f"{source.name} is a Zarr group, but not a model file of elmfield.")
    version = meta.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StoreError(f"{source.name} is damaged: it states the format version {version!r}.")
    if version > VERSION:
        raise StoreVersionError(
            f"{source.name} has format version {version}; this elmfield reads up to {VERSION}. It "
            f"was written by {meta.get('written_by')!r}: install that version or a newer one."
        )
    if "digest" in meta and meta["digest"] != digest(meta):
        raise StoreError(f"{source.name} is damaged: the check sum of its metadata is wrong.")
    return meta


class _Reader:
    """One model file, its claims checked against each other and against its bytes."""

    def __init__(self, source: Source, meta: Mapping[str, Any], lazy: bool) -> None:
        self.source, self.meta, self.lazy = source, meta, lazy
        self.entries = source.sizes()

    def _refuse(self, why: str) -> StoreError:
        return StoreError(f"{self.source.name} is damaged: {why}.")

    def _whole(self, name: str, size: int, *kinds: str) -> Array:
        return Blocks(self.source, self.entries, name, size, kinds).whole()

    def _integers(self, name: str, size: int) -> Integers:
        kinds = ("uint8", "uint16", "uint32", "int64")
        return np.asarray(self._whole(name, size, *kinds), np.int64)

    def field(self) -> Field:
        """The field."""
        meta = self.meta
        domain = self._domain()
        part = self._partition(domain)
        which = self._groups(part)
        C = len(meta["offset"])
        if C < 1 or len(meta["scale"]) != C:
            raise self._refuse("offset and scale differ in length")
        groups = meta["groups"]
        dtype = np.dtype("float64" if meta["dtype"] == "float64" else "float32")
        shelf, rankings = self._shelf(part, which, C, dtype)
        masks = self._masks()
        made = []
        for g, kept in enumerate(groups):
            regions = np.flatnonzero(which == g)
            shape = (len(regions), int(kept["n_modes"]), C)
            stored: Any = Stored(shelf, regions, shape, rankings[g])
            made.append(
                StoredGroup(
                    self._kept(kept, len(part.shape), masks[g]),
                    regions,
                    stored if self.lazy else stored.loaded(),
                )
            )
        N, d = part.n_regions, len(part.shape)
        if meta["frames"] == "boxes":
            self._check_boxes(part, which)
            centres, radii = frames_of(part, groups, which)
        else:
            frames = self._whole("frames", 2 * d * N, "float64").reshape(N, 2 * d)
            centres, radii = frames[:, :d].copy(), frames[:, d:].copy()
            if not (np.isfinite(frames).all() and (radii > 0).all()):
                raise self._refuse("a region has no size")
        residual = None
        if meta["residual"]:
            residual = self._whole("residual", N, "float32").astype(np.float64)
        axis = meta["channel_axis"]
        if axis is None and (2 if meta["complex"] else 1) != C:
            raise self._refuse(f"{C} channels, but no place for them")
        if axis is not None and not (isinstance(axis, int) and 0 <= axis <= d):
            raise self._refuse(f"channels on axis {axis!r}")
        return Field(
            domain,
            Blended(part, tuple(made), centres, radii),
            np.asarray(meta["offset"], dtype),
            np.asarray(meta["scale"], dtype),
            axis,
            bool(meta["complex"]),
            str(meta["input_dtype"]),
            float(meta["data_range"]),
            residual,
            recipes.settings_from_plain(meta["settings"]),
            from_plain(meta["attributes"]),
        )

    def _domain(self) -> Domain:
        kept = self.meta["domain"]
        axes = []
        for k, entry in enumerate(kept["axes"]):
            name, size, period = str(entry["name"]), int(entry["size"]), entry["period"]
            if not 1 <= size < 1 << 62:
                raise self._refuse(f"an axis of {size} samples")
            if "origin" not in entry:
                axes.append(Axis(name, size, None, period))
                continue
            origin, step = float(entry["origin"]), float(entry["step"])
            if entry.get("listed"):
                c = self._whole(f"coordinates_{k}", size, "float64")
            else:
                if size > 1 << 40 or size > sum(self.entries.values()) * 4096:
                    raise self._refuse(f"an axis of {size} samples in so small a file")
                c = origin + step * np.arange(size)
            if entry["even"]:
                # As it was when fitted: single-precision coordinates are even to their rounding.
                axis = Axis(name, size)
                if not (np.isfinite(c).all() and math.isfinite(step) and step != 0):
                    raise self._refuse(f"coordinates of axis {name!r}")
                for key, value in (
                    ("coordinates", c), ("origin", origin), ("step", step), ("period", period),
                ):  # fmt: skip
                    object.__setattr__(axis, key, value)
            else:
                axis = Axis(name, size, c, period)
            axes.append(axis)
        low, high = (tuple(float(v) for v in kept[key]) for key in ("low", "high"))
        d = len(axes)
        sizes = [a.size for a in axes]
        if not (d and len(low) == len(high) == d) or not all(
            -0.5 <= a < b <= n - 0.5 for a, b, n in zip(low, high, sizes)
        ):
            raise self._refuse("the box of the domain")
        return Domain(tuple(axes), low, high)

    def _partition(self, domain: Domain) -> Partition:
        kept = self.meta["partition"]
        shape = tuple(int(n) for n in kept["shape"])
        if shape != domain.shape or tuple(kept["periodic"]) != domain.periodic:
            raise self._refuse("domain and partition disagree")
        edges = []
        room = sum(self.entries.values())
        for k, entry in enumerate(kept["edges"]):
            if entry == "listed":
                size = self._size_of(f"edges_{k}")
                e = self._whole(f"edges_{k}", size, "int64")
            else:
                if not 1 <= int(entry) <= min(shape[k], 8 * room):
                    raise self._refuse(f"{entry} cells on an axis")
                e = np.round(np.linspace(0, shape[k], int(entry) + 1)).astype(np.int64)
            low, high = domain.low[k], domain.high[k]
            if len(e) < 2 or not (np.diff(e) > 0).all() or e[0] > low + 0.5 or e[-1] < high + 0.5:
                raise self._refuse("cells do not cover the domain")
            edges.append(e)
        cells = tuple(len(e) - 1 for e in edges)
        n = math.prod(cells)
        N = int(kept["n_regions"])
        # Every region has at least a bit in the file, every cell of an irregular one a label.
        if not 1 <= N <= min(n, 8 * room) or (kept["regular"] and n != N):
            raise self._refuse(f"{N} regions in {n} cells and {room} bytes")
        labels = np.arange(n) if kept["regular"] else self._integers("labels", n)
        part = Partition(
            shape, tuple(edges), labels.reshape(cells), tuple(map(float, kept["overlap"])),
            tuple(map(bool, kept["periodic"])), bool(kept["equal_boxes"]),
            int(kept.get("context", 0)), bool(kept.get("mirrored", False)),
        )  # fmt: skip
        overlap = np.asarray(part.overlap)
        if (
            part.n_regions != N
            or len(overlap) != len(shape)
            or not (np.isfinite(overlap).all() and (overlap >= 0).all())
        ):
            raise self._refuse("labels or overlap of the regions")
        return part

    def _size_of(self, name: str) -> int:
        """Length of an array that says so itself; its blocks must then be there."""
        (size,) = document(self.source, f"{name}/zarr.json")["shape"]
        return int(size)

    def _groups(self, part: Partition) -> Integers:
        """Group of each region, (N,)."""
        groups, N = self.meta["groups"], part.n_regions
        if not groups:
            raise self._refuse("it has no groups")
        which = np.zeros(N, np.int64) if len(groups) == 1 else self._integers("group", N)
        if int(which.max()) >= len(groups):
            raise self._refuse("a region belongs to no group")
        sizes = np.bincount(which, minlength=len(groups))
        for kept, size in zip(groups, sizes):
            if not size or recipes.n_modes_of(kept["modes"], kept["n_modes"]) != kept["n_modes"]:
                raise self._refuse("the groups of its regions")
        return which

    def _kept(self, kept: dict[str, Any], d: int, inside: Array | None) -> Kept:
        recipe = dict(kept["modes"])
        if "network" in recipe:
            recipe["network"] = self.meta["networks"][recipe["network"]]
        return Kept(recipe, int(kept["n_modes"]), kept["probe"], d, inside)

    def _masks(self) -> list[Array | None]:
        """Which samples of its box count in each group; None where all do."""
        recipes_ = [kept["modes"] for kept in self.meta["groups"]]
        boxes = [tuple(map(int, r["box"])) if r.get("masked") else () for r in recipes_]
        sizes = [math.prod(box) if box else 0 for box in boxes]
        if not any(sizes):
            return [None] * len(boxes)
        packed = self._whole("inside", -(-sum(sizes) // 8), "uint8")
        bits = np.unpackbits(packed)[: sum(sizes)].astype(bool)
        ends = np.cumsum(sizes)
        return [
            bits[end - size : end].reshape(box) if box else None
            for box, size, end in zip(boxes, sizes, ends)
        ]

    def _check_boxes(self, part: Partition, which: Integers) -> None:
        """Regions' boxes must be those of their modes."""
        sizes = part.boxes[1]
        for g, kept in enumerate(self.meta["groups"]):
            box = kept["modes"].get("box")
            own = sizes if len(self.meta["groups"]) == 1 else sizes[which == g]
            if box is None or (own != np.asarray(box)).any():
                raise self._refuse("boxes of regions and modes disagree")

    def _shelf(
        self, part: Partition, which: Integers, C: int, dtype: Any
    ) -> tuple[Shelf, list[Integers | None]]:
        meta, N = self.meta, part.n_regions
        groups = meta["groups"]
        ragged = np.asarray([bool(kept.get("ragged")) for kept in groups])
        n_modes = np.asarray([int(kept["n_modes"]) for kept in groups])
        order = file_order(part)
        counts = n_modes[which] * C
        rankings: list[Integers | None] = [None] * len(groups)
        bitmap = bit_starts = lengths = kept_ = None
        if ragged.any():
            listed = order[ragged[which[order]]]
            kept_, lengths = (np.zeros((N, C), np.int64) for _ in range(2))
            kept_[listed] = self._integers("counts", len(listed) * C).reshape(-1, C)
            lengths[listed] = self._integers("lengths", len(listed) * C).reshape(-1, C)
            if (kept_ > lengths).any() or (lengths > n_modes[which][:, None]).any():
                raise self._refuse("counts of kept modes")
            counts = np.where(ragged[which], kept_.sum(axis=1), counts)
            bits = lengths.sum(axis=1)[order]
            bit_starts = np.empty(N, np.int64)
            bit_starts[order] = np.cumsum(bits) - bits
            bitmap = Blocks(
                self.source, self.entries, "bitmap", -(-int(bits.sum()) // 8), ("uint8",)
            )
            all_ranks = self._integers("ranking", int(n_modes[ragged].sum()))
            ends = np.cumsum(n_modes * ragged)
            for g in np.flatnonzero(ragged):
                rankings[g] = ranking = all_ranks[ends[g] - n_modes[g] : ends[g]]
                if not np.array_equal(np.sort(ranking), np.arange(n_modes[g])):
                    raise self._refuse("the ranking of the modes")
        if int(counts.sum()) != meta["n_coefficients"]:
            raise self._refuse(
                f"{meta['n_coefficients']} coefficients, but its regions need {counts.sum()}"
            )
        starts = np.empty(N, np.int64)
        starts[order] = np.cumsum(counts[order]) - counts[order]
        if meta["dtype"] not in ("float64", "float32", "float16"):
            raise self._refuse(f"coefficients of type {meta['dtype']!r}")
        values = Blocks(
            self.source, self.entries, "coefficients", int(counts.sum()), (meta["dtype"],)
        )
        return Shelf(values, dtype, starts, counts, bitmap, bit_starts, lengths, kept_), rankings
