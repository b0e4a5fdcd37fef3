"""The evidence of observations: which prior, which noise make them likely; and the solution.

Coefficients c are ``a √v z`` with independent standard normal z: v are the variances of a prior
``(1 + |k / ω|²)^-q`` of degrees k, ω one number per axis, whose sum is 1, and a is an amplitude.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from elmfield._array.typing import Floats, Integers

FREE_VARIANCE = 1e6
"""Of planes, which cost next to nothing, in parts of the prior's."""

LEAST_LEVEL = 1e-6
"""Noise in parts of the prior that is tried, at least: below, sums of squares have no digits."""

KEPT_LEVEL = 1e-9
"""Noise, in parts of the prior, of rows that are kept."""


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
        Whether the noise is known; else it is ``a τ unit``, with τ from the evidence.
    is_exact, is_law : bool
        Rows to be kept; equations, which a basis may be unable to keep.
    """

    A: Floats = field(repr=False)
    y: Floats = field(repr=False)
    unit: Floats = field(repr=False)
    is_known: bool
    is_exact: bool = False
    is_law: bool = False

    def columns(self, kept: Integers) -> "RowGroup":
        """The same in some of the functions."""
        return replace(self, A=self.A[:, kept])


class Prior(NamedTuple):
    """A prior and noise levels: q, ω of each axis, the amplitude a, τ of each group."""

    power: float
    scales: Floats
    amplitude: float
    levels: Floats

    def deviations(self, degrees: Floats) -> Floats:
        """√v of functions of these degrees, (m,)."""
        squares = ((degrees / self.scales) ** 2).sum(axis=1)
        v = (1 + squares) ** -self.power
        v /= v.sum()
        return np.asarray(np.sqrt(np.where(degrees.sum(axis=1) <= 1, FREE_VARIANCE, v)))


@dataclass(eq=False)
class Evidence:
    """Sums of squares of groups of rows, from which the evidence of any prior follows.

    With ``M = 1 + Σ_g (a/t_g)² √v A_gᵀA_g √v`` and t the noise of a group,

        -2 log p = log det M + 2 Σ n_g log t_g + Σ |y_g|²/t_g² - bᵀ M⁻¹ b .
    """

    groups: list[RowGroup]
    degrees: Floats

    def __post_init__(self) -> None:
        self.G = [g.A.T @ g.A for g in self.groups]
        self.b = [g.A.T @ g.y for g in self.groups]
        self.yy = [float((g.y**2).sum()) for g in self.groups]
        self.n = [g.y.size for g in self.groups]
        self.known = any(g.is_known for g in self.groups)

    def score(self, prior: Prior) -> tuple[float, float]:
        """-2 log p, and the amplitude: the likeliest where no noise is known."""
        from scipy.linalg import lapack

        s, C, a = prior.deviations(self.degrees), self.b[0].shape[1], prior.amplitude
        a = a if self.known else 1.0
        t = np.where([g.is_known for g in self.groups], 1.0, a * prior.levels)
        M, b = np.zeros_like(self.G[0]), np.zeros_like(self.b[0])
        for G, r, w in zip(self.G, self.b, t):
            M += G * (a / w) ** 2
            b += r * (a / w**2)
        M *= s[:, None] * s
        M[np.diag_indices_from(M)] += 1
        L, info = lapack.dpotrf(M, lower=1, overwrite_a=1)
        if info:
            return np.inf, a
        z = lapack.dtrtrs(L, b * s[:, None], lower=1)[0]
        rest = sum(yy / w**2 for yy, w in zip(self.yy, t)) - float((z**2).sum())
        n = np.asarray(self.n)
        free = C * int((self.degrees.sum(axis=1) <= 1).sum())
        total = 2 * C * float(np.log(np.diag(L)).sum()) + 2 * float(n @ np.log(t))
        rest = max(rest, 1e-12 * sum(yy / w**2 for yy, w in zip(self.yy, t)), 1e-300)
        if self.known:
            return total + rest - 2 * free * np.log(a), a
        count = max(1, int(n.sum()) - free)
        return total + count * np.log(rest / count), float(np.sqrt(rest / count))

    def search(self, start: Prior, *, evaluations: int = 400) -> Prior:
        """The likeliest prior near one, by Nelder and Mead's simplex."""
        from scipy.optimize import minimize

        free = np.asarray([not g.is_known for g in self.groups])
        d = len(start.scales)

        def prior_of(x: Floats) -> Prior:
            x = np.clip(x, low, high)
            levels = np.ones(len(free))
            levels[free] = np.exp(x[d + 2 :])
            return Prior(float(x[0]), np.exp(x[1 : d + 1]), float(np.exp(x[d + 1])), levels)

        first = [start.power, *np.log(start.scales), np.log(start.amplitude)]
        x0 = np.asarray([*first, *np.log(start.levels[free])])
        low = np.asarray([1.0, *[np.log(0.3)] * d, -60, *[np.log(LEAST_LEVEL)] * int(free.sum())])
        high = np.asarray([12.0, *[np.log(60.0)] * d, 60, *[np.log(10.0)] * int(free.sum())])
        simplex = x0 + np.vstack([np.zeros(len(x0)), np.diag([1.0, *[0.7] * d, 1.5, *[-3.0] * int(free.sum())])])
        options = {"maxfev": evaluations, "xatol": 0.02, "fatol": 0.02, "initial_simplex": simplex}
        found = minimize(
            lambda x: self.score(prior_of(x))[0] + float(np.sum((x - np.clip(x, low, high)) ** 2)),
            x0, method="Nelder-Mead", options=options,
        )  # fmt: skip
        best = prior_of(found.x)
        return best._replace(amplitude=self.score(best)[1])


class Solution(NamedTuple):
    """Coefficients (m, C), and the posterior of each: ``c = mean + a √v R⁻¹ standard normal``."""

    c: Floats
    R: Floats
    deviations: Floats
    residuals: list[Floats]


def solve(groups: Sequence[RowGroup], degrees: Floats, prior: Prior) -> Solution:
    """Least squares of all rows and the prior, by an orthogonal factorisation.

    Rows that are kept are corrected for what the prior took from them.
    """
    from scipy.linalg import qr, solve_triangular

    s = prior.amplitude * prior.deviations(degrees)
    t = [1.0 if g.is_known else prior.amplitude * l for g, l in zip(groups, prior.levels)]
    m, C = len(s), groups[0].y.shape[1]
    R, q = np.eye(m), np.zeros((m, C))
    for g, w in zip(groups, t):
        for i in range(0, len(g.A), 4 * m):
            rows = np.concatenate([R, g.A[i : i + 4 * m] * (s / w)])
            right = np.concatenate([q, g.y[i : i + 4 * m] / w])
            both, R = np.concatenate([rows, right], axis=1), rows
            both = qr(both, mode="r", overwrite_a=True, check_finite=False)[0][: m + C]
            R, q = np.triu(both[:m, :m]), both[:m, m:]
    z = solve_triangular(R, q)
    for _ in range(3):
        right = np.zeros_like(z)
        for g, w in zip(groups, t):
            if g.is_exact and not g.is_law:
                right += (g.A * (s / w)).T @ (g.y / w - (g.A * (s / w)) @ z)
        z = z + solve_triangular(R, solve_triangular(R, right, trans="T"))
    c = s[:, None] * z
    return Solution(c, R, s, [g.y - g.A @ c for g in groups])
