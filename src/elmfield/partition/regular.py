"""The regular mesh: every cell its own region."""

from collections.abc import Sequence

import numpy as np

from elmfield.partition.partition import Partition


def regular(
    shape: Sequence[int],
    cell: float | Sequence[float],
    overlap: float | Sequence[float] = 0,
    *,
    periodic: Sequence[bool] | None = None,
    equal_boxes: bool = False,
    context: int = 0,
    mirrored: bool = False,
) -> Partition:
    """A Partition into equal cells, as nearly as the shape allows.

    Parameters
    ----------
    shape : sequence of int
        Samples on each axis.
    cell : int or sequence of int
        The most samples a cell may have on each axis. Where it does not divide the shape, the cells
        share the shortfall: their sizes differ by at most one sample.
    overlap : float or sequence of float
        Half-width of the blend between neighbours, in samples; at most half a cell. Where cells
        came out smaller than asked, the overlap shrinks with them.
    periodic : sequence of bool, optional
        Whether each axis wraps around.
    equal_boxes, context, mirrored : optional
        See `Partition`.
    """
    d = len(shape)
    if any(int(n) != n or n < 1 for n in shape):
        raise ValueError(f"`shape` must be whole numbers of at least 1; got {tuple(shape)}.")
    periodic = tuple(periodic) if periodic is not None else (False,) * d
    cells, overlaps = per_axis("cell", cell, d), per_axis("overlap", overlap, d)
    edges, widths = [], []
    for k, (n, c, o) in enumerate(zip(shape, cells, overlaps)):
        if int(c) != c or c < 1:
            raise ValueError(
                f"`cell` must be a whole number of samples, at least 1; got cell={c!r} on axis {k}."
            )
        if not 0 <= o <= c / 2:
            raise ValueError(
                f"`overlap` must lie between 0 and half a cell; got overlap={o!r} with cell={c!r} "
                f"on axis {k}. Use a smaller overlap or larger cells."
            )
        count = -(-n // int(c))
        if periodic[k] and o > 0 and n > 1:
            # A box must not run over itself: at least two cells, and room for the overlap.
            count = max(count, 2)
            while count < n and -(-n // count) + 2 * np.ceil(o) > n:
                count += 1
        edge = np.round(np.linspace(0, n, count + 1)).astype(np.int64)
        o = min(float(o), int(np.diff(edge).min()) / 2)
        if periodic[k] and count > 1:
            o = min(o, (n - int(np.diff(edge).max())) / 2)
        edges.append(edge)
        widths.append(float(o) if count > 1 else 0.0)
    counts = [len(e) - 1 for e in edges]
    labels = np.arange(int(np.prod(counts))).reshape(counts)
    return Partition(
        tuple(map(int, shape)),
        tuple(edges),
        labels,
        tuple(widths),
        periodic,
        equal_boxes,
        context,
        mirrored,
    )


def per_axis(name: str, value: float | Sequence[float], d: int) -> tuple[float, ...]:
    """`value` once per axis: a number is repeated, a sequence must have `d` entries."""
    values = (value,) * d if np.ndim(value) == 0 else tuple(value)  # type: ignore[arg-type]
    if len(values) != d:
        raise ValueError(
            f"`{name}` must be one number or one per axis, {d}; got {len(values)}: {value!r}."
        )
    for v in values:
        if isinstance(v, (bool, str)) or not np.isscalar(v) or not np.isfinite(v):
            raise ValueError(f"`{name}` must be a finite number; got {v!r}.")
    return values  # type: ignore[return-value]
