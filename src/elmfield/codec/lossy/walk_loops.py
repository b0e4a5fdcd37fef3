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
HALF = np.float32(0.49)
"""Less than this is rounded to 0."""
LOW = 1 << 16
NOT_KNOWN = 5
"""How many neighbours go on, where it is not known yet."""
EDGE = 4
SPREAD = 55
LIKE_EVEN = 48
"""So few boxes alive are one batch."""
PATIENCE = 1024
HALVES = 24
"""Positions of a phase."""


@compiled
def _learn(tables: Learning, made: Made, n: int) -> None:
    """A batch of n symbols is complete; learn once enough were seen: `Patient.update`."""
    if len(made.ends):
        made.ends[made.sizes[1]] = made.sizes[0]
        made.sizes[1] += 1
    so_far, size = tables.n, 1 << tables.bits
    so_far[1] += n
    if so_far[1] < PATIENCE + so_far[0] // 8:
        return
    so_far[0] += so_far[1]
    so_far[1] = 0
    for k in range(len(tables.counts)):
        counts, seen, entries, slots = (
            tables.counts[k],
            tables.seen[k],
            tables.entries[k],
            tables.slots[k],
        )
        total: Any = np.int64(0)
        for a in range(len(counts)):
            added = seen[a] * tables.weight
            tables.fresh[k] += added
            counts[a] += added
            total += counts[a]
            seen[a] = 0
        while total > tables.limit:
            total = np.int64(0)
            for a in range(len(counts)):
                counts[a] = (counts[a] + 1) >> 1
                total += counts[a]
        if tables.fresh[k] == 0 or tables.fresh[k] * 8 < total:
            continue
        tables.fresh[k] = 0
        some, most = 0, 0  # `frequencies`
        for a in range(len(counts)):
            some += counts[a] > 0
            if counts[a] > counts[most]:
                most = a
        rest: Any = np.int64(size)
        for a in range(len(counts)):
            entries[a] = (counts[a] > 0) + counts[a] * (size - some) // max(total, 1)
            rest -= np.int64(entries[a])
        entries[most] += np.uint32(rest)
        start: Any = np.int64(0)  # `Tables.of`
        for a in range(len(counts)):
            freq = np.int64(entries[a])
            for i in range(start, start + freq):
                slots[i] = a
            entries[a] = start << 16 | freq
            start += freq


@compiled
def _token(q: int, c: Any, trained: Trained) -> Any:
    """The token of a magnitude in a class: `tokens_of`."""
    h, escape = max(q >> trained.low_bits[c], 0), len(trained.tokens) - 1
    return np.int64(trained.tokens[escape if h >= trained.first_long[c] else min(h, escape)])


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
def _symbol(c: Any, tables: Learning, lanes: Lanes, lane: Any) -> Any:
    """The next symbol of a lane: `Decoder.decode`; -1 where words are missing."""
    x = np.int64(lanes.states[lane])
    slot = x & ((1 << tables.bits) - 1)
    t = np.int64(tables.slots[c, slot])
    entry = np.int64(tables.entries[c, t])
    x = (x >> tables.bits) * (entry & 0xFFFF) + slot - (entry >> 16)
    if x < LOW:
        if lanes.place[0] >= lanes.place[1]:
            return np.int64(-1)
        x = x << 16 | np.int64(lanes.words[lanes.place[0]])
        lanes.place[0] += 1
    lanes.states[lane] = np.uint32(x)
    return t


@compiled
def _near(beside: Array, row: Array, boxes: Array, out: Array) -> None:
    """Sums of magnitudes of the neighbours of some boxes: `Walk._near`."""
    for j in range(len(boxes)):
        out[j] = 0
    for k in range(len(beside)):
        one, other = beside[k, 0], beside[k, 1]
        for j in range(len(boxes)):
            b = boxes[j]
            out[j] += row[one[b]] + row[other[b]]


@compiled
def _sums(
    lower: Array, start: int, rows: Array, first: Any, end: Any, weight: Any, out: Array
) -> None:
    """Weighted sums of modes of a lower diagonal, which starts at row `start`, are added.

    Modes that are not there have numbers beyond its rows.
    """
    for k in range(len(lower)):
        if lower[k] - start < len(rows):
            row = rows[lower[k] - start, first:end]
            for j in range(end - first):
                out[j] += row[j] * weight


@compiled
def _sides(row: Array, beside: Array, high: Array, w: Array, boxes: Array, out: Array) -> None:
    """Weighted magnitudes of neighbours are added, by axis: `Walk._sides`."""
    for k in range(len(beside)):
        one, other, weight = beside[k, 0], beside[k, 1], w[6] if high[k] else w[7]
        for j in range(len(boxes)):
            b = boxes[j]
            out[j] += (row[one[b]] + row[other[b]]) * weight


@compiled
def _classes(S: Array, T: Array, levels: Array, table: Array, n: int, out: Array) -> None:
    """Classes by the two sums: `Walk._classes`."""
    top = len(levels) - 1
    for j in range(n):
        s, t = min(max(S[j], 0), top), min(max(T[j], 0), top)
        out[j] = table[np.int64(levels[s]) * SPREAD + np.int64(levels[t])]


@compiled
def _flag_levels(last: Array, before: Array, n: int, part: Any, steps: Array, out: Array) -> None:
    """Levels of twice the sum of the last diagonal and once that of the one before it."""
    total = np.zeros(n, np.int32)
    for i in range(len(last)):
        for j in range(n):
            total[j] += 2 * last[i, j]
    for i in range(len(before)):
        for j in range(n):
            total[j] += before[i, j]
    for j in range(n):
        out[j] = 0
        while out[j] < len(steps) and total[j] // part >= steps[out[j]]:
            out[j] += 1


@compiled
def _kept(rows: Array, on: Array, n: int) -> None:
    """Columns that go on are moved to the front."""
    for i in range(len(rows)):
        left = 0
        for j in range(n):
            if on[j]:
                rows[i, left] = rows[i, j]
                left += 1


@compiled
def _flags(
    role: int,
    s: int,
    phase: int,
    table: Array,
    own: Array,
    other: Array,
    beside: Array,
    d: int,
    boxes: Array,
    asked: Asked,
    number: int,
    tables: Learning,
    made: Made,
    lanes: Lanes,
    going: Array,
    on: Array,
) -> bool:
    """Which boxes of a phase go on: `Walk._flags`; False where words are missing."""
    lane, at = np.int64(0), made.sizes[0]
    for j in range(len(boxes)):
        b, around, sides = boxes[j], np.int64(NOT_KNOWN), np.int64(0)
        if phase:
            for k in range(len(beside)):
                sides += going[beside[k, 0, b]] + going[beside[k, 1, b]]
            around = (sides * EDGE + d) // (2 * d)
        c = np.int64(table[own[j], other[j], around])
        if role == READ:
            t = _symbol(c, tables, lanes, lane)
            if t < 0:
                return False
            lane = lane + 1 if lane + 1 < len(lanes.states) else np.int64(0)
        else:
            t = np.int64(asked.last[b] >= s)
        on[j] = t > 0
        if role == PRICE:
            asked.bits[b] += asked.flag_costs[c, t]
            if t == 0:
                asked.error[b] += asked.left[number, b]
        else:
            tables.seen[c, t] += 1
            if role == WRITE:
                made.entries[at + j] = tables.entries[c, t]
    if role == WRITE:
        made.sizes[0] = at + len(boxes)
    for j in range(0 if phase else len(boxes)):
        going[boxes[j]] = on[j]
    return True


@compiled
def _price_row(
    x: Array,
    costs: Array,
    price: float,
    trained: Trained,
    classes: Array,
    boxes: Array,
    row: Array,
    bits: Array,
    error: Array,
) -> None:
    """Bits and errors of a mode, added to those of the batch: `Pricer.magnitudes`."""
    for j in range(len(boxes)):
        b, c = boxes[j], np.int64(classes[j])
        off = x[b]
        if off < HALF:
            row[b] = 0
            bits[j] += costs[c, 0]
        else:
            q = _lowered(off, c, costs, price)
            row[b] = min(q, SEEN_MOST)
            bits[j] += costs[c, _token(q, c, trained)]
            off = np.float32(np.float64(off) - q)
        error[j] += off * off


@compiled
def _write_row(
    x: Array,
    costs: Array,
    price: float,
    trained: Trained,
    classes: Array,
    boxes: Array,
    row: Array,
    q: Array,
    tables: Learning,
    made: Made,
) -> None:
    """Magnitudes of a mode are chosen and written: `Chooser.magnitudes`."""
    at, wide = made.sizes[0], made.sizes[2]
    for j in range(len(boxes)):
        b, c = boxes[j], np.int64(classes[j])
        a, t = 0, np.int64(0)
        if x[b] >= HALF:
            a = _lowered(x[b], c, costs, price)
            t = _token(a, c, trained)
        q[b] = a
        row[b] = trained.seen[c, t]
        made.entries[at + j] = tables.entries[c, t]
        tables.seen[c, t] += 1
        if trained.widths[c, t]:
            made.values[wide] = a - trained.bases[c, t]
            made.widths[wide] = trained.widths[c, t]
            wide += 1
    made.sizes[0], made.sizes[2] = at + len(boxes), wide


@compiled
def _read_row(
    m: int,
    trained: Trained,
    classes: Array,
    boxes: Array,
    row: Array,
    tables: Learning,
    lanes: Lanes,
    lane: Any,
    made: Made,
) -> Any:
    """Magnitudes of a mode are read: `Follower.magnitudes`; the next lane, or -1 without words."""
    wide, L = made.sizes[2], len(lanes.states)
    for j in range(len(boxes)):
        b, c = boxes[j], np.int64(classes[j])
        t = _symbol(c, tables, lanes, lane)
        if t < 0:
            return np.int64(-1)
        lane = lane + 1 if lane + 1 < L else 0
        row[b] = trained.seen[c, t]
        tables.seen[c, t] += 1
        if trained.widths[c, t]:
            made.places[wide] = m * len(row) + np.int64(b)
            made.values[wide] = trained.bases[c, t]
            made.widths[wide] = trained.widths[c, t]
            wide += 1
    made.sizes[2] = wide
    return lane


@compiled
def walk(
    role: int,
    ground: Ground,
    trained: Trained,
    large: int,
    A: Array,
    alive: Array,
    n_even: Any,
    price: float,
    asked: Asked,
    tokens: Learning,
    flags: Learning,
    made: Made,
    lanes: Lanes,
) -> bool:
    """All batches: `Walk.run`. False where a stream that is read ends too early.

    `alive` are the boxes to code, even ones first, and is changed. What is known of them from the
    last two diagonals stands in arrays with a column for each, which are read in order.
    """
    n: Any = len(alive)
    N, d, starts = A.shape[1], ground.lower1.shape[1], ground.starts
    widest = 1
    for s in range(1, len(starts) - 1):
        widest = max(widest, starts[s + 1] - starts[s])
    below, near = np.empty((3, widest, n), np.int32), np.empty((3, widest, n), np.int32)
    own = np.empty((widest, n), np.int32)
    means: Array = np.empty(widest, np.int64)
    S, T, classes = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.uint8)
    bits, error = np.empty(n, np.float32), np.empty(n, np.float32)
    z, z_near = np.empty(n, np.int64), np.empty(n, np.int64)
    on, going = np.empty(n, np.bool_), np.empty(N, np.int64)
    for j in range(n):
        below[0, 0, j] = A[0, alive[j]]
    _near(ground.beside, A[0], alive, near[0, 0])
    for s in range(1, len(starts) - 1):
        number, one, two = ground.checkpoints[s], starts[s - 1], starts[max(s - 2, 0)]
        below1, near1 = below[(s - 1) % 3, : starts[s] - one], near[(s - 1) % 3, : starts[s] - one]
        below2, near2 = below[(s + 1) % 3, : one - two], near[(s + 1) % 3, : one - two]
        if number >= 0:
            table = trained.flags[number, large]
            _flag_levels(below1, below2, n, np.int64(1), trained.coarse, z)
            _flag_levels(near1, near2, n, np.int64(2 * d), trained.coarse, z_near)
            for j in range(N):
                going[j] = 0
            for phase in range(2):
                a, b = (n_even, n) if phase else (np.int64(0), n_even)
                if a < b and not _flags(
                    role, s, phase, table, z[a:b], z_near[a:b], ground.beside, d, alive[a:b],
                    asked, number, flags, made, lanes, going, on[a:b],
                ):  # fmt: skip
                    return False
                if a < b and role != PRICE:
                    _learn(flags, made, b - a)
            left, even = 0, 0
            for j in range(n):
                if on[j]:
                    alive[left] = alive[j]
                    left += 1
                    even += j < n_even
            if left < n:
                for known in (below1, below2, near1):
                    _kept(known, on, n)
            n, n_even = left, left if left < min(n, LIKE_EVEN) else even
        if n == 0:
            return True
        now, rows = alive[:n], starts[s + 1] - starts[s]
        for i in range(rows):
            mine, total = own[i], np.int64(0)
            for j in range(n):
                mine[j] = 0
            _sums(ground.lower1[starts[s] + i], one, below1, np.int64(0), n, np.int32(1), mine)
            for j in range(n):
                total += mine[j]
            means[i] = min(total * 64 // n, 1 << 20)
        for phase in range(2):
            first, end = (n_even, n) if phase else (np.int64(0), n_even)
            if first == end:
                continue
            boxes, lane = alive[first:end], np.int64(0)
            for j in range(end - first):
                bits[j], error[j] = 0, 0
            for i in range(rows):
                m = starts[s] + i
                w, mine = trained.weights[ground.position[m]], own[i, first:end]
                for j in range(end - first):
                    S[j] = mine[j] * w[0] + (means[i] * w[3] >> 6)
                    T[j] = means[i] * w[9 if phase else 5] >> 6
                _sums(ground.lower2[m], two, below2, first, end, w[1], S)
                _sums(ground.lower11[m], two, below2, first, end, w[2], S)
                _sums(ground.lower1[m], one, near1, first, end, w[8 if phase else 4], T)
                if phase:
                    _sides(A[m], ground.beside, ground.high[:, m], w, boxes, T)
                place = (2 * large + phase) * HALVES + ground.position[m]
                _classes(S, T, trained.levels, trained.classes[place], end - first, classes)
                if role == PRICE:
                    _price_row(
                        asked.x[m], asked.costs, price, trained, classes, boxes, A[m], bits, error
                    )
                elif role == WRITE:
                    _write_row(
                        asked.x[m], asked.costs, price, trained, classes, boxes, A[m], asked.q[m],
                        tokens, made,
                    )  # fmt: skip
                else:
                    lane = _read_row(m, trained, classes, boxes, A[m], tokens, lanes, lane, made)
                    if lane < 0:
                        return False
            if role == PRICE:
                for j in range(end - first):
                    asked.bits[boxes[j]] += bits[j]
                    asked.error[boxes[j]] += error[j]
            else:
                _learn(tokens, made, rows * (end - first))
        for i in range(rows):
            row, known = A[starts[s] + i], below[s % 3, i]
            for j in range(n):
                known[j] = row[now[j]]
            _near(ground.beside, row, now, near[s % 3, i])
    return True
