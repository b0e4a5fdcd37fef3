"""Smoothing of decoded samples where boxes meet and where there is little but rounding.

Every sample moves towards its neighbours, by weights that were trained: small differences are
rounding and count in full, large ones are the picture's own and count no more than a limit. The
weights depend on how rough the samples around are and on how far the border of the box is. The
encoder says for each channel and level of roughness how strongly to smooth: where it does not
help, not at all. All arithmetic of the decoder is in integers.
"""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy.transform import Floats, Whole

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
LARGEST_SAMPLE = 1 << 28
CHUNK_SAMPLES = 1 << 16
"""Samples that are smoothed at a time: what is known of them stays in a cache."""
TAPS = [side * r for r in range(1, REACH + 1) for side in (1, -1)]


def find_roughness(y: NDArray[np.integer]) -> Ints:
    """Return second differences of samples (C, n...) around each, 4^d times their mean."""
    z = np.clip(y, -LARGEST_SAMPLE, LARGEST_SAMPLE).astype(np.int32)
    total = np.zeros(z.shape, np.int32)
    for k in range(1, z.ndim):
        if z.shape[k] > 2:
            second = np.diff(z, 2, axis=k)
            np.abs(second, out=second)
            middle = [slice(None)] * z.ndim
            middle[k] = slice(1, -1)
            total[tuple(middle)] += np.minimum(second, ROUGHEST, out=second)
    for k in range(1, z.ndim):
        around = 2 * total
        inner, outer = ([slice(None)] * z.ndim for _ in range(2))
        for one, other, end in ((slice(1, None), slice(-1), 0), (slice(-1), slice(1, None), -1)):
            inner[k], outer[k] = one, other
            around[tuple(inner)] += total[tuple(outer)]
            inner[k] = slice(0, 1) if end == 0 else slice(-1, None)
            around[tuple(inner)] += total[tuple(inner)]
        total = around
    return total


def find_levels(rough: Ints, edges: tuple[int, ...]) -> Small:
    """Return how many edges, in units, roughness has reached."""
    scale = 4 ** (rough.ndim - 1)
    out = np.zeros(rough.shape, np.uint8)
    for edge in edges:
        out += rough >= edge * scale
    return out


def border_places(sizes: Small) -> list[Small]:
    """Return, for each axis, the place of every sample, (n...), from the size of its box."""
    found = []
    for k, n in enumerate(sizes.shape):
        i = np.arange(n).reshape([-1 if j == k else 1 for j in range(sizes.ndim)])
        behind = (i & (sizes - 1)).astype(np.uint8)
        before = (sizes - 1 - behind).astype(np.uint8)
        place = np.where(before < behind, BORDER_SAMPLES + before, behind)
        found.append(np.where(np.minimum(before, behind) < BORDER_SAMPLES, place, PLACES - 1))
    return [place.astype(np.uint8) for place in found]


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


def neighbours(d: int) -> Iterator[tuple[tuple[int, ...], int | None, int]]:
    """Yield offsets of neighbours of a sample: along which axis, and how far; None for across.

    Neighbours across are one off along each of two axes.
    """
    for k in range(d):
        for tap in TAPS:
            yield tuple(tap * (j == k) for j in range(d)), k, tap
    for j, k in combinations(range(d), 2):
        for a, b in product((-1, 1), repeat=2):
            yield tuple(a * (i == j) + b * (i == k) for i in range(d)), None, 0


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


def find_moves(y: Whole, sizes: Small, weights: Shorts) -> tuple[Ints, Small]:
    """Return how far weights would move samples, in ``2^-WEIGHT_BITS`` units; their levels."""
    level = find_levels(find_roughness(y), EDGES)
    w = weights.astype(np.int64).reshape(LEVELS, len(LIMITS), -1).transpose(0, 2, 1)
    tables = {tap: _tabulate_moves(w[:, weight_columns(tap)]).ravel() for tap in TAPS}
    tables[0] = _tabulate_moves(w[:, -1]).ravel()
    where, z = border_places(sizes), pad_samples(y)
    total = np.empty(y.shape, np.int32)
    rows = max(1, CHUNK_SAMPLES // max(1, sizes[:1].size))
    for c in range(len(y)):
        for a in range(0, y.shape[1], rows):
            part = slice(a, a + rows)
            near = z[c, a : a + rows + 2 * REACH]
            total[c, part] = _move_part(near, level[c, part], [p[part] for p in where], tables)
    return total, level


def _move_part(z: Ints, level: Small, where: list[Small], tables: dict[int, Ints]) -> Ints:
    """Do the same for a part of a channel, (n...), padded."""
    d, top = z.ndim, LIMITS[-1]
    width, middle = 2 * top + 1, view_neighbour(z, (0,) * z.ndim)
    starts: dict[int | None, NDArray[np.intp]] = {
        k: (level * np.intp(PLACES) + place) * width + top for k, place in enumerate(where)
    }
    starts[None] = level * np.intp(width) + top
    total, found = (np.zeros(level.shape, np.int32) for _ in range(2))
    difference, place = np.empty_like(total), np.empty(level.shape, np.intp)
    for offset, k, tap in neighbours(d):
        np.subtract(view_neighbour(z, offset), middle, out=difference)
        np.clip(difference, -top, top, out=difference)
        np.add(starts[k], difference, out=place)
        # places are in range; "clip" only spares a copy
        tables[tap].take(place, out=found, mode="clip")
        total += found
    return total


def smooth(y: Whole, sizes: Small, weights: Shorts, gains: Small) -> Whole:
    """Return samples (C, n...) moved; `gains` (C, LEVELS) say how strongly, in 64ths."""
    return _apply_moves(y, *find_moves(y, sizes, weights), gains)


def _apply_moves(y: Whole, total: Ints, level: Small, gains: Small) -> Whole:
    """Return samples moved, in units."""
    C, shift = len(total), WEIGHT_BITS + GAIN_BITS
    which = level + np.arange(0, C * LEVELS, LEVELS).reshape([C] + [1] * (total.ndim - 1))
    strong = total.astype(np.int64)
    strong *= gains.astype(np.int64).ravel().take(which)
    strong += 1 << shift >> 1
    strong >>= shift
    strong += y
    return strong


def choose_gains(
    x: Floats, y: Whole, sizes: Small, weights: Shorts, worth: float
) -> tuple[Small | None, Whole]:
    """Return the best gains, and samples smoothed by them; None where that saves too little.

    Parameters
    ----------
    x, y : arrays, shape (C, n...)
        Samples and what was decoded, in units.
    worth : float
        The sum of squares, in units, that a byte must save.
    """
    total, level = find_moves(y, sizes, weights)
    off = np.asarray(x - y, np.float64)
    gains = np.zeros((len(y), LEVELS), np.uint8)
    for c in range(len(y)):
        power, along = _add_products(off[c].ravel(), total[c].ravel(), level[c].ravel())
        best = along * (1 << WEIGHT_BITS) / np.maximum(power, 1) * (1 << GAIN_BITS)
        gains[c] = np.clip(np.rint(best), 0, 255)
    found = _apply_moves(y, total, level, gains)
    saved = float(np.sum(off**2) - np.sum((x - found) ** 2))
    return (gains, found) if saved > worth * gains.size else (None, y)


def _add_products(off: Floats, move: Ints, of: Small) -> tuple[Floats, Floats]:
    """Return sums of squares of moves, and of moves times errors, for each level."""
    products = (np.square(move, dtype=np.float64), move * off)
    power, along = (np.asarray(np.bincount(of, p, LEVELS), np.float64) for p in products)
    return power, along
