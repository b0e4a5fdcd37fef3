"""Planes through a partition: what a picture of a volume's regions shows."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.checks import is_whole

if TYPE_CHECKING:
    from elmfield.partition.partition import Partition


def plane_of(part: "Partition", at: Mapping[int, int] | None = None) -> "Partition":
    """The regions that a plane cuts, as a two-dimensional partition.

    `at` says at which sample of which axis the plane lies, for all axes but two; by default in the
    middle of the shortest ones.
    """
    fixed = fixed_axes(part.shape, at)
    index = tuple(
        int(part.cell_of[k][fixed[k]]) if k in fixed else slice(None)
        for k in range(len(part.shape))
    )
    labels = np.unique(part.labels[index], return_inverse=True)[1]
    left = [k for k in range(len(part.shape)) if k not in fixed]
    cells = tuple(part.n_cells[k] for k in left)
    return part.changed(
        shape=tuple(part.shape[k] for k in left),
        edges=tuple(part.edges[k] for k in left),
        labels=labels.reshape(cells),
        overlap=tuple(part.overlap[k] for k in left),
        periodic=tuple(part.periodic[k] for k in left),
    )


def fixed_axes(shape: tuple[int, ...], at: Mapping[int, int] | None = None) -> dict[int, int]:
    """The axes across a plane, and the sample of each at which it lies."""
    d = len(shape)
    if d < 2:
        raise ValueError(f"regions are drawn over two axes; the array has {d}.")
    if at is None:
        shortest = sorted(range(d), key=lambda k: (shape[k], k))[: d - 2]
        return {k: shape[k] // 2 for k in sorted(shortest)}
    good = all(
        is_whole(k) and is_whole(i) and 0 <= k < d and 0 <= i < shape[k] for k, i in at.items()
    )
    if len(at) != d - 2 or not good:
        raise ValueError(
            f"`at` must say a sample for each of {d - 2} axes of shape {shape}, such as "
            f"{{0: {shape[0] // 2}}}; got {dict(at)!r}."
        )
    return {int(k): int(i) for k, i in at.items()}
