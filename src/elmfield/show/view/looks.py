"""Numbers to look at: a quantity of a field, or a spline through its samples, on part of a plane.

Index coordinates enter, float32 leaves, channels last; NaN is missing. No colours here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.show.view.scene import Scene

SPLINES = {"nearest": 0, "linear": 1, "cubic": 3}

MARGIN = 12
"""Samples around a part that its cubic spline is told of: 0.27^12 is 1e-7."""


@dataclass(frozen=True)
class Look:
    """What is asked for, the same for all tiles of a picture.

    Parameters
    ----------
    quantity : str
        "value", "gradient", "laplacian", "error", or "regions".
    method : str
        "field", or a spline to put beside it.
    channels : tuple of int
        Which, in the order of the result.
    part : str
        Of complex numbers.
    at : tuple of float
        Index coordinates on the axes that are not shown.
    """

    quantity: str = "value"
    method: str = "field"
    channels: tuple[int, ...] = (0,)
    part: str = "magnitude"
    at: tuple[float, ...] = ()


def numbers(scene: Scene, look: Look, x: Sequence[Floats]) -> Array:
    """What a look shows at index coordinates `x` of all axes, (p_1, ..., p_d, C)."""
    if look.quantity == "error":
        return _errors(scene, look, x)
    if look.quantity == "value" and look.method != "field":
        values = _spline(scene, look, x)
    else:
        values = _evaluated(scene, look.quantity, x)[..., list(look.channels)]
    values = of_part(values, look.part)
    gone = _missing(scene, x)
    values = np.asarray(values, np.float32)
    if gone is not None:
        values = np.where(gone[..., None], np.float32(np.nan), values)
    return values


def on_plane(scene: Scene, look: Look, rows: Floats, columns: Floats) -> Array:
    """The same at rows and columns of the plane that is shown, (p, q, C)."""
    values = numbers(scene, look, spread(scene, look.at, {0: rows, 1: columns}))
    rest = tuple(k for k in range(values.ndim - 1) if k not in scene.plane.axes)
    return values.squeeze(rest) if rest else values


def means_on_plane(scene: Scene, look: Look, rows: Floats, columns: Floats) -> Array:
    """Means between edges of rows and columns: where pixels are larger than samples."""
    fine, counts = [], []
    for edges in (rows, columns):
        n = max(1, math.ceil(abs(float(edges[1] - edges[0])) - 1e-9))
        step = np.diff(edges)[:, None] * ((np.arange(n) + 0.5) / n)
        fine.append((edges[:-1, None] + step).reshape(-1))
        counts.append(n)
    values = on_plane(scene, look, fine[0], fine[1])
    if counts == [1, 1]:
        return values
    p, q, C = len(rows) - 1, len(columns) - 1, values.shape[-1]
    boxes = values.reshape(p, counts[0], q, counts[1], C)
    have = np.isfinite(boxes)
    if have.all():
        return np.asarray(boxes.mean(axis=(1, 3), dtype=np.float32))
    count = have.sum(axis=(1, 3))
    total = np.where(have, boxes, 0).sum(axis=(1, 3), dtype=np.float32)
    mostly = 2 * count >= counts[0] * counts[1]
    return np.where(mostly, total / np.maximum(count, 1), np.float32(np.nan)).astype(np.float32)


def spread(scene: Scene, at: Sequence[float], shown: dict[int, Floats]) -> list[Floats]:
    """Index coordinates of all axes: those of the plane by side, others where they stand."""
    found: list[Any] = [None] * len(scene.field.shape)
    for k, where in zip(scene.others, at):
        found[k] = np.asarray([where], np.float64)
    for side, places in shown.items():
        found[scene.along if scene.is_series else scene.plane.axes[side]] = places
    return found


def region_lines(scene: Scene, at: Sequence[float], rows: Floats, columns: Floats) -> Array:
    """True on the first pixel of a region, along rows or columns; edges of pixels enter."""
    part = scene.field.partition
    cells = []
    size = []
    for edges in (rows, columns):
        size.append(abs(float(edges[1] - edges[0])))
        middle = (edges[:-1] + edges[1:]) / 2
        cells.append(np.concatenate([[middle[0] - (middle[0] - edges[0]) * 2], middle]))
    x = spread(scene, at, {0: cells[0], 1: cells[1]})
    which = [
        c[np.clip(np.round(places).astype(int), 0, n - 1)]
        for c, places, n in zip(part.cell_of, x, part.shape)
    ]
    label = part.labels[np.ix_(*which)]
    rest = tuple(k for k in range(label.ndim) if k not in scene.plane.axes)
    label = label.squeeze(rest) if rest else label
    line = (label[1:, 1:] != label[:-1, 1:]) | (label[1:, 1:] != label[1:, :-1])
    if line.mean() > 0.45:  # cells of a few pixels: nothing but lines would be seen
        line = np.zeros_like(line)
    return np.asarray(line)


# --- the field, splines, errors -------------------------------------------------------------------


def _evaluated(scene: Scene, quantity: str, x: Sequence[Floats]) -> Array:
    """A quantity at index coordinates, channels last; filled where it is marked as missing."""
    field, way = scene.field, None if scene.missing is None else "fill"
    at = [a.from_index(np.clip(c, lo, hi)) for a, c, lo, hi in _axes(field, x)]
    values = to_numpy(field.grid(*at, quantity=quantity, outside="nearest", missing=way))
    k = field.channel_axis
    return np.asarray(values[..., None] if k is None else np.moveaxis(values, k, -1))


def _axes(field: Field, x: Sequence[Floats]) -> Any:
    return zip(field.domain.axes, x, field.domain.low, field.domain.high)


def of_part(values: Array, part: str) -> Array:
    """Of complex numbers, their magnitude or another part; real ones pass."""
    if not np.iscomplexobj(values):
        return values
    take: dict[str, Any] = {"phase": np.angle, "real": np.real, "imaginary": np.imag}
    return np.asarray(take.get(part, np.abs)(values))


def _missing(scene: Scene, x: Sequence[Floats]) -> Array | None:
    """Which places lie nearest to a missing sample."""
    if scene.missing is None:
        return None
    at = [_nearest(c, n) for c, n in zip(x, scene.missing.shape)]
    return np.asarray(scene.missing[np.ix_(*at)])


def _nearest(places: Floats, n: int) -> Array:
    # The half of a border belongs to the sample after it, as cells of regions do.
    return np.clip(np.floor(places + 0.5).astype(int), 0, n - 1)


def _spline(scene: Scene, look: Look, x: Sequence[Floats]) -> Array:
    """A spline through the field's own values at its samples around a part."""
    order = SPLINES[look.method]
    around, local = [], []
    for c, n in zip(x, scene.field.shape):
        margin = MARGIN if order > 1 else 1
        first = max(0, math.floor(c.min()) - margin)
        last = min(n - 1, math.ceil(c.max()) + margin)
        around.append(np.arange(first, last + 1, dtype=np.float64))
        inner = np.clip(c, 0, n - 1)
        local.append((np.floor(inner + 0.5) if order == 0 else inner).clip(0, n - 1) - first)
    values = _evaluated(scene, "value", around)[..., list(look.channels)]
    grid = np.stack(np.meshgrid(*local, indexing="ij"))
    found = [through(v, order, grid) for v in np.moveaxis(values, -1, 0)]
    return np.stack(found, axis=-1)


def through(values: Array, order: int, places: Floats) -> Array:
    """A spline of an order through values at 0, 1, ..., at places (d, ...)."""
    from scipy.ndimage import map_coordinates, spline_filter

    if np.iscomplexobj(values):
        return through(values.real, order, places) + 1j * through(values.imag, order, places)
    c = np.asarray(values, np.float64)
    c = spline_filter(c, order, mode="mirror") if order > 1 else c
    return np.asarray(map_coordinates(c, places, order=order, mode="mirror", prefilter=False))


def _errors(scene: Scene, look: Look, x: Sequence[Floats]) -> Array:
    """How far the field is from the sample that lies nearest."""
    assert scene.samples is not None
    at = [_nearest(c, n) for c, n in zip(x, scene.field.shape)]
    own, back = zip(*(np.unique(a, return_inverse=True) for a in at))
    truth = scene.samples[np.ix_(*own)][..., list(look.channels)]
    mine = _evaluated(scene, "value", [o.astype(np.float64) for o in own])
    error = np.abs(mine[..., list(look.channels)] - truth).astype(np.float32)
    return np.asarray(error[np.ix_(*back)])
