"""Batches of symbols and raw bits as bytes: many lanes that cost about a bit each.

A lane's first state, as the decoder reads it, may have any octave from 2^16 to 2^32, and to write
the octave would cost 4 bits. So the encoder codes twice: the first time to see where every lane
comes out, the second time with as many raw bits in the lane's last state as make it come out in
the two upper octaves. The decoder sees from the last state how many raw bits there are: those
below its leading one.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.ans import LOW, Batch, Decoder, Words, through
from elmfield.codec.lossless.sections import Reader, Writer
from elmfield.codec.lossy.magnitudes import packed, unpacked
from elmfield.errors import StoreError

Bits = NDArray[np.uint8]

MOST_LANES = 8192
BITS_PER_LANE = 256
"""So many coded bits make another lane worth its bit."""
UPPER = 31


def damaged(what: str) -> StoreError:
    """What to raise where bytes cannot be what an encoder wrote."""
    return StoreError(f"A coded tile {what}: the data are cut off or damaged.")


def _octaves(x: NDArray[np.uint32]) -> NDArray[np.int64]:
    return np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1


def lanes_for(batches: Sequence[Batch], raw: Bits) -> int:
    """How many lanes are worth it."""
    total = float(len(raw))
    for entries, bits in batches:
        freq = (entries & np.uint32(0xFFFF)).astype(np.float32)
        total += bits * len(freq) - float(np.log2(freq).sum())
    largest = max((len(entries) for entries, _ in batches), default=1)
    return max(1, min(MOST_LANES, largest, len(raw) // 24, int(total / BITS_PER_LANE)))


def _coder(batches: Sequence[Batch]) -> Callable[[NDArray[np.uint32]], Words]:
    """What codes all batches from last states to first ones, in place, and gives the words."""
    bits = {bits for _, bits in batches}
    if len(bits) != 1 or not compiled.pays(0):
        return partial(through, batches)
    from elmfield.codec.lossy import loops

    entries = np.concatenate([entries for entries, _ in batches])
    ends = np.cumsum([len(entries) for entries, _ in batches], dtype=np.int64)
    room = np.empty(len(entries), np.uint16)

    def code(x: NDArray[np.uint32]) -> Words:
        return room[loops.through(entries, ends, bits.copy().pop(), x, room) :]

    return code


def coded(batches: Sequence[Batch], raw: Bits) -> bytes:
    """Two bytes for the number of lanes, their states, the words, and the raw bits no lane took."""
    lanes = lanes_for(batches, raw)
    x = np.full(lanes, round(LOW * 2**0.5), np.uint32)
    through = _coder(batches)
    through(x)
    come_out = np.log2(x.astype(np.float64))  # of a last state of 16.5 bits
    more = np.floor(UPPER - come_out + 0.5).astype(np.int64) % 16
    raw = np.concatenate([raw, np.zeros(max(0, int((16 + more).sum()) - len(raw)), np.uint8)])
    taken = unpacked(raw, 16 + more)
    x = ((np.int64(1) << (16 + more)) + taken).astype(np.uint32)
    rest = raw[int((16 + more).sum()) :]
    words = through(x)
    octaves = _octaves(x)
    odd = np.flatnonzero((octaves != UPPER) & (octaves != UPPER - 1))
    octave_bits = (octaves == UPPER).astype(np.uint8)
    below = x.astype(np.int64) - (np.int64(1) << octaves)
    states = np.packbits(np.concatenate([octave_bits, packed(below, octaves)])).tobytes()
    exceptions = np.stack([odd, octaves[odd]], axis=1).astype("<u2").tobytes()
    head = Writer()
    for n in (lanes, len(odd), len(words)):
        head.number(n)
    coded_words = words.astype("<u2").tobytes()
    return bytes(head.data) + exceptions + states + coded_words + np.packbits(rest).tobytes()


class LaneReader(Decoder):
    """What :func:`coded` wrote: batches by `decode`, then `raw_bits`."""

    def __init__(self, data: bytes) -> None:
        reader = Reader(data)
        lanes, n_odd, n_words = (reader.number() for _ in range(3))
        if not 1 <= lanes <= MOST_LANES or n_odd > lanes:
            raise damaged("names impossible lanes")
        odd = np.frombuffer(reader.take(4 * n_odd), "<u2").reshape(-1, 2).astype(np.int64)
        data = reader.rest()
        if 2 * lanes > len(data):
            raise damaged("has a section that is too short")
        states = np.unpackbits(np.frombuffer(data, np.uint8, min(len(data), 4 * lanes)))
        octaves = UPPER - 1 + states[:lanes].astype(np.int64)
        if n_odd:
            if (
                int(odd[:, 0].max()) >= lanes
                or int(odd[:, 1].min()) < 16
                or int(odd[:, 1].max()) > 31
            ):
                raise damaged("names impossible lanes")
            octaves[odd[:, 0]] = odd[:, 1]
        size = -(-int(lanes + octaves.sum()) // 8)
        if len(data) < size + 2 * n_words:
            raise damaged("ends before its last word")
        x = (np.int64(1) << octaves) + unpacked(states[lanes:], octaves)
        halves = np.stack([x & 0xFFFF, x >> 16], axis=1).ravel()
        words = np.frombuffer(data, "<u2", n_words, size)
        super().__init__([np.concatenate([halves, words]).astype(np.uint16)], lanes)
        self._rest = np.frombuffer(data, np.uint8, offset=size + 2 * n_words)

    def raw_bits(self) -> Bits:
        """All raw bits, once all symbols were read."""
        if not self.is_read:
            raise damaged("has words that nothing reads")
        x = self.states[0]
        octaves = _octaves(x)
        below = packed(x.astype(np.int64) - (np.int64(1) << octaves), octaves)
        return np.concatenate([below, np.unpackbits(self._rest)])
