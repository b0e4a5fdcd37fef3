"""What is known of a coefficient before it is coded: sums of magnitudes around it, and its class.

Coefficients come diagonal by diagonal, and within one first the boxes of even place, then those
of odd place (a checkerboard), so that a batch knows the lower modes of its own box and of all
neighbours, and an odd box the same mode of its neighbours too. Two weighted sums of these
magnitudes, quantised by third octaves, and the mode's position choose a class in a trained table;
a class has a distribution of magnitudes.

At some diagonals every box that is alive says whether anything but zeros will follow: empty high
frequencies cost neither time nor, nearly, bits.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.boxes import Modes, modes

Counts = NDArray[np.int32]
Small = NDArray[np.uint8]
Places = NDArray[np.intp]

CHECKPOINTS = (1, 2, 3, 5, 7, 10, 14, 19, 26, 36, 50, 70, 98)
"""Diagonals before which a box says whether it goes on."""
LEVELS = 55
"""Levels of a quantised sum, three an octave."""
SUM_BITS = 18
POSITIONS = 48
"""Positions of a mode: two phases, eight spans of diagonals, three shapes."""
SPANS = (1, 2, 3, 4, 6, 9, 13, 21)
"""First diagonals of the spans."""
EDGES = 6
"""Levels of how many neighbours go on; the last one where it is not known yet."""
FEW_BOXES = 48
"""So few boxes alive are one batch, all like even ones."""
COARSE_STEPS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 128])
COARSE = len(COARSE_STEPS) + 1
"""Levels of the sums of a box that says whether it goes on, and where they begin."""


@lru_cache(maxsize=1)
def levels() -> Small:
    """Level of every sum below 2^18: 0 for 0, else the number of j with 2^(j/3) <= sum."""
    table = np.zeros(1 << SUM_BITS, np.uint8)
    for j in range(LEVELS - 1):
        start = round(2 ** (j / 3))
        start += -1 if (start - 1) ** 3 >= 1 << j else 0
        start += 1 if start**3 < 1 << j else 0
        table[start:] = j + 1
    return table


@dataclass(frozen=True)
class ModePlaces:
    """Positions of the modes of a box: everything about a row that the walk needs."""

    position: Places  # (M,) of phase 0; phase 1 adds POSITIONS // 2
    high: list[NDArray[np.bool_]]  # for each axis: whether the mode's index is its largest there


@lru_cache(maxsize=32)
def places(B: int, d: int) -> ModePlaces:
    """Positions of the modes of a box of B samples along each of d axes."""
    index = modes(B, d).index
    total, top = index.sum(axis=1), index.max(axis=1)
    rest = total - top
    span = np.searchsorted(np.array(SPANS), np.maximum(total, 1), side="right") - 1
    shape = np.where(rest == 0, 0, np.where(4 * rest < total, 1, 2))
    return ModePlaces(
        (span * 3 + shape).astype(np.intp), [(index[:, k] == top)[:, None] for k in range(d)]
    )


class Coder(Protocol):
    """Who decides what is coded: an encoder, a decoder, or somebody who learns."""

    def going_on(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on at a checkpoint."""

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Magnitudes (modes, boxes) of a batch, as later contexts see them."""


@dataclass(frozen=True, eq=False)
class Contexts:
    """The trained part: which sums to make and which classes they mean.

    Parameters
    ----------
    weights : array of int32, shape (24, 10)
        Weights in 16ths, by position: of the magnitudes less one, less two, less one along two
        axes and of their mean; of neighbours' lower modes and the mean, in even boxes; of
        neighbours along the highest axes, along the others, their lower modes and the mean, in
        odd ones.
    classes : array of uint8, shape (2 * 2 * 24 * LEVELS * LEVELS,)
        Class by size (below 16 or not), phase, position and the levels of the two sums.
    flags : array of uint8, shape (checkpoints, 2, COARSE, COARSE, EDGES)
        Class of the flag whether a box goes on.
    """

    weights: Counts
    classes: Small
    flags: Small


class Walk:
    """All magnitudes of boxes of B samples, in the order of coding.

    Parameters
    ----------
    B, grid : int and tuple
        The boxes: (C, G_1, ..., G_d).
    lowest : array, shape (C G,)
        Magnitudes that stand for the first mode, coded elsewhere.
    active : array of bool, shape (C G,), optional
        The boxes to code; all by default.
    around : array, shape (M, C G), optional
        Magnitudes that stand for those of the other boxes.

    Notes
    -----
    What is known of the boxes that are alive stands in arrays with one column for each, even boxes
    first, so a step costs what is alive. Only `A` has all boxes: neighbours are looked up there.
    """

    def __init__(
        self,
        B: int,
        grid: tuple[int, ...],
        lowest: Counts,
        active: NDArray[np.bool_] | None = None,
        around: Counts | None = None,
    ) -> None:
        self.modes: Modes = modes(B, len(grid) - 1)
        self.places = places(B, len(grid) - 1)
        self.grid, self.large = grid, int(B >= 16)
        M = len(self.modes.rows)
        self.A = np.zeros((M, len(lowest)), np.int32)
        self.A[0] = lowest
        if active is not None and around is not None:
            np.copyto(self.A[1:], around[1:], where=~active)
        self._next = neighbours(grid)
        phases = checkerboard(grid)
        if active is not None:
            phases = [boxes[active[boxes]] for boxes in phases]
        self.boxes, self.n_even = np.concatenate(phases), len(phases[0])

    def run(self, contexts: Contexts, coder: Coder) -> None:
        """Walk through all batches."""
        starts, N = self.modes.starts, self.modes.n_diagonals
        W = contexts.weights.T[:, self.places.position, None]  # (10, M, 1)
        below = [_with_zeros(self.A[:1].take(self.boxes, axis=1)), _with_zeros(self._empty(0))]
        near = [_with_zeros(self._near(slice(0, 1), self.boxes)), _with_zeros(self._empty(0))]
        for s in range(1, N):
            if s in CHECKPOINTS:
                left = self._flags(s, below, near, contexts, coder)
                if left is not None:
                    below, near = ([x.take(left, axis=1) for x in lists] for lists in (below, near))
            if not len(self.boxes):
                return
            rows = slice(starts[s], starts[s + 1])
            found = self._diagonal(s, rows, W[:, rows], below, near, contexts, coder)
            below, near = [found[0], below[0]], [found[1], near[0]]

    def _empty(self, rows: int) -> Counts:
        return np.zeros((rows, len(self.boxes)), np.int32)

    def _diagonal(
        self,
        s: int,
        rows: slice,
        W: Counts,
        below: list[Counts],
        near: list[Counts],
        contexts: Contexts,
        coder: Coder,
    ) -> tuple[Counts, Counts]:
        """Magnitudes of a diagonal, and those of neighbours, for all boxes alive."""
        own, lower, mean = self._lower(s, below, near)
        S = _weighted(own, W, 0)
        S += mean * W[3] >> 6
        T = lower * W[4]
        T += mean * W[5] >> 6
        n, boxes = self.n_even, self.boxes
        now, around = (np.zeros((len(lower) + 1, len(boxes)), np.int32) for _ in range(2))
        if n:
            c = self._classes(contexts, rows, 0, S[:, :n], T[:, :n])
            now[:-1, :n] = coder.magnitudes(c, rows, boxes[:n])
            self.A[rows][:, boxes[:n]] = now[:-1, :n]
        if n < len(boxes):
            high, rest = self._sides(rows, boxes[n:])
            np.add(high, rest, out=around[:-1, n:])
            T = _weighted([high, rest, lower[:, n:]], W, 6)
            T += mean * W[9] >> 6
            c = self._classes(contexts, rows, 1, S[:, n:], T)
            now[:-1, n:] = coder.magnitudes(c, rows, boxes[n:])
            self.A[rows][:, boxes[n:]] = now[:-1, n:]
        if n:
            around[:-1, :n] = self._near(rows, boxes[:n])
        return now, around

    def _lower(
        self, s: int, below: list[Counts], near: list[Counts]
    ) -> tuple[list[Counts], Counts, Counts]:
        """Sums of lower modes of the own box, and of neighbours; means of the first."""
        m = self.modes
        own = [
            _total(below[0], m.lower1[s]),
            _total(below[1], m.lower2[s]),
            _total(below[1], m.lower11[s]),
        ]
        mean = own[0].sum(axis=1, dtype=np.int64) * 64 // own[0].shape[1]
        mean = np.minimum(mean, 1 << 20).astype(np.int32)[:, None]
        return own, _total(near[0], m.lower1[s]), mean

    def _near(self, rows: slice, boxes: Places) -> Counts:
        """Sum of magnitudes of all neighbours, (modes, boxes)."""
        slab = self.A[rows]
        out = np.zeros((len(slab), len(boxes)), np.int32)
        for _, (one, other) in self._next:
            out += slab.take(one[boxes], axis=1)
            out += slab.take(other[boxes], axis=1)
        return out

    def _sides(self, rows: slice, boxes: Places) -> list[Counts]:
        """The same along the highest axes of each mode, and along the others."""
        slab = self.A[rows]
        high, rest = (np.zeros((len(slab), len(boxes)), np.int32) for _ in range(2))
        for k, (one, other) in self._next:
            both = slab.take(one[boxes], axis=1)
            both += slab.take(other[boxes], axis=1)
            top = self.places.high[k][rows]
            high += both * top
            both *= ~top
            rest += both
        return [high, rest]

    def _classes(self, contexts: Contexts, rows: slice, phase: int, S: Counts, T: Counts) -> Small:
        """Classes (modes, boxes) by the two sums."""
        z = levels()
        position = (self.large * POSITIONS + phase * (POSITIONS // 2)) + self.places.position[rows]
        where = np.multiply(z.take(S, mode="clip"), LEVELS, dtype=np.int32)
        where += z.take(T, mode="clip")
        where += (position * (LEVELS * LEVELS)).astype(np.int32)[:, None]
        return contexts.classes.take(where, mode="clip")

    def _flags(
        self, s: int, below: list[Counts], near: list[Counts], contexts: Contexts, coder: Coder
    ) -> Places | None:
        """Columns of the boxes that go on at diagonal s; None where all do."""
        d, boxes, n = self.modes.d, self.boxes, self.n_even
        own = 2 * below[0].sum(axis=0, dtype=np.int32) + below[1].sum(axis=0, dtype=np.int32)
        other = 2 * near[0].sum(axis=0, dtype=np.int32) + near[1].sum(axis=0, dtype=np.int32)
        z_own, z_near = _coarse(own), _coarse(other // (2 * d))
        table = contexts.flags[CHECKPOINTS.index(s), self.large]
        on = np.zeros(len(boxes), bool)
        going = np.zeros(self.A.shape[1], np.int32)
        if n:
            on[:n] = coder.going_on(table[z_own[:n], z_near[:n], EDGES - 1], boxes[:n], s)
            going[boxes[:n]] = on[:n]
        if n < len(boxes):
            sides = sum(
                going[one[boxes[n:]]] + going[two[boxes[n:]]] for _, (one, two) in self._next
            )
            around = (np.asarray(sides) * (EDGES - 2) + d) // (2 * d)
            on[n:] = coder.going_on(table[z_own[n:], z_near[n:], around], boxes[n:], s)
        if on.all():
            return None
        left = np.flatnonzero(on)
        self.boxes, self.n_even = boxes[left], int(np.count_nonzero(on[:n]))
        if len(left) < FEW_BOXES:
            self.n_even = len(left)
        return left


def _with_zeros(x: Counts) -> Counts:
    """One more row, of zeros, for modes that are not there."""
    return np.concatenate([x, np.zeros((1, x.shape[1]), np.int32)])


@lru_cache(maxsize=64)
def neighbours(grid: tuple[int, ...]) -> list[tuple[int, tuple[Places, Places]]]:
    """Axes with several boxes, and both neighbours of every box; at an end the same one twice."""
    index = np.arange(int(np.prod(grid))).reshape(grid)
    found = []
    for k, n in enumerate(grid[1:]):
        if n > 1:
            ahead, behind = np.arange(n) + 1, np.arange(n) - 1
            ahead[-1], behind[0] = n - 2, 1
            pair = (index.take(behind, axis=k + 1).ravel(), index.take(ahead, axis=k + 1).ravel())
            found.append((k, pair))
    return found


@lru_cache(maxsize=64)
def checkerboard(grid: tuple[int, ...]) -> list[Places]:
    """Boxes of even and of odd place; all are even where there are few."""
    place = np.indices(grid[1:]).sum(axis=0).ravel() % 2
    odd = np.tile(place == 1, grid[0]) & (place.size >= 16)
    return [np.flatnonzero(~odd), np.flatnonzero(odd)]


def _weighted(sums: list[Counts], W: Counts, first: int) -> Counts:
    """Weighted sum."""
    out: Counts = sums[0] * W[first]
    for j, x in enumerate(sums[1:], first + 1):
        if x.size:
            out += x * W[j]
    return out


def _total(slab: Counts, lower: list[Places]) -> Counts:
    """Sum over several lists of rows."""
    if not lower:
        return np.zeros((0, slab.shape[1]), np.int32)
    out = slab.take(lower[0], axis=0)
    for rows in lower[1:]:
        out += slab.take(rows, axis=0)
    return out


def _coarse(total: NDArray[np.integer]) -> Small:
    """Levels of sums for flags: 0 to 7 as they are by and by coarser."""
    return np.searchsorted(COARSE_STEPS, total, side="right").astype(np.uint8)
