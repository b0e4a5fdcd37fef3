import re
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elmfield as ef
from elmfield.fit.scattered.regions import KernelRegions
from support import close, host, wave

SEEDS = st.integers(0, 2**32 - 1)


def scattered(rng, n, d, size=40.0):
    x = rng.random((n, d)) * size
    return x, wave(x)


@pytest.mark.parametrize(("n", "d"), [(200, 1), (1500, 2), (250, 3)])
def test_a_known_function_is_found_between_scattered_samples(n, d, rng):
    x, y = scattered(rng, n, d, {1: 40.0, 2: 30.0, 3: 7.0}[d])
    field = ef.fit_points(x, y, ef.smooth(order=2))
    size = x.max(axis=0)
    inner = (0.1 + 0.8 * rng.random((300, d))) * size
    # Mean spacing about 1 (and gaps of 3) at frequency 0.25: (0.75 / π)⁴ of the amplitude.
    error = np.abs(field(inner) - wave(inner))
    assert np.sqrt(np.mean(error**2)) < 4e-3
    close(field(x), y, 1e-3)


@given(n=st.integers(1, 12), d=st.integers(1, 3), seed=SEEDS)
def test_few_points_are_met(n, d, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.random((n, d)) * 100, rng.standard_normal(n)
    field = ef.fit_points(x, y)
    close(field(x), y, 1e-3 * (np.ptp(y) + 1e-9))


def test_one_point_is_a_constant():
    field = ef.fit_points([[3.0, 4.0]], [7.5])
    close(field([[3.0, 4.0]]), 7.5, 1e-12)


def test_points_on_a_line_in_the_plane(rng):
    t = np.sort(rng.random(60)) * 20
    x = np.stack([t, np.full(60, 5.0)], axis=-1)
    close(ef.fit_points(x, np.sin(t / 3))(x), np.sin(t / 3), 1e-3)


def test_repeated_places_are_averaged(rng):
    x, y = scattered(rng, 100, 2)
    twice = ef.fit_points(np.concatenate([x, x[:50]]), np.concatenate([y, y[:50] + 2]))
    expected = ef.fit_points(
        x,
        y + (np.arange(100) < 50),
        spacing=float(twice.domain.axes[0].step),
        bounds=(x.min(axis=0), x.max(axis=0)),
    )
    close(twice(x), expected(x), 1e-3)


def test_the_order_of_the_points_does_not_matter(rng):
    x, y = scattered(rng, 300, 2)
    shuffled = rng.permutation(300)
    q = 5 + rng.random((50, 2)) * 30
    close(ef.fit_points(x, y)(q), ef.fit_points(x[shuffled], y[shuffled])(q), 1e-7)


def test_a_fit_of_points_is_linear_and_repeatable(rng):
    x, f = scattered(rng, 400, 2)
    g = rng.standard_normal(400)
    q = 5 + rng.random((50, 2)) * 30
    usual = ef.smooth(order=1.1)  # "auto" looks at the values
    one, two = ef.fit_points(x, f, usual), ef.fit_points(x, g, usual)
    both = ef.fit_points(x, 2 * f - 3 * g, usual)
    # Close pairs make a kernel of condition 1e10 (its diagonal is raised by 1e-10): six digits.
    close(both(q), 2 * one(q) - 3 * two(q), 1e-5 * np.abs(two(q)).max())
    assert np.array_equal(one(q), ef.fit_points(x, f, usual)(q))
    close(ef.fit_points(x, f + 273.15, usual)(q), one(q) + 273.15, 1e-6)


def test_channels_complex_and_libraries(xp, rng):
    x, y = scattered(rng, 250, 2)
    q = 5 + rng.random((20, 2)) * 30
    single = host(ef.fit_points(x, y)(q))
    both = ef.fit_points(xp.asarray(x), xp.asarray(np.stack([y, 1e3 * y + 5], axis=-1)))
    assert type(both(q)) is type(xp.asarray(x))
    close(host(both(q))[:, 0], single, 1e-9)
    close(host(both(q))[:, 1], 1e3 * single + 5, 1e-6)
    turned = ef.fit_points(x, xp.asarray(y * (1 + 2j)))
    close(turned(q), single * (1 + 2j), 1e-9)
    assert host(ef.fit_points(x, xp.asarray(y.astype(np.float32)))(q)).dtype == np.float32


@pytest.mark.thorough
def test_single_precision_values_keep_their_digits(rng):
    x, y = scattered(rng, 400, 2)
    q = 5 + rng.random((50, 2)) * 30
    wide, narrow = ef.fit_points(x, y), ef.fit_points(x, y.astype(np.float32))
    close(narrow(q), wide(q), 1e-4)


def test_periodic_points_have_no_seam(rng):
    x = rng.random((500, 2)) * [360, 40]
    f = lambda p: np.cos(np.radians(p[..., 0])) + 0.02 * p[..., 1]  # noqa: E731
    field = ef.fit_points(
        x,
        f(x),
        ef.smooth(order=2),
        bounds=([0, 0], [360, 40]),
        dims=("lon", "z"),
        periodic=["lon"],
        spacing=(10, 3),
    )
    y = np.linspace(5, 35, 20)
    left = np.stack([np.full(20, 1e-6), y], axis=-1)
    right = np.stack([np.full(20, 360 - 1e-6), y], axis=-1)
    close(field(left), field(right), 1e-5)
    close(field(left + np.array([720, 0])), field(left), 1e-9)
    close(field(left), f(left), 0.02)


@pytest.mark.parametrize("periodic", ["lon", 0, ["lon"], (-2,)])
def test_periodic_axes_are_named_as_in_fit(periodic, rng):
    x, y = scattered(rng, 50, 2)
    field = ef.fit_points(x, y, dims=("lon", "lat"), periodic=periodic, bounds=([0, 0], [40, 40]))
    assert field.domain.periodic == (True, False)


def test_nan_rows_are_left_out(rng):
    x, y = scattered(rng, 120, 2)
    holes = y.copy()
    holes[::7] = np.nan
    keep = ~np.isnan(holes)
    q = 8 + rng.random((20, 2)) * 20
    close(ef.fit_points(x, holes)(q), ef.fit_points(x[keep], y[keep])(q), 1e-9)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_masked_rows_are_left_out(dtype, rng):
    x, y = scattered(rng, 120, 2)
    y = np.round(100 * y).astype(dtype)
    gone = np.arange(120) % 7 == 0
    masked = np.ma.masked_array(np.where(gone, -9999, y).astype(dtype), gone)
    found, expected = ef.fit_points(x, masked), ef.fit_points(x[~gone], y[~gone])
    assert np.array_equal(found(x[~gone]), expected(x[~gone]))


def test_four_dimensions_store_no_more_than_three_do(rng):
    x = rng.random((150, 4))
    f = lambda p: np.sin(3 * p[:, 0] + p[:, 1]) * np.cos(2 * p[:, 2]) + p[:, 3] ** 2  # noqa: E731
    field = ef.fit_points(x, f(x), ef.smooth(order=2))
    assert field.model.n_coefficients <= 40 * len(x)
    inner = 0.1 + 0.8 * rng.random((300, 4))
    # Waves, 3 million coefficients, did no better: 0.019.
    assert np.sqrt(np.mean((field(inner) - f(inner)) ** 2)) < 0.025
    close(field(x), f(x), 1e-9)


def test_long_fits_are_announced(monkeypatch, rng):
    module = sys.modules["elmfield.fit.scattered.regions"]
    monkeypatch.setattr(module, "ANNOUNCED_MULTIPLICATIONS", 1e5)
    x, y = scattered(rng, 100, 2)
    with pytest.warns(UserWarning, match=r"regions of up to \d+ samples: about .* multiplications"):
        ef.fit_points(x, y)


def test_nothing_is_modified(rng):
    x, y = scattered(rng, 60, 2)
    before = x.copy(), y.copy()
    ef.fit_points(x, y, periodic=[0], bounds=([0, 0], [40, 40]))
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


MESH = ef.Partition.regular((8, 8), 4)
XY = np.random.default_rng(0).random((20, 2))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (
            (XY[:, 0], XY[:, 1]),
            {},
            ValueError,
            r"`points` must have shape \(n, d\); got \(20,\)",
        ),
        ((XY, XY[:5, 0]), {}, ValueError, r"`values` must have shape .* with n = 20.*got \(5,\)"),
        (
            (XY, np.zeros((20, 2, 2))),
            {},
            ValueError,
            r"`values` must have shape \(n,\) or \(n, C\)",
        ),
        ((XY, np.full(20, np.nan)), {}, ValueError, "at least one number; got none, or NaN only"),
        ((XY[:0], XY[:0, 0]), {}, ValueError, "at least one number"),
        ((XY, np.full(20, np.inf)), {}, ValueError, "must be finite; got infinities or NaN"),
        ((XY * np.nan, XY[:, 0]), {}, ValueError, "must be finite"),
        ((XY.astype(str), XY[:, 0]), {}, TypeError, "must hold real numbers; got dtype <U"),
        ((XY, XY[:, 0].astype(str)), {}, TypeError, "must hold numbers; got dtype"),
        ((XY, XY[:, 0], ef.oriented()), {}, TypeError, "`settings` must be smooth"),
        ((XY, XY[:, 0], ef.paper()), {}, ValueError, "as many samples as neurons, or some and a"),
        ((XY, XY[:, 0], ef.paper()), {"denoise": True}, TypeError, "`denoise` for smooth"),
        (
            (XY, XY[:, 0]),
            {"partition": ef.Partition.regular((8, 8), 4)},
            TypeError,
            "`partition` is",
        ),
        ((XY, XY[:, 0]), {"bounds": ([0, 0], [1, -1])}, ValueError, "two corners of 2 numbers"),
        ((XY, XY[:, 0]), {"bounds": ([0, 0], [1, 0.5])}, ValueError, "must lie inside `bounds`; "),
        (
            (XY, XY[:, 0]),
            {"bounds": ([0, 0], [1, 0.5]), "periodic": [0]},
            ValueError,
            "must lie inside `bounds`; ",
        ),
        (
            (XY, XY[:, 0]),
            {"spacing": -1},
            ValueError,
            "`spacing` must be a positive number",
        ),
        ((XY, XY[:, 0]), {"spacing": (1, 2, 3)}, ValueError, "`spacing` must be one number or one"),
        ((XY, XY[:, 0]), {"dims": ("a",)}, ValueError, "`dims` must be 2 different names"),
        ((XY, XY[:, 0]), {"dims": ("a", "a")}, ValueError, r"different names.*got \('a', 'a'\)"),
        ((XY, XY[:, 0]), {"periodic": [0]}, ValueError, "`periodic` needs `bounds`: samples do"),
        ((XY, XY[:, 0], ef.smooth(order=8)), {}, ValueError, "`order` must lie above 0.5 and at"),
        (
            (XY, XY[:, 0]),
            {"periodic": ["t"]},
            ValueError,
            "`periodic` names axis .t., but the axes",
        ),
        ((XY, XY[:, 0]), {"periodic": (True, False)}, ValueError, "`periodic` names"),
    ],
)
def test_bad_points_say_what_is_wrong(arguments, options, error, message):
    with pytest.raises(error, match=message):
        ef.fit_points(*arguments, **options)


def test_numbers_of_any_size(rng):
    """Near the end of float64, where sums and squares have no place."""
    x, y = rng.random((60, 2)), rng.standard_normal(60)
    usual = ef.smooth(order=1.5)
    field = ef.fit_points(x, y, usual)
    for scale in (1e-300, 1e300, 1e307):
        close(ef.fit_points(x, y * scale, usual)(x) / scale, y, 1e-9)
    for scale in (1e-200, 1e200, 1e307):
        close(ef.fit_points(x * scale, y, usual)(x * scale), field(x), 1e-9)
    for wrong in (np.full(60, 1.7e308), 8e307 * (-1.0) ** np.arange(60)):
        with pytest.raises(ValueError, match=r"`values` must lie within ±4.49e\+307 .* 60 such of"):
            ef.fit_points(x, wrong)
    with pytest.raises(ValueError, match=r"`values` must lie within ±8.51e\+37 .* float64"):
        ef.fit_points(x, np.full(60, 3e38, np.float32))
    with pytest.raises(ValueError, match=r"`points` must lie within"):
        ef.fit_points(x * 1e308, y)


@pytest.mark.parametrize(("spacing", "cells"), [(1e-9, r"1e\+18"), (5e-324, "inf")])
def test_a_spacing_that_leaves_too_many_cells_is_refused(spacing, cells):
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.2, 0.7]])
    with pytest.raises(ValueError, match=f"at most 262144 cells .* makes {cells}"):
        ef.fit_points(x, x[:, 0], spacing=spacing)


def test_crowded_samples_ask_for_a_smaller_spacing(rng):
    x = np.concatenate([rng.random((5000, 1)) * 1e-3, [[1000.0]]])
    with pytest.raises(ValueError, match="Pass a smaller `spacing`"):
        ef.fit_points(x, x[:, 0])


# --- planes, noise, close samples ----------------------------------------------------------------


@pytest.mark.parametrize(("d", "n"), [(1, 2), (1, 60), (2, 3), (2, 200), (3, 150)])
@pytest.mark.parametrize("denoise", [False, True, 0.5])
def test_scattered_planes_are_exact(d, n, denoise, rng):
    x, slopes = rng.random((n, d)), rng.standard_normal(d)
    field = ef.fit_points(x, 3 + x @ slopes, denoise=denoise)
    q = x.min(axis=0) + np.ptp(x, axis=0) * rng.random((100, d))
    close(field(q), 3 + q @ slopes, 1e-9)
    close(field.gradient(q), np.broadcast_to(slopes, q.shape), 1e-8 * np.abs(slopes).max())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", ["auto", 1.1, 2.0, 3.0])
def test_close_samples_are_met(seed, order):
    rng = np.random.default_rng(seed)
    x, y = rng.random((100, 1)), rng.standard_normal(100)
    field = ef.fit_points(x, y, ef.smooth(order=order))
    close(field(x), y, 1e-6 * np.ptp(y))


def test_samples_too_close_to_meet_are_counted(rng):
    x = rng.random((60, 2))
    x[1] = x[0] + 1e-12
    with pytest.warns(
        UserWarning, match=r"[12]\d? of 60 samples are too close to others .* off by up to"
    ):
        ef.fit_points(x, rng.standard_normal(60), ef.smooth(order=3))


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gap", [None, 1e-9, 1e-12])
def test_samples_are_off_by_no_more_than_is_told(seed, d, gap):
    """One sample far from all others, or two close ones: sums there cancel to the last digits."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((100, d)), rng.standard_normal(100)
    x[0] = 1e9 if gap is None else x[1] + gap
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        field = ef.fit_points(x, y, ef.smooth(order="auto" if gap is None else 3))
    numbers = [float(re.search(r"up to (\S+) of", str(w.message))[1]) for w in told]
    bound = max(numbers, default=1e-6)
    for off in (field(x) - y, [field(p) - v for p, v in zip(x, y)], field(x[::-1]) - y[::-1]):
        assert np.abs(off).max() <= bound * np.ptp(y)


@pytest.mark.slow
@pytest.mark.parametrize("denoise", [True, 0.1])
def test_noise_is_taken_out_of_scattered_samples(denoise):
    rng = np.random.default_rng(3)
    x = rng.random((2000, 2))
    q = 0.02 + 0.96 * rng.random((1000, 2))

    def wave(p):
        return np.sin(6 * p[:, 0]) * np.cos(4 * p[:, 1])

    noisy = wave(x) + 0.1 * rng.standard_normal(len(x))
    field = ef.fit_points(x, noisy, denoise=denoise)
    again = ef.fit_points(x[:200], noisy[:200], ef.smooth(denoise=denoise))
    close(again(q), ef.fit_points(x[:200], noisy[:200], denoise=denoise)(q), 0)
    # Ten independent numbers in a region of 1024 samples: 0.1 √(10 / 1024), and the borders.
    assert np.sqrt(np.mean((field(q) - wave(q)) ** 2)) < 0.025


def test_samples_without_noise_are_nearly_met_when_noise_is_looked_for(rng):
    x = rng.random((400, 1))
    y = np.sin(9 * x[:, 0])
    field = ef.fit_points(x, y, denoise=True)
    close(field(x), y, 1e-3)


def test_cusps_of_low_orders_meet_their_samples_or_say_so(rng):
    y = rng.standard_normal(20)
    near = rng.uniform(0, 1e-3, (20, 2))
    field = ef.fit_points(near, y, ef.smooth(order=0.6))
    close(field(near), y, 1e-10)
    far = near + 100  # positions are known to 1e-11 of their spacing
    with pytest.warns(UserWarning, match="20 samples .* an `order` of 1"):
        ef.fit_points(far, y, ef.smooth(order=0.6))


@pytest.mark.slow
def test_a_calm_part_of_noisy_samples_is_smoothed_more(rng, monkeypatch):
    x = rng.uniform(0, 60, (1800, 2))
    lively = np.where(x[:, 0] < 30, 0, np.sin(x[:, 0]) * np.sin(x[:, 1]))
    calm, z = x[:, 0] < 20, lively + 0.2 * rng.standard_normal(len(x))
    own = ef.fit_points(x, z, denoise=True)(x[calm])
    shared, likeliest = [], KernelRegions.likeliest

    def kept(self, orders, level):
        shared.append(likeliest(self, orders, level))
        return shared[0]

    monkeypatch.setattr(KernelRegions, "likeliest", kept)
    monkeypatch.setattr(
        KernelRegions,
        "own_penalties",
        lambda self, *_: np.full(len(self.used), shared[0][1]),
    )
    same = ef.fit_points(x, z, denoise=True)(x[calm])
    assert np.std(own) < 0.8 * np.std(same), (np.std(own), np.std(same))
