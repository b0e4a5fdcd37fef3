"""Families of energies: what waves cost, and the covariances that follow from it on a box.

Each member of a :class:`Family` has its own direction in which a signal is smooth. Its kernel is
``K = H E⁻¹ Hᵀ`` without the affine functions, the covariance of the box's samples, in float64. A
price is diagonal in exponentials, so sums over waves are made once for each difference of
positions, axis by axis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce

import numpy as np

from elmfield._array.running import runs
from elmfield._array.typing import Floats
from elmfield.local.layers import Cosines

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

PERIOD = 1.5
"""Period of the layer in boxes: 1.25 lost 0.012 dB on seven photographs, 2 gained nothing."""


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
    def of(
        cls, d: int, s: float | Sequence[float], stretched: Sequence[tuple[Floats, float]]
    ) -> "Family":
        """An isotropic member of order s and one for each direction and anisotropy given.

        Orders may differ from member to member.
        """
        members = [(np.zeros(d), 1.0), *stretched]
        n, a = (np.array(parts) for parts in zip(*members))
        orders = np.array(np.broadcast_to(s, len(a)), np.float64)
        metrics = np.array([metric(*member) for member in members])
        return cls(metrics=metrics, orders=orders, directions=n, strengths=a)

    @classmethod
    def isotropic(cls, d: int, orders: Sequence[float]) -> "Family":
        """Members without direction, one of each order."""
        return cls.of(d, orders, [(np.zeros(d), 1.0)] * (len(orders) - 1))

    @property
    def n_members(self) -> int:
        """Number of members K."""
        return len(self.orders)

    def price(self, frequencies: Sequence[Floats]) -> Floats:
        """E of every member, (K, L_1, ..., L_d), on the lattice of one array of ω per axis.

        Axes of one frequency, 0, are none of the d, unless all are.
        """
        wide = [omega for omega in frequencies if len(omega) > 1] or frequencies[:1]
        omega = np.stack(np.meshgrid(*wide, indexing="ij"), axis=-1)
        squares = np.einsum("...i,kij,...j->k...", omega, self.metrics, omega)
        s = self.orders.reshape(-1, *(1,) * len(wide))
        return np.asarray((EPSILON + squares) ** s).reshape(-1, *map(len, frequencies))


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
    """Directions and anisotropies of members of order s, smaller where that is large.

    In the plane lines of twelve directions for each anisotropy; beyond it sheets and tubes.
    """
    power = float(min(1.6 / s, 1.0) ** GENTLER)
    if d == 2:
        turns = np.pi * np.arange(DIRECTIONS) / DIRECTIONS
        around = np.column_stack([np.cos(turns), np.sin(turns)])
        return [(n, a**power) for a in stretches for n in around]
    a = STRETCH**power
    return [(n, b) for n in neighbours(d) for b in (a, 1 / a)]


def metric(n: Floats, a: float) -> Floats:
    """A of determinant 1: rough along n and smooth across it for a > 1, the reverse for a < 1.

    In the plane this is ``n nᵀ / a + a (1 - n nᵀ)``. In space a > 1 makes sheets (smooth in two
    directions) and a < 1 tubes (smooth in one).
    """
    d, P, b = len(n), np.outer(n, n), a**2
    return np.asarray(b ** (1 / d) * (P / b + np.eye(d) - P))


def neighbours(d: int) -> list[Floats]:
    """Unit vectors to half of the 3^d - 1 neighbours of a cell (three axes at most differ)."""
    steps = np.array(np.meshgrid(*[(-1.0, 0.0, 1.0)] * d, indexing="ij")).reshape(d, -1).T
    half = steps[len(steps) // 2 + 1 :]
    half = half[np.abs(half).sum(axis=1) <= 3]
    return [n / np.linalg.norm(n) for n in half]


# --- kernels on a box -----------------------------------------------------------------------------


def waves_of(box: Sequence[int]) -> tuple[Cosines, ...]:
    """The layer of each axis: waves up to twice the sampling's Nyquist frequency, and lines.

    Two waves in that band share each set of values at the samples. With less of the band (0.9:
    -0.01 dB) or more (1.15: -0.05 dB) photographs are met less well.
    """
    return tuple(Cosines.lattice(n, period=PERIOD, free=2) for n in box)


def frequencies(waves: Cosines) -> Floats:
    """ω of the exponentials ``exp(iωu)`` that span the waves, ascending; (2J + 1,)."""
    J = waves.count
    return 2 * np.pi * waves.fundamental * np.arange(-J, J + 1.0)


def of_exponentials(c: np.ndarray, axis: int) -> np.ndarray:
    """Features' weights a with ``Σ_j c_j exp(iω_j u) = Σ_f a_f a(u)_f``; c along one axis."""
    c = np.moveaxis(c, axis, 0)
    J = len(c) // 2
    up, down = c[J + 1 :], c[J - 1 :: -1] if J else c[:0]
    a = np.zeros((2 * J + 2, *c.shape[1:]), c.dtype)
    a[0] = c[J]
    np.multiply(up + down, 0.5**0.5, out=a[1 : J + 1])
    np.multiply(up - down, 0.5**0.5 * 1j, out=a[J + 1 : 2 * J + 1])
    return np.moveaxis(a, 0, axis)


def spectra_of(waves: Sequence[Cosines], members: Family) -> Floats:
    """1 / E of every member on the lattice, (K, L_1, ..., L_d), of sum 1: variance 1 everywhere."""
    spectra = 1 / members.price([frequencies(w) for w in waves])
    constant: tuple[slice | int, ...] = (slice(None), *(w.count for w in waves))
    spectra[constant] = 0  # free
    totals = spectra.sum(axis=tuple(range(1, spectra.ndim)), keepdims=True)
    return np.asarray(spectra / np.where(totals > 0, totals, 1))


def transfer(waves: Sequence[Cosines]) -> Floats:
    """What the mean over a cell of one sample leaves of each exponential, (L_1, ..., L_d)."""
    parts = (np.sinc(frequencies(w) / (2 * np.pi)) for w in waves)
    return np.asarray(reduce(np.multiply.outer, parts))


def kernels_of(
    waves: Sequence[Cosines], box: Sequence[int], spectra: Floats, points: Floats | None = None
) -> Floats:
    """``Σ_ω spectrum(ω) cos ω(x - x')`` of every member, (K, P, S), x' the samples of a box.

    x are its samples too, or points on the grid of half samples, (P, d), counted from its centre.
    """
    samples = positions(box)
    points = samples if points is None else points
    table = spectra.astype(complex)
    index = []
    for k, w in enumerate(waves):
        at = np.rint(2 * (points[:, None, k] - samples[None, :, k])).astype(np.int64)
        low, high = at.min(), at.max()
        shifts = np.exp(0.5j * np.outer(np.arange(low, high + 1), frequencies(w)))
        table = np.moveaxis(np.tensordot(shifts, table, axes=(1, 1 + k)), 0, 1 + k)
        index.append(at - low)
    return np.ascontiguousarray(table.real[(slice(None), *index)])


def covariances(box: tuple[int, ...], members: Family, means: bool = False) -> Floats:
    """Kernels of all members on the samples of a box, or on means over cells; (K, S, S)."""
    waves = waves_of(box)
    left = transfer(waves) ** 2 if means else 1.0
    return kernels_of(waves, box, spectra_of(waves, members) * left)


def combine_members(
    waves: Sequence[Cosines], box: Sequence[int], spectra: Floats, Q: Floats, onto: Floats
) -> Floats:
    """``Σ_k onto_kj E_k⁻¹ Hᵀ Q_k``, (J, m, S): what combinations of members make of samples.

    A price is diagonal in exponentials: members are added up there, and real products of features
    made once for each combination. Everything is real, so half of the exponentials do.
    """
    S, J = Q.shape[1], onto.shape[1]
    first = waves[0].count
    half = spectra[:, first:]
    total = np.zeros((J, *half.shape[1:], S), complex)
    for i, j in runs(len(Q), max(1, (1 << 21) // (half[0].size * S))):
        a = Q[i:j].reshape(j - i, *box, S).astype(complex)
        for k, (w, n) in enumerate(zip(waves, box)):
            omega = frequencies(w)[first if k == 0 else 0 :]
            back = np.exp(-1j * np.outer(omega, np.arange(n) - (n - 1) / 2))
            a = np.moveaxis(np.tensordot(back, a, axes=(1, 1 + k)), 0, 1 + k)
        a = a * half[i:j, ..., None]
        total += np.tensordot(onto[i:j], a, axes=(0, 0))
    for k in range(1, len(waves)):
        total = of_exponentials(total, 1 + k)
    whole = np.concatenate([total[:, :0:-1].conj(), total], axis=1)
    return np.ascontiguousarray(of_exponentials(whole, 1).real).reshape(J, -1, S)


def is_odd(waves: Sequence[Cosines]) -> np.ndarray:
    """Whether each product changes its sign when all axes are reversed, (m,)."""
    own = (np.repeat([False, True], w.count + 1) for w in waves)
    return np.asarray(reduce(np.logical_xor.outer, own)).reshape(-1)


# --- affine functions -----------------------------------------------------------------------------


def positions(box: Sequence[int]) -> Floats:
    """Positions of the samples of a box, counted from its centre, (S, d)."""
    return np.indices(box).reshape(len(box), -1).T - (np.asarray(box) - 1) / 2


@lru_cache(maxsize=64)
def affine(box: tuple[int, ...]) -> Floats:
    """The functions 1 and u_k on the samples of a box, orthonormal; (S, 1 + axes of two or more).

    1 is even and u_k is odd about the centre, and so are these columns.
    """
    return affine_at(box, positions(box))


def affine_at(box: Sequence[int], points: Floats) -> Floats:
    """The functions of :func:`affine` at points, (P, d), counted from the centre; (P, 1 + d')."""
    on = np.stack([np.ones(len(points)), *(points[:, k] for k, n in enumerate(box) if n > 1)])
    return np.asarray((on / affine_norms(box)[:, None]).T)


def affine_norms(box: Sequence[int]) -> Floats:
    """Norms of 1 and u_k on the samples of a box, (1 + d',)."""
    at = positions(box)
    wide = [at[:, k] for k, n in enumerate(box) if n > 1]
    return np.asarray(np.linalg.norm(np.stack([np.ones(len(at)), *wide]), axis=1))


def affine_places(waves: Sequence[Cosines]) -> list[int]:
    """Places of the features 1 and u_k among the products."""
    width = [w.width for w in waves]
    return [0] + [(w.width - 1) * math.prod(width[k + 1 :]) for k, w in enumerate(waves) if w.count]


def complement(X: Floats) -> Floats:
    """Orthonormal columns that span what the columns of X do not."""
    U, s, _ = np.linalg.svd(X)
    return np.asarray(U[:, int((s > 1e-9).sum()) :])
