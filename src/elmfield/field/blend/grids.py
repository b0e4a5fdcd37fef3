"""A blended function of product modes on grids: functions of each axis, contracted in turn."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.autograd import Order
from elmfield._array.backend import add_rows, is_numpy, move, namespace, take
from elmfield._array.running import capacity, runs, spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.blend.means import Runs
from elmfield.local.layers import Pieces, split
from elmfield.local.model import AxisFunctions
from elmfield.partition import blend

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended

NARROW_COLUMNS = 128
"""Columns of a product below which those of all cells are put together, which takes a copy.

A picture of 512 × 512 at its samples takes 5.5 ms so, and 7.4 with a product of 30 columns for each
cell; a volume of 100³ takes 32 ms so, and 20 with one of 900."""


@dataclass(frozen=True, eq=False)
class AxisPlan:
    """Which cells of an axis contribute at which of its p positions.

    Of m pairs of a position and a cell the first p are those of all positions and their lower
    cells; then come blended positions and their upper cells.

    Parameters
    ----------
    cells : integer array, shape (N,)
        The cells that contribute at all.
    seat, at : integer arrays, shape (m,)
        Of each pair: which of these cells, and which position.
    offsets, centres : arrays, shape (m,)
        Where the position lies from the centre of the cell's box, and that in index coordinates.
    ramp : tuple of arrays, shape (p,)
        Weight of the upper cell, and its derivatives along the axis, as many as were asked for.
    """

    cells: Integers
    seat: Integers
    at: Integers
    offsets: Floats
    centres: Floats
    ramp: tuple[Floats, ...]

    @classmethod
    def make(cls, blended: "Blended", k: int, x: Floats, order: int = 0) -> "AxisPlan":
        """The plan for index coordinates `x` on axis k of regular cells, up to derivatives."""
        partition, order = blended.partition, order + blended.holds_means
        along = tuple(slice(None) if j == k else 0 for j in range(len(partition.shape)))
        line = partition.labels[along]  # one region per cell of this axis
        b = blend(partition, k, x, order)
        two = np.flatnonzero(b.ramp[0] > 0)
        cells, seat = np.unique(np.concatenate([b.lower, b.upper[two]]), return_inverse=True)
        at, centre = np.concatenate([np.arange(len(x)), two]), blended.centres[line[cells], k][seat]
        u = x[at] - centre
        if partition.periodic[k]:
            n = partition.shape[k]
            u = u - np.round(u / n) * n
        return cls(cells, seat, at, u, centre, b.ramp)

    def summed(self, functions: AxisFunctions, runs: Runs, orders: set[int]) -> "AxisTable":
        """Sums over runs of the positions of the cells' functions times windows, differentiated.

        ``(φ f)⁽ᵐ⁾ = Σ_i (m over i) φ⁽ⁱ⁾ f⁽ᵐ⁻ⁱ⁾`` in each slot: sums of the slots of a run are the
        blended function's own. ``φ' T`` is added likewise (:attr:`Blended.holds_means`).
        """
        n, p = len(runs), len(runs.places)
        owner = np.repeat(np.arange(n), np.diff(runs.starts, append=p))
        key = self.seat * n + owner[self.at]
        order = np.argsort(key, kind="stable")
        found, first = np.unique(key[order], return_index=True)
        at, u, own = self.at[order], self.offsets[order], functions.at(self.centres[order])
        degrees, T = range(max(orders) + 1), own.deviations
        F = [own(u, m) for m in degrees]
        D = None if T is None else [T(u, m) for m in degrees]
        W = []
        for i, ramp in enumerate(self.ramp):
            w = np.where(order < p, (i == 0) - ramp[at], ramp[at])
            W.append((w * runs.weights[at])[:, None])
        cell, run = np.divmod(found, n)
        # In each cell first what it is the lower one of.
        slot = _slots(cell, np.lexsort((order[first], cell)))
        n_slots, tables = int(slot.max()) + 1, {}
        for m in orders:
            total = sum(math.comb(m, i) * W[i] * F[m - i] for i in range(m + 1))
            if D is not None:
                total += sum(math.comb(m, i) * W[i + 1] * D[m - i] for i in range(m + 1))
            tables[m] = np.zeros((len(self.cells), n_slots, F[0].shape[1]))
            tables[m][cell, slot] = np.add.reduceat(total, first, axis=0)
        by_run = np.argsort(run, kind="stable")
        place = (cell * n_slots + slot)[by_run]
        begin = np.searchsorted(run[by_run], np.arange(n))
        length = np.diff(begin, append=len(place))
        more = [np.flatnonzero(length > j) for j in range(1, int(length.max()))]
        added = tuple((own, place[begin[own] + j]) for j, own in enumerate(more, 1))
        return AxisTable(self.cells, tables, place[begin], added)


def _slots(cell: Integers, order: Integers) -> Integers:
    """Numbers of entries among those of their cell, which `order` sorts by cell."""
    counts = np.bincount(cell)
    slot = np.empty_like(cell)
    slot[order] = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
    return slot


@dataclass(frozen=True, eq=False)
class AxisTable:
    """Functions of an axis in the slots of its cells, and which slots add up to each result.

    Parameters
    ----------
    cells : integer array, shape (N,)
        The cells that contribute.
    tables : dict of arrays, shape (N, n_slots, q)
        The q functions of each cell in its slots, by their order of differentiation.
    first : integer array, shape (p,)
        The slot, among all N n_slots, that each result begins with.
    more : tuple of pairs of integer arrays
        Results, and the slots that are added to them.
    """

    cells: Integers
    tables: Mapping[int, Floats]
    first: Integers
    more: tuple[tuple[Integers, Integers], ...] = ()

    def merge(self, V: Array, wide: int, begin: int) -> Array:
        """Results (B, p, R) from slots, (B, N wide, R); mine begin at `begin` in each cell."""
        n_slots = next(iter(self.tables.values())).shape[1]

        def rows(slots: Integers) -> Array:
            at = slots if wide == n_slots else slots // n_slots * wide + slots % n_slots + begin
            return take(V, move(at, V), axis=1)

        out = rows(self.first)
        for own, slots in self.more:
            out = add_rows(out, own, rows(slots))
        return out


def contracted(c: Array, axes: Sequence[AxisTable], orders: Sequence[Order]) -> list[Array]:
    """Results (p_1, ..., p_d, C) on a grid for each of some orders, from the last axis on.

    Coefficients (C, N_1, ..., N_d, q_1, ..., q_d) are multiplied with the functions of an axis,
    and slots become results before the next axis. What orders share is done once. The axis that is
    multiplied is the last in memory, and its results come before the rest: nothing is rearranged,
    but where products would be narrow, as those of the first of two axes.
    """
    xp, C = namespace(c), c.shape[0]
    found: dict[Order, Array] = {(): c}  # by the orders of the axes that are done
    for k in reversed(range(len(axes))):
        axis, done = axes[k], found
        N, s, q = next(iter(axis.tables.values())).shape
        B = C * math.prod(len(a.cells) for a in axes[:k])
        found = {}
        for after, X in done.items():
            own = sorted({o[k] for o in orders if o[k + 1 :] == after})
            table = np.concatenate([axis.tables[m] for m in own], axis=1)
            M = math.prod(X.shape) // (B * N * q)  # functions of axes to come, results so far
            b = B // C if M < NARROW_COLUMNS else 1
            X = xp.permute_dims(xp.reshape(X, (B // b, b, N, M, q)), (0, 2, 1, 3, 4))
            X = xp.permute_dims(xp.reshape(X, (B // b, N, b * M, q)), (0, 1, 3, 2))
            V = xp.reshape(move(table, c, c.dtype) @ X, (B // b, -1, b * M))
            for j, m in enumerate(own):
                Y = axis.merge(V, table.shape[1], j * s)
                found[m, *after] = xp.permute_dims(xp.reshape(Y, (B // b, -1, b, M)), (0, 2, 1, 3))
    sizes = [len(a.first) for a in axes]
    return [xp.moveaxis(xp.reshape(found[tuple(o)], (C, *sizes)), 0, -1) for o in orders]


def dense_on_grid(blended: "Blended", x: list[Floats]) -> Array:
    """Values (p_1, ..., p_d, C) of dense layers: features once per pattern of places in a box."""
    xp, like, d = namespace(blended.like), blended.like, len(x)
    plans, (which, row) = [AxisPlan.make(blended, k, c) for k, c in enumerate(x)], blended.group_of
    labels = blended.partition.labels[np.ix_(*(p.cells for p in plans))]
    offsets, members = [], []
    slots = []
    for k, plan in enumerate(plans):
        line = np.moveaxis(labels, k, 0).reshape(len(plan.cells), -1)[:, 0]
        slot = _slots(plan.seat, np.argsort(plan.seat, kind="stable"))
        u = np.zeros((len(plan.cells), int(slot.max()) + 1))  # the same for cells with fewer
        u[plan.seat, slot] = plan.offsets
        slots.append(plan.seat * u.shape[1] + slot)
        key = np.column_stack([np.round(u, 9), which[line]])
        _, first, seat = np.unique(key, axis=0, return_index=True, return_inverse=True)
        offsets.append(u[first])
        members.append([np.flatnonzero(seat.reshape(-1) == j) for j in range(len(first))])
    found, order = [], []
    for pattern in itertools.product(*(range(len(o)) for o in offsets)):
        cells = np.ix_(*(m[j] for m, j in zip(members, pattern)))
        regions = labels[cells].reshape(-1)
        group = blended.groups[which[regions[0]]]
        places = np.meshgrid(*(o[j] for o, j in zip(offsets, pattern)), indexing="ij")
        t = np.stack(places, axis=-1).reshape(-1, d) / blended.radii[regions[0]]
        m = group.model.n_modes
        H = [group.model.rows(move(t[a:b], like), (0,) * d)[0]
             for a, b in runs(len(t), max(1, capacity(like) // max(1, m)))]  # fmt: skip
        for a, b in runs(len(regions), max(1, capacity(like) // (2 * max(m, len(t))))):
            alpha = group.model.expand(group.coefficients.take(row[regions[a:b]]))  # (G, m, C)
            flat = xp.reshape(
                xp.permute_dims(alpha, (1, 0, 2)), (alpha.shape[1], (b - a) * alpha.shape[2])
            )
            values = xp.concat([h @ flat for h in H], axis=0)
            found.append(xp.reshape(values, (len(t), b - a, blended.n_channels)))
        order.append(np.arange(labels.size).reshape(labels.shape)[cells].reshape(-1))
    back = move(np.argsort(np.concatenate(order)), like)
    V = xp.take(xp.astype(xp.concat(found, axis=1), blended.dtype), back, axis=1)
    V = xp.reshape(V, (*(u.shape[1] for u in offsets), *labels.shape, blended.n_channels))
    V = xp.permute_dims(V, (2 * d, *(a for k in range(d) for a in (d + k, k))))
    before, after = V.shape[0], math.prod(V.shape[1:])
    for plan, slot, u in zip(plans, slots, offsets):  # cells and slots become positions
        p, rising = len(plan.ramp[0]), plan.ramp[0][:, None]
        lower, upper = slot[:p], slot[:p].copy()
        upper[plan.at[p:]] = slot[p:]
        after //= len(plan.cells) * u.shape[1]
        V = xp.reshape(V, (before, -1, after))
        low, high = (xp.take(V, move(place, V), axis=1) for place in (lower, upper))
        V = low + move(rising, V, V.dtype) * (high - low)
        before *= p
    return xp.moveaxis(xp.reshape(V, (-1, *map(len, x))), 0, -1)


RUN_POSITIONS = 1 << 15
"""Positions that are worked on together: polynomials of their intervals stay in the cache."""

SPARSE_INTERVALS_PER_POSITION = 4
"""Intervals for every position from which polynomials of all of them are not worth making."""


def along(blended: "Blended", x: Floats) -> Floats | None:
    """Values (n, C) at index coordinates x, (n,), on one axis: fast where neighbours follow.

    Of regular cells of one product model, in NumPy; None of others.
    """
    part, group, axes = blended.partition, blended.groups[0], blended.axes
    if axes is None or len(axes) > 1 or not is_numpy(blended.like) or blended.holds_means:
        return None
    pieces = axes[0].pieces
    if pieces is None:
        return None
    tables = np.ascontiguousarray(pieces.coefficients.transpose(1, 2, 0))  # (p, r, J)
    out = np.empty((len(x), blended.n_channels))

    def work(span: tuple[int, int]) -> None:
        at, some = x[slice(*span)], out[slice(*span)]
        b = blend(part, 0, at)
        _of_cells(blended, pieces, tables, b.lower, at, some)
        two = np.flatnonzero(b.ramp[0] > 0)
        if len(two):
            other = np.empty((len(two), out.shape[1]))
            _of_cells(blended, pieces, tables, b.upper[two], at[two], other)
            some[two] += b.ramp[0][two, None] * (other - some[two])

    spread(work, runs(len(x), RUN_POSITIONS), None if group.coefficients.is_shared else 1)
    return out


def _of_cells(
    blended: "Blended", pieces: Pieces, tables: Floats, cells: Integers, x: Floats, out: Floats
) -> None:
    """Local values of the cells that are said, (n,), at positions x, (n,), into `out`, (n, C)."""
    part, group = blended.partition, blended.groups[0]
    J, n = tables.shape[2], len(x)
    first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
    regions = part.labels[cells[first]]
    seat = np.repeat(np.arange(len(first)), np.diff(first, append=n))
    u = x - blended.centres[regions, 0].take(seat)
    if part.periodic[0]:
        u -= np.round(u / part.shape[0]) * part.shape[0]
    j, s = split(pieces.scaled(u))
    F = np.asarray(group.model.expand(group.coefficients.take(blended.group_of[1][regions])))
    F = np.asarray(F, np.float64)  # (G, r, C)
    if len(first) * J > SPARSE_INTERVALS_PER_POSITION * n:
        np.einsum("nr,nrc->nc", pieces.at(j, s), F[seat], out=out)
        return
    seat *= J
    seat += j
    plane, term = np.empty((len(first), J)), np.empty(n)
    for c in range(F.shape[2]):
        own, total = np.ascontiguousarray(F[:, :, c]), np.zeros(n)
        for table in tables[::-1]:
            np.matmul(own, table, out=plane)
            plane.reshape(-1).take(seat, out=term, mode="clip")
            total *= s
            total += term
        out[:, c] = total
