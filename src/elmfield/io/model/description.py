"""A field as a model file has it: metadata, small arrays, and its samples or coefficients.

All of it is laid out as docs/format.md says.
"""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import Axis
from elmfield.field import Field
from elmfield.field.coefficients.stored import Draws
from elmfield.field.coordinates.labels import labels_to_plain
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.io.model import recipes
from elmfield.io.model.coefficient_files import CoefficientPlan, narrow_integers
from elmfield.io.model.lazy_coefficients import DescribedModel
from elmfield.io.model.metadata import (
    AxisRecord,
    DomainRecord,
    EvidenceRecord,
    GroupRecord,
    Metadata,
    PartitionRecord,
    write_metadata,
)
from elmfield.io.model.sample_files import SamplePlan
from elmfield.io.store.blocks import write_array
from elmfield.io.store.stores import ROOT, Store
from elmfield.local.bases import half_widths
from elmfield.local.model import LocalModel
from elmfield.partition import Partition
from elmfield.settings import Settings


class Plan(Protocol):
    """Which numbers of a field a file holds, and how they are written: samples or coefficients."""

    @property
    def dtype(self) -> str:
        """Return the dtype in which a reader computes."""

    @property
    def group_numbers(self) -> Integers:
        """Return the group of each region, (N,)."""

    @property
    def is_lossy(self) -> bool:
        """Whether samples were coded with loss."""

    def arrays(self) -> dict[str, Array]:
        """Return the small arrays that a reader needs beside them."""

    def write(self, store: Store, meta: Metadata, compress: bool, progress: Progress) -> Metadata:
        """Write the numbers; return the metadata with what they say about them."""


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
        write_metadata(store, self.plan.write(store, meta, compress, progress))

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
    last = ("coefficients", "samples", "missing", "overview", ROOT)
    numbers = [(int(part), "") if part.isdigit() else (-1, part) for part in place]
    is_block = "c" in place
    return (last.index(name) + 1 if name in last else 0), [(0, name), (is_block, ""), *numbers]


def describe(field: Field, dtype: str) -> Description:
    """Return what a file says about a field, with numbers of this dtype."""
    from elmfield import __version__

    part = field.partition
    plan = _plan(field, dtype)
    arrays: dict[str, Array] = {}
    axes = [_axis(a, k, arrays) for k, a in enumerate(field.domain.axes)]
    partition = _partition(part, arrays)
    groups, networks = _groups(field, plan, arrays)
    arrays |= plan.arrays()
    frames = _frames(field, groups, plan, arrays)
    residual = _residual(field, plan, arrays)
    if field.model.gaps is not None:
        arrays["gaps"] = np.packbits(np.asarray(field.model.gaps, bool).reshape(-1))
    low, high = list(field.domain.low), list(field.domain.high)
    is_whole = (low, high) == ([-0.5] * len(low), [n - 0.5 for n in field.domain.shape])
    box = {} if is_whole else {"low": low, "high": high}
    meta = Metadata(
        written_by=f"elmfield {__version__}",
        domain=DomainRecord(axes=axes, **box),
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
        gaps=_gaps(field),
        settings=recipes.settings_to_plain(field.settings),
        evidence=_evidence(field),
        attributes=labels_to_plain(field.labels),
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
    plan = SamplePlan(field=field, boxes=boxes, dtype=dtype)
    if plan.is_lossy or promised_error(field) is not None:
        # Samples coded for an error keep it as they were computed with: rounding would add to it,
        # and saves no byte.
        return replace(plan, dtype=str(field.model.coefficient_dtype).removeprefix("torch."))
    return plan


def _residual(field: Field, plan: Plan, arrays: dict[str, Array]) -> bool | str:
    """Whether the file holds what the fit left over in each region; "none" where that is nothing.

    Not beside samples that were coded with loss: it could be as long as they are.
    """
    if field.model.residual is None or plan.is_lossy:
        return False
    wide = np.asarray(to_numpy(field.model.residual), np.float64)
    if not wide.any():
        return "none"
    with np.errstate(over="ignore", under="ignore"):
        left = wide.astype(np.float32)
    fits = np.isfinite(left).all() and ((left > 0) == (wide > 0)).all()
    arrays["residual"] = left if fits else wide
    return True


def _evidence(field: Field) -> EvidenceRecord | None:
    """Noise that was taken out, and what coding lost, if any."""
    found, lost = field.model.evidence or Evidence(), field.model.coding_error
    noise, amplitude = (None if a is None else list(a) for a in (found.noise, found.amplitude))
    record = EvidenceRecord(noise=noise, amplitude=amplitude, left=found.left, coding=lost)
    return None if record == EvidenceRecord() else record


def _gaps(field: Field) -> str | None:
    """Say whether what is missing is the same in all channels, or told for each; or nothing."""
    if field.model.gaps is None:
        return None
    return "sample" if field.model.gaps.ndim == len(field.shape) else "channel"


def _axis(axis: Axis, k: int, arrays: dict[str, Array]) -> AxisRecord:
    """Axis k; its coordinates become an array unless they are exactly even."""
    name = None if axis.name == f"axis{k}" else axis.name
    record = AxisRecord(name=name, size=axis.size, period=axis.period)
    if axis.coords is None:
        return record
    listed = not np.array_equal(axis.coords, axis.origin + axis.step * np.arange(axis.size))
    if listed:
        arrays[f"coordinates_{k}"] = np.asarray(axis.coords, np.float64)
    even = axis.spacing is None
    return replace(record, origin=axis.origin, step=axis.step, even=even, listed=listed)


def _partition(part: Partition, arrays: dict[str, Array]) -> PartitionRecord:
    """The partition; edges that are not even, and labels that are not all different, as arrays."""
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
    return PartitionRecord(
        edges=edges,
        overlap=list(map(float, part.overlap)),
        equal_boxes=bool(part.equal_boxes),
        context=int(part.context),
        mirrored=bool(part.mirrored),
        regular=part.is_regular,
        boxes="listed" if listed else None,
    )


def _groups(
    field: Field, plan: Plan, arrays: dict[str, Array]
) -> tuple[list[GroupRecord], list[dict[str, Any]]]:
    """Recipes of all groups, and the networks they share; masks, and who is in which, as arrays."""
    groups: list[GroupRecord] = []
    networks: list[dict[str, Any]] = []
    inside: list[Array] = []
    for group in field.model.blended.groups:
        kept = _described(group.model, len(field.shape))
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
        arrays["group"] = narrow_integers(plan.group_numbers)
    if inside:
        arrays["inside"] = np.packbits(np.concatenate(inside))
    return groups, networks


def _frames(field: Field, groups: list[GroupRecord], plan: Plan, arrays: dict[str, Array]) -> str:
    """Whether local coordinates are those of the regions' boxes; else they become an array."""
    own, sizes = field.model.blended, field.partition.boxes[1]
    centres, radii = frames_of(field.partition, groups, plan.group_numbers)
    boxes = np.asarray([g.modes.get("box") or sizes[0] for g in groups])[plan.group_numbers]
    if all(map(np.array_equal, (centres, radii, sizes), (own.centres, own.radii, boxes))):
        return "boxes"
    arrays["frames"] = np.concatenate([own.centres, own.radii], axis=1).reshape(-1)
    return "listed"


def _described(model: LocalModel, d: int) -> DescribedModel:
    """How to make a local model again; what a file says about one need not be made for that."""
    if isinstance(model, DescribedModel):
        return model
    inside: Array | None = getattr(model, "inside", None)
    recipe, probe = recipes.recipe_of(model), recipes.probe(model, d)
    return DescribedModel(recipe, int(model.n_modes), probe, d, inside)


def frames_of(part: Partition, groups: list[GroupRecord], which: Integers) -> tuple[Floats, Floats]:
    """Centres and radii, (N, d) each, of regions whose boxes are the partition's."""
    starts, sizes = part.boxes
    d = len(part.shape)
    radius = np.ones((len(groups), d))
    for g, group in enumerate(groups):
        if group.modes["kind"] in ("plain", "smooth", "shaped", "weights") and group.modes["box"]:
            radius[g] = half_widths(tuple(group.modes["box"]))
    return starts + (sizes - 1) / 2, radius[which]
