"""Arrays in files that are read slab by slab, and sent between processes by name of the file."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from elmfield._array.typing import Array, DType

Read = Callable[[tuple[slice, ...]], Array]
"""Gives a slab of a whole array: slices with numbers, steps above 0."""


@dataclass(frozen=True, eq=False)
class Lazy:
    """A part of an array that is read when it is asked for: ``np.asarray(lazy[10:20])``.

    Parameters
    ----------
    read : callable
        Reads slabs of the whole array; can be pickled.
    whole : tuple of int
        Shape of that.
    dtype : NumPy dtype
        Of its numbers.
    part : tuple of range or int
        What is meant on each axis of the whole; an axis with a number is gone.
    stored : tuple of int or None
        What is read at once, on each axis of the whole; None where that may be anything.
    """

    read: Read = field(repr=False)
    whole: tuple[int, ...]
    dtype: DType
    part: tuple[range | int, ...] = ()
    stored: tuple[int, ...] | None = None

    @property
    def chunk(self) -> tuple[int, ...] | None:
        """What is read at once, about, on each axis; None where that may be anything."""
        if self.stored is None:
            return None
        every = zip(self.stored, self._part)
        return tuple(max(1, n // abs(p.step)) for n, p in every if isinstance(p, range))

    @property
    def _part(self) -> tuple[range | int, ...]:
        return self.part or tuple(range(n) for n in self.whole)

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers on each axis."""
        return tuple(len(p) for p in self._part if isinstance(p, range))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Numbers in all."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all numbers."""
        return self.size * int(np.dtype(self.dtype).itemsize)

    def __getitem__(self, key: Any) -> "Lazy":
        """A part of it, of slices and numbers; nothing is read."""
        keys = list(key) if isinstance(key, tuple) else [key]
        if Ellipsis in keys:
            i = keys.index(Ellipsis)
            keys[i : i + 1] = [slice(None)] * (self.ndim - len(keys) + 1)
        keys += [slice(None)] * (self.ndim - len(keys))
        rest = iter(keys)
        part = tuple(p if isinstance(p, int) else p[next(rest)] for p in self._part)
        return Lazy(self.read, self.whole, self.dtype, part, self.stored)

    def __array__(self, dtype: DType = None, copy: bool | None = None) -> Array:
        """The numbers."""
        slab, turn = [], []
        for p in self._part:
            one = range(p, p + 1) if isinstance(p, int) else p
            up = one if one.step > 0 else one[::-1]
            slab.append(slice(up.start, up.stop, up.step))
            turn.append(0 if isinstance(p, int) else slice(None, None, 1 if one.step > 0 else -1))
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        found = np.asarray(self.read(tuple(slab)))[tuple(turn)]
        return found.astype(self.dtype if dtype is None else dtype, copy=False)


@dataclass(frozen=True)
class Mapped:
    """An array that lies in a file as it is in memory."""

    path: Path
    dtype: DType
    offset: int
    shape: tuple[int, ...]
    order: str = "C"

    def __call__(self, slab: tuple[slice, ...]) -> Array:
        """A copy of a slab: what the system read for it is forgotten again."""
        found = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, self.order)  # type: ignore[call-overload]
        return np.array(found[slab])


def lazy_memmap(values: np.memmap) -> Lazy:
    """A memory map by the name of its file; slices of it, which begin elsewhere, as they are."""
    read = Mapped(
        Path(str(values.filename)),
        values.dtype,
        int(values.offset),
        values.shape,
        "C" if values.flags.c_contiguous else "F",
    )
    return Lazy(read, values.shape, values.dtype)


@dataclass(frozen=True, eq=False)
class DataArraySlabs:
    """Reads slabs of a DataArray that lies in a file."""

    da: Any

    def __call__(self, slab: tuple[slice, ...]) -> Array:
        """The slab, decoded."""
        return np.asarray(self.da.isel(dict(zip(self.da.dims, slab))).values)
