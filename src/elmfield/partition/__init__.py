"""Cutting Ω into regions Ω_i, and the windows φ_i that blend them."""

from elmfield.partition.cells import gather as gather
from elmfield.partition.cells import gather_boxes as gather_boxes
from elmfield.partition.cells import sample_index as sample_index
from elmfield.partition.cells import whole_rows as whole_rows
from elmfield.partition.partition import Partition as Partition
from elmfield.partition.windows import blend as blend
