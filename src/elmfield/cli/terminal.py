"""What commands share: options and what their words mean, tables and JSON."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click

from elmfield.io.files import read
from elmfield.io.gridded import Gridded
from elmfield.io.model.metadata import to_plain

Command = Callable[..., None]

IN = click.Path(path_type=Path, readable=False)
OUT = click.Path(path_type=Path, writable=False)


def command(function: Command) -> click.Command:
    """Make a command of a function; the examples of its docstring end its help."""
    about, _, examples = cleandoc(function.__doc__ or "").partition("Examples\n--------\n")
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    return click.command(help=about, epilog=f"\b\nExamples:\n{lines}\n")(function)


# --- options --------------------------------------------------------------------------------------


def numbers(
    kind: type[int | float], words: Mapping[str, object] | None = None, unit: str = ""
) -> Callable[[str], Any]:
    """Return what reads one number, or several joined by commas or x.

    Parameters
    ----------
    kind : type
        Of the numbers: int or float.
    words : mapping, optional
        What certain words mean instead.
    unit : str
        What may follow a number.
    """

    def parse(text: str) -> Any:
        if words is not None and text in words:
            return words[text]
        plain = text.replace(unit, "").replace("x", ",").replace("×", ",")
        try:
            parts = tuple(map(kind, plain.split(",")))
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not a number.") from error
        return parts[0] if len(parts) == 1 else parts

    return parse


def n_bytes(text: str) -> int:
    """A number of bytes, of 1G, 500M, 64k or digits alone."""
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    word = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = word[-1:] if word[-1:] in units else ""
    try:
        return int(float(word.removesuffix(unit)) * units[unit])
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no size; write for instance 1G or 500M.") from error


def _axis(_context: object, _option: object, text: str | None) -> int | str | None:
    """The number of an axis, if the text is one, or its name."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
missing_option = click.option(
    "--missing", type=click.Choice(["nan", "fill"]),
    help="Where samples were missing: NaN, or what was filled in; by default NaN.",
)  # fmt: skip
_READ_OPTIONS = (
    click.option("--variable", metavar="NAME", help="Which array, if the file holds several."),
    click.option(
        "--slice", "slices", multiple=True, metavar="AXIS=I|A:B[:S]",
        help="Take one index of an axis, or a range; by name or number. May be repeated.",
    ),
    click.option(
        "--channel-axis", callback=_axis, metavar="N|NAME",
        help="The axis that holds channels (colours, bands), by number or name; -1 is the last.",
    ),
    click.option(
        "--max-pixels", type=click.IntRange(1), metavar="N",
        help="Refuse pictures that claim more; by default only those that no file so small holds.",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class FileOptions:
    """What to read of a file: the options of all commands that take samples."""

    variable: str | None = None
    slices: Sequence[str] = ()
    channel_axis: int | str | None = None
    max_pixels: int | None = None

    @property
    def selects(self) -> bool:
        """Whether anything was said about what to read."""
        return bool(self.variable or self.slices) or self.channel_axis is not None

    def read(self, path: Path, *, lazily: bool = False) -> Gridded:
        """The samples in a file; `lazily`, they stay there."""
        samples = read(path, variable=self.variable, max_pixels=self.max_pixels, lazily=lazily)
        if self.channel_axis is not None:
            try:
                samples = samples.with_channels(self.channel_axis)
            except ValueError as error:
                raise click.BadParameter(str(error), param_hint="--channel-axis") from error
        for text in self.slices:
            name, index = assignment(text, samples.dims, "--slice")
            samples = samples.pick(name, index_of(index))
        if not samples.dims:
            raise ValueError("nothing is left to fit: every axis was sliced away.")
        return samples


def read_options(command: Command) -> Command:
    """Give a command the options of files; it takes them as `files`, a FileOptions."""

    @wraps(command)
    def call(
        *, variable: Any, slices: Any, channel_axis: Any, max_pixels: Any, **options: Any
    ) -> None:
        command(files=FileOptions(variable, slices, channel_axis, max_pixels), **options)

    for option in reversed(_READ_OPTIONS):
        call = option(call)
    return call


def assignment(text: str, names: Sequence[str], option: str) -> tuple[str, str]:
    """Name and content of AXIS=CONTENT."""
    name, sign, content = text.partition("=")
    if not sign:
        raise click.BadParameter(f"{text!r} is not of the form AXIS=...", param_hint=option)
    if name not in names and name.lstrip("-").isdigit() and -len(names) <= int(name) < len(names):
        name = names[int(name)]
    if name not in names:
        raise click.BadParameter(
            f"there is no axis {name!r}; the axes are {', '.join(names)}.", param_hint=option
        )
    return name, content


def index_of(text: str) -> int | slice:
    """An index, or a range, of I, A:B or A:B:S."""
    try:
        parts = [int(p) if p else None for p in text.split(":")]
        if len(parts) == 1 and parts[0] is not None:
            return parts[0]
        if len(parts) in (2, 3):
            return slice(*parts)
    except ValueError:
        pass
    raise click.BadParameter(f"{text!r} is neither I nor A:B nor A:B:S.", param_hint="--slice")


# --- output ---------------------------------------------------------------------------------------


def report(
    facts: Mapping[str, object],
    rows: Mapping[str, object],
    *,
    as_json: bool,
    quiet: bool = False,
    title: str | None = None,
) -> None:
    """Print facts as JSON, or rows as a table without those that hold None; or nothing."""
    if as_json:
        print_json(facts)
        return
    if quiet:
        return
    from rich.console import Console  # 0.05 s, for who wants to see it
    from rich.table import Table

    table = Table(show_header=False, box=None, title=title, title_justify="left", padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, str(value))
    Console(highlight=False, markup=False).print(table)


def print_json(content: object) -> None:
    """Print JSON, for machines; infinities and NaN, which it has no word for, as null."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return None if set(value) == {"$float"} else {k: finite(v) for k, v in value.items()}
        return [finite(v) for v in value] if isinstance(value, list) else value

    plain = (getattr(sys.stdout, "encoding", None) or "ascii").lower().startswith("utf")
    click.echo(json.dumps(finite(to_plain(content)), indent=2, ensure_ascii=not plain))


def in_bytes(n: float) -> str:
    """A size as people say it."""
    for unit in ("B", "KiB", "MiB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} GiB"
