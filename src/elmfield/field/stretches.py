"""Places on an axis too long to list them: made where they are looked at, stretch by stretch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from elmfield._array.typing import Floats

LISTED = 1 << 20
"""Places up to which a list of them costs nothing worth saving."""


class Places(Protocol):
    """Index coordinates on an axis: an array, or what makes one of any stretch."""

    def __len__(self) -> int: ...

    def __getitem__(self, stretch: slice, /) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Made:
    """`count` places of which ``make(i, j)`` gives those from i up to j."""

    count: int
    make: Callable[[int, int], Floats] = field(repr=False)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, stretch: slice, /) -> Floats:
        """The places of a stretch."""
        i, j, _ = stretch.indices(self.count)
        return self.make(i, j)


def counted(first: int, count: int) -> Places:
    """The places first, first + 1, ..."""
    if count <= LISTED:
        return np.arange(first, first + count, dtype=np.float64)
    return Made(count, lambda i, j: np.arange(first + i, first + j, dtype=np.float64))


def even(low: float, high: float, count: int) -> Places:
    """The middles of so many equal parts from low to high."""

    def make(i: int, j: int) -> Floats:
        return np.asarray(low + (np.arange(i, j) + 0.5) * ((high - low) / count))

    return make(0, count) if count <= LISTED else Made(count, make)


def changed(x: Places, change: Callable[[Floats], Floats]) -> Places:
    """Places of which each is changed alone."""
    if isinstance(x, Made):
        return Made(len(x), lambda i, j: change(x[i:j]))
    return change(x[:])


def between(x: Places, edges: Callable[[Floats], Floats | None]) -> Places | None:
    """Edges around places, one more than these, that need their neighbours alone.

    ``edges`` gives those of a stretch, and None where all places are close.
    """
    if not isinstance(x, Made):
        return edges(x[:])
    n = len(x)
    if edges(x[:2]) is None:
        return None

    def make(i: int, j: int) -> Floats:
        a, b = max(i - 1, 0), min(j, n)
        found = edges(x[a:b])
        assert found is not None
        return found[i - a : j - a]

    return Made(n + 1, make)
