"""Where a model's bytes lie: a zip file, a folder, or either of them behind an fsspec URL.

A sink takes entries, each once: a zip file keeps every version of an entry that is written twice.
:class:`Entries` answer two questions: which are there, and what bytes has one of them. They never
unpack anything to a disk, and believe no name and no size that an archive claims.
"""

import json
import os
import re
import stat
import struct
import threading
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from elmfield.errors import MissingExtraError, StoreError

MOST_ENTRIES = 1 << 22
PLAIN = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")
"""Names that entries may have: no root, no drive, nothing that climbs."""

LARGEST_DOCUMENT = 1 << 26
"""Bytes of a zarr.json beyond which it is not read."""

LARGEST_ENTRY = 1 << 30
"""Bytes of any entry beyond which it is not read: blocks and tiles are far smaller."""

DEEPEST = 100
"""Levels of lists and objects in a document."""


class Entries(Protocol):
    """A read-only set of named byte strings."""

    name: str

    def sizes(self) -> dict[str, int]:
        """Bytes of every entry, by name."""

    def read(self, key: str) -> bytes:
        """The bytes of one entry; StoreError if it is not there or damaged."""


def is_url(path: object) -> bool:
    """Whether `path` is an fsspec URL rather than a place on a disk."""
    return isinstance(path, str) and "://" in path


def on_disk(path: Any) -> Any:
    """The path that a ``file://`` URL means; anything else as it is."""
    if isinstance(path, str) and path.startswith("file://"):
        return filesystem(path)[1]
    return path


def filesystem(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path on it."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError(
            f"opening {url!r} needs fsspec; pip install 'elmfield[remote]'."
        ) from error
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        from fsspec.registry import known_implementations

        scheme = url.partition("://")[0]
        known = known_implementations.get(scheme, {}).get("class", "fsspec")
        package = known.partition(".")[0]
        advice = f"pip install {package}" if package != "fsspec" else str(error)
        raise MissingExtraError(f"{scheme}:// addresses need another package: {advice}.") from error
    return system, path


def open_entries(path: str | Path) -> Entries:
    """The entries at a path or URL: of a folder if it is one, else of a zip file.

    Raises
    ------
    FileNotFoundError
        If nothing is there.
    StoreError
        If what is there is neither.
    """
    if is_url(path):
        system, inner = filesystem(str(path))
        if system.isdir(inner):
            return RemoteFolder(str(path), system, inner)
        if not system.exists(inner):
            raise FileNotFoundError(f"no model at {path}")
        return Archive(str(path), system.open(inner, "rb"))
    path = Path(path)
    if path.is_dir():
        return Folder(path)
    if not path.exists():
        raise FileNotFoundError(f"no model at {path}")
    try:
        return Archive(str(path), opened_plainly(path))
    except NotAFileError as error:
        raise StoreError(f"{path} is no model: {error}.") from error


class NotAFileError(OSError):
    """A device, a pipe or a folder where a file should be."""


def opened_plainly(path: Path) -> IO[bytes]:
    """A file, open for reading; never a pipe, which would wait, or a device, which has no end."""
    wait = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, os.O_RDONLY | wait)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFileError(f"{path.name} is not a plain file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


class Archive:
    """A zip file whose entries are stored as they are; only documents are deflated.

    Other compressed entries are refused: arrays bring their own compression, and so none of them
    can unpack to more than its bytes.
    """

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name, self._file, self._lock = name, file, threading.Lock()
        self._descriptor: int | None = None
        if hasattr(os, "pread"):
            with suppress(AttributeError, OSError, ValueError):  # not every file is the system's
                self._descriptor = file.fileno()
        try:
            file.seek(0, 2)
            self._length = file.tell()
            # Only the directory is zipfile's business; entries are read by position.
            with zipfile.ZipFile(file) as directory:
                entries = directory.infolist()
        except Exception as error:  # zipfile has a dozen ways to say that it is none
            raise StoreError(
                f"{name} is not a model file, or a damaged one: {error or 'no zip directory'}."
            ) from error
        if len(entries) > MOST_ENTRIES:
            raise StoreError(f"{name} claims {len(entries)} entries; it is no model file.")
        self._where: dict[str, zipfile.ZipInfo] = {}
        for e in entries:
            key = checked(e.filename, name)
            deflated = e.compress_type == zipfile.ZIP_DEFLATED and is_document(key)
            stored = e.compress_type == zipfile.ZIP_STORED and e.file_size == e.compress_size
            if not (stored or (deflated and e.file_size <= LARGEST_DOCUMENT)):
                raise StoreError(
                    f"{name} has a compressed entry, {key!r}; entries of a model file are stored "
                    "uncompressed. Pack the folder again without compression (zip -0)."
                )
            if e.flag_bits & 0x1:
                raise StoreError(f"{name} has an encrypted entry, {key!r}.")
            if key in self._where:
                raise StoreError(f"{name} has two entries named {key!r}; it is damaged.")
            if e.header_offset < 0 or e.header_offset + 30 + e.compress_size > self._length:
                raise StoreError(f"{name} is cut short: {key!r} lies beyond its end.")
            self._where[key] = e

    def sizes(self) -> dict[str, int]:
        """Bytes of every entry, by name."""
        return {key: e.file_size for key, e in self._where.items()}

    def read(self, key: str) -> bytes:
        """The bytes of one entry, its check sum verified."""
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
            data = _inflated(data, entry.file_size)
        if len(data) != entry.file_size or zlib.crc32(data) != entry.CRC:
            raise StoreError(f"{self.name} is damaged: the check sum of {key!r} is wrong.")
        return data

    def _at(self, start: int, size: int) -> bytes:
        """Bytes at a position.

        Where the system can, without moving the file's own: processes that were forked share it.
        """
        if self._descriptor is None:
            with self._lock:
                self._file.seek(start)
                return self._file.read(size)
        parts = []
        while size > 0:
            part = os.pread(self._descriptor, size, start)
            if not part:
                break
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return b"".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return open_entries, (self.name,)  # travels by its name: opened again where it arrives

    def __del__(self) -> None:
        try:  # noqa: SIM105  (names of modules may be gone when the interpreter ends)
            self._file.close()
        except Exception:
            pass


class Folder:
    """A folder on a disk."""

    def __init__(self, path: Path) -> None:
        self.name, self._root = str(path), path

    def sizes(self) -> dict[str, int]:
        """Bytes of every entry, by name."""
        found = {}
        for folder, _, names in os.walk(self._root):  # does not follow links to folders
            for name in names:
                place = os.path.join(folder, name)
                with suppress(OSError):  # links that lead nowhere
                    about = os.stat(place)
                    if stat.S_ISREG(about.st_mode):
                        key = os.path.relpath(place, self._root).replace(os.sep, "/")
                        found[key] = about.st_size
        return found

    def read(self, key: str) -> bytes:
        """The bytes of one entry."""
        try:
            with opened_plainly(self._root / key) as file:
                size = os.fstat(file.fileno()).st_size
                if size > (LARGEST_DOCUMENT if is_document(key) else LARGEST_ENTRY):
                    raise StoreError(f"{self.name} is damaged: {key!r} has {size} bytes.")
                return file.read(size)
        except FileNotFoundError as error:
            raise StoreError(
                f"{self.name} has no {key!r}; it is damaged, incomplete, or was replaced."
            ) from error
        except OSError as error:
            why = error.strerror or error
            raise StoreError(f"{self.name} is damaged: {key!r} cannot be read ({why}).") from error


class RemoteFolder:
    """A folder behind an fsspec URL."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_entries, (self.name,)

    def __init__(self, name: str, system: Any, root: str) -> None:
        self.name, self._system, self._root = name, system, root.rstrip("/")

    def sizes(self) -> dict[str, int]:
        """Bytes of every entry, by name."""
        found = self._system.find(self._root, detail=True)
        start = len(self._system._strip_protocol(self._root).rstrip("/")) + 1
        return {key[start:]: int(entry["size"] or 0) for key, entry in found.items()}

    def read(self, key: str) -> bytes:
        """The bytes of one entry."""
        try:
            return bytes(self._system.cat_file(f"{self._root}/{key}"))
        except OSError as error:
            raise StoreError(f"{self.name} has no {key!r}; it is damaged or incomplete.") from error


def is_document(key: str) -> bool:
    """Whether an entry holds JSON."""
    return key.rpartition("/")[2] == "zarr.json"


def _inflated(data: bytes, size: int) -> bytes:
    """What a deflated entry holds, but no more than one byte above what it claims."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
    except zlib.error:
        return b""


def checked(key: str, name: str) -> str:
    """`key`, if it is a plain relative name; archives may claim others."""
    if not PLAIN.fullmatch(key) or ".." in key:
        raise StoreError(f"{name} has an entry with the unsafe name {key!r}; it was not opened.")
    return key


def document(entries: Entries, key: str) -> dict[str, Any]:
    """The JSON object in one entry."""
    data = entries.read(key)
    if len(data) > LARGEST_DOCUMENT:
        raise StoreError(f"{entries.name} is damaged: {key!r} is {len(data)} bytes long.")
    try:
        found = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{entries.name} is damaged: {key!r} is not JSON.") from error
    if not isinstance(found, dict):
        raise StoreError(f"{entries.name} is damaged: {key!r} is not a JSON object.")
    if _is_deep(found):
        raise StoreError(f"{entries.name} is damaged: {key!r} is nested too deeply.")
    return found


def _no_number(word: str) -> None:
    """NaN and infinities, which JSON does not have."""
    raise ValueError(f"{word} is no number of JSON")


def _is_deep(found: Any) -> bool:
    """Whether lists and objects are nested more than `DEEPEST` times."""
    level = [found]
    for _ in range(DEEPEST):
        inner = (v.values() if isinstance(v, dict) else v for v in level)
        level = [v for values in inner for v in values if isinstance(v, (dict, list))]
        if not level:
            return False
    return True


class Sink(Protocol):
    """Where named byte strings go; each name once."""

    def put(self, key: str, data: bytes) -> None:
        """Write one entry."""


class Memory:
    """Entries kept in memory: a sink that can be read."""

    name = "a model in memory"

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        """Write one entry."""
        self._entries[key] = data

    def sizes(self) -> dict[str, int]:
        """Bytes of every entry, by name."""
        return {key: len(data) for key, data in self._entries.items()}

    def read(self, key: str) -> bytes:
        """The bytes of one entry."""
        return self._entries[key]


class FolderSink:
    """Entries as files of a folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, key: str, data: bytes) -> None:
        """Write one entry."""
        place = self._root / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


class ArchiveSink:
    """Entries of a zip file, stored as they are but for documents, with no times in it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._archive = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True)

    def put(self, key: str, data: bytes) -> None:
        """Write one entry."""
        entry = zipfile.ZipInfo(key, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        kind = zipfile.ZIP_DEFLATED if is_document(key) else zipfile.ZIP_STORED
        self._archive.writestr(entry, data, kind, 9)

    def __enter__(self) -> "ArchiveSink":
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None:
            self._archive.close()
            return
        with suppress(OSError):  # the file goes anyway; what went wrong was something else
            self._archive.close()
