"""The order of a family's energies: from the spectrum, and from leaving samples out.

The spectrum's upper octave tells how rough an array is along its axes; leaving single samples out
of their boxes tells whether a smoother energy would have known them better.
"""

from collections.abc import Sequence

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.cache import remembered
from elmfield._array.typing import Array, Floats
from elmfield.local.energies import STEEPEST, Family
from elmfield.local.kernels import affine, complement, covariances, positions

BETTER_LEFT_OUT = 0.3
"""Half-way between samples a smoother energy is right than where a sample is left out."""

FREEDOM = 0.6
"""How far above the spectrum's order the choice may go; nothing where the spectrum is flat."""

VERY_SMOOTH = {1: 4.2, 2: 4.2, 3: 2.4}
"""Exponents of the spectrum, by number of axes, from which large isotropic boxes are better."""


def is_very_smooth(found: Sequence[float | None]) -> bool:
    """Whether an array with these exponents, per axis, is left to large isotropic boxes.

    Navier-Stokes at t = 0 has 6.7 and gains 12 dB there; at t = 99 it has 3.3 and loses 2.6. In
    space boxes of 5 see little: the whole flow, 3.8, gains 0.8 dB, a brain, 1.0, loses 0.4.
    """
    known = [min(p, 8.0) for p in found if p is not None]
    return bool(known) and float(np.mean(known)) >= VERY_SMOOTH[min(len(found), 3)]


def line_order(Y: Array, box: tuple[int, ...], spectral: float) -> float:
    """The order along a line for boxes of samples Y, (G, S, C), of an array of spectral order.

    Of the orders between ``spectral`` and ``spectral + FREEDOM`` the one whose neighbour, smoother
    by less, predicts samples near the boxes' centres best from all the others.

    Notes
    -----
    Left-out samples alone mislead where an array is aliased (kodim08's shutters: 3.3 instead of
    0.9), the spectrum alone where a smooth signal carries noise (a brain slice: 1.6 instead of
    2.7); together they are within 0.1 of the best order on 29 arrays.
    """
    box = tuple(n for n in box if n > 1)
    d = len(box)
    freedom = FREEDOM * float(np.clip((spectral - 0.9) / 0.6, 0, 1))
    orders = np.round(np.arange(spectral, spectral + freedom + 1e-9, 0.15), 6)
    if len(orders) == 1 or d == 0:
        return spectral
    s = np.minimum(orders + (d - 1) / 2 - BETTER_LEFT_OUT, STEEPEST)
    errors = left_out(Y, box, tuple(s.tolist()))
    return float(orders[int(np.argmin(errors))])


def left_out(Y: Array, box: tuple[int, ...], orders: tuple[float, ...]) -> Floats:
    """Mean square of what energies of these orders s say of a central sample left out, (K,).

    From boxes of samples Y, (G, S, C).
    """
    xp = namespace(Y)
    ways = _ways(box, orders)
    G, S, C = Y.shape
    flat = xp.reshape(xp.permute_dims(Y, (2, 0, 1)), (C * G, S))
    missed = flat @ move(ways, Y, Y.dtype)
    squares = to_numpy(xp.mean(missed * missed, axis=0)).reshape(len(orders), -1)
    return np.asarray(squares.mean(axis=1))


@remembered(64)
def _ways(box: tuple[int, ...], orders: tuple[float, ...]) -> Floats:
    """By what each central sample is missed, from all samples of a box; (S, K c).

    With Q the inverse of K beside affine functions, a left-out sample is missed by
    ``(Q y)_i / Q_ii`` (Wahba 1990): no system is solved again.
    """
    kernels = covariances(box, Family.isotropic(len(box), orders))
    central = np.flatnonzero(np.all(np.abs(positions(box)) <= 1, axis=1))
    Z = complement(affine(box))
    S = len(Z)
    if not Z.shape[1]:  # every set of samples is affine
        return np.zeros((S, len(orders) * max(1, len(central))))
    Q = Z @ np.linalg.solve(Z.T @ kernels @ Z, np.broadcast_to(Z.T, (len(kernels), *Z.T.shape)))
    own = Q[:, central, central]
    ways = Q[:, central] / np.where(own > 0, own, 1)[..., None]  # (K, c, S)
    return np.ascontiguousarray(ways.reshape(-1, S).T)
