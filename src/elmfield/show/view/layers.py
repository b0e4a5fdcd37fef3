"""Numbers to look at: of a field or of a spline through its samples, on planes, lines, at points.

Index coordinates enter; of tiles float32 leaves, channels last, NaN where missing, and of the rest
plain numbers for JSON. No colours here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field import Field
from elmfield.field.point_values import query
from elmfield.show.view.scene import Scene

SPLINES = {"nearest": 0, "linear": 1, "cubic": 3}

SHOWN = {"gradient": "gradient_magnitude"}
"""What a look shows of a field, where the two have different names."""

PROFILE_PLACES = 400
"""Along a line."""

PROFILE_MAX_SAMPLES = 400
"""Samples marked along a line; where it passes more, none is."""

DRAWN_MAX_DIRECTIONS = 4000
"""At once."""

SPLINE_MARGIN_SAMPLES = 12
"""Samples around a part that its cubic spline is told of: 0.27^12 is 1e-7."""


@dataclass(frozen=True)
class Look:
    """What is asked for, the same for all tiles of a picture.

    Parameters
    ----------
    quantity : str
        "value", "gradient", "laplacian", "std", "error", or "regions".
    method : str
        "field", or a spline to compare it with.
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

    @classmethod
    def first(cls, scene: Scene) -> "Look":
        """What the page shows when it opens."""
        return cls(channels=scene.channels, at=scene.start)


@dataclass(frozen=True)
class Download:
    """A file that is asked for: its kind, the part of the plane, and its size in samples.

    `rows` and `columns` are index coordinates of both ends, ascending.
    """

    suffix: str
    look: Look
    rows: tuple[float, float]
    columns: tuple[float, float]
    shape: tuple[int, int]
    colours: str = "viridis"
    limits: tuple[float, float] | None = None


Write = Callable[[Download], tuple[str, bytes]]
"""Makes a file: its name and its content."""


# --- on planes ------------------------------------------------------------------------------------


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
    values = numbers(scene, look, spread(scene, look.at, rows, columns))
    return values.squeeze(scene.others)


def means_on_plane(scene: Scene, look: Look, rows: Floats, columns: Floats) -> Array:
    """Means between edges of rows and columns: where pixels are larger than samples."""
    fine, counts = zip(*map(_within, (rows, columns)))
    values = on_plane(scene, look, *fine)
    if counts == (1, 1):
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


def _within(edges: Floats) -> tuple[Floats, int]:
    """Places between edges, as many between each two as there are samples; and how many."""
    n = max(1, math.ceil(abs(float(edges[1] - edges[0])) - 1e-9))
    step = np.diff(edges)[:, None] * ((np.arange(n) + 0.5) / n)
    return (edges[:-1, None] + step).reshape(-1), n


def middles(edges: Floats) -> Floats:
    """Between each two edges."""
    return (edges[:-1] + edges[1:]) / 2


def spread(scene: Scene, at: Sequence[float], *shown: Floats) -> list[Floats]:
    """Index coordinates of all axes: those that are shown, others where their sliders stand."""
    places = dict(zip(scene.shown, shown)) | {
        k: np.asarray([where], np.float64) for k, where in zip(scene.others, at)
    }
    return [places[k] for k in range(len(places))]


def region_lines(scene: Scene, at: Sequence[float], rows: Floats, columns: Floats) -> Array:
    """True on the first pixel of a region, along rows or columns; edges of pixels enter."""
    part = scene.field.partition
    # With the pixel before the first, to see whether that begins a region.
    inner = [middles(edges) for edges in (rows, columns)]
    shown = [np.append(2 * e[0] - m[0], m) for e, m in zip((rows, columns), inner)]
    x = spread(scene, at, *shown)
    which = [
        c[np.clip(np.round(places).astype(int), 0, n - 1)]
        for c, places, n in zip(part.cell_of, x, part.shape)
    ]
    label = part.labels[np.ix_(*which)].squeeze(scene.others)
    line = (label[1:, 1:] != label[:-1, 1:]) | (label[1:, 1:] != label[1:, :-1])
    if line.mean() > 0.45:  # cells of a few pixels: nothing but lines would be seen
        line = np.zeros_like(line)
    return np.asarray(line)


# --- the field, splines, errors -------------------------------------------------------------------


def _evaluated(scene: Scene, quantity: str, x: Sequence[Floats]) -> Array:
    """A quantity at index coordinates, channels last; filled where it is marked as missing."""
    field, way = scene.field, None if scene.missing is None else "fill"
    at = [a.from_index(np.clip(c, lo, hi)) for a, c, lo, hi in _axes(field, x)]
    named = SHOWN.get(quantity, quantity)
    values = to_numpy(field.grid(*at, quantity=named, outside="nearest", missing=way))
    k = field.model.channel_axis
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
        margin = SPLINE_MARGIN_SAMPLES if order > 1 else 1
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


# --- at points and along lines -----------------------------------------------------------------


def series(scene: Scene, look: Look, first: float, last: float, n: int) -> dict[str, Any]:
    """A series between two index coordinates at n places: values, and from where to where they go.

    Where steps are longer than a sample, values are means of those that each stands for.
    """
    edges = np.linspace(first, last, n + 1)
    fine, inner = _within(edges)
    values = numbers(scene, look, spread(scene, look.at, fine))
    values = values.reshape(n, inner, len(look.channels))
    with np.errstate(invalid="ignore"):
        low, high = values.min(axis=1), values.max(axis=1)
    found = {"values": values.mean(axis=1), "low": low, "high": high}
    return {"at": middles(edges).tolist(), **{k: [plain(c) for c in v.T] for k, v in found.items()}}


def at_point(scene: Scene, index: Sequence[float]) -> dict[str, Any]:
    """Value, gradient and Laplacian at a place, by channel, and the region it lies in."""
    field = scene.field
    x = [np.clip(v, lo, hi) for v, lo, hi in zip(index, field.domain.low, field.domain.high)]
    point = np.asarray(
        [float(a.from_index(np.asarray([v]))[0]) for a, v in zip(field.domain.axes, x)]
    )
    C, d = field.model.n_channels, len(field.shape)
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
        "value": plain(value),
        "gradient": [plain(row) for row in slope],
        "laplacian": plain(bend),
        "sample": sample,
        "nearest": None if own is None else plain(own),
        "missing": gone,
        "region": int(part.labels[cell]),
    }


def plain(values: Array) -> list[Any]:
    """Numbers for JSON; complex ones as pairs, what is not finite as None."""
    if np.iscomplexobj(values):
        return [[float(v.real), float(v.imag)] for v in values.reshape(-1)]
    return [float(v) if math.isfinite(v) else None for v in np.asarray(values, float).reshape(-1)]


def profile(scene: Scene, look: Look, start: Floats, end: Floats) -> dict[str, Any]:
    """What a look shows of the field along a line in the plane, and the samples near it.

    `start` and `end` are index coordinates of the plane's two axes. Places are told as parts of the
    way, from 0 to 1.
    """
    t = np.linspace(0, 1, PROFILE_PLACES)
    places = start + t[:, None] * (end - start)  # (n, 2)
    steps = int(np.ceil(np.max(np.abs(end - start))))
    marks, off, shown = np.empty(0), np.empty(0), np.empty((0, len(look.channels)), np.float32)
    if 0 < steps <= PROFILE_MAX_SAMPLES:
        marks, off, near = _passed(start, end, [scene.field.shape[k] for k in scene.plane.axes])
        if len(near):
            shown = _scattered(scene, look, near)
    return {
        "t": t.tolist(),
        "values": [plain(v) for v in _scattered(scene, look, places).T],
        "marks": marks.tolist(),
        "off": off.tolist(),
        "samples": [plain(v) for v in shown.T],
    }


def _passed(start: Floats, end: Floats, shape: Sequence[int]) -> tuple[Floats, Floats, Floats]:
    """Samples near a line: where along it, (n,), how far off, (n,), and which, (n, 2).

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
    x = np.stack([np.broadcast_to(c, n) for c in spread(scene, look.at, *places.T)], axis=-1)
    x = np.clip(x, field.domain.low, field.domain.high)
    near = np.clip(np.floor(x + 0.5).astype(int), 0, np.asarray(field.shape) - 1)
    if look.quantity == "error":
        x = near.astype(np.float64)
    at = np.stack([a.from_index(x[:, k]) for k, a in enumerate(field.domain.axes)], axis=-1)
    named = "value" if look.quantity == "error" else SHOWN.get(look.quantity, look.quantity)
    values = to_numpy(query(field.model, named, at, "nearest"))
    values = values.reshape(n, field.model.n_channels)[:, list(look.channels)]
    if look.quantity == "error" and scene.samples is not None:
        truth = scene.samples[tuple(near.T)][:, list(look.channels)]
        values = np.abs(values - truth)
    values = np.asarray(of_part(values, look.part), np.float32)
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
    every = max(1, math.ceil(len(some) / DRAWN_MAX_DIRECTIONS))
    sure = np.linalg.norm(some[:, 1] - some[:, 0], axis=1) / cell
    told = np.column_stack([some.reshape(-1, 4), np.clip(sure, 0, 1)])
    return [[float(v) for v in row] for row in told[::every]]
