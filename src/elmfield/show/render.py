"""A Field at any resolution: grids of positions, quantities on them, and pictures of the numbers.

Positions are index coordinates. Numbers become pictures here, but no file is opened.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Domain
from elmfield.field import Field
from elmfield.partition import Partition

QUANTITIES = ("value", "gradient", "laplacian")


def positions(
    field: Field,
    *,
    scale: float | Sequence[float] | None = None,
    size: Sequence[int] | None = None,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    align: str = "areas",
) -> list[Floats]:
    """Index coordinates of an output grid, one array per axis.

    Parameters
    ----------
    field : Field
        What is to be shown.
    scale : float or sequence, optional
        New samples per old one; 1 by default.
    size : sequence of int, optional
        New samples on each axis, instead of `scale`.
    low, high : sequences of float, optional
        The window in index coordinates; by default the whole domain.
    align : {"areas", "nodes"}
        Whether a sample stands for the area around it (pictures: the window is divided into equal
        areas) or for the node it sits on (weather: old nodes remain nodes).
    """
    d = len(field.shape)
    lows = field.domain.low if low is None else low
    highs = field.domain.high if high is None else high
    per_axis = np.asarray(1.0 if scale is None else scale, np.float64).reshape(-1)
    if per_axis.size not in (1, d):
        raise ValueError(f"`scale` must be one number or {d}, one per axis; got {scale!r}.")
    scales = [float(s) for s in np.broadcast_to(per_axis, (d,))]
    if not all(math.isfinite(s) and s > 0 for s in scales):
        raise ValueError(f"`scale` must be positive; got {scale!r}.")
    if size is not None and (len(size) != d or min(size) < 1):
        raise ValueError(f"`size` must be {d} whole numbers, at least 1; got {tuple(size)!r}.")
    if align not in ("areas", "nodes"):
        raise ValueError(f"`align` must be 'areas' or 'nodes'; got {align!r}.")
    out = []
    for k, axis in enumerate(field.domain.axes):
        a, b = float(lows[k]), float(highs[k])
        if not a < b:
            raise ValueError(f"the window on axis {axis.name!r} is empty: {a:g} to {b:g}.")
        n = None if size is None else int(size[k])
        if axis.size == 1 and n is None:
            out.append(np.zeros(1))
        elif align == "areas":
            n = max(1, round((b - a) * scales[k])) if n is None else n
            out.append(a + (np.arange(n) + 0.5) * (b - a) / n)
        else:
            out.append(_nodes(field.domain, k, a, b, n, scales[k]))
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
        ends = axis.from_index(np.asarray([a, b]))
        raise ValueError(
            f"the window on axis {axis.name!r}, {min(ends):g} to {max(ends):g}, has no node in it. "
            "Use a larger scale, or say how many nodes it should have."
        )
    return np.asarray(first + np.arange(math.floor((last - first) * s + 1e-6) + 1) / s)


def evaluate(
    field: Field,
    x: Sequence[Floats],
    quantity: str = "value",
    *,
    dtype: Any = None,
    progress: Progress | None = None,
) -> Array:
    """A quantity of the field on the grid of index coordinates `x`, block of rows by block.

    Channels, if any, are where the input had them. The gradient's magnitude is per unit of the
    axes' coordinates, and so is the Laplacian.
    """
    if quantity not in QUANTITIES:
        raise ValueError(f"`quantity` must be one of {', '.join(QUANTITIES)}; got {quantity!r}.")
    axes = field.domain.axes
    at = [a.from_index(np.asarray(c, float)) for a, c in zip(axes, x)]
    across = math.prod(len(c) for c in at[1:]) * max(1, field.n_channels)
    rows = max(1, (1 << 22) // max(1, across))
    parts = []
    lead = 1 if field.channel_axis == 0 else 0
    for i in range(0, len(at[0]), rows):
        block = [at[0][i : i + rows], *at[1:]]
        if quantity == "value":
            part = to_numpy(field.grid(*block, outside="nearest"))
        else:
            points = np.stack(np.meshgrid(*block, indexing="ij"), axis=-1)
            if quantity == "gradient":
                g = to_numpy(field.gradient(points, outside="nearest"))
                part = np.sqrt(np.sum(np.abs(g) ** 2, axis=-1))
            else:
                part = to_numpy(field.laplacian(points, outside="nearest"))
            if field.channel_axis is not None:
                part = np.moveaxis(part, -1, field.channel_axis)
        parts.append(cast(part, dtype))
        if progress is not None:
            progress("render", min(i + rows, len(at[0])), len(at[0]))
    return np.concatenate(parts, axis=lead)


def cast(values: Array, dtype: Any) -> Array:
    """`values` as `dtype`; for integers rounded and clipped."""
    if dtype is None:
        return values
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" and values.dtype.kind == "f":
        info = np.iinfo(dtype)
        values = np.clip(np.nan_to_num(np.round(values)), info.min, info.max)
        # The largest int64 is no float64; clipping to it would wrap around.
        top = np.nextafter(float(info.max), 0) if info.bits == 64 else info.max
        values = np.minimum(values, top)
    if dtype.kind == "b":
        return values >= 0.5
    if dtype.kind != "c" and values.dtype.kind == "c":
        raise ValueError(f"complex values cannot be written as {dtype}.")
    return values.astype(dtype)


# --- pictures ---------------------------------------------------------------------------------

MAPS: dict[str, list[tuple[int, int, int]]] = {
    "grey": [(0, 0, 0), (255, 255, 255)],
    "viridis": [
        (68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142),
        (31, 158, 137), (53, 183, 121), (109, 205, 89), (180, 222, 44), (253, 231, 37),
    ],
    "error": [
        (0, 0, 4), (27, 12, 65), (74, 12, 107), (120, 28, 109), (165, 44, 96),
        (207, 68, 70), (237, 105, 37), (251, 155, 6), (247, 209, 61), (252, 255, 164),
    ],
}  # fmt: skip
"""Colours from low to high; between them, straight lines. "viridis" and "error" (inferno) are
matplotlib's, at ten places."""


def picture(
    values: Array, colours: str = "viridis", low: float | None = None, high: float | None = None
) -> Array:
    """An RGB picture (H, W, 3), uint8, of numbers (H, W); what is not finite is left grey."""
    if colours not in MAPS:
        raise ValueError(f"colours must be one of {', '.join(MAPS)}; got {colours!r}.")
    values = np.asarray(np.abs(values) if np.iscomplexobj(values) else values, np.float64)
    finite = np.isfinite(values)
    low = float(values[finite].min(initial=np.inf)) if low is None else low
    high = float(values[finite].max(initial=-np.inf)) if high is None else high
    span = high - low if high > low else 1.0
    t = np.clip((np.where(finite, values, low) - low) / span, 0, 1)
    stops = np.asarray(MAPS[colours], np.float64)
    place = np.linspace(0, 1, len(stops))
    rgb = np.stack([np.interp(t, place, stops[:, k]) for k in range(3)], axis=-1)
    rgb[~finite] = 128
    return np.asarray(np.round(rgb), np.uint8)


def flat(values: Array, channel_axis: int | None, combine: Callable[..., Array]) -> Array:
    """One picture's worth of numbers (H, W) of an array of any shape.

    Channels are combined; of more than two axes the middle of the others is shown, of one axis a
    thin strip.
    """
    if channel_axis is not None:
        values = combine(values, axis=channel_axis)
    while values.ndim > 2:
        k = int(np.argmin(values.shape))
        values = np.take(values, values.shape[k] // 2, axis=k)
    if values.ndim == 1:
        values = np.repeat(values[None, :], max(1, min(64, len(values) // 4)), axis=0)
    return values


def with_regions(rgb: Array, partition: Partition) -> Array:
    """A picture (H, W, 3) with the borders between a partition's regions drawn in."""
    if len(partition.shape) != 2 or rgb.shape[:2] != partition.shape:
        raise ValueError("regions can be drawn on a picture of the array's own shape only.")
    label = partition.labels
    for k, edges in enumerate(partition.edges):
        label = np.repeat(label, np.diff(edges), axis=k)
    line = np.zeros(label.shape, bool)
    line[1:] |= label[1:] != label[:-1]
    line[:, 1:] |= label[:, 1:] != label[:, :-1]
    out = rgb.copy()
    out[line] = (255, 80, 60)
    return out
