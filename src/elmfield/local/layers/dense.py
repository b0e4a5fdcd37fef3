"""The paper's layer: Fourier features, a random dense layer, an activation; two derivatives."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmfield._array.backend import device, move, namespace
from elmfield._array.cache import memoised
from elmfield._array.checks import choice, is_integer, positive, shown
from elmfield._array.typing import Array, Floats, Integers

Activation = Callable[[Any, int], Any]
"""A function of what reaches a neuron, and of the order of a derivative."""


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
    "relu": _relu, "sin": _sin, "cos": _cos, "tanh": _tanh, "gaussian": _gaussian,
}  # fmt: skip
"""Each gives its value (order 0), first (1) or second (2) derivative; a caller may add others."""


LARGEST_SCALE = 1e100
"""Of Fourier features: second derivatives have its square, which float64 must hold."""


@dataclass(frozen=True)
class Dense:
    """The paper's random hidden layer: one draw, or with :meth:`each` one per region.

    ``H(t) = activation(γ(t) W + b)`` with ``γ(t) = [cos 2πtB, sin 2πtB]``, or ``γ(t) = t`` when
    there are no Fourier features.

    Parameters
    ----------
    width : int
        Hidden neurons m.
    frequencies : int
        Fourier features F; 0 feeds the local coordinates themselves.
    scale : float
        Standard deviation of the frequencies B.
    activation : {"relu", "sin", "cos", "tanh", "gaussian"} or callable
        Applied neuron by neuron; ``activation(z, order)`` gives values, or the first or second
        derivative, in the library of z.
    draw : {"normal", "uniform"}
        Weights and biases: standard normal, or uniform on [-1, 1].
    seed : int
        Of the NumPy generator that draws them, in float64, on every backend.

    Notes
    -----
    Neurons are drawn one after the other: a wider layer begins with the narrower one.

    Examples
    --------
    >>> import elmfield as ef
    >>> B, W, b = ef.Dense(64, frequencies=10).parameters(2)
    >>> B.shape, W.shape, b.shape
    ((2, 10), (20, 64), (64,))
    """

    width: int = 1024
    frequencies: int = 10
    scale: float = 1.0
    activation: str | Activation = "relu"
    draw: str = "normal"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (("width", 1, 24), ("frequencies", 0, 24), ("seed", 0, 128)):
            if not is_integer(n := getattr(self, name)) or not least <= n < 1 << most:
                raise ValueError(
                    f"`{name}` must be a whole number, at least {least} and below 2^{most}; got "
                    f"{shown(n)}."
                )
        if positive("scale", self.scale) > LARGEST_SCALE:
            raise ValueError(f"`scale` must be at most {LARGEST_SCALE:g}; got {self.scale:g}.")
        if not callable(self.activation):
            choice("activation", self.activation, sorted(ACTIVATIONS))
        choice("draw", self.draw, ("normal", "uniform"))

    @memoised(32)
    def parameters(self, d: int) -> tuple[Floats, Floats, Floats]:
        """B, W and b for `d` axes; shapes (d, F), (2F or d, m), (m,)."""
        rng = np.random.default_rng(self.seed)
        F, m = self.frequencies, self.width
        B = self.scale * rng.standard_normal((d, F))
        rows = (m, (2 * F or d) + 1)
        Wb = rng.standard_normal(rows) if self.draw == "normal" else rng.uniform(-1, 1, rows)
        return B, np.ascontiguousarray(Wb[:, :-1].T), np.ascontiguousarray(Wb[:, -1])

    def __call__(self, t: Array, order: tuple[int, ...] | None = None) -> Array:
        """Features H, shape (..., m), at local coordinates `t`, shape (..., d), in [-1, 1].

        `order` asks for a mixed derivative: how often along each axis, at most twice in all.
        """
        return self._features(t, order, self.parameters(t.shape[-1]))

    def of_region(self, region: int) -> "Dense":
        """The layer that a region draws for itself: the same, with a seed of (seed, region)."""
        words = np.random.SeedSequence([self.seed, int(region)]).generate_state(4)
        return replace(self, seed=int.from_bytes(words.astype("<u4").tobytes(), "little"))

    def each(self, t: Array, order: tuple[int, ...] | None, regions: Integers) -> Array:
        """Features of each region's own layer, (G, p, m), at local coordinates t, (G, p, d)."""
        drawn = [self.of_region(i).parameters(t.shape[-1]) for i in regions.tolist()]
        B, W, b = (np.stack(parts) for parts in zip(*drawn))
        return self._features(t, order, (B, W, b[:, None, :]))

    def _features(
        self, t: Array, order: tuple[int, ...] | None, drawn: tuple[Floats, Floats, Floats]
    ) -> Array:
        xp = namespace(t)
        d = t.shape[-1]
        B, W, b = (move(p, t, t.dtype) for p in drawn)
        along = [k for k, times in enumerate(order or ()) for _ in range(times)]
        own = self.activation
        act: Activation = ACTIVATIONS[own] if isinstance(own, str) else own

        phase = 2 * xp.pi * (t @ B)
        c, s = xp.cos(phase), xp.sin(phase)

        def gamma(*axes: int) -> Array:  # the encoding, differentiated along the given axes
            if not self.frequencies:
                unit = xp.eye(d, dtype=t.dtype, device=device(t))
                return xp.zeros_like(t) + unit[axes[0], :] * (len(axes) == 1) if axes else t
            factor = xp.ones((), dtype=t.dtype, device=device(t))
            for k in axes:
                factor = factor * (2 * xp.pi * (B[k, :] if B.ndim == 2 else B[:, k, None, :]))
            parts = ((c, s), (-s, c), (-c, -s))[len(axes)]
            return xp.concat([p * factor for p in parts], axis=-1)

        z = gamma() @ W
        z += b
        if not along:
            return act(z, 0)
        k = along[0]
        if len(along) == 1:
            return act(z, 1) * (gamma(k) @ W)
        l = along[1]
        return act(z, 2) * (gamma(k) @ W) * (gamma(l) @ W) + act(z, 1) * (gamma(k, l) @ W)
