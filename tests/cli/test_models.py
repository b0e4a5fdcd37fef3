"""fit and info: from samples to a model."""

import json
from dataclasses import replace

import numpy as np
import pytest

import elmfield as ef
from elmfield import read
from elmfield.io.formats.raster import png


@pytest.mark.slow
def test_from_picture_to_picture(installed_command, run, folder, picture):
    made = json.loads(installed_command("fit", "photo.png", "-o", "m.elm", "--json").stdout)
    assert made["samples"] == [176, 160, 3]
    assert made["bytes"] == (folder / "m.elm").stat().st_size
    told = installed_command("fit", "photo.png", "-o", "m.elm")
    assert "bits a sample" in told.stdout
    assert "━" not in told.stderr  # no bars when nobody looks
    assert run("fit", "photo.png", "-o", "m.elm", "-q").stdout == ""
    run("render", "m.elm", "-o", "same.png", "-q")
    np.testing.assert_array_equal(read(folder / "same.png").values, picture)
    run("render", "m.elm", "-o", "wide.png", "--shape", "88x320")
    assert read(folder / "wide.png").shape == (88, 320)
    scores = json.loads(run("compare", "photo.png", "m.elm", "--map", "e.png", "--json").stdout)
    assert scores["psnr_db"] is None  # infinite: nothing is lost
    assert scores["max_error"] == 0
    assert read(folder / "e.png").shape == (176, 160)
    about = json.loads(run("info", "m.elm", "--json").stdout)
    assert about["attributes"]["source"]["file"] == "photo.png"
    assert about["attributes"]["source"]["range"] == [
        float(picture.min()),
        float(picture.max()),
    ]
    assert about["settings"]["made"] == "Smooth"
    shown = run("info", "m.elm").stdout
    assert "row: 176" in shown
    assert about["attributes"]["source"]["sha256"] in shown


@pytest.mark.slow
def test_settings_reach_the_library(run, folder):
    run("fit", "photo.png", "-o", "a.elm", "--order", "1.5,2", "--cell", "12,16", "-q")
    wanted = replace(ef.smooth(order=(1.5, 2.0), cell=(12, 16)), samples="means")
    assert ef.load(folder / "a.elm").settings == wanted
    run("fit", "photo.png", "-o", "o.elm", "--preset", "oriented", "--samples", "points", "-q")
    assert type(ef.load(folder / "o.elm").settings).__name__ == "Oriented"
    assert ef.load(folder / "o.elm").labels.samples == "points"
    words = ["--preset", "paper", "--width", 50, "--activation", "sin", "--seed", 3, "--cell", 20]
    run("fit", "photo.png", "-o", "b.elm.zarr", *words, "--scale", 2, "--dtype", "float64", "-q")
    field = ef.load(folder / "b.elm.zarr")
    assert field.settings == ef.paper(width=50, activation="sin", seed=3, cell=20, scale=2)
    assert field.dtype == np.float64
    run("fit", "photo.png", "-o", "c.elm", "--psnr", "35", "-q")
    assert json.loads(run("compare", "photo.png", "c.elm", "--json").stdout)["psnr_db"] >= 35


def deep():
    """A picture of 16 bits with a little noise."""
    y, x = np.mgrid[0:120, 0:130]
    noise = np.random.default_rng(0).integers(0, 200, y.shape)
    return (32000 + 30000 * np.sin(x / 20) * np.cos(y / 30 + x * y / 6000) + noise).astype("uint16")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "dtype"),
    [
        ("deep.png", ("--max-error", 0.005), "float64"),  # float32 alone rounds by 0.004
        ("deep.png", ("--psnr", 160), "float64"),
        ("deep.png", ("--max-error", 50), "float64"),
        ("photo.png", ("--max-error", 4), "float64"),
        ("deep.png", ("--max-error", 50, "--dtype", "float32"), "float32"),
        ("photo.png", ("--max-error", 4, "--dtype", "float16"), "float16"),
        ("photo.png", ("--max-error", 0.3, "--dtype", "float16"), "float16"),
        ("photo.png", ("--psnr", 40, "--dtype", "float16"), "float16"),
        ("photo.png", ("--psnr", 60, "--dtype", "float16"), "float16"),
    ],
)
def test_targets_hold_for_what_is_stored(name, words, dtype, tmp_path, told, picture):
    values = deep() if name == "deep.png" else noisy(picture)
    (tmp_path / name).write_bytes(png(values))
    model = tmp_path / "m.elm"
    made = told("fit", tmp_path / name, "-o", model, *words)
    assert made["dtype"] == dtype
    scores = told("compare", tmp_path / name, model)
    if words[0] == "--psnr":
        # none, for infinite, where whole numbers come back as they were
        assert scores["psnr_db"] is None or scores["psnr_db"] >= words[1]
    else:
        assert scores["max_error"] <= words[1]
    target = ef.load(model).settings.target
    assert (target.kind, target.value) == (words[0].strip("-").replace("-", "_"), words[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("psnr", range(54, 70, 2))
def test_rounding_to_half_precision_is_made_up_for(kind, psnr, tmp_path, told):
    y, x = np.mgrid[0:64, 0:64]
    noise = np.random.default_rng(0).standard_normal((2, 64, 64)) / 1000
    values = np.sin(x / 5) * np.cos(y / 6) + noise[0]
    if kind == "complex":
        values = values + 1j * (np.cos(x / 7) + noise[1])
    np.save(tmp_path / "v.npy", values)
    words = ("--psnr", psnr, "--dtype", "float16")
    told("fit", tmp_path / "v.npy", "-o", tmp_path / "m.elm", *words)
    assert ef.psnr(values, ef.load(tmp_path / "m.elm").samples()) >= psnr


def noisy(picture):
    noise = np.random.default_rng(1).integers(-30, 30, picture.shape)
    return np.clip(picture + noise, 0, 255).astype(np.uint8)


@pytest.mark.thorough
@pytest.mark.parametrize("words", ["--psnr 160", "--max-error 0.005"])
def test_a_target_holds_whatever_the_dtype_asked_for(words, tmp_path, told):
    """Of samples stored for an error, not of coefficients that a dtype would round."""
    (tmp_path / "deep.png").write_bytes(png(deep()))
    model = tmp_path / "x.elm"
    told("fit", tmp_path / "deep.png", "-o", model, "--dtype", "float32", *words.split())
    found = ef.load(model).samples()
    assert ef.psnr(deep(), found) >= 160
    assert ef.max_error(deep(), found) <= 0.005


@pytest.mark.slow
def test_a_size_can_be_asked_for(folder, told):
    path = folder / "m.elm"
    sizes = [told("fit", folder / "photo.png", "-o", path, "--bytes", n)["bytes"]
             for n in (5000, 9000)]  # fmt: skip
    assert sizes[0] <= 5000 < sizes[1] <= 9000
    values = ef.read(folder / "photo.png").values
    made = told("fit", folder / "photo.png", "-o", path, "--bits", 0.7)
    assert 0.5 < 8 * ef.load(path).n_bytes / values.size <= 0.7
    assert made["bits_per_sample"] > 8 * ef.load(path).n_bytes / values.size
    assert "coded with loss" in told("info", path, people=True)
    told("fit", folder / "photo.png", "-o", path)
    assert "uint8, without loss" in told("info", path, people=True)
    ef.save(ef.fit(values, channel_axis=-1), path)  # says nothing about itself
    assert "uint8, without loss" in told("info", path, people=True)


def test_options_are_spelt_as_in_python(folder, told):
    made = told("fit", folder / "photo.png", "-o", folder / "m.elm", "--per-region", 12)
    assert ef.load(folder / "m.elm").settings.target == ef.smooth(per_region=12).target
    assert made["coefficients"] == 12 * 3 * made["regions"]


@pytest.mark.thorough
def test_channels_by_name(tmp_path, told):
    np.savez(tmp_path / "x.npz", u=np.random.default_rng(0).random((3, 20, 24)))
    for axis in ("axis0", "-3", "0"):
        words = ("--channel-axis", axis)
        told("fit", tmp_path / "x.npz", "-o", tmp_path / "m.elm", *words)
        field = ef.load(tmp_path / "m.elm")
        assert (field.model.channel_axis, field.domain.dims) == (0, ("axis1", "axis2"))
        # Which axis it was, the model knows.
        assert told("compare", tmp_path / "x.npz", tmp_path / "m.elm")["max_error"] == 0


def test_cells_merged_by_energy(folder, told):
    words = ("--beam", 20, "--cell", 20, "--overlap", 2)
    made = told("fit", folder / "photo.png", "-o", folder / "m.elm", *words)
    assert made["regions"] == 20
    assert ef.load(folder / "m.elm").partition.overlap == (2, 2)


@pytest.mark.parametrize("words", [("--periodic", "row"), ("--periodic", "0=176")])
def test_periods_are_read_off_or_said(folder, told, words):
    told("fit", folder / "photo.png", "-o", folder / "m.elm", *words)
    assert ef.load(folder / "m.elm").domain.axes[0].period == 176


def test_the_size_of_a_folder_is_that_of_its_files(folder, told):
    made = told("fit", folder / "photo.png", "-o", folder / "m.elm.zarr")
    files = [p for p in (folder / "m.elm.zarr").rglob("*") if p.is_file()]
    assert made["bytes"] == sum(p.stat().st_size for p in files)
