"""Orthonormal coordinates of a dense layer on the samples of a region: plain and smooth.

:class:`DenseModes` have the basis U on the samples of a box and the map from its coefficients c to
the output weights α, factored once in float64 and applied in the data's dtype. :class:`ShapedModes`
are for regions of any shape, each on its own samples: a merged one may have a hundred thousand of
them and occur once.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from typing import Any, Self

import numpy as np

from elmfield._array import backend
from elmfield._array.autograd import recompute
from elmfield._array.backend import device, move, namespace, requires_grad, to_numpy
from elmfield._array.cache import CACHE
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array
from elmfield.local.bases import dense_weights
from elmfield.local.bases.polyharmonic import monomials
from elmfield.local.layers import Dense, price
from elmfield.local.model import Basis


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseModes(dense_weights.OnDense):
    """Orthonormal coordinates of a dense random layer on the samples of a box.

    Parameters
    ----------
    columns : array, shape (S, r)
        U, orthonormal; ``c = Uᵀ y``.
    mixing : array, shape (m, r), or (m, m) upper triangle
        M, or R of ``H = U R``: ``α = M c``, or ``α = R⁻¹ c`` when `triangular`.
    order : float, optional
        The energy's, of smooth modes, whose rows end with 1 and the d local coordinates, free
        of cost; None for plain least squares.
    """

    columns: Array = field(repr=False)
    mixing: Array = field(repr=False)
    triangular: bool
    order: float | None = None

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""
        return int(self.columns.shape[1])

    def values(self, c: Array) -> Array:
        """``y = U c``."""
        U = move(self.columns, c, c.dtype)
        return dense_weights.on_columns(lambda flat: U @ flat, c)

    def project(self, Y: Array) -> Array:
        """``c = Uᵀ y``: one matrix product for all boxes."""
        U = move(self.columns, Y, Y.dtype)
        return dense_weights.on_columns(lambda flat: U.T @ flat, Y)

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts.

        Smooth modes take Y as it is: what is missing was filled before, as smoothly as these would.
        """
        return Y if self.order is not None else super().complete(Y, present)

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The hidden features at `t`, and the plane's, differentiated as `order` says."""
        H = self.network(t, order)
        if self.order is None:
            return [H]
        return [namespace(t).concat([H, monomials(t, 1, order)], axis=-1)]

    def moved(self, like: Array) -> Self:
        """The same factors in the library and on the device of `like`."""
        return replace(self, columns=move(self.columns, like), mixing=move(self.mixing, like))

    def weights(self, c: Array) -> Array:
        """The paper's output weights α, (G, m, C); those of a free plane, 1 + d, come last."""
        M = self.mixing
        c = move(c, M, M.dtype)
        if self.triangular:
            return dense_weights.on_columns(lambda flat: backend.solve_triangular(M, flat), c)
        return dense_weights.on_columns(lambda flat: M @ flat, c)

    expand = weights  # in float64: with cond(H) up to 2e7, single precision would lose seven digits


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
    region = dense_weights.OnDense(network=network, box=box, inside=inside)
    t = move(region.positions, like, namespace(like).float64)
    shape = "" if inside is None else np.packbits(inside).tobytes().hex()
    name = f"plain dense modes {network} {box} {shape}"
    found = CACHE.get(name, like, lambda: _least_squares(network(t)))
    (S, rank), m = found["columns"].shape, network.width
    triangular = rank == m <= S
    modes = DenseModes(network=network, box=box, inside=inside, triangular=triangular, **found)
    if rank < min(S, m):
        modes.warn_of_rank(rank, m, f"the {S} samples")
    return modes


def _least_squares(H: Array) -> dict[str, Array]:
    """U with ``c = Uᵀ y``, and R or M with ``α = R⁻¹ c`` (full rank) or ``α = M c``."""
    xp = namespace(H)
    S, m = H.shape
    if m <= S:
        U, R = backend.qr(H)
        diagonal = xp.linalg.diagonal(R)
        size = xp.abs(diagonal)
        if float(xp.min(size)) > 1e-10 * float(xp.max(size)):
            # Householder signs are a convention of the library; R with a positive diagonal is not.
            sign = _signs(diagonal[None, :])
            U *= sign
            R *= sign[:, None]
            return {"columns": U, "mixing": R}
    columns, mixing = _independent(H)
    return {"columns": columns, "mixing": mixing}


def _independent(H: Array, least: float = 1e-10) -> tuple[Array, Array]:
    """U, orthonormal, and M with ``H M = U``, of singular values above `least` of the largest.

    The first entry of each column is positive.
    """
    xp = namespace(H)
    U, s, Vt = xp.linalg.svd(H, full_matrices=False)
    rank = int(xp.sum(xp.astype(s > least * s[0], xp.int64)))
    sign = _signs(U[:, :rank])
    return U[:, :rank] * sign, Vt[:rank, :].T / s[:rank] * sign


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
    the directions that the grid does not see. ``K = H E⁻¹ Hᵀ = U diag(γ) Uᵀ``. Planes cost nothing,
    as lines in :class:`~elmfield.local.bases.AxisModes`, and are the first modes.
    """
    name = f"smooth dense modes {network} {box} {order}"
    found = CACHE.get(name, like, lambda: _least_energy(network, box, order, like))
    return DenseModes(network=network, box=box, triangular=False, order=order, **found)


def _least_energy(
    network: Dense, box: tuple[int, ...], order: float, like: Array
) -> dict[str, Array]:
    """U and M of :func:`smooth_dense_modes`."""
    from scipy.fft import dctn  # here, so that a command line that fits nothing starts fast

    xp = namespace(like)
    scale = move(dense_weights.half_widths(box), like, xp.float64)
    H = network(dense_weights.box_positions(box, like) / scale)
    fine = tuple(2 * n - 1 for n in box)
    on_grid = to_numpy(network(dense_weights.box_positions(box, like, 0.5) / scale))
    spectrum = dctn(on_grid.reshape(*fine, -1), axes=tuple(range(len(box))), norm="ortho")
    # The fine grid has half a sample between its points.
    omega2 = reduce(np.add.outer, [(np.pi * np.arange(n) / n * 2) ** 2 for n in fine])
    cost = move(np.sqrt(price(omega2.reshape(-1), order)), like, xp.float64)
    D = move(spectrum.reshape(-1, network.width), like, xp.float64) * cost[:, None]
    # E = DᵀD + decay; K = H E⁻¹ Hᵀ through the singular values of D, never squaring it.
    _, s, Vt = xp.linalg.svd(D, full_matrices=True)
    unseen = network.width - s.shape[0]
    if unseen > 0:
        s = xp.concat([s, xp.zeros(unseen, dtype=s.dtype, device=device(s))])
    weight = 1 / xp.sqrt(s**2 + (1e-7 * s[0]) ** 2)
    root = (H @ Vt.T) * weight  # (S, m): H E^(-1/2)
    X = monomials(dense_weights.box_positions(box, like) / scale, 1)
    lines, onto = _independent(X)  # an axis of one sample has none
    U, mixing = _independent(root - lines @ (lines.T @ root), 1e-7)
    mixing = (Vt.T * weight) @ mixing
    # The plane that these functions hold on the samples is taken off them again.
    off = -onto @ (lines.T @ (H @ mixing))
    none = xp.zeros((network.width, lines.shape[1]), dtype=xp.float64, device=device(H))
    of_planes, of_others = xp.concat([none, onto], axis=0), xp.concat([mixing, off], axis=0)
    return {
        "columns": xp.concat([lines, U], axis=1),
        "mixing": xp.concat([of_planes, of_others], axis=1),
    }


# --- regions with more samples than neurons -------------------------------------------------------


def shaped_modes(network: Dense, box: tuple[int, ...], inside: Any, like: Array) -> Basis:
    """The paper's least squares on those samples of a box that are `inside`; None for all.

    Local coordinates are the box's. Not more samples than neurons: as :func:`plain_modes`.
    """
    modes = ShapedModes(network=network, box=box, inside=inside)
    return plain_modes(network, box, like, inside) if network.width >= modes.n_samples else modes


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapedModes(dense_weights.OnDense):
    """Orthonormal coordinates of a dense layer on more samples than it has neurons.

    ``H = Q R`` over the region's samples, ``c = Qᵀ y``, ``α = R⁻¹ c``, as :func:`plain_modes`; but
    Q is never formed (R and c are the triangle of [H, y]) and neither R nor H is kept. The weights
    of coefficients that were found here are kept with other factors; for others R is made again.
    """

    def project(self, Y: Array) -> Array:
        """``c = Qᵀ y``: one factorisation for all regions of this shape."""
        xp, (G, _, C), m = namespace(Y), Y.shape, self.n_modes
        found = []
        for i, j in runs(G, max(1, m // (8 * C))):
            part = xp.astype(Y[i:j, ...], xp.float64)
            y = xp.reshape(xp.permute_dims(part, (1, 0, 2)), (-1, (j - i) * C))
            R, c = self._triangle(backend.detach(y))
            if requires_grad(y):
                # By its factorisation c is followed through R too, which does not depend on y.
                slope = recompute(self._onto, y, R)
                c = c + (slope - backend.detach(slope))
            c = xp.permute_dims(xp.reshape(c, (m, j - i, C)), (1, 0, 2))
            alpha, rank = self._solve(R, c)
            if rank < m:
                self.warn_of_rank(rank, m, f"the {self.n_samples} samples")
                c = xp.matmul(R, alpha)  # without what no weights can give
            found.append(xp.astype(c, Y.dtype))
            for g, name in enumerate(self._names(found[-1])):
                CACHE.get(name, c, partial(dict, weights=alpha[g, ...]))
        return xp.concat(found, axis=0)

    def weights(self, c: Array) -> Array:
        """The paper's output weights α, (G, m, C)."""
        xp, names = namespace(c), self._names(c)

        @cache
        def solved() -> Array:
            none = xp.empty((self.n_samples, 0), dtype=xp.float64, device=device(c))
            return self._solve(self._triangle(none)[0], c)[0]

        def kept(g: int) -> Array:
            return CACHE.get(names[g], c, lambda: {"weights": solved()[g, ...]})["weights"]

        return xp.stack([kept(g) for g in range(c.shape[0])]) if names else solved()

    expand = weights  # in float64: with cond(H) up to 2e7, single precision would lose seven digits

    def _names(self, c: Array) -> list[str]:
        """What the weights of coefficients c, (G, r, C), are kept by: none that are followed."""
        if requires_grad(c):
            return []
        shape = b"" if self.inside is None else np.packbits(self.inside).tobytes()
        own = f"weights {self.network} {self.box} ".encode() + shape
        every = (own + to_numpy(c[g, ...]).tobytes() for g in range(c.shape[0]))
        return [hashlib.sha256(name).hexdigest() for name in every]

    def values(self, c: Array) -> Array:
        """``y = H α`` on the region's samples."""
        xp, alpha = namespace(c), self.weights(c)
        parts = [xp.matmul(H, alpha) for H, _ in self._features(c)]
        return xp.astype(xp.concat(parts, axis=1), c.dtype)

    def _features(self, like: Array) -> Iterator[tuple[Array, slice]]:
        """H in blocks of rows, and which rows."""
        t, m = self.positions, self.n_modes
        for i, j in runs(len(t), max(2 * m, capacity(like) // m)):
            yield self.network(move(t[i:j], like)), slice(i, j)

    def _triangle(self, y: Array) -> tuple[Array, Array]:
        """R, with a positive diagonal, and c = Qᵀ y, (m, k), for samples y, (S, k); float64."""
        xp, m, T = namespace(y), self.n_modes, None
        for H, rows in self._features(y):
            # A triangle stands for the rows above: Qᵀ leaves their least squares as it is.
            T = backend.triangle(H, y[rows, :], above=T)[:m, :]
        T = T * _signs(xp.linalg.diagonal(T)[None, :])[:, None]
        return T[:, :m], T[:, m:]

    def _onto(self, y: Array, R: Array) -> Array:
        """``c = R⁻ᵀ Hᵀ y``, linear in y: fewer digits than by factorisation, enough for slopes."""
        xp = namespace(y)
        inverse, _ = self._solve(R, xp.eye(R.shape[0], dtype=R.dtype, device=device(R))[None, ...])
        return inverse[0, ...].T @ sum(H.T @ y[rows, :] for H, rows in self._features(R))

    def _solve(self, R: Array, c: Array) -> tuple[Array, int]:
        """``α = R⁻¹ c``, (G, m, C), of least norm where R is as good as singular; R's rank."""
        xp, m = namespace(R), R.shape[0]
        c, size = xp.astype(c, R.dtype), xp.abs(xp.linalg.diagonal(R))
        if float(xp.min(size)) > dense_weights.LEAST_SHARE * float(xp.max(size)):
            return dense_weights.on_columns(lambda flat: backend.solve_triangular(R, flat), c), m
        return dense_weights.least_norm(R, c, dense_weights.LEAST_SHARE)
