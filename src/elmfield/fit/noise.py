"""Denoising by boxes that weigh models of the signal by their evidence.

Every box tries the members of a family of covariances, each at several amplitudes against the
noise, and averages their estimates by evidence; overlapping boxes are averaged too. Covariances are
first drawn towards those of this array's boxes (expectation-maximisation), but never far.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from elmfield._array.autograd import recompute
from elmfield._array.backend import (
    contiguous,
    detach,
    device,
    move,
    namespace,
    requires_grad,
    to_numpy,
)
from elmfield._array.cache import memoised
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats, Integers
from elmfield.fit.gaps.levels import average_boxes, box_index, take_boxes
from elmfield.fit.smooth_noise import smooth_further
from elmfield.local.energies import FEW_STRETCHES, Family, covariances, stretched
from elmfield.local.energy_mixture import fold_parities, unfold_parities
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import Samples

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

SINGLE_PRECISION_RATIO = 2e3
"""Signals below this many times the noise are denoised in single precision: it leaves a thousandth
of the noise, in half the time."""

LEFT_GROUPS = 24
"""Groups of samples, by how much noise is left in them, by which that is compared with Stein's
estimate."""

LEFT_TRUST, LEFT_SPREAD = 0.1, 0.22
"""Deviation, in parts of itself, of what boxes say is left: in all samples, and from one group to
another."""

LEFT_COMMON = 0.2
"""What the mean of all deviations counts for in that of a sample."""

LEFT_OVERLAP = 0.3
"""By what part errors of boxes that overlap are below those of each where hardly anything of the
noise is left; where most is they are the same. The mean of a flat box, over all boxes with a
sample, would have 1 - (2/3)² less in the plane. With LEFT_COMMON chosen on 16 of scikit-image's
pictures with noise of 5, 10 and 25: 46 of 48 hold 85 to 95 % in their 90 % intervals (41)."""

AUTOGRAD_NUMBERS = 1 << 24
"""Numbers that members may find in boxes at once where they are differentiated, 128 MiB: smaller
arrays would come from memory that the system's allocator does not give back."""


def removed_energy(before: Samples, after: Samples, partition: Partition) -> Floats:
    """Sum of squares, (N,), by which the samples of each region's box changed, in their units."""
    xp, off = namespace(after.raw), np.zeros(partition.n_regions)
    change = (after.values - before.values) * after.scale
    squares = xp.sum(xp.astype(change, xp.float64) ** 2, axis=-1, keepdims=True)
    for box, regions in partition:
        step = max(1, capacity(squares) // (4 * math.prod(box)))
        for i, j in runs(len(regions), step):
            some = gather_boxes(squares, partition, regions[i:j], box)
            off[regions[i:j]] = to_numpy(xp.sum(some, axis=(1, 2)))
    return off


def clip_samples(before: Samples, samples: Samples) -> Samples:
    """Samples within the limits of those before, channel by channel."""
    raw, have = before.raw, before.present
    xp = namespace(raw)
    axes = tuple(range(raw.ndim - 1))
    low = raw if have is None else xp.where(have, raw, xp.full_like(raw, xp.inf))
    high = raw if have is None else xp.where(have, raw, xp.full_like(raw, -xp.inf))
    within = xp.minimum(xp.maximum(samples.raw, xp.min(low, axis=axes)), xp.max(high, axis=axes))
    return replace(samples, raw=within)


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
        p, found, left = _shares(e), [], xp.ones_like(mean[:, 0])
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
        p = _shares(e)
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


def _shares(e: Array) -> Array:
    """Softmax over members and amplitudes of their evidence, (K, G, A)."""
    p = namespace(e).exp(e - namespace(e).max(e, axis=(0, 2), keepdims=True))
    return p / namespace(e).sum(p, axis=(0, 2), keepdims=True)


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


# --- an array -------------------------------------------------------------------------------------


def left_shares(z: Floats, x: Floats, kept: Floats) -> Floats:
    """Variance of the errors of estimates x of samples z, whose noise is 1.

    `kept` is what boxes say is left, their posterior variance. Stein's estimate of the same,
    ``(x - z)² - 1 + 2 kept``, is far too noisy for single samples, but not for groups of those of
    which as much is kept: there it is ``b + f kept``, less where boxes that overlap err less than
    each of them. b is a signal as faint and white as noise that was taken for noise.
    """
    k = np.maximum(np.asarray(kept, np.float64).ravel(), 0)
    stein = (np.asarray(x, np.float64) - z).ravel() ** 2 - 1 + 2 * k
    k *= 1 - LEFT_OVERLAP * (1 - k)
    groups = np.array_split(np.argsort(k), LEFT_GROUPS)
    own, found, n = np.asarray([(k[g].mean(), stein[g].mean(), len(g)) for g in groups if len(g)]).T
    root = (2 / n + (LEFT_SPREAD * own) ** 2) ** -0.5
    rows = np.stack([root, root * own], axis=1), np.asarray([[0, 1 / LEFT_TRUST]])
    ends = root * found, [1 / LEFT_TRUST]
    b, f = np.linalg.lstsq(np.concatenate(rows), np.concatenate(ends))[0]
    a = np.sqrt(max(f, 0) * k)
    a = (a + LEFT_COMMON * a.mean()) / (1 + LEFT_COMMON)
    return np.asarray((max(b, 0) + a**2).reshape(z.shape), np.float32)


def remove_noise(
    y: Array, noise: Array, periodic: Sequence[bool], is_white: bool = True
) -> tuple[Array, Floats]:
    """Samples of one channel without most of their noise, whose standard deviation is a number.

    And the part of its variance that is left in each of them, on the host. Large boxes, and what is
    left, are weighed by an estimate of their error that holds for white noise only; without, it is
    what the boxes' posteriors say.
    """
    xp, shape = namespace(y), tuple(y.shape)
    wide = [k for k, n in enumerate(shape) if n > 1]
    d = len(wide)
    if d > 3:  # in space, one after the other
        k = wide[0]
        parts = [xp.take(y, move(np.asarray([i]), y), axis=k) for i in range(shape[k])]
        found, lefts = zip(*(remove_noise(part, noise, periodic, is_white) for part in parts))
        return xp.concat(found, axis=k), np.concatenate(lefts, axis=k)
    size = xp.astype(xp.max(xp.abs(y)), xp.float64)
    unit = xp.maximum(move(noise, y, xp.float64), 1e-12 * size)
    if d == 0 or not bool(unit > 0):  # one sample, or nothing but zeros
        return y, np.ones(shape, np.float32)
    is_single = not requires_grad(y) and bool(size / SINGLE_PRECISION_RATIO < unit)
    kind = xp.float32 if is_single else xp.float64
    z = xp.astype(xp.astype(y, xp.float64) / unit, kind)
    box = tuple(min(BOX[d], n) for n in shape)
    index = box_index(shape, box, STRIDE[d], periodic)

    def boxes(index: Integers) -> Array:
        return take_boxes(z[..., None], move(index, y))[..., 0]

    some = boxes(index[:: max(1, len(index) // LEARNING_BOXES)])
    most = float(to_numpy(xp.max(xp.var(some, axis=1))))
    top = max(STRONGEST, math.ceil(math.log(max(most, 1.0), 4)))  # no box goes beyond 4^top
    shapes = learn_shapes(family_shapes(box, top), some)

    def denoised() -> Iterator[tuple[Array, Array]]:
        for i, j in runs(len(index), shapes.at_once(y)):
            yield move(index[i:j], y), recompute(shapes, boxes(index[i:j]))

    both, _ = average_boxes(
        shape, xp.ones(math.prod(box), dtype=kind, device=device(y)), denoised()
    )
    found, kept = both[..., 0], both[..., 1]
    if not is_white:
        return xp.astype(found * unit, y.dtype), np.asarray(to_numpy(detach(kept)), np.float32)
    found, kept = smooth_further(z, found, kept, periodic)
    left = left_shares(*(to_numpy(detach(part)) for part in (z, found, kept)))
    return xp.astype(found * unit, y.dtype), left
