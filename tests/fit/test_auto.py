"""The order read off the spectrum, which is the default; rounding is not roughness."""

import numpy as np
import pytest

import elmfield as ef
from support import close


def waves(n=300, m=200):
    """Smooth along both axes."""
    return np.sin(np.arange(n)[:, None] / 9) * np.cos(np.arange(m) / 13)


def order_of(values):
    return np.asarray(ef.fit(values).settings.order)


def test_the_default_is_the_automatic_order():
    assert ef.smooth().order == "auto"
    assert min(order_of(waves())) > 4
    rough = np.random.default_rng(0).standard_normal((100, 100))
    assert max(order_of(rough)) < 1


@pytest.mark.parametrize(
    "rounded",
    [
        lambda y: (1e4 + y).astype(np.float32),
        lambda y: (1e4 + y).astype(np.float32).astype(np.float64),
        lambda y: 1e8 + y,
        lambda y: np.round(128 + 100 * y).astype(np.uint8),
        lambda y: np.round(30000 * y).astype(np.int16),
        lambda y: np.round(280 + 20 * y, 2),
        lambda y: y.astype(np.float16),
    ],
    ids=["float32 + 1e4", "once float32", "1e8", "uint8", "int16", "decimals", "float16"],
)
def test_rounding_is_not_taken_for_roughness(rounded):
    assert min(order_of(rounded(waves()))) > 3


def test_an_axis_along_which_nothing_changes_says_nothing():
    zonal = np.broadcast_to(280 + 20 * np.cos(np.arange(90) / 20)[:, None], (90, 180))
    for values in (zonal, zonal.astype(np.float32)):
        field = ef.fit(values)
        assert field.settings.order[1] == field.settings.order[0] > 3
        q = np.linspace(5, 84, 77)
        exact = 280 + 20 * np.cos(q / 20)
        tolerance = 1e-5 if values.dtype == np.float64 else 3e-4
        close(field.grid(q, np.linspace(5, 170, 50)), exact[:, None] + np.zeros(50), tolerance)


def test_lines_constants_and_short_arrays_take_the_usual_order():
    for values in (np.arange(100.0), np.arange(100), np.zeros((20, 20)), np.arange(5.0)):
        assert np.all(order_of(values) == 1.1)


def test_a_picture_of_two_values_is_rough():
    y, x = np.mgrid[:128, :128]
    disc = ((y - 60) ** 2 + (x - 70) ** 2 < 900).astype(float)
    assert max(order_of(disc)) < 1.7


def test_an_explicit_order_is_linear_in_the_samples_and_auto_is_not(rng):
    smooth, rough = waves(60, 60), rng.standard_normal((60, 60))
    x = rng.uniform(0, 59, (40, 2))
    for order, linear in ((1.3, True), ("auto", False)):
        settings = ef.smooth(order=order)
        f, g, both = (ef.fit(v, settings)(x) for v in (smooth, rough, 2 * smooth - 3 * rough))
        assert np.allclose(both, 2 * f - 3 * g, rtol=0, atol=1e-10) == linear


def test_vorticity_of_a_smooth_wind_is_right_by_default():
    """cos⁴φ cos 4λ is an eigenfunction of the sphere's Laplacian: its vorticity is known."""
    lat, lon = np.arange(-90, 91.0), np.arange(360.0)
    phi, lam = np.radians(lat)[:, None], np.radians(lon)
    field = ef.fit(np.cos(phi) ** 4 * np.cos(4 * lam), coords=[lat, lon], periodic={1: 360.0})
    rng = np.random.default_rng(0)
    x = np.stack([rng.uniform(-85, 85, 1000), rng.uniform(0, 360, 1000)], axis=1)
    c, k = np.cos(np.radians(x[:, 0])), 180 / np.pi
    H, slope = field.hessian(x) * k**2, field.gradient(x) * k
    found = H[:, 0, 0] - np.tan(np.radians(x[:, 0])) * slope[:, 0] + H[:, 1, 1] / c**2
    truth = -20 * c**4 * np.cos(4 * np.radians(x[:, 1]))
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.02 * np.sqrt(np.mean(truth**2))
