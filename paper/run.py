"""Every script of this folder in order, then the report; without data as far as that goes.

    python paper/run.py                     make paper: two cores, at most twenty minutes
    python paper/run.py --device cuda       make paper DEVICE=cuda: the full settings, resumable

Records are part of the repository; a fresh clone measures all of them anew, and goes on where it was
broken off. ``--recorded`` takes them as they are.

On a processor two scripts run at a time, with one thread each: the small products of these methods
gain little from a second thread.
"""

import argparse
import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import report
from common import HERE, PROFILES, Run, missing
from measurement.records import kind
from paper.research import datasets

LANES = (
    ("search", "images", "curves", "co2", "satellite", "bands", "theory"),
    ("toy", "readings", "beam", "maps", "navier_stokes", "volume", "ablation"),
)
"""In this order: curves draws what images logged, maps and volume what beam and the flow kept."""

NEEDED = (
    "kodim05", "kodim08", "kodim20", "kodim23", "kodim24", "cameraman", "cameraman-512", "camera",
    "mri", "kspace", "worldview", "sentinel2", "sentinel2-l2a-brazil", "sentinel2-l2a-chile",
    "sentinel2-l2a-ontario", "sentinel2-l2a-tanzania", "era5-winter", "era5-spring", "era5-summer",
    "era5-autumn", "navier-stokes", "blue-marble", "sdo",
)  # fmt: skip
"""The data sets of all scripts."""

SCRIPTS = (*LANES[0], *LANES[1])
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def side_by_side(arguments):
    """Both lanes at once, each in a process of its own; what they print is passed on."""
    started = [
        subprocess.Popen(
            [sys.executable, __file__, *lane, *arguments, "--no-report"],
            env=os.environ | ONE_THREAD | {"ELMFIELD_SHARED": "1"},
        )
        for lane in LANES
    ]
    if failed := [p for p in started if p.wait() != 0]:
        sys.exit(f"{len(failed)} of {len(started)} lanes failed; what they finished is recorded")


def announce(run):
    """Say which data are not at hand, and where to get them, before anything is measured."""
    (run.folder / "kept" / "missing.json").unlink(missing_ok=True)
    lacking = {name: why for name in NEEDED if (why := missing(run, name))}
    if lacking:
        print(f"{len(lacking)} of {len(NEEDED)} data sets are not at hand; their rows are marked.")
        print("They are looked for below ELMFIELD_DATA and in the cache (paper/data.md):")
        for name in lacking:
            print(f"  {name}: {datasets.about(name).title}; from {datasets.about(name).source}")
    else:
        print("All data sets are at hand.")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scripts", nargs="*", metavar="script", help=", ".join(SCRIPTS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", choices=PROFILES, help="by default full on a GPU, else short")
    parser.add_argument("--folder", type=Path, default=HERE)
    parser.add_argument("--again", action="store_true", help="also what was done here already")
    parser.add_argument("--recorded", action="store_true", help="not what is recorded, by anybody")
    parser.add_argument("--closed", action="store_true", help="closed forms only, no training")
    parser.add_argument("--no-report", action="store_true", help="numbers and pictures only")
    a = parser.parse_args()
    if unknown := set(a.scripts) - set(SCRIPTS):
        parser.error(f"no script {sorted(unknown)}; there are {SCRIPTS}")
    profile = a.profile or ("full" if kind(a.device) == "cuda" else "short")
    start = time.perf_counter()
    if not a.no_report:
        announce(Run("run", a.device, profile, a.folder))
    if not a.scripts and profile == "short":
        side_by_side(sys.argv[1:])
    else:
        for name in a.scripts or SCRIPTS:
            begun = time.perf_counter()
            script = importlib.import_module(name)
            run = Run(name, a.device, profile, a.folder, a.again, a.recorded, a.closed)
            try:
                script.compute(run)
                script.draw(run)
            except datasets.MissingDataError as error:  # what a script did not ask for before
                print(f"[{name}] skipped the rest: {error}", flush=True)
            print(f"[{name}] {time.perf_counter() - begun:.0f} s", flush=True)
    if a.no_report:
        return
    document = report.build(a.folder)
    (a.folder / "REPORT.md").write_text(document.markdown())
    (a.folder / "report.html").write_text(document.html())
    print(f"{time.perf_counter() - start:.0f} s; wrote {a.folder / 'REPORT.md'} and report.html")


if __name__ == "__main__":
    main()
