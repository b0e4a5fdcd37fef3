"""The package listing of CONTRIBUTING.md: every module with the first line of its docstring.

python docs/listing.py            prints it
python docs/listing.py --write    puts it into CONTRIBUTING.md, between its two marks
"""

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "elmfield"
PAGE = ROOT / "CONTRIBUTING.md"
MARKS = "<!-- listing -->", "<!-- end of listing -->"
PLACE = re.compile("{}\n.*?{}".format(*MARKS), re.S)


def first_line(path):
    """Return the first line of a module's docstring, without a full stop."""
    text = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return text.split("\n", 1)[0].rstrip(".")


def lines(folder=PACKAGE, depth=1):
    """Yield a line for every module and package below a folder, packages after modules."""
    indent = "  " * depth
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield f"{indent}{path.name:<{24 - len(indent)}} {first_line(path)}"
    for path in sorted(p.parent for p in folder.glob("*/__init__.py")):
        yield f"{indent}{path.name + '/':<{24 - len(indent)}} {first_line(path / '__init__.py')}"
        yield from lines(path, depth + 1)


def listing():
    """Return the listing as a block of Markdown."""
    head = f"{'src/elmfield/':<24} {first_line(PACKAGE / '__init__.py')}"
    return "\n".join(["```text", head, *lines(), "```"])


def main():
    """Print the listing, or write it into the page."""
    if "--write" not in sys.argv[1:]:
        print(listing())
        return
    text = PAGE.read_text("utf-8")
    made = f"{MARKS[0]}\n{listing()}\n{MARKS[1]}"
    PAGE.write_text(PLACE.sub(lambda place: made, text), "utf-8")


if __name__ == "__main__":
    main()
