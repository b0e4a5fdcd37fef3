"""Coordinates as callers give them: descending, uneven, dates; points that cannot be read."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

import elmfield as ef
import oracles
from elmfield.field.coordinates.labels import AxisLabels
from support import close, inside


def test_descending_coordinates_are_the_reversed_array(rng):
    values = rng.standard_normal((32, 9))
    up = ef.fit(values, coords=[np.arange(32) * 2.0, None])
    down = ef.fit(values[::-1], coords=[np.arange(32)[::-1] * 2.0, None])
    x = inside(rng, (32, 9), 40) * [2, 1]
    close(down(x), up(x), 1e-11)
    close(down.gradient(x), up.gradient(x), 1e-10)
    close(down.hessian(x), up.hessian(x), 1e-9)
    close(down.integral((3, 1), (40, 7)), up.integral((3, 1), (40, 7)), 1e-10)


def test_uneven_coordinates_give_a_function_of_the_coordinate():
    c = np.cumsum(0.08 + 0.05 * np.sin(np.arange(90) / 6))
    field = ef.fit(np.sin(2 * c), ef.smooth(order=3), coords=[c])
    x = np.linspace(c[3], c[-4], 400)
    # The monotone cubic map bends where its pieces meet: errors of h² f'' times its kinks.
    close(field(x[:, None]), np.sin(2 * x), 2e-3)
    close(field(c[:, None]), np.sin(2 * c), 1e-9)
    h = 1e-5
    away = np.abs(x[:, None] - c).min(axis=1) > 2 * h
    points = x[away][:, None]
    close(oracles.difference_gradient(field, points, h), field.gradient(points), 1e-4)
    close(oracles.difference_hessian(field, points, h)[:, 0, 0], field.laplacian(points), 1e-2)
    close(field.laplacian(points), field.hessian(points)[:, 0, 0], 1e-11)


def dated(shape=(30, 8)):
    """Six-hourly samples from 2020 on; the second axis in half metres."""
    first = np.datetime64("2020-01-01", "ns")
    field = ef.fit(
        np.random.default_rng(1).standard_normal(shape), dims=("time", "x"),
        coords=[np.arange(shape[0]) * 21600.0, np.arange(shape[1]) * 0.5],
    )  # fmt: skip
    return ef.Field(replace(field.model, labels=ef.Labels(axes={"time": AxisLabels(epoch=first)})))


def test_dates_are_coordinates():
    field, day = dated(), 86400.0
    plain = ef.Field(replace(field.model, labels=ef.Labels()))
    dates = np.array(["2020-01-02", "2020-01-03T12"], "datetime64[s]")
    points = plain([[day, 1.5], [2.5 * day, 2.0]])
    texts = [["2020-01-02", 1.5], ["2020-01-03T12", 2.0]]
    mixed = [[dates[0], 1.5], [dates[1], 2.0]]
    for ask in (texts, mixed, [[datetime(2020, 1, 2), 1.5], [datetime(2020, 1, 3, 12), 2.0]]):
        assert np.array_equal(field(ask), points)
        assert np.array_equal(field.gradient(ask), plain.gradient([[day, 1.5], [2.5 * day, 2.0]]))
    assert np.array_equal(field([[day, 1.5], [2.5 * day, 2.0]]), points)  # seconds still are
    grid = plain.grid([day, 2.5 * day], [1.0])
    for ask in (dates, ["2020-01-02", "2020-01-03T12"], list(dates), [day, 2.5 * day]):
        assert np.array_equal(field.grid(ask, [1.0]), grid)
    total = plain.integral([day, 0], [2.5 * day, 3])
    crop = plain.crop([day, 0], [2.5 * day, 3]).samples()
    for low, high in (dates, ("2020-01-02", "2020-01-03T12")):
        assert field.integral([low, 0], [high, 3]) == total
        assert np.array_equal(field.crop([low, 0], [high, 3]).samples(), crop)
    nowhere = [[np.datetime64("NaT"), 1.0]]
    assert np.isnan(field(nowhere, outside="nearest")).all()


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda f: f([["soon", 1.0]]), ValueError, "on axis 'time', Error parsing"),
        (lambda f: f([["2020-01-02", "here"]]), ValueError, "`points` must hold real numbers, and"),
        (lambda f: f.crop(["soon", 0], ["2020-01-03", 1]), ValueError, "on axis 'time', Error par"),
        (
            lambda f: f.grid(["2020-01-02"], ["a"]),
            TypeError,
            "on axis 'x', coordinates must be num",
        ),
        (lambda f: f.grid([1j], [1.0]), TypeError, "'time', coordinates must be dates or seconds"),
        (
            lambda f: f.integral(["2019-12-01", 0], ["2020-01-03", 1]),
            ValueError,
            r"covers \[2019-12-31T21:00:00, 2020-01-08T09:00:00\], got 2019-12-01 to 2020-01-03\.$",
        ),
        (
            lambda f: f([["2019-12-01", 0]]),
            ef.OutsideDomainError,
            r"'time' covers \[2019-12-31T21:00:00, .*, the first at 2019-12-01\. Pass",
        ),
    ],
)
def test_bad_dates_say_what_is_wrong(ask, error, message):
    with pytest.raises(error, match=message):
        ask(dated())


def test_plain_axes_take_no_dates(rough):
    date = np.datetime64("2020-01-01")
    with pytest.raises(TypeError, match="on axis 'axis0', coordinates must be numbers"):
        rough.grid([date], [1.0])
    with pytest.raises(ValueError, match="`points` must hold real numbers; got dtype"):
        rough(np.array([[date, date]]))


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (
            np.zeros((3, 3)),
            r"`points` must have shape \(..., 2\), one coordinate per axis; got",
        ),
        (np.zeros(()), r"`points` must have shape \(..., 2\)"),
        ([["a", "b"]], "`points` must hold real numbers; got dtype <U1"),
        (np.zeros((1, 2), complex), "`points` must hold real numbers; got dtype complex128"),
    ],
)
def test_bad_points_say_what_is_wrong(rough, points, message):
    with pytest.raises(ValueError, match=message):
        rough(points)


def test_points_on_a_line_need_their_own_axis():
    with pytest.raises(ValueError, match=r"Add a trailing axis: points\[\.\.\., None\]"):
        ef.fit(np.zeros(5))(np.arange(4))


def test_points_live_where_the_field_lives(rough):
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(ValueError, match="`points` must live where the field lives; got Array"):
        rough(strict.zeros((1, 2)))
