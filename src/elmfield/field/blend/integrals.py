"""Sums along an axis: which places of a function are taken, with which weights, for its means.

An axis and edges on it enter, in index coordinates; places in index coordinates leave, with weights
that add up to 1 between two edges. Gauss-Legendre between the knots of windows and coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from elmfield._array.typing import Floats, Integers
from elmfield.domain import Axis

EQUAL_MAX_NODES = 14
"""Nodes up to which all pieces have as many: a few too many cost less than to tell them apart."""

Weight = Callable[[Floats], Floats]
"""What a place counts for, by its coordinate in the axis's own unit."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Runs:
    """Places along an axis in runs, each of which is summed.

    Parameters
    ----------
    places, weights : arrays, shape (p,)
        Index coordinates, and what a value there counts for.
    starts : integer array, shape (n,)
        Where each run begins; none is empty.
    """

    places: Floats
    weights: Floats
    starts: Integers

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def points(cls, x: Floats) -> "Runs":
        """Runs of one place each: values, not sums."""
        return cls(places=x, weights=np.ones(len(x)), starts=np.arange(len(x)))

    def part(self, i: int, j: int) -> "Runs":
        """Runs i to j."""
        a = self.starts[i]
        b = self.starts[j] if j < len(self) else len(self.places)
        return Runs(places=self.places[a:b], weights=self.weights[a:b], starts=self.starts[i:j] - a)

    def between(self, a: int, b: int) -> "Runs":
        """One run of the places a to b."""
        places, weights = self.places[a:b], self.weights[a:b]
        return Runs(places=places, weights=weights, starts=np.zeros(1, np.int64))


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Runs that end where another sample becomes the nearest, so that some can be left out.

    Parameters
    ----------
    runs : Runs
        One for each part; weights add up to 1 over the parts between two edges.
    parents : integer array, shape (n,)
        The first part between each pair of edges.
    nearest : integer array, shape (parts,)
        The sample nearest to each.
    """

    runs: Runs
    parents: Integers
    nearest: Integers

    @classmethod
    def points(cls, axis: Axis, x: Floats) -> "Split":
        """Single places."""
        return cls(runs=Runs.points(x), parents=np.arange(len(x)), nearest=nearest(axis, x))

    @property
    def shares(self) -> Floats:
        """What each part has of all that lies between its edges, (parts,)."""
        return np.asarray(np.add.reduceat(self.runs.weights, self.runs.starts))

    def part(self, i: int, j: int) -> "Split":
        """What lies between edges i and j."""
        a = self.parents[i]
        b = self.parents[j] if j < len(self.parents) else len(self.runs)
        return Split(
            runs=self.runs.part(a, b), parents=self.parents[i:j] - a, nearest=self.nearest[a:b]
        )


def nearest(axis: Axis, x: Floats) -> Integers:
    """The number of the sample nearest to index coordinates."""
    i = np.floor(np.asarray(x) + 0.5).astype(np.int64)
    return i % axis.size if axis.period is not None else np.clip(i, 0, axis.size - 1)


def averages(
    axis: Axis,
    edges: Floats,
    knots: Floats,
    *,
    fine: bool = True,
    split: bool = False,
    weight: Weight | None = None,
) -> Split:
    """How to average a function between neighbouring edges.

    Parameters
    ----------
    axis : Axis
        The axis; a mean is one by its own coordinate.
    edges : array, shape (n + 1,)
        Index coordinates, monotone; on a periodic axis they may lie in any turn.
    knots : array
        Where the function is not smooth, in index coordinates.
    fine : bool
        Enough nodes for the highest frequency of the product layer, exact to rounding; else three
        or more between two samples.
    split : bool
        Let runs end between samples.
    weight : callable, optional
        What places count for, by their coordinate.
    """
    falls = edges[0] > edges[-1]
    e = edges[::-1] if falls else edges
    cuts = [e, _inside(axis, knots, e)]
    if axis.spacing is not None:  # its functions have other polynomials there
        cuts.append(_inside(axis, np.arange(axis.size, dtype=float), e))
    if split:
        cuts.append(_inside(axis, np.arange(axis.size, dtype=float) - 0.5, e))
    at = np.unique(np.concatenate(cuts))
    at = at[np.append(True, np.diff(at) > 0)]
    middle = (at[:-1] + at[1:]) / 2
    box = np.clip(np.searchsorted(e, middle, side="right") - 1, 0, len(e) - 2)
    near = nearest(axis, middle)
    if falls:
        at, box, near = at[::-1], (len(e) - 2 - box)[::-1], near[::-1]
    x, w, piece = _gauss_between(axis, at, fine)
    if weight is not None:
        w = w * weight(axis.from_index(x))
    if axis.period is not None:
        x = x - np.floor((x + 0.5) / axis.size) * axis.size
    total = np.bincount(box[piece], weights=w, minlength=len(e) - 1)
    w = w / total[box[piece]]
    new = np.append(True, np.diff(box) > 0)
    if split:
        new |= np.append(True, np.diff(near) != 0)
    first = np.flatnonzero(new)  # pieces at which runs begin
    starts = np.searchsorted(piece, first)
    parents = np.searchsorted(box[first], np.arange(len(e) - 1))
    return Split(
        runs=Runs(places=x, weights=w, starts=starts), parents=parents, nearest=near[first]
    )


def _inside(axis: Axis, cuts: Floats, e: Floats) -> Floats:
    """Those of the cuts that lie between the outer edges; on a periodic axis in every turn."""
    if axis.period is not None:
        turns = np.arange(np.floor(e[0] / axis.size) - 1, np.ceil(e[-1] / axis.size) + 1)
        cuts = (cuts[None, :] + axis.size * turns[:, None]).reshape(-1)
    return np.asarray(cuts[(cuts > e[0]) & (cuts < e[-1])])


def _gauss_between(axis: Axis, cuts: Floats, fine: bool) -> tuple[Floats, Floats, Integers]:
    """Nodes (index coordinates), weights (by coordinate), and the piece that each lies in."""
    length = np.abs(np.diff(cuts))
    n = (2 * length).astype(int) + 10 if fine else np.ceil(3 * length).astype(int) + 1
    if n.max(initial=0) <= EQUAL_MAX_NODES:
        n[:] = n.max(initial=0)
    first = np.cumsum(n) - n
    x, w = np.empty(int(n.sum())), np.empty(int(n.sum()))
    for count in np.unique(n):
        u, v = _gauss(int(count))
        own = np.flatnonzero(n == count)
        a, b = cuts[own, None], cuts[own + 1, None]
        at = first[own, None] + np.arange(count)
        x[at] = (a + b) / 2 + (b - a) / 2 * u
        w[at] = np.abs(b - a) / 2 * v
    piece = np.repeat(np.arange(len(n)), n)
    if axis.spacing is not None:
        w = w / axis.spacing.per_step(((cuts[:-1] + cuts[1:]) / 2)[piece])
    return x, w, piece


@lru_cache(64)
def _gauss(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre on [-1, 1]."""
    x, w = np.polynomial.legendre.leggauss(n)
    return x, w
