"""query: a model at points."""

import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click

from elmfield.cli.tables import print_json
from elmfield.cli.words import IN, as_json, assignment, missing_option

LONGEST = 1 << 20
"""Characters of a line in a table of points."""


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
    help="Points, one per line, in axis order or under a header of axis names (lat and lon will "
    "do); other columns are kept; - for stdin.",
)  # fmt: skip
@click.option(
    "--quantity", type=click.Choice(["value", "gradient", "laplacian"]), default="value",
    show_default=True, help="The gradient has one number per axis here.",
)  # fmt: skip
@click.option(
    "--outside", type=click.Choice(["raise", "nearest", "nan"]), default="raise",
    show_default=True, help="What to do with points outside the domain.",
)  # fmt: skip
@missing_option
@as_json
def query(
    model: str,
    at: Sequence[str],
    points: Path | None,
    quantity: str,
    outside: str,
    missing: str | None,
    as_json: bool,
) -> None:
    """Values of MODEL at points, printed as CSV."""
    from elmfield import OutsideDomainError, load
    from elmfield._array.backend import to_numpy

    if not at and points is None:
        raise click.UsageError("Say where: --at X,X... or --points FILE.csv.")
    field = load(model)
    rows = [_point(text, field) for text in at]
    others = Others(heads=[], rows=[[] for _ in rows])
    if points is not None:
        found, others = _points(points, field, before=len(rows))
        rows += found
    call: Any = {"value": field, "gradient": field.gradient, "laplacian": field.laplacian}[quantity]
    try:
        values = to_numpy(call(_coordinates(rows, field), outside=outside, missing=missing))
    except OutsideDomainError as error:  # in this room's words
        advice = re.sub(r"outside='(\w+)'", r"--outside \1", str(error))
        raise OutsideDomainError(advice) from error
    values = values.reshape(len(rows), -1)
    names, heads = field.domain.dims, _heads(field, quantity)
    if as_json:
        print_json(
            [
                {
                    "at": {n: _number(w) for n, w in zip(names, r)},
                    **dict(zip(others.heads, other)),
                    **{h: None if math.isnan(n) else n for h, n in zip(heads, v)},
                }
                for r, other, v in zip(rows, others.rows, values.tolist())
            ]
        )
    else:
        lines = [[*other, *r] for r, other in zip(rows, others.rows)]
        _print_csv([*others.heads, *names, *heads], lines, values)


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


@dataclass(frozen=True)
class Others:
    """Columns of a table of points that are no coordinates: their heads, and one row per point."""

    heads: list[str]
    rows: list[list[str]]


def _points(path: Path, field: Any, before: int = 0) -> tuple[list[list[str]], Others]:
    """Coordinates of the points in a table, as words in axis order, and its other columns.

    `before` counts points without a table, whose other columns are empty.
    """
    import csv

    names = field.domain.dims
    name = "the standard input" if str(path) == "-" else path.name
    if str(path) == "-":
        lines = _lines(sys.stdin, name)
    else:
        with path.open(encoding="utf-8") as file:
            lines = _lines(file, name)
    try:
        rows = [r for r in csv.reader(lines) if r and not r[0].startswith("#")]
    except csv.Error as error:
        raise ValueError(f"{name} is no table of points: {error}.") from error
    heads = [h.strip() for h in rows[0]] if rows else []
    places: list[int | None] = list(range(len(names)))
    has_heads = bool(rows) and not _numeric(rows[0], field)
    if has_heads:
        places, rows = _columns(name, heads, field), rows[1:]
    if not rows:
        raise ValueError(f"{name} has no points; write one per line.")
    try:
        found = [
            [
                _only(a, field) if j is None else r[j].strip()
                for a, j in zip(field.domain.axes, places)
            ]
            for r in rows
        ]
    except IndexError as error:
        raise ValueError(f"{name}: every line needs {len(names)} coordinates.") from error
    kept = [j for j in range(len(heads)) if j not in places] if has_heads else []
    more = [[r[j].strip() if j < len(r) else "" for j in kept] for r in rows]
    return found, Others([heads[j] for j in kept], [[""] * len(kept)] * before + more)


def _lines(file: TextIO, name: str) -> list[str]:
    """The lines of a table; one that does not end, as of a device, is no table."""
    lines = []
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise ValueError(f"{name} is no table of points: a line is longer than {LONGEST}.")
        lines += line.removeprefix("\ufeff").splitlines()  # spreadsheets put it there
    return lines


def _numeric(row: Sequence[str], field: Any) -> bool:
    """Whether a line holds coordinates, not names: a number, or a date, on every axis."""
    about, dims = field.attributes.get("axes", {}), field.domain.dims
    for word, name in zip(row, dims):
        dated = about.get(name, {}).get("epoch") is not None
        try:
            float(word)
        except ValueError:
            if not (dated and word.strip()[:1].isdigit()):
                return False
    return True


def _columns(name: str, heads: Sequence[str], field: Any) -> list[int | None]:
    """The column of each axis: by its name, or as latitude and longitude; None if it needs none."""
    from elmfield.domain.sphere import is_latitude, is_longitude

    about = field.attributes.get("axes", {})
    lower = [h.lower() for h in heads]
    places: list[int | None] = []
    for axis in field.domain.axes:
        attrs = about.get(axis.name, {}).get("attrs", {})
        alike = [
            j
            for j, h in enumerate(heads)
            if (is_latitude(axis.name, attrs) and is_latitude(h, {}))
            or (is_longitude(axis.name, attrs) and is_longitude(h, {}))
        ]
        if axis.name in heads:
            places.append(heads.index(axis.name))
        elif axis.name.lower() in lower:
            places.append(lower.index(axis.name.lower()))
        elif len(alike) == 1:
            places.append(alike[0])
        elif axis.size == 1:
            places.append(None)
        else:
            raise ValueError(
                f"{name} has no column {axis.name!r}; its columns are {list(heads)}. Name the "
                f"columns of coordinates as the axes, {', '.join(field.domain.dims)}."
            )
    return places
