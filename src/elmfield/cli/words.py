"""Words in: the options that commands share, and what they mean."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click


def _together(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def _axis(_context: Any, _option: Any, text: str | None) -> int | str | None:
    """The number of an axis, if the text is one, or its name."""
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
missing_option = click.option(
    "--missing", type=click.Choice(["nan", "fill"]),
    help="Where samples were missing: NaN, or what was filled in; by default NaN.",
)  # fmt: skip
read_options = _together(
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
        "--max-pixels", type=click.IntRange(1), metavar="N", expose_value=False,
        callback=lambda context, _option, n: context.meta.update({PIXELS: n}),
        help="Refuse pictures that claim more; by default only those that no file so small holds.",
    ),
)  # fmt: skip

PIXELS = "elmfield.max_pixels"
"""Where the option is kept for :func:`samples_of`."""

IN = click.Path(path_type=Path, readable=False)
OUT = click.Path(path_type=Path, writable=False)


def samples_of(
    path: Path,
    variable: str | None,
    slices: Sequence[str],
    channel_axis: int | str | None,
    *,
    lazily: bool = False,
) -> Any:
    """The samples in a file, with what the options ask for; `lazily`, they stay there."""
    from elmfield.io.files import opened, read

    here = click.get_current_context(silent=True)
    most = None if here is None else here.meta.get(PIXELS)
    samples = (opened if lazily else read)(path, variable=variable, max_pixels=most)
    if channel_axis is not None:
        try:
            samples = samples.with_channels(channel_axis)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--channel-axis") from error
    for text in slices:
        name, index = assignment(text, samples.dims, "--slice")
        samples = samples.pick(name, index_of(index))
    if not samples.dims:
        raise ValueError("nothing is left to fit: every axis was sliced away.")
    return samples


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


def numbers(text: str | None, option: str, kind: Callable[[str], Any] = float) -> Any:
    """One number, or several joined by commas or x."""
    if text is None:
        return None
    try:
        parts = [kind(p) for p in text.replace("x", ",").replace("×", ",").split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number.", param_hint=option) from error
    return parts[0] if len(parts) == 1 else tuple(parts)


def n_bytes(text: str | None, option: str) -> int | None:
    """A number of bytes, of 1G, 500M, 64k or digits alone."""
    if text is None:
        return None
    units = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    word = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = word[-1:] if word[-1:] in units else ""
    try:
        return int(float(word.removesuffix(unit)) * units[unit])
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no size; write for instance 1G or 500M.", param_hint=option
        ) from error
