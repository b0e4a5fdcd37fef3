"""Our codec for any Zarr array: chunks coded without loss, or to within an error.

``zarr.create_array(..., serializer=Codec(max_error=0.01))``, and with xarray
``ds.to_zarr(path, encoding={"t2m": {"serializer": Codec(max_error=0.01)}})``; for Zarr 2 and
kerchunk ``compressor=NumcodecsCodec(max_error=0.01)``. Zarr and numcodecs find the codec by its
entry points: arrays are read wherever the package is installed, without importing it.
"""

import asyncio
import json
import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numcodecs.abc
import numpy as np
from numcodecs.compat import ensure_bytes, ensure_contiguous_ndarray, ndarray_copy

from elmfield._array.checks import USUAL_EFFORT, at_most_one, check_effort, is_integer, positive
from elmfield._array.typing import Array
from elmfield.codec import unpack
from elmfield.errors import MissingExtraError, StoreError
from elmfield.field.coefficients.tiles import pack_tiles, packed, without_channels
from elmfield.field.step_search import read_off, search_step
from elmfield.samples import channels_last

try:
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.registry import register_codec
except ImportError as error:
    raise MissingExtraError("Zarr arrays need zarr; pip install 'elmfield[xarray]'.") from error

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

__all__ = ["Codec", "NumcodecsCodec"]

NAME = "elmfield"
"""What the codec is called in a zarr.json."""


@dataclass(frozen=True)
class Chunks:
    """Chunks as bytes and back; see :class:`Codec`, which has the same parameters."""

    max_error: float | None = None
    psnr: float | None = None
    channel_axis: int | None = None
    effort: int = USUAL_EFFORT

    def __post_init__(self) -> None:
        asked = at_most_one(max_error=self.max_error, psnr=self.psnr)
        if asked is not None:
            positive(*asked)
        check_effort(self.effort)
        if self.channel_axis is not None and not is_integer(self.channel_axis):
            raise ValueError(f"`channel_axis` must be a whole number; got {self.channel_axis!r}.")

    @property
    def configuration(self) -> dict[str, Any]:
        """The options that are not the usual ones."""
        said = {f.name: (getattr(self, f.name), f.default) for f in fields(self)}
        return {name: value for name, (value, usual) in said.items() if value != usual}

    def check_axis(self, ndim: int) -> None:
        """Raise unless arrays of `ndim` axes have the axis of channels."""
        if self.channel_axis is not None and not -ndim <= self.channel_axis < ndim:
            raise ValueError(
                f"`channel_axis` must be an axis of the array's {ndim}; got {self.channel_axis}."
            )

    def encoded(self, values: Array) -> bytes:
        """A chunk as bytes."""
        last = channels_last(values, self.channel_axis)
        last = last if last.ndim > 1 else last[None]
        is_complex = values.dtype.kind == "c"
        if is_complex:
            last = np.ascontiguousarray(last).view(last.real.dtype)
        if self.max_error is not None:
            # A little less than √½: rounding cannot make the modulus larger than promised.
            bound = self.max_error * (0.7071 if is_complex else 1)
            return pack_tiles([last], max_error=bound, effort=self.effort)[0][0]
        if self.psnr is not None and values.dtype.kind != "b":
            return _at_psnr(last, self.psnr, 1 + is_complex, self.effort)
        return packed(last)

    def decoded(self, data: bytes, shape: tuple[int, ...], dtype: Any, fill: Any) -> Array:
        """A chunk from bytes; a tile at the array's end may be smaller, unless `fill` is None."""
        values, native = unpack(data), dtype.newbyteorder("=")
        is_pairs = values.dtype.kind == "f" and 2 * values.itemsize == native.itemsize
        if native.kind == "c" and is_pairs and values.size % 2 == 0:
            values = values.reshape(-1).view(native)
        if values.dtype != native:
            raise StoreError(f"a coded chunk holds {values.dtype}; {native} was expected.")
        last = self.channel_axis
        moved = shape if last is None else (*np.delete(shape, last).tolist(), shape[last])
        fits = values.ndim == len(moved) and all(a <= b for a, b in zip(values.shape, moved))
        if values.size == math.prod(shape):
            whole = values.reshape(moved)
        elif fits and fill is not None:
            whole = np.full(moved, fill, native)
            whole[tuple(map(slice, values.shape))] = values
        else:
            raise StoreError(f"a coded chunk has shape {values.shape}; {moved} was expected.")
        whole = whole if last is None else np.moveaxis(whole, -1, last)
        return np.asarray(whole, dtype, order="C")


@dataclass(frozen=True)
class Codec(Chunks, ArrayBytesCodec):
    """Chunks of an array as coded tiles (docs/codec.md): a serializer for Zarr 3.

    Parameters
    ----------
    max_error : float, optional
        No sample of a chunk is further off than this; of complex numbers, the modulus of the error
        is at most this. Or
    psnr : float, optional
        as few bytes as this PSNR needs in every chunk, in dB of the chunk's own range, which
        includes the fill value where a chunk reaches beyond the array. Without either, nothing is
        lost.
    channel_axis : int, optional
        An axis of channels (colours, bands), which are alike but not neighbours.
    effort : int
        Of coding with loss: from 1, fast, to 9, small.

    Notes
    -----
    Takes bools, integers, floats and complex numbers, these as two channels: real and imaginary
    parts, which are kept to within ``max_error / √2`` each. NaN comes back as NaN. Bools, and
    chunks with infinities or integers beyond 2^53, are kept without loss whatever is asked. Chunks
    of about a megabyte are best; inside shards they may be smaller.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> from elmfield.io.zarr import Codec
    >>> values = np.sin(np.arange(10_000.0) / 50).reshape(100, 100)
    >>> array = zarr.create_array({}, data=values, serializer=Codec(max_error=1e-3),
    ...                           compressors=None)
    >>> bool(abs(array[:] - values).max() <= 1e-3)
    True
    """

    is_fixed_size = False

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Codec":
        """The codec that a zarr.json describes."""
        said = dict(data.get("configuration", {}))
        known = {f.name for f in fields(cls)}
        if data.get("name") != NAME or set(said) - known:
            raise ValueError(
                f"the codec {NAME!r} knows {', '.join(sorted(known))}; got {data!r}. It was "
                "perhaps written by a newer elmfield."
            )
        return cls(**said)

    def to_dict(self) -> dict[str, Any]:
        """The codec for a zarr.json."""
        return {"name": NAME, "configuration": self.configuration}

    def evolve_from_array_spec(self, array_spec: "ArraySpec") -> "Codec":
        """Return the codec itself; raise where such arrays cannot be coded.

        Not in `validate`, which Zarr does not call for codecs inside shards.
        """
        dtype = array_spec.dtype.to_native_dtype()
        if not _is_numeric(dtype):
            raise TypeError(
                f"the codec {NAME!r} takes bools, integers, floats and complex numbers; got "
                f"{dtype}. Store dates as numbers."
            )
        self.check_axis(len(array_spec.shape))
        return self

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: "ArraySpec") -> int:
        """Unknown before it is done."""
        raise NotImplementedError

    async def _encode_single(self, chunk_array: "NDBuffer", chunk_spec: "ArraySpec") -> "Buffer":
        values = np.asarray(chunk_array.as_numpy_array())
        data = await asyncio.to_thread(self.encoded, values)
        return chunk_spec.prototype.buffer.from_bytes(data)

    async def _decode_single(self, chunk_bytes: "Buffer", chunk_spec: "ArraySpec") -> "NDBuffer":
        dtype = np.dtype(chunk_spec.dtype.to_native_dtype())
        values = await asyncio.to_thread(
            self.decoded, chunk_bytes.to_bytes(), chunk_spec.shape, dtype, chunk_spec.fill_value
        )
        return chunk_spec.prototype.nd_buffer.from_numpy_array(values)


class NumcodecsCodec(numcodecs.abc.Codec, Chunks):
    """The codec for numcodecs: a compressor for Zarr 2, and for what kerchunk refers to.

    Parameters
    ----------
    max_error, psnr, channel_axis, effort
        As `Codec` has them.

    Notes
    -----
    A buffer that is no array, dates, strings and records are kept without loss. The encoded bytes
    are a line of JSON with dtype, axis of channels and shape, in the order of memory, then a tile.

    Examples
    --------
    >>> import numpy as np
    >>> from elmfield.io.zarr import NumcodecsCodec
    >>> values = np.sin(np.arange(1000.0) / 50)
    >>> codec = NumcodecsCodec(max_error=1e-3)
    >>> bool(abs(codec.decode(codec.encode(values)) - values).max() <= 1e-3)
    True
    """

    codec_id = NAME

    def get_config(self) -> dict[str, Any]:
        """The codec for a .zarray."""
        return {"id": NAME, **self.configuration}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "NumcodecsCodec":
        """The codec that a .zarray describes."""
        Codec.from_dict({"name": NAME, "configuration": config})  # says what is wrong
        return cls(**config)

    def __repr__(self) -> str:
        said = (f"{k}={v!r}" for k, v in self.configuration.items())
        return f"{type(self).__name__}({', '.join(said)})"

    def encode(self, buf: Any) -> bytes:
        """A contiguous array or buffer as bytes."""
        values = ensure_contiguous_ndarray(buf, flatten=False)  # dates are integers in it
        codec: Chunks = self if _is_numeric(getattr(buf, "dtype", None)) else Chunks()
        if not _is_numeric(values.dtype):
            values = values.reshape(-1, order="A").view(np.uint8)
        codec.check_axis(values.ndim)
        if not values.flags.c_contiguous:
            axis = codec.channel_axis
            values, codec = values.T, replace(codec, channel_axis=None if axis is None else ~axis)
        head = [values.dtype.str, codec.channel_axis, values.shape]
        return json.dumps(head).encode() + b"\n" + codec.encoded(values)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """The values in the order of memory, on one axis; into a buffer if one is given."""
        head, _, data = ensure_bytes(buf).partition(b"\n")
        try:
            dtype, axis, shape = json.loads(head)
            codec = Chunks(channel_axis=axis)
            codec.check_axis(len(shape))
            values = codec.decoded(data, tuple(shape), np.dtype(dtype), None)
        except (TypeError, ValueError) as error:
            raise StoreError(f"a coded chunk cannot be read: {error}") from error
        return ndarray_copy(
            values.reshape(-1), out if out is None else ensure_contiguous_ndarray(out)
        )


def _is_numeric(dtype: Any) -> bool:
    """Whether the codec takes a dtype."""
    kind = getattr(dtype, "kind", "O")
    return kind in "biufc" and dtype.itemsize <= (16 if kind == "c" else 8)


def _at_psnr(values: Array, psnr: float, parts: int, effort: int) -> bytes:
    """A chunk, channels last, in as few bytes as a PSNR needs; a sample has one part or two."""
    have = ~np.isnan(values)
    if parts == 2:  # a sample with one part missing does not count
        have = have.reshape(-1, 2).all(axis=1).repeat(2).reshape(values.shape)
    truth = values[have].astype(np.float64)
    span = float(truth.max()) - float(truth.min()) if truth.size else 0.0
    allowed = span * span * 10 ** (-psnr / 10) / parts
    if not 1e-306 < allowed < math.inf:  # nothing to lose, or squares that float64 has not
        return packed(values)

    def at(step: float) -> tuple[bytes, float]:
        ((data, found),) = pack_tiles([values], step=step, effort=effort)
        return data, float(np.mean((found[have] - truth) ** 2)) / allowed

    plain, axis = without_channels(values)
    least = 1.0 if values.dtype.kind in "iu" else float(np.finfo(values.dtype).eps) * span / 4
    _, start, power = read_off([plain], axis, effort, "error", allowed, math.sqrt(12 * allowed))
    return search_step(at, start, power, least) or packed(values)


register_codec(NAME, Codec)
numcodecs.register_codec(NumcodecsCodec)
