"""Colours with transparency: fitted times alpha, given back as they were.

A transparent pixel has a colour that nobody sees; blended with its neighbours' it makes fringes. So
the field of a picture with transparency holds each colour times alpha, and its values are divided
by alpha again. ``labels.alpha`` says so: the ``channel`` that holds it, and its ``full``.
"""

from typing import TYPE_CHECKING

from elmfield._array.backend import namespace
from elmfield._array.typing import Array

if TYPE_CHECKING:
    from elmfield.field.coordinates.labels import Alpha

VISIBLE_MIN_ALPHA = 1 / 512
"""Below this part of full alpha (half a level of 8 bits) there is no colour to be told."""


def unpremultiply(alpha: "Alpha | None", values: Array) -> Array:
    """Colours of values (n, C) that are times alpha; what is transparent is black."""
    if alpha is None:
        return values
    xp, k, full = namespace(values), alpha.channel, alpha.full
    a = values[:, k : k + 1]
    seen = a > VISIBLE_MIN_ALPHA * full
    colour = xp.where(seen, full * values / xp.where(seen, a, xp.ones_like(a)), 0 * values)
    colour = xp.clip(colour, 0.0, full)
    return xp.concat([colour[:, :k], a, colour[:, k + 1 :]], axis=1)


def unpremultiply_gradient(alpha: "Alpha", values: Array, slopes: Array) -> Array:
    """Gradients (..., C, d) of colours, from values (..., C) and slopes that are times alpha.

    ``∇c = (∇p - c ∇a) / a`` for a colour c, alpha a between 0 and 1, and p = c a.
    """
    xp, k, full = namespace(values), alpha.channel, alpha.full
    a, da = values[..., k, None, None] / full, slopes[..., k : k + 1, :] / full
    seen = a > VISIBLE_MIN_ALPHA
    a = xp.where(seen, a, xp.ones_like(a))
    found = xp.where(seen, (slopes - values[..., None] / a * da) / a, 0 * slopes)
    return xp.concat([found[..., :k, :], da * full, found[..., k + 1 :, :]], axis=-2)


def refuse_alpha(quantity: str) -> None:
    """Refuse second derivatives of colours with transparency."""
    if "gradient" not in quantity:
        raise ValueError(
            "second derivatives are not known for colours with transparency. Ask "
            "elmfield.Field(field.model.premultiplied), whose colours are times alpha."
        )
