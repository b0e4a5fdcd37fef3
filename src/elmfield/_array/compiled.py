"""Loops compiled by numba, where it is installed; elsewhere NumPy gives the same results.

A module of loops marks its functions with `compiled` and is imported only after `pays` was true:
importing numba takes about half a second, compiling its loops six more, once a machine.
"""

import os
from collections.abc import Callable
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import numpy as np

Loop = TypeVar("Loop", bound=Callable[..., Any])

MIN_SAMPLES = 1 << 17
"""Samples that a process works on before it loads loops that were compiled before."""

COMPILE_MIN_SAMPLES = 1 << 25
"""Samples of one job for which loops are compiled. Of these NumPy takes six seconds longer, as long
as compiling takes: no job is much slower for it. `elmfield compile` does it ahead."""

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
    kept = getattr(getattr(import_module(module), name), "_cache", None)
    try:
        return bool(kept._cache_file._load_index())  # type: ignore[union-attr]
    except (AttributeError, OSError):  # another numba, or no folder to keep them in
        return False


def compile_loops() -> None:
    """Compile all loops, and run them from now on, however little there is to do."""
    _Seen.work, _Seen.is_ready = MIN_SAMPLES, True
    tiles = import_module("elmfield.codec")
    tiles.unpack(tiles.pack(np.sin(np.arange(9000, dtype=np.float32)).reshape(90, 100)))


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
