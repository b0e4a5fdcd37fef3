"""Σ_i φ_i f_i: local models blended into one function, in index coordinates.

Points are sorted by region and worked on in padded batches; grids are taken axis by axis. Units,
offsets, and where channels belong are the Field's business.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product as cartesian
from typing import Any

import numpy as np

from elmfield.backend import device, is_on_host, move, namespace, put_rows, to_numpy
from elmfield.field.plan import AxisPlan
from elmfield.memory import room
from elmfield.modes import AxisModes, DenseModes, Modes, ProductModes
from elmfield.partition import Partition, blend
from elmfield.typing import Array, Floats, Integers

CACHED = 1 << 20
"""Numbers a batch of scattered points holds at most on a processor: what fits its cache."""


@dataclass(frozen=True, eq=False)
class Group:
    """Regions that share their modes, and their coefficients.

    Parameters
    ----------
    modes : Modes
        The local model.
    regions : integer array, shape (G,)
        Region numbers, ascending.
    coefficients : array, shape (G, r, C), or Ragged
        c of each of them; ragged where regions keep different modes. Anything with the `shape`,
        `like`, `n_stored`, `take` and `rows` of a `Ragged` will do, such as what a file holds.
    """

    modes: Modes
    regions: Integers
    coefficients: Any = field(repr=False)

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return int(self.coefficients.shape[2])

    @property
    def values(self) -> Array:
        """The stored numbers, in an array of any shape."""
        c = self.coefficients
        return getattr(c, "values", c)

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""
        return getattr(self.coefficients, "like", self.coefficients)

    @property
    def n_coefficients(self) -> int:
        """Numbers stored."""
        c = self.coefficients
        return int(c.n_stored) if hasattr(c, "n_stored") else math.prod(c.shape)

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some of the regions, by row."""
        c = self.coefficients
        if hasattr(c, "n_stored"):  # ragged, or still in a file
            return c.take(rows)
        if len(rows) == len(self.regions) and np.array_equal(rows, np.arange(len(rows))):
            return c
        return namespace(c).take(c, move(rows, c), axis=0)

    def rows(self, rows: Integers, regions: Integers) -> "Group":
        """The group of some of the regions, by row, under new numbers."""
        c = self.coefficients
        part = c.rows(rows) if hasattr(c, "n_stored") else self.take(rows)
        return Group(self.modes, regions, part)


@dataclass(frozen=True, eq=False)
class Blended:
    """Local models, one per region, and the windows that make one function of them.

    Parameters
    ----------
    partition : Partition
        Cells, regions and overlap.
    groups : tuple of Group
        Local models and coefficients.
    centres, radii : arrays, shape (N, d)
        Of the regions' boxes, in index coordinates: ``t = (x - centre) / radius``.
    """

    partition: Partition
    groups: tuple[Group, ...]
    centres: Floats = field(repr=False)
    radii: Floats = field(repr=False)

    @property
    def like(self) -> Array:
        """An array in the library and on the device of all results."""
        return self.groups[0].like

    @property
    def dtype(self) -> Any:
        """Dtype of the coefficients and of the values."""
        return self.like.dtype

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return self.groups[0].n_channels

    def weights(self, region: int) -> Array:
        """Output weights α of one region, (m, C)."""
        which, row = self._group_of
        group = self.groups[which[region]]
        return group.modes.weights(group.take(row[region : region + 1]))[0, ...]

    @cached_property
    def _group_of(self) -> tuple[Integers, Integers]:
        """Group of each region, and its row there."""
        which = np.empty(self.partition.n_regions, np.int64)
        row = np.empty_like(which)
        for g, group in enumerate(self.groups):
            which[group.regions], row[group.regions] = g, np.arange(len(group.regions))
        return which, row

    def partials(self, x: Array, orders: list[tuple[int, ...]]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

        Leibniz: ``∂^a (φ f) = Σ_{b ≤ a} C(a, b) ∂^b φ ∂^(a-b) f``, over the cells that speak.
        """
        xp = namespace(x)
        n, d = x.shape
        top = [max(a[k] for a in orders) for k in range(d)]
        blends = [blend(self.partition, k, x[:, k], top[k]) for k in range(d)]
        labels = move(np.ascontiguousarray(self.partition.labels.reshape(-1)), x)
        needed = sorted({rest for a in orders for _, _, rest in _leibniz(a)})
        zeros = xp.zeros((n, self.n_channels), dtype=self.dtype, device=device(x))
        total = [zeros for _ in orders]
        for corner in cartesian((0, 1), repeat=d):
            active = xp.ones(n, dtype=xp.bool, device=device(x))
            cell = xp.zeros(n, dtype=xp.int64, device=device(x))
            for k, (b, up) in enumerate(zip(blends, corner)):
                cell = cell * self.partition.n_cells[k] + (b.upper if up else b.lower)
                if up:
                    active = active & (b.ramp[0] > 0)
            everywhere = not any(corner)
            if everywhere:
                local = self._local(xp.take(labels, cell), x, needed)
            else:
                (where,) = xp.nonzero(active)
                if where.shape[0] == 0:
                    continue
                region = xp.take(labels, xp.take(cell, where))
                local = self._local(region, xp.take(x, where, axis=0), needed)
            place = xp.cumulative_sum(xp.astype(active, xp.int64)) - 1
            for j, a in enumerate(orders):
                for factor, times, rest in _leibniz(a):
                    w = xp.full(n, float(factor), dtype=xp.float64, device=device(x))
                    for b, up, t in zip(blends, corner, times):
                        w = w * (b.ramp[t] if up else (1.0 if t == 0 else 0.0) - b.ramp[t])
                    f = local[rest]
                    if not everywhere:
                        w = xp.where(active, w, xp.zeros_like(w))
                        f = xp.take(f, xp.maximum(place, xp.zeros_like(place)), axis=0)
                    total[j] = total[j] + cast(w[:, None], f) * f
        return total

    def _local(
        self, region: Array, x: Array, orders: list[tuple[int, ...]]
    ) -> dict[tuple[int, ...], Array]:
        """Local models ∂^a f_i at x: region numbers (n,), positions (n, d); results (n, C) each.

        Points are sorted by region and worked on in padded batches of regions, where the points
        are; only the number of points in each region comes to the host.
        """
        xp = namespace(x)
        n, N, C = x.shape[0], self.partition.n_regions, self.n_channels
        which, row = self._group_of
        by_region = xp.argsort(region, stable=True)
        every = xp.arange(N + 1, dtype=region.dtype, device=device(x))
        starts = to_numpy(xp.searchsorted(xp.take(region, by_region), every))
        counts = np.diff(starts)
        # Regions in order of group, then of how many points they have: little padding is needed.
        regions = np.flatnonzero(counts)
        regions = regions[np.lexsort((counts[regions], which[regions]))]
        # One row more than there are points: where the padding goes.
        found = {a: xp.empty((n + 1, C), dtype=self.dtype, device=device(x)) for a in orders}
        for first, last in self._batches(which[regions], counts[regions]):
            r = regions[first:last]
            group, p = self.groups[which[r[0]]], int(counts[r[-1]])
            slots = xp.arange(p, device=device(x))
            at = move(starts[r][:, None], x) + slots
            padded = slots >= move(counts[r][:, None], x)
            point = xp.take(by_region, xp.reshape(xp.clip(at, 0, n - 1), (-1,)))
            u = xp.reshape(xp.take(x, point, axis=0), (len(r), p, -1))
            point = xp.where(xp.reshape(padded, (-1,)), xp.full_like(point, n), point)
            t = self._local_coordinates(u, r)
            factors = group.modes.expand(group.take(row[r]))
            t = xp.astype(t, factors.dtype)
            for a in orders:
                values = _contract(group.modes.rows(t, a), factors)
                stretch = np.prod(self.radii[r] ** -np.asarray(a, dtype=float), axis=1)
                if np.any(stretch != 1):
                    values = values * move(stretch[:, None, None], x, values.dtype)
                flat = xp.reshape(values, (len(r) * p, C))
                found[a] = put_rows(found[a], point, xp.astype(flat, self.dtype))
        return {a: v[:n, :] for a, v in found.items()}

    def _local_coordinates(self, u: Array, regions: Integers) -> Array:
        """Coordinates t of positions u (G, p, d), wrapped to the nearest image on periodic axes."""
        xp = namespace(u)
        centre = move(self.centres[regions][:, None, :], u)
        t = u - centre
        wraps = self.partition.periodic
        if any(wraps):
            n = move(np.where(wraps, self.partition.shape, np.inf), u)
            t = t - xp.where(xp.isinf(n), xp.zeros_like(t), xp.round(t / n) * _finite(n))
        return t / move(self.radii[regions][:, None, :], u)

    def _batches(self, group: Integers, counts: Integers) -> Iterator[tuple[int, int]]:
        """Runs of regions of one group whose padded work fits the batch."""
        limit = room(self.like)
        limit = min(limit, CACHED) if is_on_host(self.like) else limit
        sizes = np.asarray([g.modes.n_modes for g in self.groups])
        widths = [n if isinstance(g.modes, DenseModes) else 256 for n, g in zip(sizes, self.groups)]
        work = (counts * np.asarray(widths)[group] + sizes[group]).tolist()
        first = 0
        for last in range(1, len(group) + 1):
            same = last < len(group) and group[last] == group[first]
            if same and (last + 1 - first) * work[last] <= limit:
                continue
            yield first, last
            first = last

    def on_grid(self, x: list[Floats]) -> Array:
        """Blended values, (p_1, ..., p_d, C), on the grid of index coordinates `x`."""
        xp = namespace(self.like)
        if not (self._is_product or self._is_dense):
            points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
            at = move(points, self.like, xp.float64)
            (values,) = self.partials(at, [(0,) * len(x)])
            return xp.reshape(values, (*map(len, x), -1))
        plans = [self.plan(k, c) for k, c in enumerate(x)]
        if self._is_product:
            V = self._separable(plans, [a(p.offsets) for a, p in zip(self._axes, plans)])
        else:
            V = self._by_class(plans)
        # V: (C, N_1, p_1, ..., N_d, p_d), merged into (C, p_1, ..., p_d) axis by axis
        before, after = V.shape[0], math.prod(V.shape[1:])
        for plan in plans:
            after //= plan.cells.size * plan.n_slots
            V = plan.merge(xp.reshape(V, (before, -1, after)))
            before *= len(plan.lower)
        return xp.moveaxis(xp.reshape(V, (-1, *map(len, x))), 0, -1)

    def plan(self, k: int, x: Floats) -> AxisPlan:
        """Which cells of axis k speak at index coordinates `x`."""
        return AxisPlan.make(self.partition, self.centres, self._group_of[0], k, x)

    @property
    def _is_product(self) -> bool:
        """Whether all regions are cells with the same product modes: axes can be taken in turn."""
        one = len(self.groups) == 1 and isinstance(self.groups[0].modes, ProductModes)
        return one and self.partition.is_regular

    @property
    def _is_dense(self) -> bool:
        """Whether all regions are cells with modes of a dense layer."""
        dense = all(isinstance(g.modes, DenseModes) for g in self.groups)
        return dense and self.partition.is_regular

    @property
    def _axes(self) -> tuple[AxisModes, ...]:
        modes = self.groups[0].modes
        assert isinstance(modes, ProductModes)
        return modes.axes

    def _separable(self, plans: list[AxisPlan], tables: list[Floats]) -> Array:
        """Local values (C, N_1, p_1, ..., N_d, p_d) by one small product per axis.

        ``tables[k]``, shape (N_k, p_k, q_k), holds the mode functions of axis k at its positions.
        """
        xp = namespace(self.like)
        d = len(plans)
        group = self.groups[0]
        used = self.partition.labels[np.ix_(*(p.cells for p in plans))]
        c = group.modes.expand(group.take(self._group_of[1][used.reshape(-1)]))
        c = xp.reshape(c, (*used.shape, *c.shape[1:]))  # (N_1..N_d, q_1..q_d, C)
        X = xp.permute_dims(c, (2 * d, *(a for k in range(d) for a in (k, d + k))))
        shape, after = [X.shape[0]], math.prod(X.shape[1:])
        for table in tables:
            N, p, q = table.shape
            after //= N * q
            T = move(table, self.like, self.dtype)
            if after == 1:  # the last axis: fewer, larger products this way round
                X = xp.permute_dims(xp.reshape(X, (-1, N, q)), (1, 0, 2))
                X = xp.permute_dims(X @ xp.permute_dims(T, (0, 2, 1)), (1, 0, 2))
            else:
                X = T @ xp.reshape(X, (-1, N, q, after))
            shape += [N, p]
        return xp.reshape(X, tuple(shape))

    def _by_class(self, plans: list[AxisPlan]) -> Array:
        """Local values of a dense layer: its features once per pattern of positions in a box."""
        xp = namespace(self.like)
        d, C = len(plans), self.n_channels
        slots = [p.n_slots for p in plans]
        cells = [p.cells.size for p in plans]
        which, row = self._group_of
        labels = self.partition.labels[np.ix_(*(p.cells for p in plans))]
        values, order = [], []
        for pattern in cartesian(*(range(len(p.patterns)) for p in plans)):
            members = [np.flatnonzero(p.pattern_of == c) for p, c in zip(plans, pattern)]
            regions = labels[np.ix_(*members)].reshape(-1)
            group = self.groups[which[regions[0]]]
            u = np.stack(
                np.meshgrid(*(p.patterns[c] for p, c in zip(plans, pattern)), indexing="ij"),
                axis=-1,
            ).reshape(-1, d)
            t = move(u / self.radii[regions[0]], self.like)
            found = []
            step = max(1, room(self.like) // (2 * max(group.modes.n_modes, len(u)) * C))
            for i in range(0, len(regions), step):
                alpha = group.modes.expand(group.take(row[regions[i : i + step]]))  # (G, m, C)
                G, m = alpha.shape[0], alpha.shape[1]
                flat = xp.reshape(xp.permute_dims(alpha, (1, 0, 2)), (m, G * C))
                piece = [
                    group.modes.rows(t[a:b, :], (0,) * d)[0] @ flat
                    for a, b in runs(len(u), max(1, room(self.like) // m))
                ]
                found.append(xp.reshape(xp.concat(piece, axis=0), (len(u), G, C)))
            values.append(xp.astype(xp.concat(found, axis=1), self.dtype))
            order.append(
                np.ravel_multi_index(np.meshgrid(*members, indexing="ij"), cells).reshape(-1)
            )
        back = move(np.argsort(np.concatenate(order)), self.like)
        V = xp.take(xp.concat(values, axis=1), back, axis=1)  # (p_1 ... p_d, cells, C)
        V = xp.reshape(V, (*slots, *cells, C))
        return xp.permute_dims(V, (2 * d, *(a for k in range(d) for a in (d + k, k))))

    # --- integrals and parts --------------------------------------------------------------------

    def integrate(self, nodes: list[Floats], weights: list[Floats]) -> Array:
        """``Σ weights f(nodes)`` over the grid of nodes, shape (C,), in float64.

        With product modes each axis is summed first, so the grid is never formed.
        """
        xp, C = namespace(self.like), self.n_channels
        if self._is_product:
            plans = [self.plan(k, x) for k, x in enumerate(nodes)]
            tables = [
                plan.spread(w)[:, None, :] @ axis(plan.offsets)
                for axis, plan, w in zip(self._axes, plans, weights)
            ]
            V = xp.reshape(self._separable(plans, tables), (C, -1))
            return xp.sum(xp.astype(V, xp.float64), axis=1)
        total = xp.zeros(C, dtype=xp.float64, device=device(self.like))
        across = math.prod(len(x) for x in nodes[1:]) * C
        for i, j in runs(len(nodes[0]), max(1, room(self.like) // (4 * across))):
            V = xp.reshape(self.on_grid([nodes[0][i:j], *nodes[1:]]), (-1, C))
            w = weights[0][i:j]
            for v in weights[1:]:
                w = np.multiply.outer(w, v)
            total = total + move(w.reshape(-1), V, xp.float64) @ xp.astype(V, xp.float64)
        return total

    def crop(self, low: tuple[float, ...], high: tuple[float, ...]) -> "Blended":
        """The same function without the regions that do not speak between two corners."""
        part = self.partition
        edges, kept = [], []
        for k, n_cells in enumerate(part.n_cells):
            first, last = 0, n_cells
            if not part.periodic[k]:
                ends = blend(part, k, np.asarray([low[k], high[k]]))
                first, last = int(ends.lower[0]), int(ends.upper[1]) + 1
            kept.append(slice(first, last))
            edges.append(part.edges[k][first : last + 1])
        regions, labels = np.unique(part.labels[tuple(kept)], return_inverse=True)
        labels = labels.reshape([len(e) - 1 for e in edges])
        new = np.full(part.n_regions, -1)
        new[regions] = np.arange(len(regions))
        groups = []
        for g in self.groups:
            rows = np.flatnonzero(new[g.regions] >= 0)
            if len(rows):
                groups.append(g.rows(rows, new[g.regions[rows]]))
        return Blended(
            replace(part, edges=tuple(edges), labels=labels),
            tuple(groups),
            self.centres[regions],
            self.radii[regions],
        )


def _leibniz(a: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """All (C(a, b), b, a - b) with b ≤ a."""
    return [
        (
            math.prod(math.comb(i, j) for i, j in zip(a, b)),
            b,
            tuple(i - j for i, j in zip(a, b)),
        )
        for b in cartesian(*(range(i + 1) for i in a))
    ]


def _contract(rows: list[Array], factors: Array) -> Array:
    """``Σ rows_1[q_1] ... rows_p[q_p] factors[q_1 ... q_p]``: (G, p, q_k), (G, q_1 ... q_p, C)."""
    xp = namespace(factors)
    G, q, C = factors.shape[0], factors.shape[1:-1], factors.shape[-1]
    n = len(q)
    # Channels right after the first index: one matrix product, then dot products along last axes.
    F = xp.permute_dims(factors, (0, 1, n + 1, *range(2, n + 1)))
    X = rows[0] @ xp.reshape(F, (G, q[0], -1))
    X = xp.reshape(X, (G, X.shape[1], C, *q[1:]))
    for row in reversed(rows[1:]):
        shaped = xp.reshape(row, (*row.shape[:2], *(1,) * (X.ndim - 3), row.shape[2]))
        X = xp.vecdot(X, xp.broadcast_to(shaped, X.shape), axis=-1)
    return X


def runs(n: int, step: int) -> list[tuple[int, int]]:
    """Ranges of at most `step` that cover 0 to n; one, empty, for n = 0."""
    return [(i, min(i + step, n)) for i in range(0, max(n, 1), step)]


def cast(x: Array, like: Array) -> Array:
    """`x` in the dtype of `like`."""
    return namespace(x).astype(x, like.dtype)


def _finite(n: Array) -> Array:
    xp = namespace(n)
    return xp.where(xp.isinf(n), xp.zeros_like(n), n)
