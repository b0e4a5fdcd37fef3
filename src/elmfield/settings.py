"""The presets: choices as objects, each knowing how to cut the domain and which modes to use."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Protocol

import numpy as np

from elmfield.modes import Modes, plain_modes, product_modes, smooth_dense_modes
from elmfield.network import Dense
from elmfield.partition import Partition, per_axis, regular
from elmfield.typing import Array


class Settings(Protocol):
    """What `fit` asks of a preset."""

    @property
    def centred(self) -> bool:
        """Whether each channel's mean is taken off before fitting."""

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """The regular partition of an array of this shape."""

    def modes(self, box: tuple[int, ...], like: Array) -> Modes:
        """The modes of a box of samples, ready for arrays like `like`."""


@dataclass(frozen=True)
class Paper:
    """Settings of the paper; see :func:`paper`."""

    cell: float | tuple[float, ...] = 32
    overlap: float | tuple[float, ...] = 0.0
    network: Dense = field(default_factory=Dense)
    centred = False  # least squares on the samples as they are

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Cells as the paper cuts them: a region's samples are those its window touches."""
        return regular(shape, self.cell, self.overlap, periodic=periodic)

    def modes(self, box: tuple[int, ...], like: Array) -> Modes:
        """Plain least squares in orthonormal coordinates."""
        return plain_modes(self.network, box, like)


@dataclass(frozen=True)
class Smooth:
    """Settings of the default; see :func:`smooth`."""

    order: float | tuple[float, ...] = 1.1
    cell: float | tuple[float, ...] | None = None
    overlap: float | tuple[float, ...] | None = None
    network: Dense | None = None
    centred = True

    def __post_init__(self) -> None:
        for s in np.atleast_1d(np.asarray(self.order, dtype=object)):
            if isinstance(s, bool) or not isinstance(s, Real) or not 0 < float(s) <= 16:
                raise ValueError(
                    "`order` must be a number above 0, at most 16 (1 joins samples by straight "
                    f"lines, 2 like cubic splines, 3 like quintic ones); got {s!r}."
                )
        if self.network is not None and np.ndim(self.order) > 0:
            raise ValueError("`order` must be one number with a dense `network`; got one per axis.")

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Cells whose boxes are all of one size: one factorisation for the whole array."""
        usual, blend = default_cells(len(shape), self.network is not None)
        cell = per_axis("cell", usual if self.cell is None else self.cell, len(shape))
        # The default overlap must not be the reason for an error about small cells.
        overlap = [min(blend, c / 2) for c in cell] if self.overlap is None else self.overlap
        return regular(shape, cell, overlap, periodic=periodic, equal_boxes=True)

    def modes(self, box: tuple[int, ...], like: Array) -> Modes:
        """Modes ordered from smooth to rough."""
        if self.network is not None:
            assert not isinstance(self.order, tuple)
            return smooth_dense_modes(self.network, box, float(self.order), like)
        return product_modes(box, tuple(map(float, per_axis("order", self.order, len(box)))))


def default_cells(d: int, dense: bool = False) -> tuple[int, float]:
    """Cell and overlap of the default preset in `d` dimensions (docs/defaults.md)."""
    if dense:
        return 8, 4.0
    return (32, 2.0) if d == 1 else (16, 2.0) if d <= 3 else (8, 1.0)


def paper(
    *,
    cell: int | Sequence[int] = 32,
    width: int = 1024,
    frequencies: int = 10,
    scale: float = 1.0,
    activation: str = "relu",
    overlap: float | Sequence[float] = 0,
    draw: str = "normal",
    seed: int = 0,
) -> Paper:
    """The paper's configuration: random Fourier features, one dense layer, least squares.

    Parameters
    ----------
    cell : int or sequence of int
        Samples per cell and axis.
    width : int
        Hidden neurons m per region.
    frequencies : int
        Fourier features F; 0 feeds raw local coordinates.
    scale : float
        Standard deviation of their frequencies.
    activation : {"relu", "sin", "cos", "tanh", "gaussian"}
        Of the hidden layer.
    overlap : float or sequence of float
        Half-width of the blend between cells, in samples; 0 as in the paper's experiments.
    draw : {"normal", "uniform"}
        Distribution of hidden weights and biases, which the paper leaves open.
    seed : int
        Of the hidden layer.
    """
    network = Dense(width, frequencies, scale, activation, draw, seed)
    return Paper(_frozen(cell), _frozen(overlap), network)


def smooth(
    *,
    order: float | Sequence[float] = 1.1,
    cell: int | Sequence[int] | None = None,
    overlap: float | Sequence[float] | None = None,
    network: Dense | None = None,
) -> Smooth:
    """The default configuration: right at the samples, and the least energy between them.

    Parameters
    ----------
    order : float or sequence of float
        How steeply the energy grows with frequency, for all axes or one by one; any number above 0.
        Photographs want about 1.1, weather about 1.5, smooth flows 3 to 4.
    cell, overlap : optional
        Samples per cell, and half-width of the blend between cells, for all axes or one by one.
    network : Dense, optional
        Use this dense random layer, with a bending energy by quadrature, instead of the product
        layer. Costs more; needs several times more neurons than a box has samples.
    """
    return Smooth(
        _frozen(order),
        None if cell is None else _frozen(cell),
        None if overlap is None else _frozen(overlap),
        network,
    )


def _frozen(value: float | Sequence[float]) -> "float | tuple[float, ...]":
    return value if np.ndim(value) == 0 else tuple(value)  # type: ignore
