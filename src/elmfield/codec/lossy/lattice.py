"""Values rounded to a lattice, which are then packed without loss."""

import math

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossless.numbers import on_lattice
from elmfield.codec.lossy.boxes import Floats

LARGEST_PLACE = 2.0**40
"""Places on a lattice are smaller than this."""
ENOUGH_BITS = 2.1
"""Bits a sample in boxes from which a lattice may need fewer. Of eleven pictures (the first half)
at five qualities it did in nine cases, all of them above."""
HALVINGS = 6

Values = NDArray[np.generic]
Found = tuple[Values, tuple[float, float]]
"""Values, and the offset and step of their lattice."""


def floats(x: Floats, step: float, dtype: np.dtype[np.generic]) -> Found | None:
    """Samples x on the lattice of all multiples of `step`; None where there are too many.

    0 comes back as 0.
    """
    top = max(float(np.abs(x).max(initial=0.0)), np.finfo(np.float64).tiny)
    if not 2.0**-960 < step < 2.0**960 or top / step > LARGEST_PLACE:
        return None
    found = on_lattice(0.0, step, np.rint(x / step).astype(np.int64), dtype)
    return (found, (0.0, step)) if np.isfinite(found).all() else None


def whole(x: Floats, step: float, dtype: np.dtype[np.generic]) -> Found | None:
    """Whole numbers x on a lattice that begins at the least; None where the step is 1 or less."""
    if step <= 1 or dtype.itemsize > 4:
        return None
    low = float(x.min())
    return on_lattice(low, step, np.rint((x - low) / step).astype(np.int64), dtype), (low, step)


def as_good(x: Floats, error: float, dtype: np.dtype[np.generic]) -> Found | None:
    """Samples x on the coarsest lattice, about, whose mean squared error is at most `error`."""
    is_whole = dtype.kind in "iu"
    rounded, high = (
        (whole, math.sqrt(12 * error + 1)) if is_whole else (floats, math.sqrt(12 * error))
    )
    low, best = 0.8 * high, None
    high *= 1.05
    for _ in range(HALVINGS):
        step = (low + high) / 2
        found = rounded(x, step, dtype)
        if found is None:
            return best
        if float(np.mean((found[0].astype(np.float64) - x) ** 2)) <= error:
            low, best = step, found
        else:
            high = step
    return best
