"""Axis: a name, samples, and the way between their coordinates and their indices.

Sample k sits at index coordinate k, and the axis covers the interval from -1/2 to n - 1/2. Only
here are degrees and metres known. Where samples are uneven, a :class:`Spacing` has their positions
in steps, the mean distance between two of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmfield._array.backend import move, namespace, requires_grad, searchsorted
from elmfield._array.checks import array, is_number, numbers, shown, sizes_of
from elmfield._array.typing import Array, Floats

LEAST_SHARE = 1e-3
"""Of a cell, on either side of the sample that it is divided at."""


def coordinate_error(
    axis: str, text: str, *at: float, kind: type[ValueError] = ValueError, **lengths: float
) -> ValueError:
    """Return an error about coordinates.

    `elmfield.field.coordinates.labels.date_errors` words it again in dates.

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


@dataclass(frozen=True, eq=False)
class Spacing:
    """Where the samples of an uneven axis lie, in steps from the first; straight between them.

    Parameters
    ----------
    positions : array, shape (n,)
        Of the samples, ascending from 0.
    turn : float, optional
        The period, in steps.
    borders : array, shape (n + 1,), optional
        Of the samples' cells, where these are not midway between samples.

    Notes
    -----
    An index coordinate between two samples divides their distance as it divides 1; where cells have
    borders of their own, so it does between a sample and a border, at index k ± 1/2. Functions of
    an axis are functions of the position, so that the kinks of this map are not theirs; derivatives
    are by the position.
    """

    positions: Floats
    turn: float | None = None
    borders: Floats | None = None

    @property
    def per_sample(self) -> int:
        """Knots of the map for each sample."""
        return 1 if self.borders is None else 2

    @cached_property
    def _own(self) -> Floats:
        """Positions of samples; with borders of cells, these before, between and behind them."""
        if self.borders is None:
            return self.positions
        own = np.empty(2 * len(self.positions) + 1)
        own[::2], own[1::2] = self.borders, self.positions
        return own

    def at(self, i: Array) -> Array:
        """Positions of samples by number; beyond the ends of the next turn, or mirrored there."""
        return self._knot(i * self.per_sample)

    def _knot(self, j: Array) -> Array:
        """Positions of knots by number, that of sample i is `per_sample` i."""
        xp, p, turn, before = namespace(j), self._own, self.turn, self.per_sample - 1
        n, low, high = len(p) - before, p[0], p[-1]
        if turn is None and not before:
            low, high = 1.5 * p[0] - 0.5 * p[1], 1.5 * p[-1] - 0.5 * p[-2]
        i = j + before
        inner = i % n if turn is not None else xp.where(i < 0, before - 1 - i, 2 * n - 1 - j)
        inner = xp.clip(xp.where((i < 0) | (j >= n), inner, i), 0, len(p) - 1)
        own = xp.reshape(xp.take(move(p, j), xp.reshape(inner, (-1,))), j.shape)
        if turn is not None:
            return own + turn * xp.astype(i // n, own.dtype)
        return xp.where(i < 0, 2 * low - own, xp.where(j < n, own, 2 * high - own))

    def to_steps(self, index: Array) -> Array:
        """Positions of index coordinates."""
        xp, at = namespace(index), index * self.per_sample
        j = xp.floor(at)
        i = xp.astype(j, xp.int64)
        low, high = self._knot(i), self._knot(i + 1)
        return low + (high - low) * (at - j)

    def per_step(self, index: Array) -> Array:
        """Index coordinates per step, where index coordinates are."""
        xp, m = namespace(index), self.per_sample
        i = xp.astype(xp.floor(index * m), xp.int64)
        return 1 / (m * (self._knot(i + 1) - self._knot(i)))

    def to_index(self, v: Array) -> tuple[Array, Array]:
        """Index coordinates of positions, in the turn of the first sample; and whole turns."""
        xp = namespace(v)
        turns = xp.zeros_like(v) if self.turn is None else xp.floor(v / self.turn)
        v = v if self.turn is None else v - turns * self.turn
        knots = move(self.knots, v, v.dtype)
        piece = xp.clip(searchsorted(knots, xp.reshape(v, (-1,))) - 1, 0, len(self.knots) - 2)
        low, high = (xp.reshape(xp.take(knots, piece + j), v.shape) for j in (0, 1))
        first = xp.reshape(xp.astype(piece, v.dtype), v.shape)
        return (first + (v - low) / (high - low)) / self.per_sample - 1, turns

    @cached_property
    def knots(self) -> Floats:
        """Positions of all knots from sample -1 to sample n."""
        m = self.per_sample
        return np.asarray(self._knot(np.arange(-m, m * len(self.positions) + 1)))


@dataclass(frozen=True, eq=False, repr=False)
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
    spacing : Spacing, optional
        Where the samples lie that are not evenly spaced, to the rounding of their own dtype.

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
    spacing: Spacing | None = None

    @classmethod
    def counted(cls, name: str, size: int, period: float | None = None) -> "Axis":
        """An axis whose samples lie at 0, 1, ..., n - 1."""
        return cls(name, size, None, period, spacing=_over_the_seam(name, size, 1.0, period))

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
            told = f"`origin` and `step` of axis {name!r} must be numbers with a finite end"
            raise ValueError(f"{told}; got {shown(origin)} and {shown(step)}.")
        if coords is None:
            coords = origin + step * np.arange(size, dtype=np.float64)
        seam = _over_the_seam(name, size, step, period)
        return cls(name, size, coords, period, float(origin), float(step), seam)

    @classmethod
    def through(
        cls,
        name: str,
        coords: Array | Sequence[float],
        period: float | None = None,
        bounds: Array | None = None,
    ) -> "Axis":
        """An axis whose samples lie at `coords`, shape (n,): finite and strictly monotone.

        `bounds`, shape (n + 1,) or (n, 2), are the borders of their cells; by default midway.
        """
        given = array("coords", coords)
        c = numbers("coords", given)
        if c.ndim != 1 or not c.size:
            told = f"`coords` of axis {name!r} must be a line of numbers"
            raise ValueError(f"{told}; got {shown(coords)}.")
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
            told = f"{must}decreasing; got {{}} and then {{}}, numbers {k} and {k + 1}. Sort the "
            told += "array along this axis, or drop repeated positions."
            raise coordinate_error(name, told, *c[k : k + 2])
        borders = None if bounds is None else cell_borders(name, c, bounds)
        if size == 1:
            wide = 1.0 if borders is None else borders[1] - borders[0]
            return cls.even(name, 1, float(c[0]), wide, period, coords=c)
        step = float((c[-1] - c[0]) / (size - 1))
        kind = given.dtype if given.dtype.kind == "f" else np.float64
        noise = 4 * np.finfo(kind).eps * np.max(np.abs(c)) + 1e-9 * abs(step)
        if borders is None or np.max(np.abs(borders - cell_edges(c))) <= noise:
            borders = None
        elif period is not None and abs(abs(borders[-1] - borders[0]) - period) > noise:
            told = "`bounds` of axis {axis!r} must span its period, {period}; got {} to {}."
            raise coordinate_error(name, told, *borders[[0, -1]], period=period)
        else:  # a sample on a border, as at a pole, stands in the middle of its cell
            share = (c - borders[:-1]) / np.diff(borders)
            at_end = np.abs(share - 0.5) > 0.5 - LEAST_SHARE
            places = np.where(at_end, (borders[:-1] + borders[1:]) / 2, c)
        if borders is None and np.max(np.abs(c - (c[0] + step * np.arange(size)))) <= noise:
            return cls.even(name, size, float(c[0]), step, period, coords=c)
        if period is not None:
            _check_period(name, size, step, period)
        turn = None if period is None else period / abs(step)
        spacing = Spacing((c - c[0]) / step, turn)
        if borders is not None:
            spacing = Spacing((places - c[0]) / step, turn, (borders - c[0]) / step)
        return cls(name, size, c, period, float(c[0]), step, spacing)

    def _key(self) -> tuple[Any, ...]:
        coords = None if self.coords is None else self.coords.tobytes()
        cells = None if self.borders is None else self.borders.tobytes()
        return self.name, self.size, self.period, self.origin, self.step, coords, cells

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
        return f"Axis({said}, {ends}{'' if self.spacing is None else ', uneven'}{turn})"

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def borders(self) -> Floats | None:
        """Borders of the samples' cells, (n + 1,), where these are not midway between samples."""
        if self.spacing is None or self.spacing.borders is None:
            return None
        return self.from_index(np.arange(self.size + 1, dtype=np.float64) - 0.5)

    def to_index(self, x: Array) -> Array:
        """Index coordinates of `x`; of an uneven periodic axis in the turn of the first sample.

        Derivatives of a field's functions are by steps: so is that of the index, where a library
        follows `x`.
        """
        v = (x - self.origin) / self.step
        if self.spacing is None:
            return v
        if requires_grad(x):
            return self.spacing.to_index(v.detach())[0] + (v - v.detach())
        return self.spacing.to_index(v)[0]

    def span(self, low: float, high: float) -> tuple[float, float]:
        """Index coordinates of both ends of an interval, ascending; turns of a period count."""
        index = self.along(np.asarray([low, high], dtype=np.float64))
        return float(min(index)), float(max(index))

    def along(self, x: Floats) -> Floats:
        """Index coordinates of `x` that run on from turn to turn of a period."""
        if self.spacing is None:
            return np.asarray(self.to_index(x))
        index, turns = self.spacing.to_index((x - self.origin) / self.step)
        return np.asarray(index + self.size * turns)

    def from_index(self, index: Floats) -> Floats:
        """Coordinates, in the axis's own unit, of the given index coordinates."""
        index = np.asarray(index, dtype=np.float64)
        v = index if self.spacing is None else self.spacing.to_steps(index)
        return self.origin + self.step * v


def cell_edges(c: Floats) -> Floats:
    """Borders midway between coordinates, which may be one; outermost cells are even ones."""
    steps = np.diff(c) if len(c) > 1 else np.ones(1)
    inner = c[:-1] + steps[: len(c) - 1] / 2
    return np.concatenate([[c[0] - steps[0] / 2], inner, [c[-1] + steps[-1] / 2]])


def cell_borders(name: str, c: Floats, bounds: Array) -> Floats:
    """Borders (n + 1,) of cells that follow each other, in the order of the samples in them."""
    b = numbers("bounds", bounds)
    told = "`bounds` of axis {axis!r} must be borders of cells, (n + 1,) or (n, 2), that follow "
    told += "each other, with a sample in each"
    if b.shape == (len(c), 2):
        way = b[:, ::-1] if (b[:, 1] - b[:, 0]).sum() * (c[-1] - c[0]) < 0 else b
        slack = 1e-6 * np.abs(np.diff(way)).min(initial=np.inf)
        if (np.abs(way[1:, 0] - way[:-1, 1]) > slack).any():
            raise coordinate_error(name, told + "; some have gaps between them, or overlap.")
        b = np.append(way[:, 0], way[-1, 1])
    if b.shape != (len(c) + 1,):
        raise coordinate_error(name, f"{told}; got shape {b.shape} for {len(c)} samples.")
    b = b[::-1] if (b[-1] - b[0]) * (c[-1] - c[0]) < 0 else b
    sign = 1 if b[-1] > b[0] else -1
    low, at, high = sign * b[:-1], sign * c, sign * b[1:]
    bad = ~((low <= at) & (at <= high) & (low < high))
    if bad.any():
        k = int(np.argmax(bad))
        raise coordinate_error(name, told + "; got {} for a cell of {} to {}.", c[k], *b[k : k + 2])
    return b


def _check_period(name: str, size: int, step: float, period: float) -> float:
    """The span of the samples, which the period must exceed."""
    covered = abs(step) * (size - 1)
    if not is_number(period) or period > 1e12 * abs(step):  # samples would coincide
        told = f"the period of axis {name!r} must be a number, at most 1e12 of its steps"
        raise ValueError(f"{told}; got {shown(period)}.")
    if not (period > 0 and period > covered):
        told = "the period of axis {axis!r} must exceed the span of its samples; got {period} for "
        told += "samples spanning {covered}. Drop the repeated last sample, or say which it is."
        raise coordinate_error(name, told, period=period, covered=covered)
    return covered


def _over_the_seam(name: str, size: int, step: float, period: float | None) -> Spacing | None:
    """The spacing of an even axis, if the gap at its seam is not one step wide; else none."""
    if period is None:
        return None
    covered = _check_period(name, size, step, period)
    if abs(period - covered - abs(step)) <= 1e-6 * abs(step):
        return None
    return Spacing(np.arange(size, dtype=np.float64), period / abs(step))
