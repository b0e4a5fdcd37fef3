"""elmfield: an array as a continuous function, in closed form, without backpropagation.

The way of the data, and of this package's modules::

    array → domain → partition → network → modes → field → store · render · measure
    (samples) (box)   (regions)   (features) (basis)  (function)

`fit` is the pipeline; `settings` holds the presets; `fill` and `points` serve samples that are
missing or lie off any grid. `io` talks to files and to xarray, `cli` to people.
"""

from elmfield._array.cache import cache_modes
from elmfield._array.memory import memory_limit
from elmfield.errors import OutsideDomainError, RankWarning, StoreError, StoreVersionError
from elmfield.field import Field
from elmfield.fit import Encoder, encoder
from elmfield.fit.points import fit_points
from elmfield.io.door import fit, read, write
from elmfield.io.gridded import Gridded
from elmfield.io.model.restore import load
from elmfield.io.model.store import save
from elmfield.local.layers import Dense
from elmfield.measure.curves import psnr_by_width
from elmfield.measure.heldout import heldout_score
from elmfield.measure.metrics import mae, max_error, paper_psnr, psnr
from elmfield.partition import Partition, barron_norm
from elmfield.settings import paper, smooth

beam = Partition.beam

__version__ = "0.1.0"

__all__ = [
    "Dense",
    "Encoder",
    "Field",
    "Gridded",
    "OutsideDomainError",
    "Partition",
    "RankWarning",
    "StoreError",
    "StoreVersionError",
    "barron_norm",
    "beam",
    "cache_modes",
    "encoder",
    "fit",
    "fit_points",
    "heldout_score",
    "load",
    "mae",
    "max_error",
    "memory_limit",
    "paper",
    "paper_psnr",
    "psnr",
    "psnr_by_width",
    "read",
    "save",
    "smooth",
    "write",
]
