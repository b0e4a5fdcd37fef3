"""Dates of other calendars: in, asked for, saved, and out again."""

import numpy as np
import pytest

import elmfield as ef

xr = pytest.importorskip("xarray")
cftime = pytest.importorskip("cftime")


def series(calendar, n=3 * 365):
    time = xr.date_range("2001-01-01", periods=n, freq="D", calendar=calendar, use_cftime=True)
    day = np.arange(n)
    values = 10 + 8 * np.sin(2 * np.pi * day / 365) + 0.5 * np.sin(day / 9)
    return xr.DataArray(values, dims="time", coords={"time": time}, name="t", attrs={"units": "C"})


@pytest.mark.thorough
@pytest.mark.parametrize("calendar", ["noleap", "360_day", "all_leap", "julian"])
def test_a_series_of_three_years(calendar, tmp_path):
    da = series(calendar)
    field = ef.fit(da)
    xr.testing.assert_allclose(field.to_xarray(), da)
    assert field.to_xarray().indexes["time"].calendar == calendar
    date = cftime.datetime(2002, 2, 28, calendar=calendar)
    k = int(np.flatnonzero(da.time.values == date)[0])
    for asked in ("2002-02-28", "2002-02-28T00:00:00", date, 86400.0 * k):
        np.testing.assert_allclose(field.interp(time=asked), da[k], atol=1e-9)
    np.testing.assert_allclose(field([["2002-02-28"], ["2001-01-03"]]), da[[k, 2]], atol=1e-9)
    np.testing.assert_allclose(field.grid(["2002-02-28T12:00", date]), field.grid(
        [86400 * (k + 0.5), 86400.0 * k]), atol=1e-12)  # fmt: skip
    ef.save(field, tmp_path / "t.elm")
    back = ef.load(tmp_path / "t.elm")
    xr.testing.assert_identical(back.to_xarray(), field.to_xarray())
    with xr.open_dataset(tmp_path / "t.elm", engine="elmfield") as ds:
        xr.testing.assert_allclose(ds["t"].load(), da)
    pytest.importorskip("netCDF4")
    ef.write(back, tmp_path / "t.nc")
    with xr.open_dataset(tmp_path / "t.nc") as ds:
        assert ds.indexes["time"].calendar == calendar
        xr.testing.assert_allclose(ds["t"].load(), da)
    again = ef.fit(tmp_path / "t.nc")
    np.testing.assert_allclose(again.interp(time="2003-05-05"), field.interp(time="2003-05-05"))


def test_the_thirtieth_of_february():
    da = series("360_day", 720)
    np.testing.assert_allclose(ef.fit(da).interp(time="2001-02-30"), da[59], atol=1e-9)
    with pytest.raises(ValueError, match="on axis 'time'"):
        ef.fit(series("noleap", 720)).interp(time="2001-02-30")


def test_months_are_uneven():
    time = xr.date_range("2001-01-01", periods=36, freq="MS", calendar="noleap", use_cftime=True)
    da = xr.DataArray(np.arange(36.0), dims="time", coords={"time": time})
    field = ef.fit(da)
    assert field.domain.axes[0].spacing is not None
    np.testing.assert_allclose(field.interp(time="2002-03-01"), 14, atol=1e-9)


def test_means_between_dates():
    field = ef.fit(series("noleap"))
    year = field.means(["2001-01-01", "2002-01-01", "2003-01-01"])
    np.testing.assert_allclose(year, 10, atol=0.1)


def test_words_that_are_no_dates():
    field = ef.fit(series("noleap", 100))
    with pytest.raises(ValueError, match="'soon' is no date; write it as 2001-02-28"):
        field.interp(time="soon")
    with pytest.raises(ValueError, match="dates must be of the calendar 'noleap'; got"):
        field.interp(time=cftime.datetime(2001, 1, 5, calendar="360_day"))
    with pytest.raises(ef.OutsideDomainError, match=r"the first at 2005-01-01\. Pass"):
        field.interp(time="2005-01-01")


def test_the_repeated_longitude_is_said():
    lon = np.arange(0, 361, 5.0)
    values = np.cos(np.deg2rad(lon))[None, :] * np.ones((20, 1))
    values[:, -1] = values[:, 0]
    da = xr.DataArray(values, dims=("y", "lon"), coords={"lon": lon})
    with pytest.warns(UserWarning, match="lon 360 repeats 0: the repeated samples are left out"):
        field = ef.fit(da)
    assert field.shape == (20, 72)
    assert field.domain.periodic == (False, True)
    np.testing.assert_allclose(field([[3.0, 357.5]]), np.cos(np.deg2rad(2.5)), atol=1e-4)
    da[:, -1] += 1.0  # other values: another place
    assert ef.fit(da).domain.periodic == (False, False)


def test_periods_of_dates_are_durations():
    time = np.datetime64("2001-01-01", "ns") + np.arange(0, 365, 30) * np.timedelta64(1, "D")
    time[3] += np.timedelta64(1, "D")
    da = xr.DataArray(np.arange(13.0), dims="time", coords={"time": time})
    field = ef.fit(da, periodic={"time": np.timedelta64(365, "D")})
    assert field.domain.axes[0].period == 365 * 86400
    for periodic in ("time", {"time": 365.0}):
        with pytest.raises(ValueError, match=r"Periods of dates are durations: \{'t"):
            ef.fit(da, periodic=periodic)
