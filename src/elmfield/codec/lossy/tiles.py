"""Tiles with loss: their header, and back to samples.

The bytes of a tile are told in ``docs/codec.md``. The decoder's samples are ``offset + step / 64
· n`` with whole n, rounded to the dtype, and n is found by integer arithmetic: the same on every
machine.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec import lossless
from elmfield.codec.lossless.door import DTYPES
from elmfield.codec.lossless.sections import Reader
from elmfield.codec.lossy import bounds, channels, reading, smoothing
from elmfield.codec.lossy.boxes import FRACTION, Floats
from elmfield.codec.lossy.lanes import damaged
from elmfield.codec.lossy.parts import planes
from elmfield.errors import StoreError, StoreVersionError

Values = NDArray[np.generic]
Mask = NDArray[np.bool_]
Whole = NDArray[np.int64]

START = b"\xe7\x01\x01"
"""A mark, the version, and the kind: with loss."""
SAMPLES_PER_BYTE = 4096
"""Samples that a byte stands for at most, so that few bytes cannot ask for much memory."""
GAPS, TURNED, BOUNDED, SMOOTHED = 1, 2, 4, 8
"""Flags: missing samples, channels that were turned, corrections, samples that are smoothed."""


@dataclass(frozen=True)
class Frame:
    """Where the samples of a tile are: its dtype, shape, and channels.

    Parameters
    ----------
    channel : int or None
        The axis of channels.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    channel: int | None

    @property
    def spread(self) -> tuple[int, ...]:
        """Shape (C, n...) without axes of length 1."""
        C = 1 if self.channel is None else self.shape[self.channel]
        long = [n for k, n in enumerate(self.shape) if k != self.channel and n > 1]
        return (C, *(long or [1]))

    def first(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Samples with channels first, (C, n...)."""
        moved = values if self.channel is None else np.moveaxis(values, self.channel, 0)
        return moved.reshape(self.spread)

    def back(
        self, values: NDArray[np.generic], shape: tuple[int, ...] | None = None
    ) -> NDArray[np.generic]:
        """What :meth:`first` undid; for an array of this or another shape."""
        shape = self.shape if shape is None else shape
        if self.channel is None:
            return values.reshape(shape)
        rest = [n for k, n in enumerate(shape) if k != self.channel]
        return np.moveaxis(values.reshape([shape[self.channel], *rest]), 0, self.channel)


def rounded(whole: Floats | Whole, offset: float, step: float, dtype: np.dtype[Any]) -> Values:
    """``offset + step / 2^FRACTION · n`` in float64, then in the dtype, never outside its range."""
    out = np.asarray(whole, np.float64) * (step / (1 << FRACTION))
    out += offset
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        np.rint(out, out=out)
        high = float(info.max) if info.bits < 64 else float(info.max - 1023)
        return np.clip(out, float(info.min), high).astype(dtype)
    top = float(np.finfo(dtype).max)
    return np.clip(out, -top, top).astype(dtype)


@dataclass(frozen=True)
class Tile:
    """The header of a tile with loss, and its sections."""

    frame: Frame
    B: int
    n_cuts: int
    offset: float
    step: float
    matrix: Floats | None
    gains: NDArray[np.uint8] | None
    gaps: bytes | None
    unit: int
    corrections: bytes
    sections: list[bytes]

    @classmethod
    def read(cls, data: bytes) -> "Tile":
        """Read and check a header; the sections are cut out but not decoded."""
        reader = Reader(data)
        start = reader.take(3)
        if start[:1] != START[:1] or start[2:] != START[2:]:
            raise StoreError("These bytes are no tile packed with loss.")
        if start[1] != START[1]:
            raise StoreVersionError(
                f"A tile was packed by a newer elmfield (version {start[1]}); update to read it."
            )
        code, ndim, channel = reader.take(3)
        if code >= len(DTYPES) or not code or channel > ndim or not 1 <= ndim - (channel > 0) <= 4:
            raise damaged("names an impossible dtype or shape")
        shape = tuple(reader.number() for _ in range(ndim))
        if not 0 < math.prod(shape) <= SAMPLES_PER_BYTE * len(data):
            raise damaged(f"of {len(data)} bytes claims shape {shape}")
        frame = Frame(np.dtype(DTYPES[code]), shape, channel - 1 if channel else None)
        flags, log_size, n_cuts = reader.take(3)
        d = len(frame.spread) - 1
        if flags > 15 or log_size > 7 or n_cuts >= max(1, log_size) or d * log_size > 15:
            raise damaged("names impossible boxes")
        if (1 << log_size) < 2 or max(frame.spread[1:]) * 64 < (1 << log_size):
            raise damaged("names impossible boxes")
        offset, step = reader.float(), reader.float()
        if not (math.isfinite(offset) and math.isfinite(step) and step > 0):
            raise damaged("has an impossible step")
        matrix, C = None, frame.spread[0]
        if flags & TURNED:
            if C > channels.MOST:
                raise damaged("turns too many channels")
            matrix = np.frombuffer(reader.take(2 * C * C), "<i2").astype(np.float64).reshape(C, C)
        gains = None
        if flags & SMOOTHED:
            size = smoothing.LEVELS
            gains = np.frombuffer(reader.take(C * size), np.uint8).reshape(C, size)
        unit = reader.number() if flags & BOUNDED else 0
        if unit > 1 << 24:
            raise damaged("has impossible corrections")
        n = len(planes(frame.spread, 1 << log_size)) + n_cuts + 1
        n += bool(flags & GAPS) + bool(flags & BOUNDED)
        lengths = [reader.number() for _ in range(n)]
        sections = [reader.take(n) for n in lengths]
        mask = sections.pop(0) if flags & GAPS else None
        corrections = sections.pop() if flags & BOUNDED else b""
        boxes = (1 << log_size, n_cuts, offset, step)
        return cls(frame, *boxes, matrix, gains, mask, unit, corrections, sections)

    def missing(self) -> Mask | None:
        """The gaps, (C, n...)."""
        if self.gaps is None:
            return None
        shape = self.frame.spread
        mask = lossless.unpack(self.gaps[1:])
        if mask.dtype != np.bool_ or mask.shape != (
            (1 if self.gaps[:1] == b"\x01" else shape[0]),
            *shape[1:],
        ):
            raise damaged("has gaps of another shape")
        return np.broadcast_to(mask, shape)

    def values(self) -> Values:
        """The samples."""
        frame = self.frame
        compiled.pays(math.prod(frame.shape))  # the loops ask again
        y = reading.read(self.sections, frame.spread, self.B, self.n_cuts, self.gains)
        whole = y.astype(np.float64)
        if self.matrix is not None:
            whole = channels.together(whole, self.matrix)
        if self.unit:
            whole += self.unit * bounds.read(self.corrections, whole.astype(np.int64))
        out = rounded(whole, self.offset, self.step, frame.dtype)
        missing = self.missing()
        if missing is not None:
            if frame.dtype.kind != "f":
                raise damaged("has gaps among integers")
            out[missing] = np.nan
        return frame.back(out)

    def coarse(self, k: int) -> Values:
        """Means over 2^k samples along every axis, from those of boxes that are no larger."""
        frame, size = self.frame, 1 << k
        shape = tuple(n if j == frame.channel else -(-n // size) for j, n in enumerate(frame.shape))
        if size < self.B:
            values = frame.first(self.values()).astype(np.float64)
            known = ~np.isnan(values)
            means = _block_means(np.where(known, values, 0), known, size)
        else:
            spread = frame.spread
            plane = reading.read_means(self.sections, spread, self.B)
            d = len(spread) - 1
            whole = plane.astype(np.float64)
            if self.matrix is not None:
                whole = channels.together(whole, self.matrix)
            values = whole * (self.step / (1 << FRACTION) / self.B ** (d / 2)) + self.offset
            missing = self.missing()
            known = np.ones(spread, bool) if missing is None else ~missing
            some = _block_sums(known.astype(np.float64), self.B) > 0
            means = _block_means(np.where(some, values, 0), some, size // self.B)
        if frame.dtype.kind in "iu":
            info = np.iinfo(frame.dtype)
            means = np.clip(
                np.rint(means), info.min, float(info.max) if info.bits < 64 else 2.0**62
            )
        return frame.back(means.astype(frame.dtype), shape)


def _block_sums(a: Floats, size: int) -> Floats:
    for k in range(1, a.ndim):
        a = np.add.reduceat(a, np.arange(0, a.shape[k], size), axis=k)
    return a


def _block_means(a: Floats, known: Mask, size: int) -> Floats:
    """Means of known samples in blocks; NaN where none is."""
    total, n = _block_sums(a, size), _block_sums(known.astype(np.float64), size)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0))


def unpack(data: bytes, *, coarse: int = 0) -> Values:
    """The array of a tile with loss; StoreError where the bytes are damaged."""
    tile = Tile.read(data)
    return tile.coarse(coarse) if coarse else tile.values()
