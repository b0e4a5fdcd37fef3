"""Moves the notes of this folder into CHANGELOG.md, under the version that the package has.

`python changes/gather.py` appends every note to that version's section and removes the note. With
`--check` it only says whether notes are waiting, with `--release 2026-11-16` it also dates the
section.
"""

import argparse
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
LOG = HERE.parent / "CHANGELOG.md"
HEAD = """# Changes

What a user can notice, version by version; [how versions are counted](docs/versions.md).
"""


def waiting() -> list[Path]:
    """Return the files that hold a note, in the order of their names."""
    return sorted(p for p in HERE.glob("*.md") if p.name != "README.md")


def version() -> str:
    """Return the version that the package says it has."""
    text = (HERE.parent / "src" / "elmfield" / "__init__.py").read_text("utf-8")
    return re.search(r'^__version__ = "(.+)"', text, flags=re.M)[1]  # type: ignore[index]


def gathered(log: str, notes: list[str], date: str | None = None) -> str:
    """Return the changelog with `notes` at the end of this version's section.

    The section is made where there is none; `date` replaces what its heading says in brackets.
    Headings of notes are moved two levels down, below that of the section.
    """
    sections = re.split(r"^(?=## )", log, flags=re.M)[1:]
    own = [s for s in sections if s.startswith(f"## {version()} ")]
    others = [s for s in sections if s not in own]
    section = own[0] if own else f"## {version()} (unreleased)\n"
    if date:
        section = re.sub(r"^(## \S+) \(.*?\)", rf"\1 ({date})", section)
    lower = (re.sub(r"^(#+)", r"##\1", note.strip(), flags=re.M) for note in notes)
    section = "\n\n".join([section.rstrip("\n"), *lower]) + "\n"
    return "\n".join([HEAD, section, *others])


def main() -> int:
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether notes are waiting")
    parser.add_argument("--release", metavar="DATE", help="also date the section")
    options = parser.parse_args()
    paths = waiting()
    if options.check:
        if paths:
            names = ", ".join(p.name for p in paths)
            print(f"CHANGELOG.md lacks {names} of changes/: run `make changelog`", file=sys.stderr)
        return int(bool(paths))
    log = LOG.read_text("utf-8") if LOG.exists() else ""
    LOG.write_text(gathered(log, [p.read_text("utf-8") for p in paths], options.release), "utf-8")
    for path in paths:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
