"""Compiled loops over samples that `deblock` smooths: the same result as by NumPy.

Imported only once
compiled loops pay, because they import the compiler.
"""

import math

import numpy as np

from elmfield._array.running import compiled
from elmfield._array.typing import Floats, Integers
from elmfield.codec.lossy import deblock
from elmfield.codec.lossy.deblock import PLACES, TAPS, Ints, Shorts, Small

Rows = tuple[Integers, Integers, Integers]
"""Where rows of samples begin among the padded ones, flat; their indices along the axes but the
last, (rows, d - 1); places of samples beside borders, by index."""
Offsets = tuple[Integers, Integers, Ints, Ints]
"""Where neighbours lie along each axis, (d, taps), and across; their weights by level and place
(taps, ...), and by level."""
EDGES = np.array(deblock.EDGES, np.int32)
LOW_LIMIT, HIGH_LIMIT = np.int32(deblock.LIMITS[0]), np.int32(deblock.LIMITS[1])
MINUS_LOW, MINUS_HIGH = np.int32(-deblock.LIMITS[0]), np.int32(-deblock.LIMITS[1])
SHIFT = deblock.WEIGHT_BITS + deblock.GAIN_BITS


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
    z: Ints, rough: Ints, edges: Ints, rows_at: Rows, offsets: Offsets, levels: Small, moves: Ints
) -> None:
    """Find how far padded samples move along each axis and across, and by which levels."""
    firsts, index, places = rows_at
    along, aside, weights, across = offsets
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


class CompiledMoves:
    """How far weights would move samples (C, n...), and by which levels."""

    def __init__(self, y: Integers, B: int, weights: Shorts) -> None:
        C, d, n = len(y), y.ndim - 1, y.shape[-1]
        padded = deblock.pad_samples(y)
        steps = np.array(padded.strides[1:]) // padded.itemsize
        index = np.indices(y.shape[1:-1]).reshape(d - 1, math.prod(y.shape[1:-1])).T.copy()
        w = weights.astype(np.int32).reshape(deblock.LEVELS, len(deblock.LIMITS), -1)
        both = (w[:, 1] << 16) | (w[:, 0] & 0xFFFF)
        by_place = np.stack([both[:, deblock.weight_columns(tap)] for tap in TAPS])
        offsets = np.array([offset for offset, *_ in deblock.neighbours(d)], np.int64) @ steps
        n_along = d * len(TAPS)
        levels = np.empty((d + (d > 1), C, len(index), n), np.uint8)
        moves = np.empty(levels.shape, np.int32)
        firsts = index @ steps[:-1] + deblock.REACH * steps.sum()
        rows_at = firsts, index, deblock.border_places(max(y.shape), B)
        along, aside = offsets[:n_along].reshape(d, len(TAPS)), offsets[n_along:]
        near = along, aside, by_place.reshape(len(TAPS), -1), both[:, -1].copy()
        rough = deblock.find_roughness(y, B).reshape(d, C, -1, n)
        _find_moves(
            padded.reshape(C, -1), rough, EDGES * np.int32(4**d), rows_at, near, levels, moves
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
