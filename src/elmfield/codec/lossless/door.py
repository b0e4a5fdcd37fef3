"""Arrays to bytes and back without loss: integers, floats and bools of one to four axes.

:func:`pack` takes one tile, :func:`unpack` gives it back bit for bit, :func:`unpack_many` several
at once, which is faster. How the bytes are laid out is told in ``docs/codec.md``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array import compiled
from elmfield._array.threads import spread
from elmfield._array.typing import Integers
from elmfield.codec.lossless.numbers import (
    Ranks,
    common_step,
    lattice,
    of_raw_words,
    on_lattice,
    ranks,
    raw_words,
    unranked,
)
from elmfield.codec.lossless.plane import MOST_RANGE
from elmfield.codec.lossless.sections import Opened, Reader, Section, Writer, opened, written
from elmfield.errors import StoreError, StoreVersionError

Values = NDArray[np.generic]

START = b"\xe7\x01\x00"
"""A mark, the version, and the kind: without loss."""
DTYPES = ("?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")
STORED, RANKED, LATTICE = 0, 1, 2
"""Ways to write values: as they are, by rank, by place on a lattice."""
EXACT, BY_PLACE, BY_SAMPLE = 0, 1, 2
"""Where values lie off their lattice: nowhere, by their place on it, or each sample by itself."""
GAPS = 128
"""Added to the way where NaN are written as gaps."""
SAMPLES_PER_BYTE = 1024
"""A tile has at most so many samples for each of its bytes: a lie cannot ask for much memory."""


def pack(values: Values, *, channel_axis: int | None = None) -> bytes:
    """Bytes of an array of one to four axes, besides channels, without loss.

    Parameters
    ----------
    values : array
        bool, integers or floats; NaN, infinities and -0 come back bit for bit.
    channel_axis : int, optional
        An axis along which samples are different things seen at one place: colours, bands.
    """
    return pack_many([values], channel_axis=channel_axis)[0]


def pack_many(
    tiles: Sequence[Values],
    *,
    channel_axis: int | None = None,
    lattices: Sequence[tuple[float, float] | None] | None = None,
) -> list[bytes]:
    """Bytes of several arrays, those of :func:`pack`; made side by side, which is faster.

    `lattices` have offset and step of values that are known to lie on one: floats (others are
    looked for), or whole numbers of at most 32 bits, with a step above 1.
    """
    known = [None] * len(tiles) if lattices is None else lattices

    def begin(of: tuple[Values, tuple[float, float] | None]) -> tuple[Writer, bytes]:
        return _begun(np.asarray(of[0]), channel_axis, of[1])

    # Compiled loops take tiles one by one; NumPy takes many side by side.
    loops = compiled.pays(sum(int(np.size(values)) for values in tiles))
    begun = spread(begin, list(zip(tiles, known)), None if loops else 1)
    packed = written([writer for writer, _ in begun])
    return [
        _fewest(data, raw, np.asarray(values).size)
        for data, (_, raw), values in zip(packed, begun, tiles)
    ]


def _fewest(packed: bytes, raw: bytes, n: int) -> bytes:
    """A tile of n samples, or its values as they are where that takes fewer bytes."""
    packed += bytes(max(0, -(-n // SAMPLES_PER_BYTE) - len(packed)))
    return min(packed, raw, key=len) if n else raw


def _begun(
    values: Values, channel_axis: int | None, on: tuple[float, float] | None
) -> tuple[Writer, bytes]:
    """A tile up to its streams, and its bytes as they are."""
    code = _code(values.dtype)
    channel = None if channel_axis is None else _axis(channel_axis, values.ndim)
    n_axes = values.ndim - (channel is not None)
    if not 0 <= n_axes <= 4 or values.ndim > 5:
        raise ValueError(f"A tile has one to four axes besides channels; got shape {values.shape}.")
    out = Writer(START)
    out.data += bytes([code, values.ndim, 0 if channel is None else 1 + channel])
    for n in values.shape:
        out.number(n)
    raw = bytes(out.data) + bytes([STORED]) + values.astype("<" + DTYPES[code]).tobytes()
    if values.size:
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        plan = _Plan(values.shape, channel)
        _write(out, plan.spread(native), plan.ndim, on)
    return out, raw


def unpack(data: bytes) -> Values:
    """The array of :func:`pack`; StoreError where the bytes are damaged."""
    return unpack_many([data])[0]


def unpack_many(tiles: Sequence[bytes]) -> list[Values]:
    """The arrays of several tiles; those of equal shape are decoded side by side."""
    read = [_Tile.read(bytes(tile)) for tile in tiles]
    if compiled.pays(sum(s.layout.n_samples for tile in read for s in tile.sections)):
        return spread(lambda tile: tile.finish(opened(tile.sections)), read)
    planes = iter(opened([section for tile in read for section in tile.sections]))
    return [tile.finish([next(planes) for _ in tile.sections]) for tile in read]


def _code(dtype: np.dtype[np.generic]) -> int:
    name = "?" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"
    if name not in DTYPES:
        raise ValueError(
            f"Only bool, integers and floats up to 64 bits can be packed; got dtype {dtype}. "
            "Convert the array first."
        )
    return DTYPES.index(name)


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(
            f"`channel_axis` must be an axis of the array; got {axis} for {ndim} axes."
        )
    return axis % ndim


@dataclass(frozen=True)
class _Plan:
    """How an array is laid out for coding: (C, A, Z, Y, X).

    Channels come first, the second of three or four (green) before the others. The other axes
    follow in the order of their lengths: most steps of prediction run along the longest.
    """

    shape: tuple[int, ...]
    channel: int | None

    @property
    def ndim(self) -> int:
        return max(1, len(self.axes))

    @property
    def axes(self) -> list[int]:
        """Axes besides channels, shortest first; of equal ones the first stays first."""
        others = [i for i in range(len(self.shape)) if i != self.channel]
        return sorted(others, key=lambda i: self.shape[i])

    @property
    def moved(self) -> list[int]:
        return ([] if self.channel is None else [self.channel]) + self.axes

    @property
    def full(self) -> tuple[int, int, int, int, int]:
        C = 1 if self.channel is None else self.shape[self.channel]
        lengths = [self.shape[i] for i in self.axes]
        return (C, *[1] * (4 - len(lengths)), *lengths)  # type: ignore[return-value]

    @property
    def order(self) -> list[int]:
        C = self.full[0]
        return [1, 0, *range(2, C)] if C in (3, 4) else list(range(C))

    def _channels(self, values: Values) -> Values:
        """A view of an array, channels first, in the order of the other axes."""
        moved = values.transpose(self.moved)
        return moved[None] if self.channel is None else moved

    def spread(self, values: Values) -> Values:
        whole = self._channels(values)
        out = np.empty(whole.shape, values.dtype)
        for i, channel in enumerate(self.order):
            out[i] = whole[channel]
        return out.reshape(self.full)

    def gathered(self, values: Values) -> Values:
        out = np.empty(self.shape, values.dtype)
        whole = self._channels(out)
        for channel, one in zip(self.order, values.reshape(whole.shape), strict=True):
            whole[channel] = one
        return out


def _write(out: Writer, values: NDArray[Any], ndim: int, on: tuple[float, float] | None) -> None:
    """The way, its numbers and sections of values (C, A, Z, Y, X); `on` is a lattice known."""
    none = np.zeros(0, np.uint16)
    if values.dtype.kind != "f" and on is None:
        out.data.append(RANKED)
        _write_ranks(out, ranks(values), ndim)
        return
    gaps, filled = _without_gaps(values)
    found = _on_a_lattice(filled, on)
    out.data.append((RANKED if found is None else LATTICE) + (0 if gaps is None else GAPS))
    if gaps is not None:
        out.number(int(ranks(values[gaps][:1])[0]))
        out.planes(gaps.astype(np.int64), ndim, none)
    if found is None:
        _write_ranks(out, ranks(filled), ndim)
        return
    offset, step, k, off = found
    out.float(offset)
    out.float(step)
    k -= (least := int(k.min()))
    out.number(2 * least if least >= 0 else -2 * least - 1)
    _write_ranks(out, k.view(np.uint64), ndim)
    _write_corrections(out, k, off, ndim)


def _on_a_lattice(
    values: NDArray[Any], known: tuple[float, float] | None
) -> tuple[float, float, Integers, Integers] | None:
    """Offset, step, places on a lattice, and ranks off it; None if there is none nearby.

    Near 0 there are so many floats that few spacings of the largest value are too many ranks.
    """
    found = known
    if found is None and bool(np.isfinite(values).all()):
        found = lattice(values)
    if found is None:
        return None
    offset, step = found
    k = np.rint((values.astype(np.float64) - offset) / step).astype(np.int64)
    near = on_lattice(offset, step, k, values.dtype)
    bits = np.dtype(f"u{values.dtype.itemsize}")
    if bool((near.view(bits) == values.view(bits)).all()):
        return offset, step, k, np.zeros(k.shape, np.int64)
    off = ranks(values).astype(np.int64) - ranks(near).astype(np.int64)
    if max(int(off.max()), 0) - min(int(off.min()), 0) > MOST_RANGE:
        return None
    return offset, step, k, off


def _write_corrections(out: Writer, k: Integers, off: Integers, ndim: int) -> None:
    """How many ranks values lie off their lattice: nothing, by place on it, or by sample."""
    none = np.zeros(0, np.uint16)
    least, n = int(off.min()), int(k.max()) + 1
    if not off.any():
        out.data.append(EXACT)
        return
    table = np.zeros(n if n <= k.size else 0, np.int64)
    if table.size:
        table[k] = off
    by_place = table.size > 0 and bool((table[k] == off).all())
    out.data.append(BY_PLACE if by_place else BY_SAMPLE)
    least = min(least, 0) if by_place else least
    out.number(2 * least if least >= 0 else -2 * least - 1)
    if by_place:
        out.number(n)
        out.planes((table - least).reshape(1, 1, 1, 1, n), 1, none)
    else:
        out.planes(off - least, ndim, none)


def _without_gaps(values: NDArray[Any]) -> tuple[NDArray[np.bool_] | None, NDArray[Any]]:
    """Where NaN are and the values with the one before in their place; None if there are no gaps.

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


def _write_ranks(out: Writer, rank: Ranks, ndim: int) -> None:
    """Whole numbers: least, step, raw low bits, and the rest as sections."""
    least = int(rank.min())
    distance = rank - rank.dtype.type(least)
    step = common_step(distance.ravel())
    if step > 1:
        distance //= rank.dtype.type(step)
    shift = max(0, int(distance.max()).bit_length() - MOST_RANGE.bit_length())
    out.number(least)
    out.number(step)
    out.number(shift)
    tail = np.zeros(0, np.uint16)
    if shift:
        tail = raw_words(distance.ravel(), shift)
        distance >>= rank.dtype.type(shift)
    out.planes(distance, ndim, tail)


@dataclass(frozen=True)
class _Tile:
    """A tile that was read but not yet decoded."""

    sections: list[Section]
    finish: Callable[[list[Opened]], Values]

    @classmethod
    def read(cls, data: bytes) -> "_Tile":
        reader = Reader(data)
        start = reader.take(3)
        if start[:1] != START[:1] or start[2:] != START[2:]:
            raise StoreError("These bytes are no tile packed without loss.")
        if start[1] != START[1]:
            raise StoreVersionError(
                f"A tile was packed by a newer elmfield (version {start[1]}); update to read it."
            )
        code, ndim, channel = reader.take(3)
        if code >= len(DTYPES) or ndim > 5 or channel > ndim or ndim - (channel > 0) > 4:
            raise StoreError("A packed tile names an impossible dtype or shape: it is damaged.")
        shape = tuple(reader.number() for _ in range(ndim))
        dtype = np.dtype(DTYPES[code])
        size = 1
        for n in shape:
            size *= n
        room = 1
        for n in shape:
            room *= max(n, 1)
        if size > SAMPLES_PER_BYTE * len(data) or room > 1 << 40:
            raise StoreError(
                f"A packed tile of {len(data)} bytes claims shape {shape}: it is damaged."
            )
        way = reader.take(1)[0]
        if way == STORED:
            return cls([], _stored(reader, dtype, shape))
        if size == 0:
            raise StoreError("A packed tile without samples holds some: it is damaged.")
        plan = _Plan(shape, channel - 1 if channel else None)
        return cls(*_parts(reader, way, dtype, plan))


def _stored(
    reader: Reader, dtype: np.dtype[np.generic], shape: tuple[int, ...]
) -> Callable[[list[Opened]], Values]:
    raw = reader.rest()
    if len(raw) != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise StoreError("A packed tile does not have as many bytes as it claims: it is damaged.")
    if dtype == np.bool_ and any(b > 1 for b in set(raw)):
        raise StoreError("A packed tile of bool holds other numbers than 0 and 1: it is damaged.")
    values = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype).reshape(shape)
    return lambda _: values


def _parts(
    reader: Reader, way: int, dtype: np.dtype[Any], plan: _Plan
) -> tuple[list[Section], Callable[[list[Opened]], Values]]:
    """Sections of a tile, and what makes values of their planes."""
    gaps, way = way >= GAPS, way % GAPS
    wide = dtype.kind == "b" or dtype.itemsize > 4  # these have no lattice
    if way not in (RANKED, LATTICE) or (dtype.kind != "f" and (gaps or (way == LATTICE and wide))):
        raise StoreError("A packed tile is written in an unknown way: it is damaged.")
    hole = reader.number() if gaps else 0
    mask = reader.planes(plan.full, plan.ndim) if gaps else []
    offset, step = (reader.float(), reader.float()) if way == LATTICE else (0.0, 0.0)
    if dtype.kind != "f" and not (math.isfinite(offset) and math.isfinite(step)):
        raise StoreError("A packed tile holds an impossible number: it is damaged.")
    start = _signed(reader.number()) if way == LATTICE else 0
    least, unit, shift = reader.number(), reader.number(), reader.number()
    if shift > 33 or least >= 1 << 64 or unit >= 1 << 64:
        raise StoreError("A packed tile holds an impossible number: it is damaged.")
    main = reader.planes(plan.full, plan.ndim)
    extra, below, kind = _read_corrections(reader, plan) if way == LATTICE else ([], 0, EXACT)

    def finish(planes: list[Opened]) -> Values:
        n, m = len(mask), len(main)
        # Whole numbers of fewer bits are the same modulo what their dtype holds.
        narrow = way == RANKED and not shift and dtype != np.bool_
        rank = _ranks(planes[n : n + m], least, unit, shift, dtype.itemsize if narrow else 8)
        if way == LATTICE:
            k = rank.view(np.int64)
            values: NDArray[Any] = on_lattice(offset, step, k + start, dtype)
            if extra:
                off = _joined(planes[n + m :]).ravel().astype(np.int64) + below
                off = off.take(k, mode="clip") if kind == BY_PLACE else off.reshape(k.shape)
                values = unranked(ranks(values).astype(np.uint64) + off.view(np.uint64), dtype)
        else:
            values = unranked(rank, dtype)
        if mask:
            holes = unranked(np.array([hole % (1 << 64)], np.uint64), dtype)
            values = np.where(_joined(planes[:n]) > 0, holes, values)
        return plan.gathered(values)

    return mask + main + extra, finish


def _read_corrections(reader: Reader, plan: _Plan) -> tuple[list[Section], int, int]:
    kind = reader.take(1)[0]
    if kind == EXACT:
        return [], 0, kind
    below = _signed(reader.number())
    if kind == BY_SAMPLE:
        return reader.planes(plan.full, plan.ndim), below, kind
    n = reader.number()
    if kind != BY_PLACE or not 1 <= n <= int(np.prod(plan.full)):
        raise StoreError("A packed tile has impossible corrections: it is damaged.")
    return reader.planes((1, 1, 1, 1, n), 1), below, kind


def _signed(number: int) -> int:
    """A number that may be negative, below 2^62 in size: 0, -1, 1, -2, 2 are 0, 1, 2, 3, 4."""
    if number >= 1 << 62:
        raise StoreError("A packed tile holds an impossible number: it is damaged.")
    return -(number + 1) // 2 if number & 1 else number // 2


def _joined(planes: list[Opened]) -> NDArray[np.integer]:
    """Planes whose streams must be used up."""
    if any(tail.any() for _, tail in planes):
        raise StoreError("A packed tile holds more than its samples need: the data are damaged.")
    return planes[0][0] if len(planes) == 1 else np.concatenate([plane for plane, _ in planes])


def _ranks(planes: list[Opened], least: int, unit: int, shift: int, size: int) -> Ranks:
    """Whole numbers again: sections, raw low bits, step and least; modulo 2^64, or `size` bytes."""
    kind = np.dtype(f"u{size}")
    if not shift:
        rank = _joined(planes).astype(kind)
    else:
        plane, tail = planes[0]
        n = sum(plane.size for plane, _ in planes)
        used = -(-n * shift // 16)
        if tail.size < used:
            raise StoreError("Low bits of a packed tile are missing: the data are damaged.")
        rank = _joined([(plane, tail[used:]), *planes[1:]]).astype(np.uint64)
        rank <<= np.uint64(shift)
        rank |= of_raw_words(tail, n, shift).reshape(rank.shape)
    if unit != 1:
        rank *= kind.type(unit % (1 << 8 * size))
    if least:
        rank += kind.type(least % (1 << 8 * size))
    return rank
