"""Two commits over the speed suite, in turns, on this machine: what became faster or slower.

    python benchmarks/compare.py main                 main against what is checked out
    python benchmarks/compare.py v0.1.0 main          two commits
    python benchmarks/compare.py main --sections queries sizes --rounds 3 --slower 1.3

Each round measures both commits; a row counts with its shortest time of all rounds. Rows that took
less than a millisecond are left out. Ends with 1 if a row became slower than `--slower` allows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHORTEST = 1e-3  # seconds: below, the clock and other processes decide


def measured(tree, sections, folder):
    """Seconds by row, of the sources in a folder."""
    paths = os.pathsep.join(str(tree / part) for part in ("src", ".", "benchmarks"))
    command = [sys.executable, tree / "benchmarks" / "speed.py", *sections, "--folder", folder]
    env = os.environ | {"PYTHONPATH": paths}
    subprocess.run(command, check=True, cwd=tree, env=env, stdout=subprocess.DEVNULL)
    found = json.loads(next(Path(folder).glob("speed-*.json")).read_text("utf-8"))
    return {row["what"]: row["seconds"] for rows in found["sections"].values() for row in rows}


def compared(old, new, slower):
    """Lines of a table, and whether a row is slower than allowed."""
    lines, is_slower = [], False
    for what in sorted(set(old) & set(new), key=lambda w: -new[w] / old[w]):
        if min(old[what], new[what]) >= SHORTEST:
            times = new[what] / old[what]
            is_slower |= times > slower
            lines.append(f"{times:6.2f}x {old[what]:9.4f} s {new[what]:9.4f} s  {what}")
    return lines, is_slower


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", help="by default the working tree")
    parser.add_argument("--sections", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--slower", type=float, default=1.25)
    asked = parser.parse_args()
    git = ["git", "-C", str(ROOT)]
    with tempfile.TemporaryDirectory() as work:
        trees, best = {"old": Path(work, "old"), "new": ROOT}, {"old": {}, "new": {}}
        if asked.new:
            trees["new"] = Path(work, "new")
        try:
            for side, tree in trees.items():
                if tree != ROOT:
                    commit = getattr(asked, side)
                    subprocess.run(
                        [*git, "worktree", "add", "-q", "--detach", tree, commit], check=True
                    )
            for k in range(asked.rounds):
                for side, tree in trees.items():
                    folder = Path(work, f"{side}-{k}")
                    folder.mkdir()
                    for what, seconds in measured(tree, asked.sections, folder).items():
                        best[side][what] = min(seconds, best[side].get(what, seconds))
        finally:
            for tree in set(trees.values()) - {ROOT}:
                subprocess.run([*git, "worktree", "remove", "--force", tree], check=False)
    lines, is_slower = compared(best["old"], best["new"], asked.slower)
    print("\n".join(lines))
    return int(is_slower)


if __name__ == "__main__":
    sys.exit(main())
