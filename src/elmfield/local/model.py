"""What a field asks of the model of one region, and what a fit asks besides; written down once.

Whatever has the members of :class:`LocalModel` can be blended into a field; whatever has those of
:class:`Basis` can be fitted to the samples of a box. Neither `fit` nor `field` asks for more, or
for the class.
"""

from typing import Protocol, Self

from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.layers import Pieces


class LocalModel(Protocol):
    """A function of local coordinates, linear in its coefficients.

    ``f(t) = Σ rows_1(t)[q_1] ... rows_p(t)[q_p] expand(c)[q_1, ..., q_p]``: p is 1, or the number
    of axes where functions are products. A model that inherits from this one takes coefficients
    for factors and weights as they are, and holds no arrays that have to be moved.
    """

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""

    @property
    def basis(self) -> "Basis | None":
        """The model itself where its coefficients are coordinates of a box's samples; else None."""

    @property
    def axes(self) -> "tuple[AxisFunctions, ...] | None":
        """The functions of each axis where rows are these, at offsets in samples; else None."""

    @property
    def radius(self) -> Floats:
        """Local coordinates are (x - centre of the box) / radius, x in samples; shape (d,)."""

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """Functions at local coordinates t (..., d), differentiated `order` times along each axis.

        p arrays of shapes (..., q_1), ..., (..., q_p).
        """

    def expand(self, c: Array) -> Array:
        """Coefficients (G, r, C) as factors of the rows: shape (G, q_1, ..., q_p, C)."""
        return c

    def weights(self, c: Array) -> Array:
        """Output weights α of the hidden neurons, (G, m, C)."""
        return c

    def moved(self, like: Array) -> Self:
        """The same for coefficients in the library and on the device of `like`."""
        return self


class AxisFunctions(Protocol):
    """Functions of one axis of a box, of which a model takes products."""

    @property
    def n(self) -> int:
        """Samples of the box along the axis."""

    @property
    def width(self) -> int:
        """How many there are, r."""

    @property
    def pieces(self) -> Pieces | None:
        """The functions up to one sample beyond the outermost, as polynomials.

        None where they differ from box to box.
        """

    def at(self, centres: Array) -> "AxisFunctions":
        """The functions of boxes around index coordinates `centres`, which fit offsets' shape."""

    @property
    def deviations(self) -> Pieces | None:
        """Integrals of the functions less their means over the samples' cells, from cell to cell.

        None where samples are values at points; else they are means over cells.
        """

    def __call__(self, u: Array, order: int = 0) -> Array:
        """The functions, (..., r), at offsets `u` from the box's centre, in samples."""


class Basis(LocalModel, Protocol):
    """A local model whose coefficients are orthonormal coordinates of the samples of a box."""

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""

    @property
    def inside(self) -> Array | None:
        """Which samples of the box count, booleans of its shape; None for all."""

    @property
    def n_samples(self) -> int:
        """Samples S that count."""

    @property
    def ranking(self) -> Integers:
        """Mode numbers from first kept to first dropped, (r,)."""

    def project(self, Y: Array) -> Array:
        """Coefficients (G, r, C) of the samples Y of G boxes, shape (G, S, C)."""

    def values(self, c: Array) -> Array:
        """Samples (G, S, C) of the functions with coefficients c, (G, r, C)."""

    def complete(self, Y: Array, present: Array) -> Array:
        """Samples Y, (G, S, C), some of which are guesses, as this basis would guess them itself.

        `present`, booleans of the same shape, says which are samples. A basis without an opinion
        returns Y.
        """
