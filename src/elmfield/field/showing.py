"""Where the rooms above leave word how a field is opened in a browser: a field cannot ask them."""

from collections.abc import Callable
from typing import Any

_OPENERS: list[Callable[..., Any]] = []


def opened_by(opener: Callable[..., Any]) -> None:
    """Open fields with this callable from now on: of a field, and options by name."""
    _OPENERS[:] = [opener]


def opened(field: Any, **options: Any) -> Any:
    """The page of a field, opened as the package has it."""
    return _OPENERS[0](field, **options)
