"""What must be known of all samples before any is kept, gathered part by part.

Slabs of samples enter, in any cut and order; each channel's ends, whether something is missing, and
the few samples that settings look at leave. Parts can be made anywhere and put together here.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product as cartesian

import numpy as np

from elmfield._array.ends import Ends, standard_of
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.streamed import Slabs
from elmfield.local.order import tasted
from elmfield.samples import Grid, Slab
from elmfield.settings import Settings

Place = tuple[slice, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """What one slab tells.

    Parameters
    ----------
    ends : Ends
        Of the samples that are present.
    n_missing : int
        How many are not.
    is_alike : bool
        Whether all channels miss the same.
    looked : list
        For each grid, where in it the slab's samples belong, and these; None where it has none.
    few : tuple
        Which of the samples that are tasted lie in the slab, and these.
    """

    ends: Ends
    n_missing: int
    is_alike: bool
    looked: list[tuple[Place, Array] | None]
    few: tuple[Integers, Array]


@dataclass(frozen=True, eq=False, kw_only=True)
class Looks:
    """Which samples of an array have to be looked at, of all that are read.

    Parameters
    ----------
    shape : tuple of int
        Of the array, channels last.
    grids : tuple of Grid
        What settings ask for.
    """

    shape: tuple[int, ...]
    grids: tuple[Grid, ...]

    @classmethod
    def of(cls, settings: Settings, shape: Sequence[int]) -> "Looks":
        """What some settings ask for."""
        return cls(shape=tuple(shape), grids=settings.looks(shape))

    @cached_property
    def compact(self) -> list[list[Integers]]:
        """The different positions of each grid on each axis, ascending."""
        return [[np.unique(p) for p in grid] for grid in self.grids]

    @cached_property
    def _few(self) -> tuple[Integers, ...]:
        """Where the tasted samples lie."""
        if not self.grids:
            return tuple(np.empty(0, np.int64) for _ in self.shape[:-1])
        flat = np.arange(0, math.prod(self.shape[:-1]), tasted(self.shape))
        return tuple(np.unravel_index(flat, self.shape[:-1]))

    @property
    def n_tasted(self) -> int:
        """How many samples are tasted."""
        return len(self._few[0])

    def part(self, slabs: Slabs, slab: Slab, values: Array | None = None) -> Part:
        """What one slab tells; `values` as for `Slabs.part`."""
        y, present, ends = slabs.part(slab, values)
        looked, few = self.seen(slab, y)
        gone = None if present is None else ~present
        return Part(
            ends=ends,
            n_missing=0 if gone is None else int(np.count_nonzero(gone)),
            is_alike=gone is None or bool((gone == gone[..., :1]).all()),
            looked=looked,
            few=few,
        )

    def seen(
        self, slab: Slab, y: Array
    ) -> tuple[list[tuple[Place, Array] | None], tuple[Integers, Array]]:
        """What a slab of samples y, (..., C), has of each grid, and of the tasted ones."""
        looked: list[tuple[Place, Array] | None] = []
        for compact in self.compact:
            ranges = [np.searchsorted(p, (s.start, s.stop)) for p, s in zip(compact, slab)]
            place = tuple(slice(int(i), int(j)) for i, j in ranges)
            at = [p[w] - s.start for p, w, s in zip(compact, place, slab)]
            looked.append((place, y[np.ix_(*at)]) if all(map(len, at)) else None)
        inside = np.ones(self.n_tasted, bool)
        for at_k, s in zip(self._few, slab):
            inside &= (at_k >= s.start) & (at_k < s.stop)
        which = np.flatnonzero(inside)
        few = y[tuple(at_k[which] - s.start for at_k, s in zip(self._few, slab))]
        return looked, (which, few)

    def is_touched(self, slab: Slab) -> bool:
        """Whether something in a slab is looked at."""
        for compact in self.compact:
            ranges = [np.searchsorted(p, (s.start, s.stop)) for p, s in zip(compact, slab)]
            if all(i < j for i, j in ranges):
                return True
        inside = np.ones(self.n_tasted, bool)
        for at_k, s in zip(self._few, slab):
            inside &= (at_k >= s.start) & (at_k < s.stop)
        return bool(inside.any())


@dataclass(frozen=True, eq=False, kw_only=True)
class Survey:
    """What all slabs together tell: a view of the samples, and their units.

    Parameters
    ----------
    looks : Looks
        What was looked at.
    ends : Ends
        Of all samples that are present.
    n_missing : int
        How many are not.
    is_alike : bool
        Whether all channels miss the same.
    looked : list of arrays
        The samples on the compact grids, (..., C).
    few : array, shape (n, C)
        Those that were tasted.
    offset, scale : arrays, shape (C,)
        Taken off, and divided by.
    """

    looks: Looks
    ends: Ends
    n_missing: int
    is_alike: bool
    looked: list[Array]
    few: Array
    offset: Floats
    scale: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all samples, channels last."""
        return self.looks.shape

    @property
    def eps(self) -> float:
        """Relative rounding of their dtype."""
        return float(np.finfo(self.offset.dtype).eps)

    def bring(self, y: Array) -> Array:
        """Samples (..., C) about 0 and of order 1."""
        y = y - self.offset
        y /= self.scale
        return y

    def on(self, grid: Grid) -> Array:
        """The samples on one of the grids that were looked at."""
        for known, compact, y in zip(self.looks.grids, self.looks.compact, self.looked):
            if all(map(np.array_equal, known, grid)):
                for k, (p, u) in enumerate(zip(grid, compact)):
                    if not np.array_equal(p, u):
                        y = np.take(y, np.searchsorted(u, p), axis=k)
                return self.bring(y)
        raise LookupError("settings look at samples that they did not ask for.")

    def every(self, step: int) -> Array:
        """The samples that were tasted, one of `step`."""
        return self.bring(self.few)

    def put(self, slab: Slab, y: Array) -> None:
        """See samples y, (..., C), of a slab instead of those that were missing."""
        looked, few = self.looks.seen(slab, y)
        for mine, found in zip(self.looked, looked):
            if found is not None:
                mine[found[0]] = found[1]
        self.few[few[0]] = few[1]


def surveyed(parts: Iterable[Part], looks: Looks, *, floating: str, centred: bool) -> Survey:
    """What all parts of an array together tell; `floating` is the dtype of the fit.

    Raises
    ------
    ValueError
        If a channel has no sample, or one is too large to be taken off and put back.
    """
    C = looks.shape[-1]
    ends = Ends(np.full(C, np.inf), np.full(C, -np.inf), np.zeros(C), np.zeros(C, np.int64))
    n_missing, alike = 0, True
    looked = [np.empty((*map(len, c), C), floating) for c in looks.compact]
    few = np.empty((looks.n_tasted, C), floating)
    for part in parts:
        ends |= part.ends
        n_missing += part.n_missing
        alike &= part.is_alike
        for y, found in zip(looked, part.looked):
            if found is not None:
                y[found[0]] = found[1]
        few[part.few[0]] = part.few[1]
    if not ends.count.all():
        raise ValueError(
            "every channel needs at least one sample that is present; got a channel that is all "
            "NaN or masked."
        )
    if not ends.largest < float(np.finfo(floating).max) / 4:
        raise ValueError(
            f"samples as large as {ends.largest:.3g} cannot be fitted in parts: their mean cannot "
            "be taken off. Scale them down, or mark them as missing."
        )
    offset, scale = standard_of(ends, floating, centred)
    return Survey(
        looks=looks,
        ends=ends,
        n_missing=n_missing,
        is_alike=alike,
        looked=looked,
        few=few,
        offset=offset,
        scale=scale,
    )


def blocks_of(shape: Sequence[int], tile: Sequence[int], room: int) -> list[Slab]:
    """Slabs of at most about `room` samples that cover an array, made of whole tiles.

    Long on the last axes: most sources have those samples side by side.
    """
    sizes = [min(t, n) for t, n in zip(tile, shape)]
    for k in reversed(range(len(shape))):
        others = math.prod(s for j, s in enumerate(sizes) if j != k)
        times = min(-(-shape[k] // tile[k]), max(1, room // (others * tile[k])))
        sizes[k] = min(shape[k], times * tile[k])
    spans = [[slice(a, min(a + s, n)) for a in range(0, n, s)] for s, n in zip(sizes, shape)]
    return [tuple(slab) for slab in cartesian(*spans)]
