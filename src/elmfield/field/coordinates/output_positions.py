"""Index coordinates of output grids, axis by axis, and what lies outside the domain."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import choice, per_axis, positive, sizes_of
from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis, Domain
from elmfield.domain.axis import coordinate_error

Window = Mapping[str, tuple[float, float]]
"""Ends of the window on some axes, by dim, in index coordinates."""


def positions(
    domain: Domain,
    *,
    shape: int | Sequence[int] | None = None,
    scale: float | Sequence[float] | None = None,
    window: Window | None = None,
    align: str = "areas",
) -> list[Floats]:
    """Index coordinates of an output grid, for each axis.

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
    counts: Sequence[int | None] = [None] * d if shape is None else sizes_of("shape", shape, d)
    scales = [positive("scale", s) for s in per_axis("scale", 1.0 if scale is None else scale, d)]
    out: list[Floats] = []
    for k, axis in enumerate(domain.axes):
        a, b = window.get(axis.name, (domain.low[k], domain.high[k]))
        n = counts[k]
        if not a < b:
            raise ValueError(f"the window on axis {axis.name!r} is empty: {a:g} to {b:g}.")
        if n is None and not (b - a) * scales[k] < 1 << 53:
            raise ValueError(f"`scale` is too large for axis {axis.name!r}; got {scales[k]:g}.")
        if axis.size == 1 and n is None:
            out.append(np.zeros(1))
        elif align == "areas":
            n = max(1, round((b - a) * scales[k])) if n is None else n
            out.append(np.asarray(a + (np.arange(n) + 0.5) * ((b - a) / n)))
        else:
            out.append(_nodes(domain, k, a, b, n, scales[k]))
    return out


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
        raise coordinate_error(
            axis.name,
            "the window on axis {axis!r}, {} to {}, has no node in it. Use a larger scale, or say "
            "how many nodes it should have.",
            *sorted(axis.from_index(np.asarray([a, b]))),
        )
    return np.asarray(first + np.arange(math.floor((last - first) * s + 1e-6) + 1) / s)


def boxes_around(axis: Axis, x: Floats, low: float, high: float) -> Floats | None:
    """Edges of the boxes around positions that are more than a sample apart; None if they are not.

    Neighbours share the edge midway between them; the outermost boxes are as wide on both sides,
    but end with the domain, whose ends are `low` and `high`.
    """
    if len(x) < 2:
        return np.asarray([low, high]) if high - low > 1 + 1e-6 else None
    steps = np.diff(x)
    if abs(float(x[-1] - x[0])) / len(steps) <= 1 + 1e-6:
        return None
    ends = [x[0] - steps[0] / 2], [x[-1] + steps[-1] / 2]
    e = np.concatenate([ends[0], x[:-1] + steps / 2, ends[1]])
    return np.asarray(np.clip(e, low, high) if axis.period is None else e)


def mark_outside(out: Array, beyond: list[Array], channel_axis: int | None) -> Array:
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
    mark = mark.reshape(*mark.shape, *(1,) * (out.ndim - mark.ndim))  # of vectors and matrices
    return xp.where(move(mark, out), xp.full_like(out, xp.nan), out)
