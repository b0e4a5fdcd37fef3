"""A field on any grid, as Gridded: with coordinates, and attributes that are still true there."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.progress import silent
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Axis
from elmfield.field import Field
from elmfield.io.gridded import Gridded

BLOCK = 1 << 22
"""Numbers evaluated between two reports of progress."""

MOST = 1 << 33
"""Numbers that are made at once."""

OF_THE_VALUES = ("units", "standard_name", "valid_range")
"""Attributes that are wrong for a gradient or a Laplacian."""


def rendered(
    field: Field,
    shape: int | Sequence[int] | None = None,
    *,
    scale: float | Sequence[float] | None = None,
    window: Mapping[str, tuple[Any, Any]] | None = None,
    align: str | None = None,
    quantity: str = "value",
    dtype: Any = None,
    progress: Progress = silent,
) -> Gridded:
    """A field on a grid, with coordinates and attributes.

    Parameters are those of :meth:`Field.resize`, but that `align` is by default as in the file or
    DataArray the field came from, and that whole numbers stay what they were.
    """
    own = str(field.attributes.get("align", "areas"))
    x = field.places(shape, scale=scale, window=window, align=own if align is None else align)
    count = math.prod(len(c) for c in x) * max(1, field.n_channels)
    if count > MOST:
        raise ValueError(f"{count} values are more than fit in memory; ask for windows of them.")
    attributes = dict(field.attributes)
    axes = field.domain.axes
    if not all(np.array_equal(c, np.arange(a.size)) for a, c in zip(axes, x)):
        attributes |= _elsewhere(attributes, field.domain.dims, x)
    if quantity != "value":
        attributes["attrs"] = _derived(attributes, quantity)
    elif dtype is None:
        dtype = _whole(field)
    return Gridded(
        values=_evaluated(field, x, quantity, dtype, progress),
        dims=field.domain.dims,
        coords={a.name: _coords(a, c) for a, c in zip(axes, x) if a.coords is not None},
        channel_axis=field.channel_axis,
        periods={a.name: a.period for a in axes if a.period is not None},
        attributes=attributes,
    )


def _whole(field: Field) -> Any:
    """The dtype of what was fitted, if it was one of whole numbers; else None."""
    own = field.attributes.get("dtype") or field.input_dtype
    return own if np.dtype(own).kind in "biu" else None


def _evaluated(
    field: Field, x: Sequence[Floats], quantity: str, dtype: Any, progress: Progress
) -> Array:
    """A quantity on the grid of index coordinates `x`, on the host, block of rows by block."""
    at = [a.from_index(c) for a, c in zip(field.domain.axes, x)]
    across = math.prod(len(c) for c in at[1:]) * max(1, field.n_channels)
    rows, n = max(1, BLOCK // max(1, across)), len(at[0])
    parts = []
    for i in range(0, n, rows):
        part = field.grid(
            at[0][i : i + rows], *at[1:], quantity=quantity, dtype=dtype, outside="nearest"
        )
        parts.append(to_numpy(part))
        progress("render", min(i + rows, n), n)
    return np.concatenate(parts, axis=1 if field.channel_axis == 0 else 0)


def _coords(axis: Axis, at: Floats) -> Floats:
    """Coordinates at index coordinates; at samples those that were given, to the last bit."""
    whole = np.array_equal(at, np.round(at)) and at.min() >= 0 and at.max() < axis.size
    given = axis.coords if whole else None
    return axis.from_index(at) if given is None else given[at.astype(int)]


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
