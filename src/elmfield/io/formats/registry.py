"""Which room reads and writes which kind of file; and the two verbs, `read` and `write`."""

import importlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from elmfield.errors import MissingExtraError
from elmfield.io.errors import NoSuchArrayError
from elmfield.io.gridded import Gridded


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Parameters
    ----------
    name : str
        What people call it.
    suffixes : tuple of str
        How its files' names end.
    module : str
        The module of this package with its ``read`` and ``write``.
    extra : str
        The extra that brings the packages it needs.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    extra: str


FORMATS = (
    Format("PNG", (".png",), "raster", "io"),
    Format("JPEG", (".jpg", ".jpeg"), "raster", "io"),
    Format("JPEG 2000", (".jp2", ".j2k"), "raster", "io"),
    Format("TIFF", (".tif", ".tiff"), "tiff", "io"),
    Format("NetCDF", (".nc", ".nc4", ".cdf"), "climate", "geo"),
    Format("GRIB", (".grib", ".grib2", ".grb", ".grb2"), "climate", "grib"),
    Format("Zarr", (".zarr",), "climate", "xarray"),
    Format("NIfTI", (".nii", ".nii.gz"), "medical", "io"),
    Format("DICOM", (".dcm",), "medical", "io"),
    Format("NumPy", (".npy", ".npz"), "arrays", ""),
    Format("MATLAB", (".mat",), "arrays", "io"),
    Format("BART", (".cfl",), "arrays", ""),
    Format("sound", (".wav", ".flac", ".ogg"), "sound", "io"),
    Format("video", (".mp4", ".mkv", ".avi", ".mov", ".webm"), "video", "video"),
)

NAMED = {".npz", ".mat", *(s for f in FORMATS if f.module == "climate" for s in f.suffixes)}
"""Files whose arrays have names."""


def suffix_of(path: str | Path) -> str:
    """How the name ends, as the table of formats has it."""
    name = Path(path).name.lower()
    for known in sorted((s for f in FORMATS for s in f.suffixes), key=len, reverse=True):
        if name.endswith(known):
            return known
    return Path(name).suffix


def format_of(path: str | Path) -> Format:
    """The kind of file, by its name."""
    suffix = suffix_of(path)
    for known in FORMATS:
        if suffix in known.suffixes:
            return known
    every = " ".join(s for f in FORMATS for s in f.suffixes)
    raise ValueError(f"{Path(path).name}: files ending in {suffix!r} are not known; known: {every}")


def need(package: str, extra: str, purpose: str) -> ModuleType:
    """An optional package; MissingExtraError, naming the extra, if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs {package.split('.')[0]}; pip install 'elmfield[{extra}]'."
        ) from error


def read(path: str | Path, *, variable: str | None = None) -> Gridded:
    """The samples in a file, with the coordinates and attributes it has.

    Parameters
    ----------
    path : str or path
        The file; its name says what it is.
    variable : str, optional
        Which of several arrays in it.

    Raises
    ------
    FileNotFoundError, UnreadableError
        If there is no such file; if it is damaged, or not what its name says.
    ValueError
        If it holds several arrays, or not the one that is asked for.
    MissingExtraError
        If a package is missing; the message names the extra.
    """
    path = Path(path)
    kind = format_of(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    if variable is not None and suffix_of(path) not in NAMED:
        raise NoSuchArrayError(
            f"{path.name}: arrays in {kind.name} files have no names; got variable {variable!r}. "
            "Leave it out."
        )
    room = importlib.import_module(f"elmfield.io.formats.{kind.module}")
    found: Gridded = room.read(path, variable)
    return found


def write(samples: Gridded, path: str | Path, **options: Any) -> None:
    """Write samples to a file of the kind its name says; in place only once it is complete."""
    path = Path(path)
    room = importlib.import_module(f"elmfield.io.formats.{format_of(path).module}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist")
    work = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        room.write(samples, work / path.name, **options)
        for made in sorted(work.iterdir()):
            place = path.parent / made.name
            if place.is_dir() and made.is_dir():
                os.replace(place, work / f".old-{made.name}")
            os.replace(made, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
