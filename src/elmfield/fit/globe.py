"""Fields on the sphere: derivatives per metre, areas, great circles, poles that are single points.

``R`` is the radius, φ the latitude, λ the longitude. Around each pole that a field's samples reach,
rows on this side and, half a turn further, those on the other make one array without a border at
the pole, which is fitted as the field was.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import by_name, choice, entries, is_integer, positive, wrong
from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import EARTH, cosine, great_circle
from elmfield.field import Field
from elmfield.field.adapters.labelled_arrays import evaluate_at_labels
from elmfield.field.blend.means import means_between
from elmfield.field.coordinates.units import units_per_metre
from elmfield.field.point_values import AtPoints, Missing
from elmfield.fit.encoder import encoder
from elmfield.settings import Smooth

CAP_ROWS = 24
"""Rows of samples on each side of a pole that a cap is fitted to."""

INNER_ROWS, OUTER_ROWS = 10, 16
"""Rows from the pole within which a cap counts alone, and beyond which not at all."""

QUANTITIES = ("value", "gradient", "laplacian", "divergence", "vorticity")
"""What can be asked of a field on the sphere."""

DEGREE = math.pi / 180


@dataclass(frozen=True, eq=False, kw_only=True)
class Sphere(AtPoints):
    """A field on a sphere; made by :func:`elmfield.sphere`. Answers on the host.

    At a pole values are the same from all longitudes, components of a vector those of one vector
    there, told by each meridian's north. `gradient` is northward and eastward, per metre, shape
    (..., 2) or (..., C, 2): ``(f_φ / R, f_λ / (R cos φ))``, in the order of the axes; at a pole it
    is one vector, too, told in the directions that are north and east on the meridian of the
    point's longitude. (Of a vector's components it means little there; ask for divergence and
    vorticity.) `laplacian` is ``(f_φφ - tan φ f_φ + f_λλ / cos² φ) / R²``, per square metre.

    Parameters
    ----------
    field : Field
        With one axis of latitudes and one of longitudes, in degrees, and perhaps others.
    plane : tuple of int
        Numbers of the two axes.
    radius : float
        In metres.
    components : tuple of int, or None
        Channels that are the eastward and northward component of a vector.
    caps : tuple of Cap
        Fields over the poles that the samples reach.
    """

    field: Field
    plane: tuple[int, int]
    radius: float
    components: tuple[int, int] | None
    caps: "tuple[Cap, ...]" = ()

    def __repr__(self) -> str:
        return f"Sphere({self.field!r}, radius={self.radius:g})"

    @property
    def array_axes(self) -> tuple[int, int]:
        """Numbers of the two axes in arrays of values, where channels count."""
        (lat, lon), k = self.plane, self.field.model.channel_axis
        k = len(self.field.shape) if k is None else k
        return lat + (k <= lat), lon + (k <= lon)

    # --- at points -----------------------------------------------------------------------------

    def divergence(
        self, points: Array, *, outside: str = "raise", missing: Missing = None
    ) -> Array:
        """``(u_λ / cos φ + v_φ - v tan φ) / R`` of the vector (u eastward, v northward)."""
        return self._query("divergence", points, outside, missing)

    def vorticity(self, points: Array, *, outside: str = "raise", missing: Missing = None) -> Array:
        """``(v_λ / cos φ - u_φ + u tan φ) / R``, the vertical component of the curl."""
        return self._query("vorticity", points, outside, missing)

    def _query(self, quantity: str, points: Array, outside: str, missing: str | None) -> Array:
        """A quantity at points: by the field, near a pole by the field that runs on over it."""
        choice("quantity", quantity, QUANTITIES)
        model = self.field.model
        given = np.asarray(to_numpy(model.coordinates.points(points, model.offset)))
        x = given.reshape(-1, given.shape[-1])
        out = self._by_formula(quantity, x, outside, missing)
        for cap in self.caps:
            out = cap.blend(out, quantity, x, outside)
        return out.reshape((*given.shape[:-1], *out.shape[1:]))

    def _by_formula(self, quantity: str, x: Floats, outside: str, missing: Missing) -> Array:
        """A quantity at points (n, d) away from the poles."""

        def ask(call: Any) -> Array:
            return np.asarray(to_numpy(call(x, outside=outside, missing=missing)))

        if quantity == "value":
            return ask(self.field)
        (lat, lon), R = self.plane, self.radius
        u, v, way = self.across(quantity)
        slope = ask(self.field.gradient) / DEGREE
        tail = (-1,) if way else (-1, *(1,) * (slope.ndim - 2))
        cos = np.cos(x[:, lat] * DEGREE)
        cos = np.where(np.abs(cos) < 1e-12, 1e-12, cos).reshape(tail)  # never 0
        tan = np.sin(x[:, lat] * DEGREE).reshape(tail) / cos
        if quantity == "gradient":
            north, east = slope[..., lat] / R, slope[..., lon] / (R * cos)
            return np.stack((north, east) if lat < lon else (east, north), axis=-1)
        if quantity == "laplacian":
            bend = ask(self.field.hessian) / DEGREE**2
            found = bend[..., lat, lat] - tan * slope[..., lat] + bend[..., lon, lon] / cos**2
            return np.asarray(found / R**2)
        north = slope[..., v, lat] - tan * ask(self.field)[..., v]
        return np.asarray((slope[..., u, lon] / cos + way * north) / R)

    def across(self, quantity: str) -> tuple[int, int, int]:
        """Channels that flow out of a place eastward and northward, the latter times the last, ±1.

        A vorticity is the divergence of the vector turned by a right angle, (v, -u). The last is 0
        for other quantities.
        """
        if quantity not in ("divergence", "vorticity"):
            return 0, 0, 0
        if self.components is None:
            raise ValueError(
                f"{quantity} is of a vector; say which channels are its eastward and northward "
                "components: sphere(field, components=(0, 1))."
            )
        u, v = self.components
        return (u, v, 1) if quantity == "divergence" else (v, u, -1)

    def interp(
        self,
        coords: Mapping[str, Any] | None = None,
        *,
        quantity: str = "value",
        outside: str = "raise",
        missing: str | None = None,
        **coords_by_name: Any,
    ) -> Any:
        """A quantity as labelled values with units; places by the rules of `Field.interp`.

        Parameters
        ----------
        coords, outside, missing, **coords_by_name
            As for `Field.interp`.
        quantity : {"value", "gradient", "laplacian", "divergence", "vorticity"}
            A gradient's two components lie along a new dim "direction".
        """
        return evaluate_at_labels(
            self.field.model, {**by_name("coords", coords), **coords_by_name}, quantity,
            partial(self._query, quantity, outside=outside, missing=missing),
            directions=[self.field.domain.dims[k] for k in sorted(self.plane)],
            units=partial(units_per_metre, quantity),
            is_scalar=quantity in ("divergence", "vorticity"),
        )  # fmt: skip

    to_xarray = interp

    def section(
        self, start: Sequence[float], end: Sequence[float], n: int = 101, **options: Any
    ) -> Any:
        """Values along the great circle between two points (latitude, longitude), labelled.

        At n places, evenly; with the dim "distance", in metres. `options` are those of `interp`.
        """
        import xarray

        at, along = great_circle(start, end, int(n), self.radius)
        told = {"units": "m", "long_name": "distance along the great circle"}
        coords, places = {"distance": ("distance", along, told)}, {}
        for k, c in zip(self.plane, at.T):
            name = self.field.domain.dims[k]
            about = dict(self.field.labels.axis(name).attrs)
            places[name] = xarray.DataArray(c, dims="distance", coords=coords, attrs=about)
        return self.interp(places, **options)

    def means(
        self,
        *edges: Array | Mapping[str, Array] | None,
        covered: bool = False,
        missing: str | None = None,
    ) -> Any:
        """Means over boxes, by area: as :meth:`Field.means`, latitudes counting by their cosine."""
        weights = {self.plane[0]: cosine}
        values, part = means_between(self.field.model, edges, missing, weights)
        return (to_numpy(values), part) if covered else to_numpy(values)

    def mean(self, *, missing: str | None = None) -> Any:
        """Mean over all that the field covers of the sphere, by area.

        A number, or one for each channel and each sample of other axes.
        """
        return self._over_all(missing)[0]

    def integral(self, *, missing: str | None = None) -> Any:
        """Integral over all that the field covers, in the field's unit times square metres.

        What is missing counts nothing.
        """
        values, part, area = self._over_all(missing)
        return np.where(part > 0, values, 0)[()] * part * area

    def _over_all(self, missing: str | None) -> tuple[Any, Any, float]:
        """Mean over all that the field covers, which part of it counted, and its area."""
        lat, lon = self.plane
        ends = {k: np.sort(self.field.domain.ends(k)) for k in self.plane}
        ends[lat] = np.clip(ends[lat], -90, 90)
        edges = {self.field.domain.dims[k]: e for k, e in ends.items()}
        found = self.means(edges, covered=True, missing=missing)
        values, part = (np.squeeze(v, axis=self.array_axes)[()] for v in found)
        high, wide = np.diff(np.sin(ends[lat] * DEGREE))[0], np.diff(ends[lon])[0] * DEGREE
        return values, part, high * wide * self.radius**2


@dataclass(frozen=True, eq=False, kw_only=True)
class Cap:
    """A field that runs on over a pole, and how far from the pole it is used.

    Parameters
    ----------
    of : Sphere
        The field around the pole, latitudes beyond 90 degrees being those of the other side;
        components of vectors turn their sign there.
    pole : float
        90 or -90.
    inner, outer : float
        Degrees from the pole: within the first it counts alone, beyond the second not at all.
    step : float
        Degrees between the rows of samples next to the pole.
    """

    of: Sphere
    pole: float
    inner: float
    outer: float
    step: float

    def blend(self, out: Array, quantity: str, x: Floats, outside: str) -> Array:
        """A quantity at points, `out`, with what the cap says near its pole, blended in.

        That is the formula's, and within one row of the pole goes towards what the pole has. There
        the formula divides nothing by nothing, and is taken at the first row; a value less what the
        row of the pole differs from the pole's.
        """
        lat, ask, tail = self.of.plane[0], self.of._by_formula, (1,) * (out.ndim - 1)
        away = np.abs(self.pole - x[:, lat])
        near = np.flatnonzero(away < self.outer)
        if not len(near):
            return out
        x, away = x[near], away[near]
        close, far = away < self.step, x.copy()
        if quantity != "value":
            far[close, lat] = self.pole - math.copysign(self.step, self.pole)
        found = ask(quantity, far, outside, "fill")
        if close.any():
            at, base = far[close], found[close]
            if quantity == "value":
                at[:, lat] = self.pole
                base = ask(quantity, at, outside, "fill")
            t = (1 - away[close] / self.step).reshape(-1, *tail)
            found[close] += t * (self._at_pole(quantity, at) - base)
        t = np.clip((self.outer - away) / (self.outer - self.inner), 0, 1).reshape(-1, *tail)
        out = out.copy()
        out[near] = t * found + (1 - t) * out[near]  # what is missing stays so
        return out

    def _ring(self) -> Floats:
        """Longitudes of a circle."""
        axis = self.of.field.domain.axes[self.of.plane[1]]
        n = min(max(16, axis.size), 720)
        return axis.origin + np.arange(n) * 360.0 / n

    def _around(self, x: Floats, latitude: float, what: str = "value") -> Array:
        """Values or derivatives of a cap on a circle, (n, ring, ...); points that agree once."""
        others = [k for k in range(x.shape[1]) if k not in self.of.plane]
        rows, back = np.unique(x[:, others], axis=0, return_inverse=True)
        ring = self._ring()
        points = np.zeros((len(rows), len(ring), x.shape[1]))
        points[..., others] = rows[:, None]
        points[..., self.of.plane[0]] = latitude
        points[..., self.of.plane[1]] = ring
        call: Any = self.of.field if what == "value" else self.of.field.gradient
        found = np.asarray(to_numpy(call(points, missing="fill")))
        return found[back.reshape(-1)]

    def _at_pole(self, quantity: str, x: Floats) -> Array:
        """A quantity at the pole itself: that of a whole circle around it."""
        R, sign = self.of.radius, math.copysign(1.0, self.pole)
        lat, lon = self.of.plane
        # Directions at the pole as complex numbers: on the circle's meridians, and on the points'.
        turn, own = (np.exp(1j * np.deg2rad(l)) for l in (self._ring(), x[:, lon]))
        if quantity == "value":
            row = self._around(x, self.pole)
            found = np.asarray(row.mean(axis=1))
            if self.of.components is not None:  # one vector, told by each meridian's north
                u, v = self.of.components
                mean = np.mean((1j * row[..., u] - sign * row[..., v]) * turn, axis=1) / own
                found[..., u], found[..., v] = mean.imag, -sign * mean.real
            return found
        if quantity == "gradient":
            # f_φ at the pole is A cos λ + B sin λ: one vector, seen from all meridians.
            slope = self._around(x, self.pole, "slope")[..., lat] / (R * DEGREE)
            tail = (1,) * (slope.ndim - 2)
            seen = 2 * np.mean(slope * turn.reshape(1, -1, *tail), axis=1) / own.reshape(-1, *tail)
            north, east = seen.real, -sign * seen.imag
            return np.stack((north, east) if lat < lon else (east, north), axis=-1)
        # By Gauss and Stokes: what flows out of a circle, or around it, divided by its area.
        edge = self.pole - sign * self.step
        f = edge * DEGREE
        length, area = math.cos(f), 1 - abs(math.sin(f))
        if quantity == "laplacian":
            north = self._around(x, edge, "slope")[..., lat] / (R * DEGREE)
        else:
            _, v, way = self.of.across(quantity)
            north = way * self._around(x, edge)[..., v]
        return -sign * np.mean(north, axis=1) * length / area / R


def sphere(
    field: Field, radius: float = EARTH, *, components: Sequence[int | str] | None = None
) -> Sphere:
    """A field as a function on the sphere: derivatives per metre, means by area, single poles.

    Parameters
    ----------
    field : Field
        With one axis of latitudes and one of longitudes, in degrees, told apart by their names or
        by what they say about themselves (`units`, `standard_name`).
    radius : float
        Of the sphere, in metres; the Earth's mean radius by default.
    components : two numbers or names, optional
        Channels (or variables) that are the eastward and northward component of a vector, for
        `divergence` and `vorticity`; by default the two of a field that has two.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> latitude, longitude = np.arange(90, -91, -10.0), np.arange(0, 360, 10.0)
    >>> height = np.sin(np.deg2rad(latitude))[:, None] + 0 * longitude
    >>> field = ef.fit(height, dims=("latitude", "longitude"), coords=[latitude, longitude],
    ...                periodic="longitude")
    >>> north, east = ef.sphere(field, radius=1.0).gradient([0.0, 30.0])
    >>> round(float(north), 2)
    1.0
    """
    if not isinstance(field, Field):
        raise wrong("field", "be a Field", field, TypeError, "Fit one first: sphere(fit(values)).")
    plane = field.labels.horizontal(field.domain.dims)
    if plane is None:
        raise ValueError(
            "a field on the sphere needs one axis of latitudes and one of longitudes; got axes "
            f"{list(field.domain.dims)}. Name them so: fit(..., dims=('latitude', 'longitude'), "
            "coords=...)."
        )
    if field.model.is_complex:
        raise ValueError("a field on the sphere must be real; fit real and imaginary parts.")
    radius, pair = positive("radius", radius), _components(field, components)
    made = Sphere(field=field, plane=plane, radius=radius, components=pair)
    caps = (_cap(made, pole) for pole in (90.0, -90.0))
    return replace(made, caps=tuple(cap for cap in caps if cap is not None))


def _components(field: Field, wanted: Sequence[int | str] | None) -> tuple[int, int] | None:
    """Numbers of the two channels that are a vector; None without any."""
    n = 0 if field.model.channel_axis is None else field.model.n_channels
    if wanted is None:
        return (0, 1) if n == 2 else None
    labels = [str(v) for v in field.labels.channels.labels]
    given = entries(wanted) or ()
    found = [labels.index(c) if isinstance(c, str) and c in labels else c for c in given]
    if len(found) != 2 or not all(is_integer(k) and 0 <= k < n for k in found):
        of = f"the field's {field.model.n_channels} channels, eastward and northward"
        raise wrong("components", f"be two of {of}, by number or by name {labels}", wanted)
    return int(found[0]), int(found[1])


def _cap(sphere: Sphere, pole: float) -> Cap | None:
    """The field around a pole; None if its samples do not reach it, or not all around it."""
    field, (lat, lon) = sphere.field, sphere.plane
    axis, circle = field.domain.axes[lat], field.domain.axes[lon]
    if circle.period is None or abs(circle.period - 360) > 1e-6 or axis.size < 4:
        return None
    coords = [a.from_index(np.arange(a.size, dtype=float)) for a in field.domain.axes]
    at = coords[lat]
    order = np.argsort(np.abs(pole - at), kind="stable")[: min(CAP_ROWS, axis.size)]
    step = abs(float(at[order[1]] - at[order[0]]))
    if not field.domain.goes_round(lon) or abs(pole - at[order[0]]) > 0.75 * step:
        return None
    ends = field.domain.ends(lat)
    if not min(ends) - 1e-6 <= at[order].min() or not at[order].max() <= max(ends) + 1e-6:
        return None
    here = np.sort(order)
    coords[lat] = at[here]
    values, coords[lat] = _both_sides(sphere, coords, pole)
    settings = field.settings or Smooth()
    if isinstance(settings, Smooth):
        settings = replace(settings, target=None, denoise=False)
    elif not settings.is_linear:
        settings = Smooth()
    encode = encoder(
        values.shape, settings, channel_axis=field.model.channel_axis, dims=field.domain.dims,
        coords=coords, periodic={a.name: a.period for a in field.domain.axes if a.period},
    )  # fmt: skip
    inner, outer = (min(n, len(here) - 2) * step for n in (INNER_ROWS, OUTER_ROWS))
    around = replace(sphere, field=encode(values))
    return Cap(of=around, pole=pole, inner=inner * 0.999, outer=outer, step=step)


def _both_sides(sphere: Sphere, at: list[Array], pole: float) -> tuple[Array, Array]:
    """Samples on this side of a pole and beyond it; and their latitudes."""
    field, (lat, lon), over = sphere.field, sphere.plane, list(at)
    rows, axis = at[lat], sphere.array_axes[0]
    over[lat], over[lon] = rows[np.abs(rows - pole) > 1e-9], at[lon] + 180
    grids = (field.grid(*places, missing="fill") for places in (at, over))
    here, there = (np.array(to_numpy(v), np.float64) for v in grids)
    k = field.model.channel_axis
    if sphere.components and k is not None:  # seen from there, north is south, east is west
        np.moveaxis(there, k, -1)[..., list(sphere.components)] *= -1
    latitudes = np.concatenate([rows, 2 * pole - over[lat]])
    order = np.argsort(latitudes)
    both = np.take(np.concatenate([here, there], axis=axis), order, axis=axis)
    return both, latitudes[order]
