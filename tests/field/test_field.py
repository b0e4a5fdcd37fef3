import itertools
import tracemalloc
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates
from skimage.transform import resize as skimage_resize

import elmfield as ef
import oracles
from elmfield._array import threads
from elmfield.field import scattered
from support import L_SHAPE, close, host, inside, on_given_cells, on_grid, partition, wave

SEEDS = st.integers(0, 2**32 - 1)
SMOOTH_DENSE = {"activation": "cos", "frequencies": 4, "scale": 0.5}


def hills(x):
    """sin(0.2 x + 0.3) cos(0.15 y), its gradient and its Hessian."""
    a, b = 0.2 * x[..., 0] + 0.3, 0.15 * x[..., 1]
    f = np.sin(a) * np.cos(b)
    gradient = np.stack([0.2 * np.cos(a) * np.cos(b), -0.15 * np.sin(a) * np.sin(b)], axis=-1)
    mixed = -0.03 * np.cos(a) * np.sin(b)
    rows = [np.stack(r, axis=-1) for r in ((-0.04 * f, mixed), (mixed, -0.0225 * f))]
    return f, gradient, np.stack(rows, axis=-2)


@pytest.fixture(scope="module")
def hilly():
    return ef.fit(on_grid(lambda x: hills(x)[0], (50, 45)), ef.smooth(order=4))


@pytest.fixture(scope="module")
def whole():
    """The same in one region, whose own border is far from where the tests look."""
    return ef.fit(on_grid(lambda x: hills(x)[0], (50, 45)), ef.smooth(order=3, cell=50))


@pytest.fixture(scope="module")
def rough():
    return ef.fit(np.random.default_rng(5).standard_normal((37, 41)))


def pixels(shape, n):
    """Centres of n[k] equal parts of each axis, as a grid of points."""
    axes = [(np.arange(m) + 0.5) * s / m - 0.5 for s, m in zip(shape, n)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


# --- continuity --------------------------------------------------------------------------------


def jumps(ask, part, rng, step=1e-6):
    """Largest change of ask(x) over 2 steps: across cell borders and ramp ends, and anywhere."""
    across, elsewhere = [], []
    for k in range(len(part.shape)):
        x = inside(rng, part.shape, 400) * 0.98
        shift = step * np.eye(len(part.shape))[k]
        elsewhere.append(np.abs(ask(x + shift) - ask(x - shift)).max())
        for knot in itertools.product(
            part.borders(k)[1:-1], (-part.overlap[k], 0, part.overlap[k])
        ):
            y = x.copy()
            y[:, k] = sum(knot)
            across.append(np.abs(ask(y + shift) - ask(y - shift)).max())
    return max(across), max(elsewhere)


@pytest.mark.parametrize(
    "settings",
    [ef.smooth(), ef.smooth(order=3), ef.paper(width=60, overlap=2, **SMOOTH_DENSE)],
    ids=["default", "order 3", "paper with overlap"],
)
@pytest.mark.parametrize("labels", [None, L_SHAPE], ids=["cells", "L shapes"])
def test_value_and_gradient_cross_borders_as_they_move_inside(settings, labels, rng):
    shape = (36, 33)
    part = partition(shape, np.arange(9).reshape(3, 3) if labels is None else labels, 2.0)
    field = ef.fit(on_grid(wave, shape), on_given_cells(settings), partition=part)
    for ask in (field, field.gradient):
        across, elsewhere = jumps(ask, part, rng)
        assert across < 4 * elsewhere


def test_the_paper_s_own_cells_do_jump(rng):
    # What the tests above would see if windows did not blend.
    field = ef.fit(rng.standard_normal((32, 32)), ef.paper(cell=8, width=16))
    across, elsewhere = jumps(field, field.partition, rng)
    assert across > 1000 * elsewhere


def test_the_hessian_is_continuous_too(hilly, rng):
    across, elsewhere = jumps(hilly.hessian, hilly.partition, rng)
    assert across < 4 * elsewhere


# --- derivatives -------------------------------------------------------------------------------


def test_derivatives_are_those_of_a_known_function(whole, rng):
    x = 15 + rng.random((300, 2)) * [19, 14]
    f, gradient, hessian = hills(x)
    # Order 3 is a quintic spline: (0.2 / π)⁶ = 7e-8 between the samples; a derivative costs π.
    close(whole(x), f, 1e-7)
    close(whole.gradient(x), gradient, 4e-7)
    close(whole.hessian(x), hessian, 2e-6)
    close(whole.laplacian(x), np.trace(hessian, axis1=-2, axis2=-1), 4e-6)


@pytest.mark.parametrize("order", [1.1, 1.5, 2, 3, 4])
def test_derivatives_are_as_good_as_the_fit_over_many_regions(order, rng):
    field = ef.fit(on_grid(lambda x: hills(x)[0], (64, 64)), ef.smooth(order=order))
    x = 5 + rng.random((2000, 2)) * 53
    f, gradient, hessian = hills(x)
    error = np.abs(field(x) - f).max()
    assert error < 3e-3
    # Errors live between samples and on ramps four samples wide: frequencies up to about 2π.
    assert np.abs(field.gradient(x) - gradient).max() < 2 * np.pi * error
    assert np.abs(field.hessian(x) - hessian).max() < (2 * np.pi) ** 2 * error


def test_smooth_functions_are_met_as_by_a_cubic_spline(rng):
    values = on_grid(lambda x: hills(x)[0], (64, 64))
    x = 14 + rng.random((2000, 2)) * 36
    spline = np.abs(map_coordinates(values, x.T, order=3, mode="mirror") - hills(x)[0]).max()
    field = ef.fit(values, ef.smooth(order=2))
    assert np.abs(field(x) - hills(x)[0]).max() < 4 * spline


@pytest.mark.parametrize(
    ("shape", "settings", "channels"),
    [
        ((40,), ef.smooth(), 1),
        ((23, 19), ef.smooth(order=2), 2),
        ((9, 10, 8), ef.smooth(cell=5, overlap=2), 1),
        ((5, 4, 5, 3), ef.smooth(cell=3, overlap=1), 1),
        ((20, 22), ef.paper(cell=10, width=30, overlap=3, **SMOOTH_DENSE), 2),
        ((16, 14), ef.smooth(network=ef.Dense(150, 4, 0.5, "sin"), order=2), 1),
    ],
    ids=str,
)
def test_derivatives_are_those_of_the_field_itself(shape, settings, channels, rng):
    field = ef.fit(rng.standard_normal((*shape, channels)), settings, channel_axis=-1)
    x = inside(rng, shape, 40) * 0.95
    for channel in range(channels):
        value = lambda p, c=channel: field(p)[:, c]  # noqa: E731
        gradient, hessian = (g(x)[:, channel] for g in (field.gradient, field.hessian))
        # Frequencies up to 2π a sample: truncation h²/6 (2π)³ and h²/12 (2π)⁴ of the amplitude.
        size = max(1, np.abs(gradient).max())
        close(oracles.difference_gradient(value, x, 1e-4), gradient, 1e-6 * size)
        close(oracles.difference_hessian(value, x, 1e-3), hessian, 1e-3 * size)
        close(hessian, np.swapaxes(hessian, -1, -2), 0)
        close(field.laplacian(x)[:, channel], np.trace(hessian, 0, -2, -1), 1e-9 * size)


def test_the_gradient_of_relu_is_that_of_its_linear_pieces(rng):
    field = ef.fit(rng.standard_normal((12, 12)), ef.paper(cell=12, width=12, seed=1))
    x = inside(rng, (12, 12), 200)
    found, steps = field.gradient(x), oracles.difference_gradient(field, x, 1e-6)
    agree = np.abs(found - steps).max(axis=1) < 1e-6 * np.abs(found).max()
    assert agree.mean() > 0.99  # a point within 1e-6 of a kink would be the exception


# --- integrals ---------------------------------------------------------------------------------


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


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(cell=8, width=20, overlap=2)])
@pytest.mark.parametrize("labels", [None, L_SHAPE])
def test_the_integral_is_the_limit_of_sums(settings, labels, rng):
    values = rng.standard_normal((24, 24))
    part = None if labels is None else partition((24, 24), labels, 2.0)
    settings = settings if labels is None else on_given_cells(settings)
    field = ef.fit(values, settings, partition=part)
    low, high = np.array([2.3, 5.2]), np.array([20.1, 18.8])
    n = 600
    axes = low + (np.arange(n)[:, None] + 0.5) / n * (high - low)
    mean = field.grid(*axes.T).mean()
    # Midpoints: h²/24 f'' with h = 1/30 sample and f'' up to (2π)²; ReLU also has kinks.
    close(field.integral(low, high) / np.prod(high - low), mean, 1e-3)


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


ROUND = [
    (np.arange(36) * 10.0, 360.0),
    (np.arange(36) * 10.0, 365.0),
    (np.arange(36)[::-1] * 10.0, 365.0),
    (np.cumsum(5 + 5 * np.sin(np.arange(36)) ** 2), 360.0),
    (np.cumsum(5 + 5 * np.sin(np.arange(36)) ** 2)[::-1], 360.0),
]


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


# --- grids -------------------------------------------------------------------------------------


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    new=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    seed=SEEDS,
    periodic=st.sampled_from([(), (0,), (0, 1)]),
)
def test_resizing_is_asking_at_pixel_centres(shape, new, seed, periodic):
    field = ef.fit(np.random.default_rng(seed).standard_normal(shape), periodic=periodic)
    close(field.resize(new), field(pixels(shape, new)), 1e-11)


def test_resize_keeps_scikit_image_s_coordinates():
    values = on_grid(wave, (40, 30))
    ours = ef.fit(values, ef.smooth(order=2)).resize((100, 45))
    theirs = skimage_resize(values, (100, 45), order=3, mode="edge", anti_aliasing=False)
    inner = (slice(10, -10), slice(6, -6))
    # A cubic spline and order 2 differ by h⁴ f⁗ ~ 0.2⁴; a shift of half a pixel by 0.1.
    close(ours[inner], theirs[inner], 2e-3)


def test_resizing_to_the_same_shape_gives_the_samples(rough):
    assert np.array_equal(rough.resize(rough.shape), rough.samples())


def test_a_line_may_be_resized_by_a_number():
    field = ef.fit(np.arange(9.0))
    assert np.array_equal(field.resize(5), field.resize((5,)))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_integers_are_rounded_and_clipped(xp, dtype, kind):
    info = np.iinfo(dtype)
    values = np.array([info.min * 4.0 - 9, 0.4, 0.6, 99.5, 100.6, info.max * 4.0]).astype(kind)
    field = ef.fit(xp.asarray(np.repeat(values, 2)), ef.smooth(cell=1, overlap=0, context=0))
    found = field.samples(dtype=dtype)
    assert found.dtype == getattr(xp, dtype)
    expected = [info.min, 0, 1, 100, 101, info.max]
    if np.finfo(kind).nmant < 31 and info.bits > 16:
        expected[1:5] = host(found)[2:9:2]  # single precision cannot hold these beside 2³³
    # A float of few digits may have to stop short of the largest integer, never pass it.
    assert abs(int(host(found)[-1]) - info.max) <= info.max * np.finfo(kind).eps
    assert host(found)[::2].tolist()[:5] == expected[:5]


def test_a_picture_comes_back_as_the_picture(rng):
    picture = rng.integers(0, 256, (33, 20, 3), dtype=np.uint8)
    field = ef.fit(picture, channel_axis=-1)
    assert np.array_equal(field.samples(dtype=np.uint8), picture)
    assert field.resize((5, 6), dtype="uint8").dtype == np.uint8


@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(cell=8, width=32)])
def test_truth_values_are_cut_at_a_half(xp, settings, rng):
    picture = np.kron(rng.random((5, 6)) < 0.5, np.ones((8, 8), bool))
    field = ef.fit(xp.asarray(picture), settings)
    found = field.samples(dtype=bool)
    assert found.dtype == xp.bool
    assert np.array_equal(host(found), host(field.samples()) >= 0.5)
    assert np.mean(host(found) == picture) > 0.9
    assert np.array_equal(
        host(field.resize((80, 96), dtype="bool")), host(field.resize((80, 96))) >= 0.5
    )


@pytest.mark.parametrize("dtype", ["uint8", "int64", bool])
def test_integers_cannot_say_nan(rough, dtype):
    with pytest.raises(ValueError, match="outside the domain cannot be NaN in dtype"):
        rough.grid([1.0], [99.0], dtype=dtype, outside="nan")
    assert rough.grid([1.0], [9.0], dtype=dtype, outside="nan").dtype == np.dtype(dtype)
    assert np.isnan(rough.grid([1.0], [99.0], dtype="float32", outside="nan")).all()


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_channels_return_to_their_axis(xp, axis, rng):
    values = np.moveaxis(rng.standard_normal((12, 13, 3)), -1, axis)
    field = ef.fit(xp.asarray(values), channel_axis=axis)
    close(field.samples(), values, 1e-10)
    close(np.moveaxis(host(field.resize((5, 6))), axis, -1), field(pixels((12, 13), (5, 6))), 1e-10)
    marked = host(field.grid([1.0, 99.0], [2.0], outside="nan"))
    assert np.isnan(np.moveaxis(marked, axis, -1)[1]).all()
    assert np.isfinite(np.moveaxis(marked, axis, -1)[0]).all()


def test_a_grid_takes_positions_in_any_order(rough, rng):
    y, x = rng.random(17) * 36, rng.random(5) * 40
    points = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
    close(rough.grid(y, x), rough(points), 1e-12)
    close(rough.grid(y[:1], 3.0), rough([[y[0], 3.0]])[:, None], 1e-12)
    with pytest.raises(ef.OutsideDomainError, match="axis 'axis1' covers"):
        rough.grid([1.0], [41.0])
    assert np.array_equal(rough.grid([1.0], [99.0], outside="nearest"), rough.grid([1.0], [40.5]))


def test_asking_for_nothing_gives_nothing(rough):
    assert rough(np.empty((0, 2))).shape == (0,)
    assert rough.gradient(np.empty((3, 0, 2))).shape == (3, 0, 2)
    assert rough.hessian(np.empty((0, 2))).shape == (0, 2, 2)
    assert rough.grid([], [1.0, 2.0]).shape == (0, 2)
    assert rough.grid([1.0], []).shape == (1, 0)


def test_points_may_have_any_leading_shape(rough, rng):
    x = inside(rng, rough.shape, 24)
    flat = rough(x)
    assert np.array_equal(rough(x.reshape(2, 3, 4, 2)), flat.reshape(2, 3, 4))
    assert rough(x[0]).shape == ()
    close(rough(x[0]), flat[0], 1e-13)
    assert rough.gradient(x.reshape(4, 6, 2)).shape == (4, 6, 2)
    close(rough(x[::-1])[::-1], flat, 1e-12)


def test_large_queries_in_batches_equal_small_ones(rough, rng):
    x = inside(rng, rough.shape, 500)
    expected, grid = rough(x), rough.resize((90, 80))
    plain = ef.paper(cell=8, width=16)
    values = rng.standard_normal((40, 40))
    with ef.memory_limit(1 << 16):  # 8192 numbers: every step in several batches
        close(rough(x), expected, 1e-12)
        close(rough.resize((90, 80)), grid, 1e-12)
        batched = ef.fit(values, plain)
        pieces = batched(x * 0.9), batched.resize((55, 30)), batched.integral((1, 1), (30, 30))
    whole = ef.fit(values, plain)
    for a, b in zip(
        pieces, (whole(x * 0.9), whole.resize((55, 30)), whole.integral((1, 1), (30, 30)))
    ):
        close(a, b, 1e-9)


# --- many points -------------------------------------------------------------------------------


MANY = [
    ((40, 45), {}, {}),
    ((40, 45, 2), {"channel_axis": -1}, {}),
    ((40, 45), {"periodic": (0, 1)}, {}),
    ((90,), {}, {}),
    ((14, 13, 12), {}, {"cell": 7}),
    ((40, 45), {}, {"cell": 16, "overlap": 0.5, "context": 0}),
    ((40, 45), {}, {"order": 3, "cell": 20, "per_region": 100}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "options", "settings"), MANY)
def test_many_points_equal_few(shape, options, settings, rng, monkeypatch):
    field = ef.fit(rng.standard_normal(shape), ef.smooth(**settings), **options)
    x = inside(rng, field.shape, 4 * field.partition.n_regions * 2200)
    some = rng.permutation(len(x))[:300]
    few = [ask(x[some]) for ask in (field, field.gradient, field.hessian)]
    taken = []
    original = scattered._by_interval
    monkeypatch.setattr(scattered, "_by_interval", lambda *a: taken.append(1) or original(*a))
    for ask, expected, tolerance in zip(
        (field, field.gradient, field.hessian), few, (1e-12, 1e-11, 1e-9)
    ):
        close(ask(x)[some], expected, tolerance * field.data_range)
    assert taken  # by intervals, which few points are not


def test_a_region_is_its_cosines(rng):
    field = ef.fit(rng.standard_normal((30, 26)))
    (group,), (centre,) = field.blended.groups, field.blended.centres
    x = inside(rng, field.shape, 5000)
    R, S = (a(x[:, k] - centre[k]) for k, a in enumerate(group.model.axes))
    F = group.model.expand(group.coefficients.values)[0, ..., 0]
    expected = np.einsum("na,nb,ab->n", R, S, F)
    expected = field.offset + field.scale * expected
    close(field(x), expected, 1e-12 * field.data_range)
    close(field(x[:50]), expected[:50], 1e-12 * field.data_range)


def test_windows_that_reach_beyond_the_boxes_find_their_functions(rng):
    field = ef.fit(rng.standard_normal((40, 45)), ef.smooth(cell=8, overlap=0.5, context=0))
    x = inside(rng, field.shape, 300)
    expected = np.zeros(len(x))
    edges, labels = field.partition.edges, field.partition.labels
    phi = oracles.windows(x, edges, labels, field.partition.overlap, field.partition.periodic)
    (group,) = field.blended.groups
    for i, c in enumerate(group.model.expand(group.coefficients.values)[..., 0]):
        R, S = (a(x[:, k] - field.blended.centres[i, k]) for k, a in enumerate(group.model.axes))
        expected += phi[:, i] * np.einsum("na,nb,ab->n", R, S, c)
    close(field(x), field.offset + field.scale * expected, 1e-12 * field.data_range)


def test_many_points_on_every_library_and_in_single_precision(xp, rng):
    values = rng.standard_normal((40, 45)).astype("float32")
    x = inside(rng, (40, 45), 20000)
    found = ef.fit(xp.asarray(values))(xp.asarray(x))
    assert found.dtype == xp.float32
    # Coefficients in single precision: sqrt(1600) roundings of numbers up to 40 or so.
    close(found, ef.fit(values.astype(float))(x), 1e-4)


def test_threads_do_not_change_a_digit(rng, monkeypatch):
    field = ef.fit(rng.standard_normal((70, 70)))
    x = inside(rng, field.shape, 40000)
    monkeypatch.setattr(scattered, "CACHED", 1 << 16)
    one = field(x), field.gradient(x)
    monkeypatch.setattr(threads, "n_threads", lambda: 3)
    three = field(x), field.gradient(x)
    for a, b in zip(one, three):
        np.testing.assert_array_equal(a, b)


def test_points_of_one_place_are_taken_in_parts(rng):
    """A million points in one region must not become one batch."""
    field = ef.fit(rng.standard_normal((64, 64)))
    x = np.full((200_000, 2), 20.3) + rng.uniform(0, 0.1, (200_000, 2))

    def peak(work):
        tracemalloc.start()
        work()
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most / 2**20

    field(x)
    # 3 MiB of points, some 30 numbers each while they are sorted, batches of 8 MiB and their parts.
    assert peak(lambda: field(x)) < 3 + 200_000 * 30 * 8 / 2**20 + 4 * 8


# --- crop --------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [None, np.kron(L_SHAPE, np.ones((2, 2), int))])
@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(width=20, cell=16, overlap=1)])
@pytest.mark.parametrize(
    ("low", "high"),
    [((20.2, 17.9), (55.5, 30.1)), ((-0.5, -0.5), (5, 5)), ((80, 60), (95.5, 95.5))],
)
def test_a_crop_is_the_same_function(labels, settings, low, high, rng):
    shape = (96, 96)
    part = None if labels is None else partition(shape, labels, 2.0)
    values = rng.standard_normal(shape)
    settings = settings if labels is None else on_given_cells(settings)
    field = ef.fit(values, settings, partition=part)
    crop = field.crop(low, high)
    assert crop.n_coefficients < field.n_coefficients
    x = np.asarray(low) + rng.random((200, 2)) * np.subtract(high, low)
    close(crop(x), field(x), 1e-9)
    close(crop.gradient(x), field.gradient(x), 1e-7)
    close(crop.integral(low, high), field.integral(low, high), 1e-8)
    close(crop([low, high]), field([low, high]), 1e-9)
    n = (7, 9)
    at = np.asarray(low) + (pixels((1, 1), n) + 0.5) * np.subtract(high, low)
    close(crop.resize(n), field(at), 1e-9)
    with pytest.raises(ef.OutsideDomainError, match="lie outside"):
        crop([np.add(high, 1e-3)])
    inner = tuple(slice(int(np.ceil(a)), int(np.floor(b)) + 1) for a, b in zip(low, high))
    close(crop.samples(), field.samples()[inner], 1e-9)


def test_a_crop_of_a_crop_and_its_units(rng):
    field = ef.fit(rng.standard_normal(100), coords=[50 - 0.5 * np.arange(100)])
    crop = field.crop([10], [40]).crop([12.25], [20])
    x = np.linspace(12.25, 20, 50)[:, None]
    close(crop(x), field(x), 1e-11)
    with pytest.raises(ValueError, match=r"axis 'axis0' covers \[12.25, 20\], got 12 to 20"):
        crop.crop([12], [20])
    with pytest.raises(ValueError, match="must span a box inside the domain"):
        crop.crop([15], [14])


def test_the_end_of_a_periodic_axis_belongs_to_a_crop(rng):
    field = ef.fit(rng.standard_normal(40), periodic=[0])
    crop = field.crop([5], [39.5])
    close(crop([[39.5], [5.0]]), field([[39.5], [5.0]]), 1e-12)
    close(crop.samples(), field.samples()[5:], 1e-12)


@pytest.mark.parametrize(("c", "period"), ROUND, ids=["even", "long", "long down", "up", "down"])
def test_a_crop_of_a_periodic_axis_lies_in_any_turn(c, period, rng):
    field = ef.fit(rng.standard_normal(36), coords=[c], periodic={0: period})
    x = np.linspace(100, 140, 30)[:, None]
    for turn in (-2, 0, 1):
        crop = field.crop([100 + turn * period], [140 + turn * period])
        for other in (-1, 0):
            close(crop(x + other * period), field(x), 1e-9)
        close(crop.integral([101], [139]), field.integral([101], [139]), 1e-9)
        with pytest.raises(ValueError, match="inside the domain"):
            crop.integral([99], [139])
    whole = field.crop([-180], [period - 180])
    close(whole.samples(), field.samples(), 0)
    seam = field.domain.axes[0].from_index(np.array([35.5]))[0]
    with pytest.raises(ValueError, match=f"not reach over the seam .* {seam:g} on .* Crop"):
        field.crop([seam - 20], [seam + 5])
    close(field.crop([seam - 20], [seam])([[seam - 3]]), field([[seam - 3]]), 1e-9)
    close(field.crop([seam], [seam + 5])([[seam + 3]]), field([[seam + 3]]), 1e-9)


# --- weights -----------------------------------------------------------------------------------


def test_weights_are_the_paper_s(xp, rng):
    values = rng.standard_normal((20, 20, 2)) * 9 + 30
    network = {"width": 25, "frequencies": 3, "activation": "cos"}
    field = ef.fit(xp.asarray(values), ef.paper(cell=10, **network), channel_axis=-1)
    for region, corner in enumerate(itertools.product((0, 10), (0, 10))):
        t = rng.uniform(-1, 1, (30, 2))
        H = oracles.hidden_layer(t, **network)
        local = field(np.array(corner) + 4.5 + 4.5 * t)
        close(H @ host(field.weights(region)), local, 1e-7)


def test_weights_of_the_default_are_those_of_its_cosines(rng):
    values = rng.standard_normal((20, 7)) * 5 + 2
    field = ef.fit(values, ef.smooth(cell=(10, 7), overlap=2, context=0))
    neurons = list(itertools.product(oracles.axis_neurons(14), oracles.axis_neurons(7)))
    for region, start in enumerate((0, 6)):  # boxes of 10 + 2 · 2 by 7 samples
        core = np.array([3.0 if region == 0 else 16.0, 2.7]) + rng.random((10, 2))
        u = core - [start + 6.5, 3.0]
        H = np.array(
            [
                [oracles.axis_neuron(*a, p[0]) * oracles.axis_neuron(*b, p[1]) for a, b in neurons]
                for p in u
            ]
        )
        close(H @ field.weights(region) + values.mean(), field(core), 1e-9)


def test_regions_are_counted_from_zero(rough):
    N = rough.partition.n_regions
    for region in (-1, N, 0.5):
        with pytest.raises(
            ValueError, match=f"`region` must lie between 0 and {N - 1}; got {region}"
        ):
            rough.weights(region)


# --- periodic axes -----------------------------------------------------------------------------


@given(cells=st.integers(2, 5), shift=st.integers(-4, 4), seed=SEEDS)
def test_turning_a_periodic_array_by_whole_cells_turns_its_field(cells, shift, seed):
    rng = np.random.default_rng(seed)
    n = 16 * cells
    values = rng.standard_normal((n, 10))
    x = inside(rng, (n, 10), 30)
    field = ef.fit(values, ef.smooth(cell=16), periodic=[0])
    turned = ef.fit(np.roll(values, 16 * shift, axis=0), ef.smooth(cell=16), periodic=[0])
    close(turned(x + np.array([16 * shift, 0])), field(x), 1e-11)


@given(n=st.integers(2, 70), seed=SEEDS)
def test_there_is_no_seam(n, seed):
    rng = np.random.default_rng(seed)
    field = ef.fit(rng.standard_normal(n), periodic=[0])
    h = 1e-7
    for seam in (-0.5, n - 0.5, 0.0):
        before, after = field([[seam - h], [seam + h]])
        size = np.abs(field.gradient([[seam - h], [seam + h]])).max()
        close(after - before, 0, 4 * h * (size + 1e-6))
        slope = np.diff(field.gradient([[seam - h], [seam + h]])[:, 0])
        bend = np.abs(field.hessian([[seam - h], [seam + h]])).max()
        close(slope, 0, 4 * h * (bend + 1e-4))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 33])
@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(cell=4, width=3)])
@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
def test_short_periodic_axes(n, settings, rng):
    values = rng.standard_normal((n, 6))
    field = ef.fit(values, settings, periodic=[0, 1])
    x = inside(rng, (n, 6), 20)
    close(field(x + np.array([3 * n, -6])), field(x), 1e-8)
    close(field.resize((2 * n, 5)), field(pixels((n, 6), (2 * n, 5))), 1e-8)
    if isinstance(settings, type(ef.smooth())):
        close(field.samples(), values, 1e-9)


def test_a_periodic_wave_is_known_across_the_seam():
    n = 96
    wave_ = lambda x: np.sin(2 * np.pi * x / n + 1)  # noqa: E731
    error = lambda field, x: np.abs(field(x[:, None]) - wave_(x)).max()  # noqa: E731
    seam = n - 0.5 + np.linspace(-4, 4, 81)
    field = ef.fit(wave_(np.arange(n)), ef.smooth(order=2), periodic=[0])
    # No worse than at the other border, but for where the points fall.
    assert error(field, seam) <= 1.1 * error(field, np.linspace(4, n - 5, 2000))
    open_ended = ef.fit(wave_(np.arange(n)), ef.smooth(order=2))
    last = np.array([n - 0.5])
    assert error(open_ended, last) > 4 * error(field, last)  # without the period, a guess


def test_regions_that_reach_over_the_seam_do_not_jump(rng):
    # Cells 0 and 3 are neighbours on a periodic axis; their region has no border at the seam.
    part = partition((40, 20), np.array([[0, 0], [1, 2], [1, 2], [0, 3]]), 2.0, (True, False))
    assert part.boxes[0][0].tolist() == [-12, 0]
    assert part.boxes[1][0].tolist() == [24, 20]
    field = ef.fit(on_grid(wave, (40, 20)), ef.smooth(), partition=part, periodic=[0])
    y, x = np.linspace(-0.5, 39.5, 321), inside(rng, (20,), 20)
    points = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
    h = 1e-6
    jump = field(points + np.array([h, 0])) - field(points - np.array([h, 0]))
    assert np.abs(jump).max() < 4 * h * np.abs(field.gradient(points)).max()


@pytest.mark.xfail(strict=True, reason="a ring has no border at which windows could blend it")
def test_a_region_all_around_a_periodic_axis_does_not_jump(rng):
    part = partition((40, 20), np.array([[0, 1]] * 4), 2.0, (True, False))
    field = ef.fit(on_grid(wave, (40, 20)), ef.smooth(), partition=part, periodic=[0])
    y = np.linspace(-0.5, 39.5, 321)
    x = np.stack([y, np.full(321, 5.0)], axis=-1)
    step = np.array([1e-6, 0])
    assert np.abs(field(x + step) - field(x - step)).max() < 1e-4


# --- units -------------------------------------------------------------------------------------


def test_descending_coordinates_are_the_reversed_array(rng):
    values = rng.standard_normal((32, 9))
    up = ef.fit(values, coords=[np.arange(32) * 2.0, None])
    down = ef.fit(values[::-1], coords=[np.arange(32)[::-1] * 2.0, None])
    x = inside(rng, (32, 9), 40) * [2, 1]
    close(down(x), up(x), 1e-11)
    close(down.gradient(x), up.gradient(x), 1e-10)
    close(down.hessian(x), up.hessian(x), 1e-9)
    close(down.integral((3, 1), (40, 7)), up.integral((3, 1), (40, 7)), 1e-10)


@given(scale=st.floats(1e-3, 1e3), origin=st.floats(-1e3, 1e3), seed=SEEDS)
def test_derivatives_carry_the_unit_of_their_axis(scale, origin, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((20, 6))
    plain = ef.fit(values)
    physical = ef.fit(values, coords=[origin + scale * np.arange(20), None])
    x = inside(rng, (20, 6), 10) * 0.99
    y = x * [scale, 1] + [origin, 0]
    unit = np.array([scale, 1])
    slack = 1e-9 * (1 + abs(origin) / scale * 1e-4)
    close(physical(y), plain(x), slack)
    close(physical.gradient(y) * unit, plain.gradient(x), 100 * slack)
    close(physical.hessian(y) * unit[:, None] * unit, plain.hessian(x), 1e4 * slack)
    close(
        physical.laplacian(y),
        (plain.hessian(x) * np.eye(2) / unit**2).sum((1, 2)),
        1e4 * slack * max(1, scale**-2),
    )


def test_uneven_coordinates_give_a_function_of_the_coordinate():
    c = np.cumsum(0.08 + 0.05 * np.sin(np.arange(90) / 6))
    field = ef.fit(np.sin(2 * c), ef.smooth(order=3), coords=[c])
    x = np.linspace(c[3], c[-4], 400)
    # The monotone cubic map bends where its pieces meet: errors of h² f'' times its kinks.
    close(field(x[:, None]), np.sin(2 * x), 2e-3)
    close(field(c[:, None]), np.sin(2 * c), 1e-9)
    h = 1e-5
    away = np.abs(x[:, None] - c).min(axis=1) > 2 * h
    points = x[away][:, None]
    close(oracles.difference_gradient(field, points, h), field.gradient(points), 1e-4)
    close(oracles.difference_hessian(field, points, h)[:, 0, 0], field.laplacian(points), 1e-2)
    close(field.laplacian(points), field.hessian(points)[:, 0, 0], 1e-11)


def dated(shape=(30, 8)):
    """Six-hourly samples from 2020 on; the second axis in half metres."""
    first = np.datetime64("2020-01-01", "ns")
    field = ef.fit(
        np.random.default_rng(1).standard_normal(shape), dims=("time", "x"),
        coords=[np.arange(shape[0]) * 21600.0, np.arange(shape[1]) * 0.5],
    )  # fmt: skip
    return replace(field, attributes={"axes": {"time": {"epoch": first}, "x": {}}})


def test_dates_are_coordinates():
    field, day = dated(), 86400.0
    plain = replace(field, attributes={})
    dates = np.array(["2020-01-02", "2020-01-03T12"], "datetime64[s]")
    points = plain([[day, 1.5], [2.5 * day, 2.0]])
    texts = [["2020-01-02", 1.5], ["2020-01-03T12", 2.0]]
    mixed = [[dates[0], 1.5], [dates[1], 2.0]]
    for ask in (texts, mixed, [[datetime(2020, 1, 2), 1.5], [datetime(2020, 1, 3, 12), 2.0]]):
        assert np.array_equal(field(ask), points)
        assert np.array_equal(field.gradient(ask), plain.gradient([[day, 1.5], [2.5 * day, 2.0]]))
    assert np.array_equal(field([[day, 1.5], [2.5 * day, 2.0]]), points)  # seconds still are
    grid = plain.grid([day, 2.5 * day], [1.0])
    for ask in (dates, ["2020-01-02", "2020-01-03T12"], list(dates), [day, 2.5 * day]):
        assert np.array_equal(field.grid(ask, [1.0]), grid)
    total = plain.integral([day, 0], [2.5 * day, 3])
    crop = plain.crop([day, 0], [2.5 * day, 3]).samples()
    for low, high in (dates, ("2020-01-02", "2020-01-03T12")):
        assert field.integral([low, 0], [high, 3]) == total
        assert np.array_equal(field.crop([low, 0], [high, 3]).samples(), crop)
    nowhere = [[np.datetime64("NaT"), 1.0]]
    assert np.isnan(field(nowhere, outside="nearest")).all()


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda f: f([["soon", 1.0]]), ValueError, "on axis 'time', Error parsing"),
        (lambda f: f([["2020-01-02", "here"]]), ValueError, "`points` must hold real numbers, and"),
        (lambda f: f.crop(["soon", 0], ["2020-01-03", 1]), ValueError, "on axis 'time', Error par"),
        (
            lambda f: f.grid(["2020-01-02"], ["a"]),
            TypeError,
            "on axis 'x', coordinates must be num",
        ),
        (lambda f: f.grid([1j], [1.0]), TypeError, "'time', coordinates must be dates or seconds"),
        (
            lambda f: f.integral(["2019-12-01", 0], ["2020-01-03", 1]),
            ValueError,
            "got -2.6784e.06 to 172800. Axis 'time' counts seconds from 2020-01-01T00:00:00",
        ),
        (
            lambda f: f([["2019-12-01", 0]]),
            ef.OutsideDomainError,
            "Axis 'time' counts seconds from 2020-01-01T00:00:00",
        ),
    ],
)
def test_bad_dates_say_what_is_wrong(ask, error, message):
    with pytest.raises(error, match=message):
        ask(dated())


def test_plain_axes_take_no_dates(rough):
    date = np.datetime64("2020-01-01")
    with pytest.raises(TypeError, match="on axis 'axis0', coordinates must be numbers"):
        rough.grid([date], [1.0])
    with pytest.raises(ValueError, match="`points` must hold real numbers; got dtype"):
        rough(np.array([[date, date]]))


# --- the report, and bad questions -------------------------------------------------------------


def test_the_report_counts_and_measures(rng):
    values = rng.random((64, 48)) * 255
    field = ef.fit(values, ef.paper(cell=16, width=64), dims=("y", "x"))
    report = field.report()
    assert report["samples"] == (64, 48)
    assert report["regions"] == 12
    assert report["rank of a region"] == (64,)
    assert report.texts["samples"] == "64 × 48"
    assert field.n_coefficients == 12 * 64
    assert "y, x" in str(report)
    assert "<table>" in report._repr_html_()
    assert repr(field) == "Field(64×48, 1 channel, 12 regions, 768 coefficients)"
    # Parseval: the residual, in the samples' own unit, is known without reconstructing.
    close(field.residual.sum(), np.sum((field.samples() - values) ** 2), 1e-6 * 255**2)


def region_rms(field, truth):
    """Root mean square error at each region's own samples, by brute force."""
    errors = np.abs(truth - field.samples()) ** 2
    part = field.partition
    cell = [
        np.searchsorted(e, np.arange(n), side="right") - 1 for e, n in zip(part.edges, part.shape)
    ]
    region = part.labels[np.ix_(*cell)]
    by_region = [np.sqrt(np.nanmean(errors[region == i])) for i in range(part.n_regions)]
    return np.array(by_region)[part.labels]


def test_errors_can_be_measured_by_region(rng):
    part = partition((24, 24), L_SHAPE, 2.0)
    for settings in (ef.smooth(), ef.paper(width=30)):
        values = rng.standard_normal((24, 24, 2))
        field = ef.fit(values, settings, channel_axis=-1, partition=part)
        gappy = values.copy()
        gappy[3:7, 5:9, 1] = np.nan
        for truth in (values, gappy):
            close(field.error_map(truth), region_rms(field, truth), 1e-12)
    masked = np.ma.masked_invalid(gappy)
    close(field.error_map(masked), region_rms(field, gappy), 1e-12)
    turned = ef.fit(np.moveaxis(values, -1, 0), settings, channel_axis=0, partition=part)
    close(turned.error_map(np.moveaxis(gappy, -1, 0)), region_rms(field, gappy), 1e-9)


def test_the_samples_of_a_merged_region_are_its_own(rng):
    # Boxes of the L shapes are 16 by 24 and 16 by 16 samples; the regions have 3 cells of 64 each.
    part = partition((24, 24), L_SHAPE, 0.0)
    values = rng.standard_normal((24, 24))
    for samples in (values, values + 1j * values.T):  # a complex error is a modulus
        field = ef.fit(samples, ef.paper(width=30), partition=part)
        close(field.error_map(), region_rms(field, samples), 1e-9)
        close(field.error_map(samples), region_rms(field, samples), 1e-12)


def test_what_denoising_takes_off_is_an_error(rng):
    values = on_grid(wave, (64, 64)) + 0.2 * rng.standard_normal((64, 64))
    field = ef.fit(values, ef.smooth(denoise=True))
    left = np.std(field.samples() - values)
    assert left > 0.1
    # Of models before blending, with the samples around a region.
    close(np.median(field.error_map()) / left, 1, 0.3)


def test_scattered_samples_have_no_map_of_errors(rng):
    field = ef.fit_points(rng.random((40, 2)), rng.random(40))
    with pytest.raises(ValueError, match=r"scattered. Compare their values with field\(points\)"):
        field.error_map()


def test_a_report_needs_a_sample(rng):
    field = ef.fit(rng.random((20, 20)))
    with pytest.raises(ValueError, match=r"at least one sample; all are NaN or masked"):
        field.report(np.full((20, 20), np.nan))


def test_a_batch_is_measured_against_its_arrays(rng):
    values = rng.standard_normal((2, 20, 30))
    one, _ = ef.encoder((20, 30), ef.paper(cell=10, width=40)).batch(values)
    with pytest.raises(ValueError, match=r"cropped or encoded in a batch. Pass the samples"):
        one.error_map()
    close(one.error_map(values[0]), region_rms(one, values[0]), 1e-12)


def test_a_crop_counts_and_measures_its_own_samples(rng):
    values = rng.standard_normal((60, 80)).cumsum(0).cumsum(1)
    field = ef.fit(values, ef.paper(cell=20, width=100))
    crop = field.crop([50, 70], [59.5, 79.5])
    assert crop.report()["samples"] == (10, 10)
    assert crop.report()["samples of the whole"] == (60, 80)
    assert crop.report()["coefficients per sample"] == crop.n_coefficients / 100
    mine = crop.samples()
    expected = ef.psnr(values[50:, 70:], mine)
    for samples in (values, values[50:, 70:]):
        report = crop.report(samples)
        assert report["PSNR at the samples"] == expected
        assert report["largest error"] == np.abs(values[50:, 70:] - mine).max()
        close(crop.error_map(samples), np.sqrt(np.mean((values[50:, 70:] - mine) ** 2)), 1e-9)


@pytest.mark.parametrize("n", [91, 93, 100])
@pytest.mark.parametrize("low", [0, 50, 76])
def test_a_crop_keeps_the_quality_asked_of_it(n, low, rng):
    values = rng.standard_normal((n, 40)).cumsum(0).cumsum(1)
    crop = ef.fit(values).crop([low, 5], [low + 14, 30])
    truth = values[low : low + 15, 5:31]
    for psnr in (30, 45):
        small = crop.keep(psnr=psnr)
        # A handful of coefficients comes in steps of a dB or so.
        assert psnr <= ef.psnr(truth, small.samples()) < psnr + 2
        assert small.n_coefficients < crop.n_coefficients
    small = crop.keep(max_error=0.7)
    assert ef.max_error(truth, small.samples()) <= 0.7
    assert small.n_coefficients < crop.n_coefficients


def test_a_crop_without_samples_has_no_quality(rough):
    crop = rough.crop([3.2, 4.2], [3.8, 4.9])
    with pytest.raises(ValueError, match="holds no samples to measure errors at"):
        crop.keep(psnr=30)
    assert crop.keep(per_region=9).n_coefficients == 9 * crop.partition.n_regions
    assert crop.report()["samples"] == (0, 0)


def test_a_report_compares_with_what_was_fitted(rough):
    with pytest.raises(ValueError, match=r"what was fitted, shape \(37, 41\); got \(37, 40\)"):
        rough.report(np.zeros((37, 40)))
    points = np.random.default_rng(0).random((60, 2))
    scattered_ = ef.fit_points(points, points.sum(axis=1))
    with pytest.raises(ValueError, match="a field of scattered samples has no array of them"):
        scattered_.report(points.sum(axis=1))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            np.zeros((3, 3)),
            r"`points` must have shape \(..., 2\), one coordinate per axis; got sha",
        ),
        (np.zeros(()), r"`points` must have shape \(..., 2\)"),
        ([["a", "b"]], "`points` must hold real numbers; got dtype <U1"),
        (np.zeros((1, 2), complex), "`points` must hold real numbers; got dtype complex128"),
    ],
)
def test_bad_points_say_what_is_wrong(rough, points, message):
    with pytest.raises(ValueError, match=message):
        rough(points)


def test_points_on_a_line_need_their_own_axis():
    with pytest.raises(ValueError, match=r"Add a trailing axis: points\[\.\.\., None\]"):
        ef.fit(np.zeros(5))(np.arange(4))


def test_points_live_where_the_field_lives(rough):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="`points` must live where the field lives; got Tensor"):
        rough(torch.zeros((1, 2)))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda f: f.resize((5,)), "`shape` must be 2 whole numbers of at least 1, one per axis"),
        (lambda f: f.resize((5, 0)), "`shape` must be 2 whole numbers"),
        (lambda f: f.resize((5, 2.5)), "`shape` must be 2 whole numbers"),
        (lambda f: f.resize(5), "`shape` must be 2 whole numbers"),
        (lambda f: f.grid([1.0]), "one array of coordinates per axis, 2; got 1"),
        (lambda f: f.crop((1, 2), (3,)), "corners with one coordinate per axis, 2"),
        (lambda f: f.integral((0, 0), (5, 99)), "must span a box inside the domain"),
        (lambda f: f.integral((0, 0), (0, 5)), "must span a box inside the domain"),
        (lambda f: f.integral(0, 5), "corners with one coordinate per axis, 2"),
        (lambda f: f.crop((0, np.nan), (5, 6)), "must span a box inside the domain"),
    ],
)
def test_bad_questions_say_what_is_wrong(rough, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(rough)
