"""A plane of whole numbers: its tokens, and the header that a decoder needs before its samples."""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers
from elmfield.codec.ans import TABLE_BITS, Tables, frequencies
from elmfield.codec.container import ByteReader, damaged
from elmfield.codec.lossless.wavefront import BINS, FRACTION, Layout
from elmfield.errors import StoreError

MAX_RANGE = (1 << 31) - 1
"""Samples of a plane lie between 0 and this."""
MAX_HEADER_BYTES = 1 << 22
N_PREDICTORS = 4
DEFAULT_GAINS = (6, 16, 6, 16, 10, 6)
"""Without learning: what an error in the past says, in 64ths, in the order of the runs."""
DIRECT = 16
N_TOKENS = DIRECT + 4 * 31
"""Numbers below 16 are their own tokens; others give their length and two bits after the first."""
OCTAVE_STEPS = 4
"""Frequencies are written to a quarter of an octave."""
COUNT_BITS = 20
"""Bits of the number of samples that are counted; of more, a half, a quarter, ... are."""
TOKEN_PRICE, TABLE_PRICE = 3 * 64, 8 * 64
"""A table costs about 3 bits for every token that occurs, and a byte; in 64ths of a bit."""


# --- tokens ---------------------------------------------------------------------------------------


def find_tokens(z: Integers) -> Integers:
    """Return the tokens of numbers 0 <= z < 2^35."""
    if (n := int(z.max(initial=0)) + 1) < z.size:
        return np.asarray(find_tokens(np.arange(n)).take(z), np.int64)
    length = np.frexp(z.astype(np.float64))[1].astype(np.int64)  # bits of z, exact below 2^53
    large = DIRECT + 4 * (length - 5) + ((z >> np.maximum(length - 3, 0)) & 3)
    return np.where(z < DIRECT, z, large)


def _expand_tokens() -> tuple[Integers, Integers]:
    """Return the least number and number of raw bits of every token."""
    token = np.arange(N_TOKENS)
    raw = np.where(token < DIRECT, 0, (token - DIRECT) // 4 + 2)
    least = np.where(token < DIRECT, token, (4 + (token - DIRECT) % 4) << raw)
    return least.astype(np.int64), raw.astype(np.int64)


LEAST, RAW = _expand_tokens()


def cluster_contexts(counts: Integers) -> Integers:
    """Return the class of every context, (contexts,): they share a table where that saves bits.

    Bins of expected errors are cut into runs, by dynamic programming: a run has one table, or one
    for blends near whole numbers and one for the others. Prices are whole numbers: the same on
    every machine. A bin that never occurred goes with the one before: damage may ask for it.
    """
    n_tokens = 1 + int(np.flatnonzero(counts.any(axis=0))[-1])
    h = counts[:, :n_tokens].reshape(BINS, 2, n_tokens)
    there = h.any(axis=(1, 2))
    few, n = max(0, int(h.sum()).bit_length() - COUNT_BITS), int(there.sum())
    sums = np.zeros((n + 1, 2, n_tokens), np.int64)
    np.cumsum(np.maximum(h[there] >> few, h[there] > 0), axis=0, out=sums[1:])
    first, last = np.triu_indices(n)
    run = sums[last + 1] - sums[first]
    apart, together = _price(run, few).sum(axis=1), _price(run.sum(axis=1), few)
    price, split = np.zeros((2, n, n + 1), np.int64)
    price[first, last + 1] = np.minimum(apart, together)
    split[first, last + 1] = apart < together
    best, starts = np.zeros(n + 1, np.int64), [0]
    for end in range(1, n + 1):
        total = best[:end] + price[:end, end]
        starts.append(int(total.argmin()))
        best[end] = total.min()
    classes, end, k = np.zeros((n, 2), np.int64), n, 0
    while end:
        start = starts[end]
        classes[start:end] = k + np.arange(2) * split[start, end]
        k += 1 + int(split[start, end])
        end = start
    place = np.maximum(np.cumsum(there) - 1, 0)
    return np.asarray((k - 1 - classes[place]).ravel(), np.int64)


def _price(h: Integers, few: int) -> Integers:
    """Return the bits of counts (..., tokens) by their own entropy, and of writing their table."""
    token, entropies, total = TOKEN_PRICE >> few, _entropies(TOKEN_PRICE >> few), h.sum(axis=-1)
    found = entropies.take(total) - entropies.take(h, mode="clip").sum(axis=-1)
    return np.asarray(found + (token + (TABLE_PRICE >> few)) * (total > 0), np.int64)


@lru_cache(maxsize=1)
def _entropies(token: int) -> Integers:
    """Return ``n log2 n`` in 64ths of a bit, less the price of a token that occurs."""
    n = np.arange((1 << COUNT_BITS) + (1 << 14), dtype=np.float64)
    return np.rint(64 * n * np.log2(np.maximum(n, 1.0))).astype(np.int64) - token * (n > 0)


def frequency_levels(counts: Integers, classes: Integers) -> NDArray[np.uint8]:
    """Return tables as they are written, (classes, tokens), from counts of tokens by context.

    They hold 0, or 1 + quarter octaves of the count above total/2^12.
    """
    used = 1 + int(np.flatnonzero(counts.any(axis=0))[-1])
    merged = np.zeros((int(classes.max()) + 1, used), np.int64)
    np.add.at(merged, classes, counts[:, :used])
    share = merged / np.maximum(merged.sum(axis=1, keepdims=True), 1) * (1 << TABLE_BITS)
    with np.errstate(divide="ignore"):
        level = np.rint(OCTAVE_STEPS * np.log2(np.maximum(share, 1.0))) + 1
    return np.where(merged > 0, level, 0).astype(np.uint8)


# 256 * 2^(q/4), rounded, by integers: the rest are shifts.
LEVEL_SIZES = np.array(
    [0] + [((256, 304, 362, 431)[q % 4] << (q // 4)) for q in range(OCTAVE_STEPS * TABLE_BITS + 1)],
    np.int64,
)


# --- the header -----------------------------------------------------------------------------------


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

    def matrices(self, layout: Layout) -> Floats:
        """Return weights of every group for predictions in sixteenths, shape (G, P, K)."""
        scaled = self.weights.astype(np.float64) * (FRACTION / (1 << self.shift))
        return np.asarray(scaled[layout.kinds], np.float64)

    def tables(self) -> Tables:
        """Return the tables of tokens: the sizes that levels say, made to sum to 2^12."""
        level = np.zeros((len(self.levels), N_TOKENS), np.uint8)
        level[:, : self.levels.shape[1]] = self.levels
        if int(level.max(initial=0)) >= len(LEVEL_SIZES) or not level.any(axis=1).all():
            raise damaged("has a table with an impossible frequency")
        return Tables.of(frequencies(LEVEL_SIZES[level]))

    def pack(self, layout: Layout) -> bytes:
        """Return the bytes of the header."""
        K, A = self.levels.shape
        P, high, low = self.weights.shape[1], self.lowest >> 8, self.lowest & 255
        data = np.array([self.top, self.first], "<i8").tobytes()
        data += bytes([self.learned, P, self.shift, K, A, self.coarse, high, low])
        if self.learned:
            free = self.weights[_find_free(layout)]
            data += free.astype("<i2").tobytes() + self.gains.astype(np.uint8).tobytes()
        change = np.diff(self.levels, axis=1, prepend=np.uint8(0))
        data += self.classes.astype(np.uint8).tobytes() + change.tobytes()
        deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
        return deflate.compress(data) + deflate.flush()

    @classmethod
    def unpack(cls, data: bytes, layout: Layout) -> "Model":
        """Return the model of a header's bytes; StoreError where they make no sense."""
        reader = ByteReader(_inflate(data))
        top, first = reader.array("<i8", 2).tolist()
        learned, P, shift, K, A, coarse, high, low = reader.take(8)
        good = 0 <= first <= top <= MAX_RANGE and P == N_PREDICTORS and max(shift, 14) == 14
        good = good and max(learned, 1) == 1 and max(coarse, 2) == 2
        if not good or not 1 <= K <= 2 * BINS or not 1 <= A <= N_TOKENS:
            raise _bad_header()
        if learned:
            free, there = _find_free(layout), layout.present_past
            weights = np.zeros(free.shape, np.int64)
            weights[free] = reader.array("<i2", int(free.sum()))
            weights = set_anchors(weights, layout, shift)
            gains = reader.array("u1", there.size + len(there)).astype(np.int64)
            gains = gains.reshape(len(there), -1)
            gains[:, :-1] *= there
        else:
            weights, gains = default_weights(layout, shift), default_gains(layout)
        classes = reader.array("u1", 2 * BINS).astype(np.int64)
        levels = np.cumsum(reader.array("u1", K * A).reshape(K, A), axis=1, dtype=np.uint8)
        exact = is_exact(weights, top, shift)
        if not exact or reader.rest() or int(classes.max()) >= K or int(gains[:, -1].min()) < 1:
            raise _bad_header()
        lowest = 256 * high + low
        return cls(
            top, first, shift, weights, gains, lowest, coarse, classes, levels, bool(learned)
        )


def set_anchors(weights: Integers, layout: Layout, shift: int) -> Integers:
    """Return weights whose anchors make each set sum to 0, a sample's own to 1 (``2^shift``)."""
    out = weights.copy()
    for i, (first, n, anchor) in enumerate(layout.anchors):
        out[:, :, anchor] = 0
        rest = out[:, :, first : first + n].sum(axis=2)
        out[:, :, anchor] = (1 << shift if i == 0 else 0) - rest
    return out


def is_exact(weights: Integers, top: int, shift: int) -> bool:
    """Whether guesses stay below 2^39 sixteenths, so that blends of them stay below 2^53."""
    return int(np.abs(weights).sum(axis=2).max()) * max(top, 1) < 1 << (35 + shift)


def _find_free(layout: Layout) -> NDArray[np.bool_]:
    """Return which weights are written: those of neighbours that are there and no anchors."""
    free = np.repeat(layout.present_near[:, None], N_PREDICTORS, axis=1)
    free[:, :, [anchor for _, _, anchor in layout.anchors]] = False
    return free


def default_weights(layout: Layout, shift: int) -> Integers:
    """Return four predictors that need no learning: W, N, W + N - NW, and W + (NE - NW) / 2.

    Where there is a second set, the last is W moved as that moves: W + C' - W'.

    Neighbours of a sample's own group are in the order WW W NW N NE NN NNE.
    """
    one = 1 << shift
    weights = np.zeros(_find_free(layout).shape, np.int64)
    weights[:, 1, 3] = one
    weights[:, 2, 2], weights[:, 2, 3] = -one, one
    weights[:, 3, 2], weights[:, 3, 4] = -(one >> 1), one >> 1
    for _, _, anchor in layout.anchors[1:2]:
        weights[:, 3, anchor + 1] = one
        weights[:, 3, 2] = weights[:, 3, 4] = 0
    return set_anchors(weights * layout.present_near[:, None], layout, shift)


def default_gains(layout: Layout) -> Integers:
    """Return weights of past errors of the sample's own group, by distance."""
    kinds, F = layout.present_past.shape
    row = [*DEFAULT_GAINS, *[0] * (F - len(DEFAULT_GAINS)), 8]
    return np.tile(np.array(row, np.int64), (kinds, 1))


def _inflate(data: bytes) -> bytes:
    """Return the header without its own packing; never more than `MAX_HEADER_BYTES`."""
    inflate = zlib.decompressobj(-15)
    try:
        out = inflate.decompress(data, MAX_HEADER_BYTES)
    except zlib.error:
        raise _bad_header() from None
    if not inflate.eof or inflate.unused_data:
        raise _bad_header()
    return out


def _bad_header() -> StoreError:
    return damaged("has a header that makes no sense")
