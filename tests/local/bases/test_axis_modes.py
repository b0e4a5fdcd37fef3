"""Modes of one axis: lines are free, and every mode goes on with its slope at the border."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmfield.local.bases import axis_modes, product_modes
from elmfield.local.bases.axis_modes import continuation
from elmfield.local.layers import Cosines
from support import EPS, close


@given(n=st.integers(2, 40), order=st.floats(0.3, 8))
def test_lines_come_first_and_cost_nothing(n, order):
    modes = axis_modes(n, order)
    u = np.arange(n) - (n - 1) / 2
    assert modes.n_free == 2
    close(modes.basis[:, 0], np.full(n, n**-0.5), n * EPS)
    close(modes.basis[:, 1], -u / np.linalg.norm(u), n * EPS)
    t = np.linspace(-n / 2 - 0.5, n / 2 + 0.5, 21)
    close(modes(t)[:, 1], -t / np.linalg.norm(u), 8 * n * EPS)
    close(modes(t, 1)[:, 0], 0, 8 * n * EPS)
    close(modes.pieces(t), modes(t), 1e-11)
    close(modes(u), modes.basis, 1e-9)


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
def test_the_functions_meet_their_samples_though_prices_span_twelve_decades(n, order):
    modes = axis_modes(n, order)
    close(modes(np.arange(n) - (n - 1) / 2), modes.basis, 1e-11)


def test_a_layer_without_free_features_has_no_free_modes():
    def paid(n):
        return Cosines.lattice(n, free=0)

    modes = axis_modes(9, 1.1, paid)
    assert modes.n_free == 0
    # Lines are paid for: beyond the last sample one falls back.
    line = modes.basis.T @ np.arange(9.0)
    assert modes(np.array([4.5])) @ line < 8.5 - 0.1
