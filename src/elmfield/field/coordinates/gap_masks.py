"""What was missing stays missing: the nearest sample says whether a value may be shown.

A field keeps which of its samples were missing, one boolean each; here it is found which index
coordinates lie nearest to such a sample.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.checks import choice
from elmfield._array.typing import Array, DType, Floats, Integers
from elmfield.field.blend.integrals import nearest

if TYPE_CHECKING:
    from elmfield.field.model import Model

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


def _has_gaps(model: "Model") -> bool:
    """Whether a field knows of any; asks for one sample at most."""
    if model.gaps is not None:
        return True
    boxes = model.blended.source_samples
    if boxes is None:
        return False
    low, _ = model.blended.needed
    return boxes.gaps(tuple(slice(a, a + 1) for a in low)) is not None


def gaps_of(present: Array | None, is_complex: bool) -> Array | None:
    """Which samples are missing, on the host: of all channels, or (..., C) where they differ."""
    return None if present is None else _squeezed(~np.asarray(to_numpy(present)), is_complex)


def _squeezed(gone: Array, is_complex: bool) -> Array:
    """What is missing of parts, (..., C), as a field has it."""
    if is_complex and gone.shape[-1] > 1:
        gone = gone[..., : gone.shape[-1] // 2]
    same = bool((gone == gone[..., :1]).all())
    return gone[..., 0].copy() if same else gone


def of_channels(gaps: Array | None, own: slice, d: int) -> Array | None:
    """What is missing in some of the channels."""
    if gaps is None or gaps.ndim == d:
        return gaps
    some = gaps[..., own]
    return None if not some.any() else _squeezed(some, False)


def all_gaps(model: "Model") -> Array | None:
    """Which samples were missing: those that were noted, or that the kept samples know of."""
    if model.gaps is not None or not _has_gaps(model):
        return model.gaps
    low, high = model.blended.needed
    slab = tuple(slice(a, b) for a, b in zip(low, high))
    found = _of_slab(model, slab)
    whole = np.zeros((*model.shape, found.shape[-1]), bool)
    whole[slab] = found
    return _squeezed(whole, False) if whole.any() else None


def _of_slab(model: "Model", slab: tuple[slice, ...]) -> Array:
    """What is missing in a slab of samples, (..., 1) or (..., C)."""
    if model.gaps is not None:
        gone = model.gaps[slab]
        return gone[..., None] if model.gaps.ndim == len(slab) else gone
    boxes = model.blended.source_samples
    gone = None if boxes is None else boxes.gaps(slab)
    assert gone is not None
    gone = np.asarray(gone, bool)
    return gone[..., : gone.shape[-1] // 2] if model.is_complex and gone.shape[-1] > 1 else gone


def gone_at(model: "Model", index: Sequence[Integers]) -> Array:
    """What is missing on the grid of some samples' numbers, (..., 1) or (..., C).

    Of samples in a file, only those between the first and the last are looked at.
    """
    if not all(map(len, index)):
        return np.zeros((*map(len, index), 1), bool)
    slab = tuple(slice(int(i.min()), int(i.max()) + 1) for i in index)
    found: Array = _of_slab(model, slab)[np.ix_(*(i - s.start for i, s in zip(index, slab)))]
    return found


def near_points(model: "Model", index: Array) -> Array:
    """Whether points, index coordinates (n, d), lie nearest to a gap: (n, 1) or (n, C)."""
    at = np.asarray(to_numpy(index))
    if not len(at):
        return move(np.zeros((0, 1), bool), index)
    near = [nearest(axis, at[:, k]) for k, axis in enumerate(model.domain.axes)]
    slab = tuple(slice(int(i.min()), int(i.max()) + 1) for i in near)
    gone = _of_slab(model, slab)[tuple(i - s.start for i, s in zip(near, slab))]
    return move(gone, index)


def near_grid(model: "Model", x: Sequence[Floats]) -> Array:
    """The same for a grid of index coordinates: (..., 1) or (..., C), on the host."""
    return gone_at(model, [nearest(a, c) for a, c in zip(model.domain.axes, x)])


def shown(values: Array, gone: Array, fill: Any = None) -> Array:
    """`values` with NaN where `gone`; whole numbers get `fill`, if there is one that they hold."""
    if not gone.any():
        return values
    xp = namespace(values)
    if xp.isdtype(values.dtype, ("real floating", "complex floating")):
        fill = xp.nan
    elif fill is None or not _holds(values.dtype, fill):
        raise ValueError(
            f"what is missing cannot be NaN in dtype {values.dtype}. Ask for floats, or pass "
            "missing='fill'."
        )
    return xp.where(move(gone, values), xp.full_like(values, fill), values)


def _holds(dtype: DType, fill: float) -> bool:
    """Whether whole numbers of this dtype can be `fill`."""
    kind = np.dtype(str(dtype).rsplit(".", 1)[-1])
    if kind.kind not in "iu" or not np.isfinite(fill):
        return False
    info = np.iinfo(kind)
    return bool(info.min <= fill <= info.max and fill == round(fill))
