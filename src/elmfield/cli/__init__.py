"""The command line: words in, library calls, exit codes out. The only room that prints.

Everything but click is imported by the command that needs it, so that help is there at once.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

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
    """Run the command line and leave with its exit code."""
    from elmfield.errors import MissingExtraError, StoreError
    from elmfield.io.errors import UnreadableError

    try:
        code = cli.main(arguments, prog_name="elmfield", standalone_mode=False)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted; nothing half-written was left behind.", err=True)
        code = EXIT["interrupted"]
    except BrokenPipeError:
        sys.stderr.close()  # nobody is listening any more; the interpreter need not complain
        code = 0
    except MissingExtraError as error:
        code = _complain(error, "extra")
    except (StoreError, UnreadableError, OSError) as error:
        code = _complain(error, "file")
    except ImportError as error:
        code = _complain(error, "extra")
    except (ValueError, TypeError, MemoryError) as error:
        code = _complain(error, "wrong")
    sys.exit(code if isinstance(code, int) else 0)


def _complain(error: BaseException, kind: str) -> int:
    text = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    click.echo(f"Error: {text}", err=True)
    return EXIT[kind]


class _Group(click.Group):
    """Commands in the order in which one uses them."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


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
def cli() -> None:
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
