"""Files of all kinds: `read` one as it is, `put` one in place.

Which room knows a kind of file is `formats.registry`'s business.
"""

import os
from pathlib import Path
from typing import Any, TypeGuard

from elmfield.io.errors import NoSuchArrayError
from elmfield.io.formats.registry import NAMED, Format, format_of, is_model, suffix_of
from elmfield.io.gridded import Gridded
from elmfield.io.pixels import most_pixels

StrPath = str | os.PathLike[str]


def read(path: StrPath, *, variable: str | None = None, max_pixels: int | None = None) -> Gridded:
    """The samples in a file, with the coordinates and attributes it has.

    Parameters
    ----------
    path : str or path
        The file; its name says what it is.
    variable : str, optional
        Which of several arrays in it.
    max_pixels : int, optional
        Refuse pictures, maps and scans of more than so many; by default those of more than 134
        million that claim more than 50 for each byte of the file, as only bombs do.

    Returns
    -------
    Gridded
        ``np.asarray`` of it is the bare array; `fit` takes it whole.

    Raises
    ------
    FileNotFoundError, UnreadableError
        If there is no such file; if it is damaged, or not what its name says.
    ValueError
        If it holds several arrays, or not the one that is asked for.
    MissingExtraError
        If a package is missing; the message names the extra.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.write(np.eye(12), "eye.npy")
    >>> ef.read("eye.npy").shape
    (12, 12)
    """
    if _is_series(path):
        return _folder(path_of(path), variable)
    found, kind = _found(path, variable)
    with most_pixels(max_pixels):
        return kind.room.read(found, variable)


def opened(path: StrPath, *, variable: str | None = None, max_pixels: int | None = None) -> Gridded:
    """What :func:`read` gives, with values that are read where they are looked at.

    NumPy's NPY, NetCDF, Zarr, GRIB, TIFF and video files; of other kinds all is read at once.
    """
    if _is_series(path):
        return _folder(path_of(path), variable)
    found, kind = _found(path, variable)
    with most_pixels(max_pixels):
        return kind.room.opened(found, variable)


def _is_series(path: StrPath) -> bool:
    """Whether a path is a folder of files, not a model and not a Zarr store."""
    folder = path_of(path)
    return not is_model(folder) and folder.is_dir() and suffix_of(folder) != ".zarr"


def _found(path: StrPath, variable: str | None) -> tuple[Path, Format]:
    """A file that is there, and its kind."""
    path = path_of(path)
    if is_model(path):
        raise ValueError(f"{path.name} is a model, not samples; open it with load({str(path)!r}).")
    kind = format_of(path)
    existing(path)
    if variable is not None and suffix_of(path) not in NAMED:
        raise NoSuchArrayError(
            f"{path.name}: arrays in {kind.name} files have no names; got variable {variable!r}. "
            "Leave it out."
        )
    return path, kind


def _folder(path: Path, variable: str | None) -> Gridded:
    """The volume in a folder of DICOM slices; other folders are refused."""
    from elmfield.io.formats.dicom import holds_series, read

    if not holds_series(path):
        raise IsADirectoryError(
            f"{path} is a folder; say which file in it to read. (Of folders, only those with the "
            "slices of a DICOM series are read whole.)"
        )
    return read(path, variable)


def put(samples: Gridded, path: Path, colours: str | None = None) -> None:
    """Write samples as they are; in place only once the file is complete."""
    from elmfield.io.beside import beside, place_of, put_in_place, usual_mode

    end = place_of(path)
    if not end.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist")
    room = format_of(path).room
    with beside(end) as work:
        try:
            room.write(samples, work / path.name, colours=colours)
        except RuntimeError as error:  # how HDF5 and others say that a disk is full
            raise OSError(f"cannot write {path}: {error}") from error
        for made in sorted(work.iterdir()):
            place = end if made.name == path.name else place_of(end.parent / made.name)
            if place.is_dir():
                _check_only(place, made)
            if made.is_file():
                usual_mode(made)
            put_in_place(made, place)


def _check_only(place: Path, made: Path) -> None:
    """Raise if a folder is not replaced by one that holds the same arrays."""
    if not made.is_dir():
        raise IsADirectoryError(f"cannot write {place}: there is a folder of that name")
    others = sorted({p.name for p in place.iterdir()} - {p.name for p in made.iterdir()})
    others = [name for name in others if not name.startswith(".")]
    if others:
        raise OSError(
            f"cannot write {place}: the folder that is there holds more, such as {others[0]!r}, "
            "and is left alone. Choose another name, or remove it."
        )


def existing(path: StrPath) -> Path:
    """A path at which there is something."""
    path = path_of(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    return path


def is_path(values: object) -> TypeGuard[StrPath]:
    """Whether `values` say where a file is."""
    return isinstance(values, (str, os.PathLike))


def path_of(path: Any) -> Path:
    """A path, if it is one."""
    if not is_path(path):
        raise TypeError(f"`path` must be a text or a path; got a {type(path).__name__}.")
    return Path(path)
