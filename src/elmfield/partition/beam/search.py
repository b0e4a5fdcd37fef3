"""A number of regions: search the threshold τ of Algorithm 1 that leaves so many.

Where regions must be boxes, they can lie like the blades of a mill, each in the way of the others;
pair by pair nothing can be merged then. The box around two neighbours, grown until it cuts no
region, can be (`merge_boxes`).
"""

import math
import warnings
from collections.abc import Iterable
from functools import reduce
from operator import or_

import numpy as np

from elmfield._array.typing import Floats, Integers
from elmfield.partition.beam.energy import Barron, Region, span, union
from elmfield.partition.beam.merge import Merges, Mesh, merge, touching

CANDIDATES = 16
"""Boxes whose energy is measured before one is chosen: the smallest."""


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
    parts: dict[int, list[Region]] = {}
    for cell, i in zip(mesh.cells, labels.reshape(-1).tolist()):
        parts.setdefault(i, []).append(cell)
    found = [reduce(union, parts[i]) for i in range(len(parts))]
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
        flat = self.labels.reshape(-1)
        self.next = int(flat.max()) + 1
        self.regions = {i: self._union(np.flatnonzero(flat == i)) for i in range(self.next)}
        self._closures: dict[tuple[int, int], frozenset[int]] = {}

    def _union(self, cells: Integers) -> Region:
        members: list[int] = cells.tolist()
        return reduce(union, (self.mesh.cells[c] for c in members))

    def _energy(self, region: Region) -> float:
        self.mesh.measure([region])
        return self.mesh.energies[region.key]

    def _spans(self, grid: Iterable[int]) -> list[tuple[int, int]]:
        """First cell and number of cells, on each axis, of the box around bits of cells."""
        sides = zip(grid, self.labels.shape, self.mesh.beta.periodic)
        return [span(bits, n if wraps else 0) for bits, n, wraps in sides]

    def best(self, excess: int) -> frozenset[int]:
        """Boxes that make one box of little energy, if possible at most `excess` and one."""
        every = self._candidates()
        fitting = [m for m in every if len(m) - 1 <= excess]

        def size(members: frozenset[int]) -> tuple[int, list[int]]:
            return sum(len(self.regions[i].cells) for i in members), sorted(members)

        def energy(members: frozenset[int]) -> tuple[float, list[int]]:
            ordered = sorted(members)
            return self._energy(reduce(union, (self.regions[i] for i in ordered))), ordered

        # Energies grow with the area, and large boxes take long to transform.
        return min(sorted(fitting or every, key=size)[:CANDIDATES], key=energy)

    def _candidates(self) -> set[frozenset[int]]:
        """Sets of boxes that make one box, around every two neighbours."""
        pairs = {(i, j) for i, j in touching(self.labels, self.mesh.beta.periodic).tolist()}
        there = set(self.regions)
        kept = {p: m for p, m in self._closures.items() if p in pairs and m <= there}
        self._closures = kept | {p: self._close(p) for p in pairs - set(kept)}
        return set(self._closures.values())

    def _close(self, pair: tuple[int, int]) -> frozenset[int]:
        """The regions inside the smallest box around two that cuts none."""
        members = frozenset(pair)
        while True:
            grids = zip(*(self.regions[i].grid for i in members))
            spans = self._spans(reduce(or_, bits) for bits in grids)
            at = [(a + np.arange(length)) % n for (a, length), n in zip(spans, self.labels.shape)]
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
        spans, cells = self._spans(box.grid), np.sort(box.cells)
        k = int(np.argmax([length for _, length in spans]))
        first, length = spans[k]
        at = np.unravel_index(cells, self.labels.shape)[k]
        low = (at - first) % self.labels.shape[k] < length // 2
        return [self._union(cells[low]), self._union(cells[~low])]
