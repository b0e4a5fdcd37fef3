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
    import numpy as np

    from elmfield._array.backend import to_numpy
    from elmfield.io.formats.raster import png
    from elmfield.io.model.restore import field_of
    from elmfield.io.model.source import open_source
    from elmfield.measure.metrics import mae, max_error, paper_psnr, psnr
    from elmfield.show.render import flat
    from elmfield.show.render import picture as draw

    source = open_source(model)
    field = field_of(source)
    made = field.attributes.get("source", {})
    samples = samples_of(
        input,
        variable or made.get("variable"),
        slices or made.get("slices", ()),
        made.get("channel_axis") if channel_axis is None else channel_axis,
    )
    truth = np.asarray(samples.values)
    if samples.shape != field.shape:
        raise ValueError(
            f"{input.name} has shape {samples.shape}, the model {field.shape}; they cannot be "
            "compared."
        )
    estimate = to_numpy(field.samples())
    good = np.isfinite(truth)
    wide = np.complex128 if np.iscomplexobj(truth) else np.float64
    t, e = truth.astype(wide), estimate.astype(wide)
    gap = np.where(good, np.abs(np.where(good, t, 0) - e), 0)
    size = sum(source.sizes().values())
    facts: dict[str, Any] = {
        "psnr_db": psnr(t[good], e[good]),
        "mae": mae(t[good], e[good]),
        "rmse": float(np.sqrt(np.mean(gap[good] ** 2))),
        "max_error": max_error(t[good], e[good]),
        "range": [float(np.min(np.abs(t[good]) if wide is np.complex128 else t[good])),
                  float(np.max(np.abs(t[good]) if wide is np.complex128 else t[good]))],
        "samples": int(truth.size),
        "missing": int((~good).sum()),
        "coefficients": field.n_coefficients,
        "coefficients_per_sample": field.n_coefficients / truth.size,
        "bytes": size,
        "bits_per_sample": 8 * size / truth.size,
    }  # fmt: skip
    if wide is np.float64 and truth.dtype == np.uint8:
        facts["psnr_255_db"] = psnr(t[good], e[good], data_range=255)
    if wide is np.float64 and good.all():
        peaks = t.max() if field.channel_axis is None else np.moveaxis(t, field.channel_axis, 0)
        if np.all(np.max(peaks.reshape(-1, 1) if np.ndim(peaks) == 0 else
                         peaks.reshape(len(peaks), -1), axis=-1) > 0):  # fmt: skip
            facts["paper_psnr_db"] = paper_psnr(t, e, channel_axis=field.channel_axis)
    if heldout:
        from elmfield.measure.heldout import heldout_score

        settings: Any = field.settings if hasattr(field.settings, "modes") else None
        facts["heldout_psnr_db"] = heldout_score(truth, settings, channel_axis=samples.channel_axis)
    if picture is not None:
        shown = flat(gap, field.channel_axis, np.max)
        picture.write_bytes(png(draw(shown, "error")))
        facts["map"] = str(picture)
    if as_json:
        print_json(facts)
        return
    names = {
        "psnr_db": "PSNR, of the range", "psnr_255_db": "PSNR, of 255",
        "paper_psnr_db": "the paper's PSNR (at most 80)", "heldout_psnr_db": "held-out PSNR",
        "mae": "mean absolute error", "rmse": "root mean square error",
        "max_error": "largest error", "coefficients_per_sample": "coefficients per sample",
        "bits_per_sample": "bits per sample", "bytes": "model", "missing": "missing samples",
        "map": "map of the error",
    }  # fmt: skip
    rows = {}
    for key, name in names.items():
        if key in facts:
            v = facts[key]
            text = (
                f"{v:.2f} dB" if key.endswith("_db") else f"{v:.6g}" if isinstance(v, float) else v
            )
            rows[name] = in_bytes(v) if key == "bytes" else text
    show(rows)


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

    from elmfield.io.formats.raster import png
    from elmfield.partition import Partition, barron_norm
    from elmfield.show.render import flat, with_regions
    from elmfield.show.render import picture as draw

    if (regions is None) == (threshold is None):
        raise click.UsageError("Say either --regions N or --threshold TAU.")
    samples = samples_of(input, variable, slices, channel_axis)
    wraps = [samples.dims.index(n) for n in samples.periods]
    channel = samples.channel_axis
    partition = Partition.beam(
        samples.values,
        cell=numbers(cell, "--cell", int),
        regions=regions,
        threshold=threshold,
        channel_axis=channel,
        periodic=wraps,
    )
    beta = np.asarray(barron_norm(samples.values, partition=partition, channel_axis=channel))
    cells = np.bincount(partition.labels.reshape(-1))
    if output is not None:
        if len(samples.shape) != 2:
            raise ValueError(
                f"regions can be drawn for two axes; got {', '.join(samples.dims)}. Choose a "
                "--slice."
            )
        grey = draw(flat(samples.values, channel, np.mean), "grey")
        output.write_bytes(png(with_regions(grey, partition)))
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
    }
    if output is not None:
        rows["picture"] = str(output)
    show(rows)
