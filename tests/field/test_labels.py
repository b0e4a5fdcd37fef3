"""Dates, durations and names on gridded values, there and back."""

from datetime import datetime

import numpy as np
import pytest

from elmfield.field.labels import coordinates_in, coordinates_out, dataarray, to_dates

EPOCH = np.datetime64("2020-02-28T18:00", "ns")
DATES = {"epoch": EPOCH, "dtype": "datetime64[ns]"}


def test_dates_are_seconds_from_the_first_and_come_back():
    steps = np.array([0, 1, 86400 * 10**9 + 5, -3 * 10**9, 4 * 10**17], "timedelta64[ns]")
    seconds = coordinates_in(EPOCH + steps, DATES)
    assert seconds[2] == 86400 + 5e-9
    assert seconds[3] == -3
    # Within a fortnight float64 tells nanoseconds apart, 13 years on tens of them.
    gaps = np.abs((coordinates_out(seconds, DATES) - (EPOCH + steps)).astype(int))
    assert gaps[:4].max() == 0
    assert gaps[4] < 100


def test_a_day_is_a_day_however_it_is_written():
    leap = (np.datetime64("2020-02-29") - EPOCH) / np.timedelta64(1, "s")
    for written in ("2020-02-29", np.datetime64("2020-02-29"), datetime(2020, 2, 29), leap):
        assert coordinates_in(np.array([written]), DATES) == leap
    mixed = np.array([datetime(2020, 2, 29)], object)
    assert coordinates_in(mixed, DATES) == leap


def test_no_date_is_no_number():
    assert np.isnan(coordinates_in(np.array(["NaT"], "datetime64[ns]"), DATES)).all()
    duration = {"duration": True, "dtype": "timedelta64[ns]"}
    assert np.isnan(coordinates_in(np.array(["NaT"], "timedelta64[ns]"), duration)).all()


def test_durations_count_seconds():
    about = {"duration": True, "dtype": "timedelta64[ms]"}
    given = np.array([1500, -250, 0], "timedelta64[ms]")
    found = coordinates_in(given, about)
    assert found.tolist() == [1.5, -0.25, 0]
    back = coordinates_out(found, about)
    assert back.dtype == given.dtype
    assert np.array_equal(back, given)


def test_whole_numbers_stay_whole_only_where_they_are():
    about = {"dtype": "int32"}
    assert coordinates_out(np.array([1.0, 2.0]), about).dtype == np.int32
    assert coordinates_out(np.array([1.0, 2.5]), about).tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("values", "axis", "wanted"),
    [
        (np.array([EPOCH]), {}, "must be numbers; got dtype datetime64"),
        (np.array(["a"]), {}, "must be numbers; got dtype <U1"),
        (np.array([1j]), DATES, "must be dates or seconds since the first sample; got dtype comp"),
        (np.array([np.timedelta64(1, "s")]), DATES, "must be dates or seconds"),
    ],
)
def test_what_an_axis_cannot_count_is_refused(values, axis, wanted):
    with pytest.raises(TypeError, match=wanted):
        coordinates_in(values, axis)


def test_seconds_before_the_first_date_go_back():
    assert to_dates(np.array([-0.5]), EPOCH, "datetime64[ms]") == EPOCH - np.timedelta64(500, "ms")


def labelled(moved=()):
    attributes = {
        "name": "sst",
        "attrs": {"units": "K"},
        "axes": {"time": {**DATES, "attrs": {"long_name": "when"}}},
        "channels": {"name": "band", "labels": ["r", "g"], "attrs": {"kind": "colour"}},
        "coords": {
            "month": {"dims": ("time",), "values": [2, 3, 3]},
            "wave": {"dims": ("band",), "values": [650.0, 530.0]},
            "wrong": {"dims": ("time",), "values": [1, 2]},
        },
    }
    values = np.arange(24.0).reshape(3, 2, 4)
    seconds = [np.array([0.0, 86400, 172800]), None]
    return values, dataarray(values, ("time", "x"), seconds, 1, attributes, moved)


def test_names_units_dates_and_channels_are_put_on():
    pytest.importorskip("xarray")
    values, found = labelled()
    assert found.dims == ("time", "band", "x")
    assert np.array_equal(found.values, values)
    assert (found.name, found.attrs) == ("sst", {"units": "K"})
    assert found.time.values[1] == EPOCH + np.timedelta64(1, "D")
    assert found.time.attrs == {"long_name": "when"}
    assert found.band.values.tolist() == ["r", "g"]
    assert "x" not in found.coords  # an axis that only counts
    assert found.month.values.tolist() == [2, 3, 3]
    assert found.wave.dims == ("band",)
    assert "wrong" not in found.coords  # two labels for three samples


def test_what_lay_on_the_samples_is_left_out_elsewhere():
    pytest.importorskip("xarray")
    _, found = labelled(moved=("time",))
    assert "month" not in found.coords
    assert "wave" in found.coords


def test_channels_do_not_take_the_name_of_an_axis():
    pytest.importorskip("xarray")
    found = dataarray(np.zeros((2, 3)), ("channel",), [None], 1, {})
    assert found.dims == ("channel", "channel_")
