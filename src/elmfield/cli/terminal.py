"""What commands share: options and what their words mean, fields of files, tables and JSON."""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import cleandoc
from pathlib import Path
from typing import Any

import click
import numpy as np

import elmfield as ef
from elmfield._array.typing import Array, Progress
from elmfield.field import Field
from elmfield.io.files import is_model, read
from elmfield.io.gridded import Gridded
from elmfield.io.model.metadata import to_plain
from elmfield.io.store.stores import is_url
from elmfield.settings import Settings

Command = Callable[..., None]
Decorator = Callable[[Command], Command]
Facts = Mapping[str, object]

IN = click.Path(path_type=Path, readable=False)
OUT = click.Path(path_type=Path, writable=False)

PRESETS: dict[str, Callable[..., Settings]] = {
    "smooth": ef.smooth,
    "oriented": ef.oriented,
    "paper": ef.paper,
}

ORIENTED_MAX_PIXELS = 4 << 20
"""Pixels up to which a picture is fitted with oriented(), unless a preset is asked for."""


def command(function: Command) -> click.Command:
    """Make a command of a function; its help is in docstrings.

    The examples of its own end its help. Its section on options, and those of the blocks of options
    below, say what stands for the value of each, and what it does.
    """
    about, _, examples = cleandoc(function.__doc__ or "").partition("Examples\n--------\n")
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    epilog = f"\b\nExamples:\n{lines}\n"
    made = click.command(help=about.partition("Options\n---")[0], epilog=epilog)(function)
    told: dict[str, tuple[str | None, str]] = {}
    for source in (FileOptions, SampleOptions, function):
        entry = re.compile(r"^(--\S+) ?(.*)\n((?: {4}.*\n?)+)", re.MULTILINE)
        found = entry.findall(cleandoc(source.__doc__ or ""))
        told |= {name: (value or None, " ".join(text.split())) for name, value, text in found}
    for option in made.params:
        if isinstance(option, click.Option) and option.opts[-1] in told:
            option.metavar, option.help = told[option.opts[-1]]
    return made


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


FLOATS, INTEGERS = numbers(float), numbers(int)


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
missing_option = click.option("--missing", type=click.Choice(["nan", "fill"]))
preset_option = click.option("--preset", type=click.Choice(list(PRESETS)))
denoise_option = click.option(
    "--denoise", type=numbers(float, {"yes": True, "true": True, "auto": True})
)
_READ_OPTIONS = (
    click.option("--variable"),
    click.option("--slice", "slices", multiple=True),
    click.option("--channel-axis", callback=_axis),
    click.option("--max-pixels", type=click.IntRange(1)),
)
_samples_option = click.option("--samples", type=click.Choice(["points", "means"]))


@dataclass(frozen=True)
class FileOptions:
    """What to read of a file: the options of all commands that take samples.

    Options
    -------
    --variable NAME
        Which array, if the file holds several.
    --slice AXIS=I|A:B[:S]
        Take one index of an axis, or a range; by name or number. May be repeated.
    --channel-axis N|NAME
        The axis that holds channels (colours, bands), by number or name; -1 is the last.
    --max-pixels N
        Refuse pictures that claim more; by default only those that no file so small holds.
    """

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


@dataclass(frozen=True)
class SampleOptions(FileOptions):
    """How samples become a field, where a command takes samples or a model.

    Options
    -------
    --preset
        smooth: right between the samples too; oriented: regions choose directions, best for
        pictures; paper: the paper's network and least squares.
    --samples
        What the numbers are: values at points, or means over their cells; by default what the file
        says, and pictures are means over their pixels.
    --denoise yes|LEVEL
        Take noise out: estimated, or this strong.
    --missing
        Where samples were missing: NaN, or what was filled in; by default NaN.
    """

    preset: str | None = None
    samples: str | None = None
    denoise: float | bool | None = None

    def settings(self, given: Gridded) -> Settings | None:
        """The preset asked for; else oriented() for pictures that are not too large."""
        pixels = math.prod(given.shape)
        is_picture = given.labels.samples == "means" and pixels <= ORIENTED_MAX_PIXELS
        preset = "oriented" if self.preset is None and is_picture else self.preset
        noise = {} if self.denoise is None else {"denoise": self.denoise}
        if preset == "paper" and noise:
            raise click.UsageError("--denoise: only with --preset smooth or oriented.")
        return PRESETS[preset or "smooth"](**noise) if preset or noise else None

    def field(
        self, path: Path | str, progress: Progress, quiet: bool
    ) -> tuple[Field, Array | None]:
        """The field of a model, or of samples, which are fitted first; and these samples."""
        if is_url(path) or is_model(path):
            asked = [self.preset, self.samples, self.denoise]
            if any(o is not None for o in asked) or self.selects:
                raise click.UsageError(
                    f"{Path(path).name} is a model, which is fitted already; --preset, --samples, "
                    "--denoise and slices are for samples."
                )
            return ef.load(path), None
        given = self.read(Path(path))
        settings = self.settings(given)
        if not quiet:
            name = type(settings).__name__.lower() if settings is not None else "smooth"
            told = f"{Path(path).name}: samples, fitted first with --preset {name}"
            click.echo(f"{told}; `elmfield fit` keeps a model.", err=True)
        field = ef.fit(given, settings, samples=self.samples, progress=progress)
        return field, np.asarray(given.values)


def _taking(kind: type[FileOptions], *options: Decorator) -> Decorator:
    """Return what gives a command a block of options, which it takes as `files`."""

    def give(command: Command) -> Command:
        @wraps(command)
        def call(**given: Any) -> None:
            own = {f.name: given.pop(f.name) for f in fields(kind)}
            command(files=kind(**own), **given)

        made: Command = call
        for option in reversed(options):
            made = option(made)
        return made

    return give


read_options = _taking(FileOptions, *_READ_OPTIONS)
fit_options = _taking(SampleOptions, *_READ_OPTIONS, preset_option, _samples_option, denoise_option)


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
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if re.fullmatch(r"((-?\d+)?:){1,2}(-?\d+)?", text):
        return slice(*(int(p) if p else None for p in text.split(":")))
    raise click.BadParameter(f"{text!r} is neither I nor A:B nor A:B:S.", param_hint="--slice")


# --- output ---------------------------------------------------------------------------------------


def report(
    facts: Facts, rows: Facts, *, as_json: bool, quiet: bool = False, title: str | None = None
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
