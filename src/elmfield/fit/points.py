"""Scattered samples: a Field through values at arbitrary positions, or near noisy ones.

Positions and values enter, checked and brought to a box whose unit is their spacing; what is fitted
where is the business of `regions`.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmfield._array.backend import learns, move, namespace, to_numpy
from elmfield._array.checks import per_axis
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Progress
from elmfield.domain import Axis, Domain, Periodic, names_of, periods_of
from elmfield.field import Blended, Field, Full, Group
from elmfield.fit.regions import MET, NOISY_ORDERS, cut
from elmfield.local.bases import ProductNeurons
from elmfield.samples import with_nan
from elmfield.settings import Smooth


def fit_points(
    points: Array,
    values: Array,
    settings: Smooth | None = None,
    *,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    dims: Sequence[str] | None = None,
    periodic: Periodic = (),
    spacing: float | Sequence[float] | None = None,
    denoise: float | bool = False,
    progress: Progress | bool = False,
) -> Field:
    """A Field through scattered samples, or, with `denoise`, near noisy ones.

    Parameters
    ----------
    points : array, shape (n, d)
        Where the samples lie, in any unit.
    values : array, shape (n,) or (n, C)
        What was measured there; rows with NaN or a mask are left out, samples at one place are
        averaged.
    settings : Smooth, optional
        Its `order` is the energy's; `cell` and `overlap` count in units of `spacing`.
    bounds : pair of sequences, optional
        Lower and upper corner of the domain; by default the bounding box of the samples.
    dims, periodic : optional
        Names of the axes, and which of them repeat, over the width of `bounds`, which must then be
        given.
    spacing : float or sequence of float, optional
        Typical distance between neighbouring samples, for all axes or one by one. By default from
        the samples' density, the same on every axis. Give one per axis where units differ.
    denoise : bool or float
        Take noise out; True estimates its level, a number is its standard deviation. As in
        ``smooth(denoise=)``.
    progress : callable or bool
        Called with (stage, done, total); True shows a bar.

    Notes
    -----
    Each region solves for a plane, at no cost, and the function of least energy ``Σ E |α|²``,
    ``E = (ε + |ω|²)^s``, through the samples in and around its cell (at least the 4 (d + 1)
    nearest), and stores its α. Planes are therefore exact. Samples that are missed by more than
    1e-6 of the range, because others are too close, are warned of. With noise, the energy's weight
    (and the level, if it is not given, and the order, if it is "auto") are those under which the
    samples are likeliest. In four dimensions and more frequencies are cut off so that a region has
    at most 20 000 neurons, or three per axis. A fit that needs gigabytes or minutes warns first.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> where = np.random.default_rng(0).uniform(0, 1, (300, 2))
    >>> field = ef.fit_points(where, where[:, 0] - 2 * where[:, 1])
    >>> field([0.5, 0.1]).round(6)
    np.float64(0.3)
    """
    values = with_nan(values)
    if learns(values) or learns(points):
        raise TypeError(
            "scattered samples that require gradients are not followed: each region is solved on "
            "the host. Detach them, values.detach()."
        )
    settings = _checked(Smooth() if settings is None else settings, denoise)
    x, y, single, is_complex = _check(points, values)
    d = x.shape[1]
    domain = _domain(x, bounds, dims, periodic, spacing)
    x, y = _average_repeats(_indexed(x, domain), y)
    data_range = float(np.ptp(y)) or 1.0
    offset = y.mean(axis=0)
    scale = np.max(np.abs(y - offset), axis=0)
    scale = 2.0 ** np.round(np.log2(np.where(scale > 0, scale, 1)))
    noisy = settings.denoise is not False
    part, regions = cut(
        x,
        (y - offset) / scale,
        domain,
        cell=settings.cell,
        overlap=settings.overlap,
        noisy=noisy,
    )
    orders = None if settings.order == "auto" else (float(np.mean(settings.order)),)  # type: ignore[arg-type]
    if noisy:
        level = None if settings.denoise is True else np.asarray(settings.denoise / scale, float)
        order, penalty = regions.likeliest(orders or NOISY_ORDERS, level)
        alpha = regions.near(order, penalty, reporter(progress))
    else:
        order = regions.suited_order() if orders is None else orders[0]
        alpha, missed = regions.through(order, reporter(progress))
        _tell_missed(missed * scale / data_range)
    settings = replace(settings, order=order) if orders is None else settings
    xp = namespace(values)
    dtype = xp.float32 if str(values.dtype).endswith(("float32", "float16")) else xp.float64
    group = Group(
        model=ProductNeurons(regions.layers),
        regions=np.arange(len(regions.centres)),
        coefficients=Full(move(alpha, values, dtype)),
    )
    return Field(
        domain=domain,
        blended=Blended(
            is_scattered=True,
            partition=part,
            groups=(group,),
            centres=regions.centres,
            radii=regions.radii,
        ),
        offset=move(offset, values, dtype),
        scale=move(scale, values, dtype),
        channel_axis=None if single else d,
        is_complex=is_complex,
        input_dtype=str(values.dtype).removeprefix("torch."),
        data_range=data_range,
        settings=settings,
    )


def _tell_missed(off: Floats) -> None:
    """Warn of samples that were not met; `off`, (n, C), says how far, in parts of the range."""
    missed = off.max(axis=1) > MET
    if missed.any():
        warnings.warn(
            f"{int(missed.sum())} samples are too close to others to be met: the function is off "
            f"by up to {off.max():.1e} of the range there. Give a smaller `spacing`, a lower "
            "`order`, or `denoise`.",
            UserWarning,
            stacklevel=3,
        )


def _checked(settings: Smooth, denoise: float | bool) -> Smooth:
    """The settings, with `denoise` if it was said, if scattered samples can honour all of them."""
    plain = isinstance(settings, Smooth) and settings.network is None and settings.layer is None
    if not plain or settings.target is not None:
        raise TypeError(
            "`settings` of fit_points must be smooth(order=, cell=, overlap=, denoise=) with its "
            f"own product layer and no error target; got {settings!r}."
        )
    if denoise is not False:
        settings = replace(settings, denoise=denoise)
    if settings.context is not None:
        raise ValueError(
            f"`context` has no meaning for scattered samples; got {settings.context!r}. A larger "
            "`cell` lets a region see more of them."
        )
    if np.ndim(settings.order) > 0:
        raise ValueError(
            "`order` must be one number, or 'auto', for scattered samples: their energy knows no "
            f"axes; got {settings.order!r}. Use `spacing` where axes differ."
        )
    return settings


def _indexed(x: Floats, domain: Domain) -> Floats:
    """Positions (n, d) in index coordinates, if they lie inside the domain."""
    x = np.stack([a.to_index(x[:, k])[0] for k, a in enumerate(domain.axes)], axis=1)
    inside = np.all(
        [
            domain.periodic[k] | ((x[:, k] >= -0.5 - 1e-9) & (x[:, k] <= m - 0.5 + 1e-9))
            for k, m in enumerate(domain.shape)
        ],
        axis=0,
    )
    if not inside.all():
        raise ValueError(
            f"`points` must lie inside `bounds`; {int((~inside).sum())} of {len(x)} do not. Widen "
            "the bounds or drop those samples."
        )
    return x


def _check(points: Array, values: Array) -> tuple[Floats, Floats, bool, bool]:
    """Positions (n, d) and values (n, C) in float64, without NaN; whether one channel; complex."""
    x, y = np.asarray(to_numpy(points)), np.asarray(to_numpy(values))
    if x.dtype.kind not in "iuf" or y.dtype.kind not in "biufc":
        raise TypeError(
            f"`points` and `values` must hold numbers; got dtypes {x.dtype} and {y.dtype}."
        )
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"`points` must have shape (n, d); got {x.shape}.")
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise ValueError(
            f"`values` must have shape (n,) or (n, C) with n = {x.shape[0]} as in `points`; "
            f"got {y.shape}."
        )
    single, is_complex = y.ndim == 1, y.dtype.kind == "c"
    y = y[:, None] if single else y
    y = np.concatenate([y.real, y.imag], axis=1) if is_complex else y.astype(np.float64)
    x = x.astype(np.float64)
    keep = ~np.isnan(y).any(axis=1)
    x, y = x[keep], y[keep]
    if not len(x):
        raise ValueError("`values` must hold at least one number; got none, or NaN only.")
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        raise ValueError("`points` and `values` must be finite; got infinities or NaN.")
    return x, y, single, is_complex


def _domain(
    x: Floats,
    bounds: tuple[Sequence[float], Sequence[float]] | None,
    dims: Sequence[str] | None,
    periodic: Periodic,
    spacing: float | Sequence[float] | None,
) -> Domain:
    """A box whose index unit is the samples' mean spacing."""
    n, d = x.shape
    dims = names_of(dims, d)
    periods = periods_of(periodic, dims)
    if bounds is None:
        low, high = x.min(axis=0), x.max(axis=0)
    else:
        low, high = (np.asarray(b, dtype=np.float64) for b in bounds)
        if low.shape != (d,) or high.shape != (d,) or not np.all(low < high):
            raise ValueError(
                f"`bounds` must be two corners of {d} numbers, lower ones first; got {bounds!r}."
            )
    extent = high - low
    wide = extent > 0
    if spacing is None:
        volume = float(np.prod(extent[wide]))
        step = np.full(d, (volume / n) ** (1 / max(int(wide.sum()), 1)) or 1.0)
    else:
        step = np.asarray(per_axis("spacing", spacing, d), dtype=np.float64)
        if not np.all(step > 0):
            raise ValueError(f"`spacing` must be positive; got {spacing!r}.")
    axes = []
    if periods and bounds is None:
        raise ValueError(
            "`periodic` needs `bounds`: samples do not say over which length an axis repeats; got "
            "none. Pass bounds=(lower corner, upper corner), one period wide on that axis."
        )
    for k, period in periods.items():
        if period is not None and not math.isclose(period, extent[k]):
            raise ValueError(
                f"`bounds` must be one period wide on a periodic axis; got {extent[k]:g} on axis "
                f"{dims[k]!r} with periodic={{{dims[k]!r}: {period:g}}}."
            )
    for k in range(d):
        size = max(1, math.ceil(extent[k] / step[k] - 1e-9))
        h = extent[k] / size if wide[k] else step[k]
        first = low[k] + h / 2 if wide[k] else low[k]
        axes.append(Axis.even(dims[k], size, first, h, h * size if k in periods else None))
    return Domain.of(axes)


def _average_repeats(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    places, inverse, counts = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    if len(places) == len(x):
        return x, y
    total = np.zeros((len(places), y.shape[1]))
    np.add.at(total, inverse.reshape(-1), y)
    return places, total / counts[:, None]
