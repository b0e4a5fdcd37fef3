"""compare and beam: how well a model gives samples back, and regions of equal energy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from elmfield.cli.tables import in_bytes, print_json, show
from elmfield.cli.words import IN, OUT, as_json, numbers, read_options, samples_of


@click.command(
    epilog="""\b
Examples:
  elmfield compare photo.png photo.elm
  elmfield compare photo.png photo.elm --map error.png --json
"""
)
@click.argument("input", type=IN)
@click.argument("model", type=click.Path())
@click.option(
    "--map", "picture", type=OUT, metavar="FILE.png", help="Write a picture of the error."
)
@click.option("--heldout", is_flag=True, help="Also fit every second sample and score the others.")
@read_options
@as_json
def compare(
    input: Path,
    model: str,
    picture: Path | None,
    heldout: bool,
    variable: str | None,
    slices: Sequence[str],
    channel_axis: int | str | None,
    as_json: bool,
) -> None:
    """How well MODEL gives back the samples in INPUT; which variable and slices, it knows."""
    from elmfield.io.model.entries import open_entries
    from elmfield.io.model.restore import field_of

    entries = open_entries(model)
    field = field_of(entries)
    made = field.attributes.get("source", {})
    samples = samples_of(
        input,
        variable or made.get("variable"),
        slices or made.get("slices", ()),
        made.get("channel_axis") if channel_axis is None else channel_axis,
        lazily=True,
    )
    if samples.shape != field.shape:
        raise ValueError(
            f"{input.name} has shape {samples.shape}, the model {field.shape}; they cannot be "
            "compared."
        )
    errors = Errors(samples, field, picture is not None)
    facts = errors.facts(sum(entries.sizes().values()))
    if heldout:
        facts["heldout_psnr_db"] = errors.heldout()
    if picture is not None:
        errors.draw(picture)
        facts["map"] = str(picture)
    if as_json:
        print_json(facts)
    else:
        show({name: _shown(key, facts[key]) for key, name in NAMES.items() if key in facts})


NAMES = {
    "psnr_db": "PSNR, of the range",
    "psnr_255_db": "PSNR, of 255",
    "paper_psnr_db": "the paper's PSNR (at most 80)",
    "heldout_psnr_db": "held-out PSNR",
    "mae": "mean absolute error",
    "rmse": "root mean square error",
    "max_error": "largest error",
    "coefficients_per_sample": "coefficients per sample",
    "bits_per_sample": "bits per sample",
    "bytes": "model",
    "missing": "missing samples",
    "map": "map of the error",
}
"""What a table calls the facts that JSON has."""


def _shown(key: str, value: Any) -> Any:
    if key == "bytes":
        return in_bytes(value)
    if key.endswith("_db"):
        return f"{value:.2f} dB"
    return f"{value:.6g}" if isinstance(value, float) else value


class Errors:
    """A field beside the samples it was made from, block by block; gaps in them do not count."""

    def __init__(self, samples: Any, field: Any, keeps: bool) -> None:
        import numpy as np

        from elmfield.field.streamed import Slabs
        from elmfield.io.stream.coding import Score, blocks_beside, scored
        from elmfield.samples import source_of

        self.field, self.values = field, samples.values
        self.channel_axis = samples.channel_axis
        slabs = Slabs(source=source_of(self.values), channel_axis=self.channel_axis)
        self.score = Score()
        self.gap = np.zeros((*field.shape, field.n_channels), np.float32) if keeps else None
        for slab in blocks_beside(field, slabs):
            found, gap = scored(field, slabs, slab)
            self.score |= found
            if self.gap is not None:
                self.gap[slab] = gap

    def facts(self, size: int) -> dict[str, Any]:
        """Errors and sizes; the model takes `size` bytes."""
        import math

        score, n = self.score, math.prod(self.values.shape)
        facts: dict[str, Any] = {
            "psnr_db": score.psnr(),
            "mae": score.moduli / max(1, score.count),
            "rmse": math.sqrt(score.mean_square),
            "max_error": score.largest,
            "range": [score.low, score.high],
            "samples": int(n),
            "missing": score.missing,
            "coefficients": self.field.n_coefficients,
            "coefficients_per_sample": self.field.n_coefficients / n,
            "bytes": size,
            "bits_per_sample": 8 * size / n,
        }
        if str(self.values.dtype) == "uint8":
            facts["psnr_255_db"] = score.psnr(255)
        paper = None if self.field.is_complex else score.paper_psnr
        return facts if paper is None else facts | {"paper_psnr_db": paper}

    def heldout(self) -> float:
        """The score of every second sample, fitted as the model was if it says how."""
        import numpy as np

        from elmfield import heldout_score
        from elmfield.settings import Settings

        made = self.field.settings
        settings = made if isinstance(made, Settings) else None
        return heldout_score(np.asarray(self.values), settings, channel_axis=self.channel_axis)

    def draw(self, path: Path) -> None:
        """Write a picture of the largest error of all channels."""
        import numpy as np

        from elmfield.io.beside import write_whole
        from elmfield.io.formats.raster import png
        from elmfield.show.render import flat, picture

        assert self.gap is not None
        write_whole(path, png(picture(flat(self.gap, -1, np.max), "error")))


@click.command(
    epilog="""\b
Example:
  elmfield beam photo.png --cell 16 --regions 60 -o regions.png
"""
)
@click.argument("input", type=IN)
@click.option("-o", "--output", type=OUT, metavar="FILE.png", help="Draw the regions.")
@click.option("--cell", metavar="N[,N...]", default="16", show_default=True, help="Cells to merge.")
@click.option("--regions", type=int, metavar="N", help="Merge into so many regions.")
@click.option("--threshold", type=float, metavar="TAU", help="Or merge up to this energy.")
@read_options
@as_json
def beam(
    input: Path,
    output: Path | None,
    cell: str,
    regions: int | None,
    threshold: float | None,
    variable: str | None,
    slices: Sequence[str],
    channel_axis: int | str | None,
    as_json: bool,
) -> None:
    """Cut INPUT into regions of about equal energy (BEAM): sizes, energies, and a picture."""
    import numpy as np

    from elmfield import Partition, barron_norm

    if (regions is None) == (threshold is None):
        raise click.UsageError("Say either --regions N or --threshold TAU.")
    samples = samples_of(input, variable, slices, channel_axis)
    channel = samples.channel_axis
    partition = Partition.beam(
        samples.values,
        cell=numbers(cell, "--cell", int),
        regions=regions,
        threshold=threshold,
        channel_axis=channel,
        periodic=[samples.dims.index(n) for n in samples.periods],
    )
    beta = np.asarray(barron_norm(samples.values, partition=partition, channel_axis=channel))
    cells = np.bincount(partition.labels.reshape(-1))
    if output is not None:
        _draw_regions(samples, partition, output)
    facts = {
        "regions": partition.n_regions,
        "cells": list(partition.n_cells),
        "energy": {"least": beta.min(), "median": np.median(beta), "greatest": beta.max()},
        "energies": beta.tolist(),
        "cells_per_region": cells.tolist(),
        "picture": None if output is None else str(output),
    }
    if as_json:
        print_json(facts)
        return
    rows = {
        "regions": f"{partition.n_regions} of {' × '.join(map(str, partition.n_cells))} cells",
        "largest": f"{cells.max()} cells",
        "energy": f"{beta.min():.4g} (least), {np.median(beta):.4g} (median), "
        f"{beta.max():.4g} (greatest)",
        "picture": facts["picture"],
    }
    show({name: text for name, text in rows.items() if text is not None})


def _draw_regions(samples: Any, partition: Any, path: Path) -> None:
    """Write the samples in grey with the borders of the regions drawn in."""
    import numpy as np

    from elmfield.io.beside import write_whole
    from elmfield.io.formats.raster import png
    from elmfield.partition import fixed_axes, plane_of
    from elmfield.show.render import picture, with_regions

    if len(samples.shape) < 2:
        raise ValueError(f"regions are drawn over two axes or more; got {samples.dims[0]} alone.")
    values, channel = np.asarray(samples.values), samples.channel_axis
    values = values if channel is None else np.mean(values, axis=channel)
    fixed = fixed_axes(partition.shape)  # of a volume the middle
    cut = values[tuple(fixed.get(k, slice(None)) for k in range(values.ndim))]
    write_whole(path, png(with_regions(picture(cut, "grey"), plane_of(partition))))
