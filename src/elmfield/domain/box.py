"""The box Ω: its axes, points and windows in their units, and the way to index coordinates.

Everything else in the package counts in samples; see :mod:`elmfield.domain.axis`.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

import numpy as np

from elmfield._array.backend import namespace
from elmfield._array.checks import choice, entries, is_integer, is_mapping, is_number, wrong
from elmfield._array.typing import Array, Floats
from elmfield.domain.axis import Axis, Spacing, coordinate_error
from elmfield.errors import OutsideDomainError

Periodic = str | int | Iterable[str | int] | Mapping[Any, float | None] | Array
"""What ``periodic=`` may be: see :func:`periods_of`."""

OUTSIDE = ("raise", "nearest", "nan")
"""What can be done with points outside the domain."""


@dataclass(frozen=True, kw_only=True)
class Domain:
    """The box Ω on which a field is defined.

    Parameters
    ----------
    axes : tuple of Axis
        One per array axis, in array order.
    low, high : tuples of float
        The box in index coordinates.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.fit(np.eye(8), dims=("y", "x")).domain.dims
    ('y', 'x')
    """

    axes: tuple[Axis, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @classmethod
    def of(cls, axes: Sequence[Axis]) -> "Domain":
        """The box of all the samples: each axis from -1/2 to n - 1/2."""
        ends = tuple(a.size - 0.5 for a in axes)
        return cls(axes=tuple(axes), low=(-0.5,) * len(ends), high=ends)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of samples on each axis."""
        return tuple(a.size for a in self.axes)

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the axes."""
        return tuple(a.name for a in self.axes)

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Whether each axis repeats."""
        return tuple(a.period is not None for a in self.axes)

    @property
    def spacings(self) -> tuple[Spacing | None, ...]:
        """Where the samples of each axis lie; None where they are evenly spaced."""
        return tuple(a.spacing for a in self.axes)

    @property
    def per_unit(self) -> tuple[float, ...]:
        """Steps per unit of each axis's coordinate: derivatives of functions are by steps."""
        return tuple(1 / a.step for a in self.axes)

    def ends(self, k: int) -> Floats:
        """Where the box begins and ends on axis k, in its unit, in the order of its samples."""
        return self.axes[k].from_index(np.asarray([self.low[k], self.high[k]]))

    def goes_round(self, k: int) -> bool:
        """Whether axis k repeats, and all of it is in the box."""
        n = self.axes[k].size
        return self.axes[k].period is not None and self.high[k] - self.low[k] > n * (1 - 1e-9)

    def to_index(self, points: Array, outside: str) -> tuple[Array, Array | None]:
        """Index coordinates, and what lies outside.

        Parameters
        ----------
        points : array, shape (n, d)
            Coordinates in the axes' own units.
        outside : {"raise", "nearest", "nan"}
            What to do with points outside the box: refuse, move them to its border, or mark them.
            A coordinate that is NaN is refused or marked.

        Returns
        -------
        index : array, shape (n, d)
            Index coordinates.
        beyond : array of bool, shape (n,), or None
            The points to answer with NaN.
        """
        xp = namespace(points)
        columns, beyond = [], None
        for k, axis in enumerate(self.axes):
            i, wrong = self.settle(k, axis.to_index(points[:, k]), outside)
            if wrong is not None and bool(xp.any(wrong)):
                if outside == "raise":
                    some = points[:, k][wrong]
                    told = "points must lie inside the domain; axis {axis!r} covers [{}, {}] and "
                    told += f"{some.shape[0]} point(s) lie outside, the first at {{}}. Pass "
                    told += "outside='nearest' or outside='nan' to allow them."
                    raise self._refusal(k, told, float(some[0]), kind=OutsideDomainError)
                beyond = wrong if beyond is None else beyond | wrong
            columns.append(i)
        return xp.stack(columns, axis=-1), beyond

    def settle(self, k: int, i: Array, outside: str) -> tuple[Array, Array | None]:
        """Index coordinates on axis k, (n,), moved into the box; and which of them lie outside it.

        None if none does. With "nearest" only NaN lies outside. Periodic axes are taken to the
        box's own turn.
        """
        xp, axis, low, high = namespace(i), self.axes[k], self.low[k], self.high[k]
        if axis.period is not None:
            i = xp.where(xp.isfinite(i), i, xp.nan)  # what is infinitely far is nowhere
            i = i - xp.floor((i + 0.5) / axis.size) * axis.size
            # The end of the axis is also its beginning; a crop may hold only one of them.
            again = i + axis.size
            i = xp.where((i < low) & (again <= high + 1e-9 * axis.size), again, i)
        if bool(xp.all((i >= low) & (i <= high))):
            return i, None
        # A rounding error past the border is not a mistake of the caller's.
        slack = 1e-9 * (high - low)
        wrong = ~((i >= low - slack) & (i <= high + slack))
        if choice("outside", outside, OUTSIDE) == "nearest":  # nothing is nearest to NaN
            wrong = xp.isnan(i)
        return xp.clip(xp.where(xp.isnan(i), xp.full_like(i, low), i), low, high), wrong

    def _refusal(self, k: int, text: str, *at: float, **options: Any) -> ValueError:
        return coordinate_error(self.dims[k], text, *sorted(self.ends(k)), *at, **options)

    def span(
        self, low: Sequence[float], high: Sequence[float]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Two corners, in the axes' own units, as index coordinates.

        On a periodic axis the box may lie anywhere and be as long as one period; it begins inside
        the domain then, and may end beyond it.
        """
        lows, highs = [], []
        box = (
            "`low` and `high` must span a box inside the domain; axis {axis!r} covers [{}, {}], "
            "got {} to {}."
        )
        for k, axis in enumerate(self.axes):
            if not (float(low[k]) < float(high[k])) or not np.isfinite([low[k], high[k]]).all():
                raise self._refusal(k, box, low[k], high[k])
            a, b = axis.span(float(low[k]), float(high[k]))
            first, last = self.low[k], self.high[k]
            if axis.period is not None:
                if b - a > axis.size * (1 + 1e-9):
                    told = "`low` and `high` must span at most one period, {period} on axis "
                    told += "{axis!r}; got {} to {}."
                    raise coordinate_error(axis.name, told, low[k], high[k], period=axis.period)
                turns = math.floor((a - first + 1e-9) / axis.size) * axis.size
                a, b = a - turns, b - turns
                if last - first > axis.size * (1 - 1e-9):  # not cropped: the seam is no border
                    last = math.inf
            if a < first - 1e-9 or b > last + 1e-9:
                raise self._refusal(k, box, low[k], high[k])
            lows.append(max(a, first))
            highs.append(min(b, self.high[k]) if b <= self.high[k] + 1e-9 else b)
        return tuple(lows), tuple(highs)

    def crop(self, low: Sequence[float], high: Sequence[float]) -> "Domain":
        """The part of the box between two corners given in the axes' own units.

        A box as long as the period leaves a periodic axis as it is; one across its seam is refused.
        """
        lows, highs = (list(c) for c in self.span(low, high))
        for k, axis in enumerate(self.axes):
            if highs[k] <= self.high[k]:
                continue
            if highs[k] - lows[k] < axis.size * (1 - 1e-9):
                told = "a crop must not reach over the seam of a periodic axis, {2} on axis "
                told += "{axis!r}; got {0} to {1}. Crop {0} to {2} and {2} to {1}; integrals, "
                told += "grids and points may cross it."
                end = float(axis.from_index(np.asarray([self.high[k]]))[0])
                period = float(axis.period or math.inf)
                seam = end + math.ceil((float(low[k]) - end) / period) * period
                raise coordinate_error(axis.name, told, low[k], high[k], seam)
            lows[k], highs[k] = self.low[k], self.high[k]
        return replace(self, low=tuple(lows), high=tuple(highs))


def make_domain(
    shape: Sequence[int],
    *,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Periodic = (),
    bounds: Mapping[str, Array] | None = None,
) -> Domain:
    """A Domain for an array of the given spatial shape, with everything checked.

    Parameters
    ----------
    shape : sequence of int
        Number of samples on each axis.
    dims : sequence of str, optional
        Names of the axes; "axis0", "axis1", ... by default.
    coords : mapping or sequence, optional
        Where the samples lie: one array per axis (None for indices), or a mapping by name.
    periodic : str, int, sequence or mapping, optional
        Names or numbers of the axes that repeat; as a mapping, with their periods. Without a
        period, evenly spaced samples are taken to cover it exactly.
    bounds : mapping, optional
        Borders of the samples' cells on some axes, by name; by default midway.
    """
    dims = names_of(dims, len(shape))
    given = coords_by_axis(coords, dims)
    periods = periods_of(periodic, dims)
    cells = coords_by_axis(bounds, dims, "bounds")
    axes = [_axis(name, int(n), c) for name, n, c in zip(dims, shape, given)]
    for k, period in periods.items():
        if period is None and axes[k].spacing is not None:
            told = "axis {axis!r} is periodic but unevenly spaced, so its period cannot be read "
            told += "off; say it, in the unit of the coordinates: periodic={{{axis!r}: ...}}."
            raise coordinate_error(dims[k], told)
        own = abs(axes[k].step) * axes[k].size if period is None else period
        axes[k] = _axis(dims[k], int(shape[k]), given[k], own)
    for k, b in enumerate(cells):
        if b is not None:
            at = np.arange(shape[k]) if given[k] is None else np.asarray(given[k])
            axes[k] = Axis.through(dims[k], at, axes[k].period, b)
    return Domain.of(axes)


def names_of(dims: Sequence[str] | None, d: int) -> tuple[str, ...]:
    """One name per axis: those given, if there are `d` different ones, or axis0, axis1, ..."""
    if dims is None:
        return tuple(f"axis{k}" for k in range(d))
    names = tuple(dims) if isinstance(dims, str) else entries(dims) or ()
    if len(names) != d or len(set(map(str, names))) != d:
        raise wrong("dims", f"be {d} different names, one per axis", dims)
    return names


def coords_by_axis(
    coords: Mapping[str, Array] | Sequence[Array | None] | None,
    dims: tuple[str, ...],
    told: str = "coords",
) -> list[Array | None]:
    """The coordinates of each axis, None where there are none."""
    if coords is None:
        return [None] * len(dims)
    if is_mapping(coords):
        unknown = sorted(set(coords) - set(dims))
        if unknown:
            raise ValueError(f"`{told}` names {unknown}, but the axes are {list(dims)}.")
        return [coords.get(name) for name in dims]
    given = entries(coords)
    if given is None or len(given) != len(dims):
        raise wrong(told, f"have one entry per axis, {len(dims)}", coords)
    return list(given)


def _axis(name: str, size: int, coords: Array | None, period: float | None = None) -> Axis:
    if coords is None:
        return Axis.counted(name, size, period)
    if np.shape(coords) != (size,):
        told = f"`coords` of axis {name!r} must hold one number per sample; got shape "
        raise ValueError(f"{told}{np.shape(coords)} for {size} samples.")
    return Axis.through(name, np.asarray(coords), period)


# --- which axes repeat ----------------------------------------------------------------------------


def periods_of(periodic: Periodic, dims: Sequence[str]) -> dict[int, float | None]:
    """The period of each axis that repeats, by axis number; None where samples must tell it.

    Parameters
    ----------
    periodic : str, int, sequence of them, or mapping
        Names or numbers of the axes that repeat; as a mapping, with their periods in the unit of
        the coordinates (durations count seconds, as dates do), or None. Numbers may count from the
        end.
    dims : sequence of str
        What the axes are called.
    """
    periods: dict[int, float | None] = {}
    for key, period in _entries(periodic):
        k = tuple(dims).index(key) if isinstance(key, Hashable) and key in dims else key
        if not is_integer(k) or not -len(dims) <= k < len(dims):
            raise ValueError(f"`periodic` names axis {key!r}, but the axes are {list(dims)}.")
        if isinstance(period, (timedelta, np.timedelta64)):
            period = np.timedelta64(period) / np.timedelta64(1, "s")
        if period is not None and not is_number(period):
            told = f"the period of axis {dims[k]!r} must be a finite number"
            raise ValueError(f"{told}; got {period!r}.")
        periods[int(k) % len(dims)] = None if period is None else float(period)
    return periods


def wraps_of(periodic: Periodic, d: int) -> tuple[bool, ...]:
    """Whether each of `d` axes repeats, for those who count in samples and know no names.

    There an axis repeats after its last sample: periods are read, and play no part.
    """
    axes = [k for k, _ in _entries(periodic)]
    if not all(is_integer(k) and -d <= k < d for k in axes):
        must = f"hold numbers of axes, between {-d} and {d - 1}"
        raise wrong("periodic", must, periodic, hint="Axes have no names here.")
    return tuple(k in axes or k - d in axes for k in range(d))


def _entries(periodic: Periodic) -> list[tuple[Any, Any]]:
    """Pairs of an axis, as it was given, and its period or None."""
    if is_mapping(periodic):
        return list(periodic.items())
    if isinstance(periodic, str) or is_integer(periodic):
        return [(periodic, None)]
    try:
        return [(key, None) for key in cast(Iterable[Any], periodic)]
    except TypeError:
        must = "be the name or number of an axis, several of them, or a mapping to periods"
        raise wrong("periodic", must, periodic, TypeError) from None
