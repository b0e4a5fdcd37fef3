"""What is fitted, what is scored, and where."""

import numpy as np
import pytest

import elmfield as ef
from measurement import heldout
from measurement.rivals import SPLINES, spline
from support import spline_heldout


@pytest.mark.parametrize("shape", [(16,), (9, 12), (5, 6, 8)])
@pytest.mark.parametrize("step", [2, 3])
def test_places_are_those_of_the_samples_that_are_kept(shape, step, rng):
    values = rng.random(shape)
    thin, grid = heldout.halves(values, step=step)
    for k, x in enumerate(grid):
        assert len(x) == shape[k]
        assert x.max() <= thin.shape[k] - 1
        np.testing.assert_array_equal(x[::step], np.arange(thin.shape[k]))


def test_what_was_fitted_or_lies_at_the_border_is_not_scored(rng):
    values = rng.random((40, 48))
    guess = values.copy()
    guess[::2, ::2] = 9
    guess[:5] = guess[-5:] = guess[:, :6] = guess[:, -6:] = 9
    assert heldout.score(values, guess) == np.inf  # an eighth: 5 and 6
    assert heldout.score(values, guess, border=4) < 0
    guess[5, 7] += 0.5 * np.ptp(values)  # one of them
    scored = 30 * 36 - 15 * 18
    assert heldout.score(values, guess) == pytest.approx(10 * np.log10(4 * scored))


def test_channels_are_scored_together(rng):
    values, guess = rng.random((2, 20, 24, 3))
    one = heldout.score(values, guess, channels=-1)
    errors = [10 ** (-heldout.score(values[..., c], guess[..., c], data_range=1) / 10)
              for c in range(3)]  # fmt: skip
    assert one == pytest.approx(10 * np.log10(np.ptp(values) ** 2 / np.mean(errors)))


@pytest.mark.parametrize("order", SPLINES.values())
def test_splines_are_those_of_the_tests(order, rng):
    values = np.cumsum(rng.standard_normal((48, 52)), axis=0)
    ours = heldout.score(values, spline(values, order), border=8)
    assert ours == pytest.approx(spline_heldout(values, 8, order), abs=1e-9)


def test_predictions_are_those_of_the_field(rng):
    values = rng.random((20, 21, 2))
    back, field = heldout.predicted(values, channels=-1)
    assert back.shape == values.shape
    assert field.shape == (10, 11)
    np.testing.assert_allclose(back[::2, ::2], values[::2, ::2], atol=1e-9)
    assert heldout.score(values, back, channels=-1) < ef.psnr(values, values)
