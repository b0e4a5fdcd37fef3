"""Dates, durations and names on gridded values, there and back."""

from dataclasses import fields, replace
from datetime import datetime

import numpy as np
import pytest

from elmfield.field.adapters.labelled_arrays import make_dataarray
from elmfield.field.coordinates.labels import (
    Alpha,
    AxisLabels,
    ChannelLabels,
    CoordinateLabels,
    Labels,
    VariableLabels,
    add_ticks,
    coordinates_in,
    coordinates_out,
    to_times,
)
from elmfield.field.coordinates.units import derivative_units, multiply_units
from elmfield.io.model.metadata import from_plain, parse, to_plain

EPOCH = np.datetime64("2020-02-28T18:00", "ns")
DATES = AxisLabels(epoch=EPOCH, dtype="datetime64[ns]")


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
    duration = AxisLabels(duration=True, dtype="timedelta64[ns]")
    assert np.isnan(coordinates_in(np.array(["NaT"], "timedelta64[ns]"), duration)).all()


def test_durations_count_seconds():
    about = AxisLabels(duration=True, dtype="timedelta64[ms]")
    given = np.array([1500, -250, 0], "timedelta64[ms]")
    found = coordinates_in(given, about)
    assert found.tolist() == [1.5, -0.25, 0]
    back = coordinates_out(found, about)
    assert back.dtype == given.dtype
    assert np.array_equal(back, given)


def test_whole_numbers_stay_whole_only_where_they_are():
    about = AxisLabels(dtype="int32")
    assert coordinates_out(np.array([1.0, 2.0]), about).dtype == np.int32
    assert coordinates_out(np.array([1.0, 2.5]), about).tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    ("values", "axis", "wanted"),
    [
        (np.array([EPOCH]), AxisLabels(), "must be numbers; got dtype datetime64"),
        (np.array(["a"]), AxisLabels(), "must be numbers; got dtype <U1"),
        (np.array([1j]), DATES, "must be dates or seconds since the first sample; got dtype comp"),
        (np.array([np.timedelta64(1, "s")]), DATES, "must be dates or seconds"),
    ],
)
def test_what_an_axis_cannot_count_is_refused(values, axis, wanted):
    with pytest.raises(TypeError, match=wanted):
        coordinates_in(values, axis)


def test_seconds_before_the_first_date_go_back():
    assert to_times(np.array([-0.5]), "datetime64[ms]", EPOCH) == EPOCH - np.timedelta64(500, "ms")


def labelled(moved=()):
    labels = Labels(
        name="sst",
        attrs={"units": "K"},
        axes={"time": replace(DATES, attrs={"long_name": "when"})},
        channels=ChannelLabels(name="band", labels=["r", "g"], attrs={"kind": "colour"}),
        coords={
            "month": CoordinateLabels(dims=("time",), values=[2, 3, 3]),
            "wave": CoordinateLabels(dims=("band",), values=[650.0, 530.0]),
            "wrong": CoordinateLabels(dims=("time",), values=[1, 2]),
        },
    )
    values = np.arange(24.0).reshape(3, 2, 4)
    seconds = [np.array([0.0, 86400, 172800]), None]
    return values, make_dataarray(values, ("time", "x"), seconds, 1, labels, moved)


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
    found = make_dataarray(np.zeros((2, 3)), ("channel",), [None], 1, Labels())
    assert found.dims == ("channel", "channel_")


def times(unit, first, seed=5):
    """Rising dates of a unit, from a year on, unevenly, over some hundred years."""
    rng = np.random.default_rng(seed)
    steps = np.sort(rng.choice(10**10, 40, replace=False))
    ticks = np.cumsum(1 + steps * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**6}[unit] // 3)
    return np.datetime64(first, unit) + ticks.astype(f"timedelta64[{unit}]")


FAR = [(unit, year) for unit in ("s", "ms", "us") for year in ("0850", "0001", "-4000", "9999")]


@pytest.mark.parametrize(("unit", "first"), [*FAR, ("ns", "1700")])
def test_dates_of_any_unit_and_year_come_back_exactly(unit, first):
    dates = times(unit, first)
    about = AxisLabels(epoch=dates[0], dtype=str(dates.dtype))
    numbers = coordinates_in(dates, about)
    about = add_ticks(about, numbers, dates)
    found = coordinates_out(numbers, about)
    assert found.dtype == dates.dtype
    assert np.array_equal(found, dates)
    assert np.array_equal(coordinates_out(numbers[7:3:-1], about), dates[7:3:-1])
    # Dates between the samples are as near as float64 tells.
    middle = (numbers[1:] + numbers[:-1]) / 2
    found = coordinates_out(middle, about)
    tick = np.ones(1, f"timedelta64[{np.datetime_data(found.dtype)[0]}]") / np.timedelta64(1, "s")
    off = np.abs(coordinates_in(found, about) - middle)
    assert (off <= tick / 2 * (tick < 1) + np.spacing(middle)).all()


def test_a_date_between_two_ticks_is_told_in_a_finer_unit():
    about = AxisLabels(epoch=np.datetime64("0850-01-01", "s"), dtype="datetime64[s]")
    found = coordinates_out(np.array([0.0, 0.5, 86400.25]), about)
    assert found.astype(str).tolist()[1:] == ["0850-01-01T00:00:00.500", "0850-01-02T00:00:00.250"]
    assert coordinates_out(np.array([3.0]), about).dtype == "datetime64[s]"
    assert np.isnat(coordinates_out(np.array([np.nan, 1e300]), about)).all()


def test_durations_beyond_three_centuries():
    given = np.array([0, 10**11, 4 * 10**11], "timedelta64[s]")
    about = AxisLabels(duration=True, dtype="timedelta64[s]")
    numbers = coordinates_in(given, about)
    assert numbers.tolist() == [0, 1e11, 4e11]
    assert np.array_equal(coordinates_out(numbers, about), given)


def test_whole_coordinates_that_float64_does_not_hold():
    given = np.array([2**60 + 1, 2**60 + 1025, 2**61 + 3])
    about = add_ticks(AxisLabels(dtype="int64"), given.astype(float), given)
    assert np.array_equal(coordinates_out(given.astype(float), about), given)


FULL = Labels(
    name="sst", title="page", attrs={"units": "K"},
    axes={"time": replace(DATES, ticks=[3, 5]), "x": AxisLabels(duration=True, calendar="noleap")},
    channels=ChannelLabels(name="band", labels=["r", "g"], attrs={"kind": "colour"}),
    variables={"u": VariableLabels(attrs={"units": "m"}, range=2.0)},
    coords={"month": CoordinateLabels(dims=["time"], values=[2, 3], attrs={"a": 1})},
    missing="nan", fill_value=-9.0, dtype="int16", classes=[0, 4],
    alpha=Alpha(channel=3, full=255.0),
    align="nodes", samples="means", crs="EPSG:4326", transform=[1.0] * 6,
    affine=[[1.0, 0.0, 0.0, 0.0]] * 4, space="LPS", n_placed=2,
    rate="30000/1001", suits={"order": 16.0},
    header={"icc": "x"}, file_attrs={"title": "t"}, encoding={"dtype": "int16"},
    source={"file": "f"}, limits=[0.0, 1.0],
)  # fmt: skip


def test_labels_go_to_plain_mappings_and_back():
    told = to_plain(FULL)
    assert sorted(told) == sorted(f.name for f in fields(Labels))
    assert parse(Labels, from_plain(told), strict=False) == FULL
    assert to_plain(Labels()) == {}
    assert parse(Labels, {"of another version": 1}, strict=False) == Labels()


def test_what_is_known_of_an_axis_or_nothing():
    axes = {
        "time": AxisLabels(epoch=EPOCH, attrs={"units": "x"}),
        "y": AxisLabels(attrs={"units": "m"}),
    }
    labels = Labels(axes=axes)
    assert [labels.axis(n).units for n in ("time", "y", "x")] == ["s", "m", None]
    assert [labels.axis(n).is_time for n in ("time", "y", "x")] == [True, False, False]


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "per", "wanted"),
    [
        ("m/s", "m", "s-1"),
        ("m s-1", "m", "s-1"),
        ("m.s**-1", "m", "s-1"),
        ("m·s^-1", "m", "s-1"),
        ("m", "m", "1"),
        ("1", "m", "m-1"),
        ("K", "degrees_north", "K degrees_north-1"),
        ("kg/m2/s", "m", "kg m-3 s-1"),
        ("m2 s-2", "m", "m s-2"),
        ("°C", "hPa", "°C hPa-1"),
        ("%", "s", "% s-1"),
        ("J/(kg K)", "m", "J/(kg K) m-1"),  # in a way that is not read
        ("K", "furlongs (long)", "K (furlongs (long))-1"),
    ],
)
def test_a_unit_by_another(own, per, wanted):
    assert multiply_units((own, 1), (per, -1)) == wanted


def test_powers():
    assert multiply_units(("m/s", 2)) == "m2 s-2"
    assert multiply_units(("m s-1", -1)) == "m-1 s"


def test_units_of_derivatives():
    assert derivative_units("m/s", "gradient", ["m", "m"]) == "s-1"
    assert derivative_units("K", "laplacian", ["m", "m"]) == "K m-2"
    assert derivative_units("K", "gradient", ["s", "m"]) == ["K s-1", "K m-1"]
    assert derivative_units("K", "hessian", ["s", "m"]) == [
        "K s-2",
        "K s-1 m-1",
        "K m-1 s-1",
        "K m-2",
    ]
    assert derivative_units("K", "laplacian", ["s", "m"]) is None  # a sum of different things
