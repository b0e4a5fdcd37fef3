"""Coefficients that are still in the file, and groups whose modes are made when first used."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Integers
from elmfield.errors import StoreError
from elmfield.field import Group
from elmfield.field.coefficients import Ragged
from elmfield.io.model import recipes
from elmfield.io.model.blocks import Blocks
from elmfield.local.bases import Modes


@dataclass(frozen=True, eq=False)
class Shelf:
    """Where in the file each region's numbers lie; one for all groups of a field.

    Parameters
    ----------
    values : Blocks
        The coefficients of all regions, in file order.
    dtype : NumPy dtype
        In which they are handed out.
    starts, counts : integer arrays, shape (N,)
        Of each region's run in `values`, by region number.
    bitmap : Blocks or None
        One bit per rank: kept or not; None if all regions keep everything.
    bit_starts : integer array, shape (N,)
        Where a region's bits begin.
    lengths, kept : integer arrays, shape (N, C)
        Bits, and ones among them, of each region and channel.
    """

    values: Blocks
    dtype: Any
    starts: Integers
    counts: Integers
    bitmap: Blocks | None = None
    bit_starts: Integers | None = None
    lengths: Integers | None = None
    kept: Integers | None = None

    def numbers(self, regions: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.values.gather(self.starts[regions], self.counts[regions]).astype(self.dtype)

    def ranks(self, regions: Integers) -> Integers:
        """Ranks of the kept modes of some regions, run after run."""
        assert self.bitmap is not None
        assert self.bit_starts is not None
        assert self.lengths is not None
        assert self.kept is not None
        first = self.bit_starts[regions]
        lengths = self.lengths[regions]  # (G, C)
        total = lengths.sum(axis=1)
        low, high = first // 8, -(-(first + total) // 8)
        packed = self.bitmap.gather(low, high - low)
        bits = np.unpackbits(packed)
        # Where each region's bits begin in `bits`: its bytes, less what belongs to its neighbour.
        begin = 8 * (np.cumsum(high - low) - (high - low)) + first % 8
        index = np.repeat(begin - (np.cumsum(total) - total), total) + np.arange(int(total.sum()))
        chosen = bits[index].astype(bool)
        runs = lengths.reshape(-1)
        rank = np.arange(len(chosen)) - np.repeat(np.cumsum(runs) - runs, runs)
        run_of = np.repeat(np.arange(len(runs)), runs)
        found = np.bincount(run_of[chosen], minlength=len(runs))
        if not np.array_equal(found, self.kept[regions].reshape(-1)):
            raise StoreError(
                f"{self.values.source.name} is damaged: array 'bitmap' does not mark as many modes "
                "as 'counts' says."
            )
        return np.asarray(rank[chosen], np.int64)


@dataclass(frozen=True, eq=False)
class Stored:
    """Coefficients (G, r, C) of a group, read when asked for.

    Parameters
    ----------
    shelf : Shelf
        Where they lie.
    regions : integer array, shape (G,)
        Their regions' numbers in the file.
    shape : tuple of int
        G, r and C.
    ranking : integer array, shape (r,), or None
        Mode number of each rank, where regions keep different modes.
    """

    shelf: Shelf
    regions: Integers
    shape: tuple[int, int, int]
    ranking: Integers | None = None

    @property
    def like(self) -> Array:
        """An empty array of the coefficients' dtype."""
        return np.empty(0, self.shelf.dtype)

    @property
    def n_stored(self) -> int:
        """Numbers stored."""
        return int(self.shelf.counts[self.regions].sum())

    @property
    def index_bits(self) -> int:
        """Bits it takes to say which modes were kept."""
        if self.ranking is None:
            return 0
        assert self.shelf.lengths is not None
        lengths = self.shelf.lengths[self.regions]
        return int(lengths.sum()) + 16 * lengths.size

    @property
    def values(self) -> Array:
        """All stored numbers: reads the whole group."""
        return self.shelf.numbers(self.regions)

    def take(self, rows: Integers) -> Array:
        """Dense coefficients (len(rows), r, C) of some regions."""
        if self.ranking is not None:
            part = self.rows(rows).loaded()
            return part.take(np.arange(len(rows)))
        return self.shelf.numbers(self.regions[rows]).reshape(len(rows), *self.shape[1:])

    def rows(self, rows: Integers) -> "Stored":
        """The same for some of the regions."""
        return Stored(self.shelf, self.regions[rows], (len(rows), *self.shape[1:]), self.ranking)

    def loaded(self) -> Any:
        """The same in memory: an array, or a `Ragged`."""
        if self.ranking is None:
            return self.take(np.arange(len(self.regions)))
        assert self.shelf.kept is not None
        counts = self.shelf.kept[self.regions].reshape(-1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ranks = self.shelf.ranks(self.regions)
        if len(ranks) and int(ranks.max()) >= len(self.ranking):
            raise StoreError(f"{self.shelf.values.source.name} is damaged: a rank is too high.")
        return Ragged(self.shelf.numbers(self.regions), ranks, starts, self.ranking, self.shape[2])


@dataclass(frozen=True, eq=False)
class Kept:
    """Modes as a file describes them.

    Parameters
    ----------
    recipe : mapping
        How to make them.
    n_modes : int
        How many there are.
    probe : list of float
        Values they must have.
    n_axes : int
        d.
    inside : array of bool, of the box's shape, or None
        Which samples of the box count.
    """

    recipe: dict[str, Any]
    n_modes: int
    probe: list[float]
    n_axes: int
    inside: Array | None = None

    def make(self) -> Modes:
        """The modes; StoreError if they are not those the file was written with."""
        modes = recipes.make(self.recipe, self.inside)
        if modes.n_modes != self.n_modes:
            raise StoreError(
                f"the modes made here are {modes.n_modes}, the file was written with "
                f"{self.n_modes}; it is damaged."
            )
        recipes.check(modes, self.n_axes, self.probe)
        return modes


class StoredGroup(Group):
    """A group whose modes are made, and checked, when they are first needed."""

    def __init__(self, modes: Kept | Modes, regions: Integers, coefficients: Any) -> None:
        held = {"kept" if isinstance(modes, Kept) else "modes": modes}
        self.__dict__.update(held, regions=regions, coefficients=coefficients)

    @cached_property
    def modes(self) -> Modes:
        """The modes, made by the file's recipe."""
        modes: Modes = self.__dict__["kept"].make()
        return modes

    def rows(self, rows: Integers, regions: Integers) -> "StoredGroup":
        """The group of some of the regions, by row, under new numbers."""
        c = self.coefficients
        part = c.rows(rows) if hasattr(c, "n_stored") else self.take(rows)
        return StoredGroup(self.__dict__.get("kept") or self.modes, regions, part)
