"""What left-out samples of a grid differ by from what their neighbours say of them."""

import math
from collections.abc import Sequence
from itertools import product as cartesian

import numpy as np

from elmfield._array.typing import Floats
from elmfield.field.uncertainty.neighbours import LARGEST_POWER, LEAST_POWER, Prior

LEFT_OUT_BOX = {1: 9, 2: 7, 3: 5}
"""Samples on each axis of the box in whose middle one is left out; 3 on more than three axes."""

PROBE_SAMPLES = 1 << 19
"""Samples from which power and calibration are found, about."""

START_POWER = 1.5
"""The power from which its estimate begins; rougher priors stretch axes no more than this one."""

MOST_STRETCH = 2.0
"""Logarithm by which axes may differ at most."""


def left_out_filter(prior: Prior, side: Sequence[int]) -> Floats:
    """The filter that gives what the middle sample of a box differs by, in deviations."""
    t = np.indices(side).reshape(len(side), -1).T - (np.asarray(side) - 1) / 2
    j = len(t) // 2
    Q = prior.inverse(t)[j, : len(t)]
    return np.asarray((Q / math.sqrt(max(Q[j], 1e-300))).reshape(side))


def filtered(y: Floats, weights: Floats, *, even: bool = False) -> Floats:
    """Samples y, (..., C), summed with weights around each that has all neighbours.

    Or, with an `even` number of weights on each axis, around each middle between samples.
    """
    from scipy.ndimage import correlate  # 0.1 s, for who asks

    whole = correlate(np.asarray(y, np.float64), weights[..., None], mode="nearest")
    ends = (slice(n // 2, m - n // 2 + even) for n, m in zip(weights.shape, y.shape))
    return np.asarray(whole[tuple(ends)])


def probes(shape: Sequence[int]) -> list[tuple[slice, ...]]:
    """Blocks from which statistics are taken: all of an array, or parts towards its corners."""
    each = max(shape)
    if math.prod(shape) > PROBE_SAMPLES:
        each = max(16, int((PROBE_SAMPLES / 2 ** len(shape)) ** (1 / len(shape))))
    starts = [sorted({max(0, n - each) // 4, max(0, n - each) * 3 // 4}) for n in shape]
    return list(
        cartesian(*([slice(a, a + min(n, each)) for a in s] for s, n in zip(starts, shape)))
    )


def growth(prior: Prior, blocks: Sequence[Floats]) -> float:
    """The power by which residuals grow when every second sample is left out on each axis."""
    d = blocks[0].ndim - 1
    weights = left_out_filter(prior, (LEFT_OUT_BOX.get(d, 3),) * d)
    halves = [b[tuple(slice(i, None, 2) for _ in range(d))] for b in blocks for i in (0, 1)]
    fine, coarse = (
        np.mean([np.abs(filtered(b, weights)).mean() for b in some]) for some in (blocks, halves)
    )
    if not (fine > 0 and coarse > 0):
        return prior.power
    return float(np.clip(2 * np.log2(coarse / fine), LEAST_POWER, LARGEST_POWER))


def stretch(prior: Prior, blocks: Sequence[Floats]) -> Floats:
    """By how much farther apart samples are on some axes than on others, as the prior sees it."""
    axes = range(blocks[0].ndim - 1)
    rough = np.mean([[np.abs(np.diff(b, 2, axis=k)).mean() for k in axes] for b in blocks], axis=0)
    if not (rough > 0).all():
        return np.ones(len(rough))
    logs = 2 / max(prior.power, START_POWER) * np.log(rough)
    return np.asarray(np.exp(np.clip(logs - logs.mean(), -MOST_STRETCH, MOST_STRETCH)))
