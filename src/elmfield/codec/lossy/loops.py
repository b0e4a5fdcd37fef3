"""Passes over a whole tile as compiled loops: lanes, signs, values, smoothing.

Integers are those of the NumPy way. Floats are added in its order, or are so few bits that their
sums are exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.compiled import compiled

Array = NDArray[Any]


@compiled
def through(entries: Array, ends: Array, bits: int, x: Array, words: Array) -> int:
    """Code all batches backwards, in place: `ans.through`; where the words begin.

    Parameters
    ----------
    entries : array of uint32
        Those of all batches.
    ends : array of int64, shape (batches,)
        Where batches end.
    x : array of uint32
        States of the lanes.
    words : array of uint16
        Room for a word of each entry; it is filled from its end.
    """
    L, top, most = len(x), len(words), 32 - bits
    for batch in range(len(ends) - 1, -1, -1):
        first = ends[batch - 1] if batch else 0
        lane = (ends[batch] - first) % L
        for i in range(ends[batch] - 1, first - 1, -1):
            lane = (L if lane == 0 else lane) - 1
            freq, start = entries[i] & np.uint32(0xFFFF), entries[i] >> np.uint32(16)
            state = x[lane]
            if state >> np.uint32(most) >= freq:
                top -= 1
                words[top] = state
                state = state >> np.uint32(16)
            quotient = state // freq
            x[lane] = (quotient << np.uint32(bits)) + (state - quotient * freq) + start
    return top


@compiled
def symbols(
    classes: Array,
    slots: Array,
    entries: Array,
    bits: int,
    states: Array,
    words: Array,
    place: Array,
    out: Array,
) -> bool:
    """The symbols of a batch: `Decoder.decode`; False where words are missing."""
    lane, at, end = 0, place[0], place[1]
    for i in range(len(classes)):
        c, x = classes[i], np.int64(states[lane])
        slot = x & ((1 << bits) - 1)
        out[i] = slots[c, slot]
        entry = np.int64(entries[c, out[i]])
        x = (x >> bits) * (entry & 0xFFFF) + slot - (entry >> 16)
        if x < 1 << 16:
            if at >= end:
                return False
            x = x << 16 | np.int64(words[at])
            at += 1
        states[lane] = np.uint32(x)
        lane = lane + 1 if lane + 1 < len(states) else 0
    place[0] = at
    return True


@compiled
def last(x: Array, starts: Array, price: float) -> Array:
    """The last diagonal worth coding in every box: `writing._last`."""
    N, best = x.shape[1], np.zeros(x.shape[1], np.int64)
    so_far, most = np.zeros(N, np.float32), np.zeros(N, np.float32)
    total = np.empty(N, np.float32)
    rate, first = np.float32(price), np.float32(4.5 * price)
    for s in range(1, len(starts) - 1):
        total[:] = 0
        for m in range(starts[s], starts[s + 1]):
            row = x[m]
            for j in range(N):
                q = np.floor(row[j] + np.float32(0.3))
                gain = (row[j] + row[j] - q - rate) * q
                total[j] += gain - min(q, np.float32(1)) * first
        for j in range(N):
            so_far[j] += total[j]
            if so_far[j] > most[j]:
                most[j], best[j] = so_far[j], s
    return best


@compiled
def signs(negative: Array, x: Array, q: Array, bits: Array, off: Array, n: Array) -> int:
    """Signs of what is not 0 as bits, and q signed in place: `Chooser.finish`; how many.

    `off` (4,) and `n` (4,) become sums and numbers of how far magnitudes of 1, 2, 3 and more lie
    above x: `writing._points`. All are multiples of 2^-25, so the sums are exact.
    """
    size = 0
    for m in range(len(q)):
        for j in range(q.shape[1]):
            a = q[m, j]
            if a:
                off[min(a, 3)] += a - np.float64(x[m, j])
                n[min(a, 3)] += 1
                bits[size] = negative[m, j]
                size += 1
                if negative[m, j]:
                    q[m, j] = -a
    return size


@compiled
def signed(A: Array, active: Array, bits: Array, out: Array) -> int:
    """Magnitudes of active boxes with their signs: `Follower.finish`; how many, or -1 without bits.

    `active` may be empty: all boxes are.
    """
    size, every = 0, len(active) == 0
    for m in range(1, len(A)):
        for j in range(A.shape[1]):
            a = A[m, j]
            if a and (every or active[j]):
                if size == len(bits):
                    return -1
                out[m, j] = -a if bits[size] else a
                size += 1
    return size


@compiled
def values(q: Array, rows: Array, boxes: Array, points: Array, out: Array) -> None:
    """Modes in units of some boxes, natural order: `Part._values`; `points` begins with a 0."""
    for m in range(1, len(q)):
        natural = out[rows[m]]
        for j in range(len(boxes)):
            v = np.int64(q[m, boxes[j]])
            a: Any = abs(v)
            r = 64 * a - points[min(a, 3)]
            natural[j] = -r if v < 0 else r


@compiled
def packed(numbers: Array, widths: Array, out: Array) -> None:
    """Bits of numbers, the highest first: `magnitudes.packed`."""
    at = 0
    for i in range(len(numbers)):
        for k in range(widths[i] - 1, -1, -1):
            out[at] = (numbers[i] >> k) & 1
            at += 1


@compiled
def unpacked(bits: Array, widths: Array, out: Array) -> None:
    """Numbers of bits: `magnitudes.unpacked`."""
    at = 0
    for i in range(len(out)):
        number: Any = 0
        for _ in range(widths[i]):
            number = number << 1 | np.int64(bits[at])
            at += 1
        out[i] = number


@compiled
def rough(z: Array, total: Array, most: int) -> None:
    """Second differences along the middle axis are added to `total`: `smoothing.roughness`."""
    P, n, Q = z.shape
    top = np.int32(most)
    for p in range(P):
        if Q == 1:  # the last axis
            row, out = z[p, :, 0], total[p, :, 0]
            for i in range(1, n - 1):
                second = np.int32(row[i + 1] + row[i - 1] - 2 * row[i])
                out[i] += min(max(second, np.int32(-second)), top)
        else:
            for i in range(1, n - 1):
                before, here, after, out = z[p, i - 1], z[p, i], z[p, i + 1], total[p, i]
                for j in range(Q):
                    second = np.int32(after[j] + before[j] - 2 * here[j])
                    out[j] += min(max(second, np.int32(-second)), top)


@compiled
def spread(total: Array, out: Array) -> None:
    """Weighted sums 1 2 1 along the middle axis, ends repeated: `smoothing.roughness`."""
    P, n, Q = total.shape
    for p in range(P):
        if Q == 1:  # the last axis
            row, found = total[p, :, 0], out[p, :, 0]
            for i in range(1, n - 1):
                found[i] = row[i - 1] + 2 * row[i] + row[i + 1]
            for i in (0, n - 1):
                found[i] = row[max(i - 1, 0)] + 2 * row[i] + row[min(i + 1, n - 1)]
        else:
            for i in range(n):
                before, here = total[p, max(i - 1, 0)], total[p, i]
                after, found = total[p, min(i + 1, n - 1)], out[p, i]
                for j in range(Q):
                    found[j] = before[j] + 2 * here[j] + after[j]


@compiled
def moves(
    z: Array,
    strides: Array,
    shape: Array,
    rough: Array,
    edges: Array,
    sizes: Array,
    offsets: Array,
    axes: Array,
    weights: Array,
    limits: Array,
    near: int,
    total: Array,
    level: Array,
) -> None:
    """How far neighbours move the samples of a channel, and their levels: `smoothing.moved`.

    Parameters
    ----------
    z : array of int32, flat
        Samples, surrounded by two more on every side.
    strides, shape : arrays of int64, shape (d,)
        Those of `z`, and the shape without what surrounds it.
    rough, sizes : arrays, shape (rows, n)
        Roughness and the sizes of boxes.
    edges : array of int32
        Roughness from which on levels begin.
    offsets, axes : arrays of int64, shape (neighbours,)
        Where neighbours are in `z`; along which axis, d for none.
    weights : array of int32, shape (neighbours, 2, levels * places)
    limits : array of int32, shape (2,)
    total, level : arrays of int32 and uint8, shape (rows, n)
        Are filled.
    """
    d, n = len(shape), shape[-1]
    beside, inside = np.int32(near), np.int32(2 * near)
    where = np.empty((d + 1, n), np.uint32)
    first, second = np.empty(n, np.int32), np.empty(n, np.int32)
    low, high = limits[0], limits[1]
    for r in range(len(rough)):
        values, found = rough[r], level[r]
        for j in range(n):
            found[j] = 0
        for edge in edges:
            for j in range(n):
                found[j] += values[j] >= edge
        left, start = r, 2
        for j in range(n):
            where[d, j] = found[j] * (inside + 1)
        for k in range(d - 1, -1, -1):
            here, step = np.int32(0), np.int32(1)
            if k < d - 1:
                here, step = np.int32(left % shape[k]), np.int32(0)
                left //= shape[k]
                start += (here + 2) * strides[k]
            of = where[k]
            for j in range(n):
                side = np.int32(sizes[r, j]) - np.int32(1)
                behind = np.int32(here + step * np.int32(j)) & side
                before = np.int32(side - behind)
                place = beside + before if before < behind else behind
                place = place if min(before, behind) < beside else inside
                of[j] = found[j] * (inside + 1) + place
        middle, sums = z[start : start + n], total[r]
        for j in range(n):
            sums[j] = 0
        for t in range(len(offsets)):
            other, of = z[start + offsets[t] : start + offsets[t] + n], where[axes[t]]
            one, two = weights[t, 0], weights[t, 1]
            for j in range(n):  # apart from what follows, which then is done for eight at a time
                at = of[j]
                first[j], second[j] = one[at], two[at]
            for j in range(n):
                off = np.int32(other[j] - middle[j])
                a = np.int32(first[j] * min(max(off, -low), low))
                b = np.int32(second[j] * min(max(off, -high), high))
                sums[j] = np.int32(sums[j] + a + b)


@compiled
def strong(y: Array, total: Array, level: Array, gains: Array, shift: int, out: Array) -> None:
    """Samples of a channel moved by as much as gains say: `smoothing._strong`."""
    for i in range(len(y)):
        out[i] = y[i] + ((gains[level[i]] * total[i] + (1 << shift >> 1)) >> shift)


@compiled
def sums(off: Array, total: Array, level: Array, power: Array, along: Array) -> None:
    """Sums of squares of moves, and of moves times errors, by level: `smoothing.chosen`."""
    for i in range(len(off)):
        move = np.float64(total[i])
        power[level[i]] += move * move
        along[level[i]] += move * off[i]
