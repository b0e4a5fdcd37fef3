"""Targets hold for what a reader of the file gets, rounding included."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.gridded import Gridded
from elmfield.io.model.promise import fit_stored
from elmfield.io.model.store import as_stored


def gridded(rng, shape=(64, 48)):
    values = 500 + rng.standard_normal(shape).cumsum(0).cumsum(1)
    return Gridded(values=values, dims=("y", "x"))


@pytest.mark.parametrize(
    ("settings", "holds"),
    [
        (ef.smooth(psnr=72), lambda truth, got: ef.psnr(truth, got) >= 72),
        (ef.smooth(max_error=0.1), lambda truth, got: ef.max_error(truth, got) <= 0.1),
    ],
    ids=["psnr", "max_error"],
)
def test_a_target_holds_for_the_stored_field(settings, holds, rng):
    samples = gridded(rng)
    once = as_stored(ef.fit(samples, settings), "float16")
    assert not holds(samples.values, once.samples())  # what rounding does to it
    field, dtype = fit_stored(samples, settings, dtypes=("float16",))
    assert dtype == "float16"
    assert holds(samples.values, as_stored(field, dtype).samples())
    assert field.settings.target == settings.target  # what was asked for, not what was fitted


def test_the_next_dtype_is_taken_where_the_first_cannot(rng):
    field, dtype = fit_stored(gridded(rng), ef.smooth(max_error=1e-6), dtypes=("float32", None))
    assert dtype == "float64"
    assert field.coefficient_dtype == np.float64


def test_where_no_dtype_can_the_target_is_refused_with_what_was_reached(rng):
    with pytest.raises(ValueError, match=r"`max_error` cannot be kept: with .* stored as float16"):
        fit_stored(gridded(rng), ef.smooth(max_error=1e-6), dtypes=("float16",))


def test_without_an_error_to_keep_the_first_dtype_is_it(rng):
    samples = gridded(rng)
    for settings in (None, ef.smooth(), ef.smooth(coefficients=900), ef.smooth(per_region=9)):
        assert fit_stored(samples, settings, dtypes=("float16",))[1] == "float16"
        assert fit_stored(samples, settings, dtypes=(None,))[1] == "float64"
