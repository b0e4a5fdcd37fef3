"""What is known of a coefficient before it is coded: sums of magnitudes around it, and its class.

Coefficients come diagonal by diagonal, and within one first the boxes of even place, then those
of odd place (a checkerboard), so that a batch knows the lower modes of its own box and of all
neighbours, and an odd box the same mode of its neighbours too. Two weighted sums of these
magnitudes, quantised by third octaves, and the mode's position choose a class in a trained table;
a class has a distribution of magnitudes. The tables are trained: ``priors.npz`` is written by
``codec_training/codec.py`` and is part of the format, since a decoder needs the same numbers.

At some diagonals every box that is alive says whether anything but zeros will follow: empty high
frequencies cost neither time nor, nearly, bits.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.transform import Modes, modes

if TYPE_CHECKING:
    from elmfield.codec.lossy.sections import Coder

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
EDGES = 6  # levels of how many neighbours go on; the last one where it is not known yet
ONE_BATCH_BOXES = 48  # so few boxes alive are one batch, all like even ones
COARSE_STEPS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 128])
COARSE = len(COARSE_STEPS) + 1
"""Levels of the sums of a box that says whether it goes on, and where they begin."""


@lru_cache(maxsize=1)
def levels() -> Small:
    """Return the level of every sum below 2^18: 0, or the number of j with 2^(j/3) <= sum."""
    n = np.arange(1 << SUM_BITS, dtype=np.float64)
    return np.frexp(n * n * n)[1].astype(np.uint8)  # the bits of the cube


class BoxWalk:
    """All magnitudes of boxes of B samples, in the order of coding.

    What is known of the boxes that are alive stands in arrays with one column for each, even boxes
    first, so a step costs what is alive. Only `A` has all boxes: neighbours are looked up there.

    Parameters
    ----------
    B, grid : int and tuple
        The boxes: (C, G_1, ..., G_d).
    lowest : array, shape (C G,)
        Magnitudes that stand for the first mode, coded elsewhere.
    """

    def __init__(self, B: int, grid: tuple[int, ...], lowest: Counts) -> None:
        self.modes: Modes = modes(B, len(grid) - 1)
        self.grid, self.large = grid, int(B >= 16)
        self.A = np.zeros((len(self.modes.rows), len(lowest)), np.int32)
        self.A[0] = lowest
        self._next = box_neighbours(grid)
        phases = checkerboard(grid)
        self.boxes, self.n_even = np.concatenate(phases), len(phases[0])

    def run(self, coder: "Coder") -> None:
        """Code all batches."""
        self.prior, self.coder = coder.prior, coder
        none = np.zeros((1, len(self.boxes)), np.int32)
        first, around = self.A[:1].take(self.boxes, axis=1), self._near(slice(0, 1), self.boxes)
        below, near = [np.concatenate([first, none]), none], [np.concatenate([around, none]), none]
        for s in range(1, self.modes.n_diagonals):
            if s in CHECKPOINTS:
                left = self._flags(s, below, near)
                if left is not None:
                    below, near = ([x.take(left, axis=1) for x in lists] for lists in (below, near))
            if not len(self.boxes):
                return
            found = self._diagonal(slice(*self.modes.starts[s : s + 2]), below, near)
            below, near = [found[0], below[0]], [found[1], near[0]]

    def _diagonal(
        self, rows: slice, below: list[Counts], near: list[Counts]
    ) -> tuple[Counts, Counts]:
        """Code a diagonal; return its magnitudes, and those of neighbours, of all boxes alive."""
        own, lower, mean = self._lower(rows, below, near)
        W = self.prior.weights.T[:, self.modes.position[rows], None]  # (10, modes, 1)
        S = _add_weighted(own, W, 0)
        S += mean * W[3] >> 6
        T = lower * W[4]
        T += mean * W[5] >> 6
        n, boxes = self.n_even, self.boxes
        now, around = (np.zeros((len(lower) + 1, len(boxes)), np.int32) for _ in range(2))
        if n:
            c = self._classes(rows, 0, S[:, :n], T[:, :n])
            now[:-1, :n] = self.coder.code_magnitudes(c, rows, boxes[:n])
            self.A[rows][:, boxes[:n]] = now[:-1, :n]
        if n < len(boxes):
            high, rest = self._sides(rows, boxes[n:])
            np.add(high, rest, out=around[:-1, n:])
            T = _add_weighted([high, rest, lower[:, n:]], W, 6)
            T += mean * W[9] >> 6
            c = self._classes(rows, 1, S[:, n:], T)
            now[:-1, n:] = self.coder.code_magnitudes(c, rows, boxes[n:])
            self.A[rows][:, boxes[n:]] = now[:-1, n:]
        if n:
            around[:-1, :n] = self._near(rows, boxes[:n])
        return now, around

    def _lower(
        self, rows: slice, below: list[Counts], near: list[Counts]
    ) -> tuple[list[Counts], Counts, Counts]:
        """Return sums of lower modes of the box, and of neighbours; means of the first."""
        d, (n, n_before) = self.modes.d, (len(x) - 1 for x in below)
        one = np.minimum(self.modes.lower[:d, rows] - (rows.start - n), n)
        rest = np.minimum(self.modes.lower[d:, rows] - (rows.start - n - n_before), n_before)
        own = [_add_rows(below[0], one), *(_add_rows(below[1], x) for x in (rest[:d], rest[d:]))]
        mean = own[0].sum(axis=1, dtype=np.int64) * 64 // own[0].shape[1]
        mean = np.minimum(mean, 1 << 20).astype(np.int32)[:, None]
        return own, _add_rows(near[0], one), mean

    def _near(self, rows: slice, boxes: Places) -> Counts:
        """Return the sum of magnitudes of all neighbours, (modes, boxes)."""
        return np.add(*self._sides(rows, boxes))

    def _sides(self, rows: slice, boxes: Places) -> list[Counts]:
        """Return the same along the highest axes of each mode, and along the others."""
        slab = self.A[rows]
        high, rest = (np.zeros((len(slab), len(boxes)), np.int32) for _ in range(2))
        for k, (one, other) in self._next:
            both = slab.take(one[boxes], axis=1)
            both += slab.take(other[boxes], axis=1)
            top = self.modes.high[rows, k, None]
            high += both * top
            both *= ~top
            rest += both
        return [high, rest]

    def _classes(self, rows: slice, phase: int, S: Counts, T: Counts) -> Small:
        """Return classes (modes, boxes) by the two sums."""
        z = levels()
        position = (self.large * POSITIONS + phase * (POSITIONS // 2)) + self.modes.position[rows]
        where = np.multiply(z.take(S, mode="clip"), LEVELS, dtype=np.int32)
        where += z.take(T, mode="clip")
        where += (position * (LEVELS * LEVELS)).astype(np.int32)[:, None]
        return self.prior.classes.take(where, mode="clip")

    def _flags(self, s: int, below: list[Counts], near: list[Counts]) -> Places | None:
        """Return columns of the boxes that go on at diagonal s; None where all do."""
        d, boxes, n = self.modes.d, self.boxes, self.n_even
        own = 2 * below[0].sum(axis=0, dtype=np.int32) + below[1].sum(axis=0, dtype=np.int32)
        other = 2 * near[0].sum(axis=0, dtype=np.int32) + near[1].sum(axis=0, dtype=np.int32)
        sums = own, other // (2 * d)
        z_own, z_near = (np.searchsorted(COARSE_STEPS, total, side="right") for total in sums)
        table = self.prior.flags[CHECKPOINTS.index(s), self.large]
        on = np.zeros(len(boxes), bool)
        going = np.zeros(self.A.shape[1], np.int32)
        if n:
            on[:n] = self.coder.code_flags(table[z_own[:n], z_near[:n], EDGES - 1], boxes[:n], s)
            going[boxes[:n]] = on[:n]
        if n < len(boxes):
            sides = sum(
                going[one[boxes[n:]]] + going[two[boxes[n:]]] for _, (one, two) in self._next
            )
            around = (np.asarray(sides) * (EDGES - 2) + d) // (2 * d)
            on[n:] = self.coder.code_flags(table[z_own[n:], z_near[n:], around], boxes[n:], s)
        if on.all():
            return None
        left = np.flatnonzero(on)
        self.boxes, self.n_even = boxes[left], int(np.count_nonzero(on[:n]))
        if len(left) < ONE_BATCH_BOXES:
            self.n_even = len(left)
        return left


@lru_cache(maxsize=64)
def box_neighbours(grid: tuple[int, ...]) -> list[tuple[int, tuple[Places, Places]]]:
    """Return axes with several boxes, and both neighbours of every box (at an end one twice)."""
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
    """Return boxes of even and of odd place; all are even where there are few."""
    place = np.indices(grid[1:]).sum(axis=0).ravel() % 2
    odd = np.tile(place == 1, grid[0]) & (place.size >= 16)
    return [np.flatnonzero(~odd), np.flatnonzero(odd)]


def _add_weighted(sums: list[Counts], W: Counts, first: int) -> Counts:
    """Return the sum of arrays, each weighted by a row of `W` from `first` on."""
    out: Counts = sums[0] * W[first]
    for j, x in enumerate(sums[1:], first + 1):
        if x.size:
            out += x * W[j]
    return out


def _add_rows(slab: Counts, lower: Places) -> Counts:
    """Return the sum over several lists of rows."""
    if not len(lower):
        return np.zeros((0, slab.shape[1]), np.int32)
    out: Counts = slab.take(lower[0], axis=0)
    for rows in lower[1:]:
        out += slab.take(rows, axis=0)
    return out


# --- magnitudes as symbols ------------------------------------------------------------------------
#
# A class ``c`` expects magnitudes of about ``2^(c/4 - 8)``. Its lowest ``LOW_BITS[c]`` bits go raw;
# what is above them, h, is a token: h itself below `DIRECT`, above an octave with raw bits for the
# place in it, and `ESCAPE` with 24 raw bits. Classes that expect little have few tokens, then the
# escape. Contexts see magnitudes without the raw bits (the middle of what is possible), so all raw
# bits stand together behind the coded symbols.

N_CLASSES = 72
DIRECT = 16
ESCAPE = 22
N_TOKENS = 23
ESCAPE_BITS = 24
LARGEST_MAGNITUDE = (1 << ESCAPE_BITS) - 1

_octaves = np.arange(N_CLASSES) / 4 - 8
LOW_BITS = np.maximum(0, np.floor(_octaves - 1.5 + 1e-9)).astype(np.int32)
FIRST_LOW = int(np.argmax(LOW_BITS > 0))
"""The first class with raw bits."""
FIRST_LONG = np.where(_octaves < -4, 4, np.where(_octaves < -1, 8, 1 << 24)).astype(np.int32)
"""The first h that a class writes as an escape."""
TOKEN_BITS = np.array([0] * DIRECT + [4 + j for j in range(ESCAPE - DIRECT)] + [ESCAPE_BITS])
TOKEN_BASE = np.array([*range(DIRECT)] + [DIRECT << j for j in range(ESCAPE - DIRECT)] + [0])
TOKENS = np.array(
    [*range(DIRECT)]
    + [DIRECT + int(h // DIRECT).bit_length() - 1 for h in range(DIRECT, 1024)]
    + [ESCAPE]
).astype(np.uint8)
"""Tokens of what is above the low bits, up to 1024."""
ALLOWED = (np.arange(N_TOKENS) < FIRST_LONG[:, None]) | (np.arange(N_TOKENS) == ESCAPE)
"""Which tokens a class has, shape (classes, tokens)."""

_c, _t = np.arange(N_CLASSES)[:, None], np.arange(N_TOKENS)[None, :]
WIDTHS = (LOW_BITS[_c] + TOKEN_BITS[_t]).astype(np.int32)
"""Raw bits behind a token of a class."""
BASES = (TOKEN_BASE[_t] << LOW_BITS[_c]).astype(np.int32)
SEEN = np.minimum(BASES + np.where(_t == ESCAPE, 8, (1 << WIDTHS) >> 1), 1 << 14).astype(np.int32)
"""The magnitude that contexts see."""


def find_tokens(magnitudes: Counts, classes: Small) -> Small:
    """Return tokens of magnitudes, shape as given."""
    h = magnitudes >> LOW_BITS.take(classes)
    tokens: Small = TOKENS.take(np.minimum(h, 1024))
    long = h >= FIRST_LONG.take(classes)
    if long.any():
        tokens[long] = ESCAPE
    return tokens


# --- trained tables -------------------------------------------------------------------------------

N_FLAGS = 32


@dataclass(frozen=True, eq=False)
class Prior:
    """Tables for arrays of d axes: which sums to make, which classes they mean, what these expect.

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
    tokens : array of int, shape (classes, tokens)
        Counts of tokens in a class, 4096 in all; 0 for tokens a class does not have.
    going : array of int, shape (N_FLAGS, 2)
        Counts of boxes that stop and go on.
    smoothing : array of int16, shape (levels, weights)
        Weights of neighbours of decoded samples, see :mod:`smoothing`.
    """

    weights: Counts
    classes: Small
    flags: Small
    tokens: NDArray[np.int64]
    going: NDArray[np.int64]
    smoothing: NDArray[np.int16]

    @cached_property
    def costs(self) -> NDArray[np.float32]:
        """Bits of a token and what follows it, sign included, shape (classes, tokens)."""
        p = np.maximum(self.tokens, 0.05) / self.tokens.sum(axis=1, keepdims=True)
        signs = np.minimum(np.arange(N_TOKENS), 1)
        return np.asarray(-np.log2(p) + WIDTHS + signs, np.float32)


SOURCE: Traversable = files("elmfield.codec.lossy").joinpath("priors.npz")
"""Where the tables are."""


def load_tables(source: Traversable) -> dict[str, NDArray[Any]]:
    """Return the tables of a file by name; classes are stored as differences, which are small."""
    with source.open("rb") as file:
        found = dict(np.load(file))
    for name in found:
        if name.startswith("classes"):
            found[name] = np.cumsum(found[name], axis=-1, dtype=np.uint8)
    return found


@lru_cache(maxsize=4)
def load_prior(d: int) -> Prior:
    """Return the tables for d axes; four axes use those of three."""
    found, d = load_tables(SOURCE), min(d, 3)
    names = "weights", "classes", "flags", "tokens", "going", "smoothing"
    weights, classes, flags, tokens, going, smoothing = (found[f"{name}{d}"] for name in names)
    counts = tokens.astype(np.int64), going.astype(np.int64)
    return Prior(weights.astype(np.int32), classes.ravel(), flags, *counts, smoothing)
