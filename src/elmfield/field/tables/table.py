"""A blended function as one polynomial per cell of a lattice, with a bound on what that leaves out.

Terms in Chebyshev's polynomials enter (:mod:`elmfield.field.tables.expansion`), polynomials
of a total degree leave, and a bound that no point exceeds: ``|T_t| ≤ 1``, so that terms left
out add at most the sum of their sizes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from elmfield._array import backend
from elmfield._array.autograd import gradient_error
from elmfield._array.backend import is_numpy, move, namespace, to_numpy
from elmfield._array.checks import choice, positive
from elmfield._array.running import spread, table_bytes
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.field.model import Model
from elmfield.field.point_values import AtPoints, Missing, query
from elmfield.field.tables.expansion import ORDERS, Expansion, expanded
from elmfield.field.tables.intervals import to_powers
from elmfield.field.tables.polynomials import Polynomials, exponents, jax_function, n_terms


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
        found = np.stack([M @ own for own in block.reshape(-1, *block.shape[-2:])])
        return found.reshape(*block.shape[:-2], *found.shape[1:])
    M = move(powers_of(d, degree), block, block.dtype)
    kept = _within(d, degree, near)
    return M @ namespace(block).take(block, move(kept, block), axis=-2)


def _within(d: int, degree: int, near: int) -> Integers:
    """Where terms up to a degree stand among those up to a degree `near`."""
    return np.flatnonzero(np.asarray(exponents(d, near)).sum(axis=1) <= degree)


@lru_cache(maxsize=32)
def _sparse_powers(d: int, degree: int, near: int) -> Array:
    """:func:`powers_of` of all terms up to a degree `near`, the others left out: sparse."""
    from scipy.sparse import csr_array

    M = np.zeros((n_terms(d, degree), n_terms(d, near)))
    M[:, _within(d, degree, near)] = powers_of(d, degree)
    return csr_array(M)


def tabulated(
    expansion: Expansion, degree: int, full: int, dtype: DType, order: int
) -> tuple[Polynomials, Floats, Floats]:
    """Polynomials of a total degree, in some dtype; terms up to a degree `full` are counted in.

    Returns
    -------
    polynomials : Polynomials
        Of a total degree.
    left : array, shape (order + 1,)
        Terms that were looked at and left out add at most so much to values, and to derivatives
        up to an order.
    lost : array, shape (2, 3)
        The same for rounding, up to the second order: in units of that of their dtype, and of
        float64; see :func:`rounded`.
    """
    d, like = len(expansion.axes), expansion.blended.like
    xp, C = namespace(like), expansion.blended.n_channels
    T, counts, host = n_terms(d, degree), expansion.counts, is_numpy(like)
    shape = (C, T, *counts) if host else (*counts, T, C)
    table = xp.empty(shape, dtype=dtype, device=backend.device(like))

    def work(run: int) -> tuple[Floats, Floats]:
        """One run of the first axis: what it leaves out, and what rounding may take."""
        left, lost = np.zeros(order + 1), np.zeros((2, ORDERS))
        for where, block in expansion.blocks(full, [run]):
            left = np.maximum(left, dropped(expansion, block, full, [degree], order)[:, 0])
            c = in_powers(block, d, degree, full)  # (C, j_1, ..., T, j_d)
            lost = np.maximum(lost, rounded(expansion, block, c, degree, full))
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
        per_step=tuple(a.per_step for a in expansion.axes),
        counts=counts,
        degree=degree,
        coefficients=xp.reshape(table, (C, T, -1) if host else (-1, T, C)),
    )
    return own, left, lost


def rounded(expansion: Expansion, block: Array, c: Array, degree: int, near: int) -> Floats:
    """What rounding may take of polynomials c (C, ..., T, j), made of a block; (2, 3).

    In units of half an ulp of 1 of their dtype, and of float64; by order of derivatives.

    Notes
    -----
    A rounding moves a number by at most a unit of it, so a term that passes through n of them by n
    units of its size, but for squares of units. With ``t = t_1 + ... + t_d`` a term ``c s^t`` has

    - in the dtype of the polynomials: 1 when c is stored; one for each factor s, t; t products
      and t + d sums of Horner's rule, which adds it to the sums of each axis once and once more
      at each of its t steps; the unit of a derivative, and the scale of the channel: 3 t + d + 3.
      A derivative takes t - 1 products instead of t and as many sums, along each of the ways that
      ``∂^a s^t`` counts; its factors 1 and 2 are exact.
    - in float64, where s is found: of x less the lattice's beginning, times the intervals per
      sample, both up to J units of the length of an interval; s crosses it in 2, and 1 is taken
      off: ``4 J + 1`` units of each factor s.
    - in float64, where few points are asked (:meth:`Polynomials.partials`): powers of s, 3 t,
      their products with each other and with c, d + 1, and a sum of T terms.
    - in float64, when terms become powers, c = M b: integers M times b, summed over T at most. As
      c is no larger than ``|M| |b|``, that stands for c in all of float64.
    """
    d, m, J = len(expansion.axes), max(a.per_unit for a in expansion.axes), max(expansion.counts)
    narrow, wide = _rounding_weights(d, degree, m, J)
    terms = namespace(c).take(block, move(_within(d, degree, near), block), axis=-2)
    return np.stack([_largest_sums(expansion, c, narrow), _largest_sums(expansion, terms, wide)])


@lru_cache(maxsize=32)
def _rounding_weights(d: int, degree: int, per_unit: int, J: int) -> tuple[Floats, Floats]:
    """Roundings of each term times its size, for values and derivatives; (3, T) each."""
    powers = np.asarray(exponents(d, degree))
    t, slope = powers.sum(axis=1), 2.0 * per_unit * powers.max(axis=1)
    sizes = np.stack([np.ones(len(t)), slope, slope**2])
    narrow = 3 * t + d + 3
    wide = 2 * len(t) + (4 * J + 4) * t + d + 1
    return sizes * narrow, (sizes * wide) @ np.abs(powers_of(d, degree))


def _largest_sums(expansion: Expansion, c: Array, weights: Floats) -> Floats:
    """``Σ weights |c|`` at most, in the field's unit: c (C, ..., T, j), weights (o, T); (o,)."""
    xp = namespace(c)
    sums = xp.moveaxis(move(weights, c) @ xp.abs(c), -2, 1)  # (C, o, ..., j)
    most = to_numpy(xp.max(xp.reshape(sums, (sums.shape[0], len(weights), -1)), axis=-1))
    return np.asarray((most * expansion.scale[:, None]).max(axis=0))


TERMS_SHARE = 0.8
"""Part of the tolerance that terms of a few cells may take when the degree is chosen."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(AtPoints):
    """A field at lookup speed: called like the model, within a certified distance of it.

    Made by :meth:`Field.tabulate`. Values, gradients, Hessians and Laplacians are those of one
    polynomial per cell of a lattice.

    Parameters
    ----------
    model : Model
        The field's.
    polynomials : Polynomials
        The function in index coordinates, before offset and scale.
    errors : tuple of float
        Bounds on the distance from the model, no point excepted: of values, in the field's unit;
        then of derivatives of each order asked for, per sample: along an uneven axis, by the
        distance of the two samples around a point. Rounding is counted in, but for
        that of the answer to the field's dtype, and of sums over a region's modes, which the
        field's own answers have too. Polynomials are in float64 where float32 would not keep the
        tolerance. Of pictures with transparency, before colours are divided by it.
    """

    model: Model = field(repr=False)
    polynomials: Polynomials
    errors: tuple[float, ...] = ()

    def _query(self, quantity: str, points: Array, outside: str, missing: Missing) -> Array:
        return query(self.model, quantity, points, outside, missing, self.polynomials.partials)

    @property
    def error(self) -> float:
        """The bound on values: no point is farther from the model, in its own unit."""
        return self.errors[0]

    @property
    def n_bytes(self) -> int:
        """Memory that the table takes."""
        return backend.n_bytes(self.polynomials.coefficients)

    def module(self) -> Any:
        """The table as a `torch.nn.Module`: values, and gradients by index, at points of torch.

        Its polynomials are a buffer; ``torch.compile(table.module())`` makes one kernel of it.
        Points outside go to the border.
        """
        from elmfield.field.adapters.torch_module import table_module  # imports torch

        return table_module(self)

    def jax(self) -> Callable[[Array], Array]:
        """The table as a pure function of JAX, points (..., d) to values: `jit`, `vmap`, `grad`.

        ``jax.grad`` of it is the table's gradient. Points outside go to the border; what was
        missing is filled. Without JAX's 64-bit mode, coordinates are rounded to float32.
        """
        return jax_function(self)

    def __repr__(self) -> str:
        sizes = "×".join(map(str, self.polynomials.counts))
        return (
            f"Table({sizes} cells, degree {self.polynomials.degree}, "
            f"{self.n_bytes / 2**20:.1f} MiB, error {self.error:.1e})"
        )


@backend.outside_torch_modes()
def tabulate(model: Model, tolerance: float, order: int) -> Table:
    """The table of a field whose values, and derivatives up to an order, are within a tolerance.

    `tolerance` is a part of the field's range.
    """
    tolerance = positive("tolerance", tolerance)
    if backend.requires_grad(model.blended.like):
        raise gradient_error("a table")
    offset = model.offset
    if backend.is_torch(offset) and backend.is_on_host(offset):  # NumPy looks up faster there
        return replace(tabulate(model.moved("numpy"), tolerance, order), model=model)
    choice("order", order, range(ORDERS))
    expansion = expanded(model)
    if expansion is None:
        raise TypeError(
            "only fields of product modes on a regular partition can be tabulated, as smooth() and "
            "oriented() make them; regions merged by BEAM, dense layers and scattered samples are "
            "not polynomials on one lattice. Ask the field itself, or fit its samples() again."
        )
    allowed = tolerance * model.data_range
    full = _full(expansion, allowed, order)
    degree, lost = _looked_at(expansion, full, allowed, order)
    wide = namespace(model.offset).float64
    dtype = model.coefficient_dtype
    if np.any(_rounding(model, lost, dtype)[: order + 1] > (1 - TERMS_SHARE) * allowed):
        dtype = wide
    while True:
        _refuse_large(model, expansion, degree, dtype)
        polynomials, left, lost = tabulated(expansion, degree, full, dtype, order)
        errors = left + expansion.beyond[: order + 1, full]
        rounding = _rounding(model, lost, dtype)[: order + 1]
        if np.all(errors + rounding <= allowed):
            break
        if np.any(errors > TERMS_SHARE * allowed):
            degree += 1
        elif dtype != wide:
            dtype = wide
        else:
            least = rounding.max() / model.data_range
            raise ValueError(
                f"`tolerance` {tolerance:g} cannot be met in {model.offset.dtype}: rounding alone "
                f"may take {least:.1e} of the range, derivatives up to order {order} counted in. "
                f"Ask for {3 * least:.0e} or more, or fit in float64."
            )
    bounds = tuple(map(float, errors + rounding))
    return Table(model=model, polynomials=polynomials, errors=bounds)


def _full(expansion: Expansion, allowed: float, order: int) -> int:
    """The total degree up to which terms are counted in: the others together add little."""
    small = np.all(expansion.beyond[: order + 1] <= (1 - TERMS_SHARE) * allowed, axis=0)
    if not small.any():
        raise ValueError(
            "`tolerance` is too small: the expansion itself is known to "
            f"{expansion.beyond[: order + 1, -1].max():.1e} only, and {allowed:.1e} was asked for."
        )
    return int(np.argmax(small))


def _looked_at(expansion: Expansion, full: int, allowed: float, order: int) -> tuple[int, Floats]:
    """The total degree that a few boxes of cells need, and what rounding may take there.

    The whole is checked when it is made.
    """
    n, d = len(expansion.runs), len(expansion.axes)
    some = [block for _, block in expansion.blocks(full, sorted({0, n // 2, n - 1}), few=True)]
    every = [dropped(expansion, block, full, list(range(full + 1)), order) for block in some]
    enough = np.all(np.max(every, axis=0) <= TERMS_SHARE**2 * allowed, axis=0)
    degree = int(np.argmax(enough))  # all of them are, at least
    made = [(b, in_powers(b, d, degree, full)) for b in some[:4]]
    return degree, np.max([rounded(expansion, *both, degree, full) for both in made], axis=0)


def _rounding(model: Model, lost: Floats, dtype: DType) -> Floats:
    """What rounding in the polynomials adds to each order at most, in the field's unit."""
    units = [float(namespace(model.offset).finfo(dtype).eps) / 2, 2.0**-53]
    level = float(np.max(np.abs(to_numpy(model.offset)))) + model.data_range
    return np.asarray(units @ lost + units[0] * np.asarray([2 * level, 0.0, 0.0]))


def _refuse_large(model: Model, expansion: Expansion, degree: int, dtype: DType) -> None:
    T, bits = n_terms(len(expansion.counts), degree), namespace(model.offset).finfo(dtype).bits
    size = math.prod(expansion.counts) * T * expansion.blended.n_channels * int(bits) // 8
    room = table_bytes(model.offset)
    if size > room:
        raise MemoryError(
            f"the table would take {size / 2**20:.0f} MiB ({T} numbers for each of "
            f"{math.prod(expansion.counts)} cells), more than the limit of {room / 2**20:.0f} MiB. "
            "Allow more with elmfield.memory_limit, ask for a larger `tolerance`, or give a "
            "`window`."
        )
