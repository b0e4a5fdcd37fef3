"""elmfield: an array as a continuous function, in closed form, without backpropagation.

Data flows one way, and the rooms of the package are in that order::

    samples → domain → partition → local models → field → measure · keep · show

- `samples`, `domain`: what a caller gives, checked; the box Ω and its named axes.
- `partition`: cells, regions, overlap; regular, or merged by energy (BEAM).
- `local`: one region's model: layers, energies, bases.
- `field`: local models blended into one function: values, derivatives, integrals, grids.
- `fit`, `settings`, `measure`: from samples to a Field; the presets; errors and held-out scores.
- `io`, `show`: files, DataArrays and the model file; pictures.
- `cli`: the command ``elmfield``. `research`: what serves the paper, not the user.

>>> import numpy as np, elmfield as ef
>>> field = ef.fit(np.eye(20))                 # or ef.fit("photo.png"), ef.fit(dataarray)
>>> field.resize((40, 40)).shape
(40, 40)

`import elmfield.io.xarray` gives every DataArray its ``.elm``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmfield._array.cache import cache_modes
from elmfield._array.memory import memory_limit
from elmfield.domain import Axis, Domain
from elmfield.errors import (
    ChannelWarning,
    OutsideDomainError,
    RankWarning,
    StoreError,
    StoreVersionError,
)
from elmfield.field import Field, Report, Target
from elmfield.field.showing import opened_by
from elmfield.fit import Encoder, encoder
from elmfield.io.door import fit, read, write
from elmfield.io.gridded import Gridded
from elmfield.local.layers import Dense
from elmfield.measure.metrics import mae, max_error, paper_psnr, psnr
from elmfield.partition import Partition
from elmfield.settings import Oriented, Paper, Smooth, oriented, paper, smooth

if TYPE_CHECKING:
    from elmfield.fit.points import fit_points
    from elmfield.fit.sphere import sphere
    from elmfield.io.model.restore import load
    from elmfield.io.model.store import save
    from elmfield.io.regrid import regrid
    from elmfield.io.stream.appending import append
    from elmfield.io.viewed import view
    from elmfield.measure.curves import psnr_by_width
    from elmfield.measure.heldout import heldout_score
    from elmfield.partition.beam.barron import barron_norm

LATER = {
    "append": "elmfield.io.stream.appending",
    "barron_norm": "elmfield.partition.beam.barron",
    "fit_points": "elmfield.fit.points",
    "heldout_score": "elmfield.measure.heldout",
    "load": "elmfield.io.model.restore",
    "psnr_by_width": "elmfield.measure.curves",
    "regrid": "elmfield.io.regrid",
    "save": "elmfield.io.model.store",
    "sphere": "elmfield.fit.sphere",
    "view": "elmfield.io.viewed",
}
"""Names whose rooms are opened when first asked for: a third of the time of the import."""

beam = Partition.beam


def __getattr__(name: str) -> Any:
    if name not in LATER:
        raise AttributeError(f"module 'elmfield' has no attribute {name!r}")
    return getattr(import_module(LATER[name]), name)


opened_by(lambda field, **options: __getattr__("view")(field, **options))


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
    "Oriented",
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
    "encoder",
    "fit",
    "fit_points",
    "heldout_score",
    "load",
    "mae",
    "max_error",
    "memory_limit",
    "oriented",
    "paper",
    "paper_psnr",
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
