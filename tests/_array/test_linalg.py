"""Factorisations: the same in every library, and as the textbook has them."""

import numpy as np
import pytest

from elmfield._array import backend
from support import close, host


def test_solve_triangular_agrees_with_a_general_solve(xp, rng):
    R = np.triu(rng.standard_normal((6, 6))) + 4 * np.eye(6)
    B = rng.standard_normal((6, 3))
    found = backend.solve_triangular(xp.asarray(R), xp.asarray(B))
    close(found, np.linalg.solve(R, B), 1e-14)


@pytest.mark.parametrize(("n", "m"), [(200, 200), (300, 200), (150, 129), (40, 30)])
@pytest.mark.parametrize("kind", ["full", "twins", "zero"])
def test_qr_is_orthonormal_and_triangular(xp, n, m, kind, rng):
    X = rng.standard_normal((n, m))
    if kind == "twins":
        X[:, 70 % m] = X[:, 3]
    elif kind == "zero":
        X[:, :5] = 0
    Q, R = (host(part) for part in backend.qr(xp.asarray(X)))
    assert np.array_equal(R, np.triu(R))
    close(Q.T @ Q, np.eye(m), 1e-13)
    close(Q @ R, X, 1e-12)
    if kind == "full":
        close(np.abs(np.diagonal(R)), np.abs(np.diagonal(np.linalg.qr(X)[1])), 1e-12)


@pytest.mark.parametrize(("n", "m"), [(40, 30), (400, 300), (20, 30)])
def test_the_triangle_is_that_of_qr_but_for_signs(xp, n, m, rng):
    X = rng.standard_normal((n, m))
    R = host(backend.triangle(xp.asarray(X[:, :7]), xp.asarray(X[:, 7:])))
    assert np.array_equal(R, np.triu(R))
    # RᵀR = XᵀX, whose entries are sums of n products of order 1
    close(R.T @ R, X.T @ X, 1e-12 * n)


def test_rows_may_stand_above(xp, rng):
    X = rng.standard_normal((300, 280))
    R = host(backend.triangle(xp.asarray(X[40:]), above=xp.asarray(X[:40])))
    close(R.T @ R, X.T @ X, 1e-12 * 300)
