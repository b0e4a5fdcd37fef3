"""Fields on grids: pixel centres, dtypes, channels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.transform import resize as skimage_resize

import elmfield as ef
from support import SEEDS, close, host, on_grid, on_samples, pixels, wave


@pytest.mark.slow
@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    new=st.tuples(st.integers(1, 50), st.integers(1, 50)),
    seed=SEEDS,
    periodic=st.sampled_from([(), (0,), (0, 1)]),
)
def test_resizing_is_asking_at_pixel_centres(shape, new, seed, periodic):
    field = ef.fit(np.random.default_rng(seed).standard_normal(shape), periodic=periodic)
    close(field.resize(new, antialias=False), field(pixels(shape, new)), 1e-11)


def test_resize_keeps_scikit_image_s_coordinates():
    values = on_grid(wave, (40, 30))
    ours = ef.fit(values, ef.smooth(order=2)).resize((100, 45))
    theirs = skimage_resize(values, (100, 45), order=3, mode="edge", anti_aliasing=False)
    inner = (slice(10, -10), slice(6, -6))
    # A cubic spline and order 2 differ by h⁴ f⁗ ~ 0.2⁴; a shift of half a pixel by 0.1.
    close(ours[inner], theirs[inner], 2e-3)


def test_resizing_to_the_same_shape_gives_the_samples(rough):
    assert np.array_equal(rough.resize(rough.shape), on_samples(rough))
    close(rough.resize(rough.shape), rough.samples(), 1e-12)


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
    close(on_samples(field), values, 1e-10)
    small = np.moveaxis(host(field.resize((5, 6), antialias=False)), axis, -1)
    close(small, field(pixels((12, 13), (5, 6))), 1e-10)
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
