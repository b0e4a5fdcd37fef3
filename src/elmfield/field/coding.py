"""Targets met by coding: the samples, with one step for all, and the function of what comes out.

Enter a function of samples and what is asked of it; leaves the function of coded ones, which keep
the promise as they come out again. Its blend is that of a field without a target: no line shows
where cells meet.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.threads import spread
from elmfield._array.typing import Array
from elmfield.codec import trial
from elmfield.field.blended import Blended
from elmfield.field.boxes import missing_in
from elmfield.field.measured import errors
from elmfield.field.steps import TRIES, guessed, nearest
from elmfield.field.target import Target
from elmfield.field.tiles import Coded, Decoded, InMemory, Tiling, packed, without_channels
from elmfield.samples import Samples

LOOKED_AT = 1 << 21
"""Samples that the first guess of a step is made from, about."""

Tiles = tuple[bytes, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Coder:
    """Samples in tiles, to be coded at any step, and the function that they settle.

    Parameters
    ----------
    blended : Blended
        The function of the samples.
    samples : Samples
        What is coded, and what errors are measured against.
    first : tuple of int
        Where on each axis of the array they begin.
    counted : array of bool, shape (..., C or 1), or None
        The samples at which errors count; those that are present by default.
    """

    blended: Blended
    samples: Samples
    first: tuple[int, ...]
    counted: Array | None = field(default=None, repr=False)

    @cached_property
    def own(self) -> Array:
        """The samples on the host, in the dtype that a file keeps."""
        own = np.asarray(to_numpy(self.samples.own))
        return own.astype(self.samples.kind, copy=False)

    @cached_property
    def tiling(self) -> Tiling:
        """Which samples are in which tile."""
        low = (*self.first, 0)
        high = tuple(a + n for a, n in zip(low, self.own.shape))
        return Tiling.by_bytes(low, high, self.own.itemsize)

    def values(self, number: int) -> Array:
        """The samples of a tile, channels last."""
        return self._cut(self.own, self.tiling.slab(number))

    def _cut(self, values: Array, slab: tuple[slice, ...]) -> Array:
        """A slab of the array, as far as `values` reach."""
        return values[tuple(slice(s.start - a, s.stop - a) for s, a in zip(slab, (*self.first, 0)))]

    def pack(self, **asked: float) -> Tiles:
        """All tiles, coded as asked; without loss if nothing is."""
        numbers = range(self.tiling.n_tiles)
        return tuple(spread(lambda i: packed(self.values(i), **asked), numbers))

    @cached_property
    def some(self) -> list[Array]:
        """Tiles from all over the array, for a first guess."""
        n = self.tiling.n_tiles
        count = min(n, max(1, LOOKED_AT * n // self.own.size))
        return [self.values(int(i)) for i in np.linspace(0, n - 1, count).round()]

    def trial(self, step: float) -> tuple[float, float]:
        """Mean squared error, and bits per sample, at a step, about."""
        found = [trial(v, step, axis) for v, axis in map(without_channels, self.some)]
        n = sum(v.size for v in self.some)
        return sum(e for e, _ in found) / n, sum(b for _, b in found) / n

    def boxes(self, tiles: Tiles, is_lossy: bool) -> Coded:
        """What regions are made from."""
        offset, scale = (np.asarray(to_numpy(u)) for u in (self.samples.offset, self.samples.scale))
        return Coded(
            decoded=Decoded(InMemory(tiles), self.tiling, self.own.dtype),
            offset=offset,
            scale=scale,
            dtype=offset.dtype,
            is_lossy=is_lossy,
            missing=self._missing,
        )

    @cached_property
    def _missing(self) -> Decoded | None:
        """What was missing, in tiles."""
        gone = missing_in(self.samples.present)
        if gone is None:
            return None
        tiling = self.tiling.with_channels(gone.shape[-1])
        tiles = (
            packed(self._cut(gone, tiling.slab(i)).astype("u1")) for i in range(tiling.n_tiles)
        )
        return Decoded(InMemory(tuple(tiles)), tiling, "uint8")

    def made(self, tiles: Tiles, is_lossy: bool = True) -> Blended:
        """The function of the samples in coded tiles."""
        return self.blended.through(self.boxes(tiles, is_lossy))

    def errors(self, made: Blended) -> tuple[float, float]:
        """Mean squared and largest error of a function at the samples."""
        return errors(self.samples, made, self.first, self.counted)

    @property
    def least_step(self) -> float:
        """Below this nothing is gained over coding without loss."""
        if self.own.dtype.kind in "iu":
            return 1.0
        return float(np.finfo(self.own.dtype).eps) * self.samples.data_range / 4


def by_coding(
    blended: Blended,
    samples: Samples,
    target: Target,
    first: Sequence[int] | None = None,
    counted: Array | None = None,
) -> Blended:
    """The function of coded samples that meet a target; parameters are those of `Coder`.

    Raises
    ------
    ValueError
        If the target cannot be met; the message says what can.
    """
    low = (0,) * (samples.raw.ndim - 1) if first is None else tuple(first)
    coder = Coder(blended=blended, samples=samples, first=low, counted=counted)
    if target.kind == "max_error":
        return _within(coder, target.value)
    if target.kind == "psnr":
        return _at_psnr(coder, target.value)
    return _in_bytes(coder, target)


def _at_psnr(coder: Coder, psnr: float) -> Blended:
    """As few bytes as a PSNR needs."""
    allowed = coder.samples.data_range**2 * 10 ** (-psnr / 10)
    parts = 2 if coder.samples.is_complex else 1  # errors are moduli, of two parts

    def guess(step: float) -> float:
        return parts * coder.trial(step)[0] / allowed

    def at(step: float) -> tuple[Blended, float]:
        made = coder.made(coder.pack(step=step))
        return made, coder.errors(made)[0] / allowed

    start = guessed(guess, math.sqrt(12 * allowed / parts), 2.0)
    found = nearest(at, start, 2.0, coder.least_step)
    return found or _without_loss(coder, "psnr", psnr, lambda e: e[0] <= allowed)


def _within(coder: Coder, largest: float) -> Blended:
    """As few bytes as a largest error needs."""
    _check_whole(coder.samples, largest)
    allowed = largest / math.sqrt(2) if coder.samples.is_complex else largest
    bound = allowed
    for _ in range(TRIES):
        if bound <= 0:
            break
        made = coder.made(coder.pack(max_error=bound))
        found = coder.errors(made)[1]
        if found <= largest:
            return made
        # Evaluating the function rounds too: by that much less is asked of the samples.
        bound -= 1.25 * (found - largest) + 1e-3 * (allowed - bound)
    return _without_loss(coder, "max_error", largest, lambda e: e[1] <= largest)


def _in_bytes(coder: Coder, target: Target) -> Blended:
    """As little error as a number of bytes allows."""
    n = coder.own.size
    room = target.value * n / 8 if target.kind == "bits" else float(target.value)

    def guess(step: float) -> float:
        return coder.trial(step)[1] * float(n) / 8 / room

    def at(step: float) -> tuple[Tiles, float]:
        tiles = coder.pack(step=step)
        return tiles, sum(map(len, tiles)) / room

    if room > coder.own.nbytes / 4:  # that may be enough for all there is
        exact = coder.pack()
        if sum(map(len, exact)) <= room:
            return coder.made(exact, is_lossy=False)
    start = guessed(guess, coder.samples.data_range / 16, -1.0)
    found = nearest(at, start, -1.0, coder.least_step)
    if found is None:
        least = sum(map(len, coder.pack(step=4 * coder.samples.data_range)))
        raise ValueError(
            f"`{target.kind}` cannot be kept: coded as coarsely as can be, these samples take "
            f"{least} bytes, {8 * least / n:.3g} bits each; got {target.value:g}. Ask for more."
        )
    return coder.made(found)


def _without_loss(
    coder: Coder, kind: str, value: float, keeps: Callable[[tuple[float, float]], bool]
) -> Blended:
    """The function of all there is, where even its rounding keeps a promise; else an error."""
    made = coder.made(coder.pack(), is_lossy=False)
    mean, largest = coder.errors(made)
    if keeps((mean, largest)):
        return made
    dtype = str(made.dtype).removeprefix("torch.")
    advice = "" if dtype == "float64" else ", or fit float64 samples"
    if kind == "max_error":
        raise ValueError(
            f"`max_error` cannot be kept: with all digits the largest error at the samples is "
            f"{largest:.2g} in {dtype}; got {value:g}. Ask for more than that{advice}."
        )
    limit = 10 * math.log10(coder.samples.data_range**2 / mean)
    raise ValueError(
        f"`psnr` cannot be reached: with all digits this field has {limit:.1f} dB at the samples "
        f"in {dtype}; got {value:g}. Ask for less{advice}."
    )


def _check_whole(samples: Samples, largest: float) -> None:
    """Raise where whole numbers lost more than the bound when they became floating."""
    if samples.dtype not in ("int64", "uint64"):
        return
    top = float(np.max(np.abs(to_numpy(samples.raw))))
    if top >= 2.0**53 and largest < np.spacing(top):
        raise ValueError(
            f"`max_error` cannot be kept: whole numbers up to {top:.3g} are computed with as "
            f"float64, which rounds them by {np.spacing(top) / 2:g}; got {largest:g}. Take an "
            "offset off them first, or ask for more."
        )
