"""Where the files of data sets lie, and how missing ones are fetched.

A file is looked for in the folder named by ``ELMFIELD_DATA``, or else in ``../shared/data`` beside
a checkout; then in the cache. A missing one is downloaded to the cache and kept only if its SHA-256
is the known one. A file at hand is compared with its SHA-256 when it is loaded.
"""

import functools
import hashlib
import os
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

from elmfield._array.typing import Progress

BLOCK = 1 << 16
TIMEOUT = 30
"""Seconds without an answer after which a server counts as unreachable."""


class MissingDataError(FileNotFoundError):
    """A file of a data set is not there and could not be fetched; the message says what to do."""


@dataclass(frozen=True)
class File:
    """A file of a data set.

    Parameters
    ----------
    path : str
        Where it lies in a data folder.
    sha256 : str
        Of its bytes.
    url : str or None
        Where it can be downloaded; None where no public address is known.
    """

    path: str
    sha256: str
    url: str | None = None


def folders() -> tuple[Path, ...]:
    """Where files are looked for, the cache last."""
    named = os.environ.get("ELMFIELD_DATA")
    if named:
        if not Path(named).is_dir():
            raise MissingDataError(f"ELMFIELD_DATA names no folder: {named}.")
        return Path(named), cache()
    root = Path(__file__).resolve().parents[3]
    beside = root.parent / "shared" / "data"
    checkout = (root / "pyproject.toml").is_file() and beside.is_dir()
    return (beside, cache()) if checkout else (cache(),)


def cache() -> Path:
    """The user's folder for downloads: ``ELMFIELD_CACHE`` or the platform's own place."""
    if named := os.environ.get("ELMFIELD_CACHE"):
        return Path(named) / "data"
    if sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        place = Path.home() / "Library" / "Caches"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return place / "elmfield" / "data"


def found(files: Sequence[File]) -> tuple[Path, ...] | None:
    """The paths of files; None unless all are there."""
    paths = []
    for file in files:
        here = (folder / file.path for folder in folders())
        path = next((p for p in here if p.is_file()), None)
        if path is None:
            return None
        paths.append(path)
    return tuple(paths)


def fetched(file: File, progress: Progress) -> Path:
    """The path of a file with an address, downloaded to the cache.

    The file appears under its name only when it is complete and its SHA-256 is right.
    """
    place = cache() / file.path
    with complete(place) as work:
        with work.open("wb") as out:
            digest = _download(file, out, progress)
        if digest != file.sha256:
            raise MissingDataError(
                f"{file.url} is not the expected file: its SHA-256 is {digest}, not {file.sha256}. "
                f"It was cut off or has changed; try again. {advice(file)}"
            )
    return place


@contextmanager
def complete(place: Path) -> Iterator[Path]:
    """A path to write to, which becomes `place` at the end of the block if nothing was raised."""
    folder = place.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, work = tempfile.mkstemp(prefix=f".{place.stem}.", suffix=place.suffix, dir=folder)
    except OSError as error:
        taken = next((p for p in (folder, *folder.parents) if p.is_file()), None)
        why = f"{taken} is a file, not a folder" if taken else error.strerror
        raise MissingDataError(
            f"The cache {folder} cannot be written to: {why}. Let ELMFIELD_CACHE name a folder "
            "that can."
        ) from error
    os.close(handle)
    try:
        yield Path(work)
        os.chmod(work, 0o644)  # mkstemp's is for the owner alone
        os.replace(work, place)
    finally:
        Path(work).unlink(missing_ok=True)


def digest(path: Path) -> str:
    """SHA-256 of a file, worked out once per process and version of the file."""
    state = path.stat()
    return _digest(path, state.st_mtime_ns, state.st_size)


@functools.cache
def _digest(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def advice(file: File) -> str:
    """Where to put a file that somebody got elsewhere."""
    return f"A file from elsewhere is found as {cache() / file.path}, or below ELMFIELD_DATA."


def _download(file: File, out: BinaryIO, progress: Progress) -> str:
    """Write the file at a URL to `out`; its SHA-256."""
    digest, done, stage = hashlib.sha256(), 0, f"fetching {Path(file.path).name}"
    try:
        # Some servers refuse what calls itself Python.
        asked = urllib.request.Request(str(file.url), headers={"User-Agent": "elmfield"})
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
            total = int(answer.headers.get("Content-Length") or 0)
            while block := answer.read(BLOCK):
                out.write(block)
                digest.update(block)
                done += len(block)
                progress(stage, done, max(total, done))
    except urllib.error.HTTPError as error:
        raise MissingDataError(
            f"{file.url} was refused: {error.code} {error.reason}. {advice(file)}"
        ) from error
    except (OSError, HTTPException) as error:  # URLError, timeouts and resets are OSErrors
        why = getattr(error, "reason", error)
        raise MissingDataError(
            f"{file.url} could not be reached: {why}. Is there a network? {advice(file)}"
        ) from error
    return digest.hexdigest()
