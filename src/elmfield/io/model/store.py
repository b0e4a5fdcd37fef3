"""Writing a model file: a Field to a Zarr 3 hierarchy in one zip file or a folder.

The layout is that of docs/format.md. The whole file or folder is made beside its target and then
put in place with one rename. `restore` reads it back.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.progress import reporter, silent
from elmfield._array.typing import Array, Progress
from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.io.gridded import fingerprint
from elmfield.io.model import recipes
from elmfield.io.model.blocks import put_array, put_document
from elmfield.io.model.plain import to_plain
from elmfield.io.model.restore import digest, field_of, file_order, frames_of
from elmfield.io.model.source import (
    ArchiveSink,
    FolderSink,
    Memory,
    Sink,
    filesystem,
    is_url,
)
from elmfield.io.model.stored import Deferred, Kept
from elmfield.local.model import LocalModel

BATCH = 1 << 22
"""Coefficients gathered at a time while writing."""

FOLDER = ".zarr"
"""A target whose name ends so becomes a folder; any other a single file."""


def save(
    field: Field,
    path: str | Path,
    *,
    dtype: str | None = None,
    compress: bool = True,
    source: Array | None = None,
    progress: Progress | bool = False,
) -> None:
    """Write a field to a model file.

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
    progress : callable or bool
        Called with (stage, done, total); True shows a bar.

    Notes
    -----
    The old file, if any, is replaced in one step once the new one is complete: an interrupted or
    failing save leaves the old one, or none. The same field gives the same bytes.

    Raises
    ------
    StoreError
        If the file cannot be written, for instance because the disk is full.
    """
    own = str(field.coefficient_dtype).removeprefix("torch.")
    dtype = own if dtype is None else str(dtype)
    if dtype not in ("float64", "float32", "float16"):
        raise ValueError(f"`dtype` must be 'float64', 'float32' or 'float16'; got {dtype!r}.")
    if source is not None:
        known = {**field.attributes.get("source", {}), **fingerprint(source)}
        field = replace(field, attributes={**field.attributes, "source": known})
    try:
        if is_url(path):
            _save_remote(field, str(path), dtype, compress, reporter(progress))
        else:
            _save_local(field, Path(path), dtype, compress, reporter(progress))
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


def _save_local(field: Field, path: Path, dtype: str, compress: bool, progress: Progress) -> None:
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
            _write(field, FolderSink(made), dtype, compress, progress)
            _usual_mode(made, 0o777)
            if path.exists():  # a folder cannot be replaced in one step: the old one goes first
                os.replace(path, work / "old")
        else:
            with made.open("wb") as file, ArchiveSink(file) as sink:
                _write(field, sink, dtype, compress, progress)
            with made.open("rb") as written:
                os.fsync(written.fileno())
            _usual_mode(made)
        os.replace(made, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _usual_mode(path: Path, mode: int = 0o666) -> None:
    """Permissions a new file of the user's would have; mkdtemp's are private."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)


def _save_remote(field: Field, url: str, dtype: str, compress: bool, progress: Progress) -> None:
    system, target = filesystem(url)
    with tempfile.TemporaryDirectory(prefix="elmfield-") as work:
        name = target.rstrip("/").rsplit("/", 1)[-1] or "model.elm"
        local = Path(work) / name
        _save_local(field, local, dtype, compress, progress)
        if local.is_dir():
            if system.exists(target):
                system.rm(target, recursive=True)
            for file in sorted(p for p in local.rglob("*") if p.is_file()):
                place = f"{target.rstrip('/')}/{file.relative_to(local).as_posix()}"
                system.makedirs(place.rsplit("/", 1)[0], exist_ok=True)
                system.put_file(str(file), place)
        else:
            system.put_file(str(local), target)


def _write(field: Field, sink: Sink, dtype: str, compress: bool, progress: Progress) -> None:
    """Put the whole hierarchy into `sink`."""
    meta, arrays, plan = _described(field, dtype)
    root = {"zarr_format": 3, "node_type": "group", "attributes": {"elmfield": meta}}
    put_document(sink, "zarr.json", root)
    for name, values in arrays.items():
        put_array(sink, name, iter([values]), len(values), values.dtype.name, compress)
    numbers = plan.numbers(dtype, progress)
    put_array(sink, "coefficients", numbers, plan.n_values, dtype, compress)


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
            self.counts[group.regions] = group.coefficients.counts
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
                values = to_numpy(group.coefficients.numbers(self.row[regions[at]]))
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


def _described(field: Field, dtype: str) -> tuple[dict[str, Any], dict[str, Array], _Plan]:
    """The metadata, the small arrays, and the order of the coefficients."""
    from elmfield import __version__

    part, d = field.partition, len(field.shape)
    arrays: dict[str, Array] = {}
    plan = _Plan(field)
    axes = []
    for k, a in enumerate(field.domain.axes):
        entry: dict[str, Any] = {"name": a.name, "size": a.size, "period": a.period}
        if a.coords is not None:
            entry |= {"origin": a.origin, "step": a.step, "even": a.knots is None}
            if not np.array_equal(a.coords, a.origin + a.step * np.arange(a.size)):
                entry["listed"] = True
                arrays[f"coordinates_{k}"] = np.asarray(a.coords, np.float64)
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
        kept = _kept(group.model, d)
        recipe = dict(kept.recipe)
        if "network" in recipe:  # said once, not in every group
            if recipe["network"] not in networks:
                networks.append(recipe["network"])
            recipe["network"] = networks.index(recipe["network"])
        if kept.inside is not None:
            inside.append(np.asarray(kept.inside, bool).reshape(-1))
        probe = [float(f"{v:.9g}") for v in kept.probe]
        entry = {"modes": recipe, "n_modes": kept.n_modes, "probe": probe}
        if group.coefficients.index_bits:
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


def _kept(model: LocalModel, d: int) -> Kept:
    """How to make a local model again; what a file says about one need not be made for that."""
    if isinstance(model, Deferred):
        return model.kept
    inside = None if model.basis is None else model.basis.inside
    return Kept(recipes.recipe_of(model), int(model.n_modes), recipes.probe(model, d), d, inside)


def _describe_ragged(plan: _Plan, arrays: dict[str, Array]) -> None:
    """Add which modes each region keeps: counts and lengths by run, and a bitmap; file order."""
    nothing = np.empty(0, np.int64)
    rankings = [r.ranking for g in plan.groups if (r := g.coefficients.ragged(nothing)) is not None]
    if not rankings:
        return
    counts, lengths, ranks = [], [], []
    batch = 4096
    for i in range(0, len(plan.order), batch):
        regions = plan.order[i : i + batch]
        for g in np.unique(plan.which[regions]) if len(plan.groups) > 1 else [0]:
            at = np.flatnonzero(plan.which[regions] == g)
            some = plan.groups[g].coefficients.ragged(plan.row[regions[at]])
            if some is None:
                continue
            counts.append((regions[at], some.kept))
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
