"""Orthonormal coordinates of a dense layer on the samples of a box: plain and smooth.

For a hidden layer and the samples of a box they have the basis U on the samples and the map from
its coefficients c to the output weights α. Factored once in float64, applied in the data's dtype.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from elmfield._array.backend import device, move, namespace, qr, solve_triangular, to_numpy
from elmfield._array.cache import CACHE
from elmfield._array.typing import Array, Floats, Integers
from elmfield.errors import RankWarning
from elmfield.local.bases.polyharmonic import monomials
from elmfield.local.energies import positions
from elmfield.local.layers import Dense, price


@dataclass(frozen=True, eq=False, kw_only=True)
class OnDense:
    """What all local models on a dense layer share.

    Parameters
    ----------
    network : Dense
        The hidden layer h.
    box : tuple of int
        The samples of the box on each axis.
    inside : NumPy array of bool, of the box's shape, optional
        Which samples belong to the region, S in all; None if the whole box does.
    """

    network: Dense
    box: tuple[int, ...]
    inside: Any = None

    axes = None

    @property
    def radius(self) -> Floats:
        """Half the box, from its first to its last sample: local coordinates run from -1 to 1."""
        return half_widths(self.box)

    @property
    def n_samples(self) -> int:
        """Samples S of the region."""
        return math.prod(self.box) if self.inside is None else int(np.count_nonzero(self.inside))

    @property
    def positions(self) -> Floats:
        """Local coordinates of the region's samples, (S, d)."""
        t: Floats = box_positions(self.box, np.empty(0)) / self.radius
        return t if self.inside is None else t[np.asarray(self.inside).reshape(-1)]

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel: one a neuron."""
        return self.network.width

    @property
    def rank(self) -> int:
        """All coefficients are independent."""
        return self.n_modes

    @property
    def row_size(self) -> int:
        """Neurons."""
        return max(1, self.n_modes)

    @property
    def basis(self) -> Any:
        """Itself: coefficients are coordinates of the samples."""
        return self

    @property
    def ranking(self) -> Integers:
        """Neurons, or singular vectors, as they come: the first m' are a fit of their own."""
        return np.arange(self.n_modes)

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The hidden features at `t`, differentiated as `order` says."""
        return [self.network(t, order)]

    def warn_of_rank(self, rank: int, m: int, samples: str) -> None:
        """Say how many of m neurons the samples of a region can tell apart."""
        warnings.warn(
            f"only {rank} of {m} hidden neurons are independent on {samples} of a region; the "
            "others were left out of the fit",
            RankWarning,
            stacklevel=3,
        )

    def moved(self, like: Array) -> Self:
        """Itself, unless it holds arrays that have to be moved."""
        return self


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseModes(OnDense):
    """Orthonormal coordinates of a dense random layer on the samples of a box.

    Parameters
    ----------
    columns : array, shape (S, r)
        U, orthonormal; ``c = Uᵀ y``.
    mixing : array, shape (m, r), or (m, m) upper triangle
        M, or R of ``H = U R``: ``α = M c``, or ``α = R⁻¹ c`` when `triangular`.
    features : array, shape (S, m)
        H, for regions with missing samples.
    order : float, optional
        The energy's, of smooth modes, whose features end with 1 and the d local coordinates, free
        of cost; None for plain least squares.
    """

    columns: Array = field(repr=False)
    mixing: Array = field(repr=False)
    triangular: bool
    features: Array = field(repr=False)
    order: float | None = None

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel."""
        return int(self.columns.shape[1])

    def values(self, c: Array) -> Array:
        """``y = U c``."""
        U = move(self.columns, c, c.dtype)
        return on_columns(lambda flat: U @ flat, c)

    def project(self, Y: Array) -> Array:
        """``c = Uᵀ y``: one matrix product for all boxes."""
        xp = namespace(Y)
        G, S, C = Y.shape
        U = move(self.columns, Y, Y.dtype)
        flat = xp.reshape(xp.permute_dims(Y, (2, 0, 1)), (C * G, S))
        return xp.permute_dims(xp.reshape(flat @ U, (C, G, -1)), (1, 2, 0))

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts.

        Projecting the completed samples gives that least-squares fit again. One factorisation per
        box and channel, because each misses something else. Smooth modes take Y as it is: what is
        missing was filled before, as smoothly as these would.
        """
        return Y if self.order is not None else complete_boxes(self._predict, Y, present)

    def _predict(self, y: Array, have: Array) -> Array:
        """All samples, (S,), predicted by least squares on the present ones of y, (S,)."""
        xp, H = namespace(y), self.features
        (rows,) = xp.nonzero(have)
        some = xp.astype(xp.take(y, rows), H.dtype)
        return H @ (xp.linalg.pinv(xp.take(H, rows, axis=0), rtol=1e-10) @ some)

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The hidden features at `t`, and the plane's, differentiated as `order` says."""
        H = self.network(t, order)
        return [
            H if self.order is None else namespace(t).concat([H, monomials(t, 1, order)], axis=-1)
        ]

    def moved(self, like: Array) -> Self:
        """The same factors in the library and on the device of `like`."""
        parts = {
            name: move(getattr(self, name), like) for name in ("columns", "mixing", "features")
        }
        return replace(self, **parts)

    def weights(self, c: Array) -> Array:
        """The paper's output weights α, (G, m, C); those of a free plane, 1 + d, come last."""
        xp = namespace(self.mixing)
        c = c if namespace(c) is xp else move(c, self.mixing)
        M = self.mixing
        solve = (lambda flat: solve_triangular(M, flat)) if self.triangular else M.__matmul__
        return on_columns(solve, xp.astype(c, M.dtype))

    expand = weights  # in float64: with cond(H) up to 2e7, single precision would lose seven digits


def on_columns(function: Callable[[Array], Array], c: Array) -> Array:
    """A linear function of columns, (r, n) to (q, n), of all of c, (G, r, C): (G, q, C)."""
    xp, (G, r, C) = namespace(c), c.shape
    found = function(xp.reshape(xp.permute_dims(c, (1, 0, 2)), (r, G * C)))
    return xp.permute_dims(xp.reshape(found, (-1, G, C)), (1, 0, 2))


def complete_boxes(predict: Callable[[Array, Array], Array], Y: Array, present: Array) -> Array:
    """Y, (G, S, C), with missing samples predicted from the present ones of their box and channel.

    `predict` takes samples and presence, (S,), and returns (S,). Boxes with a channel without any
    sample stay as they are.
    """
    xp = namespace(Y)
    some = to_numpy(xp.all(xp.any(present, axis=1), axis=1) & ~xp.all(present, axis=(1, 2)))
    boxes = []
    for g, is_known in enumerate(some.tolist()):
        pairs = [(Y[g, :, k], present[g, :, k]) for k in range(Y.shape[2] if is_known else 0)]
        columns = [xp.where(have, y, xp.astype(predict(y, have), Y.dtype)) for y, have in pairs]
        boxes.append(xp.stack(columns, axis=-1) if is_known else Y[g, ...])
    return xp.stack(boxes)


def box_positions(box: tuple[int, ...], like: Array, step: float = 1.0) -> Array:
    """Offsets of a box's samples from its centre, shape (S, d), float64, last axis fastest."""
    counts = [round((n - 1) / step) + 1 for n in box]
    return move(positions(counts) * step, like, namespace(like).float64)


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
    t = box_positions(box, like) / move(half_widths(box), like, namespace(like).float64)
    if inside is not None:
        t = namespace(t).take(t, move(np.flatnonzero(inside), t), axis=0)
    shape = "" if inside is None else np.packbits(inside).tobytes().hex()
    name = f"plain modes {network} {box} {shape}"
    found = CACHE.get(name, like, lambda: _least_squares(network(t)))
    (S, m), rank = found["features"].shape, found["columns"].shape[1]
    triangular = rank == m <= S
    modes = DenseModes(network=network, box=box, inside=inside, triangular=triangular, **found)
    if rank < min(S, m):
        modes.warn_of_rank(rank, m, f"the {S} samples")
    return modes


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
            return {"columns": U, "mixing": R, "features": H}
    U, s, Vt = xp.linalg.svd(H, full_matrices=False)
    rank = int(xp.sum(xp.astype(s > 1e-10 * s[0], xp.int64)))
    sign = _signs(U[:, :rank])
    mixing = Vt[:rank, :].T / s[:rank] * sign
    return {"columns": U[:, :rank] * sign, "mixing": mixing, "features": H}


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
    name = f"smooth modes {network} {box} {order}"
    found = CACHE.get(name, like, lambda: _least_energy(network, box, order, like))
    return DenseModes(network=network, box=box, triangular=False, order=order, **found)


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
    X = monomials(box_positions(box, like) / scale, 1)
    lines, size, turn = xp.linalg.svd(X, full_matrices=False)
    q = int(xp.sum(xp.astype(size > 1e-10 * size[0], xp.int64)))  # an axis of one sample has none
    sign = _signs(lines[:, :q])
    lines, onto = lines[:, :q] * sign, turn[:q, :].T / size[:q] * sign  # X onto = lines
    U, g, Wt = xp.linalg.svd(root - lines @ (lines.T @ root), full_matrices=False)
    rank = int(xp.sum(xp.astype(g > 1e-7 * g[0], xp.int64)))
    sign = _signs(U[:, :rank])
    U, mixing = U[:, :rank] * sign, (Vt.T * weight) @ (Wt[:rank, :].T / g[:rank]) * sign
    # The plane that these functions hold on the samples is taken off them again.
    off = -onto @ (lines.T @ (H @ mixing))
    none = xp.zeros((network.width, q), dtype=xp.float64, device=device(H))
    of_planes, of_others = xp.concat([none, onto], axis=0), xp.concat([mixing, off], axis=0)
    return {
        "columns": xp.concat([lines, U], axis=1),
        "mixing": xp.concat([of_planes, of_others], axis=1),
        "features": xp.concat([H, X], axis=1),
    }
