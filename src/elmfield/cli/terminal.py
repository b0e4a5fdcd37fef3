"""What commands share: options and what their words mean, fields of files, tables and JSON."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, cleandoc, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click
import numpy as np

import elmfield as ef
from elmfield._array.typing import Array, Progress
from elmfield.field import Field
from elmfield.io.files import is_model, read
from elmfield.io.gridded import Gridded
from elmfield.io.model.metadata import to_plain
from elmfield.io.store.stores import is_url
from elmfield.partition import Partition
from elmfield.settings import Settings

Told = dict[str, tuple[str | None, str]]
"""What stands for the value of an option, and its help."""

Facts = Mapping[str, object]

PATH = click.Path(path_type=Path, readable=False)

PRESETS: dict[str, Callable[..., Settings]] = {
    "smooth": ef.smooth,
    "oriented": ef.oriented,
    "paper": ef.paper,
}

ORIENTED_MAX_PIXELS = 4 << 20
"""Pixels up to which a picture is fitted with oriented(), unless a preset is asked for."""


def command(function: Callable[..., None]) -> click.Command:
    """Make a command of a function: its parameters are the options, its docstring is the help.

    Parameters that may be given by position are arguments. The type of a parameter says how its
    word is read; of an ``Annotated`` one, what follows it: a type of click or a function. Texts
    there are names of the option, or what stands for an argument in the help. A parameter of a
    dataclass is a block of options, one for each field.

    The examples of the docstring end the help. Its section on options, and those of the blocks
    below, say what stands for the value of each, and what it does.
    """
    about, _, examples = cleandoc(function.__doc__ or "").partition("Examples\n--------\n")
    lines = "\n".join(f"  {line}" for line in examples.splitlines())
    told: Told = {}
    for source in (Shared, FileOptions, SampleOptions, function):
        entry = re.compile(r"^(--\S+) ?(.*)\n((?: {4}.*\n?)+)", re.MULTILINE)
        found = entry.findall(cleandoc(source.__doc__ or ""))
        told |= {name: (value or None, " ".join(text.split())) for name, value, text in found}
    hints: dict[str, Any] = get_type_hints(function, include_extras=True)
    params: list[click.Parameter] = []
    blocks: dict[str, Any] = {n: hint for n, hint in hints.items() if is_dataclass(hint)}
    for name, own in signature(function).parameters.items():
        kind = hints[name]
        if name in blocks:
            inner = get_type_hints(kind, include_extras=True)
            params += [_parameter(f.name, inner[f.name], f.default, told) for f in fields(kind)]
        else:
            is_argument = own.kind is not Parameter.KEYWORD_ONLY
            params.append(_parameter(name, kind, own.default, None if is_argument else told))

    @wraps(function)
    def call(**given: Any) -> None:
        for name, kind in blocks.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        function(**given)

    help, epilog = about.partition("Options\n---")[0], f"\b\nExamples:\n{lines}\n"
    return click.command(help=help, epilog=epilog, params=params)(call)


def _parameter(name: str, hint: Any, default: Any, told: Told | None) -> click.Parameter:
    """The option that a parameter stands for, as `told` has it; an argument where that is None.

    A default that says something is shown in the help.
    """
    notes: list[Any] = []
    while get_origin(hint) not in (None, Literal, Sequence):  # of unions the first counts
        notes += getattr(hint, "__metadata__", ())
        hint = get_args(hint)[0]
    texts = [n for n in notes if isinstance(n, str)]
    given: dict[str, Any] = {"required": default in (Parameter.empty, MISSING)}
    if get_origin(hint) is Sequence:
        given["multiple"] = True
    elif hint is not bool:
        usual = click.Choice(get_args(hint)) if get_origin(hint) is Literal else hint
        kinds = [n for n in notes if not isinstance(n, str)]
        given["type"] = (*kinds, PATH if hint is Path else usual)[0]
    if told is None:
        return click.Argument([name], metavar=texts[0] if texts else None, **given)
    long = ([t for t in texts if t[:2] == "--"] or [f"--{name.replace('_', '-')}"])[0]
    given["metavar"], given["help"] = told.get(long, (None, None))
    if not given["required"]:
        given |= {"default": default, "show_default": bool(default)}
    if hint is bool:
        given["is_flag"] = True
        long = f"{long}/--no-{name}" if default else long
    return click.Option([name, *(t for t in texts if t[:2] != "--"), long], **given)


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
        plain = str(text).replace(unit, "").replace("x", ",").replace("×", ",")
        try:
            parts = tuple(map(kind, plain.split(",")))
        except ValueError as error:
            raise click.BadParameter(f"{text!r} is not a number.") from error
        return parts[0] if len(parts) == 1 else parts

    return parse


FLOATS, INTEGERS = numbers(float), numbers(int)
Floats = Annotated[float | tuple[float, ...], FLOATS]
Integers = Annotated[int | tuple[int, ...], INTEGERS]
Count = Annotated[int, click.IntRange(1)]
Preset = Literal["smooth", "oriented", "paper"]
Denoise = Annotated[float | bool, numbers(float, {"yes": True, "true": True, "auto": True})]
Missing = Literal["nan", "fill"]
Output = Annotated[Path, "-o"]
Quiet = Annotated[bool, "-q"]
Json = Annotated[bool, "--json"]


def n_bytes(text: str) -> int:
    """A number of bytes, of 1G, 500M, 64k or digits alone."""
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    word = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = word[-1:] if word[-1:] in units else ""
    try:
        return int(float(word.removesuffix(unit)) * units[unit])
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no size; write for instance 1G or 500M.") from error


def _axis(text: str) -> int | str:
    """The number of an axis, if the text is one, or its name."""
    return int(text) if text.lstrip("-").isdigit() else text


class Shared:
    """What many commands take.

    Options
    -------
    --quiet
        Say nothing but errors.
    --json
        Print JSON, for machines.
    """


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
    slices: Annotated[Sequence[str], "--slice"] = ()
    channel_axis: Annotated[int | str, _axis] | None = None
    max_pixels: Count | None = None

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
    --samples points|means
        What the numbers are: values at points, or means over their cells; by default what the file
        says, and pictures are means over their pixels.
    --denoise yes|LEVEL
        Take noise out: estimated, or this strong.
    --missing
        Where samples were missing: NaN, or what was filled in; by default NaN.
    """

    preset: Preset | None = None
    samples: str | None = None
    denoise: Denoise | None = None

    def settings(self, given: Gridded) -> Settings | None:
        """The preset asked for; else oriented() for pictures that are not too large."""
        pixels = math.prod(given.shape)
        is_picture = given.labels.samples == "means" and pixels <= ORIENTED_MAX_PIXELS
        preset = "oriented" if self.preset is None and is_picture else self.preset
        if preset is None and self.denoise is None:
            return None
        return settings_of(preset or "smooth", {"denoise": self.denoise})

    def field(
        self, path: Path | str, progress: Progress, quiet: bool
    ) -> tuple[Field, Array | None]:
        """The field of a model, or of samples, which are fitted first; and these samples."""
        if is_url(path) or is_model(path):
            if self != SampleOptions(max_pixels=self.max_pixels):
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


def settings_of(preset: str, options: Mapping[str, object]) -> Settings:
    """The preset with the options that are its own; one of other presets only is a mistake."""
    # The command's --dtype is the file's.
    own = {name: {*signature(make).parameters} - {"dtype"} for name, make in PRESETS.items()}
    given = {k: v for k, v in options.items() if v is not None}
    for n in given:
        presets = [p for p in PRESETS if n in own[p]]
        if presets and preset not in presets:
            name = f"--{n.replace('_', '-')}"
            raise click.UsageError(f"{name}: only with --preset {' or '.join(presets)}.")
    return PRESETS[preset](**{k: v for k, v in given.items() if k in own[preset]})


def merged(samples: Gridded, periodic: Iterable[str], **how: Any) -> Partition:
    """The regions that BEAM makes of samples, of which some axes repeat."""
    numbers = [samples.dims.index(name) for name in periodic]
    channel_axis = samples.channel_axis
    return Partition.beam(samples.values, channel_axis=channel_axis, periodic=numbers, **how)


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
