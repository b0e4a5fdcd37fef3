"""Files and folders that are written whole or not at all: made beside their place, then moved in.

Whoever writes gets a hidden folder on the same disk, and what is complete replaces what was there
with one rename. A process that is killed leaves its folder behind; the next one that writes to the
same place removes it, which it knows to be abandoned by a lock that nobody holds.
"""

import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LONGEST = 200
"""Bytes of a name above which the hidden folder beside it gets a shorter one."""

SUFFIX = ".saving"


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A folder beside `target` to work in; it is gone afterwards, whatever happens.

    Raises
    ------
    OSError
        If there is no folder for the target, or nothing can be written there.
    """
    remove_leftovers(target)
    work, lock = _begun(target)
    try:
        yield work
    except OSError as error:  # of a full disk, for instance, that says nothing of the file
        known = error.filename is not None and not str(error.filename).startswith(str(work))
        if error.errno is not None and not known:
            error.filename = str(target)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def place_of(path: Path) -> Path:
    """Where something that is written to `path` has to go: links are followed to their ends.

    Raises
    ------
    OSError
        If links lead nowhere, or something is there that is neither a file nor a folder.
    """
    place = Path(os.path.realpath(path)) if path.is_symlink() else path
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return place
    if stat.S_ISLNK(mode):
        raise OSError(f"{path} is a link that leads back to itself")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(f"{path} is a device or a pipe, not a file")
    return place


def put_in_place(made: Path, place: Path) -> None:
    """Move what was made to its place, in one step if it is a file.

    So do folders where the system can exchange two. Elsewhere the old one goes aside first, and
    comes back if the second step fails.
    """
    if not place.is_dir():
        os.replace(made, place)
        return
    if _exchanged(made, place):
        return
    aside = made.with_name(f"{made.name}.old")
    os.replace(place, aside)
    try:
        os.replace(made, place)
    except BaseException:
        os.replace(aside, place)
        raise


def _exchanged(one: Path, other: Path) -> bool:
    """Let two places change what they hold, if the system can: Linux, on most disks."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    found: int = rename(here, os.fsencode(one), here, os.fsencode(other), exchange)
    return found == 0


def write_whole(path: Path, data: bytes) -> None:
    """Write a file: all of it, or nothing."""
    place = place_of(path)
    with beside(place) as work:
        made = work / "file"
        made.write_bytes(data)
        usual_mode(made)
        put_in_place(made, place)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder whose files all get to `path` once the body is done, or none.

    A folder that is there keeps what else it holds.
    """
    place = place_of(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    with beside(place) as work:
        made = work / "folder"
        made.mkdir()
        usual_mode(made, 0o777)
        yield made
        if not place.exists():
            put_in_place(made, place)
            return
        for file in sorted(p for p in made.rglob("*") if p.is_file()):
            end = place / file.relative_to(made)
            end.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, end)


def usual_mode(path: Path, mode: int = 0o666) -> None:
    """Permissions a new file of the user's would have; those of a private folder are narrower."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(mode & ~mask)


def remove_leftovers(target: Path) -> None:
    """Remove folders that killed processes left beside `target`."""
    kind = re.compile(re.escape(_prefix(target)) + "[a-z0-9_]{8}" + re.escape(SUFFIX))
    with suppress(OSError), os.scandir(target.parent) as there:
        for name in [e.name for e in there if kind.fullmatch(e.name)]:
            folder = target.parent / name
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def short_name(target: Path) -> str:
    """The name of a file, or one that leaves room for more where that is long."""
    name = os.fsencode(target.name)
    if len(name) <= LONGEST:
        return target.name
    return f"{target.name[: LONGEST // 8]}-{zlib.crc32(name):08x}"


def _prefix(target: Path) -> str:
    """How the names of all hidden folders for `target` begin."""
    return f".{short_name(target)}-"


def _begun(target: Path) -> tuple[Path, int | None]:
    """A new hidden folder, and the lock on it where the system has such."""
    while True:
        made = tempfile.mkdtemp(prefix=_prefix(target), suffix=SUFFIX, dir=target.parent)
        work = Path(made)
        if os.name == "nt":
            return work, None
        lock = _locked(work)
        if lock is not None and work.exists():
            return work, lock
        if lock is None and work.exists() and not _can_lock(work):
            return work, None
        # Another process took it for a leftover just now: once more.


def _locked(folder: Path) -> int | None:
    """An open lock on a folder; None if another process holds it, or there are no locks here."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _can_lock(folder: Path) -> bool:
    """Whether locks work where a folder is; some network disks have none."""
    import errno
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    finally:
        os.close(descriptor)
    return True
