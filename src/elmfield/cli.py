"""The command line: words in, library calls, exit codes out. The only room that prints.

Everything but click is imported by the command that needs it, so that help is there at once.
"""

import json
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

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


# --- options that several commands share ----------------------------------------------------------


def _together(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


quiet = click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
read_options = _together(
    click.option("--variable", metavar="NAME", help="Which array, if the file holds several."),
    click.option(
        "--slice", "slices", multiple=True, metavar="AXIS=I|A:B[:S]",
        help="Take one index of an axis, or a range; by name or number. May be repeated.",
    ),
    click.option(
        "--channel-axis", type=int, metavar="N",
        help="The axis that holds channels (colours, bands); -1 is the last.",
    ),
)  # fmt: skip

IN = click.Path(path_type=Path, readable=False)
OUT = click.Path(path_type=Path, writable=False)


def _samples(
    path: Path, variable: str | None, slices: Sequence[str], channel_axis: int | None
) -> Any:
    """The samples in a file, with what the options ask for."""
    from dataclasses import replace

    from elmfield.io.registry import read

    samples = read(path, variable=variable)
    if channel_axis is not None:
        n = samples.values.ndim
        if not -n <= channel_axis < n:
            raise click.BadParameter(
                f"the array has {n} axes, so the channel axis lies between {-n} and {n - 1}.",
                param_hint="--channel-axis",
            )
        axis = channel_axis % n
        if axis != samples.channel_axis:
            if samples.channel_axis is not None:
                raise click.BadParameter(
                    f"this file's channels are on axis {samples.channel_axis}.",
                    param_hint="--channel-axis",
                )
            keep = [k for k in range(n) if k != axis]
            about = dict(samples.attributes)
            line = samples.coordinates[axis]
            about["channels"] = {"name": samples.names[axis]} | (
                {} if line is None else {"labels": list(line)}
            )
            samples = replace(
                samples,
                names=tuple(samples.names[k] for k in keep),
                coordinates=tuple(samples.coordinates[k] for k in keep),
                channel_axis=axis,
                attributes=about,
            )
    for text in slices:
        name, index = _assignment(text, samples.names, "--slice")
        samples = samples.pick(name, _index(index))
    if not samples.names:
        raise ValueError("nothing is left to fit: every axis was sliced away.")
    return samples


def _assignment(text: str, names: Sequence[str], option: str) -> tuple[str, str]:
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


def _index(text: str) -> int | slice:
    try:
        parts = [int(p) if p else None for p in text.split(":")]
        if len(parts) == 1 and parts[0] is not None:
            return parts[0]
        if len(parts) in (2, 3):
            return slice(*parts)
    except ValueError:
        pass
    raise click.BadParameter(f"{text!r} is neither I nor A:B nor A:B:S.", param_hint="--slice")


def _numbers(text: str | None, option: str, kind: Callable[[str], Any] = float) -> Any:
    """One number, or several joined by commas or x."""
    if text is None:
        return None
    try:
        parts = [kind(p) for p in text.replace("x", ",").replace("×", ",").split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a number.", param_hint=option) from error
    return parts[0] if len(parts) == 1 else tuple(parts)


def _show(rows: dict[str, Any], title: str | None = None) -> None:
    """A table of two columns."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, title=title, title_justify="left", padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, str(value))
    Console(highlight=False, markup=False).print(table)


def _print_json(content: Any) -> None:
    from elmfield.io.plain import to_plain

    def finite(value: Any) -> Any:  # JSON has no word for infinities and NaN: null
        if isinstance(value, dict):
            return None if set(value) == {"$float"} else {k: finite(v) for k, v in value.items()}
        return [finite(v) for v in value] if isinstance(value, list) else value

    click.echo(json.dumps(finite(to_plain(content)), indent=2, ensure_ascii=False))


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return ""


# --- fit ------------------------------------------------------------------------------------------


@cli.command(
    epilog="""\b
Examples:
  elmfield fit photo.png -o photo.elm
  elmfield fit photo.png -o small.elm --psnr 40 --dtype float16
  elmfield fit sst.nc -o sst.elm --order auto --slice time=0
  elmfield fit photo.png -o paper.elm --preset paper --cell 32 --width 512
  elmfield fit photo.png -o beam.elm --preset paper --width 256 --beam 40
"""
)
@click.argument("input", type=IN)
@click.option(
    "-o", "--output", type=OUT, required=True, help="The model: NAME.elm or NAME.elm.zarr."
)
@click.option(
    "--preset", type=click.Choice(["smooth", "paper"]), default="smooth", show_default=True,
    help="smooth: right between the samples too; paper: the paper's network and least squares.",
)  # fmt: skip
@click.option("--psnr", type=float, metavar="DB", help="Error target: dB at the samples.")
@click.option("--max-error", type=float, help="Error target: largest error at the samples.")
@click.option("--coefficients", type=int, metavar="N", help="Keep so many coefficients in all.")
@click.option("--keep", type=int, metavar="N", help="Keep so many in every region and channel.")
@click.option("--denoise", metavar="yes|LEVEL", help="Take noise out: estimated, or this strong.")
@click.option("--order", metavar="S[,S...]|auto", help="Order of the energy (smooth).")
@click.option("--cell", metavar="N[,N...]", help="Samples per cell and axis.")
@click.option("--overlap", metavar="X[,X...]", help="Half-width of the blend between cells.")
@click.option("--width", type=int, help="Hidden neurons (paper).")
@click.option("--frequencies", type=int, help="Fourier features (paper).")
@click.option("--scale", type=float, help="Standard deviation of their frequencies (paper).")
@click.option("--activation", help="relu, sin, cos, tanh or gaussian (paper).")
@click.option("--seed", type=int, help="Of the hidden layer (paper).")
@click.option("--beam", type=int, metavar="N", help="Merge cells into N regions by energy (BEAM).")
@click.option("--beam-threshold", type=float, metavar="TAU", help="Or merge up to this energy.")
@click.option(
    "--periodic", multiple=True, metavar="AXIS[=PERIOD]",
    help="An axis that repeats; may be repeated. A full circle of longitudes is found by itself.",
)  # fmt: skip
@read_options
@click.option("--device", metavar="NAME", help="Fit there, for instance cuda (needs torch).")
@click.option(
    "--dtype", type=click.Choice(["float64", "float32", "float16"]),
    help="Of the stored coefficients; by default float32 for whole numbers up to 16 bits if it "
    "keeps the error target, else that of the fit.",
)  # fmt: skip
@quiet
@as_json
def fit(input: Path, output: Path, quiet: bool, as_json: bool, **options: Any) -> None:
    """Fit a field to the samples in INPUT and save it as a model."""
    from elmfield.io.gridded import fingerprint
    from elmfield.io.promise import fit_stored
    from elmfield.io.store import save
    from elmfield.progress import bars

    if not output.name.endswith((".elm", ".elm.zarr")):
        raise click.BadParameter(
            f"{output.name}: a model's name ends in .elm or .elm.zarr.", param_hint="--output"
        )
    if not output.parent.is_dir():
        raise FileNotFoundError(f"cannot write {output}: its folder does not exist")
    settings = _settings(options)
    samples = _samples(input, options["variable"], options["slices"], options["channel_axis"])
    periods = dict(samples.periods)
    for text in options["periodic"]:
        name, _, content = text.partition("=")
        name, _ = _assignment(f"{name}=", samples.names, "--periodic")
        periods[name] = float(content) if content else _period(samples, name)
    source = {
        "file": input.name,
        "variable": options["variable"],
        "slices": list(options["slices"]),
        "channel_axis": options["channel_axis"],
        **fingerprint(samples.values),
    }
    from dataclasses import replace

    about = {**samples.attributes, "source": source}
    samples = replace(samples, periods=periods, attributes=about)
    with bars(False if quiet or as_json else None) as progress:
        partition = _beam(samples, options)
        began = time.perf_counter()
        narrow = samples.values.dtype.kind in "biu" and samples.values.dtype.itemsize <= 2
        asked = options["dtype"]
        field, dtype = fit_stored(
            samples,
            settings,
            dtypes=(asked,) if asked else ("float32", None) if narrow else (None,),
            partition=partition,
            device=options["device"],
            progress=progress,
        )
        took = time.perf_counter() - began
        size = save(field, output, dtype=dtype, progress=progress)
    n = math.prod(samples.values.shape)
    facts = {
        "model": str(output),
        "samples": list(samples.values.shape),
        "regions": field.partition.n_regions,
        "coefficients": field.n_coefficients,
        "coefficients_per_sample": field.n_coefficients / n,
        "dtype": dtype,
        "bytes": size,
        "input_bytes": int(samples.values.nbytes),
        "seconds": took,
    }
    if as_json:
        _print_json(facts)
    elif not quiet:
        _show(
            {
                "samples": " × ".join(map(str, samples.values.shape)),
                "regions": facts["regions"],
                "coefficients": f"{field.n_coefficients} {dtype} ({field.n_coefficients / n:.3f} "
                "a sample)",
                "fitted in": f"{took:.2f} s",
                "saved": f"{output}, {_bytes(size)} (samples: {_bytes(samples.values.nbytes)})",
            }
        )


def _settings(options: dict[str, Any]) -> Any:
    from elmfield.settings import paper, smooth

    given = {k: v for k, v in options.items() if v is not None}
    own = {
        "smooth": ("order", "psnr", "max_error", "coefficients", "keep", "denoise"),
        "paper": ("width", "frequencies", "scale", "activation", "seed"),
    }
    preset = options["preset"]
    for other, names in own.items():
        wrong = [f"--{n.replace('_', '-')}" for n in names if n in given]
        if other != preset and wrong:
            raise click.UsageError(f"{', '.join(wrong)}: only with --preset {other}.")
    chosen: dict[str, Any] = {k: given[k] for k in own[preset] if k in given}
    if "order" in chosen and chosen["order"] != "auto":
        chosen["order"] = _numbers(chosen["order"], "--order")
    if "denoise" in chosen:
        word = str(chosen["denoise"])
        chosen["denoise"] = True if word in ("yes", "true", "auto") else _numbers(word, "--denoise")
    if options["cell"] is not None:
        chosen["cell"] = _numbers(options["cell"], "--cell", int)
    if options["overlap"] is not None:
        chosen["overlap"] = _numbers(options["overlap"], "--overlap")
    return smooth(**chosen) if preset == "smooth" else paper(**chosen)


def _period(samples: Any, name: str) -> float:
    k = samples.names.index(name)
    line, n = samples.coordinates[k], samples.shape[k]
    if line is None or n < 2:
        return float(n)
    return float(abs(line[-1] - line[0]) * n / (n - 1))


def _beam(samples: Any, options: dict[str, Any]) -> Any:
    """The partition that --beam asks for, or None."""
    if options["beam"] is None and options["beam_threshold"] is None:
        return None
    from elmfield.partition import beam

    wraps = [samples.names.index(n) for n in samples.periods]
    overlap = options["overlap"]
    return beam(
        samples.values,
        cell=_numbers(options["cell"] or "16", "--cell", int),
        regions=options["beam"],
        threshold=options["beam_threshold"],
        channel_axis=samples.channel_axis,
        periodic=wraps,
        overlap=0 if overlap is None else _numbers(overlap, "--overlap"),
    )


# --- info -----------------------------------------------------------------------------------------


@cli.command(
    epilog="""\b
Example:
  elmfield info photo.elm
"""
)
@click.argument("model", type=click.Path())
@as_json
def info(model: str, as_json: bool) -> None:
    """What a model holds; reads none of its coefficients."""
    from elmfield.io.plain import from_plain
    from elmfield.io.source import open_source
    from elmfield.io.store import field_of, metadata

    source = open_source(model)
    meta = metadata(source)
    field = field_of(source)
    sizes = source.sizes()
    about = from_plain(meta["attributes"])
    origin = about.get("source", {})
    if as_json:
        _print_json({"file": model, "bytes": sum(sizes.values()), **from_plain(meta)})
        return
    axes = []
    for axis, note in zip(field.domain.axes, meta["domain"]["axes"]):
        text = f"{axis.name}: {axis.size}"
        if axis.coordinates is not None:
            ends = [axis.coordinates[0], axis.coordinates[-1]]
            more = about.get("axes", {}).get(axis.name, {})
            text += f", {_coordinate(ends[0], more)} to {_coordinate(ends[1], more)}"
            unit = more.get("attrs", {}).get("units")
            text += f" {unit}" if unit and "epoch" not in more else ""
            text += "" if note["even"] else ", uneven"
        axes.append(text + (" (periodic)" if axis.period is not None else ""))
    n = math.prod(field.shape) * int(field.offset.shape[0])
    rows = {
        "name": about.get("name"),
        "axes": "\n".join(axes),
        "channels": field.n_channels if field.channel_axis is not None else None,
        "values": f"{field.input_dtype}{', complex' if field.is_complex else ''}"
        + (f", {about['attrs']['units']}" if about.get("attrs", {}).get("units") else ""),
        "reference system": (about.get("crs") or "")[:70] or None,
        "regions": f"{field.partition.n_regions} in {' × '.join(map(str, field.partition.n_cells))}"
        " cells",
        "coefficients": f"{meta['n_coefficients']} {meta['dtype']} "
        f"({meta['n_coefficients'] / n:.3f} a sample)",
        "file": f"{_bytes(sum(sizes.values()))} in {len(sizes)} parts",
        "settings": field.settings,
        "made from": origin.get("file"),
        "its SHA-256": origin.get("sha256"),
        "format": f"version {meta['version']}, written by {meta['written_by']}",
    }
    _show({k: v for k, v in rows.items() if v is not None}, model)


def _coordinate(value: float, about: dict[str, Any]) -> str:
    import numpy as np

    from elmfield.field.labels import coordinates_out

    shown = coordinates_out(np.asarray([value]), about)[0]
    if about.get("epoch") is None:
        return f"{float(value):g}"
    text = str(shown)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix("T00:00:00")


# --- render ---------------------------------------------------------------------------------------


@cli.command(
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
@click.option("--size", metavar="N,N...", help="New samples on each axis, for instance 720x1440.")
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
    size: str | None,
    window: Sequence[str],
    index: Sequence[str],
    quantity: str,
    align: str | None,
    dtype: str | None,
    colours: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Evaluate MODEL on a grid of any size and write it, in any format that can hold it."""
    import numpy as np

    from elmfield.io.gridded import rendered
    from elmfield.io.registry import format_of, write
    from elmfield.io.store import load
    from elmfield.progress import bars
    from elmfield.render import positions

    format_of(output)
    field = load(model)
    names = field.domain.names
    align = align or field.attributes.get("align", "areas")
    low, high = _window(field, window, index, str(align))
    sizes = _numbers(size, "--size", int)
    x = positions(
        field,
        scale=_numbers(scale, "--scale"),
        size=(sizes,) if isinstance(sizes, int) else sizes,
        low=low,
        high=high,
        align=str(align),
    )
    count = math.prod(len(c) for c in x) * max(1, field.n_channels)
    if count > 1 << 33:
        raise ValueError(f"{count} values are more than fit in memory; render windows of them.")
    kind: Any = dtype
    if kind is None and quantity == "value":
        own = field.attributes.get("dtype") or field.input_dtype
        kind = own if np.dtype(own).kind in "biu" else None
    with bars(False if quiet or as_json else None) as progress:
        out = rendered(field, x, quantity, dtype=kind, progress=progress)
    write(out, output, **({"colours": colours} if colours else {}))
    facts = {
        "file": str(output),
        "shape": list(out.values.shape),
        "axes": list(names),
        "dtype": out.values.dtype.name,
    }
    if as_json:
        _print_json(facts)
    elif not quiet:
        shape = " × ".join(map(str, out.values.shape))
        click.echo(f"{output}: {shape} {out.values.dtype.name}", err=True)


def _window(
    field: Any, window: Sequence[str], index: Sequence[str], align: str
) -> tuple[list[float] | None, list[float] | None]:
    """Corners in index coordinates, or None twice for the whole domain."""
    import numpy as np

    from elmfield.field.labels import coordinates_in

    if not window and not index:
        return None, None
    names, axes = field.domain.names, field.domain.axes
    low, high = list(field.domain.low), list(field.domain.high)
    about = field.attributes.get("axes", {})
    for text in window:
        name, content = _assignment(text, names, "--window")
        k = names.index(name)
        # Dates have colons of their own.
        a, sign, b = content.partition("/" if "/" in content else ":")
        if not sign:
            raise click.BadParameter(f"{content!r} is not LOW:HIGH.", param_hint="--window")
        dates = about.get(name, {}).get("epoch") is not None
        try:
            ends = np.asarray([a, b]) if dates else np.asarray([float(a), float(b)])
            first, last = map(float, coordinates_in(ends, about.get(name, {})))
        except ValueError as error:
            raise click.BadParameter(f"{content!r}: {error}", param_hint="--window") from error
        period = axes[k].period
        if period is not None and -math.inf < last < first < math.inf:  # across the seam
            last += period * math.ceil((first - last) / period)
        if not first < last:
            raise click.BadParameter(
                f"{content!r}: the first end must lie below the second on axis {name!r}.",
                param_hint="--window",
            )
        low[k], high[k] = _span(axes[k], first, last)
    for text in index:
        name, content = _assignment(text, names, "--index")
        k = names.index(name)
        piece = _index(content)
        start, stop, _ = (
            piece.indices(axes[k].size)
            if isinstance(piece, slice)
            else (piece % axes[k].size, piece % axes[k].size + 1, 1)
        )
        inset = 0.5 if align == "areas" else 0.0
        low[k], high[k] = start - inset, stop - 1 + inset
        if low[k] == high[k]:
            low[k], high[k] = low[k] - 0.25, high[k] + 0.25
    for k, axis in enumerate(axes):
        if axis.period is None and (
            low[k] < field.domain.low[k] - 1e-6 or high[k] > field.domain.high[k] + 1e-6
        ):
            ends = axis.from_index(np.asarray([field.domain.low[k], field.domain.high[k]]))
            raise ValueError(
                f"the window on axis {axis.name!r} reaches beyond the domain, {min(ends):g} to "
                f"{max(ends):g}."
            )
    return low, high


def _span(axis: Any, first: float, last: float) -> tuple[float, float]:
    """Index coordinates of two coordinates, ascending; turns of a periodic axis count."""
    import numpy as np

    ends = np.asarray([first, last])
    at = axis.to_index(ends)[0]
    if axis.period is not None and axis.knots is not None:  # uneven: it leaves the turns out
        at = at + np.sign(axis.step) * axis.size * np.floor((ends - axis.origin) / axis.period)
    return float(min(at)), float(max(at))


# --- query ----------------------------------------------------------------------------------------


@cli.command(
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
    import csv

    import numpy as np

    from elmfield.backend import to_numpy
    from elmfield.errors import OutsideDomainError
    from elmfield.field.labels import coordinates_in
    from elmfield.io.store import load

    if not at and points is None:
        raise click.UsageError("Say where: --at X,X... or --points FILE.csv.")
    field = load(model)
    names = field.domain.names
    rows = [_point(text, field) for text in at]
    if points is not None:
        rows += _points(points, field)
    about = field.attributes.get("axes", {})
    columns = []
    for k, name in enumerate(names):
        dates = about.get(name, {}).get("epoch") is not None
        words = [r[k] for r in rows]
        try:
            given = np.asarray(words) if dates else np.asarray([float(w) for w in words])
            columns.append(coordinates_in(given, about.get(name, {})))
        except ValueError as error:
            raise ValueError(f"coordinates on axis {name!r}: {error}") from error
    x = np.stack(columns, axis=-1)
    call: Any = {"value": field, "gradient": field.gradient, "laplacian": field.laplacian}[quantity]
    try:
        values = to_numpy(call(x, outside=outside))
    except OutsideDomainError as error:  # in this room's words
        advice = re.sub(r"outside='(\w+)'", r"--outside \1", str(error))
        raise OutsideDomainError(advice) from error
    values = values.reshape(len(rows), -1)
    labels = field.attributes.get("channels", {}).get("labels")
    C = field.n_channels
    heads = [str(labels[k]) if labels and len(labels) == C else f"value{k}" for k in range(C)]
    heads = ["value"] if C == 1 else heads
    if quantity == "gradient":
        heads = [f"{h}_d_{n}" if C > 1 else f"d_{n}" for h in heads for n in names]
    if as_json:
        _print_json(
            [
                {"at": {n: _number(w) for n, w in zip(names, r)}, **dict(zip(heads, v))}
                for r, v in zip(rows, values.tolist())
            ]
        )
        return
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow([*names, *heads])
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
    names = field.domain.names
    parts = [p.strip() for p in text.split(",")]
    if "=" not in text:
        if len(parts) != len(names):
            raise click.BadParameter(
                f"{text!r} has {len(parts)} coordinates; the axes are {', '.join(names)}.",
                param_hint="--at",
            )
        return parts
    given = dict(_assignment(p, names, "--at") for p in parts)
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
    about = field.attributes.get("axes", {}).get(axis.name, {})
    return _coordinate(float(axis.origin), about)


def _points(path: Path, field: Any) -> list[list[str]]:
    import csv

    names = field.domain.names
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


# --- compare --------------------------------------------------------------------------------------


@cli.command(
    epilog="""\b
Examples:
  elmfield compare photo.png photo.elm
  elmfield compare photo.png photo.elm --map error.png --json
"""
)
@click.argument("input", type=IN)
@click.argument("model", type=click.Path())
@click.option(
    "--map", "picture", type=OUT, metavar="FILE.png", help="Write a picture of the error."
)
@click.option("--heldout", is_flag=True, help="Also fit every second sample and score the others.")
@read_options
@as_json
def compare(
    input: Path,
    model: str,
    picture: Path | None,
    heldout: bool,
    variable: str | None,
    slices: Sequence[str],
    channel_axis: int | None,
    as_json: bool,
) -> None:
    """How well MODEL gives back the samples in INPUT; which variable and slices, it knows."""
    import numpy as np

    from elmfield.backend import to_numpy
    from elmfield.io.raster import png
    from elmfield.io.source import open_source
    from elmfield.io.store import field_of
    from elmfield.metrics import mae, max_error, paper_psnr, psnr
    from elmfield.render import flat
    from elmfield.render import picture as draw

    source = open_source(model)
    field = field_of(source)
    made = field.attributes.get("source", {})
    samples = _samples(
        input,
        variable or made.get("variable"),
        slices or made.get("slices", ()),
        made.get("channel_axis") if channel_axis is None else channel_axis,
    )
    truth = np.asarray(samples.values)
    if samples.shape != field.shape:
        raise ValueError(
            f"{input.name} has shape {samples.shape}, the model {field.shape}; they cannot be "
            "compared."
        )
    estimate = to_numpy(field.samples())
    good = np.isfinite(truth)
    wide = np.complex128 if np.iscomplexobj(truth) else np.float64
    t, e = truth.astype(wide), estimate.astype(wide)
    gap = np.where(good, np.abs(np.where(good, t, 0) - e), 0)
    size = sum(source.sizes().values())
    facts: dict[str, Any] = {
        "psnr_db": psnr(t[good], e[good]),
        "mae": mae(t[good], e[good]),
        "rmse": float(np.sqrt(np.mean(gap[good] ** 2))),
        "max_error": max_error(t[good], e[good]),
        "range": [float(np.min(np.abs(t[good]) if wide is np.complex128 else t[good])),
                  float(np.max(np.abs(t[good]) if wide is np.complex128 else t[good]))],
        "samples": int(truth.size),
        "missing": int((~good).sum()),
        "coefficients": field.n_coefficients,
        "coefficients_per_sample": field.n_coefficients / truth.size,
        "bytes": size,
        "bits_per_sample": 8 * size / truth.size,
    }  # fmt: skip
    if wide is np.float64 and truth.dtype == np.uint8:
        facts["psnr_255_db"] = psnr(t[good], e[good], data_range=255)
    if wide is np.float64 and good.all():
        peaks = t.max() if field.channel_axis is None else np.moveaxis(t, field.channel_axis, 0)
        if np.all(np.max(peaks.reshape(-1, 1) if np.ndim(peaks) == 0 else
                         peaks.reshape(len(peaks), -1), axis=-1) > 0):  # fmt: skip
            facts["paper_psnr_db"] = paper_psnr(t, e, channel_axis=field.channel_axis)
    if heldout:
        from elmfield.heldout import heldout_score

        settings: Any = field.settings if hasattr(field.settings, "modes") else None
        facts["heldout_psnr_db"] = heldout_score(truth, settings, channel_axis=samples.channel_axis)
    if picture is not None:
        shown = flat(gap, field.channel_axis, np.max)
        picture.write_bytes(png(draw(shown, "error")))
        facts["map"] = str(picture)
    if as_json:
        _print_json(facts)
        return
    names = {
        "psnr_db": "PSNR, of the range", "psnr_255_db": "PSNR, of 255",
        "paper_psnr_db": "the paper's PSNR (at most 80)", "heldout_psnr_db": "held-out PSNR",
        "mae": "mean absolute error", "rmse": "root mean square error",
        "max_error": "largest error", "coefficients_per_sample": "coefficients per sample",
        "bits_per_sample": "bits per sample", "bytes": "model", "missing": "missing samples",
        "map": "map of the error",
    }  # fmt: skip
    rows = {}
    for key, name in names.items():
        if key in facts:
            v = facts[key]
            text = (
                f"{v:.2f} dB" if key.endswith("_db") else f"{v:.6g}" if isinstance(v, float) else v
            )
            rows[name] = _bytes(v) if key == "bytes" else text
    _show(rows)


# --- beam -----------------------------------------------------------------------------------------


@cli.command(
    epilog="""\b
Example:
  elmfield beam photo.png --cell 16 --regions 60 -o regions.png
"""
)
@click.argument("input", type=IN)
@click.option("-o", "--output", type=OUT, metavar="FILE.png", help="Draw the regions.")
@click.option("--cell", metavar="N[,N...]", default="16", show_default=True, help="Cells to merge.")
@click.option("--regions", type=int, metavar="N", help="Merge into so many regions.")
@click.option("--threshold", type=float, metavar="TAU", help="Or merge up to this energy.")
@read_options
@as_json
def beam(
    input: Path,
    output: Path | None,
    cell: str,
    regions: int | None,
    threshold: float | None,
    variable: str | None,
    slices: Sequence[str],
    channel_axis: int | None,
    as_json: bool,
) -> None:
    """Cut INPUT into regions of about equal energy (BEAM): sizes, energies, and a picture."""
    import numpy as np

    from elmfield.io.raster import png
    from elmfield.partition import barron_norm
    from elmfield.partition import beam as merge
    from elmfield.render import flat, with_regions
    from elmfield.render import picture as draw

    if (regions is None) == (threshold is None):
        raise click.UsageError("Say either --regions N or --threshold TAU.")
    samples = _samples(input, variable, slices, channel_axis)
    wraps = [samples.names.index(n) for n in samples.periods]
    channel = samples.channel_axis
    partition = merge(
        samples.values,
        cell=_numbers(cell, "--cell", int),
        regions=regions,
        threshold=threshold,
        channel_axis=channel,
        periodic=wraps,
    )
    beta = np.asarray(barron_norm(samples.values, partition=partition, channel_axis=channel))
    cells = np.bincount(partition.labels.reshape(-1))
    if output is not None:
        if len(samples.shape) != 2:
            raise ValueError(
                f"regions can be drawn for two axes; got {', '.join(samples.names)}. Choose a "
                "--slice."
            )
        grey = draw(flat(samples.values, channel, np.mean), "grey")
        output.write_bytes(png(with_regions(grey, partition)))
    facts = {
        "regions": partition.n_regions,
        "cells": list(partition.n_cells),
        "energy": {"least": beta.min(), "median": np.median(beta), "greatest": beta.max()},
        "energies": beta.tolist(),
        "cells_per_region": cells.tolist(),
        "picture": None if output is None else str(output),
    }
    if as_json:
        _print_json(facts)
        return
    rows = {
        "regions": f"{partition.n_regions} of {' × '.join(map(str, partition.n_cells))} cells",
        "largest": f"{cells.max()} cells",
        "energy": f"{beta.min():.4g} (least), {np.median(beta):.4g} (median), "
        f"{beta.max():.4g} (greatest)",
    }
    if output is not None:
        rows["picture"] = str(output)
    _show(rows)


# --- the rest -------------------------------------------------------------------------------------


@cli.command(
    epilog="""\b
Example:
  elmfield demo --output demo
"""
)
@click.option("--output", type=OUT, default=Path("demo"), show_default=True, help="Its folder.")
def demo(output: Path) -> None:
    """Fit a picture, print a table, write a page one can look at (extra: demo)."""
    from elmfield.demo import main as run

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
