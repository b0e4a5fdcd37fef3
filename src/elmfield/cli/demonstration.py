"""The demo: fit a picture, print a table, write a page one can look at.

``python -m elmfield.cli.demonstration --output demo`` (or ``make demo``). The picture ships with
scikit-image; nothing is downloaded. Only this room prints, and only it opens a path.
"""

import argparse
import base64
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield._array.typing import Floats
from elmfield.field import Field
from elmfield.io.beside import write_whole
from elmfield.io.viewed import export_view
from elmfield.partition import Partition
from elmfield.settings import Settings

DETAIL = (126, 216, 48)
"""First row, first column and size of the detail that is enlarged."""

ZOOM = 8
BORDER = 16
"""Samples at the picture's edge that the held-out score leaves out."""

LOOKED_INTO = 12 << 20
"""Bytes of tiles of the page that goes with the report."""

DRAWN = 4096
"""Regions that can still be told apart in a picture of them."""


@dataclass(frozen=True)
class Row:
    """One line of the table; None where a column means nothing for a method."""

    name: str
    cold: float | None
    kept: float | None
    coefficients: float | None
    paper: float | None
    true: float | None
    heldout: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write ``report.html``; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m elmfield.cli.demonstration", description=__doc__
    )
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder of the report")
    output = parser.parse_args(arguments).output
    try:
        from skimage.data import camera
    except ImportError:
        print("The demo's picture ships with scikit-image: pip install 'elmfield[demo]'.")
        return 1
    output.mkdir(parents=True, exist_ok=True)  # said at once if it cannot be
    began = time.perf_counter()
    picture = np.asarray(camera(), dtype=np.float64)  # type: ignore[no-untyped-call]
    presets: dict[str, Settings] = {
        "paper preset": ef.paper(),
        "default": ef.smooth(),
        "oriented": ef.oriented(),
    }
    fields = {name: ef.fit(picture, settings) for name, settings in presets.items()}
    rows = [measure(name, picture, settings) for name, settings in presets.items()]
    rows += [
        Row(name, None, None, None, None, None, spline_score(picture, order))
        for name, order in (("linear spline", 1), ("cubic spline", 3))
    ]
    print(as_text(rows))
    page = output / "report.html"
    write_whole(page, as_page(picture, fields, rows, presets).encode())
    export_view(fields["default"], output / "view", samples=picture, size=LOOKED_INTO)
    print(f"\n{page} written; {time.perf_counter() - began:.1f} s of computing in all.")
    print(f"To walk into the picture: {sys.executable} -m http.server -d {output}, then /view/")
    return 0


# --- measuring -----------------------------------------------------------------------------------


def measure(name: str, picture: Floats, settings: Settings) -> Row:
    """All columns of the table for one preset."""
    ef.cache_modes(clear=True)  # the first time is to be a cold one
    start = time.perf_counter()
    encode = ef.encoder(picture.shape, settings)
    field = encode(picture)
    cold = time.perf_counter() - start
    start = time.perf_counter()
    encode(picture)
    kept = time.perf_counter() - start
    back = field.samples()
    return Row(
        name,
        cold,
        kept,
        field.n_coefficients / picture.size,
        ef.paper_psnr(picture, back),
        ef.psnr(picture, back),
        ef.heldout_score(picture, settings, border=BORDER),
    )


def spline_score(picture: Floats, order: int) -> float:
    """Held-out PSNR of a spline through every second sample per axis."""
    grid = np.stack(np.meshgrid(*(np.arange(n) / 2 for n in picture.shape), indexing="ij"))
    predicted = map_coordinates(picture[::2, ::2], grid, order=order, mode="mirror")
    held = np.zeros(picture.shape, bool)
    held[BORDER:-BORDER, BORDER:-BORDER] = True
    held[::2, ::2] = False
    return ef.psnr(picture[held], predicted[held], data_range=float(np.ptp(picture)))


HEADS = (
    "",
    "fit, cold",
    "fit, kept",
    "coefficients / sample",
    "paper's PSNR",
    "true PSNR",
    "held-out PSNR",
)


def cells(row: Row) -> list[str]:
    """The row as texts, one per column."""

    def text(value: float | None, form: str) -> str:
        return "–" if value is None else form.format(value)

    return [
        row.name,
        text(None if row.cold is None else 1e3 * row.cold, "{:.0f} ms"),
        text(None if row.kept is None else 1e3 * row.kept, "{:.1f} ms"),
        text(row.coefficients, "{:.2f}"),
        text(row.paper, "{:.2f} dB"),
        text(row.true, "{:.0f} dB"),
        text(row.heldout, "{:.2f} dB").replace("-", "−"),
    ]


def as_text(rows: Sequence[Row]) -> str:
    """The table for a terminal."""
    lines = [list(HEADS), *map(cells, rows)]
    width = [max(len(line[k]) for line in lines) for k in range(len(HEADS))]
    return "\n".join(
        "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(line, width)))
        for line in lines
    )


# --- drawing -------------------------------------------------------------------------------------


def png(values: Floats) -> str:
    """Grey values 0 to 255 as a data URI."""
    from PIL import Image

    buffer = io.BytesIO()
    pixels = np.clip(np.round(values), 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def enlarged(picture: Floats, fields: dict[str, Field]) -> dict[str, Floats]:
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


def partition_drawing(partition: Partition) -> str:
    """Cell borders, the bands in which neighbours blend, and one region with its samples."""
    n, m = partition.shape
    shapes = []
    for k, (delta, across) in enumerate(zip(partition.overlap, "xy")):
        along, width, height = ("y", "height", "width") if k == 0 else ("x", "width", "height")
        length = (m, n)[k]
        for b in partition.borders(k)[1:-1] + 0.5:
            if delta:
                shapes.append(
                    f'<rect class="band" {along}="{b - delta:g}" {width}="{2 * delta:g}" '
                    f'{height}="{length}"/>'
                )
            shapes.append(
                f'<line class="border" {along}1="{b:g}" {along}2="{b:g}" {across}2="{length}"/>'
            )
    row, column, span = DETAIL
    cell = tuple(
        int(np.searchsorted(partition.edges[k], at + span // 2, side="right")) - 1
        for k, at in enumerate((row, column))
    )
    region = int(partition.labels[cell])
    (y, x), (h, w) = (a[region] for a in partition.boxes)
    shapes.append(f'<rect class="box" x="{x}" y="{y}" width="{w}" height="{h}"/>')
    return f'<svg viewBox="0 0 {m} {n}" aria-hidden="true">{"".join(shapes)}</svg>'


def profile(picture: Floats, presets: dict[str, Settings]) -> str:
    """A cut along one row: samples fitted, samples held out, and the functions between them."""
    row, column, span = DETAIL
    row, first, last = row + span // 2, column + 4, column + 40
    fitted = {name: ef.fit(picture[::2, ::2], s) for name, s in presets.items()}
    x = np.linspace(first, last, 721)
    curves = {
        name: f(np.column_stack([np.full(len(x), row / 2), x / 2])) for name, f in fitted.items()
    }
    low, high = -130.0, 330.0
    width, height = 960.0, 300.0

    def at(c: float, v: float) -> tuple[float, float]:
        return (c - first) / (last - first) * width, (high - v) / (high - low) * height

    parts = []
    for level in (0, 255):
        y = at(0, level)[1]
        parts.append(f'<line class="level" x1="0" x2="{width:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="4" y="{y - 5:.1f}">{level}</text>')
    for name, css in (("paper preset", "paper"), ("default", "ours")):
        path = " ".join("{:.1f},{:.1f}".format(*at(c, v)) for c, v in zip(x, curves[name]))
        parts.append(f'<polyline class="curve {css}" points="{path}"/>')
    for c in range(first, last + 1):
        px, py = at(c, picture[row, c])
        kind = "fitted" if c % 2 == 0 else "held"
        parts.append(f'<circle class="dot {kind}" cx="{px:.1f}" cy="{py:.1f}" r="4"/>')
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img">{"".join(parts)}</svg>'


def _page() -> str:
    """The page with its blanks."""
    return files("elmfield.cli").joinpath("demonstration.html").read_text(encoding="utf-8")


def as_page(
    picture: Floats, fields: dict[str, Field], rows: Sequence[Row], presets: dict[str, Settings]
) -> str:
    """The report: one self-contained page of HTML."""
    head = "".join(f"<th>{escape(h)}</th>" for h in HEADS)
    best = max(row.heldout for row in rows)
    body = ""
    for line in rows:
        name, *texts = cells(line)
        *texts, last = (f"<td>{escape(t)}</td>" for t in texts)
        if line.heldout == best:
            last = last.replace("<td>", '<td class="best">')
        body += f"<tr><th>{escape(name)}</th>{''.join(texts)}{last}</tr>"
    by_name = {row.name: row for row in rows}
    paper, ours = by_name["paper preset"], by_name["default"]
    splines = max(row.heldout for row in rows if row.name.endswith("spline"))
    zooms = "".join(
        f'<figure><img src="{png(values)}" alt="the detail by {escape(name)}">'
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for name, values in enlarged(picture, fields).items()
    )
    source = png(picture)
    row, column, span = DETAIL
    maps = "".join(
        f'<figure><div class="layers"><img src="{source}" alt="">'
        f"{partition_drawing(field.partition)}</div>"
        f"<figcaption>{escape(name)}: {field.partition.n_regions} regions, "
        f"{field.n_coefficients} coefficients</figcaption></figure>"
        for name, field in fields.items()
        if field.partition.n_regions <= DRAWN
    )
    n, m = picture.shape
    return Template(_page()).substitute(
        version=ef.__version__,
        picture=source,
        view=f"0 0 {m} {n}",
        mark=f'x="{column}" y="{row}" width="{span}" height="{span}"',
        size=f"{n} × {m}",
        n_samples=f"{picture.size:,}".replace(",", "\u202f"),
        head=head,
        body=body,
        zooms=zooms,
        zoom=ZOOM,
        maps=maps,
        profile=profile(picture, presets),
        row=row + span // 2,
        border=BORDER,
        paper_true=f"{paper.true:.0f}",
        paper_heldout=f"{paper.heldout:.1f}".replace("-", "−"),
        ours_true=f"{ours.true:.0f}",
        ours_heldout=f"{ours.heldout:.2f}",
        linear=f"{by_name['linear spline'].heldout:.2f}",
        cubic=f"{by_name['cubic spline'].heldout:.2f}",
        margin=f"{abs(ours.heldout - splines):.2f}",
        side="above" if ours.heldout >= splines else "below",
        ours_coefficients=f"{ours.coefficients:.2f}",
        paper_coefficients=f"{paper.coefficients:.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
