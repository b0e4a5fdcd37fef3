"""Derivatives of a function along its axes, per unit of their coordinates.

A function enters as its mixed derivatives by steps, at points or on a grid; with it the number of
steps per unit of each axis's coordinate.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from elmfield._array.backend import namespace
from elmfield._array.typing import Array

Order = tuple[int, ...]
"""How often a function is differentiated along each axis."""

Partials = Callable[[list[Order]], list[Array]]
"""Mixed derivatives (..., C) by steps, for each of some orders."""


class Function(Protocol):
    """A function of index coordinates, with channels, before offset and scale."""

    def partials(self, x: Array, orders: list[Order]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), by steps."""


def value(f: Partials, per_unit: Sequence[float]) -> Array:
    """Values, (..., C)."""
    return f([(0,) * len(per_unit)])[0]


def gradient(f: Partials, per_unit: Sequence[float]) -> Array:
    """First derivatives, (..., C, d)."""
    d = len(per_unit)
    parts = f([_unit(d, k) for k in range(d)])
    return namespace(parts[0]).stack([p * s for p, s in zip(parts, per_unit)], axis=-1)


def hessian(f: Partials, per_unit: Sequence[float]) -> Array:
    """Second derivatives, (..., C, d, d)."""
    d = len(per_unit)
    pairs = [(k, l) for k in range(d) for l in range(k, d)]
    found = _second(f, pairs, per_unit)
    entry = dict(zip(pairs, found))
    xp = namespace(found[0])
    rows = xp.stack([entry[min(k, l), max(k, l)] for k in range(d) for l in range(d)], axis=-1)
    return xp.reshape(rows, (*found[0].shape, d, d))


def laplacian(f: Partials, per_unit: Sequence[float]) -> Array:
    """Sum of the unmixed second derivatives, (..., C)."""
    found = _second(f, [(k, k) for k in range(len(per_unit))], per_unit)
    return sum(found[1:], start=found[0])


def magnitude(gradient: Array) -> Array:
    """Lengths (...) of vectors (..., d), real also where these are complex."""
    xp = namespace(gradient)
    return xp.sqrt(xp.sum(xp.abs(gradient) ** 2, axis=-1))


def _second(f: Partials, pairs: list[tuple[int, int]], per_unit: Sequence[float]) -> list[Array]:
    """Second derivatives along pairs of axes, (..., C) each."""
    parts = f([_unit(len(per_unit), *pair) for pair in pairs])
    return [p * (per_unit[k] * per_unit[l]) for (k, l), p in zip(pairs, parts)]


def _unit(d: int, *axes: int) -> Order:
    """The multi-index that differentiates once along each of the given axes."""
    return tuple(axes.count(k) for k in range(d))
