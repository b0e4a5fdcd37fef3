"""Output weights stored as they are: the local model of scattered samples, which have no box."""

import math
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Floats
from elmfield.local.layers import Cosines


@dataclass(frozen=True)
class ProductNeurons:
    """A product layer whose output weights are stored as they are (scattered samples).

    Where all axes have free lines, the d local coordinates follow the products of waves as d more
    neurons: a plane, and nothing else of what lines and waves could be multiplied to.
    """

    layers: tuple[Cosines, ...]

    @property
    def planes(self) -> bool:
        """Whether local coordinates are neurons."""
        return all(a.lines for a in self.layers)

    @property
    def shape(self) -> tuple[int, ...]:
        """Waves on each axis, the constant included."""
        return tuple(a.width - a.lines for a in self.layers)

    @property
    def n_modes(self) -> int:
        """Product neurons m, and perhaps d more."""
        return math.prod(self.shape) + self.planes * len(self.layers)

    rank = n_modes
    row_size = 256
    basis = None
    axes = None  # regions bring radii of their own

    @property
    def radius(self) -> Floats:
        """Scattered regions bring their own radii; in their unit this one is 1."""
        return np.ones(len(self.layers))

    def expand(self, c: Array) -> Array:
        """Weights (G, m, C) with one index per axis; those of t_k stand last along axis k."""
        xp = namespace(c)
        G, _, C = c.shape
        m = math.prod(self.shape)
        X = xp.reshape(c[:, :m, :], (G, *self.shape, C))
        if not self.planes:
            return X
        for k in range(len(self.layers)):
            end = (slice(None),) * (k + 1) + (slice(0, 1), ...)
            X = xp.concat([X, xp.zeros_like(X[end])], axis=k + 1)
        for k, n in enumerate(self.shape):
            place = tuple(n if j == k else 0 for j in range(len(self.layers)))
            X[(slice(None), *place, slice(None))] = c[:, m + k, :]
        return X

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The axes' features, differentiated as `order` says."""
        return [a(t[..., k], order[k]) for k, a in enumerate(self.layers)]

    def moved(self, like: Array) -> "ProductNeurons":
        """Itself: nothing of it lives anywhere."""
        return self

    def weights(self, c: Array) -> Array:
        """The stored coefficients are the weights."""
        return c
