"""Algorithm 1 of the paper: merge neighbouring regions while their energy stays under τ.

Enter cells with their energies and τ, leave the merges; see :mod:`elmfield.partition.beam.barron`
for what an energy is.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from elmfield._array import compiled
from elmfield._array.typing import Integers
from elmfield.partition.beam.barron import Barron
from elmfield.partition.beam.quick import Pairs, Quick
from elmfield.partition.beam.regions import Region, extent, union

LOOKAHEAD = 64
"""Regions whose unions are transformed together when one energy is missing."""

LARGE = 64
"""Cells in a box that is worth a lower bound before it is transformed."""

KEPT = 32
"""States that a run keeps at most, for other thresholds to begin at."""


class Start:
    """The mesh of cells, and all that is known about unions of them.

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
    known : dict
        Energies, by the region's key; of all cells, to begin with.
    large : dict
        Lower bounds for regions in large boxes.
    formed : dict
        The cells, and regions that some run came to.
    places : dict
        Where those stand in a pass: energy, first cell, key.
    stride : int
        After how many merges a run keeps its state for others.
    """

    def __init__(self, beta: Barron, boxes: bool = False) -> None:
        self.beta, self.boxes = beta, boxes
        self.cells = beta.cells()
        touching = faces(beta.n_cells, beta.periodic)
        self.neighbours = {
            c.key: {self.cells[j].key for j in t} for c, t in zip(self.cells, touching)
        }
        self.known: dict[int, float] = {}
        self.large: dict[int, float] = {}
        self.formed = {c.key: c for c in self.cells}
        self.measure(self.cells)
        self.places = {c.key: (self.known[c.key], c.first, c.key) for c in self.cells}
        self.stride = 1 + len(self.cells) // KEPT
        self._kept: list[State] = []
        self.quick: Quick | None = None
        if beta.fusible and compiled.pays(beta.y.size):
            energies = [self.known[c.key] for c in self.cells]
            self.quick = Quick(beta, self.cells, energies, touching, boxes)

    def measure(self, regions: Iterable[Region]) -> None:
        """Learn the energies of regions not yet known."""
        new = {r.key: r for r in regions if r.key not in self.known}
        self.known.update(zip(new, self.beta(list(new.values())).tolist()))

    def measure_unions(self, pairs: Iterable[tuple[Region, Region]]) -> None:
        """Learn the energies of unions, but for those in large boxes.

        Where regions must be boxes, a union that is none has infinite energy.
        """
        new: dict[int, Region] = {}
        for a, b in pairs:
            key = a.key ^ b.key
            if key in self.known or key in new:
                continue
            if self.boxes and len(a.cells) + len(b.cells) < extent(a, b):
                self.known[key] = math.inf
            elif not self.is_large(a, b):
                new[key] = union(a, b)
        self.measure(new.values())

    def is_large(self, a: Region, b: Region) -> bool:
        """Whether the box around both is too large to be transformed without need."""
        return extent(a, b) > LARGE and (a.peak > 0 or b.peak > 0)

    def measure_large(self, pairs: list[tuple[Region, Region]], limit: float) -> float:
        """Learn the least energy of the unions, if it is at most `limit`; the least bound left.

        Large boxes are dear. They are measured one by one, the lowest bound first, until no other
        can have less energy than what was found.
        """
        for a, b in pairs:
            if self.boxes and len(a.cells) + len(b.cells) < extent(a, b):
                self.known[a.key ^ b.key] = math.inf
        left = [
            (self._bound(a, b), a.key ^ b.key, a, b)
            for a, b in pairs
            if a.key ^ b.key not in self.known
        ]
        for bound, key, a, b in sorted(left, key=lambda entry: entry[:2]):
            if bound > limit:
                return bound
            self.measure([union(a, b)])
            limit = min(limit, self.known[key])
        return math.inf

    def _bound(self, a: Region, b: Region) -> float:
        key = a.key ^ b.key
        if key not in self.large:
            self.large[key] = self.beta.at_least(a, b)
        return self.large[key]

    def united(self, a: Region, b: Region) -> Region:
        """The union of two regions, kept for the next run."""
        key = a.key ^ b.key
        if key not in self.formed:
            u = self.formed[key] = union(a, b)
            self.places[key] = (self.known[key], u.first, key)
        return self.formed[key]

    def reached(self, tau: float, stop: int) -> "State":
        """Where a run with threshold τ can begin: the furthest state kept that it would come to."""
        kept = [s for s in self._kept if s.low < tau < s.high and len(s.around) >= stop]
        if kept:
            return max(kept, key=lambda s: len(s.pairs)).copy()
        around = dict(self.neighbours)
        return State(around, set(around), [], set(), set(), [], math.inf, -math.inf, math.inf)

    def keep(self, state: "State") -> None:
        """Remember a state for other thresholds."""
        if state.low < state.high:
            self._kept.append(state.copy())

    def forget(self, low: float, high: float) -> None:
        """Drop the states that no threshold between these two comes to."""
        self._kept = [s for s in self._kept if s.low < high and s.high > low]

    def labels(self, pairs: Sequence[tuple[Region, Region]]) -> Integers:
        """The region of each cell after the given merges, numbered by first cells."""
        if isinstance(pairs, Pairs):
            firsts = pairs.first_cells
        else:
            firsts = np.asarray([(a.first, b.first) for a, b in pairs], int).reshape(-1, 2)
        root = np.arange(len(self.cells))
        root[firsts.max(axis=1)] = firsts.min(axis=1)  # a region is known by its first cell
        while not np.array_equal(root, root[root]):
            root = root[root]
        return np.unique(root, return_inverse=True)[1].reshape(self.beta.n_cells)


def faces(n_cells: tuple[int, ...], periodic: tuple[bool, ...]) -> list[list[int]]:
    """For each cell of a grid, in array order, the cells that share a face with it."""
    number = np.arange(math.prod(n_cells)).reshape(n_cells)
    found: list[set[int]] = [set() for _ in range(number.size)]
    for k, wraps in enumerate(periodic):
        last = n_cells[k] if wraps else n_cells[k] - 1
        a = np.take(number, range(last), axis=k).reshape(-1)
        b = np.take(np.roll(number, -1, axis=k), range(last), axis=k).reshape(-1)
        for i, j in zip(a.tolist(), b.tolist()):
            if i != j:
                found[i].add(j)
                found[j].add(i)
    return [sorted(f) for f in found]


@dataclass(frozen=True)
class Merged:
    """What one run of the algorithm did.

    Parameters
    ----------
    pairs : sequence of pairs of Region
        What merged with what, in order.
    n_regions : int
        How many are left.
    next_energy : float
        The least energy above τ that kept a region from merging; infinite if none did.
    """

    pairs: Sequence[tuple[Region, Region]]
    n_regions: int
    next_energy: float


@dataclass(slots=True)
class State:
    """A run of the algorithm on its way, and the thresholds that would have led here, too.

    Parameters
    ----------
    around : dict
        Keys of the regions there are, with those of their neighbours. The sets are not changed,
        only replaced, so that a copy of the dictionary is a copy of the state.
    changed : set
        Whose turn comes in the next pass.
    queue, queued : list, set
        Whose turn comes in this pass: a heap of places, and the keys in it.
    born : set
        Regions that came to be in this pass.
    pairs : list of pairs of Region
        What merged with what.
    blocked : float
        The least energy that kept two regions from merging.
    low, high : float
        Every τ between these, both left out, comes to this state.
    """

    around: dict[int, set[int]]
    changed: set[int]
    queue: list[tuple[float, int, int]]
    queued: set[int]
    born: set[int]
    pairs: list[tuple[Region, Region]]
    blocked: float
    low: float
    high: float

    def copy(self) -> "State":
        """The same state, to go on from."""
        return State(
            self.around.copy(), self.changed.copy(), self.queue.copy(), self.queued.copy(),
            self.born.copy(), self.pairs.copy(), self.blocked, self.low, self.high,
        )  # fmt: skip


def merge(start: Start, tau: float, stop: int = 1) -> Merged:
    """Algorithm 1 with threshold τ, broken off when `stop` regions are left.

    Notes
    -----
    In the paper every pass looks at every region. A region that found no partner will find none
    until a neighbour changes, so looking again is left out; one whose neighbour changes in the
    current pass before its turn has its turn in this pass, as there.

    A run begins where an earlier one was when τ first made a difference, or shortly before.
    """
    if start.quick is not None:
        return Merged(*start.quick.merge(tau, stop, LOOKAHEAD, LARGE))
    known, place_of, regions = start.known, start.places, start.formed
    state = start.reached(tau, stop)
    around, changed, queue = state.around, state.changed, state.queue
    queued, born, pairs = state.queued, state.born, state.pairs
    mark = len(pairs) + start.stride
    while len(around) > stop:
        if not queue or queue[0][0] >= tau:  # the next pass
            if queue:
                state.high = min(state.high, queue[0][0])
            queue = state.queue = [place_of[i] for i in changed if i in around]
            heapify(queue)
            if not queue or queue[0][0] >= tau:
                break
            queued = state.queued = {i for _, _, i in queue}
            changed, born = state.changed, state.born = set(), set()
        place = heappop(queue)
        i = place[2]
        near = around.get(i)
        if not near:
            continue
        queued.discard(i)
        bound = math.inf
        missing = [(regions[i], regions[j]) for j in near if i ^ j not in known]
        if missing:
            if not all(start.is_large(a, b) for a, b in missing):
                soon = [k for e, _, k in queue[:LOOKAHEAD] if k in around and e < tau]
                start.measure_unions(
                    (regions[k], regions[j])
                    for k in (i, *soon)
                    for j in around[k]
                    if k ^ j not in known
                )
            best = min((known[i ^ j] for j in near if i ^ j in known), default=math.inf)
            bound = start.measure_large(missing, min(best, tau))
            state.blocked = min(state.blocked, bound)
        beta, j = math.inf, 0
        for k in near:
            energy = known.get(i ^ k, math.inf)
            if energy < beta or (energy == beta < math.inf and regions[k].first < regions[j].first):
                beta, j = energy, k
        if beta > tau or beta == math.inf:
            state.blocked = min(state.blocked, beta)
            state.low, state.high = max(state.low, place[0]), min(state.high, beta, bound)
            continue
        state.low = max(state.low, place[0], beta)
        a, b = regions[i], regions[j]
        pairs.append((a, b))
        new = start.united(a, b).key
        gone = {i, j}
        near = around[new] = (around.pop(i) | around.pop(j)) - gone
        born.add(new)
        changed.add(new)
        for k in near:
            others = around[k] - gone
            others.add(new)
            around[k] = others
            if k not in born and place_of[k] > place:  # still to come in this pass
                if k not in queued:
                    queued.add(k)
                    heappush(queue, place_of[k])
            else:
                changed.add(k)
        if len(pairs) >= mark:
            mark += start.stride
            start.keep(state)
    above = (known[i] for i in around if known[i] >= tau)
    return Merged(pairs, len(around), min(state.blocked, min(above, default=math.inf)))
