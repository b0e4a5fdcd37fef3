"""Dates and durations on axes: as callers write them, and as the seconds that axes count in."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from elmfield._array.typing import Array, Floats, Integers
from elmfield.errors import need
from elmfield.field.coordinates.labels import AxisLabels

TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Units in which dates and durations are kept, and how many ticks of each make a second."""


def _in_parts(times: Array) -> tuple[Integers, Integers]:
    """Dates or durations of any unit as whole seconds, and nanoseconds beyond them; 0 for NaT."""
    unit = np.datetime_data(times.dtype)[0]
    if unit not in TICKS:
        unit = "ns" if unit in ("ps", "fs", "as") else "s"
    ticks = times.astype(f"{times.dtype.kind}8[{unit}]").astype(np.int64)
    whole, rest = np.divmod(np.where(np.isnat(times), 0, ticks), TICKS[unit])
    return whole, rest * (10**9 // TICKS[unit])


def from_dates(dates: Array, epoch: np.datetime64 | np.timedelta64) -> Floats:
    """Seconds from `epoch`, float64, of dates of any unit; NaN for NaT."""
    dates = np.asarray(dates)
    whole, rest = (a - b for a, b in zip(_in_parts(dates), _in_parts(np.asarray(epoch))))
    seconds = whole + rest // 10**9 + rest % 10**9 / 1e9
    return np.where(np.isnat(dates) | np.isnat(epoch), np.nan, seconds)


def to_times(seconds: Array, dtype: str, epoch: np.datetime64 | None = None) -> Array:
    """Dates, `seconds` after `epoch`, or durations: the nearest that `dtype` holds.

    In a finer unit where they lie between those, as far as float64 tells them apart. NaT where
    there is no date.
    """
    seconds = np.asarray(seconds, np.float64)
    began, beyond = (0, 0) if epoch is None else map(int, _in_parts(np.asarray(epoch)))
    known = np.abs(seconds) < 2.0**62
    if epoch is not None:
        known &= not np.isnat(epoch)
    whole = np.floor(np.where(known, seconds, 0)).astype(np.int64)
    rest = np.round(np.where(known, seconds - whole, 0) * 1e9).astype(np.int64) + beyond
    whole, noise = whole + began, np.spacing(np.abs(seconds)) * 1e9
    last, own = np.abs(whole).max(initial=0), TICKS.get(np.datetime_data(dtype)[0], 1)
    held = [u for u, n in TICKS.items() if last < 2**63 // n]
    for unit in [u for u in held if TICKS[u] >= own] or held[-1:]:
        n = 10**9 // TICKS[unit]
        if not known.any() or (np.abs((rest + n // 2) % n - n // 2)[known] <= noise[known]).all():
            break
    ticks = whole * TICKS[unit] + (rest + n // 2) // n
    kind = np.dtype(dtype).kind
    return np.where(known, ticks, np.iinfo(np.int64).min).view(f"{kind}8[{unit}]")


def from_calendar(dates: Array, epoch: str, calendar: str) -> Floats:
    """Seconds from `epoch`, float64, of dates of a calendar: cftime's objects, or ISO texts."""
    cftime = need("cftime", "geo", "another calendar than the usual one")
    given = [_date(d, calendar, cftime) for d in np.asarray(dates, object).reshape(-1)]
    seconds = cftime.date2num(given, f"seconds since {epoch.replace('T', ' ')}", calendar)
    return np.asarray(seconds, np.float64).reshape(np.shape(dates))


def _date(given: Array, calendar: str, cftime: ModuleType) -> Any:
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
    year, month, day, *rest = (int(p) for p in found.groups(default="0"))
    return cftime.datetime(year, month or 1, day or 1, *rest, calendar=calendar)


ISO = (
    r"([+-]?\d{1,6})(?:-(\d{1,2}))?(?:-(\d{1,2}))?"
    r"(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.0*)?)?)?Z?"
)
"""Year, month, day, hour, minute, second."""


def coordinates_in(values: Array, axis: AxisLabels) -> Floats:
    """Coordinates as a caller gives them, as the numbers an axis counts in.

    Dates are datetime64, ISO texts or `datetime` objects; durations timedelta64. Numbers pass.
    """
    values = np.asarray(values)
    epoch = axis.epoch
    if axis.calendar is not None and values.dtype.kind in "UOSM":
        return from_calendar(values, str(epoch), axis.calendar)
    if values.dtype.kind == "O":  # as a row of a date and a number becomes
        values = np.asarray(values.ravel().tolist()).reshape(values.shape)
    if axis.duration and values.dtype.kind == "m":
        return from_dates(values, np.timedelta64(0, "s"))
    if epoch is not None and values.dtype.kind in "UOS":
        values = values.astype("datetime64")  # in the unit that they are written in
    if isinstance(epoch, np.datetime64) and values.dtype.kind == "M":
        return from_dates(values, epoch)
    if values.dtype.kind not in "biuf":
        wanted = "numbers" if epoch is None else "dates or seconds since the first sample"
        raise TypeError(f"coordinates must be {wanted}; got dtype {values.dtype}.")
    return np.asarray(values, np.float64)


def coordinates_out(values: Floats, axis: AxisLabels) -> Array:
    """The numbers an axis counts in, as a caller expects them: dates, or the input's own dtype."""
    epoch, values = axis.epoch, np.asarray(values)
    if axis.calendar is not None:
        # cftime's objects, to the microsecond.
        since = f"microseconds since {str(epoch).replace('T', ' ')}"
        whole = np.round(np.asarray(values, np.float64) * 1e6).astype(np.int64)
        cftime = need("cftime", "geo", "another calendar than the usual one")
        return np.asarray(cftime.num2date(whole, since, axis.calendar), object)
    if axis.is_time:
        began = epoch if isinstance(epoch, np.datetime64) else None
        found = to_times(values, axis.dtype or np.asarray(began).dtype.str, began)
    elif np.dtype(axis.dtype).kind in "iu" and not np.array_equal(values, np.round(values)):
        found = values
    else:
        found = values.astype(axis.dtype)
    if not axis.ticks:
        return found
    dtype = np.dtype(axis.dtype)
    own = np.asarray(axis.ticks, "int64" if dtype.kind in "mM" else dtype).view(dtype)
    numbers = coordinates_in(own, axis)
    order = np.argsort(numbers)
    at = order[np.searchsorted(numbers[order], values).clip(max=len(own) - 1)]
    return np.where(numbers[at] == values, own[at], found)


def add_ticks(axis: AxisLabels, numbers: Floats, labels: Array) -> AxisLabels:
    """What is known of an axis; with whole numbers for `labels` where `numbers` do not tell them.

    float64 has 53 bits: nanoseconds of a hundred days.
    """
    axis = replace(axis, ticks=())
    if np.array_equal(coordinates_out(numbers, axis), labels):
        return axis
    ticks = labels.astype(np.int64) if labels.dtype.kind in "mM" else labels
    return replace(axis, ticks=ticks.tolist())


def format_coordinate(value: float, about: AxisLabels) -> str:
    """A coordinate as people write it: a number, or a date."""
    if about.epoch is None:
        return f"{float(value):g}" + (" s" if about.duration else "")
    if not np.isfinite(value):
        return "NaT"
    text = str(coordinates_out(np.asarray([value]), about)[0])
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix("T00:00:00").removesuffix(" 00:00:00")


@contextmanager
def date_errors(axes: Mapping[str, AxisLabels]) -> Iterator[None]:
    """Errors about coordinates on axes of dates say dates, not the seconds that these count."""
    try:
        yield
    except ValueError as error:
        name, text, at, lengths = getattr(error, "said", ("", "", (), {}))
        about = axes.get(name)
        if about is None or not about.is_time:
            raise
        spans = {k: f"{n:g} s" if abs(n) < 172800 else f"{n / 86400:g} days"
                 for k, n in lengths.items()}  # fmt: skip
        told = text.format(*(format_coordinate(c, about) for c in at), axis=name, **spans)
        if "the period of" in text or "its period" in text:
            told += f" Periods of dates are durations: {{{name!r}: numpy.timedelta64(365, 'D')}}."
        raise type(error)(told) from None
