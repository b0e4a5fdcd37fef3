"""Scattered samples on a line by waves: one layer and one order for all regions.

Cells and values of order 1 enter; groups of a field leave. How one region is solved is the business
of `region`. On a line samples a hundredth of a spacing apart are common: kernels around them would
cancel to the last digit, waves do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Domain
from elmfield.field import Full, Group
from elmfield.fit.cells import Cells, cut
from elmfield.fit.region import Region, likeliest
from elmfield.local.bases import ProductNeurons
from elmfield.local.energies import price
from elmfield.local.layers import Cosines

CELL, CONTEXT, BAND = 16, 4.0, 8.0
"""Cell size, and how far beyond its cell a region looks, in mean sample spacings; the highest
frequency, in cycles per spacing."""

NOISY_CELL, NOISY_CONTEXT, NOISY_BAND = 64, 16.0, 0.5
"""The same where noise is taken out: a mean over more samples, and noise hides what is faster."""

ORDERS = (1.1, 1.5, 2.0, 2.5, 3.0)
"""Orders tried by leave-one-out for ``order="auto"``."""

NOISY_ORDERS = (1.1, 2.0, 3.0, 4.0)
"""Orders tried by their likelihood, with noise."""

LOOKED_AT = 6
"""Regions that settle order and noise for all."""


@dataclass(frozen=True, eq=False)
class Waves:
    """Cells, values y, (n, C), of order 1, and waves of a local coordinate, the same for each."""

    cells: Cells
    y: Floats
    waves: Cosines

    @classmethod
    def cut(
        cls,
        x: Floats,
        y: Floats,
        domain: Domain,
        *,
        cell: float | tuple[float, ...] | None,
        overlap: float | tuple[float, ...] | None,
        noisy: bool,
    ) -> "Waves":
        """Cells, and what is fitted in each; `noisy` looks farther, and at slower waves."""
        cell = (NOISY_CELL if noisy else CELL) if cell is None else cell
        context, band = (NOISY_CONTEXT, NOISY_BAND) if noisy else (CONTEXT, BAND)
        cells = cut(x, domain, cell=cell, overlap=overlap, context=context, least=8)
        span = 2 * float(np.max(cells.half)) + 2 * context
        layer = Cosines.lattice(span, band=band, lines=False)
        return cls(cells, y, Cosines(layer.count, layer.fundamental * span / 2))

    @property
    def _span(self) -> float:
        """Half the usual region, in samples: a wave counts in t of that radius."""
        return float(self.cells.radii.min())

    def region(self, i: int, y: Floats | None = None) -> Region:
        """The samples of region i, and the features there; with other values if given."""
        t = self.cells.local(i)
        y = self.y[self.cells.used[i]] if y is None else y
        return Region(self.waves(t[:, 0]), np.column_stack([np.ones(len(t)), t]), y)

    def prices(self, order: float) -> Floats:
        """E of the waves, (m,)."""
        return price((self.waves.angular / self._span) ** 2, order)

    def possible(self, orders: Sequence[float]) -> tuple[float, ...]:
        """All of them."""
        return tuple(orders)

    def _few(self) -> list[Region]:
        N = len(self.cells.used)
        return [self.region(i) for i in range(0, N, -(-N // LOOKED_AT))]

    def suited_order(self) -> float:
        """The order that predicts left-out samples best, in a few regions."""
        few = self._few()
        scores = [sum(r.left_out(self.prices(s)) for r in few) for s in ORDERS]
        return ORDERS[int(np.argmin(scores))]

    def likeliest(self, orders: Sequence[float], level: Floats | None) -> tuple[float, float]:
        """Order and variance of the noise, in the kernel's unit, that make samples likeliest."""
        few = self._few()

        def told(order: float) -> Floats:
            E = self.prices(order)
            return np.asarray(np.sum([r.likelihood(E, level) for r in few], axis=0))

        return likeliest(orders, told, level is not None)

    def through(self, order: float, *, lower: bool, progress: Progress) -> "Waving":
        """All regions, through their samples."""
        E, missed, alpha = self.prices(order), np.zeros_like(self.y), []
        for i, near in enumerate(self.cells.used):
            one = self.region(i)
            weights, plane = one.meet(E)
            off = np.abs(one.H @ weights + one.X @ plane - one.y)
            missed[near] = np.maximum(missed[near], off)
            alpha.append(_with_plane(weights, plane))
            progress("fit", i + 1, len(self.cells.used))
        return Waving(self, order, np.stack(alpha), missed)

    def near(self, order: float, penalty: float, progress: Progress) -> "Waving":
        """All regions, near samples with noise."""
        E, alpha = self.prices(order), []
        for i in range(len(self.cells.used)):
            alpha.append(_with_plane(*self.region(i).smooth(E, penalty)))
            progress("fit", i + 1, len(self.cells.used))
        return Waving(self, order, np.stack(alpha), np.zeros_like(self.y))


@dataclass(frozen=True, eq=False)
class Waving:
    """Output weights of all regions, (N, m + 1, C), and how far samples are missed, (n, C)."""

    waves: Waves
    order: float
    alpha: Floats
    missed: Floats

    @property
    def flat(self) -> Floats:
        """The weights in one row."""
        return self.alpha.reshape(-1)

    def again(self, y: Floats) -> Floats:
        """What is flat, of other values, (n, C)."""
        return (
            replace(self.waves, y=y).through(self.order, lower=False, progress=lambda *_: None).flat
        )

    def back(self, g: Floats) -> Floats:
        """Derivatives by what is flat as derivatives by the values, (n, C)."""
        E, total = self.waves.prices(self.order), np.zeros_like(self.waves.y)
        for i, (near, own) in enumerate(zip(self.waves.cells.used, g.reshape(self.alpha.shape))):
            M = _with_plane(*self.waves.region(i, np.eye(len(near))).meet(E))
            total[near] += M.T @ own
        return total

    def groups(self, flat: Array) -> tuple[Group, ...]:
        """All regions, which share their layer."""
        layer = replace(self.waves.waves, lines=True)
        return (
            Group(
                model=ProductNeurons((layer,)),
                regions=np.arange(len(self.alpha)),
                coefficients=Full(namespace(flat).reshape(flat, self.alpha.shape)),
            ),
        )


def _with_plane(weights: Floats, plane: Floats) -> Floats:
    """Weights of waves, the first of which is 1, and then of t: (m + 1, C)."""
    return np.concatenate([weights[:1] + plane[:1], weights[1:], plane[1:]])
