"""Cutting Ω into regions Ω_i, and the windows φ_i that blend them."""

from elmfield.partition.cells import (
    fixed_axes,
    gather,
    gather_boxes,
    plane_of,
    sample_index,
    whole_rows,
    without_rings,
)
from elmfield.partition.partition import Partition
from elmfield.partition.windows import Blend, blend

__all__ = [
    "Blend",
    "Partition",
    "blend",
    "fixed_axes",
    "gather",
    "gather_boxes",
    "plane_of",
    "sample_index",
    "whole_rows",
    "without_rings",
]
