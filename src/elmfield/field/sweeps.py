"""A blended function at many points: a table that is not kept, made row by row and asked at once.

Points are sorted by cell of the lattice. Along all axes but the last, coefficients are mixed for
one row of cells after the other; along the last, one matrix product gives the polynomials of the
whole row, which the points there ask before the next row is made. What a table costs is the memory
it fills: this fills a cache.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from elmfield._array.backend import sort_order
from elmfield._array.memory import Workspace, capacity, runs
from elmfield._array.threads import spread
from elmfield._array.typing import Floats, Integers
from elmfield.field.derivatives import Function
from elmfield.field.expansion import ORDERS, Expansion
from elmfield.field.intervals import to_powers
from elmfield.field.scattered import SHORT

Order = tuple[int, ...]

DENSE = 0.5
"""Points for every cell of the rows they lie in from which on rows are made."""

TOGETHER = 4
"""Rows that are made together: products of small matrices waste time."""

STEP = 4
"""Degrees whose terms are made by one product: those of higher ones need fewer of the last axis."""

KEYS = 1 << 16
"""Places that points are sorted into: as many as are sorted by counting."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """A blended function of product modes on a regular partition, in NumPy, by compiled loops.

    Parameters
    ----------
    expansion : Expansion
        The function.
    allowed : float
        What may be left out, in the field's unit.
    otherwise : Function
        Who answers points that are too few, or derivatives of which no bound is known.
    """

    expansion: Expansion
    allowed: float
    otherwise: Function
    _rows: dict[int, "Rows"] = field(default_factory=dict, repr=False)

    def partials(self, x: Floats, orders: list[Order]) -> list[Floats]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""
        rows = self._rows_for(max(map(sum, orders)))
        if rows is None:
            return self.otherwise.partials(x, orders)
        x = np.ascontiguousarray(x)
        places = Places.make(self.expansion, x)
        if places is None:
            return self.otherwise.partials(x, orders)
        from elmfield.field import loops

        blended, every = self.expansion.blended, np.asarray(orders, np.int64)
        out = np.empty((len(orders), len(x), blended.n_channels), blended.dtype)
        space = Workspace(blended.dtype)

        def work(run: int) -> None:
            for spans, A in rows.along(run, places):
                made, begin = rows.finished(A, space), spans[0, 0]
                mine = places.order[begin : spans[-1, 1]]
                values = np.empty((len(orders), len(mine), out.shape[2]), out.dtype)
                loops.swept(
                    x.take(mine, axis=0), spans - begin, rows.ends, rows.counts, rows.powers,
                    rows.chunks, rows.places, made, every, values,
                )  # fmt: skip
                for into, own in zip(out, values):
                    into[mine] = own

        shared = all(g.coefficients.is_shared for g in blended.groups)
        spread(work, range(len(self.expansion.runs)), None if shared else 1)
        return list(out)

    def _rows_for(self, order: int) -> "Rows | None":
        """How rows are made that know derivatives up to an order; None where nobody does."""
        if order >= ORDERS:
            return None
        if order not in self._rows:
            small = np.all(self.expansion.beyond[: order + 1] <= self.allowed, axis=0)
            if not small.any():
                return None
            rows = Rows(self.expansion, int(np.argmax(small)))
            if rows.size > capacity(np.empty(0)) // 4:
                return None
            self._rows[order] = rows
        return self._rows[order]


@dataclass(frozen=True, eq=False)
class Places:
    """Points in order of their cells.

    Parameters
    ----------
    order : integer array, shape (n,)
        The points, sorted.
    starts : integer array
        Where the points of each row of cells begin, rows in array order; and the end.
    """

    order: Integers
    starts: Integers

    @classmethod
    def make(cls, expansion: Expansion, x: Floats) -> "Places | None":
        """Points of NumPy's; None if they are too few for the rows they lie in."""
        from elmfield.field import loops

        *before, last = expansion.axes
        n_rows = math.prod(a.count for a in before)
        if n_rows > min(KEYS, len(x)):
            return None
        wide = -(-last.count * n_rows // KEYS)
        parts = -(-last.count // wide)
        key = np.empty(len(x), np.uint16 if n_rows * parts <= KEYS else np.int64)
        ends = np.asarray([[a.low for a in expansion.axes], [a.per_unit for a in expansion.axes]])
        for i, j in runs(len(x), SHORT):
            loops.lattice_keys(x[i:j], ends, np.asarray(expansion.counts), wide, key[i:j])
        counts = np.bincount(key, minlength=n_rows * parts).reshape(n_rows, parts).sum(axis=1)
        if len(x) < DENSE * last.count * np.count_nonzero(counts):
            return None
        order: Integers = sort_order(key, n_rows * parts)
        return cls(order, np.append(0, np.cumsum(counts)))


class Rows:
    """Rows of cells along the last axis: terms in Chebyshev's polynomials up to a total degree.

    Parameters
    ----------
    expansion : Expansion
        The function.
    degree : int
        The highest total degree.
    """

    def __init__(self, expansion: Expansion, degree: int) -> None:
        self.expansion, self.degree = expansion, degree
        self.dtype = expansion.blended.dtype
        axes = expansion.axes
        self.ends = np.asarray([[a.low for a in axes], [float(a.per_unit) for a in axes]])
        self.counts = np.asarray(expansion.counts, np.int64)
        # Powers of the axes before the last, by total degree; who they come from, axis by axis.
        self.powers = np.zeros((1, 0), np.int64)
        self.picked: list[Integers] = []
        for a in axes[:-1]:
            K = min(a.rows.shape[1], degree + 1)
            both = [np.repeat(self.powers, K, axis=0), np.tile(np.arange(K), len(self.powers))]
            every = np.column_stack(both)
            total = every.sum(axis=1)
            some = np.flatnonzero(total <= degree)
            some = some[np.argsort(total[some], kind="stable")]
            self.powers = np.ascontiguousarray(every[some])
            self.picked.append(some)
        self._tables = [a.rows[:, : degree + 1].astype(self.dtype) for a in axes[:-1]]
        self._last()

    def _last(self) -> None:
        """The last axis: cells that are alike, and their functions' terms."""
        own = self.expansion.axes[-1]
        K, total = own.rows.shape[1], self.powers.sum(axis=1)
        edges = np.searchsorted(total, np.arange(0, self.degree + STEP, STEP))
        edges = np.unique(np.append(edges, len(total)))
        terms = [min(K, self.degree + 1 - int(total[i])) for i in edges[:-1]]
        self.chunks = np.column_stack([edges[:-1], edges[1:], terms]).astype(np.int64)
        spots = np.full((own.count, 2, 3), -1)  # pattern, cell among its like, interval
        self.alike: list[tuple[Integers, list[Floats]]] = []
        known: dict[bytes, int] = {}
        members: list[list[int]] = []
        for cell in range(self.expansion.blended.partition.n_cells[-1]):
            speaks = [
                (who == cell) & (own.piece[:, s] >= 0)
                for s, who in enumerate((own.lower, own.upper))
            ]
            at = np.concatenate([np.flatnonzero(s) for s in speaks])
            side = np.repeat([0, 1], [np.count_nonzero(s) for s in speaks])
            pieces = own.piece[at, side]
            which = known.setdefault(pieces.tobytes(), len(known))
            if which == len(members):
                members.append([])
                W = np.moveaxis(own.rows[pieces], 2, 0)  # (q, j, K)
                own_terms = [W[:, :, :t] @ to_powers(t).T for t in terms]
                tables = [w.reshape(len(w), -1).astype(self.dtype) for w in own_terms]
                self.alike.append((np.zeros(0, np.int64), tables))
            spots[at, side, 0] = which
            spots[at, side, 1] = len(members[which])
            spots[at, side, 2] = np.arange(len(at))
            members[which].append(cell)
        self.alike = [(np.asarray(m), w) for m, (_, w) in zip(members, self.alike)]
        C, at = self.expansion.blended.n_channels, K  # before them zeros, for who does not speak
        self.begin = np.zeros((len(members), len(terms)), np.int64)
        # Where the terms of an interval begin, and how much farther those of the next power do.
        self.places = np.zeros((own.count, 2, len(terms), 2), np.int64)
        for i, (cells, tables) in enumerate(self.alike):
            mine = spots[..., 0] == i
            for j, (W, (a, b, t)) in enumerate(zip(tables, self.chunks)):
                wide, self.begin[i, j] = W.shape[1], at
                self.places[mine, j, 0] = at + spots[mine, 1] * wide + spots[mine, 2] * t
                self.places[mine, j, 1] = len(cells) * wide
                at += TOGETHER * C * (b - a) * len(cells) * wide
        self.size = int(at)

    def along(self, run: int, places: Places) -> Iterator[tuple[Integers, Floats]]:
        """Rows of a run of the first axis that points lie in, a few at a time.

        Where the points of each begin and end, (B, 2), and what is mixed: (B, C, P, N_d, q_d).
        """
        where, cell = self.expansion.runs[run]
        across = math.prod(self.counts[1:-1])
        if places.starts[where.start * across] == places.starts[where.stop * across]:
            return
        both = np.unique(self.expansion.axes[0].upper[where])
        cells = np.append(cell, both[both != cell])
        X = np.ascontiguousarray(self.expansion.factors(cells), self.dtype)
        yield from self._mixed(0, X[:, None], cells, where, 0, places)

    def _mixed(
        self, k: int, X: Floats, cells: Integers, where: slice, row: int, places: Places
    ) -> Iterator[tuple[Integers, Floats]]:
        """Go on with axis k, of X (C, P, n, q_k, N_(k+1), q_(k+1), ...)."""
        across = math.prod(self.counts[k + 1 : -1])
        begin = (row * int(self.counts[k]) + np.arange(where.start, where.stop + 1)) * across
        ends = places.starts[begin]
        busy = np.flatnonzero(np.diff(ends))
        is_last = k == len(self.counts) - 2
        for i, j in runs(len(busy), TOGETHER if is_last else 1):
            some = busy[i:j]
            Y = self._at(k, X, cells, where.start + some)
            if is_last:
                yield np.column_stack([ends[some], ends[some + 1]]), Y
            else:
                every, at = np.arange(Y.shape[3]), begin[some[0]] // across
                along = slice(0, int(self.counts[k + 1]))
                yield from self._mixed(k + 1, Y[0], every, along, int(at), places)

    def _at(self, k: int, X: Floats, cells: Integers, js: Integers) -> Floats:
        """X mixed on some intervals of axis k: (B, C, P, N_(k+1), q_(k+1), ...)."""
        own, (C, P, _, q) = self.expansion.axes[k], X.shape[:4]
        table, Y = self._tables[k], None
        for side, who in enumerate((own.lower[js], own.upper[js])):
            for cell in np.unique(who[own.piece[js, side] >= 0]):
                at = np.flatnonzero((who == cell) & (own.piece[js, side] >= 0))
                x = X[:, :, np.flatnonzero(cells == cell)[0]].reshape(C * P, q, -1)
                part = table[own.piece[js[at], side]][:, None] @ x
                if Y is None and len(at) == len(js):
                    Y = part
                else:
                    Y = np.zeros((len(js), *part.shape[1:]), self.dtype) if Y is None else Y
                    Y[at] += part
        assert Y is not None
        return np.asarray(Y.reshape(len(js), C, -1, *X.shape[4:])[:, :, self.picked[k]])

    def finished(self, A: Floats, space: Workspace) -> Floats:
        """The terms of some rows, of A (B, C, P, N_d, q_d): see `places` for what stands where."""
        made = space("terms", self.size)
        made[: self.begin[0, 0]] = 0
        for begin, (cells, tables) in zip(self.begin, self.alike):
            some = A[:, :, :, cells[0] : cells[-1] + 1]
            if some.shape[3] != len(cells):
                some = A[:, :, :, cells]
            for at, (i, j, _), W in zip(begin, self.chunks, tables):
                rows = some[:, :, i:j].reshape(-1, len(W))
                there = made[at : at + len(rows) * W.shape[1]].reshape(len(rows), -1)
                np.matmul(rows, W, out=there)
        return made
