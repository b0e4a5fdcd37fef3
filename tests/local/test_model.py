"""The contracts of axis layers and local models, over every implementation; two are not ours."""

from dataclasses import dataclass

import numpy as np
import pytest

import elmfield as ef
from elmfield.local.bases import (
    axis_modes,
    plain_modes,
    product_modes,
    shaped_modes,
    smooth_dense_modes,
)
from elmfield.local.layers import Cosines, Dense, Pieces
from support import close, inside, on_grid, on_samples, wave

CORNER = np.ones((6, 5), bool)
CORNER[3:, 2:] = False


def bases():
    few, many = Dense(width=9, frequencies=3), Dense(width=120, activation="cos")
    like = np.empty(0)
    return {
        **{name: product_modes((6, 5), (1.1, 2.0), make) for name, make in LAYERS.items()},
        "plain": plain_modes(few, (6, 5), like),
        "smooth": smooth_dense_modes(many, (6, 5), 1.5, like),
        "part of a box": plain_modes(Dense(width=40), (6, 5), like, CORNER),
        "shaped": shaped_modes(few, (6, 5), CORNER, like),
        "constant": Constant((6, 5)),
    }


@dataclass(frozen=True)
class BSplines:
    """One axis of cubic B-splines with a knot at every sample: another hidden layer, in a page."""

    n: int

    @property
    def width(self):
        return self.n + 4

    def prices(self, order):
        return np.ones(self.width)

    def __call__(self, u, order=0):
        knots = np.arange(self.width) - (self.width - 1) / 2  # where each has its peak
        x = np.asarray(u, float)[..., None] - knots
        steps = np.arange(5) - 2.0
        signs = np.array([1, -4, 6, -4, 1]) / np.prod(np.arange(1, 4 - order))
        ramp = np.maximum(x[..., None] - steps, 0) ** (3 - order) if order < 3 else None
        return ramp @ signs

    def mixed(self, u, mixing, order=0):
        return self(u, order) @ mixing

    def pieces(self, mixing, n):
        # Knots lie at the intervals' ends: both are whole samples from (n + 1) / 2.
        return Pieces.through(lambda u: self(u) @ mixing, n, 4)


@dataclass(frozen=True)
class WithLines(BSplines):
    """The same, with lines that cost nothing: 1 and u after the others, at a price of 0."""

    @property
    def width(self):
        return self.n + 6

    def prices(self, order):
        return np.append(np.ones(self.n + 4), [0.0, 0.0])

    def __call__(self, u, order=0):
        u = np.asarray(u, float)
        lines = np.stack([np.ones_like(u) * (order == 0), u if order == 0 else np.ones_like(u)], -1)
        splines = BSplines(self.n)(u, order)
        return np.concatenate([splines, lines * (order < 2)], axis=-1)


@dataclass(frozen=True)
class Constant:
    """A region's mean: the smallest local model there is."""

    box: tuple

    n_modes = rank = 1
    inside = axes = None

    @property
    def basis(self):
        return self

    @property
    def n_samples(self):
        return int(np.prod(self.box))

    @property
    def radius(self):
        return np.ones(len(self.box))

    @property
    def ranking(self):
        return np.arange(1)

    def project(self, Y):
        return Y.sum(axis=1, keepdims=True) / np.sqrt(self.n_samples)

    def values(self, c):
        return np.repeat(c, self.n_samples, axis=1) / np.sqrt(self.n_samples)

    def complete(self, Y, present):
        return Y

    def rows(self, t, order):
        return [np.full((*t.shape[:-1], 1), float(not any(order)))]

    def expand(self, c):
        return c / np.sqrt(self.n_samples)

    weights = expand


def paid(n):
    """The cosines of files before version 3, with a price on lines."""
    return Cosines.lattice(n, free=0)


LAYERS = {
    "cosines": Cosines.lattice,
    "cosines, no free lines": paid,
    "splines": BSplines,
    "splines, free lines": WithLines,
}
"""Every axis layer, made for a box of so many samples; a new one is a line here."""

BASES = bases()


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("n", [1, 2, 7, 12])
class TestEveryAxisLayer:
    def test_features_have_prices(self, make, n):
        layer = make(n)
        assert layer(np.zeros((3, 4))).shape == (3, 4, layer.width)
        for order in (0.5, 1.1, 3):
            assert layer.prices(order).shape == (layer.width,)
            assert layer.prices(order).min() >= 0

    def test_what_is_free_is_a_line(self, make, n, rng):
        layer, u = make(n), rng.uniform(-n / 2, n / 2, 9)
        free = layer(u)[:, layer.prices(1.1) == 0]
        line = np.stack([np.ones(9), u], axis=1)
        close(line @ np.linalg.lstsq(line, free)[0], free, 1e-12 * n)
        assert axis_modes(n, 1.1, make).n_free == (min(n, 2) if free.shape[1] else 0)

    def test_backwards_it_is_the_same_layer(self, make, n, rng):
        layer = make(n)
        u, v = rng.uniform(-n / 2, n / 2, (2, 9))
        E = layer.prices(1.1)
        own = E > 0
        kernel = [(layer(s * u)[:, own] / E[own]) @ layer(s * v)[:, own].T for s in (1, -1)]
        close(kernel[1], kernel[0], 1e-12 * np.abs(kernel[0]).max(initial=0))

    def test_derivatives_are_those_of_the_features(self, make, n, rng):
        layer, h = make(n), 1e-5
        u = rng.uniform(-n / 2, n / 2, 40)
        for order in (1, 2):
            steps = (layer(u + h, order - 1) - layer(u - h, order - 1)) / (2 * h)
            # Frequencies up to 2π, or a jump of 4 in the third derivative: h² (2π)⁴ and 4 h.
            close(layer(u, order), steps, 1e-4)

    def test_mixtures_are_products_with_the_features(self, make, n, rng):
        layer = make(n)
        mixing = rng.standard_normal((layer.width, 3))
        u = rng.uniform(-n / 2, n / 2, (5, 8))
        for order in range(3):
            expected = layer(u, order) @ mixing
            close(layer.mixed(u, mixing, order), expected, 1e-12 * (1 + np.abs(expected).max()))

    def test_pieces_are_the_same_functions(self, make, n, rng):
        layer = make(n)
        mixing = rng.standard_normal((layer.width, 3))
        u = rng.uniform(-(n + 1) / 2, (n + 1) / 2, 200)
        expected = layer.mixed(u, mixing)
        close(layer.pieces(mixing, n + 1)(u), expected, 1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES)
class TestEveryBasis:
    def test_is_a_basis_of_its_box(self, basis):
        assert basis.basis is basis
        assert basis.box == (6, 5)
        assert basis.n_samples == (30 if basis.inside is None else np.count_nonzero(basis.inside))
        assert 1 <= basis.n_modes <= max(basis.n_samples, basis.n_modes)
        assert basis.radius.shape == (2,)
        assert sorted(basis.ranking) == list(range(basis.n_modes))

    def test_projecting_its_own_values_gives_the_coefficients_back(self, basis, rng):
        c = basis.project(rng.standard_normal((3, basis.n_samples, 2)))
        assert c.shape == (3, basis.n_modes, 2)
        close(basis.project(basis.values(c)), c, 1e-7 * np.abs(c).max())
        # Orthonormal: squares at the samples are squares of coefficients.
        close(np.sum(basis.values(c) ** 2, axis=1), np.sum(c**2, axis=1), 1e-6 * np.sum(c**2))

    def test_rows_and_factors_are_the_values_at_the_samples(self, basis, rng):
        c = basis.project(rng.standard_normal((1, basis.n_samples, 1)))
        u = np.stack(np.indices((6, 5)), -1).reshape(-1, 2) - [2.5, 2.0]
        u = u if basis.inside is None else u[basis.inside.reshape(-1)]
        X = np.asarray(basis.expand(c))[0, ..., 0]
        rows = basis.rows(u / basis.radius, (0, 0))
        letters = "abc"[: len(rows)]
        found = np.einsum(",".join("n" + k for k in letters) + f",{letters}->n", *rows, X)
        close(found, basis.values(c)[0, :, 0], 1e-7 * np.abs(c).max())

    def test_derivatives_are_those_of_the_rows(self, basis, rng):
        t = rng.uniform(-0.4, 0.4, (20, 2)) * 2 / basis.radius.max()
        h = 1e-6
        for k in range(2):
            order = tuple(int(j == k) for j in range(2))
            ahead, behind = (basis.rows(t + s * h * np.eye(2)[k], (0, 0)) for s in (1, -1))
            for row, a, b in zip(basis.rows(t, order), ahead, behind, strict=True):
                if len(ahead) == 1 or not np.array_equal(a, b):
                    wrong = np.abs(row - (a - b) / (2 * h)) > 1e-4 * (1 + np.abs(row))
                    assert wrong.mean() < 0.01  # ReLU has kinks

    def test_axes_are_its_functions_axis_by_axis(self, basis, rng):
        if basis.axes is None:
            assert len(basis.rows(np.zeros((1, 2)), (0, 0))) == 1
            return
        u = rng.uniform(-3, 3, 50)
        for n, axis in zip(basis.box, basis.axes, strict=True):
            assert axis.basis.shape == (n, len(axis.smoothness))
            close(axis.pieces(u * n / 6), axis(u * n / 6), 1e-9)

    def test_completing_keeps_what_is_there(self, basis, rng):
        Y = rng.standard_normal((2, basis.n_samples, 1))
        present = rng.random(Y.shape) > 0.2
        found = basis.complete(Y, present)
        assert np.array_equal(found[present], Y[present])


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_every_axis_layer_is_fitted_evaluated_and_differentiated(make, rng):
    values = on_grid(wave, (40, 37))
    field = ef.fit(values, ef.smooth(layer=make, order=1.9))
    close(on_samples(field), values, 1e-9)
    points = inside(rng, (40, 37), 4000) * 0.9 + 2
    close(field(points)[:50], [field(p) for p in points[:50]], 1e-9)  # by tables, and one by one
    # About cubic, of a slow wave: least at its border, where splines with paid lines bend.
    close(field(points), wave(points), 2e-2 if make is BSplines else 5e-3)
    h = 1e-5
    ahead = np.array([h, 0.0])
    slope = (field(points + ahead) - field(points - ahead)) / (2 * h)
    close(field.gradient(points)[:, 0], slope, 1e-6)
    close(field.crop([3, 3], [20, 20])(points[:1] * 0 + 10), field([[10, 10]]), 1e-12)


def test_a_layer_that_files_do_not_know_is_not_saved():
    field = ef.fit(np.eye(9), ef.smooth(layer=BSplines))
    with pytest.raises(TypeError, match="cannot be saved: a file would not say how to make it"):
        ef.save(field, "never.elm")


def test_lines_are_exact_with_a_layer_in_which_they_are_free(rng):
    values = 3 - np.arange(30.0)[:, None] + 2 * np.arange(25.0)
    field = ef.fit(values, ef.smooth(layer=WithLines, order=1))
    x = rng.uniform(-0.5, [29.5, 24.5], (200, 2))
    close(field(x), 3 - x[:, 0] + 2 * x[:, 1], 1e-11)


@dataclass(frozen=True)
class Means:
    """Settings of one's own: every region is its mean."""

    cell: int = 4
    centred = own_samples = False
    is_resolved = is_linear = True
    target = None
    denoise = clip = False
    samples = "points"
    fill_order = 1.55

    def resolve(self, view):
        return self

    def probe_grids(self, shape):
        return ()

    def partition(self, shape, periodic):
        return ef.Partition.regular(shape, self.cell, periodic=np.flatnonzero(periodic))

    def adopt(self, partition):
        return partition

    def model(self, box, inside, like):
        return Constant(box)


def test_a_local_model_of_ones_own_is_fitted_by_settings_of_ones_own(rng):
    values = rng.standard_normal((12, 16, 3))
    field = ef.fit(values, Means(), channel_axis=-1)
    mean = values.reshape(3, 4, 4, 4, 3).mean(axis=(1, 3))
    close(field.samples(), np.repeat(np.repeat(mean, 4, axis=0), 4, axis=1), 1e-12)
    close(field([[5.2, 9.1]]), mean[1, 2][None], 1e-12)
    close(field.gradient([[5.2, 9.1]]), 0, 0)
    assert field.model.n_coefficients == 12 * 3
    few = field.keep(coefficients=40)
    assert few.model.n_coefficients <= 40


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 12, 49, 50])
def test_modes_of_a_closed_axis_are_its_waves_cosine_before_sine(n, means):
    """Pairs have the same γ: an order by rounding would differ from machine to machine."""
    modes, u = axis_modes(n, 6.25, free=0, means=means), np.arange(n) - (n - 1) / 2
    np.testing.assert_allclose(modes.basis.T @ modes.basis, np.eye(n), atol=1e-12)
    assert np.all(np.diff(modes.smoothness) <= 1e-12 * modes.smoothness[:-1])
    for k in range(1, n // 3 + 1):  # beyond, the wave of half a cycle a sample comes in between
        even, odd = modes.basis[:, 2 * k - 1], modes.basis[:, 2 * k]
        np.testing.assert_allclose(np.abs(even @ np.cos(2 * np.pi * k * u / n)), (n / 2) ** 0.5)
        np.testing.assert_allclose(np.abs(odd @ np.sin(2 * np.pi * k * u / n)), (n / 2) ** 0.5)
    t = np.linspace(-n, n, 7)
    np.testing.assert_allclose(modes(t + n), modes(t), atol=1e-11)
