"""Energies: what a neuron costs by its frequency, so that the least of them is the smoothest.

:func:`price` charges one frequency of one axis; a :class:`Family` charges frequency vectors, each
member with its own direction in which a signal is smooth.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from elmfield._array.typing import Floats

EPSILON = 1e-2
"""ε of a family's price: waves longer than about 60 samples, many boxes, are nearly free."""

DIRECTIONS = 12
"""Directions in the plane: 8 lose 0.02 dB on photographs, 16 gain 0.005."""

STRETCHES = (2.0, 4.0, 8.0)
"""Anisotropies a in the plane at order 1.6; (3, 9) loses 0.015 dB, (2, 4, 8, 16) gains nothing."""

FEW_STRETCHES = (3.0, 9.0)
"""Anisotropies in the plane where samples are missing or noisy."""

GENTLER = 0.75
"""At order s stretches are ``a ** ((1.6 / s) ** 0.75)``: prices differ by a^(2s), and a steep one
need not be stretched as much. With 1 instead weather and MRI gain 0.05 dB and turbulence loses 0.1;
with 0 (the same a at every order) t850 loses 0.1 and MRI 0.15."""

ORDER_FACTORS = (1.0, 0.75, 1.35)
"""Orders of a family along a line, in parts of the given one."""

STRETCH = 4.0
"""The one anisotropy of sheets, and of tubes."""

STEEPEST = 5.0
"""Orders above this leave K without a digit in double precision when stretched by 8."""


def price(omega2: Floats, order: float, decades: float = 12.0) -> Floats:
    """``E = (ε + ω²)^s``: what a neuron of squared frequency ω² (per sample) costs in the energy.

    Notes
    -----
    ε = 0.01 leaves everything slower than about 60 samples nearly free. For high orders it grows so
    that E, and with it the condition number of the kernel, spans no more than so many decades;
    above order 4 a larger one costs digits at the borders of smooth functions (docs/smooth.md).
    """
    epsilon = max(0.01, np.pi**2 * 10 ** (-decades / order))
    return np.asarray((epsilon + omega2) ** order)


def squared_lengths(frequencies: Sequence[Floats]) -> Floats:
    """|ω|² on the lattice spanned by one array of frequencies per axis."""
    total = np.zeros(())
    for omega in frequencies:
        total = np.add.outer(total, omega**2)
    return np.asarray(total)


@dataclass(frozen=True, eq=False, kw_only=True)
class Family:
    """A family of energies: ``E(ω) = (ε + ωᵀ A ω)^s``, one A and s per member.

    Parameters
    ----------
    metrics : array, shape (K, d, d)
        A, symmetric, of determinant 1. Member 0 is isotropic, for boxes without evidence.
    orders : array, shape (K,)
        s, counted for the length of ω in d dimensions: along a line the order is s - (d - 1) / 2.
    directions : array, shape (K, d)
        Unit vectors across which a member is rough; zero for the isotropic one. Of a tube, along
        which it is smooth.
    strengths : array, shape (K,)
        a of each member; 1 for the isotropic one, below 1 for tubes.
    """

    metrics: Floats = field(repr=False)
    orders: Floats
    directions: Floats = field(repr=False)
    strengths: Floats = field(repr=False)

    @classmethod
    def of(cls, d: int, s: float, stretched: Sequence[tuple[Floats, float]]) -> "Family":
        """An isotropic member of order s and one for each direction and anisotropy given."""
        n = np.array([np.zeros(d), *(direction for direction, _ in stretched)])
        a = np.array([1.0, *(strength for _, strength in stretched)])
        metrics = np.array([np.eye(d), *(metric(*member) for member in stretched)])
        return cls(metrics=metrics, orders=np.full(len(a), s), directions=n, strengths=a)

    @classmethod
    def isotropic(cls, d: int, orders: Sequence[float]) -> "Family":
        """Members without direction, one of each order."""
        K = len(orders)
        return cls(
            metrics=np.broadcast_to(np.eye(d), (K, d, d)),
            orders=np.asarray(orders, np.float64),
            directions=np.zeros((K, d)),
            strengths=np.ones(K),
        )

    @property
    def n_members(self) -> int:
        """Number of members K."""
        return len(self.orders)

    def price(self, frequencies: Sequence[Floats]) -> Floats:
        """E of every member, (K, L_1, ..., L_d), on the lattice of one array of ω per axis."""
        omega = np.stack(np.meshgrid(*frequencies, indexing="ij"), axis=-1)
        squares = np.einsum("...i,kij,...j->k...", omega, self.metrics, omega)
        s = self.orders.reshape(-1, *(1,) * len(frequencies))
        return np.asarray((EPSILON + squares) ** s)


def family(d: int, order: float) -> Family:
    """The family for d axes around one order along a line.

    In 1-D three orders; in 2-D an isotropic member and lines of 12 directions; in 3-D an isotropic
    member, sheets and tubes along the directions of a cell's neighbours. Each family is closed
    under reversing and exchanging axes, so a turned array gives the turned function.
    """
    s = min(order + (d - 1) / 2, STEEPEST)
    if d <= 1:
        return Family.isotropic(d, [min(max(s * f, 0.75), STEEPEST) for f in ORDER_FACTORS])
    return Family.of(d, s, stretched(d, s, STRETCHES))


def stretched(d: int, s: float, stretches: Sequence[float]) -> list[tuple[Floats, float]]:
    """Directions and anisotropies of members of order s: lines in the plane; sheets and tubes."""
    if d == 2:
        return lines(stretches, s)
    a = STRETCH ** gentler(s)
    return [(n, b) for n in neighbours(d) for b in (a, 1 / a)]


def lines(stretches: Sequence[float], s: float) -> list[tuple[Floats, float]]:
    """Twelve directions in the plane for each anisotropy, which are smaller where s is large."""
    turns = np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    around = np.column_stack([np.cos(turns), np.sin(turns)])
    return [(n, a ** gentler(s)) for a in stretches for n in around]


def gentler(s: float) -> float:
    """By what power of an anisotropy members of order s are stretched."""
    return float(min(1.6 / s, 1.0) ** GENTLER)


def metric(n: Floats, a: float) -> Floats:
    """A of determinant 1: rough along n and smooth across it for a > 1, the reverse for a < 1.

    In the plane this is ``n nᵀ / a + a (1 - n nᵀ)``. In space a > 1 makes sheets (smooth in two
    directions) and a < 1 tubes (smooth in one).
    """
    d = len(n)
    P = np.outer(n, n)
    b = a**2
    return np.asarray(b ** (1 / d) * (P / b + np.eye(d) - P))


def neighbours(d: int) -> list[Floats]:
    """Unit vectors to half of the 3^d - 1 neighbours of a cell (three axes at most differ)."""
    steps = np.array(np.meshgrid(*[(-1.0, 0.0, 1.0)] * d, indexing="ij")).reshape(d, -1).T
    half = steps[len(steps) // 2 + 1 :]
    half = half[np.abs(half).sum(axis=1) <= 3]
    return [n / np.linalg.norm(n) for n in half]
