"""Cells: the regular mesh, rings that are cut, and the cells that a plane meets."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmfield._array.checks import is_whole, per_axis
from elmfield._array.typing import Integers

if TYPE_CHECKING:
    from elmfield.partition.partition import Partition


def even_cells(
    shape: Sequence[int],
    cell: float | Sequence[float],
    overlap: float | Sequence[float],
    wraps: Sequence[bool],
) -> tuple[tuple[Integers, ...], tuple[float, ...]]:
    """Edges of the cells on each axis, and the overlap that is left on each.

    Cells have at most `cell` samples, and sizes that differ by at most one; see
    :meth:`Partition.regular`.
    """
    d = len(shape)
    cells, overlaps = per_axis("cell", cell, d), per_axis("overlap", overlap, d)
    edges, widths = [], []
    for k, (n, c, o) in enumerate(zip(shape, cells, overlaps)):
        if not is_whole(c) or c < 1:
            raise ValueError(
                f"`cell` must be a whole number of samples, at least 1; got cell={c!r} on axis {k}."
            )
        if not 0 <= o <= c / 2:
            raise ValueError(
                f"`overlap` must lie between 0 and half a cell; got overlap={o!r} with cell={c!r} "
                f"on axis {k}. Use a smaller overlap or larger cells."
            )
        count = -(-n // int(c))
        if wraps[k] and o > 0 and n > 1:
            # A box must not run over itself: at least two cells, and room for the overlap.
            count = max(count, 2)
            while count < n and -(-n // count) + 2 * np.ceil(o) > n:
                count += 1
        edge = np.round(np.arange(count + 1) * (n / count)).astype(np.int64)
        o = min(float(o), (n // count) / 2)
        if wraps[k] and count > 1:
            o = min(o, (n - -(-n // count)) / 2)
        edges.append(edge)
        widths.append(float(o) if count > 1 else 0.0)
    return tuple(edges), tuple(widths)


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


# --- other cells of a partition ------------------------------------------------------------------


def without_rings(part: "Partition") -> "Partition":
    """The partition with every ring cut into two regions; as it is where there is none.

    A ring goes all around a periodic axis. A region's model knows one coordinate along an axis;
    where it meets its own other end, it jumps. Two halves meet at borders, where windows blend them
    like any two neighbours.
    """
    around = np.flatnonzero(part.periodic)
    if not any(part.overlap) or (part.is_regular and all(part.n_cells[k] > 1 for k in around)):
        return part
    for k in around:
        part = _cut(part, int(k))
    return part


def rings_of(part: "Partition") -> tuple[bool, ...]:
    """Whether one cell goes all around each axis."""
    return tuple(wraps and count == 1 for wraps, count in zip(part.periodic, part.n_cells))


def _cut(part: "Partition", k: int) -> "Partition":
    """The partition without regions that take all cells of axis k."""
    count = part.n_cells[k]
    taken = np.zeros((part.n_regions, count), bool)
    taken[part.labels, np.indices(part.n_cells)[k]] = True
    rings = np.flatnonzero(taken.all(axis=1))
    if not len(rings):
        return part
    edges, labels = part.edges[k], part.labels
    if count == 1:  # one cell all around: two of half its size
        edges = np.asarray([edges[0], (edges[0] + edges[-1]) // 2, edges[-1]])
        labels, count = np.repeat(labels, 2, axis=k), 2
    position = np.indices(labels.shape)[k]
    upper = np.isin(labels, rings) & (position >= count // 2)
    labels = _numbered(np.where(upper, labels + part.n_regions, labels))
    widths = list(part.overlap)
    widths[k] = min(widths[k], float(np.diff(edges).min()) / 2)
    every = (*part.edges[:k], edges, *part.edges[k + 1 :])
    return part.changed(edges=every, labels=labels, overlap=tuple(widths))


def _numbered(labels: Integers) -> Integers:
    """Labels without gaps, in the order of first cells."""
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(found), np.int64)
    rank[np.argsort(first)] = np.arange(len(found))
    return rank[inverse].reshape(labels.shape)


def plane_of(part: "Partition", at: Mapping[int, int] | None = None) -> "Partition":
    """The regions that a plane cuts, as a two-dimensional partition.

    `at` says at which sample of which axis the plane lies, for all axes but two; by default in the
    middle of the shortest ones.
    """
    fixed = fixed_axes(part.shape, at)
    index = tuple(
        int(part.cell_of[k][fixed[k]]) if k in fixed else slice(None)
        for k in range(len(part.shape))
    )
    labels = np.unique(part.labels[index], return_inverse=True)[1]
    left = [k for k in range(len(part.shape)) if k not in fixed]
    cells = tuple(part.n_cells[k] for k in left)
    return part.changed(
        shape=tuple(part.shape[k] for k in left),
        edges=tuple(part.edges[k] for k in left),
        labels=labels.reshape(cells),
        overlap=tuple(part.overlap[k] for k in left),
        periodic=tuple(part.periodic[k] for k in left),
    )


def fixed_axes(shape: tuple[int, ...], at: Mapping[int, int] | None = None) -> dict[int, int]:
    """The axes across a plane, and the sample of each at which it lies."""
    d = len(shape)
    if d < 2:
        raise ValueError(f"regions are drawn over two axes; the array has {d}.")
    if at is None:
        shortest = sorted(range(d), key=lambda k: (shape[k], k))[: d - 2]
        return {k: shape[k] // 2 for k in sorted(shortest)}
    good = all(
        is_whole(k) and is_whole(i) and 0 <= k < d and 0 <= i < shape[k] for k, i in at.items()
    )
    if len(at) != d - 2 or not good:
        raise ValueError(
            f"`at` must say a sample for each of {d - 2} axes of shape {shape}, such as "
            f"{{0: {shape[0] // 2}}}; got {dict(at)!r}."
        )
    return {int(k): int(i) for k, i in at.items()}
