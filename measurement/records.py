"""Recorded results: JSON files, each number with the circumstances it was made under."""

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


def commit():
    """Return the commit that is checked out, "-dirty" where files differ; None without git."""
    words = ["git", "-C", Path(__file__).parent, "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


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
