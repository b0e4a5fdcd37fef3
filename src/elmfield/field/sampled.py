"""Coefficients that are samples: output weights made from the samples of a box when asked for.

A field of regions that choose what they believe is settled by its samples: these are what is kept,
and beside them only which mixture of members each region believes, to be as fast the second time.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from elmfield._array.backend import device, is_numpy, move, namespace, to_numpy
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.boxes import Boxes, whole
from elmfield.local.beliefs import Beliefs
from elmfield.partition import Partition, whole_rows
from elmfield.samples import Samples


@dataclass(frozen=True, eq=False, kw_only=True)
class Sampled:
    """Output weights (G, m, C) of a group of regions, made from samples.

    Parameters
    ----------
    boxes : Boxes
        Where the samples are.
    partition : Partition
        In which the regions' boxes lie: that of the fit, also for a part of its regions.
    regions : integer array, shape (G,)
        The regions' numbers there.
    beliefs : Beliefs
        How samples become weights.
    rounding : array, shape (C,)
        What the samples' dtype cannot hold, in the unit of the fit.
    kept : array, shape (G, 1 + R), or None
        Mixture of members that each region believes; None to find it each time.
    """

    boxes: Boxes = field(repr=False)
    partition: Partition = field(repr=False)
    regions: Integers = field(repr=False)
    beliefs: Beliefs
    rounding: Floats
    kept: Array | None = field(default=None, repr=False)

    index_bits = 0

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the weights."""
        return self.boxes.like

    @property
    def made_of(self) -> Boxes:
        """The samples."""
        return self.boxes

    @property
    def box(self) -> tuple[int, ...]:
        """Samples on each axis of a region's box."""
        return self.beliefs.box

    def through(self, boxes: Boxes) -> "Sampled":
        """The weights of other samples."""
        return replace(self, boxes=boxes, kept=None).settled()

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, m and C."""
        m = sum(len(h.features) for h in self.beliefs.halves)
        return len(self.regions), m, self.boxes.n_channels

    @cached_property
    def _cells(self) -> Integers:
        """First sample and number of samples of each region's cell, (2, G, d)."""
        part = self.partition
        at = np.stack(np.unravel_index(self.regions, part.n_cells), axis=-1)
        first = [e[at[:, k]] for k, e in enumerate(part.edges)]
        sizes = [e[at[:, k] + 1] - e[at[:, k]] for k, e in enumerate(part.edges)]
        return np.stack([np.stack(first, axis=-1), np.stack(sizes, axis=-1)])

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,): the samples of its own cell."""
        return np.asarray(np.prod(self._cells[1], axis=1) * self.boxes.n_channels)

    @property
    def n_stored(self) -> int:
        """Numbers stored: cells share no samples."""
        return int(self.counts.sum())

    @property
    def is_shared(self) -> bool:
        """Whether NumPy holds the samples."""
        return is_numpy(self.like)

    def take(self, rows: Integers) -> Array:
        """Output weights (len(rows), m, C) of some regions."""
        rows = np.asarray(rows)
        C = self.boxes.n_channels
        parts = []
        step = max(1, capacity(self.like) // (2 * self.beliefs.work * C))
        for i, j in runs(len(rows), whole_rows(self.partition, step)):
            Y = self.boxes.of(self.partition, self.regions[rows[i:j]], self.beliefs.box)
            parts.append(self.beliefs.alphas(Y, self._mixture(Y, rows[i:j])))
        return parts[0] if len(parts) == 1 else namespace(self.like).concat(parts, axis=0)

    def _mixture(self, Y: Array, rows: Integers) -> Array:
        """What regions believe, (len(rows), 1 + R), with the samples of their boxes Y."""
        if self.kept is None:
            return self.beliefs.mixture(Y, self.rounding)
        if len(rows) == self.kept.shape[0] and np.array_equal(rows, np.arange(len(rows))):
            return self.kept
        if is_numpy(self.kept):
            return self.kept[rows]
        return namespace(self.kept).take(self.kept, move(rows, self.kept), axis=0)

    def believed(self, rows: Integers) -> Array:
        """Weight p of every member in some regions, (len(rows), K)."""
        weights = []
        step = max(1, capacity(self.like) // (4 * self.beliefs.work * self.boxes.n_channels))
        for i, j in runs(len(rows), step):
            Y = self.boxes.of(self.partition, self.regions[rows[i:j]], self.beliefs.box)
            weights.append(self.beliefs.weights(Y, self.rounding))
        return namespace(self.like).concat(weights, axis=0)

    def settled(self) -> "Sampled":
        """The same, with the mixture that each region believes found once and kept."""
        if self.kept is not None:
            return self
        found, G = [], len(self.regions)
        C, K = self.boxes.n_channels, self.beliefs.family.n_members
        S = int(np.prod(self.beliefs.box))
        step = max(1, capacity(self.like) // (2 * K * S * C))
        for i, j in runs(G, whole_rows(self.partition, step)):
            Y = self.boxes.of(self.partition, self.regions[i:j], self.beliefs.box)
            found.append(self.beliefs.mixture(Y, self.rounding))
        kept = found[0] if len(found) == 1 else namespace(self.like).concat(found, axis=0)
        return replace(self, kept=kept)

    def rows(self, rows: Integers) -> "Sampled":
        """The same for some of the regions."""
        rows = np.asarray(rows)
        kept = self.kept
        if kept is not None:
            kept = namespace(kept).take(kept, move(rows, kept), axis=0)
        return replace(self, regions=self.regions[rows], kept=kept)

    def channels(self, own: slice) -> "Sampled":
        """The same for some of the channels; all of them say what is believed."""
        return replace(self.settled(), boxes=self.boxes.channels(own), rounding=self.rounding[own])

    def moved(self, like: Array) -> "Sampled":
        """The same in the library and on the device of `like`."""
        kept = None if self.kept is None else move(self.kept, like)
        return replace(self, boxes=self.boxes.moved(like), kept=kept)

    def numbers(self, rows: Integers) -> Array:
        """The stored numbers of some regions, one region after the other: their cells' samples."""
        xp = namespace(self.like)
        found = [xp.zeros(0, dtype=self.like.dtype, device=device(self.like))]
        for a, n in zip(*self._cells[:, np.asarray(rows)]):
            slab = tuple(slice(int(i), int(i + m)) for i, m in zip(a, n))
            found.append(xp.reshape(self.boxes.block(slab), (-1,)))
        return xp.concat(found)

    def ragged(self, rows: Integers) -> None:
        """None: every region keeps all."""
        return


def sampled(samples: Samples, partition: Partition, regions: Integers, beliefs: Beliefs) -> Sampled:
    """The coefficients of regions that believe what their samples show."""
    return Sampled(
        boxes=whole(samples),
        partition=partition,
        regions=regions,
        beliefs=beliefs,
        rounding=rounding_of(samples),
    ).settled()


def rounding_of(samples: Samples) -> Floats:
    """What the dtype of samples cannot hold, in the unit of the fit, (C,)."""
    return rounding(to_numpy(samples.offset), samples.units, samples.raw)


def rounding(offset: Floats, scale: Floats, like: Array) -> Floats:
    """The same from offset and scale, (C,), and the dtype of `like`.

    A scale is the power of two next to the largest distance from the offset.
    """
    eps = float(namespace(like).finfo(like.dtype).eps)
    return np.asarray(eps * (np.abs(np.asarray(offset, np.float64)) / scale + 1.5))
