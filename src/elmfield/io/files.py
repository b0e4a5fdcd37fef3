"""Files of all kinds: which there are, who reads and writes them, and what may go wrong."""

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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


FORMATS = {
    "raster": ".png .jpg .jpeg .jp2 .j2k .jxl .webp .avif .heic .heif .bmp .gif .ppm .pgm",
    "tiff": ".tif .tiff",
    "climate": ".nc .nc4 .cdf .grib .grib2 .grb .grb2 .zarr",
    "medical": ".nii .nii.gz .mgz .mgh .mha .mhd .nrrd .nhdr",
    "dicom": ".dcm .dicom",
    "arrays": ".npy .npz .mat .cfl",
    "media": ".wav .flac .ogg .mp4 .mkv .avi .mov .webm",
}
"""Modules of `elmfield.io.formats`, and how the names end of the files that each reads and writes;
all have functions `read` and `write`."""

MODULES = {suffix: module for module, ends in FORMATS.items() for suffix in ends.split()}
"""Which module reads and writes files whose names end so."""

NAMED = {".npz", ".mat", ".dicom", *FORMATS["climate"].split()}
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
    name = Path(str(path)).name
    suffix = suffix_of(name)
    if suffix in MODULES and not is_model(name) and Path(str(path)).is_file():
        what = "picture" if MODULES[suffix] == "raster" else f"{suffix} file"
        model = f"{name.removesuffix(suffix)}.elm"
        raise StoreError(
            f"{name} is a {what}, no model: fit it first, `elmfield fit {name} -o {model}` or "
            f"fit({name!r})."
        )


def suffix_of(path: str | Path) -> str:
    """How the name ends, as the table of formats has it."""
    name = Path(path).name.lower()
    return max(filter(name.endswith, MODULES), key=len, default=Path(name).suffix)


def format_of(path: str | Path) -> str:
    """The module that reads and writes a file, by its name; one of `FORMATS`."""
    if (suffix := suffix_of(path)) not in MODULES:
        told = f"files ending in {suffix!r} are not known; known: {' '.join(MODULES)}"
        raise ValueError(f"{Path(path).name}: {told}")
    return MODULES[suffix]


def _load_format(name: str) -> ModuleType:
    """Import a module of `FORMATS`."""
    return import_module(f"elmfield.io.formats.{name}")


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
        kind = _load_format("dicom")
        if not kind.holds_series(path):  # only those with the slices of one are read whole
            raise IsADirectoryError(f"{path} is a folder; say which file in it to read.")
    elif is_model(path):
        told = f"open it with load({str(path)!r})"
        raise ValueError(f"{path.name} is a model, not samples; {told}.")
    else:
        kind = _load_format(format_of(path))
        check_exists(path)
        if variable is not None and suffix_of(path) not in NAMED:
            told = f"arrays in {suffix_of(path)} files have no names; got variable {variable!r}"
            raise NoSuchArrayError(f"{path.name}: {told}.")
    before = _max_pixels.set(max_pixels)
    try:
        found: Gridded = kind.read(path, variable, lazily=lazily)
    finally:
        _max_pixels.reset(before)
    return found


def put(samples: Gridded, path: Path, colours: str | None = None) -> None:
    """Write samples as they are; in place only once the file is complete."""
    end = atomic_write.resolve_links(path)
    if not end.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: its folder does not exist")
    kind = _load_format(format_of(path))
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
