"""Stationary priors of the samples of a grid: ``S(ω) = a² (ε² + |ω|²)^-s`` of its waves."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import fft
from scipy.optimize import minimize

from elmfield._array.typing import Floats, Integers

BANDS = 24
"""Of the spectrum."""


@dataclass(frozen=True)
class Waves:
    """Orthonormal waves of a grid: cosines, or sines and cosines along periodic axes."""

    shape: tuple[int, ...]
    periodic: tuple[bool, ...]

    def apply(self, x: Floats, *, back: bool = False) -> Floats:
        """Coefficients of samples, (N, C) both; samples of coefficients on the way `back`."""
        X = x.reshape(*self.shape, -1)
        for k, wraps in enumerate(self.periodic):
            if wraps:  # Hartley's transform is its own inverse
                Z = fft.fft(X, axis=k, norm="ortho")
                X = Z.real - Z.imag
            else:
                X = (fft.idct if back else fft.dct)(X, axis=k, norm="ortho")
        return np.asarray(X.reshape(x.shape))

    @property
    def squares(self) -> Floats:
        """|ω|² of each wave, per sample, (N,)."""
        total = np.zeros(())
        for n, wraps in zip(self.shape, self.periodic):
            omega = 2 * np.pi * np.fft.fftfreq(n) if wraps else np.pi * np.arange(n) / n
            total = np.add.outer(total, omega**2)
        return np.asarray(total.reshape(-1))


class Spectrum(NamedTuple):
    """``a² (ε² + |ω|²)^-s``: log a², ε², s."""

    log: float
    floor: float
    power: float

    def __call__(self, squares: Floats) -> Floats:
        """S of waves of these |ω|²."""
        return np.asarray(np.exp(self.log - self.power * np.log(self.floor + squares)))


def bands_of(squares: Floats) -> Integers:
    """Bands of |ω|, evenly by its logarithm; the mean has its own, 0."""
    omega = np.sqrt(squares)
    low, high = np.log(omega[1:].min()), np.log(omega.max())
    at = (np.log(np.maximum(omega, 1e-300)) - low) / max(high - low, 1e-9) * (BANDS - 1)
    band = 1 + np.clip(at.astype(np.int64), 0, BANDS - 1)
    band[0] = 0
    return np.asarray(band)


def fitted(middle: Floats, power: Floats, weight: Floats, before: Spectrum) -> Spectrum:
    """The spectrum nearest to means over bands, by their likelihood; power 0.6 to 6."""
    own = np.flatnonzero(weight[1:] > 0) + 1
    if len(own) < 2:
        return before
    w, P, x = weight[own], np.maximum(power[own], 1e-300), middle[own]

    def cost(t: Floats) -> float:
        log = t[0] - t[2] * np.log(np.exp(t[1]) + x)
        return float(w @ (log + P * np.exp(np.minimum(-log, 600)))) + 1e3 * float(
            max(0, 0.6 - t[2]) ** 2 + max(0, t[2] - 6) ** 2 + max(0, t[1]) ** 2
        ) * float(w.sum())

    start = np.asarray([before.log, np.log(before.floor), before.power])
    found = minimize(cost, start, method="Nelder-Mead", options={"maxfev": 400}).x
    return Spectrum(float(found[0]), float(np.exp(max(found[1], -600))), float(found[2]))
