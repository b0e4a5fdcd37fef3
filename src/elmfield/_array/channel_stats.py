"""Channels of samples: their least and largest numbers and sums, part by part, and their masks.

Parts may be cut in any way and put together in any order: what is made of them, offsets and scales,
is the same to the last bit.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array.backend import is_array, move, namespace, to_numpy, to_numpy_all
from elmfield._array.checks import array, wrong
from elmfield._array.typing import Array, Floats, Integers

MEAN_BITS = 16
"""Means are rounded to the span of the numbers, a power of two, divided by 2 to this power."""

MIN_EXPONENT = -1074
"""Power of two of the least number above 0 in float64."""


@dataclass(frozen=True, eq=False)
class ChannelStats:
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
    def of(cls, y: Array, present: Array | None = None) -> "ChannelStats":
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

    def __or__(self, other: "ChannelStats") -> "ChannelStats":
        """Of the numbers of both."""
        return ChannelStats(
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.total + other.total,
            self.count + other.count,
        )

    def __getitem__(self, own: slice) -> "ChannelStats":
        """Of some of the channels."""
        return ChannelStats(self.low[own], self.high[own], self.total[own], self.count[own])

    @property
    def largest(self) -> float:
        """The largest magnitude; NaN if a number is NaN."""
        return float(np.abs([self.low, self.high]).max())

    @property
    def data_range(self) -> float:
        """Peak to peak, all channels together; 1 for constants."""
        return float(self.high.max() - self.low.min()) or 1.0

    @property
    def means(self) -> Floats:
        """The mean of each channel, (C,), rounded to a lattice.

        Sums differ in their last digits with the order of the numbers; on a lattice of some
        ten thousand points from the least to the largest their means do not. Numbers with so few
        digits that a mean may lie half-way between two points have sums without rounding. Where a
        sum is beyond float64, the middle between the least and the largest stands for the mean.
        """
        span = self.high - self.low
        power = np.floor(np.log2(np.where(span > 0, span, 1.0))) - MEAN_BITS
        step = 2.0 ** np.maximum(power, MIN_EXPONENT)
        middle = self.low / 2 + self.high / 2
        exact = np.where(np.isfinite(self.total), self.total / self.count, middle)
        near = np.round(exact / step) * step
        return np.where(span > 0, near, self.low)


# --- range and scale ------------------------------------------------------------------------------


def standard_of(ends: ChannelStats, kind: str, centred: bool) -> tuple[Floats, Floats]:
    """Each channel's offset and scale, both (C,), of dtype `kind`, from its ends."""
    offset = (ends.means * centred).astype(kind)
    largest = np.maximum(ends.high - offset, offset - ends.low)
    scale = 2 ** np.round(np.log2(np.where(largest > 0, largest, 1)))
    return offset, scale.astype(kind)


def spacing_at(values: NDArray[np.floating]) -> NDArray[np.floating]:
    """From each number's size to the next number; finite for the last one of a dtype too."""
    last = np.nextafter(np.finfo(values.dtype).max, values.dtype.type(0))
    spacing: NDArray[np.floating] = np.spacing(np.minimum(np.abs(values), last))
    return spacing


# --- masks of missing samples, of the shape of all or of one channel ------------------------------


def join_masks(own: Array, mask: Array | None, channel_axis: int | None) -> Array:
    """What one mask or the other marks; a mask that does not fit is returned for `prepare`."""
    if mask is None:
        return own
    mask = np.asarray(to_numpy(mask))
    if channel_axis is not None and mask.ndim == own.ndim - 1:
        mask = np.expand_dims(mask, channel_axis)
    fits = mask.dtype == bool and all(m in (1, n) for m, n in zip(mask.shape, own.shape))
    return own | mask if fits and mask.ndim == own.ndim else mask


def mask_like_values(
    mask: Array, y: Array, shape: tuple[int, ...], channel_axis: int | None
) -> Array:
    """The caller's mask as booleans of y's shape."""
    xp = namespace(y)
    mask = move(mask if is_array(mask) else array("mask", mask), y)
    if mask.dtype != xp.bool:
        raise wrong("mask", "be boolean, True where a sample is missing", mask.dtype, TypeError)
    if channel_axis is not None and tuple(mask.shape) == shape:
        mask = xp.moveaxis(mask, channel_axis, -1)
        if mask.shape[-1] < y.shape[-1]:  # complex: real and imaginary parts
            mask = xp.concat([mask, mask], axis=-1)
    elif tuple(mask.shape) == tuple(y.shape[:-1]):
        mask = mask[..., None]
    else:
        without = "" if channel_axis is None else f", or without channels, {tuple(y.shape[:-1])}"
        raise wrong("mask", f"have the shape of `values`, {shape}{without}", tuple(mask.shape))
    return xp.broadcast_to(mask, y.shape)
