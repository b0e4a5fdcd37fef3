"""Help: at once, with examples that work."""

import re
import subprocess
import sys
from itertools import pairwise

import click
import numpy as np
import pytest

from elmfield.cli import COMMANDS, cli

HEAVY = [
    *("torch", "xarray", "dask", "pandas", "zarr", "numcodecs", "rich", "matplotlib", "skimage"),
    *(f"scipy.{part}" for part in ("linalg", "fft", "interpolate", "spatial", "optimize")),
]

NAMES = (
    *("fit", "info", "view", "render", "query", "compare", "beam", "demo"),
    *("compile", "completion"),
)


@pytest.mark.slow
def test_the_wheel_is_what_runs(script, environment, installed, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", "import elmfield; print(elmfield.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.strip().startswith(str(installed))


@pytest.mark.slow
def test_help_loads_nothing_heavy(environment, tmp_path):
    code = f"""
import sys
from elmfield.cli import main
try:
    main(["--help"])
except SystemExit as done:
    assert done.code == 0
    print([m for m in {HEAVY!r} if m in sys.modules])
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "[]"
    for name in NAMES:
        assert name in ran.stdout
    assert "Exit codes" in ran.stdout


@pytest.mark.slow
def test_without_click_the_command_names_the_extra(environment, tmp_path):
    code = "import sys; sys.modules['click'] = None; import elmfield_command as c; c.main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, "info", "x.elm"],
        capture_output=True, text=True, env=environment, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 4
    assert ran.stderr == "The command needs click; pip install 'elmfield[cli]'.\n"


def commands():
    """All commands by name, their modules imported."""
    context = click.Context(cli)
    return {name: cli.get_command(context, name) for name in cli.list_commands(context)}


def test_the_list_of_commands_says_what_they_say_of_themselves():
    assert tuple(COMMANDS) == NAMES
    for name, command in commands().items():
        assert command.help.strip().split("\n\n")[0] == COMMANDS[name][1]


def examples():
    """Every line of help that begins with the command's name."""
    for name, command in {"": cli, **commands()}.items():
        lines = re.findall(r"^\s*(elmfield .*)$", command.epilog or "", re.MULTILINE)
        assert lines, f"{name} shows no example"
        for line in lines:
            yield pytest.param(line, id=line)


@pytest.mark.slow
@pytest.mark.parametrize("line", list(examples()))
def test_examples_in_the_help_work(line, run, folder):
    words = line.split()[1:]
    if words[0] == "demo":
        pytest.importorskip("skimage")
        pytest.skip("the demo has tests of its own; it takes as long as all of these")
    if words[0] == "view":
        pytest.skip("it serves until it is closed, or writes many tiles: test_looking.py")
    if "sst.elm" in words and words[0] != "fit":
        run("fit", "sst.nc", "-o", "sst.elm", "--slice", "time=0", "-q")
    if "speech.elm" in words:
        sound = pytest.importorskip("soundfile")
        sound.write(folder / "sound.wav", np.sin(np.arange(4000) / 9), 16000)
        run("fit", "sound.wav", "-o", "speech.elm", "-q")
    if "months.csv" in words:
        rows = [f"mean,{30 * k},{30 * k + 30},{np.sin(k / 2)},0" for k in range(12)]
        table = ["kind,day_low,day_high,value,noise", *rows]
        (folder / "months.csv").write_text("\n".join(table))
    if "scan.elm" in words:
        nibabel = pytest.importorskip("nibabel")
        volume = np.add.outer(np.add.outer(np.arange(8), np.arange(9)), np.arange(7))
        affine = np.diag([2.0, 2.0, 3.0, 1.0])
        nibabel.save(nibabel.Nifti1Image(volume.astype(np.int16), affine), folder / "scan.nii.gz")
        run("fit", "scan.nii.gz", "-o", "scan.elm", "-q")
    ran = run(*words)
    for flag, target in pairwise(words):
        if flag in ("-o", "--map"):
            assert (folder / target).stat().st_size > 0
    if words[0] in ("query", "compare", "info", "completion"):
        assert ran.stdout.strip()


def test_every_command_has_help(run):
    for name in ("fit", "render"):
        assert "Example" in run(name, "--help").stdout


@pytest.mark.slow
def test_completion_completes(script, environment, tmp_path):
    asked = {**environment, "_ELMFIELD_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    ran = subprocess.run(
        [script], env={**asked, "COMP_WORDS": "elmfield re"}, capture_output=True, text=True,
        cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert "render" in ran.stdout
