"""Compiled loops over samples that `deblock` smooths: the same result as by NumPy.

Imported only once compiled loops pay, because they import the compiler.
"""

import math

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Integers
from elmfield.codec.lossy import deblock
from elmfield.codec.lossy.deblock import TAPS, Ints, Shorts, Small

Rows = tuple[Integers, Integers]
"""Where rows of samples begin among the padded ones, flat; places of samples beside borders, by
index along the axes but the last, (rows, d - 1)."""
Offsets = tuple[Integers, Integers]
"""Where neighbours lie along each axis, (d, taps), and across."""
Weights = tuple[Ints, Ints, Ints]
"""Of neighbours by tap, place and level; of those along the last axis by tap, level and sample; of
those across by level. The weight of large differences is in the upper half of a number, and every
number but the first of a level stands for what it adds to the one of the level before."""
EDGES = np.array(deblock.EDGES, np.int32)
LOW_LIMIT, HIGH_LIMIT = np.int32(deblock.LIMITS[0]), np.int32(deblock.LIMITS[1])
MINUS_LOW, MINUS_HIGH = np.int32(-deblock.LIMITS[0]), np.int32(-deblock.LIMITS[1])
SHIFT = deblock.WEIGHT_BITS + deblock.GAIN_BITS
CHUNK_SAMPLES = 1 << 10


@compiled
def _move(off: np.int32, held: np.int32) -> np.int32:
    """Return what a difference moves a sample, by both weights."""
    low = min(max(off, MINUS_LOW), LOW_LIMIT)
    high = min(max(off, MINUS_HIGH), HIGH_LIMIT)
    weak, strong = np.int32(np.int16(held)), np.int32(held >> 16)
    return np.int32(np.int32(weak * low) + np.int32(strong * high))


@compiled
def _weigh(level: int, a: int, b: int, c: int, d: int, e: int) -> np.int32:
    """Return the number of a level, by what each adds to the one before.

    Comparisons are done for many samples at a time, a look into a table is not.
    """
    below = np.int32(a + np.int32(level >= 1) * b + np.int32(level >= 2) * c)
    return np.int32(below + np.int32(level >= 3) * d + np.int32(level >= 4) * e)


@compiled
def _add_moves(near: Ints, middle: Ints, level: Ints, w: Ints, moves: Ints) -> None:
    """Add what samples in a row move towards neighbours, by the weights of their levels."""
    a, b, c, d, e = w[0], w[1], w[2], w[3], w[4]
    for i in range(moves.size):
        held = _weigh(level[i], a, b, c, d, e)
        moves[i] += _move(np.int32(near[i] - middle[i]), held)


@compiled
def _add_own_moves(near: Ints, middle: Ints, level: Ints, w: Ints, moves: Ints) -> None:
    """Do so where every sample of the row has weights of its own."""
    a, b, c, d, e = w[0], w[1], w[2], w[3], w[4]
    for i in range(moves.size):
        held = _weigh(level[i], a[i], b[i], c[i], d[i], e[i])
        moves[i] += _move(np.int32(near[i] - middle[i]), held)


@compiled
def _find_moves(
    z: Ints, edges: Ints, rows: Rows, near: Offsets, weights: Weights, *found: NDArray[np.integer]
) -> None:
    """Find how far padded samples move along each axis and across, and by which levels."""
    (firsts, places), (along, aside), (by_place, by_sample, across) = rows, near, weights
    rough, levels, moves = found
    d, C, n_rows, n = rough.shape
    most, reached = np.empty(n, np.int32), np.empty(n, np.int32)
    for c in range(C):
        for r in range(n_rows):
            p = firsts[r]
            middle = z[c, p : p + n]
            most[:] = 0
            for a in range(d):
                own, level, move = rough[a, c, r], levels[a, c, r], moves[a, c, r]
                for i in range(n):
                    low = np.int32(own[i] >= edges[0]) + np.int32(own[i] >= edges[1])
                    high = np.int32(own[i] >= edges[2]) + np.int32(own[i] >= edges[3])
                    level[i] = reached[i] = low + high
                    most[i] = max(most[i], reached[i])
                move[:] = 0
                for t in range(along.shape[1]):
                    other = z[c, p + along[a, t] :][:n]
                    if a < d - 1:
                        _add_moves(other, middle, reached, by_place[t, places[r, a]], move)
                    else:
                        _add_own_moves(other, middle, reached, by_sample[t], move)
            if d > 1:
                move = moves[d, c, r]
                move[:] = 0
                for i in range(n):
                    levels[d, c, r, i] = most[i]
                for t in range(aside.size):
                    _add_moves(z[c, p + aside[t] :][:n], middle, most, across, move)


@compiled
def _apply(levels: Small, moves: Ints, weights: Ints, out: Integers) -> None:
    """Move samples; products and their sums fit 32 bits."""
    held, (kinds, C, n) = np.empty(CHUNK_SAMPLES, np.int32), moves.shape
    for c in range(C):
        w = weights[c]
        a, b, d, e, f = w[0], w[1], w[2], w[3], w[4]
        for first in range(0, n, CHUNK_SAMPLES):
            own = out[c, first:][:CHUNK_SAMPLES]
            held[:] = 1 << SHIFT >> 1
            for k in range(kinds):
                level, move = levels[k, c, first:][: own.size], moves[k, c, first:][: own.size]
                for i in range(own.size):
                    held[i] += np.int32(_weigh(level[i], a, b, d, e, f) * move[i])
            for i in range(own.size):
                own[i] += held[i] >> SHIFT


def _differences(w: NDArray[np.integer]) -> Ints:
    """Return what each level adds to the one before, levels last."""
    return np.diff(w, prepend=np.int32(0), axis=-1)


def find_moves(y: Integers, B: int, weights: Shorts, levels: Small, moves: Ints) -> None:
    """Run `deblock.Moves.of`."""
    C, d, n = len(y), y.ndim - 1, y.shape[-1]
    padded, where = deblock.pad_samples(y), deblock.border_places(max(y.shape), B)
    steps = np.array(padded.strides[1:]) // padded.itemsize
    index = np.indices(y.shape[1:-1]).reshape(d - 1, math.prod(y.shape[1:-1])).T.copy()
    w = weights.astype(np.int32).reshape(deblock.LEVELS, len(deblock.LIMITS), -1)
    both = _differences(((w[:, 1] << 16) | (w[:, 0] & 0xFFFF)).T)  # (weights, levels)
    by_place = np.stack([both[deblock.weight_columns(tap)] for tap in TAPS])
    by_sample = by_place[:, where[:n]].swapaxes(1, 2).copy()
    offsets = np.array([offset for offset, *_ in deblock.neighbours(d)], np.int64) @ steps
    n_along, edges = d * len(TAPS), EDGES * np.int32(4**d)
    rows = index @ steps[:-1] + deblock.REACH * steps.sum(), where[index]
    near = offsets[:n_along].reshape(d, len(TAPS)), offsets[n_along:]
    found = (x.reshape(len(x), C, -1, n) for x in (deblock.find_roughness(y, B), levels, moves))
    _find_moves(padded.reshape(C, -1), edges, rows, near, (by_place, by_sample, both[-1]), *found)


def apply(levels: Small, moves: Ints, gains: Small, out: Integers) -> None:
    """Run `deblock.Moves.apply`."""
    shape, w = (*levels.shape[:2], -1), _differences(gains.astype(np.int32))
    _apply(levels.reshape(shape), moves.reshape(shape), w, out.reshape(len(out), -1))
