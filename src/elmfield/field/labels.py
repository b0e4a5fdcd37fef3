"""Names, units and dates on gridded values: what a field's `attributes` say about its axes.

`attributes` is a mapping with these keys, all optional:

- ``name``: what the values are called; ``attrs``: their units and the like;
- ``axes``: by axis name, ``attrs``, the ``dtype`` of its coordinates, and for dates their ``epoch``
  (coordinates then count seconds from it); durations are marked ``duration`` and count seconds;
- ``channels``: ``name`` and ``labels`` of the channel axis, and its ``attrs``;
- ``coords``: other coordinates, each with ``dims``, ``values``, ``attrs``.

xarray is imported only when one of its containers is asked for.
"""

from collections.abc import Mapping, Sequence
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


def coordinates_in(values: Array, axis: Mapping[str, Any]) -> Floats:
    """Coordinates as a caller gives them, as the numbers an axis counts in.

    Dates are datetime64, ISO texts or `datetime` objects; durations timedelta64. Numbers pass.
    """
    values = np.asarray(values)
    dates = axis.get("epoch") is not None
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
    try:
        import xarray
    except ImportError as error:
        raise ImportError("to_xarray needs xarray; pip install 'elmfield[xarray]'.") from error
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
