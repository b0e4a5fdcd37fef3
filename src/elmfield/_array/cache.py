"""Factorised modes kept for the next array: they depend on settings alone.

In memory, up to a number of bytes, the least recently used going first; on request also in a
folder, from where another process takes them.
"""

import hashlib
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np

from elmfield._array.backend import device, move, n_bytes, namespace, to_numpy
from elmfield._array.checks import is_number, wrong
from elmfield._array.typing import Array

Arrays = dict[str, Array]
F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """Values by their keys, the one that was used last at the end; for several threads."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()

    def find(self, key: K) -> V | None:
        """The value of a key, which is the last used now; None if it is not kept."""
        with self._lock:
            if key in self:
                self.move_to_end(key)
            return self.get(key)

    def made_of(
        self, given: Array, about: object, make: Callable[[Array], V], most: int,
        size: Callable[[V], int] = lambda _: 1,
    ) -> V:  # fmt: skip
        """What is made of an array on the host, and kept by its bytes and what it is `about`."""
        key: Any = hashlib.blake2b(np.ascontiguousarray(given).data).digest(), given.shape, about
        if (found := self.find(key)) is None:
            self.keep(key, found := make(given), most, size)
        return found

    def keep(self, key: K, value: V, most: int, size: Callable[[V], int] = lambda _: 1) -> None:
        """Keep a value, and of the others those used last: `most` in all, or sizes of this sum."""
        with self._lock:
            self[key] = value
            while self and sum(map(size, self.values())) > most:
                self.popitem(last=False)


class Cache:
    """Named sets of arrays.

    Parameters
    ----------
    max_bytes : int
        How much to keep in memory; an entry larger than that is not kept.
    folder : path, optional
        Where to keep entries on disk as well.
    """

    def __init__(self, max_bytes: int = 1 << 30, folder: str | os.PathLike[str] | None = None):
        self.max_bytes = max_bytes
        self.folder = None if folder is None else Path(folder)
        self._kept = Recent[tuple[str, ...], Arrays]()
        self._refused: Path | None = None  # the folder of which a warning was given

    def get(self, name: str, like: Array, make: Callable[[], Arrays]) -> Arrays:
        """The arrays called `name`, in the library and on the device of `like`; made if missing."""
        key = (name, namespace(like).__name__, str(device(like)))
        if (kept := self._kept.find(key)) is not None:
            return kept
        path = None
        if self.folder is not None:
            path = self.folder / f"modes-{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"
        found = None if path is None or not path.exists() else _read(path, name, like)
        if found is None:
            found = make()
            if path is not None:
                self._write(path, name, found)
        self._kept.keep(key, found, self.max_bytes, _n_bytes)
        return found

    def clear(self) -> None:
        """Forget everything in memory; files stay."""
        self._kept.clear()

    def _write(self, path: Path, name: str, arrays: Arrays) -> None:
        try:
            host: Arrays = {k: np.asarray(to_numpy(a)) for k, a in arrays.items()}
            with new_file(path) as file:  # whole or not at all: two processes may write the same
                np.savez(file, name=name, **host)
        except OSError as problem:
            if self._refused != path.parent:
                self._refused = path.parent
                told = f"modes cannot be kept in {path.parent} ({problem})"
                warnings.warn(f"{told}; they are kept in memory only", stacklevel=2)


def _n_bytes(arrays: Arrays) -> int:
    return sum(map(n_bytes, arrays.values()))


def _read(path: Path, name: str, like: Array) -> Arrays | None:
    """What a file holds; None, with a warning, if it cannot be used: reading checks its sums."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            if str(file["name"]) != name:
                raise ValueError("it holds other modes")
            return {k: move(file[k], like) for k in file.files if k not in ("name", "digest")}
    except Exception as problem:
        why = problem if "pickle" not in str(problem) else "it is no such file"
        told = f"the cached modes in {path} cannot be used ({why})"
        warnings.warn(f"{told}; they are made again", stacklevel=2)
    return None


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears at its place once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        part.unlink(missing_ok=True)  # what a kill left, or a link that was put there
        with part.open("xb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


CACHE = Cache()
"""The process's own; see :func:`elmfield.cache_modes`."""

_MEMOS: list[Any] = []


def memoised(maxsize: int) -> Callable[[F], F]:
    """`functools.lru_cache` for small factors, forgotten with the others by `cache_modes`."""

    def keep(make: F) -> F:
        memo = lru_cache(maxsize)(make)
        _MEMOS.append(memo)
        return cast(F, memo)

    return keep


def cache_modes(
    max_bytes: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    clear: bool = False,
) -> None:
    """Set how factorised modes are kept for the next array of the same settings.

    Parameters
    ----------
    max_bytes : int, optional
        Bytes to keep in memory, 1 GiB unless said; 0 keeps nothing.
    folder : path, optional
        Keep them in this folder too, for other processes. Off by default.
    clear : bool
        Forget what is in memory now.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.cache_modes(2**30)             # keep at most 1 GiB
    >>> ef.cache_modes(clear=True)        # forget them
    """
    if max_bytes is not None and not (is_number(max_bytes) and max_bytes >= 0):
        raise wrong("max_bytes", "be a number of bytes, 0 or more", max_bytes)
    if folder is not None:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except (OSError, TypeError) as problem:
            raise ValueError(f"`folder` {folder!r} cannot be made: {problem}") from problem
    CACHE.max_bytes = 1 << 30 if max_bytes is None else int(max_bytes)
    CACHE.folder = None if folder is None else Path(folder)
    if clear or max_bytes == 0:
        CACHE.clear()
        for memo in _MEMOS:
            memo.cache_clear()
