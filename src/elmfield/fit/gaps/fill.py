"""Missing samples on a grid, filled from fine to coarse: in memory, or window by window.

Near present samples, boxes fill what they miss (`gap_boxes`). Samples farther than REACH from every
present one are first taken from a coarser version of the array, half as long on every axis, itself
filled the same way. A plane through all present samples is subtracted before and added after, with
polynomials where these are free: both are exact.

An array in memory is a single window. One that is larger is filled in windows, each with a halo of
the boxes that reach into it, and its coarser versions lie in files. Both use the same boxes and
orders, so that they agree but for rounding: the systems are solved in other batches.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

import numpy as np

from elmfield._array.backend import crc32, move, namespace, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.fit.gaps import gap_boxes, levels
from elmfield.fit.gaps.levels import REACH, Level, SamplePlane, Spacings, WindowLine
from elmfield.fit.statistics import Slabs, Survey
from elmfield.local.energies import STEEPEST
from elmfield.local.order import ROUNDING_SAMPLES, grain
from elmfield.partition import gather
from elmfield.samples import Slab, whole_of

FLAT_SHARE, FLAT_ROUNDING = 0.05, 1e-3
"""Part of the samples with one value from which there are flat areas; rounding, by the range, that
these are then taken to have: about that of pictures of 8 bits."""


def fill_missing(
    y: Array,
    present: Array,
    periodic: Sequence[bool],
    order: float | None = None,
    spacings: Spacings = (),
) -> Array:
    """`y`, shape (..., C), with every sample that is not `present` filled in.

    With an `order` along a line, by its isotropic energy, and so linear in the present samples;
    without, boxes choose among energies.
    """
    xp = namespace(y)
    if bool(xp.all(present)):
        return y
    found, every = [], [np.arange(n) for n in y.shape[:-1]]
    for own in _channel_groups(y.shape[-1], bool(xp.all(present == present[..., :1]))):
        some, here = y[..., own[0] : own[-1] + 1], present[..., own[0]]
        part = some, here, every
        trend = levels.trend_of([part], y.shape[:-1], periodic, spacings, order).at(every)
        trend = xp.astype(trend, y.dtype)
        level = levels.StoredLevel.of(some - trend, here)
        rounding = rounding_of(to_numpy(some)[to_numpy(here)])
        filler = filler_of(level, tuple(periodic), order, rounding=rounding)
        found.append(xp.astype(filler.fill(level.windows[0]), y.dtype) + trend)
    return xp.where(present, y, xp.concat(found, axis=-1))


def rounding_of(known: Floats) -> float:
    """Standard deviation of what samples, (n, C), were rounded by; of floats nearly nothing.

    Where one value is met often, samples have exactly flat areas, as masks, drawings and saturated
    skies have: then at least FLAT_ROUNDING of their range.
    """
    few = known[:: max(1, len(known) // ROUNDING_SAMPLES)]
    if not len(few):
        return 0.0
    rounding = float(np.sqrt(grain(few, float(np.finfo(known.dtype).eps))))
    met = max(int(np.unique(column, return_counts=True)[1].max()) for column in few.T)
    return max(rounding, FLAT_ROUNDING * float(np.ptp(few)) if met > FLAT_SHARE * len(few) else 0.0)


def _channel_groups(C: int, is_alike: bool) -> list[list[int]]:
    """Channels that miss the same samples: all of them, or each on its own."""
    return [list(range(C))] if is_alike else [[c] for c in range(C)]


# --- filling ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Filler:
    """How one level is filled.

    Parameters
    ----------
    level : Level
        Its samples.
    coarse : array, path or None
        The next coarser level, filled; None where no sample is far from all others.
    periodic : tuple of bool
        Which axes wrap.
    side : int
        Samples of a box on each axis.
    order, rounds : float and int
        Of the boxes' energies, in space; how often boxes choose among members again.
    rounding : float
        Standard deviation of what samples were rounded by.
    """

    level: Level
    coarse: Array | Path | None
    periodic: tuple[bool, ...]
    side: int = 1
    order: float = 1.0
    rounds: int = 0
    rounding: float = 0.0

    @property
    def box(self) -> tuple[int, ...]:
        """Samples of a box."""
        return tuple(min(self.side, n) for n in self.level.shape)

    @property
    def stride(self) -> int:
        """Samples from one box to the next."""
        return self.side // 2 if gap_boxes.wide_axes(self.level.shape) < 3 else self.side - 2

    def lines(self, slab: Slab, before: int, after: int) -> list[WindowLine]:
        """The window around a slab."""
        every = zip(self.level.shape, self.periodic, slab)
        return [WindowLine.around(n, w, s, before, after) for n, w, s in every]

    def _presence(self) -> Iterator[tuple[list[WindowLine], Array, tuple[slice, ...]]]:
        """Windows with a margin, which of their samples count as present, and which are wanted."""
        for slab in self.level.windows:
            lines = self.lines(slab, REACH + 1, REACH + 1)
            yield lines, self.read_window(lines)[1], tuple(a.inner for a in lines)

    @property
    def has_far(self) -> bool:
        """Whether a sample is too far from all others to be filled from them."""
        for lines, here, inner in self._presence():
            near = levels.is_near(here, [a.is_ring for a in lines])
            if not bool(namespace(here).all(near[inner])):
                return True
        return False

    def read_window(self, lines: Sequence[WindowLine]) -> tuple[Array, Array]:
        """Samples of a window, far ones taken from the coarser level; which count as present.

        Samples near the border of a window may be taken to be far.
        """
        at = [a.positions for a in lines]
        y, here = self.level.read(at)
        xp = namespace(y)
        y = xp.astype(y, xp.float64)
        if self.coarse is not None:
            far = ~levels.is_near(here, [a.is_ring for a in lines])
            y = xp.where(far[..., None], self._doubled(at, self.coarse), y)
            here = here | far
        return y, here

    def _doubled(self, at: Sequence[Integers], coarse: Array | Path) -> Array:
        """The coarser level on a grid of positions of this one: linear, smooth when repeated."""
        near, other, needed = [], [], []
        for x, n, wraps in zip(at, self.level.shape, self.periodic):
            m = -(-n // 2)
            a = x // 2
            b = a + np.where(x % 2, 1, -1)
            b = b % m if wraps else np.clip(b, 0, m - 1)
            needed.append(np.unique(np.concatenate([a, b])))
            near.append(np.searchsorted(needed[-1], a))
            other.append(np.searchsorted(needed[-1], b))
        small = levels.read_grid(coarse, needed)
        xp = namespace(small)
        for k, n in enumerate(self.level.shape):
            one, two = (xp.take(small, move(i[k], small), axis=k) for i in (near, other))
            small = one if n == 1 else 0.75 * one + 0.25 * two
        return small

    def fill(self, slab: Slab) -> Array:
        """A slab, filled, in float64."""
        halo = (self.rounds + 1) * self.side + REACH + 1
        lines = self.lines(slab, halo, halo)
        y, here = self.read_window(lines)
        if not bool(namespace(here).all(here)):
            along = [a.boxes(b, self.stride) for a, b in zip(lines, self.box)]
            index, energies = levels.join_index(along, here.shape), (self.order, self.rounds)
            y = gap_boxes.fill_boxes(y, here, self.box, index, *energies, self.rounding)
        return y[(*(a.inner for a in lines), ...)]

    # What is decided by looking at all of a level.

    def settle(self, order: float | None, rounds: int) -> "Filler":
        """The same with boxes and energies chosen; `order` along a line, or None to choose it."""
        d = gap_boxes.wide_axes(self.level.shape)
        isolation = 0.0 if order is not None else self._isolation()
        own = min((1.0 if order is None else order) + (d - 1) / 2, STEEPEST)
        filler = replace(self, side=gap_boxes.side_of(isolation, d), order=own)
        some = filler._some_boxes() if order is None else None
        if some is None:
            return filler
        own = gap_boxes.likeliest_order(*some, filler.box, isolation, self.rounding)
        is_hole = isolation <= gap_boxes.HOLE_ISOLATION
        return replace(filler, order=own, rounds=min(rounds, 1) if is_hole else rounds)

    def _isolation(self) -> float:
        """Part of the direct neighbours of missing samples that is present."""
        from scipy.ndimage import convolve, generate_binary_structure  # 0.1 s, for who has gaps

        neighbours = places = 0
        beside = generate_binary_structure(len(self.level.shape), 1).astype(np.int64)
        for lines, present, inner in self._presence():
            inside = reduce(np.logical_and.outer, [a.is_inside for a in lines])
            here = to_numpy(present) & inside
            around = convolve(here.astype(np.int64), beside, mode="constant")
            gone = ~here[inner]
            neighbours += int(around[inner][gone].sum())
            places += 2 * gap_boxes.wide_axes(here.shape) * int(np.count_nonzero(gone))
        return neighbours / places if places else 1.0

    def _some_boxes(self) -> tuple[Array, Array] | None:
        """Samples (G, S, C) of boxes with gaps from all over the level, and which are present."""
        every = zip(self.level.shape, self.box, self.periodic)
        starts = [levels.starts_of(n, b, self.stride, w) for n, b, w in every]
        mixed = np.zeros([len(s) for s in starts], bool)
        for place, _, here, index in self._boxes(starts, ~mixed):
            mixed[place] = gap_boxes.is_mixed(here, index).reshape(mixed[place].shape)
        listed = np.flatnonzero(mixed)
        chosen = listed[:: max(1, len(listed) // gap_boxes.CHOOSING_BOXES)]
        number = np.full(mixed.shape, -1)
        number.flat[chosen] = np.arange(len(chosen))
        turns, parts = [], []
        for place, y, here, index in self._boxes(starts, number >= 0):
            own = number[place].reshape(-1)
            at = move(index[own >= 0], y)
            turns.append(own[own >= 0])
            parts.append((gather(y, at), gather(here[..., None], at)[..., 0]))
        if not parts:
            return None
        back, xp = move(np.argsort(np.concatenate(turns)), parts[0][0]), namespace(parts[0][0])
        Y, M = (xp.take(xp.concat(list(each), axis=0), back, axis=0) for each in zip(*parts))
        return Y, M

    def _boxes(
        self, starts: Sequence[Integers], wanted: np.ndarray
    ) -> Iterator[tuple[tuple[np.ndarray, ...], Array, Array, Integers]]:
        """Window by window, boxes that begin in it, of which some are wanted.

        Where they are among all, samples and presence of the window, and the boxes' places in it.
        """
        for slab in self.level.windows:
            own = [np.flatnonzero((s >= w.start) & (s < w.stop)) for s, w in zip(starts, slab)]
            place = np.ix_(*own)
            if wanted[place].any():
                lines = self.lines(slab, REACH + 1, self.side + REACH + 1)
                y, here = self.read_window(lines)
                along = [a.places(s[o], b) for s, o, a, b in zip(starts, own, lines, self.box)]
                yield place, y, here, levels.join_index(along, here.shape)


def filler_of(
    level: Level,
    periodic: tuple[bool, ...],
    order: float | None,
    path: Path | None = None,
    rounds: int = gap_boxes.ROUNDS,
    rounding: float = 0.0,
) -> Filler:
    """How a level is filled; coarser ones are filled at once, into files that begin with `path`."""
    filler = Filler(level=level, coarse=None, periodic=periodic, rounding=rounding)
    if filler.has_far:
        ends = (".npy", "-filled.npy", "-")
        names = [path and path.with_name(path.name + end) for end in ends]
        small = levels.coarser(level, names[0])
        below = filler_of(small, periodic, order, names[2], 0, rounding)
        parts = ((slab, below.fill(slab)) for slab in small.windows)
        filler = replace(filler, coarse=levels.join_parts(parts, small.shape, names[1]))
        if path is None:  # looked at once
            far = levels.StoredLevel.of(*filler.read_window(filler.lines(level.windows[0], 0, 0)))
            filler = replace(filler, level=far, coarse=None)
    return filler.settle(order, rounds)


# --- arrays larger than memory --------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class FilledSlabs:
    """Slabs of a source, with what is missing filled in.

    Parameters
    ----------
    slabs : Slabs
        The source.
    fillers : list of triples
        Channels that miss the same, their plane, and how they are filled.
    limits : pair of arrays, shape (C,), or None
        Between which what is filled in stays.
    """

    slabs: Slabs
    fillers: list[tuple[levels.SourceLevel, SamplePlane, Filler]] = field(repr=False)
    limits: tuple[Floats, Floats] | None = None

    @property
    def is_alike(self) -> bool:
        """Whether all channels miss the same."""
        return len(self.fillers) == 1

    def part(self, slab: Slab) -> tuple[Array, Array, int]:
        """Samples (..., C) of a slab; which were missing; a check sum of both."""
        raw, present, _ = self.slabs.part(slab)
        gone, y = np.zeros(raw.shape, bool) if present is None else ~present, np.array(raw)
        at = [np.arange(s.start, s.stop) for s in slab]
        for level, plane, filler in self.fillers:
            own, kind = level.channels, level.offset.dtype
            if gone[..., own[0]].any():
                whole = filler.fill(slab).astype(kind) + plane.at(at).astype(kind)
                back = whole * level.scale[own] + level.offset[own]
                y[..., own] = np.where(gone[..., own], back, y[..., own])
        if self.limits is not None:
            low, high = (np.asarray(v).astype(y.dtype) for v in self.limits)
            y = np.where(gone, np.clip(y, low, high), y)
        if np.dtype(self.slabs.kind).kind in "iu":
            y = np.where(gone, whole_of(y, self.slabs.kind), y)
        return y, gone, crc32(y, crc32(gone, crc32(raw)))

    def update(self, survey: Survey) -> None:
        """Let a survey see what was filled in, where settings look."""
        for slab in levels.windows_of(survey.shape[:-1]):
            if survey.probes.is_touched(slab) and self.slabs.part(slab)[1] is not None:
                survey.put(slab, self.part(slab)[0])


def fill_slabs(
    slabs: Slabs,
    survey: Survey,
    *,
    order: float | None,
    periodic: Sequence[bool],
    clip: bool,
    folder: Path,
    spacings: Spacings = (),
) -> FilledSlabs:
    """The slabs of a surveyed array with its gaps filled when read; `folder` is for files."""
    fillers, unit = [], (survey.offset, survey.scale)
    folder.mkdir(parents=True, exist_ok=True)
    for channels in _channel_groups(slabs.shape[-1], survey.is_alike):
        level = levels.SourceLevel(slabs, channels, *unit)
        grids = [[np.arange(s.start, s.stop) for s in slab] for slab in level.windows]
        known = (to_numpy(y)[to_numpy(here)] for y, here in map(level.read, grids))
        rounding = next(filter(None, map(rounding_of, known)), 0.0)
        parts = ((*level.read(at), at) for at in grids)
        plane = levels.trend_of(parts, level.shape, periodic, spacings, order)
        level = replace(level, plane=plane)
        path = folder / f"level-{channels[0]}"
        filler = filler_of(level, tuple(periodic), order, path, rounding=rounding)
        fillers.append((level, plane, filler))
    limits = (survey.ends.low, survey.ends.high) if clip else None
    return FilledSlabs(slabs=slabs, fillers=fillers, limits=limits)
