"""A product layer on a box whose output weights are made when asked for, not stored."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Floats
from elmfield.local.bases.axis import rows_of
from elmfield.local.beliefs import Beliefs, beliefs
from elmfield.local.layers import Cosines, Pieces


@dataclass(frozen=True)
class AxisWaves:
    """The features of one axis of a box, as they are.

    Parameters
    ----------
    layer : Cosines
        The features.
    n : int
        Samples of the box on this axis.
    """

    layer: Cosines
    n: int

    @property
    def width(self) -> int:
        """Number of features."""
        return self.layer.width

    @cached_property
    def pieces(self) -> Pieces:
        """The features up to one sample beyond the outermost, as polynomials."""
        return self.layer.pieces(np.eye(self.width), self.n + 1)

    def __call__(self, u: Array, order: int = 0) -> Array:
        """The features, (..., width), at offsets `u` from the box's centre, in samples."""
        return self.layer(u, order)


@dataclass(frozen=True, eq=False)
class WaveModel:
    """``f(t) = h(t) α``: products of waves, with weights that follow from samples and beliefs.

    Parameters
    ----------
    beliefs : Beliefs
        Of the box; they make α.
    """

    beliefs: Beliefs

    basis = None
    row_size = 256

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""
        return self.beliefs.box

    @cached_property
    def axes(self) -> tuple[AxisWaves, ...]:
        """The waves of each axis."""
        return tuple(AxisWaves(w, n) for w, n in zip(self.beliefs.waves, self.box))

    @property
    def n_modes(self) -> int:
        """Product neurons m."""
        return math.prod(a.width for a in self.axes)

    @property
    def rank(self) -> int:
        """As many weights are independent as the box has samples."""
        return math.prod(self.box)

    @property
    def radius(self) -> Floats:
        """Local coordinates count samples from the centre of the box."""
        return np.ones(len(self.box))

    def expand(self, c: Array) -> Array:
        """Weights (G, m, C) with one index per axis."""
        return namespace(c).reshape(c, (c.shape[0], *(a.width for a in self.axes), c.shape[-1]))

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The axes' waves, differentiated as `order` says; t at most a sample outside."""
        return rows_of(self.axes, t, order)

    def moved(self, like: Array) -> "WaveModel":
        """Itself: nothing of it lives anywhere."""
        return self

    def weights(self, c: Array) -> Array:
        """The coefficients are the weights."""
        return c


def wave_model(box: tuple[int, ...], order: float) -> WaveModel:
    """The model of a box of samples whose regions choose among a family around an order."""
    return WaveModel(beliefs(box, order))
