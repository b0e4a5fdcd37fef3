"""Integrals over boxes: of known functions, as limits of sums, around periodic axes."""

import numpy as np
import pytest
from hypothesis import given

import elmfield as ef
from support import ROUND, SEEDS, SMOOTH_DENSE, close, inside


def antiderivative(x, y):
    return -np.cos(0.2 * x + 0.3) / 0.2 * np.sin(0.15 * y) / 0.15


def test_the_integral_is_that_of_a_known_function(whole):
    for low, high in [((9, 9), (40, 35)), ((13.3, 14.1), (17.7, 30.9)), ((20.1, 15), (20.2, 15.1))]:
        (a, b), (c, d) = low, high
        F = antiderivative
        exact = F(c, d) - F(a, d) - F(c, b) + F(a, b)
        volume = (c - a) * (d - b)
        close(whole.integral(low, high), exact, 1e-6 * volume)


@given(seed=SEEDS)
def test_integrals_add_up(seed):
    rng = np.random.default_rng(seed)
    field = ef.fit(rng.standard_normal((40, 21, 2)), channel_axis=-1)
    x, y = np.sort(inside(rng, (40, 21), 3), axis=0).T
    whole = field.integral((x[0], y[0]), (x[2], y[2]))
    parts = [field.integral((x[i], y[j]), (x[i + 1], y[j + 1])) for i in range(2) for j in range(2)]
    close(sum(parts), whole, 1e-11)


def test_the_mean_over_a_domain_in_any_unit(rng):
    values = rng.standard_normal((20, 15)) + 5
    plain = ef.fit(values).integral((-0.5, -0.5), (19.5, 14.5))
    y, x = 90 - 2.5 * np.arange(20), 0.1 * np.arange(15)
    physical = ef.fit(values, coords=[y, x])
    found = physical.integral((90 - 2.5 * 19.5, -0.05), (91.25, 1.45))
    close(found, plain * 2.5 * 0.1, 1e-9)


def test_the_integral_on_uneven_coordinates():
    c = np.cumsum(0.08 + 0.05 * np.sin(np.arange(90) / 6))
    field = ef.fit(np.sin(c), ef.smooth(order=3), coords=[c])
    close(field.integral([0.5], [5.5]), np.cos(0.5) - np.cos(5.5), 5 * 1e-3)
    whole = field.integral([0.5], [5.5])
    close(field.integral([0.5], [2.345]) + field.integral([2.345], [5.5]), whole, 1e-12)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("shape", [(70,), (6, 70)])
def test_a_constant_is_integrated_to_rounding_on_any_coordinates(shape, down, rng):
    u = np.cumsum(rng.choice([1.0, 10.0, 1e-3], 70))
    c = u[::-1] if down else u
    field = ef.fit(np.full(shape, 3.0), coords=[None] * (len(shape) - 1) + [c])
    for a, b in ((u[0], u[-1]), (u[3], u[4]), (u[10] + 1e-4, u[50] - 1e-5)):
        found = field.integral([0] * (len(shape) - 1) + [a], [1] * (len(shape) - 1) + [b])
        close(found / (b - a), 3, 1e-13)


def test_steep_coordinates_are_integrated_like_others(rng):
    c = np.cumsum(rng.choice([1.0, 10.0], 60))
    field = ef.fit(rng.standard_normal(60), coords=[c])
    low, high = c[4] + 0.3, c[41] + 0.2
    n = 400_000
    x = low + (np.arange(n) + 0.5) / n * (high - low)
    mean = np.mean(field(x[:, None]))
    # Midpoints 1e-3 apart: h²/24 f'', where f'' is up to (2π)² of the largest value, 3.
    close(field.integral([low], [high]) / (high - low), mean, 1e-6 / 24 * 40 * 3)


@pytest.mark.slow
@pytest.mark.parametrize(("c", "period"), ROUND, ids=["even", "long", "long down", "up", "down"])
def test_an_integral_goes_around_a_periodic_axis(c, period, rng):
    flat = ef.fit(np.ones(36), coords=[c], periodic={0: period})
    field = ef.fit(rng.standard_normal(36), coords=[c], periodic={0: period})
    whole = field.integral([0], [period])
    for low in (-180.0, -10.0, 77.3, 1000.0):
        close(flat.integral([low], [low + 20]), 20, 1e-11)
        close(flat.integral([low], [low + period]), period, 1e-11)
        close(field.integral([low], [low + period]), whole, 1e-9)  # the seam counts once
        parts = field.integral([low], [low + 9]) + field.integral([low + 9], [low + 200])
        close(field.integral([low], [low + 200]), parts, 1e-9)
        n = 100_000
        x = low + (np.arange(n) + 0.5) / n * 200
        close(field.integral([low], [low + 200]) / 200, field(x[:, None]).mean(), 1e-6)
    with pytest.raises(ValueError, match=f"at most one period, {period:g} on axis 'axis0'; got 0"):
        field.integral([0], [period + 1])


@pytest.mark.parametrize(
    "settings", [ef.smooth(), ef.paper(cell=8, width=40, overlap=2, **SMOOTH_DENSE)]
)
def test_a_box_across_greenwich(settings, rng):
    field = ef.fit(
        rng.standard_normal((10, 90, 2)), settings,
        channel_axis=-1, coords=[None, 4.0 * np.arange(90)], periodic=[1],
    )  # fmt: skip
    west, east = field.integral([1, 350], [8, 358]), field.integral([1, -2], [8, 30])
    close(field.integral([1, -10], [8, 30]), west + east, 1e-9)
    close(field.integral([1, -180], [8, 180]), field.integral([1, 0], [8, 360]), 1e-8)
