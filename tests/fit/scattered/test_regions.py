"""Scattered samples by local kernels, beside the systems as printed and what others find."""

import numpy as np
import pytest

import elmfield as ef
from elmfield.local.bases import Polyharmonic
from elmfield.local.bases.polyharmonic import (
    PENALTIES,
    KernelRegion,
    degree_of,
    exponents,
    kernel,
    likelihoods,
    monomials,
    power_of,
)
from support import close

ORDERS = [1.1, 1.5, 2.0, 2.5, 3.0, 4.0]


def franke(p):
    x, y = 9 * p[:, 0], 9 * p[:, 1]
    return (
        0.75 * np.exp(-((x - 2) ** 2 + (y - 2) ** 2) / 4)
        + 0.75 * np.exp(-((x + 1) ** 2) / 49 - (y + 1) / 10)
        + 0.5 * np.exp(-((x - 7) ** 2 + (y - 3) ** 2) / 4)
        - 0.2 * np.exp(-((x - 4) ** 2) - (y - 7) ** 2)
    )


def bumps(p):
    return np.sin(9 * p[:, 0] + 3 * p[:, 2]) * np.cos(7 * p[:, 1]) + p[:, 2] ** 2


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("d", [2, 3])
def test_a_region_solves_the_system_as_printed(order, d, rng):
    t, y = rng.uniform(-1, 1, (60, d)), rng.standard_normal((60, 2))
    beta, degree = power_of(order), degree_of(order)
    found = KernelRegion(t, beta, degree).factor().coefficients(y)
    r = np.linalg.norm(t[:, None] - t, axis=-1)
    K = (-1) ** (beta // 2 + 1) * r**beta
    if beta % 2 == 0:
        K = K * np.log(np.where(r > 0, r, 1))
    P = np.stack([np.prod(t**p, axis=1) for p in np.asarray(exponents(d, degree))], axis=1)
    q = P.shape[1]
    whole = np.block([[P, K], [np.zeros((q, q)), P.T]])
    expected = np.linalg.solve(whole, np.concatenate([y, np.zeros((q, 2))]))
    close(found, expected, 1e-7 * np.abs(expected).max())


@pytest.mark.parametrize("order", [1.1, 2.0, 3.0])
def test_likelihoods_are_those_of_eigenvalues(order, rng):
    parts, expected = [], []
    for n in (2, 3, 40, 60):  # regions of different sizes together
        t, y = rng.uniform(-1, 1, (n, 2)), rng.standard_normal((n, 2))
        beta, degree = power_of(order), degree_of(order)
        region = KernelRegion(t, beta, degree, unit=1.5)
        parts.append(region.tridiagonal(y))
        U, size, _ = np.linalg.svd(monomials(t, degree))
        free = U[:, np.count_nonzero(size > 1e-9 * size[0]) :]
        g, V = np.linalg.eigh(1.5 * free.T @ kernel(t, t, beta) @ free)
        v, z = g + PENALTIES[:, None], V.T @ free.T @ y
        squares = np.sum(np.sum(z**2, axis=1) / v, axis=1)
        expected.append([2 * np.log(v).sum(axis=1), squares, np.full(len(v), 2.0 * len(g))])
    logs, squares, counts = likelihoods(parts)
    found = np.stack([logs, squares, np.broadcast_to(counts, logs.shape)], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_kernels_are_differentiated(order, rng):
    beta, degree = power_of(order), degree_of(order)
    model = Polyharmonic(beta, degree, 2, 5).around(rng.uniform(-1, 1, (1, 5, 2)))
    t, h = rng.uniform(-1, 1, (1, 7, 2)), 1e-5
    for a in [(0, 0), (1, 0), (0, 2), (1, 1), (2, 1)]:
        for k in range(2):
            e = h * np.eye(2)[k]
            raised = tuple(np.add(a, np.eye(2, dtype=int)[k]).tolist())
            (ahead,), (behind,) = model.rows(t + e, a), model.rows(t - e, a)
            (found,) = model.rows(t, raised)
            close(found, (ahead - behind) / (2 * h), 1e-5 * max(1, np.abs(found).max()))


def test_polynomials_of_the_degree_are_exact(rng):
    x = rng.random((300, 2))
    f = lambda p: 1 + p[:, 0] - 3 * p[:, 0] * p[:, 1] + 2 * p[:, 1] ** 2  # noqa: E731
    field = ef.fit_points(x, f(x), ef.smooth(order=3))
    q = 0.05 + 0.9 * rng.random((50, 2))
    close(field(q), f(q), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "n", "d"), [(franke, 3000, 2), (bumps, 1500, 3)])
def test_errors_are_below_those_of_others(truth, n, d, rng):
    from scipy.interpolate import RBFInterpolator, griddata

    x, q = rng.random((n, d)), 0.05 + 0.9 * rng.random((500, d))
    y = truth(x)
    field = ef.fit_points(x, y)
    assert field.model.n_coefficients <= 40 * n
    error = np.sqrt(np.mean((field(q) - truth(q)) ** 2))
    others = [RBFInterpolator(x, y, 50)(q)] + ([griddata(x, y, q, "cubic")] if d == 2 else [])
    for other in others:
        assert error < np.sqrt(np.nanmean((other - truth(q)) ** 2))


@pytest.mark.thorough
def test_rough_samples_take_a_low_order_and_close_ones_a_lower(rng):
    x = rng.random((1600, 2))
    noise = ef.fit_points(x, rng.standard_normal(1600))
    assert noise.settings.order < 2
    x[1] = x[0] + 1e-5
    y = franke(x)
    y[1] += 0.1
    field = ef.fit_points(x, y)
    assert field.settings.order >= 3
    close(field(x), y, 1e-6)
    powers = {g.model.power for g in field.model.blended.groups}
    assert len(powers) > 1  # where two samples are close, and only there


@pytest.mark.thorough
def test_crowds_and_deserts_are_fitted(rng):
    x = np.concatenate([rng.random((400, 2)), 0.5 + 0.05 * rng.random((600, 2))])
    field = ef.fit_points(x, franke(x))
    close(field(x), franke(x), 1e-6)
    q = 0.1 + 0.8 * rng.random((300, 2))
    assert np.sqrt(np.mean((field(q) - franke(q)) ** 2)) < 1e-3
    few = field.crop((0.1, 0.1), (0.3, 0.3))
    inner = 0.1 + 0.2 * rng.random((20, 2))
    close(few(inner), field(inner), 1e-12)
    assert few.model.n_coefficients < field.model.n_coefficients / 2


def test_values_in_single_precision_have_weights_in_double(rng, tmp_path):
    x = rng.random((300, 2))
    field = ef.fit_points(x, franke(x).astype(np.float32))
    assert field(x).dtype == field.dtype == np.float32
    assert field.model.coefficient_dtype == np.float64
    ef.save(field, tmp_path / "a.elm")
    back = ef.load(tmp_path / "a.elm")
    assert back(x).dtype == np.float32
    assert np.array_equal(back(x), field(x))


def test_monomials_and_kernels_of_other_libraries(xp, rng):
    t, nodes = rng.uniform(-1, 1, (2, 4, 2)), rng.uniform(-1, 1, (2, 5, 2))
    for order in ORDERS:
        found = kernel(xp.asarray(t), xp.asarray(nodes), power_of(order))
        close(found, kernel(t, nodes, power_of(order)), 1e-14)
    close(monomials(xp.asarray(t), 3), monomials(t, 3), 1e-14)
