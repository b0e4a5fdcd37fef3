"""Coefficients that are made from samples: those of boxes, projected on a basis batch by batch."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from elmfield._array.backend import device, is_numpy, is_on_host, move, namespace, to_numpy
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.coefficients.sample_boxes import SampleBoxes
from elmfield.field.coefficients.stored import Coefficients, Full, Ragged, rows_of
from elmfield.local.bases import DenseWeights, WaveModel
from elmfield.local.energy_mixture import Beliefs
from elmfield.local.model import Basis
from elmfield.partition import Partition, gather_boxes, whole_rows

CACHED_NUMBERS = 1 << 21
"""Numbers a batch of product modes holds at most on a processor: what fits its cache."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FromSamples(Coefficients):
    """Coefficients (G, r, C) of a group of regions, projected from samples when asked for.

    A region's coefficients are the same, bit for bit, whichever others are asked for with it.

    Parameters
    ----------
    boxes : SampleBoxes
        The samples.
    partition : Partition
        In which the regions' boxes lie: that of the fit, also for a part of its regions.
    regions : integer array, shape (G,)
        The regions' numbers there.
    model : Basis, DenseWeights or WaveModel
        Of all of them.
    keeps_samples : bool
        Whether the field keeps its samples, and a file holds these; else what is made from them.
    computed : array or None
        Results of the fit: coefficients, (G, r, C), or with a WaveModel each region's mixture of
        energies, (G, 1 + R). None to compute them at each call.
    is_kept : bool
        Whether coefficients that were not computed are computed for all regions when first asked
        for, and kept.
    """

    boxes: SampleBoxes = field(repr=False)
    partition: Partition = field(repr=False)
    regions: Integers = field(repr=False)
    model: Basis | DenseWeights | WaveModel = field(repr=False)
    keeps_samples: bool = True
    computed: Array | None = field(default=None, repr=False)
    is_kept: bool = False

    @property
    def beliefs(self) -> Beliefs | None:
        """The energies that regions choose among; None where they have a basis."""
        return self.model.beliefs if isinstance(self.model, WaveModel) else None

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, r and C."""
        return len(self.regions), self.model.n_modes, self.boxes.n_channels

    @property
    def like(self) -> Array:
        """An array in the library, dtype and on the device of the coefficients."""
        found = self.computed if self.beliefs is None else None
        return self.boxes.like if found is None else found

    @property
    def box(self) -> tuple[int, ...]:
        """Samples on each axis of a region's box."""
        return self.model.box

    @property
    def source_samples(self) -> SampleBoxes | None:
        """The samples, where the field keeps them."""
        return self.boxes if self.keeps_samples else None

    @property
    def is_their_samples(self) -> bool:
        """Whether samples are kept, and coefficients are coordinates of all of them."""
        return self.keeps_samples and self.beliefs is None and self.shape[1] >= math.prod(self.box)

    @property
    def is_shared(self) -> bool:
        """Whether nothing has to be projected first, and NumPy holds it."""
        at_hand = self.computed is not None or self.beliefs is not None
        return at_hand and super().is_shared

    # --- from samples to coefficients -----------------------------------------------------------

    def take(self, rows: Integers) -> Array:
        """Coefficients (len(rows), r, C) of some regions."""
        rows = np.asarray(rows)
        if self.beliefs is None:
            known = self._kept if self.computed is None and self.is_kept else self.computed
            if known is not None:
                return rows_of(known, rows)
        return self.project(rows)[0]

    @cached_property
    def _kept(self) -> Array:
        return self.project(np.arange(len(self.regions)))[0]

    def kept(self, values: Array) -> Coefficients:
        """Coefficients (G, r, C) as a field keeps them: without neurons that a region has not."""
        widths = self.model.widths if isinstance(self.model, DenseWeights) else None
        if widths is None:
            return Full(values)
        _, r, C = values.shape
        own = np.arange(r) < np.asarray(widths)[self.regions][:, None]
        return Ragged.keep(values, np.repeat(own[:, None, :], C, axis=1), np.arange(r))

    def project(
        self,
        rows: Integers,
        present: Array | None = None,
        tell: Callable[[int], None] = lambda _: None,
    ) -> tuple[Array, Floats]:
        """Coefficients (len(rows), r, C) of some regions, and the energy they leave over.

        Parameters
        ----------
        rows : integer array
            The regions' rows in this group.
        present : array of bool, shape (..., C), optional
            Which samples of the array are not guesses.
        tell : callable
            Hears how many regions were done, batch after batch.

        Returns
        -------
        coefficients : array, shape (len(rows), r, C)
            Channels first in memory: each is then summed in one piece.
        left : array, shape (len(rows), C)
            Sums of squares.
        """
        xp, (_, r, C), G = namespace(self.like), self.shape, len(rows)
        store, lefts = None, []
        mixed = self.beliefs
        work = 4 * max(math.prod(self.box), r) if mixed is None else 2 * mixed.work
        for i, j, Y in self._batches(rows, work):
            if isinstance(self.model, WaveModel):
                beliefs = self.model.beliefs
                c = beliefs.alphas(Y, self._mixture(beliefs, Y, rows[i:j]))
            else:
                model, some = self.model, self.regions[rows[i:j]]
                model = model.of(some) if isinstance(model, DenseWeights) else model
                if present is not None:
                    where = some, model.box, model.inside
                    Y = model.complete(Y, gather_boxes(present, self.partition, *where))
                c = model.project(Y)
                if isinstance(model, DenseWeights):
                    left = xp.sum((Y - model.values(c)) ** 2, axis=1)
                    lefts.append(xp.astype(left, xp.float64))
                elif r < model.n_samples:  # else nothing is left over
                    left = xp.sum(Y * Y, axis=1) - xp.sum(c * c, axis=1)
                    lefts.append(xp.astype(left, xp.float64))
            c = xp.permute_dims(c, (2, 0, 1))
            if store is None:
                whole = j - i == G
                store = c if whole else xp.empty((C, G, r), dtype=c.dtype, device=device(c))
            if store is not c:
                store[:, i:j, :] = c
            tell(j - i)
        left_over = to_numpy(xp.concat(lefts, axis=0)) if lefts else np.zeros((G, C))
        return xp.permute_dims(store, (1, 2, 0)), np.maximum(left_over, 0)

    def _batches(self, rows: Integers, work: int) -> Iterator[tuple[int, int, Array]]:
        """Samples (G, S, C) of some regions' boxes, as many at a time as memory allows.

        `work` numbers are held for each region and channel. Regions are taken in whole rows of
        cells, which are gathered axis by axis.
        """
        numbers, model = capacity(self.boxes.like), self.model
        if not isinstance(model, WaveModel) and is_on_host(self.boxes.like) and model.axes:
            numbers = min(numbers, CACHED_NUMBERS)
        step = max(1, numbers // (work * self.boxes.n_channels))
        inside = None if isinstance(model, WaveModel) else model.inside
        for i, j in runs(len(rows), whole_rows(self.partition, step)):
            some = self.regions[rows[i:j]]
            yield i, j, self.boxes.gather(self.partition, some, model.box, inside)

    def precompute(self) -> "FromSamples":
        """Return the same with coefficients, or mixtures of energies, computed and kept."""
        if self.computed is not None:
            return self
        every, beliefs = np.arange(len(self.regions)), self.beliefs
        if beliefs is None:
            return replace(self, computed=self.take(every))
        work = 2 * beliefs.family.n_members * math.prod(self.box)
        found = [self._mixture(beliefs, Y, every[i:j]) for i, j, Y in self._batches(every, work)]
        mixture = found[0] if len(found) == 1 else namespace(self.like).concat(found, axis=0)
        return replace(self, computed=mixture)

    def with_samples(self, boxes: SampleBoxes) -> "FromSamples":
        """Return those of the same regions for other samples, computed when first asked for."""
        found = replace(self, boxes=boxes, computed=None, is_kept=True)
        if self.beliefs is None:
            return found if is_numpy(self.like) else found.moved(self.like)
        return found.precompute()

    def _mixture(self, beliefs: Beliefs, Y: Array, rows: Integers) -> Array:
        """Mixture of energies of regions, (len(rows), 1 + R), with the samples of their boxes Y."""
        if self.computed is not None:
            return rows_of(self.computed, rows)
        return beliefs.mixture(Y, self.boxes.rounding)

    def energy_weights(self, rows: Integers) -> Array:
        """Weight p of every energy in some regions that choose among them, (len(rows), K)."""
        beliefs = self.beliefs
        assert beliefs is not None
        every = self._batches(rows, 4 * beliefs.work)
        found = [beliefs.weights(Y, self.boxes.rounding) for _, _, Y in every]
        return namespace(self.like).concat(found, axis=0)

    def member_spread(self, rows: Integers, points: Floats) -> Floats:
        """Variance among the functions of all energies in some regions, (len(rows), P, C).

        At points on the grid of half samples, (P, d), counted from the centre of a box; they
        deviate from their mean by the weights of energies.
        """
        beliefs, found = self.beliefs, []
        assert beliefs is not None
        D = beliefs.differences_at(points)
        for _, _, Y in self._batches(rows, beliefs.work + D[:, :, 0].size):
            p = np.asarray(to_numpy(beliefs.weights(Y, self.boxes.rounding)), np.float64)
            f = np.tensordot(np.asarray(to_numpy(Y), np.float64), D, axes=(1, 2))  # (G, C, K, P)
            f = f - np.einsum("gk,gckp->gcp", p, f)[:, :, None]
            found.append(np.einsum("gk,gckp->gpc", p, f**2))
        return np.concatenate(found)

    # --- parts, and other places ----------------------------------------------------------------

    def rows(self, rows: Integers) -> "FromSamples":
        """The same for some of the regions."""
        rows = np.asarray(rows)
        computed = None if self.computed is None else rows_of(self.computed, rows)
        return replace(self, regions=self.regions[rows], computed=computed)

    def channels(self, own: slice) -> "FromSamples":
        """The same for some of the channels."""
        boxes = self.boxes.channels(own)
        if self.beliefs is not None:  # chosen by all channels together
            return replace(self.precompute(), boxes=boxes)
        return replace(
            self, boxes=boxes, computed=None if self.computed is None else self.computed[..., own]
        )

    def moved(self, like: Array) -> "FromSamples":
        """Return coefficients computed and moved; for regions that choose energies, samples too."""
        if self.beliefs is None:
            own = self.precompute()
            return replace(own, computed=move(own.computed, like))
        computed = None if self.computed is None else move(self.computed, like)
        return replace(self, boxes=self.boxes.moved(like), computed=computed)

    @property
    def counts(self) -> Integers:
        """Numbers stored of each region, (G,): coefficients, or the samples of its cell."""
        if self.beliefs is None:
            return super().counts
        at = np.unravel_index(self.regions, self.partition.n_cells)
        sides = [np.diff(e)[i] for e, i in zip(self.partition.edges, at)]
        return np.asarray(np.prod(sides, axis=0) * self.boxes.n_channels)
