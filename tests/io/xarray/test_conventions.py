"""What DataArrays say by their attributes: gaps, reference systems, means over cells."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef
from elmfield.field.coordinates.labels import AxisLabels
from elmfield.io.conventions import gaps_of, kind_of_samples, map_axes
from support import close, is_importable

xr = pytest.importorskip("xarray")


def marked(kind, fill, name="_FillValue", where="attrs", seed=0):
    """A DataArray of this dtype, some of whose numbers stand for missing ones; and which."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 100, (12, 15)).astype(kind)
    gone = rng.random(values.shape) < 0.2
    values[gone] = fill
    da = xr.DataArray(
        values, dims=("y", "x"), coords={"y": 40.0 - np.arange(12), "x": np.arange(15.0)}
    )
    getattr(da, where)[name] = np.asarray(fill, kind)[()]
    return da, gone


CASES = [(k, f) for k in ("int16", "int32", "uint8") for f in (0, 101, 200)]
CASES += [("int16", -9999), ("int32", -(2**31)), ("float32", -9999.0), ("float64", 1e20)]


@pytest.mark.parametrize("name", ["_FillValue", "missing_value"])
@pytest.mark.parametrize(("kind", "fill"), [c for c in CASES if c != ("uint8", 0)])
def test_the_number_for_missing_samples_goes_in_and_out(kind, fill, name):
    da, gone = marked(kind, fill, name)
    if fill == 0:
        gone = gone | (da.values == 0)
    field = ef.fit(da)
    assert np.array_equal(np.isnan(field.samples()), gone)
    back = field.to_xarray()
    if np.dtype(kind).kind == "f":
        assert np.array_equal(np.isnan(back.values), gone)
        assert back.encoding["_FillValue"] == np.asarray(fill, kind)
        close(back.values[~gone], da.values[~gone], 1e-4)
    else:
        assert back.dtype == kind
        assert back.attrs["_FillValue"] == fill
        assert np.array_equal(back.values, da.values)
    finer = ef.regrid(da, {"y": np.linspace(29, 40, 23), "x": np.linspace(0, 14, 29)})
    if np.dtype(kind).kind != "f":
        assert finer.dtype == kind
        assert finer.attrs["_FillValue"] == fill
        assert (finer.values == fill).mean() > 0.1


def test_a_decoded_array_keeps_how_its_file_had_it(tmp_path):
    pytest.importorskip("netCDF4")
    da, gone = marked("int16", -9999)
    da.rename("a").to_netcdf(tmp_path / "a.nc")
    opened = xr.open_dataset(tmp_path / "a.nc")["a"].load()
    back = ef.fit(opened).to_xarray()
    assert np.array_equal(np.isnan(back.values), gone)
    assert back.encoding["_FillValue"] == -9999
    assert back.encoding["dtype"] == "int16"
    back.to_netcdf(tmp_path / "b.nc")
    raw = xr.open_dataset(tmp_path / "b.nc", mask_and_scale=False)["a"]
    assert np.array_equal(raw.values, da.values)
    opened.close()


def test_a_lazy_array_has_gaps_too(tmp_path):
    pytest.importorskip("dask")
    da, gone = marked("int16", -9999)
    for given in (da, da.chunk(5)):
        field = ef.fit(given, out=tmp_path / f"{given.chunks is None}.elm.zarr")
        assert np.array_equal(np.isnan(field.samples()), gone)


def test_what_stands_for_nothing():
    assert gaps_of(xr.DataArray(np.ones(3))).fill is None
    assert gaps_of(xr.DataArray(np.ones(3), attrs={"_FillValue": "none"})).fill is None
    assert gaps_of(xr.DataArray(np.ones(3), attrs={"missing_value": np.nan})).fill is None


# --- reference systems ------------------------------------------------------------------------


def test_axes_of_a_map_by_what_they_say():
    told = {"rlat": {"standard_name": "grid_latitude"}, "rlon": {"axis": "X"}}
    assert map_axes(["t", "rlat", "rlon"], told) == ("rlat", "rlon")
    assert map_axes(["Y", "X"], {}) == ("Y", "X")
    assert map_axes(["lat", "lon", "y", "x"], {}) == ("lat", "lon")
    assert map_axes(["a", "b"], {}) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", [False, True], ids=["alone", "after ecCodes"])
def test_reference_systems_of_dataarrays(first, tmp_path):
    """In a process of its own: PROJ and ecCodes do not go together everywhere."""
    for package in ("pyproj", "rasterio", *(["eccodes"] if first else [])):
        if not is_importable(package):
            pytest.skip(f"{package} is not installed")
    script = Path(__file__).parent / "projections.py"
    way = ["eccodes"] if first else []
    ran = subprocess.run(
        [sys.executable, str(script), *way], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_a_grid_mapping_that_cannot_be_read_is_none(tmp_path):
    """Because it makes no sense, or because PROJ was loaded after ecCodes, which breaks it."""
    for package in ("pyproj", "eccodes"):
        if not is_importable(package):
            pytest.skip(f"{package} is not installed")
    script = """if True:
        import os, eccodes, pyproj, numpy as np, xarray as xr, elmfield as ef
        for name in ("latitude_longitude", "of nobody"):
            mapping = xr.DataArray(0, attrs={"grid_mapping_name": name})
            da = xr.DataArray(np.eye(9), dims=("y", "x"), coords={"m": mapping})
            ef.fit(da.assign_attrs(grid_mapping="m"))
        os._exit(0)  # the two end in a crash of their own
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], cwd=tmp_path, check=True)


# --- means ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "dims", "kind"),
    [
        ("area: mean", ("lat", "lon"), "means"),
        ("area: mean time: point", ("time", "lat", "lon"), "points"),
        ("area: time: mean", ("time", "lat", "lon"), "means"),
        ("time: mean (interval: 1 hour) area: mean", ("time", "lat", "lon"), "means"),
        ("lat: lon: mean", ("lat", "lon"), "means"),
        ("time: mean", ("time", "lat", "lon"), "points"),
        ("time: mean", ("time",), "means"),
        ("area: maximum", ("lat", "lon"), "points"),
        (None, ("lat", "lon"), "points"),
    ],
)
def test_cell_methods_say_what_samples_are(told, dims, kind):
    assert kind_of_samples(told, dims, {"time": AxisLabels(duration=True)}) == kind


def test_a_field_of_means_is_put_on_grids_as_means():
    rng = np.random.default_rng(0)
    coords = {"y": np.arange(12.0), "x": np.arange(16.0)}
    da = xr.DataArray(rng.normal(size=(12, 16)), dims=("y", "x"), coords=coords)
    field = ef.fit(da, samples="means")
    fine = ef.regrid(field, {"y": np.arange(24) / 2 - 0.25, "x": np.arange(32) / 2 - 0.25})
    again = fine.values.reshape(12, 2, 16, 2).mean(axis=(1, 3))
    close(again, da.values, 1e-12)
