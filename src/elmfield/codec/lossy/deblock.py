"""Smoothing of decoded samples where boxes meet and where there is little but rounding.

Every sample moves towards its neighbours, by weights that were trained: small differences are
rounding and count in full, large ones are the picture's own and count no more than a limit. The
weights along an axis depend on how rough the samples around are along it, so that what is smooth
one way and rough the other is smoothed one way, and on how far the border of the box is. The
encoder says for each channel and level of roughness how strongly to smooth: where it does not
help, not at all. All arithmetic of the decoder is in integers.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import mul, sub

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield.codec.lossy.transform import UNIT, Floats, Whole

Ints = NDArray[np.int32]
Small = NDArray[np.uint8]
Shorts = NDArray[np.int16]

LIMITS = (32, 128)
"""Differences count up to these, in units."""
REACH = 2
"""Neighbours on each side of an axis."""
BORDER_SAMPLES = 3
"""Samples beside a border that have weights of their own."""
PLACES = 2 * BORDER_SAMPLES + 1
"""Places along an axis: so far behind a border, so far before one, inside."""
EDGES = (8, 24, 72, 200)
"""Roughness from which on levels begin, in units."""
ROUGHEST = 1 << 20
LEVELS = len(EDGES) + 1
WEIGHT_BITS, GAIN_BITS = 10, 6
GAIN_ROUNDS = 30
"""Rounds in which gains of levels are made to suit each other."""
GAIN_SAMPLES, GAIN_EVERY = 1 << 17, 11
"""Of so many samples and more, gains are chosen by those of every eleventh row: in boxes of a power
of two that is all places."""
LARGEST_SAMPLE = 1 << 28
CHUNK_SAMPLES = 1 << 16
"""Samples that are smoothed at a time: what is known of them stays in a cache."""
TAPS = [side * r for r in range(1, REACH + 1) for side in (1, -1)]


def find_roughness(y: NDArray[np.integer], B: int) -> Ints:
    """Return second differences of samples (C, n...) around each, (d, C, n...), 4^d their mean.

    Those across a border of boxes are left out: what counts in their place is the one next to them
    within the box. Else the step at a border would pass for the picture's own.
    """
    # In place as far as possible: fresh memory costs more than the sums.
    z = np.empty(y.shape, np.int32)
    np.clip(y, -LARGEST_SAMPLE, LARGEST_SAMPLE, out=z, casting="unsafe")
    total, other = np.zeros((2, z.ndim - 1, *z.shape), np.int32)
    for k in range(1, z.ndim):
        near, own = np.moveaxis(z, k, 0), np.moveaxis(total[k - 1], k, 0)
        second = own[1:-1]
        np.add(near[2:], near[:-2], out=second)
        second -= near[1:-1]
        second -= near[1:-1]
        np.minimum(np.abs(second, out=second), ROUGHEST, out=second)
        first, last = own[1::B].copy(), own[B - 1 :: B]
        last[...] = own[B - 2 :: B][: len(last)]
        own[::B][: len(first)] = first
    for k in range(2, total.ndim):
        own, around = np.moveaxis(total, k, 0), np.moveaxis(other, k, 0)
        np.add(own, own, out=around)
        around[1:] += own[:-1]
        around[:-1] += own[1:]
        around[0] += own[0]
        around[-1] += own[-1]
        total, other = other, total
    return total


def border_places(n: int, B: int) -> NDArray[np.intp]:
    """Return the places of samples along an axis of n, in boxes of B."""
    behind = np.arange(n) & (B - 1)
    before = B - 1 - behind
    place = np.where(before < behind, BORDER_SAMPLES + before, behind)
    return np.where(np.minimum(before, behind) < BORDER_SAMPLES, place, PLACES - 1)


def weight_columns(tap: int) -> NDArray[np.intp]:
    """Return which weight, without its limit, a neighbour has at each place.

    In a row of weights stand, for each distance of neighbours, those of samples beside a border:
    the neighbour towards it, the one away from it; then the one of samples inside.
    """
    first = (abs(tap) - 1) * PLACES
    behind = [first + 2 * j + (tap > 0) for j in range(BORDER_SAMPLES)]
    before = [first + 2 * j + (tap < 0) for j in range(BORDER_SAMPLES)]
    return np.array([*behind, *before, first + 2 * BORDER_SAMPLES], np.intp)


N_WEIGHTS = len(LIMITS) * (REACH * PLACES + 1)
"""Weights of a level: for each limit those along axes, then one for neighbours across."""


def neighbours(d: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """Yield offsets of neighbours of a sample: along which axis, and how far; -1 for across.

    Neighbours across are one off along each of two axes.
    """
    for k in range(d):
        for tap in TAPS:
            yield tuple(tap * (j == k) for j in range(d)), k, tap
    for j, k in combinations(range(d), 2):
        for a, b in product((-1, 1), repeat=2):
            yield tuple(a * (i == j) + b * (i == k) for i in range(d)), -1, 0


def pad_samples(y: NDArray[np.integer]) -> Ints:
    """Return samples with `REACH` more at all ends, repeated; no larger than `LARGEST_SAMPLE`."""
    z = np.clip(y, -LARGEST_SAMPLE, LARGEST_SAMPLE).astype(np.int32)
    return np.pad(z, [(0, 0)] + [(REACH, REACH)] * (y.ndim - 1), mode="edge")


def view_neighbour(z: Ints, offset: tuple[int, ...]) -> Ints:
    """Return the view of padded samples of one channel, (n...), at an offset."""
    window = tuple(slice(REACH + o, n - REACH + o) for o, n in zip(offset, z.shape))
    return z[window]


def _tabulate_moves(weights: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return what a difference from -top to top does, for each weight: (..., 2 top + 1)."""
    top = LIMITS[-1]
    difference = np.arange(-top, top + 1)
    limited = np.stack([np.clip(difference, -t, t) for t in LIMITS])
    return np.tensordot(weights, limited, axes=(-1, 0)).astype(np.int32)


@dataclass(frozen=True)
class Moves:
    """How far weights would move samples (C, n...), and by which levels.

    Levels and moves, in ``2^-WEIGHT_BITS`` units, (axes and across, C, n...), are those along each
    axis, then across: there the level is the largest of all axes.
    """

    levels: Small
    moves: Ints

    @classmethod
    def of(cls, y: Whole, B: int, weights: Shorts) -> "Moves":
        """Return those of decoded samples: by compiled loops where these pay."""
        d = y.ndim - 1
        found = cls(*(np.empty((d + (d > 1), *y.shape), t) for t in (np.uint8, np.int32)))
        if running.pays(0):
            from elmfield.codec.lossy import sample_loops

            sample_loops.find_moves(y, B, weights, found.levels, found.moves)
        else:
            found._fill(y, B, weights)
        return found

    def _fill(self, y: Whole, B: int, weights: Shorts) -> None:
        """Find levels and moves, some rows at a time."""
        d = y.ndim - 1
        rough = find_roughness(y, B)
        self.levels[:d] = sum((rough >= edge * 4**d).view(np.uint8) for edge in EDGES)
        self.levels[d:] = self.levels[:d].max(axis=0)
        w = weights.astype(np.int64).reshape(LEVELS, len(LIMITS), -1).transpose(0, 2, 1)
        tables = {tap: _tabulate_moves(w[:, weight_columns(tap)]).ravel() for tap in TAPS}
        tables[0] = _tabulate_moves(w[:, -1]).ravel()
        where, z = [border_places(n, B) for n in y.shape[1:]], pad_samples(y)
        for c, part in _parts(y.shape):
            near, own = z[c, part.start : part.stop + 2 * REACH], self.levels[:, c, part]
            places = np.ix_(where[0][part], *where[1:])
            self.moves[:, c, part] = _move_part(near, own, places, tables)

    def products(self, off: Floats, some: tuple[slice, ...]) -> tuple[Floats, Floats]:
        """Return sums of products of moves, (C, levels, levels), and with errors, (C, levels).

        Of some samples (C, n...), whose errors are `off`.
        """
        level, move = self.levels[:, *some], self.moves[:, *some]
        each = [(move * (level == k)).sum(axis=0).reshape(len(off), -1) for k in range(LEVELS)]
        by_level = np.stack(each, axis=1).astype(np.float64)
        along = by_level @ off.reshape(len(off), -1, 1)
        return by_level @ by_level.swapaxes(1, 2), along[..., 0]

    def apply(self, y: Whole, gains: Small) -> Whole:
        """Return samples (C, n...) moved; `gains` (C, LEVELS) say how strongly, in 64ths."""
        out, half = y.copy(), 1 << WEIGHT_BITS + GAIN_BITS >> 1
        if running.pays(0):
            from elmfield.codec.lossy import sample_loops

            sample_loops.apply(self.levels, self.moves, gains, out)
            return out
        for c, part in _parts(y.shape):
            strong = gains[c].astype(np.int32).take(self.levels[:, c, part])
            strong *= self.moves[:, c, part]
            out[c, part] += (strong.sum(axis=0) + half) >> WEIGHT_BITS + GAIN_BITS
        return out


def _parts(shape: tuple[int, ...]) -> list[tuple[int, slice]]:
    """Return channels and rows of what is done at a time."""
    rows = max(1, CHUNK_SAMPLES // math.prod(shape[2:]))
    return [(c, slice(a, a + rows)) for c in range(shape[0]) for a in range(0, shape[1], rows)]


def _move_part(
    z: Ints, level: Small, where: Sequence[NDArray[np.intp]], tables: dict[int, Ints]
) -> Ints:
    """Return the moves of a part of a channel, (n...), padded."""
    d, top = z.ndim, LIMITS[-1]
    width, middle = 2 * top + 1, view_neighbour(z, (0,) * z.ndim)
    starts = [(own * np.intp(PLACES) + place) * width + top for own, place in zip(level, where)]
    starts.append(level[-1] * np.intp(width) + top)
    total, found = np.zeros(level.shape, np.int32), np.empty(level.shape[1:], np.int32)
    difference, place = np.empty_like(found), np.empty(found.shape, np.intp)
    for offset, k, tap in neighbours(d):
        np.subtract(view_neighbour(z, offset), middle, out=difference)
        np.clip(difference, -top, top, out=difference)
        np.add(starts[k], difference, out=place)
        # places are in range; "clip" only spares a copy
        tables[tap].take(place, out=found, mode="clip")
        total[k] += found
    return total


def choose_gains(
    x: Floats, y: Whole, B: int, weights: Shorts, worth: float
) -> tuple[Small | None, Whole]:
    """Return the best gains, and samples smoothed by them; None where that saves too little.

    Parameters
    ----------
    x, y : arrays, shape (C, n...)
        Samples in steps, and what was decoded, in units.
    B : int
        The size of boxes.
    worth : float
        The sum of squares, in units, that a byte must save.
    """
    every = GAIN_EVERY if y.size >= GAIN_SAMPLES else 1
    some = (*[slice(None)] * max(1, y.ndim - 2), slice(None, None, every))
    off = np.subtract(x[some] * UNIT, y[some], dtype=np.float64)
    moves = Moves.of(y, B, weights)
    power, along = moves.products(off, some)
    scale = float(1 << WEIGHT_BITS + GAIN_BITS)
    gains = _solve_gains(power, along * scale)
    g = gains / scale
    saved = 2 * float(np.sum(g * along)) - float(np.einsum("ca,cab,cb->", g, power, g))
    saved *= every
    return (gains, moves.apply(y, gains)) if saved > worth * gains.size else (None, y)


def _solve_gains(power: Floats, along: Floats) -> Small:
    """Return gains of least squares within their range, one after the other, again and again."""
    found = []
    for P, v in zip(power.tolist(), along.tolist()):
        gains = [0.0] * LEVELS
        for _ in range(GAIN_ROUNDS):
            before = list(gains)
            for a, row in enumerate(P):
                rest = v[a] - sum(map(mul, row, gains))
                gains[a] = min(max(gains[a] + rest / max(row[a], 1.0), 0.0), 255.0)
            if max(map(abs, map(sub, gains, before))) < 0.01:
                break
        found.append(gains)
    return np.rint(found).astype(np.uint8)
