"""Tables of the documents, from the recorded results.

    python benchmarks/tables.py            rewrite them, and results/*.md
    python benchmarks/tables.py --check    fail if a document and the record disagree

A document has a place for a table where it says ``<!-- results:name -->`` and ``<!-- end -->``. The
tables of each file in ``results/`` are made in a module of its name: ``core_tables.py`` and so on.
Documents show the tables that users need; ``results/*.md`` have all of them.
"""

import argparse
import contextlib
import re
import sys
from functools import partial

import beam_tables
import codec_tables
import core_tables
import defaults_tables
import earth_tables
import images_tables
import lossless_tables
import oriented_tables
import pictures_tables
import points_tables
import reliability_tables
import scale_tables
import sizes_tables
import speed_tables
import targets_tables
import uncertainty_tables
import view_tables
from common import RESULTS, ROOT
from measurement.records import NotRecorded, read

DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PLACE = re.compile(r"<!-- results:(\w+) -->\n((?!<!-- end -->).)*<!-- end -->", re.S)
GATHERED = {
    "core": core_tables,
    "defaults": defaults_tables,
    "targets": targets_tables,
    "oriented": oriented_tables,
    "pictures": pictures_tables,
    "sizes": sizes_tables,
    "lossless": lossless_tables,
    "earth": earth_tables,
    "images": images_tables,
    "codec": codec_tables,
    "scale": scale_tables,
    "uncertainty": uncertainty_tables,
}
"""Whose tables also stand in one file each, for whoever opens the folder."""


def circumstances(file):
    """One line on how the numbers of a file were made."""
    found = [s["about"] for s in read(RESULTS / f"{file}.json").values()]
    if not found:
        raise NotRecorded(f"there is no {file}.json; run the script that makes it")
    made = ", ".join(f"{k} {x}" for k, x in found[0]["versions"].items())
    where = f"{found[0]['device']}, {found[0]['threads']} threads"
    commits = sorted({f"commit {a['commit']}" for a in found if a.get("commit")})
    return "; ".join([f"Made with {made}", "seed 0 unless said", where, *commits]) + "."


TABLES = {name: f for of in GATHERED.values() for name, f in of.TABLES.items()}
TABLES |= {name: f for of in GATHERED.values() for name, f in getattr(of, "EXCERPTS", {}).items()}
TABLES |= reliability_tables.TABLES | beam_tables.TABLES
TABLES |= {f"{file}_about": partial(circumstances, file) for file in GATHERED}
TABLES |= speed_tables.TABLES | points_tables.TABLES
TABLES |= view_tables.TABLES
TABLES["view_about"] = partial(circumstances, "view")


def fill(text):
    """A document with its tables renewed; those without a record are left alone."""

    def renewed(place):
        try:
            made = TABLES[place[1]]()
        except NotRecorded as reason:
            print(f"left as it is: {place[1]} ({reason})")
            return place[0]
        return f"<!-- results:{place[1]} -->\n{made}\n<!-- end -->"

    return PLACE.sub(renewed, text)


def gathered(file):
    """All tables of one results file."""
    parts = [f"## {n.replace('_', ' ')}\n\n{f()}\n" for n, f in GATHERED[file].TABLES.items()]
    return f"{circumstances(file)}\n\n" + "\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail on a difference")
    check = parser.parse_args().check
    wanted = {d: fill(d.read_text(encoding="utf-8")) for d in DOCUMENTS}
    for file in GATHERED:
        with contextlib.suppress(NotRecorded):
            wanted[RESULTS / f"{file}.md"] = gathered(file)
    with contextlib.suppress(NotRecorded):
        wanted[RESULTS / "beam.md"] = "# BEAM\n\n" + beam_tables.markdown()
    with contextlib.suppress(NotRecorded):
        wanted[RESULTS / "scale-cuda.md"] = (
            f"{circumstances('scale-cuda')}\n\n{scale_tables.device()}\n"
        )
    with contextlib.suppress(NotRecorded):
        wanted[RESULTS / "speed-aims.md"] = speed_tables.speed_aims() + "\n"
    for device in ("cpu", "cuda"):
        with contextlib.suppress(NotRecorded):
            wanted[RESULTS / f"points-{device}.md"] = points_tables.points(device) + "\n"
    stale = [p for p, t in wanted.items() if not p.exists() or p.read_text(encoding="utf-8") != t]
    for path in stale:
        print(("differs: " if check else "written: ") + str(path.relative_to(ROOT)))
        if not check:
            path.write_text(wanted[path], encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
