"""Planes are exact: everywhere, of every order, in every preset but the paper's."""

import numpy as np
import pytest

import elmfield as ef
from support import close, host

SHAPES = [(1,), (2,), (3,), (5,), (100,), (2, 2), (3, 50), (64, 70), (1, 9), (2, 3, 4), (26, 9, 27)]


def plane(shape, seed=0):
    """Slopes, level and values of a plane; its range is not that of its offset."""
    rng = np.random.default_rng(seed)
    slopes, level = rng.standard_normal(len(shape)), 10 * rng.standard_normal()
    slopes[[n == 1 for n in shape]] = 0  # one sample tells no slope
    return slopes, level, level + np.tensordot(slopes, np.indices(shape), axes=1)


def places(shape, rng, n=400):
    """Points everywhere, on the border and in the corners, half a sample beyond the outermost."""
    low, high = np.full(len(shape), -0.5), np.asarray(shape) - 0.5
    corners = np.stack(np.meshgrid(*([a, b] for a, b in zip(low, high)), indexing="ij"), -1)
    return np.concatenate(
        [rng.uniform(low, high, (n, len(shape))), corners.reshape(-1, len(shape))]
    )


def check(field, shape, slopes, level, size, rng):
    x = places(shape, rng)
    size = size or 1.0
    close(host(field(x)), level + x @ slopes, 1e-9 * size)
    columns = [np.linspace(-0.5, n - 0.5, 9) for n in shape]
    grid = level + sum(s * c for s, c in zip(slopes, np.meshgrid(*columns, indexing="ij")))
    close(host(field.grid(*columns)), grid, 1e-9 * size)
    steepest = np.abs(slopes).max() or 1.0
    close(host(field.gradient(x)), np.broadcast_to(slopes, x.shape), 1e-8 * steepest)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("order", ["auto", 0.9, 1.1, 1.99, 2.0, 4.0, 8.0])
def test_planes_are_exact_of_every_order(shape, order, rng):
    slopes, level, values = plane(shape)
    field = ef.fit(values, ef.smooth(order=order))
    check(field, shape, slopes, level, np.ptp(values), rng)


PRESETS = {
    "level unknown": ef.smooth(denoise=True),
    "level known": ef.smooth(denoise=3.0),
    "all modes": ef.smooth(coefficients=10_000),
    "no overlap": ef.smooth(overlap=0, order=1.1),
    "small cells": ef.smooth(cell=6, order=(1.1)),
    "dense": ef.smooth(order=1.5, network=ef.Dense(200)),
}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("shape", [(5,), (70,), (30, 40)], ids=str)
def test_planes_are_exact_in_every_preset(shape, name, rng):
    slopes, level, values = plane(shape)
    check(ef.fit(values, PRESETS[name]), shape, slopes, level, np.ptp(values), rng)


def test_five_samples_of_a_line(xp):
    field = ef.fit(xp.asarray(np.arange(5.0)))
    close(host(field(np.linspace(-0.5, 4.5, 41)[:, None])), np.linspace(-0.5, 4.5, 41), 1e-13)
    close(host(field.integral([-0.5], [4.5])), 10, 1e-13)


@pytest.mark.parametrize("missing", [0.5, 0.9, "half", "frame"])
@pytest.mark.parametrize("settings", [None, ef.smooth(order=1.5, network=ef.Dense(200))])
def test_planes_are_exact_across_gaps(missing, settings, rng):
    shape = (28, 33)
    slopes, level, values = plane(shape)
    gone = rng.random(shape) < missing if isinstance(missing, float) else np.zeros(shape, bool)
    if missing == "half":
        gone[:14] = True
    if missing == "frame":
        gone[:] = True
        gone[8:-8, 8:-8] = False
    field = ef.fit(np.where(gone, np.nan, values), settings)
    check(field, shape, slopes, level, np.ptp(values), rng)


def test_a_level_along_a_ring_stays_level(rng):
    """Around a periodic axis there is no slope; across it there is."""
    values = np.broadcast_to(3.0 * np.arange(20)[:, None], (20, 36)).copy()
    values[rng.random(values.shape) < 0.3] = np.nan
    field = ef.fit(values, periodic={1: 36.0})
    x = np.stack([rng.uniform(-0.5, 19.5, 99), rng.uniform(-40, 80, 99)], axis=1)
    close(field(x), 3 * x[:, 0], 1e-9 * 60)


@pytest.mark.parametrize("order", [1.1, 1.5])
def test_an_edge_inside_is_not_felt_beyond_a_dark_border(order):
    picture = np.zeros((80, 50))
    picture[8:-8, 8:-8] = 255.0
    outer = ef.fit(picture, ef.smooth(order=order)).grid([-0.5, 79.5], np.arange(-0.5, 49.6, 0.25))
    close(outer, 0, 0.2)
