"""Scattered samples by local kernels: orders, noise, and the coefficients of every region.

Cells and values of order 1 enter; groups of a field leave. How one region is solved is the business
of `around`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.threads import spread
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import Domain
from elmfield.field import Group, Ragged
from elmfield.field.nodes import Nodes
from elmfield.fit.around import Around, Factored
from elmfield.fit.cells import Cells, cut
from elmfield.fit.region import likeliest
from elmfield.local.bases.polyharmonic import Polyharmonic, n_monomials

CELL, CONTEXT = {2: 8, 3: 3}, {2: 4.0, 3: 2.0}
"""Cell size, and how far beyond its cell a region looks, in mean sample spacings: 256 samples a
region in the plane, 343 in space. In the plane 6 and 3 were four times less accurate and no faster;
in space 3 and 2.5 half as far off and three times as slow."""

NOISY_CELL, NOISY_CONTEXT = {2: 16, 3: 4}, {2: 8.0, 3: 3.0}
"""The same where noise is taken out: a mean over more samples."""

ORDERS = (1.1, 1.5, 2.0, 2.5, 3.0, 4.0)
"""Orders tried by leave-one-out for ``order="auto"``; those that samples are too close for give way
to lower ones, region by region."""

NOISY_ORDERS = (1.1, 2.0, 3.0, 4.0)
"""Orders tried by their likelihood, with noise."""

HIGHEST = 5.0
"""Highest order: r⁹ beside polynomials of degree 4."""

LOOKED_AT = 6
"""Regions that settle order and noise for all."""

LOOKED_AMONG = 500
"""Samples of such a region that are asked, at most."""

MET = 1e-6
"""Samples farther than this from the function, in parts of the range, are worth a warning."""

WORTH_A_WORD = 5e12
"""Multiplications (a minute or so) above which a fit is announced."""

Way = tuple[float, bool]
"""The order of a region, and whether samples too close for rounding are left alone."""


def power_of(order: float) -> float:
    """β: the order along a line is (β + 1) / 2."""
    return 2 * order - 1


def degree_of(order: float) -> int:
    """Of the polynomials beside a kernel; planes are always free."""
    return max(1, int(power_of(order) // 2))


@dataclass(frozen=True, eq=False)
class Kernels:
    """Cells, and values y, (n, C), of order 1 at their samples."""

    cells: Cells
    y: Floats

    @classmethod
    def cut(
        cls,
        x: Floats,
        y: Floats,
        domain: Domain,
        *,
        cell: float | tuple[float, ...] | None,
        overlap: float | tuple[float, ...] | None,
        noisy: bool,
    ) -> "Kernels":
        """Cells, and what is fitted in each; `noisy` looks farther."""
        d = x.shape[1]
        if cell is None:
            cell = (NOISY_CELL if noisy else CELL).get(d, 3)
        context = (NOISY_CONTEXT if noisy else CONTEXT).get(d, 1.5)
        least = 3 * n_monomials(d, 3)
        cells = cut(x, domain, cell=cell, overlap=overlap, context=context, least=least)
        _announce(cells)
        return cls(cells, y)

    def possible(self, orders: Sequence[float]) -> tuple[float, ...]:
        """Those that even the smallest region has twice as many samples for as polynomials.

        The lowest, if none.
        """
        d, S = self.cells.x.shape[1], int(self.cells.sizes.min())
        found = [s for s in orders if 2 * n_monomials(d, degree_of(s)) <= S]
        return tuple(found) or (min(1.1, *orders),)

    def region(self, i: int, order: float, among: int | None = None) -> Around:
        """Region i with the kernel of an order; the samples nearest to its centre, or all."""
        t = self.cells.local(i)
        if among is not None:
            t = t[self._nearest(i, among)]
        beta = power_of(order)
        return Around(t, beta, degree_of(order), float(self.cells.radii[i, 0]) ** beta)

    def _nearest(self, i: int, among: int) -> Integers:
        far = np.abs(self.cells.local(i)).max(axis=1)
        return np.argsort(far, kind="stable")[:among]

    def _few(self) -> range:
        N = len(self.cells.used)
        return range(0, N, -(-N // LOOKED_AT))

    def suited_order(self) -> float:
        """The order that predicts left-out samples of their cells best, in a few regions.

        By the geometric mean over regions: one with an odd sample does not outvote the others.
        """
        orders = self.possible(ORDERS)
        least = 1e-24 * float(np.mean(self.y**2)) + 1e-300

        def score(i: int) -> list[float]:
            near = self._nearest(i, LOOKED_AMONG)
            y, t = self.y[self.cells.used[i]][near], self.cells.local(i)[near]
            own = np.all(np.abs(t) <= self.cells.half[i] / self.cells.radii[i], axis=1)
            own = own if own.any() else np.ones(len(t), bool)
            errors = [self.region(i, s, LOOKED_AMONG).left_out(y, own) for s in orders]
            return [float(np.log(e / len(y) + least)) for e in errors]

        return orders[int(np.argmin(np.sum(spread(score, self._few()), axis=0)))]

    def likeliest(self, orders: Sequence[float], level: Floats | None) -> tuple[float, float]:
        """Order and variance of the noise, in the kernel's unit, that make samples likeliest."""

        def told(order: float) -> Floats:
            def one(i: int) -> Floats:
                y = self.y[self.cells.used[i]][self._nearest(i, LOOKED_AMONG)]
                y = y if level is None else y / level
                return self.region(i, order, LOOKED_AMONG).likelihood(y)

            return np.asarray(np.sum(spread(one, self._few()), axis=0))

        return likeliest(self.possible(orders), told, level is not None)

    def through(self, order: float, *, lower: bool, progress: Progress) -> "Solved":
        """All regions, through their samples; `lower` lets those that miss some take less order."""
        orders = [s for s in self.possible((*ORDERS, order)) if s < order] if lower else []
        tried = [(s, False) for s in (order, *sorted(orders, reverse=True))]
        tried.append((tried[-1][0], True))
        done = [0]

        def work(i: int) -> tuple[Way, Floats, Floats]:
            y, best = self.y[self.cells.used[i]], None
            for way in tried:
                solved = self.region(i, way[0]).factor(close=way[1])
                c = solved.coefficients(y)
                off = np.abs(solved.values(c) - y)
                if best is None or off.max(initial=0) < best[2].max(initial=0):
                    best = way, c, off
                if best[2].max(initial=0) <= MET / 10:
                    break
            done[0] += 1
            progress("fit", done[0], len(self.cells.used))
            assert best is not None
            return best

        found = spread(work, range(len(self.cells.used)))
        missed = np.zeros_like(self.y)
        for near, (_, _, off) in zip(self.cells.used, found):
            missed[near] = np.maximum(missed[near], off)
        return Solved(self, [way for way, _, _ in found], [c for _, c, _ in found], missed)

    def near(self, order: float, penalty: float, progress: Progress) -> "Solved":
        """All regions, near samples with noise."""
        done = [0]

        def work(i: int) -> Floats:
            c = self.region(i, order).factor(penalty).coefficients(self.y[self.cells.used[i]])
            done[0] += 1
            progress("fit", done[0], len(self.cells.used))
            return c

        found = spread(work, range(len(self.cells.used)))
        return Solved(self, [(order, False)] * len(found), found, np.zeros_like(self.y))


@dataclass(frozen=True, eq=False)
class Solved:
    """How all regions were solved, their coefficients, and how far samples are missed, (n, C)."""

    kernels: Kernels
    ways: list[Way]
    coefficients: list[Floats]
    missed: Floats

    @property
    def flat(self) -> Floats:
        """The coefficients of one region after the other, and there of one channel."""
        return np.concatenate([c.T.reshape(-1) for c in self.coefficients])

    def _each(self, work: Callable[[Factored, int], Floats]) -> list[Floats]:
        def one(i: int) -> Floats:
            order, close = self.ways[i]
            return work(self.kernels.region(i, order).factor(close=close), i)

        return spread(one, range(len(self.ways)))

    def again(self, y: Floats) -> Floats:
        """What is flat, of other values, (n, C)."""
        used = self.kernels.cells.used
        found = self._each(lambda solved, i: solved.coefficients(y[used[i]]))
        return np.concatenate([c.T.reshape(-1) for c in found])

    def back(self, g: Floats) -> Floats:
        """Derivatives by what is flat as derivatives by the values, (n, C)."""
        used, C = self.kernels.cells.used, self.kernels.y.shape[1]
        ends = np.cumsum([c.size for c in self.coefficients])
        total = np.zeros_like(self.kernels.y)

        def one(solved: Factored, i: int) -> Floats:
            own = g[ends[i] - self.coefficients[i].size : ends[i]]
            return solved.adjoint(own.reshape(C, -1).T)

        for near, part in zip(used, self._each(one)):
            total[near] += part
        return total

    def groups(self, flat: Array) -> tuple[Group, ...]:
        """Regions of one order and about one number of samples together."""
        cells, d = self.kernels.cells, self.kernels.cells.x.shape[1]
        C = self.kernels.y.shape[1]
        sizes, orders = cells.sizes, np.asarray([order for order, _ in self.ways])
        # Batches are padded to their group's largest: half again as large is the most it may be.
        about = np.floor(np.log(np.maximum(sizes, 1)) / np.log(1.5)).astype(int)
        lengths = np.asarray([c.size for c in self.coefficients])
        begins = np.cumsum(lengths) - lengths
        positions, groups = move(cells.x, flat), []
        for order, size in sorted(set(zip(orders.tolist(), about.tolist()))):
            regions = np.flatnonzero((orders == order) & (about == size))
            model = Polyharmonic(power_of(order), degree_of(order), d, int(sizes[regions].max()))
            runs = np.repeat(lengths[regions] // C, C)
            picked = np.concatenate(
                [np.arange(b, b + n) for b, n in zip(begins[regions], lengths[regions])]
            )
            ranks = np.concatenate([np.arange(n) for n in runs])
            starts = np.concatenate([[0], np.cumsum(sizes[regions])]).astype(np.int64)
            groups.append(
                Group(
                    model=model,
                    regions=regions,
                    coefficients=Ragged(
                        namespace(flat).take(flat, move(picked, flat), axis=0),
                        ranks,
                        np.concatenate([[0], np.cumsum(runs)]).astype(np.int64),
                        np.arange(model.n_modes),
                        C,
                    ),
                    nodes=Nodes(
                        model=model,
                        positions=positions,
                        members=np.concatenate([cells.used[i] for i in regions]),
                        starts=starts,
                    ),
                )
            )
        return tuple(groups)


def _announce(cells: Cells) -> None:
    """Say what will take long before it begins."""
    sizes = cells.sizes.astype(float)
    work = float(np.sum(sizes**3))
    if work > WORTH_A_WORD:
        warnings.warn(
            f"this fit has {len(sizes)} regions of up to {int(sizes.max())} samples: about "
            f"{work:.0e} multiplications. A smaller `cell` or fewer samples make it cheaper.",
            UserWarning,
            stacklevel=4,
        )
