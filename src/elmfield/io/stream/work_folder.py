"""The folder in which a model grows, next to the place where it will be; kept if work is cut short.

It is put in place once it is complete, on a disk with one rename. Whoever asks for the same again
finds what is done; whoever asks for something else there begins anew.

Of a model folder to which samples are added, whatever changes is first written to a folder of its
own in the model, which no reader looks into. Replacing the metadata makes it part of the model:
readers now find entries there first. Then the entries are moved to their places, and the metadata
replaced once more. So a reader sees the old samples or all, whenever the work is cut short; the
next call removes or moves what is left.
"""

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import CodedTiles
from elmfield.io.files import StrPath, path_of
from elmfield.io.model.load import read_field
from elmfield.io.model.metadata import Metadata, read_metadata, staging_folder, write_metadata
from elmfield.io.model.save import FOLDER, check_target, copy_to_url, pack
from elmfield.io.store import atomic_write, stores
from elmfield.io.store.atomic_write import lock_folder, resolve_links, write_error
from elmfield.io.store.stores import ROOT, FolderStore, RemoteStore, is_url, local_path

PLAN = "plan.json"
"""The entry that says what is being made; without it nothing can go on."""


class Work:
    """Work on a model that will be at a path or URL; a context that says what a failure leaves.

    Attributes
    ----------
    target : str
        Where the model will be.
    root : str
        Where it grows.
    is_remote : bool
        Whether that is behind a URL, where workers have no files of their own.
    """

    def __init__(self, out: str | Path) -> None:
        out = local_path(out)
        self.is_remote = is_url(out)
        self._held, self._is_locked = ExitStack(), False
        if self.is_remote:
            self.target = str(out).rstrip("/")
            folder, _, name = self.target.rpartition("/")
            self.root = f"{folder}/.{name}.partial"
        else:
            place = resolve_links(Path(out))
            self.target = str(place)
            self.root = str(place.parent / f".{atomic_write.short_name(place)}.partial")
        self.store = stores.folder_at(self.root)
        if not (self.is_remote and PLAN in self.store.sizes()):  # else this work left it there
            check_target(out)

    def __enter__(self) -> "Work":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._held.close()
        is_told = isinstance(error, FileNotFoundError)
        if isinstance(error, OSError) and error.errno is not None and not is_told:
            after = f"What is done so far is kept in {self.root}; the same call goes on from there."
            raise write_error(self.target, error, after) from error

    def begin(self, plan: dict[str, Any]) -> None:
        """Find what is done of the same plan, or clear the place."""
        text = json.dumps(plan, sort_keys=True).encode()
        self._lock()
        known = b""
        with suppress(StoreError):
            known = self.store.read(PLAN)
        if known != text:
            self.store.clear(keep="levels")
            self.store.write(PLAN, text)

    @cached_property
    def levels(self) -> Path:
        """A folder of this machine for a copy of the array, and for coarser versions."""
        if self.is_remote:
            made = tempfile.TemporaryDirectory(prefix="elmfield-", ignore_cleanup_errors=True)
            return Path(self._held.enter_context(made))
        self._lock()
        return Path(self.root, "levels")

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
        return stores.folder_at(f"{self.root}/model-{name}")

    def notes(self, name: str) -> FolderStore | RemoteStore:
        """Return where notes on its finished blocks are."""
        return stores.folder_at(f"{self.root}/done-{name}")

    def finish(self, name: str) -> None:
        """Put a model in place, and remove the folder."""
        made = self.model(name)
        if isinstance(made, RemoteStore):
            copy_to_url(made, self.target)
            # First what tells that work can go on: of the rest some may be left after a crash.
            system, root = stores.filesystem(self.root)
            system.rm_file(f"{root}/{PLAN}")
            self.store.clear()
            return
        path, target = Path(made.name), Path(self.target)
        if target.name.endswith(FOLDER):
            for part in path.rglob(".*"):  # what a process was writing when it was killed
                part.unlink()
        else:
            path = Path(self.root, "packed")
            with path.open("wb") as file:
                pack(made, file)
        # From here on the notes on finished blocks speak of files that are gone.
        Path(self.root, PLAN).unlink()
        atomic_write.move_into_place(path, target)
        shutil.rmtree(self.root, ignore_errors=True)


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


# --- a model folder that grows --------------------------------------------------------------------


STAGING = re.compile(staging_folder(0, 0).replace("0", "[0-9]+"))
"""Names of folders for entries that are being added."""


@dataclass(frozen=True, eq=False)
class GrowingModel:
    """A model folder that grows: its metadata, its field, the samples and the tiles they are in."""

    target: Path
    meta: Metadata
    field: Field
    boxes: SampleBoxes
    tiles: CodedTiles

    @classmethod
    def open(cls, target: Path) -> "GrowingModel":
        """Open a model with all entries moved to their places, and nothing left that is none.

        Raises
        ------
        StoreError
            If it is damaged, or has links in it that lead elsewhere.
        """
        store = FolderStore(str(target))
        meta = read_metadata(store)
        field = read_field(store, meta)
        newest, growing = None, meta.appending
        if growing is not None:
            newest = staging_folder(growing.axis, field.shape[growing.axis])
        for folder in [p for p in target.iterdir() if STAGING.fullmatch(p.name)]:
            for key in FolderStore(str(folder)).sizes() if folder.name == newest else ():
                _move_up(target, folder, key)
            if folder.is_symlink() or not folder.is_dir():
                folder.unlink()
            else:
                shutil.rmtree(folder)
        for part in target.glob(f".{ROOT}.*"):  # what a process was writing when it was killed
            part.unlink()
        return cls(target, meta, field, *_check_can_grow(target, field))

    def start(self, k: int) -> int:
        """Return the samples on axis k before a call that was cut short; all without one."""
        growing = self.meta.appending
        return self.field.shape[k] if growing is None or growing.axis != k else growing.start

    def place(self, k: int) -> int:
        """Return the number of axis k where channels are counted."""
        c = self.field.model.channel_axis
        return k if c is None or k < c else k + 1

    def finish(self) -> Field:
        """Forget the call that added samples, the last that it does; return the field."""
        if self.meta.appending is None:
            return self.field
        store, meta = FolderStore(str(self.target)), replace(self.meta, appending=None)
        with explain_writing(self.target):
            field = read_field(store, meta)
            write_metadata(store, meta)
        return field


@contextmanager
def open_growing(path: StrPath) -> Iterator[GrowingModel]:
    """Open a model folder to which samples can be added, and meanwhile by no other process."""
    local = local_path(path)
    if is_url(local):
        raise ValueError(f"samples can be added to a folder on a disk; got {path!r}. Copy it here.")
    target = path_of(local)
    if not target.name.endswith(FOLDER):
        raise ValueError(
            f"samples can be added to a folder, name.elm.zarr; got {target.name!r}. Save the field "
            "as one: save(load(path), 'name.elm.zarr')."
        )
    target = resolve_links(target)
    read_metadata(stores.open_store(target))  # else an error that names what is there
    with lock_folder(target, target):
        with explain_writing(target):
            model = GrowingModel.open(target)
        yield model


@contextmanager
def explain_writing(target: Path) -> Iterator[None]:
    """Say what a reader sees when the disk fails."""
    try:
        yield
    except OSError as error:
        after = "It is as it was, or has all new samples; the same call goes on."
        raise write_error(target, error, after) from error


def _move_up(target: Path, folder: Path, key: str) -> None:
    """Move an entry from a folder of a model to its place, through no link."""
    made, place = folder / key, target / key
    for path in (made, *made.parents, *place.parents):
        if path != target and path.is_relative_to(target) and path.is_symlink():
            raise StoreError(f"{target} is damaged: {path.relative_to(target)} is a link.")
    place.parent.mkdir(parents=True, exist_ok=True)
    os.replace(made, place)


def _check_can_grow(target: Path, field: Field) -> tuple[SampleBoxes, CodedTiles]:
    """Return the samples of a model, and their tiles; ValueError if nothing can be added."""
    boxes = field.model.blended.source_samples
    tiles = None if boxes is None else boxes.tiles
    if boxes is None or tiles is None:
        why = "holds coefficients, not samples"
    elif boxes.is_lossy or not boxes.is_raw:
        why = "was coded with loss, for all its samples together"
    elif boxes.missing is not None:
        why = "has gaps, which more samples would fill otherwise"
    elif tuple(tiles.tiling.high[:-1]) != field.shape or any(tiles.tiling.low):
        why = "is part of a larger one"
    else:
        return boxes, tiles
    raise ValueError(f"{target.name} {why}; nothing can be added to it. Fit all samples again.")
