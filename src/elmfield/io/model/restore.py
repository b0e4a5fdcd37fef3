"""Reading a model file: a Field from a Zarr 3 hierarchy, its claims checked.

The layout is that of docs/format.md. The metadata is read at once, coefficients block by block when
a query needs them. Nothing a file says is believed before it agrees with the rest and its bytes.
"""

from pathlib import Path
from typing import Any

from elmfield.errors import StoreError, StoreVersionError
from elmfield.field import Field
from elmfield.io.model.agreed import digest
from elmfield.io.model.entries import Entries, document, open_entries
from elmfield.io.model.reader import Reader
from elmfield.io.model.usual import completed

VERSION = 3
"""Of the format. A reader refuses a higher one."""


def load(path: str | Path, *, lazy: bool = True, device: object = None) -> Field:
    """The field in a model file.

    Parameters
    ----------
    path : str or path
        Of the file or folder; also an fsspec URL.
    lazy : bool
        Read coefficients when a query first needs them, and only those; else all of them now.
    device : optional
        Where to bring the field: a device of torch, as "cuda" or "cpu"; all of it is read then. By
        default it is NumPy's.

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
    the file meanwhile does not disturb it. Where a folder is replaced, blocks that were not read
    before are no longer there: the next query that needs one raises StoreError.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.save(ef.fit(np.eye(20)), "eye.elm")
    >>> ef.load("eye.elm")([3.0, 3.0]).round(9)
    np.float64(1.0)
    """
    field = field_of(open_entries(path), lazy=lazy)
    return field if device is None else field.to(device)


def field_of(entries: Entries, *, lazy: bool = True) -> Field:
    """The field in some entries."""
    meta = metadata(entries)
    try:
        return Reader(entries, completed(meta), lazy).field()
    except StoreError:
        raise
    except Exception as error:  # claims can be wrong in more ways than can be listed
        raise StoreError(
            f"{entries.name} is damaged: its metadata makes no sense ({type(error).__name__}: "
            f"{error})."
        ) from error


def metadata(entries: Entries) -> dict[str, Any]:
    """What a model file says about itself, its version checked."""
    found = document(entries, "zarr.json")
    attributes = found.get("attributes")
    meta = attributes.get("elmfield") if isinstance(attributes, dict) else None
    if not isinstance(meta, dict) or meta.get("format") != "elmfield model":
        raise StoreError(f"{entries.name} is a Zarr group, but not a model file of elmfield.")
    version = meta.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise StoreError(f"{entries.name} is damaged: it states the format version {version!r}.")
    if version > VERSION:
        raise StoreVersionError(
            f"{entries.name} has format version {version}; this elmfield reads up to {VERSION}. It "
            f"was written by {meta.get('written_by')!r}: install that version or a newer one."
        )
    if "digest" in meta and meta["digest"] != digest(meta):
        raise StoreError(f"{entries.name} is damaged: the check sum of its metadata is wrong.")
    return meta
