"""What a caller says, checked once: numbers, whole numbers, one per axis, one of a list.

Enter an argument and what it is called; leaves its value, or a message in the caller's own words:
what was wrong, what we got. The rooms above check here at their doors and trust each other inside.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import timedelta
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

import numpy as np

T = TypeVar("T")


def is_number(v: object) -> TypeGuard[float]:
    """Whether `v` is a finite real number, Python's or NumPy's, and not a boolean."""
    if isinstance(v, (bool, np.bool)) or not isinstance(v, Real):
        return False
    # Whole numbers of any length are finite; one of 400 digits is no float to ask.
    return isinstance(v, Integral) or math.isfinite(v)


def is_whole(v: object) -> TypeGuard[int]:
    """Whether `v` is a whole number, as 3, 3.0 or numpy.int8(3) are, and not a boolean."""
    return is_number(v) and v == math.floor(v)


def is_integer(v: object) -> TypeGuard[int]:
    """Whether `v` counts or numbers something: an integer by type, which 3.0 is not."""
    return isinstance(v, Integral) and not isinstance(v, bool)


def is_text(v: object) -> TypeGuard[str]:
    """Whether `v` is a word."""
    return isinstance(v, str)


def is_duration(v: object) -> bool:
    """Whether `v` is a length of time, Python's or NumPy's."""
    return isinstance(v, (timedelta, np.timedelta64))


def is_mapping(v: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether `v` says something about each of its keys."""
    return isinstance(v, Mapping)


def is_integers(v: object) -> bool:
    """Whether `v` is a NumPy array of integers."""
    return isinstance(v, np.ndarray) and v.dtype.kind in "iu"


def whole(name: str, v: object, least: int = 1, hint: str = "") -> int:
    """`v` as an int, if it is a whole number of at least `least`; `hint` ends the message."""
    if not is_whole(v) or v < least:
        raise ValueError(
            f"`{name}` must be a whole number of at least {least}; got {v!r}."
            + (f" {hint}" if hint else "")
        )
    return int(v)


def positive(name: str, v: object) -> float:
    """`v` as a float, if it is a finite number above 0."""
    if not is_number(v) or v <= 0:
        raise ValueError(f"`{name}` must be a positive number; got {v!r}.")
    return float(v)


def per_axis(name: str, value: float | Sequence[float], d: int) -> tuple[float, ...]:
    """`value` once per axis: a number is repeated, a sequence must have `d` entries."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    given: Any = value
    values: tuple[Any, ...] = tuple(given) if listed or np.ndim(given) else (given,) * d
    if len(values) != d:
        raise ValueError(
            f"`{name}` must be one number or one per axis, {d}; got {len(values)}: {value!r}."
        )
    for v in values:
        if not is_number(v):
            raise ValueError(f"`{name}` must be a finite number; got {v!r}.")
    return values


def choice(name: str, v: T, known: Collection[T]) -> T:
    """`v`, if it is one of `known`."""
    if not isinstance(v, Hashable) or v not in known:
        raise ValueError(f"`{name}` must be one of {list(known)}; got {v!r}.")
    return v


def at_most_one(**asked: T | None) -> tuple[str, T] | None:
    """The one argument that is not None, with its name; None if there is none."""
    given = [(name, v) for name, v in asked.items() if v is not None]
    if len(given) > 1:
        raise ValueError(
            f"only one of {', '.join(asked)} can be asked for; got "
            f"{', '.join(name for name, _ in given)}. Drop all but one."
        )
    return given[0] if given else None
