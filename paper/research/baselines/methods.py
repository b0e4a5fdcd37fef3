"""The methods as choices: what each network is made of, and how Adam trains it.

Everywhere ``hidden`` is the width and ``layers`` counts the hidden layers: layers of neurons that
an activation follows. The linear output layer is not counted, nor is an encoding. (The codes of
SIREN and WIRE count the square matrices between hidden layers, one fewer.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from elmfield._array.checks import is_integer, positive


@runtime_checkable
class Method(Protocol):
    """What training asks of a method."""

    @property
    def rate(self) -> float:
        """Its own learning rate."""

    @property
    def betas(self) -> tuple[float, float]:
        """Adam's momenta."""

    @property
    def epsilon(self) -> float:
        """Adam's epsilon."""

    @property
    def interval(self) -> tuple[float, float]:
        """What every axis of the array is mapped to."""

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """A network with its first weights, on the processor."""


@dataclass(frozen=True, kw_only=True)
class _Perceptron:
    """What all methods have in common."""

    hidden: int
    layers: int
    rate: float
    betas = (0.9, 0.999)
    epsilon = 1e-8
    interval = (-1.0, 1.0)

    def __post_init__(self) -> None:
        integers(hidden=self.hidden, layers=self.layers)
        positives(rate=self.rate)


@dataclass(frozen=True, kw_only=True)
class SIREN(_Perceptron):
    """Settings of SIREN; see :func:`siren`."""

    first_omega: float
    omega: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positives(first_omega=self.first_omega, omega=self.omega)

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Sine layers."""
        from paper.research.baselines.networks import Sines

        sizes = [len(shape), *[self.hidden] * self.layers, channels]
        return Sines.drawn(sizes, self.first_omega, self.omega, rng)


@dataclass(frozen=True, kw_only=True)
class FFN(_Perceptron):
    """Settings of Fourier feature networks; see :func:`ffn`."""

    n_frequencies: int
    scale: float
    interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        integers(n_frequencies=self.n_frequencies)
        positives(scale=self.scale)

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Fixed Fourier features, then rectified layers."""
        from paper.research.baselines.networks import FourierFeatures

        sizes = [2 * self.n_frequencies, *[self.hidden] * self.layers, channels]
        return FourierFeatures.drawn(len(shape), sizes, self.scale, rng)


@dataclass(frozen=True, kw_only=True)
class GaussNet(_Perceptron):
    """Settings of a network of Gaussian activations; see :func:`gaussnet`."""

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positives(scale=self.scale)

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Layers of Gaussian bumps."""
        from paper.research.baselines.networks import Gaussians

        return Gaussians.drawn(
            [len(shape), *[self.hidden] * self.layers, channels], self.scale, rng
        )


@dataclass(frozen=True, kw_only=True)
class WIRE(_Perceptron):
    """Settings of WIRE; see :func:`wire`."""

    first_omega: float
    omega: float
    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positives(first_omega=self.first_omega, omega=self.omega, scale=self.scale)
        if self.hidden < 2:
            raise ValueError(f"`hidden` must be at least 2 for WIRE; got {self.hidden}.")

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Layers of complex Gabor wavelets."""
        from paper.research.baselines.networks import Gabors

        narrow = int(self.hidden / np.sqrt(2))
        sizes = [len(shape), *[narrow] * self.layers, channels]
        return Gabors.drawn(sizes, self.first_omega, self.omega, self.scale, rng)


@dataclass(frozen=True, kw_only=True)
class HashGrid(_Perceptron):
    """Settings of the multiresolution hash grid; see :func:`hashgrid`."""

    levels: int
    features: int
    table: int
    coarsest: int
    finest: int | None
    betas = (0.9, 0.99)
    epsilon = 1e-15
    interval = (0.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        integers(
            levels=self.levels, features=self.features, table=self.table, coarsest=self.coarsest
        )
        if self.finest is not None and not (
            is_integer(self.finest) and self.finest >= self.coarsest
        ):
            raise ValueError(
                "`finest` must be None or a whole number of at least `coarsest`, "
                f"{self.coarsest}; got {self.finest!r}."
            )

    def resolutions(self, shape: Sequence[int]) -> list[int]:
        """Cells on each axis, level by level: ``N_l = floor(N_min b^l)``, equation 2 of its paper.

        ``b = (N_max / N_min)^(1 / (L - 1))``, equation 3.
        """
        L, low = self.levels, self.coarsest
        high = max(max(shape), low) if self.finest is None else self.finest
        b = (high / low) ** (1 / max(L - 1, 1))
        # N_min b^(L-1) is N_max but for rounding, which must not take a cell away.
        return [int(np.floor(low * b**l * (1 + 1e-12))) for l in range(L)]

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Learned features on grids, then a small rectified network."""
        from paper.research.baselines.networks import PRIMES, HashedGrids

        if len(shape) > len(PRIMES):
            raise ValueError(
                f"a hash grid takes at most {len(PRIMES)} axes; got an array with {len(shape)}."
            )
        sizes = [self.levels * self.features, *[self.hidden] * self.layers, channels]
        return HashedGrids.drawn(
            len(shape), self.resolutions(shape), self.table, self.features, sizes, rng
        )


def integers(**numbers: object) -> None:
    """Refuse what is no integer of at least 1."""
    for name, value in numbers.items():
        if not is_integer(value) or value < 1:
            raise ValueError(f"`{name}` must be a whole number of at least 1; got {value!r}.")


def positives(**numbers: object) -> None:
    """Refuse what is no finite number above 0."""
    for name, value in numbers.items():
        positive(name, value)
