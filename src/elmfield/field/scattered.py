"""Blended models at scattered points: which regions count where, and each local model in batches.

Points are sorted by region and worked on in padded batches, where they live; only the number of
points in each region comes to the host. Where these are many, and product modes, on a processor,
they are sorted further and the first axis becomes polynomials.
"""

import math
from dataclasses import dataclass
from functools import partial, reduce
from itertools import groupby
from itertools import product as cartesian
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import (
    cast,
    count,
    device,
    is_on_host,
    learns,
    move,
    namespace,
    put_rows,
    sort_order,
    to_numpy,
)
from elmfield._array.memory import Space, Workspace, capacity, runs
from elmfield._array.threads import spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.contracting import arranged, contract, dot
from elmfield.local.layers import split
from elmfield.partition import Blend, blend

if TYPE_CHECKING:
    from elmfield.field.blended import Blended

SHORT = 1 << 14
"""Points whose windows are taken together on a processor: short arrays stay in its cache."""

CACHED = 1 << 20
"""Numbers a batch of points holds at most on a processor: what fits its cache."""

Order = tuple[int, ...]
Ask = tuple[tuple[int, ...], Array | None, slice]


def partials(field: "Blended", x: Array, orders: list[Order]) -> list[Array]:
    """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

    Leibniz: ``∂^a (φ f) = Σ_{b ≤ a} C(a, b) ∂^b φ ∂^(a-b) f``, over the cells that speak.
    """
    xp = namespace(x)
    top = [max(a[k] for a in orders) for k in range(x.shape[1])]
    spans = runs(x.shape[0], SHORT if is_on_host(x) else x.shape[0] + 1)
    parts = [_speakers(field, x[i:j, :], top) for i, j in spans]
    region = xp.concat([p.region for p in parts])
    columns = [xp.concat([p.columns[k] for p in parts]) for k in range(x.shape[1])]
    needed = sorted({rest for a in orders for _, _, rest in _leibniz(a)})
    local = local_values(field, region, columns, needed)
    totals, first = [], 0
    for p in parts:
        mine = slice(first, first := first + p.region.shape[0])
        answers = {a: v[mine, :] for a, v in local.items()}
        totals.append([_sum(a, p, answers) for a in orders])
    return [xp.concat(t, axis=0) for t in zip(*totals)]


@dataclass(frozen=True)
class Speakers:
    """Which regions speak at n points: questions to ask of local models, and how to sum answers.

    Parameters
    ----------
    blends : list of Blend
        Of each axis.
    asks : list of tuples
        For each corner (the lower or upper cell on each axis) the points that ask it, None for
        all of them, and where their questions stand among all questions.
    region, columns : arrays, shape (m,)
        The questions: region and coordinates on each axis.
    """

    blends: list[Blend]
    asks: list[Ask]
    region: Array
    columns: list[Array]


def _speakers(field: "Blended", x: Array, top: list[int]) -> Speakers:
    """Every point asks its lower cells; where another cell speaks too, that one as well."""
    xp, part = namespace(x), field.partition
    columns = [xp.concat([x[:, k]]) for k in range(x.shape[1])]  # each in one piece of memory
    blends = [blend(part, k, c, order) for k, (c, order) in enumerate(zip(columns, top))]
    labels = move(np.ascontiguousarray(part.labels.reshape(-1)), x)
    asks: list[Ask] = []
    regions, first = [], 0
    for corner in cartesian((0, 1), repeat=len(columns)):
        at = _shared(blends, corner)
        size = x.shape[0] if at is None else at.shape[0]
        if size == 0 and asks:
            continue
        cell: Any = 0
        for b, up, n_cells in zip(blends, corner, part.n_cells):
            cell = cell * n_cells + _taken(b.upper if up else b.lower, at)
        regions.append(xp.take(labels, cell))
        asks.append((corner, at, slice(first, first := first + size)))
    everyone = [xp.concat([_taken(c, at) for _, at, _ in asks]) for c in columns]
    return Speakers(blends, asks, xp.concat(regions), everyone)


def _shared(blends: list[Blend], corner: tuple[int, ...]) -> Array | None:
    """The points at which the upper cells of a corner speak; None for all of them."""
    active = [b.ramp[0] > 0 for b, up in zip(blends, corner) if up]
    if not active:
        return None
    (at,) = namespace(active[0]).nonzero(reduce(and_, active))
    return at


def _sum(a: Order, speakers: Speakers, local: dict[Order, Array]) -> Array:
    """``Σ ∂^a (φ f)`` over the cells asked, (n, C)."""
    total: Any = None
    for corner, at, mine in speakers.asks:
        part: Any = None
        for factor, times, rest in _leibniz(a):
            w: Any = factor
            for b, up, t in zip(speakers.blends, corner, times):
                ramp = _taken(b.ramp[t], at)
                w = w * (ramp if up else (1.0 if t == 0 else 0.0) - ramp)
            f = local[rest][mine, :]
            f = cast(w[:, None], f) * f
            part = f if part is None else part + f
        if at is None:
            total = part
        else:
            before = namespace(total).take(total, at, axis=0)
            total = put_rows(total, at, before + part)
    return total


def local_values(
    field: "Blended", region: Array, x: list[Array], orders: list[Order]
) -> dict[Order, Array]:
    """Local models ∂^a f_i: region numbers (n,), positions (n,) on each axis; (n, C) each."""
    followed = any(learns(a) for a in (*x, field.like))
    if not followed and _are_many(field, region):
        host = _by_interval(field, to_numpy(region), [to_numpy(c) for c in x], orders)
        return {a: move(v, region) for a, v in host.items()}
    xp = namespace(region)
    n, N = region.shape[0], field.partition.n_regions
    which, row = field.group_of
    by_region = sort_order(region, N)
    counts = count(region, by_region, N)
    own = xp.take(region, by_region)
    t = [_offset(field, xp.take(c, by_region), own, k) for k, c in enumerate(x)]
    # One row more than there are points: where the padding goes.
    shape = (n + 1, field.n_channels)
    found = {a: xp.empty(shape, dtype=field.dtype, device=device(region)) for a in orders}
    sizes = np.asarray([g.model.n_modes for g in field.groups])[which]
    width = np.asarray([g.model.row_size for g in field.groups])[which]
    tiles = Tiles.make(counts, width, sizes, which, field.like)

    def work(batch: slice) -> None:
        r = tiles.key[batch]
        group, p = field.groups[which[r[0]]], int(tiles.count[batch].max())
        slots = xp.arange(p, device=device(region))
        at = move(tiles.start[batch][:, None], region) + slots
        padded = slots >= move(tiles.count[batch][:, None], region)
        to = xp.reshape(xp.where(padded, xp.full_like(at, n), at), (-1,))
        at = xp.reshape(xp.minimum(at, xp.full_like(at, n - 1)), (-1,))
        u = xp.stack([xp.reshape(xp.take(c, at), (len(r), p)) for c in t], axis=-1)
        model = field.local_model(r)
        F = arranged(model.expand(group.coefficients.take(row[r])))
        for a in orders:
            values = xp.reshape(contract(model.rows(cast(u, F), a), F), (len(r) * p, -1))
            found[a] = put_rows(found[a], to, cast(values, found[a]))

    spread(work, tiles.batches, _threads(field))
    out = {}
    for a in orders:
        values = found[a][:n, :]
        stretch = np.prod(field.radii ** -np.asarray(a, dtype=float), axis=1)
        if np.any(stretch != 1):
            values = values * cast(xp.take(move(stretch, region), own), values)[:, None]
        out[a] = put_rows(xp.empty_like(values), by_region, values)
    return out


def _are_many(field: "Blended", region: Array) -> bool:
    """Whether it pays to prepare every region's model by interval."""
    axes = field.groups[0].model.axes
    if len(field.groups) > 1 or axes is None or not is_on_host(region):
        return False
    if region.shape[0] < 1000:
        return False
    J, p, _ = axes[0].pieces.coefficients.shape
    busy = int(np.count_nonzero(np.bincount(to_numpy(region))))
    return bool(region.shape[0] > 1.5 * J * p * busy)


def _by_interval(
    field: "Blended", region: Integers, x: list[Floats], orders: list[Order]
) -> dict[Order, Floats]:
    """:func:`local_values` of product modes for many points a region; in NumPy, on threads.

    Points are sorted by region and interval of the first axis. On an interval a model is a
    polynomial of p terms in that coordinate: ``J p q`` products a region prepare it, after which a
    point costs p instead of q products on that axis, and no row of q functions. `x` is used up.
    """
    group, N, n = field.groups[0], field.partition.n_regions, len(region)
    axes = group.model.axes
    assert axes is not None
    rest = [a.width for a in axes[1:]]
    first = axes[0].pieces
    J, p, q = first.coefficients.shape
    table = first.coefficients.reshape(J * p, q)
    key = np.empty(n, np.uint16 if N * J <= 0x10000 else np.int64)
    for i, j in runs(n, SHORT):
        for k, c in enumerate(x):  # from now on counted in intervals
            c[i:j] = axes[k].pieces.scaled(_offset(field, c[i:j], region[i:j], k))
        key[i:j] = region[i:j] * J + x[0][i:j].astype(np.int64)
    by_key = sort_order(key, N * J)
    counts = np.bincount(key, minlength=N * J)
    row = field.group_of[1]
    each = p * math.prod(rest) * field.n_channels  # factors on an interval
    size = max(1, CACHED // (2 * J * each))
    width = 3 * p + each // p + 2 * sum(rest)
    blocks = np.arange(N * J) // (J * size)
    tiles = Tiles.make(counts, np.full(N * J, width), np.full(N * J, each), blocks, field.like)
    out = {a: np.empty((n, field.n_channels), to_numpy(field.like).dtype) for a in orders}

    space = Workspace()

    def work(batches: list[slice]) -> None:
        """Batches of one block of regions."""
        lowest = int(tiles.key[batches[0].start]) // (J * size) * size
        block = group.coefficients.take(row[np.arange(lowest, min(lowest + size, N))])
        F = arranged(group.model.expand(np.asarray(to_numpy(block), np.float64)))
        every = np.matmul(table, F.reshape(len(F), q, -1)).reshape(-1, p, *F.shape[2:])
        for batch in batches:
            start, length = tiles.start[batch][:, None], tiles.count[batch][:, None]
            # Padded with their last points again: the same value, written to the same place.
            at = by_key.take(start + np.minimum(np.arange(length.max()), length - 1))
            key = tiles.key[batch] - lowest * J
            F = space("factors", len(key), *every.shape[1:])
            every.take(key, axis=0, out=F, mode="clip")
            spots = [split(c.take(at.reshape(-1))) for c in x]
            for a in orders:
                rows = [
                    m.pieces.at(*spot, b, partial(_own, space, k)).reshape(*at.shape, -1)
                    for k, (m, spot, b) in enumerate(zip(axes[1:], spots[1:], a[1:]))
                ]
                P = first.powers(spots[0][1].reshape(at.shape), a[0], space).transpose(1, 2, 0)
                X = space("product", *at.shape, math.prod(F.shape[2:]))
                np.matmul(P, F.reshape(*F.shape[:2], -1), out=X)
                values = dot(X.reshape(*at.shape, *F.shape[2:]), rows)
                put_rows(out[a], at.reshape(-1), values.reshape(at.size, -1))

    by_block = groupby(tiles.batches, lambda batch: blocks[tiles.key[batch.start]])
    spread(work, [list(some) for _, some in by_block], _threads(field))
    return out


def _own(space: Space, k: int, name: str, *shape: int) -> Floats:
    """Memory that axis k does not share with the others: what it holds is needed after them."""
    return space(f"{name} {k}" if name == "rows" else name, *shape)


def _threads(field: "Blended") -> int | None:
    """None, or 1 where a file must be read or where the library has threads of its own."""
    return None if all(g.coefficients.is_shared for g in field.groups) else 1


def _offset(field: "Blended", x: Array, region: Array, k: int) -> Array:
    """Local coordinates along axis k, (n,); on periodic axes of the nearest image."""
    xp = namespace(x)
    t = x - xp.take(move(np.ascontiguousarray(field.centres[:, k]), x), region)
    if field.partition.periodic[k]:
        n = field.partition.shape[k]
        t = t - xp.round(t / n) * n
    if np.all(field.radii[:, k] == 1):
        return t
    return t / xp.take(move(np.ascontiguousarray(field.radii[:, k]), x), region)


@dataclass(frozen=True)
class Tiles:
    """Runs of points in sorted order, each of one key, in batches that fit.

    Parameters
    ----------
    key, start, count : integer arrays, shape (T,)
        Of each tile; a key with many points has several.
    batches : list of slice
        Tiles to work on together.
    """

    key: Integers
    start: Integers
    count: Integers
    batches: list[slice]

    @classmethod
    def make(
        cls, counts: Integers, width: Integers, fixed: Integers, block: Integers, like: Array
    ) -> "Tiles":
        """Tiles for keys with so many points each.

        A batch has tiles of one block, and room for all of them to be as long as its longest; a
        point takes `width` numbers and a tile `fixed` ones besides, both said by key.
        """
        limit = min(capacity(like), CACHED) if is_on_host(like) else capacity(like)
        busy = np.flatnonzero(counts)
        most = np.maximum(1, limit // width[busy])
        pieces = -(-counts[busy] // most)
        key, most = np.repeat(busy, pieces), np.repeat(most, pieces)
        done = (np.arange(len(key)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) * most
        start = (np.cumsum(counts) - counts)[key] + done
        count = np.minimum(most, counts[key] - done)
        # In order of block, then of length: little padding is needed.
        order = np.lexsort((count, block[key]))
        key, start, count = key[order], start[order], count[order]
        cost = (count * width[key] + fixed[key]).tolist()
        ends = {*(np.flatnonzero(np.diff(block[key])) + 1).tolist(), len(key)}
        batches, first = [], 0
        for last in range(1, len(key) + 1):
            if last in ends or (last + 1 - first) * cost[last] > limit:
                batches.append(slice(first, last))
                first = last
        return cls(key, start, count, batches)


def _leibniz(a: Order) -> list[tuple[int, Order, Order]]:
    """All (C(a, b), b, a - b) with b ≤ a."""
    return [
        (
            math.prod(math.comb(i, j) for i, j in zip(a, b)),
            b,
            tuple(i - j for i, j in zip(a, b)),
        )
        for b in cartesian(*(range(i + 1) for i in a))
    ]


def _taken(x: Array, at: Array | None) -> Array:
    """``x[at]``, or all of x."""
    return x if at is None else namespace(x).take(x, at)
