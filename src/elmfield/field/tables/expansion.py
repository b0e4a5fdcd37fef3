"""A blended function in Chebyshev's polynomials on all cells of a lattice, block by block.

Made of the axes' windowed functions and the regions' coefficients: terms up to a total degree, and
a bound on those beyond it.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product as cartesian

import numpy as np

from elmfield._array.backend import device, is_on_host, move, namespace, to_numpy
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.blend.blended import Blended
from elmfield.field.model import Model
from elmfield.field.tables.intervals import Intervals, intervals_of
from elmfield.field.tables.polynomials import exponents, n_terms

BLOCK_NUMBERS = 1 << 22
"""Numbers of a block on a processor at most: what fits its last cache."""

PROBE_NUMBERS = 1 << 18
"""The same for boxes that only tell which degree will do."""

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

    blended: Blended
    axes: tuple[Intervals, ...]
    scale: Floats
    _kept: dict[tuple[int, int, int], list[tuple[int, slice, Array]]] = field(
        default_factory=dict, repr=False
    )

    @property
    def counts(self) -> tuple[int, ...]:
        """Cells of the lattice on each axis."""
        return tuple(a.count for a in self.axes)

    @property
    def n_terms(self) -> int:
        """Terms of an axis at most, K."""
        return max(int(a.rows.shape[1]) for a in self.axes)

    def slopes(self, order: int, powers: Integers) -> Floats:
        """Sizes of ``∂^a Π_k T_{t_k}`` by the index, at most, (A, T): for all a of an order."""
        found = []
        for a in exponents(len(self.axes), order):
            if sum(a) == order:
                every = [_rise(i, t, x) for i, t, x in zip(a, powers.T.astype(float), self.axes)]
                found.append(np.prod(every, axis=0))
        return np.stack(found)

    @cached_property
    def beyond(self) -> Floats:
        """Bounds (3, D) on all terms beyond each total degree, by order, in the field's unit.

        A coefficient is at most ``Σ_q F[q] Π_k S_k[t_k, q_k]``: F are the largest sizes of a
        region's coefficients, S those of the functions' terms on any interval. Far from sharp, and
        far terms are small: it settles up to which degree terms are looked at one by one.

        What the expansions of the axes leave over is rounding. It counts as one term more on each,
        of both contributing cells, beyond every degree and no rougher than T_4: derivatives of the
        field's own functions are rounded as theirs.
        """
        d, K, B = len(self.axes), self.n_terms, self._largest()
        for a in self.axes:  # from the last axis of B to its first place
            S = np.zeros((K + 1, a.rows.shape[2]))
            S[: a.rows.shape[1]] = _sizes(a).max(axis=0)
            S[K] = 2 * a.left_over
            B = np.moveaxis(np.tensordot(S, B, axes=(1, 0)), 0, -1)
        t, D = np.indices(B.shape).reshape(d, -1).T, d * (K - 1) + 1
        degree = np.where((t == K).any(axis=1), D, t.sum(axis=1))
        found = np.zeros((ORDERS, D))
        for o in range(ORDERS):
            for size in self.slopes(o, np.where(t == K, 4, t)) * B.reshape(-1):
                shells = np.bincount(degree, weights=size, minlength=D + 1)
                found[o] = np.maximum(found[o], np.cumsum(shells[::-1])[::-1][1:])
        return found

    def _largest(self) -> Floats:
        """The largest size of each coefficient in any region, (q_1, ..., q_d), in the unit."""
        b, group = self.blended, self.blended.groups[0]
        found = np.zeros([a.rows.shape[2] for a in self.axes])
        step = max(1, capacity(b.like) // (8 * group.model.n_modes * b.n_channels))
        for i, j in runs(len(group.regions), step):
            c = np.abs(to_numpy(group.model.expand(group.coefficients.take(np.arange(i, j)))))
            found = np.maximum(found, (c.max(axis=0) * self.scale).max(axis=-1))
        return found

    def factors(self, cells: Integers) -> Array:
        """Coefficients of regions in some cells of the first axis: (C, n, q_1, N_2, q_2, ...)."""
        xp, b = namespace(self.blended.like), self.blended
        labels, d = b.partition.labels[cells], len(self.axes)
        group = b.groups[0]
        c = group.model.expand(group.coefficients.take(b.group_of[1][labels.reshape(-1)]))
        c = xp.astype(c, xp.float64)
        c = xp.reshape(c, (*labels.shape, *c.shape[1:]))
        return xp.permute_dims(c, (2 * d, *(a for l in range(d) for a in (l, d + l))))

    def blocks(
        self, degree: int, only: Sequence[int], few: bool = False
    ) -> Iterator[tuple[tuple[slice, ...], Array]]:
        """Which cells, and their coefficients up to a total degree, (C, j_1, ..., T, j_d).

        Of some of the runs of the first axis; with `few` of some small boxes of each.
        """
        d, C = len(self.axes), self.blended.n_channels
        for where, cell in (self.runs[i] for i in only):
            both = np.unique(self.axes[0].upper[where])
            cells = np.append(cell, both[both != cell])
            X = self.factors(cells)
            xp, shaped = namespace(X), {"dtype": X.dtype, "device": device(X)}
            boxes = list(self._parts(X, where, degree, few))
            chosen = {0, len(boxes) // 2, len(boxes) - 1} if few else range(len(boxes))
            for parts in (boxes[j] for j in sorted(chosen)):
                sizes = [p.stop - p.start for p in parts]
                before = C * math.prod(sizes[:-1])
                out = xp.zeros((before, n_terms(d, degree), sizes[-1]), **shaped)
                self._fill(0, X, cells, parts, degree, out, 0)
                yield parts, xp.reshape(out, (C, *sizes[:-1], *out.shape[1:]))

    @cached_property
    def runs(self) -> list[tuple[slice, int]]:
        """Runs of intervals of the first axis with one lower cell, and that cell; none long."""
        found, longest = [], max(1, self.counts[0] // 16)
        for where, cell in self.axes[0].runs():
            n = where.stop - where.start
            step = -(-n // -(-n // longest))
            cuts = range(where.start, where.stop, step)
            found += [(slice(i, min(i + step, where.stop)), cell) for i in cuts]
        return found

    def _parts(self, X: Array, where: slice, degree: int, few: bool) -> Iterator[tuple[slice, ...]]:
        """Boxes of cells that a run of the first axis is cut into: the last axis whole."""
        limit = capacity(X) // 4
        limit = min(limit, PROBE_NUMBERS if few else BLOCK_NUMBERS if is_on_host(X) else limit)
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
        self, k: int, X: Array, cells: Integers, parts: Sequence[slice], degree: int, out: Array,
        place: int,
    ) -> int:  # fmt: skip
        """Go on with axis k, of X (before, n, q_k, N_(k+1), q_(k+1), ...), for terms to a degree.

        X is of some `cells` of this axis. What is found goes to ``out[:, place:, :]``, which is 0;
        the next place comes back.
        """
        xp, d = namespace(X), len(self.axes)
        shape, before = X.shape, X.shape[0]
        X, end = xp.reshape(X, (before, *shape[1:3], -1)), place + n_terms(d - k, degree)
        if k == d - 1:
            self._product(k, X, parts[k], cells, out[:, place:end, :])
            return end
        after = (parts[k].stop - parts[k].start, X.shape[3])
        Y = xp.zeros(
            (before, min(degree + 1, self.n_terms), *after), dtype=X.dtype, device=device(X)
        )
        self._product(k, X, parts[k], cells, Y)
        every = np.arange(self.blended.partition.n_cells[k + 1])
        for t in range(Y.shape[1]):
            rest = xp.reshape(Y[:, t, ...], (-1, *shape[3:]))
            place = self._fill(k + 1, rest, every, parts, degree - t, out, place)
        return end

    def _product(self, k: int, X: Array, part: slice, cells: Integers, out: Array) -> None:
        """Add X (before, n, q, after) in the first terms of axis k on some intervals to `out`.

        (before, terms, j, after), or (before, terms, j) on the last axis: nothing comes after it.
        """
        xp, last = namespace(X), k == len(self.axes) - 1
        before, terms, after = X.shape[0], min(int(out.shape[1]), self.n_terms), X.shape[3]
        row = {int(c): i for i, c in enumerate(cells)}
        for cell, where, W in self._terms(k, part, X):
            x, W = X[:, row[cell], :, :], xp.reshape(W[:terms, ...], (-1, X.shape[2]))
            y = x[..., 0] @ W.T if last else W @ x
            shape = (before, terms, -1) if last else (before, terms, -1, after)
            out[:, :terms, where, ...] += xp.reshape(y, shape)

    def _terms(self, k: int, part: slice, like: Array) -> list[tuple[int, slice, Array]]:
        """Cells, intervals of axis k they contribute on, and terms (K, j, q) of functions there.

        One product serves all these intervals, and any number of the first terms is one matrix.
        """
        key = (k, part.start, part.stop)
        if key in self._kept:
            return self._kept[key]
        own, found = self.axes[k], []
        for cell, where, pieces in own.by_cell(part):
            W = np.zeros((self.n_terms, len(pieces), own.rows.shape[2]))
            W[: own.rows.shape[1]] = own.rows[pieces].transpose(1, 0, 2)
            found.append((cell, where, move(W, like)))
        if k:  # the first axis goes by only once
            self._kept[key] = found
        return found


def _rise(order: int, t: Floats, axis: Intervals) -> Floats:
    """The size of a derivative of T_t by the index: at most that at the ends of a cell.

    There T_t rises by t² and bends by t² (t² - 1) / 3; s crosses the cell in two.
    """
    size = (np.ones_like(t), t**2, t**2 * np.abs(t**2 - 1) / 3)[order]
    return np.asarray(size * (2.0 * axis.per_unit) ** order)


def _sizes(own: Intervals) -> Floats:
    """Sizes of the terms of all that contributes on the intervals that differ, (J, K, q)."""
    pairs, size = np.unique(own.piece, axis=0), np.abs(own.rows)
    return np.asarray(size[pairs[:, 0]] + size[pairs[:, 1]] * (pairs[:, 1:, None] >= 0))


def expanded(model: Model) -> Expansion | None:
    """The expansion of a field's function; None where it is not made of polynomials."""
    axes = intervals_of(model)
    if axes is None:
        return None
    return Expansion(model.blended, axes, np.abs(np.asarray(to_numpy(model.scale), np.float64)))
