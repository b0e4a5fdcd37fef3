"""Bytes of a tile in order: small numbers, then sections that each hold a plane of integers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec.ans import Words
from elmfield.codec.lossless.decoding import decoded
from elmfield.codec.lossless.encoding import prepared
from elmfield.codec.lossless.streams import MOST_HALVINGS, Plane, Stream, lanes_of, streams
from elmfield.codec.lossless.wavefront import Layout
from elmfield.errors import StoreError

MOST_CHANNELS = {1: 8, 2: 8, 3: 4, 4: 2}
"""Channels of one section, by number of axes besides; further ones begin anew."""
SIDE_BY_SIDE = 1 << 22
"""Samples that are coded together, at most (unless one tile has more)."""


Opened = tuple[NDArray[np.integer], Words]
"""A plane and what stands behind its stream."""


class Writer:
    """Bytes, appended, and planes that are written at the end, each at its place."""

    def __init__(self, start: bytes = b"") -> None:
        self.data = bytearray(start)
        self.waiting: list[tuple[int, Plane | Stream]] = []

    def number(self, n: int) -> None:
        """A whole number from 0, seven bits to a byte, low ones first."""
        while n > 127:
            self.data.append(n & 127 | 128)
            n >>= 7
        self.data.append(n)

    def float(self, value: float) -> None:
        """A float64, eight bytes."""
        self.data += np.array(value, "<f8").tobytes()

    def planes(self, values: NDArray[np.integer], ndim: int, tail: Words) -> None:
        """Sections of samples from 0, (C, A, Z, Y, X); the tail goes with the first."""
        n = -(-len(values) // MOST_CHANNELS[ndim])
        for part in np.array_split(values, n):
            if not part.any() and not tail.size:
                self.number(0)
                continue
            plane = prepared(part, Layout.of(part.shape, ndim), tail)
            self.waiting.append((len(self.data), plane))
            tail = tail[:0]

    def finished(self, words: Sequence[Words]) -> bytes:
        """All bytes, once the streams of the planes that waited are known."""
        out, at = Writer(), 0
        for (place, plane), stream in zip(self.waiting, words, strict=True):
            out.data += self.data[at:place]
            at = place
            for n in (len(plane.header), plane.halvings, len(stream)):
                out.number(n)
            out.data += plane.header + stream.astype("<u2").tobytes()
        return bytes(out.data + self.data[at:])


def written(writers: Sequence[Writer]) -> list[bytes]:
    """Bytes of some writers; planes of equal layout are coded side by side."""
    every = [plane for writer in writers for _, plane in writer.waiting]
    found = {i: plane.words for i, plane in enumerate(every) if isinstance(plane, Stream)}
    planes = [(i, plane) for i, plane in enumerate(every) if isinstance(plane, Plane)]
    for some in _alike([(plane.layout, plane.halvings) for _, plane in planes]):
        made = streams([planes[i][1] for i in some])
        found |= zip([planes[i][0] for i in some], made)
    words = iter([found[i] for i in range(len(every))])
    return [writer.finished([next(words) for _ in writer.waiting]) for writer in writers]


def _alike(kinds: Sequence[tuple[Layout, int]]) -> Iterator[list[int]]:
    """Which planes can be coded side by side, by their layouts and halvings; not too many."""
    groups: dict[tuple[Layout, int], list[int]] = {}
    for i, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(i)
    for (layout, _), members in groups.items():
        together = max(1, SIDE_BY_SIDE // layout.n_samples)
        yield from (members[a : a + together] for a in range(0, len(members), together))


@dataclass(frozen=True)
class Section:
    """A plane as it stands in a tile; without a header all samples are 0."""

    layout: Layout
    halvings: int
    header: bytes
    words: Words


class Reader:
    """The same, read; raises StoreError where bytes are missing."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data, self._at = data, at

    def take(self, n: int) -> bytes:
        """The next n bytes."""
        if n > len(self._data) - self._at:
            raise StoreError("A packed tile ends too early: the data are cut off or damaged.")
        self._at += n
        return self._data[self._at - n : self._at]

    def number(self) -> int:
        """See :meth:`Writer.number`; below 2^70."""
        n = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            n |= (byte & 127) << shift
            if byte < 128:
                return n
        raise StoreError("A packed tile holds a number that does not end: the data are damaged.")

    def float(self) -> float:
        """See :meth:`Writer.float`."""
        return float(np.frombuffer(self.take(8), "<f8")[0])

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._at)

    def planes(self, shape: tuple[int, int, int, int, int], ndim: int) -> list[Section]:
        """The sections of an array of this shape."""
        C = shape[0]
        n = -(-C // MOST_CHANNELS[ndim])
        out = []
        for i in range(n):
            channels = C // n + (i < C % n)
            layout = Layout.of((channels, *shape[1:]), ndim)
            if not (n_header := self.number()):
                out.append(Section(layout, 0, b"", np.zeros(0, np.uint16)))
                continue
            halvings, n_words = self.number(), self.number()
            if halvings > MOST_HALVINGS:
                raise StoreError("A packed tile has impossible lanes: it is damaged.")
            header = self.take(n_header)
            stream = np.frombuffer(self.take(2 * n_words), "<u2").astype(np.uint16)
            out.append(Section(layout, halvings, header, stream))
        return out


def opened(sections: Sequence[Section]) -> list[Opened]:
    """Planes and tails of sections; those of equal layout are decoded side by side."""
    found: dict[int, Opened] = {
        i: (np.zeros(section.layout.shape, np.int64), section.words)
        for i, section in enumerate(sections)
        if not section.header
    }
    coded = [i for i in range(len(sections)) if i not in found]
    if coded and compiled.pays(0):
        from elmfield.codec.lossless import fast

        for i in coded:
            own = sections[i]
            lanes = lanes_of(own.layout, own.halvings)
            found[i] = fast.decoded(own.header, own.words, own.layout, lanes)
        coded = []
    for some in _alike([(sections[i].layout, sections[i].halvings) for i in coded]):
        these = [coded[i] for i in some]
        first = sections[these[0]]
        planes, tails = decoded(
            [sections[i].header for i in these],
            [sections[i].words for i in these],
            first.layout,
            lanes_of(first.layout, first.halvings),
        )
        found |= zip(these, zip(planes, tails, strict=True))
    return [found[i] for i in range(len(sections))]
