"""The place in which a model grows behind an fsspec URL: without locks, put in place by moves."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from elmfield.errors import StoreError
from elmfield.io.model.entries import ArchiveSink, filesystem, open_entries
from elmfield.io.model.restore import metadata
from elmfield.io.model.store import FOLDER
from elmfield.io.stream.places import RemoteFiles
from elmfield.io.stream.work import PLAN

ROOT = "zarr.json"
"""The entry without which nothing is a model: the first to go, and the last to come."""


class RemoteWork:
    """Work on a model that will be at a URL."""

    is_shared = False

    def __init__(self, target: str) -> None:
        self.target = target.rstrip("/")
        folder, _, name = self.target.rpartition("/")
        self.root = f"{folder}/.{name}.partial"
        self._levels: str | None = None
        self._check()

    @property
    def _is_folder(self) -> bool:
        return self.target.endswith(FOLDER)

    def _check(self) -> None:
        """Raise if something is at the target that is no model, and not left by such work."""
        system, place = filesystem(self.target)
        if not system.exists(place) or PLAN in RemoteFiles(self.root).keys():  # noqa: SIM118
            return
        try:
            metadata(open_entries(self.target))
        except Exception as error:
            raise StoreError(
                f"cannot write {self.target}: what is there is no model of elmfield, and is left "
                "alone. Choose another name, or remove it."
            ) from error

    def begin(self, plan: dict[str, Any]) -> None:
        """Find what is done of the same plan, or clear the place."""
        text, files = json.dumps(plan, sort_keys=True).encode(), RemoteFiles(self.root)
        try:
            same = files.read(PLAN) == text
        except FileNotFoundError:
            same = False
        if not same:
            files.drop()
            files.put(PLAN, text)

    def close(self) -> None:
        """Forget what lies on this machine."""
        if self._levels is not None:
            shutil.rmtree(self._levels, ignore_errors=True)
            self._levels = None

    def levels(self) -> Path:
        """A folder of this machine for a copy of the array, and for coarser versions of it."""
        if self._levels is None:
            self._levels = tempfile.mkdtemp(prefix="elmfield-levels-")
        return Path(self._levels)

    def model(self, name: str) -> str:
        """Where a model is made."""
        return f"{self.root}/model-{name}"

    def done(self, name: str) -> str:
        """Where notes on its finished blocks are."""
        return f"{self.root}/done-{name}"

    def finish(self, name: str, keys: list[str]) -> None:
        """Put a model in place; `keys` are its entries, as they follow each other in a file."""
        made = RemoteFiles(self.model(name))
        system, target = filesystem(self.target)
        if not self._is_folder:
            with system.open(target, "wb") as file, ArchiveSink(file) as sink:
                for key in keys:
                    sink.put(key, made.read(key))
        else:
            self._move(made, system, target, keys)
        self.close()
        # First what tells that work can go on: of the rest some may be left after a crash.
        work, place = filesystem(self.root)
        work.rm_file(f"{place.rstrip('/')}/{PLAN}")
        RemoteFiles(self.root).drop()

    def _move(self, made: RemoteFiles, system: Any, target: str, keys: list[str]) -> None:
        """Each entry to its place; those that were moved before a crash are there."""
        place = RemoteFiles(self.target)
        ready = set(made.keys())
        if ROOT in place.keys():  # noqa: SIM118
            system.rm_file(f"{target}/{ROOT}")
        old = set(place.keys()) - (set(keys) - ready)
        for key in old:
            system.rm_file(f"{target}/{key}")
        source = filesystem(made.root)[1]
        for key in sorted(keys, key=lambda k: k == ROOT):
            if key in ready:
                system.makedirs(f"{target}/{key}".rpartition("/")[0], exist_ok=True)
                system.mv(f"{source}/{key}", f"{target}/{key}")
