"""Least squares of a dense layer that keeps the output weights themselves.

For what `dense_modes` has no orthonormal coordinates for: a hidden layer of each region's own, a
ridge, the normal equations, single precision, scattered samples.
"""

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np

from elmfield._array.backend import (
    device,
    is_numpy,
    is_on_host,
    move,
    namespace,
    requires_grad,
    to_numpy,
)
from elmfield._array.linalg import solve_triangular, triangle
from elmfield._array.memory import capacity
from elmfield._array.typing import Array, Integers
from elmfield.errors import RankWarning
from elmfield.local.bases.dense_modes import OnDense, box_positions, complete_boxes

SOLVERS = ("qr", "lstsq", "normal")
"""Ways to solve ``H α = y``: QR, singular values, and ``HᵀH α = Hᵀy`` as the paper prints it."""

LEAST_SHARE = 1e-10
"""Of the largest diagonal entry or singular value, below which QR takes one for 0."""


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

    @property
    def n_modes(self) -> int:
        """Neurons m."""
        return self.network.width

    rank = row_size = n_modes

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

    def moved(self, like: Array) -> "DenseWeights":
        """Itself: it holds no arrays that have to be moved."""
        return self

    def project(self, Y: Array) -> Array:
        """α, (G, m, C), of the samples Y, (G, S, C): all at once where regions are alike."""
        xp, (G, S, C) = namespace(Y), Y.shape
        if self.regions is None:
            y = xp.reshape(xp.permute_dims(Y, (1, 0, 2)), (1, S, G * C))
            alpha = xp.reshape(self.solve(self._features(Y, 1), y)[0, ...], (-1, G, C))
            return xp.permute_dims(alpha, (1, 0, 2))
        # LAPACK takes matrices one by one; a GPU has its batches.
        m, found = self.n_modes, []
        step = 1 if is_on_host(Y) or self.widths else max(1, capacity(Y) // (8 * max(S, m) * m))
        for i in range(0, G, step):
            part = self.of(self.regions[i : i + step])
            y = Y[i : i + step, ...]
            n = m if self.widths is None else self.widths[int(self.regions[i])]
            alpha = part.solve(part._features(Y, y.shape[0])[..., :n], y)
            if n < m:
                rest = xp.zeros((y.shape[0], m - n, C), dtype=alpha.dtype, device=device(alpha))
                alpha = xp.concat([alpha, rest], axis=1)
            found.append(alpha)
        return xp.concat(found, axis=0)

    def values(self, c: Array) -> Array:
        """``y = H α``, (G, S, C)."""
        xp = namespace(c)
        if self.regions is None:
            return self._features(c, 1) @ c
        each = (self.of(self.regions[i : i + 1]) for i in range(c.shape[0]))
        return xp.concat([p._features(c, 1) @ c[i : i + 1, ...] for i, p in enumerate(each)])

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts."""
        if self.regions is None:
            return complete_boxes(self._predict, Y, present)
        each = [slice(i, i + 1) for i in range(Y.shape[0])]
        own = (complete_boxes(self.of(self.regions[i])._predict, Y[i], present[i]) for i in each)
        return namespace(Y).concat(list(own), axis=0)

    def _predict(self, y: Array, have: Array) -> Array:
        """All samples, (S,), predicted by least squares on the present ones of y, (S,)."""
        xp, H = namespace(y), self._features(y, 1)[0, ...]
        (rows,) = xp.nonzero(have)
        some = xp.take(y, rows)[None, :, None]
        return H @ self.solve(xp.take(H, rows, axis=0)[None, ...], some)[0, :, 0]

    def _features(self, like: Array, n: int) -> Array:
        """H at the samples of n regions, (n, S, m); n = 1 where they share it."""
        xp = namespace(like)
        t = box_positions(self.box, np.empty(0)) / self.radius
        t = t if self.inside is None else t[np.asarray(self.inside).reshape(-1)]
        here = move(t, like, getattr(xp, self.dtype))
        return self.rows(xp.broadcast_to(here[None, ...], (n, *t.shape)), (0,) * len(self.box))[0]

    def solve(self, H: Array, y: Array) -> Array:
        """α, (G, m, k), for H, (G, S, m), and samples y, (G, S, k)."""
        xp, (G, S, m), k = namespace(H), H.shape, y.shape[2]
        y, rank = xp.astype(y, H.dtype), min(S, m)
        if self.solver == "normal":
            return self._normal(H, y)
        if self.ridge:  # rows that want the weights to be 0
            eye = math.sqrt(self.ridge) * xp.eye(m, dtype=H.dtype, device=device(H))
            H = xp.concat([H, xp.broadcast_to(eye, (G, m, m))], axis=1)
            y = xp.concat([y, xp.zeros((G, m, k), dtype=H.dtype, device=device(H))], axis=1)
        if self.solver == "qr" and H.shape[1] >= m:
            if is_numpy(H) and self.dtype == "float64" and not requires_grad(y):
                T = np.stack([triangle(h, b)[:m] for h, b in zip(H, y)])
                R, c = T[..., :m], T[..., m:]
            else:
                Q, R = xp.linalg.qr(H)
                c = xp.matrix_transpose(Q) @ y
            size = xp.abs(xp.linalg.diagonal(R))
            if bool(xp.all(xp.min(size, axis=-1) > LEAST_SHARE * xp.max(size, axis=-1))):
                if not is_numpy(H):
                    return solve_triangular(R, c)
                return np.stack([solve_triangular(r, b) for r, b in zip(R, c)])
        U, s, Vt = xp.linalg.svd(H, full_matrices=False)
        usual = float(xp.finfo(H.dtype).eps) * max(H.shape[1:])  # as `numpy.linalg.lstsq` has it
        kept = s > (LEAST_SHARE if self.solver == "qr" else usual) * s[:, :1]
        inverse = xp.where(kept, 1 / xp.where(kept, s, xp.ones_like(s)), xp.zeros_like(s))
        found = int(to_numpy(xp.sum(xp.astype(kept, xp.int64), axis=1)).min())
        if found < rank:
            warnings.warn(
                f"only {found} of {m} hidden neurons are independent on the {S} samples of a "
                "region; the others were left out of the fit",
                RankWarning,
                stacklevel=2,
            )
        alpha = inverse[..., None] * (xp.matrix_transpose(U) @ y)
        return xp.matrix_transpose(Vt) @ alpha

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
