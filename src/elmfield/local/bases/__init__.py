"""Bases: functions that are orthonormal on the samples of a box; fitting is projecting on them.

``f(x) = Σ_j rows(x)_j expand(c)_j``. Which regions share a basis, and how regions are blended, is
not known here.
"""

from elmfield.local.bases.axis_modes import AxisModes, axis_modes
from elmfield.local.bases.dense_modes import (
    DenseModes,
    box_positions,
    half_widths,
    plain_modes,
    smooth_dense_modes,
)
from elmfield.local.bases.dense_weights import (
    SOLVERS,
    DenseWeights,
    ShapedModes,
    shaped_modes,
)
from elmfield.local.bases.polyharmonic import Polyharmonic
from elmfield.local.bases.product_modes import (
    PolynomialModel,
    ProductModes,
    WaveModel,
    polynomial_model,
    product_modes,
    wave_model,
)

__all__ = [
    "SOLVERS",
    "AxisModes",
    "DenseModes",
    "DenseWeights",
    "Polyharmonic",
    "PolynomialModel",
    "ProductModes",
    "ShapedModes",
    "WaveModel",
    "axis_modes",
    "box_positions",
    "half_widths",
    "plain_modes",
    "polynomial_model",
    "product_modes",
    "shaped_modes",
    "smooth_dense_modes",
    "wave_model",
]
