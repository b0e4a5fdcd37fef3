"""All regions of scattered samples: their cells, order, noise and coefficients; or dense layers."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import per_axis
from elmfield._array.running import spread
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import Domain
from elmfield.field import Blended, Group
from elmfield.field.blend.points import corners
from elmfield.field.coefficients.stored import Draws, Full, Nodes, Ragged, run_places
from elmfield.field.model import Model
from elmfield.field.uncertainty.neighbours import periods, shortest, tree_of, wrapped
from elmfield.local.bases import DenseWeights
from elmfield.local.bases.polyharmonic import (
    PENALTIES,
    FactoredRegion,
    KernelRegion,
    Polyharmonic,
    Tridiagonal,
    degree_of,
    likelihoods,
    n_monomials,
    power_of,
)
from elmfield.partition import Partition, blend
from elmfield.settings import Paper, Smooth

MOST_SAMPLES = 4000
"""Most samples a region may have; its dense kernel is solved directly."""

ENOUGH_SAMPLES = 1500
"""Samples a region has no need to exceed: of more, those around its cell are left out."""

CELL, CONTEXT = {1: 16, 2: 8, 3: 3}, {1: 4.0, 2: 4.0, 3: 2.0}
"""Cell size, and how far beyond its cell a region looks, in mean sample spacings: 24 samples a
region on a line, 256 in the plane, 343 in space."""

NOISY_CELL, NOISY_CONTEXT = {1: 64, 2: 16, 3: 4}, {1: 16.0, 2: 8.0, 3: 3.0}
"""The same where noise is taken out: a mean over more samples."""

ORDERS = (1.1, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0)
"""Orders tried by leave-one-out for ``order="auto"``; those that samples are too close for give way
to lower ones, region by region."""

CHOOSING_REGIONS = 12
"""Regions that settle order and noise for all; orders of their own do not pay."""

CHOOSING_SAMPLES, OWN_SAMPLES = 500, 300
"""Samples of such a region that are used, and of one that weighs its own amplitude, at most."""

LARGEST_MISS, ANNOUNCED_MULTIPLICATIONS = 1e-6, 5e12
"""Samples farther than this from the function, in parts of the range, are worth a warning; so is a
fit of more multiplications (a minute or so)."""

Way = tuple[float, bool]
"""The order of a region, and whether samples too close for rounding are left alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelRegions:
    """Cells, the samples by which each is fitted, and kernels around these.

    Parameters
    ----------
    partition : Partition
        The cells.
    x, y : arrays, shapes (n, d) and (n, C)
        Positions, in index coordinates, and values of order 1 there.
    weights : array, shape (n,), or None
        Noise has a variance of 1 / `weights` in its unit; None where it is the same everywhere.
    used : list of integer arrays
        The samples each region is fitted to.
    centres, radii : arrays, shape (N, d)
        Local coordinates of a region are (x - centre) / radius, the same on all axes; between -1
        and 1 for the samples it is fitted to.
    half : array, shape (N, d)
        Half the width of its cell.
    """

    partition: Partition
    x: Floats
    y: Floats
    weights: Floats | None
    used: list[Integers]
    centres: Floats
    radii: Floats
    half: Floats

    @classmethod
    def cut(
        cls, x: Floats, y: Floats, domain: Domain, settings: Smooth, weights: Floats | None = None
    ) -> "KernelRegions":
        """Cells, each with the samples up to a context around it, or the nearest if few are.

        With noise, regions look farther.
        """
        (n, d), noisy, cell = x.shape, settings.denoise is not False, settings.cell
        if cell is None:
            cell = (NOISY_CELL if noisy else CELL).get(d, 3)
        overlap = settings.overlap
        if overlap is None:
            overlap = tuple(c / 4 for c in per_axis("cell", cell, d))
        wraps = np.flatnonzero(domain.periodic)
        part = Partition.regular(domain.shape, cell, overlap, periodic=wraps)
        ends = [part.borders(k) for k in range(d)]
        low = np.stack(np.meshgrid(*(e[:-1] for e in ends), indexing="ij"), -1)
        high = np.stack(np.meshgrid(*(e[1:] for e in ends), indexing="ij"), -1)
        centres, half = (low + high).reshape(-1, d) / 2, (high - low).reshape(-1, d) / 2
        tree, seats = tree_of(x, periods(part)), wrapped(centres, periods(part))
        least = min(n, 3 * n_monomials(d, 3))
        reach = half.max(axis=1) + (NOISY_CONTEXT if noisy else CONTEXT).get(d, 1.5)
        used, radii = [], reach.copy()
        for i, found in enumerate(tree.query_ball_point(seats, reach, p=np.inf)):
            near = np.asarray(found, np.int64)
            if len(near) < least:
                distance, near = (np.atleast_1d(a) for a in tree.query(seats[i], k=least, p=np.inf))
                radii[i] = max(radii[i], float(distance.max()))
            elif len(near) > ENOUGH_SAMPLES:
                u = shortest(x[near] - centres[i], periods(part))
                near = _fewer(u, near, half[i] + part.overlap)
            if len(near) > MOST_SAMPLES:
                raise ValueError(
                    f"a region holds {len(near)} samples, more than {MOST_SAMPLES} can be solved "
                    "at once: the samples are far denser there than on average. Pass a smaller "
                    "`spacing`."
                )
            used.append(np.sort(near))
        sizes = np.asarray([len(u) for u in used], float)
        work = float(np.sum(sizes**3))
        if work > ANNOUNCED_MULTIPLICATIONS:
            warnings.warn(
                f"this fit has {len(sizes)} regions of up to {int(sizes.max())} samples: about "
                f"{work:.0e} multiplications. A smaller `cell` or fewer samples make it cheaper.",
                UserWarning,
                stacklevel=3,
            )
        return cls(
            partition=part, x=x, y=y, weights=weights if noisy else None, used=used,
            centres=centres, radii=np.repeat(radii[:, None], d, axis=1), half=half,
        )  # fmt: skip

    @property
    def sizes(self) -> Integers:
        """Samples of each region, (N,)."""
        return np.asarray([len(u) for u in self.used], np.int64)

    def local(self, i: int) -> Floats:
        """Local coordinates of the samples of region i, (S, d)."""
        u = shortest(self.x[self.used[i]] - self.centres[i], periods(self.partition))
        return np.asarray(u / self.radii[i])

    def possible(self, orders: Sequence[float]) -> tuple[float, ...]:
        """Those that even the smallest region has twice as many samples for as polynomials.

        The lowest, if none.
        """
        d, S = self.x.shape[1], int(self.sizes.min())
        found = [s for s in orders if 2 * n_monomials(d, degree_of(s)) <= S]
        return tuple(found) or (min(1.1, *orders),)

    def region(self, i: int, order: float, near: Integers | slice = slice(None)) -> KernelRegion:
        """Region i with the kernel of an order; of some of its samples, or of all."""
        own = None if self.weights is None else self.weights[self.used[i]][near, None]
        root, beta = 1.0 if own is None else np.sqrt(own), power_of(order)
        unit = float(self.radii[i, 0]) ** beta
        return KernelRegion(self.local(i)[near], beta, degree_of(order), unit, root)

    def _nearest(self, i: int, among: int) -> Integers:
        """The samples of region i that are nearest to its centre."""
        far = np.abs(self.local(i)).max(axis=1)
        return np.argsort(far, kind="stable")[:among]

    def _few(self) -> range:
        N = len(self.used)
        return range(0, N, -(-N // CHOOSING_REGIONS))

    def suited_order(self) -> float:
        """The order that predicts left-out samples of their cells best, in a few regions.

        By the geometric mean over regions: one with an odd sample does not outvote the others.
        """
        orders = self.possible(ORDERS)
        least = 1e-24 * float(np.mean(self.y**2)) + 1e-300

        def score(i: int) -> list[float]:
            near = self._nearest(i, CHOOSING_SAMPLES)
            y, t = self.y[self.used[i]][near], self.local(i)[near]
            own = np.all(np.abs(t) <= self.half[i] / self.radii[i], axis=1)
            own = own if own.any() else np.ones(len(t), bool)
            errors = [self.region(i, s, near).leave_one_out(y, own) for s in orders]
            return [float(np.log(e / len(y) + least)) for e in errors]

        return orders[int(np.argmin(np.sum(spread(score, self._few()), axis=0)))]

    def likeliest(
        self, orders: Sequence[float], level: Floats | None
    ) -> tuple[float, float, float]:
        """Order, noise's variance in the kernel's unit, and a, that make samples likeliest.

        ``z = Vᵀ y`` in the kernel's eigenvectors has variances ``a (g + λ)``, where ``a λ`` is the
        noise's. Where the noise's level is known values are in its unit, which determines a;
        otherwise a is the likeliest. One λ serves all regions.
        """
        best, found = -np.inf, (1.1, float(PENALTIES[0]), 1.0)
        for order in self.possible(orders):
            every = self._likelihoods(self._few(), CHOOSING_SAMPLES, order, level)
            logs, squares, n = (part.sum(axis=0) for part in every)
            n = np.maximum(n, 1)
            a = np.maximum(squares / n if level is None else 1 / PENALTIES, 1e-300)
            score = -0.5 * (logs + n * np.log(a) + squares / a)
            if score.max() > best:
                best, i = score.max(), int(np.argmax(score))
                found = (order, float(PENALTIES[i]), float(a[i]))
        return found

    def _likelihoods(
        self, which: Sequence[int], among: int, order: float, level: Floats | None
    ) -> tuple[Floats, Floats, Floats]:
        """:func:`likelihoods` of samples near the centres of some regions."""

        def one(i: int) -> Tridiagonal:
            near = self._nearest(i, among)
            y = self.y[self.used[i]][near] / (1.0 if level is None else level)
            return self.region(i, order, near).tridiagonal(y)

        return likelihoods(spread(one, which))

    def own_penalties(
        self, order: float, penalty: float, noise: float, level: Floats | None
    ) -> Floats:
        """Variance of the `noise` in the unit that makes the samples of each region likeliest."""
        # Logarithms are normal about that of all regions, with variance 1/2.
        every = range(len(self.used))
        logs, squares, n = self._likelihoods(every, OWN_SAMPLES, order, level)
        a, apart = noise / PENALTIES, np.log(PENALTIES / penalty)
        scores = logs + n * np.log(a) + squares / a + 2 * apart**2
        return np.asarray(PENALTIES[np.argmin(scores, axis=1)])

    def solve(
        self, order: float, penalties: Floats | None, lower: bool, progress: Progress
    ) -> "SolvedRegions":
        """All regions, through their samples, or near them, by the penalty of each.

        `lower` lets regions that miss samples take a lower order.
        """
        orders = [s for s in self.possible((*ORDERS, order)) if s < order] if lower else []
        tried = [(s, False) for s in (order, *sorted(orders, reverse=True))]
        if penalties is None:
            tried.append((tried[-1][0], True))
        done = [0]

        def work(i: int) -> tuple[Way, Floats, Floats, Floats]:
            y, found = self.y[self.used[i]], []
            for way in tried:
                own = 0.0 if penalties is None else float(penalties[i])
                solved = self.region(i, way[0]).factor(own, close=way[1])
                c = solved.coefficients(y)
                missed = (0 * y, 0 * y) if own else solved.missed(c, y)
                found.append((way, c, *missed))
                if found[-1][2].max(initial=0) <= LARGEST_MISS / 10:
                    break
            done[0] += 1
            progress("fit", done[0], len(self.used))
            return min(found, key=lambda one: float(one[2].max(initial=0)))

        found = spread(work, range(len(self.used)))
        ways, coefficients, *parts = map(list, zip(*found))
        most = [np.zeros_like(self.y) for _ in parts]  # of any region's, for each sample
        for total, part in zip(most, parts):
            for near, own in zip(self.used, part):
                total[near] = np.maximum(total[near], own)
        return SolvedRegions(self, ways, coefficients, *most)


@dataclass(frozen=True, eq=False)
class SolvedRegions:
    """How all regions were solved, and their coefficients.

    `missed`, (n, C), has how far samples are missed, `rounding` how far sums there may be off.
    """

    kernels: KernelRegions
    ways: list[Way]
    coefficients: list[Floats]
    missed: Floats
    rounding: Floats

    @property
    def flat(self) -> Floats:
        """The coefficients of one region after the other, and there of one channel."""
        return np.concatenate([c.T.reshape(-1) for c in self.coefficients])

    def _factored(self, i: int) -> FactoredRegion:
        order, close = self.ways[i]
        return self.kernels.region(i, order).factor(close=close)

    def again(self, y: Floats) -> Floats:
        """What is flat, of other values, (n, C)."""

        def one(i: int) -> Floats:
            return self._factored(i).coefficients(y[self.kernels.used[i]])

        return replace(self, coefficients=spread(one, range(len(self.ways)))).flat

    def back(self, g: Floats) -> Floats:
        """Derivatives by what is flat as derivatives by the values, (n, C)."""
        total = np.zeros_like(self.kernels.y)
        own = np.split(g, np.cumsum([c.size for c in self.coefficients])[:-1])

        def one(i: int) -> Floats:
            return self._factored(i).adjoint(own[i].reshape(total.shape[1], -1).T)

        for near, part in zip(self.kernels.used, spread(one, range(len(self.ways)))):
            total[near] += part
        return total

    def groups(self, flat: Array) -> tuple[Group, ...]:
        """Regions of one order and about one number of samples together."""
        kernels, d, C = self.kernels, self.kernels.x.shape[1], self.kernels.y.shape[1]
        sizes, orders = kernels.sizes, np.asarray([order for order, _ in self.ways])
        # Batches are padded to their group's largest: half again as large is the most it may be.
        about = np.floor(np.log(np.maximum(sizes, 1)) / np.log(1.5)).astype(int)
        lengths = np.asarray([c.size for c in self.coefficients])
        begins = _ends(lengths)[:-1]
        positions, groups, weights = move(kernels.x, flat), [], kernels.weights
        noise = None if weights is None else weights.mean() / weights
        for order, size in sorted(set(zip(orders.tolist(), about.tolist()))):
            regions = np.flatnonzero((orders == order) & (about == size))
            model = Polyharmonic(power_of(order), degree_of(order), d, int(sizes[regions].max()))
            runs = np.repeat(lengths[regions] // C, C)
            picked = move(run_places(begins[regions], lengths[regions]), flat)
            coefficients = Ragged(
                namespace(flat).take(flat, picked, axis=0), run_places(0 * runs, runs),
                _ends(runs), np.arange(model.n_modes), C,
            )  # fmt: skip
            members = np.concatenate([kernels.used[i] for i in regions])
            nodes = Nodes(
                model=model, positions=positions, members=members, starts=_ends(sizes[regions]),
                noise=noise,
            )  # fmt: skip
            own = Group(model=model, regions=regions, coefficients=coefficients, nodes=nodes)
            groups.append(own)
        return tuple(groups)


def _ends(lengths: Integers) -> Integers:
    """Where runs begin and the last one ends, (n + 1,)."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _fewer(u: Floats, near: Integers, spoken: Floats) -> Integers:
    """The nearest of too many samples, at offsets u from the centre: ENOUGH_SAMPLES, or more.

    All that lie where the region counts are among them; `spoken` is half that box.
    """
    far = np.max(np.abs(u) / spoken, axis=1)
    order = np.argsort(far, kind="stable")
    kept = max(ENOUGH_SAMPLES, int(np.count_nonzero(far <= 1)))
    return np.asarray(near[order[:kept]], np.int64)


# --- the paper's least squares --------------------------------------------------------------------


def dense_model(
    x: Floats, y: Array, domain: Domain, settings: Paper, partition: Partition | None
) -> Model:
    """Return the model of samples y, (n, C), float64, at index coordinates x, (n, d).

    Local coordinates run from -1 to 1 across a region's window. Each region needs as many samples
    as it has neurons, as the paper's lemma does, unless a ridge makes the weights unique.
    """
    part = partition and settings.adopt(partition)
    part = part or settings.partition(domain.shape, domain.periodic)
    model = settings.weights_model or DenseWeights(network=settings.network, box=())
    xp, N, m = namespace(y), part.n_regions, model.n_modes
    starts, sizes = part.boxes
    # Windows reach half a unit beyond the samples that stand at the ends of a box.
    centres, radii = starts + (sizes - 1) / 2, sizes / 2 + np.minimum(part.overlap, 0.5)
    blends = [blend(part, k, c) for k, c in enumerate(x.T)]
    touched, uppers = corners([b.ramp[0] > 0 for b in blends])
    sample = np.concatenate(touched)
    every = zip(blends, uppers.T)
    cells = tuple(np.where(up, b.upper[sample], b.lower[sample]) for b, up in every)
    region, sample = np.unique(np.stack([part.labels[cells], sample], axis=1), axis=0).T
    counts = np.bincount(region, minlength=N)
    wanted = np.broadcast_to(model.widths if model.widths is not None else m, (N,))
    few = np.flatnonzero(counts < (1 if model.ridge else wanted))
    if len(few):
        raise ValueError(
            f"every region needs as many samples as neurons, or some and a `ridge`; {len(few)} of "
            f"{N} regions have fewer, region {few[0]} has {counts[few[0]]} for {wanted[few[0]]} "
            "neurons. Use larger cells, a smaller `width`, or `ridge`."
        )
    found, ends = [], np.concatenate([[0], np.cumsum(counts)])
    for i in range(N):
        own = sample[ends[i] : ends[i + 1]]
        u = shortest(x[own] - centres[i], periods(part))
        t = move((u / radii[i])[None, ...], y, getattr(xp, model.dtype))
        H = model.of(np.asarray([i])).rows(t, (0,) * x.shape[1])[0][..., : wanted[i]]
        found.append(model.solve(H, xp.take(y, move(own, y), axis=0)[None, ...]))
    group = Group(
        model=model,
        regions=np.arange(N),
        coefficients=Full(xp.concat(found, axis=0)),
        nodes=Draws(model, np.arange(N)) if model.is_own else None,
    )
    blended = Blended(
        partition=part, groups=(group,), centres=centres, radii=radii, is_scattered=True
    )
    zeros = xp.zeros_like(y[0, :])
    return Model(domain=domain, blended=blended, offset=zeros, scale=zeros + 1, settings=settings)
