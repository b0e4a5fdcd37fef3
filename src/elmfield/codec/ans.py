"""The entropy engine: asymmetric numeral systems, many lanes at once, integers only.

A *batch* is an array of symbols that are coded without knowing each other. The decoder is asked
batch by batch, so what it must know of a batch may depend on all earlier ones. Symbol ``i`` of a
batch goes to lane ``i mod lanes``: every batch begins at lane 0. A lane is a state ``x`` in
``[2^16, 2^32)``; a symbol that owns the slots ``[start, start + freq)`` of ``2^bits`` is decoded by

    slot = x mod 2^bits,   x <- freq * floor(x / 2^bits) + slot - start,

and if ``x`` fell below ``2^16`` then ``x <- 2^16 x + the next word``, a word being 16 bits; lanes
take their words in order of lane. A stream begins with the states, two words each (low half first).

Little is lost at the end of a lane: its last state is ``2^16 + w``, and ``w`` is a word that would
have come next in the stream (:meth:`Decoder.release` puts it back). What stands behind the last
word that symbols need is the *tail*: words of the caller, for raw bits that no context waits for.

Notes
-----
One core, millions of symbols a second, encoded and decoded alike: 3 with 64 lanes, 9
with 256, 28 with 1024, 66 with 4096 and more: a batch costs about 25 µs however small it is, a
symbol about 10 ns. A lane costs about 9 bits (8 of them because a first state is written as 32
bits, whatever its size) if others or the tail have a word for its last state, else 25.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield.errors import StoreError

Words = NDArray[np.uint16]
Symbols = NDArray[np.uint8]

Batch = tuple[NDArray[np.uint32], int]
"""Entries and the bits of their tables."""

_Bits = np.uint32 | NDArray[np.uint32]

LOW = 1 << 16
"""The least state of a lane."""
MOST_BITS = 15
"""Slots are at most 2^15, so that a frequency fits 16 bits and a symbol sends at most one word."""
MOST_SYMBOLS = 256
FEW = 16
"""Up to so many lanes plain numbers are faster than arrays."""

_HALF, _WORD, _WIDTH, _ONE = np.uint32(0xFFFF), np.uint32(16), np.uint32(32), np.uint32(1)
_NOTHING = np.zeros(0, np.uint32)


@dataclass(frozen=True)
class Tables:
    """Frequencies of symbols, one row for each class.

    Parameters
    ----------
    bits : int
        Every row sums to ``2^bits``; at most 15.
    entries : array of uint32, shape (K, A)
        ``start * 2^16 + freq`` of every symbol of every class.
    slots : array of uint8, shape (K, 2^bits)
        Which symbol owns a slot.
    """

    bits: int
    entries: NDArray[np.uint32]
    slots: Symbols

    @classmethod
    def of(cls, freq: NDArray[np.integer], bits: int) -> "Tables":
        """Tables of frequencies, shape (K, A); StoreError unless rows sum to ``2^bits``."""
        freq = np.asarray(freq, np.int64)
        K, A = freq.shape
        if not 1 <= bits <= MOST_BITS or not 1 <= A <= MOST_SYMBOLS:
            raise StoreError(
                f"A table has 1 to 256 symbols and 1 to 15 bits; got {A} symbols, {bits} bits."
            )
        if K and (int(freq.min()) < 0 or bool((freq.sum(axis=1) != 1 << bits).any())):
            raise StoreError(
                f"The frequencies of a table do not sum to 2^{bits}: the data are damaged."
            )
        start = np.cumsum(freq, axis=1) - freq
        owners = np.tile(np.arange(A, dtype=np.uint8), K)
        slots = np.repeat(owners, freq.ravel()).reshape(K, 1 << bits)
        return cls(bits, (start << 16 | freq).astype(np.uint32), slots)

    def replaced(self, rows: NDArray[np.integer], freq: NDArray[np.integer]) -> "Tables":
        """The same tables with other frequencies in some rows; the arrays are changed in place."""
        new = Tables.of(freq, self.bits)
        self.entries[rows], self.slots[rows] = new.entries, new.slots
        return self


def joined(tables: Sequence[Tables]) -> Tables:
    """Tables of several streams behind one another, all with the same bits and symbols."""
    entries, slots = [t.entries for t in tables], [t.slots for t in tables]
    return Tables(tables[0].bits, np.concatenate(entries), np.concatenate(slots))


class Encoder:
    """Collects batches in the order of decoding and codes them backwards.

    Parameters
    ----------
    lanes : int
        How many states there are. Not written: a decoder must know it.
    """

    def __init__(self, lanes: int) -> None:
        self.lanes = self._kept = lanes
        self._batches: list[tuple[NDArray[np.uint32], _Bits, int]] = []
        self._size = 0

    def push(
        self, tables: Tables, classes: NDArray[np.integer], symbols: NDArray[np.integer]
    ) -> None:
        """Append a batch: symbols and the class (row of the tables) of each, both of shape (n,)."""
        A = tables.entries.shape[1]
        entries = tables.entries.take(np.asarray(classes, np.intp) * A + symbols)
        self.push_entries(entries, tables.bits)

    def push_entries(self, entries: NDArray[np.uint32], bits: int | NDArray[np.uint32]) -> None:
        """Append a batch of ``start * 2^16 + freq``, shape (n,); no frequency may be 0.

        With bits of their own, 0 to 15, entries ``v * 2^16 + 1`` are raw numbers below ``2^bits``.
        """
        if not (entries & _HALF).all():
            raise ValueError("A symbol whose frequency is 0 cannot be coded; give it a frequency.")
        if min(len(entries), self.lanes) > self._kept:
            raise ValueError(
                f"A batch of {len(entries)} needs lanes that were released; {self._kept} are kept."
            )
        shift = bits if isinstance(bits, np.ndarray) else np.uint32(bits)
        self._batches.append((entries, shift, self._kept))
        self._size += len(entries)

    def release(self, keep: int) -> None:
        """Later batches use lanes below `keep` only, as the decoder will say at this place too."""
        if keep < self._kept:
            self._batches.append((_NOTHING, np.uint32(0), self._kept))
            self._kept = keep

    def finish(self, tail: Words | None = None) -> Words:
        """The stream: states, words, then the words of `tail` that no lane took."""
        L = self.lanes
        tail = np.zeros(0, np.uint16) if tail is None else tail
        stack = _Stack(self._size + len(tail) + 4 * L)
        stack.push(tail)
        x = np.zeros(L, np.uint32)
        x[: self._kept] = stack.lanes(self._kept)
        alive = self._kept
        for entries, bits, kept in reversed(self._batches):
            if kept > alive:
                x[alive:kept] = stack.lanes(kept - alive)
                alive = kept
            for a in reversed(range(0, len(entries), L)):
                e = entries[a : a + L]
                some = bits[a : a + L] if isinstance(bits, np.ndarray) else bits
                _encode(x[: len(e)], e, some, stack)
        halves = np.stack([x & np.uint32(0xFFFF), x >> np.uint32(16)], axis=1)
        stack.push(halves.ravel().astype(np.uint16))
        return stack.content()


def _encode(
    x: NDArray[np.uint32], entries: NDArray[np.uint32], bits: _Bits, stack: "_Stack"
) -> None:
    """Turn states after the symbols into states before them, in place."""
    freq = entries & _HALF
    # x would pass 2^32 if x >> (32 - bits) >= freq; NumPy's shift by 32 gives 0.
    full = ((x >> (_WIDTH - bits)) >= freq).nonzero()[0]
    if full.size:
        high = x.take(full)
        stack.push(high.astype(np.uint16))
        high >>= _WORD
        x[full] = high
    # x <- floor(x / freq) 2^bits + x mod freq + start
    quotient = x // freq
    freq *= quotient
    x -= freq
    quotient <<= bits
    x += quotient
    x += entries >> _WORD


def through(batches: Sequence[Batch], x: NDArray[np.uint32]) -> Words:
    """Code all batches backwards, from last states to first ones, in place; the words."""
    L = len(x)
    if L <= FEW:
        return _through_few(batches, x)
    stack = _Stack(sum(len(entries) for entries, _ in batches) + 1)
    for entries, bits in reversed(batches):
        for a in reversed(range(0, len(entries), L)):
            part = entries[a : a + L]
            _encode(x[: len(part)], part, np.uint32(bits), stack)
    return stack.content()


def _through_few(batches: Sequence[Batch], x: NDArray[np.uint32]) -> Words:
    """The same for a few lanes, symbol by symbol."""
    states, words, L = x.tolist(), [], len(x)
    for entries, bits in reversed(batches):
        most, lane = 32 - bits, len(entries) % L
        for entry in reversed(entries.tolist()):
            lane = (lane or L) - 1
            state, freq = states[lane], entry & 0xFFFF
            if state >> most >= freq:
                words.append(state & 0xFFFF)
                state >>= 16
            states[lane] = (state // freq << bits) + state % freq + (entry >> 16)
    x[:] = states
    return np.array(words[::-1], np.uint16)


class _Stack:
    """Words that are written backwards into room made beforehand."""

    def __init__(self, room: int) -> None:
        self._room = np.zeros(room, np.uint16)
        self._top = room

    def push(self, words: Words) -> None:
        self._top -= len(words)
        self._room[self._top : self._top + len(words)] = words

    def lanes(self, n: int) -> NDArray[np.uint32]:
        """Last states of n lanes, which take the n words on top, or zeros for want of words."""
        there = self._room[self._top : self._top + n]
        self._top += len(there)
        x = np.full(n, LOW, np.uint32)
        x[: len(there)] += there
        return x

    def content(self) -> Words:
        return self._room[self._top :].copy()


class Decoder:
    """One or several streams, read batch by batch.

    Parameters
    ----------
    streams : sequence of arrays of uint16
        What :meth:`Encoder.finish` gave. Several streams are decoded side by side: they have
        equally many lanes and batches of equal sizes.
    lanes : int
        As in the encoder.
    """

    def __init__(self, streams: Sequence[Words], lanes: int) -> None:
        if any(len(words) < 2 * lanes for words in streams):
            raise StoreError(
                "A coded stream is too short for its lanes: the data are cut off or damaged."
            )
        lengths = np.array([len(words) for words in streams], np.int64)
        self._words = np.concatenate(streams).astype(np.uint32)
        self._end = np.cumsum(lengths)
        self._next = self._end - lengths
        halves = self._words[self._next[:, None] + np.arange(2 * lanes)]  # (streams, 2 lanes)
        self._next += 2 * lanes
        self._x: NDArray[np.uint32] = halves[:, ::2] | halves[:, 1::2] << np.uint32(16)
        self._lanes = self._kept = lanes
        if lanes and int(self._x.min(initial=LOW)) < LOW:
            raise StoreError(
                "A coded stream begins with an impossible state: the data are damaged."
            )

    def decode(self, tables: Tables, classes: NDArray[np.integer]) -> Symbols:
        """Symbols of the next batch, in the shape of `classes`: (n,), or (streams, n)."""
        rows = np.asarray(classes, np.intp).reshape(len(self._x), -1)
        n, L = rows.shape[1], self._lanes
        if len(rows) == 1 and L <= FEW:
            return self._one_by_one(tables, rows[0].tolist()).reshape(classes.shape)
        if n <= L:
            return self._some(tables, rows).reshape(classes.shape)
        pieces = [self._some(tables, rows[:, a : a + L]) for a in range(0, n, L)]
        return np.concatenate(pieces, axis=1).reshape(classes.shape)

    @property
    def states(self) -> NDArray[np.uint32]:
        """The lanes as they are now, shape (streams, lanes)."""
        return self._x

    @property
    def lone(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.int64]]:
        """Lanes and words of the only stream, and (2,): the next word, the end.

        Who reads from it elsewhere changes the lanes in place, and gives the place to `go_on`.
        """
        return self._x[0], self._words, np.array([self._next[0], self._end[0]], np.int64)

    def go_on(self, place: NDArray[np.int64]) -> None:
        """Say how far the only stream was read."""
        self._next[0] = place[0]

    @property
    def is_read(self) -> bool:
        """Whether no word is left."""
        return bool((self._next == self._end).all())

    def _one_by_one(self, tables: Tables, rows: list[int]) -> Symbols:
        """Symbols of one stream with a few lanes."""
        bits, width, L = tables.bits, tables.entries.shape[1], self._lanes
        low, slots, entries = (1 << bits) - 1, tables.slots.item, tables.entries.item
        states, word = self._x[0].tolist(), int(self._next[0])
        words, out, lane = self._words[word:].item, [], 0
        first, most = word, int(self._end[0])
        for row in rows:
            state = states[lane]
            slot = state & low
            symbol = slots((row << bits) + slot)
            entry = entries(row * width + symbol)
            state = (state >> bits) * (entry & 0xFFFF) + slot - (entry >> 16)
            if state < LOW:
                if word >= most:
                    raise too_short()
                state = state << 16 | words(word - first)
                word += 1
            states[lane] = state
            out.append(symbol)
            lane = lane + 1 if lane + 1 < L else 0
        self._x[0], self._next[0] = states, word
        return np.array(out, tables.slots.dtype)

    def _some(self, tables: Tables, rows: NDArray[np.intp]) -> Symbols:
        """Symbols for at most as many classes as there are lanes, shape (streams, n)."""
        x = self._x[:, : rows.shape[1]]
        slot = x & np.uint32((1 << tables.bits) - 1)
        place = rows << tables.bits
        place += slot
        symbols: Symbols = tables.slots.take(place)
        np.multiply(rows, tables.entries.shape[1], out=place)
        place += symbols
        entry = tables.entries.take(place)
        high = x >> np.uint32(tables.bits)
        high *= entry & _HALF
        high += slot
        entry >>= _WORD
        high -= entry
        self._refill(high)
        self._x[:, : rows.shape[1]] = high
        return symbols

    def raw(self, bits: NDArray[np.integer]) -> NDArray[np.uint32]:
        """Raw numbers of so many bits each, 0 to 15, in the shape of `bits`, as `decode` has it."""
        counts = np.asarray(bits, np.uint32).reshape(len(self._x), -1)
        out = np.empty_like(counts)
        for a in range(0, counts.shape[1], self._lanes):
            shift = counts[:, a : a + self._lanes]
            x = self._x[:, : shift.shape[1]]
            mask = _ONE << shift
            mask -= _ONE
            mask &= x
            out[:, a : a + self._lanes] = mask
            high = x >> shift
            self._refill(high)
            self._x[:, : shift.shape[1]] = high
        return out.reshape(bits.shape)

    def _refill(self, x: NDArray[np.uint32]) -> None:
        """Give states that have become small the next words, in place; x is contiguous."""
        small = x < LOW
        flat = x.reshape(-1)
        which = small.reshape(-1).nonzero()[0]
        if not which.size:
            return
        if len(x) == 1:
            a = int(self._next[0])
            words = self._words[a : a + which.size]
            self._next[0] = a + which.size
            if len(words) < which.size:
                raise too_short()
        else:
            counts = np.count_nonzero(small, axis=1)
            ahead = self._next - (np.cumsum(counts) - counts)
            self._next += counts
            if bool((self._next > self._end).any()):
                raise too_short()
            words = self._words.take(np.arange(which.size) + np.repeat(ahead, counts))
        filled = flat.take(which)
        filled <<= _WORD
        filled |= words
        flat[which] = filled

    def release(self, keep: int) -> None:
        """Later batches use lanes below `keep` only: let the others give their last word back."""
        if keep >= self._kept:
            return
        given = self._x[:, keep : self._kept] - np.uint32(LOW)
        if int(given.max(initial=0)) >= LOW:
            raise StoreError("A coded stream does not end as it should: the data are damaged.")
        self._next -= given.shape[1]
        self._words[self._next[:, None] + np.arange(given.shape[1])] = given
        self._kept = keep

    def finish(self) -> list[Words]:
        """What stands behind the symbols of every stream: the tail, and perhaps zeros after it."""
        self.release(0)
        spans = zip(self._next.tolist(), self._end.tolist(), strict=True)
        return [self._words[a:b].astype(np.uint16) for a, b in spans]


def too_short() -> StoreError:
    """What to raise where words are missing."""
    return StoreError(
        "A coded stream ends before its last symbol: the data are cut off or damaged."
    )
