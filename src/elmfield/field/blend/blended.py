"""Σ_i φ_i f_i: local models blended into one function, in index coordinates.

Grids are taken axis by axis; points are in `points`. Units, offsets and the place of channels are
added by the field's model.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from elmfield._array.backend import add_runs, move, namespace
from elmfield._array.running import capacity
from elmfield._array.running import runs as runs_of
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.field.blend import grids
from elmfield.field.blend.means import Runs, cell_runs
from elmfield.field.blend.points import partials
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.stored import Coefficients, Draws, Nodes
from elmfield.local.model import AxisFunctions, Basis, LocalModel
from elmfield.partition import Partition, blend

LINE_MIN_POSITIONS = 4096
"""Positions on an axis that are always taken together, and by one polynomial where it is alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Group:
    """Regions that share their local model, and their coefficients.

    Parameters
    ----------
    model : LocalModel
        The local model.
    regions : integer array, shape (G,)
        Region numbers, ascending.
    coefficients : Coefficients
        c of each of them, (G, r, C).
    nodes : Nodes or Draws, optional
        What every region has its own of: the places of a model of kernels, or a hidden layer.
    """

    model: LocalModel
    regions: Integers
    coefficients: Coefficients = field(repr=False)
    nodes: Nodes | Draws | None = field(default=None, repr=False)

    def moved(self, like: Array) -> "Group":
        """The same in the library and on the device of `like`."""
        nodes = None if self.nodes is None else self.nodes.moved(like)
        there = self.coefficients.moved(like)
        return replace(self, model=self.model.moved(like), coefficients=there, nodes=nodes)

    def rows(self, rows: Integers, regions: Integers) -> "Group":
        """The group of some of the regions, by row, under new numbers."""
        nodes = None if self.nodes is None else self.nodes.rows(rows)
        some = self.coefficients.rows(rows)
        return replace(self, regions=regions, coefficients=some, nodes=nodes)


@dataclass(frozen=True, eq=False, kw_only=True)
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
    is_scattered : bool
        Whether regions were fitted to scattered samples, not to those of a grid.
    """

    partition: Partition
    groups: tuple[Group, ...]
    centres: Floats = field(repr=False)
    radii: Floats = field(repr=False)
    is_scattered: bool = False

    @property
    def like(self) -> Array:
        """An array in the library and on the device of all results."""
        return self.groups[0].coefficients.like

    @property
    def dtype(self) -> DType:
        """Dtype of the coefficients and of the values."""
        return self.like.dtype

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return self.groups[0].coefficients.shape[2]

    @property
    def n_stored(self) -> int:
        """Numbers stored: coefficients, and the places of kernels, which groups share."""
        nodes = [g.nodes for g in self.groups if isinstance(g.nodes, Nodes)]
        places = {id(n.positions): int(math.prod(n.positions.shape)) for n in nodes}
        numbers = [g.coefficients.n_stored for g in self.groups]
        return sum((*numbers, *(len(n.members) for n in nodes), *places.values()))

    def basis_of(self, group: Group) -> Basis:
        """The basis of a group of regions whose coefficients are coordinates of their samples."""
        basis = group.model.basis
        if basis is None:
            raise TypeError(f"{self.why_all_is_kept}.")
        return basis

    @property
    def why_all_is_kept(self) -> str | None:
        """Why no coefficient can be left out; None where coordinates of samples are stored."""
        if self.is_scattered:
            return "a field of scattered samples keeps all its coefficients"
        if all(g.model.basis is None and g.coefficients.beliefs is None for g in self.groups):
            return "a field that keeps output weights as they were solved for keeps all of them"
        if any(g.model.basis is None for g in self.groups):
            return (
                "a field of oriented regions is its samples, and keeps all of them. Ask for "
                "keep(psnr=...), max_error, bits or bytes"
            )
        return None

    @property
    def source_samples(self) -> SampleBoxes | None:
        """The samples that settle all regions; None where some have only coefficients."""
        boxes = [g.coefficients.source_samples for g in self.groups]
        return boxes[0] if all(b is not None for b in boxes) else None

    @property
    def exact(self) -> SampleBoxes | None:
        """The samples in the caller's units, where the function passes through all; else None."""
        boxes = self.source_samples
        if boxes is None or not boxes.is_raw:
            return None
        every = (g.coefficients for g in self.groups)
        return boxes if all(c.shape[1] >= math.prod(c.box or ()) for c in every) else None

    @property
    def gives_whole_numbers(self) -> bool:
        """Whether its samples are whole numbers that were coded with loss.

        What comes back at them is rounded to these: so a largest error of 1 is one of 1, and not of
        1 and what evaluating the function adds in the last digit.
        """
        boxes = self.source_samples
        return boxes is not None and boxes.is_lossy and np.dtype(boxes.kind).kind in "iu"

    @property
    def needed(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first sample that regions' boxes need on each axis, and the first beyond."""
        part, (starts, sizes) = self.partition, self.boxes
        low, high = np.maximum(starts.min(0), 0), np.minimum((starts + sizes).max(0), part.shape)
        low, high = np.where(part.periodic, 0, low), np.where(part.periodic, part.shape, high)
        return tuple(low.tolist()), tuple(high.tolist())

    def with_samples(self, boxes: SampleBoxes) -> "Blended":
        """The function of the same regions made of other samples."""
        groups = (replace(g, coefficients=g.coefficients.with_samples(boxes)) for g in self.groups)
        return replace(self, groups=tuple(groups))

    def channels(self, own: slice) -> "Blended":
        """The same function of some of the channels."""
        groups = (replace(g, coefficients=g.coefficients.channels(own)) for g in self.groups)
        return replace(self, groups=tuple(groups))

    def weights(self, region: int) -> Array:
        """Output weights α of one region, (m, C)."""
        which, row = self.group_of
        group = self.groups[which[region]]
        return group.model.weights(group.coefficients.take(row[region : region + 1]))[0, ...]

    def local_model(self, regions: Integers) -> LocalModel:
        """The model of some regions of one group; kernels with their places, layers as drawn."""
        which, row = self.group_of
        group: Group = self.groups[which[regions[0]]]
        if group.nodes is None:
            return group.model
        part = self.partition
        periods = np.where(part.periodic, np.asarray(part.shape, float), np.inf)
        centres, radii = self.centres[regions], self.radii[regions]
        return group.nodes.local(row[regions], centres, radii, periods)

    @cached_property
    def group_of(self) -> tuple[Integers, Integers]:
        """Group of each region, and its row there."""
        which = np.empty(self.partition.n_regions, np.int64)
        row = np.empty_like(which)
        for g, group in enumerate(self.groups):
            which[group.regions], row[group.regions] = g, np.arange(len(group.regions))
        return which, row

    @property
    def boxes(self) -> tuple[Integers, Integers]:
        """First sample and size, (N, d), of the box each region was fitted to; crops know them."""
        sizes = np.empty(self.centres.shape, np.int64)
        for g in self.groups:
            sizes[g.regions] = g.coefficients.box or self.basis_of(g).box
        return np.round(self.centres - (sizes - 1) / 2).astype(np.int64), sizes

    def partials(self, x: Array, orders: list[tuple[int, ...]]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""
        return partials(self, x, orders)

    def on_grid(self, x: list[Floats]) -> Array:
        """Blended values, (p_1, ..., p_d, C), on the grid of index coordinates `x`."""
        return self.partials_on_grid(x, [(0,) * len(x)])[0]

    def at_samples(self, x: list[Floats]) -> Array:
        """What the function has in place of samples with the numbers `x`: values, or means."""
        if not self.holds_means:
            return self.on_grid(x)
        return self.sums([cell_runs(self.partition, k, c) for k, c in enumerate(x)])

    def partials_on_grid(self, x: list[Floats], orders: list[tuple[int, ...]]) -> list[Array]:
        """Mixed derivatives, (p_1, ..., p_d, C) each, on the grid of index coordinates `x`.

        In index units. With product modes each axis is differentiated by itself, at a few times
        what values cost; others are taken point by point.
        """
        if self.axes is not None:
            return self._products([Runs.points(c) for c in x], orders)
        own = any(g.nodes is not None or g.model.axes is not None for g in self.groups)
        is_dense = self.partition.is_regular and not self.is_scattered and not own
        if is_dense and not any(map(any, orders)):  # layers of one shape are the same
            return [grids.dense_on_grid(self, x)]
        xp = namespace(self.like)
        points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
        found = self.partials(move(points, self.like, xp.float64), orders)
        return [xp.reshape(f, (*map(len, x), -1)) for f in found]

    @property
    def holds_means(self) -> bool:
        """Whether the samples are the function's means over their cells, not its values.

        Windows φ and functions f of an axis are then blended as ``φ f + φ' T``, where T' is f less
        its mean over a cell and T is 0 at the cell's ends. The mean of that over a cell is f's
        times φ's, and windows sum to one: where all regions have the same means, so has the
        blended function. It is continuous, and f alone wherever one region speaks.
        """
        axes = self.groups[0].model.axes
        return axes is not None and axes[0].deviations is not None

    @property
    def axes(self) -> tuple[AxisFunctions, ...] | None:
        """The functions of each axis, if all cells share one product model; else None.

        Sums over boxes are then taken axis by axis, exactly.
        """
        alone = len(self.groups) == 1 and self.partition.is_regular
        return self.groups[0].model.axes if alone else None

    # --- sums and parts -------------------------------------------------------------------------

    def sums(self, runs: list[Runs], dtype: DType = None) -> Array:
        """``Σ weights f(places)`` over boxes, (n_1, ..., n_d, C): one for each run on each axis.

        With product modes each axis is summed first, so the grid of places is never formed; in
        the dtype that is given, or that of the coefficients.
        """
        if self.axes is None:
            return self._sums_of_values(runs)
        return self._products(runs, [(0,) * len(runs)], dtype)[0]

    def _products(
        self, runs: list[Runs], orders: list[tuple[int, ...]], dtype: DType = None
    ) -> list[Array]:
        """Sums over runs of derivatives of product models, for each of some orders.

        An axis is halved as long as that takes more numbers than a batch may hold: coefficients of
        all cells that contribute, or functions at the places of an axis.
        """
        xp, group, axes = namespace(self.like), self.groups[0], self.axes
        assert axes is not None
        dtype, lengths = self.dtype if dtype is None else dtype, [len(r.places) for r in runs]
        if lengths[0] > LINE_MIN_POSITIONS and orders == [(0,)]:
            line = grids.along(self, runs[0].places)
            if line is not None:
                line *= runs[0].weights[:, None]
                return [np.add.reduceat(line, runs[0].starts, axis=0).astype(dtype, copy=False)]
        asked = [{o[k] for o in orders} for k in range(len(runs))]
        plans = [grids.AxisPlan.make(self, k, r.places, max(asked[k])) for k, r in enumerate(runs)]
        cells, room = [len(p.cells) for p in plans], capacity(self.like)
        each = group.model.n_modes * self.n_channels * (2 + len(orders))
        has_many_cells = math.prod(cells) * each > room
        k = int(np.argmax(cells if has_many_cells else lengths))
        most = max(LINE_MIN_POSITIONS, room // (8 * axes[k].width))
        if lengths[k] > 1 and (has_many_cells or lengths[k] > most):
            parts = [
                self._products([*runs[:k], half, *runs[k + 1 :]], orders, dtype)
                for half in runs[k].halves()
            ]
            if len(runs[k]) > 1:
                return [xp.concat(same, axis=k) for same in zip(*parts)]
            return [low + high for low, high in zip(*parts)]
        tables = [p.summed(f, r, o) for p, f, r, o in zip(plans, axes, runs, asked)]
        used = self.partition.labels[np.ix_(*(t.cells for t in tables))]
        c = group.model.expand(group.coefficients.take(self.group_of[1][used.reshape(-1)]))
        c = xp.astype(c, dtype, copy=False)
        c = xp.reshape(xp.moveaxis(c, -1, 0), (-1, *used.shape, *c.shape[1:-1]))
        return grids.contracted(c, tables, orders)

    def _sums_of_values(self, runs: list[Runs]) -> Array:
        """The same of values at all places, in float64, a few runs of the first axis at a time."""
        xp, C = namespace(self.like), self.n_channels
        across = math.prod(len(r.places) for r in runs[1:]) * C
        each = max(1, math.ceil(len(runs[0].places) / len(runs[0])))
        step = max(1, capacity(self.like) // (4 * across * each))
        parts = []
        for i, j in runs_of(len(runs[0]), step):
            some = [runs[0].part(i, j), *runs[1:]]
            V = xp.astype(self.on_grid([r.places for r in some]), xp.float64)
            for k, r in enumerate(some):
                w = move(r.weights.reshape([-1 if m == k else 1 for m in range(V.ndim)]), V)
                V = add_runs(V * xp.astype(w, V.dtype), r.starts, axis=k)
            parts.append(V)
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)

    def crop(self, low: tuple[float, ...], high: tuple[float, ...]) -> "Blended":
        """The same function without the regions that do not contribute between two corners."""
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
        starts, sizes = (None if own is None else own[regions] for own in (part.starts, part.sizes))
        groups = []
        for g in self.groups:
            rows = np.flatnonzero(new[g.regions] >= 0)
            if len(rows):
                groups.append(g.rows(rows, new[g.regions[rows]]))
        return Blended(
            partition=part.changed(edges=tuple(edges), labels=labels, starts=starts, sizes=sizes),
            groups=tuple(groups),
            centres=self.centres[regions],
            radii=self.radii[regions],
            is_scattered=self.is_scattered,
        )
