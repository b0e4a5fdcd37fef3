"""Target grids: like another file's or array's, of a step, of so many cells, in another projection.

What a caller asks for enters, with the field it is asked of; coordinates on the field's axes leave,
or points of a projected grid. Evaluating them is `rendered`'s business.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmfield._array.checks import is_number, is_whole
from elmfield._array.typing import Array, Floats
from elmfield.domain import Axis
from elmfield.domain.sphere import horizontal, is_latitude, is_longitude
from elmfield.field import Field
from elmfield.io.dataarrays import is_dataarray, is_dataset
from elmfield.io.files import existing, is_path, path_of, read
from elmfield.io.formats.registry import format_of, is_model
from elmfield.io.gridded import Gridded
from elmfield.io.projections import Way, same, text_of

EARTH = "EPSG:4326"
"""Latitudes and longitudes in degrees."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Projected:
    """A grid of another reference system.

    Parameters
    ----------
    crs : str
        The system, as well-known text.
    y, x : arrays
        Coordinates of rows and columns, evenly spaced.
    points : array, shape (len(y), len(x), 2)
        The same places on the field's two axes.
    """

    crs: str
    y: Floats
    x: Floats
    points: Floats = field(repr=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Target:
    """Where a field is wanted.

    Parameters
    ----------
    axes : mapping
        Coordinates on some of its axes, by dim; the others keep their samples.
    edges : mapping
        Borders of the cells around these, where they are known; else midway.
    projected : Projected or None
        Points of another system, on the two axes `plane`.
    plane : tuple of str
        Which axes these are.
    """

    axes: Mapping[str, Floats] = field(default_factory=dict)
    edges: Mapping[str, Floats] = field(default_factory=dict)
    projected: Projected | None = None
    plane: tuple[str, ...] = ()


def target_of(
    field: Field,
    *,
    like: Any = None,
    step: float | Sequence[float] | None = None,
    grid: Sequence[int] | None = None,
    crs: str | None = None,
    align: str = "nodes",
) -> Target | None:
    """The grid that is asked for; None where nothing is."""
    asked = {"like": like, "step": step, "grid": grid}
    given = [name for name, v in asked.items() if v is not None]
    if len(given) > 1:
        raise ValueError(f"say one of `like`, `step` and `grid`; got {' and '.join(given)}.")
    if like is not None:
        if crs is not None:
            raise ValueError("`like` brings its own reference system; leave `crs` out.")
        return _like(field, grid_in(like))
    if crs is not None:
        return _projected_grid(field, crs, step, grid)
    plane = _plane(field)
    if step is not None:
        return Target(axes=_by_step(field, plane, step, align))
    if grid is not None:
        return Target(axes=_by_count(field, plane, grid))
    return None


def _plane(field: Field) -> list[int]:
    """The axes that a step or a number of cells is meant for: latitude and longitude, or all."""
    pair = horizontal(field.domain.dims, field.attributes.get("axes", {}))
    return list(range(len(field.shape))) if pair is None else list(pair)


def _ends(field: Field, k: int) -> tuple[float, float]:
    """Where axis k begins and ends, in the order of its samples; latitudes within 90 degrees."""
    axis = field.domain.axes[k]
    ends = axis.from_index(np.asarray([field.domain.low[k], field.domain.high[k]]))
    about = field.attributes.get("axes", {}).get(axis.name, {}).get("attrs", {})
    if is_latitude(axis.name, about):
        ends = np.clip(ends, -90, 90)
    return float(ends[0]), float(ends[1])


def _per_axis(name: str, given: Any, n: int, good: Any) -> list[Any]:
    listed = [given] * n if np.ndim(given) == 0 else list(given)
    if len(listed) != n or not all(good(v) and v > 0 for v in listed):
        raise ValueError(f"`{name}` must be one positive number, or {n}; got {given!r}.")
    return listed


def _by_step(field: Field, plane: list[int], step: Any, align: str) -> dict[str, Floats]:
    """Coordinates so far apart: from the first sample on, or areas from where the domain begins."""
    found = {}
    for k, h in zip(plane, _per_axis("step", step, len(plane), is_number)):
        axis = field.domain.axes[k]
        way = math.copysign(h, axis.step)
        first, last = _ends(field, k)
        if align == "nodes":
            first, last = (float(axis.from_index(np.asarray([i]))[0]) for i in _outer(field, k))
        if axis.period is not None and _is_whole(field, k):
            n = max(1, round(axis.period / h))
            if abs(n * h - axis.period) > 1e-6 * h:
                raise ValueError(
                    f"`step` must divide the period of axis {axis.name!r}, {axis.period:g}; got "
                    f"{h:g}."
                )
            found[axis.name] = first + way * (np.arange(n) + (0.5 if align == "areas" else 0))
            continue
        n = math.floor(abs(last - first) / h + 1e-6) + (1 if align == "nodes" else 0)
        if n < 1:
            raise ValueError(
                f"`step` must not exceed axis {axis.name!r}, {abs(last - first):g}; got {h:g}."
            )
        found[axis.name] = first + way * (np.arange(n) + (0.5 if align == "areas" else 0))
    return found


def _outer(field: Field, k: int) -> tuple[float, float]:
    """The outermost samples of axis k inside the domain."""
    return math.ceil(field.domain.low[k] - 1e-9), math.floor(field.domain.high[k] + 1e-9)


def _is_whole(field: Field, k: int) -> bool:
    return field.domain.high[k] - field.domain.low[k] > field.shape[k] * (1 - 1e-9)


def _by_count(field: Field, plane: list[int], grid: Any) -> dict[str, Floats]:
    """So many equal cells of the domain; those of a whole circle begin around its first sample."""
    found = {}
    for k, n in zip(plane, _per_axis("grid", grid, len(plane), is_whole)):
        axis, (first, last) = field.domain.axes[k], _ends(field, k)
        if axis.period is not None and _is_whole(field, k):
            found[axis.name] = (
                axis.origin + math.copysign(axis.period, axis.step) * np.arange(n) / n
            )
        else:
            found[axis.name] = first + (np.arange(int(n)) + 0.5) * (last - first) / int(n)
    return found


# --- like something else --------------------------------------------------------------------------


def grid_in(like: Any) -> Any:
    """Dims, coordinates and attributes of what a caller points at."""
    if is_path(like):
        if is_model(path_of(like)):
            from elmfield.io.model.restore import load

            like = load(path_of(like))
        elif format_of(path_of(like)).module == "climate":
            from elmfield.io.formats.climate import grid

            like = grid(existing(like))  # several variables, or none, will do
        else:
            return read(like)
    if isinstance(like, Field):
        at = {a.name: a.coords for a in like.domain.axes if a.coords is not None}
        return _Grid(at, like.attributes)
    if isinstance(like, Gridded):
        return like
    if is_dataarray(like) or is_dataset(like):
        return _of_labels(like)
    if isinstance(like, Mapping):
        return _Grid({str(k): np.asarray(v) for k, v in like.items()}, {})
    raise TypeError(
        "`like` must be a file, a DataArray or Dataset, samples that were read, a field, or a "
        f"mapping of coordinates; got a {type(like).__name__}."
    )


@dataclass(frozen=True, eq=False)
class _Grid:
    """Coordinates by dim, and what is known about them."""

    coords: Mapping[str, Array]
    attributes: Mapping[str, Any]


def _of_labels(like: Any) -> _Grid:
    at, axes = {}, {}
    borders = {c.attrs.get("bounds", f"{name}_bnds") for name, c in like.coords.items()}
    for name, c in like.coords.items():
        if (
            name not in borders
            and c.ndim in (1, 2)
            and c.dtype.kind in "iuf"
            and (c.ndim == 2 or name in like.dims)
        ):
            at[str(name)] = np.asarray(c.values, np.float64)
            axes[str(name)] = {"attrs": dict(c.attrs)}
    bounds = {}
    for name in at:
        told = axes[name]["attrs"].get("bounds", f"{name}_bnds")
        if told in like.coords or (is_dataset(like) and told in like):
            b = np.asarray(like[told].values, np.float64)
            if b.ndim == 2 and b.shape[1] == 2:
                bounds[name] = np.append(b[:, 0], b[-1, 1])
    return _Grid(at, {"axes": axes, "edges": bounds})


def _like(field: Field, given: Any) -> Target:
    """The coordinates that a grid and a field have in common, by name or by what they are."""
    own, about = field.domain.dims, field.attributes.get("axes", {})
    mine, crs = horizontal(own, about), given.attributes.get("crs")
    names = {name: name for name in given.coords if name in own}
    for k, is_one in zip(mine or (), (is_latitude, is_longitude)):
        told = given.attributes.get("axes", {})
        alike = [n for n in given.coords if is_one(n, told.get(n, {}).get("attrs", {}))]
        if len(alike) == 1:
            names[alike[0]] = own[k]
    if crs is not None and {"y", "x"} <= set(given.coords):
        if not same(crs, _own_crs(field)):
            return _projected(field, crs, given.coords["y"], given.coords["x"])
        plane = mine if mine is not None else (own.index("y"), own.index("x"))
        names |= {"y": own[plane[0]], "x": own[plane[1]]}
    if not names:
        raise ValueError(
            f"`like` has no axis of the field's; it has {list(given.coords)}, the field "
            f"{list(own)}. Rename its dims, or say its reference system."
        )
    if any(np.ndim(given.coords[n]) == 2 for n in names):
        raise ValueError(
            "`like` has two-dimensional coordinates, a curvilinear grid; ask for it with "
            "field.interp(latitude=..., longitude=...)."
        )
    edges = given.attributes.get("edges", {})
    return Target(
        axes={own_: np.asarray(given.coords[n], np.float64) for n, own_ in names.items()},
        edges={own_: edges[n] for n, own_ in names.items() if n in edges},
    )


# --- other projections ----------------------------------------------------------------------------


def _crs_of(field: Field) -> str | None:
    """The reference system of a field."""
    own = field.attributes.get("crs")
    if own is None and horizontal(field.domain.dims, field.attributes.get("axes", {})) is not None:
        return EARTH
    return None if own is None else str(own)


def _own_crs(field: Field) -> str:
    """The field's own system, which it must have."""
    own = _crs_of(field)
    if own is None:
        raise ValueError(
            "`crs` needs a field that knows its own reference system: axes of latitude and "
            f"longitude, or a GeoTIFF's; got axes {list(field.domain.dims)}."
        )
    return own


def _pair(field: Field) -> tuple[int, int]:
    """The axes that are y and x of the field's own system."""
    found = horizontal(field.domain.dims, field.attributes.get("axes", {}))
    if found is not None:
        return found
    if {"y", "x"} <= set(field.domain.dims):
        return field.domain.dims.index("y"), field.domain.dims.index("x")
    raise ValueError(f"a map needs axes y and x; got {list(field.domain.dims)}.")


def _projected_grid(field: Field, crs: str, step: Any, grid: Any) -> Target:
    """An even grid over the field's domain in another system."""
    there = Way(_own_crs(field), crs)
    (y0, y1), (x0, x1) = (sorted(_ends(field, k)) for k in _pair(field))
    west, south, east, north = there.bounds(x0, y0, x1, y1)
    if not np.isfinite([west, south, east, north]).all():
        raise ValueError(
            f"{crs} cannot show all of the field, {y0:g} to {y1:g} and {x0:g} to {x1:g}. Crop it "
            "first: field.crop(...)."
        )
    wide, high = east - west, north - south
    if grid is not None:
        ny, nx = (int(n) for n in _per_axis("grid", grid, 2, is_whole))
    elif step is not None:
        hy, hx = _per_axis("step", step, 2, is_number)
        ny, nx = max(1, math.ceil(high / hy - 1e-6)), max(1, math.ceil(wide / hx - 1e-6))
        north, east = south + ny * hy, west + nx * hx
    else:  # about as many places as samples
        n = math.prod(field.shape[k] for k in _pair(field))
        h = math.sqrt(wide * high / n)
        ny, nx = max(1, round(high / h)), max(1, round(wide / h))
    y = north - (np.arange(ny) + 0.5) * (north - south) / ny
    x = west + (np.arange(nx) + 0.5) * (east - west) / nx
    return _projected(field, crs, y, x)


def _projected(field: Field, crs: str, y: Floats, x: Floats) -> Target:
    """Points of a grid in another system."""
    X, Y = np.meshgrid(np.asarray(x, float), np.asarray(y, float))
    u, v = Way(crs, _own_crs(field))(X, Y)
    points, pair = np.stack([v, u], axis=-1), _pair(field)
    return Target(
        projected=Projected(crs=text_of(crs), y=np.asarray(y), x=np.asarray(x), points=points),
        plane=tuple(field.domain.dims[k] for k in pair),
    )


def cells(axis: Axis, at: Floats, low: float, high: float) -> Floats:
    """Borders of cells around coordinates: midway, and within the ends of what is covered."""
    if len(at) < 2:
        return np.asarray([low, high])
    steps = np.diff(at)
    e = np.concatenate([[at[0] - steps[0] / 2], at[:-1] + steps / 2, [at[-1] + steps[-1] / 2]])
    return e if axis.period is not None else np.asarray(np.clip(e, min(low, high), max(low, high)))
