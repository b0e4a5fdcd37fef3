"""Coefficients that are read from a model file, and local models that are made, when first used.

How they are found there, every claim checked, is in the second half.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from elmfield._array.typing import Array, Integers
from elmfield.domain import Spacing
from elmfield.errors import StoreError
from elmfield.field import Group
from elmfield.field.coefficients.stored import Coefficients, Draws, Full, Nodes, Ragged
from elmfield.io.model import recipes
from elmfield.io.model.coefficient_files import file_order, run_starts
from elmfield.io.model.metadata import Metadata
from elmfield.io.store.blocks import ArrayReader, Blocks
from elmfield.local.bases import DenseWeights, Polyharmonic
from elmfield.local.bases.spline_modes import uneven_modes
from elmfield.local.model import Basis, LocalModel
from elmfield.partition import Partition


@dataclass(frozen=True, eq=False)
class ModeIndex:
    """Which modes each region keeps.

    Parameters
    ----------
    bitmap : Blocks
        One bit per rank: kept or not.
    starts : integer array, shape (N,)
        Where a region's bits begin.
    lengths, kept : integer arrays, shape (N, C)
        Bits, and ones among them, of each region and channel.
    """

    bitmap: Blocks
    starts: Integers
    lengths: Integers
    kept: Integers

    def ranks(self, regions: Integers) -> Integers:
        """Ranks of the kept modes of some regions, run after run."""
        first = self.starts[regions]
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
                f"{self.bitmap.store.name} is damaged: array 'bitmap' does not mark as many "
                "modes as 'counts' says."
            )
        return np.asarray(rank[chosen], np.int64)


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
    index : ModeIndex or None
        Which modes regions keep; None if all keep everything.
    """

    values: Blocks
    dtype: Any
    starts: Integers
    counts: Integers
    index: ModeIndex | None = None

    def numbers(self, regions: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.values.gather(self.starts[regions], self.counts[regions]).astype(self.dtype)


@dataclass(frozen=True, eq=False)
class InModelFile(Coefficients):
    """Coefficients of a group of regions, read when asked for.

    Parameters
    ----------
    shelf : Shelf
        Where they lie.
    regions : integer array, shape (G,)
        Their regions' numbers in the file.
    n_modes, n_channels : int
        r and C.
    ranking : integer array, shape (r,), or None
        Mode number of each rank, where regions keep different modes.
    """

    shelf: Shelf
    regions: Integers
    n_modes: int
    n_channels: int
    ranking: Integers | None = None

    @property
    def index(self) -> ModeIndex | None:
        """Which modes these regions keep; None if all."""
        return None if self.ranking is None else self.shelf.index

    def part(self, rows: Integers | slice = slice(None)) -> Full | Ragged:
        """Some of the regions, or all, in memory."""
        shelf, regions, index = self.shelf, self.regions[rows], self.index
        if self.ranking is None or index is None:
            return Full(shelf.numbers(regions).reshape(-1, self.n_modes, self.n_channels))
        counts = index.kept[regions].reshape(-1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ranks = index.ranks(regions)
        if len(ranks) and int(ranks.max()) >= self.n_modes:
            raise StoreError(f"{shelf.values.store.name} is damaged: a rank is too high.")
        return Ragged(shelf.numbers(regions), ranks, starts, self.ranking, self.n_channels)

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""
        return len(self.regions), self.n_modes, self.n_channels

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""
        return np.empty(0, self.shelf.dtype)

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,)."""
        return self.shelf.counts[self.regions]

    @property
    def index_bits(self) -> int:
        """Bits it takes to say which modes were kept."""
        if self.index is None:
            return 0
        lengths = self.index.lengths[self.regions]
        return int(lengths.sum()) + 16 * lengths.size

    @property
    def is_shared(self) -> bool:
        """Whether what was found is at hand, and NumPy's."""
        return False

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions."""
        return self.part(rows).take(np.arange(len(rows)))

    def rows(self, rows: Integers) -> "InModelFile":
        """The same for some of the regions."""
        regions = self.regions[rows]
        return InModelFile(self.shelf, regions, self.n_modes, self.n_channels, self.ranking)

    def channels(self, own: slice) -> Coefficients:
        """The same for some of the channels."""
        return self.part().channels(own)

    def moved(self, like: Array) -> Coefficients:
        """The same in the library and on the device of `like`."""
        return self.part().moved(like)

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.shelf.numbers(self.regions[rows])

    def ragged(self, rows: Integers) -> Ragged | None:
        """Some of the regions, with the ranks they keep."""
        return None if self.ranking is None else self.part(rows).ragged(np.arange(len(rows)))


@dataclass(eq=False)
class DescribedModel:
    """A local model as a file describes it: made, and checked, when something first needs it.

    Sizes are known before; all else is asked of the model itself.

    Parameters
    ----------
    recipe : mapping
        How to make it.
    n_modes : int
        How many modes there are.
    probe : list of float
        Values they must have.
    n_axes : int
        d.
    inside : array of bool, of the box's shape, or None
        Which samples of the box count.
    spacings : tuple
        Where the samples of uneven axes lie.
    """

    recipe: dict[str, Any]
    n_modes: int
    probe: list[float]
    n_axes: int
    inside: Array | None = None
    spacings: tuple[Spacing | None, ...] = ()

    @cached_property
    def model(self) -> LocalModel:
        """The model; StoreError if it is not the one the file was written with."""
        model = recipes.make_model(self.recipe, self.inside)
        if model.n_modes != self.n_modes:
            raise StoreError(
                f"the modes made here are {model.n_modes}, the file was written with "
                f"{self.n_modes}; it is damaged."
            )
        recipes.check_probe(model, self.n_axes, self.probe)
        return uneven_modes(model, self.spacings)

    @property
    def basis(self) -> "DescribedModel | None":
        """Itself, unless its coefficients are weights."""
        return None if self.recipe["kind"] in ("kernels", "weights") else self

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""
        return tuple(int(n) for n in self.recipe["box"])

    @property
    def n_samples(self) -> int:
        """Samples S that count."""
        return math.prod(self.box) if self.inside is None else int(np.count_nonzero(self.inside))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what `copy` and `pickle` ask for
            raise AttributeError(name)
        return getattr(self.model, name)


# --- reading --------------------------------------------------------------------------------------


def read_models(arrays: ArrayReader, meta: Metadata, part: Partition) -> list[DescribedModel]:
    """Return the local models of all groups, which are made when first used."""
    boxes = [tuple(map(int, g.modes["box"])) if g.modes.get("masked") else () for g in meta.groups]
    ends = np.cumsum([math.prod(box) if box else 0 for box in boxes])
    bits = arrays.bits("inside", int(ends[-1])) if ends[-1] else np.empty(0, bool)
    models = []
    for group, box, end in zip(meta.groups, boxes, ends):
        recipe = dict(group.modes)
        if "network" in recipe:
            recipe["network"] = meta.networks[recipe["network"]]
        are_numbers = isinstance(group.probe, list) and all(map(is_number, group.probe))
        arrays.require(are_numbers, "the probe of its modes is no list of numbers")
        inside = bits[end - math.prod(box) : end].reshape(box) if box else None
        about = recipe, int(group.n_modes), group.probe, len(part.shape), inside
        models.append(DescribedModel(*about, part.spacings))
    return models


def read_coefficients(
    arrays: ArrayReader, meta: Metadata, part: Partition, which: Integers, dtype: Any, lazy: bool
) -> list[Group]:
    """Return the groups of a field whose coefficients are in the file; `which` has each region's.

    Local models are made when first used, and if `lazy`, coefficients are read then.
    """
    shelf, rankings = _read_shelf(arrays, meta, part, which, dtype)
    models = read_models(arrays, meta, part)
    nodes: list[Nodes | Draws | None] = [None] * len(models)
    if any(model.recipe["kind"] == "weights" for model in models):
        nodes = [_read_draws(arrays, m, int((which == g).sum())) for g, m in enumerate(models)]
    elif any(model.basis is None for model in models):
        nodes = _read_nodes(arrays, part, which, shelf, [model.model for model in models])
    groups = []
    for g, model in enumerate(models):
        regions = np.flatnonzero(which == g)
        stored = InModelFile(shelf, regions, model.n_modes, len(meta.offset), rankings[g])
        groups.append(
            Group(
                model=cast(Basis, model),
                regions=regions,
                coefficients=stored if lazy else stored.part(),
                nodes=nodes[g],
            )
        )
    return groups


def _read_shelf(
    arrays: ArrayReader, meta: Metadata, part: Partition, which: Integers, dtype: Any
) -> tuple[Shelf, list[Integers | None]]:
    """Return where coefficients lie, and the mode number of each rank of each group."""
    N, C, groups = part.n_regions, len(meta.offset), meta.groups
    ragged = np.asarray([bool(group.ragged) for group in groups])
    n_modes = np.asarray([int(group.n_modes) for group in groups])
    order = file_order(part)
    counts = n_modes[which] * C
    rankings: list[Integers | None] = [None] * len(groups)
    index = None
    if ragged.any():
        listed = order[ragged[which[order]]]
        kept, lengths = (np.zeros((N, C), np.int64) for _ in range(2))
        kept[listed] = arrays.integers("counts", len(listed) * C).reshape(-1, C)
        lengths[listed] = arrays.integers("lengths", len(listed) * C).reshape(-1, C)
        fits = (kept <= lengths).all() and (lengths <= n_modes[which][:, None]).all()
        arrays.require(fits, "counts of kept modes")
        counts = np.where(ragged[which], kept.sum(axis=1), counts)
        bits = lengths.sum(axis=1)
        bitmap = arrays.open("bitmap", -(-int(bits.sum()) // 8), "uint8")
        index = ModeIndex(bitmap, run_starts(bits, order), lengths, kept)
        ranks = arrays.integers("ranking", int(n_modes[ragged].sum()))
        for g, end in zip(np.flatnonzero(ragged), np.cumsum(n_modes[ragged])):
            rankings[g] = ranking = ranks[end - n_modes[g] : end]
            is_order = np.array_equal(np.sort(ranking), np.arange(n_modes[g]))
            arrays.require(is_order, "the ranking of the modes")
    n = int(counts.sum())
    why = f"{meta.n_coefficients} coefficients, but its regions need {n}"
    arrays.require(n == meta.n_coefficients, why)
    values = arrays.open("coefficients", n, meta.dtype)
    return Shelf(values, dtype, run_starts(counts, order), counts, index), rankings


def _read_nodes(
    arrays: ArrayReader,
    part: Partition,
    which: Integers,
    shelf: Shelf,
    models: Sequence[LocalModel],
) -> list[Nodes | Draws | None]:
    """Return the places of the kernels of each group; all groups have kernels."""
    d, order, index = len(part.shape), file_order(part), shelf.index
    kernels = [model for model in models if isinstance(model, Polyharmonic)]
    fits = len(kernels) == len(models) and all(model.n_axes == d for model in kernels)
    arrays.require(fits and index is not None, "its kernels")
    kept = np.zeros((len(which), 1), np.int64) if index is None else index.kept
    counts = kept[:, 0] - np.asarray([m.n_modes - m.n_nodes for m in kernels])[which]
    fits = (kept == kept[:, :1]).all() and (counts > 0).all()
    arrays.require(fits, "kernels that channels do not share")
    positions = arrays.read("positions", arrays.length("positions"), "float64").reshape(-1, d)
    members = arrays.integers("members", int(counts.sum()))
    fits = np.isfinite(positions).all() and int(members.max()) < len(positions)
    arrays.require(fits, "kernels that sit nowhere")
    starts, found = run_starts(counts, order), []
    for g, model in enumerate(kernels):
        own = np.flatnonzero(which == g)
        runs = np.concatenate([members[starts[i] : starts[i] + counts[i]] for i in own])
        ends = np.concatenate([[0], np.cumsum(counts[own])]).astype(np.int64)
        found.append(Nodes(model=model, positions=positions, members=runs, starts=ends))
    return list(found)


def _read_draws(arrays: ArrayReader, described: DescribedModel, n: int) -> Draws | None:
    """Return which layers the n regions of a group drew; None where they share one."""
    model, numbers = described.model, described.recipe.get("draws")
    if not isinstance(model, DenseWeights) or not model.is_own:
        return None
    listed = numbers if isinstance(numbers, list) else []
    fits = len(listed) == n and all(type(i) is int and 0 <= i < 1 << 48 for i in listed)
    arrays.require(fits, "which hidden layers its regions drew")
    return Draws(model, np.asarray(numbers, np.int64))


def is_number(value: object) -> bool:
    """Whether a value of a JSON document is a finite number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
