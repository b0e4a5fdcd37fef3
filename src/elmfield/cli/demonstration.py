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
from pathlib import Path
from string import Template

import numpy as np
from scipy.ndimage import map_coordinates

import elmfield as ef
from elmfield._array.typing import Floats
from elmfield.field import Field
from elmfield.partition import Partition
from elmfield.settings import Settings

DETAIL = (126, 216, 48)
"""First row, first column and size of the detail that is enlarged."""

ZOOM = 8
BORDER = 16
"""Samples at the picture's edge that the held-out score leaves out."""


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
    began = time.perf_counter()
    picture = np.asarray(camera(), dtype=np.float64)  # type: ignore[no-untyped-call]
    presets: dict[str, Settings] = {"paper preset": ef.paper(), "default": ef.smooth()}
    fields = {name: ef.fit(picture, settings) for name, settings in presets.items()}
    rows = [measure(name, picture, settings) for name, settings in presets.items()]
    rows += [
        Row(name, None, None, None, None, None, spline_score(picture, order))
        for name, order in (("linear spline", 1), ("cubic spline", 3))
    ]
    print(as_text(rows))
    output.mkdir(parents=True, exist_ok=True)
    page = output / "report.html"
    page.write_text(as_page(picture, fields, rows, presets), encoding="utf-8")
    print(f"\n{page} written; {time.perf_counter() - began:.1f} s of computing in all.")
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
    )
    n, m = picture.shape
    return Template(PAGE).substitute(
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


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>elmfield: a picture as a function</title>
<style>
:root {
  color-scheme: light dark;
  --ground: #fbfaf7; --panel: #ffffff; --ink: #1d2126; --soft: #5d6670; --rule: #dfdcd3;
  --ours: #0b7a75; --paper: #c8553d; --mark: #e8a317; --wash: #0b7a7514;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171a; --panel: #1c2024; --ink: #e9e6df; --soft: #9aa3ac; --rule: #32383e;
    --ours: #4fc4bb; --paper: #f08a70; --mark: #f2b84b; --wash: #4fc4bb1f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 17px/1.6 Charter, "Iowan Old Style", Georgia, "Times New Roman", serif;
}
main { max-width: 1120px; margin: 0 auto; padding: 56px 28px 88px; }
header { display: grid; grid-template-columns: minmax(0, 1fr) 300px; gap: 48px; align-items: end; }
h1 { font-size: 46px; line-height: 1.12; letter-spacing: -.015em; margin: 0 0 18px;
  font-weight: 600; }
h2 { font-size: 25px; line-height: 1.25; margin: 68px 0 10px; font-weight: 600; }
p { margin: 0 0 14px; max-width: 44em; }
.after { margin-top: 20px; }
.lead { font-size: 19px; color: var(--soft); }
figcaption, table, .key, .tick, footer {
  font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial,
    sans-serif;
}
figure { margin: 0; }
figcaption { font-size: 14px; color: var(--soft); margin-top: 9px; }
img { display: block; width: 100%; height: auto; border-radius: 3px; }
.layers { position: relative; }
.layers svg { position: absolute; inset: 0; width: 100%; height: 100%; }
.grid { display: grid; gap: 20px; margin-top: 22px; }
.four { grid-template-columns: repeat(4, minmax(0, 1fr)); }
.two { grid-template-columns: repeat(2, minmax(0, 1fr)); }
.four figure:nth-child(3) figcaption { color: var(--paper); font-weight: 600; }
.four figure:nth-child(4) figcaption { color: var(--ours); font-weight: 600; }
.panel { background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; }
.scroll { overflow-x: auto; margin-top: 22px; }
table { border-collapse: collapse; width: 100%; font-size: 15px;
  font-variant-numeric: tabular-nums; }
th, td { padding: 12px 18px; text-align: right; white-space: nowrap; }
th:first-child { text-align: left; }
thead th { font-weight: 500; color: var(--soft); font-size: 13.5px; }
tbody tr { border-top: 1px solid var(--rule); }
tbody th { font-weight: 600; }
tbody tr:nth-child(1) th { color: var(--paper); }
tbody tr:nth-child(2) th { color: var(--ours); }
tbody tr:nth-child(2) { background: var(--wash); }
td.best { font-weight: 700; }
.profile { padding: 22px 24px 14px; margin-top: 22px; }
.profile svg { display: block; width: 100%; height: auto; }
.curve { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
.curve.paper { stroke: var(--paper); stroke-width: 1.4; }
.curve.ours { stroke: var(--ours); }
.level { stroke: var(--rule); }
.tick { font-size: 12px; fill: var(--soft); }
.dot { stroke: var(--ink); stroke-width: 1.6; }
.dot.fitted { fill: var(--ink); }
.dot.held { fill: var(--panel); }
.key { display: flex; flex-wrap: wrap; gap: 8px 26px; font-size: 14px; color: var(--soft);
  margin-top: 12px; }
.key span { display: inline-flex; align-items: center; gap: 8px; }
.key i { width: 22px; height: 0; border-top: 2.5px solid; }
.key b { width: 9px; height: 9px; border-radius: 50%; border: 1.6px solid var(--ink); }
.border { stroke: #ffe9b0; stroke-width: .9; opacity: .75; vector-effect: non-scaling-stroke; }
.band { fill: #ffd166; opacity: .16; }
.box { fill: none; stroke: #ff5a36; stroke-width: 2.6; vector-effect: non-scaling-stroke; }
.mark { fill: none; stroke: var(--mark); stroke-width: 3; }
footer { margin-top: 72px; padding-top: 18px; border-top: 1px solid var(--rule); font-size: 14px;
  color: var(--soft); }
code { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
@media (max-width: 820px) {
  header { grid-template-columns: 1fr; gap: 28px; }
  header figure { max-width: 320px; }
  h1 { font-size: 36px; }
  .four { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .two { grid-template-columns: 1fr; }
}
</style>
<main>
<header>
  <div>
    <h1>A picture as a function</h1>
    <p class="lead">$size pixels, fitted in closed form by small networks with frozen hidden
    layers, once as the paper prints the method and once as elmfield does by default. Both return
    every pixel. Between the pixels they part ways.</p>
  </div>
  <figure>
    <div class="layers"><img src="$picture" alt="a man with a camera on a tripod">
    <svg viewBox="$view" aria-hidden="true"><rect class="mark" $mark/></svg></div>
    <figcaption>The picture, and the detail enlarged below</figcaption>
  </figure>
</header>

<h2>The detail, $zoom times larger</h2>
<p>Each method was given all $n_samples pixels and asked for $zoom × $zoom values inside each of
them. The paper preset meets the pixels to $paper_true dB, yet has as many free coefficients as
samples and nothing that ties the values between them: there it collapses. The default meets the
pixels to $ours_true dB and takes, of all functions that do, the one of least energy.</p>
<div class="grid four">$zooms</div>

<h2>In numbers</h2>
<div class="panel scroll"><table><thead><tr>$head</tr></thead><tbody>$body</tbody></table></div>
<p class="after">Held out means: fit every second pixel per axis, score the others, leaving out
$border pixels at the edge. The default scores $ours_heldout dB, linear and cubic splines $linear
and $cubic dB, the paper preset $paper_heldout dB. So between the pixels the default is $margin dB
$side the better spline: what was left out of a photograph is mostly not to be had from the rest.
The paper's PSNR cannot exceed 80 dB by definition. Neither fit is a compression: the paper preset
keeps $paper_coefficients numbers for each pixel, the default $ours_coefficients, because its
regions overlap.</p>

<h2>A cut through row $row</h2>
<p>Fitted to every second pixel. Both curves pass through the filled dots; the hollow ones were
held out.</p>
<div class="panel profile">$profile
<div class="key"><span><i style="border-color:var(--ours)"></i>default</span>
<span><i style="border-color:var(--paper)"></i>paper preset</span>
<span><b style="background:var(--ink)"></b>fitted</span><span><b></b>held out</span></div></div>

<h2>How the picture is cut</h2>
<p>Each cell has its own local model. Neighbours of the default blend in the shaded bands, so that
value, slope and curvature run on across borders; the paper's cells meet without a blend. The red
frame holds the samples one region is fitted to.</p>
<div class="grid two">$maps</div>

<footer>elmfield $version. Picture: <code>skimage.data.camera()</code>, CC0. Times are those of the
machine that wrote this page: <em>cold</em> factors the local problem and fits, <em>kept</em> fits
another picture of the same shape with the factors at hand.</footer>
</main>
</html>
"""


if __name__ == "__main__":
    sys.exit(main())
