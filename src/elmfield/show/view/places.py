"""What is at a place: a point, a line, the directions of regions; index coordinates enter."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.show.view.looks import Look, of_part
from elmfield.show.view.scene import Scene

ALONG = 400
"""Places along a line."""

MARKED = 400
"""Samples that are marked beside it."""

DRAWN = 4000
"""Directions that are drawn at once."""


def at_point(scene: Scene, index: Sequence[float]) -> dict[str, Any]:
    """Value, gradient and Laplacian at a place, by channel, and the region it lies in."""
    field = scene.field
    x = [np.clip(v, lo, hi) for v, lo, hi in zip(index, field.domain.low, field.domain.high)]
    point = np.asarray(
        [float(a.from_index(np.asarray([v]))[0]) for a, v in zip(field.domain.axes, x)]
    )
    C, d = field.n_channels, len(field.shape)
    value = np.reshape(to_numpy(field(point, outside="nearest")), (C,))
    slope = np.reshape(to_numpy(field.gradient(point, outside="nearest")), (C, d))
    bend = np.reshape(to_numpy(field.laplacian(point, outside="nearest")), (C,))
    sample = [int(np.clip(math.floor(v + 0.5), 0, n - 1)) for v, n in zip(x, field.shape)]
    part = field.partition
    cell = tuple(c[s] for c, s in zip(part.cell_of, sample))
    gone = scene.missing is not None and bool(scene.missing[tuple(sample)])
    own = None if scene.samples is None or gone else scene.samples[tuple(sample)]
    return {
        "index": [float(v) for v in x],
        "coords": point.tolist(),
        "value": _plain(value),
        "gradient": [_plain(row) for row in slope],
        "laplacian": _plain(bend),
        "sample": sample,
        "nearest": None if own is None else _plain(own),
        "missing": gone,
        "region": int(part.labels[cell]),
    }


def _plain(values: Array) -> list[Any]:
    """Numbers for JSON; complex ones as pairs, what is not finite as None."""
    if np.iscomplexobj(values):
        return [[float(v.real), float(v.imag)] for v in values.reshape(-1)]
    return [float(v) if math.isfinite(v) else None for v in np.asarray(values, float).reshape(-1)]


def profile(scene: Scene, look: Look, start: Floats, end: Floats) -> dict[str, Any]:
    """What a look shows of the field along a line in the plane, and the samples beside it.

    `start` and `end` are index coordinates of the plane's two axes. Places are told as parts of the
    way, from 0 to 1.
    """
    t = np.linspace(0, 1, ALONG)
    places = start + t[:, None] * (end - start)  # (n, 2)
    steps = int(np.ceil(np.max(np.abs(end - start))))
    marks, off, shown = np.empty(0), np.empty(0), np.empty((0, len(look.channels)), np.float32)
    if 0 < steps <= MARKED:
        marks, off, near = _passed(start, end, [scene.field.shape[k] for k in scene.plane.axes])
        shown = _scattered(scene, look, near)
    return {
        "t": t.tolist(),
        "values": [_plain(v) for v in _scattered(scene, look, places).T],
        "marks": marks.tolist(),
        "off": off.tolist(),
        "samples": [_plain(v) for v in shown.T],
    }


def _passed(start: Floats, end: Floats, shape: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Samples beside a line: where along it, (n,), how far off, (n,), and which, (n, 2).

    One for each row or column that the line crosses, at most half a sample away.
    """
    way = end - start
    k = int(np.argmax(np.abs(way)))
    first, last = sorted((start[k], end[k]))
    own = np.arange(math.ceil(first), math.floor(last) + 1, dtype=np.float64)
    t = (own - start[k]) / way[k]
    crossed = start[1 - k] + t * way[1 - k]
    other = np.floor(crossed + 0.5)
    near = np.stack([own, other], axis=-1)[:, [k, 1 - k] if k == 0 else [1, 0]]
    inside = ((near >= 0) & (near < np.asarray(shape))).all(axis=1)
    return t[inside], np.abs(crossed - other)[inside], near[inside]


def _scattered(scene: Scene, look: Look, places: Floats) -> Array:
    """A quantity of the field at places of the plane, (n, C); NaN where it is missing."""
    field, n = scene.field, len(places)
    x = np.empty((n, len(field.shape)))
    for k, where in zip(scene.others, look.at):
        x[:, k] = where
    x[:, list(scene.plane.axes)] = places
    x = np.clip(x, field.domain.low, field.domain.high)
    near = np.clip(np.floor(x + 0.5).astype(int), 0, np.asarray(field.shape) - 1)
    if look.quantity == "error":
        x = near.astype(np.float64)
    at = np.stack([a.from_index(x[:, k]) for k, a in enumerate(field.domain.axes)], axis=-1)
    call: Any = {"gradient": field.gradient, "laplacian": field.laplacian}.get(look.quantity, field)
    values = to_numpy(call(at, outside="nearest"))
    values = values.reshape(n, field.n_channels, -1)[:, list(look.channels)]
    if look.quantity == "gradient":
        values = np.sqrt(np.sum(np.abs(values) ** 2, axis=-1, keepdims=True))
    if look.quantity == "error" and scene.samples is not None:
        truth = scene.samples[tuple(near.T)][:, list(look.channels)]
        values = np.abs(values - truth[..., None])
    values = np.asarray(of_part(values[..., 0], look.part), np.float32)
    if scene.missing is not None:
        values[scene.missing[tuple(near.T)]] = np.nan
    return values


def directions_between(
    scene: Scene, rows: tuple[float, float], columns: tuple[float, float]
) -> list[list[float]]:
    """Lines along which regions are smooth, in a part of the plane.

    Two ends each, by index, and how sure the region is of it, from 0 to 1: as long is the line,
    counted in the smallest cell.
    """
    lines = scene.directions  # (n, 2, 2)
    cell = min(float(np.diff(e).min()) for e in scene.field.partition.edges)
    middle = lines.mean(axis=1)
    inside = (
        (middle[:, 0] >= min(rows)) & (middle[:, 0] <= max(rows))
        & (middle[:, 1] >= min(columns)) & (middle[:, 1] <= max(columns))
    )  # fmt: skip
    some = lines[inside]
    every = max(1, math.ceil(len(some) / DRAWN))
    sure = np.linalg.norm(some[:, 1] - some[:, 0], axis=1) / cell
    told = np.column_stack([some.reshape(-1, 4), np.clip(sure, 0, 1)])
    return [[float(v) for v in row] for row in told[::every]]
