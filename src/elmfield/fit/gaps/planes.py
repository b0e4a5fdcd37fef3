"""Overlapping boxes that cover an array, and planes through its samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Spacing


def box_index(
    shape: Sequence[int], box: Sequence[int], step: int, periodic: Sequence[bool]
) -> Integers:
    """Places (G, S), in the flattened array, of the samples of boxes about `step` apart."""
    along = [
        (starts_of(n, b, step, wraps)[:, None] + np.arange(b)) % n
        for n, b, wraps in zip(shape, box, periodic)
    ]
    return join_index(along, shape)


def join_index(along: Sequence[Integers], shape: Sequence[int]) -> Integers:
    """Places (G, S), in a flattened array, of boxes with places (g, b) along each axis."""
    index = np.zeros((1, 1), np.int64)
    for line, n in zip(along, shape):
        index = (index[:, None, :, None] * n + line[None, :, None, :]).reshape(
            len(index) * len(line), -1
        )
    return index


def starts_of(n: int, b: int, step: int, wraps: bool) -> Integers:
    """First samples of boxes of b samples that cover n, the same from both ends of the axis."""
    if wraps and n > 1:  # a box of all n samples begins at two places
        count = max(2, -(-n // step))
        return np.round(np.linspace(0, n, count, endpoint=False)).astype(np.int64)
    count = -(-(n - b) // step) + 1
    low = np.floor(np.linspace(0, n - b, count)[: (count + 1) // 2]).astype(np.int64)
    return np.unique(np.concatenate([low, n - b - low]))


def take_boxes(y: Array, index: Array) -> Array:
    """Samples (G, S, C) of `y`, (..., C), at places `index`, (G, S)."""
    xp = namespace(y)
    flat = xp.reshape(y, (-1, y.shape[-1]))
    return xp.reshape(xp.take(flat, xp.reshape(index, (-1,)), axis=0), (*index.shape, y.shape[-1]))


LEAST_POSITION_VARIANCE = 1e-3
"""Variance of the positions of present samples, in that of all, that a slope needs."""


Spacings = Sequence[Spacing | None]
"""Where the samples of each axis lie, None where they are even; empty for axes that all are."""


def plane_through(
    y: Array, present: Array | None, periodic: Sequence[bool], spacings: Spacings = ()
) -> Array:
    """The plane nearest to the present samples of each channel, at all samples; float64.

    Level along periodic axes, and along directions in which the present samples are too close to
    each other to determine a slope.
    """
    sums = PlaneSums.of(y.shape[:-1], periodic, spacings)
    every = [np.arange(n) for n in y.shape[:-1]]
    here = namespace(y).ones_like(y) if present is None else present
    return sums.plane(sums.of_part(y, here, every)).at(every)


@dataclass(frozen=True, eq=False)
class SamplePlane:
    """A plane for each channel: its level, (C,), and its slopes along some axes, (C, a).

    Along each axis positions run from -√3 to √3: of unit variance, about.
    """

    lines: tuple[Floats, ...]
    axes: tuple[int, ...]
    level: Array
    slopes: Array

    def at(self, positions: Sequence[Integers]) -> Array:
        """Its values (..., C) on a grid of positions."""
        xp = namespace(self.level)
        out = xp.broadcast_to(self.level, (*map(len, positions), self.level.shape[0]))
        for i, k in enumerate(self.axes):
            t = _along(self.lines, k, positions)
            out = out + move(t, out, xp.float64) * self.slopes[:, i]
        return out


def _along(lines: Sequence[Floats], k: int, at: Sequence[Integers]) -> Floats:
    """Positions of samples along axis k, shaped to multiply samples (..., C)."""
    return lines[k][at[k]].reshape([-1 if j == k else 1 for j in range(len(lines) + 1)])


@dataclass(frozen=True)
class PlaneSums:
    """Which sums over present samples determine a plane; those of parts can be added.

    With t the positions along `axes` they are, channel by channel, those of 1, the t_i, the t_i t_j
    with j ≤ i, y, and the y t_i.
    """

    lines: tuple[Floats, ...]
    axes: tuple[int, ...]

    @classmethod
    def of(
        cls, shape: Sequence[int], periodic: Sequence[bool], spacings: Spacings = ()
    ) -> "PlaneSums":
        """For an array with these samples on each axis."""
        axes = tuple(k for k, n in enumerate(shape) if n > 1 and not periodic[k])
        lines, root = [np.linspace(-(3**0.5), 3**0.5, n) for n in shape], 3**0.5
        for k, spacing in enumerate(spacings):
            if spacing is not None and shape[k] > 1:
                p = spacing.positions
                lines[k] = root * (2 * (p - p[0]) / (p[-1] - p[0]) - 1)
        return cls(tuple(lines), axes)

    def of_part(self, y: Array, present: Array, at: Sequence[Integers]) -> Array:
        """The sums of samples y, (..., C), on a grid of positions; (number of sums, C)."""
        xp = namespace(y)
        m, y = xp.astype(present, xp.float64), xp.astype(y, xp.float64)
        t = [move(_along(self.lines, k, at), y, xp.float64) for k in self.axes]
        pairs = [s * u for i, s in enumerate(t) for u in t[: i + 1]]
        terms = [xp.ones_like(y), *t, *pairs, y, *(y * s for s in t)]
        return xp.stack([xp.sum(m * term, axis=tuple(range(y.ndim - 1))) for term in terms])

    def plane(self, sums: Array) -> SamplePlane:
        """The nearest plane of each channel, from the sums over all parts."""
        xp, a = namespace(sums), len(self.axes)
        means = sums / sums[0, :]
        n_pairs = a * (a + 1) // 2
        level, moments = means[1 + a + n_pairs, :], means[2 + a + n_pairs :, :]
        # What depends on positions is computed on the host; what depends on values stays with them.
        centre = to_numpy(means[1 : 1 + a, :]).T  # (C, a)
        spread = np.zeros((len(centre), a, a))
        i, j = np.tril_indices(a)
        pairs = to_numpy(means[1 + a : 1 + a + n_pairs, :]).T
        spread[:, i, j] = spread[:, j, i] = pairs - centre[:, i] * centre[:, j]
        solve = move(np.stack([_safe_inverse(own) for own in spread]), sums, xp.float64)
        centre = move(centre, sums, xp.float64)
        moment = xp.permute_dims(moments, (1, 0)) - centre * level[:, None]
        slopes = (solve @ moment[..., None])[..., 0]  # (C, a)
        return SamplePlane(self.lines, self.axes, level - xp.sum(slopes * centre, axis=1), slopes)


def _safe_inverse(spread: Floats) -> Floats:
    """The inverse of the covariance of positions, along directions in which it is large enough."""
    # Two rows of a hundred determine a slope, but not one to trust a hundred rows away.
    values, vectors = np.linalg.eigh(spread)
    sure = values > LEAST_POSITION_VARIANCE
    return np.asarray(vectors[:, sure] / values[sure] @ vectors[:, sure].T)
