"""Something smooth where samples are missing, so that gaps cost few bits."""

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.boxes import Floats

SWEEPS = 6


def filled(x: Floats, missing: NDArray[np.bool_]) -> Floats:
    """Samples (C, n...) with gaps filled from around them, coarse to fine; all missing gives 0."""
    weight = (~missing).astype(np.float64)
    return _filled(np.where(missing, 0.0, x), weight)


def _filled(total: Floats, weight: Floats) -> Floats:
    """Sums and their weights: means where there is weight, smooth elsewhere."""
    known = weight > 0
    value = np.divide(total, weight, out=np.zeros_like(total), where=known)
    if known.all() or max(value.shape[1:]) == 1:
        return value
    coarse = _filled(_halved(total), _halved(weight))
    guess = coarse
    for k in range(1, value.ndim):
        guess = guess.repeat(2, axis=k).take(np.arange(value.shape[k]), axis=k)
    value = np.where(known, value, guess)
    for _ in range(SWEEPS):
        value = np.where(known, value, _around(value))
    return value


def _halved(a: Floats) -> Floats:
    """Sums of pairs along every axis but the first."""
    for k in range(1, a.ndim):
        a = np.add.reduceat(a, np.arange(0, a.shape[k], 2), axis=k)
    return a


def _around(a: Floats) -> Floats:
    """Means of the neighbours along all axes; ends are repeated."""
    total = np.zeros_like(a)
    for k in range(1, a.ndim):
        n = a.shape[k]
        for o in (-1, 1):
            total += a.take(np.clip(np.arange(n) + o, 0, n - 1), axis=k)
    return total / (2 * (a.ndim - 1))
