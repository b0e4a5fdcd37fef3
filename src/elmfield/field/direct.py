"""A blended function at a few points: no set-up but what was kept.

Windows are inside the functions of the axes, so that every region that speaks at a point is asked
one product; points of one region are asked together.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array import compiled
from elmfield._array.backend import sort_order, to_numpy
from elmfield._array.memory import runs
from elmfield._array.threads import spread
from elmfield._array.typing import Floats, Integers
from elmfield.field.contracting import arranged, dot
from elmfield.field.expansion import Expansion
from elmfield.field.intervals import Intervals

if TYPE_CHECKING:
    from elmfield.field.blended import Blended

Order = tuple[int, ...]

WEIGHT = 4
"""Points looked up that take as long as one here."""

SHARE = 1 << 12
"""Points of one thread's turn."""

KEPT = 64
"""Regions whose coefficients are kept ready for points that come one by one."""


@dataclass(frozen=True, eq=False)
class Direct:
    """A blended function of product modes on a regular partition; in NumPy.

    Parameters
    ----------
    expansion : Expansion
        The function, and the windowed functions of each axis.
    """

    expansion: Expansion
    _kept: dict[int, Floats] = field(default_factory=dict, repr=False)

    @cached_property
    def blended(self) -> "Blended":
        """The function."""
        return self.expansion.blended

    @cached_property
    def axes(self) -> tuple[Intervals, ...]:
        """The windowed functions of each axis."""
        return self.expansion.axes

    def partials(self, x: Floats, orders: list[Order]) -> list[Floats]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""
        if len(x) and compiled.pays(WEIGHT * len(x)):
            return self._compiled(np.ascontiguousarray(x), np.asarray(orders, np.int64))
        places = [own.places(x[:, k]) for k, own in enumerate(self.axes)]
        two = [own.piece[j, 1] >= 0 for own, (j, _) in zip(self.axes, places)]
        asks = [
            (corner, at)
            for corner in cartesian((0, 1), repeat=len(self.axes))
            if (at := _asked(two, corner)) is None or len(at)
        ]
        region = self._regions(places, asks)
        by = np.argsort(region, kind="stable")
        busy, first = np.unique(region[by], return_index=True)
        n = len(self.blended.groups[0].regions)
        most = 2 * len(busy) > n  # what is at hand of all is not copied
        factors = self._of(np.arange(n) if most else self.blended.group_of[1][busy])
        seats = self.blended.group_of[1][busy].tolist() if most else list(range(len(busy)))
        known: dict[tuple[int, int], Floats] = {}
        out = []
        for a in orders:
            for k, i in enumerate(a):
                if (k, i) not in known:
                    rows = self._rows(k, places[k], two[k], asks, i)[by]
                    known[k, i] = rows.astype(factors.dtype, copy=False)
            values = _by_region([known[k, i] for k, i in enumerate(a)], factors, seats, first)
            every = np.empty_like(values)
            every[by] = values
            total, begin = every[: len(x)], len(x)  # the first corner asks for all points
            for _, at in asks[1:]:
                total[at] += every[begin : begin + len(at)]  # type: ignore[arg-type]
                begin += len(at)  # type: ignore[arg-type]
            out.append(total)
        return out

    # --- compiled ------------------------------------------------------------------------------

    def _compiled(self, x: Floats, orders: Integers) -> list[Floats]:
        """The same, point by point; those of one region follow each other, if there are some."""
        from elmfield.field import loops

        ends, sizes, speakers, tables = self._flat
        marks = np.zeros(math.prod(self.blended.partition.n_cells), bool)
        nearest = np.empty(len(x), np.int64)
        loops.spoken(x, ends, sizes, speakers, marks, nearest)
        seats, factors = self._seated(np.flatnonzero(marks))
        out = np.empty((len(orders), len(x), self.blended.n_channels), factors.dtype)
        to: Integers = sort_order(nearest, len(marks))

        def work(span: tuple[int, int]) -> None:
            some = to[slice(*span)]
            loops.products(x, some, ends, sizes, speakers, tables, seats, factors, orders, out)

        spread(work, runs(len(x), SHARE))
        return list(out)

    @cached_property
    def _flat(self) -> tuple[Floats, Integers, Integers, Floats]:
        """What loops know of all axes: see `products` there."""
        every = self.axes
        ends = np.asarray([[a.low for a in every], [float(a.per_unit) for a in every]])
        tables = [a.pieces.coefficients for a in every]  # (U, K, q) each
        counts = [a.count for a in every]
        begin, places = np.cumsum([0, *counts])[:-1], np.cumsum([0, *(t.size for t in tables)])[:-1]
        K, q = ([t.shape[i] for t in tables] for i in (1, 2))
        sizes = np.asarray([counts, begin, K, q, places, self.blended.partition.n_cells], np.int64)
        speakers = [np.column_stack([a.lower, a.upper, a.piece]) for a in every]
        flat = np.concatenate([t.reshape(-1) for t in tables])
        return ends, sizes, np.concatenate(speakers).astype(np.int64), flat

    def _seated(self, cells: Integers) -> tuple[Integers, Floats]:
        """Rows by cell, and the coefficients of the regions of some cells, (G, q_1 ... q_d C)."""
        group, part = self.blended.groups[0], self.blended.partition
        seats = np.zeros(part.labels.size, np.int64)
        rows = self.blended.group_of[1][part.labels.reshape(-1)[cells]]
        if 2 * len(cells) > len(group.regions):  # what is at hand of all is not copied
            seats[cells], rows = rows, np.arange(len(group.regions))
        else:
            rows, seats[cells] = np.unique(rows, return_inverse=True)
        c = group.model.expand(np.asarray(to_numpy(group.coefficients.take(rows))))
        return seats, np.ascontiguousarray(c).reshape(len(rows), -1)

    def _rows(
        self, k: int, place: Any, two: Any, asks: list[tuple[Order, Integers | None]], order: int
    ) -> Floats:
        """The functions of axis k for all that is asked, (m, q)."""
        own, (j, s) = self.axes[k], place
        up = np.flatnonzero(two)
        piece = np.concatenate([own.piece[j, 0], own.piece[j[up], 1]])
        both = own.pieces.at(piece, np.concatenate([s, s[up]]), order)
        low, high = both[: len(j)], both[len(j) :]
        seat = np.cumsum(two) - 1
        parts = []
        for corner, at in asks:
            if corner[k]:
                parts.append(high[seat if at is None else seat[at]])
            else:
                parts.append(low if at is None else low[at])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _regions(self, places: list[Any], asks: list[tuple[Order, Integers | None]]) -> Integers:
        """The region of each thing asked, (m,)."""
        part, cells = self.blended.partition, []
        for corner, at in asks:
            cell: Any = 0
            for own, (j, _), side, n in zip(self.axes, places, corner, part.n_cells):
                cell = cell * n + (own.upper if side else own.lower)[j if at is None else j[at]]
            cells.append(cell)
        return np.asarray(part.labels.reshape(-1)[np.concatenate(cells)])

    def _of(self, rows: Integers) -> Floats:
        """Coefficients of some regions, ready to be contracted: (G, q_1, C, q_2, ...)."""
        group = self.blended.groups[0]
        c = group.coefficients.take(rows)
        return np.asarray(arranged(group.model.expand(np.asarray(to_numpy(c)))))

    def _one(self, cell: int) -> Floats:
        """Those of the region of one cell, (q_1, C q_2 ...), kept: who asks one asks its like."""
        found = self._kept.get(cell)
        if found is None:
            region = self.blended.partition.labels.reshape(-1)[cell]
            F = self._of(self.blended.group_of[1][region : region + 1])[0]
            if len(self._kept) >= KEPT:
                self._kept.clear()
            found = self._kept[cell] = np.ascontiguousarray(F.reshape(len(F), -1))
        return found

    def value(self, x: tuple[float, ...]) -> Floats:
        """The value (C,) at one point: as few steps as there can be."""
        pairs, part = [], self.blended.partition
        for own, c in zip(self.axes, x):
            at = (c - own.low) * own.per_unit
            j = min(max(int(at), 0), own.count - 1)
            table = own.pieces.coefficients
            P = (2 * (at - j) - 1) ** self._range(table.shape[1])
            first, second = own.piece[j]
            sides = [(int(own.lower[j]), P @ table[first])]
            if second >= 0:
                sides.append((int(own.upper[j]), P @ table[second]))
            pairs.append(sides)
        total: Any = None
        for corner in cartesian(*pairs):
            cell = 0
            for (own_cell, _), n in zip(corner, part.n_cells):
                cell = cell * n + own_cell
            F = self._one(cell)  # (q_1, C q_2 ...)
            X = corner[0][1].astype(F.dtype, copy=False) @ F
            for _, r in reversed(corner[1:]):
                X = X.reshape(-1, len(r)) @ r.astype(X.dtype, copy=False)
            total = X if total is None else total + X
        return np.asarray(total).reshape(-1)

    @staticmethod
    @lru_cache(maxsize=64)
    def _range(n: int) -> Integers:
        return np.arange(n)


def _asked(two: list[Any], corner: Order) -> Integers | None:
    """Points at which the upper cells of a corner speak; None for all of them."""
    up = [t for t, side in zip(two, corner) if side]
    return np.flatnonzero(np.logical_and.reduce(up)) if up else None


def _by_region(rows: list[Floats], factors: Floats, seats: list[int], first: Integers) -> Floats:
    """Products (m, C) of rows (m, q_k), sorted by region, with the factors of each region."""
    m, (q, *rest) = len(rows[0]), factors.shape[1:]
    F = factors.reshape(len(factors), q, math.prod(rest))
    X = np.empty((m, F.shape[2]), F.dtype)
    for seat, i, j in zip(seats, first.tolist(), [*first[1:].tolist(), m]):
        np.dot(rows[0][i:j], F[seat], out=X[i:j])
    return np.asarray(dot(X.reshape(1, m, *rest), [r[None] for r in rows[1:]])[0])
