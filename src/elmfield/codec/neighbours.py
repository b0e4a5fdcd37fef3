"""Which earlier samples predict a sample, and the arithmetic of prediction that both ends share.

Everything is a whole number held in float64 and stays below 2^53, so that sums, products and matrix
products are exact in any order, on any machine.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.wavefront import Layout

Run = tuple[int, int, int, int]
"""(how far back in groups, dy, first dx, number of samples in a row)."""

OWN = ((0, -2, 2), (-1, -1, 3), (-2, 0, 2))
CHANNEL = ((0, -1, 3), (-1, -1, 3), (1, 0, 1))
SECOND = ((0, -1, 2), (-1, 0, 1))
SLICE = ((0, -1, 3), (-1, 0, 1), (1, 0, 1))
"""Runs (dy, first dx, number) of neighbours in the sample's own group, in the channel before, in the one
before that, and in the slice before. Each set has the sample to the left, its *anchor*."""

OWN_ERRORS = ((0, -2, 2), (-1, -1, 3), (-2, 0, 1))
OTHER_ERRORS = ((0, 0, 2), (1, 0, 1))
"""Runs of errors that say how large the next one will be."""

FRACTION = 16
"""Predictions count in sixteenths of a sample."""
LEVELS = (4096, 3444, 2896, 2435)
FAINTEST = 63
"""The weight of a prediction falls by half every 4 levels of its past errors."""
SQUARE_LIMIT = float(1 << 48)
ERROR_LIMIT = float(1 << 36)
BINS = 40
"""Expected errors are put into 40 bins, four to an octave."""


def weights_of_levels() -> Floats:
    """Weight of a prediction by how many levels its past errors are above the least."""
    return np.array([LEVELS[d % 4] >> (d // 4) for d in range(FAINTEST + 1)], np.float64)


@dataclass(frozen=True)
class Stencil:
    """The neighbours that samples of a layout have.

    Parameters
    ----------
    layout : Layout
        Blocks and groups.
    """

    layout: Layout

    @cached_property
    def sets(self) -> list[tuple[int, int, int, tuple[tuple[int, int, int], ...]]]:
        """(axis, steps back on it, groups back, runs) of every set that some group has."""
        C, A, Z = self.layout.shape[0], *self.layout.block[:2]
        out = [(0, 0, 0, OWN)]
        if C > 1:
            out.append((0, 1, A * Z, CHANNEL))
        if C > 2:
            out.append((0, 2, 2 * A * Z, SECOND))
        if Z > 1:
            out.append((2, 1, 1, SLICE))
        if A > 1:
            out.append((1, 1, Z, SLICE))
        return out

    def _runs(self, own: tuple, other: tuple | None) -> list[Run]:  # type: ignore[type-arg]
        out = []
        for axis, back, groups, runs in self.sets:
            if back > 1 and other is not None:
                continue
            chosen = runs if other is None else own if back == 0 else other
            lift = back * self.layout.skews[axis]
            out += [(groups, dy, dx, n, lift) for dy, dx, n in chosen]
        return out  # type: ignore[return-value]

    @cached_property
    def samples(self) -> list[tuple[int, int, int, int, int]]:
        """Runs of neighbours: (groups back, dy, first dx, number, lines back by skew)."""
        return self._runs(OWN, None)  # type: ignore[return-value]

    @cached_property
    def errors(self) -> list[tuple[int, int, int, int, int]]:
        """Runs of errors, in the same form."""
        return self._runs(OWN_ERRORS, OTHER_ERRORS)  # type: ignore[return-value]

    @cached_property
    def anchors(self) -> list[tuple[int, int, int]]:
        """(first neighbour, number of them, anchor among them) of every set."""
        out, first = [], 0
        for *_, runs in self.sets:
            n = sum(run[2] for run in runs)
            out.append((first, n, 1 if runs is OWN else 0))
            first += n
        return out

    @cached_property
    def outside(self) -> list[tuple[int, Integers, Integers]]:
        """Neighbours of rows at a block's edge that would lie above or below it, and what they read.

        (row from the top, or -1 for the last, neighbours, the anchors of their sets).
        """
        dy = np.concatenate([np.full(n, dy) for _, dy, _, n, _ in self.samples])
        anchor = np.concatenate([np.full(n, first + anchor) for first, n, anchor in self.anchors])
        cases = [(0, dy < 0), (1, dy < -1), (-1, dy > 0)]
        return [(row, np.flatnonzero(k), anchor[k]) for row, k in cases if k.any()]

    @property
    def n_neighbours(self) -> int:
        """K."""
        return sum(run[3] for run in self.samples)

    @property
    def n_errors(self) -> int:
        """F, without the constant."""
        return sum(run[3] for run in self.errors)

    def present(self, g: int) -> NDArray[np.bool_]:
        """Which neighbours group g has, shape (K,)."""
        place = self.layout.groups[g]
        return np.concatenate(
            [
                np.full(n, back == 0 or place[axis] >= back)
                for (axis, back, _, _), (_, n, _) in zip(self.sets, self.anchors, strict=True)
            ]
        )

    @cached_property
    def kinds(self) -> Integers:
        """Which groups share their predictors: a number for every group, shape (G,)."""
        c, a, z = self.layout.groups.T
        _, kinds = np.unique(c * 4 + 2 * (a > 0) + (z > 0), return_inverse=True)
        return kinds.astype(np.int64)


def levels(past: Floats) -> Integers:
    """Eight levels to an octave: exponent and three bits of mantissa of positive numbers."""
    return past.view(np.int64) >> 49


def blended(predictions: Floats, past: Floats, table: Floats, axis: int) -> Floats:
    """One prediction of several: those whose past errors are least weigh most.

    Parameters
    ----------
    predictions, past : arrays with the predictors on `axis`
        In sixteenths; sums of squared errors of neighbours plus 256.
    table : array
        :func:`weights_of_levels`.
    """
    level = levels(past)
    level -= np.minimum.reduce(level, axis=axis, keepdims=True)
    weight = table.take(level, mode="clip")
    total = np.add.reduce(weight, axis=axis)
    weight *= predictions
    out: Floats = np.add.reduce(weight, axis=axis)
    out /= total
    return np.floor(out, out=out)


def rounded(blend: Floats, top: float) -> tuple[Floats, Floats]:
    """The predicted sample, between 0 and `top`, and how far above it the blend is, in sixteenths."""
    whole = blend + FRACTION / 2
    whole *= 1 / FRACTION
    np.floor(whole, out=whole)
    above = blend - FRACTION * whole
    np.maximum(whole, 0.0, out=whole)
    np.minimum(whole, top, out=whole)
    return whole, above


def contexts(energy: Floats, above: Floats, lowest: int) -> Integers:
    """Number of the context, 0 to 2 BINS - 1, by expected error and distance from a whole number."""
    bins = energy.view(np.int64) >> 50
    bins -= lowest
    np.maximum(bins, 0, out=bins)
    np.minimum(bins, BINS - 1, out=bins)
    bins += bins
    bins += np.abs(above) >= FRACTION / 4
    return bins
