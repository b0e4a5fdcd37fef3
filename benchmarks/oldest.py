"""The oldest versions that pyproject.toml allows, one ``name==version`` a line, for pip."""

import re
import tomllib
from pathlib import Path

TOOLS = ("import-linter", "mypy", "ruff", "pytest", "hypothesis", "playwright", "hatchling")
"""What checks the code rather than runs it may be new; so may what pytest brings."""


def main():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(text for extra in extras for text in extra)]
    oldest = {}
    for text in wanted:
        found = re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)", text)
        if found and not found[1].startswith(TOOLS) and found[1] != "torch":
            oldest.setdefault(found[1], found[2])
    print("\n".join(f"{name}=={version}" for name, version in sorted(oldest.items())))


if __name__ == "__main__":
    main()
