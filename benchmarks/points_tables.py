"""Tables of ``results/points-*.json``."""

from functools import partial

from common import RESULTS
from measurement.records import NotRecorded, read
from measurement.tables import table


def points(device):
    """All rows of a device, section by section, and how they were made."""
    found = read(RESULTS / f"points-{device}.json")
    if not found:
        raise NotRecorded(f"there is no points-{device}.json; run benchmarks/points.py")
    about = next(iter(found.values()))["about"]
    made = ", ".join(f"{k} {x}" for k, x in about["versions"].items())
    note = f" {about['note'].capitalize()}." if "note" in about else ""
    lines = []
    for part in found.values():
        for row in part["rows"]:
            more = {k: v for k, v in row.items() if k not in ("what", "seconds")}
            told = ", ".join(f"{k.replace('_', ' ')} {v:.3g}" for k, v in more.items())
            lines.append([row["what"], f"{row['seconds']:.5f}", told])
    head = f"`python benchmarks/points.py --device {device}` on {about['device']}; {made}.{note}"
    return f"{head}\n\n{table(['what', 'seconds', ''], lines)}"


TABLES = {f"points_{device}": partial(points, device) for device in ("cpu", "cuda")}
