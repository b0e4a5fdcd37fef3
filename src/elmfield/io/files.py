"""Files of all kinds: which there are, who reads and writes them, and what may go wrong."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from elmfield._array.checks import path_of as path_of
from elmfield.errors import StoreError
from elmfield.errors import need as need
from elmfield.io.gridded import Gridded
from elmfield.io.store import atomic_write

StrPath = str | os.PathLike[str]


class UnreadableError(ValueError):
    """A file is damaged, or not what its name says."""


class NoSuchArrayError(ValueError):
    """A file is in order, but which of its arrays is meant is not."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Whatever another library says about a file's bytes becomes an UnreadableError."""
    try:
        yield
    except (ImportError, MemoryError, UnreadableError, NoSuchArrayError):
        raise
    except Exception as error:  # each library has its own dozen ways to say it
        text = str(error).strip().rstrip(".") or type(error).__name__
        raise UnreadableError(f"{path.name} cannot be read as {what}: {text}.") from error


MAX_PIXELS = 1 << 27
"""Pixels that any file may claim."""

MAX_PIXELS_PER_BYTE = 50
"""Pixels for each byte of a file that larger ones may claim; photographs have fewer than ten."""

_max_pixels: ContextVar[int | None] = ContextVar("max_pixels", default=None)
"""How many pixels the file that is being read may have, whatever its size, if a caller says so."""


def check_pixels(path: Path, shape: Sequence[int]) -> None:
    """Raise if a file claims more pixels, (..., rows, columns), than it may."""
    n, size, told = math.prod(shape), path.stat().st_size, _max_pixels.get()
    if n <= (max(MAX_PIXELS, MAX_PIXELS_PER_BYTE * size) if told is None else told):
        return
    why = f"in {size} bytes" if told is None else f"and at most {told} are allowed"
    raise UnreadableError(
        f"{path.name} claims {n} pixels {why}; it was not unpacked. If you trust it, allow more: "
        f"read(path, max_pixels={n}), or --max-pixels {n}."
    )


@dataclass(frozen=True)
class Format:
    """A kind of file, whose module has functions `read` and `write`.

    Parameters
    ----------
    name : str
        What people call it.
    suffixes : tuple of str
        How its files' names end.
    module : str
        Which of `elmfield.io.formats` reads and writes it.
    """

    name: str
    suffixes: tuple[str, ...]
    module: str

    def load(self) -> ModuleType:
        """The module that reads and writes it; imported when first asked for."""
        return import_module(f"elmfield.io.formats.{self.module}")


FORMATS = (
    Format("picture", (".png", ".jpg", ".jpeg", ".jp2", ".j2k", ".jxl", ".webp"), "raster"),
    Format("picture", (".avif", ".heic", ".heif", ".bmp", ".gif", ".ppm", ".pgm"), "raster"),
    Format("TIFF", (".tif", ".tiff"), "tiff"),
    Format("NetCDF", (".nc", ".nc4", ".cdf"), "climate"),
    Format("GRIB", (".grib", ".grib2", ".grb", ".grb2"), "climate"),
    Format("Zarr", (".zarr",), "climate"),
    Format("NIfTI", (".nii", ".nii.gz"), "medical"),
    Format("MGH", (".mgz", ".mgh"), "medical"),
    Format("MetaImage, NRRD", (".mha", ".mhd", ".nrrd", ".nhdr"), "medical"),
    Format("DICOM", (".dcm", ".dicom"), "dicom"),
    Format("NumPy", (".npy", ".npz"), "arrays"),
    Format("MATLAB", (".mat",), "arrays"),
    Format("BART", (".cfl",), "arrays"),
    Format("sound", (".wav", ".flac", ".ogg"), "media"),
    Format("video", (".mp4", ".mkv", ".avi", ".mov", ".webm"), "media"),
)

NAMED = {".npz", ".mat", ".dicom"}.union(*(f.suffixes for f in FORMATS if f.module == "climate"))
"""Files whose arrays have names."""

MODELS = (".elm", ".elm.zarr")
"""How the names of models end; they are no samples."""

TORCH = (".pt", ".pth", ".ckpt")
"""How the names of files end in which torch keeps states."""


def is_model(path: str | Path) -> bool:
    """Whether a file is called as models are."""
    return Path(path).name.lower().endswith(MODELS)


def check_model_name(argument: str, path: str | Path) -> None:
    """Raise if a model that is to be written is not called as models are."""
    if is_model(path):
        return
    name = Path(path).name
    advice = f" For torch: torch.save(field.module().state_dict(), {name!r})."
    told = advice if name.lower().endswith(TORCH) else ""
    raise ValueError(f"`{argument}` must end in .elm or .elm.zarr; got {name!r}.{told}")


def refuse_samples(path: object) -> None:
    """Raise if a file given as a model is, by its name, one of samples."""
    name, kind = Path(str(path)).name, _known_format(str(path))
    if kind is not None and not is_model(name) and Path(str(path)).is_file():
        what = kind.name if kind.name == "picture" else f"{kind.name} file"
        model = f"{name.removesuffix(suffix_of(name))}.elm"
        raise StoreError(
            f"{name} is a {what}, no model: fit it first, `elmfield fit {name} -o {model}` or "
            f"fit({name!r})."
        )


def suffix_of(path: str | Path) -> str:
    """How the name ends, as the table of formats has it."""
    name = Path(path).name.lower()
    known = [s for f in FORMATS for s in f.suffixes if name.endswith(s)]
    return max(known, key=len, default=Path(name).suffix)


def _known_format(path: str | Path) -> Format | None:
    suffix = suffix_of(path)
    return next((f for f in FORMATS if suffix in f.suffixes), None)


def format_of(path: str | Path) -> Format:
    """The kind of file, by its name."""
    if (known := _known_format(path)) is not None:
        return known
    every = " ".join(s for f in FORMATS for s in f.suffixes)
    told = f"files ending in {suffix_of(path)!r} are not known; known: {every}"
    raise ValueError(f"{Path(path).name}: {told}")


# --- read and write -------------------------------------------------------------------------------


def read(
    path: StrPath,
    *,
    variable: str | None = None,
    max_pixels: int | None = None,
    lazily: bool = False,
) -> Gridded:
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
    lazily : bool
        Whether values stay in the file until they are looked at: of NumPy's NPY, NetCDF, Zarr,
        GRIB, TIFF and video files; others are read at once.

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
    path = path_of(path)
    if path.is_dir() and not is_model(path) and suffix_of(path) != ".zarr":
        kind = next(f for f in FORMATS if f.module == "dicom")
        if not kind.load().holds_series(path):  # only those with the slices of one are read whole
            raise IsADirectoryError(f"{path} is a folder; say which file in it to read.")
    elif is_model(path):
        told = f"open it with load({str(path)!r})"
        raise ValueError(f"{path.name} is a model, not samples; {told}.")
    else:
        kind = format_of(path)
        check_exists(path)
        if variable is not None and suffix_of(path) not in NAMED:
            told = f"arrays in {kind.name} files have no names; got variable {variable!r}"
            raise NoSuchArrayError(f"{path.name}: {told}.")
    before = _max_pixels.set(max_pixels)
    try:
        found: Gridded = kind.load().read(path, variable, lazily=lazily)
    finally:
        _max_pixels.reset(before)
    return found


def put(samples: Gridded, path: Path, colours: str | None = None) -> None:
    """Write samples as they are; in place only once the file is complete."""
    end = atomic_write.resolve_links(path)
    if not end.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist")
    kind = format_of(path).load()
    with atomic_write.scratch_folder(end) as work:
        try:
            kind.write(samples, work / path.name, colours=colours)
        except RuntimeError as error:  # how HDF5 and others say that a disk is full
            raise OSError(f"cannot write {path}: {error}") from error
        for made in sorted(work.iterdir()):
            beside = end.parent / made.name
            place = end if made.name == path.name else atomic_write.resolve_links(beside)
            if place.is_dir():
                _check_only(place, made)
            if made.is_file():
                atomic_write.set_default_mode(made)
            atomic_write.move_into_place(made, place)


def _check_only(place: Path, made: Path) -> None:
    """Raise if a folder is not replaced by one that holds the same arrays."""
    if not made.is_dir():
        raise IsADirectoryError(f"cannot write {place}: there is a folder of that name")
    own = {p.name for p in made.iterdir()}
    if others := sorted(p.name for p in place.glob("[!.]*") if p.name not in own):
        raise OSError(
            f"cannot write {place}: the folder that is there holds more, such as {others[0]!r}, "
            "and is left alone. Choose another name, or remove it."
        )


def check_exists(path: StrPath) -> Path:
    """A path at which there is something."""
    path = path_of(path)
    if not path.exists():
        raise FileNotFoundError(f"no file {path}")
    return path
