"""Mistakes, interruptions, full disks: a message, a code, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("fit photo.png", 2, "Missing option"),
        ("fit photo.png -o x.bin", 2, "ends in .elm or .elm.zarr"),
        ("fit photo.png -o no/x.elm", 3, "its folder does not exist"),
        ("fit nowhere.png -o x.elm", 3, "no file nowhere.png"),
        ("fit points.csv -o x.elm", 1, "files ending in '.csv' are not known"),
        ("fit photo.png -o x.elm --workers 0", 2, "0 is not in the range x>=1"),
        ("fit photo.png -o x.elm --width 5", 2, "only with --preset paper"),
        ("fit photo.png -o x.elm --order fast", 2, "'fast' is not a number"),
        ("fit photo.png -o x.elm --slice depth=1", 2, "there is no axis 'depth'"),
        ("fit photo.png -o x.elm --overlap 99", 1, "`overlap` must lie between"),
        ("fit sst.nc -o x.elm --variable salt", 1, "has no array 'salt'; it has sst"),
        ("info photo.png", 3, "photo.png is a picture, no model: fit it first, `elmfield fit"),
        ("compare photo.png photo.png", 3, "photo.png is a picture, no model"),
        ("render photo.elm -o x.png --preset smooth", 2, "is a model, which is fitted already"),
        ("render photo.png -o x.png --preset paper --denoise yes", 2, "--denoise: only with"),
        ("fit photo.png -o x.elm --preset oriented --psnr 3", 2, "only with --preset smooth"),
        ("info nowhere.elm", 3, "no model at nowhere.elm"),
        ("render photo.elm -o x.xyz", 1, "are not known"),
        (
            "render photo.elm -o x.png --scale 2 --shape 3,4",
            1,
            "only one of shape, scale, spacing can be",
        ),
        ("render photo.elm -o x.png --shape 3", 1, "`shape` must be 2 whole numbers of at least"),
        ("render photo.elm -o x.png --window depth=0:1", 2, "there is no axis 'depth'"),
        ("fit photo.png -o x.elm --channel-axis 0", 2, "where these samples have their channels"),
        ("fit photo.png -o x.elm --channel-axis band", 2, "must be one of the axes ['row', "),
        ("fit photo.elm -o x.elm", 1, "photo.elm is a model, not samples; open it with load"),
        ("fit . -o x.elm", 3, "is a folder; say which file in it"),
        ("render photo.elm -o x.png --scale 0", 1, "`scale` must be a positive"),
        (
            "render photo.elm -o x.png --scale 2,3,4",
            1,
            "`scale` must be one number or one per",
        ),
        ("render photo.elm -o x.png --window row=60:35", 1, "first end must lie below the second"),
        ("render photo.elm -o x.png --window row=5:5", 1, "first end must lie below the second"),
        ("render photo.elm -o x.npy --align nodes --window row=5.1:5.9", 1, "has no node in it"),
        ("query photo.elm --points none.csv", 1, "none.csv has no points"),
        ("query photo.elm --points heads.csv", 1, "heads.csv has no points"),
        ("query photo.elm --at -50,0", 1, "Pass --outside nearest or --outside nan"),
        (
            "fit photo.png -o x.elm --variable foo",
            1,
            ".png files have no names; got variable 'foo'",
        ),
        ("fit broken.png -o x.elm", 3, "broken.png cannot be read as a picture"),
        ("fit none.png -o x.elm", 3, "none.png cannot be read as a picture"),
        ("fit broken.nc -o x.elm", 3, "broken.nc cannot be read as NetCDF"),
        ("compare none.nc photo.elm", 3, "none.nc cannot be read as NetCDF"),
        ("info s3://nowhere/x.elm", 4, "Install s3fs"),
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


@pytest.mark.slow
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
        if busy(began) > 1.0 if stage == "fit" else any(tmp_path.glob(".big.elm-*/*")):
            break
        time.sleep(0.01)
    assert began.poll() is None, "it finished before it could be interrupted"
    began.send_signal(signal.SIGINT)
    _, told = began.communicate(timeout=60)
    assert began.returncode == 130
    assert told.strip().endswith("Interrupted; nothing half-written was left behind.")
    assert "Traceback" not in told
    assert [p.name for p in tmp_path.iterdir()] == ["big.npy"]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="limits on file sizes are a Unix matter")
def test_a_full_disk_during_save_is_told(script, environment, folder):
    """A limit on file sizes stands in for a full disk."""
    import resource

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    before = sorted(p.name for p in folder.iterdir())
    # Else Python would keep compiled modules that end at the limit, for all who come after.
    environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(
        [script, "fit", "photo.png", "-o", "new.elm"], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=60, preexec_fn=limit,
    )  # fmt: skip
    assert ran.returncode == 3
    assert ran.stderr.startswith("Error: cannot write new.elm: File too large")
    assert sorted(p.name for p in folder.iterdir()) == before
