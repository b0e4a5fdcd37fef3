"""The preset whose regions choose their energies, each smooth along another direction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmfield._array.typing import Array
from elmfield.domain import Spacing
from elmfield.local import order as line_choice
from elmfield.local.bases import WaveModel, wave_model
from elmfield.local.bases.spline_modes import spline_order
from elmfield.local.order import LEAST_SAMPLES, probe_grids
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import Grid, View
from elmfield.settings.presets import USUAL_ORDER, Smooth, check_order
from elmfield.settings.protocol import Noise, Settings, parse_noise

CELL_LAYOUT = {1: (9, 4.5, 2), 2: (3, 1.5, 1), 3: (3, 1.0, 0)}
"""Cell, overlap and context by number of axes: boxes of 21, of 7 by 7 and of 5 by 5 by 5.

Cells are odd, so that an odd number of samples can have one in its middle.
"""

ORDER_PROBE_BOXES = 4096
"""Boxes from which the order is chosen, about."""

SPECTRAL_ORDER = (0.2, 1.15)
"""``order = 0.2 + 1.15 p``, the least that is chosen: smoother ones are tried by `line_order`."""

LARGE_BOX_ORDER = 4.0
"""From this given order on, boxes are large and isotropic: polynomials below it are free there."""

WANTS_LARGE_BOXES = 6.0
"""Orders along every axis that large boxes choose for themselves and are better at; three free
polynomials count as much."""

ORDER_STEP = 0.05
"""Orders are rounded to this, so that arrays alike share their factorisations."""


@dataclass(frozen=True)
class Oriented:
    """Settings of regions that choose their energies; see :func:`oriented`.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.oriented(denoise=3.0).denoise
    3.0
    """

    order: float | str = "auto"
    denoise: Noise = False
    clip: bool = False
    samples: str = "points"
    chosen: bool = False  # whether the order is not the caller's, but found for the samples

    cell = None  # of its own, by number of axes
    centred = True
    target = None
    own_samples = False
    fill_order = None
    is_linear = False  # channels say together what is believed

    def __post_init__(self) -> None:
        object.__setattr__(self, "denoise", parse_noise(self.denoise))
        if self.clip is not True and self.clip is not False:
            raise ValueError(f"`clip` must be True or False; got {self.clip!r}.")
        if not (isinstance(self.order, str) and self.order == "auto"):
            check_order(self.order)

    @property
    def is_resolved(self) -> bool:
        """Whether the order is a number that regions can choose around."""
        return not isinstance(self.order, str) and (self.chosen or self.order < LARGE_BOX_ORDER)

    def probe_grids(self, shape: Sequence[int]) -> tuple[Grid, ...]:
        """Lines for the spectrum, and boxes from all over the array, unless an order was given."""
        if self.order != "auto":
            return ()
        return (*probe_grids(shape), self._some_boxes(shape)[0])

    def resolve(self, view: View) -> Settings:
        """These settings with the order chosen, or those of large isotropic boxes.

        The latter for arrays that want free polynomials or very high orders, as an initial
        condition does, and for more than three axes.
        """
        if not isinstance(self.order, str):
            return self if self.is_resolved else Smooth(order=self.order, denoise=self.denoise)
        wide = [k for k, n in enumerate(view.shape[:-1]) if n > 1]
        means = self.samples == "means"
        found = line_choice.exponents(view, means)
        large = Smooth(denoise=self.denoise, samples=self.samples).resolve(view)
        wants = np.maximum(np.asarray(large.order, float), 2.0 * np.asarray(large.free))[wide]
        smooth = wide and wants.min() >= WANTS_LARGE_BOXES
        if smooth or len(wide) > 3 or line_choice.is_very_smooth([found[k] for k in wide]):
            return large
        spectral = line_choice.orders_of(found, *SPECTRAL_ORDER, USUAL_ORDER)
        along = float(np.mean([spectral[k] for k in wide] or [USUAL_ORDER]))
        grid, box = self._some_boxes(view.shape)
        tiles = Partition.regular([len(at) for at in grid], box)
        Y = gather_boxes(view.on(grid), tiles, np.arange(tiles.n_regions), box)
        order = line_choice.line_order(Y, box, along, means)
        rounded = round(round(order / ORDER_STEP) * ORDER_STEP, 9)
        return replace(self, order=rounded, chosen=True)

    def _some_boxes(self, shape: Sequence[int]) -> tuple[Grid, tuple[int, ...]]:
        """Where the samples of boxes lie that are taken evenly from all over an array; a box."""
        part = self.partition(shape[:-1], (False,) * (len(shape) - 1))
        box = tuple(map(int, part.boxes[1][0]))
        few = int(np.ceil(ORDER_PROBE_BOXES ** (1 / max(1, sum(n > 1 for n in part.shape)))))
        grid = []
        for k, (n, b) in enumerate(zip(part.n_cells, box)):
            line = part.lines[k][line_choice.from_both_ends(n, max(1, n // few))]
            grid.append(part.within(k, line[:, None] + np.arange(b)).reshape(-1))
        return tuple(grid), box

    def partition(self, shape: Sequence[int], periodic: Sequence[bool]) -> Partition:
        """Small cells that lie alike from both ends, with boxes of one size."""
        d = sum(n > 1 for n in shape)
        if d > 3 and self.is_resolved:
            raise ValueError(
                "oriented(order=...) takes arrays of at most three axes; got shape "
                f"{tuple(shape)}. Use oriented() or smooth(order=...)."
            )
        cell, overlap, context = CELL_LAYOUT[min(max(d, 1), 3)]
        wraps = np.flatnonzero(periodic)
        return Partition.symmetric(shape, cell, overlap, context=context, periodic=wraps)

    def adopt(self, partition: Partition) -> Partition:
        """Raise: these settings cut the array themselves."""
        raise ValueError(
            "`partition` cannot be given with oriented(): its boxes are small and all alike, and "
            "regions choose their energies, not their shapes. Drop it, or use smooth(...)."
        )

    def model(self, box: tuple[int, ...], inside: Array | None, like: Array) -> WaveModel:
        """Products of waves, and the energies among which regions choose."""
        return wave_model(box, float(self.order), self.samples == "means")


def resolved(asked: Settings, view: View, spacings: Sequence[Spacing | None]) -> Settings:
    """Settings with every choice made that depends on samples, some of whose axes may be uneven.

    Energies of directions need even samples: `oriented` is `smooth` where some are not. An order
    that was not given is, along an uneven axis, that of the splines which predict samples best.
    """
    settings = asked.resolve(view)
    if not any(spacings):
        return settings
    if isinstance(settings, Oriented):
        order = settings.order if asked.is_resolved else "auto"
        own = Smooth(order=order, denoise=settings.denoise, samples=settings.samples)
        settings = own.resolve(view)
    shape = view.shape
    if isinstance(settings, Smooth) and settings.cell is None and settings.overlap is None:
        around = [n for n, s in zip(shape, spacings) if s is not None and s.turn is not None]
        if around:  # an overlap leaves rings out: their functions are waves, for even axes
            settings = replace(settings, overlap=min(2.0, min(around) / 4))
    if asked.is_resolved or not isinstance(settings, Smooth) or settings.network is not None:
        return settings
    orders = list(np.broadcast_to(settings.order, len(spacings)))
    probed = [k for k, n in enumerate(shape[:-1]) if n >= LEAST_SAMPLES]
    for k, grid in zip(probed, probe_grids(shape)):
        spacing = spacings[k]
        if spacing is not None:
            orders[k] = spline_order(view, k, grid, spacing, settings.samples == "means")
    return replace(settings, order=tuple(map(float, orders)))


def oriented(
    *,
    order: float | str = "auto",
    denoise: float | bool | str | Array = False,
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
        ``smooth(order="auto")``, and all of them from order 4 on to ``smooth(order=order)``.
    denoise : bool, float, array or "poisson"
        Take noise out; True estimates its level, which the field's settings then have. A number is
        its standard deviation, an array that of each channel or sample; "poisson" is for counts.
    clip : bool
        Keep what is filled in and denoised between the least and the largest of the samples given.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> i, j = np.indices((32, 32))
    >>> ef.fit(np.tanh((0.8 * i - 0.6 * j) / 1.5), ef.oriented()).resize(scale=2).shape
    (64, 64)
    """
    return Oriented(order, denoise, clip)
