"""Samples as callers give them: checked, real, channels last; what is missing; about 0, of order 1.

Arrays of any library enter, with masks of theirs or of `numpy.ma`, or anything else that has a
shape, a dtype and slices; :class:`Samples` leave, with what is needed to put the caller's units
back. What is done with them it does not know.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from elmfield._array.backend import (
    contiguous,
    is_array,
    is_numpy,
    is_sliced,
    move_all,
    namespace,
    take,
    to_numpy,
)
from elmfield._array.ends import Ends, data_range, standard_of, standardise
from elmfield._array.masks import either, like_values
from elmfield._array.typing import Array, Floats, Integers

# --- where samples lie ----------------------------------------------------------------------------

Slab = tuple[slice, ...]
"""A block of an array: one slice per axis."""


class Source(Protocol):
    """An array that is read in parts: in memory, in a file, or made when asked for."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels included."""

    @property
    def dtype(self) -> Any:
        """Of the samples."""

    def read(self, slab: Slab = ()) -> Array:
        """The samples of a slab, in an array of a library; of all of it for ()."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """An array of any library, where it is."""

    array: Array = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        """Of the samples."""
        return self.array.dtype

    def read(self, slab: Slab = ()) -> Array:
        """A view of the slab."""
        return self.array[slab] if slab else self.array


@dataclass(frozen=True, eq=False)
class Sliced:
    """What gives NumPy arrays when it is sliced: Zarr and HDF5 arrays, Dask arrays."""

    container: Any = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return tuple(map(int, self.container.shape))

    @property
    def dtype(self) -> Any:
        """Of the samples."""
        return np.dtype(self.container.dtype)

    def read(self, slab: Slab = ()) -> Array:
        """The slab, read or computed."""
        return np.asarray(self.container[slab or ...])


def source_of(values: Any) -> Source:
    """What `values` are read from: an array, anything with shape, dtype and slices, or a list."""
    if is_array(values):
        return InMemory(values)
    return Sliced(values) if is_sliced(values) else InMemory(np.asarray(values))


Grid = tuple[Integers, ...]
"""Positions on each axis, in any order, whose product is meant."""


class View(Protocol):
    """Samples (..., C) of which some are looked at, about 0 and of order 1."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all samples, channels last."""

    @property
    def eps(self) -> float:
        """Relative rounding of their dtype."""

    def on(self, grid: Grid) -> Array:
        """The samples on a grid of positions, all channels."""

    def every(self, step: int) -> Array:
        """One of so many, counted through the flattened array, (n, C)."""


@dataclass(frozen=True, eq=False)
class Seen:
    """A view of samples that are at hand; `bring` makes any of them ready."""

    values: Array = field(repr=False)
    bring: Callable[[Array], Array]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all samples, channels last."""
        return tuple(self.values.shape)

    @property
    def eps(self) -> float:
        """Relative rounding of their dtype."""
        return float(namespace(self.values).finfo(self.values.dtype).eps)

    def on(self, grid: Grid) -> Array:
        """The samples on a grid of positions, all channels."""
        y = self.values
        sizes = zip(grid, y.shape)
        some = [k for k, (at, n) in enumerate(sizes) if len(at) != n or (at != np.arange(n)).any()]
        some.sort(key=lambda k: len(grid[k]) / y.shape[k])  # what leaves least first
        for k, index in zip(some, move_all([grid[k] for k in some], y) if some else ()):
            y = take(y, index, axis=k)
        return self.bring(y)

    def every(self, step: int) -> Array:
        """One of so many, counted through the flattened array, (n, C)."""
        y = self.values
        return self.bring(namespace(y).reshape(y, (-1, y.shape[-1]))[::step, :])


# --- masks ----------------------------------------------------------------------------------------


def unmasked(
    values: Any, mask: Array | None, channel_axis: int | None, d: int | None
) -> tuple[Array, Array | None]:
    """An array, and what its own mask (`numpy.ma`) or `mask` marks; with d + 1 axes, of a batch."""
    if isinstance(values, (list, tuple)):
        masked = any(isinstance(v, np.ma.MaskedArray) for v in values)
        values = np.ma.stack(values) if masked else np.asarray(values)
    if isinstance(values, np.ma.MaskedArray):
        if d is not None and values.ndim == d + 1 and channel_axis is not None:
            channel_axis += 1
        return values.data, either(np.ma.getmaskarray(values), mask, channel_axis)
    return source_of(values).read(), mask


def with_nan(values: Any) -> Array:
    """An array, in which NaN stands where a mask (`numpy.ma`) was."""
    if isinstance(values, np.ma.MaskedArray):
        numbers = values.data if values.dtype.kind in "fc" else values.data.astype(np.float64)
        values = np.where(np.ma.getmaskarray(values), np.asarray(np.nan, numbers.dtype), numbers)
    return values if is_array(values) else np.asarray(values)


# --- checks ---------------------------------------------------------------------------------------


def prepare(
    values: Array, shape: tuple[int, ...], channel_axis: int | None, mask: Array | None
) -> tuple[Array, Array | None, bool]:
    """Checked samples with channels last, floating; where they are present; whether complex.

    Complex input becomes twice as many real channels, imaginary parts last.
    """
    return checked(values, shape, channel_axis, mask)[:3]


def checked(
    values: Array,
    shape: tuple[int, ...],
    channel_axis: int | None,
    mask: Array | None,
    *,
    is_whole: bool = True,
) -> tuple[Array, Array | None, bool, Ends | None]:
    """What :func:`prepare` gives, and the ends of what is present; None near overflow.

    A part of an array (not `is_whole`) may miss all samples of a channel. Channels are last, but
    each is in one piece of memory: loops over three colours are slow.
    """
    if not is_array(values):
        values = np.asarray(values)
    xp = namespace(values)
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biufc":
        raise TypeError(
            f"`values` must hold numbers; got dtype {values.dtype}. Convert it, for instance with "
            "values.astype(float)."
        )
    if isinstance(values, np.ndarray) and not values.dtype.isnative:  # as files often have it
        values = values.astype(values.dtype.newbyteorder("="))
    if tuple(values.shape) != shape:
        raise ValueError(
            f"`values` must have the encoder's shape {shape}; got {tuple(values.shape)}. Several "
            "arrays at once are for encoder.batch(...)."
        )
    values = values[None, ...] if channel_axis is None else xp.moveaxis(values, channel_axis, 0)
    is_complex = bool(xp.isdtype(values.dtype, "complex floating"))
    if is_complex:
        values = xp.concat([xp.real(values), xp.imag(values)], axis=0)
    narrow = str(values.dtype).rsplit(".", 1)[-1] in ("float32", "float16", "bfloat16")
    y = contiguous(xp.astype(values, xp.float32 if narrow else xp.float64, copy=False))
    y = xp.permute_dims(y, (*range(1, y.ndim), 0))
    far = float(xp.finfo(y.dtype).max) / 4
    if mask is None:
        ends = Ends.of(y)
        # NaN and infinities show in these; what is left is far from overflow.
        if ends.largest < far:
            return y, None, is_complex, ends
    missing = xp.isnan(y)
    if mask is not None:
        missing = missing | like_values(mask, y, shape, channel_axis)
    if bool(xp.any(xp.isinf(y) & ~missing)):
        raise ValueError(
            "`values` must be finite; got infinities. Replace them with NaN to mark the samples as "
            "missing."
        )
    if not bool(xp.any(missing)):
        _refuse_far(y, far)
        return y, None, is_complex, None
    if is_complex:  # a sample with one part missing is missing
        half = missing.shape[-1] // 2
        both = missing[..., :half] | missing[..., half:]
        missing = xp.concat([both, both], axis=-1)
    if is_whole and bool(xp.any(xp.all(missing, axis=tuple(range(missing.ndim - 1))))):
        raise ValueError(
            "every channel needs at least one sample that is present; got a channel that is all "
            "NaN or masked."
        )
    y, present = xp.where(missing, xp.zeros_like(y), y), ~missing
    ends = Ends.of(y, present)
    if ends.largest < far:
        return y, present, is_complex, ends
    _refuse_far(y, far)
    return y, present, is_complex, None


WHOLE = ("int64", "uint64")
"""Dtypes that hold whole numbers which float64 does not."""

EXACT_WHOLE = 2.0**53
"""Above this float64 does not hold all whole numbers."""


def warn_of_rounding(top: float) -> None:
    """Say that whole numbers up to `top` lose digits when they become floating."""
    if top > EXACT_WHOLE:
        warnings.warn(
            f"whole numbers up to {top:.4g} are computed with as float64, which rounds them by up "
            f"to {np.spacing(top) / 2:g}. Take an offset off them first to keep all digits.",
            stacklevel=4,
        )


def _refuse_far(y: Array, far: float) -> None:
    """Raise if a number is so large that its mean with others, or its square, has no place."""
    host = np.asarray(to_numpy(y))
    large = np.abs(host) >= far
    if not large.any():
        return
    first = host[large][0]
    kind = host.dtype.name
    raise ValueError(
        f"`values` must lie within ±{far:.3g} to be computed with in {kind}; got {first:.6g}, and "
        f"{int(large.sum())} such of {host.size} samples. Files often mark samples without data by "
        "such numbers: pass `mask`, or replace them with NaN."
        + ("" if kind == "float64" else " Else convert the array to float64.")
    )


# --- what a fit works on --------------------------------------------------------------------------

EXACT = {name: name for name in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float16")}
EXACT["bool"] = "uint8"
"""Dtypes that are kept as they are, though fits compute with wider ones."""

FEW = 1 << 20
"""Samples that are brought to scale all at once."""

FEW_STEPS = 100
"""Whole numbers that range over fewer are filled in with fractions."""


def fills_whole(dtype: str, data_range: float) -> bool:
    """Whether samples that are filled in become whole numbers too, as a file then keeps all.

    They do where that moves them by 0.5 % of the range at most.
    """
    return dtype in EXACT and np.dtype(dtype).kind in "iu" and data_range >= FEW_STEPS


def whole_of(values: Array, dtype: str) -> Array:
    """The nearest whole numbers of a dtype, still floating."""
    xp, ends = namespace(values), np.iinfo(dtype)
    return xp.clip(xp.round(values), float(ends.min), float(ends.max))


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """Samples ready to be fitted, and what they were.

    Parameters
    ----------
    raw : array, shape (..., C)
        The samples in the caller's units, floating, channels last; 0 where one is missing.
    present : array of bool, shape (..., C), or None
        Which of them are there; None for all.
    offset, scale : arrays, shape (C,)
        What is taken off each channel, and by what it is then divided: a power of two.
    data_range : float
        Peak to peak, in the caller's units.
    is_complex : bool
        The second half of the channels holds imaginary parts; an error is a modulus.
    dtype : str
        What the caller's samples were.
    brought : array, shape (..., C), or None
        The samples about 0 and of order 1, gaps filled; None while that can wait.
    is_given : bool
        Whether `raw` is what the caller gave; not so once it was filled in or denoised.
    is_exact : bool
        Whether the caller's dtype holds `raw` exactly.
    is_lent : bool
        Whether `raw` is the caller's own memory, which may change later.
    """

    raw: Array = field(repr=False)
    present: Array | None = field(default=None, repr=False)
    offset: Array
    scale: Array
    data_range: float
    is_complex: bool = False
    dtype: str = "float64"
    brought: Array | None = field(default=None, repr=False)
    is_given: bool = True
    is_exact: bool = True
    is_lent: bool = False

    @property
    def n_channels(self) -> int:
        """Number of channels; a complex one counts once."""
        return int(self.raw.shape[-1]) // (2 if self.is_complex else 1)

    @cached_property
    def units(self) -> Floats:
        """The scale on the host, in float64."""
        return np.asarray(to_numpy(self.scale)).astype(np.float64)

    def moduli(self, e: Array) -> Array:
        """Errors (..., channels), from those of all parts, (..., C)."""
        if not self.is_complex:
            return e
        C = self.n_channels
        return namespace(e).hypot(e[..., :C], e[..., C:])

    # Batches are brought to scale in their turn, unless someone has to see all samples at once, or
    # there are few.

    @cached_property
    def given(self) -> Array:
        """What batches are gathered from, (..., C); :meth:`bring` makes them ready."""
        few = math.prod(self.raw.shape) <= FEW
        return self.raw if self.brought is None and not few else self.values

    def bring(self, Y: Array) -> Array:
        """A batch of `given`, (..., C), about 0 and of order 1."""
        if self.given is not self.raw:
            return Y
        return self._brought(Y)

    def _brought(self, Y: Array) -> Array:
        Y = Y - self.offset
        Y /= self.scale  # in place: a batch is passed over often enough
        return Y

    @property
    def view(self) -> Seen:
        """Some of them, for who has to decide something by looking."""
        return Seen(self.given, self.bring)

    @property
    def values(self) -> Array:
        """All samples about 0 and of order 1."""
        return self._brought(self.raw) if self.brought is None else self.brought

    def standardised(self) -> "Samples":
        """The same with all samples brought to scale at once."""
        return self if self.brought is not None else replace(self, brought=self.values)

    def changed(self, y: Array, where: Array | None = None) -> "Samples":
        """The same with samples y, (..., C), about 0 and of order 1: all, or those marked.

        They are rounded to the dtype in the caller's units, where a file will keep them; among
        whole numbers to these, if there are many.
        """
        xp = namespace(y)
        raw = y * self.scale + self.offset
        is_exact = where is not None and fills_whole(self.dtype, self.data_range)
        if where is not None:
            raw = whole_of(raw, self.dtype) if is_exact else raw
            raw = xp.where(where, raw, self.raw)
        return replace(
            self, raw=raw, brought=None, is_given=False, is_exact=is_exact, is_lent=False
        )

    # What a file keeps.

    @property
    def kind(self) -> str:
        """The dtype that holds `raw` exactly: the caller's where that is one of a file's."""
        if self.is_exact and self.dtype in EXACT:
            return EXACT[self.dtype]
        return str(self.raw.dtype).rsplit(".", 1)[-1]

    @cached_property
    def own(self) -> Array:
        """`raw` in memory of its own and, with NumPy, in the dtype `kind`."""
        if is_numpy(self.raw):
            return self.raw.astype(self.kind, order="K", copy=self.is_lent)
        # Not `asarray(copy=True)`: torch warns of it where it follows the samples.
        return self.raw + 0 if self.is_lent else self.raw


def read(
    values: Array,
    mask: Array | None = None,
    *,
    shape: Sequence[int],
    channel_axis: int | None,
    centred: bool,
) -> Samples:
    """The samples of an array of the given shape; `centred` takes each channel's mean off."""
    raw, present, is_complex, ends = checked(values, tuple(shape), channel_axis, mask)
    if ends is None:
        brought, offset, scale = standardise(raw, present, centred)
    else:
        kind = str(raw.dtype).rsplit(".", 1)[-1]
        brought, units = None, standard_of(ends, kind, centred)
        offset, scale = move_all(units, raw)
    return Samples(
        raw=raw,
        present=present,
        offset=offset,
        scale=scale,
        data_range=data_range(raw, present) if ends is None else ends.data_range,
        is_complex=is_complex,
        dtype=str(values.dtype).removeprefix("torch."),
        brought=brought,
        is_lent=not is_numpy(raw) or np.may_share_memory(raw, values),
    )
