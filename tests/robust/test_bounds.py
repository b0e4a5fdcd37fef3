"""A few of the files and tiles that `fuzz.py` tries by the thousand."""

import pytest

from robust import bounds


@pytest.mark.parametrize("number", [0, 1, 2, 3, 24])
def test_bounds_hold_for_another_decoder(number, tmp_path):
    assert bounds.bounded([3, number], tmp_path) in ("kept", "refused")


def test_damaged_tiles_are_refused_or_read():
    found = {bounds.damaged_tile([3, k]) for k in range(25)}
    assert found <= {"refused", "another"}
    assert "refused" in found
