"""The table of ``results/reliability.json``: what was tried, and what came of it."""

from common import RESULTS
from measurement.records import NotRecorded, read
from measurement.tables import table

WORDS = {
    "the same": "as it was",
    "another": "another answer to a lie",
    "done": "answered",
    "kept": "promises kept",
    "exceeded": "promises exceeded",
    "none": "none where none was",
}


def seeds_shown(seeds):
    """Different seeds, ranges of consecutive ones as first-last."""
    runs = []
    for seed in sorted(set(seeds)):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def reliability():
    """Attempts and outcomes of the last long run."""
    lines = []
    for part in read(RESULTS / "reliability.json").values():
        (row,) = part["rows"]
        counts = sorted(row["counts"].items(), key=lambda pair: -pair[1])
        came = ", ".join(f"{n} {WORDS.get(kind, kind)}" for kind, n in counts)
        lines.append([
            row["title"], seeds_shown(part["about"]["seed"]), sum(row["counts"].values()),
            came, row["wrong"], f"{row['memory'] / 2**20:.0f}",
        ])  # fmt: skip
    if not lines:
        raise NotRecorded("there is no reliability.json; run make fuzz WRITE=1")
    heads = ["tried", "seeds", "how often", "what came of it", "wrong", "memory, MiB"]
    return table(heads, lines, "llrlrr")


TABLES = {"reliability": reliability}
