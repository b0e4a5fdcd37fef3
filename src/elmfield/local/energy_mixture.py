"""Mixtures of energies: each box weighs the members of a family by their evidence.

For boxes of samples this gives the weight of each member and the output weights α of one hidden
layer, shared by all members and boxes. Factored once in float64 for a box and a family, applied in
the data's dtype.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np

from elmfield._array.backend import device, move, namespace
from elmfield._array.cache import CACHE, Arrays, memoised
from elmfield._array.running import small_products
from elmfield._array.typing import Array, Floats, Integers
from elmfield.local import energies
from elmfield.local.energies import Family, affine, complement, kernels_of, waves_of
from elmfield.local.layers import Cosines, sample_features

TEMPERATURE = 3.0
"""Evidence is divided by this before weights are made: neighbouring samples are not independent,
and the family is not the truth. Between 2.5 and 4 photographs differ by 0.01 dB."""

PRINCIPAL = 0.006
"""Principal differences between members are kept down to this part of the first one's variance."""

ROUNDED = 4.0
"""A box whose samples are affine but for this many roundings has no evidence about directions."""


PARITIES = ("even", "odd")


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
        The members.
    whitening : pair of arrays, shape (S', K r')
        V with ``yᵀQ y = |Vᵀ y|²`` for each member, of the even and of the odd parts of samples.
    features : pair of integer arrays, shape (m',)
        Which of the product layer's features are even, and which odd.
    spectra : array, shape (K, L_1, ..., L_d)
        1 / E.
    Q : array, shape (K, S, S)
        K⁻¹ without the affine functions.
    rest : array, shape (K, 1 + d, S)
        The affine part of each member.
    determinants : array, shape (K,)
        log det ZᵀKZ.
    means : bool
        Whether samples are means over their cells: H and K are then those of such means, and
        `spectra` are multiplied by what a cell's mean leaves of each wave.

    Notes
    -----
    Prices do not change with the sign of ω, so a member's kernel maps functions that are even about
    the box's centre to even ones and odd to odd: two problems of half the size, a quarter of the
    work each.
    """

    box: tuple[int, ...]
    order: float
    waves: tuple[Cosines, ...]
    family: Family
    whitening: tuple[Floats, Floats] = field(repr=False)
    features: tuple[Integers, Integers] = field(repr=False)
    spectra: Floats = field(repr=False)
    Q: Floats = field(repr=False)
    rest: Floats = field(repr=False)
    determinants: Floats = field(repr=False)
    means: bool = False

    @cached_property
    def differences(self) -> Floats:
        """Orthonormal columns U, (K, R): what distinguishes members' functions from the isotropic.

        Functions are compared around the centre of the box, for samples as the isotropic member
        expects them. Where members can change places (turned axes), columns that do so have equal
        variances, and are kept or dropped together.
        """
        near = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
        axes = [near if n > 2 else np.zeros(1) for n in self.box]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(self.box))
        D = self.differences_at(points)
        left = energies.transfer(self.waves) if self.means else 1.0
        kernel = kernels_of(self.waves, self.box, self.spectra[:1] * left)[0]
        gram = np.tensordot(D @ kernel, D, axes=((1, 2), (1, 2)))
        variance, U = np.linalg.eigh((gram + gram.T) / 2)
        keep = variance > PRINCIPAL * max(variance[-1], 1e-12)
        return np.asarray(U[:, keep][:, ::-1])

    def differences_at(self, points: Floats) -> Floats:
        """What samples count for in members' functions less the isotropic one, (K, P, S).

        At points on the grid of half samples, (P, d), counted from the centre of the box.
        """
        F = kernels_of(self.waves, self.box, self.spectra, points) @ self.Q
        D = F + energies.affine_at(self.box, points) @ self.rest
        return np.asarray(D - D[0])

    @cached_property
    def places(self) -> Integers:
        """Where each feature of the layer is found among the even and odd ones."""
        return np.argsort(np.concatenate(self.features))

    def _kept(self, what: str, like: Array, make: Callable[[], Arrays]) -> Arrays:
        """Factors in the library, dtype and on the device of `like`; kept there."""
        kind = str(like.dtype).rsplit(".", 1)[-1]
        width = 1 + self.differences.shape[1]
        name = f"{what} {self.box} {self.order} {width} {kind} {self.means}"

        def moved() -> Arrays:
            return {key: move(a, like, like.dtype) for key, a in make().items()}

        return CACHE.get(name, like, moved)

    def _weighing(self, like: Array) -> Arrays:
        """What weighs members; principal: ones for the isotropic member, then differences."""
        principal = np.column_stack([np.ones(len(self.differences)), self.differences])
        found = {"determinants": self.determinants, "principal": principal}
        found |= {"affine": affine(self.box), **dict(zip(PARITIES, self.whitening))}
        return self._kept("beliefs", like, lambda: found)

    def _mixing(self, like: Array) -> Arrays:
        """Factors of the output weights; made when the function is first evaluated."""
        with small_products():
            return self._kept("mixing", like, self.mixing)

    def mixing(self) -> dict[str, Floats]:
        """Even and odd parts, ((1 + R) S', m'): ``α = Σ_j q_j mixing_jᵀ y``."""
        box, waves, S, U = self.box, self.waves, self.Q.shape[1], self.differences
        first = np.eye(len(U), 1)  # the isotropic member; differences from it follow
        onto = np.column_stack([first, U - first * U.sum(axis=0)])
        M = energies.combine_members(waves, box, self.spectra, self.Q, onto)
        lines = np.tensordot(onto, self.rest, axes=(0, 0)) / energies.affine_norms(box)[:, None]
        M[:, energies.affine_places(waves)] += lines
        on_axes: list[Array] = [sample_features(w, n, self.means) for w, n in zip(waves, box)]
        H = np.asarray(reduce(np.kron, on_axes))
        M[0] += M[0] @ (np.eye(S) - H @ M[0])  # for what rounding left at the samples
        M[1:] -= M[0] @ (H @ M[1:])
        parts = zip(PARITIES, fold_parities(np.eye(S)), self.features)
        return {w: np.swapaxes(M[:, own] @ P, 1, 2).reshape(-1, len(own)) for w, P, own in parts}

    def evidence(self, Y: Array, clear: Array) -> Array:
        """Logarithm of the evidence of all members, (G, K), from samples Y, (G, S, C).

        Its mean over the channels that are `clear`, (G, C), each with an amplitude of its own.
        Channels hold much the same evidence: on three colour photographs their sum over √C lost
        0.05 dB against this, channels on their own 0.01.
        """
        xp = namespace(Y)
        G, S, C = Y.shape
        K = self.family.n_members
        own = self._weighing(Y)
        flat = xp.reshape(xp.permute_dims(Y, (2, 0, 1)), (C * G, S))
        parts = []
        for which, y in zip(PARITIES, fold_parities(flat)):
            z = y @ own[which]
            if z.shape[1]:
                parts.append(xp.sum(xp.reshape(z * z, (C * G, K, -1)), axis=2))
        if not parts:  # every set of samples is affine
            return xp.zeros((G, K), dtype=Y.dtype, device=device(Y))
        tiny = xp.finfo(Y.dtype).smallest_normal
        logs = xp.reshape(xp.log(sum(parts[1:], parts[0]) + tiny), (C, G, K))
        w = xp.astype(clear, Y.dtype)
        count = xp.sum(w, axis=1, keepdims=True)
        w = w / xp.maximum(count, xp.ones_like(count))
        mean = xp.sum(logs * xp.permute_dims(w, (1, 0))[..., None], axis=0)
        r = sum(V.shape[1] for V in self.whitening) // K
        return -r / 2 * mean - own["determinants"] / 2

    def weights(self, Y: Array, rounding: Floats) -> Array:
        """Weight p of every member, (G, K), from samples Y, (G, S, C); each row sums to 1.

        `rounding`, (C,), is the standard deviation of what the samples' dtype cannot hold: a
        channel with no more than that beside an affine function does not count, and where none
        counts the isotropic member is taken alone.
        """
        xp = namespace(Y)
        X = self._weighing(Y)["affine"]  # (S, 1 + d), orthonormal
        rest = Y - xp.matmul(X, xp.matmul(X.T, Y))
        rough = xp.mean(rest * rest, axis=1) ** 0.5
        clear = rough > move(ROUNDED * rounding, Y, Y.dtype)  # (G, C)
        p = softmax(self.evidence(rest, clear) / TEMPERATURE)
        only = move(np.eye(1, self.family.n_members), Y, Y.dtype)
        return xp.where(xp.any(clear, axis=1, keepdims=True), p, only)

    def mixture(self, Y: Array, rounding: Floats) -> Array:
        """``q = p principal``, (G, 1 + R): what :meth:`alphas` needs to know of the weights."""
        return self.weights(Y, rounding) @ self._weighing(Y)["principal"]

    def alphas(self, Y: Array, q: Array) -> Array:
        """Output weights, (G, m, C), of samples Y, (G, S, C), with ``q = p principal``, (G, 1 + R).

        ``α = Σ_j q_j M_j y``: one product of q ⊗ y with all matrices.
        """
        xp = namespace(Y)
        G, _, C = Y.shape
        own = self._mixing(Y)
        channels = xp.permute_dims(Y, (2, 0, 1))
        found = []
        for which, y in zip(PARITIES, fold_parities(channels)):
            both = q[None, :, :, None] * y[:, :, None, :]
            both = xp.reshape(both, (C * G, both.shape[2] * both.shape[3]))
            found.append(both @ own[which])
        alpha = xp.take(xp.concat(found, axis=1), move(self.places, Y), axis=1)
        return xp.permute_dims(xp.reshape(alpha, (C, G, -1)), (1, 2, 0))

    @property
    def work(self) -> int:
        """Numbers that the output weights of one box and channel take on their way, about."""
        J = 1 + int(self.differences.shape[1])
        S, m = (sum(map(len, parts)) for parts in (self.whitening, self.features))
        return J * S + 3 * m


def softmax(e: Array, axis: int | tuple[int, ...] = 1) -> Array:
    """Exponentials of evidence e in parts of their sum along an axis, or several."""
    xp = namespace(e)
    p = xp.exp(e - xp.max(e, axis=axis, keepdims=True))
    return p / xp.sum(p, axis=axis, keepdims=True)


def fold_parities(y: Array) -> tuple[Array, Array]:
    """Even and odd parts, (..., S - S // 2) and (..., S // 2), of samples y, (..., S), of a box.

    Orthonormal: reversing the flat order of a box reverses all its axes.
    """
    xp = namespace(y)
    S = y.shape[-1]
    half = S // 2
    low, high = y[..., :half], xp.flip(y[..., S - half :], axis=-1)
    even = (low + high) / 2**0.5
    return xp.concat([even, y[..., half : S - half]], axis=-1), (low - high) / 2**0.5


def unfold_parities(even: Array, odd: Array) -> Array:
    """Samples (..., S) from their even and odd parts, as :func:`fold_parities` makes them."""
    xp = namespace(even)
    half = odd.shape[-1]
    e, o = even[..., :half] / 2**0.5, odd / 2**0.5
    return xp.concat([e + o, even[..., half:], xp.flip(e - o, axis=-1)], axis=-1)


# --- factorisations -------------------------------------------------------------------------------


@memoised(16)
@small_products()
def beliefs(box: tuple[int, ...], order: float, means: bool = False) -> Beliefs:
    """The family around an order along a line, factored on a box of samples one unit apart.

    Members are handled as stacks of matrices, in time K S³: 37 on 7 by 7 samples take 11 ms on one
    core, and output weights, made when needed, 35 ms; 27 on 5 by 5 by 5 take 1.6 s together.
    """
    members = energies.family(max(1, sum(n > 1 for n in box)), order)
    S, K = int(np.prod(box)), members.n_members
    waves = waves_of(box)
    left = energies.transfer(waves) if means else np.ones(())
    spectra = energies.spectra_of(waves, members) * left
    kernels = kernels_of(waves, box, spectra * left)  # (K, S, S)
    odd = energies.is_odd(waves)
    X = affine(box)
    Q, whitening, determinants = np.zeros((K, S, S)), [], np.zeros(K)
    for P in fold_parities(np.eye(S)):
        B = P @ complement(P.T @ X)  # (S, r'), of one parity, orthogonal to affine functions
        own = B.T @ kernels @ B
        r = own.shape[1]
        # Rounding must not make a direction cheap: what K cannot tell from 0 it does not tell.
        least = S * np.finfo(float).eps * np.trace(own, axis1=1, axis2=2)
        L = np.linalg.cholesky(own + least[:, None, None] * np.eye(r))
        V = B @ np.swapaxes(np.linalg.inv(L), 1, 2)
        Q += V @ np.swapaxes(V, 1, 2)
        whitening.append(np.moveaxis(P.T @ V, 0, 1).reshape(P.shape[1], K * r))
        determinants += 2 * np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
    rest = X.T @ (np.eye(S) - kernels @ Q)  # (K, 1 + d, S): the affine part of each member
    return Beliefs(
        box=box,
        order=order,
        waves=waves,
        family=members,
        whitening=(whitening[0], whitening[1]),
        features=(np.flatnonzero(~odd), np.flatnonzero(odd)),
        spectra=spectra,
        Q=Q,
        rest=rest,
        determinants=determinants,
        means=means,
    )
