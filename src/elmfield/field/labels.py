"""Names, units and dates on gridded values: what a field's `attributes` say about its axes.

`attributes` is a mapping with these keys, all optional:

- ``name``: what the values are called; ``attrs``: their units and the like;
- ``axes``: by axis name, ``attrs``, the ``dtype`` of its coordinates, and for dates their ``epoch``
  (coordinates then count seconds from it), a text where they have a ``calendar`` of cftime's;
  durations are marked ``duration`` and count seconds;
- ``channels``: ``name`` and ``labels`` of the channel axis, and its ``attrs``;
- ``variables``: by name, ``attrs`` and ``range`` of the variables of a Dataset, which are channels;
- ``coords``: other coordinates, each with ``dims``, ``values``, ``attrs``;
- ``missing``: "nan" if samples that were missing stay so; ``fill_value``: what a file had for them.

xarray is imported only when one of its containers is asked for.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats


def from_dates(dates: Array, epoch: np.datetime64) -> Floats:
    """Seconds from `epoch`, float64; NaN for NaT."""
    since = np.asarray(dates, "datetime64[ns]") - epoch.astype("datetime64[ns]")
    whole, rest = np.divmod(since.astype(np.int64), 10**9)
    return np.where(np.isnat(since), np.nan, whole + rest / 1e9)


def from_durations(durations: Array) -> Floats:
    """Seconds, float64; NaN for NaT."""
    durations = np.asarray(durations, "timedelta64[ns]")
    return np.where(np.isnat(durations), np.nan, durations.astype(np.int64) / 1e9)


def to_dates(seconds: Array, epoch: np.datetime64, dtype: str) -> Array:
    """Dates, to the nanosecond where float64 still resolves it."""
    seconds = np.asarray(seconds, np.float64)
    whole = np.floor(seconds)
    rest = np.round((seconds - whole) * 1e9).astype("timedelta64[ns]")
    start = epoch.astype("datetime64[ns]")
    return (start + whole.astype("timedelta64[s]").astype("timedelta64[ns]") + rest).astype(dtype)


def from_calendar(dates: Array, epoch: str, calendar: str) -> Floats:
    """Seconds from `epoch`, float64, of dates of a calendar: cftime's objects, or ISO texts."""
    cftime = _cftime()
    given = [_date(d, calendar, cftime) for d in np.asarray(dates, object).reshape(-1)]
    seconds = cftime.date2num(given, f"seconds since {epoch.replace('T', ' ')}", calendar)
    return np.asarray(seconds, np.float64).reshape(np.shape(dates))


def _date(given: Any, calendar: str, cftime: Any) -> Any:
    """A date of a calendar."""
    if isinstance(given, cftime.datetime):
        if given.calendar != calendar:
            raise ValueError(
                f"dates must be of the calendar {calendar!r}; got {given} of {given.calendar!r}."
            )
        return given
    found = re.fullmatch(ISO, str(given).strip())
    if found is None:
        raise ValueError(f"{given!r} is no date; write it as 2001-02-28 or 2001-02-28T12:00:00.")
    parts = [int(p) for p in found.groups(default="0")[1:6]]
    year = int(found[1])
    parts[0], parts[1] = parts[0] or 1, parts[1] or 1
    return cftime.datetime(year, *parts, calendar=calendar)


ISO = (
    r"([+-]?\d{1,6})(?:-(\d{1,2}))?(?:-(\d{1,2}))?"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.0*)?)?)?Z?"
)
"""Year, month, day, hour, minute, second."""


def _cftime() -> Any:
    try:
        import cftime
    except ImportError as error:
        raise ImportError(
            "calendars other than the usual one need cftime; pip install 'elmfield[geo]'."
        ) from error
    return cftime


def to_calendar(seconds: Array, epoch: str, calendar: str) -> Array:
    """Dates of a calendar, cftime's objects, to the microsecond."""
    since = f"microseconds since {epoch.replace('T', ' ')}"
    whole = np.round(np.asarray(seconds, np.float64) * 1e6).astype(np.int64)
    return np.asarray(_cftime().num2date(whole, since, calendar), object)


def coordinates_in(values: Array, axis: Mapping[str, Any]) -> Floats:
    """Coordinates as a caller gives them, as the numbers an axis counts in.

    Dates are datetime64, ISO texts or `datetime` objects; durations timedelta64. Numbers pass.
    """
    values = np.asarray(values)
    dates = axis.get("epoch") is not None
    if axis.get("calendar") is not None and values.dtype.kind in "UOSM":
        return from_calendar(values, str(axis["epoch"]), str(axis["calendar"]))
    if values.dtype.kind == "O":  # as a row of a date and a number becomes
        values = np.asarray(values.ravel().tolist()).reshape(values.shape)
    if axis.get("duration") and values.dtype.kind == "m":
        return from_durations(values)
    if dates and values.dtype.kind in "UOS":
        values = values.astype("datetime64[ns]")
    if dates and values.dtype.kind == "M":
        return from_dates(values, axis["epoch"])
    if values.dtype.kind not in "biuf":
        wanted = "dates or seconds since the first sample" if dates else "numbers"
        raise TypeError(f"coordinates must be {wanted}; got dtype {values.dtype}.")
    return np.asarray(values, np.float64)


def coordinates_out(values: Floats, axis: Mapping[str, Any]) -> Array:
    """The numbers an axis counts in, as a caller expects them: dates, or the input's own dtype."""
    epoch, dtype = axis.get("epoch"), axis.get("dtype", "float64")
    if axis.get("calendar") is not None:
        return to_calendar(values, str(epoch), str(axis["calendar"]))
    if epoch is not None:
        return to_dates(values, epoch, dtype)
    values = np.asarray(values)
    if axis.get("duration"):
        return np.round(values * 1e9).astype("timedelta64[ns]").astype(dtype)
    if np.dtype(dtype).kind in "iu" and not np.array_equal(values, np.round(values)):
        return values
    return values.astype(dtype)


def dataarray(
    values: Array,
    names: Sequence[str],
    coordinates: Sequence[Floats | None],
    channel_axis: int | None,
    attributes: Mapping[str, Any],
    moved: Sequence[str] = (),
) -> Any:
    """An xarray.DataArray of gridded values.

    Parameters
    ----------
    values : array
        With channels, if any, on axis `channel_axis`.
    names, coordinates : sequences
        Of the other axes, in array order; None for an axis that only counts.
    channel_axis : int or None
        Where the channels are.
    attributes : mapping
        See this module's docstring.
    moved : sequence of str
        Axes that are not at the samples' own positions; other coordinates on them are left out.
    """
    xarray = need_xarray("to_xarray")
    about = attributes.get("axes", {})
    dims: list[str] = list(names)
    coords: dict[str, Any] = {}
    for name, c in zip(names, coordinates):
        if c is not None:
            axis = about.get(name, {})
            coords[name] = (name, coordinates_out(c, axis), dict(axis.get("attrs", {})))
    if channel_axis is not None:
        channels = attributes.get("channels", {})
        label = str(channels.get("name", "channel"))
        while label in dims:
            label += "_"
        dims.insert(channel_axis, label)
        if "labels" in channels and len(channels["labels"]) == values.shape[channel_axis]:
            listed = np.asarray(channels["labels"])
            coords[label] = (label, listed, dict(channels.get("attrs", {})))
    for name, other in attributes.get("coords", {}).items():
        if name not in coords and name not in dims and set(other["dims"]) <= set(dims):
            if set(other["dims"]) & set(moved):
                continue
            kept = np.asarray(other["values"])
            if kept.shape == tuple(values.shape[dims.index(k)] for k in other["dims"]):
                coords[name] = (tuple(other["dims"]), kept, dict(other.get("attrs", {})))
    return xarray.DataArray(
        values,
        coords=coords,
        dims=dims,
        name=attributes.get("name"),
        attrs=dict(attributes.get("attrs", {})),
    )


def need_xarray(purpose: str) -> Any:
    """The module xarray; an error that names the extra where it is not installed."""
    try:
        import xarray
    except ImportError as error:
        raise ImportError(f"{purpose} needs xarray; pip install 'elmfield[xarray]'.") from error
    return xarray


OF_THE_VALUES = ("units", "standard_name", "valid_range", "valid_min", "valid_max", "cell_methods")
"""Attributes that are wrong for a gradient or a Laplacian."""


def derived(
    attributes: Mapping[str, Any], quantity: str, units: str | None = None
) -> dict[str, Any]:
    """`attrs` of a derivative: neither a temperature nor in kelvin; in `units`, if they are known.

    Without, per unit of the axes where these all have the same.
    """
    own = attributes.get("attrs", {})
    kept = {k: v for k, v in own.items() if k not in OF_THE_VALUES and not k.startswith("GRIB_")}
    if units is None and quantity in PER and own.get("units"):
        axes = attributes.get("axes", {}).values()
        per = {str(a.get("attrs", {}).get("units", "")) for a in axes}
        if len(per) == 1 and "" not in per and not any(a.get("epoch") for a in axes):
            units = f"{own['units']} {per.pop()}{PER[quantity]}"
    told = {} if units is None else {"units": units}
    return kept | told | {"long_name": f"{quantity} of {attributes.get('name', 'field')}"}


PER = {"gradient": "-1", "hessian": "-2", "laplacian": "-2"}
"""Powers of the axes' unit in that of a derivative."""


def unstacked(
    array: Any,
    attributes: Mapping[str, Any],
    quantity: str = "value",
    units: Callable[[str | None], str | None] | None = None,
) -> Any:
    """A DataArray as it is, or as the Dataset whose variables were fitted as its channels."""
    variables = attributes.get("variables")
    if not variables:
        return array
    xarray = need_xarray("a Dataset")
    dim = str(attributes.get("channels", {}).get("name", "channel"))
    found = {}
    for k, (name, about) in enumerate(variables.items()):
        one = array.isel({dim: k}, drop=True)
        told = {"attrs": about.get("attrs", {}), "name": name, "axes": attributes.get("axes", {})}
        one.attrs = dict(told["attrs"])
        if quantity != "value":
            own = None if units is None else units(one.attrs.get("units"))
            one.attrs = derived(told, quantity, own)
        found[name] = one.rename(name)
    return xarray.Dataset(found, attrs=dict(attributes.get("global", {})))
