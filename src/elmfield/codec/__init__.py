"""Arrays to bytes and back: the codec, which knows nothing of fields or files.

Other packages use these names only:

- `pack` and `unpack` for one tile, `pack_decoded` and `unpack_many` for several at once, the first
  with what its bytes will be decoded to;
- `rate_curve`: what steps would cost, in bits, and lose, in squared errors;
- `has_coarse`: whether a tile begins with a coarse picture;
- `MAX_SAMPLES_PER_BYTE`: no valid tile claims more samples for its size.

Inside, `container` has the bytes that all tiles share, `ans` the entropy coder; `lossless` and
`lossy` are the two codecs, imported when first used: they are a tenth of the time of
`import elmfield`. Modules called kernels or loops are compiled.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmfield._array.checks import USUAL_EFFORT, check_effort
from elmfield._array.running import small_products, spread
from elmfield.codec.container import INTERPOLATED, LOSSY, PARTS, SAMPLES_PER_BYTE, Head, damaged

if TYPE_CHECKING:
    from elmfield.codec.lossy import RateCurve

__all__ = [
    "MAX_SAMPLES_PER_BYTE",
    "has_coarse",
    "pack",
    "pack_decoded",
    "rate_curve",
    "unpack",
    "unpack_many",
]

Values = NDArray[np.generic]

MAX_SAMPLES_PER_BYTE = max(SAMPLES_PER_BYTE)
PART_SAMPLES, MAX_PARTS, PART_MULTIPLE = 1 << 18, 16, 16
"""Samples of a part of a large array, at least, parts at most, of which there is an even number,
and what parts are multiples of. With the least effort parts are twice as long: read a third faster,
in 4 % more bytes (ERA5 within 0.1 K)."""
np.empty(1 << 24, np.uint8)  # never touched
# The C library of Linux hands freed memory back to the system beyond twice the largest block that
# was freed before. Arrays of a tile are smaller than this one: their memory is used again, else a
# fifth of the time of coding without loss goes to fresh pages (25 of 98 ms for ERA5).
WITHOUT_NAN_WARNINGS = np.errstate(invalid="ignore")
"""NaN of other bits than usual may be signalling ones, which NumPy warns of."""


def pack(
    values: Values,
    *,
    step: float | None = None,
    max_error: float | None = None,
    channel_axis: int | None = None,
    effort: int = USUAL_EFFORT,
) -> bytes:
    """Return the bytes of one tile: an array of one to four axes, besides channels.

    Parameters
    ----------
    values : array
        Samples. NaN are gaps and come back as NaN.
    step : float, optional
        Code with loss: modes of boxes are rounded to about this step. The mean squared error is
        ``step² / 12`` where everything is rounded, and less where there is little to round.
    max_error : float, optional
        Code with loss, but no sample comes back more than this off, in its dtype.
    channel_axis : int, optional
        An axis along which samples are different quantities at one place: colours, bands.
    effort : int
        From 1, fast, to 9, small; coding without loss has one effort.

    Notes
    -----
    Without `step` and `max_error` the array comes back bit for bit. With them it may too: where
    that takes fewer bytes, and where samples are bools, infinite, or integers beyond 2^53.
    """
    asked = {"step": step, "max_error": max_error}
    return pack_decoded([values], channel_axis=channel_axis, effort=effort, **asked)[0][0]


@WITHOUT_NAN_WARNINGS
def pack_decoded(
    tiles: Sequence[Values],
    *,
    step: float | None = None,
    max_error: float | None = None,
    channel_axis: int | None = None,
    effort: int = USUAL_EFFORT,
) -> list[tuple[bytes, Values]]:
    """Return the bytes of several tiles, and what :func:`unpack` will make of each.

    The second is the coder's own reconstruction: nothing is decoded to know it.
    """
    if step is not None and max_error is not None:
        raise ValueError("Give `step` or `max_error`, not both.")
    check_effort(effort)
    arrays = [np.asarray(values) for values in tiles]
    is_cut = len(arrays) == 1 and step is None
    axis, ends = _cut(arrays[0], channel_axis, effort) if is_cut else (0, [])
    work = partial(
        _pack_part, step=step, max_error=max_error, channel_axis=channel_axis, effort=effort
    )
    if not ends:
        return list(map(work, arrays))
    made = spread(work, np.split(arrays[0], ends, axis))
    whole = np.concatenate([values for _, values in made], axis)
    data = join_parts(Head.of(whole, channel_axis), axis, [data for data, _ in made])
    return [(data, whole)]


@small_products()
@WITHOUT_NAN_WARNINGS  # threads have settings of their own
def _pack_part(
    values: Values,
    step: float | None,
    max_error: float | None,
    channel_axis: int | None,
    effort: int,
) -> tuple[bytes, Values]:
    """Return the bytes of an array that is not cut, and what they are decoded to."""
    tolerance = max_error if step is None else step
    good = tolerance is not None and 0 < tolerance < math.inf
    if tolerance is None or values.size == 0 or (good and _takes_no_loss(values)):
        from elmfield.codec import lossless

        return lossless.pack(values, channel_axis), values
    from elmfield.codec import lossy

    pack = lossy.pack_bounded if step is None else lossy.pack_step
    return pack(values, tolerance, channel_axis, effort)


def _cut(values: Values, channel_axis: int | None, effort: int) -> tuple[int, list[int]]:
    """Return where a large array is cut into parts, and along which axis: for threads side by side.

    It is the first of the long axes, so that rows of samples stay long.
    """
    n, least = max(values.shape, default=0), PART_SAMPLES << (effort == 1)
    if values.size < 2 * least or _is_one_number(values):  # each part has a head
        return 0, []
    axis = next(k for k, m in enumerate(values.shape) if 2 * m >= n)
    if channel_axis is not None and axis == channel_axis % values.ndim:
        return 0, []
    count = min(MAX_PARTS, 2 * round(values.size / least / 2))
    each = -(-values.shape[axis] // count // PART_MULTIPLE) * PART_MULTIPLE
    return axis, [*range(each, values.shape[axis], each)]


def join_parts(head: Head, axis: int, parts: Sequence[bytes]) -> bytes:
    """Return the tile of an array that was cut along an axis into tiles of its own."""
    out = head.writer(PARTS)
    out.data.append(axis)
    out.number(len(parts))
    for part in parts:
        out.number(len(part))
    return bytes(out.data) + b"".join(parts)


def _is_one_number(values: Values) -> bool:
    return bool(values.flat[0] == values.flat[-1]) and bool((values == values.flat[0]).all())


def _takes_no_loss(values: Values) -> bool:
    """Whether samples are coded without loss whatever is asked.

    All are one number, or NaN, which costs a few bytes; or there are bools, infinities, or integers
    that float64 does not hold.
    """
    if _is_one_number(values):
        return True
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind in "iu" and size == 8:
        return bool((np.abs(values.astype(np.float64)) > 2.0**53).any())
    if kind == "f":
        return bool(np.isinf(values).any()) or bool(np.isnan(values).all())
    return kind == "b"


def unpack(data: bytes, *, coarse: int = 0) -> Values:
    """Return the array of a tile; StoreError where the bytes are damaged.

    Parameters
    ----------
    coarse : int
        Return a picture 2^coarse times smaller along every axis but that of channels, from means.
        Only a tile that was coded in boxes has one. Where its boxes are no larger than that (up to
        64 samples) and all of them whole, the first part of its bytes is enough; else it is
        decoded.
    """
    if coarse and not has_coarse(data):
        raise ValueError("A tile packed without loss has no coarse picture; use coarse=0.")
    return unpack_many([data], coarse=coarse)[0]


def unpack_many(tiles: Sequence[bytes], *, coarse: int = 0) -> list[Values]:
    """Return the arrays of several tiles."""
    return spread(partial(_unpack_one, coarse=coarse), [bytes(tile) for tile in tiles])


@small_products()
def _unpack_one(data: bytes, coarse: int) -> Values:
    """Return the array of one tile."""
    if kind_of(data) == PARTS:
        return _read_parts(data)
    if kind_of(data) in (LOSSY, INTERPOLATED):
        from elmfield.codec import lossy

        return lossy.unpack(data, coarse=coarse)
    from elmfield.codec import lossless

    return lossless.unpack(data)


def _read_parts(data: bytes) -> Values:
    """Return the array of a tile of parts."""
    head, reader = Head.read(data, PARTS)
    axis, n = reader.take(1)[0], reader.number()
    if n > len(data):
        raise damaged("has impossible parts")
    sizes = [reader.number() for _ in range(n)]
    parts = [reader.take(size) for size in sizes]
    if reader.rest() or axis >= len(head.shape) or PARTS in map(kind_of, parts):
        raise damaged("has impossible parts")
    found = unpack_many(parts)
    shapes = {(*v.shape[:axis], *v.shape[axis + 1 :], v.ndim, v.dtype.str) for v in found}
    is_one = len(shapes) == 1 and found[0].ndim == len(head.shape)
    whole = np.concatenate(found, axis) if is_one else None
    if whole is None or whole.shape != head.shape or whole.dtype != head.dtype:
        raise damaged("has parts that do not fit")
    return whole


def kind_of(data: bytes) -> int:
    """Return the kind of a tile, -1 for no tile."""
    return data[2] if len(data) > 2 else -1


def has_coarse(data: bytes) -> bool:
    """Whether a tile begins with a coarse picture, as those that were coded in boxes do."""
    return kind_of(data) == LOSSY


@WITHOUT_NAN_WARNINGS
def rate_curve(
    tiles: Sequence[Values], channel_axis: int | None = None, effort: int = USUAL_EFFORT
) -> "RateCurve":
    """Return what coding tiles would cost and lose at any step."""
    from elmfield.codec import lossy

    return lossy.RateCurve(tiles, channel_axis, effort)
