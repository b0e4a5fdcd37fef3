"""Samples in steps to sections of bytes.

What the encoder quantises it predicts from what the decoder will have of the sections before.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import pays
from elmfield.codec.ans import AdaptiveTables
from elmfield.codec.lossy import read, transform
from elmfield.codec.lossy.coder import (
    BIT_PRICE,
    Pricer,
    Quantiser,
    StreamWriter,
    code_boxes,
    down,
    section_tables,
)
from elmfield.codec.lossy.contexts import Counts, Places, load_prior
from elmfield.codec.lossy.read import Mask, Part, Shape, grid_shape, is_few, repeat_for_pieces
from elmfield.codec.lossy.transform import FRACTION, LARGEST, UNIT, Floats, Modes, Whole, modes

SPARSE_BITS, DENSE_BITS = 0.1, 0.5
"""Bits a sample below which boxes are not tried in pieces, above which not as one."""
CUT_MARGIN = 0.03
"""Boxes are cut where it saves this part of their price: mixed sizes know less of each other."""


def pad_to_boxes(x: Floats, B: int) -> Floats:
    """Return samples up to whole boxes: the last ones are repeated."""
    width = [(0, 0)] + [(0, -n % B) for n in x.shape[1:]]
    return np.pad(x, width, mode="edge") if any(b for _, b in width) else x


class TooFineError(ValueError):
    """A step so small that a decoder's whole numbers would be too large."""


def find_last(x: NDArray[np.float32], m: Modes) -> Places:
    """Return the last diagonal worth coding in every box: all up to it save most."""
    single = np.float32
    if pays(0):
        from elmfield.codec.lossy import sample_loops

        price, first = single(BIT_PRICE), single(4.5 * BIT_PRICE)
        return sample_loops.find_last(x, np.array(m.starts), price, first)
    q = np.floor(x + single(0.3))
    gain = (x + x - q - single(BIT_PRICE)) * q
    gain -= np.minimum(q, single(1)) * single(4.5 * BIT_PRICE)
    by_diagonal = np.stack([down(gain[a:b]) for a, b in pairwise(m.starts[1:])])
    so_far = np.cumsum(by_diagonal, axis=0, out=by_diagonal)
    best = so_far.argmax(axis=0)
    return np.where(so_far[best, np.arange(len(best))] > 0, best + 1, 0)


@dataclass
class Residual:
    """Modes in steps less what the plane predicts, rows sorted.

    Parameters
    ----------
    magnitudes : array, shape (M, boxes)
        In single precision; the first mode is coded elsewhere.
    rows : list of (row, modes)
        Those that are predicted, with their signs.
    weights : array of int8
        Of prediction.
    """

    magnitudes: NDArray[np.float32]
    rows: list[tuple[int, Floats]]
    weights: NDArray[np.int8]

    @classmethod
    def of(cls, X: Floats, part: Part) -> "Residual":
        """Return what is left of modes."""
        which = slice(None) if part.active is None else np.flatnonzero(part.active)
        known = [(row, diff[which]) for row, diff in part.differences]
        weights = transform.fit_weights(known, X[:, which])
        guesses = transform.predict_rows(part.differences, weights)
        rows = [(row, (X[row] - guess / UNIT).astype(X.dtype)) for row, guess in guesses]
        x = np.abs(X, dtype=X.dtype).astype(np.float32, copy=False)
        for row, left in rows:
            np.abs(left, out=x[row], casting="same_kind")
        x[0] = 0
        return cls(x, rows, weights)

    def signs(self, X: Floats) -> NDArray[np.bool_]:
        """Return which are negative."""
        negative = X < 0
        for row, left in self.rows:
            negative[row] = left < 0
        return negative


def _write_part(
    X: Floats,
    part: Part,
    tables: tuple[AdaptiveTables, AdaptiveTables],
    writer: StreamWriter,
    around: Counts | None = None,
    *,
    every: bool = True,
) -> tuple[bytes, Floats, Counts]:
    """Return the head of a part, its modes as a decoder finds them, magnitudes of contexts."""
    left = Residual.of(X, part)
    x, weights = left.magnitudes, left.weights
    walk, prior = part.walk(around), load_prior(part.m.d)
    coder = Quantiser(prior, x, find_last(x, part.m), tables, writer)
    code_boxes(walk, prior, coder)
    q, off = coder.finish(left.signs(X))
    points = np.clip(np.rint(off * UNIT), -UNIT, UNIT).astype(np.int8)
    r = part.values(q, points, weights, every=every)
    if part.overflows(q, r):
        raise TooFineError
    return points.tobytes() + weights.tobytes(), r, walk.A


def _write_plane(plane: Floats) -> tuple[list[bytes], Whole]:
    """Return sections of a plane of means in steps, and the plane as a decoder finds it."""
    d = plane.ndim - 1
    if is_few(plane.shape):
        steps = np.rint(plane).astype(np.int64)
        if int(np.abs(steps).max(initial=0)) > LARGEST >> FRACTION:
            raise TooFineError
        change = np.diff(steps.ravel(), prepend=0)
        width = next(w for w in (1, 2, 4) if w == 4 or np.abs(change).max() < 1 << (8 * w - 1))
        return [bytes([width]) + change.astype(f"<i{width}").tobytes()], steps * UNIT
    m = modes(read.PLANE_BOX[d], d)
    X = transform.find_modes(pad_to_boxes(plane, m.B), m.B)[m.rows]
    sections, above = _write_plane(X[0].reshape(grid_shape(plane.shape, m.B)))
    writer, part = StreamWriter(), Part(m, above)
    head, r, _ = _write_part(X, part, section_tables(d), writer)
    found = part.samples(r)[tuple(slice(n) for n in plane.shape)]
    return [*sections, head + writer.content()], found


def _write_cuts(finer: Floats, coarse: Whole, cuts: Mask, may: Mask) -> tuple[bytes, Whole]:
    """Write which boxes are cut, and means of pieces; return the plane as a decoder finds it."""
    d, grid = coarse.ndim - 1, coarse.shape
    writer, tables = StreamWriter(), AdaptiveTables(read.CUT_COUNTS)
    one = cuts.astype(np.uint8)
    seen = np.zeros_like(one)
    for boxes, classes in read.cut_batches(seen, may, grid):
        writer.symbols(tables, classes, one[boxes])
        seen[boxes] = one[boxes]
    m = modes(2, d)
    part, learned = Part(m, coarse, np.tile(cuts, grid[0])), section_tables(d)
    head, r, _ = _write_part(transform.find_modes(finer, 2)[m.rows], part, learned, writer)
    return head + writer.content(), part.samples(r)


def _price_boxes(X: Floats, B: int, grid: Shape, wanted: Mask | None = None) -> Pricer:
    """Return what boxes of one size would cost, or only those that are wanted."""
    m = modes(B, len(grid) - 1)
    part = Part(m, np.rint(X[0] * UNIT).astype(np.int64).reshape(grid), wanted)
    x = Residual.of(X, part).magnitudes
    prior = load_prior(m.d)
    pricer = Pricer(prior, x, find_last(x, m), m.starts)
    code_boxes(part.walk(), prior, pricer)
    return pricer


def fits(x: Floats, B: int) -> bool:
    """Whether modes of samples in steps, in boxes of one size, are small enough for a decoder."""
    d, plane = x.ndim - 1, x
    while True:
        X = transform.find_modes(pad_to_boxes(plane, B), B)
        if 1.25 * float(np.abs(X).max()) * UNIT * (2 * B) ** ((d - 1) / 2) > LARGEST:
            return False
        plane = X[0].reshape(grid_shape(plane.shape, B))
        if is_few(plane.shape):
            return bool(1.25 * np.abs(plane).max() < LARGEST >> FRACTION)
        B = read.PLANE_BOX[d]


def rough_price(x: Floats, B: int, halvings: int = 0) -> float:
    """Return a rough price of samples in steps, in boxes of one size: rare modes cost more.

    `halvings` adds what it takes to tell the means of boxes so much larger from those of the boxes.
    """
    Y = transform.find_modes(pad_to_boxes(x, B), B)
    found = [Y[1:].ravel()]
    plane = Y[0].reshape(grid_shape(x.shape, B))
    for _ in range(halvings):
        Y = transform.find_modes(pad_to_boxes(plane, 2), 2)
        found.append(Y[1:].ravel())
        plane = Y[0].reshape(grid_shape(plane.shape, 2))
    X = np.abs(np.concatenate(found), dtype=np.float32)
    large = X[X > 0.6].astype(np.float64)
    rarity = np.log2(X.size / max(large.size, 1))
    coded = 1 / 12 + BIT_PRICE * (rarity + 2.5 + 2 * np.log2(large))
    lost = float(np.dot(X, X)) - float(np.sum(large * large))
    return lost + float(np.minimum(large * large, coded).sum())


def estimate(x: Floats, B: int) -> tuple[Floats, float]:
    """Return about the squared errors of boxes in steps and the bits of all; boxes of one size."""
    full = pad_to_boxes(x, B)
    X = transform.find_modes(full, B)[modes(B, x.ndim - 1).rows]
    pricer = _price_boxes(X, B, grid_shape(x.shape, B))
    means_bits = np.log2(1 + np.abs(np.diff(X[0]))).sum() * 1.2 if X.shape[1] > 1 else 0.0
    errors = pricer.error * (x.size / full.size) + 1 / 12
    return errors.astype(np.float64), float(pricer.bits.sum()) + float(means_bits) + 300


def _price_details(finer: Floats, coarse: Floats) -> Floats:
    """Return about what the means of pieces cost in squared steps, shape (boxes,)."""
    m, price = modes(2, finer.ndim - 1), BIT_PRICE
    part = Part(m, np.rint(coarse * UNIT).astype(np.int64))
    x = Residual.of(transform.find_modes(finer, 2)[m.rows], part).magnitudes[1:]
    zero, coded = x * x + 0.7 * price, 1 / 12 + price * (2 * np.log2(np.maximum(x, 0.5)) + 4.5)
    best = np.minimum(zero, coded).reshape(len(x), finer.shape[0], -1)
    return np.asarray(best.sum(axis=(0, 1)))


def _add_pieces(x: Floats, grid: Shape) -> Floats:
    """Return sums over the pieces of boxes: one channel's (2G ...,) as (G ...,)."""
    pairs = [v for g in grid[1:] for v in (g, 2)]
    return np.asarray(x.reshape(pairs).sum(axis=tuple(range(1, len(pairs), 2))).ravel())


def _choose_cuts(
    modes_of: dict[int, Floats], shape: Shape, sizes: tuple[int, ...], usual: int
) -> list[Mask]:
    """Return, for each size but the smallest, which boxes of a channel are cut.

    The usual size is priced first. Smaller boxes are then tried only where there is something to
    code, larger ones only where there is little.
    """
    C, price, middle = shape[0], BIT_PRICE, usual
    bits: dict[int, Floats] = {}
    costs: dict[int, Floats] = {}
    for j in (middle, *range(middle + 1, len(sizes)), *range(middle - 1, -1, -1)):
        B, grid, wanted = sizes[j], grid_shape(shape, sizes[j]), None
        volume = C * B ** (len(shape) - 1)
        if j > middle:
            above = grid_shape(shape, 2 * B)
            enough = bits[2 * B] > SPARSE_BITS * volume * 2 ** (len(shape) - 1)
            wanted = repeat_for_pieces(enough, (1, *above[1:])).astype(bool)
        elif j < middle:
            wanted = _add_pieces(bits[B // 2], grid) < DENSE_BITS * volume
        tiled = None if wanted is None else np.tile(wanted, C)
        pricer = _price_boxes(modes_of[B], B, grid, tiled)
        bits[B] = pricer.bits.reshape(C, -1).sum(axis=0, dtype=np.float64)
        costs[B] = pricer.error.reshape(C, -1).sum(axis=0, dtype=np.float64) + price * bits[B]
        if wanted is not None:
            costs[B][~wanted] = np.inf
    best, cuts = costs[sizes[-1]], []
    for B in reversed(sizes[:-1]):
        grid = grid_shape(shape, B)
        finer = modes_of[B // 2][0].reshape(grid_shape(shape, B // 2))
        halves = _add_pieces(best, grid)
        halves += _price_details(finer, modes_of[B][0].reshape(grid)) + price
        cut = halves * (1 + CUT_MARGIN) < costs[B]
        cuts.append(cut)
        best = np.where(cut, halves, costs[B])
    return cuts[::-1]


def write_boxes(
    x: Floats, sizes: tuple[int, ...], usual: int = 0
) -> tuple[list[bytes], Whole, NDArray[np.uint8]]:
    """Return sections, the smallest level first; samples as decoded, in units; sizes of boxes.

    Parameters
    ----------
    x : array, shape (C, n_1, ..., n_d)
        Samples in steps.
    sizes : tuple of int
        Sizes of boxes, each half of the one before.
    usual : int
        Which of them most boxes are thought to have.
    """
    C, d = x.shape[0], x.ndim - 1
    full = pad_to_boxes(x, sizes[0])
    X = {B: transform.find_modes(full, B)[modes(B, d).rows] for B in sizes}
    cuts = _choose_cuts(X, full.shape, sizes, usual) if len(sizes) > 1 else []
    may = np.ones(X[sizes[0]].shape[1] // C, bool)
    sections, plane = _write_plane(X[sizes[0]][0].reshape(grid_shape(full.shape, sizes[0])))
    parts = []
    for B, cut in zip(sizes, [*cuts, None]):
        if cut is None or not (may & cut).any():
            parts.append(Part(modes(B, d), plane, None if may.all() else np.tile(may, C)))
            break
        parts.append(Part(modes(B, d), plane, np.tile(may & ~cut, C)))
        finer = X[B // 2][0].reshape(grid_shape(full.shape, B // 2))
        section, finer_plane = _write_cuts(finer, plane, may & cut, may)
        sections.append(section)
        may = repeat_for_pieces(may & cut, (1, *plane.shape[1:]))
        plane = finer_plane
    section, y = _write_modes(X, parts, x.shape)
    return [*sections, section], y, read.box_sizes(parts, x.shape)


def _write_modes(X: dict[int, Floats], parts: list[Part], shape: Shape) -> tuple[bytes, Whole]:
    """Return the last section, and the samples."""
    writer, tables, heads = StreamWriter(), section_tables(len(shape) - 1), []
    around, out = None, None
    for part in parts:
        head, r, A = _write_part(X[part.m.B], part, tables, writer, around, every=False)
        heads.append(head)
        out = part.place_samples(r, out)
        if part is not parts[-1]:
            around = read.halve_magnitudes(A, part.m, part.plane.shape)
    assert out is not None
    return b"".join(heads) + writer.content(), out[tuple(slice(n) for n in shape)]
