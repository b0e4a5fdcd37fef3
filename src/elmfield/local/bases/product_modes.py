"""Local models whose functions are products of functions of each axis.

:class:`ProductModes` are orthonormal on the samples of a box; a :class:`WaveModel` takes the output
weights of the product layer itself, a :class:`PolynomialModel` those of Chebyshev polynomials.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.polynomial import chebyshev

from elmfield._array.backend import contiguous, move, move_all, namespace, to_numpy
from elmfield._array.cache import memoised
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.bases.axis_modes import AxisModes, LayerFunctions, axis_modes, rows_of
from elmfield.local.energy_mixture import Beliefs, beliefs
from elmfield.local.layers import Cosines, MakeLayer, Pieces
from elmfield.local.model import AxisFunctions

Functions = TypeVar("Functions", bound=AxisFunctions)


@dataclass(frozen=True)
class ProductModel(Generic[Functions]):
    """What all products of functions of each axis, `axes`, have in common."""

    axes: tuple[Functions, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Functions of each axis."""
        return tuple(a.width for a in self.axes)

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""
        return math.prod(self.shape)

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of the box on each axis."""
        return tuple(a.n for a in self.axes)

    @property
    def means(self) -> bool:
        """Whether samples are means over their cells."""
        return self.axes[0].deviations is not None

    @property
    def radius(self) -> Floats:
        """Local coordinates count samples from the centre of the box."""
        return np.ones(len(self.axes))

    def expand(self, c: Array) -> Array:
        """Coefficients (G, r, C) with one index per axis: (G, r_1, ..., r_d, C)."""
        return namespace(c).reshape(c, (c.shape[0], *self.shape, c.shape[-1]))

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The axes' functions, differentiated as `order` says; t at most a sample outside."""
        return rows_of(self.axes, t, order)

    def moved(self, like: Array) -> Self:
        """Itself: it holds no arrays that have to be moved."""
        return self

    def weights(self, c: Array) -> Array:
        """Output weights of the products: the coefficients themselves where these are features."""
        return c


@dataclass(frozen=True)
class ProductModes(ProductModel[AxisModes]):
    """Smooth modes of a box: products of axis modes.

    The price of a product neuron is the product of its axes' prices. K is then the Kronecker
    product of the axes' kernels and its eigenvectors are products of theirs: nothing larger than
    n by n is ever factored or applied, whatever the number of axes. Products of polynomials that
    are free on their axes are exact.
    """

    inside = None

    @property
    def basis(self) -> "ProductModes":
        """Itself: coefficients are coordinates of the samples."""
        return self

    @property
    def n_samples(self) -> int:
        """Samples S of the box."""
        return math.prod(self.box)

    @property
    def smoothness(self) -> Floats:
        """γ of every mode, in the order of the coefficients; shape (r,)."""
        return np.asarray(reduce(np.multiply.outer, (a.smoothness for a in self.axes))).reshape(-1)

    @property
    def ranking(self) -> Integers:
        """Modes from smooth to rough."""
        # γ of mirrored modes differ in the last digits, from machine to machine: rounded, their
        # order is everybody's.
        return np.argsort(np.round(-np.log(self.smoothness), 6), kind="stable")

    def values(self, c: Array) -> Array:
        """``y = (U_1 ⊗ ... ⊗ U_d) c``, axis by axis."""
        return self._along(c, [a.basis.T for a in self.axes])

    def project(self, Y: Array) -> Array:
        """``c = (U_1 ⊗ ... ⊗ U_d)ᵀ y``, axis by axis."""
        return self._along(Y, [a.basis for a in self.axes])

    def complete(self, Y: Array, present: Array) -> Array:
        """Y: what is missing was filled before, as smoothly as these modes would."""
        return Y

    def weights(self, c: Array) -> Array:
        """Output weights of the product neurons, in array order of their axes' neurons."""
        return self._along(c, [a.mixing.T for a in self.axes])

    def closed(self, rings: Sequence[bool]) -> "ProductModes":
        """The same with functions of the box's period along axes that are rings."""
        every = zip(self.axes, rings)
        axes = (axis_modes(a.n, a.order, free=0, means=a.means) if ring else a for a, ring in every)
        return ProductModes(tuple(axes))

    def _along(self, X: Array, matrices: list[Floats]) -> Array:
        """X (G, n_1 ... n_d, C) with ``matrices[k]``, (n_k, q_k), contracted along each axis k."""
        xp = namespace(X)
        G, _, C = X.shape
        X = contiguous(xp.permute_dims(X, (2, 0, 1)))  # channels first
        before, after = C * G, X.shape[2]
        # One product for each region and channel, not a tall one for all: whoever else is in the
        # batch then does not change a bit, and it takes as long.
        *left, right = move_all([*(m.T for m in matrices[:-1]), matrices[-1]], X, X.dtype)
        for M in left:
            q, n = M.shape
            after //= n
            X = xp.matmul(M, xp.reshape(X, (before, n, after)))
            before *= q
        X = xp.matmul(xp.reshape(X, (C * G, -1, right.shape[0])), right)
        return xp.permute_dims(xp.reshape(X, (C, G, -1)), (1, 2, 0))


@memoised(64)
def product_modes(
    box: tuple[int, ...],
    orders: tuple[float, ...],
    make: MakeLayer = Cosines.lattice,
    free: tuple[int, ...] | None = None,
    means: bool = False,
) -> ProductModes:
    """The smooth modes of a box of samples, or of means, with an energy order per axis.

    `free` says how many polynomials of each axis have no price; None: as the orders have it.
    """
    counts = (None,) * len(box) if free is None else free
    every = zip(box, orders, counts)
    return ProductModes(tuple(axis_modes(n, s, make, q, means) for n, s, q in every))


@dataclass(frozen=True)
class AxisWaves(LayerFunctions):
    """The features of one axis of a box of `n` samples, as they are."""

    layer: Cosines
    n: int
    means: bool = False

    @property
    def width(self) -> int:
        """Number of features."""
        return self.layer.width

    @property
    def mixing(self) -> Floats:
        """Each function is a feature, (width, width)."""
        return np.eye(self.width)


@dataclass(frozen=True, eq=False)
class WaveModel(ProductModel[AxisWaves]):
    """``f(t) = h(t) α``: products of waves, with weights that `beliefs` make of the samples."""

    beliefs: Beliefs

    basis = None

    @property
    def rank(self) -> int:
        """As many weights are independent as the box has samples."""
        return math.prod(self.box)


def wave_model(box: tuple[int, ...], order: float, means: bool = False) -> WaveModel:
    """The model of a box of samples whose regions choose among a family around an order."""
    made = beliefs(box, order, means)
    return WaveModel(tuple(AxisWaves(w, n, means) for w, n in zip(made.waves, box)), made)


# --- polynomials: one region resolves a smooth function to rounding -------------------------------


@dataclass(frozen=True)
class AxisPolynomials(LayerFunctions):
    """``T_0 ... T_(width - 1)`` of ``2 u / n``: u counts samples from the centre of n of them."""

    width: int
    n: int

    @cached_property
    def pieces(self) -> Pieces:
        """The same as polynomials on intervals of one sample."""
        # On an interval of 2/n of the axis degree k has about k/n waves, most of them at its ends.
        terms = min(self.width, 14 + math.ceil(6 * self.width / self.n))
        return Pieces.through(lambda u: np.asarray(self(u)), self.n, terms)

    deviations = None  # rows, not means over cells, say what is known

    def __call__(self, u: Array, order: int = 0) -> Array:
        """The polynomials, (..., width), at offsets u, differentiated `order` times."""
        t = 2 * np.asarray(to_numpy(u), np.float64) / self.n
        D = chebyshev.chebder(np.eye(self.width), order)
        out = chebyshev.chebvander(t, len(D) - 1) @ D * (2 / self.n) ** order
        return move(np.ascontiguousarray(out), u, u.dtype)


@dataclass(frozen=True)
class PolynomialModel(ProductModel[AxisPolynomials | AxisWaves]):
    """``f(t) = Σ c_k T_k1(t_1) ... T_kd(t_d)``: one region's model with no samples of its own."""

    basis = None


def polynomial_model(
    box: tuple[int, ...], widths: tuple[int, ...], periodic: tuple[bool, ...]
) -> PolynomialModel:
    """The model of a box of samples with so many functions on each axis."""
    axes = (
        AxisWaves(Cosines((w - 1) // 2, 1 / n), n) if wraps else AxisPolynomials(w, n)
        for n, w, wraps in zip(box, widths, periodic)
    )
    return PolynomialModel(tuple(axes))
