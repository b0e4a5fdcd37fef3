"""Tables of ``docs/view.md``, from ``results/view.json``."""

from common import rows_of
from measurement.tables import table


def first():
    """From the address to a picture."""
    rows = [
        [
            r["what"],
            f"{r['megabytes']:.1f}",
            f"{r['start']:.1f}",
            f"{r['first']:.2f} ({r['processor']:.2f})",
            f"{100 * r['seen']:.0f} %",
            f"{r['complete']:.1f}",
            f"{r['peak']:.0f}",
        ]
        for r in rows_of("view", "first")
    ]
    heads = ["4096 × 4096", "MB", "start, s", "first picture, s", "of it", "complete, s", "peak MB"]
    return table(heads, rows, align="lrrrrrr")


def tiles():
    """512 by 512 pixels, by level and quantity."""
    found = rows_of("view", "tiles")
    levels = sorted({r["level"] for r in found}, reverse=True)
    rows = []
    for what in dict.fromkeys(r["what"] for r in found):
        own = {r["level"]: r for r in found if r["what"] == what}
        rows.append(
            [
                what,
                *(
                    f"{1e3 * own[z]['seconds']:.0f} ({1e3 * own[z]['processor']:.0f})"
                    for z in levels
                ),
            ]
        )
    heads = ["512 × 512 pixels, ms", *(f"1/{2**-z} sample" if z else "1 sample" for z in levels)]
    return table(heads, rows, align="l" + "r" * len(levels))


def many():
    """A hundred at once."""
    (r,) = rows_of("view", "many")
    return (
        f"Of 100 tiles asked for at once {r['answered']} were answered, in {r['seconds']:.1f} s "
        f"({r['processor']:.1f} s of the processor); "
        f"the server had at most {r['peak']:.0f} MB."
    )


def streamed():
    """A model larger than memory."""
    (r,) = rows_of("view", "streamed")
    return (
        f"A model of 20000 × 40000 samples, made in parts: its first picture took "
        f"{r['first']:.2f} s ({100 * r['seen']:.0f} % of it seen), four tiles near by "
        f"{r['near']:.2f} s, the server {r['peak']:.0f} MB."
    )


TABLES = {
    "view_first": first,
    "view_tiles": tiles,
    "view_many": many,
    "view_streamed": streamed,
}
