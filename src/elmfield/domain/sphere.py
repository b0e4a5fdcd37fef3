"""The sphere: which axes are latitude and longitude, great circles, areas.

Names, attributes and degrees enter. What is fitted on a sphere it does not know.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from elmfield._array.typing import Floats

EARTH = 6.371e6
"""Mean radius of the Earth, in metres."""

NORTH = ("degrees_north", "degree_north", "degrees_n", "degree_n", "degreen", "degreesn")
EAST = ("degrees_east", "degree_east", "degrees_e", "degree_e", "degreee", "degreese")

LATITUDE = r"(nav_|[xtuv])?lat(itude)?s?(_(rho|u|v|psi))?|gphi[tuvf]"
LONGITUDE = r"(nav_|[xtuv])?long?(itude)?s?(_(rho|u|v|psi))?|glam[tuvf]"
"""What models call them: also WRF (XLAT), POP (TLAT), ROMS (lat_rho), NEMO (gphit)."""


def is_latitude(name: str, attrs: Mapping[str, object]) -> bool:
    """Whether an axis is a latitude, by its name or by what it says about itself."""
    return _is_one(name, attrs, NORTH, "latitude", LATITUDE)


def is_longitude(name: str, attrs: Mapping[str, object]) -> bool:
    """Whether an axis is a longitude."""
    return _is_one(name, attrs, EAST, "longitude", LONGITUDE)


def _is_one(
    name: str, attrs: Mapping[str, object], units: Sequence[str], standard: str, names: str
) -> bool:
    by_units = str(attrs.get("units", "")).lower() in units
    is_called = re.fullmatch(names, name, re.IGNORECASE) is not None
    return by_units or attrs.get("standard_name") == standard or is_called


def horizontal(
    dims: Sequence[str], attrs: Mapping[str, Mapping[str, object]]
) -> tuple[int, int] | None:
    """Numbers of the axes that are latitude and longitude; None if there are no such two."""
    told = [(name, attrs.get(name, {})) for name in dims]
    lat = [k for k, t in enumerate(told) if is_latitude(*t)]
    lon = [k for k, t in enumerate(told) if is_longitude(*t)]
    return (lat[0], lon[0]) if len(lat) == len(lon) == 1 else None


def cosine(latitude: Floats) -> Floats:
    """What a degree of longitude counts for; 0 at the poles, and beyond them."""
    return np.maximum(np.cos(np.deg2rad(latitude)), 0.0)


def widest_gap(longitude: Floats) -> tuple[float, float]:
    """Where longitudes go on after the widest gap between them around the circle; its width."""
    c = np.sort(longitude % 360)
    gaps = np.diff(c, append=c[0] + 360)
    j = int(np.argmax(gaps))
    return float(c[(j + 1) % len(c)]), float(gaps[j])


def unit_vectors(latitude: Floats | float, longitude: Floats | float) -> Floats:
    """Points on the unit sphere, (..., 3)."""
    f, l = np.deg2rad(latitude), np.deg2rad(longitude)
    return np.stack([np.cos(f) * np.cos(l), np.cos(f) * np.sin(l), np.sin(f)], axis=-1)


def polygon_areas(corners: Floats, *, is_map: bool = False) -> Floats:
    """Areas (...) of polygons (..., v, 2): on the unit sphere between great circles, or flat.

    Corners are latitude and longitude in degrees, or y and x; or vectors (..., v, 3), on the sphere
    or of y, x and 1. Repeated ones count nothing.
    """
    if is_map:
        p = np.asarray(corners - corners[..., :1, :])
        y, x = p[..., 0], p[..., 1]
        twice = (x[..., :-1] * y[..., 1:] - x[..., 1:] * y[..., :-1]).sum(axis=-1)
        return np.asarray(np.abs(twice) / 2)
    p = corners if corners.shape[-1] == 3 else unit_vectors(corners[..., 0], corners[..., 1])
    a, b, c = p[..., :1, :], p[..., 1:-1, :], p[..., 2:, :]
    # The solid angle of a triangle (van Oosterom and Strackee 1983).
    volume = (np.cross(b, c) * a).sum(axis=-1)
    pairs = ((u * v).sum(axis=-1) for u, v in ((a, b), (b, c), (c, a)))
    return np.asarray(np.abs(2 * np.arctan2(volume, 1 + sum(pairs)).sum(axis=-1)))


def great_circle(
    start: Sequence[float], end: Sequence[float], n: int, radius: float = EARTH
) -> tuple[Floats, Floats]:
    """Points (n, 2), latitudes and longitudes, evenly along a great circle; distances (n,).

    The longitudes run on from that of the start, without jumps.
    """
    a, b = (unit_vectors(*map(float, p)) for p in (start, end))
    cross = np.linalg.norm(np.cross(a, b))
    angle = float(np.arctan2(cross, a @ b))
    if cross < 1e-12 and a @ b < 0:
        told = "start and end must not be opposite points of the sphere"
        raise ValueError(f"{told}; got {tuple(start)} and {tuple(end)}. Go by a third point.")
    t = np.linspace(0, 1, n)
    parts = np.stack([1 - t, t], axis=-1)
    line = (parts if angle < 1e-12 else np.sin(parts * angle)) @ np.stack([a, b])
    lat = np.rad2deg(np.arctan2(line[:, 2], np.hypot(line[:, 0], line[:, 1])))
    lon = np.rad2deg(np.unwrap(np.arctan2(line[:, 1], line[:, 0])))
    lon = lon + 360 * np.round((float(start[1]) - lon[0]) / 360)
    lat[0], lon[0] = float(start[0]), float(start[1])
    return np.stack([lat, lon], axis=-1), t * angle * radius
