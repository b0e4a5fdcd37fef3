"""Scattered samples: a Field through values at arbitrary positions, or near noisy ones.

Positions and values are checked and brought to a box whose unit is their spacing; `regions` fits
each region.
"""

import math
import warnings
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmfield._array import backend
from elmfield._array.autograd import apply_linear, gradient_error
from elmfield._array.checks import entries, is_number, numbers, per_axis, positive, wrong
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import Axis, Domain, Periodic, names_of, periods_of
from elmfield.field import Blended, Field
from elmfield.field.model import Model
from elmfield.field.uncertainty.neighbours import Neighbours, periods
from elmfield.field.uncertainty.posterior import Evidence
from elmfield.field.uncertainty.priors import Prior
from elmfield.fit.scattered.regions import LARGEST_MISS, KernelRegions, dense_model
from elmfield.local.bases.polyharmonic import power_of
from elmfield.partition import Partition
from elmfield.samples import refuse_far, with_nan
from elmfield.settings import Paper, Smooth

HIGHEST_ORDER = 5.0
"""Highest order: r⁹ beside polynomials of degree 4."""

NOISY_ORDERS = (1.1, 1.5, 2.0, 3.0, 4.0)
"""Orders tried by their likelihood, with noise."""

MOST_CELLS, MOST_CELLS_PER_SAMPLE = 1 << 18, 16
"""Cells of the size of `spacing` in the box, the larger of both, at most: some 10 s."""


@backend.outside_torch_modes()
def fit_points(
    points: Array,
    values: Array,
    settings: Smooth | Paper | None = None,
    *,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    dims: Sequence[str] | None = None,
    periodic: Periodic = (),
    spacing: float | Sequence[float] | None = None,
    denoise: float | bool = False,
    weights: Array | None = None,
    partition: Partition | None = None,
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
    settings : Smooth or Paper, optional
        Its `order` is the energy's; `cell` and `overlap` count in units of `spacing`. With
        ``paper(...)`` each region is its least squares, near the samples instead of through them.
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
    weights : array, shape (n,), optional
        How much samples count: the noise of each has the variance of `denoise` divided by its
        weight. Those of 0 are left out; samples at one place count together.
    partition : Partition, optional
        The regions of ``paper(...)``, for instance of `beam`, of any grid over `bounds`.
    progress : callable or bool
        Called with (stage, done, total); True shows a bar.

    Notes
    -----
    Each region is the function of least energy through the samples in and around its cell, planes
    at no cost; planes are therefore exact. It is a sum of kernels ``r^(2s - 1)``, s the order,
    around these samples, and polynomials. Samples that are missed by more than 1e-6 of the range,
    because others are too close, or because orders below 1 have cusps that rounding of positions
    shows, are warned of; with ``order="auto"``, and on a line, regions with close samples first try
    lower orders. Where there are fewer samples than twice the polynomials of an order, it is a
    lower one.

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
    if not isinstance(settings, Paper):
        settings = _checked(Smooth() if settings is None else settings, denoise)
    if partition is not None if isinstance(settings, Smooth) else denoise is not False:
        raise TypeError("`partition` is for paper(...), and `denoise` for smooth(...).")
    if backend.requires_grad(points):
        raise TypeError(
            "positions that require gradients are not followed: which samples a region has depends "
            "on them. Detach them, points.detach()."
        )
    if backend.requires_grad(values) and settings.denoise is not False:
        raise gradient_error("denoising of scattered samples, which learns from them")
    at, single, is_complex, kept = _check(points, values, weights)
    d = at.shape[1]
    if partition is not None:
        low, high = (at.min(0), at.max(0)) if bounds is None else map(np.asarray, bounds)
        spacing = tuple((high - low) / partition.shape)
    domain = _domain(at, bounds, dims, periodic, spacing)
    x, first, place = _places(at, domain)
    w = None if weights is None else np.asarray(backend.to_numpy(weights), np.float64)[kept]
    own = _means(values, kept, place, is_complex, w)
    w = w if w is None else np.bincount(place, w).astype(np.float64)
    y = np.asarray(backend.to_numpy(own))
    about: dict[str, Any] = {
        "channel_axis": None if single else d,
        "is_complex": is_complex,
        "input_dtype": str(values.dtype).removeprefix("torch."),
        "data_range": float(np.ptp(y)) or 1.0,
    }
    if isinstance(settings, Paper):
        return Field(replace(dense_model(x, own, domain, settings, partition), **about))
    unit = 2.0 ** np.floor(np.log2(np.abs(y).max() or 1.0))  # a sum may overflow
    offset = (y / unit).mean(axis=0) * unit
    scale = np.max(np.abs(y - offset), axis=0)
    scale = 2.0 ** np.round(np.log2(np.where(scale > 0, scale, 1)))
    noisy = settings.denoise is not False
    regions = KernelRegions.cut(x, (y - offset) / scale, domain, settings, w)
    order, auto, evidence = settings.order, settings.order == "auto", None
    orders = NOISY_ORDERS if auto else (float(np.mean(order)),)  # type: ignore[arg-type]
    if noisy:
        known = None if settings.denoise is True else settings.denoise
        # Beyond these ends all is noise, or none is.
        level = None if known is None else np.clip(known, 1e-12 * scale, 1e12 * scale) / scale
        order, penalty, amplitude = regions.likeliest(orders, level)
        a = np.broadcast_to(np.sqrt(amplitude) * (1.0 if level is None else level), scale.shape)
        evidence = _evidence(regions, order, penalty, a, scale)
        noise = max(penalty * amplitude, 1e-300)
        penalties = regions.own_penalties(order, penalty, noise, level)
        solved = regions.solve(order, penalties, False, reporter(progress))
    else:
        order = regions.suited_order() if auto else regions.possible(orders)[0]
        solved = regions.solve(order, None, auto or d == 1, reporter(progress))
    settings = replace(settings, order=order) if auto else settings
    xp = backend.namespace(values)
    narrow = str(values.dtype).endswith(("float32", "float16"))
    dtype = xp.float32 if narrow else xp.float64
    if backend.requires_grad(values):
        own = (own - backend.move(offset, own)) / backend.move(scale, own)
        flat = apply_linear(solved.again, solved.back, own, solved.flat)
    else:
        flat = backend.move(solved.flat, values, xp.float64)
    blended = Blended(
        is_scattered=True, partition=regions.partition, groups=solved.groups(flat),
        centres=regions.centres, radii=regions.radii,
    )  # fmt: skip
    made = Model(
        domain=domain, blended=blended, settings=settings, evidence=evidence, **about,
        offset=backend.move(offset, values, dtype), scale=backend.move(scale, values, dtype),
    )  # fmt: skip
    field = Field(made)
    if not noisy:
        part = scale / field.model.data_range
        # Below order 1 kernels are cusps: what rounding moves a sample by is seen there alone.
        left, rounding = solved.missed * part, solved.rounding * part
        _tell_missed(field, at[first], y, left, rounding, is_cusp=float(order) < 1)
    return field


def _evidence(
    regions: KernelRegions, order: float, penalty: float, a: Floats, scale: Array
) -> Evidence:
    """Noise as the likelihood has it, and the amplitude as left-out samples say, for deviations.

    In the caller's units. The likelihood looks at whole regions; over their width a process often
    varies less than its increments between neighbours let expect. Of samples with weights the noise
    is that of the mean weight.
    """
    weights = np.ones(1) if regions.weights is None else regions.weights
    near = Neighbours(
        x=regions.x, y=regions.y, periods=periods(regions.partition), noise=penalty / weights,
        prior=Prior(power_of(order), np.ones(regions.x.shape[1])), amplitude=a,
    )  # fmt: skip
    noise, local = np.sqrt(penalty / weights.mean()), np.sqrt(near.evidence_scale())
    return Evidence(tuple((a * scale * noise).tolist()), tuple((a * local * scale).tolist()))


def _means(
    values: Array, kept: Integers, place: Integers, is_complex: bool, weights: Floats | None
) -> Array:
    """Values (n, C) at all places, in float64, as torch follows them: means where some coincide."""
    xp = backend.namespace(values)
    y = values[:, None] if values.ndim == 1 else values
    y = xp.concat([xp.real(y), xp.imag(y)], axis=1) if is_complex else y
    y = xp.take(xp.astype(y, xp.float64), backend.move(kept, values), axis=0)
    counts, at = np.bincount(place, weights), backend.move(place, values)
    y = y if weights is None else y * backend.move(weights, values)[:, None]
    sums = [backend.scatter_add(len(counts), at, y[:, c]) for c in range(y.shape[1])]
    return xp.stack(sums, axis=1) / backend.move(counts.astype(float), values)[:, None]


def _tell_missed(
    field: Field, at: Floats, y: Floats, missed: Floats, rounding: Floats, *, is_cusp: bool
) -> None:
    """Warn of samples that were not met.

    Parameters
    ----------
    at, y : arrays, shapes (n, d) and (n, C)
        Positions, and the values there.
    missed, rounding : arrays, shape (n, C)
        How far regions miss their samples, and what rounding may make of the sums there, in parts
        of the range. Where either is large, or with cusps, the field itself is evaluated.
    """
    may = (missed + rounding > LARGEST_MISS).any(axis=1) | is_cusp
    if not may.any():
        return
    found = field(at[may], outside="nearest")
    found = np.asarray(backend.to_numpy(found)).reshape(len(found), -1)
    found = np.concatenate([found.real, found.imag], axis=1) if field.model.is_complex else found
    off = np.abs(found - y[may]) / field.model.data_range
    far = off.max(axis=1) > LARGEST_MISS
    if far.any():
        most = 1.05 * (off + rounding[may])[far].max()  # two digits of it are no less
        warnings.warn(
            f"{int(far.sum())} of {len(y)} samples are too close to others to be met: the "
            f"function is off by up to {most:.1e} of the range there. Give a smaller `spacing`, "
            f"{'an `order` of 1' if is_cusp else 'a lower `order`'}, or `denoise`.",
            UserWarning,
            stacklevel=4,
        )


def _checked(settings: Smooth, denoise: float | bool) -> Smooth:
    """The settings, with `denoise` if it was said, if scattered samples can honour all of them."""
    plain = isinstance(settings, Smooth) and settings.network is None and settings.layer is None
    if not plain or settings.target is not None:
        must = "be smooth(order=, cell=, overlap=, denoise=) with its own product layer and no "
        raise wrong("settings", must + "error target for scattered samples", settings, TypeError)
    if denoise is not False:
        settings = replace(settings, denoise=denoise)
    if not is_number(settings.denoise) and not isinstance(settings.denoise, bool):
        must = "be True, False or one standard deviation for scattered samples"
        raise wrong("denoise", must, settings.denoise)
    if settings.context is not None:
        hint = "A larger `cell` lets a region see more of them."
        raise wrong("context", "be None for scattered samples", settings.context, hint=hint)
    if np.ndim(settings.order) > 0:
        must = "be one number, or 'auto', for scattered samples: their energy knows no axes"
        raise wrong("order", must, settings.order, hint="Use `spacing` where axes differ.")
    if is_number(settings.order) and not 0.5 < settings.order <= HIGHEST_ORDER:
        must = f"lie above 0.5 and at most at {HIGHEST_ORDER:g} for scattered samples"
        raise wrong("order", must, settings.order)
    return settings


def _places(at: Floats, domain: Domain) -> tuple[Floats, Integers, Integers]:
    """Different positions in index coordinates, (m, d), and a sample of each, (m,).

    And which of them each sample has, (n,).
    """
    x, out = index_in(at, domain, slack=1e-9)
    if out.any():
        told = f"{int(out.sum())} of {len(x)} that do not"
        hint = "Widen the bounds or drop those samples."
        raise wrong("points", "lie inside `bounds`", told, hint=hint)
    places, first, place = np.unique(x, axis=0, return_index=True, return_inverse=True)
    every = np.arange(len(x))
    return (x, every, every) if len(places) == len(x) else (places, first, place.reshape(-1))


def index_in(x: Floats, domain: Domain, *, slack: float) -> tuple[Floats, Array]:
    """Positions (n, d) in index coordinates, and which lie outside the domain, (n,)."""
    i = np.stack([a.to_index(x[:, k]) for k, a in enumerate(domain.axes)], axis=1)
    out = (i < -0.5 - slack) | (i > np.asarray(domain.shape) - 0.5 + slack)
    return i, (out & ~np.asarray(domain.periodic)).any(axis=1)


def _check(
    points: Array, values: Array, weights: Array | None
) -> tuple[Floats, bool, bool, Integers]:
    """Positions (n, d) in float64; whether one channel; complex; which rows count, without NaN."""
    for name, x in (("points", points), ("values", values)):
        backend.refuse_abstract(name, x, "Fit numbers; the field's module() can be transformed.")
    x = numbers("points", backend.to_numpy(points) if backend.is_array(points) else points)
    y = np.asarray(backend.to_numpy(values))
    if y.dtype.kind not in "biufc":
        raise wrong("values", "hold numbers", y.dtype, TypeError)
    if x.ndim != 2 or x.shape[1] == 0:
        raise wrong("points", "have shape (n, d)", x.shape)
    if y.ndim not in (1, 2) or len(y) != len(x):
        must = f"have shape (n,) or (n, C) with n = {len(x)} as in `points`"
        raise wrong("values", must, y.shape)
    single, is_complex = y.ndim == 1, y.dtype.kind == "c"
    y = y[:, None] if single else y
    y = np.concatenate([y.real, y.imag], axis=1) if is_complex else y.astype(np.float64)
    counts = np.ones(len(x)) if weights is None else numbers("weights", weights)
    if counts.shape != (len(x),) or not (np.isfinite(counts) & (counts >= 0)).all():
        raise wrong("weights", f"be {len(x)} numbers, 0 or more, as there are points", weights)
    kept = np.flatnonzero(~np.isnan(y).any(axis=1) & (counts > 0))
    x, y = x[kept], y[kept]
    if not len(x):
        raise ValueError("`values` must hold at least one number; got none, or NaN only.")
    if not np.isfinite(x).all() or not np.isfinite(y).all():
        raise ValueError("`points` and `values` must be finite; got infinities or NaN.")
    refuse_far("points", x)
    is_narrow = str(values.dtype).endswith(("float32", "float16"))
    refuse_far("values", y.astype(np.float32) if is_narrow else y)
    return x, single, is_complex, kept


def _domain(
    x: Floats,
    bounds: tuple[Sequence[float], Sequence[float]] | None,
    dims: Sequence[str] | None,
    periodic: Periodic,
    spacing: float | Sequence[float] | None,
) -> Domain:
    """A box whose index unit is the samples' mean spacing."""
    n, d = len(np.unique(x, axis=0)), x.shape[1]  # those at one place are one
    names = names_of(dims, d)
    lengths = periods_of(periodic, names)
    low, high = (x.min(axis=0), x.max(axis=0)) if bounds is None else corners_of(bounds, d)
    extent = high - low
    wide = extent > 0
    if spacing is None:
        # The root of a volume, by logarithms: it may have no place among the numbers.
        each = np.log(extent[wide]).sum() - math.log(n)
        spacing = math.exp(each / wide.sum()) if wide.any() else 1.0
    if lengths and bounds is None:
        raise ValueError(
            "`periodic` needs `bounds`: samples do not say over which length an axis repeats; got "
            "none. Pass bounds=(lower corner, upper corner), one period wide on that axis."
        )
    for k, period in lengths.items():
        if period is not None and not math.isclose(period, extent[k]):
            raise ValueError(
                f"`bounds` must be one period wide on a periodic axis; got {extent[k]:g} on axis "
                f"{names[k]!r} with periodic={{{names[k]!r}: {period:g}}}."
            )
    most = max(MOST_CELLS, MOST_CELLS_PER_SAMPLE * n)
    return even_domain(names, low, extent, spacing, lengths, most)


def even_domain(
    names: Sequence[str],
    low: Floats,
    extent: Floats,
    spacing: float | Sequence[float],
    periodic: Collection[int],
    most: int,
) -> Domain:
    """A box cut into cells of about the size of `spacing`, with a sample in the middle of each."""
    step = [positive("spacing", s) for s in per_axis("spacing", spacing, len(low))]
    # Python's floats: numbers without end are infinite, and no warning.
    counts = [e / h for e, h in zip(extent.tolist(), step)]
    cells, axes = math.prod(max(1.0, c) for c in counts), []
    if cells > most:
        must = f"leave at most {most} cells of its size in the box"
        raise wrong("spacing", must, spacing, hint=f"This makes {cells:.3g}.")
    for k, (name, count) in enumerate(zip(names, counts)):
        size = max(1, math.ceil(count * (1 - 1e-15) - 1e-9))  # rounding adds no cell
        h = extent[k] / size or step[k]
        first = low[k] + h / 2 if extent[k] else low[k]
        axes.append(Axis.even(name, size, first, h, h * size if k in periodic else None))
    return Domain.of(axes)


def corners_of(bounds: object, d: int | None = None) -> Floats:
    """The lower and the upper corner of a box of d axes, or as many as they have: (2, d)."""
    found = [(c,) if is_number(c) else entries(c) or () for c in entries(bounds) or ()]
    fits = len(found) == 2 and len(found[0]) == len(found[1]) == (d or len(found[0]))
    if not fits or not all(is_number(a) and is_number(b) and a < b for a, b in zip(*found)):
        must = f"be two corners of {d or 'as many'} numbers, lower ones first"
        raise wrong("bounds", must, bounds)
    return np.asarray(found, np.float64)
