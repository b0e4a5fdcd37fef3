"""Factorisations that array libraries lack or do slowly: QR, its triangle, back substitution."""

import array_api_compat as compat
import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.running import small_products
from elmfield._array.typing import Array


def solve_triangular(R: Array, B: Array) -> Array:
    """``R⁻¹ B`` for upper-triangular R, shapes (m, m) and (..., m, C)."""
    xp = namespace(R, B)
    if compat.is_numpy_namespace(xp):
        import scipy.linalg  # 0.1 s, and only dense layers need it

        return scipy.linalg.solve_triangular(R, B, check_finite=False)
    if compat.is_torch_namespace(xp):
        import torch

        return torch.linalg.solve_triangular(R, B, upper=True)
    return xp.linalg.solve(R, B)


def qr(X: Array) -> tuple[Array, Array]:
    """``X = Q R``, shapes (n, m), (n, m) and (m, m), for n ≥ m; Q orthonormal to rounding."""
    xp = namespace(X)
    if compat.is_numpy_namespace(xp) and X.shape[1] > 128:
        return _householder(X)
    Q, R = xp.linalg.qr(X)
    return Q, R


def _householder(X: Array, block: int = 64) -> tuple[Array, Array]:
    """Blocks of reflectors ``I - Vᵀ T V``, ``T⁻¹ = diag(1/τ) + triu(V Vᵀ, 1)``: matrix products.

    LAPACK's own blocks are half as wide and its Q takes as long as its R: a matrix of 1024² took it
    128 ms on one thread and 99 on two, this 97 and 67. All in transposes, which NumPy has by rows;
    and all in NumPy, for SciPy's BLAS has threads of its own, which would wait for these.
    """
    n, m = X.shape
    A = np.array(X.T, np.float64, order="C")
    work = np.empty(n * m)
    blocks = []
    for k in range(0, m, block):
        end = min(k + block, m)
        with small_products():
            A[k:end, k:], tau = np.linalg.qr(A[k:end, k:].T, mode="raw")
            V, i = np.triu(A[k:end, k:], 1), np.arange(end - k)
            V[i, i] = 1
            V[tau == 0] = 0  # nothing to reflect
            inverse = np.triu(V @ V.T, 1)
            inverse[i, i] = 1 / np.where(tau == 0, 1, tau)
            T = np.linalg.inv(inverse)
        blocks.append((k, V, T))
        _take_off(A[end:, k:], V, T, work)
    Q = np.eye(m, n)
    for k, V, T in reversed(blocks):
        _take_off(Q[k:, k:], V, T.T, work)
    return Q.T, np.tril(A[:, :m]).T


def _take_off(B: np.ndarray, V: np.ndarray, T: np.ndarray, work: np.ndarray) -> None:
    """``B -= B Vᵀ T V`` in place, the product in memory that is there already."""
    product = work[: B.size].reshape(B.shape)
    np.matmul((B @ V.T) @ T, V, out=product)
    B -= product


def triangle(*columns: Array, above: Array | None = None) -> Array:
    """The upper triangle R of ``X = Q R``, shape (min(n, m), m); Q is not formed.

    X has the given blocks of columns side by side, and the rows `above` on top of them.
    """
    xp = namespace(*columns)
    if compat.is_numpy_namespace(xp):
        return _triangle(columns, np.empty((0, 0)) if above is None else above)
    X = xp.concat(columns, axis=1)
    X = X if above is None else xp.concat([above, X], axis=0)
    if compat.is_torch_namespace(xp):
        import torch

        return torch.linalg.qr(X, mode="r")[1]
    return xp.linalg.qr(X)[1]


def _triangle(columns: tuple[Array, ...], above: Array, block: int = 128) -> Array:
    """The triangle by modified Gram-Schmidt on blocks of columns.

    As backward stable for least squares as Householder's way, if the samples are columns of X
    (Björck 1967), and matrix products nearly throughout.
    """
    top, n = len(above), len(above) + len(columns[0])
    m = sum(c.shape[1] for c in columns)
    A = np.empty((n, m))
    if top:
        A[:top] = above
    np.concatenate(columns, axis=1, out=A[top:])
    if m <= 2 * block or n < m:
        return np.linalg.qr(A, mode="r")
    R = np.zeros((m, m))
    for k in range(0, m, block):
        done = min(k + block, m)
        Q, R[k:done, k:done] = _orthonormal(np.ascontiguousarray(A[:, k:done]))
        ahead = R[k:done, done:] = Q.T @ A[:, done:]
        for i in range(0, n, 512):  # by rows: a product is still in the cache when taken off
            A[i : i + 512, done:] -= Q[i : i + 512] @ ahead
    return R


def _orthonormal(P: Array) -> tuple[Array, Array]:
    """``P = Q R`` by two factorisations of Cholesky's; by Householder where those are unsafe."""
    Q, R = P, np.eye(P.shape[1])
    for _ in range(2):
        try:
            L = np.linalg.cholesky(Q.T @ Q)
        except np.linalg.LinAlgError:
            return np.linalg.qr(P)
        size = np.diagonal(L)
        if not size.min() > 1e-6 * size.max():  # PᵀP squares the condition number
            return np.linalg.qr(P)
        Q, R = Q @ np.linalg.inv(L).T, L.T @ R
    return Q, R
