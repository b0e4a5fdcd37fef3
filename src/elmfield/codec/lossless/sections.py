"""Bytes of a tile in order: small numbers, then sections that each hold a plane of integers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Integers
from elmfield.codec.ans import Words
from elmfield.codec.lossless.decoding import decoded
from elmfield.codec.lossless.encoding import MOST_HALVINGS, encoded, lanes_of
from elmfield.codec.lossless.wavefront import Layout
from elmfield.errors import StoreError

MOST_CHANNELS = {1: 8, 2: 8, 3: 4, 4: 2}
"""Channels of one section, by number of axes besides; further ones begin anew."""
SIDE_BY_SIDE = 1 << 22
"""Samples that are decoded together, at most (unless one tile has more)."""


class Writer:
    """Bytes, appended."""

    def __init__(self, start: bytes = b"") -> None:
        self.data = bytearray(start)

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
            header, halvings, words = encoded(part, Layout.of(part.shape, ndim), tail)
            tail = tail[:0]
            self.number(len(header))
            self.number(halvings)
            self.number(len(words))
            self.data += header + words.astype("<u2").tobytes()


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


def opened(sections: Sequence[Section]) -> list[tuple[Integers, Words]]:
    """Planes and tails of sections; those of equal layout are decoded side by side."""
    out: list[tuple[Integers, Words] | None] = [None] * len(sections)
    alike: dict[tuple[Layout, int], list[int]] = {}
    for i, section in enumerate(sections):
        if section.header:
            alike.setdefault((section.layout, section.halvings), []).append(i)
        else:
            out[i] = np.zeros(section.layout.shape, np.int64), section.words
    for (layout, halvings), members in alike.items():
        together = max(1, SIDE_BY_SIDE // int(np.prod(layout.shape)))
        for a in range(0, len(members), together):
            some = members[a : a + together]
            planes, tails = decoded(
                [sections[i].header for i in some],
                [sections[i].words for i in some],
                layout,
                lanes_of(layout, halvings),
            )
            for i, plane, tail in zip(some, planes, tails, strict=True):
                out[i] = plane, tail
    return [pair for pair in out if pair is not None]
