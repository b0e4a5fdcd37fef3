"""The posterior of a process with a power as generalised covariance, as textbooks print it.

Universal kriging with dense matrices and loops; no code of the library.
"""

import math

import numpy as np


def power_kernel(r, power):
    """Generalised covariance ± r^power, positive among weights that sum to zero on polynomials."""
    half = power / 2
    if half == int(half):
        sign = 1.0 if int(half) % 2 else -1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            return sign * np.where(r > 0, r**power * np.log(np.maximum(r, 1e-300)), 0.0)
    return (-1.0 if math.floor(half) % 2 == 0 else 1.0) * r**power


def distances(a, b):
    """Between places (n, d) and (m, d)."""
    return np.sqrt(np.sum((a[:, None, :] - b[None, :, :]) ** 2, axis=-1))


def drift(x, degree):
    """Monomials up to a degree, (n, q)."""
    d = x.shape[1]
    powers = [p for p in np.ndindex(*(degree + 1,) * d) if sum(p) <= degree]
    return np.stack([np.prod(x ** np.asarray(p), axis=1) for p in powers], axis=1)


def krige(t, x, power, noise=0.0):
    """Weights (n, S) of samples at t for values at x, and posterior covariances (n, n)."""
    degree = max(1, int(power // 2))
    S, P, p = len(t), drift(t, degree), drift(x, degree)
    K = power_kernel(distances(t, t), power) + noise * np.eye(S)
    A = np.block([[K, P], [P.T, np.zeros((P.shape[1],) * 2)]])
    b = np.concatenate([power_kernel(distances(t, x), power), p.T])
    w = np.linalg.solve(A, b)
    return w[:S].T, power_kernel(distances(x, x), power) - b.T @ w
