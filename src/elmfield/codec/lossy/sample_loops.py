"""Compiled loops over samples and modes: smoothing, and the last modes worth coding.

They do what `deblock` and `write` do by NumPy, to the same result. Imported only once
compiled loops pay, because they import the compiler.
"""

import math

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Floats, Integers
from elmfield.codec.lossy import deblock
from elmfield.codec.lossy.deblock import PLACES, TAPS, Ints, Shorts, Small

Singles = NDArray[np.float32]
EDGES = np.array(deblock.EDGES, np.int32)
ROUGHEST = np.int32(deblock.ROUGHEST)
LOW_LIMIT, HIGH_LIMIT = np.int32(deblock.LIMITS[0]), np.int32(deblock.LIMITS[1])
MINUS_LOW, MINUS_HIGH = np.int32(-deblock.LIMITS[0]), np.int32(-deblock.LIMITS[1])
SHIFT = deblock.WEIGHT_BITS + deblock.GAIN_BITS


# --- smoothing ------------------------------------------------------------------------------------


@compiled
def _second_differences(z: Ints, n: int, B: int, out: Ints) -> None:
    """Write magnitudes of second differences along the middle axis, none across a border.

    That axis has n samples, and the axes behind it are one with it: loops are long ones.
    """
    s = z.shape[1] // n
    for o in range(z.shape[0]):
        one, own, other, found = z[o], z[o, s:], z[o, 2 * s :], out[o]
        found[:s] = 0
        found[(n - 1) * s :] = 0
        inner = found[s:]
        for p in range((n - 2) * s):
            off = np.int32(np.int32(one[p] + other[p]) - np.int32(own[p] + own[p]))
            inner[p] = min(abs(off), ROUGHEST)
        for i in range(0, n, B):
            start, end = i * s, (i + B - 1) * s
            first = found[start + s : start + 2 * s].copy()
            if i + B <= n:
                found[end : end + s] = found[end - s : end]
            if i + 1 < n:
                found[start : start + s] = first


@compiled
def _add_around(x: Ints, n: int, out: Ints) -> None:
    """Write sums around samples along the middle axis, weighted by 1, 2, 1; ends are repeated."""
    s = x.shape[1] // n
    for o in range(x.shape[0]):
        one, own, other, found = x[o], x[o, s:], x[o, 2 * s :], out[o]
        last, by = (n - 1) * s, s if n > 1 else 0
        for p in range(s):
            found[p] = 3 * one[p] + one[p + by]
            found[last + p] = 3 * one[last + p] + one[last + p - by]
        inner = found[s:]
        for p in range((n - 2) * s):
            inner[p] = np.int32(one[p] + other[p]) + np.int32(own[p] + own[p])


def _middle(x: Ints, k: int) -> Ints:
    """Return the view of an array with axis k first of those behind it, of two."""
    return x.reshape(int(np.prod(x.shape[:k])), -1)


def _roughness(z: Ints, B: int) -> Ints:
    """Do what `deblock.find_roughness` does: (d, C, n...)."""
    out, other = np.empty((z.ndim - 1, *z.shape), np.int32), np.empty_like(z)
    for k in range(1, z.ndim):
        now, spare = out[k - 1], other
        _second_differences(_middle(z, k), z.shape[k], B, _middle(now, k))
        for j in range(1, z.ndim):
            _add_around(_middle(now, j), z.shape[j], _middle(spare, j))
            now, spare = spare, now
        if now is other:
            out[k - 1] = other
    return out


@compiled
def _add_moves(
    near: Ints, middle: Ints, which: Ints, weights: Ints, held: Ints, moves: Ints
) -> None:
    """Add what samples in a row move towards neighbours, by weights of their own.

    The weight of large differences is in the upper half of a number: looked up first, then the rest
    is done many samples at a time.
    """
    for i in range(moves.size):
        held[i] = weights[which[i]]
    for i in range(moves.size):
        off = np.int32(near[i] - middle[i])
        low = min(max(off, MINUS_LOW), LOW_LIMIT)
        high = min(max(off, MINUS_HIGH), HIGH_LIMIT)
        weak, strong = np.int32(np.int16(held[i])), np.int32(held[i] >> 16)
        moves[i] += np.int32(np.int32(weak * low) + np.int32(strong * high))


@compiled
def _find_moves(
    z: Ints,
    firsts: Integers,
    index: Integers,
    places: Integers,
    rough: Ints,
    edges: Ints,
    weights: Ints,
    across: Ints,
    along: Integers,
    aside: Integers,
    levels: Small,
    moves: Ints,
) -> None:
    """Find how far samples move along each axis and across, and by which levels.

    Row r of samples begins at place ``firsts[r]`` of the padded ones, its index along the axes but
    the last is ``index[r]``; `places` are those of samples beside borders.
    """
    d, C, rows, n = rough.shape
    which, most, held = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for c in range(C):
        for r in range(rows):
            p = firsts[r]
            middle = z[c, p : p + n]
            most[:] = 0
            for a in range(d):
                own, level = rough[a, c, r], levels[a, c, r]
                for i in range(n):
                    reached = np.int32(own[i] >= edges[0]) + np.int32(own[i] >= edges[1])
                    reached += np.int32(own[i] >= edges[2]) + np.int32(own[i] >= edges[3])
                    level[i], which[i] = reached, reached * PLACES
                    most[i] = max(most[i], reached)
                for i in range(n):
                    which[i] += places[index[r, a] if a < d - 1 else i]
                move = moves[a, c, r]
                move[:] = 0
                for t in range(along.shape[1]):
                    at = p + along[a, t]
                    _add_moves(z[c, at : at + n], middle, which, weights[t], held, move)
            if d > 1:
                move = moves[d, c, r]
                move[:] = 0
                for i in range(n):
                    levels[d, c, r, i] = most[i]
                for t in range(aside.size):
                    at = p + aside[t]
                    _add_moves(z[c, at : at + n], middle, most, across, held, move)


@compiled
def _add_products(
    levels: Small, moves: Ints, off: Floats, places: Integers, power: Integers, along: Floats
) -> None:
    """Sum up products of the moves of levels with each other, and with errors, at some places."""
    kinds, C, _ = moves.shape
    for c in range(C):
        for a in range(kinds):
            for i in places:
                one, level = np.int64(moves[a, c, i]), levels[a, c, i]
                along[c, level] += one * off[c, i]
                for b in range(a):
                    other = one * moves[b, c, i]
                    power[c, level, levels[b, c, i]] += other
                    power[c, levels[b, c, i], level] += other
                power[c, level, level] += one * one


@compiled
def _apply(levels: Small, moves: Ints, gains: Integers, out: Integers) -> None:
    """Move samples."""
    kinds, C, n = moves.shape
    for c in range(C):
        for i in range(n):
            strong = 1 << SHIFT >> 1
            for a in range(kinds):
                strong += gains[c, levels[a, c, i]] * moves[a, c, i]
            out[c, i] += strong >> SHIFT


class Moves:
    """How far weights would move samples (C, n...), and by which levels."""

    def __init__(self, y: Integers, B: int, weights: Shorts) -> None:
        C, d, n = len(y), y.ndim - 1, y.shape[-1]
        padded = deblock.pad_samples(y)
        inner = padded[(slice(None), *[slice(deblock.REACH, -deblock.REACH)] * d)]
        steps = np.array(padded.strides[1:]) // padded.itemsize
        index = np.indices(y.shape[1:-1]).reshape(d - 1, math.prod(y.shape[1:-1])).T.copy()
        w = weights.astype(np.int32).reshape(deblock.LEVELS, len(deblock.LIMITS), -1)
        both = (w[:, 1] << 16) | (w[:, 0] & 0xFFFF)
        by_place = np.stack([both[:, deblock.weight_columns(tap)] for tap in TAPS])
        offsets = np.array([offset for offset, *_ in deblock.neighbours(d)], np.int64) @ steps
        n_along = d * len(TAPS)
        levels = np.empty((d + (d > 1), C, len(index), n), np.uint8)
        moves = np.empty(levels.shape, np.int32)
        _find_moves(
            padded.reshape(C, -1),
            index @ steps[:-1] + deblock.REACH * steps.sum(),
            index,
            deblock.border_places(max(y.shape), B),
            _roughness(np.ascontiguousarray(inner), B).reshape(d, C, -1, n),
            EDGES * np.int32(4**d),
            by_place.reshape(len(TAPS), -1),
            both[:, -1].copy(),
            offsets[:n_along].reshape(d, len(TAPS)),
            offsets[n_along:],
            levels,
            moves,
        )
        self.levels = levels.reshape(len(levels), C, -1)
        self.moves = moves.reshape(len(levels), C, -1)

    def products(self, off: Floats) -> tuple[Floats, Floats]:
        """Return sums of products of moves, (C, levels, levels), and with errors (C, n...)."""
        C, n = len(off), deblock.LEVELS
        power, along = np.zeros((C, n, n), np.int64), np.zeros((C, n))
        every = np.arange(off[0].size).reshape(off.shape[1:])
        places = every[..., :: deblock.gain_every(off)].ravel()
        _add_products(self.levels, self.moves, off.reshape(C, -1), places, power, along)
        return power.astype(np.float64), along

    def apply(self, y: Integers, gains: Small) -> Integers:
        """Return samples moved."""
        out = y.astype(np.int64)
        _apply(self.levels, self.moves, gains.astype(np.int64), out.reshape(len(y), -1))
        return out


# --- the last modes worth coding ------------------------------------------------------------------


@compiled
def find_last(x: Singles, starts: Integers, price: np.float32, first: np.float32) -> Integers:
    """Do what `write.find_last` does."""
    N = x.shape[1]
    now, so_far = np.zeros(N, np.float32), np.zeros(N, np.float32)
    best, last = np.zeros(N, np.float32), np.zeros(N, np.int64)
    for s in range(1, starts.size - 1):
        now[:] = 0
        for m in range(starts[s], starts[s + 1]):
            for b in range(N):
                v = x[m, b]
                q = np.floor(v + np.float32(0.3))
                gain = (v + v - q - price) * q
                now[b] += gain - min(q, np.float32(1)) * first
        for b in range(N):
            so_far[b] += now[b]
            if so_far[b] > best[b]:
                best[b], last[b] = so_far[b], s
    return last
