"""The order of coding: blocks, and steps of samples that are predicted side by side.

An array has axes (C, A, Z, Y, X): channels, two outer axes, rows and columns; missing axes have
length 1. It is cut into equal blocks (ha, hz, hy, hx) of its last four axes. Sample (c, a, z, y,
x) of every block is coded at step

    t = x + 2 u,   u = y + skew(g),   skew(g) = s_z z + s_a a + s_c c,   g = (c, a, z),

with skews 2, 4, 8 given in this order to those of z, a, c that are longer than one in a block.
Then every neighbour is known one step before it is asked for, and all samples of a step are coded
side by side, in the order (g, u, b) with b the block.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from elmfield._array.typing import Bools, Integers

LONGEST_BLOCK = {1: (1, 1, 1, 1024), 2: (1, 1, 64, 1024), 3: (1, 16, 64, 1024), 4: (4, 8, 32, 1024)}
"""Longest blocks (ha, hz, hy, hx) by number of axes besides channels."""

ABOVE, BELOW, LEFT, RIGHT = 2, 1, 2, 1
"""Rows and columns around a block that neighbours may ask for."""
MAX_LANES, MAX_HALVINGS = 8192, 4
"""Lanes of a stream. Fewer lanes than a sixteenth would make a step of many samples slow."""


@dataclass(frozen=True)
class Layout:
    """The blocks of an array.

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
    def n_samples(self) -> int:
        """All samples of the array."""
        return math.prod(self.shape)

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
    def skews(self) -> tuple[int, int, int]:
        """What one step in c, a, z adds to u."""
        out, s = [], 2
        for n in (self.block[1], self.block[0], self.shape[0]):
            out.append(s if n > 1 else 0)
            s *= 2 if n > 1 else 1
        return out[2], out[1], out[0]

    @cached_property
    def skew(self) -> Integers:
        """First u of every group, shape (G,)."""
        return np.asarray(self.groups @ np.array(self.skews, np.int64), np.int64)

    @property
    def n_lines(self) -> int:
        """How many values u has."""
        return self.block[2] + int(self.skew[-1])

    @property
    def n_steps(self) -> int:
        """How many values t has."""
        return self.block[3] + 2 * (self.n_lines - 1)

    def lines(self, t: int) -> tuple[int, int]:
        """Return the range of u that have a sample at step t."""
        return max(0, (t - self.block[3] + 2) // 2), min(self.n_lines, t // 2 + 1)

    @cached_property
    def lengths(self) -> Integers:
        """How much of every block lies in the array along A, Z and Y, shape (3, B); never 0."""
        out = []
        for axis in range(3):
            h, n = self.block[axis], self.counts[axis]
            inside = np.minimum(h, self.shape[1 + axis] - h * np.arange(n))
            shape = [n if i == axis else 1 for i in range(4)]
            out.append(np.broadcast_to(inside.reshape(shape), self.counts).ravel())
        return np.stack(out).astype(np.int64)

    @property
    def heights(self) -> Integers:
        """Rows of every block that lie in the array, shape (B,)."""
        rows: Integers = self.lengths[2]
        return rows

    @cached_property
    def filled(self) -> Bools:
        """Which groups of which blocks lie in the array, shape (G, B)."""
        _, a, z = self.groups.T
        out: Bools = (a[:, None] < self.lengths[0]) & (z[:, None] < self.lengths[1])
        return out

    @cached_property
    def valid(self) -> Bools:
        """Which lanes hold samples of the array, shape (G, U, B)."""
        y = np.arange(self.n_lines)[None, :, None] - self.skew[:, None, None]
        out: Bools = (y >= 0) & (y < self.heights) & self.filled[:, None]
        return out

    @cached_property
    def sizes(self) -> Integers:
        """How many samples every step codes, shape (n_steps,)."""
        per_line = np.concatenate([[0], np.cumsum(self.valid.sum(axis=(0, 2)))])
        spans = np.array([self.lines(t) for t in range(self.n_steps)])
        return np.asarray(per_line[spans[:, 1]] - per_line[spans[:, 0]], np.int64)

    @cached_property
    def later(self) -> Integers:
        """The largest number of samples of the steps after each step, shape (n_steps,)."""
        return np.append(np.maximum.accumulate(self.sizes[::-1])[::-1][1:], 0)

    def n_lanes(self, halvings: int) -> int:
        """Lanes of a stream: one for every sample of the largest step, halved so many times."""
        return max(1, min(int(self.sizes.max()), MAX_LANES) >> halvings)

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

    def join(self, blocks: Integers) -> Integers:
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


def put_in_frame(blocks: NDArray[np.integer], first: int, out: NDArray[np.float64]) -> None:
    """Fill `out`, (G, B, hy + 3, hx + 3), with blocks (G, B, hy, hx) and what surrounds them.

    Left of a row stands the first sample of the row above, left of row 0 `first`; right of a row
    stands its last sample. Rows above and below are never read (:meth:`Stencil.outside`).
    """
    _, _, hy, hx = blocks.shape
    out[...] = first
    inner = out[:, :, ABOVE : ABOVE + hy]
    inner[..., LEFT : LEFT + hx] = blocks
    inner[:, :, 1:, :LEFT] = blocks[:, :, :-1, :1]
    inner[..., LEFT + hx :] = blocks[..., -1:]
