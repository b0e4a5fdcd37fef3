"""Means of a field over boxes: the way to fewer samples, and to other grids without loss.

One set of edges per axis enters, in index coordinates, or positions where values are wanted; means
leave, and how much of each box the samples cover. In between are places along each axis, with
weights that add up to 1 between two edges: Gauss-Legendre between the knots of windows and
coordinates.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import add_runs, is_torch, move, namespace, to_numpy
from elmfield._array.checks import array
from elmfield._array.running import capacity, with_less_memory
from elmfield._array.running import runs as runs_of
from elmfield._array.typing import Array, Coordinate, Floats, Integers
from elmfield.domain import Axis
from elmfield.field.coordinates.labels import date_errors
from elmfield.field.coordinates.output_positions import gone_at, nearest, shows_gaps
from elmfield.field.coordinates.parse import own_samples
from elmfield.partition import Partition

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended
    from elmfield.field.model import Model


EQUAL_MAX_NODES = 14
"""Nodes up to which all pieces have as many: a few too many cost less than to tell them apart."""

Weight = Callable[[Floats], Floats]
"""What a place counts for, by its coordinate in the axis's own unit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Runs:
    """Places along an axis in runs, each of which is summed.

    Parameters
    ----------
    places, weights : arrays, shape (p,)
        Index coordinates, and what a value there counts for.
    starts : integer array, shape (n,)
        Where each run begins; none is empty.
    parents : integer array, shape (boxes,)
        The first run of each box: runs may end where another sample becomes the nearest, so that
        some can be left out. Weights add up to 1 over a box.
    nearest : integer array, shape (n,)
        The sample nearest to each run, where that is known.
    """

    places: Floats
    weights: Floats
    starts: Integers
    parents: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    nearest: Integers = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def points(cls, x: Floats, near: Integers | None = None) -> "Runs":
        """Runs of one place each: values, not sums."""
        every = np.arange(len(x))
        near = every if near is None else near
        return cls(places=x, weights=np.ones(len(x)), starts=every, parents=every, nearest=near)

    def part(self, i: int, j: int) -> "Runs":
        """Runs i to j, whatever their boxes."""
        a = self.starts[i]
        b = self.starts[j] if j < len(self) else len(self.places)
        return Runs(places=self.places[a:b], weights=self.weights[a:b], starts=self.starts[i:j] - a)

    def halves(self) -> tuple["Runs", "Runs"]:
        """Half of the runs each; or half of the places, where there is only one run."""
        n, m = len(self) // 2, len(self.places) // 2
        if n:
            return self.part(0, n), self.part(n, len(self))
        low, high = (
            replace(self, places=self.places[half], weights=self.weights[half])
            for half in (slice(m), slice(m, None))
        )
        return low, high

    @property
    def shares(self) -> Floats:
        """What each run has of its box, (n,)."""
        return np.asarray(np.add.reduceat(self.weights, self.starts))


def averages(
    axis: Axis,
    edges: Floats,
    knots: Floats,
    *,
    fine: bool = True,
    split: bool = False,
    weight: Weight | None = None,
) -> Runs:
    """How to average a function between neighbouring edges.

    Parameters
    ----------
    axis : Axis
        The axis; a mean is one by its own coordinate.
    edges : array, shape (n + 1,)
        Index coordinates, monotone; on a periodic axis they may lie in any turn.
    knots : array
        Where the function is not smooth, in index coordinates.
    fine : bool
        Enough nodes for the highest frequency of the product layer, exact to rounding; else three
        or more between two samples.
    split : bool
        Let runs end between samples.
    weight : callable, optional
        What places count for, by their coordinate.
    """
    falls = edges[0] > edges[-1]
    e = edges[::-1] if falls else edges
    cuts = [e, _inside(axis, knots, e)]
    if axis.spacing is not None:  # its functions have other polynomials there
        cuts.append(_inside(axis, np.arange(axis.size, dtype=float), e))
    if split:
        cuts.append(_inside(axis, np.arange(axis.size, dtype=float) - 0.5, e))
    at = np.unique(np.concatenate(cuts))
    middle = (at[:-1] + at[1:]) / 2
    box = np.clip(np.searchsorted(e, middle, side="right") - 1, 0, len(e) - 2)
    near = nearest(axis, middle)
    if falls:
        at, box, near = at[::-1], (len(e) - 2 - box)[::-1], near[::-1]
    x, w, piece = _gauss_between(axis, at, fine)
    if weight is not None:
        w = w * weight(axis.from_index(x))
    if axis.period is not None:
        x = x - np.floor((x + 0.5) / axis.size) * axis.size
    total = np.bincount(box[piece], weights=w, minlength=len(e) - 1)
    w = w / total[box[piece]]
    new = np.append(True, np.diff(box) > 0)
    if split:
        new |= np.append(True, np.diff(near) != 0)
    first = np.flatnonzero(new)  # pieces at which runs begin
    starts = np.searchsorted(piece, first)
    parents = np.searchsorted(box[first], np.arange(len(e) - 1))
    return Runs(places=x, weights=w, starts=starts, parents=parents, nearest=near[first])


def _inside(axis: Axis, cuts: Floats, e: Floats) -> Floats:
    """Those of the cuts that lie between the outer edges; on a periodic axis in every turn."""
    if axis.period is not None:
        turns = np.arange(np.floor(e[0] / axis.size) - 1, np.ceil(e[-1] / axis.size) + 1)
        cuts = (cuts[None, :] + axis.size * turns[:, None]).reshape(-1)
    return np.asarray(cuts[(cuts > e[0]) & (cuts < e[-1])])


def _gauss_between(axis: Axis, cuts: Floats, fine: bool) -> tuple[Floats, Floats, Integers]:
    """Nodes (index coordinates), weights (by coordinate), and the piece that each lies in."""
    length = np.abs(np.diff(cuts))
    n = (2 * length).astype(int) + 10 if fine else np.ceil(3 * length).astype(int) + 1
    if n.max(initial=0) <= EQUAL_MAX_NODES:
        n[:] = n.max(initial=0)
    first = np.cumsum(n) - n
    x, w = np.empty(int(n.sum())), np.empty(int(n.sum()))
    for count in np.unique(n):
        u, v = _gauss(int(count))
        own = np.flatnonzero(n == count)
        a, b = cuts[own, None], cuts[own + 1, None]
        at = first[own, None] + np.arange(count)
        x[at] = (a + b) / 2 + (b - a) / 2 * u
        w[at] = np.abs(b - a) / 2 * v
    piece = np.repeat(np.arange(len(n)), n)
    if axis.spacing is not None:
        w = w / axis.spacing.per_step(((cuts[:-1] + cuts[1:]) / 2)[piece])
    return x, w, piece


def cell_runs(partition: Partition, k: int, x: Floats) -> Runs:
    """Means over cells one sample wide along axis k, around samples, between ends of windows."""
    spacing, end = partition.spacing(k), partition.overlap[k] % 1
    middle = [] if spacing is None else [0.5]
    cuts = np.unique(np.round([0.0, end, 1 - end, 1.0, *middle], 12)) - 0.5
    u, v = _gauss(12)
    half = np.diff(cuts)[:, None] / 2
    at = cuts[:-1, None] + half * (1 + u)
    weights = np.broadcast_to(half * v, (len(x), *at.shape))
    if spacing is not None:  # index coordinates bend in the middle
        weights = weights / spacing.per_step(x[:, None, None] + cuts[:-1, None] + half)
        weights = weights / weights.sum(axis=(1, 2), keepdims=True)
    places, starts = (x[:, None, None] + at).reshape(-1), np.arange(len(x)) * at.size
    return Runs(places=places, weights=weights.reshape(-1), starts=starts)


@lru_cache(64)
def _gauss(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre on [-1, 1]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return x, w


COVERED_MIN_SHARE = 1e-9
"""A box with less than this part of it covered has no mean."""


MEANS_MAX_BOXES = 1 << 15
"""Boxes, or parts of them, along the first axis at a time: a dozen places of each are held."""


def knots_of(blended: "Blended", k: int) -> Floats:
    """Where the windows of axis k begin, meet and end, in index coordinates."""
    borders, overlap = blended.partition.borders(k), blended.partition.overlap[k]
    knots = [borders - overlap, borders + overlap, borders]
    if blended.holds_means:  # blends have knots at the samples' cells
        knots += [borders + sign * j for j in range(1, math.ceil(overlap)) for sign in (-1, 1)]
        if blended.partition.spacing(k) is not None:  # each cell has a polynomial of its own
            knots.append(np.arange(blended.partition.shape[k] + 1.0) - 0.5)
    return np.concatenate(knots)


def _with_cell_means(
    blended: "Blended", axis: Axis, k: int, edges: Floats, runs: Runs, weight: Weight
) -> Runs:
    """Runs in which the weighted mean over a sample's cell is the sample, as the plain one is.

    What both differ by is added to all of the cell: sums over boxes are those of the samples.
    """
    n = axis.size
    cells = cell_runs(blended.partition, k, np.arange(n, dtype=np.float64))
    counted = cells.weights * weight(axis.from_index(cells.places))
    plain, counted, places = (v.reshape(n, -1) for v in (cells.weights, counted, cells.places))
    off = plain - counted / counted.sum(axis=1, keepdims=True)
    e = np.sort(edges)
    at = np.unique(np.concatenate([e, _inside(axis, np.arange(2 * n) / 2 - 0.5, e)]))
    middle = (at[:-1] + at[1:]) / 2
    cell = np.floor(middle + 0.5).astype(np.int64)
    box = np.clip(np.searchsorted(e, middle) - 1, 0, len(e) - 2)
    box = box if edges[0] < edges[-1] else len(e) - 2 - box
    x, w, piece = _gauss_between(axis, at, True)
    size = np.bincount(piece, weights=w * weight(axis.from_index(x)))
    share = size / np.bincount(box, weights=size)[box]
    # Runs are boxes, or parts of boxes that belong to one cell each.
    owner = np.repeat(np.arange(len(runs)), np.diff(runs.starts, append=len(runs.places)))
    run = runs.parents[box]
    if len(runs) > len(runs.parents):
        run = run + np.abs(cell - runs.nearest[run])
    owner = np.concatenate([owner, np.repeat(run, off.shape[1])])
    order = np.argsort(owner, kind="stable")
    return replace(
        runs,
        places=np.concatenate([runs.places, places[cell].reshape(-1)])[order],
        weights=np.concatenate([runs.weights, (share[:, None] * off[cell]).reshape(-1)])[order],
        starts=np.searchsorted(owner[order], np.arange(len(runs))),
    )


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
    mean, _ = means_over(model, edges, [], False, fine=True)
    xp = namespace(mean)
    value = xp.astype(volume * xp.reshape(mean, (-1,)), model.dtype)
    return value[0] if model.channel_axis is None else value


def refuse_with_mask(**given: bool) -> None:
    """Raise if a caller says something else that settles what is integrated."""
    if said := [name for name, is_said in given.items() if is_said]:
        raise ValueError(f"a `mask` is for one answer of all it selects; got `{said[0]}` as well.")


def cells_of_mask(model: "Model", mask: Array) -> tuple[list[Floats], Floats]:
    """Edges on each axis of cells around all samples that a mask selects; their volumes, or 0."""
    own = own_samples(model.domain)
    marked = array("mask", to_numpy(mask) if is_torch(mask) else mask)
    if marked.dtype != bool or marked.shape != tuple(map(len, own)) or not marked.any():
        raise ValueError(
            f"`mask` must be booleans of shape {tuple(map(len, own))}, some of them True; got "
            f"{marked.dtype}, shape {marked.shape}."
        )
    edges, volume = [], np.ones(())
    for k, axis in enumerate(model.domain.axes):
        some = np.flatnonzero(marked.any(axis=tuple(j for j in range(marked.ndim) if j != k)))
        cut = slice(some[0], some[-1] + 1)
        marked, at = marked[(slice(None),) * k + (cut,)], own[k][cut]
        e = np.append(at, at[-1] + 1) - 0.5
        e = np.clip(e, model.domain.low[k], model.domain.high[k])
        volume = np.multiply.outer(volume, np.abs(np.diff(axis.from_index(e))))
        edges.append(e)
    return edges, marked * volume


def sum_over_mask(model: "Model", mask: Array, missing: str | None) -> tuple[Array, Array]:
    """Integral over the cells of the samples that a mask selects, and the volume that counted."""
    edges, volume = cells_of_mask(model, mask)
    means, part = means_over(model, edges, [], shows_gaps(model, missing))
    xp, share = namespace(means), volume[..., None] * (1.0 if part is None else part)
    share = move(np.broadcast_to(share, tuple(means.shape)), means)
    total = xp.where(share > 0, means, xp.zeros_like(means)) * share
    found = [xp.sum(xp.reshape(v, (-1, v.shape[-1])), axis=0) for v in (total, share)]
    own_sum, count = xp.astype(found[0], model.dtype), xp.where(found[1] > 0, found[1], xp.nan)
    return (own_sum[0], count[0]) if model.channel_axis is None else (own_sum, count)


@with_less_memory
def means_over(
    model: "Model",
    edges: Sequence[Floats | None],
    x: Sequence[Floats],
    gaps: bool,
    weights: Mapping[int, Weight] | None = None,
    fine: bool | None = None,
) -> tuple[Array, Array | None]:
    """Means, (n_1, ..., n_d, C), and the part of each box that is not missing, if that is asked.

    Between edges, in index coordinates, on each axis, or at positions `x` for None; `weights` tell,
    for axes by number, what places count for. Without gaps all of a box counts. With them, what
    lies nearest to a missing sample does not: the rest is averaged, and where there is none the
    mean is NaN.
    """
    xp, given = namespace(model.offset), {} if weights is None else weights
    ends, fine = edges[0], model.blended.axes is not None if fine is None else fine

    def along(k: int, e: Floats | None, at: Floats) -> Runs:
        axis, weight = model.domain.axes[k], given.get(k)
        if e is None:
            return Runs.points(at, nearest(axis, at))
        knots = knots_of(model.blended, k)
        runs = averages(axis, e, knots, fine=fine, split=gaps, weight=weight)
        if weight is None or not model.blended.holds_means:
            return runs
        return _with_cell_means(model.blended, axis, k, e, runs, weight)

    own = list(x) or [np.empty(0)] * len(edges)
    others = [along(k, e, at) for k, (e, at) in enumerate(zip(edges, own)) if k]
    n = len(own[0]) if ends is None else len(ends) - 1
    # With gaps a box has a run for each sample; they are taken some at a time.
    each = 1 + int(np.ptp(ends) / n) if gaps and ends is not None else 1
    parts = math.prod(len(a) for a in others) * int(model.offset.shape[0])
    step = max(1, min(capacity(model.offset) // max(1, 4 * parts * each), MEANS_MAX_BOXES // each))
    found = []
    for i, j in runs_of(n, step):
        first = along(0, None if ends is None else ends[i : j + 1], own[0][i:j])
        found.append(_some(model, [first, *others], gaps))
    if len(found) == 1:
        return found[0]
    means = xp.concat([m for m, _ in found], axis=0)
    return means, np.concatenate([c for _, c in found]) if gaps else None


def _some(model: "Model", axes: list[Runs], gaps: bool) -> tuple[Array, Array | None]:
    """Means over some boxes, and what is covered of each."""
    xp = namespace(model.offset)
    sums = model.blended.sums(axes, xp.float64)
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
    flat = namespace(values).reshape(values, (-1, values.shape[-1]))
    return model.finish(flat, True, is_rounded=False)
