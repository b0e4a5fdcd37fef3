"""A blended function of one axis at very many positions: a polynomial for every sample.

The functions of an axis are polynomials on short intervals (`Pieces`); mixed by a region's
coefficients they are one polynomial, of as many numbers as it has terms, not modes. Time and memory
are linear in samples and positions.
"""

from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.memory import runs
from elmfield._array.threads import spread
from elmfield._array.typing import Floats, Integers
from elmfield.local.layers.pieces import Pieces, split
from elmfield.partition import blend

if TYPE_CHECKING:
    from elmfield.field.blended import Blended

RUN = 1 << 15
"""Positions that are worked on together: polynomials of their intervals stay in the cache."""

SPARSE = 4
"""Intervals for every position from which polynomials of all of them are not worth making."""


def along(blended: "Blended", x: Floats) -> Floats | None:
    """Values (n, C) at index coordinates x, (n,); None where this way does not lead.

    It leads for regular cells of one product model on one axis, in NumPy. It is fast where
    neighbours follow each other.
    """
    part = blended.partition
    if len(part.shape) != 1 or not blended.is_product or not isinstance(blended.like, np.ndarray):
        return None
    group = blended.groups[0]
    axes = group.model.axes
    assert axes is not None
    pieces = axes[0].pieces
    tables = np.ascontiguousarray(pieces.coefficients.transpose(1, 2, 0))  # (p, r, J)
    out = np.empty((len(x), blended.n_channels))

    def work(span: tuple[int, int]) -> None:
        at, some = x[slice(*span)], out[slice(*span)]
        b = blend(part, 0, at)
        _of_cells(blended, pieces, tables, b.lower, at, some)
        two = np.flatnonzero(b.ramp[0] > 0)
        if len(two):
            other = np.empty((len(two), out.shape[1]))
            _of_cells(blended, pieces, tables, b.upper[two], at[two], other)
            some[two] += b.ramp[0][two, None] * (other - some[two])

    spread(work, runs(len(x), RUN), None if group.coefficients.is_shared else 1)
    return out


def _of_cells(
    blended: "Blended", pieces: Pieces, tables: Floats, cells: Integers, x: Floats, out: Floats
) -> None:
    """Local values of the cells that are said, (n,), at positions x, (n,), into `out`, (n, C)."""
    part, group = blended.partition, blended.groups[0]
    J, n = tables.shape[2], len(x)
    first = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
    regions = part.labels[cells[first]]
    seat = np.repeat(np.arange(len(first)), np.diff(first, append=n))
    u = x - blended.centres[regions, 0].take(seat)
    if part.periodic[0]:
        u -= np.round(u / part.shape[0]) * part.shape[0]
    j, s = split(pieces.scaled(u))
    F = np.asarray(group.model.expand(group.coefficients.take(blended.group_of[1][regions])))
    F = np.asarray(F, np.float64)  # (G, r, C)
    if len(first) * J > SPARSE * n:
        np.einsum("nr,nrc->nc", pieces.at(j, s), F[seat], out=out)
        return
    seat *= J
    seat += j
    plane, term = np.empty((len(first), J)), np.empty(n)
    for c in range(F.shape[2]):
        own, total = np.ascontiguousarray(F[:, :, c]), np.zeros(n)
        for table in tables[::-1]:
            np.matmul(own, table, out=plane)
            plane.reshape(-1).take(seat, out=term, mode="clip")
            total *= s
            total += term
        out[:, c] = total
