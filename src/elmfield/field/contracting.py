"""Sums of products of functions of the axes, batch by batch."""

from collections.abc import Callable, Sequence

from elmfield._array.backend import move, namespace
from elmfield._array.typing import Array, Floats


def contracted(
    c: Array, tables: Sequence[Floats], merges: Sequence[Callable[[Array], Array]]
) -> Array:
    """Values (p_1, ..., p_d, C) on a grid, from the last axis to the first.

    Coefficients (C, N_1, q_1, ..., N_d, q_d); ``tables[k]``, (N_k, n_slots, q_k), are the functions
    of axis k in the slots of its cells, and ``merges[k]`` makes positions, (C, p_k, R), of slots,
    (C, N_k n_slots, R), before the next axis is multiplied. Of two axes nothing is copied between
    the products.
    """
    xp, C = namespace(c), c.shape[0]
    X = xp.reshape(c, (C, -1, 1))  # axes to come, positions so far
    sizes: list[int] = []
    for table, merge in zip(reversed(tables), reversed(merges)):
        N, s, q = table.shape
        rest, P = X.shape[1] // (N * q), X.shape[2]
        X = xp.permute_dims(xp.reshape(X, (C, rest, N, q, P)), (0, 2, 3, 1, 4))
        V = move(table, c, c.dtype) @ xp.reshape(X, (C, N, q, rest * P))
        V = merge(xp.reshape(V, (C, N * s, rest * P)))
        p = V.shape[1]
        X = xp.permute_dims(xp.reshape(V, (C, p, rest, P)), (0, 2, 1, 3))
        X, sizes = xp.reshape(X, (C, rest, p * P)), [p, *sizes]
    return xp.moveaxis(xp.reshape(X, (C, *sizes)), 0, -1)


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
