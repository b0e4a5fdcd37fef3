"""Maps that are no grids of the field's axes: of other reference systems, or curvilinear."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from elmfield._array.typing import Floats
from elmfield.field import Field
from elmfield.field.coordinates.labels import AxisLabels, CoordinateLabels, Labels
from elmfield.io.conventions import map_axes
from elmfield.io.export.reference_systems import EARTH, Transformation, as_wkt

SIDE_PIECES = 4
"""Straight pieces that stand for the side of a projected cell."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Projected:
    """A grid of another reference system, or a curvilinear one.

    Parameters
    ----------
    crs : str or None
        The system, as well-known text; None for places that `points` alone say.
    plane : tuple of str
        The field's two axes.
    y, x : arrays
        Coordinates of rows and columns, evenly spaced.
    points : array, shape (len(y), len(x), 2)
        The same places on the field's two axes.
    cells : callable
        Gives the corners of the cells around them, (len(y), len(x), v, 2).
    """

    crs: str | None
    plane: tuple[str, str]
    y: Floats
    x: Floats
    points: Floats = field(repr=False)
    cells: Callable[[], Floats] = field(repr=False)


def curvilinear(of: Field, given: Mapping[str, Floats]) -> Projected:
    """Places that coordinates of two dims say, on the two axes of a map."""
    a, b = (of.domain.dims[k] for k in map_plane(of))
    if set(given) != {a, b} or given[a].shape != given[b].shape or given[a].ndim != 2:
        raise ValueError(
            f"a curvilinear grid needs coordinates of two dims for {a!r} and {b!r}; got "
            f"{ {n: c.shape for n, c in given.items()} }."
        )
    points = np.stack([given[a], given[b]], axis=-1).astype(np.float64)
    turn = of.domain.axes[map_plane(of)[1]].period
    y, x = (np.arange(n, dtype=np.float64) for n in points.shape[:2])
    cells = partial(cells_around, points, turn)
    return Projected(crs=None, plane=(a, b), y=y, x=x, points=points, cells=cells)


def own_crs(of: Field) -> str:
    """The field's own system, which it must have."""
    if of.labels.crs is not None:
        return of.labels.crs
    if of.labels.horizontal(of.domain.dims) is None:
        raise ValueError(
            "`crs` needs a field that knows its own reference system: axes of latitude and "
            f"longitude, or a GeoTIFF's; got axes {list(of.domain.dims)}."
        )
    return EARTH


def map_plane(of: Field) -> tuple[int, int]:
    """The axes that are y and x of the field's own system."""
    dims = of.domain.dims
    found = map_axes(dims, {name: of.labels.axis(name).attrs for name in dims})
    if found is None:
        raise ValueError(f"a map needs axes y and x; got {list(dims)}.")
    return dims.index(found[0]), dims.index(found[1])


def projected(of: Field, crs: str, y: Floats, x: Floats) -> Projected:
    """Points of a grid in another system."""
    y, x = np.asarray(y, float), np.asarray(x, float)
    X, Y = np.meshgrid(x, y)
    back = Transformation(crs, own_crs(of))
    u, v = back(X, Y)
    again = Transformation(own_crs(of), crs)(u, v)  # beside the Earth places come back elsewhere
    off = np.hypot(again[0] - X, again[1] - Y)
    near = 1e-3 * max(float(np.ptp(c)) / max(1, len(c) - 1) for c in (x, y)) + 1e-9
    u, v = (np.where(off <= near, c, np.nan) for c in (u, v))
    a, b = (of.domain.dims[k] for k in map_plane(of))
    points = np.stack([v, u], axis=-1)
    cells = partial(projected_cells, y, x, back)
    text = as_wkt(crs)
    return Projected(crs=text, plane=(a, b), y=y, x=x, points=points, cells=cells)


def reprojected(labels: Labels, grid: Projected) -> Labels:
    """Labels of a map in another system, as GeoTIFF and CF have them."""
    y, x = grid.y, grid.x
    hy = float(y[1] - y[0]) if len(y) > 1 else -1.0
    hx = float(x[1] - x[0]) if len(x) > 1 else 1.0
    axes = {k: v for k, v in labels.axes.items() if k not in grid.plane}
    for name in ("y", "x"):
        told = {"standard_name": f"projection_{name}_coordinate", "axis": name.upper()}
        axes[name] = AxisLabels(attrs=told)
    coords = labels.coords_off(grid.plane)
    for k, name in enumerate(grid.plane):
        if name not in ("y", "x"):
            coords[name] = CoordinateLabels(
                dims=["y", "x"], values=grid.points[..., k], attrs=labels.axis(name).attrs
            )
    if grid.crs is None:
        return replace(labels, axes=axes, coords=coords, crs=None, transform=None, grid=None)
    coords["spatial_ref"] = CoordinateLabels(values=0, attrs={"crs_wkt": grid.crs})
    return replace(
        labels,
        axes=axes,
        coords=coords,
        attrs={**labels.attrs, "grid_mapping": "spatial_ref"},
        align="areas",
        crs=grid.crs,
        transform=[hx, 0.0, float(x[0]) - hx / 2, 0.0, hy, float(y[0]) - hy / 2],
        grid=None,
    )


# --- cells ---------------------------------------------------------------------------------------


def projected_cells(y: Floats, x: Floats, back: Transformation) -> Floats:
    """Corners (n_y, n_x, v, 2), y first, of the cells around rows and columns, in another system.

    Sides are curves there: some places on each are corners too, which neighbours share.
    """
    t = np.arange(SIDE_PIECES) / SIDE_PIECES
    rows, columns = _edges(y), _edges(x)
    top, bottom = rows[:-1, None, None], rows[1:, None, None]
    left, right = columns[None, :-1, None], columns[None, 1:, None]
    same = np.zeros((len(y), len(x), SIDE_PIECES))
    Y = [
        top + same,
        top + (bottom - top) * t + same,
        bottom + same,
        bottom + (top - bottom) * t + same,
    ]
    X = [
        left + (right - left) * t + same,
        right + same,
        right + (left - right) * t + same,
        left + same,
    ]
    found = back(np.concatenate(X, axis=2), np.concatenate(Y, axis=2))
    return np.stack(found[::-1], axis=-1)


def cells_around(places: Floats, turn: float | None) -> Floats:
    """Corners (n_y, n_x, 4, 2) of the cells around places (n_y, n_x, 2): midway to neighbours."""
    p = np.array(places, np.float64)
    if turn is not None:
        for axis in (0, 1):
            p[..., 1] = np.unwrap(p[..., 1], period=turn, axis=axis)
    for axis in (0, 1):
        n = p.shape[axis]
        first, second, last, before = (
            np.take(p, [k], axis=axis) for k in (0, min(1, n - 1), -1, -min(2, n))
        )
        p = np.concatenate([2 * first - second, p, 2 * last - before], axis=axis)
    corners = (p[:-1, :-1] + p[1:, :-1] + p[:-1, 1:] + p[1:, 1:]) / 4
    around = corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1]
    return np.stack(around, axis=2)


def _edges(c: Floats) -> Floats:
    """Borders midway between coordinates, which may be one."""
    steps = np.diff(c) if len(c) > 1 else np.ones(1)
    return np.concatenate(
        [[c[0] - steps[0] / 2], c[:-1] + steps[: len(c) - 1] / 2, [c[-1] + steps[-1] / 2]]
    )
