"""What a person wants to know about a field, as a table that prints itself."""

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.measured import beside
from elmfield.field.reading import own_samples
from elmfield.measure.metrics import max_error, psnr

if TYPE_CHECKING:
    from elmfield.field.field import Field


@dataclass(frozen=True)
class Report:
    """What is known about a field: rows of a name and a text, printed as a table."""

    rows: dict[str, str]

    def __getitem__(self, name: str) -> str:
        return self.rows[name]

    def __str__(self) -> str:
        width = max(map(len, self.rows))
        return "\n".join(f"{name:<{width}}  {text}" for name, text in self.rows.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = (f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.rows.items())
        return f"<table>{''.join(cells)}</table>"


def describe(field: "Field", samples: Array | None, heldout: float | None) -> Report:
    """Sizes, ranks and errors of a field; see `Field.report`."""
    sizes = tuple(map(len, own_samples(field.domain)))
    n_samples = math.prod(sizes) * int(field.offset.shape[0])
    per_sample = (field.n_coefficients + field.index_cost) / max(n_samples, 1)
    whole = " × ".join(map(str, field.shape))
    ranks = sorted({g.modes.rank for g in field.blended.groups})
    rows = {
        "samples": whole if sizes == field.shape else f"{' × '.join(map(str, sizes))} of {whole}",
        "channels": f"{field.n_channels}" + (" (complex)" if field.is_complex else ""),
        "input dtype": field.input_dtype,
        "coefficient dtype": str(field.dtype).removeprefix("torch."),
        "axes": ", ".join(
            a.name + (" (periodic)" if a.period is not None else "") for a in field.domain.axes
        ),
        "cells": " × ".join(map(str, field.partition.n_cells)),
        "regions": f"{field.partition.n_regions}",
        "footprints": f"{len(field.blended.groups)}",
        "overlap": ", ".join(f"{o:g}" for o in field.partition.overlap),
        "rank of a region": ", ".join(map(str, ranks)),
        "coefficients": f"{field.n_coefficients}",
        "index, in coefficients": f"{field.index_cost:.0f}",
        "coefficients per sample": f"{per_sample:.3f}",
    }
    if samples is not None:
        truth, mine = beside(field, samples)
        have = ~np.isnan(truth)
        if not have.any():
            raise ValueError("`samples` must hold at least one sample; all are NaN or masked.")
    if samples is not None or field.residual is not None:
        errors = field.error_map(samples)
        errors = errors[~np.isnan(errors)]
        rows["rms error by region, median"] = f"{np.median(errors):.3g}"
        rows["rms error by region, largest"] = f"{np.max(errors):.3g}"
    if samples is not None:
        rows["PSNR at the samples"] = f"{psnr(truth[have], mine[have]):.2f} dB"
        rows["largest error"] = f"{max_error(truth[have], mine[have]):.3g}"
    if heldout is not None:
        rows["PSNR held out"] = f"{heldout:.2f} dB"
    if field.settings is not None:
        rows["settings"] = str(field.settings)
    return Report(rows)
