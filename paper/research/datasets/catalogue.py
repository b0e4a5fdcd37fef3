"""The catalogue of data sets, read from ``catalogue.toml``, which holds all that is known of them.

Status: "paper's own" is the very array the paper names; "by name"
one of several files that go by the name the paper gives; "same product" the same instrument and
grid, another date or place; "regenerated" made again by the recipe of the paper's source;
"stand-in" another real source, because the paper's own is not to be had; "extra" not in the paper.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from elmfield._array.typing import Array, Progress
from paper.research.datasets import navier_stokes, prepare
from paper.research.datasets.files import File

Read = Callable[[Sequence[Path], str], Array]
Make = Callable[[Path, Progress], None]

READERS: dict[str, Callable[..., Array]] = {
    "coils": prepare.coils,
    "flow": prepare.flow,
    "native_bands": prepare.native_bands,
    "photograph": prepare.photograph,
    "plain": prepare.plain,
    "weather": prepare.weather,
}
MAKERS: dict[str, Make] = {"navier_stokes": navier_stokes.write, "camera": prepare.write_camera}
STATUS = ("paper's own", "by name", "same product", "regenerated", "stand-in", "extra")


@dataclass(frozen=True)
class Dataset:
    """A data set.

    Parameters
    ----------
    name : str
        What it is called here.
    title : str
        What it shows.
    shape : tuple of int
        Of the array that `load` returns, channels included.
    status : {"paper's own", "by name", "same product", "regenerated", "stand-in", "extra"}
        What it is to the paper.
    terms : str
        Licence, as far as it is known.
    source : str
        Where it is from.
    files : tuple of File
        What is read.
    paper : str
        The experiment of the paper that it serves; empty for an extra.
    note : str
        How the array was made, and what to mind.
    otherwise : tuple of File
        The same values in other files, read where `files` are not to be had.
    channel_axis : int or None
        -1 where the last axis holds channels.
    periodic : tuple of int
        Axes that repeat.
    prepares : tuple of str
        Words that `load` takes as `prepare`, its default first.
    read, make : callable
        The array of its files; a file in their place, where it can be computed.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    status: str
    terms: str
    source: str
    files: tuple[File, ...]
    read: Read = field(repr=False, compare=False)
    paper: str = ""
    note: str = ""
    otherwise: tuple[File, ...] = ()
    channel_axis: int | None = None
    periodic: tuple[int, ...] = ()
    prepares: tuple[str, ...] = ()
    make: Make | None = field(default=None, repr=False, compare=False)

    @property
    def channels(self) -> int:
        """How many channels; 1 without a channel axis."""
        return 1 if self.channel_axis is None else self.shape[self.channel_axis]


def read_catalogue(text: str) -> dict[str, Dataset]:
    """Data sets by name, from the text of a catalogue, in its order."""
    found: dict[str, Dataset] = {}
    for section in tomllib.loads(text).values():
        shared = section.pop("shared", {})
        for name, own in section.items():
            if name in found:
                raise ValueError(f"there are two data sets {name!r}; give one another name.")
            try:
                found[name] = _dataset(name, shared | own)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"the entry of the data set {name!r} is wrong: {error}") from error
    return found


def _dataset(name: str, entry: Mapping[str, Any]) -> Dataset:
    """One data set; lists become tuples, words become functions."""
    words: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
    if words["status"] not in STATUS:
        raise ValueError(f"`status` must be one of {', '.join(STATUS)}; got {words['status']!r}.")
    for kind in ("files", "otherwise"):
        words[kind] = tuple(File(**file) for file in words.get(kind, ()))
    read = READERS[words["read"]]
    if words["read"] == "photograph":
        read = partial(read, size=words["shape"][0])
    if "variable" in words:
        read = partial(read, variable=words.pop("variable"))
    make = MAKERS[words["make"]] if "make" in words else None
    return Dataset(name, **words | {"read": read, "make": make})


CATALOGUE = read_catalogue(
    files("paper.research.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8")
)
