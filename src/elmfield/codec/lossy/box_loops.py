"""Compiled loops of the walk through boxes: what `BoxWalk` and its coders do by NumPy.

The arithmetic is the same, so bytes and samples are too: sums of whole numbers, and prices that are
added in the same order. Symbols are decoded where their classes are found. Imported only once
compiled loops pay, because it imports the compiler.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Integers
from elmfield.codec.ans import AdaptiveTables, Entries, Words, too_short
from elmfield.codec.lossy import contexts
from elmfield.codec.lossy.coder import BIT_PRICE, Coder, section_tables
from elmfield.codec.lossy.contexts import BoxWalk, Counts, Prior, Small
from elmfield.codec.lossy.transform import modes

Singles = NDArray[np.float32]

PRICE, WRITE, READ = 0, 1, 2
"""What a walk is for."""
BITS = 12
LOW = np.uint32(1 << 16)
N_POSITIONS, N_LEVELS, EDGES = contexts.POSITIONS, contexts.LEVELS, contexts.EDGES
FEW_BOXES, N_COARSE = contexts.ONE_BATCH_BOXES, contexts.COARSE
DIRECT, ESCAPE = contexts.DIRECT, contexts.ESCAPE
CHECKPOINTS = np.array(contexts.CHECKPOINTS)
COARSE_STEPS = contexts.COARSE_STEPS
LOW_BITS, FIRST_LONG, TOKENS = contexts.LOW_BITS, contexts.FIRST_LONG, contexts.TOKENS
WIDTHS, BASES, SEEN = contexts.WIDTHS, contexts.BASES, contexts.SEEN
TOP_SUM = (1 << contexts.SUM_BITS) - 1


class Boxes(NamedTuple):
    """Boxes and their modes; a mode or a neighbour that is not there is `M`, a row of zeros."""

    starts: Integers  # of diagonals
    lower: Integers  # (M, ...): the mode less one along each axis, less two, less one along pairs
    d: int
    position: Integers  # (M,)
    high: NDArray[np.bool_]  # (M, K), K the axes with several boxes
    next: Integers  # (K, 2, boxes)
    large: int


class Rules(NamedTuple):
    """Trained tables."""

    weights: Counts
    classes: Small
    flags: Small
    levels: Small
    costs: Singles
    flag_costs: Singles
    price: np.float32  # of a bit


class Learning(NamedTuple):
    """Tables that learn, as :class:`AdaptiveTables`."""

    counts: Integers
    seen: Integers
    fresh: Integers
    n: Integers
    entries: Entries
    slots: Small
    weight: int
    limit: int
    patience: int


class Coding(NamedTuple):
    """What a walk codes: magnitudes (M, boxes) in steps, the last diagonals, or a stream."""

    mode: int
    x: Singles
    last: Integers
    left: Singles  # (checkpoints, boxes): squares from there on
    bits: Singles  # (boxes,)
    error: Singles
    q: Counts
    states: Entries  # (lanes,)
    words: Entries
    end: Integers  # the next word, and the end of words


class Found(NamedTuple):
    """What a walk leaves: entries of symbols, ends of their batches, and what goes raw."""

    entries: Entries
    ends: Integers
    place: Integers
    value: Counts
    width: Small
    n: Integers  # symbols, batches, raw numbers


@compiled
def _learn(tables: Learning, n_new: int) -> None:
    """Run `AdaptiveTables.update` once the symbols of a batch are counted."""
    counts, seen, n = tables.counts, tables.seen, tables.n
    n[1] += n_new
    if n[1] < tables.patience + n[0] // 8:
        return
    n[0] += n[1]
    n[1] = 0
    K, A = counts.shape
    for k in range(K):
        new, total, used = 0, 0, 0
        for a in range(A):
            counts[k, a] += seen[k, a] * tables.weight
            new += seen[k, a] * tables.weight
            seen[k, a] = 0
            total += counts[k, a]
        tables.fresh[k] += new
        while total > tables.limit:
            total = 0
            for a in range(A):
                counts[k, a] = (counts[k, a] + 1) >> 1
                total += counts[k, a]
        if tables.fresh[k] == 0 or tables.fresh[k] * 8 < total:
            continue
        tables.fresh[k] = 0
        best = 0
        for a in range(A):
            used += counts[k, a] > 0
            best = a if counts[k, a] > counts[k, best] else best
        rest = 1 << BITS
        for a in range(A):
            c = counts[k, a]
            f = (c > 0) + c * ((1 << BITS) - used) // max(total, 1)
            tables.entries[k, a] = f
            rest -= f
        tables.entries[k, best] += np.uint32(rest)
        start = 0
        for a in range(A):
            f = np.int64(tables.entries[k, a])
            tables.slots[k, start : start + f] = a
            tables.entries[k, a] = (start << 16) | f
            start += f


@compiled
def _level(total: int) -> int:
    j = 0
    while j < COARSE_STEPS.size and COARSE_STEPS[j] <= total:
        j += 1
    return j


@compiled
def _classify(
    A: Counts, near: Counts, rows: Integers, d: int, alive: Integers, W: Counts, added: Integers,
    levels: Small, classes: Small, first: int, out: Small,
) -> None:
    """Find the classes of a mode of even boxes: `rows` are its lower modes."""
    n_pairs = rows.size - 2 * d
    for j in range(alive.size):
        b, own, two, pairs, low = alive[j], 0, 0, 0, 0
        for k in range(d):
            own += A[rows[k], b]
            low += near[rows[k], b]
            two += A[rows[d + k], b]
        for k in range(n_pairs):
            pairs += A[rows[2 * d + k], b]
        u = np.int32(own * W[0] + two * W[1] + pairs * W[2] + added[0])
        v = np.int32(low * W[4] + added[1])
        u, v = min(max(u, 0), TOP_SUM), min(max(v, 0), TOP_SUM)
        out[j] = classes[first + levels[u] * N_LEVELS + levels[v]]


@compiled
def _classify_odd(
    A: Counts, near: Counts, rows: Integers, d: int, alive: Integers, W: Counts, added: Integers,
    levels: Small, classes: Small, first: int, out: Small, own_row: Counts, near_row: Counts,
    around: Integers, is_high: NDArray[np.bool_],
) -> None:
    """Do the same for odd boxes, whose neighbours are known."""
    n_pairs = rows.size - 2 * d
    for j in range(alive.size):
        b, own, two, pairs, low = alive[j], 0, 0, 0, 0
        for k in range(d):
            own += A[rows[k], b]
            low += near[rows[k], b]
            two += A[rows[d + k], b]
        for k in range(n_pairs):
            pairs += A[rows[2 * d + k], b]
        high = rest = 0
        for k in range(around.shape[0]):
            both = own_row[around[k, 0, b]] + own_row[around[k, 1, b]]
            if is_high[k]:
                high += both
            else:
                rest += both
        near_row[b] = high + rest
        u = np.int32(own * W[0] + two * W[1] + pairs * W[2] + added[0])
        v = np.int32(high * W[6] + rest * W[7] + low * W[8] + added[2])
        u, v = min(max(u, 0), TOP_SUM), min(max(v, 0), TOP_SUM)
        out[j] = classes[first + levels[u] * N_LEVELS + levels[v]]


@compiled
def _price(
    x: Singles, alive: Integers, c: Small, costs: Singles, unit: np.float32, row: Counts,
    bits: Singles, error: Singles,
) -> None:
    """Add the price of a mode of boxes of classes c."""
    for j in range(alive.size):
        b, k = alive[j], c[j]
        value = x[b]
        q = np.int64(value + np.float32(0.5))
        if 0 < q < DIRECT:
            saved = costs[k, q] - costs[k, q - 1]
            q -= 2.0 * (np.float64(value) - q) + 1.0 < np.float64(unit * saved)
        h = q >> LOW_BITS[k]
        bits[j] += costs[k, ESCAPE if h >= FIRST_LONG[k] else TOKENS[min(h, 1024)]]
        off = np.float32(np.float64(value) - q)
        error[j] += off * off
        row[b] = min(q, 1 << 14)


@compiled
def _write(
    x: Singles, alive: Integers, c: Small, costs: Singles, unit: np.float32, row: Counts, q_row: Counts,
    seen: Integers, table: Entries, entries: Entries, n: Integers, place: int,
    places: Integers, values: Counts, widths: Small,
) -> None:
    """Write a mode of boxes of classes c."""
    at, wide = n[0], n[2]
    for j in range(alive.size):
        b, k = alive[j], c[j]
        value = x[b]
        q = np.int64(value + np.float32(0.5))
        if 0 < q < DIRECT:
            saved = costs[k, q] - costs[k, q - 1]
            q -= 2.0 * (np.float64(value) - q) + 1.0 < np.float64(unit * saved)
        h = q >> LOW_BITS[k]
        t = np.int64(ESCAPE if h >= FIRST_LONG[k] else TOKENS[min(h, 1024)])
        q_row[b], row[b] = q, SEEN[k, t]
        entries[at] = table[k, t]
        at += 1
        seen[k, t] += 1
        if WIDTHS[k, t]:
            places[wide], values[wide], widths[wide] = place + b, q - BASES[k, t], WIDTHS[k, t]
            wide += 1
    n[0], n[2] = at, wide


@compiled
def _decode(
    c: Small, first: int, states: Entries, words: Entries, end: Integers, entries: Entries,
    slots: Small, seen: Integers, out: Small,
) -> bool:
    """Decode symbols of classes c, from number `first` of a batch on; False where words miss."""
    lane, at = first % states.size, end[0]
    for j in range(c.size):
        k, x = c[j], states[lane]
        slot = x & np.uint32((1 << BITS) - 1)
        symbol = slots[k, slot]
        entry = entries[k, symbol]
        x = (x >> np.uint32(BITS)) * (entry & np.uint32(0xFFFF)) + slot - (entry >> np.uint32(16))
        if x < LOW:
            if at >= end[1]:
                return False
            x = np.uint32(x << np.uint32(16)) | words[at]
            at += 1
        states[lane], out[j] = x, symbol
        seen[k, symbol] += 1
        lane = lane + 1 if lane + 1 < states.size else 0
    end[0] = at
    return True


@compiled
def _read(
    alive: Integers, c: Small, tokens: Small, row: Counts, place: int, n: Integers,
    places: Integers, values: Counts, widths: Small,
) -> None:
    """Take decoded tokens of a mode."""
    wide = n[2]
    for j in range(alive.size):
        b, k, t = alive[j], c[j], tokens[j]
        row[b] = SEEN[k, t]
        if WIDTHS[k, t]:
            places[wide], values[wide], widths[wide] = place + b, BASES[k, t], WIDTHS[k, t]
            wide += 1
    n[2] = wide


@compiled
def walk(
    boxes: Boxes,
    rules: Rules,
    coding: Coding,
    tokens: Learning,
    flags: Learning,
    found: Found,
    A: Counts,
    alive: Integers,
    n_even: int,
) -> bool:
    """Code all magnitudes; A has a row of zeros at its end. False where words are missing."""
    M, N, n = A.shape[0] - 1, A.shape[1], alive.size
    starts, lower, d, around = boxes.starts, boxes.lower, boxes.d, boxes.next
    high, position, K, mode = boxes.high, boxes.position, len(boxes.next), coding.mode
    weights, classes, levels, flag_classes = rules.weights, rules.classes, rules.levels, rules.flags
    costs, flag_costs, unit = rules.costs, rules.flag_costs, rules.price
    x, last, left, bits, error, q = (
        coding.x, coding.last, coding.left, coding.bits, coding.error, coding.q
    )
    states, words, end = coding.states, coding.words, coding.end
    entries, ends, places, values, widths, done = (
        found.entries, found.ends, found.place, found.value, found.width, found.n
    )
    token_seen, token_entries, token_slots = tokens.seen, tokens.entries, tokens.slots
    flag_seen, flag_entries, flag_slots = flags.seen, flags.entries, flags.slots
    near = np.zeros((M + 1, N), np.int32)
    cost, miss = np.zeros(n, np.float32), np.zeros(n, np.float32)
    z, going = np.zeros((2, n), np.int64), np.zeros(N, np.int64)
    c, symbols, added = np.zeros(n, np.uint8), np.zeros(n, np.uint8), np.zeros((M, 3), np.int64)
    for j in range(n):
        b = alive[j]
        for k in range(K):
            near[0, b] += A[0, around[k, 0, b]] + A[0, around[k, 1, b]]
    for s in range(1, starts.size - 1):
        first, stop = starts[s], starts[s + 1]
        check = np.searchsorted(CHECKPOINTS, s)
        if check < CHECKPOINTS.size and CHECKPOINTS[check] == s:
            for j in range(n):
                z[0, j] = z[1, j] = going[alive[j]] = 0
            for m in range(starts[max(s - 2, 0)], first):
                w = 1 + (m >= starts[s - 1])
                for j in range(n):
                    z[0, j] += w * A[m, alive[j]]
                    z[1, j] += w * near[m, alive[j]]
            n_on = n_even_on = 0
            for phase in range(2):
                a, e = (n_even, n) if phase else (0, n_even)
                for j in range(a, e):
                    b, edge = alive[j], EDGES - 1
                    if phase:
                        edge = 0
                        for k in range(K):
                            edge += going[around[k, 0, b]] + going[around[k, 1, b]]
                        edge = (edge * (EDGES - 2) + d) // (2 * d)
                    own, other = _level(np.int32(z[0, j])), _level(np.int32(z[1, j]) // (2 * d))
                    c[j] = flag_classes[check, boxes.large, own, other, edge]
                if mode == READ:
                    if not _decode(
                        c[a:e], 0, states, words, end, flag_entries, flag_slots, flag_seen, symbols[a:e]
                    ):
                        return False
                for j in range(a, e):
                    b = alive[j]
                    if mode != READ:
                        symbols[j] = last[b] >= s
                    on = symbols[j]
                    going[b] = on
                    n_on += on
                    if mode == PRICE:
                        bits[b] += flag_costs[c[j], on]
                        if not on:
                            error[b] += left[check, b]
                    elif mode == WRITE:
                        entries[done[0]] = flag_entries[c[j], on]
                        done[0] += 1
                        flag_seen[c[j], on] += 1
                if not phase:
                    n_even_on = n_on
                if e > a and mode != PRICE:
                    _learn(flags, e - a)
                    ends[done[1]] = done[0]
                    done[1] += 1
            if n_on < n:
                kept = 0
                for j in range(n):
                    if symbols[j]:
                        alive[kept] = alive[j]
                        kept += 1
                n = kept
                n_even = n if n < FEW_BOXES else n_even_on
        if n == 0:
            break
        for phase in range(2):
            a, e = (n_even, n) if phase else (0, n_even)
            some, c_some = alive[a:e], c[a:e]
            for m in range(first, stop):
                p, W = position[m], weights[position[m]]
                where = boxes.large * N_POSITIONS + phase * (N_POSITIONS // 2) + p
                where *= N_LEVELS * N_LEVELS
                if not phase:
                    total = 0
                    for k in range(d):
                        for j in range(n):
                            total += A[lower[m, k], alive[j]]
                    mean = min(total * 64 // n, 1 << 20)
                    added[m, 0] = (mean * W[3]) >> 6
                    added[m, 1] = (mean * W[5]) >> 6
                    added[m, 2] = (mean * W[9]) >> 6
                    _classify(
                        A, near, lower[m], d, some, W, added[m], levels, classes, where, c_some
                    )
                else:
                    _classify_odd(
                        A, near, lower[m], d, some, W, added[m], levels, classes, where, c_some,
                        A[m], near[m], around, high[m],
                    )
                if mode == PRICE:
                    _price(x[m], some, c_some, costs, unit, A[m], cost, miss)
                elif mode == WRITE:
                    _write(
                        x[m], some, c_some, costs, unit, A[m], q[m], token_seen, token_entries,
                        entries, done, m * N, places, values, widths,
                    )
                else:
                    begin = (m - first) * (e - a)
                    if not _decode(
                        c_some, begin, states, words, end, token_entries, token_slots, token_seen,
                        symbols,
                    ):
                        return False
                    _read(some, c_some, symbols, A[m], m * N, done, places, values, widths)
            if mode == PRICE:
                for j in range(e - a):
                    bits[some[j]] += cost[j]
                    error[some[j]] += miss[j]
                    cost[j] = miss[j] = 0
            elif e > a:
                _learn(tokens, (e - a) * (stop - first))
                ends[done[1]] = done[0]
                done[1] += 1
        for m in range(first, stop):
            for j in range(n_even):
                b = alive[j]
                for k in range(K):
                    near[m, b] += A[m, around[k, 0, b]] + A[m, around[k, 1, b]]
    return True


# --- from and to the classes that do the same by NumPy -------------------------------------------


@lru_cache(maxsize=64)
def _boxes(B: int, grid: tuple[int, ...]) -> Boxes:
    """Return what is around the modes of boxes."""
    d = len(grid) - 1
    m, places = modes(B, d), contexts.places(B, d)
    starts, total = np.array(m.starts), m.index.sum(axis=1)

    def rows(lower: list[Integers], back: int) -> Integers:
        """Places in a diagonal as rows."""
        diagonal = np.maximum(total - back, 0)
        first, n = starts[diagonal], starts[diagonal + 1] - starts[diagonal]
        found = [np.where((total >= back) & (x < n), first + x, len(total)) for x in lower]
        return np.array(found, np.int64).reshape(len(lower), len(total)).T

    around = contexts.box_neighbours(grid)
    n = int(np.prod(grid))
    return Boxes(
        starts,
        np.concatenate([rows(*some) for some in zip(places.lower, (1, 2, 2))], axis=1),
        d,
        places.position.astype(np.int64),
        np.array([places.high[k].ravel() for k, _ in around], bool).reshape(-1, len(total)).T.copy(),
        np.array([pair for _, pair in around], np.int64).reshape(len(around), 2, n),
        int(B >= 16),
    )


@lru_cache(maxsize=4)
def _rules(prior: Prior) -> Rules:
    tables = prior.weights, prior.classes, prior.flags, contexts.levels()
    costs = prior.costs, prior.flag_costs, np.float32(BIT_PRICE)
    return Rules(*(np.ascontiguousarray(table) for table in tables), *costs)


def _learning(tables: AdaptiveTables) -> Learning:
    made = tables.tables
    known = tables.counts, tables.seen, tables.fresh, tables.n, made.entries, made.slots
    return Learning(*known, tables.weight, tables.limit, tables.patience or 0)


def run(boxes: BoxWalk, prior: Prior, coder: Coder) -> None:
    """Run a walk for one of our coders."""
    M, N = boxes.A.shape
    mode = PRICE if coder.tables is None else READ if coder.reader is not None else WRITE
    tables = coder.tables or section_tables(boxes.modes.d)
    n_most = 0 if mode == PRICE else (M + len(CHECKPOINTS)) * len(boxes.boxes)
    n_raw = n_most
    states, words, end = np.zeros(1, np.uint32), np.zeros(0, np.uint32), np.zeros(2, np.int64)
    if coder.reader is not None:
        states, words = coder.reader.x[0], coder.reader.words
        end = np.array([coder.reader.next[0], coder.reader.end[0]])
        n_most = 0
    q = coder.q if mode == WRITE else np.zeros((0, N), np.int32)
    known = coder.x, coder.last, coder.left, coder.bits, coder.error
    coding = Coding(mode, *known, q, states, words, end)
    found = Found(
        np.empty(n_most, np.uint32),
        np.empty(4 * boxes.modes.n_diagonals, np.int64),
        np.empty(n_raw, np.int64),
        np.empty(n_raw, np.int32),
        np.empty(n_raw, np.uint8),
        np.zeros(3, np.int64),
    )
    learning = (_learning(t) for t in tables)
    around = _boxes(boxes.modes.B, boxes.grid)
    start = boxes.boxes.copy(), boxes.n_even
    if not walk(around, _rules(prior), coding, *learning, found, boxes.padded, *start):
        raise too_short()
    _, n_batches, n = found.n.tolist()
    if coder.reader is not None:
        coder.reader.next[0] = end[0]
    coder.keep(found.entries, found.ends[:n_batches], found.place[:n], found.value[:n], found.width[:n])
