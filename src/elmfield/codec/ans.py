"""The entropy coder: asymmetric numeral systems, many lanes at once, integers only.

A *batch* is an array of symbols that are coded without knowing each other. The decoder is asked
batch by batch, so what it must know of a batch may depend on all earlier ones. Symbol ``i`` of a
batch goes to lane ``i mod lanes``: every batch begins at lane 0. A lane is a state ``x`` in
``[2^16, 2^32)``; a symbol that owns the slots ``[start, start + freq)`` of ``2^bits`` is decoded by

    slot = x mod 2^bits,   x <- freq * floor(x / 2^bits) + slot - start,

and if ``x`` fell below ``2^16`` then ``x <- 2^16 x + the next word``, a word being 16 bits; lanes
take their words in order of lane. A stream begins with the states, two words each (low half first).
Encoding runs backwards, from the last symbol to the first. Several streams with batches of equal
sizes are coded side by side: arrays then have an axis of streams first.

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

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.typing import Integers
from elmfield.codec.container import damaged
from elmfield.codec.symbol_tables import Entries, Symbols, Tables, as_bytes
from elmfield.errors import StoreError

Words = NDArray[np.uint16]
Loop = Callable[..., int]

LOW = 1 << 16
"""The least state of a lane."""
SCALAR_LANES = 16
"""Up to so many lanes a loop of Python is faster than arrays."""

_HALF, _WORD, _WIDTH, _ONE = np.uint32(0xFFFF), np.uint32(16), np.uint32(32), np.uint32(1)


# --- one symbol after another ---------------------------------------------------------------------


def read_symbols(
    states: Integers,
    words: Entries,
    classes: Symbols,
    slots: Symbols,
    entries: Integers | Entries,
    symbols: Symbols,
    bits: int,
    at: int,
) -> int:
    """Decode a batch of one stream; return the next word, beyond the last if some were missing."""
    L, low, end, lane = len(states), (1 << bits) - 1, len(words) - 1, 0
    for i in range(len(classes)):
        row, x = classes[i], states[lane]
        slot = x & low
        symbol = slots[row, slot]
        entry = entries[row, symbol]
        x = (x >> bits) * (entry & 0xFFFF) + slot - (entry >> 16)
        if x < LOW:
            x = x << 16 | words[min(at, end)]
            at += 1
        states[lane], symbols[i] = x, symbol
        lane = lane + 1 if lane + 1 < L else 0
    return at


def write_symbols(states: Integers, entries: Integers, words: Words, bits: int, at: int) -> int:
    """Step back over a batch of one stream; its words stand before `at`: return the first."""
    L = len(states)
    lane = len(entries) % L
    for i in range(len(entries) - 1, -1, -1):
        lane = (lane if lane else L) - 1
        entry, x = entries[i], states[lane]
        freq = entry & 0xFFFF
        if x >> (32 - bits) >= freq:
            at -= 1
            words[at] = x & 0xFFFF
            x >>= 16
        quotient = x // freq
        states[lane] = (quotient << bits) + x - quotient * freq + (entry >> 16)
    return at


def _in_turn(loop: Loop, arrays: Sequence[NDArray[np.integer]], bits: int, at: int) -> int:
    """Run a loop, compiled if that pays; Python reads a memoryview faster than an array."""
    if running.pays(0):
        from elmfield.codec import kernels

        return kernels.IN_TURN[loop](*arrays, bits, at)
    return loop(*(x.data for x in arrays), bits, at)


# --- encoding -------------------------------------------------------------------------------------


class WordStacks:
    """Words of several streams, written backwards; at first they hold the streams' tails.

    `size` is how many words a stream may have besides its tail.
    """

    def __init__(self, tails: Sequence[Words], size: int) -> None:
        self._end = size + max(len(tail) for tail in tails)
        self._words = np.zeros((len(tails), self._end), np.uint16)
        self._top = np.array([self._end - len(tail) for tail in tails], np.int64)
        self._starts = self._end * np.arange(len(tails))
        for row, top, tail in zip(self._words, self._top.tolist(), tails):
            row[top:] = tail

    def push(self, counts: Integers, words: Words) -> None:
        """Put so many words on top of each stream, those of the first stream first."""
        self._top -= counts
        first = self._top + self._starts
        first[1:] -= np.cumsum(counts)[:-1]
        self._words.reshape(-1)[np.arange(words.size) + np.repeat(first, counts)] = words

    def pop_states(self, n: int) -> Entries:
        """Return last states of n lanes: each stream's n words on top, or zeros for none left."""
        place = self._top[:, None] + np.arange(n)
        words = np.take_along_axis(self._words, np.minimum(place, self._end - 1), axis=1)
        words = np.where(place < self._end, words, 0)
        self._top = np.minimum(self._top + n, self._end)
        return np.uint32(LOW) + words.astype(np.uint32)

    def content(self) -> list[Words]:
        """Return what each stream holds."""
        return [row[top:] for row, top in zip(self._words, self._top.tolist())]


def encode(x: Entries, entries: Entries, bits: int, stacks: WordStacks) -> None:
    """Turn states after a batch of symbols, (streams, n), into states before it, in place."""
    (S, L), shift = x.shape, np.uint32(bits)
    for a in reversed(range(0, entries.shape[1], L)):
        e = entries[:, a : a + L].reshape(-1)
        n = e.size // S
        state = x[:, :n].reshape(-1)
        full, words = _encode_symbols(state, e & _HALF, e >> _WORD, shift)
        if full.size:
            stacks.push(np.bincount(full // n, minlength=S), words)
        x[:, :n] = state.reshape(S, n)


def _encode_symbols(
    state: Entries, freq: Entries, start: Entries, shift: np.uint32
) -> tuple[Integers, Words]:
    """Step back by one symbol a state, in place; which states gave a word first, and the words.

    Changes `freq` too.
    """
    # x would pass 2^32 if x >> (32 - bits) >= freq.
    full = ((state >> (_WIDTH - shift)) >= freq).nonzero()[0]
    high = state.take(full)
    words = high.astype(np.uint16)
    if full.size:
        high >>= _WORD
        state[full] = high
    # x <- floor(x / freq) 2^bits + x mod freq + start
    quotient = state // freq
    freq *= quotient
    state -= freq
    quotient <<= shift
    state += quotient
    state += start
    return full, words


def encode_raw(x: Entries, numbers: Entries, stacks: WordStacks) -> None:
    """Do the same for raw numbers, ``value * 2^16 + bits``; those without bits change nothing."""
    L = x.shape[1]
    for a in reversed(range(0, numbers.shape[1], L)):
        some = numbers[:, a : a + L]
        stream, lane = np.nonzero(some)
        if not stream.size:
            continue
        raw = some[stream, lane]
        shift = raw & _HALF
        state = x[stream, lane]
        full = (state >> (_WIDTH - shift)) > 0
        stacks.push(np.bincount(stream[full], minlength=len(x)), state[full].astype(np.uint16))
        state[full] >>= _WORD
        state <<= shift
        state += raw >> _WORD
        x[stream, lane] = state


def encode_batches(batches: Sequence[Entries], bits: int, x: Entries) -> Words:
    """Encode the batches of one stream backwards; return its words. Changes the states (lanes,)."""
    L, shift, found = len(x), np.uint32(bits), [np.zeros(0, np.uint16)]
    if L <= SCALAR_LANES or running.pays(0):
        states, at = x.astype(np.int64), sum(map(len, batches))
        words = np.empty(at, np.uint16)
        for entries in reversed(batches):
            at = _in_turn(write_symbols, (states, entries.astype(np.int64), words), bits, at)
        x[:] = states
        return words[at:]
    for entries in reversed(batches):
        freqs, starts = entries & _HALF, entries >> _WORD
        for a in reversed(range(0, len(entries), L)):
            freq = freqs[a : a + L]
            found.append(_encode_symbols(x[: len(freq)], freq, starts[a : a + L], shift)[1])
    return np.concatenate(found[::-1])


# --- decoding -------------------------------------------------------------------------------------


def too_short() -> StoreError:
    """Return the error for a stream whose words are missing."""
    return damaged("has a stream that ends before its last symbol")


def first_states(words: Words, lanes: int) -> Integers:
    """Return the states that a stream begins with, checked."""
    if len(words) < 2 * lanes:
        raise damaged("has a stream that is too short for its lanes")
    states = words[: 2 * lanes : 2] + (words[1 : 2 * lanes : 2].astype(np.int64) << 16)
    if int(states.min(initial=LOW)) < LOW:
        raise damaged("has a stream that begins with an impossible state")
    return states


class Decoder:
    """One or several streams, read batch by batch.

    Parameters
    ----------
    streams : sequence of arrays of uint16
        Several are decoded side by side: they have equally many lanes and batches of equal sizes.
    lanes : int
        As in the encoder; it is not in the stream.
    """

    def __init__(self, streams: Sequence[Words], lanes: int) -> None:
        self.x = np.stack([first_states(words, lanes) for words in streams]).astype(np.uint32)
        lengths = np.array([len(words) for words in streams], np.int64)
        self.words = np.concatenate(streams).astype(np.uint32)
        self.end = np.cumsum(lengths)
        self.next = self.end - lengths + 2 * lanes
        self._lanes = self._kept = lanes

    def decode(self, tables: Tables, classes: NDArray[np.integer]) -> Symbols:
        """Return the symbols of the next batch; `classes` has the shape (n,) or (streams, n)."""
        L = self._lanes
        if len(self.x) == 1 and (L <= SCALAR_LANES or running.pays(0)):
            return self._decode_in_turn(tables, as_bytes(classes)).reshape(classes.shape)
        rows = np.asarray(classes, np.intp).reshape(len(self.x), -1)
        n = rows.shape[1]
        slots, entries = rows << tables.bits, rows * tables.entries.shape[1]
        pieces = [
            self._decode_lanes(tables, slots[:, a : a + L], entries[:, a : a + L])
            for a in range(0, max(n, 1), L)
        ]
        return np.concatenate(pieces, axis=1).reshape(classes.shape)

    def _decode_in_turn(self, tables: Tables, classes: Symbols) -> Symbols:
        """Return symbols of one stream."""
        if int(classes.max(initial=0)) >= len(tables.entries):  # a compiled loop would not say so
            raise IndexError("a class has no table")
        symbols, end = np.empty(len(classes), np.uint8), int(self.end[0])
        states, words = self.x[0].astype(np.int64), self.words[:end]
        arrays = states, words, classes, tables.slots, tables.entries.astype(np.int64), symbols
        at = _in_turn(read_symbols, arrays, tables.bits, int(self.next[0]))
        if at > end:
            raise too_short()
        self.x[0], self.next[0] = states, at
        return symbols

    def _decode_lanes(
        self, tables: Tables, slots: NDArray[np.intp], place: NDArray[np.intp]
    ) -> Symbols:
        """Return symbols, (streams, n), no more than there are lanes.

        `slots` and `place` say where the tables of their classes begin; they are changed.
        """
        x = self.x[:, : slots.shape[1]]
        slot = x & np.uint32((1 << tables.bits) - 1)
        slots += slot
        symbols: Symbols = tables.slots.take(slots)
        place += symbols
        entry = tables.entries.take(place)
        high = x >> np.uint32(tables.bits)
        high *= entry & _HALF
        high += slot
        entry >>= _WORD
        high -= entry
        self._refill(high)
        x[...] = high
        return symbols

    def decode_raw(self, bits: NDArray[np.integer]) -> Entries:
        """Return raw numbers of so many bits each, 0 to 15, in the shape of `bits`."""
        counts = np.asarray(bits, np.uint32).reshape(len(self.x), -1)
        out = np.empty_like(counts)
        for a in range(0, counts.shape[1], self._lanes):
            shift = counts[:, a : a + self._lanes]
            x = self.x[:, : shift.shape[1]]
            out[:, a : a + self._lanes] = ((_ONE << shift) - _ONE) & x
            high = x >> shift
            self._refill(high)
            self.x[:, : shift.shape[1]] = high
        return out.reshape(bits.shape)

    def _refill(self, x: Entries) -> None:
        """Give states that have become small the next words, in place; x is contiguous."""
        small = x < LOW
        flat = x.reshape(-1)
        which = small.reshape(-1).nonzero()[0]
        if not which.size:
            return
        if len(x) == 1:  # the words of one stream stand in a row
            first = int(self.next[0])
            self.next[0] = first + which.size
            words = self.words[first : first + which.size]
        else:
            counts = np.count_nonzero(small, axis=1)
            ahead = self.next - (np.cumsum(counts) - counts)
            self.next += counts
            words = self.words.take(np.arange(which.size) + np.repeat(ahead, counts), mode="clip")
        if bool((self.next > self.end).any()):
            raise too_short()
        filled = flat.take(which)
        filled <<= _WORD
        filled |= words
        flat[which] = filled

    def release(self, keep: int) -> None:
        """Later batches use lanes below `keep` only: let the others give their last word back."""
        if keep >= self._kept:
            return
        last = self.x[:, keep : self._kept] - np.uint32(LOW)
        if int(last.max(initial=0)) >= LOW:
            raise unfinished()
        self.next -= last.shape[1]
        self.words[self.next[:, None] + np.arange(last.shape[1])] = last
        self._kept = keep

    def finish(self) -> list[Words]:
        """Return what is left of every stream: the tail, and perhaps zeros after it."""
        self.release(0)
        spans = zip(self.next.tolist(), self.end.tolist(), strict=True)
        return [self.words[a:b].astype(np.uint16) for a, b in spans]


def unfinished() -> StoreError:
    """Return the error for a lane whose last state is impossible."""
    return damaged("has a stream that does not end as it should")
