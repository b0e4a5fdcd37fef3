"""Who does the work: this process, block by block, or Dask's workers, a few blocks at a time."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

import numpy as np

from elmfield._array.checks import whole
from elmfield._array.running import n_processors, small_products
from elmfield._array.typing import Array
from elmfield.errors import MissingExtraError
from elmfield.samples import Slab, Source

R = TypeVar("R")

Task = Callable[..., R]
"""``task(slab, values)``; `values`, what the source has there, may be left out."""

BLOCKS_PER_WORKER = 4
"""Handed out at a time: few enough to report progress, enough to keep all busy."""


class Engine(Protocol):
    """Does the same to many blocks."""

    @property
    def n_workers(self) -> int:
        """How many blocks are held at once."""

    @property
    def is_here(self) -> bool:
        """Whether all work is done in this process."""

    def reading(self) -> "Engine":
        """The same for work that reads its samples itself."""

    def each(self, task: Task[R], slabs: Sequence[Slab]) -> Iterator[R]:
        """Yield ``task(slab)`` of every block, in order."""


class Here:
    """The process that asks, one block after the other."""

    n_workers = 1
    is_here = True

    def reading(self) -> "Here":
        """The same."""
        return self

    def each(self, task: Task[R], slabs: Sequence[Slab]) -> Iterator[R]:
        """Yield ``task(slab)`` of every block, in order."""
        load = getattr(task, "load", None)
        if load is None:
            yield from map(task, slabs)
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as reader:  # a block is read while the one before is coded
            ahead = [reader.submit(load, slab) for slab in slabs[:1]]
            for slab, following in zip_longest(slabs, slabs[1:]):
                values = ahead.pop().result()
                if following is not None:
                    ahead.append(reader.submit(load, following))
                yield task(slab, values)


@dataclass(frozen=True, eq=False, kw_only=True)
class Spread:
    """Dask: threads by default, or whatever scheduler or cluster is the caller's.

    Parameters
    ----------
    array : Dask array or None
        The source, whose blocks are computed with the work on them; None where work reads itself.
    n_workers : int
        How many there are.
    """

    array: Any = field(default=None, repr=False)
    n_workers: int = 1

    is_here = False

    def reading(self) -> "Spread":
        """The same for work that reads its samples itself."""
        return Spread(n_workers=self.n_workers)

    def each(self, task: Task[R], slabs: Sequence[Slab]) -> Iterator[R]:
        """Yield ``task(slab)`` of every block, in order, some of them at a time."""
        dask: Any = import_module("dask")
        delayed = dask.delayed(run_alone, pure=False)
        step = BLOCKS_PER_WORKER * self.n_workers
        for i in range(0, len(slabs), step):
            some = slabs[i : i + step]
            given = [None] * len(some) if self.array is None else [self.values(s) for s in some]
            yield from dask.compute(*(delayed(task, s, v) for s, v in zip(some, given)))

    def values(self, slab: Slab) -> Any:
        """The Dask array of a block, all channels."""
        return self.array(slab) if callable(self.array) else self.array[slab]


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
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise MissingExtraError(
            "several workers need distributed; pip install 'elmfield[dist]'."
        ) from error
    with ExitStack() as stack:
        if scheduler is None:
            local = distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address=None
            )
            client = stack.enter_context(distributed.Client(stack.enter_context(local)))
        else:
            client = stack.enter_context(distributed.Client(scheduler, timeout="15s"))
            client.wait_for_workers(n_workers or 1, timeout=60)
        check_workers(client)
        yield Spread(n_workers=max(1, sum(client.nthreads().values())))


def check_workers(client: Any) -> None:
    """Raise if a worker cannot import this package, or has another version of it."""
    from elmfield import __version__

    found = client.run(
        lambda: (
            __import__("importlib.util").util.find_spec("elmfield") is not None
            and __import__("elmfield").__version__
        )
    )
    wrong = {name: v or "none" for name, v in found.items() if v != __version__}
    if wrong:
        name, version = next(iter(wrong.items()))
        raise RuntimeError(
            f"every worker needs elmfield {__version__}; {name} has {version}. Install it there."
        )


# --- Dask arrays ----------------------------------------------------------------------------------


def check_chunks(values: Any) -> None:
    """Raise if a Dask array does not know its own shape."""
    if any(math.isnan(n) for n in values.shape):
        raise ValueError(
            f"a Dask array must know its shape; got {values.shape}. Call "
            "array.compute_chunk_sizes() first."
        )


def n_dask_workers() -> int:
    """Workers of the scheduler that Dask would use now."""
    distributed = sys.modules.get("distributed")
    if distributed is not None:
        try:
            client = distributed.get_client()
        except ValueError:
            pass
        else:
            check_workers(client)
            return max(1, int(sum(client.nthreads().values())))
    dask: Any = import_module("dask")

    chosen = dask.config.get("scheduler", None)
    if chosen in ("sync", "synchronous", "single-threaded"):
        return 1
    return int(dask.config.get("num_workers", None) or n_processors())


@dataclass(frozen=True)
class Shell:
    """A source of which only shape and dtype travel: its samples come with the work."""

    shape: tuple[int, ...]
    dtype: Any

    def read(self, slab: Slab = ()) -> Array:
        """Nothing to read here."""
        raise RuntimeError("the samples of a Dask array come with the work on them.")


def shell_of(source: Source) -> Shell:
    """What travels of a source."""
    return Shell(tuple(source.shape), np.dtype(source.dtype))
