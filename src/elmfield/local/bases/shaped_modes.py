"""Least squares of a dense layer on regions of any shape, each on its own samples.

Unlike `dense_modes`, this keeps no basis: a merged region may have a hundred thousand samples
and occur once.
"""

import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmfield._array.autograd import recompute
from elmfield._array.backend import detach, device, move, namespace, requires_grad, to_numpy
from elmfield._array.linalg import solve_triangular, triangle
from elmfield._array.running import capacity
from elmfield._array.typing import Array, Integers
from elmfield.errors import RankWarning
from elmfield.local.bases.dense_modes import (
    DenseModes,
    OnDense,
    box_positions,
    complete_boxes,
    on_columns,
    plain_modes,
)
from elmfield.local.layers import Dense

REMEMBERED_REGIONS = 256
"""Regions whose output weights are kept beside their coefficients."""


def shaped_modes(
    network: Dense, box: tuple[int, ...], inside: Any, like: Array
) -> "DenseModes | ShapedModes":
    """The paper's least squares on those samples of a box that are `inside`; None for all.

    Local coordinates are the box's. Not more samples than neurons: as :func:`plain_modes`.
    """
    S = int(np.prod(box)) if inside is None else int(np.count_nonzero(inside))
    if network.width >= S:
        return plain_modes(network, box, like, inside)
    return ShapedModes(network=network, box=box, inside=inside)


class Remembered:
    """Output weights by the coefficients they belong to, for the last few regions; thread-safe."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bytes], Array] = {}
        self._lock = threading.Lock()

    def get(self, c: Array) -> Array | None:
        """Weights (G, m, C) of coefficients c, (G, r, C), if all are known."""
        keys = _keys(c)
        with self._lock:
            found = [self._kept.get(key) for key in keys]
        return None if any(a is None for a in found) else namespace(c).stack(found)

    def put(self, c: Array, alpha: Array) -> None:
        """Keep the weights of coefficients c, and forget the oldest."""
        with self._lock:
            for g, key in enumerate(_keys(c)):
                self._kept[key] = alpha[g, ...]
            while len(self._kept) > REMEMBERED_REGIONS:
                del self._kept[next(iter(self._kept))]


def _keys(c: Array) -> list[tuple[str, bytes]]:
    """By region, library and device, and the bytes: a field moved to torch has the same modes."""
    where = f"{namespace(c).__name__} {device(c)}"
    return [(where, to_numpy(c[g, ...]).tobytes()) for g in range(c.shape[0])]


@dataclass(frozen=True, eq=False, kw_only=True)
class ShapedModes(OnDense):
    """Orthonormal coordinates of a dense layer on more samples than it has neurons.

    ``H = Q R`` over the region's samples, ``c = Qᵀ y``, ``α = R⁻¹ c``, as :func:`plain_modes`; but
    Q is never formed (R and c are the triangle of [H, y]) and neither R nor H is kept. The weights
    of coefficients that were found here are remembered; for others R is made again.
    """

    _weights: Remembered = field(default_factory=Remembered, repr=False, init=False)

    @property
    def n_modes(self) -> int:
        """Coefficients r per region and channel: one a neuron."""
        return self.network.width

    rank = n_modes

    @property
    def basis(self) -> "ShapedModes":
        """Itself: coefficients are coordinates of the samples."""
        return self

    row_size = n_modes

    @property
    def ranking(self) -> Integers:
        """Neurons as they come: the first m' are a fit of their own."""
        return np.arange(self.n_modes)

    def project(self, Y: Array) -> Array:
        """``c = Qᵀ y``: one factorisation for all regions of this shape."""
        xp = namespace(Y)
        G, _, C = Y.shape
        m = self.network.width
        found = []
        step = max(1, m // (8 * C))
        for i in range(0, G, step):
            part = xp.astype(Y[i : min(i + step, G), ...], xp.float64)
            g = part.shape[0]
            y = xp.reshape(xp.permute_dims(part, (1, 0, 2)), (-1, g * C))
            R, c = self._triangle(detach(y))
            if requires_grad(y):
                # By its factorisation c is followed through R too, which does not depend on y.
                slope = recompute(self._onto, y, R)
                c = c + (slope - detach(slope))
            c = xp.permute_dims(xp.reshape(c, (m, g, C)), (1, 0, 2))
            alpha, rank = self._solve(R, c)
            if rank < m:
                warnings.warn(
                    f"only {rank} of {m} hidden neurons are independent on the {self.n_samples} "
                    "samples of a region; the others were left out of the fit",
                    RankWarning,
                    stacklevel=2,
                )
                c = xp.matmul(R, alpha)  # without what no weights can give
            found.append(xp.astype(c, Y.dtype))
            if not requires_grad(c):
                self._weights.put(found[-1], alpha)
        return xp.concat(found, axis=0)

    def moved(self, like: Array) -> "ShapedModes":
        """Itself: it holds no arrays that have to be moved."""
        return self

    def weights(self, c: Array) -> Array:
        """The paper's output weights α, (G, m, C)."""
        xp = namespace(c)
        known = None if requires_grad(c) else self._weights.get(c)
        if known is not None:
            return known
        R, _ = self._triangle(xp.empty((self.n_samples, 0), dtype=xp.float64, device=device(c)))
        alpha, _ = self._solve(R, c)
        if not requires_grad(c):
            self._weights.put(c, alpha)
        return alpha

    expand = weights  # in float64: with cond(H) up to 2e7, single precision would lose seven digits

    def values(self, c: Array) -> Array:
        """``y = H α`` on the region's samples."""
        xp = namespace(c)
        alpha = self.weights(c)
        parts = [xp.matmul(H, alpha) for H, _ in self._features(c)]
        return xp.astype(xp.concat(parts, axis=1), c.dtype)

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts."""
        return complete_boxes(self._predict, Y, present)

    def _predict(self, y: Array, have: Array) -> Array:
        """All samples, (S,), predicted by least squares on the present ones of y, (S,)."""
        xp, own = namespace(y), to_numpy(have)
        inside = np.ones(self.box, bool) if self.inside is None else np.array(self.inside)
        inside[inside] = own
        part = shaped_modes(self.network, self.box, inside, y)
        some = xp.take(y, move(np.flatnonzero(own), y))[None, :, None]
        alpha = part.weights(part.project(some))[0, :, 0]
        return xp.concat([H @ alpha for H, _ in self._features(y)])

    def _features(self, like: Array) -> Iterator[tuple[Array, slice]]:
        """H in blocks of rows, and which rows."""
        t = box_positions(self.box, np.empty(0)) / self.radius
        if self.inside is not None:
            t = t[np.asarray(self.inside).reshape(-1)]
        step = max(2 * self.network.width, capacity(like) // self.network.width)
        for i in range(0, len(t), step):
            yield self.network(move(t[i : i + step], like)), slice(i, min(i + step, len(t)))

    def _triangle(self, y: Array) -> tuple[Array, Array]:
        """R, with a positive diagonal, and c = Qᵀ y, (m, k), for samples y, (S, k); float64."""
        xp = namespace(y)
        m = self.network.width
        T = None
        for H, rows in self._features(y):
            # A triangle stands for the rows above: Qᵀ leaves their least squares as it is.
            T = triangle(H, y[rows, :], above=T)[:m, :]
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
        if float(xp.min(size)) > 1e-10 * float(xp.max(size)):
            return on_columns(lambda flat: solve_triangular(R, flat), c), m
        U, s, Vt = xp.linalg.svd(R, full_matrices=False)
        rank = int(xp.sum(xp.astype(s > 1e-10 * s[0], xp.int64)))
        left, right = U[:, :rank].T, Vt[:rank, :].T
        return on_columns(lambda flat: right @ ((left @ flat) / s[:rank, None]), c), rank
