"""The frozen hidden layers: local coordinates in, features out, with two derivatives.

:class:`Dense` is the paper's. A product layer has one :class:`AxisLayer` per axis; ours is
:class:`Cosines`. Their settings determine them; nothing is trained.
"""

from elmfield.local.layers.axis_layers import (
    AxisLayer,
    Cosines,
    MakeLayer,
    Pieces,
    cell_features,
    price,
    split,
)
from elmfield.local.layers.dense import ACTIVATIONS, Dense

__all__ = [
    "ACTIVATIONS",
    "AxisLayer",
    "Cosines",
    "Dense",
    "MakeLayer",
    "Pieces",
    "cell_features",
    "price",
    "split",
]
