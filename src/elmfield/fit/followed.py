"""Denoising that a library follows, to differentiate it by the samples.

What `denoise` says by the modes of covariances is said here by the covariances themselves. Modes
have no derivative where two of them are as strong as each other, as they are in a square box; what
is made of them has one. So modes serve as fixed directions, in which covariances are written down:
nearly diagonal, but followed off the diagonal too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.following import worked_out_again
from elmfield._array.memory import runs
from elmfield._array.typing import Array, Floats
from elmfield.local.beliefs import folded, unfolded

ROOM = 1 << 24
"""Numbers that members may say of boxes at once, 128 MiB. Smaller arrays would come from memory
that the system's allocator does not give back."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """Covariances of the even, or the odd, parts of boxes, in directions of their own.

    Parameters
    ----------
    modes : array, shape (K, S', S')
        The directions, as columns; not followed.
    kernels : array, shape (K, S', S')
        Covariances in them.
    left : array, shape (K, A, S', S')
        How much of what is seen is noise, ``(1 + a γ)⁻¹``, at amplitudes a.
    level : array, shape (K, A)
        Logarithm of the determinant of ``1 + a γ``.
    """

    modes: Array
    kernels: Array
    left: Array
    level: Array

    @classmethod
    def of(cls, kernels: Array, amplitudes: Floats) -> "Part":
        """Of covariances in samples, (K, S', S')."""
        xp = namespace(kernels)
        U = move(np.linalg.eigh(to_numpy(kernels))[1], kernels, kernels.dtype)
        own = xp.matrix_transpose(U) @ kernels @ U
        a = move(amplitudes, own, own.dtype)[:, None]
        one = move(np.eye(own.shape[-1]), own, own.dtype)
        strengths = 1 + a * xp.linalg.diagonal(own)[:, None, :]  # (K, A, S')
        root = strengths**0.5
        both = root[..., :, None] * root[..., None, :]
        # Scaled to 1 on the diagonal: strong directions lose no digits to weak ones.
        beside = one + a[..., None] * (own * (1 - one))[:, None, :, :] / both
        level = xp.sum(xp.log(strengths), axis=-1) + xp.linalg.slogdet(beside)[1]
        return cls(modes=U, kernels=own, left=xp.linalg.inv(beside) / both, level=level)

    def in_samples(self, x: Array) -> Array:
        """Matrices x, (K, S', S'), in these directions, in samples."""
        return self.modes @ x @ namespace(x).matrix_transpose(self.modes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Followed:
    """Covariances of a box's samples beside their mean, at amplitudes, with noise of 1.

    Parameters
    ----------
    kernels : pair of arrays, shape (K, S', S')
        Covariances of even and of odd parts.
    amplitudes : array, shape (A,)
        Variances of the signal in units of the noise's.
    prior : array, shape (K, A)
        Logarithm of how often a member is met at an amplitude.
    """

    kernels: tuple[Array, Array]
    amplitudes: Floats
    prior: Array

    @cached_property
    def parts(self) -> list[Part]:
        """Even and odd ones."""
        return [Part.of(kernel, self.amplitudes) for kernel in self.kernels]

    def at_once(self, like: Array) -> int:
        """Boxes to look at together."""
        return max(16, ROOM // int(sum(np.prod(part.left.shape[:3]) for part in self.parts)))

    def heard(self, Y: Array) -> tuple[Array, list[list[tuple[Array, Array]]]]:
        """How likely members are in boxes Y, (G, S, C), of mean 0: (K, A, G).

        And for each channel and part, what lies in its directions, (K, 1, G, S'), and what of it
        members take for noise, (K, A, G, S').
        """
        xp = namespace(Y)
        level = sum(part.level for part in self.parts)
        e = Y.shape[2] * (self.prior - 0.5 * level)[:, :, None]
        found: list[list[tuple[Array, Array]]] = []
        for k in range(Y.shape[2]):
            found.append([])
            for part, y in zip(self.parts, folded(Y[..., k])):
                c = xp.matmul(y, part.modes)[:, None, :, :]
                noise = xp.matmul(c, part.left)
                e = e - 0.5 * xp.sum(noise * c, axis=-1)
                found[k].append((c, noise))
        p = xp.exp(e - xp.max(e, axis=(0, 1), keepdims=True))
        return p / xp.sum(p, axis=(0, 1), keepdims=True), found

    def __call__(self, Y: Array) -> Array:
        """Boxes Y, (G, S, C), of noise 1, without most of it; channels share their weights."""
        return worked_out_again(self._without_noise, Y)

    def _without_noise(self, Y: Array) -> Array:
        xp = namespace(Y)
        p, found = self.heard(Y - xp.mean(Y, axis=1, keepdims=True))
        off = []
        for both in found:
            halves = []
            for part, (_, noise) in zip(self.parts, both):
                all_of = xp.sum(p[..., None] * noise, axis=1)  # (K, G, S')
                halves.append(xp.sum(all_of @ xp.matrix_transpose(part.modes), axis=0))
            off.append(unfolded(*halves))
        return Y - xp.stack(off, axis=-1)

    def seen(self, Y: Array, unlikely: float) -> list[Array]:
        """How often each is met in boxes Y, (G, S, C), of mean 0: (K, A).

        And the sums of ``p x xᵀ / a`` over what members find there, (K, S', S') for both parts.
        """

        def sums(Y: Array) -> tuple[Array, ...]:
            xp = namespace(Y)
            p, found = self.heard(Y)
            a = move(self.amplitudes, Y, Y.dtype)[:, None]
            weights = (xp.where(p > unlikely, p, xp.zeros_like(p)) / a)[..., None]
            moments = []
            for own in zip(*found):
                total = 0.0
                for c, noise in own:
                    x = c - noise
                    total = total + xp.sum(xp.matrix_transpose(x) @ (x * weights), axis=1)
                moments.append(total)
            return xp.sum(p, axis=2), *moments

        total: list[Array] = []
        for i, j in runs(Y.shape[0], self.at_once(Y)):
            some = worked_out_again(sums, Y[i:j, ...])
            total = [t + s for t, s in zip(total, some)] if total else list(some)
        return total


def followed_of(kernels: Sequence[Array], amplitudes: Floats, prior: Array) -> Followed:
    """Of even and odd covariances, (K, S', S'): less their mean, of variance 1."""
    xp = namespace(prior)
    S = sum(k.shape[1] for k in kernels)
    own, total = [], 0.0
    for kernel, one in zip(kernels, folded(np.full(S, S**-0.5))):
        off = move(np.eye(len(one)) - np.outer(one, one), prior, prior.dtype)
        own.append(off @ kernel @ off)
        total = total + xp.sum(xp.linalg.diagonal(own[-1]), axis=1)
    mean = total / (S - 1)
    mean = xp.where(mean > 0, mean, xp.ones_like(mean))[:, None, None]
    return Followed(kernels=(own[0] / mean, own[1] / mean), amplitudes=amplitudes, prior=prior)


def learned(
    start: Sequence[Floats],
    amplitudes: Floats,
    Y: Array,
    *,
    passes: int,
    pull: float,
    unlikely: float,
) -> Followed:
    """Covariances drawn towards boxes Y, (G, S, C), as `denoise.learned` draws shapes."""
    xp, C = namespace(Y), Y.shape[2]
    Y = Y - xp.mean(Y, axis=1, keepdims=True)
    own = [move(kernel, Y, Y.dtype) for kernel in start]
    prior = move(np.zeros((len(start[0]), len(amplitudes))), Y, Y.dtype)
    shapes = followed_of(own, amplitudes, prior)
    for _ in range(passes):
        met, *moments = shapes.seen(Y, unlikely)
        total = (xp.sum(met, axis=1) * C + pull)[:, None, None]
        kernels = []
        for first, part, found in zip(own, shapes.parts, moments):
            left = met[:, :, None, None] * (part.kernels[:, None, :, :] @ part.left)
            new = part.in_samples(found + xp.sum(left, axis=1) * C)
            kernels.append((new + pull * first) / total)
        shapes = followed_of(kernels, amplitudes, xp.log(met / xp.sum(met) + 1e-6))
    return shapes
