"""Boxes of samples that are read from a source when asked for: a file, or what makes them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.ends import Ends
from elmfield._array.memory import capacity
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.tiles import block_means, on_boxes, runs_of
from elmfield.partition import Partition
from elmfield.samples import EXACT, Slab, Source, checked


@dataclass(frozen=True, eq=False, kw_only=True)
class Slabs:
    """Samples of a source, slab by slab, channels last.

    Parameters
    ----------
    source : Source
        Where they are.
    channel_axis : int or None
        Which of its axes holds channels.
    mask : Source or None
        True where a sample is missing, of the shape of the source or of that without channels.
    is_exact : bool
        Whether the source's dtype holds all samples; not so if some are filled in with fractions.
    """

    source: Source = field(repr=False)
    channel_axis: int | None = None
    mask: Source | None = field(default=None, repr=False)
    is_exact: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, and channels; a complex number counts as two."""
        n = [m for k, m in enumerate(self.source.shape) if k != self.channel_axis]
        C = 1 if self.channel_axis is None else self.source.shape[self.channel_axis]
        return (*n, C * (2 if self.is_complex else 1))

    @property
    def dtype(self) -> str:
        """Of the source."""
        return str(np.dtype(self.source.dtype).newbyteorder("=").name)

    @property
    def is_complex(self) -> bool:
        """Whether the second half of the channels holds imaginary parts."""
        return bool(np.dtype(self.source.dtype).kind == "c")

    @property
    def floating(self) -> str:
        """The dtype that fits compute with."""
        return "float32" if self.dtype in ("float32", "float16", "complex64") else "float64"

    @property
    def kind(self) -> str:
        """The dtype that holds samples exactly, those that were filled in too."""
        return EXACT[self.dtype] if self.is_exact and self.dtype in EXACT else self.floating

    def read(self, slab: Slab) -> Array:
        """A slab of the axes that are not channels, as the source has it."""
        found = np.asarray(to_numpy(self.source.read(self.with_channels(slab))))
        wanted = tuple(s.stop - s.start for s in slab)
        got = tuple(n for k, n in enumerate(found.shape) if k != self.channel_axis)
        if got != wanted:
            raise ValueError(
                f"the source gave samples of shape {found.shape} where {wanted} were asked for; "
                "its shape must not change while it is read."
            )
        return found

    def with_channels(self, slab: Slab) -> Slab:
        """A slab of the source: with all channels."""
        every = list(slab)
        if self.channel_axis is not None:
            every.insert(self.channel_axis, slice(0, self.source.shape[self.channel_axis]))
        return tuple(every)

    def without_channels(self, slab: Slab) -> Slab:
        """A slab of the source, of the axes that are not channels."""
        return tuple(s for k, s in enumerate(slab) if k != self.channel_axis)

    def part(self, slab: Slab, values: Array | None = None) -> tuple[Array, Array | None, Ends]:
        """Samples of a slab, (..., C), floating; which are present (None: all); their ends.

        Parameters
        ----------
        slab : tuple of slices
            Of the axes that are not channels.
        values : array, optional
            What the source has there, if it was read already.
        """
        values = self.read(slab) if values is None else np.asarray(values)
        mask = None
        if self.mask is not None:
            has = len(self.mask.shape) == len(self.source.shape) and self.channel_axis is not None
            mask = self.mask.read(self.with_channels(slab) if has else slab)
        y, present, _, ends = checked(values, values.shape, self.channel_axis, mask, is_whole=False)
        return y, present, Ends.of(y, present) if ends is None else ends


@dataclass(frozen=True, eq=False, kw_only=True)
class Streamed:
    """Boxes of samples of a source in which none is missing.

    Parameters
    ----------
    slabs : Slabs
        The source.
    offset, scale : arrays, shape (C,)
        Taken off the samples, and divided by; their dtype is that of what is handed out.
    own : tuple of int or None
        Which channels; all by default.
    """

    slabs: Slabs
    offset: Floats
    scale: Floats
    own: tuple[int, ...] | None = None

    is_raw = True
    coded = None

    @property
    def like(self) -> Array:
        """An array of the dtype that is handed out."""
        return self.offset[:0]

    @property
    def kind(self) -> str:
        """The dtype that holds the samples exactly."""
        return self.slabs.kind

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return len(self.offset)

    @property
    def n_bytes(self) -> int:
        """Bytes of all samples."""
        n = math.prod(self.slabs.shape[:-1]) * self.n_channels
        return n * np.dtype(self.kind).itemsize

    def of(self, partition: Partition, regions: Integers, box: tuple[int, ...]) -> Array:
        """Samples (G, S, C) of the boxes of some regions, in the unit of the fit."""
        return on_boxes(self._at, partition, partition.boxes[0][regions], box)

    def _at(self, x: Sequence[Integers]) -> Array:
        """Samples (..., C) on the grid of ascending positions on each axis."""
        out = np.empty((*map(len, x), self.n_channels), self.offset.dtype)
        for slab, place in runs_of(x):
            out[place] = self.block(slab)
        return out

    def block(self, slab: tuple[slice, ...]) -> Array:
        """A slab of the array, in the unit of the fit."""
        Y = self._own(self.slabs.part(slab)[0]).astype(self.offset.dtype) - self.offset
        Y /= self.scale
        return Y

    def _own(self, values: Array) -> Array:
        return values if self.own is None else values[..., list(self.own)]

    def kept(self, slab: tuple[slice, ...]) -> Array:
        """A slab as a file keeps it."""
        return self._own(self.slabs.part(slab)[0]).astype(self.kind)

    def gaps(self, slab: tuple[slice, ...]) -> None:
        """None: nothing is missing."""
        return

    def coarse(self, k: int) -> Array:
        """Means of 2^k samples on each axis; a few rows of blocks at a time."""
        sizes = self.slabs.shape[:-1]
        each = math.prod(sizes[1:]) * self.n_channels
        rows = max(1, capacity(self.offset) // max(1, 4 * each)) >> k << k or 1 << k
        parts = [
            block_means(
                self.block((slice(a, min(a + rows, sizes[0])), *(slice(0, n) for n in sizes[1:]))),
                k,
            )
            for a in range(0, sizes[0], rows)
        ]
        return np.concatenate(parts).astype(self.offset.dtype)

    def moved(self, like: Array) -> "Streamed":
        """The same: what is read from a source stays on the host."""
        return self

    def channels(self, own: slice) -> "Streamed":
        """The same for some of the channels."""
        every: Any = range(self.slabs.shape[-1]) if self.own is None else self.own
        return replace(self, offset=self.offset[own], scale=self.scale[own], own=tuple(every[own]))
