"""Another rate: samples of sound or frames of video so many times a second, exactly.

Sample j of the new rate lies at j / rate seconds after the first, as every resampler has it. A
lower rate of sound is taken from the field at a multiple of it, after a sharp low-pass filter.
"""

import math
from fractions import Fraction

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.field import Field

Rate = float | str | Fraction
"""Samples per second; text for a quotient, such as "30000/1001"."""

SECONDS = ("s", "sec", "second", "seconds")
"""Units that say that an axis is time."""

STOP_BAND_DB = 140.0
"""What a low-pass filter leaves of what is too fast for a lower rate, in dB below it."""

TRANSITION = 0.08
"""The part of the band below half the new rate in which the filter falls."""


def rate_in(rate: Rate) -> Fraction:
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


def time_axis(field: Field) -> int:
    """The axis that counts seconds."""
    for k, name in enumerate(field.domain.dims):
        if name in ("time", "t") or field.labels.axis(name).attrs.get("units") in SECONDS:
            return k
    raise ValueError(
        f"`rate` is for an axis of time; got axes {', '.join(field.domain.dims)}. Use `shape` or "
        "`scale`."
    )


def own_rate(field: Field, k: int) -> Fraction:
    """Samples per second of the field's own samples."""
    noted = field.labels.rate
    axis = field.domain.axes[k]
    along = Fraction(1) if axis.coords is None else Fraction(1 / abs(float(axis.step)))
    if noted is not None and abs(Fraction(str(noted)) - along) < along / 10**6:
        return Fraction(str(noted))
    return along.limit_denominator(1001)


def decimate(values: Array, m: int, axis: int) -> Array:
    """Every m-th of values along an axis, after what is too fast for them was filtered out."""
    from scipy.signal import firwin, kaiserord, upfirdn

    taps, beta = kaiserord(STOP_BAND_DB, TRANSITION / m)
    half = math.ceil(taps / 2 / m) * m
    h: Floats = firwin(2 * half + 1, (1 - TRANSITION / 2) / m, window=("kaiser", beta))
    n = values.shape[axis]
    # Beyond its ends a recording is mirrored; silence would ring.
    wide = [(half, half) if j == axis else (0, 0) for j in range(values.ndim)]
    padded = np.pad(values, wide, mode="reflect" if n > half else "edge")
    found = upfirdn(h, padded, up=1, down=m, axis=axis)
    first = 2 * half // m
    return np.take(found, range(first, first + math.ceil(n / m)), axis=axis)
