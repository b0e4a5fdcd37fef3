"""Targets met by coding the samples in memory.

Enter a function of samples and what is asked of it; leaves the function of coded ones, which keep
the promise as they come out again. Its blend is that of a field without a target: no line shows
where cells meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.channel_stats import ChannelStats
from elmfield._array.typing import Array, Floats
from elmfield.field.accuracy import energy_in_boxes, error_sums, errors
from elmfield.field.blend.blended import Blended
from elmfield.field.coefficients.sample_boxes import SampleBoxes, missing_in
from elmfield.field.coefficients.tiles import CodedTiles, Tiling, code_tiles, pack_tiles
from elmfield.field.rate_control import RateControl, Scope, typical_error
from elmfield.field.step_search import CodedTile, Tiles
from elmfield.samples import Samples
from elmfield.settings import Target


@dataclass(frozen=True, eq=False, kw_only=True)
class TileInMemory(CodedTile):
    """A coded tile, its bytes and what they are decoded to.

    And the squared errors at its samples, channels together, present or not; None without loss.
    """

    data: bytes = field(repr=False)
    decoded: Array = field(repr=False)
    squares: Floats | None = field(default=None, repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Coder(RateControl[TileInMemory]):
    """Samples in tiles, to be coded at any step, and the function that is made from them.

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
        own = np.asarray(to_numpy(self.samples.stored))
        return own.astype(self.samples.kind, copy=False)

    @cached_property
    def _there(self) -> Array | None:
        """Where errors count, on the host; None for all samples."""
        there = self.samples.present if self.counted is None else self.counted
        return None if there is None else np.asarray(to_numpy(there))

    @cached_property
    def tiling(self) -> Tiling:
        """Which samples are in which tile."""
        low = (*self.first, 0)
        high = tuple(a + n for a, n in zip(low, self.own.shape))
        return Tiling.by_bytes(low, high, self.own.itemsize)

    @cached_property
    def scope(self) -> Scope:
        """The samples that are coded."""
        own, there = self.own, self._there
        return Scope(
            count=own.size if there is None else int(np.broadcast_to(there, own.shape).sum()),
            kind=self.own.dtype.name,
            data_range=self.samples.data_range,
            is_complex=self.samples.is_complex,
            dtype=str(self.blended.dtype).removeprefix("torch."),
            top=ChannelStats.of(self.samples.raw, self.samples.present).largest,
            input_dtype=self.samples.dtype,
        )

    @property
    def is_exact(self) -> bool:
        """Whether the function passes through its samples."""
        return self.blended.exact is not None

    def values(self, number: int) -> Array:
        """The samples of a tile, channels last."""
        return self._cut(self.own, self.tiling.slab(number))

    def _cut(self, values: Array, slab: Sequence[slice]) -> Array:
        """A slab of all axes, or of those before the channels, of an array that begins there."""
        at = tuple(slice(s.start - a, s.stop - a) for s, a in zip(slab, (*self.first, 0)))
        return values[at]

    def code_tiles(self, numbers: Sequence[int], **asked: float) -> Tiles[TileInMemory]:
        """Some tiles, coded as asked; without loss if nothing is."""
        there = self._there

        def finish(number: int, y: Array, data: bytes, decoded: Array) -> TileInMemory:
            sums, squares = (0.0, 0.0, y.size), None
            if asked:
                gap = np.subtract(decoded, y, dtype=np.float64)
                with np.errstate(over="ignore"):  # infinite where float64 has no squares
                    squares = np.einsum("...c,...c->...", gap, gap)
                *slab, channels = self.tiling.slab(number)
                here = None if there is None else self._cut(there, slab)
                if here is not None and here.shape[-1] > 1:
                    here = here[..., channels]
                sums = error_sums(np.abs(gap, out=gap), here)
            return TileInMemory(
                n_bytes=len(data), errors=sums, data=data, decoded=decoded, squares=squares
            )

        made = code_tiles(numbers, self.values, finish, effort=self.effort, **asked)
        return dict(zip(numbers, made))

    def errors(self, tiles: Tiles[TileInMemory], is_lossy: bool) -> tuple[float, float]:
        """Mean squared and largest error at the samples.

        A function that does not pass through its samples has to be evaluated.
        """
        if self.is_exact:
            return super().errors(tiles, is_lossy)
        return errors(self.samples, self.made(tiles, is_lossy), self.first, self.counted)

    def made(self, tiles: Tiles[TileInMemory], is_lossy: bool) -> Blended:
        """The function of the samples in tiles."""
        offset, scale = (np.asarray(to_numpy(u)) for u in (self.samples.offset, self.samples.scale))
        every = sorted(tiles)
        source = CodedTiles(tuple(tiles[i].data for i in every), self.tiling, self.own.dtype)
        source.know({i: tiles[i].decoded for i in every})
        boxes = SampleBoxes(
            source=source,
            offset=offset,
            scale=scale,
            like=offset[:0],
            kind=self.own.dtype.name,
            is_lossy=is_lossy,
            missing=self._missing,
        )
        return self.blended.with_samples(boxes)

    @cached_property
    def _missing(self) -> CodedTiles | None:
        """What was missing, in tiles."""
        gone = missing_in(self.samples.present)
        if gone is None:
            return None
        tiling = self.tiling.with_channels(gone.shape[-1])
        gone = gone.astype("u1")
        slabs = map(tiling.slab, range(tiling.n_tiles))
        tiles = tuple(pack_tiles([self._cut(gone, slab)])[0][0] for slab in slabs)
        return CodedTiles(tiles, tiling, "uint8")

    def lost(self, tiles: Tiles[TileInMemory]) -> Floats:
        """Sum of squares, (N,), by which the samples of each region's box have changed."""
        squares = np.zeros([n + 1 for n in self.own.shape[:-1]])
        for number, tile in tiles.items():
            if tile.squares is not None:
                self._cut(squares, self.tiling.slab(number)[:-1])[...] += tile.squares
        with np.errstate(over="ignore"):  # infinite where float64 has no squares
            return energy_in_boxes(self.blended, squares, self.first)


def code_to_target(
    blended: Blended,
    samples: Samples,
    target: Target,
    first: Sequence[int] | None = None,
    counted: Array | None = None,
) -> tuple[Blended, Floats, float]:
    """The function of coded samples that meet a target, and what was lost.

    Parameters are those of `Coder`. Lost are an energy in the box of each region, (N,), and the
    root mean square of errors at the samples.

    Raises
    ------
    ValueError
        If the target cannot be met; the message says what can.
    """
    low = (0,) * (samples.raw.ndim - 1) if first is None else tuple(first)
    if samples.integers is not None:  # beyond what can be coded with loss as whole numbers
        samples = replace(samples, integers=None, is_exact=False)
    coder = Coder(
        blended=blended, samples=samples, first=low, counted=counted, effort=target.effort
    )
    met = coder.meet(target)
    made = coder.made(met.tiles, met.is_lossy)
    return made, coder.lost(met.tiles), typical_error(met.errors)
