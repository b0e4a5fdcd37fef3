"""The honest score: fit every second sample, look at the others."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from elmfield._array.backend import move, namespace, to_device, to_numpy
from elmfield._array.typing import Array, Progress
from elmfield.domain import names_of, periods_of
from elmfield.domain.periods import Periodic
from elmfield.fit import encoder
from elmfield.measure.metrics import peak_to_peak, psnr
from elmfield.samples import with_nan
from elmfield.settings import Settings

Fits = Callable[..., Any]
"""Any way to fit: an array and its `channel_axis` in, something with `grid` out."""

WHOLE = ("coords", "mask", "partition")
"""What belongs to the whole array, and so to no half of it."""


def heldout_score(
    values: Array,
    settings: Settings | Fits | None = None,
    *,
    channel_axis: int | None = None,
    border: int = 0,
    data_range: float | None = None,
    dims: Sequence[str] | None = None,
    periodic: Periodic = (),
    device: object = None,
    progress: Progress | bool = False,
    **others: Any,
) -> float:
    """PSNR in dB at the samples left out when only every second one per axis is fitted.

    Parameters
    ----------
    values : array
        The samples.
    settings : optional
        As for `fit`; or any way to fit, a function of an array and its `channel_axis` whose result
        has `grid`, such as ``functools.partial(baselines.fit, method=baselines.siren())``.
    channel_axis : int, optional
        As for `fit`.
    border : int
        Samples at the edges of the array that are not scored.
    data_range : float, optional
        As for `psnr`; by default of all of `values`.
    dims, periodic, device, progress : optional
        As for `fit`; periods count in samples.

    Notes
    -----
    Works in samples: `coords`, a `mask` and a `partition` belong to the whole array and are
    refused. Missing samples, NaN or masked by `numpy.ma`, are neither fitted nor scored.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> picture = np.sin(np.arange(64)[:, None] / 5) * np.cos(np.arange(64) / 7)
    >>> ef.heldout_score(picture, ef.smooth(order=3)) > 60
    True
    """
    for name in others:
        what = (
            "is for the whole array; held-out scores take none" if name in WHOLE else "is unknown"
        )
        raise TypeError(f"`{name}` {what}.")
    kept, predicted, held = halves(
        values,
        settings,
        channel_axis=channel_axis,
        border=border,
        dims=dims,
        periodic=periodic,
        device=device,
        progress=progress,
    )
    truth = to_numpy(kept)
    if not held.any():
        raise ValueError(
            f"no sample is left to score; got shape {truth.shape[:-1]} and border={border}. Use a "
            "larger array or a smaller border."
        )
    if data_range is None:
        data_range = peak_to_peak(truth)
    return psnr(truth[held], to_numpy(predicted)[held], data_range=data_range)


def halves(
    values: Array,
    settings: Settings | Fits | None = None,
    *,
    channel_axis: int | None = None,
    border: int = 0,
    dims: Sequence[str] | None = None,
    periodic: Periodic = (),
    device: object = None,
    progress: Progress | bool = False,
) -> tuple[Array, Array, Any]:
    """Samples with channels last, what a fit of every second one predicts, and what to score."""
    values = with_nan(values)
    xp = namespace(values)
    values = values[..., None] if channel_axis is None else xp.moveaxis(values, channel_axis, -1)
    shape = tuple(values.shape[:-1])
    periods = periods_of(periodic, names_of(dims, len(shape)))
    # One sample of the half is two of the whole.
    halved = {k: (shape[k] if p is None else p) / 2 for k, p in periods.items()}
    every = tuple(slice(None, None, 2) for _ in shape)
    half = values[(*every, ...)]
    half = half if device is None else to_device(half, device)
    if settings is None or isinstance(settings, Settings):
        encode = encoder(half.shape, settings, channel_axis=-1, dims=dims, periodic=halved)
        field = encode(half, progress=progress)
    else:
        field = _by_another(settings, half, dims, periods)
    grid = [np.arange(n) / 2 for n in shape]
    predicted = field.grid(*(move(g, values) for g in grid))
    held = np.ones(shape, bool)
    held[every] = False
    inner = np.zeros(shape, bool)
    inner[tuple(slice(border, n - border) for n in shape)] = True
    return values, predicted, held & inner & ~np.isnan(to_numpy(values)).any(axis=-1)


def _by_another(fit: Any, half: Array, dims: Any, periods: Any) -> Any:
    """What another way to fit makes of every second sample; it knows no names and no periods."""
    if not callable(fit):
        raise TypeError(
            "`settings` must come from smooth(...), oriented(...) or paper(...), or be a way to "
            f"fit, a function of an array; got {fit!r}."
        )
    if dims is not None or periods:
        raise TypeError("`dims` and `periodic` are for fields; leave them out with your own fit.")
    return fit(half, channel_axis=-1)
