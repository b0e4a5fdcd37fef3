"""Where the samples of regions' boxes come from: an array in memory, or tiles that are decoded."""

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from elmfield._array.backend import cast, learns, move, to_numpy
from elmfield._array.typing import Array, Integers
from elmfield.field.tiles import Coded, block_means
from elmfield.partition import Partition, gather, gather_boxes, sample_index
from elmfield.samples import Samples


class Boxes(Protocol):
    """Samples of an array, by the boxes of regions: all that a field of them is made of."""

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of what is handed out."""

    @property
    def n_channels(self) -> int:
        """Number of channels C."""

    @property
    def kind(self) -> str:
        """The dtype that holds the samples exactly."""

    @property
    def is_raw(self) -> bool:
        """Whether they are kept in the caller's units; else in the unit of the fit."""

    @property
    def n_bytes(self) -> int:
        """Bytes they take as they are kept, coded or not."""

    @property
    def coded(self) -> "Coded | None":
        """The boxes themselves where samples lie in coded tiles; else None."""

    def of(self, partition: Partition, regions: Integers, box: tuple[int, ...]) -> Array:
        """Samples (G, S, C) of the boxes of some regions, in the unit of the fit."""

    def block(self, slab: tuple[slice, ...]) -> Array:
        """The samples of a slab of the array, (..., C), in the unit of the fit."""

    def kept(self, slab: tuple[slice, ...]) -> Array:
        """The samples of a slab as they are kept: in dtype `kind`, channels last, on the host."""

    def gaps(self, slab: tuple[slice, ...]) -> Array | None:
        """Which samples of a slab were missing, booleans (..., C or 1); None if none ever was."""

    def coarse(self, k: int) -> Array:
        """Means of 2^k samples on each axis, (..., C), in the unit of the fit, on the host."""

    def channels(self, own: slice) -> "Boxes":
        """The same for some of the channels."""

    def moved(self, like: Array) -> "Boxes":
        """The same in memory, in the library and on the device of `like`."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Whole:
    """Samples in one array.

    Parameters
    ----------
    values : array, shape (..., C)
        The samples in the caller's units, of any dtype.
    offset, scale : arrays, shape (C,)
        Taken off them, and divided by: dtype and library of what is handed out.
    kind : str
        The dtype that holds them exactly; that of `values`, or a narrower one.
    missing : array of bool, shape (..., C or 1), or None
        Which of them are not the caller's.
    """

    values: Array = field(repr=False)
    offset: Array
    scale: Array
    kind: str
    missing: Array | None = field(default=None, repr=False)

    is_raw = True
    coded = None

    @property
    def like(self) -> Array:
        """An array of the dtype that is handed out; the samples where a library follows them."""
        return self.values if learns(self.values) else self.offset

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return int(self.values.shape[-1])

    @property
    def n_bytes(self) -> int:
        """Bytes of the samples."""
        return int(np.prod(self.values.shape)) * np.dtype(self.kind).itemsize

    def _brought(self, Y: Array) -> Array:
        """Samples about 0 and of order 1."""
        Y = cast(Y, self.offset) - self.offset
        Y /= self.scale
        return Y

    def of(self, partition: Partition, regions: Integers, box: tuple[int, ...]) -> Array:
        """Samples (G, S, C) of the boxes of some regions."""
        if len(regions) and np.all(np.diff(regions) > 0):
            return self._brought(gather_boxes(self.values, partition, regions, box))
        index = sample_index(partition, regions, box, self.values)
        return self._brought(gather(self.values, index))

    def block(self, slab: tuple[slice, ...]) -> Array:
        """A slab of the array."""
        return self._brought(self.values[(*slab, slice(None))])

    def kept(self, slab: tuple[slice, ...]) -> Array:
        """A slab as it was given."""
        return np.asarray(to_numpy(self.values[(*slab, slice(None))])).astype(self.kind, copy=False)

    def gaps(self, slab: tuple[slice, ...]) -> Array | None:
        """Which samples of a slab were missing."""
        return None if self.missing is None else self.missing[(*slab, slice(None))]

    def coarse(self, k: int) -> Array:
        """Means of 2^k samples on each axis."""
        means = block_means(np.asarray(to_numpy(self.values)), k)
        offset, scale = (to_numpy(u) for u in (self.offset, self.scale))
        return ((means - offset) / scale).astype(offset.dtype)

    def channels(self, own: slice) -> "Whole":
        """The same for some of the channels."""
        missing = self.missing
        if missing is not None and missing.shape[-1] > 1:
            missing = missing[..., own]
        return replace(
            self,
            values=self.values[..., own],
            offset=self.offset[own],
            scale=self.scale[own],
            missing=missing,
        )

    def moved(self, like: Array) -> "Whole":
        """The same in the library and on the device of `like`."""
        values, offset, scale = (move(a, like) for a in (self.values, self.offset, self.scale))
        return replace(self, values=values, offset=offset, scale=scale)


def whole(samples: Samples) -> Whole:
    """The samples of a fit, kept."""
    return Whole(
        values=samples.own,
        offset=samples.offset,
        scale=samples.scale,
        kind=samples.kind,
        missing=missing_in(samples.present),
    )


def missing_in(present: Array | None) -> Array | None:
    """What is missing, on the host: of one channel where all miss the same."""
    if present is None:
        return None
    missing = ~np.asarray(to_numpy(present))
    alike = bool((missing == missing[..., :1]).all())
    return missing[..., :1] if alike else missing
