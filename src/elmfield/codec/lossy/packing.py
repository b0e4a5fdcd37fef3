"""Arrays to tiles with loss: to a step, or to a largest error."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmfield._array.ends import spacing_at
from elmfield.codec import lossless
from elmfield.codec.lossless.door import DTYPES
from elmfield.codec.lossless.sections import Writer
from elmfield.codec.lossy import bounds, channels, gaps, smoothing, writing
from elmfield.codec.lossy.boxes import FRACTION, LARGEST, Floats
from elmfield.codec.lossy.parts import planes
from elmfield.codec.lossy.priors import prior
from elmfield.codec.lossy.tiles import (
    BOUNDED,
    GAPS,
    SAMPLES_PER_BYTE,
    SMOOTHED,
    START,
    TURNED,
    Frame,
    Mask,
    Values,
    rounded,
)

SIZES = {1: (128, 64, 32, 16), 2: (64, 32, 16, 8), 3: (32, 16, 8, 4), 4: (8, 4)}
"""Sizes of boxes by axes; a tile uses three that follow each other."""
RATIOS = (1.6, 2.1, 2.7, 3.4)
"""Steps to try for a bound, in parts of it."""
TRIED = 1 << 16
"""Samples on which a choice is tried."""


def _checked(values: Values, channel_axis: int | None) -> Frame:
    """The frame of an array that can be coded with loss."""
    if (
        values.dtype.kind not in "iuf"
        or f"{values.dtype.kind}{values.dtype.itemsize}" not in DTYPES
    ):
        raise ValueError(
            f"A step or a largest error needs integers or floats; got dtype {values.dtype}. "
            "Leave them out to pack without loss."
        )
    channel = None if channel_axis is None else range(values.ndim)[channel_axis]
    if not 1 <= values.ndim - (channel is not None) <= 4:
        raise ValueError(f"A tile has one to four axes besides channels; got shape {values.shape}.")
    return Frame(values.dtype, values.shape, channel)


def _positive(name: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"`{name}` must be a positive number; got {value}.")
    return float(value)


@dataclass
class _Prepared:
    """A tile before its step is chosen."""

    frame: Frame
    x: Floats  # (C, n...), gaps filled
    missing: Mask | None
    offset: float

    @classmethod
    def of(cls, values: Values, frame: Frame) -> "_Prepared":
        v = frame.first(values)
        x = v.astype(np.float64)
        missing = None
        if frame.dtype.kind == "f":
            missing = np.isnan(x)
            missing = missing if missing.any() else None
            known = x[~missing] if missing is not None else x
            if not np.isfinite(known).all():
                raise ValueError(
                    "Infinite samples cannot be coded with loss. Leave out the step or the largest "
                    "error to pack them without loss, or make them NaN."
                )
        elif frame.dtype.itemsize == 8 and bool((np.abs(x) > 2.0**53).any()):
            raise ValueError(
                "Integers beyond 2^53 cannot be coded with loss. Leave out the step or the "
                "largest error."
            )
        else:
            known = x
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        offset = low / 2 + high / 2
        if missing is not None:
            x = gaps.filled(x, missing) if known.size else np.zeros_like(x)
        return cls(frame, x, missing, offset)

    def in_steps(self, step: float) -> Floats:
        return (self.x - self.offset) / step

    def missing_bytes(self) -> bytes:
        """The gaps: of all channels together where they are the same."""
        assert self.missing is not None
        same = bool((self.missing == self.missing[:1]).all())
        mask = self.missing[:1] if same else self.missing
        return bytes([same]) + lossless.pack(np.ascontiguousarray(mask), channel_axis=0)


def _sizes(x: Floats) -> tuple[int, ...] | None:
    """Sizes of boxes for samples in steps; None where whole numbers would be too large."""
    d = x.ndim - 1
    top = float(np.abs(x).max(initial=0.0)) + 2
    if not math.isfinite(top):
        return None
    most = max(x.shape[1:])
    sizes = [B for B in SIZES[d] if 2 * most > B or SIZES[d][-1] == B]
    room = LARGEST / (top * (1 << FRACTION) * x.shape[0] ** 0.5)
    fitting = [B for B in sizes if B ** (d / 2) * (2 * B) ** ((d - 1) / 2) * 2 < room]
    if len(fitting) > 3:
        large, small = (writing.rough_price(x, B, j) for j, B in enumerate(fitting[1:3]))
        fitting = fitting[:3] if large < small else fitting[1:]
    return tuple(fitting) or None


def pack_step(values: Values, step: float, channel_axis: int | None = None) -> bytes:
    """Bytes of a tile whose errors are those of a step.

    Notes
    -----
    Where the step is so small that packing without loss takes fewer bytes, that is done.
    """
    frame = _checked(values, channel_axis)
    tile = _Prepared.of(values, frame)
    coded = _coded(tile, _positive("step", step))
    return _smaller(None if coded is None else coded.bytes(), values, channel_axis)


@dataclass
class _Coded:
    """A tile that was coded with a step."""

    tile: _Prepared
    step: float
    B: int
    n_cuts: int
    matrix: Floats | None
    gains: NDArray[np.uint8] | None
    sections: list[bytes]
    whole: Floats  # what a decoder finds, (C, n...)

    def bytes(self, unit: int = 0, corrections: bytes = b"") -> bytes:
        """The tile's bytes."""
        frame, out = self.tile.frame, Writer(START)
        name = f"{frame.dtype.kind}{frame.dtype.itemsize}"
        channel = 0 if frame.channel is None else 1 + frame.channel
        out.data += bytes([DTYPES.index(name), len(frame.shape), channel])
        for n in frame.shape:
            out.number(n)
        gaps_ = self.tile.missing is not None
        flags = GAPS * gaps_ + TURNED * (self.matrix is not None) + BOUNDED * (unit > 0)
        flags += SMOOTHED * (self.gains is not None)
        out.data += bytes([flags, self.B.bit_length() - 1, self.n_cuts])
        out.float(self.tile.offset)
        out.float(self.step)
        if self.matrix is not None:
            out.data += self.matrix.astype("<i2").tobytes()
        if self.gains is not None:
            out.data += self.gains.tobytes()
        sections = list(self.sections)
        if gaps_:
            sections.insert(0, self.tile.missing_bytes())
        if unit:
            out.number(unit)
            sections.append(corrections)
        for section in sections:
            out.number(len(section))
        data = bytes(out.data) + b"".join(sections)
        return data + bytes(max(0, -(-self.whole.size // SAMPLES_PER_BYTE) - len(data)))


def _coded(tile: _Prepared, step: float) -> _Coded | None:
    """The tile coded with a step; None where the step is too small for this."""
    if step / (1 << FRACTION) < np.finfo(np.float64).tiny:
        return None
    x = tile.in_steps(step)
    sizes = _sizes(x)
    if sizes is None:
        return None
    M = channels.turned(x)
    effort = writing.Effort(sizes)
    x = x if M is None else channels.apart(x, M)
    try:
        sections, y, boxes = writing.written(x, effort)
    except writing.TooFineError:
        return None
    worth = 8 * effort.price * (1 << 2 * FRACTION)
    weights = prior(x.ndim - 1).smoothing
    gains, y = smoothing.chosen(x * (1 << FRACTION), y, boxes, weights, worth)
    whole = y.astype(np.float64)
    whole = whole if M is None else channels.together(whole, M)
    n_cuts = len(sections) - 1 - len(planes(x.shape, sizes[0]))
    return _Coded(tile, step, sizes[0], n_cuts, M, gains, sections, whole)


def _smaller(data: bytes | None, values: Values, channel_axis: int | None) -> bytes:
    """The bytes, or those without loss where they are fewer."""
    # without loss costs time too: only tried where it could win
    if data is not None and 8 * len(data) < 0.4 * values.nbytes * 8:
        return data
    without = lossless.pack(values, channel_axis=channel_axis)
    return without if data is None or len(without) <= len(data) else data


def pack_bounded(values: Values, max_error: float, channel_axis: int | None = None) -> bytes:
    """Bytes of a tile no sample of which comes back more than `max_error` off, in its dtype."""
    frame = _checked(values, channel_axis)
    if max_error == 0:
        return lossless.pack(values, channel_axis=channel_axis)
    tile = _Prepared.of(values, frame)
    bound = _positive("max_error", max_error)
    half = _half(tile, bound)
    data = None
    if half > 0:
        data = _bounded(tile, frame.first(values), bound, half, _ratio(tile, half))
    return _smaller(data, values, channel_axis)


def _half(tile: _Prepared, bound: float) -> float:
    """How far off a sample may be before it is rounded to its dtype."""
    dtype = tile.frame.dtype
    if dtype.kind in "iu":
        return math.floor(bound) + 0.5
    top = min(float(np.abs(tile.x).max(initial=0.0)) + bound, float(np.finfo(dtype).max))
    return bound - float(spacing_at(np.asarray(top, dtype))) / 2


def _ratio(tile: _Prepared, half: float) -> float:
    """The best step in parts of a bound, tried on the middle of the tile."""
    middle = _middle(tile)
    best, found = math.inf, RATIOS[1]
    for ratio in RATIOS:
        data = _bounded(middle, None, half, half, ratio)
        if data is not None and len(data) < best:
            best, found = len(data), ratio
    return found


def _middle(tile: _Prepared) -> _Prepared:
    """A part of the tile of at most `TRIED` samples or so."""
    x, missing = tile.x, tile.missing
    side = (TRIED / x.shape[0]) ** (1 / (x.ndim - 1))
    where: list[slice] = [slice(None)]
    for n in x.shape[1:]:
        m = min(n, max(16, int(side)))
        where.append(slice((n - m) // 2, (n - m) // 2 + m))
    x = x[tuple(where)]
    missing = None if missing is None else missing[tuple(where)]
    frame = Frame(np.dtype(np.float64), x.shape, 0)
    return _Prepared(frame, x, missing, tile.offset)


def _bounded(
    tile: _Prepared, values: Values | None, bound: float, half: float, ratio: float
) -> bytes | None:
    """The tile with corrections; None where they cannot keep the promise.

    A correction moves a sample by whole multiples of twice `half`, so the step is a whole part of
    that.
    """
    unit = round(2 * (1 << FRACTION) / ratio)
    size = 2 * half * (1 - 2.0**-30)
    step = size * (1 << FRACTION) / unit
    coded = _coded(tile, step) if math.isfinite(step) else None
    if coded is None:
        return None
    truth = (tile.x if values is None else values).astype(np.float64)
    c = np.zeros(coded.whole.shape)
    for _ in range(4):
        whole = coded.whole + unit * c
        found = rounded(whole, tile.offset, step, tile.frame.dtype)
        off = np.abs(truth - found.astype(np.float64)) > bound
        if tile.missing is not None:
            off &= ~tile.missing
        if not off.any():
            break
        where = np.nonzero(off)
        exact = tile.offset + whole[where] * (step / (1 << FRACTION))
        error = truth[where] - exact
        c[where] += np.sign(error) * np.maximum(1, np.rint(np.abs(error) / size))
    else:
        return None
    if float(np.abs(c).max(initial=0)) > bounds.LARGEST_CORRECTION:
        return None
    corrections = bounds.written(c.astype(np.int64), coded.whole.astype(np.int64))
    return coded.bytes(unit, corrections)


def trial(values: Values, step: float, channel_axis: int | None = None) -> tuple[float, float]:
    """About the sum of squared errors and the bits of a tile coded with a step.

    Boxes of one size are priced as the encoder prices them; nothing is written.
    """
    tile = _Prepared.of(values, _checked(values, channel_axis))
    x = tile.in_steps(_positive("step", step))
    sizes = _sizes(x)
    if sizes is None:
        return 0.0, 8.0 * values.nbytes
    M = channels.turned(x)
    error, bits = writing.priced(
        x if M is None else channels.apart(x, M), sizes[min(1, len(sizes) - 1)]
    )
    return error * step * step, bits
