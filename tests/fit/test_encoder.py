from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import elmfield as ef
import oracles
from elmfield.local.bases import plain_modes
from support import (
    EPS,
    L_SHAPE,
    close,
    coefficients_of,
    host,
    inside,
    on_grid,
    on_samples,
    partition,
    wave,
)

SETTINGS = [
    ef.smooth(order=1.1),
    ef.smooth(order=2.5, cell=6, overlap=1),
    ef.paper(cell=5, width=12),
]
shapes = st.integers(1, 4).flatmap(
    lambda d: st.tuples(*[st.integers(1, {1: 90, 2: 40, 3: 14, 4: 7}[d])] * d)
)
settings = st.sampled_from(SETTINGS)
seeds = st.integers(0, 2**32 - 1)


def noise(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


# --- properties, true of every input -----------------------------------------------------------


@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@given(shape=shapes, settings=settings, seed=seeds)
def test_a_fit_is_linear_in_the_data(shape, settings, seed):
    f, g = noise(seed, 2, *shape)
    x = inside(np.random.default_rng(seed), shape, 30)
    encode = ef.encoder(shape, settings)
    # 2 and 3, not 2 and 1: weights that sum to one would let a constant offset through.
    together, apart = encode(2 * f - 3 * g), (encode(f), encode(g))
    scale = max(1, np.abs(apart[0](x)).max(), np.abs(apart[1](x)).max())
    # Plain least squares answers with cond(H) roundings; 12 neurons stay below 1e6.
    close(together(x), 2 * apart[0](x) - 3 * apart[1](x), 1e-9 * scale)
    close(on_samples(together), 2 * on_samples(apart[0]) - 3 * on_samples(apart[1]), 1e-9 * scale)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@given(shape=shapes, settings=settings, seed=seeds)
def test_the_same_input_gives_the_same_bits(shape, settings, seed):
    values = noise(seed, *shape)
    x = inside(np.random.default_rng(seed), shape, 30)
    one, two = ef.fit(values, settings), ef.fit(values.copy(), settings)
    for a, b in zip(one.model.blended.groups, two.model.blended.groups):
        assert np.array_equal(coefficients_of(a), coefficients_of(b))
    assert np.array_equal(one(x), two(x))
    assert np.array_equal(on_samples(one), on_samples(two))


@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@given(shape=shapes, settings=settings, seed=seeds, axis=st.integers(0, 4))
def test_channels_do_not_see_each_other(shape, settings, seed, axis):
    axis = min(axis, len(shape))
    one, two = noise(seed, 2, *shape)
    both = ef.fit(np.stack([one, 1e6 * two + 7], axis=axis), settings, channel_axis=axis)
    alone = ef.fit(one, settings)
    x = inside(np.random.default_rng(seed), shape, 20)
    scale = max(1, np.abs(alone(x)).max())
    close(both(x)[:, 0], alone(x), 1e-9 * scale)
    close(np.take(on_samples(both), 0, axis=axis), on_samples(alone), 1e-9 * scale)
    assert on_samples(both).shape == (*shape[:axis], 2, *shape[axis:])
    close(both.gradient(x)[:, 0], alone.gradient(x), 1e-7 * np.abs(alone.gradient(x)).max())


@pytest.mark.slow
@given(shape=shapes, seed=seeds)
def test_kelvin_have_the_coefficients_of_celsius(shape, seed):
    values = noise(seed, *shape)
    one, two = ef.fit(values), ef.fit(values + 273.15)
    for a, b in zip(one.model.blended.groups, two.model.blended.groups):
        # What is taken off is rounded to a small part of the range, whatever the offset.
        tolerance = 2**-14 * np.ptp(values) * a.coefficients.shape[1] ** 0.5 + 1e-9
        close(coefficients_of(a), coefficients_of(b), tolerance)
    # The shift itself rounds at 273 EPS, before anything is fitted; a box adds up S of them.
    x = inside(np.random.default_rng(seed), shape, 20)
    close(two(x) - one(x), 273.15, 600 * EPS * values.size)


@given(shape=shapes, seed=seeds)
def test_transposing_the_array_transposes_the_field(shape, seed):
    values = noise(seed, *shape)
    x = inside(np.random.default_rng(seed), shape, 20)
    close(ef.fit(values.T)(x[:, ::-1]), ef.fit(values)(x), 1e-11)


@given(cells=st.tuples(st.integers(1, 4), st.integers(1, 3)), axis=st.integers(0, 1), seed=seeds)
def test_reversing_an_axis_reverses_the_field(cells, axis, seed):
    shape = tuple(16 * c for c in cells)
    values = noise(seed, *shape)
    x = inside(np.random.default_rng(seed), shape, 20)
    mirrored = x.copy()
    mirrored[:, axis] = shape[axis] - 1 - x[:, axis]
    close(ef.fit(np.flip(values, axis))(mirrored), ef.fit(values)(x), 1e-11)


@given(shape=shapes, seed=seeds, level=st.sampled_from([0.0, 1.0, -273.15, 1e12, 1e-12]))
def test_a_constant_stays_constant_everywhere(shape, seed, level):
    field = ef.fit(np.full(shape, level))
    x = inside(np.random.default_rng(seed), shape, 20)
    close(field(x), level, 4 * EPS * abs(level))
    close(field.gradient(x), 0, 4 * EPS * abs(level))


@given(shape=shapes, seed=seeds)
def test_the_default_meets_its_samples(shape, seed):
    values = noise(seed, *shape)
    field = ef.fit(values)
    at = np.stack(np.indices(shape), axis=-1).reshape(-1, len(shape))
    close(field(at), values.ravel(), 1e-10)
    close(on_samples(field), values, 1e-10)


@given(n=st.integers(1, 40), k=st.integers(1, 3), seed=seeds)
def test_axes_of_one_sample_change_nothing(n, k, seed):
    values = noise(seed, n)
    x = inside(np.random.default_rng(seed), (n,), 15)
    flat, deep = (
        ef.fit(values, ef.smooth(cell=16)),
        ef.fit(values.reshape((n,) + (1,) * k), ef.smooth(cell=16, overlap=2)),
    )
    close(deep(np.pad(x, ((0, 0), (0, k)))), flat(x), 1e-11)
    close(deep(np.pad(x, ((0, 0), (0, k)), constant_values=0.4)), flat(x), 1e-11)


def test_a_single_sample_is_a_constant(xp):
    field = ef.fit(xp.asarray(np.array([[[7.5]]])))
    close(field(np.array([[0.0, 0.0, 0.0], [0.4, -0.5, 0.5]])), 7.5, 0)
    close(field.resize((3, 2, 1)), 7.5, 0)


# --- the default against the slow version ------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("order", [0.7, 1.1, 1.8, (1.1, 0.6)])
def test_the_default_is_the_blend_of_least_energy_functions(xp, order, rng):
    shape, cell, overlap = (11, 7), (5, 4), 1.5
    values = rng.standard_normal(shape)
    field = ef.fit(
        xp.asarray(values), ef.smooth(order=order, cell=cell, overlap=overlap, context=0)
    )
    x = inside(rng, shape, 25)
    edges = [np.round(np.linspace(0, n, -(-n // c) + 1)).astype(int) for n, c in zip(shape, cell)]
    expected = oracles.product_field(values, edges, (overlap, overlap), order, x)
    # The oracle solves with a kernel of condition (π²/ε)^(s₁+s₂): 1e-16 · 1e3^3.6.
    close(field(x), expected, 1e-9 if order == 0.7 else 1e-5 if order == 1.8 else 1e-8)


@pytest.mark.slow
def test_the_default_is_the_blend_in_one_and_three_dimensions(rng):
    for shape, cell, overlap in [((23,), (9,), 2.0), ((3, 4, 5), (3, 2, 3), 1.0)]:
        values = rng.standard_normal(shape)
        field = ef.fit(values, ef.smooth(order=0.8, cell=cell, overlap=overlap, context=0))
        x = inside(rng, shape, 10)
        edges = [
            np.round(np.linspace(0, n, -(-n // c) + 1)).astype(int) for n, c in zip(shape, cell)
        ]
        widths = [overlap if len(e) > 2 else 0.0 for e in edges]
        close(field(x), oracles.product_field(values, edges, widths, 0.8, x), 1e-9)


# --- the paper against the slow version --------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "sin", "cos", "tanh", "gaussian"])
@pytest.mark.parametrize("frequencies", [0, 3])
def test_least_squares_agrees_with_the_paper_s_region_by_region(xp, activation, frequencies, rng):
    values = rng.standard_normal((20, 16))
    network = {"activation": activation, "frequencies": frequencies, "seed": 3}
    network |= {"width": 16 if frequencies else 6, "draw": "normal" if frequencies else "uniform"}
    field = ef.fit(xp.asarray(values), ef.paper(cell=(10, 8), **network))
    expected = oracles.paper_samples(values, (10, 8), **network)
    assert np.abs(expected - values).max() > 0.1  # m < S: a real compromise
    close(on_samples(field), expected, 1e-8)
    at = np.stack(np.indices(values.shape), axis=-1)
    close(field(at), expected, 1e-8)


def test_least_squares_of_the_paper_s_own_layer_on_data_far_from_zero(rng):
    values = rng.standard_normal((20, 20)) + 120
    network = {"width": 120, "frequencies": 10}
    field = ef.fit(values, ef.paper(**network))
    expected = oracles.paper_samples(values, (20, 20), **network)
    close(on_samples(field), expected, 1e-8 * 120)


def test_cells_that_do_not_divide_the_array_are_fitted_each_to_its_own(rng):
    values = rng.standard_normal((11, 7))
    field = ef.fit(values, ef.paper(cell=(4, 4), width=5, frequencies=2))
    rows, columns = field.partition.edges
    for a, b in pairwise(rows):
        for c, d in pairwise(columns):
            expected, _ = oracles.paper_region(values[a:b, c:d], width=5, frequencies=2)
            close(on_samples(field)[a:b, c:d], expected, 1e-8)


@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@pytest.mark.parametrize("overlap", [0, 1.5])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 13])
def test_grids_and_points_agree_for_cells_of_one_and_two_samples(n, overlap, rng):
    values = rng.standard_normal((n, 3))
    cell = 2 if overlap == 0 else 3
    field = ef.fit(values, ef.paper(cell=cell, width=2, frequencies=2, overlap=overlap))
    for m in (1, 2, 3, n, 2 * n):
        y, x = (np.arange(m) + 0.5) * n / m - 0.5, (np.arange(2) + 0.5) * 3 / 2 - 0.5
        grid = np.stack(np.meshgrid(y, x, indexing="ij"), axis=-1)
        close(field.grid(y, x), field(grid), 1e-9)


# --- regions of any shape ----------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0.0, 2.0])
def test_merged_regions_are_fitted_to_their_own_samples(xp, overlap, rng):
    values = rng.standard_normal((24, 24))
    part = partition((24, 24), L_SHAPE, overlap)
    network = {"width": 40, "frequencies": 3, "activation": "cos"}
    settings = ef.paper(**network, overlap=None if overlap else 0)
    field = ef.fit(xp.asarray(values), settings, partition=part)

    def windows(x):
        if overlap == 0:
            return np.eye(3)[part.labels[tuple(((x + 0.5) // 8).astype(int).clip(0, 2).T)]]
        return oracles.windows(x, part.edges, part.labels, part.overlap, part.periodic)

    x = inside(rng, values.shape, 60)
    grid = np.stack(np.meshgrid(*map(np.arange, values.shape), indexing="ij"), axis=-1)
    grid = grid.reshape(-1, 2).astype(float)
    touched = windows(grid) > 0
    expected = np.zeros(60)
    for i in range(3):
        start, size = part.boxes[0][i], part.boxes[1][i]
        centre, radius = start + (size - 1) / 2, (size - 1) / 2
        H = oracles.hidden_layer((grid[touched[:, i]] - centre) / radius, **network)
        alpha = np.linalg.lstsq(H, values.reshape(-1)[touched[:, i]], rcond=1e-10)[0]
        there = oracles.hidden_layer((x - centre) / radius, **network)
        expected += windows(x)[:, i] * (there @ alpha)
    close(field(x), expected, 1e-8)


@pytest.mark.parametrize("equal", [False, True])
def test_the_default_on_merged_regions_meets_its_samples(xp, equal, rng):
    values = rng.standard_normal((30, 31, 2))
    part = partition((30, 31), L_SHAPE, 2.0, equal_boxes=equal)
    field = ef.fit(xp.asarray(values), partition=part, channel_axis=-1)
    close(on_samples(field), values, 1e-9)
    close(field.resize((17, 40), antialias=False), field(_pixels(field, (17, 40))), 1e-11)


def _pixels(field, shape):
    axes = [(np.arange(m) + 0.5) * n / m - 0.5 for m, n in zip(shape, field.shape)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)


def test_a_partition_must_be_made_for_the_array():
    part = ef.Partition.regular((10, 10), 5)
    with pytest.raises(ValueError, match=r"`partition` must be made for this array, shape \(10, 1"):
        ef.fit(np.zeros((10, 11)), partition=part)
    with pytest.raises(ValueError, match="periodic axes"):
        ef.fit(np.zeros((10, 10)), partition=part, periodic=[0])


# --- libraries and dtypes ----------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_library_gives_the_same_numbers(xp, settings, rng):
    values = rng.standard_normal((13, 17, 2))
    x = inside(rng, (13, 17), 20)
    expected = ef.fit(values, settings, channel_axis=-1)
    field = ef.fit(xp.asarray(values), settings, channel_axis=-1)
    for ask in (
        lambda f: f(x),
        lambda f: f.gradient(x),
        lambda f: f.hessian(x),
        lambda f: f.laplacian(x),
        lambda f: f.resize((5, 40)),
        lambda f: f.integral([0, 1], [9, 12.5]),
        lambda f: f.weights(0),
        lambda f: f.crop([2, 2], [9, 9]).resize((4, 4)),
    ):
        found, truth = ask(field), host(ask(expected))
        assert type(found) is type(xp.asarray(values))
        assert found.dtype == xp.float64
        close(found, truth, 1e-9 * max(1, np.abs(truth).max()))


@pytest.mark.parametrize("name", ["float32", "float64", "complex64", "complex128"])
def test_results_have_the_precision_of_the_input(xp, name, rng):
    wave_ = on_grid(wave, (20, 18))
    values = xp.astype(
        xp.asarray(wave_ * (1 + 0.5j if "complex" in name else 1)), getattr(xp, name)
    )
    field = ef.fit(values)
    x = inside(rng, (20, 18), 5)
    for found in (field(x), field.gradient(x), field.hessian(x), on_samples(field), field([1, 1])):
        assert found.dtype == values.dtype
    assert field.integral([0, 0], [3, 3]).dtype == values.dtype
    tolerance = {"float32": 2e-6, "complex64": 4e-6}.get(name, 1e-12)
    close(on_samples(field), values, tolerance)


@pytest.mark.parametrize("dtype", ["u1", "i2", ">i2", "u2", "i8", "?", "f2", ">f4", ">f8", ">c8"])
def test_any_numeric_dtype_of_numpy_is_fitted(dtype):
    values = on_grid(wave, (9, 12)) > 0 if dtype == "?" else on_grid(wave, (9, 12)) * 50 + 50
    values = values.astype(dtype)
    field = ef.fit(values)
    native = np.dtype(dtype).newbyteorder("=")
    expected = {"f": native, "c": native}.get(native.kind, np.dtype("f8"))
    expected = np.dtype("f4") if dtype == "f2" else expected
    assert field([1.0, 1.0]).dtype == expected
    close(on_samples(field), values.astype(native), 1e-4 if expected in ("f4", "c8") else 1e-11)


def test_complex_input_is_its_real_and_imaginary_part(xp, rng):
    values = rng.standard_normal((2, 15, 14)) + 1j * rng.standard_normal((2, 15, 14))
    settings = ef.smooth(order=1.1)  # "auto" would look at both parts together
    field = ef.fit(xp.asarray(values), settings, channel_axis=0)
    x = inside(rng, (15, 14), 12)
    parts = [ef.fit(part, settings, channel_axis=0) for part in (values.real, values.imag)]
    for ask in (
        lambda f: f(x),
        lambda f: f.hessian(x),
        lambda f: f.resize((7, 8)),
        lambda f: f.integral([0, 0], [5, 5]),
        lambda f: f.weights(0),
    ):
        real, imaginary = (host(ask(p)) for p in parts)
        close(ask(field), real + 1j * imaginary, 1e-10 * np.abs(real).max())
    assert field.model.n_channels == 2
    assert field.report()["complex"] is True


def test_single_precision_loses_no_more_than_it_must(xp):
    truth = on_grid(wave, (64, 48)) * 30 + 273.15
    field = ef.fit(xp.asarray(truth.astype(np.float32)))
    # Rounding of the input and of the result, 2⁻²⁴ · 300 each, plus a sum about the mean, of 30.
    close(on_samples(field), truth, (2 * 300 + 10 * 30) * 2.0**-24)
    plain = ef.fit(xp.asarray(truth.astype(np.float32)), ef.paper(cell=16, width=256))
    # The paper's fit is not centred: a coefficient is as large as √256 samples of 300.
    close(on_samples(plain), truth, 300 * 2.0**-24 * 16 * 2)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_largest_and_smallest_numbers_survive(dtype):
    shape = np.sin(np.arange(40) / 5).astype(dtype)
    info = np.finfo(dtype)
    # Squares of the errors are kept in double precision, so double stops at half its exponents.
    largest = info.max / 4 if dtype == "f4" else 1e150
    for size in (largest, largest / 64, info.tiny * 16):
        field = ef.fit((shape * size).astype(dtype))
        close(on_samples(field) / dtype_of(dtype, size), shape, 200 * info.eps)


def dtype_of(dtype, x):
    return np.dtype(dtype).type(x)


def test_a_batch_with_masks(xp, rng):
    frames, mask = rng.random((2, 20, 20)), rng.random((2, 20, 20)) < 0.1
    encode = ef.encoder((20, 20))
    for masks in (xp.asarray(mask), [xp.asarray(m) for m in mask]):
        found = encode.batch(xp.asarray(frames), mask=masks)
        for field, frame, m in zip(found, frames, mask):
            close(on_samples(field), on_samples(ef.fit(frame, mask=m)), 1e-9)


def test_a_frame_of_one_colour_stays_of_that_colour_to_the_border():
    picture = np.zeros((60, 50))
    picture[6:-6, 6:-6] = 255.0  # the mean is far from the frame's 0
    outer = ef.fit(picture).grid([-0.5, -0.25, 59.5], np.arange(-0.5, 49.6, 0.25))
    close(outer, 0, 0.2)


def test_lists_and_strided_views_are_arrays_too(rng):
    values = rng.standard_normal((20, 30))
    expected = ef.fit(values[::-2, 3:27:3].copy())
    x = inside(rng, expected.shape, 9)
    assert np.array_equal(ef.fit(values[::-2, 3:27:3])(x), expected(x))
    assert np.array_equal(ef.fit(values[::-2, 3:27:3].tolist())(x.tolist()), expected(x))


def test_nothing_is_modified(xp, rng):
    values = rng.standard_normal((12, 13))
    values[3, 4] = np.nan
    mask = rng.random((12, 13)) < 0.1
    points = inside(rng, (12, 13), 8)
    before = values.copy(), mask.copy(), points.copy()
    arrays = [xp.asarray(a) for a in (values, mask, points)]
    for settings in (ef.smooth(), ef.paper(cell=12, width=6)):
        field = ef.fit(arrays[0], settings, mask=arrays[1])
        field(arrays[2]), field.hessian(arrays[2]), field.resize((3, 3)), field(points)
    for a, b in zip(arrays, before):
        assert np.array_equal(host(a), b, equal_nan=True)
    assert np.array_equal(points, before[2])


# --- the encoder -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::elmfield.RankWarning")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_an_encoder_equals_fit_bit_for_bit(xp, settings, rng):
    encode = ef.encoder((11, 18), settings)
    for _ in range(2):
        values = xp.asarray(rng.standard_normal((11, 18)))
        kept, fresh = encode(values), ef.fit(values, settings)
        for a, b in zip(kept.model.blended.groups, fresh.model.blended.groups):
            assert np.array_equal(host(coefficients_of(a)), host(coefficients_of(b)))


def test_an_encoder_factors_once(monkeypatch, rng):
    made = []

    def factor(*arguments):
        made.append(arguments)
        return plain_modes(*arguments)

    monkeypatch.setattr("elmfield.settings.presets.plain_modes", factor)
    encode = ef.encoder((64, 64), ef.paper(cell=16, width=40))
    for _ in range(2):
        encode(rng.standard_normal((64, 64)))
        assert len(made) == len(list(encode.partition))


@pytest.mark.slow
def test_a_fit_of_a_tensor_takes_few_steps(rng):
    """On a GPU a step costs its launch, ten microseconds, and the work itself next to nothing."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Steps(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += not func.is_view
            return func(*args, **(kwargs or {}))

    values = torch.asarray(rng.standard_normal((160, 96)).astype(np.float32))
    with Steps() as steps:
        ef.fit(values)
    assert steps.count <= 28


def test_an_encoder_serves_several_libraries_and_masks(rng):
    torch = pytest.importorskip("torch")
    encode = ef.encoder((20,))
    values = rng.standard_normal(20)
    close(on_samples(encode(torch.asarray(values))), on_samples(encode(values)), 1e-12)
    gap = np.zeros(20, bool)
    gap[4] = True
    close(on_samples(encode(values, mask=gap))[5:], values[5:], 1e-10)


def test_an_encoder_takes_what_fit_takes(rng):
    values = rng.standard_normal((9, 12))
    encode = ef.encoder(values.shape)
    assert np.array_equal(on_samples(encode(values.tolist())), on_samples(ef.fit(values)))
    assert len(encode.batch([values.tolist(), values.tolist()])) == 2


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("dtype", ["float64", "int16"])
def test_an_encoder_sees_masks_alone_and_in_batches(axis, dtype, rng):
    shape = (30, 20) if axis is None else (2, 30, 20)
    frames = rng.integers(-99, 99, (3, *shape)).astype(dtype)
    gone = rng.random(frames.shape) < 0.2
    usual = ef.smooth(order=1.1)  # "auto" would look at each array
    expected = [
        on_samples(ef.fit(v, usual, mask=m, channel_axis=axis)) for v, m in zip(frames, gone)
    ]
    masked = np.ma.masked_array(np.where(gone, -9999, frames).astype(dtype), gone)
    encode = ef.encoder(shape, usual, channel_axis=axis)
    assert np.array_equal(on_samples(encode(masked[0])), expected[0])
    for batch in (masked, list(masked)):
        for field, samples in zip(encode.batch(batch), expected, strict=True):
            assert np.array_equal(on_samples(field), samples)
    also = np.zeros(frames.shape, bool)
    also[:, ..., 5] = True
    both = on_samples(encode.batch(masked, mask=also)[1])
    again = on_samples(ef.fit(frames[1], usual, mask=gone[1] | also[1], channel_axis=axis))
    assert np.array_equal(both, again)
    with pytest.raises(ValueError, match="one part for each of 3 arrays; got 2"):
        encode.batch(frames, mask=gone[:2])


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "bool", "float32", "float64"])
def test_a_batch_knows_the_range_of_each_array(xp, dtype, rng):
    if dtype == "bool":
        frames = rng.random((2, 12, 14)) < 0.5
    elif dtype.startswith("float"):
        frames = rng.standard_normal((2, 12, 14)).astype(dtype)
    else:
        info = np.iinfo(dtype)
        frames = rng.integers(info.min, info.max, (2, 12, 14), endpoint=True).astype(dtype)
    encode = ef.encoder((12, 14))
    alone = [encode(xp.asarray(v)).model.data_range for v in frames]
    assert [f.model.data_range for f in encode.batch(xp.asarray(frames))] == alone
    assert alone == pytest.approx([np.ptp(v.astype(float)) for v in frames], rel=1e-6)


def test_a_batch_with_gaps_is_each_of_its_arrays(xp, rng):
    frames = rng.standard_normal((2, 12, 14))
    frames[1, 3:5, 4:9] = np.nan
    encode = ef.encoder((12, 14))
    for field, values in zip(encode.batch(xp.asarray(frames)), frames, strict=True):
        alone = encode(xp.asarray(values))
        assert field.model.data_range == alone.model.data_range == np.ptp(values[~np.isnan(values)])
        close(on_samples(field), host(on_samples(alone)), 1e-12)


def test_progress_is_told_of_every_region(rng):
    told = []
    ef.fit(
        rng.standard_normal((50, 50)),
        ef.paper(cell=8, width=4),
        progress=lambda *a: told.append(a),
    )
    assert {stage for stage, _, _ in told} == {"fit"}
    assert told[-1][1] == told[-1][2] == 49
    done = [n for _, n, _ in told]
    assert done == sorted(done)


# --- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (np.zeros((0, 4)), ValueError, r"at least one axis and one sample; got shape \(0, 4\)"),
        ([], ValueError, r"at least one axis and one sample; got shape \(0,\)"),
        (3.0, ValueError, r"at least one axis and one sample; got shape \(\)"),
        (np.array([None, 1]), TypeError, "`values` must hold numbers; got dtype object"),
        (np.array(["a", "b"]), TypeError, r"`values` must hold numbers; got dtype <U1.*astype"),
        (np.array([1, 2], "M8[s]"), TypeError, r"got dtype datetime64\[s\]"),
        (
            np.array([1, np.inf]),
            ValueError,
            "must be finite; got infinities. Replace them with",
        ),
        (np.array([1, -np.inf, np.nan]), ValueError, "must be finite"),
        (np.full(4, np.nan), ValueError, "every channel needs at least one sample that is present"),
        (np.array([1 + 1j, complex(0, np.inf)]), ValueError, "must be finite"),
    ],
)
def test_bad_values_say_what_is_wrong(values, error, message):
    with pytest.raises(error, match=message):
        ef.fit(values)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"channel_axis": 2}, ValueError, "between -2 and 1 for shape .4, 5.; got 2"),
        ({"channel_axis": -3}, ValueError, "`channel_axis` must be an axis of the array"),
        ({"channel_axis": 0.5}, ValueError, r"`channel_axis` must be an axis of the array.*0\.5"),
        ({"channel_axis": True}, ValueError, "`channel_axis` must be an axis of the array"),
        ({"mask": np.zeros((4, 6), bool)}, ValueError, r"`mask` must have the shape.*got \(4, 6\)"),
        ({"mask": np.zeros((4, 5))}, TypeError, "`mask` must be boolean.*float64"),
        ({"mask": np.ones((4, 5), bool)}, ValueError, "a channel that is all NaN or masked"),
        ({"settings": "paper"}, TypeError, "must come from smooth.* or paper.*; got 'paper'"),
        ({"settings": ef.paper}, TypeError, "`settings` must come from"),
        ({"settings": ef.smooth(cell=-1)}, ValueError, "`cell` must be a whole number"),
        ({"settings": ef.smooth(cell=2.5)}, ValueError, "`cell` must be a whole number"),
        ({"settings": ef.paper(cell=4, overlap=3)}, ValueError, "between 0 and half a cell"),
        ({"settings": ef.smooth(cell=(4, 4, 4))}, ValueError, "one per axis, 2; got 3"),
    ],
)
def test_bad_options_say_what_is_wrong(options, error, message):
    with pytest.raises(error, match=message):
        ef.fit(np.arange(20.0).reshape(4, 5), **options)


def test_a_channel_axis_needs_a_space_beside_it():
    with pytest.raises(ValueError, match="of which one axis holds channels"):
        ef.fit(np.zeros(3), channel_axis=0)
    with pytest.raises(ValueError, match="a channel that is all NaN"):
        ef.fit(np.array([[1.0, np.nan], [2.0, np.nan]]), channel_axis=-1)


def test_an_encoder_refuses_other_shapes():
    with pytest.raises(ValueError, match=r"encoder's shape \(4, 5\); got \(5, 4\). .*batch"):
        ef.encoder((4, 5))(np.zeros((5, 4)))
    for shape in [(-3, 5), (2.5, 5)]:
        with pytest.raises(ValueError, match="`shape` must be whole numbers"):
            ef.encoder(shape)


# --- memory order ------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [ef.smooth(), ef.paper(cell=8, width=30)])
def test_the_order_of_channels_in_memory_changes_nothing(settings, rng):
    values = rng.standard_normal((30, 26, 3))
    expected = ef.fit(values, settings, channel_axis=-1)
    first = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    for same in (np.moveaxis(first, 0, -1), np.asfortranarray(values), values[::-1][::-1]):
        found = ef.fit(same, settings, channel_axis=-1)
        for g, h in zip(found.model.blended.groups, expected.model.blended.groups):
            np.testing.assert_array_equal(coefficients_of(g), coefficients_of(h))
    for k, own in enumerate(first):
        alone = ef.fit(own, settings)
        close(on_samples(alone), on_samples(expected)[..., k], 1e-12)
    np.testing.assert_array_equal(first, np.moveaxis(values, -1, 0))  # the caller's own, untouched


def test_as_many_modes_as_samples_leave_nothing_over(rng):
    values = rng.standard_normal((40, 40))
    assert np.all(ef.fit(values).error_map() == 0)
    assert np.all(ef.fit(values, ef.paper(cell=8, width=64)).error_map() == 0)
    assert np.all(ef.fit(values, ef.paper(cell=8, width=40)).error_map() > 0)


def test_an_encoder_takes_a_dataarray_that_lies_where_its_samples_do(rng):
    xr = pytest.importorskip("xarray")
    values = rng.standard_normal((12, 9))
    lat, lon = np.linspace(10, 21, 12), np.linspace(0, 4, 9)
    da = xr.DataArray(values, coords={"lat": lat, "lon": lon}, dims=("lat", "lon"))
    encode = ef.encoder((12, 9), dims=("lat", "lon"), coords={"lat": lat, "lon": lon})
    assert np.array_equal(on_samples(encode(da)), on_samples(encode(values)))
    assert encode(da)([[10.0, 0.0]]) == pytest.approx(values[0, 0])
    # Degrees must not be read as row numbers.
    for other in (da.assign_coords(lat=lat + 1), da.rename(lat="y"), da.drop_vars("lon")):
        with pytest.raises(ValueError, match="must lie where the encoder's samples do"):
            encode(other)
    with pytest.raises(ValueError, match="must lie where the encoder's samples do"):
        ef.encoder((12, 9))(da)


def test_batches_of_several_axes(rng):
    frames = rng.random((2, 3, 12, 14))
    encode = ef.encoder((12, 14), ef.smooth(order=1.5))
    found = encode.batch(frames)
    assert [len(row) for row in found] == [3, 3]
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(on_samples(found[i][j]), frames[i, j], atol=1e-9)
    mask = np.zeros(frames.shape, bool)
    mask[1, 2, 4, 5] = True
    filled = encode.batch(frames, mask=mask)
    assert abs(filled[1][2]([4.0, 5.0], missing="fill") - frames[1, 2, 4, 5]) > 1e-6
    np.testing.assert_allclose(on_samples(filled[0][1]), frames[0, 1], atol=1e-9)


@pytest.mark.parametrize("scale", [1e-320, 5e-324])
@pytest.mark.parametrize(
    "settings",
    [None, ef.smooth(order=2), ef.oriented(), ef.smooth(max_error=2e-320), ef.paper(width=60)],
    ids=["default", "smooth", "oriented", "max_error", "paper"],
)
def test_ranges_below_the_least_normal_number_are_finite(rng, scale, settings):
    """The span of such samples has no part of 2^-16 among the numbers."""
    values = np.round(3 * rng.standard_normal((30, 40))) * scale
    field = ef.fit(values, settings)
    for found in (field.samples(), on_samples(field), field([[3.3, 4.2]])):
        assert np.isfinite(found).all()
    if not isinstance(settings, ef.Paper):
        assert np.abs(on_samples(field) - values).max() <= 2e-320
    gaps = ef.fit(np.where(values > 4 * scale, np.nan, values), ef.smooth(order=2))
    assert np.isfinite(on_samples(gaps)).all()


@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        (None, 1e-13),
        (ef.smooth(order=2), 1e-13),
        (ef.oriented(), 1e-13),
        (ef.smooth(order=16), 1e-9),
    ],
    ids=["default", "order 2", "oriented", "order 16"],
)
def test_whole_numbers_beyond_float64_come_back_and_their_rounding_is_told(rng, settings, bound):
    values = rng.choice(np.array([0, 2**64 - 1], np.uint64), (40, 50))
    with pytest.warns(
        UserWarning, match=r"samples\(\) gives them back as they are; .* 1.8e\+06 \(at"
    ):
        field = ef.fit(values, settings)
    assert field.samples().dtype == np.uint64
    assert np.array_equal(field.samples(), values)
    assert np.abs(on_samples(field) - values.astype(float)).max() <= bound * 2.0**64
