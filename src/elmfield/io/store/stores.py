"""Where a model's bytes lie: a folder, a zip file, or either of them behind an fsspec URL.

A :class:`Store` answers which names are there and what bytes one of them has. It never unpacks
anything to a disk, and checks every name and size that an archive claims.

zarr-python's own stores were tried instead. Importing them takes 0.55 s, and all that `load` does,
imports included, 0.08 s. Their zip store inflates what an archive claims (261 kB became 557 MiB),
and of two entries of one name takes the last; their folder store waits for a pipe without end.
"""

import os
import re
import shutil
import stat
import struct
import threading
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from elmfield._array.cache import new_file
from elmfield._array.checks import path_of
from elmfield.errors import MissingExtraError, StoreError, need

ROOT = "zarr.json"
"""The entry that holds the metadata of a model; without it nothing is one."""

SAFE_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
"""Names that entries may have: no root, no drive, nothing that climbs."""

MAX_ENTRIES = 1 << 22

MAX_ROOT_BYTES = 1 << 26
MAX_DOCUMENT_BYTES = 1 << 20
MAX_ENTRY_BYTES = 1 << 30
"""Bytes of the root document, of the document of one array, and of any other entry, beyond which it
is not read: blocks and tiles are far smaller."""


def is_url(path: object) -> bool:
    """Whether `path` is an fsspec URL rather than a place on a disk."""
    return isinstance(path, str) and "://" in path


def local_path(path: Any) -> Any:
    """Return the path that a ``file://`` URL means; anything else as it is."""
    if isinstance(path, str) and path.startswith("file://"):
        return filesystem(path)[1]
    return path


def filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path on it, without a slash at its end."""
    fsspec = need("fsspec", "remote", f"opening {url!r}")
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        scheme = url.partition("://")[0]  # fsspec says which package it is
        raise MissingExtraError(f"{scheme}:// addresses need another package: {error}.") from error
    return system, path.rstrip("/")


def open_store(path: str | Path) -> "Store":
    """Return the store at a path or URL: a folder if it is one, else a zip file.

    FileNotFoundError if nothing is there; StoreError if what is there is neither.
    """
    if is_url(path):
        system, inner = filesystem(str(path))
        if system.isdir(inner):
            return RemoteStore(str(path))
        if system.exists(inner):
            return ZipStore(str(path), system.open(inner, "rb"))
    elif (place := path_of(path)).is_dir():
        return FolderStore(str(place))
    elif place.exists():
        return ZipStore(str(place), open_plain_file(place))
    raise FileNotFoundError(f"no model at {path}")


def folder_at(root: str | Path) -> "FolderStore | RemoteStore":
    """Return the store of a folder, or of what is below a URL, whether it is there or not."""
    return RemoteStore(str(root)) if is_url(root) else FolderStore(str(root))


def open_plain_file(path: Path) -> IO[bytes]:
    """Open a file for reading; never a pipe, which would wait, or a device, which has no end.

    StoreError if it is one of these, or a folder.
    """
    wait = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, os.O_RDONLY | wait)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(f"{path} is no model: {path.name} is not a plain file.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


@dataclass(frozen=True)
class FolderStore:
    """Files of a folder on a disk."""

    name: str

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every entry; files that are still being written are none."""
        found = {}
        for folder, _, names in os.walk(self.name):  # does not follow links to folders
            for name in (name for name in names if not name.startswith(".")):
                place = os.path.join(folder, name)
                with suppress(OSError):  # links that lead nowhere
                    about = os.stat(place)
                    if stat.S_ISREG(about.st_mode):
                        key = os.path.relpath(place, self.name).replace(os.sep, "/")
                        found[key] = about.st_size
        return found

    def read(self, key: str) -> bytes:
        """Return the bytes of one entry."""
        try:
            with open_plain_file(Path(self.name, key)) as file:
                size = os.fstat(file.fileno()).st_size
                check_size(self.name, key, size)
                return file.read(size)
        except FileNotFoundError as error:
            why = "it is damaged, incomplete, or was replaced"
            raise StoreError(f"{self.name} has no {key!r}; {why}.") from error
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreError(f"{self.name} is damaged: {key!r} cannot be read ({why}).") from error

    def write(self, key: str, data: bytes) -> None:
        """Write one entry."""
        with new_file(Path(self.name, key)) as file:
            file.write(data)

    def clear(self, keep: str = "") -> None:
        """Remove all that is in the folder, but not the folder `keep`."""
        with suppress(FileNotFoundError):
            for entry in Path(self.name).iterdir():
                if not entry.is_dir():
                    entry.unlink()
                elif entry.name != keep:
                    shutil.rmtree(entry)


@dataclass(frozen=True)
class RemoteStore:
    """Files below an fsspec URL: stores of objects show them once they are complete."""

    name: str

    def _at(self, key: str = "") -> tuple[Any, str]:
        system, root = filesystem(self.name)
        return system, f"{root}/{key}" if key else root

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every entry, by name."""
        system, root = self._at()
        start = len(system._strip_protocol(root)) + 1
        found = system.find(root, detail=True)
        return {key[start:]: int(entry["size"] or 0) for key, entry in found.items()}

    def read(self, key: str) -> bytes:
        """Return the bytes of one entry; no more are asked for than it may have."""
        system, place = self._at(key)
        try:
            data = bytes(system.cat_file(place, start=0, end=max_bytes(key) + 1))
        except OSError as error:
            raise StoreError(f"{self.name} has no {key!r}; it is damaged or incomplete.") from error
        check_size(self.name, key, len(data))
        return data

    def write(self, key: str, data: bytes) -> None:
        """Write one entry."""
        system, place = self._at(key)
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.pipe_file(place, data)

    def copy(self, key: str, made: "FolderStore | RemoteStore") -> None:
        """Write one entry of another store; behind URLs without moving bytes to and fro."""
        if isinstance(made, FolderStore):
            self.write(key, made.read(key))
            return
        system, place = self._at(key)
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        system.cp_file(made._at(key)[1], place)

    def clear(self, keep: str = "") -> None:
        """Remove all entries."""
        system, root = self._at()
        if system.exists(root):
            system.rm(root, recursive=True)


class OverlayStore:
    """Entries of which those below `folder` are newer than others of the same name.

    They may be moved up to their places meanwhile, one by one, and stay visible.
    """

    def __init__(self, store: "Store", folder: str) -> None:
        self._store, self._folder = store, folder
        self.name: str = store.name

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every entry, by name."""
        start, found = f"{self._folder}/", self._store.sizes()
        newer = {k.removeprefix(start): n for k, n in found.items() if k.startswith(start)}
        # Listed again, after the newer ones: what was moved in between is found at its place.
        return {**self._store.sizes(), **newer}

    def read(self, key: str) -> bytes:
        """Return the bytes of one entry."""
        try:
            return self._store.read(f"{self._folder}/{key}")
        except StoreError:
            return self._store.read(key)

    def write(self, key: str, data: bytes) -> None:
        """Write one entry, a newer one."""
        self._store.write(f"{self._folder}/{key}", data)


class ZipStore:
    """A zip file whose entries are stored as they are; only documents are deflated.

    Other compressed entries are refused: arrays bring their own compression, and so none of them
    can unpack to more than its bytes. Each name is written once, and no times are.

    Parameters
    ----------
    name : str
        Path or URL of the file.
    file : binary file
        The file itself.
    is_new : bool
        Whether it is to be written; complete once the store is closed.
    """

    def __init__(self, name: str, file: IO[bytes], *, is_new: bool = False) -> None:
        self.name, self._file, self._lock = name, file, threading.Lock()
        self._descriptor: int | None = None
        self._where: dict[str, zipfile.ZipInfo] = {}
        self._writer = zipfile.ZipFile(file, "w", allowZip64=True) if is_new else None
        if not is_new:
            self._read_directory()
            if hasattr(os, "pread"):
                # A number is kept, no file: one that is collected in a cycle of references warns.
                with suppress(AttributeError, OSError, ValueError):  # some are not the system's
                    self._descriptor = os.dup(file.fileno())
                    file.close()

    def _read_directory(self) -> None:
        name, file = self.name, self._file
        try:
            length = file.seek(0, 2)
            # Only the directory is zipfile's business; entries are read by position.
            with zipfile.ZipFile(file) as directory:
                entries = directory.infolist()
        except Exception as error:  # zipfile has a dozen ways to say that it is none
            why = str(error) or "no zip directory"
            raise StoreError(f"{name} is not a model file, or a damaged one: {why}.") from error
        if len(entries) > MAX_ENTRIES:
            raise StoreError(f"{name} claims {len(entries)} entries; it is no model file.")
        for e in entries:
            key = e.filename
            if not SAFE_NAME.fullmatch(key) or ".." in key:
                raise StoreError(f"{name} has an entry with the unsafe name {key!r}.")
            deflated = e.compress_type == zipfile.ZIP_DEFLATED and is_document(key)
            stored = e.compress_type == zipfile.ZIP_STORED and e.file_size == e.compress_size
            if not (stored or deflated):
                raise StoreError(
                    f"{name} has a compressed entry, {key!r}; entries of a model file are stored "
                    "uncompressed. Pack the folder again without compression (zip -0)."
                )
            check_size(name, key, e.file_size)
            if e.flag_bits & 0x1:
                raise StoreError(f"{name} has an encrypted entry, {key!r}.")
            if key in self._where:
                raise StoreError(f"{name} has two entries named {key!r}; it is damaged.")
            if e.header_offset < 0 or e.header_offset + 30 + e.compress_size > length:
                raise StoreError(f"{name} is cut short: {key!r} lies beyond its end.")
            self._where[key] = e

    def sizes(self) -> dict[str, int]:
        """Return the bytes of every entry, by name."""
        return {key: e.file_size for key, e in self._where.items()}

    def read(self, key: str) -> bytes:
        """Return the bytes of one entry, its check sum verified."""
        if key not in self._where:
            raise StoreError(f"{self.name} has no {key!r}; it is damaged or incomplete.")
        entry, name = self._where[key], key.encode()
        start, size = entry.header_offset, entry.compress_size
        # One read: header, name and content; an extra field, rarely there, costs another.
        got = self._at(start, 30 + len(name) + size)
        if len(got) < 30 or got[:4] != b"PK\x03\x04":
            raise StoreError(f"{self.name} is damaged: no entry where {key!r} should be.")
        n_name, n_extra = struct.unpack("<HH", got[26:30])
        if n_extra:
            got += self._at(start + len(got), n_extra)
        if got[30 : 30 + n_name] != name:
            raise StoreError(f"{self.name} is damaged: another entry where {key!r} should be.")
        data = got[30 + n_name + n_extra :]
        if entry.compress_type == zipfile.ZIP_DEFLATED:
            with suppress(zlib.error):  # no more than one byte above what it claims
                inflater = zlib.decompressobj(-zlib.MAX_WBITS)
                data = inflater.decompress(data, entry.file_size + 1)
        if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
            raise StoreError(f"{self.name} is damaged: the check sum of {key!r} is wrong.")
        return data

    def _at(self, start: int, size: int) -> bytes:
        """Return bytes at a position.

        Where the system can, without moving the file's own: processes that were forked share it.
        """
        if self._descriptor is not None:
            return os.pread(self._descriptor, size, start)
        with self._lock:
            self._file.seek(start)
            return self._file.read(size)

    def write(self, key: str, data: bytes) -> None:
        """Write one entry."""
        assert self._writer is not None  # else it is open for reading
        entry = zipfile.ZipInfo(key, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        kind = zipfile.ZIP_DEFLATED if is_document(key) else zipfile.ZIP_STORED
        self._writer.writestr(entry, data, kind, 9)

    def __enter__(self) -> "ZipStore":
        return self

    def __exit__(self, *failure: object) -> None:
        # Of a file that goes anyway only what went wrong before is of interest.
        with suppress(*() if failure[0] is None else (OSError,)):
            if self._writer is not None:
                self._writer.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return open_store, (self.name,)  # travels by its name: opened again where it arrives

    def __del__(self) -> None:
        try:  # names of modules may be gone when the interpreter ends
            self._file.close()
            if self._descriptor is not None:
                os.close(self._descriptor)
        except Exception:
            pass


Store = FolderStore | RemoteStore | OverlayStore | ZipStore
"""Byte strings by name; each appears only once it is complete."""


# --- limits ---------------------------------------------------------------------------------------


def is_document(key: str) -> bool:
    """Whether an entry holds JSON."""
    return key.rpartition("/")[2] == "zarr.json"


def max_bytes(key: str) -> int:
    """Return how many bytes an entry may have."""
    if key == ROOT:
        return MAX_ROOT_BYTES
    return MAX_DOCUMENT_BYTES if is_document(key) else MAX_ENTRY_BYTES


def check_size(name: str, key: str, size: int) -> None:
    """Raise if an entry claims, or has, more bytes than any of its kind."""
    if size > (most := max_bytes(key)):
        raise StoreError(f"{name} is damaged: {key!r} has {size} bytes; at most {most} are read.")
