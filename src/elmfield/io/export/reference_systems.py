"""Reference systems: which are the same, and the way from one to another.

Through pyproj. Where ecCodes was loaded before it (xarray does so when it looks for who can open a
file), pyproj finds no database and brings the process down when it ends; rasterio has a library of
its own within, and is asked instead.
"""

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.io.files import need

EARTH = "EPSG:4326"
"""Latitudes and longitudes in degrees."""

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
            flat = self._rasterio().transform(*self._systems(), x.ravel(), y.ravel())
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

    def _by_pyproj(self) -> Any:
        return _pyproj(self.end).Transformer.from_crs(*self._systems(), always_xy=True)


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
