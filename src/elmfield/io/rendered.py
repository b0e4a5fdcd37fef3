"""A field on any grid, as Gridded: with coordinates, and attributes that are still true there."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import as_dtype, to_numpy
from elmfield._array.progress import silent
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Axis
from elmfield.domain.sphere import cosine, horizontal
from elmfield.field import Field
from elmfield.field.gridded import MOSTLY, gridded
from elmfield.field.labels import derived
from elmfield.field.means import averaged, over
from elmfield.field.missing import shows_gaps
from elmfield.field.reading import own_samples
from elmfield.io.gridded import Gridded
from elmfield.io.own_terms import in_own_terms
from elmfield.io.targets import Target, cells, target_of

BLOCK = 1 << 22
"""Numbers evaluated between two reports of progress."""

MOST = 1 << 33
"""Numbers that are made at once."""


def rendered(
    field: Field,
    shape: int | Sequence[int] | None = None,
    *,
    scale: float | Sequence[float] | None = None,
    window: Mapping[str, tuple[Any, Any]] | None = None,
    align: str | None = None,
    like: Any = None,
    step: float | Sequence[float] | None = None,
    grid: Sequence[int] | None = None,
    crs: str | None = None,
    mean: bool = False,
    rate: Any = None,
    spacing: float | Sequence[float] | None = None,
    affine: Any = None,
    quantity: str = "value",
    dtype: Any = None,
    antialias: bool = True,
    missing: str | None = None,
    progress: Progress = silent,
) -> Gridded:
    """A field on a grid, with coordinates and attributes.

    Parameters are those of :meth:`Field.resize` and :func:`elmfield.regrid`, but that `align` is by
    default as in the file or DataArray the field came from, and that whole numbers stay what they
    were.
    """
    elsewhere = in_own_terms(
        field, shape, scale=scale, window=window, like=like, rate=rate, spacing=spacing,
        affine=affine, quantity=quantity, dtype=dtype, antialias=antialias, missing=missing,
    )  # fmt: skip
    if elsewhere is not None:
        progress("render", 1, 1)
        return elsewhere
    own = str(field.attributes.get("align", "areas")) if align is None else align
    asked = any(v is not None for v in (like, step, grid, crs))
    if asked and window:
        field, window = _cropped(field, window), None
    target = target_of(field, like=like, step=step, grid=grid, crs=crs, align=own)
    wrong = [name for name, v in {"shape": shape, "scale": scale}.items() if v is not None]
    if target is not None and wrong:
        raise ValueError(f"say `{wrong[0]}` or a target grid, not both.")
    if mean and quantity != "value":
        raise ValueError(f"means are of values; got quantity={quantity!r}.")
    x = field.places(shape, scale=scale, window=window, align=own) if target is None else []
    if target is None and mean:
        at = {a.name: a.from_index(c) for a, c in zip(field.domain.axes, x)}
        target = Target(axes=at)
    if target is not None:
        return on_target(
            field, target, quantity=quantity, dtype=dtype, mean=mean, missing=missing,
            progress=progress,
        )  # fmt: skip
    _check_size(field, x)
    attributes = dict(field.attributes)
    axes = field.domain.axes
    if not all(np.array_equal(c, np.arange(a.size)) for a, c in zip(axes, x)):
        attributes |= _elsewhere(attributes, field.domain.dims, x)
    if quantity != "value":
        _derive(attributes, quantity)
    elif dtype is None:
        dtype = _whole(field, missing)
    boxes = field.boxes(x, window) if antialias else [None] * len(x)
    gaps = shows_gaps(field, missing)
    return Gridded(
        values=_evaluated(field, field.in_turn(x), boxes, quantity, dtype, gaps, progress),
        dims=field.domain.dims,
        coords={a.name: _coords(a, c) for a, c in zip(axes, x) if a.coords is not None},
        channel_axis=field.channel_axis,
        periods={a.name: a.period for a in axes if a.period is not None},
        attributes=attributes,
    )


def _cropped(field: Field, window: Mapping[str, tuple[Any, Any]]) -> Field:
    """The field in a window, which names some of its axes."""
    domain = field.domain
    unknown = sorted(set(map(str, window)) - set(domain.dims))
    if unknown:
        raise ValueError(f"`window` names {unknown}, but the axes are {list(domain.dims)}.")
    ends = []
    for a, low, high in zip(domain.axes, domain.low, domain.high):
        own = sorted(a.from_index(np.asarray([low, high])))
        ends.append(window.get(a.name, own))
    return field.crop([e[0] for e in ends], [e[1] for e in ends])


def _check_size(field: Field, x: Sequence[Floats]) -> None:
    count = math.prod(len(c) for c in x) * max(1, field.n_channels)
    if count > MOST:
        raise ValueError(f"{count} values are more than fit in memory; ask for windows of them.")


def _derive(attributes: dict[str, Any], quantity: str) -> None:
    """Attributes of a derivative: its units and dtype are not those of the values."""
    attributes["attrs"] = derived(attributes, quantity)
    for name in ("dtype", "fill_value"):
        attributes.pop(name, None)


def _whole(field: Field, missing: str | None = "fill") -> Any:
    """The dtype of what was fitted, if it was one of whole numbers, which can say gaps; or None."""
    own = field.attributes.get("dtype") or field.input_dtype
    if np.dtype(own).kind not in "biu":
        return None
    silent_ = shows_gaps(field, missing) and field.attributes.get("fill_value") is None
    return None if silent_ else own


def _evaluated(
    field: Field,
    x: Sequence[Floats],
    boxes: Sequence[Floats | None],
    quantity: str,
    dtype: Any,
    gaps: bool,
    progress: Progress,
) -> Array:
    """A quantity on the grid of index coordinates `x`, on the host, block of rows by block."""
    across = math.prod(len(c) for c in x[1:]) * max(1, field.n_channels)
    rows, n = max(1, BLOCK // max(1, across)), len(x[0])
    k = 1 if field.channel_axis == 0 else 0
    out: Array | None = None
    for i in range(0, n, rows):
        first = None if boxes[0] is None else boxes[0][i : i + rows + 1]
        part = gridded(
            field, [x[0][i : i + rows], *x[1:]], dtype, quantity,
            gaps=gaps, boxes=[first, *boxes[1:]],
        )  # fmt: skip
        part = to_numpy(part)
        if out is None:
            shape = list(part.shape)
            shape[k] = n
            out = np.empty(shape, part.dtype)
        out[(slice(None),) * k + (slice(i, i + rows),)] = part
        progress("render", min(i + rows, n), n)
    assert out is not None
    return out


# --- target grids ---------------------------------------------------------------------------------


def on_target(
    field: Field,
    target: Target,
    *,
    quantity: str = "value",
    dtype: Any = None,
    mean: bool = False,
    missing: str | None = None,
    progress: Progress = silent,
) -> Gridded:
    """A field on a grid that is not made of its samples; NaN beyond its domain."""
    attributes = dict(field.attributes)
    if target.projected is not None:
        if mean:
            raise ValueError(
                "means are taken between latitudes and longitudes (or the field's own axes); a "
                "grid in another reference system has values at points. Leave `mean` out."
            )
        values, place = _on_projected(field, target, quantity, missing)
    else:
        at = [
            np.asarray(target.axes[a.name]) if a.name in target.axes else _own(field, k)
            for k, a in enumerate(field.domain.axes)
        ]
        _check_size(field, at)
        if mean:
            values = _means_at(field, target, at, missing)
        else:
            values = to_numpy(field.grid(*at, quantity=quantity, outside="nan", missing=missing))
        index = [a.along(c) for a, c in zip(field.domain.axes, at)]
        attributes |= _elsewhere(attributes, field.domain.dims, index)
        place = {
            "dims": field.domain.dims,
            "coords": dict(zip(field.domain.dims, at)),
            "periods": {a.name: a.period for a in field.domain.axes if a.period is not None},
        }
    if target.projected is not None:
        attributes = _reprojected(field, target, attributes)
    if quantity != "value":
        _derive(attributes, quantity)
    elif dtype is None:
        dtype = _whole(field)
    progress("render", 1, 1)
    return Gridded(
        values=_typed(values, dtype, attributes),
        channel_axis=field.channel_axis,
        attributes=attributes,
        **place,
    )


def _typed(values: Array, dtype: Any, attributes: Mapping[str, Any]) -> Array:
    """Values in a dtype; whole numbers only where nothing is NaN, or a number stands for it."""
    if dtype is None or np.dtype(dtype).kind == "f":
        return as_dtype(values, dtype)
    gone, fill = np.isnan(values), attributes.get("fill_value")
    if not gone.any():
        return as_dtype(values, dtype)
    if fill is None or not np.isfinite(fill):
        return values
    return np.where(gone, np.asarray(fill, dtype), as_dtype(values, dtype))


def _own(field: Field, k: int) -> Floats:
    """Coordinates of the samples of axis k inside the domain."""
    return field.domain.axes[k].from_index(own_samples(field.domain)[k].astype(float))


def _means_at(field: Field, target: Target, at: Sequence[Floats], missing: str | None) -> Array:
    """Means over the cells of a grid, by area on the sphere; NaN where the field does not reach."""
    pair = horizontal(field.domain.dims, field.attributes.get("axes", {}))
    weights = {} if pair is None else {pair[0]: cosine}
    gaps = shows_gaps(field, missing)
    edges: list[Floats | None] = []
    inside: list[Any] = []
    x: list[Floats] = []
    for k, axis in enumerate(field.domain.axes):
        low, high = axis.from_index(np.asarray([field.domain.low[k], field.domain.high[k]]))
        if pair is not None and k == pair[0]:
            low, high = np.clip([low, high], -90, 90)
        if axis.name not in target.axes:
            edges.append(None)
            inside.append(np.ones(len(at[k]), bool))
        elif axis.name in target.edges:
            e = np.asarray(target.edges[axis.name], float)
            edges.append(field.edges_to_index(k, e))
            inside.append(np.ones(len(at[k]), bool))
        else:
            there = np.ones(len(at[k]), bool)
            if axis.period is None:
                there = (at[k] >= min(low, high) - 1e-9) & (at[k] <= max(low, high) + 1e-9)
            if not there.any():
                raise ValueError(
                    f"the target grid lies outside the field on axis {axis.name!r}, which covers "
                    f"{min(low, high):g} to {max(low, high):g}; got {at[k].min():g} to "
                    f"{at[k].max():g}."
                )
            edges.append(field.edges_to_index(k, cells(axis, at[k][there], low, high)))
            inside.append(there)
        x.append(axis.along(at[k]))
    found, covered = averaged(field, over(field, edges, x, split=gaps, weights=weights), gaps)
    means = np.asarray(to_numpy(found)).astype(str(field.dtype).rsplit(".", 1)[-1])
    if covered is not None:
        means = np.where(covered < MOSTLY, np.nan, means)
    whole = np.full((*map(len, at), means.shape[-1]), np.nan, means.dtype)
    whole[np.ix_(*inside, np.ones(means.shape[-1], bool))] = means
    k_ = field.channel_axis
    return whole[..., 0] if k_ is None else np.moveaxis(whole, -1, k_)


def _on_projected(
    field: Field, target: Target, quantity: str, missing: str | None
) -> tuple[Array, dict[str, Any]]:
    """Values at the points of another system: y and x in place of the field's two axes."""
    grid = target.projected
    assert grid is not None
    dims = field.domain.dims
    plane = [dims.index(n) for n in target.plane]
    others = [k for k in range(len(dims)) if k not in plane]
    call: Any = {"value": field, "laplacian": field.laplacian}.get(quantity)
    parts = []
    lines = [_own(field, k) for k in others]
    for index in np.ndindex(*map(len, lines)):
        points = np.empty((*grid.points.shape[:2], len(dims)))
        points[..., plane] = grid.points
        for k, line, i in zip(others, lines, index):
            points[..., k] = line[i]
        if call is None:
            slope = to_numpy(field.gradient(points, outside="nan", missing=missing))
            parts.append(np.sqrt(np.sum(np.abs(slope) ** 2, axis=-1)))
        else:
            parts.append(to_numpy(call(points, outside="nan", missing=missing)))
    values = np.stack(parts).reshape(*map(len, lines), *parts[0].shape)
    names = [dims[k] for k in others]
    if field.channel_axis is not None:  # before y and x, which end the dims
        values = np.moveaxis(values, -1, field.channel_axis)
    return values, {
        "dims": (*names, "y", "x"),
        "coords": {**dict(zip(names, lines)), "y": grid.y, "x": grid.x},
    }


def _reprojected(field: Field, target: Target, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a map in another system, as GeoTIFF and CF have them."""
    grid = target.projected
    assert grid is not None
    y, x = grid.y, grid.x
    hy = float(y[1] - y[0]) if len(y) > 1 else -1.0
    hx = float(x[1] - x[0]) if len(x) > 1 else 1.0
    kept = {k: v for k, v in attributes.items() if k not in ("grid", "axes", "coords")}
    axes = {k: v for k, v in attributes.get("axes", {}).items() if k not in target.plane}
    for name in ("y", "x"):
        told = {"standard_name": f"projection_{name}_coordinate", "axis": name.upper()}
        axes[name] = {"attrs": told}
    others = attributes.get("coords", {})
    coords = {k: v for k, v in others.items() if not set(v["dims"]) & set(target.plane)}
    for k, name in enumerate(target.plane):
        if name not in ("y", "x"):
            told = attributes.get("axes", {}).get(name, {}).get("attrs", {})
            at = grid.points[..., k]
            coords[name] = {"dims": ["y", "x"], "values": at, "attrs": told}
    coords["spatial_ref"] = {"dims": [], "values": 0, "attrs": {"crs_wkt": grid.crs}}
    return {
        **kept,
        "axes": axes,
        "coords": coords,
        "attrs": {**attributes.get("attrs", {}), "grid_mapping": "spatial_ref"},
        "align": "areas",
        "crs": grid.crs,
        "transform": [hx, 0.0, float(x[0]) - hx / 2, 0.0, hy, float(y[0]) - hy / 2],
    }


# --- attributes -----------------------------------------------------------------------------------


def _coords(axis: Axis, at: Floats) -> Floats:
    """Coordinates at index coordinates; at samples those that were given, to the last bit."""
    whole = np.array_equal(at, np.round(at)) and at.min() >= 0 and at.max() < axis.size
    given = axis.coords if whole else None
    return axis.from_index(at) if given is None else given[at.astype(int)]


def _elsewhere(
    attributes: Mapping[str, Any], dims: Sequence[str], at: Sequence[Floats]
) -> dict[str, Any]:
    """What changes in the attributes of values that are not at the samples of the field."""
    start = [float(c[0]) for c in at]
    step = [float((c[-1] - c[0]) / (len(c) - 1)) if len(c) > 1 else 1.0 for c in at]
    base = attributes.get("grid")
    if base is not None:  # the field itself came from part of a file
        start = [a + s * b for a, s, b in zip(base["start"], base["step"], start)]
        step = [s * t for s, t in zip(base["step"], step)]
    others = attributes.get("coords", {})
    return {
        "grid": {"start": start, "step": step},
        "coords": {k: v for k, v in others.items() if not set(v["dims"]) & set(dims)},
    }
