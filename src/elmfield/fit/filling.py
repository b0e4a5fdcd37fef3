"""Gaps of an array larger than memory: filled window by window, by the boxes a fit in memory has.

A first look decides what a fit in memory decides by looking at all: the plane, how isolated missing
samples are, which order their boxes make likely. Wide gaps are filled from coarser versions of the
array, each half as long on every axis, which lie in files. A window is then filled on its own, with
a halo of the boxes that reach into it.
"""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from elmfield._array.backend import check_sum
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.streamed import Slabs
from elmfield.fit import gaps
from elmfield.fit.fill import REACH, halved, is_near
from elmfield.fit.gaps import Boxes, Choice
from elmfield.fit.levels import Coarser, Finest, Level, stored
from elmfield.fit.overlapping import joined_index, starts_of
from elmfield.fit.planes import Moments, Plane
from elmfield.fit.survey import Survey, blocks_of
from elmfield.samples import Slab, whole_of

WINDOW = 1 << 18
"""Samples of a window that is filled at a time, halo not counted, about."""


# --- windows --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """A window along one axis: from `low` to `high`, of which `inner` is wanted.

    On an axis that wraps it may begin before 0 and end beyond n.
    """

    n: int
    wraps: bool
    low: int
    high: int
    inner: slice

    @classmethod
    def around(cls, n: int, wraps: bool, wanted: slice, before: int, after: int) -> "Line":
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
    def is_inside(self) -> Array:
        """Which lie in the array without going round."""
        at = np.arange(self.low, self.high)
        return (at >= 0) & (at < self.n)

    def boxes(self, b: int, step: int) -> Integers:
        """Places (g, b) in the window of the boxes that lie in it."""
        starts = starts_of(self.n, b, step, self.wraps)
        if self.wraps and self.high - self.low == self.n and self.low == 0:
            return (starts[:, None] + np.arange(b)) % self.n
        every = [starts + m * self.n for m in ((-1, 0, 1) if self.wraps else (0,))]
        begin = np.concatenate(every)
        begin = begin[(begin >= self.low) & (begin + b <= self.high)]
        return begin[:, None] + np.arange(b) - self.low


@dataclass(frozen=True, eq=False, kw_only=True)
class Filler:
    """How one level is filled.

    Parameters
    ----------
    level : Level
        Its samples.
    coarse : Path or None
        The next coarser level, filled; None where no sample is far from all others.
    periodic : sequence of bool
        Which axes wrap.
    side : int
        Samples of a box on each axis.
    choice : Choice or None
        What boxes believe; None before that is known.
    """

    level: Level
    coarse: Path | None
    periodic: tuple[bool, ...]
    side: int = 1
    choice: Choice | None = None

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of a box."""
        return tuple(min(self.side, n) for n in self.level.shape)

    @property
    def stride(self) -> int:
        """Samples from one box to the next."""
        return gaps.stride_of(self.side, gaps.wide_axes(self.level.shape))

    def lines(self, slab: Slab, before: int, after: int) -> list[Line]:
        """The window around a slab."""
        every = zip(self.level.shape, self.periodic, slab)
        return [Line.around(n, w, s, before, after) for n, w, s in every]

    def seen(self, lines: Sequence[Line]) -> tuple[Array, Array, bytes]:
        """Samples of a window, those too far from others taken from the coarser level.

        Which count as present, and a check sum of all that was read. Samples near the border of a
        window may be taken to be far.
        """
        at = [a.positions for a in lines]
        y, here = self.level.read(at)
        read = check_sum(here, check_sum(y))
        y = y.astype(np.float64)
        if self.coarse is not None:
            far = ~is_near(here, (False,) * here.ndim)
            rough = self._doubled(at)
            read = check_sum(rough, read)
            y = np.where(far[..., None], rough, y)
            here = here | far
        return y, here, read.to_bytes(4, "little")

    def _doubled(self, at: Sequence[Integers]) -> Array:
        """The coarser level, made twice as long: linear, and smooth when repeated."""
        assert self.coarse is not None
        near, other, needed = [], [], []
        for x, n, wraps in zip(at, self.level.shape, self.periodic):
            m = -(-n // 2)
            a = x // 2
            b = a + np.where(x % 2, 1, -1)
            b = b % m if wraps else np.clip(b, 0, m - 1)
            needed.append(np.unique(np.concatenate([a, b])))
            near.append(np.searchsorted(needed[-1], a))
            other.append(np.searchsorted(needed[-1], b))
        small = stored(self.coarse, needed)
        for k, n in enumerate(self.level.shape):
            one = np.take(small, near[k], axis=k)
            small = one if n == 1 else 0.75 * one + 0.25 * np.take(small, other[k], axis=k)
        return small

    @property
    def halo(self) -> int:
        """Samples around a slab that decide what is filled in there."""
        rounds = 0 if self.choice is None else self.choice.rounds
        return (rounds + 1) * self.side + REACH + 1

    def filled(self, slab: Slab) -> tuple[Array, Array, bytes]:
        """A slab, filled, in float64; which samples were there; a check sum of all that counts."""
        assert self.choice is not None
        lines = self.lines(slab, self.halo, self.halo)
        y, here, read = self.seen(lines)
        inner = tuple(a.inner for a in lines)
        shape = tuple(a.high - a.low for a in lines)
        if not here.all():
            along = [a.boxes(b, self.stride) for a, b in zip(lines, self.box)]
            boxes = Boxes.of(here, self.box, joined_index(along, shape))
            if boxes.index.shape[0]:
                y = gaps.fill_by(y, here, boxes, self.choice)
        return y[inner], here[inner], read


# --- what has to be known first -------------------------------------------------------------------


def windows_of(shape: Sequence[int]) -> list[Slab]:
    """The windows in which a level is looked at; they begin at even samples."""
    return blocks_of(shape, [min(n, 64) + min(n, 64) % 2 for n in shape], WINDOW)


def settled(filler: Filler, order: float | None, rounds: int) -> Filler:
    """The same with all that is decided by looking at the whole level."""
    d = gaps.wide_axes(filler.level.shape)
    if order is not None:
        return _with(filler, gaps.side_of(0.0, d), Choice.given(order, d))
    neighbours = places = 0
    for slab in windows_of(filler.level.shape):
        lines = filler.lines(slab, REACH + 1, REACH + 1)
        _, here, _ = filler.seen(lines)
        for k, a in enumerate(lines):
            beyond = ~a.is_inside.reshape([-1 if j == k else 1 for j in range(here.ndim)])
            here = here & ~beyond
        found = gaps.beside(here, tuple(a.inner for a in lines))
        neighbours, places = neighbours + found[0], places + found[1]
    isolation = gaps.isolation_of(neighbours, places)
    filler = _with(filler, gaps.side_of(isolation, d), None)
    Y, M = _some_boxes(filler)
    if not len(Y):
        return _with(filler, filler.side, Choice.given(1.0, d))
    return _with(filler, filler.side, Choice.likeliest(Y, M, filler.box, isolation, rounds))


def _with(filler: Filler, side: int, choice: Choice | None) -> Filler:
    return Filler(
        level=filler.level,
        coarse=filler.coarse,
        periodic=filler.periodic,
        side=side,
        choice=choice,
    )


def _some_boxes(filler: Filler) -> tuple[Array, Array]:
    """Samples (G, S, C) of boxes from all over a level that have gaps, and which are there."""
    shape, box = filler.level.shape, filler.box
    starts = [starts_of(n, b, filler.stride, w) for n, b, w in zip(shape, box, filler.periodic)]
    mixed = np.zeros([len(s) for s in starts], bool)

    def each(slab: Slab, wanted: Array | None) -> tuple[tuple[Array, ...], Array, Array, Integers]:
        """Boxes that begin in a slab: where they are among all, their samples and presence."""
        own = [np.flatnonzero((s >= w.start) & (s < w.stop)) for s, w in zip(starts, slab)]
        if not all(map(len, own)) or (wanted is not None and not wanted[np.ix_(*own)].any()):
            return (), np.empty(0), np.empty(0), np.empty(0, np.int64)
        lines = filler.lines(slab, REACH + 1, filler.side + REACH + 1)
        y, here, _ = filler.seen(lines)
        along = [
            (s[o][:, None] - a.low + np.arange(b)) % max(a.high - a.low, 1 if not a.wraps else a.n)
            if a.high - a.low == a.n
            else s[o][:, None] - a.low + np.arange(b)
            for s, o, a, b in zip(starts, own, lines, box)
        ]
        index = joined_index(along, here.shape)
        return np.ix_(*own), y, here, index

    for slab in windows_of(shape):
        place, _, here, index = each(slab, None)
        if len(index):
            have = here.reshape(-1)[index]
            some = have.any(axis=1) & ~have.all(axis=1)
            mixed[place] = some.reshape(mixed[place].shape)
    listed = np.flatnonzero(mixed)
    chosen = np.zeros(mixed.size, bool)
    chosen[listed[:: gaps.apart(len(listed))]] = True
    number = np.cumsum(chosen) - 1
    wanted = chosen.reshape(mixed.shape)
    count = int(chosen.sum())
    S, C = math.prod(box), None
    Y, M = np.empty((0, S, 1)), np.zeros((count, S), bool)
    for slab in windows_of(shape):
        place, y, here, index = each(slab, wanted)
        if not len(index):
            continue
        rows = np.flatnonzero(wanted[place].reshape(-1))
        to = number.reshape(mixed.shape)[place].reshape(-1)[rows]
        if C is None:
            C = y.shape[-1]
            Y = np.empty((count, S, C))
        Y[to] = y.reshape(-1, C)[index[rows]]
        M[to] = here.reshape(-1)[index[rows]]
    return Y, M


def has_far(level: Level, periodic: Sequence[bool]) -> bool:
    """Whether a sample is too far from all others to be filled from them."""
    filler = Filler(level=level, coarse=None, periodic=tuple(periodic))
    for slab in windows_of(level.shape):
        lines = filler.lines(slab, REACH + 1, REACH + 1)
        _, here = level.read([a.positions for a in lines])
        inner = tuple(a.inner for a in lines)
        if not here[inner].all() and not is_near(here, (False,) * here.ndim)[inner].all():
            return True
    return False


def coarser(level: Level, folder: Path, name: str, kind: str, C: int) -> Coarser:
    """Means of two samples on each axis, of those that are there, in files."""
    shape = tuple(-(-n // 2) for n in level.shape)
    made = Coarser(folder / f"{name}.npy", folder / f"{name}-present.npy")
    values = np.lib.format.open_memmap(made.values, "w+", np.dtype(kind), (*shape, C))
    present = np.lib.format.open_memmap(made.present, "w+", np.dtype(bool), shape)
    for slab in windows_of(level.shape):
        y, here = level.read([np.arange(s.start, s.stop) for s in slab])
        small, have = halved(y, here)
        place = tuple(slice(s.start // 2, s.start // 2 + m) for s, m in zip(slab, have.shape))
        values[place], present[place] = small, have
    values.flush()
    present.flush()
    return made


def filler_of(
    level: Level, periodic: Sequence[bool], order: float | None, folder: Path, name: str,
    C: int, rounds: int = gaps.ROUNDS,
) -> Filler:  # fmt: skip
    """How a level is filled; coarser ones are filled at once, into files."""
    coarse = None
    wraps = tuple(periodic)
    if has_far(level, wraps):
        kind = "float32" if rounds and _is_narrow(level) else "float64"
        next_level = coarser(level, folder, name, kind, C)
        below = filler_of(next_level, wraps, order, folder, name + "-", C, 0)
        coarse = folder / f"{name}-filled.npy"
        shape = below.level.shape
        out = np.lib.format.open_memmap(coarse, "w+", np.dtype(float), (*shape, C))
        for slab in windows_of(shape):
            out[slab] = below.filled(slab)[0]
        out.flush()
    return settled(Filler(level=level, coarse=coarse, periodic=wraps), order, rounds)


def _is_narrow(level: Level) -> bool:
    """Whether samples have single precision."""
    return bool(level.read([np.arange(1)] * len(level.shape))[0].dtype == np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class Filled:
    """An array in parts, with what is missing filled in.

    Parameters
    ----------
    slabs : Slabs
        The array.
    fillers : list of pairs
        For channels that miss the same, how they are filled, and their plane.
    offset, scale : arrays, shape (C,)
        The unit of the fit.
    limits : pair of arrays, shape (C,), or None
        Between which what is filled in stays.
    """

    slabs: Slabs
    fillers: list[tuple[tuple[int, ...], Filler, Plane]] = field(repr=False)
    offset: Floats
    scale: Floats
    limits: tuple[Floats, Floats] | None = None

    @property
    def is_alike(self) -> bool:
        """Whether all channels miss the same."""
        return len(self.fillers) == 1

    def part(self, slab: Slab) -> tuple[Array, Array, int]:
        """Samples (..., C) of a slab; which were missing; a check sum of all that counts."""
        raw, present, _ = self.slabs.part(slab)
        gone = np.zeros(raw.shape, bool) if present is None else ~present
        y, seen = np.array(raw), check_sum(raw)
        at = [np.arange(s.start, s.stop) for s in slab]
        for channels, filler, plane in self.fillers:
            own = list(channels)
            if not gone[..., own[0]].any():
                continue
            found, _, read = filler.filled(slab)
            seen = zlib.crc32(read, seen)
            kind = self.offset.dtype
            whole = found.astype(kind) + plane.at(at).astype(kind)
            back = whole * self.scale[own] + self.offset[own]
            y[..., own] = np.where(gone[..., own], back, y[..., own])
        if self.limits is not None:
            low, high = (np.asarray(v).astype(y.dtype) for v in self.limits)
            y = np.where(gone, np.clip(y, low, high), y)
        if np.dtype(self.slabs.kind).kind in "iu":
            y = np.where(gone, whole_of(y, self.slabs.kind), y)
        return y, gone, seen


def look_again(survey: Survey, filled: Filled) -> None:
    """Let a survey see what was filled in, where settings look."""
    for slab in windows_of(survey.shape[:-1]):
        if survey.looks.is_touched(slab) and filled.slabs.part(slab)[1] is not None:
            survey.put(slab, filled.part(slab)[0])


def filling(
    slabs: Slabs,
    survey: Survey,
    *,
    order: float | None,
    periodic: Sequence[bool],
    clip: bool,
    folder: Path,
    tell: Callable[[], None],
) -> Filled:
    """How the gaps of an array are filled, once all of it was looked at; `folder` is for files."""
    C = slabs.shape[-1]
    groups = [tuple(range(C))] if survey.is_alike else [(c,) for c in range(C)]
    fillers = []
    folder.mkdir(parents=True, exist_ok=True)
    for channels in groups:
        finest = Finest(slabs=slabs, channels=channels, offset=survey.offset, scale=survey.scale)
        moments = Moments.none(finest.shape, periodic, len(channels))
        for slab in windows_of(finest.shape):
            at = [np.arange(s.start, s.stop) for s in slab]
            moments = moments.with_part(*finest.read(at), at)
        plane = moments.plane()
        finest = Finest(
            slabs=slabs, channels=channels, offset=survey.offset, scale=survey.scale, plane=plane
        )
        name = f"level-{channels[0]}"
        filler = filler_of(finest, periodic, order, folder, name, len(channels))
        fillers.append((channels, filler, plane))
        tell()
    limits = (survey.ends.low, survey.ends.high) if clip else None
    return Filled(
        slabs=slabs, fillers=fillers, offset=survey.offset, scale=survey.scale, limits=limits
    )
