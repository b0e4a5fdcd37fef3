"""What is known of a coefficient before it is coded: sums of magnitudes around it, and its class.

Coefficients come diagonal by diagonal, and within one first the boxes of even place, then those of odd
place (a checkerboard), so that a batch knows the lower modes of its own box and of all neighbours, and an odd
box the same mode of its neighbours too. Two weighted sums of these magnitudes, quantised by third octaves, and the mode's
position choose a class in a trained table; a class has a distribution of magnitudes.

At some diagonals every box that is alive says whether anything but zeros will follow: empty high
frequencies cost neither time nor, nearly, bits.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.boxes import Modes, modes

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
COARSE = 12
"""Levels of the sums of a box that says whether it goes on."""


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
class Places_:
    """Positions of the modes of a box: everything about a row that the walk needs."""

    position: Places  # (M,) of phase 0; phase 1 adds POSITIONS // 2
    high: list[NDArray[np.bool_]]  # for each axis: whether the mode's index is its largest there


@lru_cache(maxsize=32)
def places(B: int, d: int) -> Places_:
    """Positions of the modes of a box of B samples along each of d axes."""
    index = modes(B, d).index
    total, top = index.sum(axis=1), index.max(axis=1)
    rest = total - top
    span = np.searchsorted(np.array(SPANS), np.maximum(total, 1), side="right") - 1
    shape = np.where(rest == 0, 0, np.where(4 * rest < total, 1, 2))
    return Places_((span * 3 + shape).astype(np.intp), [index[:, k] == top for k in range(d)])


class Coder(Protocol):
    """Who decides what is coded: an encoder, a decoder, or somebody who learns."""

    def going_on(self, classes: Places, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Whether boxes go on at a checkpoint."""

    def magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Magnitudes (modes, boxes) of a batch, as later contexts see them."""


@dataclass(frozen=True)
class Contexts:
    """The trained part: which sums to make and which classes they mean.

    Parameters
    ----------
    weights : array of int32, shape (24, 10)
        Weights in 16ths, by position: of the magnitudes less one, less two, less one along two axes and of their
        mean; of neighbours' lower modes and the mean, in even boxes; of neighbours along the highest
        axes, along the others, their lower modes and the mean, in odd ones.
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
        self.n_boxes = int(np.prod(grid))
        M = len(self.modes.rows)
        self.A = np.zeros((M + 1, self.n_boxes), np.int32)
        self.near = np.zeros((M + 1, self.n_boxes), np.int32)
        self.A[0] = lowest
        self.near[0] = sum(self._sides(self.A[:1], k)[0] for k in range(len(grid) - 1))
        if active is None:
            active = np.ones(self.n_boxes, bool)
        elif around is not None:
            np.copyto(self.A[1:M], around[1:], where=~active)
        self.phases = [boxes[active[boxes]] for boxes in checkerboard(grid)]

    def _sides(self, slab: Counts, k: int) -> Counts:
        return sides(slab, self.grid, k)

    def run(self, contexts: Contexts, coder: Coder) -> None:
        """Walk through all batches."""
        starts, alive = self.modes.starts, list(self.phases)
        for s in range(1, len(starts) - 1):
            if s in CHECKPOINTS:
                alive = self._flags(s, alive, contexts, coder)
            if not any(map(len, alive)):
                return
            rows = slice(starts[s], starts[s + 1])
            W = contexts.weights[self.places.position[rows]][:, :, None]  # (modes, 10, 1)
            own, lower, mean = self._lower(rows)
            S = _weighted(own, W, 0) + self._spread(mean, W[:, 3])
            for phase, boxes in enumerate(alive):
                if len(boxes):
                    near = [lower] if phase == 0 else [*self._near(rows), lower]
                    T = _weighted(near, W, 4 + 2 * phase) + self._spread(mean, W[:, 5 + 4 * phase])
                    c = self._classes(contexts, rows, phase, boxes, S, T)
                    self.A[rows][:, boxes] = coder.magnitudes(c, rows, boxes)
            self.near[rows] = sum(self._sides(self.A[rows], k) for k in range(self.modes.d))

    def _lower(self, rows: slice) -> tuple[list[Counts], Counts, Counts]:
        """Sums of lower modes of the own box, and of neighbours, (modes, boxes); means of the first."""
        A, m = self.A, self.modes
        own = [_total(A, lower, rows) for lower in (m.lower1, m.lower2, m.lower11)]
        n = self.n_boxes // self.grid[0]
        mean = own[0].reshape(-1, self.grid[0], n).sum(axis=2, dtype=np.int64) * 64 // n
        return own, _total(self.near, m.lower1, rows), np.minimum(mean, 1 << 20).astype(np.int32)

    def _near(self, rows: slice) -> list[Counts]:
        """The same modes of neighbours along the highest axes of each mode, and along the others."""
        high, rest = (np.zeros(self.A[rows].shape, np.int32) for _ in range(2))
        for k in range(self.modes.d):
            both, top = self._sides(self.A[rows], k), self.places.high[k][rows]
            high += both * top[:, None]
            rest += both * ~top[:, None]
        return [high, rest]

    def _spread(self, mean: Counts, weight: Counts) -> Counts:
        """Weighted means of channels, for every box: (modes, boxes)."""
        return np.repeat(mean * weight >> 6, self.n_boxes // self.grid[0], axis=1)

    def _classes(
        self, contexts: Contexts, rows: slice, phase: int, boxes: Places, S: Counts, T: Counts
    ) -> Small:
        """Classes (modes, boxes) by the two sums."""
        position = self.large * POSITIONS + phase * 24 + self.places.position[rows]
        z = levels()
        top = (1 << SUM_BITS) - 1
        where = z.take(np.minimum(S.take(boxes, axis=1), top)).astype(np.int32)
        where += (position * LEVELS).astype(np.int32)[:, None]
        where *= LEVELS
        where += z.take(np.minimum(T.take(boxes, axis=1), top))
        return contexts.classes.take(where)

    def _flags(
        self, s: int, alive: list[Places], contexts: Contexts, coder: Coder
    ) -> list[Places]:
        """The boxes that go on at diagonal s."""
        starts, d = self.modes.starts, len(self.grid) - 1
        own = 2 * self.A[starts[s - 1] : starts[s]].sum(axis=0, dtype=np.int32)
        if s > 1:
            own += self.A[starts[s - 2] : starts[s - 1]].sum(axis=0, dtype=np.int32)
        near = sum(self._sides(own[None], k)[0] for k in range(d))
        z_own, z_near = _coarse(own), _coarse(np.asarray(near) // (2 * d))
        going = np.zeros(self.n_boxes, np.int32)
        left = []
        for phase in (0, 1):
            boxes = alive[phase]
            if len(boxes):
                around = np.full(self.n_boxes, EDGES - 1, np.uint8)
                if phase:
                    on_sides = sum(self._sides(going[None], k)[0] for k in range(d))
                    around = ((np.asarray(on_sides) * (EDGES - 2) + d) // (2 * d)).astype(np.uint8)
                where = (z_own[boxes], z_near[boxes], around[boxes])
                c = contexts.flags[CHECKPOINTS.index(s), self.large][where]
                on = coder.going_on(c, boxes, s)
                going[boxes] = on
                boxes = boxes[on]
            left.append(boxes)
        return left


def checkerboard(grid: tuple[int, ...]) -> list[Places]:
    """Boxes of even and of odd place; all are even where there are few."""
    place = np.indices(grid[1:]).sum(axis=0).ravel() % 2
    odd = np.tile(place == 1, grid[0]) & (place.size >= 16)
    return [np.flatnonzero(~odd), np.flatnonzero(odd)]


def sides(slab: Counts, grid: tuple[int, ...], k: int) -> Counts:
    """Sum of the two neighbours along axis k, (rows, boxes); at an end the one there is counts twice."""
    out = np.zeros(slab.shape, np.int32)
    x, y = (np.moveaxis(a.reshape(len(slab), *grid), 2 + k, 0) for a in (slab, out))
    if len(x) > 1:
        np.add(x[:-2], x[2:], out=y[1:-1])
        y[0], y[-1] = 2 * x[1], 2 * x[-2]
    return out


def _weighted(sums: list[Counts], W: Counts, first: int) -> Counts:
    """Weighted sum."""
    out = sums[0] * W[:, first]
    for j, x in enumerate(sums[1:], first + 1):
        out += x * W[:, j]
    return out


def _total(A: Counts, lower: list[NDArray[np.int64]], rows: slice) -> Counts:
    """Sum over several lists of rows."""
    if not lower:
        return np.zeros((rows.stop - rows.start, A.shape[1]), np.int32)
    out = A.take(lower[0][rows], axis=0)
    for which in lower[1:]:
        out += A.take(which[rows], axis=0)
    return out


def _coarse(total: NDArray[np.integer]) -> Small:
    """Levels of sums for flags: 0 to 7 as they are by and by coarser."""
    steps = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 128])
    return np.searchsorted(steps, total, side="right").astype(np.uint8)
