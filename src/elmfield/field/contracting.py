"""Sums of products of functions of the axes, batch by batch."""

from elmfield._array.backend import namespace
from elmfield._array.typing import Array


def arranged(factors: Array) -> Array:
    """Factors (G, q_1, ..., q_p, C) as (G, q_1, C, q_2, ..., q_p), for :func:`contract`."""
    n = factors.ndim - 2
    return namespace(factors).permute_dims(factors, (0, 1, n + 1, *range(2, n + 1)))


def contract(rows: list[Array], F: Array) -> Array:
    """``Σ rows_1[q_1] ... rows_p[q_p] F[q_1 ... q_p]``, (G, p, C).

    Rows (G, p, q_k); F (G, q_1, C, q_2, ..., q_p): one matrix product, then dot products along last
    axes.
    """
    xp = namespace(F)
    X = rows[0] @ xp.reshape(F, (*F.shape[:2], -1))
    return dot(xp.reshape(X, (*X.shape[:2], *F.shape[2:])), rows[1:])


def dot(X: Array, rows: list[Array]) -> Array:
    """``Σ rows_2[q_2] ... rows_p[q_p] X[q_2 ... q_p]``, (G, p, C), for X (G, p, C, q_2, ...)."""
    xp = namespace(X)
    for row in reversed(rows):
        shaped = xp.reshape(row, (*row.shape[:2], *(1,) * (X.ndim - 3), row.shape[2]))
        X = xp.vecdot(X, xp.broadcast_to(shaped, X.shape), axis=-1)
    return X
