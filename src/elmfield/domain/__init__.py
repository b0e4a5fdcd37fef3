"""The box Ω: named axes, and the way from physical coordinates to sample indices and back."""

from elmfield.domain.axis import Axis, Spacing
from elmfield.domain.box import Domain, Periodic, make_domain, names_of, periods_of, wraps_of

__all__ = [
    "Axis",
    "Domain",
    "Periodic",
    "Spacing",
    "make_domain",
    "names_of",
    "periods_of",
    "wraps_of",
]
