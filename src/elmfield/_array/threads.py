"""Threads: BLAS's own for one large product, ours for many small ones.

Both at once would be more threads than there are processors, and BLAS shares out small products at
a loss: forty by forty, batch after batch, took two OpenBLAS threads twice as long as one, and ten
times as long while another process was busy.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
    with small_products():
        if n <= 1:
            return [work(item) for item in items]
        with ThreadPoolExecutor(n) as pool:
            return list(pool.map(work, items))
