"""Tables of ``results/beam.json``."""

from common import RESULTS
from measurement.records import NotRecorded, read
from measurement.tables import table


def variants(r):
    """Partitions of a row of the paper's table, the mesh first."""
    return [name for name, found in r.items() if isinstance(found, dict)]


def against_the_paper(r):
    """A row at equal N and m: gains in dB, or as a part of the error."""
    a, b = r["printed"]
    if "psnr" in r["BEAM"]:
        gain, theirs, form = r["BEAM"]["psnr"] - r["regular"]["psnr"], b - a, "{:+.1f} dB"
        shown = [f"{r[v]['psnr']:.2f}" for v in variants(r)]
    else:
        gain, theirs, form = 1 - r["BEAM"]["mae"] / r["regular"]["mae"], 1 - b / a, "{:.1%}"
        shown = [f"{r[v]['mae']:.4f} ({r[v]['bias']:+.1e})" for v in variants(r)]
    gains = (form.format(x) for x in (theirs, gain))
    return [r["scene"], r["N"], r["m"], f"{a:g}", f"{b:g}", *gains, *shown]


def by_need(r):
    """A row of widths by need."""
    both = f"{r['equal']:.2f}", f"{r['need']:.2f}"
    return [r["scene"], r["N"], r["m"], r["partition"], *both, *r["widths"]]


def smooth(r):
    """A row of smooth modes with as many coefficients."""
    kinds = ("default", "regular", "BEAM", "BEAM, mean")
    return [r["scene"], r["N"] * r["m"], *(f"{r[k]:.2f}" for k in kinds)]


def flops(r):
    """A row of the fit's cost."""
    cost = f"{r['GEMM GFLOP/s']:.0f}", f"{r['GFLOP']:.0f}", f"{r['seconds']:.2f}"
    return [r["shapes"], r["factorisations"], *cost, f"{r['ratio']:.2f}"]


def toy(r):
    """A row of the toy field."""
    keys = [(p, k) for k in ("max / median", "variation") for p in ("regular", "BEAM")]
    return [r["N"], r["cell"], r["outside"], *(f"{r[p][k]:.2f}" for p, k in keys)]


PAPER = ["scene", "N", "m", "paper, regular", "paper, BEAM", "its gain", "our gain"]
FLOPS = (
    "The fit of kodim23, N = 64, m = 1024, against its flop count",
    ["shapes", "factorisations", "GEMM GFLOP/s", "GFLOP", "s", "ratio"],
    flops,
)
PARTS = (
    ("table", "Equal N and m: dB, or MAE in K (bias in brackets)", PAPER, against_the_paper),
    (
        "equal",
        "Widths by need at the same total, paper's network, dB",
        ["scene", "N", "m", "partition", "equal widths", "by need", "narrowest", "widest"],
        by_need,
    ),
    (
        "smooth",
        "The same total with smooth modes, dB",
        ["scene", "N m", "default cells", "regular", "BEAM", "BEAM, mean"],
        smooth,
    ),
    (
        "speed",
        "2048 x 2048, cells of 32, 1024 regions",
        ["picture", "shapes", "s"],
        lambda r: [
            r["picture"],
            r["shapes"],
            f"{r['seconds']:.2f}",
        ],
    ),
    (
        "scaling",
        "Time per cell",
        ["picture", "cells", "tiles", "µs per cell"],
        lambda r: [r["picture"], r["cells"], r["tiles"], f"{r['microseconds per cell']:.0f}"],
    ),
    ("flops", *FLOPS),
    ("flops two threads", *FLOPS),
    (
        "toy",
        "The toy field: spread of energies",
        ["N", "cell", "outside", "regular, max / median", "BEAM", "regular, variation", "BEAM"],
        toy,
    ),
)
"""Section of the record, title, heads, and how a row is shown."""


def sections():
    """The record; its section on widths by need holds rows of two kinds."""
    found = read(RESULTS / "beam.json")
    if not found:
        raise NotRecorded("there is no beam.json; run benchmarks/beam.py")
    if "need" in found:
        for name, key in (("equal", "equal"), ("smooth", "default")):
            own = [r for r in found["need"]["rows"] if key in r]
            found[name] = {"rows": own, "about": found["need"]["about"]}
    return found


def about(made):
    """One line on how the numbers of a section were made."""
    where = f"{made['dtype']}, {made['device']}, {made['threads']} cores, seed 0"
    if "blas_threads" in made:
        where += f", BLAS threads: {made['blas_threads']}"
    return f"{where}; NumPy {made['versions']['numpy']}."


def markdown(*names):
    """The tables of these sections, each under its heading; of all of them by default."""
    found, parts = sections(), []
    for name, title, heads, shown in PARTS:
        if name in found and name in (names or found):
            rows = found[name]["rows"]
            every = [*heads, *variants(rows[0])] if name == "table" else heads
            made = table(every, map(shown, rows), tight=True)
            parts.append(f"## {title}\n\n{made}\n\n{about(found[name]['about'])}\n")
    return "\n".join(parts)


def equal():
    """BEAM beside the mesh at equal N and m, with the default's energy."""
    found = sections()["table"]
    lines = []
    for r in found["rows"]:
        key, form = ("psnr", "{:.2f}") if "psnr" in r["BEAM"] else ("mae", "{:.4f}")
        ours = [form.format(r[v][key]) for v in ("regular", "BEAM", "mean")]
        lines.append([r["scene"], r["N"], r["m"], *(f"{x:g}" for x in r["printed"]), *ours])
    heads = ["scene", "N", "m", "paper: regular", "BEAM", "ours: regular", "BEAM"]
    made = table([*heads, 'BEAM, `outside="mean"`'], lines)
    return f"{made}\n\n{about(found['about'])}"


def speed():
    """Times of the merging, as the page on BEAM has them."""
    return markdown("speed").partition("\n\n")[2].rstrip("\n")


TABLES = {"beam_equal": equal, "beam_speed": speed}
