"""How far the members of a mixture of energies are apart between samples.

A region that weighs energies by their evidence has a function of each; where these differ the
mixture, which is their mean, may be wrong by as much. All of them meet the samples.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.running import runs
from elmfield._array.typing import Floats, Integers
from elmfield.field.coefficients.from_samples import FromSamples

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended

REGIONS_AT_ONCE = 2048
"""Regions whose members are evaluated together."""


def mixture_spread(blended: "Blended") -> Callable[[Sequence[Floats]], Floats] | None:
    """What gives variances among members on a grid of middles; None without a mixture."""
    every = [g.coefficients for g in blended.groups]
    chosen = [c for c in every if isinstance(c, FromSamples) and c.beliefs is not None]
    return partial(_spread_on_grid, blended, chosen) if len(chosen) == len(every) else None


def _cells_at(borders: Floats, x: Floats) -> tuple[Integers, Integers]:
    """Pairs of a position, by its number, and a cell it lies in; two where it is a border."""
    ends = [np.searchsorted(borders, x, side) - 1 for side in ("left", "right")]
    cells = np.clip(np.concatenate(ends), 0, len(borders) - 2)
    pairs = np.unique(np.stack([np.tile(np.arange(len(x)), 2), cells], axis=1), axis=0)
    return pairs[:, 0], pairs[:, 1]


def _spread_on_grid(
    blended: "Blended", chosen: Sequence[FromSamples], x: Sequence[Floats]
) -> Floats:
    """Variances (..., C) on a grid of index coordinates: the mean of the cells that share a place.

    The spread of a region is taken on the grid of half samples of its box.
    """
    part, shape = blended.partition, tuple(map(len, x))
    at, cells = zip(*(_cells_at(part.borders(k), c) for k, c in enumerate(x)))
    region = part.labels[np.ix_(*cells)].ravel()
    place = np.ravel_multi_index(np.ix_(*at), shape).ravel()
    every = np.stack(np.meshgrid(*x, indexing="ij"), axis=-1).reshape(-1, len(x))
    u, which = np.unique(
        np.rint(2 * (every[place] - blended.centres[region])) / 2, axis=0, return_inverse=True
    )
    total, times = np.zeros((len(every), blended.n_channels)), np.bincount(place)
    of, row = (a[region] for a in blended.group_of)
    for k, coefficients in enumerate(chosen):
        own = np.flatnonzero(of == k)
        own = own[np.argsort(row[own], kind="stable")]
        rows, first = np.unique(row[own], return_index=True)
        for i, j in runs(len(rows), REGIONS_AT_ONCE) if len(rows) else ():
            some = own[first[i] : first[j] if j < len(rows) else len(own)]
            found = coefficients.member_spread(rows[i:j], u)
            seat = np.searchsorted(rows[i:j], row[some])
            np.add.at(total, place[some], found[seat, which.reshape(-1)[some]])
    return np.asarray((total / times[:, None]).reshape(*shape, -1))
