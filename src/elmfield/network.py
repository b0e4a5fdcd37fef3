"""The frozen hidden layers: local coordinates in, features out, with two derivatives.

:class:`Dense` is the paper's layer (Fourier features, a random dense layer, an activation).
:class:`Cosines` is one axis of the product layer: cosines and sines on a lattice of frequencies,
each with a price that grows with its frequency. Both are settled by their settings alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real

import numpy as np

from elmfield.backend import device, move, namespace
from elmfield.typing import Array, Floats

Activation = Callable[[Array, int], Array]


def _relu(z: Array, order: int) -> Array:
    xp = namespace(z)
    if order == 0:
        return xp.maximum(z, xp.zeros_like(z))
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

        z = gamma() @ W + b
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
        K, root = self.count, 2**0.5
        C = np.vstack([mixing[:1], root * mixing[1 : K + 1]])  # of cos kθ, k = 0 ... K
        S = np.vstack([0 * mixing[:1], root * mixing[K + 1 :]])
        omega = 2 * np.pi * self.fundamental * np.arange(K + 1)[:, None]
        for _ in range(order):
            C, S = omega * S, -omega * C
        waves = _waves(2 * np.pi * self.fundamental * xp.reshape(u, (-1,)), K + 1)
        rows = move(np.vstack([C, S]).T, u, u.dtype) @ waves  # (r, n)
        return xp.reshape(rows.T, (*u.shape, -1))


def _waves(theta: Array, n: int) -> Array:
    """The rows cos kθ, then sin kθ, for k = 0 ... n - 1; shape (2n, len(theta)).

    From one sine and cosine a point by doubling, ``exp(i(k+m)θ) = exp(ikθ) exp(imθ)``: errors grow
    with log k only.
    """
    xp = namespace(theta)
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
