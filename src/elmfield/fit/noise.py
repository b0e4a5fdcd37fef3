"""Denoising by boxes: small ones that weigh models of the signal, large ones where it is smooth.

Every small box tries the members of a family of covariances, each at several amplitudes against the
noise, and averages their estimates by evidence; overlapping boxes are averaged too. Covariances are
first drawn towards those of this array's boxes (expectation-maximisation), but never far.

Small boxes cannot average over what is smooth for fifty samples. Larger ones, of several sizes,
weigh energies by an unbiased estimate of the error that they leave (Stein's); each replaces what
smaller ones found as far as that estimate says that it is nearer to the signal.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from elmfield._array.autograd import recompute
from elmfield._array.backend import contiguous, device, move, namespace, requires_grad, to_numpy
from elmfield._array.cache import memoised
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.fit.gaps.levels import average_boxes, box_index
from elmfield.local.bases import ProductModes, product_modes
from elmfield.local.energies import FEW_STRETCHES, Family, covariances, stretched
from elmfield.local.energy_mixture import fold_parities, softmax, unfold_parities
from elmfield.partition import gather

BOX = {1: 32, 2: 10, 3: 5}
"""Samples of a box per axis, by number of axes."""

STRIDE = {1: 4, 2: 3, 3: 2}
"""Samples from one box to the next, about."""

FAINTEST, STRONGEST = -4, 5
"""Variances of the signal that are tried, in units of the noise's: from 4^-4 to 4^5, or as far as
any box goes beyond."""

ORDER = 1.7
"""Order of all members in the plane; two (1.4 and 2.2) are no better once shapes are learned."""

FAMILY_BOXES = 50.0
"""Boxes that the family counts for when shapes are learned."""

PASSES = 3
"""Passes over the array to learn shapes from."""

LEAST_SHARE = 0.05
"""Members less likely than this in a box learn nothing from it."""

LEARNING_BOXES = 8192
"""Boxes that shapes are learned from, at most."""

AUTOGRAD_NUMBERS = 1 << 24
"""Numbers that members may find in boxes at once where they are differentiated, 128 MiB: smaller
arrays would come from memory that the system's allocator does not give back."""


LARGE_BOXES = {1: (64, 128, 256), 2: (24, 64), 3: (12, 32)}
"""Samples of large boxes per axis, by number of axes; half a box from one to the next."""

SMOOTH_ORDERS = (1.5, 2.0, 3.0, 4.5)
"""Orders along a line of the energies that are weighed."""

STRETCH = 9.0
"""How many times dearer an axis may be than the others."""

AMPLITUDES = (-3, 14)
"""Variances of the signal that are tried, in units of the noise's, as powers of 4."""

COST = {1: 2.8, 2: 2.0, 3: 2.0}
"""What a number kept of the samples counts, in variances of the noise, by number of axes: 2 in
Stein's estimate. On a line, where boxes have few samples, that follows the noise, and slopes are
a fifth worse; in the plane more than 2 loses 0.1 dB on weather."""

CLEAR_DIFFERENCE = 4.0
"""By how much, in variances of the noise, an error must be below another to be preferred."""


# --- members and amplitudes -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class HalfModes:
    """The even, or the odd, modes of covariances of a box's samples less their mean.

    A box read backwards is as likely as the box, so modes are even or odd about its centre: two
    problems of half the size. Modes have no derivative where two are as strong as each other, as
    in square boxes; what is made of them has one. For samples that require gradients modes are
    constants, and `coupling`, which is zero, has the derivatives of what is off the diagonal.

    Parameters
    ----------
    bases : array, shape (K, S', r')
        Eigenvectors of each covariance, orthogonal to constants.
    variances : array, shape (K, r')
        Eigenvalues, of mean 1 in both halves together.
    totals : array, shape (K, A, r')
        Variance of each mode at each amplitude, noise included: ``1 + a γ``.
    levels : array, shape (K, A)
        Logarithm of the determinant of ``1 + a γ``.
    coupling : array, shape (K, A, r', r'), or None
        ``1 / totals - (1 + a γ)⁻¹``, γ the covariance as a matrix in these modes.
    """

    bases: Floats
    variances: Array
    totals: Array
    levels: Array
    coupling: Array | None = None

    @classmethod
    def of(cls, U: Floats, gamma: Array, full: Array | None, amplitudes: Floats) -> "HalfModes":
        """Of modes U and their variances; `full`, (K, r', r'), has covariances in these modes."""
        xp = namespace(gamma)
        a = move(amplitudes, gamma, gamma.dtype)[:, None]
        totals = 1 + a * gamma[:, None, :]
        levels, coupling = xp.sum(xp.log(totals), axis=2), None
        if full is not None:
            one = move(np.eye(U.shape[2]), gamma, gamma.dtype)
            root = totals**0.5
            both = root[..., :, None] * root[..., None, :]
            # Scaled to 1 on the diagonal: strong modes lose no digits to weak ones.
            scaled = one + a[..., None] * (full * (1 - one))[:, None, :, :] / both
            levels = levels + xp.linalg.slogdet(scaled)[1]
            coupling = (one - xp.linalg.inv(scaled)) / both
        return cls(bases=U, variances=gamma, totals=totals, levels=levels, coupling=coupling)

    @property
    def covariances(self) -> Floats:
        """Of the samples, (K, S', S')."""
        return np.asarray((self.bases * self.variances[:, None, :]) @ np.swapaxes(self.bases, 1, 2))

    def gains(self, like: Array) -> Array:
        """How much of each mode an amplitude keeps, ``a γ / (a γ + 1)``, (K, A, r')."""
        return move(1 - 1 / self.totals, like, like.dtype)

    def moments(self, found: Array, met: Array, amplitudes: Floats) -> Array:
        """Covariances of the signal, (K, S', S'), summed over boxes.

        From sums of squares of what members find, (K, r', r'), and how often each is met, (K, A);
        what they leave uncertain, ``γ / (a γ + 1)``, is added.
        """
        xp, U = namespace(met), move(self.bases, met)
        left = move(self.variances[:, None, :] / self.totals, met) * met[:, :, None]
        found = found + xp.sum(left, axis=1)[:, :, None] * move(np.eye(U.shape[2]), met)
        if self.coupling is not None:
            shares = (met / move(amplitudes, met))[:, :, None, None]
            found = found + xp.sum(shares * self.coupling, axis=1)
        return U @ found @ xp.matrix_transpose(U)


Modes = tuple[Array, Array | None]
"""What lies in the modes of boxes, (K, G, r'), and what `coupling` makes of it, (K, A, G, r')."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Shapes:
    """Covariances of a box's samples less their mean, and how often each is met.

    Parameters
    ----------
    halves : pair of HalfModes
        Even and odd modes.
    amplitudes : array, shape (A,)
        Variances of the signal in units of the noise's.
    prior : array, shape (K, A)
        Logarithm of how often a member is met at an amplitude.
    """

    halves: tuple[HalfModes, HalfModes] = field(repr=False)
    amplitudes: Floats = field(repr=False)
    prior: Array = field(repr=False)

    def at_once(self, like: Array) -> int:
        """Boxes to look at together, in the memory there is where `like` lives."""
        numbers = int(self.prior.shape[0]) * sum(int(h.bases.shape[1]) for h in self.halves)
        if requires_grad(like):
            return max(16, AUTOGRAD_NUMBERS // (numbers * len(self.amplitudes)))
        return max(64, capacity(like) // (8 * numbers))

    def parts(self, Y: Array) -> tuple[list[Modes], Array]:
        """What members find in boxes Y, (G, S), of mean 0 and noise 1.

        Even and odd modes, and the evidence of members and amplitudes, (K, G, A).
        """
        xp = namespace(Y)
        e = move(self.prior - 0.5 * sum(h.levels for h in self.halves), Y, Y.dtype)[:, None, :]
        modes: list[Modes] = []
        for half, y in zip(self.halves, fold_parities(Y)):
            c = xp.matmul(y, move(half.bases, Y, Y.dtype))
            turned = namespace(half.totals).matrix_transpose(-0.5 / half.totals)
            e = e + xp.matmul(c * c, move(contiguous(turned), Y, Y.dtype))
            more = None
            if half.coupling is not None:
                more = xp.matmul(c[:, None, :, :], half.coupling)
                e = e + 0.5 * xp.matrix_transpose(xp.sum(more * c[:, None, :, :], axis=3))
            modes.append((c, more))
        return modes, e

    def __call__(self, Y: Array) -> Array:
        """Boxes Y, (G, S), of noise 1, without most of it, and what is kept of it: (G, S, 2)."""
        xp = namespace(Y)
        mean = xp.mean(Y, axis=1, keepdims=True)
        modes, e = self.parts(Y - mean)
        p, found, left = softmax(e, (0, 2)), [], xp.ones_like(mean[:, 0])
        for half, (c, more) in zip(self.halves, modes):
            keep = xp.matmul(p, half.gains(Y))  # (K, G, r')
            left = left + xp.sum(keep, axis=(0, 2))
            kept = c * keep
            if more is not None:
                kept = kept + xp.sum(xp.matrix_transpose(p)[..., None] * more, axis=1)
            U = move(np.swapaxes(half.bases, 1, 2).copy(), Y, Y.dtype)
            found.append(xp.sum(xp.matmul(kept, U), axis=0))
        X = unfold_parities(*found) + mean
        return xp.stack([X, left[:, None] / Y.shape[1] + 0 * X], axis=-1)

    def sums(self, Y: Array) -> list[Array]:
        """How often members are met at amplitudes in boxes Y, (G, S), of mean 0: (K, A).

        And the sums of ``p x xᵀ / a`` over what they find there, (K, r', r') for both halves. All
        in float64, and on the host unless they are differentiated.
        """
        xp = namespace(Y)
        modes, e = self.parts(Y)
        p = softmax(e, (0, 2))
        met = _in_double(xp.sum(p, axis=1))
        seen = []
        for k, j in np.argwhere(to_numpy(met) > LEAST_SHARE).tolist():
            (rows,) = xp.nonzero(p[k, :, j] > LEAST_SHARE)
            root = (xp.take(p[k, :, j], rows) / float(self.amplitudes[j])) ** 0.5
            seen.append((k, j, rows, root[:, None]))
        moments = []
        for half, (c, more) in zip(self.halves, modes):
            K, _, r = half.bases.shape
            gains, own = half.gains(Y), [move(np.zeros((r, r)), met)] * K
            for k, j, rows, root in seen:
                x = xp.take(c[k, ...], rows, axis=0) * gains[k, j, :]
                if more is not None:
                    x = x + xp.take(more[k, j, ...], rows, axis=0)
                x = x * root
                own[k] = own[k] + _in_double(xp.matrix_transpose(x) @ x)
            moments.append(namespace(own[0]).stack(own))
        return [met, *moments]


def _in_double(x: Array) -> Array:
    """`x` in float64, on the host unless it is differentiated."""
    x = x if requires_grad(x) else to_numpy(x)
    return namespace(x).astype(x, namespace(x).float64)


def shapes_of(kernels: Sequence[Array], amplitudes: Floats, prior: Array) -> Shapes:
    """Shapes from even and odd parts of covariances, (K, S', S'), whose mean is taken off."""
    xp, S = namespace(prior), sum(k.shape[1] for k in kernels)
    found = []
    for own, one in zip(kernels, fold_parities(np.full(S, S**-0.5))):
        off = move(np.eye(len(one)) - np.outer(one, one), own)
        own = off @ own @ off
        values, U = np.linalg.eigh(to_numpy(own))
        free = int(one.any())  # the constant, which is even
        U, gamma, full = U[:, :, free:], values[:, free:], None
        if requires_grad(own):
            V = move(U, own)
            full = xp.matrix_transpose(V) @ own @ V
            gamma = xp.linalg.diagonal(full)
        found.append((U, xp.maximum(gamma, xp.zeros_like(gamma)), full))
    mean = xp.mean(xp.concat([gamma for _, gamma, _ in found], axis=1), axis=1, keepdims=True)
    mean = xp.where(mean > 0, mean, xp.ones_like(mean))
    even, odd = (
        HalfModes.of(U, gamma / mean, None if full is None else full / mean[..., None], amplitudes)
        for U, gamma, full in found
    )
    return Shapes(halves=(even, odd), amplitudes=amplitudes, prior=prior)


@memoised(8)
def _family(box: tuple[int, ...]) -> Floats:
    """Covariances of the family before any array was seen, (K, S, S)."""
    d = len(box)
    s = ORDER + (d - 2) / 2
    return covariances(box, Family.of(d, s, stretched(d, 1.0, FEW_STRETCHES) if d > 1 else []))


def family_shapes(box: tuple[int, ...], top: int = STRONGEST) -> Shapes:
    """The family, at amplitudes up to 4^top, before any array was seen."""
    kernels = _family(tuple(n for n in box if n > 1))
    amplitudes = np.power(4.0, np.arange(FAINTEST, top + 1.0))
    halves = [P.T @ kernels @ P for P in fold_parities(np.eye(kernels.shape[1]))]
    return shapes_of(halves, amplitudes, np.zeros((len(kernels), len(amplitudes))))


def learn_shapes(start: Shapes, Y: Array) -> Shapes:
    """Shapes drawn towards boxes Y, (G, S), of noise 1.

    A pass finds the weights p of members and amplitudes in every box and the covariance of
    each member's estimate, ``Σ p (x xᵀ / a + γ / (a γ + 1))``, as the next shape; the family
    counts for FAMILY_BOXES boxes more.
    """
    Y = Y - namespace(Y).mean(Y, axis=1, keepdims=True)
    own, shapes = [h.covariances for h in start.halves], start
    for _ in range(PASSES):
        each = runs(Y.shape[0], shapes.at_once(Y))
        parts = [recompute(shapes.sums, Y[i:j, ...]) for i, j in each]
        met, *moments = (sum(some[1:], some[0]) for some in zip(*parts))
        xp = namespace(met)
        total = xp.sum(met, axis=1) + FAMILY_BOXES
        kernels = []
        for half, first, found in zip(shapes.halves, own, moments):
            new = half.moments(found, met, start.amplitudes) + FAMILY_BOXES * move(first, found)
            kernels.append(new / total[:, None, None])
        prior = xp.log(met / xp.sum(met) + 1e-6)
        shapes = shapes_of(kernels, start.amplitudes, prior)
    return shapes


def by_boxes(z: Array, periodic: Sequence[bool], is_white: bool) -> tuple[Array, Array]:
    """Samples z of one channel without most of their noise of 1; what is kept of a sample's own.

    Large boxes look only at noise that is white.
    """
    shape, xp = tuple(z.shape), namespace(z)
    d = sum(n > 1 for n in shape)
    box = tuple(min(BOX[d], n) for n in shape)
    index = box_index(shape, box, STRIDE[d], periodic)

    def boxes(at: Array) -> Array:
        return gather(z[..., None], at)[..., 0]

    some = boxes(move(index[:: max(1, len(index) // LEARNING_BOXES)], z))
    most = float(to_numpy(xp.max(xp.var(some, axis=1))))
    top = max(STRONGEST, math.ceil(math.log(max(most, 1.0), 4)))  # no box goes beyond 4^top
    shapes = learn_shapes(family_shapes(box, top), some)

    def estimates() -> Iterator[tuple[Array, Array]]:
        for i, j in runs(len(index), shapes.at_once(z)):
            at = move(index[i:j], z)
            yield at, recompute(shapes, boxes(at))

    window = xp.ones(math.prod(box), dtype=z.dtype, device=device(z))
    both, _ = average_boxes(shape, window, estimates())
    found, kept = both[..., 0], both[..., 1]
    return smooth_further(z, found, kept, periodic) if is_white else (found, kept)


# --- large boxes ----------------------------------------------------------------------------------


def smooth_further(
    z: Array, x: Array, kept: Array, periodic: Sequence[bool]
) -> tuple[Array, Array]:
    """Estimates x of samples z with noise of 1, improved where large boxes know more.

    `kept` is how much of a sample's own noise is left in its estimate, between 0 and 1; it is given
    back for the new ones.
    """
    xp, shape = namespace(z), tuple(x.shape)
    z, x, kept = (xp.astype(part, xp.float64) for part in (z, x, kept))  # small differences decide
    steps = dict[tuple[int, ...], int]()
    for size in LARGE_BOXES[sum(n > 1 for n in shape)]:
        steps.setdefault(tuple(min(size, n) for n in shape), size // 2)
    for box, step in steps.items():
        x, kept = _over_boxes(z, x, kept, box, step, periodic)
    return x, kept


def _over_boxes(
    z: Array, x: Array, kept: Array, box: tuple[int, ...], step: int, periodic: Sequence[bool]
) -> tuple[Array, Array]:
    """Both estimates blended, and what is kept of the noise, after boxes of one size."""
    xp, every = namespace(z), namespace(z).stack([z, x, kept], axis=-1)
    modes = product_modes(box, (2.0,) * len(box))
    variances, free = mode_variances(modes)
    cost = COST[sum(b > 1 for b in box)]
    along = [np.sin(np.pi * (np.arange(b) + 0.5) / b) ** 2 + 1e-3 for b in box]
    window = reduce(np.multiply.outer, along).reshape(-1)
    index = box_index(z.shape, box, step, periodic)
    v = move(variances, z, z.dtype)

    def blended() -> Iterator[tuple[Array, Array]]:
        for i, j in runs(len(index), max(1, capacity(z) // (24 * len(free)))):
            at = move(index[i:j], z)
            some = gather(every, at)
            Y, X, K = (some[..., c] for c in range(3))  # (G, S)
            found, freedom = _smoothed(modes, v, move(~free, z, z.dtype), cost, Y)
            more = xp.sum((found - X) * (found + X - 2 * Y), axis=1, keepdims=True)
            more = more + cost * (freedom - xp.sum(K, axis=1, keepdims=True))
            p = 1 / (1 + xp.exp(xp.clip(more / CLEAR_DIFFERENCE, -80.0, 80.0)))
            own = X + p * (found - X), K + p * (freedom / K.shape[1] - K)
            yield at, xp.stack(own, axis=-1)

    both, _ = average_boxes(z.shape, move(window, z, z.dtype), blended())
    return both[..., 0], both[..., 1]


def mode_variances(modes: ProductModes) -> tuple[Floats, np.ndarray]:
    """Variances of the modes of a box in units of the noise, (K, r), and which have no price.

    Mode j of an axis of n samples has about the frequency ``ω = π (j - 1/2) / n``, as those of
    smoothing splines do; a product has the sum of their squares.
    """
    found = []
    lines = [(np.arange(a.width), a) for a in modes.axes]
    every = [(j - 0.5) ** 2 * (j >= a.n_free) / a.width**2 for j, a in lines]
    wide = [k for k, a in enumerate(modes.axes) if a.width > 1]
    dearer = [np.ones(len(every))]
    if len(wide) > 1:
        dearer += [np.where(np.arange(len(every)) == k, STRETCH, 1) for k in wide]
    for scale in dearer:
        omega2 = reduce(np.add.outer, [t * own for t, own in zip(scale, every)]).reshape(-1)
        free = omega2 == 0
        for s in SMOOTH_ORDERS:
            shape = np.where(free, 0, np.where(free, 1, omega2) ** -(s + (len(wide) - 1) / 2))
            shape /= shape.mean() or 1.0
            found += [shape * 4.0**a for a in range(AMPLITUDES[0], AMPLITUDES[1] + 1)]
    return np.stack(found), free


def _smoothed(
    modes: ProductModes, v: Array, priced: Array, cost: float, Y: Array
) -> tuple[Array, Array]:
    """Boxes Y, (G, S), of noise 1 without most of it, and how many numbers are kept, (G, 1).

    Variances v, (K, r), are weighed by the error they leave, as Stein estimates it.
    """
    xp, off = namespace(Y), 1 / (1 + v)
    c = modes.project(Y[..., None])
    # Squares of what is taken off, and the cost of what is kept, but for a constant.
    errors = c[..., 0] ** 2 @ xp.matrix_transpose(off * off) - cost * xp.sum(off, axis=1)
    p = softmax(-0.5 * errors)
    gain = 1 - priced * (p @ off)
    return modes.values(c * gain[..., None])[..., 0], xp.sum(gain, axis=1, keepdims=True)
