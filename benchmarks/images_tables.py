"""Tables of ``results/images.json``."""

from common import rows_of
from measurement.tables import table


def turns():
    rows = rows_of("images", "turns")
    ways = [k for k in rows[0] if k != "data"]
    return table(["", *ways], [[r["data"], *(f"{r[w]:.1f}" for w in ways)] for r in rows])


def transparency():
    heads = ["mean colour of the rim", "red", "green", "blue"]
    lines = [["as it was drawn", "230", "120", "40"]]
    for r in rows_of("images", "transparency"):
        lines.append([r["way"], *(f"{r[c]:.0f}" for c in ("red", "green", "blue"))])
    return table(heads, lines)


def reslice():
    lines = [[r["way"], f"{r['largest']:.1e}"] for r in rows_of("images", "reslice")]
    return table(["", "largest error"], lines)


def speech():
    lines = [
        [r["way"], f"{r['psnr_48000']:.0f}", f"{r['psnr_44100']:.0f}"]
        for r in rows_of("images", "speech")
    ]
    return table(["dB", "16 to 48 kHz", "to 44.1 kHz"], lines)


def regions():
    rows = rows_of("images", "regions")
    ways = [k for k in rows[0] if k != "data"]
    lines = [
        [f"{r['data']}, {what}", *(_db(r[w][key]) for w in ways)]
        for r in rows
        for key, what in (("fitted", "pixels fitted"), ("between", "those between"))
    ]
    return table(["dB", *ways], lines)


def _db(value):
    return "exact" if value > 200 else f"{value:.1f}"


TABLES = {
    "images_turns": turns,
    "images_transparency": transparency,
    "images_reslice": reslice,
    "images_speech": speech,
    "images_regions": regions,
}
