"""Files below a folder or an fsspec URL, which appear whole; they travel to workers by its name."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from elmfield.io.model.entries import filesystem, is_url


class Files(Protocol):
    """Byte strings by name, below a root; each appears only once it is complete."""

    @property
    def root(self) -> str:
        """Where they are: a folder or a URL."""

    def put(self, key: str, data: bytes) -> None:
        """Write one."""

    def read(self, key: str) -> bytes:
        """The bytes of one; FileNotFoundError if it is not there."""

    def size(self, key: str) -> int:
        """How many bytes one has."""

    def keys(self) -> list[str]:
        """All names."""

    def drop(self) -> None:
        """Remove all."""


@contextmanager
def appearing(place: Path) -> Iterator[BinaryIO]:
    """A file to be written on a disk: beside its place, then moved there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.with_name(f".{place.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        with beside.open("wb") as file:
            yield file
        os.replace(beside, place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def files_at(root: str | Path) -> Files:
    """The files below a folder or a URL."""
    return RemoteFiles(str(root)) if is_url(root) else WholeFiles(str(root))


@dataclass(frozen=True)
class WholeFiles:
    """Files of a folder on a disk."""

    root: str

    def put(self, key: str, data: bytes) -> None:
        """Write one."""
        with appearing(Path(self.root, key)) as file:
            file.write(data)

    def read(self, key: str) -> bytes:
        """The bytes of one."""
        return Path(self.root, key).read_bytes()

    def size(self, key: str) -> int:
        """How many bytes one has."""
        return os.path.getsize(Path(self.root, key))

    def keys(self) -> list[str]:
        """All names."""
        here = Path(self.root)
        return sorted(p.relative_to(here).as_posix() for p in here.rglob("*") if p.is_file())

    def drop(self) -> None:
        """Remove all."""
        shutil.rmtree(self.root, ignore_errors=True)


@dataclass(frozen=True)
class RemoteFiles:
    """Files below a URL: stores of objects show them once they are complete."""

    root: str

    def _at(self, key: str = "") -> tuple[Any, str]:
        system, place = filesystem(self.root)
        return system, f"{place.rstrip('/')}/{key}" if key else place.rstrip("/")

    def put(self, key: str, data: bytes) -> None:
        """Write one."""
        system, place = self._at(key)
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.pipe_file(place, data)

    def read(self, key: str) -> bytes:
        """The bytes of one."""
        system, place = self._at(key)
        return bytes(system.cat_file(place))

    def size(self, key: str) -> int:
        """How many bytes one has."""
        system, place = self._at(key)
        return int(system.size(place))

    def keys(self) -> list[str]:
        """All names."""
        system, place = self._at()
        start = len(system._strip_protocol(place).rstrip("/")) + 1
        return sorted(found[start:] for found in system.find(place))

    def drop(self) -> None:
        """Remove all."""
        system, place = self._at()
        if system.exists(place):
            system.rm(place, recursive=True)
