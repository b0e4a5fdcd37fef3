"""How work is run: batches by a limit of memory, threads, loops compiled by numba.

Memory: batches are sized by a limit, and smaller when memory runs out.

Threads: BLAS's own for one large product, ours for many small ones. Both at once would be more
threads than there are processors, and BLAS shares out small products at a loss: forty by forty,
batch after batch, took two OpenBLAS threads twice as long as one, and ten times as long while
another process was busy.

Compiled loops: where numba is installed; elsewhere NumPy gives the same results. A module of loops
marks its functions with `compiled` and is imported only after `pays` was true: importing numba
takes about half a second, compiling all loops about ten more, once a machine.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import numpy as np

from elmfield._array.backend import is_on_host, is_out_of_memory, outside_torch_modes
from elmfield._array.checks import is_number, wrong
from elmfield._array.typing import Array

T = TypeVar("T")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

HOST_BATCH_BYTES, DEVICE_BATCH_BYTES = 1 << 27, 1 << 30
"""Bytes of intermediate results in a batch: 128 MiB on the host, 1 GiB on a device."""

MIN_LIMIT_BYTES = 1 << 16
"""The smallest limit that makes sense."""

_limit: ContextVar[int | None] = ContextVar("memory_limit", default=None)


@contextmanager
def memory_limit(n_bytes: int | None) -> Iterator[None]:
    """Within ``with memory_limit(n_bytes):`` batches of intermediate results take about that much.

    Input, output and the factorised modes come on top. None restores the default: 128 MiB, or
    1 GiB on a device.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> with ef.memory_limit(2**24):
    ...     large = ef.fit(np.eye(50)).resize((100, 100))
    """
    if n_bytes is not None and not (is_number(n_bytes) and n_bytes >= MIN_LIMIT_BYTES):
        least = f"at least {MIN_LIMIT_BYTES} (64 KiB)"
        raise wrong("memory_limit", f"be a number of bytes, {least}", n_bytes)
    token = _limit.set(None if n_bytes is None else int(n_bytes))
    try:
        yield
    finally:
        _limit.reset(token)


def capacity(like: Array) -> int:
    """Numbers of eight bytes that a batch may hold where `like` lives."""
    return table_bytes(like, 1) // 8


def table_bytes(like: Array, batches: int = 8) -> int:
    """Bytes that a table made to be kept may take where `like` lives.

    The memory limit, where one is set; without one eight times what a batch may take: 1 GiB on
    the host, 8 GiB on a device.
    """
    usual = HOST_BATCH_BYTES if is_on_host(like) else DEVICE_BATCH_BYTES
    limit = _limit.get()
    return batches * usual if limit is None else limit


def runs(n: int, step: int) -> list[tuple[int, int]]:
    """Ranges of at most `step` that cover 0 to n; one, empty, for n = 0."""
    return [(i, min(i + step, n)) for i in range(0, max(n, 1), step)]


def with_less_memory(work: F) -> F:
    """Return `work` that is tried once more, with batches half as large, when memory runs out.

    Outside the modes of torch, as all work on samples and coefficients is.
    """

    @wraps(work)
    def careful(*args: Any, **options: Any) -> Any:
        with outside_torch_modes():
            try:
                return work(*args, **options)
            except Exception as first:
                if not is_out_of_memory(first):
                    raise
            smaller = (_limit.get() or HOST_BATCH_BYTES) // 2
            try:
                with memory_limit(max(smaller, MIN_LIMIT_BYTES)):
                    return work(*args, **options)
            except Exception as second:
                if not is_out_of_memory(second):
                    raise
                raise MemoryError(
                    f"out of memory, also with batches of {smaller / 2**20:.0f} MiB. Set a smaller "
                    "`memory_limit`, or give the work in smaller parts."
                ) from second

    return cast(F, careful)


# --- threads --------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _blas() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def n_processors() -> int:
    """Processors that this process may use, of those the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # where the system does not say
        return os.cpu_count() or 1


def n_threads() -> int:
    """Threads to use: what BLAS may, no more than there are processors for this process."""
    return max(1, min(max((int(b.num_threads) for b in _blas()), default=1), n_processors()))


@contextmanager
def small_products() -> Iterator[None]:
    """Within this context BLAS keeps to the thread that calls it.

    Where BLAS is limited already nothing is changed, so contexts may overlap.
    """
    usual = [(b, int(b.num_threads)) for b in _blas()]
    usual = [(b, n) for b, n in usual if n > 1]
    for b, _ in usual:
        b.set_num_threads(1)
    try:
        yield
    finally:
        for b, n in usual:
            b.set_num_threads(n)


def spread(work: Callable[[T], R], items: Sequence[T], at_most: int | None = None) -> list[R]:
    """Return ``work(item)`` of every item, on as many threads as BLAS would have used, or fewer."""
    from concurrent.futures import ThreadPoolExecutor  # 5 ms that a mere import need not wait

    n = min(len(items), at_most or len(items))
    if n <= 1:
        return [work(item) for item in items]
    n = min(n, n_threads())
    with small_products(), ThreadPoolExecutor(n) as pool:
        return list((pool.map if n > 1 else map)(work, items))


# --- compiled loops -------------------------------------------------------------------------------


MIN_SAMPLES = 1 << 17
"""Samples that a process works on before it loads loops that were compiled before."""

COMPILE_MIN_SAMPLES = 1 << 26
"""Samples of one job for which loops are compiled. Of these NumPy takes twelve seconds longer, as
long as compiling takes: no job is much slower for it. `elmfield compile` does it ahead."""

LAST_LOOP = "elmfield.codec.lossless.prediction_kernels", "decode"
"""The loop that is compiled last: where it is known, all are."""


class _Seen:
    """How much work this process has seen, and whether it has loops at hand (None: not asked)."""

    work = 0
    is_ready: bool | None = None


@lru_cache(maxsize=1)
def installed() -> bool:
    """Whether numba is there, and ``ELMFIELD_COMPILED=0`` does not turn it off."""
    return os.environ.get("ELMFIELD_COMPILED", "1") != "0" and find_spec("numba") is not None


def pays(work: int) -> bool:
    """Whether to run compiled loops on `work` more samples.

    They are loaded once a process has seen enough, and compiled for a job that is large by itself:
    what begins one announces all its samples.
    """
    if not installed():
        return False
    _Seen.work += work
    if _Seen.work < MIN_SAMPLES:
        return False
    if _Seen.is_ready is None:
        _Seen.is_ready = were_compiled()
    if not _Seen.is_ready and work >= COMPILE_MIN_SAMPLES:
        compile_loops()
    return _Seen.is_ready


def were_compiled() -> bool:
    """Whether numba has compiled these very loops before, and kept them."""
    module, name = LAST_LOOP
    try:
        return bool(getattr(import_module(module), name)._cache._cache_file._load_index())
    except (AttributeError, OSError):  # another numba, or no folder to keep them in
        return False


def compile_loops() -> None:
    """Compile all loops, and run them from now on, however little there is to do."""
    _Seen.work, _Seen.is_ready = MIN_SAMPLES, True
    tiles = import_module("elmfield.codec")
    wave = np.sin(np.arange(9000, dtype=np.float32)).reshape(90, 100)
    # LAST_LOOP is one without loss
    for asked in ({"step": 1e-2}, {"max_error": 1e-2, "effort": 2}, {}):
        tiles.unpack(tiles.pack(wave, **asked))


def compiled(loop: F) -> F:
    """`loop`, compiled for the types it is called with; whole numbers wrap, other threads run.

    Indices are not checked: callers must, above all where they come from a file. What a loop calls
    lies in its own module, since numba's cache notices changes only there.
    """
    import numba

    made = partial(numba.njit, nogil=True, error_model="numpy")
    try:
        return cast(F, made(cache=True)(loop))
    except RuntimeError:  # no folder to keep it in: it is compiled in every process
        return cast(F, made()(loop))
