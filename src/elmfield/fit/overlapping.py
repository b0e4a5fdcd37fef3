"""Overlapping boxes all over an array: where their samples lie, the same from both ends."""

from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Integers


def box_index(
    shape: Sequence[int], box: Sequence[int], step: int, periodic: Sequence[bool]
) -> Integers:
    """Places (G, S), in the flattened array, of the samples of boxes about `step` apart."""
    along = [
        (starts_of(n, b, step, wraps)[:, None] + np.arange(b)) % n
        for n, b, wraps in zip(shape, box, periodic)
    ]
    return joined_index(along, shape)


def joined_index(along: Sequence[Integers], shape: Sequence[int]) -> Integers:
    """Places (G, S), in a flattened array, of boxes with places (g, b) along each axis."""
    index = np.zeros((1, 1), np.int64)
    for line, n in zip(along, shape):
        index = (index[:, None, :, None] * n + line[None, :, None, :]).reshape(
            len(index) * len(line), -1
        )
    return index


def starts_of(n: int, b: int, step: int, wraps: bool) -> Integers:
    """First samples of boxes of b samples that cover n; inside them, unless the axis wraps."""
    if wraps and n > 1:  # boxes of all samples there are begin at both of their sides
        count = max(2, -(-n // step))
        return np.round(np.linspace(0, n, count, endpoint=False)).astype(np.int64)
    count = -(-(n - b) // step) + 1
    low = np.floor(np.linspace(0, n - b, count)[: (count + 1) // 2]).astype(np.int64)
    return np.unique(np.concatenate([low, n - b - low]))


def taken(y: Array, index: Array) -> Array:
    """Samples (G, S, C) of `y`, (..., C), at places `index`, (G, S)."""
    xp = namespace(y)
    flat = xp.reshape(y, (-1, y.shape[-1]))
    return xp.reshape(xp.take(flat, xp.reshape(index, (-1,)), axis=0), (*index.shape, y.shape[-1]))
