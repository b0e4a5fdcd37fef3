"""The box Ω: named axes, and the way from physical coordinates to sample indices and back."""

from elmfield.domain.axis import Axis as Axis
from elmfield.domain.axis import Spacing as Spacing
from elmfield.domain.box import Domain as Domain
from elmfield.domain.box import Periodic as Periodic
from elmfield.domain.box import make_domain as make_domain
from elmfield.domain.box import names_of as names_of
from elmfield.domain.box import periods_of as periods_of
from elmfield.domain.box import wraps_of as wraps_of
