"""Kernels around places of their own, and polynomials: the local model of scattered samples.

Where the places lie is said by who holds them; a region's function is linear in its coefficients,
which :class:`KernelRegion` finds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
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


# --- the samples of a region ----------------------------------------------------------------------

LEAST_EIGENVALUE = 1e-14
"""Eigenvalues below this part of the kernel's largest are rounding."""

PENALTIES = np.logspace(-8, 4, 49)
"""Variances of noise that are tried, in units of the kernel's mean diagonal."""

Tridiagonal = tuple[Floats, Floats, Floats, Floats]
"""A tridiagonal T, its two diagonals; what samples become beside it; polynomials' eigenvalues."""


@dataclass(frozen=True, eq=False)
class KernelRegion:
    """The samples of a region, t (S, d), and the kernel ``r^power`` beside a degree's polynomials.

    With K the kernel among samples, P the polynomials there and y the values, coefficients are
    ``(K + λ) w + P c = y`` with ``Pᵀ w = 0``. `unit` is what the kernel is multiplied with where
    regions of different radius are compared: their noise λ has one size in all of them.

    Samples of unequal noise ``λ / root²``, `root` of shape (S, 1), are multiplied by `root` along
    with kernel and polynomials, which makes their noise alike.
    """

    t: Floats
    power: float
    degree: int
    unit: float = 1.0
    root: Floats | float = 1.0

    @cached_property
    def kernel(self) -> Floats:
        """K, (S, S)."""
        K = kernel_among(self.t, self.power)
        return np.asarray(K if isinstance(self.root, float) else self.root * K * self.root.T)

    @property
    def polynomials(self) -> Floats:
        """P, (S, q)."""
        return np.asarray(self.root * monomials(self.t, self.degree))

    @cached_property
    def split(self) -> tuple[Floats, Floats]:
        """Orthonormal L, (S, q'), the polynomials on the samples; R with ``P R = L``, (q, q').

        Where samples tell no slope along some direction, there is none.
        """
        L, size, Rt = np.linalg.svd(self.polynomials, full_matrices=False)
        q = int(np.sum(size > 1e-9 * size[0]))
        return L[:, :q], Rt[:q].T / size[:q]

    def rest(self) -> tuple[Floats, float]:
        """The kernel among weights that no polynomial sees, plus a number times L Lᵀ; that number.

        The lower triangle of (S, S), anew each time, so that it may be overwritten. Positive: the
        number is larger than any eigenvalue of the kernel.
        """
        from scipy.linalg import blas  # 0.1 s, for scattered samples only

        K, (L, _) = self.kernel, self.split
        B = K @ L
        B -= L @ (L.T @ B) / 2  # K - B Lᵀ - L Bᵀ has no part in L
        large = max(2 * float(np.trace(K) - 2 * np.sum(B * L)), 1e-300)
        B -= large / 2 * L
        A = blas.dsyr2k(-1.0, B, L, beta=1.0, c=K.copy().T, lower=1, overwrite_c=1)
        return np.asarray(A), large

    def factor(self, penalty: float = 0.0, *, close: bool = False) -> "FactoredRegion":
        """What solves for coefficients, near samples whose noise has this variance.

        Where samples are so `close` that their differences are lost in rounding, these are left
        alone: all other samples are met.
        """
        from scipy.linalg import lapack

        A, own = self.rest()[0], penalty / self.unit
        A[np.diag_indices(len(A))] += own
        if not close:  # what noise blurs needs no correction for rounding
            L, info = lapack.dpotrf(A, lower=1, clean=0)
            if info == 0:
                kept = None if penalty else A
                return FactoredRegion(self, kept, lambda z: lapack.dpotrs(L, z, lower=1)[0])
        g, V = np.linalg.eigh(A)
        q = self.split[0].shape[1]
        largest = g[-1 - q] if len(g) > q else 1.0
        some = g > LEAST_EIGENVALUE * max(largest, 1e-300)
        V, g = V[:, some], g[some, None]
        return FactoredRegion(self, A, lambda z: V @ (V.T @ z / g))

    def tridiagonal(self, y: Floats) -> Tridiagonal:
        """A tridiagonal ``T = Qᵀ rest Q`` in the unit: its diagonals (S,) and (S - 1,); Qᵀ y; L's.

        The last are eigenvalues that belong to polynomials and not to the kernel.
        """
        from scipy.linalg import lapack

        (L, _), (A, large), n = self.split, self.rest(), len(self.t)
        z = self.root * y
        z = np.asfortranarray(z - L @ (L.T @ z))
        A, d, e, tau, _ = lapack.dsytrd(A, lower=1, lwork=32 * n, overwrite_a=1)
        if n > 2:
            z[1:] = lapack.dormqr("L", "T", A[1:, :-1], tau, z[1:], 64 * z.shape[1])[0]
        return self.unit * d, self.unit * e, z, np.full(L.shape[1], self.unit * large)

    def leave_one_out(self, y: Floats, counted: Floats) -> float:
        """Sum of squared errors when each `counted` sample is predicted from the others."""
        L, (A, _) = self.split[0], self.rest()
        if L.shape[1] == len(A):  # polynomials through anything
            return 0.0
        from scipy.linalg import lapack

        A[np.diag_indices(len(A))] += 1e-13 * float(np.mean(np.diag(A)))
        half, info = lapack.dpotri(lapack.dpotrf(A, lower=1)[0], lower=1)
        if info:
            return math.inf
        inverse = np.tril(half) + np.tril(half, -1).T
        inverse -= L @ (L.T @ inverse)
        own = np.diag(inverse)[:, None]
        own = np.maximum(own, 1e-12 * own.max())
        return float(np.sum((inverse @ y / own)[counted] ** 2))


def likelihoods(parts: Sequence[Tridiagonal]) -> tuple[Floats, Floats, Floats]:
    """For regions and all PENALTIES λ, (G, ...): Σ log v and Σ z² / v; their number, (G, 1).

    v are eigenvalues of the kernel, plus λ, and z the samples in its eigenvectors. From the pivots
    of T + λ, with :meth:`KernelRegion.tridiagonal`, of all regions at once.
    """
    sizes, C = np.asarray([len(d) for d, *_ in parts]), parts[0][2].shape[1]
    d, e = np.ones((2, sizes.max(), len(parts), 1))
    z = np.zeros((sizes.max(), len(parts), 1, C))
    for i, (own, off, right, _) in enumerate(parts):
        d[: len(own), i, 0], e[1 : len(own), i, 0], z[: len(own), i, 0] = own, off, right
    e[0] = e[sizes[sizes < len(e)], sizes < len(e)] = 0
    logs = np.stack([-np.log(large[:, None] + PENALTIES).sum(axis=0) for *_, large in parts])
    squares, v, u = np.zeros_like(logs), np.ones_like(logs), z[0]
    for k in range(len(d)):
        ratio = e[k] / v
        v = np.maximum(d[k] + PENALTIES - e[k] * ratio, PENALTIES)
        u = z[k] - ratio[..., None] * u
        logs += np.where((k < sizes)[:, None], np.log(v), 0)
        squares += np.sum(u * u, axis=-1) / v
    n = np.asarray([[float(C * (len(own) - len(large)))] for own, _, _, large in parts])
    return C * logs, squares, n


@dataclass(frozen=True, eq=False)
class FactoredRegion:
    """A region whose system is factored: coefficients of any values, and the way back.

    Parameters
    ----------
    region : KernelRegion
        The region.
    A : array, shape (S, S), or None
        What is solved, its lower triangle, to correct for rounding.
    solve : callable
        ``A⁻¹ z``, for z of shape (S, C).
    """

    region: KernelRegion
    A: Floats | None
    solve: Callable[[Floats], Floats]

    def _inverse(self, z: Floats) -> Floats:
        """``A⁻¹ z`` among weights that no polynomial sees, corrected once for rounding."""
        from scipy.linalg import blas

        P = self.region.split[0]
        z = z - P @ (P.T @ z)
        w = self.solve(z)
        if self.A is not None:
            w = w + self.solve(z - blas.dsymm(1.0, self.A, w, lower=1))
        return np.asarray(w - P @ (P.T @ w))

    def coefficients(self, y: Floats) -> Floats:
        """Of polynomials, then of kernels, (q + S, C), from values y, (S, C)."""
        (L, R), K, root = self.region.split, self.region.kernel, self.region.root
        y = root * y
        w = self._inverse(y)
        return np.concatenate([R @ (L.T @ (y - K @ w)), root * w])

    def missed(self, c: Floats, y: Floats) -> tuple[Floats, Floats]:
        """How far coefficients c are from samples y, (S, C), and how far sums may be off."""
        q, K, P = len(self.region.split[1]), self.region.kernel, self.region.polynomials
        p, w, root = c[:q], c[q:] / self.region.root, self.region.root
        terms = np.finfo(np.float64).eps * (np.abs(P) @ np.abs(p) + np.abs(K) @ np.abs(w))
        return np.abs((P @ p + K @ w) / root - y), np.asarray(terms / root)

    def adjoint(self, g: Floats) -> Floats:
        """What :meth:`coefficients` takes derivatives g, (q + S, C), by coefficients back to."""
        (L, R), K = self.region.split, self.region.kernel
        q = len(R)
        back = L @ (R.T @ g[:q])
        return np.asarray(back + self._inverse(g[q:] - K @ back))
