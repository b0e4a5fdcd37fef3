"""Trained networks to compare with: SIREN, FFN, GaussNet, WIRE, a hash grid, called like a Field.

An array, a method (a torch module of your own, too) and a schedule go in, a :class:`Fitted` comes
out; `region_by_region` is ELM-INR
as the paper writes it. Needs PyTorch (``elmfield[torch]``), which is imported when a fit begins and
not before.
"""

from paper.research.baselines.fitted import Fitted, Row
from paper.research.baselines.halving import search
from paper.research.baselines.kept import load, save
from paper.research.baselines.own import own
from paper.research.baselines.printed import region_by_region
from paper.research.baselines.published import ffn, gaussnet, hashgrid, paper_grid, siren, wire
from paper.research.baselines.schedule import Schedule
from paper.research.baselines.training import fit

__all__ = [
    "Fitted",
    "Row",
    "Schedule",
    "ffn",
    "fit",
    "gaussnet",
    "hashgrid",
    "load",
    "own",
    "paper_grid",
    "region_by_region",
    "save",
    "search",
    "siren",
    "wire",
]
