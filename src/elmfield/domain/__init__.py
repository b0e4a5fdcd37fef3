"""The box Ω: named axes, and the way from physical coordinates to sample indices and back."""

from elmfield.domain.box import Axis, Domain, make_domain

__all__ = ["Axis", "Domain", "make_domain"]
