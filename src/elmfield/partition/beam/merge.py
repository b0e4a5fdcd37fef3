"""Algorithm 1 of the paper: merge neighbouring regions while their energy stays under τ.

`merge` is the algorithm, `Mesh` has the cells and the energies measured so far;
:mod:`elmfield.partition.beam.energy` says what an energy is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from operator import or_

import numpy as np
from scipy.fft import next_fast_len, rfftn

from elmfield._array.typing import Floats, Integers
from elmfield.partition.beam.energy import (
    BATCH_SAMPLES,
    Barron,
    Region,
    extent,
    mirrored,
    scales,
    union,
)

LOOKAHEAD_REGIONS = 64
"""Regions whose unions are transformed together when one energy is missing."""

BOUND_MIN_CELLS = 64
"""Cells in a box that is worth a lower bound before it is transformed."""


@dataclass(frozen=True)
class Merges:
    """What one run of the algorithm did.

    Parameters
    ----------
    pairs : list of pairs of Region
        What merged with what, in order.
    n_regions : int
        How many are left.
    next_energy : float
        The least energy above τ that kept a region from merging; infinite if none did.
    threshold : float
        τ.
    """

    pairs: Sequence[tuple[Region, Region]]
    n_regions: int
    next_energy: float
    threshold: float = 0.0


class Mesh:
    """The cells to merge, and the energies of all unions of cells measured so far.

    Energies depend on sets of cells, not on τ: what one run of the algorithm had to transform, the
    next finds here.

    Parameters
    ----------
    beta : Barron
        Measures regions; its cells are those to start from.
    boxes : bool
        Whether only unions that fill their box are allowed.

    Attributes
    ----------
    cells : list of Region
        The regions to start from.
    neighbours : dict
        Keys of the cells that share a face with a cell, by its key: sets.
    energies : dict
        Energies by the region's key; of all cells, to begin with.
    regions : dict
        The cells, and regions that some run came to, by their keys.
    order : dict
        Where those stand in a pass: energy, first cell, key.
    """

    def __init__(self, beta: Barron, boxes: bool = False) -> None:
        self.beta, self.boxes = beta, boxes
        self.cells = beta.cells()
        self.neighbours: dict[int, set[int]] = {c.key: set() for c in self.cells}
        numbers = np.arange(len(self.cells)).reshape(beta.n_cells)
        for i, j in touching(numbers, beta.periodic).tolist():
            a, b = self.cells[i].key, self.cells[j].key
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)
        self.energies: dict[int, float] = {}
        self.regions = {c.key: c for c in self.cells}
        self.measure(self.cells)
        self.order = {c.key: (self.energies[c.key], c.first, c.key) for c in self.cells}
        self._bound = LowerBound(beta)
        self._bounds: dict[int, float] = {}

    def measure(self, regions: Iterable[Region]) -> None:
        """Find the energies of regions that have not been measured."""
        new = {r.key: r for r in regions if r.key not in self.energies}
        self.energies.update(zip(new, self.beta(list(new.values())).tolist()))

    def measure_unions(self, pairs: Iterable[tuple[Region, Region]]) -> None:
        """Find the energies of unions, except of those in large boxes.

        Where regions must be boxes, a union that is none has infinite energy.
        """
        new: dict[int, Region] = {}
        for a, b in pairs:
            key = a.key ^ b.key
            if key in self.energies or key in new:
                continue
            if self.boxes and len(a.cells) + len(b.cells) < extent(a, b):
                self.energies[key] = math.inf
            elif not self.is_large(a, b):
                new[key] = union(a, b)
        self.measure(new.values())

    def is_large(self, a: Region, b: Region) -> bool:
        """Whether the box around both is too large to be transformed without need."""
        return extent(a, b) > BOUND_MIN_CELLS and (a.peak > 0 or b.peak > 0)

    def measure_large(self, pairs: list[tuple[Region, Region]], limit: float) -> float:
        """Find the least energy of the unions, up to `limit`; return the least bound left.

        Large boxes take long. They are measured one by one, the lowest bound first, until no other
        can have less energy than what was found.
        """
        left = []
        for a, b in pairs:
            key = a.key ^ b.key
            if self.boxes and len(a.cells) + len(b.cells) < extent(a, b):
                self.energies[key] = math.inf
            if key not in self.energies:
                if key not in self._bounds:
                    self._bounds[key] = self._bound(a, b)
                left.append((self._bounds[key], key, union(a, b)))
        for bound, key, whole in sorted(left, key=lambda entry: entry[:2]):
            if bound > limit:
                return bound
            self.measure([whole])
            limit = min(limit, self.energies[key])
        return math.inf

    def unite(self, a: Region, b: Region) -> Region:
        """Return the union of two regions, kept for the next run."""
        key = a.key ^ b.key
        if key not in self.regions:
            whole = self.regions[key] = union(a, b)
            self.order[key] = (self.energies[key], whole.first, key)
        return self.regions[key]

    def labels(self, pairs: Sequence[tuple[Region, Region]]) -> Integers:
        """The region of each cell after some merges, numbered by first cells."""
        firsts = np.asarray([(a.first, b.first) for a, b in pairs], int).reshape(-1, 2)
        root = np.arange(len(self.cells))
        root[firsts.max(axis=1)] = firsts.min(axis=1)  # a region is known by its first cell
        while not np.array_equal(root, root[root]):
            root = root[root]
        return np.unique(root, return_inverse=True)[1].reshape(self.beta.n_cells)


def touching(labels: Integers, periodic: tuple[bool, ...]) -> Integers:
    """Pairs of different labels on cells that share a face, shape (n, 2): each once, in order."""
    pairs = []
    for k, wraps in enumerate(periodic):
        inner = np.arange(labels.shape[k] - (not wraps))
        ahead = np.roll(labels, -1, axis=k)
        pairs.append(np.stack([x.take(inner, axis=k).ravel() for x in (labels, ahead)], axis=1))
    both = np.sort(np.concatenate(pairs), axis=1)
    return np.unique(both[both[:, 0] != both[:, 1]], axis=0)


def merge(mesh: Mesh, tau: float, stop: int = 1) -> Merges:
    """Algorithm 1 with threshold τ, broken off when `stop` regions are left.

    Notes
    -----
    In the paper every pass looks at every region. A region that found no partner will find none
    until a neighbour changes, so looking again is left out; one whose neighbour changes in the
    current pass before its turn has its turn in this pass, as there.
    """
    energies, order, regions = mesh.energies, mesh.order, mesh.regions
    around = dict(mesh.neighbours)  # of the regions there are; sets are replaced, not changed
    changed, blocked = set(around), math.inf
    pairs: list[tuple[Region, Region]] = []
    while changed and len(around) > stop:  # a pass, from the least energy to the greatest
        queue = [order[i] for i in changed if i in around]
        heapify(queue)
        queued, changed, born = {i for _, _, i in queue}, set(), set()
        while queue and queue[0][0] < tau and len(around) > stop:
            turn = heappop(queue)
            i = turn[2]
            near = around.get(i)
            if not near:
                continue
            queued.discard(i)
            missing = [(regions[i], regions[j]) for j in near if i ^ j not in energies]
            if missing:
                if not all(mesh.is_large(a, b) for a, b in missing):
                    soon = [k for e, _, k in queue[:LOOKAHEAD_REGIONS] if k in around and e < tau]
                    mesh.measure_unions(
                        (regions[k], regions[j])
                        for k in (i, *soon)
                        for j in around[k]
                        if k ^ j not in energies
                    )
                best = min((energies[i ^ j] for j in near if i ^ j in energies), default=math.inf)
                blocked = min(blocked, mesh.measure_large(missing, min(best, tau)))
            beta, j = math.inf, 0
            for k in near:
                b = energies.get(i ^ k, math.inf)
                if b < beta or (b == beta < math.inf and regions[k].first < regions[j].first):
                    beta, j = b, k
            if beta > tau or beta == math.inf:
                blocked = min(blocked, beta)
                continue
            pairs.append((regions[i], regions[j]))
            new = mesh.unite(regions[i], regions[j]).key
            gone = {i, j}
            near = around[new] = (around.pop(i) | around.pop(j)) - gone
            born.add(new)
            changed.add(new)
            for k in near:
                around[k] = (around[k] - gone) | {new}
                if k in born or order[k] < turn:  # its turn comes in the next pass
                    changed.add(k)
                elif k not in queued:
                    queued.add(k)
                    heappush(queue, order[k])
    above = (energies[i] for i in around if energies[i] >= tau)
    return Merges(pairs, len(around), min(blocked, min(above, default=math.inf)), tau)


class LowerBound:
    """A lower bound of β of a union, without a transform of its box, from how rough its cells are.

    Parameters
    ----------
    beta : Barron
        Measures regions.

    Notes
    -----
    Write ‖f‖ for the mean of |F| over the box's frequencies. Then ``β = Σ_a n_a/2π ‖∂_a f‖`` and
    ``‖∂_a f‖ ≥ ‖Δ_a f‖`` for the difference Δ_a of neighbours, as |sin x| ≤ |x|; and
    ``‖Δ_a f‖ ≥ ‖w Δ_a f‖`` for a window w whose transform is positive, as then ‖w‖ = w(0) = 1. A
    triangular window makes it a matter of one cell; Hölder's ``‖g‖ ≥ (Σg²)^(3/2) / (Σr²)^½``, r the
    autocorrelation of g, one that is the same for all boxes at least twice the cell. The rougher
    the cell and the larger the box, the higher the bound: a black sky with each of the cells along
    its border need not be transformed.
    """

    def __init__(self, beta: Barron) -> None:
        self._beta, edges = beta, beta.edges
        self._largest = tuple(int(np.diff(e).max()) for e in edges)
        self._rough = np.full((math.prod(beta.n_cells), len(edges)), np.nan)  # NaN: not computed
        self._roughest: dict[int, list[float]] = {}  # by the region's key

    def __call__(self, a: Region, b: Region) -> float:
        """At most β of the union; 0 where nothing is known."""
        size = self._beta.box_of(tuple(map(or_, a.bits, b.bits)))[1]
        if any(n < 2 * m for n, m in zip(size, self._largest)):
            return 0.0
        rough = max(sum(n * v for n, v in zip(size, self._row(region))) for region in (a, b))
        scale = float(scales(np.asarray(size), self._beta.normalisation))
        return 0.999 * math.prod(size) / scale * rough

    def _row(self, region: Region) -> list[float]:
        """The :meth:`_roughness` of a region's roughest cell."""
        if region.key not in self._roughest:
            cells = np.asarray(region.cells)
            new = cells[np.isnan(self._rough[cells, 0])]
            if len(new):
                self._rough[new] = self._roughness(new)
            rows = self._rough[cells]
            self._roughest[region.key] = rows[rows.sum(axis=1).argmax()].tolist()
        return self._roughest[region.key]

    def _roughness(self, cells: Integers) -> Floats:
        """``‖w Δ_a y‖ / 2π``, or less, of some cells along each axis a; 0 where samples miss."""
        y, present, edges = self._beta.y, self._beta.present, self._beta.edges
        d, C = len(edges), len(y)
        found = np.zeros((len(cells), d))
        at = np.stack(np.unravel_index(cells, self._beta.n_cells), axis=1)
        half = [int(np.diff(e).min()) // 2 for e in edges]
        if min(half) == 0:
            return found
        size = [2 * h - 1 for h in half]
        w = np.ones(())
        for h in half:
            w = np.multiply.outer(w, 1 - np.abs(np.arange(1 - h, h)) / h)
        padded, axes = [int(next_fast_len(2 * n, real=True)) for n in size], tuple(range(2, 2 + d))
        step = max(1, BATCH_SAMPLES // (C * math.prod(padded)))
        for i in range(0, len(found), step):
            Y = np.empty((len(at[i : i + step]), C, *(n + 1 for n in size)))
            for out, cell in zip(Y, at[i : i + step]):
                low = [int(e[j]) for e, j in zip(edges, cell)]
                box = tuple(slice(a, a + n + 1) for a, n in zip(low, size))
                out[...] = np.ldexp(y[:, *box], -self._exponent)
                if present is not None and not present[:, *box].all():
                    out[...] = 0
            for k in range(d):
                inner = tuple(slice(None if j == k else -1) for j in range(d))
                g = w * np.diff(Y, axis=2 + k)[..., *inner]
                power = np.abs(rfftn(g, padded, axes=range(2, 2 + d))) ** 2
                r2 = (power**2 * mirrored(padded[-1])).sum(axis=axes) / math.prod(padded)
                g2 = (g**2).sum(axis=axes)
                r2 = np.maximum(r2, np.finfo(float).tiny)
                found[i : i + step, k] = (g2**1.5 / np.sqrt(r2)).sum(axis=1) / (2 * np.pi)
        return np.asarray(np.ldexp(found, self._exponent))

    @cached_property
    def _exponent(self) -> int:
        """Of a power of 2 about as large as the samples, so that squares stay finite."""
        return math.frexp(max(float(self._beta.y.max()), -float(self._beta.y.min())))[1]
