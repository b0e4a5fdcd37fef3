"""Files people already have: in, through a model, and out again with everything they said."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import elmfield as ef
from elmfield.cli import cli
from elmfield.cli.words import samples_of
from elmfield.errors import MissingExtraError
from elmfield.io.dataarrays import from_dataarray
from elmfield.io.door import read, write
from elmfield.io.errors import UnreadableError
from elmfield.io.formats.raster import png
from elmfield.io.formats.registry import FORMATS, format_of
from elmfield.io.gridded import Gridded, grid_of, plain_grid
from elmfield.io.rendered import rendered
from support import ROOT

BESIDE = ROOT.parent / "shared" / "data"
DATA = Path(os.environ.get("ELMFIELD_DATA", BESIDE))
KNOWN = {s for f in FORMATS for s in f.suffixes}
FILES = (
    sorted(p for p in DATA.rglob("*") if p.is_file() and any(map(p.name.endswith, KNOWN)))
    if DATA.is_dir()
    else []
)
VARIABLE = {
    "s2_l1c_12band_600_T33UUB_20170527.mat": "im20",
    "s2_l1c_12band_600_T49JGM_20171022.mat": "im10",
    "wv2_8band_320_pan_1280.mat": "I_MS",
    "wv3_8band_32_pan_128.mat": "I_MS_LR",
    "ns_vorticity_128x128x100.npz": "w",
    "ifs_open_t2m_msl_20231125T06_autumn_0p4deg.grib2": "t2m",
}
"""Which array of a file that holds several."""

CHANNELS = {".mat": -1, ".cfl": -1}
LOSSY = (".jpg", ".jpeg")


def command(capsys, *words):
    """Run the command line in this process; what it printed, as JSON."""
    cli.main([*map(str, words), "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def some(samples):
    """Options that keep a corner of large inputs: the whole is a matter of time only."""
    wide = [n for n in samples.shape if n > 1]
    limit = {0: 1, 1: 3000, 2: 80, 3: 20}.get(len(wide), 10)
    return [
        word
        for name, n in zip(samples.dims, samples.shape)
        if n > limit
        for word in ("--slice", f"{name}={min(40, n - limit)}:{min(40, n - limit) + limit}")
    ]


@pytest.mark.skipif(not FILES, reason=f"no data folder at {DATA}; set ELMFIELD_DATA")
@pytest.mark.parametrize("path", FILES or [None], ids=lambda p: p and str(p.relative_to(DATA)))
def test_every_file_goes_through(path, tmp_path, capsys):
    options = []
    if path.name in VARIABLE:
        options += ["--variable", VARIABLE[path.name]]
    suffix = next(s for s in KNOWN if path.name.endswith(s))
    if suffix in CHANNELS:
        options += ["--channel-axis", CHANNELS[suffix]]
    samples = samples_of(path, VARIABLE.get(path.name), (), CHANNELS.get(suffix))
    options += some(samples)
    model, out = tmp_path / "model.elm", tmp_path / path.name

    made = command(capsys, "fit", path, "-o", model, *options)
    assert made["bytes"] == model.stat().st_size
    about = command(capsys, "info", model)
    assert about["n_coefficients"] == made["coefficients"]
    assert about["attributes"]["source"]["file"] == path.name
    scores = command(capsys, "compare", path, model)  # which part, the model knows
    assert scores["psnr_db"] is None or scores["psnr_db"] > 80  # null: without any error
    command(capsys, "render", model, "-o", out)

    slices = options[options.index("--slice") + 1 :: 2] if "--slice" in options else []
    given = samples_of(path, VARIABLE.get(path.name), slices, CHANNELS.get(suffix))
    back = samples_of(out, VARIABLE.get(path.name), (), CHANNELS.get(suffix))
    assert back.dims == given.dims
    assert back.values.shape == given.values.shape
    assert given.coords.keys() == back.coords.keys()
    for name in given.dims:
        a, b = given.coords.get(name), back.coords.get(name)
        if a is not None and path.suffix not in (".dcm", ".gz", ".wav"):  # those begin anew
            if "grib" in suffix and name == "longitude":  # GRIB counts meridians from 0 to 360
                a, b = a % 360, b % 360
            assert_allclose(b, a, rtol=0, atol=1e-6 * np.ptp(a), err_msg=name)
        if a is not None and len(a) > 1:
            assert_allclose(np.diff(b), np.diff(a), rtol=1e-5)
    span = np.ptp(np.abs(given.values))
    gap = np.abs(back.values.astype(complex) - given.values)
    if suffix in LOSSY:
        assert np.sqrt(np.mean(gap**2)) < 0.02 * span
    else:
        assert gap.max() <= 1e-5 * span
        if given.values.dtype.kind in "iu":
            assert back.values.dtype == given.values.dtype
    same_place(given, back)


def same_place(given, back):
    """Units, reference systems and affines are those of the part that was taken."""
    a, b = given.attributes, back.attributes
    for key in ("crs", "fill_value", "align"):
        assert a.get(key) == b.get(key)
    units = {k: v for k, v in a.get("attrs", {}).items() if k in ("units", "long_name")}
    assert units.items() <= b.get("attrs", {}).items()
    for name, axis in a.get("axes", {}).items():
        if "units" in axis.get("attrs", {}):
            assert b["axes"][name]["attrs"]["units"] == axis["attrs"]["units"]
        assert axis.get("epoch") == b["axes"][name].get("epoch")
    start, _ = grid_of(given)
    if "affine" in a:
        origin = np.asarray(a["affine"]) @ [*start[:3], 1]
        assert_allclose(np.asarray(b["affine"])[:, 3], origin, rtol=0, atol=1e-4)
        assert_allclose(np.asarray(b["affine"])[:, :3], np.asarray(a["affine"])[:, :3], atol=1e-5)
        assert a["header"]["qform_code"] == b["header"]["qform_code"]
    if "transform" in a:
        t = a["transform"]
        assert_allclose(b["transform"][2], t[2] + t[0] * start[1] + t[1] * start[0], rtol=1e-12)
        assert_allclose(b["transform"][5], t[5] + t[3] * start[1] + t[4] * start[0], rtol=1e-12)
    if "dicom" in a.get("header", {}):
        old, new = a["header"]["dicom"], b["header"]["dicom"]
        assert old["00100020"] == new["00100020"]  # the patient
        assert old["00280030"]["Value"] == pytest.approx(new["00280030"]["Value"])
        assert new["00080008"]["Value"][0] == "DERIVED"
        assert old["00080018"] != new["00080018"]
        along = np.asarray(old["00200037"]["Value"])
        size = old["00280030"]["Value"]
        place = np.asarray(old["00200032"]["Value"])
        moved = place + along[:3] * start[1] * size[1] + along[3:] * start[0] * size[0]
        assert_allclose(new["00200032"]["Value"], moved, atol=1e-4)


ERA5 = DATA / "era5" / "era5_t2m_20230101T12_winter.nc"


@pytest.mark.skipif(not ERA5.is_file(), reason=f"no data folder at {DATA}; set ELMFIELD_DATA")
def test_the_world_at_twice_the_resolution(tmp_path, capsys):
    xr = pytest.importorskip("xarray")
    model, out = tmp_path / "t2m.elm", tmp_path / "fine.nc"
    command(capsys, "fit", ERA5, "-o", model, "--slice", "valid_time=0")
    command(capsys, "render", model, "-o", out, "--scale", 2)
    with xr.open_dataset(ERA5) as old, xr.open_dataset(out) as new:
        truth = old.t2m.isel(valid_time=0)
        assert new.t2m.shape == (1441, 2880)
        assert_array_equal(new.latitude, np.linspace(90, -90, 1441))
        assert_array_equal(new.longitude, np.arange(2880) * 0.125)
        assert_array_equal(new.latitude[::2], old.latitude)
        assert_allclose(new.t2m[::2, ::2], truth, rtol=0, atol=2e-4)
        assert new.t2m.attrs["units"] == "K"
        assert new.latitude.attrs["units"] == "degrees_north"
        assert new.valid_time.values == truth.valid_time.values
        # Across the seam it is the same weather: the last column lies between its neighbours.
        seam = new.t2m[:, -1] - (truth[:, 0].values.repeat(2)[:-1] * 0 + new.t2m[:, 0])
        assert float(np.abs(seam).mean()) < 0.2


# --- formats that the folder has no file of ------------------------------------------------------


RNG = np.random.default_rng(0)
ROW = ("row", "column")


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [None, 2, 3, 4])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_pictures_keep_their_depth(tmp_path, kind, channels, suffix):
    """16-bit colours too, which the usual reader turns into 8-bit ones without a word."""
    shape = (9, 11) if channels is None else (9, 11, channels)
    values = RNG.integers(0, np.iinfo(kind).max, shape, kind)
    channel = None if channels is None else 2
    write(plain_grid(values, ROW, channel), tmp_path / f"x{suffix}")
    back = read(tmp_path / f"x{suffix}")
    assert back.values.dtype == kind
    if suffix == ".png" or channels != 2:
        assert_array_equal(back.values, values)
        assert back.channel_axis == channel


def test_our_png_is_everyones(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    for shape in ((7, 5), (7, 5, 3), (7, 5, 4)):
        values = RNG.integers(0, 256, shape, np.uint8)
        (tmp_path / "x.png").write_bytes(png(values))
        assert_array_equal(np.asarray(Image.open(tmp_path / "x.png")), values)


def test_jpeg_is_turned_upright(tmp_path):
    Image = pytest.importorskip("PIL.Image")
    values = np.zeros((20, 30), np.uint8)
    values[:, 20:] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    Image.fromarray(values).save(tmp_path / "x.jpg", exif=exif, quality=95)
    assert read(tmp_path / "x.jpg").shape == (30, 20)


def test_jpeg_2000_without_loss(tmp_path):
    values = RNG.integers(0, 65535, (40, 50), np.uint16)
    write(plain_grid(values, ROW), tmp_path / "x.jp2")
    assert_array_equal(read(tmp_path / "x.jp2").values, values)


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
    assert back.attributes["transform"] == transform
    assert "33N" in back.attributes["crs"]
    assert back.coords == {}
    # At twice the resolution every pixel is four; corners stay where they were.
    fine = rendered(ef.fit(back), scale=2)
    write(fine, tmp_path / "y.tif")
    a, b, c, d, e, f = read(tmp_path / "y.tif").attributes["transform"]
    assert_allclose([a, b, c, d, e, f], [4, 1.5, 500000, 1, -4.5, 4000000])


def test_gaps_in_a_map_are_missing_samples(tmp_path):
    pytest.importorskip("rasterio")
    values = np.fromfunction(lambda i, j: 100 + i + j, (20, 24)).astype(np.int16)
    holes = values.copy()
    holes[5:8, 6:9] = -999
    about = {"transform": [1.0, 0, 7.0, 0, -1.0, 50.0], "crs": "EPSG:4326", "fill_value": -999}
    write(plain_grid(holes, ("y", "x"), **about), tmp_path / "x.tif")
    samples = read(tmp_path / "x.tif")
    assert np.isnan(samples.values).sum() == 9
    assert_allclose(ef.fit(samples).samples(), values, atol=0.05)


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
    whole = rendered(field, scale=2)
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
    write(rendered(again, dtype="uint8"), tmp_path / "y.tif")
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


def test_sound(tmp_path):
    for values, channel in (
        (RNG.integers(-3000, 3000, 500, np.int16), None),
        (RNG.integers(-3000, 3000, (500, 2), np.int16), 1),
        (RNG.random(500), None),
    ):
        time = np.arange(500) / 8000
        about = {"header": {"subtype": "PCM_16"}}
        samples = Gridded(
            values=values,
            dims=("time",),
            coords={"time": time},
            channel_axis=channel,
            attributes=about,
        )
        for suffix in (".wav", ".flac"):
            if suffix == ".flac" and values.dtype.kind == "f":
                continue
            write(samples, tmp_path / f"x{suffix}")
            back = read(tmp_path / f"x{suffix}")
            assert_array_equal(back.values, values)
            assert_allclose(back.coords["time"], time)
            assert back.channel_axis == channel


def test_sound_at_another_rate(tmp_path):
    time = np.arange(400) / 8000
    values = np.round(9000 * np.sin(2 * np.pi * 440 * time)).astype(np.int16)
    field = ef.fit(values, dims=("time",), coords={"time": time})
    write(rendered(field, scale=2, align="nodes"), tmp_path / "x.wav")
    back = read(tmp_path / "x.wav")
    assert back.attributes["header"]["rate"] == 16000
    assert_allclose(back.values[::2], values, atol=1e-6)


@pytest.mark.parametrize("suffix", [".mkv", ".avi", ".mp4", ".webm"])
def test_video(tmp_path, suffix):
    pytest.importorskip("av")
    y, x = np.mgrid[0:48, 0:64]
    frames = [128 + 100 * np.sin(0.1 * x + 0.2 * k) * np.cos(0.07 * y) for k in range(6)]
    values = np.stack([np.stack([f, f[::-1], 255 - f], -1) for f in frames]).astype(np.uint8)
    time = np.arange(6) / 12.5
    samples = Gridded(
        values=values, dims=("time", "row", "column"), coords={"time": time}, channel_axis=3
    )
    write(samples, tmp_path / f"x{suffix}")
    back = read(tmp_path / f"x{suffix}")
    assert back.values.shape == values.shape
    assert_allclose(back.coords["time"], time, atol=1e-3)
    gap = np.abs(back.values.astype(float) - values)
    assert gap.max() == 0 if suffix in (".mkv", ".avi") else gap.mean() < 8


def test_volumes_keep_their_affine_at_another_resolution(tmp_path):
    pytest.importorskip("nibabel")
    affine = [[-2.0, 0.1, 0, 90], [0, 2.5, 0.2, -120], [0.1, 0, 3, -70], [0, 0, 0, 1]]
    about = {"affine": affine, "align": "areas"}
    zooms = np.linalg.norm(np.asarray(affine)[:3, :3], axis=0)
    at = {name: np.arange(n) * z for name, n, z in zip("ijk", (16, 18, 14), zooms)}
    values = RNG.random((16, 18, 14))
    samples = Gridded(values=values, dims=("i", "j", "k"), coords=at, attributes=about)
    field = ef.fit(samples)
    write(rendered(field, scale=2), tmp_path / "x.nii.gz")
    new = np.asarray(read(tmp_path / "x.nii.gz").attributes["affine"])
    assert_allclose(new[:, :3], np.asarray(affine)[:, :3] / 2, atol=1e-6)
    # The outer corner of the first voxel is where it was.
    assert_allclose(
        new @ [-0.5, -0.5, -0.5, 1], affine @ np.asarray([-0.5, -0.5, -0.5, 1]), atol=1e-5
    )


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
    assert back.attributes["attrs"]["units"] == "K"


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


def test_grib_refuses_what_it_cannot_say(tmp_path):
    with pytest.raises(ValueError, match="GRIB needs a date, and there is no coordinate time"):
        write(from_dataarray(weather()), tmp_path / "x.grib2")
    day = np.datetime64("2023-01-01", "ns")
    with pytest.raises(ValueError, match="has no place for axis 'number'"):
        write(from_dataarray(weather(number=[0, 1], time=day)), tmp_path / "x.grib2")
    assert list(tmp_path.iterdir()) == []


def test_a_gradient_is_no_temperature(tmp_path):
    field = ef.fit(from_dataarray(weather(time=np.datetime64("2023-01-01", "ns"))))
    slope = rendered(field, align="nodes", quantity="gradient")
    write(slope, tmp_path / "x.grib2")
    assert grib_labels(tmp_path / "x.grib2", "dataDate", "paramId") == [(20230101, 0)]


def test_numpy_archives_bring_their_coordinates(tmp_path):
    values = RNG.random((5, 7))
    np.savez(tmp_path / "x.npz", u=values, y=np.arange(5) * 2.0, x=np.arange(7) + 1.0)
    samples = read(tmp_path / "x.npz")
    assert samples.dims == ("y", "x")
    assert_array_equal(samples.coords["x"], np.arange(7) + 1.0)
    write(samples, tmp_path / "y.npz")
    assert read(tmp_path / "y.npz").dims == ("y", "x")
    np.savez(tmp_path / "z.npz", a=values, b=values)
    with pytest.raises(ValueError, match=r"holds 2 arrays \(a \(5, 7\), b \(5, 7\)\); say which"):
        read(tmp_path / "z.npz")
    with pytest.raises(ValueError, match="has no array 'c'; it has a, b"):
        read(tmp_path / "z.npz", variable="c")


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.asarray([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="pickled objects, which are never loaded"):
        read(tmp_path / "x.npy")


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("x.jp2", "imagecodecs", "io"),
        ("x.jpg", "PIL.Image", "io"),
        ("x.tif", "tifffile", "io"),
        ("x.nii", "nibabel", "io"),
        ("x.dcm", "pydicom", "io"),
        ("x.wav", "soundfile", "io"),
        ("x.mp4", "av", "video"),
        ("x.nc", "xarray", "xarray"),
        ("x.grib2", "eccodes", "grib"),
    ],
)
def test_a_missing_extra_is_named(tmp_path, monkeypatch, name, package, extra):
    (tmp_path / name).write_bytes(b"nothing")
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'elmfield\[{extra}\]'"):
        read(tmp_path / name)


def test_a_map_without_rasterio_is_not_read_as_a_picture(tmp_path, monkeypatch):
    pytest.importorskip("rasterio")
    about = {"transform": [1.0, 0, 7.0, 0, -1.0, 50.0], "crs": "EPSG:4326"}
    write(plain_grid(np.eye(8), ("y", "x"), **about), tmp_path / "x.tif")
    monkeypatch.setitem(__import__("sys").modules, "rasterio", None)
    with pytest.raises(MissingExtraError, match=r"map coordinates needs rasterio; .*\[geo\]"):
        read(tmp_path / "x.tif")


@pytest.mark.parametrize(
    "name",
    ["x.png", "x.jpg", "x.jp2", "x.tif", "x.nii", "x.dcm", "x.mat", "x.npy", "x.wav", "x.nc"],
)
@pytest.mark.parametrize("content", [b"", b"not at all what its name says" * 20])
def test_files_that_are_not_what_they_are_called(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableError, match=f"{name} cannot be read as"):
        read(tmp_path / name)


@pytest.mark.parametrize(("name", "cut"), [("x.tif", 0.2), ("x.npz", 0.5), ("x.mat", 20)])
def test_a_file_cut_short_is_unreadable(tmp_path, name, cut):
    """Whatever the library behind it raises: DeflateError, BadZipFile, IndexError."""
    write(plain_grid(RNG.random((30, 40)), ROW), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(data[: int(cut if cut > 1 else cut * len(data))])
    with pytest.raises(UnreadableError, match=f"{name} cannot be read as"):
        read(tmp_path / name)


def test_only_named_arrays_can_be_asked_for(tmp_path):
    write(plain_grid(np.eye(9), ROW), tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"NumPy files have no names; got variable 'foo'"):
        read(tmp_path / "x.npy", variable="foo")


def test_unknown_kinds_and_missing_files():
    with pytest.raises(ValueError, match=r"files ending in '\.xyz' are not known; known: \.png"):
        format_of("a.xyz")
    with pytest.raises(FileNotFoundError, match="no file nowhere"):
        read("nowhere.png")


def test_what_a_format_cannot_hold_is_said(tmp_path):
    cube = plain_grid(RNG.random((4, 5, 6)), ("a", "b", "c"))
    with pytest.raises(ValueError, match="a picture has two axes; got 3"):
        write(cube, tmp_path / "x.png")
    with pytest.raises(ValueError, match="sound has one axis"):
        write(cube, tmp_path / "x.wav")
    with pytest.raises(ValueError, match="only from a model of a DICOM file"):
        write(plain_grid(np.eye(4), ROW), tmp_path / "x.dcm")
    with pytest.raises(ValueError, match="NetCDF has no complex numbers"):
        write(plain_grid(np.eye(4) * 1j, ROW), tmp_path / "x.nc")
    with pytest.raises(ValueError, match="at most four channels"):
        write(plain_grid(np.ones((4, 4, 7)), ROW, 2), tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []


def test_a_failing_writer_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    write(plain_grid(np.eye(4), ROW), path)

    def fail(target, *_, **__):
        Path(target).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        write(plain_grid(np.ones(4), ("row",)), path)
    assert_array_equal(np.load(path), np.eye(4))
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


# --- grids ----------------------------------------------------------------------------------------


def test_areas_and_nodes():
    field = ef.fit(np.arange(8.0), coords=[10.0 * np.arange(8)], dims=("x",))
    (areas,) = field.places(scale=2)
    assert_allclose(areas, np.arange(16) / 2 - 0.25)
    (nodes,) = field.places(scale=2, align="nodes")
    assert_allclose(nodes, np.arange(15) / 2)
    (nodes,) = field.places(shape=(15,), align="nodes")
    assert_allclose(nodes, np.arange(15) / 2)
    (part,) = field.places(scale=2, window={"x": (16, 31)}, align="nodes")
    assert_allclose(part, [2, 2.5, 3])
    wraps = ef.fit(np.sin(np.arange(8) * np.pi / 4), periodic=(0,))
    (nodes,) = wraps.places(scale=2, align="nodes")
    assert_allclose(nodes, np.arange(16) / 2)
    with pytest.raises(ValueError, match="`scale` must be positive"):
        field.places(scale=-1)
    with pytest.raises(ValueError, match="`shape` must be 1 whole numbers"):
        field.places(shape=(3, 4))


def test_slices_remember_where_they_were_taken():
    values = np.arange(60.0).reshape(6, 10)
    samples = Gridded(values=values, dims=("y", "x"), coords={"y": np.arange(6) * 2.0})
    part = samples.pick("y", slice(1, 5, 2)).pick("x", slice(3, None))
    assert grid_of(part) == ([1.0, 3.0], [2.0, 1.0])
    assert_array_equal(part.coords["y"], [2, 6])
    line = part.pick("y", -1)
    assert line.dims == ("x",)
    assert line.attributes["coords"]["y"]["values"] == 6
    assert grid_of(line) == ([3.0], [1.0])
    with pytest.raises(ValueError, match="there is no axis 'z'"):
        samples.pick("z", 0)
    with pytest.raises(ValueError, match="nothing is left of axis"):
        samples.pick("y", slice(9, 12))
    with pytest.raises(ValueError, match="there is no number 6"):
        samples.pick("y", 6)
