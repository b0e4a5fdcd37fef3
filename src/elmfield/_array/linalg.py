"""Factorisations that array libraries lack or do slowly: QR, its triangle, back substitution."""

import array_api_compat as compat

from elmfield._array.backend import namespace
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
    if compat.is_numpy_namespace(xp):  # SciPy's LAPACK takes less time for Q than NumPy's
        import scipy.linalg

        Q, R = scipy.linalg.qr(X, mode="economic", check_finite=False)
        return Q, R
    Q, R = xp.linalg.qr(X)
    return Q, R


def triangle(*columns: Array, above: Array | None = None) -> Array:
    """The upper triangle R of ``X = Q R``, shape (min(n, m), m); Q is not formed.

    X has the given blocks of columns side by side, and the rows `above` on top of them.
    """
    xp = namespace(*columns)
    X = xp.concat(columns, axis=1)
    X = X if above is None else xp.concat([above, X], axis=0)
    if compat.is_numpy_namespace(xp):
        import scipy.linalg

        return scipy.linalg.qr(X, mode="raw", overwrite_a=True, check_finite=False)[1]
    if compat.is_torch_namespace(xp):
        import torch

        return torch.linalg.qr(X, mode="r")[1]
    return xp.linalg.qr(X)[1]
