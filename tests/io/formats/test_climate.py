"""NetCDF, Zarr and GRIB."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import elmfield as ef
from elmfield import read, write
from elmfield.io.export.rendering import Rendering
from elmfield.io.files import NoSuchArrayError
from elmfield.io.inputs import from_dataarray

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_packed_variables(tmp_path, suffix):
    xr = pytest.importorskip("xarray")
    values = np.arange(600.0).reshape(20, 30) / 8
    values[3, 4] = np.nan
    ds = xr.Dataset({"sst": (("lat", "lon"), values, {"units": "K"})})
    packing = {"dtype": "int16", "scale_factor": 0.125, "add_offset": 10.0, "_FillValue": -999}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if suffix == ".nc":
            ds.to_netcdf(tmp_path / "x.nc", encoding={"sst": packing}, engine="netcdf4")
        else:
            ds.to_zarr(tmp_path / "x.zarr", encoding={"sst": packing})
        samples = read(tmp_path / f"x{suffix}")
    assert_allclose(samples.values, values)
    out = tmp_path / f"y{suffix}"
    write(samples, out)
    back = read(out)
    assert_allclose(back.values, values)
    assert back.labels.units == "K"


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_whole_numbers_with_gaps_come_back(tmp_path, suffix, name):
    xr = pytest.importorskip("xarray")
    values = RNG.integers(0, 300, (20, 30)).astype(np.int16)
    values[3, 4:9] = -999
    da = xr.DataArray(values, dims=("y", "x"), attrs={name: np.int16(-999), "units": "m"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ds = da.to_dataset(name="q")
        ds.to_netcdf(tmp_path / "x.nc") if suffix == ".nc" else ds.to_zarr(tmp_path / "x.zarr")
    samples = read(tmp_path / f"x{suffix}")
    assert np.isnan(samples.values[3, 4:9]).all()
    write(ef.fit(samples), tmp_path / f"y{suffix}")
    opened = xr.open_dataset(tmp_path / f"y{suffix}", mask_and_scale=False)["q"]
    assert opened.dtype == np.int16
    np.testing.assert_array_equal(opened.values, values)
    assert opened.attrs["units"] == "m"


def weather(**coords):
    """A small map of temperatures, as a new CDS file describes one."""
    xr = pytest.importorskip("xarray")
    pytest.importorskip("eccodes")
    lat, lon = 60 - 2.0 * np.arange(9), 2.0 * np.arange(12)
    extra = [n for n, c in coords.items() if np.ndim(c)]
    shape = [len(coords[n]) for n in extra] + [9, 12]
    return xr.DataArray(
        (280 + RNG.random(shape)).astype(np.float32),
        coords={**coords, "latitude": lat, "longitude": lon},
        dims=(*extra, "latitude", "longitude"),
        attrs={"GRIB_paramId": 167, "GRIB_typeOfLevel": "surface", "units": "K"},
    )


def grib_labels(path, *keys):
    """Some keys of every message in a file."""
    codes, found = pytest.importorskip("eccodes"), []
    with path.open("rb") as file:
        while (message := codes.codes_grib_new_from_file(file)) is not None:
            found.append(tuple(codes.codes_get(message, k) for k in keys))
            codes.codes_release(message)
    return found


@pytest.mark.parametrize("axis", ["time", "valid_time"])
def test_grib_keeps_date_and_parameter(tmp_path, axis):
    dates = np.asarray(["2023-01-01T12:00", "2023-01-02T06:30"], "datetime64[ns]")
    write(from_dataarray(weather(**{axis: dates})), tmp_path / "x.grib2")
    keys = ("validityDate", "validityTime", "paramId", "shortName", "typeOfLevel", "level")
    same = (167, "2t", "heightAboveGround", 2)
    assert grib_labels(tmp_path / "x.grib2", *keys) == [
        (20230101, 1200, *same),
        (20230102, 630, *same),
    ]


def test_grib_steps_count_from_the_beginning(tmp_path):
    begun = np.datetime64("2023-01-01T12:00", "ns")
    steps = np.asarray([60, 90], "timedelta64[m]").astype("timedelta64[ns]")
    keys = ("dataDate", "dataTime", "validityDate", "validityTime")
    expected = [(20230101, 1200, 20230101, 1300), (20230101, 1200, 20230101, 1330)]
    write(from_dataarray(weather(time=begun, step=steps)), tmp_path / "x.grib2")
    assert grib_labels(tmp_path / "x.grib2", *keys) == expected
    later = weather(step=steps[1:], valid_time=begun + steps[1])
    write(from_dataarray(later), tmp_path / "x.grib2")
    assert grib_labels(tmp_path / "x.grib2", *keys) == expected[1:]
    both = weather(time=begun, valid_time=begun + steps[1])
    write(from_dataarray(both), tmp_path / "x.grib2")
    assert grib_labels(tmp_path / "x.grib2", *keys) == expected[1:]


def test_grib_levels(tmp_path):
    day = np.datetime64("2023-01-01", "ns")
    air = weather(pressure_level=[850.0, 500.0], time=day)
    air.attrs |= {"GRIB_paramId": 130, "GRIB_typeOfLevel": "isobaricInhPa"}
    write(from_dataarray(air), tmp_path / "x.grib2")
    keys = ("paramId", "typeOfLevel", "level")
    expected = [(130, "isobaricInhPa", 850), (130, "isobaricInhPa", 500)]
    assert grib_labels(tmp_path / "x.grib2", *keys) == expected
    # Without a word about parameters: none is made up.
    air.attrs = {}
    write(from_dataarray(air), tmp_path / "x.grib2")
    assert grib_labels(tmp_path / "x.grib2", *keys) == [(0, *e[1:]) for e in expected]


@pytest.mark.parametrize("parameter", [134, 167])
def test_messages_on_several_grids_are_no_grid(tmp_path, parameter):
    pytest.importorskip("cfgrib")
    day, path = np.datetime64("2023-01-01", "ns"), tmp_path / "one.grib2"
    warm, pressure = weather(time=day), weather(time=day)
    pressure.attrs["GRIB_paramId"] = 134
    smaller = warm[2:8, 1:11].assign_attrs(GRIB_paramId=parameter)
    field = ef.fit(warm.drop_vars("time"))
    for name, arrays in {"alike": (warm, pressure), "several": (warm, smaller)}.items():
        with (tmp_path / f"{name}.grib2").open("wb") as file:
            for da in arrays:
                write(from_dataarray(da), path)
                file.write(path.read_bytes())
    assert ef.regrid(field, tmp_path / "alike.grib2").shape == (9, 12)
    with pytest.raises(ValueError, match=r"on different grids \(t2m \(9, 12\), .* \(6, 10\)\)"):
        ef.regrid(field, tmp_path / "several.grib2")
    if parameter == 167:  # one name, twice
        with pytest.raises(NoSuchArrayError, match=r"has 't2m' on 2 grids, or kinds of levels"):
            ef.read(tmp_path / "several.grib2", variable="t2m")


def test_grib_refuses_what_it_cannot_say(tmp_path):
    with pytest.raises(ValueError, match="GRIB needs a date"):
        write(from_dataarray(weather()), tmp_path / "x.grib2")
    day = np.datetime64("2023-01-01", "ns")
    with pytest.raises(ValueError, match="has no place for axis 'number'"):
        write(from_dataarray(weather(number=[0, 1], time=day)), tmp_path / "x.grib2")
    assert list(tmp_path.iterdir()) == []


def test_a_gradient_is_no_temperature(tmp_path):
    field = ef.fit(from_dataarray(weather(time=np.datetime64("2023-01-01", "ns"))))
    slope = Rendering(field=field, quantity="gradient_magnitude").on(ef.OutputGrid(align="nodes"))
    write(slope, tmp_path / "x.grib2")
    assert grib_labels(tmp_path / "x.grib2", "dataDate", "paramId") == [(20230101, 0)]
