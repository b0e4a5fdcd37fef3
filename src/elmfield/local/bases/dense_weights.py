"""Least squares of a dense layer without a basis: output weights, or coordinates of many samples.

:class:`DenseWeights` are for what `dense_modes` has no orthonormal coordinates for: a hidden layer
of each region's own, a ridge, the normal equations, single precision, scattered samples.
:class:`ShapedModes` are for regions of any shape, each on its own samples: a merged one may have a
hundred thousand of them and occur once.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from elmfield._array import backend
from elmfield._array.autograd import recompute
from elmfield._array.backend import device, is_numpy, move, namespace, requires_grad, to_numpy
from elmfield._array.cache import CACHE
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Integers
from elmfield.local.bases.dense_modes import OnDense, complete_boxes, on_columns, plain_modes
from elmfield.local.layers import Dense
from elmfield.local.model import Basis

SOLVERS = ("qr", "lstsq", "normal")
"""Ways to solve ``H α = y``: QR, singular values, and ``HᵀH α = Hᵀy`` as the paper prints it."""

LEAST_SHARE = 1e-10
"""Of the largest diagonal entry or singular value, below which one is taken for 0."""


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

    def expand(self, c: Array) -> Array:
        """The coefficients themselves."""
        return c

    weights = expand

    def project(self, Y: Array) -> Array:
        """α, (G, m, C), of the samples Y, (G, S, C): all at once where regions are alike."""
        if self.regions is not None:
            return self._by_regions(DenseWeights._project, Y)
        xp, (G, S, C) = namespace(Y), Y.shape
        y = xp.reshape(xp.permute_dims(Y, (1, 0, 2)), (1, S, G * C))
        alpha = xp.reshape(self._project(y)[0, ...], (-1, G, C))
        return xp.permute_dims(alpha, (1, 0, 2))

    def values(self, c: Array) -> Array:
        """``y = H α``, (G, S, C)."""
        return self._by_regions(lambda part, c: part._features(c) @ c, c)

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts."""
        return self._by_regions(lambda part, *a: complete_boxes(part._predict, *a), Y, present)

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
        return namespace(X).concat(
            [function(self.of(regions[i]), *(a[i, ...] for a in parts)) for i in some]
        )

    def _project(self, Y: Array) -> Array:
        """α, (G, m, C), of regions with a layer each, or of one region, (1, S, C)."""
        n = self.n_modes if self.widths is None else self.widths[int(self.regions[0])]  # type: ignore[index]
        return self.solve(self._features(Y)[..., :n], Y)

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
            alpha = self._by_singular_values(H, y, min(S, n)) if alpha is None else alpha
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
        if is_numpy(H):
            return np.stack([backend.solve_triangular(r, b) for r, b in zip(R, c)])
        return backend.solve_triangular(R, c)

    def _by_singular_values(self, H: Array, y: Array, full: int) -> Array:
        """The solution of least norm; warns where fewer than `full` neurons are independent."""
        xp, (_, S, n) = namespace(H), H.shape
        U, s, Vt = xp.linalg.svd(H, full_matrices=False)
        usual = float(xp.finfo(H.dtype).eps) * max(S, n)  # as `numpy.linalg.lstsq` has it
        kept = s > (LEAST_SHARE if self.solver == "qr" else usual) * s[:, :1]
        rank = int(to_numpy(xp.sum(xp.astype(kept, xp.int64), axis=1)).min())
        if rank < full:
            self.warn_of_rank(rank, n, "the samples")
        inverse = xp.where(kept, 1 / xp.where(kept, s, xp.ones_like(s)), xp.zeros_like(s))
        return xp.matrix_transpose(Vt) @ (inverse[..., None] * (xp.matrix_transpose(U) @ y))

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


# --- coordinates of regions with more samples than neurons ----------------------------------------


def shaped_modes(network: Dense, box: tuple[int, ...], inside: Any, like: Array) -> Basis:
    """The paper's least squares on those samples of a box that are `inside`; None for all.

    Local coordinates are the box's. Not more samples than neurons: as :func:`plain_modes`.
    """
    modes = ShapedModes(network=network, box=box, inside=inside)
    return plain_modes(network, box, like, inside) if network.width >= modes.n_samples else modes


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapedModes(OnDense):
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

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts."""
        plain = DenseWeights(network=self.network, box=self.box, inside=self.inside)
        return plain.complete(Y, present)

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
        diagonal = xp.linalg.diagonal(T)
        T = T * xp.where(diagonal < 0, -xp.ones_like(diagonal), xp.ones_like(diagonal))[:, None]
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
        if float(xp.min(size)) > LEAST_SHARE * float(xp.max(size)):
            return on_columns(lambda flat: backend.solve_triangular(R, flat), c), m
        U, s, Vt = xp.linalg.svd(R, full_matrices=False)
        rank = int(xp.sum(xp.astype(s > LEAST_SHARE * s[0], xp.int64)))
        left, right = U[:, :rank].T, Vt[:rank, :].T
        return on_columns(lambda flat: right @ ((left @ flat) / s[:rank, None]), c), rank
