"""Rings: regions that go all around a periodic axis, cut so that they have borders to blend at.

A region's model knows one coordinate along an axis; where it meets its own other end, it jumps. Two
halves of a ring meet at borders, where windows blend them like any two neighbours.
"""

from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.typing import Integers

if TYPE_CHECKING:
    from elmfield.partition.partition import Partition


def without_rings(part: "Partition") -> "Partition":
    """The partition with every ring cut into two regions; as it is where there is none."""
    around = np.flatnonzero(part.periodic)
    if not any(part.overlap) or (part.is_regular and all(part.n_cells[k] > 1 for k in around)):
        return part
    for k in around:
        part = _cut(part, int(k))
    return part


def _cut(part: "Partition", k: int) -> "Partition":
    """The partition without regions that take all cells of axis k."""
    count = part.n_cells[k]
    taken = np.zeros((part.n_regions, count), bool)
    taken[part.labels, np.indices(part.n_cells)[k]] = True
    rings = np.flatnonzero(taken.all(axis=1))
    if not len(rings):
        return part
    edges, labels = part.edges[k], part.labels
    if count == 1:  # one cell all around: two of half its size
        edges = np.asarray([edges[0], (edges[0] + edges[-1]) // 2, edges[-1]])
        labels, count = np.repeat(labels, 2, axis=k), 2
    position = np.indices(labels.shape)[k]
    upper = np.isin(labels, rings) & (position >= count // 2)
    labels = _numbered(np.where(upper, labels + part.n_regions, labels))
    widths = list(part.overlap)
    widths[k] = min(widths[k], float(np.diff(edges).min()) / 2)
    every = (*part.edges[:k], edges, *part.edges[k + 1 :])
    return part.changed(edges=every, labels=labels, overlap=tuple(widths))


def _numbered(labels: Integers) -> Integers:
    """Labels without gaps, in the order of first cells."""
    found, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(found), np.int64)
    rank[np.argsort(first)] = np.arange(len(found))
    return rank[inverse].reshape(labels.shape)
