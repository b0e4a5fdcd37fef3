"""Recorded results: JSON files, each number with the circumstances it was made under."""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import time
from pathlib import Path

import numpy as np
import scipy

import elmfield as ef


class NotRecorded(LookupError):
    """There is no record yet from which a table could be made."""


def read(path):
    """What a file holds; nothing where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def write(path, content):
    """Put content in place of a file at once: a run that is broken off keeps what it had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".partial")
    unfinished.write_text(json.dumps(content, ensure_ascii=False, indent=1, default=plain) + "\n")
    os.replace(unfinished, path)


def plain(x):
    """NumPy's numbers and arrays as JSON has them."""
    return x.tolist() if isinstance(x, (np.ndarray, np.generic)) else str(x)


def kind(device):
    """`cpu` or `cuda`, whichever card it is."""
    return str(device).split(":")[0]


ROOT = Path(__file__).resolve().parents[1]
"""The repository."""

PACKAGES = ("_array", "domain", "partition", "local", "fit", "field", "settings", "measure")
LIBRARY = (
    *(f"src/elmfield/{part}" for part in PACKAGES),
    "src/elmfield/samples.py",
    "measurement/heldout.py",
    "measurement/rivals.py",
)
"""Code that closed-form numbers depend on."""

NETWORKS = ("paper/research/baselines",)
"""Code that numbers of trained networks depend on."""


@functools.cache
def commit():
    """Return the commit that is checked out, "-dirty" where code differs; None without git."""
    git = ["git", "-C", ROOT]
    try:
        done = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "*.py", "*.toml"])
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() + ("-dirty" if changed.returncode else "")


@functools.cache
def code(*parts):
    """Return a digest of Python files, or of all in folders: what they do, not how they look.

    Comments, docstrings and layout do not count.
    """
    found = hashlib.sha256()
    for part in parts:
        place = ROOT / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                body = getattr(node, "body", None)
                if isinstance(body, list):
                    node.body = [s for s in body if not _is_text(s)]
            found.update(f"{path.relative_to(ROOT)}\n{ast.dump(tree)}\n".encode())
    return found.hexdigest()[:12]


def _is_text(statement):
    """Whether a statement is a string that stands alone."""
    value = getattr(statement, "value", None)
    alone = isinstance(statement, ast.Expr) and isinstance(value, ast.Constant)
    return alone and isinstance(value.value, str)


def circumstances(place="cpu", **more):
    """Under which conditions a number was made; words given go before what is found."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    versions |= {"scipy": scipy.__version__, "elmfield": ef.__version__}
    if importlib.util.find_spec("torch"):
        versions["torch"] = importlib.metadata.version("torch")
    cores = len(os.sched_getaffinity(0))
    name = f"{cores} cores, {platform.machine()}"
    if kind(place) == "cuda":
        import torch

        name = torch.cuda.get_device_name()
    threads = int(os.environ.get("OPENBLAS_NUM_THREADS", cores))
    about = {"device": name, "threads": threads, "versions": versions, "commit": commit()}
    if os.environ.get("ELMFIELD_SHARED"):  # set it where several scripts run at once
        about["note"] = "other work ran there too: seconds and joules are upper bounds"
    return about | more


def record(path, section, rows, device="cpu", **more):
    """Put one section of rows into a file, leaving the others."""
    about = circumstances(device, **{"seed": 0, "dtype": "float64"} | more)
    write(path, read(path) | {section: {"about": about, "rows": rows}})
    print(f"{path.stem}: {section}, {len(rows)} rows", flush=True)


def section_of(path, section):
    """One section: its rows, and what they were made under."""
    found = read(path)
    if section not in found:
        raise NotRecorded(f"{path.name} has no section {section!r}; run the script that makes it")
    return found[section]


def shortest(work, times=3, wait=lambda: None):
    """Seconds of the fastest of a few runs of `work`; `wait` until a device has done it."""
    found = []
    for _ in range(times):
        wait()
        start = time.perf_counter()
        work()
        wait()
        found.append(time.perf_counter() - start)
    return min(found)
