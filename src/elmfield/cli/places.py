"""render: a model on a grid."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from elmfield.cli.tables import print_json
from elmfield.cli.words import (
    IN,
    OUT,
    as_json,
    assignment,
    index_of,
    missing_option,
    numbers,
    quiet,
)


@click.command(
    epilog="""\b
Examples:
  elmfield render photo.elm -o large.png --scale 2
  elmfield render photo.elm -o detail.png --index row=100:164 --index column=80:144 --scale 8
  elmfield render sst.elm -o fine.nc --scale 2
  elmfield render sst.elm -o europe.png --window latitude=35:60 --window longitude=-10:30 --scale 4
  elmfield render photo.elm -o edges.png --quantity gradient
  elmfield render sst.elm -o coarse.nc --grid 18x36 --mean
  elmfield render sst.elm -o same.nc --like sst.nc
  elmfield render sst.elm -o map.nc --window latitude=35:70 --window longitude=0:45 --crs EPSG:3035
  elmfield render scan.elm -o even.nii.gz --spacing 1mm
  elmfield render speech.elm -o speech.wav --rate 44100
"""
)
@click.argument("model", type=click.Path())
@click.option("-o", "--output", type=OUT, required=True, help="The file to write.")
@click.option("--scale", metavar="X[,X...]", help="New samples per old one; for all axes or each.")
@click.option("--shape", metavar="N,N...", help="New samples on each axis, for instance 720x1440.")
@click.option(
    "--window", multiple=True, metavar="AXIS=LOW:HIGH", help="In the axis's units; dates: A/B."
)
@click.option("--index", multiple=True, metavar="AXIS=A:B", help="Window in sample numbers.")
@click.option(
    "--quantity", type=click.Choice(["value", "gradient", "laplacian"]), default="value",
    show_default=True, help="The values, their gradient's magnitude, or their Laplacian.",
)  # fmt: skip
@click.option(
    "--align", type=click.Choice(["areas", "nodes"]),
    help="Samples stand for areas (pictures) or nodes (weather: old nodes stay nodes).",
)  # fmt: skip
@click.option(
    "--like", type=IN, metavar="FILE",
    help="On the grid of another file or model: its coordinates, and its reference system.",
)  # fmt: skip
@click.option(
    "--step", metavar="X[,X]", help="Places so far apart, in the axes' unit (or --crs's)."
)
@click.option("--grid", metavar="NxN", help="So many equal cells, for instance 180x360.")
@click.option("--crs", metavar="NAME", help="In another reference system, as EPSG:3035.")
@click.option("--mean", is_flag=True, help="Means over the cells, by area: conservative.")
@click.option("--rate", metavar="N|N/M", help="Samples (sound) or frames (video) per second.")
@click.option("--spacing", metavar="MM[,MM,MM]", help="Millimetres between voxels of a scan.")
@click.option(
    "--antialias/--no-antialias", default=True, show_default=True,
    help="Whether fewer samples than before are means over what each stands for.",
)  # fmt: skip
@missing_option
@click.option("--dtype", help="Of the values; by default the input's.")
@click.option("--colours", help="Colour map for pictures: viridis, grey or error.")
@quiet
@as_json
def render(
    model: str,
    output: Path,
    scale: str | None,
    shape: str | None,
    window: Sequence[str],
    index: Sequence[str],
    align: str | None,
    step: str | None,
    grid: str | None,
    spacing: str | None,
    colours: str | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate MODEL on a grid of any size and write it, in any format that can hold it."""
    from elmfield import load, write
    from elmfield._array.progress import bars
    from elmfield.io.formats.registry import format_of
    from elmfield.io.rendered import rendered

    format_of(output)
    field = load(model)
    align = align or str(field.attributes.get("align", "areas"))
    with bars(False if quiet or as_json else None) as progress:
        out = rendered(
            field,
            numbers(shape, "--shape", int),
            scale=numbers(scale, "--scale"),
            window=(_window(field, window) | _index_window(field, index, align)) or None,
            align=align,
            step=numbers(step, "--step"),
            grid=numbers(grid, "--grid", int),
            spacing=numbers(None if spacing is None else spacing.replace("mm", ""), "--spacing"),
            progress=progress,
            **options,
        )
    write(out, output, colours=colours)
    facts = {
        "file": str(output),
        "shape": list(out.values.shape),
        "axes": list(out.dims),
        "dtype": out.values.dtype.name,
    }
    if as_json:
        print_json(facts)
    elif not quiet:
        sizes = " × ".join(map(str, out.values.shape))
        click.echo(f"{output}: {sizes} {out.values.dtype.name}", err=True)


def _window(field: Any, texts: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """What --window says, by axis: two ends in its units, dates as they are written."""
    about = field.attributes.get("axes", {})
    found: dict[str, tuple[Any, Any]] = {}
    for text in texts:
        name, content = assignment(text, field.domain.dims, "--window")
        # Dates have colons of their own.
        a, sign, b = content.partition("/" if "/" in content else ":")
        if not sign:
            raise click.BadParameter(f"{content!r} is not LOW:HIGH.", param_hint="--window")
        if about.get(name, {}).get("epoch") is None:
            try:
                found[name] = float(a), float(b)
            except ValueError as error:
                raise click.BadParameter(f"{content!r}: {error}", param_hint="--window") from error
        else:
            found[name] = a, b
    return found


def _index_window(field: Any, texts: Sequence[str], align: str) -> dict[str, tuple[Any, Any]]:
    """What --index says, by axis, in its units: with the areas of the samples, or without."""
    import numpy as np

    found: dict[str, tuple[Any, Any]] = {}
    for text in texts:
        name, content = assignment(text, field.domain.dims, "--index")
        axis = field.domain.axes[field.domain.dims.index(name)]
        piece = index_of(content)
        if isinstance(piece, slice):
            start, stop, _ = piece.indices(axis.size)
        else:
            start = piece % axis.size
            stop = start + 1
        inset = 0.5 if align == "areas" else 0.0
        if stop - start == 1 and not inset:  # one node needs some room around it
            inset = 0.25
        ends = axis.from_index(np.asarray([start - inset, stop - 1 + inset]))
        found[name] = float(min(ends)), float(max(ends))
    return found
