"""Regions of scattered samples by the paper's least squares on them."""

from itertools import product as cartesian

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Domain
from elmfield.field import Blended, Group
from elmfield.field.coefficients.stored import Draws, Full
from elmfield.field.model import Model
from elmfield.field.uncertainty.neighbours import periods, shortest
from elmfield.local.bases import DenseWeights
from elmfield.partition import Partition, blend
from elmfield.settings import Paper


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
