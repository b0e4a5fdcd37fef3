"""Values as whole numbers in order, and floats that lie on a lattice.

Every value of a dtype has a rank: integers their distance from the least one, floats their place
among all of the dtype, from -NaN through -inf, -0, 0 and inf to NaN. No two values share a rank, so
what is coded as ranks comes back bit for bit.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmfield._array.channel_stats import spacing_at
from elmfield._array.typing import Floats, Integers

Ranks = NDArray[np.unsignedinteger]

LARGEST_PLACE = 2.0**40
"""Places on a lattice that values are rounded to are smaller than this."""
LATTICE_HALVINGS = 6

Placed = tuple[NDArray[np.generic], tuple[float, float]]
"""Values on a lattice, and its offset and step."""


def ranks(values: NDArray[np.generic]) -> Ranks:
    """Return unsigned integers of the dtype's size, in the order of the values."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    bits = values.view(unsigned)
    if values.dtype.kind == "u":
        return bits
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    if values.dtype.kind == "i":
        return np.asarray(bits ^ sign)
    return np.asarray(np.where(bits & sign, ~bits, bits | sign))


def from_ranks(rank: Ranks, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """Return the values of ranks."""
    if dtype == np.bool_:
        return np.asarray(rank != 0)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    rank = rank.astype(unsigned)
    if dtype.kind == "u":
        return rank
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    if dtype.kind == "i":
        return np.asarray(rank ^ sign).view(dtype)
    return np.asarray(np.where(rank & sign, rank ^ sign, ~rank)).view(dtype)


def common_step(distances: Ranks) -> int:
    """Return the greatest step of which all distances are multiples; 1 for all zeros."""
    step = int(np.gcd.reduce(distances[:1024])) or int(distances.max())
    while step > 1:
        wrong = distances[distances % distances.dtype.type(step) != 0]
        if not wrong.size:
            return step
        step = int(np.gcd(wrong.dtype.type(step), np.gcd.reduce(wrong[:1024])))
    return 1


def pack_low_bits(numbers: Ranks, bits: int) -> NDArray[np.uint16]:
    """Return the lowest bits of numbers, one after the other, low bit first, 16 to a word."""
    rows = numbers.astype("<u8")[:, None].view(np.uint8)
    whole = np.unpackbits(rows, axis=1, count=bits, bitorder="little").ravel()
    packed = np.packbits(np.pad(whole, (0, -whole.size % 16)), bitorder="little")
    return packed.view("<u2").astype(np.uint16)


def unpack_low_bits(words: NDArray[np.uint16], n: int, bits: int) -> NDArray[np.uint64]:
    """Return the numbers of :func:`pack_low_bits`, n of them."""
    whole = np.unpackbits(words.astype("<u2").view(np.uint8), count=n * bits, bitorder="little")
    rows, out = np.packbits(whole.reshape(n, bits), axis=1, bitorder="little"), np.zeros(n, "<u8")
    out.view(np.uint8).reshape(n, 8)[:, : rows.shape[1]] = rows
    return out.astype(np.uint64)


def find_lattice(values: NDArray[np.floating]) -> tuple[float, float] | None:
    """Return offset and step if finite values are nearly ``offset + step k``; else None.

    Steps shorter than 16 spacings of the dtype do not count: then ranks are as good.
    """
    x = values.ravel().astype(np.float64)
    some = np.unique(x[:: max(1, x.size // 20_000)])
    if some.size < 3:
        return None
    with np.errstate(over="ignore"):  # from one end of the dtype to the other: no lattice
        wide, step = float(some[-1] - some[0]), float(np.diff(some).min())
    spacing = float(spacing_at(np.abs(some).max(keepdims=True).astype(values.dtype))[0])
    if not step >= 16 * spacing or not wide / step <= 2.0**40:
        return None
    step = _refine_step(some, step)
    if step < 16 * spacing:
        return None
    k = np.rint((x - some[0]) / step)
    if float(np.abs(x - (some[0] + step * k)).max()) > 3 * spacing:
        return None
    least = float(k.min())
    return _choose_nicest(values.ravel(), x, k - least)


def _choose_nicest(values: NDArray[np.floating], x: Floats, k: Floats) -> tuple[float, float]:
    """Return the offset and step, near those of least squares, that give most values exactly.

    Whoever made the values used a power of two, a short decimal or a float32.
    """
    dtype = values.dtype
    some = slice(None, None, max(1, x.size // 20_000))
    v, y, n = values[some], x[some], k[some]
    rounding = spacing_at(v).astype(np.float64)
    trust = 1.0 / np.maximum(rounding / rounding.max(), 2.0**-40) ** 2
    mean_n, mean_y = np.average(n, weights=trust), np.average(y, weights=trust)
    slope = float((trust * (n - mean_n) * (y - mean_y)).sum() / (trust * (n - mean_n) ** 2).sum())
    best, fewest = (0.0, slope), v.size + 1
    for step in _near_numbers(slope):
        middle = float(mean_y - step * mean_n)
        # The least of rounding beside 0 is as many ranks from it as there are: 0 comes first.
        through = [0.0] if abs(middle) < 2.0**-30 * abs(step) else []
        for offset in [*through, *_near_numbers(middle)]:
            wrong = int(np.count_nonzero(on_lattice(offset, step, n.astype(np.int64), dtype) != v))
            if not wrong:
                return offset, step
            if wrong < fewest:
                best, fewest = (offset, step), wrong
    return best


def _near_numbers(value: float) -> list[float]:
    """Return a number and simpler ones next to it."""
    if not np.isfinite(value) or value == 0.0:
        return [value]
    power = float(2.0 ** np.rint(np.log2(abs(value)))) * float(np.sign(value))
    decimals = [float(f"{value:.{digits}e}") for digits in range(1, 12)]
    near = [v for v in (0.0, power, *decimals) if abs(v - value) < 1e-5 * abs(value)]
    single = [float(np.float32(value))] if abs(value) <= float(np.finfo(np.float32).max) else []
    return [value, *single, *near[:6]]


def _refine_step(some: Floats, step: float) -> float:
    """Return a step made more precise by values further and further apart."""
    lag, reach = 1, 4.0 * step
    while lag < some.size:
        apart = some[lag:] - some[:-lag]
        apart = apart[apart <= reach]
        k = np.rint(apart / step)
        if float(k @ k) > 0:
            step = float(k @ apart / (k @ k))
        lag, reach = 4 * lag, 4.0 * reach
    return step


def on_lattice(
    offset: float, step: float, k: Integers, dtype: np.dtype[Any]
) -> NDArray[np.generic]:
    """Return ``offset + step k`` in float64, rounded to the dtype.

    Floats that are too large become infinite; whole numbers stay within the dtype.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        x = offset + step * k.astype(np.float64)
        if dtype.kind == "f":
            return x.astype(dtype)
    ends = np.iinfo(dtype)
    return np.clip(np.rint(x), ends.min, ends.max).astype(dtype)


# --- values rounded to a lattice, which are then packed without loss ------------------------------


def round_floats(x: Floats, step: float, dtype: np.dtype[np.generic]) -> Placed | None:
    """Return samples x on the lattice of all multiples of `step`; None where there are too many.

    0 comes back as 0.
    """
    top = max(float(np.abs(x).max(initial=0.0)), np.finfo(np.float64).tiny)
    if not 2.0**-960 < step < 2.0**960 or top / step > LARGEST_PLACE:
        return None
    found = on_lattice(0.0, step, np.rint(x / step).astype(np.int64), dtype)
    return (found, (0.0, step)) if np.isfinite(found).all() else None


def _round_whole(x: Floats, step: float, dtype: np.dtype[np.generic]) -> Placed | None:
    """Return whole numbers x on a lattice from the least on; None where the step is 1 or less."""
    if step <= 1 or dtype.itemsize > 4:
        return None
    low = float(x.min())
    return on_lattice(low, step, np.rint((x - low) / step).astype(np.int64), dtype), (low, step)


def round_as_good(x: Floats, error: float, dtype: np.dtype[np.generic]) -> Placed | None:
    """Return samples x on the coarsest lattice, about, of at most this mean squared error."""
    is_whole = dtype.kind in "iu"
    place, high = _round_whole if is_whole else round_floats, math.sqrt(12 * error + is_whole)
    low, best = 0.8 * high, None
    high *= 1.05
    for _ in range(LATTICE_HALVINGS):
        step = (low + high) / 2
        found = place(x, step, dtype)
        if found is None:
            return best
        if float(np.mean((found[0].astype(np.float64) - x) ** 2)) <= error:
            low, best = step, found
        else:
            high = step
    return best
