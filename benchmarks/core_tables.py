"""Tables of ``results/core.json``."""

from statistics import mean

from common import rows_of
from measurement.tables import best_of, bold_best, mib, table
from sizes_tables import kilobytes
from speed_tables import lstsq_ratio

GLANCE = ("ERA5 t2m, winter 2023", "brain T2 slice", "brain T1 volume", "Navier-Stokes, volume")
"""The fields that README.md shows, one of each kind."""


def glance():
    """The small table of README.md: held-out scores, and one file beside others."""
    photographs = rows_of("core", "heldout")
    names = ("linear", "cubic", "default", "oriented")
    title = f"photographs, mean of {len(photographs)}"
    lines = [[title, *bold_best([mean(r[k] for r in photographs) for k in names])]]
    fields = {r["data"]: r for r in rows_of("core", "fields")}
    lines += [[name, *bold_best([fields[name][k] for k in names])] for name in GLANCE]
    heads = ["held-out PSNR, dB", "linear", "cubic", "`smooth()`, the default", "`oriented()`"]
    file = rows_of("sizes", "files")[0]
    shape = file["data"].split(", ", 1)
    text = (
        "\n\nBoth pass through the samples to rounding. Files: the photograph "
        f"{shape[0]} ({shape[1]}) takes {kilobytes(file['file'])} as {file['kind']}, "
        f"{kilobytes(file['exact'])} as a model without loss, {kilobytes(file['coded'])} as a "
        f"model at 40 dB, {kilobytes(file['jpeg'])} as JPEG at 40 dB."
    )
    return table(heads, lines) + text


def summary():
    lines = []
    photographs = rows_of("core", "heldout")
    names = ("linear", "cubic", "quintic", "default", "oriented")
    scores = [mean(r[k] for r in photographs) for k in names]
    orders = {s: mean(r["orders"][s] for r in photographs) for s in photographs[0]["orders"]}
    s, best = best_of(orders)
    lowest = min(min(r["at_samples"], r["oriented_at"]) for r in photographs)
    lines.append(
        [
            f"photographs ({len(photographs)} of the Kodak suite)",
            *bold_best([*scores, best]),
            s,
            f"{lowest:.0f}",
        ]
    )
    for row in rows_of("core", "fields"):
        s, best = best_of(row["orders"])
        lowest = min(row["at_samples"][k] for k in ("default", "oriented"))
        scores = [row[k] for k in names] + [best]
        lines.append([row["data"], *bold_best(scores), s, f"{lowest:.0f}"])
    above = sum(r["default"] > r["cubic"] for r in photographs)
    beats = sum(r["oriented"] > max(r[k] for k in names[:3]) for r in photographs)
    per_sample = mean(r["coefficients_per_sample"] for r in photographs)
    paper = rows_of("core", "paper")
    collapse = [r["paper"] for r in photographs if "paper" in r]
    lowest = min(r["paper_psnr"] for r in paper)
    text = (
        f"\n\nThe default is above the cubic spline on {above} of {len(photographs)} photographs "
        f"and keeps {per_sample:.2f} coefficients per sample there; `oriented()` is above the best "
        f"spline of each on {beats}. The last column is the true PSNR at the fitted samples, the "
        "lower of the two.\n\n"
        f"The paper's preset has {mean(collapse):.1f} dB between the samples, on average over "
        f"{len(collapse)} of the photographs, and at the samples a paper's PSNR of at least "
        f"{lowest:.4f} dB on all {len({r['data'] for r in paper})} data sets tried. A cold fit of "
        f"it is {lstsq_ratio():.0f} times faster than the fastest region-by-region `lstsq`."
    )
    heads = ["held-out PSNR, dB", *names, "best fixed order", "order"]
    return table([*heads, "at the samples"], lines) + text


def paper_short():
    """The rows of `paper` for which the paper prints a number, in float64."""
    rows = [r for r in rows_of("core", "paper") if r["printed"] and r["dtype"] == "float64"]
    lines = [[r["data"], r["printed"], f"{r['paper_psnr']:.4f}", f"{r['psnr']:.0f}"] for r in rows]
    heads = [f"float64, m = {rows[0]['width']}", "printed", "paper's PSNR", "true PSNR"]
    return table(heads, lines)


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


def navier_stokes_short():
    """The rows of `navier_stokes` in float64."""
    rows = [r for r in rows_of("core", "navier_stokes") if r["dtype"] == "float64"]
    lines = [
        ["×".join(map(str, r["cell"])), r["reading"], r["rank"], f"{r['mae']:.2e}"] for r in rows
    ]
    return table(["piece", "reading", "rank", f"MAE (printed: {rows[0]['printed']:.2e})"], lines)


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
    names = ("linear", "cubic", "quintic", "default", "oriented")
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
        names = ("linear", "cubic", "quintic", "default", "oriented")
        scores = [r[k] for k in names] + [r["orders"][k] for k in shown]
        gain = r["oriented"] - max(r[k] for k in names[:3])
        lines.append([r["data"], *bold_best([*scores, best]), s, f"{gain:+.3f}"])
    heads = ["data", *names, *(f"s = {s}" for s in shown)]
    return table([*heads, "best s", "at s =", "oriented over the best spline"], lines)


def memory():
    rows = rows_of("core", "memory")
    keys = ("input", "field", "fit_peak", "output", "samples_peak")
    lines = [[r["work"], *(mib(r[k]) for k in keys)] for r in rows]
    heads = ["MiB", "input", "the field", "peak of fit", "output", "peak of samples()"]
    return table(heads, lines)


TABLES = {
    f.__name__: f for f in (summary, paper, seeds, navier_stokes, scales, heldout, fields, memory)
}
EXCERPTS = {f.__name__: f for f in (glance, paper_short, navier_stokes_short)}
"""Parts of the others, which only documents show."""
