"""The command line as a user has it: the installed command, in a folder of its own."""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import elmfield as ef
from elmfield import read
from elmfield.io.formats.raster import png

HEAVY = [
    *("torch", "xarray", "dask", "pandas", "zarr", "numcodecs", "rich", "matplotlib", "skimage"),
    *(f"scipy.{part}" for part in ("linalg", "fft", "interpolate", "spatial", "optimize")),
]


@pytest.fixture(scope="session")
def environment(installed):
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COLUMNS")}
    return {**kept, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}


@pytest.fixture(scope="session")
def script():
    found = shutil.which("elmfield", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("the package is not installed: there is no elmfield command")
    return found


@pytest.fixture
def run(script, environment, folder):
    """Run the command in the folder; its result."""

    def call(*words, code=0, text=None):
        ran = subprocess.run(
            [script, *map(str, words)], cwd=folder, env=environment, input=text,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == code, ran.stderr
        assert "Traceback" not in ran.stderr
        return ran

    return call


def picture():
    y, x = np.mgrid[0:176, 0:160]
    red = 128 + 100 * np.sin(0.1 * x) * np.cos(0.07 * y)
    green = 90 + 60 * np.cos(0.002 * x * y)
    blue = 120 + 40 * np.sin(0.3 * y) + 50 * (x > 80)
    return np.stack([red, green, blue], -1).astype(np.uint8)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    """The files that the examples in the help speak of."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "photo.png").write_bytes(png(picture()))
    xr = pytest.importorskip("xarray")
    lat, lon = 85 - 5.0 * np.arange(35), 5.0 * np.arange(72)
    values = 15 + 10 * np.cos(np.deg2rad(lat))[:, None] * np.cos(2 * np.deg2rad(lon))
    xr.DataArray(
        np.stack([values, values + 1]).astype(np.float32),
        coords={
            "time": np.asarray(["2023-01-01", "2023-01-02"], "datetime64[ns]"),
            "latitude": ("latitude", lat, {"units": "degrees_north"}),
            "longitude": ("longitude", lon, {"units": "degrees_east"}),
        },
        dims=("time", "latitude", "longitude"),
        name="sst",
        attrs={"units": "degC"},
    ).to_netcdf(folder / "sst.nc", engine="netcdf4")
    (folder / "points.csv").write_text("row,column\n1,2\n3.5,4.25\n")
    field = ef.fit(folder / "photo.png")
    ef.save(field, folder / "photo.elm", dtype="float32")
    return folder


@pytest.fixture
def folder(prepared, tmp_path):
    for file in prepared.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path


# --- help -----------------------------------------------------------------------------------------


COMMANDS = ("fit", "info", "render", "query", "compare", "beam", "demo", "completion")


def test_the_wheel_is_what_runs(script, environment, installed, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", "import elmfield; print(elmfield.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.strip().startswith(str(installed))


def test_help_loads_nothing_heavy_and_is_fast(environment, tmp_path):
    code = f"""
import resource, sys
from elmfield.cli import main
try:
    main(["--help"])
except SystemExit as done:
    assert done.code == 0
    used = resource.getrusage(resource.RUSAGE_SELF)
    print([m for m in {HEAVY!r} if m in sys.modules], used.ru_utime + used.ru_stime)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    loaded, seconds = ran.stdout.splitlines()[-1].rsplit(" ", 1)
    assert loaded == "[]"
    assert float(seconds) < 0.5
    for name in COMMANDS:
        assert name in ran.stdout
    assert "Exit codes" in ran.stdout


def examples():
    """Every line of help that begins with the command's name."""
    from elmfield.cli import cli

    for name, command in {"": cli, **cli.commands}.items():
        lines = re.findall(r"^\s*(elmfield .*)$", command.epilog or "", re.MULTILINE)
        assert lines, f"{name} shows no example"
        for line in lines:
            yield pytest.param(line, id=line)


@pytest.mark.parametrize("line", list(examples()))
def test_examples_in_the_help_work(line, run, folder):
    words = line.split()[1:]
    if words[0] == "demo":
        pytest.importorskip("skimage")
        pytest.skip("the demo has tests of its own; it takes as long as all of these")
    if "sst.elm" in words and words[0] != "fit":
        run("fit", "sst.nc", "-o", "sst.elm", "--slice", "time=0", "-q")
    ran = run(*words)
    for flag, target in pairwise(words):
        if flag in ("-o", "--map"):
            assert (folder / target).stat().st_size > 0
    if words[0] in ("query", "compare", "info", "completion"):
        assert ran.stdout.strip()


def test_every_command_has_help(run):
    for name in ("fit", "render"):
        assert "Example" in run(name, "--help").stdout


# --- what the commands do -------------------------------------------------------------------------


def test_from_picture_to_picture(run, folder):
    made = json.loads(run("fit", "photo.png", "-o", "m.elm", "--json").stdout)
    assert made["samples"] == [176, 160, 3]
    assert made["bytes"] == (folder / "m.elm").stat().st_size
    told = run("fit", "photo.png", "-o", "m.elm")
    assert "coefficients" in told.stdout
    assert "━" not in told.stderr  # no bars when nobody looks
    assert run("fit", "photo.png", "-o", "m.elm", "-q").stdout == ""
    run("render", "m.elm", "-o", "same.png", "-q")
    np.testing.assert_array_equal(read(folder / "same.png").values, picture())
    run("render", "m.elm", "-o", "wide.png", "--shape", "88x320")
    assert read(folder / "wide.png").shape == (88, 320)
    scores = json.loads(run("compare", "photo.png", "m.elm", "--map", "e.png", "--json").stdout)
    assert scores["psnr_db"] > 100
    assert read(folder / "e.png").shape == (176, 160)
    about = json.loads(run("info", "m.elm", "--json").stdout)
    assert about["attributes"]["source"]["file"] == "photo.png"
    assert about["attributes"]["source"]["range"] == [
        float(picture().min()),
        float(picture().max()),
    ]
    assert about["settings"]["made"] == "Smooth"
    shown = run("info", "m.elm").stdout
    assert "row: 176" in shown
    assert about["attributes"]["source"]["sha256"] in shown


def test_query(run, folder):
    field = ef.load(folder / "photo.elm")
    rows = list(csv.DictReader(io.StringIO(
        run("query", "photo.elm", "--points", "points.csv", "--at", "7,8").stdout
    )))  # fmt: skip
    got = np.asarray([[float(r[c]) for c in ("red", "green", "blue")] for r in rows])
    np.testing.assert_allclose(got, field([[7.0, 8.0], [1.0, 2.0], [3.5, 4.25]]), rtol=1e-6)
    (folder / "bom.csv").write_text("row,column\n1,2\n", encoding="utf-8-sig")
    marked = run("query", "photo.elm", "--points", "bom.csv").stdout
    assert marked.splitlines()[1].split(",")[2:] == [f"{v:.9g}" for v in field([1.0, 2.0])]
    piped = run("query", "photo.elm", "--points", "-", text="column,row\n2,1\n").stdout
    assert piped.splitlines()[1].split(",")[2:] == [f"{v:.9g}" for v in field([1.0, 2.0])]
    run("fit", "sst.nc", "-o", "sst.elm", "-q")
    at = "time=2023-01-01T12:00,latitude=10,longitude=-7.5"
    (found,) = json.loads(run("query", "sst.elm", "--at", at, "--json").stdout)
    cold = json.loads(run("query", "sst.elm", "--at", at.replace("-7.5", "352.5"), "--json").stdout)
    assert found["value"] == pytest.approx(cold[0]["value"], abs=1e-6)  # the same meridian
    assert found["value"] == pytest.approx(15.5 + 10 * np.cos(np.deg2rad(10)) * np.cos(
        np.deg2rad(15)), abs=0.2)  # fmt: skip
    assert found["at"]["time"] == "2023-01-01T12:00"
    outside = run("query", "photo.elm", "--at", "-50,0", code=1).stderr
    assert "inside the domain" in outside
    assert "nan" in run("query", "photo.elm", "--at", "-50,0", "--outside", "nan").stdout


def test_windows(run, folder):
    xr = pytest.importorskip("xarray")
    run("fit", "sst.nc", "-o", "sst.elm", "--slice", "time=1", "-q")
    window = ("--window", "latitude=-20:40", "--window", "longitude=-30:30")
    run("render", "sst.elm", "-o", "part.nc", *window, "--scale", 2, "-q")
    with xr.open_dataset(folder / "part.nc") as ds, xr.open_dataset(folder / "sst.nc") as old:
        np.testing.assert_allclose(ds.latitude, np.arange(40, -21, -2.5))
        np.testing.assert_allclose(ds.longitude, np.arange(-30, 31, 2.5))
        assert ds.time.values == old.time.values[1]
        assert ds.sst.attrs["units"] == "degC"
        near = old.sst.isel(time=1).sel(latitude=0, longitude=[330, 0, 30])
        np.testing.assert_allclose(ds.sst.sel(latitude=0, longitude=[-30, 0, 30]), near, atol=1e-4)
    run("fit", "sst.nc", "-o", "both.elm", "-q")
    assert "2023-01-01 to 2023-01-02" in run("info", "both.elm").stdout
    days = "time=2023-01-01T06:00/2023-01-01T18:00"
    run("render", "both.elm", "-o", "day.nc", "--window", days, "--scale", "4,1,1", "-q")
    with xr.open_dataset(folder / "day.nc") as ds:
        hours = np.datetime64("2023-01-01T06", "ns") + np.arange(3) * np.timedelta64(6, "h")
        np.testing.assert_array_equal(ds.time, hours)
    run("render", "sst.elm", "-o", "slope.nc", "--quantity", "gradient", "-q")
    with xr.open_dataset(folder / "slope.nc") as ds:
        assert "units" not in ds.sst.attrs
        assert float(ds.sst.max()) < 1
    wrong = run("render", "sst.elm", "-o", "x.nc", "--window", "latitude=0:200", code=1).stderr
    assert "reaches beyond the domain" in wrong


def rendered_axes(folder, capsys, *words):
    """Latitudes and longitudes of what is rendered."""
    xr = pytest.importorskip("xarray")
    if not (folder / "sst.elm").exists():
        told(capsys, "fit", folder / "sst.nc", "-o", folder / "sst.elm", "--slice", "time=0")
    told(capsys, "render", folder / "sst.elm", "-o", folder / "part.nc", *words)
    with xr.open_dataset(folder / "part.nc") as ds:
        return ds.sst.load(), ds.latitude.values, ds.longitude.values


def test_a_window_may_cross_the_seam(folder, capsys):
    xr = pytest.importorskip("xarray")
    part, _, lon = rendered_axes(folder, capsys, "--window", "longitude=350:10")
    np.testing.assert_allclose(lon, [350, 355, 360, 365, 370])
    with xr.open_dataset(folder / "sst.nc") as old:
        truth = old.sst.isel(time=0).sel(longitude=[350, 355, 0, 5, 10])
    np.testing.assert_allclose(part, truth, atol=1e-4)
    _, _, lon = rendered_axes(folder, capsys, "--window", "longitude=-180:180")
    np.testing.assert_allclose(lon, np.arange(-180, 180, 5))
    _, _, lon = rendered_axes(folder, capsys, "--window", "longitude=180:-180")
    np.testing.assert_allclose(lon, np.arange(180, 540, 5))


def test_a_window_is_at_most_one_turn(run):
    run("fit", "sst.nc", "-o", "sst.elm", "--slice", "time=0", "-q")
    wrong = run("render", "sst.elm", "-o", "x.nc", "--window", "longitude=0:800", code=1).stderr
    assert "at most one period, 360, of axis 'longitude'; got 0 to 800" in wrong


def test_a_seam_on_an_uneven_axis(folder, capsys):
    lon = 360 * (np.arange(30) / 30) ** 1.2
    values = np.cos(np.deg2rad(lon)) * np.ones((12, 1))
    field = ef.fit(values, coords=[None, lon], dims=("y", "lon"), periodic={"lon": 360.0})
    ef.save(field, folder / "u.elm")
    words = ("--window", "lon=350:10", "--shape", "3,5", "--align", "nodes")
    told(capsys, "render", folder / "u.elm", "-o", folder / "u.npz", *words)
    with np.load(folder / "u.npz") as made:
        np.testing.assert_allclose(made["lon"][[0, -1]], [350, 370], atol=1e-6)
        assert made["values"].min() > 0.97


def test_nodes_stay_in_their_window(folder, capsys):
    window = ("--window", "latitude=11:19", "--window", "longitude=16.3:18.9")
    _, lat, lon = rendered_axes(folder, capsys, *window, "--shape", "5,4")
    np.testing.assert_allclose(lat, np.linspace(19, 11, 5))
    np.testing.assert_allclose(lon, np.linspace(16.3, 18.9, 4))
    # An axis without a window is as it was: it ends at its samples, whatever the scale.
    _, lat, lon = rendered_axes(folder, capsys, "--window", "longitude=0:20", "--scale", 2)
    np.testing.assert_allclose(lat, np.linspace(85, -85, 69))
    np.testing.assert_allclose(lon, np.arange(0, 20.1, 2.5))
    _, lat, lon = rendered_axes(folder, capsys, "--window", "latitude=0:20", "--scale", 2)
    np.testing.assert_allclose(lon, np.arange(0, 360, 2.5))


def test_settings_reach_the_library(run, folder):
    run("fit", "photo.png", "-o", "a.elm", "--order", "1.5,2", "--cell", "12,16", "-q")
    assert ef.load(folder / "a.elm").settings == ef.smooth(order=(1.5, 2.0), cell=(12, 16))
    words = ["--preset", "paper", "--width", 50, "--activation", "sin", "--seed", 3, "--cell", 20]
    run("fit", "photo.png", "-o", "b.elm.zarr", *words, "--scale", 2, "--dtype", "float64", "-q")
    field = ef.load(folder / "b.elm.zarr")
    assert field.settings == ef.paper(width=50, activation="sin", seed=3, cell=20, scale=2)
    assert field.dtype == np.float64
    run("fit", "photo.png", "-o", "c.elm", "--psnr", "35", "-q")
    assert json.loads(run("compare", "photo.png", "c.elm", "--json").stdout)["psnr_db"] >= 35


def told(capsys, *words):
    """What a command prints as JSON, run in this process."""
    from elmfield.cli import cli

    cli.main([*map(str, words), "--json"], standalone_mode=False)
    return json.loads(capsys.readouterr().out)


def deep():
    """A picture of 16 bits with a little noise."""
    y, x = np.mgrid[0:120, 0:130]
    noise = np.random.default_rng(0).integers(0, 200, y.shape)
    return (32000 + 30000 * np.sin(x / 20) * np.cos(y / 30 + x * y / 6000) + noise).astype("uint16")


@pytest.mark.parametrize(
    ("name", "words", "dtype"),
    [
        ("deep.png", ("--max-error", 0.005), "float64"),  # float32 alone rounds by 0.004
        ("deep.png", ("--psnr", 160), "float64"),
        ("deep.png", ("--max-error", 50), "float32"),
        ("photo.png", ("--max-error", 4), "float32"),
        ("photo.png", ("--max-error", 4, "--dtype", "float16"), "float16"),
        ("photo.png", ("--max-error", 0.3, "--dtype", "float16"), "float16"),
        ("photo.png", ("--psnr", 40, "--dtype", "float16"), "float16"),
        ("photo.png", ("--psnr", 60, "--dtype", "float16"), "float16"),
    ],
)
def test_targets_hold_for_what_is_stored(name, words, dtype, tmp_path, capsys):
    values = deep() if name == "deep.png" else noisy()
    (tmp_path / name).write_bytes(png(values))
    model = tmp_path / "m.elm"
    made = told(capsys, "fit", tmp_path / name, "-o", model, *words)
    assert made["dtype"] == dtype
    scores = told(capsys, "compare", tmp_path / name, model)
    if words[0] == "--psnr":
        assert scores["psnr_db"] >= words[1]
    else:
        assert scores["max_error"] <= words[1]
    target = ef.load(model).settings.target
    assert (target.kind, target.value) == (words[0].strip("-").replace("-", "_"), words[1])


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("psnr", range(54, 70, 2))
def test_rounding_to_half_precision_is_made_up_for(kind, psnr, tmp_path, capsys):
    y, x = np.mgrid[0:64, 0:64]
    noise = np.random.default_rng(0).standard_normal((2, 64, 64)) / 1000
    values = np.sin(x / 5) * np.cos(y / 6) + noise[0]
    if kind == "complex":
        values = values + 1j * (np.cos(x / 7) + noise[1])
    np.save(tmp_path / "v.npy", values)
    words = ("--psnr", psnr, "--dtype", "float16")
    told(capsys, "fit", tmp_path / "v.npy", "-o", tmp_path / "m.elm", *words)
    assert ef.psnr(values, ef.load(tmp_path / "m.elm").samples()) >= psnr


def noisy():
    noise = np.random.default_rng(1).integers(-30, 30, picture().shape)
    return np.clip(picture() + noise, 0, 255).astype(np.uint8)


def test_a_target_beyond_the_dtype_is_refused(tmp_path, monkeypatch, capsys):
    from elmfield.cli import main

    (tmp_path / "deep.png").write_bytes(png(deep()))
    monkeypatch.chdir(tmp_path)
    for words in ("--psnr 160", "--max-error 0.005"):
        with pytest.raises(SystemExit) as left:
            main(f"fit deep.png -o x.elm --dtype float32 {words}".split())
        assert left.value.code == 1
        assert "with coefficients stored as float32 the field measures" in capsys.readouterr().err
    assert not list(tmp_path.glob("x*"))


def test_beam(run, folder):
    words = ("--cell", 16, "--regions", 40)
    told = json.loads(run("beam", "photo.png", *words, "-o", "r.png", "--json").stdout)
    assert told["regions"] == 40
    assert len(told["energies"]) == 40
    assert sum(told["cells_per_region"]) == 11 * 10
    drawn = read(folder / "r.png").values
    assert drawn.shape == (176, 160, 3)
    assert (drawn == (255, 80, 60)).all(-1).any()


def test_completion_completes(script, environment, tmp_path):
    asked = {**environment, "_ELMFIELD_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    ran = subprocess.run(
        [script], env={**asked, "COMP_WORDS": "elmfield re"}, capture_output=True, text=True,
        cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert "render" in ran.stdout


# --- mistakes and interruptions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("fit photo.png", 2, "Missing option"),
        ("fit photo.png -o x.bin", 2, "ends in .elm or .elm.zarr"),
        ("fit photo.png -o no/x.elm", 3, "its folder does not exist"),
        ("fit nowhere.png -o x.elm", 3, "no file nowhere.png"),
        ("fit points.csv -o x.elm", 1, "files ending in '.csv' are not known"),
        ("fit photo.png -o x.elm --width 5", 2, "only with --preset paper"),
        ("fit photo.png -o x.elm --order fast", 2, "'fast' is not a number"),
        ("fit photo.png -o x.elm --slice depth=1", 2, "there is no axis 'depth'"),
        ("fit photo.png -o x.elm --overlap 99", 1, "`overlap` must lie between"),
        ("fit sst.nc -o x.elm --variable salt", 1, "has no array 'salt'; it has sst"),
        ("info photo.png", 3, "not a model file"),
        ("info nowhere.elm", 3, "no model at nowhere.elm"),
        ("render photo.elm -o x.xyz", 1, "are not known"),
        ("render photo.elm -o x.png --scale 0", 1, "`scale` must be positive"),
        ("render photo.elm -o x.png --scale 2,3,4", 1, "`scale` must be one number or 2, one per"),
        ("render photo.elm -o x.png --window row=60:35", 1, "first end must lie below the second"),
        ("render photo.elm -o x.png --window row=5:5", 1, "first end must lie below the second"),
        ("render photo.elm -o x.npy --align nodes --window row=5.1:5.9", 1, "has no node in it"),
        ("query photo.elm --points none.csv", 1, "none.csv has no points"),
        ("query photo.elm --points heads.csv", 1, "heads.csv has no points"),
        ("query photo.elm --at -50,0", 1, "Pass --outside nearest or --outside nan"),
        ("fit photo.png -o x.elm --variable foo", 1, "PNG files have no names; got variable 'foo'"),
        ("fit broken.png -o x.elm", 3, "broken.png cannot be read as a picture"),
        ("fit none.png -o x.elm", 3, "none.png cannot be read as a picture"),
        ("fit broken.nc -o x.elm", 3, "broken.nc cannot be read as NetCDF"),
        ("compare none.nc photo.elm", 3, "none.nc cannot be read as NetCDF"),
        ("info s3://nowhere/x.elm", 4, "pip install s3fs"),
        ("query photo.elm", 2, "Say where"),
        ("query photo.elm --at 1,2,3", 2, "has 3 coordinates; the axes are row, column"),
        ("compare sst.nc photo.elm", 1, "they cannot be compared"),
        ("beam photo.png", 2, "either --regions N or --threshold TAU"),
        ("frobnicate", 2, "No such command"),
    ],
)
def test_mistakes_have_a_message_and_a_code(words, code, message, folder, monkeypatch, capsys):
    """In this process, for speed: `main` is what the installed command calls."""
    from elmfield.cli import main

    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    for name in ("photo.png", "sst.nc"):
        data = Path(name).read_bytes()
        Path(f"broken{Path(name).suffix}").write_bytes(data[: len(data) // 2])
        Path(f"none{Path(name).suffix}").write_bytes(b"")
    Path("none.csv").write_bytes(b"")
    Path("heads.csv").write_text("row,column\n")
    with pytest.raises(SystemExit) as left:
        main(words.split())
    assert left.value.code == code
    assert message in capsys.readouterr().err
    assert not list(folder.glob("x*"))


def test_a_missing_package_has_its_own_code(folder, monkeypatch, capsys):
    from elmfield.cli import main

    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(SystemExit) as left:
        main(["fit", "sst.nc", "-o", "x.elm"])
    assert left.value.code == 4
    assert "pip install 'elmfield[xarray]'" in capsys.readouterr().err


def test_a_damaged_model_has_a_clean_message(run, folder):
    data = (folder / "photo.elm").read_bytes()
    (folder / "photo.elm").write_bytes(data[: len(data) // 2])
    told = run("render", "photo.elm", "-o", "x.png", code=3)
    assert "not a model file, or a damaged one" in told.stderr


def busy(process):
    """Seconds of processor time a process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
@pytest.mark.parametrize("stage", ["fit", "save"])
def test_ctrl_c_leaves_nothing(script, environment, tmp_path, stage):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "big.npy", rng.random((3000, 3000)))
    settings = ["--preset", "paper", "--width", "1000"] if stage == "fit" else []
    began = subprocess.Popen(
        [script, "fit", "big.npy", "-o", "big.elm", *settings],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = time.monotonic() + 60
    while time.monotonic() < limit and began.poll() is None:
        if busy(began) > 1.0 if stage == "fit" else any(tmp_path.glob(".big.elm.*")):
            break
        time.sleep(0.01)
    assert began.poll() is None, "it finished before it could be interrupted"
    began.send_signal(signal.SIGINT)
    _, told = began.communicate(timeout=60)
    assert began.returncode == 130
    assert told.strip().endswith("Interrupted; nothing half-written was left behind.")
    assert "Traceback" not in told
    assert [p.name for p in tmp_path.iterdir()] == ["big.npy"]


@pytest.mark.skipif(os.name == "nt", reason="limits on file sizes are a Unix matter")
def test_a_full_disk_during_save_is_told(script, environment, folder):
    """A limit on file sizes stands in for a full disk."""
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    before = sorted(p.name for p in folder.iterdir())
    ran = subprocess.run(
        [script, "fit", "photo.png", "-o", "new.elm"], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=60, preexec_fn=limit,
    )  # fmt: skip
    assert ran.returncode == 3
    assert ran.stderr.startswith("Error: cannot write new.elm: File too large")
    assert sorted(p.name for p in folder.iterdir()) == before
