"""Which axes repeat, and after which length: the one reading of ``periodic=``.

A name, an axis number, several of them, or a mapping to periods enters; leave periods by axis
number. Whether a period fits the samples is the axis's business.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from elmfield._array.checks import is_duration, is_integer, is_mapping, is_number, is_text
from elmfield._array.typing import Array

Periodic = str | int | Iterable[str | int] | Mapping[Any, float | None] | Array
"""What ``periodic=`` may be: see :func:`periods_of`."""


def periods_of(periodic: Periodic, dims: Sequence[str]) -> dict[int, float | None]:
    """The period of each axis that repeats, by axis number; None where samples must tell it.

    Parameters
    ----------
    periodic : str, int, sequence of them, or mapping
        Names or numbers of the axes that repeat; as a mapping, with their periods in the unit of
        the coordinates (durations count seconds, as dates do), or None. Numbers may count from the
        end.
    dims : sequence of str
        What the axes are called.
    """
    periods: dict[int, float | None] = {}
    for key, period in _entries(periodic):
        k = tuple(dims).index(key) if key in dims else key
        if not is_integer(k) or not -len(dims) <= k < len(dims):
            raise ValueError(f"`periodic` names axis {key!r}, but the axes are {list(dims)}.")
        if is_duration(period):
            period = np.timedelta64(period) / np.timedelta64(1, "s")
        if period is not None and not is_number(period):
            raise ValueError(
                f"the period of axis {dims[k]!r} must be a finite number; got {period!r}."
            )
        periods[int(k) % len(dims)] = None if period is None else float(period)
    return periods


def wraps_of(periodic: Periodic, d: int) -> tuple[bool, ...]:
    """Whether each of `d` axes repeats, for those who count in samples and know no names.

    There an axis repeats after its last sample: periods are read, and play no part.
    """
    wraps = [False] * d
    for k, _ in _entries(periodic):
        if not is_integer(k) or not -d <= k < d:
            raise ValueError(
                f"`periodic` must hold numbers of axes, between {-d} and {d - 1}; got "
                f"{periodic!r}. Axes have no names here."
            )
        wraps[k] = True
    return tuple(wraps)


def _entries(periodic: Periodic) -> list[tuple[Any, Any]]:
    """Pairs of an axis, as it was given, and its period or None."""
    if is_mapping(periodic):
        return list(periodic.items())
    if is_text(periodic) or is_integer(periodic):
        return [(periodic, None)]
    try:
        return [(key, None) for key in cast(Iterable[Any], periodic)]
    except TypeError:
        raise TypeError(
            "`periodic` must be the name or number of an axis, several of them, or a mapping to "
            f"periods; got {periodic!r}."
        ) from None
