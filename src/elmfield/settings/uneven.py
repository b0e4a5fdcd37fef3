"""Settings of arrays with uneven axes."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmfield.domain import Spacing
from elmfield.local.bases.spline_modes import spline_order
from elmfield.local.order import LEAST_SAMPLES, probe_grids
from elmfield.samples import View
from elmfield.settings.oriented import Oriented
from elmfield.settings.presets import Smooth
from elmfield.settings.protocol import Settings


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
        settings = Smooth(order=order, denoise=settings.denoise).resolve(view)
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
            orders[k] = spline_order(view, k, grid, spacing)
    return replace(settings, order=tuple(map(float, orders)))
