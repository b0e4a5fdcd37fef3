"""Coefficients that are projections: the samples of boxes on their basis, batch by batch."""

import math
from collections.abc import Callable

import numpy as np

from elmfield._array.backend import device, is_on_host, namespace, to_numpy
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.coefficients import Full
from elmfield.local.model import Basis
from elmfield.partition import Partition, gather_boxes, whole_rows
from elmfield.samples import Samples

AT_ONCE = 1 << 21
"""Numbers a batch of product modes holds at most on a processor: what fits its cache."""


def projected(
    samples: Samples,
    partition: Partition,
    regions: Integers,
    basis: Basis,
    tell: Callable[[int], None],
) -> tuple[Full, Floats]:
    """Coefficients of some regions, and the energy they leave over, (G, C).

    `tell` hears how many regions were done, batch after batch.
    """
    given = samples.given
    xp, C, G = namespace(given), given.shape[-1], len(regions)
    parts = runs(G, _step(basis, given, partition))
    store, lefts = None, []
    for i, j in parts:
        batch = regions[i:j]
        Y = samples.bring(gather_boxes(given, partition, batch, basis.box, basis.inside))
        if samples.present is not None:
            have = gather_boxes(samples.present, partition, batch, basis.box, basis.inside)
            Y = basis.complete(Y, have)
        c = xp.permute_dims(basis.project(Y), (2, 0, 1))  # channels first in memory
        if basis.n_modes < basis.n_samples:  # else nothing is left over
            left = xp.sum(Y * Y, axis=1) - xp.permute_dims(xp.sum(c * c, axis=2), (1, 0))
            lefts.append(xp.astype(left, xp.float64))
        if len(parts) == 1:
            store = c
        else:
            if store is None:
                store = xp.empty((C, G, c.shape[2]), dtype=c.dtype, device=device(c))
            store[:, i:j, :] = c
        tell(len(batch))
    left_over = to_numpy(xp.concat(lefts, axis=0)) if lefts else np.zeros((G, C))
    return Full(xp.permute_dims(store, (1, 2, 0))), np.maximum(left_over, 0)


def _step(basis: Basis, y: Array, partition: Partition) -> int:
    """Regions to project together."""
    numbers = capacity(y)
    if basis.axes is not None and is_on_host(y):
        numbers = min(numbers, AT_ONCE)
    step: int = max(1, numbers // (4 * max(math.prod(basis.box), basis.n_modes) * y.shape[-1]))
    return whole_rows(partition, step)
