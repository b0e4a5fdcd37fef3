"""The energy order that suits an array, read off its spectrum.

If a signal's power falls as ω^(-2p) along an axis, the best linear interpolation uses an energy of
order p. The exponent is fitted to the upper octave of the spectrum, with the part beyond the
Nyquist frequency folded back as sampling folds it.
"""

from functools import lru_cache

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array, Floats

SEGMENT = 32
"""Samples per segment of the averaged periodogram."""

LEAST = 8
"""Axes shorter than this say nothing about their spectrum."""

LARGEST = 1 << 22
"""Samples looked at, at most."""

ORDERS = (0.9, 8.0)
"""Orders outside this range are never chosen."""


def suited_order(y: Array, fallback: float) -> tuple[float, ...]:
    """The order for each axis of samples y, (..., C), in steps of 0.05.

    ``order = 0.2 + 1.15 p`` was fitted once to 29 arrays of four kinds (docs/targets.md); an axis
    too short to tell takes the mean of the others, or `fallback`.
    """
    found = [exponent(_power(y, k)) if n >= LEAST else None for k, n in enumerate(y.shape[:-1])]
    orders = [
        None if p is None else float(np.clip(round((0.2 + 1.15 * p) * 20) / 20, *ORDERS))
        for p in found
    ]
    known = [s for s in orders if s is not None]
    usual = float(np.mean(known)) if known else fallback
    return tuple(usual if s is None else s for s in orders)


def _power(y: Array, k: int) -> Floats:
    """Mean power spectrum along axis k: Hann-windowed segments, half overlapping, no trends."""
    xp = namespace(y)
    n = y.shape[k]
    y = xp.moveaxis(y, k, -1)
    lines = xp.reshape(y, (-1, n))
    step = max(1, (lines.shape[0] * n) // LARGEST)
    lines = lines[::step, :]
    length = min(SEGMENT, n) // 2 * 2
    starts = np.arange(0, n - length + 1, length // 2)
    at = (starts[:, None] + np.arange(length)).reshape(-1)
    pieces = xp.reshape(xp.take(lines, move(at, lines), axis=1), (-1, length))
    t = np.arange(length) - (length - 1) / 2
    keep = np.eye(length) - 1 / length - np.outer(t, t) / (t @ t)  # takes off mean and trend
    window = np.hanning(length + 2)[1:-1]
    wave = np.exp(-2j * np.pi * np.outer(np.arange(length // 2 + 1), np.arange(length)) / length)
    matrix = (keep * window) @ wave.T
    power = np.zeros(length // 2 + 1)
    for part in (matrix.real, matrix.imag):
        f = pieces @ move(np.ascontiguousarray(part), pieces, pieces.dtype)
        power += to_numpy(xp.mean(f * f, axis=0))
    return power


def exponent(power: Floats) -> float:
    """Exponent p of the folded power law ``Σ_k |ω + 2πk|^(-2p)`` nearest to the upper octave."""
    n = len(power) - 1
    upper = np.arange((n + 1) // 2, n + 1)
    if not np.all(power[upper] > 0):
        return ORDERS[1]
    candidates, model = _folded(n)
    gap = np.log(power[upper]) - model
    misfit = np.sum((gap - gap.mean(axis=1, keepdims=True)) ** 2, axis=1)
    return float(candidates[int(np.argmin(misfit))])


@lru_cache(maxsize=8)
def _folded(n: int) -> tuple[Floats, Floats]:
    """Exponents p, and the logarithm of each one's folded power law in the upper octave of n."""
    omega = np.pi * np.arange((n + 1) // 2, n + 1) / n
    p = np.arange(0, 8, 0.01)
    images = np.abs(omega[:, None] + 2 * np.pi * np.arange(-3, 4))
    return p, np.log(np.sum(images ** (-2 * p[:, None, None]), axis=2))
