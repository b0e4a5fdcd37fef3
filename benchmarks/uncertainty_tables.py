"""Tables of ``results/uncertainty.json``."""

import numpy as np

from common import rows_of
from measurement.tables import table

FAMILIES = {"kodim": "21 photographs", "era5": "weather", "t850": "weather"}


def process():
    keys = ("rmse", "inside_0.9", "crps", "nlpd", "seconds")
    lines = [
        [r["method"], *(f"{r[k]:.{4 if k in ('rmse', 'crps') else 3}f}" for k in keys)]
        for r in rows_of("uncertainty", "process")
    ]
    return table(["", "RMSE", "90 % hold", "CRPS", "NLPD", "processor seconds"], lines)


def large():
    (r,) = rows_of("uncertainty", "large")
    line = [f"{r[k]:.1f}" for k in ("fit_s", "values_s", "std_s", "peak_gb")]
    heads = ["116 351 points: fit, processor s", "20 000 values", "deviations", "GB"]
    return table(heads, [line])


def heldout():
    keys = ("power", "inside_0.5", "inside_0.9", "inside_0.99", "crps_ratio")
    lines = [
        [r["data"], r["settings"], *(f"{r[k]:.3f}" for k in keys)]
        for r in rows_of("uncertainty", "heldout")
    ]
    return table(["", "settings", "power", "50 %", "90 %", "99 %", "CRPS"], lines)


def _family(name):
    return next((f for key, f in FAMILIES.items() if name.startswith(key)), name)


def heldout_short():
    rows, lines = rows_of("uncertainty", "heldout"), []
    for settings in ("smooth()", "oriented()"):
        own = [r for r in rows if r["settings"] == settings]
        for family in dict.fromkeys(_family(r["data"]) for r in own):
            some = [r for r in own if _family(r["data"]) == family]
            held = [r["inside_0.9"] for r in some]
            spread = f"{min(held):.2f} to {max(held):.2f}" if len(held) > 1 else ""
            means = (np.mean([r[k] for r in some]) for k in ("inside_0.9", "crps_ratio"))
            held_mean, crps = means
            lines.append([family, f"`{settings}`", f"{held_mean:.3f}", spread, f"{crps:.3f}"])
    return table(["", "settings", "90 % hold, mean", "each", "CRPS"], lines)


def _by_level(section, key, name):
    """Rows of one section by how much is missing, or how noisy it is."""
    lines, rows = [], rows_of("uncertainty", section)
    for level, known in sorted({(r[key], r.get("level")) for r in rows}):
        some = [r for r in rows if (r[key], r.get("level")) == (level, known)]
        held = [r["inside_0.9"] for r in some]
        told = f"{100 * level:.0f} % {name}" if known is None else f"{name} {level}, {known}"
        spread = f"{min(held):.2f} to {max(held):.2f}"
        crps = np.mean([r["crps_ratio"] for r in some])
        lines.append([told, len(some), f"{np.mean(held):.3f}", spread, f"{crps:.3f}"])
    return table(["", "arrays", "90 % hold, mean", "each", "CRPS"], lines)


def gaps():
    return _by_level("gaps", "missing", "missing")


def noise():
    return _by_level("noise", "noise", "noise")


def noisy_gaps():
    rows, lines = rows_of("uncertainty", "noisy_gaps"), []
    for missing, which in sorted({(r["missing"], r["level"]) for r in rows}):
        some = [r for r in rows if (r["missing"], r["level"]) == (missing, which)]
        held = [r["inside_0.9"] for r in some]
        told = f"{100 * missing:.0f} % missing in noise 10: {which} samples"
        crps = np.mean([r["crps_ratio"] for r in some])
        spread = f"{min(held):.2f} to {max(held):.2f}"
        lines.append([told, len(some), f"{np.mean(held):.3f}", spread, f"{crps:.3f}"])
    return table(["", "arrays", "90 % hold, mean", "each", "CRPS"], lines)


def exact():
    lines = [
        [r["field"], f"{100 * r['largest_off']:.1f} %", f"{r['draws_z']:.2f}",
         f"{r['draws_inside_0.9']:.3f}"]
        for r in rows_of("uncertainty", "exact")
    ]  # fmt: skip
    heads = ["", "means and integrals off by, at most", "draws less `std`, in sampling errors"]
    return table([*heads, "90 % hold"], lines)


def white():
    lines = [
        [r["samples"], f"{r['std']:.4f}", f"{r['times_root_n']:.3f}"]
        for r in rows_of("uncertainty", "white")
    ]
    return table(["samples n in the box", "deviation of its mean", "times √n"], lines)


def points():
    lines = [
        [r["settings"], r["points"], f"{r['before_s']:.6f}", f"{r['seconds']:.6f}"]
        for r in rows_of("uncertainty", "points")
    ]
    return table(["", "points", "without `std`, processor s", "now"], lines)


def cost():
    lines = [
        [r["quantity"], f"{r['first_s']:.3f}", f"{r['seconds']:.3f}"]
        for r in rows_of("uncertainty", "cost")
    ]
    return table(["512² to 1024²", "first call, processor s", "after that"], lines)


EVERY = (
    process, exact, white, large, heldout, heldout_short, gaps, noise, noisy_gaps, cost, points,
)  # fmt: skip

TABLES = {f"uncertainty_{f.__name__}": f for f in EVERY}
