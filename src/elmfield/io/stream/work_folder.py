"""The folder in which a model grows, next to the place where it will be; kept if work is cut short.

It is put in place once it is complete, on a disk with one rename. Whoever asks for the same again
finds what is done; whoever asks for something else there begins anew.
"""

import json
import os
import shutil
import stat
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from elmfield.errors import StoreError
from elmfield.io.model.description import entry_order
from elmfield.io.model.save import FOLDER, check_target
from elmfield.io.store.atomic_write import (
    explain_failure,
    lock_folder,
    move_into_place,
    resolve_links,
    short_name,
)
from elmfield.io.store.stores import (
    ROOT,
    FolderStore,
    RemoteStore,
    Store,
    ZipStore,
    filesystem,
    folder_at,
    is_url,
    local_path,
)

PLAN = "plan.json"
"""The entry that says what is being made; without it nothing can go on."""


class Work:
    """Work on a model that will be at a path or URL; a context that says what a failure leaves.

    Attributes
    ----------
    target : str or Path
        Where the model will be.
    root : str
        Where it grows.
    is_remote : bool
        Whether that is behind a URL, where workers have no files of their own.
    """

    def __init__(self, out: str | Path) -> None:
        out = local_path(out)
        self.is_remote = is_url(out)
        self._held = ExitStack()
        self._is_locked = False
        self._levels: Path | None = None
        self.target: str | Path
        if self.is_remote:
            self.target = str(out).rstrip("/")
            folder, _, name = self.target.rpartition("/")
            self.root = f"{folder}/.{name}.partial"
        else:
            self.target = resolve_links(Path(out))
            self.root = str(self.target.parent / f".{short_name(self.target)}.partial")
        self.store = folder_at(self.root)
        if not (self.is_remote and PLAN in self.store.sizes()):  # else this work left it there
            check_target(out)

    def __enter__(self) -> "Work":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.close()
        if not isinstance(error, OSError) or isinstance(error, FileNotFoundError):
            return
        if error.errno is not None:
            why = explain_failure(error)
            raise StoreError(
                f"cannot write {self.target}: {why}. What is done so far is kept in {self.root}; "
                "the same call goes on from there."
            ) from error

    def close(self) -> None:
        """Let others work here, and forget what lies on this machine only."""
        self._held.close()
        self._levels, self._is_locked = None, False

    def begin(self, plan: dict[str, Any]) -> None:
        """Find what is done of the same plan, or clear the place."""
        text = json.dumps(plan, sort_keys=True).encode()
        self._lock()
        try:
            is_same = self.store.read(PLAN) == text
        except StoreError:
            is_same = False
        if not is_same:
            self.store.clear(keep="levels")
            self.store.write(PLAN, text)

    def levels(self) -> Path:
        """Return a folder of this machine for a copy of the array, and for coarser versions."""
        if self._levels is None and self.is_remote:
            made = tempfile.TemporaryDirectory(prefix="elmfield-", ignore_cleanup_errors=True)
            self._levels = Path(self._held.enter_context(made))
        elif self._levels is None:
            self._lock()
            self._levels = Path(self.root, "levels")
            if self._levels.is_file():
                self._levels.unlink()
        return self._levels

    def _lock(self) -> None:
        """Make the folder, and let no other process work there; behind a URL nothing is locked."""
        if self.is_remote or self._is_locked:
            return
        root = Path(self.root)
        _remove_special_files(root)
        root.mkdir(exist_ok=True)
        self._held.enter_context(lock_folder(root, Path(self.target)))
        self._is_locked = True

    def model(self, name: str) -> FolderStore | RemoteStore:
        """Return where a model is made."""
        return folder_at(f"{self.root}/model-{name}")

    def notes(self, name: str) -> FolderStore | RemoteStore:
        """Return where notes on its finished blocks are."""
        return folder_at(f"{self.root}/done-{name}")

    def finish(self, name: str) -> None:
        """Put a model in place, and remove the folder."""
        made = self.model(name)
        if isinstance(made, RemoteStore):
            self._finish_remote(made)
        else:
            self._finish_local(made)

    def _finish_local(self, made: FolderStore) -> None:
        path, target = Path(made.name), Path(self.target)
        if target.name.endswith(FOLDER):
            for part in path.rglob(".*"):  # what a process was writing when it was killed
                part.unlink()
        else:
            path = Path(self.root, "packed")
            with path.open("wb") as file:
                _pack(made, file)
        # From here on the notes on finished blocks speak of files that are gone.
        Path(self.root, PLAN).unlink()
        move_into_place(path, target)
        self.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def _finish_remote(self, made: RemoteStore) -> None:
        system, target = filesystem(str(self.target))
        if not target.endswith(FOLDER):
            with system.open(target, "wb") as file:
                _pack(made, file)
        else:
            # The root, without which nothing is a model, is the first to go and the last to come.
            if system.exists(f"{target}/{ROOT}"):
                system.rm_file(f"{target}/{ROOT}")
            RemoteStore(str(self.target)).clear()
            source = filesystem(made.name)[1]
            for key in sorted(made.sizes(), key=lambda k: k == ROOT):
                system.makedirs(f"{target}/{key}".rpartition("/")[0], exist_ok=True)
                system.cp_file(f"{source}/{key}", f"{target}/{key}")
        self.close()
        # First what tells that work can go on: of the rest some may be left after a crash.
        system.rm_file(f"{filesystem(self.root)[1]}/{PLAN}")
        self.store.clear()


def _pack(made: Store, file: IO[bytes]) -> None:
    """Write the entries of a model to a zip file, in the order in which `save` writes them."""
    with ZipStore("", file, is_new=True) as packed:
        for key in sorted(made.sizes(), key=entry_order):
            packed.write(key, made.read(key))


def _remove_special_files(root: Path) -> None:
    """Remove links, pipes and devices from the folder: whoever put them there, not this work.

    It may have come with an archive, and what is written here must not go elsewhere.
    """
    if root.is_symlink() or root.is_file():
        root.unlink()
    for folder, folders, files in os.walk(root):
        for place in (Path(folder, name) for name in (*folders, *files)):
            with suppress(FileNotFoundError):
                mode = place.lstat().st_mode
                if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                    place.unlink()
