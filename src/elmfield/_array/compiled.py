"""Loops compiled by numba, where it is installed; elsewhere NumPy gives the same results.

A module of loops marks its functions with `compiled` and is imported only after `pays` was true:
importing numba takes about half a second, compiling a loop some seconds more, once a machine.
"""

import os
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., Any])

MIN_SAMPLES = 1 << 17
"""Samples or points that a process works on before it loads the compiler."""


class _Seen:
    """How much work this process has seen."""

    work = 0


@lru_cache(maxsize=1)
def installed() -> bool:
    """Whether numba is there, and ``ELMFIELD_COMPILED=0`` does not turn it off."""
    return os.environ.get("ELMFIELD_COMPILED", "1") != "0" and find_spec("numba") is not None


def pays(work: int) -> bool:
    """Whether to run compiled loops on `work` more samples: once a process has seen enough."""
    if not installed():
        return False
    _Seen.work += work
    return _Seen.work >= MIN_SAMPLES


def compiled(loop: Loop) -> Loop:
    """`loop`, compiled for the types it is called with; whole numbers wrap, other threads run.

    Indices are not checked: callers must, above all where they come from a file. What a loop calls
    lies in its own module, since numba's cache notices changes only there.
    """
    import numba

    made = partial(numba.njit, nogil=True, error_model="numpy")
    try:
        return cast(Loop, made(cache=True)(loop))
    except RuntimeError:  # no folder to keep it in: it is compiled in every process
        return cast(Loop, made()(loop))
