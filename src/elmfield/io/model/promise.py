"""Error targets that still hold once a field is stored with fewer digits.

Samples in; a field and the dtype to store it with out. What is measured is what a reader of the
file will get, so rounding counts.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmfield._array.backend import to_numpy
from elmfield.field import Field, Target
from elmfield.io.door import fit
from elmfield.io.gridded import Gridded
from elmfield.io.model.store import as_stored
from elmfield.settings import Settings

TRIES = 5
"""Fits to a tighter target; one is nearly always enough."""


def fit_stored(
    samples: Gridded, settings: Settings | None, *, dtypes: Sequence[str | None], **options: Any
) -> tuple[Field, str]:
    """A field that keeps its error target once stored, and the dtype to store it with.

    Parameters
    ----------
    samples : Gridded
        The samples.
    settings
        With or without a target.
    dtypes : sequence of str or None
        What may be stored, best first; None for the field's own.
    **options
        Of :func:`elmfield.fit`.

    Raises
    ------
    ValueError
        If none of the dtypes can keep the target.
    """
    field = fit(samples, settings, **options)
    own = str(field.coefficient_dtype).removeprefix("torch.")
    target: Target | None = None if settings is None else settings.target
    if target is None or target.kind not in ("psnr", "max_error"):
        return field, dtypes[0] or own
    missed = ""
    for dtype in dtypes:
        name = dtype or own
        if np.dtype(name).itemsize >= np.dtype(own).itemsize:
            return field, name  # stored bit for bit
        kept, reached = _tightened(field, samples, settings, name, options)
        if kept is not None:
            return kept, name
        missed = f"with coefficients stored as {name} the field measures {reached}"
    raise ValueError(
        f"`{target.kind}` cannot be kept: {missed}; got {target.value:g}. Choose a wider dtype, or "
        "a target that leaves room for rounding."
    )


def _tightened(
    field: Field, samples: Gridded, settings: Any, dtype: str, options: dict[str, Any]
) -> tuple[Field | None, str]:
    """A field that meets the target after rounding, or None; and what was reached first.

    Rounding adds to the error, so the fit is asked for less by what it added. Where that is more
    than half of all that is allowed, a wider dtype is the better bargain.
    """
    target = settings.target
    allowed = limit = _as_error(target, field)
    now, first = field, ""
    for _ in range(TRIES):
        got = _error(as_stored(now, dtype), samples, target.kind)
        if got <= allowed:
            return replace(now, settings=field.settings), first
        first = first or _shown(target.kind, got, field)
        limit = allowed - 1.25 * (got - _error(now, samples, target.kind))
        if limit < allowed / 2:
            break
        tighter = target.value if target.kind == "psnr" else limit
        if target.kind == "psnr":
            tighter -= 10 * math.log10(limit / allowed)
        try:
            now = fit(samples, replace(settings, target=Target(target.kind, tighter)), **options)
        except ValueError:  # so much cannot be reached
            break
    return None, first


def _as_error(target: Target, field: Field) -> float:
    """The largest, or mean squared, error that a target allows."""
    if target.kind == "max_error":
        return float(target.value)
    return float(field.data_range**2 * 10 ** (-target.value / 10))


def _shown(kind: str, error: float, field: Field) -> str:
    if kind == "max_error":
        return f"{error:.6g}"
    return f"{10 * math.log10(field.data_range**2 / error):.6g} dB"


def _error(field: Field, samples: Gridded, kind: str) -> float:
    """The largest, or mean squared, error at the samples that are there."""
    truth, got = np.asarray(samples.values), to_numpy(field.samples())
    wide = np.complex128 if np.iscomplexobj(truth) else np.float64
    gap = np.abs(got.astype(wide) - truth.astype(wide))
    gap = gap[np.isfinite(truth)]
    return float(gap.max() if kind == "max_error" else np.mean(gap**2))
