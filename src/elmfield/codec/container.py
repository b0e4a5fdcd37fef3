"""The bytes of a tile: numbers in order, and the head that every tile begins with."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield.errors import StoreError, StoreVersionError

MARK, VERSION = 0xE7, 1
LOSSLESS, LOSSY, INTERPOLATED, PARTS = 0, 1, 2, 3
"""Kinds of tiles."""
SAMPLES_PER_BYTE = (1024, 4096, 4096, 4096)
"""Samples for each byte of a tile, at most, by kind: a wrong shape cannot ask for much memory."""
DTYPES = ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")


def damaged(what: str) -> StoreError:
    """Return the error for bytes that no encoder wrote."""
    return StoreError(f"A coded tile {what}: the data are cut off or damaged.")


class ByteWriter:
    """Bytes, appended to `data`."""

    def __init__(self) -> None:
        self.data = bytearray()

    def number(self, n: int) -> None:
        """Append a whole number from 0, seven bits to a byte, low ones first."""
        while n > 127:
            self.data.append(n & 127 | 128)
            n >>= 7
        self.data.append(n)

    def signed(self, n: int) -> None:
        """Append a whole number: 0, -1, 1, -2, 2 are written as 0, 1, 2, 3, 4."""
        self.number(2 * n if n >= 0 else -2 * n - 1)

    def float(self, value: float) -> None:
        """Append a float64, eight bytes."""
        self.data += np.array(value, "<f8").tobytes()


class ByteReader:
    """Bytes, read in order; StoreError where some are missing."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, n: int) -> bytes:
        """Return the next n bytes."""
        if n > len(self._data) - self._at:
            raise damaged("ends too early")
        self._at += n
        return self._data[self._at - n : self._at]

    def array(self, dtype: str, n: int) -> NDArray[Any]:
        """Return the next n numbers of a dtype."""
        return np.frombuffer(self.take(np.dtype(dtype).itemsize * n), dtype)

    def number(self) -> int:
        """Return what :meth:`ByteWriter.number` wrote; below 2^70."""
        n = 0
        for shift in range(0, 70, 7):
            byte = self.take(1)[0]
            n |= (byte & 127) << shift
            if byte < 128:
                return n
        raise damaged("holds a number that does not end")

    def signed(self) -> int:
        """Return what :meth:`ByteWriter.signed` wrote; below 2^61 in size."""
        n = self.number()
        if n >= 1 << 62:
            raise damaged("holds an impossible number")
        return -(n + 1) // 2 if n & 1 else n // 2

    def float(self) -> float:
        """Return what :meth:`ByteWriter.float` wrote."""
        return float(self.array("<f8", 1)[0])

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data) - self._at)


@dataclass(frozen=True)
class Head:
    """The dtype and shape of a tile's array, and which axis has channels (None for no axis).

    With loss, samples lie with channels first: `spread`.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    channel: int | None

    @classmethod
    def of(cls, values: NDArray[np.generic], channel_axis: int | None) -> "Head":
        """Return the head of an array that a user gave."""
        kind, size, ndim = values.dtype.kind, values.dtype.itemsize, values.ndim
        if kind != "b" and f"{kind}{size}" not in DTYPES:
            raise ValueError(
                f"Only bool, integers and floats up to 64 bits can be packed; got dtype "
                f"{values.dtype}. Convert the array first."
            )
        if channel_axis is not None and not -ndim <= channel_axis < ndim:
            raise ValueError(
                f"`channel_axis` must be an axis of the array; got {channel_axis} for {ndim} axes."
            )
        if ndim - (channel_axis is not None) > 4:
            raise ValueError(
                f"A tile has one to four axes besides channels; got shape {values.shape}."
            )
        channel = None if channel_axis is None else channel_axis % ndim
        return cls(values.dtype.newbyteorder("="), values.shape, channel)

    @property
    def spread(self) -> tuple[int, ...]:
        """Shape (C, n...) without axes of length 1."""
        C = 1 if self.channel is None else self.shape[self.channel]
        long = [n for k, n in enumerate(self.shape) if k != self.channel and n > 1]
        return (C, *(long or [1]))

    def arrange(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return samples with channels first, (C, n...)."""
        moved = values if self.channel is None else np.moveaxis(values, self.channel, 0)
        return moved.reshape(self.spread)

    def restore(
        self, values: NDArray[np.generic], shape: tuple[int, ...] | None = None
    ) -> NDArray[np.generic]:
        """Return what :meth:`arrange` was given; for an array of this or another shape."""
        shape = self.shape if shape is None else shape
        if self.channel is None:
            return values.reshape(shape)
        rest = [n for k, n in enumerate(shape) if k != self.channel]
        return np.moveaxis(values.reshape([shape[self.channel], *rest]), 0, self.channel)

    def writer(self, kind: int) -> ByteWriter:
        """Return a writer that begins with this head."""
        out, dtype = ByteWriter(), self.dtype
        code = 0 if dtype.kind == "b" else DTYPES.index(f"{dtype.kind}{dtype.itemsize}")
        channel = 0 if self.channel is None else 1 + self.channel
        out.data += bytes([MARK, VERSION, kind, code, len(self.shape), channel])
        for n in self.shape:
            out.number(n)
        return out

    @classmethod
    def read(cls, data: bytes, kind: int) -> tuple["Head", ByteReader]:
        """Return the head of a tile, checked, and a reader of what follows."""
        reader = ByteReader(data)
        mark, version, found = reader.take(3)
        if (mark, found) != (MARK, kind):
            raise StoreError("These bytes are no tile of this codec.")
        if version != VERSION:
            raise StoreVersionError(
                f"A tile was packed by a newer elmfield (version {version}); update to read it."
            )
        code, ndim, channel = reader.take(3)
        if code >= len(DTYPES) or channel > ndim or ndim - (channel > 0) > 4:
            raise damaged("names an impossible dtype or shape")
        shape = tuple(reader.number() for _ in range(ndim))
        longest = math.prod(max(n, 1) for n in shape)
        if math.prod(shape) > SAMPLES_PER_BYTE[kind] * len(data) or longest > 1 << 40:
            raise damaged(f"of {len(data)} bytes claims shape {shape}")
        return cls(np.dtype(DTYPES[code]), shape, channel - 1 if channel else None), reader


def fill_up(data: bytes, n_samples: int, kind: int) -> bytes:
    """Return a tile with zeros behind it, up to the bytes that so many samples need."""
    return data + bytes(max(0, -(-n_samples // SAMPLES_PER_BYTE[kind]) - len(data)))
