"""What may stand in a file's metadata comes back as it was; nothing else may."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmfield.io.model.metadata import from_plain, keepable, to_plain

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text()
    | st.complex_numbers(allow_nan=False)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(categories="L")), inner),
    max_leaves=20,
)


@pytest.mark.thorough
@given(value=VALUES)
def test_values_come_back_through_json(value):
    written = json.dumps(to_plain(value), allow_nan=False)
    assert from_plain(json.loads(written)) == value


def test_what_is_not_a_number_comes_back_as_such():
    assert math.isnan(from_plain(to_plain(math.nan)))
    assert np.isnat(from_plain(to_plain(np.datetime64("NaT", "ms"))))


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64("2020-02-29T12:34:56.789", "ns"),
        np.datetime64("1850-01", "M"),
        np.timedelta64(-(2**62), "ns"),
        np.timedelta64(7, "D"),
    ],
)
def test_dates_keep_their_unit(value):
    back = from_plain(json.loads(json.dumps(to_plain(value))))
    assert back == value
    assert back.dtype == value.dtype


def test_numpy_becomes_python():
    plain = to_plain({1: np.float32(0.5), "b": np.array([[1, 2]], np.uint8), "c": (np.True_, b"x")})
    assert plain == {"1": 0.5, "b": [[1, 2]], "c": [True, "x"]}
    assert type(plain["b"][0][0]) is int
    assert to_plain(np.array(3.0)) == 3.0


def test_anything_else_is_refused_by_name_or_left_out():
    with pytest.raises(TypeError, match="can be kept with a field; got a set"):
        to_plain({"deep": [1, {2}]})
    assert keepable({"good": 1, "bad": object(), 3: [math.inf]}) == {"good": 1, "3": [math.inf]}
