"""Tables of ``results/earth.json``."""

from common import rows_of
from measurement.tables import table


def conserved():
    lines = []
    for r in rows_of("earth", "conserved"):
        kelvin = [f"{r[k]:.3f}" if k in r else "–" for k in ("rms", "largest", "points")]
        lines.append([r["grid"], f"{r['off']:.0e}", *kelvin])
    heads = ["ERA5 to", "global mean off by", "rms from first order, K", "largest, K"]
    return table([*heads, "points instead, largest, K"], lines)


def shrunk():
    lines = [
        [r["picture"], *(f"{r[k]:.3f}" for k in ("areas", "means", "points"))]
        for r in rows_of("earth", "shrunk")
    ]
    return table(["512² to 64², std", "area means", "`resize`", "points"], lines)


def land():
    names = ("nothing missing", "nan", "fill")
    lines = [
        [r["data"], f"{r['seconds']:.1f}", *(f"{r[k]:.3f}" for k in names)]
        for r in rows_of("earth", "land")
    ]
    heads = ["46 % missing", "processor seconds, 721 × 1440", "beside coasts, K: nothing missing"]
    return table([*heads, '`missing="nan"`', '`missing="fill"`'], lines)


def flow():
    lines = [
        [
            r["band"],
            r["quantity"],
            f"{100 * r['ours']:.4f}",
            "–" if r["differences"] is None else f"{100 * r['differences']:.4f}",
        ]
        for r in rows_of("earth", "flow")
    ]
    heads = ["latitude", "of a known flow at 1°", "error, %", "central differences, %"]
    return table(heads, lines, "llrr")


def held():
    lines = [
        [r["data"], *(f"{r[k]:.3f}" for k in ("linear", "cubic", "ours"))]
        for r in rows_of("earth", "held")
    ]
    return table(["held out, K", "`xarray.interp` linear", "cubic", "`field.interp`"], lines)


def times():
    lines = [[r["work"], f"{r['fits']:.1f}"] for r in rows_of("earth", "times")]
    return table(["at 0.25°, one thread", "times a fit"], lines)


TABLES = {f"earth_{f.__name__}": f for f in (conserved, shrunk, land, flow, held, times)}
