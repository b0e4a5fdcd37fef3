"""The two axes that are shown, and the way between pixels of the page and index coordinates.

The page counts in squares: one sample is one square, or more where samples lie closer together on
the other axis. Rows run downwards and columns to the right, so that north is up and east is right.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmfield._array.typing import Floats
from elmfield.domain import Domain

TILE = 256
"""Pixels on each side of a tile."""

FINEST = -6
"""The finest level: 2^-6 squares to a pixel."""

NORTH = {"latitude", "lat", "northing", "projection_y_coordinate"}
UP = {"altitude", "height", "level_height"}
"""Axes that grow upwards on the page, whichever way the array runs; so do degrees_north."""

STRETCH = 16.0
"""Samples are not drawn more oblong than this."""


@dataclass(frozen=True)
class Plane:
    """Which axes are rows and columns, which way they run, and how large a sample is.

    Parameters
    ----------
    axes : tuple of two ints
        Array axes of rows and columns.
    flipped : tuple of two bools
        Whether the page runs against the array.
    squares : tuple of two floats
        Squares to a sample.
    low, high : tuples of two floats
        What is shown, in index coordinates.
    """

    axes: tuple[int, int]
    flipped: tuple[bool, bool]
    squares: tuple[float, float]
    low: tuple[float, float]
    high: tuple[float, float]

    @classmethod
    def of(cls, domain: Domain, about: Mapping[str, Any]) -> "Plane":
        """The last two axes of more than one sample; north up, samples as their steps have it."""
        long = [k for k, a in enumerate(domain.axes) if a.size > 1]
        short = [k for k, a in enumerate(domain.axes) if a.size == 1]
        rows, columns = sorted((short + long)[-2:])
        shown = [domain.axes[k] for k in (rows, columns)]
        notes = [about.get(a.name, {}) for a in shown]
        upward = [_grows_upwards(shown[0].name, notes[0]), False]
        eastward = _is(notes[1], "degrees_east") or shown[1].name in ("longitude", "lon")
        flipped = (
            upward[0] == (shown[0].step > 0) if upward[0] else False,
            eastward and shown[1].step < 0,
        )
        units = [n.get("attrs", {}).get("units") for n in notes]
        ratio = 1.0
        if units[0] is not None and units[0] == units[1] and min(a.size for a in shown) > 1:
            ratio = abs(shown[0].step / shown[1].step)
            ratio = min(max(ratio, 1 / STRETCH), STRETCH)
        if abs(ratio - 1) < 1e-3:
            ratio = 1.0
        return cls(
            axes=(rows, columns),
            flipped=flipped,
            squares=(max(ratio, 1.0), max(1 / ratio, 1.0)),
            low=(domain.low[rows], domain.low[columns]),
            high=(domain.high[rows], domain.high[columns]),
        )

    @property
    def size(self) -> tuple[float, float]:
        """Squares on each side of all that is shown."""
        return tuple(  # type: ignore[return-value]
            (b - a) * s for a, b, s in zip(self.low, self.high, self.squares)
        )

    @property
    def coarsest(self) -> int:
        """The level at which all is one tile."""
        return max(0, math.ceil(math.log2(max(self.size) / TILE) - 1e-9))

    def pixels(self, level: int) -> tuple[int, int]:
        """Pixels on each side at a level."""
        full = [round(n * 2.0**-FINEST) for n in self.size]
        return tuple(math.ceil(n * 2.0 ** (FINEST - level)) for n in full)  # type: ignore[return-value]

    def edges(self, k: int, level: int, first: int, last: int) -> Floats:
        """Index coordinates of the edges of pixels `first` to `last` on side k."""
        at = np.arange(first, last + 1) * 2.0**level / self.squares[k]
        return np.asarray(self.high[k] - at if self.flipped[k] else self.low[k] + at, np.float64)

    def index(self, k: int, page: float) -> float:
        """Index coordinate on side k of a place on the page, in squares."""
        at = page / self.squares[k]
        return self.high[k] - at if self.flipped[k] else self.low[k] + at


def _grows_upwards(name: str, about: Mapping[str, Any]) -> bool:
    attrs = about.get("attrs", {})
    known = NORTH | UP
    return (
        name.lower() in known
        or attrs.get("standard_name") in known
        or _is(about, "degrees_north")
        or attrs.get("positive") == "up"
    )


def _is(about: Mapping[str, Any], units: str) -> bool:
    return bool(about.get("attrs", {}).get("units") == units)
