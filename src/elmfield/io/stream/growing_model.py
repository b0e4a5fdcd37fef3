"""A model folder to which samples are being added: opened, locked, and put in order after a crash.

Whatever changes is first written to a folder of its own in the model, which no reader looks into.
Replacing the metadata makes it part of the model: readers now find entries there first. Then the
entries are moved to their places, and the metadata replaced once more. So a reader sees the old
samples or all, whenever the work is cut short; the next call removes or moves what is left.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.tiles import CodedTiles
from elmfield.io.files import StrPath, path_of
from elmfield.io.model.load import read_field
from elmfield.io.model.metadata import Metadata, read_metadata, staging_folder, write_metadata
from elmfield.io.model.save import FOLDER
from elmfield.io.store.atomic_write import explain_failure, lock_folder, resolve_links
from elmfield.io.store.stores import ROOT, FolderStore, is_url, local_path, open_store

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
        growing, newest = meta.appending, None
        if growing is not None:
            newest = staging_folder(growing.axis, field.shape[growing.axis])
        for folder in [p for p in target.iterdir() if STAGING.fullmatch(p.name)]:
            if folder.name == newest:
                for key in FolderStore(str(folder)).sizes():
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
    read_metadata(open_store(target))  # else an error that names what is there
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
        why = explain_failure(error)
        raise StoreError(
            f"cannot write {target}: {why}. It is as it was, or has all new samples; the same call "
            "goes on."
        ) from error


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
