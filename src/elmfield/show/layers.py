"""Numbers to look at: of a field or of a spline through its samples, on planes, lines, at points.

Index coordinates enter; of tiles float32 leaves, channels last, NaN where missing, and of the rest
plain numbers for JSON. No colours here.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field.point_values import query
from elmfield.samples import channels_last
from elmfield.show.pictures import first_pixels
from elmfield.show.scene import Scene

SPLINES = {"nearest": 0, "linear": 1, "cubic": 3}

SHOWN = {"gradient": "gradient_magnitude", "error": "value"}
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
    axes : tuple of two ints, or empty
        Rows and columns, where they are not the usual ones.
    """

    quantity: str = "value"
    method: str = "field"
    channels: tuple[int, ...] = (0,)
    part: str = "magnitude"
    at: tuple[float, ...] = ()
    axes: tuple[int, ...] = ()

    @classmethod
    def first(cls, scene: Scene) -> "Look":
        """What the page shows when it opens."""
        return cls(channels=scene.channels, at=tuple(scene.cross[k] for k in scene.others))


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
    limits: tuple[float, ...] | None = None


Write = Callable[[Download], tuple[str, bytes]]
"""Makes a file: its name and its content."""


# --- on planes ------------------------------------------------------------------------------------


def numbers(scene: Scene, look: Look, x: Sequence[Floats], *, points: bool = False) -> Array:
    """What a look shows at index coordinates `x` of all axes, (p_1, ..., p_d, C).

    Or of the field at `points`, (n, C), whose coordinates `x` are.
    """
    near = [_nearest(c, n) for c, n in zip(x, scene.field.shape)]
    which = tuple(near) if points else np.ix_(*near)
    channels = list(look.channels)
    if look.quantity == "value" and look.method != "field" and not points:
        values = _spline(scene, look, x)
    else:
        at = [n.astype(np.float64) for n in near] if look.quantity == "error" else x
        values = _evaluated(scene, look.quantity, at, points)[..., channels]
    if look.quantity == "error":
        assert scene.samples is not None
        values = np.abs(values - scene.samples[which][..., channels])
    values = np.asarray(of_part(values, look.part), np.float32)
    if scene.missing is None:
        return values
    return np.where(scene.missing[which][..., None], np.float32(np.nan), values)


def on_plane(scene: Scene, look: Look, rows: Floats, columns: Floats) -> Array:
    """The same at rows and columns of the plane that is shown, (p, q, C)."""
    return scene.to_plane(numbers(scene, look, spread(scene, look.at, rows, columns)))


def means_on_plane(scene: Scene, look: Look, rows: Floats, columns: Floats) -> Array:
    """Means between edges of rows and columns: where pixels are larger than samples."""
    fine, counts = zip(*map(_within, (rows, columns)))
    values = on_plane(scene, look, *fine)
    return box_means(values, counts, math.ceil(math.prod(counts) / 2))


def box_means(values: Array, counts: Sequence[int], least: int) -> Array:
    """Means of boxes of so many rows and columns of values (p, q, C).

    Numbers that are not finite do not count; where `least` are not left, infinity if one is, or
    NaN.
    """
    (p, q, C), (a, b) = values.shape, counts
    boxes = values.reshape(p // a, a, q // b, b, C)
    have = np.isfinite(boxes)
    count = have.sum(axis=(1, 3))
    total = np.where(have, boxes, 0).sum(axis=(1, 3), dtype=np.float32)
    none = np.where(np.isinf(boxes).any(axis=(1, 3)), np.inf, np.nan)
    return np.where(count >= least, total / np.maximum(count, 1), none).astype(np.float32)


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
    line = first_pixels(scene.to_plane(part.labels[np.ix_(*which)]))
    # Cells of a few pixels: nothing but lines would be seen.
    return np.zeros_like(line) if line.mean() > 0.45 else line


# --- the field, splines, errors -------------------------------------------------------------------


def _evaluated(scene: Scene, quantity: str, x: Sequence[Floats], points: bool = False) -> Array:
    """A quantity on a grid of index coordinates, or at points; channels last.

    A grid is filled where it is marked as missing.
    """
    field, way = scene.field, None if scene.missing is None else "fill"
    inside = map(np.clip, x, field.domain.low, field.domain.high)
    at = [a.from_index(c) for a, c in zip(field.domain.axes, inside)]
    named = SHOWN.get(quantity, quantity)
    if points:
        values = to_numpy(query(field.model, named, np.stack(at, axis=-1), "nearest"))
        return values.reshape(len(values), field.model.n_channels)
    values = to_numpy(field.grid(*at, quantity=named, outside="nearest", missing=way))
    return channels_last(values, field.model.channel_axis)


def of_part(values: Array, part: str) -> Array:
    """Of complex numbers, their magnitude or another part; real ones pass."""
    if not np.iscomplexobj(values):
        return values
    take: dict[str, Array] = {"phase": np.angle, "real": np.real, "imaginary": np.imag}
    return np.asarray(take.get(part, np.abs)(values))


def _nearest(places: Array, n: Array) -> Array:
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
    from scipy.ndimage import map_coordinates

    values = values.astype(np.result_type(values, np.float64))
    return np.asarray(map_coordinates(values, places, order=order, mode="mirror"))


# --- at points and along lines -----------------------------------------------------------------


def series(scene: Scene, look: Look, first: float, last: float, n: int) -> dict[str, object]:
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


def at_point(scene: Scene, index: Sequence[float]) -> dict[str, object]:
    """Value, gradient and Laplacian at a place, by channel, and the region it lies in."""
    field = scene.field
    x = np.clip(index, field.domain.low, field.domain.high)
    point = np.asarray([float(a.from_index(v)) for a, v in zip(field.domain.axes, x)])
    value, slope, bend = (
        np.reshape(to_numpy(query(field.model, q, point, "nearest")), (field.model.n_channels, -1))
        for q in ("value", "gradient", "laplacian")
    )
    sample = tuple(int(_nearest(v, n)) for v, n in zip(x, field.shape))
    part = field.partition
    gone = scene.missing is not None and bool(scene.missing[sample])
    own = None if scene.samples is None or gone else scene.samples[sample]
    return {
        "index": x.tolist(),
        "coords": point.tolist(),
        "value": plain(value),
        "gradient": [plain(row) for row in slope],
        "laplacian": plain(bend),
        "sample": sample,
        "nearest": None if own is None else plain(own),
        "missing": gone,
        "region": int(part.labels[tuple(c[s] for c, s in zip(part.cell_of, sample))]),
    }


def plain(values: Array) -> list[object]:
    """Numbers for JSON; complex ones as pairs, what is not finite as None."""
    if np.iscomplexobj(values):
        return [[float(v.real), float(v.imag)] for v in values.reshape(-1)]
    return [float(v) if math.isfinite(v) else None for v in np.asarray(values, float).reshape(-1)]


def profile(scene: Scene, look: Look, start: Floats, end: Floats) -> dict[str, object]:
    """What a look shows of the field along a line in the plane, and the samples near it.

    `start` and `end` are index coordinates of the plane's two axes. Places are told as parts of the
    way, from 0 to 1.
    """
    t = np.linspace(0, 1, PROFILE_PLACES)
    places = start + t[:, None] * (end - start)  # (n, 2)
    steps = int(np.ceil(np.max(np.abs(end - start))))
    marks, off, near = np.empty(0), np.empty(0), np.empty((0, 2))
    if 0 < steps <= PROFILE_MAX_SAMPLES:
        marks, off, near = _passed(start, end, [scene.field.shape[k] for k in scene.plane.axes])
    return {
        "t": t.tolist(),
        "values": [plain(v) for v in _scattered(scene, look, places).T],
        "marks": marks.tolist(),
        "off": off.tolist(),
        "samples": [plain(v) for v in _scattered(scene, look, near).T],
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
    x = [np.broadcast_to(c, len(places)) for c in spread(scene, look.at, *places.T)]
    return numbers(scene, look, x, points=True)


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
    low, high = np.sort([rows, columns]).T
    some = lines[((middle >= low) & (middle <= high)).all(axis=1)]
    every = max(1, math.ceil(len(some) / DRAWN_MAX_DIRECTIONS))
    sure = np.linalg.norm(some[:, 1] - some[:, 0], axis=1) / cell
    told = np.column_stack([some.reshape(-1, 4), np.clip(sure, 0, 1)])
    found: list[list[float]] = told[::every].tolist()
    return found
