"""The prior of a field between its samples, and its posterior of samples anywhere.

Increments grow as a power of distance; given samples, such a process has a posterior in closed
form: kriging with free polynomials. Every place asks its nearest samples, the farthest of which
count less and less, so that the posterior changes continuously from place to place.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product as cartesian
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.running import runs, spread
from elmfield._array.typing import Floats, Integers
from elmfield.local.bases.polyharmonic import exponents, kernel, monomials, n_monomials

if TYPE_CHECKING:
    from scipy.spatial import cKDTree


LEAST_POWER, LARGEST_POWER = 0.2, 7.0
"""Powers of a prior: rougher than any array, and smooth enough for polynomials of degree 3."""

SOFTNESS = 0.25
"""Distance in samples below which the prior of derivatives is smooth.

Its waves fade beyond twice the sampling's Nyquist frequency. Without this, a process as rough as a
photograph has no derivative, and its standard deviation is infinite.
"""

APERTURE = np.array([-1.0, 0.0, 1.0]) * 0.6**0.5, np.array([5.0, 8.0, 5.0]) / 9
"""Gauss's places and weights by which means are taken over cells, times two."""

NORMAL_QUANTILES = (0.6744897501960817, 1.6448536269514722, 2.5758293035489004)
"""Deviations within which 50, 90 and 99 % of a normal distribution lie."""

JOINT_MAX_SAMPLES = 3000
"""Samples around places whose covariances are asked for, at most: one dense matrix."""

FREE_PRICE = 1e-9
"""What free polynomials cost in parts of the kernel: slopes that no sample tells are uncertain."""

JITTER = 1e-13
"""Noise of every sample in parts of the kernel, so that two at one place are no contradiction."""

Terms = tuple[tuple[float, tuple[int, ...]], ...]
"""``Σ c ∂^order f`` as pairs of c and order; none for the value itself."""


@dataclass(frozen=True, eq=False)
class Prior:
    """A Gaussian process with generalised covariance ``ψ(|t|) = ± |t|^power`` of amplitude 1.

    Polynomials up to `degree` are free. Frequencies have no end: ``|ω|^-(power + d)``.

    Parameters
    ----------
    power : float
        β: squared increments grow as distance to this power; twice the order along a line, less 1.
    stretch : array, shape (d,)
        What distances on each axis, in samples, are multiplied by.
    softness : float
        Distances below this one, in samples, count as this one.
    means : bool
        Whether samples are means over their cells.
    """

    power: float
    stretch: Floats
    softness: float = 0.0
    means: bool = False

    @property
    def degree(self) -> int:
        """Degree of the polynomials, at least planes."""
        return max(1, int(self.power // 2))

    @property
    def n_free(self) -> int:
        """Number of polynomials."""
        return n_monomials(len(self.stretch), self.degree)

    @property
    def soft(self) -> "Prior":
        """The prior for derivatives."""
        return replace(self, softness=SOFTNESS)

    def covariance(self, x: Floats, t: Floats, order: tuple[int, ...] = ()) -> Floats:
        """``∂^order ψ``, (..., n, m), between places x, (..., n, d), and t, (..., m, d)."""
        a, b = x * self.stretch, t * self.stretch
        factor = float(np.prod(self.stretch ** np.asarray(order or 0)))
        if self.softness:  # one more axis, on which all are this far apart
            a = np.concatenate([a, np.full((*a.shape[:-1], 1), self.softness)], axis=-1)
            b = np.concatenate([b, np.zeros((*b.shape[:-1], 1))], axis=-1)
            order = (*order, 0) if order else ()
        return np.asarray(factor * kernel(a, b, self.power, order or None))

    def peak(self, terms: Terms) -> float:
        """Generalised variance of a sum of derivatives at a place; 0 of a value."""
        at, total = np.zeros((1, len(self.stretch))), 0.0
        for a, m in terms:
            for b, n in terms:
                order = tuple(i + j for i, j in zip(m, n))
                total += (-1) ** sum(n) * a * b * float(self.covariance(at, at, order)[0, 0])
        return total

    def rows(self, x: Floats, t: Floats, terms: Terms = ()) -> Floats:
        """What samples at t, (..., S, d), tell of a sum of derivatives at x: (..., n, S + q)."""
        total: Floats = np.zeros(())
        for factor, order in terms or ((1.0, ()),):
            K = self._over_cells(lambda o, order=order: self.covariance(x, t + o, order))  # type: ignore[misc]
            P = monomials(x, self.degree, order or None)
            total = total + factor * np.concatenate([K, P], axis=-1)
        return total

    def _over_cells(self, value: Callable[[Floats], Floats]) -> Floats:
        """A function of an offset, or its mean over the cell of a sample."""
        d = len(self.stretch)
        if not self.means:
            return value(np.zeros(d))
        places, weights = APERTURE
        total: Floats = np.zeros(())
        for at in cartesian(range(len(places)), repeat=d):
            total = total + np.prod(weights[list(at)] / 2) * value(places[list(at)] / 2)
        return total

    def system(self, t: Floats, noise: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """``[[K + noise, P], [Pᵀ, 0]]``, (..., S + q, S + q), of samples at t, and its scale.

        Rows and columns were divided by `scale`, (S + q,), which keeps digits; `noise` is a
        variance, of all samples or of each, (..., S).
        """
        S, q = t.shape[-2], self.n_free
        degrees = [sum(p) for p in exponents(t.shape[-1], self.degree)]
        size = max(1.0, float(np.abs(t).max(initial=0))) ** -np.asarray(degrees, float)
        K = self._over_cells(lambda o: self._over_cells(lambda p: self.covariance(t - p, t + o)))
        P = self._over_cells(lambda o: monomials(t + o, self.degree)) * size
        unit = float(np.abs(K).max(initial=0)) or 1.0
        M = np.zeros((*t.shape[:-2], S + q, S + q))
        M[..., :S, :S] = K / unit
        M[..., np.arange(S), np.arange(S)] += np.asarray(noise) / unit + JITTER
        M[..., :S, S:], M[..., S:, :S] = P, np.swapaxes(P, -1, -2)
        M[..., np.arange(S, S + q), np.arange(S, S + q)] = -FREE_PRICE
        return M, np.concatenate([np.full(S, unit**-0.5), size * unit**0.5])

    def inverse(self, t: Floats, noise: Floats | float = 0.0) -> Floats:
        """Inverse of the system of samples at t, (..., S, d)."""
        M, scale = self.system(t, noise)
        return np.asarray(np.linalg.inv(M) * scale[:, None] * scale)

    def weights(
        self, t: Floats, noise: Floats | float = 0.0, terms: Terms = ()
    ) -> tuple[Floats, Floats]:
        """What samples at t, (m, S, d), count for at 0, (m, S); and the variance there, (m,)."""
        b = self.rows(np.zeros((len(t), 1, t.shape[-1])), t, terms)[:, 0]
        M, scale = self.system(t, noise)
        found = np.linalg.solve(M, (b * scale)[..., None])[..., 0] * scale
        return found[:, : t.shape[1]], np.maximum(self.peak(terms) - np.sum(found * b, axis=1), 0)

    def joint(self, x: Floats, t: Floats, noise: Floats | float = 0.0) -> Floats:
        """Posterior covariances, (n, n), of values at x, (n, d), given samples at t, (S, d)."""
        middle = t.mean(axis=0)
        x, t = x - middle, t - middle
        b = self.rows(x, t)
        return np.asarray(self.covariance(x, x) - b @ self.inverse(t, noise) @ b.T)


@dataclass(frozen=True)
class Calibration:
    """What left-out samples say: a factor for deviations, and how many lie inside intervals.

    Parameters
    ----------
    factor : float
        What mean absolute residuals are multiplied by to be standard deviations.
    shares : tuple of float
        Left-out samples inside 50, 90 and 99 %; empty where none could be left out.
    """

    factor: float = math.sqrt(math.pi / 2)
    shares: tuple[float, ...] = ()

    @classmethod
    def of(cls, z: Floats) -> "Calibration":
        """The calibration by which 90 % of left-out samples lie inside their interval.

        z are absolute residuals in units of the amplitude that their neighbours have.
        """
        factor = float(np.quantile(z, 0.9)) / NORMAL_QUANTILES[1] if z.size else 0.0
        if not factor > 0:
            return cls()
        return cls(factor, tuple(float(np.mean(z <= q * factor)) for q in NORMAL_QUANTILES))


def compact(r: Floats) -> Floats:
    """What a residual counts for at distance r, in units of its reach."""
    return np.maximum(1 - r * r, 0) ** 3


def require_small(n: int) -> None:
    """Refuse places among too many samples for one dense matrix."""
    if n > JOINT_MAX_SAMPLES:
        raise ValueError(
            f"covariances are for small sets of places; {n} samples lie around these, more than "
            f"{JOINT_MAX_SAMPLES}. Ask for places nearer to each other, or for std(points)."
        )


ASKED, MOST_ASKED = {1: 16, 2: 48, 3: 80}, 128
"""Samples that a place asks, by number of axes, else 100; and at most, with noise."""

AVERAGED = {1: 12, 2: 14, 3: 20}
"""Samples around a place whose residuals make its amplitude; else 30."""

BLOCKS = {1: 500.0, 2: 14.0, 3: 4.0}
"""Samples on each axis of a box whose covariances fit into one dense matrix; else 2."""

NOISY_BLOCKS = {1: 1000.0, 2: 40.0, 3: 10.0}
"""As BLOCKS, where errors have longer waves; else 2."""

COMMON_SHARE = 0.2
"""What the mean of all residuals counts for in a local amplitude, in parts of the near ones."""

BIN_SHARE, LEAST_BINNED = 0.1, 2.0
"""How much a process may vary within bins of noisy samples, in parts of the noise of their means;
bins of fewer samples are not worth it."""

FADING = 0.7
"""Samples beyond this part of the farthest one's distance count less."""

PROBES = 400
"""Samples from which power and calibration are found."""

BATCH_NUMBERS = 1 << 20
"""Numbers of the systems that are solved together, at most."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbours:
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
    common, calibration, floor :
        As for a lattice.
    values : callable or None
        The function at places (n, d), (n, C). Where it differs from the posterior's mean by less
        than that errs it may be the better of the two, by more it cannot: there its errors are
        larger.
    """

    x: Floats = field(repr=False)
    y: Floats = field(repr=False)
    periods: Floats
    prior: Prior
    noise: Floats | float = 0.0
    amplitude: Floats | None = None
    common: Floats = field(default_factory=lambda: np.ones(1))
    calibration: Calibration = field(default_factory=Calibration)
    floor: Floats = field(default_factory=lambda: np.zeros(1))
    values: Callable[[Floats], Floats] | None = field(default=None, repr=False)

    @classmethod
    def calibrated(
        cls,
        x: Floats,
        y: Floats,
        periods: Floats,
        *,
        power: float,
        floor: Floats,
        values: Callable[[Floats], Floats],
    ) -> "Neighbours":
        """Find power and calibration from samples without noise; `power` serves few of them."""
        n, d = x.shape
        prior = Prior(min(max(power, LEAST_POWER), LARGEST_POWER), np.ones(d))
        made = cls(x=x, y=y, periods=periods, prior=prior, floor=floor, values=values)
        if n <= prior.n_free + 1:  # too few to leave one out
            return replace(made, amplitude=y.std(axis=0))
        rng = np.random.default_rng(0)
        probes, fewer = (np.sort(rng.permutation(n)[:m]) for m in (PROBES, n >> d))
        if len(fewer) > 2 * made.asked:  # the power by which errors grow where samples are sparser
            coarse = replace(made, x=x[fewer], y=y[fewer])
            some = np.arange(len(fewer))[:: max(1, len(fewer) // PROBES)]
            for _ in range(2):
                own, far = (
                    np.abs(replace(m, prior=prior).errors(at)[0]).mean()
                    for m, at in ((made, probes), (coarse, some))
                )
                if own > 0 and far > 0:
                    found = float(np.clip(2 * np.log2(far / own), LEAST_POWER, LARGEST_POWER))
                    prior = replace(prior, power=found)
            made = replace(made, prior=prior)
        own = made.residuals(probes)
        made = replace(made, common=own.mean(axis=0))
        if n < AVERAGED.get(d, 30) + 2:
            return made
        far, near = made._nearest(x[probes], AVERAGED.get(d, 30) + 2)
        z = own / np.maximum(made._local(far[:, 1:], near[:, 1:]), 1e-300)
        return replace(made, calibration=Calibration.of(z.ravel()))

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
        x, weights = self._wrapped(self.x), 1 / np.broadcast_to(self.noise, len(self.x))
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
        from scipy.spatial import cKDTree  # 0.1 s, for who asks

        wraps = np.isfinite(self.periods)
        sizes = np.where(wraps, self.periods, 0.0)
        return cKDTree(self._wrapped(self.x), boxsize=sizes if wraps.any() else None)

    def _wrapped(self, x: Floats) -> Floats:
        """Places on periodic axes between 0 and their period."""
        wraps = np.isfinite(self.periods)
        period = np.where(wraps, self.periods, 1.0)
        inside = np.where(wraps, (x + 0.5) % period, x)
        return np.asarray(np.where(wraps & (inside >= period), 0.0, inside))

    def _noise(self, which: Integers) -> Floats:
        """Variances of the noise of some samples."""
        return np.asarray(np.broadcast_to(self.noise, len(self.x))[which])

    def _nearest(self, x: Floats, k: int) -> tuple[Floats, Integers]:
        """Distances and numbers of the k nearest samples, or of all, (n, k)."""
        k = min(k, len(self.x))
        far, which = self._tree.query(self._wrapped(x), k=k)
        return far.reshape(len(x), k), which.reshape(len(x), k)

    def _seen(self, x: Floats, at: Floats) -> Floats:
        """Where places `at` lie as seen from places x, the nearest image of each."""
        period = np.where(np.isfinite(self.periods), self.periods, 1.0)
        t = at - x
        return np.asarray(t - np.where(np.isfinite(self.periods), np.round(t / period) * period, 0))

    def _ask(self, x: Floats, terms: Terms, without: bool) -> tuple[Integers, Floats, Floats]:
        """Samples asked at x, what each counts for, and the variance per amplitude.

        `without` the nearest sample, which is the place's own.
        """
        k, prior = self.asked, self.prior.soft if terms else self.prior
        far, which = self._nearest(x, k + 1 + without)
        far, which = far[:, int(without) :], which[:, int(without) :]
        extra: Floats = np.zeros((len(x), 1))
        if which.shape[1] > k:  # the last one tells where the others end
            last = np.maximum(far[:, k:], 1e-300)
            far, which = far[:, :k], which[:, :k]
            part = np.minimum(far / last, 1 - 1e-6)
            extra = (np.maximum(part - FADING, 0) / (1 - part)) ** 2 * last**self.prior.power

        def solve(ends: tuple[int, int]) -> tuple[Floats, Floats]:
            i = slice(*ends)
            t = self._seen(x[i, None, :], self.x[which[i]])
            return prior.weights(t, self._noise(which[i]) + extra[i], terms)

        each = max(1, BATCH_NUMBERS // (which.shape[1] + prior.n_free) ** 2)
        parts = spread(solve, runs(len(x), each))
        weights = np.concatenate([np.zeros((0, which.shape[1])), *(w for w, _ in parts)])
        unit = np.concatenate([np.zeros(0), *(v for _, v in parts)])
        if not (terms or without or np.any(self.noise)):
            unit[far[:, 0] == 0] = 0.0
        return which, weights, unit

    def asked_at(self, x: Floats) -> tuple[Floats, Floats, Integers, Floats, Floats]:
        """As of a lattice."""
        which, weights, unit = self._ask(x, (), False)
        offsets = self._seen(x[:, None], self.x[which])
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
        weight = compact(far / np.maximum(far[:, -1:], 1e-300))[..., None]
        weight = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        local = np.sum(weight * self.residuals(which), axis=1)
        return np.asarray((local + COMMON_SHARE * self.common) / (1 + COMMON_SHARE))

    # --- what is asked --------------------------------------------------------------------------

    def amplitudes(self, x: Floats) -> Floats:
        """Standard deviations of the prior at places, (n, C)."""
        if self.amplitude is not None:
            return np.broadcast_to(self.amplitude, (len(x), len(self.amplitude)))
        near = self._nearest(x, AVERAGED.get(x.shape[1], 30) + 1)
        return self.calibration.factor * self._local(*near)

    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances (n, C) of values, or of derivatives, at index coordinates x, (n, d)."""
        which, weights, unit = self._ask(x, terms, False)
        total = unit[:, None] * self.amplitudes(x) ** 2
        if terms:
            return np.asarray(total)
        if self.values is not None and len(x):
            mean = np.einsum("nk,nkc->nc", weights, self.y[which])
            off = np.where(unit[:, None] > 0, (self.values(x) - mean) ** 2, 0.0)
            total = total + off * off / np.maximum(total + off, 1e-300)
        return np.asarray(total + self.floor)

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of index coordinates x."""
        points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
        return self.variance(points).reshape(*map(len, x), -1)

    def joint(self, x: Floats) -> Floats:
        """Covariances per amplitude of values at places x near each other, (n, n)."""
        used = np.unique(self._nearest(x, self.asked)[1])
        require_small(len(used))
        t, near = (self._seen(x[:1], at) for at in (self.x[used], x))
        return self.prior.joint(near, t, self._noise(used))

    @property
    def block(self) -> float:
        """Samples on each axis of a box whose covariances fit into one dense matrix."""
        return (NOISY_BLOCKS if np.any(self.noise) else BLOCKS).get(self.x.shape[1], 2.0)

    def pattern(self, low: Floats, high: Floats) -> None:
        """No two boxes are alike."""
