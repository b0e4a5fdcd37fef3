"""Which cells of an axis count where, laid out for batched products on grids."""

from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.typing import Array, Floats, Integers
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
    patterns, pattern_of : arrays, shapes (n_patterns, n_slots) and (N,)
        The different rows of `offsets` (boxes of different size kept apart), and who has which.
    """

    cells: Integers
    offsets: Floats
    lower: Integers
    upper: Integers
    ramp: Floats | None
    patterns: Floats
    pattern_of: Integers

    @property
    def n_slots(self) -> int:
        """Positions per cell, padding included."""
        return int(self.offsets.shape[1])

    @classmethod
    def make(
        cls, partition: Partition, centres: Floats, groups: Integers, k: int, x: Floats
    ) -> "AxisPlan":
        """The plan for index coordinates `x` on axis k of a regular partition.

        `centres`, (N, d), are those of the regions' boxes; `groups`, (N,), tells which share them.
        """
        along = [0] * len(partition.shape)
        along[k] = slice(None)  # type: ignore[call-overload]
        line = partition.labels[tuple(along)]  # one region per cell of this axis
        b = blend(partition, k, x)
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
        key = np.column_stack([np.round(offsets, 9), groups[line[cells]]])
        _, first, pattern_of = np.unique(key, axis=0, return_index=True, return_inverse=True)
        return cls(
            cells,
            offsets,
            at[: len(x)],
            upper,
            b.ramp[0] if two.any() else None,
            offsets[first],
            pattern_of.reshape(-1),
        )

    def spread(self, weights: Floats) -> Floats:
        """Weights (p,) of the positions as weights (N, n_slots) of the table, windows included."""
        table = np.zeros(self.offsets.size)
        ramp = np.zeros(len(weights)) if self.ramp is None else self.ramp
        table[self.lower] = weights * (1 - ramp)
        two = ramp > 0
        table[self.upper[two]] = (weights * ramp)[two]
        return table.reshape(self.offsets.shape)

    def merge(self, V: Array) -> Array:
        """Blended values (A, p, R) from the table V of cells and slots, (A, N n_slots, R)."""
        xp = namespace(V)
        low = xp.take(V, move(self.lower, V), axis=1)
        if self.ramp is None:
            return low
        up = xp.take(V, move(self.upper, V), axis=1)
        return low + move(self.ramp[:, None], V, V.dtype) * (up - low)
