"""Transforms of boxes and the weights of their frequencies: what β is a sum over."""

from functools import lru_cache
from typing import Any

import numpy as np

from elmfield._array.threads import n_processors
from elmfield._array.typing import Floats, Integers

NORMALISATIONS = ("forward", "ortho", "backward")
BATCH = 1 << 16
"""Samples transformed together (512 KiB): more would leave the caches, or need new memory."""

CORES = n_processors()
"""Processors this process may use; SciPy would count all that the machine has."""


def rfftn(values: Floats, *options: Any, **named: Any) -> Any:
    """`scipy.fft.rfftn`."""
    from scipy.fft import rfftn as transform  # 0.1 s that who merges nothing need not wait

    return transform(values, *options, **named)


def fast_length(n: int) -> int:
    """`scipy.fft.next_fast_len`, for real numbers."""
    from scipy.fft import next_fast_len

    return int(next_fast_len(n, real=True))


@lru_cache(maxsize=256)
def weights(size: tuple[int, ...], normalisation: str) -> tuple[Floats, float]:
    """``|k|_1`` on the half of the spectrum that a real transform gives, and a rounding error."""
    W = np.zeros((1,) * len(size))
    for k, n in enumerate(size):
        waves = np.abs(np.fft.fftfreq(n, 1 / n)) if k < len(size) - 1 else np.arange(n // 2 + 1.0)
        W = W + waves.reshape([-1 if j == k else 1 for j in range(len(size))])
    sides = np.asarray(size)
    W = W * mirrored(size[-1]) / float(scales(sides, normalisation))
    return W, float(floors(sides, normalisation))


def scales(size: Integers, normalisation: str) -> Floats:
    """What sums over the transforms of boxes are divided by; their sides are the last axis."""
    S = size.prod(axis=-1).astype(float)
    return np.asarray(S ** {"forward": 1.0, "ortho": 0.5, "backward": 0.0}[normalisation])


def floors(size: Integers, normalisation: str) -> Floats:
    """The rounding errors of β of boxes with samples of size 1."""
    S = size.prod(axis=-1).astype(float)
    waves = S * (size * size // 4 / size).sum(axis=-1)  # |k|_1 of all frequencies
    # A transform of S numbers of size 1 is off by about ε √S log S in every entry.
    error = 4 * np.finfo(float).eps * np.sqrt(S) * np.log2(2 * S)
    return np.asarray(error * waves / scales(size, normalisation))


def mirrored(n: int) -> Floats:
    """How often the entries of a real transform of length n occur in the whole: most of them twice.

    The other half is the mirror image.
    """
    twice = np.full(n // 2 + 1, 2.0)
    twice[0] = 1
    if n % 2 == 0:
        twice[-1] = 1
    return twice


def rounded(beta: Floats) -> Floats:
    """Numbers of 36 significant bits."""
    mantissa, exponent = np.frexp(beta)
    return np.asarray(np.ldexp(np.round(mantissa * 2.0**36), exponent - 36))
