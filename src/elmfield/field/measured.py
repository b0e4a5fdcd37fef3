"""A field beside samples: what was fitted, what it gives back, and the errors between them.

Fields and samples enter; errors by cell, and what fewer coefficients are measured against, leave.
How a score is printed, and which modes to keep for one, are the next rooms' business.
"""

from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.backend import cast, move, to_numpy
from elmfield._array.typing import Array, Floats
from elmfield.field.reading import own_samples
from elmfield.measure.metrics import peak_to_peak
from elmfield.samples import Samples, with_nan

if TYPE_CHECKING:
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
    part = field.partition
    truth, mine = beside(field, samples)
    have = ~np.isnan(truth)
    error = np.where(have, np.abs(np.where(have, truth, 0) - mine), 0)
    cells = [cell[own] for cell, own in zip(part.cell_of, own_samples(field.domain))]
    region = np.broadcast_to(part.labels[np.ix_(*cells)][..., None], truth.shape).ravel()
    squares = np.bincount(region, (error**2).ravel(), minlength=part.n_regions)
    return squares, np.bincount(region[have.ravel()], minlength=part.n_regions)


def beside(field: "Field", samples: Array) -> tuple[Array, Array]:
    """What was fitted and the field's own values, channels last, as far as the domain goes."""
    if field.blended.is_scattered:
        raise ValueError(
            "a field of scattered samples has no array of them to compare with. Compare their "
            "values with field(points)."
        )
    k = field.channel_axis
    truth = np.asarray(to_numpy(with_nan(samples)))
    own, shapes = own_samples(field.domain), []
    for sizes in (field.shape, tuple(map(len, own))):
        shapes.append(sizes if k is None else (*sizes[:k], field.n_channels, *sizes[k:]))
    if truth.shape not in shapes:
        raise ValueError(
            f"`samples` must be what was fitted, shape {' or '.join(map(str, set(shapes)))}; "
            f"got {truth.shape}."
        )
    mine = np.asarray(to_numpy(field.samples()))
    truth, mine = (x[..., None] if k is None else np.moveaxis(x, k, -1) for x in (truth, mine))
    return truth if truth.shape == mine.shape else truth[np.ix_(*own)], mine


def own_values(field: "Field", measured: bool) -> Samples:
    """The field at all its samples; if errors are `measured`, of a crop only those inside count."""
    if field.blended.why_all_is_kept is not None:
        raise TypeError(f"{field.blended.why_all_is_kept}.")
    y = field.blended.on_grid([np.arange(n, dtype=float) for n in field.shape])
    raw = y * cast(field.scale, y) + cast(field.offset, y)
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
