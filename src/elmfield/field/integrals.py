"""The integral of a blended function over a box: nodes and weights along each axis.

Borders, overlap and an interval enter, in index coordinates; nodes in index coordinates leave, with
weights in the axis's own unit.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis
from elmfield.field.blended import Blended


def integral(
    blended: Blended,
    axes: Sequence[Axis],
    span: tuple[Sequence[float], Sequence[float]],
    lengths: Sequence[float],
) -> Array:
    """The integral over a box, (C,), in float64 and in the unit of the coefficients.

    Two corners in index coordinates, and what the box measures on each axis in the axis's unit.
    """
    part = blended.partition
    places, weights = zip(
        *(
            nodes(axis, part.borders(k), part.overlap[k], a, b, length=lengths[k])
            for k, (axis, a, b) in enumerate(zip(axes, *span))
        )
    )
    return blended.integrate(list(places), list(weights))


def nodes(
    axis: Axis, borders: Floats, overlap: float, low: float, high: float, *, length: float
) -> tuple[Floats, Floats]:
    """Quadrature nodes (index coordinates) and weights (coordinate units) on an axis.

    The interval is in index coordinates, and `length` what it measures in the axis's unit; on a
    periodic axis it may end in the next turn.
    """
    x, w = _nodes(axis, borders, overlap, low, high)
    # Differences of indices are short of digits where the interval is small.
    return x, w * (length / np.sum(w))


def _nodes(
    axis: Axis, borders: Floats, overlap: float, low: float, high: float
) -> tuple[Floats, Floats]:
    """Nodes and weights, their sum still to be set right."""
    end = axis.size - 0.5
    if high > end:
        first = _nodes(axis, borders, overlap, low, end)
        second = _nodes(axis, borders, overlap, -0.5, high - axis.size)
        x, w = map(np.concatenate, zip(first, second))
        return x, w
    cuts = np.concatenate([borders - overlap, borders + overlap, borders])
    if axis.knots is not None:  # the map to coordinates has a kink in its second derivative
        cuts = np.concatenate([cuts, np.arange(axis.size)])
    cuts = np.unique(np.concatenate([[low, high], cuts[(cuts > low) & (cuts < high)]]))
    # Between knots an index is a cubic of the coordinate, but where it is nearly level the
    # coordinate is no polynomial of the index: nodes lie in the coordinate. A cosine of one
    # cycle of such a cubic takes 20 nodes to 3e-15, 16 to 5e-12.
    ends = cuts if axis.knots is None else axis.from_index(cuts)
    places, weights = [], []
    for a, b, length in zip(ends[:-1], ends[1:], np.diff(cuts)):
        n = int(2 * length) + 10 if axis.knots is None else 24
        x, w = _gauss(n)
        places.append((a + b) / 2 + (b - a) / 2 * x)
        weights.append(abs(b - a) / 2 * w)
    x, w = np.concatenate(places), np.concatenate(weights)
    if axis.knots is None:
        return x, w * abs(axis.step)
    x = axis.to_index(x)[0]
    if axis.period is not None:
        x = x - np.floor((x + 0.5) / axis.size) * axis.size
    return np.clip(x, low, high), w


@lru_cache(64)
def _gauss(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre on [-1, 1]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return x, w
