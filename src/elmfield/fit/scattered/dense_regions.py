"""Regions of scattered samples: cells and their neighbours; the paper's least squares on them."""

from dataclasses import dataclass
from itertools import product as cartesian

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import per_axis
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Domain
from elmfield.field import Blended, Group
from elmfield.field.coefficients.stored import Draws, Full
from elmfield.field.model import Model
from elmfield.field.uncertainty.neighbours import shortest, tree_of, wrapped
from elmfield.local.bases import DenseWeights
from elmfield.partition import Partition, blend
from elmfield.settings import Paper

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
    """

    partition: Partition
    x: Floats
    used: list[Integers]
    centres: Floats
    radii: Floats
    half: Floats

    def local(self, i: int) -> Floats:
        """Local coordinates of the samples of region i, (S, d)."""
        u = shortest(self.x[self.used[i]] - self.centres[i], periods(self.partition))
        return np.asarray(u / self.radii[i])

    @property
    def sizes(self) -> Integers:
        """Samples of each region, (N,)."""
        return np.asarray([len(u) for u in self.used], np.int64)


def periods(part: Partition) -> Floats:
    """The period of each axis in samples, (d,); infinite where it does not repeat."""
    return np.where(part.periodic, part.shape, np.inf)


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
    n, d = x.shape
    if overlap is None:
        overlap = tuple(c / 4 for c in per_axis("cell", cell, d))
    wraps = np.flatnonzero(domain.periodic)
    part = Partition.regular(domain.shape, cell, overlap, periodic=wraps)
    ends = [part.borders(k) for k in range(d)]
    low = np.stack(np.meshgrid(*(e[:-1] for e in ends), indexing="ij"), -1)
    high = np.stack(np.meshgrid(*(e[1:] for e in ends), indexing="ij"), -1)
    centres, half = (low + high).reshape(-1, d) / 2, (high - low).reshape(-1, d) / 2
    tree, seats = tree_of(x, periods(part)), wrapped(centres, periods(part))
    least = min(n, least)
    reach = half.max(axis=1) + context
    used, radii = [], reach.copy()
    for i, found in enumerate(tree.query_ball_point(seats, reach, p=np.inf)):
        near = np.asarray(found, np.int64)
        if len(near) < least:
            distance, near = (np.atleast_1d(a) for a in tree.query(seats[i], k=least, p=np.inf))
            radii[i] = max(radii[i], float(distance.max()))
        elif len(near) > ENOUGH_SAMPLES:
            u = shortest(x[near] - centres[i], periods(part))
            near = _fewer(u, near, half[i] + part.overlap)
        if len(near) > MOST_SAMPLES:
            raise ValueError(
                f"a region holds {len(near)} samples, more than {MOST_SAMPLES} can be solved at "
                "once: the samples are far denser there than on average. Pass a smaller `spacing`."
            )
        used.append(np.sort(near))
    radii = np.repeat(radii[:, None], d, axis=1)
    return Cells(partition=part, x=x, used=used, centres=centres, radii=radii, half=half)


def _fewer(u: Floats, near: Integers, spoken: Floats) -> Integers:
    """The nearest of too many samples, at offsets u from the centre: ENOUGH_SAMPLES, or more.

    All that lie where the region counts are among them; `spoken` is half that box.
    """
    far = np.max(np.abs(u) / spoken, axis=1)
    order = np.argsort(far, kind="stable")
    kept = max(ENOUGH_SAMPLES, int(np.count_nonzero(far <= 1)))
    return np.asarray(near[order[:kept]], np.int64)


# --- the paper's least squares --------------------------------------------------------------------


def dense_model(
    x: Floats, y: Array, domain: Domain, settings: Paper, partition: Partition | None
) -> Model:
    """Return the model of samples y, (n, C), float64, at index coordinates x, (n, d).

    Local coordinates run from -1 to 1 across a region's window. Each region needs as many samples
    as it has neurons, as the paper's lemma does, unless a ridge makes the weights unique.
    """
    part = partition and settings.adopt(partition)
    part = part or settings.partition(domain.shape, domain.periodic)
    model = settings.weights_model or DenseWeights(network=settings.network, box=())
    xp, N, m = namespace(y), part.n_regions, model.n_modes
    starts, sizes = part.boxes
    # Windows reach half a unit beyond the samples that stand at the ends of a box.
    centres, radii = starts + (sizes - 1) / 2, sizes / 2 + np.minimum(part.overlap, 0.5)
    region, sample = _members(part, x)
    counts = np.bincount(region, minlength=N)
    wanted = np.broadcast_to(model.widths if model.widths is not None else m, (N,))
    few = np.flatnonzero(counts < (1 if model.ridge else wanted))
    if len(few):
        raise ValueError(
            f"every region needs as many samples as neurons, or some and a `ridge`; {len(few)} of "
            f"{N} regions have fewer, region {few[0]} has {counts[few[0]]} for {wanted[few[0]]} "
            "neurons. Use larger cells, a smaller `width`, or `ridge`."
        )
    found, ends = [], np.concatenate([[0], np.cumsum(counts)])
    for i in range(N):
        own = sample[ends[i] : ends[i + 1]]
        u = shortest(x[own] - centres[i], periods(part))
        t = move((u / radii[i])[None, ...], y, getattr(xp, model.dtype))
        H = model.of(np.asarray([i])).rows(t, (0,) * x.shape[1])[0][..., : wanted[i]]
        found.append(model.solve(H, xp.take(y, move(own, y), axis=0)[None, ...]))
    group = Group(
        model=model,
        regions=np.arange(N),
        coefficients=Full(xp.concat(found, axis=0)),
        nodes=Draws(model, np.arange(N)) if model.is_own else None,
    )
    blended = Blended(
        partition=part, groups=(group,), centres=centres, radii=radii, is_scattered=True
    )
    zeros = xp.zeros_like(y[0, :])
    return Model(domain=domain, blended=blended, offset=zeros, scale=zeros + 1, settings=settings)


def _members(part: Partition, x: Floats) -> tuple[Integers, Integers]:
    """Pairs of a region and a sample that its window touches, region by region."""
    axes, at = [blend(part, k, x[:, k]) for k in range(x.shape[1])], np.arange(len(x))
    pairs = []
    for corner in cartesian((0, 1), repeat=len(axes)):
        touched = np.all([b.ramp[0] >= 0 if up == 0 else b.ramp[0] > 0
                          for b, up in zip(axes, corner)], axis=0)  # fmt: skip
        cells = tuple(b.upper if up else b.lower for b, up in zip(axes, corner))
        pairs.append(np.stack([part.labels[cells], at], axis=1)[touched])
    region, sample = np.unique(np.concatenate(pairs), axis=0).T
    return region, sample
