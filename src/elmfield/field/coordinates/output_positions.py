"""Output grids: index coordinates axis by axis, what lies outside, and what was missing.

What was missing stays missing: the nearest sample says whether a value may be shown. A field keeps
which of its samples were missing, one boolean each; here it is found which index coordinates lie
nearest to such a sample.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import move, namespace
from elmfield._array.checks import choice
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.domain import Axis, Domain
from elmfield.domain.axis import cell_edges, coordinate_error
from elmfield.field.coefficients.sample_boxes import in_one_channel

if TYPE_CHECKING:
    from elmfield.field.model import Model


def nodes(domain: Domain, k: int, a: float, b: float, n: int | None, s: float) -> Floats:
    """Nodes from a to b on axis k: n of them, or s to an old one, old nodes among them.

    The whole axis ends at its outer samples; a window of n nodes ends at its own ends.
    """
    axis = domain.axes[k]
    inner = math.ceil(a - 1e-9), math.floor(b + 1e-9)
    whole = (a, b) == (domain.low[k], domain.high[k]) and inner[0] < inner[1]
    wraps = axis.period is not None and b - a > axis.size - 1e-6
    if n is not None:
        first, last = inner if whole else (a, b)
        if wraps:
            return np.asarray(first + np.arange(n) * axis.size / n)
        return np.linspace(first, last, n) if n > 1 else np.asarray([(a + b) / 2])
    beyond = math.ceil((a - 1e-9) * s) / s, math.floor((b + 1e-9) * s) / s
    first, last = inner if whole else beyond
    if wraps:
        last = first + axis.size - 1 / s
    if last < first:
        raise coordinate_error(
            axis.name,
            "the window on axis {axis!r}, {} to {}, has no node in it. Use a larger scale, or say "
            "how many nodes it should have.",
            *sorted(axis.from_index(np.asarray([a, b]))),
        )
    return np.asarray(first + np.arange(math.floor((last - first) * s + 1e-6) + 1) / s)


def boxes_around(
    axis: Axis, x: Floats, low: float, high: float, always: bool = False
) -> Floats | None:
    """Edges of the boxes around positions that are more than a sample apart; None if they are not.

    With `always` of those that are closer, too.

    Neighbours share the edge midway between them; the outermost boxes are as wide on both sides,
    but end with the domain, whose ends are `low` and `high`.
    """
    if len(x) < 2:
        return np.asarray([low, high]) if always or high - low > 1 + 1e-6 else None
    if not always and abs(float(x[-1] - x[0])) / (len(x) - 1) <= 1 + 1e-6:
        return None
    e = cell_edges(x)
    return np.asarray(np.clip(e, low, high) if axis.period is None else e)


def mark_outside(out: Array, beyond: list[Array], channel_axis: int | None) -> Array:
    """Gridded values with NaN where a position of any axis lies `beyond` the domain."""
    if not any(b.any() for b in beyond):
        return out
    mark = reduce(np.logical_or.outer, beyond)
    if channel_axis is not None:
        mark = np.expand_dims(mark, channel_axis)
    mark = mark.reshape(*mark.shape, *(1,) * (out.ndim - mark.ndim))  # of vectors and matrices
    return with_gaps(out, mark, what="positions outside the domain", way="outside='nearest'")


WAYS = ("nan", "fill")
"""What values are where samples were missing: NaN, or what was filled in."""


def shows_gaps(model: "Model", missing: str | None) -> bool:
    """Whether gaps are to be seen; `missing` as a caller says it, None for the field's own way."""
    way = model.labels.missing if missing is None else missing
    choice("missing", way, WAYS)
    return bool(way == "nan" and _has_gaps(model))


def whole_dtype(model: "Model", missing: str | None = "fill") -> DType:
    """The dtype of what was fitted, if it was one of whole numbers, which can say gaps; or None."""
    own = model.labels.dtype or model.input_dtype
    if np.dtype(own).kind not in "biu":
        return None
    is_silent = shows_gaps(model, missing) and model.labels.fill_value is None
    return None if is_silent else own


def class_dtype(model: "Model", gaps: bool) -> DType:
    """The dtype in which classes come back; None of other values, and where some are NaN."""
    return model.labels.dtype if model.labels.classes and not gaps else None


def winners(classes: Sequence[int], values: Array) -> Array:
    """The classes, (n, 1), of the largest of values (n, C); NaN where one is. Others as they are.

    The first of equal ones wins.
    """
    if not classes:
        return values
    xp = namespace(values)
    every = move(np.asarray(classes, float), values, values.dtype)
    best = xp.take(every, xp.argmax(values, axis=1))
    return xp.where(xp.any(xp.isnan(values), axis=1), xp.nan, best)[:, None]


def _has_gaps(model: "Model") -> bool:
    """Whether a field knows of any; asks for one sample at most."""
    if model.gaps is not None:
        return True
    boxes = model.blended.source_samples
    if boxes is None:
        return False
    low, _ = model.blended.needed
    return boxes.gaps(tuple(slice(a, a + 1) for a in low)) is not None


def of_channels(gaps: Array | None, own: slice) -> Array | None:
    """What is missing in some of the channels."""
    if gaps is None or gaps.shape[-1] == 1:
        return gaps
    some = in_one_channel(gaps[..., own])
    return some if some.any() else None


def all_gaps(model: "Model") -> Array | None:
    """Which samples were missing: those that were noted, or that the kept samples know of.

    (..., 1), or (..., C) where channels differ; None if none was.
    """
    if model.gaps is not None or not _has_gaps(model):
        return model.gaps
    slab = tuple(slice(a, b) for a, b in zip(*model.blended.needed))
    found = _of_slab(model, slab)
    whole = np.zeros((*model.shape, found.shape[-1]), bool)
    whole[slab] = found
    return in_one_channel(whole) if whole.any() else None


def _of_slab(model: "Model", slab: tuple[slice, ...]) -> Array:
    """What is missing in a slab of samples, (..., 1) or (..., C)."""
    if model.gaps is not None:
        return model.gaps[slab]
    boxes = model.blended.source_samples
    assert boxes is not None
    return np.asarray(boxes.gaps(slab), bool)[..., : model.n_channels]  # real parts say it


def gone_at(model: "Model", index: Sequence[Integers], on_grid: bool = True) -> Array:
    """What is missing on the grid of some samples' numbers, (..., 1) or (..., C); or one by one.

    Of samples in a file, only those between the first and the last are looked at.
    """
    if not all(map(len, index)):
        return np.zeros((*map(len, index if on_grid else index[:1]), 1), bool)
    slab = tuple(slice(int(i.min()), int(i.max()) + 1) for i in index)
    inside = tuple(i - s.start for i, s in zip(index, slab))
    found: Array = _of_slab(model, slab)[np.ix_(*inside) if on_grid else inside]
    return found


def nearest(axis: Axis, x: Floats) -> Integers:
    """The number of the sample nearest to index coordinates."""
    i = np.floor(np.asarray(x) + 0.5).astype(np.int64)
    return i % axis.size if axis.period is not None else np.clip(i, 0, axis.size - 1)


def with_gaps(
    values: Array, gone: Array, fill: float | None = None,
    what: str = "what is missing", way: str = "missing='fill'",
) -> Array:  # fmt: skip
    """`values` with NaN where `gone`; whole numbers get `fill`, if there is one that they hold.

    Else an error says `what` cannot be NaN, and a `way` to ask for other values.
    """
    if not gone.any():
        return values
    xp = namespace(values)
    if xp.isdtype(values.dtype, ("real floating", "complex floating")):
        fill = xp.nan
    elif fill is None or not holds(values.dtype, fill):
        raise ValueError(
            f"{what} cannot be NaN in dtype {values.dtype}. Ask for floats, or pass {way}."
        )
    return xp.where(move(gone, values), xp.full_like(values, fill), values)


def holds(dtype: DType, fill: float) -> bool:
    """Whether `fill` is among the whole numbers of a dtype."""
    kind = np.dtype(str(dtype).rsplit(".", 1)[-1])
    if kind.kind not in "iu" or not np.isfinite(fill):
        return False
    info = np.iinfo(kind)
    return bool(info.min <= fill <= info.max and fill == round(fill))
