"""Compiled loops of the entropy coder and of interpolation: what NumPy does, a sample at a time.

Arithmetic is that of the NumPy functions they stand for, in the same order, so bytes and samples
are the same both ways. Indices are not checked here: callers do. Imported only once compiled loops
pay, because it imports the compiler.
"""

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Floats, Integers
from elmfield.codec import ans
from elmfield.codec.ans import Entries, Symbols
from elmfield.codec.lossy.interpolated import (
    ACTIVITY_LEVELS,
    DIRECT,
    LARGEST_SIZE,
    LEAST_ACTIVITY,
)

read, write = compiled(ans.read_symbols), compiled(ans.write_symbols)


@compiled
def count(classes: Symbols, symbols: Symbols, seen: Integers) -> None:
    """Count symbols by class."""
    for i in range(len(symbols)):
        seen[classes[i], symbols[i]] += 1


@compiled
def learn(
    counts: Integers,
    seen: Integers,
    fresh: Integers,
    entries: Entries,
    slots: Symbols,
    weight: int,
    limit: int,
    bits: int,
) -> None:
    """Run `ans.AdaptiveTables._learn`."""
    K, A = counts.shape
    for k in range(K):
        total, n, largest = 0, 0, 0
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
            n += counts[k, a] > 0
            largest = a if counts[k, a] > counts[k, largest] else largest
        room, start = (1 << bits) - n, 0
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


@compiled
def _beside(i: int, by: int, n: int) -> int:
    """Return how far off the sample is that stands so many places on, or the last one there is."""
    return min(max(i + by, 0), n - 1) - i


@compiled
def _look(
    known: Floats,
    sizes: Floats,
    extent: Integers,
    axis: int,
    across: Integers,
    n: int,
    row: int,
    terms: Floats,
) -> None:
    """Fill in terms of a row of new samples: pair, activity, far and turn.

    Samples have four axes, those missing of length 1; `extent` is that of the known ones, `across`
    has 1 for axes across. The first and the last two of a row have neighbours of their own.
    """
    place, stride, start, rest = [0, 0, 0, 0], [1, 1, 1, 1], 0, row
    for k in range(2, -1, -1):
        stride[k] = stride[k + 1] * extent[k + 1]
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
        here = start + low
        i, s, end = place[axis], stride[axis], extent[axis]
        there = here + s * _beside(i, 1, end)
        a, b = known[here:][:m], known[there:][:m]
        c = known[here + s * _beside(i, -1, end) :][:m]
        d = known[here + s * _beside(i, 2, end) :][:m]
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
                for j in range(m):
                    turn[j] += (a[j] + b[j]) + (c[j] + d[j])
        if across.any():
            for j in range(m):
                turn[j] = turn[j] * sides - pair[j]
                active[j] += abs(turn[j]) * 2.0
        for j in range(m):
            active[j] = active[j] * 0.25 + LEAST_ACTIVITY
        low = high


@compiled
def look(
    known: Floats,
    sizes: Floats,
    extent: Integers,
    axis: int,
    across: Integers,
    n: int,
    terms: NDArray[np.float64],
    every: int,
) -> None:
    """Fill in terms of every so many rows, (rows, 4, width)."""
    for r in range(len(terms)):
        _look(known, sizes, extent, axis, across, n, r * every, terms[r])


@compiled
def predict(
    known: Floats,
    sizes: Floats,
    extent: Integers,
    axis: int,
    across: Integers,
    n: int,
    far_weight: float,
    turn_weight: float,
    least: int,
    lowest: int,
    guess: Floats,
    classes: Symbols,
) -> None:
    """Find guesses of all new samples and their classes, (rows, width).

    A class is the first of its kind, `least`, and a level less `lowest`.
    """
    rows, width = guess.shape
    terms = np.empty((4, width))
    pair, far, turn, bins = terms[0], terms[2], terms[3], terms[1].view(np.int64)
    for r in range(rows):
        _look(known, sizes, extent, axis, across, n, r, terms)
        found, level = guess[r], classes[r]
        for j in range(width):
            found[j] = np.floor(pair[j] * 0.5 + far[j] * far_weight + turn[j] * turn_weight + 0.5)
        for j in range(width):
            level[j] = least + min(max((bins[j] >> 51) - lowest, 0), ACTIVITY_LEVELS - 1)


@compiled
def subtract(
    own: Floats,
    guess: Floats,
    unit: float,
    is_last: bool,
    numbers: NDArray[np.int32],
    tokens: Symbols,
    signs: Symbols,
    sizes: Floats,
) -> tuple[int, float]:
    """Run `interpolated.subtract`; returns how many signs there are, and the largest number."""
    n, largest = 0, 0.0
    for i in range(len(own)):
        left = np.rint((own[i] - guess[i]) * (1.0 / unit))
        largest = max(largest, abs(left))
        q = int(left)
        if is_last:
            number = abs(q)
            signs[n] = q < 0
            n += q != 0
        else:
            number = 2 * abs(q) - (q > 0)
        numbers[i] = number
        tokens[i] = min(number, DIRECT - 1)
        guess[i] += left * unit
        sizes[i] = min(abs(left * unit), LARGEST_SIZE)
    return n, largest


@compiled
def add(
    numbers: NDArray[np.int32],
    signs: Symbols,
    unit: float,
    is_last: bool,
    guess: Floats,
    sizes: Floats,
) -> None:
    """Run `interpolated.add`; one more sign stands behind the last."""
    n = 0
    for i in range(len(numbers)):
        number = np.int64(numbers[i])
        if is_last:
            q = number * (1 - 2 * signs[n])
            n += number != 0
        else:
            q = (number + 1) >> 1 if number & 1 else -(number >> 1)
        guess[i] += q * unit
        sizes[i] = min(abs(q * unit), LARGEST_SIZE)
