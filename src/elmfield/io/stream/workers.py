"""Who does the work, and on what: this process or Dask's workers, on a source or a copy of it.

What is slow to read in any but its own chunks, a computed array or the frames of a video, is read
once, in these, and copied to a disk chunk by chunk; windows of any shape, also those of other
processes, are then cut from the copy.
"""

import hashlib
import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from itertools import product as cartesian
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from elmfield._array.backend import is_dask
from elmfield._array.cache import new_file
from elmfield._array.checks import whole
from elmfield._array.running import n_processors, small_products
from elmfield._array.typing import Array
from elmfield.io.files import need
from elmfield.io.formats.arrays import Lazy
from elmfield.samples import Slab

R = TypeVar("R")

Task = Callable[..., R]
"""``task(slab, values)``; `values`, what the source has there, may be left out."""

BLOCKS_PER_WORKER = 4
"""Handed out at a time: few enough to report progress, enough to keep all busy."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine:
    """Does the same to many blocks: one after the other in this process, or by Dask's workers.

    Dask uses threads by default, or whatever scheduler or cluster is the caller's.

    Parameters
    ----------
    n_workers : int or None
        How many workers Dask has; None where this process does the work.
    array : callable or None
        Gives the Dask array of a block, all channels, which is computed with the work on it; None
        where work reads itself.
    """

    n_workers: int | None = None
    array: Any = field(default=None, repr=False)

    def reading(self) -> "Engine":
        """The same for work that reads its samples itself."""
        return replace(self, array=None)

    def each(self, task: Task[R], slabs: Sequence[Slab]) -> Iterator[R]:
        """Yield ``task(slab)`` of every block, in order."""
        if self.n_workers is not None:
            yield from self._spread(task, slabs, BLOCKS_PER_WORKER * self.n_workers)
        elif (load := getattr(task, "load", None)) is None:
            yield from map(task, slabs)
        else:
            read = partial(copy_context().run, load)  # within the caller's memory limit
            with ThreadPoolExecutor(1) as reader:  # a block is read while the one before is coded
                ahead = [reader.submit(read, slab) for slab in slabs[:1]]
                for i, slab in enumerate(slabs):
                    values = ahead.pop().result()
                    ahead += [reader.submit(read, following) for following in slabs[i + 1 : i + 2]]
                    yield task(slab, values)

    def _spread(self, task: Task[R], slabs: Sequence[Slab], step: int) -> Iterator[R]:
        """Yield what Dask's workers make of the blocks, `step` of them at a time."""
        dask: Any = import_module("dask")
        delayed = dask.delayed(run_alone, pure=False)
        for i in range(0, len(slabs), step):
            some = slabs[i : i + step]
            given = [None if self.array is None else self.array(s) for s in some]
            yield from dask.compute(*(delayed(task, s, v) for s, v in zip(some, given)))


HERE = Engine()
"""This process."""


def run_alone(task: Task[R], slab: Slab, values: Array | None) -> R:
    """Run a task with one thread of BLAS: workers share the processors among themselves."""
    with small_products():
        return task(slab, values)


@contextmanager
def cluster(n_workers: int | None, scheduler: str | None) -> Iterator[Engine | None]:
    """An engine of so many processes on this machine, or of a scheduler at an address; or None.

    Raises
    ------
    ValueError
        If there is to be no process at all.
    MissingExtraError
        If distributed is not installed.
    OSError
        If nobody answers at the address.
    RuntimeError
        If the workers there have no elmfield.
    """
    if n_workers is None and scheduler is None:
        yield None
        return
    if n_workers is not None:
        whole("workers", n_workers)  # nobody would ever do the work
    distributed: Any = need("distributed", "dist", "work by several workers")
    with ExitStack() as stack:
        if scheduler is None:
            how = {"threads_per_worker": 1, "dashboard_address": None}
            local = stack.enter_context(distributed.LocalCluster(n_workers=n_workers, **how))
            client = stack.enter_context(distributed.Client(local))
        else:
            client = stack.enter_context(distributed.Client(scheduler, timeout="15s"))
            client.wait_for_workers(n_workers or 1, timeout=60)
        yield Engine(n_workers=count_workers(client))


def count_workers(client: Any) -> int:
    """Threads of all workers; RuntimeError if one lacks this package or has another version."""
    from elmfield import __version__

    found = client.run(
        lambda: (
            __import__("importlib.util").util.find_spec("elmfield") is not None
            and __import__("elmfield").__version__
        )
    )
    for name, version in found.items():
        if version != __version__:
            needs = f"every worker needs elmfield {__version__}"
            raise RuntimeError(f"{needs}; {name} has {version or 'none'}. Install it there.")
    return max(1, int(sum(client.nthreads().values())))


# --- Dask arrays ----------------------------------------------------------------------------------


def n_dask_workers() -> int:
    """Workers of the scheduler that Dask would use now."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        with suppress(ValueError):  # there is none
            return count_workers(distributed.get_client())
    config: Any = import_module("dask").config
    if config.get("scheduler", None) in ("sync", "synchronous", "single-threaded"):
        return 1
    return int(config.get("num_workers", None) or n_processors())


# --- a copy of the source -------------------------------------------------------------------------


MIN_READS_TO_COPY = 3.0
"""Times that a file would be read for one pass over all blocks, from which a copy is made."""

Spans = tuple[tuple[slice, ...], ...]


@dataclass(frozen=True)
class Spool:
    """An array in NPY files, one for each product of spans; it travels by its name.

    Parameters
    ----------
    folder : Path
        Where the files are.
    shape, dtype : tuple of int, NumPy dtype
        Of the array.
    spans : tuple of tuples of slice
        What is in one file, on each axis.
    """

    folder: Path
    shape: tuple[int, ...]
    dtype: Any
    spans: Spans

    @property
    def slabs(self) -> list[Slab]:
        """Return the slabs that have a file."""
        return list(cartesian(*self.spans))

    def _file(self, slab: Sequence[slice]) -> Path:
        return self.folder / ("-".join(str(s.start) for s in slab) + ".npy")

    def has(self, slab: Sequence[slice]) -> bool:
        """Whether all bytes of a file are there."""
        place, n = self._file(slab), math.prod(s.stop - s.start for s in slab)
        return place.exists() and place.stat().st_size > n * np.dtype(self.dtype).itemsize

    def save(self, slab: Sequence[slice], values: Array) -> None:
        """Write the samples of one file."""
        with new_file(self._file(slab)) as file:
            np.save(file, values, allow_pickle=False)

    def read(self, slab: Slab = ()) -> Array:
        """Return a slab, cut from the files that it touches."""
        slab = slab or tuple(slice(0, n) for n in self.shape)
        out = np.empty([s.stop - s.start for s in slab], self.dtype)
        touched = (
            [t for t in spans if t.start < s.stop and t.stop > s.start]
            for spans, s in zip(self.spans, slab)
        )
        for file in cartesian(*touched):
            ends = [(max(t.start, s.start), min(t.stop, s.stop)) for t, s in zip(file, slab)]
            values = np.load(self._file(file), mmap_mode="r")
            there, here = (
                tuple(slice(a - s.start, b - s.start) for (a, b), s in zip(ends, of))
                for of in (file, slab)
            )
            out[here] = values[there]
        return out


def own_chunks(values: Any) -> list[list[int]] | None:
    """Return lengths of a source's chunks along each axis; None where any window is as good."""
    if is_dask(values):
        return [list(map(int, lengths)) for lengths in values.chunks]
    chunk = values.chunk if isinstance(values, Lazy) else getattr(values, "chunks", None)
    if chunk is None or len(chunk) != len(values.shape):
        return None
    return [
        [min(c, n - a) for a in range(0, n, c)]
        for c, n in zip((max(1, int(c)) for c in chunk), values.shape)
    ]


def count_reads(blocks: Sequence[Slab], chunks: Sequence[Sequence[int]]) -> float:
    """Return how often a chunk is read in one pass over all blocks, a grid of slabs, on average."""
    times = 1.0
    for k, lengths in enumerate(chunks):
        edges = np.cumsum([0, *lengths])
        spans = {(b[k].start, b[k].stop) for b in blocks}
        touched = sum(
            edges[np.searchsorted(edges, b)] - edges[np.searchsorted(edges, a, "right") - 1]
            for a, b in spans
        )
        times *= float(touched) / max(1, edges[-1])
    return times


def merge_chunks(chunks: Sequence[Sequence[int]], room: int) -> Spans:
    """Merge neighbouring chunks, on the last axis first, up to `room` samples."""
    sizes = [max(lengths, default=1) for lengths in chunks]
    spans: list[tuple[slice, ...]] = [()] * len(chunks)
    for k in reversed(range(len(chunks))):
        most = max(sizes[k], room // math.prod(n for j, n in enumerate(sizes) if j != k))
        found, start, end = [], 0, 0
        for n in chunks[k]:
            if end > start and end + n - start > most:
                found.append(slice(start, end))
                start = end
            end += n
        spans[k] = (*found, slice(start, end))
        sizes[k] = max(s.stop - s.start for s in spans[k])
    return tuple(spans)


def make_spool(folder: Path, values: Any, spans: Spans) -> Spool | None:
    """Make an empty copy of a source, or find an earlier one; None if the disk is too small.

    Dask arrays are recognised by their names. A copy of anything else begins anew.
    """
    shape, dtype = tuple(map(int, values.shape)), np.dtype(values.dtype)
    name = "source"
    if is_dask(values):
        about = repr((values.name, shape, dtype.str, spans))
        name += "-" + hashlib.sha256(about.encode()).hexdigest()[:16]
    place = folder / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("source*"):
        if old != place or not is_dask(values):
            shutil.rmtree(old, ignore_errors=True)
    if shutil.disk_usage(folder).free < 2 * math.prod(shape) * dtype.itemsize:
        return None
    place.mkdir(exist_ok=True)
    return Spool(place, shape, dtype, spans)
