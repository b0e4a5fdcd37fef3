"""Cells and boxes that lie alike from both ends of an axis, all boxes of one size.

A reversed array has the reversed cells and boxes, and so the reversed function.
"""

import math
from typing import NamedTuple

import numpy as np

from elmfield._array.typing import Integers


class Line(NamedTuple):
    """How cells and boxes lie on one axis.

    Parameters
    ----------
    edges : integer array, shape (N + 1,)
        Cell i holds the samples ``edges[i]`` to ``edges[i + 1] - 1``.
    starts : integer array, shape (N,)
        First sample of each cell's box; negative or beyond the end only where the axis wraps.
    box : int
        Samples of every box.
    overlap : float
        Half-width of the blend across cell borders.
    """

    edges: Integers
    starts: Integers
    box: int
    overlap: float


def line(n: int, cell: int, overlap: float, context: int, *, periodic: bool = False) -> Line:
    """Cells of `cell` samples (odd), some larger or smaller, and boxes of one size.

    Boxes at the ends lie inside the array: nothing is made up beyond it, so that straight lines go
    on straight. Arrays that one box can hold are one cell, unless the axis wraps.
    """
    reach = math.ceil(overlap - 0.5)
    box = min(n, cell + 2 * (reach + context))
    if periodic and n > 1:
        return _around(n, cell, overlap, box, box - 2 * reach)
    one = Line(np.array([0, n]), np.zeros(1, np.int64), n, 0.0)
    if n == box:
        return one
    count, rest = _count(n, cell)
    if count == 1 or cell + rest + reach > box:  # no room for larger ends: smaller ones
        count, rest = count + 2, rest - cell
    if cell + rest < 2 * overlap:  # too small to blend
        return one
    sizes = np.full(count, cell)
    sizes[[0, -1]] += rest  # their boxes have room for it, being moved inwards
    edges, starts = _mirrored(sizes, box)
    return Line(edges, np.clip(starts, 0, n - box), box, overlap)


def _around(n: int, cell: int, overlap: float, box: int, largest: int) -> Line:
    """The same around a periodic axis: what is left over goes to pairs of cells."""
    count, rest = _count(n, cell)
    if n == box:  # a few cells, whose boxes are turned
        count = 2 + n % 2
        ends = n // 2 if n % 2 == 0 else round(n / 3)
        sizes = np.array([ends, n - 2 * ends, ends] if n % 2 else [ends, ends])
    else:
        if count == 1 or cell + math.ceil(rest / (count // 2)) > largest:
            count, rest = count + 2, rest - cell
        sizes = np.full(count, cell)
        for j in range(abs(rest)):
            at = j % (count // 2)
            sizes[[at, -1 - at]] += 1 if rest > 0 else -1
    # A cell must have room for its blends, and no window may meet itself.
    overlap = min(overlap, float(sizes.min()) / 2, (n - int(sizes.max())) / 2)
    return Line(*_mirrored(sizes, box), box, overlap)


def _count(n: int, cell: int) -> tuple[int, int]:
    """How many cells there may be, and half of what is left over.

    An even number of samples has a border in its middle, an odd number a cell.
    """
    count = n // cell
    count -= (n - count) % 2
    return count, (n - cell * count) // 2


def _mirrored(sizes: Integers, box: int) -> tuple[Integers, Integers]:
    """Edges of the cells and starts of the boxes around them."""
    n, half = int(sizes.sum()), len(sizes) // 2
    edges = np.concatenate([[0], np.cumsum(sizes)])
    starts = edges[:-1] - (box - sizes) // 2
    starts[len(sizes) - half :] = n - box - starts[:half][::-1]
    return edges, starts
