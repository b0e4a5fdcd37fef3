"""Least squares of a dense layer on regions of any shape, each on its own samples.

Enter a hidden layer, a box and which of its samples belong to the region; leave modes. Unlike
`modes`, this keeps no basis: a merged region may have a hundred thousand samples and occur once.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmfield._array.backend import device, move, namespace, solve_triangular, to_numpy, triangle
from elmfield._array.memory import room
from elmfield._array.typing import Array
from elmfield.errors import RankWarning
from elmfield.local.bases import DenseModes, box_positions, half_widths, plain_modes
from elmfield.local.layers import Dense

MEMORY = 256
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
    xp = namespace(like)
    nothing = xp.empty((0, network.width), dtype=xp.float64, device=device(like))
    return ShapedModes(
        network, half_widths(box), nothing, nothing, True, nothing, box, None, inside
    )


@dataclass(frozen=True, eq=False)
class ShapedModes(DenseModes):
    """Orthonormal coordinates of a dense layer on more samples than it has neurons.

    ``H = Q R`` over the region's samples, ``c = Qᵀ y``, ``α = R⁻¹ c``, as :func:`plain_modes`; but
    Q is never formed (R and c are the triangle of [H, y]) and neither R nor H is kept. The weights
    of coefficients that were found here are remembered; for others R is made again.
    """

    _weights: dict[bytes, Array] = field(default_factory=dict, repr=False, init=False)

    @property
    def n_samples(self) -> int:
        """Samples S of the region."""
        if self.inside is None:
            return int(np.prod(self.box))
        return int(np.count_nonzero(self.inside))

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
            R, c = self._triangle(xp.reshape(xp.permute_dims(part, (1, 0, 2)), (-1, g * C)))
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
            self._remember(found[-1], alpha)
        return xp.concat(found, axis=0)

    def weights(self, c: Array) -> Array:
        """The paper's output weights α, (G, m, C)."""
        xp = namespace(c)
        keys = [to_numpy(c[g, ...]).tobytes() for g in range(c.shape[0])]
        if all(key in self._weights for key in keys):
            return xp.stack([self._weights[key] for key in keys])
        R, _ = self._triangle(xp.empty((self.n_samples, 0), dtype=xp.float64, device=device(c)))
        alpha, _ = self._solve(R, c)
        self._remember(c, alpha)
        return alpha

    def values(self, c: Array) -> Array:
        """``y = H α`` on the region's samples."""
        xp = namespace(c)
        alpha = self.weights(c)
        parts = [xp.matmul(H, alpha) for H, _ in self._features(c)]
        return xp.astype(xp.concat(parts, axis=1), c.dtype)

    def complete(self, Y: Array, present: Array) -> Array:
        """Y with its missing samples set to what least squares on the present ones predicts."""
        xp = namespace(Y)
        rows = np.arange(int(np.prod(self.box)))
        rows = rows if self.inside is None else rows[np.asarray(self.inside).reshape(-1)]
        have = to_numpy(present)
        filled = []
        for g in range(Y.shape[0]):
            columns = []
            for k in range(Y.shape[2]):
                y, own = Y[g, :, k], have[g, :, k]
                inside = np.zeros(int(np.prod(self.box)), bool)
                inside[rows[own]] = True
                part = shaped_modes(self.network, self.box, inside.reshape(self.box), Y)
                some = xp.take(y, move(np.flatnonzero(own), Y))[None, :, None]
                alpha = part.weights(part.project(some))[0, :, 0]
                guess = xp.concat([H @ alpha for H, _ in self._features(Y)])
                columns.append(xp.where(present[g, :, k], y, xp.astype(guess, Y.dtype)))
            filled.append(xp.stack(columns, axis=-1))
        return xp.stack(filled)

    def _features(self, like: Array) -> Iterator[tuple[Array, slice]]:
        """H in blocks of rows, and which rows."""
        t = box_positions(self.box, np.empty(0)) / self.radius
        if self.inside is not None:
            t = t[np.asarray(self.inside).reshape(-1)]
        step = max(2 * self.network.width, room(like) // self.network.width)
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

    def _solve(self, R: Array, c: Array) -> tuple[Array, int]:
        """``α = R⁻¹ c``, (G, m, C), of least norm where R is as good as singular; R's rank."""
        xp = namespace(R)
        G, m, C = c.shape
        flat = xp.reshape(xp.permute_dims(xp.astype(c, R.dtype), (1, 0, 2)), (m, G * C))
        size = xp.abs(xp.linalg.diagonal(R))
        if float(xp.min(size)) > 1e-10 * float(xp.max(size)):
            alpha, rank = solve_triangular(R, flat), m
        else:
            U, s, Vt = xp.linalg.svd(R, full_matrices=False)
            rank = int(xp.sum(xp.astype(s > 1e-10 * s[0], xp.int64)))
            alpha = Vt[:rank, :].T @ ((U[:, :rank].T @ flat) / s[:rank, None])
        return xp.permute_dims(xp.reshape(alpha, (m, G, C)), (1, 0, 2)), rank

    def _remember(self, c: Array, alpha: Array) -> None:
        for g in range(c.shape[0]):
            self._weights[to_numpy(c[g, ...]).tobytes()] = alpha[g, ...]
        while len(self._weights) > MEMORY:
            del self._weights[next(iter(self._weights))]
