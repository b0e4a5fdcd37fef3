"""Gradients and Hessians: of known functions, of the field itself, in the units of its axes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import map_coordinates

import elmfield as ef
import oracles
from support import SEEDS, SMOOTH_DENSE, close, hills, inside, on_grid


def test_derivatives_are_those_of_a_known_function(whole, rng):
    x = 15 + rng.random((300, 2)) * [19, 14]
    f, gradient, hessian = hills(x)
    # Order 3 is a quintic spline: (0.2 / π)⁶ = 7e-8 between the samples; a derivative costs π.
    close(whole(x), f, 1e-7)
    close(whole.gradient(x), gradient, 4e-7)
    close(whole.hessian(x), hessian, 2e-6)
    close(whole.laplacian(x), np.trace(hessian, axis1=-2, axis2=-1), 4e-6)


@pytest.mark.parametrize("order", [1.1, 1.5, 2, 3, 4])
def test_derivatives_are_as_good_as_the_fit_over_many_regions(order, rng):
    field = ef.fit(on_grid(lambda x: hills(x)[0], (64, 64)), ef.smooth(order=order))
    x = 5 + rng.random((2000, 2)) * 53
    f, gradient, hessian = hills(x)
    error = np.abs(field(x) - f).max()
    assert error < 3e-3
    # Errors live between samples and on ramps four samples wide: frequencies up to about 2π.
    assert np.abs(field.gradient(x) - gradient).max() < 2 * np.pi * error
    assert np.abs(field.hessian(x) - hessian).max() < (2 * np.pi) ** 2 * error


def test_smooth_functions_are_met_as_by_a_cubic_spline(rng):
    values = on_grid(lambda x: hills(x)[0], (64, 64))
    x = 14 + rng.random((2000, 2)) * 36
    spline = np.abs(map_coordinates(values, x.T, order=3, mode="mirror") - hills(x)[0]).max()
    field = ef.fit(values, ef.smooth(order=2))
    assert np.abs(field(x) - hills(x)[0]).max() < 4 * spline


@pytest.mark.parametrize(
    ("shape", "settings", "channels"),
    [
        ((40,), ef.smooth(), 1),
        ((23, 19), ef.smooth(order=2), 2),
        ((9, 10, 8), ef.smooth(cell=5, overlap=2), 1),
        ((5, 4, 5, 3), ef.smooth(cell=3, overlap=1), 1),
        ((20, 22), ef.paper(cell=10, width=30, overlap=3, **SMOOTH_DENSE), 2),
        ((16, 14), ef.smooth(network=ef.Dense(150, 4, 0.5, "sin"), order=2), 1),
    ],
    ids=str,
)
def test_derivatives_are_those_of_the_field_itself(shape, settings, channels, rng):
    field = ef.fit(rng.standard_normal((*shape, channels)), settings, channel_axis=-1)
    x = inside(rng, shape, 40) * 0.95
    for channel in range(channels):
        value = lambda p, c=channel: field(p)[:, c]  # noqa: E731
        gradient, hessian = (g(x)[:, channel] for g in (field.gradient, field.hessian))
        # Frequencies up to 2π a sample: truncation h²/6 (2π)³ and h²/12 (2π)⁴ of the amplitude.
        size = max(1, np.abs(gradient).max())
        close(oracles.difference_gradient(value, x, 1e-4), gradient, 1e-6 * size)
        close(oracles.difference_hessian(value, x, 1e-3), hessian, 1e-3 * size)
        close(hessian, np.swapaxes(hessian, -1, -2), 0)
        close(field.laplacian(x)[:, channel], np.trace(hessian, 0, -2, -1), 1e-9 * size)


def test_the_gradient_of_relu_is_that_of_its_linear_pieces(rng):
    field = ef.fit(rng.standard_normal((12, 12)), ef.paper(cell=12, width=12, seed=1))
    x = inside(rng, (12, 12), 200)
    found, steps = field.gradient(x), oracles.difference_gradient(field, x, 1e-6)
    agree = np.abs(found - steps).max(axis=1) < 1e-6 * np.abs(found).max()
    assert agree.mean() > 0.99  # a point within 1e-6 of a kink would be the exception


@pytest.mark.slow
@given(scale=st.floats(1e-3, 1e3), origin=st.floats(-1e3, 1e3), seed=SEEDS)
def test_derivatives_carry_the_unit_of_their_axis(scale, origin, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((20, 6))
    plain = ef.fit(values)
    physical = ef.fit(values, coords=[origin + scale * np.arange(20), None])
    x = inside(rng, (20, 6), 10) * 0.99
    y = x * [scale, 1] + [origin, 0]
    unit = np.array([scale, 1])
    slack = 1e-9 * (1 + abs(origin) / scale * 1e-4)
    close(physical(y), plain(x), slack)
    close(physical.gradient(y) * unit, plain.gradient(x), 100 * slack)
    close(physical.hessian(y) * unit[:, None] * unit, plain.hessian(x), 1e4 * slack)
    close(
        physical.laplacian(y),
        (plain.hessian(x) * np.eye(2) / unit**2).sum((1, 2)),
        1e4 * slack * max(1, scale**-2),
    )


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [0, 2])
@pytest.mark.parametrize("kind", ["even", "periodic", "uneven", "complex", "volume", "dense"])
def test_on_a_grid_derivatives_are_those_at_its_points(rng, kind, overlap):
    """Axis by axis on grids, point by point elsewhere: the same numbers, seams and ends too."""
    shape = (9, 11, 8) if kind == "volume" else (37, 23)
    values = rng.standard_normal(shape)
    uneven = [np.cumsum(0.2 + rng.random(shape[0])), *[None] * (len(shape) - 1)]
    settings = ef.smooth(cell=7, overlap=overlap, order=3)
    if kind == "dense":
        settings = ef.paper(cell=8, width=40, activation="sin")
    field = ef.fit(
        values + 1j * values[::-1] if kind == "complex" else values,
        settings,
        coords=uneven if kind == "uneven" else None,
        periodic=(1,) if kind == "periodic" else (),
    )
    ends = zip(field.domain.axes, field.domain.low, field.domain.high)
    at = [np.sort(a.from_index(np.linspace(low, high, 17 + a.size))) for a, low, high in ends]
    points = np.stack(np.meshgrid(*at, indexing="ij"), axis=-1)
    g = field.gradient(points, outside="nearest")
    close(field.grid(*at, quantity="gradient", outside="nearest"), g, 1e-11 * np.abs(g).max())
    steep = np.sqrt(np.sum(np.abs(g) ** 2, axis=-1))
    found = field.grid(*at, quantity="gradient_magnitude", outside="nearest")
    close(found, steep, 1e-11 * steep.max())
    assert found.dtype == np.float64
    for quantity in ("hessian", "laplacian"):
        wanted = getattr(field, quantity)(points, outside="nearest")
        found = field.grid(*at, quantity=quantity, outside="nearest")
        close(found, wanted, 1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_components_come_last_and_channels_where_they_were(rng, xp, axis):
    values = np.stack([rng.standard_normal((14, 12)) for _ in range(3)], axis=axis)
    field = ef.fit(xp.asarray(values), channel_axis=axis)
    at = [np.array([1.5, 3.0, 7.25, 30.0]), np.array([0.5, 2.0])]
    points = np.stack(np.meshgrid(*at, indexing="ij"), axis=-1)
    for quantity, more in (("gradient", (2,)), ("hessian", (2, 2))):
        found = field.grid(*at, quantity=quantity, outside="nan")
        wanted = getattr(field, quantity)(xp.asarray(points), outside="nan")
        wanted = np.moveaxis(np.asarray(wanted), 2, axis)
        assert tuple(found.shape) == wanted.shape
        assert tuple(found.shape[3:]) == more
        close(found, wanted, 1e-10 * np.nanmax(np.abs(wanted)))
        assert field.grid([], [1.0], quantity=quantity).shape[3:] == more
        halved = field.resize((7, 6), quantity=quantity, antialias=False)
        assert tuple(halved.shape[3:]) == more


def test_a_hessian_on_a_grid_is_symmetric_and_exact_of_a_paraboloid():
    y, x = np.mgrid[0:30, 0:26].astype(float)
    field = ef.fit(0.5 * y**2 + 2 * x * y - x**2, ef.smooth(order=3))
    H = field.grid(np.arange(8, 20.0, 0.3), np.arange(8, 18.0, 0.7), quantity="hessian")
    assert np.array_equal(H, np.swapaxes(H, -1, -2))
    close(H, np.broadcast_to([[1.0, 2.0], [2.0, -2.0]], H.shape), 0.02)


def test_on_uneven_coordinates_derivatives_are_those_of_the_values(rng):
    coords = {"y": np.cumsum(0.5 + rng.random(24)), "x": 2.0 * np.arange(21)}
    field = ef.fit(
        rng.standard_normal((24, 21)), ef.smooth(order=2.5), dims=("y", "x"), coords=coords
    )
    h = 1e-4
    at = np.stack([2 + rng.random(40) * (coords["y"][-1] - 4), 2 + rng.random(40) * 36], axis=-1)
    for one, other in ((field, field.gradient), (field.gradient, field.hessian)):
        steps = [h * e for e in np.eye(2)]
        expected = np.stack([(one(at + s) - one(at - s)) / (2 * h) for s in steps], axis=-1)
        # Off by h²/6 of a third derivative, and an axis's curve bends at its samples.
        close(other(at), expected, 1e-3 * np.abs(expected).max())
    close(field.laplacian(at), np.trace(field.hessian(at), axis1=-2, axis2=-1), 1e-9)
