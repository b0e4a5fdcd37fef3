"""The evidence of observations: which prior, which noise make them likely; and the solution.

A function is, before it is observed, a stationary process of amplitude a, whose spectrum is a
product over axes of ``(1 + (ω / ω_0)²)^-q``, and a plane that costs next to nothing. Its
coefficients are ``c = a L z`` with independent standard normal z.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from elmfield._array.cache import memoised
from elmfield._array.typing import Array, Floats, Integers

FREE_DEVIATION = 1e3
"""Of planes, in parts of the amplitude."""

LEAST_LEVEL = 1e-6
"""Noise in parts of the prior that is tried, at least: below, sums of squares have no digits."""

KEPT_LEVEL = 1e-9
"""Noise, in parts of the prior, of rows that are kept."""

NEARLY_KEPT = 1e-5
"""Part of their size by which such rows may be missed before coefficients are corrected."""

CORRECTIONS = 8
"""Times that rows which are kept are corrected for what the prior took from them."""

EXTENSION = 2.0
"""Period of the prior's waves, in parts of the axis: its ends know little of each other."""


class Prior(NamedTuple):
    """A prior and noise levels: q, ω_0 of each axis, the amplitude a, τ of each group.

    Noise is ``a τ`` in units of a group; τ alone where it is known: what rows see beside it.
    """

    power: float
    scales: Floats
    amplitude: float
    levels: Floats

    def noise(self, groups: Sequence["RowGroup"]) -> list[float]:
        """The noise of groups, in their units."""
        each = zip(groups, self.levels.tolist())
        return [t * (1.0 if g.is_known else self.amplitude) for g, t in each]


@memoised(32)
def _waves(width: int) -> tuple[Floats, Floats]:
    """Chebyshev coefficients of waves on [-1, 1], (width, r), and their frequencies, (r,)."""
    most = 1.3 * width + 10
    omega = np.arange(0, most, np.pi / EXTENSION)
    n = 2 * (width + int(most))
    theta = np.pi * (np.arange(n) + 0.5) / n
    u = np.cos(theta)[:, None]
    T = np.cos(np.arange(width)[:, None] * theta) * (2 / n)
    T[0] /= 2
    return T @ np.hstack([np.cos(u * omega), np.sin(u * omega[1:])]), np.append(omega, omega[1:])


@dataclass(frozen=True)
class ProductPrior:
    """Priors of coefficients of products: polynomials of each axis, or waves where it wraps.

    Planes are free and each axis has its own ω_0; or, where they are `tied`, none is and ω_0 of
    axes are these parts of one number.
    """

    widths: tuple[int, ...]
    periodic: tuple[bool, ...]
    n_channels: int = 1
    tied: tuple[float, ...] = ()

    @property
    def n_functions(self) -> int:
        """Coefficients of one channel."""
        return int(np.prod(self.widths))

    @property
    def slopes(self) -> Integers:
        """The axes along which planes have slopes: those that are not short and do not wrap."""
        return np.flatnonzero((np.asarray(self.widths) > 1) & ~np.asarray(self.periodic))

    @cached_property
    def planes(self) -> Integers:
        """Which coefficients planes have: the constant, and one for each of `slopes`."""
        if self.tied:
            return np.zeros(0, np.int64)
        strides = np.cumprod([1, *self.widths[:0:-1]])[::-1]  # of an array of coefficients
        return np.append(0, strides[self.slopes])

    def lowest(self, most: int) -> tuple["ProductPrior", Integers]:
        """The prior of the lowest functions, and which these are."""
        widths = list(self.widths)
        while np.prod(widths) * self.n_channels > most:
            widths[int(np.argmax(widths))] -= 1
        few = tuple(w - (w + 1) % 2 if wraps else w for w, wraps in zip(widths, self.periodic))
        kept = [np.arange(f) for f in few]
        for k in np.flatnonzero(self.periodic):  # cosines come before sines
            kept[k][(few[k] + 1) // 2 :] += (self.widths[k] + 1) // 2 - (few[k] + 1) // 2
        own = np.ravel_multi_index(np.meshgrid(*kept, indexing="ij"), self.widths).reshape(-1)
        every = [own + c * self.n_functions for c in range(self.n_channels)]
        return replace(self, widths=few), np.concatenate(every)

    def factors(self, prior: Prior) -> list[Floats]:
        """L of each axis, (width, width)."""
        found = []
        for w, wraps, scale in zip(self.widths, self.periodic, prior.scales):
            if wraps:
                k = np.concatenate([[0], *[np.arange(1, (w + 1) // 2)] * 2])
                v = (1 + (np.pi * k / scale) ** 2) ** -prior.power
                found.append(np.diag(np.sqrt(v / v.sum())))
                continue
            T, omega = _waves(w)
            v = (1 + (omega / scale) ** 2) ** -prior.power
            v /= v[: (len(omega) + 1) // 2].sum()
            found.append(np.asarray(np.linalg.qr((T * np.sqrt(v)).T, mode="r")).T)
        return found

    def unresolved(self, prior: Prior) -> float:
        """The part of the prior's variance that is finer than the functions."""
        rest = 1.0
        for w, wraps, scale in zip(self.widths, self.periodic, prior.scales):
            omega = np.arange(0, 40 * w, np.pi / EXTENSION)
            v = (1 + (omega / scale) ** 2) ** -prior.power
            rest *= float(v[omega < (np.pi / 2 if wraps else 1) * w].sum() / v.sum())
        return 1 - rest

    def apply(self, factors: list[Floats], A: Floats) -> Floats:
        """``A L``, (n, m'): rows in terms of z; planes come last."""
        n, C, F = len(A), self.n_channels, FREE_DEVIATION
        X = A.reshape(n * C, -1)
        free = (F * X[:, self.planes]).reshape(n, -1)
        before = 1
        for L in factors:
            X = np.matmul(L.T, X.reshape(n * C * before, len(L), -1))
            before *= len(L)
        return np.concatenate([X.reshape(n, -1), free], axis=1)

    def coefficients(self, factors: list[Floats], z: Floats) -> Floats:
        """``L z``, (m, C'), of z, (m', C')."""
        return self.apply(factors, np.eye(self.n_functions * self.n_channels)) @ z


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Rows of one instrument, divided by the size of their noise.

    Parameters
    ----------
    A, y : arrays, shapes (n, m) and (n, C)
        Rows and values, each divided by `unit`.
    unit : array, shape (n,)
        The noise of each row; where that is unknown, or 0, what the prior says of the row's size.
    is_known : bool
        Whether the noise is known; else τ comes from the evidence.
    is_exact, is_law : bool
        Rows to be kept; those of them that are laws, which are no data.
    kind : str
        What they are; equations may be more than a basis can keep.
    """

    A: Floats = field(repr=False)
    y: Floats = field(repr=False)
    unit: Floats = field(repr=False)
    is_known: bool
    is_exact: bool = False
    is_law: bool = False
    kind: str = "values"


@dataclass(eq=False)
class RowEvidence:
    """Sums of squares of groups of rows, from which the evidence of any prior follows.

    With ``M = 1 + Σ_g (a/t_g)² Lᵀ A_gᵀA_g L`` and t the noise of a group,

        -2 log p = log det M + 2 Σ n_g log t_g + Σ |y_g|²/t_g² - bᵀ M⁻¹ b .

    Equations that hold exactly are no data: p is that of the other rows, given these.
    """

    groups: list[RowGroup]
    space: ProductPrior
    fixed: Sequence[bool]

    def __post_init__(self) -> None:
        self.G = [g.A.T @ g.A for g in self.groups]
        self.b = [g.A.T @ g.y for g in self.groups]
        self.yy = [float((g.y**2).sum()) for g in self.groups]
        self.n = [g.y.size for g in self.groups]
        self.known = any(g.is_known for g in self.groups)
        self.laws = np.asarray([g.is_law for g in self.groups])

    def score(self, prior: Prior) -> tuple[float, float]:
        """-2 log p, and the amplitude: the likeliest where no noise is known."""
        factors = self.space.factors(prior)
        total, rest, n, free = self._parts(prior, factors, np.ones(len(self.laws), bool))
        given = 0.0, 0.0, 0, float(len(self.space.planes) * self.space.n_channels)
        if self.laws.any() and not self.laws.all():
            given = self._parts(prior, factors, self.laws)
        # What planes cost, that the data determine, says nothing of the amplitude (REML).
        planes = self.b[0].shape[1] * (given[3] - free)
        total, rest, n = total - given[0], rest - given[1], max(n - given[2] - planes, 1)
        if not np.isfinite(total + rest):
            return np.inf, prior.amplitude
        if self.known:
            return total + rest - 2 * planes * np.log(prior.amplitude), prior.amplitude
        rest = max(rest, 1e-300)
        return total + n * np.log(rest / n), float(np.sqrt(rest / n))

    def _parts(
        self, prior: Prior, factors: list[Floats], counted: Array
    ) -> tuple[float, float, int, float]:
        """Log determinants, sum of squares and number of rows of some groups; planes left free."""
        from scipy.linalg import lapack

        prior = prior if self.known else prior._replace(amplitude=1.0)
        a, noise = prior.amplitude, prior.noise(self.groups)
        G, b, squares, logs, n = np.zeros_like(self.G[0]), np.zeros_like(self.b[0]), 0.0, 0.0, 0
        for i in np.flatnonzero(counted):
            t = noise[i]
            G += self.G[i] * (a / t) ** 2
            b += self.b[i] * (a / t**2)
            squares += self.yy[i] / t**2
            logs += 2 * self.n[i] * float(np.log(t))
            n += self.n[i]
        M = self.space.apply(factors, self.space.apply(factors, G).T)
        M[np.diag_indices_from(M)] += 1
        R, info = lapack.dpotrf(M, lower=1, overwrite_a=1)
        if info:
            return np.inf, np.inf, n, 0.0
        z = lapack.dtrtrs(R, self.space.apply(factors, b.T).T, lower=1)[0]
        rest = max(squares - float((z**2).sum()), 1e-12 * squares)
        m = len(R) - len(self.space.planes) * self.space.n_channels
        free = float((np.linalg.inv(R[m:, m:]) ** 2).sum())
        return logs + 2 * b.shape[1] * float(np.log(np.diag(R)).sum()), rest, n, free

    def likeliest(self, starts: Sequence[Prior], most: int = 40) -> Prior:
        """The likeliest prior: `most` trials a number from the best of three short searches."""

        def cost(prior: Prior) -> float:
            return self.score(prior)[0]

        short = [self.search(p, most // 4) for p in sorted(starts, key=cost)[:3]]
        return self.search(min(short, key=cost), most)

    def search(self, start: Prior, most: int) -> Prior:
        """The likeliest prior near one, by Nelder and Mead's simplex: `most` trials a number."""
        from scipy.optimize import minimize

        free = ~np.asarray(self.fixed)
        known = np.asarray([g.is_known for g in self.groups])[free]
        ratios = np.asarray(self.space.tied or np.ones(len(start.scales)))
        d = 1 if self.space.tied else len(ratios)

        def prior_of(x: Floats) -> Prior:
            x = np.clip(x, low, high)
            levels = start.levels.copy()
            levels[free] = np.exp(x[d + 2 :])
            # Spectra of high powers are all alike, exp(-ω² power / scale²).
            scales = ratios * np.exp(x[1 : d + 1] + x[0] / 2)
            return Prior(float(np.exp(x[0])), scales, float(np.exp(x[d + 1])), levels)

        widths = np.log(start.scales / ratios / np.sqrt(start.power))[:d]
        first = [np.log(start.power), *widths, np.log(start.amplitude)]
        x0 = np.asarray([*first, *np.log(start.levels[free])])
        least = np.where(known, 0.0, np.log(LEAST_LEVEL))
        low = np.asarray([np.log(0.75), *[np.log(0.1)] * d, -60, *least])
        high = np.asarray([np.log(12.0), *[np.log(100.0)] * d, 60, *[np.log(10.0)] * len(known)])
        steps = np.asarray([0.3, *[0.7] * d, 1.5, *np.where(known, 0.7, -3.0)])
        steps = np.where(x0 + steps < low, -steps, steps)
        simplex = x0 + np.vstack([np.zeros(len(x0)), np.diag(steps)])
        used = np.ones(len(x0), bool)
        used[d + 1] = self.known  # else the amplitude follows
        options = {"maxfev": most * int(used.sum()), "xatol": 0.02, "fatol": 0.02}
        options["initial_simplex"] = simplex[np.append(True, used)][:, used]

        def cost(part: Floats) -> float:
            x = x0.copy()
            x[used] = part
            score, beyond = self.score(prior_of(x))[0], x - np.clip(x, low, high)
            return score + float(beyond @ beyond) if np.isfinite(score) else 1e30

        x = x0.copy()
        x[used] = minimize(cost, x0[used], method="Nelder-Mead", options=options).x
        best = prior_of(x)
        return best._replace(amplitude=self.score(best)[1])


class Solution(NamedTuple):
    """Coefficients (m, C), and their posterior: ``c + a L R⁻¹ standard normal``."""

    c: Floats
    R: Floats
    factors: list[Floats]
    residuals: list[Floats]


def solve(groups: Sequence[RowGroup], space: ProductPrior, prior: Prior) -> Solution:
    """Least squares of all rows and the prior, by an orthogonal factorisation.

    Rows that are kept are corrected for what the prior took from them.
    """
    from scipy.linalg import lstsq, qr, solve_triangular

    factors, a = space.factors(prior), prior.amplitude
    t = prior.noise(groups)
    rows = [space.apply(factors, g.A) * (a / w) for g, w in zip(groups, t)]
    m, C = rows[0].shape[1], groups[0].y.shape[1]
    both = np.eye(m, m + C)
    for B, g, w in zip(rows, groups, t):
        for i in range(0, len(B), 4 * m):
            more = np.concatenate([B[i : i + 4 * m], g.y[i : i + 4 * m] / w], axis=1)
            stack = np.concatenate([more, both])
            both = qr(stack, mode="r", overwrite_a=True, check_finite=False)[0][: m + C]
    R = both[:m, :m]
    z = solve_triangular(R, both[:m, m:])
    c = space.coefficients(factors, a * z)
    if kept := [i for i, g in enumerate(groups) if g.is_exact and prior.levels[i] <= KEPT_LEVEL]:
        A, y = (np.concatenate(x) for x in zip(*((groups[i].A, groups[i].y) for i in kept)))
        B = np.concatenate([rows[i] for i in kept])
        for _ in range(CORRECTIONS):
            left = B.T @ (y / t[kept[0]] - B @ z)
            z = z + solve_triangular(R, solve_triangular(R, left, trans="T"))
        c = space.coefficients(factors, a * z)
        left = y - A @ c
        if len(A) < len(c) and np.abs(left).max() < NEARLY_KEPT * np.abs(y).max():
            # What is below the prior's last digit: the least change of coefficients that meets it.
            c = c + lstsq(A, left, cond=1e-10, lapack_driver="gelsy")[0]
    return Solution(c, R, factors, [g.y - g.A @ c for g in groups])
