"""render and query: a model on a grid, and at points."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from elmfield.cli.tables import print_json
from elmfield.cli.words import IN, OUT, as_json, assignment, index_of, numbers, quiet


@click.command(
    epilog="""\b
Examples:
  elmfield render photo.elm -o large.png --scale 2
  elmfield render photo.elm -o detail.png --index row=100:164 --index column=80:144 --scale 8
  elmfield render sst.elm -o fine.nc --scale 2
  elmfield render sst.elm -o europe.png --window latitude=35:60 --window longitude=-10:30 --scale 4
  elmfield render photo.elm -o edges.png --quantity gradient
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
            window=_window(field, window) | _index_window(field, index, align),
            align=align,
            progress=progress,
            **options,
        )
    write(out, output, colours=colours)
    facts = {
        "file": str(output),
        "shape": list(out.values.shape),
        "axes": list(field.domain.dims),
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


@click.command(
    epilog="""\b
Examples:
  elmfield query photo.elm --at 100.5,80.25 --at 12,40
  elmfield query sst.elm --at latitude=48.2,longitude=16.4 --json
  elmfield query photo.elm --points points.csv --quantity gradient
"""
)
@click.argument("model", type=click.Path())
@click.option(
    "--at", multiple=True, metavar="X,X... | AXIS=X,AXIS=X...",
    help="A point: coordinates in axis order, or by name. May be repeated.",
)  # fmt: skip
@click.option(
    "--points", type=IN, metavar="FILE.csv",
    help="Points, one per line, in axis order or under a header of axis names; - for stdin.",
)  # fmt: skip
@click.option(
    "--quantity", type=click.Choice(["value", "gradient", "laplacian"]), default="value",
    show_default=True, help="The gradient has one number per axis here.",
)  # fmt: skip
@click.option(
    "--outside", type=click.Choice(["raise", "nearest", "nan"]), default="raise",
    show_default=True, help="What to do with points outside the domain.",
)  # fmt: skip
@as_json
def query(
    model: str, at: Sequence[str], points: Path | None, quantity: str, outside: str, as_json: bool
) -> None:
    """Values of MODEL at points, printed as CSV."""
    from elmfield import OutsideDomainError, load
    from elmfield._array.backend import to_numpy

    if not at and points is None:
        raise click.UsageError("Say where: --at X,X... or --points FILE.csv.")
    field = load(model)
    rows = [_point(text, field) for text in at]
    if points is not None:
        rows += _points(points, field)
    call: Any = {"value": field, "gradient": field.gradient, "laplacian": field.laplacian}[quantity]
    try:
        values = to_numpy(call(_coordinates(rows, field), outside=outside))
    except OutsideDomainError as error:  # in this room's words
        advice = re.sub(r"outside='(\w+)'", r"--outside \1", str(error))
        raise OutsideDomainError(advice) from error
    values = values.reshape(len(rows), -1)
    names, heads = field.domain.dims, _heads(field, quantity)
    if as_json:
        print_json(
            [
                {"at": {n: _number(w) for n, w in zip(names, r)}, **dict(zip(heads, v))}
                for r, v in zip(rows, values.tolist())
            ]
        )
    else:
        _print_csv([*names, *heads], rows, values)


def _coordinates(rows: Sequence[Sequence[str]], field: Any) -> Any:
    """Points, shape (n, d), of words; dates as the numbers their axis counts in."""
    import numpy as np

    from elmfield.field.labels import coordinates_in

    about = field.attributes.get("axes", {})
    columns = []
    for k, name in enumerate(field.domain.dims):
        dates = about.get(name, {}).get("epoch") is not None
        words = [r[k] for r in rows]
        try:
            given = np.asarray(words) if dates else np.asarray([float(w) for w in words])
            columns.append(coordinates_in(given, about.get(name, {})))
        except ValueError as error:
            raise ValueError(f"coordinates on axis {name!r}: {error}") from error
    return np.stack(columns, axis=-1)


def _heads(field: Any, quantity: str) -> list[str]:
    """What the columns of values are called."""
    labels, C = field.attributes.get("channels", {}).get("labels"), field.n_channels
    heads = [str(labels[k]) if labels and len(labels) == C else f"value{k}" for k in range(C)]
    heads = ["value"] if C == 1 else heads
    if quantity != "gradient":
        return heads
    return [f"{h}_d_{n}" if C > 1 else f"d_{n}" for h in heads for n in field.domain.dims]


def _print_csv(heads: Sequence[str], rows: Sequence[Sequence[str]], values: Any) -> None:
    """Points as they were written, and values with all their digits."""
    import csv

    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(heads)
    digits = 9 if values.dtype.itemsize == 4 else 17
    for r, v in zip(rows, values):
        out.writerow([*r, *(f"{n:.{digits}g}" for n in v.tolist())])


def _number(word: str) -> float | str:
    """A number if it is one; dates stay as they were written."""
    try:
        return float(word)
    except ValueError:
        return word


def _point(text: str, field: Any) -> list[str]:
    """The coordinates, as words, of one point."""
    names = field.domain.dims
    parts = [p.strip() for p in text.split(",")]
    if "=" not in text:
        if len(parts) != len(names):
            raise click.BadParameter(
                f"{text!r} has {len(parts)} coordinates; the axes are {', '.join(names)}.",
                param_hint="--at",
            )
        return parts
    given = dict(assignment(p, names, "--at") for p in parts)
    for axis in field.domain.axes:
        if axis.name not in given:
            if axis.size > 1:
                raise click.BadParameter(
                    f"{text!r} says nothing about axis {axis.name!r}.", param_hint="--at"
                )
            given[axis.name] = _only(axis, field)
    return [given[n] for n in names]


def _only(axis: Any, field: Any) -> str:
    """The one coordinate of an axis of one sample."""
    from elmfield.io.words import in_words

    about = field.attributes.get("axes", {}).get(axis.name, {})
    return in_words(float(axis.origin), about)


def _points(path: Path, field: Any) -> list[list[str]]:
    import csv

    names = field.domain.dims
    name = "the standard input" if str(path) == "-" else path.name
    text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    text = text.removeprefix("\ufeff")  # spreadsheets put it there
    rows = [r for r in csv.reader(text.splitlines()) if r and not r[0].startswith("#")]
    order = list(range(len(names)))
    heads = [h.strip() for h in rows[0]] if rows else []
    fixed: dict[int, str] = {}
    if any(h in names for h in heads):
        for k, axis in enumerate(field.domain.axes):
            if axis.name in heads:
                order[k] = heads.index(axis.name)
            elif axis.size == 1:
                fixed[k] = _only(axis, field)
            else:
                raise ValueError(f"{name} has no column {axis.name!r}; its columns are {heads}.")
        rows = rows[1:]
    if not rows:
        raise ValueError(f"{name} has no points; write one per line.")
    try:
        return [
            [fixed[k] if k in fixed else r[j].strip() for k, j in enumerate(order)] for r in rows
        ]
    except IndexError as error:
        raise ValueError(f"{name}: every line needs {len(names)} coordinates.") from error
