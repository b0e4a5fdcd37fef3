"""Modes of an uneven axis: those of its samples' numbers, with splines of their positions between.

What is projected, coded and dropped is the same for every box, as on an even axis. Only the
functions between the samples differ from box to box: a spline through the modes' values, at the
positions of the box's own samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from elmfield._array.autograd import gradient_error
from elmfield._array.backend import move, namespace, requires_grad, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.domain import Spacing
from elmfield.local.bases.axis_modes import AxisModes
from elmfield.local.bases.product_modes import ProductModes
from elmfield.local.layers import Pieces, split
from elmfield.samples import Grid, View

M = TypeVar("M")

DEGREES = (1, 3, 5, 7)
"""Of splines of order 1, 2, 3 and 4; between two orders their mixture."""

ORDER_STEP = 0.25
"""Between the orders that are tried."""

FOLDS = 10
"""One of so many samples is left out at a time: their gaps do not feel each other."""

KEPT_BOXES = 256
"""Boxes whose polynomials are kept."""

MOST_GROWTH = 4096.0
"""How many times larger than its samples a spline may become; of several uneven axes together.

Next to a wide gap two samples a thousandth of it apart make 150 of one at order 2, 10 000 at order
3: rounding and noise grow as much. A box whose splines would grow more takes a lower order; at
order 1 they do not grow."""

MOST_LINES, MOST_RUNS = 256, 16
"""Lines along an axis, and runs of samples on each, from which the order is chosen."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SplineModes(AxisModes):
    """The modes of an axis whose samples lie at positions of their own.

    Values at the samples, or means over their cells, and the order are those of even samples.

    Parameters
    ----------
    spacing : Spacing
        Where the samples of the whole axis lie.
    growth : float
        How many times larger than its samples the spline of a box may become.
    centres : array, optional
        Index coordinates of the centres of the boxes that are asked, as `at` was given them.
    part : int
        Which functions are meant: 0 the modes, 1 their `deviations`.

    Notes
    -----
    A spline of degree 2s - 1 has knots at all samples but the s - 1 next to either end ("not a
    knot"): polynomials up to that degree are exact, and its error at the ends is of the same order
    as inside. Box by box, so that what lies far away plays no part. Derivatives are by the
    position, in steps: across a sample they go on smoothly, as those by the index would not.

    With means over cells it is the derivative of the spline, of degree 2s + 1, through integrals up
    to the cells' borders: its means are the samples, to rounding.
    """

    spacing: Spacing
    growth: float = MOST_GROWTH
    centres: Floats | None = field(default=None, repr=False)
    part: int = 0
    _kept: dict[int, tuple[list[Pieces], Floats]] = field(default_factory=dict, repr=False)

    pieces = None  # type: ignore[assignment]

    @property
    def mixing(self) -> Floats:
        """Each mode as a sum of splines that are 1 at one sample and 0 at the others, (n, r)."""
        return self.basis

    @property
    def deviations(self) -> "SplineModes | None":  # type: ignore[override]
        """Integrals of the functions less their means over cells; None for values at points."""
        return replace(self, part=1) if self.means else None

    def at(self, centres: Array) -> "SplineModes":
        """The functions of boxes around `centres`, in a shape that fits that of offsets."""
        return replace(self, centres=np.asarray(centres, np.float64))

    def __call__(self, u: Array, order: int = 0) -> Array:
        """Mode functions, (..., r), at offsets `u` from the boxes' centres; derivatives by steps.

        Offsets in index coordinates, at most one sample beyond the box.
        """
        if requires_grad(u):
            raise gradient_error("the splines of an uneven axis, with points that are followed too")
        n, offsets = len(self.basis), np.asarray(to_numpy(u), np.float64)
        flat = offsets.reshape(-1)
        given = 0.0 if self.centres is None else self.centres
        starts = np.broadcast_to(np.rint(given - (n - 1) / 2), offsets.shape).astype(np.int64)
        found, own = np.unique(starts, return_inverse=True)
        by_box = np.argsort(own.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(own.reshape(-1), minlength=len(found)))
        out = np.empty((len(flat), self.width))
        for start, some in zip(found.tolist(), np.split(by_box, ends[:-1])):
            (pieces, gaps), m = self._of_box(start), 1 + self.means
            j, s = split(pieces[self.part].scaled(flat[some]))
            rows = pieces[self.part].at(j, s, order)
            out[some] = rows if order == 0 else rows / (m * gaps[j, None]) ** order
        return move(out.reshape(*offsets.shape, -1), u, u.dtype)

    anywhere = __call__

    def _of_box(self, start: int) -> tuple[list[Pieces], Floats]:
        """The functions as polynomials on intervals of a box, and these intervals' lengths.

        Between samples; of means on halves of their cells, where index coordinates may bend.
        """
        found = self._kept.get(start)
        if found is None:
            n, make = len(self.basis), cell_spline_pieces if self.means else spline_pieces
            at = np.arange(2 * n + 5) / 2 - 1.5 if self.means else np.arange(-1.0, n + 1)
            x = self.spacing.to_steps(start + at)
            order, inner = self.order, slice(1 + self.means, -1 - self.means)
            pieces = make(x, order)
            while order > 1 and growth_of(pieces[0][inner]) > self.growth:
                order = max(1.0, order - ORDER_STEP)
                pieces = make(x, order)
            ends = at[0] - (n - 1) / 2, 1 + self.means
            found = [Pieces(*ends, p @ self.basis) for p in pieces], np.diff(x)
            if len(self._kept) >= KEPT_BOXES:
                self._kept.clear()
            self._kept[start] = found
        return found


def weights_of(order: float) -> list[tuple[int, float]]:
    """Degrees of splines and their weights in the mixture that stands for an order."""
    s = min(max(order, 1.0), float(len(DEGREES)))
    low = min(int(s), len(DEGREES) - 1)
    both = ((DEGREES[low - 1], low + 1 - s), (DEGREES[low], s - low))
    return [(degree, w) for degree, w in both if w > 0]


def spline(x: Floats, y: Floats, degree: int) -> Any:
    """The spline through values y, (n, ...), at x, (n,), of a degree or as high as n allows."""
    from scipy.interpolate import make_interp_spline  # 0.1 s, for uneven axes only

    n = len(x)
    degree = min(degree, n - 1)
    return make_interp_spline(x, y, k=degree - (degree % 2 == 0 and n > degree + 1))


def spline_pieces(x: Floats, order: float) -> list[Floats]:
    """Splines that are 1 at one sample and 0 at the others, as powers of s: (n + 1, p, n).

    Samples lie at ``x[1:-1]``; on interval j, from ``x[j]`` to ``x[j + 1]``, s goes from -1 to 1.
    """
    # The outermost polynomials go on: their intervals end at samples, which they begin from.
    return [np.ones((2, 1, 1)) if len(x) == 3 else _powers(x, x[1:-1], np.eye(len(x) - 2), order)]


def cell_spline_pieces(x: Floats, order: float) -> list[Floats]:
    """The same with means over cells for values; and integrals of these functions less their means.

    Borders of cells are ``x[::2]``; the first and the last cell lie beside the samples'.
    """
    e, half = x[::2], np.diff(x)[:, None] / 2
    rises = np.tril(np.ones((len(e) - 2, len(e) - 3)), -1) * np.diff(e[1:-1])
    total = _powers(x, e[1:-1], rises, order, 2)
    p = total.shape[1]
    ends = np.tile([-1.0, 1.0], len(e) - 1)  # of each half of a cell the one that is a border
    at = (np.vander(ends, p, increasing=True)[:, None] @ total)[:, 0]
    left, right = (np.repeat(at[i::2], 2, axis=0) for i in (0, 1))
    slope = (right - left) / np.repeat(np.diff(e), 2)[:, None]
    over = total.copy()
    over[:, 0] -= left + slope * ((x[:-1] + x[1:]) / 2 - np.repeat(e[:-1], 2))[:, None]
    over[:, 1] -= slope * half
    return [(total * np.arange(p)[:, None])[:, 1:] / half[:, None], over]


def _powers(x: Floats, at: Floats, y: Floats, order: float, more: int = 0) -> Floats:
    """The splines of an order, of a degree higher by `more`, through values y, (m, n), at `at`.

    As powers of s on each interval between two of `x`: (J, p, n).
    """
    middle, half = (x[:-1] + x[1:]) / 2, np.diff(x) / 2
    made = [(weight, spline(at, y, degree + more)) for degree, weight in weights_of(order)]
    found = np.zeros((len(half), 1 + max(m.k for _, m in made), y.shape[1]))
    for weight, m in made:
        for t in range(m.k + 1):
            found[:, t] += weight * m(middle, t) * (half**t / math.factorial(t))[:, None]
    return found


def growth_of(pieces: Floats) -> float:
    """The largest sum of sizes of the splines of a box (J, p, n): their Lebesgue constant."""
    s = np.linspace(-1, 1, 7)
    at = np.vander(s, pieces.shape[1], increasing=True) @ pieces  # (J, 7, n)
    return float(np.abs(at).sum(axis=2).max(initial=0))


def uneven_modes(model: M, spacings: Sequence[Spacing | None]) -> M | ProductModes:
    """The modes of a box of an array some of whose axes are uneven; other models as they are."""
    if not any(spacings) or not isinstance(model, ProductModes):
        return model
    growth = MOST_GROWTH ** (1 / sum(s is not None for s in spacings))
    axes = (
        a if s is None else SplineModes(**_parts(a), spacing=s, growth=growth)
        for a, s in zip(model.axes, spacings)
    )
    return ProductModes(tuple(axes))


def even_modes(model: ProductModes) -> ProductModes:
    """The modes that those of uneven axes were made of."""
    return ProductModes(tuple(AxisModes(**_parts(a)) for a in model.axes))


def _parts(modes: AxisModes) -> dict[str, Any]:
    return {f.name: getattr(modes, f.name) for f in fields(AxisModes)}


# --- the order ------------------------------------------------------------------------------------


def spline_order(view: View, k: int, grid: Grid, spacing: Spacing, means: bool = False) -> float:
    """The order whose splines predict samples of axis k best that are left out, from the others.

    From samples of the array on a grid, run by run of samples that follow each other along the
    axis. What is left out lies between others: nothing is predicted beyond the ends. Of `means` a
    border is left out, so that two cells are one, and what each of them has is predicted.

    An order below the cubic spline's has to be nearer along most of the axis too: among few samples
    the widest steps alone decide the sum of squares, where high orders lose most as one is left
    out. Of 300 random soundings 7 % are 10 % worse than the cubic spline then, 9 % without.
    """
    seen = view.on(grid)
    at, first = np.unique(grid[k], return_index=True)
    Y = np.asarray(to_numpy(namespace(seen).moveaxis(seen, k, 0)), np.float64)[first]
    Y = Y.reshape(len(at), -1)
    Y = Y[:, :: max(1, Y.shape[1] // MOST_LINES)]
    orders = np.arange(1.0, len(DEGREES) + ORDER_STEP / 2, ORDER_STEP)
    parts, lengths = list[Floats](), list[Floats]()  # squares by order and place; steps there
    for run in np.split(np.arange(len(at)), np.flatnonzero(np.diff(at) > 1) + 1)[:MOST_RUNS]:
        x, y, size = spacing.at(at[run]), Y[run], np.ones(len(run))
        if means:
            x = spacing.to_steps(np.append(at[run], at[run[-1]] + 1) - 0.5)
            y = np.concatenate([0 * y[:1], np.cumsum(y * np.diff(x)[:, None], axis=0)])
            wide = np.diff(x)
            size = np.minimum(np.append(wide, wide[-1]), np.append(wide[0], wide))
        errors = {degree: np.zeros_like(y) for degree in DEGREES}
        for fold in range(FOLDS):
            out = np.arange(1 + fold, len(x) - 1, FOLDS)
            kept = np.delete(np.arange(len(x)), out)
            for degree, e in errors.items() if len(out) else ():
                e[out] = spline(x[kept], y[kept], degree + 2 * means)(x[out]) - y[out]
        off = (sum(w * errors[d] for d, w in weights_of(o)) / size[:, None] for o in orders)
        parts.append(np.stack([np.sum(e[1:-1] ** 2, axis=1) for e in off]))
        lengths.append(x[2:] - x[:-2])
    each, along = np.concatenate(parts, axis=1), np.concatenate(lengths)
    missed = each.sum(axis=1)
    # Lines are met at every order: the least that is as good as the best but for rounding.
    known = missed <= missed.min() * (1 + 1e-9) + (1e3 * view.eps) ** 2 * Y.size
    best = int(np.argmax(known))
    for higher in range(int(np.argmax(orders >= 2)), best, -1):
        is_nearer = each[best] < each[higher]
        if not known[higher] and 2 * along[is_nearer].sum() <= along.sum():
            return float(orders[higher])
    return float(orders[best])
