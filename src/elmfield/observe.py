"""What can be observed of a function: rows for :func:`elmfield.fit_observations`.

>>> from elmfield import observe as ob
>>> ob.means([0.0], [31.0], [4.5])
Observation(kind='means', noise=0.0)

Positions, widths and lengths are in the unit of the domain. `noise` is a standard deviation, for
all rows or one each; 0 keeps rows exactly, None lets the evidence find it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from elmfield._array.checks import wrong
from elmfield._array.typing import Array
from elmfield.fit.observations import observation as rows
from elmfield.fit.observations.observation import Noise, Observation, as_places, observation

__all__ = [
    "Observation",
    "blurred",
    "derivatives",
    "divergence",
    "equation",
    "gaussian",
    "lines",
    "means",
    "operator",
    "values",
]


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
    x = as_places("points", points)
    terms = partial(rows.point_terms, x, [((), np.ones(len(x)), None)])
    return observation("values", x, terms, y, noise)


def derivatives(
    points: Array, g: Array, *, order: Sequence[int] | int, noise: Noise = None
) -> Observation:
    """Derivatives at points, (n, d), `order` times along each axis, per unit of the coordinates."""
    x = as_places("points", points)
    parts: list[rows.Part] = [(rows.as_orders(order, x.shape[1]), np.ones(len(x)), None)]
    return observation("derivatives", x, partial(rows.point_terms, x, parts), g, noise)


def means(low: Array, high: Array, m: Array, *, noise: Noise = 0) -> Observation:
    """Means over boxes from `low` to `high`, (n, d) each; kept exactly unless noise is given."""
    a, b = as_places("low", low), as_places("high", high)
    if a.shape != b.shape or not np.all(a < b):
        got = f"shapes {a.shape} and {b.shape}"
        if a.shape == b.shape:
            got = f"{int((a >= b).any(axis=1).sum())} of {len(a)} boxes where it does not"
        raise ValueError(f"means: `low` must lie below `high` on every axis, (n, d); got {got}.")
    terms = partial(rows.box_terms, a, b)
    return observation("means", np.concatenate([a, b]), terms, m, noise, len(a))


def lines(start: Array, end: Array, p: Array, *, noise: Noise = None) -> Observation:
    """Integrals along segments from `start` to `end`, (n, d) each, by their length."""
    a, b = as_places("start", start), as_places("end", end)
    if a.shape != b.shape or (a == b).all(axis=1).any():
        got = f"shapes {a.shape} and {b.shape}"
        raise ValueError(f"lines: `end` must differ from `start` everywhere, (n, d); got {got}.")
    terms = partial(rows.line_terms, a, b)
    return observation("lines", np.concatenate([a, b]), terms, p, noise, len(a))


@dataclass(frozen=True)
class Gaussian:
    """A Gaussian point spread; see :func:`gaussian`."""

    width: tuple[float, ...]
    step: float | None = None


def gaussian(width: float | Sequence[float], *, step: float | None = None) -> Gaussian:
    """A Gaussian point spread of this standard deviation, for all axes or one by one.

    `step` sums its samples so far apart instead of integrating it: as a picture was blurred that
    was made of pixels.
    """
    each = tuple(np.atleast_1d(rows.as_numbers("width", width)).tolist())
    if min(each) <= 0 or (step is not None and not step > 0):
        raise ValueError(f"`width` and `step` must be above 0; got {width!r} and {step!r}.")
    return Gaussian(each, step)


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
    x = as_places("points", points)
    d = x.shape[1]
    if isinstance(psf, Gaussian):
        o, w = [], []
        for s in np.broadcast_to(psf.width, (d,)).tolist():
            h = s / 2 if psf.step is None else psf.step
            reach = int(np.ceil(4.5 * s / h - 1e-9))
            o.append(h * np.arange(-reach, reach + 1.0))
            c = np.exp(-((o[-1] / s) ** 2) / 2)
            w.append(np.asarray(c / c.sum()))
        terms = partial(rows.product_terms, x, o, w)
    elif callable(psf):
        terms = partial(rows.kernel_terms, x, psf)
    else:
        K = rows.as_numbers("psf", psf)
        if K.ndim != d or not K.any():
            raise ValueError(f"`psf` must have {d} axes and weights; got shape {K.shape}.")
        along = (step * (np.arange(n) - (n - 1) / 2) for n in K.shape)
        grid = np.stack(np.meshgrid(*along, indexing="ij"), -1).reshape(-1, d)
        terms = partial(rows.kernel_terms, x, (grid, K.reshape(-1)))
    return observation("blurred", x, terms, b, noise)


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
    x = as_places("points", points)
    if not isinstance(terms, Mapping) or not terms:
        raise wrong("terms", "be a mapping from orders to coefficients", terms, TypeError)
    parts: list[rows.Part] = []
    for order, c in terms.items():
        w = rows.as_numbers("terms", c)
        if w.shape not in ((), (len(x),)):
            raise wrong("terms", f"hold numbers, or one per point, {len(x)}", w.shape)
        parts.append((rows.as_orders(order, x.shape[1]), np.broadcast_to(w, (len(x),)), None))
    return observation("equation", x, partial(rows.point_terms, x, parts), rhs, noise)


def divergence(points: Array, q: object = 0.0, *, noise: Noise = 0) -> Observation:
    """The divergence at points of a function with one channel per axis."""
    x = as_places("points", points)
    d, ones = x.shape[1], np.ones(len(x))
    parts: list[rows.Part] = [(tuple(int(j == k) for j in range(d)), ones, k) for k in range(d)]
    return observation("divergence", x, partial(rows.point_terms, x, parts), q, noise)


def operator(A: Array, y: Array, *, noise: Noise = None) -> Observation:
    """What a matrix, sparse or not, or a LinearOperator makes of the samples of the grid."""
    shape: tuple[int, ...] = tuple(getattr(A, "shape", ()))
    if len(shape) != 2 or not (hasattr(A, "rmatvec") or hasattr(A, "T")):
        raise wrong("A", "be a matrix or a scipy LinearOperator", A, TypeError)
    return observation("operator", np.zeros((0, 0)), A, y, noise, int(shape[0]))
