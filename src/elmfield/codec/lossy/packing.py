"""Arrays to tiles with loss, to a step."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield.codec import lossless
from elmfield.codec.lossless.door import DTYPES
from elmfield.codec.lossless.sections import Writer
from elmfield.codec.lossy import channels, gaps, lattice, smoothing, writing
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

SINGLE = 4096.0
"""Samples of fewer steps are prepared in single precision: modes are then good to 0.02 steps."""
SIZES = {1: (128, 64, 32, 16), 2: (64, 32, 16, 8), 3: (32, 16, 8, 4), 4: (8, 4)}
"""Sizes of boxes by axes; a tile uses three that follow each other."""


def checked(values: Values, channel_axis: int | None) -> Frame:
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


def positive(name: str, value: float) -> float:
    """A positive number, or an error."""
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"`{name}` must be a positive number; got {value}.")
    return float(value)


@dataclass
class Prepared:
    """A tile before its step is chosen."""

    frame: Frame
    x: Floats  # (C, n...), gaps filled
    missing: Mask | None
    offset: float

    @classmethod
    def of(cls, values: Values, frame: Frame) -> "Prepared":
        """An array whose gaps are filled."""
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
        """Samples less their offset, in steps; in single precision where these are few."""
        x = (self.x - self.offset) / step
        top = float(np.abs(x).max(initial=0.0))
        dtype: Any = np.float32 if top < SINGLE else np.float64
        return x.astype(dtype)

    def priced(self, step: float) -> tuple[Floats, float] | None:
        """About the squared errors of boxes in steps, and the bits of all, at a step.

        None where whole numbers would be too large.
        """
        found = self.apart(step)
        if found is None:
            return None
        x, sizes, _ = found
        return writing.priced(x, sizes[min(1, len(sizes) - 1)])

    def apart(self, step: float) -> tuple[Floats, tuple[int, ...], Floats | None] | None:
        """Samples in steps with channels apart, sizes of boxes, and what brings channels together.

        None where whole numbers would be too large.
        """
        compiled.pays(self.x.size)  # the loops ask again
        x = self.in_steps(step)
        sizes = _sizes(x)
        if sizes is None:
            return None
        M = channels.turned(x)
        return x if M is None else channels.apart(x, M), sizes, M

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
    fitting = [
        B for B in sizes if B ** (d / 2) * (2 * B) ** ((d - 1) / 2) * 2 < room or writing.fits(x, B)
    ]
    if len(fitting) > 3:
        some = _part_of(x, fitting[1])
        large, small = (writing.rough_price(some, B, j) for j, B in enumerate(fitting[1:3]))
        fitting = fitting[:3] if large < small else fitting[1:]
    return tuple(fitting) or None


PRICED = 1 << 17
"""Samples, about, from which the largest size of boxes is chosen."""


def _part_of(x: Floats, B: int) -> Floats:
    """Every so many boxes of the first axis of samples (C, n...)."""
    n = x.shape[1] // B
    every = min(n, x.size // PRICED)
    if every < 2:
        return x
    rows = np.arange(0, n - every // 2, every)[:, None] * B + (every // 2 * B + np.arange(B))
    return np.asarray(x.take(rows.ravel(), axis=1))


def pack_step(values: Values, step: float, channel_axis: int | None = None) -> bytes:
    """Bytes of a tile whose errors are those of a step.

    Notes
    -----
    Where a lattice with the same mean squared error takes fewer bytes, that is done; and where the
    step is so small that packing without loss does.
    """
    frame = checked(values, channel_axis)
    tile = Prepared.of(values, frame)
    found = coded(tile, positive("step", step))
    if found is None:
        return smaller(None, values, channel_axis)
    data = found.bytes()
    if 8 * len(data) > lattice.ENOUGH_BITS * values.size:
        data = min(data, found.on_lattice() or data, key=len)
    return smaller(data, values, channel_axis)


@dataclass
class Coded:
    """A tile that was coded with a step."""

    tile: Prepared
    step: float
    B: int
    n_cuts: int
    matrix: Floats | None
    gains: NDArray[np.uint8] | None
    sections: list[bytes]
    whole: Floats  # what a decoder finds, (C, n...)

    def squares(self) -> Floats:
        """Squared errors of what a decoder finds, where there is no gap."""
        tile = self.tile
        back = rounded(self.whole, tile.offset, self.step, tile.frame.dtype).astype(np.float64)
        squares = (back - tile.x) ** 2
        return squares if tile.missing is None else np.asarray(squares[~tile.missing])

    def on_lattice(self) -> bytes | None:
        """The tile on a lattice that is as good, packed without loss; None if there is none."""
        x, gone, frame = self.tile.x, self.tile.missing, self.tile.frame
        squares = self.squares()
        if not squares.any():
            return None
        found = lattice.as_good(x, float(squares.mean()), frame.dtype)
        if found is None:
            return None
        values, on = found
        if gone is not None:
            values[gone] = np.nan
        tiles = [frame.back(values)]
        return lossless.pack_many(tiles, channel_axis=frame.channel, lattices=[on])[0]

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


def coded(tile: Prepared, step: float) -> Coded | None:
    """The tile coded with a step; None where the step is too small for this."""
    if step / (1 << FRACTION) < np.finfo(np.float64).tiny:
        return None
    found = tile.apart(step)
    if found is None:
        return None
    x, sizes, M = found
    effort = writing.Effort(sizes)
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
    return Coded(tile, step, sizes[0], n_cuts, M, gains, sections, whole)


def smaller(data: bytes | None, values: Values, channel_axis: int | None) -> bytes:
    """The bytes, or those without loss where they are fewer."""
    # without loss costs time too: only tried where it could win
    if data is not None and 8 * len(data) < 0.4 * values.nbytes * 8:
        return data
    without = lossless.pack(values, channel_axis=channel_axis)
    return without if data is None or len(without) <= len(data) else data


def trial(
    values: Values, step: float, channel_axis: int | None = None, *, exact: bool = False
) -> tuple[float, float]:
    """About the sum of squared errors and the bits of a tile coded with a step.

    Boxes of one size are priced as the encoder prices them; nothing is written. With `exact` the
    tile is coded in boxes, and both are those of what comes out.
    """
    tile = Prepared.of(values, checked(values, channel_axis))
    if exact:
        made = coded(tile, positive("step", step))
        if made is None:
            return 0.0, 8.0 * values.nbytes
        return float(made.squares().sum()), 8.0 * len(made.bytes())
    found = tile.priced(positive("step", step))
    if found is None:
        return 0.0, 8.0 * values.nbytes
    errors, bits = found
    return float(errors.sum()) * step * step, bits
