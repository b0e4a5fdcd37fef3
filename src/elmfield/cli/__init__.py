"""The command line: words in, library calls, exit codes out. The only room that prints.

Everything but click is imported by the command that needs it, so that help is there at once.
"""

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from elmfield.cli.looking import view
from elmfield.cli.models import fit, info
from elmfield.cli.places import render
from elmfield.cli.points import query
from elmfield.cli.scores import beam, compare
from elmfield.cli.words import OUT

EXIT = {
    "wrong": 1,  # data or options that do not go together
    "usage": 2,  # click's own: an unknown option, a missing argument
    "file": 3,  # a file that is missing, damaged, or cannot be written
    "extra": 4,  # a package that is not installed
    "interrupted": 130,
}

CODES = """\
\b
Exit codes:
  0    done
  1    the data or the options do not go together
  2    wrong usage: unknown option, missing argument
  3    a file is missing, damaged, or cannot be written
  4    an optional package is missing; the message names the extra to install
  130  interrupted; nothing half-written is left
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code.

    This is the one place where errors end: a sentence for everything, a traceback for nothing,
    unless ``--debug`` is among the words.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    _speak_plainly()
    try:
        code = cli.main([w for w in words if w != "--debug"], "elmfield", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        if debug:
            traceback.print_exc()
        code = _code_of(error)
    _leave(code if isinstance(code, int) else 0)


def _code_of(error: BaseException) -> int:
    """The exit code of what went wrong, which is told."""
    from elmfield.errors import MissingExtraError, StoreError
    from elmfield.io.errors import UnreadableError

    if isinstance(error, (click.exceptions.Exit, click.ClickException)):
        if isinstance(error, click.ClickException):
            error.show()
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        _say("Interrupted; nothing half-written was left behind.")
        return EXIT["interrupted"]
    if isinstance(error, BrokenPipeError):
        return 0  # nobody is listening any more
    if isinstance(error, ImportError):  # also what a MissingExtraError is
        return _complain(error, "extra")
    if isinstance(error, (MissingExtraError, StoreError, UnreadableError, OSError)):
        kind = "extra" if isinstance(error, MissingExtraError) else "file"
        return _complain(error, kind)
    if isinstance(error, (ValueError, TypeError, MemoryError)):
        return _complain(error, "wrong")
    _say(
        f"Error: something went wrong that should not have ({type(error).__name__}: "
        f"{_in_one_line(str(error))}). --debug shows where; please report it."
    )
    return EXIT["wrong"]


def _complain(error: BaseException, kind: str) -> int:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    _say(f"Error: {_in_one_line(text)}")
    return EXIT[kind]


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody may be listening to errors either
        click.echo(text, err=True)


def _speak_plainly() -> None:
    """Let terminals that know few letters show the others by number, and warnings be sentences."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):  # what a test or a notebook put there
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if not sys.warnoptions:

        def show(message: Warning | str, *_: object, **__: object) -> None:
            _say(f"Warning: {_in_one_line(str(message))}")

        warnings.showwarning = show


def _leave(code: int) -> NoReturn:
    """End the process; output that nobody takes any more is dropped without a word."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


class _Group(click.Group):
    """Commands in the order in which one uses them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, context: click.Context) -> Any:
        """Run a command; a closed pipe is the end of it, not a failure."""
        try:
            found = super().invoke(context)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise click.exceptions.Exit(0) from error
        return found


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Example:
  elmfield fit photo.png -o photo.elm
  elmfield render photo.elm -o large.png --scale 2

"""
    + CODES,
)
@click.version_option(package_name="elmfield", prog_name="elmfield")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
def cli(debug: bool) -> None:
    """Turn arrays into continuous functions, and back into arrays of any resolution.

    Files are told apart by their names: pictures, TIFF and GeoTIFF, NetCDF, GRIB, Zarr, NIfTI,
    DICOM, MATLAB, NumPy, sound, video. Models are .elm files or .elm.zarr folders.
    """


for command in (fit, info, view, render, query, compare, beam):
    cli.add_command(command)


@cli.command(
    epilog="""\b
Example:
  elmfield demo --output demo
"""
)
@click.option("--output", type=OUT, default=Path("demo"), show_default=True, help="Its folder.")
def demo(output: Path) -> None:
    """Fit a picture, print a table, write a page one can look at (extra: demo)."""
    from elmfield.cli.demonstration import main as run

    raise click.exceptions.Exit(EXIT["extra"] if run(["--output", str(output)]) else 0)


@cli.command(
    epilog="""\b
Example:
  elmfield completion bash
To have it in every shell, add to ~/.bashrc:  eval "$(elmfield completion bash)"
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what a shell must run to complete this command's words."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, "elmfield", "_ELMFIELD_COMPLETE").source())
