"""Modes of one axis of a product layer: orthonormal on its samples, free ones first, then smooth.

They are made of the layer of the axis, a number of samples and an order; factored once, in
float64.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from elmfield._array.backend import is_on_host, requires_grad
from elmfield._array.cache import memoised
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.energy_mixture import fold_parities
from elmfield.local.layers import AxisLayer, Cosines, MakeLayer, Pieces, sample_features
from elmfield.local.model import AxisFunctions

STIFF_ORDER = 2.0
"""From this order on the energy itself tells a slope at the border."""

SLOPE_SAMPLES = 6
"""Samples that tell it below that order. Half a sample beyond the border slopes of 3 / 6 / 16
samples leave 12.7 / 13.0 / 13.1 dB on photographs, 52.6 / 49.3 / 43.5 dB on weather."""

MILD_PRICE_RATIO = 1e5
"""Prices that differ by less leave the eigenvalues of K ten digits."""

BEYOND_SAMPLES = 2
"""Samples by which a box is continued at either end, below that order."""


Functions = tuple[Floats, AxisLayer]
"""Modes as sums of features, (width, r), and the layer that has these."""

Halves = tuple[Floats, Floats, Floats, Integers, Floats]


class LayerFunctions:
    """Sums of a layer's features, `mixing` (width, r), for `n` samples that lie alike in all boxes.

    With `means`, samples are means over their cells.
    """

    def __call__(self: Any, u: Array, order: int = 0) -> Array:
        """The functions, shape (..., r), at offsets `u` from the box's centre, in samples."""
        return self.layer.mixed(u, self.mixing, order)

    @cached_property
    def pieces(self: Any) -> Pieces:
        """The same functions up to one sample beyond the outermost, as polynomials.

        That is where windows end: half a sample to the border, and at most half a sample of overlap
        that no sample of the box stands for.
        """
        found: Pieces = self.layer.pieces(self.mixing, self.n + 1)
        return found

    @cached_property
    def deviations(self: Any) -> Pieces | None:
        """Integrals of the functions less their means over cells; None for values at points."""
        return self.layer.pieces(self.mixing, self.n + 2).deviations() if self.means else None

    def at(self, centres: Array) -> Self:
        """Itself: samples lie alike in all boxes."""
        return self


@dataclass(frozen=True)
class AxisModes(LayerFunctions):
    """Smooth modes of one axis (the Demmler-Reinsch basis of its layer).

    With features A on the samples and prices E, ``K = A E⁻¹ Aᵀ``; free features are X on the
    samples, x(u) between them. The modes are X, orthonormalised, and then the eigenvectors of K
    among what is orthogonal to X: ``U_j · K U_j = γ_j``, γ descending. Mode j is the function

        a(u) E⁻¹ Aᵀ U_j / γ_j - x(u) X⁺ K U_j / γ_j ,

    of all functions with the values U_j at the samples the one of least energy. Polynomials that
    are free are sums of the first modes, everywhere.

    Parameters
    ----------
    basis : array, shape (n, r)
        U.
    smoothness : array, shape (r,)
        γ. That of a free mode is infinite; what stands here is the largest of the others, so that
        its products with rough modes of other axes rank among theirs.
    functions : callable
        Gives each mode as a sum of features, (width, r), and the layer that has them; called once,
        when values between the samples are needed.
    order : float
        The energy's.
    n_free : int
        Leading modes that cost nothing.
    means : bool
        Whether U are means of the functions over the samples' cells, not values at the samples.
    """

    basis: Floats
    smoothness: Floats
    functions: Callable[[], Functions] = field(repr=False)
    order: float = math.nan
    n_free: int = 0
    means: bool = False

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.basis)

    @property
    def width(self) -> int:
        """Number of modes r."""
        return int(self.basis.shape[1])

    @cached_property
    def _made(self) -> Functions:
        return self.functions()

    @property
    def mixing(self) -> Floats:
        """Each mode as a sum of features, (width, r)."""
        return self._made[0]

    @property
    def layer(self) -> AxisLayer:
        """The features a, and x."""
        return self._made[1]


@memoised(64)
def axis_modes(
    n: int,
    order: float,
    make: MakeLayer = Cosines.lattice,
    free: int | None = None,
    means: bool = False,
) -> AxisModes:
    """The smooth modes of `n` samples, one unit apart, with an energy of the given order.

    `free` is the number of polynomials without a price where not all that the order allows are.
    With 0 the axis is a ring: functions of period n, of whole numbers of cycles around it. With
    `means` the samples are means over cells of one unit: features count there with theirs.

    Notes
    -----
    Where lines are free and the order is low, the least energy beyond the outermost samples is that
    of a line through all of the box: a black frame around something bright went below black by 1.7
    of 255. There, below order 2, a function goes on with the slope of its last few samples: it is
    the one of least energy through the samples and their :func:`continuation`, 0.02 of 255. The
    basis stays that of the samples alone; with the continuation's own energy kodim05 needs a tenth
    more coefficients for 35 dB.
    """
    if free == 0:
        return _ring_modes(n, order, means)
    own = _modes(n, order, make, free, means)
    if own.n_free == 0 or n == 1 or order >= STIFF_ORDER:
        return own
    return replace(own, functions=partial(_continued, own.basis, order, make, free, means))


def _continued(
    basis: Floats, order: float, make: MakeLayer, free: int | None, means: bool
) -> Functions:
    """Functions of least energy through modes on the samples and their continuation."""
    T = continuation(len(basis))
    outer = _modes(len(T), order, make, free, means)
    return outer.mixing @ (outer.basis.T @ (T @ basis)), outer.layer


def _ring_modes(n: int, order: float, means: bool) -> AxisModes:
    """Modes of a closed axis: its waves, which are orthogonal on the samples.

    Written down, not factored: cosine and sine of a frequency have the same γ, and a factorisation
    would order them by its rounding, so that a file could not be opened on another machine.
    """
    layer = Cosines(n // 2, 1 / n)
    A = sample_features(layer, n, means)
    E, size = layer.prices(order), np.linalg.norm(A, axis=0)
    shown = np.flatnonzero(size > 1e-6 * size.max())  # one wave of half a cycle vanishes at samples
    gamma = size[shown] ** 2 / E[shown]
    turn = np.argsort(np.round(-np.log(gamma), 9), kind="stable")  # equal but for rounding: equal
    own = shown[turn]
    scale = np.where(A[0, own] < 0, -1, 1) / size[own]
    mixing = np.zeros((len(E), len(own)))
    mixing[own, np.arange(len(own))] = scale
    known = partial(_known, (mixing, layer))  # no closure: fields can be pickled
    return AxisModes(A[:, own] * scale, gamma[turn], known, order, means=means)


def _known(functions: Functions) -> Functions:
    return functions


def continuation(n: int) -> Floats:
    """T, (n + 2e, n): n samples, and e more at either end.

    These are the samples inside, mirrored at the border, plus twice their distance from it times
    the slope of the line nearest to the last few samples. Exact on lines.
    """
    w, at = min(SLOPE_SAMPLES, n), np.arange(n)
    t = np.arange(w) - (w - 1) / 2
    slope = np.zeros(n)
    slope[:w] = t / (t @ t)
    images = [(j, min(j, n - 1)) for j in reversed(range(BEYOND_SAMPLES))]
    low = [(at == i) - (j + 1 + i) * slope for j, i in images]
    return np.vstack([*low, np.eye(n), *(row[::-1] for row in reversed(low))])


# What does not depend on the order is made once for axes that differ in nothing else.


@memoised(16)
def _on_samples(n: int, make: MakeLayer, means: bool) -> tuple[AxisLayer, Floats]:
    """The layer of n samples, and its features on them, (n, width), or their means."""
    layer = make(n)
    return layer, sample_features(layer, n, means)


@memoised(16)
def _halves(n: int, make: MakeLayer, free: bytes, absent: bytes, means: bool) -> Halves:
    """What is even and what is odd among n samples: rows of zeros fill up the smaller half.

    No energy changes when an axis is reversed, so modes are even or odd: two problems of half the
    size, whose eigenvalues are simple. That settles every mode but for its sign.

    Parameters
    ----------
    free, absent : bytes of booleans
        Features without a price, and those that are left out.

    Returns
    -------
    lines : array, shape (n, q)
        Orthonormal columns that span what the free features X are, each even or odd, in the order
        of their degrees.
    onto : array, shape (number of free features, q)
        What X has to be multiplied by to give them.
    rest : array, shape (2, h, n)
        Orthonormal rows that span what is left.
    own : integer array, shape (2, p)
        The features with a price that do not vanish there.
    features : array, shape (2, h, p)
        These in terms of the rest.
    """
    A, unpaid = _on_samples(n, make, means)[1], np.frombuffer(free, bool)
    lines, onto = _orthonormal(A[:, unpaid])
    P = np.zeros((2, n - n // 2, n))  # the middle one of an odd number of samples is even
    for rows, part in zip(P, fold_parities(np.eye(n))):
        rows[: part.shape[1]] = part.T
    V, size, _ = np.linalg.svd(P @ lines)
    q = size.shape[1]
    V[:, :, :q] *= size[:, None, :] < 0.5  # 1, but 0 for a line of the other parity
    rest = V.mT @ P
    paid = np.flatnonzero(~unpaid & ~np.frombuffer(absent, bool))
    features = rest @ A[:, paid]
    size = np.linalg.norm(features, axis=1)
    held = size > 1e-12 * size.max(initial=0)  # what is of the other parity is nothing here
    features *= held[:, None, :]
    own = np.argsort(~held, axis=1, kind="stable")[:, : np.count_nonzero(held, axis=1).max()]
    features = features[[[0], [1]], :, own].mT
    return lines, onto, rest, paid[own], features


def _orthonormal(X: Floats) -> tuple[Floats, Floats]:
    """Orthonormal columns for those of X in turn, (n, q), and what X has to be multiplied by.

    A column that the earlier ones span on the samples gives none. Each is orthogonalised twice, so
    that it stays even or odd, and is positive first.
    """
    lines, onto = np.zeros((len(X), 0)), np.zeros((X.shape[1], 0))
    least = 1e-10 * np.linalg.norm(X)
    for line, weights in zip(X.T, np.eye(X.shape[1])):
        for _ in range(2):
            c = lines.T @ line
            line, weights = line - lines @ c, weights - onto @ c
        size = math.sqrt(line @ line) * (-1 if line[0] < 0 else 1)
        if abs(size) > least:
            lines = np.column_stack([lines, line / size])
            onto = np.column_stack([onto, weights / size])
    return lines, onto


def _modes(n: int, order: float, make: MakeLayer, free: int | None, means: bool) -> AxisModes:
    """Modes whose functions have the least energy, whatever that is beyond the samples.

    Notes
    -----
    From the singular values of ``A E^(-1/2)``, never forming K: at order 4 and n = 36 a mode's
    function meets its samples to 2e-13. The eigenvalues of K, which span twelve decades, gave 1e-5.
    Where prices differ little these are as good, and take half as long.
    """
    layer, A = _on_samples(n, make, means)
    E = layer.prices(order)
    if free is not None:
        E[np.flatnonzero(E == 0)[free:]] = np.inf
    halves = _halves(n, make, (E == 0).tobytes(), np.isinf(E).tobytes(), means)
    lines, _, rest, own, features = halves
    q, eps, paid = lines.shape[1], np.finfo(float).eps, E[own]
    B = features / np.sqrt(paid)[:, None, :]
    if paid.max(initial=0) < MILD_PRICE_RATIO * paid.min(initial=np.inf):
        gammas, V = np.linalg.eigh(B @ B.mT)
        keep = gammas > n * eps * gammas[:, -1:]
    else:
        V, root, _ = np.linalg.svd(B, full_matrices=False)
        V = np.linalg.qr(V * B.any(axis=2, keepdims=True))[0]  # nothing of rows that are only zeros
        keep, gammas = root > n * eps * root[:, :1], root**2
    gamma, U = gammas[keep], np.moveaxis(rest.mT @ V, 1, 0)[:, keep]
    turn = np.argsort(-gamma, kind="stable")  # from large to small
    sign = np.where(U[0] < 0, -1.0, 1.0)  # that make the first sample positive
    level = np.full(q, gamma.max(initial=0) or 1.0)
    modes = np.hstack([lines, (U * sign)[:, turn]])
    functions = partial(_mixed, layer, A, E, halves, V, keep, sign, turn)
    return AxisModes(modes, np.concatenate([level, gamma[turn]]), functions, order, q, means)


def _mixed(
    layer: AxisLayer, A: Floats, E: Floats, halves: Halves,
    V: Floats, keep: Array, sign: Floats, turn: Integers,
) -> Functions:  # fmt: skip
    """The modes of :func:`_modes` as sums of features, and the layer that has them."""
    lines, onto, _, own, features = halves
    unpaid, q, parts = E == 0, lines.shape[1], []
    # The least weights come from a QR factorisation whose rows, features, and columns, modes, go
    # from large to small: each is exact to its own size, however many decades lie between them.
    for places, root, b, v, kept in zip(own, np.sqrt(E[own]), features, V, keep):
        ahead = np.argsort(root, kind="stable")
        ahead = ahead[b.any(axis=0)[ahead]]  # not a digit for the other parity
        M = (v[:, kept].T @ b / root).T
        down = np.argsort(-np.linalg.norm(M, axis=0), kind="stable")
        Q, R = np.linalg.qr(M[np.ix_(ahead, down)])
        size = np.diag(R)
        part = np.zeros((len(E), len(down)))
        back = (Q / size) @ np.linalg.inv(R / size[:, None]).T
        part[np.ix_(places[ahead], down)] = back / root[ahead, None]
        parts.append(part)
    mixing = np.zeros((len(E), q + len(turn)))
    mixing[unpaid, :q], mixing[:, q:] = onto, (np.hstack(parts) * sign)[:, turn]
    # What is free in these functions on the samples is taken off them again.
    mixing[unpaid, q:] = -onto @ (lines.T @ (A @ mixing[:, q:]))
    return mixing, layer


def rows_of(axes: Sequence[AxisFunctions], t: Array, order: Sequence[int]) -> list[Array]:
    """The axes' functions at t, (..., d), differentiated as `order` says; one array per axis.

    By polynomials on the processor; t may lie a sample outside the box at most.
    """
    # On a card sines are cheap, and sorting points is not; nor can it be differentiated.
    slow = requires_grad(t) or not is_on_host(t)
    functions = (a if slow or a.pieces is None else a.pieces.anywhere for a in axes)
    return [f(t[..., k], times) for k, (f, times) in enumerate(zip(functions, order))]
