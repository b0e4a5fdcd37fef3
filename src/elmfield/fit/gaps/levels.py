"""Boxes of an array and planes through it; its samples with gaps, coarser versions, and windows."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np

from elmfield._array.backend import add_runs, move, namespace, scatter_add, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Spacing
from elmfield.field.coefficients.sample_boxes import runs_of
from elmfield.fit.statistics import Slabs, blocks_of
from elmfield.samples import Slab

REACH = 4
"""Samples farther than this from every present one are taken from the coarser level."""

WINDOW_SAMPLES = 1 << 18
"""Samples of a window of an array larger than memory, halo not counted, about."""


LEAST_POSITION_VARIANCE = 1e-3
"""Variance of the positions of present samples, in that of all, that a slope needs."""

MOST_BENDS, BEND_PROBES, BEND_REST = 8, 4096, 1e-4
"""Polynomials of one axis under smooth samples; samples that they are found on, about; what these
leave, at most, of what a plane leaves: 1e-4 is met by functions that a few polynomials are."""

Spacings = Sequence[Spacing | None]
"""Where the samples of each axis lie, None where they are even; empty for axes that all are."""


# --- boxes and planes -----------------------------------------------------------------------------


def box_index(
    shape: Sequence[int], box: Sequence[int], step: int, periodic: Sequence[bool]
) -> Integers:
    """Places (G, S), in the flattened array, of the samples of boxes about `step` apart."""
    axes = zip(shape, box, periodic)
    along = [(starts_of(n, b, step, wraps)[:, None] + np.arange(b)) % n for n, b, wraps in axes]
    return join_index(along, shape)


def join_index(along: Sequence[Integers], shape: Sequence[int]) -> Integers:
    """Places (G, S), in a flattened array, of boxes with places (g, b) along each axis."""
    index = np.zeros((1, 1), np.int64)
    for line, n in zip(along, shape):
        both = index[:, None, :, None] * n + line[None, :, None, :]
        index = both.reshape(len(index) * len(line), -1)
    return index


def starts_of(n: int, b: int, step: int, wraps: bool) -> Integers:
    """First samples of boxes of b samples that cover n, the same from both ends of the axis."""
    if wraps and n > 1:  # a box of all n samples begins at two places
        count = max(2, -(-n // step))
        return np.round(np.linspace(0, n, count, endpoint=False)).astype(np.int64)
    count = -(-(n - b) // step) + 1
    low = np.floor(np.linspace(0, n - b, count)[: (count + 1) // 2]).astype(np.int64)
    return np.unique(np.concatenate([low, n - b - low]))


def average_boxes(
    shape: Sequence[int], window: Array, parts: Iterable[tuple[Array, Array]]
) -> tuple[Array, Array]:
    """Averages (..., C) of boxes by their windows, (S,); and where there is a box, (...).

    Parts are places (G, S), in the flattened array, of some of the boxes, and values there,
    (G, S, C).
    """
    sums = list[Array]()
    for at, values in parts:
        xp = namespace(values)
        w = xp.broadcast_to(window[:, None], values.shape)
        flat = xp.reshape(at, (-1,))
        columns = xp.reshape(xp.concat([w * values, w[..., :1]], axis=-1), (flat.shape[0], -1))
        each = range(columns.shape[1])
        own = [scatter_add(math.prod(shape), flat, columns[:, c]) for c in each]
        sums = [a + b for a, b in zip(sums, own)] if sums else own
    xp, total = namespace(sums[0]), sums[-1]
    reached = total > 0
    total = xp.where(reached, total, xp.ones_like(total))
    found = xp.stack([a / total for a in sums[:-1]], axis=-1)
    return xp.reshape(found, (*shape, -1)), xp.reshape(reached, tuple(shape))


@dataclass(frozen=True, eq=False)
class SamplePlane:
    """A plane for each channel: its level, (C,), and its slopes along some axes, (C, a).

    Along each axis positions run from -√3 to √3: of unit variance, about. Where samples are smooth
    it has `bends`: weights of products of Legendre polynomials, one axis per polynomial, then C.
    """

    lines: Sequence[Floats]
    axes: Sequence[int]
    level: Array = None
    slopes: Array = None
    bends: Array | None = None

    def sums(self, y: Array, present: Array, at: Sequence[Integers]) -> Array:
        """What determines it, from present samples of y, (..., C), on a grid of positions.

        With t = 1 and the positions along `axes`, channel by channel: sums of the t_i t_j, then of
        the y t_i. Those of parts can be added.
        """
        xp = namespace(y)
        m, y = xp.astype(present, xp.float64), xp.astype(y, xp.float64)
        t = [xp.ones_like(y), *(move(self._along(k, at), y) for k in self.axes)]
        terms = [s * u for s in (*t, y) for u in t]
        return xp.stack([xp.sum(m * term, axis=tuple(range(y.ndim - 1))) for term in terms])

    def nearest(self, sums: Array) -> "SamplePlane":
        """The nearest plane of each channel, from the sums over all parts."""
        xp, n = namespace(sums), 1 + len(self.axes)
        means = sums / sums[0, :]
        level, moments = means[n * n, :], means[n * n + 1 :, :]
        # What depends on positions is computed on the host; what depends on values stays with them.
        pairs = to_numpy(means[: n * n, :]).T.reshape(-1, n, n)
        centre = pairs[:, 0, 1:]  # (C, a)
        found = []
        for spread in pairs[:, 1:, 1:] - centre[:, :, None] * centre[:, None, :]:
            # Two rows of a hundred determine a slope, but not one to trust a hundred rows away.
            values, vectors = np.linalg.eigh(spread)
            sure = values > LEAST_POSITION_VARIANCE
            found.append(vectors[:, sure] / values[sure] @ vectors[:, sure].T)
        solve, centre = (move(a, sums, xp.float64) for a in (np.stack(found), centre))
        moment = xp.permute_dims(moments, (1, 0)) - centre * level[:, None]
        slopes = (solve @ moment[..., None])[..., 0]  # (C, a)
        return replace(self, level=level - xp.sum(slopes * centre, axis=1), slopes=slopes)

    def _along(self, k: int, at: Sequence[Integers]) -> Floats:
        """Positions of samples along axis k, shaped to multiply samples (..., C)."""
        shape = [-1 if j == k else 1 for j in range(len(self.lines) + 1)]
        return self.lines[k][at[k]].reshape(shape)

    def bent(self, probes: Sequence[tuple[Integers, Array]], order: float | None) -> "SamplePlane":
        """The same with polynomials, as far as some samples determine them.

        `probes` are places, (m, d), and values there, (m, C). With an `order` along a line cubic
        ones from 4 on, which is linear in the samples. Without one more, if these leave next to
        nothing where each sample is told from the others.
        """
        a, most = len(self.axes), MOST_BENDS if order is None else 4
        if not 0 < a < 4 or (order is not None and order < 4):
            return self
        degrees = np.indices((most,) * a).reshape(a, -1)
        used = np.flatnonzero((degrees.max(axis=0) < 4) | (degrees.sum(axis=0) < most))
        at, xp = np.concatenate([x for x, _ in probes])[:, self.axes], namespace(self.level)
        t = np.stack([self.lines[k][x] for k, x in zip(self.axes, at.T)], axis=1)
        rest = xp.astype(xp.concat([y for _, y in probes], axis=0), xp.float64) - self.level
        rest = rest - move(t, rest, xp.float64) @ self.slopes.T
        if len(t) < 2 * len(used):
            return self
        along = [_bends(x, most)[:, q[used]] for x, q in zip(t.T, degrees)]
        Q, R = np.linalg.qr(np.prod(along, axis=0))
        size, here = np.abs(np.diag(R)), to_numpy(rest)
        off = (here - Q @ (Q.T @ here)) / np.maximum(1 - np.sum(Q * Q, axis=1), 1e-3)[:, None]
        left = np.linalg.norm(off, axis=0) > BEND_REST * np.linalg.norm(here, axis=0)
        if size.min() < 1e-3 * size.max() or (order is None and left.any()):
            return self
        solve = np.zeros((degrees.shape[1], len(t)))
        solve[used] = np.linalg.solve(R, Q.T)
        bends = move(solve, rest, xp.float64) @ rest
        return replace(self, bends=xp.reshape(bends, (*(most,) * a, -1)))

    def at(self, positions: Sequence[Integers]) -> Array:
        """Its values (..., C) on a grid of positions."""
        xp = namespace(self.level)
        out = xp.broadcast_to(self.level, (*map(len, positions), self.level.shape[0]))
        for i, k in enumerate(self.axes):
            t = self._along(k, positions)
            out = out + move(t, out, xp.float64) * self.slopes[:, i]
        if self.bends is not None:
            more, shape = self.bends, [1] * len(positions)
            for i, k in enumerate(self.axes):
                along = move(_bends(self.lines[k][positions[k]], more.shape[i]), more, xp.float64)
                more = xp.moveaxis(xp.tensordot(along, more, axes=((1,), (i,))), 0, i)
                shape[k] = len(positions[k])
            out = out + xp.reshape(more, (*shape, -1))
        return out


def _bends(t: Floats, count: int) -> Floats:
    """So many Legendre polynomials at positions of :class:`SamplePlane`, (m, count)."""
    return np.asarray(np.polynomial.legendre.legvander(t / 3**0.5, count - 1), np.float64)


def trend_of(
    parts: Iterable[tuple[Array, Array, Sequence[Integers]]],
    shape: Sequence[int],
    periodic: Sequence[bool],
    spacings: Spacings = (),
    order: float | None = None,
) -> SamplePlane:
    """The plane nearest to present samples, and polynomials as :meth:`SamplePlane.bent` says.

    Parts are samples (..., C), which of them are present, and the grid of their positions.
    """
    lines, total, probes = [], [], []
    for n, spacing in zip(shape, spacings or [None] * len(shape)):
        p = np.arange(n) if spacing is None else spacing.positions
        lines.append(3**0.5 * (2 * (p - p[0]) / max(p[-1] - p[0], 1) - 1))
    plane = SamplePlane(lines, [k for k, n in enumerate(shape) if n > 1 and not periodic[k]])
    d = max(1, sum(n > 1 for n in shape))
    steps = [max(1, n // math.ceil(BEND_PROBES ** (1 / d))) for n in shape]
    for y, here, at in parts:
        xp = namespace(y)
        total.append(plane.sums(y, xp.broadcast_to(here[..., None], y.shape), at))
        wanted = reduce(np.logical_and.outer, [x % step == 0 for x, step in zip(at, steps)])
        flat = np.flatnonzero(wanted & to_numpy(here))
        places = [x[i] for x, i in zip(at, np.unravel_index(flat, here.shape))]
        chosen = xp.take(xp.reshape(y, (-1, y.shape[-1])), move(flat, y), axis=0)
        probes.append((np.stack(places, axis=1), chosen))
    return plane.nearest(sum(total[1:], total[0])).bent(probes, order)


# --- levels ---------------------------------------------------------------------------------------


def windows_of(shape: Sequence[int]) -> list[Slab]:
    """Windows that cover an array larger than memory; they begin at even samples."""
    return blocks_of(shape, [min(n, 64) + min(n, 64) % 2 for n in shape], WINDOW_SAMPLES)


@dataclass(frozen=True, eq=False)
class SourceLevel:
    """The array itself, channels that all miss the same, read from a source.

    In the unit of the fit, less a plane.
    """

    slabs: Slabs
    channels: list[int]
    offset: Floats
    scale: Floats
    plane: SamplePlane | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return self.slabs.shape[:-1]

    @property
    def windows(self) -> list[Slab]:
        """In which parts it is read."""
        return windows_of(self.shape)

    def read(self, at: Sequence[Integers]) -> tuple[Array, Array]:
        """Samples (..., C), 0 where missing, on a grid of positions; which are present, (...)."""
        own = self.channels
        y = np.zeros((*map(len, at), len(own)), self.offset.dtype)
        here = np.ones(y.shape[:-1], bool)
        for slab, place in runs_of(at):
            part, present, _ = self.slabs.part(slab)
            y[place] = part[..., own]
            if present is not None:
                here[place] = present[..., own[0]]
        y -= self.offset[own]
        y /= self.scale[own]
        if self.plane is not None:
            y = y - self.plane.at(at).astype(y.dtype)
        return np.where(here[..., None], y, np.zeros_like(y)), here


@dataclass(frozen=True, eq=False)
class StoredLevel:
    """Samples (..., C), NaN where missing: in an NPY file, or in memory, where all are read."""

    values: Array | Path

    @classmethod
    def of(cls, y: Array, present: Array) -> "StoredLevel":
        """Samples y, (..., C), in memory, of which some are present, (...)."""
        xp = namespace(y)
        return cls(xp.where(present[..., None], y, xp.full_like(y, xp.nan)))

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return tuple(opened(self.values).shape[:-1])

    @property
    def windows(self) -> list[Slab]:
        """In which parts it is read."""
        is_file = isinstance(self.values, Path)
        return windows_of(self.shape) if is_file else [tuple(slice(0, n) for n in self.shape)]

    def read(self, at: Sequence[Integers]) -> tuple[Array, Array]:
        """Samples on a grid of positions, and which are present."""
        y = read_grid(self.values, at)
        xp = namespace(y)
        gone = xp.isnan(y)
        return xp.where(gone, xp.zeros_like(y), y), ~gone[..., 0]


Level = SourceLevel | StoredLevel


def opened(values: Array | Path) -> Array:
    """An array, or that of an NPY file, mapped as long as it is used."""
    return np.load(values, mmap_mode="r") if isinstance(values, Path) else values


def read_grid(values: Array | Path, at: Sequence[Integers]) -> Array:
    """An array, or what an NPY file has on a grid of positions, without keeping it mapped."""
    return opened(values)[np.ix_(*at)] if isinstance(values, Path) else values


def join_parts(
    parts: Iterable[tuple[Slab, Array]], shape: Sequence[int], path: Path | None
) -> Array | Path:
    """Parts of an array as an NPY file at `path`; without one, the only part."""
    if path is None:
        ((_, only),) = parts
        return only
    out = None
    for slab, part in parts:
        if out is None:
            whole = (*shape, part.shape[-1])
            out = np.lib.format.open_memmap(path, "w+", part.dtype, whole)
        out[slab] = part
    if out is not None:
        out.flush()
    return path


def coarser(level: Level, path: Path | None) -> StoredLevel:
    """Means of two samples on each axis, of those that are present."""

    def parts() -> Iterator[tuple[Slab, Array]]:
        for slab in level.windows:
            means = _halved(*level.read([np.arange(s.start, s.stop) for s in slab]))
            ends = zip(slab, means.shape)
            yield tuple(slice(s.start // 2, s.start // 2 + m) for s, m in ends), means

    return StoredLevel(join_parts(parts(), [-(-n // 2) for n in level.shape], path))


def _halved(y: Array, present: Array) -> Array:
    """Means of the present samples in blocks of two per axis; NaN for blocks without any."""
    xp = namespace(y)
    weight = xp.astype(present, y.dtype)[..., None]
    both = xp.concat([y * weight, weight], axis=-1)
    for k, n in enumerate(present.shape):
        both = add_runs(both, np.arange(0, n, 2), k)
    total, weight = both[..., :-1], both[..., -1:]
    means = total / xp.where(weight > 0, weight, xp.ones_like(weight))
    return xp.where(weight > 0, means, xp.full_like(means, xp.nan))


def is_near(present: Array, periodic: Sequence[bool]) -> Array:
    """Whether a present sample lies within REACH, along each axis at a time."""
    from scipy.ndimage import maximum_filter1d  # 0.1 s, for who has gaps

    near = to_numpy(present)
    for k, wraps in enumerate(periodic):
        mode = "wrap" if wraps else "constant"
        near = maximum_filter1d(near, 2 * REACH + 1, axis=k, mode=mode)
    return move(near, present)


# --- windows --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class WindowLine:
    """A window along one axis of n samples: from `low` to `high`, of which `inner` is wanted.

    On a periodic axis it may begin before 0 and end beyond n.
    """

    n: int
    wraps: bool
    low: int
    high: int
    inner: slice

    @classmethod
    def around(cls, n: int, wraps: bool, wanted: slice, before: int, after: int) -> "WindowLine":
        """So many samples before and after those that are wanted, as far as there are any."""
        low, high = wanted.start - before, wanted.stop + after
        if not wraps:
            low, high = max(low, 0), min(high, n)
        elif high - low >= n:
            low, high = 0, n
        return cls(n, wraps, low, high, slice(wanted.start - low, wanted.stop - low))

    @property
    def positions(self) -> Integers:
        """The samples of the window."""
        return np.arange(self.low, self.high) % self.n

    @property
    def is_inside(self) -> np.ndarray:
        """Which of them are reached without going round."""
        at = np.arange(self.low, self.high)
        return (at >= 0) & (at < self.n)

    @property
    def is_ring(self) -> bool:
        """Whether it is all of a periodic axis."""
        return self.wraps and self.high - self.low == self.n

    def places(self, starts: Integers, b: int) -> Integers:
        """Places (g, b) in the window of boxes of b samples that begin at some samples."""
        at = starts[:, None] + np.arange(b) - self.low
        return at % self.n if self.is_ring else at

    def boxes(self, b: int, step: int) -> Integers:
        """Places (g, b) of all boxes that lie in the window."""
        starts = starts_of(self.n, b, step, self.wraps)
        if not self.is_ring:
            turns = (-1, 0, 1) if self.wraps else (0,)
            starts = np.concatenate([starts + m * self.n for m in turns])
            starts = starts[(starts >= self.low) & (starts + b <= self.high)]
        return self.places(starts, b)
