"""A region of scattered samples: a sum of kernels around them, and free polynomials."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.typing import Floats
from elmfield.local.bases.polyharmonic import kernel_among, monomials

LEAST_EIGENVALUE = 1e-14
"""Eigenvalues below this part of the kernel's largest are rounding."""

PENALTIES = np.logspace(-8, 4, 49)
"""Variances of noise that are tried, in units of the kernel's mean diagonal."""


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

    def tridiagonal(self, y: Floats) -> tuple[Floats, Floats, Floats, Floats]:
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


def likelihoods(parts: Sequence[tuple[Floats, Floats, Floats, Floats]]) -> Floats:
    """For regions and all PENALTIES λ, (G, 3, ...): Σ log v, Σ z² / v and their number.

    v are eigenvalues of the kernel, plus λ, and z the samples in its eigenvectors. From the pivots
    of T + λ, with :meth:`KernelRegion.tridiagonal`, of all regions at once.
    """
    sizes, C = np.asarray([len(d) for d, *_ in parts]), parts[0][2].shape[1]
    d, e = np.ones((2, sizes.max(), len(parts), 1))
    z = np.zeros((sizes.max(), len(parts), 1, C))
    for i, (own, off, right, _) in enumerate(parts):
        d[: len(own), i, 0], e[1 : len(own), i, 0], z[: len(own), i, 0] = own, off, right
    e[0] = e[sizes[sizes < len(e)], sizes < len(e)] = 0
    logs = [-np.log(large[:, None] + PENALTIES).sum(axis=0) for *_, large in parts]
    found = np.stack([logs, 0 * np.asarray(logs)], axis=1)
    v, u = np.ones((len(parts), len(PENALTIES))), z[0]
    for k in range(len(d)):
        ratio = e[k] / v
        v = np.maximum(d[k] + PENALTIES - e[k] * ratio, PENALTIES)
        u = z[k] - ratio[..., None] * u
        found[:, 0] += np.where((k < sizes)[:, None], np.log(v), 0)
        found[:, 1] += np.sum(u * u, axis=-1) / v
    found[:, 0] *= C
    n = np.asarray([float(C * (len(own) - len(large))) for own, _, _, large in parts])
    return np.concatenate([found, np.broadcast_to(n[:, None, None], found[:, :1].shape)], axis=1)


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
