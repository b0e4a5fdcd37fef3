"""Fields on meshes: on curvilinear grids, and through values of the faces of unstructured meshes.

The former go by the coordinates of their samples: :mod:`elmfield.fit.mesh` finds where these are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.cache import Recent
from elmfield._array.checks import by_name, numbers, share
from elmfield._array.running import runs
from elmfield._array.typing import Array, Bools, Floats
from elmfield.domain import Axis, Domain
from elmfield.domain.sphere import EARTH, polygon_areas, unit_vectors, widest_gap
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import coordinates_like, evaluate_at_labels
from elmfield.field.coordinates.labels import AxisLabels
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.coordinates.units import units_per_metre
from elmfield.field.field import Coords
from elmfield.field.point_values import Missing, query
from elmfield.fit.encoder import encoder
from elmfield.fit.mesh import KEPT, Fold, Mesh
from elmfield.fit.polygon_means import PolygonMeans, covered_means, polygon_means

FLAT_SINE, MOST_FLAT = 1e-9, 0.5
"""Sine of the angle between rows and columns below which a cell has no area, and what part of the
cells may have none: some meshes repeat rows."""

BATCH_POLYGONS = 1 << 10
"""Polygons whose parts are looked at together."""

METHOD = "area: mean (comment: of faces, each by the area of its part)"
"""What means say about themselves, in CF's words."""


@dataclass(frozen=True, eq=False, repr=False)
class Curvilinear(Field):
    """A field whose samples lie at places of two coordinates each, on its last two axes.

    Points, polygons and `interp` go by these coordinates, with NaN off the mesh; a `gradient`,
    (..., 2) or (..., C, 2), is northward and eastward, per metre, or along y and x of a map.
    `samples`, `grid`, `resize`, `crop`, `integral`, `tabulate` and files are those of the field on
    numbers of samples.

    Parameters
    ----------
    mesh : Mesh
        Where the samples are.
    names : pair of str
        Of the two coordinates.
    corners : array, shape (n, m, v, 2), optional
        Of the cells that samples are means over, where they are known: what each counts in means.
    """

    mesh: Mesh
    names: tuple[str, str]
    corners: Floats | None = None

    def _query(self, quantity: str, points: Array, outside: str, missing: Missing) -> Array:
        index = np.array(numbers("points", points), np.float64)
        d = len(self.shape)
        if index.ndim == 0 or index.shape[-1] != d:
            raise ValueError(f"`points` must have {d} coordinates each; got shape {index.shape}.")
        places = index[..., -2:].copy()
        found, on_mesh = self.locate(places)
        index[..., -2:] = np.where(on_mesh[..., None] | (outside == "nearest"), found, np.nan)
        if quantity in ("value", "std", "std value"):
            return query(self.model, quantity, index, "nan", missing)
        if quantity not in ("gradient", "gradient_magnitude"):
            raise ValueError(f"a curvilinear grid has values and gradients; got {quantity!r}.")
        slopes = query(self.model, "gradient", index, "nan", missing)
        J = self.mesh.places.gradient(index[..., -2:], outside="nearest")
        if self.mesh.radius is not None:
            lat, lon = places[..., 0], places[..., 1]
            ways = unit_vectors(lat + 90, lon), unit_vectors(0 * lat, lon + 90)
            # Metres north and east per sample, (..., 2, 2).
            J = np.stack(ways, -2) @ (J * self.mesh.radius)
        if self.model.channel_axis is not None:
            J = J[..., None, :, :]
        slopes = np.asarray(to_numpy(slopes))[..., None, -2:]
        found = (slopes @ np.linalg.inv(J))[..., 0, :]
        return found if quantity == "gradient" else np.linalg.norm(found, axis=-1)

    def interp(
        self, coords: Coords | None = None, method: str | None = None, assume_sorted: bool = False,
        kwargs: Mapping[str, Any] | None = None, *, quantity: str = "value", outside: str = "nan",
        bounds: str = "domain", missing: Missing = None, std: bool = False, chunks: Any = None,
        **coords_by_name: Any,
    ) -> Any:  # fmt: skip
        """As :meth:`Field.interp`, by the names of the two coordinates or by the field's dims."""
        given = set(getattr(coords, "coords", ()))
        names = self.names if set(self.names) <= given else self.domain.dims[-2:]
        coords = coordinates_like([*self.domain.dims[:-2], *names], coords)
        both = {**by_name("coords", coords), **coords_by_name}
        if not set(both) & set(self.names):
            found = Field(self.model).interp(
                both, method, assume_sorted, kwargs, quantity=quantity, outside=outside,
                bounds=bounds, missing=missing, std=std, chunks=chunks,
            )  # fmt: skip
            return found if both else self.with_places(found)
        if std or chunks is not None or method is not None or not set(self.names) <= set(both):
            raise ValueError(
                f"places on a curvilinear grid need both {' and '.join(self.names)}, without `std`,"
                " `method` and `chunks`; ask for quantity='std'."
            )
        ask = partial(self._query, quantity, outside=outside, missing=missing)
        return evaluate_at_labels(
            self.frame.model, both, quantity, ask, directions=self.names,
            units=partial(units_per_metre, quantity),
        )  # fmt: skip

    to_xarray = interp

    def with_places(self, found: Any) -> Any:
        """A DataArray or Dataset at the samples, with the places of these."""
        dims, at = list(self.domain.dims[-2:]), np.moveaxis(self.mesh.given, -1, 0)
        about = [dict(self.labels.axis(n).attrs) for n in self.names]
        both = {n: (dims, *rest) for n, *rest in zip(self.names, at, about)}
        return found.drop_vars(dims, errors="ignore").assign_coords(both)

    def __getitem__(self, key: str | int | slice) -> "Curvilinear":
        """The field of one variable of a Dataset, by name; or of some channels, by number."""
        return replace(self, model=self.model[key])

    @cached_property
    def frame(self) -> Field:
        """A field with even axes around the mesh, for those who ask for axes, not for values."""
        axes, about = list(self.domain.axes[:-2]), dict(self.labels.axes)
        for k, (name, n) in enumerate(zip(self.names, self.shape[-2:])):
            c = self.mesh.given[..., k][np.isfinite(self.mesh.given).all(axis=-1)]
            low, high, period = c.min(), c.max(), None
            if k == 1 and self.mesh.radius is not None:  # around the circle, but for the widest gap
                start, gap = widest_gap(c)
                low = start - 360 * (start > high)
                high, period = low + 360 - gap, 360.0 if gap < 720 / n else None
            last = low + 360 * (n - 1) / n if period else high
            axes.append(Axis.through(name, np.linspace(low, last, n), period))
            told = {"units": ("degrees_north", "degrees_east")[k]} if self.mesh.radius else {}
            about[name] = AxisLabels(attrs={**told, **self.labels.axis(name).attrs})
        kept = self.labels.coords_off(self.domain.dims[-2:])
        labels = replace(self.labels, axes=about, coords=kept, align="areas")
        return Field(replace(self.model, domain=Domain.of(axes), labels=labels))

    def locate(self, places: Array) -> tuple[Floats, Bools]:
        """Numbers of samples (..., 2) at places (..., 2), and which lie on the mesh."""
        return self.mesh.locate(places)

    def means(  # type: ignore[override]
        self, polygons: Array, *, missing: Missing = None, min_coverage: float = 0.5
    ) -> tuple[Array, Floats]:
        """Means over polygons (..., v, 2) by area, as :class:`PolygonMeans` has them.

        NaN where one does not lie on the mesh as a whole.
        """
        corners, on_mesh = self.locate(polygons)
        whole = np.asarray(on_mesh.all(axis=-1))
        corners, both = np.nan_to_num(corners), self._over_cells(missing)
        (means, covered), (size, _) = (f(corners, min_coverage=min_coverage) for f in both)
        more = (...,) + (None,) * (means.ndim - whole.ndim)
        with np.errstate(invalid="ignore", divide="ignore"):  # 0 by 0 where nothing is covered
            return np.where(whole[more], means / size, np.nan), np.where(whole, covered, 0.0)

    def _over_cells(self, missing: Missing) -> list[PolygonMeans]:
        """Integrals of the field times the areas of its cells, and of these."""
        dims = [np.arange(n, dtype=np.float64) for n in self.mesh.given.shape[:2]]
        J = self.mesh.places.grid(*dims, quantity="gradient", missing="fill")
        size = np.sqrt(np.abs(np.linalg.det(np.einsum("...kj,...kl->...jl", J, J))))
        if self.corners is not None and self.labels.samples == "means":
            size = polygon_areas(self.corners, is_map=self.mesh.radius is None)
        values, k = np.asarray(self.samples(missing=missing), np.float64), self.model.channel_axis
        if k is not None and (after := len(self.shape) - k) < 2:
            size = np.expand_dims(size, 2 - after)
        wide = np.where(np.isnan(values), np.nan, size)
        wraps = np.flatnonzero(self.domain.periodic).tolist()
        make = encoder(values.shape, self.settings, channel_axis=k, periodic=wraps)
        return [polygon_means(make(y, missing="nan")) for y in (values * wide, wide)]


_meshes = Recent[Any, Mesh]()


def _check_places(given: Floats, radius: float | None) -> None:
    """Refuse places that span no area: all on one line, or none known."""
    down, across = given[1:, :-1] - given[:-1, :-1], given[:-1, 1:] - given[:-1, :-1]
    if radius is not None:
        for step in (down, across):
            step[..., 1] -= 360 * np.round(step[..., 1] / 360)
    area = np.abs(down[..., 0] * across[..., 1] - down[..., 1] * across[..., 0])
    sides = np.linalg.norm(down, axis=-1) * np.linalg.norm(across, axis=-1)
    known = np.isfinite(area)
    if (area <= FLAT_SINE * sides)[known].sum() >= MOST_FLAT * known.sum():
        seen: Any = {"axis": (0, 1), "where": np.isfinite(given)}
        low, high = given.min(initial=np.inf, **seen), given.max(initial=-np.inf, **seen)
        names = ("y", "x") if radius is None else ("latitude", "longitude")
        told = [f"{name} {x:g} to {y:g}" for name, x, y in zip(names, low, high)]
        raise ValueError(
            "a curvilinear grid needs places whose rows and columns span an area; most cells of "
            f"these have none: {', '.join(told)}. Are both coordinates along the same axis?"
        )


def curvilinear(
    of: Field, latitude: Array, longitude: Array, *, is_map: bool = False, radius: float = EARTH,
    fold: Fold | None = None, corners: Array | None = None,
) -> Curvilinear:  # fmt: skip
    """A field whose last two axes number the rows and columns of a curvilinear grid.

    :func:`elmfield.fit` makes one of a DataArray that has such coordinates.

    Parameters
    ----------
    of : Field
        The field on numbers of samples; an axis that goes round is periodic in it.
    latitude, longitude : arrays, shape of its last two axes
        Where its samples are, in degrees; NaN where that is not known.
    is_map : bool
        Whether these are y and x of a map instead.
    radius : float
        Of the sphere, in metres.
    fold : Fold, optional
        How rows go on beyond the last one: :func:`elmfield.fit` finds it, and gives a field that
        was fitted with them.
    corners : array, shape (..., v, 2), optional
        Corners of the samples' cells, in order around each; :func:`elmfield.fit` takes those of CF
        bounds. Of samples that are means over cells, `means` count each by the area of its cell.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> j, i = np.indices((30, 40))
    >>> latitude, longitude = 40 + 0.2 * j + 0.05 * i, 10 + 0.3 * i - 0.1 * j
    >>> mesh = ef.curvilinear(ef.fit(latitude + longitude), latitude, longitude)
    >>> bool(abs(mesh([43.0, 14.0]) - 57) < 1e-6)
    True
    """
    both = [numbers(n, v) for n, v in (("latitude", latitude), ("longitude", longitude))]
    axes = of.domain.axes[-2:]
    shape = tuple(map(len, own_samples(of.domain)[-2:]))
    if any(b.shape != shape for b in both) or any(a.coords is not None for a in axes):
        raise ValueError(
            "`latitude` and `longitude` must have the shape of the field's last two axes, "
            f"{shape}, which number samples; got {both[0].shape} and {both[1].shape}."
        )
    if not is_map and (most := float(np.nanmax(np.abs(both[0]), initial=0.0))) > 90 + 1e-6:
        raise ValueError(f"`latitude` must lie between -90 and 90 degrees; got {most:g}.")
    about = None if is_map else radius
    periods, given = [a.period for a in axes], np.stack(both, axis=-1)
    _check_places(given, None if is_map else radius)
    told = *periods, about, fold is None
    mesh = _meshes.made_of(given, told, lambda c: Mesh(c, axes, about, fold), KEPT)
    cells = None if corners is None else numbers("corners", corners)
    if cells is not None and (cells.ndim != 4 or (*cells.shape[:2], cells.shape[3]) != (*shape, 2)):
        raise ValueError(f"`corners` must have shape {(*shape, 'v', 2)}; got {cells.shape}.")
    names = ("y", "x") if is_map else ("latitude", "longitude")
    return Curvilinear(of.model, mesh, names, cells)


# --- faces of unstructured meshes -----------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class FaceField(Field):
    """A field through values in the middles of faces; its means are by the areas of their parts.

    A mesh says nothing of how values change within a face. Each counts by the area that it shares
    with a polygon: sums over polygons that fill the mesh are those over its faces, whatever the
    field between them. Sides are parts of great circles, or straight lines on a map; faces must be
    convex.

    Parameters
    ----------
    corners : array, shape (f, v, 2)
        Of the faces; of those with fewer, the last is repeated.
    at_faces : array, shape (f,)
        Their values; NaN where one is missing.
    is_map : bool
        Whether corners are y and x.
    """

    corners: Floats
    at_faces: Floats
    is_map: bool

    def means(  # type: ignore[override]
        self, polygons: Array, *, missing: Missing = None, min_coverage: float = 0.5
    ) -> tuple[Array, Floats]:
        """Means over polygons (..., v, 2), and what part of each the faces cover."""
        share("min_coverage", min_coverage)
        given = numbers("polygons", polygons)
        targets = self._vectors(given.reshape(-1, *given.shape[-2:]))
        known = np.isfinite(self.at_faces)
        faces, values = self._vectors(self.corners[known]), self.at_faces[known]
        sums = np.zeros((2, len(targets)))
        for i, j in runs(len(targets), BATCH_POLYGONS):
            owner, face = _neighbours(targets[i:j], faces)
            parts = _clipped(targets[i:j][owner], faces[face])
            if not self.is_map:
                parts /= np.linalg.norm(parts, axis=-1, keepdims=True)
            shared = polygon_areas(parts, is_map=self.is_map)
            for k, weights in enumerate((shared, shared * values[face])):
                sums[k, i:j] = np.bincount(owner, weights, minlength=j - i)
        area = polygon_areas(targets, is_map=self.is_map)
        found, covered = covered_means(sums[1], sums[0], area, min_coverage)
        return found.reshape(given.shape[:-2]), covered.reshape(given.shape[:-2])

    def _vectors(self, corners: Floats) -> Floats:
        """Corners as vectors (..., 3): on the unit sphere, or on a plane at height 1."""
        a, b = corners[..., 0], corners[..., 1]
        return np.stack([a, b, np.ones_like(a)], -1) if self.is_map else unit_vectors(a, b)


def _neighbours(targets: Floats, faces: Floats) -> tuple[Array, Array]:
    """Numbers of polygons and of faces that may share a part, pair by pair."""
    from scipy.spatial import cKDTree  # 0.1 s, for these alone

    middles = [c.mean(axis=1) for c in (targets, faces)]
    both = zip((targets, faces), middles)
    reach = [np.linalg.norm(c - m[:, None], axis=-1).max(axis=1, initial=0) for c, m in both]
    near = cKDTree(middles[1]).query_ball_point(middles[0], reach[0] + reach[1].max(initial=0))
    counts = [len(n) for n in near]
    found = np.concatenate([np.asarray(n, np.int64) for n in near])
    return np.repeat(np.arange(len(near)), counts), found


def _clipped(parts: Floats, faces: Floats) -> Floats:
    """What polygons (p, m, 3) share with convex faces (p, v, 3), the last corner repeated.

    Side by side, as Sutherland and Hodgman (1974) do it.
    """
    planes = np.cross(faces, np.roll(faces, -1, axis=1))
    planes *= np.sign(np.einsum("pvk,pk->p", planes, faces.mean(axis=1)))[:, None, None]
    for k in range(planes.shape[1]):
        off = np.einsum("pmk,pk->pm", parts, planes[:, k])
        after, beyond = np.roll(parts, -1, axis=1), np.roll(off, -1, axis=1)
        inside = off >= 0
        crosses = inside != (beyond >= 0)
        t = np.where(crosses, off, 0.0) / np.where(crosses, off - beyond, 1.0)
        both = np.stack([parts, parts + t[..., None] * (after - parts)], axis=2)
        keep = np.stack([inside, crosses], axis=2).reshape(len(parts), -1)
        n = keep.sum(axis=1)
        order = np.argsort(~keep, axis=1, kind="stable")[:, : max(3, n.max(initial=0))]
        rows = np.minimum(np.arange(order.shape[1]), np.maximum(n - 1, 0)[:, None])
        order = np.take_along_axis(order, rows, axis=1)
        parts = np.take_along_axis(both.reshape(len(parts), -1, 3), order[..., None], axis=1)
        parts[n == 0] = faces[n == 0, :1]  # one point, without area
    return parts
