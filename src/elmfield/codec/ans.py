"""The entropy coder: tables of symbols, asymmetric numeral systems, integers only.

A *batch* is an array of symbols that are coded without knowing each other. The decoder is asked
batch by batch, so what it must know of a batch may depend on all earlier ones. Symbol ``i`` of a
batch goes to lane ``i mod lanes``: every batch begins at lane 0. A lane is a state ``x`` in
``[2^16, 2^32)``; a symbol that owns the slots ``[start, start + freq)`` of ``2^12`` is decoded by

    slot = x mod 2^12,   x <- freq * floor(x / 2^12) + slot - start,

and if ``x`` fell below ``2^16`` then ``x <- 2^16 x + the next word``, a word being 16 bits; lanes
take their words in order of lane. Encoding runs backwards, from the last symbol to the first.

A stream is the number of its lanes and of its words, the first states, the words, and the *tail*:
words of the caller, for raw bits that no context waits for. Its first words stand in the last
states of the lanes, which are ``2^16 + word``.

Notes
-----
By NumPy a batch costs about 25 µs for every `lanes` symbols, however few, and a symbol about 10 ns;
compiled, a symbol costs 3 to 6 ns. A lane costs about 9 bits if the tail has a word for its last
state, else 25.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.typing import Integers
from elmfield.codec.container import ByteReader, ByteWriter, damaged

Words = NDArray[np.uint16]
Bits = NDArray[np.uint8]
Symbols = NDArray[np.uint8]
Loop = Callable[..., int]
Entries = NDArray[np.uint32]
"""``start * 2^16 + freq`` of symbols."""
Learning = tuple[Integers, Integers, Integers, Integers, Entries, Symbols, int, int, int]
"""What compiled loops are given of :class:`AdaptiveTables`."""

TABLE_BITS = 12
"""Every table sums to 2^12: a frequency fits 16 bits, a symbol sends at most one word."""

LOW = 1 << 16
"""The least state of a lane."""
SCALAR_LANES = 16
"""Up to so many lanes a loop of Python is faster than arrays."""
MAX_LANES = 8192
BITS_PER_LANE, BITS_PER_FILLED_LANE = 4096, 1536
"""So many coded bits make another lane worth its own; the second where the tail fills its state."""
PRICE_BITS, PRICED_SHARE = 16, 16
"""Prices of symbols are in 2^-16 bits; those of every 16th are summed up."""
RAW_BITS = 8
"""Raw bits of one symbol, at most."""


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """Frequencies of symbols, one row for each class.

    Parameters
    ----------
    entries : array of uint32, shape (K, A)
        ``start * 2^16 + freq`` of every symbol of every class.
    slots : array of uint8, shape (K, 2^12)
        Which symbol owns a slot.
    """

    entries: Entries
    slots: Symbols

    @classmethod
    def of(cls, freq: NDArray[np.integer]) -> "Tables":
        """Return the tables of :func:`frequencies`, (K, A), A at most 256."""
        freq = np.asarray(freq, np.int64)
        K, A = freq.shape
        start = np.cumsum(freq, axis=1) - freq
        owners = np.tile(np.arange(A, dtype=np.uint8), K)
        slots = np.repeat(owners, freq.ravel()).reshape(K, 1 << TABLE_BITS)
        return cls((start << 16 | freq).astype(np.uint32), slots)


def frequencies(counts: NDArray[np.integer]) -> Integers:
    """Return frequencies that sum to 2^12 in every row, in proportion to counts, (K, A).

    ``f = [c > 0] + floor(c (2^12 - n) / sum c)`` with n the number of counts above 0, and what is
    missing to ``2^12`` is added to the largest count (the first of them). A count of 0 gets no
    frequency; a row of zeros gives everything to symbol 0.
    """
    c = np.asarray(counts, np.int64)
    total = c.sum(axis=1, keepdims=True)
    n = np.count_nonzero(c, axis=1)[:, None]
    f = (c > 0) + c * ((1 << TABLE_BITS) - n) // np.maximum(total, 1)
    f[np.arange(len(c)), c.argmax(axis=1)] += (1 << TABLE_BITS) - f.sum(axis=1)
    return np.asarray(f, np.int64)


class AdaptiveTables:
    """Tables that learn from what was coded; both ends do the same integer arithmetic.

    Parameters
    ----------
    counts : array of integers, shape (K, A)
        Initial counts; symbols that may come need at least 1.
    weight : int
        What one symbol adds to its count.
    limit : int
        A class whose counts sum to more than this has them halved, ``(c + 1) >> 1``.
    patience : int, optional
        Learn only once this many symbols, and an eighth of all before, have come; after every
        batch by default.

    Notes
    -----
    A class gets a new table when what was added since its last one is an eighth of its sum or more,
    so tables are made often at first and rarely later.
    """

    def __init__(
        self,
        counts: NDArray[np.integer],
        *,
        weight: int = 32,
        limit: int = 1 << 16,
        patience: int | None = None,
    ) -> None:
        self.counts = np.array(counts, np.int64)
        self.weight, self.limit = weight, limit
        self.patience = -(1 << 62) if patience is None else patience
        self.fresh = np.zeros(len(self.counts), np.int64)  # added since the last table
        self.seen = np.zeros_like(self.counts)  # symbols since counts were last changed
        self.n = np.zeros(2, np.int64)  # symbols that were learned, and that wait
        self.tables = Tables.of(frequencies(self.counts))

    def copy(self) -> "AdaptiveTables":
        """Return tables that learn apart from these."""
        new = copy(self)
        new.counts, new.seen = self.counts.copy(), self.seen.copy()
        new.fresh, new.n = self.fresh.copy(), self.n.copy()
        new.tables = Tables(self.tables.entries.copy(), self.tables.slots.copy())
        return new

    @property
    def arrays(self) -> Learning:
        """What `kernels.update` changes, and its numbers."""
        known = self.counts, self.seen, self.fresh, self.n, self.tables.entries, self.tables.slots
        return *known, self.weight, self.limit, self.patience

    def update(self, classes: NDArray[np.integer], symbols: NDArray[np.integer]) -> None:
        """Learn from a batch that both ends know by now: symbols and their classes."""
        if running.pays(0):
            from elmfield.codec import kernels

            kernels.update(self.arrays, as_bytes(classes), as_bytes(symbols))
            return
        where = np.asarray(classes, np.intp).ravel() * self.seen.shape[1] + symbols.ravel()
        self.seen += np.bincount(where, minlength=self.seen.size).reshape(self.seen.shape)
        self.n[1] += symbols.size
        if self.n[1] < self.patience + self.n[0] // 8:
            return
        self.n[:] = self.n.sum(), 0
        self.seen *= self.weight
        self.counts += self.seen
        self.fresh += self.seen.sum(axis=1)
        self.seen[:] = 0
        sums = self.counts.sum(axis=1)
        while (large := np.flatnonzero(sums > self.limit)).size:
            self.counts[large] = (self.counts[large] + 1) >> 1
            sums[large] = self.counts[large].sum(axis=1)
        stale = np.flatnonzero((self.fresh > 0) & (self.fresh * 8 >= sums))
        if stale.size:
            new = Tables.of(frequencies(self.counts[stale]))
            self.tables.entries[stale], self.tables.slots[stale] = new.entries, new.slots
            self.fresh[stale] = 0


def as_bytes(x: NDArray[np.integer]) -> Symbols:
    """Return classes or symbols, flat, as compiled loops take them."""
    return np.ascontiguousarray(x, np.uint8).reshape(-1)


# --- one symbol after another ---------------------------------------------------------------------


def read_symbols(
    states: Integers,
    words: Words,
    classes: Symbols,
    slots: Symbols,
    entries: Entries,
    symbols: Symbols,
    at: int,
) -> int:
    """Decode a batch; return the next word, beyond the last if some were missing.

    One more word stands behind the last one, for all that are missing.
    """
    L, end, lane = len(states), len(words) - 1, 0
    for i in range(len(classes)):
        row, x = classes[i], states[lane]
        slot = x & 4095
        symbol = slots[row, slot]
        entry = entries[row, symbol]
        x = (x >> 12) * (entry & 0xFFFF) + slot - (entry >> 16)
        if x < LOW:
            x = x << 16 | words[min(at, end)]
            at += 1
        states[lane], symbols[i] = x, symbol
        lane = lane + 1 if lane + 1 < L else 0
    return at


def write_batches(states: Integers, entries: Entries, ends: Integers, words: Words, at: int) -> int:
    """Step back over all batches; their words come to stand before `at`: return the first."""
    L, i = len(states), len(entries)
    for b in range(len(ends) - 1, -1, -1):
        start = ends[b - 1] if b else 0
        lane = (i - start) % L
        while i > start:
            i -= 1
            lane = (lane if lane else L) - 1
            entry, x = entries[i], states[lane]
            freq = entry & 0xFFFF
            if x >> 20 >= freq:
                at -= 1
                words[at] = x & 0xFFFF
                x >>= 16
            quotient = x // freq
            states[lane] = (quotient << 12) + x - quotient * freq + (entry >> 16)
    return at


def _in_turn(loop: Loop, arrays: Sequence[NDArray[np.integer]], at: int) -> int:
    """Run a loop, compiled if that pays; Python reads a memoryview faster than an array."""
    if running.pays(0):
        from elmfield.codec import kernels

        return int(getattr(kernels, loop.__name__)(*arrays, at))
    return loop(*(x.data for x in arrays), at)


# --- writing --------------------------------------------------------------------------------------


def raw_entries(values: NDArray[np.integer], low: int, widths: NDArray[np.integer]) -> Entries:
    """Return entries of up to 8 bits of values, from bit `low` on: all slots are as likely."""
    some = np.asarray(np.minimum(widths - low, RAW_BITS), np.int64)
    where = (values >> low) & ((1 << some) - 1)
    where += some << RAW_BITS
    return np.asarray(raw_tables().entries.take(where))


@lru_cache(maxsize=1)
def raw_tables() -> Tables:
    """Return the tables of these entries; the class is the number of bits."""
    freq = np.zeros((1 + RAW_BITS, 1 << RAW_BITS), np.int64)
    for bits in range(1 + RAW_BITS):
        freq[bits, : 1 << bits] = 1 << TABLE_BITS - bits
    return Tables.of(freq)


@lru_cache(maxsize=1)
def _prices() -> NDArray[np.int64]:
    """Return the bits of a symbol by its frequency, times 2^PRICE_BITS."""
    bits = TABLE_BITS - np.log2(np.maximum(np.arange(1 + (1 << TABLE_BITS)), 1))
    return np.asarray(np.rint(bits * (1 << PRICE_BITS)), np.int64)


class StreamWriter:
    """Batches of symbols in the order of reading, and raw bits behind them."""

    def __init__(self) -> None:
        self._entries: list[Entries] = []
        self._sizes: list[NDArray[np.integer]] = []
        self.raw: list[Bits] = []  # read after all symbols

    def append(self, entries: Entries, sizes: NDArray[np.integer]) -> None:
        """Append batches of so many entries of tables."""
        self._entries.append(entries)
        self._sizes.append(sizes)

    def symbols(
        self, tables: AdaptiveTables, classes: NDArray[np.integer], symbols: Symbols
    ) -> None:
        """Append a batch, shape (n,), and learn from it."""
        entries = tables.tables.entries
        where = classes.astype(np.intp) * entries.shape[1] + symbols
        self.append(entries.take(where), np.array([where.size]))
        tables.update(classes, symbols)

    def numbers(self, values: NDArray[np.integer], widths: NDArray[np.integer]) -> None:
        """Append numbers of so many bits, the lowest 8 first, then the next of those with more."""
        for low in range(0, int(widths.max(initial=0)), RAW_BITS):
            some = widths > low
            entries = raw_entries(values[some], low, widths[some])
            self.append(entries, np.array([entries.size]))

    def content(self, tail: Words | None = None) -> bytes:
        """Return the bytes of the stream; `tail` stands behind it in place of raw bits."""
        if tail is None:
            bits = np.concatenate([np.zeros(0, np.uint8), *self.raw])
            tail = np.packbits(np.pad(bits, (0, -bits.size % 16))).view("<u2")
        entries = np.concatenate([np.zeros(0, np.uint32), *self._entries])
        sizes = np.concatenate([np.zeros(0, np.int64), *self._sizes])
        some = entries[::PRICED_SHARE] & 0xFFFF
        total = PRICED_SHARE * int(_prices().take(some).sum()) >> PRICE_BITS
        filled = min(tail.size, total // BITS_PER_FILLED_LANE)
        most = min(MAX_LANES, int(sizes.max(initial=1)))
        lanes = max(1, min(most, max(filled, total // BITS_PER_LANE)))
        x = np.full(lanes, LOW, np.int64)
        x[: tail.size] += tail[:lanes]
        words = encode(entries, np.cumsum(sizes), x)
        out = ByteWriter()
        out.number(lanes)
        out.number(len(words))
        out.data += x.astype("<u4").tobytes() + words.astype("<u2").tobytes()
        return bytes(out.data + tail[lanes:].astype("<u2").tobytes())


def encode(entries: Entries, ends: Integers, x: Integers) -> Words:
    """Encode batches backwards, from last states to first ones, in place; return the words."""
    L, n = len(x), len(entries)
    if L <= SCALAR_LANES or running.pays(0):
        words = np.empty(n, np.uint16)
        return words[_in_turn(write_batches, (x, entries, ends.astype(np.int64), words), n) :]
    states, found = x.astype(np.uint32), [np.zeros(0, np.uint16)]
    freqs, starts = entries & np.uint32(0xFFFF), entries >> np.uint32(16)
    for start, end in zip([0, *ends[:-1].tolist()][::-1], ends[::-1].tolist()):
        for a in reversed(range(start, end, L)):
            part = slice(a, min(a + L, end))
            found.append(_encode_symbols(states[: part.stop - a], freqs[part], starts[part]))
    x[:] = states
    return np.concatenate(found[::-1])


def _encode_symbols(state: Entries, freq: Entries, start: Entries) -> Words:
    """Step back by one symbol a state, in place; return the words. Changes `freq` too."""
    # x would pass 2^32 if x >> 20 >= freq.
    full = ((state >> 32 - TABLE_BITS) >= freq).nonzero()[0]
    high = state.take(full)
    words = high.astype(np.uint16)
    high >>= 16
    state[full] = high
    # x <- floor(x / freq) 2^bits + x mod freq + start
    quotient = state // freq
    freq *= quotient
    state -= freq
    quotient <<= TABLE_BITS
    state += quotient
    state += start
    return words


# --- reading --------------------------------------------------------------------------------------


class StreamReader:
    """What a :class:`StreamWriter` wrote: all symbols, then `finish`, then raw bits.

    `x` has the states, `words` one more word behind the last, `at` the next.
    """

    def __init__(self, data: bytes) -> None:
        reader = ByteReader(data)
        lanes, n_words = reader.number(), reader.number()
        if not 1 <= lanes <= MAX_LANES:
            raise damaged("names impossible lanes")
        self.x = reader.array("<u4", lanes).astype(np.int64)
        if int(self.x.min()) < LOW:
            raise damaged("has a stream that begins with an impossible state")
        self.words = np.append(reader.array("<u2", n_words).astype(np.uint16), np.uint16(0))
        rest = reader.rest()
        self.at, self._rest = 0, np.frombuffer(rest + bytes(len(rest) % 2), "<u2")
        self._bits = np.zeros(0, np.uint8)

    def symbols(self, tables: AdaptiveTables, classes: NDArray[np.integer]) -> Symbols:
        """Return the next batch, shape (n,), and learn from it."""
        symbols = self.decode(tables.tables, classes)
        tables.update(classes, symbols)
        return symbols

    def numbers(self, widths: NDArray[np.integer]) -> Integers:
        """Return numbers of so many bits."""
        out = np.zeros(widths.shape, np.int64)
        for low in range(0, int(widths.max(initial=0)), RAW_BITS):
            some = np.flatnonzero(widths > low)
            part = self.decode(raw_tables(), np.minimum(widths[some] - low, RAW_BITS))
            out[some] |= part.astype(np.int64) << low
        return out

    def decode(self, tables: Tables, classes: NDArray[np.integer]) -> Symbols:
        """Return the symbols of the next batch, shape (n,)."""
        L, n = len(self.x), len(classes)
        if L <= SCALAR_LANES or running.pays(0):
            if int(classes.max(initial=0)) >= len(tables.entries):  # a loop would not say so
                raise IndexError("a class has no table")
            symbols = np.empty(n, np.uint8)
            arrays = self.x, self.words, as_bytes(classes), tables.slots, tables.entries, symbols
            self.at = _in_turn(read_symbols, arrays, self.at)
        else:
            rows = np.asarray(classes, np.intp)
            pieces = [self._decode_lanes(tables, rows[a : a + L]) for a in range(0, max(n, 1), L)]
            symbols = np.concatenate(pieces)
        self.check()
        return symbols

    def check(self) -> None:
        """Raise where words were missing."""
        if self.at >= len(self.words):
            raise damaged("has a stream that ends before its last symbol")

    def _decode_lanes(self, tables: Tables, rows: NDArray[np.intp]) -> Symbols:
        """Return symbols, no more than there are lanes."""
        x = self.x[: len(rows)]
        slot = x & (1 << TABLE_BITS) - 1
        symbols: Symbols = tables.slots.take((rows << TABLE_BITS) + slot)
        entry = tables.entries.take(rows * tables.entries.shape[1] + symbols).astype(np.int64)
        x >>= TABLE_BITS
        x *= entry & 0xFFFF
        x += slot
        x -= entry >> 16
        small = (x < LOW).nonzero()[0]
        words = self.words.take(np.arange(self.at, self.at + small.size), mode="clip")
        x[small] = x[small] << 16 | words
        self.at += small.size
        return symbols

    def finish(self) -> Words:
        """Return the tail, once all symbols were read: in the lanes, then behind the words."""
        if self.at != len(self.words) - 1:
            raise damaged("has words that nothing reads")
        if int(self.x.max()) >= 2 * LOW:
            raise damaged("has a stream that does not end as it should")
        tail = np.concatenate([self.x - LOW, self._rest]).astype("<u2")
        self._bits = np.unpackbits(tail.view(np.uint8))
        return tail.astype(np.uint16)

    def raw(self, n: int) -> Bits:
        """Return the next n raw bits."""
        if n > len(self._bits):
            raise damaged("ends before its last raw bit")
        bits, self._bits = self._bits[:n], self._bits[n:]
        return bits
