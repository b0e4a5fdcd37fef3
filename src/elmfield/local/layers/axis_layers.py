"""One axis of a product layer: what such a layer must have, and ours of cosines and straight lines.

:class:`Pieces` has the functions of a layer as polynomials, for many points.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from elmfield._array.backend import device, move, namespace, requires_grad
from elmfield._array.typing import Array, Floats
from elmfield.local.energies import price


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

    def scaled(self, u: Floats) -> Floats:
        """Where u lies, counted in intervals; what lies beyond them is moved to the ends."""
        at = (np.asarray(u, np.float64) - self.low) * self.per_unit
        return np.clip(at, 0, np.nextafter(len(self.coefficients), 0), out=at)

    def powers(self, s: Floats, order: int = 0) -> Floats:
        """The powers of s, shape (p, ...), or their derivative along u of the given order."""
        p = self.coefficients.shape[1]
        P = np.empty((p, *s.shape))
        P[0] = 1
        m, power = 1, s
        while m < p:  # s^(m + k) = s^m s^k: a few long products
            more = min(m, p - m)
            np.multiply(P[:more], power, out=P[m : m + more])
            m, power = 2 * m, power * power
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
        and what is free in it is settled by the samples alone. Only 1 and u may be free, or
        multiples of them; a layer without free features has positive prices throughout.
        """

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Features, shape (..., width), or their derivative of the given order, at `u`."""

    def mixed(self, u: Array, mixing: Floats, order: int = 0) -> Array:
        """``a(u) mixing``, shape (..., r), mixing (width, r); a differentiated `order` times."""

    def pieces(self, mixing: Floats, n: int) -> Pieces:
        """``a(u) mixing`` for u between -n/2 and n/2, as polynomials on short intervals."""


MakeLayer = Callable[[int], AxisLayer]
"""The layer for a box of so many samples on an axis, as ``Cosines.lattice``."""


@dataclass(frozen=True)
class Cosines:
    """One axis of the product layer: ``a(u) = [1, √2 cos 2πf u, √2 sin 2πf u]``, perhaps u.

    Parameters
    ----------
    count : int
        Number of frequencies f; they are the first multiples of the fundamental one.
    fundamental : float
        In cycles per unit of the local coordinate.
    lines : bool
        Whether straight lines are free: the constant has no price, and u itself is one more
        feature, the last, without one.
    """

    count: int
    fundamental: float
    lines: bool = False

    @classmethod
    def lattice(
        cls, span: float, *, period: float = 1.25, band: float = 1.0, lines: bool = True
    ) -> "Cosines":
        """Frequencies for samples one unit apart on a box of `span` samples.

        They lie on a lattice of period ``period * span`` and reach up to `band` cycles per sample,
        that is, for ``band=1``, twice the sampling's Nyquist frequency. A box of one sample gets
        no waves.
        """
        if span <= 1:
            return cls(0, 1.0, lines)
        return cls(int(np.floor(band * period * span + 1e-9)), 1 / (period * span), lines)

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 + 2 * self.count + self.lines

    @property
    def angular(self) -> Floats:
        """Angular frequency ω of the constant and each wave, in feature order; u has none."""
        omega = 2 * np.pi * self.fundamental * np.arange(1, self.count + 1)
        return np.concatenate([[0.0], omega, omega])

    def prices(self, order: float) -> Floats:
        """What each feature costs in an energy of this order, (width,); 0 if it is free."""
        E = price(self.angular**2, order)
        return np.concatenate([[0.0], E[1:], [0.0]]) if self.lines else E

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Features, shape (..., width), or their derivative of the given order, at `u`."""
        xp, K, root = namespace(u), self.count, 2**0.5
        flat = xp.reshape(u, (-1,))
        waves = _waves(2 * np.pi * self.fundamental * flat, K + 1)
        C, S = waves[: K + 1, :], waves[K + 1 :, :]
        for _ in range(order):
            omega = move(2 * np.pi * self.fundamental * np.arange(K + 1.0)[:, None], u, u.dtype)
            C, S = -omega * S, omega * C
        rows = [C[:1, :], root * C[1:, :], root * S[1:, :]]
        if self.lines:
            line = flat if order == 0 else xp.full_like(flat, float(order == 1))
            rows.append(line[None, :])
        return xp.reshape(xp.concat(rows, axis=0).T, (*u.shape, -1))

    def mixed(self, u: Array, mixing: Floats, order: int = 0) -> Array:
        """``a(u) mixing``, shape (..., r), mixing (width, r); a differentiated `order` times."""
        xp = namespace(u)
        C, S, omega = self._waves_of(mixing)
        for _ in range(order):
            C, S = omega[:, None] * S, -omega[:, None] * C
        flat, line = xp.reshape(u, (-1,)), None
        if self.lines and order == 0:
            S[0], line = mixing[-1], flat
        elif self.lines and order == 1:
            C[0] += mixing[-1]
        waves = _waves(2 * np.pi * self.fundamental * flat, len(omega), line)
        rows = move(np.vstack([C, S]).T, u, u.dtype) @ waves  # (r, n)
        return xp.reshape(rows.T, (*u.shape, -1))

    def _waves_of(self, mixing: Floats) -> tuple[Floats, Floats, Floats]:
        """All of ``a(u) mixing`` but its part in u: ``Σ_k C_k cos ω_k u + S_k sin ω_k u``.

        C and S, (K + 1, r), and ω.
        """
        K, root = self.count, 2**0.5
        C = np.vstack([mixing[:1], root * mixing[1 : K + 1]])
        S = np.vstack([0 * mixing[:1], root * mixing[K + 1 : 2 * K + 1]])
        return C, S, 2 * np.pi * self.fundamental * np.arange(K + 1.0)

    def pieces(self, mixing: Floats, n: int, per_unit: int = 1) -> Pieces:
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
        h = 0.5 / per_unit
        x = (np.arange(n * per_unit) + 0.5) / per_unit - n / 2
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
        if self.lines:
            total = np.concatenate([total, np.zeros((max(0, 2 - len(total)), *total.shape[1:]))])
            total[0] += x[:, None] * mixing[-1]
            total[1] += h * mixing[-1]
        return Pieces(-n / 2, per_unit, np.ascontiguousarray(np.moveaxis(total, 0, 1)))


def _bessel(k: int, z: Floats) -> Floats:
    """J_k(z) by its series: exact to rounding, relatively, for arguments of a few at most."""
    term = (z / 2) ** k / math.factorial(k)
    total = term
    for m in range(1, 16):
        term = term * -((z / 2) ** 2) / (m * (m + k))
        total = total + term
    return total


def _waves(theta: Array, n: int, line: Array | None = None) -> Array:
    """The rows cos kθ, then sin kθ, for k = 0 ... n - 1; shape (2n, len(theta)).

    sin 0θ is 0 and of no use: `line`, if there is one, takes its place.

    From one sine and cosine a point by doubling, ``exp(i(k+m)θ) = exp(ikθ) exp(imθ)``: errors grow
    with log k only. That is done in place, which no library can differentiate: `theta` that it
    follows gets a sine and cosine for each.
    """
    xp = namespace(theta)
    if requires_grad(theta):
        phase = move(np.arange(n)[:, None], theta, theta.dtype) * theta
        first = xp.sin(phase[:1, :]) if line is None else line[None, :]
        return xp.concat([xp.cos(phase), first, xp.sin(phase[1:, :])], axis=0)
    out = xp.empty((2 * n, theta.shape[0]), dtype=theta.dtype, device=device(theta))
    out[0, :], out[n, :] = xp.ones_like(theta), xp.zeros_like(theta)
    m = 1
    while m < n:
        if m == 1:
            zc, zs = xp.cos(theta), xp.sin(theta)
        else:
            zc, zs = zc * zc - zs * zs, 2 * zc * zs  # exp(imθ)
        j = min(m, n - m)
        c, s = out[:j, :], out[n : n + j, :]
        out[m : m + j, :] = c * zc - s * zs
        out[n + m : n + m + j, :] = s * zc + c * zs
        m *= 2
    if line is not None:
        out[n, :] = line
    return out
