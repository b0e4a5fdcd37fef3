"""Scattered samples: a Field through values at arbitrary positions."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from elmfield._array.backend import move, namespace, to_numpy
from elmfield._array.checks import per_axis
from elmfield._array.progress import reporter
from elmfield._array.typing import Array, Floats, Integers, Progress
from elmfield.domain import Axis, Domain, Periodic, names_of, periods_of
from elmfield.field import Blended, Field, Full, Group
from elmfield.fit.fill import squared_lengths
from elmfield.local.bases import ProductNeurons
from elmfield.local.energies import price
from elmfield.local.layers import Cosines
from elmfield.partition import Partition
from elmfield.samples import with_nan
from elmfield.settings import Smooth

CELL = {1: 16, 2: 8, 3: 4}
"""Cell size in mean sample spacings: about 64 samples a region in 2 and 3 dimensions."""

CONTEXT = {1: 4.0, 2: 4.0}
"""How far beyond its cell a region looks, in mean sample spacings; 3 in more dimensions, where the
number of neurons grows with the cube of the box and more."""

ORDERS = (1.1, 1.5, 2.0, 2.5, 3.0)
"""Orders tried by leave-one-out for ``order="auto"``."""

LARGEST = 4000
"""Most samples a region may have; its dense kernel is solved directly."""

NEURONS = 20_000
"""Neurons of a region in four dimensions and more, at most; 15 625 in three. All frequencies up to
one cycle per spacing would be 280 000 in four: 500 samples took 58 s, now 2. Between 150 samples of
a smooth function the error was 0.019, now 0.017."""

MANY = 1_000_000
"""Neurons a region may not have: three on every axis, from 13 dimensions on."""

WORTH_A_WORD = 2e9, 5e12
"""Bytes, and multiplications (a minute or so), above which a fit is announced."""


def fit_points(
    points: Array,
    values: Array,
    settings: Smooth | None = None,
    *,
    bounds: tuple[Sequence[float], Sequence[float]] | None = None,
    dims: Sequence[str] | None = None,
    periodic: Periodic = (),
    spacing: float | Sequence[float] | None = None,
    progress: Progress | bool = False,
) -> Field:
    """A Field through scattered samples.

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
    progress : callable or bool
        Called with (stage, done, total); True shows a bar.

    Notes
    -----
    Each region solves for the function of least energy ``Σ E |α|²``, ``E = (ε + |ω|²)^s``, through
    the samples in and around its cell (at least the 4 (d + 1) nearest), and stores its α. Samples
    much closer to each other than `spacing` are met to about 1e-4 of the range only. In four
    dimensions and more frequencies are cut off so that a region has at most 20 000 neurons, or
    three per axis. A fit that needs gigabytes or minutes warns first.
    """
    values = with_nan(values)
    settings = _checked(Smooth() if settings is None else settings)
    x, y, single, is_complex = _check(points, values)
    d = x.shape[1]
    domain = _domain(x, bounds, dims, periodic, spacing)
    x, y = _average_repeats(_indexed(x, domain), y)
    data_range = float(np.ptp(y)) or 1.0
    offset = y.mean(axis=0)
    scale = np.max(np.abs(y - offset), axis=0)
    scale = 2.0 ** np.round(np.log2(np.where(scale > 0, scale, 1)))
    part, regions = _regions(x, (y - offset) / scale, domain, settings)
    if settings.order == "auto":
        settings = replace(settings, order=regions.suited_order())
    order = float(np.mean(settings.order))  # type: ignore[arg-type]
    alpha = regions.weights(order, reporter(progress))
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
            partition=part, groups=(group,), centres=regions.centres, radii=regions.radii
        ),
        offset=move(offset, values, dtype),
        scale=move(scale, values, dtype),
        channel_axis=None if single else d,
        is_complex=is_complex,
        input_dtype=str(values.dtype).removeprefix("torch."),
        data_range=data_range,
        settings=settings,
    )


def _checked(settings: Smooth) -> Smooth:
    """The settings, if scattered samples can honour all they say."""
    plain = isinstance(settings, Smooth) and settings.network is None and settings.layer is None
    if not plain or settings.target is not None or settings.denoise:
        raise TypeError(
            "`settings` of fit_points must be smooth(order=, cell=, overlap=) with its own product "
            f"layer, no error target and no denoising; got {settings!r}."
        )
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


@dataclass(frozen=True, eq=False, kw_only=True)
class Regions:
    """Samples by region, and the product layer they share.

    Parameters
    ----------
    x, y : arrays, shapes (n, d) and (n, C)
        Positions in index coordinates, and values.
    used : list of integer arrays
        The samples each region is fitted to.
    centres, radii : arrays, shape (N, d)
        Local coordinates of a region are (x - centre) / radius.
    layers : tuple of Cosines
        Per axis, of local coordinates.
    lengths : array, shape (m,)
        |ω|² of the product neurons, per squared sample.
    period : array, shape (d,)
        In samples; infinite where an axis does not repeat.
    """

    x: Floats
    y: Floats
    used: list[Integers]
    centres: Floats
    radii: Floats
    layers: tuple[Cosines, ...]
    lengths: Floats
    period: Floats

    def features(self, i: int) -> Floats:
        """H of region i, (S, m)."""
        u = self.x[self.used[i]] - self.centres[i]
        for k, period in enumerate(self.period.tolist()):
            if math.isfinite(period):
                u[:, k] -= np.round(u[:, k] / period) * period
        H = np.ones((len(u), 1))
        for k, a in enumerate(self.layers):
            H = (H[:, :, None] * a(u[:, k] / self.radii[i, k])[:, None, :]).reshape(len(u), -1)
        return H

    def whole_order(self, order: float) -> float:
        """On a line through it, a field of d axes is smoother by (d - 1) / 2 than as a whole."""
        return order + (len(self.layers) - 1) / 2

    def suited_order(self) -> float:
        """The order that predicts left-out samples best, in a dozen regions."""
        few = range(0, len(self.used), max(1, len(self.used) // 12))
        scores = [
            sum(
                _left_out(self.features(i), self.y[self.used[i]], self.lengths, self.whole_order(s))
                for i in few
            )
            for s in ORDERS
        ]
        return ORDERS[int(np.argmin(scores))]

    def weights(self, order: float, progress: Progress) -> Floats:
        """Output weights α of all regions, (N, m, C)."""
        alpha = np.zeros((len(self.centres), len(self.lengths), self.y.shape[1]))
        for i, near in enumerate(self.used):
            root, H, K = _system(self.features(i), self.lengths, self.whole_order(order))
            alpha[i] = root[:, None] * (H.T @ np.linalg.solve(K, self.y[near]))
            progress("fit", i + 1, len(self.used))
        return alpha


def _regions(x: Floats, y: Floats, domain: Domain, settings: Smooth) -> tuple[Partition, Regions]:
    """Cells, and what is fitted in each."""
    d = x.shape[1]
    cell = CELL.get(d, 3) if settings.cell is None else settings.cell
    overlap = settings.overlap
    if overlap is None:
        overlap = tuple(c / 4 for c in per_axis("cell", cell, d))
    context = CONTEXT.get(d, 3.0)
    wraps = np.flatnonzero(domain.periodic)
    part = Partition.regular(domain.shape, cell, overlap, periodic=wraps)
    low = np.stack(np.meshgrid(*(part.borders(k)[:-1] for k in range(d)), indexing="ij"), -1)
    high = np.stack(np.meshgrid(*(part.borders(k)[1:] for k in range(d)), indexing="ij"), -1)
    centres, half = (low + high).reshape(-1, d) / 2, (high - low).reshape(-1, d) / 2
    used, radii = _neighbours(x, centres, half + context, domain)
    span = 2 * float(np.max(half)) + 2 * context
    layer = Cosines.lattice(span, lines=False)
    count = layer.count if d <= 3 else min(layer.count, max(1, int(NEURONS ** (1 / d) - 1) // 2))
    _announce((1 + 2 * count) ** d, y.shape[1], used)
    layers = (Cosines(count, layer.fundamental * span / 2),) * d  # per unit of t in [-1, 1]
    return part, Regions(
        x=x,
        y=y,
        used=used,
        centres=centres,
        radii=radii,
        layers=layers,
        lengths=squared_lengths([a.angular / (span / 2) for a in layers]).reshape(-1),
        period=np.where(domain.periodic, domain.shape, np.inf),
    )


def _announce(m: int, C: int, used: list[Integers]) -> None:
    """Refuse what cannot be done, and say what will take long, before it begins."""
    sizes = np.asarray([len(u) for u in used], float)
    size = (
        f"{len(used)} regions of up to {int(sizes.max())} samples and {m} neurons each, "
        f"{len(used) * m * C} coefficients"
    )
    if m > MANY:
        raise ValueError(
            f"`points` have too many axes, or `cell` is too large: this fit has {size}. Use "
            "fewer axes or a smaller cell."
        )
    memory, work = 8.0 * m * (len(used) * C + 3 * sizes.max()), float(m * np.sum(sizes**2))
    if memory > WORTH_A_WORD[0] or work > WORTH_A_WORD[1]:
        warnings.warn(
            f"this fit has {size}: about {memory / 1e9:.1f} GB and {work:.0e} multiplications. A "
            "larger `spacing` or fewer samples make it cheaper.",
            UserWarning,
            stacklevel=3,
        )


def _system(H: Floats, lengths: Floats, order: float) -> tuple[Floats, Floats, Floats]:
    """``E^(-1/2)``, ``H E^(-1/2)`` and the kernel ``H E⁻¹ Hᵀ``, its diagonal a little raised."""
    root = price(lengths, order) ** -0.5
    H = H * root
    K = H @ H.T
    K[np.diag_indices_from(K)] += 1e-10 * np.trace(K) / len(K)
    return root, H, K


def _left_out(H: Floats, y: Floats, lengths: Floats, order: float) -> float:
    """Sum of squared errors when each sample of a region is predicted from the others."""
    inverse = np.linalg.inv(_system(H, lengths, order)[2])
    return float(np.sum((inverse @ y / np.diag(inverse)[:, None]) ** 2))


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


def _neighbours(
    x: Floats,
    centres: Floats,
    reach: Floats,
    domain: Domain,
) -> tuple[list[Integers], Floats]:
    """Samples each region is fitted to, and the radius of the box that holds them, (N, d)."""
    n, d = x.shape
    from scipy.spatial import cKDTree  # 0.1 s, for scattered samples only

    shape = np.asarray(domain.shape, dtype=float)
    boxsize = np.where(domain.periodic, shape, 0.0)
    at, seats = x.copy(), centres.copy()
    for k in np.flatnonzero(domain.periodic):
        at[:, k] = (at[:, k] + 0.5) % shape[k]
        seats[:, k] = (seats[:, k] + 0.5) % shape[k]
    tree = cKDTree(at, boxsize=boxsize if any(domain.periodic) else None)
    least = min(n, 4 * (d + 1))
    used, radii = [], reach.copy()
    for i, near in enumerate(tree.query_ball_point(seats, reach.max(), p=np.inf)):
        if len(near) < least:
            distance, near = tree.query(seats[i], k=least, p=np.inf)
            radii[i] = np.maximum(radii[i], np.max(distance))
            near = np.atleast_1d(near)
        if len(near) > LARGEST:
            raise ValueError(
                f"a region holds {len(near)} samples, more than {LARGEST} can be solved at once: "
                "the samples are far denser there than on average. Pass a smaller `spacing`."
            )
        used.append(np.sort(np.asarray(near, dtype=np.int64)))
    return used, radii
