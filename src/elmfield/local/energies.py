"""Energies: what a neuron costs by its frequency, so that the least of them is the smoothest."""

import numpy as np

from elmfield._array.typing import Floats


def price(omega2: Floats, order: float) -> Floats:
    """``E = (ε + ω²)^s``: what a neuron of squared frequency ω² (per sample) costs in the energy.

    Notes
    -----
    ε = 0.01 leaves everything slower than about 60 samples nearly free. For high orders it grows so
    that E, and with it the condition number of the kernel, spans no more than twelve decades; the
    held-out error does not feel it (docs/defaults.md).
    """
    epsilon = max(0.01, np.pi**2 * 10 ** (-12 / order))
    return np.asarray((epsilon + omega2) ** order)
