"""Least squares of a dense layer: what its local models share, and output weights.

:class:`DenseWeights` are for what `dense_modes` has no orthonormal coordinates for: a hidden layer
of each region's own, a ridge, the normal equations, single precision, scattered samples.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmfield._array import backend
from elmfield._array.backend import device, is_numpy, move, namespace, to_numpy
from elmfield._array.running import capacity
from elmfield._array.typing import Array, Floats, Integers
from elmfield.errors import RankWarning
from elmfield.local.energies import positions
from elmfield.local.layers import Dense
from elmfield.local.model import LocalModel

SOLVERS = ("qr", "lstsq", "normal")
"""Ways to solve ``H α = y``: QR, singular values, and ``HᵀH α = Hᵀy`` as the paper prints it."""

LEAST_SHARE = 1e-10
"""Of the largest diagonal entry or singular value, below which one is taken for 0."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OnDense(LocalModel):
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

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts.

        Fitting the completed samples gives that least-squares fit again. One factorisation per box
        and channel, because each misses something else.
        """
        plain = DenseWeights(network=self.network, box=self.box, inside=self.inside)
        return plain.complete(Y, present)

    def warn_of_rank(self, rank: int, m: int, samples: str) -> None:
        """Say how many of m neurons the samples of a region can tell apart."""
        warnings.warn(
            f"only {rank} of {m} hidden neurons are independent on {samples} of a region; the "
            "others were left out of the fit",
            RankWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class DenseWeights(OnDense):
    """A dense layer whose coefficients are its output weights: ``f(t) = h(t) α``.

    ``α = argmin |H α - y|² + ridge |α|²`` on the samples of a region; of least norm where that
    leaves a choice.

    Parameters
    ----------
    is_own : bool
        Whether each region draws its own layer.
    solver : {"qr", "lstsq", "normal"}
        How α is found.
    ridge : float
        The penalty on the weights.
    dtype : {"float64", "float32"}
        In which H is formed, α is found and the function is evaluated.
    widths : tuple of int, optional
        Neurons of each region, the first ones of the layer; None where all have the layer's width.
    regions : integer array, shape (G,), optional
        The numbers of the regions that are asked; fits and rows need them where regions differ.
    """

    is_own: bool = False
    solver: str = "qr"
    ridge: float = 0.0
    dtype: str = "float64"
    widths: tuple[int, ...] | None = None
    regions: Integers | None = None

    basis = None

    def of(self, regions: Integers) -> "DenseWeights":
        """The model of some regions, by number; itself where all are alike."""
        alike = not self.is_own and self.widths is None
        return self if alike else replace(self, regions=np.asarray(regions))

    def rows(self, t: Array, order: tuple[int, ...]) -> list[Array]:
        """The hidden features at `t`: (G, p, d) where each region has its own layer."""
        if not self.is_own or self.regions is None:
            return [self.network(t, order)]
        return [self.network.each(t, order, self.regions)]

    def project(self, Y: Array) -> Array:
        """α, (G, m, C), of the samples Y, (G, S, C): all at once where regions are alike."""
        if self.regions is not None:
            return self._by_regions(DenseWeights._project, Y)
        return on_columns(lambda flat: self._project(flat[None, ...])[0, ...], Y)

    def values(self, c: Array) -> Array:
        """``y = H α``, (G, S, C)."""
        return self._by_regions(lambda part, c: part._features(c) @ c, c)

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts."""
        return self._by_regions(DenseWeights._complete, Y, present)

    def _by_regions(self, function: Callable[..., Array], *parts: Array) -> Array:
        """A function of the model of some regions and their parts of arrays, (G, ...); all of it.

        LAPACK takes matrices one by one, a GPU has its batches.
        """
        regions, (X, *_), m = self.regions, parts, self.n_modes
        if regions is None:
            return function(self, *parts)
        alone = backend.is_on_host(X) or self.widths is not None
        step = 1 if alone else max(1, capacity(X) // (8 * max(self.n_samples, m) * m))
        some = (slice(i, i + step) for i in range(0, X.shape[0], step))
        found = [function(self.of(regions[i]), *(a[i, ...] for a in parts)) for i in some]
        return namespace(X).concat(found)

    def _project(self, Y: Array) -> Array:
        """α, (G, m, C), of regions with a layer each, or of one region, (1, S, C)."""
        n = self.n_modes if self.widths is None else self.widths[int(self.regions[0])]  # type: ignore[index]
        return self.solve(self._features(Y)[..., :n], Y)

    def _complete(self, Y: Array, present: Array) -> Array:
        """Y, (G, S, C), completed; boxes with a channel without any sample stay as they are."""
        xp = namespace(Y)
        some = to_numpy(xp.all(xp.any(present, axis=1), axis=1) & ~xp.all(present, axis=(1, 2)))
        boxes = []
        for g, is_known in enumerate(some.tolist()):
            pairs = [(Y[g, :, k], present[g, :, k]) for k in range(Y.shape[2] if is_known else 0)]
            columns = [xp.where(p, y, xp.astype(self._predict(y, p), Y.dtype)) for y, p in pairs]
            boxes.append(xp.stack(columns, axis=-1) if is_known else Y[g, ...])
        return xp.stack(boxes)

    def _predict(self, y: Array, have: Array) -> Array:
        """All samples, (S,), predicted by least squares on the present ones of y, (S,)."""
        xp, H = namespace(y), self._features(y[None, ...])[0, ...]
        (rows,) = xp.nonzero(have)
        some = xp.take(y, rows)[None, :, None]
        return H @ self.solve(xp.take(H, rows, axis=0)[None, ...], some)[0, :, 0]

    def _features(self, Y: Array) -> Array:
        """H at the samples, (G, S, m) for regions with a layer each, else (1, S, m)."""
        xp, n = namespace(Y), 1 if self.regions is None else len(self.regions)
        t = self.positions
        here = move(t, Y, getattr(xp, self.dtype))
        return self.rows(xp.broadcast_to(here[None, ...], (n, *t.shape)), (0,) * len(self.box))[0]

    def solve(self, H: Array, y: Array) -> Array:
        """α, (G, m, k), for H, (G, S, n), and samples y, (G, S, k); 0 beyond n neurons."""
        xp, (G, S, n), k = namespace(H), H.shape, y.shape[2]
        y = xp.astype(y, H.dtype)

        def zeros(rows: int) -> Array:
            return xp.zeros((G, rows, k), dtype=H.dtype, device=device(H))

        if self.solver == "normal":
            alpha = self._normal(H, y)
        else:
            if self.ridge:  # rows that want the weights to be 0
                eye = math.sqrt(self.ridge) * xp.eye(n, dtype=H.dtype, device=device(H))
                H = xp.concat([H, xp.broadcast_to(eye, (G, n, n))], axis=1)
                y = xp.concat([y, zeros(n)], axis=1)
            alpha = self._by_qr(H, y) if self.solver == "qr" and H.shape[1] >= n else None
            if alpha is None:
                # As numpy.linalg.lstsq has it.
                usual = float(xp.finfo(H.dtype).eps) * max(H.shape[1:])
                alpha, rank = least_norm(H, y, LEAST_SHARE if self.solver == "qr" else usual)
                if rank < min(S, n):
                    self.warn_of_rank(rank, n, "the samples")
        return alpha if n == self.n_modes else xp.concat([alpha, zeros(self.n_modes - n)], axis=1)

    def _by_qr(self, H: Array, y: Array) -> Array | None:
        """``R⁻¹ Qᵀ y``; None where R is as good as singular."""
        xp, n = namespace(H), H.shape[2]
        if is_numpy(H) and self.dtype == "float64":
            T = np.stack([backend.triangle(h, b)[:n] for h, b in zip(H, y)])
            R, c = T[..., :n], T[..., n:]
        else:
            Q, R = xp.linalg.qr(H)
            c = xp.matrix_transpose(Q) @ y
        size = xp.abs(xp.linalg.diagonal(R))
        if not bool(xp.all(xp.min(size, axis=-1) > LEAST_SHARE * xp.max(size, axis=-1))):
            return None
        return backend.solve_triangular(R, c)

    def _normal(self, H: Array, y: Array) -> Array:
        """``(HᵀH + ridge)⁻¹ Hᵀ y``."""
        xp, (_, S, m), Ht = namespace(H), H.shape, namespace(H).matrix_transpose(H)
        try:
            if m > S and not self.ridge:
                raise np.linalg.LinAlgError(f"{S} samples for {m} neurons")
            eye = xp.eye(m, dtype=H.dtype, device=device(H))
            return xp.linalg.solve(Ht @ H + self.ridge * eye, Ht @ y)
        except (np.linalg.LinAlgError, RuntimeError) as error:  # torch's own is a RuntimeError
            raise ValueError(
                f"the normal equations of a region cannot be solved ({error}). Use solver='qr', a "
                "`ridge`, or fewer neurons."
            ) from error


def least_norm(H: Array, y: Array, least: float) -> tuple[Array, int]:
    """``argmin |H α - y|``, (..., n, k), of least norm, for H, (..., S, n); the least rank of an H.

    Singular values below `least` of the largest are taken for 0.
    """
    xp = namespace(H)
    U, s, Vt = xp.linalg.svd(H, full_matrices=False)
    kept = s > least * s[..., :1]
    rank = int(to_numpy(xp.sum(xp.astype(kept, xp.int64), axis=-1)).min())
    inverse = xp.where(kept, 1 / xp.where(kept, s, xp.ones_like(s)), xp.zeros_like(s))
    return xp.matrix_transpose(Vt) @ (inverse[..., None] * (xp.matrix_transpose(U) @ y)), rank


def on_columns(function: Callable[[Array], Array], c: Array) -> Array:
    """A linear function of columns, (r, n) to (q, n), of all of c, (G, r, C): (G, q, C)."""
    xp, (G, r, C) = namespace(c), c.shape
    found = function(xp.reshape(xp.permute_dims(c, (1, 0, 2)), (r, G * C)))
    return xp.permute_dims(xp.reshape(found, (-1, G, C)), (1, 0, 2))


def box_positions(box: tuple[int, ...], like: Array, step: float = 1.0) -> Array:
    """Offsets of a box's samples from its centre, shape (S, d), float64, last axis fastest."""
    counts = [round((n - 1) / step) + 1 for n in box]
    return move(positions(counts) * step, like, namespace(like).float64)


def half_widths(box: tuple[int, ...]) -> Floats:
    """Distance from the centre of a box to its outermost samples; 1/2 where there is only one."""
    return np.asarray([max(n - 1, 1) / 2 for n in box])
