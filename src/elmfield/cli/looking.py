"""view: a model or a file of samples in the browser."""

from pathlib import Path
from typing import Any

import click

from elmfield.cli.words import IN, OUT, quiet, read_options, samples_of


@click.command(
    epilog="""\b
Examples:
  elmfield view photo.elm
  elmfield view sst.nc --slice time=0 --port 8123 --no-open
  elmfield view photo.elm --samples photo.png
  elmfield view photo.png --export page
"""
)
@click.argument("model", type=IN, metavar="MODEL_OR_FILE")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Default: one that is free.")
@click.option("--no-open", is_flag=True, help="Print the address, open no browser.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Where to listen: this machine only, unless told.",
)  # fmt: skip
@click.option(
    "--samples", "beside", type=IN, metavar="FILE",
    help="Of a model: what was fitted, to see errors and what is missing.",
)  # fmt: skip
@click.option("--oriented", is_flag=True, help="Fit samples with oriented regions.")
@click.option("--beam", type=int, metavar="N", help="Fit samples on N regions merged by energy.")
@click.option("--export", "folder", type=OUT, help="Write a page that needs no server, and leave.")
@click.option(
    "--export-size", type=click.IntRange(1, 4096), default=64, show_default=True, metavar="MB",
    help="What its tiles may take before they are compressed.",
)  # fmt: skip
@read_options
@quiet
def view(
    model: Path,
    port: int,
    no_open: bool,
    host: str,
    folder: Path | None,
    export_size: int,
    quiet: bool,
    **options: Any,
) -> None:
    """Look at a model, or at samples that are fitted first, in the browser (extra: view)."""
    from elmfield._array.progress import bars
    from elmfield.io.viewed import export_view
    from elmfield.io.viewed import view as opened

    with bars(False if quiet else None) as progress:
        seen, samples = _field(model, options, progress)
        if folder is not None:
            tiles = export_view(
                seen, folder, samples=samples, size=export_size << 20, progress=progress
            )
    if folder is not None:
        if not quiet:
            click.echo(f"{folder / 'index.html'}: {tiles} tiles; any file server can show it.")
        return
    served = opened(seen, samples=samples, port=port, host=host, browser=not no_open)
    click.echo(f"{model.name} is at {served.url}" + ("" if quiet else "  (Ctrl-C ends it)"))
    try:
        served.wait()
    except KeyboardInterrupt:
        if not quiet:
            click.echo("closed.", err=True)


def _field(path: Path, options: dict[str, Any], progress: Any) -> tuple[Any, Any]:
    """The field of a model or of samples, called as the file is; and the samples, if at hand."""
    from dataclasses import replace

    from elmfield import Partition, fit, load, oriented, paper
    from elmfield.io.formats.registry import is_model

    if is_model(path):
        words = ("variable", "channel_axis", "slices") if options["beside"] is None else ()
        if any(options[k] for k in ("oriented", "beam", *words)):
            raise click.UsageError(
                "a model is shown as it is; fitting and slices are for samples (--samples FILE)."
            )
        field, samples = load(path), None
        if options["beside"] is not None:
            samples = _samples(options["beside"], options).values
    elif options["beside"] is not None:
        raise click.UsageError("--samples is for a model; of samples the page knows them already.")
    else:
        given = _samples(path, options)
        partition: Any = None
        settings: Any = oriented() if options["oriented"] else None
        if options["beam"]:
            settings = paper(width=256)
            partition = Partition.beam(
                given.values, regions=options["beam"], cell=16, channel_axis=given.channel_axis
            )
        field = fit(given, settings, partition=partition, progress=progress)
        samples = given.values
    return replace(field, attributes={**field.attributes, "title": path.name}), samples


def _samples(path: Path, options: dict[str, Any]) -> Any:
    return samples_of(path, options["variable"], options["slices"], options["channel_axis"])
