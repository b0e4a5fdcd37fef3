"""xarray: DataArray in, Field out; names, coordinates, attributes and dates kept.

xarray is not imported here before a DataArray turns up.
"""

import functools
import sys
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.labels import dataarray, from_dates, from_durations
from elmfield.fit import fit as fit_array
from elmfield.io.gridded import Gridded, fit_gridded
from elmfield.io.model.plain import keepable

SMALL = 4096
"""Entries up to which other coordinates are kept with a field."""


def is_dataarray(values: object) -> bool:
    """Whether `values` is an xarray.DataArray; does not import xarray to find out."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(values, xarray.DataArray)


@functools.wraps(fit_array)
def fit(values: Array, settings: Any = None, **options: Any) -> Field:
    """See :func:`elmfield.fit.fit`; a DataArray is taken with its dims, coords and attrs."""
    if is_dataarray(values):
        return fit_dataarray(values, settings, **options)
    if "channel_dim" in options:
        raise TypeError("`channel_dim` is for an xarray.DataArray; use `channel_axis` for arrays.")
    return fit_array(values, settings, **options)


_ARRAY = "    values : array\n        Samples on a grid: real, integer or complex"
fit.__doc__ = (fit_array.__doc__ or "").replace(
    _ARRAY,
    _ARRAY.replace("array", "array or xarray.DataArray")
    + """. A DataArray brings its
        dims, coords and attrs; ``channel_dim`` names its dim of channels, and a longitude that
        closes the circle is periodic unless `periodic` says otherwise. Numbers may be real,
        integer or complex""",
)


def fit_dataarray(
    values: Any,
    settings: Any = None,
    *,
    channel_dim: Hashable | None = None,
    periodic: Mapping[Any, float] | Sequence[Any] | Hashable | None = None,
    **options: Any,
) -> Field:
    """The Field of a DataArray.

    Parameters
    ----------
    values : xarray.DataArray
        The samples. Dims become axes, in their order; their coordinates may be numbers (evenly
        spaced or not, rising or falling), dates or durations.
    settings : optional
        As for :func:`elmfield.fit`.
    channel_dim : optional
        The dim that holds channels rather than space.
    periodic : sequence or mapping, optional
        Dims that repeat; by default a longitude whose samples cover 360 degrees evenly.
    **options
        Passed on to :func:`elmfield.fit`.
    """
    for given in ("dims", "coords", "channel_axis"):
        if given in options:
            raise TypeError(f"`{given}` comes from the DataArray itself; rename or assign there.")
    samples = from_dataarray(values, channel_dim=channel_dim)
    if periodic is not None:
        wraps = _named(values.dims, samples.dims, periodic)
        made = fit_array(
            samples.values,
            settings,
            channel_axis=samples.channel_axis,
            coords=list(samples.coords),
            dims=samples.dims,
            periodic=wraps,
            **options,
        )
        return _with(made, samples.attributes)
    return fit_gridded(samples, settings, **options)


def _named(
    dims: Sequence[Hashable], names: Sequence[str], periodic: Any
) -> "dict[str | int, float] | list[str | int]":
    """`periodic` in terms of axis names; a dim may be given by its name or its number."""
    one = isinstance(periodic, (str, int))
    found: dict[str | int, Any] = {}
    for key in (periodic,) if one else periodic:
        name = str(key)
        if key not in dims and isinstance(key, int) and -len(dims) <= key < len(dims):
            name = str(dims[key])
        if name not in names:
            raise ValueError(f"`periodic` names {key!r}; the dims are {list(names)}.")
        found[name] = periodic[key] if isinstance(periodic, Mapping) else None
    return found if isinstance(periodic, Mapping) else list(found)


def _with(field: Field, attributes: Mapping[str, Any]) -> Field:
    from dataclasses import replace

    return replace(field, attributes=dict(attributes))


def from_dataarray(da: Any, *, channel_dim: Hashable | None = None) -> Gridded:
    """A DataArray as gridded samples."""
    da = da.rename({d: str(d) for d in da.dims if not isinstance(d, str)})
    dims = list(da.dims)
    channel_dim = None if channel_dim is None else str(channel_dim)
    if channel_dim is not None and channel_dim not in dims:
        raise ValueError(f"`channel_dim` must be a dim of the array, {dims}; got {channel_dim!r}.")
    channel = None if channel_dim is None else dims.index(channel_dim)
    names = tuple(d for d in dims if d != channel_dim)
    coordinates: list[Floats | None] = []
    axes: dict[str, Any] = {}
    periods: dict[str, float] = {}
    for name in names:
        if name not in da.coords:
            coordinates.append(None)
            continue
        c = da.coords[name]
        at, about = _coordinate(name, np.asarray(c.values))
        axes[name] = {**about, "attrs": keepable(c.attrs)}
        coordinates.append(at)
        period = circle(name, at, c.attrs)
        if period is not None:
            periods[name] = period
    attributes: dict[str, Any] = {
        "align": "nodes",
        "attrs": keepable(da.attrs),
        "axes": axes,
        "coords": _others(da, dims),
    }
    if da.name is not None:
        attributes["name"] = str(da.name)
    if channel_dim is not None:
        channels: dict[str, Any] = {"name": channel_dim}
        if channel_dim in da.coords:
            c = da.coords[channel_dim]
            channels |= keepable({"labels": list(c.values)}) | {"attrs": keepable(c.attrs)}
        attributes["channels"] = channels
    return Gridded(np.asarray(da.values), names, tuple(coordinates), channel, periods, attributes)


def _coordinate(name: str, c: Array) -> tuple[Floats, dict[str, Any]]:
    """Coordinates as numbers, and how to get back."""
    if c.dtype.kind == "M":
        epoch = c.reshape(-1)[0]
        return from_dates(c, epoch), {"epoch": epoch, "dtype": str(c.dtype)}
    if c.dtype.kind == "m":
        return from_durations(c), {"duration": True, "dtype": str(c.dtype)}
    if c.dtype.kind not in "iuf":
        raise TypeError(
            f"coordinates of dim {name!r} must be numbers, dates or durations; got {c.dtype}. "
            f"If they name channels, pass channel_dim={name!r}; else drop them: "
            f"da.drop_vars({name!r})."
        )
    # Single-precision coordinates stay so: how even they are is judged by their own rounding.
    return c if c.dtype == np.float32 else c.astype(np.float64), {"dtype": c.dtype.name}


def _others(da: Any, dims: list[str]) -> dict[str, Any]:
    """Coordinates that are no axis: scalars, and short ones along the dims."""
    kept: dict[str, Any] = {}
    for name, c in da.coords.items():
        if name not in dims and c.size <= SMALL:
            other = {"dims": list(map(str, c.dims)), "values": c.values, "attrs": keepable(c.attrs)}
            kept |= keepable({str(name): other})
    return kept


def circle(name: str, at: Floats, attrs: Mapping[str, Any]) -> float | None:
    """360, if an axis is a longitude whose samples cover the circle evenly, once; else None."""
    units = str(attrs.get("units", "")).lower()
    east = units in ("degrees_east", "degree_east", "degrees_e", "degreee")
    called = name.lower() in ("longitude", "lon", "lons", "longitudes")
    if not (east or called or attrs.get("standard_name") == "longitude") or len(at) < 4:
        return None
    step = float(at[-1] - at[0]) / (len(at) - 1)
    even = np.max(np.abs(np.diff(at.astype(np.float64)) - step)) < 1e-3 * abs(step)
    return 360.0 if even and abs(abs(step) * len(at) - 360) < 1e-3 * abs(step) else None


def to_dataarray(samples: Gridded) -> Any:
    """Gridded samples as a DataArray."""
    return dataarray(
        samples.values,
        samples.dims,
        samples.coords,
        samples.channel_axis,
        samples.attributes,
    )
