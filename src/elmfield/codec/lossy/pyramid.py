"""Samples in steps to sections of bytes: boxes, the plane of their means, the plane of its means, and so on.

Every section holds one level, the smallest first, so a decoder that stops early has a small picture:

- the mean of everything;
- boxes of planes of means, down to the plane of the largest boxes;
- for every smaller size of boxes: which boxes are cut in halves, and the means of the pieces;
- the modes of all boxes, large ones first.

What the encoder quantises it predicts from what the decoder will have of the sections before.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield.codec.lossy import means
from elmfield.codec.adaptive import Adaptive
from elmfield.codec.lossy.boxes import (
    FRACTION,
    LARGEST,
    Floats,
    Modes,
    joined,
    modes,
    samples,
    transformed,
)
from elmfield.codec.lossy.contexts import Counts, Places, Walk, checkerboard, neighbours
from elmfield.codec.lossy.magnitudes import LARGEST_MAGNITUDE
from elmfield.codec.lossy.priors import prior
from elmfield.codec.lossy.streams import (
    Chooser,
    Follower,
    Learned,
    Pricer,
    StreamReader,
    StreamWriter,
    damaged,
)

Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]
Shape = tuple[int, ...]

ABOVE = {1: 16, 2: 8, 3: 4, 4: 4}
"""Size of the boxes of a plane of means, by axes."""
UNIT = 1 << FRACTION
PRICE = 0.1155
"""Squared steps a bit is worth: the slope of distortion at high rates, 2 ln 2 / 12."""
SPARSE, DENSE = 0.1, 1.0
"""Bits a sample below which boxes are not tried in pieces, above which not as one."""
HESITATION = 0.03
"""Boxes are cut where it saves this part of their price: estimates err, and mixed sizes know less of each other."""


# --- what both ends know --------------------------------------------------------------------------


def boxed(shape: Shape, B: int) -> Shape:
    """Channels and numbers of boxes along each axis."""
    return (shape[0], *(-(-n // B) for n in shape[1:]))


FEW = 16
"""A plane of so many means is written as it is."""


def few(shape: Shape) -> bool:
    """Whether a plane is written as it is."""
    return math.prod(shape[1:]) <= FEW


def planes(shape: Shape, B: int) -> list[Shape]:
    """Shapes of the planes of means above boxes of B samples, upwards to one of few means."""
    found = [boxed(shape, B)]
    while not few(found[-1]):
        found.append(boxed(found[-1], ABOVE[len(shape) - 1]))
    return found


def pieces(mask: NDArray[np.generic], grid: Shape) -> NDArray[np.generic]:
    """Something of every box for each of its halves along all axes: (C G,) as (C 2G ...,)."""
    out = mask.reshape(grid)
    for k in range(1, len(grid)):
        out = out.repeat(2, axis=k)
    return out.ravel()


def _around(A: Counts, m: Modes, grid: Shape) -> Counts:
    """Magnitudes of boxes as the halves would have them, rows sorted: means of 2^d modes."""
    d, b = m.d, m.B // 2
    natural = np.empty_like(A)
    natural[m.rows] = A
    groups = natural.reshape([v for _ in range(d) for v in (b, 2)] + [-1])
    total = (groups.sum(axis=tuple(range(1, 2 * d, 2)), dtype=np.int32) + (1 << d >> 1)) >> d
    rows = total.reshape(b**d, -1)[modes(b, d).rows]
    return np.stack([pieces(row, grid) for row in rows])


@dataclass(frozen=True)
class Part:
    """Boxes of one size: their modes, the plane of their means, which of them are coded here."""

    m: Modes
    plane: Whole  # (C, G...)
    active: Mask | None = None  # (C G,)

    def walk(self, around: Counts | None = None) -> Walk:
        """The order of coding."""
        return Walk(self.m.B, self.plane.shape, means.expected(self.plane), self.active, around)

    def values(self, q: Counts, points: NDArray[np.int8], weights: NDArray[np.int8]) -> Floats:
        """Modes of all boxes in units, natural order, as whole floats."""
        out = np.zeros(q.shape, np.float64)
        some = np.flatnonzero(q)
        v = q.ravel()[some].astype(np.int64)
        a = np.abs(v)
        r = a * UNIT - points.astype(np.int64)[np.minimum(a, 3) - 1]
        i, j = np.divmod(some, q.shape[1])
        out[self.m.rows[i], j] = np.where(v < 0, -r, r)
        out[0] = self.plane.ravel()
        for row, guess in means.predicted(means.differences(self.plane, self.m), weights):
            out[self.m.rows[row]] += guess
        return out

    def samples(self, r: Floats) -> Whole:
        """Samples of all boxes in units, (C, G B...)."""
        y = samples(r, self.m.B, self.m.d).reshape([self.m.B] * self.m.d + list(self.plane.shape))
        return joined(y, self.m.d).astype(np.int64)


def _few_bytes(steps: Whole) -> bytes:
    """Differences of whole numbers one after the other: a byte for their width, then that many bytes each."""
    differences = np.diff(steps.ravel(), prepend=0)
    width = next(w for w in (1, 2, 4) if w == 4 or np.abs(differences).max() < 1 << (8 * w - 1))
    return bytes([width]) + differences.astype(f"<i{width}").tobytes()


def _few_means(data: bytes, shape: Shape) -> Whole:
    """What :func:`_few_bytes` wrote."""
    width = data[0] if data else 0
    if width not in (1, 2, 4) or len(data) != 1 + width * math.prod(shape):
        raise damaged("begins with a wrong plane")
    steps = np.cumsum(np.frombuffer(data, f"<i{width}", offset=1), dtype=np.int64)
    if int(np.abs(steps).max()) > LARGEST >> FRACTION:
        raise damaged("begins with impossible means")
    return steps.reshape(shape)


@lru_cache(maxsize=1)
def _cut_counts() -> Whole:
    """Counts of boxes that stay and are cut: for even places, then by how many neighbours are cut."""
    return np.array([[64, 64], [96, 16], [80, 32], [64, 64], [32, 80], [16, 96]], np.int64)


def _cut_batches(cuts: NDArray[np.uint8], may: Mask, grid: Shape):  # type: ignore[no-untyped-def]
    """Boxes that may be cut and their classes, even places first; `cuts` is filled by who reads."""
    one = (1, *grid[1:])
    for phase, boxes in enumerate(checkerboard(one)):
        boxes = boxes[may[boxes]]
        if len(boxes):
            classes = np.zeros(len(boxes), np.uint8)
            if phase:
                d, now = len(one) - 1, cuts.astype(np.int32)
                near = sum(now[a[boxes]] + now[b[boxes]] for _, (a, b) in neighbours(one))
                classes = (1 + np.asarray(near) * 4 // (2 * d)).astype(np.uint8)
            yield boxes, classes


# --- writing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Effort:
    """How an encoder chooses.

    Parameters
    ----------
    price : float
        Squared steps a bit is worth.
    sizes : tuple of int
        Sizes of boxes, each half of the one before.
    """

    sizes: tuple[int, ...]
    price: float = PRICE


def padded(x: Floats, B: int) -> Floats:
    """Samples up to whole boxes: the last ones are repeated."""
    width = [(0, 0)] + [(0, -n % B) for n in x.shape[1:]]
    return np.pad(x, width, mode="edge") if any(b for _, b in width) else x


def _last(x: NDArray[np.float32], m: Modes, price: float) -> Places:
    """The last diagonal worth coding in every box: what it and those before it save is largest."""
    q = np.floor(x + np.float32(0.3))
    gain = (2 * x - q) * q - np.float32(price) * (np.float32(4.5) + q) * (q > 0)
    by_diagonal = np.add.reduceat(gain[1:], np.array(m.starts[1:-1]) - 1, axis=0)
    so_far = np.cumsum(by_diagonal, axis=0)
    best = so_far.argmax(axis=0)
    return np.where(so_far[best, np.arange(len(best))] > 0, best + 1, 0)


def _residual(X: Floats, part: Part) -> tuple[Floats, NDArray[np.int8]]:
    """Modes less what the plane predicts, rows sorted, in steps; and the weights of the prediction."""
    found = means.differences(part.plane, part.m)
    which = slice(None) if part.active is None else np.flatnonzero(part.active)
    weights = means.fitted([(row, diff[which]) for row, diff in found], X[:, which])
    X = X.copy()
    for row, guess in means.predicted(found, weights):
        X[row] -= guess / UNIT
    X[0] = 0
    if part.active is not None:
        X *= part.active
    return X, weights


def _points(x: NDArray[np.float32], q: Counts) -> NDArray[np.int8]:
    """How far the mean of what became 1, 2, 3 and more lies below it, in units."""
    points = []
    for n in (1, 2, 3):
        which = np.flatnonzero(q == n if n < 3 else q >= n)
        off = float(np.mean(q.ravel()[which] - x.ravel()[which])) if which.size else 0.0
        points.append(int(np.clip(round(off * UNIT), -UNIT, UNIT)))
    return np.array(points, np.int8)


def _write_part(
    X: Floats,
    part: Part,
    price: float,
    learned: Learned,
    writer: StreamWriter,
    around: Counts | None = None,
) -> tuple[bytes, Floats, Counts]:
    """The head of a part, its modes as a decoder finds them, and magnitudes as contexts see them."""
    X, weights = _residual(X, part)
    x = np.abs(X).astype(np.float32)
    costs = prior(part.m.d).costs
    chooser = Chooser(x, _last(x, part.m, price), price, costs, learned, writer)
    walk = part.walk(around)
    walk.run(learned.contexts, chooser)
    chooser.finish(X < 0)
    points = _points(x, chooser.q)
    q = np.where(X < 0, -chooser.q, chooser.q)
    return points.tobytes() + weights.tobytes(), part.values(q, points, weights), walk.A


def _write_plane(plane: Floats, price: float) -> tuple[list[bytes], Whole]:
    """Sections of a plane of means in steps, and the plane as a decoder finds it."""
    d = plane.ndim - 1
    if few(plane.shape):
        steps = np.rint(plane).astype(np.int64)
        return [_few_bytes(steps)], steps * UNIT
    m = modes(ABOVE[d], d)
    full = padded(plane, m.B)
    X = transformed(full, m.B)[m.rows]
    sections, above = _write_plane(X[0].reshape(boxed(plane.shape, m.B)), price)
    writer, learned = StreamWriter(), Learned(prior(d))
    part = Part(m, above)
    head, r, _ = _write_part(X, part, price, learned, writer)
    found = part.samples(r)[tuple(slice(n) for n in plane.shape)]
    return [*sections, head + writer.content()], found


def _write_cuts(
    finer: Floats, coarse: Whole, cuts: Mask, may: Mask, price: float
) -> tuple[bytes, Whole]:
    """Which boxes are cut and the means of their pieces; the plane of pieces as a decoder finds it."""
    d, grid = coarse.ndim - 1, coarse.shape
    writer, learned = StreamWriter(), Learned(prior(d))
    tables = Adaptive(_cut_counts(), 12)
    one = cuts.astype(np.uint8)
    seen = np.zeros_like(one)
    for boxes, classes in _cut_batches(seen, may, grid):
        writer.symbols(tables, classes, one[boxes])
        seen[boxes] = one[boxes]
    m = modes(2, d)
    part = Part(m, coarse, np.tile(cuts, grid[0]))
    head, r, _ = _write_part(transformed(finer, 2)[m.rows], part, price, learned, writer)
    return head + writer.content(), part.samples(r)


def _pricer(X: Floats, B: int, grid: Shape, price: float, wanted: Mask | None = None) -> Pricer:
    """What boxes of one size would cost, or only those that are wanted."""
    m = modes(B, len(grid) - 1)
    part = Part(m, np.rint(X[0] * UNIT).astype(np.int64).reshape(grid), wanted)
    residual, _ = _residual(X, part)
    x = np.abs(residual, dtype=np.float32)
    beliefs = prior(m.d)
    pricer = Pricer(x, _last(x, m, price), price, beliefs.costs, beliefs.flag_costs)
    part.walk().run(beliefs.contexts, pricer)
    return pricer


def rough_price(x: Floats, B: int, halvings: int = 0) -> float:
    """A rough price of samples in steps, in boxes of one size: the rarer modes are, the dearer.

    `halvings` adds what it takes to tell the means of boxes so much larger from those of the boxes.
    """
    Y = transformed(padded(x, B), B)
    found = [Y[1:].ravel()]
    plane = Y[0].reshape(boxed(x.shape, B))
    for _ in range(halvings):
        Y = transformed(padded(plane, 2), 2)
        found.append(Y[1:].ravel())
        plane = Y[0].reshape(boxed(plane.shape, 2))
    X = np.abs(np.concatenate(found), dtype=np.float32)
    large = X[X > 0.6].astype(np.float64)
    rarity = np.log2(X.size / max(large.size, 1))
    coded = 1 / 12 + PRICE * (rarity + 2.5 + 2 * np.log2(large))
    lost = float(np.dot(X, X)) - float(np.sum(large * large))
    return lost + float(np.minimum(large * large, coded).sum())


def priced(x: Floats, B: int, price: float = PRICE) -> tuple[float, float]:
    """About the squared error in steps and the bits of samples in steps, in boxes of one size."""
    full = padded(x, B)
    m, error, bits = modes(B, x.ndim - 1), 0.0, 0.0
    X = transformed(full, B)[m.rows]
    pricer = _pricer(X, B, boxed(x.shape, B), price)
    error, bits = float(pricer.error.sum()), float(pricer.bits.sum())
    means_bits = np.log2(1 + np.abs(np.diff(X[0]))).sum() * 1.2 if X.shape[1] > 1 else 0.0
    return error * x.size / full.size + X.shape[1] / 12, bits + float(means_bits) + 300


def _detail_price(finer: Floats, coarse: Floats, price: float) -> Floats:
    """About what the means of pieces cost in squared steps, shape (boxes,)."""
    m = modes(2, finer.ndim - 1)
    part = Part(m, np.rint(coarse * UNIT).astype(np.int64))
    x = np.abs(_residual(transformed(finer, 2)[m.rows], part)[0][1:])
    zero, coded = x * x + 0.7 * price, 1 / 12 + price * (2 * np.log2(np.maximum(x, 0.5)) + 4.5)
    return np.minimum(zero, coded).reshape(len(x), finer.shape[0], -1).sum(axis=(0, 1))


def _halves(x: Floats, grid: Shape) -> Floats:
    """Sums over the pieces of boxes: one channel's (2G ...,) as (G ...,)."""
    pairs = [v for g in grid[1:] for v in (g, 2)]
    return np.asarray(x.reshape(pairs).sum(axis=tuple(range(1, len(pairs), 2))).ravel())


def _partition(modes_of: dict[int, Floats], shape: Shape, effort: Effort) -> list[Mask]:
    """For each size but the smallest, which boxes of a channel are cut.

    The middle size is priced first. Smaller boxes are then tried only where there is something to code,
    larger ones only where there is little.
    """
    sizes, price, C = effort.sizes, effort.price, shape[0]
    middle = min(1, len(sizes) - 1)
    bits, costs = {}, {}
    for j in (middle, *range(middle + 1, len(sizes)), *range(middle - 1, -1, -1)):
        B, grid, wanted = sizes[j], boxed(shape, sizes[j]), None
        volume = C * B ** (len(shape) - 1)
        if j > middle:
            above = boxed(shape, 2 * B)
            enough = bits[2 * B] > SPARSE * volume * 2 ** (len(shape) - 1)
            wanted = pieces(enough, (1, *above[1:]))
        elif j < middle:
            wanted = _halves(bits[B // 2], grid) < DENSE * volume
        tiled = None if wanted is None else np.tile(wanted, C)
        pricer = _pricer(modes_of[B], B, grid, price, tiled)
        bits[B] = pricer.bits.reshape(C, -1).sum(axis=0, dtype=np.float64)
        costs[B] = pricer.error.reshape(C, -1).sum(axis=0, dtype=np.float64) + price * bits[B]
        if wanted is not None:
            costs[B][~wanted] = np.inf
    best, cuts = costs[sizes[-1]], []
    for B in reversed(sizes[:-1]):
        grid = boxed(shape, B)
        finer = modes_of[B // 2][0].reshape(boxed(shape, B // 2))
        halves = _halves(best, grid)
        halves += _detail_price(finer, modes_of[B][0].reshape(grid), price) + price
        cut = halves * (1 + HESITATION) < costs[B]
        cuts.append(cut)
        best = np.where(cut, halves, costs[B])
    return cuts[::-1]


def written(x: Floats, effort: Effort) -> tuple[list[bytes], Whole]:
    """Sections, the smallest level first, and the samples a decoder finds, in units of ``step / 2^FRACTION``.

    Parameters
    ----------
    x : array, shape (C, n_1, ..., n_d)
        Samples in steps.
    """
    d, sizes, price = x.ndim - 1, effort.sizes, effort.price
    full = padded(x, sizes[0])
    X = {B: transformed(full, B)[modes(B, d).rows] for B in sizes}
    cuts = _partition(X, full.shape, effort) if len(sizes) > 1 else []
    may = np.ones(X[sizes[0]].shape[1] // x.shape[0], bool)
    sections, plane = _write_plane(X[sizes[0]][0].reshape(boxed(full.shape, sizes[0])), price)
    parts = []
    for B, cut in zip(sizes, [*cuts, None]):
        C = x.shape[0]
        if cut is None or not (may & cut).any():
            parts.append(Part(modes(B, d), plane, None if may.all() else np.tile(may, C)))
            break
        parts.append(Part(modes(B, d), plane, np.tile(may & ~cut, C)))
        finer = X[B // 2][0].reshape(boxed(full.shape, B // 2))
        section, finer_plane = _write_cuts(finer, plane, may & cut, may, price)
        sections.append(section)
        may = pieces(may & cut, (1, *plane.shape[1:]))
        plane = finer_plane
    return _write_boxes(X, parts, price, sections, x.shape)


def _write_boxes(
    X: dict[int, Floats], parts: list[Part], price: float, sections: list[bytes], shape: Shape
) -> tuple[list[bytes], Whole]:
    """The last section, and the samples."""
    writer, learned, heads = StreamWriter(), Learned(prior(len(shape) - 1)), []
    around, out = None, None
    for part in parts:
        head, r, A = _write_part(X[part.m.B], part, price, learned, writer, around)
        heads.append(head)
        out = _placed(out, part, r)
        if part is not parts[-1]:
            around = _around(A, part.m, part.plane.shape)
    assert out is not None
    section = b"".join(heads) + writer.content()
    return [*sections, section], out[tuple(slice(n) for n in shape)]


def _placed(out: Whole | None, part: Part, r: Floats) -> Whole:
    """Samples of a part put where its boxes are."""
    if part.active is None:
        return part.samples(r)
    B, d = part.m.B, part.m.d
    grid = part.plane.shape
    out = np.zeros((grid[0], *(g * B for g in grid[1:])), np.int64) if out is None else out
    which = np.flatnonzero(part.active)
    if which.size:
        y = samples(np.ascontiguousarray(r[:, which]), B, d).astype(np.int64)
        place = np.unravel_index(which, grid)
        split = out.reshape(grid[0], *(v for g in grid[1:] for v in (g, B)))
        order = [0, *(1 + 2 * k for k in range(d)), *(2 + 2 * k for k in range(d))]
        split.transpose(order)[place] = y.T.reshape([-1] + [B] * d)
    return out


# --- reading --------------------------------------------------------------------------------------


def read(
    sections: list[bytes], shape: Shape, B: int, n_cuts: int, *, only_means: bool = False
) -> Whole:
    """Samples in units of ``step / 2^FRACTION``; or the plane of the means of the largest boxes."""
    C, d = shape[0], len(shape) - 1
    above = planes(shape, B)
    if len(sections) < len(above) + (0 if only_means else n_cuts + 1):
        raise damaged("has too few sections")
    plane = _few_means(sections[0], above[-1]) * UNIT
    for wanted, data in zip(reversed(above[:-1]), sections[1:]):
        reader, learned = None, Learned(prior(d))
        part = Part(modes(ABOVE[d], d), plane)
        heads, reader = _heads(data, [part])
        plane = part.samples(_read_parts([part], heads, learned, reader)[0])
        plane = plane[tuple(slice(n) for n in wanted)]
    if only_means:
        return plane
    return _read_boxes(sections[len(above) :], plane, shape, B, n_cuts)


def _heads(
    data: bytes, parts: list[Part]
) -> tuple[list[tuple[NDArray[np.int8], NDArray[np.int8]]], StreamReader]:
    """Points and weights of the parts of a section, and the reader of its stream."""
    heads, a = [], 0
    for part in parts:
        n = part.m.starts[min(3, len(part.m.starts) - 1)] - 1
        if len(data) < a + 3 + n + 3:
            raise damaged("has a section that is too short")
        heads.append((np.frombuffer(data, np.int8, 3, a), np.frombuffer(data, np.int8, n, a + 3)))
        a += 3 + n
    return heads, StreamReader(data[a:])


def _read_parts(
    parts: list[Part],
    heads: list[tuple[NDArray[np.int8], NDArray[np.int8]]],
    learned: Learned,
    reader: StreamReader,
) -> list[Floats]:
    """Modes of all parts of a section in units, natural order."""
    around, walked = None, []
    for part in parts:
        walk, follower = part.walk(around), Follower(learned, reader)
        walk.run(learned.contexts, follower)
        walked.append((walk, follower))
        if part is not parts[-1]:
            around = _around(walk.A, part.m, part.plane.shape)
    reader.finish()
    found = []
    for part, (walk, follower), (points, weights) in zip(parts, walked, heads):
        q = follower.finish(walk.A, part.active)
        if int(np.abs(q).max(initial=0)) > LARGEST_MAGNITUDE:
            raise damaged("has an impossible magnitude")
        r = part.values(q, points, weights)
        if float(np.abs(r).max(initial=0)) * (2 * part.m.B) ** ((part.m.d - 1) / 2) > LARGEST:
            raise damaged("has impossible values")
        found.append(r)
    return found


def _read_boxes(sections: list[bytes], plane: Whole, shape: Shape, B: int, n_cuts: int) -> Whole:
    """Samples from the sections below the plane of the largest boxes."""
    C, d = shape[0], len(shape) - 1
    may, parts = np.ones(int(np.prod(plane.shape[1:])), bool), []
    for data in sections[:n_cuts]:
        learned, m = Learned(prior(d)), modes(2, d)
        heads, reader = _heads(data, [Part(m, plane)])
        cuts, tables = np.zeros(len(may), np.uint8), Adaptive(_cut_counts(), 12)
        for boxes, classes in _cut_batches(cuts, may, plane.shape):
            cuts[boxes] = reader.symbols(tables, classes)
        cut = cuts > 0
        part = Part(m, plane, np.tile(cut, C))
        parts.append(Part(modes(B, d), plane, np.tile(may & ~cut, C)))
        may = pieces(cut, (1, *plane.shape[1:]))
        plane = part.samples(_read_parts([part], heads, learned, reader)[0])
        B //= 2
    parts.append(Part(modes(B, d), plane, None if may.all() else np.tile(may, C)))
    heads, reader = _heads(sections[n_cuts], parts)
    out = None
    for part, r in zip(parts, _read_parts(parts, heads, Learned(prior(d)), reader)):
        out = _placed(out, part, r)
    assert out is not None
    return out[tuple(slice(n) for n in shape)]
