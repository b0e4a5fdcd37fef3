"""Means of a field over boxes: the way to fewer samples, and to other grids without loss.

One set of edges per axis enters, in index coordinates, or positions where values are wanted; means
leave, and how much of each box the samples cover. What an edge is in degrees `reading` knows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import add_runs, move, namespace
from elmfield._array.memory import capacity, with_less_memory
from elmfield._array.memory import runs as runs_of
from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis
from elmfield.field.blended import Blended
from elmfield.field.integrals import Split, Weight, averages
from elmfield.field.missing import gone_at
from elmfield.field.transparent import straight

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise

NOTHING = 1e-9
"""A box with less than this part of it covered has no mean."""


LONGEST = 1024
"""Parts of boxes that are averaged at a time along the first axis: plans of long axes are wide."""

LINE = 1 << 15
"""The same of boxes on a line, which need no plans; a dozen places of each are held at once."""


def knots_of(blended: Blended, k: int) -> Floats:
    """Where the windows of axis k begin, meet and end, in index coordinates."""
    borders, overlap = blended.partition.borders(k), blended.partition.overlap[k]
    return np.concatenate([borders - overlap, borders + overlap, borders])


def over(
    field: "Pointwise",
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
    fine = field.blended.is_product if fine is None else fine
    how = []
    for k, (axis, e) in enumerate(zip(field.domain.axes, edges)):
        if e is None:
            how.append(Split.points(axis, x[k]))
        else:
            knots = knots_of(field.blended, k)
            how.append(averages(axis, e, knots, fine=fine, split=split, weight=given.get(k)))
    return how


def means_over(
    field: "Pointwise", edges: Sequence[Floats | None], x: Sequence[Floats], gaps: bool
) -> tuple[Array, Array | None]:
    """Means between edges, at positions `x` for None, and what is covered: see :func:`averaged`.

    Boxes on a line are taken in parts: their places are many times as many as they are.
    """
    first = edges[0]
    if len(edges) > 1 or first is None or len(first) - 1 <= LINE:
        return averaged(field, over(field, edges, x, split=gaps), gaps)
    parts = [
        averaged(field, over(field, [first[i : j + 1]], split=gaps), gaps)
        for i, j in runs_of(len(first) - 1, LINE)
    ]
    means = namespace(field.offset).concat([m for m, _ in parts], axis=0)
    return means, np.concatenate([c for _, c in parts if c is not None]) if gaps else None


@with_less_memory
def averaged(field: "Pointwise", axes: list[Split], gaps: bool) -> tuple[Array, Array | None]:
    """Means, (n_1, ..., n_d, C), and the part of each box that is not missing, if that is asked.

    Without gaps all of a box counts. With them, what lies nearest to a missing sample does not: the
    rest is averaged, and where there is none the mean is NaN.
    """
    xp = namespace(field.offset)
    sizes = [len(a.parents) for a in axes]
    parts = math.prod(len(a.runs) for a in axes[1:]) * int(field.offset.shape[0])
    each = max(1, math.ceil(len(axes[0].runs) / max(1, sizes[0])))
    longest = LINE if len(axes) == 1 and field.blended.is_product else LONGEST
    step = max(1, min(capacity(field.offset) // max(1, 4 * parts * each), longest // each))
    found = [
        _some(field, [axes[0].part(i, j), *axes[1:]], gaps) for i, j in runs_of(sizes[0], step)
    ]
    if len(found) == 1:
        return found[0]
    means = xp.concat([m for m, _ in found], axis=0)
    return means, np.concatenate([c for _, c in found]) if gaps else None


def _some(field: "Pointwise", axes: list[Split], gaps: bool) -> tuple[Array, Array | None]:
    """Means over some boxes, and what is covered of each."""
    xp = namespace(field.offset)
    sums = field.blended.sums([a.runs for a in axes], xp.float64)
    shape = tuple(sums.shape)
    if not gaps:
        return xp.reshape(_finished(field, sums), (*shape[:-1], -1)), None
    there = ~gone_at(field, [a.nearest for a in axes])
    share = there.astype(np.float64)
    for k, a in enumerate(axes):
        share = share * a.shares.reshape([-1 if m == k else 1 for m in range(share.ndim)])
    C = shape[-1]
    both = np.concatenate([there] * (C // there.shape[-1]), axis=-1) if field.is_complex else there
    kept = sums * xp.astype(move(np.broadcast_to(both, shape), sums), sums.dtype)
    for k, a in enumerate(axes):
        kept = add_runs(kept, a.parents, axis=k)
        share = np.add.reduceat(share, a.parents, axis=k)
    part = np.concatenate([share, share], axis=-1) if both.shape != there.shape else share
    whole = move(np.where(part > NOTHING, part, np.nan), kept, kept.dtype)
    means = _finished(field, kept / whole)
    return xp.reshape(means, (*kept.shape[:-1], -1)), share


def _finished(field: "Pointwise", values: Array) -> Array:
    """Means in the caller's units, flattened to (n, C), in float64."""
    xp = namespace(values)
    flat = xp.reshape(values, (-1, values.shape[-1]))
    flat = flat * xp.astype(field.scale, flat.dtype) + xp.astype(field.offset, flat.dtype)
    return field.joined(straight(field, flat), axis=1)


def boxes_around(axis: Axis, x: Floats, low: float, high: float) -> Floats | None:
    """Edges of the boxes around positions that are more than a sample apart; None if they are not.

    Neighbours share the edge midway between them; the outermost boxes are as wide on both sides,
    but end with the domain, whose ends are `low` and `high`.
    """
    if len(x) < 2:
        return np.asarray([low, high]) if high - low > 1 + 1e-6 else None
    steps = np.diff(x)
    if abs(float(x[-1] - x[0])) / len(steps) <= 1 + 1e-6:
        return None
    ends = [x[0] - steps[0] / 2], [x[-1] + steps[-1] / 2]
    e = np.concatenate([ends[0], x[:-1] + steps / 2, ends[1]])
    return np.asarray(np.clip(e, low, high) if axis.period is None else e)
