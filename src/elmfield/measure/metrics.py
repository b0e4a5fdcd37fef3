"""Errors of a reconstruction: arrays in, numbers out.

An error is the modulus of a difference, so a complex sample counts once. The range of complex
samples is that of their real and imaginary parts together. Samples that are masked (`numpy.ma`) in
either array, or NaN in the truth, are missing: they do not count. NaN in an estimate is an error.
"""

import math

import numpy as np

from elmfield._array.backend import is_array, to_numpy
from elmfield._array.checks import array, axis_of, positive
from elmfield._array.typing import Array, Bools


def _pair(truth: Array, estimate: Array) -> tuple[np.ndarray, np.ndarray, Bools]:
    """Both in float64 and of one shape; which samples count."""
    pair = (("truth", truth), ("estimate", estimate))
    a, b = (array(name, to_numpy(x) if is_array(x) else x) for name, x in pair)
    if not {a.dtype.kind, b.dtype.kind} <= set("biufc"):
        told = "`truth` and `estimate` must hold numbers"
        raise TypeError(f"{told}; got dtypes {a.dtype} and {b.dtype}.")
    if a.shape != b.shape:
        told = "`truth` and `estimate` must have the same shape"
        raise ValueError(f"{told}; got {a.shape} and {b.shape}.")
    if a.size == 0:
        raise ValueError("`truth` must hold at least one sample; got an empty array.")
    if np.isinf(a).any():
        raise ValueError("`truth` must be finite; got infinities.")
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    a, b = a.astype(wide), b.astype(wide)
    have = ~(np.isnan(a) | np.ma.getmask(truth) | np.ma.getmask(estimate))
    if not have.any():
        raise ValueError("`truth` must hold at least one sample; all are NaN or masked.")
    return a, b, have


def _counted(truth: Array, estimate: Array) -> tuple[np.ndarray, np.ndarray]:
    """The samples of both that count."""
    a, b, have = _pair(truth, estimate)
    return a[have], b[have]


def peak_to_peak(values: np.ndarray) -> float:
    """Largest less least of a NumPy array, real and imaginary parts together; 1 if that is 0.

    NaN does not count. Integers do not wrap around.
    """
    values = values.astype(np.float64) if values.dtype.kind in "biu" else values
    values = values[~np.isnan(values)]
    parts = (values.real, values.imag) if values.dtype.kind == "c" else (values,)
    return float(max(p.max() for p in parts) - min(p.min() for p in parts)) or 1.0


def psnr(truth: Array, estimate: Array, *, data_range: float | None = None) -> float:
    """Peak signal-to-noise ratio in dB: ``10 log10(range² / MSE)``; infinite where all is equal.

    `data_range` is the peak-to-peak range of the truth unless given (255 for 8-bit pictures); of
    real and imaginary parts together, for complex samples. MSE is the mean of ``|error|²``.

    Examples
    --------
    >>> import elmfield as ef
    >>> round(ef.psnr([0.0, 1.0], [0.1, 1.0]), 3)
    23.01
    """
    a, b = _counted(truth, estimate)
    data_range = positive("data_range", peak_to_peak(a) if data_range is None else data_range)
    # In powers of two of the range, which cost no digit: its square may have no place.
    unit = 2.0 ** min(max(math.floor(math.log2(data_range)), -1000), 1000)
    with np.errstate(over="ignore"):
        mse = float(np.mean((abs(a - b) / unit) ** 2))
    if mse in (0, math.inf):
        return math.inf if mse == 0 else -math.inf
    return 10 * math.log10((data_range / unit) ** 2 / mse)


def paper_psnr(truth: Array, estimate: Array, *, channel_axis: int | None = None) -> float:
    """The paper's PSNR: both divided by max(truth), ``-10 log10(MSE + 1e-8)``; never above 80 dB.

    With `channel_axis`, per channel and then averaged, as the paper does for satellite bands. For
    real samples only.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.paper_psnr([0.0, 1.0], [0.0, 1.0])
    80.0
    """
    a, b, have = _pair(truth, estimate)
    if a.dtype.kind == "c":
        raise TypeError("the paper's PSNR is for real samples; got complex ones. Use `psnr`.")
    every = (a, b, have)
    k = None if channel_axis is None else axis_of("channel_axis", channel_axis, a.shape)
    scores = []
    for t, e, own in zip(*(x[None] if k is None else np.moveaxis(x, k, 0) for x in every)):
        if not own.any():
            raise ValueError("every channel needs at least one sample; got one with none.")
        t, e = t[own], e[own]
        peak = float(t.max())
        if peak <= 0:
            told = "the paper's PSNR divides by max(truth), which must be positive"
            raise ValueError(f"{told}; got {peak:g}. Use `psnr` for such data.")
        with np.errstate(over="ignore"):
            mse = float(np.mean((t / peak - e / peak) ** 2))
        scores.append(-10 * math.log10(mse + 1e-8))
    return sum(scores) / len(scores)


def mae(truth: Array, estimate: Array) -> float:
    """Mean absolute error.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.mae([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    0.16666666666666666
    """
    a, b = _counted(truth, estimate)
    return float(abs(a - b).mean())


def max_error(truth: Array, estimate: Array) -> float:
    """Largest absolute error.

    Examples
    --------
    >>> import elmfield as ef
    >>> ef.max_error([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    0.5
    """
    a, b = _counted(truth, estimate)
    return float(abs(a - b).max())


Errors = tuple[float, float, int]
"""The sum of squared errors, the largest error, and of how many numbers: both parts of a complex
one count."""


def error_sums(e: Array, there: Array | None) -> Errors:
    """The sum of squares of errors e >= 0, the largest, and how many: those that are `there`."""
    if there is not None:
        e, there = np.where(there, e, 0), np.broadcast_to(there, e.shape)
    with np.errstate(over="ignore"):  # infinite where float64 has no squares
        squares = float(np.square(e).sum())
    count = e.size if there is None else int(np.count_nonzero(there))
    return squares, float(np.max(e, initial=0)), count
