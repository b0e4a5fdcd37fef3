"""Several processes and threads at one model: read together, written while others are killed."""

import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import elmfield as ef


def values(seed, n=96):
    """Samples that no codec makes small."""
    return np.random.default_rng(seed).standard_normal((n, n))


def _asked(at):
    return np.asarray(FIELD(at))


def _open(path):
    global FIELD
    FIELD = ef.load(path)


def _differ(a, b):
    """By more than rounding: who has seen much sums by compiled loops, in another order."""
    return a.shape != b.shape or not np.allclose(a, b, rtol=0, atol=1e-12 * np.ptp(b))


def read_by_pool(path, how, lazy):
    """How many of a pool's answers differ from those of this process; forked ones inherit it."""
    global FIELD
    field = FIELD = lazy
    rng = np.random.default_rng(3)
    points = [np.stack([rng.uniform(0, n - 1, 40) for n in field.shape], -1) for _ in range(12)]
    expected = [np.asarray(ef.load(path)(p)) for p in points]
    start = None if how == "fork" else _open
    context = multiprocessing.get_context(how)
    with context.Pool(2, start, () if start is None else (str(path),)) as pool:
        found = pool.map(_asked, points, chunksize=1)
    return sum(_differ(a, b) for a, b in zip(found, expected))


def read_by_threads(path, n=8):
    """How many answers of threads that share a lazy field differ."""
    field, rng = ef.load(path), np.random.default_rng(4)
    points = [np.stack([rng.uniform(0, m - 1, 40) for m in field.shape], -1) for _ in range(4 * n)]
    expected = [np.asarray(ef.load(path)(p)) for p in points]
    with ThreadPoolExecutor(n) as threads:
        found = list(threads.map(lambda p: np.asarray(field(p)), points))
    return sum(_differ(a, b) for a, b in zip(found, expected))


def killed(path, work, old, new, delay):
    """What is at `path` after a process that did `work` there was killed: old, new, none or wrong.

    The process is forked, so that it starts at once.
    """
    child = os.fork()
    if child == 0:
        try:
            work(path)
        finally:
            os._exit(0)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not path.exists():
        return "none"
    found = ef.load(path).samples()
    for name, known in (("old", old), ("new", new)):
        if np.array_equal(found, known):
            return name
    return "wrong"
