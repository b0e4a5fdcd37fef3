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
    count = to_numpy(xp.sum(m, axis=axes))

    def mean(a: Array) -> Floats:
        """Over the present samples of each channel, (C,)."""
        return np.asarray(to_numpy(xp.sum(m * a, axis=axes)) / count)

    level = mean(xp.astype(y, xp.float64))
    centre = np.stack([mean(t) for t in columns], axis=1) if columns else np.zeros((C, 0))
    spread, moment = np.zeros((C, len(columns), len(columns))), np.zeros_like(centre)
    for i, t in enumerate(columns):
        moment[:, i] = mean(xp.astype(y, xp.float64) * t) - centre[:, i] * level
        for j, s in enumerate(columns[: i + 1]):
            spread[:, i, j] = spread[:, j, i] = mean(t * s) - centre[:, i] * centre[:, j]
    slopes = np.zeros_like(moment)
    for k in range(C):
        # Two rows of a hundred tell a slope, but not one to trust a hundred rows away.
        values, vectors = np.linalg.eigh(spread[k])
        sure = vectors[:, values > TOLD]
        slopes[k] = sure @ (sure.T @ moment[k] / values[values > TOLD])
    plane = xp.zeros_like(m) + move(level - np.sum(slopes * centre, axis=1), y, xp.float64)
    for t, slope in zip(columns, slopes.T):
        plane = plane + t * move(np.ascontiguousarray(slope), y, xp.float64)
    return plane
