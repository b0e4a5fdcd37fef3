"""Scattered samples: a Field through values at arbitrary positions, or near noisy ones.

Positions and values enter, checked and brought to a box whose unit is their spacing; what is fitted
where is the business of `regions`.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from elmfield._array.backend import learns, move, namespace, scatter_add, to_numpy
from elmfield._array.checks import per_axis
from elmfield._array.following import linear
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import Axis, Domain, Periodic, names_of, periods_of
from elmfield.field import Blended, Field
from elmfield.fit.graph import refuse_unfollowed, unfollowed
from elmfield.fit.kernels import HIGHEST, MET, NOISY_ORDERS, Kernels
from elmfield.fit.waves import Waves
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
    Each region is the function of least energy through the samples in and around its cell, planes
    at no cost; planes are therefore exact. In several dimensions it is a sum of kernels ``r^(2s -
    1)``, s the order, around these samples, and polynomials; on a line a sum of waves. Samples that
    are missed by more than 1e-6 of the range, because others are too close, are warned of; with
    ``order="auto"`` regions with close samples first try lower orders. Where there are fewer
    samples than twice the polynomials of an order, it is a lower one.

    With noise, the energy's weight (and the level, if it is not given, and the order, if it is
    "auto") are those under which the samples are likeliest. Coefficients are linear in the values:
    torch follows values that require gradients, without `denoise`. Time grows with the number of
    samples, some 20 000 to 30 000 a second in the plane; a fit that needs minutes warns first.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> where = np.random.default_rng(0).uniform(0, 1, (300, 2))
    >>> field = ef.fit_points(where, where[:, 0] - 2 * where[:, 1])
    >>> field([0.5, 0.1]).round(6)
    np.float64(0.3)
    """
    values = with_nan(values)
    settings = _checked(Smooth() if settings is None else settings, denoise)
    if learns(points):
        raise TypeError(
            "positions that require gradients are not followed: which samples a region has depends "
            "on them. Detach them, points.detach()."
        )
    refuse_unfollowed(values, settings)
    if learns(values) and settings.denoise is not False:
        raise unfollowed("denoising of scattered samples, which learns what to believe from them")
    x, y, single, is_complex, kept = _check(points, values)
    d = x.shape[1]
    if d > 1:
        _check_order(settings.order)
    domain = _domain(x, bounds, dims, periodic, spacing)
    x, y, place = _average_repeats(_indexed(x, domain), y)
    data_range = float(np.ptp(y)) or 1.0
    offset = y.mean(axis=0)
    scale = np.max(np.abs(y - offset), axis=0)
    scale = 2.0 ** np.round(np.log2(np.where(scale > 0, scale, 1)))
    noisy = settings.denoise is not False
    cut = Waves.cut if d == 1 else Kernels.cut
    regions = cut(
        x,
        (y - offset) / scale,
        domain,
        cell=settings.cell,
        overlap=settings.overlap,
        noisy=noisy,
    )
    order, auto = settings.order, settings.order == "auto"
    asked = NOISY_ORDERS if auto else (float(np.mean(order)),)  # type: ignore[arg-type]
    if noisy:
        level = None if settings.denoise is True else np.asarray(settings.denoise / scale, float)
        order, penalty = regions.likeliest(asked, level)
        solved = regions.near(order, penalty, reporter(progress))
    else:
        order = regions.suited_order() if auto else regions.possible(asked)[0]
        solved = regions.through(order, lower=auto, progress=reporter(progress))
        _tell_missed(solved.missed * scale / data_range)
    settings = replace(settings, order=order) if auto else settings
    xp = namespace(values)
    narrow = str(values.dtype).endswith(("float32", "float16"))
    dtype = xp.float32 if narrow else xp.float64
    if learns(values):
        own = _means(values, kept, place, is_complex)
        own = (own - move(offset, own)) / move(scale, own)
        flat = linear(solved.again, solved.back, own, solved.flat)
    else:
        flat = move(solved.flat, values, dtype if d == 1 else xp.float64)
    return Field(
        domain=domain,
        blended=Blended(
            is_scattered=True,
            partition=regions.cells.partition,
            groups=solved.groups(flat),
            centres=regions.cells.centres,
            radii=regions.cells.radii,
        ),
        offset=move(offset, values, dtype),
        scale=move(scale, values, dtype),
        channel_axis=None if single else d,
        is_complex=is_complex,
        input_dtype=str(values.dtype).removeprefix("torch."),
        data_range=data_range,
        settings=settings,
    )


def _means(values: Array, kept: Integers, place: Integers, is_complex: bool) -> Array:
    """Values (n, C) at all places, in float64, as torch follows them: means where some coincide."""
    xp = namespace(values)
    y = values[:, None] if values.ndim == 1 else values
    y = xp.concat([xp.real(y), xp.imag(y)], axis=1) if is_complex else y
    y = xp.take(xp.astype(y, xp.float64), move(kept, values), axis=0)
    counts = np.bincount(place)
    at = move(place, values)
    sums = [scatter_add(len(counts), at, y[:, c]) for c in range(y.shape[1])]
    return xp.stack(sums, axis=1) / move(counts.astype(float), values)[:, None]


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


def _check_order(order: object) -> None:
    """Refuse orders whose kernels are no functions, or beyond all digits."""
    if isinstance(order, (int, float)) and not 0.5 < order <= HIGHEST:
        raise ValueError(
            f"`order` must lie above 0.5 and at most at {HIGHEST:g} for scattered samples in "
            f"several dimensions; got {order!r}."
        )


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


def _check(points: Array, values: Array) -> tuple[Floats, Floats, bool, bool, Integers]:
    """Positions (n, d) and values (n, C) in float64; whether one channel; complex; which rows.

    Rows with NaN are left out.
    """
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
    kept = np.flatnonzero(~np.isnan(y).any(axis=1))
    x, y = x[kept], y[kept]
    if not len(x):
        raise ValueError("`values` must hold at least one number; got none, or NaN only.")
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        raise ValueError("`points` and `values` must be finite; got infinities or NaN.")
    return x, y, single, is_complex, kept


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


def _average_repeats(x: Floats, y: Floats) -> tuple[Floats, Floats, Integers]:
    """Places and the means there, and the place of each sample."""
    places, place, counts = np.unique(x, axis=0, return_inverse=True, return_counts=True)
    place = place.reshape(-1)
    if len(places) == len(x):
        return x, y, np.arange(len(x))
    total = np.zeros((len(places), y.shape[1]))
    np.add.at(total, place, y)
    return places, total / counts[:, None], place
