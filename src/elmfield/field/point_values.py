"""Values and derivatives at points: direct sums for a few, the blended function for many.

The choice depends on the number of points of the call alone; both ways give the same numbers but
for rounding. Who asks the same field for very many points makes a table, :meth:`Field.tabulate`.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from elmfield._array.autograd import differentiable
from elmfield._array.backend import (
    as_dtype,
    is_numpy,
    is_torch,
    move,
    namespace,
    requires_grad,
    to_numpy,
)
from elmfield._array.checks import choice
from elmfield._array.running import capacity, runs, with_less_memory
from elmfield._array.typing import Array, DType
from elmfield.domain.box import OUTSIDE
from elmfield.field.blend.points import DERIVATIVES, Function, Order, Partials, magnitude, value
from elmfield.field.coordinates.labels import unpremultiply_gradient
from elmfield.field.coordinates.output_positions import class_dtype
from elmfield.field.tables.direct_sums import Direct
from elmfield.field.uncertainty.posterior import DEVIATIONS, std_at_index

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended
    from elmfield.field.model import Model

Missing = str | None
"""What values are where samples were missing: "nan" or "fill"; None for the field's own way."""


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A field's function of index coordinates: by direct sums, where there are any.

    Parameters
    ----------
    blended : Blended
        The function.
    direct : Direct, optional
        Its direct sums.
    """

    blended: "Blended"
    direct: Direct | None = None

    def partials(self, x: Array, orders: list[Order]) -> list[Array]:
        """Mixed derivatives (n, C) at index coordinates x (n, d), in index units.

        Torch differentiates values by derivatives that are known, unless it follows the
        coefficients: that takes a fifth of the time of going back step by step.
        """
        like, plain = self.blended.like, self.blended.partials
        if is_numpy(x):
            return self._known(x, orders)
        if requires_grad(like) or not (is_numpy(like) or is_torch(like)):
            return plain(x, orders)
        return differentiable(self._known, plain, x, orders)

    def _known(self, x: Array, orders: list[Order]) -> list[Array]:
        if self.direct is None or len(x) == 0:  # no points need no region's coefficients
            return self.blended.partials(x, orders)
        found = self.direct.partials(np.asarray(to_numpy(x)), orders)
        return list(found) if is_numpy(x) else [move(v, x) for v in found]


# --- what callers ask for ---------------------------------------------------------------------

QUANTITIES = ("value", "gradient", "gradient_magnitude", "hessian", "laplacian", "std")
"""What can be asked of a field, at points and on grids."""


def derived(model: "Model", quantity: str, partials: Partials) -> Array:
    """A quantity (n, C, ...) in the caller's units, from a function's mixed derivatives by steps.

    `partials` are before offset and scale, (n, C) for each of some orders.
    """
    derive, per_unit = DERIVATIVES[quantity.removesuffix("_magnitude")], model.domain.per_unit
    found, alpha = model.finish(derive(partials, per_unit), quantity == "value"), model.labels.alpha
    if alpha is not None and quantity != "value":
        if "gradient" not in quantity:
            raise ValueError(
                "second derivatives are not known for colours with transparency. Ask "
                "elmfield.Field(field.model.premultiplied), whose colours are times alpha."
            )
        values = model.premultiplied.finish(value(partials, per_unit), True)
        found = unpremultiply_gradient(alpha, values, found)
    return magnitude(found) if quantity.endswith("_magnitude") else found


def query(
    model: "Model",
    quantity: str,
    points: Array,
    outside: str = "raise",
    missing: str | None = None,
    function: Function | None = None,
) -> Array:
    """A quantity at points (..., d): (...), with channels and components last.

    Of the model's own function, or of another `function` that stands for it.
    """
    choice("outside", outside, OUTSIDE)
    plain = quantity == "value" and missing is None and function is None
    if plain and (one := _value_at_one(model, points)) is not None:
        return one
    return _query(model, quantity, points, outside, missing, function)


@with_less_memory
def _query(
    model: "Model",
    quantity: str,
    points: Array,
    outside: str,
    missing: str | None,
    function: Function | None,
) -> Array:
    """Check the points, evaluate them in batches, give back the shape the caller expects."""
    of = quantity.removeprefix("std").strip() or "value"
    if quantity.startswith("std"):  # of a value, or of what else is named
        choice("quantity", of, DEVIATIONS)
    x = model.coordinates.points(points, model.offset)
    xp, d = namespace(x), x.shape[-1]
    lead = tuple(x.shape[:-1])
    index, beyond = model.coordinates.to_index(xp.reshape(x, (-1, d)), outside)
    if quantity.startswith("std"):
        out = std_at_index(model, of, index)
    else:
        out = at_index(model, quantity, index, function)
    mark, gone = None if beyond is None else beyond[:, None], model.hidden(index, missing)
    if gone is not None:
        mark = gone if mark is None else mark | gone
    if mark is not None:
        mark = xp.reshape(mark, (*mark.shape, *(1,) * (out.ndim - 2)))
        out = xp.where(mark, xp.full_like(out, xp.nan), out)
    elif quantity == "value":
        out = as_dtype(out, class_dtype(model, gaps=False))
    out = xp.reshape(out, lead + tuple(out.shape[1:]))
    return out[(slice(None),) * len(lead) + (0, ...)] if model.channel_axis is None else out


def at_index(
    model: "Model", quantity: str, index: Array, function: Function | None = None
) -> Array:
    """A quantity (n, C, ...) at index coordinates (n, d) in the domain; what is missing filled."""
    n, d = index.shape
    function = model.function_for(n) if function is None else function
    step = max(1, capacity(model.offset) // (6 * d + 4 * int(model.offset.shape[0])))
    parts = [
        derived(model, quantity, partial(function.partials, index[i:j, :]))
        for i, j in runs(n, step)
    ]
    return parts[0] if len(parts) == 1 else namespace(model.offset).concat(parts, axis=0)


def _value_at_one(model: "Model", points: object) -> Array:
    """The value at one point of NumPy's inside the domain, by a short way; None for all else.

    Checks and conversions of general queries take ten times as long as the value itself.
    """
    domain, about, index = model.domain, model.labels, []
    if type(points) is not np.ndarray or points.dtype != np.float64:
        return None
    if not points.size == len(domain.axes) == points.shape[-1]:
        return None
    if about.missing == "nan" or about.alpha is not None or about.classes:
        return None
    ends = zip(domain.axes, domain.low, domain.high)
    for c, (axis, low, high) in zip(points.reshape(-1).tolist(), ends):
        if axis.spacing is not None or axis.period is not None:
            return None
        i = (c - axis.origin) / axis.step
        if not low <= i <= high:
            return None
        index.append(i)
    if model.direct is None or not is_numpy(model.offset):
        return None
    values = model.finish(model.direct.value(tuple(index)).reshape(1, -1), True)[0]
    lead = points.shape[:-1]
    shaped = values.reshape(lead if model.channel_axis is None else (*lead, -1))
    return shaped[()] if model.channel_axis is None and not lead else shaped


class AtPoints:
    """What fields and tables answer at points."""

    model: "Model"

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> NoReturn:
        """Refuse to be an array: NumPy would make one of a single object."""
        raise TypeError(
            f"a {type(self).__name__} is a function, not an array. Ask for its values at points, "
            "or a field for samples() or resize(...)."
        )

    def __call__(self, points: Array, *, outside: str = "raise", missing: Missing = None) -> Array:
        """Values at points, shape (...,) or (..., C)."""
        return self._query("value", points, outside, missing)

    def gradient(self, points: Array, *, outside: str = "raise", missing: Missing = None) -> Array:
        """First derivatives along the axes, shape (..., d) or (..., C, d), per coordinate unit."""
        return self._query("gradient", points, outside, missing)

    def hessian(self, points: Array, *, outside: str = "raise", missing: Missing = None) -> Array:
        """Second derivatives, shape (..., d, d) or (..., C, d, d), per coordinate unit squared."""
        return self._query("hessian", points, outside, missing)

    def laplacian(self, points: Array, *, outside: str = "raise", missing: Missing = None) -> Array:
        """Sum of the unmixed second derivatives, shape (...,) or (..., C)."""
        return self._query("laplacian", points, outside, missing)

    def _query(self, quantity: str, points: Array, outside: str, missing: Missing) -> Array:
        return query(self.model, quantity, points, outside, missing)
