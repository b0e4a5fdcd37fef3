"""Prediction of samples from earlier ones: the neighbours, the arithmetic, and learning weights.

What both ends compute is whole numbers held in float64 below 2^53, so that sums, products and
matrix products are exact in any order, on any machine. Only the encoder learns: in float64, from a
part of the samples; the decoder gets whole numbers.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Bools, Floats, Integers
from elmfield.codec.lossless.wavefront import Layout


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
        """Return the stencil of a layout."""
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
        """K, the number of neighbours."""
        return sum(run.n for run in self.samples)

    @property
    def n_errors(self) -> int:
        """F, the number of past errors."""
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

    @property
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

    @property
    def used(self) -> Integers:
        """How many neighbours, up to the last it has, every group looks at, shape (G,)."""
        last = self.n_neighbours - self.present[:, ::-1].argmax(axis=1)
        return np.asarray(last[self.kinds], np.int64)

    @cached_property
    def present_errors(self) -> Bools:
        """Which past errors a kind of group has, shape (kinds, F)."""
        return self._present([sum(n for _, _, n in s.errors) for s in self.sets])


def level_weights() -> Floats:
    """Return the weight of a prediction by how many levels its past errors are above the least."""
    return np.array([LEVELS[d % 4] >> (d // 4) for d in range(FAINTEST + 1)], np.float64)


def blend(predictions: Floats, past: Floats, table: Floats, axis: int) -> Floats:
    """Return one prediction of several, in sixteenths: small past errors weigh most.

    Parameters
    ----------
    predictions, past : arrays with the predictors on `axis`
        In sixteenths; sums of squared errors of neighbours plus 256.
    table : array
        :func:`level_weights`.
    """
    level = past.view(np.int64) >> 49  # eight levels to an octave: exponent, three bits of mantissa
    level -= np.minimum.reduce(level, axis=axis, keepdims=True)
    weight = table.take(level, mode="clip")
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


# --- learning -------------------------------------------------------------------------------------

LEARNED_SAMPLES = 16_000
"""Samples to learn predictors from."""
WINDOW_ROWS, WINDOW_COLUMNS = 4, 16
PREDICTORS = 4
ROUNDS = 4
"""So many times samples go to the predictor that does best around them, and it is fitted anew."""


class Windows(NamedTuple):
    """Some samples of a kind of group, n times rows x columns.

    Parameters
    ----------
    group, block, row, column : arrays, shape (n,)
        Where the first sample of each lies.
    shape : tuple of int
        Rows and columns.
    """

    group: Integers
    block: Integers
    row: Integers
    column: Integers
    shape: tuple[int, int]


@lru_cache(maxsize=64)
def choose_windows(stencil: Stencil, kind: int) -> Windows:
    """Return windows all over a kind of group."""
    layout = stencil.layout
    hy, hx = layout.block[2:]
    rows, columns = min(WINDOW_ROWS, hy), min(WINDOW_COLUMNS, hx)
    groups = np.flatnonzero(stencil.kinds == kind)
    starts = np.arange(0, hy - rows + 1, rows), np.arange(0, hx - columns + 1, columns)
    corners = np.meshgrid(groups, np.arange(layout.n_blocks), *starts, indexing="ij")
    g, b, y, x = (v.ravel() for v in corners)
    inside = np.flatnonzero((y + rows <= layout.heights[b]) & layout.filled[g, b])
    if inside.size:
        g, b, y, x = g[inside], b[inside], y[inside], x[inside]
    # Every window is as likely: steps of the golden ratio through all of them, none twice.
    most = min(len(g), max(1, LEARNED_SAMPLES // (rows * columns)))
    some = np.unique((np.arange(most) * 0.6180339887498949 % 1.0 * len(g)).astype(int))
    return Windows(g[some], b[some], y[some], x[some], (rows, columns))


def learn_predictors(X: Floats, target: Floats, stencil: Stencil, present: Bools) -> Floats:
    """Return weights (P, K) of neighbours X, (K, n, rows, hx), for a target; 0 for anchors."""
    changes = np.empty_like(X)
    keep = present.copy()
    for first, n, anchor in stencil.anchors:
        changes[first : first + n] = X[first : first + n] - X[anchor]
        keep[anchor] = False
    shape, K = target.shape, int(keep.sum())
    weights = np.zeros((PREDICTORS, len(X)))
    both = np.empty((K + 1, target.size))  # what predicts, and what is predicted
    both[:-1] = changes[keep].reshape(K, -1)
    both[-1] = (target - X[1]).ravel()
    if K == 0 or not both[:-1].any():
        return weights
    near = _sum_3x3(np.abs(_errors(_solve(both @ both.T), both)).reshape(shape)).ravel()
    trusted = both / np.sqrt(near + 0.25 * near.mean() + 1e-9)
    owner = _sort_by_direction(X)
    for rounds_left in reversed(range(ROUNDS)):
        fits = _fit_owners(trusted, owner)
        if rounds_left:
            errors = _errors(fits, both)
            errors *= errors
            owner = _sum_3x3(errors.reshape(PREDICTORS, *shape)).argmin(axis=0).ravel()
    weights[:, keep] = fits
    return weights


def _errors(fits: Floats, both: Floats) -> Floats:
    """Return what fits, (..., K), leave of the last row by those before it."""
    return np.asarray(np.concatenate([fits, np.full((*fits.shape[:-1], 1), -1.0)], axis=-1) @ both)


def _fit_owners(both: Floats, owner: Integers) -> Floats:
    """Return every predictor's fit to the samples it owns, (P, K)."""
    order = np.argsort(owner.astype(np.int8), kind="stable")
    ends = np.searchsorted(owner, np.arange(PREDICTORS + 1), sorter=order).tolist()
    both = both.take(order, axis=1)
    parts = [both[:, i:j] for i, j in pairwise(ends)]
    return _solve(np.stack([part @ part.T for part in parts]))


def _sort_by_direction(X: Floats) -> Integers:
    """Return first owners of samples: by whether they change more along rows or columns."""
    ww, w, nw, n, ne, nn, nne = X[:7]
    across = np.abs(n - nw) + np.abs(n - ne) + np.abs(w - ww)
    down = np.abs(w - nw) + np.abs(n - nn) + np.abs(ne - nne)
    ratio = ((across - down) / (across + down + 1.0)).ravel()
    edges = np.quantile(ratio, np.arange(1, PREDICTORS) / PREDICTORS)
    return np.asarray(np.searchsorted(edges, ratio), np.int64)


def _solve(products: Floats) -> Floats:
    """Return least squares of the last row by those before it, with a little ridge; (..., K).

    From products of rows with rows, (..., K + 1, K + 1).
    """
    A, b = products[..., :-1, :-1], products[..., :-1, -1:]
    K = A.shape[-1]
    ridge = 1e-6 * np.trace(A, axis1=-2, axis2=-1) / K + 1e-12
    return np.asarray(np.linalg.solve(A + ridge[..., None, None] * np.eye(K), b)[..., 0])


def _sum_3x3(values: Floats) -> Floats:
    """Return sums over 3 x 3 samples of the last two axes."""
    out = values.copy()
    out[..., 1:] += values[..., :-1]
    out[..., :-1] += values[..., 1:]
    total = out.copy()
    total[..., 1:, :] += out[..., :-1, :]
    total[..., :-1, :] += out[..., 1:, :]
    return total


def choose_shift(X: Floats, target: Floats, weights: Floats) -> int:
    """Return the bits that weights need: rounding must stay well below the errors left."""
    D, y = (X[:7] - X[1]).reshape(7, -1), (target - X[1]).ravel()
    left = np.abs(weights[:, :7] @ D - y).min(axis=0)
    changes, typical = np.sqrt(np.mean(D * D)) + 1e-9, max(float(np.median(left)), 0.5)
    return int(np.clip(np.ceil(np.log2(changes / typical)) + 5, 6, 12))


def learn_gains(past: Floats, error: Floats) -> Integers:
    """Return weights, in 64ths, of past errors (F, n) in the expected next one, and a constant."""
    level = past.mean(axis=0)
    rows = np.concatenate([past, np.full((1, past.shape[1]), 16.0), error[None]])
    rows /= level + 0.25 * level.mean() + 1.0
    products = rows @ rows.T
    used = np.ones(len(past) + 1, np.bool_)
    fit = np.zeros(used.size)
    for _ in range(3):
        fit[:] = 0.0
        if not used.any():
            break
        own = np.append(np.flatnonzero(used), used.size)
        fit[used] = _solve(products[np.ix_(own, own)])
        used = fit > 1 / 128
    out = np.clip(np.rint(64 * fit), 0, 255)
    out[-1] = max(out[-1], 1.0)
    return out.astype(np.int64)
