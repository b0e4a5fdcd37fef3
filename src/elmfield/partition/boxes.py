"""The samples that regions are fitted to: a box around each, and which of the box's are its own.

Enter a partition's cells, labels and margins; `Partition` keeps what leaves.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Integers

if TYPE_CHECKING:  # whose boxes these are
    from elmfield.partition.partition import Partition


def boxes_of(part: "Partition") -> tuple[Integers, Integers]:
    """First sample and number of samples of each region's box, both of shape (N, d)."""
    N, d = part.n_regions, len(part.shape)
    starts, sizes = np.empty((N, d), np.int64), np.empty((N, d), np.int64)
    if part.is_regular:  # axis by axis: there may be a million cells
        grids = [a.reshape(*part.n_cells, d) for a in (starts, sizes)]
        for k, edges in enumerate(part.edges):
            for grid, line in zip(grids, _reaching(part, k, edges[:-1], edges[1:])):
                grid[..., k] = line.reshape(-1, *(1,) * (d - 1 - k))
        return starts, sizes
    cells = np.indices(part.n_cells).reshape(d, -1)
    flat = part.labels.ravel()
    for k, n in enumerate(part.shape):
        first = np.full(N, n)
        last = np.zeros(N, np.int64)
        np.minimum.at(first, flat, part.edges[k][cells[k]])
        np.maximum.at(last, flat, part.edges[k][cells[k] + 1])
        if part.periodic[k]:
            _over_the_seam(part, k, first, last)
        starts[:, k], sizes[:, k] = _reaching(part, k, first, last)
    return starts, sizes


def _reaching(
    part: "Partition", k: int, first: Integers, last: Integers
) -> tuple[Integers, Integers]:
    """First sample and number of samples of boxes on axis k, around regions that begin and end."""
    n, margin = part.shape[k], part.margins[k]
    if part.equal_boxes:
        # Around a periodic axis a box must not meet itself.
        room = (n - int((last - first).max())) // 2 - margin if part.periodic[k] else n
        margin += max(0, min(part.context, room))
        if part.mirrored and part.n_cells[k] == 1:  # thin axes would pay dearly
            margin = min(margin, 1)
    first, last = first - margin, last + margin
    beyond = min(margin, n - 1) if part.mirrored and not part.periodic[k] else 0
    if part.equal_boxes:
        size = min(n + 2 * beyond, int((last - first).max()))
        last = np.maximum(last, first + size)
    if part.periodic[k]:
        last = np.minimum(last, first + n)
    elif part.equal_boxes:
        first = np.minimum(np.maximum(first, -beyond), n + beyond - size)
        last = first + size
    else:
        first, last = np.maximum(first, 0), np.minimum(last, n)
    return first, last - first


def _over_the_seam(part: "Partition", k: int, first: Integers, last: Integers) -> None:
    """Let regions at both ends of a periodic axis begin after their widest gap instead."""
    taken = np.zeros((part.n_regions, part.n_cells[k]), bool)
    taken[part.labels, np.indices(part.n_cells)[k]] = True
    edges = part.edges[k]
    for i in np.flatnonzero(taken[:, 0] & taken[:, -1] & ~taken.all(axis=1)):
        cells = np.flatnonzero(taken[i])
        widest = int(np.argmax(edges[cells[1:]] - edges[cells[:-1] + 1]))
        first[i] = edges[cells[widest + 1]] - part.shape[k]
        last[i] = edges[cells[widest] + 1]


def shapes_of(part: "Partition") -> list[tuple[tuple[int, ...], Any, Integers]]:
    """Triples (box shape, inside, regions): the regions that have the same own samples."""
    found: dict[Any, tuple[tuple[int, ...], Any, list[int]]] = {}
    starts, sizes = part.boxes
    cells = np.argsort(part.labels.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(part.labels.reshape(-1)))
    for i, own in enumerate(np.split(cells, ends[:-1])):
        box = tuple(map(int, sizes[i]))
        inside = np.zeros(box, bool)
        for at in zip(*np.unravel_index(own, part.n_cells)):
            reached = (_reach(part, k, j, starts[i, k], box[k]) for k, j in enumerate(at))
            inside[np.ix_(*reached)] = True
        key = (box, None if inside.all() else inside.tobytes())
        found.setdefault(key, (box, None if inside.all() else inside, []))[2].append(i)
    return [(box, inside, np.asarray(regions)) for box, inside, regions in found.values()]


def _reach(part: "Partition", k: int, cell: int, start: int, size: int) -> Integers:
    """Positions, in a box that begins at sample `start`, of the samples a cell's window has."""
    margin, n = part.margins[k], part.shape[k]
    at = np.arange(part.edges[k][cell] - margin, part.edges[k][cell + 1] + margin) - start
    if part.periodic[k]:
        at = np.unique(at % n)
    return at[(at >= 0) & (at < size)]
