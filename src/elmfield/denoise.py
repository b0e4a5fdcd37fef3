"""Noise taken out of coefficients: shrinkage by smoothness, then by what each mode shows.

In modes of smoothness γ, a smoothing penalty λ multiplies c by γ / (γ + λ). λ comes from
generalised cross-validation, region by region, or from a known noise level by the discrepancy
principle. That prior and the coefficient itself then decide, mode by mode, how much is signal.
"""

import numpy as np

from elmfield.backend import device, move, namespace
from elmfield.typing import Array, Floats

PENALTIES = 64
"""Values of λ that are tried, evenly spaced in their logarithm."""

TRUST = 0.1
"""Weight of a single coefficient's own square against the prior's, in judging its variance."""

CAUTION = 1.5
"""A coefficient must exceed what noise explains by this factor before any of it is kept."""


def shrink(c: Array, smoothness: Floats, noise: Array | None) -> Array:
    """Coefficients c, (G, r, C), without most of their noise.

    Parameters
    ----------
    c : array, shape (G, r, C)
        Coefficients of noisy samples.
    smoothness : array, shape (r,)
        γ of the modes.
    noise : array, shape (C,), or None
        Standard deviation of the noise; None to estimate it.

    Notes
    -----
    With weights ``w = λ / (γ + λ)``, GCV takes the λ of least ``Σ w² c² / (Σ w)²``, and the noise
    variance is the median over regions of ``Σ w² c² / Σ w``. Expected squares are then
    ``p = a γ + σ²`` with ``a = σ² / λ``, and ``v = 0.1 c² + 0.9 p``; c is multiplied by
    ``max(0, 1 - 1.5 σ² / v)``. On five Kodak crops with noise 5, 10, 25 the second step adds 0.5,
    0.4 and 0.2 dB to the first (benchmarks/targets.py).
    """
    xp = namespace(c)
    G, r, C = c.shape
    lambdas = np.max(smoothness) * np.logspace(-14, 1, PENALTIES)
    w = lambdas / (smoothness[:, None] + lambdas)  # (r, L)
    squares = xp.reshape(xp.permute_dims(xp.astype(c, xp.float64) ** 2, (0, 2, 1)), (G * C, r))
    left = squares @ move(w**2, c, xp.float64)  # (G C, L): residual sums of squares
    free = move(w.sum(axis=0), c, xp.float64)
    if noise is None:
        best = xp.argmin(left / free**2, axis=1, keepdims=True)
    else:  # the largest λ whose residual noise explains
        level = xp.astype(noise, xp.float64) ** 2 * r
        allowed = xp.reshape(xp.broadcast_to(level, (G, C)), (G * C, 1))
        fits = xp.sum(xp.astype(left <= allowed, xp.int64), axis=1, keepdims=True)
        best = xp.maximum(fits - 1, xp.zeros_like(fits))
    penalty = xp.reshape(xp.take(move(lambdas, c, xp.float64), xp.reshape(best, (-1,))), (G, 1, C))
    own = xp.take_along_axis(left / free, best, axis=1)  # each region's own noise variance
    own = xp.reshape(own, (G, 1, C))
    if noise is None:
        middle = xp.sort(own, axis=0)[G // 2, ...]
        variance = xp.reshape(middle, (1, 1, C))
    else:
        variance = xp.reshape(xp.astype(noise, xp.float64) ** 2, (1, 1, C))
    gamma = xp.reshape(move(smoothness, c, xp.float64), (1, r, 1))
    prior = own / penalty * gamma + variance
    v = TRUST * xp.astype(c, xp.float64) ** 2 + (1 - TRUST) * prior
    tiny = xp.asarray(1e-300, dtype=xp.float64, device=device(c))
    keep = 1 - CAUTION * variance / xp.maximum(v, tiny)
    return c * xp.astype(xp.maximum(keep, xp.zeros_like(keep)), c.dtype)
