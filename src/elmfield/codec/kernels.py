"""Compiled loops of the entropy coder and of interpolation: what NumPy does, a sample at a time.

Arithmetic is that of the NumPy functions they stand for, in the same order, so bytes and samples
are the same both ways. Indices are not checked here: callers do. Imported only once compiled loops
pay, because it imports the compiler.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from elmfield._array.running import compiled
from elmfield._array.typing import Floats, Integers
from elmfield.codec import ans
from elmfield.codec.ans import TABLE_BITS, Learning, Symbols
from elmfield.codec.lossy import interpolated
from elmfield.codec.lossy.interpolated import ACTIVITY_LEVELS, Around

read_symbols, write_batches = compiled(ans.read_symbols), compiled(ans.write_batches)


@compiled
def update(tables: Learning, classes: Symbols, symbols: Symbols) -> None:
    """Run `ans.AdaptiveTables.update`."""
    counts, seen, fresh, n, entries, slots, weight, limit, patience = tables
    K, A = counts.shape
    for i in range(len(symbols)):
        seen[classes[i], symbols[i]] += 1
    n[1] += symbols.size
    if n[1] < patience + n[0] // 8:
        return
    n[0] += n[1]
    n[1] = 0
    for k in range(K):
        total, used, largest = 0, 0, 0
        for a in range(A):
            counts[k, a] += weight * seen[k, a]
            fresh[k] += weight * seen[k, a]
            seen[k, a] = 0
            total += counts[k, a]
        while total > limit:
            total = 0
            for a in range(A):
                counts[k, a] = (counts[k, a] + 1) >> 1
                total += counts[k, a]
        if fresh[k] == 0 or 8 * fresh[k] < total:
            continue
        fresh[k] = 0
        for a in range(A):
            used += counts[k, a] > 0
            largest = a if counts[k, a] > counts[k, largest] else largest
        room, start = (1 << TABLE_BITS) - used, 0
        rest = room
        for a in range(A):
            rest -= counts[k, a] * room // max(total, 1)
        for a in range(A):
            freq = counts[k, a] * room // max(total, 1) + (counts[k, a] > 0)
            freq += rest if a == largest else 0
            entries[k, a] = start << 16 | freq
            slots[k, start : start + freq] = a
            start += freq


# --- interpolation --------------------------------------------------------------------------------


Known = tuple[Floats, Floats, Integers, int, int]
"""Known samples and their sizes, flat, and their places (:func:`_find_places`); the axis along
which samples are new, and how many there are along it."""


@compiled
def _beside(i: int, by: int, n: int) -> int:
    """Return how far off the sample is that stands so many places on, or the last one there is."""
    return min(max(i + by, 0), n - 1) - i


@compiled
def _look(around: Known, row: int, place: Integers, terms: Floats) -> None:
    """Fill in terms of a row of new samples: pair, activity, far and turn.

    The first and the last two of a row have neighbours of their own.
    """
    known, sizes, places, axis, n = around
    extent, stride, across = places
    start, rest = 0, row
    for k in range(2, -1, -1):
        size = n if k == axis else extent[k]
        place[k] = rest % size
        start += stride[k] * place[k]
        rest //= size
    width, low, sides = n if axis == 3 else extent[3], 0, 0.5 / max(across.sum(), 1)
    for high in (min(1, width), width - 2, width - 1, width):
        if high <= low:
            continue
        place[3], m = low, high - low
        pair, active = terms[0, low:high], terms[1, low:high]
        far, turn = terms[2, low:high], terms[3, low:high]
        here, i, s, end = start + low, place[axis], stride[axis], extent[axis]
        there, is_last = here + s * _beside(i, 1, end), 1 < end == n and i + 1 == end
        a, b = known[here:][:m], known[there:][:m]
        c = known[here + s * _beside(i, -1, end) :][:m]
        d = known[here + s * _beside(i, 2, end) :][:m]
        if is_last:  # none stands behind it: a line goes on
            b = 2.0 * a - c
            d = b
        elif 1 < end == n and i + 2 == end:
            d = 2.0 * b - a
        e, f = sizes[here:][:m], sizes[there:][:m]
        for j in range(m):
            pair[j] = a[j] + b[j]
            far[j] = c[j] + d[j] - pair[j]
            active[j] = abs(far[j]) + abs(a[j] - b[j]) + 2.0 * (e[j] + f[j])
        turn[:] = 0.0
        for k in range(4):
            if across[k]:
                before = stride[k] * _beside(place[k], -1, extent[k])
                behind = stride[k] * _beside(place[k], 1, extent[k])
                a, b = known[here + before :][:m], known[there + before :][:m]
                c, d = known[here + behind :][:m], known[there + behind :][:m]
                if is_last:
                    b = 2.0 * a - known[here + before - s :][:m]
                    d = 2.0 * c - known[here + behind - s :][:m]
                for j in range(m):
                    turn[j] += (a[j] + b[j]) + (c[j] + d[j])
        if across.any():
            for j in range(m):
                turn[j] = turn[j] * sides - pair[j]
                active[j] += abs(turn[j]) * 2.0
        for j in range(m):
            active[j] = active[j] * 0.25 + interpolated.LEAST_ACTIVITY
        low = high


@compiled
def _find_terms(around: Known, every: int, terms: Floats) -> None:
    """Find terms of every so many rows, (rows, 4, width)."""
    place = np.empty(4, np.int64)
    for r in range(len(terms)):
        _look(around, r * every, place, terms[r])


@compiled
def _predict(
    around: Known, w: float, v: float, first: int, lowest: int, guess: Floats, classes: Symbols
) -> None:
    """Find guesses by the weights of far and turn, and classes by the lowest level."""
    place, terms = np.empty(4, np.int64), np.empty((4, guess.shape[1]))
    pair, far, turn, bins = terms[0], terms[2], terms[3], terms[1].view(np.int64)
    for r in range(len(guess)):
        _look(around, r, place, terms)
        found, level = guess[r], classes[r]
        for j in range(len(found)):
            found[j] = np.floor(pair[j] * 0.5 + far[j] * w + turn[j] * v + 0.5)
        for j in range(len(found)):
            level[j] = first + min(max((bins[j] >> 51) - lowest, 0), ACTIVITY_LEVELS - 1)


@lru_cache(maxsize=256)
def _find_places(
    known: tuple[int, ...], axis: int, across: tuple[int, ...]
) -> tuple[Integers, int]:
    """Return lengths, strides and 1 for axes across, of known samples on four axes, and the axis.

    Axes of length 1 come first.
    """
    more, out = 4 - len(known), np.ones((3, 4), np.int64)
    out[0, more:] = known
    out[1, :3] = np.cumprod(out[0, :0:-1])[::-1]
    out[2] = [k - more in across for k in range(4)]
    return out, more + axis


def _flat(around: Around) -> Known:
    places = _find_places(around.known.shape, around.phase.axis, around.phase.across)
    return around.known.reshape(-1), around.sizes.reshape(-1), *places, around.n


def find_terms(around: Around, every: int) -> Floats:
    """Run `Around.some_terms`."""
    width = around.shape[-1]
    terms = np.empty((-(-math.prod(around.shape) // (width * every)), 4, width))
    _find_terms(_flat(around), every, terms)
    return terms.transpose(1, 0, 2)[: 3 + bool(around.phase.across)]


def predict(around: Around, weights: Sequence[int], shift: int) -> tuple[Floats, Symbols]:
    """Run `Around.predict`."""
    shape = math.prod(around.shape[:-1]), around.shape[-1]
    guess, classes = np.empty(shape), np.empty(shape, np.uint8)
    far, turn = (w / (2 * interpolated.WEIGHT) for w in (*weights, 0)[:2])
    first = ACTIVITY_LEVELS * around.phase.kind
    _predict(_flat(around), far, turn, first, interpolated.LOWEST + shift, guess, classes)
    return guess.reshape(-1), classes.reshape(-1)
