"""Writing a model file: a Field to a Zarr 3 hierarchy in one zip file or a folder.

The layout is that of docs/format.md. The whole file or folder is made beside its target and then
put in place with one rename. `restore` reads it back.
"""

import errno
import io
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.progress import reporter, silent
from elmfield._array.typing import Array, Progress
from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.io.beside import beside, place_of, put_in_place, usual_mode
from elmfield.io.gridded import fingerprint
from elmfield.io.model.agreed import digest
from elmfield.io.model.blocks import put_array, put_document
from elmfield.io.model.describe import described
from elmfield.io.model.entries import (
    ArchiveSink,
    Entries,
    FolderSink,
    Memory,
    RemoteFolder,
    Sink,
    document,
    filesystem,
    is_url,
    open_entries,
)
from elmfield.io.model.restore import field_of
from elmfield.io.model.tiles import SamplePlan
from elmfield.io.model.usual import shortened
from elmfield.settings import Settings

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
        In which a reader computes (float16: in float32), by default as the field does. Floating
        samples, or coefficients where those are stored, are rounded to it; float16 leaves 78 dB.
        Samples that were coded for a target are not rounded again, and computed with as in the fit.
        Coefficients that were chosen for an error are not rounded: such a field is refused.
    compress : bool
        Whether coefficients are compressed (without loss); samples always are.
    source : array, optional
        The samples the field came from: their shape, dtype, range and SHA-256 go into the file.
    progress : callable or bool
        Called with (stage, done, total); True shows a bar.

    Notes
    -----
    The old file, if any, is replaced in one step once the new one is complete: an interrupted or
    failing save leaves the old one, or none. Only models are replaced, nothing else that has the
    name; where the name is a link, what it leads to. What a killed save left in a hidden folder,
    the next one to the same place removes. The same field gives the same bytes.

    Raises
    ------
    StoreError
        If the file cannot be written, for instance because the disk is full, or something is there
        that is no model.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> field = ef.fit(np.eye(20), ef.smooth(max_error=0.01))
    >>> ef.save(field, "eye.elm")
    >>> ef.max_error(np.eye(20), ef.load("eye.elm").samples()) <= 0.01
    True
    """
    if not isinstance(field, Field):
        raise TypeError(
            f"`field` must be a Field; got a {type(field).__name__}. Fit one first: "
            "save(fit(values), path)."
        )
    own = str(field.coefficient_dtype).removeprefix("torch.")
    dtype = own if dtype is None else str(dtype)
    if dtype not in ("float64", "float32", "float16"):
        raise ValueError(f"`dtype` must be 'float64', 'float32' or 'float16'; got {dtype!r}.")
    if dtype != "float64" and field.blended.groups[0].nodes is not None:
        raise ValueError(
            f"`dtype` must be 'float64' for scattered samples in several dimensions: the weights "
            f"of their kernels cancel, and lose what is rounded; got {dtype!r}. Leave it out."
        )
    if source is not None:
        known = {**field.attributes.get("source", {}), **fingerprint(source)}
        field = replace(field, attributes={**field.attributes, "source": known})
    _check_promise(field, own, dtype)
    put_model(field, path, dtype, compress, reporter(progress))


def put_model(
    field: Field, path: str | Path, dtype: str, compress: bool, progress: Progress
) -> None:
    """Write a field, whose promises hold in `dtype`; see :func:`save`."""
    try:
        if is_url(path):
            _save_remote(field, str(path), dtype, compress, progress)
        else:
            _save_local(field, Path(path), dtype, compress, progress)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise StoreError(f"cannot write {path}: its folder does not exist.") from error
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why += "; free some space or choose another place"
        raise StoreError(f"cannot write {path}: {why}. Nothing was left behind.") from error


def _check_promise(field: Field, own: str, dtype: str) -> None:
    """Raise if coefficients were chosen for an error, and rounding them adds to it."""
    kind, narrower = _promised(field), np.dtype(dtype).itemsize < np.dtype(own).itemsize
    if kind is not None and narrower and field.blended.made_of is None:
        raise ValueError(
            f"`{kind}` was met with coefficients in {own}; rounded to {dtype} they may not "
            f"keep it. Save as {own}, or let the command line look for a field that keeps it: "
            "elmfield fit --dtype."
        )


def _promised(field: Field) -> str | None:
    """Which error a field was made for, if any."""
    made = field.settings
    target = made.target if isinstance(made, Settings) else None
    return target.kind if target is not None and target.kind in ("psnr", "max_error") else None


def as_stored(field: Field, dtype: str) -> Field:
    """The field as it would come back from a file with coefficients of this dtype."""
    memory = Memory()
    _write(field, memory, dtype, False, silent)
    return field_of(memory)


def stored_size(field: Field, dtype: str) -> int:
    """Bytes of the file that the field would become."""
    file = io.BytesIO()
    with ArchiveSink(file) as sink:
        _write(field, sink, dtype, True, silent)
    return len(file.getvalue())


def _save_local(field: Field, path: Path, dtype: str, compress: bool, progress: Progress) -> None:
    place = place_of(path)
    check_place(path, place)
    with beside(place) as work:
        made = work / "model"
        if path.name.endswith(FOLDER):
            made.mkdir()
            _write(field, FolderSink(made), dtype, compress, progress)
            usual_mode(made, 0o777)
        else:
            with made.open("wb") as file, ArchiveSink(file) as sink:
                _write(field, sink, dtype, compress, progress)
            with made.open("rb") as written:
                os.fsync(written.fileno())
            usual_mode(made)
        put_in_place(made, place)


def check_place(path: Path, place: Path) -> None:
    """Raise if a model cannot go to `path`, which leads to `place`: what is there is none."""
    if not place.parent.is_dir():
        raise StoreError(f"cannot write {path}: its folder does not exist.")
    if not place.exists():
        return
    if place.is_dir() != path.name.endswith(FOLDER):
        what = "folder" if place.is_dir() else "file"
        raise StoreError(f"cannot write {path}: there is a {what} of that name.")
    if not _is_ours(place):
        raise StoreError(
            f"cannot write {path}: what is there is no model of elmfield, and is left alone. "
            "Choose another name, or remove it."
        )


def _is_ours(place: Path) -> bool:
    """Whether a file or folder is a model, in whatever state; an empty one is nobody's."""
    if place.is_dir():
        if not any(place.iterdir()):
            return True
    else:
        with place.open("rb") as file:
            start = file.read(4)
        if not start or (start == b"PK\x03\x04" and place.name.endswith(".elm")):
            return True
    try:
        return _says_so(open_entries(place))
    except StoreError:
        return False


def _says_so(entries: Entries) -> bool:
    about = document(entries, "zarr.json").get("attributes")
    meta = about.get("elmfield") if isinstance(about, dict) else None
    return isinstance(meta, dict) and meta.get("format") == "elmfield model"


def _save_remote(field: Field, url: str, dtype: str, compress: bool, progress: Progress) -> None:
    system, target = filesystem(url)
    with tempfile.TemporaryDirectory(prefix="elmfield-") as work:
        name = target.rstrip("/").rsplit("/", 1)[-1] or "model.elm"
        local = Path(work) / name
        _save_local(field, local, dtype, compress, progress)
        if local.is_dir():
            if system.exists(target):
                there = RemoteFolder(url, system, target)
                if not system.isdir(target) or not _says_so(there):
                    raise StoreError(
                        f"cannot write {url}: what is there is no model of elmfield, and is left "
                        "alone. Choose another name, or remove it."
                    )
                system.rm(target, recursive=True)
            for file in sorted(p for p in local.rglob("*") if p.is_file()):
                place = f"{target.rstrip('/')}/{file.relative_to(local).as_posix()}"
                system.makedirs(place.rsplit("/", 1)[0], exist_ok=True)
                system.put_file(str(file), place)
        else:
            system.put_file(str(local), target)


def _write(field: Field, sink: Sink, dtype: str, compress: bool, progress: Progress) -> None:
    """Put the whole hierarchy into `sink`."""
    told, said = described(field, dtype), {}
    own = str(field.coefficient_dtype).removeprefix("torch.")
    plan = told.plan
    coded = isinstance(plan, SamplePlan) and (plan.is_lossy or _promised(field) is not None)
    if coded and dtype != "float64":
        # Samples coded for an error keep it as they were computed with: rounding would add to it,
        # and saves no byte.
        told = described(field, own)
    checks = put_arrays(sink, told.arrays, compress)
    if isinstance(told.plan, SamplePlan):
        said = {"samples": told.plan.write(sink, progress)}
    else:
        numbers = told.plan.numbers(dtype, progress)
        size = told.plan.n_values
        checks["coefficients"] = put_array(sink, "coefficients", numbers, size, dtype, compress)
    sums = {"checks": checks} if checks else {}
    put_root(sink, {**told.meta, **sums, **said})


def put_arrays(sink: Sink, arrays: dict[str, Array], compress: bool) -> dict[str, str]:
    """Write arrays that are in memory; the check sums of their blocks."""
    return {
        name: put_array(sink, name, iter([values]), len(values), values.dtype.name, compress)
        for name, values in arrays.items()
    }


def put_root(sink: Sink, meta: dict[str, Any]) -> str:
    """Write the metadata, which come last; their digest."""
    meta = shortened(meta)
    found = digest(meta)
    root = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {"elmfield": {**meta, "digest": found}},
    }
    put_document(sink, "zarr.json", root)
    return found
