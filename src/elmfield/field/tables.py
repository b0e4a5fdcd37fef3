"""Table: a field as polynomials on a lattice of cells, at lookup speed, with a certified error.

A field enters; what leaves is called like it. How polynomials are made is the business of
`tabulating`, how they are looked up that of `polynomials`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import is_on_host, is_torch, namespace, to_numpy
from elmfield._array.checks import positive
from elmfield._array.memory import table_room
from elmfield._array.typing import Array, Floats
from elmfield.domain import Domain
from elmfield.field.expansion import ORDERS, Expansion
from elmfield.field.intervals import intervals_of
from elmfield.field.moving import moved
from elmfield.field.polynomials import Polynomials, n_terms
from elmfield.field.queries import Queries
from elmfield.field.tabulating import dropped, in_powers, rounded, tabulated

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise

SAFE = 0.8
"""Part of the tolerance that terms of a few cells may take when the degree is chosen."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Table(Queries):
    """A field at lookup speed: called like the field, within a certified distance of it.

    Made by :meth:`Field.tabulate`. Values, gradients, Hessians and Laplacians are those of one
    polynomial per cell of a lattice.

    Parameters
    ----------
    domain, offset, scale, channel_axis, is_complex, attributes
        Those of the field.
    polynomials : Polynomials
        The function in index coordinates, before offset and scale.
    errors : tuple of float
        Bounds on the distance from the field, no point excepted: of values, in the field's unit;
        then of derivatives of each order asked for, per sample. Rounding is counted in, but for
        that of the answer to the field's dtype. Polynomials are in float64 where float32 would not
        keep the tolerance.
    made_of : Pointwise, optional
        The field: it knows what was missing.
    """

    domain: Domain
    polynomials: Polynomials
    offset: Array = field(repr=False)
    scale: Array = field(repr=False)
    channel_axis: int | None = None
    is_complex: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    errors: tuple[float, ...] = ()
    made_of: "Pointwise | None" = field(default=None, repr=False)

    def hidden(self, index: Array, missing: str | None) -> Array | None:
        """Which points, index coordinates (n, d), lie nearest to a gap that is to be seen."""
        return None if self.made_of is None else self.made_of.hidden(index, missing)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis of the array the field came from."""
        return self.domain.shape

    @property
    def error(self) -> float:
        """The bound on values: no point is farther from the field, in its own unit."""
        return self.errors[0]

    @property
    def n_bytes(self) -> int:
        """Memory that the table takes."""
        return self.polynomials.n_bytes

    @property
    def function(self) -> Polynomials:
        """What is asked, in index coordinates."""
        return self.polynomials

    def module(self) -> Any:
        """The table as a `torch.nn.Module`: values, and gradients by index, at points of torch.

        Its polynomials are a buffer; ``torch.compile(table.module())`` makes one kernel of it.
        Points outside go to the border.
        """
        from elmfield.field.modules import table_module  # torch: only who asks for it has it

        return table_module(self)

    def __repr__(self) -> str:
        sizes = "×".join(map(str, self.polynomials.counts))
        return (
            f"Table({sizes} cells, degree {self.polynomials.degree}, "
            f"{self.n_bytes / 2**20:.1f} MiB, error {self.error:.1e})"
        )


def expanded(field: "Pointwise") -> Expansion | None:
    """The expansion of a field's function; None where it is not made of polynomials."""
    spans = tuple(zip(field.domain.low, field.domain.high))
    axes = intervals_of(field.blended, spans)
    if axes is None:
        return None
    return Expansion(field.blended, axes, np.abs(np.asarray(to_numpy(field.scale), np.float64)))


def tabulate(field: "Pointwise", tolerance: float, order: int) -> Table:
    """The table of a field whose values, and derivatives up to an order, are within a tolerance.

    `tolerance` is a part of the field's range.
    """
    tolerance = positive("tolerance", tolerance)
    if is_torch(field.offset) and is_on_host(field.offset):  # NumPy looks up faster there
        table = tabulate(moved(field, "numpy"), tolerance, order)
        return replace(table, offset=field.offset, scale=field.scale)
    if order not in range(ORDERS):
        raise ValueError(f"`order` must be 0, 1 or 2; got {order!r}.")
    expansion = expanded(field)
    if expansion is None:
        raise TypeError(
            "only fields of product modes on a regular partition can be tabulated, as smooth() and "
            "oriented() make them; regions merged by BEAM, dense layers and scattered samples are "
            "not polynomials on one lattice. Ask the field itself, or fit its samples() again."
        )
    allowed = tolerance * field.data_range
    full = _full(expansion, allowed, order)
    degree, lost = _looked_at(expansion, full, allowed, order)
    wide = namespace(field.offset).float64
    dtype = field.coefficient_dtype
    if np.any(_rounding(field, lost, dtype)[: order + 1] > (1 - SAFE) * allowed):
        dtype = wide
    while True:
        _refuse_large(field, expansion, degree, dtype)
        made = tabulated(expansion, degree, full, dtype, order)
        errors = made.left + expansion.beyond[: order + 1, full]
        rounding = _rounding(field, made.lost, dtype)[: order + 1]
        if np.all(errors + rounding <= allowed):
            break
        if np.any(errors > SAFE * allowed):
            degree += 1
        elif dtype != wide:
            dtype = wide
        else:
            _refuse_rounding(field, tolerance, rounding)
    return Table(
        domain=field.domain,
        polynomials=made.polynomials,
        offset=field.offset,
        scale=field.scale,
        channel_axis=field.channel_axis,
        is_complex=field.is_complex,
        attributes=field.attributes,
        errors=tuple(map(float, errors + rounding)),
        made_of=field,
    )


def plain_table(field: "Pointwise", tolerance: float, room: int) -> Polynomials | None:
    """Polynomials within a tolerance of the field's function, but for rounding in its dtype.

    None where there are none, or where they would take more than `room` bytes.
    """
    expansion = expanded(field)
    allowed = tolerance * field.data_range
    if expansion is None or expansion.beyond[0, -1] > (1 - SAFE) * allowed:
        return None
    full = _full(expansion, allowed, 0)
    dtype = field.coefficient_dtype
    degree, _ = _looked_at(expansion, full, allowed, 0)
    while _size(expansion, degree, dtype) <= room:
        made = tabulated(expansion, degree, full, dtype, 0, rounding=False)
        if made.left[0] <= SAFE * allowed:
            return made.polynomials
        degree += 1
    return None


def _size(expansion: Expansion, degree: int, dtype: Any) -> int:
    """Bytes of the polynomials of a total degree."""
    T = n_terms(len(expansion.counts), degree)
    each = (
        T * expansion.blended.n_channels * int(namespace(expansion.blended.like).finfo(dtype).bits)
    )
    return math.prod(expansion.counts) * each // 8


def _full(expansion: Expansion, allowed: float, order: int) -> int:
    """The total degree up to which terms are counted in: the others together add little."""
    small = np.all(expansion.beyond[: order + 1] <= (1 - SAFE) * allowed, axis=0)
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
    only = np.unique(np.asarray([0, n // 2, n - 1]))
    degrees = list(range(full + 1))
    worst = np.zeros((order + 1, len(degrees)))
    for _, block, _ in expansion.blocks(full, full, order, only, few=True):
        worst = np.maximum(worst, dropped(expansion, block, full, degrees, order))
    enough = np.all(worst <= SAFE**2 * allowed, axis=0)
    degree = int(np.argmax(enough))  # all of them are, at least
    while True:
        near = expansion.near(degree, full)
        some, left = [], np.zeros(order + 1)
        for _, block, beyond in expansion.blocks(near, full, order, only, few=True):
            own = dropped(expansion, block, near, [degree], order)[:, 0]
            left = np.maximum(left, own + beyond)
            some.append(block)
        if degree == full or np.all(left <= SAFE**2 * allowed):
            break
        degree += 1
    lost = [rounded(expansion, in_powers(b, d, degree, near), degree) for b in some[:4]]
    return degree, np.max(lost, axis=0)


def _rounding(field: "Pointwise", lost: Floats, dtype: Any) -> Floats:
    """What rounding in the polynomials adds to each order at most, in the field's unit."""
    unit = float(namespace(field.offset).finfo(dtype).eps) / 2
    level = float(np.max(np.abs(to_numpy(field.offset)))) + field.data_range
    return np.asarray(unit * (lost + np.asarray([2 * level, 0.0, 0.0])))


def _refuse_large(field: "Pointwise", expansion: Expansion, degree: int, dtype: Any) -> None:
    T, size = n_terms(len(expansion.counts), degree), _size(expansion, degree, dtype)
    room = table_room(field.offset)
    if size > room:
        raise MemoryError(
            f"the table would take {size / 2**20:.0f} MiB ({T} numbers for each of "
            f"{math.prod(expansion.counts)} cells), more than the limit of {room / 2**20:.0f} MiB. "
            "Allow more with elmfield.memory_limit, ask for a larger `tolerance`, or give a "
            "`window`."
        )


def _refuse_rounding(field: "Pointwise", tolerance: float, rounding: Floats) -> None:
    least = rounding.max() / field.data_range
    raise ValueError(
        f"`tolerance` {tolerance:g} cannot be met in {field.offset.dtype}: rounding alone may take "
        f"{least:.1e} of the range, derivatives up to order {len(rounding) - 1} counted in. Ask "
        f"for {3 * least:.0e} or more, or fit in float64."
    )
