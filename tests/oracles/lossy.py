"""A decoder of tiles with loss written from docs/codec.md alone: loops, one number at a time."""

import itertools
import math

import numpy as np

from oracles.ans import Stream
from oracles.lossless import NAMES, Bytes
from oracles.lossless import unpack as unpack_exact

CHECKPOINTS = (1, 2, 3, 5, 7, 10, 14, 19, 26, 36, 50, 70, 98)
SPANS = (1, 2, 3, 4, 6, 9, 13, 21)
STEPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 128)


class Tables:
    """Frequencies of classes that learn."""

    def __init__(self, counts, weight, limit, patience):
        self.counts = [[int(c) for c in row] for row in counts]
        self.weight, self.limit, self.patience = weight, limit, patience
        self.fresh = [0] * len(self.counts)
        self.freq = [self.made(row) for row in self.counts]
        self.waiting, self.learned = [], 0

    @staticmethod
    def made(row):
        total, n = sum(row), sum(c > 0 for c in row)
        f = [(c > 0) + c * (4096 - n) // max(total, 1) for c in row]
        f[row.index(max(row))] += 4096 - sum(f)
        return f

    def learn(self, batch):
        """Pairs of class and symbol."""
        self.waiting += batch
        if self.patience and len(self.waiting) < self.patience + self.learned // 8:
            return
        self.learned += len(self.waiting)
        for c, symbol in self.waiting:
            self.counts[c][symbol] += self.weight
            self.fresh[c] += self.weight
        self.waiting = []
        for c, row in enumerate(self.counts):
            while sum(row) > self.limit:
                row[:] = [(x + 1) >> 1 for x in row]
            if self.fresh[c] and self.fresh[c] * 8 >= sum(row):
                self.freq[c], self.fresh[c] = self.made(row), 0


class Part:
    """Boxes of one size."""

    def __init__(self, b, plane):
        self.b, self.plane = b, plane
        self.C, *self.grid = plane.shape
        self.d = len(self.grid)
        self.boxes = list(itertools.product(*map(range, plane.shape)))
        modes = itertools.product(range(b), repeat=self.d)
        self.modes = sorted(modes, key=sum)
        self.A, self.late = {}, []

    def neighbours(self, box):
        """Pairs of axis and neighbour."""
        for k, n in enumerate(self.grid):
            if n > 1:
                for side in (-1, 1):
                    at = box[1 + k] + side
                    at = 1 if at < 0 else n - 2 if at == n else at
                    yield k, (*box[: 1 + k], at, *box[2 + k :])

    def expected(self, box):
        """What stands for the magnitude of mode 0."""
        total, own = 0, (int(self.plane[box]) + 32) >> 6
        for k, n in enumerate(self.grid):
            for at in (box[1 + k] - 1, box[1 + k] + 1):
                if 0 <= at < n:
                    other = self.plane[(*box[: 1 + k], at, *box[2 + k :])]
                    total += abs(((int(other) + 32) >> 6) - own)
        return min(total // (2 * self.d), 1 << 20)

    def a(self, box, mode):
        return self.A.get((box, mode), 0)

    def lower(self, box, mode, steps):
        """Sum of magnitudes at a mode less each of some steps."""
        at = [tuple(m - s for m, s in zip(mode, step, strict=True)) for step in steps]
        return sum(self.a(box, m) for m in at if min(m) >= 0)

    def walk(self, stream, prior, tables):
        d, small = self.d, self.b
        one = [tuple(int(k == j) for k in range(d)) for j in range(d)]
        two = [tuple(2 * v for v in e) for e in one]
        pairs = [tuple(map(sum, zip(e, f, strict=True))) for e, f in itertools.combinations(one, 2)]
        for box in self.boxes:
            self.A[box, (0,) * d] = self.expected(box)
        g, alive = int(small >= 16), list(self.boxes)
        few = math.prod(self.grid) < 16
        odd = {box: sum(box[1:]) % 2 == 1 and not few for box in self.boxes}
        alive.sort(key=lambda box: odd[box])
        for s in range(1, d * (small - 1) + 1):
            if s in CHECKPOINTS:
                alive, odd = self.flags(s, g, alive, odd, stream, prior, tables)
            if not alive:
                return
            of_s = [m for m in self.modes if sum(m) == s]
            own1 = {(b, m): self.lower(b, m, one) for b in self.boxes for m in of_s}
            mean = {
                m: min(64 * sum(own1[b, m] for b in alive) // len(alive), 1 << 20) for m in of_s
            }
            for phase in (0, 1):
                boxes = [b for b in alive if odd[b] == phase]
                places = [(m, b) for m in of_s for b in boxes]
                classes = []
                for m, b in places:
                    span = max(i for i, first in enumerate(SPANS) if first <= s)
                    rest = s - max(m)
                    position = 3 * span + (0 if rest == 0 else 1 if 4 * rest < s else 2)
                    w = [int(v) for v in prior["weights"][position]]
                    S = w[0] * own1[b, m] + w[1] * self.lower(b, m, two)
                    S += w[2] * self.lower(b, m, pairs) + (w[3] * mean[m] >> 6)
                    low = sum(own1[n, m] for _, n in self.neighbours(b))
                    T = w[4] * low + (w[5] * mean[m] >> 6)
                    if phase:
                        near = [(m[k] == max(m), self.a(n, m)) for k, n in self.neighbours(b)]
                        T = w[6] * sum(v for top, v in near if top) + w[8] * low
                        T += w[7] * sum(v for top, v in near if not top) + (w[9] * mean[m] >> 6)
                    classes.append(int(prior["classes"][g, phase, position, level(S), level(T)]))
                found = stream.batch(tables["tokens"], classes)
                for (m, b), c, t in zip(places, classes, found, strict=True):
                    self.token(b, m, c, t)

    def token(self, box, mode, c, t):
        """What contexts see of a magnitude; what is still to be read of it."""
        k = max(0, math.floor(c / 4 - 9.5))
        h = t if t < 16 else 2 ** (t - 12) if t < 22 else 0
        more = 0 if t < 16 else t - 12 if t < 22 else 24
        half = 8 if t == 22 else 2 ** (k + more) // 2
        self.A[box, mode] = min((h << k) + half, 1 << 14)
        self.late.append((box, mode, h << k, k + more))

    def flags(self, s, g, alive, odd, stream, prior, tables):
        totals = dict.fromkeys(self.boxes, 0)
        for b in self.boxes:
            for m in self.modes:
                if s - 2 <= sum(m) < s:
                    totals[b] += (2 if sum(m) == s - 1 else 1) * self.a(b, m)
        on = {}
        for phase in (0, 1):
            boxes, classes = [b for b in alive if odd[b] == phase], []
            for b in boxes:
                near = [n for _, n in self.neighbours(b)]
                e = 5
                if phase:
                    e = (4 * sum(on.get(n, 0) for n in near) + self.d) // (2 * self.d)
                y = coarse(totals[b]), coarse(sum(totals[n] for n in near) // (2 * self.d))
                classes.append(int(prior["flags"][CHECKPOINTS.index(s), g, *y, e]))
            on |= dict(zip(boxes, stream.batch(tables["flags"], classes), strict=True))
        if all(on.values()):
            return alive, odd
        alive = [b for b in alive if on[b]]
        return alive, (dict.fromkeys(odd, False) if len(alive) < 48 else odd)

    def finish(self, stream, points, weights):
        """Modes in units from what goes raw."""
        rest = stream.numbers([width for *_, width in self.late])
        q = {(box, mode): base + r for (box, mode, base, _), r in zip(self.late, rest, strict=True)}
        stream.finish()
        out = {}
        for mode in self.modes[1:]:
            for box in self.boxes:
                a = q.get((box, mode), 0)
                r = 64 * a - int(points[min(a, 3) - 1]) if a else 0
                out[box, mode] = -r if a and stream.raw(1) else r
        guessed = [m for m in self.modes if 1 <= sum(m) <= 2]
        for mode, w in zip(guessed, weights.tolist(), strict=True):
            for box in self.boxes:
                out[box, mode] += w * self.difference(box, mode) >> 7
        for box in self.boxes:
            out[box, (0,) * self.d] = int(self.plane[box])
        return out

    def difference(self, box, mode):
        def at(*moves):
            place = list(box)
            for k, o in moves:
                place[1 + k] = min(max(place[1 + k] + o, 0), self.grid[k] - 1)
            return int(self.plane[tuple(place)])

        axes = [k for k, m in enumerate(mode) if m]
        if len(axes) == 1 and mode[axes[0]] == 1:
            return at((axes[0], -1)) - at((axes[0], 1))
        if len(axes) == 1:
            return at((axes[0], 1)) + at((axes[0], -1)) - 2 * at()
        j, k = axes
        same = at((j, 1), (k, 1)) + at((j, -1), (k, -1))
        return same - at((j, 1), (k, -1)) - at((j, -1), (k, 1))

    def samples(self, values):
        """An array (C, b G...) of the samples of all boxes."""
        b, d = self.b, self.d
        out = np.zeros((self.C, *(b * n for n in self.grid)), np.int64)
        basis = [[round(cosine(b, k, n) * 2**18) for k in range(b)] for n in range(b)]
        for box in self.boxes:
            x = {m: values[box, m] for m in self.modes}
            for k in range(d):
                y = {}
                for m in self.modes:
                    line = [x[(*m[:k], i, *m[k + 1 :])] for i in range(b)]
                    total = sum(w * v for w, v in zip(basis[m[k]], line, strict=True))
                    y[m] = (total + 2**17) >> 18
                x = y
            for m in self.modes:
                out[(box[0], *(b * i + j for i, j in zip(box[1:], m, strict=True)))] = x[m]
        return out


def cosine(b, k, n):
    scale = math.sqrt((1 if k == 0 else 2) / b)
    return scale * math.cos(math.pi * k * (2 * n + 1) / (2 * b))


def level(x):
    return sum(x**3 >= 2**j for j in range(54)) if x else 0


def coarse(x):
    return sum(step <= x for step in STEPS)


def read_part(part, head, stream, prior):
    tables = {
        "tokens": Tables(prior["tokens"], 16, 1 << 18, 1024),
        "flags": Tables(prior["going"], 16, 1 << 18, 1024),
    }
    part.walk(stream, prior, tables)
    return part.finish(stream, *head)


def read_head(data, b, d):
    n = sum(1 <= sum(m) <= 2 for m in itertools.product(range(b), repeat=d))
    found = np.frombuffer(data, np.int8, 3 + n)
    return (found[:3], found[3:]), Stream(data[3 + n :])


def crop(values, shape):
    return values[tuple(slice(n) for n in shape)]


def grid_of(shape, b):
    return (shape[0], *(-(-n // b) for n in shape[1:]))


def whole_samples(sections, shape, B, prior):
    means, boxes = sections
    part = Part(B, 64 * unpack_exact(means).astype(np.int64))
    head, stream = read_head(boxes, B, len(shape) - 1)
    return crop(part.samples(read_part(part, head, stream, prior)), shape)


def roughness(y, b):
    """Second differences along each axis, (d, C, n...), within boxes, smoothed."""
    d = y.ndim - 1
    y, out = np.clip(y, -(2**28), 2**28), []
    for k in range(1, d + 1):
        D, n = np.zeros(y.shape, np.int64), y.shape[k]
        for i in range(1, n - 1):
            u, v, w = (np.take(y, j, axis=k) for j in (i - 1, i, i + 1))
            D[(slice(None),) * k + (i,)] = np.minimum(abs(u - 2 * v + w), 2**20)
        plain = D.copy()
        for p in np.ndindex(y.shape):
            i = p[k]
            j = i + 1 if i % b == 0 else i - 1 if i % b == b - 1 else i
            D[p] = plain[(*p[:k], min(max(j, 0), n - 1), *p[k + 1 :])]
        for j in range(1, d + 1):
            edge = np.pad(D, [(int(i == j), int(i == j)) for i in range(d + 1)], mode="edge")
            u, v, w = (np.take(edge, range(o, o + y.shape[j]), axis=j) for o in (0, 1, 2))
            D = u + 2 * v + w
        out.append(D)
    return np.array(out)


def smoothed(y, b, gains, weights):
    """Samples moved towards their neighbours, one at a time."""
    d, D, out = y.ndim - 1, roughness(y, b), y.copy()
    offsets = [(o, *v) for o in (1, 2) for k in range(d) for v in ((k, -1), (k, 1))]
    for p in np.ndindex(y.shape):
        levels = [sum(int(r[p]) >= e * 4**d for e in (8, 24, 72, 200)) for r in D]
        total = 0

        def move(offset, which, level, p=p):
            at = [min(max(i + o, 0), n - 1) for i, o, n in zip(p[1:], offset, y.shape[1:])]
            off = limit(int(y[(p[0], *at)])) - limit(int(y[p]))
            small, large = (min(max(off, -t), t) for t in (32, 128))
            row = [int(w) for w in weights[level]]
            return int(gains[p[0]][level]) * (row[which] * small + row[15 + which] * large)

        for far, k, side in offsets:
            behind = p[1 + k] % b
            before = b - 1 - behind
            j, towards = min(behind, before), -1 if behind <= before else 1
            which = 6 if j > 2 else 2 * j + (side != towards)
            offset = [far * side * (i == k) for i in range(d)]
            total += move(offset, 7 * (far - 1) + which, levels[k])
        for i, k in itertools.combinations(range(d), 2):
            for one, two in itertools.product((-1, 1), repeat=2):
                total += move([one * (n == i) + two * (n == k) for n in range(d)], 14, max(levels))
        out[p] += (total + 2**15) >> 16
    return out


def limit(v):
    return min(max(v, -(2**28)), 2**28)


def unpack(data, priors):
    """The array of a tile with loss; `priors` is the opened priors.npz."""
    reader = Bytes(data)
    assert reader.take(3) == b"\xe7\x01\x01"
    code, ndim, channel = reader.take(3)
    shape = [reader.number() for _ in range(ndim)]
    flags, log_size = reader.take(2)
    offset, step = np.frombuffer(reader.take(16), "<f8").tolist()
    C = shape[channel - 1] if channel else 1
    rest = [n for k, n in enumerate(shape) if k != channel - 1]
    long = (C, *([n for n in rest if n > 1] or [1]))
    matrix = np.frombuffer(reader.take(2 * C * C), "<i2").reshape(C, C) if flags & 2 else None
    gains = np.frombuffer(reader.take(5 * C), np.uint8).reshape(C, 5) if flags & 8 else None
    U = reader.number() if flags & 4 else 0
    d, B = len(long) - 1, 1 << log_size
    n = 2 + bool(flags & 1) + bool(flags & 4)
    sections = [reader.take(size) for size in [reader.number() for _ in range(n)]]
    gaps = sections.pop(0) if flags & 1 else None
    last = sections.pop() if flags & 4 else None
    names = ("weights", "classes", "flags", "tokens", "going", "smoothing")
    prior = {name: priors[f"{name}{min(d, 3)}"] for name in names}
    y = whole_samples(sections, long, B, prior)
    if gains is not None:
        y = smoothed(y, B, gains, prior["smoothing"])
    if matrix is not None:
        flat = y.reshape(C, -1)
        turned = [sum(int(m) * row for m, row in zip(line, flat, strict=True)) for line in matrix]
        y = ((np.array(turned) + 2**13) >> 14).reshape(y.shape)
    if U:
        y = y + U * unpack_exact(last).astype(np.int64)
    dtype = np.dtype(NAMES[code])
    values = y * (step / 64) + offset
    if dtype.kind in "iu":
        values = np.clip(np.rint(values), np.iinfo(dtype).min, np.iinfo(dtype).max)
    values = values.astype(dtype)
    if gaps is not None:
        values[np.broadcast_to(unpack_exact(gaps[1:]), values.shape)] = np.nan
    values = values.reshape(C, *rest)
    return np.moveaxis(values, 0, channel - 1) if channel else values[0]
