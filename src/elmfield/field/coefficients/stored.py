"""What groups of regions keep: coefficients as numbers, places of kernels, drawn layers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np

from elmfield._array.backend import is_numpy, move, namespace, scatter_add, take, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.local.bases import DenseWeights, Polyharmonic
from elmfield.local.energy_mixture import Beliefs


class Coefficients(ABC):
    """Coefficients c of G regions, r modes and C channels."""

    values: Array
    """The numbers, where they are kept."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""
        G, r, C = self.values.shape
        return G, r, C

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""
        return self.values

    @abstractmethod
    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions, 0 where a mode was not kept."""

    @abstractmethod
    def rows(self, rows: Integers) -> "Coefficients":
        """The same for some of the regions."""

    @abstractmethod
    def channels(self, own: slice) -> "Coefficients":
        """The same for some of the channels."""

    @abstractmethod
    def moved(self, like: Array) -> "Coefficients":
        """The same in the library and on the device of `like`."""

    # What holds where all modes of all regions are kept as numbers.

    @property
    def n_stored(self) -> int:
        """Numbers stored, all regions together."""
        return int(self.counts.sum())

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,)."""
        G, r, C = self.shape
        return np.full(G, r * C)

    @property
    def index_bits(self) -> int:
        """Bits it takes to say which modes were kept; 0 where all were."""
        return 0

    @property
    def is_shared(self) -> bool:
        """Whether several threads may take from them: NumPy's; others have threads of their own."""
        return is_numpy(self.like)

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return namespace(self.like).reshape(self.take(rows), (-1,))

    def ragged(self, rows: Integers) -> "Ragged | None":
        """Some of the regions with the ranks they keep; None where every region keeps all."""
        return None

    # What differs where they are made from samples.

    @property
    def source_samples(self) -> SampleBoxes | None:
        """The samples that they are made from when asked for; None where numbers are kept."""
        return None

    @property
    def box(self) -> tuple[int, ...] | None:
        """Samples on each axis of the boxes that they are made from; else None."""
        return None

    @property
    def beliefs(self) -> Beliefs | None:
        """The energies that each region chooses among by its samples; None where there is one."""
        return None

    def with_samples(self, boxes: SampleBoxes) -> "Coefficients":
        """Those of the same regions for other samples; themselves where no samples are kept."""
        return self


def rows_of(values: Array, rows: Integers) -> Array:
    """Some rows of an array; no copy where they are all of them."""
    if len(rows) == values.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return values
    if is_numpy(values):  # `take` would first copy all of what is not in one piece
        return values[rows]
    return take(values, move(rows, values), axis=0)


def run_places(starts: Integers, lengths: Integers) -> Integers:
    """Return the places of all entries of runs that begin somewhere, run after run."""
    ends = np.cumsum(lengths)
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


@dataclass(frozen=True, eq=False)
class Full(Coefficients):
    """All coefficients in one array.

    Parameters
    ----------
    values : array, shape (G, r, C)
        The coefficients.
    """

    values: Array = field(repr=False)

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions."""
        return rows_of(self.values, rows)

    def rows(self, rows: Integers) -> "Full":
        """The same for some of the regions."""
        return Full(self.take(rows))

    def channels(self, own: slice) -> "Full":
        """The same for some of the channels."""
        return Full(self.values[..., own])

    def moved(self, like: Array) -> "Full":
        """The same in the library and on the device of `like`."""
        return Full(move(self.values, like))


@dataclass(frozen=True, eq=False)
class Ragged(Coefficients):
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
        """G, r and C."""
        return (len(self.starts) - 1) // self.n_channels, len(self.ranking), self.n_channels

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
        """Coefficients (len(rows), r, C) of some regions."""
        xp = namespace(self.values)
        part = self.rows(rows)
        G, r, C = part.shape
        run = np.repeat(np.arange(G * C), np.diff(part.starts))
        at = (run // C * r + self.ranking[part.ranks]) * C + run % C
        dense = scatter_add(G * r * C, move(at, part.values), part.values)
        return xp.reshape(dense, (G, r, C))

    def rows(self, rows: Integers) -> "Ragged":
        """The same for some of the regions."""
        C = self.n_channels
        return self._runs((np.asarray(rows)[:, None] * C + np.arange(C)).reshape(-1), C)

    def channels(self, own: slice) -> "Ragged":
        """The same for some of the channels."""
        runs = np.arange(len(self.starts) - 1).reshape(-1, self.n_channels)[:, own]
        return self._runs(runs.reshape(-1), runs.shape[1])

    def _runs(self, runs: Integers, n_channels: int) -> "Ragged":
        """Some of the runs, in a given order, as regions of so many channels."""
        xp = namespace(self.values)
        counts = self.starts[runs + 1] - self.starts[runs]
        picked = run_places(self.starts[runs], counts)
        values = xp.take(self.values, move(picked, self.values), axis=0)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return Ragged(values, self.ranks[picked], starts, self.ranking, n_channels)

    def moved(self, like: Array) -> "Ragged":
        """The same in the library and on the device of `like`."""
        return replace(self, values=move(self.values, like))

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other."""
        return self.rows(rows).values

    def ragged(self, rows: Integers) -> "Ragged":
        """Some of the regions, with the ranks they keep."""
        return self.rows(rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes:
    """The places of G regions, each a few of n.

    Parameters
    ----------
    model : Polyharmonic
        What sits at them.
    positions : array, shape (n, d)
        All places, in index coordinates, float64.
    members : integer array, shape (K,)
        Numbers of the places of one region after the other.
    starts : integer array, shape (G + 1,)
        Where the places of a region begin and end.
    noise : array, shape (n,), or None
        Variance of the noise there in parts of the usual; None where it is the same everywhere.
    """

    model: Polyharmonic
    positions: Array = field(repr=False)
    members: Integers = field(repr=False)
    starts: Integers = field(repr=False)
    noise: Floats | None = field(default=None, repr=False)

    def of(self, rows: Integers) -> Integers:
        """Numbers of the places of some regions, one region after the other."""
        return self.members[run_places(self.starts[rows], np.diff(self.starts)[rows])]

    def local(
        self, rows: Integers, centres: Floats, radii: Floats, periods: Floats
    ) -> Polyharmonic:
        """The model of some regions with centres and radii (G, d); `periods`, (d,), may be inf."""
        like = self.positions
        xp = namespace(like)
        counts = self.starts[rows + 1] - self.starts[rows]
        slot = np.arange(self.model.n_nodes)
        # Regions with fewer places repeat their first: its weight there is 0.
        at = self.starts[rows][:, None] + np.where(slot < counts[:, None], slot, 0)
        which = move(self.members[at].reshape(-1), like)
        u = xp.reshape(xp.take(like, which, axis=0), (*at.shape, like.shape[1]))
        u = u - move(centres[:, None, :], like)
        if np.isfinite(periods).any():
            period = move(np.where(np.isfinite(periods), periods, 1.0), like)
            wraps = move(np.isfinite(periods).astype(float), like)
            u = u - xp.round(u / period) * period * wraps
        return self.model.around(u / move(radii[:, None, :], like))

    def rows(self, rows: Integers) -> "Nodes":
        """The places of some regions, and no others."""
        used, members = np.unique(self.of(rows), return_inverse=True)
        starts = np.append(0, np.cumsum(np.diff(self.starts)[rows]))
        places = take(self.positions, move(used, self.positions), axis=0)
        noise = None if self.noise is None else self.noise[used]
        members = members.reshape(-1)
        return replace(self, positions=places, members=members, starts=starts, noise=noise)

    def moved(self, like: Array) -> "Nodes":
        """The same in the library and on the device of `like`."""
        return replace(self, positions=move(self.positions, like))


@dataclass(frozen=True, eq=False)
class Draws:
    """Which hidden layers G regions drew, by number: each has its own.

    Parameters
    ----------
    model : DenseWeights
        How a layer is drawn.
    numbers : integer array, shape (G,)
        Those of the regions when they were fitted; a crop counts anew.
    """

    model: DenseWeights
    numbers: Integers = field(repr=False)

    def local(
        self, rows: Integers, centres: Floats, radii: Floats, periods: Floats
    ) -> DenseWeights:
        """The model of some regions."""
        return self.model.of(self.numbers[rows])

    def rows(self, rows: Integers) -> "Draws":
        """The layers of some regions, and no others."""
        return replace(self, numbers=self.numbers[rows])

    def moved(self, like: Array) -> "Draws":
        """Itself: layers are drawn where they are used."""
        return self


def draws_of(model: object, regions: Integers) -> Draws | None:
    """The layers of regions that each have their own; else None."""
    return Draws(model, regions) if isinstance(model, DenseWeights) and model.is_own else None
