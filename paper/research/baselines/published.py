"""The methods with the settings of their own papers, and the grid the paper searches."""

from dataclasses import replace
from itertools import product
from typing import Any

from paper.research.baselines.methods import FFN, SIREN, WIRE, GaussNet, HashGrid, Method


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
