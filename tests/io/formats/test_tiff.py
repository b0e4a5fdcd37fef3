"""TIFF: stacks, palettes, and maps with their coordinates."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield import read, write
from elmfield.errors import MissingExtraError
from elmfield.io.export.rendering import Rendering
from scans import plain_grid

RNG = np.random.default_rng(0)


def test_tiff_stacks(tmp_path):
    values = RNG.random((4, 9, 11)).astype(np.float32)
    write(plain_grid(values, ("depth", "row", "column")), tmp_path / "x.tif")
    back = read(tmp_path / "x.tif")
    assert_array_equal(back.values, values)
    assert back.channel_axis is None


def test_a_tilted_map_keeps_its_transform(tmp_path):
    pytest.importorskip("rasterio")
    transform = [8.0, 3.0, 500000.0, 2.0, -9.0, 4000000.0]
    about = {"transform": transform, "crs": "EPSG:32633", "align": "areas", "fill_value": -1}
    values = RNG.random((20, 24)).astype(np.float32)
    samples = plain_grid(values, ("y", "x"), **about)
    write(samples, tmp_path / "x.tif")
    back = read(tmp_path / "x.tif")
    assert back.labels.transform == transform
    assert "33N" in back.labels.crs
    assert back.coords == {}
    # At twice the resolution every pixel is four; corners stay where they were.
    fine = Rendering(field=ef.fit(back)).on(ef.OutputGrid(scale=2))
    write(fine, tmp_path / "y.tif")
    a, b, c, d, e, f = read(tmp_path / "y.tif").labels.transform
    assert_allclose([a, b, c, d, e, f], [4, 1.5, 500000, 1, -4.5, 4000000])


def test_gaps_in_a_map_are_missing_samples(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    values = np.fromfunction(lambda i, j: 100 + i + j, (20, 24)).astype(np.int16)
    holes = values.copy()
    holes[5:8, 6:9] = -999
    about = {"transform": [1.0, 0, 7.0, 0, -1.0, 50.0], "crs": "EPSG:4326", "fill_value": -999}
    write(plain_grid(holes, ("y", "x"), **about), tmp_path / "x.tif")
    samples = read(tmp_path / "x.tif")
    assert np.isnan(samples.values).sum() == 9
    field = ef.fit(samples)
    assert_allclose(field.samples(missing="fill"), values, atol=0.05)
    write(Rendering(field=field).on(ef.OutputGrid()), tmp_path / "y.tif")  # and stay so
    with rasterio.open(tmp_path / "y.tif") as file:
        assert file.nodata == -999
        assert np.array_equal(file.read(1), holes)
        assert file.dtypes == ("int16",)


def test_scale_and_offset_of_a_map_are_applied(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    raw = np.full((2, 20, 24), 1000, np.int16)
    raw[:, 5, 6] = -9
    profile = {
        "driver": "GTiff", "height": 20, "width": 24, "count": 2, "dtype": "int16", "nodata": -9,
        "crs": "EPSG:4326", "transform": rasterio.Affine(1, 0, 7, 0, -1, 50),
    }  # fmt: skip
    with rasterio.open(tmp_path / "x.tif", "w", **profile) as file:
        file.write(raw)
        file.scales, file.offsets = (0.1, 2.0), (273.15, -2010.0)
    samples = read(tmp_path / "x.tif")
    assert np.isnan(samples.values).sum() == 2
    assert_allclose(samples.values[:, 0, 0], [373.15, -10])
    field = ef.fit(samples)
    assert_allclose(field([45.5, 9.0]), [373.15, -10])
    # Written as they are: a value may be what marked a gap before.
    whole = Rendering(field=field).on(ef.OutputGrid(scale=2))
    whole.values[1] += 1
    write(whole, tmp_path / "y.tif")
    assert_allclose(read(tmp_path / "y.tif").values[:, 3, 3], [373.15, -9])


@pytest.mark.parametrize("depth", [1, 257])
def test_palettes_become_colours(tmp_path, depth):
    tifffile = pytest.importorskip("tifffile")
    table = RNG.integers(0, 256, (3, 256)).astype(np.uint16)
    index = RNG.integers(0, 256, (9, 11), np.uint8)
    given = table * 256 if depth == 1 else table * 257 + (np.arange(256) == 7)
    tifffile.imwrite(
        tmp_path / "x.tif", index, photometric="palette", colormap=given.astype(np.uint16)
    )
    back = read(tmp_path / "x.tif")
    assert back.channel_axis == 2
    if depth == 1:
        assert back.values.dtype == np.uint8
        assert_array_equal(back.values, np.moveaxis(table[:, index], 0, -1))
    else:  # not made from 8 bits: all 16 stay
        assert_array_equal(back.values, np.moveaxis(given[:, index], 0, -1))


def test_a_map_keeps_its_numbers_and_their_colours(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    profile = {
        "driver": "GTiff", "height": 20, "width": 24, "count": 1, "dtype": "uint8",
        "crs": "EPSG:4326", "transform": rasterio.Affine(1, 0, 7, 0, -1, 50),
    }  # fmt: skip
    kinds = RNG.integers(0, 5, (20, 24), np.uint8)
    with rasterio.open(tmp_path / "x.tif", "w", **profile) as file:
        file.write(kinds[None])
        file.write_colormap(1, {3: (255, 0, 9, 255)})
    samples = read(tmp_path / "x.tif")
    assert_array_equal(samples.values, kinds)
    field = ef.fit(samples)
    ef.save(field, tmp_path / "x.elm")
    again = ef.load(tmp_path / "x.elm")
    write(Rendering(field=again, dtype="uint8").on(ef.OutputGrid()), tmp_path / "y.tif")
    with rasterio.open(tmp_path / "y.tif") as file:
        assert file.colormap(1)[3] == (255, 0, 9, 255)
        assert_array_equal(file.read(1), kinds)


@pytest.mark.parametrize("kind", ["uint8", "uint16", "bool"])
def test_where_white_is_least_it_is_turned_round(tmp_path, kind):
    tifffile = pytest.importorskip("tifffile")
    values = RNG.integers(0, 2, (9, 16)).astype(kind)
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="miniswhite")
    most = {"uint8": 255, "uint16": 65535, "bool": 1}[kind]
    back = read(tmp_path / "x.tif").values
    assert back.dtype == kind
    assert_array_equal(back.astype(int), most - values.astype(int))


def test_a_map_without_rasterio_is_not_read_as_a_picture(tmp_path, monkeypatch):
    pytest.importorskip("rasterio")
    about = {"transform": [1.0, 0, 7.0, 0, -1.0, 50.0], "crs": "EPSG:4326"}
    write(plain_grid(np.eye(8), ("y", "x"), **about), tmp_path / "x.tif")
    monkeypatch.setitem(sys.modules, "rasterio", None)
    with pytest.raises(MissingExtraError, match=r"map coordinates needs rasterio; .*\[geo\]"):
        read(tmp_path / "x.tif")


SIZES = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.25, "PhysicalSizeZ": 1.5, "TimeIncrement": 0.1}


def test_microscopes_sizes_come_and_go(tmp_path):
    """OME's sizes, units, frame interval and names of channels, through a fit too."""
    tifffile = pytest.importorskip("tifffile")
    about = {
        "axes": "TZCYX", **SIZES, "PhysicalSizeXUnit": "nm", "PhysicalSizeYUnit": "nm",
        "PhysicalSizeZUnit": "nm", "TimeIncrementUnit": "ms", "Channel": {"Name": ["red", "blue"]},
    }  # fmt: skip
    values = RNG.integers(0, 999, (3, 4, 2, 8, 9)).astype("u2")
    tifffile.imwrite(tmp_path / "a.ome.tif", values, metadata=about)
    samples = read(tmp_path / "a.ome.tif")
    assert samples.dims == ("time", "depth", "row", "column")
    assert samples.channel_axis == 2
    field = ef.fit(tmp_path / "a.ome.tif")
    assert [a.step for a in field.domain.axes] == pytest.approx([0.1, 1.5, 0.25, 0.2])
    ef.write(field, tmp_path / "b.tif", dtype="uint16")
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        pixels = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
        assert_array_equal(file.asarray(), values)
    for name, size in SIZES.items():
        assert float(pixels[name]) == pytest.approx(size)
        assert pixels[f"{name}Unit"] == ("ms" if name == "TimeIncrement" else "nm")
    assert [c["Name"] for c in pixels["Channel"]] == ["red", "blue"]


def test_imagej_sizes_are_read(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    values = RNG.integers(0, 99, (3, 5, 8, 9)).astype("u1")
    tifffile.imwrite(
        tmp_path / "a.tif", values, imagej=True, resolution=(5.0, 4.0),
        metadata={"axes": "TZYX", "spacing": 1.5, "unit": "um", "finterval": 0.1},
    )  # fmt: skip
    samples = read(tmp_path / "a.tif")
    steps = [float(np.diff(samples.coords[n])[0]) for n in samples.dims]
    assert steps == pytest.approx([0.1, 1.5, 0.25, 0.2])
    assert samples.labels.axes["column"].units == "um"


@pytest.mark.thorough
def test_a_stack_is_denoised_and_written_back_with_its_sizes(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    z, y, x = np.indices((6, 40, 44))
    clean = 500 + 300 * np.sin(y / 6 + z / 3) * np.cos(x / 7)
    noisy = np.clip(clean + 40 * RNG.standard_normal(clean.shape), 0, 65535).astype("u2")
    sizes = {"PhysicalSizeX": 0.2, "PhysicalSizeY": 0.2, "PhysicalSizeZ": 0.5}
    tifffile.imwrite(tmp_path / "a.ome.tif", noisy, metadata={"axes": "ZYX", **sizes})

    field = ef.fit(tmp_path / "a.ome.tif", ef.smooth(denoise=True))
    ef.write(field, tmp_path / "b.ome.tif")
    ef.write(field, tmp_path / "even.ome.tif", spacing=0.25)

    assert np.std(field.samples() - clean) < 0.5 * np.std(noisy - clean)
    for name, want, shape in (("b", sizes, noisy.shape), ("even", {}, (12, 32, 35))):
        with tifffile.TiffFile(tmp_path / f"{name}.ome.tif") as file:
            pixels = tifffile.xml2dict(file.ome_metadata)["OME"]["Image"]["Pixels"]
            assert file.asarray().shape == shape
            assert file.asarray().dtype == np.uint16
        for key in sizes:
            assert float(pixels[key]) == pytest.approx(want.get(key, 0.25))


@pytest.mark.parametrize("kind", ["Area", "Point"])
def test_pixels_are_areas_or_points(tmp_path, kind):
    rasterio = pytest.importorskip("rasterio")
    values, path = np.add.outer(np.arange(20.0) ** 2, np.arange(24.0)), tmp_path / "a.tif"
    place = {"crs": "EPSG:32633", "transform": rasterio.Affine(10, 0, 0, 0, -10, 0)}
    with rasterio.open(path, "w", width=24, height=20, count=1, dtype="float64", **place) as file:
        file.write(values, 1)
        file.update_tags(AREA_OR_POINT=kind)
    field = ef.fit(path)
    told = {"Area": "means", "Point": "points"}[kind]
    assert field.labels.samples == field.report()["samples are"] == told
    assert ef.fit(path, samples="points").labels.samples == "points"
    if kind == "Area":
        cells = -10 * np.arange(21.0), 10 * np.arange(25.0)
        assert np.allclose(field.means(*cells), values, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_missing_pixels_come_back(tmp_path, seed):
    rasterio = pytest.importorskip("rasterio")
    rng = np.random.default_rng(seed)
    dtype = ["uint8", "int16", "uint16", "int32", "float32"][seed % 5]
    fill = {"uint8": 255, "uint16": 65535}.get(dtype, -9999)
    values = rng.integers(0, 200, (2, 18, 21)).astype(dtype)
    values[:, rng.uniform(size=(18, 21)) < 0.2] = fill
    place = {"crs": "EPSG:3035", "transform": rasterio.Affine(10, 0, 9, 0, -10, 5)}
    size = {"width": 21, "height": 18, "count": 2, "dtype": dtype, "nodata": fill}
    with rasterio.open(tmp_path / "a.tif", "w", **size, **place) as file:
        file.write(values)
    ef.write(ef.fit(tmp_path / "a.tif"), tmp_path / "b.tif")
    with rasterio.open(tmp_path / "b.tif") as file:
        assert (file.nodata, file.dtypes[0]) == (fill, dtype)
        assert np.array_equal(file.read(), values)


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("north_up", [True, False])
def test_dataarrays_with_a_reference_system_are_maps(tmp_path, dtype, north_up):
    xr, rasterio = pytest.importorskip("xarray"), pytest.importorskip("rasterio")
    y, x = 3e6 - 1000.0 * np.arange(20), 4e6 + 500.0 * np.arange(30)
    values = RNG.integers(0, 900, (20, 30)).astype(dtype)
    values[3:5, 7:11] = -999
    da = xr.DataArray(
        values,
        dims=("y", "x"),
        coords={"y": y, "x": x, "spatial_ref": ((), 0, {"crs_wkt": "EPSG:3035"})},
        attrs={"grid_mapping": "spatial_ref", "_FillValue": np.dtype(dtype).type(-999)},
    )
    field = ef.fit(da if north_up else da[::-1])
    write(field, tmp_path / "x.tif")
    write(field, tmp_path / "half.tif", scale=0.5)
    with rasterio.open(tmp_path / "x.tif") as file:
        assert (file.crs.to_epsg(), file.nodata, file.dtypes) == (3035, -999, (dtype,))
        assert tuple(file.bounds) == (x[0] - 250, y[-1] - 500, x[-1] + 250, y[0] + 500)
        assert_array_equal(file.read(1), values)
    with rasterio.open(tmp_path / "half.tif") as file:
        assert file.crs.to_epsg() == 3035
    back = ef.fit(tmp_path / "x.tif").to_xarray()
    assert back.dtype == dtype
    assert_array_equal(back["y"], y)
