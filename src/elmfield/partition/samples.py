"""The samples of regions' boxes: where they lie in an array, and how to take them out."""

from typing import Any

import numpy as np

from elmfield.backend import move, namespace
from elmfield.partition.geometry import Partition
from elmfield.typing import Array, Integers


def sample_index(
    partition: Partition, regions: Integers, box: tuple[int, ...], like: Array, inside: Any = None
) -> Array:
    """Where the samples of the regions' boxes lie in the flattened array, (G, S).

    With `inside`, an array of bool of the box's shape, only those samples of the box.
    """
    starts = partition.boxes[0][regions]
    index = np.zeros((len(regions), 1), np.int64)
    for k, (n, b) in enumerate(zip(partition.shape, box)):
        along = (starts[:, k, None] + np.arange(b)) % n  # (G, b)
        index = (index[:, :, None] * n + along[:, None, :]).reshape(len(regions), -1)
    if inside is not None:
        index = index[:, np.flatnonzero(inside)]
    return move(index, like)


def gather(values: Array, index: Array) -> Array:
    """Samples (G, S, C) of `values`, (..., C), at flat positions `index`, (G, S)."""
    xp = namespace(values)
    flat = xp.reshape(values, (-1, values.shape[-1]))
    return xp.reshape(xp.take(flat, xp.reshape(index, (-1,)), axis=0), (*index.shape, -1))


def gather_boxes(
    values: Array,
    partition: Partition,
    regions: Integers,
    box: tuple[int, ...],
    inside: Any = None,
) -> Array:
    """Samples (G, S, C) of the regions' boxes; `regions` in ascending order.

    Where the regions fill a block of cells of a regular mesh, axis by axis: nothing but short lists
    of indices travels to a device, and cells that tile the array are only reshaped.
    """
    xp, d = namespace(values), len(box)
    numbers = regions if partition.is_regular else regions[:0]
    cells = [np.unique(c) for c in np.unravel_index(numbers, partition.n_cells)]
    shape = [len(c) for c in cells]
    if inside is not None or not partition.is_regular or int(np.prod(shape)) != len(regions):
        return gather(values, sample_index(partition, regions, box, values, inside))
    starts = partition.boxes[0].reshape(*partition.n_cells, d)
    for k, (n, b) in enumerate(zip(partition.shape, box)):
        line = starts[tuple(cells[k] if j == k else 0 for j in range(d))][:, k]
        along = ((line[:, None] + np.arange(b)) % n).reshape(-1)
        axis = 2 * k
        if not np.array_equal(along, np.arange(n)):
            values = xp.take(values, move(along, values), axis=axis)
        rest = tuple(values.shape)
        values = xp.reshape(values, (*rest[:axis], len(line), b, *rest[axis + 1 :]))
    order = (*range(0, 2 * d, 2), *range(1, 2 * d, 2), 2 * d)
    return xp.reshape(xp.permute_dims(values, order), (len(regions), -1, values.shape[-1]))
