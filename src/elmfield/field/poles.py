"""Near a pole: formulae in degrees, and fields that run on over the pole.

A quantity, points and how far they are from a pole enter; what it is there leaves, at the pole the
same from all longitudes. ``R`` is the radius, φ the latitude, λ the longitude.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field.field import Field

DEGREE = math.pi / 180


@dataclass(frozen=True, kw_only=True)
class Frame:
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
    radius: float
    components: tuple[int, int] | None = None


# --- formulae -------------------------------------------------------------------------------------


def _beside(line: Floats, values: Array) -> Array:
    """A line of numbers as a factor of the second axis of values."""
    return line.reshape(1, -1, *(1,) * (values.ndim - 2))


def _cos_tan(frame: Frame, x: Floats, like: Array) -> tuple[Array, Array]:
    """Cos φ, never 0, and tan φ, for values (n, ...)."""
    f = x[:, frame.plane[0]] * DEGREE
    c = np.cos(f)
    c = np.where(np.abs(c) < 1e-12, 1e-12, c)
    tail = (-1, *(1,) * (like.ndim - 1))
    return c.reshape(tail), (np.sin(f) / c).reshape(tail)


def _value(frame: Frame, f: Field, x: Floats, outside: str, missing: str | None) -> Array:
    return to_numpy(f(x, outside=outside, missing=missing))


def _gradient(frame: Frame, f: Field, x: Floats, outside: str, missing: str | None) -> Array:
    lat, lon = frame.plane
    slope = np.asarray(to_numpy(f.gradient(x, outside=outside, missing=missing)))
    slope = slope / (frame.radius * DEGREE)
    c, _ = _cos_tan(frame, x, slope[..., lat])
    north, east = slope[..., lat], slope[..., lon] / c
    return np.stack((north, east) if lat < lon else (east, north), axis=-1)


def _laplacian(frame: Frame, f: Field, x: Floats, outside: str, missing: str | None) -> Array:
    lat, lon = frame.plane
    slope = np.asarray(to_numpy(f.gradient(x, outside=outside, missing=missing))) / DEGREE
    bend = np.asarray(to_numpy(f.hessian(x, outside=outside, missing=missing))) / DEGREE**2
    c, t = _cos_tan(frame, x, slope[..., lat])
    out = bend[..., lat, lat] - t * slope[..., lat] + bend[..., lon, lon] / c**2
    return np.asarray(out / frame.radius**2)


def _vector(
    frame: Frame, f: Field, x: Floats, outside: str, missing: str | None
) -> tuple[Array, Array, Array, Array]:
    """u, v, and their derivatives (n, d) per radian."""
    assert frame.components is not None
    value = np.asarray(to_numpy(f(x, outside=outside, missing=missing)))
    slope = np.asarray(to_numpy(f.gradient(x, outside=outside, missing=missing))) / DEGREE
    u, v = (value[..., k] for k in frame.components)
    du, dv = (slope[..., k, :] for k in frame.components)
    return u, v, du, dv


def _divergence(frame: Frame, f: Field, x: Floats, outside: str, missing: str | None) -> Array:
    lat, lon = frame.plane
    _, v, du, dv = _vector(frame, f, x, outside, missing)
    c, t = _cos_tan(frame, x, v)
    return np.asarray((du[..., lon] / c + dv[..., lat] - v * t) / frame.radius)


def _vorticity(frame: Frame, f: Field, x: Floats, outside: str, missing: str | None) -> Array:
    lat, lon = frame.plane
    u, _, du, dv = _vector(frame, f, x, outside, missing)
    c, t = _cos_tan(frame, x, u)
    return np.asarray((dv[..., lon] / c - du[..., lat] + u * t) / frame.radius)


FORMULAE: dict[str, Any] = {
    "value": _value,
    "gradient": _gradient,
    "laplacian": _laplacian,
    "divergence": _divergence,
    "vorticity": _vorticity,
}
"""What each quantity is, away from the poles."""


# --- around a pole --------------------------------------------------------------------------------


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
    frame : Frame
        Where latitude and longitude are, and what a degree is worth.
    """

    field: Field
    pole: float
    inner: float
    outer: float
    step: float
    frame: Frame

    def __call__(self, quantity: str, x: Floats, away: Floats, outside: str) -> Array:
        """What a cap says: by the formula, and within one row of the pole towards that of the pole.

        There the formula divides nothing by nothing. The pole's own value comes from a whole circle
        around it, and a straight line leads from it to the first row.
        """
        formula = FORMULAE[quantity]
        close = away < self.step
        far = x.copy()
        lat = self.frame.plane[0]
        far[close, lat] = self.pole - math.copysign(self.step, self.pole)
        if quantity == "value":
            return self._value_in(x, away)
        found = np.asarray(formula(self.frame, self.field, far, outside, "fill"))
        if close.any():
            t = (away[close] / self.step).reshape(-1, *(1,) * (found.ndim - 1))
            found = found.copy()
            found[close] = t * found[close] + (1 - t) * self._at_pole(quantity, x[close])
        return found

    def _value_in(self, x: Floats, away: Floats) -> Array:
        """Values, less what the row of the pole differs from the pole's, within one row of it."""
        found = np.asarray(to_numpy(self.field(x, missing="fill")))
        close = away < self.step
        if close.any():
            at = x[close].copy()
            at[:, self.frame.plane[0]] = self.pole
            ring = np.asarray(to_numpy(self.field(at, missing="fill")))
            mean = self._value_at_pole(at)
            t = (1 - away[close] / self.step).reshape(-1, *(1,) * (found.ndim - 1))
            found = found.copy()
            found[close] = found[close] - t * (ring - mean)
        return found

    def _value_at_pole(self, x: Floats) -> Array:
        """The mean of the pole's row; of a vector in space, told by each point's east and north."""
        row = self._around(x, self.pole)
        found = row.mean(axis=1)
        if self.frame.components is None:
            return found
        east, north = self._directions(np.deg2rad(self._ring()))
        u, v = (row[..., k] for k in self.frame.components)
        space = np.mean(u[..., None] * east + v[..., None] * north, axis=1)
        own = self._directions(np.deg2rad(x[:, self.frame.plane[1]]))
        for k, way in zip(self.frame.components, own):
            found[..., k] = np.sum(space * way, axis=-1)
        return found

    def _directions(self, turn: Floats) -> tuple[Floats, Floats]:
        """East and north at the pole on meridians, (..., 2), in the plane that touches it there."""
        c, s = np.cos(turn), np.sin(turn)
        up = -math.copysign(1.0, self.pole)
        return np.stack([-s, c], axis=-1), up * np.stack([c, s], axis=-1)

    def _ring(self) -> Floats:
        """Longitudes of a circle."""
        axis = self.field.domain.axes[self.frame.plane[1]]
        n = min(max(16, axis.size), 720)
        return axis.origin + np.arange(n) * 360.0 / n

    def _circle(self, x: Floats, latitude: float) -> Floats:
        """Points (n, ring, d) on a circle of latitude, other coordinates being those of `x`."""
        ring = self._ring()
        points = np.repeat(x[:, None, :], len(ring), axis=1)
        points[..., self.frame.plane[0]] = latitude
        points[..., self.frame.plane[1]] = ring
        return points

    def _around(self, x: Floats, latitude: float, what: str = "value") -> Array:
        """Values or derivatives of a cap on a circle, (n, ring, ...); points that agree once."""
        others = [k for k in range(x.shape[1]) if k not in self.frame.plane]
        rows, back = np.unique(x[:, others], axis=0, return_inverse=True)
        some = np.zeros((len(rows), x.shape[1]))
        some[:, others] = rows
        points = self._circle(some, latitude)
        call: Any = self.field if what == "value" else self.field.gradient
        found = np.asarray(to_numpy(call(points, missing="fill")))
        return found[back.reshape(-1)]

    def _at_pole(self, quantity: str, x: Floats) -> Array:
        """A quantity at the pole itself: that of a whole circle around it."""
        R, sign = self.frame.radius, math.copysign(1.0, self.pole)
        lat, lon = self.frame.plane
        turn = np.deg2rad(self._ring())
        if quantity == "gradient":
            # f_φ at the pole is A cos λ + B sin λ: one vector, seen from all meridians.
            slope = self._around(x, self.pole, "slope")[..., lat] / (R * DEGREE)
            A = 2 * np.mean(slope * _beside(np.cos(turn), slope), axis=1)
            B = 2 * np.mean(slope * _beside(np.sin(turn), slope), axis=1)
            l = np.deg2rad(x[:, lon]).reshape(-1, *(1,) * (A.ndim - 1))
            north = A * np.cos(l) + B * np.sin(l)
            east = sign * (A * np.sin(l) - B * np.cos(l))
            pair = (north, east) if lat < lon else (east, north)
            return np.stack(pair, axis=-1)
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
