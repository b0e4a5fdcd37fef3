"""Target grids: like another, of a step, of so many cells, means over them, other projections."""

import sys

import numpy as np
import pytest

import elmfield as ef
from elmfield.errors import MissingExtraError
from elmfield.field.coordinates.labels import AxisLabels, Labels
from elmfield.io.export import map_targets
from oracles.earth import area_mean, conservative
from support import close

xr = pytest.importorskip("xarray")


def values(lat, lon):
    f, l = np.deg2rad(lat)[:, None], np.deg2rad(lon)
    return 280 + 20 * np.cos(f) * np.cos(2 * l) + 5 * np.sin(3 * f)


@pytest.fixture(scope="module")
def world():
    lat, lon = np.arange(90, -90.1, -2.0), np.arange(0, 360, 2.0)
    return xr.DataArray(
        values(lat, lon),
        dims=("latitude", "longitude"),
        coords={
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
        },
        name="t2m",
        attrs={"units": "K"},
    )


@pytest.fixture(scope="module")
def field(world):
    return ef.fit(world)


def test_so_many_cells(field):
    got = ef.regrid(field, grid=(180, 360))
    np.testing.assert_allclose(got.latitude, np.arange(89.5, -90, -1))
    np.testing.assert_allclose(got.longitude, np.arange(360.0))
    np.testing.assert_allclose(got, values(got.latitude.values, got.longitude.values), atol=0.01)
    assert got.attrs["units"] == "K"
    assert got.latitude.attrs["units"] == "degrees_north"


def test_a_step(field):
    got = ef.regrid(field, step=0.5)
    np.testing.assert_allclose(got.latitude, np.arange(90, -90.1, -0.5))
    np.testing.assert_allclose(got.longitude, np.arange(0, 360, 0.5))
    np.testing.assert_allclose(got[::4, ::4], field.to_xarray(), atol=1e-9)
    areas = ef.regrid(field, step=(5, 10), align="areas")
    np.testing.assert_allclose(areas.latitude, np.arange(87.5, -90, -5))
    assert areas.longitude.size == 36
    with pytest.raises(ValueError, match="must divide the period of axis 'longitude', 360; got 7"):
        ef.regrid(field, step=7)
    with pytest.raises(ValueError, match="`step` must be one number or one per axis, 2; got"):
        ef.regrid(field, step=(1, 2, 3))
    with pytest.raises(
        ValueError, match="`grid` must be 2 whole numbers of at least 1, one per axis; got"
    ):
        ef.regrid(field, grid=(0, 5))


@pytest.mark.thorough
def test_like_something_else(field, world, tmp_path):
    other = xr.DataArray(np.zeros((3, 4)), dims=("lat", "lon"),
                         coords={"lat": [-10.0, 0.5, 11], "lon": [-20.0, 0, 20, 40]})  # fmt: skip
    expected = field.grid([-10.0, 0.5, 11], [-20.0, 0, 20, 40])
    for like in (
        other,
        other.to_dataset(name="z"),
        {"latitude": other.lat, "longitude": other.lon},
    ):
        got = ef.regrid(field, like)
        assert got.dims == ("latitude", "longitude")
        np.testing.assert_allclose(got, expected)
    pytest.importorskip("netCDF4")
    other.to_dataset(name="z").to_netcdf(tmp_path / "z.nc")
    np.testing.assert_allclose(ef.regrid(field, tmp_path / "z.nc"), expected)
    np.testing.assert_allclose(ef.regrid(world, ef.fit(other)), expected, rtol=1e-9)
    ef.save(ef.fit(other), tmp_path / "z.elm")
    np.testing.assert_allclose(ef.regrid(field, tmp_path / "z.elm"), expected)
    np.testing.assert_allclose(ef.regrid(field, ef.read(tmp_path / "z.nc")), expected)


def test_beyond_the_field_there_is_nothing(world):
    part = ef.fit(world.sel(latitude=slice(40, -40)))
    got = ef.regrid(part, {"latitude": np.arange(-60, 61, 10.0)})
    assert np.isnan(got.sel(latitude=[-60, -50, 50, 60])).all()
    assert np.isfinite(got.sel(latitude=slice(-40, 40))).all()
    means = ef.regrid(part, {"latitude": np.arange(-60, 61, 10.0)}, mean=True)
    assert np.array_equal(np.isnan(means), np.isnan(got))
    with pytest.raises(ValueError, match="the target grid lies outside the field on axis"):
        ef.regrid(part, {"latitude": [80.0, 85.0]}, mean=True)


def test_means_conserve(field, world):
    whole = ef.sphere(field).mean()
    for options in ({"grid": (18, 36)}, {"step": 10.0}, {"step": 5.0, "align": "areas"}):
        got = ef.regrid(field, mean=True, **options)
        lat = got.latitude.values
        half = abs(lat[1] - lat[0]) / 2
        edges = np.clip(np.append(lat + half, lat[-1] - half), -90, 90)[::-1]
        lon = np.linspace(0, 360, got.longitude.size + 1)
        np.testing.assert_allclose(area_mean(got.values[::-1], edges, lon), whole, rtol=1e-12)
    got = ef.regrid(field, grid=(18, 36), mean=True)
    old = np.clip(np.arange(-91, 92, 2.0), -90, 90)
    theirs = conservative(
        np.roll(world.values[::-1], 2, axis=1), old, np.arange(-5, 356, 2.0),
        np.arange(-90, 91, 10.0), np.arange(-5, 356, 10.0),
    )  # fmt: skip
    np.testing.assert_allclose(got.values[::-1], theirs, atol=0.2)


def test_bounds_of_a_target_are_its_cells(field):
    like = xr.Dataset(
        coords={
            "lat": ("lat", [-50.0, 0.0, 70.0], {"bounds": "lat_bnds"}),
            "lat_bnds": (("lat", "nv"), [[-90.0, -30], [-30, 40], [40, 90]]),
        }
    )
    got = ef.regrid(field, like, mean=True)
    expected = ef.sphere(field).means({"latitude": [-90, -30, 40, 90]})
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_means_past_land(world):
    sea = world.where((world.longitude < 100) | (world.longitude > 200))
    got = ef.regrid(sea, grid=(18, 36), mean=True)
    gone = np.isnan(got).values
    assert np.array_equal(gone.all(axis=0), gone.any(axis=0))
    assert gone[0].sum() in (10, 11)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "say which grid: one of `like`, `step`, `grid` and `crs`"),
        (
            {"step": 1, "grid": (2, 2)},
            ValueError,
            "only one of like, step, grid can be asked for; got",
        ),
        ({"like": {"depth": [0.0, 1]}}, ValueError, "`like` has no axis of the field's"),
        ({"like": 7}, TypeError, "`like` must be a file, a DataArray or Dataset"),
        ({"grid": (2, 2), "mean": True, "quantity": "gradient"}, ValueError, "means are of values"),
    ],
)
def test_wrong_targets(field, options, error, message):
    with pytest.raises(error, match=message):
        ef.regrid(field, **options)


def test_curvilinear_targets_need_both_coordinates(field):
    like = xr.Dataset(coords={"lat": (("y", "x"), np.zeros((2, 3))), "lon": [0.0, 1.0]})
    with pytest.raises(ValueError, match=r"a curvilinear grid needs coordinates of two dims"):
        ef.regrid(field, like)


def test_not_two_grids_at_once(field, tmp_path):
    with pytest.raises(ValueError, match="say `scale` or a target grid, not both"):
        ef.write(field, tmp_path / "x.npy", scale=2, step=1.0)
    with pytest.raises(TypeError, match="`step` is for a Field"):
        ef.write(np.eye(3), tmp_path / "x.npy", step=1.0)


# --- projections ----------------------------------------------------------------------------------


def test_what_proj_says_is_said(monkeypatch):
    """No database is to be found: the reference system that was asked for is not to blame."""

    class Broken:
        class CRS:
            @staticmethod
            def from_user_input(crs):
                raise RuntimeError(f"Invalid projection: {crs}: (no database context specified)")

    monkeypatch.setattr(map_targets, "_pyproj", lambda crs: Broken)
    message = "no reference system can be looked up: PROJ says .*no database .*import pyproj"
    with pytest.raises(ValueError, match=message):
        map_targets.same_system("EPSG:3035", "EPSG:4326")


def test_a_missing_package_is_named(field, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyproj", None)
    with pytest.raises(MissingExtraError, match=r"EPSG:3035, needs pyproj; pip install 'elmfield"):
        ef.regrid(field, crs="EPSG:3035", step=1e5)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", [False, True])
def test_maps_of_the_earth_are_north_up(world, up, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    da = world.sortby("latitude", ascending=up)
    ef.write(ef.fit(da), tmp_path / "t.tif")
    with rasterio.open(tmp_path / "t.tif") as file:
        assert file.crs.to_epsg() == 4326
        np.testing.assert_allclose(file.transform[:6], [2, 0, -1, 0, -2, 91])
        np.testing.assert_allclose(file.read(1), world.values, rtol=1e-9)
        x, y = file.xy(0, 0)
        assert (x, y) == (0, 90)
    ef.write(ef.fit(da), tmp_path / "t.png")
    ef.write(ef.fit(world), tmp_path / "north.png")
    assert (tmp_path / "t.png").read_bytes() == (tmp_path / "north.png").read_bytes()
    back = ef.read(tmp_path / "t.tif")
    np.testing.assert_allclose(back.coords["y"], world.latitude)


def test_netcdf_says_what_was_done(world, tmp_path):
    pytest.importorskip("netCDF4")
    ds = world.to_dataset().assign_attrs(institution="here", history="before")
    ds.to_netcdf(tmp_path / "in.nc")
    ef.write(ef.fit(tmp_path / "in.nc"), tmp_path / "out.nc", scale=2)
    with xr.open_dataset(tmp_path / "out.nc") as back:
        assert back.attrs["Conventions"].startswith("CF-")
        assert back.attrs["institution"] == "here"
        first, second = back.attrs["history"].split("\n")
        assert f"written by elmfield {ef.__version__}" in first
        assert second == "before"


@pytest.mark.slow
def test_era5_to_geotiff_and_back(data, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    path = data / "era5" / "era5_t2m_20230101T12_winter.nc"
    field = ef.fit(path)
    ef.save(field, tmp_path / "t2m.elm")
    ef.write(ef.load(tmp_path / "t2m.elm"), tmp_path / "t2m.tif")
    with xr.open_dataset(path) as ds, rasterio.open(tmp_path / "t2m.tif") as file:
        t2m = ds["t2m"].squeeze()
        assert file.crs.to_epsg() == 4326
        assert file.dtypes == ("float32",)
        np.testing.assert_allclose(file.transform[:6], [0.25, 0, -0.125, 0, -0.25, 90.125])
        assert np.abs(file.read(1) - t2m.values).max() < 2e-3
        row, column = file.index(16.4, 48.2)
        assert abs(float(t2m[row, column].latitude) - 48.2) <= 0.125
        assert file.tags()["units"] == "K" or file.units == ("K",)


@pytest.mark.slow
def test_sentinel_s_nodata_comes_back(data, tmp_path):
    rasterio = pytest.importorskip("rasterio")
    (path,) = sorted((data / "dem").glob("*.tif"))
    with rasterio.open(path) as file:
        raw, profile = file.read(1), file.profile
    gone = raw == profile["nodata"] if profile["nodata"] is not None else np.zeros(raw.shape, bool)
    ef.write(ef.fit(path), tmp_path / "dem.tif")
    with rasterio.open(tmp_path / "dem.tif") as file:
        assert file.dtypes[0] == profile["dtype"]
        assert file.nodata == profile["nodata"]
        assert file.crs == profile["crs"]
        assert np.array_equal(file.read(1) == file.nodata, gone)


def test_any_file_of_the_grid_will_do(field, tmp_path):
    pytest.importorskip("netCDF4")
    at = {"lat": [-10.0, 0.5, 11], "lon": [-20.0, 0, 20, 40]}
    several = xr.Dataset(
        {"a": (("lat", "lon"), np.zeros((3, 4))), "b": ("lat", np.zeros(3))}, coords=at
    )
    several.to_netcdf(tmp_path / "several.nc")
    assert ef.regrid(field, tmp_path / "several.nc").shape == (3, 4)
    with pytest.raises(FileNotFoundError, match="no file"):
        ef.regrid(field, tmp_path / "other.nc")


@pytest.mark.slow
def test_grib_and_zarr_say_what_is_missing(world, tmp_path):
    pytest.importorskip("eccodes")
    pytest.importorskip("zarr")
    sea = world.where(world.longitude < 200).assign_coords(time=np.datetime64("2020-01-01", "ns"))
    ef.write(ef.fit(sea), tmp_path / "sea.grib2")
    back = ef.read(tmp_path / "sea.grib2")
    assert np.array_equal(np.isnan(back.values), np.isnan(sea.values))
    assert np.nanmax(np.abs(back.values - sea.values)) < 1e-3
    ef.write(ef.fit(sea), tmp_path / "sea.zarr")
    assert np.array_equal(np.isnan(ef.read(tmp_path / "sea.zarr").values), np.isnan(sea.values))


def test_a_quantity_is_what_was_asked_for_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    units = {"units": "s"}
    labels = Labels(rate=100, axes={"time": AxisLabels(attrs=units)})
    seconds = {"time": np.arange(200) / 100}
    sound = ef.Gridded(values=rng.random(200), dims=("time",), coords=seconds, labels=labels)
    field = ef.fit(sound)
    ef.write(field, tmp_path / "slopes.npy", shape=200, quantity="gradient_magnitude")
    slopes = np.abs(field.gradient(seconds["time"][:, None])[:, 0])
    close(np.load(tmp_path / "slopes.npy"), slopes, 1e-9)
    axes = {name: 2.0 * np.arange(8) for name in "ijk"}
    labels = Labels(affine=np.diag([2.0, 2.0, 2.0, 1.0]).tolist())
    scan = ef.Gridded(values=rng.random((8, 8, 8)), dims=tuple("ijk"), coords=axes, labels=labels)
    with pytest.raises(ValueError, match="`like` is for values; got quantity='laplacian'"):
        ef.write(ef.fit(scan), tmp_path / "scan.nii", like=scan, quantity="laplacian")


def test_means_at_places_are_values_there_without_antialias(tmp_path):
    values = np.random.default_rng(0).random(30)
    field = ef.fit(values, samples="means", dims=("x",), coords=[np.arange(30.0)])
    places = np.linspace(3, 20, 6)
    ef.write(field, tmp_path / "few.npy", like={"x": places}, antialias=False)
    close(np.load(tmp_path / "few.npy"), field(places[:, None]), 1e-12)
    ef.write(field, tmp_path / "few.npy", like={"x": places})
    assert np.abs(np.load(tmp_path / "few.npy") - field(places[:, None])).max() > 0.01
