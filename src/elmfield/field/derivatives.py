"""Derivatives of a blended function along its axes, per unit of their coordinates.

Index coordinates enter with their first and second derivatives by the coordinates, `slope` and
`bend`, all (n, d); the chain rule does the rest. Channels are the second axis of what leaves.
"""

from typing import TYPE_CHECKING, Protocol

import numpy as np

from elmfield._array.backend import cast, move, namespace
from elmfield._array.typing import Array, Floats

if TYPE_CHECKING:
    from elmfield.field.blended import Blended


class Function(Protocol):
    """A function of index coordinates, with channels, before offset and scale."""

    def partials(self, x: Array, orders: list[tuple[int, ...]]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""


def value(function: Function, x: Array, slope: Array, bend: Array) -> Array:
    """Values, (n, C)."""
    return function.partials(x, [(0,) * x.shape[1]])[0]


def gradient(function: Function, x: Array, slope: Array, bend: Array) -> Array:
    """First derivatives, (n, C, d)."""
    d = x.shape[1]
    parts = function.partials(x, [_unit(d, k) for k in range(d)])
    return namespace(x).stack(
        [p * cast(slope[:, k, None], p) for k, p in enumerate(parts)], axis=-1
    )


def hessian(function: Function, x: Array, slope: Array, bend: Array) -> Array:
    """Second derivatives, (n, C, d, d)."""
    xp, d = namespace(x), x.shape[1]
    pairs = [(k, l) for k in range(d) for l in range(k, d)]
    orders = [_unit(d, k) for k in range(d)] + [_unit(d, k, l) for k, l in pairs]
    parts = function.partials(x, orders)
    entry = {}
    for (k, l), f_kl in zip(pairs, parts[d:]):
        entry[k, l] = f_kl * cast((slope[:, k] * slope[:, l])[:, None], f_kl)
        if k == l:  # the axis's own curvature, for unevenly spaced coordinates
            entry[k, l] = entry[k, l] + parts[k] * cast(bend[:, k, None], f_kl)
    rows = [xp.stack([entry[min(k, l), max(k, l)] for l in range(d)], axis=-1) for k in range(d)]
    return xp.stack(rows, axis=-2)


def laplacian(function: Function, x: Array, slope: Array, bend: Array) -> Array:
    """Sum of the unmixed second derivatives, (n, C)."""
    d = x.shape[1]
    parts = function.partials(
        x, [_unit(d, k) for k in range(d)] + [_unit(d, k, k) for k in range(d)]
    )
    total = parts[0] * 0
    for k in range(d):
        total = total + parts[d + k] * cast(slope[:, k, None] ** 2, total)
        total = total + parts[k] * cast(bend[:, k, None], total)
    return total


def slopes(
    blended: "Blended", x: list[Floats], slope: list[Floats], bend: list[Floats]
) -> list[Array]:
    """First derivatives on a grid, one array (p_1, ..., p_d, C) per axis.

    `slope` and `bend` are along each axis, (p_k,).
    """
    d = len(x)
    parts = blended.partials_on_grid(x, [_unit(d, k) for k in range(d)])
    return [p * _along(slope[k], k, p) for k, p in enumerate(parts)]


def curvature(
    blended: "Blended", x: list[Floats], slope: list[Floats], bend: list[Floats]
) -> list[Array]:
    """The Laplacian on a grid, as the only one of its kind; parameters as for `slopes`."""
    d = len(x)
    uneven = [k for k in range(d) if np.any(bend[k])]
    orders = [_unit(d, k, k) for k in range(d)] + [_unit(d, k) for k in uneven]
    parts = blended.partials_on_grid(x, orders)
    total = parts[0] * _along(slope[0] ** 2, 0, parts[0])
    for k in range(1, d):
        total = total + parts[k] * _along(slope[k] ** 2, k, total)
    for k, p in zip(uneven, parts[d:]):
        total = total + p * _along(bend[k], k, p)
    return [total]


def _along(factors: Floats, k: int, values: Array) -> Array:
    """Factors of axis k, to be multiplied with values on a grid."""
    return move(
        factors.reshape([-1 if j == k else 1 for j in range(values.ndim)]), values, values.dtype
    )


def _unit(d: int, *axes: int) -> tuple[int, ...]:
    """The multi-index that differentiates once along each of the given axes."""
    return tuple(axes.count(k) for k in range(d))
