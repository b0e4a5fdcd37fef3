"""One axis of a product layer: what such a layer must have, and ours of cosines and polynomials.

:class:`Pieces` has the functions of a layer as polynomials, for many points.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from elmfield._array import backend
from elmfield._array.backend import device, move, namespace, to_numpy
from elmfield._array.typing import Array, Floats


@dataclass(frozen=True, eq=False)
class Pieces:
    """Functions of one variable, each a polynomial on every one of J equal intervals; in NumPy.

    ``f_q(u) = Σ_k coefficients[j, k, q] s^k`` on interval j, which s crosses from -1 to 1.

    Parameters
    ----------
    low : float
        Where the first interval begins.
    per_unit : int
        Intervals per unit of u.
    coefficients : array, shape (J, p, r)
        Of the powers of s.
    """

    low: float
    per_unit: int
    coefficients: Floats = field(repr=False)

    @classmethod
    def through(cls, function: Callable[[Floats], Floats], n: int, terms: int) -> "Pieces":
        """A function of u, (m,) to (m, r), between -n/2 and n/2, as polynomials of so many terms.

        Interpolated at Chebyshev's points of each interval of one unit: exact for functions that
        are such polynomials there, as splines with knots at the intervals' ends are.
        """
        s = np.cos(np.pi * (np.arange(terms) + 0.5) / terms)
        u = np.arange(n)[:, None] + (0.5 - n / 2) + s / 2
        values = function(u.reshape(-1)).reshape(n, terms, -1)
        return cls(-n / 2, 1, np.linalg.solve(np.vander(s, increasing=True), values))

    def deviations(self) -> "Pieces":
        """``∫ (f - mean of f)`` from the beginning of each interval: 0 at both its ends.

        Of intervals of one unit. Its derivatives along u are f less its mean there, f', f'', ...
        """
        c = self.coefficients
        J, p, r = c.shape
        k = np.arange(p)[:, None]
        total = np.zeros((J, p + 1, r))
        total[:, 1:] = c / (2 * (k + 1))
        mean = (c / (k + 1))[:, ::2].sum(axis=1)
        total[:, 1] -= mean / 2
        total[:, 0] = total[:, 2::2].sum(axis=1) * -1
        return Pieces(self.low, self.per_unit, total)

    def anywhere(self, u: Array, order: int = 0) -> Array:
        """As :meth:`__call__`, of any library: on other devices, and where torch follows u."""
        if backend.is_on_host(u) and not backend.requires_grad(u):
            return move(self(np.asarray(to_numpy(u), np.float64), order), u, u.dtype)
        xp, table = namespace(u), self.coefficients
        at = (xp.reshape(u, (-1,)) - self.low) * self.per_unit
        j = xp.clip(xp.astype(at, xp.int64), 0, len(table) - 1)
        s, p = (2 * (at - xp.astype(j, u.dtype)) - 1)[:, None], table.shape[1]
        total = xp.zeros((at.shape[0], table.shape[2]), dtype=u.dtype, device=device(u))
        for k in range(p - 1, order - 1, -1):
            times = math.perm(k, order) * (2.0 * self.per_unit) ** order
            total = total * s + xp.take(move(times * table[:, k], u, u.dtype), j, axis=0)
        return xp.reshape(total, (*u.shape, -1))

    def scaled(self, u: Floats) -> Floats:
        """Where u lies, counted in intervals; what lies beyond them is moved to the ends."""
        at = (np.asarray(u, np.float64) - self.low) * self.per_unit
        return np.clip(at, 0, np.nextafter(len(self.coefficients), 0), out=at)

    def powers(self, s: Floats, order: int = 0) -> Floats:
        """The powers of s, shape (p, ...), or their derivative along u of the given order."""
        p = self.coefficients.shape[1]
        P = np.empty((p, *s.shape), s.dtype)
        P[0] = 1
        for k in range(1, p):
            np.multiply(P[k - 1], s, out=P[k])
        for _ in range(order):
            for k in range(p - 1, 0, -1):
                np.multiply(P[k - 1], 2 * self.per_unit * k, out=P[k])
            P[0] = 0
        return P

    def __call__(self, u: Floats, order: int = 0) -> Floats:
        """The functions, shape (..., r), or their derivative of the given order, at u."""
        j, s = split(self.scaled(np.ravel(u)))
        return self.at(j, s, order).reshape(*u.shape, -1)

    def at(self, j: np.ndarray, s: Floats, order: int = 0) -> Floats:
        """The functions, (n, r), at positions s in intervals j, (n,) both.

        Points are sorted by interval into tiles of equal length, each a small matrix product.
        """
        table, n = self.coefficients, len(j)
        J, p, r = table.shape
        if n <= 4 * J:
            few: Floats = np.matmul(self.powers(s, order).T[:, None, :], table[j])[:, 0]
            return few
        length = max(8, n // (4 * J))
        by_interval = np.argsort(j, kind="stable")
        counts = np.bincount(j, minlength=J)
        tiles = -(-counts // length)
        owner = np.repeat(np.arange(J), tiles)
        # Where each point, in sorted order, stands among the tiles' places.
        begin = (np.cumsum(tiles) - tiles) * length - (np.cumsum(counts) - counts)
        place = np.arange(n)
        place += np.repeat(begin, counts)
        point = np.zeros(len(owner) * length, np.int64)
        point[place] = by_interval
        back = np.empty(n, np.int64)
        back[by_interval] = place
        P = self.powers(s.take(point), order).reshape(p, -1, length)
        tables = table.take(owner, axis=0, mode="clip")
        rows: Floats = np.matmul(P.transpose(1, 2, 0), tables)
        return rows.reshape(-1, r).take(back, axis=0, mode="clip")


def sample_features(layer: "AxisLayer", n: int, means: bool = False) -> Floats:
    """A layer's features on n samples, (n, width), or their means over cells one unit wide."""
    if not means:
        return np.asarray(layer(np.arange(n) - (n - 1) / 2))
    s, w = np.polynomial.legendre.leggauss(16)
    u = np.arange(n)[:, None] - (n - 1) / 2 + s / 2
    return np.asarray(np.einsum("g,ngf->nf", w / 2, layer(u)))


def split(at: Floats) -> tuple[np.ndarray, Floats]:
    """Intervals j, in as few bits as hold them, and positions s between -1 and 1, of scaled u."""
    j = at.astype(np.uint8 if at.max(initial=0) < 0x100 else np.int64)
    s: Floats = np.subtract(at, j)
    s *= 2
    s -= 1
    return j, s


class AxisLayer(Protocol):
    """One axis of a product layer: features of the offset u from a box's centre, in samples.

    Backwards it must be the same layer: ``Σ_j a_j(u) a_j(v) / price_j``, over the features with a
    price, does not change when u and v change sign. Modes are then even or odd, which halves the
    work and settles them.
    """

    @property
    def width(self) -> int:
        """Number of features."""

    def prices(self, order: float) -> Floats:
        """What each feature costs in an energy of this order, (width,): positive numbers, or 0.

        A feature that costs 0 is free: of all functions through the samples the cheapest is taken,
        and what is free in it is settled by the samples alone. Free features are polynomials, each
        even or odd, in ascending degree from 0 on without a gap. An infinite price leaves a feature
        out at this order.
        """

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Features, shape (..., width), or their derivative of the given order, at `u`."""

    def mixed(self, u: Array, mixing: Floats, order: int = 0) -> Array:
        """``a(u) mixing``, shape (..., r), mixing (width, r); a differentiated `order` times."""

    def pieces(self, mixing: Floats, n: int) -> Pieces:
        """``a(u) mixing`` for u between -n/2 and n/2, as polynomials on short intervals."""


MakeLayer = Callable[[int], AxisLayer]
"""The layer for a box of so many samples on an axis, as ``Cosines.lattice``."""


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


MOST_FREE = 8
"""Polynomials without a price, at most: degrees 0 to 7. Ten lose digits on boxes of 24 samples."""

PRICE_DECADES, RING_DECADES = 24.0, 20.0
"""Decades that prices span at most, up to order MOST_FREE; 12 above. With 24 the roughest modes of
order 8 miss their samples by 1e-7, with 20 by 2e-9, but functions of few digits in the middle of a
box lose two at its ends, where splines do not. Rings have no ends."""


@dataclass(frozen=True)
class Cosines:
    """One axis of the product layer: ``[1, √2 cos 2πf u, √2 sin 2πf u, u, R P_2(u/R), ...]``.

    Parameters
    ----------
    count : int
        Number of frequencies f; they are the first multiples of the fundamental one.
    fundamental : float
        In cycles per unit of the local coordinate.
    free : int
        Polynomials, 1 included, that may be free: at order s those of degree below s are, lines at
        least, and the others are left out. They are the last features, Legendre's on half a period
        R. With 0 there are none, and 1 has a price.
    """

    count: int
    fundamental: float
    free: int = 0

    @classmethod
    def lattice(
        cls, span: float, *, period: float = 1.25, band: float = 1.0, free: int | None = None
    ) -> "Cosines":
        """Frequencies for samples one unit apart on a box of `span` samples.

        They lie on a lattice of period ``period * span`` and reach up to `band` cycles per sample,
        that is, for ``band=1``, twice the sampling's Nyquist frequency. A box of one sample gets
        no waves. Half as many polynomials as samples are free, at most, and lines always.
        """
        if free is None:
            free = min(MOST_FREE, max(2, int(span) // 2))
        if span <= 1:
            return cls(0, 1.0, free)
        return cls(int(np.floor(band * period * span + 1e-9)), 1 / (period * span), free)

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 + 2 * self.count + max(0, self.free - 1)

    def prices(self, order: float) -> Floats:
        """What each feature costs in an energy of this order, (width,); 0 if it is free."""
        decades = 12.0 if order > MOST_FREE else PRICE_DECADES if self.free else RING_DECADES
        E = price(self._angular**2, order, decades)
        E = np.concatenate([E, E[1:]])  # of cosines and of sines
        if not self.free:
            return E
        below = np.arange(1, self.free) < max(2, math.ceil(order - 1e-6))
        return np.concatenate([[0.0], E[1:], np.where(below, 0.0, np.inf)])

    @property
    def _angular(self) -> Floats:
        """Angular frequency ω of the constant and the waves, (count + 1,)."""
        return 2 * np.pi * self.fundamental * np.arange(self.count + 1.0)

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Features, shape (..., width), or their derivative of the given order, at `u`."""
        return self.mixed(u, np.eye(self.width), order)

    def _polynomials(self, u: Array, n: int, order: int = 0) -> list[Array]:
        """R P_1(u/R), ..., R P_n at u, (m,), or their derivatives along u of the given order.

        By ``(k + 1) P_(k+1) = (2k + 1) t P_k - k P_(k-1)``, and for derivatives
        ``P_(k+1)' = P_(k-1)' + (2k + 1) P_k``.
        """
        R = 0.5 / self.fundamental
        one, t = namespace(u).ones_like(u), u / R
        P = [one, t]
        for k in range(1, n):
            P.append(((2 * k + 1) * t * P[k] - k * P[k - 1]) / (k + 1))
        for m in range(order):
            D = [0 * one, one / R if m == 0 else 0 * one]
            for k in range(1, n):
                D.append(D[k - 1] + (2 * k + 1) / R * P[k])
            P = D
        return [R * row for row in P[1 : n + 1]]

    def mixed(self, u: Array, mixing: Floats, order: int = 0) -> Array:
        """``a(u) mixing``, shape (..., r), mixing (width, r); a differentiated `order` times."""
        xp = namespace(u)
        C, S, omega = self._waves_of(mixing)
        for _ in range(order):
            C, S = omega[:, None] * S, -omega[:, None] * C
        flat, smooth = xp.reshape(u, (-1,)), self._used(mixing)
        cosines, sines = _waves(2 * np.pi * self.fundamental * flat, len(omega))
        lines = [row[None, :] for row in self._polynomials(flat, len(smooth), order)]
        rows = xp.concat([cosines, sines, *lines], axis=0)
        found = move(np.vstack([C, S, smooth]).T, u, u.dtype) @ rows  # (r, n)
        return xp.reshape(found.T, (*u.shape, -1))

    def _used(self, mixing: Floats) -> Floats:
        """The weights of P_1, ..., P_n in a mixing, up to the last that occurs; (n, r)."""
        smooth = mixing[2 * self.count + 1 :]
        return smooth[: int(np.flatnonzero(smooth.any(axis=1)).max(initial=-1)) + 1]

    def _waves_of(self, mixing: Floats) -> tuple[Floats, Floats, Floats]:
        """All of ``a(u) mixing`` but its polynomials: ``Σ_k C_k cos ω_k u + S_k sin ω_k u``.

        C and S, (K + 1, r), and ω.
        """
        K, root = self.count, 2**0.5
        C = np.vstack([mixing[:1], root * mixing[1 : K + 1]])
        S = np.vstack([0 * mixing[:1], root * mixing[K + 1 : 2 * K + 1]])
        return C, S, self._angular

    def pieces(self, mixing: Floats, n: int) -> Pieces:
        """``a(u) mixing`` for u between -n/2 and n/2, as polynomials on short intervals.

        On an interval of centre x and half-width h, ``u = x + h s``, by Jacobi and Anger

            exp(iωu) = exp(iωx) Σ_k (2 - δ_k0) i^k J_k(ωh) T_k(s) ,

        where the Bessel functions J_k fall faster than exponentially once k exceeds ωh.

        Notes
        -----
        Each coefficient is exact to rounding, and terms are dropped once they are below 1e-16 of
        the functions: values agree with the cosines to a few hundred rounding errors, second
        derivatives to 1e-11 of their size. At one cycle per unit 20 terms are left on a whole unit;
        16 on half of one, which takes as long in all, for there are more and smaller products.
        """
        C, S, omega = self._waves_of(mixing)
        h, x = 0.5, np.arange(n) + 0.5 - n / 2
        cos, sin = np.cos(np.outer(x, omega)), np.sin(np.outer(x, omega))
        size = np.hypot(C, S)
        least = 1e-16 * np.abs(cos @ C + sin @ S).max()
        total = np.zeros((1, len(x), mixing.shape[1]))
        T, ahead = np.ones(1), np.array([0.0, 1.0])  # T_k and T_(k+1), as coefficients of powers
        for k in range(60):
            J = _bessel(k, h * omega) * (1 if k == 0 else 2)
            if k and (np.abs(J) @ size).max() < least:
                break
            term = cos @ (J[:, None] * C) + sin @ (J[:, None] * S)
            total = np.concatenate([total, np.zeros((k + 1 - len(total), *term.shape))])
            total += T[:, None, None] * term
            T, ahead = ahead, 2 * np.append(0, ahead) - np.append(T, [0, 0])
            C, S = S, -C  # times i
        smooth = self._used(mixing)
        n_terms = max(len(total), len(smooth) + 1)
        total = np.concatenate([total, np.zeros((n_terms - len(total), *total.shape[1:]))])
        for k in range(len(smooth) + 1 if len(smooth) else 0):  # Taylor's series ends there
            D = np.stack(self._polynomials(x, len(smooth), k))
            total[k] += h**k / math.factorial(k) * (D.T @ smooth)
        return Pieces(-n / 2, 1, np.ascontiguousarray(np.moveaxis(total, 0, 1)))


def _bessel(k: int, z: Floats) -> Floats:
    """J_k(z) by its series: exact to rounding, relatively, for arguments of a few at most."""
    term = (z / 2) ** k / math.factorial(k)
    total = term
    for m in range(1, 16):
        term = term * -((z / 2) ** 2) / (m * (m + k))
        total = total + term
    return total


def _waves(theta: Array, n: int) -> tuple[Array, Array]:
    """Waves cos kθ and sin kθ for k = 0 ... n - 1, (n, len(theta)) each.

    From one sine and cosine a point by doubling, ``exp(i(k+m)θ) = exp(ikθ) exp(imθ)``: errors grow
    with log k only.
    """
    xp = namespace(theta)
    C, S = xp.ones_like(theta)[None, :], xp.zeros_like(theta)[None, :]
    c, s = xp.cos(theta), xp.sin(theta)  # exp(imθ)
    while C.shape[0] < n:
        C, S = xp.concat([C, C * c - S * s], axis=0), xp.concat([S, S * c + C * s], axis=0)
        c, s = c * c - s * s, 2 * c * s
    return C[:n, :], S[:n, :]
