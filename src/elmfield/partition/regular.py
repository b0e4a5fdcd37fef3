"""The regular mesh: where equal cells begin and end, and how far they may overlap."""

from collections.abc import Sequence

import numpy as np

from elmfield._array.checks import is_whole, per_axis
from elmfield._array.typing import Integers


def even_cells(
    shape: Sequence[int],
    cell: float | Sequence[float],
    overlap: float | Sequence[float],
    wraps: Sequence[bool],
) -> tuple[tuple[Integers, ...], tuple[float, ...]]:
    """Edges of the cells on each axis, and the overlap that is left on each.

    Cells have at most `cell` samples, and sizes that differ by at most one; see
    :meth:`Partition.regular`.
    """
    d = len(shape)
    if not all(is_whole(n) and n >= 1 for n in shape):
        raise ValueError(f"`shape` must be whole numbers of at least 1; got {tuple(shape)}.")
    cells, overlaps = per_axis("cell", cell, d), per_axis("overlap", overlap, d)
    edges, widths = [], []
    for k, (n, c, o) in enumerate(zip(map(int, shape), cells, overlaps)):
        if not is_whole(c) or c < 1:
            raise ValueError(
                f"`cell` must be a whole number of samples, at least 1; got cell={c!r} on axis {k}."
            )
        if not 0 <= o <= c / 2:
            raise ValueError(
                f"`overlap` must lie between 0 and half a cell; got overlap={o!r} with cell={c!r} "
                f"on axis {k}. Use a smaller overlap or larger cells."
            )
        count = -(-n // int(c))
        if wraps[k] and o > 0 and n > 1:
            # A box must not run over itself: at least two cells, and room for the overlap.
            count = max(count, 2)
            while count < n and -(-n // count) + 2 * np.ceil(o) > n:
                count += 1
        edge = np.round(np.arange(count + 1) * (n / count)).astype(np.int64)
        o = min(float(o), (n // count) / 2)
        if wraps[k] and count > 1:
            o = min(o, (n - -(-n // count)) / 2)
        edges.append(edge)
        widths.append(float(o) if count > 1 else 0.0)
    return tuple(edges), tuple(widths)
