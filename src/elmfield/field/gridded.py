"""A field on a grid of index coordinates: a quantity of it, block of rows by block of rows."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype, device, namespace
from elmfield._array.checks import choice
from elmfield._array.memory import capacity, with_less_memory
from elmfield._array.typing import Array, Floats
from elmfield.field.derivatives import curvature, slopes
from elmfield.field.means import means_over
from elmfield.field.missing import near_grid, shown
from elmfield.field.stretches import Places

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise

QUANTITIES = ("value", "gradient", "laplacian")
"""What a field shows on a grid; the gradient's magnitude."""

MOSTLY = 0.5
"""A mean is shown where at least this part of its box is not missing."""


@with_less_memory
def gridded(
    field: "Pointwise",
    x: Sequence[Places],
    dtype: Any,
    quantity: str = "value",
    *,
    gaps: bool = False,
    boxes: Sequence[Places | None] = (),
) -> Array:
    """A quantity on the grid of index coordinates `x`; channels where the input had them.

    With `gaps`, what lies nearest to a missing sample is NaN. On axes with `boxes`, edges in index
    coordinates, values are means between them.
    """
    choice("quantity", quantity, QUANTITIES)
    xp, C = namespace(field.offset), int(field.offset.shape[0])
    across = math.prod(len(c) for c in x[1:]) * C
    rows = max(1, capacity(field.offset) // max(1, 4 * across))
    fill = None if quantity != "value" else field.attributes.get("fill_value")
    out = None
    # Only the first axis is looked at stretch by stretch.
    first, others = x[0], [c[:] for c in x[1:]]
    around: list[Floats | None] = [None if b is None else b[:] for b in boxes[1:]]
    around = around or [None] * len(others)
    edged = boxes[0] if boxes else None
    if not all(map(len, x)):
        kind = field.joined(field.offset)
        empty = xp.zeros((*map(len, x), field.n_channels), dtype=kind.dtype, device=device(kind))
        out, first = as_dtype(empty, dtype), np.empty(0)
    for i in range(0, len(first), rows):
        some = [first[i : i + rows], *others]
        edges = None if edged is None else edged[i : i + rows + 1]
        if quantity == "value" and any(b is not None for b in (edges, *around)):
            block, gone = _means(field, some, [edges, *around], gaps)
        else:
            block = _block(field, some, quantity)
            gone = near_grid(field, some) if gaps else None
        block = as_dtype(block, dtype)
        block = block if gone is None else shown(block, gone, fill)
        if rows >= len(first):
            out = block
            break
        if out is None:  # rows go to their place: all of them twice would be too much
            whole = (len(first), *block.shape[1:])
            out = xp.empty(whole, dtype=block.dtype, device=device(block))
        out[i : i + rows, ...] = block
    assert out is not None
    if field.channel_axis is None:
        return out[..., 0]
    return xp.moveaxis(out, -1, field.channel_axis)


def _means(
    field: "Pointwise", x: list[Floats], boxes: list[Floats | None], gaps: bool
) -> tuple[Array, Array | None]:
    """Means over boxes on some axes, at positions on the others; and which are mostly missing."""
    means, covered = means_over(field, boxes, x, gaps)
    means = namespace(means).astype(means, field.dtype)
    return means, None if covered is None else covered < MOSTLY


def _block(field: "Pointwise", x: list[Floats], quantity: str) -> Array:
    """A quantity on a grid of index coordinates, channels last."""
    xp, sizes = namespace(field.offset), tuple(map(len, x))
    if quantity == "value":
        block = field.blended.on_grid(x)
        flat = field.finish(xp.reshape(block, (-1, block.shape[-1])), True)
        return xp.reshape(flat, (*sizes, -1))
    maps = [a.to_index(a.from_index(c)) for a, c in zip(field.domain.axes, x)]
    slope, bend = ([m[j] for m in maps] for j in (1, 2))
    derive = {"gradient": slopes, "laplacian": curvature}[quantity]
    parts = [
        field.finish(xp.reshape(p, (-1, p.shape[-1])), False)
        for p in derive(field.blended, x, slope, bend)
    ]
    if quantity == "laplacian":
        return xp.reshape(parts[0], (*sizes, -1))
    return xp.reshape(xp.sqrt(sum(xp.abs(p) ** 2 for p in parts)), (*sizes, -1))
