"""Sound, video and scans in their own terms: a rate, a spacing, another scan's grid."""

from typing import Any

from elmfield.field import Field
from elmfield.io.gridded import Gridded
from elmfield.io.rates import at_rate, is_sound, rate_for
from elmfield.io.resliced import is_placed, resliced
from elmfield.io.targets import grid_in


def in_own_terms(
    field: Field,
    shape: Any,
    *,
    scale: Any,
    window: Any,
    like: Any,
    rate: Any,
    spacing: Any,
    affine: Any,
    quantity: str,
    dtype: Any,
    antialias: bool,
    missing: str | None,
) -> Gridded | None:
    """What is asked of sound, of video and of scans in their own terms; None if nothing is."""
    asked = {"rate": rate, "spacing": spacing, "affine": affine}
    given = [name for name, v in asked.items() if v is not None]
    also = [n for n, v in (("scale", scale), ("window", window or None)) if v is not None]
    also += [] if shape is None or affine is not None else ["shape"]
    if len(given) > 1 or (given and also):
        raise ValueError(f"say `{given[0]}` or `{[*given[1:], *also][0]}`, not both.")
    if given and quantity != "value":
        raise ValueError(f"`{given[0]}` is for values; got quantity={quantity!r}.")
    if is_sound(field) and not given and not window and (shape is not None or scale is not None):
        rate = rate_for(field, shape, scale)  # so many samples are so many in a second
    if rate is not None:
        return at_rate(field, rate, dtype=dtype, missing=missing)
    if spacing is not None or affine is not None:
        return resliced(field, affine, shape, spacing=spacing, dtype=dtype, antialias=antialias)
    other = None if like is None or not is_placed(field.attributes) else grid_in(like)
    if other is not None and is_placed(other.attributes):
        return resliced(field, like=other, dtype=dtype, antialias=antialias)
    return None
