"""Tables of ``results/pictures.json``."""

from statistics import mean

from common import rows_of
from measurement.tables import table

LABELS = {
    "default, points": "default, `points`",
    "default, means": "default, `means`",
    "oriented, points": "`oriented()`, `points`",
    "oriented, means": "`oriented()`, `means`",
}


def pictures_enlarged():
    rows = rows_of("pictures", "enlarged")
    ways = ("bicubic", "scikit-image cubic", "Lanczos", *LABELS)
    heads = ["averaged, then enlarged, dB", *(LABELS.get(w, w) for w in ways), "least gain"]
    lines = []
    for whose in ("Kodak", "scikit-image"):
        for r in (2, 3):
            own = [row for row in rows if row["of"] == whose and row["scale"] == r]
            gain = min(row["oriented, means"] - row["Lanczos"] for row in own)
            means = [f"{mean(row[w] for row in own):.2f}" for w in ways]
            lines.append([f"{len(own)} of {whose}, × {r}", *means, f"{gain:+.2f}"])
    return table(heads, lines)


def pictures_shifted():
    rows = rows_of("pictures", "shifted")
    heads = ["half a pixel beside, dB", "best spline", *LABELS.values(), "below the spline"]
    lines = []
    for whose in ("Kodak", "scikit-image"):
        own = [row for row in rows if row["of"] == whose]
        best = [max(row[k] for k in ("linear", "cubic", "quintic")) for row in own]
        below = sum(row["oriented, means"] < b for row, b in zip(own, best))
        means = [f"{mean(row[w] for row in own):.2f}" for w in LABELS]
        name = f"{len(own)} of {whose}"
        lines.append([name, f"{mean(best):.2f}", *means, f"{below} of {len(own)}"])
    return table(heads, lines)


def pictures_local():
    rows = rows_of("pictures", "local")
    ways = [key for key in rows[0] if key not in ("of", "data", "protocol")]
    lines = []
    for protocol in ("area", "points"):
        own = [row for row in rows if row["protocol"] == protocol]
        lines.append([f"{len(own)}, {protocol}", *(f"{mean(r[w] for r in own):.2f}" for w in ways)])
    return table(["pictures, protocol, dB", *ways], lines)


def pictures_flat():
    rows = [r for r in rows_of("pictures", "flat") if r["missing"] in (0.3, 0.7)]
    ways = ("as it is", "half a grey of noise", "griddata linear", "griddata cubic", "biharmonic")
    heads = ["rms of what was filled", "missing", *ways]
    lines = [[r["data"], f"{100 * r['missing']:.0f} %", *(f"{r[w]:.2f}" for w in ways)]
             for r in rows]  # fmt: skip
    return table(heads, lines)


def pictures_colour():
    rows = rows_of("pictures", "colour")
    ways = ("total variation", "non-local means", "channel by channel", "ours")
    heads = ["noise in colours", "pictures, mean dB", *ways, "least gain"]
    lines = []
    for level in dict.fromkeys(r["level"] for r in rows):
        own = [r for r in rows if r["level"] == level]
        gain = min(r["ours"] - max(r["total variation"], r["non-local means"]) for r in own)
        means = [f"{mean(r[w] for r in own):.2f}" for w in ways]
        lines.append([level, len(own), *means, f"{gain:+.2f}"])
    return table(heads, lines)


def pictures_cbm3d():
    rows = [r for r in rows_of("pictures", "colour") if "CBM3D" in r]
    names = list(dict.fromkeys(r["data"] for r in rows))
    lines = []
    for level in dict.fromkeys(r["level"] for r in rows):
        own = {r["data"]: r for r in rows if r["level"] == level}
        shown = (f"{own[n]['CBM3D']:.2f}, {own[n]['ours']:.2f}" for n in names)
        lines.append([level, *shown])
    return table(["colours: CBM3D, ours", *names], lines)


def pictures_level():
    rows, lines = rows_of("pictures", "level"), []
    levels = ("1", "2", "5", "10", "25", "50")
    for grain, label in (("own", "pictures as they are"), ("none", "after a Gaussian of 1 pixel")):
        own = [r for r in rows if r["grain"] == grain]
        found = ([r[s] / float(s) for r in own] for s in levels)
        lines.append([label, *(f"{min(f):.2f} to {max(f):.2f}" for f in found)])
    return table(["level found / added", *levels], lines)


def pictures_box_lines():
    rows = rows_of("pictures", "box_lines")
    keys = ("uncoded", "coded", "smoothed")
    lines = [[k, f"{mean(r[k] for r in rows):.3f}", f"{max(r[k] for r in rows):.3f}"] for k in keys]
    return table(["lines where boxes meet, 40 dB", "mean", "highest"], lines)


def pictures_bands():
    rows = rows_of("pictures", "bands")
    keys = ("noisy", "band by band", "together")
    heads = ["unequal noise, dB of each band", *keys]
    return table(heads, [[r["data"], *(f"{r[k]:.2f}" for k in keys)] for r in rows])


def pictures_counts():
    rows = rows_of("pictures", "counts")
    ways = ("Anscombe, non-local means", "poisson")
    heads = ["counts, mean dB", "pictures", *ways, "least gain"]
    lines = []
    for peak in dict.fromkeys(r["peak"] for r in rows):
        own = [r for r in rows if r["peak"] == peak]
        gain = min(r[ways[1]] - r[ways[0]] for r in own)
        means = [f"{mean(r[w] for r in own):.2f}" for w in ways]
        lines.append([f"peak {peak}", len(own), *means, f"{gain:+.2f}"])
    return table(heads, lines)


TABLES = {
    f.__name__: f
    for f in (
        pictures_enlarged,
        pictures_shifted,
        pictures_local,
        pictures_flat,
        pictures_colour,
        pictures_cbm3d,
        pictures_level,
        pictures_box_lines,
        pictures_bands,
        pictures_counts,
    )
}
