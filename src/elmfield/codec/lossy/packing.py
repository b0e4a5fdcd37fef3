"""Arrays to tiles with loss, to a step."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmfield._array import running
from elmfield._array.checks import USUAL_EFFORT, positive
from elmfield._array.running import small_products, spread
from elmfield.codec import lossless
from elmfield.codec.container import LOSSY, Head, fill_up
from elmfield.codec.lossless.numbers import round_as_good
from elmfield.codec.lossy import deblock, lossy_tile, sections, transform
from elmfield.codec.lossy.contexts import load_prior
from elmfield.codec.lossy.lossy_tile import BOUNDED, GAPS, ROTATED, SMOOTHED, Mask, Values
from elmfield.codec.lossy.sections import BIT_PRICE
from elmfield.codec.lossy.transform import LARGEST, UNIT, Floats

SINGLE_STEPS = 4096.0
"""Samples of fewer steps are prepared in single precision: modes are then good to 0.02 steps."""
SIZES = {1: (128, 64, 32, 16), 2: (64, 32, 16, 8), 3: (32, 16, 8, 4), 4: (8, 4)}
"""Sizes of boxes by axes; a tile has boxes of one size."""
SMOOTHING_EFFORT, SIZES_EFFORT = 3, 7
"""Efforts from which on decoded samples are smoothed, and sizes near the one that a rough price
prefers are tried too. To mix sizes within a tile saved 0 to 0.6 % of the bytes on five pieces of
weather and the Blue Marble, 1.9 % on a sixth, at PSNRs within 0.1 dB: it was left out."""

LOOPS_SHARE = 16
"""A sample in boxes saves this part of what one without loss saves by compiled loops: to import
them takes 0.5 s, as long as NumPy codes a million samples."""
CHOICE_SAMPLES = 1 << 16
"""Samples, about, from which the largest size of boxes is chosen."""
LATTICE_BITS = 2.1
"""Bits a sample in boxes from which a lattice may need fewer. Of eleven pictures (the first half)
at five qualities it did in nine cases, all of them above."""
FILL_SWEEPS = 6

S = TypeVar("S", bound=np.generic)
Coded = tuple[bytes, Values]
"""The bytes of a tile, and the array that they are decoded to."""


def check_array(values: Values, channel_axis: int | None) -> Head:
    """Return the head of an array that can be coded with loss."""
    if values.dtype.kind not in "iuf":
        raise ValueError(
            f"A step or a largest error needs integers or floats; got dtype {values.dtype}. "
            "Leave them out to pack without loss."
        )
    head = Head.of(values, channel_axis)
    if values.ndim == (head.channel is not None):
        raise ValueError(f"A tile has one to four axes besides channels; got shape {values.shape}.")
    return head


@dataclass
class PreparedTile:
    """A tile before its step is chosen."""

    head: Head
    x: Floats  # (C, n...), gaps filled
    missing: Mask | None
    offset: float

    @classmethod
    def of(cls, values: Values, head: Head) -> "PreparedTile":
        """Return an array whose gaps are filled."""
        v = head.arrange(values)
        x = v.astype(np.float64)
        missing = np.isnan(x) if x.size and math.isnan(x.min()) else None
        known = x if missing is None else x[~missing]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
        offset = low / 2 + high / 2
        if missing is not None:
            x = fill_gaps(np.where(missing, 0.0, x), (~missing).astype(np.float64))
        return cls(head, x, missing, offset)

    def in_steps(self, step: float) -> Floats:
        """Return samples less their offset, in steps; in single precision where these are few."""
        x = self.x - self.offset
        x /= step
        top = max(float(x.max(initial=0.0)), -float(x.min(initial=0.0)))
        dtype: Any = np.float32 if top < SINGLE_STEPS else np.float64
        return x.astype(dtype)

    def take_pieces(self, most: int) -> "PreparedTile":
        """Return pieces far apart along each long axis, about so many samples in all."""
        missing, unit = self.missing, SIZES[self.x.ndim - 1][0]
        x = take_pieces(self.x, most, 2 * unit, unit)
        missing = None if missing is None else take_pieces(missing, most, 2 * unit, unit)
        return PreparedTile(Head(self.head.dtype, x.shape, 0), x, missing, self.offset)

    def missing_bytes(self) -> bytes:
        """Return the gaps: of all channels together where they are the same."""
        assert self.missing is not None
        same = bool((self.missing == self.missing[:1]).all())
        mask = self.missing[:1] if same else self.missing
        return bytes([same]) + lossless.pack(np.ascontiguousarray(mask), 0)


def take_pieces(x: NDArray[S], most: int, piece: int, unit: int) -> NDArray[S]:
    """Return pieces of samples (C, n...), far apart along each long axis, about so many in all.

    They are `piece` samples long, and begin at multiples of `unit`.
    """
    side = (most / x.shape[0]) ** (1 / (x.ndim - 1))
    count = max(1, round(side / piece))
    for k, n in enumerate(x.shape[1:], 1):
        if count * piece < n:
            apart = np.linspace(0, n - piece, 2 * count + 1)[1::2]
            starts = (apart / unit).astype(int) * unit
            x = x.take((starts[:, None] + np.arange(piece)).ravel(), axis=k)
    return x


def rank_sizes(x: Floats) -> list[int]:
    """Return sizes of boxes for samples in steps, the best by a rough price first.

    No size where whole numbers would be too large.
    """
    d = x.ndim - 1
    top = float(np.abs(x).max(initial=0.0)) + 2
    if not math.isfinite(top):
        return []
    # A box much longer than an axis would hold more of what fills it up than of samples.
    least = min(x.shape[1:])
    sizes = [B for B in SIZES[d] if 2 * least > B or SIZES[d][-1] == B]
    room = LARGEST / (top * UNIT * x.shape[0] ** 0.5)
    fitting = [
        B
        for B in sizes
        if B ** (d / 2) * (2 * B) ** ((d - 1) / 2) * 2 < room or sections.fits(x, B)
    ]
    if len(fitting) < 2:
        return fitting
    some = _take_some_boxes(x, fitting[0])
    prices = {B: sections.rough_price(some, B, j) for j, B in enumerate(fitting)}
    return sorted(fitting, key=prices.__getitem__)


def _take_some_boxes(x: Floats, B: int) -> Floats:
    """Return every so many boxes of the first axis of samples (C, n...)."""
    n = x.shape[1] // B
    every = min(n, x.size // CHOICE_SAMPLES)
    if every < 2:
        return x
    rows = np.arange(0, n - every // 2, every)[:, None] * B + (every // 2 * B + np.arange(B))
    return np.asarray(x.take(rows.ravel(), axis=1))


def pack_step(values: Values, step: float, channel_axis: int | None, effort: int) -> Coded:
    """Return a tile whose errors are those of a step.

    Notes
    -----
    Where a lattice with the same mean squared error takes fewer bytes, that is done; and where the
    step is so small that packing without loss does.
    """
    tile = PreparedTile.of(values, check_array(values, channel_axis))
    found = code_tile(tile, positive("step", step), effort)
    if found is None:
        return choose_smaller(None, values, channel_axis)
    made = found.bytes(), found.decoded()
    if 8 * len(made[0]) > LATTICE_BITS * values.size:
        made = fewer_bytes(made, found.pack_on_lattice())
    return choose_smaller(made, values, channel_axis)


def fewer_bytes(one: Coded, other: Coded | None) -> Coded:
    """Return the tile of fewer bytes, the first of two alike."""
    return one if other is None or len(one[0]) <= len(other[0]) else other


@dataclass
class BoxCodedTile:
    """A tile that was coded with a step."""

    tile: PreparedTile
    step: float
    B: int
    matrix: Floats | None
    gains: NDArray[np.uint8] | None
    sections: list[bytes]
    whole: Floats  # what a decoder finds, (C, n...)

    def decoded(self, whole: Floats | None = None) -> Values:
        """Return the array of the tile as a decoder finds it, or that of other whole numbers."""
        tile, whole = self.tile, self.whole if whole is None else whole
        return lossy_tile.finish_samples(whole, tile.offset, self.step, tile.head, tile.missing)

    def squares(self) -> Floats:
        """Return squared errors of what a decoder finds, where there is no gap."""
        tile = self.tile
        squares = (tile.head.arrange(self.decoded()).astype(np.float64) - tile.x) ** 2
        return squares if tile.missing is None else np.asarray(squares[~tile.missing])

    def pack_on_lattice(self) -> Coded | None:
        """Return the tile on a lattice that is as good, without loss; None if there is none."""
        x, gone, head = self.tile.x, self.tile.missing, self.tile.head
        squares = self.squares()
        if not squares.any():
            return None
        found = round_as_good(x, float(squares.mean()), head.dtype)
        if found is None:
            return None
        values, on = found
        if gone is not None:
            values[gone] = np.nan
        decoded = head.restore(values)
        return lossless.pack(decoded, head.channel, on), decoded

    def bytes(self, unit: int = 0, corrections: bytes = b"") -> bytes:
        """Return the tile's bytes."""
        out, gaps = self.tile.head.writer(LOSSY), self.tile.missing is not None
        flags = GAPS * gaps + ROTATED * (self.matrix is not None) + BOUNDED * (unit > 0)
        flags += SMOOTHED * (self.gains is not None)
        out.data += bytes([flags, self.B.bit_length() - 1])
        out.float(self.tile.offset)
        out.float(self.step)
        if self.matrix is not None:
            out.data += self.matrix.astype("<i2").tobytes()
        if self.gains is not None:
            out.data += self.gains.tobytes()
        parts = list(self.sections)
        if gaps:
            parts.insert(0, self.tile.missing_bytes())
        if unit:
            out.number(unit)
            parts.append(corrections)
        for part in parts:
            out.number(len(part))
        return fill_up(bytes(out.data) + b"".join(parts), self.whole.size, LOSSY)


@small_products()
def code_tile(tile: PreparedTile, step: float, effort: int = USUAL_EFFORT) -> BoxCodedTile | None:
    """Return the tile coded with a step; None where the step is too small for this."""
    running.pays(tile.x.size // LOOPS_SHARE)
    if step / UNIT < np.finfo(np.float64).tiny:
        return None
    x = tile.in_steps(step)
    tried = rank_sizes(x)[: 2 if effort >= SIZES_EFFORT else 1]
    M = transform.find_rotation(x) if tried else None
    x = transform.separate_channels(x, M)
    done = [one for B in tried if (one := _code_boxes(tile, step, effort, x, B, M)) is not None]
    if len(done) < 2:
        return done[0] if done else None
    price = 8 * BIT_PRICE * step**2  # of a byte
    return min(done, key=lambda one: one.squares().sum() + price * sum(map(len, one.sections)))


def _code_boxes(
    tile: PreparedTile, step: float, effort: int, x: Floats, B: int, M: Floats | None
) -> BoxCodedTile | None:
    """Return a tile coded in boxes of one size; None where whole numbers would be too large."""
    try:
        coded, y = sections.write_boxes(x, B)
    except OverflowError:
        return None
    gains = None
    if effort >= SMOOTHING_EFFORT:
        worth = 8 * BIT_PRICE * UNIT**2
        weights = load_prior(x.ndim - 1).smoothing
        gains, y = deblock.choose_gains(x, y, B, weights, worth)
    return BoxCodedTile(tile, step, B, M, gains, coded, transform.mix_channels(y, M))


def choose_smaller(made: Coded | None, values: Values, channel_axis: int | None) -> Coded:
    """Return the tile, or the one without loss where its bytes are fewer."""
    # without loss costs time too: only tried where it could win
    if made is not None and 8 * len(made[0]) < 0.4 * values.nbytes * 8:
        return made
    return fewer_bytes((lossless.pack(values, channel_axis), values), made)


# --- what steps cost and lose ---------------------------------------------------------------------

CURVE_BOX = {1: 64, 2: 16, 3: 8, 4: 4}
"""Size of the boxes, by axes, whose modes a curve is read off."""
CURVE_BINS = 8
"""Magnitudes of modes are counted by so many parts of an octave."""
ZEROED = 0.62
"""Modes below this part of a step become 0, about."""
CURVE_SAMPLES = 1 << 21
"""Samples, about, that a curve is read off: single boxes from all over the tiles."""
CALIBRATION_SAMPLES, CALIBRATION_TILES = 1 << 17, 8
"""Samples, about, that are coded to see how far a curve is off, at least a piece of each of so many
tiles."""


class RateCurve:
    """Mean squared error and bits a sample of tiles at any step, about, from one transform.

    A mode below a threshold is lost, others are off by ``step² / 12`` and cost about the logarithm
    of their size in steps. :meth:`calibrate` codes pieces of the tiles, and corrects both by what
    comes out.
    """

    def __init__(
        self, tiles: Sequence[Values], channel_axis: int | None = None, effort: int = USUAL_EFFORT
    ) -> None:
        self._tiles, self._channel, self._effort = tiles, channel_axis, effort
        pieces = self._prepare(tiles, CURVE_SAMPLES, CURVE_BOX)
        self._sizes = np.array([tile.x.size for tile in pieces])
        self._modes = np.stack(spread(self._count_modes, pieces))
        self._known = self._sizes.sum(), self._modes.sum(axis=0)
        self._off = np.ones(2)

    def part(self, numbers: Sequence[int]) -> "RateCurve":
        """Return the curve of some of the tiles, by their places; of all if there are none."""
        found = copy(self)
        if len(numbers):
            some = list(numbers)
            found._known = self._sizes[some].sum(), self._modes[some].sum(axis=0)
        return found

    def _prepare(
        self, tiles: Sequence[Values], most: int, pieces: dict[int, int]
    ) -> list["PreparedTile"]:
        """Return pieces of all tiles, about so many samples together, on all threads."""

        def prepare(values: Values) -> PreparedTile:
            head = check_array(values, self._channel)
            x = head.arrange(values)
            d = x.ndim - 1
            x = take_pieces(x, most // len(tiles), pieces[d], min(pieces[d], SIZES[d][0]))
            return PreparedTile.of(x, Head.of(x, 0))

        return spread(prepare, tiles)

    @staticmethod
    @small_products()
    def _count_modes(tile: "PreparedTile") -> Floats:
        """Return the modes of a tile, and their squares, by magnitude."""
        step = float(np.abs(tile.x - tile.offset).max(initial=0.0)) / SINGLE_STEPS or 1.0
        x = tile.in_steps(step)
        M = transform.find_rotation(x)
        x = x if M is None else transform.separate_channels(x, M).astype(np.float32)
        B, n = CURVE_BOX[x.ndim - 1], 2200 * CURVE_BINS
        X = np.abs(transform.find_modes(x, B).ravel())
        X = X[X > 2.0**-20]
        places = np.floor((np.log2(X) + (math.log2(step) + 1100)) * CURVE_BINS)
        places = np.clip(places, 0, n - 1).astype(np.intp)
        squares = np.bincount(places, X.astype(np.float64) ** 2, n) * step**2
        return np.array([np.bincount(places, minlength=n), squares])

    @staticmethod
    def _read(n: int, modes: Floats, step: float) -> Floats:
        """Return error and bits of each of n samples as modes and squares tell them, (2, bins)."""
        counts, squares = modes
        place = (math.log2(ZEROED * step) + 1100) * CURVE_BINS
        if not 1 <= place < len(counts) - 1:
            return np.zeros(2)
        k, part = int(place), place % 1
        lost = squares[:k].sum() + part * squares[k]
        above = counts[k:].copy()
        above[0] *= 1 - part
        large = above.sum()
        octaves = float(above @ (np.arange(len(above)) + 0.5)) / CURVE_BINS
        p = min(max(large / n, 1e-9), 0.5)
        rarity = -p * math.log2(p) - (1 - p) * math.log2(1 - p)
        return np.array([(lost + large * step**2 / 12) / n, (octaves + large) / n + rarity])

    def calibrate(self, step: float) -> None:
        """Code pieces of the tiles with a step, and note what comes out beside the curve."""
        some = self._tiles[:: -(-len(self._tiles) // CALIBRATION_TILES)]
        longest = {d: 2 * sizes[0] for d, sizes in SIZES.items()}
        pieces = self._prepare(some, CALIBRATION_SAMPLES, longest)
        made = spread(lambda piece: code_tile(piece, step, self._effort), pieces)
        n = sum(piece.x.size for piece in pieces)
        about = self._read(n, np.sum(spread(self._count_modes, pieces), axis=0), step)
        done = [m for m in made if m is not None]
        if len(done) < len(made) or not about.all():
            return
        found = [sum(m.squares().sum() for m in done), sum(8 * len(m.bytes()) for m in done)]
        self._off = np.array(found) / n / about

    def error(self, step: float) -> float:
        """Return the mean squared error at a step, about."""
        return float(self._read(*self._known, step)[0] * self._off[0])

    def bits(self, step: float) -> float:
        """Return the bits a sample at a step, about."""
        return float(self._read(*self._known, step)[1] * self._off[1])


# --- gaps: something smooth, so that they cost few bits -------------------------------------------


def fill_gaps(total: Floats, weight: Floats) -> Floats:
    """Return means (C, n...) where there is weight, elsewhere what is coarser; 0 without any.

    From sums, and how many samples each is of.
    """
    known = weight > 0
    value = np.divide(total, weight, out=np.zeros_like(total), where=known)
    if known.all() or max(value.shape[1:]) == 1:
        return value
    guess = fill_gaps(lossy_tile.block_sums(total, 2), lossy_tile.block_sums(weight, 2))
    for k in range(1, value.ndim):
        guess = guess.repeat(2, axis=k).take(np.arange(value.shape[k]), axis=k)
    value = np.where(known, value, guess)
    for _ in range(FILL_SWEEPS):
        value = np.where(known, value, _neighbour_means(value))
    return value


def _neighbour_means(a: Floats) -> Floats:
    """Return means of the neighbours along all axes; ends are repeated."""
    total = np.zeros_like(a)
    for k in range(1, a.ndim):
        for near in transform.neighbours(a, k):
            total += near
    return total / (2 * (a.ndim - 1))
