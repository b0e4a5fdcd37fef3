"""A table as a pure function of JAX: `jit`, `vmap` and `grad` go through it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elmfield._array.backend import is_numpy, to_numpy
from elmfield.domain import Axis
from elmfield.errors import MissingExtraError
from elmfield.field.tables.polynomials import Taken, horner

try:
    import jax
    import jax.numpy as jnp
except ImportError as error:
    raise MissingExtraError(
        "A table as a function of JAX needs jax; pip install 'elmfield[jax]'."
    ) from error

if TYPE_CHECKING:
    from elmfield.field.tables.table import Table


def table_function(table: "Table") -> Callable[[Any], Any]:
    """The function of points (..., d) that looks values up; see :meth:`Table.jax`."""
    own, model = table.polynomials, table.model
    rows = to_numpy(own.coefficients)  # (C, T, cells), or (cells, T, C) outside NumPy
    rows = jnp.asarray(rows.transpose(2, 1, 0) if is_numpy(own.coefficients) else rows)
    offset, scale = (jnp.asarray(to_numpy(v)) for v in (model.offset, model.scale))
    borders = list(zip(model.domain.axes, model.domain.low, model.domain.high))
    lattice = list(zip(own.low, own.per_unit, own.counts))

    def function(points: Any) -> Any:
        points = jnp.asarray(points)
        flat, s, cell = points.reshape(-1, len(lattice)), [], 0
        for k, ((low, m, J), border) in enumerate(zip(lattice, borders)):
            x = _index(flat[:, k], *border)
            j = jnp.clip(jnp.floor((jax.lax.stop_gradient(x) - low) * m), 0, J - 1).astype(int)
            # The distance from the cell's own beginning is exact: one from the first cell's is not.
            s.append((2 * m * (x - (low + j / m)) - 1).astype(rows.dtype)[:, None])
            cell = cell * J + j
        (values,) = horner(Taken(rows[cell]), s, [(0,) * len(s)], own.degree, own.places)
        values = values * scale + offset
        if model.is_complex:
            half = values.shape[-1] // 2
            values = values[:, :half] + 1j * values[:, half:]
        if model.channel_axis is None:
            return values[:, 0].reshape(points.shape[:-1])
        return values.reshape(*points.shape[:-1], -1)

    return function


def _index(x: Any, axis: Axis, low: float, high: float) -> Any:
    """Index coordinates of coordinates along an axis, moved into the box."""
    period = axis.period
    if axis.knots is not None and axis.pieces is not None:
        if period is not None:
            x = x - (jnp.floor((x - axis.origin) / period) + (axis.step < 0)) * period
        piece = jnp.searchsorted(axis.knots, jax.lax.stop_gradient(x), side="right") - 1
        piece = jnp.clip(piece, 0, len(axis.knots) - 2)
        x = jnp.polyval(jnp.asarray(axis.pieces)[:, piece], x - jnp.asarray(axis.knots)[piece])
    elif (axis.origin, axis.step) != (0, 1):
        x = (x - axis.origin) / axis.step
    if period is not None:
        x = x - jnp.floor((jax.lax.stop_gradient(x) + 0.5) / axis.size) * axis.size
        x = jnp.where((x < low) & (x + axis.size <= high + 1e-9 * axis.size), x + axis.size, x)
    return jnp.clip(x, low, high)
