"""view, compare, beam and demo: models to look at, against samples, regions, and an example."""

import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any
from urllib.parse import urlsplit

import click
import numpy as np

import elmfield as ef
from elmfield._array.progress import bars
from elmfield._array.typing import Array
from elmfield.cli import terminal
from elmfield.field.accuracy import thumbnail_html
from elmfield.fit.statistics import Slabs
from elmfield.io.files import is_model, need, refuse_samples
from elmfield.io.formats.raster import png
from elmfield.io.model.load import read_field
from elmfield.io.store.atomic_write import write_atomically
from elmfield.io.store.stores import open_store
from elmfield.io.stream.stream_coder import compare as scores_at_samples
from elmfield.io.view_source import export_view, scene_of
from elmfield.partition.cells import plane_of
from elmfield.samples import source_of
from elmfield.settings import Settings
from elmfield.show.layers import through
from elmfield.show.pictures import colourise, draw_regions, to_plane


@terminal.command
def view(
    model: Annotated[Path, "MODEL_OR_FILE"],
    *,
    port: Annotated[int, click.IntRange(0, 65535)] = 0,
    no_open: bool = False,
    host: str = "127.0.0.1",
    beam: int | None = None,
    folder: Annotated[Path, "--export"] | None = None,
    export_size: Annotated[int, click.IntRange(1, 4096)] = 64,
    files: terminal.SampleOptions,
    quiet: terminal.Quiet = False,
) -> None:
    """Look at a model or at samples in the browser (extra: view).

    Samples are fitted first.

    Options
    -------
    --port
        Default: one that is free.
    --no-open
        Print the address, open no browser.
    --host ADDRESS
        Where to listen: this machine only, unless told; 0.0.0.0 for others too.
    --samples points|means|FILE
        What the numbers of a file are; of a model the file that was fitted, to see errors and what
        is missing.
    --beam N
        Fit samples on N regions merged by energy.
    --export
        Write a page that needs no server, and leave.
    --export-size MB
        What its tiles may take before they are compressed.

    Examples
    --------
    elmfield view photo.elm
    elmfield view sst.nc --slice time=0 --port 8123 --no-open
    elmfield view photo.elm --samples photo.png
    elmfield view photo.png --export page
    """
    with bars(False if quiet else None) as progress:
        truth: Array | None
        if is_model(model):
            if files.preset or files.denoise or beam or (files.samples is None and files.selects):
                told = "a model is shown as it is; fitting and slices are for samples"
                raise click.UsageError(f"{told} (--samples FILE).")
            field = ef.load(model)
            truth = None if files.samples is None else files.read(Path(files.samples)).values
        elif beam:
            given = files.read(model)
            truth, partition = given.values, terminal.merged(given, (), regions=beam, cell=16)
            field = ef.fit(given, ef.paper(width=256), partition=partition, progress=progress)
        else:
            field, truth = files.field(model, progress, True)
        field = ef.Field(replace(field.model, labels=replace(field.labels, title=model.name)))
        if folder is not None:
            size = export_size << 20
            tiles = export_view(scene_of(field, None, truth), folder, size=size, progress=progress)
    if folder is not None:
        if not quiet:
            click.echo(f"{folder / 'index.html'}: {tiles} tiles; open it in a browser.")
        return
    served = ef.view(field, samples=truth, port=port, host=host, browser=not no_open)
    others = ""
    if host in ("", "0.0.0.0", "::"):
        others = f", for others at http://{socket.gethostname()}:{urlsplit(served.url).port}/"
    end = "" if quiet else "  (Ctrl-C ends it)"
    click.echo(f"{model.name} is at {served.url}{others}{end}")
    try:
        served.wait()
    except KeyboardInterrupt:
        if not quiet:
            click.echo("closed.", err=True)


@terminal.command
def compare(
    input: Path,
    model: Annotated[str, click.Path()],
    *,
    picture: Annotated[Path, "--map"] | None = None,
    heldout: bool = False,
    files: terminal.FileOptions,
    as_json: terminal.Json = False,
) -> None:
    """How well MODEL gives back the samples in INPUT.

    Which variable and slices they are, the model knows.

    Options
    -------
    --map FILE.png
        Write a picture of the error.
    --heldout
        Also fit every second sample and score the others.

    Examples
    --------
    elmfield compare photo.png photo.elm
    elmfield compare photo.png photo.elm --map error.png --json
    """
    refuse_samples(model)
    entries = open_store(model)
    field = read_field(entries)
    names, source = ("variable", "slices", "channel_axis"), field.labels.source
    given = {name: value for name, value in vars(files).items() if value not in (None, "", ())}
    files = terminal.FileOptions(**{n: source[n] for n in names if n in source} | given)
    samples = files.read(input, lazily=True)
    if samples.shape != field.shape:
        told = f"{input.name} has shape {samples.shape}, the model {field.shape}"
        raise ValueError(f"{told}; they cannot be compared.")
    shape = *field.shape, field.model.n_channels
    errors = None if picture is None else np.zeros(shape, np.float32)
    slabs = Slabs(source=source_of(samples.values), channel_axis=samples.channel_axis)
    facts = scores_at_samples(field, slabs, errors)
    n, size = facts["samples"], sum(entries.sizes().values())
    facts |= {
        "coefficients": field.model.n_coefficients,
        "coefficients_per_sample": field.model.n_coefficients / n,
        "bytes": size,
        "bits_per_sample": 8 * size / n,
    }
    if heldout:  # fitted as the model was, if it says how
        values, axis = np.asarray(samples.values), samples.channel_axis
        facts["heldout_psnr_db"] = ef.heldout_score(values, field.settings, channel_axis=axis)
    if picture is not None and errors is not None:
        write_atomically(picture, png(colourise(to_plane(errors, -1, np.max), "error")))
        facts["map"] = str(picture)
    said = {**facts, "bytes": terminal.in_bytes(size)}
    rows = {name: form.format(said[key]) for key, (name, form) in ROWS.items() if key in said}
    terminal.report(facts, rows, as_json=as_json)


ROWS = {
    "psnr_db": ("PSNR, of the range", "{:.2f} dB"),
    "psnr_255_db": ("PSNR, of 255", "{:.2f} dB"),
    "paper_psnr_db": ("the paper's PSNR (at most 80)", "{:.2f} dB"),
    "heldout_psnr_db": ("held-out PSNR", "{:.2f} dB"),
    "mae": ("mean absolute error", "{:.6g}"),
    "rmse": ("root mean square error", "{:.6g}"),
    "max_error": ("largest error", "{:.6g}"),
    "coefficients_per_sample": ("coefficients per sample", "{:.6g}"),
    "bits_per_sample": ("bits per sample", "{:.6g}"),
    "bytes": ("model", "{}"),
    "missing": ("missing samples", "{}"),
    "map": ("map of the error", "{}"),
}
"""What a table calls the facts that JSON has, and how it writes them."""


@terminal.command
def beam(
    input: Path,
    *,
    output: terminal.Output | None = None,
    cell: terminal.Integers = 16,
    regions: int | None = None,
    threshold: float | None = None,
    files: terminal.FileOptions,
    as_json: terminal.Json = False,
) -> None:
    """Cut INPUT into regions of about equal energy (BEAM).

    Prints their sizes and energies, and draws them.

    Options
    -------
    --output FILE.png
        Draw the regions.
    --cell N[,N...]
        Cells to merge.
    --regions N
        Merge into so many regions.
    --threshold TAU
        Or merge up to this energy.

    Examples
    --------
    elmfield beam photo.png --cell 16 --regions 60 -o regions.png
    """
    if (regions is None) == (threshold is None):
        raise click.UsageError("Say either --regions N or --threshold TAU.")
    samples = files.read(input)
    how = {"cell": cell, "regions": regions, "threshold": threshold}
    partition, channel = terminal.merged(samples, samples.periods, **how), samples.channel_axis
    beta = np.asarray(ef.barron_norm(samples.values, partition=partition, channel_axis=channel))
    least, median, greatest = np.quantile(beta, [0, 0.5, 1]).tolist()
    cells = np.bincount(partition.labels.reshape(-1))
    if output is not None:
        cut = to_plane(np.asarray(samples.values), channel, np.mean)  # of a volume the middle
        picture = draw_regions(colourise(cut, "grey"), plane_of(partition))
        write_atomically(output, png(picture))
    facts = {
        "regions": partition.n_regions,
        "cells": list(partition.n_cells),
        "energy": {"least": least, "median": median, "greatest": greatest},
        "energies": beta.tolist(),
        "cells_per_region": cells.tolist(),
        "picture": None if output is None else str(output),
    }
    rows = {
        "regions": f"{partition.n_regions} of {' × '.join(map(str, partition.n_cells))} cells",
        "largest": f"{cells.max()} cells",
        "energy": f"{least:.4g} (least), {median:.4g} (median), {greatest:.4g} (greatest)",
        "picture": output,
    }
    terminal.report(facts, rows, as_json=as_json)


# --- demo: the picture ships with scikit-image; nothing is downloaded -----------------------------

BORDER = 16
"""Samples at the picture's edge that the held-out score leaves out."""

TILE_BYTES = 4 << 20
"""Tiles of each page."""


@terminal.command
def demo(*, output: Path = Path("demo")) -> None:
    """Fit a picture, print a table, write pages to zoom into (extra: demo).

    Options
    -------
    --output
        Their folder; its index.html has the table and links to them.

    Examples
    --------
    elmfield demo --output demo
    """
    data = need("skimage.data", "demo", "the demo's picture")
    output.mkdir(parents=True, exist_ok=True)  # said at once if it cannot be
    photo = data.camera()
    picture = np.asarray(photo, dtype=np.float64)
    ours = {name: make() for name, make in terminal.PRESETS.items()}
    rows, began = {}, time.perf_counter()
    for name, way in {**ours, "linear spline": _spline(1), "cubic spline": _spline(3)}.items():
        score = ef.heldout_score(picture, way, border=BORDER)
        told = _fit_of_demo(picture, ours[name]) if name in ours else ""
        rows[name] = f"held-out PSNR {score:.2f} dB{told}"
    links, table = "", ef.Report(dict(rows))._repr_html_()
    for name, settings in ours.items():
        field = ef.fit(photo, settings)
        scene = replace(scene_of(field, None, photo), title=f"{name} (demo)")
        export_view(scene, output / name, size=TILE_BYTES)
        links += f'<a href="{name}/index.html">{thumbnail_html(field)}<br>{name}</a>\n'
        rows[f"zoom ({name})"] = str(output / name / "index.html")
    index = Path(__file__).with_name("demo.html").read_text(encoding="utf-8")
    index = index.replace("LINKS", links).replace("TABLE", table)
    write_atomically(output / "index.html", index.encode())
    rows["all of it"] = str(output / "index.html")
    rows["computing"] = f"{time.perf_counter() - began:.1f} s"
    terminal.report(rows, rows, as_json=False)


def _spline(order: int) -> Any:
    """A way to fit: a spline of an order through the samples of a picture."""

    def grid(half: Array, *at: Array) -> Array:
        places = np.stack(np.meshgrid(*at, indexing="ij"))
        return through(half[..., 0], order, places)[..., None]

    return lambda half, channel_axis: SimpleNamespace(grid=partial(grid, half))


def _fit_of_demo(picture: Array, settings: Settings) -> str:
    """How long a fit takes, how large it is, and how far from the samples."""
    ef.cache_modes(clear=True)  # the first time is to be a cold one
    times = [time.perf_counter()]
    encode = ef.encoder(picture.shape, settings)
    for _ in range(2):
        field = encode(picture)
        times.append(time.perf_counter())
    back = field.resize(field.shape)  # the function, not the samples that it keeps
    cold, kept = 1e3 * np.diff(times)
    return (
        f", at the samples {ef.psnr(picture, back):.0f} dB ({ef.paper_psnr(picture, back):.2f} as "
        f"the paper defines it); fitted in {cold:.0f} ms, the next in {kept:.1f} ms; "
        f"{field.model.n_coefficients / picture.size:.2f} coefficients a sample"
    )
