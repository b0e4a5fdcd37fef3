"""Maps and derivatives on grids, from seeds: what points say."""

from hypothesis import given

from robust.conftest import PROFILE
from robust.grids import one_derivative, one_map
from support import SEEDS


@PROFILE
@given(seed=SEEDS)
def test_values_through_any_map_are_those_at_its_places(seed):
    assert one_map(seed) == "done"


@PROFILE
@given(seed=SEEDS)
def test_quantities_on_any_grid_are_those_at_its_points(seed):
    assert one_derivative(seed) == "done"
