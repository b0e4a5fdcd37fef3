"""Which way a field answers at points: a few directly, many from a table that is kept.

A field enters and is asked for as long as it lives; nothing is prepared that it did not pay for.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array import compiled
from elmfield._array.backend import is_numpy, is_on_host, is_torch, learns, move, to_numpy
from elmfield._array.cache import CACHE
from elmfield._array.following import followed
from elmfield._array.memory import capacity
from elmfield._array.typing import Array
from elmfield.field.derivatives import Function
from elmfield.field.direct import Direct
from elmfield.field.moving import moved
from elmfield.field.tables import expanded, plain_table

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise
    from elmfield.field.sweeps import Sweep

FEW = 2048
"""Points that are asked directly."""

MANY = 1 << 16
"""Points that may come from a table."""

PAYS = {"float64": 4, "float32": 2}
"""Points asked for every sample, such calls together, before a table is worth its making.

It costs as much as so many without one, in a plane as in a volume."""

PAYS_COMPILED = 4
"""The same, asked before, where compiled loops answer meanwhile.

Making a table takes as long as ten calls with a point a sample gain by it (512 × 768); who comes
back a few times mostly comes back more often."""

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
            self._twin = moved(field, "numpy")

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

    A field keeps it, and says each time that it is the one: two that knew each other would stay in
    memory, and their files open, after the last user has gone.
    """

    def __init__(self) -> None:
        self.asked = 0
        self._table: Function | None = None
        self._direct: Direct | None = None
        self._sweep: Sweep | None = None
        self._elsewhere: Elsewhere | None = None
        self._lines: list[tuple[float, float, float, float]] = []
        self._is_looked_at = self._is_settled = False

    def direct(self, field: "Pointwise") -> Direct | None:
        """The way for a few points; None where the function has no such way."""
        if not self._is_looked_at:
            self._direct = _direct(field)
            domain, even = field.domain, self._direct is not None
            for a in domain.axes:
                even = even and a.knots is None and a.period is None
            if even:
                ends = zip(domain.axes, domain.low, domain.high)
                self._lines = [(a.origin, a.step, low, high) for a, low, high in ends]
            self._is_looked_at = True
        return self._direct

    def function_for(self, field: "Pointwise", n: int) -> Function:
        """What n points ask."""
        if not is_numpy(field.blended.like):
            if self._elsewhere is None:
                self._elsewhere = Elsewhere(field)
            return self._elsewhere
        if n < MANY:
            at_once = n <= FEW or (_is_at_hand(field) and compiled.pays(n))
            direct = self.direct(field) if at_once else None
            return field.blended if direct is None else direct
        self.asked += n
        is_compiled = compiled.pays(n)
        kind = str(np.dtype(field.coefficient_dtype))
        # One large call is swept sooner than its table would be made.
        asked = self.asked - n if is_compiled else self.asked
        enough = PAYS_COMPILED if is_compiled else PAYS[kind]
        if not self._is_settled and asked >= enough * math.prod(field.shape):
            self._table = plain_table(field, CLOSE[kind], CACHE.max_bytes // 2)
            self._is_settled = True
        if self._table is not None:
            return self._table
        return self.sweep(field, CLOSE[kind]) if is_compiled else field.blended

    def sweep(self, field: "Pointwise", close: float) -> Function:
        """The way for many points at a time, by compiled loops."""
        direct = self.direct(field)
        if direct is None or len(field.shape) < 2 or not _is_at_hand(field):
            return field.blended
        if self._sweep is None:
            from elmfield.field.sweeps import Sweep

            self._sweep = Sweep(direct.expansion, close * field.data_range, direct)
        return self._sweep

    def one(self, field: "Pointwise", points: object) -> Any:
        """The value at one point of NumPy's inside the domain; None for all else.

        Checks and conversions of general queries take ten times as long as the value itself.
        """
        if not isinstance(points, np.ndarray) or points.size != len(field.domain.axes):
            return None
        if points.dtype != np.float64 or points.shape[-1] != points.size:
            return None
        direct = self.direct(field)
        if direct is None or not self._lines:
            return None
        index = []
        for c, (origin, step, low, high) in zip(points.reshape(-1).tolist(), self._lines):
            i = (c - origin) / step
            if not low <= i <= high:
                return None
            index.append(i)
        values = field.finish(direct.value(tuple(index)).reshape(1, -1), True)[0]
        lead = points.shape[:-1]
        shaped = values.reshape(lead if field.channel_axis is None else (*lead, -1))
        return shaped[()] if field.channel_axis is None and not lead else shaped


def _is_at_hand(field: "Pointwise") -> bool:
    """Whether coefficients of all regions are in memory, or would be little there."""
    own = field.blended.groups[0].coefficients
    return own.is_shared or math.prod(own.shape) <= capacity(own.like) // 4


def _direct(field: "Pointwise") -> Direct | None:
    blended = field.blended
    # Weights of waves are large and cancel: rounding in expansions would show in derivatives.
    if not is_numpy(blended.like) or blended.groups[0].model.basis is None:
        return None
    expansion = expanded(field)
    return None if expansion is None else Direct(expansion)
