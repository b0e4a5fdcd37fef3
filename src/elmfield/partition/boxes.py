"""The samples that regions are fitted to: boxes around them, and what they hold of an array."""

import math
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import move, move_all, namespace, take
from elmfield._array.typing import Array, Bools, Integers

if TYPE_CHECKING:  # whose boxes these are
    from elmfield.partition.partition import Partition

Shape = tuple[tuple[int, ...], Bools | None, Integers]
"""Box shape, which of the box's samples are a region's own (None: all), and the regions."""


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


def shapes_of(part: "Partition") -> list[Shape]:
    """Triples (box shape, inside, regions): the regions that have the same own samples."""
    found: dict[tuple[tuple[int, ...], bytes | None], tuple[Bools | None, list[int]]] = {}
    starts, sizes = part.boxes
    cells = np.argsort(part.labels.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(part.labels.reshape(-1)))
    for i, own in enumerate(np.split(cells, ends[:-1])):
        box = tuple(map(int, sizes[i]))
        inside = np.zeros(box, bool)
        for at in zip(*np.unravel_index(own, part.n_cells)):
            reached = (_reach(part, k, j, starts[i, k], box[k]) for k, j in enumerate(at))
            inside[np.ix_(*reached)] = True
        some = None if inside.all() else inside
        found.setdefault((box, some if some is None else some.tobytes()), (some, []))[1].append(i)
    return [(box, own, np.asarray(regions)) for (box, _), (own, regions) in found.items()]


def _reach(part: "Partition", k: int, cell: int, start: int, size: int) -> Integers:
    """Positions, in a box that begins at sample `start`, of the samples a cell's window has."""
    margin, n = part.margins[k], part.shape[k]
    at = np.arange(part.edges[k][cell] - margin, part.edges[k][cell + 1] + margin) - start
    if part.periodic[k]:
        at = np.unique(at % n)
    return at[(at >= 0) & (at < size)]


# --- taking them out of an array ------------------------------------------------------------------


def sample_index(
    partition: "Partition",
    regions: Integers,
    box: tuple[int, ...],
    like: Array,
    inside: Bools | None = None,
) -> Array:
    """Where the samples of the regions' boxes lie in the flattened array, (G, S).

    With `inside`, an array of bool of the box's shape, only those samples of the box.
    """
    starts = partition.boxes[0][regions]
    index = np.zeros((len(regions), 1), np.int64)
    for k, (n, b) in enumerate(zip(partition.shape, box)):
        along = partition.within(k, starts[:, k, None] + np.arange(b))  # (G, b)
        index = (index[:, :, None] * n + along[:, None, :]).reshape(len(regions), -1)
    if inside is not None:
        index = index[:, np.flatnonzero(inside)]
    return move(index, like)


def gather(values: Array, index: Array) -> Array:
    """Samples (G, S, C) of `values`, (..., C), at flat positions `index`, (G, S)."""
    xp = namespace(values)
    flat = xp.reshape(values, (-1, values.shape[-1]))
    return xp.reshape(take(flat, xp.reshape(index, (-1,))), (*index.shape, -1))


def gather_boxes(
    values: Array,
    partition: "Partition",
    regions: Integers,
    box: tuple[int, ...],
    inside: Bools | None = None,
) -> Array:
    """Samples (G, S, C) of the regions' boxes; `regions` in ascending order.

    Where the regions fill a block of cells of a regular mesh, axis by axis: nothing but short lists
    of indices travels to a device, and cells that tile the array are only reshaped. In memory each
    channel is then in one piece.
    """
    xp, d = namespace(values), len(box)
    cells = None if inside is not None else _block(partition, regions)
    if cells is None:
        return gather(values, sample_index(partition, regions, box, values, inside))
    X = xp.permute_dims(values, (d, *range(d)))
    along = []
    for k, b in enumerate(box):
        line = partition.lines[k][cells[k]]
        along.append(partition.within(k, line[:, None] + np.arange(b)))
    for k, (n, at, index) in enumerate(zip(partition.shape, along, move_all(along, X))):
        axis = 1 + 2 * k
        if not np.array_equal(at.reshape(-1), np.arange(n)):
            X = take(X, xp.reshape(index, (-1,)), axis=axis)
        X = xp.reshape(X, (*X.shape[:axis], *at.shape, *X.shape[axis + 1 :]))
    X = xp.permute_dims(X, (0, *range(1, 2 * d, 2), *range(2, 2 * d + 1, 2)))
    X = xp.reshape(X, (X.shape[0], len(regions), -1))
    return xp.permute_dims(X, (1, 2, 0))


def whole_rows(partition: "Partition", step: int) -> int:
    """So many regions at a time, or nearly: whole rows of cells, which are taken by axes."""
    row = math.prod(partition.n_cells[1:])
    return max(step // row * row, row) if step * 4 > row else step


def _block(partition: "Partition", regions: Integers) -> list[slice | Integers] | None:
    """The cells of each axis whose product the regions are, or None if they are no block."""
    if not partition.is_regular:
        return None
    counts, G = partition.n_cells, len(regions)
    row = partition.n_regions // counts[0]
    first, last = int(regions[0]), int(regions[-1]) + 1
    if last - first == G and first % row == 0 and G % row == 0:  # whole rows of cells
        return [slice(first // row, last // row), *(slice(None) for _ in counts[1:])]
    cells = [np.unique(c) for c in np.unravel_index(regions, counts)]
    return list(cells) if math.prod(map(len, cells)) == G else None
