"""Coefficients that are still in the file, and local models that are made when first used."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from elmfield._array.typing import Array, Floats, Integers
from elmfield.errors import StoreError
from elmfield.field.boxes import Boxes
from elmfield.field.coefficients import Coefficients, Full, Ragged
from elmfield.io.model import recipes
from elmfield.io.model.blocks import Blocks
from elmfield.local.model import AxisBasis, Basis, LocalModel

SCATTERED = ("neurons", "kernels")
"""Kinds of models whose samples were scattered."""


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
                f"{self.values.entries.name} is damaged: array 'bitmap' does not mark as many "
                "modes as 'counts' says."
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

    is_shared = False
    made_of = box = None

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,)."""
        return self.shelf.counts[self.regions]

    def take(self, rows: Integers) -> Array:
        """Dense coefficients (len(rows), r, C) of some regions."""
        if self.ranking is not None:
            return self._loaded(rows).take(np.arange(len(rows)))
        return self.numbers(rows).reshape(len(rows), *self.shape[1:])

    def rows(self, rows: Integers) -> "Stored":
        """The same for some of the regions."""
        return Stored(self.shelf, self.regions[rows], (len(rows), *self.shape[1:]), self.ranking)

    def channels(self, own: slice) -> Coefficients:
        """The same for some of the channels, in memory."""
        return self.loaded().channels(own)

    def moved(self, like: Array) -> Coefficients:
        """All of them in memory, in the library and on the device of `like`."""
        return self.loaded().moved(like)

    def through(self, boxes: Boxes) -> "Stored":
        """Themselves."""
        return self

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.shelf.numbers(self.regions[rows])

    def ragged(self, rows: Integers) -> Ragged | None:
        """Some of the regions with the ranks they keep; None where every region keeps all."""
        return None if self.ranking is None else self._loaded(rows)

    def loaded(self) -> Coefficients:
        """The same in memory."""
        every = np.arange(len(self.regions))
        return Full(self.take(every)) if self.ranking is None else self._loaded(every)

    def _loaded(self, rows: Integers) -> Ragged:
        """Kept coefficients of some regions, in memory."""
        assert self.shelf.kept is not None
        assert self.ranking is not None
        regions = self.regions[rows]
        counts = self.shelf.kept[regions].reshape(-1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ranks = self.shelf.ranks(regions)
        if len(ranks) and int(ranks.max()) >= len(self.ranking):
            raise StoreError(f"{self.shelf.values.entries.name} is damaged: a rank is too high.")
        return Ragged(self.shelf.numbers(regions), ranks, starts, self.ranking, self.shape[2])


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

    def make(self) -> LocalModel:
        """The modes; StoreError if they are not those the file was written with."""
        model = recipes.make(self.recipe, self.inside)
        if model.n_modes != self.n_modes:
            raise StoreError(
                f"the modes made here are {model.n_modes}, the file was written with "
                f"{self.n_modes}; it is damaged."
            )
        recipes.check(model, self.n_axes, self.probe)
        return model


class Deferred:
    """A local model that a file describes: made, and checked, when something first needs it.

    Parameters
    ----------
    kept : Kept
        What the file says about it.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    @cached_property
    def model(self) -> LocalModel:
        """The model, made by the file's recipe."""
        return self.kept.make()

    @property
    def _made(self) -> Basis:
        """The model as a basis: whoever asks it as one has asked `basis` before."""
        return cast(Basis, self.model)

    @property
    def basis(self) -> Basis | None:
        """Itself, unless its samples were scattered."""
        return None if self.kept.recipe["kind"] in SCATTERED else self

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""
        return self.kept.n_modes

    @property
    def inside(self) -> Any:
        """Which samples of the box count; None for all."""
        return self.kept.inside

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""
        return tuple(int(n) for n in self.kept.recipe["box"])

    @property
    def n_samples(self) -> int:
        """Samples S that count."""
        return math.prod(self.box) if self.inside is None else int(np.count_nonzero(self.inside))

    @property
    def rank(self) -> int:
        """How many coefficients are independent."""
        return self.model.rank

    @property
    def radius(self) -> Floats:
        """Half the box in samples, or 1."""
        return self.model.radius

    @property
    def row_size(self) -> int:
        """Numbers that the rows of one point take, about."""
        return self.model.row_size

    @property
    def axes(self) -> tuple[AxisBasis, ...] | None:
        """The functions of each axis where modes are products of them; else None."""
        return self._made.axes

    @property
    def ranking(self) -> Integers:
        """Mode numbers from first kept to first dropped, (r,)."""
        return self._made.ranking

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """Functions at local coordinates."""
        return self.model.rows(t, order)

    def expand(self, c: Array) -> Array:
        """Coefficients as factors of the rows."""
        return self.model.expand(c)

    def moved(self, like: Array) -> LocalModel:
        """The model, made, for coefficients elsewhere."""
        return self.model.moved(like)

    def weights(self, c: Array) -> Array:
        """Output weights of the hidden neurons."""
        return self.model.weights(c)

    def project(self, Y: Array) -> Array:
        """Coefficients of samples."""
        return self._made.project(Y)

    def values(self, c: Array) -> Array:
        """Samples of coefficients."""
        return self._made.values(c)

    def complete(self, Y: Array, present: Array) -> Array:
        """Samples with guesses where they are missing."""
        return self._made.complete(Y, present)
