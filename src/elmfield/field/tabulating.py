"""A blended function as one polynomial per cell of a lattice, with a bound on what that leaves out.

Expansions of the axes' windowed functions and the coefficients of all regions enter; polynomials of
a total degree leave, and a bound that no point exceeds. Coefficients in Chebyshev's polynomials are
summed: ``|T_t| ≤ 1``, so that terms left out add at most the sum of their sizes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product as cartesian
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import device, is_numpy, is_on_host, move, namespace, to_numpy
from elmfield._array.memory import capacity, runs
from elmfield._array.threads import spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.intervals import Intervals, to_powers
from elmfield.field.polynomials import Polynomials, exponents, n_terms

if TYPE_CHECKING:
    from elmfield.field.blended import Blended

AT_ONCE = 1 << 22
"""Numbers of a block on a processor at most: what fits its last cache."""

ORDERS = 3
"""Values, first and second derivatives have bounds."""


@dataclass(frozen=True, eq=False)
class Expansion:
    """Chebyshev coefficients of a blended function on all cells of a lattice, block by block.

    Parameters
    ----------
    blended : Blended
        The function; its regions share one product model, cell by cell.
    axes : tuple of Intervals
        The windowed functions of each axis.
    scale : array, shape (C,)
        By which channels are multiplied in the end.
    """

    blended: "Blended"
    axes: tuple[Intervals, ...]
    scale: Floats
    _kept: dict[tuple[int, int, int], list["Stack"]] = field(default_factory=dict, repr=False)

    @property
    def counts(self) -> tuple[int, ...]:
        """Cells of the lattice on each axis."""
        return tuple(a.count for a in self.axes)

    @property
    def n_terms(self) -> int:
        """Terms of an axis at most, K."""
        return max(int(a.rows.shape[1]) for a in self.axes)

    def slopes(self, order: int, powers: Integers) -> Floats:
        """Sizes of ``∂^a Π_k T_{t_k}`` by the index, at most, (A, T): for all a of an order.

        At the ends of a cell T_t rises by t² and bends by t² (t² - 1) / 3; s crosses it in two.
        """
        found = []
        for a in exponents(len(self.axes), order):
            if sum(a) == order:
                size = np.ones(len(powers))
                for i, t, axis in zip(a, powers.T.astype(float), self.axes):
                    rise = (1.0, t**2, t**2 * np.abs(t**2 - 1) / 3)[i]
                    size = size * rise * (2.0 * axis.per_unit) ** i
                found.append(size)
        return np.stack(found)

    @cached_property
    def beyond(self) -> Floats:
        """Bounds (3, D) on all terms beyond each total degree, by order, in the field's unit.

        A coefficient is at most ``Σ_q F[q] Π_k S_k[t_k, q_k]``: F are the largest sizes of a
        region's coefficients, S those of the functions' terms on any interval. Far from sharp, and
        far terms are small: it settles how many near ones are looked at, one by one.
        """
        d, B = len(self.axes), self._largest()
        K = self.n_terms
        lost = 0.0
        for a in self.axes:  # from the last axis of B to its first place
            S = np.zeros((K, a.rows.shape[2]))
            S[: a.rows.shape[1]] = _sizes(a).max(axis=0)
            lost += a.left_over * float(B.sum())
            B = np.moveaxis(np.tensordot(S, B, axes=(1, 0)), 0, -1)
        t = np.indices(B.shape).reshape(d, -1).T
        degree, D = t.sum(axis=1), d * (K - 1) + 1
        found = np.zeros((ORDERS, D))
        for o in range(ORDERS):
            for size in self.slopes(o, t) * B.reshape(-1):
                shells = np.bincount(degree, weights=size, minlength=D)
                left = np.append(np.cumsum(shells[::-1])[::-1][1:], 0.0) + lost
                found[o] = np.maximum(found[o], left)
        return found

    def _largest(self) -> Floats:
        """The largest size of each coefficient in any region, (q_1, ..., q_d), in the unit."""
        b, group = self.blended, self.blended.groups[0]
        found = np.zeros(self._widths)
        step = max(1, capacity(b.like) // (8 * group.model.n_modes * b.n_channels))
        for i, j in runs(len(group.regions), step):
            c = np.abs(to_numpy(group.model.expand(group.coefficients.take(np.arange(i, j)))))
            found = np.maximum(found, (c.max(axis=0) * self.scale).max(axis=-1))
        return found

    @cached_property
    def _widths(self) -> tuple[int, ...]:
        return tuple(a.rows.shape[2] for a in self.axes)

    def _factors(self, cells: Integers) -> Array:
        """Coefficients of regions in some cells of the first axis: (C, n, q_1, N_2, q_2, ...)."""
        xp, b = namespace(self.blended.like), self.blended
        labels, d = b.partition.labels[cells], len(self.axes)
        group = b.groups[0]
        c = group.model.expand(group.coefficients.take(b.group_of[1][labels.reshape(-1)]))
        c = xp.astype(c, xp.float64)
        c = xp.reshape(c, (*labels.shape, *c.shape[1:]))
        return xp.permute_dims(c, (2 * d, *(a for l in range(d) for a in (l, d + l))))

    def blocks(
        self, degree: int, only: Integers | None = None
    ) -> Iterator[tuple[tuple[slice, ...], Array]]:
        """Coefficients up to a total degree: which cells, and (C, j_1, ..., T, j_d).

        `only` takes some of the runs of the first axis.
        """
        every, d = self.axes[0].runs(), len(self.axes)
        for i in range(len(every)) if only is None else only:
            where, cell = every[i]
            both = np.unique(self.axes[0].upper[where])
            cells = np.append(cell, both[both != cell])
            X = self._factors(cells)
            for parts in self._parts(X, where, degree):
                if d == 1:
                    yield parts, self._product(0, X[..., None], parts[0], cells, degree + 1)
                    continue
                sizes = [p.stop - p.start for p in parts]
                shape = (X.shape[0] * math.prod(sizes[:-1]), n_terms(d, degree), sizes[-1])
                out = namespace(X).empty(shape, dtype=X.dtype, device=device(X))
                self._fill(0, X, cells, parts, degree, out, 0)
                yield parts, namespace(X).reshape(out, (X.shape[0], *sizes[:-1], *shape[1:]))

    def _parts(self, X: Array, where: slice, degree: int) -> Iterator[tuple[slice, ...]]:
        """Boxes of cells that a run of the first axis is cut into: the last axis whole."""
        limit = capacity(X) // 4
        limit = min(limit, AT_ONCE) if is_on_host(X) else limit
        each = int(X.shape[0]) * n_terms(len(self.axes), degree)
        spans = [where, *(slice(0, n) for n in self.counts[1:])]
        steps = [1] * len(spans)
        for k in reversed(range(len(spans))):
            size = spans[k].stop - spans[k].start
            steps[k] = max(1, min(size, limit // each))
            each *= steps[k]
        if len(spans) > 1:
            steps[-1] = self.counts[-1]
        cut = [
            [slice(i, min(i + n, s.stop)) for i in range(s.start, s.stop, n)]
            for s, n in zip(spans, steps)
        ]
        yield from cartesian(*cut)

    def _fill(
        self,
        k: int,
        X: Array,
        cells: Integers,
        parts: tuple[slice, ...],
        degree: int,
        out: Array,
        place: int,
    ) -> int:
        """Go on with axis k, of X (before, n, q_k, N_(k+1), q_(k+1), ...), for powers to a degree.

        What is found goes to ``out[:, place:, :]``; the next place comes back.
        """
        xp, d = namespace(X), len(self.axes)
        shape, before = X.shape, X.shape[0]
        X = xp.reshape(X, (before, *shape[1:3], -1))
        Y = self._product(k, X, parts[k], cells, degree + 1)
        if k == d - 1:
            out[:, place : place + degree + 1, :] = Y
            return place + degree + 1
        everyone = np.arange(self.blended.partition.n_cells[k + 1])
        for t in range(degree + 1):
            part = xp.reshape(Y[:, t, ...], (-1, *shape[3:]))
            place = self._fill(k + 1, part, everyone, parts, degree - t, out, place)
        return place

    def _product(self, k: int, X: Array, part: slice, cells: Integers, terms: int) -> Array:
        """X (before, n, q, after) in the terms of axis k on some intervals.

        (before, terms, j, after), or (before, terms, j) on the last axis: nothing comes after it.
        """
        xp, last = namespace(X), k == len(self.axes) - 1
        J, before, after = part.stop - part.start, X.shape[0], X.shape[3]
        row = {int(c): i for i, c in enumerate(cells)}
        shape = (before, terms, J) if last else (before, terms, J, after)
        out = xp.zeros(shape, dtype=X.dtype, device=device(X))
        for s in self._stacks(k, part, X):
            G, first = s.count, row[s.cell]
            x = X[:, first : first + G, :, :]
            there = out[:, :, s.start : s.start + G * s.stride, ...]
            there = xp.reshape(there, (before, terms, G, s.stride, *shape[3:]))
            if last:
                y = x[..., 0] @ xp.reshape(s.terms[:, :terms, :], (s.terms.shape[0], -1))
                y = xp.reshape(y, (before, G, terms, s.size))
            else:
                y = xp.reshape(s.terms[:terms, ...], (-1, s.terms.shape[2])) @ x
                y = xp.reshape(y, (before, G, terms, s.size, after))
            there[:, :, :, : s.size, ...] += xp.swapaxes(y, 1, 2)  # a view of `out`
        return out

    def _stacks(self, k: int, part: slice, like: Array) -> list["Stack"]:
        """Who speaks on some intervals of axis k, and its functions' terms there."""
        key = (k, part.start, part.stop)
        if key in self._kept:
            return self._kept[key]
        own, found = self.axes[k], []
        for side, who in enumerate((own.lower, own.upper)):
            speaks = np.flatnonzero(own.piece[part, side] >= 0) + part.start
            breaks = (np.diff(who[speaks]) != 0) | (np.diff(speaks) != 1)
            alone = [s for s in np.split(speaks, np.flatnonzero(breaks) + 1) if len(s)]
            for some in _alike(alone, who, own.piece[:, side], part.stop, k > 0):
                first = some[0]
                W = np.zeros((len(first), self.n_terms, own.rows.shape[2]))
                W[:, : own.rows.shape[1]] = own.rows[own.piece[first, side]]
                turn = (2, 1, 0) if k == len(self.axes) - 1 else (1, 0, 2)
                W = move(np.ascontiguousarray(W.transpose(turn)), like)
                stride = int(some[1][0] - first[0]) if len(some) > 1 else len(first)
                start = int(first[0]) - part.start
                found.append(Stack(int(who[first[0]]), len(some), start, stride, len(first), W))
        if k:  # the first axis goes by only once
            self._kept[key] = found
        return found


@dataclass(frozen=True, eq=False)
class Stack:
    """Cells that follow each other along an axis and are alike: one product serves them all.

    Parameters
    ----------
    cell, count : int
        The first of them, and how many there are.
    start, stride, size : int
        The first interval on which the first cell speaks, how many intervals farther the next one
        begins, and on how many each speaks.
    terms : array, shape (K, size, q), or (q, K, size) on the last axis
        Terms of the functions: any number of the first of them is one matrix.
    """

    cell: int
    count: int
    start: int
    stride: int
    size: int
    terms: Array


def _alike(
    every: list[Integers], who: Integers, piece: Integers, end: int, follow: bool
) -> Iterator[list[Integers]]:
    """Intervals of cells, joined where the next cell is the same a stride on; or none `follow`."""
    group: list[Integers] = []
    for some in every:
        if group:
            last, stride = group[-1], int(some[0] - group[-1][0])
            joins = (
                follow
                and len(some) == len(last)
                and who[some[0]] == who[last[0]] + 1
                and (len(group) == 1 or stride == last[0] - group[-2][0])
                and stride >= len(some)
                and some[0] + stride <= end
                and np.array_equal(piece[some], piece[last])
            )
            if joins:
                group.append(some)
                continue
            yield group
        group = [some]
    if group:
        yield group


def _sizes(own: Intervals) -> Floats:
    """Sizes of the terms of all that speaks on the intervals that differ, (J, K, q)."""
    pairs, size = np.unique(own.piece, axis=0), np.abs(own.rows)
    return np.asarray(size[pairs[:, 0]] + size[pairs[:, 1]] * (pairs[:, 1:, None] >= 0))


def dropped(
    expansion: Expansion, block: Array, near: int, degrees: list[int], order: int
) -> Floats:
    """Bounds (order + 1, len(degrees)) on a block's terms beyond total degrees, in the unit."""
    powers = np.asarray(exponents(len(expansion.axes), near))
    left = powers.sum(axis=1) > np.asarray(degrees)[:, None]
    found = []
    for o in range(order + 1):
        weights = (expansion.slopes(o, powers)[:, None] * left).reshape(-1, len(powers))
        sums = _largest_sums(expansion, block, weights).reshape(-1, len(degrees))
        found.append(sums.max(axis=0))
    return np.stack(found)


@lru_cache(maxsize=32)
def powers_of(d: int, degree: int) -> Floats:
    """From Chebyshev coefficients up to a total degree to those of powers, (T, T)."""
    one, t = to_powers(degree + 1), np.asarray(exponents(d, degree))
    M = np.ones((len(t), len(t)))
    for k in range(d):
        M *= one[t[:, k][:, None], t[:, k][None, :]]
    return M


def in_powers(block: Array, d: int, degree: int, near: int) -> Array:
    """Terms of a block, (..., T, j) up to a total degree `near`, as powers up to a `degree`."""
    kept = np.flatnonzero(np.asarray(exponents(d, near)).sum(axis=1) <= degree)
    M = move(powers_of(d, degree), block, block.dtype)
    return M @ namespace(block).take(block, move(kept, block), axis=-2)


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Polynomials, and bounds on what they leave out.

    Parameters
    ----------
    polynomials : Polynomials
        Of a total degree.
    left : array, shape (order + 1,)
        Terms that were looked at and left out add at most so much to values, and to derivatives
        up to an order.
    lost : array, shape (3,)
        The same for rounding, up to the second order, in units of it: a term of total degree t is
        rounded 2 t + 3 times by Horner's rule.
    """

    polynomials: Polynomials
    left: Floats
    lost: Floats


def tabulated(expansion: Expansion, degree: int, near: int, dtype: Any, order: int) -> Tabulated:
    """Polynomials of a total degree, in some dtype; terms up to a degree `near` are looked at."""
    d, like = len(expansion.axes), expansion.blended.like
    xp, C = namespace(like), expansion.blended.n_channels
    T, counts, host = n_terms(d, degree), expansion.counts, is_numpy(like)
    shape = (C, T, *counts) if host else (*counts, T, C)
    table = xp.empty(shape, dtype=dtype, device=device(like))

    def work(run: int) -> tuple[Floats, Floats]:
        """One run of the first axis: what it leaves out, and what rounding may take."""
        left, lost = np.zeros(order + 1), np.zeros(ORDERS)
        for where, block in expansion.blocks(near, np.asarray([run])):
            left = np.maximum(left, dropped(expansion, block, near, [degree], order)[:, 0])
            c = in_powers(block, d, degree, near)  # (C, j_1, ..., T, j_d)
            lost = np.maximum(lost, rounded(expansion, c, degree))
            c = xp.astype(c, dtype)
            if host:
                table[(slice(None), slice(None), *where)] = xp.moveaxis(c, -2, 1)
            else:
                table[where] = xp.moveaxis(xp.moveaxis(c, 0, -1), -3, -2)
        return left, lost

    shared = host and all(g.coefficients.is_shared for g in expansion.blended.groups)
    every = range(len(expansion.axes[0].runs()))
    found = zip(*spread(work, every, None if shared else 1))
    left, lost = (np.max(list(each), axis=0) for each in found)
    own = Polynomials(
        low=tuple(a.low for a in expansion.axes),
        per_unit=tuple(a.per_unit for a in expansion.axes),
        counts=counts,
        degree=degree,
        coefficients=xp.reshape(table, (C, T, -1) if host else (-1, T, C)),
    )
    return Tabulated(own, left, lost)


def rounded(expansion: Expansion, c: Array, degree: int) -> Floats:
    """What Horner's rule may lose to rounding with c (C, ..., T, j), in units of it, (3,)."""
    powers = np.asarray(exponents(len(expansion.axes), degree))
    m, t = 2.0 * max(a.per_unit for a in expansion.axes), powers.max(axis=1)
    slopes = np.stack([np.ones(len(t)), m * t, m**2 * t**2])
    return _largest_sums(expansion, c, slopes * (2.0 * powers.sum(axis=1) + 3))


def _largest_sums(expansion: Expansion, c: Array, weights: Floats) -> Floats:
    """``Σ weights |c|`` at most, in the field's unit: c (C, ..., T, j), weights (o, T); (o,)."""
    xp = namespace(c)
    sums = xp.moveaxis(move(weights, c) @ xp.abs(c), -2, 1)  # (C, o, ..., j)
    most = to_numpy(xp.max(xp.reshape(sums, (sums.shape[0], len(weights), -1)), axis=-1))
    return np.asarray((most * expansion.scale[:, None]).max(axis=0))
