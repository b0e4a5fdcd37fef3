"""Sums over the windowed functions of each axis, at points: few, or many on few samples.

Every axis is cut into intervals on which its functions are polynomials, windows included.
"""

import math
from dataclasses import dataclass, field
from itertools import product as cartesian
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.autograd import Order
from elmfield._array.backend import is_on_host, sort_order, to_numpy
from elmfield._array.running import capacity, runs, spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.blend.points import add_up, arranged, corners, dot
from elmfield.field.tables.intervals import Intervals, intervals_of

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended
    from elmfield.field.model import Model

DIRECT_MAX_POINTS = 4096
"""Points of a call up to which sums are direct.

A picture of 512 × 512 at 1000 points takes 1.5 ms so, and 8 by the blended function; at 10 000 both
take 20 ms, at 50 000 it is 70 and 40 ms. Compiled loops over points were 1.0 to 2.5 times as fast
from 1000 points on, and a table that is made for the call and thrown away pays from four points a
sample on, at most twice: neither is worth a second way."""

DENSE_MIN_POINTS = 24
"""Points a sample of one axis and a cell of the other from which on they are said to lie densely.

A million on 512 × 512 samples are 122 and take 0.34 s instead of 0.9; 36 take 0.16 instead of 0.22,
16 take 0.13 instead of 0.10."""

DENSE_BLOCK_POINTS = 1 << 13
"""Points that lie densely whose functions of both axes are held at once."""

UNEVEN_MAX_SAMPLES = 2048
"""Samples of an uneven axis up to which there are direct sums."""

REGIONS_KEPT = 64
"""Regions whose coefficients are kept ready for points that come one by one."""


@dataclass(frozen=True, eq=False)
class Direct:
    """A blended function of product modes on a regular partition; in NumPy.

    Parameters
    ----------
    blended : Blended
        The function.
    axes : tuple of Intervals
        The windowed functions of each axis.
    """

    blended: "Blended"
    axes: tuple[Intervals, ...]
    _kept: dict[int, Floats] = field(default_factory=dict, repr=False)

    def partials(self, x: Floats, orders: list[Order]) -> list[Floats]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""
        return self._dense(x, orders) if self.is_dense(len(x)) else self._sparse(x, orders)

    # --- many points on few samples -----------------------------------------------------------

    def is_dense(self, n: int) -> bool:
        """Whether so many points lie densely on two axes, and sums of a span fit in memory."""
        if len(self.axes) != 2 or n <= DIRECT_MAX_POINTS:
            return False
        (first, second), (N, M) = self.axes, self.blended.partition.n_cells
        longest = max(where.stop - where.start for where, _ in first.runs())
        room = longest * first.rows.shape[1] * M * second.rows.shape[2] * self.blended.n_channels
        return n >= DENSE_MIN_POINTS * N * second.count and room <= capacity(self.blended.like)

    def _dense(self, x: Floats, orders: list[Order]) -> list[Floats]:
        """The same for points that lie densely.

        Sums over the functions of the first axis come first, as polynomials on each of its
        intervals: a point needs no window there. Points come by run of these intervals, then by
        interval of the second axis: those that one of its cells contributes to follow each other.
        """
        F = self._of(self.blended.group_of[1][self.blended.partition.labels.reshape(-1)])
        dtype, highest = F.dtype, max(map(max, orders))
        first, second = axes = tuple(own.within_rounding(dtype, highest) for own in self.axes)
        cells, C = self.blended.partition.n_cells, self.blended.n_channels
        spans, J = [where for where, _ in first.runs()], second.count
        span = np.repeat(np.arange(len(spans)), [where.stop - where.start for where in spans])
        key = span.take(first.places(x[:, 0])[0]) * J + second.places(x[:, 1])[0]
        by = sort_order(key, len(spans) * J)
        starts = np.cumsum(np.bincount(key + 1, minlength=len(spans) * J + 1))
        asks = second.by_cell(slice(None))
        F = np.moveaxis(F.astype(np.float64, copy=False).reshape(*cells, F.shape[1], -1), 1, 0)
        out = [np.empty((len(x), C), dtype) for _ in orders]
        tables = second.pieces.coefficients.astype(dtype, copy=False)
        widths = [own.rows.shape[1] + (C + 1) * own.rows.shape[2] for own in axes]
        room = capacity(self.blended.like) // (8 * len(orders) * max(widths))
        step = max(1, min(room, DENSE_BLOCK_POINTS))

        def work(own: int) -> None:
            where, begin = spans[own], starts[own * J : (own + 1) * J + 1]
            mine = by[begin[0] : begin[-1]]
            if len(mine) == 0:
                return
            at = x.take(mine, axis=0)
            (j, s), (k, r) = (axis.places(at[:, i]) for i, axis in enumerate(axes))
            total = np.zeros((len(orders), C, len(mine)), dtype)
            s, r = s.astype(dtype, copy=False), r.astype(dtype, copy=False)
            local = (j - where.start).astype(np.min_scalar_type(where.stop - where.start))
            G, begin = _along(first, where, F).astype(dtype, copy=False), begin - begin[0]
            for cell, intervals, piece in asks:
                T, edges = tables[piece], begin[intervals.start : intervals.stop + 1]
                low, high = int(edges[0]), int(edges[-1])
                for a, b in runs(high - low, step) if low < high else ():
                    some = slice(low + a, low + b)
                    sub, back = np.argsort(local[some], kind="stable"), np.empty(b - a, np.int64)
                    back[sub] = np.arange(b - a)
                    ends = np.cumsum(np.bincount(local[some]))
                    at = (first, j[some].take(sub), s[some].take(sub))
                    X = {
                        o: _in_turn(*at, o, G[cell], ends).take(back, axis=0)
                        for o in {o for o, _ in orders}
                    }
                    at, ends = (second, k[some], r[some]), np.clip(edges[1:] - low - a, 0, b - a)
                    R = {o: _in_turn(*at, o, T, ends) for o in {o for _, o in orders}}
                    for into, (o, p) in zip(total, orders):
                        into[:, some] += np.einsum("mcq,mq->cm", X[o].reshape(b - a, C, -1), R[p])
            for into, values in zip(out, total):
                into[mine] = values.T

        spread(work, range(len(spans)))
        return out

    # --- few points ---------------------------------------------------------------------------

    def _sparse(self, x: Floats, orders: list[Order]) -> list[Floats]:
        part = self.blended.partition
        places = [own.places(x[:, k]) for k, own in enumerate(self.axes)]
        # Each point asks its lower cells, and blended ones others; then by region.
        who, sides = corners([own.piece[j, 1] >= 0 for own, (j, _) in zip(self.axes, places)])
        asks, sides = np.concatenate(who), sides.T.astype(np.int64)
        cell: Array = 0
        for own, (j, _), up, n in zip(self.axes, places, sides, part.n_cells):
            own_cell = j[asks]
            cell = cell * n + np.where(up, own.upper[own_cell], own.lower[own_cell])
        region = part.labels.reshape(-1)[cell]
        by = np.argsort(region, kind="stable")
        busy, first = np.unique(region[by], return_index=True)
        n = len(self.blended.groups[0].regions)
        most = 2 * len(busy) > n  # what is at hand of all is not copied
        factors = self._of(np.arange(n) if most else self.blended.group_of[1][busy])
        seats = self.blended.group_of[1][busy].tolist() if most else list(range(len(busy)))
        places = [(j[asks[by]], s[asks[by]]) for j, s in places]
        known: dict[tuple[int, int], Floats] = {}
        out = []
        for a in orders:
            for k, i in enumerate(a):
                if (k, i) not in known:
                    own, (j, s) = self.axes[k], places[k]
                    rows = own.pieces.at(own.piece[j, sides[k, by]], s, i)
                    if i and own.per_step is not None:
                        rows *= own.per_step[j, None] ** i
                    known[k, i] = rows.astype(factors.dtype, copy=False)
            values = _by_region([known[k, i] for k, i in enumerate(a)], factors, seats, first)
            every = np.empty_like(values)
            every[by] = values
            out.append(add_up(who, every))
        return out

    def _of(self, rows: Integers) -> Floats:
        """Coefficients of some regions, ready to be contracted: (G, q_1, C, q_2, ...)."""
        group = self.blended.groups[0]
        c = group.coefficients.take(rows)
        return np.asarray(arranged(group.model.expand(np.asarray(to_numpy(c)))))

    def _one(self, cell: int) -> Floats:
        """Those of the region of one cell, (q_1, C q_2 ...), kept: the next point is often near."""
        found = self._kept.get(cell)
        if found is None:
            region = self.blended.partition.labels.reshape(-1)[cell]
            F = self._of(self.blended.group_of[1][region : region + 1])[0]
            if len(self._kept) >= REGIONS_KEPT:
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
            P = (2 * (at - j) - 1) ** np.arange(table.shape[1])
            first, second = own.piece[j]
            sides = [(int(own.lower[j]), P @ table[first])]
            if second >= 0:
                sides.append((int(own.upper[j]), P @ table[second]))
            pairs.append(sides)
        total: Array = None
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


def _along(own: Intervals, where: slice, F: Floats) -> Floats:
    """Sums over the functions of the first axis as polynomials, (cells, j, K, C q_2).

    Of coefficients (cells, cells, q_1, C q_2): of the second axis, then of the first.
    """
    G: Floats = np.zeros(0)
    for side, piece in enumerate(own.piece[where].T):
        some = np.flatnonzero(piece >= 0)  # all of the lower cell, which comes first
        if len(some):
            tables = own.pieces.coefficients[piece[some]]  # (j, K, q_1)
            cell = (own.upper if side else own.lower)[where][some[0]]
            found = tables.reshape(-1, tables.shape[2]) @ F[:, cell]
            found = found.reshape(len(F), *tables.shape[:2], -1)
            if side:
                G[:, some] += found
            else:
                G = found
    return G


def _in_turn(
    own: Intervals, j: Integers, s: Floats, order: int, tables: Floats, ends: Integers
) -> Floats:
    """Polynomials at points that come interval by interval, (m, q): tables (J, K, q)."""
    P = own.pieces.powers(s, order)
    if order and own.per_step is not None:
        P *= own.per_step[j] ** order
    P = P.T
    out, a = np.empty((len(s), tables.shape[2]), s.dtype), 0
    for table, b in zip(tables, ends.tolist()):
        if a < b:
            np.matmul(P[a:b], table, out=out[a:b])
        a = b
    return out


def _by_region(rows: list[Floats], factors: Floats, seats: list[int], first: Integers) -> Floats:
    """Products (m, C) of rows (m, q_k), sorted by region, with the factors of each region."""
    m, (q, *rest) = len(rows[0]), factors.shape[1:]
    F = factors.reshape(len(factors), q, math.prod(rest))
    X = np.empty((m, F.shape[2]), F.dtype)
    for seat, i, j in zip(seats, first.tolist(), [*first[1:].tolist(), m]):
        np.dot(rows[0][i:j], F[seat], out=X[i:j])
    return np.asarray(dot(X.reshape(1, m, *rest), [r[None] for r in rows[1:]])[0])


def direct_sums(model: "Model") -> Direct | None:
    """Direct sums of products; None where there are none, or on another device."""
    blended = model.blended
    # Weights of waves are large and cancel: rounding in expansions would show in derivatives.
    if not is_on_host(blended.like) or blended.groups[0].model.basis is None:
        return None
    # Every box of an uneven axis has functions of its own: of long ones only those that are asked.
    if any(a.spacing is not None and a.size > UNEVEN_MAX_SAMPLES for a in model.domain.axes):
        return None
    axes = intervals_of(model)
    return None if axes is None else Direct(blended, axes)
