"""Tables of ``results/speed-*.json``, and of the trainings that ``paper/`` logged."""

from common import RESULTS, ROOT
from measurement.records import NotRecorded, read
from measurement.tables import table

SQUARES = (256, 512, 1024, 2048, 4096)


def timed(device, section):
    """Rows of one section of a suite of times, by what was timed."""
    path = RESULTS / f"speed-{device}.json"
    found = read(path).get("sections", {})
    if section not in found:
        raise NotRecorded(f"{path.name} has no section {section!r}; run benchmarks/speed.py")
    return {r["what"]: r for r in found[section]}


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


def to_quality(device, name="kodim05"):
    """Seconds of a cold default fit; and per trained method those to 30, 40 and 50 dB, its size."""
    path = ROOT / "paper" / "results" / device / "images.json"
    if not path.exists():
        raise NotRecorded(f"there is no {path.name} of {device}; run paper/images.py")
    units = read(path)["units"]
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


PAPER = "paper 512×512, cells 32, m = 1024"
SHOWN = {
    "sizes": (
        "default 512×512: cold",
        "default 512×512: kept",
        "default 4096×4096: cold",
        "default 128×128×128: cold",
    ),
    "paper": (
        f"{PAPER}, float64: cold",
        f"{PAPER}, float64: kept",
        f"{PAPER}: region by region, lstsq",
    ),
    "queries": (
        "default 512², resize 4x",
        "default 512², 1000000 points",
        "default 512², gradient at 1000000 points",
    ),
}
"""Rows of the page on speed, by section."""


def speed_short():
    """Times on two cores and on a GPU side by side, in ms."""
    lines = []
    for section, names in SHOWN.items():
        cpu, card = timed("cpu", section), timed("cuda", section)
        lines += [[n, *(f"{1e3 * rows[n]['seconds']:.3g}" for rows in (cpu, card))] for n in names]
    versions = (read(RESULTS / f"speed-{d}.json")["about"]["versions"] for d in ("cpu", "cuda"))
    made = "; ".join(", ".join(f"{k} {x}" for k, x in v.items()) for v in versions)
    return table(["ms", "two cores", "H200"], lines) + f"\n\nMade with {made}."


TABLES = {
    "speed_aims": speed_aims,
    "speed_short": speed_short,
    "speed_to_quality": speed_to_quality,
}
