"""Tables of the documents, from the recorded results.

    python benchmarks/tables.py            rewrite them, and results/*.md
    python benchmarks/tables.py --check    fail if a document and the record disagree

A document has a place for a table where it says ``<!-- results:name -->`` and ``<!-- end -->``.
"""

import argparse
import contextlib
import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from statistics import mean

HERE = Path(__file__).parent
ROOT = HERE.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PLACE = re.compile(r"<!-- results:(\w+) -->\n((?!<!-- end -->).)*<!-- end -->", re.S)


@lru_cache(maxsize=8)
def load(file):
    return json.loads((HERE / "results" / f"{file}.json").read_text())


class NotRecorded(LookupError):
    """There is no record yet from which a table could be made."""


def rows_of(file, section):
    path = HERE / "results" / f"{file}.json"
    if not path.exists() or section not in load(file):
        raise NotRecorded(f"{path.name} has no section {section!r}; run the script that makes it")
    return load(file)[section]["rows"]


def table(heads, rows):
    """Markdown; the first column to the left, the others to the right."""
    lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def bold_best(values, form="{:.2f}"):
    """Numbers as texts, the largest in bold (the largest itself, not what rounds to it)."""
    best = max(values)
    return [f"**{form.format(v)}**" if v == best else form.format(v) for v in values]


def best_of(orders):
    """The order with the highest score, and that score."""
    s = max(orders, key=orders.get)
    return s, orders[s]


def mib(n):
    return f"{n / 2**20:.1f}"


# --- results --------------------------------------------------------------------------------------


def summary():
    lines = []
    photographs = rows_of("core", "heldout")
    names = ("linear", "cubic", "quintic", "default")
    scores = [mean(r[k] for r in photographs) for k in names]
    orders = {s: mean(r["orders"][s] for r in photographs) for s in photographs[0]["orders"]}
    orders["1.1"] = scores[-1]
    s, best = best_of(orders)
    lines.append(
        [
            f"photographs ({len(photographs)} of the Kodak suite)",
            *bold_best([*scores, best]),
            s,
            f"{min(r['at_samples'] for r in photographs):.0f}",
        ]
    )
    for row in rows_of("core", "fields"):
        s, best = best_of(row["orders"])
        scores = [row[k] for k in names[:3]] + [row["orders"]["1.1"], best]
        lines.append([row["data"], *bold_best(scores), s, f"{row['at_samples'][s]:.0f}"])
    above = sum(r["default"] > r["cubic"] for r in photographs)
    per_sample = mean(r["coefficients_per_sample"] for r in photographs)
    paper = rows_of("core", "paper")
    collapse = [r["paper"] for r in photographs if "paper" in r]
    lowest = min(r["paper_psnr"] for r in paper)
    text = (
        f"\n\nThe default is above the cubic spline on {above} of {len(photographs)} photographs "
        f"and keeps {per_sample:.2f} coefficients per sample there. The last column is the true "
        "PSNR at the fitted samples.\n\n"
        f"The paper's preset, at the samples: a paper's PSNR of at least {lowest:.4f} dB, where 80 "
        f"is the ceiling, on all {len({r['data'] for r in paper})} data sets tried, float32 and "
        f"float64. Between the samples: {mean(collapse):.1f} dB on average over {len(collapse)} of "
        f"the photographs. A cold fit of 512 × 512 samples is {lstsq_ratio():.0f} times faster "
        "than the fastest region-by-region `lstsq` on two cores, of which four regions are timed."
    )
    heads = ["held-out PSNR, dB", "linear", "cubic", "quintic", "default", "best order", "order"]
    return table([*heads, "at the samples"], lines) + text


def paper():
    lines = [
        [
            r["data"],
            r["dtype"],
            f"{r['cell']}²",
            r["width"],
            r["printed"] or "–",
            f"{r['paper_psnr']:.4f}",
            f"{r['psnr']:.0f}",
            f"{r['max_error']:.1e}",
            f"{r['coefficients_per_sample']:.2f}",
        ]
        for r in rows_of("core", "paper")
    ]
    heads = ["data", "dtype", "cell", "m", "printed", "paper's PSNR", "true PSNR"]
    return table([*heads, "largest error / range", "coefficients / sample"], lines)


def seeds():
    lines = [
        [
            f"{r['draw']}, m = {r['width']}",
            f"{mean(r['psnr']):.2f}",
            f"{max(r['psnr']) - min(r['psnr']):.2f}",
        ]
        for r in rows_of("core", "seeds")
    ]
    return table(["hidden layer", "true PSNR, mean of 5 seeds", "largest less smallest"], lines)


def navier_stokes():
    lines = [
        [
            "×".join(map(str, r["cell"])),
            r["reading"],
            r["dtype"],
            r["rank"],
            f"{r['mae']:.2e}",
            f"{r['printed']:.2e}",
            f"{r['max_error']:.2e}",
            f"{r['coefficients_per_sample']:.2f}",
        ]
        for r in rows_of("core", "navier_stokes")
    ]
    heads = ["piece", "reading", "dtype", "rank", "MAE", "printed", "largest error"]
    return table([*heads, "coefficients / sample"], lines)


def scales():
    lines = [[r["what"], f"{r['mae']:.2e}"] for r in rows_of("core", "scales")]
    return table(["ten samples to a coefficient", "MAE"], lines)


def heldout():
    rows = rows_of("core", "heldout")
    names = ("linear", "cubic", "quintic", "default")
    extra = tuple(rows[0]["orders"])
    lines = []
    for r in rows:
        scores = [r[k] for k in names] + [r["orders"][s] for s in extra]
        lines.append([r["data"], *bold_best(scores), f"{r['at_samples']:.0f}"])
    means = [mean(r[k] for r in rows) for k in names]
    means += [mean(r["orders"][s] for r in rows) for s in extra]
    lowest = min(r["at_samples"] for r in rows)
    lines.append(["**mean**", *bold_best(means, "{:.3f}"), f"≥ {lowest:.0f}"])
    heads = ["picture", *names, *(f"s = {s}" for s in extra), "at the samples"]
    counts = {k: sum(r["default"] > r[k] for r in rows) for k in names[:3]}
    said = ", ".join(f"{k} on {n}" for k, n in counts.items())
    text = (
        f"\n\nDefault above {said} of {len(rows)}; mean {means[3] - means[1]:+.3f} dB over cubic, "
        f"{means[3] - means[0]:+.3f} dB over linear. The paper's preset: "
        + ", ".join(f"{r['data']} {r['paper']:.1f} dB" for r in rows if "paper" in r)
        + "."
    )
    return table(heads, lines) + text


def fields():
    rows = rows_of("core", "fields")
    shown = ("1.1", "1.5", "2.0", "3.0", "4.0", "5.0")
    lines = []
    for r in rows:
        s, best = best_of(r["orders"])
        scores = [r[k] for k in ("linear", "cubic", "quintic")] + [r["orders"][k] for k in shown]
        gain = best - r["cubic"]
        lines.append([r["data"], *bold_best([*scores, best]), s, f"{gain:+.3f}"])
    heads = ["data", "linear", "cubic", "quintic", *(f"s = {s}" for s in shown)]
    return table([*heads, "best", "at s =", "over cubic"], lines)


def timed(device, section):
    """Rows of one section of a suite of times, by what was timed."""
    path = HERE / "results" / f"speed-{device}.json"
    if not path.exists() or section not in load(path.stem).get("sections", {}):
        raise NotRecorded(f"{path.name} has no section {section!r}; run benchmarks/speed.py")
    return {r["what"]: r for r in load(path.stem)["sections"][section]}


def lstsq_ratio():
    """How many times faster a cold fit is than the fastest region-by-region `lstsq`, at least."""
    rows = timed("cpu", "paper")
    cold = [rows[f"paper 512×512, cells 32, m = 1024, {t}: cold"] for t in ("float32", "float64")]
    return min(row[f"faster_than_{way}"] for row in cold for way in ("lstsq", "gels"))


def spread_of(device, kind):
    """Largest over smallest time per sample of the five squares."""
    rows = timed(device, "sizes")
    each = [rows[f"default {n}×{n}: {kind}"]["ns_per_sample"] for n in SQUARES]
    return max(each) / min(each), each


SQUARES = (256, 512, 1024, 2048, 4096)


def to_quality(device, name="kodim05"):
    """Seconds of a cold default fit; and per trained method those to 30, 40 and 50 dB, its size."""
    path = ROOT / "paper" / "results" / device / "images.json"
    if not path.exists():
        raise NotRecorded(f"there is no {path.name} of {device}; run paper/images.py")
    units = json.loads(path.read_text())["units"]
    rows = []
    for key, unit in units.items():
        log = unit["result"].get("log")
        if key.startswith(f"{name}: ") and log:
            when = [next((s for _, s, p in log if p >= goal), None) for goal in (30, 40, 50)]
            rows.append((key.split(": ")[1], when, unit["result"]["coefficients_per_sample"]))
    return units[f"{name}: default"]["result"]["seconds"], rows


def speed_to_quality():
    """Time to a quality on kodim05, from the logs of the paper's pictures on a GPU."""
    ours, rows = to_quality("cuda")
    lines = [["default, cold (80 dB)", *[f"{ours:.4f}"] * 3, "1", "1.56"]]
    for method, when, size in sorted(rows, key=lambda r: r[1][1] or 1e9):
        times = ["never" if t is None else f"{t:.2f}" for t in when]
        ratio = "–" if when[1] is None else f"{when[1] / ours:.0f}"
        lines.append([method, *times, ratio, f"{size:.2f}"])
    heads = ["kodim05, one H200", "s to 30 dB", "40 dB", "50 dB", "40 dB over ours"]
    return table([*heads, "numbers per sample"], lines)


def speed_aims():
    """What was aimed at, beside what was measured."""
    lines = []

    def line(what, aim, value, form, good):
        lines.append([what, aim, form.format(value), "yes" if good else "**no**"])

    cpu, card = timed("cpu", "paper"), timed("cuda", "paper")
    ratio = lstsq_ratio()
    line("2 cores: `paper()` 512², cold, over the fastest region-by-region `lstsq`", "≥ 100×",
         ratio, "{:.0f}×", ratio >= 100)  # fmt: skip
    kept = min(
        cpu[f"paper 512×512, cells 32, m = 1024, {t}: kept"]["of_gemm"]
        for t in ("float32", "float64")
    )
    line("2 cores: kept operator, of the GEMM rate", "≥ 70 %", 100 * kept, "{:.0f} %", kept >= 0.7)
    for dtype in ("float64", "float32"):
        name = f"paper 2048×2048×8, cells 64, m = 4096, {dtype}"
        cold, kept = card[f"{name}: cold"], card[f"{name}: kept"]
        where = f"H200, {dtype}: 2048²×8, m = 4096"
        line(f"{where}, cold", "≤ 0.05 s", cold["seconds"], "{:.4f} s", cold["seconds"] <= 0.05)
        line(f"{where}, kept", "≤ 0.006 s", kept["seconds"], "{:.4f} s", kept["seconds"] <= 0.006)
        line(f"{where}, the paper's PSNR", "≥ 79.9", cold["paper_psnr"], "{:.4f}",
             cold["paper_psnr"] >= 79.9)  # fmt: skip
        ratio = min(cold["faster_than_lstsq"], cold["faster_than_normal"])
        line(
            f"{where}, over region by region (the faster of `lstsq` and normal equations)",
            "≥ 500×",
            ratio,
            "{:.0f}×",
            ratio >= 500,
        )
    t = timed("cuda", "sizes")["default 512×512: cold"]["seconds"]
    line("H200: default 512², cold", "≤ 0.02 s", t, "{:.4f} s", t <= 0.02)
    ours, rows = to_quality("cuda")
    method, ratio = min(((m, t[1] / ours) for m, t, _ in rows if t[1]), key=lambda x: x[1])
    line(f"H200: kodim05 to 40 dB, fastest rival ({method}), over the default", "≥ 100×", ratio,
         "{:.0f}×", ratio >= 100)  # fmt: skip
    found = timed("cpu", "queries")["map_coordinates order 3, 1000000 points"]["ours_takes"]
    line("2 cores: 1 M points, over `map_coordinates` order 3", "≤ 4×", found, "{:.1f}×",
         found <= 4)  # fmt: skip
    found = timed("cuda", "queries")["default 512², 1000000 points"]["million_per_second"]
    line("H200: million points a second", "≥ 20", found, "{:.0f}", found >= 20)
    for kind in ("cold", "kept"):
        most, each = spread_of("cpu", kind)
        what = ", ".join(f"{e:.0f}" for e in each)
        line(f"2 cores: default, {kind}, ns a sample for 256² to 4096²: {what}; spread", "≤ 1.5×",
             most, "{:.2f}×", most <= 1.5)  # fmt: skip
    most = max(r.get("memory_over_input_and_output", 0) for r in timed("cpu", "sizes").values())
    line("2 cores: memory at most, over input and output", "≤ 3×", most, "{:.2f}×", most <= 3)
    return table(["what", "aim", "measured", "reached"], lines)


def speed_of(device):
    """Everything a suite of times measured, and how."""
    path = HERE / "results" / f"speed-{device}.md"
    if not path.exists():
        raise NotRecorded(f"there is no {path.name}; run benchmarks/speed.py")
    return path.read_text(encoding="utf-8").split("\n", 2)[2].strip()


def memory():
    rows = rows_of("core", "memory")
    keys = ("input", "field", "fit_peak", "output", "samples_peak")
    lines = [[r["work"], *(mib(r[k]) for k in keys)] for r in rows]
    heads = ["MiB", "input", "the field", "peak of fit", "output", "peak of samples()"]
    return table(heads, lines)


# --- defaults -------------------------------------------------------------------------------------


def chosen():
    """Cell and overlap by dimension; orders with the same ones share a column."""
    *rows, usual = rows_of("defaults", "chosen")
    orders = list(dict.fromkeys(r["order"] for r in rows))
    lines = []
    for d in dict.fromkeys(r["d"] for r in rows):
        own = {
            r["order"]: f"{r['cell']}, {r['overlap']:g} + {r['context']}"
            for r in rows
            if r["d"] == d
        }
        lines.append([f"{d}-D", *(own[s] for s in orders)])
    heads = [f"s = {s:g}" + (" (default)" if s == usual["order"] else "") for s in orders]
    return table(["cell, overlap + context", *heads], lines)


def orders():
    rows = rows_of("defaults", "orders")
    names = list(rows[0]["orders"])
    lines = []
    for r in rows:
        rivals = [f"{r[k]:.2f}" for k in ("linear", "cubic", "quintic")]
        ours = bold_best(list(r["orders"].values()))
        lines.append([f"{r['d']}-D {r['data']}", *rivals, *ours])
    return table(["data", "linear", "cubic", "quintic", *(f"s = {s}" for s in names)], lines)


def cells(d):
    rows = [r for r in rows_of("defaults", "cells") if r["d"] == d]
    sizes = sorted({r["cell"] for r in rows})
    margins = list(dict.fromkeys((r["overlap"], r["context"]) for r in rows))
    names = list(dict.fromkeys(r["data"] for r in rows))
    lines = []
    for name in names:
        own = {(r["cell"], r["overlap"], r["context"]): r for r in rows if r["data"] == name}
        order = next(iter(own.values()))["order"]
        best = f"{max(r['heldout'] for r in own.values()):.2f}"
        for o, x in margins:
            texts = []
            for c in sizes:
                text = f"{own[c, o, x]['heldout']:.2f}" if (c, o, x) in own else "–"
                texts.append(f"**{text}**" if text == best else text)
            lines.append([f"{name} (s = {order:g})", f"{o:g} + {x}", *texts])
    for o, x in margins:
        own = {
            r["cell"]: r["per_sample"]
            for r in rows
            if (r["data"], r["overlap"], r["context"]) == (names[0], o, x)
        }
        texts = [f"{own[c]:.2f}" if c in own else "–" for c in sizes]
        lines.append(["*coefficients per sample*", f"{o:g} + {x}", *texts])
    return table(["data", "overlap + context", *(f"cell {c}" for c in sizes)], lines)


def lattice():
    rows = rows_of("defaults", "lattice")
    heads, lines = None, []
    for d, name in dict.fromkeys((r["d"], r["data"]) for r in rows):
        own = [r for r in rows if (r["d"], r["data"]) == (d, name)]
        heads = [f"period {r['period']:g}" for r in own if "period" in r]
        heads += [f"band {r['band']:g}" for r in own if "band" in r]
        values = [r["heldout"] for r in own]
        lines.append([f"{d}-D {name} (s = {own[0]['order']:g})", *(f"{v:.2f}" for v in values)])
    return table(["data", *heads], lines)


def borders():
    rows, kinds = rows_of("defaults", "borders"), ("inside", "mirrored")
    others = ("cubic spline", "nearest sample")
    lines = []
    for name in dict.fromkeys(r["data"] for r in rows):
        own = [r for r in rows if r["data"] == name]
        each = [f"{r['inside']:.1f} / {r['mirrored']:.1f}" for r in own]
        lines.append([name, *each, *(f"{own[0][k]:.1f}" for k in others)])
    heads = [
        f"s = {r['order']:g}, {' / '.join(kinds)}" for r in rows if r["data"] == rows[0]["data"]
    ]
    return table(["data", *heads, *others], lines)


def together():
    rows = rows_of("defaults", "together")
    keys = ("cell", "overlap", "context", "period")
    kinds = list(dict.fromkeys(tuple(r[k] for k in keys) for r in rows))
    lines = []
    for name, order in dict.fromkeys((r["data"], r["order"]) for r in rows):
        own = {
            tuple(r[k] for k in keys): r["heldout"]
            for r in rows
            if (r["data"], r["order"]) == (name, order)
        }
        lines.append([f"{name} (s = {order:g})", *bold_best([own[k] for k in kinds])])
    heads = (f"{c}, {o:g} + {x}, {p:g}" for c, o, x, p in kinds)
    return table(["cell, overlap + context, period", *heads], lines)


def epsilon():
    rows = rows_of("defaults", "epsilon")
    values = list(dict.fromkeys(r["epsilon"] for r in rows))
    lines = []
    for d, name in dict.fromkeys((r["d"], r["data"]) for r in rows):
        own = {r["epsilon"]: r for r in rows if (r["d"], r["data"]) == (d, name)}
        texts = [f"{own[e]['heldout']:.2f} / {own[e]['at_samples']:.0f}" for e in values]
        lines.append([f"{d}-D {name} (s = {own[values[0]]['order']:g})", *texts])
    heads = ["the rule" if e is None else f"ε = {e:g}" for e in values]
    return table(["held out / at the samples", *heads], lines)


def price():
    lines = []
    for r in rows_of("defaults", "price"):
        radial, product = best_of(r["radial"]), best_of(r["product"])
        scores = bold_best([radial[1], product[1]])
        where = f"{r['cell']}, {r['overlap']:g}"
        lines.append(
            [f"{r['d']}-D {r['data']}", where, scores[0], radial[0], scores[1], product[0]]
        )
    heads = ["data", "cell, overlap", "radial price", "its order", "product price", "its order"]
    return table(heads, lines)


def dense():
    rows = rows_of("defaults", "dense")
    lines = []
    for r in rows:
        own = f"{r['at_samples']:.0f}" if "at_samples" in r else "–"
        lines.append([r["layer"], *(f"{v:.2f}" for v in r["heldout"].values()), own])
    return table(["hidden layer", *rows[0]["heldout"], "at the samples"], lines)


def precision():
    lines = []
    for r in rows_of("defaults", "precision"):
        if r["what"] == "product":
            lines.append(
                [
                    f"{r['order']:g}",
                    f"{r['epsilon']:.2g}",
                    f"{r['spread']:.1e}",
                    f"{r['kept']} of {r['of']}",
                ]
                + [
                    f"{r[t]['heldout']:.2f} / {r[t]['at_samples']:.0f}"
                    for t in ("float64", "float32")
                ]
            )
    heads = ["order", "ε", "largest γ / smallest", "modes kept"]
    return table([*heads, "float64: held out / at samples", "float32"], lines)


def storage():
    rows = [r for r in rows_of("defaults", "precision") if r["what"] == "dense"]
    lines = [[name, *(f"{r['psnr'][name]:.1f}" for r in rows)] for name in rows[0]["psnr"]]
    lines.append(["*cond(H)*", *(f"{r['condition']:.1e}" for r in rows)])
    return table(["true PSNR, dB", *(f"seed {r['seed']}" for r in rows)], lines)


# --- targets --------------------------------------------------------------------------------------


def targets_budget():
    heads = ["picture, coefficients", "paper, regular", "paper, BEAM (printed)"]
    heads += [f"{who}, cells of {n}" for n in (8, 16, 32) for who in ("ours", "block DCT")]
    lines = []
    for r in rows_of("targets", "budget"):
        own = [f"{r[f'{who}_{n}']:.1f}" for n in (8, 16, 32) for who in ("ours", "dct")]
        name = f"{r['data']}, {r['regions']} × {r['width']}"
        lines.append([name, f"{r['paper_regular']:.1f}", f"{r['paper_beam']:.1f}", *own])
    return table(heads, lines)


def targets_quality():
    heads = ["PSNR asked for", "arrays", "exceeded by, least", "most"]
    heads += ["coefficients per sample: photographs", "temperature"]
    lines = [
        [
            r["psnr"],
            r["arrays"],
            f"{r['lowest']:.3f}",
            f"{r['highest']:.3f}",
            f"{r['per_sample_photos']:.3f}",
            f"{r['per_sample_weather']:.3f}",
        ]
        for r in rows_of("targets", "quality")
    ]
    return table(heads, lines)


def targets_bound():
    heads = ["allowed, of the range", "dtype", "arrays", "largest", "median", "per sample"]
    lines = [
        [
            f"{r['part']:g}",
            r["dtype"],
            r["arrays"],
            f"{r['largest']:.5f}",
            f"{r['median']:.5f}",
            f"{r['per_sample']:.3f}",
        ]
        for r in rows_of("targets", "bound")
    ]
    return table(heads, lines)


def targets_denoise():
    rows = rows_of("targets", "denoise")
    names = [k for k in rows[0] if k not in ("level", "pictures")]
    return table(["noise", *names], [[r["level"], *(f"{r[k]:.2f}" for k in names)] for r in rows])


def targets_gaps():
    rows = rows_of("targets", "gaps")
    names = ["ours, order 1.1", "ours, auto", "griddata linear", "griddata cubic", "thin plate"]
    lines = []
    for kind in dict.fromkeys(r["missing"] for r in rows):
        own = [r for r in rows if r["missing"] == kind]
        for r in own:
            lines.append([f"{r['data']}, {kind}", *bold_best([r[n] for n in names])])
        means = bold_best([mean(r[n] for r in own) for n in names])
        lines.append([f"*mean, {kind}*", *means])
        lines.append(
            [f"*seconds, {kind}*", *(f"{mean(r[n + ': s'] for r in own):.2f}" for n in names)]
        )
    return table(["data, missing", *names], lines)


def targets_automatic():
    rows = rows_of("targets", "automatic")
    photos = [r for r in rows if r["data"].startswith("kodim")]
    names = ("linear", "cubic", "quintic")

    def line(name, own):
        fixed = {s: mean(r["orders"][s] for r in own) for s in own[0]["orders"]}
        each = mean(max(r["orders"].values()) for r in own)
        scores = [mean(r[k] for r in own) for k in names] + [mean(r["auto"] for r in own)]
        chosen = own[0]["order"] if len(own) == 1 else []
        text = ", ".join(f"{s:g}" for s in chosen) or "by picture"
        s, best = best_of(fixed)
        cost = f"{mean(r['cost_in_fits'] for r in own):.1f}"
        last = [f"{best:.2f} (s = {s})", f"{each:.2f}", cost]
        return [name, *(f"{x:.2f}" for x in scores), text, *last]

    lines = [line(f"photographs ({len(photos)})", photos)]
    lines += [line(r["data"], [r]) for r in rows if r not in photos]
    heads = ["data", *names, "auto", "orders chosen", "best single order", "best order for each"]
    return table([*heads, "cost, in fits"], lines)


def circumstances(file):
    """One line on how the numbers of a file were made."""
    if not (HERE / "results" / f"{file}.json").exists():
        raise NotRecorded(f"there is no {file}.json; run the script that makes it")
    found = [s["about"] for s in load(file).values()]
    made = ", ".join(f"{k} {x}" for k, x in found[0]["versions"].items())
    where = f"{found[0]['device']}, {found[0]['threads']} threads"
    return f"Made with {made}; seed 0 unless said; {where}."


TABLES = {
    "summary": summary,
    "paper": paper,
    "seeds": seeds,
    "navier_stokes": navier_stokes,
    "scales": scales,
    "heldout": heldout,
    "fields": fields,
    "memory": memory,
    "core_about": lambda: circumstances("core"),
    "chosen": chosen,
    "orders": orders,
    "cells_1": lambda: cells(1),
    "cells_2": lambda: cells(2),
    "cells_3": lambda: cells(3),
    "lattice": lattice,
    "together": together,
    "borders": borders,
    "epsilon": epsilon,
    "price": price,
    "dense": dense,
    "precision": precision,
    "storage": storage,
    "defaults_about": lambda: circumstances("defaults"),
    "targets_budget": targets_budget,
    "targets_quality": targets_quality,
    "targets_bound": targets_bound,
    "targets_denoise": targets_denoise,
    "targets_gaps": targets_gaps,
    "targets_automatic": targets_automatic,
    "targets_about": lambda: circumstances("targets"),
    "speed_aims": speed_aims,
    "speed_to_quality": speed_to_quality,
    "speed_cpu": lambda: speed_of("cpu"),
    "speed_cuda": lambda: speed_of("cuda"),
}


def fill(text):
    """A document with its tables renewed; those without a record are left alone."""

    def renewed(place):
        try:
            made = TABLES[place[1]]()
        except NotRecorded as reason:
            print(f"left as it is: {place[1]} ({reason})")
            return place[0]
        return f"<!-- results:{place[1]} -->\n{made}\n<!-- end -->"

    return PLACE.sub(renewed, text)


def gathered(names, about):
    """All tables of one results file, for whoever opens the folder."""
    parts = [f"## {n.replace('_', ' ')}\n\n{TABLES[n]()}\n" for n in names]
    return f"{TABLES[about]()}\n\n" + "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail on a difference")
    check = parser.parse_args().check
    wanted = {d: fill(d.read_text(encoding="utf-8")) for d in DOCUMENTS}
    names: list[str] = []
    for name in TABLES:  # each file's tables stand before the line about how it was made
        if name.endswith("_about"):
            path = HERE / "results" / f"{name.removesuffix('_about')}.md"
            with contextlib.suppress(NotRecorded):
                wanted[path] = gathered(names, name)
            names = []
        else:
            names.append(name)
    stale = [p for p, t in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != t]
    for path in stale:
        print(("differs: " if check else "written: ") + str(path.relative_to(ROOT)))
        if not check:
            path.write_text(wanted[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
