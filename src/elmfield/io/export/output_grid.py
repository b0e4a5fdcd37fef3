"""OutputGrid: where values of a field are wanted, in any of the ways callers say it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from elmfield._array.checks import at_most_one, choice, is_path, per_axis, positive, sizes_of
from elmfield._array.typing import Array, Coordinate, Floats
from elmfield.domain.axis import cell_borders
from elmfield.domain.sphere import horizontal, is_latitude, is_longitude
from elmfield.field import Field
from elmfield.field.adapters.affine import affine_of, checked_affine
from elmfield.field.coordinates.labels import AxisLabels, Labels
from elmfield.fit.curvilinear import Curvilinear
from elmfield.io.conventions import bounds_of, corners_of, crs_of, face_mesh_of, map_axes
from elmfield.io.export import map_targets as maps
from elmfield.io.files import check_exists, format_of, is_model, path_of, read
from elmfield.io.formats.media import Rate, own_rate, rate_in
from elmfield.io.formats.medical import LPS_TO_RAS, from_image
from elmfield.io.gridded import Gridded
from elmfield.io.inputs import is_xarray

PerAxis = float | Sequence[float]
"""One number for all axes, or one for each."""

Window = Mapping[str, tuple[Coordinate, Coordinate]]
"""Two ends for some axes, by name, in their units; dates on axes of dates."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OutputGrid:
    """Where values of a field are wanted: at most one of these ways; none is at its own samples.

    Parameters
    ----------
    shape : int or sequence of int, optional
        New samples on each axis; or
    scale : float or sequence of float
        new samples per old one; or
    step : float or two
        places so far apart, in the axes' unit or that of `crs`; or
    grid : two whole numbers
        so many equal cells of latitude and longitude, or of all axes where there are none; or
    like : file, DataArray, Dataset, Gridded, Field or mapping
        the grid of something else: its coordinates by name, or as latitude and longitude, or
        through its reference system; of a scan, its grid in world space; or
    rate : number or text
        of sound and video, samples or frames per second; or
    spacing : float or sequence of float
        distances between samples, as for `resize`; of a scan, millimetres between voxels; or
    affine : array
        of a scan, another grid in world space, with `shape`.
    window : mapping, optional
        Only this part of some axes, ``{dim: (low, high)}``, in their units.
    align : {"areas", "nodes"}, optional
        Whether a sample stands for the area around it or for the node it sits on; by default as
        the samples did.
    crs : str, optional
        Another reference system, with `step` or `grid`, or about as many places as samples; of
        `like`, if that does not say its own.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> fine = ef.OutputGrid(shape=(40, 50), window={"y": (2, 8)})
    >>> ef.write(ef.fit(np.eye(20), dims=("y", "x")), "fine.npy", grid=fine)
    >>> ef.read("fine.npy").shape
    (40, 50)
    """

    shape: int | Sequence[int] | None = None
    scale: PerAxis | None = None
    window: Window | None = None
    align: str | None = None
    like: Any = None
    step: PerAxis | None = None
    grid: Sequence[int] | None = None
    crs: str | None = None
    rate: Rate | None = None
    spacing: PerAxis | None = None
    affine: Array | None = None

    def __post_init__(self) -> None:
        choice("align", self.align, (None, "areas", "nodes"))
        own = self.named("rate", "spacing", "affine")
        also = self.named("scale", "window", *(() if self.affine is not None else ("shape",)))
        if len(own) > 1 or (own and also):
            raise ValueError(f"say `{own[0]}` or `{[*own[1:], *also][0]}`, not both.")
        at_most_one(like=self.like, step=self.step, grid=self.grid)

    def named(self, *names: str) -> list[str]:
        """Which of some parameters were given."""
        return [n for n in names if getattr(self, n) is not None and (n != "window" or self.window)]

    @property
    def is_target(self) -> bool:
        """Whether it is a grid that is not made of the field's samples."""
        return bool(self.named("like", "step", "grid", "crs"))

    def alignment(self, of: Field) -> str:
        """What samples stand for; by default as in the file or DataArray the field is of."""
        return self.align or of.labels.align or "areas"

    def rate_for(self, of: Field) -> Fraction | None:
        """The rate that is wanted; also of a recording that is wanted in so many samples."""
        if self.rate is not None:
            return rate_in(self.rate)
        is_sound = len(of.shape) == 1 and of.labels.rate is not None
        if not is_sound or not self.named("shape", "scale") or self.named("window", "affine"):
            return None
        if self.shape is None:
            return own_rate(of, 0) * rate_in(float(np.ravel(np.asarray(self.scale))[0]))
        return own_rate(of, 0) * Fraction(sizes_of("shape", self.shape, 1)[0], of.shape[0])

    def in_world(self, of: Field) -> tuple[Floats, tuple[int, ...]] | None:
        """Affine and shape of a grid in world space, if a scan is wanted on one."""
        counts = any(a.coords is None for a in of.domain.axes)  # without a unit
        if self.spacing is not None and (of.labels.is_placed or counts):
            return of.world.isotropic(self.spacing)
        if self.affine is not None:
            if self.shape is None:
                raise ValueError("an `affine` needs the `shape` of the new grid.")
            return checked_affine(self.affine), tuple(np.atleast_1d(self.shape))
        is_placed = self.like is not None and of.labels.is_placed
        if not is_placed or not (other := coordinates_of(self.like)).labels.is_placed:
            return None
        affine = affine_of(other.labels)
        if other.labels.space != of.labels.space:
            affine = LPS_TO_RAS @ affine
        return checked_affine(affine), tuple(len(c) for c in list(other.coords.values())[:3])

    def target(self, of: Field) -> "TargetGrid | maps.MapTarget | None":
        """Coordinates on the field's axes, or points in another system; None at other samples."""
        if not self.is_target:
            return None
        if wrong := self.named("shape", "scale"):
            raise ValueError(f"say `{wrong[0]}` or a target grid, not both.")
        if self.like is not None:
            return _like(of, coordinates_of(self.like), self.crs)
        if self.crs is not None:
            return _projected_grid(of, self.crs, self.step, self.grid)
        pair = of.labels.horizontal(of.domain.dims)
        plane = list(range(len(of.shape))) if pair is None else list(pair)
        if self.step is not None:
            return TargetGrid(_by_step(of, plane, self.step, self.alignment(of)))
        return TargetGrid(_by_count(of, plane, self.grid))


@dataclass(frozen=True, eq=False)
class TargetGrid:
    """Coordinates by name, what is known about them, and borders of cells where they are known.

    Of a target those of some of a field's axes, the others of which keep their samples. Those that
    are no axis lie on `dims`: two, or the one of unstructured cells, in a single row.
    """

    coords: Mapping[str, Array]
    labels: Labels = field(default_factory=Labels)
    edges: Mapping[str, Floats] = field(default_factory=dict)
    dims: Sequence[str] = ("y", "x")


# --- by step or count -----------------------------------------------------------------------------


def ends_of(of: Field, k: int) -> tuple[float, float]:
    """Where axis k begins and ends, in the order of its samples; latitudes within 90 degrees."""
    name, (first, last) = of.domain.dims[k], of.domain.ends(k)
    if is_latitude(name, of.labels.axis(name).attrs):
        first, last = np.clip([first, last], -90, 90)
    return float(first), float(last)


def _steps(step: PerAxis, n: int) -> list[float]:
    return [positive("step", h) for h in per_axis("step", step, n)]


def _counts(grid: Any, n: int) -> tuple[int, ...]:
    return sizes_of("grid", [grid] * n if np.ndim(grid) == 0 else grid, n)


def _by_step(of: Field, plane: list[int], step: PerAxis, align: str) -> dict[str, Floats]:
    """Coordinates so far apart: from the first sample on, or areas from where the domain begins."""
    found, half = {}, 0.5 if align == "areas" else 0.0
    for k, h in zip(plane, _steps(step, len(plane))):
        axis = of.domain.axes[k]
        first, last = ends_of(of, k)
        if align == "nodes":  # the outermost samples inside the domain
            outer = math.ceil(of.domain.low[k] - 1e-9), math.floor(of.domain.high[k] + 1e-9)
            first, last = map(float, axis.from_index(np.asarray(outer, float)))
        if axis.period is not None and of.domain.goes_round(k):
            n = max(1, round(axis.period / h))
            if abs(n * h - axis.period) > 1e-6 * h:
                whole = f"the period of axis {axis.name!r}, {axis.period:g}"
                raise ValueError(f"`step` must divide {whole}; got {h:g}.")
        else:
            count = abs(last - first) / h + 1e-6 + (1 if align == "nodes" else 0)
            n = math.floor(min(count, 1 << 53))
            if n == 1 << 53:
                raise ValueError(f"`step` is too small for axis {axis.name!r}; got {h:g}.")
            if n < 1:
                whole = f"axis {axis.name!r}, {abs(last - first):g}"
                raise ValueError(f"`step` must not exceed {whole}; got {h:g}.")
        steps = np.arange(n, dtype=np.float64) + half
        found[axis.name] = first + math.copysign(h, axis.step) * steps
    return found


def _by_count(of: Field, plane: list[int], grid: Sequence[int] | None) -> dict[str, Floats]:
    """So many equal cells of the domain; those of a whole circle begin around its first sample."""
    found = {}
    for k, n in zip(plane, _counts(grid, len(plane))):
        axis, (first, last) = of.domain.axes[k], ends_of(of, k)
        if axis.period is not None and of.domain.goes_round(k):
            turn = math.copysign(axis.period, axis.step)
            found[axis.name] = axis.origin + turn * np.arange(n) / n
        else:
            found[axis.name] = first + (np.arange(n) + 0.5) * (last - first) / n
    return found


# --- like something else --------------------------------------------------------------------------


def coordinates_of(like: Array) -> TargetGrid:
    """Coordinates and labels of what a caller points at."""
    if is_path(like) and is_model(path_of(like)):
        from elmfield.io.model.load import load

        like = load(path_of(like))
    elif is_path(like) and format_of(path_of(like)) == "climate":
        from elmfield.io.formats.climate import grid

        like = grid(check_exists(like))  # several variables, or none, will do
    like = read(like) if is_path(like) else from_image(like)
    if isinstance(like, Curvilinear):
        places = np.moveaxis(like.mesh.given, -1, 0)
        return TargetGrid(
            dict(zip(like.names, places)), like.frame.labels, dims=like.domain.dims[-2:]
        )
    if isinstance(like, Field):
        at = {a.name: a.coords for a in like.domain.axes if a.coords is not None}
        cells = {a.name: a.borders for a in like.domain.axes if a.borders is not None}
        return TargetGrid(at, like.labels, cells)
    if isinstance(like, Gridded):
        return TargetGrid(like.coords, like.labels)
    if is_xarray(like):
        return _of_dataset(like)
    if isinstance(like, Mapping):
        return TargetGrid({str(k): np.asarray(v) for k, v in like.items()})
    raise TypeError(
        "`like` must be a file, a DataArray or Dataset, an image, samples that were read, a field, "
        f"or a mapping of coordinates; got a {type(like).__name__}."
    )


def _of_dataset(like: Array) -> TargetGrid:
    """Coordinates of a DataArray or Dataset, with the bounds of their cells."""
    if (mesh := face_mesh_of(like)) is not None:
        at, cells = (dict(zip(mesh.names, np.moveaxis(c[None], -1, 0))) for c in
                     (mesh.middles, mesh.corners))  # fmt: skip
        return TargetGrid(at, edges=cells, dims=(mesh.dims["face"],))
    bounds, named = bounds_of(like)
    numeric = {str(n): c for n, c in like.coords.items() if c.dtype.kind in "iuf"}
    numeric = {n: c for n, c in numeric.items() if n not in named}
    found = {n: c for n, c in numeric.items() if c.ndim == 2 or (*map(str, c.dims),) == (n,)}
    axes = {n: AxisLabels(attrs=dict(c.attrs)) for n, c in numeric.items()}
    row = {n: c for n, c in numeric.items() if c.ndim == 1 and n not in found}
    pair = map_axes(list(row), {n: c.attrs for n, c in row.items()})
    dims = next((c.dims for c in found.values() if c.ndim == 2), ("y", "x"))
    if pair is not None and row[pair[0]].dims == row[pair[1]].dims:  # unstructured cells
        found |= {n: row[n].expand_dims("row") for n in pair}
        bounds |= {n: bounds[n][None] for n in pair if n in bounds}
        dims = row[pair[0]].dims
    edges = {name: _cells_of(found[name], b) for name, b in bounds.items() if name in found}
    at = {name: np.asarray(c.values, np.float64) for name, c in found.items()}
    return TargetGrid(at, Labels(axes=axes, crs=crs_of(like)), edges, tuple(map(str, dims)))


def _cells_of(c: Array, given: Array) -> Floats:
    """Borders (n + 1,) of the cells of a dim's coordinates; corners (ny, nx, v) of those of two."""
    if c.ndim == 1:
        return cell_borders(str(c.name), np.asarray(c.values, np.float64), given)
    return corners_of(str(c.name), c.shape, given)


def _like(of: Field, given: TargetGrid, asked: str | None) -> TargetGrid | maps.MapTarget:
    """The coordinates that a grid and a field have in common, by name or by what they are."""
    own, crs = of.domain.dims, given.labels.crs or asked
    if asked is not None and crs is not None and not maps.same_system(asked, crs):
        raise ValueError(f"`like` says its own reference system, {crs[:40]!r}; leave `crs` out.")
    about = {n: given.labels.axis(n).attrs for n in given.coords}
    lines = [n for n, c in given.coords.items() if c.ndim == 1]
    pair = (map_axes(lines, about) if crs is not None else None) or map_axes(list(about), about)
    mine = of.labels.horizontal(own)
    is_earth = pair is not None and horizontal(pair, about) is not None
    is_flat = pair is not None and given.coords[pair[0]].ndim == 1
    if is_earth and not (is_flat and (crs or mine)):  # whatever the system of others may be
        crs = None if of.labels.crs is None else maps.EARTH
    names = {name: name for name in given.coords if name in own}
    for k, is_one in zip(mine or (), (is_latitude, is_longitude)):
        alike = [n for n in given.coords if is_one(n, about[n])]
        names |= {n: own[k] for n in alike if len(alike) == 1}
    if crs is not None and pair is not None and (is_earth or is_flat):
        if not maps.same_system(crs, maps.own_crs(of)):
            return maps.map_target(
                of, *(given.coords[n] for n in pair), crs=crs, dims=pair if is_flat else given.dims,
                edges=[given.edges.get(n) for n in pair], names=pair, labels=given.labels,
            )  # fmt: skip
        names |= dict(zip(pair, (own[k] for k in maps.map_plane(of))))
    if not names:
        raise ValueError(
            f"`like` has no axis of the field's; it has {list(given.coords)}, the field "
            f"{list(own)}. Rename its dims, or say its reference system."
        )
    flat = {own_: np.asarray(given.coords[n], np.float64) for n, own_ in names.items()}
    edges = {own_: given.edges[n] for n, own_ in names.items() if n in given.edges}
    if not any(c.ndim == 2 for c in flat.values()):
        return TargetGrid(flat, edges=edges)
    a, b = (own[k] for k in maps.map_plane(of))
    if set(flat) != {a, b} or flat[a].shape != flat[b].shape or flat[a].ndim != 2:
        raise ValueError(f"a curvilinear grid needs coordinates of two dims for {a!r} and {b!r}.")
    sides = [edges.get(n) for n in (a, b)]
    return maps.map_target(of, flat[a], flat[b], dims=given.dims, edges=sides)


# --- other projections ----------------------------------------------------------------------------


def _projected_grid(
    of: Field, crs: str, step: PerAxis | None, grid: Sequence[int] | None
) -> maps.MapTarget:
    """An even grid over the field's domain in another system."""
    own = maps.own_crs(of)
    (y0, y1), (x0, x1) = (sorted(ends_of(of, k)) for k in maps.map_plane(of))
    if of.domain.goes_round(maps.map_plane(of)[1]):  # its edges are one meridian
        box = maps.whole_bounds(own, crs, (x0, y0, x1, y1)) or (np.nan,) * 4
    else:
        box = maps.transformer(own, crs).transform_bounds(x0, y0, x1, y1, densify_pts=81)
    west, south, east, north = box
    if not np.isfinite(box).all():
        raise ValueError(f"{crs} cannot show all of the field. Crop it first: field.crop(...).")
    wide, high = east - west, north - south
    if grid is not None:
        ny, nx = _counts(grid, 2)
    elif step is not None:
        hy, hx = _steps(step, 2)
        ny, nx = max(1, math.ceil(high / hy - 1e-6)), max(1, math.ceil(wide / hx - 1e-6))
        north, east = south + ny * hy, west + nx * hx
    else:  # about as many places as samples
        n = math.prod(of.shape[k] for k in maps.map_plane(of))
        h = math.sqrt(wide * high / n)
        ny, nx = max(1, round(high / h)), max(1, round(wide / h))
    y = north - (np.arange(ny) + 0.5) * (north - south) / ny
    x = west + (np.arange(nx) + 0.5) * (east - west) / nx
    return maps.map_target(of, y, x, crs=crs)
