"""Reference systems: which are the same, and the way from one to another.

Through pyproj. Where ecCodes was loaded before it (xarray does so when it looks for who can open a
file), pyproj finds no database and brings the process down; rasterio has the same library within,
and is asked instead.
"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.io.formats.registry import need

Bounds = tuple[float, float, float, float]
"""West, south, east, north."""


@dataclass(frozen=True)
class Way:
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
            found = self._transformer().transform(x, y)
        else:
            warp = need("rasterio.warp", "geo", f"a grid in {self.end[:40]} beside ecCodes")
            flat = warp.transform(_known(self.start), _known(self.end), x.ravel(), y.ravel())
            found = tuple(np.reshape(c, np.shape(x)) for c in flat)
        a, b = (np.where(np.isfinite(c), c, np.nan) for c in found)
        return a, b

    def bounds(self, west: float, south: float, east: float, north: float) -> Bounds:
        """A box around what a box becomes."""
        box = west, south, east, north
        if _is_safe():
            found = self._transformer().transform_bounds(*box, densify_pts=81)
        else:
            warp = need("rasterio.warp", "geo", f"a grid in {self.end[:40]} beside ecCodes")
            systems = _known(self.start), _known(self.end)
            found = warp.transform_bounds(*systems, *box, densify_pts=81)
        a, b, c, d = map(float, found)
        return a, b, c, d

    def _transformer(self) -> Any:
        pyproj = _pyproj(self.end)
        return pyproj.Transformer.from_crs(_known(self.start), _known(self.end), always_xy=True)


def same(one: str, other: str) -> bool:
    """Whether two systems are one."""
    return bool(_known(one) == _known(other))


def text_of(crs: str) -> str:
    """A system as well-known text."""
    return str(_known(crs).to_wkt())


def _is_safe() -> bool:
    """Whether pyproj may be used: loaded already, or not after ecCodes."""
    return "pyproj" in sys.modules or "gribapi" not in sys.modules


def _pyproj(crs: str) -> Any:
    return need("pyproj", "geo", f"a grid in another reference system, {crs[:40]},")


def _known(crs: str) -> Any:
    """A system that PROJ knows; ValueError for others."""
    library = _pyproj(crs) if _is_safe() else need("rasterio.crs", "geo", "reference systems")
    try:
        return library.CRS.from_user_input(crs)
    except Exception as error:  # each library has its own
        raise ValueError(
            f"`crs` must be a reference system, for instance EPSG:3035; got {crs[:60]!r}. {error}"
        ) from error
