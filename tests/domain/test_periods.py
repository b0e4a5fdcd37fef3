"""periodic=: one reading of it, wherever it is written."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.domain import periods_of, wraps_of

DIMS = ("lat", "lon")


@pytest.mark.parametrize(
    "periodic",
    ["lon", 1, -1, np.int8(1), ["lon"], (-1,), np.array([1]), {"lon"}, {"lon": None}, {-1: None}],
    ids=repr,
)
def test_one_axis_in_all_its_words(periodic):
    assert periods_of(periodic, DIMS) == {1: None}


def test_periods_come_along():
    assert periods_of({"lon": 360, 0: None}, DIMS) == {1: 360.0, 0: None}
    assert periods_of((), DIMS) == {}


@pytest.mark.parametrize("periodic", [1, (-1,), np.array([1]), {1: 360.0}, {1: None}], ids=repr)
def test_axes_without_names(periodic):
    assert wraps_of(periodic, 2) == (False, True)


@pytest.mark.parametrize(
    ("periodic", "message"),
    [
        ("t", r"`periodic` names axis 't', but the axes are \['lat', 'lon'\]"),
        (2, "`periodic` names axis 2"),
        ((-3,), "`periodic` names axis -3"),
        ([[0], [1]], r"`periodic` names axis \[0\]"),
        ((1.0,), r"`periodic` names axis 1\.0"),
        ({"lon": "360"}, "the period of axis 'lon' must be a finite number; got '360'"),
        ({"lon": np.nan}, "the period of axis 'lon' must be a finite number; got nan"),
        ({"lon": True}, "the period of axis 'lon' must be a finite number; got True"),
    ],
)
def test_what_names_no_axis(periodic, message):
    with pytest.raises(ValueError, match=message):
        periods_of(periodic, DIMS)


@pytest.mark.parametrize("periodic", [None, True, 1.0, object], ids=repr)
def test_what_is_no_list_of_axes(periodic):
    with pytest.raises(TypeError, match="must be the name or number of an axis, several of them"):
        periods_of(periodic, DIMS)


@pytest.mark.parametrize("periodic", ["lon", (2,), (True, False), {"lon": 360.0}], ids=repr)
def test_names_are_not_known_everywhere(periodic):
    with pytest.raises(
        ValueError, match=r"numbers of axes, between -2 and 1; got .* no names here"
    ):
        wraps_of(periodic, 2)


def test_flags_are_not_axis_numbers():
    # True and False would read as axes 1 and 0: both periodic, where the caller meant one.
    with pytest.raises(ValueError, match="`periodic` names axis True"):
        ef.fit(np.zeros((4, 4)), periodic=(True, False))
