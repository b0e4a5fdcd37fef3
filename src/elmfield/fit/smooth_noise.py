"""Denoising over large boxes, where a signal is smooth enough for them.

Small boxes cannot average over what is smooth for fifty samples. Larger ones, of several sizes,
weigh energies by an unbiased estimate of the error that they leave (Stein's); each replaces what
smaller ones found as far as that estimate says that it is nearer to the signal.
"""

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.fit.gaps.levels import average_boxes, box_index, take_boxes
from elmfield.local.bases import ProductModes, product_modes

LARGE_BOXES = {1: (64, 128, 256), 2: (24, 64), 3: (12, 32)}
"""Samples of large boxes per axis, by number of axes; half a box from one to the next."""

SMOOTH_ORDERS = (1.5, 2.0, 3.0, 4.5)
"""Orders along a line of the energies that are weighed."""

STRETCHES = (1.0, 9.0)
"""How many times dearer an axis may be than the others."""

AMPLITUDES = (-3, 14)
"""Variances of the signal that are tried, in units of the noise's, as powers of 4."""

COST = {1: 2.8, 2: 2.0, 3: 2.0}
"""What a number kept of the samples counts, in variances of the noise, by number of axes: 2 in
Stein's estimate. On a line, where boxes have few samples, that follows the noise, and slopes are
a fifth worse; in the plane more than 2 loses 0.1 dB on weather."""

CLEAR_DIFFERENCE = 4.0
"""By how much, in variances of the noise, an error must be below another to be preferred."""


def smooth_further(
    z: Array, x: Array, kept: Array, periodic: Sequence[bool]
) -> tuple[Array, Array]:
    """Estimates x of samples z with noise of 1, improved where large boxes know more.

    `kept` is how much of a sample's own noise is left in its estimate, between 0 and 1; it is given
    back for the new ones.
    """
    xp, shape = namespace(z), tuple(x.shape)
    z, x, kept = (xp.astype(part, xp.float64) for part in (z, x, kept))  # small differences decide
    before: tuple[int, ...] = ()
    for size in LARGE_BOXES[sum(n > 1 for n in shape)]:
        box = tuple(min(size, n) for n in shape)
        if box != before:
            x, kept = _over_boxes(z, x, kept, box, size // 2, periodic)
        before = box
    return x, kept


def _over_boxes(
    z: Array, x: Array, kept: Array, box: tuple[int, ...], step: int, periodic: Sequence[bool]
) -> tuple[Array, Array]:
    """Both estimates blended, and what is kept of the noise, after boxes of one size."""
    xp, every = namespace(z), namespace(z).stack([z, x, kept], axis=-1)
    modes = product_modes(box, (2.0,) * len(box))
    variances, free = mode_variances(modes)
    cost = COST[sum(b > 1 for b in box)]
    along = [np.sin(np.pi * (np.arange(b) + 0.5) / b) ** 2 + 1e-3 for b in box]
    window = reduce(np.multiply.outer, along).reshape(-1)
    index = box_index(z.shape, box, step, periodic)
    v = move(variances, z, z.dtype)

    def blended() -> Iterator[tuple[Array, Array]]:
        for i, j in runs(len(index), max(1, capacity(z) // (24 * len(free)))):
            at = move(index[i:j], z)
            some = take_boxes(every, at)
            Y, X, K = (some[..., c] for c in range(3))  # (G, S)
            found, freedom = _smoothed(modes, v, move(~free, z, z.dtype), cost, Y)
            more = xp.sum((found - X) * (found + X - 2 * Y), axis=1, keepdims=True)
            more = more + cost * (freedom - xp.sum(K, axis=1, keepdims=True))
            p = 1 / (1 + xp.exp(xp.clip(more / CLEAR_DIFFERENCE, -80.0, 80.0)))
            own = X + p * (found - X), K + p * (freedom / K.shape[1] - K)
            yield at, xp.stack(own, axis=-1)

    both, _ = average_boxes(z.shape, move(window, z, z.dtype), blended())
    return both[..., 0], both[..., 1]


def mode_variances(modes: ProductModes) -> tuple[Floats, np.ndarray]:
    """Variances of the modes of a box in units of the noise, (K, r), and which have no price.

    Mode j of an axis of n samples has about the frequency ``ω = π (j - 1/2) / n``, as those of
    smoothing splines do; a product has the sum of their squares.
    """
    found = []
    lines = [(np.arange(a.width), a) for a in modes.axes]
    every = [(j - 0.5) ** 2 * (j >= a.n_free) / a.width**2 for j, a in lines]
    wide = [k for k, a in enumerate(modes.axes) if a.width > 1]
    dearer = [np.ones(len(every))]
    if len(wide) > 1:
        dearer += [np.where(np.arange(len(every)) == k, t, 1) for k in wide for t in STRETCHES[1:]]
    for scale in dearer:
        omega2 = reduce(np.add.outer, [t * own for t, own in zip(scale, every)]).reshape(-1)
        free = omega2 == 0
        for s in SMOOTH_ORDERS:
            shape = np.where(free, 0, np.where(free, 1, omega2) ** -(s + (len(wide) - 1) / 2))
            shape /= shape.mean() or 1.0
            found += [shape * 4.0**a for a in range(AMPLITUDES[0], AMPLITUDES[1] + 1)]
    return np.stack(found), free


def _smoothed(
    modes: ProductModes, v: Array, priced: Array, cost: float, Y: Array
) -> tuple[Array, Array]:
    """Boxes Y, (G, S), of noise 1 without most of it, and how many numbers are kept, (G, 1).

    Variances v, (K, r), are weighed by the error they leave, as Stein estimates it.
    """
    xp, off = namespace(Y), 1 / (1 + v)
    c = modes.project(Y[..., None])
    # Squares of what is taken off, and the cost of what is kept, but for a constant.
    errors = c[..., 0] ** 2 @ xp.matrix_transpose(off * off) - cost * xp.sum(off, axis=1)
    e = -0.5 * errors
    p = xp.exp(e - xp.max(e, axis=1, keepdims=True))
    p = p / xp.sum(p, axis=1, keepdims=True)
    gain = 1 - priced * (p @ off)
    return modes.values(c * gain[..., None])[..., 0], xp.sum(gain, axis=1, keepdims=True)
