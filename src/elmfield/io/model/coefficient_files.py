"""Coefficients in a model file: in which order they follow each other, and what goes with them.

Regions keep all their modes, or each its own; kernels of scattered samples have places of their
own. What a writer says about both is in the first half; how a reader finds them there, every claim
checked, and reads them when they are first used, in the second.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Integers, Progress
from elmfield.field import Field, Group
from elmfield.field.coefficients.stored import Coefficients, Draws, Full, Nodes, Ragged, run_places
from elmfield.io.model.metadata import Metadata
from elmfield.io.model.recipes import DescribedModel, read_models
from elmfield.io.store.blocks import ArrayReader, Blocks, write_array
from elmfield.io.store.stores import Store
from elmfield.local.bases import DenseWeights, Polyharmonic
from elmfield.local.model import Basis
from elmfield.partition import Partition

BATCH_NUMBERS = 1 << 22
"""Coefficients gathered at a time while writing."""


def file_order(partition: Partition) -> Integers:
    """Regions in the order of the file: along a Z-order curve through their first cells.

    Regions that are close in space are then close in the file, and a window reads few blocks.
    """
    labels = partition.labels.reshape(-1)
    if partition.is_regular:
        first = labels
    else:
        _, first = np.unique(labels, return_index=True)
    cells = np.unravel_index(first, partition.n_cells)
    d = len(cells)
    key = np.zeros(len(first), np.uint64)
    bits = min(63 // d, max(int(c.max()).bit_length() for c in cells))
    wide = [c.astype(np.uint64) for c in cells]
    for bit in range(bits):
        for k, c in enumerate(wide):
            one = (c >> np.uint64(bit)) & np.uint64(1)
            key |= one << np.uint64(bit * d + d - 1 - k)
    return np.argsort(key, kind="stable")


def run_starts(lengths: Integers, order: Integers) -> Integers:
    """Return where runs of these lengths, (N,) or (N, C), begin if they follow in an order."""
    flat = lengths[order].reshape(-1)
    starts = np.empty(lengths.shape, np.int64)
    starts[order] = (np.cumsum(flat) - flat).reshape(lengths.shape)
    return starts


class CoefficientPlan:
    """Writes the coefficients of a field, region after region.

    Parameters
    ----------
    field : Field
        The field.
    dtype : str
        Of the coefficients in the file.
    take : callable, optional
        Gives the numbers of some rows of a group; by default those that are stored.
    """

    def __init__(
        self, field: Field, dtype: str, take: Callable[[Group, Integers], Array] | None = None
    ) -> None:
        self.groups, self.dtype = field.model.blended.groups, dtype
        self.take = take or (lambda group, rows: group.coefficients.numbers(rows))
        self.order = file_order(field.partition)
        self.group_numbers, self.row = field.model.blended.group_of
        self.counts = np.empty(len(self.order), np.int64)
        for group in self.groups:
            self.counts[group.regions] = group.coefficients.counts
        self.n_values = int(self.counts.sum())

    def arrays(self) -> dict[str, Array]:
        """Return the small arrays that go with the coefficients."""
        return {**_ragged_arrays(self), **_node_arrays(self)}

    def write(self, store: Store, meta: Metadata, compress: bool, progress: Progress) -> Metadata:
        """Write the coefficients; return the metadata with what they say about them."""
        numbers, n = self._numbers(progress), self.n_values
        checks = write_array(store, "coefficients", numbers, n, self.dtype, compress)
        return replace(meta, n_coefficients=n, checks={**meta.checks, "coefficients": checks})

    def _numbers(self, progress: Progress) -> Iterator[Array]:
        """Yield the coefficients in file order, batch by batch."""
        done, batch = 0, np.cumsum(self.counts[self.order]) // BATCH_NUMBERS
        for regions in np.split(self.order, np.flatnonzero(np.diff(batch)) + 1):
            counts, own = self.counts[regions], self.group_numbers[regions]
            places = np.cumsum(counts) - counts
            out = np.empty(int(counts.sum()), self.dtype)
            for g in np.unique(own):
                at = np.flatnonzero(own == g)
                values = to_numpy(self.take(self.groups[g], self.row[regions[at]]))
                with np.errstate(over="ignore"):
                    values = values.astype(self.dtype)
                if self.dtype == "float16" and not np.isfinite(values).all():
                    raise ValueError("some coefficients exceed what float16 holds; use 'float32'.")
                out[run_places(places[at], counts[at])] = values
            yield out
            done += len(regions)
            progress("save", done, len(self.order))


def _ragged_arrays(plan: CoefficientPlan) -> dict[str, Array]:
    """Say which modes each region keeps: counts and lengths by run, and a bitmap; file order."""
    every = [(g.regions, g.coefficients.ragged(np.arange(len(g.regions)))) for g in plan.groups]
    found = [(regions, own) for regions, own in every if own is not None]
    if not found:
        return {}
    N, C = len(plan.order), found[0][1].n_channels
    kept, lengths = (np.zeros((N, C), np.int64) for _ in range(2))
    is_ragged = np.zeros(N, bool)
    for regions, own in found:
        kept[regions], lengths[regions], is_ragged[regions] = own.kept, own.lengths, True
    begins = run_starts(lengths, plan.order)
    bits = np.zeros(int(lengths.sum()), bool)
    for regions, own in found:
        bits[np.repeat(begins[regions].reshape(-1), own.kept.reshape(-1)) + own.ranks] = True
    listed = plan.order[is_ragged[plan.order]]
    return {
        "counts": narrow_integers(kept[listed].reshape(-1)),
        "lengths": narrow_integers(lengths[listed].reshape(-1)),
        "ranking": narrow_integers(np.concatenate([own.ranking for _, own in found])),
        "bitmap": np.packbits(bits),
    }


def _node_arrays(plan: CoefficientPlan) -> dict[str, Array]:
    """Return positions of kernels, and their numbers region after region; nothing without any.

    With weights also the noise at these positions, as what is left of it.
    """
    nodes = [group.nodes for group in plan.groups]
    shared = {id(own.positions): own for own in nodes if isinstance(own, Nodes)}
    if not shared:
        return {}
    firsts = dict(zip(shared, np.cumsum([0, *(len(own.positions) for own in shared.values())])))
    members = []
    for region in plan.order:
        own = nodes[plan.group_numbers[region]]
        if isinstance(own, Nodes):
            first, last = own.starts[plan.row[region] : plan.row[region] + 2]
            members.append(own.members[first:last] + firsts[id(own.positions)])
    flat = np.concatenate([to_numpy(own.positions).reshape(-1) for own in shared.values()])
    found = {
        "positions": flat.astype(np.float64),
        "members": narrow_integers(np.concatenate(members)),
    }
    noise = [own.noise.astype(np.float32) for own in shared.values() if own.noise is not None]
    return found | ({"left": np.concatenate(noise)} if noise else {})


def narrow_integers(values: Array) -> Array:
    """Return whole numbers from 0 in the narrowest of the format's types that holds them."""
    values = np.asarray(values)
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shelf:
    """Where in the file each region's numbers lie; one for all groups of a field.

    Parameters
    ----------
    values : Blocks
        The coefficients of all regions, in file order.
    order : integer array, shape (N,)
        That order: region numbers.
    dtype : NumPy dtype
        In which they are handed out.
    counts : integer array, shape (N,)
        Of each region's run in `values`, by region number.
    bitmap : Blocks or None
        One bit per rank, kept or not, region after region; None if all keep everything.
    lengths, kept : integer arrays, shape (N, C)
        Bits, and ones among them, of each region and channel.
    """

    values: Blocks
    order: Integers
    dtype: Any
    counts: Integers
    bitmap: Blocks | None
    lengths: Integers
    kept: Integers

    @cached_property
    def starts(self) -> Integers:
        """Where each region's run in `values` begins, (N,)."""
        return run_starts(self.counts, self.order)

    @cached_property
    def _first_bits(self) -> Integers:
        return run_starts(self.lengths.sum(axis=1), self.order)

    def numbers(self, regions: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.values.gather(self.starts[regions], self.counts[regions]).astype(self.dtype)

    def ranks(self, bitmap: Blocks, regions: Integers) -> Integers:
        """Ranks of the kept modes of some regions, run after run."""
        first, lengths = self._first_bits[regions], self.lengths[regions]  # (G,), (G, C)
        total = lengths.sum(axis=1)
        low, high = first // 8, -(-(first + total) // 8)
        bits = np.unpackbits(bitmap.gather(low, high - low))
        # Where each region's bits begin in `bits`: its bytes, less what belongs to its neighbour.
        begin = 8 * (np.cumsum(high - low) - (high - low)) + first % 8
        chosen = bits[run_places(begin, total)].astype(bool)
        n = lengths.reshape(-1)
        found = np.bincount(np.repeat(np.arange(len(n)), n)[chosen], minlength=len(n))
        if not np.array_equal(found, self.kept[regions].reshape(-1)):
            raise bitmap.damaged("it does not mark as many modes as 'counts' says")
        return np.asarray(run_places(np.zeros_like(n), n)[chosen])


@dataclass(frozen=True, eq=False)
class InModelFile(Coefficients):
    """Coefficients of a group of regions, read when asked for.

    Parameters
    ----------
    shelf : Shelf
        Where they lie.
    regions : integer array, shape (G,)
        Their regions' numbers in the file.
    n_modes : int
        r.
    ranking : integer array, shape (r,), or None
        Mode number of each rank, where regions keep different modes.
    """

    shelf: Shelf
    regions: Integers
    n_modes: int
    ranking: Integers | None = None

    def part(self, rows: Integers | slice = slice(None)) -> Full | Ragged:
        """Some of the regions, or all, in memory."""
        shelf, regions, bitmap = self.shelf, self.regions[rows], self.shelf.bitmap
        if self.ranking is None or bitmap is None:
            return Full(shelf.numbers(regions).reshape(-1, self.n_modes, shelf.kept.shape[1]))
        counts = shelf.kept[regions].reshape(-1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        ranks = shelf.ranks(bitmap, regions)
        if len(ranks) and int(ranks.max()) >= self.n_modes:
            raise bitmap.damaged("a rank is too high")
        return Ragged(shelf.numbers(regions), ranks, starts, self.ranking, shelf.kept.shape[1])

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""
        return len(self.regions), self.n_modes, self.shelf.kept.shape[1]

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
        if self.ranking is None:
            return 0
        lengths = self.shelf.lengths[self.regions]
        return int(lengths.sum()) + 16 * lengths.size

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions."""
        return self.part(rows).take(np.arange(len(rows)))

    def rows(self, rows: Integers) -> "InModelFile":
        """The same for some of the regions."""
        return replace(self, regions=self.regions[rows])

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
        nodes = _read_nodes(arrays, meta, shelf, which, models)
    groups = []
    for g, model in enumerate(models):
        regions = np.flatnonzero(which == g)
        stored = InModelFile(shelf, regions, model.n_modes, rankings[g])
        found = stored if lazy else stored.part()
        made = cast(Basis, model)
        groups.append(Group(model=made, regions=regions, coefficients=found, nodes=nodes[g]))
    return groups


def _read_shelf(
    arrays: ArrayReader, meta: Metadata, part: Partition, which: Integers, dtype: Any
) -> tuple[Shelf, list[Integers | None]]:
    """Return where coefficients lie, and the mode number of each rank of each group."""
    N, C, groups = part.n_regions, len(meta.offset), meta.groups
    ragged = np.asarray([group.ragged for group in groups])
    n_modes = np.asarray([group.n_modes for group in groups])
    order = file_order(part)
    counts = n_modes[which] * C
    rankings: list[Integers | None] = [None] * len(groups)
    kept, lengths, bitmap = *(np.zeros((N, C), np.int64) for _ in range(2)), None
    if ragged.any():
        listed = order[ragged[which[order]]]
        kept[listed] = arrays.integers("counts", len(listed) * C).reshape(-1, C)
        lengths[listed] = arrays.integers("lengths", len(listed) * C).reshape(-1, C)
        fits = (kept <= lengths).all() and (lengths <= n_modes[which][:, None]).all()
        arrays.require(fits, "counts of kept modes")
        counts = np.where(ragged[which], kept.sum(axis=1), counts)
        bitmap = arrays.open("bitmap", -(-int(lengths.sum()) // 8), "uint8")
        ranks = arrays.integers("ranking", int(n_modes[ragged].sum()))
        for g, end in zip(np.flatnonzero(ragged), np.cumsum(n_modes[ragged])):
            rankings[g] = ranking = ranks[end - n_modes[g] : end]
            is_order = np.array_equal(np.sort(ranking), np.arange(n_modes[g]))
            arrays.require(is_order, "the ranking of the modes")
    n = int(counts.sum())
    why = f"{meta.n_coefficients} coefficients, but its regions need {n}"
    arrays.require(n == meta.n_coefficients, why)
    values = arrays.open("coefficients", n, meta.dtype)
    return Shelf(values, order, dtype, counts, bitmap, lengths, kept), rankings


def _read_nodes(
    arrays: ArrayReader, meta: Metadata, shelf: Shelf, which: Integers, models: list[DescribedModel]
) -> list[Nodes | Draws | None]:
    """Return the places of the kernels of each group; all groups have kernels."""
    d, kept = models[0].n_axes, shelf.kept
    kernels = [m.model for m in models if isinstance(m.model, Polyharmonic)]
    fits = len(kernels) == len(models) and all(model.n_axes == d for model in kernels)
    arrays.require(fits and shelf.bitmap is not None, "its kernels")
    counts = kept[:, 0] - np.asarray([m.n_modes - m.n_nodes for m in kernels])[which]
    fits = (kept == kept[:, :1]).all() and (counts > 0).all()
    arrays.require(fits, "kernels that channels do not share")
    positions = arrays.read("positions", None, "float64").reshape(-1, d)
    members = arrays.integers("members", int(counts.sum()))
    fits = np.isfinite(positions).all() and int(members.max()) < len(positions)
    arrays.require(fits, "kernels that sit nowhere")
    noise = None
    if meta.evidence is not None and meta.evidence.left:
        noise = np.asarray(arrays.read("left", len(positions), "float32"))
    arrays.require(noise is None or bool((noise > 0).all()), "the noise of samples is no number")
    starts, found = run_starts(counts, shelf.order), []
    for g, model in enumerate(kernels):
        own = np.flatnonzero(which == g)
        ends = np.concatenate([[0], np.cumsum(counts[own])]).astype(np.int64)
        places = {"members": members[run_places(starts[own], counts[own])], "starts": ends}
        found.append(Nodes(model=model, positions=positions, noise=noise, **places))
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
