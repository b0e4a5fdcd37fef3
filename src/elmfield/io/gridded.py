"""Gridded: samples with everything their file says about them; what readers give and writers take.

Also the two steps either side of a field: from Gridded to Field, and from Field to Gridded on any
grid.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.labels import coordinates_out
from elmfield.fit import fit as fit_array
from elmfield.io.model.plain import keepable
from elmfield.show.render import evaluate


@dataclass(frozen=True, eq=False)
class Gridded:
    """Samples on a grid, and what is known about them.

    Parameters
    ----------
    values : array
        The samples; NaN where one is missing.
    dims : tuple of str
        Of the axes that are not channels, in array order.
    coords : tuple of array or None
        Where the samples lie on each of them; None where they only count.
    channel_axis : int or None
        Which axis holds channels.
    periods : mapping
        Period of each axis that repeats, by name.
    attributes : mapping
        See :mod:`elmfield.field.labels`; and what a format needs to be written again, as ``align``
        ("areas" or "nodes": what a sample stands for), ``crs``, ``transform``, ``header``,
        ``grid``.
    """

    values: Array = field(repr=False)
    dims: tuple[str, ...]
    coords: tuple[Floats | None, ...] = field(repr=False)
    channel_axis: int | None = None
    periods: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels left out."""
        return tuple(n for k, n in enumerate(self.values.shape) if k != self.channel_axis)

    @property
    def array_axes(self) -> list[int]:
        """Position in the array of each named axis."""
        return [k for k in range(self.values.ndim) if k != self.channel_axis]

    def pick(self, name: str, which: int | slice) -> "Gridded":
        """The samples at one index of an axis (which then goes), or in a range of it."""
        if name not in self.dims:
            raise ValueError(f"there is no axis {name!r}; the axes are {', '.join(self.dims)}.")
        k = self.dims.index(name)
        n = self.shape[k]
        index: list[int | slice] = [slice(None)] * self.values.ndim
        index[self.array_axes[k]] = which
        c = self.coords[k]
        periods = {p: v for p, v in self.periods.items() if p != name}
        if isinstance(which, slice):
            if not len(range(n)[which]):
                raise ValueError(f"nothing is left of axis {name!r}, which has {n} samples.")
            whole = len(range(n)[which]) == n
            at = None if c is None else c[which]
            return replace(
                self,
                values=self.values[tuple(index)],
                coords=(*self.coords[:k], at, *self.coords[k + 1 :]),
                periods=self.periods if whole else periods,
                attributes=self._moved(k, which),
            )
        if not -n <= which < n:
            raise ValueError(f"axis {name!r} has {n} samples; there is no number {which}.")
        channel = self.channel_axis
        if channel is not None and self.array_axes[k] < channel:
            channel -= 1
        attributes = dict(self.attributes)
        if "grid" in attributes:
            attributes["grid"] = {
                key: [v for j, v in enumerate(list_) if j != k]
                for key, list_ in attributes["grid"].items()
            }
        if c is not None:  # where the slice was taken
            about = attributes.get("axes", {}).get(name, {})
            at = coordinates_out(c[which : which + 1 or None], about)[0]
            other = {"dims": [], "values": at, "attrs": about.get("attrs", {})}
            attributes["coords"] = {**attributes.get("coords", {}), name: other}
        return Gridded(
            self.values[tuple(index)],
            self.dims[:k] + self.dims[k + 1 :],
            self.coords[:k] + self.coords[k + 1 :],
            channel,
            periods,
            attributes,
        )

    def _moved(self, k: int, which: slice) -> dict[str, Any]:
        """Attributes with the grid of a slice of axis k."""
        start, _, step = which.indices(self.shape[k])
        d = len(self.dims)
        grid = self.attributes.get("grid", {"start": [0.0] * d, "step": [1.0] * d})
        starts, steps = list(grid["start"]), list(grid["step"])
        starts[k], steps[k] = starts[k] + steps[k] * start, steps[k] * step
        return {**self.attributes, "grid": {"start": starts, "step": steps}}


def fit_gridded(samples: Gridded, settings: Any = None, **options: Any) -> Field:
    """The Field of some samples, with their names, coordinates and attributes.

    `options` are those of :func:`elmfield.fit`.
    """
    channel = samples.channel_axis
    made = fit_array(
        samples.values,
        settings,
        channel_axis=channel,
        coords=list(samples.coords),
        dims=samples.dims,
        periodic={str(k): v for k, v in samples.periods.items()},
        **options,
    )
    return replace(made, attributes=dict(samples.attributes))


def fingerprint(values: Array) -> dict[str, Any]:
    """Shape, dtype, range and SHA-256 of an array, for provenance."""
    host = np.ascontiguousarray(to_numpy(values))
    about: dict[str, Any] = {"shape": list(host.shape), "dtype": host.dtype.name}
    if host.dtype.kind in "biuf" and host.size:
        finite = host[np.isfinite(host)] if host.dtype.kind == "f" else host
        if finite.size:
            about["range"] = [float(finite.min()), float(finite.max())]
    return {**about, "sha256": hashlib.sha256(host.data).hexdigest()}


def rendered(
    field: Field,
    x: Sequence[Floats],
    quantity: str = "value",
    *,
    dtype: Any = None,
    progress: Any = None,
) -> Gridded:
    """A field on the grid of index coordinates `x`, with coordinates and attributes.

    Parameters
    ----------
    field : Field
        The field.
    x : sequence of arrays
        Index coordinates along each axis.
    quantity : {"value", "gradient", "laplacian"}
        What to show; "gradient" is its magnitude.
    dtype : optional
        Of the result; integers are rounded and clipped.
    progress : callable, optional
        Called with (stage, done, total).
    """
    values = evaluate(field, x, quantity, dtype=dtype, progress=progress)
    coordinates: list[Floats | None] = []
    start, step, same = [], [], True
    for axis, at in zip(field.domain.axes, x):
        at = np.asarray(at, np.float64)
        own = len(at) == axis.size and np.array_equal(at, np.arange(axis.size))
        whole = np.array_equal(at, np.round(at)) and at.min() >= 0 and at.max() < axis.size
        if axis.coords is None:
            coordinates.append(None)
        elif whole:
            coordinates.append(axis.coords[at.astype(int)])
        else:
            coordinates.append(axis.from_index(at))
        same = same and own
        start.append(float(at[0]))
        step.append(float((at[-1] - at[0]) / (len(at) - 1)) if len(at) > 1 else 1.0)
    attributes = dict(field.attributes)
    if not same:
        base = attributes.get("grid")
        if base is not None:  # the field itself came from part of a file
            start = [a + s * b for a, s, b in zip(base["start"], base["step"], start)]
            step = [s * t for s, t in zip(base["step"], step)]
        attributes["grid"] = {"start": start, "step": step}
        moved = {n for n, a in zip(field.domain.dims, field.domain.axes)}
        attributes["coords"] = {
            k: v for k, v in attributes.get("coords", {}).items() if not set(v["dims"]) & moved
        }
    if quantity != "value":
        attributes["attrs"] = {
            k: v
            for k, v in attributes.get("attrs", {}).items()
            if k not in ("units", "standard_name", "valid_range") and not k.startswith("GRIB_")
        } | {"long_name": f"{quantity} of {attributes.get('name', 'field')}"}
    periods = {a.name: a.period for a in field.domain.axes if a.period is not None}
    return Gridded(
        values, field.domain.dims, tuple(coordinates), field.channel_axis, periods, attributes
    )


def grid_of(samples: Gridded) -> tuple[list[float], list[float]]:
    """First sample and step along each axis, in samples of the file the values came from."""
    d = len(samples.dims)
    grid = samples.attributes.get("grid", {"start": [0.0] * d, "step": [1.0] * d})
    return list(map(float, grid["start"])), list(map(float, grid["step"]))


def plain_grid(
    values: Array, dims: Sequence[str], channel_axis: int | None = None, **attributes: Any
) -> Gridded:
    """Gridded samples without coordinates."""
    dims = tuple(dims)
    return Gridded(values, dims, (None,) * len(dims), channel_axis, {}, keepable(attributes))
