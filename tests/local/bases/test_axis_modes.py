"""Modes of one axis: lines are free, and every mode goes on with its slope at the border."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

from elmfield.local.bases import axis_modes, product_modes
from elmfield.local.bases.axis_modes import continuation
from elmfield.local.layers import Cosines
from support import EPS, close


@given(n=st.integers(2, 40), order=st.floats(0.3, 8))
def test_lines_come_first_and_cost_nothing(n, order):
    modes = axis_modes(n, order)
    u = np.arange(n) - (n - 1) / 2
    assert modes.n_free == min(max(2, math.ceil(order - 1e-6)), max(2, n // 2))
    close(modes.basis[:, 0], np.full(n, n**-0.5), n * EPS)
    close(modes.basis[:, 1], -u / np.linalg.norm(u), n * EPS)
    t = np.linspace(-n / 2 - 0.5, n / 2 + 0.5, 21)
    close(modes(t)[:, 1], -t / np.linalg.norm(u), 8 * n * EPS)
    close(modes(t, 1)[:, 0], 0, 8 * n * EPS)
    # A sum of features is as exact as its largest term.
    size = max(1, np.abs(modes.mixing).max())
    close(modes.pieces(t), modes(t), 1e-11 * size)
    close(modes(u), modes.basis, 1e-12 * n * size)


@given(n=st.integers(4, 60), order=st.floats(1, 8), seed=st.integers(0, 9))
def test_polynomials_below_the_order_are_exact_everywhere(n, order, seed):
    modes = axis_modes(n, order)
    p = Polynomial(np.random.default_rng(seed).standard_normal(modes.n_free))
    radius = n / 2
    u, t = np.arange(n) - (n - 1) / 2, np.linspace(-n / 2 - 0.5, n / 2 + 0.5, 21)
    c = modes.basis.T @ p(u / radius)
    # Coefficients of the others are rounding, of functions that reach far.
    size = 1 + np.abs(modes(t)).max()
    close(modes(t) @ c, p(t / radius), 1e-13 * n * size)
    close(modes(t, 1) @ c, p.deriv()(t / radius) / radius, 1e-12 * n * size)
    few = axis_modes(n, order, free=2)
    assert few.n_free == 2
    assert few.basis.shape == modes.basis.shape


@pytest.mark.parametrize("n", [2, 7, 12])
@pytest.mark.parametrize("order", [1.1, 8.0])
def test_modes_of_a_ring_are_its_waves(n, order):
    modes = axis_modes(n, order, free=0)
    u, t = np.arange(n) - (n - 1) / 2, np.linspace(-1, 1, 7)
    close(modes(u), modes.basis, 1e-12)
    close(modes(t + n), modes(t), 1e-12)
    for k in range((n + 1) // 2):
        c = modes.basis.T @ np.cos(2 * np.pi * k * u / n + 0.3)
        close(modes(t) @ c, np.cos(2 * np.pi * k * t / n + 0.3), 1e-12 * n)


def test_the_constant_is_the_smoothest_product():
    assert product_modes((5, 4), (1.1, 3.0)).ranking[0] == 0


@given(n=st.integers(2, 30))
def test_the_continuation_is_exact_on_lines_and_keeps_the_samples(n):
    T = continuation(n)
    outer = np.arange(-2, n + 2)
    close(T @ np.arange(n), outer, 8 * n * EPS)
    close(T @ np.ones(n), 1, 8 * n * EPS)
    assert np.array_equal(T[2:-2], np.eye(n))
    close(T, T[::-1, ::-1], 0)


@pytest.mark.parametrize(("n", "order"), [(9, 1.1), (36, 4.0), (36, 8.0)])
def test_the_functions_meet_their_samples_though_prices_span_twenty_decades(n, order):
    modes = axis_modes(n, order)
    size = max(1, np.abs(modes.mixing).max())  # 3e6 at order 8
    close(modes(np.arange(n) - (n - 1) / 2), modes.basis, 1e-14 * size)


def test_a_layer_without_free_features_has_no_free_modes():
    def paid(n):
        return Cosines.lattice(n, free=0)

    modes = axis_modes(9, 1.1, paid)
    assert modes.n_free == 0
    # Lines are paid for: beyond the last sample one falls back.
    line = modes.basis.T @ np.arange(9.0)
    assert modes(np.array([4.5])) @ line < 8.5 - 0.1


@pytest.mark.parametrize("free", [None, 0])
def test_modes_go_to_other_processes(free):
    modes = axis_modes(9, 3.0, free=free)
    again = pickle.loads(pickle.dumps(modes))
    t = np.linspace(-4, 4, 7)
    assert np.array_equal(again(t), modes(t))
