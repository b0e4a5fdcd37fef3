"""What is installed: its dependencies are those it imports, and its types are there for callers."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv

import pytest

from support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"elmfield", "elmfield_command"}
NAMES = {
    "pil": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "google": "google-crc32c",
}

SCRIPT = """
import numpy as np
import elmfield as ef


def enlarged(image: "np.ndarray[tuple[int, int], np.dtype[np.float64]]", factor: float) -> ef.Field:
    settings = ef.smooth(psnr=40.0)
    field = ef.fit(image, settings, dims=("y", "x"), periodic={"x": 20.0}, progress=True)
    ef.save(field, "image.elm", dtype="float32")
    ef.write(field, "large.npy", scale=factor, quantity="gradient_magnitude")
    samples: ef.Gridded = ef.read("large.npy")
    names: tuple[str, ...] = samples.dims
    score: float = ef.psnr(image, field.samples())
    print(names, score, field.model.n_coefficients + 1, field.partition.n_regions)
    return ef.load("image.elm")
"""
MISTAKES = """
import elmfield as ef

ef.fit("photo.png", chanel_axis=2)
ef.psnr([1.0], [2.0]).upper()
ef.save("photo.elm", ef.fit("photo.png"))
"""


def named(requirement):
    return re.split(r"[\[<>=;]", requirement)[0].strip().lower()


def imported():
    """Every package that a module of the source imports by name, wherever in the module."""
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "need":
                words = (n.value for n in ast.walk(node.args[0]) if isinstance(n, ast.Constant))
                found |= {word.split(".")[0] for word in words}
    found -= set(sys.stdlib_module_names) | OWN
    return {NAMES.get(name.lower(), name.lower().replace("_", "-")) for name in found}


@pytest.mark.thorough
def test_what_is_imported_is_declared():
    extras = PROJECT["optional-dependencies"]
    declared = {named(r) for r in PROJECT["dependencies"]}
    declared |= {named(r) for extra, given in extras.items() if extra != "test" for r in given}
    used = imported()
    assert used <= declared
    # Nothing is asked of everyone that the source does not use.
    assert {named(r) for r in PROJECT["dependencies"]} <= used


def test_extras_named_in_messages_are_there():
    extras = set(PROJECT["optional-dependencies"])
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"elmfield\[(\w+)\]'", path.read_text()):
            assert name in extras, f"{path.name} speaks of {name}"


@pytest.fixture(scope="session")
def user(installed, tmp_path_factory):
    """An interpreter that has the wheel, and all else that this one has."""
    where = tmp_path_factory.mktemp("user")
    venv.create(where, with_pip=False, symlinks=os.name != "nt")
    packages = sysconfig.get_path("purelib", vars={"base": str(where), "platbase": str(where)})
    with open(os.path.join(packages, "all.pth"), "w") as file:
        file.write(f"{installed}\n{sysconfig.get_path('purelib')}\n")
    return where / ("Scripts" if os.name == "nt" else "bin") / "python"


@pytest.mark.slow
def test_a_users_annotated_script_checks_against_the_wheel(installed, user, tmp_path):
    pytest.importorskip("mypy")
    assert (installed / "elmfield" / "py.typed").is_file()
    (tmp_path / "good.py").write_text(SCRIPT)
    (tmp_path / "wrong.py").write_text(MISTAKES)
    # A user may not have them, and reading torch takes as long as all the rest.
    skipped = ("torch", "xarray", "scipy", "dask", "distributed", "matplotlib", "zarr", "rich")
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n" + "".join(f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in skipped)
    )
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(user),
         "--cache-dir", str(tmp_path), "--no-error-summary", "good.py", "wrong.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert ran.stderr == ""
    told = re.findall(r"^(\w+)\.py:(\d+): error", ran.stdout, re.MULTILINE)
    assert sorted(set(told)) == [("wrong", line) for line in "456"], ran.stdout
