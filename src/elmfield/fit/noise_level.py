"""The level of the noise in samples: from their roughest modes, on lines from what is left over."""

import math
from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array
from elmfield.fit.gaps.planes import box_index, take_boxes
from elmfield.fit.smooth_noise import LARGE_BOXES, mode_variances
from elmfield.local.bases import product_modes

LEVEL_BOX = {1: 64, 2: 16, 3: 8}
"""Samples per axis of the boxes that the noise's level is estimated from, by number of axes."""

QUIET_SHARE = 0.1
"""Part of the boxes taken to hold hardly more than noise in their roughest modes."""

LEVEL_BOXES = 8192
"""Boxes that are looked at, at most."""

LEVELS_AGREE = 1.3
"""Estimates of the noise on a line that differ by less are of one thing."""


def noise_level(y: Array, present: Array | None = None) -> Array:
    """Standard deviation of the noise in samples y, (..., C); shape (C,).

    From the modes of boxes that are rough along every axis, in the boxes where they are weakest:
    the quantile QUIET_SHARE of their root mean squares, corrected for how far below σ that lies for
    noise alone. Boxes with samples that were filled in do not count, unless all have some.
    """
    shape = tuple(y.shape[:-1])
    d = min(max(1, sum(n > 1 for n in shape)), 3)
    box = tuple(min(LEVEL_BOX[d], n) for n in shape)
    index = box_index(shape, box, LEVEL_BOX[d] // 2, (False,) * len(shape))
    if present is not None:
        full = to_numpy(namespace(y).all(present, axis=-1)).reshape(-1)[index].all(axis=1)
        index = index[full] if full.any() else index
    index = index[:: max(1, len(index) // LEVEL_BOXES)]
    modes = product_modes(box, (1.1,) * len(box))
    rough = np.ones(1, bool)
    for a in modes.axes:
        rough = np.logical_and.outer(rough, np.arange(a.width) >= a.width // 2)
    xp, which = namespace(y), move(np.flatnonzero(rough), y)
    c = xp.take(modes.project(take_boxes(y, move(index, y))), which, axis=1)
    squares = xp.sort(xp.mean(xp.astype(c, xp.float64) ** 2, axis=1), axis=0)
    place = QUIET_SHARE * (len(index) - 1)
    low = int(place)
    some = squares[low : low + 2, :]  # what lies on both sides of the quantile
    rms = xp.where(some > 0, some, xp.ones_like(some)) ** 0.5 * xp.astype(some > 0, xp.float64)
    level = rms[0, :] + (place - low) * (rms[-1, :] - rms[0, :])
    # rms of n normal numbers: mean about 1, standard deviation 1 / √(2n); 10 % lie 1.28 below.
    return level / max(0.5, 1 - 1.28 / math.sqrt(2 * rough.sum()))


def line_level(y: Array, level: Array, periodic: Sequence[bool]) -> Array:
    """The level of the noise in samples y along a line, (..., C), of which one is known; (C,).

    From what smooth boxes leave over, by generalised cross-validation: on few samples that is
    better known than what their roughest modes say. The `level` given where the two disagree.
    """
    xp, shape = namespace(y), tuple(y.shape[:-1])
    box = tuple(min(LARGE_BOXES[1][-1], n) for n in shape)
    modes = product_modes(box, (2.0,) * len(box))
    v, free = mode_variances(modes)
    if free.all():
        return level
    index = box_index(shape, box, max(box) // 2, periodic)
    unit = xp.astype(level + (level <= 0), xp.float64)
    c = xp.astype(modes.project(take_boxes(y, move(index, y))), xp.float64) / unit
    off = move(np.where(free, 0, 1 / (1 + v)), c)
    left = xp.matmul(off**2, c**2)  # (G, K, C)
    n = xp.sum(off, axis=1)[:, None]
    best = xp.min(left / n**2, axis=1, keepdims=True) == left / n**2
    var = xp.max(xp.where(best, left / n, 0 * left), axis=1)
    factor = xp.mean(var, axis=0) ** 0.5
    near = (factor > 1 / LEVELS_AGREE) & (factor < LEVELS_AGREE)
    return level * xp.where(near, factor, xp.ones_like(factor))
