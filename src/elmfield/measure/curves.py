"""Quality against width: the whole curve of the paper's ablation from one projection.

Orthonormal coordinates are nested in the number of neurons, so what a narrower layer leaves over is
known from the coefficients of the widest: ``|y|² - Σ_{j ≤ m} c_j²``, for every m at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmfield._array.backend import is_array, move, namespace, to_numpy
from elmfield._array.typing import Array, Floats, Integers
from elmfield.fit import encoder
from elmfield.local.bases import box_positions, half_widths
from elmfield.partition import gather, sample_index
from elmfield.samples import prepare
from elmfield.settings import Paper


@dataclass(frozen=True)
class Curve:
    """Errors at the samples for layers of several widths.

    Parameters
    ----------
    widths : integer array, shape (n,)
        Neurons per region m.
    mse : array, shape (n,)
        Mean squared error, all channels.
    data_range, peak : float
        Range and maximum of the samples, for the two ratios.
    """

    widths: Integers
    mse: Floats
    data_range: float
    peak: float

    @property
    def psnr(self) -> Floats:
        """``10 log10(range² / MSE)``."""
        with np.errstate(divide="ignore"):
            return np.asarray(10 * np.log10(self.data_range**2 / self.mse))

    @property
    def paper_psnr(self) -> Floats:
        """The paper's: ``-10 log10(MSE / max² + 1e-8)``, at most 80 dB."""
        return np.asarray(-10 * np.log10(self.mse / self.peak**2 + 1e-8))


def psnr_by_width(
    values: Array,
    settings: Paper,
    widths: Sequence[int] | None = None,
    *,
    channel_axis: int | None = None,
) -> Curve:
    """Errors of the paper's fit for every width up to the settings' own, fitted once.

    Parameters
    ----------
    values : array
        Samples, none missing.
    settings : Paper
        From ``paper(...)``, without overlap; its width is the largest on the curve.
    widths : sequence of int, optional
        Which widths to report; by default all.
    channel_axis : int, optional
        As for `fit`.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> picture = np.random.default_rng(0).random((32, 32))
    >>> curve = ef.psnr_by_width(picture, ef.paper(cell=16, width=256), widths=[64, 128])
    >>> bool(curve.psnr[0] < curve.psnr[1])
    True
    """
    if not isinstance(settings, Paper) or np.any(np.asarray(settings.overlap or 0) > 0):
        raise ValueError(f"`settings` must be paper(...) without overlap; got {settings!r}.")
    widest = settings.network.width
    wanted = np.arange(1, widest + 1) if widths is None else np.asarray(widths)
    if wanted.ndim != 1 or wanted.size == 0 or wanted.min() < 1 or wanted.max() > widest:
        raise ValueError(
            f"`widths` must lie between 1 and the settings' width, {widest}; got {widths!r}."
        )
    if not is_array(values):
        values = np.asarray(values)
    encode = encoder(values.shape, settings, channel_axis=channel_axis)
    y, present, is_complex = prepare(values, encode.shape, encode.channel_axis, None)
    if present is not None or is_complex:
        raise ValueError("a curve needs real samples, none missing; got NaN or complex numbers.")
    xp = namespace(y)
    left = np.zeros(widest + 1)  # what the first m neurons leave over, all regions together
    for box, regions in encode.partition:
        radius = move(half_widths(box), y, xp.float64)
        Q, neurons = _independent(settings.network(box_positions(box, y) / radius))
        Y = gather(y, sample_index(encode.partition, regions, box, y))
        Y = xp.reshape(xp.permute_dims(xp.astype(Y, xp.float64), (1, 0, 2)), (Y.shape[1], -1))
        c = xp.matrix_transpose(Q) @ Y
        # Exact at the widest, where |y|² - |c|² would only leave rounding.
        rest = Y - Q @ c
        gain = np.zeros(widest)
        gain[neurons] = to_numpy(xp.sum(c * c, axis=1))
        left += float(xp.sum(rest * rest)) + np.append(np.cumsum(gain[::-1])[::-1], 0.0)
    truth = to_numpy(y)
    return Curve(
        wanted,
        left[wanted] / math.prod(y.shape),
        float(np.ptp(truth)) or 1.0,
        float(truth.max()),
    )


def _independent(H: Array) -> tuple[Array, Integers]:
    """Q of the neurons that add something to those before them, and which they are.

    A neuron whose part beyond its predecessors is below 1e-10 of the largest is left out.
    """
    xp = namespace(H)
    neurons = np.arange(min(H.shape[1], 4 * H.shape[0]))
    while True:
        Q, R = xp.linalg.qr(xp.take(H, move(neurons, H), axis=1))
        size = np.abs(to_numpy(xp.linalg.diagonal(R)))
        k = len(size)  # less than the neurons where there are more of them than samples
        good = size > 1e-10 * size.max()
        if good.all():
            return Q, neurons[:k]
        neurons = np.concatenate([neurons[:k][good], neurons[k:]])
