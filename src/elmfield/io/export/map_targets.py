"""Reference systems, the way from one to another, and maps that are no grids of a field's axes."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.domain.axis import cell_edges
from elmfield.field import Field
from elmfield.field.coordinates.labels import AxisLabels, CoordinateLabels, Labels
from elmfield.field.coordinates.parse import own_coords
from elmfield.io.conventions import load_pyproj, map_axes
from elmfield.io.gridded import transform_of

EARTH = "EPSG:4326"
"""Latitudes and longitudes in degrees."""

LARGEST_MAP_METRES = 1e8
"""A map of the Earth is smaller; where one is not, its projection has no end."""

Bounds = tuple[float, float, float, float]
"""West, south, east, north."""


def transformer(start: str, end: str) -> Any:
    """What takes coordinates, x or longitude first, from one system to another, in PROJ's words."""
    library = _pyproj(end)
    return library.Transformer.from_crs(_parse(start), _parse(end), always_xy=True)


def _transform(by: Any, x: Floats, y: Floats, *, way: str = "FORWARD") -> tuple[Floats, Floats]:
    """Coordinates of points; NaN for those that the other system cannot show."""
    found = by.transform(np.ravel(x), np.ravel(y), direction=way)
    a, b = (np.where(np.isfinite(c), c, np.nan).reshape(np.shape(x)) for c in found)
    return a, b


@lru_cache(maxsize=16)  # two thirds of the time of a map: 90 000 places, there and back
def whole_bounds(start: str, end: str, box: Bounds) -> Bounds | None:
    """A box around what latitudes and longitudes all around the Earth become in another system.

    Those that it can show: places that come back where they were. Where a projection has no end, as
    at the pole that it does not show, within the system's area of use; None where it has none.
    """
    _, south, _, north = box
    by = transformer(start, end)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what such a text leaves out
        told = _parse(end).to_dict()
    # A projection's ends are opposite to its middle.
    middle = float(told.get("lon_0", 0.0)) if isinstance(told, Mapping) else 0.0
    around = middle + np.linspace(-180 + 1e-9, 180 - 1e-9, 721)
    lon, lat = (c.reshape(-1) for c in np.meshgrid(around, np.linspace(south, north, 361)))
    for used in (None, _parse(end).area_of_use):
        if used is not None:
            w, wide = used.west, used.east - used.west
            shown = (lat >= used.south) & (lat <= used.north)
            shown &= (lon - w) % 360 <= wide % 360 + 360 * (wide >= 360)
            lon, lat = lon[shown], lat[shown]
        x, y = _transform(by, lon, lat)
        again, same = _transform(by, x, y, way="INVERSE")
        turned = (again - lon + 180) % 360 - 180
        off = np.hypot(np.cos(np.deg2rad(lat)) * turned, same - lat)
        good = np.isfinite(off) & (off < 1e-4)
        found = x[good], y[good]
        if good.any() and max(float(np.abs(c).max()) for c in found) < LARGEST_MAP_METRES:
            return found[0].min(), found[1].min(), found[0].max(), found[1].max()
    return None


def same_system(one: str, other: str) -> bool:
    """Whether two systems are one."""
    return bool(_parse(one) == _parse(other))


def _pyproj(crs: str) -> ModuleType:
    return load_pyproj(f"a grid in another reference system, {crs[:40]},")


def _parse(crs: str) -> Any:
    """A system that PROJ knows; ValueError for others."""
    library = _pyproj(crs)
    try:
        return library.CRS.from_user_input(crs)
    except Exception as error:
        try:
            library.CRS.from_user_input(EARTH)
        except Exception:
            raise ValueError(
                f"no reference system can be looked up: PROJ says {str(error)!r}. If ecCodes is "
                "installed (extra grib), import pyproj before all else; else look at PROJ_DATA."
            ) from error
        told = f"such as EPSG:3035; got {crs[:60]!r}. {error}"
        raise ValueError(f"`crs` must be a reference system, {told}") from error


# --- maps -----------------------------------------------------------------------------------------


SIDE_PIECES, TORN_SHARE = 4, 0.25
"""Straight pieces that stand for the side of a projected cell; how far the middle of a piece may be
from that of its ends, in its length: 0.21 for a quarter of a circle."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MapTarget:
    """Places of two dims, or cells of one, that are no grid of the field's own axes.

    Parameters
    ----------
    plane : pair of str
        The field's two axes.
    points : array, shape (n_y, n_x, 2)
        The places on these.
    cells : callable
        Gives the corners of the cells around them, (n_y, n_x, v, 2).
    dims : tuple of str
        Of the values: two, or the one of unstructured cells, which are the only row.
    coords : mapping of str to array
        Along these, where they have coordinates.
    axes : mapping of str to AxisLabels
        What is known about them.
    places : mapping of str to CoordinateLabels
        Coordinates in a system that is not the field's, of two dims or along the one.
    crs : str or None
        Their reference system, as well-known text, where it is not the field's.
    """

    plane: tuple[str, str]
    points: Floats = field(repr=False)
    cells: Callable[[], Floats] = field(repr=False)
    dims: tuple[str, ...]
    coords: Mapping[str, Floats] = field(default_factory=dict)
    axes: Mapping[str, AxisLabels] = field(default_factory=dict)
    places: Mapping[str, CoordinateLabels] = field(default_factory=dict)
    crs: str | None = None


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


def map_target(
    of: Field, y: Floats, x: Floats, *, crs: str | None = None, dims: Sequence[str] = ("y", "x"),
    edges: Sequence[Floats | None] = (None, None), names: Sequence[str] = (),
    labels: Labels | None = None,
) -> MapTarget:  # fmt: skip
    """Places at y and x, along two axes or each of two dims, in the field's system or another.

    `edges` are borders of cells along the axes, or corners (n_y, n_x, v) of cells; `names` and
    `labels` of coordinates in another system.
    """
    about = Labels() if labels is None else labels
    (j, k), back = map_plane(of), None if crs is None else transformer(crs, own_crs(of))
    plane, turn = (of.domain.dims[j], of.domain.dims[k]), of.domain.axes[k].period
    y, x = np.asarray(y, np.float64), np.asarray(x, np.float64)
    is_grid = y.ndim == 1
    X, Y = np.meshgrid(x, y) if is_grid else (x, y)
    u, v = X, Y
    if back is not None:
        u, v = _transform(back, X, Y)
        # Beside the Earth places come back elsewhere.
        again = _transform(back, u, v, way="INVERSE")
        turns = 360 * np.round((again[0] - X) / 360) if back.source_crs.is_geographic else 0
        off = np.hypot(again[0] - X - turns, again[1] - Y)
        near = 1e-3 * max(float(np.ptp(c)) / max(1, max(c.shape) - 1) for c in (x, y)) + 1e-9
        u, v = (np.where(off <= near, c, np.nan) for c in (u, v))
    if is_grid:
        rows, columns = (cell_edges(c) if e is None else e for c, e in zip((y, x), edges))
        corners = partial(projected_cells, rows, columns)
    else:
        own_turn = turn if back is None else None
        corners = partial(_corners, Y, X, edges, own_turn, is_row=len(dims) == 1)

    def cells() -> Floats:
        found = corners()
        return found if back is None else _through(back, found, is_round=turn is not None)

    lines = (y, x) if len(dims) == 2 else (y[0], x[0])
    places = {
        name: CoordinateLabels(dims=list(dims), values=c, attrs=about.axis(name).attrs)
        for name, c in zip(() if is_grid else names, lines)
    }
    return MapTarget(
        plane=plane, points=np.stack([v, u], axis=-1), cells=cells, dims=tuple(dims),
        coords=dict(zip(dims, (y, x))) if is_grid else {}, places=places,
        axes={n: about.axis(n) for n in dims if n in about.axes},
        crs=str(_parse(crs).to_wkt()) if crs is not None and is_grid else None,
    )  # fmt: skip


def even(of: Field, given: Mapping[str, Floats], edges: Mapping[str, Floats]) -> MapTarget:
    """Places at coordinates on the axes of a map; their samples where there are none."""
    own, dims = own_coords(of.domain), [of.domain.dims[k] for k in map_plane(of)]
    y, x = (given.get(name, own[k]) for name, k in zip(dims, map_plane(of)))
    rows, columns = (edges.get(name, cell_edges(c)) for name, c in zip(dims, (y, x)))
    if of.labels.horizontal(dims) is not None:
        rows = np.clip(rows, -90, 90)
    return map_target(of, y, x, dims=dims, edges=(rows, columns))


def reprojected(labels: Labels, grid: MapTarget) -> Labels:
    """Labels of a map in another system, as GeoTIFF and CF have them."""
    axes = {k: v for k, v in labels.axes.items() if k not in grid.plane} | dict(grid.axes)
    coords = labels.coords_off(grid.plane)
    for k, name in enumerate(grid.plane):
        if name not in (*grid.dims, "y", "x"):
            values = grid.points[0, :, k] if len(grid.dims) == 1 else grid.points[..., k]
            about = labels.axis(name).attrs
            coords[name] = CoordinateLabels(dims=list(grid.dims), values=values, attrs=about)
    if grid.places:
        coords = {k: c for k, c in coords.items() if k != "spatial_ref"} | dict(grid.places)
        attrs = {k: v for k, v in labels.attrs.items() if k != "grid_mapping"}
        labels = replace(labels, attrs=attrs)
    if grid.crs is None:
        return replace(labels, axes=axes, coords=coords, crs=None, transform=None)
    for name in {"y", "x"} & set(grid.dims) - set(grid.axes):
        told = {"standard_name": f"projection_{name}_coordinate", "axis": name.upper()}
        axes[name] = AxisLabels(attrs=told)
    coords["spatial_ref"] = CoordinateLabels(values=0, attrs={"crs_wkt": grid.crs})
    attrs = {**labels.attrs, "grid_mapping": "spatial_ref"}
    labels = replace(labels, axes=axes, coords=coords, attrs=attrs, align="areas")
    return replace(labels, crs=grid.crs, transform=transform_of(*grid.coords.values()))


# --- cells ---------------------------------------------------------------------------------------


def projected_cells(y: Floats, x: Floats) -> Floats:
    """Corners (n_y, n_x, v, 2), y first, of the cells between edges.

    Sides are curves in another system: some places on each are corners too, which neighbours share.
    """
    t, one = np.arange(SIDE_PIECES) / SIDE_PIECES, np.ones(SIDE_PIECES)
    along, down = (np.concatenate(c) for c in ((t, one, 1 - t, 0 * t), (0 * t, t, one, 1 - t)))
    rows, columns = y[:, None, None], x[:, None]
    Y = (1 - down) * rows[:-1] + down * rows[1:]
    X = (1 - along) * columns[:-1] + along * columns[1:]
    return np.stack(np.broadcast_arrays(Y, X), axis=-1)


def _through(back: Any, corners: Floats, *, is_round: bool) -> Floats:
    """Corners (..., v, 2) in the field's system; NaN of cells that its map tears apart.

    These reach over the map's seam: the middle of a side is not near the middle of its ends. Where
    the field goes round there is none.
    """
    y, x = corners[..., 0], corners[..., 1]
    if back.source_crs.is_geographic:
        x = np.unwrap(x, period=360, axis=-1)
    found = np.stack(_transform(back, x, y)[::-1], axis=-1)
    if is_round:
        return found
    middles = _transform(back, *((c + np.roll(c, -1, axis=-1)) / 2 for c in (x, y)))
    side = np.roll(found, -1, axis=-2) - found
    off = np.linalg.norm(found + side / 2 - np.stack(middles[::-1], axis=-1), axis=-1)
    wide = np.linalg.norm(side, axis=-1)
    torn = off > TORN_SHARE * wide + 1e-6 * wide.max(axis=-1, keepdims=True)
    return np.where(torn.any(axis=-1)[..., None, None], np.nan, found)


def _corners(
    y: Floats, x: Floats, edges: Sequence[Floats | None], turn: float | None, *, is_row: bool
) -> Floats:
    """Corners (n_y, n_x, v, 2) of cells: those that are known, or midway to neighbours."""
    known = [e for e in edges if e is not None]
    if len(known) == 2:
        return np.stack(known, axis=-1)
    if is_row:
        raise ValueError(
            "means over cells of one dim need their corners: `bounds` of both coordinates."
        )
    p = np.stack([y, x], axis=-1)
    if turn is not None:
        for axis in (0, 1):
            p[..., 1] = np.unwrap(p[..., 1], period=turn, axis=axis)
    beyond = [(1, 1) if n > 1 else (0, 0) for n in p.shape[:2]]
    p = np.pad(p, [*beyond, (0, 0)], mode="reflect", reflect_type="odd")  # straight on
    p = np.pad(p, [(1 - a, 1 - a) for a, _ in beyond] + [(0, 0)], mode="edge")
    corners = (p[:-1, :-1] + p[1:, :-1] + p[:-1, 1:] + p[1:, 1:]) / 4
    around = corners[:-1, :-1], corners[:-1, 1:], corners[1:, 1:], corners[1:, :-1]
    return np.stack(around, axis=2)
