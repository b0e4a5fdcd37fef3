"""The presets: choices as objects, each knowing how to cut the domain and which models to use."""

from elmfield.settings.oriented import Oriented, oriented
from elmfield.settings.presets import Paper, Settings, Smooth, paper, smooth

__all__ = ["Oriented", "Paper", "Settings", "Smooth", "oriented", "paper", "smooth"]
