"""What the scripts share: where their results are, and the command line of a script of sections."""

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))  # for measurement/, which paper/ uses too

from measurement import records  # noqa: E402

RESULTS = HERE / "results"


def record(file, section, rows, **circumstances):
    """Put one section into a results file, leaving the others."""
    records.record(RESULTS / f"{file}.json", section, rows, **circumstances)


def rows_of(file, section):
    """The recorded rows of one section."""
    return records.section_of(RESULTS / f"{file}.json", section)["rows"]


def has(file, section):
    """Whether a section was recorded."""
    try:
        rows_of(file, section)
    except (FileNotFoundError, records.NotRecorded):
        return False
    return True


def in_parts(file, section, parts, make, **circumstances):
    """Rows ``make(*part)`` of a section, each recorded when it is made.

    Those of a run that was broken off are kept; once all are there, they are made anew.
    """
    try:
        found = {tuple(row["part_of_run"]): row for row in rows_of(file, section)}
    except (records.NotRecorded, KeyError):
        found = {}
    if set(found) >= set(parts):
        found = {}
    for part in parts:
        if part not in found:
            found[part] = make(*part) | {"part_of_run": part}
            print(found[part], flush=True)
            record(file, section, list(found.values()), **circumstances)


def asked(doc, sections, *more):
    """What the command line says: `sections` by name, all of them by default, in their order.

    `more` are further arguments, each a name and keywords as `argparse` has them.
    """
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(sections))
    for name, keywords in more:
        parser.add_argument(name, **keywords)
    words = parser.parse_args()
    if unknown := set(words.sections) - set(sections):
        parser.error(f"no section {sorted(unknown)}; there are {list(sections)}")
    wanted = words.sections or sections
    words.sections = {name: f for name, f in sections.items() if name in wanted}
    return words


def main(doc, sections):
    """Run what the command line asks for."""
    for section in asked(doc, sections).sections.values():
        section()
