"""Smooth arrays from seeds: what is exact is exact for any shape."""

from hypothesis import given

from robust.conftest import PROFILE
from robust.smooth_arrays import one_polynomial, one_wave
from support import SEEDS


@PROFILE
@given(seed=SEEDS)
def test_cubic_polynomials_are_exact_from_order_four_on(seed):
    assert one_polynomial(seed) == "done"


@PROFILE
@given(seed=SEEDS)
def test_waves_around_an_axis_are_met_to_rounding(seed):
    assert one_wave(seed) == "done"
