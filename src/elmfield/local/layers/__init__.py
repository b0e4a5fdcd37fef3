"""The frozen hidden layers: local coordinates in, features out, with two derivatives.

:class:`Dense` is the paper's. A product layer has one :class:`AxisLayer` per axis; ours is
:class:`Cosines`. Their settings determine them; nothing is trained.
"""

from elmfield.local.layers.axis_layers import AxisLayer as AxisLayer
from elmfield.local.layers.axis_layers import Cosines as Cosines
from elmfield.local.layers.axis_layers import MakeLayer as MakeLayer
from elmfield.local.layers.axis_layers import Pieces as Pieces
from elmfield.local.layers.axis_layers import price as price
from elmfield.local.layers.axis_layers import sample_features as sample_features
from elmfield.local.layers.axis_layers import split as split
from elmfield.local.layers.dense import Activation as Activation
from elmfield.local.layers.dense import Dense as Dense
