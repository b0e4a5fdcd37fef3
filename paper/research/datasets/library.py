"""The verbs: names in, arrays or paths out."""

import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Progress
from paper.research.datasets.catalogue import CATALOGUE, Dataset
from paper.research.datasets.files import (
    File,
    MissingDataError,
    advice,
    cache,
    complete,
    digest,
    fetched,
    found,
)


def names(prefix: str = "") -> tuple[str, ...]:
    """Names of all data sets, or of those that begin so, in the order of the catalogue."""
    return tuple(name for name in CATALOGUE if name.startswith(prefix))


def photographs() -> tuple[str, ...]:
    """Names of the Kodak pictures as 512 × 512 crops: those over which scores are averaged."""
    return tuple(name for name in names("kodim") if CATALOGUE[name].shape == (512, 512))


def about(name: str) -> Dataset:
    """What is known of a data set."""
    if not isinstance(name, str) or name not in CATALOGUE:
        near = get_close_matches(str(name), CATALOGUE, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "See `datasets.names()`."
        raise ValueError(f"There is no data set {name!r}. {hint}")
    return CATALOGUE[name]


def present(name: str) -> bool:
    """Whether the files of a data set are at hand, so that nothing need be fetched or made."""
    return _here(about(name)) is not None


def path(name: str, *, progress: Progress | bool = False) -> tuple[Path, ...]:
    """The files of a data set, fetched to the cache, or made there, if need be.

    Parameters
    ----------
    name : str
        One of `names()`.
    progress : bool or callable
        Called with (stage, done, total) while a file is fetched (bytes) or made; True for a bar.

    Raises
    ------
    MissingDataError
        If a file is not there and cannot be fetched; the message says where it is to be had and
        where it is to be put.
    """
    data, tell = about(name), reporter(progress)
    if (here := _here(data)) is not None:
        return here
    for files in _choices(data):
        if all(file.url for file in files):
            try:
                return tuple((found([f]) or (fetched(f, tell),))[0] for f in files)
            except MissingDataError:
                if data.make is None:
                    raise
    if data.make is not None:
        with complete(_made(data)) as work:
            data.make(work, tell)
        return (_made(data),)
    raise MissingDataError(
        f"{name!r} is not at hand and has no public address for its file {data.files[0].path}. "
        f"It is from {data.source}. {advice(data.files[0])}"
    )


def _choices(data: Dataset) -> list[tuple[File, ...]]:
    return [files for files in (data.files, data.otherwise) if files]


def _here(data: Dataset) -> tuple[Path, ...] | None:
    for files in _choices(data):
        if (paths := found(files)) is not None:
            return paths
    return (_made(data),) if data.make is not None and _made(data).is_file() else None


def _made(data: Dataset) -> Path:
    """Where a computed file is kept: beside downloads, under a name of its own."""
    usual = cache() / data.files[0].path
    return usual.with_stem(f"{usual.stem}_made")


def load(name: str, *, prepare: str | None = None, progress: Progress | bool = False) -> Array:
    """The array of a data set: float64, channels last ("navier-stokes": float32, as stored).

    Parameters
    ----------
    name : str
        One of `names()`.
    prepare : {"crop", "resize", "whole"}, optional
        For the Kodak pictures. "crop", the default, is the square in the middle, grey; "resize"
        the whole picture, grey, area-averaged to the same square; "whole" the picture as it is,
        in colour.
    progress : bool or callable
        As for :func:`path`.

    Notes
    -----
    A file whose SHA-256 is not the known one is read with a warning; if it cannot be read, or gives
    another shape, that is a ValueError.
    """
    data = about(name)
    if prepare is not None and prepare not in data.prepares:
        raise ValueError(
            f"`prepare` must be one of {', '.join(data.prepares)} for {name!r}; got {prepare!r}."
            if data.prepares
            else f"{name!r} is ready as it is; got prepare={prepare!r}. Leave it out."
        )
    paths, usual = path(name, progress=progress), (*data.prepares, "")[0]
    altered = _altered(data, paths)
    if not altered:
        return data.read(paths, prepare or usual)
    try:
        array = data.read(paths, prepare or usual)
        if prepare in (None, usual) and array.shape != data.shape:
            raise ValueError(f"its shape is {array.shape}, not {data.shape}")
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # each format has its own
        raise ValueError(
            f"{altered[0]} cannot be read: {str(error).rstrip('.')}. Its checksum does not match: "
            f"it was cut off or changed. Get it again; it is from {data.source}."
        ) from error
    warnings.warn(
        f"{altered[0].name} in {altered[0].parent} is not the file that {name!r} stands for: its "
        "checksum does not match. Numbers will not be the recorded ones.",
        stacklevel=2,
    )
    return array


def _altered(data: Dataset, paths: Sequence[Path]) -> list[Path]:
    """Those whose SHA-256 is not the known one; what was made here has none."""
    known = {Path(file.path).name: file.sha256 for file in (*data.files, *data.otherwise)}
    return [p for p in paths if p.name in known and digest(p) != known[p.name]]
