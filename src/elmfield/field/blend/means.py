"""Means of a field over boxes: the way to fewer samples, and to other grids without loss.

One set of edges per axis enters, in index coordinates, or positions where values are wanted; means
leave, and how much of each box the samples cover. `parse` reads edges in other units.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import add_runs, move, namespace
from elmfield._array.running import capacity, with_less_memory
from elmfield._array.running import runs as runs_of
from elmfield._array.typing import Array, Coordinate, Floats
from elmfield.field.blend.blended import Blended
from elmfield.field.blend.integrals import Split, Weight, averages
from elmfield.field.coordinates.dates import date_errors
from elmfield.field.coordinates.gap_masks import gone_at, shows_gaps
from elmfield.field.coordinates.labels import unpremultiply
from elmfield.field.coordinates.parse import own_samples

if TYPE_CHECKING:
    from elmfield.field.model import Model

COVERED_MIN_SHARE = 1e-9
"""A box with less than this part of it covered has no mean."""


MEANS_MAX_PARTS = 1024
"""Parts of boxes that are averaged at a time along the first axis: plans of long axes are wide."""

LINE_MAX_BOXES = 1 << 15
"""The same of boxes on a line, which need no plans; a dozen places of each are held at once."""


def knots_of(blended: Blended, k: int) -> Floats:
    """Where the windows of axis k begin, meet and end, in index coordinates."""
    borders, overlap = blended.partition.borders(k), blended.partition.overlap[k]
    knots = [borders - overlap, borders + overlap, borders]
    if blended.holds_means:  # blends have knots at the samples' cells
        knots += [borders + sign * j for j in range(1, math.ceil(overlap)) for sign in (-1, 1)]
    return np.concatenate(knots)


def over(
    model: "Model",
    edges: Sequence[Floats | None],
    x: Sequence[Floats] = (),
    *,
    split: bool = False,
    weights: Mapping[int, Weight] | None = None,
    fine: bool | None = None,
) -> list[Split]:
    """How to average between edges, in index coordinates, on each axis; at positions `x` for None.

    `weights` tell, for axes by number, what places count for.
    """
    given = {} if weights is None else weights
    fine = model.blended.is_product if fine is None else fine
    how = []
    for k, (axis, e) in enumerate(zip(model.domain.axes, edges)):
        if e is None:
            how.append(Split.points(axis, x[k]))
        else:
            knots = knots_of(model.blended, k)
            how.append(averages(axis, e, knots, fine=fine, split=split, weight=given.get(k)))
    return how


def means_between(
    model: "Model",
    edges: Sequence[Array],
    missing: str | None,
    weights: Mapping[int, Weight] | None = None,
) -> tuple[Array, Array]:
    """Means over boxes as :meth:`Field.means` takes them, in float64, and what part of each counts.

    With channels where the input had them.
    """
    gaps = shows_gaps(model, missing)
    own = [o.astype(np.float64) for o in own_samples(model.domain)]
    values, part = means_over(model, model.coordinates.edges_of(edges), own, gaps, weights)
    part = np.broadcast_to(np.ones(1) if part is None else part, values.shape)
    return model.channels_back(values), model.channels_back(part)


def integral_between(
    model: "Model", low: Sequence[Coordinate], high: Sequence[Coordinate]
) -> Array:
    """Integral over the box between two corners; see :meth:`Field.integral`."""
    ends = model.coordinates.corners(low, high)
    with date_errors(model.labels.axes):
        span = model.domain.span(*ends)
    volume = math.prod(b - a for a, b in zip(*ends))
    edges = [np.asarray(e) for e in zip(*span)]
    mean, _ = averaged(model, over(model, edges, fine=True), False)
    xp = namespace(mean)
    value = xp.astype(volume * xp.reshape(mean, (-1,)), model.dtype)
    return value[0] if model.channel_axis is None else value


def means_over(
    model: "Model",
    edges: Sequence[Floats | None],
    x: Sequence[Floats],
    gaps: bool,
    weights: Mapping[int, Weight] | None = None,
) -> tuple[Array, Array | None]:
    """Means between edges, at positions `x` for None, and what is covered: see :func:`averaged`.

    Boxes on a line are taken in parts: their places are many times as many as they are.
    """
    first = edges[0]
    if len(edges) > 1 or first is None or len(first) - 1 <= LINE_MAX_BOXES:
        return averaged(model, over(model, edges, x, split=gaps, weights=weights), gaps)
    parts = [
        averaged(model, over(model, [first[i : j + 1]], split=gaps), gaps)
        for i, j in runs_of(len(first) - 1, LINE_MAX_BOXES)
    ]
    means = namespace(model.offset).concat([m for m, _ in parts], axis=0)
    return means, np.concatenate([c for _, c in parts if c is not None]) if gaps else None


@with_less_memory
def averaged(model: "Model", axes: list[Split], gaps: bool) -> tuple[Array, Array | None]:
    """Means, (n_1, ..., n_d, C), and the part of each box that is not missing, if that is asked.

    Without gaps all of a box counts. With them, what lies nearest to a missing sample does not: the
    rest is averaged, and where there is none the mean is NaN.
    """
    xp = namespace(model.offset)
    sizes = [len(a.parents) for a in axes]
    parts = math.prod(len(a.runs) for a in axes[1:]) * int(model.offset.shape[0])
    each = max(1, math.ceil(len(axes[0].runs) / max(1, sizes[0])))
    longest = LINE_MAX_BOXES if len(axes) == 1 and model.blended.is_product else MEANS_MAX_PARTS
    step = max(1, min(capacity(model.offset) // max(1, 4 * parts * each), longest // each))
    found = [
        _some(model, [axes[0].part(i, j), *axes[1:]], gaps) for i, j in runs_of(sizes[0], step)
    ]
    if len(found) == 1:
        return found[0]
    means = xp.concat([m for m, _ in found], axis=0)
    return means, np.concatenate([c for _, c in found]) if gaps else None


def _some(model: "Model", axes: list[Split], gaps: bool) -> tuple[Array, Array | None]:
    """Means over some boxes, and what is covered of each."""
    xp = namespace(model.offset)
    sums = model.blended.sums([a.runs for a in axes], xp.float64)
    shape = tuple(sums.shape)
    if not gaps:
        return xp.reshape(_finished(model, sums), (*shape[:-1], -1)), None
    there = ~gone_at(model, [a.nearest for a in axes])
    share = there.astype(np.float64)
    for k, a in enumerate(axes):
        share = share * a.shares.reshape([-1 if m == k else 1 for m in range(share.ndim)])
    C = shape[-1]
    both = np.concatenate([there] * (C // there.shape[-1]), axis=-1) if model.is_complex else there
    kept = sums * xp.astype(move(np.broadcast_to(both, shape), sums), sums.dtype)
    for k, a in enumerate(axes):
        kept = add_runs(kept, a.parents, axis=k)
        share = np.add.reduceat(share, a.parents, axis=k)
    part = np.concatenate([share, share], axis=-1) if both.shape != there.shape else share
    whole = move(np.where(part > COVERED_MIN_SHARE, part, np.nan), kept, kept.dtype)
    means = _finished(model, kept / whole)
    return xp.reshape(means, (*kept.shape[:-1], -1)), share


def _finished(model: "Model", values: Array) -> Array:
    """Means in the caller's units, flattened to (n, C), in float64."""
    xp = namespace(values)
    flat = xp.reshape(values, (-1, values.shape[-1]))
    flat = flat * xp.astype(model.scale, flat.dtype) + xp.astype(model.offset, flat.dtype)
    return model.joined(unpremultiply(model.labels.alpha, flat), axis=1)
