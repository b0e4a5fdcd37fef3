"""Several processes and threads at one model: read together, written while others are killed."""

import functools
import itertools
import multiprocessing
import os
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

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


# --- kills at file operations ---------------------------------------------------------------------

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink")
"""What the interpreter says before it changes a folder; files that are opened come on top."""


def watched(work, before_change):
    """Do `work` in a forked process, which calls `before_change(number)` before each change.

    Of the file system, that is. Returns how the process ended: its exit code.
    """
    child = os.fork()
    if child == 0:
        code, number, busy = 1, itertools.count(), False

        def hear(event, args):
            nonlocal busy
            writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
            changes = event in CHANGES or (event == "open" and bool((args[2] or 0) & writes))
            if changes and not busy:
                busy = True
                before_change(next(number))
                busy = False

        try:
            sys.addaudithook(hear)
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


CUT = 9
"""Exit code of a process that was cut short."""


def cut_short(work, at):
    """Do `work` in a process that ends before its change number `at`; whether it came to that."""
    ended = watched(work, lambda number: os._exit(CUT) if number == at else None)
    if ended not in (0, CUT):
        raise RuntimeError(f"the process ended with {ended}")
    return ended == CUT


def n_changes(work):
    """How often `work` changes the file system."""
    end, start = os.pipe()
    if watched(work, lambda _: os.write(start, b".")):
        raise RuntimeError("the process failed")
    os.close(start)
    with open(end, "rb") as pipe:
        return len(pipe.read())


def contents(path):
    """The files of a folder by name, their bytes; None of folders."""
    return {
        p.relative_to(path).as_posix(): p.read_bytes() if p.is_file() else None
        for p in path.rglob("*")
    }


def samples_of(field):
    """The samples of a field, which are whole numbers here."""
    return np.rint(field.samples())


@dataclass
class Growing:
    """A model folder and samples to be added: what it was, and what it becomes undisturbed."""

    path: Path
    base: Path
    call: dict
    old: np.ndarray
    new: np.ndarray
    after: dict
    n_changes: int

    def append(self):
        """Add the samples."""
        values = self.new[(slice(None),) * self.place + (np.s_[self.old.shape[self.place] :],)]
        values = iter(np.moveaxis(values, self.place, 0)) if "memory_limit" in self.call else values
        return ef.append(self.path, values, **self.call)

    @property
    def place(self):
        """The axis that grows."""
        return self.call["axis"]

    def reset(self):
        """The model as it was."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.base, self.path)

    def seen(self):
        """What a reader sees: old, new (of frames some at a time), or what is wrong."""
        found = samples_of(ef.load(self.path))
        n, m = self.old.shape[self.place], found.shape[self.place]
        first = self.new[(slice(None),) * self.place + (np.s_[:m],)]
        if m < n or not np.array_equal(found, first):
            return "wrong: other samples"
        whole = m in (n, self.new.shape[self.place]) or "memory_limit" in self.call
        return "wrong: some of the samples" if not whole else "old" if m == n else "new"


@functools.lru_cache(maxsize=2)
def growing(seed, folder):
    """A generated model, and what is added to it."""
    rng = np.random.default_rng([5, *seed])
    d, how = int(rng.integers(1, 4)), str(rng.choice(["array", "frames", "coords", "channels"]))
    axis, (n, m) = int(rng.integers(d)), rng.integers(1, 30, 2)
    shape = [int(v) for v in rng.integers(3, 12, d)]
    shape[axis] = int(n + m)
    dtype = str(rng.choice(["uint8", "int16", "float32", "float64"]))
    new = np.cumsum(rng.integers(0, 4, (*shape, 2) if how == "channels" else shape), axis=axis)
    new = new.astype(dtype)
    old = new[(slice(None),) * axis + (np.s_[:n],)]
    call, coords = {"axis": axis}, None
    if how == "frames":
        call["memory_limit"] = 1 << 16
    if how == "coords":
        at = np.cumsum(rng.uniform(0.5, 2, n + m))
        coords = {f"axis{axis}": at[:n]} if n > 1 else None
        call["coords"] = at[n:] if n > 1 else None
    place = Path(folder) / "-".join(map(str, seed))
    place.mkdir()
    base, path = place / "base.elm.zarr", place / "grown" / "model.elm.zarr"
    channels = -1 if how == "channels" else None
    ef.fit(old, ef.smooth(order=2), channel_axis=channels, coords=coords, out=base)
    made = Growing(path, base, call, old, new, {}, 0)
    made.reset()
    made.append()
    made.after = contents(path)
    made.reset()
    made.n_changes = n_changes(made.append)
    return made


def small_parts(patch):
    """Small tiles, and overviews of few samples: small arrays then have what large ones have."""
    patch("elmfield.field.coefficients.tiles.TILE_BYTES", 1 << 10)
    patch("elmfield.io.model.sample_files.MIN_SAMPLES", 1 << 10)


def killed_append(seed, number, folder):
    """What a reader sees after an `append` that was cut short; the same call then completes it.

    "old", "new", or what is wrong.
    """
    case = growing(tuple(seed), str(folder))
    case.reset()
    early = ef.load(case.path)
    at = int(np.random.default_rng([6, *seed, number]).integers(case.n_changes))
    if not cut_short(case.append, at):
        return f"wrong: change {at} of {case.n_changes} was not reached"
    found = case.seen()
    if not np.array_equal(samples_of(early), case.old):
        return "wrong: a reader from before"
    if not np.array_equal(samples_of(case.append()), case.new):
        return f"wrong: samples after the same call, cut at change {at} of {case.n_changes}"
    if contents(case.path) != case.after:
        differ = {name for name, _ in contents(case.path).items() ^ case.after.items()}
        return f"wrong: bytes after the same call, cut at {at}: {sorted(differ)}"
    if os.listdir(case.path.parent) != [case.path.name]:
        return f"wrong: left behind {os.listdir(case.path.parent)}"
    if not np.array_equal(samples_of(early), case.old):
        return "wrong: a reader from before, after the call"
    return found


@functools.lru_cache(maxsize=2)
def streamed(seed, folder):
    """A place, a fit that is streamed there, what is then there, and how many changes that took."""
    rng = np.random.default_rng([8, *seed])
    values = np.cumsum(rng.standard_normal(rng.integers(20, 50, 2)), 0).astype("f4")
    if rng.integers(3) == 0:
        values[rng.random(values.shape) < 0.02] = np.nan
    asked = [{}, {"max_error": 0.05}, {"psnr": 45}, {"bits": 3}][int(rng.integers(4))]
    place = Path(folder) / "-".join(map(str, seed))
    path = place / str(rng.choice(["model.elm", "model.elm.zarr"]))

    def work():
        ef.fit(values, ef.smooth(order=2, **asked), out=path, memory_limit=1 << 16)

    place.mkdir()
    work()
    after = contents(place)
    shutil.rmtree(place)
    place.mkdir()
    return place, work, after, n_changes(work)


def killed_fit(seed, number, folder):
    """What is at a place after a streamed fit that was cut short; the same call completes it.

    "none", "new", or what is wrong.
    """
    place, work, after, n = streamed(tuple(seed), str(folder))
    shutil.rmtree(place)
    place.mkdir()
    rng = np.random.default_rng([9, *seed, number])
    for _ in range(int(rng.integers(1, 4))):  # and again
        cut_short(work, int(rng.integers(n)))
    found = contents(place)
    seen = [name for name in found if not name.startswith(".")]
    if seen and any(found[name] != after[name] for name in seen):
        return "wrong: half a model"
    work()
    differ = {name for name, _ in contents(place).items() ^ after.items()}
    if differ:
        return f"wrong: bytes after the same call: {sorted(differ)}"
    return "new" if seen else "none"
