"""Axis: a name, samples, and the way between their coordinates and their indices.

Sample k sits at index coordinate k, and the axis covers the interval from -1/2 to n - 1/2. Only
here are degrees and metres known.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elmfield._array.backend import move, namespace, searchsorted
from elmfield._array.checks import array, is_number, numbers, shown, sizes_of
from elmfield._array.typing import Array, Floats


def coordinate_error(
    axis: str, text: str, *at: float, kind: type[ValueError] = ValueError, **lengths: float
) -> ValueError:
    """Return an error about coordinates.

    `elmfield.field.coordinates.dates.date_errors` words it again in dates.

    Parameters
    ----------
    axis : str
        Name of the axis; ``{axis!r}`` in the text.
    text : str
        The message: ``{}`` for each coordinate, ``{name}`` for lengths.
    *at, **lengths : float
        Coordinates, and distances between coordinates.
    """
    numbers = {name: f"{n:g}" for name, n in lengths.items()}
    error = kind(text.format(*(f"{c:g}" for c in at), axis=axis, **numbers))
    error.said = axis, text, at, lengths  # type: ignore[attr-defined]
    return error


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Axis:
    """One axis of the box: its name, its samples, and where they lie.

    Made by :meth:`counted`, :meth:`even` or :meth:`through`, which check what they are given.

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
    origin, step : float
        Where the first sample lies, and the mean distance to the next; negative downwards.
    knots, pieces : arrays, shapes (p + 1,) and (4, p), or None
        The way from coordinate to index where it is no straight line: cubics between the knots,
        highest power first, each in the distance from its own knot.

    Notes
    -----
    Evenly spaced coordinates (to the rounding of their own dtype) give a linear map. Others give a
    monotone cubic one (PCHIP): exact at the samples, once continuously differentiable between them.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> ef.fit(np.eye(8), dims=("y", "x"), coords=[np.arange(8) * 0.5, None]).domain.axes[0]
    Axis.even('y', 8, 0.0, 0.5)
    """

    name: str
    size: int
    coords: Floats | None = None
    period: float | None = None
    origin: float = 0.0
    step: float = 1.0
    knots: Floats | None = field(default=None, repr=False)
    pieces: Floats | None = field(default=None, repr=False)

    @classmethod
    def counted(cls, name: str, size: int, period: float | None = None) -> "Axis":
        """An axis whose samples lie at 0, 1, ..., n - 1."""
        knots, pieces = _over_the_seam(name, size, 0.0, 1.0, period)
        return cls(name=name, size=size, period=period, knots=knots, pieces=pieces)

    @classmethod
    def even(
        cls,
        name: str,
        size: int,
        origin: float,
        step: float,
        period: float | None = None,
        *,
        coords: Floats | None = None,
    ) -> "Axis":
        """An axis of even spacing: `size` samples from `origin` on, `step` apart.

        `coords` are the coordinates as they were given, where those differ by their rounding.
        """
        (size,) = sizes_of("size", size, 1)
        fits = is_number(origin) and is_number(step)
        if not fits or not math.isfinite(float(origin) + float(step) * size):
            raise ValueError(
                f"`origin` and `step` of axis {name!r} must be numbers with a finite end; got "
                f"{shown(origin)} and {shown(step)}."
            )
        if coords is None:
            coords = origin + step * np.arange(size, dtype=np.float64)
        knots, pieces = _over_the_seam(name, size, origin, step, period)
        return cls(
            name=name,
            size=size,
            coords=coords,
            period=period,
            origin=float(origin),
            step=float(step),
            knots=knots,
            pieces=pieces,
        )

    @classmethod
    def through(
        cls, name: str, coords: Array | Sequence[float], period: float | None = None
    ) -> "Axis":
        """An axis whose samples lie at `coords`, shape (n,): finite and strictly monotone."""
        given = array("coords", coords)
        c = numbers("coords", given)
        if c.ndim != 1 or not c.size:
            raise ValueError(
                f"`coords` of axis {name!r} must be a line of numbers; got {shown(coords)}."
            )
        size = len(c)
        steps = np.diff(c)
        must = "`coords` of axis {axis!r} must be finite and strictly increasing or strictly "
        if not np.all(np.isfinite(c)):
            k = int(np.argmin(np.isfinite(c)))
            told = f"{must}decreasing; number {k} is {{}}. Drop such samples."
            raise coordinate_error(name, told, c[k])
        if not (np.all(steps > 0) or np.all(steps < 0)):
            way = 1 if np.sign(steps).sum() >= 0 else -1
            k = int(np.argmax(way * steps <= 0))
            raise coordinate_error(
                name,
                f"{must}decreasing; got {{}} and then {{}}, numbers {k} and {k + 1}. Sort the "
                "array along this axis, or drop repeated positions.",
                *c[k : k + 2],
            )
        if size == 1:
            return cls.even(name, 1, float(c[0]), 1.0, period, coords=c)
        step = float((c[-1] - c[0]) / (size - 1))
        kind = given.dtype if given.dtype.kind == "f" else np.float64
        noise = 4 * np.finfo(kind).eps * np.max(np.abs(c)) + 1e-9 * abs(step)
        if np.max(np.abs(c - (c[0] + step * np.arange(size)))) <= noise:
            return cls.even(name, size, float(c[0]), step, period, coords=c)
        if period is not None:
            _check_period(name, size, step, period)
        knots, pieces = _curve(c, step, period)
        return cls(
            name=name,
            size=size,
            coords=c,
            period=period,
            origin=float(c[0]),
            step=step,
            knots=knots,
            pieces=pieces,
        )

    def _key(self) -> tuple[Any, ...]:
        coords = None if self.coords is None else self.coords.tobytes()
        return self.name, self.size, self.period, self.origin, self.step, coords

    def __eq__(self, other: object) -> bool:
        # Arrays compare entry by entry, so a dataclass of them cannot compare itself.
        return other.__class__ is Axis and self._key() == other._key()

    def __repr__(self) -> str:
        said = f"{self.name!r}, {self.size}"
        turn = "" if self.period is None else f", period={self.period!r}"
        if self.coords is None:
            return f"Axis.counted({said}{turn})"
        line = self.origin + self.step * np.arange(self.size)
        if np.array_equal(self.coords, line):
            return f"Axis.even({said}, {self.origin!r}, {self.step!r}{turn})"
        ends = f"{self.coords[0]:g} to {self.coords[-1]:g}"
        return f"Axis({said}, {ends}{'' if self.knots is None else ', uneven'}{turn})"

    def __hash__(self) -> int:
        return hash(self._key())

    def to_index(self, x: Array, *, derivatives: bool = True) -> tuple[Array, ...]:
        """Index coordinates of `x`; also first and second derivatives; each of x's shape."""
        xp = namespace(x)
        if self.knots is None:
            i = (x - self.origin) / self.step
            if not derivatives:
                return (i,)
            return i, xp.full_like(x, 1 / self.step), xp.full_like(x, 0.0)
        assert self.pieces is not None
        if self.period is not None:
            x = x - self._turns(x) * self.period
        knots = move(self.knots, x, x.dtype)
        piece = searchsorted(knots, xp.reshape(x, (-1,))) - 1
        piece = xp.clip(piece, 0, len(self.knots) - 2)
        a = [xp.reshape(xp.take(move(p, x, x.dtype), piece), x.shape) for p in self.pieces]
        u = x - xp.reshape(xp.take(knots, piece), x.shape)
        i = ((a[0] * u + a[1]) * u + a[2]) * u + a[3]
        if not derivatives:
            return (i,)
        return i, (3 * a[0] * u + 2 * a[1]) * u + a[2], 6 * a[0] * u + 2 * a[1]

    def _turns(self, x: Array) -> Array:
        """Whole periods between `x` and the turn in which the curve is its own neighbour."""
        assert self.period is not None
        # The outermost pieces of the curve bend as its ends do: stay in the copy between them.
        return namespace(x).floor((x - self.origin) / self.period) + float(self.step < 0)

    def span(self, low: float, high: float) -> tuple[float, float]:
        """Index coordinates of both ends of an interval, ascending; turns of a period count."""
        index = self.along(np.asarray([low, high], dtype=np.float64))
        return float(min(index)), float(max(index))

    def along(self, x: Floats) -> Floats:
        """Index coordinates of `x` that run on from turn to turn of a period."""
        index = np.asarray(self.to_index(x, derivatives=False)[0])
        if self.knots is not None and self.period is not None:  # `to_index` left out the turns
            index = index + np.sign(self.step) * self.size * self._turns(x)
        return index

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


def _check_period(name: str, size: int, step: float, period: float) -> float:
    """The span of the samples, which the period must exceed."""
    covered = abs(step) * (size - 1)
    if not is_number(period) or period > 1e12 * abs(step):  # samples would coincide
        raise ValueError(
            f"the period of axis {name!r} must be a number, at most 1e12 of its steps; got "
            f"{shown(period)}."
        )
    if not (period > 0 and period > covered):
        raise coordinate_error(
            name,
            "the period of axis {axis!r} must exceed the span of its samples; got {period} for "
            "samples spanning {covered}. Drop the repeated last sample, or give the right period.",
            period=period,
            covered=covered,
        )
    return covered


def _over_the_seam(
    name: str, size: int, origin: float, step: float, period: float | None
) -> tuple[Floats, Floats] | tuple[None, None]:
    """The curve of an even axis, if the gap at its seam is not one step wide; else none."""
    if period is None:
        return None, None
    covered = _check_period(name, size, step, period)
    if abs(period - covered - abs(step)) <= 1e-6 * abs(step):
        return None, None
    return _curve(origin + step * np.arange(size, dtype=np.float64), step, period)


def _curve(c: Floats, step: float, period: float | None) -> tuple[Floats, Floats]:
    """Knots and local polynomials of the monotone cubic from coordinate to index."""
    from scipy.interpolate import PchipInterpolator  # 0.1 s, for uneven axes only

    n, index = len(c), np.arange(len(c), dtype=np.float64)
    if period is None:  # half a sample beyond both ends, straight on
        c = np.concatenate([[c[0] - (c[1] - c[0]) / 2], c, [c[-1] + (c[-1] - c[-2]) / 2]])
        index = np.concatenate([[-0.5], index, [n - 0.5]])
    else:
        jump = np.sign(step) * period
        c = np.concatenate([c - jump, c, c + jump])
        index = np.concatenate([index - n, index, index + n])
    if step < 0:
        c, index = c[::-1], index[::-1]
    curve = PchipInterpolator(c, index)
    return np.asarray(curve.x), np.asarray(curve.c)
