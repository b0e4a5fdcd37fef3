"""Windows times functions of one axis: polynomials on a lattice of short intervals.

A regular partition and the functions of an axis enter. On every interval of the lattice one or two
cells contribute, each with a polynomial for every function, its window included: whoever multiplies
those of all axes need not ask for windows again.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.polynomial import chebyshev

from elmfield._array.typing import Floats, Integers
from elmfield.local.layers import Pieces
from elmfield.local.model import AxisFunctions
from elmfield.partition import Partition, blend
from elmfield.partition.cells import Window, quintic, rings_of

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended
    from elmfield.field.model import Model

EXPANSION_TERMS = 32
"""Terms of an expansion: at one cycle per sample the last is below 1e-25 of the first."""

SPLINE_TERMS = 17
"""The same for splines, of degree 7 at most, times windows of degree 5: three more are nothing."""

MAX_INTERVALS_PER_SAMPLE = 8
"""Intervals per sample at most."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """The windowed functions of one axis on J intervals, which s crosses from -1 to 1.

    ``φ(x) a_q(x) = Σ_t rows[i, t, q] T_t(s)`` with Chebyshev's polynomials T.

    Parameters
    ----------
    low : float
        Where the first interval begins.
    per_unit : int
        Intervals per sample.
    lower, upper : integer arrays, shape (J,)
        The cells that contribute; equal where there is only one.
    piece : integer array, shape (J, 2)
        Which of `rows` the lower and the upper cell have; -1 where it does not contribute.
    rows : array, shape (U, K, r)
        The expansions that differ.
    left_over : array, shape (r,)
        What the terms that are not there may add to each function, at most.
    reach : float
        How far from the centres of their boxes cells contribute.
    per_step : array, shape (J,), or None
        Along an uneven axis, index coordinates per step on each interval.
    """

    low: float
    per_unit: int
    lower: Integers
    upper: Integers
    piece: Integers
    rows: Floats = field(repr=False)
    left_over: Floats | float = 0.0
    reach: float = 0.0
    per_step: Floats | None = field(default=None, repr=False)

    @property
    def count(self) -> int:
        """Number of intervals J."""
        return len(self.lower)

    @cached_property
    def pieces(self) -> Pieces:
        """The expansions that differ as powers of s: interval j of these is row j of `rows`."""
        return Pieces(0.0, self.per_unit, to_powers(self.rows.shape[1]) @ self.rows)

    def places(self, x: Floats) -> tuple[Integers, Floats]:
        """Interval of each index coordinate, and s there."""
        at = (x - self.low) * self.per_unit
        j = np.minimum(np.maximum(at.astype(np.int64), 0), self.count - 1)
        return j, 2 * (at - j) - 1

    def runs(self) -> list[tuple[slice, int]]:
        """Runs of intervals with one lower cell, and that cell."""
        ends = np.flatnonzero(np.diff(self.lower)) + 1
        first, last = np.append(0, ends), np.append(ends, self.count)
        return [(slice(int(i), int(j)), int(self.lower[i])) for i, j in zip(first, last)]

    def by_cell(self, part: slice) -> list[tuple[int, slice, Integers]]:
        """Cells, runs of intervals of a part they contribute on, and which piece they have there.

        On an interval all that contributes adds up.
        """
        lower, upper, piece = (a[part] for a in (self.lower, self.upper, self.piece))
        two = np.flatnonzero(piece[:, 1] >= 0)
        at, cell = np.append(np.arange(len(lower)), two), np.append(lower, upper[two])
        order, pieces = np.lexsort((at, cell)), np.append(piece[:, 0], piece[two, 1])
        at, cell = at[order], cell[order]
        cuts = np.flatnonzero((np.diff(cell) != 0) | (np.diff(at) != 1)) + 1
        every = pairwise([0, *cuts.tolist(), len(at)])
        return [
            (int(cell[i]), slice(int(at[i]), int(at[i]) + j - i), pieces[order[i:j]])
            for i, j in every
        ]

    def within_rounding(self, dtype: np.dtype[np.floating], order: int) -> "Intervals":
        """These without the last terms that a dtype's rounding hides, in derivatives too.

        A third of those of 32 × 32 cells in float32, in which sums then take 10 % less time.
        """
        size = np.abs(self.rows).max(axis=(0, 2))
        rise = np.maximum(1, 2 * self.per_unit * np.arange(len(size)) ** 2) ** order
        beyond = np.cumsum((size * rise)[::-1])[::-1]
        kept = np.count_nonzero(beyond > np.finfo(dtype).eps / 16 * size.max())
        return replace(self, rows=self.rows[:, :kept])


def intervals_of(model: "Model") -> tuple[Intervals, ...] | None:
    """The windowed functions of every axis of a field; None where these are no polynomials.

    That needs regions that share one model of products, cell by cell, and windows that end on a
    lattice of at most 1/8 sample.
    """
    blended, axes = model.blended, model.blended.axes
    if axes is None or np.any(blended.radii != 1):
        return None
    spans = zip(model.domain.low, model.domain.high)
    found = [_intervals(blended, k, axes[k], span) for k, span in enumerate(spans)]
    return None if any(f is None for f in found) else tuple(f for f in found if f is not None)


def lattice(partition: Partition, k: int, means: bool = False) -> tuple[float, int] | None:
    """A point of the coarsest lattice on which the windows of axis k end, and points per sample."""
    if partition.n_cells[k] == 1 and not partition.periodic[k]:
        return 0.5, 1
    delta = partition.overlap[k]
    width = delta if means else 2 * delta  # with means the lattice meets the samples' cells too
    for per_unit in range(1, MAX_INTERVALS_PER_SAMPLE + 1):
        if abs(width * per_unit - round(width * per_unit)) < 1e-12:
            return 0.5 + delta, per_unit
    return None


def _intervals(
    blended: "Blended", k: int, axis: AxisFunctions, span: tuple[float, float]
) -> Intervals | None:
    part = blended.partition
    found, before = lattice(part, k, axis.deviations is not None), np.inf
    while found is not None and found[1] <= MAX_INTERVALS_PER_SAMPLE:
        at = found[0] * found[1]
        if part.spacing(k) is not None and abs(at - round(at)) >= 1e-9:  # knots are at samples
            found = found[0], 2 * found[1]
            continue
        made = _expanded(blended, k, axis, span, *found)
        if part.periodic[k] and not rings_of(part)[k] and made.reach > part.shape[k] / 2 + 1e-9:
            return None  # a window that meets itself jumps from one end of its box to the other
        # Waves are resolved by so many terms; a layer of another kind may have knots. What shorter
        # intervals do not resolve either is rounding, of the roughest modes of high orders.
        left, size = np.max(made.left_over), np.abs(made.rows).max()
        if left <= 1e-12 * size or 0.7 * before < left <= 1e-6 * size:
            return made
        before = left
        found = found[0], 2 * found[1]
    return None


def _expanded(
    blended: "Blended",
    k: int,
    axis: AxisFunctions,
    span: tuple[float, float],
    origin: float,
    per_unit: int,
) -> Intervals:
    """The functions expanded on the intervals of a lattice through `origin`."""
    part, n = blended.partition, blended.partition.shape[k]
    # Rounding makes no interval more; 1e-9 past a blend second derivatives differ already.
    first = math.floor((span[0] - origin) * per_unit + 1e-12)
    last = max(first + 1, math.ceil((span[1] - origin) * per_unit - 1e-12))
    low, J = origin + first / per_unit, last - first
    middle = low + (np.arange(J) + 0.5) / per_unit
    lower, upper, t = _cells_at(part, k, middle)
    along = tuple(slice(None) if j == k else 0 for j in range(len(part.shape)))
    centre = blended.centres[part.labels[along], k][np.stack([lower, upper])]
    u, spacing = middle - centre, part.spacing(k)
    if part.periodic[k]:
        u -= np.round(u / n) * n
    side, j = np.nonzero([np.ones(J, bool), t > 0])
    u, t, centre = u[side, j], t[j], centre[side, j]
    # Distances and ramps that differ do so by more than 2^-8 and 2^-22; rounding makes less.
    keys = (np.round(u * 2**8).astype(np.int64) << 24) + np.round(t * 2**22).astype(np.int64)
    if spacing is not None:  # no two boxes are alike
        keys = np.arange(len(keys))
    _, first_of, inverse = np.unique(2 * keys + side, return_index=True, return_inverse=True)
    unique = np.stack([u, t, side], axis=1)[first_of]
    piece = np.full((J, 2), -1)
    piece[j, side] = inverse
    s, turn = _nodes(EXPANSION_TERMS if spacing is None else SPLINE_TERMS)
    u = unique[:, :1] + s / (2 * per_unit)
    own = axis.at(centre[first_of, None])
    values = np.asarray(own(u), np.float64)
    weights, bends = _weights(unique, s, per_unit, part.overlap[k], part.window)
    if spacing is not None and part.overlap[k] > 0:
        x = middle[j[first_of], None] + s / (2 * per_unit)
        ramp, slope = (r.reshape(x.shape) for r in blend(part, k, x.reshape(-1), 1).ramp)
        weights = np.where(unique[:, 2:] > 0, ramp, 1 - ramp)
        bends = np.where(unique[:, 2:] > 0, slope, -slope)
    values = values * weights[..., None]
    if own.deviations is not None:
        values += own.deviations(u) * bends[..., None]
    rows = turn @ values
    unresolved = 4 * np.abs(rows[:, -3:]).sum(axis=1).max(axis=0)
    rows, gone = _shortened(rows)
    upper = np.where(piece[:, 1] >= 0, upper, lower)
    reach = float(np.abs(unique[:, 0]).max()) + 0.5 / per_unit
    per_step = None if spacing is None else spacing.per_step(middle)
    return Intervals(low, per_unit, lower, upper, piece, rows, gone + unresolved, reach, per_step)


def _cells_at(part: Partition, k: int, x: Floats) -> tuple[Integers, Integers, Floats]:
    """Lower and upper cell at the middles x of intervals, and how far the ramp has come there.

    Windows end on the lattice: a cell that contributes there does so on the whole interval.
    """
    edges, delta, N = part.borders(k), part.overlap[k], part.n_cells[k]
    at = np.clip(np.floor(x + 0.5), 0, part.shape[k] - 1).astype(np.int64)
    cell = np.searchsorted(part.edges[k], at, side="right") - 1
    wraps = part.periodic[k]
    low = (x - edges[cell] < delta) & (wraps | (cell > 0))
    high = (edges[cell + 1] - x < delta) & (wraps | (cell < N - 1)) & ~low
    border = np.where(low, edges[cell], edges[cell + 1])
    t = np.where(low | high, (x - border) / (2 * max(delta, 1e-300)) + 0.5, 0.0)
    lower, upper = cell - low, cell + high
    return (lower % N, upper % N, t) if wraps else (lower, upper, t)


def _weights(
    keys: Floats, s: Floats, per_unit: int, delta: float, window: Window | None
) -> tuple[Floats, Floats]:
    """The windows, and their slopes, at the nodes of the expansions that differ, (U, nodes)."""
    t = keys[:, 1:2] + (keys[:, 1:2] > 0) * s / (4 * per_unit * max(delta, 1e-300))
    inner, window = keys[:, 1:2] > 0, window or quintic
    ramp = np.where(inner, window(t, 0), 0.0)
    slope = np.where(inner, window(t, 1), 0.0) / (2 * max(delta, 1e-300))
    upper = keys[:, 2:] > 0
    return np.where(upper, ramp, 1 - ramp), np.where(upper, slope, -slope)


@lru_cache(maxsize=64)
def to_powers(terms: int) -> Floats:
    """From coefficients in Chebyshev's polynomials to those of powers, (terms, terms)."""
    M = np.zeros((terms, terms))
    for t in range(terms):
        M[: t + 1, t] = chebyshev.cheb2poly(np.eye(terms)[t])[: t + 1]
    return M


@lru_cache(maxsize=2)
def _nodes(terms: int) -> tuple[Floats, Floats]:
    """Chebyshev's points, and the matrix from values there to coefficients."""
    s = np.cos(np.pi * (np.arange(terms) + 0.5) / terms)
    turn = 2 / terms * chebyshev.chebvander(s, terms - 1).T
    turn[0] /= 2
    return np.asarray(s), np.asarray(turn, np.float64)


def _shortened(rows: Floats) -> tuple[Floats, Floats]:
    """The expansions without the last terms, which are nothing but rounding; and what these add.

    Function by function: rough ones of high orders are sums of large numbers, and have more of it.
    """
    size = np.abs(rows).max(axis=0)  # (terms, r)
    kept = size > np.maximum(4e-15 * size.max(axis=0), 2 * size[-4:].max(axis=0))
    last = np.maximum(3, len(size) - np.argmax(kept[::-1], axis=0) * kept.any(axis=0))
    beyond = np.arange(len(size))[:, None] >= last
    gone = np.abs(rows * beyond).sum(axis=1).max(axis=0)
    return np.ascontiguousarray((rows * ~beyond)[:, : last.max()]), gone
