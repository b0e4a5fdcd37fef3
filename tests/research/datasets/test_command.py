"""``python -m paper.research.datasets``."""

import subprocess
import sys

from paper.research import datasets
from paper.research.datasets import __main__ as command


def test_the_command_lists_all(nowhere, capsys):
    assert command.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(datasets.names())]] == [*datasets.names()]
    (line,) = (line for line in lines if line.startswith("kodim05 "))
    assert "paper's own" in line
    assert "can be fetched" in line
    (line,) = (line for line in lines if line.startswith("mri "))
    assert "  no  " in line
    assert str(nowhere / "cache") in lines[-1]


def test_the_command_fetches(nowhere, server, offer, toy, capsys):
    _, sha256, _ = toy
    offer(f"{server}/some.npy", sha256)
    assert command.main(["fetch", "toy"]) == 0
    assert capsys.readouterr().out.strip() == str(datasets.path("toy")[0])
    offer(f"{server}/none.npy")
    (nowhere / "cache" / "data" / "toys" / "toy.npy").unlink()
    assert command.main(["fetch", "toy"]) == 1
    assert "404" in capsys.readouterr().err
    assert command.main(["fetch", "kodim5"]) == 2
    assert "Did you mean" in capsys.readouterr().err


def test_the_command_says_what_is_wrong_with_the_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ELMFIELD_DATA", str(tmp_path / "typo"))
    assert command.main(["list"]) == 2
    assert "names no folder" in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    ran = subprocess.run(
        [sys.executable, "-m", "paper.research.datasets", "list"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "navier-stokes" in ran.stdout


def test_the_list_needs_no_optional_package():
    """Reading files does; knowing of them must not."""
    code = (
        "import sys; from paper.research import datasets; datasets.names();"
        "print([m for m in ('torch', 'xarray', 'h5py', 'PIL', 'rich') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
