"""What is known about samples besides their numbers: names, units, reference systems, gaps.

:class:`Labels` go from the input with the field to whatever is made of it: DataArrays, files, model
files, pages. `missing` and `alpha` change what a field answers.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain.sphere import horizontal
from elmfield.errors import need

Attrs = Mapping[str, Any]
"""Attributes as files and DataArrays have them: numbers, texts, lists and mappings of them."""


@dataclass(frozen=True, kw_only=True)
class AxisLabels:
    """What is known about one axis.

    Parameters
    ----------
    attrs : mapping
        Its attributes, such as ``units``.
    dtype : str or None
        What its coordinates were, if not float64.
    epoch : datetime64, str or None
        Of dates: the first. Coordinates count seconds from it. A text where there is a `calendar`.
    calendar : str or None
        Of cftime's dates: which calendar.
    duration : bool
        Whether coordinates are durations; they count seconds.
    ticks : sequence of int
        The samples' coordinates as whole numbers of `dtype`, where float64 cannot tell them
        exactly; else empty.
    """

    attrs: Attrs = field(default_factory=dict)
    dtype: str | None = None
    epoch: np.datetime64 | str | None = None
    calendar: str | None = None
    duration: bool = False
    ticks: Sequence[int] = ()

    @property
    def is_time(self) -> bool:
        """Whether it has dates or durations, which count seconds."""
        return self.epoch is not None or self.duration

    @property
    def units(self) -> str | None:
        """Unit of its coordinates as numbers; None if that is not known."""
        own = self.attrs.get("units")
        return "s" if self.is_time else None if own is None else str(own)


@dataclass(frozen=True, kw_only=True)
class ChannelLabels:
    """What is known about the axis of channels.

    Parameters
    ----------
    name : str
        What it is called.
    labels : sequence
        What the channels are called, or their coordinates; empty if that is not known.
    attrs : mapping
        Its attributes.
    """

    name: str = "channel"
    labels: Sequence[Any] = ()
    attrs: Attrs = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class VariableLabels:
    """What is known about a variable of a Dataset, which is one of the channels.

    `range` is the spread of its samples, greatest less least.
    """

    attrs: Attrs = field(default_factory=dict)
    range: float | None = None


@dataclass(frozen=True, kw_only=True)
class CoordinateLabels:
    """A coordinate that is no axis: its dims, its values, its attributes."""

    dims: Sequence[str] = ()
    values: Array
    attrs: Attrs = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Alpha:
    """Which `channel` holds the transparency of a picture, and its number for opaque, `full`."""

    channel: int
    full: float


@dataclass(frozen=True, kw_only=True)
class Labels:
    """What is known about samples, or about the field through them; all of it optional.

    Parameters
    ----------
    name, title : str or None
        What the values are called; what a page that shows them is called.
    attrs : mapping
        Attributes of the values, such as ``units`` and ``long_name``; the caller's own too.
    axes : mapping of str to AxisLabels
        By name of the axis.
    channels : ChannelLabels
        Of the axis of channels.
    variables : mapping of str to VariableLabels
        Of a Dataset, whose variables are the channels, in this order.
    coords : mapping of str to CoordinateLabels
        Coordinates that are no axis, by name.
    missing : {"fill", "nan"}
        What a field answers where samples were missing, unless a caller says otherwise: what was
        filled in, or NaN.
    fill_value : float or None
        What a file had in place of missing samples.
    dtype : str or None
        What a file had, where samples were read as another one.
    encoding : mapping
        How a file of a DataArray held its numbers.
    alpha : Alpha or None
        If not None, the field holds each colour times alpha, and divides its values by alpha again.
    align : {"areas", "nodes"} or None
        Whether a sample stands for the area around it (pictures), or for the node it sits on.
    samples : {"points", "means"}
        Whether samples were values at points, or means over their cells.
    classes : sequence of int
        If any, the field holds a channel for each, and answers with that of the largest value.
    crs : str or None
        Reference system of the axes y and x, as text that PROJ knows.
    transform : sequence of six float, or None
        Of a map: from columns and rows to x and y.
    affine : four rows of four float, or None
        Of a scan: from sample numbers on its first axes to places in world space, in millimetres.
    space : {"RAS", "LPS"}
        Which way its axes run: NIfTI's (right, front, up), or DICOM's (left, back, up).
    n_placed : int
        How many axes the affine is for: fewer than three where one was picked out.
    rate : int, str or None
        Of sound and video: samples or frames per second; a quotient as text.
    suits : mapping
        Parameters of ``smooth(...)`` that a fit without settings takes.
    header : mapping
        What a format needs to write the file again.
    file_attrs : mapping
        Attributes of the whole file or Dataset.
    source : mapping
        Where samples came from: file, shape, range, SHA-256.
    limits : two float, or None
        Least and greatest sample, where that is known without reading them.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> labels = ef.Labels(name="t2m", attrs={"units": "K"})
    >>> field = ef.fit(ef.Gridded(values=np.eye(8), dims=("y", "x"), labels=labels))
    >>> field.labels.name, field.labels.units
    ('t2m', 'K')
    """

    name: str | None = None
    title: str | None = None
    attrs: Attrs = field(default_factory=dict)
    axes: Mapping[str, AxisLabels] = field(default_factory=dict)
    channels: ChannelLabels = field(default_factory=ChannelLabels)
    variables: Mapping[str, VariableLabels] = field(default_factory=dict)
    coords: Mapping[str, CoordinateLabels] = field(default_factory=dict)
    missing: str = "fill"
    fill_value: float | None = None
    dtype: str | None = None
    encoding: Attrs = field(default_factory=dict)
    alpha: Alpha | None = None
    align: str | None = None
    samples: str = "points"
    classes: Sequence[int] = ()
    crs: str | None = None
    transform: Sequence[float] | None = None
    affine: Sequence[Sequence[float]] | None = None
    space: str = "RAS"
    n_placed: int = 3
    rate: int | str | None = None
    suits: Attrs = field(default_factory=dict)
    header: Attrs = field(default_factory=dict)
    file_attrs: Attrs = field(default_factory=dict)
    source: Attrs = field(default_factory=dict)
    limits: Sequence[float] | None = None

    def axis(self, name: str) -> AxisLabels:
        """What is known about an axis, which may be nothing."""
        return self.axes.get(name, AxisLabels())

    @property
    def units(self) -> str | None:
        """Unit of the values."""
        own = self.attrs.get("units")
        return None if own is None else str(own)

    @property
    def is_placed(self) -> bool:
        """Whether samples are a volume that knows its place in world space."""
        return self.affine is not None and self.n_placed == 3

    def horizontal(self, dims: Sequence[str]) -> tuple[int, int] | None:
        """Numbers of the axes that are latitude and longitude; None if there are no such two."""
        return horizontal(dims, {name: about.attrs for name, about in self.axes.items()})

    def coords_off(self, dims: Sequence[str]) -> dict[str, CoordinateLabels]:
        """Coordinates that do not lie along any of some dims."""
        return {k: c for k, c in self.coords.items() if not set(c.dims) & set(dims)}

    def of_field(self, made: "Labels") -> "Labels":
        """These, of samples, with what a fit has noted in the labels of the field it `made`."""
        return replace(self, missing=made.missing, samples=made.samples)


# --- dates: as callers write them, and as the seconds that axes count in --------------------------

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


# --- transparency ---------------------------------------------------------------------------------

# A transparent pixel has a colour that nobody sees; blended with its neighbours it makes fringes.
# So the field of a picture with transparency holds each colour times alpha, and its values are
# divided by alpha again.

VISIBLE_MIN_ALPHA = 1 / 512
"""Below this part of full alpha (half a level of 8 bits) there is no colour to be told."""


def unpremultiply(alpha: Alpha | None, values: Array) -> Array:
    """Colours of values (n, C) that are times alpha; what is transparent is black."""
    if alpha is None:
        return values
    xp, k, full = namespace(values), alpha.channel, alpha.full
    a = values[:, k : k + 1]
    seen = a > VISIBLE_MIN_ALPHA * full
    colour = xp.where(seen, full * values / xp.where(seen, a, xp.ones_like(a)), 0 * values)
    colour = xp.clip(colour, 0.0, full)
    return xp.concat([colour[:, :k], a, colour[:, k + 1 :]], axis=1)


def unpremultiply_gradient(alpha: Alpha, values: Array, slopes: Array) -> Array:
    """Gradients (..., C, d) of colours, from values (..., C) and slopes that are times alpha.

    ``∇c = (∇p - c ∇a) / a`` for a colour c, alpha a between 0 and 1, and p = c a.
    """
    xp, k, full = namespace(values), alpha.channel, alpha.full
    a, da = values[..., k, None, None] / full, slopes[..., k : k + 1, :] / full
    seen = a > VISIBLE_MIN_ALPHA
    a = xp.where(seen, a, xp.ones_like(a))
    found = xp.where(seen, (slopes - values[..., None] / a * da) / a, 0 * slopes)
    return xp.concat([found[..., :k, :], da * full, found[..., k + 1 :, :]], axis=-2)
