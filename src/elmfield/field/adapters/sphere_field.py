"""Fields on the sphere: derivatives per metre, areas, great circles, poles that are single points.

A field with latitudes and longitudes enters, and fields that run on over its poles where it reaches
them (made in `fit`). ``R`` is the radius, φ the latitude, λ the longitude.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as parameter
from functools import partial
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import by_name, choice
from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import EARTH, cosine, great_circle
from elmfield.field.adapters.labelled_arrays import evaluate_at_labels
from elmfield.field.blend.means import means_between
from elmfield.field.coordinates.units import multiply_units
from elmfield.field.field import Field
from elmfield.field.point_values import AtPoints, Missing

QUANTITIES = ("value", "gradient", "laplacian", "divergence", "vorticity")
"""What can be asked of a field on the sphere."""

DEGREE = math.pi / 180


@dataclass(frozen=True, kw_only=True)
class SphereFrame:
    """Where a field has its latitudes and longitudes, and on which sphere.

    Parameters
    ----------
    plane : tuple of int
        Numbers of the two axes.
    radius : float
        In metres.
    components : tuple of int, or None
        Channels that are the eastward and northward component of a vector.
    """

    plane: tuple[int, int]
    radius: float = EARTH
    components: tuple[int, int] | None = None


def by_formula(
    frame: SphereFrame, field: Field, quantity: str, x: Floats, outside: str, missing: str | None
) -> Array:
    """A quantity at points (n, d) away from the poles."""

    def ask(call: Any) -> Array:
        return np.asarray(to_numpy(call(x, outside=outside, missing=missing)))

    if quantity == "value":
        return ask(field)
    (lat, lon), R = frame.plane, frame.radius
    slope = ask(field.gradient) / DEGREE
    tail = (-1, *(1,) * (slope.ndim - 2))
    if quantity in ("divergence", "vorticity"):
        assert frame.components is not None
        value, tail = ask(field), (-1,)
        u, v = (value[..., k] for k in frame.components)
        du, dv = (slope[..., k, :] for k in frame.components)
    cos = np.cos(x[:, lat] * DEGREE)
    cos = np.where(np.abs(cos) < 1e-12, 1e-12, cos).reshape(tail)  # never 0
    tan = np.sin(x[:, lat] * DEGREE).reshape(tail) / cos
    if quantity == "gradient":
        north, east = slope[..., lat] / R, slope[..., lon] / (R * cos)
        return np.stack((north, east) if lat < lon else (east, north), axis=-1)
    if quantity == "laplacian":
        bend = ask(field.hessian) / DEGREE**2
        found = bend[..., lat, lat] - tan * slope[..., lat] + bend[..., lon, lon] / cos**2
        return np.asarray(found / R**2)
    if quantity == "divergence":
        return np.asarray((du[..., lon] / cos + dv[..., lat] - v * tan) / R)
    return np.asarray((dv[..., lon] / cos - du[..., lat] + u * tan) / R)


@dataclass(frozen=True, eq=False, kw_only=True)
class Cap:
    """A field that runs on over a pole, and how far from the pole it is used.

    Parameters
    ----------
    field : Field
        Around the pole, latitudes beyond 90 degrees being those of the other side; components of
        vectors turn their sign there.
    pole : float
        90 or -90.
    inner, outer : float
        Degrees from the pole: within the first it counts alone, beyond the second not at all.
    step : float
        Degrees between the rows of samples next to the pole.
    frame : SphereFrame
        Where latitude and longitude are, and what a degree is worth.
    """

    field: Field
    pole: float
    inner: float
    outer: float
    step: float
    frame: SphereFrame

    def __call__(self, quantity: str, x: Floats, away: Floats, outside: str) -> Array:
        """What a cap says: by the formula, and within one row of the pole towards that of the pole.

        There the formula divides nothing by nothing, and is taken at the first row; a value less
        what the row of the pole differs from the pole's.
        """
        close, far, lat = away < self.step, x.copy(), self.frame.plane[0]
        if quantity != "value":
            far[close, lat] = self.pole - math.copysign(self.step, self.pole)
        found = by_formula(self.frame, self.field, quantity, far, outside, "fill")
        if close.any():
            at, base = far[close], found[close]
            if quantity == "value":
                at[:, lat] = self.pole
                base = by_formula(self.frame, self.field, quantity, at, outside, "fill")
            t = (1 - away[close] / self.step).reshape(-1, *(1,) * (found.ndim - 1))
            found = found.copy()
            found[close] += t * (self._at_pole(quantity, at) - base)
        return found

    def _ring(self) -> Floats:
        """Longitudes of a circle."""
        axis = self.field.domain.axes[self.frame.plane[1]]
        n = min(max(16, axis.size), 720)
        return axis.origin + np.arange(n) * 360.0 / n

    def _around(self, x: Floats, latitude: float, what: str = "value") -> Array:
        """Values or derivatives of a cap on a circle, (n, ring, ...); points that agree once."""
        others = [k for k in range(x.shape[1]) if k not in self.frame.plane]
        rows, back = np.unique(x[:, others], axis=0, return_inverse=True)
        ring = self._ring()
        points = np.zeros((len(rows), len(ring), x.shape[1]))
        points[..., others] = rows[:, None]
        points[..., self.frame.plane[0]] = latitude
        points[..., self.frame.plane[1]] = ring
        call: Any = self.field if what == "value" else self.field.gradient
        found = np.asarray(to_numpy(call(points, missing="fill")))
        return found[back.reshape(-1)]

    def _at_pole(self, quantity: str, x: Floats) -> Array:
        """A quantity at the pole itself: that of a whole circle around it."""
        R, sign = self.frame.radius, math.copysign(1.0, self.pole)
        lat, lon = self.frame.plane
        # Directions at the pole as complex numbers: on the circle's meridians, and on the points'.
        turn, own = (np.exp(1j * np.deg2rad(l)) for l in (self._ring(), x[:, lon]))
        if quantity == "value":
            row = self._around(x, self.pole)
            found = np.asarray(row.mean(axis=1))
            if self.frame.components is not None:  # one vector, told by each meridian's north
                u, v = self.frame.components
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
            slope = self._around(x, edge, "slope")[..., lat] / DEGREE
            return -sign * np.mean(slope, axis=1) * length / area / R**2
        assert self.frame.components is not None
        mean = np.mean(self._around(x, edge), axis=1)
        u, v = (mean[..., k] for k in self.frame.components)
        return sign * (-v if quantity == "divergence" else u) * length / area / R


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
    frame : SphereFrame
        Where latitude and longitude are, and the radius.
    caps : tuple of Cap
        Fields over the poles that the samples reach.
    """

    field: Field
    frame: SphereFrame
    caps: tuple[Cap, ...] = parameter(default=(), repr=False)

    def __repr__(self) -> str:
        return f"Sphere({self.field!r}, radius={self.frame.radius:g})"

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
        if quantity in ("divergence", "vorticity") and self.frame.components is None:
            raise ValueError(
                f"{quantity} is of a vector; say which channels are its eastward and northward "
                "components: sphere(field, components=(0, 1))."
            )
        x = np.asarray(
            to_numpy(self.field.model.coordinates.points(points, self.field.model.offset))
        )
        lead = x.shape[:-1]
        x = x.reshape(-1, x.shape[-1])
        out = by_formula(self.frame, self.field, quantity, x, outside, missing)
        for cap in self.caps:
            out = self._over(cap, quantity, x, out, outside)
        return out.reshape((*lead, *out.shape[1:]))

    def _over(self, cap: Cap, quantity: str, x: Floats, out: Array, outside: str) -> Array:
        """`out` with what a cap says near its pole, blended in where it begins."""
        away = np.abs(cap.pole - x[:, self.frame.plane[0]])
        near = np.flatnonzero(away < cap.outer)
        if not len(near):
            return out
        t = np.clip((cap.outer - away[near]) / (cap.outer - cap.inner), 0, 1)
        t = t.reshape(-1, *(1,) * (out.ndim - 1))
        said = cap(quantity, x[near], away[near], outside)
        out = out.copy()
        out[near] = t * said + (1 - t) * out[near]  # what is missing stays so
        return out

    # --- labelled ------------------------------------------------------------------------------

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
        choice("quantity", quantity, QUANTITIES)
        return evaluate_at_labels(
            self.field.model, {**by_name("coords", coords), **coords_by_name}, quantity,
            partial(self._query, quantity, outside=outside, missing=missing),
            directions=[self.field.domain.dims[k] for k in sorted(self.frame.plane)],
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

        at, along = great_circle(start, end, int(n), self.frame.radius)
        told = {"units": "m", "long_name": "distance along the great circle"}
        distance = xarray.Variable("distance", along, told)
        places = {}
        for k, c in zip(self.frame.plane, at.T):
            name = self.field.domain.dims[k]
            about = self.field.labels.axis(name).attrs
            places[name] = xarray.DataArray(
                c, dims="distance", coords={"distance": distance}, attrs=dict(about)
            )
        return self.interp(places, **options)

    # --- areas ---------------------------------------------------------------------------------

    def means(
        self,
        *edges: Array | Mapping[str, Array] | None,
        covered: bool = False,
        missing: str | None = None,
    ) -> Any:
        """Means over boxes, by area: as :meth:`Field.means`, latitudes counting by their cosine."""
        weights = {self.frame.plane[0]: cosine}
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
        lat, lon = self.frame.plane
        ends = {k: np.sort(self.field.domain.ends(k)) for k in self.frame.plane}
        ends[lat] = np.clip(ends[lat], -90, 90)
        k = self.field.model.channel_axis
        own = [j for j in range(len(self.field.shape) + (k is not None)) if j != k]
        flat = tuple(own[j] for j in self.frame.plane)
        edges = {self.field.domain.dims[k]: e for k, e in ends.items()}
        found = self.means(edges, covered=True, missing=missing)
        values, part = (np.squeeze(v, axis=flat)[()] for v in found)
        high, wide = np.diff(np.sin(ends[lat] * DEGREE))[0], np.diff(ends[lon])[0] * DEGREE
        return values, part, high * wide * self.frame.radius**2


def units_per_metre(quantity: str, own: str | None) -> str | None:
    """The unit of a quantity: per metre, or per square metre; metres of a speed cancel."""
    if own is None or quantity == "value":
        return own
    return multiply_units((own, 1), ("m", -2 if quantity == "laplacian" else -1))
