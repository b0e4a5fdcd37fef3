"""Algorithm 1 by compiled loops: what they ask for is found here.

Enter cells with their energies and τ, leave the merges that `merge.merge` makes without them.
"""

import math
from collections.abc import Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from elmfield._array.typing import Floats, Integers
from elmfield.partition.beam.barron import Barron
from elmfield.partition.beam.regions import Region, union

if TYPE_CHECKING:  # importing it compiles
    from elmfield.partition.beam import passes

ASKED_AT_ONCE = 1 << 12
"""Unions whose energies are asked for together, at most."""


class Quick:
    """The mesh of cells in arrays, and the energies of unions in a table.

    Parameters
    ----------
    beta : Barron
        Measures regions.
    cells : list of Region
        The regions to start from.
    energies : list of float
        Theirs.
    neighbours : list of lists of int
        Numbers of the cells that share a face with each.
    boxes : bool
        Whether only unions that fill their box are allowed.
    """

    def __init__(
        self,
        beta: Barron,
        cells: list[Region],
        energies: list[float],
        neighbours: list[list[int]],
        boxes: bool,
    ) -> None:
        from elmfield.partition.beam import passes

        self._beta, self._cells, self._boxes = beta, cells, boxes
        n = len(cells)
        keys = np.asarray([(c.key >> 64, c.key & (1 << 64) - 1) for c in cells], np.uint64)
        many = np.asarray([len(near) for near in neighbours])
        near = np.asarray([j for near in neighbours for j in near], np.int64)
        at = np.unravel_index(np.arange(n), beta.n_cells)
        one = np.ones(n, np.int64)
        self._start = passes.Run(
            key=_twice(keys),
            energy=_twice(np.asarray(energies, float)),
            first=_twice(np.arange(n)),
            cells=_twice(one),
            parts=_twice(np.full((n, 2), -1)),
            box=_twice(np.stack([at[0], one, at[1], one], axis=1)),
            lit=_twice(np.asarray([c.peak > 0 for c in cells], np.int64)),
            marks=_twice(np.full(n, passes.THERE | passes.CHANGED)),
            stamp=np.zeros(2 * n, np.int64),
            near_at=_twice(np.stack([np.cumsum(many) - many, many], axis=1)),
            near=np.concatenate([near, np.zeros(8 * n, np.int64)]),
            queue=np.zeros(2 * n, np.int64),
            merged=np.zeros((n, 2), np.int64),
            asked=np.zeros((ASKED_AT_ONCE, 3), np.int64),
            counts=np.asarray([n, n, 0, 0, -1, len(near), 0]),
            blocked=np.asarray([np.inf]),
        )
        self._table = _table(1 << 14)
        self._formed = {c.key: c for c in cells}

    def merge(self, tau: float, stop: int, ahead: int, large: int) -> tuple["Pairs", int, float]:
        """The merges, how many regions are left, and the least energy that kept two apart.

        `ahead` is how many regions are looked at when one energy is missing, `large` the cells in
        a box that is worth a lower bound before it is transformed.
        """
        from elmfield.partition.beam import passes

        copies: list[Any] = [values.copy() for values in self._start]
        run = passes.Run(*copies)
        mesh = np.asarray([*self._beta.n_cells, *self._beta.periodic, self._boxes, large], np.int64)
        while True:
            if 2 * (int(self._table.used[0]) + ASKED_AT_ONCE) > len(self._table.kind):
                new = _table(2 * len(self._table.kind))
                passes.refill(self._table, new)
                self._table = new
            why = passes.advance(run, self._table, mesh, float(tau), int(stop), ahead)
            if why == passes.DONE:
                break
            slots = run.asked[: run.counts[passes.WANTED], 2]
            if why == passes.BOUNDS:
                self._table.value[slots] = [self._beta.at_least(*p) for p in self._asked(run)]
                self._table.kind[slots] = passes.BOUND
            else:
                self._table.value[slots] = self._energies(run, mesh)
                self._table.kind[slots] = passes.EXACT
        left = run.energy[run.marks & passes.THERE > 0]
        above = float(left[left >= tau].min(initial=math.inf))
        pairs = Pairs(self._cells, run.merged[: run.counts[passes.MERGED]], run.first)
        return pairs, int(run.counts[passes.LEFT]), min(float(run.blocked[0]), above)

    def _energies(self, run: "passes.Run", mesh: Integers) -> Floats:
        """The energies of the unions asked for."""
        from elmfield.partition.beam import passes

        n = int(run.counts[passes.WANTED])
        low, size = np.zeros((2, n, 2), np.int64)
        begins = np.zeros(n + 1, np.int64)
        passes.boxes_of(run, mesh, low, size, begins)
        cells = np.empty(int(begins[-1]), np.int64)
        passes.cells_of(run, begins, cells)
        fits = self._beta.fused.fits(size)
        if fits.all():
            return self._beta.of_cells(cells, begins, low, size)
        found, counts = np.empty(n), np.diff(begins)
        if fits.any():
            mine, own = cells[np.repeat(fits, counts)], np.cumsum([0, *counts[fits]])
            found[fits] = self._beta.of_cells(mine, own, low[fits], size[fits])
        others = np.split(cells, begins[1:-1])
        wholes = [
            reduce(union, (self._cells[i] for i in others[w].tolist()))
            for w in np.flatnonzero(~fits)
        ]
        found[~fits] = self._beta(wholes)
        return found

    def _asked(self, run: "passes.Run") -> list[tuple[Region, Region]]:
        """The regions whose unions are asked for."""
        from elmfield.partition.beam import passes

        asked = run.asked[: run.counts[passes.WANTED], :2].tolist()
        return [(self._region(run, a), self._region(run, b)) for a, b in asked]

    def _region(self, run: "passes.Run", number: int) -> Region:
        """A region of a run; what was formed once is kept."""
        todo, order = [number], []
        while todo:
            i = todo.pop()
            if self._key(run, i) not in self._formed:
                order.append(i)
                todo += run.parts[i].tolist()
        for i in sorted(order):  # parts come before their union
            a, b = run.parts[i].tolist()
            whole = union(self._formed[self._key(run, a)], self._formed[self._key(run, b)])
            self._formed[whole.key] = whole
        return self._formed[self._key(run, number)]

    @staticmethod
    def _key(run: "passes.Run", number: int) -> int:
        return int(run.key[number, 0]) << 64 | int(run.key[number, 1])


class Pairs(Sequence[tuple[Region, Region]]):
    """What merged with what, formed when it is looked at.

    Parameters
    ----------
    cells : list of Region
        The regions to start from, 0 to n - 1.
    merged : array of int, shape (m, 2)
        Merge i makes region n + i of these two.
    first : array of int, shape (n + m,) or longer
        The first cell of each region.
    """

    def __init__(self, cells: list[Region], merged: Integers, first: Integers) -> None:
        self._cells, self._merged = cells, merged
        self.first_cells: Integers = first[merged]

    @overload
    def __getitem__(self, at: int) -> tuple[Region, Region]: ...

    @overload
    def __getitem__(self, at: slice) -> list[tuple[Region, Region]]: ...

    def __getitem__(self, at: int | slice) -> tuple[Region, Region] | list[tuple[Region, Region]]:
        return self._formed[at]

    def __len__(self) -> int:
        return len(self._merged)

    @cached_property
    def _formed(self) -> list[tuple[Region, Region]]:
        regions, pairs = list(self._cells), []
        for a, b in self._merged.tolist():
            pairs.append((regions[a], regions[b]))
            regions.append(union(regions[a], regions[b]))
        return pairs


def _twice(values: Any) -> Any:
    """Values, and as many zeros after them."""
    return np.concatenate([values, np.zeros_like(values)])


def _table(slots: int) -> "passes.Table":
    from elmfield.partition.beam import passes

    return passes.Table(
        np.zeros((slots, 2), np.uint64),
        np.zeros(slots),
        np.zeros(slots, np.uint8),
        np.zeros(1, np.int64),
    )
