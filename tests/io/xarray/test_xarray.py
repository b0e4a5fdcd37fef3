"""xarray in and out: names, coordinates, attributes; the backend; the accessor."""

import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield.field.coefficients.tiles import CodedTiles
from support import ROOT

xr = pytest.importorskip("xarray")

import elmfield.io.xarray  # noqa: E402  (registers the accessor)


def wave(lat, lon):
    return 280 + 15 * np.cos(np.deg2rad(lat))[:, None] * np.cos(3 * np.deg2rad(lon))


@pytest.fixture
def weather():
    """Descending latitude, periodic longitude, a date, units."""
    lat, lon = 88 - 4.0 * np.arange(45), 5.0 * np.arange(72)
    return xr.DataArray(
        wave(lat, lon),
        coords={
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
            "time": np.datetime64("2023-01-01T12", "ns"),
            "height": ((), 2.0, {"units": "m"}),
        },
        dims=("latitude", "longitude"),
        name="t2m",
        attrs={"units": "K", "long_name": "temperature"},
    )


def test_names_coordinates_and_attributes_are_kept(weather):
    back = ef.fit(weather).to_xarray()
    assert back.name == "t2m"
    assert back.dims == weather.dims
    assert back.attrs == weather.attrs
    for name in ("latitude", "longitude", "time", "height"):
        assert_array_equal(back[name], weather[name])
        assert back[name].attrs == weather[name].attrs
        assert back[name].dtype == weather[name].dtype
    assert_allclose(back, weather, atol=1e-8)


def test_they_survive_a_file(weather, tmp_path):
    ef.save(ef.fit(weather), tmp_path / "t2m.elm")
    back = ef.load(tmp_path / "t2m.elm").to_xarray()
    xr.testing.assert_allclose(back, weather, atol=1e-8)
    assert back.attrs == weather.attrs
    assert back.longitude.attrs == {"units": "degrees_east"}
    assert back.time.values == np.datetime64("2023-01-01T12")


def test_a_full_circle_of_longitudes_wraps(weather):
    field = ef.fit(weather)
    assert field.domain.periodic == (False, True)
    assert field.domain.axes[1].period == 360
    near = field.to_xarray({"latitude": [0.0], "longitude": [357.5, -2.5, 717.5]})
    assert_allclose(near, wave(np.zeros(1), np.asarray([357.5] * 3)), atol=5e-2)
    assert_array_equal(near[0, 0], near[0, 2])
    assert ef.fit(weather, periodic=()).domain.periodic == (False, False)
    assert ef.fit(weather[:, :40]).domain.periodic == (False, False)
    assert ef.fit(weather.rename(longitude="x"), periodic={"x": 360.0}).domain.periodic[1]


def test_evaluation_between_the_samples(weather):
    field = ef.fit(weather, ef.smooth(order=3))
    lat, lon = np.linspace(-60, 60, 25), np.linspace(10, 100, 40)
    got = field.to_xarray({"latitude": lat, "longitude": xr.DataArray(lon, dims="longitude")})
    assert_allclose(got, wave(lat, lon), atol=2e-3)
    assert_array_equal(got.latitude, lat)
    assert got.latitude.attrs == {"units": "degrees_north"}
    with pytest.raises(ValueError, match=r"`coords` names \['depth'\]"):
        field.to_xarray({"depth": [1.0]})
    with pytest.raises(ef.OutsideDomainError, match="latitude"):
        field.to_xarray({"latitude": [100.0]})
    assert np.isnan(field.to_xarray({"latitude": [100.0]}, outside="nan")).all()


def test_dates(tmp_path):
    time = np.datetime64("2020-02-27T00", "ns") + np.arange(40) * np.timedelta64(6, "h")
    hours = np.arange(40) * 6.0
    da = xr.DataArray(
        np.sin(hours / 30)[:, None] * np.ones(6), coords={"time": time}, dims=("time", "x")
    )
    field = ef.fit(da, ef.smooth(order=3))
    assert_array_equal(field.to_xarray().time, time)
    assert field.to_xarray().time.dtype == time.dtype
    assert "x" not in field.to_xarray().coords
    between = time[:-1] + np.timedelta64(3, "h")
    got = field.to_xarray({"time": between})
    assert_array_equal(got.time, between)
    assert_allclose(got[2:-2, 0], np.sin((hours[:-1] + 3) / 30)[2:-2], atol=2e-3)
    ef.save(field, tmp_path / "dates.elm")
    assert_array_equal(ef.load(tmp_path / "dates.elm").to_xarray({"time": between}), got)


YEARS = [(unit, year) for unit in ("s", "ms", "us") for year in ("0850", "0001", "-4000", "9999")]


@pytest.mark.parametrize(("unit", "year"), [*YEARS, ("ns", "1700")])
def test_dates_of_any_year_go_everywhere(unit, year, tmp_path):
    """Beyond 1678 and 2262 there are no nanoseconds: dates keep the unit in which they came."""
    days = (np.arange(20) * np.timedelta64(1, "D")).astype(f"m8[{unit}]")
    time = np.datetime64(year, unit) + days + np.timedelta64(7, unit)
    values = np.random.default_rng(0).random((20, 4), np.float32)
    da = xr.DataArray(values, coords={"time": time}, dims=("time", "x"), name="a")
    field = ef.fit(da, ef.smooth(order=2))
    ef.save(field, tmp_path / "a.elm")
    ef.save(ef.fit(da[:15], ef.smooth(order=2)), tmp_path / "a.elm.zarr")
    opened = xr.open_dataset(tmp_path / "a.elm", engine="elmfield")["a"].load()
    grown = ef.append(tmp_path / "a.elm.zarr", da[15:])
    for got in (field, ef.load(tmp_path / "a.elm"), grown):
        xr.testing.assert_identical(got.to_xarray(), da)
        assert got.to_xarray().time.dtype == time.dtype
    xr.testing.assert_identical(opened, da)
    part = field.crop([time[5], 0], [time[11], 3])
    assert_array_equal(part.to_xarray().time, time[5:12])
    for asked in (time[3:5], list(map(str, time[3:5]))):
        got = field.interp(time=asked)
        assert_array_equal(got.time, time[3:5])
        assert_allclose(got, values[3:5], atol=1e-5)
    assert str(time[0])[:10] in repr(ef.io.inputs.samples_of(da))
    pytest.importorskip("netCDF4")
    ef.write(field, tmp_path / "a.nc")
    coder = xr.coders.CFDatetimeCoder(time_unit=unit)
    with xr.open_dataset(tmp_path / "a.nc", decode_times=coder) as ds:
        xr.testing.assert_equal(ds["a"].load(), da)


def test_nanoseconds_over_centuries_come_back(tmp_path):
    """float64 tells nanoseconds apart for some months only."""
    time = np.array(["1700-01-01T00:00:00.123456789", "2200-06-01T12:00:00.987654321"], "M8[ns]")
    da = xr.DataArray([1.0, 2.0], coords={"time": time}, dims="time", name="a")
    field = ef.fit(da)
    ef.save(field, tmp_path / "a.elm.zarr")
    for got in (field, ef.load(tmp_path / "a.elm.zarr"), field.crop([time[0]], [time[1]])):
        assert_array_equal(got.to_xarray().time, time)
    later = time[1] + np.array([10**15 + 1, 2 * 10**15 + 3], "m8[ns]")
    grown = ef.append(tmp_path / "a.elm.zarr", da.assign_coords(time=later))
    assert_array_equal(grown.to_xarray().time, [*time, *later])
    with pytest.raises(ValueError, match=r"got 2200-.*T.* and then 1700-"):
        ef.append(tmp_path / "a.elm.zarr", da)


def test_durations_and_uneven_coordinates():
    step = (np.asarray([0, 1, 3, 6, 10, 15, 21, 28]) * 3600).astype("timedelta64[s]")
    da = xr.DataArray(np.arange(8.0) ** 2, coords={"step": step}, dims="step")
    field = ef.fit(da)
    assert_allclose(field.to_xarray(), da, atol=1e-9)
    assert_array_equal(field.to_xarray().step, step)
    assert field.to_xarray().step.dtype.kind == "m"


def test_channels(tmp_path):
    rng = np.random.default_rng(0)
    da = xr.DataArray(
        rng.random((3, 20, 24)).astype(np.float32),
        coords={"band": ["red", "green", "blue"], "y": 10.0 * np.arange(20)},
        dims=("band", "y", "x"),
    )
    field = da.elm.fit(channel_axis="band")
    assert field.model.n_channels == 3
    assert field.domain.dims == ("y", "x")
    back = field.to_xarray()
    assert back.dims == ("band", "y", "x")
    assert back.band.values.tolist() == ["red", "green", "blue"]
    assert back.dtype == np.float32
    assert_allclose(back, da, atol=1e-5)
    ef.save(field, tmp_path / "rgb.elm")
    assert ef.load(tmp_path / "rgb.elm").to_xarray().band.values.tolist() == [
        "red",
        "green",
        "blue",
    ]
    with pytest.raises(ValueError, match="`channel_axis` must be one of the axes"):
        ef.fit(da, channel_axis="colour")
    assert ef.fit(da).model.channel_axis == 0  # as rasters call it
    assert ef.fit(da.transpose("y", "x", "band")).model.channel_axis == 2
    numbered = da.assign_coords(band=[1, 2, 3])
    assert ef.fit(numbered, channel_axis="y").domain.dims == ("band", "x")
    assert ef.fit(numbered[:, 0, 0]).domain.dims == ("band",)
    with pytest.raises(ValueError, match=r"'band'; a field has one axis of them\. Fit one"):
        ef.fit(da.to_dataset(name="a"))
    da = da.rename(band="colour")
    with pytest.raises(TypeError, match="pass channel_axis='colour'"):
        ef.fit(da)
    with pytest.raises(ValueError, match="`channel_axis` names a dim, 'band', and an array has"):
        ef.fit(da.values, channel_axis="band")
    with pytest.raises(TypeError, match="`dims` comes from the DataArray"):
        ef.fit(da, dims=("a", "b", "c"), channel_axis="band")


def test_missing_values_stay_missing_or_are_filled(weather):
    holes = weather.where(np.random.default_rng(0).random(weather.shape) > 0.1)
    assert_allclose(ef.fit(holes).to_xarray(), holes, atol=1e-9)
    assert_allclose(ef.fit(holes).to_xarray(missing="fill"), weather, atol=0.5)
    assert_allclose(ef.fit(holes, missing="fill").to_xarray(), weather, atol=0.5)


@pytest.mark.slow
def test_the_accessor_is_there_without_asking():
    """Whichever is imported first, and also when a file was opened before."""
    script = """
        import numpy as np
        import elmfield as ef
        assert "xarray" not in __import__("sys").modules
        import xarray as xr
        import elmfield.io.xarray
        da = xr.DataArray(np.eye(20), dims=("y", "x"))
        assert da.elm.fit().shape == (20, 20)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)


def test_regrid_registers_the_accessor_that_it_uses():
    script = """
        import numpy as np, xarray as xr, elmfield as ef
        places = {"latitude": np.arange(85, -86, -10.0), "longitude": np.arange(0, 360, 10.0)}
        da = xr.DataArray(np.ones((2, 18, 36)), coords=places, dims=("t", *places))
        assert ef.regrid(xr.Dataset({"a": da, "b": da[0]}), grid=(9, 18))["b"].shape == (9, 18)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=120)


# --- the backend ----------------------------------------------------------------------------------


@pytest.fixture
def model(weather, tmp_path):
    path = tmp_path / "t2m.elm"
    ef.save(ef.fit(weather), path)
    return path


def test_a_model_of_a_crop_opens_at_the_samples_inside(tmp_path):
    values = np.random.default_rng(0).random((20, 12))
    coords = {"y": 2.0 * np.arange(20), "x": np.arange(12)}
    da = xr.DataArray(values, coords=coords, dims=("y", "x"), name="a")
    part = ef.fit(da).crop([10, 2], [20, 7])
    ef.save(part, tmp_path / "part.elm")
    found = xr.open_dataset(tmp_path / "part.elm", engine="elmfield")["a"]
    xr.testing.assert_identical(found.load(), part.to_xarray())
    found = xr.open_dataset(tmp_path / "part.elm", engine="elmfield")["a"]
    rows = xr.DataArray([0, 5, -1], dims="n")
    assert_array_equal(found[rows, rows].values, values[5:11, 2:8][[0, 5, 5], [0, 5, 5]])


def test_a_model_opens_as_a_dataset(model, weather):
    with xr.open_dataset(model, engine="elmfield") as ds:
        assert list(ds.data_vars) == ["t2m"]
        assert ds.t2m.attrs == weather.attrs
        xr.testing.assert_allclose(ds.t2m, weather, atol=1e-8)
    assert xr.open_dataset(model).t2m.shape == weather.shape  # guessed by its name
    assert xr.open_dataset(model, drop_variables=["height"]).coords.keys() == {
        "latitude", "longitude", "time",
    }  # fmt: skip


@pytest.mark.parametrize(
    "pick",
    [
        lambda a: a.sel(latitude=20.0, longitude=35.0),
        lambda a: a.sel(latitude=slice(40, -40), longitude=slice(100, 200)),
        lambda a: a.sel(latitude=[60, 20, -20], method="nearest"),
        lambda a: a.sel(latitude=21.3, method="nearest"),
        lambda a: a.isel(latitude=-1),
        lambda a: a.isel(latitude=slice(None, None, -3), longitude=[5, 1, 1]),
        lambda a: a.isel(latitude=[1, 2], longitude=[3, 4, 5]),
        lambda a: a.isel(
            latitude=xr.DataArray([1, 2, -3], dims="p"), longitude=xr.DataArray([7, 0, 9], dims="p")
        ),
        lambda a: a.isel(latitude=xr.DataArray([[1, 2], [3, 4]], dims=("p", "q"))),
        lambda a: a.isel(latitude=slice(0, 0)),
        lambda a: a.interp(latitude=[1.0, 2.5], longitude=[7.5, 9.0]),
        lambda a: a.mean("longitude"),
        lambda a: a.transpose("longitude", "latitude")[3:5],
        lambda a: a.where(a > 285),
    ],
)
def test_indexing(model, weather, pick):
    lazy = xr.open_dataset(model, engine="elmfield").t2m
    expected = pick(weather)
    got = pick(lazy)
    assert got.dims == expected.dims
    assert got.shape == expected.shape
    xr.testing.assert_allclose(got, expected, atol=1e-8)


def test_points_are_not_turned_into_grids(weather, tmp_path, monkeypatch):
    """Many single points of a function cost their number, not its square."""
    ef.save(ef.fit(weather, ef.smooth(per_region=20)), tmp_path / "modes.elm")
    lazy = xr.open_dataset(tmp_path / "modes.elm", engine="elmfield").t2m
    seen = []
    own = ef.Field.__call__
    monkeypatch.setattr(
        ef.Field, "__call__", lambda f, x, **k: seen.append(len(x)) or own(f, x, **k)
    )
    n = 30
    at = {d: xr.DataArray(np.arange(n), dims="p") for d in ("latitude", "longitude")}
    assert lazy.isel(at).load().shape == (n,)
    assert seen == [n]


@pytest.mark.thorough
def test_points_of_a_large_file_are_taken_tile_by_tile(tmp_path, monkeypatch):
    """Samples are picked out of their tiles, each decoded once; nothing is evaluated."""
    values = np.random.default_rng(0).integers(0, 9, (1200, 900)).astype(np.float64)
    tiling = ef.fit(
        values, ef.smooth(order=2), out=tmp_path / "a.elm"
    ).model.blended.source_samples.tiles.tiling
    assert tiling.n_tiles > 3
    lazy = xr.open_dataset(tmp_path / "a.elm", engine="elmfield").field
    seen, own = [], CodedTiles.decode
    monkeypatch.setattr(CodedTiles, "decode", lambda d, n: seen.extend(n) or own(d, n))
    monkeypatch.setattr(ef.Field, "__call__", None)
    rows, columns = np.array([-1, 3, 4, 700, 5]), np.array([899, 3, 3, 2, 4])
    at = {d: xr.DataArray(i, dims="p") for d, i in zip(lazy.dims, (rows, columns))}
    assert_array_equal(lazy.isel(at), values[rows, columns])
    tiles = {(r % 1200 // tiling.tile[0], c // tiling.tile[1]) for r, c in zip(rows, columns)}
    assert len(seen) == len(tiles) < tiling.n_tiles
    seen.clear()
    assert_array_equal(lazy[700:702, 5:9], values[700:702, 5:9])
    assert len(seen) <= 1


def test_dask_chunks(model, weather):
    pytest.importorskip("dask")
    for chunks in ({}, {"latitude": 7, "longitude": 20}):
        lazy = xr.open_dataset(model, engine="elmfield", chunks=chunks).t2m
        assert lazy.chunks is not None
        xr.testing.assert_allclose(lazy.compute(scheduler="threads"), weather, atol=1e-8)
        assert_allclose(lazy.mean().compute(scheduler="threads"), weather.mean(), atol=1e-8)


def _mean(ds):
    return float(ds.t2m.mean())


@pytest.mark.slow
def test_a_dataset_goes_through_a_pool_of_processes(model, weather):
    ds = xr.open_dataset(model, engine="elmfield")
    again = pickle.loads(pickle.dumps(ds))
    xr.testing.assert_allclose(again.t2m, weather, atol=1e-8)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(_mean, ds).result(timeout=120) == pytest.approx(float(weather.mean()))


def test_channels_of_a_dataset(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.random((20, 24, 3))
    ef.save(ef.fit(values, channel_axis=-1), tmp_path / "rgb.elm")
    ds = xr.open_dataset(tmp_path / "rgb.elm", engine="elmfield")
    assert ds.field.dims == ("axis0", "axis1", "channel")
    assert_allclose(ds.field.isel(channel=1), values[..., 1], atol=1e-9)
    assert_allclose(ds.field.isel(channel=[2, 0], axis0=3), values[3][:, [2, 0]], atol=1e-9)
    p = xr.DataArray([0, 1, 2], dims="p")
    assert_allclose(ds.field.isel(axis0=p, axis1=p, channel=p), values[p, p, p], atol=1e-9)
    assert_allclose(
        ds.field.isel(axis0=p, axis1=p).transpose("p", "channel"), values[p, p], atol=1e-9
    )


def test_a_finer_dataset(model, weather):
    ds = xr.open_dataset(model, engine="elmfield", scale=2)
    assert ds.t2m.shape == (89, 144)
    assert_allclose(ds.latitude[::2], weather.latitude, atol=1e-9)
    assert_allclose(ds.longitude[::2], weather.longitude, atol=1e-9)
    assert_allclose(ds.t2m[::2, ::2], weather, atol=1e-8)


def test_a_dataset_can_be_written_elsewhere(model, weather, tmp_path):
    pytest.importorskip("netCDF4")
    xr.open_dataset(model, engine="elmfield").to_netcdf(tmp_path / "t2m.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "t2m.nc", engine="netcdf4") as ds:
        xr.testing.assert_allclose(ds.t2m, weather, atol=1e-8)
        assert ds.t2m.attrs["units"] == "K"


@pytest.mark.thorough
def test_a_map_of_temperatures_comes_back_bit_for_bit(data, tmp_path):
    """93 141 of 1 038 240 numbers once differed, by up to 5e-5 K."""
    with xr.open_dataset(data / "era5" / "era5_t2m_20230101T12_winter.nc") as ds:
        da = ds[next(iter(ds.data_vars))].load()
    field = ef.fit(da)
    ef.save(field, tmp_path / "a.elm")
    opened = xr.open_dataset(tmp_path / "a.elm", engine="elmfield")[da.name].load()
    for got in (field.to_xarray(), ef.load(tmp_path / "a.elm").to_xarray(), opened):
        assert got.dtype == np.float32
        assert np.array_equal(got.values.view(np.uint32), da.values.view(np.uint32))
        for name in da.dims:
            assert_array_equal(got[name], da[name])


def test_whole_numbers_stay_whole(tmp_path):
    """int16 once came back as float64, off by 1e-10."""
    values = np.random.default_rng(0).integers(-3000, 9000, (40, 50)).astype(np.int16)
    da = xr.DataArray(values, dims=("y", "x"), name="height")
    ef.save(ef.fit(da), tmp_path / "a.elm")
    with xr.open_dataset(tmp_path / "a.elm", engine="elmfield") as ds:
        xr.testing.assert_identical(ds["height"].load(), da)
        lazy = xr.open_dataset(tmp_path / "a.elm", engine="elmfield", chunks={"y": 7})["height"]
        assert lazy.dtype == np.int16
        xr.testing.assert_identical(lazy.compute(scheduler="sync"), da)
    xr.testing.assert_identical(ef.fit(da).to_xarray(chunks={}).compute(scheduler="sync"), da)
    gaps = ef.fit(da.where(da > -2500))  # which are floats, as xarray has them
    xr.testing.assert_identical(gaps.to_xarray(), da.where(da > -2500))
    masked = ef.fit(values, mask=values < -2500, missing="nan").samples()
    assert masked.dtype == np.float64
    assert_array_equal(masked, np.where(values < -2500, np.nan, values))
    pytest.importorskip("netCDF4")
    ef.write(ef.load(tmp_path / "a.elm"), tmp_path / "a.nc")
    with xr.open_dataset(tmp_path / "a.nc") as ds:
        assert_array_equal(ds["height"], values)
        assert ds["height"].dtype == np.int16


def test_dims_may_be_numbers():
    values = np.random.default_rng(0).random((20, 24))
    numbered = xr.DataArray(values, dims=[0, 1])
    assert ef.fit(numbered).domain.dims == ("0", "1")
    assert ef.fit(numbered, periodic=1).domain.periodic == (False, True)
    assert ef.fit(numbered, periodic=[0]).domain.periodic == (True, False)
    assert ef.fit(numbered, periodic={0: 25.0}).domain.axes[0].period == 25
    assert ef.fit(numbered, channel_axis=0).domain.dims == ("1",)
    swapped = xr.DataArray(values, dims=[1, 0])  # the name counts before the number
    assert ef.fit(swapped, periodic=1).domain.periodic == (True, False)
    named = xr.DataArray(values, dims=["y", "x"])
    assert ef.fit(named, periodic=-1).domain.periodic == (False, True)
    with pytest.raises(ValueError, match=r"`periodic` names .*5.* are \['y', 'x'\]"):
        ef.fit(named, periodic=5)


def test_the_page_runs_as_written(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "files.md").read_text()
    block = page.split("## xarray")[1].split("```python")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block, names)
    assert names["fine"].dims == ("latitude", "longitude")
    assert names["fine"].attrs["units"] == "degC"
    assert names["ds"].sst.sizes["latitude"] == 121
    assert names["field"].model.n_channels == 2


def test_the_page_about_files_runs_as_written(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "files.md").read_text()
    block = page.split("## Formats")[1].split("```python")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(block, names)
    assert_array_equal(names["values"], names["rgb"])
    assert ef.read("large.png").shape == (120, 160)
    assert ef.read("detail.npy").values.shape == (160, 320, 3)
    assert names["detail"].shape == (161, 321, 3)
