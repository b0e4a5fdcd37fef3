"""The prior of a field between its samples, and what left-out samples say of it.

Increments grow as a power of distance; given samples, such a process has a posterior in closed
form: kriging with free polynomials.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as cartesian

import numpy as np

from elmfield._array.running import small_products
from elmfield._array.typing import Floats
from elmfield.local.bases.polyharmonic import exponents, kernel, monomials, n_monomials

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

KEPT_COVARIANCES = 1 << 23
"""Covariances that are kept for boxes that are alike."""

FREE_PRICE = 1e-9
"""What free polynomials cost in parts of the kernel: slopes that no sample tells are uncertain."""

JITTER = 1e-13
"""Noise of every sample in parts of the kernel, so that two at one place are no contradiction."""

COMMON_SHARE = 0.2
"""What the mean of all residuals counts for in a local amplitude, in parts of the near ones."""

AROUND = 4
"""Samples around places of a grid whose covariances are asked for that are taken into account."""

BLOCKS = {1: 500.0, 2: 14.0, 3: 4.0}
"""Samples on each axis of a box whose covariances fit into one dense matrix; else 2."""

LEFT_OUT_BOX = {1: 9, 2: 7, 3: 5}
"""Samples on each axis of the box in whose middle one is left out; 3 on more than three axes."""

PROBE_SAMPLES = 1 << 19
"""Samples from which power and calibration are found, about."""

POWER_BOXES = 1 << 15
"""Boxes from which the power is found, about."""

START_POWER = 1.5
"""The power from which its estimate begins; rougher priors stretch axes no more than this one."""

COMPLETE_BOXES = 0.1
"""Part of the boxes that must be complete for power and stretch to be those of a complete grid."""

MOST_STRETCH = 2.0
"""Logarithm by which axes may differ at most."""


Known = dict[tuple[object, ...], Floats]
"""Covariances of the places of boxes, by what boxes that are alike have in common."""

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

    def _solve(self, t: Floats, b: Floats, noise: Floats | float) -> Floats:
        """Solutions, (..., n, S + q), of ``[[K + noise, P], [Pᵀ, 0]]`` for rows b.

        Of samples at t with noise of a variance, of all or of each, (..., S). Rows and columns are
        divided by a scale, which keeps digits. Never by the inverse: of smooth priors that leaves
        no digit of what remains of the kernel.
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
        scale = np.concatenate([np.full(S, unit**-0.5), size * unit**0.5])
        return np.asarray(np.linalg.solve(M, (b * scale).mT).mT * scale)

    def told(
        self, x: Floats, t: Floats, noise: Floats | float = 0.0, terms: Terms = ()
    ) -> tuple[Floats, Floats]:
        """What samples at t, (..., S, d), count for at x, (..., n, d), and variances there.

        Shapes (..., n, S) and (..., n). The prior of derivatives is smooth.
        """
        prior = replace(self, softness=SOFTNESS) if terms else self
        b = prior.rows(x, t, terms)
        found = prior._solve(t, b, noise)
        variance = prior.peak(terms) - np.sum(found * b, axis=-1)
        return found[..., : t.shape[-2]], np.maximum(variance, 0)

    def joint(self, x: Floats, t: Floats, noise: Floats | float = 0.0) -> Floats:
        """Posterior covariances, (n, n), of values at x, (n, d), given samples at t, (S, d)."""
        middle = t.mean(axis=0)
        x, t = x - middle, t - middle
        b = self.rows(x, t)
        return np.asarray(self.covariance(x, x) - self._solve(t, b, noise) @ b.T)


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


@dataclass(frozen=True, eq=False, kw_only=True)
class PosteriorPart(ABC):
    """How sure a function of index coordinates is, in the unit of the fit.

    Covariances are ``a(x) a(x') joint(x, x')`` with amplitudes a, and a variance `floor` of what
    neighbours do not share.

    Parameters
    ----------
    calibration : Calibration
        What left-out samples say.
    lost : array, shape (C,)
        Variance that every value has besides: what coding lost.
    """

    calibration: Calibration = field(default_factory=Calibration)
    lost: Floats = field(default_factory=lambda: np.zeros(1))

    @property
    def floor(self) -> Floats:
        """Variance that places do not share, (C,) or (1,)."""
        return self.lost

    @property
    def block(self) -> float:
        """Length beyond which errors are taken for independent."""
        return math.inf

    @abstractmethod
    def variance(self, x: Floats, terms: Terms = ()) -> Floats:
        """Variances (n, C) of values, or of ``Σ c ∂^order f``, at places x, (n, d)."""

    def on_grid(self, x: Sequence[Floats]) -> Floats:
        """Variances (..., C) of values on the grid of x."""
        points = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
        return self.variance(points).reshape(*map(len, x), -1)

    @abstractmethod
    def joint(self, x: Floats) -> Floats:
        """Covariances at places x near each other in units of the amplitudes, (n, n)."""

    def amplitudes(self, x: Floats) -> Floats:
        """Amplitudes at places x, (n, C)."""
        return np.ones((len(x), 1))

    def sum_variance(
        self, axes: Sequence[Floats], weights: Floats, box: tuple[Floats, Floats], known: Known
    ) -> Floats:
        """Variance, (C,), of a weighted sum over the places of a grid in a box, without `floor`.

        `known` keeps the `joint` of boxes that are alike, where all their places count.
        """
        x = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        key, used = self.pattern(*box), np.flatnonzero(weights)
        x, weights, key = x[used], weights[used], key if len(used) == len(x) else None
        with small_products():
            same = self.joint(x) if key is None or key not in known else known[key]
        if key is not None:
            if sum(K.size for K in known.values()) > KEPT_COVARIANCES:
                known.clear()
            known[key] = same
        a = self.amplitudes(x) * weights[:, None]
        return np.asarray(np.sum(a * (same @ a), axis=0))

    def pattern(self, low: Floats, high: Floats) -> tuple[object, ...] | None:
        """What boxes share whose `joint` is the same; None if nothing is known."""
        return None


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


# --- samples of a grid that are left out ----------------------------------------------------------


def left_out_filter(prior: Prior, shape: Sequence[int]) -> Floats:
    """The filter that gives what the middle sample of a box differs by, in deviations.

    What the others of its box say; the box has a middle and fits into the shape.
    """
    n, prior = LEFT_OUT_BOX.get(len(shape), 3), replace(prior, means=False)
    side = [min(n, m - 1 + m % 2) for m in shape]
    t = np.indices(side).reshape(len(side), -1).T - (np.asarray(side) - 1) / 2
    j = len(t) // 2
    weights, variance = prior.told(t[j : j + 1], np.delete(t, j, axis=0))
    off = np.insert(-weights[0], j, 1.0)
    return np.asarray((off / math.sqrt(max(variance[0], 1e-300))).reshape(side))


def filtered(y: Floats, weights: Floats, *, even: bool = False) -> Floats:
    """Samples y, (..., C), summed with weights around each that has all neighbours.

    Or, with an `even` number of weights on each axis, around each middle between samples.
    """
    from scipy.ndimage import correlate  # 0.1 s, for who asks

    whole = correlate(np.asarray(y, np.float64), weights[..., None], mode="nearest")
    ends = (slice(n // 2, m - n // 2 + even) for n, m in zip(weights.shape, y.shape))
    return np.asarray(whole[tuple(ends)])


def probes(shape: Sequence[int]) -> list[tuple[slice, ...]]:
    """Blocks from which statistics are taken: all of an array, or parts towards its corners."""
    each = max(shape)
    if math.prod(shape) > PROBE_SAMPLES:
        each = max(16, int((PROBE_SAMPLES / 2 ** len(shape)) ** (1 / len(shape))))
    starts = [sorted({max(0, n - each) // 4, max(0, n - each) * 3 // 4}) for n in shape]
    parts = ([slice(a, a + min(n, each)) for a in s] for s, n in zip(starts, shape))
    return list(cartesian(*parts))


def power_of_errors(fine: float, coarse: float, usual: float) -> float:
    """The power by which errors grow where samples are twice as far apart; `usual` without any."""
    if min(fine, coarse) <= 0:
        return usual
    return float(np.clip(2 * np.log2(coarse / fine), LEAST_POWER, LARGEST_POWER))


def prior_of(usual: Prior, blocks: Sequence[Floats]) -> Prior:
    """Power and stretch of samples in blocks of a grid, (..., C); of few samples the `usual` prior.

    The power is that by which residuals grow when every second sample is left out on each axis, the
    stretch by how much farther apart samples are on some axes than on others. Those that are
    missing are NaN; boxes around them do not count.
    """
    d = blocks[0].ndim - 1
    n = LEFT_OUT_BOX.get(d, 3)
    if min(min(b.shape[:-1]) for b in blocks) < 2 * n:
        return usual
    halves = [b[tuple(slice(i, None, 2) for _ in range(d))] for b in blocks for i in (0, 1)]
    windows = [[_windows(b, n) for b in some] for some in (blocks, halves)]
    bends = [[np.nanmean(np.abs(np.diff(b, 2, axis=k))) for k in range(d)] for b in blocks]
    rough = np.mean(bends, axis=0)
    prior = Prior(START_POWER, np.ones(d))
    for _ in range(2):
        weights = left_out_filter(prior, blocks[0].shape[:-1]).ravel()
        every = [[np.abs(w @ weights) for w in some] for some in windows]
        if any(np.isfinite(r).mean() < COMPLETE_BOXES for found in every for r in found):
            return usual
        fine, coarse = (np.mean([np.nanmean(r) for r in found]) for found in every)
        power = power_of_errors(fine, coarse, prior.power)
        stretch = np.ones(d)
        if (rough > 0).all():
            logs = 2 / max(prior.power, START_POWER) * np.log(rough)
            stretch = np.exp(np.clip(logs - logs.mean(), -MOST_STRETCH, MOST_STRETCH))
        prior = Prior(power, stretch)
    return replace(prior, means=usual.means)


def _windows(y: Floats, n: int) -> Floats:
    """Boxes of n samples on each axis of y, (..., C), evenly spread: (G, n^d)."""
    d = y.ndim - 1
    every = np.lib.stride_tricks.sliding_window_view(y, (n,) * d, axis=tuple(range(d)))
    step = math.ceil((math.prod(every.shape[:d]) / POWER_BOXES) ** (1 / d))
    return np.asarray(every[(slice(None, None, step),) * d].reshape(-1, n**d))
