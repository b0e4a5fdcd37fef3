"""The posterior of samples anywhere: every place asks those nearest to it.

The farthest of these count less and less, so that the posterior changes continuously from place to
place.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.running import runs, spread
from elmfield._array.typing import Floats, Integers
from elmfield.field.uncertainty import priors
from elmfield.partition import Partition

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

ASKED, MOST_ASKED = {1: 16, 2: 48, 3: 80}, 128
"""Samples that a place asks, by number of axes, else 100; and at most, with noise."""

AVERAGED = {1: 12, 2: 20, 3: 20}
"""Samples around a place whose residuals make its amplitude; else 30.

On 16 of scikit-image's pictures and three processes, half and four fifths of them missing, 14 in
the plane are 0.3 % worse by CRPS, 28 to 40 alike; 20 are about what a complete grid averages.
"""

NOISY_BLOCKS = {1: 1000.0, 2: 40.0, 3: 10.0}
"""As BLOCKS, where errors have longer waves; else 2."""

BIN_SHARE, LEAST_BINNED = 0.1, 2.0
"""How much a process may vary within bins of noisy samples, in parts of the noise of their means;
bins of fewer samples are not worth it."""

FADING, LARGEST_NOISE = 0.7, 1e8
"""Samples beyond this part of the farthest distance count less; with so much noise not at all."""

PROBES = 400
"""Samples from which power and calibration are found."""

BATCH_NUMBERS, PLACES_AT_ONCE = 1 << 20, 1 << 15
"""Numbers of the systems that are solved together, at most; places that are asked for together."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbours(priors.PosteriorPart):
    """Samples at any places, and how sure a function between them is.

    Parameters
    ----------
    x, y : arrays, shapes (n, d) and (n, C)
        Places, in index coordinates, and samples there.
    periods : array, shape (d,)
        Length of each axis that repeats; infinite for others.
    prior : Prior
        Of amplitude 1.
    noise : float or array, shape (n,)
        Variance of the noise, of all samples or of each, in parts of the amplitude's square.
    amplitude : array, shape (C,), or None
        Standard deviation of the prior; None for a local one by residuals of left-out samples.
    common : array, shape (C,)
        The mean of all residuals.
    values : callable or None
        The function at places (n, d), (n, C). Where it differs from the posterior's mean by less
        than that errs it may be the better of the two, by more it cannot: there its errors are
        larger.
    """

    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    periods: Floats
    prior: priors.Prior
    noise: Floats | float = 0.0
    amplitude: Floats | None = None
    common: Floats = field(default_factory=lambda: np.ones(1))
    values: Callable[[Floats], Floats] | None = field(default=None, repr=False)

    def calibrated(self, *, finds_power: bool = True) -> "Neighbours":
        """The same with power, unless it is known, and calibration from samples without noise.

        The prior's own power serves few of them.
        """
        (n, d), made, prior = self.x.shape, self, self.prior
        if n <= prior.n_free + 1:  # too few to leave one out
            return replace(self, amplitude=self.y.std(axis=0))
        rng = np.random.default_rng(0)
        probes, fewer = (np.sort(rng.permutation(n)[:m]) for m in (PROBES, n >> d))
        if finds_power and len(fewer) > 2 * made.asked:
            # The power by which errors grow where samples are sparser.
            coarse = replace(self, x=self.x[fewer], y=self.y[fewer])
            some = np.arange(len(fewer))[:: max(1, len(fewer) // PROBES)]
            for _ in range(2):
                each = (made, probes), (coarse, some)
                errors = (replace(m, prior=prior).errors(at)[0] for m, at in each)
                own, far = (np.abs(e).mean() for e in errors)
                prior = replace(prior, power=priors.power_of_errors(own, far, prior.power))
            made = replace(made, prior=prior)
        own = made.residuals(probes)
        made = replace(made, common=own.mean(axis=0))
        if n < AVERAGED.get(d, 30) + 2:
            return made
        far, near = made._nearest(self.x[probes], AVERAGED.get(d, 30) + 2)
        z = own / np.maximum(made._local(far[:, 1:], near[:, 1:]), 1e-300)
        return replace(made, calibration=priors.Calibration.of(z.ravel()))

    def binned(self) -> "Neighbours":
        """The same of means over bins, where the noise hides what lies within these.

        A place then asks a few bins instead of many samples, or of more than it could ask. m
        samples of a bin have a mean with noise / m, beside which the process may vary within the
        bin, of edge ``m^(1/d)``, by a share.
        """
        ratio, d = float(np.mean(self.noise)), self.x.shape[1]
        m = (BIN_SHARE * ratio) ** (1 / (1 + self.prior.power / d))
        if m < LEAST_BINNED:
            return self
        x, weights = wrapped(self.x, self.periods), 1 / np.broadcast_to(self.noise, len(self.x))
        cells = np.floor(x / m ** (1 / d)).astype(np.int64)
        place = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
        total = np.bincount(place, weights)
        means = [np.bincount(place, weights * c) / total for c in (*x.T, *self.y.T)]
        both = np.stack(means, axis=1)
        return replace(self, x=both[:, :d], y=both[:, d:], noise=1 / total)

    def evidence_scale(self) -> float:
        """By what the amplitude's square has to be multiplied for left-out samples to fit it.

        Of noisy samples: ``mean e² / (s v + noise) = 1``, e errors in amplitudes, v variances.
        """
        which = np.arange(len(self.x))[:: max(1, len(self.x) // PROBES)]
        error, unit = self.errors(which)
        a = np.ones(1) if self.amplitude is None else np.maximum(self.amplitude, 1e-300)
        squares = np.clip(error / a, -1e100, 1e100) ** 2
        low, high = -4.0, 4.0  # logarithm of s
        for _ in range(40):
            middle = (low + high) / 2
            z = squares / (math.exp(middle) * unit + self._noise(which))[:, None]
            low, high = (middle, high) if z.mean() > 1 else (low, middle)
        return math.exp(low)

    # --- nearest samples ------------------------------------------------------------------------

    @cached_property
    def asked(self) -> int:
        """Samples that a place asks: of noisy ones several times as many as it averages."""
        k = ASKED.get(self.x.shape[1], 100)
        if not np.any(self.noise):
            return k
        few, k = replace(self), max(k, 12 * self.prior.n_free)
        few.__dict__["asked"] = k
        unit = few._ask(self.x[:: max(1, len(self.x) // 64)], (), False)[2]
        averaged = float(np.mean(self.noise)) / max(float(np.median(unit)), 1e-300)
        return int(np.clip(4 * averaged, k, max(k, MOST_ASKED)))

    @cached_property
    def _tree(self) -> "cKDTree":
        """The samples, to be searched."""
        return tree_of(self.x, self.periods)

    def _noise(self, which: Integers) -> Floats:
        """Variances of the noise of some samples."""
        return np.asarray(np.broadcast_to(self.noise, len(self.x))[which])

    def _nearest(self, x: Floats, k: int) -> tuple[Floats, Integers]:
        """Distances and numbers of the k nearest samples, or of all, (n, k)."""
        k = min(k, len(self.x))
        far, which = self._tree.query(wrapped(x, self.periods), k=k)
        return far.reshape(len(x), k), which.reshape(len(x), k)

    def _ask(
        self, x: Floats, terms: priors.Terms, without: bool
    ) -> tuple[Integers, Floats, Floats]:
        """Samples asked at x, what each counts for, and the variance per amplitude.

        `without` the nearest sample, which is the place's own.
        """
        k, prior = self.asked, self.prior
        far, which = self._nearest(x, k + 1 + without)
        far, which = far[:, int(without) :], which[:, int(without) :]
        extra: Floats = np.zeros((len(x), 1))
        if which.shape[1] > k:  # the last one tells where the others end
            last = np.maximum(far[:, k:], 1e-300)
            far, which = far[:, :k], which[:, :k]
            part = np.minimum(far / last, 1 - 1e-6)
            extra = (np.maximum(part - FADING, 0) / (1 - part)) ** 2 * last**prior.power

        t = shortest(self.x[which] - x[:, None], self.periods)
        noise = self._noise(which) + extra
        first, own, order = _alike(t, noise)
        t = np.take_along_axis(t[first], order[first, :, None], axis=1)
        noise = np.take_along_axis(noise[first], order[first], axis=1)

        def solve(ends: tuple[int, int]) -> tuple[Floats, Floats]:
            i = slice(*ends)
            here = np.zeros((len(t[i]), 1, t.shape[2]))
            weights, unit = prior.told(here, t[i], noise[i], terms)
            return weights[:, 0], unit[:, 0]

        each = max(1, BATCH_NUMBERS // (which.shape[1] + prior.n_free) ** 2)
        found, units = zip(*spread(solve, runs(len(first), each)))
        weights, unit = np.empty(which.shape), np.concatenate(units)[own]
        np.put_along_axis(weights, order, np.concatenate(found)[own], axis=1)
        if not (terms or without or np.any(self.noise)):
            unit[far[:, 0] == 0] = 0.0
        return which, weights, unit

    def asked_at(self, x: Floats) -> tuple[Floats, Floats, Integers, Floats, Floats]:
        """As of a lattice."""
        which, weights, unit = self._ask(x, (), False)
        offsets = shortest(self.x[which] - x[:, None], self.periods)
        return offsets, weights, np.arange(len(x)), unit, self._noise(which)

    # --- residuals of left-out samples ----------------------------------------------------------

    def errors(self, which: Integers) -> tuple[Floats, Floats]:
        """What left-out samples differ by from what others say, (n, C); variances of that, (n,)."""
        near, weights, unit = self._ask(self.x[which], (), True)
        return self.y[which] - np.einsum("nk,nkc->nc", weights, self.y[near]), unit

    @cached_property
    def _kept(self) -> Floats:
        """Residuals that are known, (n, C); NaN for others."""
        return np.full(self.y.shape, np.nan)

    def residuals(self, which: Integers) -> Floats:
        """Absolute residuals of samples, in deviations of amplitude 1."""
        new = np.unique(which[np.isnan(self._kept[which, 0])])
        if len(new) and len(self.x) > 1:
            error, unit = self.errors(new)
            root = np.sqrt(unit)[:, None]
            self._kept[new] = np.divide(np.abs(error), root, out=0 * error, where=root > 0)
        return np.nan_to_num(self._kept[which])

    def _local(self, far: Floats, which: Integers) -> Floats:
        """Means of the nearest residuals, (n, C); the farthest one counts for nothing."""
        weight = priors.compact(far / np.maximum(far[:, -1:], 1e-300))[..., None]
        weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        local = np.sum(weight * self.residuals(which), axis=1)
        return np.asarray((local + priors.COMMON_SHARE * self.common) / (1 + priors.COMMON_SHARE))

    # --- what is asked --------------------------------------------------------------------------

    def amplitudes(self, x: Floats) -> Floats:
        """Standard deviations of the prior at places, (n, C)."""
        if self.amplitude is not None:
            return np.broadcast_to(self.amplitude, (len(x), len(self.amplitude)))
        near = self._nearest(x, AVERAGED.get(x.shape[1], 30) + 1)
        return self.calibration.factor * self._local(*near)

    def variance(self, x: Floats, terms: priors.Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""
        parts = [self._variance(x[i:j], terms) for i, j in runs(len(x), PLACES_AT_ONCE)]
        return np.concatenate(parts) + (0.0 if terms else self.floor)

    def _variance(self, x: Floats, terms: priors.Terms) -> Floats:
        which, weights, unit = self._ask(x, terms, False)
        total = np.asarray(unit[:, None] * self.amplitudes(x) ** 2)
        if self.values is None or terms or not len(x):
            return total
        mean = np.einsum("nk,nkc->nc", weights, self.y[which])
        off = np.where(unit[:, None] > 0, (self.values(x) - mean) ** 2, 0.0)
        return np.asarray(total + off * off / np.maximum(total + off, 1e-300))

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude of values at places x near each other, (n, n)."""
        used = np.unique(self._nearest(x, self.asked)[1])
        priors.require_small(len(used))
        t, near = (shortest(at - x[:1], self.periods) for at in (self.x[used], x))
        return self.prior.joint(near, t, self._noise(used))

    def pattern(self, low: Floats, high: Floats) -> tuple[object, ...] | None:
        """Where samples lie in a box and around it, if they are as many as those of a grid."""
        if np.isfinite(self.periods).any() or np.ndim(self.noise):
            return None
        first, last = (f(self.x, axis=0) for f in (np.min, np.max))
        a, b = np.maximum(low - priors.AROUND, first), np.minimum(high + priors.AROUND, last)
        near = self.x[np.all((self.x >= a) & (self.x <= b), axis=1)] - low
        if len(near) < math.prod(np.floor(b) - np.ceil(a) + 1):
            return None
        return near.round(9).tobytes(), (high - low).round(9).tobytes()

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""
        return (NOISY_BLOCKS if np.any(self.noise) else priors.BLOCKS).get(self.x.shape[1], 2.0)


# --- axes that repeat -----------------------------------------------------------------------------


def periods(part: Partition) -> Floats:
    """The period of each axis in samples, (d,); infinite where it does not repeat."""
    return np.where(part.periodic, part.shape, np.inf)


def wrapped(x: Floats, periods: Floats) -> Floats:
    """Places on axes that repeat between 0 and their period; those of others are infinite."""
    wraps = np.isfinite(periods)
    period = np.where(wraps, periods, 1.0)
    inside = np.where(wraps, (x + 0.5) % period, x)
    return np.asarray(np.where(wraps & (inside >= period), 0.0, inside))


def tree_of(x: Floats, periods: Floats) -> "cKDTree":
    """Places, to be searched at :func:`wrapped` ones."""
    from scipy.spatial import cKDTree  # 0.1 s, for who asks

    wraps = np.isfinite(periods)
    boxsize = np.where(wraps, periods, 0.0) if wraps.any() else None
    return cKDTree(wrapped(x, periods), boxsize=boxsize)


def shortest(u: Floats, periods: Floats) -> Floats:
    """Offsets by the shortest way round."""
    wraps = np.isfinite(periods)
    period = np.where(wraps, periods, 1.0)
    return np.asarray(u - np.where(wraps, np.round(u / period) * period, 0))


def _alike(t: Floats, noise: Floats) -> tuple[Integers, Integers, Integers]:
    """Sets of neighbours at offsets t, (n, k, d), with noise, (n, k), that are alike.

    Near samples of a grid most are, and one system serves all of these. Returns the first place of
    each kind, the kind of every place, (n,), and an order, (n, k), in which neighbours of a kind
    correspond. Sets are told apart by sums over what their neighbours are projected to, which do
    not depend on the order; neighbours that count for nothing have no part in them.
    """
    along = np.random.default_rng(0).normal(0, 3, t.shape[2] + 1)
    mark = t @ along[1:] + np.log1p(noise) * along[0]
    mark[noise > LARGEST_NOISE] = np.inf
    there = np.isfinite(mark)
    angle = np.where(there, mark, 0.0)
    sums = [np.sum(there * f(angle), axis=1) for f in (np.sin, np.cos)]
    both = np.round(np.stack(sums, axis=1), 7)
    _, first, own = np.unique(both, axis=0, return_index=True, return_inverse=True)
    if 2 * len(first) > len(t):
        every = np.arange(len(t))
        return every, every, np.tile(np.arange(t.shape[1]), (len(t), 1))
    return first, own.reshape(-1), np.argsort(mark, axis=1)
