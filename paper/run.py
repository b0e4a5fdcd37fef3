"""Every script of this folder in order, then the report.

python paper/run.py                     make paper: two cores, at most twenty minutes
python paper/run.py --device cuda       make paper DEVICE=cuda: the full settings, resumable
"""

import argparse
import importlib
import time
from pathlib import Path

import report
from common import HERE, PROFILES, Run, kind

SCRIPTS = (
    "search", "images", "navier_stokes", "satellite", "co2", "curves",
    "toy", "ablation", "beam", "maps", "bands", "volume",
)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", metavar="script", help=", ".join(SCRIPTS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", choices=PROFILES, help="by default full on a GPU, else short")
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--again", action="store_true", help="also what is recorded already")
    a = parser.parse_args()
    if unknown := set(a.scripts) - set(SCRIPTS):
        parser.error(f"no script {sorted(unknown)}; there are {SCRIPTS}")
    profile = a.profile or ("full" if kind(a.device) == "cuda" else "short")
    for name in a.scripts or SCRIPTS:
        start = time.perf_counter()
        script = importlib.import_module(name)
        run = Run(name, a.device, profile, a.folder, a.again)
        script.compute(run)
        script.draw(run)
        print(f"[{name}] {time.perf_counter() - start:.0f} s", flush=True)
    document = report.build(a.folder)
    (a.folder / "REPORT.md").write_text(document.markdown())
    (a.folder / "report.html").write_text(document.html())
    print(f"wrote {a.folder / 'REPORT.md'} and report.html")


if __name__ == "__main__":
    main()
