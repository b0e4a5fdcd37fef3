"""fit and info: from samples to a model, and what a model holds."""

import math
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click

from elmfield.cli.tables import in_bytes, print_json, show, size_of
from elmfield.cli.words import (
    IN,
    OUT,
    as_json,
    assignment,
    n_bytes,
    numbers,
    quiet,
    read_options,
    samples_of,
)


@click.command(
    epilog="""\b
Examples:
  elmfield fit photo.png -o photo.elm
  elmfield fit photo.png -o small.elm --psnr 40
  elmfield fit photo.png -o small.elm --bytes 50000
  elmfield fit sst.nc -o sst.elm --order auto --slice time=0
  elmfield fit photo.png -o paper.elm --preset paper --cell 32 --width 512
  elmfield fit photo.png -o beam.elm --preset paper --width 256 --beam 40
"""
)
@click.argument("input", type=IN)
@click.option(
    "-o", "--output", type=OUT, required=True, help="The model: NAME.elm or NAME.elm.zarr."
)
@click.option(
    "--preset", type=click.Choice(["smooth", "paper"]), default="smooth", show_default=True,
    help="smooth: right between the samples too; paper: the paper's network and least squares.",
)  # fmt: skip
@click.option("--psnr", type=float, metavar="DB", help="Error target: dB at the samples.")
@click.option("--max-error", type=float, help="Error target: largest error at the samples.")
@click.option("--bits", type=float, metavar="B", help="Size: so many bits a sample.")
@click.option("--bytes", type=int, metavar="N", help="Size: the file takes at most so many bytes.")
@click.option("--coefficients", type=int, metavar="N", help="Keep so many coefficients in all.")
@click.option(
    "--per-region", type=int, metavar="N", help="Keep so many in every region and channel."
)
@click.option("--denoise", metavar="yes|LEVEL", help="Take noise out: estimated, or this strong.")
@click.option("--order", metavar="S[,S...]|auto", help="Order of the energy (smooth).")
@click.option("--cell", metavar="N[,N...]", help="Samples per cell and axis.")
@click.option("--overlap", metavar="X[,X...]", help="Half-width of the blend between cells.")
@click.option("--width", type=int, help="Hidden neurons (paper).")
@click.option("--frequencies", type=int, help="Fourier features (paper).")
@click.option("--scale", type=float, help="Standard deviation of their frequencies (paper).")
@click.option("--activation", help="relu, sin, cos, tanh or gaussian (paper).")
@click.option("--seed", type=int, help="Of the hidden layer (paper).")
@click.option("--beam", type=int, metavar="N", help="Merge cells into N regions by energy (BEAM).")
@click.option("--beam-threshold", type=float, metavar="TAU", help="Or merge up to this energy.")
@click.option(
    "--periodic", multiple=True, metavar="AXIS[=PERIOD]",
    help="An axis that repeats; may be repeated. A full circle of longitudes is found by itself.",
)  # fmt: skip
@click.option(
    "--samples", type=click.Choice(["points", "means"]), default="points", show_default=True,
    help="What the numbers are: values at points, or means over their cells.",
)  # fmt: skip
@click.option(
    "--missing", type=click.Choice(["nan", "fill"]), default="nan", show_default=True,
    help="Leave gaps as they are, or fill them with care.",
)  # fmt: skip
@read_options
@click.option("--device", metavar="NAME", help="Fit there, for instance cuda (needs torch).")
@click.option(
    "--dtype", type=click.Choice(["float64", "float32", "float16"]),
    help="In which a reader computes, and of coefficients where those are stored; by default "
    "that of the fit.",
)  # fmt: skip
@click.option(
    "--memory", metavar="SIZE",
    help="Fit slab by slab in about so much memory, for instance 1G; large files always are.",
)  # fmt: skip
@click.option("--workers", type=int, metavar="N", help="Fit slab by slab in so many processes.")
@click.option("--scheduler", metavar="ADDRESS", help="Or on the workers of a Dask scheduler.")
@quiet
@as_json
def fit(input: Path, output: Path, quiet: bool, as_json: bool, **options: Any) -> None:
    """Fit a field to the samples in INPUT and save it as a model."""
    from elmfield import smooth
    from elmfield._array.progress import bars
    from elmfield.io.formats.registry import is_model

    if not is_model(output):
        raise click.BadParameter(
            f"{output.name}: a model's name ends in .elm or .elm.zarr.", param_hint="--output"
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"cannot write {output}: its folder does not exist")
    settings = _settings(options)
    samples = samples_of(
        input, options["variable"], options["slices"], options["channel_axis"], lazily=True
    )
    values, began = samples.values, time.perf_counter()
    with bars(False if quiet or as_json else None) as progress:
        way = _streamed if _in_parts(samples, settings, options) else _at_once
        if settings == smooth():
            settings = None  # as suits the samples
        field, dtype = way(samples, settings, output, input, options, progress)
    took = time.perf_counter() - began
    facts = {
        "model": str(output),
        "samples": list(values.shape),
        "regions": field.partition.n_regions,
        "coefficients": field.n_coefficients,
        "coefficients_per_sample": field.n_coefficients / math.prod(values.shape),
        "dtype": dtype,
        "bytes": size_of(output),
        "bits_per_sample": 8 * size_of(output) / math.prod(values.shape),
        "input_bytes": int(values.nbytes),
        "seconds": took,
    }
    if as_json:
        print_json(facts)
    elif not quiet:
        show(_in_short(facts))


LARGE = 1 << 27
"""Bytes of samples above which they are fitted in parts."""


def _in_parts(samples: Any, settings: Any, options: dict[str, Any]) -> bool:
    """Whether samples are fitted slab by slab: asked for, or large and nothing is against it."""
    asked = [n for n in ("memory", "workers", "scheduler") if options[n] is not None]
    against = [n for n in ("device", "dtype", "beam", "beam_threshold", "bytes") if options[n]]
    if options["samples"] == "means":
        against.append("samples")
    if asked and against:
        raise click.UsageError(
            f"--{asked[0]} cannot be used with --{against[0].replace('_', '-')}: it has to see all "
            "samples at once."
        )
    if asked:
        return True
    whole = settings.target is None or settings.target.is_coded
    streams = whole and settings.denoise is False and not against
    return streams and int(samples.values.nbytes) > LARGE


def _streamed(
    samples: Any, settings: Any, output: Path, input: Path, options: dict[str, Any], progress: Any
) -> tuple[Any, str]:
    """The field of a file that was made slab by slab, and the dtype it computes with."""
    from elmfield._array.memory import memory_limit
    from elmfield.io.door import suited
    from elmfield.io.given import given_as
    from elmfield.io.stream.engine import cluster
    from elmfield.io.stream.fitting import fit_to
    from elmfield.io.stream.prints import fingerprint_of

    limit = n_bytes(options["memory"], "--memory")
    with memory_limit(limit), cluster(options["workers"], options["scheduler"]) as engine:
        made = _noted(samples, input, options, fingerprint_of(samples.values))
        given = given_as(made, None, None, None, _periods(samples, options["periodic"]), None)
        field = fit_to(
            given,
            suited(settings, given.attributes),
            output,
            missing=options["missing"] or given.missing,
            engine=engine,
            progress=progress,
        )
    return field, str(field.coefficient_dtype)


def _at_once(
    samples: Any, settings: Any, output: Path, input: Path, options: dict[str, Any], progress: Any
) -> tuple[Any, str]:
    """A field that was fitted in memory and saved, and the dtype it computes with."""
    from dataclasses import replace

    import numpy as np

    from elmfield.io.gridded import fingerprint
    from elmfield.io.model.promise import fit_stored
    from elmfield.io.model.store import put_model

    samples = replace(samples, values=np.asarray(samples.values))
    samples = _noted(samples, input, options, fingerprint(samples.values))
    periods = _periods(samples, options["periodic"])
    field, dtype = fit_stored(
        samples,
        settings,
        dtype=options["dtype"],
        periodic=periods,
        partition=_beam(samples, periods, options),
        device=options["device"],
        samples=options["samples"],
        missing=options["missing"],
        progress=progress,
    )
    put_model(field, output, dtype, True, progress)
    return field, dtype


def _in_short(facts: dict[str, Any]) -> dict[str, Any]:
    """What was fitted and saved, for a table."""
    return {
        "samples": " × ".join(map(str, facts["samples"])),
        "regions": facts["regions"],
        "fitted in": f"{facts['seconds']:.2f} s",
        "saved": f"{facts['model']}, {in_bytes(facts['bytes'])}, "
        f"{facts['bits_per_sample']:.3g} bits a sample (samples: {in_bytes(facts['input_bytes'])})",
    }


def _noted(samples: Any, input: Path, options: dict[str, Any], prints: dict[str, Any]) -> Any:
    """The samples, with a note of where they came from."""
    from dataclasses import replace

    source = {
        "file": input.name,
        "variable": options["variable"],
        "slices": list(options["slices"]),
        "channel_axis": options["channel_axis"],
        **prints,
    }
    return replace(samples, attributes={**samples.attributes, "source": source})


def _periods(samples: Any, texts: Sequence[str]) -> dict[str, float | None]:
    """Axes that repeat, those that the file knows and those that are given; None: as sampled."""
    periods: dict[str, float | None] = dict(samples.periods)
    for text in texts:
        name, _, content = text.partition("=")
        name, _ = assignment(f"{name}=", samples.dims, "--periodic")
        periods[name] = numbers(content, "--periodic") if content else None
    return periods


def _settings(options: dict[str, Any]) -> Any:
    from elmfield import paper, smooth

    given = {k: v for k, v in options.items() if v is not None}
    own = {
        "smooth": (
            "order",
            "psnr",
            "max_error",
            "bits",
            "bytes",
            "coefficients",
            "per_region",
            "denoise",
        ),
        "paper": ("width", "frequencies", "scale", "activation", "seed"),
    }
    preset = options["preset"]
    for other, names in own.items():
        wrong = [f"--{n.replace('_', '-')}" for n in names if n in given]
        if other != preset and wrong:
            raise click.UsageError(f"{', '.join(wrong)}: only with --preset {other}.")
    chosen: dict[str, Any] = {k: given[k] for k in own[preset] if k in given}
    if "order" in chosen and chosen["order"] != "auto":
        chosen["order"] = numbers(chosen["order"], "--order")
    if "denoise" in chosen:
        word = str(chosen["denoise"])
        chosen["denoise"] = True if word in ("yes", "true", "auto") else numbers(word, "--denoise")
    if options["beam"] is None and options["beam_threshold"] is None:  # else they are BEAM's
        for name, kind in (("cell", int), ("overlap", float)):
            if name in given:
                chosen[name] = numbers(given[name], f"--{name}", kind)
    return smooth(**chosen) if preset == "smooth" else paper(**chosen)


def _beam(samples: Any, periods: Collection[str], options: dict[str, Any]) -> Any:
    """The partition that --beam asks for, or None."""
    if options["beam"] is None and options["beam_threshold"] is None:
        return None
    from elmfield import Partition

    overlap = options["overlap"]
    return Partition.beam(
        samples.values,
        cell=numbers(options["cell"] or "16", "--cell", int),
        regions=options["beam"],
        threshold=options["beam_threshold"],
        channel_axis=samples.channel_axis,
        periodic=[samples.dims.index(n) for n in periods],
        overlap=0 if overlap is None else numbers(overlap, "--overlap"),
    )


@click.command(
    epilog="""\b
Example:
  elmfield info photo.elm
"""
)
@click.argument("model", type=click.Path())
@as_json
def info(model: str, as_json: bool) -> None:
    """What a model holds; reads none of its coefficients."""
    from elmfield.io.model.entries import open_entries
    from elmfield.io.model.plain import from_plain
    from elmfield.io.model.restore import field_of, metadata
    from elmfield.io.model.usual import completed
    from elmfield.io.words import axis_in_words

    entries = open_entries(model)
    field = field_of(entries)
    meta = completed(metadata(entries))
    sizes = entries.sizes()
    about = from_plain(meta["attributes"])
    origin = about.get("source", {})
    if as_json:
        print_json({"file": model, "bytes": sum(sizes.values()), **from_plain(meta)})
        return
    axes = [
        axis_in_words(
            axis.name,
            axis.size,
            axis.coords,
            about.get("axes", {}).get(axis.name, {}),
            even=note.get("even", True),
            periodic=axis.period is not None,
        )
        for axis, note in zip(field.domain.axes, meta["domain"]["axes"])
    ]
    n = math.prod(field.shape) * field.n_channels  # a complex sample counts once, as in `fit`
    rows = {
        "name": about.get("name"),
        "axes": "\n".join(axes),
        "channels": field.n_channels if field.channel_axis is not None else None,
        "values": f"{field.input_dtype}{', complex' if field.is_complex else ''}"
        + (f", {about['attrs']['units']}" if about.get("attrs", {}).get("units") else ""),
        "reference system": (about.get("crs") or "")[:70] or None,
        "regions": f"{field.partition.n_regions} in {' × '.join(map(str, field.partition.n_cells))}"
        " cells",
        **_held(meta, n),
        "file": f"{in_bytes(sum(sizes.values()))} in {len(sizes)} parts, "
        f"{8 * sum(sizes.values()) / n:.3g} bits a sample",
        "settings": field.settings,
        "made from": origin.get("file"),
        "its SHA-256": origin.get("sha256"),
        "format": f"version {meta['version']}, written by {meta['written_by']}",
    }
    show({k: v for k, v in rows.items() if v is not None}, model)


def _held(meta: dict[str, Any], n: int) -> dict[str, str]:
    """What the file holds: samples or coefficients, `n` samples in all."""
    if "samples" not in meta:
        per = meta["n_coefficients"] / n
        return {"coefficients": f"{meta['n_coefficients']} {meta['dtype']} ({per:.3f} a sample)"}
    said = meta["samples"]
    how = "coded with loss" if said["lossy"] else "without loss"
    gaps = ", some were missing" if said.get("missing") is not None else ""
    return {"samples": f"{said['dtype']}, {how}{gaps}; computed with as {meta['dtype']}"}
