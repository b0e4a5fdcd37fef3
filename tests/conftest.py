"""Fixtures: array libraries, the data folder, the GPU mark; fixed seeds for generated inputs."""

import importlib
import os
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

# Commands that tests interrupt must hear it, also where the tests run in the background of a shell.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests run side by side, on arrays too small to share among threads. Before NumPy is imported, for
# processes that are started here; a plugin may have imported it in this one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import Phase, settings
from threadpoolctl import threadpool_limits

threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")

# The same examples on every machine: a failure is a change of the code, never luck.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=25)
# Where it is enough that a test fails, as of mutants, nobody waits for the smallest example.
settings.register_profile("unshrunk", settings.get_profile("fixed"), phases=[Phase.generate])
settings.register_profile("few", settings.get_profile("unshrunk"), max_examples=5)
settings.load_profile(os.environ.get("ELMFIELD_HYPOTHESIS", "fixed"))

LIBRARIES = {
    "numpy": "array_api_compat.numpy",
    "torch": "array_api_compat.torch",
    "strict": "array_api_strict",
}
TRIED = os.environ.get("ELMFIELD_LIBRARIES", ",".join(LIBRARIES)).split(",")
"""Those that tests run on; `make quick` takes NumPy alone."""


CASES = int(os.environ.get("ELMFIELD_CASES", "0"))
"""Of a parametrised test, so many cases run at most; all if 0."""


class NoTorch:
    """Says of torch that it is not installed: importing it takes as long as many tests."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("torch is left out: ELMFIELD_LIBRARIES", name=name)


if "torch" not in TRIED:
    sys.meta_path.insert(0, NoTorch)


@pytest.fixture(params=TRIED, scope="session")
def xp(request):
    """An array-API namespace; a test that takes it runs once per library."""
    try:
        library = importlib.import_module(LIBRARIES[request.param])
    except ImportError as missing:
        pytest.skip(f"array library not installed: {missing}")
    if request.param == "torch":
        library.set_num_threads(1)
    return library


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    """Which of the two ways loops run; a test that takes it runs once for each."""
    from elmfield._array import running

    if request.param == "compiled" and not running.installed():
        pytest.skip("numba is not installed")
    monkeypatch.setattr(running, "pays", lambda work: request.param == "compiled")
    return request.param


@pytest.fixture(scope="session")
def data():
    """The folder of real test data: $ELMFIELD_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("ELMFIELD_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}; set ELMFIELD_DATA")
    return folder


@pytest.fixture
def rng():
    return np.random.default_rng(20260207)


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """The package as a wheel installs it, away from the source tree."""
    pytest.importorskip("hatchling")
    where = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(where)],
        cwd=Path(__file__).resolve().parents[1], capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(where.glob("*.whl"))) as wheel:
        wheel.extractall(where / "site")
    return where / "site"


@pytest.hookimpl(trylast=True)  # cases that a mark leaves out are not counted
def pytest_collection_modifyitems(config, items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
    if CASES:
        kept = set(_spread(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]


def _spread(items):
    """Of each test `CASES` cases at most: the first, the last, others evenly between."""
    tests = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        n = min(CASES, len(cases))
        yield from (cases[round(k)] for k in np.linspace(0, len(cases) - 1, n))


def _cuda():
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
