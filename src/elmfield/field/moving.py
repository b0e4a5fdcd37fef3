"""A field elsewhere: in another array library, or on another device."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from elmfield._array.backend import beside, move
from elmfield._array.typing import Array

if TYPE_CHECKING:
    from elmfield.field.pointwise import Pointwise

F = TypeVar("F", bound="Pointwise")


def moved(field: F, where: Any) -> F:
    """The field with all that depends on samples moved to `where`: a device, "numpy", an array."""
    like = beside(field.offset, where)
    groups = [g.moved(like) for g in field.blended.groups]

    def there(a: Array) -> Array:
        return move(a, like)

    return replace(
        field,
        blended=replace(field.blended, groups=tuple(groups)),
        offset=there(field.offset),
        scale=there(field.scale),
    )
