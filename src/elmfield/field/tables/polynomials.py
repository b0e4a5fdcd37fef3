"""One polynomial of d variables on every cell of a lattice: values and derivatives at points.

Coefficients and index coordinates enter, partial derivatives leave. Where the coefficients come
from, and how close they are to anything, is the business of `tables`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product as cartesian
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array import backend
from elmfield._array.autograd import Order, differentiable
from elmfield._array.backend import is_numpy, move, namespace, to_numpy
from elmfield._array.running import runs, spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Axis
from elmfield.errors import need
from elmfield.local.layers import Pieces

if TYPE_CHECKING:
    from elmfield.field.tables.table import Table

Sums = dict[Order, Array]

BLOCK_POINTS = 1 << 15
"""Points of a block on a processor: three arrays of them stay in its second cache."""

GATHERED_MAX_POINTS = 256
"""Points up to which all coefficients are gathered at once."""


@lru_cache(maxsize=64)
def exponents(d: int, degree: int) -> list[Order]:
    """The powers of d variables of at most a total degree, in lexicographic order."""
    every = cartesian(range(degree + 1), repeat=d)
    return [t for t in every if sum(t) <= degree]


def n_terms(d: int, degree: int) -> int:
    """How many there are."""
    return math.comb(degree + d, d)


@dataclass(frozen=True, eq=False, kw_only=True)
class Polynomials:
    """``f(x) = Σ_t c_t s_1^t_1 ... s_d^t_d`` on every cell, which each s_k crosses from -1 to 1.

    Parameters
    ----------
    low, per_unit, counts : tuples, one entry per axis
        Where the cells begin, how many there are per unit of x, and how many in all.
    degree : int
        The highest total degree; `exponents` tells the order of terms.
    coefficients : array, shape (C, T, cells), or (cells, T, C) outside NumPy
        c: what a point needs lies together on a device; on a processor points come by cell.
    per_step : tuple of arrays or None
        Along uneven axes, index coordinates per step in each cell: derivatives are by steps.
    """

    low: tuple[float, ...]
    per_unit: tuple[float, ...]
    counts: tuple[int, ...]
    degree: int
    coefficients: Array = field(repr=False)
    per_step: tuple[Floats | None, ...] = field(default=(), repr=False)

    def partials(self, x: Array, orders: list[Order]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), by steps."""
        if not is_numpy(x):
            if not is_numpy(self.coefficients):
                columns = [x[:, k] for k in range(x.shape[1])]
                return self.by_library(self.coefficients, columns, orders)
            return differentiable(
                lambda x, orders: [move(v, x) for v in self.partials(to_numpy(x), orders)],
                None, x, orders,
            )  # fmt: skip
        few = x.shape[0] <= GATHERED_MAX_POINTS
        return self._few(x, orders) if few else self._many(x, orders)

    def stretch(self, a: Order, cell: Array) -> Array:
        """What a derivative by s is by steps: a number, or one for each cell of (n,)."""
        found: Array = math.prod([(2.0 * m) ** i for m, i in zip(self.per_unit, a)])
        for k, (i, own) in enumerate(zip(a, self.per_step)):
            if i and own is not None:
                j = cell // math.prod(self.counts[k + 1 :]) % self.counts[k]
                found = found * namespace(cell).take(move(own, cell), j) ** i
        return found

    # --- on a processor ------------------------------------------------------------------------

    def _cells(self, x: Floats) -> tuple[Integers, list[Floats]]:
        """Cell numbers (n,) and positions s, d arrays (n,), of index coordinates."""
        cell: Array = 0.0  # whole, and counted in floats: integers would take three times as long
        s = []
        for k, (low, m, J) in enumerate(zip(self.low, self.per_unit, self.counts)):
            at = x[:, k] - low
            if m != 1:
                at *= m
            j = np.floor(at)
            if j.max(initial=0) >= J or j.min(initial=0) < 0:  # the border, if anything
                np.clip(j, 0, J - 1, out=j)
            at -= j
            at *= 2
            at -= 1
            if k:
                cell *= J
                j += cell
            cell = j
            s.append(at)
        return cell.astype(np.int64), s

    def _few(self, x: Floats, orders: list[Order]) -> list[Floats]:
        """The same in float64: a sum of all terms rounds more often than Horner's rule."""
        cell, s = self._cells(x)
        c = self.coefficients[:, :, cell].astype(np.float64, copy=False)  # (C, T, n)
        powers = np.asarray(exponents(len(self.counts), self.degree))
        along = Pieces(0.0, 1, np.empty((0, self.degree + 1, 0)))  # derivatives by s are half these
        out = []
        for a in orders:
            M: Array = self.stretch(a, cell) / 2.0 ** sum(a) * np.ones((len(powers), 1))
            for k, i in enumerate(a):
                M = M * along.powers(s[k], i)[powers[:, k]]
            found = np.einsum("ctn,tn->nc", c, M)
            out.append(found.astype(self.coefficients.dtype, copy=False))
        return out

    def _many(self, x: Floats, orders: list[Order]) -> list[Floats]:
        n, C, dtype = len(x), len(self.coefficients), self.coefficients.dtype
        order = self.by_cell(x)
        out = [np.empty((n, C), dtype) for _ in orders]

        def work(span: tuple[int, int]) -> None:
            i, j = span
            at: Any = slice(i, j) if order is None else order[i:j]
            found = self.by_channel(x[at] if order is None else x.take(at, axis=0), orders)
            for c, channel in enumerate(found):
                for values, into in zip(channel, out):
                    into[:, c][at] = values

        spread(work, runs(n, BLOCK_POINTS))
        return out

    def by_channel(self, x: Floats, orders: list[Order]) -> Iterator[list[Floats]]:
        """Mixed derivatives (n,) of each channel in turn, of a block of points (n, d)."""
        cell, s = self._cells(x)
        s = [c.astype(self.coefficients.dtype, copy=False) for c in s]
        for rows in self.coefficients:
            # "clip" looks no cell up twice: they are inside already.
            term = partial(lambda rows, i: rows[i].take(cell, mode="clip"), rows)
            found = horner(term, s, orders, self.degree)
            for a, values in zip(orders, found):
                if any(a):
                    values *= self.stretch(a, cell)
            yield found

    def by_cell(self, x: Floats) -> Integers | None:
        """An order in which neighbours follow each other; None if they do already."""
        total = math.prod(self.counts)
        shift = max(0, int(total - 1).bit_length() - 16)
        key = np.empty(len(x), np.uint16)
        for i, j in runs(len(x), BLOCK_POINTS):
            np.right_shift(self._cells(x[i:j])[0], shift, out=key[i:j], casting="unsafe")
        bound, steps = max(1, total >> shift), np.abs(np.diff(key[:8192].astype(np.int64)))
        return None if steps.mean() < bound / 64 else backend.sort_order(key, bound)

    # --- other libraries -----------------------------------------------------------------------

    def by_library(self, c: Array, x: list[Array], orders: list[Order]) -> list[Array]:
        """The same in another library: plain operations, which it can follow and compile.

        Of coefficients c, (cells, T, C), at index coordinates (n,) on each axis.
        """
        xp, cell, s = namespace(c), 0, []
        for own, low, m, J in zip(x, self.low, self.per_unit, self.counts):
            at = (own - low) * m
            j = xp.clip(xp.floor(at), 0, J - 1)
            s.append(backend.cast(2 * (at - j) - 1, c)[:, None])
            cell = cell * J + xp.astype(j, xp.int64)
        rows = xp.take(c, cell, axis=0) if backend.is_on_host(c) else None

        def term(i: int) -> Array:
            # A GPU gathers columns, when it is their turn, four times as fast as rows.
            return c[:, i, :][cell] if rows is None else rows[:, i, :]

        found = horner(term, s, orders, self.degree)
        for n, a in enumerate(orders):
            if any(a):
                by = self.stretch(a, cell)
                by = by if isinstance(by, float) else backend.cast(by, found[n])[:, None]
                found[n] = found[n] * by
        return found


Term = Callable[[int], Array]
"""The coefficients of a term at all points, by its number."""


def step(total: Array | None, part: Array, s: Array, factor: int = 1) -> Array:
    """A step of Horner's rule: ``total s + factor part``, where `part` stays; no `total` is 0.

    In NumPy it writes over `total`; torch takes it in one kernel.
    """
    if total is None:
        return part * factor if factor != 1 or is_numpy(part) else part
    part = part if factor == 1 else part * factor
    if is_numpy(total):
        total *= s
        total += part
        return total
    return part.addcmul(total, s) if backend.is_torch(part) else total * s + part


def horner(term: Term, s: list[Array], orders: list[Order], degree: int) -> list[Array]:
    """Derivatives by s of some orders, from the highest powers down, each term looked up once.

    Horner's rule ``p ← p s + c`` for a derivative is ``p' ← p' s + p``, and so on.
    """
    d = len(s)
    highest, place = [_highest(orders, k) for k in range(d)], n_terms(d, degree)

    def along(k: int, degree: int) -> Sums:
        """Derivatives by axis k and those after it; terms come from the last to the first."""
        nonlocal place
        sums: Sums = {}
        for t in range(degree, -1, -1):
            below = None if k == d - 1 else along(k + 1, degree - t)
            for rest, m in highest[k]:
                for i in range(m, 0, -1):
                    lower = sums.get((i - 1, *rest))
                    if lower is not None:
                        a = (i, *rest)
                        sums[a] = step(sums.get(a), lower, s[k], i)
                a = (0, *rest)
                if below is None:
                    place -= 1
                    c = term(place)
                    sums[a] = c if a not in sums else step(sums[a], c, s[k], 1)
                elif rest in below:
                    sums[a] = step(sums.get(a), below[rest], s[k], 1)
        return sums

    found = along(0, degree)
    return [found[a] if a in found else 0 * term(0) for a in orders]


def _highest(orders: list[Order], k: int) -> list[tuple[Order, int]]:
    """Derivatives of the axes after axis k that some orders have, and the highest by k of each."""
    found: dict[Order, int] = {}
    for a in orders:
        found[a[k + 1 :]] = max(found.get(a[k + 1 :], 0), a[k])
    return list(found.items())


def index_in_box(
    xp: ModuleType,
    stop: Callable[[Array], Array],
    x: Array,
    axis: Axis,
    ends: tuple[float, float],
    knots: Array | None,
) -> Array:
    """Index coordinates of coordinates along an axis, moved between two ends, by torch or JAX.

    `stop` gives an array that no gradient goes through; `knots` are those of an uneven axis.
    """
    size, (low, high) = axis.size, ends
    x = x if (axis.origin, axis.step) == (0, 1) else (x - axis.origin) / axis.step
    if axis.spacing is not None and knots is not None:
        turn = axis.spacing.turn
        x = x if turn is None else x - xp.floor(stop(x) / turn) * turn
        piece = xp.clip(xp.searchsorted(knots, stop(x), side="right") - 1, 0, len(knots) - 2)
        x = piece + (x - knots[piece]) / (knots[piece + 1] - knots[piece])
        x = x / ((len(knots) - 1) // (size + 1)) - 1
    if axis.period is not None:
        x = x - xp.floor((stop(x) + 0.5) / size) * size
        x = xp.where((x < low) & (x + size <= high + 1e-9 * size), x + size, x)
    return xp.clip(x, low, high)


def shaped(
    values: Array, points: Array, pair: Callable[[Array, Array], Array] | None, is_single: bool
) -> Array:
    """Values (n, C) at points (..., d) as (..., C), or (...,) of a single channel; by torch or JAX.

    Of complex numbers the parts follow each other, and `pair` puts them together.
    """
    if pair is not None:
        half = values.shape[-1] // 2
        values = pair(values[:, :half], values[:, half:])
    if is_single:
        return values[:, 0].reshape(points.shape[:-1])
    return values.reshape(*points.shape[:-1], values.shape[-1])


def jax_function(table: "Table") -> Callable[[Array], Array]:
    """The function of points (..., d) that looks values up; see :meth:`Table.jax`."""
    jax = need("jax", "jax", "a table as a function of JAX")
    jnp = need("jax.numpy", "jax", "a table as a function of JAX")
    own, model = table.polynomials, table.model
    rows = to_numpy(own.coefficients)  # (C, T, cells), or (cells, T, C) outside NumPy
    rows = jnp.asarray(rows.transpose(2, 1, 0) if is_numpy(own.coefficients) else rows)
    offset, scale = (jnp.asarray(to_numpy(v)) for v in (model.offset, model.scale))
    knots = [None if a.spacing is None else jnp.asarray(a.spacing.knots) for a in model.domain.axes]
    ends = zip(model.domain.low, model.domain.high)
    borders, stop = list(zip(model.domain.axes, ends, knots)), jax.lax.stop_gradient
    lattice = list(zip(own.low, own.per_unit, own.counts))

    def function(points: Array) -> Array:
        points = jnp.asarray(points)
        flat, s, cell = points.reshape(-1, len(lattice)), [], 0
        for k, ((low, m, J), border) in enumerate(zip(lattice, borders)):
            x = index_in_box(jnp, stop, flat[:, k], *border)
            j = jnp.clip(jnp.floor((stop(x) - low) * m), 0, J - 1).astype(int)
            # The distance from the cell's own beginning is exact: one from the first cell's is not.
            s.append((2 * m * (x - (low + j / m)) - 1).astype(rows.dtype)[:, None])
            cell = cell * J + j
        taken = rows[cell]
        (values,) = horner(lambda i: taken[:, i], s, [(0,) * len(s)], own.degree)
        pair = jax.lax.complex if model.is_complex else None
        return shaped(values * scale + offset, points, pair, model.channel_axis is None)

    return function
