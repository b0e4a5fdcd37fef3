"""Families of energies: evidence, weights and functions against those written out."""

import math

import numpy as np
import pytest

from elmfield.local import energy_mixture as room
from elmfield.local.bases import WaveModel
from elmfield.local.bases.product_modes import AxisWaves
from elmfield.local.energies import family, metric
from elmfield.local.energy_mixture import beliefs
from elmfield.local.order import leave_one_out, line_order
from oracles import beliefs as oracle
from support import close, host

BOXES = [((6, 6), 1.1), ((5, 5), 2.5), ((5, 4), 1.1), ((21,), 1.3), ((3, 3, 3), 1.2)]

NO_ROUNDING = np.zeros(2)


def rows(made, x):
    """The product layer at points x, counted from the box's centre, (n, m)."""
    found = np.ones((len(x), 1))
    axes = tuple(AxisWaves(w, n) for w, n in zip(made.waves, made.box))
    for row in WaveModel(axes, made).rows(x, (0,) * x.shape[1]):
        found = (found[:, :, None] * row[:, None, :]).reshape(len(x), -1)
    return found


@pytest.mark.parametrize(("box", "order"), BOXES)
@pytest.mark.slow
def test_evidence_is_that_written_out(box, order, rng):
    made = beliefs(box, order)
    Y = rng.standard_normal((1, math.prod(box), 2))
    e = made.evidence(Y, np.ones((len(Y), Y.shape[2]), bool))[0]
    members = list(zip(made.family.metrics, made.family.orders))
    wanted = np.array([np.mean([oracle.evidence(box, *m, y) for y in Y[0].T]) for m in members])
    close(e - e[0], wanted - wanted[0], 1e-6)  # values of 10² to 10³, by an inverse


@pytest.mark.parametrize(("box", "order"), BOXES)
@pytest.mark.slow
def test_functions_are_those_written_out(box, order, rng, monkeypatch):
    monkeypatch.setattr(room, "PRINCIPAL", 1e-12)  # all differences are kept
    made = beliefs.__wrapped__(box, order)  # not the one that is kept
    Y = rng.standard_normal((math.prod(box), 2))
    x = rng.uniform(-1, 1, (9, len(box))) * (np.array(box) - 1) / 2
    alpha = made.alphas(Y[None], made.mixture(Y[None], NO_ROUNDING))[0]
    wanted = oracle.local(box, made.family.metrics, made.family.orders, Y, x)
    close(rows(made, x) @ alpha, wanted, 1e-6 * np.abs(wanted).max())


@pytest.mark.slow
def test_principal_differences_leave_out_little(rng):
    made = beliefs((7, 7), 1.1)
    Y = rng.standard_normal((7, 7)).cumsum(0).cumsum(1).reshape(49, 1)
    x = rng.uniform(-1.5, 1.5, (30, 2))
    alpha = made.alphas(Y[None], made.mixture(Y[None], NO_ROUNDING[:1]))[0]
    wanted = oracle.local((7, 7), made.family.metrics, made.family.orders, Y, x)
    close(rows(made, x) @ alpha, wanted, 0.03 * np.ptp(Y))
    at = oracle.positions((7, 7))
    close(rows(made, at) @ alpha, Y, 1e-12 * np.ptp(Y))  # at the samples, nothing


def test_what_is_affine_says_nothing_about_directions(rng):
    made = beliefs((7, 7), 1.1)
    ramp = (np.indices((7, 7)) * np.array([2.0, -1.0])[:, None, None]).sum(0).reshape(1, 49, 1)
    p = made.weights(ramp, np.finfo(float).eps * np.abs(ramp).max(axis=(0, 1)))
    assert p[0, 0] == 1
    # ... nor does such a channel beside another.
    other = rng.standard_normal((1, 49, 1)).cumsum(1)
    both = np.concatenate([ramp, other], axis=2)
    close(made.weights(both, np.full(2, 1e-15)), made.weights(other, np.full(1, 1e-15)), 1e-12)


def test_lines_are_told_by_their_direction():
    made = beliefs((7, 7), 1.1)
    at = oracle.positions((7, 7))
    for turn in (0.3, 1.2, 2.4):
        n = np.array([np.cos(turn), np.sin(turn)])
        p = made.weights(np.tanh(2 * at @ n)[None, :, None], np.full(1, 1e-16))[0]
        likeliest = made.family.directions[np.argmax(p)]
        assert abs(likeliest @ n) > 0.96  # within 15 degrees


@pytest.mark.parametrize("d", [1, 2, 3])
def test_members_are_stretched_not_larger(d):
    members = family(d, 1.3)
    close(np.linalg.det(members.metrics), np.ones(members.n_members), 1e-12)
    assert np.array_equal(members.metrics[0], np.eye(d))
    assert members.strengths[0] == 1


def test_a_member_is_rough_across_and_smooth_along_its_lines():
    n, along = np.array([0.6, 0.8]), np.array([-0.8, 0.6])
    A = metric(n, 4.0)
    close([n @ A @ n, along @ A @ along, n @ A @ along], [0.25, 4.0, 0.0], 1e-15)


def test_all_libraries_agree(xp, rng):
    made = beliefs((5, 4), 1.2)
    Y = rng.standard_normal((6, 20, 2))
    there = xp.asarray(Y)
    q = made.mixture(there, NO_ROUNDING)
    close(host(q), made.mixture(Y, NO_ROUNDING), 1e-12)
    wanted = made.alphas(Y, host(q))
    close(host(made.alphas(there, q)), wanted, 1e-12 * np.abs(wanted).max())


def test_a_sample_left_out_is_missed_by_what_the_others_say(rng):
    box, s = (5, 5), 1.7
    Y = rng.standard_normal((3, 25, 1)).cumsum(1)
    x = oracle.positions(box)
    central = np.flatnonzero(np.all(np.abs(x) <= 1, axis=1))
    squares = []
    for y in Y[..., 0]:
        for i in central:
            rest = np.delete(np.arange(25), i)
            K = oracle.kernel(box, np.eye(2), s, x, x)
            X = oracle.free(box, x)
            system = np.block([[K[np.ix_(rest, rest)], X[rest]], [X[rest].T, np.zeros((3, 3))]])
            z = np.linalg.solve(system, np.concatenate([y[rest], np.zeros(3)]))
            squares.append((K[i, rest] @ z[:24] + X[i] @ z[24:] - y[i]) ** 2)
    (found,) = leave_one_out(Y, box, (s,))
    close(found, np.mean(squares), 1e-9 * np.mean(squares))


def test_the_order_is_never_below_the_spectrums(rng):
    smooth = np.sin(0.3 * np.arange(49.0))[None, :, None] * np.ones((4, 1, 1))
    assert line_order(smooth, (7, 7), 0.9) == 0.9
    assert 2.0 <= line_order(smooth, (7, 7), 2.0) <= 2.6 + 1e-9
