"""Smooth arrays, each from a seed: polynomials that are exact, waves around periodic axes."""

import numpy as np

import elmfield as ef

SIZES = {1: 90, 2: 45, 3: 20}
"""Samples on an axis at most, by the number of axes."""


def one_polynomial(seed):
    """Cubic polynomials are exact from order 4 on, in any preset that is smooth, slopes too."""
    rng = np.random.default_rng([9400, seed])
    d = int(rng.integers(1, 4))
    shape = rng.integers(8, SIZES[d] + 1, d)
    factors = [np.polynomial.Polynomial(rng.standard_normal(4)) for _ in range(d)]
    y = np.ones(())
    for n, p in zip(shape, factors):
        y = np.multiply.outer(y, p(np.linspace(-1, 1, n)))
    preset = ef.oriented if rng.integers(2) else ef.smooth
    field = ef.fit(y, preset(order=float(rng.choice([4.0, 4.5, 5.0, 6.0]))))
    t = rng.uniform(-1, 1, (40, d))
    points = (t + 1) / 2 * (shape - 1)
    values = np.stack([p(t[:, k]) for k, p in enumerate(factors)], axis=1)
    off = np.abs(field(points) - values.prod(axis=1)).max()
    assert off < 1e-11 * np.ptp(y), (shape, field.settings.order, off)
    for k, p in enumerate(factors):
        slope = np.delete(values, k, axis=1).prod(axis=1) * p.deriv()(t[:, k]) * 2 / (shape[k] - 1)
        off = np.abs(field.gradient(points)[:, k] - slope).max()
        assert off < 1e-10 * np.ptp(y), (shape, field.settings.order, k, off)
    return "done"


def one_wave(seed):
    """Band-limited waves around a periodic axis of 32 samples or more are met to rounding."""
    rng = np.random.default_rng([9401, seed])
    n = int(rng.integers(32, 129))
    cycles, phases = np.arange(1, 4), rng.uniform(0, 2 * np.pi, 3)
    sizes = rng.uniform(0.5, 1, 3)

    def wave(x):
        return np.sin(2 * np.pi * np.multiply.outer(x, cycles) / n + phases) @ sizes

    at = rng.uniform(-0.5, n - 0.5, 60)
    off = np.abs(ef.fit(wave(np.arange(n)), periodic=0)(at[:, None]) - wave(at)).max()
    assert off < 1e-11, (n, off)
    return "done"
