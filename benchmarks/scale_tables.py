"""Tables of ``results/scale.json``."""

from common import rows_of
from measurement.tables import table


def parts():
    """Time per sample beside a fit in memory, and the most memory."""
    rows = rows_of("scale", "parts")
    unit = {r["settings"]: r["seconds"] / r["side"] ** 2 for r in rows if not r["parts"]}
    heads = ["settings", "float32 samples", "", "time a sample, in memory = 1", "memory, MB"]
    lines = [
        [
            f"`{r['settings'].removeprefix('ef.')}`",
            f"{r['side']}² ({4 * r['side'] ** 2 / 1e6:.0f} MB)",
            "in parts" if r["parts"] else "in memory",
            f"{r['seconds'] / r['side'] ** 2 / unit[r['settings']]:.2f}",
            f"{r['memory'] / 1e6:.0f}",
        ]
        for r in rows
    ]
    return table(heads, lines, "lllrr")


def long():
    """The most memory on long axes."""
    heads = ["shape", "fit, MB", "and samples()", "and resize()"]
    lines = [
        [
            f"{r['shape']}, {r.get('dtype', 'float64')}",
            *(f"{r[k] / 1e6:.0f}" for k in ("fit", "samples", "memory")),
        ]
        for r in rows_of("scale", "long")
    ]
    return table(heads, lines, "lrrr")


def workers():
    """Time with one and two workers."""
    rows = rows_of("scale", "workers")
    heads = ["workers", "float32 samples", "samples a second", "one worker = 1"]
    lines = [
        [
            r["workers"],
            f"{r['side']}²",
            f"{r['side'] ** 2 / r['seconds']:,.0f}",
            f"{rows[0]['seconds'] / r['seconds']:.2f}",
        ]
        for r in rows
    ]
    return table(heads, lines, "rlrr")


def device():
    """Frames through a GPU, copies beside the work."""
    ways = {
        "copied": "copies alone, there and back",
        "worked": "fitted and shown at half the size, on the device",
        "in_turn": "one after the other",
        "overlapped": "the next frame on its way, the last on its way back",
    }
    heads = ["frames of", "", "ms a frame", "samples a second"]
    lines = [
        [f"{r['side']}²", text, f"{1e3 * r[k]:.2f}", f"{r['side'] ** 2 / r[k]:.2g}"]
        for r in rows_of("scale-cuda", "device")
        for k, text in ways.items()
    ]
    return table(heads, lines, "llrr")


def plans():
    """What large archives would take."""
    heads = ["archive", "samples", "raw", "asked", "bits a sample", "model", "core hours"]
    lines = []
    for r in rows_of("scale", "plans"):
        raw = r["samples"] * (4 if r["dtype"] == "float32" else 2)
        asked = "without loss" if r["max_error"] is None else f"largest error {r['max_error']} K"
        model, hours = r["samples"] * r["bits"] / 8, r["samples"] * r["seconds"] / 3600
        lines.append(
            [r["plan"], f"{r['samples']:.2g}", _size(raw), asked, f"{r['bits']:.2f}", _size(model)]
        )
        lines[-1].append(f"{hours:,.0f}")
    return table(heads, lines, "lrrlrrr")


def _size(n):
    return f"{n / 1e12:.1f} TB" if n > 1e12 else f"{n / 1e9:.1f} GB"


def huge():
    """The most memory of large arrays, and how far work on them came."""
    heads = ["float32 samples", "", "done", "processor, s", "memory, MB"]
    lines = []
    for r in rows_of("scale", "huge"):
        name = r["settings"].removeprefix("ef.")
        done = "all" if r["reached"] is None else "{}, {} of {}".format(*r["reached"])
        shape = " x ".join(map(str, r["shape"]))
        lines.append([shape, f"`{name}`", done, f"{r['seconds']:.0f}", r["memory"]])
    for r in rows_of("scale", "shell"):
        name, done = f"`elmfield {r['command']}`", r["reached"] or "all"
        lines.append([f"{r['side']}²", name, done, f"{r['seconds']:.0f}", r["memory"]])
    return table(heads, [[*line, f"{most / 1e6:.0f}"] for *line, most in lines], "lllrr")


def cut():
    """Work that was killed, and archives that grew."""
    (kills,), (grown,) = rows_of("scale", "kills"), rows_of("scale", "append")
    lines = [
        ["fits killed at a random moment, then gone on with", kills["moments"]],
        ["of these still at work at that moment", kills["killed"]],
        ["and of these, the same bytes in the end and nothing left over", kills["right"]],
        ["tiles of 1000 frames", grown["tiles"]],
        ["of these the same bytes after ten frames more", grown["same"]],
        ["largest difference from one fit of all, at samples", f"{grown['samples']:.1g}"],
        ["and between them, of values about 280", f"{grown['between']:.1g}"],
    ]
    return table(["", ""], lines, "lr")


TABLES = {
    "scale_parts": parts,
    "scale_huge": huge,
    "scale_cut": cut,
    "scale_long": long,
    "scale_workers": workers,
    "scale_plans": plans,
}
