"""What a caller gives: an array, checked; where it lives and where to work; torch itself."""

from typing import Any

import numpy as np

from elmfield._array.backend import is_array, to_device, to_numpy
from elmfield._array.checks import axis_of
from elmfield._array.typing import Array


def torch_itself() -> Any:
    """The torch module, or a word on how to get it."""
    try:
        import torch
    except ImportError as missing:
        raise ImportError(
            "`paper.research.baselines` needs PyTorch, which cannot be imported here. Install "
            "it with the extra `torch`: pip install 'elmfield[torch]'."
        ) from missing
    return torch


def places(array: Array, device: str | None) -> tuple[Array, Any]:
    """An empty array where results go, and the torch device to work on."""
    torch = torch_itself()
    is_tensor = isinstance(array, torch.Tensor)
    home = array.new_empty(0) if is_tensor else np.empty(0)
    if device is None:
        return home, array.device if is_tensor else torch.device("cpu")
    return home, to_device(torch.empty(1), device).device


def samples(
    array: Array, channel_axis: int | None, name: str = "array"
) -> tuple[Array, tuple[int, ...]]:
    """Samples (S, C) in float64 and the array's shape without channels.

    `name` is what the caller calls the array.
    """
    if np.ma.is_masked(array):
        raise ValueError(
            f"`{name}` must have no masked samples; got some. Fill them first, for example with "
            "elmfield.fit(...).samples()."
        )
    values = np.asarray(to_numpy(array) if is_array(array) else array)
    if values.dtype.kind not in "fiub":
        raise ValueError(
            f"`{name}` must hold real numbers; got dtype {values.dtype}. Give real and imaginary "
            "parts as channels."
        )
    if channel_axis is not None:
        axis = axis_of("channel_axis", channel_axis, values.shape)
        values = np.moveaxis(values, axis, -1)
    else:
        values = values[..., None]
    if values.ndim < 2 or values.size == 0:
        raise ValueError(
            f"`{name}` must have at least one axis besides channels and one sample; got shape "
            f"{np.shape(array)}."
        )
    shape = values.shape[:-1]
    values = values.reshape(-1, values.shape[-1]).astype(np.float64)
    n_bad = int(np.sum(~np.isfinite(values)))
    if n_bad:
        raise ValueError(
            f"`{name}` must hold finite numbers; got {n_bad} that are NaN or infinite. Fill them "
            "first, for example with elmfield.fit(...).samples()."
        )
    return values, shape
