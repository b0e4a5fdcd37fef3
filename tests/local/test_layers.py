import itertools

import numpy as np
import pytest
from numpy.polynomial import legendre

import elmfield as ef
import oracles
from elmfield.local.bases import axis_modes
from elmfield.local.layers import Cosines, price
from support import close, host

ACTIVATIONS = ("relu", "sin", "cos", "tanh", "gaussian")


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("frequencies", "draw"), [(3, "normal"), (0, "uniform")])
def test_the_layer_is_the_paper_s_on_every_library(xp, activation, frequencies, draw, rng):
    t = rng.uniform(-1, 1, (9, 2))
    settings = {"activation": activation, "draw": draw, "seed": 5}
    expected = oracles.hidden_layer(t, width=7, frequencies=frequencies, scale=0.8, **settings)
    layer = ef.Dense(width=7, frequencies=frequencies, scale=0.8, **settings)
    # Phases up to about 2π · 3 scale, summed in another order: a few hundred EPS.
    close(layer(xp.asarray(t)), expected, 1e-13 * 10)


def test_a_wider_layer_begins_with_the_narrower_one():
    t = np.linspace(-1, 1, 5)[:, None]
    assert np.array_equal(ef.Dense(width=40)(t)[:, :16], ef.Dense(width=16)(t))
    assert not np.array_equal(ef.Dense(width=16, seed=1)(t), ef.Dense(width=16)(t))


@pytest.mark.parametrize("activation", ["sin", "cos", "tanh", "gaussian"])
@pytest.mark.parametrize("frequencies", [4, 0])
def test_derivatives_of_the_layer_are_those_of_its_values(activation, frequencies, rng):
    layer = ef.Dense(width=6, frequencies=frequencies, scale=0.3, activation=activation)
    t = rng.uniform(-1, 1, (8, 2))
    h = 1e-4
    for j in range(layer.width):
        value = lambda x, j=j: layer(x)[:, j]  # noqa: E731
        gradient = oracles.difference_gradient(value, t, h)
        hessian = oracles.difference_hessian(value, t, h)
        for k, l in itertools.product(range(2), repeat=2):
            first = layer(t, tuple(int(a == k) for a in range(2)))[:, j]
            second = layer(t, tuple((a == k) + (a == l) for a in range(2)))[:, j]
            # Truncation h² f'''/6 with |z'| up to about 20; rounding EPS/h² = 2e-8 in the second.
            close(gradient[:, k], first, 2e-4)
            close(hessian[:, k, l], second, 2e-3)


def test_relu_has_the_slope_of_its_active_side_and_no_curvature():
    layer = ef.Dense(width=50, frequencies=0)
    t = np.array([[0.3, -0.2]])
    _, W, _ = layer.parameters(2)
    active = layer(t)[0] > 0
    assert 0 < active.sum() < 50
    close(layer(t, (1, 0))[0], np.where(active, W[0], 0), 0)
    close(layer(t, (1, 1)), 0, 0)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_cosines_by_doubling_equal_cosines_one_by_one(xp, order):
    layer = Cosines.lattice(13, free=5)
    u = np.linspace(-6.5, 6.5, 41)
    found = host(layer(xp.asarray(u), order))
    assert found.shape == (41, layer.width)
    assert layer.width == len(oracles.axis_neurons(13)) + 4  # polynomials come last
    radius = 0.625 * 13
    for k in range(1, 5):
        p = legendre.Legendre.basis(k, domain=[-radius, radius])
        expected = radius * (p.deriv(order) if order else p)(u)
        close(found[:, k - 5], expected, 1e-14 * radius)
    for j, (kind, w) in enumerate(oracles.axis_neurons(13)):
        turn = {"one": 0.0 if order else 1.0}.get(kind)
        if turn is None:
            shift = np.pi / 2 * (order - (kind == "sin"))
            turn = np.sqrt(2) * w**order * np.cos(w * u + shift)
        # Doubling loses about log2(16) roundings; derivatives carry ω up to 2π.
        close(found[:, j], turn, 1e-13 * 7**order)


def test_the_price_grows_with_frequency_and_spans_so_many_decades():
    omega = np.linspace(0, np.pi, 50)
    for order in (0.5, 1.1, 2.0, 3.7, 8.0, 16.0):
        found = price(omega**2, order, 20.0 if order <= 8 else 12.0)
        close(found / [oracles.axis_price(w, order) for w in omega], 1, 1e-12)
        assert np.all(np.diff(found) > 0)
        assert found[-1] / found[0] <= (1.1e20 if order <= 8 else 1.1e12) * 2**order


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, r"`width` must be a whole number, at least 1 and below 2\^24; got 0"),
        ({"width": 2.5}, r"`width` must be a whole number.*; got 2\.5"),
        ({"width": -3}, "`width` must be"),
        ({"width": True}, "`width` must be"),
        ({"width": None}, "`width` must be"),
        ({"width": "64"}, "`width` must be"),
        ({"width": float("nan")}, "`width` must be"),
        ({"frequencies": -1}, "`frequencies` must be a whole number, at least 0 .*; got -1"),
        ({"frequencies": 1.5}, "`frequencies` must be"),
        ({"scale": 0.0}, r"`scale` must be a positive number; got 0\.0"),
        ({"scale": float("inf")}, "`scale` must be a positive number"),
        ({"scale": 1e308}, r"`scale` must be at most 1e\+100; got 1e\+308"),
        ({"scale": "wide"}, "`scale` must be a positive number; got 'wide'"),
        ({"activation": "swish"}, r"`activation` must be one of \['cos', .*\]; got 'swish'"),
        ({"seed": -1}, r"`seed` must be a whole number, .*; got -1"),
        ({"seed": 1.5}, "`seed` must be"),
        ({"seed": "a"}, r"`seed` must be a whole number, .*; got 'a'"),
        ({"seed": [0]}, r"`seed` must be a whole number, .*; got \[0\]"),
        ({"seed": None}, "`seed` must be"),
        ({"draw": "cauchy"}, r"`draw` must be one of \['normal', 'uniform'\]; got 'cauchy'"),
    ],
)
def test_bad_layers_say_what_is_wrong(options, message):
    with pytest.raises(ValueError, match=message):
        ef.paper(**options)


def test_a_whole_number_may_be_written_as_a_float():
    assert ef.paper(width=64.0, frequencies=3.0) == ef.paper(width=64, frequencies=3)
    assert ef.fit(np.zeros(8), ef.paper(width=4.0, cell=8)).model.n_coefficients == 4


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("order", [0.5, 1.1, 4.0])
def test_pieces_are_the_cosines_they_stand_for(n, order, rng):
    modes = axis_modes(n, order)
    pieces = modes.pieces
    end = (n + 1) / 2
    u = np.concatenate([rng.uniform(-end, end, 2000), [-end, 0.0, end]])
    for times in range(3):
        expected = modes(u, times)
        # Doubling the angle loses a few digits at the highest of 50 frequencies; a term left out at
        # 1e-16 weighs (p⁴/3) (2/h)² = 3e5 in the second derivative, at the end of an interval.
        size = max(1, np.abs(expected).max(), np.abs(modes.mixing).max())
        tolerance = (2e-14, 2e-13, 4e-11)[times] * size
        close(pieces(u, times), expected, tolerance)
        close(pieces(u[-9:].reshape(3, 3), times), expected[-9:].reshape(3, 3, -1), tolerance)


def test_points_crowded_in_one_interval_are_no_burden(rng):
    modes = axis_modes(12, 1.1)
    u = np.concatenate([np.full(3000, 0.3), rng.uniform(-6, 6, 20)])
    close(modes.pieces(u), modes(u), 2e-14)
