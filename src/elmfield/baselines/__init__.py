"""Trained networks to compare with: SIREN, FFN, GaussNet, WIRE, a hash grid, called like a Field.

An array and a method go in, a :class:`Fitted` comes out. Needs PyTorch (``elmfield[torch]``), which
is imported when a fit begins and not before.
"""

from elmfield.baselines.fitted import Fitted, Row
from elmfield.baselines.methods import ffn, gaussnet, hashgrid, paper_grid, siren, wire
from elmfield.baselines.training import fit, search

__all__ = [
    "Fitted",
    "Row",
    "ffn",
    "fit",
    "gaussnet",
    "hashgrid",
    "paper_grid",
    "search",
    "siren",
    "wire",
]
