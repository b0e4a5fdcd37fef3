"""Tables of ``results/lossless.json``."""

from statistics import mean

from common import rows_of
from measurement.tables import table


def pictures():
    """Bits per sample on average, and how the worst picture fares."""
    heads = ["21 Kodak pictures, bits per sample", "PNG, optimised", "JPEG XL", "ours"]
    heads += ["ours / PNG: mean, worst", "ours / JPEG XL: mean, worst"]
    lines = []
    for kind in ("grey", "colour"):
        rows = [r for r in rows_of("lossless", "pictures") if r["kind"] == kind]
        bits = [mean(8 * r[k] / r["samples"] for r in rows) for k in ("png", "jpeg_xl", "ours")]
        ratios = {k: [r["ours"] / r[k] for r in rows] for k in ("png", "jpeg_xl")}
        shown = [f"{mean(v):.3f}, {max(v):.3f}" for v in ratios.values()]
        lines.append([kind, *(f"{b:.2f}" for b in bits), *shown])
    return table(heads, lines)


def arrays():
    """Bytes of whole arrays."""
    heads = ["data", "dtype", "raw", "zstd, bit shuffled", "ours", "ours / zstd"]
    lines = [
        [r["data"], r["dtype"], r["raw"], r["zstd"], r["ours"], f"{r['ours'] / r['zstd']:.2f}"]
        for r in rows_of("lossless", "arrays")
    ]
    return table(heads, lines, "llrrrr")


def large():
    """Bytes of one large picture."""
    heads = ["picture", "PNG, optimised", "JPEG XL", "ours, in tiles of 512 × 512"]
    rows = rows_of("lossless", "large")
    return table(heads, [[r["picture"], r["png"], r["jpeg_xl"], r["ours"]] for r in rows])


def speed():
    """Time as a part of JPEG XL's encoding in the same run."""
    rows = rows_of("lossless", "speed")
    (unit,) = (r["encode"] for r in rows if r["codec"] == "JPEG XL")
    heads = ["JPEG XL's encoding = 1", "encode", "decode", "decode 8 tiles together"]
    lines = [
        [
            r["codec"],
            *(f"{r[k] / unit:.2f}" if k in r else "" for k in ("encode", "decode", "together")),
        ]
        for r in rows
    ]
    return table(heads, lines)


def model():
    """Seconds for the model of a large picture."""
    heads = ["seconds by the clock", "threads", "save", "open", "a window of 256 × 256"]
    heads += ["all samples out of the file"]
    keys = ("save", "open", "window", "read")
    rows = rows_of("lossless", "model")
    return table(heads, [[r["codec"], r["threads"], *(f"{r[k]:.2f}" for k in keys)] for r in rows])


TABLES = {
    "lossless_pictures": pictures,
    "lossless_arrays": arrays,
    "lossless_large": large,
    "lossless_speed": speed,
    "lossless_model": model,
}
