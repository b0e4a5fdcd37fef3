"""Cutting Ω into regions Ω_i, and the windows φ_i that blend them."""

from elmfield.partition.cells import Window as Window
from elmfield.partition.cells import fixed_axes as fixed_axes
from elmfield.partition.cells import gather as gather
from elmfield.partition.cells import gather_boxes as gather_boxes
from elmfield.partition.cells import plane_of as plane_of
from elmfield.partition.cells import quintic as quintic
from elmfield.partition.cells import rings_of as rings_of
from elmfield.partition.cells import sample_index as sample_index
from elmfield.partition.cells import whole_rows as whole_rows
from elmfield.partition.cells import without_rings as without_rings
from elmfield.partition.partition import Partition as Partition
from elmfield.partition.windows import blend as blend
