"""Parts of fields: crops, windows, tables and coarse levels are what they are parts of."""

import pytest

from robust import crops, levels


def wrong(outcomes):
    return [f"{how}: {found}" for how, found in outcomes if found != "the same"]


@pytest.mark.parametrize("seed", range(6))
def test_a_crop_is_the_same_function_and_a_table_within_its_error(seed):
    assert not wrong(crops.outcomes(seed, 3))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_coarse_level_has_the_means_of_blocks(seed, tmp_path):
    assert not wrong(levels.outcomes(seed, tmp_path))
