"""A lower bound of β, without a transform: what is dear to transform is mostly ruled out by it."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.typing import Floats, Integers
from elmfield.partition.beam.fourier import BATCH, fast_length, mirrored, rfftn
from elmfield.partition.beam.regions import Region


class Bound:
    """How rough each cell is, and what that says of the boxes around it.

    Parameters
    ----------
    y : array, shape (C, n_1, ..., n_d)
        Samples, 0 where missing.
    present : array of bool, same shape, or None
        Where samples count; None if all do.
    edges : tuple of integer arrays
        Where cells begin and end on each axis.

    Notes
    -----
    Write ‖f‖ for the mean of |F| over the box's frequencies. Then ``β = Σ_a n_a/2π ‖∂_a f‖`` and
    ``‖∂_a f‖ ≥ ‖Δ_a f‖`` for the difference Δ_a of neighbours, as |sin x| ≤ |x|; and
    ``‖Δ_a f‖ ≥ ‖w Δ_a f‖`` for a window w whose transform is positive, as then ‖w‖ = w(0) = 1. A
    triangular window makes it a matter of one cell; Hölder's ``‖g‖ ≥ (Σg²)^(3/2) / (Σr²)^½``, r the
    autocorrelation of g, one that is the same for all boxes at least twice the cell. The rougher
    the cell and the larger the box, the higher the bound: a black sky with each of the cells along
    its border need not be transformed.
    """

    def __init__(self, y: Floats, present: Any, edges: tuple[Integers, ...]) -> None:
        self._y, self._present, self._edges = y, present, edges
        self._largest = tuple(int(np.diff(e).max()) for e in edges)
        self._counts = [len(e) - 1 for e in edges]
        self._rough = np.full((math.prod(self._counts), len(edges)), np.nan)  # NaN: not asked for
        self._roughest: dict[int, list[float]] = {}  # by the region's key

    def __call__(self, a: Region, b: Region, size: Sequence[int]) -> float:
        """At most β of the union, whose box has this size, divided by its samples; 0 if unknown."""
        if any(n < 2 * m for n, m in zip(size, self._largest)):
            return 0.0
        return max(sum(n * v for n, v in zip(size, self._row(region))) for region in (a, b))

    def _row(self, region: Region) -> list[float]:
        """The :meth:`_roughness` of a region's roughest cell."""
        if region.key not in self._roughest:
            cells = np.asarray(region.cells)
            new = cells[np.isnan(self._rough[cells, 0])]
            if len(new):
                self._rough[new] = self._roughness(new)
            rows = self._rough[cells]
            self._roughest[region.key] = rows[rows.sum(axis=1).argmax()].tolist()
        return self._roughest[region.key]

    def _roughness(self, cells: Integers) -> Floats:
        """``‖w Δ_a y‖ / 2π``, or less, of some cells along each axis a; 0 where samples miss."""
        edges, d, C = self._edges, len(self._edges), len(self._y)
        found = np.zeros((len(cells), d))
        at = np.stack(np.unravel_index(cells, self._counts), axis=1)
        half = [int(np.diff(e).min()) // 2 for e in edges]
        if min(half) == 0:
            return found
        size = [2 * h - 1 for h in half]
        w = np.ones(())
        for h in half:
            w = np.multiply.outer(w, 1 - np.abs(np.arange(1 - h, h)) / h)
        padded, axes = [fast_length(2 * n) for n in size], tuple(range(2, 2 + d))
        step = max(1, BATCH // (C * math.prod(padded)))
        for i in range(0, len(found), step):
            Y = np.empty((len(at[i : i + step]), C, *(n + 1 for n in size)))
            for out, cell in zip(Y, at[i : i + step]):
                low = [int(e[j]) for e, j in zip(edges, cell)]
                box = tuple(slice(a, a + n + 1) for a, n in zip(low, size))
                out[...] = np.ldexp(self._y[:, *box], -self._exponent)
                if self._present is not None and not self._present[:, *box].all():
                    out[...] = 0
            for k in range(d):
                inner = tuple(slice(None if j == k else -1) for j in range(d))
                g = w * np.diff(Y, axis=2 + k)[..., *inner]
                power = np.abs(rfftn(g, padded, axes=range(2, 2 + d))) ** 2
                r2 = (power**2 * mirrored(padded[-1])).sum(axis=axes) / math.prod(padded)
                g2 = (g**2).sum(axis=axes)
                r2 = np.maximum(r2, np.finfo(float).tiny)
                found[i : i + step, k] = (g2**1.5 / np.sqrt(r2)).sum(axis=1) / (2 * np.pi)
        return np.asarray(np.ldexp(found, self._exponent))

    @cached_property
    def _exponent(self) -> int:
        """Of a power of 2 about as large as the samples, so that squares stay finite."""
        return math.frexp(max(float(self._y.max()), -float(self._y.min())))[1]
