"""elmfield: an array as a continuous function, in closed form, without backpropagation.

Data flows one way, and the packages are listed in that order::

    samples → domain → partition → local models → field → measure · save · show

- `samples`, `domain`: what a caller gives, checked; the box Ω and its named axes.
- `partition`: cells, regions, overlap; regular, or merged by energy (BEAM).
- `local`: one region's model: layers, energies, bases.
- `field`: local models blended into one function: values, derivatives, integrals, grids.
- `fit`, `settings`, `measure`: from samples to a Field; the presets; errors and held-out scores.
- `io`, `show`: files, DataArrays and the model file; pictures.
- `codec`: arrays to bytes and back, used by `io`.
- `observe`, `sklearn`: what can be observed of a function; estimators of scikit-learn.
- `cli`: the command ``elmfield``.

>>> import numpy as np, elmfield as ef
>>> field = ef.fit(np.eye(20))                 # or ef.fit("photo.png"), ef.fit(dataarray)
>>> field.resize((40, 40)).shape
(40, 40)

`import elmfield.io.xarray` gives every DataArray its ``.elm``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmfield._array.cache import cache_modes
from elmfield._array.running import memory_limit
from elmfield.domain import Axis, Domain
from elmfield.errors import (
    ChannelWarning,
    NoiseWarning,
    OutsideDomainError,
    RankWarning,
    StoreError,
    StoreVersionError,
)
from elmfield.field import Field, Report
from elmfield.field.coordinates.labels import Labels
from elmfield.fit import Encoder
from elmfield.io.api import OutputGrid, encoder, fit, read, regrid, write
from elmfield.io.gridded import Gridded
from elmfield.local.layers import Dense
from elmfield.measure.metrics import mae, max_error, paper_psnr, psnr
from elmfield.partition import Partition
from elmfield.settings import Oriented, Paper, Smooth, Target, oriented, paper, smooth

if TYPE_CHECKING:
    from elmfield.fit.curvilinear import curvilinear
    from elmfield.fit.globe import sphere
    from elmfield.fit.observations.fit_observations import fit_observations
    from elmfield.fit.polygon_means import polygon_means
    from elmfield.fit.scattered.points import fit_points
    from elmfield.io.model.load import load
    from elmfield.io.model.save import save
    from elmfield.io.stream.append import append
    from elmfield.io.view_source import view
    from elmfield.measure.scores import heldout_score, over_seeds, psnr_by_width
    from elmfield.partition.barron import barron_norm

LATER = {
    "append": "elmfield.io.stream.append",
    "barron_norm": "elmfield.partition.barron",
    "curvilinear": "elmfield.fit.curvilinear",
    "fit_observations": "elmfield.fit.observations.fit_observations",
    "fit_points": "elmfield.fit.scattered.points",
    "heldout_score": "elmfield.measure.scores",
    "load": "elmfield.io.model.load",
    "over_seeds": "elmfield.measure.scores",
    "polygon_means": "elmfield.fit.polygon_means",
    "psnr_by_width": "elmfield.measure.scores",
    "save": "elmfield.io.model.save",
    "sphere": "elmfield.fit.globe",
    "view": "elmfield.io.view_source",
}
"""Names whose modules are imported at first use: they would take half as long again as the rest."""

beam = Partition.beam


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'elmfield' has no attribute {name!r}")
    return getattr(import_module(LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *LATER})


__version__ = "0.1.0"

__all__ = [
    "Axis",
    "ChannelWarning",
    "Dense",
    "Domain",
    "Encoder",
    "Field",
    "Gridded",
    "Labels",
    "NoiseWarning",
    "Oriented",
    "OutputGrid",
    "OutsideDomainError",
    "Paper",
    "Partition",
    "RankWarning",
    "Report",
    "Smooth",
    "StoreError",
    "StoreVersionError",
    "Target",
    "append",
    "barron_norm",
    "beam",
    "cache_modes",
    "curvilinear",
    "encoder",
    "fit",
    "fit_observations",
    "fit_points",
    "heldout_score",
    "load",
    "mae",
    "max_error",
    "memory_limit",
    "oriented",
    "over_seeds",
    "paper",
    "paper_psnr",
    "polygon_means",
    "psnr",
    "psnr_by_width",
    "read",
    "regrid",
    "save",
    "smooth",
    "sphere",
    "view",
    "write",
]
