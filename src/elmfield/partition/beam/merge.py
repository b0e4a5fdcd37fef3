"""BEAM: merge neighbouring regions while their energy stays under τ (the paper's Algorithm 1).

Enter samples, leave a Partition. Energies come from `energy`; fitting is not known here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from elmfield._array.checks import per_axis
from elmfield._array.typing import Array, Integers
from elmfield.domain.periods import Periodic, wraps_of
from elmfield.partition.beam.barron import Energy, Region, samples_of, union
from elmfield.partition.partition import Partition

LOOKAHEAD = 256
"""Regions whose unions are transformed together when one energy is missing."""

LARGE = 64
"""Cells in a box that is worth a lower bound before it is transformed."""

SHAPES = ("any", "boxes")


def beam(
    values: Array,
    mask: Array | None = None,
    *,
    cell: int | Sequence[int],
    threshold: float | None = None,
    regions: int | None = None,
    channel_axis: int | None = None,
    periodic: Periodic = (),
    overlap: float | Sequence[float] = 0,
    normalisation: str = "forward",
    outside: str = "zero",
    shapes: str = "any",
) -> Partition:
    """A Partition whose regions are about equally hard to fit: large where little happens.

    Starts from a regular mesh. Pass after pass, from the least energy to the greatest, each region
    below the threshold τ merges with the neighbour with which its energy stays least, if that is at
    most τ; until nothing merges.

    Parameters
    ----------
    values : array
        Samples on a grid, in any number of dimensions; NaN marks a missing one.
    mask : array of bool, optional
        True where a sample is missing.
    cell : int or sequence of int
        Samples per cell of the mesh to start from; cells are never cut.
    threshold : float
        τ: no region of more than one cell has a greater energy, as :func:`barron_norm` measures it.
    regions : int
        Give exactly so many regions instead: τ is searched for. Where no τ gives that number, the
        last pass of the next greater τ stops at it.
    channel_axis : int, optional
        Which axis holds channels; their energies are added.
    periodic : int, sequence of int, or mapping
        Numbers of the axes that wrap around, as in `fit`: regions may go across their ends. Axes
        have no names here.
    overlap : float or sequence of float
        Half-width of the blend across cell borders, in samples.
    normalisation, outside : str
        Of the energy; see :func:`barron_norm`.
    shapes : {"any", "boxes"}
        Whether regions may have any shape, as in the paper, or only boxes. Few different boxes
        occur, and regions of one shape share their factorisation: the fit costs as on a mesh.

    Returns
    -------
    Partition
        Regions are numbered by their first cell, in array order.

    Notes
    -----
    Ties go to the region whose first cell comes first. Every pass, and every τ of the search, looks
    only at regions whose surroundings changed, and no set of cells is transformed twice.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> x = np.linspace(0, 1, 64)
    >>> picture = np.sin(8 * np.pi * x**3)[:, None] * np.sin(np.pi * x)
    >>> partition = ef.beam(picture, cell=8, regions=20)
    >>> partition.n_regions
    20
    """
    y, present = samples_of(values, mask, channel_axis)
    shape = y.shape[1:]
    d = len(shape)
    wraps_of(periodic, d)  # before a message about cells
    for k, (c, n) in enumerate(zip(per_axis("cell", cell, d), shape)):
        if c > n:
            raise ValueError(
                f"`cell` must not be larger than the array; got cell={c!r} on axis {k} with {n} "
                "samples. Use smaller cells."
            )
    if shapes not in SHAPES:
        raise ValueError(f"`shapes` must be one of {list(SHAPES)}; got {shapes!r}.")
    if (threshold is None) == (regions is None):
        raise ValueError(
            "give either `threshold` or `regions`; got "
            + ("neither." if threshold is None else "both.")
        )
    mesh = Partition.regular(shape, cell, overlap, periodic=periodic)
    start = Start.of(Energy(y, present, mesh, normalisation, outside), shapes == "boxes")
    if threshold is not None:
        if not threshold > 0:  # also NaN
            raise ValueError(f"`threshold` must be a positive number; got {threshold!r}.")
        return mesh.changed(labels=start.labels(merge(start, float(threshold)).pairs))
    assert regions is not None
    if isinstance(regions, bool) or int(regions) != regions:
        raise ValueError(f"`regions` must be a whole number; got {regions!r}.")
    if not 1 <= regions <= mesh.n_regions:
        raise ValueError(
            f"`regions` must lie between 1 and the number of cells, {mesh.n_regions} for shape "
            f"{shape} and cell={cell!r}; got {regions}. Use smaller cells for more regions."
        )
    return mesh.changed(labels=start.labels(search(start, int(regions)).pairs))


@dataclass(frozen=True, eq=False)
class Start:
    """The mesh of cells, and all that is known about unions of them.

    Energies depend on sets of cells, not on τ: what one run of the algorithm had to transform, the
    next finds here.

    Parameters
    ----------
    energy : Energy
        Measures regions.
    cells : list of Region
        The regions to start from.
    neighbours : dict
        Keys of the cells that share a face with a cell, by its key.
    boxes : bool
        Whether only unions that fill their box are allowed.
    known : dict
        Energies, by the region's key.
    large : dict
        Lower bounds for regions in large boxes.
    formed : dict
        Regions that some run came to.
    """

    energy: Energy
    cells: list[Region]
    neighbours: dict[int, list[int]]
    boxes: bool
    known: dict[int, float] = field(default_factory=dict)
    large: dict[int, float] = field(default_factory=dict)
    formed: dict[int, Region] = field(default_factory=dict)

    @classmethod
    def of(cls, energy: Energy, boxes: bool) -> "Start":
        """The start for the cells of an Energy, with the energies of all cells and pairs."""
        cells = energy.cells()
        touching = faces(energy.partition.n_cells, energy.partition.periodic)
        neighbours = {c.key: [cells[j].key for j in t] for c, t in zip(cells, touching)}
        start = cls(energy, cells, neighbours, boxes)
        start.measure(cells)
        return start

    def measure(self, regions: Iterable[Region]) -> None:
        """Learn the energies of regions not yet known."""
        new = {r.key: r for r in regions if r.key not in self.known}
        self.known.update(zip(new, self.energy(list(new.values())).tolist()))

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
            self.large[key] = self.energy.at_least(a, b)
        return self.large[key]

    def united(self, a: Region, b: Region) -> Region:
        """The union of two regions, kept for the next run."""
        key = a.key ^ b.key
        if key not in self.formed:
            self.formed[key] = union(a, b)
        return self.formed[key]

    def labels(self, pairs: list[tuple[Region, Region]]) -> Integers:
        """The region of each cell after the given merges, numbered by first cells."""
        root = np.arange(len(self.cells))
        for a, b in pairs:
            root[a.cells] = root[b.cells] = min(a.first, b.first)
        return np.unique(root, return_inverse=True)[1].reshape(self.energy.partition.n_cells)


def extent(a: Region, b: Region) -> int:
    """Cells in the box around two regions, where it has no gaps."""
    return math.prod((x | y).bit_count() for x, y in zip(a.grid, b.grid))


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
    pairs : list of pairs of Region
        What merged with what, in order.
    n_regions : int
        How many are left.
    next_energy : float
        The least energy above τ that kept a region from merging; infinite if none did.
    """

    pairs: list[tuple[Region, Region]]
    n_regions: int
    next_energy: float


def merge(start: Start, tau: float, stop: int = 1) -> Merged:
    """Algorithm 1 with threshold τ, broken off when `stop` regions are left.

    Notes
    -----
    In the paper every pass looks at every region. A region that found no partner will find none
    until a neighbour changes, so looking again is left out; one whose neighbour changes in the
    current pass before its turn has its turn in this pass, as there.
    """
    known, cells = start.known, start.cells
    regions = {c.key: c for c in cells}
    around = {key: set(keys) for key, keys in start.neighbours.items()}
    born = dict.fromkeys(regions, 0)  # the pass in which each came to be
    pairs: list[tuple[Region, Region]] = []
    blocked = math.inf
    turn, changed = 0, set(regions)
    while changed and len(regions) > stop:
        turn += 1
        queue = [
            (known[i], regions[i].first, i) for i in changed if i in regions and known[i] < tau
        ]
        queued, changed = {i for _, _, i in queue}, set()
        heapify(queue)
        while queue and len(regions) > stop:
            place = heappop(queue)
            i = place[2]
            if i not in regions or not around[i]:
                continue
            queued.discard(i)
            missing = [(regions[i], regions[j]) for j in around[i] if i ^ j not in known]
            if missing and not all(start.is_large(a, b) for a, b in missing):
                soon = [k for _, _, k in queue[:LOOKAHEAD] if k in regions]
                start.measure_unions(
                    (regions[k], regions[j]) for k in (i, *soon) for j in around[k]
                )
            if missing:
                best = min((known[i ^ j] for j in around[i] if i ^ j in known), default=math.inf)
                blocked = min(blocked, start.measure_large(missing, min(best, tau)))
            beta, _, j = min(
                ((known[i ^ j], regions[j].first, j) for j in around[i] if i ^ j in known),
                default=(math.inf, 0, 0),
            )
            if beta > tau or beta == math.inf:
                blocked = min(blocked, beta)
                continue
            a, b = regions.pop(i), regions.pop(j)
            pairs.append((a, b))
            u = start.united(a, b)
            regions[u.key], born[u.key] = u, turn
            around[u.key] = (around.pop(i) | around.pop(j)) - {i, j}
            changed.add(u.key)
            for k in around[u.key]:
                around[k] -= {i, j}
                around[k].add(u.key)
                turn_of_k = (known[k], regions[k].first, k)
                if born[k] < turn and turn_of_k > place:  # still to come in this pass
                    if k not in queued and known[k] < tau:
                        queued.add(k)
                        heappush(queue, turn_of_k)
                else:
                    changed.add(k)
    above = (known[i] for i in regions if known[i] >= tau)
    return Merged(pairs, len(regions), min(blocked, min(above, default=math.inf)))


def search(start: Start, n_regions: int) -> Merged:
    """Algorithm 1 with a threshold that leaves `n_regions` regions.

    The number of regions falls with τ, but not strictly, and in steps. A bracket is narrowed as if
    log N were a straight line in log τ; when it is as narrow as rounding allows, the run with its
    upper end is broken off in time. Runs that lead too far are broken off, too.
    """
    beta = np.sort([start.known[c.key] for c in start.cells])
    N, n = n_regions, len(beta)
    if n == N:
        return Merged([], n, float(beta[0]))
    positive = beta[beta > 0]
    least = float(positive[0]) if len(positive) else 1.0
    stop = N - 1 - N // 50
    low, high, above, below = 0.0, math.inf, n, 0
    # Energies of texture grow with the area, and the average region gets n / N cells.
    tau = max(float(np.quantile(beta, 1 - N / n)) * n / N, least)
    while True:
        run = merge(start, tau, stop)
        if run.n_regions == N:
            return run
        if run.n_regions < N:
            high, below = tau, run.n_regions
        elif run.next_energy < math.inf:
            low, above = tau, run.n_regions
        else:
            raise ValueError(
                f"merging boxes into boxes came to an end at {run.n_regions} regions; got "
                f"`regions`={N}. Ask for more, or allow shapes='any'."
            )
        if high == math.inf:
            tau = max(1.4 * low, run.next_energy)
        elif low == 0 and high > least / 2:
            tau = high / 1.4
        elif high > low * (1 + 1e-6) and low > 0:
            known = below > stop  # else the run was broken off, and would have led further
            part = math.log(above / N) / math.log(above / below) if known else 0.5
            tau = low * (high / low) ** min(max(part, 0.1), 0.9)
        else:
            return merge(start, high, N)
