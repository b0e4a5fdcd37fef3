"""Denoising over large boxes, where a signal is smooth enough for them.

Small boxes cannot average over what is smooth for fifty samples. Larger ones, of two sizes, weigh
energies by their evidence; each replaces what smaller ones found as far as an unbiased estimate of
the error (Stein's) says that it is nearer to the signal.
"""

import math
from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import device, move, namespace, scatter_add
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.fit.gaps.planes import box_index, take_boxes
from elmfield.local.bases import ProductModes, product_modes

LARGE_BOXES = {1: (64, 256), 2: (24, 64), 3: (12, 32)}
"""Samples of large boxes per axis, by number of axes; half a box from one to the next."""

SMOOTH_ORDERS = (1.5, 2.0, 3.0, 4.5)
"""Orders along a line of the energies that are weighed."""

STRETCHES = (1.0, 9.0)
"""How many times dearer an axis may be than the others."""

AMPLITUDES = (-3, 14)
"""Variances of the signal that are tried, in units of the noise's, as powers of 4."""

CLEAR_DIFFERENCE = 4.0
"""By how much, in variances of the noise, an error must be below another to be preferred."""


def smooth_further(z: Array, x: Array, kept: Array, periodic: Sequence[bool]) -> Array:
    """Estimates x, (..., C), of samples z with noise of 1, improved where large boxes know more.

    `kept`, (..., 1), is how much of a sample's own noise is left in its estimate, between 0 and 1.
    """
    shape = tuple(x.shape[:-1])
    before: tuple[int, ...] = ()
    for size in LARGE_BOXES[sum(n > 1 for n in shape)]:
        box = tuple(min(size, n) for n in shape)
        if box != before:
            x, kept = _over_boxes(z, x, kept, box, size // 2, periodic)
        before = box
    return x


def _over_boxes(
    z: Array, x: Array, kept: Array, box: tuple[int, ...], step: int, periodic: Sequence[bool]
) -> tuple[Array, Array]:
    """Both estimates blended, and what is kept of the noise, after boxes of one size."""
    xp, C, n = namespace(z), z.shape[-1], math.prod(z.shape[:-1])
    modes = product_modes(box, (2.0,) * len(box))
    variances, free = _variances(modes)
    window = np.ones(1)
    for b in box:
        window = np.multiply.outer(window, np.sin(np.pi * (np.arange(b) + 0.5) / b) ** 2 + 1e-3)
    index = box_index(z.shape[:-1], box, step, periodic)
    v, w = move(variances, z, z.dtype), move(window.reshape(-1, 1), z, z.dtype)
    total = xp.zeros((n * (C + 2),), dtype=z.dtype, device=device(z))
    for i, j in runs(len(index), max(1, capacity(z) // (8 * len(free) * (C + 2)))):
        at = move(index[i:j], z)
        Y, X, K = (take_boxes(part, at) for part in (z, x, kept))
        found, gain = _smoothed(modes, v, move(~free, z, z.dtype), Y)
        freedom = xp.sum(gain, axis=1, keepdims=True)  # (G, 1, 1)
        errors = [
            xp.sum((Y - part) ** 2, axis=(1, 2), keepdims=True) + 2 * C * left
            for part, left in ((X, xp.sum(K, axis=1, keepdims=True)), (found, freedom))
        ]
        p = 1 / (1 + xp.exp(_limited((errors[1] - errors[0]) / CLEAR_DIFFERENCE)))
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


def _variances(modes: ProductModes) -> tuple[Floats, np.ndarray]:
    """Variances of the modes of a box in units of the noise, (K, r), and which have no price.

    A mode of one axis has the frequency ``ω² = γ^(-1/2)`` at order 2; a product has their sum.
    """
    found = []
    every = [np.where(np.arange(a.width) < a.n_free, 0, a.smoothness**-0.5) for a in modes.axes]
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


def _smoothed(modes: ProductModes, v: Array, priced: Array, Y: Array) -> tuple[Array, Array]:
    """Boxes Y, (G, S, C), of noise 1 without most of it, and what is kept of each mode, (G, r, 1).

    The evidence of variances v, (K, r), is summed over channels.
    """
    xp = namespace(Y)
    c = modes.project(Y)
    squares = xp.sum(c * c, axis=2)
    levels = xp.sum(xp.log(1 + v), axis=1) * Y.shape[2]
    e = 0.5 * (squares @ xp.matrix_transpose(v / (1 + v)) - levels)
    p = xp.exp(e - xp.max(e, axis=1, keepdims=True))
    p = p / xp.sum(p, axis=1, keepdims=True)
    gain = 1 - priced * (p @ (1 / (1 + v)))
    return modes.values(c * gain[..., None]), gain[..., None]
