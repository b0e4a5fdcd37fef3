"""The samples that a field is made of, by the boxes of its regions, wherever they lie."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from itertools import product as cartesian

import numpy as np

from elmfield._array.backend import cast, copy_array, move, namespace, requires_grad, take, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.errors import StoreError
from elmfield.field.coefficients.tiles import CodedTiles, Tiling, Totals, positions, run_of, sums_of
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import InMemory, Samples, Slab, Source

FIRST_MEANS_LEVEL = 6
"""Halvings of the means that a tile coded with loss begins with."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleBoxes:
    """Samples of an array, handed out in the unit of the fit: about 0 and of order 1.

    Parameters
    ----------
    source : Source
        The samples, channels last: an array in memory, coded tiles, or what is read slab by slab.
    offset, scale : arrays, shape (C,)
        What turns the caller's units into that of the fit: taken off, and divided by.
    like : array
        In the library, dtype and on the device of what is handed out.
    kind : str
        The dtype that holds the samples exactly; that of the source, or a narrower one.
    is_raw : bool
        Whether the source has samples in the caller's units; else in the unit of the fit.
    is_lossy : bool
        Whether something was lost when they were coded.
    missing : Source or None
        Nonzero where a sample was missing, of one channel for all or of each; None if none was.
    own : slice or None
        Which channels of the source; all by default.
    overview : pair of int and CodedTiles, or None
        Means of 2^k samples on each axis, as samples are stored, and k.
    """

    source: Source = field(repr=False)
    offset: Array
    scale: Array
    like: Array = field(repr=False)
    kind: str
    is_raw: bool = True
    is_lossy: bool = False
    missing: Source | None = field(default=None, repr=False)
    own: slice | None = None
    overview: tuple[int, CodedTiles] | None = field(default=None, repr=False)

    @classmethod
    def of_fit(cls, samples: Samples, *, own: bool = True) -> "SampleBoxes":
        """The samples of a fit, in memory of their `own` or where they are."""
        values, gone = samples.stored if own else samples.raw, missing_in(samples.present)
        return cls(
            source=InMemory(values),
            offset=samples.offset,
            scale=samples.scale,
            like=values if requires_grad(values) else samples.offset,
            kind=samples.kind,
            missing=None if gone is None else InMemory(gone),
        )

    @property
    def n_channels(self) -> int:
        """Number of channels C."""
        return int(self.offset.shape[0])

    @property
    def tiles(self) -> CodedTiles | None:
        """The source where samples lie in coded tiles; else None."""
        return self.source if isinstance(self.source, CodedTiles) else None

    @property
    def n_bytes(self) -> int:
        """Bytes of the samples as they are stored, coded or not."""
        if self.tiles is not None:
            return self.tiles.n_bytes
        n = math.prod(self.source.shape[:-1]) * self.n_channels
        return int(n) * np.dtype(self.kind).itemsize

    @property
    def rounding(self) -> Floats:
        """Rounding of the samples' dtype in the unit of the fit, (C,).

        A scale is the power of two next to the largest distance from the offset.
        """
        eps = float(namespace(self.like).finfo(self.like.dtype).eps)
        offset, scale = (to_numpy(u).astype(np.float64) for u in (self.offset, self.scale))
        return np.asarray(eps * (np.abs(offset) / scale + 1.5))

    # --- samples --------------------------------------------------------------------------------

    def gather(
        self,
        partition: Partition,
        regions: Integers,
        box: tuple[int, ...],
        inside: Array | None = None,
    ) -> Array:
        """Samples (G, S, C) of the boxes of some regions, in the unit of the fit.

        With `inside`, booleans of the box's shape, only those samples of each box.
        """
        if isinstance(self.source, InMemory):
            values = self._channels(self.source.array)
            return self._standardise(gather_boxes(values, partition, regions, box, inside))
        starts = partition.boxes[0][regions]
        Y = np.empty((len(regions), math.prod(box), self.n_channels), self.like.dtype)
        tiles = self.tiles
        for rows in [slice(None)] if tiles is None else tiles.batches(partition, starts, box):
            Y[rows] = self._on_boxes(partition, starts[rows], box)
        return Y if inside is None else Y[:, np.flatnonzero(inside)]

    def _on_boxes(self, partition: Partition, starts: Integers, box: tuple[int, ...]) -> Array:
        """Samples (G, S, C) of boxes that begin at `starts`, (G, d): each is read once."""
        along = [partition.within(k, starts[:, k, None] + np.arange(b)) for k, b in enumerate(box)]
        spans = [np.unique(a, return_inverse=True) for a in along]  # along: (G, b) each
        values = self._standardise(self._read([u for u, _ in spans]))
        index = np.zeros((len(starts), 1), np.int64)
        for (u, inner), a in zip(spans, along):
            inner = inner.reshape(a.shape)
            index = (index[:, :, None] * len(u) + inner[:, None, :]).reshape(len(starts), -1)
        return values.reshape(-1, values.shape[-1])[index]

    def read_standardised(self, slab: Slab) -> Array:
        """The samples of a slab of the array, (..., C), in the unit of the fit."""
        return self._standardise(self._read(slab))

    def read(self, slab: Slab) -> Array:
        """The samples of a slab as they are kept: in dtype `kind`, channels last, on the host."""
        return np.asarray(to_numpy(self._read(slab))).astype(self.kind, copy=False)

    def read_grid(self, x: Sequence[Integers | slice]) -> Array:
        """The samples on a grid of ascending positions, (..., C), where and as they are kept.

        In a dtype that holds those of `kind`; a copy.
        """
        found = self._read(x)  # tiles are decoded into an array of its own
        return copy_array(found) if self.tiles is None else found

    def gaps(self, slab: Slab) -> Array | None:
        """Which samples of a slab were missing, booleans (..., C or 1); None if none ever was."""
        if self.missing is None:
            return None
        gone = self.missing.read(slab)
        gone = gone if gone.shape[-1] == 1 else self._channels(gone)
        return gone if gone.dtype == bool else gone != 0

    def _read(self, x: Sequence[Integers | slice]) -> Array:
        """Samples on a grid of ascending positions as the source has them, own channels only."""
        source = self.source
        if isinstance(source, CodedTiles):
            return self._channels(source.read(x))
        if isinstance(source, InMemory):
            values = self._channels(source.array)
            for k, at in enumerate(x):
                run = run_of(at)
                if isinstance(run, slice):
                    values = values[(*(slice(None),) * k, run, ...)]
                else:
                    values = take(values, move(run, values), axis=k)
            return values
        parts = list(runs_of(x))
        if len(parts) == 1:
            return self._channels(source.read(parts[0][0]))
        sizes = [max(s.stop for s in ends) for ends in zip(*(place for _, place in parts))]
        out = np.empty((*sizes, self.n_channels), self.kind)
        for slab, place in parts:
            out[place] = self._channels(source.read(slab))
        return out

    def _channels(self, values: Array) -> Array:
        return values if self.own is None else values[..., self.own]

    def _standardise(self, Y: Array) -> Array:
        """Samples (..., C) of the source in the unit of the fit."""
        if not self.is_raw:
            return cast(Y, self.like)
        Y = cast(Y, self.offset) - self.offset
        Y /= self.scale
        return cast(Y, self.like)

    # --- means ----------------------------------------------------------------------------------

    @property
    def quick_level(self) -> int | None:
        """The level k from which `coarse(k)` decodes no tiles; None if it always does."""
        if self.overview is not None:
            return self.overview[0]
        return FIRST_MEANS_LEVEL if self.is_lossy else None

    def overview_means(self) -> Array | None:
        """The means of the overview; None without one, or where samples were appended since."""
        try:
            return None if self.overview is None else self.overview[1].read()
        except StoreError:
            return None

    def coarse(self, k: int) -> Array:
        """Means of 2^k samples on each axis, (..., C), in the unit of the fit, on the host."""
        tiles = self.tiles
        means = None if self.overview is None or k < self.overview[0] else self.overview_means()
        if tiles is None:
            tiling = Tiling.whole((*self.source.shape[:-1], self.n_channels))
            out = Totals.of(tiling, k, self.read).means()
        elif self.overview is not None and means is not None:
            totals, slab = Totals(tiles.tiling, k), tiles.tiling.extent
            totals.add(slab, sums_of(tiles.tiling, k, slab, means, self.overview[0]))
            out = self._channels(totals.means())
        else:
            out = self._channels(tiles.means(k))
        if self.is_raw:
            out = (out - to_numpy(self.offset)) / to_numpy(self.scale)
        return out.astype(to_numpy(self.like[:0]).dtype)

    # --- other places ---------------------------------------------------------------------------

    def channels(self, own: slice) -> "SampleBoxes":
        """The same for some of the channels."""
        some = range(*(self.own or slice(None)).indices(self.source.shape[-1]))[own]
        return replace(
            self,
            offset=self.offset[own],
            scale=self.scale[own],
            own=slice(some.start, some.stop, some.step),
        )

    def in_memory(self) -> "SampleBoxes":
        """The same without a file."""
        found, missing, overview = self.source, self.missing, self.overview
        found = found.in_memory() if isinstance(found, CodedTiles) else found
        missing = missing.in_memory() if isinstance(missing, CodedTiles) else missing
        if overview is not None:
            known = self.overview_means() is not None
            overview = (overview[0], overview[1].in_memory()) if known else None
        return replace(self, source=found, missing=missing, overview=overview)

    def moved(self, like: Array) -> "SampleBoxes":
        """All samples in memory, in the library and on the device of `like`."""
        low = (0,) * len(self.source.shape) if self.tiles is None else self.tiles.tiling.low
        slab = tuple(map(slice, low[:-1], self.source.shape[:-1]))
        values, gone = self._read(slab), self.gaps(slab)
        if any(low):  # what lies before a crop none of its boxes asks for
            before = [*((a, 0) for a in low[:-1]), (0, 0)]
            values, gone = np.pad(values, before), None if gone is None else np.pad(gone, before)
        offset, scale = (cast(u, self.like) for u in (self.offset, self.scale))
        values, offset, scale = (move(a, like) for a in (values, offset, scale))
        return replace(
            self,
            source=InMemory(values),
            offset=offset,
            scale=scale,
            like=values if requires_grad(values) else offset,
            missing=None if gone is None else InMemory(gone),
            own=None,
            is_lossy=False,
            overview=None,
        )


def missing_in(present: Array | None) -> Array | None:
    """What is missing, on the host: (..., 1), or (..., C) where channels differ."""
    return None if present is None else in_one_channel(~np.asarray(to_numpy(present)))


def in_one_channel(gone: Array) -> Array:
    """What is missing, (..., C): of one channel where all miss the same."""
    first = gone[..., :1]
    return first.copy() if (gone == first).all() else gone


def runs_of(x: Sequence[Integers | slice]) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Slabs of an array that make up a grid of positions, and where each goes in it."""
    spans = []
    for at in positions(x):
        ends = [0, *(np.flatnonzero(np.diff(at) != 1) + 1).tolist(), len(at)]
        spans.append(
            [(slice(int(at[i]), int(at[j - 1]) + 1), slice(i, j)) for i, j in pairwise(ends)]
        )
    for corner in cartesian(*spans):
        yield tuple(a for a, _ in corner), tuple(b for _, b in corner)
