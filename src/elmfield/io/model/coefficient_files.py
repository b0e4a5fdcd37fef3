"""Coefficients in a model file: in which order they follow each other, and what goes with them.

Regions keep all their modes, or each its own; kernels of scattered samples have places of their
own. What a writer says about both and how a reader understands it is here.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.memory import runs
from elmfield._array.typing import Array, Integers, Progress
from elmfield.field import Field, Group
from elmfield.field.coefficients.stored import Nodes
from elmfield.io.model.metadata import Metadata
from elmfield.io.store.blocks import write_array
from elmfield.io.store.stores import Store
from elmfield.partition import Partition

BATCH_NUMBERS = 1 << 22
"""Coefficients gathered at a time while writing."""

BATCH_REGIONS = 4096
"""Regions whose kept modes are gathered at a time."""


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


def numbers_of(group: Group, rows: Integers) -> Array:
    """Return the stored numbers of some regions of a group, one region after the other."""
    return group.coefficients.numbers(rows)


class CoefficientPlan:
    """Writes the coefficients of a field, region after region.

    Parameters
    ----------
    field : Field
        The field.
    dtype : str
        Of the coefficients in the file.
    take : callable
        Gives the numbers of some rows of a group.
    """

    is_lossy = False

    def __init__(
        self, field: Field, dtype: str, take: Callable[[Group, Integers], Array] = numbers_of
    ) -> None:
        self.groups, self.dtype, self.take = field.model.blended.groups, dtype, take
        self.order = file_order(field.partition)
        N = len(self.order)
        self.group_numbers = np.empty(N, np.int64)
        self.row = np.empty(N, np.int64)
        for g, group in enumerate(self.groups):
            self.group_numbers[group.regions] = g
            self.row[group.regions] = np.arange(len(group.regions))
        self.counts = np.empty(N, np.int64)
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
        dtype = self.dtype
        N, ends = len(self.order), np.cumsum(self.counts[self.order])
        first = 0
        while first < N:
            before = 0 if first == 0 else int(ends[first - 1])
            last = max(first + 1, int(np.searchsorted(ends, before + BATCH_NUMBERS, side="right")))
            regions = self.order[first:last]
            counts = self.counts[regions]
            places = np.cumsum(counts) - counts
            out = np.empty(int(counts.sum()), dtype)
            for g, group in enumerate(self.groups):
                at = np.flatnonzero(self.group_numbers[regions] == g)
                if not len(at):
                    continue
                values = to_numpy(self.take(group, self.row[regions[at]]))
                with np.errstate(over="ignore"):
                    values = values.astype(dtype)
                if dtype == "float16" and not np.isfinite(values).all():
                    raise ValueError(
                        "some coefficients exceed what float16 holds (65504); save as 'float32'."
                    )
                if len(at) == len(regions):
                    out = values  # the only group here: already one after the other
                    break
                n, begin = counts[at], places[at]
                index = np.repeat(begin - (np.cumsum(n) - n), n) + np.arange(len(values))
                out[index] = values
            yield out
            first = last
            progress("save", first, N)


def _ragged_arrays(plan: CoefficientPlan) -> dict[str, Array]:
    """Say which modes each region keeps: counts and lengths by run, and a bitmap; file order."""
    pieces, rankings = [], []
    for group in plan.groups:
        for a, b in runs(len(group.regions), BATCH_REGIONS):
            some = group.coefficients.ragged(np.arange(a, b))
            if some is not None:
                pieces.append((group.regions[a:b], some.kept, some.lengths, some.ranks))
                rankings += [some.ranking] if a == 0 else []
    if not pieces:
        return {}
    N, C = len(plan.order), pieces[0][1].shape[1]
    kept, lengths = (np.zeros((N, C), np.int64) for _ in range(2))
    is_ragged = np.zeros(N, bool)
    for regions, counts, own, _ in pieces:
        kept[regions], lengths[regions], is_ragged[regions] = counts, own, True
    begins = run_starts(lengths, plan.order)
    bits = np.zeros(int(lengths.sum()), bool)
    for regions, counts, _, ranks in pieces:
        bits[np.repeat(begins[regions].reshape(-1), counts.reshape(-1)) + ranks] = True
    listed = plan.order[is_ragged[plan.order]]
    return {
        "counts": narrow_integers(kept[listed].reshape(-1)),
        "lengths": narrow_integers(lengths[listed].reshape(-1)),
        "ranking": narrow_integers(np.concatenate(rankings)),
        "bitmap": np.packbits(bits),
    }


def _node_arrays(plan: CoefficientPlan) -> dict[str, Array]:
    """Return positions of kernels, and their numbers region after region; nothing without any."""
    firsts: dict[int, int] = {}
    positions, total = [], 0
    nodes = [group.nodes for group in plan.groups]
    for own in nodes:
        if isinstance(own, Nodes) and id(own.positions) not in firsts:
            firsts[id(own.positions)] = total
            positions.append(to_numpy(own.positions))
            total += len(positions[-1])
    if not positions:
        return {}
    members = []
    for region in plan.order:
        own = nodes[plan.group_numbers[region]]
        if isinstance(own, Nodes):
            first, last = own.starts[plan.row[region] : plan.row[region] + 2]
            members.append(own.members[first:last] + firsts[id(own.positions)])
    flat = np.concatenate(positions).astype(np.float64).reshape(-1)
    return {"positions": flat, "members": narrow_integers(np.concatenate(members))}


def narrow_integers(values: Array) -> Array:
    """Return whole numbers from 0 in the narrowest of the format's types that holds them."""
    values = np.asarray(values)
    top = int(values.max(initial=0))
    return values.astype("uint8" if top < 1 << 8 else "uint16" if top < 1 << 16 else "uint32")
