"""Observations: linear functionals of a function, with what was measured and how well.

Each kind becomes a sum of :class:`Term`: products over axes of weighted values or derivatives.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import entries, is_whole, shown
from elmfield._array.typing import Array, Floats, Integers

Noise = float | Array | None
"""Standard deviation: a number, one per row, 0 for rows that are kept exactly, None if unknown."""


@dataclass(frozen=True, eq=False)
class Term:
    """``weight_i Π_k Σ_q weights_k[i, q] ∂_k^order_k f(positions_k[i, q])`` for rows i.

    Parameters
    ----------
    order : tuple of int
        How often each axis is differentiated.
    positions, weights : lists of arrays, shape (n, q_k)
        Of each axis, in its own unit.
    factor : array, shape (n,)
        The weight of all of it.
    row : integer array, shape (n,), or None
        The rows that summands belong to; None for one each.
    channel : int or None
        Which channel of the function; None for a row of each.
    """

    order: tuple[int, ...]
    positions: list[Floats] = field(repr=False)
    weights: list[Floats] = field(repr=False)
    factor: Floats = field(repr=False)
    row: Integers | None = field(default=None, repr=False)
    channel: int | None = None


@dataclass(frozen=True)
class Resolution:
    """What quadrature has to resolve along each axis: pieces between `breaks`, and waves.

    Parameters
    ----------
    breaks : list of arrays
        Places on each axis between which the function is smooth, both ends included.
    nodes : tuple of int
        Nodes that integrate it exactly from one break to the next.
    line : tuple of float
        Nodes that a line along all of an axis needs.
    """

    breaks: list[Floats]
    nodes: tuple[int, ...]
    line: tuple[float, ...]


class Functional(Protocol):
    """What was observed: rows of one kind."""

    @property
    def places(self) -> Floats:
        """Corners of where rows look, (m, d): they have to lie inside the domain."""

    def terms(self, resolution: Resolution) -> list[Term]:
        """The rows as sums of products over axes."""


@dataclass(frozen=True, eq=False)
class Observation:
    """Rows of one kind and one instrument.

    Parameters
    ----------
    kind : str
        What they are.
    functional : Functional, or a matrix or LinearOperator
        How a function gives them; a matrix acts on the samples of the grid, in array order.
    values : array, shape (n,) or (n, C)
        What was measured.
    noise : float, array of shape (n,), or None
        Its standard deviation; 0 for rows that are kept, None if unknown.
    """

    kind: str
    functional: Functional = field(repr=False)
    values: Floats = field(repr=False)
    noise: Floats | float | None = None
    like: Array | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_exact(self) -> bool:
        """Whether its rows are to be kept."""
        return self.noise is not None and not np.any(self.noise)

    @property
    def is_law(self) -> bool:
        """Whether it is an equation: a basis may be unable to meet it everywhere."""
        return self.kind in ("equation", "divergence")


def observation(
    kind: str, functional: Functional, n: int, values: object, noise: Noise
) -> Observation:
    """Check what was measured and its noise, against n rows."""
    if np.ndim(to_numpy(values) if is_array(values) else values) == 0:
        values = np.full(n, values)
    y = _numbers("values", values)
    if y.ndim not in (1, 2) or len(y) != n:
        raise ValueError(
            f"{kind}: {n} rows need values of shape ({n},) or ({n}, C); got {y.shape}."
        )
    if n == 0:
        raise ValueError(f"{kind}: there must be at least one row; got none.")
    if noise is not None:
        sigma = _numbers("noise", noise)
        if sigma.shape not in ((), (n,)) or (sigma < 0).any():
            raise ValueError(
                f"{kind}: `noise` must be None, or a standard deviation, 0 or more, for all rows or "
                f"each of {n}; got {shown(noise)}."
            )
        if sigma.ndim and np.any(sigma) and not np.all(sigma):
            raise ValueError(
                f"{kind}: `noise` must be 0 for all rows or none of them; {int((sigma == 0).sum())} "
                f"of {n} are 0. Make two observations of them."
            )
        noise = float(sigma) if sigma.ndim == 0 else sigma
    return Observation(kind, functional, y, noise, values if is_array(values) else None)


def _numbers(name: str, values: object) -> Floats:
    found = np.asarray(to_numpy(values) if is_array(values) else values)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold real numbers; got {shown(values)}.")
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError(
            f"`{name}` must be finite; {int((~np.isfinite(found)).sum())} of {found.size} are not. "
            "Leave such rows out."
        )
    return found


def _places(name: str, points: object) -> Floats:
    """Positions (n, d); a line of numbers is n positions on one axis."""
    x = _numbers(name, points)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"`{name}` must have shape (n, d); got {x.shape}.")
    return x


def _orders(order: object, d: int) -> tuple[int, ...]:
    each = entries(order) if entries(order) is not None else (order,)
    if each is None or len(each) != d or not all(is_whole(a) and 0 <= a <= 8 for a in each):
        raise ValueError(
            f"`order` must be {d} whole numbers, 0 to 8: how often each axis is differentiated; got "
            f"{shown(order)}."
        )
    return tuple(int(a) for a in each)


@dataclass(frozen=True, eq=False)
class AtPoints:
    """Sums of derivatives at points, (n, d): pairs of order and weights; perhaps of channels."""

    places: Floats
    parts: list[tuple[tuple[int, ...], Floats, int | None]]

    def terms(self, resolution: Resolution) -> list[Term]:
        """A term for each derivative."""
        x = [self.places[:, k : k + 1] for k in range(self.places.shape[1])]
        ones = [np.ones_like(c) for c in x]
        return [Term(order, x, ones, w, None, c) for order, w, c in self.parts]


@dataclass(frozen=True, eq=False)
class OverBoxes:
    """Means over boxes with corners `low` and `high`, (n, d)."""

    low: Floats
    high: Floats

    @property
    def places(self) -> Floats:
        """All corners."""
        return np.concatenate([self.low, self.high])

    def terms(self, resolution: Resolution) -> list[Term]:
        """One term: quadrature along each axis, exact between breaks."""
        found = [
            _quadrature(a, b, resolution.breaks[k], resolution.nodes[k])
            for k, (a, b) in enumerate(zip(self.low.T, self.high.T))
        ]
        x, w = ([one[i] for one in found] for i in (0, 1))
        return [Term((0,) * len(x), x, w, np.ones(len(self.low)))]


@dataclass(frozen=True, eq=False)
class AlongLines:
    """Integrals along segments from `start` to `end`, (n, d)."""

    start: Floats
    end: Floats

    @property
    def places(self) -> Floats:
        """Both ends."""
        return np.concatenate([self.start, self.end])

    def terms(self, resolution: Resolution) -> list[Term]:
        """One term per node: summands of all rows."""
        way, n = self.end - self.start, len(self.start)
        whole = np.array([b[-1] - b[0] for b in resolution.breaks])
        q = (np.abs(way) / whole) @ np.asarray(resolution.line)
        q = 16 * np.ceil(q / 16).astype(int)
        t, w = (np.zeros((n, int(q.max()))) for _ in range(2))
        for m in np.unique(q):
            s, v = np.polynomial.legendre.leggauss(int(m))
            t[q == m, :m], w[q == m, :m] = (1 + s) / 2, v / 2
        row, node = np.nonzero(w)  # in order of rows
        x = self.start[row] + t[row, node][:, None] * way[row]
        length = np.sqrt((way**2).sum(axis=1))
        columns = [x[:, k : k + 1] for k in range(x.shape[1])]
        ones = [np.ones_like(c) for c in columns]
        return [Term((0,) * len(ones), columns, ones, w[row, node] * length[row], row)]


Kernel = tuple[list[Floats], list[Floats]] | tuple[Floats, Floats]
"""Offsets and weights: of each axis, (q_k,), for a product; or (q, d) and (q,) for any other."""


@dataclass(frozen=True, eq=False)
class ThroughKernel:
    """``Σ_q w_q f(x + o_q)`` at points x: a picture seen through a point spread.

    Where a node falls beyond the domain, the other weights are raised to the same sum.
    """

    places: Floats
    kernel: Kernel | Callable[[Floats], tuple[Floats, Floats]]

    def terms(self, resolution: Resolution) -> list[Term]:
        """One term: a product of axes, or a summand for each node."""
        x, d = self.places, self.places.shape[1]
        order, low = (0,) * d, [(b[0], b[-1]) for b in resolution.breaks]
        if callable(self.kernel) or isinstance(self.kernel[0], np.ndarray):
            if callable(self.kernel):
                o, w = self.kernel(x)
            else:
                o, w = (np.broadcast_to(a, (len(x), *a.shape)) for a in self.kernel)
            at = x[:, None, :] + o
            inside = np.all(
                [(at[..., k] >= a) & (at[..., k] <= b) for k, (a, b) in enumerate(low)], 0
            )
            w = _kept_sum(np.asarray(w, np.float64), inside)
            row, node = np.nonzero(w)
            columns = [at[row, node, k][:, None] for k in range(d)]
            return [Term(order, columns, [np.ones_like(c) for c in columns], w[row, node], row)]
        at = [x[:, k : k + 1] + o for k, o in enumerate(self.kernel[0])]
        weights = [
            _kept_sum(np.broadcast_to(w, a.shape), (a >= low[k][0]) & (a <= low[k][1]))
            for k, (w, a) in enumerate(zip(self.kernel[1], at))
        ]
        at = [np.clip(a, *low[k]) for k, a in enumerate(at)]
        return [Term(order, at, weights, np.ones(len(x)))]


def _kept_sum(w: Floats, inside: Array) -> Floats:
    """Weights of nodes inside, with the sum that all had; a point without any is an error."""
    own = np.where(inside, w, 0.0)
    total = own.sum(axis=-1, keepdims=True)
    if not np.all(np.abs(total) > 1e-3 * np.abs(w).sum(axis=-1, keepdims=True)):
        raise ValueError("blurred: a point sees next to nothing of the domain. Leave it out.")
    return np.asarray(own * (w.sum(axis=-1, keepdims=True) / total))


@dataclass(frozen=True, eq=False)
class OnSamples:
    """A matrix or LinearOperator on the samples of the field's grid, in array order."""

    matrix: Array
    places = np.zeros((0, 0))

    def terms(self, resolution: Resolution) -> list[Term]:
        """None: it sees samples only."""
        return []


def _quadrature(low: Floats, high: Floats, breaks: Floats, nodes: int) -> tuple[Floats, Floats]:
    """Nodes and weights (n, q) of means over intervals, exact for polynomials between breaks."""
    part = min(1.0, float(np.max((high - low) / np.max(np.diff(breaks)))))
    waves = np.arccos(1 - 2 * part) / np.pi  # a short box sees few of them, most at the ends
    q = min(nodes, 10 + int(np.ceil(2 * nodes * waves)))
    s, v = np.polynomial.legendre.leggauss(q)
    first = int(np.max(np.searchsorted(breaks, high) - np.searchsorted(breaks, low, side="right")))
    begin = np.searchsorted(breaks, low, side="right") - 1
    x, w = [], []
    for j in range(first + 1):
        i = np.clip(begin + j, 0, len(breaks) - 2)
        a = np.maximum(low, breaks[i])
        b = np.where(begin + j == i, np.minimum(high, breaks[i + 1]), a)
        half = np.maximum(b - a, 0)[:, None] / 2
        x.append(a[:, None] + half * (1 + s))
        w.append(half * v / (high - low)[:, None])
    return np.concatenate(x, axis=1), np.concatenate(w, axis=1)


def values(points: Array, y: Array, *, noise: Noise = None) -> Observation:
    """Values at points, (n, d): (n,) or (n, C).

    Parameters
    ----------
    points : array, shape (n, d)
        Where, in the unit of the domain.
    y : array, shape (n,) or (n, C)
        What was measured.
    noise : float or array, optional
        Standard deviation, for all rows or each; 0 keeps them exactly, None: estimated.

    Examples
    --------
    >>> from elmfield import observe as ob
    >>> ob.values([[0.5, 0.5]], [1.0], noise=0.1)
    Observation(kind='values', noise=0.1)
    """
    x = _places("points", points)
    parts = [((0,) * x.shape[1], np.ones(len(x)), None)]
    return observation("values", AtPoints(x, parts), len(x), y, noise)


def derivatives(
    points: Array, g: Array, *, order: Sequence[int] | int, noise: Noise = None
) -> Observation:
    """Derivatives at points, (n, d), `order` times along each axis, per unit of the coordinates."""
    x = _places("points", points)
    parts = [(_orders(order, x.shape[1]), np.ones(len(x)), None)]
    return observation("derivatives", AtPoints(x, parts), len(x), g, noise)


def means(low: Array, high: Array, m: Array, *, noise: Noise = 0) -> Observation:
    """Means over boxes from `low` to `high`, (n, d) each; kept exactly unless noise is given."""
    a, b = _places("low", low), _places("high", high)
    if a.shape != b.shape or not np.all(a < b):
        raise ValueError(
            f"means: `low` must lie below `high` on every axis, shapes (n, d); got shapes {a.shape} "
            f"and {b.shape}."
        )
    return observation("means", OverBoxes(a, b), len(a), m, noise)


def lines(start: Array, end: Array, p: Array, *, noise: Noise = None) -> Observation:
    """Integrals along segments from `start` to `end`, (n, d) each, by their length."""
    a, b = _places("start", start), _places("end", end)
    if a.shape != b.shape:
        raise ValueError(f"lines: as many starts as ends; got shapes {a.shape} and {b.shape}.")
    return observation("lines", AlongLines(a, b), len(a), p, noise)


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian point spread; see :func:`gaussian`."""

    width: float | tuple[float, ...]
    step: float | tuple[float, ...] | None = None


def gaussian(width: float | Sequence[float], *, step: float | None = None) -> Gaussian:
    """A Gaussian point spread of this standard deviation, for all axes or one by one.

    `step` sums its samples so far apart instead of integrating it: as a picture was blurred that
    was made of pixels.
    """
    each = entries(width)
    return Gaussian(width if each is None else tuple(each), step)


def blurred(
    points: Array, b: Array, *, psf: object, noise: Noise = None, step: float = 1.0
) -> Observation:
    """Values seen through a point spread, at points (n, d).

    Parameters
    ----------
    psf : Gaussian, array, or callable
        ``gaussian(width)``; a kernel of d axes sampled `step` apart, centre in the middle (not
        normalised); or, where it varies, a function of points (n, d) that returns offsets
        (n, q, d) and weights (n, q).
    """
    x = _places("points", points)
    d = x.shape[1]
    if isinstance(psf, Gaussian):
        widths = np.broadcast_to(np.asarray(psf.width, float), (d,))
        steps = widths / 2 if psf.step is None else np.full(d, float(psf.step))
        o = [
            h * np.arange(-(reach := int(np.ceil(4.5 * s / h))), reach + 1)
            for s, h in zip(widths, steps)
        ]
        w = [np.exp(-((c / s) ** 2) / 2) for c, s in zip(o, widths)]
        kernel: object = (o, [c / c.sum() for c in w])
    elif callable(psf):
        kernel = psf
    else:
        K = _numbers("psf", psf)
        if K.ndim != d or not K.any():
            raise ValueError(f"`psf` must have {d} axes and weights; got shape {K.shape}.")
        grid = np.stack(
            np.meshgrid(*(np.arange(n) - (n - 1) / 2 for n in K.shape), indexing="ij"), -1
        )
        kernel = (step * grid.reshape(-1, d), K.reshape(-1))
    return observation("blurred", ThroughKernel(x, kernel), len(x), b, noise)  # type: ignore[arg-type]


def equation(
    points: Array, terms: Mapping[Sequence[int], object], rhs: object = 0.0, *, noise: Noise = 0
) -> Observation:
    """A linear differential equation at points: ``Σ coefficient ∂^order f = rhs``.

    Parameters
    ----------
    terms : mapping
        Coefficients by order, ``{(2, 0): 1, (0, 2): 1, (0, 0): -10}``: numbers, or one per point.
    rhs : number or array, shape (n,) or (n, C)
        The right-hand side.
    """
    x = _places("points", points)
    if not isinstance(terms, Mapping) or not terms:
        raise TypeError(
            f"`terms` must be a mapping from orders to coefficients; got {shown(terms)}."
        )
    parts: list[tuple[tuple[int, ...], Floats, int | None]] = []
    for order, c in terms.items():
        w = _numbers("terms", c)
        if w.shape not in ((), (len(x),)):
            raise ValueError(
                f"a coefficient is a number, or one per point, {len(x)}; got {w.shape}."
            )
        parts.append((_orders(order, x.shape[1]), np.broadcast_to(w, (len(x),)), None))
    return observation("equation", AtPoints(x, parts), len(x), rhs, noise)


def divergence(points: Array, q: object = 0.0, *, noise: Noise = 0) -> Observation:
    """The divergence at points of a function with one channel per axis."""
    x = _places("points", points)
    d, ones = x.shape[1], np.ones(len(x))
    parts: list[tuple[tuple[int, ...], Floats, int | None]] = [
        (tuple(int(j == k) for j in range(d)), ones, k) for k in range(d)
    ]
    return observation("divergence", AtPoints(x, parts), len(x), q, noise)


def operator(A: Array, y: Array, *, noise: Noise = None) -> Observation:
    """What a matrix, sparse or not, or a LinearOperator makes of the samples of the grid."""
    shape = getattr(A, "shape", ())
    if len(shape) != 2 or not (hasattr(A, "rmatvec") or hasattr(A, "T")):
        raise TypeError(f"`A` must be a matrix or a scipy LinearOperator; got {shown(A)}.")
    return observation("operator", OnSamples(A), int(shape[0]), y, noise)
