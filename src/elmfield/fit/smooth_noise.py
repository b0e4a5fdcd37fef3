"""Denoising over large boxes, where a signal is smooth enough for them.

Small boxes cannot average over what is smooth for fifty samples. Larger ones, of several sizes,
weigh energies by an unbiased estimate of the error that they leave (Stein's); each replaces what
smaller ones found as far as that estimate says that it is nearer to the signal.
"""

import math
from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import device, move, namespace, scatter_add
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.fit.gaps.planes import box_index, take_boxes
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
    """Estimates x, (..., C), of samples z with noise of 1, improved where large boxes know more.

    `kept`, (..., 1), is how much of a sample's own noise is left in its estimate, between 0 and 1;
    it is given back for the new ones.
    """
    xp, shape = namespace(z), tuple(x.shape[:-1])
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
    xp, C, n = namespace(z), z.shape[-1], math.prod(z.shape[:-1])
    modes = product_modes(box, (2.0,) * len(box))
    variances, free = mode_variances(modes)
    cost = COST[sum(b > 1 for b in box)] * C
    window = np.ones(1)
    for b in box:
        window = np.multiply.outer(window, np.sin(np.pi * (np.arange(b) + 0.5) / b) ** 2 + 1e-3)
    index = box_index(z.shape[:-1], box, step, periodic)
    v, w = move(variances, z, z.dtype), move(window.reshape(-1, 1), z, z.dtype)
    total = xp.zeros((n * (C + 2),), dtype=z.dtype, device=device(z))
    for i, j in runs(len(index), max(1, capacity(z) // (8 * len(free) * (C + 2)))):
        at = move(index[i:j], z)
        Y, X, K = (take_boxes(part, at) for part in (z, x, kept))
        found, gain = _smoothed(modes, v, move(~free, z, z.dtype), cost, Y)
        freedom = xp.sum(gain, axis=1, keepdims=True)  # (G, 1, 1)
        more = xp.sum((found - X) * (found + X - 2 * Y), axis=(1, 2), keepdims=True)
        more = more + cost * (freedom - xp.sum(K, axis=1, keepdims=True))
        p = 1 / (1 + xp.exp(_limited(more / CLEAR_DIFFERENCE)))
        own = xp.concat([X + p * (found - X), K + p * (freedom / K.shape[1] - K)], axis=2)
        part = xp.concat([w * own, w + 0 * K], axis=2)
        place = (at * (C + 2))[..., None] + move(np.arange(C + 2), at)
        total = total + scatter_add(n * (C + 2), xp.reshape(place, (-1,)), xp.reshape(part, (-1,)))
    total = xp.reshape(total, (n, C + 2))
    every = total[:, : C + 1] / total[:, C + 1 :]
    return xp.reshape(every[:, :C], z.shape), xp.reshape(every[:, C:], (*z.shape[:-1], 1))


def _limited(x: Array) -> Array:
    """x, between -80 and 80."""
    xp = namespace(x)
    return xp.minimum(xp.maximum(x, xp.full_like(x, -80.0)), xp.full_like(x, 80.0))


def mode_variances(modes: ProductModes) -> tuple[Floats, np.ndarray]:
    """Variances of the modes of a box in units of the noise, (K, r), and which have no price.

    Mode j of an axis of n samples has about the frequency ``ω = π (j - 1/2) / n``, as those of
    smoothing splines do; a product has the sum of their squares.
    """
    found = []
    every = [((j := np.arange(a.width)) - 0.5) ** 2 * (j >= a.n_free) for a in modes.axes]
    every = [own / len(own) ** 2 for own in every]
    wide = [k for k, a in enumerate(modes.axes) if a.width > 1]
    dearer = [np.ones(len(every))]
    if len(wide) > 1:
        dearer += [np.where(np.arange(len(every)) == k, t, 1) for k in wide for t in STRETCHES[1:]]
    for scale in dearer:
        omega2 = np.zeros(1)
        for t, own in zip(scale, every):
            omega2 = np.add.outer(omega2, t * own)
        omega2 = omega2.reshape(-1)
        free = omega2 == 0
        for s in SMOOTH_ORDERS:
            shape = np.where(free, 0, np.where(free, 1, omega2) ** -(s + (len(wide) - 1) / 2))
            shape /= shape.mean() or 1.0
            found += [shape * 4.0**a for a in range(AMPLITUDES[0], AMPLITUDES[1] + 1)]
    return np.stack(found), free


def _smoothed(
    modes: ProductModes, v: Array, priced: Array, cost: float, Y: Array
) -> tuple[Array, Array]:
    """Boxes Y, (G, S, C), of noise 1 without most of it, and what is kept of each mode, (G, r, 1).

    Variances v, (K, r), are weighed by the error they leave, as Stein estimates it; channels share
    their weights.
    """
    xp = namespace(Y)
    c = modes.project(Y)
    e = -0.5 * _errors(xp.sum(c * c, axis=2), v, cost)
    p = xp.exp(e - xp.max(e, axis=1, keepdims=True))
    p = p / xp.sum(p, axis=1, keepdims=True)
    gain = 1 - priced * (p @ (1 / (1 + v)))
    return modes.values(c * gain[..., None]), gain[..., None]


def _errors(squares: Array, v: Array, cost: float) -> Array:
    """Squares of what is taken off, and the cost of what is kept, (G, K), but for a constant."""
    xp = namespace(squares)
    off = 1 / (1 + v)
    return squares @ xp.matrix_transpose(off * off) - cost * xp.sum(off, axis=1)
