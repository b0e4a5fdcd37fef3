import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from skimage.data import camera

import elmfield as ef
import oracles
from elmfield.local.bases import axis_modes, plain_modes, product_modes, smooth_dense_modes
from support import EPS, close, host, on_samples


@given(n=st.integers(1, 40), order=st.floats(0.3, 6))
def test_axis_modes_are_orthonormal_and_run_from_smooth_to_rough(n, order):
    modes = axis_modes(n, order)
    r = modes.basis.shape[1]
    assert 1 <= r <= n
    close(modes.basis.T @ modes.basis, np.eye(r), 32 * n * EPS)
    assert np.all(np.diff(modes.smoothness) <= 0)
    assert modes.smoothness[-1] > 0
    assert np.all(modes.basis[0] >= 0)


@pytest.mark.parametrize("order", [0.6, 1.1, 2.0, 3.0])
def test_a_mode_is_the_function_of_least_energy_through_its_samples(order):
    n = 9
    modes = axis_modes(n, order)
    u = np.linspace(-4.5, 4.5, 31)
    for j in range(n):
        expected = oracles.product_model(modes.basis[:, j], order, u[:, None])
        # The kernel's condition number, at most 1e12 by the choice of ε, in both computations.
        condition = modes.smoothness[0] / modes.smoothness[-1]
        close(modes(u)[:, j], expected, 100 * EPS * max(condition, 1e4))


def test_product_modes_are_the_separable_solution(xp, rng):
    box, order = (5, 4, 3), (1.1, 0.8, 0.6)
    y = rng.standard_normal(box)
    modes = product_modes(box, order)
    c = modes.project(xp.asarray(y.reshape(1, -1, 1)))
    u = rng.uniform(-2, 2, (7, 3)) * [1, 0.7, 0.5]
    condition = modes.smoothness.max() / modes.smoothness.min()  # of the oracle's kernel
    values = np.ones((7, 1))
    for row in modes.rows(xp.asarray(u), (0, 0, 0)):
        values = (values[:, :, None] * host(row)[:, None, :]).reshape(7, -1)
    close(values @ host(c)[0, :, 0], oracles.product_model(y, order, u), 10 * EPS * condition)
    # Parseval, all modes kept.
    close(np.sum(host(c) ** 2), np.sum(y**2), 1e-12)
    assert len(modes.smoothness) == modes.n_modes == y.size


def _features(modes) -> np.ndarray:
    """The hidden features on the samples."""
    return modes.rows(modes.positions, (0,) * len(modes.box))[0]


@pytest.mark.parametrize("activation", ["relu", "sin", "cos", "tanh", "gaussian"])
def test_plain_modes_give_the_paper_s_least_squares(xp, activation, rng):
    y = rng.standard_normal((8, 8))
    settings = {"width": 12, "activation": activation, "frequencies": 3, "seed": 2}
    network = ef.Dense(12, 3, activation=activation, seed=2)
    modes = plain_modes(network, (8, 8), xp.asarray(y))
    c = modes.project(xp.asarray(y.reshape(1, -1, 1)))
    _, alpha = oracles.paper_region(y, **settings)
    found = host(modes.weights(c))[0, :, 0]
    condition = np.linalg.cond(_features(modes))
    close(found, alpha, 1e3 * EPS * condition * np.abs(alpha).max())
    printed = oracles.normal_equations(y, **settings)
    close(found, printed, 1e3 * EPS * condition**2 * np.abs(alpha).max())


def test_plain_coefficients_are_nested(rng):
    y = rng.standard_normal((1, 64, 1))
    wide = plain_modes(ef.Dense(30), (8, 8), y).project(y)
    narrow = plain_modes(ef.Dense(10), (8, 8), y).project(y)
    condition = np.linalg.cond(_features(plain_modes(ef.Dense(30), (8, 8), y)))
    close(wide[:, :10], narrow, 1e3 * EPS * condition)


def test_the_residual_is_known_without_reconstructing(rng):
    y = rng.standard_normal((1, 64, 1))
    modes = plain_modes(ef.Dense(20), (8, 8), y)
    c = modes.project(y)
    fitted = _features(modes) @ modes.weights(c)[0]
    close(np.sum((y[0] - fitted) ** 2), np.sum(y**2) - np.sum(c**2), 1e-10)


def test_a_rank_deficient_layer_is_fitted_and_reported(xp, rng):
    # Five tanh neurons of one raw coordinate... on three samples only three can be independent.
    y = xp.asarray(rng.standard_normal((3, 3)))
    network = ef.Dense(200, 0, activation="relu")
    line = ef.Dense(8, 0, activation="relu", seed=1)
    modes = plain_modes(network, (3, 3), y)
    assert modes.n_modes == 9
    with pytest.warns(ef.RankWarning, match=r"only \d+ of 8 hidden neurons are independent on the"):
        few = plain_modes(line, (40,), y)
    assert few.n_modes < 8
    close(host(few.columns).T @ host(few.columns), np.eye(few.n_modes), 1e-12)


def test_a_wide_layer_reproduces_its_samples_with_the_least_weights(rng):
    y = rng.standard_normal((5, 5))
    settings = {"width": 60, "frequencies": 4}
    field = ef.fit(y, ef.paper(cell=5, **settings))
    close(on_samples(field), y, 1e-9)
    _, alpha = oracles.paper_region(y, **settings)
    close(field.weights(0), alpha, 1e-9 * np.abs(alpha).max() * 100)


@pytest.mark.slow
def test_smooth_dense_modes_are_right_between_the_samples_where_plain_ones_are_not():
    picture = camera()[200:264, 200:264].astype(float)
    network = ef.Dense(1024)
    field = ef.fit(picture, ef.smooth(network=network, order=1.5))
    assert ef.psnr(picture, on_samples(field)) > 60
    held = [
        ef.heldout_score(picture, settings)
        for settings in (ef.smooth(network=network, order=1.5), ef.paper(cell=16, width=256))
    ]
    assert held[0] > held[1] + 6


def test_smooth_dense_modes_are_orthonormal_on_every_library(xp, rng):
    like = xp.asarray(np.zeros(1))
    modes = smooth_dense_modes(ef.Dense(60, 4, activation="sin"), (5, 4), 1.5, like)
    U = host(modes.columns)
    close(U.T @ U, np.eye(modes.n_modes), 1e-12)
    # On the samples, features times mixing is the basis again.
    close(_features(modes) @ host(modes.mixing), U, 1e-6)


@pytest.mark.parametrize("order", [0, -1, 17, float("nan"), "auto?", True, None, (1.0, 0)])
def test_bad_orders_say_what_is_wrong(order):
    with pytest.raises(ValueError, match="`order` must be"):
        ef.smooth(order=order)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.asarray. unspecified requires_grad")  # once, by torch
@pytest.mark.parametrize("n", [7, 20_000])  # some points, and so many that they are sorted
@pytest.mark.parametrize("name", ["default", "target", "scattered"])
def test_autograd_finds_the_gradient(n, name, rng):
    torch = pytest.importorskip("torch")
    values = torch.asarray(rng.standard_normal((40, 50)).cumsum(0).cumsum(1))
    settings = ef.smooth(psnr=40) if name == "target" else None
    field = ef.fit(values, settings)
    if name == "scattered":
        places = rng.random((60, 2)) * [39, 49]
        field = ef.fit_points(places, torch.asarray(rng.standard_normal(60)))
    points = torch.asarray(rng.uniform(2, [36, 46], (n, 2)))
    expected = field.gradient(points)
    plain = field(points)
    points.requires_grad_()
    found = field(points)
    found.sum().backward()
    size = float(expected.abs().max())
    close(points.grad, expected.numpy(), 1e-9 * size)
    close(found.detach(), plain.numpy(), 1e-9 * float(plain.abs().max()))


def test_a_dense_layer_takes_one_order():
    with pytest.raises(ValueError, match="one number with a dense `network`; got one per axis"):
        ef.smooth(order=(1, 2), network=ef.Dense(8))
    with pytest.raises(ValueError, match="`order` must be one number or one per axis, 1; got 2"):
        ef.fit(np.zeros(5), ef.smooth(order=(1, 2)))
