"""Regions that choose what they believe: a family of energies, blended by their evidence.

Enter boxes of samples; leave, for every box, the weight of each member of a family of energies and
the output weights α of one hidden layer, shared by all members and boxes. Factored once in float64
for a box and a family, applied in the data's dtype. How boxes lie in an array is not known here.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from elmfield._array.backend import device, move, namespace
from elmfield._array.cache import CACHE, Arrays, remembered
from elmfield._array.threads import small_products
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local.energies import Family, family
from elmfield.local.kernels import (
    affine,
    affine_at,
    affine_norms,
    affine_places,
    complement,
    features,
    is_odd,
    kernels_of,
    spectra_of,
    through,
    waves_of,
)
from elmfield.local.layers import Cosines

TEMPERATURE = 3.0
"""Evidence is divided by this before weights are made: neighbouring samples are not independent,
and the family is not the truth. Between 2.5 and 4 photographs differ by 0.01 dB."""

PRINCIPAL = 0.006
"""Principal differences between members are kept down to this part of the first one's variance."""

ROUNDED = 4.0
"""A box whose samples are affine but for this many roundings says nothing about directions."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Half:
    """The even, or the odd, part of a family's factorisations on a box.

    Prices do not change with the sign of ω, so a member's kernel maps functions that are even about
    the box's centre to even ones and odd to odd: two problems of half the size, a quarter of the
    work each.

    Parameters
    ----------
    whitening : array, shape (S', K, r')
        V with ``yᵀQ y = |Vᵀ y|²`` for each member; Q is K⁻¹ without the affine functions.
    mixing : array, shape (1 + R, S', m')
        ``α = Σ_j q_j mixing_jᵀ y``, of the features of this parity.
    features : integer array, shape (m',)
        Which of the product layer's features those are.
    """

    whitening: Floats
    mixing: Floats
    features: Integers


@dataclass(frozen=True, eq=False, kw_only=True)
class Beliefs:
    """What a box and a family of energies give: evidence, and output weights.

    With H the product layer on the samples, E_k the price of member k, ``K = H E⁻¹ Hᵀ`` and X the
    affine functions, the function of least energy through y has

        b = (Xᵀ K⁻¹ X)⁻¹ Xᵀ K⁻¹ y ,   α = E⁻¹ Hᵀ K⁻¹ (y - X b) = E⁻¹ Hᵀ Q y

    and the evidence, with the amplitude of the prior and b integrated out, in r = S - d - 1
    dimensions,

        -r/2 log yᵀQy - 1/2 log det ZᵀKZ ,   Q = Z (ZᵀKZ)⁻¹ Zᵀ ,   Z = the complement of X.

    All members meet the samples, so ``Σ_k p_k M_k = M_0 + Σ_k p_k (M_k - M_0)``, and the
    differences vanish on the samples and on affine functions. They are nearly dependent: of the 36
    in the plane about 14 principal ones are kept, which changes no score by more than 0.01 dB and
    neither the values at the samples nor affine functions at all.

    Parameters
    ----------
    box : tuple of int
        Samples on each axis.
    order : float
        Order along a line that the family was made around.
    waves : tuple of Cosines
        The layer, per axis.
    family : Family
        Who may be believed.
    halves : pair of Half
        Even and odd.
    determinants : array, shape (K,)
        log det ZᵀKZ.
    principal : array, shape (K, 1 + R)
        ``q = p principal``: a column of ones for the isotropic member, then R of differences.
    """

    box: tuple[int, ...]
    order: float
    waves: tuple[Cosines, ...]
    family: Family
    halves: tuple[Half, Half] = field(repr=False)
    determinants: Floats = field(repr=False)
    principal: Floats = field(repr=False)

    @property
    def rank(self) -> int:
        """Dimensions r in which members can be told apart."""
        return int(sum(h.whitening.shape[2] for h in self.halves))

    @cached_property
    def places(self) -> Integers:
        """Where each feature of the layer is found among the even and odd ones."""
        return np.argsort(np.concatenate([h.features for h in self.halves]))

    def _placed(self, like: Array) -> Arrays:
        """All factors in the library, dtype and on the device of `like`; kept there."""
        kind = str(like.dtype).rsplit(".", 1)[-1]
        name = f"beliefs {self.box} {self.order} {self.principal.shape[1]} {kind}"

        def make() -> Arrays:
            found = {
                "determinants": self.determinants,
                "principal": self.principal,
                "affine": affine(self.box),
            }
            for which, half in zip(("even", "odd"), self.halves):
                n, K, r = half.whitening.shape
                found[f"{which} whitening"] = half.whitening.reshape(n, K * r)
                J, n, m = half.mixing.shape
                found[f"{which} mixing"] = half.mixing.reshape(J * n, m)
            placed = {key: move(a, like, like.dtype) for key, a in found.items()}
            return placed | {"places": move(self.places, like)}

        return CACHE.get(name, like, make)

    def evidence(self, Y: Array, clear: Array | None = None) -> Array:
        """Logarithm of the evidence of all members, (G, K), from samples Y, (G, S, C).

        Its mean over channels, each with an amplitude of its own; over those that are `clear`,
        (G, C), if that is said. Channels say much the same: on three colour photographs their sum
        over √C lost 0.05 dB against this, channels on their own 0.01.
        """
        xp = namespace(Y)
        G, S, C = Y.shape
        K = self.family.n_members
        own = self._placed(Y)
        flat = xp.reshape(xp.permute_dims(Y, (2, 0, 1)), (C * G, S))
        parts = []
        for which, y, half in zip(("even", "odd"), folded(flat), self.halves):
            r = half.whitening.shape[2]
            if r:
                z = y @ own[f"{which} whitening"]
                parts.append(xp.sum(xp.reshape(z * z, (-1, K, r)), axis=2))
        if not parts:  # every set of samples is affine
            return xp.zeros((G, K), dtype=Y.dtype, device=device(Y))
        tiny = xp.finfo(Y.dtype).smallest_normal
        logs = xp.reshape(xp.log(sum(parts[1:], parts[0]) + tiny), (C, G, K))
        if clear is None:
            mean = xp.mean(logs, axis=0)
        else:
            w = xp.astype(clear, Y.dtype)
            count = xp.sum(w, axis=1, keepdims=True)
            w = w / xp.maximum(count, xp.ones_like(count))
            mean = xp.sum(logs * xp.permute_dims(w, (1, 0))[..., None], axis=0)
        return -self.rank / 2 * mean - own["determinants"] / 2

    def weights(self, Y: Array, rounding: Floats) -> Array:
        """Weight p of every member, (G, K), from samples Y, (G, S, C); each row sums to 1.

        `rounding`, (C,), is the standard deviation of what the samples' dtype cannot hold: a
        channel with no more than that beside an affine function says nothing, and where none says
        anything the isotropic member is believed.
        """
        xp = namespace(Y)
        X = self._placed(Y)["affine"]  # (S, 1 + d), orthonormal
        rest = Y - xp.matmul(X, xp.matmul(X.T, Y))
        rough = xp.mean(rest * rest, axis=1) ** 0.5
        clear = rough > move(ROUNDED * rounding, Y, Y.dtype)  # (G, C)
        e = self.evidence(rest, clear) / TEMPERATURE
        e = xp.exp(e - xp.max(e, axis=1, keepdims=True))
        p = e / xp.sum(e, axis=1, keepdims=True)
        only = move(np.eye(1, self.family.n_members), Y, Y.dtype)
        return xp.where(xp.any(clear, axis=1, keepdims=True), p, only)

    def mixture(self, Y: Array, rounding: Floats) -> Array:
        """``q = p principal``, (G, 1 + R): what :meth:`alphas` needs to know of the weights."""
        return self.weights(Y, rounding) @ self._placed(Y)["principal"]

    def alphas(self, Y: Array, q: Array) -> Array:
        """Output weights, (G, m, C), of samples Y, (G, S, C), with ``q = p principal``, (G, 1 + R).

        ``α = Σ_j q_j M_j y``: one product of q ⊗ y with all matrices.
        """
        xp = namespace(Y)
        G, _, C = Y.shape
        own = self._placed(Y)
        channels = xp.permute_dims(Y, (2, 0, 1))
        found = []
        for which, y in zip(("even", "odd"), folded(channels)):
            both = q[None, :, :, None] * y[:, :, None, :]
            both = xp.reshape(both, (C * G, both.shape[2] * both.shape[3]))
            found.append(both @ own[f"{which} mixing"])
        alpha = xp.take(xp.concat(found, axis=1), own["places"], axis=1)
        return xp.permute_dims(xp.reshape(alpha, (C, G, -1)), (1, 2, 0))

    @property
    def work(self) -> int:
        """Numbers that the output weights of one box and channel take on their way, about."""
        return sum(h.mixing.shape[0] * h.mixing.shape[1] + 3 * len(h.features) for h in self.halves)


def folded(y: Array) -> tuple[Array, Array]:
    """Even and odd parts, (..., S - S // 2) and (..., S // 2), of samples y, (..., S), of a box.

    Orthonormal: reversing the flat order of a box reverses all its axes.
    """
    xp = namespace(y)
    S = y.shape[-1]
    half = S // 2
    low, high = y[..., :half], xp.flip(y[..., S - half :], axis=-1)
    even = (low + high) / 2**0.5
    return xp.concat([even, y[..., half : S - half]], axis=-1), (low - high) / 2**0.5


# --- factorisations -------------------------------------------------------------------------------


@remembered(16)
def beliefs(box: tuple[int, ...], order: float) -> Beliefs:
    """The family around an order along a line, factored on a box of samples one unit apart.

    Members are handled as stacks of matrices, in time K (S³ + m S): 37 on 7 by 7 samples take
    0.1 s on one core, 27 on 5 by 5 by 5 take 1.6 s.
    """
    d = sum(n > 1 for n in box)
    flat = tuple(n for n in box if n > 1) or (1,)
    with small_products():
        made = factored(flat, family(max(d, 1), order), order)
    return made if flat == box else _spread(made, box)


def _spread(made: Beliefs, box: tuple[int, ...]) -> Beliefs:
    """The same on a box with axes of one sample besides: products with their constant alone."""
    waves = waves_of(box)
    wide = [k for k, n in enumerate(box) if n > 1] or [0]
    at = np.arange(int(np.prod([w.width for w in waves]))).reshape([w.width for w in waves])
    inner = at[tuple(slice(None) if k in wide else 0 for k in range(len(box)))].reshape(-1)
    halves = [
        Half(whitening=h.whitening, mixing=h.mixing, features=inner[h.features])
        for h in made.halves
    ]
    # Products with u of an axis of one sample have weight 0.
    rest = np.setdiff1d(at, inner)
    J, n, _ = halves[0].mixing.shape
    mixing = np.concatenate([halves[0].mixing, np.zeros((J, n, len(rest)))], axis=2)
    halves[0] = Half(
        whitening=halves[0].whitening,
        mixing=mixing,
        features=np.concatenate([halves[0].features, rest]),
    )
    return Beliefs(
        box=box,
        order=made.order,
        waves=waves,
        family=made.family,
        halves=(halves[0], halves[1]),
        determinants=made.determinants,
        principal=made.principal,
    )


def factored(box: tuple[int, ...], members: Family, order: float) -> Beliefs:
    """Factorisations of all members on a box of samples."""
    S, K = int(np.prod(box)), members.n_members
    waves = waves_of(box)
    spectra = spectra_of(waves, members)
    kernels = kernels_of(waves, box, spectra)  # (K, S, S)
    odd = is_odd(waves)
    X = affine(box)
    Q, whitening, determinants = np.zeros((K, S, S)), [], np.zeros(K)
    for P in folded(np.eye(S)):
        B = P @ complement(P.T @ X)  # (S, r'), of one parity, orthogonal to affine functions
        gamma, U = np.linalg.eigh(B.T @ kernels @ B)
        # Rounding must not make a direction cheap: what K cannot tell from 0 it does not tell.
        least = S * np.finfo(float).eps * np.max(gamma, axis=1, initial=0)
        gamma = np.maximum(gamma, least[:, None])
        V = (B @ U) / np.sqrt(gamma)[:, None, :]
        Q += V @ np.swapaxes(V, 1, 2)
        whitening.append(np.ascontiguousarray(np.moveaxis(P.T @ V, 0, 1)))
        determinants += np.log(gamma).sum(axis=1)
    rest = X.T @ (np.eye(S) - kernels @ Q)  # (K, 1 + d, S): the affine part of each member
    U = _principal(waves, box, spectra, kernels[0], Q, rest)  # (K, R)
    onto = np.column_stack([np.eye(K, 1), U - np.eye(K, 1) * U.sum(axis=0)])  # M_0, differences
    M = np.zeros((onto.shape[1], odd.size, S))
    for k in range(K):  # one at a time: in space each takes 7 MB
        each = through(waves, box, spectra[k], Q[k])
        each[affine_places(waves)] += rest[k] / affine_norms(box)[:, None]
        for j in np.flatnonzero(onto[k]):
            M[j] += onto[k, j] * each
    H = features(waves, box)
    M[0] += M[0] @ (np.eye(S) - H @ M[0])  # for what rounding left at the samples
    M[1:] -= M[0] @ (H @ M[1:])
    even, uneven = (
        Half(
            whitening=v,
            mixing=np.ascontiguousarray(np.swapaxes(M[:, which] @ P, 1, 2)),
            features=np.flatnonzero(which),
        )
        for v, P, which in zip(whitening, folded(np.eye(S)), (~odd, odd))
    )
    return Beliefs(
        box=tuple(box),
        order=order,
        waves=waves,
        family=members,
        halves=(even, uneven),
        determinants=determinants,
        principal=np.column_stack([np.ones(K), U]),
    )


def _principal(
    waves: tuple[Cosines, ...],
    box: tuple[int, ...],
    spectra: Floats,
    kernel: Floats,
    Q: Floats,
    rest: Floats,
) -> Floats:
    """Orthonormal columns U, (K, R): what distinguishes members' functions from the isotropic one.

    Functions are compared around the centre of the box, for samples as the isotropic member
    expects them. Where members can change places (turned axes), columns that do so have equal
    variances, and are kept or dropped together.
    """
    near = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    axes = [near if n > 2 else np.zeros(1) for n in box]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(box))
    F = kernels_of(waves, box, spectra, points) @ Q + affine_at(box, points) @ rest  # (K, P, S)
    D = F - F[0]
    gram = np.tensordot(D @ kernel, D, axes=((1, 2), (1, 2)))
    variance, U = np.linalg.eigh((gram + gram.T) / 2)
    keep = variance > PRINCIPAL * max(variance[-1], 1e-12)
    return np.asarray(U[:, keep][:, ::-1])
