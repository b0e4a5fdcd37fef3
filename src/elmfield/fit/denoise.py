"""Samples with noise: boxes that choose what they believe, and how much of it.

Enter samples and the noise's level; leave samples without most of it. Every box tries the members
of a family, each at several amplitudes against the noise, and averages what they say by evidence;
overlapping boxes are averaged too. The members' shapes are first drawn towards what the boxes of
this array show (expectation-maximisation), and never far from the family.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import cast, device, learns, move, namespace, scatter_add, to_numpy
from elmfield._array.cache import remembered
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.fit.overlapping import box_index, taken
from elmfield.fit.planes import plane_through
from elmfield.local.bases import product_modes
from elmfield.local.beliefs import folded, unfolded
from elmfield.local.energies import STRETCH, Family, lines, neighbours
from elmfield.local.kernels import covariances
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import Samples

if TYPE_CHECKING:
    from elmfield.fit import followed

BOX = {1: 32, 2: 10, 3: 5}
"""Samples of a box per axis, by number of axes."""

STRIDE = {1: 4, 2: 3, 3: 2}
"""Samples from one box to the next, about."""

FAINTEST, STRONGEST = -4, 5
"""Variances of the signal that are tried, in units of the noise's: from 4^-4 to 4^5, or as far as
any box goes beyond."""

ORDER = 1.7
"""Order of all members in the plane; two (1.4 and 2.2) are no better once shapes are learned."""

STRETCHES = (3.0, 9.0)
"""Anisotropies in the plane."""

PULL = 50.0
"""Boxes that the family counts for when shapes are learned."""

PASSES = 3
"""Passes over the array to learn shapes from."""

UNLIKELY = 0.05
"""Members less likely than this in a box learn nothing from it."""

TAUGHT = 8192
"""Boxes to learn from, at most."""

LISTENED = {1: 64, 2: 16, 3: 8}
"""Samples per axis of the boxes that tell the level."""

QUIET = 0.1
"""Part of the boxes taken to hold hardly more than noise in their roughest modes."""

SINGLE = 2e3
"""Signals below this many times the noise are denoised in single precision: it leaves a thousandth
of the noise, in half the time."""


def denoised(
    samples: Samples, level: float | bool, periodic: Sequence[bool], *, clip: bool = False
) -> Samples:
    """The samples without most of their noise.

    `level` is False for nothing to do, True to estimate it, or a standard deviation in the caller's
    units. With `clip`, what comes back lies between the least and largest of the samples given, in
    each channel; also what was filled in.
    """
    given = samples
    if level is not False:
        y = samples.values
        noise = noise_level(y, samples.present) if level is True else level / samples.scale
        # Without a plane, which has no noise: it comes back exactly.
        plane = cast(plane_through(y, None, periodic), y)
        samples = samples.changed(without_noise(y - plane, noise, periodic) + plane)
    return _clipped(given, samples) if clip and not samples.is_given else samples


def taken_off(before: Samples, after: Samples, partition: Partition) -> Floats:
    """Sum of squares, (N,), by which the samples of each region's box changed, in their units."""
    off = np.zeros(partition.n_regions)
    if after is before:
        return off
    xp = namespace(after.raw)
    change = (after.values - before.values) * after.scale
    squares = xp.sum(xp.astype(change, xp.float64) ** 2, axis=-1, keepdims=True)
    for box, regions in partition:
        step = max(1, capacity(squares) // (4 * math.prod(box)))
        for i, j in runs(len(regions), step):
            some = gather_boxes(squares, partition, regions[i:j], box)
            off[regions[i:j]] = to_numpy(xp.sum(some, axis=(1, 2)))
    return off


def _clipped(given: Samples, samples: Samples) -> Samples:
    """Samples within the limits of those that were given, channel by channel."""
    raw, have = given.raw, given.present
    xp = namespace(raw)
    axes = tuple(range(raw.ndim - 1))
    low = raw if have is None else xp.where(have, raw, xp.full_like(raw, xp.inf))
    high = raw if have is None else xp.where(have, raw, xp.full_like(raw, -xp.inf))
    within = xp.minimum(xp.maximum(samples.raw, xp.min(low, axis=axes)), xp.max(high, axis=axes))
    return replace(samples, raw=within)


# --- the level ------------------------------------------------------------------------------------


def noise_level(y: Array, present: Array | None = None) -> Array:
    """Standard deviation of the noise in samples y, (..., C); shape (C,).

    From the modes of boxes that are rough along every axis, in the boxes where they are weakest:
    the quantile QUIET of their root mean squares, corrected for how far below σ that lies for noise
    alone. Boxes with samples that were filled in do not count, unless all have some.
    """
    shape = tuple(y.shape[:-1])
    d = min(max(1, sum(n > 1 for n in shape)), 3)
    box = tuple(min(LISTENED[d], n) for n in shape)
    index = box_index(shape, box, LISTENED[d] // 2, (False,) * len(shape))
    if present is not None:
        full = to_numpy(namespace(y).all(present, axis=-1)).reshape(-1)[index].all(axis=1)
        index = index[full] if full.any() else index
    index = index[:: max(1, len(index) // TAUGHT)]
    modes = product_modes(box, (1.1,) * len(box))
    rough = np.ones(1, bool)
    for a in modes.axes:
        rough = np.logical_and.outer(rough, np.arange(a.width) >= a.width // 2)
    rough = rough.reshape(-1)
    xp = namespace(y)
    c = xp.take(modes.project(taken(y, move(index, y))), move(np.flatnonzero(rough), y), axis=1)
    squares = xp.sort(xp.mean(xp.astype(c, xp.float64) ** 2, axis=1), axis=0)
    place = QUIET * (len(index) - 1)
    low = int(place)
    some = squares[low : low + 2, :]  # what lies on both sides of the quantile
    rms = xp.where(some > 0, some, xp.ones_like(some)) ** 0.5 * xp.astype(some > 0, xp.float64)
    level = rms[0, :] + (place - low) * (rms[-1, :] - rms[0, :])
    # rms of n normal numbers: mean about 1, standard deviation 1 / √(2n); 10 % lie 1.28 below.
    return level / max(0.5, 1 - 1.28 / math.sqrt(2 * rough.sum()))


# --- members and amplitudes -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Half:
    """The even, or the odd, modes of covariances of a box's samples beside their mean.

    A box read backwards is as likely as the box, so modes are even or odd about its centre: two
    problems of half the size.

    Parameters
    ----------
    bases : array, shape (K, S', r')
        Eigenvectors of each covariance, orthogonal to constants.
    variances : array, shape (K, r')
        Eigenvalues, of mean 1 in both halves together.
    totals : array, shape (K, A, r')
        Variance of each mode at each amplitude, noise included.
    """

    bases: Floats
    variances: Floats
    totals: Floats

    @property
    def covariances(self) -> Floats:
        """(K, S', S')."""
        return np.asarray((self.bases * self.variances[:, None, :]) @ np.swapaxes(self.bases, 1, 2))

    def gains(self, like: Array) -> Array:
        """How much of each mode an amplitude keeps, ``a γ / (a γ + 1)``, (K, A, r')."""
        return move(1 - 1 / self.totals, like, like.dtype)


@dataclass(frozen=True, eq=False, kw_only=True)
class Shapes:
    """Covariances of a box's samples beside their mean, and how often each is met.

    Parameters
    ----------
    halves : pair of Half
        Even and odd modes.
    amplitudes : array, shape (A,)
        Variances of the signal in units of the noise's.
    prior : array, shape (K, A)
        Logarithm of how often a member is met at an amplitude.
    """

    halves: tuple[Half, Half] = field(repr=False)
    amplitudes: Floats = field(repr=False)
    prior: Floats = field(repr=False)

    def at_once(self, like: Array) -> int:
        """Boxes to look at together, in the memory there is where `like` lives."""
        room = capacity(like) // (8 * len(self.prior))
        return max(64, room // sum(int(h.bases.shape[1]) for h in self.halves))

    def parts(self, Y: Array) -> tuple[list[Array], Array]:
        """What members find in boxes Y, (G, S), of mean 0 and noise 1.

        Even and odd modes, (K, G, r'), and the evidence of members and amplitudes, (K, G, A).
        """
        xp = namespace(Y)
        level = sum(np.log(h.totals).sum(axis=2) for h in self.halves)
        e = move(self.prior - 0.5 * level, Y, Y.dtype)[:, None, :]
        modes = []
        for half, y in zip(self.halves, folded(Y)):
            c = xp.matmul(y, move(half.bases, Y, Y.dtype))
            fit = move(np.swapaxes(-0.5 / half.totals, 1, 2).copy(), Y, Y.dtype)
            e = e + xp.matmul(c * c, fit)
            modes.append(c)
        return modes, e

    def __call__(self, Y: Array) -> Array:
        """Boxes Y, (G, S, C), of noise 1, without most of it; channels share their weights."""
        xp = namespace(Y)
        mean = xp.mean(Y, axis=1, keepdims=True)
        each = [self.parts((Y - mean)[..., k]) for k in range(Y.shape[2])]
        p = _shares([e for _, e in each])
        found = []
        for j, half in enumerate(self.halves):
            keep = xp.matmul(p, half.gains(Y))  # (K, G, r')
            U = move(np.swapaxes(half.bases, 1, 2).copy(), Y, Y.dtype)
            found.append([xp.sum(xp.matmul(modes[j] * keep, U), axis=0) for modes, _ in each])
        return xp.stack([unfolded(*both) for both in zip(*found)], axis=-1) + mean


def _shares(evidence: list[Array]) -> Array:
    """Softmax over members and amplitudes, (K, G, A), of what channels say together."""
    e = sum(evidence[1:], evidence[0])
    xp = namespace(e)
    p = xp.exp(e - xp.max(e, axis=(0, 2), keepdims=True))
    return p / xp.sum(p, axis=(0, 2), keepdims=True)


def shapes_of(kernels: Sequence[Floats], amplitudes: Floats, prior: Floats) -> Shapes:
    """Shapes from even and odd parts of covariances, (K, S', S'), whose mean is taken off."""
    S = sum(k.shape[1] for k in kernels)
    ones = folded(np.full(S, S**-0.5))
    found = []
    for own, one in zip(kernels, ones):
        off = np.eye(len(one)) - np.outer(one, one)
        gamma, U = np.linalg.eigh(off @ own @ off)
        free = int(one.any())  # the constant, which is even
        found.append((np.maximum(gamma[:, free:], 0), U[:, :, free:]))
    mean = np.concatenate([gamma for gamma, _ in found], axis=1).mean(axis=1, keepdims=True)
    halves = []
    for gamma, U in found:
        gamma = gamma / np.where(mean > 0, mean, 1)
        totals = 1 + amplitudes[:, None] * gamma[:, None, :]
        halves.append(Half(bases=U, variances=gamma, totals=totals))
    return Shapes(halves=(halves[0], halves[1]), amplitudes=amplitudes, prior=prior)


@remembered(8)
def _family(box: tuple[int, ...]) -> Floats:
    """Covariances of the family before any array was seen, (K, S, S)."""
    d = len(box)
    s = ORDER + (d - 2) / 2
    members = Family.of(d, s, [])
    if d == 2:
        members = Family.of(d, s, lines(STRETCHES, 1.0))
    elif d > 2:
        members = Family.of(d, s, [(n, a) for n in neighbours(d) for a in (STRETCH, 1 / STRETCH)])
    return covariances(box, members)


def family_shapes(box: tuple[int, ...], top: int = STRONGEST) -> Shapes:
    """The family, at amplitudes up to 4^top, before any array was seen."""
    kernels = _family(tuple(n for n in box if n > 1))
    amplitudes = np.power(4.0, np.arange(FAINTEST, top + 1.0))
    halves = [P.T @ kernels @ P for P in folded(np.eye(kernels.shape[1]))]
    return shapes_of(halves, amplitudes, np.zeros((len(kernels), len(amplitudes))))


def learned(start: Shapes, Y: Array) -> "Shapes | followed.Followed":
    """Shapes drawn towards boxes Y, (G, S, C), of noise 1.

    A pass finds the weights p of members and amplitudes in every box and the covariance of what
    each member says there, ``Σ p (x xᵀ / a + γ / (a γ + 1))``, as the next shape; the family
    counts for PULL boxes more.
    """
    xp, C = namespace(Y), Y.shape[2]
    Y = Y - xp.mean(Y, axis=1, keepdims=True)
    own, shapes = [h.covariances for h in start.halves], start
    if learns(Y):
        from elmfield.fit import followed  # rarely asked for

        a = start.amplitudes
        return followed.learned(own, a, Y, passes=PASSES, pull=PULL, unlikely=UNLIKELY)
    for _ in range(PASSES):
        each = [shapes.parts(Y[..., k]) for k in range(C)]
        p = _shares([e for _, e in each])
        met = to_numpy(xp.sum(p, axis=1)).astype(np.float64)  # (K, A)
        seen = []
        for k, j in np.argwhere(met > UNLIKELY).tolist():
            (rows,) = xp.nonzero(p[k, :, j] > UNLIKELY)
            root = (xp.take(p[k, :, j], rows) / float(shapes.amplitudes[j])) ** 0.5
            seen.append((k, j, rows, root[:, None]))
        kernels = []
        for h, half in enumerate(shapes.halves):
            K, _, r = half.bases.shape
            moments, gains = np.zeros((K, r, r)), half.gains(Y)
            for k, j, rows, root in seen:
                for modes, _ in each:
                    x = xp.take(modes[h][k, ...], rows, axis=0) * gains[k, j, :] * root
                    moments[k] += to_numpy(xp.matrix_transpose(x) @ x)
            left = np.einsum("ka,kar->kr", met, half.variances[:, None, :] / half.totals) * C
            moments += left[:, :, None] * np.eye(r)
            new = half.bases @ moments @ np.swapaxes(half.bases, 1, 2) + PULL * own[h]
            kernels.append(new / (met.sum(axis=1) * C + PULL)[:, None, None])
        shapes = shapes_of(kernels, start.amplitudes, np.log(met / met.sum() + 1e-6))
    return shapes


# --- an array -------------------------------------------------------------------------------------


def without_noise(y: Array, noise: Array, periodic: Sequence[bool]) -> Array:
    """Samples y, (..., C), without most of their noise of standard deviation `noise`, (C,)."""
    xp = namespace(y)
    shape, C = tuple(y.shape[:-1]), y.shape[-1]
    wide = [k for k, n in enumerate(shape) if n > 1]
    d = len(wide)
    if d > 3:  # in space, one after the other
        k = wide[0]
        parts = [xp.take(y, move(np.asarray([i]), y), axis=k) for i in range(shape[k])]
        return xp.concat([without_noise(part, noise, periodic) for part in parts], axis=k)
    size = xp.astype(xp.max(xp.abs(y), axis=tuple(range(len(shape)))), xp.float64)
    unit = xp.maximum(move(noise, y, xp.float64), 1e-12 * size)
    if d == 0 or not bool(xp.all(unit > 0)):  # one sample, or nothing but zeros
        return y
    is_single = not learns(y) and bool(xp.all(size < SINGLE * unit))
    kind = xp.float32 if is_single else xp.float64
    z = xp.astype(xp.astype(y, xp.float64) / unit, kind)
    box = tuple(min(BOX[d], n) for n in shape)
    index = box_index(shape, box, STRIDE[d], periodic)
    some = taken(z, move(index[:: max(1, len(index) // TAUGHT)], y))
    shapes = learned(family_shapes(box, _strongest(some)), some)
    n = math.prod(shape)
    total = [xp.zeros(n, dtype=kind, device=device(y)) for _ in range(C)]
    for i, j in runs(len(index), shapes.at_once(y)):
        at = move(index[i:j], y)
        X = shapes(taken(z, at))
        for c in range(C):
            values = xp.reshape(X[..., c], (-1,))
            total[c] = total[c] + scatter_add(n, xp.reshape(at, (-1,)), values)
    times = move(np.bincount(index.reshape(-1), minlength=n)[:, None], y, xp.float64)
    found = xp.astype(xp.stack(total, axis=-1), xp.float64) / times
    return xp.astype(xp.reshape(found, y.shape) * unit, y.dtype)


def _strongest(Y: Array) -> int:
    """Exponent of 4 that no box Y, (G, S, C), of noise 1 goes beyond."""
    xp = namespace(Y)
    most = float(to_numpy(xp.max(xp.var(Y, axis=1))))
    return max(STRONGEST, math.ceil(math.log(max(most, 1.0), 4)))
