"""Scattered samples cut into cells, and the neighbours that each is fitted with."""

import math
from dataclasses import dataclass

import numpy as np

from elmfield._array.checks import per_axis
from elmfield._array.typing import Floats, Integers
from elmfield.domain import Domain
from elmfield.partition import Partition

MOST_SAMPLES = 4000
"""Most samples a region may have; its dense kernel is solved directly."""

ENOUGH_SAMPLES = 1500
"""Samples a region has no need to exceed: of more, those around its cell are left out."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """Samples by region.

    Parameters
    ----------
    partition : Partition
        The cells.
    x : array, shape (n, d)
        Positions, in index coordinates.
    used : list of integer arrays
        The samples each region is fitted to.
    centres, radii : arrays, shape (N, d)
        Local coordinates of a region are (x - centre) / radius, the same on all axes; between -1
        and 1 for the samples it is fitted to.
    half : array, shape (N, d)
        Half the width of its cell.
    period : array, shape (d,)
        In samples; infinite where an axis does not repeat.
    """

    partition: Partition
    x: Floats
    used: list[Integers]
    centres: Floats
    radii: Floats
    half: Floats
    period: Floats

    def local(self, i: int) -> Floats:
        """Local coordinates of the samples of region i, (S, d)."""
        u = self.x[self.used[i]] - self.centres[i]
        for k, period in enumerate(self.period.tolist()):
            if math.isfinite(period):
                u[:, k] -= np.round(u[:, k] / period) * period
        return np.asarray(u / self.radii[i])

    @property
    def sizes(self) -> Integers:
        """Samples of each region, (N,)."""
        return np.asarray([len(u) for u in self.used], np.int64)


def most_of(y: Floats, used: list[Integers], parts: list[Floats]) -> Floats:
    """The largest number that any region has for each sample, (n, C), from each region's own."""
    most = np.zeros_like(y)
    for near, part in zip(used, parts):
        most[near] = np.maximum(most[near], part)
    return most


def cut_cells(
    x: Floats,
    domain: Domain,
    *,
    cell: float | tuple[float, ...],
    overlap: float | tuple[float, ...] | None,
    context: float,
    least: int,
) -> Cells:
    """Cells, each with the samples up to `context` around it, or the nearest if these are few."""
    d = x.shape[1]
    if overlap is None:
        overlap = tuple(c / 4 for c in per_axis("cell", cell, d))
    wraps = np.flatnonzero(domain.periodic)
    part = Partition.regular(domain.shape, cell, overlap, periodic=wraps)
    low = np.stack(np.meshgrid(*(part.borders(k)[:-1] for k in range(d)), indexing="ij"), -1)
    high = np.stack(np.meshgrid(*(part.borders(k)[1:] for k in range(d)), indexing="ij"), -1)
    centres, half = (low + high).reshape(-1, d) / 2, (high - low).reshape(-1, d) / 2
    used, radii = _neighbours(x, centres, half, context, np.asarray(part.overlap), domain, least)
    return Cells(
        partition=part,
        x=x,
        used=used,
        centres=centres,
        radii=np.repeat(radii[:, None], d, axis=1),
        half=half,
        period=np.where(domain.periodic, domain.shape, np.inf),
    )


def _neighbours(
    x: Floats,
    centres: Floats,
    half: Floats,
    context: float,
    overlap: Floats,
    domain: Domain,
    least: int,
) -> tuple[list[Integers], Floats]:
    """Samples each region is fitted to, and the radius of the cube that holds them, (N,)."""
    from scipy.spatial import cKDTree  # 0.1 s, for scattered samples only

    n = len(x)
    shape = np.asarray(domain.shape, dtype=float)
    boxsize = np.where(domain.periodic, shape, 0.0)
    at, seats = x.copy(), centres.copy()
    for k in np.flatnonzero(domain.periodic):
        at[:, k] = (at[:, k] + 0.5) % shape[k]
        seats[:, k] = (seats[:, k] + 0.5) % shape[k]
    tree = cKDTree(at, boxsize=boxsize if any(domain.periodic) else None)
    least = min(n, least)
    reach = half.max(axis=1) + context
    used, radii = [], reach.copy()
    for i, found in enumerate(tree.query_ball_point(seats, reach, p=np.inf)):
        near = np.asarray(found, np.int64)
        if len(near) < least:
            distance, near = (np.atleast_1d(a) for a in tree.query(seats[i], k=least, p=np.inf))
            radii[i] = max(radii[i], float(distance.max()))
        elif len(near) > ENOUGH_SAMPLES:
            near = _fewer(at[near] - seats[i], near, half[i] + overlap, boxsize)
        if len(near) > MOST_SAMPLES:
            raise ValueError(
                f"a region holds {len(near)} samples, more than {MOST_SAMPLES} can be solved at "
                "once: the samples are far denser there than on average. Pass a smaller `spacing`."
            )
        used.append(np.sort(near))
    return used, radii


def _fewer(u: Floats, near: Integers, spoken: Floats, boxsize: Floats) -> Integers:
    """The nearest of too many samples, at offsets u from the centre: ENOUGH_SAMPLES, or more.

    All that lie where the region counts are among them; `spoken` is half that box.
    """
    wide = np.where(boxsize > 0, boxsize, np.inf)
    u = np.abs(u)
    far = np.max(np.minimum(u, wide - u) / spoken, axis=1)
    order = np.argsort(far, kind="stable")
    kept = max(ENOUGH_SAMPLES, int(np.count_nonzero(far <= 1)))
    return np.asarray(near[order[:kept]], np.int64)
