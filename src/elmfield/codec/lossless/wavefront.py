"""What both ends share: the order of coding, neighbours of samples, and prediction from them.

An array has axes (C, A, Z, Y, X): channels, two outer axes, rows and columns; missing axes have
length 1. It is cut into equal blocks (ha, hz, hy, hx) of its last four axes. Sample (c, a, z, y,
x) of every block is coded at step

    t = x + 2 u,   u = y + skew(g),   skew(g) = s_z z + s_a a + s_c c,   g = (c, a, z),

with skews 2, 4, 8 given in this order to those of z, a, c that are longer than one in a block.
Then every neighbour is known one step before it is asked for, and all samples of a step are coded
side by side, in the order (g, u, b) with b the block.

What both ends compute is whole numbers held in float64 below 2^53, so that sums, products and
matrix products are exact in any order, on any machine.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from elmfield._array.typing import Bools, Floats, Integers

LONGEST_BLOCK = {1: (1, 1, 1, 1024), 2: (1, 1, 64, 1024), 3: (1, 16, 64, 1024), 4: (4, 8, 32, 1024)}
"""Longest blocks (ha, hz, hy, hx) by number of axes besides channels."""

ABOVE, BELOW, LEFT, RIGHT = 2, 1, 2, 1
"""Rows and columns around a block that neighbours may ask for."""


class Neighbours(NamedTuple):
    """Samples around one: groups back, rows down, columns right, lines and steps on."""

    back: Integers
    down: Integers
    right: Integers
    lines: Integers
    steps: Integers


class Set(NamedTuple):
    """Neighbours in one group, (dy, dx): `back` steps before on `axis` of (c, a, z)."""

    axis: int
    back: int
    samples: tuple[tuple[int, int], ...]
    errors: tuple[tuple[int, int], ...]
    anchor: int


_WEST, _NORTH = ((0, -2), (0, -1)), ((-1, -1), (-1, 0), (-1, 1))
_MIDDLE, _SOUTH = ((0, -1), (0, 0), (0, 1)), ((1, 0),)
_AHEAD = (*_MIDDLE[1:], *_SOUTH)
OWN = Set(0, 0, (*_WEST, *_NORTH, (-2, 0), (-2, 1)), (*_WEST, *_NORTH, (-2, 0)), 1)
CHANNEL = Set(0, 1, (*_MIDDLE, *_NORTH, *_SOUTH), _AHEAD, 0)
SECOND = Set(0, 2, (*_MIDDLE[:2], (-1, 0)), (), 0)
SLICE = Set(2, 1, (*_MIDDLE, (-1, 0), *_SOUTH), _AHEAD, 0)
VOLUME = SLICE._replace(axis=1)
"""A sample's own group, the channel before, the one before that, the slice before, the one before
on the first axis. The anchor of a set is the sample to the left."""


@dataclass(frozen=True)
class Layout:
    """The blocks of an array, and the neighbours that samples have in them.

    Parameters
    ----------
    shape : tuple of 5 int
        (C, A, Z, Y, X), none of them 0.
    block : tuple of 4 int
        (ha, hz, hy, hx).
    """

    shape: tuple[int, ...]
    block: tuple[int, ...]

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, shape: tuple[int, ...], ndim: int) -> "Layout":
        """Return blocks as long as allowed for so many axes, and as equal as possible."""
        longest = LONGEST_BLOCK[ndim]
        block = tuple(-(-n // -(-n // most)) for n, most in zip(shape[1:], longest, strict=True))
        return cls(shape, block)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks along A, Z, Y and X."""
        return tuple(-(-n // h) for n, h in zip(self.shape[1:], self.block, strict=True))

    @property
    def n_blocks(self) -> int:
        """B, all blocks."""
        return int(np.prod(self.counts))

    @property
    def n_groups(self) -> int:
        """G, how many (c, a, z) a block has."""
        return self.shape[0] * self.block[0] * self.block[1]

    @cached_property
    def groups(self) -> Integers:
        """(c, a, z) of every group, shape (G, 3)."""
        return np.indices((self.shape[0], *self.block[:2])).reshape(3, -1).T.astype(np.int64)

    @cached_property
    def skew(self) -> Integers:
        """First u of every group, shape (G,)."""
        c, a, z = self.shape[0] > 1, self.block[0] > 1, self.block[1] > 1
        steps = np.array([c * (2 << z << a), a * (2 << z), z * 2], np.int64)
        return np.asarray(self.groups @ steps, np.int64)

    @property
    def n_lines(self) -> int:
        """How many values u has."""
        return self.block[2] + int(self.skew[-1])

    @property
    def n_steps(self) -> int:
        """How many values t has."""
        return self.block[3] + 2 * (self.n_lines - 1)

    @cached_property
    def spans(self) -> Integers:
        """The first u that has a sample, and the one after the last, by step, (n_steps, 2)."""
        t = np.arange(self.n_steps)
        first, end = (t - self.block[3] + 2) // 2, t // 2 + 1
        return np.stack([np.maximum(first, 0), np.minimum(end, self.n_lines)], axis=1)

    @cached_property
    def rows(self) -> Integers:
        """How many rows of every group's blocks lie in the array, shape (G, B): 0 beyond its end.

        Of the first group there is something in every block.
        """
        block, shape = np.array(self.block[:3])[:, None], np.array(self.shape[1:4])[:, None]
        starts = np.indices(self.counts).reshape(4, -1)[:3] * block
        lengths = np.minimum(block, shape - starts)  # along A, Z and Y, (3, B); never 0
        _, a, z = self.groups.T[..., None]
        return np.asarray(lengths[2] * ((a < lengths[0]) & (z < lengths[1])), np.int64)

    @cached_property
    def valid(self) -> Bools:
        """Which lanes hold samples of the array, shape (G, U, B)."""
        y = np.arange(self.n_lines)[None, :, None] - self.skew[:, None, None]
        return np.asarray((y >= 0) & (y < self.rows[:, None]))

    @cached_property
    def sizes(self) -> Integers:
        """How many samples every step codes, shape (n_steps,)."""
        per_line = np.concatenate([[0], np.cumsum(self.valid.sum(axis=(0, 2)))])
        return np.asarray(np.diff(per_line[self.spans])[:, 0], np.int64)

    def cut(self, values: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the array in blocks, (G, B, hy, hx); what lies outside repeats the last sample."""
        ends = [n * h - m for n, h, m in zip(self.counts, self.block, self.shape[1:], strict=True)]
        whole = values
        if any(ends):
            whole = np.pad(values, [(0, 0), *((0, end) for end in ends)], mode="edge")
        split = [n for pair in zip(self.counts, self.block, strict=True) for n in pair]
        blocks = whole.reshape(-1, *split).transpose(0, 2, 4, 1, 3, 5, 7, 6, 8)
        shape = (self.n_groups, self.n_blocks, *self.block[2:])
        return np.ascontiguousarray(blocks).reshape(shape)

    def join(self, blocks: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the array of its blocks."""
        parts = blocks.reshape(-1, *self.block[:2], *self.counts, *self.block[2:])
        whole = parts.transpose(0, 3, 1, 4, 2, 5, 7, 6, 8)
        ends = [n * h for n, h in zip(self.counts, self.block, strict=True)]
        _, A, Z, Y, X = self.shape
        return whole.reshape(-1, *ends)[:, :A, :Z, :Y, :X]

    def slant(self, steps: NDArray[np.generic], g: int, first: int = 0) -> NDArray[np.generic]:
        """Return a view of what steps hold, (T, G, U, B), as the rows of one group: (hy, hx, B).

        `first` is the place of line u = 0 on the axis of lines.
        """
        s_t, _, s_u, s_b = steps.strides
        skew = int(self.skew[g])
        start = steps[2 * skew :, g:, first + skew :]
        shape = (*self.block[2:], self.n_blocks)
        return as_strided(start, shape, (2 * s_t + s_u, s_t, s_b))

    @cached_property
    def sets(self) -> list[Set]:
        """Sets that some group has."""
        C, A, Z = self.shape[0], *self.block[:2]
        wanted = [(OWN, True), (CHANNEL, C > 1), (SECOND, C > 2), (SLICE, Z > 1), (VOLUME, A > 1)]
        return [s for s, there in wanted if there]

    def _place(self, offsets: list[tuple[tuple[int, int], ...]]) -> Neighbours:
        """Return the neighbours of all sets, from the offsets of each."""
        A, Z = self.block[:2]
        backs = [s.back * (A * Z, Z, 1)[s.axis] for s in self.sets]
        found = [(back, dy, dx) for back, own in zip(backs, offsets) for dy, dx in own]
        back, down, right = np.ascontiguousarray(np.array(found, np.int64).T)
        lines = down - self.skew[back]
        return Neighbours(back, down, right, lines, 2 * lines + right)

    @cached_property
    def near(self) -> Neighbours:
        """Neighbours that predict a sample, K in all."""
        return self._place([s.samples for s in self.sets])

    @cached_property
    def past(self) -> Neighbours:
        """Those whose past errors say how large the next one will be, F in all."""
        return self._place([s.errors for s in self.sets])

    @cached_property
    def anchors(self) -> list[tuple[int, int, int]]:
        """(first neighbour, number of them, anchor among all neighbours) of every set."""
        sizes = [len(s.samples) for s in self.sets]
        firsts = [sum(sizes[:i]) for i in range(len(sizes))]
        return [(a, n, a + s.anchor) for a, n, s in zip(firsts, sizes, self.sets, strict=True)]

    @cached_property
    def outside(self) -> list[tuple[int, Integers, Integers]]:
        """Neighbours above or below a block, for samples at its edge, and what they read instead.

        (row from the top, or -1 for the last, neighbours, the anchors of their sets).
        """
        dy, (_, sizes, anchors) = self.near.down, zip(*self.anchors)
        anchor = np.repeat(anchors, sizes)
        cases = [(0, dy < 0), (1, dy < -1), (-1, dy > 0)]
        return [(row, np.flatnonzero(k), anchor[k]) for row, k in cases if k.any()]

    @cached_property
    def kinds(self) -> Integers:
        """Which groups share their predictors: a number for every group, shape (G,)."""
        c, a, z = self.groups.T
        _, kinds = np.unique(c * 4 + 2 * (a > 0) + (z > 0), return_inverse=True)
        return kinds.astype(np.int64)

    def _present(self, n_of_set: list[int]) -> Bools:
        """Which members of sets a kind of group has, shape (kinds, members)."""
        there = np.stack([self.groups[:, s.axis] >= s.back for s in self.sets], axis=1)
        _, first = np.unique(self.kinds, return_index=True)
        return np.repeat(there[first], n_of_set, axis=1)

    @cached_property
    def present_near(self) -> Bools:
        """Which neighbours a kind of group has, shape (kinds, K)."""
        return self._present([len(s.samples) for s in self.sets])

    @property
    def used(self) -> Integers:
        """How many neighbours, up to the last it has, every group looks at, shape (G,)."""
        last = self.present_near.shape[1] - self.present_near[:, ::-1].argmax(axis=1)
        return np.asarray(last[self.kinds], np.int64)

    @cached_property
    def present_past(self) -> Bools:
        """Which past errors a kind of group has, shape (kinds, F)."""
        return self._present([len(s.errors) for s in self.sets])


# --- prediction -----------------------------------------------------------------------------------

FRACTION = 16
"""Predictions count in sixteenths of a sample."""
SHARES = np.array([(4096, 3444, 2896, 2435)[d % 4] >> (d // 4) for d in range(64)], np.float64)
"""Weights of a prediction by how many levels its past errors are above the least: half every 4."""
SQUARE_LIMIT = float(1 << 48)
ERROR_LIMIT = float(1 << 36)
BINS = 40
"""Expected errors are put into 40 bins, four to an octave (or two, or one)."""


def blend(predictions: Floats, past: Floats, axis: int) -> Floats:
    """Return one prediction of several, in sixteenths: small past errors weigh most.

    Parameters
    ----------
    predictions, past : arrays with the predictors on `axis`
        In sixteenths; sums of squared errors of neighbours plus 256.
    """
    level = past.view(np.int64) >> 49  # eight levels to an octave: exponent, three bits of mantissa
    level -= np.minimum.reduce(level, axis=axis, keepdims=True)
    weight = SHARES.take(level, mode="clip")
    total = np.add.reduce(weight, axis=axis)
    weight *= predictions
    out: Floats = np.add.reduce(weight, axis=axis)
    out /= total
    return np.floor(out, out=out)


def round_blend(blend: Floats, top: float | Floats) -> tuple[Floats, Floats]:
    """Return the predicted sample, 0 to `top`, and how far above a whole number the blend is."""
    whole = blend + FRACTION / 2
    whole *= 1 / FRACTION
    np.floor(whole, out=whole)
    above = blend - FRACTION * whole
    np.maximum(whole, 0.0, out=whole)
    np.minimum(whole, top, out=whole)
    return whole, above


def is_far(above: Floats) -> Bools:
    """Whether blends are far from whole numbers."""
    return np.asarray(np.abs(above) >= FRACTION / 4)


def find_contexts(
    energy: Floats, away: NDArray[Any], lowest: int | Integers, coarse: int | Integers
) -> Integers:
    """Return the context, 0 to 2 BINS - 1: of the expected error and whether the blend `is_far`.

    ``4 / 2^coarse`` bins to an octave, from bin `lowest` on.
    """
    bins: Integers = energy.view(np.int64) >> (50 + coarse)
    bins -= lowest
    np.maximum(bins, 0, out=bins)
    np.minimum(bins, BINS - 1, out=bins)
    bins += bins
    bins += away
    return bins
