"""Functions of one variable as polynomials on short intervals: rows for many points."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from elmfield._array.memory import Space, fresh
from elmfield._array.typing import Floats


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

    def powers(self, s: Floats, order: int = 0, space: Space = fresh) -> Floats:
        """The powers of s, shape (p, ...), or their derivative along u of the given order."""
        p = self.coefficients.shape[1]
        P = space("powers", p, *s.shape)
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

    def at(self, j: np.ndarray, s: Floats, order: int = 0, space: Space = fresh) -> Floats:
        """The functions, (n, r), at positions s in intervals j, (n,) both.

        Points are sorted by interval into tiles of equal length, each a small matrix product;
        `space` gives the memory for them.
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
        P = self.powers(s.take(point), order, space).reshape(p, -1, length)
        tables = table.take(owner, axis=0, out=space("tables", len(owner), p, r), mode="clip")
        rows = np.matmul(P.transpose(1, 2, 0), tables, out=space("tiles", len(owner), length, r))
        return rows.reshape(-1, r).take(back, axis=0, out=space("rows", n, r), mode="clip")


def split(at: Floats) -> tuple[np.ndarray, Floats]:
    """Intervals j, in as few bits as hold them, and positions s between -1 and 1, of scaled u."""
    j = at.astype(np.uint8 if at.max(initial=0) < 0x100 else np.int64)
    s: Floats = np.subtract(at, j)
    s *= 2
    s -= 1
    return j, s
