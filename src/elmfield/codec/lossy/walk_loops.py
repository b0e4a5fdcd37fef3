"""The walk through all boxes as compiled loops: see `walking` for what goes in and comes out.

Everything is integer arithmetic but what an encoder prices, which is done in the order and the
precision of the NumPy way (`contexts`, `streams`), so that both write the same bytes.
"""

from typing import Any

import numpy as np

from elmfield._array.compiled import compiled
from elmfield.codec.lossy.layout import Array, Asked, Ground, Lanes, Learning, Made, Trained

PRICE, WRITE, READ = 0, 1, 2
"""What a walk does: it prices boxes, writes them, or reads them."""
DIRECT = 16
"""Magnitudes below this may be lowered by one."""
SEEN_MOST = 1 << 14
LOW = 1 << 16
AT_ODDS = 5
"""How many neighbours go on, where it is not known yet."""
EDGE = 4
SPREAD = 55
LIKE_EVEN = 48
"""So few boxes alive are one batch."""
PATIENCE = 1024
HALVES = 24
"""Positions of a phase."""


@compiled
def learn(tables: Learning, n: int) -> None:
    """Take note that n symbols were seen, and learn once there are enough: `Patient.update`."""
    so_far, counts, seen = tables.n, tables.counts, tables.seen
    so_far[1] += n
    if so_far[1] < PATIENCE + so_far[0] // 8:
        return
    so_far[0] += so_far[1]
    so_far[1] = 0
    K, A = counts.shape
    for k in range(K):
        total, added = 0, 0
        for a in range(A):
            added += seen[k, a] * tables.weight
            counts[k, a] += seen[k, a] * tables.weight
            seen[k, a] = 0
            total += counts[k, a]
        while total > tables.limit:
            total = 0
            for a in range(A):
                counts[k, a] = (counts[k, a] + 1) >> 1
                total += counts[k, a]
        tables.fresh[k] += added
        if tables.fresh[k] > 0 and tables.fresh[k] * 8 >= total:
            tables.fresh[k] = 0
            _renew(counts[k], total, tables.bits, tables.entries[k], tables.slots[k])


@compiled
def _renew(counts: Array, total: int, bits: int, entries: Array, slots: Array) -> None:
    """New frequencies of a class: `frequencies` and `Tables.of`."""
    n, most = 0, 0
    for a in range(len(counts)):
        n += counts[a] > 0
        if counts[a] > counts[most]:
            most = a
    rest: Any = 1 << bits
    for a in range(len(counts)):
        entries[a] = (counts[a] > 0) + counts[a] * ((1 << bits) - n) // max(total, 1)
        rest -= np.int64(entries[a])
    entries[most] += np.uint32(rest)
    start: Any = 0
    for a in range(len(counts)):
        f = np.int64(entries[a])
        slots[start : start + f] = a
        entries[a] = start << 16 | f
        start += f


@compiled
def _token(q: int, c: Any, trained: Trained) -> Any:
    """The token of a magnitude in a class: `tokens_of`."""
    h, escape = max(q >> trained.low_bits[c], 0), len(trained.tokens) - 1
    return np.int64(trained.tokens[escape if h >= trained.first_long[c] else min(h, escape)])


@compiled
def _near(
    ground: Ground, A: Array, near: Array, first: int, end: int, boxes: Array, n: int
) -> None:
    """Sums of magnitudes of neighbours in some rows: `Walk._near`."""
    for m in range(first, end):
        row, out = A[m], near[m]
        for j in range(n):
            out[boxes[j]] = 0
        for k in range(len(ground.axes)):
            one, other = ground.beside[k, 0], ground.beside[k, 1]
            for j in range(n):
                b = boxes[j]
                out[b] += row[one[b]] + row[other[b]]


@compiled
def _own(ground: Ground, A: Array, m: int, boxes: Array, n: int, own: Array) -> int:
    """Sums of the modes less one, of all boxes alive; 64 times their mean."""
    lower = ground.lower1[m]
    row = A[lower[0]]
    for j in range(n):
        own[j] = row[boxes[j]]
    for k in range(1, len(lower)):
        row = A[lower[k]]
        for j in range(n):
            own[j] += row[boxes[j]]
    total = 0
    for j in range(n):
        total += own[j]
    return min(total * 64 // n, 1 << 20)


@compiled
def _classes(
    ground: Ground,
    trained: Trained,
    A: Array,
    near: Array,
    m: int,
    phase: int,
    large: int,
    mean: int,
    own: Array,
    boxes: Array,
    S: Array,
    T: Array,
    out: Array,
) -> None:
    """Classes of a mode in some boxes: `Walk._diagonal` and `Walk._classes`."""
    w = trained.weights[ground.position[m]]
    n = len(boxes)
    first = mean * w[3] >> 6
    second = mean * (w[9] if phase else w[5]) >> 6
    for j in range(n):
        S[j] = first + own[j] * w[0]
        T[j] = second
    for lower, weight in ((ground.lower2[m], w[1]), (ground.lower11[m], w[2])):
        for k in range(len(lower)):
            row = A[lower[k]]
            for j in range(n):
                S[j] += row[boxes[j]] * weight
    weight = w[8] if phase else w[4]
    for k in range(ground.lower1.shape[1]):
        row = near[ground.lower1[m, k]]
        for j in range(n):
            T[j] += row[boxes[j]] * weight
    if phase:
        row = A[m]
        for k in range(len(ground.axes)):
            weight = w[6] if ground.high[ground.axes[k], m] else w[7]
            one, other = ground.beside[k, 0], ground.beside[k, 1]
            for j in range(n):
                b = boxes[j]
                T[j] += (row[one[b]] + row[other[b]]) * weight
    levels, top = trained.levels, len(trained.levels) - 1
    start = ((2 * large + phase) * HALVES + ground.position[m]) * (SPREAD * SPREAD)
    for j in range(n):
        s, t = min(max(S[j], 0), top), min(max(T[j], 0), top)
        out[j] = trained.classes[start + np.int64(levels[s]) * SPREAD + np.int64(levels[t])]


@compiled
def _lowered(x: float, c: Any, costs: Array, price: float) -> int:
    """The magnitude of a coefficient, one less where the bits saved are worth it: `_cheaper`."""
    q = int(x + np.float32(0.5))
    if 0 < q < DIRECT:
        saved = np.float32(price) * (costs[c, q] - costs[c, q - 1])
        if 2.0 * (np.float64(x) - q) + 1.0 < np.float64(saved):
            q -= 1
    return q


@compiled
def _price_row(
    asked: Asked,
    trained: Trained,
    price: float,
    m: int,
    classes: Array,
    boxes: Array,
    row: Array,
    bits: Array,
    error: Array,
) -> None:
    """Bits and errors of a mode, added to those of the batch: `Pricer.magnitudes`."""
    X = asked.x[m]
    for j in range(len(boxes)):
        b, c = boxes[j], np.int64(classes[j])
        x = X[b]
        q = _lowered(x, c, asked.costs, price)
        row[b] = min(q, SEEN_MOST)
        bits[j] += asked.costs[c, _token(q, c, trained)]
        off = np.float32(np.float64(x) - q)
        error[j] += off * off


@compiled
def _write_row(
    asked: Asked,
    trained: Trained,
    price: float,
    m: int,
    classes: Array,
    boxes: Array,
    row: Array,
    tables: Learning,
    made: Made,
) -> None:
    """Magnitudes of a mode are chosen and written: `Chooser.magnitudes`."""
    X, Q, N = asked.x[m], asked.q[m], asked.x.shape[1]
    at, wide = made.sizes[0], made.sizes[2]
    for j in range(len(boxes)):
        b, c = boxes[j], np.int64(classes[j])
        q = _lowered(X[b], c, asked.costs, price)
        t = _token(q, c, trained)
        Q[b] = q
        row[b] = trained.seen[c, t]
        made.entries[at] = tables.entries[c, t]
        at += 1
        tables.seen[c, t] += 1
        if trained.widths[c, t]:
            made.places[wide] = m * N + np.int64(b)
            made.values[wide] = q - trained.bases[c, t]
            made.widths[wide] = trained.widths[c, t]
            wide += 1
    made.sizes[0], made.sizes[2] = at, wide


@compiled
def _read_row(
    trained: Trained,
    m: int,
    classes: Array,
    boxes: Array,
    row: Array,
    tables: Learning,
    lanes: Lanes,
    lane: int,
    made: Made,
) -> int:
    """Magnitudes of a mode are read: `Follower.magnitudes`; the next lane, or -1 without words."""
    N, wide = len(row), made.sizes[2]
    for j in range(len(boxes)):
        b, c = boxes[j], np.int64(classes[j])
        t = read_symbol(c, tables, lanes, lane)
        if t < 0:
            return -1
        lane += 1
        if lane == len(lanes.states):
            lane = 0
        row[b] = trained.seen[c, t]
        tables.seen[c, t] += 1
        if trained.widths[c, t]:
            made.places[wide] = m * N + np.int64(b)
            made.values[wide] = trained.bases[c, t]
            made.widths[wide] = trained.widths[c, t]
            wide += 1
    made.sizes[2] = wide
    return lane


@compiled
def read_symbol(c: Any, tables: Learning, lanes: Lanes, lane: int) -> Any:
    """The next symbol of a lane: `Decoder.decode`; -1 where words are missing."""
    bits = tables.bits
    x = np.int64(lanes.states[lane])
    slot = x & ((1 << bits) - 1)
    t = np.int64(tables.slots[c, slot])
    entry = np.int64(tables.entries[c, t])
    x = (x >> bits) * (entry & 0xFFFF) + slot - (entry >> 16)
    if x < LOW:
        if lanes.place[0] >= lanes.place[1]:
            return -1
        x = x << 16 | np.int64(lanes.words[lanes.place[0]])
        lanes.place[0] += 1
    lanes.states[lane] = np.uint32(x)
    return t


@compiled
def _level(total: int, steps: Array) -> int:
    """How many steps a sum has reached: `_coarse`."""
    n = 0
    while n < len(steps) and total >= steps[n]:
        n += 1
    return n


@compiled
def _flag_sums(ground: Ground, A: Array, s: int, boxes: Array, n: int, out: Array) -> None:
    """Twice the sum of the diagonal before s and once that of the one before it."""
    for j in range(n):
        out[j] = 0
    for down in (1, 2):
        if s >= down:
            for m in range(ground.starts[s - down], ground.starts[s - down + 1]):
                row = A[m]
                for j in range(n):
                    out[j] += row[boxes[j]] * (3 - down)


@compiled
def _flags(
    role: int,
    ground: Ground,
    trained: Trained,
    A: Array,
    near: Array,
    s: int,
    large: int,
    boxes: Array,
    n_even: int,
    asked: Asked,
    tables: Learning,
    made: Made,
    lanes: Lanes,
) -> tuple[int, int]:
    """Which boxes go on: `Walk._flags`. Those are moved to the front; how many, and even ones.

    The first is -1 where words are missing.
    """
    n, d, number = len(boxes), ground.lower1.shape[1], ground.checkpoints[s]
    own, other, on = np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n, np.bool_)
    _flag_sums(ground, A, s, boxes, n, own)
    _flag_sums(ground, near, s, boxes, n, other)
    going = np.zeros(A.shape[1], np.bool_)
    table = trained.flags[number, large]
    for phase in range(2):
        first, end = (n_even, n) if phase else (0, n_even)
        lane = 0
        for j in range(first, end):
            b, around = boxes[j], AT_ODDS
            if phase:
                sides = 0
                for k in range(len(ground.axes)):
                    sides += going[ground.beside[k, 0, b]] + np.int64(going[ground.beside[k, 1, b]])
                around = (sides * EDGE + d) // (2 * d)
            z, z_near = _level(own[j], trained.coarse), _level(other[j] // (2 * d), trained.coarse)
            c = np.int64(table[z, z_near, around])
            if role == READ:
                t = read_symbol(c, tables, lanes, lane)
                if t < 0:
                    return -1, 0
                lane = lane + 1 if lane + 1 < len(lanes.states) else 0
                on[j] = t > 0
            else:
                on[j] = asked.last[b] >= s
            t = np.int64(on[j])
            if role == PRICE:
                asked.bits[b] += asked.flag_costs[c, t]
                if not on[j]:
                    asked.error[b] += asked.left[number, b]
            else:
                tables.seen[c, t] += 1
            if role == WRITE:
                made.entries[made.sizes[0]] = tables.entries[c, t]
                made.sizes[0] += 1
        if not phase:
            for j in range(n_even):
                going[boxes[j]] = on[j]
        if first < end and role != PRICE:
            if role == WRITE:
                made.ends[made.sizes[1]] = made.sizes[0]
                made.sizes[1] += 1
            learn(tables, end - first)
    left, even = 0, 0
    for j in range(n):
        if on[j]:
            boxes[left] = boxes[j]
            left += 1
            even += j < n_even
    if left < n and left < LIKE_EVEN:
        even = left
    return left, even


@compiled
def walk(
    role: int,
    ground: Ground,
    trained: Trained,
    large: int,
    A: Array,
    alive: Array,
    n_even: int,
    price: float,
    asked: Asked,
    tokens: Learning,
    flags: Learning,
    made: Made,
    lanes: Lanes,
) -> bool:
    """All batches: `Walk.run`. False where a stream that is read ends too early.

    `A` has one more row, of zeros; `alive` are the boxes to code, even ones first, and is changed.
    """
    n, starts = len(alive), ground.starts
    near = np.zeros_like(A)
    _near(ground, A, near, 0, 1, alive, n)
    widest = 1
    for s in range(1, len(starts) - 1):
        widest = max(widest, starts[s + 1] - starts[s])
    own, means = np.empty((widest, n), np.int32), np.empty(widest, np.int64)
    S, T, classes = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
    bits, error = np.empty(n, np.float32), np.empty(n, np.float32)
    for s in range(1, len(starts) - 1):
        if ground.checkpoints[s] >= 0:
            now = alive[:n]
            n, n_even = _flags(
                role, ground, trained, A, near, s, large, now, n_even, asked, flags, made, lanes
            )
            if n < 0:
                return False
        if n == 0:
            return True
        rows = starts[s + 1] - starts[s]
        for i in range(rows):
            means[i] = _own(ground, A, starts[s] + i, alive, n, own[i])
        for phase in range(2):
            first, end = (n_even, n) if phase else (0, n_even)
            if first == end:
                continue
            boxes, lane = alive[first:end], 0
            bits[: len(boxes)] = 0
            error[: len(boxes)] = 0
            for i in range(rows):
                m = starts[s] + i
                _classes(
                    ground, trained, A, near, m, phase, large, means[i], own[i, first:end], boxes,
                    S, T, classes,
                )  # fmt: skip
                if role == PRICE:
                    _price_row(asked, trained, price, m, classes, boxes, A[m], bits, error)
                elif role == WRITE:
                    _write_row(asked, trained, price, m, classes, boxes, A[m], tokens, made)
                else:
                    lane = _read_row(trained, m, classes, boxes, A[m], tokens, lanes, lane, made)
                    if lane < 0:
                        return False
            if role == PRICE:
                for j in range(len(boxes)):
                    asked.bits[boxes[j]] += bits[j]
                    asked.error[boxes[j]] += error[j]
            else:
                if role == WRITE:
                    made.ends[made.sizes[1]] = made.sizes[0]
                    made.sizes[1] += 1
                learn(tokens, rows * len(boxes))
        _near(ground, A, near, starts[s], starts[s + 1], alive, n)
    return True
