"""The frozen hidden layers: local coordinates in, features out, with two derivatives.

:class:`Dense` is the paper's layer (Fourier features, a random dense layer, an activation).
:class:`Cosines` is one axis of the product layer: cosines and sines on a lattice of frequencies,
each with a price that grows with its frequency. Both are settled by their settings alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Real

import numpy as np

from elmfield._array.backend import device, learns, move, namespace
from elmfield._array.memory import Space, fresh
from elmfield._array.typing import Array, Floats

Activation = Callable[[Array, int], Array]


def _relu(z: Array, order: int) -> Array:
    xp = namespace(z)
    if order == 0:
        return xp.maximum(z, xp.zeros((), dtype=z.dtype, device=device(z)))
    # The second derivative is a Dirac on a set of measure zero; between kinks it is 0.
    return xp.astype(z > 0, z.dtype) if order == 1 else xp.zeros_like(z)


def _sin(z: Array, order: int) -> Array:
    xp = namespace(z)
    return (xp.sin(z), xp.cos(z), -xp.sin(z))[order]


def _cos(z: Array, order: int) -> Array:
    xp = namespace(z)
    return (xp.cos(z), -xp.sin(z), -xp.cos(z))[order]


def _tanh(z: Array, order: int) -> Array:
    y = namespace(z).tanh(z)
    return (y, 1 - y * y, -2 * y * (1 - y * y))[order]


def _gaussian(z: Array, order: int) -> Array:
    y = namespace(z).exp(-z * z / 2)
    return (y, -z * y, (z * z - 1) * y)[order]


ACTIVATIONS: dict[str, Activation] = {
    "relu": _relu,
    "sin": _sin,
    "cos": _cos,
    "tanh": _tanh,
    "gaussian": _gaussian,
}
"""Each gives its value (order 0), first (1) or second (2) derivative."""


def _is_whole(n: object) -> bool:
    return isinstance(n, Real) and not isinstance(n, bool) and float(n).is_integer()


@dataclass(frozen=True)
class Dense:
    """The paper's random hidden layer, shared by all regions.

    ``H(t) = activation(γ(t) W + b)`` with ``γ(t) = [cos 2πtB, sin 2πtB]``, or ``γ(t) = t`` when
    there are no Fourier features.

    Parameters
    ----------
    width : int
        Hidden neurons m.
    n_frequencies : int
        Fourier features F; 0 feeds the local coordinates themselves.
    scale : float
        Standard deviation of the frequencies B.
    activation : {"relu", "sin", "cos", "tanh", "gaussian"}
        Applied neuron by neuron.
    draw : {"normal", "uniform"}
        Weights and biases: standard normal, or uniform on [-1, 1].
    seed : int
        Of the NumPy generator that draws them, in float64, on every backend.

    Notes
    -----
    Neurons are drawn one after the other: a wider layer begins with the narrower one.
    """

    width: int = 1024
    n_frequencies: int = 10
    scale: float = 1.0
    activation: str = "relu"
    draw: str = "normal"
    seed: int = 0

    def __post_init__(self) -> None:
        if not _is_whole(self.width) or self.width < 1:
            raise ValueError(
                f"`width` must be a whole number of neurons, at least 1; got {self.width!r}."
            )
        if not _is_whole(self.n_frequencies) or self.n_frequencies < 0:
            raise ValueError(
                "`frequencies` must be a whole number, 0 (none) or more; got "
                f"{self.n_frequencies!r}."
            )
        if not (isinstance(self.scale, Real) and 0 < self.scale < np.inf):
            raise ValueError(f"`scale` must be a positive number; got {self.scale!r}.")
        if self.activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` must be one of {sorted(ACTIVATIONS)}; got {self.activation!r}."
            )
        if self.draw not in ("normal", "uniform"):
            raise ValueError(f"`draw` must be 'normal' or 'uniform'; got {self.draw!r}.")
        object.__setattr__(self, "width", int(self.width))
        object.__setattr__(self, "n_frequencies", int(self.n_frequencies))

    def parameters(self, d: int) -> tuple[Floats, Floats, Floats]:
        """B, W and b for `d` axes; shapes (d, F), (2F or d, m), (m,)."""
        return _draw(self, d)

    def __call__(self, t: Array, order: tuple[int, ...] | None = None) -> Array:
        """Features H, shape (..., m), at local coordinates `t`, shape (..., d), in [-1, 1].

        `order` asks for a mixed derivative: how often along each axis, at most twice in all.
        """
        xp = namespace(t)
        d = t.shape[-1]
        B, W, b = (move(p, t, t.dtype) for p in self.parameters(d))
        along = [k for k, times in enumerate(order or ()) for _ in range(times)]
        act = ACTIVATIONS[self.activation]

        if self.n_frequencies:
            phase = 2 * xp.pi * (t @ B)
            c, s = xp.cos(phase), xp.sin(phase)

            def gamma(*axes: int) -> Array:  # derivatives of the encoding along the given axes
                factor = xp.ones_like(B[0, :])
                for k in axes:
                    factor = factor * (2 * xp.pi * B[k, :])
                parts = ((c, s), (-s, c), (-c, -s))[len(axes)]
                return xp.concat([p * factor for p in parts], axis=-1)
        else:

            def gamma(*axes: int) -> Array:
                if not axes:
                    return t
                unit = xp.zeros_like(t)
                if len(axes) == 1:
                    unit = unit + xp.eye(d, dtype=t.dtype, device=device(t))[axes[0], :]
                return unit

        z = gamma() @ W
        z += b
        if not along:
            return act(z, 0)
        k = along[0]
        if len(along) == 1:
            return act(z, 1) * (gamma(k) @ W)
        l = along[1]
        return act(z, 2) * (gamma(k) @ W) * (gamma(l) @ W) + act(z, 1) * (gamma(k, l) @ W)


@lru_cache(maxsize=8)
def _draw(net: Dense, d: int) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(net.seed)
    F, m = net.n_frequencies, net.width
    B = net.scale * rng.standard_normal((d, F))
    rows = (m, (2 * F or d) + 1)
    Wb = rng.standard_normal(rows) if net.draw == "normal" else rng.uniform(-1, 1, rows)
    return B, np.ascontiguousarray(Wb[:, :-1].T), np.ascontiguousarray(Wb[:, -1])


@dataclass(frozen=True)
class Cosines:
    """One axis of the product layer: ``a(u) = [1, √2 cos 2πf u, √2 sin 2πf u]``.

    Parameters
    ----------
    count : int
        Number of frequencies f; they are the first multiples of the fundamental one.
    fundamental : float
        In cycles per unit of the local coordinate.
    """

    count: int
    fundamental: float

    @classmethod
    def lattice(cls, span: float, *, period: float = 1.25, band: float = 1.0) -> "Cosines":
        """Frequencies for samples one unit apart on a box of `span` samples.

        They lie on a lattice of period ``period * span`` and reach up to `band` cycles per sample,
        that is, for ``band=1``, twice the sampling's Nyquist frequency. A box of one sample gets
        the constant alone.
        """
        if span <= 1:
            return cls(0, 1.0)
        return cls(int(np.floor(band * period * span + 1e-9)), 1 / (period * span))

    @property
    def width(self) -> int:
        """Number of features."""
        return 1 + 2 * self.count

    @property
    def angular(self) -> Floats:
        """Angular frequency ω of each feature, in feature order."""
        omega = 2 * np.pi * self.fundamental * np.arange(1, self.count + 1)
        return np.concatenate([[0.0], omega, omega])

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Features, shape (..., width), or their derivative of the given order, at `u`."""
        return self.mixed(u, np.eye(self.width), order)

    def mixed(self, u: Array, mixing: Floats, order: int = 0) -> Array:
        """``a(u) mixing``, shape (..., r), mixing (width, r); a differentiated `order` times."""
        xp = namespace(u)
        C, S, omega = self._waves_of(mixing)
        for _ in range(order):
            C, S = omega[:, None] * S, -omega[:, None] * C
        waves = _waves(2 * np.pi * self.fundamental * xp.reshape(u, (-1,)), len(omega))
        rows = move(np.vstack([C, S]).T, u, u.dtype) @ waves  # (r, n)
        return xp.reshape(rows.T, (*u.shape, -1))

    def _waves_of(self, mixing: Floats) -> tuple[Floats, Floats, Floats]:
        """``a(u) mixing = Σ_k C_k cos ω_k u + S_k sin ω_k u``: C, S, (K + 1, r), and ω."""
        K, root = self.count, 2**0.5
        C = np.vstack([mixing[:1], root * mixing[1 : K + 1]])
        S = np.vstack([0 * mixing[:1], root * mixing[K + 1 :]])
        return C, S, 2 * np.pi * self.fundamental * np.arange(K + 1.0)

    def pieces(self, mixing: Floats, n: int, per_unit: int = 1) -> "Pieces":
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
        return Pieces(-n / 2, per_unit, np.ascontiguousarray(np.moveaxis(total, 0, 1)))


def _bessel(k: int, z: Floats) -> Floats:
    """J_k(z) by its series: exact to rounding, relatively, for arguments of a few at most."""
    term = (z / 2) ** k / math.factorial(k)
    total = term
    for m in range(1, 16):
        term = term * -((z / 2) ** 2) / (m * (m + k))
        total = total + term
    return total


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


def _waves(theta: Array, n: int) -> Array:
    """The rows cos kθ, then sin kθ, for k = 0 ... n - 1; shape (2n, len(theta)).

    From one sine and cosine a point by doubling, ``exp(i(k+m)θ) = exp(ikθ) exp(imθ)``: errors grow
    with log k only. That is done in place, which no library can differentiate: `theta` that it
    follows gets a sine and cosine for each.
    """
    xp = namespace(theta)
    if learns(theta):
        phase = move(np.arange(n)[:, None], theta, theta.dtype) * theta
        return xp.concat([xp.cos(phase), xp.sin(phase)], axis=0)
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
    return out


def price(omega2: Floats, order: float) -> Floats:
    """``E = (ε + ω²)^s``: what a neuron of squared frequency ω² (per sample) costs in the energy.

    Notes
    -----
    ε = 0.01 leaves everything slower than about 60 samples nearly free. For high orders it grows so
    that E, and with it the condition number of the kernel, spans no more than twelve decades; the
    held-out error does not feel it (docs/defaults.md).
    """
    epsilon = max(0.01, np.pi**2 * 10 ** (-12 / order))
    return np.asarray((epsilon + omega2) ** order)
