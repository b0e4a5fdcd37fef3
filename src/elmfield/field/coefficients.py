"""Coefficients of a group of regions: one contract, several ways to keep them.

:class:`Full` keeps all modes of all regions in one array, :class:`Ragged` those that were worth
their price; what is made from samples is next door, what is still in a file `io`'s. Whoever asks
for coefficients asks for rows of them and does not know which it has.
"""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from elmfield._array.backend import is_numpy, move, namespace, put, to_numpy
from elmfield._array.typing import Array, Integers
from elmfield.field.boxes import Boxes


class Coefficients(Protocol):
    """Coefficients c of G regions, r modes and C channels."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""

    @property
    def n_stored(self) -> int:
        """Numbers stored, all regions together."""

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,)."""

    @property
    def index_bits(self) -> int:
        """Bits it takes to say which modes were kept; 0 where all were."""

    @property
    def is_shared(self) -> bool:
        """Whether several threads may take from them at once."""

    @property
    def made_of(self) -> "Boxes | None":
        """The samples that they can be made from again; None where they are all there is."""

    @property
    def box(self) -> tuple[int, ...] | None:
        """Samples on each axis of the boxes that they are made from; None as for `made_of`."""

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions, 0 where a mode was not kept."""

    def rows(self, rows: Integers) -> "Coefficients":
        """The same for some of the regions."""

    def channels(self, own: slice) -> "Coefficients":
        """The same for some of the channels."""

    def moved(self, like: Array) -> "Coefficients":
        """The same in the library and on the device of `like`."""

    def through(self, boxes: Boxes) -> "Coefficients":
        """Those of the same regions made of other samples; themselves where `made_of` is None."""

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""

    def ragged(self, rows: Integers) -> "Ragged | None":
        """Some of the regions with the ranks they keep; None where every region keeps all."""


@dataclass(frozen=True, eq=False)
class Full:
    """All coefficients in one array.

    Parameters
    ----------
    values : array, shape (G, r, C)
        The coefficients.
    """

    values: Array = field(repr=False)

    index_bits = 0
    made_of = box = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""
        G, r, C = self.values.shape
        return G, r, C

    @property
    def like(self) -> Array:
        """The coefficients themselves."""
        return self.values

    @property
    def n_stored(self) -> int:
        """Numbers stored."""
        G, r, C = self.shape
        return G * r * C

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,)."""
        G, r, C = self.shape
        return np.full(G, r * C)

    @property
    def is_shared(self) -> bool:
        """Whether NumPy holds them: other libraries have threads of their own."""
        return is_numpy(self.values)

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions; no copy where it is all of them."""
        c = self.values
        if len(rows) == c.shape[0] and np.array_equal(rows, np.arange(len(rows))):
            return c
        if is_numpy(c):  # `take` would first copy all of what is not in one piece
            return c[rows]
        return namespace(c).take(c, move(rows, c), axis=0)

    def rows(self, rows: Integers) -> "Full":
        """The same for some of the regions."""
        return Full(self.take(rows))

    def channels(self, own: slice) -> "Full":
        """The same for some of the channels."""
        return Full(self.values[..., own])

    def moved(self, like: Array) -> "Full":
        """The same in the library and on the device of `like`."""
        return Full(move(self.values, like))

    def through(self, boxes: Boxes) -> "Full":
        """Themselves."""
        return self

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return namespace(self.values).reshape(self.take(rows), (-1,))

    def ragged(self, rows: Integers) -> None:
        """None: every region keeps all modes."""
        return


@dataclass(frozen=True, eq=False)
class Ragged:
    """Kept coefficients of G regions and C channels, one run per region and channel.

    Modes are counted by rank, from smooth to rough. A region and channel keeps some of its first n
    ranks; which, costs n bits in a file, and n itself 16.

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

    made_of = box = None

    @property
    def is_shared(self) -> bool:
        """Whether NumPy holds them: other libraries have threads of their own."""
        return is_numpy(self.values)

    @property
    def kept(self) -> Integers:
        """Kept modes of each region and channel, (G, C)."""
        return np.diff(self.starts).reshape(-1, self.n_channels)

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,)."""
        return np.asarray(self.kept.sum(axis=1))

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

    def channels(self, own: slice) -> "Ragged":
        """The same for some of the channels."""
        xp = namespace(self.values)
        which = np.arange(self.n_channels)[own]
        lengths = np.diff(self.starts)
        mine = np.isin(np.arange(len(lengths)) % self.n_channels, which)
        picked = np.flatnonzero(np.repeat(mine, lengths))
        starts = np.concatenate([[0], np.cumsum(lengths[mine])]).astype(np.int64)
        values = xp.take(self.values, move(picked, self.values), axis=0)
        return Ragged(values, self.ranks[picked], starts, self.ranking, len(which))

    def moved(self, like: Array) -> "Ragged":
        """The same in the library and on the device of `like`."""
        return replace(self, values=move(self.values, like))

    def through(self, boxes: Boxes) -> "Ragged":
        """Themselves."""
        return self

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.rows(rows).values

    def ragged(self, rows: Integers) -> "Ragged":
        """Some of the regions, with the ranks they keep."""
        return self.rows(rows)
