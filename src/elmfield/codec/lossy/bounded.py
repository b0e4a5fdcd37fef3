"""Arrays to tiles no sample of which comes back further off than a bound.

There are three ways. Floats are interpolated, coarse to fine, and what is left of them rounded to
steps of twice the bound. Where samples are rough, or whole numbers, they are rounded to a lattice
and packed without loss: predicted from their neighbours. Or they are coded with loss, and corrected
where the error is too large: fewer bytes where samples are smooth beside the bound and noisy below
it. That is estimated first.
"""

import math
from dataclasses import dataclass

import numpy as np

from elmfield._array.channel_stats import spacing_at
from elmfield._array.checks import USUAL_EFFORT, positive
from elmfield.codec import lossless
from elmfield.codec.lossless.numbers import round_floats
from elmfield.codec.lossy import packing
from elmfield.codec.lossy.interpolated import pack_interpolated
from elmfield.codec.lossy.lossy_tile import Mask, Values, round_samples
from elmfield.codec.lossy.packing import Coded, PreparedTile
from elmfield.codec.lossy.transform import UNIT, Floats

STEP_RATIO = 2.7
"""The step, in parts of a bound: of 2.1, 2.7, 3.4 and 4.5 the one of fewest bytes, or within 1.5 %
of it, on fields and pictures of the first half at 1e-2 and 1e-3 of the range."""
TRIAL_SAMPLES = 1 << 15, 1 << 17
"""Samples on which the bytes of a tile are estimated, about: usually, and with much effort."""
LARGEST_CORRECTION = (1 << 24) - 1
FAST_EFFORT, EVERY_WAY_EFFORT = 2, 7
"""Efforts up to which one way is tried, and from which on corrections whatever they save."""
INTERPOLATION_MAX_BITS = 1.9
"""Bits a sample by interpolation from which on a lattice may need fewer: prediction from all sides
that are known is better where samples are rough beside the bound. Chosen, as the two below, on
tiles of ERA5 and parts of the Blue Marble, which benchmarks score too."""
WORTH_CORRECTIONS = 0.85
"""Part of the bytes by other ways below which corrections are worth their time, six times as much.
"""
ROUGH_BITS = {1: 1.6, 2: 1.2, 3: 3.2, 4: 3.2}
"""Bits a sample by other ways, by axes, from which on corrections are not even estimated: of
weather at several bounds they saved nothing there."""


@dataclass(frozen=True)
class BoundedTile:
    """A tile, and the bound of its errors."""

    values: Values
    tile: PreparedTile
    bound: float
    half: float  # how far off a sample may be before it is rounded to its dtype

    @classmethod
    def of(cls, values: Values, bound: float, channel_axis: int | None = None) -> "BoundedTile":
        """Return an array and a bound."""
        tile = PreparedTile.of(values, packing.check_array(values, channel_axis))
        return cls(values, tile, bound, _half_width(tile, bound))

    def keeps(self, found: Values) -> bool:
        """Whether values, (C, n...), keep the bound."""
        return not self.misses(found).any()

    def misses(self, found: Values) -> Mask:
        """Return where values, (C, n...), do not keep it."""
        truth = self.tile.head.arrange(self.values).astype(np.float64)
        off = np.abs(truth - found.astype(np.float64)) > self.bound
        if self.tile.missing is not None:
            off &= ~self.tile.missing
        return np.asarray(off)


def pack_bounded(values: Values, max_error: float, channel_axis: int | None, effort: int) -> Coded:
    """Return a tile no sample of which comes back more than `max_error` off, in its dtype."""
    if max_error == 0:
        packing.check_array(values, channel_axis)
        return lossless.pack(values, channel_axis), values
    one = BoundedTile.of(values, positive("max_error", max_error), channel_axis)
    smooth = _interpolate(one, effort)
    best = None if smooth is None else _try_corrections(one, smooth, effort)
    found = _round_to_lattice(one) if _wants_lattice(one, smooth, best, effort) else None
    if found is not None:
        rounded, on = found
        best = packing.fewer_bytes((lossless.pack(rounded, channel_axis, on), rounded), best)
    if smooth is None:  # whole numbers are not interpolated: a lattice is their first way
        best = _try_corrections(one, best, effort)
    return packing.choose_smaller(best, values, channel_axis)


def _interpolate(one: BoundedTile, effort: int) -> Coded | None:
    """Return a tile of floats by interpolation; None where that is not for it.

    Whole numbers are better off on a lattice, and so are samples many of which are 0: it comes back
    as 0.
    """
    x = one.tile.x
    if one.half <= 0 or one.values.dtype.kind != "f" or 32 * np.count_nonzero(x) < 31 * x.size:
        return None
    made = pack_interpolated(one.tile, one.half, effort)
    return made if made is not None and one.keeps(one.tile.head.arrange(made[1])) else None


def _wants_lattice(one: BoundedTile, made: Coded | None, now: Coded | None, effort: int) -> bool:
    """Whether a lattice may take fewer bytes than interpolation, `made`, and what is best by now.

    Where corrections are better than interpolation, samples are noisy below the bound: a lattice
    is not.
    """
    if made is None:
        return True
    if effort <= FAST_EFFORT or (now is not made and effort < EVERY_WAY_EFFORT):
        return False
    return 8 * len(made[0]) > INTERPOLATION_MAX_BITS * one.values.size


def _try_corrections(one: BoundedTile, made: Coded | None, effort: int) -> Coded | None:
    """Return the tile with corrections where these are thought to take fewer bytes, and do.

    `made` is the tile by another way, if there is one.
    """
    if one.half <= 0:
        return made
    if made is not None:
        n, hard = one.values.size, effort >= EVERY_WAY_EFFORT
        bits = 8 * len(made[0]) / n
        if effort <= FAST_EFFORT or (bits > ROUGH_BITS[one.tile.x.ndim - 1] and not hard):
            return made
        guess = _estimate_bits(one, TRIAL_SAMPLES[hard])
        if guess is None or guess >= bits * (1.0 if hard else WORTH_CORRECTIONS):
            return made
    other = pack_corrected(one, effort)
    return other if made is None else packing.fewer_bytes(made, other)


def _half_width(tile: PreparedTile, bound: float) -> float:
    """Return how far off a sample may be before it is rounded to its dtype."""
    dtype = tile.head.dtype
    if dtype.kind in "iu":
        return math.floor(bound) + 0.5
    top = min(float(np.abs(tile.x).max(initial=0.0)) + bound, float(np.finfo(dtype).max))
    return bound - float(spacing_at(np.asarray(top, dtype))) / 2


# --- a lattice ------------------------------------------------------------------------------------


def _round_to_lattice(one: BoundedTile) -> tuple[Values, tuple[float, float] | None] | None:
    """Return values rounded to a lattice, and its offset and step (None for whole numbers).

    None where that cannot keep the bound. A lattice of floats goes through 0, which comes back
    as 0; one of whole numbers stays between the least and the largest.
    """
    x, dtype = one.tile.x, one.tile.head.dtype
    if dtype.kind in "iu":
        low, high = int(x.min()), int(x.max())
        unit = min(2 * math.floor(one.half) + 1, high - low + 1)
        n = (high - low) // unit
        first = low + (high - low - n * unit) // 2
        k = np.clip(np.rint((x - first) / unit), 0, n).astype(np.int64)
        found: Values = (first + unit * k).astype(dtype)
        return (one.tile.head.restore(found), None) if one.keeps(found) else None
    placed = round_floats(x, 2 * one.half * (1 - 2.0**-30), dtype)
    if placed is None or not one.keeps(placed[0]):
        return None
    found, on = placed
    if one.tile.missing is not None:
        found[one.tile.missing] = np.nan
    return one.tile.head.restore(found), on


# --- corrections ----------------------------------------------------------------------------------


def _estimate_bits(one: BoundedTile, most: int) -> float | None:
    """Return about the bits a sample of the tile with corrections: those of a part of it.

    The part may be rougher than the tile, or smoother: bits follow mean logarithms of differences.
    None where it cannot be coded so.
    """
    some = one.tile.take_pieces(most)
    values = some.x.astype(some.head.dtype)
    found = _correct(BoundedTile(values, some, one.bound, one.half), FAST_EFFORT)
    if found is None:
        return None
    made, c, unit = found
    p, more = min(max(np.count_nonzero(c) / c.size, 1e-9), 0.5), 1.0
    rarity = -p * math.log2(p) - (1 - p) * math.log2(1 - p) + p  # as if corrections came at random
    if some.x.size < one.tile.x.size:
        rough = (one.tile.x / (2 * one.half)).astype(np.float32)
        for k in range(1, rough.ndim):
            rough = np.diff(rough, axis=k, append=rough.take([-1], axis=k))
        rough = np.log2(1 + np.abs(rough))
        part = PreparedTile(one.tile.head, rough, None, 0.0).take_pieces(most).x.mean()
        more = float(rough.mean() / part) if part > 0 else 1.0
    return more * (8 * len(made.bytes(unit)) / some.x.size + rarity)


def pack_corrected(one: BoundedTile, effort: int = USUAL_EFFORT) -> Coded | None:
    """Return the tile with corrections; None where they cannot keep the bound."""
    found = _correct(one, effort)
    if found is None:
        return None
    made, c, unit = found
    corrections = lossless.pack(c.astype(np.int32), 0)
    return made.bytes(unit, corrections), made.decoded(made.whole + unit * c)


def _correct(one: BoundedTile, effort: int) -> tuple[packing.BoxCodedTile, Floats, int] | None:
    """Return the tile in boxes, what corrects it, and their unit; None where that is impossible.

    A correction moves a sample by whole multiples of twice `half`, so the step is a whole part of
    that.
    """
    tile = one.tile
    unit = round(2 * UNIT / STEP_RATIO)
    size = 2 * one.half * (1 - 2.0**-30)
    step = size * UNIT / unit
    made = packing.code_tile(tile, step, effort) if math.isfinite(step) else None
    if made is None:
        return None
    c = np.zeros(made.whole.shape)
    for _ in range(4):
        whole: Floats = made.whole + unit * c
        off = one.misses(round_samples(whole, tile.offset, step, tile.head.dtype))
        if not off.any():
            break
        where = np.nonzero(off)
        exact = tile.offset + whole[where] * (step / UNIT)
        error = tile.x[where] - exact
        c[where] += np.sign(error) * np.maximum(1, np.rint(np.abs(error) / size))
    else:
        return None
    if float(np.abs(c).max(initial=0)) > LARGEST_CORRECTION:
        return None
    return made, c, unit
