"""Streams of several planes at once: equal layouts have batches of equal sizes.

What the engine of ``codec/ans.py`` does for one stream is done here for many side by side, with the
same words: a batch of a few hundred numbers costs about as much as one of a few thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Integers
from elmfield.codec.ans import LOW, Words
from elmfield.codec.lossless.tokens import BITS
from elmfield.codec.lossless.wavefront import Layout

MOST_LANES, MOST_HALVINGS = 8192, 4
"""Fewer lanes than a sixteenth would make a step of many samples slow."""

_HALF, _WORD, _WIDTH = np.uint32(0xFFFF), np.uint32(16), np.uint32(32)
_BYTE, _NIBBLE = np.uint32(8), np.uint32(15)
_NOTHING = np.uint32(1)
"""A raw number without bits."""

Numbers = NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Plane:
    """A plane that only has to be written.

    Parameters
    ----------
    layout : Layout
        Its steps.
    halvings : int
        How often the number of lanes is halved.
    header : bytes
        What a decoder must know first.
    entries : array of uint32, shape (n,)
        ``start * 2^16 + freq`` of every token, in the order of coding.
    pieces : list of arrays of uint32, shape (n,)
        Raw bits behind tokens, 15 at a time: ``value * 2^16 + bits * 2^8 + 1``.
    tail : array of uint16
        Words behind the stream.
    """

    layout: Layout
    halvings: int
    header: bytes
    entries: Numbers
    pieces: list[Numbers]
    tail: Words

    @property
    def lanes(self) -> int:
        """Lanes of its stream."""
        return lanes_of(self.layout, self.halvings)


@dataclass(frozen=True, eq=False)
class Stream:
    """A plane whose stream is known."""

    halvings: int
    header: bytes
    words: Words


def lanes_of(layout: Layout, halvings: int) -> int:
    """Lanes of a stream: one for every sample of the largest step, halved so many times."""
    return max(1, min(int(layout.sizes.max()), MOST_LANES) >> halvings)


def streams(planes: Sequence[Plane]) -> list[Words]:
    """The stream of each of some planes of equal layout and lanes.

    Steps are coded backwards: tokens of a step come before its raw bits when they are read.
    """
    layout, L = planes[0].layout, planes[0].lanes
    sizes = layout.sizes
    later = np.append(np.maximum.accumulate(sizes[::-1])[::-1][1:], 0)
    kept = np.minimum.accumulate([L, *later[:-1].tolist()]).tolist()
    ends = np.cumsum(sizes)
    starts = ends - sizes
    entries = np.stack([p.entries for p in planes])
    pieces = _together(planes)
    some = [np.logical_or.reduceat((p != _NOTHING).any(axis=0), starts).tolist() for p in pieces]
    stacks = _Stacks([p.tail for p in planes], entries.shape[1] * (1 + len(pieces)) + 4 * L)
    x = np.zeros((len(planes), L), np.uint32)
    alive = 0
    steps = list(zip(starts.tolist(), ends.tolist(), kept))
    for t in reversed(range(len(steps))):
        a, b, n = steps[t]
        if n > alive:
            x[:, alive:n] = stacks.lanes(n - alive)
            alive = n
        for both, there in zip(reversed(pieces), reversed(some)):
            if there[t]:
                _encode_raw(x, both[:, a:b], stacks)
        _encode(x, entries[:, a:b], stacks)
    halves = np.stack([x & _HALF, x >> _WORD], axis=2).reshape(len(planes), -1)
    return stacks.content(halves.astype(np.uint16))


def _together(planes: Sequence[Plane]) -> list[Numbers]:
    """Raw bits of all planes, shape (planes, n) each; where one has none, they have no bits."""
    out = []
    for i in range(max(len(p.pieces) for p in planes)):
        rows = [p.pieces[i] if i < len(p.pieces) else np.ones_like(p.entries) for p in planes]
        out.append(np.stack(rows))
    return out


def _encode(x: Numbers, entries: Numbers, stacks: "_Stacks") -> None:
    """Turn states after a batch of tokens, (planes, n), into states before it, in place."""
    L, shift = x.shape[1], np.uint32(BITS)
    for a in reversed(range(0, entries.shape[1], L)):
        e = entries[:, a : a + L]
        state = x[:, : e.shape[1]]
        freq = e & _HALF
        # x would pass 2^32 if x >> (32 - bits) >= freq.
        full = (state >> (_WIDTH - shift)) >= freq
        high = state[full]
        if high.size:
            stacks.push(np.count_nonzero(full, axis=1), high.astype(np.uint16))
            high >>= _WORD
            state[full] = high
        # x <- floor(x / freq) 2^bits + x mod freq + start
        quotient = state // freq
        freq *= quotient
        state -= freq
        quotient <<= shift
        state += quotient
        state += e >> _WORD


def _encode_raw(x: Numbers, numbers: Numbers, stacks: "_Stacks") -> None:
    """The same for raw numbers; most have no bits and leave their state as it is."""
    L = x.shape[1]
    for a in reversed(range(0, numbers.shape[1], L)):
        some = numbers[:, a : a + L]
        plane, lane = np.nonzero(some != _NOTHING)
        if not plane.size:
            continue
        raw = some[plane, lane]
        shift = (raw >> _BYTE) & _NIBBLE
        state = x[plane, lane]
        full = (state >> (_WIDTH - shift)) > 0
        counts = np.bincount(plane[full], minlength=len(x))
        stacks.push(counts, state[full].astype(np.uint16))
        state[full] >>= _WORD
        state <<= shift
        state += raw >> _WORD
        x[plane, lane] = state


class _Stacks:
    """Words of every stream, written backwards into room made beforehand."""

    def __init__(self, tails: Sequence[Words], room: int) -> None:
        self._end = room + max(len(tail) for tail in tails)
        self._room = np.zeros((len(tails), self._end), np.uint16)
        self._top = np.array([self._end - len(tail) for tail in tails], np.int64)
        self._starts = self._end * np.arange(len(tails))
        for row, top, tail in zip(self._room, self._top.tolist(), tails):
            row[top:] = tail

    def push(self, counts: Integers, words: Words) -> None:
        """Put so many words on top of each stream, those of the first stream first."""
        self._top -= counts
        if len(counts) == 1:
            top = int(self._top[0])
            self._room[0, top : top + words.size] = words
            return
        first = self._top + self._starts
        first[1:] -= np.cumsum(counts)[:-1]
        self._room.reshape(-1)[np.arange(words.size) + np.repeat(first, counts)] = words

    def lanes(self, n: int) -> Numbers:
        """Last states of n lanes: each stream's n words on top, or zeros for want of words."""
        place = self._top[:, None] + np.arange(n)
        words = np.take_along_axis(self._room, np.minimum(place, self._end - 1), axis=1)
        words = np.where(place < self._end, words, 0)
        self._top = np.minimum(self._top + n, self._end)
        return np.uint32(LOW) + words.astype(np.uint32)

    def content(self, halves: Words) -> list[Words]:
        """The streams: first states, then what was pushed."""
        rows = zip(self._room, self._top.tolist(), halves)
        return [np.concatenate([half, row[top:]]) for row, top, half in rows]
