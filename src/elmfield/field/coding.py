"""Targets met by coding: the samples, with one step for all, and the function of what comes out.

Enter a function of samples and what is asked of it; leaves the function of coded ones, which keep
the promise as they come out again. Its blend is that of a field without a target: no line shows
where cells meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.memory import runs
from elmfield._array.threads import n_threads, spread
from elmfield._array.typing import Array
from elmfield.codec import trial
from elmfield.field.blended import Blended
from elmfield.field.boxes import missing_in
from elmfield.field.measured import errors
from elmfield.field.meeting import Scope, check_whole, met
from elmfield.field.target import Target
from elmfield.field.tiles import Coded, Decoded, InMemory
from elmfield.field.tiling import TOGETHER, Tiling, packed, packed_many, without_channels
from elmfield.samples import WHOLE, Samples

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
    def top(self) -> float:
        """The largest magnitude of a sample that is present."""
        present = self.samples.present
        sizes = np.abs(np.asarray(to_numpy(self.samples.raw)).astype(np.float64, copy=False))
        if present is not None:
            sizes = np.where(np.asarray(to_numpy(present)), sizes, 0)
        return float(np.max(sizes))

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

    def code(self, **asked: float) -> "Attempt":
        """All tiles, coded as asked; without loss if nothing is."""
        n = self.tiling.n_tiles
        most = max(1, min(TOGETHER, n // n_threads()))
        shares = [range(a, b) for a, b in runs(n, most)]
        made = spread(lambda some: packed_many([self.values(i) for i in some], **asked), shares)
        return Attempt(
            coder=self,
            tiles=tuple(chain.from_iterable(made)),
            is_lossy=bool(asked),
        )

    @cached_property
    def some(self) -> list[Array]:
        """Tiles from all over the array, for a first guess."""
        n = self.tiling.n_tiles
        count = min(n, max(1, LOOKED_AT * n // self.own.size))
        return [self.values(int(i)) for i in np.linspace(0, n - 1, count).round()]

    def trial(self, step: float) -> tuple[float, float]:
        """Mean squared error, and bits per sample, at a step, about."""
        return tried(self.some, step)

    def off(self, step: float) -> tuple[float, float]:
        """How many times that they truly are, about."""
        return off(self.some, step)

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

    @property
    def scope(self) -> Scope:
        """What is coded."""
        return Scope(
            size=self.own.size,
            kind=self.own.dtype.name,
            data_range=self.samples.data_range,
            is_complex=self.samples.is_complex,
            dtype=str(self.blended.dtype).removeprefix("torch."),
            top=self.top,
        )


def tried(tiles: Sequence[Array], step: float) -> tuple[float, float]:
    """Mean squared error, and bits per sample, of tiles at a step, about."""
    found = [trial(v, step, axis) for v, axis in map(without_channels, tiles)]
    n = sum(v.size for v in tiles)
    return sum(e for e, _ in found) / n, sum(b for _, b in found) / n


def off(tiles: Sequence[Array], step: float) -> tuple[float, float]:
    """How many times that they truly are, where the middle one of the tiles is coded."""
    v, axis = without_channels(tiles[len(tiles) // 2])
    about, truly = trial(v, step, axis), trial(v, step, axis, exact=True)
    error, bits = (t / a if a > 0 else 1.0 for a, t in zip(about, truly))
    return error, bits


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt:
    """Coded tiles, and what comes out of them."""

    coder: Coder
    tiles: Tiles = field(repr=False)
    is_lossy: bool

    @property
    def n_bytes(self) -> int:
        """Bytes of all tiles."""
        return sum(map(len, self.tiles))

    @cached_property
    def made(self) -> Blended:
        """The function of the samples in the tiles."""
        return self.coder.blended.through(self.coder.boxes(self.tiles, self.is_lossy))

    @cached_property
    def errors(self) -> tuple[float, float]:
        """Mean squared and largest error of the function at the samples."""
        coder = self.coder
        return errors(coder.samples, self.made, coder.first, coder.counted)


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
    if samples.dtype in WHOLE:
        check_whole(coder.top, target)
    return met(coder, target).made
