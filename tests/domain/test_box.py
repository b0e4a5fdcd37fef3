"""The box: points inside and outside, windows, names; what a domain refuses."""

from dataclasses import replace

import numpy as np
import pytest

import elmfield as ef
from elmfield.domain import Axis, Domain, make_domain
from support import close, host

UNEVEN = np.array([0.0, 1.0, 1.1, 4.0, 9.0, 9.5, 20.0])


@pytest.mark.parametrize("c", [UNEVEN, UNEVEN[::-1], np.exp(np.arange(9))])
def test_nothing_far_away_is_taken_for_inside(c):
    field = ef.fit(np.zeros(len(c)), coords=[c])
    low, high = sorted(field.domain.axes[0].from_index(np.array([-0.5, len(c) - 0.5])))
    far = (high - low) * np.logspace(-6, 6, 60)
    for x in [*(low - far), *(high + far)]:
        with pytest.raises(ef.OutsideDomainError, match="lie outside"):
            field([x])


def test_a_periodic_axis_takes_any_turn(xp):
    field = ef.fit(
        xp.asarray(np.sin(np.arange(12) * np.pi / 6)),
        coords=[np.arange(12) * 30.0],
        periodic=[0],
    )
    x = np.array([[13.0], [200.0], [359.0]])
    close(field(x + 720), field(x), 1e-11)
    close(field(x - 360), field(x), 1e-11)


def test_the_period_of_uneven_samples_is_used():
    c = np.array([0.0, 50, 110, 200, 290])
    field = ef.fit(np.cos(np.radians(c)), periodic={"lon": 360.0}, dims=["lon"], coords=[c])
    close(field((c + 360)[:, None]), np.cos(np.radians(c)), 1e-9)
    seam = field(np.array([[344.99999], [345.00001], [-0.00001], [0.00001], [359.99999]]))
    close(np.diff(seam[:2]), 0, 1e-5)
    close(np.ptp(seam[2:]), 0, 1e-5)


def test_a_box_on_a_periodic_axis_may_lie_in_any_turn():
    for c, period in ((UNEVEN, 24.0), (UNEVEN[::-1], 24.0), (np.arange(7.0), 7.5), (None, 7.0)):
        axis = Axis.counted("x", 7, period) if c is None else Axis.through("x", c, period)
        domain = make_domain((7,), dims=["x"], coords=[c], periodic={"x": period})
        for low, high in ((0.3, 1.1), (-0.7, 2.2), (5.0, 5 + period), (-period / 2, period / 2)):
            a, b = axis.span(low, high)
            for turn in (-3, 0, 2):
                close(
                    np.subtract(*axis.span(low + turn * period, high + turn * period)), a - b, 1e-9
                )
                (first,), (last,) = domain.span([low + turn * period], [high + turn * period])
                assert -0.5 <= first < 6.5
                close(last - first, b - a, 1e-9)
        with pytest.raises(ValueError, match=f"at most one period, {period:g} on axis 'x'"):
            domain.span([0.0], [period + 0.01])
        with pytest.raises(ValueError, match="must span a box inside the domain"):
            domain.span([1.0], [0.5])


def test_names_and_mappings_reach_their_axis():
    domain = make_domain(
        (3, 4), dims=("lat", "lon"), coords={"lon": [0, 90, 180, 270]}, periodic=("lon",)
    )
    assert domain.dims == ("lat", "lon")
    assert domain.periodic == (False, True)
    assert domain.axes[0].coords is None
    assert domain.axes[1].period == 360
    for one in (-1, np.int64(1), (np.int64(1),), {np.int8(1): 4.0}):
        assert make_domain((3, 4), periodic=one).periodic == (False, True)
    assert make_domain((3, 4), dims=("a", "b"), periodic="a").periodic == (True, False)


def test_a_rounding_error_past_the_border_is_forgiven():
    field = ef.fit(np.arange(10.0), coords=[np.arange(10) * 0.1])
    assert np.isfinite(field([0.95 + 1e-12]))
    assert np.isfinite(field([-0.05 - 1e-12]))


def test_outside_points_raise_move_or_become_nan(xp):
    field = ef.fit(xp.asarray(np.arange(20.0).reshape(4, 5)))
    points = np.array([[1.0, 1.0], [-3.0, 1.0], [1.0, 99.0]])
    with pytest.raises(ef.OutsideDomainError, match=r"axis 'axis0' covers \[-0.5, 3.5\] and 1 poi"):
        field(points)
    with pytest.raises(ValueError, match="Pass outside='nearest' or outside='nan'"):
        field.gradient(points)
    marked = host(field(points, outside="nan"))
    assert np.isnan(marked).tolist() == [False, True, True]
    moved = host(field(points, outside="nearest"))
    border = host(field(np.array([[1.0, 1.0], [-0.5, 1.0], [1.0, 4.5]])))
    assert np.array_equal(moved, border)
    assert host(field.hessian(points, outside="nan")).shape == (3, 2, 2)
    with pytest.raises(ValueError, match=r"`outside` must be one of .* got 'x'"):
        field(points, outside="x")


@pytest.mark.parametrize("periodic", [(), (0, 1)])
def test_a_nan_coordinate_never_gets_a_number(periodic):
    field = ef.fit(np.arange(20.0).reshape(4, 5), periodic=periodic)
    points = np.array([[np.nan, 1.0], [1.0, 1.0]])
    for outside in ("nearest", "nan"):
        assert np.isnan(field(points, outside=outside)).tolist() == [True, False]
    with pytest.raises(ef.OutsideDomainError, match="the first at nan"):
        field(points)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coords": [[0, 1, 1, 2]]}, "finite and strictly increasing or strictly decreasing"),
        ({"coords": [[0, 1, np.nan, 2]]}, "must be finite"),
        ({"coords": [[0, 2, 1, 3]]}, "Sort the array along this axis"),
        ({"coords": [[0, 1]]}, r"one number per sample; got shape \(2,\) for 4 samples"),
        ({"coords": [None, None]}, r"one entry per axis, 1; got \[None, None\]"),
        ({"coords": {"y": [0, 1, 2, 3]}}, r"`coords` names \['y'\], but the axes are"),
        ({"dims": ("a", "b")}, "`dims` must be 1 different names"),
        ({"periodic": ("t",)}, "`periodic` names axis 't', but the axes are"),
        ({"periodic": (1,)}, "`periodic` names axis 1"),
        ({"periodic": (True,)}, "`periodic` names axis True"),
        ({"periodic": {0: 2.0}}, "must exceed the span of its samples; got 2 for"),
        ({"periodic": {0: -4.0}}, "must exceed the span"),
        (
            {"periodic": (0,), "coords": [[0, 1, 2, 4]]},
            "periodic but unevenly spaced, so its period cannot be read off",
        ),
    ],
)
def test_bad_domains_say_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        ef.fit(np.zeros(4), **options)


def test_two_axes_need_two_names():
    with pytest.raises(ValueError, match="2 different names, one per axis; got"):
        ef.fit(np.zeros((4, 4)), dims=("a", "a"))


def test_a_domain_is_what_it_says():
    domain = make_domain((3, 4), dims=("a", "b"), coords=[None, [0, 1, 3, 4]])
    again = make_domain((3, 4), dims=("a", "b"), coords=[None, [0, 1, 3, 4]])
    assert domain == again
    assert hash(domain) == hash(again)
    assert (domain.low, domain.high) == ((-0.5, -0.5), (2.5, 3.5))
    part = replace(domain, low=(0.5, -0.5))
    assert part != domain
    assert part.axes == domain.axes
    assert Domain.of(domain.axes) == domain
