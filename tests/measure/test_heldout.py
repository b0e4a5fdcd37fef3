import numpy as np
import pytest
from scipy.ndimage import map_coordinates

import elmfield as ef
import oracles
from support import close, on_grid, wave


def test_the_score_is_that_of_the_samples_left_out(xp, rng):
    values = rng.standard_normal((31, 24))
    field = ef.fit(values[::2, ::2])
    held = np.ones(values.shape, bool)
    held[::2, ::2] = False
    held[:3] = held[-3:] = held[:, :3] = held[:, -3:] = False
    at = np.stack(np.nonzero(held), axis=-1)
    expected = oracles.psnr(values[held], field(at / 2), np.ptp(values))
    close(ef.heldout_score(xp.asarray(values), border=3), expected, 1e-8)
    scaled = oracles.psnr(values[held], field(at / 2), 255)
    close(ef.heldout_score(xp.asarray(values), border=3, data_range=255), scaled, 1e-8)


@pytest.mark.parametrize("axis", [0, -1])
def test_channels_are_scored_together(axis, rng):
    values = rng.standard_normal((20, 20))
    both = np.stack([values, values], axis=axis)
    close(ef.heldout_score(both, channel_axis=axis), ef.heldout_score(values), 1e-9)


def test_missing_samples_are_not_scored(rng):
    values = on_grid(wave, (40, 40))
    holes = np.where(rng.random(values.shape) < 0.05, np.nan, values)
    score = ef.heldout_score(holes)
    assert np.isfinite(score)
    assert score > 30


def test_complex_arrays_are_scored():
    values = on_grid(wave, (40, 40))
    real = ef.heldout_score(values)
    turned = ef.heldout_score(values * np.exp(0.3j), data_range=np.ptp(values))
    close(turned, real, 1e-6)


def test_periodic_axes_help_at_their_ends():
    for n in (64, 63):  # every second sample of 63: the last and the first are neighbours
        values = np.sin(2 * np.pi * np.arange(n) / n)
        closed = ef.heldout_score(values, ef.smooth(order=2), periodic=[0])
        named = ef.heldout_score(values, ef.smooth(order=2), periodic="x", dims=("x",))
        assert closed == named
        if n == 64:
            assert closed > ef.heldout_score(values, ef.smooth(order=2)) + 3
        assert closed > 50


@pytest.mark.parametrize("option", ["coordinates", "mask", "partition"])
def test_options_of_the_whole_array_do_not_fit_every_second_sample(option):
    with pytest.raises(TypeError, match=f"'{option}'"):
        ef.heldout_score(np.zeros((8, 8)), **{option: None})


def test_something_must_be_left_to_score():
    with pytest.raises(ValueError, match=r"no sample is left to score; got shape \(1,\) and bord"):
        ef.heldout_score(np.zeros(1))
    with pytest.raises(ValueError, match="Use a larger array or a smaller border"):
        ef.heldout_score(np.zeros((20, 20)), border=10)


def test_the_rival_is_scipy_s_spline(rng):
    # The yardstick of the claims is itself checked: at the samples kept it is exact.
    values = rng.standard_normal((20, 20))
    at = np.meshgrid(np.arange(0, 20, 2) / 2, np.arange(0, 20, 2) / 2, indexing="ij")
    found = map_coordinates(values[::2, ::2], at, order=3, mode="mirror")
    close(found, values[::2, ::2], 1e-12)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_what_lies_under_a_mask_is_neither_fitted_nor_scored(dtype, rng):
    values = np.round(1000 * on_grid(wave, (40, 40))).astype(dtype)
    gone = rng.random(values.shape) < 0.1
    exact = values.astype(np.float64 if dtype == "int16" else dtype)
    expected = ef.heldout_score(np.where(gone, np.nan, exact).astype(exact.dtype))
    spoilt = np.where(gone, -9999, values).astype(dtype)
    assert ef.heldout_score(np.ma.masked_array(spoilt, gone)) == expected
    bands = np.ma.masked_array(np.stack([spoilt, spoilt]), np.stack([gone, gone]))
    close(ef.heldout_score(bands, channel_axis=0), expected, 1e-4)  # single precision


@pytest.mark.parametrize("dtype", ["int8", "int16", "bool"])
def test_ranges_of_narrow_integers_do_not_wrap_around(dtype, rng):
    info = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = rng.integers(*info, (24, 24), endpoint=True).astype(dtype)
    close(ef.heldout_score(values), ef.heldout_score(values.astype(float)), 1e-12)


def test_the_range_of_complex_samples_is_that_of_both_parts():
    values = on_grid(wave, (40, 40))
    close(ef.heldout_score(1j * values), ef.heldout_score(values.astype(complex)), 1e-9)


def test_the_default_border_is_that_of_the_tables(rng):
    from measurement import heldout

    for shape in ((40, 70), (200, 64)):
        values = rng.standard_normal(shape).cumsum(0).cumsum(1)
        guess, _ = heldout.predicted(values, ef.smooth(order=2))
        close(ef.heldout_score(values, ef.smooth(order=2)), heldout.score(values, guess), 1e-8)
    assert ef.heldout_score(values, ef.smooth(order=2)) != ef.heldout_score(
        values, ef.smooth(order=2), border=0
    )
