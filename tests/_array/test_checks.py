"""Words and numbers at the door: what passes, and what the others are told."""

from fractions import Fraction

import numpy as np
import pytest

from elmfield._array import checks

NUMBERS = [0, 3, -2.5, 10**400, np.float32(2), np.int8(-3), Fraction(1, 3)]
NONE = [True, np.True_, None, "3", 1j, float("nan"), float("inf"), [1], np.array(3.0)]


@pytest.mark.parametrize("v", NUMBERS, ids=repr)
def test_what_is_a_number(v):
    assert checks.is_number(v)


@pytest.mark.parametrize("v", NONE, ids=repr)
def test_what_is_none(v):
    assert not checks.is_number(v)
    assert not checks.is_whole(v)
    assert not checks.is_integer(v)


def test_whole_is_a_matter_of_the_value_integer_one_of_the_type():
    assert checks.is_whole(3.0)
    assert checks.is_whole(10**400)
    assert not checks.is_whole(2.5)
    assert checks.is_integer(np.uint8(3))
    assert not checks.is_integer(3.0)


def test_whole_numbers_have_a_least():
    assert checks.whole("n", 3.0) == 3
    assert type(checks.whole("n", np.int16(3))) is int
    assert checks.whole("n", 0, least=0) == 0
    for wrong in (0, -1, 2.5, True, "4", None):
        with pytest.raises(ValueError, match=f"`n` must be a whole number .* 1; got {wrong!r}.$"):
            checks.whole("n", wrong)
    with pytest.raises(ValueError, match=r"at least 2; got 1\. Ask for more\.$"):
        checks.whole("n", 1, 2, "Ask for more.")


def test_positive_numbers():
    assert checks.positive("scale", np.float32(0.5)) == 0.5
    for wrong in (0, -1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(ValueError, match="`scale` must be a positive number; got"):
            checks.positive("scale", wrong)


@pytest.mark.parametrize("given", [4, (4, 4), [4, 4], np.array([4, 4]), np.int64(4)], ids=repr)
def test_one_number_or_one_per_axis(given):
    assert checks.per_axis("cell", given, 2) == (4, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, 2, 3), r"`cell` must be one number or one per axis, 2; got 3: \(1, 2, 3\)"),
        ("88", "`cell` must be a finite number; got '88'"),
        ([[4], [4, 4]], r"`cell` must be a finite number; got \[4\]"),
        ((4, None), "`cell` must be a finite number; got None"),
        (float("nan"), "`cell` must be a finite number; got nan"),
        (True, "`cell` must be a finite number; got True"),
    ],
)
def test_what_is_neither(given, message):
    with pytest.raises(ValueError, match=message):
        checks.per_axis("cell", given, 2)


def test_one_of_a_list():
    assert checks.choice("kind", "a", ("a", "b")) == "a"
    for wrong in ("c", None, ["a"], np.array(["a", "b"])):
        with pytest.raises(ValueError, match=r"`kind` must be one of \['a', 'b'\]; got"):
            checks.choice("kind", wrong, ("a", "b"))


def test_only_one_may_be_asked_for():
    assert checks.at_most_one(psnr=None, error=None) is None
    assert checks.at_most_one(psnr=None, error=0.0) == ("error", 0.0)
    with pytest.raises(ValueError, match=r"only one of psnr, error .* got psnr, error\. Drop"):
        checks.at_most_one(psnr=1, error=2)
