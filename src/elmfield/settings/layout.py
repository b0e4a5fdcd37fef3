"""How large the cells of the default are, and how far they overlap; chosen by measurement."""

from collections.abc import Sequence

import numpy as np

from elmfield._array.checks import per_axis

USUAL_ORDER = 1.1
"""The energy order that suited 21 photographs best (docs/defaults.md): for what is too short to
have a spectrum."""

FILL_ORDER = 1.55
"""Order along a line that filled photographs best (benchmarks/targets.py): thin plates, in 2-D."""

WIDE_ORDER = 5.0
"""From this order on boxes overlap more: errors of smooth functions halve."""

RING_SAMPLES = 128
"""Periodic axes of such an order, up to so long, are not cut: their waves are whole numbers."""


def usual_cells(
    d: int, order: float | Sequence[float], is_dense: bool, drops_modes: bool
) -> tuple[int, float, int]:
    """Cell, overlap and context in `d` dimensions (docs/defaults.md)."""
    d = max(d, 1)
    if is_dense:
        return 8, 4.0, 0
    if drops_modes:
        # Half a sample of overlap blends between samples: no sample is stored twice.
        return (32, 0.5, 0) if d == 1 else (16, 0.5, 0) if d <= 3 else (8, 0.5, 0)
    if np.mean(order) >= WIDE_ORDER and d <= 3:
        return {1: (64, 4.0, 4), 2: (32, 3.0, 3), 3: (24, 3.0, 2)}[d]
    return {1: (64, 2.0, 2), 2: (32, 2.0, 2), 3: (24, 2.0, 1)}.get(d, (8, 1.0, 0))


def rings(
    shape: Sequence[int], periodic: Sequence[bool], order: float | Sequence[float]
) -> list[int]:
    """Axes that are so smooth, and so short, that one cell goes all around them."""
    every = zip(shape, periodic, per_axis("order", order, len(shape)))
    found = enumerate(w and s >= WIDE_ORDER and 1 < n <= RING_SAMPLES for n, w, s in every)
    return [k for k, is_ring in found if is_ring]
