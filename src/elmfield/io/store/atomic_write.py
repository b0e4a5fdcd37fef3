"""Files and folders that are written completely or not at all.

They are made in a hidden folder on the same disk, and what is complete replaces what was there with
one rename. A process that is killed leaves its folder behind; the next one that writes to the same
place removes it: it is abandoned if its lock is free.
"""

import errno
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmfield.errors import StoreError

MAX_NAME_BYTES = 200
"""Of a target above which its hidden folder gets a shorter name."""

SUFFIX = ".saving"


@contextmanager
def scratch_folder(target: Path) -> Iterator[Path]:
    """Make a folder next to `target` to work in; it is gone afterwards, whatever happens.

    Raises
    ------
    OSError
        If there is no folder for the target, or nothing can be written there.
    """
    remove_leftovers(target)
    start, lock, is_taken, work = f".{short_name(target)}-", None, True, target
    while is_taken or not work.exists():  # else another process took it for a leftover just now
        work = Path(tempfile.mkdtemp(prefix=start, suffix=SUFFIX, dir=target.parent))
        lock, is_taken = _try_lock(work)
    try:
        yield work
    except OSError as error:  # of a full disk, for instance, that says nothing of the file
        is_named = error.filename is not None and not str(error.filename).startswith(str(work))
        if error.errno is not None and not is_named:
            error.filename = str(target)
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def resolve_links(path: Path) -> Path:
    """Return where something that is written to `path` has to go: links are followed.

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


def write_error(target: object, error: OSError, after: str) -> StoreError:
    """Return an error that says what the system says, what helps, and how things are after it."""
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    advice = "; free some space or choose another place" if is_full else ""
    return StoreError(f"cannot write {target}: {error.strerror or error}{advice}. {after}")


def move_into_place(made: Path, place: Path) -> None:
    """Move what was made to its place, in one step if it is a file.

    So do folders where the system can exchange two. Elsewhere the old one goes aside first, and
    comes back if the second step fails.
    """
    if not place.is_dir():
        os.replace(made, place)
        return
    with lock_folder(place, place):  # another process may be adding samples to it
        if _exchange(made, place):
            return
        aside = made.with_name(f"{made.name}.old")
        os.replace(place, aside)
        try:
            os.replace(made, place)
        except BaseException:
            os.replace(aside, place)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchange what two places hold, if the system can: Linux, on most disks."""
    import ctypes

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError, TypeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    found: int = rename(here, os.fsencode(one), here, os.fsencode(other), exchange)
    return found == 0


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a place at which a file or folder is made that gets to `path` once the body is done."""
    place = resolve_links(path)
    with scratch_folder(place) as work:
        made = work / "made"
        yield made
        set_default_mode(made)
        move_into_place(made, place)


def write_atomically(path: Path, data: bytes) -> None:
    """Write all of a file, or nothing."""
    with replacing(path) as made:
        made.write_bytes(data)


@contextmanager
def write_folder_atomically(path: Path) -> Iterator[Path]:
    """Make files in a folder that get to the folder `path`, one by one, once the body is done.

    A folder that is there keeps what else it holds.
    """
    place = resolve_links(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(place) as work:
        yield work
        for file in sorted(p for p in work.rglob("*") if p.is_file()):
            end = place / file.relative_to(work)
            end.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, end)


def set_default_mode(path: Path) -> None:
    """Give a file or folder the permissions of a new one; those of a private one are narrower."""
    mask = os.umask(0)
    os.umask(mask)
    path.chmod((0o777 if path.is_dir() else 0o666) & ~mask)


def remove_leftovers(target: Path) -> None:
    """Remove folders that killed processes left next to `target`."""
    kind = re.compile(re.escape(f".{short_name(target)}-") + "[a-z0-9_]{8}" + re.escape(SUFFIX))
    with suppress(OSError), os.scandir(target.parent) as there:
        for name in [e.name for e in there if kind.fullmatch(e.name)]:
            folder = target.parent / name
            lock, _ = _try_lock(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def short_name(target: Path) -> str:
    """Return the name of a file, or one that leaves room for more where that is long."""
    name = os.fsencode(target.name)
    if len(name) <= MAX_NAME_BYTES:
        return target.name
    return f"{target.name[: MAX_NAME_BYTES // 8]}-{zlib.crc32(name):08x}"


@contextmanager
def lock_folder(folder: Path, target: Path) -> Iterator[None]:
    """Let no other process change a folder, to write `target`; StoreError if one does."""
    lock, is_taken = _try_lock(folder)
    if is_taken:
        raise StoreError(f"cannot write {target}: another process is writing it now.")
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _try_lock(folder: Path) -> tuple[int | None, bool]:
    """Return an open lock on a folder, if there is one to be had, and whether another has it.

    Some systems and network disks have no locks: then there is none, and none is held.
    """
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (ImportError, OSError):
        return None, False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        return None, error.errno in (errno.EWOULDBLOCK, errno.EAGAIN)
    return descriptor, False
