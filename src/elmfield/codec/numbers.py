"""Values as whole numbers in order, and floats that lie on a lattice.

Every value of a dtype has a rank: integers their distance from the least one, floats the rank of their bits when
they are sorted from -NaN through -inf, -0, 0 and inf to NaN. Ranks are a bijection, so what is
coded as ranks comes back bit for bit.
"""

import numpy as np
from numpy.typing import NDArray

from elmfield._array.typing import Floats, Integers

Ranks = NDArray[np.unsignedinteger]


def ranks(values: NDArray[np.generic]) -> Ranks:
    """Unsigned integers of the dtype's size, in the order of the values."""
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    unsigned = np.dtype(f"u{values.dtype.itemsize}")
    bits = values.view(unsigned)
    if values.dtype.kind == "u":
        return bits
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    if values.dtype.kind == "i":
        return bits ^ sign
    return np.where(bits & sign, ~bits, bits | sign)


def unranked(rank: Ranks, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """The values of ranks."""
    if dtype == np.bool_:
        return rank.astype(np.uint8).view(np.bool_)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    rank = rank.astype(unsigned)
    if dtype.kind == "u":
        return rank
    sign = unsigned.type(1 << (8 * unsigned.itemsize - 1))
    if dtype.kind == "i":
        return (rank ^ sign).view(dtype)
    return np.where(rank & sign, rank ^ sign, ~rank).view(dtype)


def common_step(distances: NDArray[np.uint64]) -> int:
    """The greatest step of which all distances are multiples; 1 for nothing but zeros."""
    step = int(np.gcd.reduce(distances[:1024])) or int(distances.max())
    while step > 1:
        wrong = distances[distances % np.uint64(step) != 0]
        if not wrong.size:
            return step
        step = int(np.gcd(np.uint64(step), np.gcd.reduce(wrong[:1024])))
    return 1


def lattice(values: NDArray[np.floating]) -> tuple[float, float] | None:
    """Offset and step if finite values are nearly ``offset + step k``; None where they are not.

    Steps shorter than 16 spacings of the dtype do not count: then ranks are as good.
    """
    x = values.ravel().astype(np.float64)
    some = np.unique(x[:: max(1, x.size // 20_000)])
    gaps = np.diff(some)
    if some.size < 3:
        return None
    spacing = float(np.spacing(values.dtype.type(np.abs(some).max())))
    step = float(gaps.min())
    if step < 16 * spacing:
        return None
    step = _refined(some - some[0], step)
    if step < 16 * spacing:
        return None
    offset = float(some[0])
    for _ in range(2):  # then least squares over all values
        k = np.rint((x - offset) / step)
        if float(np.abs(x - (offset + step * k)).max()) > 3 * spacing:
            return None
        if float(np.abs(k).max()) > 2.0**40:
            return None
        mean_k, mean_x = k.mean(), x.mean()
        spread = ((k - mean_k) ** 2).sum()
        step = float(((k - mean_k) * (x - mean_x)).sum() / spread)
        offset = float(mean_x - step * mean_k)
    first = float(np.rint((x.min() - offset) / step))
    return offset + step * first, step


def _refined(distance: Floats, step: float) -> float:
    """A step known better and better as longer distances are looked at."""
    reach = 4.0 * step
    while True:
        near = distance[distance <= reach]
        k = np.rint(near / step)
        if float(k @ k) > 0:
            step = float(k @ near / (k @ k))
        if reach >= distance[-1]:
            return step
        reach *= 4.0


def on_lattice(
    offset: float, step: float, k: Integers, dtype: np.dtype[np.floating]
) -> NDArray[np.floating]:
    """``offset + step k``, in float64, then rounded to the dtype; what passes it becomes infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return (offset + step * k.astype(np.float64)).astype(dtype)
