"""Tables of ``results/codec.json``."""

from statistics import mean

from common import rows_of
from measurement.samples import KODAK
from measurement.tables import table

TARGETS = (30, 35, 40, 45, 50)
LEARNED = set(KODAK[::2]) | {
    "era5_t2m_20121201T14_winter",
    "era5_t2m_20230422T03_spring",
    "gfs_t2m_20200702T00_summer",
}
"""What the tables of the codec were trained on."""


def _means(rows, label):
    """Mean bits per sample at each target; None where a codec misses one."""
    found = [[row[label][j] for row in rows] for j in range(len(TARGETS))]
    return [None if None in bits else mean(bits) for bits in found]


def _shown(bits):
    return "" if bits is None else f"{bits:.3f}" if bits >= 0.1 else f"{bits:.4f}"


def _curves(section, what, groups):
    rows = rows_of("codec", section)
    lines = []
    for name, keep in groups.items():
        some = [row for row in rows if keep(row)]
        for label in [k for k in some[0] if k != "data"] if some else []:
            lines.append([f"{name}, {len(some)}", label, *map(_shown, _means(some, label))])
    return table([what, "codec", *(f"{t} dB" for t in TARGETS)], lines, "ll" + "r" * len(TARGETS))


def pictures():
    """Grey pictures."""
    groups = {"recorded": lambda row: True, "held out": lambda row: row["data"] not in LEARNED}
    return _curves("pictures", "Kodak, grey, bits per sample", groups)


def colour():
    """Pictures in colour, none of which was learned from in colour."""
    return _curves("colour", "Kodak, colour, bits per sample", {"pictures": lambda row: True})


def fields():
    """Weather."""
    groups = {"recorded": lambda row: True, "held out": lambda row: row["data"] not in LEARNED}
    return _curves("fields", "temperature, bits per sample", groups)


def volumes():
    """Volumes."""
    groups = {
        "Navier-Stokes": lambda row: row["data"] == "ns",
        "brain": lambda row: row["data"] == "brain",
    }
    return _curves("volumes", "volumes, bits per sample", groups)


def bounds():
    """Hard bounds."""
    rows, lines = rows_of("codec", "bounds"), []
    groups = {
        "pictures": lambda row: row["data"] in KODAK,
        "temperature": lambda row: row["data"] not in KODAK and row["data"] != "ns",
        "Navier-Stokes": lambda row: row["data"] == "ns",
    }
    for name, keep in groups.items():
        for bound in sorted({row["bound"] for row in rows}, reverse=True):
            some = [row for row in rows if keep(row) and row["bound"] == bound]
            if some:
                bits = [mean(r[k] for r in some) for k in ("elmfield", "SZ3", "SPERR bound", "ZFP")]
                worst = max(row["worst"] for row in some)
                shown = [*map(_shown, bits), f"{worst:.5f}"]
                lines.append([f"{name}, {len(some)}", f"{bound:g}", *shown])
    heads = ["data", "bound, of the range", "elmfield", "SZ3", "SPERR", "ZFP", "worst / bound"]
    return table(heads, lines, "lrrrrrr")


def speed():
    """Megabytes of float32 in a second of one core."""
    lines = []
    for row in rows_of("codec", "speed"):
        asked = f"{row['psnr']} dB" if row["psnr"] else f"error {row['bound']:g} of the range"
        speeds = [f"{row['encode']:.0f}", f"{row['decode']:.0f}"]
        lines.append([row["data"], asked, f"{row['bits']:.2f}", *speeds])
    heads = ["data", "asked", "bits per sample", "encode, MB/s", "decode, MB/s"]
    return table(heads, lines, "llrrr")


TABLES = {f"codec_{f.__name__}": f for f in (pictures, colour, fields, volumes, bounds, speed)}
