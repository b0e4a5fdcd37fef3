"""Cutting Ω into regions Ω_i, and the windows φ_i that blend them."""

from elmfield.partition.beam import beam
from elmfield.partition.energy import barron_norm
from elmfield.partition.geometry import Partition
from elmfield.partition.regular import per_axis, regular
from elmfield.partition.samples import gather, gather_boxes, sample_index
from elmfield.partition.window import Blend, blend

__all__ = [
    "Blend",
    "Partition",
    "barron_norm",
    "beam",
    "blend",
    "gather",
    "gather_boxes",
    "per_axis",
    "regular",
    "sample_index",
]
