"""A blended function of one axis at very many positions: a polynomial for every sample.

The functions of an axis are polynomials on short intervals (`Pieces`); mixed by a region's
coefficients they are one polynomial, of as many numbers as it has terms, not modes.
"""

from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.memory import runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.layers.pieces import split
from elmfield.partition import blend

if TYPE_CHECKING:
    from elmfield.field.blended import Blended

LONGEST = 1 << 17
"""Positions that are worked on together."""


def along(blended: "Blended", x: Floats) -> Floats | None:
    """Values (n, C) at index coordinates x, (n,), ascending; None where this way does not lead.

    It leads for regular cells of one product model on one axis that does not wrap, in NumPy.
    """
    part = blended.partition
    if len(part.shape) != 1 or any(part.periodic) or not blended.is_product:
        return None
    if not isinstance(blended.like, np.ndarray):
        return None
    parts = [_some(blended, x[i:j]) for i, j in runs(len(x), LONGEST)]
    return np.concatenate(parts)


def _some(blended: "Blended", x: Floats) -> Floats:
    b = blend(blended.partition, 0, x)
    out = _of_cells(blended, b.lower, x)
    two = np.flatnonzero(b.ramp[0] > 0)
    if len(two):
        other = _of_cells(blended, b.upper[two], x[two])
        out[two] += b.ramp[0][two, None] * (other - out[two])
    return out


def _of_cells(blended: "Blended", cells: Integers, x: Floats) -> Floats:
    """Local values (n, C) of the cells that are said, (n,), at positions x, (n,)."""
    group = blended.groups[0]
    axes = group.model.axes
    assert axes is not None
    pieces = axes[0].pieces
    J, p, _ = pieces.coefficients.shape
    j, s = split(pieces.scaled(x - blended.centres[blended.partition.labels[cells], 0]))
    pairs, which = np.unique(cells.astype(np.int64) * J + j, return_inverse=True)
    cell, interval = np.divmod(pairs, J)
    names, seat = np.unique(cell, return_inverse=True)
    rows = blended.group_of[1][blended.partition.labels[names]]
    F = np.asarray(group.model.expand(group.coefficients.take(rows)), np.float64)  # (G, r, C)
    c = np.empty((len(pairs), p, F.shape[2]))
    by = np.argsort(interval, kind="stable")
    first = np.flatnonzero(np.diff(interval[by], prepend=-1))
    for some in np.split(by, first[1:]):  # intervals that lie alike in their boxes
        table, own = pieces.coefficients[interval[some[0]]], F[seat[some]]  # (p, r), (g, r, C)
        for k in range(F.shape[2]):
            c[some, :, k] = own[:, :, k] @ table.T
    return _horner(c, which, s)


def _horner(c: Floats, which: Integers, s: Array) -> Floats:
    """``Σ_k c[which, k] s^k``, (n, C)."""
    out: Floats = c[which, -1]
    for k in range(c.shape[1] - 2, -1, -1):
        out *= s[:, None]
        out += c[which, k]
    return out
