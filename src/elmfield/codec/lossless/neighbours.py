"""Which earlier samples predict a sample, and the arithmetic of prediction that both ends share.

Everything is a whole number held in float64 and stays below 2^53, so that sums, products and matrix
products are exact in any order, on any machine.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.lossless.wavefront import Layout

Bools = NDArray[np.bool_]


class Run(NamedTuple):
    """Neighbours in a row: `n` of them from column `dx` of row `dy`, `back` groups before.

    `du` lines and, at `dx`, ``2 du + dx`` steps lie between them and the sample.
    """

    back: int
    dy: int
    dx: int
    n: int
    du: int


class Set(NamedTuple):
    """Neighbours in one group: `back` steps before on `axis` of (c, a, z), runs of (dy, dx, n)."""

    axis: int
    back: int
    samples: tuple[tuple[int, int, int], ...]
    errors: tuple[tuple[int, int, int], ...]
    anchor: int


OWN = Set(0, 0, ((0, -2, 2), (-1, -1, 3), (-2, 0, 2)), ((0, -2, 2), (-1, -1, 3), (-2, 0, 1)), 1)
CHANNEL = Set(0, 1, ((0, -1, 3), (-1, -1, 3), (1, 0, 1)), ((0, 0, 2), (1, 0, 1)), 0)
SECOND = Set(0, 2, ((0, -1, 2), (-1, 0, 1)), (), 0)
SLICE = Set(2, 1, ((0, -1, 3), (-1, 0, 1), (1, 0, 1)), ((0, 0, 2), (1, 0, 1)), 0)
VOLUME = SLICE._replace(axis=1)
"""A sample's own group, the channel before, the one before that, the slice before, the one before
on the first axis. The anchor of a set is the sample to the left."""

FRACTION = 16
"""Predictions count in sixteenths of a sample."""
LEVELS = (4096, 3444, 2896, 2435)
FAINTEST = 63
"""The weight of a prediction falls by half every 4 levels of its past errors."""
SQUARE_LIMIT = float(1 << 48)
ERROR_LIMIT = float(1 << 36)
BINS = 40
"""Expected errors are put into 40 bins, four to an octave (or two, or one)."""


@dataclass(frozen=True)
class Stencil:
    """The neighbours that samples of a layout have."""

    layout: Layout

    @classmethod
    @lru_cache(maxsize=32)
    def of(cls, layout: Layout) -> "Stencil":
        """Those of a layout."""
        return cls(layout)

    @cached_property
    def sets(self) -> list[Set]:
        """Sets that some group has."""
        C, A, Z = self.layout.shape[0], *self.layout.block[:2]
        wanted = [(OWN, True), (CHANNEL, C > 1), (SECOND, C > 2), (SLICE, Z > 1), (VOLUME, A > 1)]
        return [s for s, there in wanted if there]

    def _runs(self, s: Set, runs: tuple[tuple[int, int, int], ...]) -> list[Run]:
        A, Z = self.layout.block[:2]
        groups, lines = (A * Z, Z, 1)[s.axis], self.layout.skews[s.axis]
        return [Run(s.back * groups, dy, dx, n, dy - s.back * lines) for dy, dx, n in runs]

    @cached_property
    def samples(self) -> list[Run]:
        """Runs of neighbours, K in all."""
        return [run for s in self.sets for run in self._runs(s, s.samples)]

    @cached_property
    def errors(self) -> list[Run]:
        """Runs of past errors that say how large the next one will be, F in all."""
        return [run for s in self.sets for run in self._runs(s, s.errors)]

    @property
    def n_neighbours(self) -> int:
        """K."""
        return sum(run.n for run in self.samples)

    @property
    def n_errors(self) -> int:
        """F."""
        return sum(run.n for run in self.errors)

    @cached_property
    def anchors(self) -> list[tuple[int, int, int]]:
        """(first neighbour, number of them, anchor among all neighbours) of every set."""
        sizes = [sum(n for _, _, n in s.samples) for s in self.sets]
        firsts = [sum(sizes[:i]) for i in range(len(sizes))]
        return [(a, n, a + s.anchor) for a, n, s in zip(firsts, sizes, self.sets, strict=True)]

    @cached_property
    def outside(self) -> list[tuple[int, Integers, Integers]]:
        """Neighbours above or below a block, for samples at its edge, and what they read instead.

        (row from the top, or -1 for the last, neighbours, the anchors of their sets).
        """
        dy = np.concatenate([np.full(run.n, run.dy) for run in self.samples])
        anchor = np.concatenate([np.full(n, a) for _, n, a in self.anchors])
        cases = [(0, dy < 0), (1, dy < -1), (-1, dy > 0)]
        return [(row, np.flatnonzero(k), anchor[k]) for row, k in cases if k.any()]

    @cached_property
    def kinds(self) -> Integers:
        """Which groups share their predictors: a number for every group, shape (G,)."""
        c, a, z = self.layout.groups.T
        _, kinds = np.unique(c * 4 + 2 * (a > 0) + (z > 0), return_inverse=True)
        return kinds.astype(np.int64)

    @cached_property
    def n_kinds(self) -> int:
        """How many kinds of groups there are."""
        return int(self.kinds.max()) + 1

    def _present(self, n_of_set: list[int]) -> Bools:
        """Which members of sets a kind of group has, shape (kinds, members)."""
        out = np.zeros((self.n_kinds, sum(n_of_set)), np.bool_)
        for kind, group in zip(self.kinds, self.layout.groups, strict=True):
            there = [s.back == 0 or group[s.axis] >= s.back for s in self.sets]
            out[kind] = np.repeat(there, n_of_set)
        return out

    @cached_property
    def present(self) -> Bools:
        """Which neighbours a kind of group has, shape (kinds, K)."""
        return self._present([sum(n for _, _, n in s.samples) for s in self.sets])

    @cached_property
    def present_errors(self) -> Bools:
        """Which past errors a kind of group has, shape (kinds, F)."""
        return self._present([sum(n for _, _, n in s.errors) for s in self.sets])


def weights_of_levels() -> Floats:
    """Weight of a prediction by how many levels its past errors are above the least."""
    return np.array([LEVELS[d % 4] >> (d // 4) for d in range(FAINTEST + 1)], np.float64)


def blended(predictions: Floats, past: Floats, table: Floats, axis: int) -> Floats:
    """One prediction of several, in sixteenths: those whose past errors are least weigh most.

    Parameters
    ----------
    predictions, past : arrays with the predictors on `axis`
        In sixteenths; sums of squared errors of neighbours plus 256.
    table : array
        :func:`weights_of_levels`.
    """
    level = past.view(np.int64) >> 49  # eight levels to an octave: exponent, three bits of mantissa
    level -= np.minimum.reduce(level, axis=axis, keepdims=True)
    weight = table.take(level, mode="clip")
    total = np.add.reduce(weight, axis=axis)
    weight *= predictions
    out: Floats = np.add.reduce(weight, axis=axis)
    out /= total
    return np.floor(out, out=out)


def rounded(blend: Floats, top: float | Floats) -> tuple[Floats, Floats]:
    """The predicted sample, from 0 to `top`, and how far above a whole number the blend is."""
    whole = blend + FRACTION / 2
    whole *= 1 / FRACTION
    np.floor(whole, out=whole)
    above = blend - FRACTION * whole
    np.maximum(whole, 0.0, out=whole)
    np.minimum(whole, top, out=whole)
    return whole, above


def far(above: Floats) -> Bools:
    """Whether blends are far from whole numbers."""
    return np.asarray(np.abs(above) >= FRACTION / 4)


def contexts(
    energy: Floats, away: NDArray[Any], lowest: int | Integers, coarse: int | Integers
) -> Integers:
    """Number of the context, 0 to 2 BINS - 1: expected error, and whether the blend is `far`.

    ``4 / 2^coarse`` bins to an octave, from bin `lowest` on.
    """
    bins: Integers = energy.view(np.int64) >> (50 + coarse)
    bins -= lowest
    np.maximum(bins, 0, out=bins)
    np.minimum(bins, BINS - 1, out=bins)
    bins += bins
    bins += away
    return bins
