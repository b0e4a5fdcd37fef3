"""One region of scattered samples by kernels around them, and polynomials for nothing.

Local positions and values enter, coefficients leave. Where the region lies it does not know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.typing import Floats
from elmfield.fit.region import PENALTIES
from elmfield.local.bases.polyharmonic import kernel, monomials

LOST = 1e-14
"""Eigenvalues below this part of the kernel's largest are rounding, not samples."""


@dataclass(frozen=True, eq=False)
class Around:
    """The samples of a region, t (S, d), and the kernel ``r^power`` beside a degree's polynomials.

    With K the kernel among samples, P the polynomials there and y the values, coefficients are
    ``(K + λ) w + P c = y`` with ``Pᵀ w = 0``. `unit` is what the kernel is multiplied with where
    regions of different radius are compared: their noise λ has one size in all of them.
    """

    t: Floats
    power: float
    degree: int
    unit: float = 1.0

    @cached_property
    def kernel(self) -> Floats:
        """K, (S, S)."""
        return np.asarray(kernel(self.t, self.t, self.power))

    @cached_property
    def split(self) -> tuple[Floats, Floats]:
        """Orthonormal L, (S, q'), the polynomials on the samples; R with ``P R = L``, (q, q').

        Where samples tell no slope along some direction, there is none.
        """
        P = monomials(self.t, self.degree)
        L, size, Rt = np.linalg.svd(P, full_matrices=False)
        q = int(np.sum(size > 1e-9 * size[0]))
        return L[:, :q], Rt[:q].T / size[:q]

    @cached_property
    def rest(self) -> Floats:
        """The kernel among weights that no polynomial sees, (S, S), and a large number times L Lᵀ.

        Positive, and what it does to such weights has no part in L.
        """
        K, (L, _) = self.kernel, self.split
        KL = K @ L
        A: Floats = K - L @ KL.T - KL @ L.T + L @ ((L.T @ KL) @ L.T)
        A = (A + A.T) / 2
        return np.asarray(A + self._large(A) * (L @ L.T))

    def _large(self, A: Floats) -> float:
        """More than any eigenvalue of the kernel."""
        return max(2.0 * float(np.trace(A)), 1e-300)

    def factor(self, penalty: float = 0.0, *, close: bool = False) -> "Factored":
        """What solves for coefficients, near samples whose noise has this variance.

        Where samples are so `close` that their differences are lost in rounding, these are left
        alone: all other samples are met.
        """
        from scipy.linalg import lapack  # 0.1 s, for scattered samples only

        A = self.rest
        if penalty:
            A = A + penalty / self.unit * np.eye(len(A))
        if not close:
            L, info = lapack.dpotrf(A, lower=1)
            if info == 0:
                return Factored(self, A, lambda z: lapack.dpotrs(L, z, lower=1)[0])
        g, V = np.linalg.eigh(A)
        q = self.split[0].shape[1]
        largest = g[-1 - q] if len(g) > q else 1.0
        kept = g > LOST * max(largest, 1e-300)
        V, g = V[:, kept], g[kept, None]
        return Factored(self, A, lambda z: V @ (V.T @ z / g))

    def likelihood(self, y: Floats) -> Floats:
        """For all PENALTIES λ, (3, ...): Σ log v, Σ z² / v and their number, ``v = g + λ``."""
        (L, _), C = self.split, y.shape[1]
        q = L.shape[1]
        g, V = np.linalg.eigh(self.rest)
        g, V = np.maximum(g[: len(g) - q] * self.unit, 0), V[:, : len(g) - q]
        z = V.T @ y
        v = g + PENALTIES[:, None]
        logs = C * np.log(v).sum(axis=1)
        squares = np.sum(np.sum(z**2, axis=1) / v, axis=1)
        return np.stack([logs, squares, np.full(len(v), float(C * len(g)))])

    def left_out(self, y: Floats, counted: Floats) -> float:
        """Sum of squared errors when each `counted` sample is predicted from the others."""
        L, A = self.split[0], self.rest
        if L.shape[1] == len(A):  # polynomials through anything
            return 0.0
        A = A + 1e-13 * float(np.mean(np.diag(A))) * np.eye(len(A))
        inverse = np.linalg.inv(A)
        inverse -= L @ (L.T @ inverse)
        own = np.diag(inverse)[:, None]
        own = np.maximum(own, 1e-12 * own.max())
        return float(np.sum((inverse @ y / own)[counted] ** 2))


@dataclass(frozen=True, eq=False)
class Factored:
    """A region whose system is factored: coefficients of any values, and the way back.

    Parameters
    ----------
    region : Around
        The region.
    A : array, shape (S, S)
        What is solved.
    solve : callable
        ``A⁻¹ z``, for z of shape (S, C).
    """

    region: Around
    A: Floats
    solve: Callable[[Floats], Floats]

    def _inverse(self, z: Floats) -> Floats:
        """``A⁻¹ z`` among weights that no polynomial sees, with what rounding took given back."""
        P = self.region.split[0]
        z = z - P @ (P.T @ z)
        w = self.solve(z)
        w = w + self.solve(z - self.A @ w)
        return np.asarray(w - P @ (P.T @ w))

    def coefficients(self, y: Floats) -> Floats:
        """Of polynomials, then of kernels, (q + S, C), from values y, (S, C)."""
        (L, R), K = self.region.split, self.region.kernel
        w = self._inverse(y)
        return np.concatenate([R @ (L.T @ (y - K @ w)), w])

    def values(self, c: Floats) -> Floats:
        """The function with coefficients c at the samples, (S, C)."""
        q = len(self.region.split[1])
        P = monomials(self.region.t, self.region.degree)
        return np.asarray(P @ c[:q] + self.region.kernel @ c[q:])

    def adjoint(self, g: Floats) -> Floats:
        """What :meth:`coefficients` takes derivatives g, (q + S, C), by coefficients back to."""
        (L, R), K = self.region.split, self.region.kernel
        q = len(R)
        back = L @ (R.T @ g[:q])
        return np.asarray(back + self._inverse(g[q:] - K @ back))
