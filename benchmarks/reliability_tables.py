"""The table of ``results/reliability.json``: what was tried, and what came of it."""

from common import rows_of
from measurement.records import NotRecorded
from measurement.tables import table

PARTS = ("damage", "calls", "promises", "pools", "kills")
WORDS = {
    "refused": "refused",
    "the same": "as it was",
    "another": "another answer to a lie",
    "done": "answered",
    "kept": "promises kept",
    "exceeded": "promises exceeded",
    "old": "old",
    "new": "new",
    "none": "none where none was",
}


def reliability():
    """Attempts and outcomes of the last long run."""
    lines = []
    for name in PARTS:
        try:
            (row,) = rows_of("reliability", name)
        except NotRecorded:  # a run may be of some parts alone
            continue
        came = ", ".join(
            f"{row['counts'][k]} {words}" for k, words in WORDS.items() if k in row["counts"]
        )
        lines.append([
            row["title"], sum(row["counts"].values()), came, row["wrong"],
            f"{row['memory'] / 2**20:.0f}",
        ])  # fmt: skip
    if not lines:
        raise NotRecorded("there is no reliability.json; run make fuzz WRITE=1")
    heads = ["tried", "how often", "what came of it", "wrong", "memory, MiB"]
    return table(heads, lines, "lrlrr")


TABLES = {"reliability": reliability}
