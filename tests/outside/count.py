"""Runs the suites and counts them: `make judges`, or ``count.py [--write] [SUITE ...]``.

All suites, or those named (``scipy_grid verde``). With ``--write`` the table goes into
docs/judges.md. A test fails that failed, or that not_applicable.toml lists as a fault; a suite that
did not run, or whose package is not installed, is left as it was.
"""

import os
import re
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "judges.md"
PLACE = re.compile(r"(?<=<!-- counts -->\n).*(?=<!-- end -->)", re.S)
SUITES = {
    "scikit_learn": ("scikit-learn", "checks of estimators, on those of `elmfield.sklearn`"),
    "numcodecs": ("numcodecs", "a compressor's tests and the common checks, on `NumcodecsCodec`"),
    "zarr_testing": ("zarr", "strategies and state machine of `zarr.testing`, on both codecs"),
    "torch": ("torch", "`gradcheck`, `gradgradcheck` by points, coefficients and samples"),
    "scipy_grid": ("scipy", "`RegularGridInterpolator`, through a shim"),
    "scipy_points": ("scipy", "`RBFInterpolator`, through a shim"),
    "scipy_images": ("scipy", "`map_coordinates`, through a shim"),
    "xarray_interp": ("xarray", "`interp`, through `.elm.interp`"),
    "verde": ("verde", "gridders, through a shim of `fit_points`"),
}


class Count:
    """What became of every test, by suite."""

    def __init__(self):
        self.found = {suite: Counter() for suite in SUITES}

    def pytest_runtest_logreport(self, report):
        """Count a test once: when it ran, or was left out before."""
        if report.when == "call" or (report.when == "setup" and report.outcome != "passed"):
            suite = Path(report.nodeid.partition("::")[0]).stem.removeprefix("test_")
            what = report.outcome
            if what == "skipped":
                ours = hasattr(report, "wasxfail") and report.wasxfail
                what = "failed" if ours else "not applicable"
            self.found[suite][what] += 1


def table(found, old):
    """The counts in Markdown; rows of suites that did not run are those of the old table."""
    kept = {row.split("|")[2].strip(): row for row in old.splitlines() if row.count("|") > 3}
    head = "| of | tests | passed | failed | not applicable |"
    rows = [head, "| --- | --- | ---: | ---: | ---: |"]
    for suite, (package, what) in SUITES.items():
        n = found[suite]
        if n:
            counts = " | ".join(str(n[k]) for k in ("passed", "failed", "not applicable"))
            rows.append(f"| {package} {version(package)} | {what} | {counts} |")
        elif what in kept:
            rows.append(kept[what])
    return "\n".join(rows) + "\n"


def main():
    """Run, print, and write if asked to."""
    os.environ["JUDGES"] = "1"
    count = Count()
    asked = [word for word in sys.argv[1:] if word != "--write"]
    files = [str(HERE / f"test_{suite}.py") for suite in asked] or [str(HERE)]
    status = pytest.main(["-n", "0", "-q", "--timeout", "0", *files], plugins=[count])
    page = PAGE.read_text("utf-8")
    made = table(count.found, PLACE.search(page)[0])
    print(made)
    if "--write" in sys.argv:
        PAGE.write_text(PLACE.sub(lambda _: made, page), "utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
