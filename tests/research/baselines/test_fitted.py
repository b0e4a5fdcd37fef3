"""A trained network is called like a Field."""

import math

import numpy as np
import pytest

import elmfield as ef
from paper.research import baselines
from paper.research.baselines import Schedule
from support import close, inside, on_grid, wave

torch = pytest.importorskip("torch", reason="the baselines need torch")

from research.baselines.small import SMALL, every_method  # noqa: E402


@every_method
@pytest.mark.parametrize("shape", [(30,), (9, 12), (5, 6, 7), (3, 4, 3, 4)], ids=len)
def test_any_number_of_axes(method, shape, rng):
    array = 5 + on_grid(wave, shape)
    model = baselines.fit(array, method, Schedule(steps=2))
    assert model.shape == shape
    assert model.samples().shape == shape
    x = inside(rng, shape, 10)
    assert model(x).shape == (10,)
    close(model(np.stack(np.indices(shape), axis=-1)), model.samples(), 2e-5)


@every_method
def test_resize_is_calling_at_the_places_of_field(small, method):
    model, field = baselines.fit(small, method, Schedule(steps=3, rate=3e-3)), ef.fit(small)
    for shape in [(4, 5), (20, 30), (9, 12)]:
        x = [(np.arange(m) + 0.5) * n / m - 0.5 for n, m in zip(small.shape, shape)]
        points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1)
        close(model.resize(shape), model(points), 2e-5)
        close(field.resize(shape, antialias=False), field(points), 1e-9)  # the same places
    close(model.resize(small.shape), model.samples(), 2e-5)


def test_channels_stay_where_they_were(rng):
    array = rng.random((3, 8, 9)) * np.array([1, 10, 100])[:, None, None]
    first = baselines.fit(array, SMALL["siren"], Schedule(steps=3, every=1), channel_axis=0)
    last = baselines.fit(
        np.moveaxis(array, 0, -1), SMALL["siren"], Schedule(steps=3), channel_axis=-1
    )
    assert first.samples().shape == (3, 8, 9)
    assert first.resize((4, 5)).shape == (3, 4, 5)
    assert np.array_equal(np.moveaxis(first.samples(), 0, -1), last.samples())
    assert first(rng.random((2, 4, 2))).shape == (2, 4, 3)
    expected = ef.paper_psnr(array, first.samples(), channel_axis=0)
    assert first.log[-1].paper_psnr == pytest.approx(expected, abs=1e-4)


def test_channels_are_scaled_one_by_one(rng):
    # Each to [-1, 1]: a channel's unit must not decide how much it counts.
    array = rng.random((8, 9, 2))
    a = baselines.fit(array, SMALL["siren"], Schedule(steps=5, rate=1e-3), channel_axis=-1)
    b = baselines.fit(
        array * [1, 1000], SMALL["siren"], Schedule(steps=5, rate=1e-3), channel_axis=-1
    )
    close(b.samples(), a.samples() * [1, 1000], 1e-2)


def test_values_are_given_back_in_their_own_units(small):
    near = baselines.fit(small, SMALL["siren"], Schedule(steps=30, rate=3e-3))
    far = baselines.fit(1e4 * small - 3e4, SMALL["siren"], Schedule(steps=30, rate=3e-3))
    close(far.samples(), 1e4 * near.samples() - 3e4, 0.3)
    flat = baselines.fit(np.full((6, 7), 3.0), SMALL["siren"], Schedule(steps=1))
    close(flat.samples(), np.full((6, 7), 3.0), 0.5)


def test_results_live_where_the_array_lives(small):
    numbers = baselines.fit(small, SMALL["siren"], Schedule(steps=1))
    tensor = baselines.fit(torch.as_tensor(small), SMALL["siren"], Schedule(steps=1))
    points = np.array([[1.0, 2.0]])
    assert isinstance(numbers.samples(), np.ndarray)
    assert isinstance(numbers(points), np.ndarray)
    for out in (tensor.samples(), tensor(points), tensor(torch.as_tensor(points))):
        assert isinstance(out, torch.Tensor)
        assert not out.requires_grad
    assert np.array_equal(numbers.samples(), tensor.samples().numpy())
    assert numbers(torch.as_tensor(points)) == numbers(points)


def test_points_outside(small):
    model = baselines.fit(small, SMALL["siren"], Schedule(steps=1))
    points = [[-0.5, 11.5], [20.0, 3.0]]
    with pytest.raises(ef.OutsideDomainError, match=r"axis0.*covers \[-0.5, 8.5\]"):
        model(points)
    assert np.isnan(model(points, outside="nan")).tolist() == [False, True]
    close(model(points, outside="nearest")[1], model([8.5, 3.0]), 1e-6)


def test_whole_numbers_are_rounded_and_clipped(camera):
    picture = np.round(camera * 255).astype(np.uint8)
    model = baselines.fit(picture, SMALL["hashgrid"], Schedule(steps=3))
    again = model.resize((40, 20), dtype=np.uint8)
    assert again.dtype == np.uint8
    assert np.array_equal(again, np.clip(np.round(model.resize((40, 20))), 0, 255))


@every_method
def test_little_memory_gives_the_same_values(method, rng):
    array = 5 + on_grid(wave, (40, 41))
    model = baselines.fit(array, method, Schedule(steps=1))
    points = inside(rng, array.shape, 1000)
    with ef.memory_limit(1 << 16):
        grid, scattered = model.samples(), model(points)
    close(grid, model.samples(), 1e-5)
    close(scattered, model(points), 1e-5)


def test_negative_data_have_no_paper_psnr(small):
    model = baselines.fit(-small, SMALL["siren"], Schedule(steps=2))
    assert math.isnan(model.log[-1].paper_psnr)
    with pytest.raises(ValueError, match=r"`target`.*must be positive"):
        baselines.fit(-small, SMALL["siren"], Schedule(steps=2, target=30))


def test_bad_points_are_named(small):
    model = baselines.fit(small, SMALL["siren"], Schedule(steps=1))
    with pytest.raises(ValueError, match=r"`points` must have shape \(..., 2\)"):
        model(np.zeros(3))
    for shape in [(3,), 3, None, "ab", (3, None), (3, 2.5), (3, 0), (3, float("inf"))]:
        with pytest.raises(ValueError, match=r"`shape` must be 2 whole numbers .* got .*"):
            model.resize(shape)
    with pytest.raises(ValueError, match="`outside` must be"):
        model(np.zeros(2), outside="zero")
