"""The energy order that suits an array, read off its spectrum.

If a signal's power falls as ω^(-2p) along an axis, the best linear interpolation uses an energy of
order p. The exponent is fitted to the upper octave of the spectrum, with the part beyond the
Nyquist frequency folded back as sampling folds it. What rounding adds to a spectrum is not the
signal's: where it drowns the upper octave, the octave below counts.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy_all
from elmfield._array.typing import Array, Floats, Integers
from elmfield.samples import Grid, View

SEGMENT = 32
"""Samples per segment of the averaged periodogram."""

LEAST = 8
"""Axes shorter than this say nothing about their spectrum."""

LARGEST = 1 << 16
"""Samples looked at along an axis, about: lines far apart of a larger array, or parts of a long
line. A fit of 512² samples takes 1.4 times as long as with a given order."""

TASTED = 1 << 13
"""Samples looked at for the step they were rounded to, about."""

ORDERS = (0.9, 8.0)
"""Orders outside this range are never chosen."""

CLEAR = 8.0
"""A frequency counts where its power is this many times what rounding alone would give."""

CALM = 3.0
"""Exponent of what is so slow that rounding hides all but its first few frequencies: order 4."""


def suited_order(view: View, fallback: float) -> tuple[float, ...]:
    """The order for each axis of samples (..., C), in steps of 0.05.

    ``order = 0.05 + 1.3 p`` was chosen on the 33 arrays of the README's results, none held back; an
    axis too short to tell, or of straight lines only, takes the mean of the others, or `fallback`.
    """
    return orders_of(exponents(view), 0.05, 1.3, fallback)


def orders_of(
    found: Sequence[float | None], first: float, slope: float, fallback: float
) -> tuple[float, ...]:
    """``order = first + slope p`` for the exponent p of each axis, in steps of 0.05."""
    known = [CALM if p == math.inf else p for p in found if p is not None]
    low, high = ORDERS
    orders = iter([min(max(round((first + slope * p) * 20) / 20, low), high) for p in known])
    every = [None if p is None else next(orders) for p in found]
    told = [s for s in every if s is not None]
    usual = float(np.mean(told)) if told else fallback
    return tuple(usual if s is None else s for s in every)


def exponents(view: View) -> tuple[float | None, ...]:
    """Exponents p of the axes of samples (..., C); None where one cannot be told.

    Infinite where the axis is so slow that rounding hides all but its first few frequencies.
    """
    axes = [k for k, n in enumerate(view.shape[:-1]) if n >= LEAST]
    few = view.every(tasted(view.shape))
    lengths = {_length(view.shape[k]) for k in axes}
    waves = {length: move(_waves(length)[0], few, few.dtype) for length in lengths}
    few, *sizes = to_numpy_all([few, *(_sizes(view, k, waves) for k in axes)])
    grain = _grain(few, view.eps)
    found: list[float | None] = [None] * (len(view.shape) - 1)
    for k, size in zip(axes, sizes):
        length = _length(view.shape[k])
        grid = _segments(view.shape, k)
        count = math.prod(map(len, grid)) * view.shape[-1] // length
        power = (size.astype(np.float64) ** 2).reshape(2, -1).sum(axis=0) / count
        found[k] = exponent(power, grain * _waves(length)[1])
    return tuple(found)


def tasted(shape: Sequence[int]) -> int:
    """One of how many samples is looked at for its rounding, of an array (..., C)."""
    return max(1, math.prod(shape[:-1]) // TASTED)


def looks(shape: Sequence[int]) -> tuple[Grid, ...]:
    """The samples of an array (..., C) that tell the spectrum of each axis that has one."""
    return tuple(_segments(tuple(shape), k) for k, n in enumerate(shape[:-1]) if n >= LEAST)


def _grain(few: Floats, eps: float) -> float:
    """Variance of the rounding of some samples, (n, C), mean over channels.

    Of whole numbers, packed ones and small differences of large numbers all differences are
    multiples of one step, and rounding is uniform within it; of others it is that of their dtype.
    """
    found = []
    for column in few.T:
        ordered = np.sort(column).astype(np.float64)
        gaps = np.diff(ordered)
        gaps = gaps[gaps > 0]
        size, step = float(max(-ordered[0], ordered[-1])), float(gaps.min(initial=np.inf))
        least = 2 * eps * size
        if len(gaps) > 8:
            times = gaps / step
            if np.abs(times - np.round(times)).max() < 1e-3:
                least = max(least, step / 12**0.5)
        found.append(least**2)
    return float(np.mean(found))


@lru_cache(maxsize=32)
def _segments(shape: tuple[int, ...], k: int) -> Grid:
    """Segments of lines along axis k of an array (..., C): of all lines, or of some far apart.

    Half overlapping ones, or some far apart where a line is very long.
    """
    step, left = math.prod(shape) // LARGEST, list(shape)
    grid = [np.arange(n) for n in shape[:-1]]
    others = [j for j in range(len(grid)) if j != k]
    for j in sorted(others, key=lambda j: -shape[j]):  # the longest axes first
        part = max(1, min(step, shape[j] // 8))
        if part > 1:
            grid[j] = from_both_ends(shape[j], part, part // 2)
            left[j] = len(grid[j])
        step //= part
    length = _length(shape[k])
    apart = max(1, math.prod(left) // LARGEST)
    starts = from_both_ends(shape[k] - length + 1, length // 2 * apart)
    grid[k] = (starts[:, None] + np.arange(length)).reshape(-1)
    return tuple(grid)


def _length(n: int) -> int:
    """Samples of a segment of an axis of n."""
    return min(SEGMENT, n) // 2 * 2


def _sizes(view: View, k: int, waves: Mapping[int, Array]) -> Array:
    """Norms of cosines, then of sines, along axis k: Hann-windowed segments, no trends."""
    length = _length(view.shape[k])
    seen = view.on(_segments(view.shape, k))
    xp = namespace(seen)
    pieces = xp.reshape(xp.moveaxis(seen, k, -1), (-1, length))
    return xp.linalg.vector_norm(pieces @ waves[length], axis=0)


@lru_cache(maxsize=32)
def _waves(length: int) -> tuple[Floats, float]:
    """Cosines and sines of a windowed segment without its trend, and the power of noise of 1."""
    t = np.arange(length) - (length - 1) / 2
    keep = np.eye(length) - 1 / length - np.outer(t, t) / (t @ t)  # takes off mean and trend
    window = np.hanning(length + 2)[1:-1]
    wave = np.exp(-2j * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(length)) / length)
    matrix = (keep * window) @ wave.T
    return np.hstack([matrix.real, matrix.imag]), float(window @ window)


def from_both_ends(n: int, step: int, first: int = 0) -> Integers:
    """Numbers below n, `step` apart: as many from the end as from the beginning.

    A reversed array shows the same of itself, and so is given the same order.
    """
    low = np.arange(first, (n + 1) // 2, step)
    return np.unique(np.concatenate([low, n - 1 - low]))


def exponent(power: Floats, floor: float = 0.0) -> float | None:
    """Exponent p of the folded power law ``Σ_k |ω + 2πk|^(-2p)`` nearest to the upper octave.

    The octave ends at the last frequency whose power is clear of `floor`; infinite if only the
    first few are, None if none is.
    """
    n = len(power) - 1
    clear = np.flatnonzero(power > CLEAR * floor)
    top = int(clear.max(initial=0))
    if top == 0:
        return None
    if top < 4:
        return math.inf
    band = np.arange((top + 1) // 2, top + 1)
    signal = power[band] - floor
    if not np.all(signal > 0):
        return ORDERS[1]
    # Of |log signal - model|², both about 0, what differs between candidates.
    candidates, model, squares = _folded(n, top)
    misfit = squares - 2 * (model @ np.log(signal))
    return float(candidates[int(np.argmin(misfit))])


@lru_cache(maxsize=32)
def _folded(n: int, top: int) -> tuple[Floats, Floats, Floats]:
    """Exponents p, the logarithm of each one's folded power law, and the sum of its squares.

    At the frequencies of n that make the octave below `top`, its mean taken off.
    """
    omega = np.pi * np.arange((top + 1) // 2, top + 1) / n
    p = np.arange(0, 8, 0.01)
    images = np.abs(omega[:, None] + 2 * np.pi * np.arange(-3, 4))
    model = np.log(np.sum(images ** (-2 * p[:, None, None]), axis=2))
    model -= model.mean(axis=1, keepdims=True)
    return p, model, np.sum(model**2, axis=1)
