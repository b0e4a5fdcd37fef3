"""A field beside samples: what was fitted, what it gives back, and the errors between them.

Fields and samples enter; errors by cell, and what fewer coefficients are measured against, leave.
How a score is printed, and which modes to keep for one, are the next rooms' business.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import cast, move, namespace, to_numpy
from elmfield._array.memory import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.field.gridded import gridded
from elmfield.field.reading import own_samples
from elmfield.measure.metrics import peak_to_peak
from elmfield.samples import Samples, Source, source_of, with_nan

if TYPE_CHECKING:
    from elmfield.field.blended import Blended
    from elmfield.field.field import Field


def errors_by_cell(field: "Field", samples: Array | None) -> Floats:
    """Root mean square error in each cell's region; without `samples`, what its fit left over."""
    squares, count = _left_over(field) if samples is None else _measured(field, samples)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors: Floats = np.sqrt(squares / count)[field.partition.labels]
    return errors


def _left_over(field: "Field") -> tuple[Array, Array]:
    """Sum of squares and number of samples in each region's box, (N,), as its fit left them."""
    if field.residual is None:
        beside_what = "it was cropped or encoded in a batch. Pass the samples: error_map(samples)."
        if field.blended.is_scattered:
            beside_what = "its samples are scattered. Compare their values with field(points)."
        raise ValueError(f"this field does not know its errors: {beside_what}")
    count = np.prod(field.partition.boxes[1], axis=1, dtype=np.int64)
    for g in field.blended.groups:  # a merged region may be less than its box
        basis = g.model.basis
        if basis is not None:
            count[g.regions] = basis.n_samples
    return np.asarray(field.residual) / field.n_channels, count


def _measured(field: "Field", samples: Array) -> tuple[Array, Array]:
    """Sum of squares and number of samples in each region, (N,), against `samples`."""
    part, own = field.partition, own_samples(field.domain)
    source = _source(field, samples)
    is_cropped = tuple(map(len, own)) != field.shape and source.shape == _shapes(field)[0]
    cells = [cell[o] for cell, o in zip(part.cell_of, own)]
    squares, count = np.zeros(part.n_regions), np.zeros(part.n_regions, np.int64)
    across = math.prod(map(len, own[1:])) * field.n_channels
    rows, k = max(1, capacity(np.empty(0)) // max(1, 8 * across)), field.channel_axis
    for i in range(0, len(own[0]), rows):
        at = [own[0][i : i + rows], *own[1:]]
        first = [o[0] if is_cropped else o[0] - p[0] for o, p in zip(at, own)]
        slab = [slice(int(a), int(a) + len(o)) for a, o in zip(first, at)]
        if k is not None:
            slab.insert(k, slice(0, field.n_channels))
        truth = np.asarray(to_numpy(with_nan(source.read(tuple(slab)))))
        mine = to_numpy(gridded(field, [o.astype(np.float64) for o in at], None))
        have = ~np.isnan(truth)
        error = np.where(have, np.abs(np.where(have, truth, 0) - mine), 0)
        region = part.labels[np.ix_(cells[0][i : i + rows], *cells[1:])]
        region = region if k is None else np.expand_dims(region, k)
        region = np.broadcast_to(region, truth.shape).ravel()
        squares += np.bincount(region, (error**2).ravel(), minlength=part.n_regions)
        count += np.bincount(region[have.ravel()], minlength=part.n_regions)
    return squares, count


def _shapes(field: "Field") -> list[tuple[int, ...]]:
    """The shapes that an array of a field's samples may have: of all of them, and of a crop's."""
    k, shapes = field.channel_axis, []
    for sizes in (field.shape, tuple(map(len, own_samples(field.domain)))):
        shapes.append(sizes if k is None else (*sizes[:k], field.n_channels, *sizes[k:]))
    return shapes


def _source(field: "Field", samples: Any) -> Source:
    """What was fitted, to be read in parts; an error if it cannot be."""
    if field.blended.is_scattered:
        raise ValueError(
            "a field of scattered samples has no array of them to compare with. Compare their "
            "values with field(points)."
        )
    source, shapes = source_of(samples), _shapes(field)
    if isinstance(samples, np.ma.MaskedArray):
        source = source_of(with_nan(samples))
    if source.shape not in shapes:
        raise ValueError(
            f"`samples` must be what was fitted, shape {' or '.join(map(str, set(shapes)))}; "
            f"got {source.shape}."
        )
    return source


def beside(field: "Field", samples: Any) -> tuple[Array, Array]:
    """What was fitted and the field's own values, channels last, as far as the domain goes."""
    k, own = field.channel_axis, own_samples(field.domain)
    truth = np.asarray(to_numpy(_source(field, samples).read()))
    mine = np.asarray(to_numpy(field.samples(missing="fill")))
    truth, mine = (x[..., None] if k is None else np.moveaxis(x, k, -1) for x in (truth, mine))
    return truth if truth.shape == mine.shape else truth[np.ix_(*own)], mine


def own_values(field: "Field", measured: bool) -> Samples:
    """The field at all its samples; if errors are `measured`, of a crop only those inside count."""
    if field.blended.why_all_is_kept is not None:
        raise TypeError(f"{field.blended.why_all_is_kept}.")
    y = field.blended.on_grid([np.arange(n, dtype=float) for n in field.shape])
    raw = cast(y, field.offset) * field.scale + field.offset
    present, limits = _present(field, raw) if measured else (None, field.data_range)
    return Samples(
        raw=raw,
        present=present,
        offset=field.offset,
        scale=field.scale,
        data_range=limits,
        is_complex=field.is_complex,
        dtype=field.input_dtype,
        brought=y,
    )


def kept_values(field: "Field") -> tuple[Samples, tuple[int, ...], Array | None]:
    """The samples that a field is made of, where they begin, and which a crop counts; None: all."""
    boxes = field.blended.made_of
    assert boxes is not None
    low, high = field.blended.needed
    slab = tuple(map(slice, low, high))
    if boxes.is_raw:
        raw = boxes.kept(slab)
        kind = str(raw.dtype)
        raw = raw.astype(to_numpy(field.offset).dtype)
    else:
        raw, kind = boxes.block(slab), "in the unit of the fit"
        raw = to_numpy(cast(raw, field.offset) * field.scale + field.offset)
    gone = boxes.gaps(slab)
    own = own_samples(field.domain)
    counted, limits = None, field.data_range
    if tuple(map(len, own)) != field.shape:
        if not all(map(len, own)):
            raise ValueError("this crop holds no samples to measure errors at.")
        inside = np.ix_(*(o - a for o, a in zip(own, low)))
        counted = np.zeros((*raw.shape[:-1], 1), bool)
        counted[inside] = True
        limits = peak_to_peak(raw[inside])
    samples = Samples(
        raw=move(raw, field.offset),
        present=None if gone is None else move(np.broadcast_to(~gone, raw.shape), field.offset),
        offset=field.offset,
        scale=field.scale,
        data_range=limits,
        is_complex=field.is_complex,
        dtype=kind,
    )
    return samples, low, None if counted is None else move(counted, field.offset)


def _present(field: "Field", raw: Array) -> tuple[Array | None, float]:
    """Which samples a crop has, of the shape of all; None for all. And their peak to peak."""
    own = own_samples(field.domain)
    if tuple(map(len, own)) == field.shape:
        return None, field.data_range
    if not all(map(len, own)):
        raise ValueError("this crop holds no samples to measure errors at.")
    present = np.zeros(field.shape, bool)
    present[np.ix_(*own)] = True
    inside = to_numpy(raw)[np.ix_(*own)]
    present = np.broadcast_to(present[..., None], raw.shape)
    return move(present, raw), peak_to_peak(inside)


_SQUARED = 1e150
"""Errors from here on have no square in float64: their mean is infinite."""


def errors(
    samples: Samples,
    blended: "Blended",
    first: Sequence[int] | None = None,
    counted: Array | None = None,
) -> tuple[float, float]:
    """Mean squared and largest absolute error of what a caller gets back, rounding included.

    At the samples that are present, or those `counted`; they begin at `first` of the array.
    """
    xp = namespace(samples.raw)
    shape = samples.raw.shape[:-1]
    total, largest, count = 0.0, 0.0, 0
    across = math.prod(shape[1:]) * samples.raw.shape[-1]
    low = (0,) * len(shape) if first is None else tuple(first)
    counts = samples.present if counted is None else counted
    rest = [a + np.arange(n, dtype=float) for a, n in zip(low[1:], shape[1:])]
    for i, j in runs(shape[0], max(1, (1 << 22) // max(across, 1))):
        f = blended.on_grid([low[0] + np.arange(i, j, dtype=float), *rest])
        f = cast(f, samples.offset) * samples.scale + samples.offset
        f = xp.round(f) if blended.gives_whole_numbers else f
        e = xp.abs(xp.astype(f, xp.float64) - xp.astype(samples.raw[i:j, ...], xp.float64))
        e = samples.moduli(e)
        if counts is not None:
            have = xp.broadcast_to(counts[i:j, ..., : samples.n_channels], e.shape)
            e = xp.where(have, e, xp.zeros_like(e))
            count += int(xp.sum(xp.astype(have, xp.int64)))
        else:
            count += math.prod(e.shape)
        peak = float(xp.max(e))
        total += float(xp.sum(e * e)) if peak < _SQUARED else math.inf
        largest = max(largest, peak)
    return total / count, largest


def left_between(before: "Blended", after: "Blended", units: Floats) -> Floats:
    """Sum of squares, (N,), by which the samples of each region's box differ, in their units."""
    left = np.zeros(before.partition.n_regions)
    for g, h in zip(before.groups, after.groups):
        c, counts = g.coefficients, g.coefficients.counts
        step = max(1, capacity(c.like) // (4 * c.shape[1] * c.shape[2]))
        for i, j in runs(len(g.regions), step):
            # The numbers are samples, or coordinates of them in orthonormal modes.
            rows = np.arange(i, j)
            mine, theirs = (
                to_numpy(x.numbers(rows)).reshape(-1, len(units)) for x in (c, h.coefficients)
            )
            with np.errstate(over="ignore"):  # infinite where float64 has no squares
                squares = np.sum(((mine.astype(np.float64) - theirs) * units) ** 2, axis=1)
            ends = np.cumsum(counts[rows] // len(units))
            left[g.regions[i:j]] = np.add.reduceat(squares, ends - counts[rows] // len(units))
    return left
