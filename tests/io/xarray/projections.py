"""Reference systems of DataArrays, checked in a process of their own by `test_conventions`."""

import sys

if "eccodes" in sys.argv:
    import eccodes  # noqa: F401

import numpy as np
import pytest
import rasterio
import xarray as xr
from rasterio.crs import CRS
from rasterio.warp import transform

import elmfield as ef
from elmfield.io.conventions import crs_of
from elmfield.io.export.map_targets import same_system

UTM = "EPSG:32633"


def convert(start, end, x, y):
    """Points of one system in another, by rasterio."""
    found = transform(start, end, np.ravel(x), np.ravel(y))
    return [np.reshape(c, np.shape(x)) for c in found]


def plane(x, y):
    """A function that is a plane on the map."""
    return (x - 5e5) / 100 + 2 * (y - 5e6) / 100


def utm_map(n=40):
    """A plane over 40 pixels of 100 m, as rioxarray marks its reference system."""
    y, x = 5e6 - 100 * np.arange(n), 5e5 + 100 * np.arange(n)
    da = xr.DataArray(plane(x, y[:, None]), dims=("y", "x"), coords={"y": y, "x": x})
    return da.assign_coords(spatial_ref=((), 0, {"crs_wkt": CRS.from_string(UTM).to_wkt()}))


def source():
    """A DataArray knows its own system."""
    da = utm_map()
    assert same_system(crs_of(da), UTM)
    assert crs_of(da.to_dataset(name="a")) == crs_of(da)
    assert crs_of(xr.DataArray(np.ones(3))) is None
    out = ef.regrid(da, crs="EPSG:4326", step=1e-3)
    x, y = convert("EPSG:4326", UTM, *np.meshgrid(out.x.values, out.y.values))
    inside = np.isfinite(out.values)
    assert inside.mean() > 0.8
    assert np.abs(out.values - plane(x, y))[inside].max() < 1e-6


def target(said):
    """So does a grid that is wanted."""
    da = utm_map()
    (lon,), (lat,) = convert(UTM, "EPSG:3035", [5.02e5], [4.998e6])
    y, x = lat + 20.0 * np.arange(7), lon + 20.0 * np.arange(5)
    like, options = xr.DataArray(np.zeros((7, 5)), dims=("y", "x"), coords={"y": y, "x": x}), {}
    told = {"crs_wkt": CRS.from_string("EPSG:3035").to_wkt()}
    if said == "crs":
        options["crs"] = "EPSG:3035"
    elif said == "CF":
        import pyproj

        told = pyproj.CRS.from_epsg(3035).to_cf()
        told.pop("crs_wkt")
    if said != "crs":
        like = like.assign_coords(laea=((), 0, told)).assign_attrs(grid_mapping="laea")
    out = ef.regrid(da, like, **options)
    u, v = convert("EPSG:3035", UTM, *np.meshgrid(x, y))
    assert np.abs(out.values - plane(u, v)).max() < 1e-4
    with pytest.raises(ValueError, match="`like` says its own reference system"):
        ef.regrid(da, da, crs="EPSG:3035")


def globe(crs, wide, high):
    """The whole globe goes to a map whole, and nothing lies beside it."""
    lat, lon = np.arange(90, -91, -3.0), np.arange(0, 360, 3.0)
    f = np.sin(np.radians(lat))[:, None] * np.cos(np.radians(2 * lon))
    da = xr.DataArray(f, dims=("latitude", "longitude"), coords={"latitude": lat, "longitude": lon})
    out = ef.regrid(da, crs=crs, grid=(60, 120))
    for c, end in ((out.x, wide), (out.y, high)):
        half = abs(float(c[1] - c[0])) / 2
        assert abs(float(c.min()) - half + end) < 2e-3 * end
        assert abs(float(c.max()) + half - end) < 2e-3 * end
    there = np.isfinite(out.values)
    assert 0.7 < there.mean() < 0.95
    x, y = np.meshgrid(out.x.values, out.y.values)
    lons, lats = convert(crs, "EPSG:4326", x[there], y[there])
    truth = np.sin(np.radians(lats)) * np.cos(np.radians(2 * lons))
    assert np.abs(out.values[there] - truth).max() < 2e-4


def endless():
    """A projection that has no end stops at its area of use."""
    lat, lon = np.arange(90, -91, -3.0), np.arange(0, 360, 3.0)
    da = xr.DataArray(np.ones((61, 120)), dims=("lat", "lon"), coords={"lat": lat, "lon": lon})
    out = ef.regrid(da, crs="EPSG:3413", step=1e5)
    assert 3.2e6 < float(out.x.max()) < 3.5e6
    assert np.isfinite(out.values).all()


def mapping_of_a_dataset():
    """A grid mapping that is a variable of a Dataset is that of its other variables."""
    import pyproj

    about = {k: v for k, v in pyproj.CRS(3035).to_cf().items() if k != "crs_wkt"}
    at = 1e4 * np.arange(8.0)
    da = xr.DataArray(np.eye(8), dims=("y", "x"), coords={"y": at, "x": at})
    da.attrs["grid_mapping"] = "laea"
    field = ef.fit(xr.Dataset({"v": da, "laea": xr.DataArray(0, attrs=about)}))
    assert "Lambert Azimuthal Equal Area" in field.labels.crs


def written():
    """Maps in another projection, to files and back."""
    lat, lon = np.arange(30, 71.0), np.arange(-15, 46.0)
    da = xr.DataArray(
        np.add.outer(lat, 0.5 * lon),
        dims=("latitude", "longitude"),
        coords={"latitude": lat, "longitude": lon},
        name="t",
    )
    field = ef.fit(da)
    got = ef.regrid(field, crs="EPSG:3035", step=250000.0)
    assert got.dims == ("y", "x")
    assert got.y[0] > got.y[-1]
    x, y = np.meshgrid(got.x, got.y)
    lo, la = (
        np.reshape(c, x.shape) for c in transform("EPSG:3035", "EPSG:4326", x.ravel(), y.ravel())
    )
    inside = (la > 30) & (la < 70) & (lo > -15) & (lo < 45)
    assert np.abs(got.values - (la + 0.5 * lo))[inside].max() < 1e-6
    outside = (la < 29.4) | (la > 70.6) | (lo < -15.6) | (lo > 45.6)
    assert np.isnan(got.values[outside]).all()
    assert outside.any()
    ef.write(field, "map.tif", crs="EPSG:3035", grid=(12, 15))
    with rasterio.open("map.tif") as file:
        assert file.crs.to_epsg() == 3035
        assert file.shape == (12, 15)
        assert file.transform.e < 0 < file.transform.a
        assert np.isnan(file.nodata)
    back = ef.fit("map.tif", missing="fill")
    again = ef.regrid(field, "map.tif")
    assert np.allclose(again, ef.read("map.tif").values, equal_nan=True)
    utm = ef.regrid(back, crs="EPSG:4326")
    assert utm.dims == ("y", "x")
    with pytest.raises(ValueError, match="`crs` must be a reference system"):
        ef.regrid(field, crs="EPSG:99999999")
    with pytest.raises(ValueError, match="needs a field that knows its own reference system"):
        ef.regrid(ef.fit(np.eye(20)), crs="EPSG:3035")
    means = ef.regrid(field, crs="EPSG:3035", step=250000.0, mean=True)
    assert np.nanmedian(np.abs(means - got)) < 0.01


def file():
    """Reading one loads PROJ's library in time, or so that it does not end in a crash."""
    utm_map().to_dataset(name="plane").to_netcdf("plane.nc")
    assert ef.read("plane.nc", variable="plane").shape == (40, 40)
    assert "gribapi" not in sys.modules or "pyproj" in sys.modules


file()
source()
written()
for said in ("itself", "crs", "CF"):
    target(said)
globe("ESRI:54030", 17.0059e6, 8.6252e6)  # Robinson
globe("EPSG:8857", 17.2440e6, 8.3929e6)  # Equal Earth
globe("ESRI:54009", 18.0401e6, 9.0200e6)  # Mollweide
endless()
mapping_of_a_dataset()
