"""The posterior of samples on a complete grid: one pattern between samples, and an amplitude.

All samples have the same neighbours, so the variance per amplitude is one function of where a place
lies between them (and near borders). The amplitude is local: what each sample differs by from what
its neighbours say of it, in closed form a filter, averaged over the nearest few.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product as cartesian

import numpy as np

from elmfield._array.running import runs
from elmfield._array.typing import Floats, Integers
from elmfield.field.uncertainty.neighbours import (
    BLOCKS,
    COMMON_SHARE,
    LARGEST_POWER,
    LEAST_POWER,
    Calibration,
    Prior,
    Terms,
    compact,
    require_small,
)

LEFT_OUT_BOX = {1: 9, 2: 7, 3: 5}
"""Samples on each axis of the box in whose middle one is left out; 3 on more than three axes."""

PATTERN_BOX = {1: 16, 2: 8, 3: 6, 4: 4}
"""Samples on each axis of the box in which variances are computed; 2 on more than four axes."""

PATTERN_STEPS = {1: 64, 2: 24, 3: 8, 4: 4}
"""Steps of the table of variances between two samples; 2 on more than four axes."""

REACH = {1: 6.0, 2: 2.5, 3: 2.0}
"""Samples farther than this on an axis have no part in an amplitude, by number of axes; else 1.5.

On ten pictures that are not scored anywhere 2 to 3 in the plane were alike.
"""

PROBE_SAMPLES = 1 << 19
"""Samples from which power and calibration are found, about."""

KEPT_RESIDUALS = 1 << 24
"""Residuals that are kept between calls; those of larger arrays are made as far as needed."""

START_POWER = 1.5
"""The power from which its estimate begins; rougher priors stretch axes no more than this one."""

MOST_STRETCH = 2.0
"""Logarithm by which axes may differ at most."""

LEAST_VARIANCE = 1e-9
"""Variances below this part of the largest are rounding."""

AROUND = 4
"""Samples around places whose covariances are asked for that are taken into account."""

Taps = tuple[Integers, Floats]
"""Entries of an array along an axis around p positions, (p, t), and their weights of sum 1."""

Read = Callable[[tuple[slice, ...]], Floats]
Combine = Callable[[Floats, Sequence[Taps]], Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class Lattice:
    """Samples on a complete grid, and how sure a function between them is.

    Parameters
    ----------
    shape, periodic : tuples
        Samples on each axis, and which axes repeat.
    read : callable
        The samples of a slab, (..., C).
    prior : Prior
        Of amplitude 1.
    common : array, shape (C,)
        The mean of all residuals.
    calibration : Calibration
        What deviations are multiplied by.
    floor : array, shape (C,)
        Variance that every value has besides: what coding lost.
    noise : pair of arrays, shape (C,), or None
        Variances of denoised samples of the mean amplitude, and at most.
    """

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    read: Read = field(repr=False)
    prior: Prior
    common: Floats = field(default_factory=lambda: np.ones(1))
    calibration: Calibration = field(default_factory=Calibration)
    floor: Floats = field(default_factory=lambda: np.zeros(1))
    noise: tuple[Floats, Floats] | None = None

    @classmethod
    def calibrated(
        cls,
        shape: tuple[int, ...],
        periodic: tuple[bool, ...],
        read: Read,
        *,
        values: Callable[[list[Floats]], Floats],
        power: float,
        means: bool,
        floor: Floats,
        noise: Floats | None = None,
        left: float = 1.0,
    ) -> "Lattice":
        """Find power, stretch and calibration from the samples; `power` serves short axes.

        `values` gives the function on a grid of index coordinates. Where it differs from the
        posterior's mean by more than the latter's deviation, deviations are that much larger. Of
        `noise`, variances (C,), that was taken out a part is `left`.
        """
        probes = _probes(shape)
        blocks = [read(slab) for slab in probes]
        prior = Prior(START_POWER, np.ones(len(shape)))
        if min(min(b.shape[:-1]) for b in blocks) < 2 * LEFT_OUT_BOX.get(len(shape), 3):
            prior = replace(prior, power=min(max(power, LEAST_POWER), LARGEST_POWER))
        else:
            for _ in range(2):
                prior = Prior(_growth(prior, blocks), _stretch(prior, blocks))
        made = cls(shape=shape, periodic=periodic, read=read, prior=prior, floor=floor)
        residuals = [np.abs(filtered(b, made._filter)) for b in blocks]
        flat = np.concatenate([r.reshape(-1, r.shape[-1]) for r in residuals])
        made = replace(made, common=flat.mean(axis=0))
        if noise is not None and (noise > 0).all():
            shares = [made._noise_shares(made._smoothed(r)).mean() for r in residuals]
            return replace(made, noise=(noise * left / max(float(np.mean(shares)), 1e-300), noise))
        z = [r / np.maximum(made._smoothed(r, without=True), 1e-300) for r in residuals]
        made = replace(made, calibration=Calibration.of(np.concatenate([v.ravel() for v in z])))
        if means:
            return replace(made, prior=replace(prior, means=True))
        apart = float(np.mean([made._apart(b, s, values) for b, s in zip(blocks, probes)]))
        wider = made.calibration.factor * max(1.0, apart**0.5)
        return replace(made, calibration=replace(made.calibration, factor=wider))

    def _apart(
        self, y: Floats, slab: tuple[slice, ...], values: Callable[[list[Floats]], Floats]
    ) -> float:
        """Mean square of what a function differs by from the posterior's mean, in its deviations.

        In the middle between samples y of a slab.
        """
        (t, inverse), sides = self._pattern, self._pattern_sides
        if any(n % 2 or n > m for n, m in zip(sides, y.shape)):
            return 0.0
        middle = np.zeros((1, len(sides)))
        weights = (self.prior.rows(middle, t) @ inverse)[0, : len(t)].reshape(sides)
        mean = filtered(y, weights, even=True)
        x = [s.start + np.arange(n) + (m - 1) / 2 for s, m, n in zip(slab, sides, mean.shape)]
        square = self.on_grid(x) - self.floor
        known = square > 0
        return (
            float(np.mean(((values(x) - mean) ** 2)[known] / square[known])) if known.any() else 0.0
        )

    # --- amplitudes -----------------------------------------------------------------------------

    @cached_property
    def _filter(self) -> Floats:
        """What a left-out sample differs by from what the others of its box say, in deviations."""
        n = LEFT_OUT_BOX.get(len(self.shape), 3)
        prior = replace(self.prior, means=False)
        return left_out_filter(prior, [min(n, m - 1 + m % 2) for m in self.shape])

    def _taps(self, k: int, x: Floats, n: int, wraps: bool) -> Taps:
        """The n residuals of axis k near index coordinates x."""
        reach = REACH.get(len(self.shape), 1.5)
        most = math.ceil(reach)
        at = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - most, most + 1)
        w = compact((x[:, None] - at) / reach)
        return at % n if wraps else np.clip(at, 0, n - 1), w / w.sum(axis=1, keepdims=True)

    def _smoothed(self, residuals: Floats, *, without: bool = False) -> Floats:
        """Amplitudes at the samples of some residuals, (..., C); `without` each one's own."""
        taps = [
            self._taps(k, np.arange(float(n)), n, False) for k, n in enumerate(residuals.shape[:-1])
        ]
        own = math.prod(w[0].max() for _, w in taps) if without else 0.0
        total = _on_grid(residuals, taps) - own * residuals + COMMON_SHARE * self.common
        return total / (1 - own + COMMON_SHARE)

    @cached_property
    def _all_residuals(self) -> Floats | None:
        """Residuals of all samples; None where these are too many."""
        if math.prod(self.shape) * len(self.common) > KEPT_RESIDUALS:
            return None
        return self._residuals([0] * len(self.shape), self.shape)

    def _residuals(self, first: Sequence[int], last: Sequence[int]) -> Floats:
        """Residuals of the samples from first to last, (..., C); those at borders repeat others."""
        slab, inner, outer = [], [], []
        sides = self._filter.shape
        for n, side, wraps, a, b in zip(self.shape, sides, self.periodic, first, last):
            low, high = min(a - side // 2, n - side), max(b + side // 2, side)
            if not wraps:
                low, high = max(low, 0), min(high, n)
            whole = low < 0 or high > n
            slab.append(slice(0, n) if whole else slice(low, high))
            inner.append(np.arange(low, high) % n if whole else np.arange(high - low))
            outer.append(np.clip(np.arange(a, b) - low - side // 2, 0, high - low - side))
        y = self.read(tuple(slab))[np.ix_(*inner)]
        return np.abs(filtered(y, self._filter))[np.ix_(*outer)]

    def _amplitudes(self, x: Sequence[Floats], combine: Combine) -> Floats:
        """Standard deviations of the prior at points or on a grid, given axis by axis."""
        ends = enumerate(zip(x, self.shape, self.periodic))
        taps = [self._taps(k, c, n, wraps) for k, (c, n, wraps) in ends]
        residuals = self._all_residuals
        if residuals is None:
            first = [int(i.min(initial=0)) for i, _ in taps]
            residuals = self._residuals(first, [int(i.max(initial=0)) + 1 for i, _ in taps])
            taps = [(i - a, w) for (i, w), a in zip(taps, first)]
        total = combine(residuals, taps) + COMMON_SHARE * self.common
        return self.calibration.factor * total / (1 + COMMON_SHARE)

    def amplitudes(self, x: Floats) -> Floats:
        """Standard deviations of what `joint` has covariances of, at points x, (n, d): (n, C)."""
        if self.noise is not None:
            return np.sqrt(self.variance(x) - self.floor)
        return self._amplitudes(list(x.T), _at_points)

    @property
    def _noise_ratio(self) -> float:
        """Variance of the noise in parts of the square of the mean amplitude."""
        if self.noise is None:
            return 0.0
        a = self.calibration.factor * np.maximum(self.common, 1e-300)
        return float(np.mean(self.noise[1] / a**2))

    def _noise_shares(self, a: Floats) -> Floats:
        """How much noise is left where denoised samples have amplitudes a, to a factor.

        A prior of amplitude a averages samples over a distance r with ``a² r^β = σ² / r^d``: what
        is left of the noise's variance grows as ``a^(2d / (β + d))``.
        """
        d = len(self.shape)
        return np.asarray((a / np.maximum(self.common, 1e-300)) ** (2 * d / (self.prior.power + d)))

    # --- variances per amplitude ----------------------------------------------------------------

    @cached_property
    def _pattern(self) -> tuple[Floats, Floats]:
        """Places of the samples of the box for variances, counted from its middle; and inverse."""
        sides = self._pattern_sides
        t = np.indices(sides).reshape(len(sides), -1).T - (np.asarray(sides) - 1) / 2
        return t, self.prior.inverse(t, self._noise_ratio)

    @property
    def _pattern_sides(self) -> tuple[int, ...]:
        n = PATTERN_BOX.get(len(self.shape), 2)
        return tuple(n if p else min(n, m) for m, p in zip(self.shape, self.periodic))

    def _seats(self, k: int, x: Floats) -> Floats:
        """Where index coordinates of axis k lie in the pattern's box, from its middle.

        Places far from borders lie between the two samples in the middle.
        """
        n, m = self.shape[k], self._pattern_sides[k]
        inner = m // 2 - 1
        between = inner + x - np.floor(x)
        if self.periodic[k]:
            u = between
        elif m == n:
            u = x
        else:
            u = np.where(x < inner, x, np.where(x > n - 1 - inner, x - (n - m), between))
        return np.asarray(u - (m - 1) / 2)

    def _folded(self, k: int, x: Floats) -> Floats:
        """The same on the side below the middle: variances are those of the other side."""
        return -np.abs(self._seats(k, x))

    def asked_at(self, x: Floats) -> tuple[Floats, Floats, Integers, Floats, float]:
        """Offsets (r, k, d) and weights (r, k) of the samples that places x, (n, d), ask.

        Which of these rows each place has, (n,); variances, (r,), and noise per amplitude.
        """
        seats = np.stack([self._seats(k, c) for k, c in enumerate(x.T)], axis=1)
        u, rows = np.unique(seats.round(9), axis=0, return_inverse=True)
        t, inverse = self._pattern
        weights = (self.prior.rows(u, t) @ inverse)[:, : len(t)]
        return t - u[:, None], weights, rows.reshape(-1), self._direct(u, ()), self._noise_ratio

    @cached_property
    def _table(self) -> tuple[Floats, int]:
        """Variances per amplitude at all steps between samples of half the box; steps a sample."""
        steps = PATTERN_STEPS.get(len(self.shape), 2)
        axes = [-np.arange(m * steps // 2 + 1)[::-1] / steps for m in self._pattern_sides]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        found = self._direct(points, ())
        if not self.prior.means:
            found = np.where(found > LEAST_VARIANCE * found.max(initial=0), found, 0.0)
        return found.reshape(*map(len, axes), 1), steps

    def _direct(self, u: Floats, terms: Terms) -> Floats:
        """Variances per amplitude at places of the pattern's box, (n,)."""
        prior, (t, inverse) = self.prior, self._pattern
        if terms:
            prior = prior.soft
            inverse = prior.inverse(t, self._noise_ratio)
        found = np.empty(len(u))
        for i, j in runs(len(u), max(1, (1 << 22) // len(t))):
            b = prior.rows(u[i:j], t, terms)
            found[i:j] = prior.peak(terms) - np.einsum("ij,ij->i", b @ inverse, b)
        return np.maximum(found, 0)

    def _variances(self, x: Sequence[Floats], combine: Combine) -> Floats:
        """Variances of values at points or on a grid, given axis by axis."""
        a = self._amplitudes(x, combine)
        if self.noise is not None:
            mean, most = self.noise
            shares = self._noise_shares(a / self.calibration.factor)
            return np.minimum(mean * shares, most) + self.floor
        table, steps = self._table
        seats = []
        for k, c in enumerate(x):
            at = self._folded(k, c) * steps + table.shape[k] - 1
            low = np.clip(np.floor(at), 0, table.shape[k] - 2).astype(np.int64)
            up = np.clip(at - low, 0, 1)
            seats.append((np.stack([low, low + 1], axis=1), np.stack([1 - up, up], axis=1)))
        a *= a
        a *= combine(table, seats)
        return a + self.floor

    # --- what is asked --------------------------------------------------------------------------

    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""
        if not terms:
            return self._variances(list(x.T), _at_points)
        u = np.stack([self._folded(k, c) for k, c in enumerate(x.T)], axis=1)
        unit = self._direct(u, terms)
        if self.noise is not None:
            unit = unit / np.maximum(self._direct(u, ()), 1e-300)
        return unit[:, None] * self.amplitudes(x) ** 2

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of index coordinates x."""
        return self._variances(x, _on_grid)

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude of values at places x near each other, (n, n)."""
        axes = []
        for c, n, wraps in zip(x.T, self.shape, self.periodic):
            low, high = int(np.floor(c.min())) - AROUND, int(np.ceil(c.max())) + AROUND + 1
            axes.append(np.arange(low, high) if wraps else np.arange(max(0, low), min(n, high)))
        require_small(math.prod(map(len, axes)))
        t = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        found = self.prior.joint(x, t.astype(float), self._noise_ratio)
        own = np.sqrt(np.diagonal(found)) if self.noise is not None else np.ones(len(x))
        return np.asarray(found / own[:, None] / own)

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""
        return BLOCKS.get(len(self.shape), 2.0)

    def pattern(self, low: Floats, high: Floats) -> tuple[object, ...]:
        """Where a box lies between samples, and how near to borders: such boxes are alike."""
        key = []
        for a, b, n, wraps in zip(low.tolist(), high.tolist(), self.shape, self.periodic):
            first = math.floor(a + 1e-9)
            ends = (0, 0) if wraps else (min(first, AROUND), min(n - 1 - math.ceil(b), AROUND))
            key.append((round(a - first, 9), round(b - a, 9), *ends))
        return tuple(key)


def _at_points(array: Floats, taps: Sequence[Taps]) -> Floats:
    """Weighted sums of an array, (..., C), around points: (n, C)."""
    total: Floats = np.zeros(())
    for at in cartesian(*(range(w.shape[1]) for _, w in taps)):
        weight = math.prod(w[:, j] for (_, w), j in zip(taps, at))
        near = array[tuple(i[:, j] for (i, _), j in zip(taps, at))]
        total = total + near * np.asarray(weight)[:, None]
    return total


def _on_grid(array: Floats, taps: Sequence[Taps]) -> Floats:
    """Weighted sums of an array, (..., C), around the positions of a grid: axis by axis."""
    for k, (i, w) in enumerate(taps):
        axis = [-1 if j == k else 1 for j in range(array.ndim)]
        parts = (np.take(array, i[:, j], axis=k) * w[:, j].reshape(axis) for j in range(w.shape[1]))
        array = np.asarray(sum(parts))
    return array


def left_out_filter(prior: Prior, side: Sequence[int]) -> Floats:
    """The filter that gives what the middle sample of a box differs by, in deviations."""
    t = np.indices(side).reshape(len(side), -1).T - (np.asarray(side) - 1) / 2
    j = len(t) // 2
    Q = prior.inverse(t)[j, : len(t)]
    return np.asarray((Q / math.sqrt(max(Q[j], 1e-300))).reshape(side))


def filtered(y: Floats, weights: Floats, *, even: bool = False) -> Floats:
    """Samples y, (..., C), summed with weights around each that has all neighbours.

    Or, with an `even` number of weights on each axis, around each middle between samples.
    """
    from scipy.ndimage import correlate  # 0.1 s, for who asks

    whole = correlate(np.asarray(y, np.float64), weights[..., None], mode="nearest")
    ends = (slice(n // 2, m - n // 2 + even) for n, m in zip(weights.shape, y.shape))
    return np.asarray(whole[tuple(ends)])


def _probes(shape: Sequence[int]) -> list[tuple[slice, ...]]:
    """Blocks from which statistics are taken: all of an array, or parts towards its corners."""
    each = max(shape)
    if math.prod(shape) > PROBE_SAMPLES:
        each = max(16, int((PROBE_SAMPLES / 2 ** len(shape)) ** (1 / len(shape))))
    starts = [sorted({max(0, n - each) // 4, max(0, n - each) * 3 // 4}) for n in shape]
    return list(
        cartesian(*([slice(a, a + min(n, each)) for a in s] for s, n in zip(starts, shape)))
    )


def _growth(prior: Prior, blocks: Sequence[Floats]) -> float:
    """The power by which residuals grow when every second sample is left out on each axis."""
    d = blocks[0].ndim - 1
    weights = left_out_filter(prior, (LEFT_OUT_BOX.get(d, 3),) * d)
    halves = [b[tuple(slice(i, None, 2) for _ in range(d))] for b in blocks for i in (0, 1)]
    fine, coarse = (
        np.mean([np.abs(filtered(b, weights)).mean() for b in some]) for some in (blocks, halves)
    )
    if not (fine > 0 and coarse > 0):
        return prior.power
    return float(np.clip(2 * np.log2(coarse / fine), LEAST_POWER, LARGEST_POWER))


def _stretch(prior: Prior, blocks: Sequence[Floats]) -> Floats:
    """By how much farther apart samples are on some axes than on others, as the prior sees it."""
    axes = range(blocks[0].ndim - 1)
    rough = np.mean([[np.abs(np.diff(b, 2, axis=k)).mean() for k in axes] for b in blocks], axis=0)
    if not (rough > 0).all():
        return np.ones(len(rough))
    logs = 2 / max(prior.power, START_POWER) * np.log(rough)
    return np.asarray(np.exp(np.clip(logs - logs.mean(), -MOST_STRETCH, MOST_STRETCH)))
