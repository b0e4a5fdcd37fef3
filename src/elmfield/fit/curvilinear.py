"""Fields on curvilinear grids.

The coordinates of the samples are a field too, fitted as the values are. A place is found by a
start at the nearest sample and Newton's steps in the numbers of samples.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import by_name, numbers
from elmfield._array.typing import Array, Bools, Floats
from elmfield.domain import Axis, Domain
from elmfield.domain.sphere import EARTH, unit_vectors
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import evaluate_at_labels
from elmfield.field.blend.points import Function
from elmfield.field.coordinates.labels import Attrs, AxisLabels, multiply_units
from elmfield.field.field import Coords
from elmfield.field.point_values import Missing, query
from elmfield.fit.encoder import encoder
from elmfield.fit.polygon_means import PolygonMeans, polygon_means, spline_encoder

MOST_STEPS = 12
"""Newton's steps: four are taken in smooth meshes, and the rest where cells are bent."""

TABLE_STEPS, TABLE_TOLERANCE = 2, 1e-6
"""Steps by a table of the places, and what it keeps of them."""

CLOSE_CELLS, FOUND_CELLS = 1e-10, 1e-6
"""Steps, in cells, below which no other is taken, and a place counts as found."""

TABLE_MIN_POINTS = 20_000
"""Places from which a table of the coordinates is made first."""


@dataclass(frozen=True, eq=False, repr=False)
class Curvilinear(Field):
    """A field whose samples lie at places of two coordinates each, on its last two axes.

    Points, polygons and `interp` go by these coordinates, with NaN off the mesh. `samples`, `grid`,
    `resize`, `crop` and files are those of the field on numbers of samples.

    Parameters
    ----------
    places : Field
        Where the samples are: unit vectors on the sphere, or y and x; channels last.
    tree : cKDTree
        The same of those that are known.
    names : pair of str
        Of the two coordinates.
    given : array, shape (n, m, 2)
        The coordinates.
    radius : float or None
        Of the sphere, in metres; None on a map.
    """

    places: Field
    tree: Any
    names: tuple[str, str]
    given: Floats
    radius: float | None = EARTH

    def _query(self, quantity: str, points: Array, outside: str, missing: Missing) -> Array:
        index, places = self._indexed(points, outside)
        if quantity in ("value", "std", "std value"):
            return query(self.model, quantity, index, "nan", missing)
        if quantity not in ("gradient", "gradient_magnitude"):
            raise ValueError(f"a curvilinear grid has values and gradients; got {quantity!r}.")
        slopes = query(self.model, "gradient", index, "nan", missing)
        J = self.places.gradient(index[..., -2:], outside="nearest") * (self.radius or 1.0)
        if self.radius is not None:
            f, l = np.deg2rad(places[..., 0]), np.deg2rad(places[..., 1])
            zero = np.zeros_like(f)
            north = [-np.sin(f) * np.cos(l), -np.sin(f) * np.sin(l), np.cos(f)]
            ways = np.stack([np.stack(north, -1), np.stack([-np.sin(l), np.cos(l), zero], -1)], -2)
            J = ways @ J  # (..., 2, 2): metres north and east per sample
        if self.model.channel_axis is not None:
            J = J[..., None, :, :]
        slopes = np.asarray(to_numpy(slopes))[..., None, -2:]
        found = np.asarray((slopes @ np.linalg.inv(J))[..., 0, :])
        return found if quantity == "gradient" else np.linalg.norm(found, axis=-1)

    def gradient(self, points: Array, *, outside: str = "nan", missing: Missing = None) -> Array:
        """Slopes northward and eastward, per metre, (..., 2) or (..., C, 2); NaN off the mesh.

        On a map along y and x.
        """
        return self._query("gradient", points, outside, missing)

    def interp(
        self, coords: Coords | None = None, *, quantity: str = "value", outside: str = "nan",
        missing: Missing = None, std: bool = False, chunks: Any = None, **coords_by_name: Any,
    ) -> Any:  # fmt: skip
        """As :meth:`Field.interp`, by the names of the two coordinates or by the field's dims."""
        both = {**by_name("coords", coords), **coords_by_name}
        if not set(both) & set(self.names):
            found = Field(self.model).interp(
                both, quantity=quantity, outside=outside, missing=missing, std=std, chunks=chunks
            )
            dims, at = self.domain.dims[-2:], np.moveaxis(self.given, -1, 0)
            return found if both else found.assign_coords(
                {n: (dims, c, self._attrs(n)) for n, c in zip(self.names, at)}
            )  # fmt: skip
        if std or chunks is not None or not set(self.names) <= set(both):
            raise ValueError(
                f"places on a curvilinear grid need both {' and '.join(self.names)}, without `std` "
                "and `chunks`; ask for quantity='std'."
            )
        return evaluate_at_labels(
            self.frame.model,
            both,
            quantity,
            lambda points: self._query(quantity, points, outside, missing),
            directions=self.names,
            units=lambda own: own and multiply_units((own, 1), ("m", -1)),
        )

    to_xarray = interp

    def __getitem__(self, key: str | int | slice) -> "Curvilinear":
        """The field of one variable of a Dataset, by name; or of some channels, by number."""
        return replace(self, model=self.model[key])

    def _attrs(self, name: str) -> Attrs:
        return dict(self.labels.axis(name).attrs)

    @cached_property
    def frame(self) -> Field:
        """A field with even axes of the two coordinates around the mesh; its values mean nothing.

        For those who ask what axes there are.
        """
        axes, about = list(self.domain.axes[:-2]), dict(self.labels.axes)
        for k, (name, n) in enumerate(zip(self.names, self.shape[-2:])):
            c, period = np.sort(self.given[..., k][np.isfinite(self.given).all(axis=-1)]), None
            low, high = c[0], c[-1]
            if k == 1 and self.radius is not None:  # around the circle, but for the widest gap
                turned = np.sort(c % 360)
                gaps = np.diff(turned, append=turned[0] + 360)
                j = int(np.argmax(gaps))
                low = turned[(j + 1) % len(c)]
                low, high = low - 360 * (low > high), 360 - gaps[j]
                period = 360.0 if gaps[j] < 720 / n else None
                high += low
            last = low + 360 * (n - 1) / n if period else high
            axes.append(Axis.through(name, np.linspace(low, last, n), period))
            told = {"units": ("degrees_north", "degrees_east")[k]} if self.radius else {}
            about[name] = AxisLabels(attrs={**told, **self._attrs(name)})
        kept = self.labels.coords_off(self.domain.dims[-2:])
        labels = replace(self.labels, axes=about, coords=kept, align="areas")
        return Field(replace(self.model, domain=Domain.of(axes), labels=labels))

    def locate(self, places: Array) -> tuple[Floats, Bools]:
        """Numbers of samples (..., 2) at places (..., 2), and which lie on the mesh."""
        given = numbers("places", places)
        at, shape = self._vectors(given.reshape(-1, 2)), self.places.shape
        good = np.asarray(np.isfinite(at).all(axis=1))
        near = self.tree.query(np.where(good[:, None], at, 0), eps=1.0)[1]
        i = np.stack(np.unravel_index(self._numbers[near], shape), axis=-1).astype(np.float64)
        wraps, off = np.asarray(self.places.domain.periodic), np.full(len(i), np.inf)
        todo, model = np.flatnonzero(good), self.places.model
        quick: Function = model.function_for(0)
        if len(todo) > TABLE_MIN_POINTS:
            quick = self.places.tabulate(TABLE_TOLERANCE).polynomials
        scale = np.asarray(model.scale)
        for k in range(MOST_STEPS):
            if not len(todo):
                break
            # A table knows the way; the later steps go by the places themselves.
            P, Jy, Jx = quick.partials(i[todo], [(0, 0), (1, 0), (0, 1)])  # (n, C) each
            P = model.finish(P, True) if k < TABLE_STEPS else self.places(i[todo])
            lacks, Jy, Jx = at[todo] - P, Jy * scale, Jx * scale
            a, b, c, y, x = (np.einsum("nk,nk->n", *both) for both in (
                (Jy, Jy), (Jy, Jx), (Jx, Jx), (Jy, lacks), (Jx, lacks)))  # fmt: skip
            step = np.stack([c * y - b * x, a * x - b * y], -1) / (a * c - b * b + 1e-300)[:, None]
            moved = i[todo] + np.clip(step, -2, 2)
            turned = (moved + 0.5) % shape - 0.5
            i[todo] = np.where(wraps, turned, np.clip(moved, -0.5, np.asarray(shape) - 0.5))
            off[todo] = np.abs(step).max(axis=1)
            todo = todo[off[todo] > CLOSE_CELLS] if k >= TABLE_STEPS else todo
        found = good & (off < FOUND_CELLS)
        return i.reshape(given.shape), found.reshape(given.shape[:-1])

    def means(  # type: ignore[override]
        self, polygons: Array, *, missing: Missing = None, min_coverage: float = 0.5
    ) -> tuple[Array, Floats]:
        """Means over polygons (..., v, 2) by area, as :class:`PolygonMeans` has them.

        NaN where one does not lie on the mesh as a whole.
        """
        corners, on_mesh = self.locate(polygons)
        whole = np.asarray(on_mesh.all(axis=-1))
        parts = self._over_cells(missing)
        (means, covered), (size, _) = (
            part(np.nan_to_num(corners), min_coverage=min_coverage) for part in parts
        )
        more = (...,) + (None,) * (means.ndim - whole.ndim)
        return np.where(whole[more], means / size, np.nan), np.where(whole, covered, 0.0)

    def _over_cells(self, missing: Missing) -> list[PolygonMeans]:
        """Integrals of the field times the areas of its cells, and of these."""
        dims = [np.arange(n, dtype=np.float64) for n in self.places.shape]
        J = self.places.grid(*dims, quantity="gradient", missing="fill")
        size = np.sqrt(np.abs(np.linalg.det(np.einsum("...kj,...kl->...jl", J, J))))
        values, k = np.asarray(self.samples(missing=missing), np.float64), self.model.channel_axis
        if k is not None and (after := len(self.shape) - k) < 2:
            size = np.expand_dims(size, 2 - after)
        wide, periodic = np.where(np.isnan(values), np.nan, size), self.domain.periodic
        make = encoder(
            values.shape, self.settings, channel_axis=k, periodic=np.flatnonzero(periodic).tolist()
        )
        return [polygon_means(make(y, missing="nan")) for y in (values * wide, wide)]

    # --- places --------------------------------------------------------------------------------

    def _vectors(self, places: Floats) -> Floats:
        """Places as the field of them has them."""
        return places if self.radius is None else unit_vectors(places[:, 0], places[:, 1])

    @cached_property
    def _numbers(self) -> Array:
        """Which of all samples the tree holds."""
        return np.flatnonzero(np.isfinite(self.given).all(axis=-1))

    def _indexed(self, points: Array, outside: str) -> tuple[Floats, Floats]:
        """Points with numbers of samples for places, NaN off the mesh; and these places."""
        given = np.array(numbers("points", points), np.float64)
        d = len(self.shape)
        if given.ndim == 0 or given.shape[-1] != d:
            raise ValueError(f"`points` must have {d} coordinates each; got shape {given.shape}.")
        places = given[..., -2:].copy()
        index, on_mesh = self.locate(places)
        shown = on_mesh[..., None] | (outside == "nearest")
        given[..., -2:] = np.where(shown, index, np.nan)
        return given, places


def curvilinear(
    of: Field,
    latitude: Array,
    longitude: Array,
    *,
    is_map: bool = False,
    radius: float = EARTH,
    names: tuple[str, str] | None = None,
) -> Curvilinear:
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
    names : pair of str, optional
        What `interp` calls them; latitude and longitude, or y and x.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> j, i = np.indices((30, 40))
    >>> latitude, longitude = 40 + 0.2 * j + 0.05 * i, 10 + 0.3 * i - 0.1 * j
    >>> mesh = ef.curvilinear(ef.fit(latitude + longitude), latitude, longitude)
    >>> bool(abs(mesh([43.0, 14.0]) - 57) < 1e-6)
    True
    """
    from scipy.spatial import cKDTree  # 0.1 s, for these alone

    both = [numbers(n, v) for n, v in (("latitude", latitude), ("longitude", longitude))]
    axes = of.domain.axes[-2:]
    if any(b.shape != of.shape[-2:] for b in both) or any(a.coords is not None for a in axes):
        raise ValueError(
            "`latitude` and `longitude` must have the shape of the field's last two axes, "
            f"{of.shape[-2:]}, which number samples; got {both[0].shape} and {both[1].shape}."
        )
    given = np.stack(both, axis=-1)
    y = given if is_map else unit_vectors(*both)
    made = spline_encoder(y.shape, axes, order=4.0)(y, missing="nan")
    flat = y.reshape(-1, y.shape[-1])
    tree = cKDTree(flat[np.isfinite(flat).all(axis=1)])
    names = names or (("y", "x") if is_map else ("latitude", "longitude"))
    return Curvilinear(of.model, made, tree, names, given, None if is_map else radius)
