"""Gridded: samples with their axes, coordinates and labels; what every format reads and writes."""

import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import as_dtype, is_array, move, to_numpy
from elmfield._array.checks import is_integer, shown
from elmfield._array.running import capacity
from elmfield._array.typing import Array, DType, Floats
from elmfield.field.coordinates.labels import (
    Alpha,
    AxisLabels,
    ChannelLabels,
    CoordinateLabels,
    Labels,
    coordinates_out,
    format_coordinate,
)
from elmfield.io.model.metadata import keepable
from elmfield.samples import source_of


def describe_axis(
    name: str,
    size: int,
    coords: Array | None,
    about: AxisLabels,
    *,
    even: bool = True,
    periodic: bool = False,
) -> str:
    """One axis: its name, its samples, where they begin and end, and in which unit."""
    text = f"{name}: {size}"
    if coords is not None and size:
        text += f", {format_coordinate(coords[0], about)} to {format_coordinate(coords[-1], about)}"
        unit = about.attrs.get("units")
        text += f" {unit}" if unit and about.epoch is None else ""
        text += "" if even else ", uneven"
    return text + (" (periodic)" if periodic else "")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Gridded:
    """Samples on a grid, and what is known about them.

    ``np.asarray(samples)`` gives the bare array; :func:`elmfield.fit` takes all of it.

    Parameters
    ----------
    values : array
        The samples; NaN where one is missing.
    dims : tuple of str
        Of the axes that are not channels, in array order.
    coords : mapping of str to array
        Where the samples lie, by dim; an axis that is left out only counts.
    channel_axis : int or None
        Which axis holds channels.
    periods : mapping
        Period of each axis that repeats, by name; None where even samples cover it.
    labels : Labels
        What is known about them: names, units, reference system, what a format needs to be
        written again.
    bounds : mapping of str to array
        Borders of the samples' cells, (n + 1,), where they are known; of `places` corners of cells,
        (ny, nx, v).
    places : mapping of str to array
        Two coordinates of the last two dims, which have none of their own: a curvilinear grid.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.write(np.eye(12), "eye.npy")
    >>> samples = ef.read("eye.npy")
    >>> samples.shape, samples.dims, np.asarray(samples).dtype
    ((12, 12), ('axis0', 'axis1'), dtype('float64'))
    """

    values: Array
    dims: tuple[str, ...]
    coords: Mapping[str, Floats] = field(default_factory=dict)
    channel_axis: int | None = None
    periods: Mapping[str, float | None] = field(default_factory=dict)
    labels: Labels = field(default_factory=Labels)
    places: Mapping[str, Floats] = field(default_factory=dict)
    bounds: Mapping[str, Array] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels left out."""
        return tuple(n for k, n in enumerate(self.values.shape) if k != self.channel_axis)

    @property
    def array_axes(self) -> list[int]:
        """Position in the array of each named axis."""
        return [k for k in range(self.values.ndim) if k != self.channel_axis]

    def line(self, name: str) -> Floats:
        """Coordinates along an axis; empty where it only counts."""
        return self.coords.get(name, np.empty(0))

    @property
    def is_map(self) -> bool:
        """Whether there are no `places` in latitude and longitude."""
        return not self.places or self.labels.horizontal(tuple(self.places)) is None

    @property
    def corners(self) -> Floats | None:
        """Corners (ny, nx, v, 2) of the cells of `places`, where both are known."""
        known = [self.bounds[n] for n in self.places if n in self.bounds]
        return np.stack(known, axis=-1) if len(known) == 2 else None

    @property
    def channels_last(self) -> Array:
        """The samples on the host, channels, if there are any, on the last axis."""
        values, k = to_numpy(self.values), self.channel_axis
        return values if k is None else np.moveaxis(values, k, -1)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> Array:
        """The samples alone, for ``np.asarray``."""
        return np.array(to_numpy(self.values), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        about, sizes = self.labels, " × ".join(map(str, self.values.shape))
        head = f"Gridded {about.name!r}: " if about.name else "Gridded: "
        unit = f", {about.units}" if about.units else ""
        lines = [f"{head}{sizes} {self.values.dtype}{unit}", *self._axes_in_words()]
        if self.channel_axis is not None:
            labels = about.channels.labels
            told = f": {', '.join(map(str, labels))}" if 0 < len(labels) < 9 else ""
            n = self.values.shape[self.channel_axis]
            lines.append(f"{self.channel_name}: {n} channels{told}")
        return "\n  ".join(lines)

    def _axes_in_words(self) -> list[str]:
        coords, axis, around = self.coords, self.labels.axis, self.periods
        return [
            describe_axis(dim, n, coords.get(dim), axis(dim), periodic=dim in around)
            for dim, n in zip(self.dims, self.shape)
        ]

    @property
    def place(self) -> str:
        """Dims, and where samples begin and end on each, in words."""
        return "; ".join(self._axes_in_words())

    def is_on_grid_of(self, other: "Gridded") -> bool:
        """Whether samples of both lie at the same places."""
        if self.values.shape != other.values.shape or self.dims != other.dims:
            return False
        for name, c in other.places.items():
            if not np.array_equal(self.places.get(name, 0), c, equal_nan=True):
                return False
        for name in self.dims:
            a, b = self.line(name), other.line(name)
            is_near = len(a) == len(b) and np.allclose(a, b, rtol=1e-6)
            if not is_near or self.labels.axis(name).epoch != other.labels.axis(name).epoch:
                return False
        return True

    # --- channels ------------------------------------------------------------------------------

    @property
    def channel_name(self) -> str:
        """What the axis of channels is called."""
        return self.labels.channels.name

    def with_channels(self, channel_axis: int | str) -> "Gridded":
        """The same samples with one axis, given by number or name, taken as channels."""
        names: list[str] = list(self.dims)
        if self.channel_axis is not None:
            names.insert(self.channel_axis, self.channel_name)
        k = axis_number(channel_axis, names)
        if k == self.channel_axis:
            return self
        if self.channel_axis is not None:
            raise ValueError(
                f"`channel_axis` must be {self.channel_axis} ({self.channel_name!r}), where these "
                f"samples have their channels; got {channel_axis!r}. Leave it out."
            )
        name, listed = names[k], []
        if name in self.coords:
            listed = list(coordinates_out(self.coords[name], self.labels.axis(name)))
        channels = ChannelLabels(name=name, **keepable({"labels": listed}))
        labels = replace(self.labels, channels=channels)
        return replace(self._without_axis(name), channel_axis=k, labels=labels)

    # --- parts ---------------------------------------------------------------------------------

    def pick(self, name: str, which: int | slice) -> "Gridded":
        """The samples at one index of an axis (which then goes), or in a range of it."""
        if name not in self.dims:
            raise ValueError(f"there is no axis {name!r}; the axes are {', '.join(self.dims)}.")
        k, less = self.dims.index(name), self._without_axis(name)
        n, index = self.shape[k], list[int | slice]([slice(None)] * self.values.ndim)
        index[self.array_axes[k]] = which
        if isinstance(which, slice):
            left = len(range(n)[which])
            if not left:
                raise ValueError(f"nothing is left of axis {name!r}, which has {n} samples.")
            starts, steps = [0.0] * len(self.dims), [1.0] * len(self.dims)
            starts[k], _, steps[k] = which.indices(n)
            labels = labels_at(self.labels, starts, steps)
            coords = {d: c[which] if d == name else c for d, c in self.coords.items()}
            periods = self.periods if left == n else less.periods
            part = replace(less, dims=self.dims, coords=coords, periods=periods, labels=labels)
        else:
            if not -n <= which < n:
                raise ValueError(f"axis {name!r} has {n} samples; there is no number {which}.")
            channel = self.channel_axis
            channel = None if channel is None else channel - (self.array_axes[k] < channel)
            labels = self._labels_without(k, which % n)
            part = replace(less, channel_axis=channel, labels=labels)
        return replace(part, values=self.values[tuple(index)])

    def _without_axis(self, name: str) -> "Gridded":
        """The samples with nothing said about one axis, which their array still has."""
        every: list[Mapping[str, Any]] = [self.coords, self.bounds, self.periods]
        coords, bounds, periods = ({n: v for n, v in m.items() if n != name} for m in every)
        places = {} if name in self.dims[-2:] else self.places
        dims = tuple(d for d in self.dims if d != name)
        return replace(
            self, dims=dims, coords=coords, places=places, bounds=bounds, periods=periods
        )

    def _labels_without(self, k: int, which: int) -> Labels:
        """Labels of the samples at one index of axis k, which goes; where that was, is noted."""
        name, labels = self.dims[k], self.labels
        if labels.affine is not None and k < labels.n_placed:
            # At one place on axis k, which becomes the last of three.
            affine = np.array(labels.affine, np.float64)
            affine[:, 3] += affine[:, k] * which
            affine[:, :3] = affine[:, [*(j for j in range(3) if j != k), k]]
            labels = replace(labels, affine=affine.tolist(), n_placed=labels.n_placed - 1)
        if name in self.coords:
            about = labels.axis(name)
            at = coordinates_out(self.coords[name][which : which + 1], about)[0]
            other = CoordinateLabels(values=at, attrs=about.attrs)
            labels = replace(labels, coords={**labels.coords, name: other})
        return labels


def values_for_file(samples: Gridded) -> Array:
    """The values as their file had them: its dtype, and its own number for a missing one."""
    values, labels = np.asarray(samples.values), samples.labels
    fill, own = labels.fill_value, labels.dtype
    if fill is None or values.dtype.kind != "f" or not np.isfinite(fill):
        return values
    kind = own if own is not None and np.dtype(own).kind in "iu" else values.dtype
    return np.where(np.isnan(values), np.asarray(fill, kind), as_dtype(values, kind))


def axis_number(axis: object, names: Sequence[Hashable]) -> int:
    """Which axis is meant by `channel_axis`: one of the names, or else a number."""
    n = len(names)
    if isinstance(axis, Hashable) and axis in names:
        return names.index(axis)
    if is_integer(axis) and -n <= axis < n:
        return int(axis) % n
    raise ValueError(
        f"`channel_axis` must be one of the axes {list(names)}, or a number between {-n} and "
        f"{n - 1}; got {axis!r}."
    )


def labels_at(labels: Labels, start: Sequence[float], step: Sequence[float]) -> Labels:
    """Labels with the places of samples that begin at a number on each axis, and are so far apart.

    Both in samples of those that the labels are of.
    """
    affine, transform = labels.affine, labels.transform
    if affine is not None:
        moved, n = np.eye(4), min(labels.n_placed, len(start))
        moved[range(n), range(n)], moved[:n, 3] = step[:n], start[:n]
        affine = (np.asarray(affine, np.float64) @ moved).tolist()
    if transform is not None and len(start) > 1:
        # That of corners: sample k covers k to k + 1, and its centre is k + 1/2.
        (a, b, x, d, e, y), (r, c), (dr, dc) = transform, start[-2:], step[-2:]
        left, top = c + 0.5 - dc / 2, r + 0.5 - dr / 2
        transform = [a * dc, b * dr, a * left + b * top + x, d * dc, e * dr, d * left + e * top + y]
    return replace(labels, affine=affine, transform=transform)


def step_of(coords: Floats) -> float:
    """Distance between coordinates, two or more, on average."""
    return float(coords[-1] - coords[0]) / (len(coords) - 1)


def transform_of(y: Floats, x: Floats) -> list[float]:
    """From columns and rows to x and y, of corners of even cells, as GeoTIFF has it."""
    hy, hx = (step_of(c) if len(c) > 1 else usual for c, usual in ((y, -1.0), (x, 1.0)))
    return [hx, 0.0, float(x[0]) - hx / 2, 0.0, hy, float(y[0]) - hy / 2]


def fingerprint(values: Array) -> dict[str, object]:
    """Return shape, dtype, range and SHA-256 of an array, read a few rows at a time."""
    source = source_of(values)
    n, *others = source.shape
    rows = max(1, capacity(np.empty(0)) // (4 * max(1, math.prod(others))))
    digest, low, high, dtype = hashlib.sha256(), math.inf, -math.inf, ""
    for i in range(0, max(1, n), rows):
        slab = slice(i, min(i + rows, n)), *(slice(0, m) for m in others)
        part = np.ascontiguousarray(to_numpy(source.read(slab)))
        dtype = part.dtype.name
        digest.update(part.data)
        if part.dtype.kind in "biuf":
            finite = part[np.isfinite(part)] if part.dtype.kind == "f" else part
            if finite.size:
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    limits = {"range": [low, high]} if low <= high else {}
    return {"shape": [n, *others], "dtype": dtype, **limits, "sha256": digest.hexdigest()}


MAX_CLASSES = 64
"""Classes of one array: each takes a channel of its own."""


def classes_as_channels(samples: Gridded) -> Gridded:
    """Labels, whole numbers, as a channel for each class: 1 where a sample is of it, else 0."""
    values = to_numpy(samples.values)
    told = "`labels` are whole numbers on a grid without channels"
    if samples.channel_axis is not None or values.dtype.kind not in "biuf":
        raise ValueError(f"{told}; got {values.dtype}, channel_axis={samples.channel_axis}.")
    classes = np.unique(values[np.isfinite(values)]).astype(np.float64)
    if not len(classes) or (classes != np.round(classes)).any() or np.abs(classes).max() > 2**53:
        raise ValueError(f"{told}; got {shown(classes[:5].tolist())}.")
    if len(classes) > MAX_CLASSES:
        raise ValueError(
            f"`labels` are of {MAX_CLASSES} classes at most; got {len(classes)}. Leave some out: "
            "np.where(np.isin(labels, wanted), labels, 0)."
        )
    each, gone = (values[..., None] == classes).astype(np.uint8), ~np.isfinite(values)
    if gone.any():
        each = np.where(gone[..., None], np.nan, each)
    each = move(each, samples.values) if is_array(samples.values) else each
    own = samples.labels.dtype or values.dtype.name
    labels = replace(samples.labels, classes=[int(c) for c in classes], dtype=own, samples="points")
    return replace(samples, values=each, channel_axis=values.ndim, labels=labels)


def premultiply(samples: Gridded) -> Gridded:
    """Samples, of which a channel is alpha, with colours times alpha, unless it is full everywhere.

    `elmfield.field.coordinates.labels.unpremultiply` divides values of the field by alpha again.

    Raises
    ------
    ValueError
        If every pixel is transparent: no colour is left to fit.
    """
    labels = list(samples.labels.channels.labels)
    axis = samples.channel_axis
    if axis is None or len(labels) != samples.values.shape[axis]:
        return samples
    values = samples.channels_last
    k, kind = labels.index("alpha"), values.dtype
    full = 1.0 if kind.kind == "f" else float(np.iinfo(kind).max)
    alpha = values[..., k : k + 1]
    if (alpha == full).all():
        return samples
    if not (alpha > 0).any():
        raise ValueError(
            "alpha is 0 everywhere: every pixel is transparent, and no colour is left to fit. "
            "Leave alpha out: fit(np.asarray(picture)[..., :-1], channel_axis=-1)."
        )
    wide = np.float64 if kind.itemsize > 4 else np.float32
    times = np.where(np.arange(len(labels)) == k, alpha, values * (alpha / full)).astype(wide)
    own = samples.labels.dtype or kind.name
    about = replace(samples.labels, alpha=Alpha(channel=k, full=full), dtype=own)
    return replace(samples, values=np.moveaxis(times, -1, axis), labels=about)
