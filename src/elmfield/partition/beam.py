"""BEAM, Algorithm 1 of the paper: merge neighbouring regions while their energy stays under τ.

`merge` is the algorithm, `Mesh` has the cells and the energies measured so far; `search` finds the
τ that leaves a number of regions. Where regions must be boxes, they can lie like the blades of a
mill, each in the way of the others; pair by pair nothing can be merged then. The box around two
neighbours, grown until it cuts no region, can be (`merge_boxes`).
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import heapify, heappop, heappush
from operator import or_

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import wrong
from elmfield._array.typing import Array, Floats, Integers
from elmfield.partition.barron import Barron, Region, spans, union, unite

LOOKAHEAD_REGIONS = 64
"""Regions whose unions are transformed together when one energy is missing."""

CANDIDATES = 16
"""Boxes whose energy is measured before one is chosen: the smallest."""

BOUND_MIN_CELLS = 64
"""Cells in a box that is worth a lower bound before it is transformed."""


def checked(energy: Callable[[Floats], Array]) -> Callable[[Floats], Floats]:
    """A caller's energy, whose results are looked at."""
    if not callable(energy):
        raise wrong("energy", "be a function of boxes, or None", energy, TypeError)

    def measure(boxes: Floats) -> Floats:
        found = np.asarray(to_numpy(energy(boxes)), np.float64)
        if found.shape != boxes.shape[:1] or not (np.isfinite(found) & (found >= 0)).all():
            each = f"each of {len(boxes)} boxes of shape {boxes.shape[1:]}"
            raise wrong("energy", f"give a number of 0 or more for {each}", found)
        return found

    return measure


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
        for i, j in touching(numbers, beta.partition.periodic).tolist():
            a, b = self.cells[i].key, self.cells[j].key
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)
        self.energies: dict[int, float] = {}
        self.regions = {c.key: c for c in self.cells}
        self.measure(self.cells)
        self.order = {c.key: (self.energies[c.key], c.first, c.key) for c in self.cells}

    def measure(self, regions: Iterable[Region]) -> None:
        """Find the energies of regions that have not been measured."""
        new = {r.key: r for r in regions if r.key not in self.energies}
        self.energies.update(zip(new, self.beta(list(new.values())).tolist()))

    def is_open(self, a: Region, b: Region) -> bool:
        """Whether the union may be a region and was not measured.

        Where regions must be boxes, a union that is none has infinite energy.
        """
        key = a.key ^ b.key
        known = key in self.energies
        if self.boxes and not known and len(a.cells) + len(b.cells) < extent(a, b):
            self.energies[key] = math.inf
        return key not in self.energies

    def measure_unions(self, pairs: Iterable[tuple[Region, Region]]) -> None:
        """Find the energies of unions, except of those in large boxes."""
        each = {a.key ^ b.key: (a, b) for a, b in pairs}.values()
        small = (union(a, b) for a, b in each if self.is_open(a, b) and not self.is_large(a, b))
        self.measure(small)

    def is_large(self, a: Region, b: Region) -> bool:
        """Whether the box around both is too large to be transformed without need."""
        return extent(a, b) > BOUND_MIN_CELLS and (a.peak > 0 or b.peak > 0)

    def measure_large(self, pairs: list[tuple[Region, Region]], limit: float) -> float:
        """Find the least energy of the unions, up to `limit`; return the least bound left.

        Large boxes take long. They are measured one by one, the lowest bound first, until no other
        can have less energy than what was found.
        """
        least, is_open = self.beta.bound, self.is_open
        left = [(least(a, b), a.key ^ b.key, a, b) for a, b in pairs if is_open(a, b)]
        for bound, key, a, b in sorted(left, key=lambda entry: entry[:2]):
            if bound > limit:
                return bound
            self.measure([union(a, b)])
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
        root = np.arange(len(self.cells))
        for a, b in pairs:  # a region is known by its first cell
            root[max(a.first, b.first)] = min(a.first, b.first)
        while not np.array_equal(root, root[root]):
            root = root[root]
        return np.unique(root, return_inverse=True)[1].reshape(self.beta.n_cells)


def extent(a: Region, b: Region) -> int:
    """Cells in the box around two regions, where it has no gaps."""
    return math.prod([(x | y).bit_count() for x, y in zip(a.grid, b.grid)])


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


def merge_cells(
    beta: Barron, threshold: float | None, regions: int | None, *, boxes: bool
) -> tuple[Integers, float, Floats]:
    """The region of each cell, merged up to a threshold, or else to a number of regions.

    And τ, and the energy of each region.
    """
    mesh = Mesh(beta, boxes)
    run = search(mesh, int(regions or 1)) if threshold is None else merge(mesh, float(threshold))
    labels = mesh.labels(run.pairs)
    if not run.pairs and len(mesh.cells) > 1:
        asked = f"threshold={run.threshold:.3g}" if regions is None else f"regions={regions}"
        warnings.warn(
            f"nothing was merged: with {asked} each of the {len(mesh.cells)} cells is a region of "
            "its own. Use smaller cells, or ask for fewer regions or a larger threshold.",
            UserWarning,
            stacklevel=3,
        )
    found = unite(mesh.cells, labels)
    mesh.measure(found)
    return labels, run.threshold, np.asarray([mesh.energies[r.key] for r in found])


def search(mesh: Mesh, n_regions: int) -> Merges:
    """Algorithm 1 with a threshold that leaves `n_regions` regions.

    The number of regions falls with τ, but not strictly, and in steps. A bracket is narrowed as if
    log N were a straight line in log τ; when it is as narrow as rounding allows, the run with its
    upper end is broken off in time. Runs that lead too far are broken off, too.
    """
    beta = np.sort([mesh.energies[c.key] for c in mesh.cells])
    N, n = n_regions, len(beta)
    if n == N:
        return Merges([], n, float(beta[0]), float(beta[0]))
    positive = beta[beta > 0]
    least = float(positive[0]) if len(positive) else 1.0
    stop = N - 1 - N // 50
    low, high, above, below = 0.0, math.inf, n, 0
    # Energies of texture grow with the area, and the average region gets n / N cells.
    tau = max(float(np.quantile(beta, 1 - N / n)) * n / N, least)
    while True:
        run = merge(mesh, tau, stop)
        if run.n_regions == N:
            return run
        if run.n_regions < N:
            high, below = tau, run.n_regions
        elif run.next_energy < math.inf:
            low, above = tau, run.n_regions
        else:
            return merge_boxes(mesh, run, N)  # boxes in each other's way
        if high == math.inf:
            tau = max(1.4 * low, run.next_energy)
        elif low == 0 and high > least / 2:
            tau = high / 1.4
        elif high > low * (1 + 1e-6) and low > 0:
            known = below > stop  # else the run was broken off, and would have led further
            part = math.log(above / N) / math.log(above / below) if known else 0.5
            tau = low * (high / low) ** min(max(part, 0.1), 0.9)
        else:
            return merge(mesh, high, N)


def merge_boxes(mesh: Mesh, run: Merges, n_regions: int) -> Merges:
    """The boxes of a run that came to an end, merged on until `n_regions` are left.

    Each time the boxes that together have the least energy. Where that would leave too few, their
    box is cut again, the part of greatest energy first.
    """
    merger = _BoxMerger(mesh, run)
    while len(merger.regions) > n_regions:
        excess = len(merger.regions) - n_regions
        members = merger.best(excess)
        merger.merge(members, 1 + max(0, len(members) - 1 - excess))
    pairs = [
        (mesh.cells[r.first], mesh.cells[c])
        for r in merger.regions.values()
        for c in r.cells
        if c != r.first
    ]
    return Merges(pairs, n_regions, run.next_energy, run.threshold)


class _BoxMerger:
    """Regions that are boxes of cells, by number, and what would become of merging neighbours."""

    def __init__(self, mesh: Mesh, run: Merges) -> None:
        self.mesh, self.labels = mesh, mesh.labels(run.pairs)
        self.regions = dict(enumerate(unite(mesh.cells, self.labels)))
        self.next = len(self.regions)

    def _energy(self, region: Region) -> float:
        self.mesh.measure([region])
        return self.mesh.energies[region.key]

    def best(self, excess: int) -> frozenset[int]:
        """Boxes that make one box of little energy, if possible at most `excess` and one."""
        pairs = touching(self.labels, self.mesh.beta.partition.periodic).tolist()
        every = {self._close(pair) for pair in pairs}  # around every two neighbours
        fitting = [m for m in every if len(m) - 1 <= excess]

        def size(members: frozenset[int]) -> tuple[int, list[int]]:
            return sum(len(self.regions[i].cells) for i in members), sorted(members)

        def energy(members: frozenset[int]) -> tuple[float, list[int]]:
            ordered = sorted(members)
            return self._energy(reduce(union, (self.regions[i] for i in ordered))), ordered

        # Energies grow with the area, and large boxes take long to transform.
        return min(sorted(fitting or every, key=size)[:CANDIDATES], key=energy)

    def _close(self, pair: Iterable[int]) -> frozenset[int]:
        """The regions inside the smallest box around two that cuts none."""
        members = frozenset(pair)
        while True:
            grids = zip(*(self.regions[i].grid for i in members))
            shape, around = self.labels.shape, (reduce(or_, bits) for bits in grids)
            sides = spans(around, shape, self.mesh.beta.partition.periodic)
            at = [(a + np.arange(length)) % n for (a, length), n in zip(sides, shape)]
            found = frozenset(np.unique(self.labels[np.ix_(*at)]).tolist())
            if found == members:
                return members
            members = found

    def merge(self, members: frozenset[int], pieces: int) -> None:
        """One box of several, or `pieces` boxes in the same place."""
        parts = [reduce(union, (self.regions.pop(i) for i in sorted(members)))]
        while len(parts) < pieces:
            energies = [self._energy(p) if len(p.cells) > 1 else -1.0 for p in parts]
            parts += self._halve(parts.pop(int(np.argmax(energies))))
        for part in parts:
            self.regions[self.next] = part
            self.labels.reshape(-1)[list(part.cells)] = self.next
            self.next += 1

    def _halve(self, box: Region) -> list[Region]:
        """A box of cells cut across its longest axis."""
        sides = spans(box.grid, self.labels.shape, self.mesh.beta.partition.periodic)
        k, cells = int(np.argmax([length for _, length in sides])), np.sort(box.cells)
        first, length = sides[k]
        at = np.unravel_index(cells, self.labels.shape)[k]
        low = (at - first) % self.labels.shape[k] < length // 2
        halves = (cells[low].tolist(), cells[~low].tolist())
        return [reduce(union, (self.mesh.cells[c] for c in half)) for half in halves]
