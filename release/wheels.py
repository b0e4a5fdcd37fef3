"""Which dependencies have no wheel for a Python: ``python release/wheels.py 3.14``.

Asks pip's index, and downloads nothing. Every requirement of pyproject.toml and every tool of
requirements-dev.txt counts, each alone, without what it needs itself.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SYSTEMS = [f"manylinux_2_{n}_x86_64" for n in range(17, 35)] + ["manylinux2014_x86_64"]


def requirements():
    """Every requirement, by its name alone; not the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [
        *project["dependencies"],
        *(ROOT / "requirements-dev.txt").read_text("utf-8").splitlines(),
    ]
    for extra in project["optional-dependencies"].values():
        lines += extra
    names = {re.match(r"[\w.-]*", line)[0].lower() for line in lines}
    return sorted(names - {"", "elmfield"})


def has_wheel(name, python):
    """Whether pip finds a wheel of a package for a Python on Linux."""
    with tempfile.TemporaryDirectory() as folder:
        where = [word for system in SYSTEMS for word in ("--platform", system)]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps",
                   "--only-binary=:all:", "--ignore-installed", "--target", folder,
                   "--implementation", "cp", "--python-version", python, *where, name]  # fmt: skip
        return subprocess.run(command, capture_output=True).returncode == 0


def main():
    """Print what lacks a wheel."""
    python, names = sys.argv[1], requirements()
    lacking = [name for name in names if not has_wheel(name, python)]
    print(f"Python {python}: {len(names) - len(lacking)} of {len(names)} have a wheel")
    print("none is lacking" if not lacking else f"lacking: {', '.join(lacking)}")


if __name__ == "__main__":
    main()
