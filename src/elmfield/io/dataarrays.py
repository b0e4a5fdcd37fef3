"""xarray: DataArray in, Field out; names, coordinates, attributes and dates kept.

xarray is not imported here before a DataArray turns up.
"""

import sys
import warnings
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import is_longitude
from elmfield.field.labels import dataarray, from_calendar, from_dates, from_durations
from elmfield.io.gridded import Gridded
from elmfield.io.lazy import Lazy, OfDataArray
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


def from_dataarray(
    da: Any, *, channel_axis: Hashable | None = None, lazily: bool = False
) -> Gridded:
    """A DataArray as gridded samples.

    Parameters
    ----------
    da : xarray.DataArray
        Dims become axes, in their order; their coordinates may be numbers (evenly spaced or not,
        rising or falling), dates or durations.
    channel_axis : optional
        The dim, by name or number, that holds channels rather than space.
    lazily : bool
        Leave the numbers where they are: in a file, or in a Dask array.
    """
    channel = None if channel_axis is None else _which(channel_axis, da.dims)
    da = da.rename({d: str(d) for d in da.dims if not isinstance(d, str)})
    names = tuple(d for k, d in enumerate(da.dims) if k != channel)
    for name in names:
        da = _without_repeat(da, name)
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
        values=_lazy(da) if lazily else np.asarray(da.values),
        dims=names,
        coords=coords,
        channel_axis=channel,
        periods=periods,
        attributes=attributes,
    )


def from_dataset(ds: Any) -> Gridded:
    """The variables of a Dataset, all on one grid, as channels of one array, which comes first.

    Raises
    ------
    ValueError
        If they have different dims, or there are none.
    """
    numeric = {str(k): v for k, v in ds.data_vars.items() if v.dtype.kind in "biuf" and v.ndim}
    if not numeric:
        raise ValueError("a Dataset must hold at least one variable of real numbers; got none.")
    dims = {v.dims for v in numeric.values()}
    if len(dims) > 1:
        told = ", ".join(f"{k} {tuple(v.dims)}" for k, v in numeric.items())
        raise ValueError(
            f"variables that are fitted together must lie on one grid; got {told}. Choose some: "
            f"dataset[[{next(iter(numeric))!r}]]."
        )
    arrays = [from_dataarray(da) for da in numeric.values()]
    variables = {}
    for name, one in zip(numeric, arrays):
        known = one.values[~np.isnan(one.values)] if one.values.dtype.kind == "f" else one.values
        limits = float(np.ptp(known.astype(np.float64))) if known.size else 0.0
        variables[name] = {"attrs": one.attributes["attrs"], "range": limits or 1.0}
    left = {k: v for k, v in arrays[0].attributes.items() if k != "name"}
    return Gridded(
        values=np.stack([one.values for one in arrays]),
        dims=arrays[0].dims,
        coords=arrays[0].coords,
        channel_axis=0,
        periods=arrays[0].periods,
        attributes={
            **left,
            "attrs": {},
            "channels": {"name": "variable", "labels": list(variables)},
            "variables": variables,
            "global": keepable(ds.attrs),
        },
    )


def _without_repeat(da: Any, name: str) -> Any:
    """A DataArray without the last longitude, if it is the first once more, a circle further."""
    if name not in da.coords or da.sizes[name] < 5:
        return da
    c = da.coords[name]
    if not is_longitude(name, c.attrs) or c.dtype.kind not in "iuf":
        return da
    at = np.asarray(c.values, np.float64)
    if circle(name, at[:-1], c.attrs) is None or abs(abs(at[-1] - at[0]) - 360) > 1e-3:
        return da
    first, last = (np.asarray(da.isel({name: k}).values) for k in (0, -1))
    if not np.array_equal(first, last, equal_nan=first.dtype.kind == "f"):
        return da
    warnings.warn(
        f"{name} {at[-1]:g} repeats {at[0]:g}: the repeated samples are left out, and the axis is "
        "taken to go round.",
        stacklevel=5,
    )
    return da.isel({name: slice(None, -1)})


def _lazy(da: Any) -> Any:
    """The numbers of a DataArray where they are; in memory, if they are there."""
    if da.chunks is not None:
        return da.data
    if isinstance(da.variable._data, np.ndarray):
        return da.values
    stored = da.encoding.get("chunksizes") or da.encoding.get("chunks")
    known = stored is not None and len(stored) == da.ndim
    return Lazy(OfDataArray(da), tuple(da.shape), da.dtype, stored=tuple(stored) if known else None)


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
    if c.dtype.kind == "O" and len(c) and hasattr(c.reshape(-1)[0], "calendar"):  # cftime's
        first = c.reshape(-1)[0]
        epoch, calendar = first.isoformat().split(".")[0], str(first.calendar)
        about = {"epoch": epoch, "calendar": calendar, "dtype": "object"}
        return from_calendar(c, epoch, calendar), about
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
    if not is_longitude(name, attrs) or len(at) < 4:
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
