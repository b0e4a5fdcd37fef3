"""The box Ω: named axes, and the way from physical coordinates to sample indices and back.

Everything else in the package counts in samples: sample k of an axis sits at index coordinate k,
and the axis covers the interval from -1/2 to n - 1/2. Only this module knows degrees or metres.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from elmfield._array.backend import move, namespace, searchsorted
from elmfield._array.typing import Array, Floats
from elmfield.errors import OutsideDomainError


@dataclass(frozen=True)
class Axis:
    """One axis of the box: its name, its samples, and where they lie.

    Parameters
    ----------
    name : str
        What the axis is called.
    size : int
        Number of samples n.
    coords : array, shape (n,), optional
        Where the samples lie, strictly monotone; without it, at 0, 1, ..., n - 1.
    period : float, optional
        The axis repeats after this distance, in the unit of the coordinates.

    Notes
    -----
    Evenly spaced coordinates (to the rounding of their own dtype) give a linear map. Others give a
    monotone cubic one (PCHIP): exact at the samples, once continuously differentiable between them.
    """

    name: str
    size: int
    coords: Floats | None = None
    period: float | None = None
    origin: float = field(default=0.0, init=False)
    step: float = field(default=1.0, init=False)
    knots: Floats | None = field(default=None, init=False, repr=False)
    pieces: Floats | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        if self.coords is not None:
            given = np.asarray(self.coords)
            c = given.astype(np.float64)
            if c.shape != (self.size,):
                raise ValueError(
                    f"`coords` of axis {self.name!r} must hold one number per sample; got "
                    f"shape {c.shape} for {self.size} samples. Give a 1-D array of that length."
                )
            steps = np.diff(c)
            if not np.all(np.isfinite(c)) or not (np.all(steps > 0) or np.all(steps < 0)):
                raise ValueError(
                    f"`coords` of axis {self.name!r} must be finite and strictly increasing "
                    f"or strictly decreasing; got {np.array2string(c, threshold=6)}. Sort the "
                    "array along this axis, or drop repeated positions."
                )
            set_(self, "coords", c)
            set_(self, "origin", float(c[0]))
            if self.size > 1:
                step = float((c[-1] - c[0]) / (self.size - 1))
                kind = given.dtype if given.dtype.kind == "f" else np.float64
                noise = 4 * np.finfo(kind).eps * np.max(np.abs(c)) + 1e-9 * abs(step)
                set_(self, "step", step)
                if np.max(np.abs(c - (c[0] + step * np.arange(self.size)))) > noise:
                    self._curve(c)
        if self.period is not None:
            covered = abs(self.step) * (self.size - 1)
            if not (np.isfinite(self.period) and self.period > 0 and self.period > covered):
                raise ValueError(
                    f"the period of axis {self.name!r} must exceed the span of its samples; got "
                    f"{self.period} for samples spanning {covered:g}. Drop the repeated last "
                    "sample, or give the right period."
                )
            if self.knots is None and abs(self.period - covered - abs(self.step)) > 1e-6 * abs(
                self.step
            ):
                self._curve(self.origin + self.step * np.arange(self.size, dtype=np.float64))

    def _curve(self, c: Floats) -> None:
        """Keep the monotone cubic from coordinate to index, as knots and local polynomials."""
        from scipy.interpolate import PchipInterpolator  # 0.1 s, for uneven axes only

        n, index = self.size, np.arange(self.size, dtype=np.float64)
        if self.period is None:  # half a sample beyond both ends, straight on
            c = np.concatenate([[c[0] - (c[1] - c[0]) / 2], c, [c[-1] + (c[-1] - c[-2]) / 2]])
            index = np.concatenate([[-0.5], index, [n - 0.5]])
        else:
            jump = np.sign(self.step) * self.period
            c = np.concatenate([c - jump, c, c + jump])
            index = np.concatenate([index - n, index, index + n])
        if self.step < 0:
            c, index = c[::-1], index[::-1]
        curve = PchipInterpolator(c, index)
        object.__setattr__(self, "knots", np.asarray(curve.x))
        object.__setattr__(self, "pieces", np.asarray(curve.c))

    def to_index(self, x: Array) -> tuple[Array, Array, Array]:
        """Index coordinates of `x`, with first and second derivatives, each of x's shape."""
        xp = namespace(x)
        if self.knots is None:
            i, slope, bend = (x - self.origin) / self.step, 1 / self.step, 0.0
            return i, xp.full_like(x, slope), xp.full_like(x, bend)
        assert self.pieces is not None
        if self.period is not None:
            x = x - self._turns(x) * self.period
        knots = move(self.knots, x, x.dtype)
        piece = searchsorted(knots, xp.reshape(x, (-1,))) - 1
        piece = xp.clip(piece, 0, len(self.knots) - 2)
        a = [xp.reshape(xp.take(move(p, x, x.dtype), piece), x.shape) for p in self.pieces]
        u = x - xp.reshape(xp.take(knots, piece), x.shape)
        return (
            ((a[0] * u + a[1]) * u + a[2]) * u + a[3],
            (3 * a[0] * u + 2 * a[1]) * u + a[2],
            6 * a[0] * u + 2 * a[1],
        )

    def _turns(self, x: Array) -> Array:
        """Whole periods between `x` and the turn in which the curve is its own neighbour."""
        assert self.period is not None
        # The outermost pieces of the curve bend as its ends do: stay in the copy between them.
        return namespace(x).floor((x - self.origin) / self.period) + float(self.step < 0)

    def span(self, low: float, high: float) -> tuple[float, float]:
        """Index coordinates of both ends of an interval, ascending; turns of a period count."""
        x = np.asarray([low, high], dtype=np.float64)
        index = self.to_index(x)[0]
        if self.knots is not None and self.period is not None:  # `to_index` left out the turns
            index = index + np.sign(self.step) * self.size * self._turns(x)
        return float(min(index)), float(max(index))

    def from_index(self, index: Floats) -> Floats:
        """Coordinates, in the axis's own unit, of the given index coordinates."""
        index = np.asarray(index, dtype=np.float64)
        if self.knots is None:
            return self.origin + self.step * index
        assert self.pieces is not None
        beyond: Floats | float = 0.0
        if self.period is not None:  # the curve is that of one turn
            turns = np.floor((index + 0.5) / self.size)
            index = index - turns * self.size
            beyond = turns * self.period * np.sign(self.step)
        # The curve is monotone: find the piece, then bisect within it (53 halvings: rounding).
        values = np.append(self.pieces[3], np.polyval(self.pieces[:, -1], np.diff(self.knots)[-1]))
        rising = values[-1] > values[0]
        order = slice(None) if rising else slice(None, None, -1)
        piece = np.searchsorted(values[order], index, side="right") - 1
        if not rising:
            piece = len(values) - 2 - piece
        piece = np.clip(piece, 0, len(values) - 2)
        low, high = self.knots[piece], self.knots[piece + 1]
        for _ in range(53):
            middle = (low + high) / 2
            above = (
                np.polyval(self.pieces[:, piece], middle - self.knots[piece]) > index
            ) == rising
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return (low + high) / 2 + beyond


@dataclass(frozen=True)
class Domain:
    """The box Ω on which a field is defined.

    Parameters
    ----------
    axes : tuple of Axis
        One per array axis, in array order.
    low, high : tuples of float
        The box in index coordinates; by default each axis from -1/2 to n - 1/2.
    """

    axes: tuple[Axis, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.low:
            object.__setattr__(self, "low", tuple(-0.5 for _ in self.axes))
            object.__setattr__(self, "high", tuple(a.size - 0.5 for a in self.axes))

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

    def to_index(self, points: Array, outside: str) -> tuple[Array, Array, Array, Array | None]:
        """Index coordinates, their first and second derivatives, and what lies outside.

        Parameters
        ----------
        points : array, shape (n, d)
            Coordinates in the axes' own units.
        outside : {"raise", "nearest", "nan"}
            What to do with points outside the box: refuse, move them to its border, or mark them.
            A coordinate that is NaN is refused or marked.

        Returns
        -------
        index, slope, bend : arrays, shape (n, d)
            Index coordinates and their derivatives along each axis.
        beyond : array of bool, shape (n,), or None
            The points to answer with NaN.
        """
        xp = namespace(points)
        columns, beyond = [], None
        for k, axis in enumerate(self.axes):
            i, slope, bend = axis.to_index(points[:, k])
            low, high = self.low[k], self.high[k]
            if axis.period is not None:
                i = i - xp.floor((i + 0.5) / axis.size) * axis.size
                # The end of the axis is also its beginning; a crop may hold only one of them.
                again = i + axis.size
                i = xp.where((i < low) & (again <= high + 1e-9 * axis.size), again, i)
            # A rounding error past the border is not a mistake of the caller's.
            slack = 1e-9 * (high - low)
            wrong = ~((i >= low - slack) & (i <= high + slack))
            if outside == "nearest":  # nothing is nearest to NaN
                wrong = xp.isnan(i)
            if bool(xp.any(wrong)):
                if outside == "raise":
                    self._refuse(k, points[:, k][wrong])
                beyond = wrong if beyond is None else beyond | wrong
            i = xp.clip(xp.where(xp.isnan(i), xp.full_like(i, low), i), low, high)
            columns.append((i, slope, bend))
        index, slope, bend = (xp.stack([c[j] for c in columns], axis=-1) for j in range(3))
        return index, slope, bend, beyond

    def _refuse(self, k: int, wrong: Array) -> None:
        ends = self.axes[k].from_index(np.asarray([self.low[k], self.high[k]]))
        raise OutsideDomainError(
            f"points must lie inside the domain; axis {self.dims[k]!r} covers "
            f"[{min(ends):g}, {max(ends):g}] and {wrong.shape[0]} point(s) lie outside, the first "
            f"at {float(wrong[0]):g}. Pass outside='nearest' or outside='nan' to allow them."
        )

    def span(
        self, low: Sequence[float], high: Sequence[float]
    ) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Two corners, in the axes' own units, as index coordinates.

        On a periodic axis the box may lie anywhere and be as long as one period; it begins inside
        the domain then, and may end beyond it.
        """
        lows, highs = [], []
        for k, axis in enumerate(self.axes):
            if not (float(low[k]) < float(high[k])) or not np.isfinite([low[k], high[k]]).all():
                raise self._no_box(k, low[k], high[k])
            a, b = axis.span(float(low[k]), float(high[k]))
            first, last = self.low[k], self.high[k]
            if axis.period is not None:
                if b - a > axis.size * (1 + 1e-9):
                    raise ValueError(
                        f"`low` and `high` must span at most one period, {axis.period:g} on axis "
                        f"{axis.name!r}; got {low[k]:g} to {high[k]:g}."
                    )
                turns = math.floor((a - first + 1e-9) / axis.size) * axis.size
                a, b = a - turns, b - turns
                if last - first > axis.size * (1 - 1e-9):  # not cropped: the seam is no border
                    last = math.inf
            if a < first - 1e-9 or b > last + 1e-9:
                raise self._no_box(k, low[k], high[k])
            lows.append(max(a, first))
            highs.append(min(b, self.high[k]) if b <= self.high[k] + 1e-9 else b)
        return tuple(lows), tuple(highs)

    def _no_box(self, k: int, low: float, high: float) -> ValueError:
        own = self.axes[k].from_index(np.asarray([self.low[k], self.high[k]]))
        return ValueError(
            f"`low` and `high` must span a box inside the domain; axis {self.dims[k]!r} covers "
            f"[{min(own):g}, {max(own):g}], got {low:g} to {high:g}."
        )

    def crop(self, low: Sequence[float], high: Sequence[float]) -> "Domain":
        """The part of the box between two corners given in the axes' own units.

        A box as long as the period leaves a periodic axis as it is; one across its seam is refused.
        """
        lows, highs = (list(c) for c in self.span(low, high))
        for k, axis in enumerate(self.axes):
            if highs[k] <= self.high[k]:
                continue
            if highs[k] - lows[k] < axis.size * (1 - 1e-9):
                seam = self._seam(k, float(low[k]))
                raise ValueError(
                    f"a crop must not reach over the seam of a periodic axis, {seam:g} on axis "
                    f"{axis.name!r}; got {low[k]:g} to {high[k]:g}. Crop {low[k]:g} to {seam:g} "
                    f"and {seam:g} to {high[k]:g}; integrals, grids and points may cross it."
                )
            lows[k], highs[k] = self.low[k], self.high[k]
        return replace(self, low=tuple(lows), high=tuple(highs))

    def _seam(self, k: int, after: float) -> float:
        """The first end of a periodic axis beyond a coordinate."""
        axis = self.axes[k]
        assert axis.period is not None
        end = float(axis.from_index(np.asarray([self.high[k]]))[0])
        return end + math.ceil((after - end) / axis.period) * axis.period


def make_domain(
    shape: Sequence[int],
    *,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Array] | Sequence[Array | None] | None = None,
    periodic: Mapping[str | int, float] | Sequence[str | int] = (),
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
    periodic : sequence or mapping, optional
        Names or numbers of the axes that repeat; as a mapping, with their periods. Without a
        period, evenly spaced samples are taken to cover it exactly.
    """
    d = len(shape)
    dims = tuple(dims) if dims is not None else tuple(f"axis{k}" for k in range(d))
    if len(dims) != d or len(set(dims)) != d:
        raise ValueError(f"`dims` must be {d} different names, one per axis; got {dims!r}.")
    given: list[Array | None]
    if isinstance(coords, Mapping):
        unknown = sorted(set(coords) - set(dims))
        if unknown:
            raise ValueError(f"`coords` names {unknown}, but the axes are {list(dims)}.")
        given = [coords.get(name) for name in dims]
    else:
        given = list(coords) if coords is not None else [None] * d
    if len(given) != d:
        raise ValueError(f"`coords` must have one entry per axis, {d}; got {len(given)}.")
    if isinstance(periodic, (str, int, np.integer)):
        periodic = (periodic,)
    periods: dict[int, float | None] = {}
    for key in periodic:
        k = dims.index(key) if key in dims else key
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not -d <= k < d:
            raise ValueError(f"`periodic` names axis {key!r}, but the axes are {list(dims)}.")
        periods[int(k) % d] = periodic[key] if isinstance(periodic, Mapping) else None
    axes = []
    for k in range(d):
        c = None if given[k] is None else np.asarray(given[k])
        axis = Axis(dims[k], int(shape[k]), c)
        if k in periods:
            own = periods[k]
            if own is None:
                if axis.knots is not None:
                    raise ValueError(
                        f"axis {dims[k]!r} is periodic but unevenly spaced, so its period cannot "
                        f"be read off; say it: periodic={{{dims[k]!r}: 360.0}}."
                    )
                own = abs(axis.step) * axis.size
            axis = Axis(dims[k], int(shape[k]), c, float(own))
        axes.append(axis)
    return Domain(tuple(axes))
