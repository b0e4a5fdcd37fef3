"""Each channel's least and largest number, their sum, and how many there are; part by part.

Parts may be cut in any way and put together in any order: what is made of them, offsets and scales,
is the same to the last bit.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array.backend import namespace, to_numpy, to_numpy_all
from elmfield._array.typing import Array, Floats, Integers

FINENESS = 16
"""Means are rounded to the span of the numbers, a power of two, divided by 2 to this power."""


@dataclass(frozen=True, eq=False)
class Ends:
    """What is known of the numbers of each channel, on the host.

    Parameters
    ----------
    low, high, total : arrays of float64, shape (C,)
        The least and the largest, infinite where there is none, and the sum.
    count : integer array, shape (C,)
        How many there are.
    """

    low: Floats
    high: Floats
    total: Floats
    count: Integers

    @classmethod
    def of(cls, y: Array, present: Array | None = None) -> "Ends":
        """Of numbers y, (..., C): all of them, or those that are `present`; zero elsewhere."""
        xp, axes = namespace(y), tuple(range(y.ndim - 1))
        low = high = y
        if present is None:
            count = np.full(y.shape[-1], math.prod(y.shape[:-1]))
        else:
            low = xp.where(present, y, xp.full_like(y, xp.inf))
            high = xp.where(present, y, xp.full_like(y, -xp.inf))
            count = np.asarray(to_numpy(xp.sum(xp.astype(present, xp.int64), axis=axes)))
        with np.errstate(over="ignore", invalid="ignore"):
            ends = xp.min(low, axis=axes), xp.max(high, axis=axes)
            total = xp.sum(y, axis=axes, dtype=xp.float64)
        least, most, sums = (a.astype(np.float64) for a in to_numpy_all([*ends, total]))
        return cls(least, most, sums, count.astype(np.int64))

    def __or__(self, other: "Ends") -> "Ends":
        """Of the numbers of both."""
        return Ends(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + other.total,
            self.count + other.count,
        )

    @property
    def largest(self) -> float:
        """The largest magnitude of a number or a sum; NaN if one is NaN."""
        return float(np.abs([self.low, self.high, self.total]).max())

    @property
    def data_range(self) -> float:
        """Peak to peak, all channels together; 1 for constants."""
        return float(self.high.max() - self.low.min()) or 1.0

    @property
    def means(self) -> Floats:
        """The mean of each channel, (C,), rounded to a lattice.

        Sums differ in their last digits with the order of the numbers; on a lattice of some
        ten thousand points from the least to the largest their means do not. Numbers with so few
        digits that a mean may lie half-way between two points have sums without rounding.
        """
        span = self.high - self.low
        step = 2.0 ** (np.floor(np.log2(np.where(span > 0, span, 1.0))) - FINENESS)
        exact = self.total / self.count
        near = np.round(exact / step) * step
        return np.where(span > 0, near, self.low)


# --- range and scale ------------------------------------------------------------------------------


def data_range(y: Array, present: Array | None) -> float:
    """Peak to peak of the samples, all channels together."""
    xp = namespace(y)
    low = high = y
    if present is not None:
        low = xp.where(present, y, xp.full_like(y, xp.inf))
        high = xp.where(present, y, xp.full_like(y, -xp.inf))
    return float(to_numpy(xp.max(high))) - float(to_numpy(xp.min(low))) or 1.0


def range_of(frame: Array) -> float:
    """:func:`data_range` of an array as it came: integers do not wrap, NaN does not count."""
    xp = namespace(frame)
    if not xp.isdtype(frame.dtype, "real floating"):
        frame = xp.astype(frame, xp.float64)
    found = data_range(frame, None)
    return data_range(frame, ~xp.isnan(frame)) if math.isnan(found) else found


def standard_of(ends: Ends, kind: str, centred: bool) -> tuple[Floats, Floats]:
    """Each channel's offset and scale, both (C,), of dtype `kind`, from its ends."""
    offset = (ends.means * centred).astype(kind)
    largest = np.maximum(ends.high - offset, offset - ends.low)
    scale = 2 ** np.round(np.log2(np.where(largest > 0, largest, 1)))
    return offset, scale.astype(kind)


def standardise(y: Array, present: Array | None, centred: bool) -> tuple[Array, Array, Array]:
    """Samples about 0 and of order 1, with each channel's offset and scale, both (C,).

    The scale is a power of two, so that undoing it costs no digit.
    """
    xp = namespace(y)
    axes = tuple(range(y.ndim - 1))
    weight = xp.ones_like(y) if present is None else xp.astype(present, y.dtype)

    def size(y: Array) -> Array:
        largest = xp.max(xp.abs(y), axis=axes)
        return 2 ** xp.round(xp.log2(xp.where(largest > 0, largest, xp.ones_like(largest))))

    if not centred:
        scale = size(y)
        return y / scale, xp.zeros_like(scale), scale
    first = size(y) / 2  # so that a sum of huge numbers does not overflow
    y = y / first
    offset = xp.sum(y, axis=axes) / xp.sum(weight, axis=axes)
    y = (y - offset) * weight
    scale = size(y)
    return y / scale, offset * first, scale * first


def spacing_at(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """From each number's size to the next number; finite for the last one of a dtype too."""
    last = np.nextafter(np.finfo(values.dtype).max, values.dtype.type(0))
    spacing: NDArray[np.floating] = np.spacing(np.minimum(np.abs(values), last))
    return spacing
