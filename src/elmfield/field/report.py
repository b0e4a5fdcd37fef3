"""What a person wants to know about a field: numbers, as a table that prints itself."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from elmfield._array.typing import Array
from elmfield.field.measured import beside
from elmfield.field.reading import own_samples
from elmfield.measure.metrics import max_error, psnr

if TYPE_CHECKING:
    from elmfield.field.field import Field

SHOWN = {
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


def _text(name: str, value: Any) -> str:
    if np.ndim(value) == 0:
        return SHOWN.get(name, "{}").format(value)
    if name in ("samples", "samples of the whole", "cells"):
        return " × ".join(map(str, value))
    return ", ".join(f"{v:g}" if name == "overlap" else str(v) for v in value)


def describe(field: "Field", samples: Array | None, heldout: float | None) -> Report:
    """Sizes, ranks and errors of a field; see `Field.report`."""
    sizes = tuple(map(len, own_samples(field.domain)))
    n_samples = math.prod(sizes) * int(field.offset.shape[0])
    rows: dict[str, Any] = {"samples": sizes}
    if sizes != field.shape:
        rows["samples of the whole"] = field.shape
    rows |= {
        "channels": field.n_channels,
        "complex": field.is_complex,
        "input dtype": field.input_dtype,
        "coefficient dtype": str(field.coefficient_dtype).removeprefix("torch."),
        "axes": field.domain.dims,
        "periodic axes": tuple(a.name for a in field.domain.axes if a.period is not None),
        "cells": field.partition.n_cells,
        "regions": field.partition.n_regions,
        "footprints": len(field.blended.groups),
        "overlap": field.partition.overlap,
        "rank of a region": tuple(sorted({g.model.rank for g in field.blended.groups})),
        "coefficients": field.n_coefficients,
        "index, in coefficients": field.index_cost,
        "coefficients per sample": (field.n_coefficients + field.index_cost) / max(n_samples, 1),
        "bytes kept": field.n_bytes,
        "bits per sample": 8 * field.n_bytes / max(n_samples, 1),
    }
    if field.missing is not None:
        rows["missing samples"] = int(np.sum(field.missing))
    if samples is not None:
        truth, mine = beside(field, samples)
        have = ~np.isnan(truth)
        if not have.any():
            raise ValueError("`samples` must hold at least one sample; all are NaN or masked.")
    if samples is not None or field.residual is not None:
        errors = field.error_map(samples)
        errors = errors[~np.isnan(errors)]
        rows["rms error by region, median"] = float(np.median(errors))
        rows["rms error by region, largest"] = float(np.max(errors))
    if samples is not None:
        rows["PSNR at the samples"] = psnr(truth[have], mine[have])
        rows["largest error"] = max_error(truth[have], mine[have])
    if heldout is not None:
        rows["PSNR held out"] = heldout
    if field.settings is not None:
        rows["settings"] = str(field.settings)
    return Report(rows)
