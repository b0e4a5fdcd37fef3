"""How close a field is to samples: what was fitted, what it gives back, the errors between them.

Errors by cell, reports, and the values that fewer coefficients are measured against.
"""

import math
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.backend import cast, move, namespace, to_numpy
from elmfield._array.running import capacity, runs
from elmfield._array.typing import Array, Floats
from elmfield.errors import StoreError
from elmfield.field.coefficients.tiles import run_of
from elmfield.field.coordinates.parse import own_samples
from elmfield.field.grid_values import gridded, values_at_samples
from elmfield.field.uncertainty.posterior import why_none
from elmfield.measure.metrics import error_sums, max_error, peak_to_peak, psnr
from elmfield.samples import EXACT_WHOLE, WHOLE, Samples, Source, source_of, with_nan

if TYPE_CHECKING:
    from elmfield.field.blend.blended import Blended
    from elmfield.field.field import Field
    from elmfield.field.model import Model


def errors_by_cell(model: "Model", samples: Array | None) -> Floats:
    """Root mean square error in each cell's region; without `samples`, what its fit left over."""
    squares, count = _left_over(model) if samples is None else _measured(model, samples)
    with np.errstate(invalid="ignore", divide="ignore"):
        errors: Floats = np.sqrt(squares / count)[model.partition.labels]
    return errors


def _left_over(model: "Model") -> tuple[Array, Array]:
    """Sum of squares and number of samples in each region's box, (N,), as its fit left them."""
    if model.residual is None:
        reason = "it was cropped or encoded in a batch. Pass the samples: error_map(samples)."
        if model.blended.is_scattered:
            reason = "its samples are scattered. Compare their values with field(points)."
        raise ValueError(f"this field does not know its errors: {reason}")
    count = np.prod(model.partition.boxes[1], axis=1, dtype=np.int64)
    for g in model.blended.groups:  # a merged region may be less than its box
        count[g.regions] = getattr(g.model, "n_samples", count[g.regions])
    return np.asarray(model.residual) / model.n_channels, count


def _measured(model: "Model", samples: Array) -> tuple[Array, Array]:
    """Sum of squares and number of samples in each region, (N,), against `samples`."""
    part, own = model.partition, own_samples(model.domain)
    source = _source(model, samples)
    is_whole = source.shape == _shapes(model)[0]
    cells = [cell[o] for cell, o in zip(part.cell_of, own)]
    squares, count = np.zeros(part.n_regions), np.zeros(part.n_regions, np.int64)
    across = math.prod(map(len, own[1:])) * model.n_channels
    rows, k = max(1, capacity(np.empty(0)) // max(1, 8 * across)), model.channel_axis
    for i in range(0, len(own[0]), rows):
        at = [own[0][i : i + rows], *own[1:]]
        first = [o[0] if is_whole else o[0] - p[0] for o, p in zip(at, own)]
        slab = [slice(int(a), int(a) + len(o)) for a, o in zip(first, at)]
        if k is not None:
            slab.insert(k, slice(0, model.n_channels))
        truth = np.asarray(to_numpy(with_nan(source.read(tuple(slab)))))
        mine = to_numpy(gridded(model, [o.astype(np.float64) for o in at], None, "samples"))
        have = ~np.isnan(truth)
        error = np.where(have, np.abs(np.where(have, truth, 0) - mine), 0)
        region = part.labels[np.ix_(cells[0][i : i + rows], *cells[1:])]
        region = region if k is None else np.expand_dims(region, k)
        region = np.broadcast_to(region, truth.shape).ravel()
        squares += np.bincount(region, (error**2).ravel(), minlength=part.n_regions)
        count += np.bincount(region[have.ravel()], minlength=part.n_regions)
    return squares, count


def _shapes(model: "Model") -> list[tuple[int, ...]]:
    """The shapes that an array of a field's samples may have: of all of them, and of a crop's."""
    k, shapes = model.channel_axis, []
    for sizes in (model.shape, tuple(map(len, own_samples(model.domain)))):
        shapes.append(sizes if k is None else (*sizes[:k], model.n_channels, *sizes[k:]))
    return shapes


def _source(model: "Model", samples: Array) -> Source:
    """What was fitted, to be read in parts; an error if it cannot be."""
    if model.blended.is_scattered:
        raise ValueError(
            "a field of scattered samples has no array of them to compare with. Compare their "
            "values with field(points)."
        )
    source, shapes = source_of(samples), _shapes(model)
    if isinstance(samples, np.ma.MaskedArray):
        source = source_of(with_nan(samples))
    if source.shape not in shapes:
        raise ValueError(
            f"`samples` must be what was fitted, shape {' or '.join(map(str, set(shapes)))}; "
            f"got {source.shape}."
        )
    return source


def samples_to_keep(model: "Model", is_coded: bool, measured: bool) -> tuple[Samples, Array | None]:
    """What fewer coefficients are measured against, and which samples count.

    The samples that a model is made of where these `is_coded`, else its values at all of them. If
    errors are `measured`, of a crop only the samples inside count; None for all.
    """
    boxes, low, gone = model.blended.source_samples, (0,) * len(model.shape), None
    kind = model.input_dtype
    if not is_coded or boxes is None:
        if model.blended.why_all_is_kept is not None:
            raise TypeError(f"{model.blended.why_all_is_kept}.")
        y = model.blended.at_samples([np.arange(n, dtype=float) for n in model.shape])
        raw = cast(y, model.offset) * model.scale + model.offset
    else:
        low, high = model.blended.needed
        slab = tuple(map(slice, low, high))
        gone = boxes.gaps(slab)
        if boxes.is_raw:
            raw = boxes.read(slab)
            kind = str(raw.dtype)
            raw = raw.astype(to_numpy(model.offset).dtype)
        else:
            raw, kind = boxes.read_standardised(slab), "in the unit of the fit"
            raw = to_numpy(cast(raw, model.offset) * model.scale + model.offset)
    counted, limits = None, model.data_range
    if measured:
        counted, limits = _inside(model, to_numpy(raw), low)
    samples = Samples(
        raw=move(raw, model.offset),
        present=None if gone is None else move(np.broadcast_to(~gone, raw.shape), model.offset),
        offset=model.offset,
        scale=model.scale,
        data_range=limits,
        is_complex=model.is_complex,
        dtype=kind,
        is_exact=not is_coded or kind not in WHOLE or float(np.abs(raw).max()) <= EXACT_WHOLE,
    )
    return samples, None if counted is None else move(counted, model.offset)


def _inside(model: "Model", raw: Array, first: Sequence[int]) -> tuple[Array | None, float]:
    """Which samples (..., C), that begin at `first`, a crop has, None for all; their range."""
    own = own_samples(model.domain)
    if tuple(map(len, own)) == model.shape:
        return None, model.data_range
    if not all(map(len, own)):
        raise ValueError("this crop holds no samples to measure errors at.")
    inside = np.ix_(*(o - a for o, a in zip(own, first)))
    counted = np.zeros((*raw.shape[:-1], 1), bool)
    counted[inside] = True
    return counted, peak_to_peak(raw[inside])


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
    across = math.prod(shape[1:]) * samples.raw.shape[-1]
    low = (0,) * len(shape) if first is None else tuple(first)
    counts = samples.present if counted is None else counted
    rest = [a + np.arange(n, dtype=float) for a, n in zip(low[1:], shape[1:])]
    sums = []
    for i, j in runs(shape[0], max(1, (1 << 22) // max(across, 1))):
        f = blended.at_samples([low[0] + np.arange(i, j, dtype=float), *rest])
        f = cast(f, samples.offset) * samples.scale + samples.offset
        f = xp.round(f) if blended.gives_whole_numbers else f
        gap = to_numpy(f).astype(np.float64)
        gap -= to_numpy(samples.raw[i:j, ...])
        there = None if counts is None else to_numpy(counts[i:j, ..., : samples.n_channels])
        sums.append(error_sums(samples.moduli(np.abs(gap, out=gap)), there))
    squares, largest, count = zip(*sums)
    return sum(squares) / sum(count), max(largest)


def energy_in_boxes(blended: "Blended", squares: Floats) -> Floats:
    """Sums over the box of each region, (N,), of numbers at the samples that boxes need.

    Each axis has one number more than samples, 0, at which the last sum stops. Regions are regular
    cells: boxes that are alike on one axis are summed there together.
    """
    part, (starts, sizes) = blended.partition, blended.boxes
    for k, a in enumerate(blended.needed[0]):
        every = np.arange(part.n_cells[k]) * math.prod(part.n_cells[k + 1 :])
        begin, n = starts[every, k], sizes[every, k]
        low, end = begin.min(), (begin + n).max()
        at = run_of(np.append(part.within(k, np.arange(low, end)) - a, squares.shape[k] - 1))
        squares = squares[(slice(None),) * k + (at,)]  # a view, unless the axis repeats
        ends = np.stack([begin, begin + n], axis=1).ravel() - low
        squares = np.add.reduceat(squares, ends, axis=k).take(np.arange(0, len(ends), 2), axis=k)
    return squares.reshape(-1)


CALIBRATION = "left-out samples inside 50, 90, 99 %"
"""Shares of samples that lie within a posterior's intervals when they are left out."""

FORMATS = {
    "index, in coefficients": "{:.0f}",
    "coefficients per sample": "{:.3f}",
    "bits per sample": "{:.3f}",
    "rms error by region, median": "{:.3g}",
    "rms error by region, largest": "{:.3g}",
    "PSNR at the samples": "{:.2f} dB",
    "largest error": "{:.3g}",
    "PSNR held out": "{:.2f} dB",
}
"""How numbers are written; those that are not here as they are."""


@dataclass(frozen=True)
class Report(Mapping[str, Any]):
    """What is known about a field: names and numbers, printed as a table.

    Parameters
    ----------
    rows : mapping
        Numbers, tuples of them and texts, by name.

    Examples
    --------
    >>> import numpy as np, elmfield as ef
    >>> report = ef.fit(np.eye(20)).report()
    >>> report["samples"]
    (20, 20)
    """

    rows: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def texts(self) -> dict[str, str]:
        """The rows as they are shown."""
        return {name: _text(name, value) for name, value in self.items()}

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.texts.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = self.texts.items()
        cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows)
        return f"<table>{''.join(cells)}</table>"


def thumbnail_html(field: "Field") -> str:
    """A small picture of a field for notebooks; empty where it has none."""
    try:  # pictures are made above this layer
        small = import_module("elmfield.io.view_source").thumbnail(field)
    except (OSError, StoreError):  # its file is gone: the report can still be told
        small = None
    data = b64encode(small or b"").decode()
    return data and f'<img src="data:image/png;base64,{data}" alt="{escape(repr(field))}">'


def _text(name: str, value: Array) -> str:
    if np.ndim(value) == 0:
        return FORMATS.get(name, "{}").format(value)
    if name in ("samples", "samples of the whole", "cells"):
        return " × ".join(map(str, value))
    return ", ".join(f"{v:.3g}" if name in ("overlap", CALIBRATION) else str(v) for v in value)


def describe(model: "Model", samples: Array | None, heldout: float | None) -> Report:
    """Sizes, ranks and errors of a field; see `Field.report`."""
    sizes = tuple(map(len, own_samples(model.domain)))
    n_samples = math.prod(sizes) * int(model.offset.shape[0])
    rows: dict[str, object] = {"samples": sizes}
    if sizes != model.shape:
        rows["samples of the whole"] = model.shape
    rows |= {
        "samples are": model.labels.samples,
        "channels": model.n_channels,
        "complex": model.is_complex,
        "input dtype": model.input_dtype,
        "coefficient dtype": str(model.coefficient_dtype).removeprefix("torch."),
        "axes": model.domain.dims,
        "periodic axes": tuple(a.name for a in model.domain.axes if a.period is not None),
        "cells": model.partition.n_cells,
        "regions": model.partition.n_regions,
        "footprints": len(model.blended.groups),
        "overlap": model.partition.overlap,
        "rank of a region": tuple(
            sorted({getattr(g.model, "rank", g.model.n_modes) for g in model.blended.groups})
        ),
        "coefficients": model.n_coefficients,
        "index, in coefficients": model.index_cost,
        "coefficients per sample": (model.n_coefficients + model.index_cost) / max(n_samples, 1),
        "bytes kept": model.n_bytes,
        "bits per sample": 8 * model.n_bytes / max(n_samples, 1),
    }
    if model.observed is not None:
        rows |= model.observed.facts
    if model.missing is not None:
        rows["missing samples"] = int(np.sum(model.missing))
    if samples is not None or model.residual is not None:
        errors = errors_by_cell(model, samples)
        errors = errors[~np.isnan(errors)]
        if not len(errors):
            raise ValueError("`samples` must hold at least one sample; all are NaN or masked.")
        rows["rms error by region, median"] = float(np.median(errors))
        rows["rms error by region, largest"] = float(np.max(errors))
    if samples is not None:
        k, own = model.channel_axis, own_samples(model.domain)
        both = _source(model, samples).read(), values_at_samples(model, own)
        last = (x[..., None] if k is None else np.moveaxis(x, k, -1) for x in map(to_numpy, both))
        truth, mine = last
        truth = truth if truth.shape == mine.shape else truth[np.ix_(*own)]
        rows["PSNR at the samples"] = psnr(truth, mine)
        rows["largest error"] = max_error(truth, mine)
    if heldout is not None:
        rows["PSNR held out"] = heldout
    noise = False if model.settings is None else model.settings.denoise
    if noise is not False:
        rows["noise taken out"] = noise
    if why_none(model) is None and model.posterior.inner.calibration.shares:
        rows[CALIBRATION] = model.posterior.inner.calibration.shares
    if model.settings is not None:
        rows["settings"] = str(model.settings)
    return Report(rows)
