"""Output weights stored as they are: the local model of scattered samples, which have no box."""

import math
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Floats
from elmfield.local.layers import Cosines


@dataclass(frozen=True)
class ProductNeurons:
    """A product layer whose output weights are stored as they are (scattered samples)."""

    axes: tuple[Cosines, ...]

    @property
    def n_modes(self) -> int:
        """Product neurons m."""
        return math.prod(a.width for a in self.axes)

    rank = n_modes
    row_size = 256
    basis = None

    @property
    def radius(self) -> Floats:
        """Scattered regions bring their own radii; in their unit this one is 1."""
        return np.ones(len(self.axes))

    def expand(self, c: Array) -> Array:
        """Weights (G, m, C) with one index per axis."""
        return namespace(c).reshape(c, (c.shape[0], *(a.width for a in self.axes), c.shape[-1]))

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The axes' cosines, differentiated as `order` says."""
        return [a(t[..., k], order[k]) for k, a in enumerate(self.axes)]

    def weights(self, c: Array) -> Array:
        """The stored coefficients are the weights."""
        return c
