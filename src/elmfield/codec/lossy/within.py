"""Arrays to tiles no sample of which comes back further off than promised.

There are two ways. Values are rounded to a lattice whose step is twice the bound, and packed
without loss: predicted from their neighbours. Or they are coded with loss, and corrected where the
error is too large: fewer bytes where samples are smooth beside the bound. That is estimated first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

from elmfield._array.ends import spacing_at
from elmfield.codec import lossless
from elmfield.codec.lossy import bounds, lattice
from elmfield.codec.lossy.boxes import FRACTION, Floats
from elmfield.codec.lossy.packing import SIZES, Prepared, checked, coded, positive, smaller
from elmfield.codec.lossy.tiles import Frame, Values, rounded

RATIO = 2.7
"""The step, in parts of a bound: of 2.1, 2.7, 3.4 and 4.5 the one of fewest bytes, or within 1.5 %
of it, on fields and pictures of the first half at 1e-2 and 1e-3 of the range."""
TRIED = 1 << 17
"""Samples on which the bytes of a tile are estimated, about."""
FEW_BITS = 0.5
"""Bits a sample, with corrections, below which no lattice is tried."""


@dataclass(frozen=True)
class Asked:
    """A tile, and what is promised of it."""

    values: Values
    tile: Prepared
    bound: float
    half: float  # how far off a sample may be before it is rounded to its dtype

    @classmethod
    def of(cls, values: Values, bound: float, channel_axis: int | None = None) -> "Asked":
        """An array and a bound."""
        tile = Prepared.of(values, checked(values, channel_axis))
        return cls(values, tile, bound, _half(tile, bound))

    def keeps(self, found: Values) -> bool:
        """Whether values, (C, n...), keep the promise."""
        return not self.off(found).any()

    def off(self, found: Values) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Where values, (C, n...), do not keep it."""
        truth = self.tile.frame.first(self.values).astype(np.float64)
        off = np.abs(truth - found.astype(np.float64)) > self.bound
        if self.tile.missing is not None:
            off &= ~self.tile.missing
        return np.asarray(off)


def pack_bounded(
    tiles: Sequence[Values], max_error: float, channel_axis: int | None = None
) -> list[bytes]:
    """Bytes of tiles no sample of which comes back more than `max_error` off, in its dtype."""
    if max_error == 0:
        for values in tiles:
            checked(values, channel_axis)
        return lossless.pack_many(tiles, channel_axis=channel_axis)
    bound = positive("max_error", max_error)
    asked = [Asked.of(values, bound, channel_axis) for values in tiles]
    guesses = [_guessed(one) if one.half > 0 else None for one in asked]
    out: list[bytes | None] = [None] * len(asked)
    rough = [i for i, g in enumerate(guesses) if g is None or g >= FEW_BITS]
    places = [_on_lattice(asked[i]) for i in rough]
    some = [(i, *found) for i, found in zip(rough, places) if found is not None]
    packed = lossless.pack_many(
        [values for _, values, _ in some],
        channel_axis=channel_axis,
        lattices=[on for *_, on in some],
    )
    for (i, *_), data in zip(some, packed):
        out[i] = data
    return [
        smaller(_fewer(one, guess, data), one.values, channel_axis)
        for one, guess, data in zip(asked, guesses, out)
    ]


def _fewer(one: Asked, guess: float | None, data: bytes | None) -> bytes | None:
    """The tile with corrections where these are thought to take fewer bytes, and do."""
    if guess is None or (data is not None and guess * one.values.size >= 8 * len(data)):
        return data
    other = corrected(one)
    if data is None or other is None:
        return other if data is None else data
    return min(data, other, key=len)


def _half(tile: Prepared, bound: float) -> float:
    dtype = tile.frame.dtype
    if dtype.kind in "iu":
        return math.floor(bound) + 0.5
    top = min(float(np.abs(tile.x).max(initial=0.0)) + bound, float(np.finfo(dtype).max))
    return bound - float(spacing_at(np.asarray(top, dtype))) / 2


# --- a lattice ------------------------------------------------------------------------------------


def _on_lattice(one: Asked) -> tuple[Values, tuple[float, float] | None] | None:
    """Values rounded to a lattice, and its offset and step (None for whole numbers).

    None where that cannot keep the promise. A lattice of floats goes through 0, which comes back
    as 0; one of whole numbers stays between the least and the largest.
    """
    x, dtype = one.tile.x, one.tile.frame.dtype
    if dtype.kind in "iu":
        unit = 2 * math.floor(one.half) + 1
        low, high = int(x.min()), int(x.max())
        n = (high - low) // unit
        first = low + (high - low - n * unit) // 2
        k = np.clip(np.rint((x - first) / unit), 0, n).astype(np.int64)
        found: Values = (first + unit * k).astype(dtype)
        return (one.tile.frame.back(found), None) if one.keeps(found) else None
    rounded_ = lattice.floats(x, 2 * one.half * (1 - 2.0**-30), dtype)
    if rounded_ is None or not one.keeps(rounded_[0]):
        return None
    found, on = rounded_
    if one.tile.missing is not None:
        found[one.tile.missing] = np.nan
    return one.tile.frame.back(found), on


# --- corrections ----------------------------------------------------------------------------------


def _guessed(one: Asked) -> float | None:
    """About the bits a sample of the tile with corrections, estimated on a part of it.

    None where it cannot be coded so.
    """
    some = _part(one.tile)
    found = some.priced(RATIO * one.half)
    if found is None:
        return None
    errors, bits = found
    rms = np.sqrt(np.maximum(errors, 1e-3) * (len(errors) / some.x.size)) * RATIO
    often = np.clip(erfc(1 / (rms * math.sqrt(2))), 1e-9, 0.999)
    rest = 1 - often
    corrections = often - often * np.log2(often) - rest * np.log2(rest)
    return float(bits / some.x.size + corrections.mean())


def _part(tile: Prepared) -> Prepared:
    """Pieces far apart along each long axis of a tile, together about `TRIED` samples."""
    x, missing = tile.x, tile.missing
    d = x.ndim - 1
    piece, side = 2 * SIZES[d][0], (TRIED / x.shape[0]) ** (1 / d)
    count = max(1, round(side / piece))
    for k, n in enumerate(x.shape[1:], 1):
        if count * piece < n:
            apart = np.linspace(0, n - piece, 2 * count + 1)[1::2]
            starts = (apart / SIZES[d][0]).astype(int) * SIZES[d][0]
            where = (starts[:, None] + np.arange(piece)).ravel()
            x = x.take(where, axis=k)
            missing = None if missing is None else missing.take(where, axis=k)
    return Prepared(Frame(np.dtype(np.float64), x.shape, 0), x, missing, tile.offset)


def corrected(one: Asked) -> bytes | None:
    """The tile with corrections; None where they cannot keep the promise.

    A correction moves a sample by whole multiples of twice `half`, so the step is a whole part of
    that.
    """
    tile = one.tile
    unit = round(2 * (1 << FRACTION) / RATIO)
    size = 2 * one.half * (1 - 2.0**-30)
    step = size * (1 << FRACTION) / unit
    made = coded(tile, step) if math.isfinite(step) else None
    if made is None:
        return None
    c = np.zeros(made.whole.shape)
    for _ in range(4):
        whole: Floats = made.whole + unit * c
        off = one.off(rounded(whole, tile.offset, step, tile.frame.dtype))
        if not off.any():
            break
        where = np.nonzero(off)
        exact = tile.offset + whole[where] * (step / (1 << FRACTION))
        error = tile.x[where] - exact
        c[where] += np.sign(error) * np.maximum(1, np.rint(np.abs(error) / size))
    else:
        return None
    if float(np.abs(c).max(initial=0)) > bounds.LARGEST_CORRECTION:
        return None
    corrections = bounds.written(c.astype(np.int64), made.whole.astype(np.int64))
    return made.bytes(unit, corrections)
