"""The frozen hidden layers: local coordinates in, features out, with two derivatives.

:class:`Dense` is the paper's. A product layer has one :class:`AxisLayer` per axis; ours is
:class:`Cosines`. All are settled by their settings alone.
"""

from collections.abc import Callable
from typing import Protocol

from elmfield._array.typing import Array, Floats
from elmfield.local.layers.cosines import Cosines
from elmfield.local.layers.dense import ACTIVATIONS, Dense
from elmfield.local.layers.pieces import Pieces, split

__all__ = ["ACTIVATIONS", "AxisLayer", "Cosines", "Dense", "MakeLayer", "Pieces", "split"]


class AxisLayer(Protocol):
    """One axis of a product layer: features of the offset u from a box's centre, in samples.

    Backwards it must be the same layer: ``Σ_j a_j(u) a_j(v) / price_j``, over the features with a
    price, does not change when u and v change sign. Modes are then even or odd, which halves the
    work and settles them.
    """

    @property
    def width(self) -> int:
        """Number of features."""

    def prices(self, order: float) -> Floats:
        """What each feature costs in an energy of this order, (width,): positive numbers, or 0.

        A feature that costs 0 is free: of all functions through the samples the cheapest is taken,
        and what is free in it is settled by the samples alone. Only 1 and u may be free, or
        multiples of them; a layer without free features has positive prices throughout.
        """

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Features, shape (..., width), or their derivative of the given order, at `u`."""

    def mixed(self, u: Array, mixing: Floats, order: int = 0) -> Array:
        """``a(u) mixing``, shape (..., r), mixing (width, r); a differentiated `order` times."""

    def pieces(self, mixing: Floats, n: int) -> Pieces:
        """``a(u) mixing`` for u between -n/2 and n/2, as polynomials on short intervals."""


MakeLayer = Callable[[int], AxisLayer]
"""The layer for a box of so many samples on an axis, as ``Cosines.lattice``."""
