"""Rows of observations in a basis of products: a matrix per axis, multiplied row by row."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from elmfield._array.typing import Floats
from elmfield.domain import Domain
from elmfield.fit.observations.observation import Observation, Resolution, Term

AxisFunction = Callable[[Floats, int], Floats]
"""Functions of one axis, (m, width), at index coordinates (m,), differentiated so many times."""

BATCH_NUMBERS = 1 << 22
"""Numbers of an axis's matrix that are held at once."""


@dataclass(frozen=True, eq=False)
class AxisRows:
    """What rows are made of: the domain, and functions of each of its axes.

    Parameters
    ----------
    domain : Domain
        Whose axes have even spacing.
    axes : list of callables
        The functions of each axis; a basis has all their products, in array order.
    widths : tuple of int
        How many there are.
    resolution : Resolution
        What quadrature has to resolve.
    """

    domain: Domain
    axes: list[AxisFunction] = field(repr=False)
    widths: tuple[int, ...]
    resolution: Resolution = field(repr=False)

    def along(self, term: Term, k: int, part: slice) -> Floats:
        """Rows of axis k, (n, width): weighted sums over the nodes of a term."""
        axis, order = self.domain.axes[k], term.order[k]
        x, w = term.positions[k][part], term.weights[k][part]
        n, q = x.shape
        index = np.asarray(axis.to_index(x.reshape(-1)))
        if axis.period is None:
            index = np.clip(index, -0.5, axis.size - 0.5)
        else:
            index = (index + 0.5) % axis.size - 0.5
        F = np.asarray(self.axes[k](index, order)).reshape(n, q, -1)
        found = F[:, 0] * w[:, :1] if q == 1 else np.einsum("nqm,nq->nm", F, w)
        return np.asarray(found / axis.step**order)

    def dense(self, term: Term) -> Floats:
        """All products, (n, m): rows of a term, summed where several make one."""
        count, m = len(term.factor), int(np.prod(self.widths))
        n = count if term.row is None else int(term.row.max()) + 1
        out = np.zeros((n, m))
        widest = max(x.shape[1] * w for x, w in zip(term.positions, self.widths))
        step = max(1, BATCH_NUMBERS // max(widest, m))
        for i in range(0, count, step):
            part = slice(i, min(i + step, count))
            rows = term.factor[part][:, None]
            for k in range(len(self.axes)):
                own = self.along(term, k, part)
                rows = (rows[:, :, None] * own[:, None, :]).reshape(len(rows), -1)
            if term.row is None:
                out[part] = rows
            else:
                owner = term.row[part]
                starts = np.flatnonzero(np.diff(owner, prepend=-1))
                out[owner[starts]] += np.add.reduceat(rows, starts, axis=0)
        return out

    def matrix(self, observation: Observation, n_channels: int, *, coupled: bool) -> Floats:
        """Rows of an observation; where channels are coupled, in all of their coefficients.

        (n, m), or (n C, C m) and (n, C m) for rows of one channel each and of several.
        """
        terms = observation.functional.terms(self.resolution)
        if not coupled:
            return np.asarray(sum(self.dense(t) for t in terms))
        m = int(np.prod(self.widths))
        if terms[0].channel is None:
            one = np.asarray(sum(self.dense(t) for t in terms))
            return diagonal(one, n_channels)
        out = np.zeros((len(observation), n_channels, m))
        for t in terms:
            out[:, t.channel] += self.dense(t)
        return out.reshape(len(out), -1)


def diagonal(rows: Floats, n_channels: int) -> Floats:
    """The same rows for each channel's own coefficients, (n C, C m); channels vary fastest."""
    n, m = rows.shape
    out = np.zeros((n, n_channels, n_channels, m))
    for c in range(n_channels):
        out[:, c, c] = rows
    return out.reshape(n * n_channels, -1)
