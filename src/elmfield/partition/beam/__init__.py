"""BEAM: regions of equal energy, merged from cells (the paper's Algorithm 1).

`energy` measures sets of cells, `merge` unites them while they stay under a threshold, `search`
finds the threshold for a number of regions. :meth:`Partition.beam` calls them.
"""
