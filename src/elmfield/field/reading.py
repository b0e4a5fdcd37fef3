"""Coordinates as callers give them: points, columns of a grid, corners of a box; dates too.

Words of the caller enter; numbers in the axes' units, or index coordinates, leave. What stands
there it does not know; what dates and names mean is written in `labels`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from elmfield._array.backend import computed, device, is_array, move, namespace, to_numpy
from elmfield._array.checks import is_mapping
from elmfield._array.memory import runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.domain import Domain
from elmfield.errors import OutsideDomainError
from elmfield.field.labels import coordinates_in
from elmfield.field.scattered import SHORT
from elmfield.field.stretches import Places, changed, counted


def own_samples(domain: Domain) -> list[Integers]:
    """On each axis, the samples inside the domain."""
    return [
        np.arange(math.ceil(a - 1e-9), math.floor(b + 1e-9) + 1)
        for a, b in zip(domain.low, domain.high)
    ]


def all_samples(domain: Domain) -> list[Places]:
    """The same as index coordinates; of long axes, made where they are looked at."""
    ends = [(math.ceil(a - 1e-9), math.floor(b + 1e-9)) for a, b in zip(domain.low, domain.high)]
    return [counted(a, b + 1 - a) for a, b in ends]


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads coordinates on the axes of a box.

    Parameters
    ----------
    domain : Domain
        The box, its axes and their units.
    about : mapping
        What is known of the axes, by name: ``axes`` of a field's `attributes`.
    """

    domain: Domain
    about: Mapping[str, Any]

    def numbers(self, k: int, given: Any) -> Floats:
        """Coordinates on axis k as a caller gives them, dates too, as the numbers it counts in."""
        name = self.domain.dims[k]
        try:
            return coordinates_in(to_numpy(given), self.about.get(name, {}))
        except (TypeError, ValueError) as error:
            raise type(error)(f"on axis {name!r}, {error}") from error

    @contextmanager
    def telling_epochs(self) -> Iterator[None]:
        """Messages that name an axis of dates say what its numbers count."""
        try:
            yield
        except ValueError as error:
            for name, about in self.about.items():
                epoch = about.get("epoch")
                if epoch is not None and f"axis {name!r}" in str(error):
                    began = epoch if about.get("calendar") else epoch.astype("datetime64[s]")
                    text = f"{error} Axis {name!r} counts seconds from {began}."
                    raise type(error)(text) from error
            raise

    # --- points --------------------------------------------------------------------------------

    def points(self, points: Array, like: Array) -> Array:
        """`points` in float64, in the library and on the device of `like`."""
        points = computed(points)
        if not is_array(points):
            points = np.asarray(points)
        if isinstance(points, np.ndarray):
            points = self._without_dates(points)
            if points.dtype.kind not in "fiu":
                raise ValueError(f"`points` must hold real numbers; got dtype {points.dtype}.")
        elif namespace(points) is not namespace(like) or device(points) != device(like):
            raise ValueError(
                f"`points` must live where the field lives; got {type(points).__name__} on "
                f"{device(points)} for a field of {type(like).__name__} on {device(like)}. "
                "Move one of them."
            )
        d = len(self.domain.shape)
        if points.ndim == 0 or points.shape[-1] != d:
            hint = " Add a trailing axis: points[..., None]." if d == 1 else ""
            raise ValueError(
                f"`points` must have shape (..., {d}), one coordinate per axis; got shape "
                f"{tuple(points.shape)}.{hint}"
            )
        return move(points, like, namespace(like).float64)

    def _without_dates(self, points: Array) -> Array:
        """`points` in numbers: dates, texts and mixed rows column by column, if axes have dates."""
        about = [self.about.get(n, {}) for n in self.domain.dims]
        dated = ["epoch" in a or bool(a.get("duration")) for a in about]
        fits = points.ndim > 0 and points.shape[-1] == len(dated)
        if points.dtype.kind not in "MmUSO" or not any(dated) or not fits:
            return points
        columns = [points[..., k] for k in range(len(dated))]
        if points.dtype.kind in "US":  # a list of a date and a number has become texts
            try:
                columns = [c if own else c.astype(np.float64) for c, own in zip(columns, dated)]
            except ValueError as error:
                raise ValueError(
                    f"`points` must hold real numbers, and dates on axes of dates; {error}."
                ) from error
        return np.stack([self.numbers(k, c) for k, c in enumerate(columns)], axis=-1)

    def to_index(
        self, x: Array, outside: str, derivatives: bool
    ) -> tuple[Array, Array, Array, Array | None]:
        """What the domain makes of the points, in short parts; perhaps without its derivatives."""
        xp = namespace(x)
        spans = runs(x.shape[0], SHORT)
        with self.telling_epochs():
            found = self.domain.inside(x)
            if found is not None:
                return (*found, None)
            if len(spans) == 1 or not isinstance(x, np.ndarray):
                return self.domain.to_index(x, outside)
            index, more, beyond = np.empty_like(x), [], []
            try:
                for i, j in spans:
                    index[i:j], *both, wrong = self.domain.to_index(x[i:j, :], outside)
                    more.append(both if derivatives else [x[:0, :]] * 2)
                    beyond.append(np.zeros(j - i, bool) if wrong is None else wrong)
            except OutsideDomainError:
                return self.domain.to_index(x, outside)  # to say how many there are in all
        slope, bend = (xp.concat(parts, axis=0) for parts in zip(*more))
        marks = xp.concat(beyond)
        return index, slope, bend, marks if marks.any() else None

    # --- grids and boxes -----------------------------------------------------------------------

    def column(self, k: int, given: Any, outside: str) -> tuple[Floats, Array]:
        """Index coordinates on axis k of what a caller gives, and which of them lie outside."""
        c = np.atleast_1d(self.numbers(k, given))
        one, domain = slice(k, k + 1), self.domain
        if c.ndim != 1:
            raise ValueError(
                f"a grid needs one line of coordinates for axis {domain.dims[k]!r}; got an array "
                f"of shape {c.shape}."
            )
        only = replace(domain, axes=domain.axes[one], low=domain.low[one], high=domain.high[one])
        with self.telling_epochs():
            index, _, _, wrong = only.to_index(c[:, None], outside)
        return index[:, 0], np.zeros(len(c), bool) if wrong is None else wrong

    def by_axis(self, coords: tuple[Any, ...]) -> list[Any]:
        """One array of coordinates per axis: as they are, or from one mapping by dim."""
        if len(coords) == 1 and is_mapping(coords[0]):
            return list(self.named(coords[0])[0])
        return list(coords)

    def window(self, window: Mapping[str, tuple[Any, Any]]) -> dict[str, tuple[float, float]]:
        """Ends of a window, by dim, as index coordinates; on periodic axes in any turn."""
        dims = self.domain.dims
        unknown = sorted(set(map(str, window)) - set(dims))
        if unknown:
            raise ValueError(f"`window` names {unknown}, but the axes are {list(dims)}.")
        found = {}
        for name, ends in window.items():
            if np.shape(ends) != (2,):
                raise ValueError(
                    f"`window` must give two ends for each axis; got {ends!r} for {name!r}."
                )
            k = dims.index(name)
            with self.telling_epochs():
                found[name] = self._ends(k, *(float(self.numbers(k, c)) for c in ends))
        return found

    def _ends(self, k: int, low: float, high: float) -> tuple[float, float]:
        """Two ends on axis k as index coordinates; on a periodic axis also round its seam."""
        axis, told = self.domain.axes[k], f"got {low:g} to {high:g}."
        if axis.period is not None and -math.inf < high < low < math.inf:
            high += axis.period * (math.floor((low - high) / axis.period) + 1)
        if axis.period is not None and high - low > axis.period * (1 + 1e-9):
            raise ValueError(
                f"`window` must span at most one period, {axis.period:g}, of axis {axis.name!r}; "
                f"{told}"
            )
        if not (low < high and math.isfinite(low) and math.isfinite(high)):
            raise ValueError(
                f"`window` on axis {axis.name!r}: the first end must lie below the second; {told}"
            )
        a, b = axis.span(low, high)
        first, last = self.domain.low[k], self.domain.high[k]
        if axis.period is None and (a < first - 1e-6 or b > last + 1e-6):
            own = axis.from_index(np.asarray([first, last]))
            raise ValueError(
                f"`window` on axis {axis.name!r} reaches beyond the domain, {min(own):g} to "
                f"{max(own):g}; {told}"
            )
        return a, b

    def edges(self, k: int, given: Any) -> Floats:
        """Edges on axis k, in its unit, as index coordinates; on a periodic axis in any turn."""
        with self.telling_epochs():
            return self._edges(k, given)

    def _edges(self, k: int, given: Any) -> Floats:
        axis, name = self.domain.axes[k], self.domain.dims[k]
        c = np.asarray(self.numbers(k, given), np.float64)
        told = np.array2string(c, threshold=6)
        if c.ndim != 1 or len(c) < 2 or not np.isfinite(c).all():
            raise ValueError(
                f"edges on axis {name!r} must be at least two numbers; got {told}. Give one array "
                "of edges for each axis."
            )
        steps = np.diff(c)
        if not (np.all(steps > 0) or (axis.step < 0 and np.all(steps < 0))):
            raise ValueError(
                f"edges on axis {name!r} must ascend (or descend where the axis does); got {told}. "
                "Sort them and drop repeated ones."
            )
        i, first, last = axis.along(c), self.domain.low[k], self.domain.high[k]
        if axis.period is not None:
            if abs(c[-1] - c[0]) > axis.period * (1 + 1e-9):
                raise ValueError(
                    f"edges on axis {name!r} must span at most one period, {axis.period:g}; got "
                    f"{c.min():g} to {c.max():g}."
                )
            i = i - math.floor((i.min() - first + 1e-9) / axis.size) * axis.size
            if last - first > axis.size * (1 - 1e-9):  # not cropped: the seam is no border
                last = math.inf
        slack = 1e-9 * axis.size
        if i.min() < first - slack or i.max() > last + slack:
            own = axis.from_index(np.asarray([first, self.domain.high[k]]))
            raise ValueError(
                f"edges on axis {name!r} leave the domain, which covers {min(own):g} to "
                f"{max(own):g}; got {c.min():g} to {c.max():g}."
            )
        return np.clip(i, first, last)

    def in_turn(self, x: Sequence[Places]) -> list[Places]:
        """Index coordinates on each axis; on periodic ones in the turn that is the box's own."""
        return [changed(c, partial(self._turned, k)) for k, c in enumerate(x)]

    def _turned(self, k: int, c: Floats) -> Floats:
        axis, low, high = self.domain.axes[k], self.domain.low[k], self.domain.high[k]
        if axis.period is not None:
            c = c - np.floor((c + 0.5) / axis.size) * axis.size
            c = np.where((c < low) & (c + axis.size <= high + 1e-9 * axis.size), c + axis.size, c)
        return np.asarray(np.clip(c, low, high))

    def named(
        self, coords: Mapping[str, Array]
    ) -> tuple[list[Floats], list[Floats | None], list[str]]:
        """Coordinates of each axis, by name or else at its samples.

        And those to show, None for an axis that only counts; and names of axes whose positions are
        not all of the samples' own.
        """
        unknown = sorted(set(map(str, coords)) - set(self.domain.dims))
        if unknown:
            raise ValueError(
                f"`coords` names {unknown}, but the axes are {list(self.domain.dims)}."
            )
        at: list[Floats] = []
        shown: list[Floats | None] = []
        moved: list[str] = []
        for axis, own in zip(self.domain.axes, own_samples(self.domain)):
            if axis.name in coords:
                given = np.asarray(coords[axis.name])
                where = np.atleast_1d(coordinates_in(given, self.about.get(axis.name, {})))
                moved.append(axis.name)
                at.append(where)
                shown.append(where)
            else:  # of a cropped field, the samples inside the box
                listed = axis.coords
                c = axis.from_index(own.astype(float)) if listed is None else listed[own]
                if len(own) < axis.size:
                    moved.append(axis.name)
                at.append(c)
                shown.append(None if listed is None and len(own) == axis.size else c)
        return at, shown, moved

    def corners(self, low: Sequence[Any], high: Sequence[Any]) -> tuple[list[float], list[float]]:
        """Two corners as numbers, in the axes' own units."""
        d = len(self.domain.shape)
        if np.shape(low) != (d,) or np.shape(high) != (d,):
            raise ValueError(
                f"`low` and `high` must be corners with one coordinate per axis, {d}; got "
                f"{low!r} and {high!r}."
            )
        return tuple([float(self.numbers(k, c[k])) for k in range(d)] for c in (low, high))  # type: ignore[return-value]
