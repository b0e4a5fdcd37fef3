"""One region of scattered samples by waves: a plane, and the least energy for the rest.

Features and values at its samples enter, weights leave. Where the samples lie it does not know.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.typing import Floats

PENALTIES = np.logspace(-8, 4, 49)
"""Variances of noise tried, in units of the kernel's mean diagonal."""

FELT = 5e-7
"""A miss, in values of order 1, from which on a kernel's root is factored instead of the kernel."""


def likeliest(
    orders: Sequence[float], told: Callable[[float], Floats], is_known: bool
) -> tuple[float, float]:
    """Order and variance of the noise, in units of the kernel's, that make samples likeliest.

    ``z = Vᵀ y`` in the kernel's eigenvectors has variances ``a (g + λ)``, where ``a λ`` is the
    noise's. `told` has the sums of `likelihood` over some regions. Where the noise's level is known
    values are in its unit, which settles a; otherwise a is the likeliest. One λ serves all regions.
    """
    best, found = -np.inf, (orders[0], float(PENALTIES[0]))
    for s in orders:
        logs, squares, n = told(s)
        n = np.maximum(n, 1)
        a = np.maximum(1 / PENALTIES if is_known else squares / n, 1e-300)
        score = -0.5 * (logs + n * np.log(a) + squares / a)
        if score.max() > best:
            best, found = score.max(), (s, float(PENALTIES[int(np.argmax(score))]))
    return found


@dataclass(frozen=True)
class Region:
    """The samples of a region: features H (S, m), the plane's X (S, 1 + d), values y (S, C)."""

    H: Floats
    X: Floats
    y: Floats

    @cached_property
    def split(self) -> tuple[Floats, Floats, Floats]:
        """Orthonormal columns: planes on the samples, all else; and P, ``X P`` are the planes.

        Where samples tell no slope along some direction, there is none.
        """
        L, size, Rt = np.linalg.svd(self.X, full_matrices=False)
        q = int(np.sum(size > 1e-6 * size[0]))
        rest = np.linalg.qr(L[:, :q], mode="complete")[0][:, q:]
        return L[:, :q], rest, Rt[:q].T / size[:q]

    def root(self, E: Floats) -> Floats:
        """``E^(-1/2)``, (m,), in units in which the diagonal of ``H E⁻¹ Hᵀ`` is 1 on average."""
        root = E**-0.5
        return np.asarray(root / np.sqrt(np.sum(root**2)))

    def kernel(self, E: Floats) -> Floats:
        """``H E⁻¹ Hᵀ`` among all that is no plane, (S - q, S - q)."""
        rest, root = self.split[1], self.H * self.root(E)
        G: Floats = rest.T @ (root @ root.T) @ rest
        return G

    def meet(self, E: Floats) -> tuple[Floats, Floats]:
        """Output weights (m, C) and the plane's, (1 + d, C), of least energy through the samples.

        Close samples: the kernel's condition is that of its root squared, and what is added to its
        diagonal is in the way. Where it is felt, its root is factored instead, ``Bᵀ = Q R``.
        """
        planes, rest, P = self.split
        z, root, G = rest.T @ self.y, self.root(E), self.kernel(E)
        w = np.zeros_like(z)
        if len(G):
            from scipy.linalg import lu_factor, lu_solve  # 0.1 s, for scattered samples only

            factors = lu_factor(G + 1e-13 * np.eye(len(G)))
            for _ in range(3):  # what the raised diagonal took is given back
                w += lu_solve(factors, z - G @ w)
        weights = root[:, None] ** 2 * (self.H.T @ (rest @ w))
        if np.abs(rest.T @ (self.H @ weights) - z).max(initial=0) > FELT:
            B = rest.T @ (self.H * root)
            Q, R = np.linalg.qr(B.T)
            size = np.abs(np.diag(R))
            if R.shape[0] == R.shape[1] and size.min() > 1e-9 * size.max():
                weights = root[:, None] * (Q @ np.linalg.solve(R.T, z))
            else:
                weights = root[:, None] * np.linalg.lstsq(B, z, rcond=1e-9)[0]
        return weights, P @ (planes.T @ (self.y - self.H @ weights))

    def spectrum(self, E: Floats) -> tuple[Floats, Floats, Floats]:
        """g, V and B of the kernel's root among all that is no plane: ``BᵀB = V diag(g) Vᵀ``.

        B has a row for each sample, or is turned if samples are fewer than neurons.
        """
        L = self.split[0]
        B = self.H * self.root(E)
        B = B - L @ (L.T @ B)
        B = B if B.shape[1] <= B.shape[0] else B.T
        g, V = np.linalg.eigh(B.T @ B)
        return np.maximum(g, 0), V, B

    def smooth(self, E: Floats, penalty: float) -> tuple[Floats, Floats]:
        """The same near samples whose noise has variance `penalty`, in the kernel's unit."""
        (planes, _, P), root = self.split, self.root(E)
        y = self.y - planes @ (planes.T @ self.y)
        g, V, B = self.spectrum(E)
        if B.shape[0] == len(y):
            inner = V @ ((V.T @ (B.T @ y)) / (g + penalty)[:, None])
        else:
            inner = B @ (V @ ((V.T @ y) / (g + penalty)[:, None]))
        weights = root[:, None] * inner
        return weights, P @ (planes.T @ (self.y - self.H @ weights))

    def likelihood(self, E: Floats, level: Floats | None) -> Floats:
        """For all PENALTIES λ, (3, ...): Σ log v, Σ z² / v and their number, ``v = g + λ``."""
        planes = self.split[0]
        y = self.y if level is None else self.y / level
        y = y - planes @ (planes.T @ y)
        g, V, B = self.spectrum(E)
        (S, C), q = y.shape, planes.shape[1]
        if B.shape[0] == S:
            z = V.T @ (B.T @ y) / np.sqrt(np.maximum(g, 1e-14))[:, None]
        else:
            g, z = g[q:], (V.T @ y)[q:]  # planes have no part in it
        left = max(float(np.sum(y**2) - np.sum(z**2)), 0.0)
        more = max(S - q - len(g), 0)
        v = g + PENALTIES[:, None]
        logs = C * (np.log(v).sum(axis=1) + more * np.log(PENALTIES))
        squares = np.sum(np.sum(z**2, axis=1) / v, axis=1) + left / PENALTIES
        return np.stack([logs, squares, np.full(len(v), float(C * (len(g) + more)))])

    def left_out(self, E: Floats) -> float:
        """Sum of squared errors when each sample is predicted from the others."""
        rest, G = self.split[1], self.kernel(E)
        G[np.diag_indices(len(G))] += 1e-10
        inverse = rest @ np.linalg.inv(G) @ rest.T
        own = np.maximum(np.diag(inverse), 1e-300)[:, None]
        return float(np.sum((inverse @ self.y / own) ** 2))
