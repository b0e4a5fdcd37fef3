"""Every second sample is fitted, the others are scored: what a function does between its samples.

Arrays have their channels last, if any; `channels` is -1 then, else None.
"""

import numpy as np

import elmfield as ef
from elmfield._array.backend import to_numpy


def thinned(values, channels=None, step=2):
    """Every second (or third, ...) sample along each axis."""
    return values[(slice(None, None, step),) * axes(values, channels)]


def places(shape, step=2):
    """Where all samples lie among those of `thinned`; those beyond its last one, at that one."""
    return [np.minimum(np.arange(n) / step, (n - 1) // step) for n in shape]


def halves(values, channels=None, step=2):
    """What is fitted, and where all samples lie in it."""
    d = axes(values, channels)
    return thinned(values, channels, step), places(values.shape[:d], step)


def axes(values, channels=None):
    """How many axes are not channels."""
    return values.ndim - (channels is not None)


def score(truth, predicted, *, border=None, data_range=None, channels=None, step=2):
    """True PSNR at the samples that were left out.

    Within `border` samples of an edge, by default 16 or in small arrays an eighth, nothing counts.
    """
    shape = truth.shape[: axes(truth, channels)]
    within = [min(16, n // 8) if border is None else border for n in shape]
    held = np.zeros(shape, bool)
    held[tuple(slice(b, n - b) for n, b in zip(shape, within))] = True
    held[(slice(None, None, step),) * len(shape)] = False
    data_range = float(np.ptp(truth)) if data_range is None else data_range
    return ef.psnr(truth[held], predicted[held], data_range=data_range)


def predicted(values, settings=None, *, channels=None, step=2, device=None):
    """What the library predicts for all samples from every second one; and the field it made."""
    thin, grid = halves(values, channels, step)
    field = ef.fit(thin, settings, channel_axis=channels, device=device)
    return to_numpy(field.grid(*grid, outside="nearest")), field
