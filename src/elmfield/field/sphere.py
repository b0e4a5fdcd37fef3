"""Fields on the sphere: derivatives per metre, areas, great circles, poles that are single points.

A field with latitudes and longitudes enters, and fields that run on over its poles where it reaches
them (made in `fit`). Formulae are written in `poles`; ``R`` is the radius, φ the latitude, λ the
longitude.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as kept
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import choice, is_mapping
from elmfield._array.typing import Array, Floats
from elmfield.domain.sphere import EARTH, cosine, great_circle
from elmfield.field.field import Field
from elmfield.field.labelled import at_labels
from elmfield.field.means import averaged, over
from elmfield.field.missing import shows_gaps
from elmfield.field.poles import DEGREE, FORMULAE, Cap, Frame
from elmfield.field.reading import own_samples

QUANTITIES = ("value", "gradient", "laplacian", "divergence", "vorticity")
"""What can be asked of a field on the sphere."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Sphere:
    """A field on a sphere; made by :func:`elmfield.sphere`. Answers on the host.

    Parameters
    ----------
    field : Field
        With one axis of latitudes and one of longitudes, in degrees, and perhaps others.
    radius : float
        In metres.
    plane : tuple of int
        Which axes are latitude and longitude.
    caps : tuple of Cap
        Fields over the poles that the samples reach.
    components : tuple of int, or None
        Which channels are the eastward and the northward component of a vector.
    """

    field: Field
    radius: float = EARTH
    plane: tuple[int, int]
    caps: tuple[Cap, ...] = kept(default=(), repr=False)
    components: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"Sphere({self.field!r}, radius={self.radius:g})"

    @property
    def frame(self) -> Frame:
        """Where latitude and longitude are, and what a degree is worth."""
        return Frame(plane=self.plane, radius=self.radius, components=self.components)

    # --- at points -----------------------------------------------------------------------------

    def __call__(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Values at `points`, as the field's; at a pole the same from all longitudes.

        The components of a vector are those of one vector there, told by each meridian's north.
        """
        return self._query("value", points, outside, missing)

    def gradient(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """Northward and eastward derivative per metre, shape (..., 2) or (..., C, 2).

        ``(f_φ / R, f_λ / (R cos φ))``, in the order of the axes. At a pole it is one vector, told
        in the directions that are north and east on the meridian of the point's longitude. (Of a
        vector's components it means little there; ask for divergence and vorticity.)
        """
        return self._query("gradient", points, outside, missing)

    def laplacian(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """``(f_φφ - tan φ f_φ + f_λλ / cos² φ) / R²``, per square metre."""
        return self._query("laplacian", points, outside, missing)

    def divergence(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """``(u_λ / cos φ + v_φ - v tan φ) / R`` of the vector (u eastward, v northward)."""
        return self._query("divergence", points, outside, missing)

    def vorticity(
        self, points: Array, *, outside: str = "raise", missing: str | None = None
    ) -> Array:
        """``(v_λ / cos φ - u_φ + u tan φ) / R``, the vertical component of the curl."""
        return self._query("vorticity", points, outside, missing)

    def _query(self, quantity: str, points: Array, outside: str, missing: str | None) -> Array:
        """A quantity at points: by the field, near a pole by the field that runs on over it."""
        if quantity in ("divergence", "vorticity") and self.components is None:
            raise ValueError(
                f"{quantity} is of a vector; say which channels are its eastward and northward "
                "components: sphere(field, components=(0, 1))."
            )
        x = np.asarray(to_numpy(self.field.numbers_of(points)))
        lead = x.shape[:-1]
        x = x.reshape(-1, x.shape[-1])
        out = np.asarray(FORMULAE[quantity](self.frame, self.field, x, outside, missing))
        if not len(x):
            return out.reshape((*lead, *out.shape[1:]))
        for cap in self.caps:
            out = self._over(cap, quantity, x, out, outside)
        return out.reshape((*lead, *out.shape[1:]))

    def _over(self, cap: Cap, quantity: str, x: Floats, out: Array, outside: str) -> Array:
        """`out` with what a cap says near its pole, blended in where it begins."""
        away = np.abs(cap.pole - x[:, self.plane[0]])
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
        both = {**({} if coords is None else dict(coords)), **coords_by_name}
        call: Any = self if quantity == "value" else getattr(self, quantity)
        names = [self.field.domain.dims[k] for k in sorted(self.plane)]
        return at_labels(
            self.field,
            both,
            quantity,
            lambda points: call(points, outside=outside, missing=missing),
            directions=names,
            units=lambda own: _units(own, quantity),
            is_scalar=quantity in ("divergence", "vorticity"),
        )

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
        distance = xarray.Variable("distance", along, told)
        places = {}
        for k, c in zip(self.plane, at.T):
            name = self.field.domain.dims[k]
            about = self.field.attributes.get("axes", {}).get(name, {}).get("attrs", {})
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
        return self._means(edges, covered, missing)

    def _means(self, edges: Sequence[Any], covered: bool, missing: str | None) -> Any:
        f, d = self.field, len(self.field.shape)
        given = list(edges)
        if len(given) == 1 and is_mapping(given[0]):
            given = [given[0].get(name) for name in f.domain.dims]
        if len(given) != d:
            raise ValueError(f"`means` takes one array of edges per axis, {d}; got {len(given)}.")
        gaps = shows_gaps(f, missing)
        at = [None if e is None else f.edges_to_index(k, e) for k, e in enumerate(given)]
        own = [o.astype(np.float64) for o in own_samples(f.domain)]
        how = over(f, at, own, split=gaps, weights={self.plane[0]: cosine})
        values, part = averaged(f, how, gaps)
        part = np.ones(values.shape) if part is None else np.broadcast_to(part, values.shape)
        pair = [f.channels_back(v) for v in (to_numpy(values), part)]
        return (pair[0], pair[1]) if covered else pair[0]

    def _whole(self) -> list[Any]:
        """Edges of all that the field covers of the sphere; other axes at their samples."""
        edges: list[Any] = [None] * len(self.field.shape)
        for k in self.plane:
            edges[k] = self._ends(k)
        return edges

    def _ends(self, k: int) -> Floats:
        domain = self.field.domain
        ends = np.sort(domain.axes[k].from_index(np.asarray([domain.low[k], domain.high[k]])))
        return np.clip(ends, -90, 90) if k == self.plane[0] else ends

    def mean(self, *, missing: str | None = None) -> Any:
        """Mean over all that the field covers of the sphere, by area.

        A number, or one for each channel and each sample of other axes.
        """
        values = self._means(self._whole(), False, missing)
        return self._squeezed(values)

    def integral(self, *, missing: str | None = None) -> Any:
        """Integral over all that the field covers, in the field's unit times square metres.

        What is missing counts nothing.
        """
        values, part = self._means(self._whole(), True, missing)
        (south, north), (west, east) = (self._ends(k) for k in self.plane)
        area = (math.sin(north * DEGREE) - math.sin(south * DEGREE)) * (east - west) * DEGREE
        values = np.where(part > 0, values, 0) * part * area * self.radius**2
        return self._squeezed(values)

    def _squeezed(self, values: Array) -> Any:
        """Without the two axes that are now one number long."""
        k = self.field.channel_axis
        axes = [j for j in range(values.ndim) if j != k]
        out = np.squeeze(values, axis=tuple(axes[j] for j in self.plane))
        return out[()] if out.ndim == 0 else out


def _units(own: str | None, quantity: str) -> str | None:
    """The unit of a quantity: per metre, or per square metre; metres of a speed cancel."""
    if own is None or quantity == "value":
        return own
    if quantity == "laplacian":
        return f"{own} m-2"
    left = own.split()
    if "m" in left:
        left.remove("m")
        return " ".join(left) or "1"
    return f"{own} m-1"
