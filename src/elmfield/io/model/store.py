"""Writing a model file: a Field to a Zarr 3 hierarchy in one zip file or a folder.

The layout is that of docs/format.md. The whole file or folder is made beside its target and then
put in place with one rename. `restore` reads it back.
"""

import errno
import io
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmfield._array.progress import reporter, silent
from elmfield._array.typing import Array, Progress
from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.io.gridded import fingerprint
from elmfield.io.model.agreed import digest
from elmfield.io.model.blocks import put_array, put_document
from elmfield.io.model.describe import described
from elmfield.io.model.entries import (
    ArchiveSink,
    FolderSink,
    Memory,
    Sink,
    filesystem,
    is_url,
)
from elmfield.io.model.restore import field_of
from elmfield.io.model.tiles import SamplePlan
from elmfield.io.model.usual import shortened

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
        Samples that were coded for a target are not rounded again.
    compress : bool
        Whether coefficients are compressed (without loss); samples always are.
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


def stored_size(field: Field, dtype: str) -> int:
    """Bytes of the file that the field would become."""
    file = io.BytesIO()
    with ArchiveSink(file) as sink:
        _write(field, sink, dtype, True, silent)
    return len(file.getvalue())


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
    told = described(field, dtype)
    meta = told.meta
    for name, values in told.arrays.items():
        put_array(sink, name, iter([values]), len(values), values.dtype.name, compress)
    if isinstance(told.plan, SamplePlan):
        meta = {**meta, "samples": told.plan.write(sink, progress)}
    else:
        numbers = told.plan.numbers(dtype, progress)
        put_array(sink, "coefficients", numbers, told.plan.n_values, dtype, compress)
    put_root(sink, meta)


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
