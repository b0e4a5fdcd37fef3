"""A blended function at points: sums of the local models whose windows reach there; derivatives.

And where the kernels of scattered regions sit: places that neighbouring regions share.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import product as cartesian
from operator import and_
from typing import TYPE_CHECKING, Protocol

import numpy as np

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
from elmfield._array.memory import capacity, runs
from elmfield._array.threads import spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.blend.grids import Order, arranged, contract
from elmfield.local.bases import DenseWeights, Polyharmonic
from elmfield.partition import Blend, blend

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes:
    """The places of G regions, each a few of n.

    Parameters
    ----------
    model : Polyharmonic
        What sits at them.
    positions : array, shape (n, d)
        All places, in index coordinates, float64.
    members : integer array, shape (K,)
        Numbers of the places of one region after the other.
    starts : integer array, shape (G + 1,)
        Where the places of a region begin and end.
    """

    model: Polyharmonic
    positions: Array = field(repr=False)
    members: Integers = field(repr=False)
    starts: Integers = field(repr=False)

    def of(self, rows: Integers) -> Integers:
        """Numbers of the places of some regions, one region after the other."""
        return self.members[self._picked(rows)]

    def _picked(self, rows: Integers) -> Integers:
        counts = self.starts[rows + 1] - self.starts[rows]
        first = np.repeat(self.starts[rows] - (np.cumsum(counts) - counts), counts)
        return np.asarray(first + np.arange(len(first)), np.int64)

    def local(
        self, rows: Integers, centres: Floats, radii: Floats, periods: Floats
    ) -> Polyharmonic:
        """The model of some regions with centres and radii (G, d); `periods`, (d,), may be inf."""
        like = self.positions
        xp = namespace(like)
        counts = self.starts[rows + 1] - self.starts[rows]
        slot = np.arange(self.model.n_nodes)
        # Regions with fewer places repeat their first: its weight there is 0.
        at = self.starts[rows][:, None] + np.where(slot < counts[:, None], slot, 0)
        which = move(self.members[at].reshape(-1), like)
        u = xp.reshape(xp.take(like, which, axis=0), (*at.shape, like.shape[1]))
        u = u - move(centres[:, None, :], like)
        if np.isfinite(periods).any():
            period = move(np.where(np.isfinite(periods), periods, 1.0), like)
            wraps = move(np.isfinite(periods).astype(float), like)
            u = u - xp.round(u / period) * period * wraps
        return self.model.around(u / move(radii[:, None, :], like))

    def rows(self, rows: Integers) -> "Nodes":
        """The places of some regions, and no others."""
        used, members = np.unique(self.of(rows), return_inverse=True)
        counts = self.starts[rows + 1] - self.starts[rows]
        return replace(
            self,
            positions=namespace(self.positions).take(
                self.positions, move(used, self.positions), axis=0
            ),
            members=members.reshape(-1).astype(np.int64),
            starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )

    def moved(self, like: Array) -> "Nodes":
        """The same in the library and on the device of `like`."""
        return replace(self, positions=move(self.positions, like))


@dataclass(frozen=True, eq=False)
class Draws:
    """Which hidden layers G regions drew, by number: each has its own.

    Parameters
    ----------
    model : DenseWeights
        How a layer is drawn.
    numbers : integer array, shape (G,)
        Those of the regions when they were fitted; a crop counts anew.
    """

    model: DenseWeights
    numbers: Integers = field(repr=False)

    def local(
        self, rows: Integers, centres: Floats, radii: Floats, periods: Floats
    ) -> DenseWeights:
        """The model of some regions."""
        return self.model.of(self.numbers[rows])

    def rows(self, rows: Integers) -> "Draws":
        """The layers of some regions, and no others."""
        return replace(self, numbers=self.numbers[rows])

    def moved(self, like: Array) -> "Draws":
        """Itself: layers are drawn where they are used."""
        return self


WINDOW_BATCH_POINTS = 1 << 14
"""Points whose windows are taken together on a processor: short arrays stay in its cache."""

CACHE_NUMBERS = 1 << 20
"""Numbers a batch of points holds at most on a processor: what fits its cache."""

Ask = tuple[tuple[int, ...], Array | None, slice]


def partials(field: "Blended", x: Array, orders: list[Order]) -> list[Array]:
    """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

    Leibniz: ``∂^a (φ f) = Σ_{b ≤ a} C(a, b) ∂^b φ ∂^(a-b) f``, over the cells that contribute.
    """
    xp = namespace(x)
    top = [max(a[k] for a in orders) for k in range(x.shape[1])]
    spans = runs(x.shape[0], WINDOW_BATCH_POINTS if is_on_host(x) else x.shape[0] + 1)
    parts = [_contributions(field, x[i:j, :], top) for i, j in spans]
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
class Contributions:
    """Which regions contribute at n points: what to evaluate, and how to sum it.

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


def _contributions(field: "Blended", x: Array, top: list[int]) -> Contributions:
    """Every point has its lower cells; where another cell contributes too, that one as well."""
    xp, part = namespace(x), field.partition
    columns = [xp.concat([x[:, k]]) for k in range(x.shape[1])]  # each in one piece of memory
    blends = [blend(part, k, c, order) for k, (c, order) in enumerate(zip(columns, top))]
    labels = move(np.ascontiguousarray(part.labels.reshape(-1)), x)
    asks: list[Ask] = []
    regions, first = [], 0
    # An axis of one cell that does not repeat has no upper cell: 2^d corners are many in d = 20.
    alone = [n == 1 and not wraps for n, wraps in zip(part.n_cells, part.periodic)]
    for corner in cartesian(*((0,) if one else (0, 1) for one in alone)):
        at = _shared(blends, corner)
        size = x.shape[0] if at is None else at.shape[0]
        if size == 0 and asks:
            continue
        cell: Array = 0
        for b, up, n_cells in zip(blends, corner, part.n_cells):
            cell = cell * n_cells + _taken(b.upper if up else b.lower, at)
        regions.append(xp.take(labels, cell))
        asks.append((corner, at, slice(first, first := first + size)))
    everyone = [xp.concat([_taken(c, at) for _, at, _ in asks]) for c in columns]
    return Contributions(blends, asks, xp.concat(regions), everyone)


def _shared(blends: list[Blend], corner: tuple[int, ...]) -> Array | None:
    """The points at which the upper cells of a corner contribute; None for all of them."""
    active = [b.ramp[0] > 0 for b, up in zip(blends, corner) if up]
    if not active:
        return None
    (at,) = namespace(active[0]).nonzero(reduce(and_, active))
    return at


def _sum(a: Order, speakers: Contributions, local: dict[Order, Array]) -> Array:
    """``Σ ∂^a (φ f)`` over the cells asked, (n, C)."""
    total: Array = None
    for corner, at, mine in speakers.asks:
        part: Array = None
        for factor, times, rest in _leibniz(a):
            w: Array = factor
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
        limit = min(capacity(like), CACHE_NUMBERS) if is_on_host(like) else capacity(like)
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


# --- derivatives per unit of the coordinates ------------------------------------------------------

# A function enters as its mixed derivatives in index coordinates, at points or on a grid; with it
# the first and second derivatives of the index coordinates by the coordinates, `slope` and `bend`,
# one array per axis. The chain rule does the rest.

Partials = Callable[[list[Order]], list[Array]]
"""Mixed derivatives (..., C) in index units, for each of some orders."""


class Function(Protocol):
    """A function of index coordinates, with channels, before offset and scale."""

    def partials(self, x: Array, orders: list[Order]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""


def value(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """Values, (..., C). `bend` is None along axes of even spacing."""
    return f([(0,) * len(slope)])[0]


def gradient(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """First derivatives, (..., C, d)."""
    d = len(slope)
    parts = f([_unit(d, k) for k in range(d)])
    return namespace(parts[0]).stack([p * cast(s, p) for p, s in zip(parts, slope)], axis=-1)


def hessian(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """Second derivatives, (..., C, d, d)."""
    d = len(slope)
    pairs = [(k, l) for k in range(d) for l in range(k, d)]
    found = _second(f, pairs, slope, bend)
    entry = dict(zip(pairs, found))
    xp = namespace(found[0])
    rows = xp.stack([entry[min(k, l), max(k, l)] for k in range(d) for l in range(d)], axis=-1)
    return xp.reshape(rows, (*found[0].shape, d, d))


def laplacian(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """Sum of the unmixed second derivatives, (..., C)."""
    found = _second(f, [(k, k) for k in range(len(slope))], slope, bend)
    return sum(found[1:], start=found[0])


def magnitude(gradient: Array) -> Array:
    """Lengths (...) of vectors (..., d), real also where these are complex."""
    xp = namespace(gradient)
    return xp.sqrt(xp.sum(xp.abs(gradient) ** 2, axis=-1))


def _second(
    f: Partials,
    pairs: list[tuple[int, int]],
    slope: Sequence[Array],
    bend: Sequence[Array | None],
) -> list[Array]:
    """Second derivatives along pairs of axes, (..., C) each."""
    d = len(slope)
    uneven = [k for k in range(d) if bend[k] is not None and (k, k) in pairs]
    parts = f([_unit(d, *pair) for pair in pairs] + [_unit(d, k) for k in uneven])
    found = [p * cast(slope[k] * slope[l], p) for (k, l), p in zip(pairs, parts)]
    for k, p in zip(uneven, parts[len(pairs) :]):  # the axis's own curvature
        i = pairs.index((k, k))
        found[i] = found[i] + p * cast(bend[k], p)
    return found


def _unit(d: int, *axes: int) -> Order:
    """The multi-index that differentiates once along each of the given axes."""
    return tuple(axes.count(k) for k in range(d))


DERIVATIVES: dict[str, Callable[..., Array]] = {
    "value": value,
    "gradient": gradient,
    "hessian": hessian,
    "laplacian": laplacian,
}
"""Quantities made of a function's partial derivatives, by name."""
