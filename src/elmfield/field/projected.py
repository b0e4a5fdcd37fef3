"""Coefficients that are projections: the samples of boxes on their basis, batch by batch.

Where the samples are kept, so that a file need hold no more, :class:`Projected` makes coefficients
when asked for, or keeps those that the fit made.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import device, is_numpy, is_on_host, learns, move, namespace, to_numpy
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.boxes import Boxes, whole
from elmfield.field.coefficients import Full
from elmfield.local.model import Basis
from elmfield.partition import Partition, gather_boxes, whole_rows
from elmfield.samples import Samples

AT_ONCE = 1 << 21
"""Numbers a batch of product modes holds at most on a processor: what fits its cache."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Projected:
    """Coefficients (G, r, C) of a group of regions that their samples settle.

    A region's coefficients are the same, bit for bit, whichever others are asked for with it.

    Parameters
    ----------
    boxes : Boxes
        The samples.
    partition : Partition
        In which the regions' boxes lie: that of the fit, also for a part of its regions.
    regions : integer array, shape (G,)
        The regions' numbers there.
    basis : Basis
        Of all of them.
    kept : array, shape (G, r, C), or None
        The coefficients; None to make them each time.
    """

    boxes: Boxes = field(repr=False)
    partition: Partition = field(repr=False)
    regions: Integers = field(repr=False)
    basis: Basis = field(repr=False)
    kept: Array | None = field(default=None, repr=False)

    index_bits = 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""
        return len(self.regions), self.basis.n_modes, self.boxes.n_channels

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""
        return self.boxes.like if self.kept is None else self.kept

    @property
    def n_stored(self) -> int:
        """Coefficients, all regions together."""
        return math.prod(self.shape)

    @property
    def counts(self) -> Integers:
        """Coefficients of each region, (G,)."""
        G, r, C = self.shape
        return np.full(G, r * C)

    @property
    def is_shared(self) -> bool:
        """Whether coefficients are at hand, and NumPy's."""
        return self.kept is not None and is_numpy(self.kept)

    @property
    def made_of(self) -> Boxes:
        """The samples."""
        return self.boxes

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions."""
        if self.kept is not None:
            return Full(self.kept).take(rows)
        rows, parts = np.asarray(rows), []
        like = self.like
        step = _step(self.basis, like, self.boxes.n_channels, self.partition)
        for i, j in runs(len(rows), step):
            Y = self.boxes.of(self.partition, self.regions[rows[i:j]], self.basis.box)
            parts.append(self.basis.project(Y))
        return parts[0] if len(parts) == 1 else namespace(like).concat(parts, axis=0)

    def rows(self, rows: Integers) -> "Projected":
        """The same for some of the regions."""
        kept = None if self.kept is None else Full(self.kept).take(rows)
        return replace(self, regions=self.regions[np.asarray(rows)], kept=kept)

    def channels(self, own: slice) -> "Projected":
        """The same for some of the channels."""
        kept = None if self.kept is None else self.kept[..., own]
        return replace(self, boxes=self.boxes.channels(own), kept=kept)

    def moved(self, like: Array) -> "Projected":
        """Coefficients at hand, in the library and on the device of `like`; samples stay."""
        own = self if self.kept is not None else self.loaded()
        return replace(own, kept=move(own.kept, like))

    def numbers(self, rows: Integers) -> Array:
        """The coefficients of some regions, one region after the other."""
        return namespace(self.like).reshape(self.take(rows), (-1,))

    def ragged(self, rows: Integers) -> None:
        """None: every region keeps all modes."""
        return

    @property
    def box(self) -> tuple[int, ...]:
        """Samples on each axis of a region's box."""
        return self.basis.box

    def through(self, boxes: Boxes) -> "Projected":
        """The coefficients of other samples, at hand, where these are."""
        found = replace(self, boxes=boxes, kept=None).loaded()
        return replace(found, kept=move(found.kept, self.like))

    def loaded(self) -> "Projected":
        """The same with coefficients at hand."""
        return replace(self, kept=self.take(np.arange(len(self.regions))))


@dataclass(frozen=True, eq=False, kw_only=True)
class Awaited(Projected):
    """Coefficients of regions that their samples do not settle: a file holds them.

    Parameters
    ----------
    left : array, shape (G, C)
        The energy that regions leave over, once their coefficients were made.
    """

    left: Floats = field(repr=False)

    @property
    def made_of(self) -> None:  # type: ignore[override]
        """None: a file holds coefficients."""
        return

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions; what is left over is noted."""
        rows, parts = np.asarray(rows), []
        step = _step(self.basis, self.like, self.boxes.n_channels, self.partition)
        for i, j in runs(len(rows), step):
            Y = self.boxes.of(self.partition, self.regions[rows[i:j]], self.basis.box)
            if self.basis.inside is not None:
                Y = Y[:, np.flatnonzero(self.basis.inside)]
            c = self.basis.project(Y)
            if self.basis.n_modes < self.basis.n_samples:
                self.left[rows[i:j]] = np.maximum((Y * Y).sum(axis=1) - (c * c).sum(axis=1), 0)
            parts.append(c)
        return np.concatenate(parts)


def awaiting(
    boxes: Boxes, partition: Partition, regions: Integers, model: Basis
) -> Projected | Awaited:
    """Coefficients of some regions that are made from their samples when asked for."""
    given: dict[str, Any] = {
        "boxes": boxes,
        "partition": partition,
        "regions": regions,
        "basis": model,
    }
    if model.axes is not None and partition.is_regular:
        return Projected(**given)
    return Awaited(**given, left=np.zeros((len(regions), boxes.n_channels)))


def settled_by_samples(
    samples: Samples,
    partition: Partition,
    regions: Integers,
    basis: Basis,
    tell: Callable[[int], None],
) -> tuple[Projected | Full, Floats]:
    """What :func:`projected` gives, with the samples kept beside it where these settle it.

    Not on merged regions, nor for what is too large to be taken off and put back, nor where
    derivatives of the samples are followed.
    """
    full, left = projected(samples, partition, regions, basis, tell)
    exact = samples.brought is None and not learns(samples.raw)
    if basis.axes is None or not partition.is_regular or not exact:
        return full, left
    boxes = whole(samples)
    return Projected(
        boxes=boxes, partition=partition, regions=regions, basis=basis, kept=full.values
    ), left


def projected(
    samples: Samples,
    partition: Partition,
    regions: Integers,
    basis: Basis,
    tell: Callable[[int], None],
) -> tuple[Full, Floats]:
    """Coefficients of some regions, and the energy they leave over, (G, C).

    `tell` hears how many regions were done, batch after batch.
    """
    given = samples.given
    xp, C, G = namespace(given), given.shape[-1], len(regions)
    parts = runs(G, _step(basis, given, C, partition))
    store, lefts = None, []
    for i, j in parts:
        batch = regions[i:j]
        Y = samples.bring(gather_boxes(given, partition, batch, basis.box, basis.inside))
        if samples.present is not None:
            have = gather_boxes(samples.present, partition, batch, basis.box, basis.inside)
            Y = basis.complete(Y, have)
        c = xp.permute_dims(basis.project(Y), (2, 0, 1))  # channels first in memory
        if basis.n_modes < basis.n_samples:  # else nothing is left over
            left = xp.sum(Y * Y, axis=1) - xp.permute_dims(xp.sum(c * c, axis=2), (1, 0))
            lefts.append(xp.astype(left, xp.float64))
        if len(parts) == 1:
            store = c
        else:
            if store is None:
                store = xp.empty((C, G, c.shape[2]), dtype=c.dtype, device=device(c))
            store[:, i:j, :] = c
        tell(len(batch))
    left_over = to_numpy(xp.concat(lefts, axis=0)) if lefts else np.zeros((G, C))
    return Full(xp.permute_dims(store, (1, 2, 0))), np.maximum(left_over, 0)


def _step(basis: Basis, y: Array, n_channels: int, partition: Partition) -> int:
    """Regions to project together."""
    numbers = capacity(y)
    if basis.axes is not None and is_on_host(y):
        numbers = min(numbers, AT_ONCE)
    step: int = max(1, numbers // (4 * max(math.prod(basis.box), basis.n_modes) * n_channels))
    return whole_rows(partition, step)
