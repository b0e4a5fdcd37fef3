"""Fields on the Earth, over the poles.

Around each pole that a field's samples reach, rows on this side and, half a turn further, those on
the other make one array without a border at the pole, which is fitted as the field was.
`field.adapters.sphere` evaluates them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.checks import entries, is_integer, positive
from elmfield._array.typing import Array
from elmfield.domain.sphere import EARTH
from elmfield.field import Field
from elmfield.field.adapters.sphere_field import Cap, Sphere, SphereFrame
from elmfield.fit.encoder import encoder
from elmfield.settings import Smooth

CAP_ROWS = 24
"""Rows of samples on each side of a pole that a cap is fitted to."""

INNER_ROWS, OUTER_ROWS = 10, 16
"""Rows from the pole within which a cap counts alone, and beyond which not at all."""


def sphere(
    field: Field,
    radius: float = EARTH,
    *,
    components: Sequence[int | str] | None = None,
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
        raise TypeError(
            f"`field` must be a Field; got a {type(field).__name__}. Fit one first: "
            "sphere(fit(values))."
        )
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
    frame = SphereFrame(plane=plane, radius=radius, components=pair)
    caps = (_cap(field, frame, pole) for pole in (90.0, -90.0))
    return Sphere(field=field, frame=frame, caps=tuple(cap for cap in caps if cap is not None))


def _components(field: Field, wanted: Sequence[int | str] | None) -> tuple[int, int] | None:
    """Numbers of the two channels that are a vector; None without any."""
    n = 0 if field.model.channel_axis is None else field.model.n_channels
    if wanted is None:
        return (0, 1) if n == 2 else None
    labels = [str(v) for v in field.labels.channels.labels]
    given = entries(wanted) or ()
    found = [labels.index(c) if isinstance(c, str) and c in labels else c for c in given]
    if len(found) != 2 or not all(is_integer(k) and 0 <= k < n for k in found):
        raise ValueError(
            f"`components` must be two of the field's {field.model.n_channels} channels, eastward "
            f"and northward, by number or by name {labels}; got {wanted!r}."
        )
    return int(found[0]), int(found[1])


def _cap(field: Field, frame: SphereFrame, pole: float) -> Cap | None:
    """The field around a pole; None if its samples do not reach it, or not all around it."""
    lat, lon = frame.plane
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
    values, coords[lat] = _both_sides(field, frame, coords, pole)
    settings = field.settings or Smooth()
    if isinstance(settings, Smooth):
        settings = replace(settings, target=None, denoise=False)
    elif not settings.is_linear:
        settings = Smooth()
    names, d = list(field.domain.dims), len(field.shape)
    periodic = {a.name: a.period for a in field.domain.axes if a.period is not None}
    encode = encoder(
        values.shape, settings, channel_axis=d, dims=names, coords=coords, periodic=periodic
    )
    made = encode(values)
    made = Field(replace(made.model, channel_axis=field.model.channel_axis))
    inner, outer = (min(n, len(here) - 2) * step for n in (INNER_ROWS, OUTER_ROWS))
    return Cap(field=made, pole=pole, inner=inner * 0.999, outer=outer, step=step, frame=frame)


def _both_sides(
    field: Field, frame: SphereFrame, at: list[Array], pole: float
) -> tuple[Array, Array]:
    """Samples on this side of a pole and beyond it, channels last; and their latitudes."""
    (lat, lon), over = frame.plane, list(at)
    rows = at[lat]
    over[lat], over[lon] = rows[np.abs(rows - pole) > 1e-9], at[lon] + 180
    sides, k = [], field.model.channel_axis
    for places in (at, over):
        v = np.array(to_numpy(field.grid(*places, missing="fill")), np.float64)
        sides.append(v[..., None] if k is None else np.moveaxis(v, k, -1))
    if frame.components is not None:  # seen from the other side, north is south, east is west
        sides[1][..., list(frame.components)] *= -1
    latitudes = np.concatenate([rows, 2 * pole - over[lat]])
    order = np.argsort(latitudes)
    both = np.take(np.concatenate(sides, axis=lat), order, axis=lat)
    return both, latitudes[order]
