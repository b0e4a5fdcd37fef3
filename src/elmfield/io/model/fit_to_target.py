"""Error targets that still hold once a field is stored with fewer digits.

Samples in; a field and the dtype to store it with out. What is measured is what a reader of the
file will get, so rounding counts.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from elmfield.field import Field
from elmfield.io.api import fit
from elmfield.io.gridded import Gridded
from elmfield.io.model.save import as_stored, own_dtype, to_bytes
from elmfield.measure.metrics import max_error, psnr
from elmfield.settings import Settings, Target

MAX_FITS = 5
"""To a tighter target; one is nearly always enough."""

OVERHEAD_BYTES = 2200
"""Of a file, all but its samples, about."""


def fit_stored(
    samples: Gridded, settings: Settings | None, /, *, dtype: str | None = None, **options: Any
) -> tuple[Field, str]:
    """Fit a field that keeps its target once stored; return it and the dtype to store it with.

    Parameters
    ----------
    samples : Gridded
        The samples.
    settings
        With or without a target.
    dtype : str, optional
        What to store; by default the field's own, or float32 for coefficients of whole numbers up
        to 16 bits if that keeps the target.
    **options
        Of :func:`elmfield.fit`.

    Raises
    ------
    ValueError
        If the target cannot be kept.
    """
    target: Target | None = None if settings is None else settings.target
    if target is not None and target.kind == "bytes":
        return _fit_file(samples, settings, dtype, options)
    field = fit(samples, settings, **options)
    own = own_dtype(field)
    given, is_coded = samples.values.dtype, field.model.blended.source_samples is not None
    narrow = given.kind in "biu" and given.itemsize <= 2 and not is_coded
    dtypes = (dtype,) if dtype is not None else ("float32", own) if narrow else (own,)
    if target is None or target.kind not in ("psnr", "max_error"):
        return field, dtypes[0]
    for name in dtypes:
        if np.dtype(name).itemsize >= np.dtype(own).itemsize:
            return field, name  # stored bit for bit
        kept, reached = _tighten(field, samples, settings, name, options)
        if kept is not None:
            return kept, name
    raise ValueError(
        f"`{target.kind}` cannot be kept: stored as {name} the field measures {reached}; got "
        f"{target.value:g}. Choose a wider dtype, or a target that leaves room for rounding."
    )


def _fit_file(
    samples: Gridded, settings: Any, dtype: str | None, options: dict[str, Any]
) -> tuple[Field, str]:
    """Fit a field whose whole file has at most the bytes that were asked for."""
    room = int(settings.target.value)
    overhead = OVERHEAD_BYTES
    for _ in range(MAX_FITS):
        if overhead >= room:
            why = f"a file takes about {overhead} bytes beside its samples"
            raise ValueError(f"`bytes` cannot be kept: {why}; got {room}.")
        inner = replace(settings, target=replace(settings.target, value=room - overhead))
        field = fit(samples, inner, **options)
        settled: Any = field.settings
        field = Field(replace(field.model, settings=replace(settled, target=settings.target)))
        name = dtype or own_dtype(field)
        size = len(to_bytes(field, name))
        if size <= room and size - field.n_bytes > overhead - 256:
            return field, name
        overhead = size - field.n_bytes + 16
    return field, name


def _tighten(
    field: Field, samples: Gridded, settings: Any, dtype: str, options: dict[str, Any]
) -> tuple[Field | None, str]:
    """Fit a field that meets the target after rounding, or None; say what was reached first.

    Rounding adds to the error, so the fit is asked for less by what it added. Where that is more
    than half of all that is allowed, a wider dtype is the better bargain.
    """
    target, peak = settings.target, field.model.data_range
    is_psnr = target.kind == "psnr"
    allowed = limit = peak**2 * 10 ** (-target.value / 10) if is_psnr else float(target.value)
    now, first = field, ""
    for _ in range(MAX_FITS):
        got = _measure_error(as_stored(now, dtype), samples, target.kind)
        if got <= allowed:
            return Field(replace(now.model, settings=field.settings)), first
        found = f"{10 * math.log10(peak**2 / got):.6g} dB" if is_psnr else f"{got:.6g}"
        first = first or found
        limit = allowed - 1.25 * (got - _measure_error(now, samples, target.kind))
        if limit < allowed / 2:
            break
        tighter = target.value - 10 * math.log10(limit / allowed) if is_psnr else limit
        try:
            tight = replace(settings, target=replace(target, value=tighter))
            now = fit(samples, tight, **options)
        except ValueError:  # so much cannot be reached
            break
    return None, first


def _measure_error(field: Field, samples: Gridded, kind: str) -> float:
    """Return the largest, or mean squared, error at the samples that are there."""
    got, peak = field.samples(missing="fill"), field.model.data_range
    if kind == "max_error":
        return max_error(samples.values, got)
    return float(peak**2 * 10 ** (-psnr(samples.values, got, data_range=peak) / 10))
