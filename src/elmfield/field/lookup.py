"""Which way a field answers at points: a few directly, many from a table that is kept.

A field enters and is asked for as long as it lives; nothing is prepared that it did not pay for.
"""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import is_numpy, is_on_host, is_torch, learns, move, to_numpy
from elmfield._array.cache import CACHE
from elmfield._array.following import followed
from elmfield._array.typing import Array
from elmfield.field.derivatives import Function
from elmfield.field.direct import Direct
from elmfield.field.moving import moved
from elmfield.field.tables import expanded, plain_table

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise

FEW = 2048
"""Points that are asked directly."""

MANY = 1 << 16
"""Points that may come from a table."""

PAYS = 8
"""Points asked for every sample, such calls together, before a table is worth its making."""

CLOSE = {"float64": 1e-9, "float32": 1e-7}
"""How close a table has to be that answers in a field's place, as a part of its range."""


class Elsewhere:
    """A field's function in another library than NumPy.

    In the processor's memory NumPy answers, which has the faster ways; what torch follows is
    differentiated by derivatives that are known. Coefficients that are followed, and other devices,
    go step by step.

    Parameters
    ----------
    field : Pointwise
        The field.
    """

    def __init__(self, field: "Pointwise") -> None:
        self.blended = field.blended
        like = self.blended.like
        self._twin = None
        if is_torch(like) and is_on_host(like) and not learns(like):
            self._twin = Lookup(moved(field, "numpy"))

    def partials(self, x: Array, orders: list[tuple[int, ...]]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units."""
        plain = self.blended.partials
        if learns(self.blended.like) or not is_torch(self.blended.like):
            return plain(x, orders)
        return followed(self._known, plain, x, orders) if learns(x) else self._known(x, orders)

    def _known(self, x: Array, orders: list[tuple[int, ...]]) -> list[Array]:
        if self._twin is None:
            return self.blended.partials(x, orders)
        host = to_numpy(x)
        found = self._twin.function_for(len(host)).partials(host, orders)
        return [move(v, x) for v in found]


class Lookup:
    """How one field answers at points.

    Parameters
    ----------
    field : Pointwise
        The field.
    """

    def __init__(self, field: "Pointwise") -> None:
        self.field = field
        self.asked = 0
        self._table: Function | None = None
        self._is_settled = False

    @cached_property
    def direct(self) -> Direct | None:
        """The way for a few points; None where the function has no such way."""
        blended = self.field.blended
        # Weights of waves are large and cancel: rounding in expansions would show in derivatives.
        if not is_numpy(blended.like) or blended.groups[0].model.basis is None:
            return None
        expansion = expanded(self.field)
        return None if expansion is None else Direct(self.field.blended, expansion.axes)

    def function_for(self, n: int) -> Function:
        """What n points ask."""
        if not is_numpy(self.field.blended.like):
            return self.elsewhere
        if n < MANY:
            few = self.direct if n <= FEW else None
            return self.field.blended if few is None else few
        self.asked += n
        if not self._is_settled and self.asked > PAYS * math.prod(self.field.shape):
            self._table, self._is_settled = self._made(), True
        return self.field.blended if self._table is None else self._table

    @cached_property
    def elsewhere(self) -> Function:
        """The way of a field that is not NumPy's."""
        return Elsewhere(self.field)

    def one(self, points: object) -> Any:
        """The value at one point of NumPy's inside the domain; None for all else.

        Checks and conversions of general queries take ten times as long as the value itself.
        """
        if not isinstance(points, np.ndarray) or points.size != len(self._lines):
            return None
        if points.dtype != np.float64 or points.shape[-1] != points.size or not self._lines:
            return None
        index = []
        for c, (origin, step, low, high) in zip(points.reshape(-1).tolist(), self._lines):
            i = (c - origin) / step
            if not low <= i <= high:
                return None
            index.append(i)
        direct = self.direct
        assert direct is not None
        values = direct.value(tuple(index)).reshape(1, -1)
        f = self.field
        values = f.finish(values, True)[0]
        lead = points.shape[:-1]
        shaped = values.reshape(lead if f.channel_axis is None else (*lead, -1))
        return shaped[()] if f.channel_axis is None and not lead else shaped

    @cached_property
    def _lines(self) -> list[tuple[float, float, float, float]]:
        """Origin, step and ends of axes that are even and end, if one point has a short way."""
        domain = self.field.domain
        if any(a.knots is not None or a.period is not None for a in domain.axes):
            return []
        if self.direct is None:
            return []
        return [
            (a.origin, a.step, low, high)
            for a, low, high in zip(domain.axes, domain.low, domain.high)
        ]

    def _made(self) -> Function | None:
        """A table as close as the field's dtype can tell; None where it is none, or too large."""
        kind = str(np.dtype(self.field.offset.dtype))
        return plain_table(self.field, CLOSE[kind], CACHE.max_bytes // 2)
