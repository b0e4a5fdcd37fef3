"""Samples in steps to sections of bytes.

What the encoder quantises it predicts from what the decoder will have of the sections before.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.lossy import means
from elmfield.codec.lossy.boxes import FRACTION, LARGEST, Floats, Modes, modes, transformed
from elmfield.codec.lossy.contexts import Counts, Places
from elmfield.codec.lossy.parts import (
    ABOVE,
    UNIT,
    Mask,
    Part,
    Shape,
    Whole,
    box_sizes,
    boxed,
    cut_batches,
    cut_tables,
    few,
    few_bytes,
    halved_magnitudes,
    pieces,
    placed,
    too_large,
)
from elmfield.codec.lossy.priors import prior
from elmfield.codec.lossy.streams import Chooser, Learned, Pricer, StreamWriter, down
from elmfield.codec.lossy.walking import walked

PRICE = 0.1155
"""Squared steps a bit is worth: the slope of distortion at high rates, 2 ln 2 / 12."""
SPARSE, DENSE = 0.1, 0.5
"""Bits a sample below which boxes are not tried in pieces, above which not as one."""
AT_ONCE = 1 << 15
"""Modes that are looked at together."""
HESITATION = 0.03
"""Boxes are cut where it saves this part of their price: mixed sizes know less of each other."""


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


class TooFineError(ValueError):
    """A step so small that a decoder's whole numbers would be too large."""


def _last(x: NDArray[np.float32], m: Modes, price: float) -> Places:
    """The last diagonal worth coding in every box: what it and those before it save is largest."""
    if compiled.pays(0):
        from elmfield.codec.lossy import loops

        found: Places = loops.last(x, np.array(m.starts, np.int64), price)
        return found
    single, n = np.float32, m.n_diagonals
    by_diagonal = np.empty((n - 1, x.shape[1]), single)
    each = max(1, AT_ONCE // max(1, x.size // n))
    for s in range(1, n, each):  # some diagonals at a time: they stay in a cache
        rows = m.starts[s : min(s + each, n) + 1]
        part = x[rows[0] : rows[-1]]
        q = part + single(0.3)
        np.floor(q, out=q)
        gain = part + part
        gain -= q
        gain -= single(price)
        gain *= q
        np.minimum(q, single(1), out=q)
        q *= single(4.5 * price)
        gain -= q
        for k, (a, b) in enumerate(pairwise(rows)):
            by_diagonal[s - 1 + k] = down(gain[a - rows[0] : b - rows[0]])
    so_far = np.cumsum(by_diagonal, axis=0, out=by_diagonal)
    best = so_far.argmax(axis=0)
    return np.where(so_far[best, np.arange(len(best))] > 0, best + 1, 0)


def _residual(X: Floats, part: Part) -> tuple[Floats, NDArray[np.int8]]:
    """Modes less what the plane predicts, rows sorted, in steps; the weights of the prediction."""
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


def _write_part(
    X: Floats,
    part: Part,
    price: float,
    learned: Learned,
    writer: StreamWriter,
    around: Counts | None = None,
    *,
    all_boxes: bool = True,
) -> tuple[bytes, Floats, Counts]:
    """The head of a part, its modes as a decoder finds them, magnitudes as contexts see them."""
    X, weights = _residual(X, part)
    x = np.abs(X).astype(np.float32)
    costs = prior(part.m.d).costs
    chooser = Chooser(x, _last(x, part.m, price), price, costs, learned, writer)
    walk = part.walk(around)
    walked(walk, learned.contexts, chooser)
    q, off = chooser.finish(X < 0)
    points = np.clip(np.rint(off * UNIT), -UNIT, UNIT).astype(np.int8)
    made = part.values if all_boxes else part.active_values
    r = made(q, points, weights)
    if too_large(q, r, part):
        raise TooFineError
    return points.tobytes() + weights.tobytes(), r, walk.A


def _write_plane(plane: Floats, price: float) -> tuple[list[bytes], Whole]:
    """Sections of a plane of means in steps, and the plane as a decoder finds it."""
    d = plane.ndim - 1
    if few(plane.shape):
        steps = np.rint(plane).astype(np.int64)
        if int(np.abs(steps).max(initial=0)) > LARGEST >> FRACTION:
            raise TooFineError
        return [few_bytes(steps)], steps * UNIT
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
    """Which boxes are cut, the means of their pieces; the plane of pieces as a decoder finds it."""
    d, grid = coarse.ndim - 1, coarse.shape
    writer, learned = StreamWriter(), Learned(prior(d))
    tables = cut_tables()
    one = cuts.astype(np.uint8)
    seen = np.zeros_like(one)
    for boxes, classes in cut_batches(seen, may, grid):
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
    pricer = Pricer(x, _last(x, m, price), price, beliefs.costs, beliefs.flag_costs, m.starts)
    walked(part.walk(), beliefs.contexts, pricer)
    return pricer


def fits(x: Floats, B: int) -> bool:
    """Whether modes of samples in steps, in boxes of one size, are small enough for a decoder."""
    d, plane = x.ndim - 1, x
    while True:
        X = transformed(padded(plane, B), B)
        if 1.25 * float(np.abs(X).max()) * UNIT * (2 * B) ** ((d - 1) / 2) > LARGEST:
            return False
        plane = X[0].reshape(boxed(plane.shape, B))
        if few(plane.shape):
            return bool(1.25 * np.abs(plane).max() < LARGEST >> FRACTION)
        B = ABOVE[d]


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


def priced(x: Floats, B: int, price: float = PRICE) -> tuple[Floats, float]:
    """About the squared errors of boxes in steps and the bits of all; boxes of one size."""
    full = padded(x, B)
    X = transformed(full, B)[modes(B, x.ndim - 1).rows]
    pricer = _pricer(X, B, boxed(x.shape, B), price)
    means_bits = np.log2(1 + np.abs(np.diff(X[0]))).sum() * 1.2 if X.shape[1] > 1 else 0.0
    errors = pricer.error * (x.size / full.size) + 1 / 12
    return errors.astype(np.float64), float(pricer.bits.sum()) + float(means_bits) + 300


def _detail_price(finer: Floats, coarse: Floats, price: float) -> Floats:
    """About what the means of pieces cost in squared steps, shape (boxes,)."""
    m = modes(2, finer.ndim - 1)
    part = Part(m, np.rint(coarse * UNIT).astype(np.int64))
    x = np.abs(_residual(transformed(finer, 2)[m.rows], part)[0][1:])
    zero, coded = x * x + 0.7 * price, 1 / 12 + price * (2 * np.log2(np.maximum(x, 0.5)) + 4.5)
    best = np.minimum(zero, coded).reshape(len(x), finer.shape[0], -1)
    return np.asarray(best.sum(axis=(0, 1)))


def _halves(x: Floats, grid: Shape) -> Floats:
    """Sums over the pieces of boxes: one channel's (2G ...,) as (G ...,)."""
    pairs = [v for g in grid[1:] for v in (g, 2)]
    return np.asarray(x.reshape(pairs).sum(axis=tuple(range(1, len(pairs), 2))).ravel())


def _partition(modes_of: dict[int, Floats], shape: Shape, effort: Effort) -> list[Mask]:
    """For each size but the smallest, which boxes of a channel are cut.

    The middle size is priced first. Smaller boxes are then tried only where there is something to
    code, larger ones only where there is little.
    """
    sizes, price, C = effort.sizes, effort.price, shape[0]
    middle = min(1, len(sizes) - 1)
    bits: dict[int, Floats] = {}
    costs: dict[int, Floats] = {}
    for j in (middle, *range(middle + 1, len(sizes)), *range(middle - 1, -1, -1)):
        B, grid, wanted = sizes[j], boxed(shape, sizes[j]), None
        volume = C * B ** (len(shape) - 1)
        if j > middle:
            above = boxed(shape, 2 * B)
            enough = bits[2 * B] > SPARSE * volume * 2 ** (len(shape) - 1)
            wanted = pieces(enough, (1, *above[1:])).astype(bool)
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


def written(x: Floats, effort: Effort) -> tuple[list[bytes], Whole, NDArray[np.uint8]]:
    """Sections, the smallest level first; the samples a decoder finds, in units; sizes of boxes.

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
    section, y = _write_boxes(X, parts, price, x.shape)
    return [*sections, section], y, box_sizes(parts, x.shape)


def _write_boxes(
    X: dict[int, Floats], parts: list[Part], price: float, shape: Shape
) -> tuple[bytes, Whole]:
    """The last section, and the samples."""
    writer, learned, heads = StreamWriter(), Learned(prior(len(shape) - 1)), []
    around, out = None, None
    for part in parts:
        head, r, A = _write_part(X[part.m.B], part, price, learned, writer, around, all_boxes=False)
        heads.append(head)
        out = placed(out, part, r)
        if part is not parts[-1]:
            around = halved_magnitudes(A, part.m, part.plane.shape)
    assert out is not None
    return b"".join(heads) + writer.content(), out[tuple(slice(n) for n in shape)]
