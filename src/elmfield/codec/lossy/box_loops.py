"""The walk through boxes as a compiled loop: what `BoxWalk` and its coders do by NumPy.

The arithmetic is the same, so bytes and samples are too. Imported only once compiled loops pay,
because it imports the compiler.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import compiled
from elmfield._array.typing import Bools, Integers
from elmfield.codec import kernels
from elmfield.codec.ans import Words, too_short
from elmfield.codec.lossy import contexts
from elmfield.codec.lossy.coder import BIT_PRICE, Coder
from elmfield.codec.lossy.contexts import BoxWalk, Counts, Prior, Small
from elmfield.codec.lossy.transform import modes
from elmfield.codec.symbol_tables import Entries, Learning

Singles = NDArray[np.float32]
Boxes = tuple[Integers, Integers, Integers, Bools, Integers, int, int]
"""First modes of diagonals; modes below each, (M, ...): less one along every axis, less two, less
one along pairs, the last row of zeros where there is none; positions (M,); whether the mode is
largest along each axis with several boxes (M, K); both neighbours there (K, 2, boxes); axes; 1 for
large boxes."""
Rules = tuple[Counts, Small, Small, Small, Singles, np.float32]
"""Trained weights, classes, classes of flags; levels, costs of tokens, the price of a bit."""
Given = tuple[bool, Singles, Integers, Counts, Integers, Words, Learning, Learning]
"""Whether to read; magnitudes in steps, last diagonals, numbers to fill in; states, words; tables
of tokens and of flags."""
Found = tuple[Entries, Integers, Integers, Counts, Small, Integers]
"""Entries of symbols, ends of their batches; places, values and widths of what goes raw; how many
symbols, batches, raw numbers there are, and the next word."""
Seen = tuple[Counts, Counts, Integers, Small, Small]
"""Magnitudes as contexts see them, with a row of zeros at the end, and their sums over neighbours;
boxes that are alive, even ones first; room for classes and symbols of a batch."""

CHECKPOINTS = np.array(contexts.CHECKPOINTS)
TOP_SUM = (1 << contexts.SUM_BITS) - 1


@compiled
def _code(given: Given, tables: Learning, classes: Small, symbols: Small, found: Found) -> bool:
    """Read symbols of a batch, or write them; learn from them. False where words are missing."""
    is_reading, _, _, _, states, words, _, _ = given
    entries, slots = tables[4], tables[5]
    out, ends, _, _, _, done = found
    if is_reading:
        done[3] = kernels.read(states, words, classes, slots, entries, symbols, done[3])
        if done[3] >= words.size:
            return False
    else:
        for i in range(symbols.size):
            out[done[0] + i] = entries[classes[i], symbols[i]]
        done[0] += symbols.size
        ends[done[1]] = done[0]
        done[1] += 1
    kernels.update(tables, classes, symbols)
    return True


@compiled
def _classify(
    seen: Seen,
    boxes: Boxes,
    rules: Rules,
    some: Integers,
    m: int,
    is_odd: bool,
    mean: int,
    out: Small,
) -> None:
    """Find the classes of mode m of some boxes; odd ones know it of their neighbours."""
    A, near, _, _, _ = seen
    _, lower, position, high, around, d, large = boxes
    weights, classes, _, levels, _, _ = rules
    W, K, first = weights[position[m]], around.shape[0], large * contexts.POSITIONS + position[m]
    first = (first + is_odd * (contexts.POSITIONS // 2)) * contexts.LEVELS * contexts.LEVELS
    own_mean, near_mean = (mean * W[3]) >> 6, (mean * (W[9] if is_odd else W[5])) >> 6
    for j in range(some.size):
        b, one, two, pairs, low, top, rest = some[j], 0, 0, 0, 0, 0, 0
        for k in range(d):
            one += A[lower[m, k], b]
            low += near[lower[m, k], b]
            two += A[lower[m, d + k], b]
        for k in range(2 * d, lower.shape[1]):
            pairs += A[lower[m, k], b]
        v = low * W[4] + near_mean
        if is_odd:
            for k in range(K):
                both = A[m, around[k, 0, b]] + A[m, around[k, 1, b]]
                top += both if high[m, k] else 0
                rest += 0 if high[m, k] else both
            near[m, b] = top + rest
            v = top * W[6] + rest * W[7] + low * W[8] + near_mean
        u = int(np.int32(one * W[0] + two * W[1] + pairs * W[2] + own_mean))
        u, v = min(max(u, 0), TOP_SUM), min(max(int(np.int32(v)), 0), TOP_SUM)
        out[j] = classes[first + levels[u] * contexts.LEVELS + levels[v]]


@compiled
def _choose(
    x: Singles, alive: Integers, c: Small, costs: Singles, price: np.float32, q: Counts, out: Small
) -> None:
    """Find the magnitudes of a mode that are worth their bits, and their tokens."""
    for j in range(alive.size):
        k, value = c[j], x[alive[j]]
        chosen = np.int64(value + np.float32(0.5))
        if 0 < chosen < contexts.DIRECT:
            saved = costs[k, chosen] - costs[k, chosen - 1]
            chosen -= 2.0 * (np.float64(value) - chosen) + 1.0 < np.float64(price * saved)
        h = chosen >> contexts.LOW_BITS[k]
        out[j] = contexts.ESCAPE if h >= contexts.FIRST_LONG[k] else contexts.TOKENS[min(h, 1024)]
        q[alive[j]] = chosen


@compiled
def _level(total: int) -> int:
    return int(np.searchsorted(contexts.COARSE_STEPS, total, side="right"))


@compiled
def _code_flags(
    seen: Seen,
    boxes: Boxes,
    rules: Rules,
    given: Given,
    found: Found,
    check: int,
    n: int,
    even: int,
) -> bool:
    """Code which boxes go on at a checkpoint, of n alive."""
    starts, _, _, _, around, d, large = boxes
    A, near, alive, c, on = seen
    s, going = CHECKPOINTS[check], np.zeros(A.shape[1], np.int64)
    for first, stop, is_odd in ((0, even, False), (even, n, True)):
        if first == stop:
            continue
        for j in range(first, stop):
            b, own, other, edge = alive[j], 0, 0, 0
            for m in range(starts[max(s - 2, 0)], starts[s]):
                w = 1 + (m >= starts[s - 1])
                own += w * A[m, b]
                other += w * near[m, b]
            for k in range(around.shape[0]):
                edge += going[around[k, 0, b]] + going[around[k, 1, b]]
            edge = (edge * (contexts.EDGES - 2) + d) // (2 * d) if is_odd else contexts.EDGES - 1
            own, other = _level(int(np.int32(own))), _level(int(np.int32(other)) // (2 * d))
            c[j] = rules[2][check, large, own, other, edge]
            if not given[0]:
                on[j] = given[2][b] >= s
        if not _code(given, given[7], c[first:stop], on[first:stop], found):
            return False
        for j in range(first, stop):
            going[alive[j]] = on[j]
    return True


@compiled
def walk(
    boxes: Boxes, rules: Rules, given: Given, found: Found, A: Counts, alive: Integers, n_even: int
) -> bool:
    """Code all magnitudes; A has a row of zeros at its end. False where words are missing."""
    starts, lower, _, _, around, d, _ = boxes
    is_reading, x, _, q, _, _, tokens, _ = given
    _, _, place, value, width, done = found
    N, n, K = A.shape[1], alive.size, around.shape[0]
    near, means = np.zeros(A.shape, np.int32), np.zeros(A.shape[0], np.int64)
    size = max(np.max(np.diff(starts)), 1) * n
    c, symbols = np.empty(size, np.uint8), np.empty(size, np.uint8)
    seen = A, near, alive, c, symbols
    for s in range(starts.size - 1):
        first, stop = starts[s], starts[s + 1]
        check = int(np.searchsorted(CHECKPOINTS, s))
        if s and check < CHECKPOINTS.size and CHECKPOINTS[check] == s:
            if not _code_flags(seen, boxes, rules, given, found, check, n, n_even):
                return False
            n_on, even = 0, n_even
            for j in range(n):
                if symbols[j]:
                    alive[n_on] = alive[j]
                    n_on += 1
                elif j < even:
                    n_even -= 1
            if n_on < n and n_on < contexts.ONE_BATCH_BOXES:
                n_even = n_on
            n = n_on
        if n == 0:
            break
        for m in range(first, stop if s else 0):
            total = 0
            for k in range(d):
                for j in range(n):
                    total += A[lower[m, k], alive[j]]
            means[m] = min(total * 64 // n, 1 << 20)
        for a, e, is_odd in ((0, n_even, False), (n_even, n, True)):
            some, count = alive[a:e], e - a
            if not s or not count:
                continue
            for m in range(first, stop):
                own = c[(m - first) * count :][:count]
                _classify(seen, boxes, rules, some, m, is_odd, means[m], own)
                if not is_reading:
                    out = symbols[(m - first) * count :][:count]
                    _choose(x[m], some, own, rules[4], rules[5], q[m], out)
            size = (stop - first) * count
            if not _code(given, tokens, c[:size], symbols[:size], found):
                return False
            for i in range(size):
                k, t, m, b = c[i], symbols[i], first + i // count, some[i % count]
                A[m, b] = contexts.SEEN[k, t]
                if contexts.WIDTHS[k, t]:
                    place[done[2]], width[done[2]] = m * N + b, contexts.WIDTHS[k, t]
                    value[done[2]] = (
                        contexts.BASES[k, t] if is_reading else q[m, b] - contexts.BASES[k, t]
                    )
                    done[2] += 1
        for m in range(first, stop):
            for j in range(n_even if s else n):
                for k in range(K):
                    b = alive[j]
                    near[m, b] += A[m, around[k, 0, b]] + A[m, around[k, 1, b]]
    return True


# --- from and to the classes that do the same by NumPy -------------------------------------------


@lru_cache(maxsize=64)
def _boxes(B: int, grid: tuple[int, ...]) -> Boxes:
    """Return what is around the modes of boxes."""
    d, n = len(grid) - 1, int(np.prod(grid))
    places, around = contexts.places(B, d), contexts.box_neighbours(grid)
    return (
        np.array(modes(B, d).starts),
        np.ascontiguousarray(places.lower.T),
        places.position.astype(np.int64),
        np.ascontiguousarray(places.high[:, [k for k, _ in around]]),
        np.array([pair for _, pair in around], np.int64).reshape(-1, 2, n),
        d,
        int(B >= 16),
    )


@lru_cache(maxsize=4)
def _rules(prior: Prior) -> Rules:
    weights, classes = np.ascontiguousarray(prior.weights), np.ascontiguousarray(prior.classes)
    flags, costs = np.ascontiguousarray(prior.flags), np.ascontiguousarray(prior.costs)
    return weights, classes, flags, contexts.levels(), costs, np.float32(BIT_PRICE)


def run(boxes: BoxWalk, coder: Coder) -> None:
    """Run a walk for one of our coders."""
    reader, n = coder.reader, (boxes.A.shape[0] + len(CHECKPOINTS)) * len(boxes.boxes)
    states, words, done = np.zeros(0, np.int64), np.zeros(0, np.uint16), np.zeros(4, np.int64)
    if reader is not None:
        states, words, done[3] = reader.x, reader.words, reader.at
    tables = coder.tokens.arrays, coder.flags.arrays
    given = reader is not None, coder.x, coder.last, coder.q, states, words, *tables
    entries = np.empty(n if reader is None else 0, np.uint32)
    ends = np.empty(4 * boxes.modes.n_diagonals, np.int64)
    place, value, width = np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.uint8)
    around, start = _boxes(boxes.modes.B, boxes.grid), (boxes.boxes.copy(), boxes.n_even)
    found = entries, ends, place, value, width, done
    if not walk(around, _rules(coder.prior), given, found, boxes.padded, *start):
        raise too_short()
    n_symbols, n_batches, n_raw, at = done.tolist()
    if reader is not None:
        reader.at = at
    coder.writer.append(entries[:n_symbols], np.diff(ends[:n_batches], prepend=0))
    coder.raw.append((place[:n_raw], width[:n_raw], value[:n_raw]))
