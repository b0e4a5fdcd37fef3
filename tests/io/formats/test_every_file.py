"""Files people already have: in, through a model, and out again with everything they said."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from elmfield.cli import cli
from elmfield.cli.terminal import FileOptions
from elmfield.io.files import MODULES
from support import ROOT

BESIDE = ROOT.parent / "shared" / "data"
DATA = Path(os.environ.get("ELMFIELD_DATA", BESIDE))
KNOWN = set(MODULES)
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
ERA5 = DATA / "era5" / "era5_t2m_20230101T12_winter.nc"


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


@pytest.mark.slow
@pytest.mark.skipif(not FILES, reason=f"no data folder at {DATA}; set ELMFIELD_DATA")
@pytest.mark.parametrize("path", FILES or [None], ids=lambda p: p and str(p.relative_to(DATA)))
def test_every_file_goes_through(path, tmp_path, capsys):
    options = []
    if path.name in VARIABLE:
        options += ["--variable", VARIABLE[path.name]]
    suffix = next(s for s in KNOWN if path.name.endswith(s))
    if suffix in CHANNELS:
        options += ["--channel-axis", CHANNELS[suffix]]
    samples = FileOptions(VARIABLE.get(path.name), (), CHANNELS.get(suffix)).read(path)
    options += some(samples)
    model, out = tmp_path / "model.elm", tmp_path / path.name

    made = command(capsys, "fit", path, "-o", model, *options)
    assert made["bytes"] == model.stat().st_size
    about = command(capsys, "info", model)
    assert about.get("n_coefficients") in (None, made["coefficients"])
    assert about["attributes"]["source"]["file"] == path.name
    scores = command(capsys, "compare", path, model)  # which part, the model knows
    assert scores["psnr_db"] is None or scores["psnr_db"] > 80  # null: without any error
    command(capsys, "render", model, "-o", out)

    slices = options[options.index("--slice") + 1 :: 2] if "--slice" in options else []
    given = FileOptions(VARIABLE.get(path.name), slices, CHANNELS.get(suffix)).read(path)
    back = FileOptions(VARIABLE.get(path.name), (), CHANNELS.get(suffix)).read(out)
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
    a, b = given.labels, back.labels
    for key in ("crs", "fill_value", "align"):
        assert getattr(a, key) == getattr(b, key)
    units = {k: v for k, v in a.attrs.items() if k in ("units", "long_name")}
    assert units.items() <= b.attrs.items()
    for name, axis in a.axes.items():
        if "units" in axis.attrs:
            assert b.axes[name].attrs["units"] == axis.attrs["units"]
        assert axis.epoch == b.axes[name].epoch
    if a.affine is not None:
        assert_allclose(b.affine, a.affine, rtol=0, atol=1e-4)
        assert a.header.get("qform_code") == b.header.get("qform_code")
    if a.transform is not None:
        assert_allclose(b.transform, a.transform, rtol=1e-12)
    if "dicom" in a.header:
        old, new = a.header["dicom"], b.header["dicom"]
        assert old["00100020"] == new["00100020"]  # the patient
        assert old["00280030"]["Value"] == pytest.approx(new["00280030"]["Value"])
        assert new["00080008"]["Value"][0] == "DERIVED"
        assert old["00080018"] != new["00080018"]
        assert_allclose(new["00200032"]["Value"], np.asarray(a.affine)[:3, 3], atol=1e-4)


@pytest.mark.slow
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
