"""Presets of a fit: how the domain is cut, and which basis regions have."""

from elmfield.settings.oriented import Oriented as Oriented
from elmfield.settings.oriented import oriented as oriented
from elmfield.settings.presets import Paper as Paper
from elmfield.settings.presets import Smooth as Smooth
from elmfield.settings.presets import paper as paper
from elmfield.settings.presets import smooth as smooth
from elmfield.settings.protocol import Settings as Settings
from elmfield.settings.protocol import Target as Target
from elmfield.settings.protocol import with_levels as with_levels
