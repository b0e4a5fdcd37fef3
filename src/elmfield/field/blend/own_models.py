"""Regions with local models of their own: places of kernels that neighbours share, drawn layers."""

from dataclasses import dataclass, field, replace

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.bases import DenseWeights, Polyharmonic


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
    """

    model: Polyharmonic
    positions: Array = field(repr=False)
    members: Integers = field(repr=False)
    starts: Integers = field(repr=False)

    def of(self, rows: Integers) -> Integers:
        """Numbers of the places of some regions, one region after the other."""
        return self.members[self._picked(rows)]

    def _picked(self, rows: Integers) -> Integers:
        counts = self.starts[rows + 1] - self.starts[rows]
        first = np.repeat(self.starts[rows] - (np.cumsum(counts) - counts), counts)
        return np.asarray(first + np.arange(len(first)), np.int64)

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
        counts = self.starts[rows + 1] - self.starts[rows]
        return replace(
            self,
            positions=namespace(self.positions).take(
                self.positions, move(used, self.positions), axis=0
            ),
            members=members.reshape(-1).astype(np.int64),
            starts=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        )

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
