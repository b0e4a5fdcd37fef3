"""What a model file says: a field as metadata, small arrays, and an order of its coefficients.

A field enters; plain values and arrays leave, laid out as docs/format.md has it. Bytes are the
business of `store`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Progress
from elmfield.domain import Axis
from elmfield.field import Field
from elmfield.io.model import recipes
from elmfield.io.model.agreed import file_order, frames_of
from elmfield.io.model.nodes import said_nodes
from elmfield.io.model.plain import to_plain
from elmfield.io.model.stored import Deferred, Kept
from elmfield.io.model.tiles import SamplePlan
from elmfield.local.model import LocalModel
from elmfield.partition import Partition

BATCH = 1 << 22
"""Coefficients gathered at a time while writing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Description:
    """A field as a file has it.

    Parameters
    ----------
    meta : mapping
        The metadata, in JSON's own terms, without what is known once samples are written.
    arrays : mapping of str to array
        The small arrays, one-dimensional.
    plan : Plan
        Which coefficients follow which.
    """

    meta: dict[str, Any]
    arrays: dict[str, Array]
    plan: "Plan | SamplePlan"


def described(field: Field, dtype: str) -> Description:
    """What a file with coefficients of this dtype says about a field."""
    from elmfield import __version__

    part = field.partition
    plan = _plan(field, dtype)
    arrays: dict[str, Array] = {}
    axes = [_axis(a, k, arrays) for k, a in enumerate(field.domain.axes)]
    partition = _partition(part, arrays)
    groups, networks = _groups(field, plan, arrays)
    if isinstance(plan, Plan):
        _describe_ragged(plan, arrays)
        nodes = said_nodes([g.nodes for g in plan.groups], plan.order, plan.which, plan.row)
        if nodes is not None:
            arrays["positions"], arrays["members"] = nodes[0], _smallest(nodes[1])
    frames = _frames(field, groups, plan, arrays)
    residual = _residual(field, plan, arrays)
    if field.gaps is not None:
        arrays["gaps"] = np.packbits(np.asarray(field.gaps, bool).reshape(-1))
    meta = {
        "format": "elmfield model",
        "version": 3 if isinstance(plan, SamplePlan) else _version(part, groups),
        "written_by": f"elmfield {__version__}",
        "domain": {"axes": axes, "low": list(field.domain.low), "high": list(field.domain.high)},
        "partition": partition,
        "networks": networks,
        "groups": groups,
        "frames": frames,
        **({"n_coefficients": plan.n_values} if isinstance(plan, Plan) else {}),
        "dtype": dtype,
        "offset": to_numpy(field.offset).astype(np.float64).tolist(),
        "scale": to_numpy(field.scale).astype(np.float64).tolist(),
        "channel_axis": field.channel_axis,
        "complex": field.is_complex,
        "input_dtype": field.input_dtype,
        "data_range": float(field.data_range),
        "residual": residual,
        **({} if field.gaps is None else {"gaps": _per(field)}),
        "settings": recipes.settings_to_plain(field.settings),
        "attributes": field.attributes,
    }
    return Description(meta=to_plain(meta), arrays=arrays, plan=plan)


def _plan(field: Field, dtype: str) -> "Plan | SamplePlan":
    """What the file holds: samples where they settle the field, else coefficients."""
    boxes = field.blended.made_of
    return Plan(field) if boxes is None else SamplePlan(field=field, boxes=boxes, dtype=dtype)


def _residual(field: Field, plan: "Plan | SamplePlan", arrays: dict[str, Array]) -> bool | str:
    """Whether the file holds what the fit left over in each region; "none" where that is nothing.

    Not beside samples that were coded with loss: it could be as long as they are.
    """
    if field.residual is None or (isinstance(plan, SamplePlan) and plan.is_lossy):
        return False
    wide = np.asarray(to_numpy(field.residual), np.float64)
    if not wide.any():
        return "none"
    with np.errstate(over="ignore", under="ignore"):
        left = wide.astype(np.float32)
    fits = np.isfinite(left).all() and ((left > 0) == (wide > 0)).all()
    arrays["residual"] = left if fits else wide
    return True


def _per(field: Field) -> str:
    """Whether what is missing is the same in all channels, or told for each."""
    assert field.gaps is not None
    return "sample" if field.gaps.ndim == len(field.shape) else "channel"


def _version(part: Partition, groups: list[dict[str, Any]]) -> int:
    """The lowest format version that knows all that is said."""
    new = {"oriented", "kernels"}
    if any(recipes.is_free(g["modes"]) or g["modes"]["kind"] in new for g in groups):
        return 3
    return 2 if part.mirrored else 1


def _axis(axis: Axis, k: int, arrays: dict[str, Array]) -> dict[str, Any]:
    """Axis k; its coordinates become an array unless they are exactly even."""
    entry: dict[str, Any] = {"name": axis.name, "size": axis.size, "period": axis.period}
    if axis.coords is not None:
        entry |= {"origin": axis.origin, "step": axis.step, "even": axis.knots is None}
        if not np.array_equal(axis.coords, axis.origin + axis.step * np.arange(axis.size)):
            entry["listed"] = True
            arrays[f"coordinates_{k}"] = np.asarray(axis.coords, np.float64)
    return entry


def _partition(part: Partition, arrays: dict[str, Array]) -> dict[str, Any]:
    """The partition; edges that are not even, and labels that are not all different, as arrays."""
    edges: list[Any] = []
    for k, e in enumerate(part.edges):
        count = len(e) - 1
        even = np.round(np.linspace(0, part.shape[k], count + 1))
        edges.append(count if np.array_equal(e, even) else "listed")
        if edges[-1] == "listed":
            arrays[f"edges_{k}"] = np.asarray(e, np.int64)
    boxes = {}
    if part.starts is not None and part.is_regular:
        boxes = {"boxes": "listed"}
        for k, line in enumerate(part.lines):
            arrays[f"starts_{k}"] = np.asarray(line, np.int64)
    if not part.is_regular:
        arrays["labels"] = _smallest(part.labels.reshape(-1))
    return {
        "shape": list(part.shape),
        "edges": edges,
        "overlap": list(map(float, part.overlap)),
        "periodic": list(map(bool, part.periodic)),
        "equal_boxes": bool(part.equal_boxes),
        "context": int(part.context),
        "mirrored": bool(part.mirrored),
        "regular": part.is_regular,
        "n_regions": part.n_regions,
    } | boxes


def _groups(
    field: Field, plan: "Plan | SamplePlan", arrays: dict[str, Array]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Recipes of all groups, and the networks they share; masks, and who is in which, as arrays."""
    groups: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    inside: list[Array] = []
    for group in field.blended.groups:
        kept = _kept(group.model, len(field.shape))
        recipe = dict(kept.recipe)
        if "network" in recipe:  # said once, not in every group
            if recipe["network"] not in networks:
                networks.append(recipe["network"])
            recipe["network"] = networks.index(recipe["network"])
        if kept.inside is not None:
            inside.append(np.asarray(kept.inside, bool).reshape(-1))
        probe = [float(f"{v:.9g}") for v in kept.probe]
        entry = {"modes": recipe, "n_modes": kept.n_modes, "probe": probe}
        if group.coefficients.index_bits:
            entry["ragged"] = True
        groups.append(entry)
    if len(groups) > 1:
        arrays["group"] = _smallest(plan.which)
    if inside:
        arrays["inside"] = np.packbits(np.concatenate(inside))
    return groups, networks


def _frames(
    field: Field, groups: list[dict[str, Any]], plan: "Plan | SamplePlan", arrays: dict[str, Array]
) -> str:
    """Whether local coordinates are those of the regions' boxes; else they become an array."""
    own, sizes = field.blended, field.partition.boxes[1]
    centres, radii = frames_of(field.partition, groups, plan.which)
    boxes = np.asarray([g["modes"].get("box", sizes[0]) for g in groups])[plan.which]
    if all(map(np.array_equal, (centres, radii, sizes), (own.centres, own.radii, boxes))):
        return "boxes"
    arrays["frames"] = np.concatenate([own.centres, own.radii], axis=1).reshape(-1)
    return "listed"


class Plan:
    """Which region's coefficients follow which in the file."""

    def __init__(self, field: Field) -> None:
        self.groups = field.blended.groups
        self.order = file_order(field.partition)
        N = len(self.order)
        self.which = np.empty(N, np.int64)
        self.row = np.empty(N, np.int64)
        for g, group in enumerate(self.groups):
            self.which[group.regions] = g
            self.row[group.regions] = np.arange(len(group.regions))
        self.counts = np.empty(N, np.int64)
        for group in self.groups:
            self.counts[group.regions] = group.coefficients.counts
        self.n_values = int(self.counts.sum())

    def numbers(self, dtype: str, progress: Progress) -> Iterator[Array]:
        """The coefficients in file order, batch by batch."""
        N, ends = len(self.order), np.cumsum(self.counts[self.order])
        first = 0
        while first < N:
            before = 0 if first == 0 else int(ends[first - 1])
            last = max(first + 1, int(np.searchsorted(ends, before + BATCH, side="right")))
            regions = self.order[first:last]
            counts = self.counts[regions]
            places = np.cumsum(counts) - counts
            out = np.empty(int(counts.sum()), dtype)
            for g, group in enumerate(self.groups):
                at = np.flatnonzero(self.which[regions] == g)
                if not len(at):
                    continue
                values = to_numpy(group.coefficients.numbers(self.row[regions[at]]))
                with np.errstate(over="ignore"):
                    values = values.astype(dtype)
                if dtype == "float16" and not np.isfinite(values).all():
                    raise ValueError(
                        "some coefficients exceed what float16 holds (65504); save as 'float32'."
                    )
                if len(at) == len(regions):
                    out = values  # the only group here: already one after the other
                    break
                n, begin = counts[at], places[at]
                index = np.repeat(begin - (np.cumsum(n) - n), n) + np.arange(len(values))
                out[index] = values
            yield out
            first = last
            progress("save", first, N)


def _kept(model: LocalModel, d: int) -> Kept:
    """How to make a local model again; what a file says about one need not be made for that."""
    if isinstance(model, Deferred):
        return model.kept
    inside = None if model.basis is None else model.basis.inside
    return Kept(recipes.recipe_of(model), int(model.n_modes), recipes.probe(model, d), d, inside)


def _describe_ragged(plan: Plan, arrays: dict[str, Array]) -> None:
    """Add which modes each region keeps: counts and lengths by run, and a bitmap; file order."""
    nothing = np.empty(0, np.int64)
    rankings = [r.ranking for g in plan.groups if (r := g.coefficients.ragged(nothing)) is not None]
    if not rankings:
        return
    counts, lengths, ranks = [], [], []
    batch = 4096
    for i in range(0, len(plan.order), batch):
        regions = plan.order[i : i + batch]
        for g in np.unique(plan.which[regions]) if len(plan.groups) > 1 else [0]:
            at = np.flatnonzero(plan.which[regions] == g)
            some = plan.groups[g].coefficients.ragged(plan.row[regions[at]])
            if some is None:
                continue
            counts.append((regions[at], some.kept))
            lengths.append(some.lengths)
            ranks.append((some.ranks, some.lengths.reshape(-1), some.starts))
    listed = np.concatenate([r for r, _ in counts])
    position = np.empty(len(plan.order), np.int64)
    position[plan.order] = np.arange(len(plan.order))
    by_place = np.argsort(position[listed], kind="stable")
    all_counts = np.concatenate([c for _, c in counts])[by_place]
    all_lengths = np.concatenate(lengths)[by_place]
    arrays["counts"] = _smallest(all_counts.reshape(-1))
    arrays["lengths"] = _smallest(all_lengths.reshape(-1))
    arrays["ranking"] = _smallest(np.concatenate(rankings))
    C = all_counts.shape[1]
    # Bits of each run in the order of `listed`, then put in the order of the file.
    flat = all_lengths.reshape(-1)
    begins = np.cumsum(flat) - flat
    bits = np.zeros(int(flat.sum()), bool)
    inverse = np.empty(len(by_place), np.int64)
    inverse[by_place] = np.arange(len(by_place))
    seen = 0
    for rank, runs, starts in ranks:
        n = np.diff(starts)
        row = inverse[seen + np.repeat(np.arange(len(runs) // C), C)]
        run = row * C + np.tile(np.arange(C), len(runs) // C)
        bits[np.repeat(begins[run], n) + rank] = True
        seen += len(runs) // C
    arrays["bitmap"] = np.packbits(bits)


def _smallest(values: Array) -> Array:
    """Whole numbers from 0 in the narrowest of the format's types that holds them."""
    values = np.asarray(values)
    top = int(values.max(initial=0))
    return values.astype("uint8" if top < 1 << 8 else "uint16" if top < 1 << 16 else "uint32")
