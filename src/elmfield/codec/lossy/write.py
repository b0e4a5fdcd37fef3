"""Samples in steps to sections of bytes.

What the encoder quantises it predicts from what the decoder will have of the sections before.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import pays
from elmfield.codec.ans import StreamWriter
from elmfield.codec.lossy import read, transform
from elmfield.codec.lossy.coder import (
    BIT_PRICE,
    Quantiser,
    code_boxes,
    down,
    section_tables,
)
from elmfield.codec.lossy.contexts import Places, load_prior
from elmfield.codec.lossy.read import Part, grid_shape, is_few
from elmfield.codec.lossy.transform import FRACTION, LARGEST, UNIT, Floats, Modes, Whole, modes


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
        weights = transform.fit_weights(part.differences, X)
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


def _write_part(X: Floats, part: Part) -> tuple[bytes, Whole]:
    """Return a section of boxes, and their samples as a decoder finds them."""
    left, d = Residual.of(X, part), part.m.d
    prior, writer = load_prior(d), StreamWriter()
    last = find_last(left.magnitudes, part.m)
    coder = Quantiser(prior, left.magnitudes, last, section_tables(d), writer)
    code_boxes(part.walk(), prior, coder)
    q, off = coder.finish(left.signs(X))
    points = np.clip(np.rint(off * UNIT), -UNIT, UNIT).astype(np.int8)
    r = part.values(q, points, left.weights)
    if part.overflows(q, r):
        raise TooFineError
    return points.tobytes() + left.weights.tobytes() + writer.content(), part.samples(r)


def _write_few(plane: Floats) -> tuple[bytes, Whole]:
    """Return the section of a plane of few means in steps, and the plane in units."""
    steps = np.rint(plane).astype(np.int64)
    if int(np.abs(steps).max(initial=0)) > LARGEST >> FRACTION:
        raise TooFineError
    change = np.diff(steps.ravel(), prepend=0)
    width = next(w for w in (1, 2, 4) if w == 4 or np.abs(change).max() < 1 << (8 * w - 1))
    return bytes([width]) + change.astype(f"<i{width}").tobytes(), steps * UNIT


def write_boxes(x: Floats, B: int) -> tuple[list[bytes], Whole]:
    """Return sections, the smallest level first, and samples as decoded, in units.

    Parameters
    ----------
    x : array, shape (C, n_1, ..., n_d)
        Samples in steps.
    B : int
        The size of boxes.
    """
    d = x.ndim - 1
    m, grid = modes(B, d), grid_shape(x.shape, B)
    X = transform.find_modes(pad_to_boxes(x, B), B)[m.rows]
    means = X[0].reshape(grid)
    if is_few(grid):
        section, plane = _write_few(means)
        sections = [section]
    else:
        sections, plane = write_boxes(means, read.PLANE_BOX[d])
    section, y = _write_part(X, Part(m, plane))
    return [*sections, section], y[tuple(slice(n) for n in x.shape)]


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
