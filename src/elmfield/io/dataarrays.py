"""xarray: DataArray in, Field out; names, coordinates, attributes and dates kept.

xarray is not imported here before a DataArray turns up.
"""

import sys
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.field.labels import dataarray, from_dates, from_durations
from elmfield.io.gridded import Gridded
from elmfield.io.model.plain import keepable

SMALL = 4096
"""Entries up to which other coordinates are kept with a field."""


def is_dataarray(values: object) -> bool:
    """Whether `values` is an xarray.DataArray; does not import xarray to find out."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(values, xarray.DataArray)


def is_dataset(values: object) -> bool:
    """Whether `values` is an xarray.Dataset."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(values, xarray.Dataset)


def from_dataarray(da: Any, *, channel_axis: Hashable | None = None) -> Gridded:
    """A DataArray as gridded samples.

    Parameters
    ----------
    da : xarray.DataArray
        Dims become axes, in their order; their coordinates may be numbers (evenly spaced or not,
        rising or falling), dates or durations.
    channel_axis : optional
        The dim, by name or number, that holds channels rather than space.
    """
    channel = None if channel_axis is None else _which(channel_axis, da.dims)
    da = da.rename({d: str(d) for d in da.dims if not isinstance(d, str)})
    names = tuple(d for k, d in enumerate(da.dims) if k != channel)
    coords: dict[str, Floats] = {}
    axes: dict[str, Any] = {}
    periods: dict[str, float] = {}
    for name in names:
        if name not in da.coords:
            continue
        c = da.coords[name]
        at, about = _coordinate(name, np.asarray(c.values))
        axes[name] = {**about, "attrs": keepable(c.attrs)}
        coords[name] = at
        period = circle(name, at, c.attrs)
        if period is not None:
            periods[name] = period
    attributes: dict[str, Any] = {
        "align": "nodes",
        "attrs": keepable(da.attrs),
        "axes": axes,
        "coords": _others(da, list(da.dims)),
    }
    if da.name is not None:
        attributes["name"] = str(da.name)
    if channel is not None:
        attributes["channels"] = _channels(da, da.dims[channel])
    return Gridded(
        values=np.asarray(da.values),
        dims=names,
        coords=coords,
        channel_axis=channel,
        periods=periods,
        attributes=attributes,
    )


def _which(axis: Hashable, dims: tuple[Hashable, ...]) -> int:
    """The number of a dim, given by its name or by its number; the name counts first."""
    if axis in dims:
        return dims.index(axis)
    n = len(dims)
    if isinstance(axis, (int, np.integer)) and not isinstance(axis, bool) and -n <= axis < n:
        return int(axis) % n
    raise ValueError(f"`channel_axis` must be a dim of the array, {list(dims)}; got {axis!r}.")


def _channels(da: Any, name: str) -> dict[str, Any]:
    """What is known about a DataArray's dim of channels."""
    if name not in da.coords:
        return {"name": name}
    c = da.coords[name]
    return {"name": name} | keepable({"labels": list(c.values)}) | {"attrs": keepable(c.attrs)}


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
            f"If they name channels, pass channel_axis={name!r}; else drop them: "
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
        [samples.coords.get(name) for name in samples.dims],
        samples.channel_axis,
        samples.attributes,
    )
