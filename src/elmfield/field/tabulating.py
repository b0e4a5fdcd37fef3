"""A blended function as one polynomial per cell of a lattice, with a bound on what that leaves out.

Terms in Chebyshev's polynomials enter (:mod:`elmfield.field.expansion`), polynomials of a total
degree leave, and a bound that no point exceeds: ``|T_t| ≤ 1``, so that terms left out add at most
the sum of their sizes.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from elmfield._array.backend import device, is_numpy, move, namespace, to_numpy
from elmfield._array.threads import spread
from elmfield._array.typing import Array, Floats, Integers
from elmfield.field.expansion import ORDERS, Expansion
from elmfield.field.intervals import to_powers
from elmfield.field.polynomials import Polynomials, exponents, n_terms


def dropped(
    expansion: Expansion, block: Array, near: int, degrees: list[int], order: int
) -> Floats:
    """Bounds (order + 1, len(degrees)) on a block's terms beyond total degrees, in the unit."""
    powers = np.asarray(exponents(len(expansion.axes), near))
    some = np.flatnonzero(powers.sum(axis=1) > min(degrees))
    powers = powers[some]
    if not len(some):
        return np.zeros((order + 1, len(degrees)))
    block = namespace(block).take(block, move(some, block), axis=-2)
    left = powers.sum(axis=1) > np.asarray(degrees)[:, None]
    found = []
    for o in range(order + 1):
        weights = (expansion.slopes(o, powers)[:, None] * left).reshape(-1, len(powers))
        sums = _largest_sums(expansion, block, weights).reshape(-1, len(degrees))
        found.append(sums.max(axis=0))
    return np.stack(found)


@lru_cache(maxsize=32)
def powers_of(d: int, degree: int) -> Floats:
    """From Chebyshev coefficients up to a total degree to those of powers, (T, T)."""
    one, t = to_powers(degree + 1), np.asarray(exponents(d, degree))
    M = np.ones((len(t), len(t)))
    for k in range(d):
        M *= one[t[:, k][:, None], t[:, k][None, :]]
    return M


def in_powers(block: Array, d: int, degree: int, near: int) -> Array:
    """Terms of a block, (..., T, j) up to a total degree `near`, as powers up to a `degree`."""
    if is_numpy(block):  # few powers make a term: a thirtieth of all products in 3-D
        M = _sparse_powers(d, degree, near)
        rows = block.reshape(-1, *block.shape[-2:])
        found = np.empty((len(rows), M.shape[0], rows.shape[2]))
        for out, own in zip(found, rows):
            out[...] = M @ own
        return found.reshape(*block.shape[:-2], *found.shape[1:])
    M = move(powers_of(d, degree), block, block.dtype)
    kept = _within(d, degree, near)
    return M @ namespace(block).take(block, move(kept, block), axis=-2)


def _within(d: int, degree: int, near: int) -> Integers:
    """Where terms up to a degree stand among those up to a degree `near`."""
    return np.flatnonzero(np.asarray(exponents(d, near)).sum(axis=1) <= degree)


@lru_cache(maxsize=32)
def _sparse_powers(d: int, degree: int, near: int) -> Any:
    """:func:`powers_of` of all terms up to a degree `near`, the others left out: sparse."""
    from scipy.sparse import csr_array

    M = np.zeros((n_terms(d, degree), n_terms(d, near)))
    M[:, _within(d, degree, near)] = powers_of(d, degree)
    return csr_array(M)


@dataclass(frozen=True, eq=False)
class Tabulated:
    """Polynomials, and bounds on what they leave out.

    Parameters
    ----------
    polynomials : Polynomials
        Of a total degree.
    left : array, shape (order + 1,)
        Terms that were looked at and left out add at most so much to values, and to derivatives
        up to an order.
    lost : array, shape (3,)
        The same for rounding, up to the second order, in units of it: a term of total degree t is
        rounded 2 t + 3 times by Horner's rule. 0 where nobody asked.
    """

    polynomials: Polynomials
    left: Floats
    lost: Floats


def tabulated(
    expansion: Expansion, degree: int, full: int, dtype: Any, order: int, rounding: bool = True
) -> Tabulated:
    """Polynomials of a total degree, in some dtype; terms up to a degree `full` are counted in.

    Those of the next degrees one by one, others by sums of sizes (:meth:`Expansion.blocks`).
    `rounding` says whether anybody asks what it may take: to know costs a tenth of the time.
    """
    near = expansion.near(degree, full)
    d, like = len(expansion.axes), expansion.blended.like
    xp, C = namespace(like), expansion.blended.n_channels
    T, counts, host = n_terms(d, degree), expansion.counts, is_numpy(like)
    shape = (C, T, *counts) if host else (*counts, T, C)
    table = xp.empty(shape, dtype=dtype, device=device(like))

    def work(run: int) -> tuple[Floats, Floats]:
        """One run of the first axis: what it leaves out, and what rounding may take."""
        left, lost = np.zeros(order + 1), np.zeros(ORDERS)
        for where, block, beyond in expansion.blocks(near, full, order, np.asarray([run])):
            own = dropped(expansion, block, near, [degree], order)[:, 0]
            left = np.maximum(left, own + beyond)
            c = in_powers(block, d, degree, near)  # (C, j_1, ..., T, j_d)
            if rounding:
                lost = np.maximum(lost, rounded(expansion, c, degree))
            c = xp.astype(c, dtype)
            if host:
                table[(slice(None), slice(None), *where)] = xp.moveaxis(c, -2, 1)
            else:
                table[where] = xp.moveaxis(xp.moveaxis(c, 0, -1), -3, -2)
        return left, lost

    shared = host and all(g.coefficients.is_shared for g in expansion.blended.groups)
    every = range(len(expansion.runs))
    found = zip(*spread(work, every, None if shared else 1))
    left, lost = (np.max(list(each), axis=0) for each in found)
    own = Polynomials(
        low=tuple(a.low for a in expansion.axes),
        per_unit=tuple(a.per_unit for a in expansion.axes),
        counts=counts,
        degree=degree,
        coefficients=xp.reshape(table, (C, T, -1) if host else (-1, T, C)),
    )
    return Tabulated(own, left, lost)


def rounded(expansion: Expansion, c: Array, degree: int) -> Floats:
    """What Horner's rule may lose to rounding with c (C, ..., T, j), in units of it, (3,)."""
    powers = np.asarray(exponents(len(expansion.axes), degree))
    m, t = 2.0 * max(a.per_unit for a in expansion.axes), powers.max(axis=1)
    slopes = np.stack([np.ones(len(t)), m * t, m**2 * t**2])
    return _largest_sums(expansion, c, slopes * (2.0 * powers.sum(axis=1) + 3))


def _largest_sums(expansion: Expansion, c: Array, weights: Floats) -> Floats:
    """``Σ weights |c|`` at most, in the field's unit: c (C, ..., T, j), weights (o, T); (o,)."""
    xp = namespace(c)
    sums = xp.moveaxis(move(weights, c) @ xp.abs(c), -2, 1)  # (C, o, ..., j)
    most = to_numpy(xp.max(xp.reshape(sums, (sums.shape[0], len(weights), -1)), axis=-1))
    return np.asarray((most * expansion.scale[:, None]).max(axis=0))
