"""Which cells of an axis count where, laid out for batched products on grids."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.backend import is_numpy, move, namespace
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.integrals import Runs
from elmfield.local.model import AxisFunctions
from elmfield.partition import Partition, blend


@dataclass(frozen=True, eq=False)
class AxisPlan:
    """Which cells of one axis speak at which of its p positions, laid out for batched products.

    Parameters
    ----------
    cells : integer array, shape (N,)
        The cells that speak at all.
    offsets : array, shape (N, n_slots)
        Positions relative to each cell's box, padded with zeros.
    lower, upper : integer arrays, shape (p,)
        Where in the flattened (cell, slot) table each position finds its two values.
    ramp : array, shape (p,), or None
        Weight of the upper one; None where cells do not overlap.
    groups : integer array, shape (N,)
        Which cells share their local model.
    bends : tuple of arrays, shape (p,)
        Derivatives of the ramp along the axis, as many as were asked for.
    """

    cells: Integers
    offsets: Floats
    lower: Integers
    upper: Integers
    ramp: Floats | None
    groups: Integers
    bends: tuple[Floats, ...] = ()

    @property
    def n_slots(self) -> int:
        """Positions per cell, padding included."""
        return int(self.offsets.shape[1])

    @cached_property
    def patterns(self) -> tuple[Floats, Integers]:
        """The different rows of `offsets`, boxes of different size kept apart; and who has which.

        Shapes (n_patterns, n_slots) and (N,). Only dense layers ask: a fifth of a grid's time.
        """
        key = np.column_stack([np.round(self.offsets, 9), self.groups])
        _, first, which = np.unique(key, axis=0, return_index=True, return_inverse=True)
        return self.offsets[first], which.reshape(-1)

    @classmethod
    def make(
        cls,
        partition: Partition,
        centres: Floats,
        groups: Integers,
        k: int,
        x: Floats,
        order: int = 0,
    ) -> "AxisPlan":
        """The plan for index coordinates `x` on axis k of a regular partition.

        `centres`, (N, d), are those of the regions' boxes; `groups`, (N,), tells which share them.
        Derivatives up to `order` can be merged with it.
        """
        along = [0] * len(partition.shape)
        along[k] = slice(None)  # type: ignore[call-overload]
        line = partition.labels[tuple(along)]  # one region per cell of this axis
        b = blend(partition, k, x, order)
        two = b.ramp[0] > 0
        cell = np.concatenate([b.lower, b.upper[two]])
        position = np.concatenate([x, x[two]])
        cells, inverse = np.unique(cell, return_inverse=True)
        by_cell = np.argsort(inverse, kind="stable")
        counts = np.bincount(inverse)
        slot = np.empty(len(cell), np.int64)
        slot[by_cell] = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
        u = position - centres[line[cell], k]
        if partition.periodic[k]:
            n = partition.shape[k]
            u = u - np.round(u / n) * n
        offsets = np.zeros((len(cells), int(counts.max())))
        offsets[inverse, slot] = u
        at = inverse * offsets.shape[1] + slot
        upper = at[: len(x)].copy()
        upper[two] = at[len(x) :]
        return cls(
            cells,
            offsets,
            at[: len(x)],
            upper,
            b.ramp[0] if two.any() else None,
            groups[line[cells]],
            b.ramp[1:],
        )

    def summed(self, functions: AxisFunctions, runs: Runs) -> tuple[Floats, Integers, Integers]:
        """Sums of the cells' functions over runs of the positions, windows included.

        Returns a table, (N, n_sums, q), of the sums that each cell has a part in, padded with
        zeros; which rows of it, flattened to (cell, sum), belong to the runs in turn; and where
        those of each run begin.
        """
        n = len(runs)
        owner = np.repeat(np.arange(n), np.diff(np.append(runs.starts, len(runs.places))))
        ramp = np.zeros(len(owner)) if self.ramp is None else self.ramp
        two = ramp > 0
        at = np.concatenate([self.lower, self.upper[two]])
        w = np.concatenate([runs.weights * (1 - ramp), (runs.weights * ramp)[two]])
        key = at // self.n_slots * n + np.concatenate([owner, owner[two]])
        order = np.argsort(key, kind="stable")
        found, first = np.unique(key[order], return_index=True)
        F = functions(self.offsets)
        rows = F.reshape(-1, F.shape[-1])[at[order]] * w[order, None]
        rows = np.add.reduceat(rows, first, axis=0)
        cell, run = np.divmod(found, n)
        counts = np.bincount(cell, minlength=len(self.cells))
        slot = np.arange(len(cell)) - (np.cumsum(counts) - counts)[cell]
        table = np.zeros((len(self.cells), int(counts.max()), rows.shape[1]))
        table[cell, slot] = rows
        by_run = np.argsort(run, kind="stable")
        place = (cell * table.shape[1] + slot)[by_run]
        return table, place, np.searchsorted(run[by_run], np.arange(n))

    def windowed(self, functions: AxisFunctions, orders: set[int]) -> dict[int, Floats]:
        """The cells' functions times their windows, (N, n_slots, q), differentiated so often.

        ``(φ f)⁽ᵐ⁾ = Σ_i (m over i) φ⁽ⁱ⁾ f⁽ᵐ⁻ⁱ⁾`` in each slot: sums of the slots at a position are
        the blended function's own.
        """
        top = max(orders)
        F = [functions(self.offsets, j) for j in range(top + 1)]
        if self.ramp is None:
            return {m: F[m] for m in orders}
        W = np.zeros((top + 1, self.offsets.size))
        for i, rising in enumerate((self.ramp, *self.bends)):
            W[i, self.lower] = (i == 0) - rising
            W[i, self.upper[self.two]] = rising[self.two]
        W = W.reshape(-1, *self.offsets.shape, 1)
        return {m: sum(math.comb(m, i) * W[i] * F[m - i] for i in range(m + 1)) for m in orders}

    @cached_property
    def two(self) -> Integers:
        """Positions at which two cells speak."""
        return np.flatnonzero(np.zeros(0) if self.ramp is None else self.ramp > 0)

    def gathered(self, V: Array) -> Array:
        """Blended values (C, p, R) from a table of cells and slots, (C, N n_slots, R), windowed."""
        xp, two = namespace(V), self.two
        out = xp.take(V, move(self.lower, V), axis=1)
        if not len(two):
            return out
        if is_numpy(V):
            out[:, two] += V.take(self.upper[two], axis=1)
            return out
        both = np.zeros((len(self.lower), 1))
        both[two] = 1
        return out + move(both, V, V.dtype) * xp.take(V, move(self.upper, V), axis=1)

    def merge(self, V: Array) -> Array:
        """Blended values (A, p, R) from a table of cells and slots, (A, N n_slots, R)."""
        xp = namespace(V)
        low = xp.take(V, move(self.lower, V), axis=1)
        if self.ramp is None:
            return low
        high = xp.take(V, move(self.upper, V), axis=1)
        return low + move(self.ramp[:, None], V, V.dtype) * (high - low)
