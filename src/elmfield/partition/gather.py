"""The samples of regions' boxes: where they lie in an array, and how to take them out."""

import math
from typing import Any

import numpy as np

from elmfield._array.backend import move, move_all, namespace, take
from elmfield._array.typing import Array, Integers
from elmfield.partition.partition import Partition


def sample_index(
    partition: Partition, regions: Integers, box: tuple[int, ...], like: Array, inside: Any = None
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
    partition: Partition,
    regions: Integers,
    box: tuple[int, ...],
    inside: Any = None,
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


def whole_rows(partition: Partition, step: int) -> int:
    """So many regions at a time, or nearly: whole rows of cells, which are taken by axes."""
    row = math.prod(partition.n_cells[1:])
    return max(step // row * row, row) if step * 4 > row else step


def _block(partition: Partition, regions: Integers) -> list[Any] | None:
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
