"""Targets met by coding the samples in memory, with one step for all tiles.

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
from elmfield._array.checks import USUAL_EFFORT
from elmfield._array.typing import Array, Floats
from elmfield.field.accuracy import energy_in_boxes, errors
from elmfield.field.blend.blended import Blended
from elmfield.field.coefficients.sample_boxes import SampleBoxes, missing_in
from elmfield.field.coefficients.tiles import CodedTiles, Tiling, code_tiles, pack_tiles
from elmfield.field.rate_control import RateControl, Scope, typical_error
from elmfield.samples import Samples
from elmfield.settings import Target


@dataclass(frozen=True, eq=False, kw_only=True)
class Coder(RateControl["Attempt"]):
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
    effort : int
        Of coding.
    """

    blended: Blended
    samples: Samples
    first: tuple[int, ...]
    counted: Array | None = field(default=None, repr=False)
    effort: int = USUAL_EFFORT

    @cached_property
    def own(self) -> Array:
        """The samples on the host, in the dtype that a file keeps."""
        own = np.asarray(to_numpy(self.samples.stored))
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

    def code(self, **asked: float) -> "Attempt":
        """All tiles, coded as asked; without loss if nothing is."""
        n, found = self.tiling.n_tiles, np.empty_like(self.own)

        def finish(number: int, _: Array, data: bytes, decoded: Array) -> bytes:
            self._cut(found, self.tiling.slab(number))[:] = decoded
            return data

        made = code_tiles(range(n), self.values, finish, effort=self.effort, **asked)
        offset, scale = (np.asarray(to_numpy(u)) for u in (self.samples.offset, self.samples.scale))
        tiles = CodedTiles(tuple(made), self.tiling, self.own.dtype)
        tiles.know({i: self._cut(found, self.tiling.slab(i)) for i in range(n)})
        boxes = SampleBoxes(
            source=tiles,
            offset=offset,
            scale=scale,
            like=offset[:0],
            kind=self.own.dtype.name,
            is_lossy=bool(asked),
            missing=self._missing,
        )
        return Attempt(coder=self, boxes=boxes, found=found)

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

    @cached_property
    def scope(self) -> Scope:
        """The samples that are coded."""
        return Scope(
            size=self.own.size,
            kind=self.own.dtype.name,
            data_range=self.samples.data_range,
            is_complex=self.samples.is_complex,
            dtype=str(self.blended.dtype).removeprefix("torch."),
            top=ChannelStats.of(self.samples.raw, self.samples.present).largest,
            input_dtype=self.samples.dtype,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Attempt:
    """Coded tiles, and what comes out of them."""

    coder: Coder
    boxes: SampleBoxes
    found: Array = field(repr=False)

    @property
    def n_bytes(self) -> int:
        """Bytes of all tiles."""
        return self.boxes.n_bytes

    @cached_property
    def made(self) -> Blended:
        """The function of the samples in the tiles."""
        return self.coder.blended.with_samples(self.boxes)

    @cached_property
    def errors(self) -> tuple[float, float]:
        """Mean squared and largest error at the samples: of the coder's own reconstruction.

        A function that does not pass through its samples has to be evaluated.
        """
        coder, made = self.coder, self.made
        found = made if made.exact is None else self.found
        return errors(coder.samples, found, coder.first, coder.counted)

    @property
    def lost(self) -> Floats:
        """Sum of squares, (N,), by which the samples of each region's box have changed."""
        gap = np.subtract(self.coder.own, self.found, dtype=np.float64)
        with np.errstate(over="ignore"):  # infinite where float64 has no squares
            squares = np.einsum("...c,...c->...", gap, gap)
            return energy_in_boxes(self.coder.blended, squares, self.coder.first)


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
    return met.made, met.lost, typical_error(met.errors)
