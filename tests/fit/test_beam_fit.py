import numpy as np
import pytest

import elmfield as ef
import oracles
from elmfield._array.backend import triangle
from elmfield._array.running import memory_limit
from elmfield.local.bases import ShapedModes, plain_modes, shaped_modes
from elmfield.local.layers import Dense


@pytest.fixture
def wavy():
    x, z = np.linspace(0, 1, 45), np.linspace(0, 1, 35)
    noise = np.random.default_rng(3).standard_normal((45, 35))
    return np.sin(8 * np.pi * x**3)[:, None] * np.sin(np.pi * z) + 0.05 * noise


def host(x):
    return np.asarray(x)


def by_hand(values, part, missing=None, **network):
    """Least squares region by region on the samples its window touches, blended; at the samples."""
    grid = np.stack(np.meshgrid(*map(np.arange, values.shape), indexing="ij"), axis=-1)
    grid = grid.reshape(-1, values.ndim).astype(float)
    if any(part.overlap):
        phi = oracles.windows(grid, part.edges, part.labels, part.overlap, part.periodic)
    else:
        cell = [np.searchsorted(e, g, side="right") - 1 for e, g in zip(part.edges, grid.T)]
        phi = np.eye(part.n_regions)[part.labels[tuple(cell)]]
    found = np.zeros(len(grid))
    for i in range(part.n_regions):
        start, size = part.boxes[0][i], part.boxes[1][i]
        t = grid - (start + (size - 1) / 2)
        for k, n in enumerate(values.shape):
            if part.periodic[k]:
                t[:, k] -= np.round(t[:, k] / n) * n
        own = phi[:, i] > 0
        have = own if missing is None else own & ~missing.reshape(-1)
        t = t / (np.maximum(size - 1, 1) / 2)
        H = oracles.hidden_layer(t[own], **network)
        alpha = np.linalg.lstsq(H[have[own]], values.reshape(-1)[have], rcond=1e-10)[0]
        found[own] += phi[own, i] * (H @ alpha)
    return found.reshape(values.shape)


@pytest.mark.slow
@pytest.mark.parametrize(("overlap", "periodic"), [(0, (1,)), (2, ())])
def test_least_squares_region_by_region(xp, wavy, overlap, periodic):
    part = ef.beam(wavy, cell=8, regions=12, overlap=overlap, periodic=periodic)
    settings = ef.paper(width=30, frequencies=4)
    field = ef.fit(xp.asarray(wavy), settings, partition=part, periodic=periodic)
    expected = by_hand(wavy, part, width=30, frequencies=4)
    np.testing.assert_allclose(host(field.samples()), expected, rtol=0, atol=1e-10)
    points = np.array([[3.2, 4.7], [30.1, 20.0]])
    np.testing.assert_allclose(
        host(field(points)), host(field.grid([3.2, 30.1], [4.7, 20.0]))[[0, 1], [0, 1]], atol=1e-9
    )


@pytest.mark.thorough
def test_regions_smaller_than_the_network_are_interpolated(wavy):
    part = ef.beam(wavy, cell=6, regions=36)
    field = ef.fit(wavy, ef.paper(width=60), partition=part)
    expected = by_hand(wavy, part, width=60)
    np.testing.assert_allclose(field.samples(), expected, rtol=0, atol=1e-6)
    sizes = np.array([np.sum(part.labels == i) for i in range(36)])
    own = part.labels.repeat(np.diff(part.edges[0]), 0).repeat(np.diff(part.edges[1]), 1)
    single = np.isin(own, np.flatnonzero(sizes == 1))
    assert single.any()
    np.testing.assert_allclose(field.samples()[single], wavy[single], atol=1e-8)


def test_missing_samples_leave_the_others_alone(wavy):
    values = wavy.copy()
    values[10:14, 20:30] = np.nan
    values[40, :] = np.nan
    part = ef.beam(values, cell=8, regions=12)
    field = ef.fit(values, ef.paper(width=30, frequencies=4), partition=part)
    gone = np.isnan(values)
    expected = by_hand(np.nan_to_num(values), part, gone, width=30, frequencies=4)
    np.testing.assert_allclose(field.samples(), expected, rtol=0, atol=1e-8)


def test_channels_are_fitted_each_for_itself(wavy):
    stack = np.stack([wavy, -2 * wavy, wavy[::-1]], axis=-1)
    part = ef.beam(stack, cell=8, regions=12, channel_axis=-1)
    field = ef.fit(stack, ef.paper(width=30), partition=part, channel_axis=-1)
    for c in range(3):
        alone = ef.fit(stack[..., c], ef.paper(width=30), partition=part)
        np.testing.assert_allclose(field.samples()[..., c], alone.samples(), atol=1e-10)


def test_single_precision_in_single_precision_out(wavy):
    part = ef.beam(wavy, cell=8, regions=12)
    field = ef.fit(wavy.astype(np.float32), ef.paper(width=30), partition=part)
    exact = ef.fit(wavy, ef.paper(width=30), partition=part)
    assert field.dtype == np.float32
    np.testing.assert_allclose(field.samples(), exact.samples(), atol=2e-6)


def test_smooth_modes_meet_every_sample_of_any_shape(xp, wavy):
    for shapes in ("any", "boxes"):
        part = ef.beam(wavy, cell=8, regions=12, overlap=2, shapes=shapes)
        field = ef.fit(xp.asarray(wavy), partition=part)
        np.testing.assert_allclose(host(field.samples()), wavy, atol=1e-10)


@pytest.mark.slow
def test_three_dimensions(rng):
    x = np.linspace(0, 1, 12)
    values = np.sin(9 * x**2)[:, None, None] * np.cos(3 * x)[:, None] * (1 + x)
    part = ef.beam(values, cell=4, regions=9)
    field = ef.fit(values, ef.paper(width=60), partition=part)
    np.testing.assert_allclose(field.samples(), by_hand(values, part, width=60), atol=1e-9)
    assert float(field.model.residual.sum()) == pytest.approx(
        float(np.sum((field.samples() - values) ** 2)), rel=1e-6
    )


def test_shapes_that_recur_share_their_factorisation():
    values = np.zeros((32, 32))
    labels = np.array([[0, 0, 1, 1], [0, 2, 1, 3], [4, 4, 5, 5], [4, 6, 5, 7]])
    edges = (np.arange(0, 33, 8),) * 2
    part = ef.Partition.of((32, 32), edges, labels)
    shapes = {(box, inside is None): list(regions) for box, inside, regions in part.shapes}
    assert shapes == {((16, 16), False): [0, 1, 4, 5], ((8, 8), True): [2, 3, 6, 7]}
    field = ef.fit(values, ef.paper(width=20), partition=part)
    assert len(field.model.blended.groups) == 2


def test_regular_partitions_are_fitted_as_before(wavy):
    settings = ef.paper(width=30)
    field = ef.fit(wavy, settings, partition=ef.Partition.regular(wavy.shape, 8))
    assert np.array_equal(field.samples(), ef.fit(wavy, ef.paper(cell=8, width=30)).samples())
    with pytest.warns(UserWarning, match="nothing was merged: with regions=30"):
        beam = ef.beam(wavy, cell=8, regions=30)
    assert beam.is_regular
    assert np.array_equal(ef.fit(wavy, settings, partition=beam).samples(), field.samples())


def test_the_lean_modes_agree_with_the_plain_ones(xp, rng):
    network, box = Dense(24), (9, 8)
    inside = rng.random(box) < 0.7
    Y = xp.asarray(rng.standard_normal((3, int(inside.sum()), 2)))
    lean, plain = shaped_modes(network, box, inside, Y), plain_modes(network, box, Y, inside)
    assert isinstance(lean, ShapedModes)
    c = lean.project(Y)
    np.testing.assert_allclose(host(c), host(plain.project(Y)), atol=1e-10)
    np.testing.assert_allclose(host(lean.weights(c)), host(plain.weights(c)), rtol=1e-6)
    np.testing.assert_allclose(host(lean.values(c)), host(plain.values(c)), atol=1e-9)
    # Coefficients that were not found here: R has to be made again.
    mask = xp.asarray((np.arange(24) < 10).astype(float)[None, :, None])
    np.testing.assert_allclose(
        host(lean.weights(c * mask)), host(plain.weights(c * mask)), rtol=1e-6, atol=1e-9
    )
    assert float(np.abs(host(lean.weights(c * mask))[:, 10:]).max()) < 1e-9


def test_blocks_of_samples_make_the_same_triangle(rng):
    network, box = Dense(16), (30, 20)
    Y = rng.standard_normal((2, 600, 1))
    whole = shaped_modes(network, box, None, Y).project(Y)
    with memory_limit(1 << 16):  # 512 samples at a time
        parts = shaped_modes(network, box, None, Y).project(Y)
    np.testing.assert_allclose(parts, whole, atol=1e-11)


def test_a_layer_of_dependent_neurons_falls_back_on_least_norm(rng):
    network = Dense(40, 0, activation="relu")  # piecewise linear in one coordinate: few directions
    inside = np.ones(60, bool)
    Y = rng.standard_normal((1, 60, 1))
    modes = shaped_modes(network, (60,), inside, Y)
    t = np.linspace(-1, 1, 60)[:, None]
    alpha = np.linalg.lstsq(network(t), Y[0], rcond=1e-10)[0]
    with pytest.warns(ef.RankWarning, match="of 40 hidden neurons are independent on the 60"):
        c = modes.project(Y)
    np.testing.assert_allclose(modes.values(c)[0], network(t) @ alpha, atol=1e-9)
    left = np.sum((network(t) @ alpha - Y[0]) ** 2)
    assert np.sum(Y**2) - np.sum(c**2) == pytest.approx(left)
    again = shaped_modes(network, (60,), inside, Y)  # remembers nothing
    np.testing.assert_allclose(again.values(c)[0], network(t) @ alpha, atol=1e-9)


@pytest.mark.parametrize("size", [(900, 300), (310, 300), (40, 20)])
def test_triangles(xp, size, rng):
    X = rng.standard_normal(size) * np.logspace(0, -6, size[1])
    R = host(triangle(xp.asarray(X)))
    assert R.shape == (size[1], size[1])
    assert np.abs(np.tril(R, -1)).max() == 0
    expected = np.linalg.qr(X, mode="r")
    sign = np.sign(np.diag(R)) * np.sign(np.diag(expected))
    scale = np.linalg.norm(X, axis=0)
    np.testing.assert_allclose(R * sign[:, None] / scale, expected / scale, atol=1e-12)
