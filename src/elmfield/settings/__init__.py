"""Presets of a fit: how the domain is cut, and which basis regions have."""

from elmfield.settings.oriented import Oriented, oriented
from elmfield.settings.presets import Paper, Smooth, paper, smooth
from elmfield.settings.protocol import Settings, Target, with_levels

__all__ = [
    "Oriented",
    "Paper",
    "Settings",
    "Smooth",
    "Target",
    "oriented",
    "paper",
    "smooth",
    "with_levels",
]
