"""A decoder of interpolated tiles written from docs/codec.md alone, one number at a time."""

import math

import numpy as np

from oracles.ans import Stream
from oracles.lossless import NAMES, Bytes
from oracles.lossless import unpack as unpack_exact
from oracles.lossy import Tables


def first_counts():
    """Counts of tokens by kind and level."""
    rows = []
    for kind in range(3):
        for level in range(24):
            mean = max(1, round(2 ** (level / 2)) * (1 if kind == 2 else 2))
            row, rest = [1] * 50, 4096
            for v in range(1, 4096):
                some = rest * 16 // (mean + 16)
                row[v - 1 if v < 32 else 25 + v.bit_length()] += some
                rest -= some
            rows.append(row)
    return rows


def phases(shape, codes):
    """Round, distance, axis, distances of known samples and axes across of every phase."""
    turns = []
    for place, code in enumerate(codes):
        delay, axis = code // 4, code % 4
        distance, number = 1, 0
        while distance < shape[axis]:
            late = delay if 2 * distance < shape[axis] else 0
            turns.append((late - number, place, -distance, axis))
            distance, number = 2 * distance, number + 1
    known = [1 << (n - 1).bit_length() for n in shape]
    last, found = {}, []
    for number, _, distance, axis in sorted(turns):
        across = [k for k in last if k != axis and (last[k] == number or known[k] == 1)]
        found.append((max(turns)[0] - number, -distance, axis, tuple(known), across))
        known[axis], last[axis] = -distance, number
    return found


def places(shape, distance, axis, known):
    """The samples of a phase, in array order."""
    every = [
        range(distance, n, 2 * distance) if k == axis else range(0, n, known[k])
        for k, n in enumerate(shape)
    ]
    return [tuple(r[i] for r, i in zip(every, at)) for at in np.ndindex(*map(len, every))]


class Neighbours:
    """Values near the places of a phase, among those known before it."""

    def __init__(self, values, shape, distance, axis, known):
        self.values, self.shape, self.axis, self.known = values, shape, axis, known
        self.distance, self.end = distance, (shape[axis] - 1) // (2 * distance) * 2 * distance
        # a line goes on behind the last known one where the last new one stands there
        self.more = self.end + distance < shape[axis] and self.end > 0

    def __call__(self, p, along, side=None, out=0, line=True):
        """The value some distances along the axis and one across; the last one instead."""
        q, d = list(p), self.distance
        if side is not None and 0 <= q[side] + out * self.known[side] < self.shape[side]:
            q[side] += out * self.known[side]
        q[self.axis] = min(max(p[self.axis] + along * d, 0), self.end + 2 * d * self.more)
        if q[self.axis] <= self.end:
            return self.values[tuple(q)]
        q[self.axis] = self.end
        last = self.values[tuple(q)]
        q[self.axis] -= 2 * d
        return 2 * last - self.values[tuple(q)] if line else last


def unpack(data):
    """The array of an interpolated tile."""
    reader = Bytes(data)
    assert reader.take(3) == b"\xe7\x01\x02"
    code, ndim, _ = reader.take(3)
    shape = [reader.number() for _ in range(ndim)]
    long = [n for n in shape if n > 1]
    (piece, gaps), order = divmod(reader.take(1)[0], 2), list(reader.take(len(long)))
    offset, step = np.frombuffer(reader.take(16), "<f8").tolist()
    z = reader.number()
    first = -(z + 1) // 2 if z % 2 else z // 2
    steps = phases(long, order)
    learned = []
    for phase in steps:
        n = len(places(long, *phase[1:4])) >= 512
        learned.append(
            np.frombuffer(reader.take(2 * n * (2 + bool(phase[4]))), "<i2").tolist() if n else None
        )
    missing = unpack_exact(reader.take(reader.number())[1:]) if gaps else None
    stream, tables = Stream(reader.data[reader.at :]), Tables(first_counts(), 32, 1 << 16, 0)
    x, sizes = {(0,) * len(long): float(first)}, {(0,) * len(long): 0.0}
    for number, (phase, told) in enumerate(zip(steps, learned, strict=True)):
        rounds, distance, axis, known, across = phase
        kind = 2 if number == len(steps) - 1 else int(rounds == 0)
        unit = 64 if rounds < 3 else 32
        *weights, shift = told or (-512, *([0] if across else []), 0)
        at, size = (Neighbours(v, long, distance, axis, known) for v in (x, sizes))
        guesses, classes, where = [], [], places(long, distance, axis, known)
        for p in where:
            a, b = at(p, -1), at(p, 1)
            far = at(p, -3) + at(p, 3) - (a + b)
            active = abs(far) + abs(a - b) + 2 * (size(p, -1) + size(p, 1, line=False))
            turns = [far]
            if across:
                total = 0.0
                for side in across:
                    for out in (-1, 1):
                        total += at(p, -1, side, out) + at(p, 1, side, out)
                turns.append(total * (0.5 / len(across)) - (a + b))
                active += 2 * abs(turns[1])
            active = active * 0.25 + 8
            guess = (a + b) * 0.5
            for w, turn in zip(weights, turns, strict=True):
                guess += turn * (w / 8192)
            guesses.append(math.floor(guess + 0.5))
            m, e = math.frexp(active)
            level = 2 * (e - 4) + (m >= 0.75) - shift
            classes.append(24 * kind + min(max(level, 0), 23))
        n = max(1 << piece, -(-len(where) // 24))
        tokens = [
            t for a in range(0, len(where), n) for t in stream.batch(tables, classes[a : a + n])
        ]
        large = [i for i, t in enumerate(tokens) if t >= 31]
        found = [t if t < 31 else (1 << (t - 26)) - 1 for t in tokens]
        raw = stream.numbers([tokens[i] - 26 for i in large])
        for i, part in zip(large, raw, strict=True):
            found[i] += part
        if kind == 2:
            stream.finish()
            left = [-v if v and stream.raw(1) else v for v in found]
        else:
            left = [(v + 1) // 2 if v % 2 else -(v // 2) for v in found]
        for p, guess, q in zip(where, guesses, left, strict=True):
            x[p], sizes[p] = guess + float(unit * q), min(abs(unit * q), 64000.0)
    dtype = np.dtype(NAMES[code])
    whole = np.array([x[p] for p in np.ndindex(*long)]).reshape(shape)
    values = (whole * (step / 64) + offset).astype(dtype)
    if missing is not None:
        values[np.asarray(missing).reshape(shape)] = np.nan
    return values
