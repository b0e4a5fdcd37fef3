"""How many pixels a picture may claim: small files that unpack to huge ones are refused.

Headers are believed up to a number of pixels, or as far as the bytes of a file bear them out.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from elmfield.io.errors import UnreadableError

MOST = 1 << 27
"""Pixels that any file may claim."""

PER_BYTE = 50
"""Pixels for each byte of a file that larger ones may claim; photographs have fewer than ten."""

_most: ContextVar[int | None] = ContextVar("most", default=None)


@contextmanager
def most_pixels(n: int | None) -> Iterator[None]:
    """Within this, pictures may have up to so many pixels, whatever their files' sizes."""
    before = _most.set(n)
    try:
        yield
    finally:
        _most.reset(before)


def check_pixels(path: Path, shape: Sequence[int]) -> None:
    """Raise if a file claims more pixels, (..., rows, columns), than it may."""
    n, size, told = math.prod(shape), path.stat().st_size, _most.get()
    if n <= (max(MOST, PER_BYTE * size) if told is None else told):
        return
    why = f"in {size} bytes" if told is None else f"and at most {told} are allowed"
    raise UnreadableError(
        f"{path.name} claims {n} pixels {why}; it was not unpacked. If you trust it, allow more: "
        f"read(path, max_pixels={n}), or --max-pixels {n}."
    )
