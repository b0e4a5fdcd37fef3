"""Samples read slab by slab, and statistics of all of them that a fit needs before it begins.

Slabs may be cut and ordered in any way: statistics of each are computed anywhere and combined here,
into the range of each channel, what is missing, and the few samples by which settings are resolved.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product as cartesian

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.channel_stats import ChannelStats, standard_of
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.order import probe_step
from elmfield.samples import EXACT, WHOLE, Grid, Slab, Source, channels_last, prepare

Place = tuple[slice | Integers, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Slabs:
    """Samples of a source, slab by slab, channels last.

    Parameters
    ----------
    source : Source
        Where they are.
    channel_axis : int or None
        Which of its axes holds channels.
    mask : Source or None
        True where a sample is missing, of the shape of the source or of that without channels.
    is_exact : bool
        Whether the source's dtype holds all samples; not so if some are filled in with fractions.
    """

    source: Source = field(repr=False)
    channel_axis: int | None = None
    mask: Source | None = field(default=None, repr=False)
    is_exact: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, and channels; a complex number counts as two."""
        n = [m for k, m in enumerate(self.source.shape) if k != self.channel_axis]
        C = 1 if self.channel_axis is None else self.source.shape[self.channel_axis]
        return (*n, C * (2 if self.is_complex else 1))

    @property
    def dtype(self) -> str:
        """The source's dtype."""
        return str(np.dtype(self.source.dtype).newbyteorder("=").name)

    @property
    def is_complex(self) -> bool:
        """Whether the second half of the channels holds imaginary parts."""
        return bool(np.dtype(self.source.dtype).kind == "c")

    @property
    def floating(self) -> str:
        """The dtype that fits compute with."""
        return "float32" if self.dtype in ("float32", "float16", "complex64") else "float64"

    @property
    def kind(self) -> str:
        """The dtype that holds samples exactly, those that were filled in too."""
        return EXACT[self.dtype] if self.is_exact and self.dtype in EXACT else self.floating

    def raw(self, slab: Slab) -> Array:
        """A slab of the axes that are not channels, as the source has it."""
        found = np.asarray(to_numpy(self.source.read(self.with_channels(slab))))
        wanted = tuple(s.stop - s.start for s in slab)
        got = tuple(n for k, n in enumerate(found.shape) if k != self.channel_axis)
        if got != wanted:
            raise ValueError(
                f"the source gave samples of shape {found.shape} where {wanted} were asked for; "
                "its shape must not change while it is read."
            )
        return found

    def with_channels(self, slab: Slab) -> Slab:
        """A slab of the source: with all channels."""
        every = list(slab)
        if self.channel_axis is not None:
            every.insert(self.channel_axis, slice(0, self.source.shape[self.channel_axis]))
        return tuple(every)

    def without_channels(self, slab: Slab) -> Slab:
        """A slab of the source, of the axes that are not channels."""
        return tuple(s for k, s in enumerate(slab) if k != self.channel_axis)

    def part(
        self, slab: Slab, values: Array | None = None
    ) -> tuple[Array, Array | None, ChannelStats]:
        """Samples of a slab, (..., C), floating; which are present (None: all); their ends.

        Parameters
        ----------
        slab : tuple of slices
            Of the axes that are not channels.
        values : array, optional
            What the source has there, if it was read already.
        """
        values = self.raw(slab) if values is None else np.asarray(values)
        mask = None
        if self.mask is not None:
            has = len(self.mask.shape) == len(self.source.shape)
            mask = self.mask.read(self.with_channels(slab) if has else slab)
        y, present, _, ends = prepare(values, values.shape, self.channel_axis, mask, is_whole=False)
        return y, present, ends

    def read(self, slab: Slab = (), values: Array | None = None) -> Array:
        """Samples of a slab, (..., C), as a file keeps them; parameters as for `part`."""
        if self.kind not in WHOLE:
            return self.part(slab, values)[0].astype(self.kind)
        return channels_last(self.raw(slab) if values is None else values, self.channel_axis)


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Statistics of one slab.

    Parameters
    ----------
    ends : ChannelStats
        Of the samples that are present.
    n_missing : int
        How many are not.
    is_alike : bool
        Whether all channels miss the same.
    looked : list
        For each probe grid, and then for the evenly spaced samples, where those of the slab are
        among them, and these.
    """

    ends: ChannelStats
    n_missing: int
    is_alike: bool
    looked: list[tuple[Place, Array]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Probes:
    """The samples of an array by which settings are resolved: grids, and evenly spaced ones.

    Parameters
    ----------
    shape : tuple of int
        Of the array, channels last.
    grids : tuple of Grid
        Probe grids of the settings.
    """

    shape: tuple[int, ...]
    grids: tuple[Grid, ...]

    @cached_property
    def compact(self) -> list[list[Integers]]:
        """The different positions of each grid on each axis, ascending."""
        return [[np.unique(p) for p in grid] for grid in self.grids]

    @cached_property
    def few(self) -> tuple[Integers, ...]:
        """Positions of the evenly spaced samples, per axis."""
        if not self.grids:
            return tuple(np.empty(0, np.int64) for _ in self.shape[:-1])
        flat = np.arange(0, math.prod(self.shape[:-1]), probe_step(self.shape))
        return tuple(np.unravel_index(flat, self.shape[:-1]))

    def part(self, slabs: Slabs, slab: Slab, values: Array | None = None) -> Part:
        """Return the statistics of a slab; `values` as for `Slabs.part`."""
        y, present, ends = slabs.part(slab, values)
        gone, looked = np.zeros((1, 1), bool) if present is None else ~present, self.seen(slab, y)
        is_alike = bool((gone == gone[..., :1]).all())
        n_missing = int(np.count_nonzero(gone))
        return Part(ends=ends, n_missing=n_missing, is_alike=is_alike, looked=looked)

    def seen(self, slab: Slab, y: Array) -> list[tuple[Place, Array]]:
        """Return the samples of a slab y, (..., C), on each grid, and its evenly spaced ones."""
        return [(place, y[at]) for place, at in self._inside(slab)]

    def is_touched(self, slab: Slab) -> bool:
        """Whether a slab holds any probe."""
        return any(all(map(np.size, at)) for _, at in self._inside(slab))

    def _inside(self, slab: Slab) -> list[tuple[Place, tuple[Integers, ...]]]:
        """Which positions of each grid, and of the few samples, lie in a slab, and where there."""
        found: list[tuple[Place, tuple[Integers, ...]]] = []
        for compact in self.compact:
            ranges = [np.searchsorted(p, (s.start, s.stop)) for p, s in zip(compact, slab)]
            place = tuple(slice(int(i), int(j)) for i, j in ranges)
            inner = (p[w] - s.start for p, w, s in zip(compact, place, slab))
            found.append((place, np.ix_(*inner)))
        inside = np.ones(self.few[0].shape, bool)
        for p, s in zip(self.few, slab):
            inside &= (p >= s.start) & (p < s.stop)
        few = tuple(p[inside] - s.start for p, s in zip(self.few, slab))
        return [*found, ((np.flatnonzero(inside),), few)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Survey:
    """Statistics of all slabs: a view of the probes, and the units of the samples.

    Parameters
    ----------
    probes : Probes
        Which samples were looked at.
    ends : ChannelStats
        Of all samples that are present.
    n_missing : int
        How many are not.
    is_alike : bool
        Whether all channels miss the same.
    looked : list of arrays
        The samples on the compact grids, (..., C), and then the evenly spaced ones, (n, C).
    offset, scale : arrays, shape (C,)
        Taken off, and divided by.
    """

    probes: Probes
    ends: ChannelStats
    n_missing: int
    is_alike: bool
    looked: list[Array]
    offset: Floats
    scale: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all samples, channels last."""
        return self.probes.shape

    @property
    def eps(self) -> float:
        """Relative rounding of their dtype."""
        return float(np.finfo(self.offset.dtype).eps)

    def standardise(self, y: Array) -> Array:
        """Samples (..., C) about 0 and of order 1."""
        y = y - self.offset
        y /= self.scale
        return y

    def on(self, grid: Grid) -> Array:
        """The samples on one of the grids that were looked at."""
        for known, compact, y in zip(self.probes.grids, self.probes.compact, self.looked):
            if all(map(np.array_equal, known, grid)):
                at = np.ix_(*(np.searchsorted(u, p) for u, p in zip(compact, grid)))
                return self.standardise(y[at])
        raise LookupError("settings look at samples that they did not ask for.")

    def every(self, step: int) -> Array:
        """The evenly spaced samples, one of `step`."""
        return self.standardise(self.looked[-1])

    def put(self, slab: Slab, y: Array) -> None:
        """Replace the probes in a slab by those of y, (..., C), in which gaps are filled."""
        for mine, (place, own) in zip(self.looked, self.probes.seen(slab, y)):
            mine[place] = own


def combine_parts(parts: Iterable[Part], probes: Probes, *, floating: str, centred: bool) -> Survey:
    """Combine the statistics of all slabs; `floating` is the dtype of the fit.

    Raises
    ------
    ValueError
        If a channel has no sample.
    """
    C = probes.shape[-1]
    ends = ChannelStats(np.full(C, np.inf), np.full(C, -np.inf), np.zeros(C), np.zeros(C, np.int64))
    n_missing, alike = 0, True
    sizes = [*(tuple(map(len, c)) for c in probes.compact), probes.few[0].shape]
    looked = [np.empty((*size, C), floating) for size in sizes]
    for part in parts:
        ends |= part.ends
        n_missing += part.n_missing
        alike &= part.is_alike
        for y, (place, own) in zip(looked, part.looked):
            y[place] = own
    if not ends.count.all():
        raise ValueError(
            "every channel needs at least one sample that is present; got a channel that is all "
            "NaN or masked."
        )
    offset, scale = standard_of(ends, floating, centred)
    return Survey(
        probes=probes, ends=ends, n_missing=n_missing, is_alike=alike, looked=looked,
        offset=offset, scale=scale,
    )  # fmt: skip


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
