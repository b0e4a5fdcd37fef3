"""A decoder of lossless tiles written from docs/codec.md alone: loops, one sample at a time."""

import math
import zlib

import numpy as np

from oracles.ans import Stream

NAMES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
NAMES += ["float16", "float32", "float64"]
OWN = [(0, -2), (0, -1), (-1, -1), (-1, 0), (-1, 1), (-2, 0), (-2, 1)]
CHANNEL = [(0, -1), (0, 0), (0, 1), (-1, -1), (-1, 0), (-1, 1), (1, 0)]
SECOND = [(0, -1), (0, 0), (-1, 0)]
SLICE = [(0, -1), (0, 0), (0, 1), (-1, 0), (1, 0)]
OWN_ERRORS, OTHER_ERRORS = (
    [(0, -2), (0, -1), (-1, -1), (-1, 0), (-1, 1), (-2, 0)],
    [(0, 0), (0, 1), (1, 0)],
)
MOST = {1: (1, 1, 1, 1024), 2: (1, 1, 64, 1024), 3: (1, 16, 64, 1024), 4: (4, 8, 32, 1024)}


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self):
        n = shift = 0
        while True:
            (byte,) = self.take(1)
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n

    def signed(self):
        n = self.number()
        return -(n + 1) // 2 if n % 2 else n // 2

    def array(self, dtype, n):
        return np.frombuffer(self.take(np.dtype(dtype).itemsize * n), dtype).tolist()


def unpack(data):
    read = Bytes(data)
    assert read.take(3) == b"\xe7\x01\x00"
    code, ndim, channel = read.take(3)
    shape = [read.number() for _ in range(ndim)]
    dtype = np.dtype(NAMES[code])
    (way,) = read.take(1)
    if way == 0:
        return np.frombuffer(read.take(len(data)), dtype.newbyteorder("<")).reshape(shape)
    axes = [i for i in range(ndim) if i != channel - 1]
    axes.sort(key=lambda i: shape[i])
    n_axes = max(1, len(axes))
    lengths = [shape[i] for i in axes]
    C = shape[channel - 1] if channel else 1
    full = [C, *[1] * (4 - len(lengths)), *lengths]

    hole, gaps = 0, None
    if way >= 128:
        hole = read.number()
        gaps, _ = planes(read, full, n_axes)
    if way % 128 == 2:
        offset, step = read.array("<f8", 2)
        start = read.signed()
    least, unit, shift = read.number(), read.number(), read.number()
    p, tail = planes(read, full, n_axes)
    flat = []
    for i, sample in enumerate(p.ravel().tolist()):
        places = range(i * shift, (i + 1) * shift)
        low = sum((tail[j // 16] >> j % 16 & 1) << n for n, j in enumerate(places))
        flat.append((least + unit * ((sample << shift) + low)) % 2**64)
    if way % 128 == 2:
        flat = off_lattice(read, flat, offset, step, start, dtype, full, n_axes)
    if gaps is not None:
        flat = [hole if gap else v for v, gap in zip(flat, gaps.ravel().tolist(), strict=True)]
    values = np.array([of_rank(v, dtype) for v in flat], f"u{dtype.itemsize}").view(dtype)
    values = values.reshape(full)
    if C in (3, 4):
        values = values[[1, 0, 2, 3][:C]]
    moved = ([channel - 1] if channel else []) + axes
    return values.reshape([shape[i] for i in moved]).transpose(np.argsort(moved) if moved else ())


def off_lattice(read, flat, offset, step, start, dtype, full, n_axes):
    (kind,) = read.take(1)
    if kind:
        below = read.signed()
        where, n = (full, n_axes) if kind == 2 else ([1, 1, 1, 1, read.number()], 1)
        more = planes(read, where, n)[0].ravel().tolist()
    ranks = []
    for i, v in enumerate(flat):
        exact = np.array([offset + step * float(v + start)])
        if dtype.kind != "f":
            exact = np.clip(np.rint(exact), np.iinfo(dtype).min, np.iinfo(dtype).max)
        value = exact.astype(dtype)
        rank = to_rank(int(value.view(f"u{dtype.itemsize}")[0]), dtype)
        if kind:
            rank += below + (more[i] if kind == 2 else more[min(v, len(more) - 1)])
        ranks.append(rank)
    return ranks


def to_rank(bits, dtype):
    sign = 1 << (8 * dtype.itemsize - 1)
    if dtype.kind != "f":
        return bits ^ (sign if dtype.kind == "i" else 0)
    return 2 * sign - 1 - bits if bits & sign else bits + sign


def of_rank(rank, dtype):
    sign = 1 << (8 * dtype.itemsize - 1)
    if dtype.kind in "bu":
        return rank
    if dtype.kind == "i":
        return rank ^ sign
    return rank - sign if rank >= sign else 2 * sign - 1 - rank


def planes(read, full, n_axes):
    C = full[0]
    n = -(-C // {1: 8, 2: 8, 3: 4, 4: 2}[n_axes])
    parts, tails = [], []
    for i in range(n):
        plane, tail = section(read, [C // n + (i < C % n), *full[1:]], n_axes)
        parts.append(plane)
        tails.append(tail)
    return np.concatenate(parts), tails[0]


def section(read, shape, n_axes):
    n_header = read.number()
    if n_header == 0:
        return np.zeros(shape, np.int64), []
    n_stream = read.number()
    head = Bytes(zlib.decompress(read.take(n_header), -15))
    return Section(shape, n_axes, head).decoded(Stream(read.take(n_stream)))


class Section:
    def __init__(self, shape, n_axes, head):
        self.shape = shape
        counts = [-(-n // most) for n, most in zip(shape[1:], MOST[n_axes], strict=True)]
        self.h = [-(-n // count) for n, count in zip(shape[1:], counts, strict=True)]
        self.origins = [
            (a, z, y, x)
            for a in range(0, shape[1], self.h[0])
            for z in range(0, shape[2], self.h[1])
            for y in range(0, shape[3], self.h[2])
            for x in range(0, shape[4], self.h[3])
        ]
        ha, hz = self.h[:2]
        C = shape[0]
        self.groups = [(c, a, z) for c in range(C) for a in range(ha) for z in range(hz)]
        self.skews, s = [], 2
        for n in (hz, ha, C):
            self.skews.insert(0, s if n > 1 else 0)
            s *= 2 if n > 1 else 1
        sets = [((0, 0, 0), OWN, OWN_ERRORS)]
        sets += [((1, 0, 0), CHANNEL, OTHER_ERRORS)] * (C > 1)
        sets += [((2, 0, 0), SECOND, [])] * (C > 2)
        sets += [((0, 0, 1), SLICE, OTHER_ERRORS)] * (hz > 1)
        sets += [((0, 1, 0), SLICE, OTHER_ERRORS)] * (ha > 1)
        self.sets = sets
        self.header(head)

    def kind(self, group):
        c, a, z = group
        return 4 * c + 2 * (a > 0) + (z > 0)

    def header(self, head):
        self.top, self.first = head.array("<i8", 2)
        learned, four, self.bits, tables, tokens, coarse = head.take(6)
        self.per_octave = 4 >> coarse
        assert four == 4
        self.lowest = 256 * head.take(1)[0] + head.take(1)[0]
        kinds = {self.kind(g): g for g in reversed(self.groups)}
        self.weights, self.gains = {}, {}
        for kind in sorted(kinds):
            self.weights[kind] = [
                self.predictor(i, kinds[kind], head if learned else None) for i in range(4)
            ]
        n_errors = sum(len(errors) for _, _, errors in self.sets)
        for kind in sorted(kinds):
            own = [6, 16, 6, 16, 10, 6, *[0] * (n_errors - 6), 8]
            self.gains[kind] = list(head.take(n_errors + 1)) if learned else own
        self.classes = list(head.take(80))
        self.tables = [self.table(head.take(tokens)) for _ in range(tables)]

    def predictor(self, i, group, head):
        """Weights of one predictor, set by set."""
        one, out = 1 << self.bits, []
        for number, (back, samples, _) in enumerate(self.sets):
            there = all(g >= b for g, b in zip(group, back, strict=True))
            w = dict.fromkeys(samples, 0)
            if there and head is not None:
                for place in samples:
                    if place != (0, -1):
                        w[place] = head.array("<i2", 1)[0]
            elif there and number == 0:
                second = len(self.sets) > 1
                usual = [{}, {(-1, 0): one}, {(-1, 0): one, (-1, -1): -one}]
                usual.append({} if second else {(-1, 1): one >> 1, (-1, -1): -(one >> 1)})
                w.update(usual[i])
            elif there and number == 1 and i == 3:
                w[0, 0] = one
            w[0, -1] = (one if number == 0 else 0) - sum(w.values())
            out.append(w)
        return out

    def table(self, changes):
        level, sizes = 0, []
        for change in changes:
            level = (level + change) % 256
            q = level - 1
            sizes.append((256, 304, 362, 431)[q % 4] << (q // 4) if level else 0)
        n, total = sum(s > 0 for s in sizes), sum(sizes)
        freq = [1 + s * (4096 - n) // total if s else 0 for s in sizes]
        freq[sizes.index(max(sizes))] += 4096 - sum(freq)
        return freq

    def steps(self):
        """For every step the samples (g, b, y, x) in order."""
        out = {}
        for gi, (c, a, z) in enumerate(self.groups):
            skew = sum(s * n for s, n in zip(self.skews, (c, a, z), strict=True))
            for y in range(self.h[2]):
                for b, (a0, z0, y0, _) in enumerate(self.origins):
                    inside = a0 + a < self.shape[1] and z0 + z < self.shape[2]
                    if inside and y0 + y < self.shape[3]:
                        for x in range(self.h[3]):
                            u = y + skew
                            out.setdefault(x + 2 * u, []).append((gi, u, b, y, x))
        return [sorted(out[t]) if t in out else [] for t in range(max(out) + 1)]

    def decoded(self, stream):
        self.sample, self.error, self.square = {}, {}, {}
        for step in self.steps():
            guesses = [self.guess(g, b, y, x) for g, _, b, y, x in step]
            tables = [self.tables[self.classes[context]] for *_, context in guesses]
            tokens = [stream.symbol(i, table) for i, table in enumerate(tables)]
            raw = stream.numbers([0 if k < 16 else (k - 16) // 4 + 2 for k in tokens])
            for (g, _, b, y, x), found, k, r in zip(step, guesses, tokens, raw, strict=True):
                guess, blend, prediction, above, _ = found
                z = k if k < 16 else ((4 + (k - 16) % 4) << ((k - 16) // 4 + 2)) + r
                residual = (z + 1) // 2 if z % 2 else -(z // 2)
                value = prediction + (-residual if above < 0 else residual)
                self.sample[g, b, y, x] = value
                self.error[g, b, y, x] = min(abs(blend - 16 * value), 2**36)
                self.square[g, b, y, x] = [min((v - 16 * value) ** 2, 2**48) for v in guess]
        return self.assembled(), stream.finish()

    def assembled(self):
        out = np.zeros(self.shape, np.int64)
        for (g, b, y, x), value in self.sample.items():
            (c, a, z), (a0, z0, y0, x0) = self.groups[g], self.origins[b]
            if x0 + x < self.shape[4]:
                out[c, a0 + a, z0 + z, y0 + y, x0 + x] = value
        return out

    def height(self, b):
        return min(self.h[2], self.shape[3] - self.origins[b][2])

    def look(self, g, b, y, x):
        """A sample of a row that is in the block, or what stands beside it."""
        if x >= 0:
            return self.sample[g, b, y, min(x, self.h[3] - 1)]
        return self.sample[g, b, y - 1, 0] if y > 0 else self.first

    def guess(self, g, b, y, x):
        group = self.groups[g]
        kind = self.kind(group)
        sums, errors = [0] * 4, []
        for number, (back, samples, past) in enumerate(self.sets):
            other = tuple(n - m for n, m in zip(group, back, strict=True))
            if min(other) < 0:
                errors += [0] * len(past)
                continue
            h = self.groups.index(other)
            for dy, dx in samples:
                inside = 0 <= y + dy < self.height(b)
                value = self.look(h, b, y + dy, x + dx) if inside else self.look(h, b, y, x - 1)
                for i in range(4):
                    sums[i] += self.weights[kind][i][number][dy, dx] * value
            errors += [self.error.get((h, b, y + dy, x + dx), 0) for dy, dx in past]
        guess = [(16 * s) >> self.bits for s in sums]
        around = [(0, -1), (-1, 0), (-1, -1), (-1, 1)]
        squares = [self.square.get((g, b, y + dy, x + dx), [0] * 4) for dy, dx in around]
        levels = [level(256 + sum(s[i] for s in squares), 8) for i in range(4)]
        d = [min(v - min(levels), 63) for v in levels]
        weight = [(4096, 3444, 2896, 2435)[v % 4] >> (v // 4) for v in d]
        blend = sum(w * v for w, v in zip(weight, guess, strict=True)) // sum(weight)
        whole = (blend + 8) >> 4
        above = blend - 16 * whole
        gains = self.gains[kind]
        energy = 16 * gains[-1] + sum(w * e for w, e in zip(gains, errors, strict=False))
        q = self.per_octave
        bin_ = min(max(q * 1023 + level(energy, q) - self.lowest, 0), 39)
        context = 2 * bin_ + (abs(above) >= 4)
        return guess, blend, min(max(whole, 0), self.top), above, context


def level(n, steps):
    """So many to an octave."""
    m, e = math.frexp(n)  # n = 2 m * 2^(e - 1), 1 <= 2 m < 2
    return steps * (e - 1) + int(steps * 2 * m - steps)
