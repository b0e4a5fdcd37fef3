"""What would be released, built, checked, installed and tried: `make release-check`.

Renders the conda recipe, builds sdist and wheel twice and compares them, asks twine, and installs
the wheel into clean environments of every Python that `PYTHONS` names and that is found here. In
each: nothing is installed that was not asked for, the import is quick, the README's Python and the
command line run. Then every extra alone, and all together. Needs git and pip's index; uses the
standard library only.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WHOLE = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = WHOLE["project"]
PACKAGES = [Path(p).name for p in WHOLE["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
LARGEST = 1 << 20  # bytes of the wheel
SLOWEST = 0.25  # processor seconds of the import, where NumPy's own takes
NUMPY = 0.12  # as much; on a machine that is slower just now, as many times longer
# torch is gigabytes with its libraries: `make test` has it pinned, and runs with it.
EXTRAS = sorted(set(PROJECT["optional-dependencies"]) - {"test", "judges", "docs", "torch"})
TOOLS = ("build", "twine", "hatchling", "py-rattler-build")
RECIPE = ROOT / "release" / "conda" / "recipe.yaml"
RENDER = "import rattler_build as r, sys; r.Stage0Recipe.from_file(sys.argv[1]).render()"
README = ("demo", "io", "show")  # what the README's blocks and commands use
BROUGHT = {"pip", "setuptools", "wheel", "elmfield"}

IMPORT = """
import time
start = time.process_time()
import {}
print(time.process_time() - start)
"""
BLOCKS = """
import re, sys, warnings
warnings.simplefilter("error")
names = {}
for block in re.findall(r"```python\\n(.*?)```", open(sys.argv[1], encoding="utf-8").read(), flags=re.S):
    exec(compile(block, "README.md", "exec"), names)
"""
COMMANDS = (
    "fit photo.png -o photo.elm --psnr 40",
    "info photo.elm",
    "render photo.elm -o large.png --scale 2",
    "compare photo.png photo.elm",
    "query photo.elm --at 10.5,20",
)


def run(*command, env=None, **options):
    """What a command says; its own words and an end where it fails."""
    env = {k: v for k, v in (env or os.environ).items() if not k.startswith("PYTHON")}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env, **options)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def told(what, since):
    """Say that something holds."""
    print(f"ok  {time.monotonic() - since:6.1f} s  {what}", flush=True)


def interpreters():
    """The Pythons that are here: on the path, or where pyenv keeps them."""
    found = {}
    for version in PYTHONS:
        kept = Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}")
        for path in (shutil.which(f"python{version}"), *sorted(kept)):
            if path and subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
                found[version] = str(path)
                break
    return found


def environment(python, folder, *requirements):
    """The interpreter of a new environment with these packages."""
    run(python, "-m", "venv", "--clear", folder)
    inside = folder / "bin" / "python"
    run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements)
    return inside


def built(tools, folder):
    """The sdist and wheel of the commit, and their digests."""
    date = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    env = {**os.environ, "SOURCE_DATE_EPOCH": date}
    source = folder / "source"
    # What is committed, nothing else that lies around.
    source.mkdir(parents=True)
    archive = folder / "source.tar"
    run("git", "archive", "-o", archive, "HEAD", cwd=ROOT)
    shutil.unpack_archive(archive, source)
    run(tools, "-m", "build", "--no-isolation", "-o", folder / "dist", source, env=env)
    files = sorted((folder / "dist").iterdir())
    return files, {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def check_wheel(wheel):
    """Only the package, typed, and below its size."""
    names = zipfile.ZipFile(wheel).namelist()
    ours = {*PACKAGES, wheel.name.rsplit("-", 3)[0] + ".dist-info"}
    strange = [n for n in names if n.split("/")[0] not in ours]
    if strange or "elmfield/py.typed" not in names:
        sys.exit(f"failed: the wheel lacks py.typed, or holds more than the package: {strange}")
    size = wheel.stat().st_size
    if size > LARGEST:
        sys.exit(f"failed: the wheel takes {size} bytes; {LARGEST} are allowed")
    return size


def needed(python, extras=()):
    """Names of all that the wheel needs, and what these need, by what is installed."""
    code = (
        "import importlib.metadata as m, re, sys\n"
        "todo, seen = [('elmfield', tuple(sys.argv[1:]))], set()\n"
        "while todo:\n"
        "    name, extras = todo.pop()\n"
        "    if (name, extras) in seen: continue\n"
        "    seen.add((name, extras))\n"
        "    try: needs = m.requires(name) or []\n"
        "    except m.PackageNotFoundError: continue\n"
        "    for r in needs:\n"
        "        wanted = re.findall(r'extra *== *.([\\w-]+)', r)\n"
        "        if wanted and not set(wanted) & set(extras): continue\n"
        "        found = re.match(r'([\\w.-]+)(?:\\[([^]]*)\\])?', r)\n"
        "        more = tuple(e.strip() for e in (found[2] or '').split(',') if e.strip())\n"
        "        todo.append((re.sub(r'[-_.]+', '-', found[1]).lower(), more))\n"
        "print(*{n for n, _ in seen})\n"
    )
    return set(run(python, "-c", code, *extras).split())


def installed(python):
    """Names of all that is installed."""
    code = "import importlib.metadata as m; print(*{d.name for d in m.distributions()})"
    names = run(python, "-c", code).split()
    return {re.sub(r"[-_.]+", "-", n).lower() for n in names}


def check_python(version, python, wheel, folder):
    """The wheel alone: its packages and its import; then the README and the command line."""
    since = time.monotonic()
    inside = environment(python, folder / f"alone-{version}", wheel)
    more = installed(inside) - needed(inside) - BROUGHT
    if more:
        sys.exit(f"failed: installed without being needed: {sorted(more)}")
    took, numpy = (
        min(float(run(inside, "-W", "error", "-c", IMPORT.format(name))) for _ in range(12))
        for name in ("elmfield", "numpy")
    )
    if took > SLOWEST * max(1, numpy / NUMPY):
        sys.exit(
            f"failed: the import takes {took:.2f} s, NumPy's {numpy:.2f}; {SLOWEST} are allowed"
        )
    run(inside, "-m", "pip", "check")
    told(f"{version}: {len(installed(inside) - BROUGHT)} packages, import {took:.3f} s", since)

    since = time.monotonic()
    inside = environment(python, folder / f"readme-{version}", f"{wheel}[{','.join(README)}]")
    place = folder / f"place-{version}"
    place.mkdir()
    run(inside, "-c", BLOCKS, ROOT / "README.md", cwd=place)
    for words in COMMANDS:
        run(inside.parent / "elmfield", *words.split(), cwd=place)
    told(f"{version}: the README's Python, and {len(COMMANDS)} commands", since)
    shutil.rmtree(folder / f"alone-{version}")
    shutil.rmtree(folder / f"readme-{version}")


def check_extras(version, python, wheel, folder, alone):
    """Every extra installs without the others, and all of them with each other."""
    for extra in [*(EXTRAS if alone else ()), ",".join(EXTRAS)]:
        since = time.monotonic()
        inside = environment(python, folder / "extra", f"{wheel}[{extra}]")
        run(inside, "-m", "pip", "check")
        run(
            inside,
            "-W",
            "error",
            "-c",
            "import elmfield as ef; ef.fit([[1.0, 2], [3, 5]])([0.5, 0])",
        )
        told(f"{version}: {extra}", since)
    shutil.rmtree(folder / "extra", ignore_errors=True)


def check_texts():
    """What is written in two places is the same in both."""
    version = re.search(
        r'^__version__ = "(.+)"', (ROOT / "src/elmfield/__init__.py").read_text("utf-8"), re.M
    )[1]
    if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text("utf-8"):
        sys.exit(f"failed: CITATION.cff is not of version {version}")
    recipe = RECIPE.read_text("utf-8")
    if f'version: "{version}"' not in recipe:
        sys.exit(f"failed: {RECIPE.name} is not of version {version}")
    needs = [re.sub(r"\[.*\]", "", r).replace(">=", " >=") for r in PROJECT["dependencies"]]
    for wanted in [*needs, *(f"{k} = {v}" for k, v in PROJECT["scripts"].items())]:
        if f"- {wanted}\n" not in recipe:
            sys.exit(f"failed: {RECIPE.name} lacks {wanted!r}")


def main():
    """Check after check; ends at the first that fails."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--python", action="append", help="only these versions, as 3.12")
    ask.add_argument("--no-extras", action="store_true", help="leave the extras out")
    asked = ask.parse_args()
    since = time.monotonic()
    check_texts()
    told("CHANGELOG.md, CITATION.cff and the conda recipe agree with pyproject.toml", since)
    pythons = {v: p for v, p in interpreters().items() if v in (asked.python or PYTHONS)}
    if not pythons:
        sys.exit(f"failed: none of Python {', '.join(asked.python or PYTHONS)} was found")
    with tempfile.TemporaryDirectory(prefix="elmfield-release-") as name:
        folder = Path(name)
        since = time.monotonic()
        tools = environment(sys.executable, folder / "tools", *TOOLS)
        run(tools, "-c", RENDER, RECIPE)
        told("the conda recipe renders", since)
        since = time.monotonic()
        files, digests = built(tools, folder / "one")
        _, same = built(tools, folder / "two")
        if digests != same:
            sys.exit(f"failed: two builds differ: {digests}, {same}")
        run(tools, "-m", "twine", "check", "--strict", *files)
        wheel = next(f for f in files if f.suffix == ".whl")
        size = check_wheel(wheel)
        told(f"built twice, the same bytes; twine content; wheel of {size / 1000:.0f} kB", since)
        for version, python in pythons.items():
            check_python(version, python, wheel, folder)
        for version, python in {} if asked.no_extras else pythons.items():
            # Alone on one of them: an extra's names do not depend on the Python.
            check_extras(version, python, wheel, folder, alone=version == min(pythons))
    missing = sorted(set(asked.python or PYTHONS) - set(pythons))
    print(
        "all checks passed" + (f"; not found, not checked: {', '.join(missing)}" if missing else "")
    )
    # Says which notes a release would still lack; the rest can be checked at any time.
    subprocess.run([sys.executable, ROOT / "changes" / "gather.py", "--check"], check=False)


if __name__ == "__main__":
    main()
