"""How good a fit is: scores at held-out samples, and quality against the width of a layer."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from elmfield._array.backend import move, namespace, to_device, to_numpy
from elmfield._array.checks import axis_of, choice, entries, is_whole, whole, wrong
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import names_of, periods_of
from elmfield.domain.box import Periodic
from elmfield.fit import encoder
from elmfield.local.bases.dense_weights import OnDense
from elmfield.local.layers import Dense
from elmfield.measure.metrics import paper_psnr, peak_to_peak, psnr
from elmfield.partition import Partition, gather_boxes
from elmfield.samples import prepare, source_of, with_nan
from elmfield.settings import Oriented, Paper, Settings, Smooth

Fits = Callable[..., Any]
"""Any way to fit: an array and its `channel_axis` in, something with `grid` out.

That takes one array of coordinates per axis, and returns values on their grid, channels last.
"""


def heldout_score(
    values: Array,
    settings: Settings | Fits | None = None,
    *,
    channel_axis: int | None = None,
    protocol: str = "points",
    border: int | None = None,
    data_range: float | None = None,
    dims: Sequence[str] | None = None,
    periodic: Periodic = (),
    device: object = None,
    progress: Progress | bool = False,
) -> float:
    """PSNR in dB of a fit to half of the samples per axis, at the others or at all of them.

    Parameters
    ----------
    values : array
        The samples.
    settings : optional
        As for `fit`; or any way to fit, a function of an array and its `channel_axis` whose result
        has `grid`, such as ``functools.partial(baselines.fit, method=baselines.siren())``.
    channel_axis : int, optional
        As for `fit`.
    protocol : {"points", "area"}
        "points" keeps every second sample and scores the others: right for values at points, but
        what is kept of a picture is aliased. "area" averages blocks of two samples per axis, as
        cameras and people who shrink pictures do, fits these means and scores means over the
        samples' cells, at all samples; an odd one at an axis's end is left out.
    border : int, optional
        Samples at the edges of the array that are not scored; by default 16, or an eighth of a
        short axis, as in all tables of the documentation.
    data_range : float, optional
        As for `psnr`; by default of all of `values`.
    dims, periodic, device, progress : optional
        As for `fit`; periods count in samples.

    Notes
    -----
    Works in samples: `coords`, a `mask` and a `partition` belong to the whole array and are
    not taken. Missing samples, NaN or masked by `numpy.ma`, are neither fitted nor scored.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> picture = np.sin(np.arange(64)[:, None] / 5) * np.cos(np.arange(64) / 7)
    >>> ef.heldout_score(picture, ef.smooth(order=3)) > 60
    True
    """
    values = with_nan(values)
    xp = namespace(values)
    if channel_axis is not None:
        channel_axis = axis_of("channel_axis", channel_axis, values.shape)
    values = values[..., None] if channel_axis is None else xp.moveaxis(values, channel_axis, -1)
    shape = tuple(values.shape[:-1])
    edges = [min(16, n // 8) if border is None else whole("border", border, 0) for n in shape]
    periods = periods_of(periodic, names_of(dims, len(shape)))
    # One sample of the half is two of the whole.
    halved = {k: (shape[k] if p is None else p) / 2 for k, p in periods.items()}
    area = choice("protocol", protocol, ("points", "area")) == "area"
    every = tuple(slice(None, None, 2) for _ in shape)
    if area:
        shape = tuple(n // 2 * 2 for n in shape)
        values = values[(*map(slice, shape), ...)]
        blocks = xp.reshape(values, (*(m for n in shape for m in (n // 2, 2)), values.shape[-1]))
        half = xp.mean(blocks, axis=tuple(range(1, 2 * len(shape), 2)))
    else:
        half = values[(*every, ...)]
    half = half if device is None else to_device(half, device)
    if settings is None or isinstance(settings, Settings):
        if area and (settings is None or isinstance(settings, (Smooth, Oriented))):
            settings = replace(Smooth() if settings is None else settings, samples="means")
        encode = encoder(half.shape, settings, channel_axis=-1, dims=dims, periodic=halved)
        field = encode(half, progress=progress)
    else:  # it knows no names and no periods
        if not callable(settings):
            must = "come from smooth(...), oriented(...) or paper(...), or be a way to fit"
            raise wrong("settings", f"{must}, a function of an array", settings, TypeError)
        if dims is not None or periods:
            told = "`dims` and `periodic` are for fields"
            raise TypeError(f"{told}; leave them out with your own fit.")
        field = settings(half, channel_axis=-1)
    at = (move(np.arange(n) / 2 - (0.25 if area else 0), values) for n in shape)
    predicted = to_numpy(field.grid(*at))
    truth = to_numpy(values)
    held = np.zeros(shape, bool)
    held[tuple(slice(b, n - b) for n, b in zip(shape, edges))] = True
    if not area:
        held[every] = False
    held &= ~np.isnan(truth).any(axis=-1)
    if not held.any():
        told = f"no sample is left to score; got shape {shape} and border={edges[0]}"
        raise ValueError(f"{told}. Use a larger array or a smaller border.")
    data_range = peak_to_peak(truth) if data_range is None else data_range
    return psnr(truth[held], predicted[held], data_range=data_range)


# --- quality against width ------------------------------------------------------------------------


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
    partition: Partition | None = None,
) -> Curve:
    """Errors of the paper's fit for every width up to the settings' own.

    Orthonormal coordinates are nested in the number of neurons, so that the coefficients of the
    widest layer say what each narrower one leaves over: ``|y|² - Σ_{j ≤ m} c_j²``. Where windows
    blend samples (an overlap above 0.5), or with a solver other than QR, each width is fitted.

    Parameters
    ----------
    values : array
        Samples, none missing.
    settings : Paper
        From ``paper(...)``; its width is the largest on the curve.
    widths : sequence of int, optional
        Which widths to report; by default all.
    channel_axis, partition : optional
        As for `fit`.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> picture = np.random.default_rng(0).random((32, 32))
    >>> curve = ef.psnr_by_width(picture, ef.paper(cell=16, width=256), widths=[64, 128])
    >>> bool(curve.psnr[0] < curve.psnr[1])
    True
    """
    if not isinstance(settings, Paper) or settings.widths is not None:
        raise ValueError(f"`settings` must be paper(...) with one width; got {settings!r}.")
    widest = settings.network.width
    listed = range(1, widest + 1) if widths is None else entries(widths) or ()
    if not listed or not all(is_whole(m) and 1 <= m <= widest for m in listed):
        raise wrong("widths", f"lie between 1 and the settings' width, {widest}", widths)
    wanted = np.asarray(listed, np.int64)
    values = source_of(values).read()
    encode = encoder(values.shape, settings, channel_axis=channel_axis, partition=partition)
    y, present, is_complex, _ = prepare(values, encode.shape, encode.channel_axis)
    if present is not None or is_complex:
        raise ValueError("a curve needs real samples, none missing; got NaN or complex numbers.")
    plain = replace(settings, overlap=None, cell=None, layers="shared", network=Dense()) == Paper()
    if max(encode.partition.overlap) > 0.5 or not plain:
        left = np.zeros(widest + 1)
        for m in set(wanted.tolist()):
            one = replace(settings, network=replace(settings.network, width=m))
            field = encoder(y.shape, one, channel_axis=-1, partition=partition)(y)
            left[m] = float(((to_numpy(field.samples()) - to_numpy(y)) ** 2).sum())
    else:
        left = _left_over(settings, encode.partition, y)
    truth, mse = to_numpy(y), left[wanted] / math.prod(y.shape)
    return Curve(wanted, mse, float(np.ptp(truth)) or 1.0, float(truth.max()))


def _left_over(settings: Paper, partition: Partition, y: Array) -> Floats:
    """What the first m neurons leave over, all regions together, for m from 0 to the width."""
    xp, widest = namespace(y), settings.network.width
    left = np.zeros(widest + 1)
    for box, inside, regions in partition.shapes:
        region = OnDense(network=settings.network, box=box, inside=inside)
        t = move(region.positions, y, xp.float64)
        own = settings.layers == "own"
        for some in np.array_split(regions, len(regions)) if own else [regions]:
            network = settings.network.of_region(some[0]) if own else settings.network
            Q, neurons = _independent(network(t))
            Y = gather_boxes(y, partition, some, box, inside)
            Y = xp.reshape(xp.permute_dims(xp.astype(Y, xp.float64), (1, 0, 2)), (Y.shape[1], -1))
            c = xp.matrix_transpose(Q) @ Y
            # Exact at the widest, where |y|² - |c|² would only leave rounding.
            rest = Y - Q @ c
            gain = np.zeros(widest)
            gain[neurons] = to_numpy(xp.sum(c * c, axis=1))
            left += float(xp.sum(rest * rest)) + np.append(np.cumsum(gain[::-1])[::-1], 0.0)
    return left


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


# --- several seeds --------------------------------------------------------------------------------


class Spread(NamedTuple):
    """Scores of one fit with several seeds: mean, standard deviation of one, all of them."""

    mean: float
    spread: float
    scores: tuple[float, ...]


MOST_SEEDS = 10_000
"""Fits that one call makes, at most."""


def over_seeds(
    values: Array,
    settings: Paper,
    seeds: int | Sequence[int] = 5,
    *,
    score: Callable[[Array, Array], float] = paper_psnr,
    channel_axis: int | None = None,
    partition: Partition | None = None,
) -> Spread:
    """Scores of the paper's fit at its samples for several draws of its hidden layers.

    Parameters
    ----------
    values : array
        The samples.
    settings : Paper
        From ``paper(...)``; its seed is replaced.
    seeds : int or sequence of int
        How many, from 0, or which.
    score : callable
        Of the samples and what the fit makes of them; `paper_psnr` by default.
    channel_axis, partition : optional
        As for `fit`.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> picture = np.random.default_rng(0).random((32, 32))
    >>> found = ef.over_seeds(picture, ef.paper(cell=16, width=64, layers="own"), seeds=3)
    >>> len(found.scores), bool(found.spread < 1)
    (3, True)
    """
    if not isinstance(settings, Paper):
        raise TypeError(f"`settings` must come from paper(...); got {settings!r}.")
    listed = entries(seeds)
    if listed is None and whole("seeds", seeds) > MOST_SEEDS:
        raise wrong("seeds", f"be at most {MOST_SEEDS}", seeds)
    values = source_of(values).read()
    found = []
    for seed in range(whole("seeds", seeds)) if listed is None else listed:
        one = replace(settings, network=replace(settings.network, seed=seed))
        field = encoder(values.shape, one, channel_axis=channel_axis, partition=partition)(values)
        found.append(float(score(to_numpy(values), to_numpy(field.samples()))))
    return Spread(float(np.mean(found)), float(np.std(found, ddof=len(found) > 1)), tuple(found))
