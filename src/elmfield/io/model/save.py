"""Writing a model file: a Field to a Zarr 3 hierarchy in one zip file or a folder.

The layout is that of docs/format.md. The whole file or folder is made beside its target and then
put in place with one rename. `restore` reads it back.
"""

import io
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from elmfield._array.progress import reporter, silent
from elmfield._array.typing import Array, Progress
from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.io.files import check_model_name
from elmfield.io.gridded import fingerprint
from elmfield.io.model.description import describe, entry_order, promised_error
from elmfield.io.model.load import read_field
from elmfield.io.model.metadata import is_model
from elmfield.io.store.atomic_write import (
    explain_failure,
    move_into_place,
    resolve_links,
    scratch_folder,
    set_default_mode,
)
from elmfield.io.store.stores import (
    FolderStore,
    MemoryStore,
    RemoteStore,
    ZipStore,
    filesystem,
    is_url,
    open_store,
)

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
    check_model_name("path", path)
    own = str(field.model.coefficient_dtype).removeprefix("torch.")
    dtype = own if dtype is None else str(dtype)
    if dtype not in ("float64", "float32", "float16"):
        raise ValueError(f"`dtype` must be 'float64', 'float32' or 'float16'; got {dtype!r}.")
    group = field.model.blended.groups[0]
    are_weights = group.model.basis is None and group.coefficients.beliefs is None
    if dtype != own == "float64" and are_weights:
        raise ValueError(
            "`dtype` must be 'float64' for scattered samples and for output weights: they cancel, "
            f"and lose what is rounded; got {dtype!r}. Leave it out."
        )
    if source is not None:
        known = {**field.labels.source, **fingerprint(source)}
        field = Field(replace(field.model, labels=replace(field.labels, source=known)))
    _check_promise(field, own, dtype)
    write_model(field, path, dtype, compress, reporter(progress))


def write_model(
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
        why = explain_failure(error)
        raise StoreError(f"cannot write {path}: {why}. Nothing was left behind.") from error


def _check_promise(field: Field, own: str, dtype: str) -> None:
    """Raise if coefficients were chosen for an error, and rounding them adds to it."""
    kind, narrower = promised_error(field), np.dtype(dtype).itemsize < np.dtype(own).itemsize
    if kind is not None and narrower and field.model.blended.source_samples is None:
        raise ValueError(
            f"`{kind}` was met with coefficients in {own}; rounded to {dtype} they may not "
            f"keep it. Save as {own}, or let the command line look for a field that keeps it: "
            "elmfield fit --dtype."
        )


def as_stored(field: Field, dtype: str) -> Field:
    """Return the field as it would come back from a file with coefficients of this dtype."""
    memory = MemoryStore()
    describe(field, dtype).write(memory, False, silent)
    return read_field(memory)


def stored_size(field: Field, dtype: str) -> int:
    """Return the bytes of the file that the field would become."""
    file = io.BytesIO()
    with ZipStore("", file, is_new=True) as store:
        describe(field, dtype).write(store, True, silent)
    return len(file.getvalue())


def _save_local(field: Field, path: Path, dtype: str, compress: bool, progress: Progress) -> None:
    check_target(path)
    place = resolve_links(path)
    model = describe(field, dtype)
    with scratch_folder(place) as work:
        made = work / "model"
        if path.name.endswith(FOLDER):
            made.mkdir()
            model.write(FolderStore(str(made)), compress, progress)
            set_default_mode(made, 0o777)
        else:
            with made.open("wb") as file, ZipStore(str(path), file, is_new=True) as store:
                model.write(store, compress, progress)
            with made.open("rb") as written:
                os.fsync(written.fileno())
            set_default_mode(made)
        move_into_place(made, place)


def _save_remote(field: Field, url: str, dtype: str, compress: bool, progress: Progress) -> None:
    """Write a model to a disk of this machine, and copy it once it is complete."""
    check_target(url)
    system, target = filesystem(url)
    with tempfile.TemporaryDirectory(prefix="elmfield-") as work:
        local = Path(work, target.rsplit("/", 1)[-1] or "model.elm")
        _save_local(field, local, dtype, compress, progress)
        if not local.is_dir():
            system.put_file(str(local), target)
            return
        store = RemoteStore(url)
        store.clear()
        for key in sorted(FolderStore(str(local)).sizes(), key=entry_order):
            store.write(key, (local / key).read_bytes())


def check_target(path: str | Path) -> None:
    """Raise StoreError if a model cannot go to a path or URL: what is there is none."""
    if is_url(path):
        system, inner = filesystem(str(path))
        is_ours = not system.exists(inner) or _is_model_at(path)
    else:
        place = resolve_links(Path(path))
        if not place.parent.is_dir():
            raise StoreError(f"cannot write {path}: its folder does not exist.")
        if place.exists() and place.is_dir() != str(path).endswith(FOLDER):
            what = "folder" if place.is_dir() else "file"
            raise StoreError(f"cannot write {path}: there is a {what} of that name.")
        is_ours = not place.exists() or _is_replaceable(place)
    if not is_ours:
        raise StoreError(
            f"cannot write {path}: what is there is no model of elmfield, and is left alone. "
            "Choose another name, or remove it."
        )


def _is_replaceable(place: Path) -> bool:
    """Whether a file or folder is a model, in whatever state; an empty one is nobody's."""
    if place.is_dir():
        is_empty = not any(place.iterdir())
    else:
        with place.open("rb") as file:
            start = file.read(4)
        is_empty = not start or (start == b"PK\x03\x04" and place.name.endswith(".elm"))
    return is_empty or _is_model_at(place)


def _is_model_at(path: str | Path) -> bool:
    try:
        return is_model(open_store(path))
    except StoreError:
        return False
