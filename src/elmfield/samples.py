"""Samples of a caller, read in parts, checked, real, channels last, with gaps and units.

Arrays of any library enter, with masks, or anything else that has a shape, a dtype and slices;
:class:`Samples` leave, with what is needed to put the caller's units back.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from elmfield._array import backend
from elmfield._array.backend import is_array, is_numpy, move_all, namespace, take, to_numpy
from elmfield._array.channel_stats import ChannelStats, join_masks, mask_like_values, standard_of
from elmfield._array.checks import array
from elmfield._array.typing import Array, DType, Floats, Integers

# --- where samples lie ----------------------------------------------------------------------------

Slab = tuple[slice, ...]
"""A block of an array: one slice per axis."""


class Source(Protocol):
    """An array that can be read in parts: in memory, in a file, or computed on demand."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis, channels included."""

    @property
    def dtype(self) -> DType:
        """Of the samples."""

    def read(self, slab: Slab = ()) -> Array:
        """Return the samples of a slab; all samples for ()."""


@dataclass(frozen=True, eq=False)
class _Source:
    """What has a shape, a dtype and slices."""

    array: Array = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples on each axis."""
        return tuple(map(int, self.array.shape))

    @property
    def dtype(self) -> DType:
        """Of the samples."""
        return self.array.dtype


class InMemory(_Source):
    """An array of any library, not copied."""

    def read(self, slab: Slab = ()) -> Array:
        """A view of the slab."""
        return self.array[slab] if slab else self.array


class Sliced(_Source):
    """A container that gives NumPy arrays when it is sliced: a Zarr, HDF5 or Dask array."""

    def read(self, slab: Slab = ()) -> Array:
        """The slab, read or computed."""
        return np.asarray(self.array[slab or ...])


def source_of(values: Array) -> Source:
    """Return the source of `values`: an array, anything with shape, dtype and slices, or a list."""
    if is_array(values):
        return InMemory(values)
    return Sliced(values) if backend.is_sliced(values) else InMemory(array("values", values))


Grid = tuple[Integers, ...]
"""Positions on each axis, in any order; the grid is their product."""


class View(Protocol):
    """Samples (..., C), standardised to about 0 and order 1, of which some can be looked at."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all samples, channels last."""

    @property
    def eps(self) -> float:
        """Relative rounding of their dtype."""

    def on(self, grid: Grid) -> Array:
        """The samples on a grid of positions, all channels."""

    def every(self, step: int) -> Array:
        """Every `step`-th sample of the flattened array, (n, C)."""


# --- masks ----------------------------------------------------------------------------------------


def unmasked(
    values: Array, mask: Array | None, channel_axis: int | None, d: int | None
) -> tuple[Array, Array | None]:
    """Return an array without its `numpy.ma` mask, and that mask joined with `mask`.

    An array of d + 1 axes is a batch: its channel axis is one further.
    """
    if isinstance(values, (list, tuple)):
        masked = any(isinstance(v, np.ma.MaskedArray) for v in values)
        values = np.ma.stack(values) if masked else array("values", values)
    if isinstance(values, np.ma.MaskedArray):
        if d is not None and values.ndim == d + 1 and channel_axis is not None:
            channel_axis += 1
        return values.data, join_masks(np.ma.getmaskarray(values), mask, channel_axis)
    return source_of(values).read(), mask


def with_nan(values: Array) -> Array:
    """Return an array with NaN in place of a `numpy.ma` mask."""
    if isinstance(values, np.ma.MaskedArray):
        numbers = values.data if values.dtype.kind in "fc" else values.data.astype(np.float64)
        values = np.where(np.ma.getmaskarray(values), np.asarray(np.nan, numbers.dtype), numbers)
    return values if is_array(values) else array("values", values)


# --- checks ---------------------------------------------------------------------------------------


def prepare(
    values: Array,
    shape: tuple[int, ...],
    channel_axis: int | None,
    mask: Array | None = None,
    *,
    is_whole: bool = True,
) -> tuple[Array, Array | None, bool, ChannelStats]:
    """Check samples; return them floating, which are present (None: all), if complex, their ends.

    Channels are last, but each is in one piece of memory: loops over three colours are slow.
    Complex input becomes twice as many real channels, imaginary parts last. A part of an array
    (not `is_whole`) may miss all samples of a channel.
    """
    if not is_array(values):
        values = np.asarray(values)
    backend.refuse_abstract("values", values, "Several arrays at once are for encoder.batch(...).")
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
    values = backend.contiguous(values)  # before they are wider
    y = xp.astype(values, xp.float32 if narrow else xp.float64, copy=False)
    y = xp.permute_dims(y, (*range(1, y.ndim), 0))
    far = float(xp.finfo(y.dtype).max) / 4
    if mask is None and (ends := ChannelStats.of(y)).largest < far:  # NaN and infinities show in it
        return y, None, is_complex, ends
    missing = xp.isnan(y)
    if mask is not None:
        missing = missing | mask_like_values(mask, y, shape, channel_axis)
    if bool(xp.any(xp.isinf(y) & ~missing)):
        raise ValueError(
            "`values` must be finite; got infinities. Replace them with NaN to mark the samples as "
            "missing."
        )
    present = None
    if bool(xp.any(missing)):
        if is_complex:  # a sample with one part missing is missing
            half = missing.shape[-1] // 2
            both = missing[..., :half] | missing[..., half:]
            missing = xp.concat([both, both], axis=-1)
        if is_whole and bool(xp.any(xp.all(missing, axis=tuple(range(missing.ndim - 1))))):
            raise ValueError(
                "every channel needs at least one sample that is present; got a channel that is "
                "all NaN or masked."
            )
        y, present = xp.where(missing, xp.zeros_like(y), y), ~missing
    ends = ChannelStats.of(y, present)
    if not ends.largest < far:
        refuse_far("values", y)
    return y, present, is_complex, ends


WHOLE = ("int64", "uint64")
"""Dtypes with whole numbers that float64 does not hold."""

EXACT_WHOLE = 2.0**53
"""Above this float64 does not hold all whole numbers."""


def warn_of_rounding(top: float) -> None:
    """Say that whole numbers up to `top` lose digits when they become floating."""
    if top > EXACT_WHOLE:
        warnings.warn(
            f"whole numbers up to {top:.4g} are more than float64 holds exactly. samples() gives "
            "them back as they are; values of the function differ from them by up to "
            f"{1e-13 * top:.2g} (at orders above 2, {1e-9 * top:.2g}). Take an offset off them "
            "first to keep all digits.",
            stacklevel=4,
        )


def refuse_far(name: str, y: Array) -> None:
    """Raise if a number is so large that sums of a few overflow."""
    host = np.asarray(to_numpy(y))
    far = float(np.finfo(host.dtype).max) / 4
    large = np.abs(host) >= far
    if not large.any():
        return
    first = host[large][0]
    kind = host.dtype.name
    raise ValueError(
        f"`{name}` must lie within ±{far:.3g} to be computed with in {kind}; got {first:.6g}, and "
        f"{int(large.sum())} such of {host.size} samples. Files often mark samples without data by "
        "such numbers: pass `mask`, or replace them with NaN."
        + ("" if kind == "float64" else " Else convert the array to float64.")
    )


# --- what a fit works on --------------------------------------------------------------------------

EXACT = {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)}
EXACT |= {"float16": "float16", "bool": "uint8"}
"""Dtypes that are kept as they are, though fits compute with wider ones."""

MIN_WHOLE_RANGE = 100
"""Whole numbers that range over fewer are filled in with fractions."""


def fills_whole(dtype: str, data_range: float) -> bool:
    """Whether samples that are filled in become whole numbers too, so that a file holds these.

    They do where that moves them by 0.5 % of the range at most.
    """
    return dtype in EXACT and np.dtype(dtype).kind in "iu" and data_range >= MIN_WHOLE_RANGE


def whole_of(values: Array, dtype: str) -> Array:
    """The nearest whole numbers of a dtype, still floating."""
    xp = namespace(values)
    return xp.clip(xp.round(values), *backend.integer_limits(np.iinfo(dtype)))


@dataclass(frozen=True, eq=False, kw_only=True)
class Samples:
    """Samples ready to be fitted, and what the caller gave.

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
    is_original : bool
        Whether `raw` is what the caller gave; not so once it was filled in or denoised.
    is_exact : bool
        Whether the caller's dtype holds `raw` exactly.
    shares_memory : bool
        Whether `raw` is the caller's own memory, which may change later.
    integers : array, shape (..., C), or None
        The caller's whole numbers, where `raw` rounds them.
    """

    raw: Array = field(repr=False)
    present: Array | None = field(default=None, repr=False)
    offset: Array
    scale: Array
    data_range: float
    is_complex: bool = False
    dtype: str = "float64"
    is_original: bool = True
    is_exact: bool = True
    shares_memory: bool = False
    integers: Array | None = field(default=None, repr=False)

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

    @property
    def values(self) -> Array:
        """All samples about 0 and of order 1; computed at each call."""
        return self.standardise(self.raw)

    def standardise(self, Y: Array) -> Array:
        """Return a part of `raw`, (..., C), about 0 and of order 1."""
        Y = Y - self.offset
        Y /= self.scale  # in place: a batch is passed over often enough
        return Y

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
        integers = None
        if is_exact and self.integers is not None:
            integers = xp.where(where, backend.as_dtype(raw, self.dtype), self.integers)
        return replace(
            self,
            raw=raw,
            is_original=False,
            is_exact=is_exact,
            shares_memory=False,
            integers=integers,
        )

    # As a View: what settings look at.

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all samples, channels last."""
        return tuple(self.raw.shape)

    @property
    def eps(self) -> float:
        """Relative rounding of their dtype."""
        return float(namespace(self.raw).finfo(self.raw.dtype).eps)

    def on(self, grid: Grid) -> Array:
        """The samples on a grid of positions, all channels."""
        y, n = self.raw, self.shape
        some = [k for k, at in enumerate(grid) if len(at) != n[k] or (at != np.arange(n[k])).any()]
        some.sort(key=lambda k: len(grid[k]) / n[k])  # what leaves least first
        for k, index in zip(some, move_all([grid[k] for k in some], y) if some else ()):
            y = take(y, index, axis=k)
        return self.standardise(y)

    def every(self, step: int) -> Array:
        """Every `step`-th sample of the flattened array, (n, C)."""
        return self.standardise(
            namespace(self.raw).reshape(self.raw, (-1, self.shape[-1]))[::step, :]
        )

    # What a file keeps.

    @cached_property
    def kind(self) -> str:
        """The dtype that holds `raw` exactly: the caller's where that is one of a file's."""
        if self.is_exact and self.dtype in EXACT:
            return EXACT[self.dtype]
        return str(self.raw.dtype).rsplit(".", 1)[-1]

    @cached_property
    def stored(self) -> Array:
        """The samples in memory of their own and, with NumPy, in the dtype `kind`."""
        if self.integers is not None:
            return backend.copy_array(self.integers)
        if is_numpy(self.raw):
            return self.raw.astype(self.kind, order="K", copy=self.shares_memory)
        return backend.copy_array(self.raw) if self.shares_memory else self.raw


def read(
    values: Array,
    mask: Array | None = None,
    *,
    shape: Sequence[int],
    channel_axis: int | None,
    centred: bool,
) -> Samples:
    """The samples of an array of the given shape; `centred` takes each channel's mean off."""
    raw, present, is_complex, ends = prepare(values, tuple(shape), channel_axis, mask)
    units = standard_of(ends, str(raw.dtype).rsplit(".", 1)[-1], centred)
    offset, scale = move_all(units, raw)
    dtype, integers = dtype_name(values), None
    if dtype in WHOLE and ends.largest > EXACT_WHOLE:
        integers = channels_last(values, channel_axis)
    return Samples(
        raw=raw,
        present=present,
        offset=offset,
        scale=scale,
        data_range=ends.data_range,
        is_complex=is_complex,
        dtype=dtype,
        shares_memory=not is_numpy(raw) or np.may_share_memory(raw, values),
        integers=integers,
    )


def dtype_name(values: Array) -> str:
    """The dtype of an array, whichever library's, without its byte order."""
    return str(getattr(values.dtype, "name", values.dtype)).rsplit(".", 1)[-1]


def channels_last(values: Array, channel_axis: int | None) -> Array:
    """An array (..., C), in the byte order of the machine."""
    xp = namespace(values)
    if is_numpy(values):
        values = values.astype(values.dtype.newbyteorder("="), copy=False)
    return values[..., None] if channel_axis is None else xp.moveaxis(values, channel_axis, -1)
