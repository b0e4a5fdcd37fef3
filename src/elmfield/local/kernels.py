"""Kernels of a family's members on a box: ``K = H E⁻¹ Hᵀ`` without the affine functions.

They are covariances of the box's samples, in float64. A price is diagonal in exponentials,
so sums over waves are made once for each difference of positions, axis by axis.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from elmfield._array.running import runs
from elmfield._array.typing import Floats
from elmfield.local.energies import Family
from elmfield.local.layers import Cosines, cell_features

PERIOD = 1.5
"""Period of the layer in boxes: 1.25 lost 0.012 dB on seven photographs, 2 gained nothing."""


def waves_of(box: Sequence[int]) -> tuple[Cosines, ...]:
    """The layer of each axis: waves up to twice the sampling's Nyquist frequency, and lines.

    Two waves in that band share each set of values at the samples. With less of the band (0.9:
    -0.01 dB) or more (1.15: -0.05 dB) photographs are met less well.
    """
    return tuple(Cosines.lattice(n, period=PERIOD, free=2) for n in box)


def frequencies(waves: Cosines) -> Floats:
    """ω of the exponentials ``exp(iωu)`` that span the waves, ascending; (2J + 1,)."""
    J = waves.count
    return 2 * np.pi * waves.fundamental * np.arange(-J, J + 1.0)


def of_exponentials(c: np.ndarray, axis: int) -> np.ndarray:
    """Features' weights a with ``Σ_j c_j exp(iω_j u) = Σ_f a_f a(u)_f``; c along one axis."""
    c = np.moveaxis(c, axis, 0)
    J = len(c) // 2
    up, down = c[J + 1 :], c[J - 1 :: -1] if J else c[:0]
    a = np.zeros((2 * J + 2, *c.shape[1:]), c.dtype)
    a[0] = c[J]
    np.multiply(up + down, 0.5**0.5, out=a[1 : J + 1])
    np.multiply(up - down, 0.5**0.5 * 1j, out=a[J + 1 : 2 * J + 1])
    return np.moveaxis(a, 0, axis)


def of_half(c: np.ndarray) -> Floats:
    """The same along the first axis of c, which has only ω of 0 and above.

    At -ω c is the complex conjugate: the function is real.
    """
    J = len(c) - 1
    a = np.zeros((2 * J + 2, *c.shape[1:]))
    a[0] = c[0].real
    np.multiply(c[1:].real, 2**0.5, out=a[1 : J + 1])
    np.multiply(c[1:].imag, -(2**0.5), out=a[J + 1 : 2 * J + 1])
    return a


def spectra_of(waves: Sequence[Cosines], members: Family) -> Floats:
    """1 / E of every member on the lattice, (K, L_1, ..., L_d), of sum 1: variance 1 everywhere."""
    spectra = 1 / members.price([frequencies(w) for w in waves])
    constant: tuple[Any, ...] = (slice(None), *(w.count for w in waves))
    spectra[constant] = 0  # free
    totals = spectra.sum(axis=tuple(range(1, spectra.ndim)), keepdims=True)
    return np.asarray(spectra / np.where(totals > 0, totals, 1))


def transfer(waves: Sequence[Cosines]) -> Floats:
    """What the mean over a cell of one sample leaves of each exponential, (L_1, ..., L_d)."""
    total = np.ones(())
    for w in waves:
        total = np.multiply.outer(total, np.sinc(frequencies(w) / (2 * np.pi)))
    return np.asarray(total)


def kernels_of(
    waves: Sequence[Cosines], box: Sequence[int], spectra: Floats, points: Floats | None = None
) -> Floats:
    """``Σ_ω spectrum(ω) cos ω(x - x')`` of every member, (K, P, S), x' the samples of a box.

    x are its samples too, or points on the grid of half samples, (P, d), counted from its centre.
    """
    samples = positions(box)
    points = samples if points is None else points
    table = spectra.astype(complex)
    index = []
    for k, w in enumerate(waves):
        at = np.rint(2 * (points[:, None, k] - samples[None, :, k])).astype(np.int64)
        low, high = at.min(), at.max()
        shifts = np.exp(0.5j * np.outer(np.arange(low, high + 1), frequencies(w)))
        table = np.moveaxis(np.tensordot(shifts, table, axes=(1, 1 + k)), 0, 1 + k)
        index.append(at - low)
    return np.ascontiguousarray(table.real[(slice(None), *index)])


def covariances(box: tuple[int, ...], members: Family, means: bool = False) -> Floats:
    """Kernels of all members on the samples of a box, or on means over cells; (K, S, S)."""
    waves = waves_of(box)
    left = transfer(waves) ** 2 if means else 1.0
    return kernels_of(waves, box, spectra_of(waves, members) * left)


def combine_members(
    waves: Sequence[Cosines], box: Sequence[int], spectra: Floats, Q: Floats, onto: Floats
) -> Floats:
    """``Σ_k onto_kj E_k⁻¹ Hᵀ Q_k``, (J, m, S): what combinations of members make of samples.

    A price is diagonal in exponentials: members are added up there, and real products of features
    made once for each combination. Everything is real, so half of the exponentials do.
    """
    S, J = Q.shape[1], onto.shape[1]
    first = waves[0].count
    half = spectra[:, first:]
    total = np.zeros((J, *half.shape[1:], S), complex)
    for i, j in runs(len(Q), max(1, (1 << 21) // (half[0].size * S))):
        a = Q[i:j].reshape(j - i, *box, S).astype(complex)
        for k, (w, n) in enumerate(zip(waves, box)):
            omega = frequencies(w)[first if k == 0 else 0 :]
            back = np.exp(-1j * np.outer(omega, np.arange(n) - (n - 1) / 2))
            a = np.moveaxis(np.tensordot(back, a, axes=(1, 1 + k)), 0, 1 + k)
        a = a * half[i:j, ..., None]
        total += np.tensordot(onto[i:j], a, axes=(0, 0))
    for k in range(1, len(waves)):
        total = of_exponentials(total, 1 + k)
    return np.moveaxis(of_half(np.moveaxis(total, 1, 0)), 0, 1).reshape(J, -1, S)


def features(waves: Sequence[Cosines], box: Sequence[int], means: bool = False) -> Floats:
    """H, (S, m): the product layer on the samples of a box, or its means over their cells."""
    H: Floats = np.ones((1, 1))
    for w, n in zip(waves, box):
        own = cell_features(w, n) if means else w(np.arange(n) - (n - 1) / 2)
        H = np.kron(H, own).astype(np.float64, copy=False)
    return H


def is_odd(waves: Sequence[Cosines]) -> np.ndarray:
    """Whether each product changes its sign when all axes are reversed, (m,)."""
    odd = np.zeros(1, bool)
    for w in waves:
        own = np.repeat([False, True], [w.count + 1, w.count + 1])
        odd = np.logical_xor.outer(odd, own).reshape(-1)
    return odd


# --- affine functions -----------------------------------------------------------------------------


def positions(box: Sequence[int]) -> Floats:
    """Positions of the samples of a box, counted from its centre, (S, d)."""
    return np.indices(box).reshape(len(box), -1).T - (np.asarray(box) - 1) / 2


@lru_cache(maxsize=64)
def affine(box: tuple[int, ...]) -> Floats:
    """The functions 1 and u_k on the samples of a box, orthonormal; (S, 1 + axes of two or more).

    1 is even and u_k is odd about the centre, and so are these columns.
    """
    return affine_at(box, positions(box))


def affine_at(box: Sequence[int], points: Floats) -> Floats:
    """The functions of :func:`affine` at points, (P, d), counted from the centre; (P, 1 + d')."""
    on = np.stack([np.ones(len(points)), *(points[:, k] for k, n in enumerate(box) if n > 1)])
    return np.asarray((on / affine_norms(box)[:, None]).T)


def affine_norms(box: Sequence[int]) -> Floats:
    """Norms of 1 and u_k on the samples of a box, (1 + d',)."""
    at = positions(box)
    wide = [at[:, k] for k, n in enumerate(box) if n > 1]
    return np.asarray(np.linalg.norm(np.stack([np.ones(len(at)), *wide]), axis=1))


def affine_places(waves: Sequence[Cosines]) -> list[int]:
    """Places of the features 1 and u_k among the products."""
    width = [w.width for w in waves]
    return [0] + [(w.width - 1) * math.prod(width[k + 1 :]) for k, w in enumerate(waves) if w.count]


def complement(X: Floats) -> Floats:
    """Orthonormal columns that span what the columns of X do not."""
    U, s, _ = np.linalg.svd(X)
    return np.asarray(U[:, int((s > 1e-9).sum()) :])
