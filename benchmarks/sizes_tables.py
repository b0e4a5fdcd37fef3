"""Tables of ``results/sizes.json``."""

from statistics import mean

from common import rows_of
from measurement.tables import table


def kilobytes(n):
    """A number of bytes in kB or MB; a dash for none."""
    if n is None:
        return "–"
    return f"{n / 1e6:.2f} MB" if n >= 1e6 else f"{n / 1e3:.0f} kB"


def files():
    heads = ["data", "samples", "the file people have", "model, without loss", "model at 40 dB"]
    heads += ["JPEG at 40 dB"]
    lines = []
    for r in rows_of("sizes", "files"):
        own = [kilobytes(r[k]) for k in ("exact", "coded", "jpeg")]
        file = f"{kilobytes(r['file'])} ({r['kind']})"
        lines.append([r["data"], kilobytes(r["samples"]), file, *own])
    return table(heads, lines)


def lines():
    rows, found = rows_of("sizes", "lines"), []
    for key in ("itself", "40", "40, boxes elsewhere", "35", "35, boxes elsewhere"):
        own = [v for r in rows for v in r[key]]
        found.append([key, len(rows), f"{mean(own):.2f}", f"{max(own):.2f}"])
    return table(["PSNR asked for", "photographs", "mean", "highest"], found)


TABLES = {"sizes_files": files, "sizes_lines": lines}
