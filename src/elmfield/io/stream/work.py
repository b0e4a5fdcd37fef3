"""The folder in which a model grows, beside the place where it will be; kept if work is cut short.

It is put in place with one rename once it is complete. Whoever asks for the same again finds what
is done; whoever asks for something else there begins anew.
"""

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from elmfield.errors import StoreError
from elmfield.io.beside import place_of, put_in_place, short_name
from elmfield.io.model.entries import ArchiveSink, is_url, on_disk
from elmfield.io.model.store import FOLDER, check_place
from elmfield.io.stream.places import files_at

PLAN = "plan.json"


class Work(Protocol):
    """Work on a model that will be at a place, on a disk or behind a URL."""

    @property
    def target(self) -> str | Path:
        """Where the model will be."""

    @property
    def root(self) -> str | Path:
        """Where it grows."""

    @property
    def is_shared(self) -> bool:
        """Whether workers see the folder for files of its own, too."""

    def begin(self, plan: dict[str, Any]) -> None:
        """Find what is done of the same plan, or clear the place."""

    def levels(self) -> Path:
        """A folder of this machine for a copy of the array, and for coarser versions of it."""

    def model(self, name: str) -> str:
        """Where a model is made."""

    def done(self, name: str) -> str:
        """Where notes on its finished blocks are."""

    def finish(self, name: str, keys: list[str]) -> None:
        """Put a model in place; `keys` are its entries, as they follow each other in a file."""

    def close(self) -> None:
        """Let others work here."""


def work_at(out: str | Path) -> Work:
    """Work on a model at a path or URL."""
    out = on_disk(out)
    if is_url(out):
        from elmfield.io.stream.remote import RemoteWork

        return RemoteWork(str(out))
    return LocalWork(Path(out))


class LocalWork:
    """Work on a model that will be on a disk."""

    is_shared = True

    def __init__(self, target: Path) -> None:
        self.target = place_of(target)
        self.root = self.target.parent / f".{short_name(self.target)}.partial"
        self._lock: IO[str] | None = None
        check_place(target, self.target)

    def begin(self, plan: dict[str, Any]) -> None:
        """Find what is done of the same plan, or clear the place."""
        text = json.dumps(plan, sort_keys=True)
        self.hold()
        note = self.root / PLAN
        if not (note.exists() and note.read_text() == text):
            for entry in self.root.iterdir():
                if entry.name not in ("lock", "levels"):
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            files_at(self.root).put(PLAN, text.encode())

    def hold(self) -> None:
        """Make the folder, and let no other process work there."""
        if self._lock is not None:
            return
        self.root.mkdir(exist_ok=True)
        try:
            import fcntl
        except ImportError:  # a system without it: who starts twice has to know
            return
        self._lock = (self.root / "lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            self._lock = None
            raise StoreError(
                f"cannot write {self.target}: another process is writing it now."
            ) from error

    def levels(self) -> Path:
        """A folder for a copy of the array, and for coarser versions of it."""
        self.hold()
        return self.root / "levels"

    def model(self, name: str) -> str:
        """Where a model is made."""
        return str(self.root / f"model-{name}")

    def done(self, name: str) -> str:
        """Where notes on its finished blocks are."""
        return str(self.root / f"done-{name}")

    def finish(self, name: str, keys: list[str]) -> None:
        """Put a model in place; `keys` are its entries, as they follow each other in a file."""
        made = Path(self.model(name))
        if not self.target.name.endswith(FOLDER):
            packed = self.root / "packed"
            with packed.open("wb") as file, ArchiveSink(file) as sink:
                for key in keys:
                    sink.put(key, (made / key).read_bytes())
            made = packed
        # From here on the notes on finished blocks speak of files that are gone.
        (self.root / PLAN).unlink()
        put_in_place(made, self.target)
        self.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def close(self) -> None:
        """Let others work here."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


@contextmanager
def kept(work: Work) -> Iterator[None]:
    """Say what is kept when the disk fails."""
    try:
        yield
    except OSError as error:
        if error.errno is None or isinstance(error, FileNotFoundError):
            raise
        why = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why += "; free some space or choose another place"
        raise StoreError(
            f"cannot write {work.target}: {why}. What is done so far is kept in {work.root}; "
            "the same call goes on from there."
        ) from error
    finally:
        work.close()
