"""Tables of ``results/points-*.json``."""

from common import RESULTS
from measurement.records import NotRecorded, read
from measurement.tables import table


def points(device):
    """All rows of a device, section by section, and how they were made."""
    found = read(RESULTS / f"points-{device}.json")
    if not found:
        raise NotRecorded(f"there is no points-{device}.json; run benchmarks/points.py")
    about = next(iter(found.values()))["about"]
    made = ", ".join(f"{k} {x}" for k, x in about["versions"].items())
    note = f" {about['note'].capitalize()}." if "note" in about else ""
    lines = []
    for part in found.values():
        for row in part["rows"]:
            more = {k: v for k, v in row.items() if k not in ("what", "seconds")}
            told = ", ".join(f"{k.replace('_', ' ')} {v:.3g}" for k, v in more.items())
            lines.append([row["what"], f"{row['seconds']:.5f}", told])
    head = f"`python benchmarks/points.py --device {device}` on {about['device']}; {made}.{note}"
    return f"{head}\n\n{table(['what', 'seconds', ''], lines)}"


SHOWN = {
    "512×512: field, 1 points": "1 point",
    "512×512: field, 1000 points": "1000 points",
    "512×512: field, 1000000 points, first call": "a million points",
    "512×512: field, 1000000 points, table kept": "a million points of `tabulate(1e-9)`",
    "512×512: table, 1000000 points": "a million points of `tabulate(1e-5)`",
    "512×512: table's gradient, 1000000 points": "their gradients",
    "512×512: map_coordinates order 3": "a million points of `map_coordinates`, order 3",
}
"""Rows of the page on speed, and what it calls them."""


def points_short():
    """Points of a field of 512 × 512 samples on a processor."""
    rows = read(RESULTS / "points-cpu.json")
    found = {r["what"]: r for part in rows.values() for r in part["rows"]}
    if missing := set(SHOWN) - set(found):
        raise NotRecorded(f"points-cpu.json lacks {sorted(missing)}; run benchmarks/points.py")
    lines = [[name, f"{1e3 * found[what]['seconds']:.3g}"] for what, name in SHOWN.items()]
    return table(["512 × 512 samples, two cores", "ms"], lines)


def scattered():
    """Fits of scattered samples beside SciPy's, on a processor."""
    rows = [
        r
        for part in read(RESULTS / "points-cpu.json").values()
        for r in part["rows"]
        if "rms_error" in r and not r["what"].startswith("Franke")
    ]
    if not rows:
        raise NotRecorded("points-cpu.json has no scattered samples; run benchmarks/points.py")
    lines = [[*r["what"].split(": "), f"{r['seconds']:.2f}", f"{r['rms_error']:.2g}"] for r in rows]
    return table(["samples", "by", "seconds", "rms error"], lines)


TABLES = {"points_short": points_short, "points_scattered": scattered}
