"""The level of the noise in samples on a grid."""

import math

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array
from elmfield.fit.gaps.planes import box_index, take_boxes
from elmfield.local.bases import product_modes

LEVEL_BOX = {1: 64, 2: 16, 3: 8}
"""Samples per axis of the boxes that the noise's level is estimated from, by number of axes."""

QUIET_SHARE = 0.1
"""Part of the boxes taken to hold hardly more than noise in their roughest modes."""

LEVEL_BOXES = 8192
"""Boxes that the level is estimated from, at most."""


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
