"""Tables of ``results/targets.json``."""

from statistics import mean

from common import rows_of
from measurement.tables import best_of, bold_best, table


def budget():
    heads = ["picture, coefficients", "paper, regular", "paper, BEAM (printed)"]
    heads += [f"{who}, cells of {n}" for n in (8, 16, 32) for who in ("ours", "block DCT")]
    lines = []
    for r in rows_of("targets", "budget"):
        own = [f"{r[f'{who}_{n}']:.1f}" for n in (8, 16, 32) for who in ("ours", "dct")]
        name = f"{r['data']}, {r['regions']} × {r['width']}"
        lines.append([name, f"{r['paper_regular']:.1f}", f"{r['paper_beam']:.1f}", *own])
    return table(heads, lines)


def quality():
    heads = ["PSNR asked for", "arrays", "exceeded by, least", "most"]
    heads += ["bits per sample: photographs", "temperature"]
    lines = [
        [
            r["psnr"],
            r["arrays"],
            f"{r['lowest']:.3f}",
            f"{r['highest']:.3f}",
            f"{r['bits_photos']:.3f}",
            f"{r['bits_weather']:.3f}",
        ]
        for r in rows_of("targets", "quality")
    ]
    return table(heads, lines)


def bound():
    heads = ["allowed, of the range", "dtype", "arrays", "largest", "median", "bits per sample"]
    lines = [
        [
            f"{r['part']:g}",
            r["dtype"],
            r["arrays"],
            f"{r['largest']:.5f}",
            f"{r['median']:.5f}",
            f"{r['bits']:.3f}",
        ]
        for r in rows_of("targets", "bound")
    ]
    return table(heads, lines)


def denoise():
    rows = rows_of("targets", "denoise")
    names = [k for k in rows[0] if k not in ("level", "pictures", "above")]
    return table(["noise", *names], [[r["level"], *(f"{r[k]:.2f}" for k in names)] for r in rows])


def denoise_counts():
    rows = rows_of("targets", "denoise")
    names = list(rows[0]["above"])
    lines = [[r["level"], *(f"{r['above'][k]} of {r['pictures']}" for k in names)] for r in rows]
    return table(["noise", *names], lines)


def gaps():
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


def gaps_short():
    """The rows of `gaps` that are means over the data, and the seconds they took."""
    head, rule, *rows = gaps().splitlines()
    return "\n".join([head, rule, *(r for r in rows if r.startswith("| *"))])


def automatic():
    rows = rows_of("targets", "automatic")
    photos = [r for r in rows if r["data"].startswith("kodim")]

    def line(name, own):
        fixed = {s: mean(r["orders"][s] for r in own) for s in own[0]["orders"]}
        score = f"{mean(r['auto'] for r in own):.2f}"
        chosen = own[0]["order"] if len(own) == 1 else []
        text = ", ".join(f"{s:g}" for s in chosen) or "by picture"
        s, best = best_of(fixed)
        cost = f"{mean(r['cost_in_fits'] for r in own):.1f}"
        last = [f"{best:.2f} (s = {s})", cost]
        return [name, score, text, *last]

    lines = [line(f"photographs ({len(photos)})", photos)]
    lines += [line(r["data"], [r]) for r in rows if r not in photos]
    heads = ["data", "auto", "orders chosen", "best single order", "cost, in fits"]
    return table(heads, lines)


TABLES = {
    f"targets_{f.__name__}": f
    for f in (budget, quality, bound, denoise, denoise_counts, gaps, automatic)
}
EXCERPTS = {"targets_gaps_short": gaps_short}
"""Parts of the others, which only documents show."""
