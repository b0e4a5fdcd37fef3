"""`fit_points` with `paper()`: local least squares on scattered samples."""

import numpy as np
import pytest

import elmfield as ef
from support import close

NETWORK = {"frequencies": 3, "activation": "cos", "scale": 0.5}
BOUNDS = ((0.0, 0.0), (1.0, 1.0))


def waves(x):
    return np.sin(6 * x[:, 0]) * np.cos(5 * x[:, 1])


def test_one_region_is_least_squares(rng):
    x = rng.random((200, 2))
    y = rng.standard_normal(200)
    settings = ef.paper(cell=20, width=25, overlap=0, **NETWORK)
    field = ef.fit_points(x, y, settings, bounds=BOUNDS, spacing=0.05)
    assert field.partition.n_regions == 1
    H = settings.network(2 * x - 1)
    alpha = np.linalg.lstsq(H, y, rcond=None)[0]
    close(field.weights(0), alpha, 1e-8 * np.abs(alpha).max())
    close(field(x), H @ alpha, 1e-9)


@pytest.mark.parametrize("layers", ["shared", "own"])
def test_samples_of_a_grid_are_fitted_as_a_grid(layers, rng):
    values = rng.standard_normal((16, 24))
    grid = np.stack(np.indices(values.shape), -1).reshape(-1, 2).astype(float)
    settings = ef.paper(cell=8, width=20, overlap=0, layers=layers, **NETWORK)
    bounds = ((-0.5, -0.5), (15.5, 23.5))
    field = ef.fit_points(grid, values.reshape(-1), settings, bounds=bounds, spacing=1)
    for i, (a, b) in enumerate(np.ndindex(2, 3)):  # edges at ±1 here, outermost samples there
        cell = (grid >= (8 * a, 8 * b)).all(1) & (grid < (8 * a + 8, 8 * b + 8)).all(1)
        t = (grid[cell] - (8 * a + 3.5, 8 * b + 3.5)) / 4
        layer = settings.network.of_region(i) if layers == "own" else settings.network
        alpha = np.linalg.lstsq(layer(t), values.reshape(-1)[cell], rcond=None)[0]
        close(field.weights(i), alpha, 1e-6 * np.abs(alpha).max())


def test_a_smooth_function_is_found_on_a_mesh_and_on_beam(rng):
    x = rng.random((4000, 2))
    grid = (np.stack(np.indices((64, 64)), -1).reshape(-1, 2) + 0.5) / 64
    part = ef.beam(waves(grid).reshape(64, 64), cell=8, regions=9)
    at = 0.02 + 0.96 * rng.random((300, 2))
    mesh = ef.fit_points(x, waves(x), ef.paper(cell=21, width=60, **NETWORK), bounds=BOUNDS)
    merged = ef.fit_points(
        x, waves(x), ef.paper(width=60, **NETWORK), bounds=BOUNDS, partition=part
    )
    for field in (mesh, merged):
        assert field.partition.overlap == (0.5, 0.5)
        assert np.abs(field(at) - waves(at)).max() < 2e-3
    assert merged.partition.n_regions == 9


def test_a_periodic_axis_joins(rng):
    x = rng.random((3000, 2))
    y = np.sin(2 * np.pi * x[:, 0]) + x[:, 1]
    settings = ef.paper(cell=14, width=40, **NETWORK)
    field = ef.fit_points(x, y, settings, bounds=BOUNDS, periodic=[0])
    ends = np.stack([np.array([1e-9, 1 - 1e-9]), np.array([0.4, 0.4])], -1)
    close(np.ptp(field(ends)), 0.0, 1e-6)


def test_too_few_samples_are_named_and_a_ridge_helps(rng):
    x = rng.random((400, 2))
    few = ef.paper(cell=5, width=40, **NETWORK)
    with pytest.raises(ValueError, match=r"14 of 16 regions have fewer, region 0 has 38 for 40"):
        ef.fit_points(x, waves(x), few, bounds=BOUNDS)
    field = ef.fit_points(
        x, waves(x), ef.paper(cell=5, width=40, ridge=1e-3, **NETWORK), bounds=BOUNDS
    )
    assert np.abs(field(x) - waves(x)).max() < 0.05
    with pytest.raises(ValueError, match="region 3 has 0 for 40"):
        ef.fit_points(
            x[(x < 0.5).any(axis=1)] * 1.0,
            np.ones(int((x < 0.5).any(axis=1).sum())),
            ef.paper(cell=10, width=40, ridge=1e-3, overlap=0, **NETWORK),
            bounds=BOUNDS,
            spacing=0.05,
        )


def test_channels_complex_numbers_and_gradients(rng):
    x = rng.random((500, 2))
    settings = ef.paper(cell=12, width=30, layers="own", **NETWORK)
    both = np.stack([waves(x), x[:, 0]], -1)
    field = ef.fit_points(x, both, settings, bounds=BOUNDS)
    alone = ef.fit_points(x, x[:, 0], settings, bounds=BOUNDS)
    close(field(x)[:, 1], alone(x), 1e-10)
    turned = ef.fit_points(x, both[:, 0] + 1j * both[:, 1], settings, bounds=BOUNDS)
    close(turned(x).imag, alone(x), 1e-10)
    torch = pytest.importorskip("torch")
    y = torch.as_tensor(waves(x)).requires_grad_()
    ef.fit_points(torch.as_tensor(x), y, settings, bounds=BOUNDS)(
        torch.as_tensor(x[:9])
    ).sum().backward()
    assert float(y.grad.abs().sum()) > 0
