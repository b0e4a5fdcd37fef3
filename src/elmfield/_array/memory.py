"""How much is held at once: batches sized by a limit, smaller ones when memory runs out."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from elmfield._array.backend import is_on_host, is_out_of_memory, outside_torch_modes
from elmfield._array.checks import is_number, shown
from elmfield._array.typing import Array

HOST_BATCH_BYTES, DEVICE_BATCH_BYTES = 1 << 27, 1 << 30
"""Bytes of intermediate results in a batch: 128 MiB on the host, 1 GiB on a device."""

MIN_LIMIT_BYTES = 1 << 16
"""The smallest limit that makes sense."""

_limit: ContextVar[int | None] = ContextVar("memory_limit", default=None)

F = TypeVar("F", bound=Callable[..., Any])


def memory_limit(n_bytes: int | None) -> AbstractContextManager[None]:
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
        raise ValueError(
            f"`memory_limit` must be a number of bytes, at least {MIN_LIMIT_BYTES} (64 KiB); got "
            f"{shown(n_bytes)}."
        )
    return _limited(None if n_bytes is None else int(n_bytes))


@contextmanager
def _limited(n_bytes: int | None) -> Iterator[None]:
    token = _limit.set(n_bytes)
    try:
        yield
    finally:
        _limit.reset(token)


def capacity(like: Array) -> int:
    """Numbers of eight bytes that a batch may hold where `like` lives."""
    limit = _limit.get()
    return (_batch_bytes(like) if limit is None else limit) // 8


def _batch_bytes(like: Array) -> int:
    return HOST_BATCH_BYTES if is_on_host(like) else DEVICE_BATCH_BYTES


def table_bytes(like: Array) -> int:
    """Bytes that a table made to be kept may take where `like` lives.

    The memory limit, where one is set; without one eight times what a batch may take: 1 GiB on
    the host, 8 GiB on a device.
    """
    limit = _limit.get()
    return 8 * _batch_bytes(like) if limit is None else limit


def runs(n: int, step: int) -> list[tuple[int, int]]:
    """Ranges of at most `step` that cover 0 to n; one, empty, for n = 0."""
    return [(i, min(i + step, n)) for i in range(0, max(n, 1), step)]


def with_less_memory(work: F) -> F:
    """Return `work` that is tried once more, with batches half as large, when memory runs out.

    Outside the modes of torch, as all work on samples and coefficients is.
    """

    @functools.wraps(work)
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

    return careful  # type: ignore[return-value]
