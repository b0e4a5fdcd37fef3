"""Fields on output grids: values, derivatives or means, with coordinates and labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from elmfield._array.backend import as_dtype, to_numpy
from elmfield._array.checks import by_name, choice, share
from elmfield._array.progress import silent
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Axis
from elmfield.domain.axis import cell_edges
from elmfield.domain.sphere import cosine
from elmfield.field import Field
from elmfield.field.adapters.affine import spacing_of
from elmfield.field.blend.means import means_over
from elmfield.field.coordinates.labels import Labels, format_coordinate
from elmfield.field.coordinates.output_positions import shows_gaps, whole_dtype, winners
from elmfield.field.coordinates.parse import is_ordered, own_coords
from elmfield.field.coordinates.units import derivative_labels
from elmfield.field.grid_values import MEAN_MIN_COVER, at_samples, gridded, tail_of
from elmfield.field.point_values import QUANTITIES
from elmfield.field.uncertainty.posterior import std_of_means
from elmfield.fit.curvilinear import METHOD, Curvilinear, FaceField
from elmfield.fit.polygon_means import polygon_means
from elmfield.io.export.map_targets import MapTarget, even, reprojected
from elmfield.io.export.output_grid import OutputGrid, TargetGrid, ends_of
from elmfield.io.formats.media import decimate, noted_rate, own_rate, time_axis, times
from elmfield.io.gridded import Gridded, labels_at, step_of

MAX_VALUES = 1 << 33
"""Numbers that are made at once."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Rendering:
    """What is wanted of a field, wherever; :meth:`on` an output grid makes Gridded samples.

    Parameters
    ----------
    field : Field
        What to evaluate.
    quantity : {"value", "gradient_magnitude", "laplacian", "std"}
        What of it.
    mean : bool
        Whether values are means over the cells of the grid, by area on the sphere.
    antialias : bool
        Whether fewer samples than before are means over what each stands for.
    dtype : optional
        Of the numbers; whole numbers stay what they were by default.
    missing, progress : optional
        As for :func:`elmfield.write`.
    min_coverage : float
        Part of a cell that samples have to cover for it to have a mean.
    """

    field: Field
    quantity: str = "value"
    mean: bool = False
    antialias: bool = True
    dtype: DTypeLike | None = None
    missing: str | None = None
    progress: Progress = silent
    min_coverage: float = MEAN_MIN_COVER

    def __post_init__(self) -> None:
        choice("quantity", self.quantity, QUANTITIES)
        choice("antialias", self.antialias, (True, False))
        share("min_coverage", self.min_coverage)
        if choice("mean", self.mean, (True, False)) and self.quantity not in ("value", "std"):
            raise ValueError(f"means are of values; got quantity={self.quantity!r}.")

    def on(self, grid: OutputGrid) -> Gridded:
        """The field on a grid; NaN beyond its domain."""
        world, is_value = grid.in_world(self.field), self.quantity == "value"
        own = grid.named("rate", "spacing", "affine", *(() if world is None else ("like",)))
        if own and not is_value:
            raise ValueError(f"`{own[0]}` is for values; got quantity={self.quantity!r}.")
        if is_value and (rate := grid.rate_for(self.field)) is not None:
            return self.at_rate(rate)
        if world is not None:
            return self._in_world(*world)
        if tail_of(self.quantity, len(self.field.shape)):
            raise ValueError(
                f"a file has one number for each sample and channel, and a {self.quantity} has "
                "several. Ask for 'gradient_magnitude' or 'laplacian', or write the array itself: "
                f"write(field.grid(..., quantity={self.quantity!r}), path)."
            )
        window = by_name("window", grid.window)
        if grid.is_target and window:
            part = self.field.crop(*self.field.model.coordinates.ends(window))
            return replace(self, field=part).on(replace(grid, window=None))
        target, axes = grid.target(self._frame), self.field.domain.axes
        if target is None:
            coordinates = self.field.model.coordinates
            x = coordinates.positions(
                grid.shape, scale=grid.scale, spacing=grid.spacing, window=window,
                align=grid.alignment(self.field),
            )  # fmt: skip
            if not self.mean:
                around = coordinates.boxes(x, window) if self.antialias else ()
                return self._at_places(x, around)
            target = TargetGrid({a.name: a.from_index(c) for a, c in zip(axes, x)})
        return self.on_target(target)

    def _check_size(self, x: Sequence[Floats]) -> None:
        count = math.prod(len(c) for c in x) * max(1, self.field.model.n_channels)
        if count > MAX_VALUES:
            raise ValueError(f"{count} values do not fit in memory; ask for windows of them.")

    @property
    def _listed(self) -> dict[str, Floats]:
        """Coordinates of the samples, of axes that do not only count."""
        return {a.name: a.coords for a in self.field.domain.axes if a.coords is not None}

    def _gridded(self, values: Array, coords: Mapping[str, Floats], labels: Labels) -> Gridded:
        """Values on the field's own axes."""
        axes = self.field.domain.axes
        return Gridded(
            values=values,
            dims=self.field.domain.dims,
            coords=coords,
            channel_axis=self.field.model.channel_axis,
            periods={a.name: a.period for a in axes if a.period is not None},
            labels=labels,
        )

    def _labels(self, labels: Labels) -> Labels:
        """Of the quantity: units and dtype of a derivative are not those of the values."""
        if self.quantity == "value":
            return labels
        told = derivative_labels(labels, self.quantity, self.field.domain.dims)
        return replace(told, dtype=None, fill_value=None)

    # --- the samples' own grid, finer or coarser -----------------------------------------------

    def _at_places(self, x: Sequence[Floats], boxes: Sequence[Floats | None]) -> Gridded:
        """The quantity on the grid of index coordinates `x`, or its means over `boxes`.

        At samples values are these, as they were given.
        """
        self._check_size(x)
        labels, model, dtype = self.field.labels, self.field.model, self.dtype
        axes, at = model.domain.axes, model.coordinates.in_turn(x)
        if not all(np.array_equal(c, np.arange(a.size)) for a, c in zip(axes, x)):
            labels = _moved(labels, self.field.domain.dims, x)
        if dtype is None and self.quantity == "value":
            dtype = whole_dtype(model, self.missing)
        gaps, is_mean = shows_gaps(model, self.missing), labels.samples == "means"
        own_boxes = (
            b is None or (is_mean and np.array_equal(b, np.append(c, c[-1] + 1) - 0.5))
            for c, b in zip(at, boxes)
        )
        if self.quantity == "value" and all(map(_is_whole, at)) and all(own_boxes):
            kind = self.field.dtype if dtype is None else dtype
            found = at_samples(model, [c.astype(np.int64) for c in at], kind, gaps=gaps)
            self.progress("render", len(x[0]), len(x[0]))
        else:
            how: Any = {"gaps": gaps, "boxes": boxes, "progress": self.progress}
            found = gridded(model, at, dtype, self.quantity, **how)
        coords = {a.name: coordinates_at(a, c) for a, c in zip(axes, x) if a.coords is not None}
        return self._gridded(to_numpy(found), coords, self._labels(labels))

    # --- other coordinates, other systems ------------------------------------------------------

    def on_target(self, target: TargetGrid | MapTarget) -> Gridded:
        """The quantity on a grid that is not made of the field's samples."""
        of_faces = self.mean and isinstance(self.field, FaceField)
        on_map = of_faces or isinstance(self.field, Curvilinear)
        if isinstance(target, TargetGrid) and on_map:
            target = even(self._frame, target.coords, target.edges)
        if isinstance(target, MapTarget):
            found = self._on_map(target)
        else:
            dims = self.field.domain.dims
            own = zip(dims, own_coords(self.field.domain))
            at = [np.asarray(target.coords.get(n, c)) for n, c in own]
            self._check_size(at)
            if self.mean or (self._is_mean and all(map(is_ordered, target.coords.values()))):
                values = self._means(target, at)
            else:
                how: Any = {"quantity": self.quantity, "missing": self.missing}
                values = self.field.grid(*at, **how, antialias=self.antialias, outside="nan")
            index = [a.along(c) for a, c in zip(self.field.domain.axes, at)]
            labels = _moved(self.field.labels, dims, index)
            found = self._gridded(to_numpy(values), dict(zip(dims, at)), labels)
        self.progress("render", 1, 1)
        return self._finish(found)

    @property
    def _frame(self) -> Field:
        """The field, on whose axes targets lie; of one on a mesh, that on its coordinates."""
        return self.field.frame if isinstance(self.field, Curvilinear) else self.field

    @property
    def _is_mean(self) -> bool:
        """Whether values are means over the cells of a grid, as the field's samples are."""
        is_mean = self.field.labels.samples == "means"
        return self.antialias and is_mean and self.quantity == "value"

    def _finish(self, found: Gridded) -> Gridded:
        """In the dtype; whole numbers only where nothing is NaN, or a number stands for it."""
        labels, dtype, values = self._labels(found.labels), self.dtype, found.values
        if self.mean and isinstance(self.field, FaceField):
            labels = replace(labels, attrs={**labels.attrs, "cell_methods": METHOD})
        if dtype is None and self.quantity == "value":
            dtype = whole_dtype(self.field.model)
        if dtype is None or np.dtype(dtype).kind == "f" or not (gone := np.isnan(values)).any():
            values = as_dtype(values, dtype)
        elif labels.fill_value is not None and np.isfinite(labels.fill_value):
            fill = np.asarray(labels.fill_value, dtype)
            values = np.where(gone, fill, as_dtype(values, dtype))
        return replace(found, values=values, labels=labels)

    def _means(self, target: TargetGrid, at: Sequence[Floats]) -> Array:
        """Means over the cells of a grid, by area on the sphere; NaN beyond the field."""
        field, axes = self.field, self.field.domain.axes
        pair = field.labels.horizontal(field.domain.dims)
        weights = {} if pair is None else {pair[0]: cosine}
        gaps = shows_gaps(field.model, self.missing)
        edges, inside = list[Floats | None](), list[Array]()
        part: Array = np.ones(())  # of each cell, what the domain has of it
        for k, (axis, c) in enumerate(zip(axes, at)):
            share, e = np.ones(len(c)), None
            if axis.name in target.coords:
                share, e = self._inside(k, c, target.edges.get(axis.name))
                way = 1 if (e[-1] - e[0]) * axis.step > 0 else -1  # along the axis, or against it
                e = field.model.coordinates.edges(k, e[::way])[::way]
            edges.append(e)
            inside.append(share > 0)
            part = part[..., None] * share[share > 0]
        if self.quantity == "std":
            means, covered = to_numpy(std_of_means(field.model, edges)), None
        else:
            x = [axis.along(c) for axis, c in zip(axes, at)]
            found, covered = means_over(field.model, edges, x, gaps, weights)
            means = to_numpy(found).astype(str(field.dtype).rsplit(".", 1)[-1])
        part = part[..., None] * (1.0 if covered is None else covered)
        whole = np.full((*map(len, at), means.shape[-1]), np.nan, means.dtype)
        every = np.ones(means.shape[-1], bool)
        whole[np.ix_(*inside, every)] = np.where(part >= self.min_coverage - 1e-9, means, np.nan)
        return field.model.channels_back(whole)

    def _inside(self, k: int, c: Floats, known: Floats | None) -> tuple[Floats, Floats]:
        """What part of cells around coordinates lies on axis k; edges of those that do."""
        axis, (low, high) = self.field.domain.axes[k], sorted(ends := ends_of(self.field, k))
        share = np.ones(len(c))
        if axis.period is None and known is not None:
            share = np.abs(np.diff(np.clip(known, low, high)) / np.diff(known))
        elif axis.period is None:  # cells whose middles lie in the field, as far as they do
            share = np.where((c >= low - 1e-9) & (c <= high + 1e-9), 1.0, 0.0)
        if not share.any():
            about = self.field.labels.axis(axis.name)
            told = (format_coordinate(v, about) for v in (low, high, c.min(), c.max()))
            raise ValueError(
                "the target grid lies outside the field on axis {!r}, which covers {} to {}; got "
                "{} to {}.".format(axis.name, *told)
            )
        first, last = np.flatnonzero(share)[[0, -1]]
        around = cell_edges(c[first : last + 1]) if last > first else np.asarray(ends)
        e = around if known is None else known[first : last + 2]
        return share, e if axis.period is not None else np.clip(e, low, high)

    def _on_map(self, grid: MapTarget) -> Gridded:
        """The quantity at points of another system: y and x in place of the field's two axes.

        Values have the field's other axes first, and channels last.
        """
        frame = self._frame
        dims, channel = frame.domain.dims, frame.model.channel_axis
        plane = [dims.index(n) for n in grid.plane]
        own = zip(dims, own_coords(frame.domain))
        others = {name: c for name, c in own if name not in grid.plane}
        if self.mean or self._is_mean:
            values = self._means_on_map(grid, len(others))
        else:
            parts, points = [], np.empty((*grid.points.shape[:2], len(dims)))
            points[..., plane] = grid.points
            for at in product(*others.values()):
                points[..., [dims.index(name) for name in others]] = at
                found = self.field._query(self.quantity, points, "nan", self.missing)
                parts.append(to_numpy(found))
            values = np.stack(parts).reshape(*map(len, others.values()), *parts[0].shape)
        if len(grid.dims) == 1:
            values = np.squeeze(values, axis=len(others))
        return Gridded(
            # Channels lie before y and x, which end the dims.
            values=values if channel is None else np.moveaxis(values, -1, channel),
            dims=(*others, *grid.dims),
            coords={**others, **grid.coords},
            channel_axis=channel,
            labels=frame.labels if grid.dims == grid.plane else reprojected(frame.labels, grid),
        )

    def _means_on_map(self, grid: MapTarget, n_others: int) -> Array:
        """Means over the cells of a map, the field's other axes first and channels last."""
        corners = grid.cells()
        seen = np.isfinite(corners).all(axis=(2, 3))
        field, least = self.field, self.min_coverage
        if self.quantity == "std":
            raise ValueError(
                "'std' of means is for boxes along the field's axes; got polygons. Ask for values, "
                "or for quantity='std' with mean=False."
            )
        if isinstance(field, (Curvilinear, FaceField)):
            found, _ = field.means(corners[seen], missing=self.missing, min_coverage=least)
        else:
            found, _ = polygon_means(field, missing=self.missing)(corners[seen], min_coverage=least)
        if classes := field.labels.classes:
            best = winners(classes, found.reshape(-1, len(classes)))
            found = best.reshape(found.shape[:-1])
        whole = np.full((*seen.shape, *found.shape[1:]), np.nan)
        whole[seen] = found
        return np.moveaxis(whole, (0, 1), (n_others, n_others + 1))

    # --- scans, sound and video ----------------------------------------------------------------

    def _in_world(self, affine: Floats, shape: tuple[int, ...]) -> Gridded:
        """A scan on another grid in world space.

        What lies outside it is NaN in floats; whole numbers get the scan's least value there.
        """
        field, dtype, fill = self.field, self.dtype, None
        dtype = whole_dtype(field.model, self.missing) if dtype is None else dtype
        if dtype is not None and np.dtype(dtype).kind in "biu":
            fill = float(np.min(to_numpy(field.samples(missing="fill"))))
        how: Any = {"antialias": self.antialias, "fill": fill, "missing": self.missing}
        values = field.world.reslice(affine, shape, dtype=dtype, **how)
        self.progress("render", 1, 1)
        dims, coords = field.domain.dims, self._listed
        for name, n, s in zip(dims, shape, spacing_of(affine)):
            coords[name] = np.arange(n, dtype=np.float64) * s
        kept = field.labels.coords_off(dims[:3])
        labels = replace(field.labels, affine=affine.tolist(), coords=kept)
        return self._gridded(to_numpy(values), coords, labels)

    def at_rate(self, new: Fraction) -> Gridded:
        """So many samples a second along the axis of time; the other axes keep their samples.

        Sound comes out band-limited: what a lower rate cannot hold is filtered out first. Frames of
        a video are values in time, also where there are fewer.
        """
        field = self.field
        k = time_axis(field)
        old = own_rate(field, k)
        count = math.ceil(field.shape[k] * new / old)
        is_sound = len(field.shape) == 1
        m = math.ceil(old / new) if is_sound and new < old else 1
        x: list[Floats] = [np.arange(size, dtype=np.float64) for size in field.shape]
        # Beyond the last sample nothing is known: it is held.
        x[k] = np.clip(times(count * m, new * m / old), 0, field.shape[k] - 1)
        values = to_numpy(gridded(field.model, x, None, gaps=shows_gaps(field.model, self.missing)))
        if m > 1:
            values = decimate(values, m, 0 if field.model.channel_axis in (None, 1) else 1)
        dtype = whole_dtype(field.model, self.missing) if self.dtype is None else self.dtype
        self.progress("render", 1, 1)
        coords = self._listed
        start = float(field.domain.axes[k].from_index(np.zeros(1))[0])
        coords[field.domain.dims[k]] = start + times(count, new)
        labels = replace(field.labels, rate=noted_rate(new))
        return self._gridded(as_dtype(values, dtype), coords, labels)


def coordinates_at(axis: Axis, at: Floats) -> Floats:
    """Coordinates at index coordinates; at samples those that were given, to the last bit."""
    given = axis.coords if _is_whole(at) and at.min() >= 0 and at.max() < axis.size else None
    return axis.from_index(at) if given is None else given[at.astype(int)]


def _is_whole(at: Floats) -> bool:
    """Whether index coordinates are numbers of samples."""
    return bool(np.array_equal(at, np.round(at)))


def _moved(labels: Labels, dims: Sequence[str], at: Sequence[Floats]) -> Labels:
    """Labels of values that are not at the samples of the field."""
    steps = [step_of(c) if len(c) > 1 else 1.0 for c in at]
    placed = labels_at(labels, [float(c[0]) for c in at], steps)
    return replace(placed, coords=labels.coords_off(dims))
