"""φ_i: smooth weights that sum to one over the regions.

Across a border between two cells the upper one's weight rises as a ramp from 0 to 1 and the lower
one's falls as 1 minus that ramp. The window of a cell is the product over axes, the window of a
region the sum over its cells: both sum to one by construction, whatever the labels.
"""

from dataclasses import dataclass

from elmfield.backend import move, namespace, searchsorted
from elmfield.partition.geometry import Partition
from elmfield.typing import Array


@dataclass(frozen=True)
class Blend:
    """The two cells of an axis that may speak at each of n positions, and the upper one's weight.

    Parameters
    ----------
    lower, upper : integer arrays, shape (n,)
        Cell numbers; equal where only one cell speaks.
    ramp : tuple of arrays, shape (n,)
        The upper cell's weight and its derivatives along the axis; the lower's is 1 minus it.
    """

    lower: Array
    upper: Array
    ramp: tuple[Array, ...]


def blend(partition: Partition, k: int, x: Array, order: int = 0) -> Blend:
    """Who speaks at index coordinates `x` on axis k, with `order` derivatives of the weights.

    Notes
    -----
    The ramp is the quintic ``t³ (10 - 15 t + 6 t²)``: its first two derivatives vanish at both
    ends, so that values, gradients and Hessians of a field are continuous across borders.
    """
    xp = namespace(x)
    edges = move(partition.borders(k), x, x.dtype)
    count, delta = partition.n_cells[k], partition.overlap[k]
    cell = xp.clip(searchsorted(edges, x) - 1, 0, count - 1)
    if delta == 0:
        return Blend(cell, cell, tuple(xp.zeros_like(x) for _ in range(order + 1)))
    wraps = partition.periodic[k]
    above = x - xp.take(edges, cell)  # distance to the lower border
    below = xp.take(edges, cell + 1) - x
    low = (above < delta) & (wraps | (cell > 0))
    high = (below < delta) & (wraps | (cell < count - 1)) & ~low
    lower = xp.where(low, cell - 1, cell)
    upper = xp.where(high, cell + 1, cell)
    if wraps:
        lower, upper = lower % count, upper % count
    signed = xp.where(low, above, -below)
    t = xp.where(low | high, (signed + delta) / (2 * delta), xp.zeros_like(x))
    slope = 1 / (2 * delta)
    ramp = (
        t**3 * (10 - 15 * t + 6 * t**2),
        30 * t**2 * (1 - t) ** 2 * slope,
        60 * t * (1 - t) * (1 - 2 * t) * slope**2,
    )
    return Blend(lower, upper, ramp[: order + 1])
