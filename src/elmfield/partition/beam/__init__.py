"""BEAM: regions of equal energy, merged from cells (the paper's Algorithm 1).

`regions` are sets of cells, `barron` measures them, `merge` unites them while they stay under a
threshold, `search` finds the threshold for a number of regions. :meth:`Partition.beam` is the door.
"""
