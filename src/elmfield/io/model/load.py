"""Reading a model file: a Field from a Zarr 3 hierarchy, its claims checked.

The layout is that of docs/format.md. The metadata is read at once, samples and coefficients when a
query needs them. Nothing a file says is believed before it agrees with the rest and its bytes.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from elmfield._array.typing import Array, Floats, Integers
from elmfield.codec import MAX_SAMPLES_PER_BYTE
from elmfield.domain import Axis, Domain
from elmfield.domain.sphere import EARTH
from elmfield.errors import StoreError
from elmfield.field import Blended, Field, FromSamples, Group
from elmfield.field.coordinates.labels import Labels
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.model import Model
from elmfield.field.uncertainty.posterior import Evidence, blocks_of
from elmfield.fit.curvilinear import curvilinear
from elmfield.fit.mesh import Fold
from elmfield.io.files import refuse_samples
from elmfield.io.model import metadata, recipes
from elmfield.io.model.coefficient_files import read_coefficients
from elmfield.io.model.metadata import GroupRecord, MeshRecord, Metadata, SamplesRecord
from elmfield.io.model.recipes import read_models
from elmfield.io.model.sample_files import read_samples
from elmfield.io.store.blocks import ArrayReader
from elmfield.io.store.stores import OverlayStore, Store, open_store
from elmfield.local.bases.dense_weights import half_widths
from elmfield.local.model import Basis
from elmfield.partition import Partition
from elmfield.settings import Settings

NARROW = ("float32", "float16", "bfloat16", "complex64")
"""Dtypes of samples that fits compute with in single precision."""

WEIGHTS = ("kernels", "weights")
"""Kinds of modes whose coefficients are weights."""


def load(path: str | Path, *, lazy: bool = True, device: object = None) -> Field:
    """Return the field in a model file.

    Parameters
    ----------
    path : str or path
        Of the file or folder; also an fsspec URL.
    lazy : bool
        Read coefficients when a query first needs them, and only those; else all of them now.
    device : optional
        Where to bring the field: a device of torch, as "cuda" or "cpu"; all of it is read then. By
        default it is NumPy's.

    Raises
    ------
    FileNotFoundError
        If there is nothing at `path`.
    StoreError
        If the file is damaged or is no model file.
    StoreVersionError
        If it was written by a newer elmfield than this one.

    Notes
    -----
    Coefficients stored in float16 come back in float32. A lazy field keeps its file open; replacing
    the file meanwhile does not disturb it, nor does `elmfield.append` to its folder: it answers as
    before. Where a folder is replaced, blocks that were not read before are no longer there: the
    next query that needs one raises StoreError.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.save(ef.fit(np.eye(20)), "eye.elm")
    >>> ef.load("eye.elm")([3.0, 3.0]).round(9)
    np.float64(1.0)
    """
    field = None
    while field is None:
        refuse_samples(path)
        store = open_store(path)
        meta = metadata.read_metadata(store)
        try:
            field = read_field(store, meta, lazy=lazy)
        except StoreError:
            if metadata.read_metadata(store) == meta:
                raise
            # Another process replaced the model while it was being read, or added to it: again.
    return field if device is None else field.to(device)


def read_field(store: Store, meta: Metadata | None = None, *, lazy: bool = True) -> Field:
    """Return the field in a store, by these metadata or, by default, its own."""
    meta = metadata.read_metadata(store) if meta is None else meta
    try:
        return Reader(_with_staged(store, meta), meta, lazy).field()
    except StoreError:
        raise
    except Exception as error:  # claims can be wrong in more ways than can be listed
        raise metadata.damaged_metadata(store, error) from error


def _with_staged(store: Store, meta: Metadata) -> Store:
    """Return the store as the metadata mean it: with what is being added, if there is any."""
    growing = meta.appending
    if growing is None:
        return store
    k, first, axes = growing.axis, growing.start, meta.domain.axes
    if not (0 <= k < len(axes) and 0 < first < axes[k].size):
        raise StoreError(f"{store.name} is damaged: which samples are being added to it.")
    return OverlayStore(store, metadata.staging_folder(k, axes[k].size))


class Reader:
    """One model file, its claims checked against each other and against its bytes."""

    def __init__(self, store: Store, meta: Metadata, lazy: bool) -> None:
        self.arrays, self.meta, self.lazy = ArrayReader(store, meta.checks), meta, lazy

    def field(self) -> Field:
        """Return the field."""
        meta = self.meta
        domain = self._domain()
        part = self._partition(domain)
        which = self._groups(part)
        C = len(meta.offset)
        self.arrays.require(0 < C == len(meta.scale), "offset and scale differ in length")
        self.arrays.require(min(meta.scale) > 0, "its scale is not positive")
        told = metadata.from_plain(meta.attributes)
        labels = metadata.parse(Labels, told, strict=False)
        axis, one = meta.channel_axis, len(labels.classes) or (2 if meta.complex else 1)
        fits = one == C if axis is None else 0 <= axis <= len(part.shape)
        self.arrays.require(fits, f"{C} channels on axis {axis!r}")
        known = meta.dtype in ("float64", "float32", "float16")
        self.arrays.require(known, f"numbers of type {meta.dtype!r}")
        dtype = np.dtype("float64" if meta.dtype == "float64" else "float32")
        # A field's own dtype is that of its samples: what is taken off may need more digits than
        # what is left.
        given: Any = np.dtype("float64")
        if meta.input_dtype in NARROW:  # of these, only weights need more
            given = np.dtype("float32") if meta.groups[0].modes.get("kind") in WEIGHTS else dtype
        centres, radii = self._frames(part, which)
        if meta.samples is None:
            groups = read_coefficients(self.arrays, meta, part, which, dtype, self.lazy)
        else:
            groups = self._read_sample_groups(meta.samples, part, which, dtype, centres)
        residual = np.zeros(part.n_regions) if meta.residual == "none" else None
        if meta.residual and residual is None:
            found = self.arrays.read("residual", part.n_regions, "float32", "float64")
            residual = found.astype(np.float64)
        settings = recipes.settings_from_plain(meta.settings)
        is_scattered = not all(g.modes.get("box") for g in meta.groups)
        made = Field(
            Model(
                domain=domain,
                blended=Blended(
                    partition=part,
                    groups=tuple(groups),
                    centres=centres,
                    radii=radii,
                    is_scattered=is_scattered,
                ),
                offset=np.asarray(meta.offset, given),
                scale=np.asarray(meta.scale, given),
                channel_axis=axis,
                is_complex=meta.complex,
                input_dtype=meta.input_dtype,
                data_range=meta.data_range,
                residual=residual,
                gaps=self._gaps(domain.shape, C),
                settings=settings if isinstance(settings, Settings) else None,
                evidence=self._evidence(None if is_scattered else domain.shape, C),
                labels=labels,
            )
        )
        return made if meta.mesh is None else self._on_mesh(made, meta.mesh)

    def _on_mesh(self, made: Field, mesh: MeshRecord) -> Field:
        """Return the field on the mesh that its samples lie on."""
        shape = [len(own) for own in own_samples(made.domain)[-2:]]
        size = math.prod(shape)
        self.arrays.require(len(shape) == 2 and mesh.corners >= 0, "a mesh of other axes")
        y, x = self.arrays.read("places", 2 * size, "float64").reshape(*shape, 2).transpose(2, 0, 1)
        corners, fold = None, None
        if mesh.corners:
            corners = self.arrays.read("corners", size * mesh.corners * 2, "float64")
            corners = corners.reshape(*shape, mesh.corners, 2)
        if mesh.first is not None:
            columns = self.arrays.integers("columns", shape[1])
            inside = 0 <= mesh.first < shape[0] and 0 <= columns.min() <= columns.max() < shape[1]
            self.arrays.require(inside, "rows beyond the last one")
            fold = Fold(mesh.first, columns)
        about: Any = {"is_map": mesh.radius is None, "fold": fold, "corners": corners}
        found = curvilinear(made, y, x, radius=mesh.radius or EARTH, **about)
        return replace(found, names=mesh.names)

    def _evidence(self, shape: tuple[int, ...] | None, C: int) -> Evidence:
        """Return what the fit said of noise, and what coding lost: nothing where none is said.

        Places know the noise that is left in scattered samples, which have no shape.
        """
        found, left = self.meta.evidence or metadata.EvidenceRecord(), None
        each = [a for a in (found.noise, found.amplitude) if a is not None]
        said = min((found.coding, *sum(each, ()))) >= 0 and all(len(a) == C for a in each)
        self.arrays.require(said, "its noise is not a number for each channel")
        if found.left and shape is not None:
            own = (*map(blocks_of, shape), C)
            left = self.arrays.read("left", math.prod(own), "float16").reshape(own)
            self.arrays.require(bool((left >= 0).all()), "the noise left is no number")
        return Evidence(**{**vars(found), "left": left})

    def _gaps(self, shape: tuple[int, ...], C: int) -> Array | None:
        """Return which samples were missing, (..., 1) or (..., C); None if none was."""
        per = self.meta.gaps
        if per is None:
            return None
        self.arrays.require(per in ("sample", "channel"), f"samples missing per {per!r}")
        n = C // 2 if self.meta.complex else C
        shape = (*shape, n if per == "channel" else 1)
        return self.arrays.bits("gaps", math.prod(shape)).reshape(shape)

    def _read_sample_groups(
        self, record: SamplesRecord, part: Partition, which: Integers, dtype: Any, centres: Floats
    ) -> list[Group]:
        """Return the groups of a field that its samples settle."""
        meta = self.meta
        kinds = {kept.modes["kind"] for kept in meta.groups}
        fits = kinds == {"product"} or (kinds == {"oriented"} and len(meta.groups) == 1)
        self.arrays.require(fits, "samples, but not of product modes or oriented regions")
        coded = read_samples(self.arrays, meta, record, part.shape, dtype)
        coded = coded if self.lazy else coded.in_memory()
        boxes = np.asarray([kept.modes["box"] for kept in meta.groups], np.int64)[which]
        starts = np.round(centres - (boxes - 1) / 2).astype(np.int64)
        part = part.changed(starts=starts, sizes=boxes)
        groups = []
        for g, described in enumerate(read_models(self.arrays, meta, part)):
            is_product = described.recipe["kind"] == "product"
            model = cast(Basis, described if is_product else described.model)
            regions = np.flatnonzero(which == g)
            found = FromSamples(boxes=coded, partition=part, regions=regions, model=model)
            found = found if self.lazy or not is_product else found.precompute()
            groups.append(Group(model=model, regions=regions, coefficients=found))
        return groups

    def _frames(self, part: Partition, which: Integers) -> tuple[Floats, Floats]:
        """Return centres and radii of the regions' local coordinates, (N, d) each."""
        N, d = part.n_regions, len(part.shape)
        if self.meta.frames == "boxes":
            for g, kept in enumerate(self.meta.groups):
                box, own = kept.modes.get("box"), part.boxes[1][which == g]
                fits = box is not None and (own == np.asarray(box)).all()
                self.arrays.require(fits, "boxes of regions and modes disagree")
            return frames_of(part, self.meta.groups, which)
        frames = self.arrays.read("frames", 2 * d * N, "float64").reshape(N, 2 * d)
        centres, radii = frames[:, :d].copy(), frames[:, d:].copy()
        self.arrays.require(np.isfinite(frames).all() and (radii > 0).all(), "a region has no size")
        return centres, radii

    def _domain(self) -> Domain:
        kept = self.meta.domain
        axes = [self._axis(k, entry) for k, entry in enumerate(kept.axes)]
        d, sizes = len(axes), [a.size for a in axes]
        low = tuple([-0.5] * d if kept.low is None else kept.low)
        high = tuple([n - 0.5 for n in sizes] if kept.high is None else kept.high)
        fits = all(-0.5 <= a < b <= n - 0.5 for a, b, n in zip(low, high, sizes))
        self.arrays.require(0 < d == len(low) == len(high) and fits, "the box of the domain")
        return Domain(axes=tuple(axes), low=low, high=high)

    def _axis(self, k: int, entry: metadata.AxisRecord) -> Axis:
        name = f"axis{k}" if entry.name is None else entry.name
        size, period, origin, step = entry.size, entry.period, entry.origin, entry.step
        self.arrays.require(1 <= size < 1 << 62, f"an axis of {size} samples")
        if origin is None:
            return Axis.counted(name, size, period)
        if entry.listed:
            c = self.arrays.read(f"coordinates_{k}", size, "float64")
        else:
            fits = size <= min(1 << 40, self.arrays.n_bytes * 4096)
            self.arrays.require(fits, f"an axis of {size} samples in so small a file")
            c = origin + step * np.arange(size)
        if not entry.even:
            cells = self.arrays.read(f"bounds_{k}", size + 1, "float64") if entry.bounded else None
            return Axis.through(name, c, period, cells)
        # As it was when fitted: single-precision coordinates are even to their rounding.
        self.arrays.require(np.isfinite(c).all() and step != 0, f"coordinates of axis {name!r}")
        return Axis.even(name, size, origin, step, period, coords=c)

    def _partition(self, domain: Domain) -> Partition:
        kept, shape, edges = self.meta.partition, domain.shape, []
        # Every region has at least a bit in the file, or two samples, of which a byte holds a
        # limited number; every cell of an irregular one a label.
        room = 8 * self.arrays.n_bytes
        if self.meta.samples is not None:
            coded = sum(n for key, n in self.arrays.sizes.items() if key.startswith("samples/c/"))
            room = max(room, MAX_SAMPLES_PER_BYTE * coded // 2)
        for k, entry in enumerate(kept.edges):
            if entry == "listed":
                e = self.arrays.read(f"edges_{k}", None, "int64")
            else:
                fits = 1 <= int(entry) <= min(shape[k], room)
                self.arrays.require(fits, f"{entry} cells on an axis")
                e = np.round(np.linspace(0, shape[k], int(entry) + 1)).astype(np.int64)
            covers = e[0] <= domain.low[k] + 0.5 and e[-1] >= domain.high[k] + 0.5
            self.arrays.require(covers, "cells do not cover the domain")
            edges.append(e)
        cells = tuple(len(e) - 1 for e in edges)
        n = math.prod(cells)
        self.arrays.require(not kept.regular or n <= room, f"{n} cells in so few bytes")
        labels = np.arange(n) if kept.regular else self.arrays.integers("labels", n)
        return Partition(
            shape=shape,
            edges=tuple(edges),
            labels=labels.reshape(cells),
            overlap=tuple(kept.overlap),
            periodic=domain.periodic,
            equal_boxes=kept.equal_boxes,
            context=kept.context,
            mirrored=kept.mirrored,
            spacings=domain.spacings,
            **self._boxes(domain, cells),
        )

    def _boxes(self, domain: Domain, cells: tuple[int, ...]) -> dict[str, Any]:
        """Return starts and sizes of boxes that do not follow from the cells."""
        if self.meta.partition.boxes != "listed":
            return {}
        self.arrays.require(self.meta.partition.regular, "boxes listed for merged regions")
        box = [int(n) for n in self.meta.groups[0].modes["box"]]
        lines = [self.arrays.read(f"starts_{k}", n, "int64") for k, n in enumerate(cells)]
        for line, b, n, wraps in zip(lines, box, domain.shape, domain.periodic):
            low, high = (1 - b, n - 1) if wraps else (0, n - b)
            fits = len(box) == len(cells) and 1 <= b <= n
            fits = fits and (line >= low).all() and (line <= high).all()
            self.arrays.require(fits, "where boxes of samples lie")
        starts = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(box))
        return {"starts": starts, "sizes": np.broadcast_to(np.asarray(box), starts.shape)}

    def _groups(self, part: Partition) -> Integers:
        """Return the group of each region, (N,)."""
        groups, N = self.meta.groups, part.n_regions
        self.arrays.require(len(groups) > 0, "it has no groups")
        which = np.zeros(N, np.int64) if len(groups) == 1 else self.arrays.integers("group", N)
        self.arrays.require(int(which.max()) < len(groups), "a region belongs to no group")
        sizes = np.bincount(which, minlength=len(groups))
        fits = sizes.all() and all(g.n_modes > 0 for g in groups)
        self.arrays.require(fits, "the groups of its regions")
        return which


def frames_of(part: Partition, groups: list[GroupRecord], which: Integers) -> tuple[Floats, Floats]:
    """Centres and radii, (N, d) each, of regions whose boxes are the partition's."""
    starts, sizes = part.boxes
    radius = np.ones((len(groups), len(part.shape)))
    for g, group in enumerate(groups):
        if group.modes["kind"] in ("plain", "smooth", "shaped", "weights") and group.modes["box"]:
            radius[g] = half_widths(tuple(group.modes["box"]))
    return starts + (sizes - 1) / 2, radius[which]
