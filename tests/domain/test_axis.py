"""One axis: from coordinates to indices and back, and once around."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmfield.domain import Axis, make_domain
from support import EPS, close

UNEVEN = np.array([0.0, 1.0, 1.1, 4.0, 9.0, 9.5, 20.0])


def index(axis, x):
    return axis.to_index(np.asarray(x, dtype=float))


@pytest.mark.parametrize("down", [False, True])
def test_turns_of_an_uneven_periodic_axis_go_both_ways(down):
    lon = 360 * (np.arange(30) / 30) ** 1.2
    (axis,) = make_domain((30,), coords=[lon[::-1] if down else lon], periodic={0: 360.0}).axes
    for low, high in ((-720.0, -700.0), (-10.0, 20.0), (355.0, 365.0), (730.0, 750.0)):
        ends = axis.from_index(np.asarray(axis.span(low, high)))
        close(np.sort(ends), [low, high], 1e-9)


@given(
    steps=st.lists(st.floats(0.01, 10), min_size=2, max_size=12),
    down=st.booleans(),
    origin=st.floats(-400, 400),
)
def test_samples_sit_at_whole_indices_whatever_the_spacing(steps, down, origin):
    c = origin + np.cumsum(steps) * (-1 if down else 1)
    axis = Axis.through("x", c)
    # A coordinate is known to EPS |c|, and an index unit may be 0.01 wide.
    slack = 16 * EPS * (np.abs(c).max() + 1) / 0.01
    close(index(axis, c), np.arange(len(c)), slack)
    close(axis.from_index(np.arange(len(c))), c, slack)


@given(at=st.floats(0, 1))
def test_from_index_inverts_to_index(at):
    for c in (UNEVEN, UNEVEN[::-1], np.linspace(3, -7, 5), None):
        axis = Axis.counted("x", 7) if c is None else Axis.through("x", c)
        i = -0.5 + at * axis.size
        close(index(axis, axis.from_index(np.array([i]))), i, 1e-12)


@pytest.mark.parametrize("way", [1, -1])
def test_uneven_coordinates_are_mapped_straight_between_samples(way):
    axis = Axis.through("x", way * UNEVEN)
    x = np.linspace(-0.5, 25.25, 200)
    ends = [-0.5, *UNEVEN, 20 + 10.5 / 2]  # half a sample beyond both ends
    close(index(axis, way * x), np.interp(x, ends, [-0.5, *range(7), 6.5]), 1e-12)
    close(axis.from_index(np.linspace(-0.5, 6.5, 50)), way * np.interp(
        np.linspace(-0.5, 6.5, 50), [-0.5, *range(7), 6.5], ends), 1e-12)  # fmt: skip


def test_rounding_in_single_precision_coordinates_is_not_unevenness():
    longitude = np.arange(1440, dtype=np.float32) / np.float32(3)
    axis = Axis.through("longitude", longitude)
    assert axis.spacing is None
    assert Axis.through("x", UNEVEN).spacing is not None


@pytest.mark.parametrize("c", [UNEVEN, UNEVEN[::-1]], ids=["up", "down"])
def test_an_uneven_periodic_axis_is_its_own_neighbour(c):
    axis = Axis.through("x", c, 24.0)
    x = np.linspace(-30, 50, 4001)
    i, later = index(axis, x), index(axis, x + 24.0)
    close(np.cos(2 * np.pi * (later - i) / 7), 1, 1e-12)
    close(axis.from_index(axis.along(x)), x, 1e-12)
    # Copies of the samples, in plain sight.
    copies = np.concatenate([np.sort(c) + 24.0 * k for k in range(-3, 4)])
    way = 1 if c[0] < c[-1] else -1
    ranks = np.interp(x, copies, np.arange(-21.0, 28.0)) * way
    close(np.diff(axis.along(x)), np.diff(ranks), 1e-9)


@pytest.mark.parametrize("step", [0.25, -3.0])
def test_an_even_axis_is_the_line_through_its_samples(step):
    axis = Axis.even("x", 6, 10.0, step)
    assert axis.spacing is None
    assert np.array_equal(axis.coords, 10 + step * np.arange(6))
    assert np.array_equal(index(axis, axis.coords), np.arange(6))
    one = Axis.even("x", 1, 10.0, step)  # which no coordinates could say
    assert index(one, 10 + 0.5 * step) == 0.5


def test_an_even_axis_with_a_wider_seam_is_uneven():
    assert Axis.even("x", 6, 0.0, 2.0, 12.0).spacing is None
    assert Axis.even("x", 6, 0.0, 2.0, 15.0).spacing is not None
    assert Axis.counted("x", 6, 6.0).spacing is None
    assert Axis.counted("x", 6, 6.5).spacing is not None
    with pytest.raises(ValueError, match=r"'x' must exceed the span .* got 9 for"):
        Axis.even("x", 6, 0.0, 2.0, 9.0)


def test_an_axis_that_counts_has_no_coordinates():
    axis = Axis.counted("x", 1 << 60)  # nor memory for them
    assert axis.coords is None
    assert index(axis, 17.25) == 17.25


def test_axes_are_equal_when_they_say_the_same():
    assert Axis.through("x", UNEVEN) == Axis.through("x", UNEVEN.copy())
    assert hash(Axis.through("x", UNEVEN)) == hash(Axis.through("x", UNEVEN.copy()))
    bent = UNEVEN.copy()
    bent[3] += 1
    others = [
        Axis.through("x", bent),  # the same ends and mean step
        Axis.through("y", UNEVEN),
        Axis.through("x", UNEVEN, 24.0),
        Axis.counted("x", 7),
        UNEVEN,
        "x",
    ]
    assert not any(Axis.through("x", UNEVEN) == other for other in others)
