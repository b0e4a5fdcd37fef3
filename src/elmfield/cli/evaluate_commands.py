"""render and query: a model on a grid, and at points."""

import csv
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import click
import numpy as np

import elmfield as ef
from elmfield._array.backend import to_numpy
from elmfield._array.progress import bars, silent
from elmfield._array.typing import Coordinate, Floats
from elmfield.cli import terminal
from elmfield.domain.box import OUTSIDE
from elmfield.domain.sphere import is_latitude, is_longitude
from elmfield.field.coordinates.labels import coordinates_in, format_coordinate
from elmfield.field.point_values import query as values_at
from elmfield.io.export.rendering import Rendering
from elmfield.io.files import format_of

MAX_LINE_CHARACTERS = 1 << 20
"""Characters of a line in a table of points."""

Words = list[list[str]]
Window = dict[str, tuple[Coordinate, Coordinate]]
Model = Annotated[str, click.Path(), "MODEL_OR_FILE"]


@terminal.command
def render(
    model: Model,
    *,
    output: terminal.Output,
    scale: terminal.Floats | None = None,
    shape: terminal.Integers | None = None,
    window: Sequence[str] = (),
    index: Sequence[str] = (),
    quantity: Literal["value", "gradient_magnitude", "laplacian"] = "value",
    std: bool = False,
    align: Annotated[str, click.Choice(["areas", "nodes"])] | None = None,
    like: Path | None = None,
    step: terminal.Floats | None = None,
    grid: Annotated[Any, terminal.INTEGERS] = None,
    crs: str | None = None,
    mean: bool = False,
    rate: str | None = None,
    spacing: Annotated[Any, terminal.numbers(float, unit="mm")] = None,
    antialias: bool = True,
    missing: terminal.Missing | None = None,
    dtype: str | None = None,
    colours: str | None = None,
    files: terminal.SampleOptions,
    quiet: terminal.Quiet = False,
    as_json: terminal.Json = False,
) -> None:
    """Evaluate a model, or samples, on a grid and write it.

    In any format that can hold it, told by the name of the file. Samples are fitted first.

    Options
    -------
    --output
        The file to write.
    --scale X[,X...]
        New samples per old one; for all axes or each.
    --shape N,N...
        New samples on each axis, for instance 720x1440.
    --window AXIS=LOW:HIGH
        In the axis's units; dates: A/B.
    --index AXIS=A:B
        Window in sample numbers.
    --quantity
        The values, the length of their gradient, or their Laplacian.
    --std
        Standard deviations: how sure the values are.
    --align
        Samples stand for areas (pictures) or nodes (weather: old nodes stay nodes).
    --like FILE
        On the grid of another file or model: its coordinates, and its reference system.
    --step X[,X]
        Places so far apart, in the axes' unit (or --crs's).
    --grid NxN
        So many equal cells, for instance 180x360.
    --crs NAME
        In another reference system, as EPSG:3035.
    --mean
        Means over the cells, by area: conservative.
    --rate N|N/M
        Samples (sound) or frames (video) per second.
    --spacing MM[,MM,MM]
        Millimetres between voxels of a scan.
    --antialias
        Whether fewer samples than before are means over what each stands for.
    --dtype
        Of the values; by default the input's.
    --colours
        Colour map for pictures of numbers, as viridis; else grey.

    Examples
    --------
    elmfield render photo.elm -o large.png --scale 2
    elmfield render photo.png -o large.png --scale 2
    elmfield render photo.elm -o detail.png --index row=100:164 --index column=80:144 --scale 8
    elmfield render sst.elm -o fine.nc --scale 2
    elmfield render sst.elm -o part.png --window latitude=35:60 --window longitude=-10:30 --scale 4
    elmfield render photo.elm -o edges.png --quantity gradient_magnitude
    elmfield render sst.elm -o sure.nc --std
    elmfield render sst.elm -o coarse.nc --grid 18x36 --mean
    elmfield render sst.elm -o same.nc --like sst.nc
    elmfield render sst.elm -o map.nc --window latitude=35:70 --window longitude=0:9 --crs EPSG:3035
    elmfield render scan.elm -o even.nii.gz --spacing 1mm
    elmfield render speech.elm -o speech.wav --rate 44100
    """
    format_of(output)
    with bars(False if quiet or as_json else None) as progress:
        field, _ = files.field(model, progress, quiet or as_json)
    if std and quantity != "value":
        raise click.UsageError("--std is of values; leave --quantity out.")
    align = align or field.labels.align or "areas"
    part = _window(field, window) | _index_window(field, index, align)
    where = ef.OutputGrid(
        shape=shape, scale=scale, step=step, grid=grid, spacing=spacing, rate=rate, like=like,
        window=part, crs=crs, align=align,
    )  # fmt: skip
    with bars(False if quiet or as_json else None) as progress:
        out = Rendering(
            field=field, quantity="std" if std else quantity, mean=mean, antialias=antialias,
            missing=missing, dtype=dtype, progress=progress,
        ).on(where)  # fmt: skip
    ef.write(out, output, colours=colours)
    kind, sizes = out.values.dtype.name, out.values.shape
    if as_json:
        facts = {"file": str(output), "shape": list(sizes), "axes": list(out.dims), "dtype": kind}
        terminal.print_json(facts)
    elif not quiet:
        click.echo(f"{output}: {' × '.join(map(str, sizes))} {kind}", err=True)


def _window(field: ef.Field, texts: Sequence[str]) -> Window:
    """What --window says, by axis: two ends in its units, dates as they are written."""
    found: Window = {}
    for text in texts:
        name, content = terminal.assignment(text, field.domain.dims, "--window")
        # Dates have colons of their own.
        a, sign, b = content.partition("/" if "/" in content else ":")
        if not sign:
            raise click.BadParameter(f"{content!r} is not LOW:HIGH.", param_hint="--window")
        try:
            found[name] = (a, b) if _is_dated(field, name) else (float(a), float(b))
        except ValueError as error:
            raise click.BadParameter(f"{content!r}: {error}", param_hint="--window") from error
    return found


def _is_dated(field: ef.Field, axis: str) -> bool:
    """Whether coordinates on an axis are dates."""
    return field.labels.axis(axis).epoch is not None


def _index_window(field: ef.Field, texts: Sequence[str], align: str) -> Window:
    """What --index says, by axis, in its units: with the areas of the samples, or without."""
    found: Window = {}
    for text in texts:
        name, content = terminal.assignment(text, field.domain.dims, "--index")
        axis = field.domain.axes[field.domain.dims.index(name)]
        piece = terminal.index_of(content)
        if not isinstance(piece, slice):
            piece = slice(piece % axis.size, piece % axis.size + 1)
        start, stop, _ = piece.indices(axis.size)
        # One node needs some room around it.
        inset = 0.5 if align == "areas" else 0.25 if stop - start == 1 else 0.0
        ends = axis.from_index(np.asarray([start - inset, stop - 1 + inset]))
        found[name] = float(min(ends)), float(max(ends))
    return found


# --- points ---------------------------------------------------------------------------------------


@terminal.command
def query(
    model: Model,
    *,
    at: Sequence[str] = (),
    points: Path | None = None,
    quantity: Literal["value", "gradient", "laplacian"] = "value",
    std: bool = False,
    outside: Annotated[str, click.Choice(OUTSIDE)] = "raise",
    missing: terminal.Missing | None = None,
    files: terminal.SampleOptions,
    as_json: terminal.Json = False,
) -> None:
    """Values of a model, or of samples, at points, printed as CSV.

    Samples are fitted first.

    Options
    -------
    --at X,X... | AXIS=X,AXIS=X...
        A point: coordinates in axis order, or by name. May be repeated.
    --points FILE.csv
        Points, one per line, in axis order or under a header of axis names (lat and lon will do);
        other columns are kept; - for stdin.
    --quantity
        The gradient has one number per axis here.
    --std
        Standard deviations in columns of their own.
    --outside
        What to do with points outside the domain.

    Examples
    --------
    elmfield query photo.elm --at 100.5,80.25 --at 12,40
    elmfield query sst.elm --at latitude=48.2,longitude=16.4 --json
    elmfield query photo.elm --points points.csv --quantity gradient
    elmfield query sst.elm --at latitude=48.2,longitude=16.4 --std
    """
    if not at and points is None:
        raise click.UsageError("Say where: --at X,X... or --points FILE.csv.")
    field, _ = files.field(model, silent, as_json)
    listed, kept, others = ([], [], []) if points is None else _read_table(points, field)
    rows = [_point(text, field) for text in at] + listed
    others = [[""] * len(kept)] * len(at) + others
    where = _coordinates(rows, field)
    try:
        values = to_numpy(values_at(field.model, quantity, where, outside, missing))
        values = values.reshape(len(rows), -1)
    except ef.OutsideDomainError as error:  # in the command's own words
        advice = re.sub(r"outside='(\w+)'", r"--outside \1", str(error))
        raise ef.OutsideDomainError(advice) from error
    names, heads = field.domain.dims, _value_heads(field, quantity)
    if std:
        sure = field.std(where, quantity=quantity, outside=outside, missing=missing)
        values = np.concatenate([values, to_numpy(sure).reshape(len(rows), -1)], axis=1)
        heads = heads + [f"{h}_std" for h in heads]
    if as_json:
        found = []
        for r, other, v in zip(rows, others, values.tolist()):
            place = {n: _number(w) for n, w in zip(names, r)}
            found.append({"at": place, **dict(zip(kept, other)), **dict(zip(heads, v))})
        terminal.print_json(found)
        return
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([*kept, *names, *heads])
    digits = 9 if values.dtype.itemsize == 4 else 17  # all that it has
    for r, other, v in zip(rows, others, values.tolist()):
        out.writerow([*other, *r, *(f"{n:.{digits}g}" for n in v)])


def _coordinates(rows: Sequence[Sequence[str]], field: ef.Field) -> Floats:
    """Points, shape (n, d), of words; dates as the numbers their axis counts in."""
    columns = []
    for k, name in enumerate(field.domain.dims):
        words = [r[k] for r in rows]
        try:
            given = words if _is_dated(field, name) else [float(w) for w in words]
            columns.append(coordinates_in(np.asarray(given), field.labels.axis(name)))
        except ValueError as error:
            raise ValueError(f"coordinates on axis {name!r}: {error}") from error
    return np.stack(columns, axis=-1)


def _value_heads(field: ef.Field, quantity: str) -> list[str]:
    """What the columns of values are called."""
    labels, C = field.labels.channels.labels, field.model.n_channels
    heads = [str(labels[k]) if labels and len(labels) == C else f"value{k}" for k in range(C)]
    heads = ["value"] if C == 1 else heads
    if quantity != "gradient":
        return heads
    return [f"{h}_d_{n}" if C > 1 else f"d_{n}" for h in heads for n in field.domain.dims]


def _number(word: str) -> float | str:
    """A number if it is one; dates stay as they were written."""
    try:
        return float(word)
    except ValueError:
        return word


def _point(text: str, field: ef.Field) -> list[str]:
    """The coordinates, as words, of one point."""
    names = field.domain.dims
    parts = [p.strip() for p in text.split(",")]
    if "=" not in text:
        if len(parts) != len(names):
            told = f"{text!r} has {len(parts)} coordinates; the axes are {', '.join(names)}."
            raise click.BadParameter(told, param_hint="--at")
        return parts
    given = dict(terminal.assignment(p, names, "--at") for p in parts)
    for axis in field.domain.axes:
        if axis.name not in given and axis.size > 1:
            told = f"{text!r} says nothing about axis {axis.name!r}."
            raise click.BadParameter(told, param_hint="--at")
    return [given[a.name] if a.name in given else _only(a, field) for a in field.domain.axes]


def _only(axis: ef.Axis, field: ef.Field) -> str:
    """The one coordinate of an axis of one sample."""
    return format_coordinate(float(axis.origin), field.labels.axis(axis.name))


def _read_table(path: Path, field: ef.Field) -> tuple[Words, list[str], Words]:
    """The points in a table, under a header of axis names or in axis order.

    Coordinates in axis order, as they were written; names and contents of other columns.
    """
    axes, name = field.domain.axes, "the standard input" if str(path) == "-" else path.name
    try:
        with click.open_file(str(path), encoding="utf-8") as file:
            rows = _rows(file)
    except csv.Error as error:
        raise ValueError(f"{name} is no table of points: {error}.") from error
    heads = list(field.domain.dims)
    if rows and not _is_point(rows[0], field):
        heads, *rows = rows
    if not rows:
        raise ValueError(f"{name} has no points; write one per line.")
    places = [_column(name, heads, a, field) for a in axes]
    if max((j for j in places if j is not None), default=-1) >= min(map(len, rows)):
        raise ValueError(f"{name}: every line needs {len(axes)} coordinates.")
    kept = [j for j in range(len(heads)) if j not in places]
    return (
        [[_only(a, field) if j is None else r[j] for a, j in zip(axes, places)] for r in rows],
        [heads[j] for j in kept],
        [[r[j] if j < len(r) else "" for j in kept] for r in rows],
    )


def _rows(file: IO[str]) -> list[list[str]]:
    """The rows of a table of comma-separated values; a line without an end is an error."""

    def lines() -> Iterator[str]:
        while line := file.readline(MAX_LINE_CHARACTERS + 1):
            if len(line) > MAX_LINE_CHARACTERS:
                raise csv.Error(f"a line is longer than {MAX_LINE_CHARACTERS}")
            yield line.removeprefix("\ufeff")  # spreadsheets put it there

    rows = [[word.strip() for word in row] for row in csv.reader(lines())]
    return [r for r in rows if r and not r[0].startswith("#")]


def _is_point(row: Sequence[str], field: ef.Field) -> bool:
    """Whether a line holds coordinates, not names: a number, or a date, on every axis."""
    return all(
        isinstance(_number(word), float) or (_is_dated(field, name) and word[:1].isdigit())
        for word, name in zip(row, field.domain.dims)
    )


def _column(name: str, heads: Sequence[str], axis: ef.Axis, field: ef.Field) -> int | None:
    """The column of an axis: by its name, or as latitude or longitude; None if it needs none."""
    own, attrs = axis.name, field.labels.axis(axis.name).attrs
    exact = [j for j, h in enumerate(heads) if h == own]
    lower = [j for j, h in enumerate(heads) if h.lower() == own.lower()]
    kinds = [is_it for is_it in (is_latitude, is_longitude) if is_it(own, attrs)]
    alike = [j for j, h in enumerate(heads) if any(is_it(h, {}) for is_it in kinds)]
    if found := exact or lower or (alike if len(alike) == 1 else []):
        return found[0]
    if axis.size == 1:
        return None
    raise ValueError(
        f"{name} has no column {axis.name!r}; its columns are {list(heads)}. Name the columns of "
        f"coordinates as the axes, {', '.join(field.domain.dims)}."
    )
