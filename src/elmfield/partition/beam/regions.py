"""Regions as BEAM sees them: sets of cells, quick to unite, to look up, and to put a box around.

Positions along an axis are the bits of one integer, so that a union is an *or* and the shortest box
around it a matter of its ends. What stands in the samples is not known here.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from operator import or_

import numpy as np


@dataclass(eq=False, slots=True)
class Region:
    """A set of cells, as BEAM sees it.

    Parameters
    ----------
    key : int
        Tells sets of cells apart: the exclusive or of 128 random bits per cell. Disjoint sets a and
        b have the union ``a.key ^ b.key``, so energies can be looked up before a union is formed.
    cells : tuple of int
        Cell numbers, in array order of the grid of cells.
    first : int
        The least of them.
    count : int
        Samples that count.
    bits : tuple of int
        On each axis, bit j is set where the region has a sample that counts at position j.
    grid : tuple of int
        The same for the grid of cells.
    peak : float
        Greatest absolute value of a sample.
    """

    key: int
    cells: tuple[int, ...] = field(repr=False)
    first: int
    count: int
    bits: tuple[int, ...] = field(repr=False)
    grid: tuple[int, ...] = field(repr=False)
    peak: float


def union(a: Region, b: Region) -> Region:
    """The union of disjoint regions."""
    return Region(
        a.key ^ b.key,
        a.cells + b.cells,
        min(a.first, b.first),
        a.count + b.count,
        tuple(map(or_, a.bits, b.bits)),
        tuple(map(or_, a.grid, b.grid)),
        max(a.peak, b.peak),
    )


def extent(a: Region, b: Region) -> int:
    """Cells in the box around two regions, where it has no gaps."""
    cells = 1
    for x, y in zip(a.grid, b.grid):
        cells *= (x | y).bit_count()
    return cells


@lru_cache(maxsize=4096)
def span(bits: int, period: int) -> tuple[int, int]:
    """First position and length of the shortest run that holds all set bits.

    On an axis that repeats after `period` positions the run may go around the end; of several
    shortest runs the one that starts first. `period` 0 stands for an axis that does not repeat.
    """
    if not bits:
        return 0, 0
    low = (bits & -bits).bit_length() - 1
    length = bits.bit_length() - low
    if not period or length < period / 2:
        return low, length
    positions = np.flatnonzero(np.frombuffer(f"{bits:0{period}b}".encode(), np.uint8)[::-1] == 49)
    gaps = np.diff(positions, append=positions[0] + period)  # after each set bit
    starts = np.roll(positions, -1)  # the run begins where its gap ends
    best = int(gaps.max())
    return int(starts[gaps == best].min()), period - best + 1
