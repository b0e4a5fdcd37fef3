"""β of many regions by compiled loops, where all cells have one size: no array per box or per step.

Enter cells of regions and their boxes; leave energies as `barron` finds them with SciPy, but for
rounding that 36 bits do not show.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from elmfield._array.typing import Floats, Integers

LARGEST = 1 << 16
"""Samples of a box: larger ones leave the caches, where SciPy is faster."""

ROOM = 1 << 13
"""Numbers in each of four arrays that boxes are transformed in, at least: what caches hold."""

PIECES = 3
"""Into how many pieces the work of a processor is cut, so that all come to an end together."""

PRIMES = (2, 3, 5, 7, 11, 13)
"""Factors that the length of a transform may have."""


class Fused:
    """Energies of regions in two dimensions.

    Parameters
    ----------
    tiles : array, shape (cells, C, rows, columns)
        Samples of each cell.
    mesh : tuple of int
        Cells on both axes.
    centred : bool
        Whether the mean of a region's samples is taken off them.
    cores : int
        Threads to use.
    """

    def __init__(self, tiles: Floats, mesh: tuple[int, ...], centred: bool, cores: int) -> None:
        self._tiles = np.ascontiguousarray(tiles)  # one kind of array: loops compile once
        self._mesh, self._cores = np.asarray(mesh, np.int64), cores
        self._sides = np.asarray(tiles.shape[2:])
        # A power of 2: nothing is rounded, and squares stay finite.
        self._exponent = math.frexp(max(float(tiles.max()), -float(tiles.min())))[1]
        self._sums = tiles.sum(axis=(2, 3)) if centred else None
        self._smooth = [
            np.asarray([q > 0 and _smooth(q * int(w)) for q in range(n + 1)])
            for n, w in zip(mesh, self._sides)
        ]
        self._where = np.full(int((self._mesh * self._sides).max()) + 1, -1)
        self._roots = np.empty((2, 0))
        self._work = [np.empty((4, ROOM)) for _ in range(cores)]
        self._pool = ThreadPoolExecutor(cores)

    def fits(self, size: Integers) -> Integers:
        """Which boxes of so many cells, shape (n, 2), can be had here."""
        samples = size.prod(axis=1) * self._tiles[0].size
        smooth = self._smooth[0][size[:, 0]] & self._smooth[1][size[:, 1]]
        return np.asarray(smooth & (samples <= LARGEST))

    def __call__(self, cells: Integers, begins: Integers, low: Integers, size: Integers) -> Floats:
        """``Σ_k |k|_1 |F(k)|`` of regions.

        Parameters
        ----------
        cells, begins : arrays of int
            The cells of one region after another, and where those of each begin; the last end too.
        low, size : arrays of int, shape (n, 2)
            First cell and number of cells of each region's box, on both axes.
        """
        from elmfield.partition.beam.loops import energies

        order = np.lexsort((size[:, 1], size[:, 0]))
        begin, end = begins[:-1][order], begins[1:][order]
        low, size = (np.ascontiguousarray(x[order], np.int64) for x in (low, size))
        beta = np.empty(len(size))
        means = self._means(cells, begins)[order]
        self._learn(size * self._sides)
        scale = math.ldexp(1.0, -self._exponent)
        work = np.cumsum(size.prod(axis=1))
        cores = self._cores if work[-1] * self._tiles[0].size > 1 << 14 else 1
        pieces = 1 if cores == 1 else PIECES * cores
        cuts = np.searchsorted(work, work[-1] * np.arange(pieces + 1) / pieces).tolist()
        todo = iter([slice(a, b) for a, b in zip(cuts, [*cuts[1:-1], len(size)])])

        def share(thread: int) -> None:
            room = self._room(thread, size)
            for part in todo:
                energies(
                    self._tiles, cells, begin[part], end[part], low[part], size[part], self._mesh,
                    means[part], scale, self._roots, self._where, room, beta[part],
                )  # fmt: skip

        others = [self._pool.submit(share, i) for i in range(1, cores)]
        share(0)
        for other in others:
            other.result()
        found = np.empty_like(beta)
        found[order] = np.ldexp(beta, self._exponent)
        return found

    def _means(self, cells: Integers, begins: Integers) -> Floats:
        """What is taken off the samples of each region; the order of its cells does not matter."""
        counts = np.diff(begins)
        if self._sums is None:
            return np.zeros((len(counts), self._tiles.shape[1]))
        ordered = cells[np.lexsort((cells, np.repeat(np.arange(len(counts)), counts)))]
        sums = np.add.reduceat(self._sums[ordered], begins[:-1], axis=0)
        return np.asarray(sums / (counts * math.prod(self._sides.tolist()))[:, None])

    def _learn(self, lengths: Integers) -> None:
        """Add the turns of some lengths to those that are known."""
        new = np.unique(lengths[self._where[lengths] < 0])
        if len(new):
            self._where[new] = self._roots.shape[1] + np.cumsum(new) - new
            self._roots = np.concatenate([self._roots, *(_turns(int(n)) for n in new)], axis=1)

    def _room(self, thread: int, size: Integers) -> Floats:
        """Memory for the boxes of a thread, kept for the next."""
        n, m = size[:, 0] * self._sides[0], size[:, 1] * self._sides[1]
        largest = np.maximum(n * ((m + 1) // 2), m * (n // 2 + 1)).max(initial=0)
        largest = int(largest) * self._tiles.shape[1]
        if largest > self._work[thread].shape[1]:
            self._work[thread] = np.empty((4, largest))
        return self._work[thread]


def _smooth(n: int) -> bool:
    for p in PRIMES:
        while n % p == 0:
            n //= p
    return n == 1


@lru_cache(maxsize=128)
def _turns(n: int) -> Floats:
    """Cosines of ``-2πj/n`` and sines, from angles up to an eighth turn: as even as a circle."""
    j = np.arange(n)
    quarter, rest = np.divmod(8 * j + n, 2 * n)  # 4 times -n/8 to n/8, after so many quarters
    angle = (np.pi / (4 * n)) * (rest - n)
    c, s = np.cos(angle), np.sin(angle)
    c[rest == 0], s[rest == 0] = math.sqrt(0.5), -math.sqrt(0.5)
    turned = [(c, s), (-s, c), (-c, -s), (s, -c)]
    cos = np.choose(quarter % 4, [t[0] for t in turned])
    sin = np.choose(quarter % 4, [t[1] for t in turned])
    return np.stack([cos, -sin])
