"""Tables of ``results/codec.json``."""

from statistics import mean

from codec_rivals import PRINTED
from codec_rivals import printed as theirs
from common import rows_of
from measurement.records import NotRecorded
from measurement.samples import KODAK
from measurement.tables import table

OURS, PLAIN = "elmfield", "elmfield without numba"
TARGETS = (30, 35, 40, 45, 50)
MISSED = [None] * len(TARGETS)
CURVES = (
    ("Kodak, grey", "pictures", lambda row: True),
    ("Kodak, colour", "colour", lambda row: True),
    ("temperature", "fields", lambda row: True),
    ("Navier-Stokes volume", "volumes", lambda row: row["data"] == "ns"),
)
"""What is drawn: a title, a section, and which of its rows."""


def means(rows, label):
    """Mean bits per sample at each target; None where a codec misses one."""
    found = [[row.get(label, MISSED)[j] for row in rows] for j in range(len(TARGETS))]
    return [None if None in bits else mean(bits) for bits in found]


def _shown(bits):
    return "" if bits is None else f"{bits:.3f}" if bits >= 0.1 else f"{bits:.4f}"


def finished(section):
    """Rows of a section in which our codec is; raises where there is none."""
    rows = [row for row in rows_of("codec", section) if "elmfield" in row]
    if not rows:
        raise NotRecorded(f"codec.json has no {section} of ours yet; run benchmarks/codec.py")
    return rows


def _curves(section, what, groups):
    rows, lines = finished(section), []
    for name, keep in groups.items():
        some = [row for row in rows if keep(row)]
        for label in [k for k in some[0] if k != "data"] if some else []:
            lines.append([f"{name}, {len(some)}", label, *map(_shown, means(some, label))])
    return table([what, "codec", *(f"{t} dB" for t in TARGETS)], lines, "ll" + "r" * len(TARGETS))


def pictures():
    """Grey pictures."""
    return _curves("pictures", "Kodak, grey, bits per sample", {"pictures": lambda row: True})


def colour():
    """Pictures in colour, none of which was learned from in colour."""
    return _curves("colour", "Kodak, colour, bits per sample", {"pictures": lambda row: True})


def fields():
    """Weather."""
    return _curves("fields", "temperature, bits per sample", {"fields": lambda row: True})


def volumes():
    """Volumes."""
    groups = {
        "Navier-Stokes": lambda row: row["data"] == "ns",
        "brain": lambda row: row["data"] == "brain",
    }
    return _curves("volumes", "volumes, bits per sample", groups)


def bounds():
    """Hard bounds."""
    lines, names = [], ("SZ3", "SPERR bound", "ZFP")
    whole = {"elmfield", *names}  # rows that a run has not finished are left out
    rows = [row for row in rows_of("codec", "bounds") if row.keys() >= whole]
    groups = {
        "pictures": lambda row: row["data"] in KODAK,
        "temperature": lambda row: row["data"] not in KODAK and row["data"] != "ns",
        "Navier-Stokes": lambda row: row["data"] == "ns",
    }
    for name, keep in groups.items():
        for bound in sorted({row["bound"] for row in rows}, reverse=True):
            some = [row for row in rows if keep(row) and row["bound"] == bound]
            if some:
                bits = [mean(row["elmfield"]["bits"] for row in some)]
                bits += [mean(row[k] for row in some) for k in names]
                worst = max(row["elmfield"]["worst"] for row in some)
                shown = [*map(_shown, bits), f"{worst:.5f}"]
                lines.append([f"{name}, {len(some)}", f"{bound:g}", *shown])
    heads = ["data", "bound, of the range", "elmfield", "SZ3", "SPERR", "ZFP", "worst / bound"]
    return table(heads, lines, "lrrrrrr")


def printed():
    """Beside networks trained on each picture, as their authors print them."""
    lines = []
    for row in rows_of("codec", "printed"):
        found = row["elmfield"]
        others = [theirs(name, found["psnr"]) for name in PRINTED]
        shown = [f"{found['psnr']:.2f}", _shown(found["bits per pixel"]), *map(_shown, others)]
        lines.append(shown)
    return table(["Kodak, colour: mean PSNR", "elmfield, bits per pixel", *PRINTED], lines)


def speed():
    """Megabytes of float32 in a second of one core; ours with and without compiled loops."""
    rows = [row for row in rows_of("codec", "speed") if "found" in row]
    cases = {(r["codec"], r["data"], r["psnr"], r["bound"]): r["found"] for r in rows}
    lines = []
    for (name, data, psnr, bound), found in cases.items():
        if name != PLAIN:
            asked = f"{psnr} dB" if psnr else f"error {bound:g} of the range"
            plain = cases[PLAIN, data, psnr, bound] if name == OURS else None
            line = [data, name, asked, f"{found['bits']:.2f}"]
            for what in ("encode", "decode"):
                line += [f"{found[what]:.0f}", f"{plain[what]:.0f}" if plain else ""]
            lines.append(line)
    lines.sort(key=lambda line: line[1] != OURS)
    heads = ["data", "codec", "asked", "bits per sample", "encode, MB/s", "without numba"]
    return table([*heads, "decode, MB/s", "without numba"], lines, "lllrrrrr")


def rates():
    """Bits per sample at 30, 40 and 50 dB, all kinds of data in one table."""
    groups = (
        ("grey pictures", "pictures", lambda row: True),
        ("colour pictures", "colour", lambda row: True),
        ("temperature", "fields", lambda row: True),
        ("Navier-Stokes", "volumes", lambda row: row["data"] == "ns"),
        ("brain", "volumes", lambda row: row["data"] == "brain"),
    )
    lines, shown = [], [TARGETS.index(t) for t in (30, 40, 50)]
    for name, section, keep in groups:
        some = [row for row in finished(section) if keep(row)]
        for label in [k for k in some[0] if k != "data"]:
            bits = means(some, label)
            lines.append([f"{name}, {len(some)}", label, *(_shown(bits[j]) for j in shown)])
    return table(["bits per sample", "codec", "30 dB", "40 dB", "50 dB"], lines, "llrrr")


def speed_short():
    """The rows of `speed` on one picture at one quality."""
    rows = [r for r in rows_of("codec", "speed") if "found" in r and r["codec"] != PLAIN]
    rows = [r for r in rows if r["data"] == "kodim05" and r["psnr"] == 40]
    rows.sort(key=lambda r: r["codec"] != OURS)
    lines = [
        [r["codec"], f"{r['found']['bits']:.2f}"]
        + [f"{r['found'][what]:.0f}" for what in ("encode", "decode")]
        for r in rows
    ]
    return table(["kodim05 at 40 dB", "bits per sample", "encode, MB/s", "decode, MB/s"], lines)


TABLES = {
    f"codec_{f.__name__}": f for f in (pictures, colour, fields, volumes, bounds, printed, speed)
}
EXCERPTS = {"codec_rates": rates, "codec_speed_short": speed_short}
"""Parts of the others, which only documents show."""
