"""Errors of a reconstruction: arrays in, numbers out."""

import math

from elmfield.backend import is_array, namespace, to_numpy
from elmfield.typing import Array


def _pair(truth: Array, estimate: Array) -> tuple[Array, Array]:
    """Both in float64 and of one shape."""
    import numpy as np

    a, b = (np.asarray(to_numpy(x) if is_array(x) else x) for x in (truth, estimate))
    if a.shape != b.shape:
        raise ValueError(
            f"`truth` and `estimate` must have the same shape; got {a.shape} and {b.shape}."
        )
    if a.size == 0:
        raise ValueError("`truth` must hold at least one sample; got an empty array.")
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    return a.astype(wide), b.astype(wide)


def psnr(truth: Array, estimate: Array, *, data_range: float | None = None) -> float:
    """Peak signal-to-noise ratio in dB: ``10 log10(range² / MSE)``; infinite where all is equal.

    `data_range` is the peak-to-peak range of the truth unless given (255 for 8-bit pictures).
    """
    a, b = _pair(truth, estimate)
    mse = float(namespace(a).mean(abs(a - b) ** 2))
    if data_range is None:
        data_range = float(a.real.max() - a.real.min()) or 1.0
    if not data_range > 0:
        raise ValueError(f"`data_range` must be positive; got {data_range!r}.")
    return math.inf if mse == 0 else 10 * math.log10(data_range**2 / mse)


def paper_psnr(truth: Array, estimate: Array, *, channel_axis: int | None = None) -> float:
    """The paper's PSNR: both divided by max(truth), ``-10 log10(MSE + 1e-8)``; never above 80 dB.

    With `channel_axis`, per channel and then averaged, as the paper does for satellite bands.
    """
    a, b = _pair(truth, estimate)
    xp = namespace(a)
    if channel_axis is None:
        a, b = a.reshape(1, -1), b.reshape(1, -1)
    else:
        a, b = (xp.moveaxis(x, channel_axis, 0) for x in (a, b))
        a, b = a.reshape(a.shape[0], -1), b.reshape(b.shape[0], -1)
    scores = []
    for t, e in zip(a, b):
        peak = float(t.max())
        if peak <= 0:
            raise ValueError(
                f"the paper's PSNR divides by max(truth), which must be positive; got {peak:g}. "
                "Use `psnr` for such data."
            )
        scores.append(-10 * math.log10(float(xp.mean((t / peak - e / peak) ** 2)) + 1e-8))
    return sum(scores) / len(scores)


def mae(truth: Array, estimate: Array) -> float:
    """Mean absolute error."""
    a, b = _pair(truth, estimate)
    return float(abs(a - b).mean())


def max_error(truth: Array, estimate: Array) -> float:
    """Largest absolute error."""
    a, b = _pair(truth, estimate)
    return float(abs(a - b).max())
