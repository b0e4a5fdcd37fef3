"""Tables of ``results/oriented.json``."""

from statistics import mean

from common import rows_of
from measurement.rivals import SPLINES
from measurement.tables import table


def oriented_heldout():
    rows = rows_of("oriented", "heldout")
    heads = ["held out, dB", "best spline", "default", "oriented", "gain over the spline", "order"]
    photos = [r for r in rows if r["data"].startswith("kodim")]
    lines = [_heldout_line(r) for r in rows if r not in photos or r["data"][5:7] in ("05", "23")]
    gains = [r["oriented"] - _best(r) for r in photos]
    name = f"{len(photos)} photographs, mean"
    line = [mean(_best(r) for r in photos), mean(r["default"] for r in photos)]
    line += [mean(r["oriented"] for r in photos), mean(gains)]
    above = f"above on {sum(g > 0 for g in gains)}"
    numbers = [f"{v:.2f}" for v in line[:3]] + [f"{line[3]:+.2f}", above]
    return table(heads, [[name, *numbers], *lines])


def _best(r):
    return max(r[label] for label in SPLINES)


def _heldout_line(r):
    order = r["settings"].partition("order=")[2].partition(",")[0].strip("()")
    kind = order if r["settings"].startswith("Oriented") else "large boxes"
    numbers = [f"{v:.2f}" for v in (_best(r), r["default"], r["oriented"])]
    return [r["data"], *numbers, f"{r['oriented'] - _best(r):+.2f}", kind]


def oriented_gaps():
    rows = rows_of("oriented", "gaps")
    heads = [
        "missing samples, dB",
        *(f"{k}, {w}" for k in _kinds(rows) for w in ("isotropic", "chosen")),
    ]
    lines = []
    for name in dict.fromkeys(r["data"] for r in rows):
        own = {r["gaps"]: r for r in rows if r["data"] == name}
        pairs = ((own[k]["isotropic"], own[k]["oriented"]) for k in _kinds(rows))
        lines.append([name, *(f"{v:.2f}" for pair in pairs for v in pair)])
    return table(heads, lines)


def _kinds(rows):
    return list(dict.fromkeys(r["gaps"] for r in rows))


def oriented_noise():
    rows = rows_of("oriented", "noise")
    heads = ["noise", "pictures", "level known, mean dB", "estimated", "seconds of one core"]
    lines = []
    for level in dict.fromkeys(r["level"] for r in rows):
        own = [r for r in rows if r["level"] == level]
        means = [mean(r[k] for r in own) for k in ("known", "estimated", "known_seconds")]
        lines.append([level, len(own), *(f"{v:.2f}" for v in means[:2]), f"{means[2]:.1f}"])
    return table(heads, lines)


def oriented_bm3d():
    rows = rows_of("oriented", "bm3d")
    keys = ("bm3d", "oriented", "bm3d_seconds", "oriented_seconds")
    lines = [
        [
            r["data"],
            r["level"],
            *(f"{r[k]:.2f}" for k in keys[:2]),
            *(f"{r[k]:.1f}" for k in keys[2:]),
        ]
        for r in rows
    ]
    heads = ["photograph", "noise", "BM3D, dB", "oriented, dB"]
    return table([*heads, "BM3D, s of one core", "oriented, s of one core"], lines)


def oriented_cost():
    rows = rows_of("oriented", "cost")
    heads = [k for k in rows[0] if k != "dtype"]
    heads.insert(1, "dtype")
    lines = [[f"{r[k]:.2f}" if isinstance(r[k], float) else r[k] for k in heads] for r in rows]
    return table([*heads[:2], *(f"{h}, s" for h in heads[2:])], lines)


TABLES = {
    f.__name__: f
    for f in (oriented_heldout, oriented_gaps, oriented_noise, oriented_bm3d, oriented_cost)
}
