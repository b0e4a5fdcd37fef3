"""The plane nearest to samples: taken off before they are filled or denoised, and put back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array, Floats, Integers

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


# --- the same in parts ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane through each channel: its level, (C,), and its slopes along some axes, (C, a)."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    level: Floats
    slopes: Floats

    def at(self, positions: Sequence[Integers]) -> Floats:
        """Its values (..., C) on a grid of positions."""
        out = np.zeros((*map(len, positions), len(self.level))) + self.level
        for k, slope in zip(self.axes, self.slopes.T):
            t = _along(self.shape[k])[positions[k]]
            out = out + t.reshape([-1 if j == k else 1 for j in range(out.ndim)]) * slope
        return out


def _along(n: int) -> Floats:
    """Positions of n samples, about unit variance."""
    return np.linspace(-(3**0.5), 3**0.5, n)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over present samples that tell the plane nearest to them.

    ``sums`` holds, of all pairs of the columns 1, t_1, ..., t_a and the C channels, the sum of
    products, (1 + a + C, 1 + a); all channels are present where one is.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    sums: Floats

    @classmethod
    def none(cls, shape: Sequence[int], periodic: Sequence[bool], n_channels: int) -> "Moments":
        """Of no samples yet."""
        axes = tuple(k for k, n in enumerate(shape) if n > 1 and not periodic[k])
        return cls(tuple(shape), axes, np.zeros((1 + len(axes) + n_channels, 1 + len(axes))))

    def with_part(self, y: Array, here: Array, at: Sequence[Integers]) -> "Moments":
        """And of samples y, (..., C), at a grid of positions, where they are there."""
        m = here.astype(np.float64)
        columns = [m]
        for k in self.axes:
            t = _along(self.shape[k])[at[k]].reshape([-1 if j == k else 1 for j in range(m.ndim)])
            columns.append(m * t)
        T = np.stack([c.reshape(-1) for c in columns])  # (1 + a, n); m squared is m
        Y = np.moveaxis(y, -1, 0).reshape(y.shape[-1], -1).astype(np.float64)
        return Moments(self.shape, self.axes, self.sums + np.concatenate([T, Y]) @ T.T)

    def plane(self) -> Plane:
        """The nearest plane of each channel."""
        a = len(self.axes)
        count = self.sums[0, 0]
        means = self.sums / count
        centre, level = means[1 : 1 + a, 0], means[1 + a :, 0]
        spread = means[1 : 1 + a, 1:] - np.outer(centre, centre)
        moment = means[1 + a :, 1:] - np.outer(level, centre)
        slopes = moment @ _told(spread)
        return Plane(self.shape, self.axes, level - slopes @ centre, slopes)
