"""A field on a grid of index coordinates: a quantity of it, block of rows by block of rows."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import as_dtype, device, move, namespace
from elmfield._array.checks import choice
from elmfield._array.memory import capacity, with_less_memory
from elmfield._array.typing import Array, Floats

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise

QUANTITIES = ("value", "gradient", "laplacian")
"""What a field shows on a grid; the gradient's magnitude."""


@with_less_memory
def gridded(field: "Pointwise", x: list[Floats], dtype: Any, quantity: str = "value") -> Array:
    """A quantity on the grid of index coordinates `x`; channels where the input had them."""
    choice("quantity", quantity, QUANTITIES)
    xp, C = namespace(field.offset), int(field.offset.shape[0])
    across = math.prod(len(c) for c in x[1:]) * C
    rows = max(1, capacity(field.offset) // max(1, 4 * across))
    parts = []
    if not all(map(len, x)):
        kind = field.joined(field.offset)
        empty = xp.zeros((*map(len, x), field.n_channels), dtype=kind.dtype, device=device(kind))
        parts, x = [as_dtype(empty, dtype)], [np.empty(0)]
    for i in range(0, len(x[0]), rows):
        parts.append(as_dtype(_block(field, [x[0][i : i + rows], *x[1:]], quantity), dtype))
    out = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    if field.channel_axis is None:
        return out[..., 0]
    return xp.moveaxis(out, -1, field.channel_axis)


def _block(field: "Pointwise", x: list[Floats], quantity: str) -> Array:
    """A quantity on a grid of index coordinates, channels last."""
    xp, sizes = namespace(field.offset), tuple(map(len, x))
    if quantity == "value":
        block = field.blended.on_grid(x)
        flat = field.finish(xp.reshape(block, (-1, block.shape[-1])), True)
        return xp.reshape(flat, (*sizes, -1))
    at = [a.from_index(c) for a, c in zip(field.domain.axes, x)]
    points = np.stack(np.meshgrid(*at, indexing="ij"), axis=-1)
    points = move(points, field.offset, xp.float64)
    if quantity == "laplacian":
        return xp.reshape(field.laplacian(points, outside="nearest"), (*sizes, -1))
    slope = xp.abs(field.gradient(points, outside="nearest"))
    return xp.reshape(xp.sqrt(xp.sum(slope * slope, axis=-1)), (*sizes, -1))
