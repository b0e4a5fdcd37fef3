"""Field: partition + modes + coefficients; callable, differentiable, integrable.

``f(x) = offset + scale Σ_i φ_i(x) f_i(x)`` with one local model f_i per region. This module knows
how regions become one function; how their coefficients were found, and what a file is, it does not.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product as cartesian
from typing import Any

import numpy as np

from elmfield.backend import device, is_array, move, namespace, to_numpy
from elmfield.domain import Domain
from elmfield.modes import AxisModes, DenseModes, Modes, ProductModes
from elmfield.partition import Partition, blend
from elmfield.typing import Array, Floats, Integers

BATCH = 1 << 24
"""Numbers held at once by a batch of intermediate results (128 MiB in float64)."""


@dataclass(frozen=True, eq=False)
class Group:
    """Regions that share their modes, and their coefficients.

    Parameters
    ----------
    modes : Modes
        The local model.
    regions : integer array, shape (G,)
        Region numbers, ascending.
    coefficients : array, shape (G, r, C)
        c of each of them.
    """

    modes: Modes
    regions: Integers
    coefficients: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class Field:
    """A continuous function of d coordinates with C channels.

    Made by :func:`elmfield.fit` and :func:`elmfield.fit_points`; call it with points.

    Parameters
    ----------
    domain : Domain
        The box, its axes and their units.
    partition : Partition
        Cells, regions and overlap.
    groups : tuple of Group
        Local models and coefficients.
    centres, radii : arrays, shape (N, d)
        Of the regions' boxes, in index coordinates: ``t = (x - centre) / radius``.
    offset, scale : arrays, shape (C,)
        Taken off the samples before fitting, put back on the way out.
    channel_axis : int or None
        Where gridded results have their channels.
    is_complex : bool
        The second half of the channels holds the imaginary parts.
    input_dtype : str
        What the samples were.
    residual : array, shape (N,), or None
        Sum of squares that the fit left over in each region's box, all channels.
    settings : object
        What the field was made with.
    """

    domain: Domain
    partition: Partition
    groups: tuple[Group, ...]
    centres: Floats = field(repr=False)
    radii: Floats = field(repr=False)
    offset: Array = field(repr=False)
    scale: Array = field(repr=False)
    channel_axis: int | None = None
    is_complex: bool = False
    input_dtype: str = "float64"
    residual: Array | None = field(default=None, repr=False)
    settings: object = None

    # --- what a person wants to know -----------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis of the array the field came from."""
        return self.domain.shape

    @property
    def n_channels(self) -> int:
        """Number of channels C; a complex one counts once."""
        return int(self.offset.shape[0]) // (2 if self.is_complex else 1)

    @property
    def n_coefficients(self) -> int:
        """Numbers stored, all regions and channels together."""
        return sum(math.prod(g.coefficients.shape) for g in self.groups)

    @property
    def dtype(self) -> Any:
        """Dtype of the coefficients and of the values."""
        return self.groups[0].coefficients.dtype

    def __repr__(self) -> str:
        sizes = "×".join(map(str, self.shape))
        return (
            f"Field({sizes}, {self.n_channels} channel{'s' * (self.n_channels != 1)}, "
            f"{self.partition.n_regions} regions, {self.n_coefficients} coefficients)"
        )

    def report(self) -> "Report":
        """Sizes, ranks and errors, as a table that prints itself."""
        samples = math.prod(self.shape) * int(self.offset.shape[0])
        ranks = sorted({g.modes.rank for g in self.groups})
        rows = {
            "samples": " × ".join(map(str, self.shape)),
            "channels": f"{self.n_channels}" + (" (complex)" if self.is_complex else ""),
            "input dtype": self.input_dtype,
            "coefficient dtype": str(self.dtype).removeprefix("torch."),
            "axes": ", ".join(
                a.name + (" (periodic)" if a.period is not None else "") for a in self.domain.axes
            ),
            "cells": " × ".join(map(str, self.partition.n_cells)),
            "regions": f"{self.partition.n_regions}",
            "footprints": f"{len(self.groups)}",
            "overlap": ", ".join(f"{o:g}" for o in self.partition.overlap),
            "rank of a region": ", ".join(map(str, ranks)),
            "coefficients": f"{self.n_coefficients}",
            "coefficients per sample": f"{self.n_coefficients / samples:.3f}",
        }
        if self.residual is not None:
            total = float(namespace(self.residual).sum(self.residual))
            count = sum(len(g.regions) * self._box_size(g) for g in self.groups)
            rms = (total / count / int(self.offset.shape[0])) ** 0.5
            rows["rms residual at the samples"] = f"{rms:.3g}"
        if self.settings is not None:
            rows["settings"] = str(self.settings)
        return Report(rows)

    def _box_size(self, group: Group) -> int:
        return int(np.prod(self.partition.boxes[1][group.regions[0]]))

    def weights(self, region: int) -> Array:
        """Output weights α of one region's hidden neurons, shape (m,) or (m, C).

        The local model is ``offset + Σ_j α_j h_j(t)``, in local coordinates t.
        """
        N = self.partition.n_regions
        if not 0 <= region < N:
            raise ValueError(f"`region` must lie between 0 and {N - 1}; got {region}.")
        g, row = self._group_of[0][region], self._group_of[1][region]
        group = self.groups[g]
        alpha = group.modes.weights(group.coefficients[row : row + 1, ...])[0, ...]
        alpha = self._finish(alpha, constant=False)
        return alpha[..., 0] if self.channel_axis is None else alpha

    # --- values at points ----------------------------------------------------------------------

    def __call__(self, points: Array, *, outside: str = "raise") -> Array:
        """Values at `points`.

        Parameters
        ----------
        points : array, shape (..., d)
            Coordinates: sample indices for a plain array, else in the axes' own units.
        outside : {"raise", "nearest", "nan"}
            What to do with points outside the domain.

        Returns
        -------
        array, shape (...,) or (..., C)
        """
        zero = (0,) * len(self.shape)
        return self._query(points, outside, lambda x, *_: self._partials(x, [zero])[0], True)

    def gradient(self, points: Array, *, outside: str = "raise") -> Array:
        """First derivatives along the axes, shape (..., d) or (..., C, d), per coordinate unit."""
        d = len(self.shape)

        def take(x: Array, slope: Array, bend: Array) -> Array:
            parts = self._partials(x, [_unit(d, k) for k in range(d)])
            return namespace(x).stack(
                [p * _cast(slope[:, k, None], p) for k, p in enumerate(parts)], axis=-1
            )

        return self._query(points, outside, take)

    def hessian(self, points: Array, *, outside: str = "raise") -> Array:
        """Second derivatives, shape (..., d, d) or (..., C, d, d), per coordinate unit squared."""
        d = len(self.shape)
        pairs = [(k, l) for k in range(d) for l in range(k, d)]

        def take(x: Array, slope: Array, bend: Array) -> Array:
            xp = namespace(x)
            orders = [_unit(d, k) for k in range(d)] + [_unit(d, k, l) for k, l in pairs]
            parts = self._partials(x, orders)
            entry = {}
            for (k, l), f_kl in zip(pairs, parts[d:]):
                entry[k, l] = f_kl * _cast((slope[:, k] * slope[:, l])[:, None], f_kl)
                if k == l:  # the axis's own curvature, for unevenly spaced coordinates
                    entry[k, l] = entry[k, l] + parts[k] * _cast(bend[:, k, None], f_kl)
            rows = [
                xp.stack([entry[min(k, l), max(k, l)] for l in range(d)], axis=-1) for k in range(d)
            ]
            return xp.stack(rows, axis=-2)

        return self._query(points, outside, take)

    def laplacian(self, points: Array, *, outside: str = "raise") -> Array:
        """Sum of the unmixed second derivatives, shape (...,) or (..., C)."""
        d = len(self.shape)

        def take(x: Array, slope: Array, bend: Array) -> Array:
            parts = self._partials(
                x, [_unit(d, k) for k in range(d)] + [_unit(d, k, k) for k in range(d)]
            )
            total = parts[0] * 0
            for k in range(d):
                total = total + parts[d + k] * _cast(slope[:, k, None] ** 2, total)
                total = total + parts[k] * _cast(bend[:, k, None], total)
            return total

        return self._query(points, outside, take)

    def _query(self, points: Array, outside: str, take: Any, constant: bool = False) -> Array:
        """Check the points, evaluate them in batches, give back the shape the caller expects."""
        if outside not in ("raise", "nearest", "nan"):
            raise ValueError(f"`outside` must be 'raise', 'nearest' or 'nan'; got {outside!r}.")
        x = self._points(points)
        xp, d = namespace(x), len(self.shape)
        lead = tuple(x.shape[:-1])
        x = xp.reshape(x, (-1, d))
        index, slope, bend, beyond = self.domain.to_index(x, outside)
        step = max(1, BATCH // (64 * d * int(self.offset.shape[0])))
        parts = [
            self._finish(take(*(a[i : i + step, :] for a in (index, slope, bend))), constant)
            for i in range(0, max(x.shape[0], 1), step)
        ]
        out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        if beyond is not None:
            mark = xp.reshape(beyond, (-1,) + (1,) * (out.ndim - 1))
            out = xp.where(mark, xp.full_like(out, xp.nan), out)
        out = xp.reshape(out, lead + tuple(out.shape[1:]))
        return out[(slice(None),) * len(lead) + (0,)] if self.channel_axis is None else out

    def _points(self, points: Array) -> Array:
        """`points` in float64, in the field's library and on its device."""
        like = self.offset
        if not is_array(points):
            points = np.asarray(points)
        if isinstance(points, np.ndarray):
            if points.dtype.kind not in "fiu":
                raise ValueError(f"`points` must hold real numbers; got dtype {points.dtype}.")
        elif namespace(points) is not namespace(like) or device(points) != device(like):
            raise ValueError(
                f"`points` must live where the field lives; got {type(points).__name__} on "
                f"{device(points)} for a field on {device(like)}. Move one of them."
            )
        d = len(self.shape)
        if points.ndim == 0 or points.shape[-1] != d:
            hint = " Add a trailing axis: points[..., None]." if d == 1 else ""
            raise ValueError(
                f"`points` must have shape (..., {d}), one coordinate per axis; got shape "
                f"{tuple(points.shape)}.{hint}"
            )
        return move(points, like, namespace(like).float64)

    def _finish(self, values: Array, constant: bool) -> Array:
        """Undo scale and offset; values (n, C, ...); pair up real and imaginary parts."""
        xp = namespace(values)
        tail = (1,) * (values.ndim - 2)
        values = values * _cast(xp.reshape(self.scale, (-1, *tail)), values)
        if constant:
            values = values + _cast(xp.reshape(self.offset, (-1, *tail)), values)
        if self.is_complex:
            C = self.n_channels
            values = values[:, :C, ...] + 1j * values[:, C:, ...]
        return values

    @cached_property
    def _group_of(self) -> tuple[Integers, Integers]:
        """Group of each region, and its row there."""
        which = np.empty(self.partition.n_regions, np.int64)
        row = np.empty_like(which)
        for g, group in enumerate(self.groups):
            which[group.regions], row[group.regions] = g, np.arange(len(group.regions))
        return which, row

    def _partials(self, x: Array, orders: list[tuple[int, ...]]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

        Leibniz: ``∂^a (φ f) = Σ_{b ≤ a} C(a, b) ∂^b φ ∂^(a-b) f``, summed over the cells that speak.
        """
        xp = namespace(x)
        n, d = x.shape
        top = [max(a[k] for a in orders) for k in range(d)]
        blends = [blend(self.partition, k, x[:, k], top[k]) for k in range(d)]
        labels = move(np.ascontiguousarray(self.partition.labels.reshape(-1)), x)
        needed = sorted({rest for a in orders for _, _, rest in _leibniz(a)})
        zeros = xp.zeros((n, self.offset.shape[0]), dtype=self.dtype, device=device(x))
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
                    total[j] = total[j] + _cast(w[:, None], f) * f
        return total

    def _local(
        self, region: Array, x: Array, orders: list[tuple[int, ...]]
    ) -> dict[tuple[int, ...], Array]:
        """Local models ∂^a f_i at x: region numbers (n,), positions (n, d); results (n, C) each.

        Points are sorted by region and worked on in padded batches of regions.
        """
        xp = namespace(x)
        host = to_numpy(region)
        which, row = self._group_of
        # Regions in order of group, then of how many points they have: little padding is needed.
        regions, counts = np.unique(host, return_counts=True)
        ranked = np.lexsort((counts, which[regions]))
        rank_of = np.empty(self.partition.n_regions, np.int64)
        rank_of[regions[ranked]] = np.arange(len(regions))
        order_of_points = np.argsort(rank_of[host], kind="stable")
        regions, counts = regions[ranked], counts[ranked]
        starts = np.cumsum(counts) - counts
        sorted_x = xp.take(x, move(order_of_points, x), axis=0)
        found: dict[tuple[int, ...], list[Array]] = {a: [] for a in orders}
        for first, last in self._batches(which[regions], counts):
            group = self.groups[which[regions[first]]]
            r, p = regions[first:last], int(counts[last - 1])
            slots = np.arange(p)
            at = np.minimum(starts[first:last, None] + slots, len(host) - 1)
            valid = move(np.flatnonzero(slots < counts[first:last, None]), x)
            u = xp.reshape(xp.take(sorted_x, move(at.reshape(-1), x), axis=0), (len(r), p, -1))
            t = self._local_coordinates(u, r)
            c = xp.take(group.coefficients, move(row[r], x), axis=0)
            factors = group.modes.expand(c)
            t = xp.astype(t, factors.dtype)
            for a in orders:
                values = _contract(group.modes.rows(t, a), factors)
                stretch = np.prod(self.radii[r] ** -np.asarray(a, dtype=float), axis=1)
                values = values * move(stretch[:, None, None], x, values.dtype)
                flat = xp.reshape(values, (len(r) * p, -1))
                found[a].append(xp.astype(xp.take(flat, valid, axis=0), self.dtype))
        back = move(np.argsort(order_of_points, kind="stable"), x)
        empty = xp.zeros((0, self.offset.shape[0]), dtype=self.dtype, device=device(x))
        return {a: xp.take(xp.concat([empty, *v], axis=0), back, axis=0) for a, v in found.items()}

    def _local_coordinates(self, u: Array, regions: Integers) -> Array:
        """t of positions u (G, p, d), wrapped to the nearest image on periodic axes."""
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
        first = 0
        for last in range(1, len(group) + 1):
            if last < len(group):
                modes = self.groups[group[first]].modes
                width = max(16, modes.n_modes) if isinstance(modes, DenseModes) else 256
                same = group[last] == group[first]
                if (
                    same
                    and (last + 1 - first) * (int(counts[last]) * width + modes.n_modes) <= BATCH
                ):
                    continue
            yield first, last
            first = last

    # --- values on grids -----------------------------------------------------------------------

    def resize(self, shape: Sequence[int], *, dtype: Any = None) -> Array:
        """The field at another number of samples, each standing for an equal part of the domain.

        Sample j of n' sits at ``(j + 1/2) n / n' - 1/2``, as in `skimage.transform.resize`.

        Parameters
        ----------
        shape : sequence of int
            New number of samples on each axis (without channels).
        dtype : optional
            Of the result; an integer dtype rounds and clips. Default: the field's own.
        """
        d = len(self.shape)
        if len(tuple(shape)) != d or any(int(n) != n or n < 1 for n in shape):
            raise ValueError(
                f"`shape` must be {d} whole numbers of at least 1, one per axis; got {shape!r}."
            )
        low, high = np.asarray(self.domain.low), np.asarray(self.domain.high)
        step = [(b - a) / int(n) for a, b, n in zip(low, high, shape)]
        x = [a + (np.arange(int(n)) + 0.5) * h for a, n, h in zip(low, shape, step)]
        return self._gridded(x, dtype)

    def samples(self, *, dtype: Any = None) -> Array:
        """The field at its own samples: an array of the shape that was fitted."""
        return self._gridded([np.arange(n, dtype=float) for n in self.shape], dtype)

    def grid(self, *coordinates: Array, dtype: Any = None, outside: str = "raise") -> Array:
        """Values on the grid spanned by one array of coordinates per axis.

        Returns an array of shape ``(len(coordinates[0]), ..., len(coordinates[d-1]))``, with
        channels where the input had them.
        """
        d = len(self.shape)
        if len(coordinates) != d:
            raise ValueError(
                f"`grid` takes one array of coordinates per axis, {d}; got {len(coordinates)}."
            )
        x, beyond = [], []
        for k, c in enumerate(coordinates):
            c = np.atleast_1d(np.asarray(to_numpy(c), dtype=np.float64))
            only = replace(
                self.domain,
                axes=self.domain.axes[k : k + 1],
                low=self.domain.low[k : k + 1],
                high=self.domain.high[k : k + 1],
            )
            index, _, _, wrong = only.to_index(c[:, None], outside)
            x.append(index[:, 0])
            beyond.append(np.zeros(len(c), bool) if wrong is None else wrong)
        out = self._gridded(x, dtype)
        if any(b.any() for b in beyond):
            xp = namespace(out)
            mark = beyond[0]
            for b in beyond[1:]:
                mark = mark[..., None] | b
            if self.channel_axis is not None:
                mark = np.expand_dims(mark, self.channel_axis)
            out = xp.where(move(mark, out), xp.full_like(out, xp.nan), out)
        return out

    def _gridded(self, x: list[Floats], dtype: Any) -> Array:
        """Values on the grid of index coordinates `x`, in blocks of rows; channels put in place."""
        xp, C = namespace(self.offset), int(self.offset.shape[0])
        across = math.prod(len(c) for c in x[1:]) * C
        rows = max(1, BATCH // max(1, 4 * across))
        parts = []
        for i in range(0, len(x[0]), rows):
            block = self._block([x[0][i : i + rows], *x[1:]])
            flat = self._finish(xp.reshape(block, (-1, C)), True)
            parts.append(_as_dtype(xp.reshape(flat, (*block.shape[:-1], -1)), dtype))
        out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
        if self.channel_axis is None:
            return out[..., 0]
        return xp.moveaxis(out, -1, self.channel_axis)

    def _block(self, x: list[Floats]) -> Array:
        """Blended values, (p_1, ..., p_d, C), on the grid of index coordinates `x`."""
        xp = namespace(self.offset)
        if not (self._is_product or self._is_dense):
            points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
            at = move(points, self.offset, xp.float64)
            (values,) = self._partials(at, [(0,) * len(x)])
            return xp.reshape(values, (*map(len, x), -1))
        plans = [AxisPlan.make(self, k, c) for k, c in enumerate(x)]
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

    def _separable(self, plans: "list[AxisPlan]", tables: list[Floats]) -> Array:
        """Local values (C, N_1, p_1, ..., N_d, p_d) by one small product per axis.

        ``tables[k]``, shape (N_k, p_k, q_k), holds the mode functions of axis k at its positions.
        """
        xp = namespace(self.offset)
        d = len(plans)
        group = self.groups[0]
        c = self._cells(plans, group.modes.expand(group.coefficients))  # (N_1..N_d, q_1..q_d, C)
        X = xp.permute_dims(c, (2 * d, *(a for k in range(d) for a in (k, d + k))))
        shape, after = [X.shape[0]], math.prod(X.shape[1:])
        for table in tables:
            N, p, q = table.shape
            after //= N * q
            T = move(table, self.offset, self.dtype)
            if after == 1:  # the last axis: fewer, larger products this way round
                X = xp.permute_dims(xp.reshape(X, (-1, N, q)), (1, 0, 2))
                X = xp.permute_dims(X @ xp.permute_dims(T, (0, 2, 1)), (1, 0, 2))
            else:
                X = T @ xp.reshape(X, (-1, N, q, after))
            shape += [N, p]
        return xp.reshape(X, tuple(shape))

    def _by_class(self, plans: "list[AxisPlan]") -> Array:
        """Local values of a dense layer: its features once per pattern of positions in a box."""
        xp = namespace(self.offset)
        d, C = len(plans), int(self.offset.shape[0])
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
            t = move(u / self.radii[regions[0]], self.offset)
            found = []
            step = max(1, BATCH // (2 * max(group.modes.n_modes, len(u)) * C))
            for i in range(0, len(regions), step):
                c = xp.take(group.coefficients, move(row[regions[i : i + step]], t), axis=0)
                alpha = group.modes.expand(c)  # (G, m, C)
                G, m = alpha.shape[0], alpha.shape[1]
                flat = xp.reshape(xp.permute_dims(alpha, (1, 0, 2)), (m, G * C))
                piece = [
                    group.modes.rows(t[j : j + max(1, BATCH // m), :], (0,) * d)[0] @ flat
                    for j in range(0, len(u), max(1, BATCH // m))
                ]
                found.append(xp.reshape(xp.concat(piece, axis=0), (len(u), G, C)))
            values.append(xp.astype(xp.concat(found, axis=1), self.dtype))
            order.append(
                np.ravel_multi_index(np.meshgrid(*members, indexing="ij"), cells).reshape(-1)
            )
        back = move(np.argsort(np.concatenate(order)), self.offset)
        V = xp.take(xp.concat(values, axis=1), back, axis=1)  # (p_1 ... p_d, cells, C)
        V = xp.reshape(V, (*slots, *cells, C))
        return xp.permute_dims(V, (2 * d, *(a for k in range(d) for a in (d + k, k))))

    def _cells(self, plans: "list[AxisPlan]", values: Array) -> Array:
        """Per-region `values` (N, ...) of the cells the plans use: (N_1, ..., N_d, ...)."""
        xp = namespace(values)
        values = xp.reshape(values, (*self.partition.n_cells, *values.shape[1:]))
        for k, plan in enumerate(plans):
            if plan.cells.size < self.partition.n_cells[k]:
                values = xp.take(values, move(plan.cells, values), axis=k)
        return values

    # --- boxes ---------------------------------------------------------------------------------

    def crop(self, low: Sequence[float], high: Sequence[float]) -> "Field":
        """The same function on a smaller box, without the regions that do not reach into it.

        Parameters
        ----------
        low, high : sequences of float
            Corners of the box, in the axes' own units.
        """
        d = len(self.shape)
        self._corners(low, high)
        domain = self.domain.crop(low, high)
        edges, kept = [], []
        for k in range(d):
            n_cells = self.partition.n_cells[k]
            first, last = 0, n_cells
            if not self.partition.periodic[k]:
                ends = blend(self.partition, k, np.asarray([domain.low[k], domain.high[k]]))
                first, last = int(ends.lower[0]), int(ends.upper[1]) + 1
            kept.append(slice(first, last))
            edges.append(self.partition.edges[k][first : last + 1])
        regions, labels = np.unique(self.partition.labels[tuple(kept)], return_inverse=True)
        shape = tuple(len(e) - 1 for e in edges)
        partition = replace(self.partition, edges=tuple(edges), labels=labels.reshape(shape))
        new = np.full(self.partition.n_regions, -1)
        new[regions] = np.arange(len(regions))
        groups = []
        for g in self.groups:
            rows = np.flatnonzero(new[g.regions] >= 0)
            if len(rows):
                c = namespace(g.coefficients).take(
                    g.coefficients, move(rows, g.coefficients), axis=0
                )
                groups.append(Group(g.modes, new[g.regions[rows]], c))
        return replace(
            self,
            domain=domain,
            partition=partition,
            groups=tuple(groups),
            centres=self.centres[regions],
            radii=self.radii[regions],
            residual=None,
        )

    def integral(self, low: Sequence[float], high: Sequence[float]) -> Array:
        """Integral over the box between two corners, a number or shape (C,).

        Notes
        -----
        Gauss-Legendre between the knots of the windows, with enough nodes for the highest frequency
        of the product layer: exact to rounding there. ReLU layers have kinks: about three digits
        better than the midpoint rule on the samples, no more.
        """
        self._corners(low, high)
        domain = self.domain.crop(low, high)
        xp, C = namespace(self.offset), int(self.offset.shape[0])
        nodes, quadrature = zip(*(self._nodes(domain, k) for k in range(len(self.shape))))
        if self._is_product:
            plans = [AxisPlan.make(self, k, x) for k, x in enumerate(nodes)]
            tables = [
                (plan.spread(v)[:, None, :] @ axis(plan.offsets))
                for axis, plan, v in zip(self._axes, plans, quadrature)
            ]
            V = xp.reshape(self._separable(plans, tables), (C, -1))
            total = xp.sum(xp.astype(V, xp.float64), axis=1)
        else:
            total = xp.zeros(C, dtype=xp.float64, device=device(self.offset))
            across = math.prod(len(x) for x in nodes[1:]) * C
            rows = max(1, BATCH // max(1, 4 * across))
            for i in range(0, len(nodes[0]), rows):  # the grid of nodes is never held whole
                V = xp.reshape(self._block([nodes[0][i : i + rows], *nodes[1:]]), (-1, C))
                w = quadrature[0][i : i + rows]
                for v in quadrature[1:]:
                    w = np.multiply.outer(w, v)
                total = total + move(w.reshape(-1), V, xp.float64) @ xp.astype(V, xp.float64)
        volume = math.prod(float(np.sum(v)) for v in quadrature)
        value = total * xp.astype(self.scale, xp.float64) + volume * xp.astype(
            self.offset, xp.float64
        )
        value = xp.astype(value, self.dtype)
        if self.is_complex:
            value = value[: self.n_channels] + 1j * value[self.n_channels :]
        return value[0] if self.channel_axis is None else value

    def _nodes(self, domain: Domain, k: int) -> tuple[Floats, Floats]:
        """Quadrature nodes (index coordinates) and weights (coordinate units) on axis k."""
        low, high, axis = domain.low[k], domain.high[k], self.domain.axes[k]
        delta = self.partition.overlap[k]
        borders = self.partition.borders(k)
        cuts = np.concatenate([borders - delta, borders + delta, borders])
        if axis.knots is not None:  # the map to coordinates has a kink in its second derivative
            cuts = np.concatenate([cuts, np.arange(axis.size)])
        cuts = np.unique(np.concatenate([[low, high], cuts[(cuts > low) & (cuts < high)]]))
        nodes, weights = [], []
        for a, b in zip(cuts[:-1], cuts[1:]):
            x, w = np.polynomial.legendre.leggauss(int(2 * (b - a)) + 10)
            nodes.append((a + b) / 2 + (b - a) / 2 * x)
            weights.append((b - a) / 2 * w)
        x, w = np.concatenate(nodes), np.concatenate(weights)
        slope = axis.to_index(axis.from_index(x))[1]
        return x, w / np.abs(slope)

    def _corners(self, low: Sequence[float], high: Sequence[float]) -> None:
        d = len(self.shape)
        if np.shape(low) != (d,) or np.shape(high) != (d,):
            raise ValueError(
                f"`low` and `high` must be corners with one coordinate per axis, {d}; got "
                f"{low!r} and {high!r}."
            )


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
    def make(cls, f: Field, k: int, x: Floats) -> "AxisPlan":
        """The plan for index coordinates `x` on axis k of a field with a regular partition."""
        along = [0] * len(f.shape)
        along[k] = slice(None)  # type: ignore[call-overload]
        line = f.partition.labels[tuple(along)]  # one region per cell of this axis
        b = blend(f.partition, k, x)
        two = b.ramp[0] > 0
        cell = np.concatenate([b.lower, b.upper[two]])
        position = np.concatenate([x, x[two]])
        cells, inverse = np.unique(cell, return_inverse=True)
        by_cell = np.argsort(inverse, kind="stable")
        counts = np.bincount(inverse)
        slot = np.empty(len(cell), np.int64)
        slot[by_cell] = np.arange(len(cell)) - np.repeat(np.cumsum(counts) - counts, counts)
        u = position - f.centres[line[cell], k]
        if f.partition.periodic[k]:
            n = f.partition.shape[k]
            u = u - np.round(u / n) * n
        offsets = np.zeros((len(cells), int(counts.max())))
        offsets[inverse, slot] = u
        at = inverse * offsets.shape[1] + slot
        upper = at[: len(x)].copy()
        upper[two] = at[len(x) :]
        key = np.column_stack([np.round(offsets, 9), f.radii[line[cells], k]])
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


@dataclass(frozen=True)
class Report:
    """What is known about a field: rows of a name and a text, printed as a table."""

    rows: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.rows[name]

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.rows.items())
        return f"<table>{''.join(cells)}</table>"


def _unit(d: int, *axes: int) -> tuple[int, ...]:
    """The multi-index that differentiates once along each of the given axes."""
    return tuple(axes.count(k) for k in range(d))


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


def _cast(x: Array, like: Array) -> Array:
    return namespace(x).astype(x, like.dtype)


def _finite(n: Array) -> Array:
    xp = namespace(n)
    return xp.where(xp.isinf(n), xp.zeros_like(n), n)


def _as_dtype(values: Array, dtype: Any) -> Array:
    """`values` as `dtype`; integers are rounded and clipped to what the dtype holds."""
    xp = namespace(values)
    if dtype is None:
        return values
    if isinstance(dtype, (str, type, np.dtype)):
        dtype = getattr(xp, np.dtype(dtype).name)
    if xp.isdtype(dtype, "integral"):
        info = xp.iinfo(dtype)
        values = xp.clip(xp.round(values), float(info.min), float(info.max))
    return xp.astype(values, dtype)
