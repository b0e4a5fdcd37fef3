"""BEAM: regions of equal energy, merged from cells (the paper's Algorithm 1)."""

from elmfield.partition.beam.barron import barron_norm
from elmfield.partition.beam.merge import beam

__all__ = ["barron_norm", "beam"]
