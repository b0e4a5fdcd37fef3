"""Measured alternatives that the library does not use: other lattices, and the radial price.

Small and slow on purpose. `Lattice` makes layers for the library's own preset; `radial` is a fit of
its own.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

import common  # noqa: F401  puts measurement/ on the path
from elmfield.local.layers import Cosines, price
from elmfield.partition import Partition, blend
from measurement.heldout import thinned


@dataclass(frozen=True)
class Lattice:
    """A layer for every size of box, lattice and ε adjustable; pass it as ``smooth(layer=)``."""

    period: float = 1.25
    band: float = 1.0
    epsilon: float | None = None

    def __call__(self, n):
        """The layer of a box of n samples."""
        usual = Cosines.lattice(n, period=self.period, band=self.band)
        return Priced(usual.count, usual.fundamental, usual.free, self.epsilon)


@dataclass(frozen=True)
class Priced(Cosines):
    """The library's cosines, with an ε of our own where there is one."""

    epsilon: float | None = None

    def prices(self, order):
        """What each feature costs."""
        if self.epsilon is None:
            return super().prices(order)
        return self.priced((self.epsilon + self.angular**2) ** order, order)


def prices(omega2, order, epsilon):
    """The library's price, or one with an ε of our own."""
    return price(omega2, order) if epsilon is None else (epsilon + omega2) ** order


def radial(values, cell, overlap, order, epsilon=None):
    """All samples, predicted from every second one with the price ``(ε + |ω|²)^s``.

    The kernel depends on differences of positions, so one table of half-sample differences gives
    both K (samples against samples) and the kernel from samples to the finer grid.
    """
    d = values.ndim
    y = thinned(values)
    part = Partition.regular(y.shape, cell, overlap, equal_boxes=True)
    ((box, regions),) = part.footprints
    layers = [Cosines.lattice(n, free=0) for n in box]
    omega2 = np.zeros(())
    for a in layers:
        omega2 = np.add.outer(omega2, a.angular[: a.count + 1] ** 2)
    table = 1 / prices(omega2, order, epsilon)
    for k, (n, a) in enumerate(zip(box, layers)):
        waves = np.cos(np.outer(np.arange(2 * n) / 2, a.angular[: a.count + 1]))
        waves[:, 1:] *= 2  # a cosine and a sine of each frequency
        table = np.moveaxis(np.tensordot(waves, table, axes=(1, k)), 0, k)
    coarse = 2 * np.indices(box).reshape(d, -1)  # in half samples
    fine = np.indices([2 * n for n in box]).reshape(d, -1)
    K = table[tuple(np.abs(p[:, None] - p[None, :]) for p in coarse)]
    starts = part.boxes[0][regions]
    Y = np.stack(
        [y[tuple(slice(a, a + n) for a, n in zip(s, box))].ravel() for s in starts], axis=1
    )
    mean = y.mean()
    K[np.diag_indices_from(K)] += 1e-13 * K[0, 0]
    alpha = np.linalg.solve(K, Y - mean)
    found = np.empty((fine.shape[1], len(regions)))
    for i in range(0, fine.shape[1], 2048):  # in blocks: the whole kernel need not exist
        block = fine[:, i : i + 2048]
        to_fine = table[tuple(np.abs(p[:, None] - q[None, :]) for p, q in zip(block, coarse))]
        found[i : i + 2048] = to_fine @ alpha
    total = np.zeros([2 * n for n in y.shape])
    for i, s in enumerate(starts):
        cells = np.unravel_index(regions[i], part.n_cells)
        window = np.ones(())
        for k, (c, a, n) in enumerate(zip(cells, s, box)):
            b = blend(part, k, a + np.arange(2 * n) / 2)
            own = (b.lower == c) * (1 - b.ramp[0]) + ((b.upper == c) & (b.lower != c)) * b.ramp[0]
            window = np.multiply.outer(window, own)
        where = tuple(slice(2 * a, 2 * (a + n)) for a, n in zip(s, box))
        total[where] += window * found[:, i].reshape(window.shape)
    return total[tuple(slice(n) for n in values.shape)] + mean


def corners(*lists):
    """All combinations, as `itertools.product`."""
    return list(product(*lists))
