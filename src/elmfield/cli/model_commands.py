"""fit and info: from samples to a model, and what a model holds."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import numpy as np
from click.shell_completion import get_completion_class

import elmfield as ef
from elmfield._array import running
from elmfield._array.progress import bars, silent
from elmfield._array.typing import Progress
from elmfield.cli import terminal
from elmfield.errors import MissingExtraError
from elmfield.io.api import settle_samples
from elmfield.io.files import is_model, refuse_samples
from elmfield.io.formats.arrays import read_observations
from elmfield.io.gridded import Gridded, describe_axis, fingerprint
from elmfield.io.inputs import parse_input
from elmfield.io.model.fit_to_target import fit_stored
from elmfield.io.model.load import read_field
from elmfield.io.model.metadata import VERSION, Metadata, from_plain, read_metadata
from elmfield.io.model.save import write_model
from elmfield.io.store.stores import open_store
from elmfield.io.stream.fit_stream import fit_to
from elmfield.io.stream.workers import cluster
from elmfield.settings import Settings

Options = Mapping[str, Any]

STREAMED_MIN_BYTES = 1 << 27
"""Bytes of samples above which they are fitted in parts."""


@dataclass(frozen=True)
class FitOptions(terminal.SampleOptions):
    """How samples are fitted, where, and in which parts; said in the help of `fit`."""

    psnr: float | None = None
    max_error: float | None = None
    bits: float | None = None
    bytes: int | None = None
    coefficients: int | None = None
    per_region: int | None = None
    effort: Annotated[int, click.IntRange(1, 9)] | None = None
    order: Annotated[Any, terminal.numbers(float, {"auto": "auto"})] = None
    cell: terminal.Integers | None = None
    overlap: terminal.Floats | None = None
    width: int | None = None
    frequencies: int | None = None
    scale: float | None = None
    activation: str | None = None
    seed: int | None = None
    beam: int | None = None
    beam_threshold: float | None = None
    periodic: Sequence[str] = ()
    missing: terminal.Missing = "nan"
    device: str | None = None
    dtype: Literal["float64", "float32", "float16"] | None = None
    memory: Annotated[int, terminal.n_bytes] | None = None
    workers: terminal.Count | None = None
    scheduler: str | None = None


@terminal.command
def fit(
    input: Path | None = None,
    *,
    observations: Path | None = None,
    spacing: terminal.Floats | None = None,
    output: terminal.Output,
    how: FitOptions,
    quiet: terminal.Quiet = False,
    as_json: terminal.Json = False,
) -> None:
    """Fit a field to the samples in INPUT and save it as a model.

    Options
    -------
    --observations
        Instead of INPUT: a table (CSV) of values, slopes and means; see the page observations.
    --spacing X[,X...]
        With --observations: how far apart the samples of the field's grid lie.
    --output
        The model: NAME.elm or NAME.elm.zarr.
    --psnr DB
        Error target: dB at the samples.
    --max-error
        Error target: largest error at the samples.
    --bits B
        Size: so many bits a sample.
    --bytes N
        Size: the file takes at most so many bytes.
    --coefficients N
        Keep so many coefficients in all.
    --per-region N
        Keep so many in every region and channel.
    --effort 1-9
        Of --psnr, --max-error, --bits, --bytes: 1 is fast, 9 is small; 5 by default.
    --order S[,S...]|auto
        Order of the energy (smooth).
    --cell N[,N...]
        Samples per cell and axis.
    --overlap X[,X...]
        Half-width of the blend between cells.
    --width
        Hidden neurons (paper).
    --frequencies
        Fourier features (paper).
    --scale
        Standard deviation of their frequencies (paper).
    --activation
        relu, sin, cos, tanh or gaussian (paper).
    --seed
        Of the hidden layer (paper).
    --beam N
        Merge cells into N regions by energy (BEAM).
    --beam-threshold TAU
        Or merge up to this energy.
    --periodic AXIS[=PERIOD]
        An axis that repeats; may be repeated. A full circle of longitudes is found by itself.
    --missing
        Leave gaps as they are, or fill them with care.
    --device NAME
        Fit there, for instance cuda (needs torch).
    --dtype
        In which a reader computes, and of coefficients where those are stored; by default that of
        the fit.
    --memory SIZE
        Fit slab by slab in about so much memory, for instance 1G; large files always are.
    --workers N
        Fit slab by slab in so many processes.
    --scheduler ADDRESS
        Or on the workers of a Dask scheduler.

    Examples
    --------
    elmfield fit photo.png -o photo.elm
    elmfield fit photo.png -o small.elm --psnr 40
    elmfield fit photo.png -o small.elm --bytes 50000
    elmfield fit photo.png -o sharp.elm --preset oriented
    elmfield fit sst.nc -o sst.elm --order auto --slice time=0
    elmfield fit photo.png -o paper.elm --preset paper --cell 32 --width 512
    elmfield fit photo.png -o beam.elm --preset paper --width 256 --beam 40
    elmfield fit --observations months.csv --spacing 1 -o days.elm
    """
    if (input is None) == (observations is None):
        raise click.UsageError("say INPUT or --observations, one of them.")
    if not is_model(output):
        raise click.BadParameter(
            f"{output.name}: a model's name ends in .elm or .elm.zarr.", param_hint="--output"
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"cannot write {output}: its folder does not exist")
    options, began = dict(vars(how)), time.perf_counter()
    settled = {"cell", "overlap"} if _merges(options) else set()
    own = {name: value for name, value in options.items() if name not in settled}
    settings = terminal.settings_of(how.preset or "smooth", own)
    if input is None:
        table, dims = read_observations(Path(observations or ""))
        field = ef.fit_observations(table, settings, spacing=spacing, dims=dims)
        write_model(field, output, "float64", True, silent)
        told = {
            "model": str(output),
            "rows": sum(len(o) for o in table),
            "coefficients": field.model.n_coefficients,
            "seconds": time.perf_counter() - began,
        }
        terminal.report(told, told, as_json=as_json, quiet=quiet)
        return
    samples = how.read(input, lazily=True)
    n = math.prod(samples.values.shape)
    with bars(False if quiet or as_json else None) as progress, running.memory_limit(how.memory):
        source = {
            "file": input.name,
            "variable": how.variable,
            "slices": list(how.slices),
            "channel_axis": how.channel_axis,
            **fingerprint(samples.values),
        }
        samples = replace(samples, labels=replace(samples.labels, source=source))
        options["periodic"] = _periods(samples, options["periodic"])
        streams = _streams(samples, settings, options)
        chosen = None if settings == ef.smooth() else settings  # None: as suits the samples
        way = _fit_in_parts if streams else _fit_at_once
        field, dtype = way(samples, chosen, output, options, progress)
    size = sum(p.stat().st_size for p in (output, *output.rglob("*")) if p.is_file())
    facts = {
        "model": str(output),
        "samples": list(samples.values.shape),
        "regions": field.partition.n_regions,
        "coefficients": field.model.n_coefficients,
        "coefficients_per_sample": field.model.n_coefficients / n,
        "dtype": dtype,
        "bytes": size,
        "bits_per_sample": 8 * size / n,
        "input_bytes": int(samples.values.nbytes),
        "seconds": time.perf_counter() - began,
    }
    rows = {
        "samples": " × ".join(map(str, samples.values.shape)),
        "regions": facts["regions"],
        "fitted in": f"{facts['seconds']:.2f} s",
        "saved": f"{output}, {terminal.in_bytes(size)}, {8 * size / n:.3g} bits a sample (samples: "
        f"{terminal.in_bytes(samples.values.nbytes)})",
    }
    terminal.report(facts, rows, as_json=as_json, quiet=quiet)


def _merges(options: Options) -> bool:
    """Whether cells are to be merged by energy."""
    return options["beam"] is not None or options["beam_threshold"] is not None


def _streams(samples: Gridded, settings: Settings, options: Options) -> bool:
    """Whether samples are fitted slab by slab: asked for, or large and nothing is against it."""
    wishes = [n for n in ("memory", "workers", "scheduler") if options[n] is not None]
    against = [n for n in ("device", "dtype", "beam", "beam_threshold", "bytes") if options[n]]
    if wishes and against:
        told = f"--{wishes[0]} cannot be used with --{against[0].replace('_', '-')}"
        raise click.UsageError(f"{told}: it has to see all samples at once.")
    if wishes:
        return True
    streams = (settings.target is None or settings.target.is_coded) and settings.denoise is False
    return streams and not against and int(samples.values.nbytes) > STREAMED_MIN_BYTES


def _fit_in_parts(
    samples: Gridded, settings: Settings | None, output: Path, options: Options, progress: Progress
) -> tuple[ef.Field, str]:
    """The field of a file that was made slab by slab, and the dtype it computes with."""
    given = parse_input(samples, periodic=options["periodic"])
    given, settings = settle_samples(given, settings, options["samples"], None)
    with cluster(options["workers"], options["scheduler"]) as engine:
        field = fit_to(
            given, settings, output, missing=options["missing"], engine=engine, progress=progress
        )
    return field, str(field.model.coefficient_dtype)


def _fit_at_once(
    samples: Gridded, settings: Settings | None, output: Path, options: Options, progress: Progress
) -> tuple[ef.Field, str]:
    """A field that was fitted in memory and saved, and the dtype it computes with."""
    samples = replace(samples, values=np.asarray(samples.values))
    partition = None
    if _merges(options):
        how = {"regions": options["beam"], "threshold": options["beam_threshold"]}
        cell = 16 if options["cell"] is None else options["cell"]
        how |= {"cell": cell, "overlap": options["overlap"] or 0}
        partition = terminal.merged(samples, options["periodic"], **how)
    own = {name: options[name] for name in ("dtype", "device", "periodic", "samples", "missing")}
    field, dtype = fit_stored(samples, settings, partition=partition, progress=progress, **own)
    write_model(field, output, dtype, True, progress)
    return field, dtype


def _periods(samples: Gridded, texts: Sequence[str]) -> dict[str, float | None]:
    """Axes that repeat, those that the file knows and those that are given; None: as sampled."""
    periods: dict[str, float | None] = dict(samples.periods)
    for text in texts:
        name, _, content = text.partition("=")
        name, _ = terminal.assignment(f"{name}=", samples.dims, "--periodic")
        periods[name] = terminal.FLOATS(content) if content else None
    return periods


@terminal.command
def info(model: Annotated[str, click.Path()], *, as_json: terminal.Json = False) -> None:
    """What a model holds; reads none of its coefficients.

    Examples
    --------
    elmfield info photo.elm
    """
    refuse_samples(model)
    store = open_store(model)
    field, meta = read_field(store), read_metadata(store)
    sizes, part = store.sizes(), field.partition
    size, about = sum(sizes.values()), field.labels
    n = math.prod(field.shape) * field.model.n_channels  # a complex sample counts once, as in `fit`
    axes = []
    for axis, note in zip(field.domain.axes, meta.domain.axes):
        own, how = about.axis(axis.name), {"even": note.even, "periodic": axis.period is not None}
        axes.append(describe_axis(axis.name, axis.size, axis.coords, own, **how))
    rows = {
        "name": about.name,
        "axes": "\n".join(axes),
        "channels": field.model.n_channels if field.model.channel_axis is not None else None,
        "values": f"{field.model.input_dtype}{', complex' if field.model.is_complex else ''}"
        + (f", {about.units}" if about.units else ""),
        "reference system": (about.crs or "")[:70] or None,
        "regions": f"{part.n_regions} in {' × '.join(map(str, part.n_cells))} cells",
        **_held(meta, n),
        "file": f"{terminal.in_bytes(size)} in {len(sizes)} parts, "
        f"{8 * size / n:.3g} bits a sample",
        "settings": field.settings,
        "made from": about.source.get("file"),
        "its SHA-256": about.source.get("sha256"),
        "format": f"version {VERSION}, written by {meta.written_by}",
    }
    held = {k: v for k, v in from_plain(asdict(meta)).items() if v is not None}
    facts = {"file": model, "bytes": size, "version": VERSION, **held}
    terminal.report(facts, rows, as_json=as_json, title=model)


def _held(meta: Metadata, n: int) -> dict[str, str]:
    """What the file holds: samples or coefficients, `n` samples in all."""
    samples = meta.samples
    if samples is None:
        per = (meta.n_coefficients or 0) / n
        return {"coefficients": f"{meta.n_coefficients} {meta.dtype} ({per:.3f} a sample)"}
    how = "coded with loss" if samples.lossy else "without loss"
    gaps = "" if samples.missing is None else ", some were missing"
    return {"samples": f"{samples.dtype}, {how}{gaps}; computed with as {meta.dtype}"}


@terminal.command
def compile() -> None:
    """Compile the loops of the codec ahead, once a machine (extra: fast).

    Else they are compiled for the first job of 64 million samples or more; smaller ones are done
    without. It may be a step that builds a container.

    Examples
    --------
    elmfield compile
    """
    if not running.installed():
        raise MissingExtraError("compiled loops need numba; pip install 'elmfield[fast]'.")
    before = running.were_compiled()
    running.compile_loops()
    click.echo("compiled before" if before else "compiled")


@terminal.command
def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Print what a shell must run to complete this command's words.

    To have it in every shell, add to ~/.bashrc: eval "$(elmfield completion bash)"

    Examples
    --------
    elmfield completion bash
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(
        kind(
            click.get_current_context().find_root().command, {}, "elmfield", "_ELMFIELD_COMPLETE"
        ).source()
    )
