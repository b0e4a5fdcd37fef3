"""Derivatives of a function along its axes, per unit of their coordinates.

A function enters as its mixed derivatives in index coordinates, at points or on a grid; with it the
first and second derivatives of the index coordinates by the coordinates, `slope` and `bend`, one
array per axis. The chain rule does the rest.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from elmfield._array.backend import cast, namespace
from elmfield._array.typing import Array

Order = tuple[int, ...]
"""How often a function is differentiated along each axis."""

Partials = Callable[[list[Order]], list[Array]]
"""Mixed derivatives (..., C) in index units, for each of some orders."""


class Function(Protocol):
    """A function of index coordinates, with channels, before offset and scale."""

    def partials(self, x: Array, orders: list[Order]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""


def value(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """Values, (..., C). `bend` is None along axes of even spacing."""
    return f([(0,) * len(slope)])[0]


def gradient(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """First derivatives, (..., C, d)."""
    d = len(slope)
    parts = f([_unit(d, k) for k in range(d)])
    return namespace(parts[0]).stack([p * cast(s, p) for p, s in zip(parts, slope)], axis=-1)


def hessian(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """Second derivatives, (..., C, d, d)."""
    d = len(slope)
    pairs = [(k, l) for k in range(d) for l in range(k, d)]
    found = _second(f, pairs, slope, bend)
    entry = dict(zip(pairs, found))
    xp = namespace(found[0])
    rows = xp.stack([entry[min(k, l), max(k, l)] for k in range(d) for l in range(d)], axis=-1)
    return xp.reshape(rows, (*found[0].shape, d, d))


def laplacian(f: Partials, slope: Sequence[Array], bend: Sequence[Array | None]) -> Array:
    """Sum of the unmixed second derivatives, (..., C)."""
    found = _second(f, [(k, k) for k in range(len(slope))], slope, bend)
    return sum(found[1:], start=found[0])


def magnitude(gradient: Array) -> Array:
    """Lengths (...) of vectors (..., d), real also where these are complex."""
    xp = namespace(gradient)
    return xp.sqrt(xp.sum(xp.abs(gradient) ** 2, axis=-1))


def _second(
    f: Partials,
    pairs: list[tuple[int, int]],
    slope: Sequence[Array],
    bend: Sequence[Array | None],
) -> list[Array]:
    """Second derivatives along pairs of axes, (..., C) each."""
    d = len(slope)
    uneven = [k for k in range(d) if bend[k] is not None and (k, k) in pairs]
    parts = f([_unit(d, *pair) for pair in pairs] + [_unit(d, k) for k in uneven])
    found = [p * cast(slope[k] * slope[l], p) for (k, l), p in zip(pairs, parts)]
    for k, p in zip(uneven, parts[len(pairs) :]):  # the axis's own curvature
        i = pairs.index((k, k))
        found[i] = found[i] + p * cast(bend[k], p)
    return found


def _unit(d: int, *axes: int) -> Order:
    """The multi-index that differentiates once along each of the given axes."""
    return tuple(axes.count(k) for k in range(d))
