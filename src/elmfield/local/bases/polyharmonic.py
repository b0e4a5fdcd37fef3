"""Kernels around places of their own, and polynomials: the local model of scattered samples.

Where the places lie is said by who holds them; a region's function is linear in its coefficients.
"""

import math
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, combinations_with_replacement
from itertools import product as cartesian
from operator import add, mul

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Floats
from elmfield.local.model import LocalModel

LEAST_SQUARED_DISTANCE = 1e-26
"""Squared distances below are taken for this one: powers of 0 have no derivatives, and a place is
known to rounding, which the cusps of orders below 1 would show."""


@dataclass(frozen=True, eq=False)
class Polyharmonic(LocalModel):
    """``f(t) = Σ_p c_p t^p + Σ_j w_j ψ(|t - t_j|)`` with ``ψ(r) = ± r^β``, or ``± r^β log r``.

    The second where β is even; signs are such that ψ is positive among weights that no polynomial
    of the degree sees. Of all functions through its samples f has the least energy
    ``∫ |ω|^(β + d) |f̂|²``: the energy of the order ``(β + 1) / 2`` along a line.

    Parameters
    ----------
    power : float
        β, above 0.
    degree : int
        Of the polynomials, which come first among the coefficients.
    n_axes : int
        d.
    n_nodes : int
        Places t_j that a region has at most.
    nodes : array, shape (G, n_nodes, d), optional
        The places of G regions, in their local coordinates; rows need them.
    """

    power: float
    degree: int
    n_axes: int
    n_nodes: int
    nodes: Array | None = field(default=None, repr=False)

    basis = None
    axes = None

    @property
    def n_modes(self) -> int:
        """Polynomials, and places."""
        return n_monomials(self.n_axes, self.degree) + self.n_nodes

    @property
    def radius(self) -> Floats:
        """Scattered regions bring their own radii; in their unit this one is 1."""
        return np.ones(self.n_axes)

    def around(self, nodes: Array) -> "Polyharmonic":
        """The model of regions with these places."""
        return replace(self, nodes=nodes)

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """Polynomials, then kernels, (G, p, n_modes), at local coordinates t, (G, p, d)."""
        assert self.nodes is not None
        P = monomials(t, self.degree, order)
        K = kernel(t, self.nodes, self.power, order)
        return [namespace(t).concat([P, K], axis=-1)]


def n_monomials(d: int, degree: int) -> int:
    """Monomials of d variables up to a degree."""
    return math.comb(degree + d, d)


def exponents(d: int, degree: int) -> list[tuple[int, ...]]:
    """Exponents of the monomials, by degree; (2, 1) is t_1² t_2."""
    every = (combinations_with_replacement(range(d), total) for total in range(degree + 1))
    return [tuple(chosen.count(k) for k in range(d)) for chosen in chain(*every)]


def monomials(t: Array, degree: int, order: tuple[int, ...] | None = None) -> Array:
    """Monomials (..., q) at t, (..., d), differentiated `order` times along each axis."""
    xp, d = namespace(t), t.shape[-1]
    order = (0,) * d if order is None else order
    columns = []
    for p in exponents(d, degree):
        column = xp.ones_like(t[..., 0])
        for k, (n, a) in enumerate(zip(p, order)):
            column = column * math.perm(n, a)
            if n > a:
                column = column * t[..., k] ** (n - a)
        columns.append(column)
    return xp.stack(columns, axis=-1)


def kernel(t: Array, nodes: Array, power: float, order: tuple[int, ...] | None = None) -> Array:
    """``∂^order ψ(|t - t_j|)``, (..., p, n), at t, (..., p, d), for places t_j, (..., n, d).

    ψ is a function g of ``s = |t|²``, so that along an axis
    ``∂^a g = Σ_j a! / (j! (a - 2j)!) (2 t)^(a - 2j) g^(a - j)``.
    """
    d = t.shape[-1]
    off = [t[..., :, None, k] - nodes[..., None, :, k] for k in range(d)]
    s = reduce(add, (u * u for u in off))
    if order is None:
        return _differentiated(s, power, 0)
    total = 0.0
    for js in cartesian(*(range(a // 2 + 1) for a in order)):
        term = _differentiated(s, power, sum(order) - sum(js))
        for u, a, j in zip(off, order, js):
            factor = math.factorial(a) / (math.factorial(j) * math.factorial(a - 2 * j))
            term = term * (factor * (2 * u) ** (a - 2 * j) if a > 2 * j else factor)
        total = total + term
    return total


def kernel_among(t: Floats, power: float) -> Floats:
    """ψ among places t, (S, d), as :func:`kernel` gives it: (S, S)."""
    from scipy.spatial.distance import cdist  # 0.1 s, for scattered samples only

    return np.asarray(_differentiated(cdist(t, t, "sqeuclidean"), power, 0))


def _differentiated(s: Array, power: float, times: int) -> Array:
    """The kernel of squared distances s, differentiated by s: ``± s^(β/2)``, or with a log."""
    xp = namespace(s)
    half = power / 2
    sign = -1.0 if math.floor(half) % 2 == 0 else 1.0
    has_log = half == math.floor(half)
    A, B = (sign / 2, 0.0) if has_log else (0.0, sign)  # A s^h log s + B s^h
    for _ in range(times):
        A, B, half = A * half, A + B * half, half - 1
    if has_log or half < 1:
        s = xp.clip(s, min=LEAST_SQUARED_DISTANCE)
    found = _power(s, half)
    return found * (A * xp.log(s) + B) if A else found * B


def _power(s: Array, half: float) -> Array:
    """``s^half``; halves of whole numbers by a root and products."""
    if half <= 0 or 2 * half != math.floor(2 * half):
        return s**half
    root = [] if half == math.floor(half) else [namespace(s).sqrt(s)]
    return reduce(mul, root + [s] * int(half))


def power_of(order: float) -> float:
    """β: the order along a line is (β + 1) / 2."""
    return 2 * order - 1


def degree_of(order: float) -> int:
    """Of the polynomials beside a kernel; planes are always free."""
    return max(1, int(power_of(order) // 2))
