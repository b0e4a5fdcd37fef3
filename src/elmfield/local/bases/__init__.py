"""Bases: functions that are orthonormal on the samples of a box; fitting is projecting on them.

``f(x) = Σ_j rows(x)_j expand(c)_j``. Which regions share a basis, and how regions are blended, is
not known here.
"""

from elmfield.local.bases.axis import AxisModes, axis_modes
from elmfield.local.bases.dense import (
    DenseModes,
    box_positions,
    half_widths,
    plain_modes,
    smooth_dense_modes,
)
from elmfield.local.bases.neurons import ProductNeurons
from elmfield.local.bases.polyharmonic import Polyharmonic
from elmfield.local.bases.product import (
    ProductModes,
    product_modes,
    smoothness,
)
from elmfield.local.bases.shaped import ShapedModes, shaped_modes
from elmfield.local.bases.waves import WaveModel, wave_model

__all__ = [
    "AxisModes",
    "DenseModes",
    "Polyharmonic",
    "ProductModes",
    "ProductNeurons",
    "ShapedModes",
    "WaveModel",
    "axis_modes",
    "box_positions",
    "half_widths",
    "plain_modes",
    "product_modes",
    "shaped_modes",
    "smooth_dense_modes",
    "smoothness",
    "wave_model",
]
