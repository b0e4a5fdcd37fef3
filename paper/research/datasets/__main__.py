"""``python -m paper.research.datasets``: all data sets; ``fetch NAME ...`` gets them.

Only this room prints.
"""

import argparse
import sys
from collections.abc import Sequence

from elmfield._array.progress import bars
from paper.research.datasets.files import MissingDataError, cache
from paper.research.datasets.library import about, names, path, present


def main(arguments: Sequence[str] | None = None) -> int:
    """List or fetch; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m paper.research.datasets", description="The data sets of the paper."
    )
    verbs = parser.add_subparsers(dest="verb", metavar="{list,fetch}")
    verbs.add_parser("list", help="names, status, terms, and which are here (the default)")
    fetch = verbs.add_parser("fetch", help="download what is missing to the cache")
    fetch.add_argument("names", nargs="+", metavar="NAME", help="names of data sets, or 'all'")
    asked = parser.parse_args(arguments)
    try:
        return _fetch(asked.names) if asked.verb == "fetch" else _list()
    except (ValueError, MissingDataError) as error:  # a wrong name; ELMFIELD_DATA is no folder
        print(error, file=sys.stderr)
        return 2


def _list() -> int:
    rows = [("name", "shape", "status", "here", "terms")]
    for name in names():
        data = about(name)
        getable = data.make is not None or any(
            all(f.url for f in files) for files in (data.files, data.otherwise) if files
        )
        here = "yes" if present(name) else "can be fetched" if getable else "no"
        shape = " × ".join(map(str, data.shape))
        rows.append((name, shape, data.status, here, data.terms))
    width = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, width)).rstrip())
    print(f"\nCache: {cache()}")
    return 0


def _fetch(asked: Sequence[str]) -> int:
    wanted = names() if list(asked) == ["all"] else [about(name).name for name in asked]
    missing = 0
    with bars() as progress:
        for name in wanted:
            try:
                print(*path(name, progress=progress), sep="\n")
            except MissingDataError as error:
                missing += 1
                print(error, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
