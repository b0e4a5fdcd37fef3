"""What a decoder must know of a plane of integers before its samples: the header, checked."""

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import Tables
from elmfield.codec.lossless.neighbours import BINS, FRACTION, Stencil
from elmfield.codec.lossless.tokens import N_TOKENS, tables_of
from elmfield.errors import StoreError

MOST_RANGE = (1 << 31) - 1
"""Samples of a plane lie between 0 and this."""
MOST_HEADER = 1 << 22
DEFAULT_GAINS = (6, 16, 6, 16, 10, 6)
"""Without learning: what an error in the past says, in 64ths, in the order of the runs."""


@dataclass(frozen=True)
class Model:
    """How the samples of a plane are predicted and their errors coded.

    Parameters
    ----------
    top, first : int
        Samples lie in [0, top]; `first` stands for those before the first.
    shift : int
        Weights count in 2^-shift.
    weights : array of int64, shape (kinds, P, K)
        Every predictor's weight of every neighbour.
    gains : array of int64, shape (kinds, F + 1)
        Weights of past errors in the expected one, in 64ths, and a constant.
    lowest, coarse : int
        The first bin of expected errors; there are ``4 / 2^coarse`` to an octave.
    classes : array of int64, shape (2 BINS,)
        Table of every context.
    levels : array of uint8, shape (tables, tokens)
        The tables, as they are written.
    """

    top: int
    first: int
    shift: int
    weights: Integers
    gains: Integers
    lowest: int
    coarse: int
    classes: Integers
    levels: NDArray[np.uint8]
    learned: bool = True

    def matrices(self, stencil: Stencil) -> Floats:
        """Weights of every group for predictions in sixteenths, shape (G, P, K)."""
        scaled = self.weights.astype(np.float64) * (FRACTION / (1 << self.shift))
        return np.asarray(scaled[stencil.kinds], np.float64)

    def by_row(self, stencil: Stencil) -> Floats:
        """The same for rows on the edge of a block, (6, G, P, K): what is outside reads anchors.

        First, second and other rows; then the same for rows that are the last of their block.
        """
        inner = self.matrices(stencil)
        out = np.stack([inner] * 6)
        for row, ks, anchors in stencil.outside:
            for place in [row, row + 3] if row >= 0 else [3, 4, 5]:
                for k, anchor in zip(ks, anchors, strict=True):
                    out[place, :, :, anchor] += inner[:, :, k]
                    out[place, :, :, k] = 0.0
        return out

    def tables(self) -> Tables:
        """The tables of tokens."""
        full = np.zeros((len(self.levels), N_TOKENS), np.uint8)
        full[:, : self.levels.shape[1]] = self.levels
        return tables_of(full)

    def packed(self, stencil: Stencil) -> bytes:
        """The header's bytes."""
        numbers = np.array([self.top, self.first], "<i8").tobytes()
        K, P = len(self.levels), self.weights.shape[1]
        small = np.array(
            [
                self.learned,
                P,
                self.shift,
                K,
                self.levels.shape[1],
                self.coarse,
                self.lowest >> 8,
                self.lowest & 255,
            ],
            np.uint8,
        ).tobytes()
        learned = b""
        if self.learned:
            free = self.weights[_free(stencil, self.weights.shape)]
            learned = free.astype("<i2").tobytes() + self.gains.astype(np.uint8).tobytes()
        change = np.diff(self.levels, axis=1, prepend=np.uint8(0))
        body = learned + self.classes.astype(np.uint8).tobytes() + change.tobytes()
        squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
        return squeeze.compress(numbers + small + body) + squeeze.flush()

    @classmethod
    def unpacked(cls, data: bytes, stencil: Stencil) -> "Model":
        """The model of a header's bytes; raises StoreError where they make no sense."""
        read = _Reader(_inflated(data))
        top, first = (int(v) for v in read.take("<i8", 2))
        learned, P, shift, K, A, coarse, high, low = (int(v) for v in read.take("u1", 8))
        good = (
            0 <= first <= top <= MOST_RANGE
            and P == 4
            and shift <= 14
            and learned <= 1
            and coarse <= 2
        )
        if not good or not 1 <= K <= 2 * BINS or not 1 <= A <= N_TOKENS:
            raise _damaged()
        n_kinds = stencil.n_kinds
        if learned:
            shape = (n_kinds, P, stencil.n_neighbours)
            weights = np.zeros(shape, np.int64)
            free = _free(stencil, shape)
            weights[free] = read.take("<i2", int(free.sum()))
            gains = read.take("u1", n_kinds * (stencil.n_errors + 1)).reshape(n_kinds, -1)
            gains[:, :-1] *= stencil.present_errors
        else:
            weights, gains = default_weights(stencil, shift), default_gains(stencil)
        weights = anchored(weights, stencil, shift)
        if not is_exact(weights, top, shift):
            raise _damaged()
        classes = read.take("u1", 2 * BINS)
        levels = np.cumsum(read.take("u1", K * A).reshape(K, A), axis=1).astype(np.uint8)
        read.end()
        if int(classes.max()) >= K or int(gains[:, -1].min()) < 1:
            raise _damaged()
        lowest = 256 * high + low
        return cls(
            top, first, shift, weights, gains, lowest, coarse, classes, levels, bool(learned)
        )


def anchored(weights: Integers, stencil: Stencil, shift: int) -> Integers:
    """Weights whose anchors make each set sum to 0, and a sample's own to 1 (``2^shift``)."""
    out = weights.copy()
    for i, (first, n, anchor) in enumerate(stencil.anchors):
        out[:, :, anchor] = 0
        rest = out[:, :, first : first + n].sum(axis=2)
        out[:, :, anchor] = (1 << shift if i == 0 else 0) - rest
    return out


def is_exact(weights: Integers, top: int, shift: int) -> bool:
    """Whether guesses stay below 2^39 sixteenths, so that blends of them stay below 2^53."""
    return int(np.abs(weights).sum(axis=2).max()) * max(top, 1) < 1 << (35 + shift)


def _free(stencil: Stencil, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which weights are written: those of neighbours that are there and no anchors."""
    free = np.zeros(shape, np.bool_)
    free[...] = stencil.present[:, None]
    for _, _, anchor in stencil.anchors:
        free[:, :, anchor] = False
    return free


def default_weights(stencil: Stencil, shift: int) -> Integers:
    """Four predictors that need no learning: W, N, W + N - NW, and W + (NE - NW) / 2.

    Where there is a second set, the last is W moved as that moves: W + C' - W'.

    Neighbours of a sample's own group are in the order WW W NW N NE NN NNE.
    """
    one = 1 << shift
    weights = np.zeros((stencil.n_kinds, 4, stencil.n_neighbours), np.int64)
    weights[:, 1, 3] = one
    weights[:, 2, 2], weights[:, 2, 3] = -one, one
    weights[:, 3, 2], weights[:, 3, 4] = -(one >> 1), one >> 1
    for _, _, anchor in stencil.anchors[1:2]:
        weights[:, 3, anchor + 1] = one
        weights[:, 3, 2] = weights[:, 3, 4] = 0
    return weights * stencil.present[:, None]


def default_gains(stencil: Stencil) -> Integers:
    """Past errors of the sample's own group, by distance."""
    gains = np.zeros((stencil.n_kinds, stencil.n_errors + 1), np.int64)
    gains[:, : len(DEFAULT_GAINS)] = DEFAULT_GAINS
    gains[:, -1] = 8
    return gains


class _Reader:
    """Numbers from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, dtype: str, n: int) -> Integers:
        size = np.dtype(dtype).itemsize * n
        if self._at + size > len(self._data):
            raise _damaged()
        out = np.frombuffer(self._data, dtype, n, self._at).astype(np.int64)
        self._at += size
        return out

    def end(self) -> None:
        if self._at != len(self._data):
            raise _damaged()


def _inflated(data: bytes) -> bytes:
    """The header without its own packing; never more than `MOST_HEADER` bytes."""
    open_up = zlib.decompressobj(-15)
    try:
        out = open_up.decompress(data, MOST_HEADER)
    except zlib.error:
        raise _damaged() from None
    if not open_up.eof or open_up.unused_data:
        raise _damaged()
    return out


def _damaged() -> StoreError:
    return StoreError("The header of a packed tile makes no sense: the data are damaged.")
