"""Where the samples of an output grid lie: resolution, window, alignment; index coordinates."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import choice, is_whole
from elmfield._array.typing import Array, Floats
from elmfield.domain import Domain
from elmfield.field.stretches import Places, even

Window = Mapping[str, tuple[float, float]]
"""Ends of the window on some axes, by dim, in index coordinates."""


def positions(
    domain: Domain,
    *,
    shape: int | Sequence[int] | None = None,
    scale: float | Sequence[float] | None = None,
    window: Window | None = None,
    align: str = "areas",
) -> list[Places]:
    """Index coordinates of an output grid, for each axis; long ones are made where looked at.

    Parameters
    ----------
    domain : Domain
        The box that is shown, and its axes.
    shape : sequence of int, optional
        New samples on each axis; or
    scale : float or sequence, optional
        new samples per old one; 1 by default.
    window : mapping, optional
        The part to show on some axes, ``{dim: (low, high)}``; by default the whole box. On a
        periodic axis it may end beyond the box.
    align : {"areas", "nodes"}
        Whether a sample stands for the area around it (pictures: the window is divided into equal
        areas) or for the node it sits on (weather: old nodes remain nodes).
    """
    d, window = len(domain.axes), window or {}
    choice("align", align, ("areas", "nodes"))
    sizes, scales = _sizes(shape, d), _scales(scale, d)
    out: list[Places] = []
    for k, axis in enumerate(domain.axes):
        a, b = window.get(axis.name, (domain.low[k], domain.high[k]))
        n = sizes[k]
        if not a < b:
            raise ValueError(f"the window on axis {axis.name!r} is empty: {a:g} to {b:g}.")
        if axis.size == 1 and n is None:
            out.append(np.zeros(1))
        elif align == "areas":
            n = max(1, round((b - a) * scales[k])) if n is None else n
            out.append(even(a, b, n))
        else:
            out.append(_nodes(domain, k, a, b, n, scales[k]))
    return out


def _sizes(shape: int | Sequence[int] | None, d: int) -> list[int | None]:
    """New samples on each axis, or None where the scale says it."""
    if shape is None:
        return [None] * d
    sizes: list[Any] = [shape] if np.ndim(shape) == 0 else list(shape)  # type: ignore[arg-type]
    if len(sizes) != d or not all(is_whole(n) and 1 <= n < 1 << 53 for n in sizes):
        raise ValueError(
            f"`shape` must be {d} whole numbers of at least 1, one per axis; got {shape!r}."
        )
    return [int(n) for n in sizes]


def _scales(scale: float | Sequence[float] | None, d: int) -> list[float]:
    try:
        given = np.asarray(1.0 if scale is None else scale, np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`scale` must be one number or {d}, one per axis in their order; got {scale!r}."
        ) from error
    if given.size not in (1, d):
        raise ValueError(f"`scale` must be one number or {d}, one per axis; got {scale!r}.")
    if not (np.isfinite(given).all() and (given > 0).all()):
        raise ValueError(f"`scale` must be positive; got {scale!r}.")
    return [float(s) for s in np.broadcast_to(given, (d,))]


def _nodes(domain: Domain, k: int, a: float, b: float, n: int | None, s: float) -> Floats:
    """Nodes from a to b on axis k: n of them, or s to an old one, old nodes among them.

    The whole axis ends at its outer samples; a window of n nodes ends at its own ends.
    """
    axis = domain.axes[k]
    inner = math.ceil(a - 1e-9), math.floor(b + 1e-9)
    whole = (a, b) == (domain.low[k], domain.high[k]) and inner[0] < inner[1]
    wraps = axis.period is not None and b - a > axis.size - 1e-6
    if n is not None:
        first, last = inner if whole else (a, b)
        if wraps:
            return np.asarray(first + np.arange(n) * axis.size / n)
        return np.linspace(first, last, n) if n > 1 else np.asarray([(a + b) / 2])
    if whole:
        first, last = inner
    else:
        first, last = math.ceil((a - 1e-9) * s) / s, math.floor((b + 1e-9) * s) / s
    if wraps:
        last = first + axis.size - 1 / s
    if last < first:
        ends = axis.from_index(np.asarray([a, b]))
        raise ValueError(
            f"the window on axis {axis.name!r}, {min(ends):g} to {max(ends):g}, has no node in it. "
            "Use a larger scale, or say how many nodes it should have."
        )
    return np.asarray(first + np.arange(math.floor((last - first) * s + 1e-6) + 1) / s)


def marked(out: Array, beyond: list[Array], channel_axis: int | None) -> Array:
    """Gridded values with NaN where a position of any axis lies `beyond` the domain."""
    if not any(b.any() for b in beyond):
        return out
    xp = namespace(out)
    if not xp.isdtype(out.dtype, ("real floating", "complex floating")):
        raise ValueError(
            f"positions outside the domain cannot be NaN in dtype {out.dtype}. Ask for floats, or "
            "pass outside='nearest'."
        )
    mark = beyond[0]
    for b in beyond[1:]:
        mark = mark[..., None] | b
    if channel_axis is not None:
        mark = np.expand_dims(mark, channel_axis)
    return xp.where(move(mark, out), xp.full_like(out, xp.nan), out)
