"""The preset whose regions choose what they believe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.checks import is_number
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field import Coefficients, sampled
from elmfield.local.bases import WaveModel, wave_model
from elmfield.local.left_out import is_very_smooth, line_order
from elmfield.local.order import exponents, from_both_ends, orders_of
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import Samples
from elmfield.settings.presets import USUAL_ORDER, Settings, Smooth, check_denoise

LAYOUT = {1: (9, 4.5, 2), 2: (3, 1.5, 1), 3: (3, 1.0, 0)}
"""Cell, overlap and context by number of axes: boxes of 21, of 7 by 7 and of 5 by 5 by 5.

Cells are odd, so that an odd number of samples can have one in its middle.
"""

LOOKED_AT = 4096
"""Boxes that choose the order, about."""

SPECTRAL = (0.2, 1.15)
"""``order = 0.2 + 1.15 p``, the least that is chosen: smoother ones are tried by `line_order`."""

STEP = 0.05
"""Orders are rounded to this, so that arrays alike share their factorisations."""


@dataclass(frozen=True)
class Oriented:
    """Settings of regions that choose what they believe; see :func:`oriented`."""

    order: float | str = "auto"
    denoise: float | bool = False
    clip: bool = False

    cell = None  # of its own, by number of axes
    centred = True
    target = None
    own_samples = False
    fill_order = None
    is_linear = False  # channels say together what is believed

    def __post_init__(self) -> None:
        check_denoise(self.denoise)
        if self.clip is not True and self.clip is not False:
            raise ValueError(f"`clip` must be True or False; got {self.clip!r}.")
        if self.order != "auto" and not (is_number(self.order) and 0 < self.order <= 16):
            raise ValueError(
                "`order` must be 'auto' or a number above 0, at most 16 (1 joins samples by "
                f"straight lines, 2 like cubic splines); got {self.order!r}."
            )

    @property
    def is_settled(self) -> bool:
        """Whether the order is a number."""
        return self.order != "auto"

    def settled(self, samples: Samples) -> Settings:
        """These settings with the order chosen, or those of large isotropic boxes.

        The latter for arrays as smooth as an initial condition, and for more than three axes.
        """
        if self.is_settled:
            return self
        y = samples.given
        wide = [k for k, n in enumerate(y.shape[:-1]) if n > 1]
        found = exponents(y, samples.bring)
        if len(wide) > 3 or is_very_smooth([found[k] for k in wide]):
            return Smooth(denoise=self.denoise).settled(samples)
        spectral = orders_of(found, *SPECTRAL, USUAL_ORDER)
        along = float(np.mean([spectral[k] for k in wide] or [USUAL_ORDER]))
        part = self.partition(y.shape[:-1], (False,) * (y.ndim - 1))
        box = tuple(map(int, part.boxes[1][0]))
        order = line_order(samples.bring(_some_boxes(y, part, box)), box, along)
        return Oriented(round(round(order / STEP) * STEP, 9), self.denoise, self.clip)

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Small cells that lie alike from both ends, with boxes of one size."""
        d = sum(n > 1 for n in shape)
        if d > 3 and self.is_settled:
            raise ValueError(
                "oriented(order=...) takes arrays of at most three axes; got shape "
                f"{tuple(shape)}. Use oriented() or smooth(order=...)."
            )
        cell, overlap, context = LAYOUT[min(max(d, 1), 3)]
        return Partition.symmetric(
            shape, cell, overlap, context=context, periodic=np.flatnonzero(periodic)
        )

    def adopt(self, partition: Partition) -> Partition:
        """None: these settings cut the array themselves."""
        raise ValueError(
            "`partition` cannot be given with oriented(): its boxes are small and all alike, and "
            "regions choose their energies, not their shapes. Drop it, or use smooth(...)."
        )

    def model(self, box: tuple[int, ...], inside: Any, like: Array) -> WaveModel:
        """Products of waves, and the beliefs that weigh them."""
        return wave_model(box, float(self.order))

    def fitted(
        self,
        samples: Samples,
        partition: Partition,
        regions: Integers,
        model: WaveModel,
        tell: Callable[[int], None],
    ) -> tuple[Coefficients, Floats]:
        """The samples themselves, and what each region believes; nothing is left over."""
        found = sampled(samples, partition, regions, model.beliefs)
        tell(len(regions))
        return found, np.zeros((len(regions), samples.raw.shape[-1]))


def _some_boxes(y: Array, part: Partition, box: tuple[int, ...]) -> Array:
    """Samples (G, S, C) of boxes taken evenly from all over an array."""
    d = max(1, sum(n > 1 for n in y.shape[:-1]))
    few = int(np.ceil(LOOKED_AT ** (1 / d)))
    cells = [from_both_ends(n, max(1, n // few)) for n in part.n_cells]
    regions = part.labels[np.ix_(*cells)].reshape(-1)
    return gather_boxes(y, part, regions, box)


def oriented(
    *,
    order: float | str = "auto",
    denoise: float | bool = False,
    clip: bool = False,
) -> Oriented:
    """Regions that choose what they believe: across which direction the signal is rough.

    Every small region weighs a family of energies, each smooth along another direction, by how
    likely they make its samples, and blends what they say in between. Passes through the samples;
    not linear in them. docs/oriented.md has the method and what it gains.

    Parameters
    ----------
    order : float or "auto"
        How steeply energies grow with frequency. "auto" reads it off the spectrum, and off samples
        left out; very smooth arrays, and those of more than three axes, are given to
        ``smooth(order="auto")``.
    denoise : bool or float
        Take noise out; True estimates its level, a number is its standard deviation.
    clip : bool
        Keep what is filled in and denoised between the least and the largest of the samples given.
    """
    return Oriented(order, denoise, clip)
