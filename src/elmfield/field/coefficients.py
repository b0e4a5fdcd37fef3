"""Coefficients when regions keep different numbers of modes: no padding, a bitmap's worth of index.

Modes are counted by rank, from smooth to rough. A region and channel keeps some of its first n
ranks; which, costs n bits in a file, and n itself 16 (see :attr:`Ragged.index_bits`).
"""

from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import move, namespace, put, to_numpy
from elmfield._array.typing import Array, Integers


@dataclass(frozen=True, eq=False)
class Ragged:
    """Kept coefficients of G regions and C channels, one run per region and channel.

    Parameters
    ----------
    values : array, shape (K,)
        The kept coefficients, run after run, by ascending rank.
    ranks : integer array, shape (K,)
        Rank of each.
    starts : integer array, shape (G C + 1,)
        Where the run of region g and channel k, number ``g C + k``, begins and ends.
    ranking : integer array, shape (r,)
        Mode number of each rank.
    n_channels : int
        C.
    """

    values: Array
    ranks: Integers
    starts: Integers
    ranking: Integers
    n_channels: int

    @classmethod
    def keep(cls, c: Array, kept: Array, ranking: Integers) -> "Ragged":
        """The coefficients c, (G, r, C), of the modes marked in `kept`, (G, C, r), by rank."""
        xp = namespace(c)
        mask = to_numpy(kept)
        G, C, r = mask.shape
        flat = np.flatnonzero(mask)
        ranks = flat % r
        run = flat // r
        at = (run // C * r + ranking[ranks]) * C + run % C
        values = xp.take(xp.reshape(c, (-1,)), move(at, c), axis=0)
        starts = np.concatenate([[0], np.cumsum(mask.reshape(G * C, r).sum(axis=1))])
        return cls(values, ranks, starts.astype(np.int64), ranking, C)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Regions, modes and channels of the dense coefficients."""
        return (len(self.starts) - 1) // self.n_channels, len(self.ranking), self.n_channels

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""
        return self.values

    @property
    def n_stored(self) -> int:
        """Numbers stored."""
        return int(self.values.shape[0])

    @property
    def counts(self) -> Integers:
        """Kept modes of each region and channel, (G, C)."""
        return np.diff(self.starts).reshape(-1, self.n_channels)

    @property
    def lengths(self) -> Integers:
        """Ranks a bitmap must cover in each region and channel, (G, C): the last kept, plus 1."""
        last = np.zeros(len(self.starts) - 1, np.int64)
        some = np.diff(self.starts) > 0
        last[some] = self.ranks[self.starts[1:][some] - 1] + 1
        return last.reshape(-1, self.n_channels)

    @property
    def index_bits(self) -> int:
        """Bits it takes to say which modes were kept."""
        return int(self.lengths.sum()) + 16 * (len(self.starts) - 1)

    def take(self, rows: Integers) -> Array:
        """Dense coefficients (len(rows), r, C) of some regions, zero where nothing was kept."""
        xp = namespace(self.values)
        part = self.rows(rows)
        G, r, C = part.shape
        run = np.repeat(np.arange(G * C), np.diff(part.starts))
        at = (run // C * r + self.ranking[part.ranks]) * C + run % C
        return xp.reshape(put(G * r * C, move(at, part.values), part.values), (G, r, C))

    def rows(self, rows: Integers) -> "Ragged":
        """The same for some of the regions."""
        xp = namespace(self.values)
        runs = (np.asarray(rows)[:, None] * self.n_channels + np.arange(self.n_channels)).reshape(
            -1
        )
        counts = self.starts[runs + 1] - self.starts[runs]
        first = np.repeat(self.starts[runs] - (np.cumsum(counts) - counts), counts)
        picked = first + np.arange(int(counts.sum()))
        values = xp.take(self.values, move(picked, self.values), axis=0)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Ragged(values, self.ranks[picked], starts, self.ranking, self.n_channels)
