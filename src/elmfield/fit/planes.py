"""The plane nearest to samples: taken off before they are filled or denoised, and put back."""

from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array, Floats

TOLD = 1e-3
"""Variance of the positions of present samples, in that of all, below which they tell no slope."""


def plane_through(y: Array, present: Array | None, periodic: Sequence[bool]) -> Array:
    """The plane nearest to the present samples of each channel, at all samples; float64.

    Level along an axis that repeats, and along directions in which present samples are too close to
    each other to tell.
    """
    xp = namespace(y)
    have = xp.ones_like(y) if present is None else present
    m = xp.astype(have, xp.float64)
    columns = []
    for k, n in enumerate(y.shape[:-1]):
        if n > 1 and not periodic[k]:
            t = np.linspace(-(3**0.5), 3**0.5, n)  # about unit variance, were all present
            shape = tuple(n if j == k else 1 for j in range(y.ndim))
            columns.append(xp.reshape(move(t, y, xp.float64), shape))
    axes, C = tuple(range(y.ndim - 1)), y.shape[-1]
    count = xp.sum(m, axis=axes)

    def mean(a: Array) -> Array:
        """Over the present samples of each channel, (C,)."""
        return xp.sum(m * a, axis=axes) / count

    y = xp.astype(y, xp.float64)
    level = mean(y)
    if not columns:
        return xp.zeros_like(m) + level
    # What depends on positions is settled on the host; what depends on values stays with them.
    centre = np.stack([to_numpy(mean(t)) for t in columns], axis=1)
    spread = np.zeros((C, len(columns), len(columns)))
    for i, t in enumerate(columns):
        for j, s in enumerate(columns[: i + 1]):
            both = to_numpy(mean(t * s)) - centre[:, i] * centre[:, j]
            spread[:, i, j] = spread[:, j, i] = both
    solve = move(np.stack([_told(own) for own in spread]), y, xp.float64)
    centre = move(centre, y, xp.float64)
    moment = xp.stack([mean(y * t) for t in columns], axis=1) - centre * level[:, None]
    slopes = (solve @ moment[..., None])[..., 0]  # (C, columns)
    plane = xp.zeros_like(m) + (level - xp.sum(slopes * centre, axis=1))
    for i, t in enumerate(columns):
        plane = plane + t * slopes[:, i]
    return plane


def _told(spread: Floats) -> Floats:
    """The inverse of the spread of positions, along directions in which they tell a slope."""
    # Two rows of a hundred tell a slope, but not one to trust a hundred rows away.
    values, vectors = np.linalg.eigh(spread)
    sure = vectors[:, values > TOLD]
    return np.asarray(sure / values[values > TOLD] @ sure.T)
