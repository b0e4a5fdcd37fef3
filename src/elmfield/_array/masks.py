"""Masks of missing samples, as callers give them: of the shape of all, or of one channel."""

import numpy as np

from elmfield._array.backend import is_array, move, namespace, to_numpy
from elmfield._array.typing import Array


def either(own: Array, mask: Array | None, channel_axis: int | None) -> Array:
    """What one mask or the other marks; a mask that does not fit is returned for `prepare`."""
    if mask is None:
        return own
    mask = np.asarray(to_numpy(mask))
    if channel_axis is not None and mask.ndim == own.ndim - 1:
        mask = np.expand_dims(mask, channel_axis)
    fits = mask.dtype == bool and all(m in (1, n) for m, n in zip(mask.shape, own.shape))
    return own | mask if fits and mask.ndim == own.ndim else mask


def like_values(mask: Array, y: Array, shape: tuple[int, ...], channel_axis: int | None) -> Array:
    """The caller's mask as booleans of y's shape."""
    xp = namespace(y)
    mask = move(mask if is_array(mask) else np.asarray(mask), y)
    if mask.dtype != xp.bool:
        raise TypeError(
            f"`mask` must be boolean, True where a sample is missing; got dtype {mask.dtype}."
        )
    if channel_axis is not None and tuple(mask.shape) == shape:
        mask = xp.moveaxis(mask, channel_axis, -1)
        if mask.shape[-1] < y.shape[-1]:  # complex: real and imaginary parts
            mask = xp.concat([mask, mask], axis=-1)
    elif tuple(mask.shape) == tuple(y.shape[:-1]):
        mask = mask[..., None]
    else:
        without = "" if channel_axis is None else f", or without channels, {tuple(y.shape[:-1])}"
        raise ValueError(
            f"`mask` must have the shape of `values`, {shape}{without}; got {tuple(mask.shape)}."
        )
    return xp.broadcast_to(mask, y.shape)
