"""Writing a model file: a Field to a Zarr 3 hierarchy in one zip file or a folder.

The layout is that of docs/format.md: metadata, small arrays, and the samples or coefficients of the
field. The whole file or folder is made beside its target and then put in place with one rename.
"""

import io
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.progress import reporter, silent
from elmfield._array.typing import Array, Progress
from elmfield.domain import Axis
from elmfield.errors import StoreError
from elmfield.field import Field
from elmfield.field.coefficients.stored import Draws
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.fit.curvilinear import Curvilinear
from elmfield.io.files import check_model_name
from elmfield.io.gridded import fingerprint
from elmfield.io.model import metadata, recipes
from elmfield.io.model.coefficient_files import CoefficientPlan, narrow_integers
from elmfield.io.model.load import frames_of, read_field
from elmfield.io.model.metadata import GroupRecord, Metadata
from elmfield.io.model.sample_files import SamplePlan
from elmfield.io.store import atomic_write, stores
from elmfield.io.store.blocks import write_array
from elmfield.io.store.stores import ROOT, FolderStore, RemoteStore, Store, ZipStore, is_url
from elmfield.partition import Partition
from elmfield.settings import Settings

FOLDER = ".zarr"
"""A target whose name ends so becomes a folder; any other a single file."""

Plan = SamplePlan | CoefficientPlan
"""Which numbers of a field a file holds, and how they are written."""


def save(
    field: Field,
    path: str | Path,
    *,
    dtype: str | None = None,
    compress: bool = True,
    source: Array | None = None,
    progress: Progress | bool = False,
) -> None:
    """Write a field to a model file.

    Parameters
    ----------
    field : Field
        The field.
    path : str or path
        ``name.elm`` becomes one file, ``name.elm.zarr`` a folder; also an fsspec URL.
    dtype : {"float64", "float32", "float16"}, optional
        In which a reader computes (float16: in float32), by default as the field does. Floating
        samples, or coefficients where those are stored, are rounded to it; float16 leaves 78 dB.
        Samples that were coded for a target are not rounded again, and computed with as in the fit.
        Coefficients that were chosen for an error are not rounded: such a field is refused.
    compress : bool
        Whether coefficients are compressed (without loss); samples always are.
    source : array, optional
        The samples the field came from: their shape, dtype, range and SHA-256 go into the file.
    progress : callable or bool
        Called with (stage, done, total); True shows a bar.

    Notes
    -----
    The old file, if any, is replaced in one step once the new one is complete: an interrupted or
    failing save leaves the old one, or none. Only models are replaced, nothing else that has the
    name; where the name is a link, what it leads to. What a killed save left in a hidden folder,
    the next one to the same place removes. The same field gives the same bytes.

    Raises
    ------
    StoreError
        If the file cannot be written, for instance because the disk is full, or something is there
        that is no model.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> field = ef.fit(np.eye(20), ef.smooth(max_error=0.01))
    >>> ef.save(field, "eye.elm")
    >>> ef.max_error(np.eye(20), ef.load("eye.elm").samples()) <= 0.01
    True
    """
    if not isinstance(field, Field):
        got = type(field).__name__
        raise TypeError(f"`field` must be a Field; got a {got}. Fit one: save(fit(values), path).")
    check_model_name("path", path)
    own = own_dtype(field)
    dtype = own if dtype is None else str(dtype)
    if dtype not in ("float64", "float32", "float16"):
        raise ValueError(f"`dtype` must be 'float64', 'float32' or 'float16'; got {dtype!r}.")
    group = field.model.blended.groups[0]
    are_weights = group.model.basis is None and group.coefficients.beliefs is None
    if dtype != own == "float64" and are_weights:
        raise ValueError(
            "`dtype` must be 'float64' for scattered samples and for output weights: they cancel, "
            f"and lose what is rounded; got {dtype!r}. Leave it out."
        )
    if source is not None:
        known = {**field.labels.source, **fingerprint(source)}
        labels = replace(field.labels, source=known)
        field = replace(field, model=replace(field.model, labels=labels))
    kind, narrower = promised_error(field), np.dtype(dtype).itemsize < np.dtype(own).itemsize
    if kind is not None and narrower and field.model.blended.source_samples is None:
        raise ValueError(
            f"`{kind}` was met with coefficients in {own}; rounded to {dtype} they may not "
            f"keep it. Save as {own}, or let the command line look for a field that keeps it: "
            "elmfield fit --dtype."
        )
    write_model(field, path, dtype, compress, reporter(progress))


def write_model(
    field: Field, path: str | Path, dtype: str, compress: bool, progress: Progress
) -> None:
    """Write a field, whose promises hold in `dtype`; see :func:`save`.

    What goes to a URL is written to a disk of this machine, and copied once it is complete.
    """
    try:
        check_target(path)
        model = describe(field, dtype)
        if is_url(path):
            with tempfile.TemporaryDirectory(prefix="elmfield-") as work:
                model.write(FolderStore(work), compress, progress)
                copy_to_url(FolderStore(work), str(path))
            return
        with atomic_write.replacing(Path(path)) as made:
            if str(path).endswith(FOLDER):
                made.mkdir()
                model.write(FolderStore(str(made)), compress, progress)
            else:
                with made.open("w+b") as file:
                    with ZipStore(str(path), file, is_new=True) as store:
                        model.write(store, compress, progress)
                    file.flush()
                    os.fsync(file.fileno())
    except OSError as error:
        raise atomic_write.write_error(path, error, "Nothing was left behind.") from error


def to_bytes(field: Field, dtype: str) -> bytes:
    """Return the file that the field would become, with coefficients of this dtype."""
    file = io.BytesIO()
    with ZipStore("", file, is_new=True) as store:
        describe(field, dtype).write(store, True, silent)
    return file.getvalue()


def as_stored(field: Field, dtype: str) -> Field:
    """Return the field as it would come back from a file with coefficients of this dtype."""
    return read_field(ZipStore("a model in memory", io.BytesIO(to_bytes(field, dtype))))


def copy_to_url(made: FolderStore | RemoteStore, url: str) -> None:
    """Copy a complete model to a URL."""
    system, target = stores.filesystem(url)
    if not target.endswith(FOLDER):
        with system.open(target, "wb") as file:
            pack(made, file)
        return
    # The root, without which nothing is a model, is the first to go and the last to come.
    if system.exists(f"{target}/{ROOT}"):
        system.rm_file(f"{target}/{ROOT}")
    store = RemoteStore(url)
    store.clear()
    for key in sorted(made.sizes(), key=entry_order):
        store.copy(key, made)


def pack(made: Store, file: IO[bytes]) -> None:
    """Write the entries of a model to a zip file, in the order in which `save` writes them."""
    with ZipStore("", file, is_new=True) as packed:
        for key in sorted(made.sizes(), key=entry_order):
            packed.write(key, made.read(key))


def check_target(path: str | Path) -> None:
    """Raise StoreError if a model cannot go to a path or URL: what is there is none."""
    is_ours = False
    if is_url(path):
        system, inner = stores.filesystem(str(path))
        is_ours = not system.exists(inner)
    else:
        place = atomic_write.resolve_links(Path(path))
        if not place.parent.is_dir():
            raise StoreError(f"cannot write {path}: its folder does not exist.")
        is_folder = place.is_dir()
        if place.exists() and is_folder != str(path).endswith(FOLDER):
            what = "folder" if is_folder else "file"
            raise StoreError(f"cannot write {path}: there is a {what} of that name.")
        if is_folder or not place.exists():  # what is empty is nobody's
            is_ours = not is_folder or not any(place.iterdir())
        else:
            with place.open("rb") as file:
                start = file.read(4)
            is_ours = not start or (start == b"PK\x03\x04" and place.name.endswith(".elm"))
    with suppress(StoreError):
        is_ours = is_ours or metadata.is_model(stores.open_store(path))
    if not is_ours:
        raise StoreError(
            f"cannot write {path}: what is there is no model of elmfield, and is left alone. "
            "Choose another name, or remove it."
        )


# --- a field as a file has it ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """A field as a file has it.

    Parameters
    ----------
    meta : Metadata
        The metadata, without what is known once all is written.
    arrays : mapping of str to array
        The small arrays, one-dimensional.
    plan : Plan
        The samples or coefficients.
    """

    meta: Metadata
    arrays: dict[str, Array]
    plan: Plan

    def write(self, store: Store, compress: bool, progress: Progress) -> None:
        """Write all of a model."""
        meta = self.write_arrays(store, compress)
        metadata.write_metadata(store, self.plan.write(store, meta, compress, progress))

    def write_arrays(self, store: Store, compress: bool) -> Metadata:
        """Write the small arrays; return the metadata with their check sums."""
        checks = {
            name: write_array(store, name, iter([v]), len(v), v.dtype.name, compress)
            for name, v in sorted(self.arrays.items())
        }
        return replace(self.meta, checks=checks)


def entry_order(key: str) -> tuple[int, list[tuple[int, str]]]:
    """Return the key that sorts entries as :class:`Description` writes them; the root is last."""
    name, *place = key.split("/")
    last = ("coefficients", "samples", "missing", "overview", stores.ROOT)
    numbers = [(int(part), "") if part.isdigit() else (-1, part) for part in place]
    is_block = "c" in place
    return (last.index(name) + 1 if name in last else 0), [(0, name), (is_block, ""), *numbers]


def _mesh(field: Field, arrays: dict[str, Array]) -> metadata.MeshRecord | None:
    """Where the samples of a field on a mesh are; None of others."""
    if not isinstance(field, Curvilinear):
        return None
    mesh, cells = field.mesh, field.corners
    arrays["places"] = mesh.given.reshape(-1)
    if cells is not None:
        arrays["corners"] = cells.reshape(-1)
    if mesh.fold is not None:
        arrays["columns"] = np.asarray(mesh.fold.columns, np.int64)
    return metadata.MeshRecord(
        names=field.names, radius=mesh.radius, corners=0 if cells is None else cells.shape[2],
        first=None if mesh.fold is None else mesh.fold.first,
    )  # fmt: skip


def describe(field: Field, dtype: str) -> Description:
    """Return what a file says about a field, with numbers of this dtype."""
    from elmfield import __version__

    part = field.partition
    plan = _plan(field, dtype)
    arrays: dict[str, Array] = {}
    axes = [_axis(a, k, arrays) for k, a in enumerate(field.domain.axes)]
    partition = _partition(part, arrays)
    groups, networks = _groups(field, arrays)
    if isinstance(plan, CoefficientPlan):
        arrays |= plan.arrays()
    frames = _frames(field, groups, arrays)
    residual = _residual(field, arrays)
    per = None  # whether what is missing is the same in all channels, or told for each
    if (gaps := field.model.gaps) is not None:
        per = "sample" if gaps.shape[-1] == 1 else "channel"
        arrays["gaps"] = np.packbits(np.asarray(gaps, bool).reshape(-1))
    known = replace(field.model.evidence or Evidence(), coding=field.model.coding_error)
    if known.left is not None:
        arrays["left"] = known.left.reshape(-1)
    low, high = list(field.domain.low), list(field.domain.high)
    is_whole = (low, high) == ([-0.5] * len(low), [n - 0.5 for n in field.domain.shape])
    box = {} if is_whole else {"low": low, "high": high}
    meta = Metadata(
        written_by=f"elmfield {__version__}",
        domain=metadata.DomainRecord(axes=axes, **box),
        partition=partition,
        networks=networks,
        groups=groups,
        frames=frames,
        dtype=plan.dtype,
        offset=to_numpy(field.model.offset).astype(np.float64).tolist(),
        scale=to_numpy(field.model.scale).astype(np.float64).tolist(),
        channel_axis=field.model.channel_axis,
        complex=field.model.is_complex,
        input_dtype=field.model.input_dtype,
        data_range=float(field.model.data_range),
        residual=residual,
        gaps=per,
        mesh=_mesh(field, arrays),
        settings=recipes.settings_to_plain(field.settings),
        evidence=metadata.EvidenceRecord(**{**vars(known), "left": "left" in arrays}),
        attributes=metadata.to_plain(field.labels),
    )
    return Description(meta=meta, arrays=arrays, plan=plan)


def promised_error(field: Field) -> str | None:
    """Return which error a field was made for, "psnr" or "max_error", if any."""
    made = field.settings
    target = made.target if isinstance(made, Settings) else None
    return target.kind if target is not None and target.kind in ("psnr", "max_error") else None


def _plan(field: Field, dtype: str) -> Plan:
    """Return what the file holds: samples where they settle the field, else coefficients."""
    boxes = field.model.blended.source_samples
    if boxes is None:
        return CoefficientPlan(field, dtype)
    if boxes.is_lossy or promised_error(field) is not None:
        # Samples coded for an error keep it as they were computed with: rounding would add to it,
        # and saves no byte.
        dtype = own_dtype(field)
    return SamplePlan(field=field, dtype=dtype)


def own_dtype(field: Field) -> str:
    """Return the name of the dtype in which a field computes."""
    return str(field.model.coefficient_dtype).removeprefix("torch.")


def _residual(field: Field, arrays: dict[str, Array]) -> bool | str:
    """Whether the file holds what the fit left over in each region; "none" where that is nothing.

    Not beside samples that were coded with loss: it could be as long as they are.
    """
    boxes = field.model.blended.source_samples
    if field.model.residual is None or (boxes is not None and boxes.is_lossy):
        return False
    wide = np.asarray(to_numpy(field.model.residual), np.float64)
    if not wide.any():
        return "none"
    with np.errstate(over="ignore", under="ignore"):
        left = wide.astype(np.float32)
    fits = np.isfinite(left).all() and ((left > 0) == (wide > 0)).all()
    arrays["residual"] = left if fits else wide
    return True


def _axis(axis: Axis, k: int, arrays: dict[str, Array]) -> metadata.AxisRecord:
    """Axis k; its coordinates become an array unless they are exactly even."""
    name = None if axis.name == f"axis{k}" else axis.name
    record = metadata.AxisRecord(name=name, size=axis.size, period=axis.period)
    if axis.coords is None:
        return record
    listed = not np.array_equal(axis.coords, axis.origin + axis.step * np.arange(axis.size))
    if listed:
        arrays[f"coordinates_{k}"] = np.asarray(axis.coords, np.float64)
    even, bounded = axis.spacing is None, axis.borders is not None
    if bounded:
        arrays[f"bounds_{k}"] = np.asarray(axis.borders, np.float64)
    told = replace(record, origin=axis.origin, step=axis.step, even=even, listed=listed)
    return replace(told, bounded=bounded)


def _partition(part: Partition, arrays: dict[str, Array]) -> metadata.PartitionRecord:
    """The partition; edges that are not even, and labels that are not all different, as arrays."""
    if part.window is not None:
        raise TypeError("a file would not say what the `window` of its partition does.")
    edges: list[int | str] = []
    for k, e in enumerate(part.edges):
        count = len(e) - 1
        even = np.round(np.linspace(0, part.shape[k], count + 1))
        edges.append(count if np.array_equal(e, even) else "listed")
        if edges[-1] == "listed":
            arrays[f"edges_{k}"] = np.asarray(e, np.int64)
    listed = part.starts is not None and part.is_regular
    if listed:
        for k, line in enumerate(part.lines):
            arrays[f"starts_{k}"] = np.asarray(line, np.int64)
    if not part.is_regular:
        arrays["labels"] = narrow_integers(part.labels.reshape(-1))
    return metadata.PartitionRecord(
        edges=edges,
        overlap=list(map(float, part.overlap)),
        equal_boxes=bool(part.equal_boxes),
        context=int(part.context),
        mirrored=bool(part.mirrored),
        regular=part.is_regular,
        boxes="listed" if listed else None,
    )


def _groups(
    field: Field, arrays: dict[str, Array]
) -> tuple[list[GroupRecord], list[dict[str, Any]]]:
    """Recipes of all groups, and the networks they share; masks, and who is in which, as arrays."""
    groups: list[GroupRecord] = []
    networks: list[dict[str, Any]] = []
    inside: list[Array] = []
    for group in field.model.blended.groups:
        kept = recipes.describe_model(group.model, len(field.shape))
        recipe = dict(kept.recipe)
        if isinstance(group.nodes, Draws):
            recipe["draws"] = group.nodes.numbers.tolist()
        if "network" in recipe:  # said once, not in every group
            if recipe["network"] not in networks:
                networks.append(recipe["network"])
            recipe["network"] = networks.index(recipe["network"])
        if kept.inside is not None:
            inside.append(np.asarray(kept.inside, bool).reshape(-1))
        probe = [float(f"{v:.9g}") for v in kept.probe]
        ragged = bool(group.coefficients.index_bits)
        groups.append(GroupRecord(modes=recipe, n_modes=kept.n_modes, probe=probe, ragged=ragged))
    if len(groups) > 1:
        arrays["group"] = narrow_integers(field.model.blended.group_of[0])
    if inside:
        arrays["inside"] = np.packbits(np.concatenate(inside))
    return groups, networks


def _frames(field: Field, groups: list[GroupRecord], arrays: dict[str, Array]) -> str:
    """Whether local coordinates are those of the regions' boxes; else they become an array."""
    own, sizes = field.model.blended, field.partition.boxes[1]
    which = own.group_of[0]
    centres, radii = frames_of(field.partition, groups, which)
    boxes = np.asarray([g.modes.get("box") or sizes[0] for g in groups])[which]
    if all(map(np.array_equal, (centres, radii, sizes), (own.centres, own.radii, boxes))):
        return "boxes"
    arrays["frames"] = np.concatenate([own.centres, own.radii], axis=1).reshape(-1)
    return "listed"
