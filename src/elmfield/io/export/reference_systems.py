"""Reference systems: which are the same, and the way from one to another.

Through pyproj. Where ecCodes was loaded before it (xarray does so when it looks for who can open a
file), pyproj finds no database and brings the process down when it ends; rasterio has a library of
its own within, and is asked instead.
"""

import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.io.files import need

EARTH = "EPSG:4326"
"""Latitudes and longitudes in degrees."""

LARGEST_MAP_METRES = 1e8
"""A map of the Earth is smaller; where one is not, its projection has no end."""

Bounds = tuple[float, float, float, float]
"""West, south, east, north."""


@dataclass(frozen=True)
class Transformation:
    """From one reference system to another; x, or longitude, comes first.

    Parameters
    ----------
    start, end : str
        The systems, in any words that PROJ knows: "EPSG:3035", well-known text.
    """

    start: str
    end: str

    def __call__(self, x: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Coordinates of points; NaN for those that the other system cannot show."""
        if _is_safe():
            found = self._by_pyproj().transform(x, y)
        else:
            flat = self._by_rasterio(np.stack([np.ravel(x), np.ravel(y)]))
            found = tuple(np.reshape(c, np.shape(x)) for c in flat)
        a, b = (np.where(np.isfinite(c), c, np.nan) for c in found)
        return a, b

    def bounds(self, west: float, south: float, east: float, north: float) -> Bounds:
        """A box around what a box becomes."""
        box = west, south, east, north
        if _is_safe():
            found = self._by_pyproj().transform_bounds(*box, densify_pts=81)
        else:
            found = self._rasterio().transform_bounds(*self._systems(), *box, densify_pts=81)
        a, b, c, d = map(float, found)
        return a, b, c, d

    def _systems(self) -> tuple[Any, Any]:
        return _parse(self.start), _parse(self.end)

    def _rasterio(self) -> ModuleType:
        return need("rasterio.warp", "geo", f"a grid in {self.end[:40]} while ecCodes is loaded")

    def _by_rasterio(self, xy: Floats) -> Floats:
        """Points (2, n) by rasterio, which refuses all where one cannot be shown: by halves."""
        good = np.isfinite(xy).all(axis=0)
        found = np.full(xy.shape, np.nan)
        try:
            found[:, good] = self._rasterio().transform(*self._systems(), *xy[:, good])[:2]
        except Exception:  # of GDAL, whatever it is
            n = xy.shape[1]
            if n > 1:
                halves = [self._by_rasterio(h) for h in (xy[:, : n // 2], xy[:, n // 2 :])]
                found = np.concatenate(halves, axis=1)
        return found

    def _by_pyproj(self) -> Any:
        return _pyproj(self.end).Transformer.from_crs(*self._systems(), always_xy=True)


def from_cf(attrs: Mapping[str, Any]) -> str | None:
    """A system as CF's attributes of a grid mapping describe it; None where pyproj cannot say."""
    if find_spec("pyproj") is None or not _is_safe():
        return None
    return str(_pyproj("a grid mapping").CRS.from_cf(dict(attrs)).to_wkt())


def whole_bounds(start: str, end: str, box: Bounds) -> Bounds | None:
    """A box around what latitudes and longitudes all around the Earth become in another system.

    Those that it can show: places that come back where they were. Where a projection has no end, as
    at the pole that it does not show, within the system's area of use; None where it has none.
    """
    _, south, _, north = box
    there, back = Transformation(start, end), Transformation(end, start)
    middle = _middle_longitude(end)
    lon, lat = np.meshgrid(
        middle + np.linspace(-180 + 1e-9, 180 - 1e-9, 721), np.linspace(south, north, 361)
    )
    used = _area_of_use(end)
    for inside in (None, used):
        shown = np.ones(lon.shape, bool)
        if inside is not None:
            w, s, e, n = inside
            shown = (
                (lat >= s) & (lat <= n) & ((lon - w) % 360 <= (e - w) % 360 + 360 * (e - w >= 360))
            )
        x, y = there(lon[shown], lat[shown])
        again, same = back(x, y)
        off = np.hypot(
            np.cos(np.deg2rad(lat[shown])) * _turned(again - lon[shown]), same - lat[shown]
        )
        good = np.isfinite(off) & (off < 1e-4)
        found = x[good], y[good]
        if good.any() and max(float(np.abs(c).max()) for c in found) < LARGEST_MAP_METRES:
            return found[0].min(), found[1].min(), found[0].max(), found[1].max()
        if inside is None and used is None:
            break
    return None


def _turned(degrees: Floats) -> Floats:
    """Differences of longitudes, between -180 and 180."""
    return (degrees + 180) % 360 - 180


def _middle_longitude(crs: str) -> float:
    """The longitude in the middle of a projection, which its ends are opposite to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what such a text leaves out
        told = _parse(crs).to_dict()
    return float(told.get("lon_0", 0.0)) if isinstance(told, Mapping) else 0.0


def _area_of_use(crs: str) -> Bounds | None:
    """Where a system is meant to be used: longitudes and latitudes; None if that is not known."""
    area = getattr(_parse(crs), "area_of_use", None)
    return None if area is None else (area.west, area.south, area.east, area.north)


def same_system(one: str, other: str) -> bool:
    """Whether two systems are one."""
    return bool(_parse(one) == _parse(other))


def as_wkt(crs: str) -> str:
    """A system as well-known text."""
    return str(_parse(crs).to_wkt())


def _is_safe() -> bool:
    """Whether pyproj may be used: not after ecCodes."""
    loaded: Any = sys.modules.get("pyproj", False)
    return "gribapi" not in sys.modules or loaded is None or bool(loaded and _works(loaded))


def _works(library: ModuleType) -> bool:
    """Whether a library finds the database of reference systems."""
    try:
        library.CRS.from_user_input(EARTH)
    except Exception:  # each library has its own
        return False
    return True


def _pyproj(crs: str) -> ModuleType:
    return need("pyproj", "geo", f"a grid in another reference system, {crs[:40]},")


def _parse(crs: str) -> Any:
    """A system that PROJ knows; ValueError for others."""
    library = _pyproj(crs) if _is_safe() else need("rasterio.crs", "geo", "reference systems")
    try:
        return library.CRS.from_user_input(crs)
    except Exception as error:
        if not _works(library):
            raise ValueError(
                f"no reference system can be looked up: PROJ says {str(error)!r}. If ecCodes is "
                "installed (extra grib), import pyproj before all else; else look at PROJ_DATA."
            ) from error
        raise ValueError(
            f"`crs` must be a reference system, for instance EPSG:3035; got {crs[:60]!r}. {error}"
        ) from error
