"""Smooth samples: as near as splines, borders included; few of them, noisy ones, and rings."""

import numpy as np
import pytest
from scipy.interpolate import make_interp_spline, make_smoothing_spline
from scipy.ndimage import gaussian_filter

import elmfield as ef
from support import close


@pytest.mark.parametrize("n", [12, 40, 150])
@pytest.mark.parametrize(
    "f", [lambda t: np.sin(6 * t), lambda t: np.exp(3 * t)], ids=["sin", "exp"]
)
@pytest.mark.parametrize("preset", [ef.smooth, ef.oriented])
def test_smooth_functions_are_as_near_as_quintic_splines(preset, f, n):
    x, t = np.linspace(0, 1, n), np.linspace(0, 1, 997)
    field = ef.fit(f(x), preset())
    spline = make_interp_spline(x, f(x), 5)
    # Both are good to rounding of 1e-13 at 150 samples.
    most = 2 * np.abs(spline(t) - f(t)).max() + 1e-12
    close(field(t[:, None] * (n - 1)), f(t), most)


@pytest.mark.parametrize("preset", [ef.smooth(order=4), ef.oriented(order=4), ef.smooth(order=6.5)])
@pytest.mark.parametrize(("d", "n"), [(1, 30), (2, 40), (3, 12)])
def test_cubic_polynomials_are_exact(preset, d, n, rng):
    axes = np.stack(np.meshgrid(*[np.linspace(-1, 1, n)] * d, indexing="ij"), axis=-1)

    def cubic(x):
        return 1 + x[..., 0] - 2 * x[..., -1] ** 3 + x[..., 0] ** 2 * x[..., -1]

    field = ef.fit(cubic(axes), preset)
    at = rng.uniform(-0.5, n - 0.5, (300, d))
    close(field(at), cubic(at * 2 / (n - 1) - 1), 1e-11)


def test_polynomials_stay_exact_beside_gaps_and_after_saving(tmp_path, rng):
    x = np.linspace(-1, 1, 60)
    y = x**3 - x
    ef.save(ef.fit(y, ef.smooth(order=4)), tmp_path / "x.elm")
    at = rng.uniform(0, 59, 200)
    close(
        ef.load(tmp_path / "x.elm")(at[:, None]), (at * 2 / 59 - 1) ** 3 - (at * 2 / 59 - 1), 1e-11
    )
    means = ef.fit(y, ef.smooth(order=4), samples="means")
    close(means.means(np.arange(61) - 0.5), y, 1e-11)


@pytest.mark.parametrize("n", [12, 32, 100])
def test_waves_around_a_periodic_axis_are_at_rounding(n, tmp_path, rng):
    def waves(x):
        return np.cos(2 * np.pi * x / n + 0.3) + 0.5 * np.sin(6 * np.pi * x / n)

    field = ef.fit(waves(np.arange(n)), periodic=0)
    at = rng.uniform(-n, 2 * n, (300, 1))
    close(field(at), waves(at[:, 0]), 1e-12)
    close(field.tabulate(1e-10)(at % n), waves(at[:, 0]), 1e-9)
    ef.save(field, tmp_path / "ring.elm")
    close(ef.load(tmp_path / "ring.elm")(at), waves(at[:, 0]), 1e-12)
    rough = ef.fit(rng.standard_normal(n), periodic=0)
    assert rough.partition.n_cells[0] > 1


def test_random_numbers_are_not_taken_for_smooth():
    rng = np.random.default_rng(3)
    orders = [ef.fit(rng.standard_normal(12)).settings.order[0] for _ in range(20)]
    assert np.mean(np.asarray(orders) < 2.5) >= 0.8


def test_samples_that_will_be_coded_have_lines_for_free_only():
    y = np.sin(np.linspace(0, 6, 80))
    assert ef.fit(y, ef.smooth(max_error=1e-3)).settings.free == (2,)
    assert ef.fit(y).settings.free[0] > 2


def test_tables_of_high_orders_are_certified(rng):
    x = np.linspace(0, 1, 50)
    field = ef.fit(np.exp(2 * x[:, None] - x))
    assert min(field.settings.order) > 5
    table = field.tabulate(1e-9, order=1)
    at = rng.uniform(0, 49, (500, 2))
    close(table(at), field(at), table.error)


@pytest.mark.thorough
def test_noise_on_a_smooth_line_is_taken_out_as_by_a_smoothing_spline():
    t, x = np.linspace(0, 1, 200), np.arange(200.0)
    ours, theirs = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = np.sin(2 * np.pi * rng.uniform(1, 4) * t) + t
        z = y + 0.1 * rng.standard_normal(200)
        ours.append(np.mean((ef.fit(z, ef.smooth(denoise=True)).samples() - y) ** 2))
        theirs.append(np.mean((make_smoothing_spline(x, z)(x) - y) ** 2))
    assert np.mean(ours) < 1.4 * np.mean(theirs)  # of squares; small boxes alone left 2.2 times


def test_noise_on_a_smooth_plane_is_averaged_over_large_boxes(rng):
    i, j = np.indices((64, 64))
    y = np.sin(0.11 * i + 0.06 * j) + np.sin(0.05 * i - 0.13 * j)
    z = y + 0.2 * rng.standard_normal(y.shape)
    left = np.sqrt(np.mean((ef.fit(z, ef.smooth(denoise=True)).samples() - y) ** 2))
    best = min(np.sqrt(np.mean((gaussian_filter(z, s) - y) ** 2)) for s in (1, 1.5, 2, 2.5, 3))
    assert left < 0.8 * best


@pytest.mark.thorough
def test_rough_scattered_samples_take_an_order_between():
    rng = np.random.default_rng(0)
    walk = np.cumsum(np.cumsum(rng.standard_normal((80, 80)), axis=0), axis=1)
    at = rng.permutation(6400)[:2500]
    where = np.stack(np.unravel_index(at, walk.shape), axis=1).astype(float)
    assert 1 <= ef.fit_points(where, walk.reshape(-1)[at]).settings.order <= 2
