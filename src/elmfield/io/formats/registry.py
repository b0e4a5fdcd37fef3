"""Which room reads and writes which kind of file, and what each of them needs."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from elmfield.errors import MissingExtraError
from elmfield.io.gridded import Gridded


class Room(Protocol):
    """A module that reads and writes one family of files."""

    def read(self, path: Path, variable: str | None = None) -> Gridded:
        """The samples in a file; of several arrays the one that is named."""

    def opened(self, path: Path, variable: str | None = None) -> Gridded:
        """The same, with values that are read where they are looked at, if the kind allows."""

    def write(self, samples: Gridded, path: Path, *, colours: str | None = None) -> None:
        """Write samples to a new file; `colours` are for pictures of numbers."""


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
        The module of this package that is its :class:`Room`.
    extra : str
        The extra that brings the packages it needs.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str
    extra: str

    @property
    def room(self) -> Room:
        """Who reads and writes it; imported when first asked for."""
        return cast(Room, importlib.import_module(f"elmfield.io.formats.{self.module}"))


FORMATS = (
    Format("PNG", (".png",), "raster", "io"),
    Format("JPEG", (".jpg", ".jpeg"), "raster", "io"),
    Format("JPEG 2000", (".jp2", ".j2k"), "raster", "io"),
    Format("JPEG XL", (".jxl",), "raster", "io"),
    Format("WebP", (".webp",), "raster", "io"),
    Format("AVIF", (".avif",), "raster", "io"),
    Format("HEIF", (".heic", ".heif"), "raster", "io"),
    Format("BMP", (".bmp",), "raster", "io"),
    Format("GIF", (".gif",), "raster", "io"),
    Format("PNM", (".ppm", ".pgm"), "raster", "io"),
    Format("TIFF", (".tif", ".tiff"), "tiff", "io"),
    Format("NetCDF", (".nc", ".nc4", ".cdf"), "climate", "geo"),
    Format("GRIB", (".grib", ".grib2", ".grb", ".grb2"), "climate", "grib"),
    Format("Zarr", (".zarr",), "climate", "xarray"),
    Format("NIfTI", (".nii", ".nii.gz"), "medical", "io"),
    Format("DICOM", (".dcm", ".dicom"), "dicom", "io"),
    Format("NumPy", (".npy", ".npz"), "arrays", ""),
    Format("MATLAB", (".mat",), "arrays", "io"),
    Format("BART", (".cfl",), "arrays", ""),
    Format("sound", (".wav", ".flac", ".ogg"), "sound", "io"),
    Format("video", (".mp4", ".mkv", ".avi", ".mov", ".webm"), "video", "video"),
)

NAMED = {
    ".npz",
    ".mat",
    ".dicom",
    *(s for f in FORMATS if f.module == "climate" for s in f.suffixes),
}
"""Files whose arrays have names."""

MODELS = (".elm", ".elm.zarr")
"""How the names of models end; they are no business of these rooms."""


def is_model(path: str | Path) -> bool:
    """Whether a file is called as models are."""
    return Path(path).name.lower().endswith(MODELS)


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
