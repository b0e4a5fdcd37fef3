"""Bases: functions that are orthonormal on the samples of a box; fitting is projecting on them.

``f(x) = Σ_j rows(x)_j expand(c)_j``. Which regions share a basis, and how regions are blended, is
not known here.
"""

from elmfield.local.bases.axis_modes import axis_modes as axis_modes
from elmfield.local.bases.dense_modes import DenseModes as DenseModes
from elmfield.local.bases.dense_modes import ShapedModes as ShapedModes
from elmfield.local.bases.dense_modes import plain_modes as plain_modes
from elmfield.local.bases.dense_modes import shaped_modes as shaped_modes
from elmfield.local.bases.dense_modes import smooth_dense_modes as smooth_dense_modes
from elmfield.local.bases.dense_weights import SOLVERS as SOLVERS
from elmfield.local.bases.dense_weights import DenseWeights as DenseWeights
from elmfield.local.bases.polyharmonic import Polyharmonic as Polyharmonic
from elmfield.local.bases.product_modes import PolynomialModel as PolynomialModel
from elmfield.local.bases.product_modes import ProductModes as ProductModes
from elmfield.local.bases.product_modes import WaveModel as WaveModel
from elmfield.local.bases.product_modes import polynomial_model as polynomial_model
from elmfield.local.bases.product_modes import product_modes as product_modes
from elmfield.local.bases.product_modes import wave_model as wave_model
