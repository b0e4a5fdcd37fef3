"""An array with gaps and its coarser versions, each read where it is looked at."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.streamed import Slabs
from elmfield.field.tiles import runs_of
from elmfield.fit.planes import Plane


class Level(Protocol):
    """Samples of some channels that all miss the same, less a plane; 0 where one is missing."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""

    def read(self, at: Sequence[Integers]) -> tuple[Array, Array]:
        """Samples (..., C) on a grid of positions, and which are present, (...)."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Finest:
    """The array itself, in the unit of the fit."""

    slabs: Slabs
    channels: tuple[int, ...]
    offset: Floats
    scale: Floats
    plane: Plane | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return self.slabs.shape[:-1]

    def read(self, at: Sequence[Integers]) -> tuple[Array, Array]:
        """Samples on a grid of positions, and which are present."""
        own = list(self.channels)
        y = np.zeros((*map(len, at), len(own)), self.offset.dtype)
        here = np.ones(y.shape[:-1], bool)
        for slab, place in runs_of(at):
            part, present, _ = self.slabs.part(slab)
            y[place] = part[..., own]
            if present is not None:
                here[place] = present[..., own[0]]
        y -= self.offset[own]
        y /= self.scale[own]
        if self.plane is not None:
            y = y - self.plane.at(at).astype(y.dtype)
        return np.where(here[..., None], y, np.zeros_like(y)), here


@dataclass(frozen=True)
class Coarser:
    """A coarser version of an array, in files."""

    values: Path
    present: Path

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return tuple(np.load(self.present, mmap_mode="r").shape)

    def read(self, at: Sequence[Integers]) -> tuple[Array, Array]:
        """Samples on a grid of positions, and which are present."""
        return stored(self.values, at), stored(self.present, at)


def stored(path: Path, at: Sequence[Integers]) -> Array:
    """Numbers of an NPY file on a grid of positions; what the system read is forgotten again."""
    values = np.load(path, mmap_mode="r")
    out = np.empty((*map(len, at), *values.shape[len(at) :]), values.dtype)
    for slab, place in runs_of(at):
        out[place] = values[slab]
    return out
