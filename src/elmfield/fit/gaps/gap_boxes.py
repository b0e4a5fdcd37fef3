"""Missing samples near present ones, filled in boxes that choose among energies.

A box tries the members of a family of energies that its first, isotropic, filling makes likely,
each on the samples it really has, and averages their predictions by evidence. It costs a
few systems of as many unknowns as it has samples missing, or present, whichever is less.
"""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from elmfield._array import backend
from elmfield._array.backend import device, move, namespace, to_numpy
from elmfield._array.cache import memoised
from elmfield._array.running import capacity, runs, spread
from elmfield._array.typing import Array, Bools, Integers
from elmfield.fit.gaps.levels import average_boxes
from elmfield.local import energies
from elmfield.local.energy_mixture import softmax
from elmfield.partition import gather

TRIED_MEMBERS = 4
"""Members tried on a box's own samples, beside the isotropic one; a fifth moved the mean of ten
arrays with holes by 0.01 dB."""

ROUNDS = 2
"""How often boxes choose members by what all boxes filled in together; once around holes, where a
second time moved the mean of seven arrays by 0.02 dB."""

HOLE_ISOLATION = 0.15
"""Where less than this part of the direct neighbours of missing samples is present, on average,
gaps are holes."""

TEMPERATURE = 3.0
"""Evidence is divided by this; a box with gaps has less of it."""

ORDERS = (1.3, 1.6, 2.0, 2.5, 3.2, 4.0)
"""Orders, in the plane, of which the evidence of all boxes together chooses one."""

CHOOSING_BOXES = 400
"""Boxes that choose it, about."""

ORDER_PER_ISOLATION = 0.9
"""Evidence chooses orders that are too low beside present samples. Orders rise by this times the
part of a missing sample's direct neighbours that is there: by 0.45 with half of the samples
missing at random, by 0.2 with 80 %, hardly in holes."""

LEVEL_VARIANCE, SLOPE_VARIANCE = 1e3, 10.0
"""Prior variances of a box's mean and of its slopes, seen over half a box, against 1 for the rest:
as good as free, but not where a few samples in a corner say nothing of a slope."""

BOXES_PER_SOLVE = 512
"""Boxes solved together on a processor: enough for its threads to share."""

TINY = 1e-30
"""Keeps logarithms of nothing finite."""


class GaussianMembers(NamedTuple):
    """Members as plain Gaussian priors of a box's samples.

    Parameters
    ----------
    covariances, whitening, precisions : arrays, shape (K, S, S)
        Covariance of the samples, level, slopes and nugget included; V with ``Q = V Vᵀ``; its
        inverse, Q.
    determinants : array, shape (K,)
        log det of the covariances.
    """

    covariances: Array
    whitening: Array
    precisions: Array
    determinants: Array

    def moved(self, y: Array) -> "GaussianMembers":
        """The same where `y` is, in float64."""
        return GaussianMembers(*(move(a, y, namespace(y).float64) for a in self))


@memoised(32)
def gaussian_members(
    box: tuple[int, ...], orders: tuple[float, ...], turned: bool
) -> GaussianMembers:
    """Isotropic members of some orders, or (`turned`) a whole family of the one order."""
    d, s = wide_axes(box), orders[0]
    if turned and d > 1:
        members = energies.Family.of(d, s, energies.stretched(d, s, energies.FEW_STRETCHES))
    else:
        own = [f * s for f in energies.ORDER_FACTORS] if turned else orders
        members = energies.Family.isotropic(d, own)
    K = energies.covariances(box, members)
    at = energies.positions(box) / np.maximum((np.asarray(box) - 1) / 2, 1)
    nugget = np.maximum(10 ** -(1 + 2 * (members.orders - (d - 1) / 2 + 0.5)), 1e-8)
    K = K + LEVEL_VARIANCE + SLOPE_VARIANCE * at @ at.T + nugget[:, None, None] * np.eye(K.shape[1])
    gamma, U = np.linalg.eigh(K)
    gamma = np.maximum(gamma, nugget[:, None])
    W = U / np.sqrt(gamma)[:, None, :]
    return GaussianMembers(K, W, W @ np.swapaxes(W, 1, 2), np.log(gamma).sum(axis=1))


# --- an array -------------------------------------------------------------------------------------


def likeliest_order(
    Y: Array, M: Array, box: tuple[int, ...], isolation: float, rounding: float
) -> float:
    """The order that boxes from all over an array, Y (G, S, C) with samples M (G, S), make likely.

    `rounding` is the standard deviation of what samples were rounded by. Evidence counts on it: a
    flat area is known to that, and no better.
    """
    xp, more = namespace(Y), (wide_axes(box) - 2) / 2
    orders = tuple(s + more for s in ORDERS)
    who = xp.arange(len(orders), device=device(Y))
    who = xp.broadcast_to(who, (Y.shape[0], len(orders)))
    _, e = solve_boxes(gaussian_members(box, orders, False).moved(Y), Y, M, who, rounding)
    likely = orders[int(np.argmax(to_numpy(xp.sum(e, axis=0))))]
    return round(max(likely, 1.6 + more) + ORDER_PER_ISOLATION * isolation, 2)


def fill_boxes(
    y: Array, present: Array, box: tuple[int, ...], index: Integers, order: float, rounds: int,
    rounding: float,
) -> Array:  # fmt: skip
    """`y`, (..., C) in float64, filled where not `present` by overlapping boxes, places (G, S).

    In each of some rounds boxes look again at what all of them filled in together.
    """
    index = index[is_mixed(present, index)]
    if not len(index):
        return y
    xp, at = namespace(y), move(index, y)
    Y, M = gather(y, at), gather(present[..., None], at)[..., 0]
    along = [np.cos(np.pi * ((np.arange(b) + 0.5) / b - 0.5)) ** 2 for b in box]
    window = move(reduce(np.multiply.outer, along).reshape(-1), y, xp.float64)

    def blended(boxes: Array) -> Array:
        found, reached = average_boxes(present.shape, window, [(at, boxes)])
        return xp.where((present | ~reached)[..., None], y, found)

    only = xp.zeros((Y.shape[0], 1), dtype=xp.int64, device=device(y))
    isotropic = gaussian_members(box, (order,), False).moved(y)
    first = solve_boxes(isotropic, Y, M, only, rounding)
    found = blended(_blend_members(*first))
    for _ in range(rounds):
        members = gaussian_members(box, (order,), True).moved(y)
        who = _likely(members, gather(found, at), rounding)
        more = solve_boxes(members, Y, M, who, rounding)
        said, e = (xp.concat(both, axis=1) for both in zip(first, more))
        found = blended(_blend_members(said, e))
    return found


def is_mixed(present: Array, index: Integers) -> Bools:
    """Which boxes, places (G, S) in the flattened array, have samples and gaps."""
    have = to_numpy(present).reshape(-1)[index]
    return np.asarray(have.any(axis=1) & ~have.all(axis=1))


def wide_axes(shape: Sequence[int]) -> int:
    """Axes of more than one sample; at least 1."""
    return max(1, sum(n > 1 for n in shape))


def side_of(isolation: float, d: int) -> int:
    """Samples of a box per axis: 8 in the plane beside scattered gaps, 12 around holes.

    That is about thirty present samples. Boxes of 8 around holes lost 0.35 dB, boxes of 16 nothing,
    at three times the cost. In space 5 and 7.
    """
    if d > 2:
        return 5 if isolation > HOLE_ISOLATION else 7
    side = round((32 / max(isolation, 0.1 if d == 1 else 0.22)) ** (1 / d))
    return int(np.clip(side, *((16, 320) if d == 1 else (8, 12))))


def _likely(members: GaussianMembers, Y: Array, rounding: float) -> Array:
    """The most likely members but the isotropic one, (G, B), of full boxes Y, (G, S, C)."""
    xp = namespace(Y)
    G, S, C = Y.shape
    K = int(members.determinants.shape[0])
    Y = Y - xp.mean(Y, axis=1, keepdims=True)
    W = xp.reshape(xp.permute_dims(members.whitening, (1, 0, 2)), (S, K * S))
    least = rounding**2 * xp.sum(xp.linalg.diagonal(members.precisions), axis=1)
    found = []
    for i, j in runs(G, max(1, capacity(Y) // (2 * K * S * C))):
        flat = xp.reshape(xp.permute_dims(Y[i:j, ...], (2, 0, 1)), (C * (j - i), S))
        z = flat @ W
        q = xp.sum(xp.reshape(z * z, (C, j - i, K, S)), axis=3) + least
        e = -S / 2 * xp.sum(xp.log(q + TINY), axis=0) - C / 2 * members.determinants
        found.append(1 + xp.argsort(-e[:, 1:], axis=1, stable=True)[:, :TRIED_MEMBERS])
    return xp.concat(found, axis=0)


def _blend_members(said: Array, e: Array) -> Array:
    """Boxes (G, S, C) from what members say, (G, B, S, C), by their evidence, (G, B)."""
    p = softmax(e / (TEMPERATURE * said.shape[3]))
    return namespace(said).sum(said * p[:, :, None, None], axis=1)


# --- systems --------------------------------------------------------------------------------------


def solve_boxes(
    members: GaussianMembers, Y: Array, M: Array, who: Array, rounding: float = 0.0
) -> tuple[Array, Array]:
    """What members `who`, (G, B), say of boxes Y, (G, S, C), with samples M, (G, S).

    Returns the boxes, (G, B, S, C), filled, and the evidence, (G, B). Boxes are sorted by how many
    samples they have, so that those solved together are of one size, nearly. What `rounding` adds
    to ``yᵀK⁻¹y`` is taken from one more channel, of random signs.
    """
    xp = namespace(Y)
    G, S, C = Y.shape
    signs = np.random.default_rng(0).choice([-rounding, rounding], (1, S, 1))
    Y = xp.concat([Y, xp.broadcast_to(move(signs, Y, Y.dtype), (G, S, 1))], axis=2)
    count = to_numpy(xp.sum(xp.astype(M, xp.int64), axis=1))
    rank = np.argsort(count, kind="stable")
    most = BOXES_PER_SOLVE if backend.is_on_host(Y) else G
    step = int(max(16, min(most, capacity(Y) // (8 * who.shape[1] * S * S))))

    def work(run: tuple[int, int]) -> tuple[Array, Array]:
        rows = rank[slice(*run)]
        at = move(rows, Y)
        y, here, own = (xp.take(a, at, axis=0) for a in (Y, M, who))
        m = xp.astype(here, Y.dtype)[..., None]
        n = xp.sum(m, axis=1, keepdims=True)
        mean = xp.sum(y * m, axis=1, keepdims=True) / xp.maximum(n, xp.ones_like(n))
        few = count[rows].max() <= S / 2
        said, q, logs = (_by_present if few else _by_missing)(members, y - mean, here, own)
        # ``-n/2 log yᵀK⁻¹y - 1/2 log det K``, summed over channels; roundings count in each.
        q = q[..., :-1] + q[..., -1:]
        fit = xp.sum(xp.log(xp.maximum(q, xp.zeros_like(q)) + TINY), axis=2)
        return said + mean[:, None, ...], -n[:, 0, :] / 2 * fit - C / 2 * logs

    # Other libraries have threads of their own, and torch's solvers are not loaded by two at once.
    results = spread(work, runs(G, step), None if backend.is_numpy(Y) else 1)
    back = move(np.argsort(rank), Y)
    said, e = (xp.concat([r[i] for r in results], axis=0) for i in (0, 1))
    return xp.take(said[..., :C], back, axis=0), xp.take(e, back, axis=0)


Said = tuple[Array, Array, Array]
"""Boxes (G, B, S, C) of samples less their mean, filled; ``yᵀK⁻¹y``, (G, B, C); log det K, (G, B).

K is that of the samples a box has, y these samples.
"""


def _by_present(members: GaussianMembers, Y: Array, M: Array, who: Array) -> Said:
    """``y_m = K_mp K_pp⁻¹ y_p``."""
    xp = namespace(Y)
    own, valid, _ = _chosen(M)
    v = xp.astype(valid, Y.dtype)[:, None, :, None]
    at = xp.broadcast_to(own[..., None], (*own.shape, Y.shape[2]))
    y = xp.take_along_axis(Y, at, axis=1)  # (G, P, C)
    z, logs = _small_systems(members.covariances, own, valid, who, y[:, None, ...])
    z = z * v
    q = xp.sum(z * y[:, None, ...], axis=2)  # (G, B, C)
    K, S, _ = members.covariances.shape
    rows = xp.reshape(members.covariances, (K * S, S))
    at = who[:, :, None] * S + own[:, None, :]  # (G, B, P)
    across = xp.reshape(xp.take(rows, xp.reshape(at, (-1,)), axis=0), (*at.shape, S))
    return xp.matmul(xp.matrix_transpose(across), z), q, logs


def _by_missing(members: GaussianMembers, Y: Array, M: Array, who: Array) -> Said:
    """``y_m = -Q_mm⁻¹ Q_mp y_p`` with Q the inverse of K, and log det K_pp = log det K Q_mm."""
    xp = namespace(Y)
    own, valid, place = _chosen(~M)
    y = Y * xp.astype(M, Y.dtype)[..., None]
    G, S, C = Y.shape
    K, B, P = members.precisions.shape[0], who.shape[1], own.shape[1]
    # Of all members, by one product: to gather the matrices of some takes longer.
    every = xp.matrix_transpose(xp.reshape(members.precisions, (K * S, S)))
    every = xp.matmul(xp.matrix_transpose(y), every)
    every = xp.permute_dims(xp.reshape(every, (G, C, K, S)), (0, 2, 3, 1))
    own_members = xp.broadcast_to(who[:, :, None, None], (G, B, S, C))
    b = xp.take_along_axis(every, own_members, axis=1)  # (G, B, S, C)
    c = xp.take_along_axis(b, xp.broadcast_to(own[:, None, :, None], (G, B, P, C)), axis=2)
    z, logs = _small_systems(members.precisions, own, valid, who, c)
    z = z * xp.astype(valid, Y.dtype)[:, None, :, None]
    q = xp.sum(b * y[:, None, ...], axis=2) - xp.sum(z * c, axis=2)
    logs = logs + xp.reshape(xp.take(members.determinants, xp.reshape(who, (-1,))), (G, B))
    # At their places, zero elsewhere.
    end = xp.concat([-z, xp.zeros_like(z[:, :, :1, :])], axis=2)
    at = xp.broadcast_to(place[:, None, :, None], (G, B, S, C))
    return xp.take_along_axis(end, at, axis=2) + y[:, None, ...], q, logs


def _small_systems(
    matrices: Array, own: Array, valid: Array, who: Array, b: Array
) -> tuple[Array, Array]:
    """``A⁻¹ b``, (G, B, P, C), and log det A, (G, B), of the rows and columns `own` of matrices.

    `own`, (G, P), are samples of each box, the `valid` ones first; others are left out.
    """
    xp = namespace(b)
    S, P = matrices.shape[1], own.shape[1]
    index = own[:, :, None] * S + own[:, None, :]  # (G, P, P)
    places = xp.reshape(who[:, :, None, None] * (S * S) + index[:, None, ...], (-1,))
    A = xp.reshape(xp.take(xp.reshape(matrices, (-1,)), places), (*who.shape, P, P))
    v = xp.astype(valid, A.dtype)
    both = (v[:, :, None] * v[:, None, :])[:, None, ...]
    eye = xp.eye(P, dtype=A.dtype, device=device(b))
    A = A * both + eye * (1 - v)[:, None, None, :]
    L = xp.linalg.cholesky(A)
    right = xp.broadcast_to(b * v[:, None, :, None], (*A.shape[:-1], b.shape[-1]))
    return xp.linalg.solve(A, right), 2 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)


def _chosen(have: Array) -> tuple[Array, Array, Array]:
    """Samples that count, (G, P), first those that do; which do; where each sample is found.

    The last, (G, S), is P for samples that are not among the chosen.
    """
    xp = namespace(have)
    P = max(1, int(xp.max(xp.sum(xp.astype(have, xp.int64), axis=1))))
    order = xp.argsort(xp.astype(~have, xp.int8), axis=1, stable=True)
    own = order[:, :P]
    place = xp.argsort(order, axis=1)
    return own, xp.take_along_axis(have, own, axis=1), xp.minimum(place, xp.full_like(place, P))
