"""Fewer boxes where no two make a box: several at a time, all that the box around two of them cuts.

Boxes can lie like the blades of a mill, each in the way of the others; pair by pair nothing can be
merged then. The box around two neighbours, grown until it cuts no region, can be.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_

import numpy as np

from elmfield._array.typing import Integers
from elmfield.partition.beam.merge import Merged, Start
from elmfield.partition.beam.regions import Region, span, union

LOOKED_AT = 16
"""Boxes whose energy is measured before one is chosen: the smallest."""


def boxed(start: Start, run: Merged, n_regions: int) -> Merged:
    """The boxes of a run that came to an end, merged on until `n_regions` are left.

    Each time the boxes that together have the least energy. Where that would leave too few, their
    box is cut again, the part of greatest energy first.
    """
    mill = _Mill(start, run)
    while len(mill.regions) > n_regions:
        excess = len(mill.regions) - n_regions
        members = mill.best(excess)
        mill.merge(members, 1 + max(0, len(members) - 1 - excess))
    pairs = [
        (start.cells[r.first], start.cells[c])
        for r in mill.regions.values()
        for c in r.cells
        if c != r.first
    ]
    return Merged(pairs, n_regions, run.next_energy)


class _Mill:
    """Boxes on a grid of cells, and what would become of merging neighbours."""

    def __init__(self, start: Start, run: Merged) -> None:
        self.start, beta = start, start.beta
        self.shape, self.wraps = beta.n_cells, beta.periodic
        labels = start.labels(run.pairs)
        self.labels: Integers = labels
        self.regions: dict[int, Region] = {}
        self.next = 0
        self._known: dict[tuple[int, int], frozenset[int]] = {}
        flat = labels.reshape(-1).copy()
        for i in range(int(flat.max()) + 1):
            self._add(np.flatnonzero(flat == i))

    def _add(self, cells: Iterable[int]) -> None:
        region = reduce(union, (self.start.cells[int(c)] for c in cells))
        self.start.measure([region])
        self.regions[self.next] = region
        self.labels.reshape(-1)[list(region.cells)] = self.next
        self.next += 1

    def best(self, excess: int) -> frozenset[int]:
        """Boxes that make one box of little energy, if possible at most `excess` and one."""
        every = self.candidates()
        fitting = [m for m in every if len(m) - 1 <= excess]

        def size(members: frozenset[int]) -> tuple[int, list[int]]:
            return sum(len(self.regions[i].cells) for i in members), sorted(members)

        # Energies grow with the area, and large boxes are dear to transform.
        few = sorted(fitting or every, key=size)[:LOOKED_AT]
        return min(few, key=lambda m: (self._energy_of(m), sorted(m)))

    def _energy_of(self, members: frozenset[int]) -> float:
        whole = reduce(union, (self.regions[i] for i in sorted(members)))
        self.start.measure([whole])
        return self.start.known[whole.key]

    def candidates(self) -> set[frozenset[int]]:
        """Sets of boxes that make one box, around every two neighbours."""
        pairs, there = self._neighbours(), set(self.regions)
        self._known = {p: m for p, m in self._known.items() if p in pairs and m <= there}
        for pair in pairs - set(self._known):
            self._known[pair] = self._closed(pair)
        return set(self._known.values())

    def _neighbours(self) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for k, wraps in enumerate(self.wraps):
            other = np.roll(self.labels, -1, axis=k)
            last = self.shape[k] if wraps else self.shape[k] - 1
            a = np.take(self.labels, range(last), axis=k).reshape(-1)
            b = np.take(other, range(last), axis=k).reshape(-1)
            both = np.unique(np.sort(np.stack([a, b], axis=1)[a != b], axis=1), axis=0)
            found.update((int(i), int(j)) for i, j in both)
        return found

    def _closed(self, pair: tuple[int, int]) -> frozenset[int]:
        """The regions inside the smallest box around two that cuts none."""
        members = frozenset(pair)
        while True:
            bits = [reduce(or_, (self.regions[i].grid[k] for i in members)) for k in range(self._d)]
            runs = [span(b, n if w else 0) for b, n, w in zip(bits, self.shape, self.wraps)]
            at = [(first + np.arange(length)) % n for (first, length), n in zip(runs, self.shape)]
            found = frozenset(np.unique(self.labels[np.ix_(*at)]).tolist())
            if found == members:
                return members
            members = found

    @property
    def _d(self) -> int:
        return len(self.shape)

    def merge(self, members: frozenset[int], pieces: int) -> None:
        """One box of several, or `pieces` boxes in the same place."""
        whole = np.concatenate([self.regions.pop(i).cells for i in sorted(members)])
        parts = [np.sort(whole)]
        while len(parts) < pieces:
            energies = [self._energy(p) if len(p) > 1 else -1.0 for p in parts]
            parts += self._halves(parts.pop(int(np.argmax(energies))))
        for cells in parts:
            self._add(cells)

    def _energy(self, cells: Integers) -> float:
        region = reduce(union, (self.start.cells[int(c)] for c in cells))
        self.start.measure([region])
        return self.start.known[region.key]

    def _halves(self, cells: Integers) -> list[Integers]:
        """A box of cells cut across its longest axis."""
        at = np.stack(np.unravel_index(cells, self.shape))
        place, lengths = [], []
        for k, (n, wraps) in enumerate(zip(self.shape, self.wraps)):
            bits = reduce(or_, (1 << int(j) for j in set(at[k].tolist())))
            first, length = span(bits, n if wraps else 0)
            place.append((at[k] - first) % n)
            lengths.append(length)
        k = int(np.argmax(lengths))
        low = place[k] < lengths[k] // 2
        return [cells[low], cells[~low]]
