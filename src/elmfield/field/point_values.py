"""Values and derivatives at points: direct sums for a few, the blended function for many.

The choice depends on the number of points alone (:meth:`Model.partials`); both ways give the same
numbers but for rounding. Who asks the same field for very many points makes a table,
:meth:`Field.tabulate`.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product as cartesian
from typing import NoReturn

import numpy as np

from elmfield._array.autograd import Order
from elmfield._array.backend import as_dtype, is_numpy, namespace
from elmfield._array.checks import choice
from elmfield._array.running import capacity, runs, with_less_memory
from elmfield._array.typing import Array, DType
from elmfield.domain.box import OUTSIDE
from elmfield.field.coordinates.labels import unpremultiply_gradient
from elmfield.field.coordinates.output_positions import class_dtype
from elmfield.field.model import Model
from elmfield.field.uncertainty.posterior import DEVIATIONS, std_at_index

Missing = str | None
"""What values are where samples were missing: "nan" or "fill"; None for the field's own way."""


Partials = Callable[[list[Order]], list[Array]]
"""Mixed derivatives (..., C) by steps, for each of some orders, at points or on a grid."""


Function = Callable[[Array, list[Order]], list[Array]]
"""Mixed derivatives (n, C) by steps, for each of some orders, at index coordinates x (n, d)."""


QUANTITIES = ("value", "gradient", "gradient_magnitude", "hessian", "laplacian", "std")
"""What can be asked of a field, at points and on grids."""


def derivative(quantity: str, f: Partials, per_unit: Sequence[float]) -> Array:
    """Values (..., C), gradients (..., C, d), Hessians (..., C, d, d) or Laplacians (..., C).

    Per unit of the coordinates: `per_unit` is the number of steps of each axis in one.
    """
    every = range(len(per_unit))
    if quantity == "value":
        return f([(0,) * len(per_unit)])[0]
    along: dict[str, list[Order]] = {
        "gradient": [(k,) for k in every],
        "hessian": list(cartesian(every, every)),
        "laplacian": [(k, k) for k in every],
    }
    orders = [tuple(map(own.count, every)) for own in along[quantity]]
    unique = sorted(set(orders))
    known = dict(zip(unique, f(unique)))
    parts = [
        known[order] * math.prod(per_unit[k] for k in own)
        for own, order in zip(along[quantity], orders)
    ]
    if quantity == "laplacian":
        total: Array = sum(parts[1:], start=parts[0])
        return total
    shape = (*parts[0].shape, *(len(per_unit) for _ in along[quantity][0]))
    xp = namespace(parts[0])
    return xp.reshape(xp.stack(parts, axis=-1), shape)


def derived(model: Model, quantity: str, partials: Partials) -> Array:
    """A quantity (n, C, ...) in the caller's units, from a function's mixed derivatives by steps.

    `partials` are before offset and scale, (n, C) for each of some orders.
    """
    per_unit, alpha = model.domain.per_unit, model.labels.alpha
    found = derivative(quantity.removesuffix("_magnitude"), partials, per_unit)
    found = model.finish(found, quantity == "value")
    if alpha is not None and quantity != "value":
        if "gradient" not in quantity:
            raise ValueError(
                "second derivatives are not known for colours with transparency. Ask "
                "elmfield.Field(field.model.premultiplied), whose colours are times alpha."
            )
        values = model.premultiplied.finish(derivative("value", partials, per_unit), True)
        found = unpremultiply_gradient(alpha, values, found)
    if not quantity.endswith("_magnitude"):
        return found
    xp = namespace(found)  # real also where gradients are complex
    return xp.sqrt(xp.sum(xp.abs(found) ** 2, axis=-1))


@with_less_memory
def query(
    model: Model,
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


def at_index(model: Model, quantity: str, index: Array, function: Function | None = None) -> Array:
    """A quantity (n, C, ...) at index coordinates (n, d) in the domain; what is missing filled."""
    n, d = index.shape
    function = model.partials if function is None else function
    step = max(1, capacity(model.offset) // (6 * d + 4 * int(model.offset.shape[0])))
    parts = [derived(model, quantity, partial(function, index[i:j, :])) for i, j in runs(n, step)]
    return parts[0] if len(parts) == 1 else namespace(model.offset).concat(parts, axis=0)


def _value_at_one(model: Model, points: object) -> Array:
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

    model: Model

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis of the array the field came from, without channels."""
        return self.model.shape

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
        if quantity == "value" and missing is None and outside in OUTSIDE:
            one = _value_at_one(self.model, points)
            if one is not None:
                return one
        return query(self.model, quantity, points, outside, missing)
