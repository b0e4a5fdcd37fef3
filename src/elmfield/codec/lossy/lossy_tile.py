"""Tiles with loss: the header, and back to arrays.

``docs/codec.md`` says how the bytes are laid out. The decoder's samples are ``offset + step / 64
· n`` with whole n, rounded to the dtype, and n is found by integer arithmetic: the same on every
machine.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield.codec import lossless
from elmfield.codec.container import LOSSY, Head, damaged
from elmfield.codec.lossy import deblock
from elmfield.codec.lossy.sections import read_means, read_samples
from elmfield.codec.lossy.transform import MAX_ROTATED_CHANNELS, UNIT, Floats, Whole, mix_channels

Values = NDArray[np.generic]
Mask = NDArray[np.bool_]

GAPS, ROTATED, BOUNDED, SMOOTHED = 1, 2, 4, 8
"""Flags: missing samples, channels that were rotated, corrections, samples that are smoothed."""


def round_samples(
    whole: Floats | Whole, offset: float, step: float, dtype: np.dtype[Any]
) -> Values:
    """Return ``offset + step / 2^FRACTION · n`` in float64, then in the dtype and its range."""
    with np.errstate(over="ignore"):
        out = np.asarray(whole, np.float64) * (step / UNIT)
        out += offset
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        np.rint(out, out=out)
        high = float(info.max) if info.bits < 64 else float(info.max - 1023)
        return np.clip(out, float(info.min), high).astype(dtype)
    top = float(np.finfo(dtype).max)
    return np.clip(out, -top, top).astype(dtype)


def finish_samples(
    whole: Floats | Whole, offset: float, step: float, head: Head, missing: Mask | None
) -> Values:
    """Return the array of whole numbers (C, n...), NaN where samples are missing."""
    out = round_samples(whole, offset, step, head.dtype)
    if missing is not None:
        out[missing] = np.nan
    return head.restore(out)


@dataclass(frozen=True)
class Tile:
    """The header of a tile with loss, and its sections."""

    head: Head
    B: int
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
        head, reader = Head.read(data, LOSSY)
        if head.dtype.kind == "b" or 0 in head.shape or len(head.shape) == (head.channel == 0):
            raise damaged("names an impossible dtype or shape")
        flags, log_size = reader.take(2)
        B, C, *shape = 1 << log_size, *head.spread
        if flags > 15 or not 1 <= log_size <= 15 // len(shape) or min(64 * max(shape), 128) < B:
            raise damaged("names impossible boxes")
        if flags & GAPS and head.dtype.kind != "f":
            raise damaged("has gaps among integers")
        offset, step = reader.float(), reader.float()
        if not (math.isfinite(offset) and math.isfinite(step) and step > 0):
            raise damaged("has an impossible step")
        matrix = gains = None
        if flags & ROTATED:
            if C > MAX_ROTATED_CHANNELS:
                raise damaged("rotates too many channels")
            matrix = reader.array("<i2", C * C).astype(np.float64).reshape(C, C)
        if flags & SMOOTHED:
            gains = reader.array("u1", C * deblock.LEVELS).reshape(C, -1)
        unit = reader.number() if flags & BOUNDED else 0
        if unit > 1 << 24:
            raise damaged("has impossible corrections")
        n = 2 + bool(flags & GAPS) + bool(flags & BOUNDED)
        sections = [reader.take(size) for size in [reader.number() for _ in range(n)]]
        mask = sections.pop(0) if flags & GAPS else None
        corrections = sections.pop() if flags & BOUNDED else b""
        return cls(head, B, offset, step, matrix, gains, mask, unit, corrections, sections)

    def missing(self) -> Mask | None:
        """Return the gaps, (C, n...)."""
        return None if self.gaps is None else read_missing(self.gaps, self.head.spread)

    def values(self) -> Values:
        """Return the samples."""
        y = read_samples(self.sections, self.head.spread, self.B, self.gains)
        whole = mix_channels(y, self.matrix)
        if self.unit:
            whole += self.unit * read_corrections(self.corrections, self.head.spread)
        return finish_samples(whole, self.offset, self.step, self.head, self.missing())

    def coarse(self, k: int) -> Values:
        """Return means over 2^k samples along every axis, from boxes that are no larger.

        Means of boxes at the end of an axis include what fills them up, so they are used only
        where all boxes are whole.
        """
        head, size = self.head, 1 << k
        shape = tuple(n if j == head.channel else -(-n // size) for j, n in enumerate(head.shape))
        if size < self.B or any(n % self.B for n in head.spread[1:]):
            values = head.arrange(self.values()).astype(np.float64)
            known = ~np.isnan(values)
            means = _block_means(np.where(known, values, 0), known, size)
        else:
            spread, missing = head.spread, self.missing()
            whole = mix_channels(read_means(self.sections[0], spread, self.B), self.matrix)
            scale = self.step / UNIT / self.B ** ((len(spread) - 1) / 2)
            values = whole * scale + self.offset
            known = np.ones(spread, bool) if missing is None else ~missing
            some = block_sums(known.astype(np.float64), self.B) > 0
            means = _block_means(np.where(some, values, 0), some, size // self.B)
        return head.restore(round_samples(means, 0.0, UNIT, head.dtype), shape)


def read_missing(gaps: bytes, shape: tuple[int, ...]) -> Mask:
    """Return gaps of samples, (C, n...); those of one channel may stand for all."""
    mask = lossless.unpack(gaps[1:])
    C = 1 if gaps[:1] == b"\x01" else shape[0]
    if mask.dtype != np.bool_ or mask.shape != (C, *shape[1:]):
        raise damaged("has gaps of another shape")
    return np.broadcast_to(mask, shape)


def block_sums(a: Floats, size: int) -> Floats:
    """Return sums over so many samples along every axis but the first."""
    for k in range(1, a.ndim):
        a = np.add.reduceat(a, np.arange(0, a.shape[k], size), axis=k)
    return a


def _block_means(a: Floats, known: Mask, size: int) -> Floats:
    """Return means of known samples in blocks; NaN where none is."""
    total, n = block_sums(a, size), block_sums(known.astype(np.float64), size)
    return np.asarray(np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0))


def read_corrections(data: bytes, shape: tuple[int, ...]) -> Whole:
    """Return corrections of samples, (C, n...)."""
    found = lossless.unpack(data)
    if found.dtype != np.int32 or found.shape != shape:
        raise damaged("has corrections of another shape")
    return found.astype(np.int64)
