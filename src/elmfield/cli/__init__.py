"""The command line: words in, library calls, exit codes out. The only package that prints.

Modules of commands are imported when one of theirs is called, so that help is there at once.
"""

import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from inspect import cleandoc
from io import TextIOWrapper

import click

from elmfield.errors import StoreError
from elmfield.io.files import UnreadableError

COMMANDS = {
    "fit": ("model", "Fit a field to the samples in INPUT and save it as a model."),
    "info": ("model", "What a model holds; reads none of its coefficients."),
    "view": ("look", "Look at a model or at samples in the browser (extra: view)."),
    "render": ("evaluate", "Evaluate a model, or samples, on a grid and write it."),
    "query": ("evaluate", "Values of a model, or of samples, at points, printed as CSV."),
    "compare": ("look", "How well MODEL gives back the samples in INPUT."),
    "beam": ("look", "Cut INPUT into regions of about equal energy (BEAM)."),
    "demo": ("look", "Fit a picture, print a table, write pages to zoom into (extra: demo)."),
    "compile": ("model", "Compile the loops of the codec ahead, once a machine (extra: fast)."),
    "completion": ("model", "Print what a shell must run to complete this command's words."),
}
"""Module, but for `_commands`, and summary of each command, in the order in which one uses them."""


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
    sys.exit(code if isinstance(code, int) else 0)


def _code_of(error: BaseException) -> int:
    """Print what went wrong; the exit code for it, as the help has them."""
    if isinstance(error, (click.exceptions.Exit, click.ClickException)):
        if isinstance(error, click.ClickException):
            error.show()
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 0
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        click.echo("Interrupted; nothing half-written was left behind.", err=True)
        return 130
    code, text = 1, str(error) or type(error).__name__
    if isinstance(error, ImportError):
        code = 4
    elif isinstance(error, (StoreError, UnreadableError, OSError)):
        code = 3
        if isinstance(error, OSError) and error.strerror:
            text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    elif not isinstance(error, (ValueError, TypeError, MemoryError)):
        text = (
            f"something went wrong that should not have ({type(error).__name__}: {error}). "
            "--debug shows where; please report it."
        )
    click.echo(f"Error: {_in_one_line(text)}", err=True)
    return code


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _speak_plainly() -> None:
    """Let terminals that know few letters show the others by number, and warnings be sentences."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # else what a test or a notebook put there
            stream.reconfigure(errors="backslashreplace")
    if not sys.warnoptions:

        def show(message: Warning | str, *_: object, **__: object) -> None:
            click.echo(f"Warning: {_in_one_line(str(message))}", err=True)

        warnings.showwarning = show


class _Group(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.{COMMANDS[cmd_name][0]}_commands")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; click takes every broken pipe for that of the output, and says nothing."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ConnectionError(f"a connection was closed: {error}") from error


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=_Group, context_settings=SETTINGS)
@click.version_option(package_name="elmfield", prog_name="elmfield")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
def cli(debug: bool) -> None:
    """Turn arrays into continuous functions, and back into arrays of any resolution.

    Files are told apart by their names: pictures, TIFF and GeoTIFF, NetCDF, GRIB, Zarr, NIfTI,
    DICOM, MATLAB, NumPy, sound, video. Models are .elm files or .elm.zarr folders.

    Example:
      elmfield fit photo.png -o photo.elm
      elmfield render photo.elm -o large.png --scale 2

    Exit codes:
      0    done, even if the output was closed before the end (a pipe)
      1    the data or the options do not go together
      2    wrong usage: unknown option, missing argument
      3    a file is missing, damaged, or cannot be written
      4    an optional package is missing; the message names the extra to install
      130  interrupted; nothing half-written is left
    """


cli.help, _, _rest = cleandoc(cli.help or "").partition("Example:")
cli.epilog = f"\b\nExample:{_rest}".replace("\n\n", "\n\n\b\n")
