"""The notes of this folder, gathered into CHANGELOG.md under the version that they belong to.

`python changes/gather.py` rewrites the section of the version in `__init__.py`; with `--check` it
only says whether that would change anything, with `--release 2026-11-16` it dates the section and
removes the notes.
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


def notes() -> list[Path]:
    """The files that hold a note, the core's first."""
    found = [p for p in HERE.glob("*.md") if p.name != "README.md"]
    return sorted(found, key=lambda p: (p.stem != "core", p.stem))


def section(title: str) -> str:
    """All notes under one heading, theirs below it."""
    texts = (p.read_text("utf-8").strip() for p in notes())
    lower = (re.sub(r"^(#+)", r"##\1", t, flags=re.M) for t in texts)
    return "\n\n".join([f"## {title}", *lower]) + "\n"


def version() -> str:
    """The version that the package says it has."""
    text = (HERE.parent / "src" / "elmfield" / "__init__.py").read_text("utf-8")
    return re.search(r'^__version__ = "(.+)"', text, flags=re.M)[1]  # type: ignore[index]


def gathered(old: str, date: str = "unreleased") -> str:
    """The changelog with this version's section made anew, those of others as they are."""
    parts = re.split(r"^(?=## )", old, flags=re.M)[1:]
    others = [p for p in parts if not p.startswith(f"## {version()} ")]
    return "\n".join([HEAD, section(f"{version()} ({date})"), *others])


def main() -> int:
    """Do what the command line says; the exit status."""
    ask = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ask.add_argument("--check", action="store_true", help="only say whether it is up to date")
    ask.add_argument("--release", metavar="DATE", help="date the section and remove the notes")
    asked = ask.parse_args()
    old = LOG.read_text("utf-8") if LOG.exists() else ""
    if not notes():
        print("no notes in changes/: CHANGELOG.md is as it was")
        return 0
    new = gathered(old, asked.release or "unreleased")
    if asked.check:
        if new != old:
            print("CHANGELOG.md lacks what is in changes/: run `make changelog`", file=sys.stderr)
        return int(new != old)
    LOG.write_text(new, "utf-8")
    if asked.release:
        for path in notes():
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
