"""The samples of regions' boxes: where they lie in an array, and how to take them out."""

import numpy as np

from elmfield.backend import move, namespace
from elmfield.partition.geometry import Partition
from elmfield.typing import Array, Integers


def sample_index(
    partition: Partition, regions: Integers, box: tuple[int, ...], like: Array
) -> Array:
    """Where the samples of the regions' boxes lie in the flattened array, (G, S)."""
    starts = partition.boxes[0][regions]
    index = np.zeros((len(regions), 1), np.int64)
    for k, (n, b) in enumerate(zip(partition.shape, box)):
        along = (starts[:, k, None] + np.arange(b)) % n  # (G, b)
        index = (index[:, :, None] * n + along[:, None, :]).reshape(len(regions), -1)
    return move(index, like)


def gather(values: Array, index: Array) -> Array:
    """Samples (G, S, C) of `values`, (..., C), at flat positions `index`, (G, S)."""
    xp = namespace(values)
    flat = xp.reshape(values, (-1, values.shape[-1]))
    return xp.reshape(xp.take(flat, xp.reshape(index, (-1,)), axis=0), (*index.shape, -1))
