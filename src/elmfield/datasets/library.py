"""The verbs: names in, arrays or paths out."""

from difflib import get_close_matches
from pathlib import Path

from elmfield.datasets.catalogue import CATALOGUE, Dataset
from elmfield.datasets.files import MissingDataError, advice, fetched, found
from elmfield.typing import Array, Progress


def names(prefix: str = "") -> tuple[str, ...]:
    """Names of all data sets, or of those that begin so, in the order of the catalogue."""
    return tuple(name for name in CATALOGUE if name.startswith(prefix))


def about(name: str) -> Dataset:
    """What is known of a data set."""
    if name not in CATALOGUE:
        near = get_close_matches(name, CATALOGUE, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else "See `datasets.names()`."
        raise ValueError(f"There is no data set {name!r}. {hint}")
    return CATALOGUE[name]


def present(name: str) -> bool:
    """Whether the files of a data set are at hand, so that nothing need be fetched or made."""
    data = about(name)
    return any(found(files) is not None for files in (data.files, data.otherwise) if files)


def path(name: str, *, progress: Progress | None = None) -> tuple[Path, ...]:
    """The files of a data set, fetched to the cache if need be.

    Parameters
    ----------
    name : str
        One of `names()`.
    progress : callable, optional
        Called with (stage, bytes done, bytes in all) while a file is fetched.

    Raises
    ------
    MissingDataError
        If a file is not there and cannot be fetched; the message says where it is to be had and
        where it is to be put.
    """
    data = about(name)
    choices = [files for files in (data.files, data.otherwise) if files]
    for files in choices:
        if (here := found(files)) is not None:
            return here
    for files in choices:
        if all(file.url for file in files):
            return tuple((found([f]) or (fetched(f, progress),))[0] for f in files)
    raise MissingDataError(
        f"{name!r} is not at hand and has no public address for its file {data.files[0].path}. "
        f"It is from {data.source}. {advice(data.files[0])}"
    )


def load(name: str, *, prepare: str | None = None, progress: Progress | None = None) -> Array:
    """The array of a data set: float64, channels last ("navier-stokes": float32, as stored).

    Parameters
    ----------
    name : str
        One of `names()`.
    prepare : {"crop", "resize", "whole"}, optional
        For the Kodak pictures. "crop", the default, is the square in the middle, grey; "resize"
        the whole picture, grey, area-averaged to the same square; "whole" the picture as it is,
        in colour.
    progress : callable, optional
        Called with (stage, done, total) while files are fetched or made.
    """
    data = about(name)
    if prepare is not None and prepare not in data.prepares:
        raise ValueError(
            f"`prepare` must be one of {', '.join(data.prepares)} for {name!r}; got {prepare!r}."
            if data.prepares
            else f"{name!r} is ready as it is; got prepare={prepare!r}. Leave it out."
        )
    return data.read(path(name, progress=progress), prepare or (*data.prepares, "")[0])
