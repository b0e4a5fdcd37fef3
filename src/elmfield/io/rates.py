"""Another rate: samples of sound or frames of video so many times a second, exactly.

Sample j of the new rate lies at j / rate seconds after the first, as every resampler has it. A
lower rate of sound is taken from the field at a multiple of it, after a sharp low-pass filter.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from elmfield._array.backend import as_dtype, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.gridded import gridded
from elmfield.field.lines import along
from elmfield.field.missing import shows_gaps
from elmfield.io.formats.sound import times
from elmfield.io.gridded import Gridded

QUIET = 140.0
"""What a low-pass filter leaves of what is too fast for a lower rate, in dB below it."""

STEEP = 0.08
"""The part of the band below half the new rate in which the filter falls."""


def rate_in(rate: Any) -> Fraction:
    """A rate as callers write it: a number, a Fraction, or text such as "30000/1001"."""
    try:
        found = Fraction(str(rate)) if isinstance(rate, (float, str)) else Fraction(rate)
    except (ValueError, TypeError, ZeroDivisionError):
        found = Fraction(0)
    if found <= 0:
        raise ValueError(
            f"`rate` must be samples per second, above 0, such as 44100 or '30000/1001'; got "
            f"{rate!r}."
        )
    return found


def at_rate(field: Field, rate: Any, *, dtype: Any = None, missing: str | None = None) -> Gridded:
    """A field with an axis of time, its samples so many times a second.

    The other axes keep their samples. Sound comes out band-limited: what a lower rate cannot hold
    is filtered out first. Frames of a video are values in time, also where there are fewer.
    """
    new = rate_in(rate)
    k = _time_axis(field)
    old = _own_rate(field, k)
    n = field.shape[k]
    count = math.ceil(n * new / old)
    sound = len(field.shape) == 1
    m = math.ceil(old / new) if sound and new < old else 1
    x: list[Floats] = [np.arange(size, dtype=np.float64) for size in field.shape]
    ratio = old / (new * m)
    x[k] = times(count * m, 1 / ratio)
    # Beyond the last sample nothing is known: it is held.
    kept = [np.clip(c, 0, size - 1) for c, size in zip(x, field.shape)]
    values = _values(field, kept, shows_gaps(field, missing))
    if m > 1:
        values = _decimated(values, m, 0 if field.channel_axis in (None, 1) else 1)
        x[k] = x[k][::m]
    own = field.attributes.get("dtype") or field.input_dtype
    if dtype is None and np.dtype(own).kind in "biu":
        dtype = own
    name = field.domain.dims[k]
    coords = {a.name: a.coords for a in field.domain.axes if a.coords is not None}
    start = float(field.domain.axes[k].from_index(np.zeros(1))[0])
    coords[name] = start + times(count, new)
    attributes = {**field.attributes, "rate": _noted(new)}
    return Gridded(
        values=as_dtype(values, dtype),
        dims=field.domain.dims,
        coords=coords,
        channel_axis=field.channel_axis,
        attributes=attributes,
    )


def _values(field: Field, x: list[Floats], gaps: bool) -> Array:
    """Values on the grid of index coordinates `x`, on the host."""
    line = along(field.blended, x[0]) if len(x) == 1 and not gaps else None
    if line is None:
        return to_numpy(gridded(field, x, None, gaps=gaps))
    return field.channels_back(field.finish(line.astype(field.coefficient_dtype), True))


def is_sound(field: Field) -> bool:
    """Whether a field is a recording: one axis, of time, with a rate."""
    return len(field.shape) == 1 and "rate" in field.attributes


def rate_for(field: Field, shape: Any, scale: Any) -> Fraction:
    """The rate at which a recording has so many samples, or so many for each of its own."""
    old = _own_rate(field, 0)
    if shape is not None:
        n = np.reshape(shape, -1)
        if n.size != 1 or int(n[0]) != n[0] or n[0] < 1:
            raise ValueError(f"`shape` must be one whole number of at least 1; got {shape!r}.")
        return old * Fraction(int(n[0]), field.shape[0])
    return old * rate_in(float(np.reshape(scale, -1)[0]))


def _noted(rate: Fraction) -> int | str:
    """A rate as attributes hold it: whole, or a quotient as text."""
    return int(rate) if rate.denominator == 1 else f"{rate.numerator}/{rate.denominator}"


def _time_axis(field: Field) -> int:
    """The axis that counts seconds."""
    about = field.attributes.get("axes", {})
    for k, name in enumerate(field.domain.dims):
        if name in ("time", "t") or about.get(name, {}).get("attrs", {}).get("units") in SECONDS:
            return k
    raise ValueError(
        f"`rate` is for an axis of time; got axes {', '.join(field.domain.dims)}. Use `shape` or "
        "`scale`."
    )


SECONDS = ("s", "sec", "second", "seconds")


def _own_rate(field: Field, k: int) -> Fraction:
    """Samples per second of the field's own samples."""
    noted = field.attributes.get("rate")
    axis = field.domain.axes[k]
    along = Fraction(1) if axis.coords is None else Fraction(1 / abs(float(axis.step)))
    if noted is not None and abs(Fraction(str(noted)) - along) < along / 10**6:
        return Fraction(str(noted))
    return along.limit_denominator(1001)


def _decimated(values: Array, m: int, axis: int) -> Array:
    """Every m-th of values along an axis, after what is too fast for them was filtered out."""
    from scipy.signal import firwin, kaiserord, upfirdn

    taps, beta = kaiserord(QUIET, STEEP / m)
    half = math.ceil(taps / 2 / m) * m
    h: Floats = firwin(2 * half + 1, (1 - STEEP / 2) / m, window=("kaiser", beta))
    n = values.shape[axis]
    # Beyond its ends a recording is mirrored; silence would ring.
    wide = [(half, half) if j == axis else (0, 0) for j in range(values.ndim)]
    padded = np.pad(values, wide, mode="reflect" if n > half else "edge")
    found = upfirdn(h, padded, up=1, down=m, axis=axis)
    first = 2 * half // m
    return np.take(found, range(first, first + math.ceil(n / m)), axis=axis)
