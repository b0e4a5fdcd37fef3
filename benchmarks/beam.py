"""What BEAM must show: the paper's table at equal N and m, what goes past it, speed, the toy field.

    python benchmarks/beam.py                              everything
    python benchmarks/beam.py table --device cuda          the fits on a GPU

Sections: table, need, speed, scaling, flops, toy. Each rewrites its part of ``results/beam.json``;
all of them ``results/beam.md`` and the tables of ``docs/beam.md``. ``--tables`` does only that.
"""

import argparse
import json
import os
import time
import warnings

import numpy as np

import elmfield as ef
from common import RESULTS, record
from data import WEATHER
from elmfield.partition.beam.fourier import CORES
from elmfield.research import datasets
from elmfield.show.pictures import toy_field

PRINTED = {  # regular and BEAM, at the two widths: dB, or MAE in K
    "kodim20": ((26.0, 27.5), (29.6, 32.3)),
    "cameraman": ((27.6, 30.9), (32.3, 37.7)),
    "kodim23": ((34.1, 36.9), (38.3, 41.0)),
    "spring": ((1.158, 1.118), (1.075, 1.040)),
    "summer": ((1.450, 1.408), (1.367, 1.331)),
    "autumn": ((1.775, 1.737), (1.698, 1.665)),
    "winter": ((0.398, 0.363), (0.317, 0.288)),
}
SEASONS = {
    "spring": "ERA5 t2m, spring 2023",
    "summer": "GFS t2m, summer 2020",
    "autumn": "IFS t2m, autumn 2023 (0.4°)",
    "winter": "ERA5 t2m, winter 2023",
}
VARIANTS = {
    "BEAM": {},
    "ortho": {"normalisation": "ortho"},
    "backward": {"normalisation": "backward"},
    "mean": {"outside": "mean"},
    "boxes": {"shapes": "boxes"},
}


def scenes():
    """Name, samples, cells of the regular mesh, atomic cells, widths."""
    yield "kodim20", datasets.load("kodim20"), 32, 16, (256, 512)
    yield "cameraman", datasets.load("cameraman"), 32, 16, (256, 512)
    yield "kodim23", datasets.load("kodim23"), 64, 32, (1024, 2048)
    for name, source in SEASONS.items():
        yield name, datasets.load(WEATHER[source]), 64, 32, (1024, 2048)


def fitted(values, partition, width, device, seed=0):
    """The reconstruction at the samples, and the field."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ef.RankWarning)
        place = None if device == "cpu" else device
        settings = ef.paper(width=width, seed=seed)
        field = ef.fit(values, settings, partition=partition, device=place)
        found = field.samples()
    return np.asarray(found.cpu() if hasattr(found, "cpu") else found), field


def errors(name, values, found):
    if name in SEASONS:
        bias = float(np.mean(found - values))
        return {"mae": ef.mae(values, found), "bias": bias}
    return {"psnr": ef.paper_psnr(values, found)}


def table(device, seeds=3):
    rows = []
    for name, values, coarse, fine, widths in scenes():
        mesh = ef.Partition.regular(values.shape, coarse)
        N = mesh.n_regions
        partitions = {"regular": mesh}
        for variant, options in VARIANTS.items():
            partitions[variant] = ef.beam(values, cell=fine, regions=N, **options)
        for width, printed in zip(widths, PRINTED[name]):
            row = {"scene": name, "N": N, "m": width, "printed": printed}
            for variant, partition in partitions.items():
                many = seeds if variant in ("regular", "BEAM") and name not in SEASONS else 1
                found = [
                    errors(name, values, fitted(values, partition, width, device, seed)[0])
                    for seed in range(many)
                ]
                row[variant] = found[0] | {"shapes": len(partition.shapes)}
                if many > 1:
                    row[variant]["seeds"] = [f["psnr"] for f in found]
            rows.append(row)
            print(json.dumps(row), flush=True)
    record("beam", "table", rows, device=device)


# --- widths by need -----------------------------------------------------------------------------


def curves(field, samples):
    """Energy left in each region after its first k coefficients, k = 0, 1, ...: list of arrays."""
    left = {}
    for group in field.blended.groups:
        c = group.take(np.arange(len(group.regions)))
        c = np.asarray(c.cpu() if hasattr(c, "cpu") else c)[:, :, 0] * float(field.scale[0])
        for i, row in zip(group.regions, c):
            gone = np.concatenate([[0], np.cumsum(row**2)])
            left[int(i)] = gone[-1] + float(field.residual[i]) - gone
    return [left[i] for i in range(len(left))]


def spread(left, total, block=16):
    """The least energy left with `total` coefficients, widths in blocks; and the widths."""
    steps = [np.minimum(np.arange(0, len(e) + block - 1, block), len(e) - 1) for e in left]
    energy = [e[k] for e, k in zip(left, steps)]

    def at(price):
        return [int(k[np.argmin(e + price * k)]) for e, k in zip(energy, steps)]

    low, high = 1e-12, max(float(e[0]) for e in left)
    for _ in range(80):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if sum(at(middle)) > total else (low, middle)
    widths = at(high)
    return sum(float(e[w]) for e, w in zip(left, widths)), widths


def need(device):
    """Equal widths against widths by need, at the same total, by Parseval."""
    rows = []
    for name, values, coarse, fine, widths in scenes():
        if name in SEASONS:
            continue
        mesh = ef.Partition.regular(values.shape, coarse)
        N = mesh.n_regions

        unit = values.size * values.max() ** 2

        def decibel(left, unit=unit):
            return float(-10 * np.log10(left / unit + 1e-8))

        kinds = {
            "regular": mesh,
            "BEAM": ef.beam(values, cell=fine, regions=N),
            "BEAM, mean": ef.beam(values, cell=fine, regions=N, outside="mean"),
        }
        for kind, partition in kinds.items():
            most = min(4 * widths[0], coarse**2)
            _, field = fitted(values, partition, most, device)
            left = curves(field, values)
            for m in widths:
                equal = sum(float(e[min(m, len(e) - 1)]) for e in left)
                spare = N * m - sum(min(m, len(e) - 1) for e in left)
                best, chosen = spread(left, N * m)
                rows.append({
                    "scene": name, "N": N, "m": m, "partition": kind,
                    "equal": decibel(equal), "need": decibel(best),
                    "unused at equal widths": spare, "widths": [min(chosen), max(chosen)],
                })  # fmt: skip
                print(json.dumps(rows[-1]), flush=True)
        for m in widths:
            row = {"scene": name, "N": N, "m": m, "partition": "smooth, by need"}
            for kind, partition in {"default": None, **kinds}.items():
                field = ef.fit(values, ef.smooth(coefficients=N * m), partition=partition)
                left = float(np.sum((field.samples() - values) ** 2))
                row[kind] = decibel(left)
            rows.append(row)
            print(json.dumps(row), flush=True)
    record("beam", "need", rows, device=device)


# --- time ---------------------------------------------------------------------------------------


def pictures():
    """Large pictures, grey: one with texture nearly everywhere, one half of which is black."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    yield "Blue Marble", np.asarray(Image.open(datasets.path("blue-marble")[0]).convert("L"))
    yield "Sun", np.asarray(Image.open(datasets.path("sdo")[0]).convert("L"))


def timed(function, repeats=3):
    """The shortest of some runs, in seconds."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def speed():
    """2048 x 2048 in cells of 32 to 1024 regions, search for the threshold included."""
    rows = []
    for name, picture in pictures():
        for shapes in ("any", "boxes"):
            part = picture[:2048, 1024:3072]
            seconds = timed(lambda p=part, s=shapes: ef.beam(p, cell=32, regions=1024, shapes=s))
            rows.append({"picture": name, "shapes": shapes, "seconds": seconds})
            print(json.dumps(rows[-1]), flush=True)
    record("beam", "speed", rows, threads=CORES)


def scaling():
    """Time per cell from 256 to 16384 cells of 16: whole picture, or the mean over tiles of it."""
    rows = []
    for name, picture in pictures():
        part = picture[:2048, 1024:3072]
        for side in (256, 512, 1024, 2048):
            tiles = [
                part[a : a + side, b : b + side]
                for a in range(0, 2048, side)
                for b in range(0, 2048, side)
            ]
            tiles = tiles[:: max(1, len(tiles) // 16)]
            cells = (side // 16) ** 2
            seconds = [timed(lambda t=t, n=cells // 4: ef.beam(t, cell=16, regions=n), 1)
                       for t in tiles]  # fmt: skip
            rows.append({
                "picture": name, "cells": cells, "tiles": len(tiles),
                "microseconds per cell": 1e6 * float(np.mean(seconds)) / cells,
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
    record("beam", "scaling", rows, threads=CORES)


def flops():
    """The fit of kodim23 on a BEAM partition against its flop count at the machine's GEMM rate."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((4096, 1024)), rng.standard_normal((1024, 1024))
    rate = 2 * 4096 * 1024**2 / timed(lambda: A @ B, 5)
    values, m = datasets.load("kodim23"), 1024
    rows = []
    for shapes in ("any", "boxes"):
        partition = ef.beam(values, cell=32, regions=64, shapes=shapes)
        sizes = [int(np.prod(b)) if i is None else int(i.sum()) for b, i, _ in partition.shapes]
        # Householder's count for S x m, 2 m² (S - m/3); Golub and Van Loan, section 5.2.
        count = sum(2 * min(S, m) ** 2 * (max(S, m) - min(S, m) / 3) for S in sizes)
        seconds = timed(lambda p=partition: ef.fit(values, ef.paper(width=m), partition=p), 2)
        rows.append({
            "shapes": shapes, "factorisations": len(sizes), "GEMM GFLOP/s": rate / 1e9,
            "GFLOP": count / 1e9, "seconds": seconds, "ratio": seconds * rate / count,
        })  # fmt: skip
        print(json.dumps(rows[-1]), flush=True)
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    name = "flops two threads" if threads == "2" else "flops"
    record("beam", name, rows, blas_threads=threads)


# --- the toy field ------------------------------------------------------------------------------


def toy():
    rows = []
    values = toy_field()
    for coarse, fine in ((64, 16), (32, 16), (16, 8)):
        mesh = ef.Partition.regular(values.shape, coarse)
        for outside in ("zero", "mean"):
            partition = ef.beam(values, cell=fine, regions=mesh.n_regions, outside=outside)
            row = {"N": mesh.n_regions, "cell": fine, "outside": outside}
            for name, p in (("regular", mesh), ("BEAM", partition)):
                beta = ef.barron_norm(values, partition=p, outside=outside)
                row[name] = {
                    "max / median": float(beta.max() / np.median(beta)),
                    "variation": float(beta.std() / beta.mean()),
                }
            rows.append(row)
            print(json.dumps(row), flush=True)
    record("beam", "toy", rows)


# --- Markdown -----------------------------------------------------------------------------------


def lines_of(heads, rows):
    yield "| " + " | ".join(heads) + " |"
    yield "|---" + "|---:" * (len(heads) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"


def markdown():
    """``results/beam.md`` from ``results/beam.json``."""
    found = json.loads((RESULTS / "beam.json").read_text())
    out = ["# BEAM", ""]

    def section(title, name, heads, make):
        if name in found:
            about = found[name]["about"]
            out.extend([f"## {title}", ""])
            out.extend(lines_of(heads, [make(r) for r in found[name]["rows"]]))
            where = f"{about['dtype']}, {about['device']}, {about['threads']} cores, seed 0"
            if "blas_threads" in about:
                where += f", BLAS threads: {about['blas_threads']}"
            out.extend(["", f"{where}; NumPy {about['versions']['numpy']}.", ""])

    def of_table(r):
        def show(e):
            if "psnr" in e:
                return f"{e['psnr']:.2f}"
            return f"{e['mae']:.4f} ({e['bias']:+.1e})"

        a, b = r["printed"]
        one = "psnr" in r["BEAM"]
        gain = r["BEAM"]["psnr"] - r["regular"]["psnr"] if one else (
            1 - r["BEAM"]["mae"] / r["regular"]["mae"])  # fmt: skip
        theirs = b - a if one else 1 - b / a
        form = "{:+.1f} dB" if one else "{:.1%}"
        return [
            r["scene"], r["N"], r["m"], f"{a:g}", f"{b:g}", form.format(theirs),
            form.format(gain), *(show(r[v]) for v in ("regular", *VARIANTS)),
        ]  # fmt: skip

    section(
        "Equal N and m: dB, or MAE in K (bias in brackets)",
        "table",
        ["scene", "N", "m", "paper, regular", "paper, BEAM", "its gain", "our gain", "regular",
         *VARIANTS],
        of_table,
    )  # fmt: skip
    if "need" in found:
        rows = found["need"]["rows"]
        mine = {"rows": [r for r in rows if "equal" in r], "about": found["need"]["about"]}
        rest = {"rows": [r for r in rows if "default" in r], "about": found["need"]["about"]}
        found["equal"], found["smooth"] = mine, rest
    section(
        "Widths by need at the same total, paper's network, dB",
        "equal",
        ["scene", "N", "m", "partition", "equal widths", "by need", "narrowest", "widest"],
        lambda r: [r["scene"], r["N"], r["m"], r["partition"], f"{r['equal']:.2f}",
                   f"{r['need']:.2f}", *r["widths"]],
    )  # fmt: skip
    section(
        "The same total with smooth modes, dB",
        "smooth",
        ["scene", "N m", "default cells", "regular", "BEAM", "BEAM, mean"],
        lambda r: [r["scene"], r["N"] * r["m"], *(f"{r[k]:.2f}" for k in
                   ("default", "regular", "BEAM", "BEAM, mean"))],
    )  # fmt: skip
    section(
        "2048 x 2048, cells of 32, 1024 regions",
        "speed",
        ["picture", "shapes", "s"],
        lambda r: [r["picture"], r["shapes"], f"{r['seconds']:.2f}"],
    )
    section(
        "Time per cell",
        "scaling",
        ["picture", "cells", "tiles", "µs per cell"],
        lambda r: [r["picture"], r["cells"], r["tiles"], f"{r['microseconds per cell']:.0f}"],
    )
    for name in ("flops", "flops two threads"):
        section(
            "The fit of kodim23, N = 64, m = 1024, against its flop count",
            name,
            ["shapes", "factorisations", "GEMM GFLOP/s", "GFLOP", "s", "ratio"],
            lambda r: [r["shapes"], r["factorisations"], f"{r['GEMM GFLOP/s']:.0f}",
                       f"{r['GFLOP']:.0f}", f"{r['seconds']:.2f}", f"{r['ratio']:.2f}"],
        )  # fmt: skip
    section(
        "The toy field: spread of energies",
        "toy",
        ["N", "cell", "outside", "regular, max / median", "BEAM", "regular, variation", "BEAM"],
        lambda r: [r["N"], r["cell"], r["outside"],
                   *(f"{r[p][k]:.2f}" for k in ("max / median", "variation")
                     for p in ("regular", "BEAM"))],
    )  # fmt: skip
    (RESULTS / "beam.md").write_text("\n".join(out))
    page = RESULTS.parents[1] / "docs" / "beam.md"
    before, _, rest = page.read_text().partition("<!-- beam -->\n")
    _, _, after = rest.partition("<!-- end beam -->\n")
    tables = "\n".join(out[2:]).replace("## ", "### ")
    page.write_text(f"{before}<!-- beam -->\n{tables}<!-- end beam -->\n{after}")


SECTIONS = {"table": table, "need": need, "speed": speed, "scaling": scaling, "flops": flops,
            "toy": toy}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; default all")
    parser.add_argument("--device", default="cpu", help="where the fits of table and need run")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    chosen = parser.parse_args()
    unknown = set(chosen.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no such section: {', '.join(sorted(unknown))}")
    for section_name in () if chosen.tables else chosen.sections or SECTIONS:
        if section_name in ("table", "need"):
            SECTIONS[section_name](chosen.device)
        else:
            SECTIONS[section_name]()
    markdown()
