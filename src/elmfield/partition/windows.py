"""φ_i: smooth weights that sum to one over the regions.

Across a border between two cells the upper one's weight rises as a ramp from 0 to 1 and the lower
one's falls as 1 minus that ramp. The window of a cell is the product over axes, the window of a
region the sum over its cells: both sum to one by construction, whatever the labels.
"""

from dataclasses import dataclass

from elmfield._array.backend import is_numpy, move, namespace
from elmfield._array.typing import Array
from elmfield.partition.cells import quintic
from elmfield.partition.partition import Partition


@dataclass(frozen=True)
class Blend:
    """The two cells of an axis that contribute at each of n positions, and the upper one's weight.

    Parameters
    ----------
    lower, upper : integer arrays, shape (n,)
        Cell numbers; equal where only one cell contributes.
    ramp : tuple of arrays, shape (n,)
        The upper cell's weight and its derivatives along the axis; the lower's is 1 minus it.
    """

    lower: Array
    upper: Array
    ramp: tuple[Array, ...]


def blend(partition: Partition, k: int, x: Array, order: int = 0) -> Blend:
    """Return the cells that contribute at index coordinates `x` on axis k, and their weights.

    `order` is how many derivatives of the weights are wanted.

    Derivatives are by steps: along an uneven axis the ramp is a function of the position.

    Notes
    -----
    The ramp is the `quintic`: its first two derivatives vanish at both ends, so that values,
    gradients and Hessians of a field are continuous across borders.
    """
    xp = namespace(x)
    edges = move(partition.borders(k), x, x.dtype)
    count, delta = partition.n_cells[k], partition.overlap[k]
    # Borders lie half-way between samples, so the nearest sample tells the cell.
    nearest = xp.astype(x + 0.5, xp.int64)
    if is_numpy(x):
        cell = partition.cells_at(k, nearest)
    else:
        cell = xp.take(move(partition.cell_of[k], x), nearest)
    if delta == 0:
        return Blend(cell, cell, tuple(xp.zeros_like(x) for _ in range(order + 1)))
    wraps = partition.periodic[k]
    if not wraps:  # no cell beyond the ends
        edges[0], edges[-1] = -xp.inf, xp.inf
    above = x - xp.take(edges, cell)  # distance to the lower border
    below = xp.take(edges, cell + 1) - x
    low, high = above < delta, below < delta
    lower = cell - xp.astype(low, cell.dtype)
    upper = cell + xp.astype(high & ~low, cell.dtype)
    if wraps:
        lower, upper = lower % count, upper % count
    # 1/2 at a border; no `where`, which takes ten times as long as a sum.
    nothing = xp.zeros_like(x)
    t = xp.maximum(delta - below, nothing) - xp.maximum(delta - above, nothing)
    t = t / (2 * delta) + xp.astype(low, t.dtype)
    slope, spacing = 1 / (2 * delta), partition.spacing(k)
    if spacing is not None:
        border = xp.where(low, xp.take(edges, cell), xp.take(edges, cell + 1))
        border = xp.where(low | high, border, x)
        first, last = spacing.to_steps(border - delta), spacing.to_steps(border + delta)
        slope = 1 / (last - first)
        t = xp.where(low | high, (spacing.to_steps(x) - first) * slope, nothing)
    window = partition.window or quintic
    ramp = [window(t, i) * slope**i for i in range(order + 1)]
    if order > 2 or window is not quintic:  # what need not vanish at the ends
        ramp = [xp.where(low | high, r, nothing) for r in ramp]
    return Blend(lower, upper, tuple(ramp))
