"""Products of Chebyshev polynomials, or of waves along periodic axes: the model of one region.

Where a function is smooth, one such region resolves it to rounding with few coefficients.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.backend import move, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.local.bases.product_modes import AxisWaves, ProductModel
from elmfield.local.layers import Cosines, Pieces


@dataclass(frozen=True)
class AxisPolynomials:
    """``T_0 ... T_(width - 1)`` of ``2 u / n``: u counts samples from the centre of n of them."""

    width: int
    n: int

    @cached_property
    def pieces(self) -> Pieces:
        """The same as polynomials on intervals of one sample."""
        # On an interval of 2/n of the axis degree k has about k/n waves, most of them at its ends.
        terms = min(self.width, 14 + math.ceil(6 * self.width / self.n))
        return Pieces.through(lambda u: np.asarray(self(u)), self.n, terms)

    @property
    def deviations(self) -> Pieces | None:
        """None: rows, not means over cells, say what is known."""
        return None

    def at(self, centres: Array) -> "AxisPolynomials":
        """Itself: samples lie alike in all boxes."""
        return self

    def __call__(self, u: Array, order: int = 0) -> Array:
        """The polynomials, (..., width), at offsets u, differentiated `order` times."""
        t = 2 * np.asarray(to_numpy(u), np.float64) / self.n
        # T_k' = 2 k T_(k-1) + T_(k-2)' k / (k - 2): stable at the ends, unlike sines of angles.
        rows = np.zeros((order + 1, self.width, *t.shape))
        rows[0, 0] = 1
        for j in range(order + 1):
            for k in range(1, self.width):
                before, two = rows[j, k - 1], rows[j, k - 2] if k > 1 else 0 * t
                first = t * before if k == 1 else 2 * t * before - two
                lower = rows[j - 1, k - 1] * j * (1 if k == 1 else 2) if j else 0
                rows[j, k] = first + lower
        out = np.moveaxis(rows[order], 0, -1) * (2 / self.n) ** order
        return move(np.ascontiguousarray(out), u, u.dtype)


@dataclass(frozen=True)
class PolynomialModel(ProductModel[AxisPolynomials | AxisWaves]):
    """``f(t) = Σ c_k T_k1(t_1) ... T_kd(t_d)``: one region's model with no samples of its own."""

    basis = None

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""
        return tuple(a.n for a in self.axes)

    @property
    def rank(self) -> int:
        """All coefficients are independent."""
        return self.n_modes

    @property
    def degrees(self) -> Floats:
        """The degree of each function along each axis, (n_modes, d); of waves, half-waves."""
        lines = [
            2.0 * np.concatenate([[0], *[np.arange(1, a.layer.count + 1)] * 2])
            if isinstance(a, AxisWaves)
            else np.arange(float(a.width))
            for a in self.axes
        ]
        return np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(self.n_modes, -1)

    def moved(self, like: Array) -> "PolynomialModel":
        """Itself: it holds no arrays that have to be moved."""
        return self

    def weights(self, c: Array) -> Array:
        """The coefficients are the weights."""
        return c


def polynomial_model(
    box: tuple[int, ...], widths: tuple[int, ...], periodic: tuple[bool, ...]
) -> PolynomialModel:
    """The model of a box of samples with so many functions on each axis."""
    axes = (
        AxisWaves(Cosines((w - 1) // 2, 1 / n), n) if wraps else AxisPolynomials(w, n)
        for n, w, wraps in zip(box, widths, periodic)
    )
    return PolynomialModel(tuple(axes))
