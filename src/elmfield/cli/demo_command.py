"""demo: fit a picture, print a table, write a page one can look at.

The picture ships with scikit-image; nothing is downloaded.
"""

import base64
import time
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import click
import numpy as np
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield._array.typing import Array, Floats
from elmfield.cli import terminal
from elmfield.field import Field
from elmfield.io.files import need
from elmfield.io.formats.raster import png
from elmfield.io.store.atomic_write import write_atomically
from elmfield.io.view_source import export_view
from elmfield.settings import Settings
from elmfield.show.pictures import colourise, draw_regions

DETAIL = (126, 216, 48)
"""First row, first column and size of the detail that is enlarged."""

ZOOM = 8
BORDER = 16
"""Samples at the picture's edge that the held-out score leaves out."""

TILE_BYTES = 12 << 20
"""Tiles of the page that goes with the report."""

DRAWN_MAX_REGIONS = 4096
"""So many can still be told apart in a picture of them."""

COLUMNS = {
    "fit, cold": "{:.0f} ms",
    "fit, kept": "{:.1f} ms",
    "coefficients / sample": "{:.2f}",
    "paper's PSNR": "{:.2f} dB",
    "true PSNR": "{:.0f} dB",
    "held-out PSNR": "{:.2f} dB",
}
"""The table's, and how their numbers are written."""

PRESETS: dict[str, Settings] = {
    "paper preset": ef.paper(),
    "default": ef.smooth(),
    "oriented": ef.oriented(),
}
SPLINES = {"linear spline": 1, "cubic spline": 3}

Rows = Mapping[str, Mapping[str, float]]
"""By method, the numbers of its columns."""


@terminal.command
@click.option(
    "--output", type=terminal.OUT, default=Path("demo"), show_default=True, help="Its folder."
)
def demo(output: Path) -> None:
    """Fit a picture, print a table, write a page (extra: demo).

    Examples
    --------
    elmfield demo --output demo
    """
    data = need("skimage.data", "demo", "the demo's picture")
    output.mkdir(parents=True, exist_ok=True)  # said at once if it cannot be
    began = time.perf_counter()
    picture = np.asarray(data.camera(), dtype=np.float64)
    rows = {name: measure(picture, settings) for name, settings in PRESETS.items()}
    rows |= {name: {"held-out PSNR": spline_score(picture, k)} for name, k in SPLINES.items()}
    fields = {name: ef.fit(picture, settings) for name, settings in PRESETS.items()}
    page = output / "report.html"
    write_atomically(page, as_page(picture, fields, rows).encode())
    export_view(fields["default"], output / "view", samples=picture, size=TILE_BYTES)
    for name, texts in {"": list(COLUMNS), **{n: cells(r) for n, r in rows.items()}}.items():
        click.echo("  ".join([f"{name:13}", *(f"{t:>{len(c)}}" for t, c in zip(texts, COLUMNS))]))
    click.echo(f"\n{page} written; {time.perf_counter() - began:.1f} s of computing in all.")
    click.echo(f"To zoom into the picture, open {output / 'view' / 'index.html'}.")


def measure(picture: Floats, settings: Settings) -> dict[str, float]:
    """All columns of the table for one preset."""
    ef.cache_modes(clear=True)  # the first time is to be a cold one
    times = [time.perf_counter()]
    encode = ef.encoder(picture.shape, settings)
    field = encode(picture)
    times.append(time.perf_counter())
    encode(picture)
    times.append(time.perf_counter())
    back = field.resize(field.shape)  # the function, not the samples that it keeps
    numbers = (
        *(1e3 * np.diff(times)),
        field.model.n_coefficients / picture.size,
        ef.paper_psnr(picture, back),
        ef.psnr(picture, back),
        ef.heldout_score(picture, settings, border=BORDER),
    )
    return dict(zip(COLUMNS, map(float, numbers)))


def spline_score(picture: Floats, order: int) -> float:
    """Held-out PSNR of a spline through every second sample per axis."""
    grid = np.stack(np.meshgrid(*(np.arange(n) / 2 for n in picture.shape), indexing="ij"))
    predicted = map_coordinates(picture[::2, ::2], grid, order=order, mode="mirror")
    held = np.zeros(picture.shape, bool)
    held[BORDER:-BORDER, BORDER:-BORDER] = True
    held[::2, ::2] = False
    return ef.psnr(picture[held], predicted[held], data_range=float(np.ptp(picture)))


def cells(row: Mapping[str, float]) -> list[str]:
    """A row as texts, one per column; a dash where one means nothing for a method."""
    return [
        form.format(row[name]).replace("-", "−") if name in row else "–"
        for name, form in COLUMNS.items()
    ]


# --- the page -------------------------------------------------------------------------------------


def enlarged(picture: Floats, fields: Mapping[str, Field]) -> dict[str, Floats]:
    """The detail, `ZOOM` times larger, by each method."""
    row, column, size = DETAIL
    low, high = (row - 0.5, column - 0.5), (row + size - 0.5, column + size - 0.5)
    where = [start + (np.arange(size * ZOOM) + 0.5) / ZOOM - 0.5 for start in (row, column)]
    grid = np.stack(np.meshgrid(*where, indexing="ij"))
    found = {
        "nearest neighbour": picture[tuple(np.round(grid).astype(int))],
        "cubic spline": np.asarray(map_coordinates(picture, grid, order=3, mode="mirror")),
    }
    for name, field in fields.items():
        found[name] = field.crop(low, high).resize((size * ZOOM, size * ZOOM))
    return found


def image(values: Array) -> str:
    """Grey values 0 to 255, or colours, as a data URI."""
    pixels = np.clip(np.round(values), 0, 255).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode()


def figure(values: Array, caption: str) -> str:
    """A picture with its caption."""
    text = escape(caption)
    return (
        f'<figure><img src="{image(values)}" alt="{text}"><figcaption>{text}</figcaption></figure>'
    )


def as_page(picture: Floats, fields: Mapping[str, Field], rows: Rows) -> str:
    """The report: one self-contained page of HTML."""
    heldout = {name: row["held-out PSNR"] for name, row in rows.items()}
    best = max(heldout, key=lambda name: heldout[name])
    body = ""
    for name, row in rows.items():
        *texts, last = map(escape, cells(row))
        mark = ' class="best"' if name == best else ""
        columns = "".join(f"<td>{t}</td>" for t in texts)
        body += f"<tr><th>{escape(name)}</th>{columns}<td{mark}>{last}</td></tr>"
    maps = [
        figure(
            draw_regions(colourise(picture, "grey", 0, 255), field.partition),
            f"{name}: {field.partition.n_regions} regions, "
            f"{field.model.n_coefficients} coefficients",
        )
        for name, field in fields.items()
        if field.partition.n_regions <= DRAWN_MAX_REGIONS
    ]
    margin = heldout["default"] - max(heldout[name] for name in SPLINES)
    top, left, side = DETAIL
    n, m = picture.shape
    page = files("elmfield.cli").joinpath("demonstration.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        version=ef.__version__,
        picture=image(picture),
        view=f"0 0 {m} {n}",
        mark=f'x="{left}" y="{top}" width="{side}" height="{side}"',
        size=f"{n} × {m}",
        n_samples=f"{picture.size:,}".replace(",", "\u202f"),
        head="".join(f"<th>{escape(h)}</th>" for h in ("", *COLUMNS)),
        body=body,
        zooms="".join(figure(v, name) for name, v in enlarged(picture, fields).items()),
        zoom=ZOOM,
        maps="".join(maps),
        border=BORDER,
        margin=f"{abs(margin):.2f} dB {'above' if margin >= 0 else 'below'}",
    )
