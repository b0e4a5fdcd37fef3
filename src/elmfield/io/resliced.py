"""A scan on another grid of the room, as Gridded: with its affine, ready to be written."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield._array.typing import Floats
from elmfield.field import Field
from elmfield.field.world import affine_of, checked_affine, spacing_of
from elmfield.io.gridded import Gridded

FLIP = np.diag([-1.0, -1.0, 1.0, 1.0])
"""From NIfTI's room (RAS) to DICOM's (LPS), and back."""


def resliced(
    field: Field,
    affine: Any = None,
    shape: Sequence[int] | None = None,
    *,
    spacing: float | Sequence[float] | None = None,
    like: Any = None,
    dtype: Any = None,
    antialias: bool = True,
    fill: float | None = None,
) -> Gridded:
    """A scan on a grid that is given by one of: an affine and a shape, a spacing, another scan.

    What lies outside the scan is NaN in floats; whole numbers get the scan's least value there.
    """
    world = field.world
    if spacing is not None:
        target, sizes = world.isotropic(spacing)
    elif like is not None:
        target, sizes = place_of(like, world.space)
    elif affine is None or shape is None:
        raise ValueError("an `affine` needs the `shape` of the new grid, and a shape an affine.")
    else:
        target, sizes = checked_affine(affine), tuple(shape)
    own = field.attributes.get("dtype") or field.input_dtype
    if dtype is None and np.dtype(own).kind in "biu":
        dtype = own
    if fill is None and dtype is not None and np.dtype(dtype).kind in "biu":
        fill = float(np.min(to_numpy(field.samples())))
    values = world.reslice(target, sizes, dtype=dtype, antialias=antialias, fill=fill)
    dims = field.domain.dims
    coords = {a.name: a.coords for a in field.domain.axes if a.coords is not None}
    at: dict[str, Floats] = {
        n: np.arange(k, dtype=np.float64) * s for n, k, s in zip(dims, sizes, spacing_of(target))
    }
    others = field.attributes.get("coords", {})
    kept = {k: v for k, v in others.items() if not set(v["dims"]) & set(dims[:3])}
    attributes = {k: v for k, v in field.attributes.items() if k != "grid"}
    return Gridded(
        values=to_numpy(values),
        dims=dims,
        coords={**coords, **at},
        channel_axis=field.channel_axis,
        attributes={**attributes, "affine": target.tolist(), "coords": kept},
    )


def place_of(other: Any, space: str) -> tuple[Floats, tuple[int, ...]]:
    """Affine, in the room that is asked for, and shape of another scan's three axes.

    `other` has coordinates by dim and attributes, as Gridded has.
    """
    affine = affine_of(other.attributes, 3)
    if other.attributes.get("space", "RAS") != space:
        affine = FLIP @ affine
    return checked_affine(affine), tuple(len(c) for c in list(other.coords.values())[:3])


def is_placed(attributes: Mapping[str, Any]) -> bool:
    """Whether samples are a volume that knows its place in the room."""
    return "affine" in attributes and attributes.get("n_placed", 3) == 3
