"""A blended function of one variable at many positions: polynomials made and used run by run."""

from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.memory import runs
from elmfield._array.threads import spread
from elmfield._array.typing import Floats, Integers
from elmfield.field.intervals import Intervals, intervals_of

if TYPE_CHECKING:
    from elmfield.field.blended import Blended

RUN = 1 << 14
"""Intervals whose polynomials are made together: they stay in the cache until they are used."""


def on_line(blended: "Blended", x: Floats) -> Floats | None:
    """Values (n, C) at ascending index coordinates; None where these are no polynomials.

    On an interval the function is ``Σ_t s^t Σ_q rows[t, q] c[q]``: intervals with the same rows
    share one matrix product. Time and memory are linear in samples and positions.
    """
    axes = intervals_of(blended, ((float(x[0]), float(x[-1])),))
    if axes is None:
        return None
    (own,) = axes
    out = np.empty((len(x), blended.n_channels), np.asarray(blended.like).dtype)
    j = own.places(x)[0]
    ends = np.searchsorted(j, np.arange(0, own.count + RUN, RUN))

    def work(span: tuple[int, int]) -> None:
        i, first = span[0] // RUN, span[0]
        some = slice(int(ends[i]), int(ends[i + 1]))
        if some.start == some.stop:
            return
        c = _coefficients(blended, own, np.arange(*span))
        at, s = own.places(x[some])
        at -= first
        for channel in range(c.shape[2]):
            total = c[-1, :, channel].take(at)
            for term in c[-2::-1, :, channel]:
                total *= s
                total += term.take(at)
            out[some, channel] = total

    spread(work, runs(own.count, RUN), None if blended.groups[0].coefficients.is_shared else 1)
    return out


def _coefficients(blended: "Blended", own: Intervals, which: Integers) -> Floats:
    """Coefficients of the powers of s on some intervals, (K, j, C)."""
    table = own.pieces.coefficients  # (U, K, q)
    group, (_, row) = blended.groups[0], blended.group_of
    cells = np.unique(np.concatenate([own.lower[which], own.upper[which]]))
    regions = blended.partition.labels.reshape(-1)[cells]
    F = np.asarray(group.model.expand(group.coefficients.take(row[regions])), np.float64)
    out = np.zeros((len(which), F.shape[2], table.shape[1]))
    for side, who in enumerate((own.lower, own.upper)):
        piece, seat = own.piece[which, side], np.searchsorted(cells, who[which])
        by = np.argsort(piece, kind="stable")
        names, first = np.unique(piece[by], return_index=True)
        for u, some in zip(names, np.split(by, first[1:])):
            if u >= 0:
                for c in range(F.shape[2]):
                    out[some, c] += F[:, :, c][seat[some]] @ table[u].T
    return np.ascontiguousarray(out.transpose(2, 0, 1))
