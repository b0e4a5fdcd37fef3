"""Checks of arguments: numbers, whole numbers, one per axis, one of a list.

Each takes an argument and its name and returns its value, or raises with a message in the caller's
words: what was wrong, and what was given.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def is_number(v: object) -> TypeGuard[float]:
    """Whether `v` is a real number that float64 holds, Python's or NumPy's, and not a boolean."""
    if type(v) is float:  # what is asked most, fastest
        return math.isfinite(v)
    # NumPy counts its lengths of time among the integers.
    if isinstance(v, (bool, np.bool, np.timedelta64)) or not isinstance(v, Real):
        return False
    try:
        return math.isfinite(v)
    except OverflowError:  # an integer or a fraction of more than 308 digits
        return False


def is_whole(v: object) -> TypeGuard[int]:
    """Whether `v` is a whole number, as 3, 3.0 or numpy.int8(3) are, and not a boolean."""
    return is_number(v) and v == math.floor(v)


def is_integer(v: object) -> TypeGuard[int]:
    """Whether `v` counts or numbers something: an integer by type, which 3.0 is not."""
    return isinstance(v, Integral) and not isinstance(v, (bool, np.timedelta64))


def is_mapping(v: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether `v` says something about each of its keys."""
    return isinstance(v, Mapping)


def is_integers(v: object) -> bool:
    """Whether `v` is a NumPy array of integers."""
    return isinstance(v, np.ndarray) and v.dtype.kind in "iu"


def is_path(v: object) -> TypeGuard[str | PathLike[str]]:
    """Whether `v` says where a file is."""
    return isinstance(v, (str, PathLike))


def path_of(path: object) -> Path:
    """The path; TypeError if it is none."""
    if not is_path(path):
        raise TypeError(f"`path` must be a text or a path; got a {type(path).__name__}.")
    return Path(path)


def wrong(
    name: str, must: str, got: object, kind: type[Exception] = ValueError, hint: str = ""
) -> Exception:
    """Return an error about an argument: what it must be or do, what was given, and a hint."""
    return kind(f"`{name}` must {must}; got {shown(got)}.{hint and f' {hint}'}")


def shown(v: object) -> str:
    """`v` as a message shows it: on one line, and not all of a long one."""
    text = " ".join(repr(v).split())
    return text if len(text) <= 200 else f"{text[:197]}..."


def entries(v: object) -> tuple[Any, ...] | None:
    """The entries of a list, tuple, one-dimensional array or the like; None of anything else."""
    if isinstance(v, (tuple, list)):
        return tuple(v)
    if isinstance(v, (str, bytes, Mapping, set, frozenset)) or not isinstance(v, Iterable):
        return None
    return tuple(v) if getattr(v, "ndim", 1) == 1 else None


def by_name(name: str, v: object) -> dict[Any, Any]:
    """What a mapping says of each of its keys; nothing for None."""
    if v is not None and not is_mapping(v):
        raise TypeError(f"`{name}` must be a mapping by the names of axes; got {shown(v)}.")
    return {} if v is None else dict(v)


def array(name: str, v: object) -> NDArray[Any]:
    """`v` as a NumPy array, if its rows are equally long."""
    try:
        return np.asarray(v)
    except ValueError:
        raise ValueError(
            f"`{name}` must be an array; got rows of different lengths: {shown(v)}."
        ) from None


def numbers(name: str, v: object) -> NDArray[np.float64]:
    """`v` as an array in float64, if it holds real numbers."""
    found = array(name, v)
    if found.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` must hold real numbers; got dtype {found.dtype}.")
    return found.astype(np.float64)


def axis_of(name: str, v: object, shape: Sequence[int]) -> int:
    """The number of an axis of an array, counted from the first."""
    d = len(shape)
    if not is_integer(v) or not -d <= v < d:
        ends = f"between {-d} and {d - 1} for shape {tuple(shape)}"
        raise wrong(name, f"be an axis of the array, {ends}", v)
    return int(v) % d


def sizes_of(name: str, v: object, d: int | None = None, least: int = 1) -> tuple[int, ...]:
    """Samples on each axis: whole numbers of at least `least`, `d` of them."""
    found = entries(v)
    found = (v,) if found is None else found
    if d not in (None, len(found)) or not all(is_whole(n) and least <= n < 1 << 53 for n in found):
        n = "" if d is None else f"{d} "
        raise wrong(name, f"be {n}whole numbers of at least {least}, one per axis", v)
    return tuple(int(n) for n in found)


def whole(name: str, v: object, least: int = 1, hint: str = "") -> int:
    """`v` as an int, if it is a whole number of at least `least`; `hint` ends the message."""
    if not is_whole(v) or v < least:
        raise wrong(name, f"be a whole number of at least {least}", v, hint=hint)
    return int(v)


def positive(name: str, v: object) -> float:
    """`v` as a float, if it is a finite number above 0."""
    if not is_number(v) or v <= 0:
        raise wrong(name, "be a positive number", v)
    return float(v)


def share(name: str, v: object) -> float:
    """`v` as a float, if it is a part of a whole: from 0 to 1."""
    if not is_number(v) or not 0 <= v <= 1:
        raise wrong(name, "be a number from 0 to 1", v)
    return float(v)


def per_axis(name: str, value: float | Sequence[float], d: int) -> tuple[float, ...]:
    """`value` once per axis: a number is repeated, a sequence must have `d` entries."""
    given: Any = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    listed = entries(given)
    values: tuple[Any, ...] = (given,) * d if listed is None else listed
    if len(values) != d:
        raise ValueError(
            f"`{name}` must be one number or one per axis, {d}; got {len(values)}: {shown(value)}."
        )
    for v in values:
        if not is_number(v):
            raise ValueError(f"`{name}` must be a finite number; got {shown(v)}.")
    return values


def choice(name: str, v: T, known: Collection[T]) -> T:
    """`v`, if it is one of `known`."""
    if not isinstance(v, Hashable) or v not in known:
        raise wrong(name, f"be one of {list(known)}", v)
    return v


def at_most_one(**asked: T | None) -> tuple[str, T] | None:
    """The one argument that is not None, with its name; None if there is none."""
    given = [(name, v) for name, v in asked.items() if v is not None]
    if len(given) > 1:
        got = ", ".join(name for name, _ in given)
        told = f"only one of {', '.join(asked)} can be asked for"
        raise ValueError(f"{told}; got {got}. Drop all but one.")
    return given[0] if given else None


USUAL_EFFORT = 5
"""Of coding with loss, from 1, fast, to 9, small."""


def check_effort(effort: object) -> None:
    """Raise unless `effort` is a whole number from 1 to 9."""
    if not is_integer(effort) or not 1 <= int(effort) <= 9:
        raise ValueError(f"`effort` must be a whole number from 1 to 9; got {effort!r}.")
