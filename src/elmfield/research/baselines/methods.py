"""The methods as choices: what each network is made of, with the settings of its own paper.

Everywhere ``hidden`` is the width and ``layers`` counts the hidden layers: layers of neurons that
an activation follows. The linear output layer is not counted, nor is an encoding. (The codes of
SIREN and WIRE count the square matrices between hidden layers, one fewer.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol, runtime_checkable

import numpy as np

from elmfield.field import is_number


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
        whole(hidden=self.hidden, layers=self.layers)
        positive(rate=self.rate)


@dataclass(frozen=True, kw_only=True)
class SIREN(_Perceptron):
    """Settings of SIREN; see :func:`siren`."""

    first_omega: float
    omega: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(first_omega=self.first_omega, omega=self.omega)

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Sine layers."""
        from elmfield.research.baselines.networks import Sines

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
        whole(n_frequencies=self.n_frequencies)
        positive(scale=self.scale)

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Fixed Fourier features, then rectified layers."""
        from elmfield.research.baselines.networks import FourierFeatures

        sizes = [2 * self.n_frequencies, *[self.hidden] * self.layers, channels]
        return FourierFeatures.drawn(len(shape), sizes, self.scale, rng)


@dataclass(frozen=True, kw_only=True)
class GaussNet(_Perceptron):
    """Settings of a network of Gaussian activations; see :func:`gaussnet`."""

    scale: float

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(scale=self.scale)

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Layers of Gaussian bumps."""
        from elmfield.research.baselines.networks import Gaussians

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
        positive(first_omega=self.first_omega, omega=self.omega, scale=self.scale)
        if self.hidden < 2:
            raise ValueError(f"`hidden` must be at least 2 for WIRE; got {self.hidden}.")

    def network(self, shape: Sequence[int], channels: int, rng: np.random.Generator) -> Any:
        """Layers of complex Gabor wavelets."""
        from elmfield.research.baselines.networks import Gabors

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
        whole(levels=self.levels, features=self.features, table=self.table, coarsest=self.coarsest)
        if self.finest is not None and not is_whole(self.finest, self.coarsest):
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
        from elmfield.research.baselines.networks import PRIMES, HashedGrids

        if len(shape) > len(PRIMES):
            raise ValueError(
                f"a hash grid takes at most {len(PRIMES)} axes; got an array with {len(shape)}."
            )
        sizes = [self.levels * self.features, *[self.hidden] * self.layers, channels]
        return HashedGrids.drawn(
            len(shape), self.resolutions(shape), self.table, self.features, sizes, rng
        )


def siren(
    *,
    hidden: int = 256,
    layers: int = 4,
    first_omega: float = 30,
    omega: float = 30,
    rate: float = 1e-4,
) -> SIREN:
    """SIREN (Sitzmann et al. 2020): ``sin(omega (W x + b))`` in every hidden layer.

    Parameters
    ----------
    hidden, layers : int
        Width, and number of hidden layers. Its image experiment has 256 and 4: `modules.py` of the
        published code says three, and counts the square matrices only.
    first_omega, omega : float
        Frequency of the first and of the other layers (section 3.2).
    rate : float
        Learning rate (`experiment_scripts/train_img.py`).

    Notes
    -----
    Weights are uniform within ``±1/d`` in the first layer and within ``±sqrt(6/n)/omega`` after it,
    biases within ``±1/sqrt(n)``, where n numbers enter (`modules.py`: `first_layer_sine_init`,
    `sine_init`, and torch's own biases).
    """
    return SIREN(hidden=hidden, layers=layers, first_omega=first_omega, omega=omega, rate=rate)


def ffn(
    *,
    hidden: int = 256,
    layers: int = 3,
    n_frequencies: int = 256,
    scale: float = 10,
    rate: float = 1e-4,
) -> FFN:
    """Fourier features and a rectified network (Tancik et al. 2020).

    ``γ(x) = [cos 2π x B, sin 2π x B]`` with B fixed, Gaussian of standard deviation `scale`.

    Parameters
    ----------
    hidden, layers : int
        Width, and number of hidden layers; `Demo.ipynb` of the published code has 4 layers, the
        output layer counted.
    n_frequencies : int
        Columns of B.
    scale : float
        Their spread, in cycles over the array: coordinates run from 0 to 1 here, as in its paper.
    rate : float
        Learning rate (`Demo.ipynb`).

    Notes
    -----
    Glorot's normal weights and biases of standard deviation 0.01, as in `stax.Dense`; JAX cuts off
    the tails of the weights and keeps their variance, here they stay. The output is linear; the
    published code ends in a sigmoid, for pictures between 0 and 1.
    """
    return FFN(hidden=hidden, layers=layers, n_frequencies=n_frequencies, scale=scale, rate=rate)


def gaussnet(
    *, hidden: int = 256, layers: int = 4, scale: float = 0.09, rate: float = 1e-4
) -> GaussNet:
    """Gaussian activations ``exp(-z² / 2a²)`` (Ramasinghe and Lucey 2022).

    Parameters
    ----------
    hidden, layers : int
        Width, and number of hidden layers.
    scale : float
        The bump's width a; 0.09 in the authors' `run_nerf_helpers.py`.
    rate : float
        Learning rate.

    Notes
    -----
    Weights and biases are uniform within ``±1/sqrt(n)``, torch's own, as in the authors' code.
    WIRE's code writes the same bump as ``exp(-(s z)²)``, so ``s = 1 / (a sqrt 2)``: 0.09 here is
    7.9 there, and its 10 and 30 are 0.071 and 0.024 here.
    """
    return GaussNet(hidden=hidden, layers=layers, scale=scale, rate=rate)


def wire(
    *,
    hidden: int = 256,
    layers: int = 3,
    first_omega: float = 20,
    omega: float = 20,
    scale: float = 30,
    rate: float = 5e-3,
) -> WIRE:
    """WIRE (Saragadam et al. 2023): complex Gabor wavelets ``exp(i omega z - |scale z|²)``.

    Parameters
    ----------
    hidden, layers : int
        Width, and number of hidden layers. There are ``hidden / sqrt 2`` complex neurons, so that
        a real network of this width has as many parameters (`modules/wire.py`).
    first_omega, omega : float
        Frequency of the first and of the other layers; 20 is the authors' advice for pictures
        (`wire_image_denoise.py`).
    scale : float
        Narrowness of the envelope; 30, from the same place.
    rate : float
        Learning rate; the same place says that WIRE works best at 5e-3 to 2e-2.

    Notes
    -----
    Real and imaginary parts of weights and biases are uniform within ``±1/sqrt(n)``, torch's own;
    the first layer is real, and the real part of the output counts (`modules/wire.py`). The
    output's imaginary bias, which never reaches it, is left out.
    """
    return WIRE(
        hidden=hidden, layers=layers, first_omega=first_omega, omega=omega, scale=scale, rate=rate
    )


def hashgrid(
    *,
    hidden: int = 64,
    layers: int = 2,
    levels: int = 16,
    features: int = 2,
    table: int = 2**19,
    coarsest: int = 16,
    finest: int | None = None,
    rate: float = 1e-2,
) -> HashGrid:
    """A multiresolution hash grid and a small rectified network (Müller et al. 2022).

    Parameters
    ----------
    hidden, layers : int
        Width, and number of hidden layers, of the network.
    levels, features : int
        Grids, and learned numbers per vertex (table 1 of its paper).
    table : int
        Vertices stored per level, at most; 2^14 to 2^24 in its paper. A grid with no more vertices
        is stored as it is; a larger one shares entries by a spatial hash.
    coarsest, finest : int
        Cells on each axis, of the first and of the last level. Without `finest`, as many as the
        longest axis has samples; its paper takes half the width of (much larger) pictures.
    rate : float
        Learning rate; Adam's second momentum 0.99 and epsilon 1e-15 belong to it
        (`configs/image/base.json`).

    Notes
    -----
    Entries are uniform within ±1e-4 (section 4), weights Glorot's uniform, biases zero at first
    (the published code has none). Coordinates run from 0 to 1. On CUDA, gradients of shared entries
    are summed in no fixed order: two runs agree to rounding, not to the bit.
    """
    return HashGrid(
        hidden=hidden,
        layers=layers,
        levels=levels,
        features=features,
        table=table,
        coarsest=coarsest,
        finest=finest,
        rate=rate,
    )


def paper_grid(name: str) -> tuple[Method, ...]:
    """The 18 settings the paper searches for a method: hidden × layers × rate (its appendix).

    Parameters
    ----------
    name : {"siren", "ffn", "gaussnet", "wire"}
        The rest of the settings is that method's own.
    """
    known: dict[str, Any] = {"siren": siren, "ffn": ffn, "gaussnet": gaussnet, "wire": wire}
    if name not in known:
        raise ValueError(f"`name` must be one of {', '.join(known)}; got {name!r}.")
    own = known[name]()
    return tuple(
        replace(own, hidden=hidden, layers=layers, rate=rate)
        for hidden, layers, rate in product((256, 512, 1024), (3, 4, 5), (5e-5, 1e-4))
    )


def whole(**numbers: object) -> None:
    """Refuse what is no whole number of at least 1."""
    for name, value in numbers.items():
        if not is_whole(value):
            raise ValueError(f"`{name}` must be a whole number of at least 1; got {value!r}.")


def is_whole(value: object, least: float = 1) -> bool:
    """Whether it is a whole number, Python's or NumPy's, of at least so much."""
    known = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return known and value >= least  # type: ignore[operator]


def positive(**numbers: Any) -> None:
    """Refuse what is no finite number above 0."""
    for name, value in numbers.items():
        if not is_number(value) or value <= 0:
            raise ValueError(f"`{name}` must be a finite number above 0; got {value!r}.")
