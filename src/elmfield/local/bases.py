"""Modes: functions that are orthonormal on the samples of a box; fitting is projecting on them.

Enter a hidden layer and a footprint (the sample positions of a box); leave the basis U on the
samples and the way from its coefficients c to the function: ``f(x) = Σ_j rows(x)_j expand(c)_j``.
Factored once in float64, applied in the data's dtype. Which regions share a footprint, and how
regions are blended, is not known here.
"""

import math
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from elmfield._array.backend import (
    device,
    is_on_host,
    learns,
    move,
    namespace,
    qr,
    solve_triangular,
    to_numpy,
)
from elmfield._array.cache import CACHE, remembered
from elmfield._array.typing import Array, Floats, Integers
from elmfield.errors import RankWarning
from elmfield.local.layers import Cosines, Dense, Pieces, price


class Modes(Protocol):
    """What a field needs of a local model."""

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""

    @property
    def rank(self) -> int:
        """Independent neurons (or modes) on the samples."""

    @property
    def radius(self) -> Floats:
        """Local coordinates are (x - centre of the box) / radius; shape (d,)."""

    def project(self, Y: Array) -> Array:
        """Coefficients (G, r, C) of the samples Y of G boxes, shape (G, S, C)."""

    @property
    def ranking(self) -> Integers:
        """Mode numbers from first kept to first dropped, (r,)."""

    def values(self, c: Array) -> Array:
        """Samples (G, S, C) of the functions with coefficients c, (G, r, C)."""

    def expand(self, c: Array) -> Array:
        """Coefficients (G, r, C) as factors of the rows: shape (G, q_1, ..., q_p, C)."""

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """Functions at local coordinates t (..., d): p arrays of shapes (..., q_1), (..., q_p)."""

    def weights(self, c: Array) -> Array:
        """Output weights α of the hidden neurons, (G, m, C)."""


# --- the product layer -------------------------------------------------------------------------


@dataclass(frozen=True)
class AxisModes:
    """Smooth modes of one axis (the Demmler-Reinsch basis of a network of cosines).

    With features A on the samples and prices E, ``K = A E⁻¹ Aᵀ = U diag(γ) Uᵀ``, γ descending, and
    mode j is the function ``a(u) E⁻¹ Aᵀ U_j / γ_j``: of all functions with the values U_j at the
    samples the one of least energy.

    Parameters
    ----------
    basis : array, shape (n, r)
        U.
    smoothness : array, shape (r,)
        γ.
    mixing : array, shape (width, r)
        E⁻¹ Aᵀ U / γ.
    cosines : Cosines
        The features a.
    order : float
        The energy's.
    """

    basis: Floats
    smoothness: Floats
    mixing: Floats
    cosines: Cosines = field(repr=False)
    order: float = math.nan

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Mode functions, shape (..., r), at offsets `u` from the box's centre, in samples."""
        return self.cosines.mixed(u, self.mixing, order)

    @cached_property
    def pieces(self) -> Pieces:
        """The same functions up to one sample beyond the outermost, as polynomials.

        That is where windows end: half a sample to the border, and at most half a sample of overlap
        that no sample of the box stands for.
        """
        return self.cosines.pieces(self.mixing, self.basis.shape[0] + 1)


@remembered(64)
def axis_modes(n: int, order: float) -> AxisModes:
    """The smooth modes of `n` samples, one unit apart, with an energy of the given order."""
    cosines = Cosines.lattice(n)
    u = np.arange(n) - (n - 1) / 2
    A, E = cosines(u), price(cosines.angular**2, order)
    K = (A / E) @ A.T
    # K does not change when the axis is reversed, so its modes are even or odd: two problems of
    # half the size, whose eigenvalues are simple. That settles every mode but for its sign.
    half = n // 2
    fold = np.eye(n)[: n - half] + np.eye(n)[::-1][: n - half]  # even functions
    fold /= np.linalg.norm(fold, axis=1, keepdims=True)
    flip = (np.eye(n)[:half] - np.eye(n)[::-1][:half]) / np.sqrt(2)  # odd functions
    found = []
    for P in (fold, flip):
        gamma, V = np.linalg.eigh(P @ K @ P.T)
        found.append((gamma, P.T @ V))
    gamma = np.concatenate([g for g, _ in found])
    U = np.concatenate([V for _, V in found], axis=1)
    descending = np.argsort(-gamma, kind="stable")
    gamma, U = gamma[descending], U[:, descending]
    keep = gamma > n * np.finfo(float).eps * gamma[0]
    gamma, U = gamma[keep], U[:, keep]
    U = U * np.where(U[0] < 0, -1.0, 1.0)  # the first sample is positive
    return AxisModes(U, gamma, (A.T @ U) / E[:, None] / gamma, cosines, order)


@dataclass(frozen=True)
class ProductModes:
    """Smooth modes of a box: products of axis modes.

    The price of a product neuron is the product of its axes' prices. K is then the Kronecker
    product of the axes' kernels and its eigenvectors are products of theirs: nothing larger than
    n by n is ever factored or applied, whatever the number of axes.
    """

    axes: tuple[AxisModes, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Modes kept on each axis."""
        return tuple(a.basis.shape[1] for a in self.axes)

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""
        return math.prod(self.shape)

    @property
    def rank(self) -> int:
        """All kept modes are independent."""
        return self.n_modes

    @property
    def radius(self) -> Floats:
        """Local coordinates count samples from the centre of the box."""
        return np.ones(len(self.axes))

    @property
    def smoothness(self) -> Floats:
        """γ of every mode, in the order of the coefficients; shape (r,)."""
        gamma = np.ones(1)
        for a in self.axes:
            gamma = np.multiply.outer(gamma, a.smoothness)
        return gamma.reshape(-1)

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

    def expand(self, c: Array) -> Array:
        """Coefficients (G, r, C) with one index per axis: (G, r_1, ..., r_d, C)."""
        return namespace(c).reshape(c, (c.shape[0], *self.shape, c.shape[-1]))

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The axes' mode functions, differentiated as `order` says; t at most a sample outside."""
        # On a card sines are cheap, and sorting points is not; nor can it be differentiated.
        if learns(t) or not is_on_host(t):
            return [a(t[..., k], order[k]) for k, a in enumerate(self.axes)]
        u = to_numpy(t)
        rows = (a.pieces(u[..., k], order[k]) for k, a in enumerate(self.axes))
        return [move(r, t, t.dtype) for r in rows]

    def weights(self, c: Array) -> Array:
        """Output weights of the product neurons, in array order of their axes' neurons."""
        return self._along(c, [a.mixing.T for a in self.axes])

    def _along(self, X: Array, matrices: list[Floats]) -> Array:
        """X (G, n_1 ... n_d, C) with ``matrices[k]``, (n_k, q_k), contracted along each axis k."""
        xp = namespace(X)
        G, _, C = X.shape
        X = xp.permute_dims(X, (2, 0, 1))  # channels first: the last axis is then one plain product
        before, after = C * G, X.shape[2]
        for m in matrices:
            n, q = m.shape
            after //= n
            if after == 1:
                X = xp.reshape(X, (before, n)) @ move(m, X, X.dtype)
            else:
                X = xp.matmul(move(m.T, X, X.dtype), xp.reshape(X, (before, n, after)))
            before *= q
        return xp.permute_dims(xp.reshape(X, (C, G, -1)), (1, 2, 0))


@remembered(64)
def product_modes(box: tuple[int, ...], orders: tuple[float, ...]) -> ProductModes:
    """The smooth modes of a box of samples, with an energy order per axis."""
    return ProductModes(tuple(axis_modes(n, s) for n, s in zip(box, orders)))


@dataclass(frozen=True)
class ProductNeurons:
    """A product layer whose output weights are stored as they are (scattered samples)."""

    axes: tuple[Cosines, ...]

    @property
    def n_modes(self) -> int:
        """Product neurons m."""
        return math.prod(a.width for a in self.axes)

    rank = n_modes

    @property
    def radius(self) -> Floats:
        """Scattered regions bring their own radii; in their unit this one is 1."""
        return np.ones(len(self.axes))

    @property
    def ranking(self) -> Integers:
        """Neurons as they come."""
        return np.arange(self.n_modes)

    def values(self, c: Array) -> Array:
        """Scattered samples have no footprint on which these could be asked for."""
        raise TypeError("a field of scattered samples keeps all its coefficients")

    def project(self, Y: Array) -> Array:
        """Scattered samples have no footprint to project on; `fit_points` solves for α itself."""
        raise TypeError("scattered samples are fitted by `fit_points`, region by region")

    def expand(self, c: Array) -> Array:
        """Weights (G, m, C) with one index per axis."""
        return namespace(c).reshape(c, (c.shape[0], *(a.width for a in self.axes), c.shape[-1]))

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The axes' cosines, differentiated as `order` says."""
        return [a(t[..., k], order[k]) for k, a in enumerate(self.axes)]

    def weights(self, c: Array) -> Array:
        """The stored coefficients are the weights."""
        return c


# --- the paper's layer -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DenseModes:
    """Orthonormal coordinates of a dense random layer on the samples of a box.

    Parameters
    ----------
    network : Dense
        The hidden layer h.
    radius : array, shape (d,)
        Half the box, from its first to its last sample: local coordinates run from -1 to 1.
    basis : array, shape (S, r)
        U, orthonormal columns; ``c = Uᵀ y``.
    mixing : array, shape (m, r), or (m, m) upper triangle
        M, or R of ``H = U R``: ``α = M c``, or ``α = R⁻¹ c`` when `triangular`.
    features : array, shape (S, m)
        H, for regions with missing samples.
    box : tuple of int
        The samples of the box on each axis.
    order : float, optional
        The energy's, of smooth modes; None for plain least squares.
    inside : NumPy array of bool, of the box's shape, optional
        Which samples belong to the region, S in all; None if the whole box does.
    """

    network: Dense
    radius: Floats
    basis: Array = field(repr=False)
    mixing: Array = field(repr=False)
    triangular: bool
    features: Array = field(repr=False)
    box: tuple[int, ...] = ()
    order: float | None = None
    inside: Any = None

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""
        return int(self.basis.shape[1])

    @property
    def rank(self) -> int:
        """Independent neurons on the samples."""
        return self.n_modes

    @property
    def ranking(self) -> Integers:
        """Neurons, or singular vectors, as they come: the first m' are a fit of their own."""
        return np.arange(self.n_modes)

    def values(self, c: Array) -> Array:
        """``y = U c``."""
        xp = namespace(c)
        G, r, C = c.shape
        flat = xp.reshape(xp.permute_dims(c, (1, 0, 2)), (r, G * C))
        y = move(self.basis, c, c.dtype) @ flat
        return xp.permute_dims(xp.reshape(y, (-1, G, C)), (1, 0, 2))

    def project(self, Y: Array) -> Array:
        """``c = Uᵀ y``: one matrix product for all boxes."""
        xp = namespace(Y)
        G, S, C = Y.shape
        U = move(self.basis, Y, Y.dtype)
        flat = xp.reshape(xp.permute_dims(Y, (2, 0, 1)), (C * G, S))
        return xp.permute_dims(xp.reshape(flat @ U, (C, G, -1)), (1, 2, 0))

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts.

        Projecting the completed samples gives that least-squares fit again. Shapes (G, S, C) and
        (G, S, C); one factorisation per box and channel, because each misses something else.
        """
        xp = namespace(Y)
        H = self.features
        filled = []
        for g in range(Y.shape[0]):
            columns = []
            for k in range(Y.shape[2]):
                have = present[g, :, k]
                (rows,) = xp.nonzero(have)
                y = xp.astype(xp.take(Y[g, :, k], rows), H.dtype)
                alpha = xp.linalg.pinv(xp.take(H, rows, axis=0), rtol=1e-10) @ y
                columns.append(xp.where(have, Y[g, :, k], xp.astype(H @ alpha, Y.dtype)))
            filled.append(xp.stack(columns, axis=-1))
        return xp.stack(filled)

    def expand(self, c: Array) -> Array:
        """α, in float64: with cond(H) up to 2e7, single precision would lose seven digits."""
        return self.weights(c)

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The hidden features at `t`, differentiated as `order` says."""
        return [self.network(t, order)]

    def weights(self, c: Array) -> Array:
        """The paper's output weights α, (G, m, C)."""
        xp = namespace(c)
        G, r, C = c.shape
        flat = xp.reshape(xp.permute_dims(xp.astype(c, self.mixing.dtype), (1, 0, 2)), (r, G * C))
        alpha = solve_triangular(self.mixing, flat) if self.triangular else self.mixing @ flat
        return xp.permute_dims(xp.reshape(alpha, (-1, G, C)), (1, 0, 2))


def box_positions(box: tuple[int, ...], like: Array, step: float = 1.0) -> Array:
    """Offsets of a box's samples from its centre, shape (S, d), float64, last axis fastest."""
    axes = []
    for n in box:
        count = round((n - 1) / step) + 1
        axes.append(np.arange(count) * step - (n - 1) / 2)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box))
    return move(grid, like, namespace(like).float64)


def half_widths(box: tuple[int, ...]) -> Floats:
    """Distance from the centre of a box to its outermost samples; 1/2 where there is only one."""
    return np.asarray([max(n - 1, 1) / 2 for n in box])


def plain_modes(
    network: Dense, box: tuple[int, ...], like: Array, inside: Any = None
) -> DenseModes:
    """The paper's least squares in orthonormal coordinates: ``H = U R``, ``α = R⁻¹ Uᵀ y``.

    On the samples of a box, or on those that are `inside`, an array of bool of the box's shape.

    Notes
    -----
    Same minimiser as the normal equations the paper prints, without squaring cond(H) (5e5 to 2e7 at
    its settings). Coefficients are nested: the first m' are the fit of the first m' neurons.
    A rank-deficient or wide H (more neurons than samples) falls back on the singular value
    decomposition: least squares of least weight norm, singular values below 1e-10 of the largest
    left out, the rank reported.
    """
    radius = half_widths(box)
    t = box_positions(box, like) / move(radius, like, namespace(like).float64)
    if inside is not None:
        t = namespace(t).take(t, move(np.flatnonzero(inside), t), axis=0)
    shape = "" if inside is None else np.packbits(inside).tobytes().hex()
    found = CACHE.get(f"plain {network} {box} {shape}", like, lambda: _least_squares(network(t)))
    U, mixing, H = found["basis"], found["mixing"], found["features"]
    (S, m), rank = H.shape, U.shape[1]
    triangular = rank == m <= S
    if rank < min(S, m):
        warnings.warn(
            f"only {rank} of {m} hidden neurons are independent on the {S} samples of a region; "
            "the others were left out of the fit",
            RankWarning,
            stacklevel=2,
        )
    return DenseModes(network, radius, U, mixing, triangular, H, box, None, inside)


def _least_squares(H: Array) -> dict[str, Array]:
    """U with ``c = Uᵀ y``, and R or M with ``α = R⁻¹ c`` (full rank) or ``α = M c``; H itself."""
    xp = namespace(H)
    S, m = H.shape
    if m <= S:
        U, R = qr(H)
        diagonal = xp.linalg.diagonal(R)
        size = xp.abs(diagonal)
        if float(xp.min(size)) > 1e-10 * float(xp.max(size)):
            # Householder signs are a convention of the library; R with a positive diagonal is not.
            sign = _signs(diagonal[None, :])
            U *= sign
            R *= sign[:, None]
            return {"basis": U, "mixing": R, "features": H}
    U, s, Vt = xp.linalg.svd(H, full_matrices=False)
    rank = int(xp.sum(xp.astype(s > 1e-10 * s[0], xp.int64)))
    sign = _signs(U[:, :rank])
    mixing = Vt[:rank, :].T / s[:rank] * sign
    return {"basis": U[:, :rank] * sign, "mixing": mixing, "features": H}


def _signs(U: Array) -> Array:
    """±1 for each column, such that its first entry becomes positive."""
    xp = namespace(U)
    return xp.where(U[0, :] < 0, -xp.ones_like(U[0, :]), xp.ones_like(U[0, :]))


def smooth_dense_modes(
    network: Dense, box: tuple[int, ...], order: float, like: Array
) -> DenseModes:
    """Smooth modes of a dense layer: of all weights that fit, those of least bending energy.

    The energy of a function is ``Σ (ε + |ω|²)^s |F(ω)|²`` over the cosine transform F of its values
    on a grid twice as fine as the samples; plus a weight decay too small to matter, which settles
    the directions that the grid does not see. ``K = H E⁻¹ Hᵀ = U diag(γ) Uᵀ``.
    """
    found = CACHE.get(
        f"smooth {network} {box} {order}", like, lambda: _least_energy(network, box, order, like)
    )
    arrays = found["basis"], found["mixing"], False, found["features"]
    return DenseModes(network, half_widths(box), *arrays, box, order)


def _least_energy(
    network: Dense, box: tuple[int, ...], order: float, like: Array
) -> dict[str, Array]:
    """U and M of :func:`smooth_dense_modes`, and H."""
    from scipy.fft import dctn  # here, so that a command line that fits nothing starts fast

    xp = namespace(like)
    scale = move(half_widths(box), like, xp.float64)
    H = network(box_positions(box, like) / scale)
    fine = tuple(2 * n - 1 for n in box)
    on_grid = to_numpy(network(box_positions(box, like, 0.5) / scale))
    spectrum = dctn(on_grid.reshape(*fine, -1), axes=tuple(range(len(box))), norm="ortho").reshape(
        -1, network.width
    )
    omega2 = np.zeros(fine)
    for k, n in enumerate(fine):
        w = np.pi * np.arange(n) / n * 2  # the fine grid has half a sample between its points
        omega2 = omega2 + (w**2).reshape([-1 if j == k else 1 for j in range(len(fine))])
    cost = move(np.sqrt(price(omega2.reshape(-1), order)), like, xp.float64)
    D = move(spectrum, like, xp.float64) * cost[:, None]
    # E = DᵀD + decay; K = H E⁻¹ Hᵀ through the singular values of D, never squaring it.
    _, s, Vt = xp.linalg.svd(D, full_matrices=True)
    unseen = network.width - s.shape[0]
    if unseen > 0:
        s = xp.concat([s, xp.zeros(unseen, dtype=s.dtype, device=device(s))])
    weight = 1 / xp.sqrt(s**2 + (1e-7 * s[0]) ** 2)
    root = (H @ Vt.T) * weight  # (S, m): H E^(-1/2)
    U, g, Wt = xp.linalg.svd(root, full_matrices=False)
    rank = int(xp.sum(xp.astype(g > 1e-7 * g[0], xp.int64)))
    mixing = (Vt.T * weight) @ (Wt[:rank, :].T / g[:rank])
    sign = _signs(U[:, :rank])
    return {"basis": U[:, :rank] * sign, "mixing": mixing * sign, "features": H}
