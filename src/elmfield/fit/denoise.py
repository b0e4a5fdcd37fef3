"""Noise taken out of coefficients: a prior by smoothness, then what each mode shows.

White noise of variance σ² has that variance in every orthonormal mode. A region's signal is given
variance a γ in a mode of smoothness γ, with a such that both together explain the squares found
there. That prior and the coefficient itself then decide, mode by mode, how much of it is signal.
"""

from dataclasses import replace

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Full, Group
from elmfield.local.bases import free, smoothness
from elmfield.local.model import AxisBasis

PENALTIES = 64
"""Values of λ = σ² / a that are tried, evenly spaced in their logarithm."""

TRUST = 0.1
"""Weight of a single coefficient's own square against the prior's, in judging its variance."""

CAUTION = 1.5
"""A coefficient must exceed what noise explains by this factor before any of it is kept."""

QUIET = 0.1
"""Part of the regions taken to hold hardly more than noise in their roughest modes."""


def denoised(
    groups: list[Group], level: float | bool, units: Floats
) -> tuple[list[Group], Floats | float]:
    """Groups with the noise taken out of their coefficients, and the energy taken off, (N, C).

    `level` is False for nothing to do, True to estimate it, or a standard deviation in the caller's
    units; `units`, (C,), are those units in one of the coefficients.
    """
    if level is False:
        return groups, 0.0
    shrunk, off = [], np.zeros((sum(len(g.regions) for g in groups), len(units)))
    for g in groups:
        c = g.coefficients.take(np.arange(len(g.regions)))
        axes = _axes(g)
        noise = noise_level(c, axes) if level is True else float(level) / units
        clean = shrink(c, axes, noise)
        off[g.regions] = to_numpy(namespace(c).sum((c - clean) ** 2, axis=1))
        shrunk.append(replace(g, coefficients=Full(clean)))
    return shrunk, off


def _axes(group: Group) -> tuple[AxisBasis, ...]:
    basis = group.model.basis
    if basis is None or basis.axes is None:
        raise TypeError("noise is told apart by products of axis modes; this basis has none.")
    return basis.axes


def noise_level(c: Array, axes: tuple[AxisBasis, ...]) -> Floats:
    """Standard deviation of the noise in coefficients c, (G, r, C); shape (C,).

    From the modes rough along every axis, in the regions where they are weakest: the quantile QUIET
    of their root mean squares, corrected for how far below σ that lies for noise alone.
    """
    rough = np.ones(1, bool)
    for n in (len(a.smoothness) for a in axes):
        rough = np.logical_and.outer(rough, np.arange(n) >= n // 2)
    rough = rough.reshape(-1)
    found = np.asarray(to_numpy(c))[:, rough, :].astype(np.float64)
    level = np.quantile(np.sqrt(np.mean(found**2, axis=1)), QUIET, axis=0)
    # rms of n normal numbers: mean about 1, standard deviation 1 / √(2n); 10 % lie 1.28 below.
    return np.asarray(level / max(0.5, 1 - 1.28 / np.sqrt(2 * rough.sum())))


def shrink(c: Array, axes: tuple[AxisBasis, ...], noise: Floats) -> Array:
    """Coefficients c, (G, r, C), without most of their noise of standard deviation `noise`, (C,).

    Notes
    -----
    With ``w = λ / (γ + λ)`` and ``λ = σ² / a``, a solves ``Σ w c² = r σ²``, region by region: the
    maximum of the likelihood. Expected squares are then ``p = a γ + σ²``, a mode's own variance is
    judged as ``v = 0.1 c² + 0.9 p``, and c is multiplied by ``max(0, 1 - 1.5 σ² / v)``. Plain
    smoothing ``γ / (γ + λ)``, with λ from generalised cross-validation, gains less
    (benchmarks/targets.py measures both). Free modes, products of straight lines, may have any
    variance: they are kept as they are.
    """
    xp = namespace(c)
    G, r, C = c.shape
    gamma, paid = smoothness(axes), ~free(axes)
    variance = move(np.maximum(noise, 1e-150) ** 2, c, xp.float64)  # (C,)
    lambdas = np.max(gamma) * np.logspace(-14, 1, PENALTIES)
    w = lambdas / (gamma[:, None] + lambdas) * paid[:, None]  # (r, penalties), ascending in λ
    squares = xp.astype(c, xp.float64) ** 2
    flat = xp.reshape(xp.permute_dims(squares, (0, 2, 1)), (G * C, r))
    explained = (
        xp.reshape(flat @ move(w, c, xp.float64), (G, C, PENALTIES))
        <= int(paid.sum()) * variance[:, None]
    )
    place = xp.sum(xp.astype(explained, xp.int64), axis=2) - 1
    place = xp.reshape(xp.maximum(place, xp.zeros_like(place)), (-1,))
    penalty = xp.reshape(xp.take(move(lambdas, c, xp.float64), place), (G, 1, C))
    prior = variance * (1 + xp.reshape(move(gamma, c, xp.float64), (1, r, 1)) / penalty)
    lost = CAUTION * variance / (TRUST * squares + (1 - TRUST) * prior)
    keep = 1 - lost * xp.reshape(move(paid.astype(float), c, xp.float64), (1, r, 1))
    return c * xp.astype(xp.maximum(keep, xp.zeros_like(keep)), c.dtype)
