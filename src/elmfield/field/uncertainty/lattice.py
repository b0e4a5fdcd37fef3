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

from elmfield._array.memory import runs
from elmfield._array.typing import Floats, Integers
from elmfield.field.uncertainty.prior import (
    LARGEST_POWER,
    LEAST_POWER,
    Prior,
    Terms,
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

COMMON_SHARE = 0.2
"""What the mean of all samples counts for in a local amplitude, in samples."""

PROBE_SAMPLES = 1 << 19
"""Samples from which power and calibration are found, about."""

KEPT_RESIDUALS = 1 << 24
"""Residuals that are kept between calls; those of larger arrays are made as far as needed."""

CONFIDENCE, QUANTILE = 0.9, 1.6448536269514722
"""The share of left-out samples that are to lie within so many standard deviations."""

NORMAL_RATIO = math.sqrt(math.pi / 2)
"""Standard deviation of a normal number by its mean absolute value."""

NOISE_RATIOS = np.logspace(-4, 4, 17)
"""Variances of the noise, in parts of the prior's amplitude squared, that are tabulated."""

START_POWER = 1.5
"""The power from which its estimate begins: two steps are taken."""

LEAST_VARIANCE = 1e-9
"""Variances below this part of the largest are rounding."""

AROUND = 4
"""Samples around places whose covariances are asked for that are taken into account."""

MILD_POWER = 1.5
"""Rougher priors stretch axes no more than this one."""

MOST_STRETCH = 2.0
"""Logarithm by which axes may differ at most."""

Taps = tuple[Integers, Floats]
"""Samples around positions, (p, 6), and what each counts for."""

Read = Callable[[tuple[slice, ...]], Floats]


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
    factor : float
        What deviations are multiplied by so that CONFIDENCE of left-out samples lie inside.
    common : array, shape (C,)
        The mean of all residuals.
    floor : array, shape (C,)
        Variance that every value has besides: what coding lost.
    shares : tuple of float
        Left-out samples inside 50, 90 and 99 %.
    noise, shown : arrays, shape (C,), or None
        Standard deviation of the noise that was taken out of the samples: as it scales deviations,
        and as amplitudes are compared with.
    """

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]
    read: Read = field(repr=False)
    prior: Prior
    factor: float = 1.0
    common: Floats = field(default_factory=lambda: np.ones(1))
    floor: Floats = field(default_factory=lambda: np.zeros(1))
    shares: tuple[float, ...] = ()
    noise: Floats | None = None
    shown: Floats | None = None

    # --- how it is made -------------------------------------------------------------------------

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
        `noise`, (C,), that was taken out a part is `left`, in variance.
        """
        d, side = len(shape), box_side(LEFT_OUT_BOX, len(shape))
        probes = _probes(shape)
        blocks = [read(slab) for slab in probes]
        prior = Prior(START_POWER, np.ones(d))
        if min(min(b.shape[:d]) for b in blocks) < 2 * side:
            prior = replace(prior, power=min(max(power, LEAST_POWER), LARGEST_POWER))
        else:
            for _ in range(2):
                prior = replace(
                    prior, power=_growth(prior, blocks), stretch=_stretch(prior, blocks)
                )
        made = cls(shape=shape, periodic=periodic, read=read, prior=prior, floor=floor)
        residuals = [made.left_out(b) for b in blocks]
        C = blocks[0].shape[-1]
        flat = np.concatenate([r.reshape(-1, C) for r in residuals])
        made = replace(made, common=flat.mean(axis=0))
        if noise is not None and (noise > 0).all():
            made = replace(made, noise=noise, factor=NORMAL_RATIO)
            at = [[np.arange(s.start, s.stop, dtype=float) for s in slab] for slab in probes]
            found = np.mean([(made.on_grid(x) / noise**2).mean() for x in at])
            return replace(made, noise=noise * math.sqrt(left / max(found, 1e-300)), shown=noise)
        z = np.concatenate([made._standardised(r).reshape(-1) for r in residuals])
        factor = float(np.quantile(z, CONFIDENCE)) / QUANTILE if z.size else 1.0
        factor = factor if factor > 0 else 1.0
        inside = tuple(float(np.mean(z <= q * factor)) for q in (0.674, QUANTILE, 2.576))
        made = replace(made, factor=factor, shares=inside if z.size else ())
        if not means:
            apart = [made._apart(b, slab, values) for b, slab in zip(blocks, probes)]
            made = replace(made, factor=factor * max(1.0, float(np.mean(apart)) ** 0.5))
        return replace(made, prior=replace(prior, means=means))

    def _apart(
        self, y: Floats, slab: tuple[slice, ...], values: Callable[[list[Floats]], Floats]
    ) -> float:
        """Mean square of what a function differs by from the posterior's mean, in its deviations.

        In the middle between samples y of a slab.
        """
        t, inverse = self._pattern
        sides = self._pattern_sides
        if any(n % 2 or n > m for n, m in zip(sides, y.shape)):
            return 0.0
        middle = np.zeros((1, len(sides)))
        weights = (self.prior.rows(middle, t) @ inverse)[0, : len(t)].reshape(sides)
        mean = filtered(y, weights, even=True)
        x = [s.start + np.arange(n) + (m - 1) / 2 for s, m, n in zip(slab, sides, mean.shape)]
        deviation = self.amplitudes_on_grid(x) * self._direct(middle, ()) ** 0.5
        off = (values(x) - mean) / np.maximum(deviation, 1e-300)
        known = deviation > 0
        return float(np.mean(off[known] ** 2)) if known.any() else 0.0

    @property
    def side(self) -> tuple[int, ...]:
        """Samples of the box in which one is left out, on each axis."""
        n = box_side(LEFT_OUT_BOX, len(self.shape))
        return tuple(min(n, m - 1 + m % 2) for m in self.shape)

    @property
    def reach(self) -> float:
        """Samples on an axis that amplitudes are averaged over, to either side."""
        return REACH.get(len(self.shape), 1.5)

    @cached_property
    def _filter(self) -> Floats:
        """What a left-out sample differs by from what the others of its box say, in deviations."""
        return left_out_filter(replace(self.prior, means=False), self.side)

    def left_out(self, y: Floats) -> Floats:
        """Residuals of samples y, (..., C), in deviations of amplitude 1, inside their margin."""
        return np.abs(filtered(y, self._filter))

    def _standardised(self, residuals: Floats) -> Floats:
        """Residuals by the amplitude that their neighbours, without them, have."""
        d = residuals.ndim - 1
        each = [np.arange(float(n)) for n in residuals.shape[:d]]
        total, count = _summed(residuals, [_taps(c, len(c), False, self.reach) for c in each])
        own = (35 / 32 / self.reach) ** d
        amplitude = total - own * residuals + COMMON_SHARE * self.common
        return residuals / np.maximum(amplitude / (count - own + COMMON_SHARE), 1e-300)

    # --- amplitudes -----------------------------------------------------------------------------

    @cached_property
    def _all_residuals(self) -> Floats | None:
        """Residuals of all samples but those at borders; None where these are too many."""
        if math.prod(self.shape) * len(self.common) > KEPT_RESIDUALS:
            return None
        return self._residuals([0] * len(self.shape), list(self.shape))

    def _residuals(self, first: Sequence[int], last: Sequence[int]) -> Floats:
        """Residuals of the samples from first to last, (..., C); those at borders repeat others."""
        slab, inner, outer = [], [], []
        for n, side, wraps, a, b in zip(self.shape, self.side, self.periodic, first, last):
            h = side // 2
            low, high = min(a - h, n - side), max(b + h, side)
            if not wraps:
                low, high = max(low, 0), min(high, n)
            whole = low < 0 or high > n
            slab.append(slice(0, n) if whole else slice(low, high))
            inner.append(np.arange(low, high) % n if whole else None)
            outer.append(np.clip(np.arange(a, b), low + h, high - h - 1) - low - h)
        y = np.asarray(self.read(tuple(slab)), np.float64)
        for k, at in enumerate(inner):
            y = y if at is None else np.take(y, at, axis=k)
        found = self.left_out(y)
        for k, at in enumerate(outer):
            found = found if len(at) == found.shape[k] else np.take(found, at, axis=k)
        return found

    def _near(self, x: Sequence[Floats]) -> tuple[Floats, list[Taps]]:
        """Residuals around index coordinates on each axis, and which count for what there."""
        taps = [_taps(c, n, p, self.reach) for c, n, p in zip(x, self.shape, self.periodic)]
        every = self._all_residuals
        if every is None:
            first = [int(i.min(initial=0)) for i, _ in taps]
            every = self._residuals(first, [int(i.max(initial=0)) + 1 for i, _ in taps])
            taps = [(i - a, w) for (i, w), a in zip(taps, first)]
        return every, taps

    def amplitudes_on_grid(self, x: Sequence[Floats]) -> Floats:
        """Standard deviations of the prior on the grid of index coordinates x, (..., C)."""
        total, count = _summed(*self._near(x))
        return self.factor * (total + COMMON_SHARE * self.common) / (count + COMMON_SHARE)

    def amplitudes(self, x: Floats) -> Floats:
        """The same at points (n, d): (n, C)."""
        every, taps = self._near(list(x.T))
        total, count = np.zeros((len(x), every.shape[-1])), np.zeros((len(x), 1))
        for at in cartesian(range(taps[0][1].shape[1]), repeat=x.shape[1]):
            weight = math.prod(w[:, j] for (_, w), j in zip(taps, at))[:, None]  # type: ignore[index]
            total += every[tuple(i[:, j] for (i, _), j in zip(taps, at))] * weight
            count += weight
        return self.factor * (total + COMMON_SHARE * self.common) / (count + COMMON_SHARE)

    # --- variances per amplitude ----------------------------------------------------------------

    @cached_property
    def _pattern(self) -> tuple[Floats, Floats]:
        """Places of the samples of the box for variances, counted from its middle; and inverse."""
        sides = self._pattern_sides
        t = np.indices(sides).reshape(len(sides), -1).T - (np.asarray(sides) - 1) / 2
        return t, self.prior.inverse(t)

    @property
    def _pattern_sides(self) -> tuple[int, ...]:
        n = PATTERN_BOX.get(len(self.shape), 2)
        return tuple(n if p else min(n, m) for m, p in zip(self.shape, self.periodic))

    def _folded(self, k: int, x: Floats) -> Floats:
        """Where index coordinates of axis k lie in the pattern's box, from its middle, at most 0.

        Places far from borders lie between the two samples in the middle.
        """
        n, m = self.shape[k], self._pattern_sides[k]
        if self.periodic[k]:
            u = x - np.floor(x) + m // 2 - 1
        elif m == n:
            u = x
        else:
            inner = m // 2 - 1
            u = np.where(x < inner, x, inner + (x - np.floor(x)))
            u = np.where(x > n - 1 - inner, x - (n - m), u)
        return -np.abs(u - (m - 1) / 2)

    @cached_property
    def _table(self) -> tuple[Floats, int]:
        """Variances per amplitude at all steps between samples of half the box; steps a sample."""
        steps = PATTERN_STEPS.get(len(self.shape), 2)
        axes = [-np.arange(m * steps // 2 + 1)[::-1] / steps for m in self._pattern_sides]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        found = self._direct(points, ())
        if not self.prior.means:  # what rounding leaves at samples
            found = np.where(found > LEAST_VARIANCE * found.max(initial=0), found, 0.0)
        return found.reshape([len(a) for a in axes]), steps

    def _direct(self, u: Floats, terms: Terms) -> Floats:
        """Variances per amplitude at places of the pattern's box, (n,)."""
        prior, (t, inverse) = self.prior, self._pattern
        if terms:
            prior, inverse = prior.soft, self._soft_inverse
        found = np.empty(len(u))
        for i, j in runs(len(u), max(1, (1 << 22) // len(t))):
            b = prior.rows(u[i:j], t, terms)
            found[i:j] = prior.peak(terms) - np.einsum("ij,ij->i", b @ inverse, b)
        return np.maximum(found, 0)

    @cached_property
    def _soft_inverse(self) -> Floats:
        return self.prior.soft.inverse(self._pattern[0])

    # --- noise ----------------------------------------------------------------------------------

    @cached_property
    def _noisy(self) -> list[tuple[Floats, float, Floats]]:
        """For variances λ of the noise per amplitude: inverse, what residuals lose, and table.

        The smoother is the posterior's mean; residuals of its values at the samples are smaller
        than those of the signal, by a factor that follows from the prior. The table has variances
        in units of the noise's.
        """
        t, (table, steps) = self._pattern[0], self._table
        axes = [-np.arange(n)[::-1] / steps for n in table.shape]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        b, S = self.prior.rows(points, t), len(t)
        wide = tuple(n + 4 for n in self.side)
        s = np.indices(wide).reshape(len(wide), -1).T - (np.asarray(wide) - 1) / 2
        inner = (np.abs(s) <= (np.asarray(self.side) - 1) / 2).all(axis=1)
        K, rows, h = self.prior.covariance(s, s), self.prior.rows(s[inner], s), self._filter
        found = []
        for ratio in NOISE_RATIOS:
            inverse = self.prior.inverse(t, ratio)
            left = np.maximum(-np.einsum("ij,ij->i", b @ inverse, b), 0) / ratio
            g = h.reshape(-1) @ rows @ self.prior.inverse(s, ratio)[:, : len(s)]
            seen = float(g @ K @ g + ratio * g @ g)
            found.append((inverse[:S, :S], max(seen, 1e-12) ** 0.5, left.reshape(table.shape)))
        return found

    def _noise_weights(self, a: Floats) -> list[Floats]:
        """How much each of NOISE_RATIOS counts where denoised samples have amplitudes a, (..., C)."""
        level = self.noise if self.shown is None else self.shown
        logs = np.log(NOISE_RATIOS)
        # Amplitudes that residuals show, in units of the noise, where the ratio is such a one.
        shown = [-log / 2 + math.log(seen) for log, (_, seen, _) in zip(logs, self._noisy)]
        at = np.interp(np.log(np.maximum(a / level, 1e-300)), shown[::-1], logs[::-1])
        step = logs[1] - logs[0]
        return [np.maximum(0, 1 - np.abs(at - log) / step) for log in logs]

    # --- what is asked --------------------------------------------------------------------------

    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""
        u = [self._folded(k, x[:, k]) for k in range(x.shape[1])]
        if terms:  # the pattern was reversed on some axes: mixed derivatives are not asked for
            unit, floor = self._direct(np.stack(u, axis=1), terms), np.zeros(1)
        else:
            (table, steps), floor = self._table, self.floor
            seats = [_between(c, steps, n) for c, n in zip(u, table.shape)]
            if self.noise is not None:
                shares = self._noise_weights(self.amplitudes(x))
                parts = (w * _at(t, seats)[:, None] for w, (*_, t) in zip(shares, self._noisy))
                return np.asarray(sum(parts) * self.noise**2 + floor)
            unit = _at(table, seats)
        return unit[:, None] * self.amplitudes(x) ** 2 + floor

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of index coordinates x."""
        table, steps = self._table
        seats = [_between(self._folded(k, c), steps, table.shape[k]) for k, c in enumerate(x)]
        found = self.amplitudes_on_grid(x)
        if self.noise is not None:
            shares = self._noise_weights(found)
            parts = (w * _spanned(t, seats)[..., None] for w, (*_, t) in zip(shares, self._noisy))
            return np.asarray(sum(parts) * self.noise**2 + self.floor)
        found *= found
        found *= _spanned(table, seats)[..., None]
        found += self.floor
        return found

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude of values at places x near each other, (n, n)."""
        axes = []
        for c, n, wraps in zip(x.T, self.shape, self.periodic):
            low, high = int(np.floor(c.min())) - AROUND, int(np.ceil(c.max())) + AROUND + 1
            axes.append(np.arange(low, high) if wraps else np.arange(max(0, low), min(n, high)))
        require_small(math.prod(map(len, axes)))
        t = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        return self.prior.joint(x, t.astype(float))

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""
        return {1: 500.0, 2: 14.0, 3: 4.0}.get(len(self.shape), 2.0)

    def pattern(self, low: Floats, high: Floats) -> tuple[object, ...]:
        """Where a box lies between samples, and how near to borders."""
        key = []
        for a, b, n, wraps in zip(low.tolist(), high.tolist(), self.shape, self.periodic):
            first = math.floor(a + 1e-9)
            ends = (0, 0) if wraps else (min(first, AROUND), min(n - 1 - math.ceil(b), AROUND))
            key.append((round(a - first, 9), round(b - a, 9), *ends))
        return tuple(key)


# --- parts of it ------------------------------------------------------------------------------


def box_side(sides: dict[int, int], d: int) -> int:
    """Samples of a box on each of d axes."""
    return sides.get(d, 3)


def compact(r: Floats) -> Floats:
    """What a residual counts for at distance r, in units of its reach."""
    return np.maximum(1 - r * r, 0) ** 3


def _taps(x: Floats, n: int, periodic: bool, reach: float) -> Taps:
    """Samples near index coordinates x on an axis of n samples, and their weights of sum 1."""
    most = math.ceil(reach)
    at = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - most, most + 1)
    w = compact((x[:, None] - at) / reach) / (reach * 32 / 35)
    return (at % n if periodic else np.clip(at, 0, n - 1)), w


def _summed(residuals: Floats, taps: Sequence[Taps]) -> tuple[Floats, Floats]:
    """Sums of residuals, (..., C), around a grid of positions, and of what they count for."""
    total, count = residuals, np.ones(())
    for k, (i, w) in enumerate(taps):
        axis = [-1 if j == k else 1 for j in range(residuals.ndim)]
        parts = (np.take(total, i[:, j], axis=k) * w[:, j].reshape(axis) for j in range(w.shape[1]))
        total = np.asarray(sum(parts))
        count = count * w.sum(axis=1).reshape(axis)
    return total, count


def _between(u: Floats, steps: int, n: int) -> tuple[Integers, Floats]:
    """Which of n steps, the last at 0, lie below u, and how far above them it is."""
    at = u * steps + (n - 1)
    low = np.clip(np.floor(at), 0, n - 2).astype(np.int64)
    return low, np.clip(at - low, 0, 1)


def _at(table: Floats, seats: Sequence[tuple[Integers, Floats]]) -> Floats:
    """A table at points, (n,), that lie at seats on each axis."""
    total: Floats = np.zeros(())
    for corner in cartesian((0, 1), repeat=len(seats)):
        weight = math.prod(w if up else 1 - w for (_, w), up in zip(seats, corner))
        total = total + weight * table[tuple(i + up for (i, _), up in zip(seats, corner))]
    return total


def _spanned(table: Floats, seats: Sequence[tuple[Integers, Floats]]) -> Floats:
    """A table on the grid of seats on each axis."""
    for k, (i, w) in enumerate(seats):
        w = w.reshape([-1 if j == k else 1 for j in range(table.ndim)])
        table = (1 - w) * np.take(table, i, axis=k) + w * np.take(table, i + 1, axis=k)
    return table


def left_out_filter(prior: Prior, side: Sequence[int]) -> Floats:
    """The filter that gives what the middle sample of a box differs by, in deviations."""
    t = np.indices(side).reshape(len(side), -1).T - (np.asarray(side) - 1) / 2
    j = len(t) // 2
    Q = prior.inverse(t)[: len(t), : len(t)]
    return np.asarray((Q[j] / math.sqrt(max(Q[j, j], 1e-300))).reshape(side))


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
    if math.prod(shape) <= PROBE_SAMPLES:
        return [tuple(slice(0, n) for n in shape)]
    each = max(16, int((PROBE_SAMPLES / 2 ** len(shape)) ** (1 / len(shape))))
    ends = []
    for n in shape:
        size = min(n, each)
        starts = sorted({(n - size) // 4, (n - size) * 3 // 4})
        ends.append([slice(a, a + size) for a in starts])
    return list(cartesian(*ends))


def _growth(prior: Prior, blocks: Sequence[Floats]) -> float:
    """The power by which residuals grow when every second sample is left out on each axis."""
    d = blocks[0].ndim - 1
    weights = left_out_filter(prior, (box_side(LEFT_OUT_BOX, d),) * d)
    fine = np.mean([np.abs(filtered(b, weights)).mean() for b in blocks])
    halves = [
        b[tuple(slice(i, None, 2) for i in phase)] for b in blocks for phase in ((0,) * d, (1,) * d)
    ]
    coarse = np.mean([np.abs(filtered(h, weights)).mean() for h in halves])
    if not (fine > 0 and coarse > 0):
        return prior.power
    return float(np.clip(2 * np.log2(coarse / fine), LEAST_POWER, LARGEST_POWER))


def _stretch(prior: Prior, blocks: Sequence[Floats]) -> Floats:
    """By how much farther apart samples are on some axes than on others, as the prior sees it."""
    d = blocks[0].ndim - 1
    rough = np.array(
        [np.mean([np.abs(np.diff(b, 2, axis=k)).mean() for b in blocks]) for k in range(d)]
    )
    if not (rough > 0).all():
        return np.ones(d)
    logs = 2 / max(prior.power, MILD_POWER) * np.log(rough)
    return np.exp(np.clip(logs - logs.mean(), -MOST_STRETCH, MOST_STRETCH))
