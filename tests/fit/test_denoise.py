"""Noise taken out of coefficients, against the equations written out mode by mode."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.field import Full
from elmfield.field.blended import Group
from elmfield.fit.denoise import denoised, noise_level, shrink
from elmfield.local.bases import plain_modes, product_modes
from support import close

BASIS = product_modes((8, 6), (1.1, 1.1))


FREE = np.isin(np.arange(48), (0, 1, 6, 7))
"""Products of the first two modes of either axis, straight lines."""


def shrunk_slowly(c, gamma, noise):
    """One region and channel: λ from Σ w c² = r σ², then each mode by itself; lines are kept."""
    best = None
    paid = [(g, x) for g, x, free in zip(gamma, c, FREE) if not free]
    for penalty in gamma.max() * np.logspace(-14, 1, 64):
        if sum(penalty / (g + penalty) * x**2 for g, x in paid) <= len(paid) * noise**2:
            best = penalty
    if best is None:
        best = gamma.max() * 1e-14
    out = []
    for g, x, free in zip(gamma, c, FREE):
        if free:
            out.append(x)
            continue
        expected = noise**2 * (1 + g / best)
        variance = 0.1 * x**2 + 0.9 * expected
        out.append(x * max(0.0, 1 - 1.5 * noise**2 / variance))
    return np.array(out)


def test_coefficients_are_shrunk_as_written(xp, rng):
    gamma = np.outer(*(a.smoothness for a in BASIS.axes)).reshape(-1)
    c = rng.standard_normal((5, 48, 2)) * (1 + 30 * gamma / gamma.max())[:, None]
    noise = np.array([1.0, 0.3])
    found = np.asarray(shrink(xp.asarray(c), BASIS.axes, noise))
    for region in range(5):
        for channel in range(2):
            slow = shrunk_slowly(c[region, :, channel], gamma, noise[channel])
            close(found[region, :, channel], slow, 1e-9 * np.abs(c).max())


def test_noise_alone_is_measured_and_taken_off(rng):
    c = 0.7 * rng.standard_normal((400, 48, 1))
    level = noise_level(c, BASIS.axes)
    # 12 rough modes: a quantile of root mean squares, corrected in the mean to a few per cent.
    assert level == pytest.approx([0.7], rel=0.06)
    left = shrink(c, BASIS.axes, level)
    assert np.mean(left[:, ~FREE] ** 2) < 0.1 * np.mean(c**2)
    assert np.array_equal(left[:, FREE], c[:, FREE])


def test_without_noise_nothing_is_taken_off(rng):
    c = rng.standard_normal((3, 48, 1))
    close(shrink(c, BASIS.axes, np.zeros(1)), c, 0)


def group(c, basis=BASIS):
    return Group(model=basis, regions=np.arange(len(c)), coefficients=Full(c))


def test_what_was_taken_off_is_told_and_levels_are_in_the_caller_s_units(rng):
    c = rng.standard_normal((4, 48, 1))
    (clean,), off = denoised([group(c)], 30.0, np.array([100.0]))
    kept = clean.coefficients.take(np.arange(4))
    close(kept, shrink(c, BASIS.axes, np.array([0.3])), 0)
    close(off, np.sum((c - kept) ** 2, axis=1), 1e-12)
    assert off.min() > 0
    same, nothing = denoised([group(c)], False, np.array([100.0]))
    assert np.array_equal(same[0].coefficients.take(np.arange(4)), c)
    assert nothing == 0


def test_a_basis_without_axes_cannot_tell_noise():
    basis = plain_modes(ef.Dense(width=9), (8, 6), np.empty(0))
    with pytest.raises(TypeError, match="noise is told apart by products of axis modes"):
        denoised([group(np.ones((1, 9, 1)), basis)], True, np.ones(1))
