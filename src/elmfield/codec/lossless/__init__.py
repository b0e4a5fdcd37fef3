"""Arrays to tiles and back, bit for bit: bool, integers and floats of one to four axes.

Values become whole numbers from 0 (`numbers`). A plane of these is predicted in the order of a
`wavefront`, by the encoder for all samples at once in its `frame`; what is left goes as tokens,
with a header (`plane_model`), through `plane_coder`. `prediction_kernels` does that by compiled
loops. ``docs/codec.md`` says how the bytes are laid out.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Integers
from elmfield.codec.container import LOSSLESS, ByteReader, ByteWriter, Head, damaged, fill_up
from elmfield.codec.lossless import numbers
from elmfield.codec.lossless.numbers import Ranks, from_ranks, on_lattice, ranks
from elmfield.codec.lossless.plane_coder import NO_WORDS, read_planes, write_planes
from elmfield.codec.lossless.plane_model import MAX_RANGE

__all__ = ["pack", "unpack"]

Values = NDArray[np.generic]
Lattice = tuple[float, float]
"""Offset and step of values on a lattice."""

STORED, RANKED, ON_LATTICE = 0, 1, 2
"""Ways to write values: as they are, by rank, by place on a lattice."""
EXACT, BY_PLACE, BY_SAMPLE = 0, 1, 2
"""Where values lie off their lattice: nowhere, by their place on it, or each sample by itself."""
GAPS = 128
"""Added to the way where NaN are written as gaps."""


def pack(values: Values, channel_axis: int | None = None, lattice: Lattice | None = None) -> bytes:
    """Return the bytes of an array; NaN, infinities and -0 come back bit for bit.

    `lattice` has offset and step of values that are known to lie on one: floats (others are looked
    for), or whole numbers of at most 32 bits, with a step above 1. Where they take fewer bytes,
    values stand as they are.
    """
    head = Head.of(values, channel_axis)
    out, stored = head.writer(LOSSLESS), head.writer(LOSSLESS)
    if values.size:
        order = _AxisOrder(head)
        native = values.astype(head.dtype, copy=False)
        _write_values(out, order.arrange(native), order.ndim, lattice)
        packed = fill_up(bytes(out.data), values.size, LOSSLESS)
        if len(packed) <= len(stored.data) + 1 + values.nbytes:
            return packed
    little = values.astype(head.dtype.newbyteorder("<"))
    return bytes(stored.data) + bytes([STORED]) + little.tobytes()


class _AxisOrder:
    """How an array is laid out for coding: `shape` is (C, A, Z, Y, X).

    Channels come first, the second of three or four (green) before the others. The other axes
    follow in the order of their lengths, of equal ones the first stays first: most steps of
    prediction run along the longest.
    """

    def __init__(self, head: Head) -> None:
        shape, channel = head.shape, head.channel
        axes = sorted((i for i in range(len(shape)) if i != channel), key=lambda i: shape[i])
        C = 1 if channel is None else shape[channel]
        self.ndim = max(1, len(axes))
        self.shape = (C, *[1] * (4 - len(axes)), *(shape[i] for i in axes))
        self._given, self._axes = shape, axes if channel is None else [channel, *axes]
        self._channels = [1, 0, *range(2, C)] if C in (3, 4) else slice(None)  # its own inverse

    def arrange(self, values: Values) -> Values:
        """Return an array for coding."""
        return values.transpose(self._axes).reshape(self.shape)[self._channels]

    def restore(self, values: Values) -> Values:
        """Return what :meth:`arrange` was given."""
        out = np.empty(self._given, values.dtype)
        moved = out.transpose(self._axes)
        moved[...] = values[self._channels].reshape(moved.shape)
        return out


# --- writing --------------------------------------------------------------------------------------


def _write_values(out: ByteWriter, values: NDArray[Any], ndim: int, known: Lattice | None) -> None:
    """Write the way, its numbers and planes of values (C, A, Z, Y, X)."""
    if values.dtype.kind != "f" and known is None:
        out.data.append(RANKED)
        _write_ranks(out, ranks(values), ndim)
        return
    gaps, filled = _fill_gaps(values)
    found = _place_on_lattice(filled, known)
    out.data.append((RANKED if found is None else ON_LATTICE) + (0 if gaps is None else GAPS))
    if gaps is not None:
        out.number(int(ranks(values[gaps][:1])[0]))
        write_planes(out, gaps.astype(np.int64), ndim)
    if found is None:
        _write_ranks(out, ranks(filled), ndim)
        return
    offset, step, k, off = found
    out.float(offset)
    out.float(step)
    k -= (least := int(k.min()))
    out.signed(least)
    _write_ranks(out, k.view(np.uint64), ndim)
    _write_corrections(out, k, off, ndim)


def _place_on_lattice(
    values: NDArray[Any], known: Lattice | None
) -> tuple[float, float, Integers, Integers] | None:
    """Return offset, step, places on a lattice, and ranks off it; None if there is none nearby.

    Near 0 there are so many floats that few spacings of the largest value are too many ranks.
    """
    found = known
    if found is None and bool(np.isfinite(values).all()):
        found = numbers.find_lattice(values)
    if found is None:
        return None
    offset, step = found
    k = np.rint((values.astype(np.float64) - offset) / step).astype(np.int64)
    near = on_lattice(offset, step, k, values.dtype)
    bits = np.dtype(f"u{values.dtype.itemsize}")
    if bool((near.view(bits) == values.view(bits)).all()):
        return offset, step, k, np.zeros(k.shape, np.int64)
    off = ranks(values).astype(np.int64) - ranks(near).astype(np.int64)
    if max(int(off.max()), 0) - min(int(off.min()), 0) > MAX_RANGE:
        return None
    return offset, step, k, off


def _write_corrections(out: ByteWriter, k: Integers, off: Integers, ndim: int) -> None:
    """Write how many ranks values lie off their lattice: by place on it, or by sample."""
    if not off.any():
        out.data.append(EXACT)
        return
    n, least = int(k.max()) + 1, int(off.min())
    if n <= k.size:
        table = np.zeros(n, np.int64)
        table[k] = off
        if bool((table[k] == off).all()):
            out.data.append(BY_PLACE)
            out.signed(min(least, 0))
            out.number(n)
            write_planes(out, (table - min(least, 0)).reshape(1, 1, 1, 1, n), 1)
            return
    out.data.append(BY_SAMPLE)
    out.signed(least)
    write_planes(out, off - least, ndim)


def _fill_gaps(values: NDArray[Any]) -> tuple[NDArray[np.bool_] | None, NDArray[Any]]:
    """Return where NaN are, and values with the one before in their place; None for no gaps.

    NaN that differ in their bits are no gaps but values.
    """
    gaps = np.isnan(values)
    if not gaps.any() or gaps.all():
        return None, values
    bits = ranks(values)[gaps]
    if bool((bits != bits[0]).any()):
        return None, values
    flat, holes = values.ravel(), gaps.ravel()
    last = np.maximum.accumulate(np.where(holes, -1, np.arange(flat.size)))
    last[last < 0] = int(np.flatnonzero(~holes)[0])
    return gaps, flat[last].reshape(values.shape)


def _write_ranks(out: ByteWriter, rank: Ranks, ndim: int) -> None:
    """Write whole numbers: least, step, raw low bits, and the rest as planes."""
    least = int(rank.min())
    distance = rank - rank.dtype.type(least)
    step = numbers.common_step(distance.ravel())
    if step > 1:
        distance //= rank.dtype.type(step)
    shift = max(0, int(distance.max()).bit_length() - MAX_RANGE.bit_length())
    for number in (least, step, shift):
        out.number(number)
    tail = NO_WORDS
    if shift:
        tail = numbers.pack_low_bits(distance.ravel(), shift)
        distance >>= rank.dtype.type(shift)
    write_planes(out, distance, ndim, tail)


# --- reading --------------------------------------------------------------------------------------


def unpack(data: bytes) -> Values:
    """Return the array of a tile; StoreError where the bytes are damaged."""
    head, reader = Head.read(data, LOSSLESS)
    gaps, way = divmod(reader.take(1)[0], GAPS)
    if way == STORED and not gaps:
        return _read_stored(reader.rest(), head)
    is_float, is_on_lattice = head.dtype.kind == "f", way == ON_LATTICE
    small = head.dtype.kind in "iu" and head.dtype.itemsize <= 4
    bad = not is_float and (gaps or (is_on_lattice and not small))
    if way not in (RANKED, ON_LATTICE) or bad or 0 in head.shape:
        raise damaged("is written in an unknown way")
    order = _AxisOrder(head)
    if gaps:
        gap = from_ranks(np.array([reader.number() % (1 << 64)], np.uint64), head.dtype)
        missing, _ = read_planes(reader, order.shape, order.ndim)
    if is_on_lattice:
        values = _read_on_lattice(reader, order, head.dtype)
    else:
        values = from_ranks(_read_ranks(reader, order, head.dtype), head.dtype)
    return order.restore(np.where(missing > 0, gap, values) if gaps else values)


def _read_stored(raw: bytes, head: Head) -> Values:
    """Return values that were written as they are."""
    if len(raw) != head.dtype.itemsize * math.prod(head.shape):
        raise damaged("does not have as many bytes as it claims")
    if head.dtype == np.bool_ and any(b > 1 for b in set(raw)):
        raise damaged("of bool holds other numbers than 0 and 1")
    values = np.frombuffer(raw, head.dtype.newbyteorder("<")).astype(head.dtype)
    return values.reshape(head.shape)


def _read_on_lattice(reader: ByteReader, order: _AxisOrder, dtype: np.dtype[Any]) -> Values:
    """Return values by their places on a lattice, and by how many ranks they lie off it."""
    offset, step, start = reader.float(), reader.float(), reader.signed()
    if dtype.kind != "f" and not (math.isfinite(offset) and math.isfinite(step)):
        raise damaged("holds an impossible number")
    k = _read_ranks(reader, order, np.dtype(np.uint64)).view(np.int64)
    values, kind = on_lattice(offset, step, k + start, dtype), reader.take(1)[0]
    if kind == EXACT:
        return values
    least = reader.signed()
    if kind == BY_SAMPLE:
        off, _ = read_planes(reader, order.shape, order.ndim)
    else:
        n = reader.number()
        if kind != BY_PLACE or not 1 <= n <= k.size:
            raise damaged("has impossible corrections")
        table, _ = read_planes(reader, (1, 1, 1, 1, n), 1)
        off = table.ravel().take(k, mode="clip")
    rank = ranks(values).astype(np.uint64) + (off.astype(np.int64) + least).view(np.uint64)
    return from_ranks(rank, dtype)


def _read_ranks(reader: ByteReader, order: _AxisOrder, dtype: np.dtype[Any]) -> Ranks:
    """Return whole numbers: planes, raw low bits, step and least; modulo what a dtype holds."""
    least, unit, shift = (reader.number() for _ in range(3))
    if shift > 33 or max(least, unit) >= 1 << 64:
        raise damaged("holds an impossible number")
    n = math.prod(order.shape)
    planes, tail = read_planes(reader, order.shape, order.ndim, -(-n * shift // 16))
    size = 8 if shift or dtype == np.bool_ else dtype.itemsize
    kind = np.dtype(f"u{size}")
    rank = planes.astype(kind)
    if shift:
        rank <<= np.uint64(shift)
        rank |= numbers.unpack_low_bits(tail, n, shift).reshape(rank.shape)
    if unit != 1:
        rank *= kind.type(unit % (1 << 8 * size))
    if least:
        rank += kind.type(least % (1 << 8 * size))
    return rank
