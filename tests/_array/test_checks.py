"""Arguments: what passes, and what the others are told."""

from fractions import Fraction

import numpy as np
import pytest

from elmfield._array import checks

NUMBERS = [0, 3, -2.5, 10**300, np.float32(2), np.int8(-3), Fraction(1, 3)]
NONE = [
    True, np.True_, None, "3", 1j, float("nan"), float("inf"), [1], np.array(3.0), np.ma.masked,
    np.timedelta64(3, "s"), Fraction(10**400, 3),
]  # fmt: skip


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
    assert checks.is_integer(10**400)
    assert not checks.is_whole(10**400)  # which no float holds
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


@pytest.mark.parametrize(
    "given", [4, (4, 4), [4, 4], np.array([4, 4]), np.int64(4), np.array(4)], ids=repr
)
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


def test_what_has_entries():
    for listed in ([1, 2], (1, 2), range(1, 3), np.array([1, 2]), {1: "a", 2: "b"}.keys()):
        assert checks.entries(listed) == (1, 2)
    for other in (1, "ab", b"ab", {1: 2}, {1, 2}, None, np.array(1), np.eye(2), np.ma.masked):
        assert checks.entries(other) is None


def test_rows_of_an_array_are_equally_long():
    assert checks.array("points", [[1, 2], [3, 4]]).shape == (2, 2)
    assert checks.numbers("points", [True, 2]).dtype == np.float64
    with pytest.raises(
        ValueError, match=r"`points` must be an array; got rows of .*: \[\[1, 2\], "
    ):
        checks.numbers("points", [[1, 2], [3]])
    with pytest.raises(TypeError, match="`points` must hold real numbers; got dtype <U1"):
        checks.numbers("points", ["a"])


def test_axes_count_from_either_end():
    assert [checks.axis_of("axis", k, (4, 5)) for k in (0, 1, -1, -2)] == [0, 1, 1, 0]
    for wrong in (2, -3, 1.0, None, "x", True):
        with pytest.raises(ValueError, match=r"`axis` .* between -2 and 1 for shape \(4, 5\); got"):
            checks.axis_of("axis", wrong, (4, 5))


def test_sizes_are_whole_numbers():
    assert checks.sizes_of("shape", [3, 4.0], 2) == (3, 4)
    assert checks.sizes_of("shape", 5) == (5,)
    assert checks.sizes_of("shape", (0, 2), least=0) == (0, 2)
    for wrong in ((3,), (0, 2), (2, 2.5), "ab", None, (1 << 53, 1), np.ma.masked):
        with pytest.raises(ValueError, match="`shape` must be 2 whole numbers of at least 1, one"):
            checks.sizes_of("shape", wrong, 2)


def test_mappings_and_paths():
    assert checks.by_name("window", {"x": 1}) == {"x": 1}
    assert checks.by_name("window", None) == {}
    with pytest.raises(TypeError, match=r"`window` must be a mapping .*; got \[\]"):
        checks.by_name("window", [])
    assert checks.path_of("a.elm").name == "a.elm"
    with pytest.raises(TypeError, match="`path` must be a text or a path; got a int"):
        checks.path_of(3)


def test_messages_show_one_line():
    assert checks.shown(np.eye(2)) == "array([[1., 0.], [0., 1.]])"
    assert len(checks.shown("x" * 1000)) == 200


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
