"""The coders of a walk through boxes, and the streams of symbols and raw bits that they write.

A lane's first state, as the decoder reads it, may have any octave from 2^16 to 2^32, and to write
the octave would cost 4 bits. So the encoder sums up the bits of every lane to see where it comes
out, and puts as many raw bits in the lane's last state as make it come out in the two upper
octaves. The decoder sees from the last state how many raw bits there are: those
below its leading one.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.running import pays
from elmfield.codec import ans
from elmfield.codec.ans import Decoder
from elmfield.codec.container import ByteReader, ByteWriter, damaged
from elmfield.codec.lossy import contexts
from elmfield.codec.lossy.contexts import (
    BatchCoder,
    BoxWalk,
    Counts,
    Places,
    Prior,
    Small,
    load_prior,
)
from elmfield.codec.symbol_tables import AdaptiveTables, Entries, Symbols

Array = NDArray[Any]

BIT_PRICE = 0.1155
"""Squared steps a bit is worth: the slope of distortion at high rates, 2 ln 2 / 12."""
PATIENCE_SYMBOLS = 1024
"""Tables learn after so many symbols and an eighth of all before."""
Bits = NDArray[np.uint8]

TABLE_BITS = 12
MAX_LANES = 8192
BITS_PER_LANE = 256
"""So many coded bits make another lane worth its bit."""
TOP_OCTAVE = 31
PRICE_BITS = 16


# --- streams --------------------------------------------------------------------------------------


def pack_bits(values: NDArray[np.integer], widths: NDArray[np.integer]) -> Bits:
    """Return the bits of values, the highest first, one behind the other."""
    widths = widths.astype(np.int64)
    n = int(widths.sum())
    shift = np.repeat(np.cumsum(widths), widths) - 1 - np.arange(n)
    return ((np.repeat(values.astype(np.int64), widths) >> shift) & 1).astype(np.uint8)


def unpack_bits(bits: Bits, widths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return values of so many bits each; `bits` must be long enough."""
    widths = widths.astype(np.int64)
    out = np.zeros(len(widths), np.int64)
    some = np.flatnonzero(widths)
    if some.size:
        ends = np.cumsum(widths)
        n = int(ends[-1])
        shift = np.repeat(ends, widths) - 1 - np.arange(n)
        parts = bits[:n].astype(np.int64) << shift
        out[some] = np.add.reduceat(parts, (ends - widths)[some])
    return out


def _octaves(x: Entries) -> NDArray[np.int64]:
    return np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1


class StreamWriter:
    """Batches of symbols in the order of reading, and raw bits behind them."""

    def __init__(self) -> None:
        self.batches: list[Entries] = []  # from tables of TABLE_BITS
        self.raw: list[Bits] = []  # read after all symbols

    def symbols(
        self, tables: AdaptiveTables, classes: NDArray[np.integer], symbols: Symbols
    ) -> None:
        """Append a batch, shape (n,), and learn from it."""
        entries = tables.tables.entries
        where = classes.astype(np.intp) * entries.shape[1] + symbols
        self.batches.append(entries.take(where))
        tables.update(classes, symbols)

    def content(self) -> bytes:
        """Return the numbers of lanes and words, states, words, and raw bits that no lane took."""
        raw = np.concatenate([np.zeros(0, np.uint8), *self.raw])
        entries = np.concatenate([np.zeros(0, np.uint32), *self.batches])
        ends = np.cumsum([len(batch) for batch in self.batches])
        total = len(raw) + (int(_prices().take(entries & np.uint32(0xFFFF)).sum()) >> PRICE_BITS)
        largest = max(map(len, self.batches), default=1)
        lanes = max(1, min(MAX_LANES, largest, len(raw) // 24, total // BITS_PER_LANE))
        # a lane ends with its bits beyond whole words, of a last state of 16.5 bits
        result = 16.5 + _lane_prices(entries, ends, lanes) / (1 << PRICE_BITS) % 16
        widths = 16 + np.floor(TOP_OCTAVE - result + 0.5).astype(np.int64) % 16
        used = int(widths.sum())
        raw = np.concatenate([raw, np.zeros(max(0, used - len(raw)), np.uint8)])
        x = ((np.int64(1) << widths) + unpack_bits(raw, widths)).astype(np.uint32)
        words = ans.encode_batches(self.batches, TABLE_BITS, x)
        octaves = _octaves(x)
        odd = np.flatnonzero((octaves != TOP_OCTAVE) & (octaves != TOP_OCTAVE - 1))
        below = x.astype(np.int64) - (np.int64(1) << octaves)
        is_top = (octaves == TOP_OCTAVE).astype(np.uint8)
        out = ByteWriter()
        for n in (lanes, len(odd), len(words)):
            out.number(n)
        out.data += np.stack([odd, octaves[odd]], axis=1).astype("<u2").tobytes()
        out.data += np.packbits(np.concatenate([is_top, pack_bits(below, octaves)])).tobytes()
        out.data += words.astype("<u2").tobytes() + np.packbits(raw[used:]).tobytes()
        return bytes(out.data)


@lru_cache(maxsize=1)
def _prices() -> NDArray[np.int64]:
    """Return the bits of a symbol by its frequency, times 2^PRICE_BITS."""
    bits = TABLE_BITS - np.log2(np.maximum(np.arange(1 + (1 << TABLE_BITS)), 1))
    return np.asarray(np.rint(bits * (1 << PRICE_BITS)), np.int64)


def _lane_prices(entries: Entries, ends: Places, lanes: int) -> NDArray[np.int64]:
    """Return the prices of the symbols of each lane."""
    prices, total = _prices().take(entries & np.uint32(0xFFFF)), np.zeros(lanes, np.int64)
    for a, b in pairwise([0, *ends.tolist()]):
        whole = b - (b - a) % lanes
        if whole > a:
            total += prices[a:whole].reshape(-1, lanes).sum(axis=0)
        total[: b - whole] += prices[whole:b]
    return total


class StreamReader(Decoder):
    """What a :class:`StreamWriter` wrote: all symbols, then `finish_symbols`, then raw bits."""

    def __init__(self, data: bytes) -> None:
        reader = ByteReader(data)
        lanes, n_odd, n_words = (reader.number() for _ in range(3))
        if not 1 <= lanes <= MAX_LANES or n_odd > lanes:
            raise damaged("names impossible lanes")
        where, odd = reader.array("<u2", 2 * n_odd).reshape(-1, 2).T.astype(np.int64)
        data = reader.rest()
        if 2 * lanes > len(data):
            raise damaged("has a section that is too short")
        states = np.unpackbits(np.frombuffer(data, np.uint8, min(len(data), 4 * lanes)))
        octaves = TOP_OCTAVE - 1 + states[:lanes].astype(np.int64)
        if n_odd and (int(where.max()) >= lanes or odd.min() < 16 or odd.max() > 31):
            raise damaged("names impossible lanes")
        octaves[where] = odd
        size = -(-int(lanes + octaves.sum()) // 8)
        if len(data) < size + 2 * n_words:
            raise damaged("ends before its last word")
        x = (np.int64(1) << octaves) + unpack_bits(states[lanes:], octaves)
        halves = np.stack([x & 0xFFFF, x >> 16], axis=1).ravel()
        words = np.frombuffer(data, "<u2", n_words, size)
        super().__init__([np.concatenate([halves, words]).astype(np.uint16)], lanes)
        self._rest = np.frombuffer(data, np.uint8, offset=size + 2 * n_words)
        self.raw_bits = np.zeros(0, np.uint8)

    def symbols(self, tables: AdaptiveTables, classes: NDArray[np.integer]) -> Symbols:
        """Return the next batch, shape (n,), and learn from it."""
        symbols = self.decode(tables.tables, classes)
        tables.update(classes, symbols)
        return symbols

    def finish_symbols(self) -> None:
        """Find the raw bits, once all symbols were read: in the lanes, then behind the words."""
        if self.next[0] != self.end[0]:
            raise damaged("has words that nothing reads")
        x = self.x[0]
        octaves = _octaves(x)
        below = pack_bits(x.astype(np.int64) - (np.int64(1) << octaves), octaves)
        self.raw_bits = np.concatenate([below, np.unpackbits(self._rest)])

    def raw(self, n: int) -> Bits:
        """Return the next n raw bits."""
        if n > len(self.raw_bits):
            raise damaged("ends before its last raw bit")
        bits, self.raw_bits = self.raw_bits[:n], self.raw_bits[n:]
        return bits


# --- coders ---------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _initial_tables(prior: Prior) -> tuple[AdaptiveTables, AdaptiveTables]:
    tokens, flags = (
        AdaptiveTables(counts, weight=16, limit=1 << 18, patience=PATIENCE_SYMBOLS)
        for counts in (prior.tokens, prior.going)
    )
    return tokens, flags


def section_tables(d: int) -> tuple[AdaptiveTables, AdaptiveTables]:
    """Return the tables of tokens and of flags that a section of d axes begins with."""
    tokens, flags = (tables.copy() for tables in _initial_tables(load_prior(d)))
    return tokens, flags


def down(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return sums of columns, row after row; NumPy adds a single column in another order."""
    sums: NDArray[np.float32] = x.sum(axis=0) if x.shape[1] > 1 else x.cumsum(axis=0)[-1]
    return sums


Singles = NDArray[np.float32]


class Coder(BatchCoder):
    """What compiled loops are given of a coder, and give it back."""

    tables: tuple[AdaptiveTables, AdaptiveTables]
    reader: StreamReader | None = None
    x = np.zeros((0, 0), np.float32)
    last = np.zeros(0, np.intp)
    q = np.zeros((0, 0), np.int32)

    def keep(
        self, entries: Entries, ends: Places, place: Places, value: Counts, width: Small
    ) -> None:
        """Take entries of symbols, ends of their batches; places, values and widths of raw bits."""


def code_boxes(walk: BoxWalk, prior: Prior, coder: Coder) -> None:
    """Run a walk through boxes: by compiled loops where these pay."""
    if pays(0):
        from elmfield.codec.lossy import box_loops

        box_loops.run(walk, prior, coder)
    else:
        walk.run(prior, coder)


class Quantiser(Coder):
    """Chooses magnitudes by what they cost, and writes them.

    Parameters
    ----------
    x : array, shape (M, boxes)
        Magnitudes in steps.
    last : array, shape (boxes,)
        The last diagonal worth coding.
    """

    def __init__(
        self,
        prior: Prior,
        x: Singles,
        last: Places,
        tables: tuple[AdaptiveTables, AdaptiveTables],
        writer: StreamWriter,
    ) -> None:
        self.x, self.last, self.costs = x, last, prior.costs
        self.tables, self.writer = tables, writer
        (self.tokens, self.flags) = tables
        self.q = np.zeros(x.shape, np.int32)
        self._raw: list[NDArray[np.uint8]] = []

    def choose(self, classes: Small, rows: slice, boxes: Places) -> tuple[Array, Counts]:
        """Return magnitudes of a batch in steps, and rounded: one less where that is worth it."""
        x = self.x[rows].take(boxes, axis=1)
        q = (x + np.float32(0.5)).astype(np.int32)
        some = np.flatnonzero((q > 0) & (q < contexts.DIRECT))
        high, c = q.ravel()[some], classes.ravel()[some].astype(np.intp) * self.costs.shape[1]
        saved = self.costs.take(c + high) - self.costs.take(c + high - 1)
        # (x - q + 1)² - (x - q)² = 2 (x - q) + 1
        error = 2 * (x.ravel()[some] - high) + 1
        q.ravel()[some] -= error < BIT_PRICE * saved
        return x, q

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Return whether boxes go on: what comes is worth its bits."""
        on = self.last.take(boxes) >= diagonal
        self.writer.symbols(self.flags, classes, on.view(np.uint8))
        return on

    def code_magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Write the best magnitudes of a batch."""
        _, q = self.choose(classes, rows, boxes)
        self.q[rows][:, boxes] = q
        tokens = contexts.find_tokens(q, classes)
        self.writer.symbols(self.tokens, classes.ravel(), tokens.ravel())
        wide, widths, bases, seen = _find_wide(classes, tokens)
        if wide.size:
            self._raw.append(pack_bits(q.ravel()[wide] - bases, widths))
        return seen

    def keep(
        self, entries: Entries, ends: Places, place: Places, value: Counts, width: Small
    ) -> None:
        """Take the entries of symbols, and raw bits."""
        self.writer.batches += np.split(entries[: ends[-1]], ends[:-1]) if len(ends) else []
        self._raw.append(pack_bits(value, width))

    def finish(self, negative: NDArray[np.bool_]) -> tuple[Counts, NDArray[np.float64]]:
        """Write raw bits: low bits, then signs of what is not 0, in the order of rows.

        Returns
        -------
        q : array, shape (M, boxes)
            Magnitudes with their signs.
        off : array, shape (3,)
            How far 1, 2, 3 and more lie above what they stand for, on average.
        """
        self.writer.raw += self._raw
        some = np.flatnonzero(self.q)
        q, minus = self.q.ravel()[some], negative.ravel()[some]
        self.writer.raw.append(minus.view(np.uint8))
        # multiples of 2^-25: exact in any order
        above, which = q - self.x.ravel()[some], np.minimum(q, 3)
        mean = np.bincount(which, above, 4)[1:] / np.maximum(np.bincount(which, minlength=4)[1:], 1)
        self.q.ravel()[some[minus]] = -q[minus]
        return self.q, np.asarray(mean, np.float64)


class MagnitudeReader(Coder):
    """Reads magnitudes in the order of a walk."""

    reader: StreamReader

    def __init__(
        self, tables: tuple[AdaptiveTables, AdaptiveTables], reader: StreamReader, n_boxes: int
    ) -> None:
        self.tables, self.reader, self.n_boxes = tables, reader, n_boxes
        (self.tokens, self.flags) = tables
        self._wide: list[tuple[Places, NDArray[np.integer], Counts]] = []

    def code_flags(self, classes: Small, boxes: Places, diagonal: int) -> NDArray[np.bool_]:
        """Return whether boxes go on, as it was written."""
        return self.reader.symbols(self.flags, classes).view(np.bool_)

    def code_magnitudes(self, classes: Small, rows: slice, boxes: Places) -> Counts:
        """Return magnitudes of a batch, but for their raw bits."""
        tokens = self.reader.symbols(self.tokens, classes.ravel()).reshape(classes.shape)
        wide, widths, bases, seen = _find_wide(classes, tokens)
        if wide.size:
            i, j = np.divmod(wide, len(boxes))
            self._wide.append(((rows.start + i) * self.n_boxes + boxes[j], widths, bases))
        return seen

    def keep(
        self, entries: Entries, ends: Places, place: Places, value: Counts, width: Small
    ) -> None:
        """Take where raw bits follow, and what they are added to."""
        self._wide.append((place, width, value))

    def finish(self, A: Counts) -> Counts:
        """Return whole numbers with signs from what the walk saw, (M, boxes); changes `A`."""
        for place, widths, bases in self._wide:
            found = bases + unpack_bits(self.reader.raw(int(widths.sum())), widths)
            if int(found.max(initial=0)) > contexts.LARGEST_MAGNITUDE:
                raise damaged("has impossible values")
            A.ravel()[place] = found
        A[0] = 0
        some = np.flatnonzero(A)
        negative = self.reader.raw(len(some)).astype(np.int32)
        A.ravel()[some] *= 1 - 2 * negative
        return A


def _find_wide(classes: Small, tokens: Small) -> tuple[Places, Counts, Counts, Counts]:
    """Return where raw bits follow tokens, their widths and bases; magnitudes contexts see."""
    if int(tokens.max()) < contexts.DIRECT and int(classes.max()) < contexts.FIRST_LOW:
        none = np.zeros(0, np.int32)
        return np.zeros(0, np.intp), none, none, tokens.astype(np.int32)
    where = classes.astype(np.intp) * contexts.WIDTHS.shape[1] + tokens
    widths = contexts.WIDTHS.take(where)
    wide = np.flatnonzero(widths)
    bases, seen = contexts.BASES.take(where.ravel()[wide]), contexts.SEEN.take(where)
    return wide, widths.ravel()[wide], bases, seen
