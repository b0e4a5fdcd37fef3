"""Our codec for any Zarr array: chunks coded without loss, or to within an error.

``zarr.create_array(..., serializer=Codec(max_error=0.01))``, and with xarray
``ds.to_zarr(path, encoding={"t2m": {"serializer": Codec(max_error=0.01)}})``. Zarr finds the codec
by its entry point: whoever has the package reads such arrays without a word about it.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.checks import at_most_one, positive
from elmfield._array.typing import Array
from elmfield.codec import trial, unpack
from elmfield.errors import MissingExtraError, StoreError
from elmfield.field.steps import guessed, nearest
from elmfield.field.tiling import packed, without_channels

try:
    from zarr.abc.codec import ArrayBytesCodec
    from zarr.registry import register_codec
except ImportError as error:
    raise MissingExtraError("Zarr arrays need zarr; pip install 'elmfield[xarray]'.") from error

if TYPE_CHECKING:
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer

__all__ = ["Codec"]

NAME = "elmfield"
"""What the codec is called in a zarr.json."""


@dataclass(frozen=True)
class Codec(ArrayBytesCodec):
    """Chunks of an array as coded tiles (docs/codec.md): a serializer for Zarr 3.

    Parameters
    ----------
    max_error : float, optional
        No sample of a chunk is further off than this; or
    psnr : float, optional
        as few bytes as this PSNR needs in every chunk, in dB of the chunk's own range. Without
        either, nothing is lost.
    channel_axis : int, optional
        An axis of channels (colours, bands), which are alike but not neighbours.

    Notes
    -----
    NaN comes back as NaN. Chunks of about a megabyte are best; inside shards they may be smaller.

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

    max_error: float | None = None
    psnr: float | None = None
    channel_axis: int | None = None

    is_fixed_size = False

    def __post_init__(self) -> None:
        asked = at_most_one(max_error=self.max_error, psnr=self.psnr)
        if asked is not None:
            positive(*asked)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Codec":
        """The codec that a zarr.json describes."""
        said = dict(data.get("configuration", {}))
        known = {"max_error", "psnr", "channel_axis"}
        if data.get("name") != NAME or set(said) - known:
            raise ValueError(
                f"the codec {NAME!r} knows {', '.join(sorted(known))}; got {data!r}. It was "
                "perhaps written by a newer elmfield."
            )
        return cls(**said)

    def to_dict(self) -> dict[str, Any]:
        """The codec for a zarr.json."""
        said = {
            "max_error": self.max_error,
            "psnr": self.psnr,
            "channel_axis": self.channel_axis,
        }
        return {"name": NAME, "configuration": {k: v for k, v in said.items() if v is not None}}

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Raise where arrays of this kind cannot be coded."""
        native = dtype.to_native_dtype()
        if native.kind not in "iuf" or native.itemsize > 8:
            raise TypeError(
                f"the codec {NAME!r} takes real numbers, whole or floating; got {native}. Store "
                "real and imaginary parts, or dates as numbers, in arrays of their own."
            )
        if self.channel_axis is not None and not -len(shape) <= self.channel_axis < len(shape):
            raise ValueError(f"`channel_axis` must be an axis of {shape}; got {self.channel_axis}.")

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

    def encoded(self, values: Array) -> bytes:
        """A chunk as bytes."""
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
        last = self._channels_last(values)
        if self.max_error is not None:
            return packed(last, max_error=self.max_error)
        if self.psnr is not None:
            return _at_psnr(last, self.psnr)
        return packed(last)

    def _channels_last(self, values: Array) -> Array:
        """The chunk with an axis of channels at its end."""
        if self.channel_axis is None:
            return values[..., None] if values.ndim else values.reshape(1, 1)
        return np.moveaxis(values, self.channel_axis, -1)

    def decoded(self, data: bytes, shape: tuple[int, ...], dtype: Any, fill: Any) -> Array:
        """A chunk from bytes; a tile at the array's end may be smaller than the chunk."""
        values = unpack(data)
        if values.dtype != dtype:
            raise StoreError(f"a coded chunk holds {values.dtype}; {dtype} was expected.")
        last = self.channel_axis
        moved = shape if last is None else (*np.delete(shape, last).tolist(), shape[last])
        if values.size == math.prod(shape):
            values = values.reshape(moved)
        elif values.ndim == len(moved) and all(a <= b for a, b in zip(values.shape, moved)):
            whole = np.full(moved, fill, dtype)
            whole[tuple(map(slice, values.shape))] = values
            values = whole
        else:
            raise StoreError(f"a coded chunk has shape {values.shape}; {moved} was expected.")
        return np.ascontiguousarray(values if last is None else np.moveaxis(values, -1, last))


def _at_psnr(values: Array, psnr: float) -> bytes:
    """A chunk, channels last, in as few bytes as a PSNR needs."""
    have = np.isfinite(values)
    truth = values[have].astype(np.float64)
    span = float(np.ptp(truth)) if truth.size else 0.0
    if span == 0:
        return packed(values)
    allowed = span**2 * 10 ** (-psnr / 10)

    def at(step: float) -> tuple[bytes, float]:
        data = packed(values, step=step)
        got = unpack(data).reshape(values.shape)[have]
        return data, float(np.mean((got - truth) ** 2)) / allowed

    def guess(step: float) -> float:
        return float(trial(plain, step, axis)[0] / (truth.size * allowed))

    plain, axis = without_channels(values)
    least = 1.0 if values.dtype.kind in "iu" else float(np.finfo(values.dtype).eps) * span / 4
    start, power = guessed(guess, math.sqrt(12 * allowed), 2.0)
    return nearest(at, start, power, least) or packed(values)


register_codec(NAME, Codec)
