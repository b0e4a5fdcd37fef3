"""A blended function at points: sums of the local models whose windows reach there; derivatives."""

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product as cartesian
from operator import and_
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.autograd import Order
from elmfield._array.backend import (
    cast,
    count,
    device,
    is_on_host,
    move,
    namespace,
    put_rows,
    sort_order,
)
from elmfield._array.running import capacity, spread
from elmfield._array.typing import Array, Integers
from elmfield.local.bases.axis_modes import rows_of
from elmfield.local.model import AxisFunctions, LocalModel
from elmfield.partition import blend

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended


CACHE_NUMBERS = 1 << 20
"""Numbers a batch of points holds at most on a processor: what fits its cache."""


def partials(field: "Blended", x: Array, orders: list[Order]) -> list[Array]:
    """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

    Leibniz: ``∂^a (φ f) = Σ_{b ≤ a} C(a, b) ∂^b φ ∂^(a-b) f``, over the cells that contribute.
    """
    means = field.holds_means
    top = [max(a[k] for a in orders) + means for k in range(x.shape[1])]
    points, region, columns, windows = contributions(field, x, top)
    if means:
        found = local_values(field, region, columns, orders, windows)
    else:
        needed = sorted({r for a in orders for _, _, r in leibniz(a)})
        local = local_values(field, region, columns, needed)
        found = {a: _weighted(a, windows, local) for a in orders}
    return [add_up(points, found[a]) for a in orders]


def add_up(points: list[Array], answers: Array) -> Array:
    """Sums (n, C) of answers (m, C) at points that ask :func:`corners`."""
    first = points[0].shape[0]
    xp, total = namespace(answers), answers[:first, :]
    for at in points[1:]:
        part = answers[first : (first := first + at.shape[0]), :]
        total = put_rows(total, at, xp.take(total, at, axis=0) + part)
    return total


def corners(is_blended: list[Array]) -> tuple[list[Array], Integers]:
    """Which points ask each corner, the first of which all do; and the corner of each question.

    A corner is the lower or upper cell on each axis, (m, d), where two contribute if a point, (n,),
    `is_blended` there.
    """
    xp, n = namespace(is_blended[0]), is_blended[0].shape[0]
    points, asked = list[Array](), []
    # An axis without blends has no upper cell: 2^d corners are many in d = 20.
    for corner in cartesian(*((0, 1) if bool(xp.any(own)) else (0,) for own in is_blended)):
        active = [own for own, up in zip(is_blended, corner) if up]
        if active:
            at = xp.nonzero(reduce(and_, active))[0]
        else:
            at = xp.arange(n, device=device(is_blended[0]))
        if at.shape[0] or not points:
            points.append(at)
            asked.append(np.full((at.shape[0], len(corner)), corner, bool))
    return points, np.concatenate(asked)


def contributions(
    field: "Blended", x: Array, top: list[int]
) -> tuple[list[Array], Array, list[Array], list[list[Array]]]:
    """Which regions contribute at n points, windows differentiated up to an order on each axis.

    Every point has its lower cells; where another cell contributes too, that one as well.

    Returns
    -------
    points : list of integer arrays
        The points that ask each corner (the lower or upper cell on each axis), one corner after
        the other; all of them the first.
    region, columns : arrays, shape (m,)
        All questions: region and coordinates on each axis.
    windows : lists of arrays, shape (m,)
        The windows of all questions and their derivatives, for each axis.
    """
    xp, part = namespace(x), field.partition
    columns = [xp.concat([x[:, k]]) for k in range(x.shape[1])]  # each in one piece of memory
    blends = [blend(part, k, c, order) for k, (c, order) in enumerate(zip(columns, top))]
    labels = move(np.ascontiguousarray(part.labels.reshape(-1)), x)
    points, uppers = corners([b.ramp[0] > 0 for b in blends])
    who = xp.concat(points)
    cell: Array = 0
    windows = []
    for k, (b, n_cells) in enumerate(zip(blends, part.n_cells)):
        up = move(np.ascontiguousarray(uppers[:, k]), x)
        cell = cell * n_cells + xp.where(up, xp.take(b.upper, who), xp.take(b.lower, who))
        rising = (xp.take(r, who) for r in b.ramp)
        windows.append([xp.where(up, r, float(t == 0) - r) for t, r in enumerate(rising)])
    everyone = [xp.take(c, who) for c in columns]
    return points, xp.take(labels, cell), everyone, windows


def _weighted(a: Order, windows: list[list[Array]], local: dict[Order, Array]) -> Array:
    """``∂^a (φ f)`` of all questions, (m, C)."""
    total: Array = None
    for factor, times, rest in leibniz(a):
        w: Array = factor
        for own, t in zip(windows, times):
            w = w * own[t]
        part = cast(w[:, None], local[rest]) * local[rest]
        total = part if total is None else total + part
    return total


def local_values(
    field: "Blended",
    region: Array,
    x: list[Array],
    orders: list[Order],
    windows: list[list[Array]] | None = None,
) -> dict[Order, Array]:
    """Local models ∂^a f_i: region numbers (n,), positions (n,) on each axis; (n, C) each.

    With the `windows` of each axis and their derivatives, (n,), what :attr:`Blended.holds_means`
    says of each axis is multiplied instead.
    """
    xp = namespace(region)
    n, N = region.shape[0], field.partition.n_regions
    which, row = field.group_of
    by_region = sort_order(region, N)
    counts = count(region, N)
    own = xp.take(region, by_region)
    t = [offset(field, xp.take(c, by_region), own, k) for k, c in enumerate(x)]
    sorted_windows = [[xp.take(c, by_region) for c in axis] for axis in windows or ()]
    # One row more than there are points: where the padding goes.
    shape = (n + 1, field.n_channels)
    found = {a: xp.empty(shape, dtype=field.dtype, device=device(region)) for a in orders}
    models = [g.model for g in field.groups]
    sizes = np.asarray([m.n_modes for m in models])[which]
    # Numbers that the rows of one point take, about.
    width = np.asarray([256 if m.axes else 1 + 4 * m.n_modes for m in models])[which]

    def work(batch: tuple[Integers, Integers, Integers]) -> None:
        r, start, length = batch
        group, p = field.groups[which[r[0]]], int(length.max())
        slots = xp.arange(p, device=device(region))
        at = move(start[:, None], region) + slots
        padded = slots >= move(length[:, None], region)
        to = xp.reshape(xp.where(padded, xp.full_like(at, n), at), (-1,))
        at = xp.reshape(xp.minimum(at, xp.full_like(at, n - 1)), (-1,))
        u = xp.stack([xp.reshape(xp.take(c, at), (len(r), p)) for c in t], axis=-1)
        model = field.local_model(r)
        F = arranged(model.expand(group.coefficients.take(row[r])))
        w = [[xp.reshape(xp.take(c, at), (len(r), p, 1)) for c in own] for own in sorted_windows]
        for a in orders:
            rows = _rows(field, model, r, u, a, F, w)
            values = xp.reshape(contract([cast(row, F) for row in rows], F), (len(r) * p, -1))
            found[a] = put_rows(found[a], to, cast(values, found[a]))

    # One thread where a file must be read or where the library has threads of its own.
    shared = all(g.coefficients.is_shared for g in field.groups)
    spread(work, batches(counts, width, sizes, which, field.like), None if shared else 1)
    out = {}
    for a in orders:
        values = found[a][:n, :]
        stretch = np.prod(field.radii ** -np.asarray(a, dtype=float), axis=1)
        if np.any(stretch != 1):
            values = values * cast(xp.take(move(stretch, region), own), values)[:, None]
        for k, order in enumerate(a):  # a dense layer knows numbers of samples, not positions
            spacing = field.partition.spacing(k)
            if order and spacing is not None and field.groups[0].model.axes is None:
                steps = spacing.per_step(xp.take(x[k], by_region)) ** order
                values = values * cast(steps, values)[:, None]
        out[a] = put_rows(xp.empty_like(values), by_region, values)
    return out


def arranged(factors: Array) -> Array:
    """Factors (G, q_1, ..., q_p, C) as (G, q_1, C, q_2, ..., q_p), for :func:`contract`."""
    n = factors.ndim - 2
    return namespace(factors).permute_dims(factors, (0, 1, n + 1, *range(2, n + 1)))


def contract(rows: list[Array], F: Array) -> Array:
    """``Σ rows_1[q_1] ... rows_p[q_p] F[q_1 ... q_p]``, (G, p, C).

    Rows (G, p, q_k); F (G, q_1, C, q_2, ..., q_p): one matrix product, then dot products along last
    axes.
    """
    xp = namespace(F)
    X = rows[0] @ xp.reshape(F, (*F.shape[:2], -1))
    return dot(xp.reshape(X, (*X.shape[:2], *F.shape[2:])), rows[1:])


def dot(X: Array, rows: list[Array]) -> Array:
    """``Σ rows_2[q_2] ... rows_p[q_p] X[q_2 ... q_p]``, (G, p, C), for X (G, p, C, q_2, ...)."""
    xp = namespace(X)
    for row in reversed(rows):
        shaped = xp.reshape(row, (*row.shape[:2], *(1,) * (X.ndim - 3), row.shape[2]))
        X = xp.vecdot(X, xp.broadcast_to(shaped, X.shape), axis=-1)
    return X


def _windowed_rows(
    axes: Sequence[AxisFunctions], u: Array, a: Order, w: list[list[Array]]
) -> list[Array]:
    """``∂^m (φ f + φ' T)`` of each axis's functions, (..., q), by Leibniz; windows w (..., 1)."""
    found = []
    for k, (axis, m) in enumerate(zip(axes, a)):
        assert axis.deviations is not None
        total: Array = 0.0
        for i in range(m + 1):
            (f,) = rows_of([axis], u[..., k : k + 1], (m - i,))
            T = axis.deviations.anywhere(u[..., k], m - i)
            total = total + math.comb(m, i) * (w[k][i] * f + w[k][i + 1] * T)
        found.append(total)
    return found


def _rows(
    field: "Blended", model: LocalModel, regions: Integers, u: Array, a: Order, like: Array,
    windows: list[list[Array]],
) -> list[Array]:  # fmt: skip
    """Functions of some regions at local coordinates u (G, p, d), in the dtype of `like`.

    Times `windows`, where there are some: see :func:`local_values`.
    """
    axes = model.axes
    if axes is None or not (windows or any(field.partition.spacings)):
        return model.rows(cast(u, like), a)
    own = [axis.at(field.centres[regions, k, None]) for k, axis in enumerate(axes)]
    rows = _windowed_rows(own, u, a, windows) if windows else rows_of(own, u, a)
    return [cast(row, like) for row in rows]


def offset(field: "Blended", x: Array, region: Array, k: int) -> Array:
    """Local coordinates along axis k, (n,); on periodic axes of the nearest image."""
    xp = namespace(x)
    t = x - xp.take(move(np.ascontiguousarray(field.centres[:, k]), x), region)
    if field.partition.periodic[k]:
        n = field.partition.shape[k]
        t = t - xp.round(t / n) * n
    return t / xp.take(move(np.ascontiguousarray(field.radii[:, k]), x), region)


def batches(
    counts: Integers, width: Integers, fixed: Integers, block: Integers, like: Array
) -> list[tuple[Integers, Integers, Integers]]:
    """Points in sorted order, so many of each key, in tiles of one key, and these in batches.

    A key with many points has several tiles. A batch has those of one block, and room for all of
    them to be as long as its longest; a point takes `width` numbers and a tile `fixed` ones
    besides, both said by key. Of each batch: keys, first points and lengths of its tiles.
    """
    limit = min(capacity(like), CACHE_NUMBERS) if is_on_host(like) else capacity(like)
    busy = np.flatnonzero(counts)
    most = np.maximum(1, limit // width[busy])
    pieces = -(-counts[busy] // most)
    key, most = np.repeat(busy, pieces), np.repeat(most, pieces)
    done = (np.arange(len(key)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * most
    start = (np.cumsum(counts) - counts)[key] + done
    length = np.minimum(most, counts[key] - done)
    # In order of block, then of length: little padding is needed.
    order = np.lexsort((length, block[key]))
    key, start, length = key[order], start[order], length[order]
    cost = (length * width[key] + fixed[key]).tolist()
    ends = {*(np.flatnonzero(np.diff(block[key])) + 1).tolist(), len(key)}
    found, first = [], 0
    for last in range(1, len(key) + 1):
        if last in ends or (last + 1 - first) * cost[last] > limit:
            found.append((key[first:last], start[first:last], length[first:last]))
            first = last
    return found


def leibniz(a: Order) -> list[tuple[int, Order, Order]]:
    """All (C(a, b), b, a - b) with b ≤ a."""
    return [
        (math.prod(math.comb(i, j) for i, j in zip(a, b)), b, tuple(i - j for i, j in zip(a, b)))
        for b in cartesian(*(range(i + 1) for i in a))
    ]
