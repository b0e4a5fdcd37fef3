"""Sections of a tile: samples in steps to bytes, and back.

The means of boxes come first, without loss: a decoder that stops early has a small picture. The
other modes of boxes follow. What the encoder quantises it predicts from means as the decoder will
have them.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield.codec import lossless
from elmfield.codec.ans import AdaptiveTables, StreamReader, StreamWriter
from elmfield.codec.container import damaged
from elmfield.codec.lossy import contexts, deblock, transform
from elmfield.codec.lossy.contexts import BoxWalk, Counts, Places, Prior, Small, load_prior
from elmfield.codec.lossy.transform import FRACTION, LARGEST, UNIT, Floats, Modes, Whole, modes

Shape = tuple[int, ...]

LARGEST_MEAN = LARGEST >> FRACTION
"""Of boxes, in steps."""
BIT_PRICE = 0.1155
"""Squared steps a bit is worth: the slope of distortion at high rates, 2 ln 2 / 12."""
PATIENCE_SYMBOLS = 1024
"""Tables learn after so many symbols and an eighth of all before."""


def grid_shape(shape: Shape, B: int) -> Shape:
    """Return channels and numbers of boxes along each axis."""
    return (shape[0], *(-(-n // B) for n in shape[1:]))


@dataclass(frozen=True)
class Part:
    """Boxes of one size: their modes, and the plane of their means."""

    m: Modes
    plane: Whole  # (C, G...)

    @cached_property
    def differences(self) -> Whole:
        """What the rows that can be predicted follow."""
        return transform.plane_differences(self.plane, self.m)

    def walk(self) -> BoxWalk:
        """Return the order of coding."""
        return BoxWalk(self.m.B, self.plane.shape, transform.expect_magnitudes(self.plane))

    def values(self, q: Counts, points: NDArray[np.int8], weights: NDArray[np.int8]) -> Floats:
        """Return modes in units, natural order, as whole floats."""
        out = np.zeros(q.shape, np.float64)
        some = np.flatnonzero(q != 0)  # of bools it takes half the time
        v = q.ravel()[some]
        a = np.abs(v)
        r = a * float(UNIT) - points.astype(np.float64)[np.minimum(a, 3) - 1]
        i, j = np.divmod(some, q.shape[1])
        out[self.m.rows[i], j] = np.where(v < 0, -r, r)
        out[0] = self.plane.ravel()
        out[self.m.rows[1 : len(weights) + 1]] += transform.predict_rows(self.differences, weights)
        return out

    def samples(self, r: Floats) -> Whole:
        """Return samples of all boxes in units, (C, G B...)."""
        shape = [self.m.B] * self.m.d + list(self.plane.shape)
        y = transform.find_samples(r, self.m.B, self.m.d).reshape(shape)
        return transform.join_boxes(y, self.m.d)

    def overflows(self, q: NDArray[Any], r: Floats) -> bool:
        """Whether counts, or modes made of them, exceed what a decoder's whole numbers hold."""
        growth = (2 * self.m.B) ** ((self.m.d - 1) / 2)
        largest, most = (max(-float(a.min(initial=0)), float(a.max(initial=0))) for a in (q, r))
        return largest > contexts.LARGEST_MAGNITUDE or not most * growth <= LARGEST


# --- the coders of a walk through boxes: what they choose, write and read -------------------------


@lru_cache(maxsize=8)
def _initial_tables(prior: Prior) -> tuple[AdaptiveTables, AdaptiveTables]:
    """Return the tables of tokens and of flags that a section begins with."""
    make = partial(AdaptiveTables, weight=16, limit=1 << 18, patience=PATIENCE_SYMBOLS)
    return make(prior.tokens), make(prior.going)


class Coder:
    """Codes the magnitudes of boxes as symbols, with raw bits behind all of them."""

    def __init__(self, prior: Prior, n_boxes: int) -> None:
        self.prior, self.n_boxes = prior, n_boxes
        self.tokens, self.flags = (tables.copy() for tables in _initial_tables(prior))
        # where raw bits are, how many, and what they are added to
        none = np.zeros(0, np.intp), np.zeros(0, np.int32), np.zeros(0, np.int32)
        self.raw: list[tuple[Places, Counts, Counts]] = [none]

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Return whether boxes go on, written or read."""
        raise NotImplementedError

    def _code_tokens(self, classes: Small, rows: slice, boxes: Places) -> Small:
        """Write or read the tokens of a batch."""
        raise NotImplementedError

    def code_magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Write or read a batch; return its magnitudes as contexts see them."""
        tokens = self._code_tokens(classes, rows, boxes)
        if int(tokens.max()) < contexts.DIRECT and int(classes.max()) < contexts.FIRST_LOW:
            return tokens.astype(np.int32)
        where = classes.astype(np.intp) * contexts.WIDTHS.shape[1] + tokens
        widths = contexts.WIDTHS.take(where).ravel()
        if (wide := np.flatnonzero(widths)).size:
            i, j = np.divmod(wide, len(boxes))
            place = (rows.start + i) * self.n_boxes + boxes[j]
            self.raw.append((place, widths[wide], contexts.BASES.take(where.ravel()[wide])))
        return np.asarray(contexts.SEEN.take(where))


class Quantiser(Coder):
    """Chooses magnitudes by what they cost, and writes them.

    Parameters
    ----------
    x : array, shape (M, boxes)
        Magnitudes in steps.
    last : array, shape (boxes,)
        The last diagonal worth coding.
    """

    def __init__(self, prior: Prior, x: NDArray[np.float32], last: Places) -> None:
        super().__init__(prior, x.shape[1])
        self.x, self.last, self.q = x, last, np.zeros(x.shape, np.int32)
        self.writer = StreamWriter()

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Write whether what comes is worth its bits."""
        on = self.last.take(boxes) >= diagonal
        self.writer.symbols(self.flags, classes, on.view(np.uint8))
        return on

    def _code_tokens(self, classes: Small, rows: slice, boxes: Places) -> Small:
        self.q[rows][:, boxes] = q = self._choose(classes, rows, boxes)
        tokens = contexts.find_tokens(q, classes)
        self.writer.symbols(self.tokens, classes.ravel(), tokens.ravel())
        return tokens

    def _choose(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Return magnitudes of a batch, rounded: one less where that is worth its bits."""
        x, costs = self.x[rows].take(boxes, axis=1), self.prior.costs
        q = (x + np.float32(0.5)).astype(np.int32)
        some = np.flatnonzero((q > 0) & (q < contexts.DIRECT))
        high, c = q.ravel()[some], classes.ravel()[some].astype(np.intp) * costs.shape[1]
        saved = costs.take(c + high) - costs.take(c + high - 1)
        # (x - q + 1)² - (x - q)² = 2 (x - q) + 1
        error = 2 * (x.ravel()[some] - high) + 1
        q.ravel()[some] -= error < BIT_PRICE * saved
        return q

    def finish(self, negative: NDArray[np.bool_]) -> tuple[Counts, NDArray[np.float64]]:
        """Write what goes raw: low bits, then signs of what is not 0, in the order of rows.

        Returns
        -------
        q : array, shape (M, boxes)
            Magnitudes with their signs.
        off : array, shape (3,)
            How far 1, 2, 3 and more lie above what they stand for, on average.
        """
        some = np.flatnonzero(self.q != 0)
        q, minus = self.q.ravel()[some], negative.ravel()[some]
        place, widths, bases = map(np.concatenate, zip(*self.raw))
        self.writer.numbers(self.q.ravel()[place] - bases, widths)
        self.writer.raw.append(minus.view(np.uint8))
        # multiples of 2^-25: exact in any order
        above, which = q - self.x.ravel()[some], np.minimum(q, 3)
        mean = np.bincount(which, above, 4)[1:] / np.maximum(np.bincount(which, minlength=4)[1:], 1)
        self.q.ravel()[some[minus]] = -q[minus]
        return self.q, np.asarray(mean, np.float64)


class MagnitudeReader(Coder):
    """Reads magnitudes in the order of a walk."""

    def __init__(self, prior: Prior, reader: StreamReader, n_boxes: int) -> None:
        super().__init__(prior, n_boxes)
        self.reader = reader

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Read it."""
        return self.reader.symbols(self.flags, classes).view(np.bool_)

    def _code_tokens(self, classes: Small, rows: slice, boxes: Places) -> Small:
        return self.reader.symbols(self.tokens, classes.ravel()).reshape(classes.shape)

    def finish(self, A: Counts) -> Counts:
        """Return whole numbers with signs from what the walk saw, (M, boxes); changes `A`."""
        place, widths, bases = map(np.concatenate, zip(*self.raw))
        found = bases + self.reader.numbers(widths)
        self.reader.finish()
        if int(found.max(initial=0)) > contexts.LARGEST_MAGNITUDE:
            raise damaged("has impossible values")
        A.ravel()[place] = found
        A[0] = 0
        some = np.flatnonzero(A != 0)
        negative = self.reader.raw(len(some)).astype(np.int32)
        A.ravel()[some] *= 1 - 2 * negative
        return A


# --- writing --------------------------------------------------------------------------------------


def _sum_columns(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sums of columns, row after row; NumPy adds a single column in another order."""
    sums: NDArray[np.float32] = x.sum(axis=0) if x.shape[1] > 1 else x.cumsum(axis=0)[-1]
    return sums


def find_last(x: NDArray[np.float32], m: Modes) -> Places:
    """Return the last diagonal worth coding in every box: all up to it save most."""
    single = np.float32
    q = np.floor(x + single(0.3))
    gain = (x + x - q - single(BIT_PRICE)) * q
    gain -= np.minimum(q, single(1)) * single(4.5 * BIT_PRICE)
    by_diagonal = np.stack([_sum_columns(gain[a:b]) for a, b in pairwise(m.starts[1:])])
    so_far = np.cumsum(by_diagonal, axis=0, out=by_diagonal)
    best = so_far.argmax(axis=0)
    return np.where(so_far[best, np.arange(len(best))] > 0, best + 1, 0)


def find_residual(
    X: Floats, part: Part
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int8]]:
    """Take what the plane predicts from modes in steps, in place, rows sorted.

    Returns
    -------
    magnitudes, negative : arrays, shape (M, boxes)
        What is left, and its signs; the first mode is coded elsewhere.
    weights : array of int8
        Of prediction.
    """
    weights = transform.fit_weights(part.differences, X)
    X[1 : len(weights) + 1] -= transform.predict_rows(part.differences, weights) / UNIT
    magnitudes = np.abs(X).astype(np.float32, copy=False)
    magnitudes[0] = 0
    return magnitudes, X < 0, weights


def _write_part(X: Floats, part: Part) -> tuple[bytes, Whole]:
    """Return a section of boxes, and their samples as a decoder finds them."""
    magnitudes, negative, weights = find_residual(X, part)
    coder = Quantiser(load_prior(part.m.d), magnitudes, find_last(magnitudes, part.m))
    part.walk().run(coder)
    q, off = coder.finish(negative)
    points = np.clip(np.rint(off * UNIT), -UNIT, UNIT).astype(np.int8)
    r = part.values(q, points, weights)
    if part.overflows(q, r):
        raise OverflowError
    return points.tobytes() + weights.tobytes() + coder.writer.content(), part.samples(r)


def write_boxes(x: Floats, B: int) -> tuple[list[bytes], Whole]:
    """Return the sections of means and of boxes, and samples as decoded, in units.

    OverflowError where a decoder's whole numbers would be too large.

    Parameters
    ----------
    x : array, shape (C, n_1, ..., n_d)
        Samples in steps.
    B : int
        The size of boxes.
    """
    d = x.ndim - 1
    m, grid = modes(B, d), grid_shape(x.shape, B)
    X = transform.find_modes(x, B)[m.rows]
    means = np.rint(X[0]).reshape(grid)
    top = float(np.abs(means).max())
    if top > LARGEST_MEAN:
        raise OverflowError
    narrow = means.astype(np.min_scalar_type(-1 - int(top)))  # few are written as they are
    section, y = _write_part(X, Part(m, means.astype(np.int64) * UNIT))
    return [lossless.pack(narrow, 0), section], y[tuple(slice(n) for n in x.shape)]


def fits(x: Floats, B: int) -> bool:
    """Whether modes of samples in steps, in boxes of one size, are small enough for a decoder."""
    top = float(np.abs(transform.find_modes(x, B)).max())
    return bool(1.25 * top * UNIT * (2 * B) ** ((x.ndim - 2) / 2) <= LARGEST)


def rough_price(x: Floats, B: int, halvings: int = 0) -> float:
    """Return a rough price of samples in steps, in boxes of one size: rare modes cost more.

    `halvings` adds what it takes to tell the means of boxes so much larger from those of the boxes.
    """
    Y = transform.find_modes(x, B)
    found = [Y[1:].ravel()]
    plane = Y[0].reshape(grid_shape(x.shape, B))
    for _ in range(halvings):
        Y = transform.find_modes(plane, 2)
        found.append(Y[1:].ravel())
        plane = Y[0].reshape(grid_shape(plane.shape, 2))
    X = np.abs(np.concatenate(found), dtype=np.float32)
    large = X[X > 0.6].astype(np.float64)
    rarity = np.log2(X.size / max(large.size, 1))
    coded = 1 / 12 + BIT_PRICE * (rarity + 2.5 + 2 * np.log2(large))
    lost = float(np.dot(X, X)) - float(np.sum(large * large))
    return lost + float(np.minimum(large * large, coded).sum())


# --- reading --------------------------------------------------------------------------------------


def read_samples(
    sections: list[bytes], shape: Shape, B: int, gains: NDArray[np.uint8] | None
) -> Whole:
    """Return samples in units of ``step / 2^FRACTION``; `gains` say how strongly to deblock."""
    y = _read_part(sections[1], B, read_means(sections[0], shape, B), shape)
    if gains is None:
        return y
    return deblock.Moves.of(y, B, load_prior(len(shape) - 1).smoothing).apply(y, gains)


def read_means(data: bytes, shape: Shape, B: int) -> Whole:
    """Return the plane of the means of the boxes of samples, in units."""
    means = lossless.unpack(data)
    if means.dtype.kind != "i" or means.shape != grid_shape(shape, B):
        raise damaged("begins with a wrong plane")
    found = means.astype(np.int64)
    if int(np.abs(found).max()) > LARGEST_MEAN:
        raise damaged("begins with impossible means")
    return found * UNIT


def _read_part(data: bytes, B: int, plane: Whole, shape: Shape) -> Whole:
    """Return the samples of a section of boxes, from the plane of their means."""
    part, d = Part(modes(B, len(shape) - 1), plane), len(shape) - 1
    n = len(part.differences)
    if len(data) < 3 + n + 3:
        raise damaged("has a section that is too short")
    points, weights = np.frombuffer(data, np.int8, 3), np.frombuffer(data, np.int8, n, 3)
    reader, walk = StreamReader(data[3 + n :]), part.walk()
    coder = MagnitudeReader(load_prior(d), reader, walk.A.shape[1])
    walk.run(coder)
    q = coder.finish(walk.A)
    r = part.values(q, points, weights)
    if part.overflows(q, r):
        raise damaged("has impossible values")
    return part.samples(r)[tuple(slice(n) for n in shape)]
