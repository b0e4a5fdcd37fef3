"""Observations: linear functionals of a function, with what was measured and how well.

Each kind becomes a sum of :class:`Term`: products over axes of weighted values or derivatives.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import numbers, sizes_of, wrong
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
    periodic: tuple[bool, ...]

    @property
    def lengths(self) -> Floats:
        """Of the axes."""
        return np.array([b[-1] - b[0] for b in self.breaks])

    @property
    def ends(self) -> list[tuple[float, float]]:
        """Of the axes; those that repeat have none."""
        both = zip(self.breaks, self.periodic)
        return [(-np.inf, np.inf) if wraps else (b[0], b[-1]) for b, wraps in both]

    def around(self, k: int) -> Floats:
        """Breaks of axis k, once more at either side where it repeats."""
        b = self.breaks[k]
        if not self.periodic[k]:
            return b
        return np.concatenate([b[:-1] - self.lengths[k], b, b[1:] + self.lengths[k]])


@dataclass(frozen=True, eq=False)
class Observation:
    """Rows of one kind and one instrument.

    Parameters
    ----------
    kind : str
        What they are.
    places : array, shape (m, d)
        Corners of where rows look: they have to lie inside the domain.
    terms : callable, or a matrix or LinearOperator
        The rows as sums of products over axes; a matrix acts on the samples of the grid, in array
        order.
    values : array, shape (n,) or (n, C)
        What was measured.
    noise : float, array of shape (n,), or None
        Its standard deviation; 0 for rows that are kept, None if unknown.
    """

    kind: str
    places: Floats = field(repr=False)
    terms: Callable[[Resolution], list[Term]] | Array = field(repr=False)
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
    def sigma(self) -> Floats | None:
        """The noise of each row, (n,), where it is known and not 0."""
        is_known = self.noise is not None and not self.is_exact
        return np.broadcast_to(np.asarray(self.noise, float), (len(self),)) if is_known else None

    def divided(self, by: Floats | float) -> "Observation":
        """The same of values (n, C) and their noise, divided by a number or one per row."""
        noise = None if self.noise is None else np.asarray(self.noise) / by
        return replace(self, values=self.values / np.reshape(by, (-1, 1)), noise=noise)


def observation(
    kind: str, places: Floats, terms: Any, values: Any, noise: Noise, n: int | None = None
) -> Observation:
    """Check what was measured and its noise, against n rows, or one for each place."""
    n = len(places) if n is None else n
    y = as_numbers("values", values)
    y = np.full(n, y) if y.ndim == 0 else y
    if y.ndim not in (1, 2) or len(y) != n:
        told = f"{n} rows need values of shape ({n},) or ({n}, C)"
        raise ValueError(f"{kind}: {told}; got {y.shape}.")
    if n == 0:
        raise ValueError(f"{kind}: there must be at least one row; got none.")
    if noise is not None:
        sigma = as_numbers("noise", noise)
        if sigma.shape not in ((), (n,)) or (sigma < 0).any():
            must = f"be None, or a standard deviation, 0 or more, for all rows or each of {n}"
            raise wrong("noise", must, noise, hint=f"These are {kind}.")
        if sigma.ndim and np.any(sigma) and not np.all(sigma):
            none = f"{int((sigma == 0).sum())} zeros of {n}"
            raise wrong("noise", "be 0 for all rows or none", none, hint="Make two observations.")
        noise = float(sigma) if sigma.ndim == 0 else sigma
    return Observation(kind, places, terms, y, noise, values if is_array(values) else None)


def as_numbers(name: str, values: Any) -> Floats:
    """Finite real numbers in float64."""
    found = numbers(name, to_numpy(values) if is_array(values) else values)
    if not np.isfinite(found).all():
        told = f"{int((~np.isfinite(found)).sum())} of {found.size} are not"
        raise ValueError(f"`{name}` must be finite; {told}. Leave such rows out.")
    return found


def as_places(name: str, points: Any) -> Floats:
    """Positions (n, d); a line of numbers is n positions on one axis."""
    x = as_numbers(name, points)
    x = np.atleast_2d(x.T).T if x.ndim == 1 else x
    if x.ndim != 2 or x.shape[1] == 0:
        raise wrong(name, "have shape (n, d)", x.shape)
    return x


def as_orders(order: object, d: int) -> tuple[int, ...]:
    """How often each of d axes is differentiated."""
    each = sizes_of("order", order, d, least=0)
    if max(each) > 8:
        raise wrong("order", "be at most 8: how often each axis is differentiated", order)
    return each


Part = tuple[tuple[int, ...], Floats, int | None]
"""A derivative's order, its weight at each point, and the channel, None for all."""


def point_terms(x: Floats, parts: list[Part], resolution: Resolution) -> list[Term]:
    """Sums of derivatives at points x, (n, d): a term for each of them, with one node a point."""
    columns, d = list(x.T[:, :, None]), x.shape[1]
    ones = [np.ones((len(x), 1))] * d
    return [Term(order or (0,) * d, columns, ones, w, channel=c) for order, w, c in parts]


def _sums(x: Floats, weights: Floats, row: Integers, resolution: Resolution) -> list[Term]:
    """Sums of values at points x, (n, d), each a summand of a row."""
    every = point_terms(x, [((), weights, None)], resolution)
    return [replace(term, row=row) for term in every]


def box_terms(low: Floats, high: Floats, resolution: Resolution) -> list[Term]:
    """Means over boxes with corners (n, d): quadrature along each axis, exact between breaks."""
    each = enumerate(zip(low.T, high.T, resolution.nodes))
    x, w = zip(*(_quadrature(a, b, resolution.around(k), n) for k, (a, b, n) in each))
    return [Term((0,) * len(x), list(x), list(w), np.ones(len(low)))]


def line_terms(start: Floats, end: Floats, resolution: Resolution) -> list[Term]:
    """Integrals along segments between points (n, d): a summand for each node."""
    way, n = end - start, len(start)
    q = (np.abs(way) / resolution.lengths) @ np.asarray(resolution.line)
    q = 16 * np.ceil(q / 16).astype(int)
    t, w = (np.zeros((n, int(q.max()))) for _ in range(2))
    for m in np.unique(q):
        s, v = np.polynomial.legendre.leggauss(int(m))
        t[q == m, :m], w[q == m, :m] = (1 + s) / 2, v / 2
    row, node = np.nonzero(w)  # in order of rows
    x = start[row] + t[row, node][:, None] * way[row]
    length = np.sqrt((way**2).sum(axis=1))
    return _sums(x, w[row, node] * length[row], row, resolution)


def product_terms(
    x: Floats, offsets: list[Floats], weights: list[Floats], resolution: Resolution
) -> list[Term]:
    """Points seen through a point spread that is a product: offsets and weights of each axis.

    Where a node falls beyond the domain, the other weights are raised to the same sum.
    """
    at, own = [], []
    for k, (low, high) in enumerate(resolution.ends):
        p = x[:, k : k + 1] + offsets[k]
        own.append(_kept_sum(np.broadcast_to(weights[k], p.shape), (p >= low) & (p <= high)))
        at.append(np.clip(p, low, high))
    return [Term((0,) * len(at), at, own, np.ones(len(x)))]


Kernel = tuple[Floats, Floats] | Callable[[Floats], tuple[Floats, Floats]]
"""Offsets (q, d) and weights (q,) of nodes; or a function of points, (n, q, d) and (n, q)."""


def kernel_terms(x: Floats, kernel: Kernel, resolution: Resolution) -> list[Term]:
    """``Σ_q w_q f(x + o_q)`` at points x: a summand for each node."""
    o, w = kernel(x) if callable(kernel) else kernel
    at = x[:, None, :] + o
    low, high = np.asarray(resolution.ends).T
    inside = np.all((at >= low) & (at <= high), axis=-1)
    w = _kept_sum(np.broadcast_to(np.asarray(w, np.float64), inside.shape), inside)
    row, node = np.nonzero(w)
    return _sums(at[row, node], w[row, node], row, resolution)


def _kept_sum(w: Floats, inside: Array) -> Floats:
    """Weights of nodes inside, with the sum that all had; a point without any is an error."""
    own = np.where(inside, w, 0.0)
    total = own.sum(axis=-1, keepdims=True)
    if not np.all(np.abs(total) > 1e-3 * np.abs(w).sum(axis=-1, keepdims=True)):
        raise ValueError("blurred: a point sees next to nothing of the domain. Leave it out.")
    return np.asarray(own * (w.sum(axis=-1, keepdims=True) / total))


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
