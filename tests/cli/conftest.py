"""The command line in a folder of its own: in this process, or as the installed command."""

import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import elmfield as ef
from elmfield.io.formats.raster import png


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
def installed_command(script, environment, folder):
    """Run the installed command in the folder, as a user does; its result."""

    def call(*words, code=0):
        ran = subprocess.run(
            [script, *map(str, words)], cwd=folder, env=environment,
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert ran.returncode == code, ran.stderr
        assert "Traceback" not in ran.stderr
        return ran

    return call


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """The same in this process, without the second that a process takes to start."""
    from elmfield.cli import main

    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(folder)

    def call(*words, code=0, text=None):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((text or "").encode())))
        capsys.readouterr()
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # told, as the command tells them
            with pytest.raises(SystemExit) as left:
                main(list(map(str, words)))
        out, err = capsys.readouterr()
        assert left.value.code == code, err
        assert "Traceback" not in err
        return SimpleNamespace(stdout=out, stderr=err)

    return call


@pytest.fixture(scope="session")
def picture():
    """A photograph, as one is drawn from three formulas."""
    y, x = np.mgrid[0:176, 0:160]
    red = 128 + 100 * np.sin(0.1 * x) * np.cos(0.07 * y)
    green = 90 + 60 * np.cos(0.002 * x * y)
    blue = 120 + 40 * np.sin(0.3 * y) + 50 * (x > 80)
    return np.stack([red, green, blue], -1).astype(np.uint8)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory, picture):
    """The files that the examples in the help speak of."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "photo.png").write_bytes(png(picture))
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


@pytest.fixture
def told(capsys):
    """What a command prints as JSON, or for people, run in this process."""
    from elmfield.cli import cli

    def call(*words, people=False):
        cli.main([*map(str, words), *([] if people else ["--json"])], standalone_mode=False)
        out = capsys.readouterr().out
        return out if people else json.loads(out)

    return call
