"""A field on any grid, as Gridded: with coordinates, and attributes that are still true there."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.progress import silent
from elmfield._array.typing import Floats, Progress
from elmfield.domain import Axis
from elmfield.field import Field
from elmfield.io.gridded import Gridded
from elmfield.show.render import evaluate

OF_THE_VALUES = ("units", "standard_name", "valid_range")
"""Attributes that are wrong for a gradient or a Laplacian."""


def rendered(
    field: Field,
    x: Sequence[Floats],
    quantity: str = "value",
    *,
    dtype: Any = None,
    progress: Progress = silent,
) -> Gridded:
    """A field on the grid of index coordinates `x`, with coordinates and attributes.

    Parameters
    ----------
    field : Field
        The field.
    x : sequence of arrays
        Index coordinates along each axis.
    quantity : {"value", "gradient", "laplacian"}
        What to show; "gradient" is its magnitude.
    dtype : optional
        Of the result; integers are rounded and clipped.
    progress : callable, optional
        Called with (stage, done, total).
    """
    at = [np.asarray(c, np.float64) for c in x]
    attributes = dict(field.attributes)
    axes = field.domain.axes
    if not all(np.array_equal(c, np.arange(a.size)) for a, c in zip(axes, at)):
        attributes |= _elsewhere(attributes, field.domain.dims, at)
    if quantity != "value":
        attributes["attrs"] = _derived(attributes, quantity)
    return Gridded(
        values=evaluate(field, at, quantity, dtype=dtype, progress=progress),
        dims=field.domain.dims,
        coords=tuple(_coords(a, c) for a, c in zip(axes, at)),
        channel_axis=field.channel_axis,
        periods={a.name: a.period for a in axes if a.period is not None},
        attributes=attributes,
    )


def _coords(axis: Axis, at: Floats) -> Floats | None:
    """Coordinates at index coordinates; at samples those that were given, to the last bit."""
    if axis.coords is None:
        return None
    whole = np.array_equal(at, np.round(at)) and at.min() >= 0 and at.max() < axis.size
    return axis.coords[at.astype(int)] if whole else axis.from_index(at)


def _elsewhere(
    attributes: Mapping[str, Any], dims: Sequence[str], at: Sequence[Floats]
) -> dict[str, Any]:
    """What changes in the attributes of values that are not at the samples of the field."""
    start = [float(c[0]) for c in at]
    step = [float((c[-1] - c[0]) / (len(c) - 1)) if len(c) > 1 else 1.0 for c in at]
    base = attributes.get("grid")
    if base is not None:  # the field itself came from part of a file
        start = [a + s * b for a, s, b in zip(base["start"], base["step"], start)]
        step = [s * t for s, t in zip(base["step"], step)]
    others = attributes.get("coords", {})
    return {
        "grid": {"start": start, "step": step},
        "coords": {k: v for k, v in others.items() if not set(v["dims"]) & set(dims)},
    }


def _derived(attributes: Mapping[str, Any], quantity: str) -> dict[str, Any]:
    """`attrs` of a derivative: neither a temperature nor in kelvin."""
    kept = {
        k: v
        for k, v in attributes.get("attrs", {}).items()
        if k not in OF_THE_VALUES and not k.startswith("GRIB_")
    }
    return kept | {"long_name": f"{quantity} of {attributes.get('name', 'field')}"}
