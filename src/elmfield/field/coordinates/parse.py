"""Coordinates as callers give them: points, columns of a grid, corners of a box; dates too.

What callers write becomes numbers in the axes' units, or index coordinates; `dates` reads dates.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elmfield._array import backend, checks
from elmfield._array.backend import device, move, namespace, to_numpy
from elmfield._array.typing import Array, Coordinate, Floats, Integers
from elmfield.domain import Domain
from elmfield.domain.axis import coordinate_error
from elmfield.field.coordinates.labels import AxisLabels, Labels, coordinates_in, date_errors
from elmfield.field.coordinates.output_positions import boxes_around, nodes

Spacings = float | Sequence[float] | Mapping[str, float]
"""Distances between samples: of all axes, one by one, or by dim."""


def is_ordered(c: Floats) -> bool:
    """Whether coordinates rise, or fall."""
    return bool(abs(np.sign(np.diff(c)).sum()) == len(c) - 1)


def own_samples(domain: Domain) -> list[Integers]:
    """On each axis, the numbers of the samples inside the domain."""
    ends = zip(domain.low, domain.high)
    return [np.arange(math.ceil(a - 1e-9), math.floor(b + 1e-9) + 1) for a, b in ends]


def own_coords(domain: Domain) -> list[Floats]:
    """Their coordinates, in the axes' own units."""
    return [
        axis.from_index(own.astype(float)) if axis.coords is None else axis.coords[own]
        for axis, own in zip(domain.axes, own_samples(domain))
    ]


def check_names(what: str, given: Iterable[object], dims: Sequence[str]) -> None:
    """Refuse names that no axis has."""
    unknown = sorted(set(map(str, given)) - set(dims))
    if unknown:
        raise ValueError(f"`{what}` names {unknown}, but the axes are {list(dims)}.")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Reads positions on the axes of a box: points, grids, boxes, windows.

    Parameters
    ----------
    domain : Domain
        The box, its axes and their units.
    labels : Labels
        What is known of the axes.
    """

    domain: Domain
    labels: Labels

    def about(self, k: int) -> AxisLabels:
        """What is known of axis k."""
        return self.labels.axis(self.domain.dims[k])

    def numbers(self, k: int, given: Array) -> Floats:
        """Coordinates on axis k as a caller gives them, dates too, as the numbers it counts in."""
        name = self.domain.dims[k]
        try:
            return coordinates_in(to_numpy(given), self.about(k))
        except (TypeError, ValueError) as error:
            raise type(error)(f"on axis {name!r}, {error}") from error

    # --- points --------------------------------------------------------------------------------

    def points(self, points: Array, like: Array) -> Array:
        """`points` in float64, in the library and on the device of `like`."""
        if not backend.is_array(points):
            points = checks.array("points", points)
        backend.refuse_abstract("points", points, "Ask field.module(), which torch can transform.")
        if isinstance(points, np.ma.MaskedArray) and points.dtype.kind in "iuf":
            points = np.ma.filled(points.astype(np.float64), np.nan)
        if isinstance(points, np.ndarray):
            points = self._without_dates(points)
            if points.dtype.kind not in "fiu":
                raise ValueError(f"`points` must hold real numbers; got dtype {points.dtype}.")
        elif backend.is_numpy(like) and backend.is_torch(points) and backend.is_on_host(points):
            if backend.requires_grad(points):
                raise TypeError(
                    "`points` that require gradients are not followed by a field of NumPy arrays. "
                    'Move the field to torch, field.to("cpu"), or detach the points.'
                )
        elif namespace(points) is not namespace(like) or device(points) != device(like):
            raise ValueError(
                f"`points` must live where the field lives; got {type(points).__name__} on "
                f"{device(points)} for a field of {type(like).__name__} on {device(like)}. "
                "Move one of them."
            )
        d = len(self.domain.shape)
        if points.ndim == 0 or points.shape[-1] != d:
            hint = "Add a trailing axis: points[..., None]." if d == 1 else ""
            must = f"have shape (..., {d}), one coordinate per axis"
            raise checks.wrong("points", must, tuple(points.shape), hint=hint)
        return move(points, like, namespace(like).float64)

    def _without_dates(self, points: Array) -> Array:
        """`points` in numbers: dates, texts and mixed rows column by column, if axes have dates."""
        dated = [self.about(k).is_time for k in range(len(self.domain.dims))]
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

    def to_index(self, x: Array, outside: str) -> tuple[Array, Array | None]:
        """What the domain makes of points; see :meth:`Domain.to_index`."""
        with date_errors(self.labels.axes):
            return self.domain.to_index(x, outside)

    # --- grids and boxes -----------------------------------------------------------------------

    def columns(self, coords: tuple[Array, ...], outside: str) -> tuple[list[Floats], list[Array]]:
        """Index coordinates of a grid on each axis, and which of them lie outside.

        From one array of coordinates per axis, or from one mapping by dim.
        """
        domain, found, beyond = self.domain, [], []
        given = self._by_axis(coords, "`grid` takes one array of coordinates")
        for k, (line, own) in enumerate(zip(given, own_coords(domain))):
            c, one = own if line is None else np.atleast_1d(self.numbers(k, line)), slice(k, k + 1)
            if c.ndim != 1:
                told = f"a grid needs one line of coordinates for axis {domain.dims[k]!r}"
                raise ValueError(f"{told}; got an array of shape {c.shape}.")
            axis = replace(
                domain, axes=domain.axes[one], low=domain.low[one], high=domain.high[one]
            )
            with date_errors(self.labels.axes):
                index, wrong = axis.to_index(c[:, None], outside)
            found.append(index[:, 0])
            beyond.append(np.zeros(len(c), bool) if wrong is None else wrong)
        return found, beyond

    def positions(
        self,
        shape: int | Sequence[int] | None = None,
        *,
        scale: float | Sequence[float] | None = None,
        spacing: Spacings | None = None,
        window: Mapping[str, Coordinate] | None = None,
        align: str = "areas",
    ) -> list[Floats]:
        """Index coordinates of the grid of :meth:`Field.resize`, for each axis.

        On a periodic axis they run on beyond its end, as the window does: see `in_turn`. With
        `align` a sample stands for the area around it (pictures: the window is divided into equal
        areas) or for the node it sits on (weather: old nodes remain nodes).
        """
        checks.at_most_one(shape=shape, scale=scale, spacing=spacing)
        domain, d = self.domain, len(self.domain.axes)
        checks.choice("align", align, ("areas", "nodes"))
        seen = self.window(window)
        counts = [None] * d if shape is None else checks.sizes_of("shape", shape, d)
        scales = checks.per_axis("scale", 1.0 if scale is None else scale, d)
        apart = {} if spacing is None else self._spacings(spacing)
        out: list[Floats] = []
        for k, (axis, n) in enumerate(zip(domain.axes, counts)):
            (a, b), s = seen.get(axis.name, (domain.low[k], domain.high[k])), scales[k]
            s = checks.positive("scale", s)
            if not a < b:
                raise ValueError(f"the window on axis {axis.name!r} is empty: {a:g} to {b:g}.")
            if n is None and not (b - a) * s < 1 << 53:
                raise ValueError(f"`scale` is too large for axis {axis.name!r}; got {s:g}.")
            if axis.name in apart:
                out.append(self._apart(k, a, b, apart[axis.name]))
            elif axis.size == 1 and n is None:
                out.append(np.zeros(1))
            elif align == "areas":
                n = max(1, round((b - a) * s)) if n is None else n
                out.append(np.asarray(a + (np.arange(n) + 0.5) * ((b - a) / n)))
            else:
                with date_errors(self.labels.axes):
                    out.append(nodes(domain, k, a, b, n, s))
        return out

    def _spacings(self, spacing: Spacings) -> dict[str, float]:
        """Distances between new samples by dim; one number or a sequence is for axes in space."""
        dims = self.domain.dims[:3] if self.labels.is_placed else self.domain.dims
        given: Any = spacing
        if not checks.is_mapping(given):
            given = dict(zip(dims, checks.per_axis("spacing", given, len(dims))))
        check_names("spacing", given, self.domain.dims)
        return {name: checks.positive("spacing", h) for name, h in given.items()}

    def _apart(self, k: int, a: float, b: float, h: float) -> Floats:
        """As many places h apart as fit best between two index coordinates, in their middle."""
        axis = self.domain.axes[k]
        low, high = map(float, axis.from_index(np.asarray([a, b])))
        if not abs(high - low) / h < 1 << 53:
            raise ValueError(f"`spacing` is too small for axis {axis.name!r}; got {h:g}.")
        n = max(1, round(abs(high - low) / h))
        steps: Floats = np.arange(n, dtype=np.float64) - (n - 1) / 2
        return axis.along((low + high) / 2 + math.copysign(h, high - low) * steps)

    def boxes(
        self, x: Sequence[Floats], window: Mapping[str, Coordinate] | None = None
    ) -> list[Floats | None]:
        """Edges around the places of a grid, in index coordinates; None where they are close.

        Where samples are means, what is made of them is: around all places.
        """
        seen, is_mean = self.window(window), self.labels.samples == "means"
        found = []
        for axis, c, *ends in zip(self.domain.axes, x, self.domain.low, self.domain.high):
            low, high = seen.get(axis.name, ends) if len(c) == 1 else ends
            found.append(boxes_around(axis, c, low, high, always=is_mean))
        return found

    def cells(self, x: Sequence[Floats]) -> list[Floats | None]:
        """Edges around positions of a grid that means are taken between; none of point samples.

        The cell of a single position is a sample wide; None unless they ascend or descend.
        """
        if self.labels.samples != "means":
            return []
        found: list[Floats | None] = []
        for axis, c, low, high in zip(self.domain.axes, x, self.domain.low, self.domain.high):
            if len(c) == 1:
                low, high = np.clip(c[0] + np.asarray([-0.5, 0.5]), low, high)
            found.append(boxes_around(axis, c, low, high, True) if is_ordered(c) else None)
        return found

    def ends(
        self, window: Mapping[str, tuple[Coordinate, Coordinate]]
    ) -> tuple[list[float], list[float]]:
        """Corners of a window, in the axes' own units, for a crop."""
        self.window(window)  # it says what is wrong with names and ends
        low, high = [], []
        for k, axis in enumerate(self.domain.axes):
            a, b = sorted(self.domain.ends(k))
            if axis.name in window:
                a, b = (float(self.numbers(k, end)) for end in window[axis.name])
            if a > b and axis.period is not None:  # round the seam, which a crop refuses
                b += axis.period * math.ceil((a - b) / axis.period)
            low.append(a)
            high.append(b)
        return low, high

    def window(
        self, window: Mapping[str, tuple[Coordinate, Coordinate]] | None
    ) -> dict[str, tuple[float, float]]:
        """Ends of a window, by dim, as index coordinates; on periodic axes in any turn."""
        dims = self.domain.dims
        window = checks.by_name("window", window)
        check_names("window", window, dims)
        found = {}
        for name, ends in window.items():
            if len(checks.entries(ends) or ()) != 2:
                raise checks.wrong("window", "give two ends for each axis", {name: ends})
            k = dims.index(name)
            with date_errors(self.labels.axes):
                found[name] = self._ends(k, *(self._number(k, c) for c in ends))
        return found

    def _ends(self, k: int, low: float, high: float) -> tuple[float, float]:
        """Two ends on axis k as index coordinates; on a periodic axis also round its seam."""
        axis, given = self.domain.axes[k], (low, high)

        def error(text: str, *more: float, **lengths: Any) -> ValueError:
            told = f"`window` on axis {{axis!r}}: {text}; got {{0}} to {{1}}."
            return coordinate_error(axis.name, told, *given, *more, **lengths)

        if axis.period is not None and -math.inf < high < low < math.inf:
            high += axis.period * (math.floor((low - high) / axis.period) + 1)
        if axis.period is not None and high - low > axis.period * (1 + 1e-9):
            raise error("it must span at most one period, {period}", period=axis.period)
        if not (low < high and math.isfinite(low) and math.isfinite(high)):
            raise error("the first end must lie below the second")
        a, b = axis.span(low, high)
        first, last = self.domain.low[k], self.domain.high[k]
        if axis.period is None and (a < first - 1e-6 or b > last + 1e-6):
            raise error("it reaches beyond the domain, {2} to {3}", *sorted(self.domain.ends(k)))
        return a, b

    def edges_of(self, edges: Sequence[Array]) -> list[Floats | None]:
        """Edges of boxes on each axis as index coordinates; None on axes that keep their samples.

        From one array per axis, None for some, or from one mapping by dim.
        """
        given = self._by_axis(edges, "`means` takes one array of edges")
        return [None if e is None else self.edges(k, e) for k, e in enumerate(given)]

    def _by_axis(self, given: Sequence[Array], told: str) -> Sequence[Array | None]:
        """What is given one by one, or in one mapping by dim: then None where an axis has none."""
        dims = self.domain.dims
        if len(given) == 1 and checks.is_mapping(given[0]):
            check_names("coords", given[0], dims)
            return [given[0].get(name) for name in dims]
        if len(given) != len(dims):
            raise ValueError(f"{told} per axis, {len(dims)}; got {len(given)}.")
        return given

    def edges(self, k: int, given: Array) -> Floats:
        """Edges on axis k, in its unit, as index coordinates; on a periodic axis in any turn."""
        with date_errors(self.labels.axes):
            return self._edges(k, given)

    def _edges(self, k: int, given: Array) -> Floats:
        axis = self.domain.axes[k]
        c = np.asarray(self.numbers(k, given), np.float64)

        def error(text: str, *at: float, **lengths: Any) -> ValueError:
            return coordinate_error(axis.name, f"edges on axis {{axis!r}} {text}", *at, **lengths)

        if c.ndim != 1 or len(c) < 2:
            raise error(f"must be at least two, in one array for each axis; got shape {c.shape}.")
        if not np.isfinite(c).all():
            raise error("must be finite; got {}.", c[~np.isfinite(c)][0])
        steps = np.diff(c)
        if not (np.all(steps > 0) or (axis.step < 0 and np.all(steps < 0))):
            j = int(np.argmin(steps * axis.step > 0))
            raise error(
                "must ascend (or descend where the axis does); got {} and then {}. Sort them and "
                "drop repeated ones.",
                *c[j : j + 2],
            )
        i, first, last = axis.along(c), self.domain.low[k], self.domain.high[k]
        ends = [float(c.min()), float(c.max())]
        if axis.period is not None:
            if ends[1] - ends[0] > axis.period * (1 + 1e-9):
                raise error(
                    "must span at most one period, {period}; got {} to {}.",
                    *ends,
                    period=axis.period,
                )
            i = i - math.floor((i.min() - first + 1e-9) / axis.size) * axis.size
            if self.domain.goes_round(k):  # the seam is no border
                last = math.inf
        # Periods of dates begin with their first sample, half a step inside the domain.
        slack = 0.5 + 1e-9 * axis.size if self.about(k).is_time else 1e-9 * axis.size
        if i.min() < first - slack or i.max() > last + slack:
            raise error(
                "leave the domain, which covers {} to {}; got {} to {}. Half a step around the "
                "outermost samples belongs to it, and edges of dates may lie one step from them.",
                *sorted(self.domain.ends(k)),
                *ends,
            )
        return np.clip(i, first, last)

    def in_turn(self, x: Sequence[Floats]) -> list[Floats]:
        """Index coordinates on each axis; on periodic ones in the turn that is the box's own."""
        return [np.asarray(self.domain.settle(k, c, "nearest")[0]) for k, c in enumerate(x)]

    def corners(
        self, low: Sequence[Coordinate], high: Sequence[Coordinate]
    ) -> tuple[list[float], list[float]]:
        """Two corners as numbers, in the axes' own units."""
        d = len(self.domain.shape)
        if any(len(checks.entries(c) or ()) != d for c in (low, high)):
            raise ValueError(
                f"`low` and `high` must be corners with one coordinate per axis, {d}; got "
                f"{checks.shown(low)} and {checks.shown(high)}."
            )
        a, b = ([self._number(k, c[k]) for k in range(d)] for c in (low, high))
        return a, b

    def _number(self, k: int, given: Array) -> float:
        """One coordinate on axis k."""
        found = self.numbers(k, given)
        if np.ndim(found):
            name = self.domain.dims[k]
            raise ValueError(f"on axis {name!r}, one number is needed; got {checks.shown(given)}.")
        return float(found)
