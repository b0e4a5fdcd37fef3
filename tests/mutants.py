"""Change formulas and bounds one by one, and see that the tests named beside them turn red.

    python tests/mutants.py            all of them; exit code 1 if one survives
    python tests/mutants.py NAME...    those whose names contain one of these words

A mutant is one change of one line, made in a copy of `src`. Its text must occur exactly once: code
that was rewritten needs its mutant rewritten, and the run says so. It is dead if its tests fail,
and it survives if they pass; a selection that runs no test, or does not run at all, is an error.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FAILED = 1
"""pytest's exit code when tests failed; others are errors of the run itself."""


class Mutant(NamedTuple):
    """In a file of `src/elmfield`, `old` becomes `new`; `tests`, with ``-k words``, must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    words: str = ""


MUTANTS = [
    # --- windows -------------------------------------------------------------------------------
    Mutant(
        "window: another polynomial from 0 to 1",
        "partition/cells.py",
        "return t * t * t * (10 - t * (15 - 6 * t))",
        "return t * t * (3 - 2 * t)",
        "tests/partition/test_windows.py",
    ),
    Mutant(
        "window: its slope",
        "partition/cells.py",
        "return 30 * s**2",
        "return 29 * s**2",
        "tests/partition/test_windows.py",
    ),
    Mutant(
        "window: windows of neighbours no longer sum to one",
        "partition/windows.py",
        "t = t / (2 * delta) + xp.astype(low, t.dtype)",
        "t = t / (2.02 * delta) + xp.astype(low, t.dtype)",
        "tests/partition/test_windows.py",
    ),
    # --- local models --------------------------------------------------------------------------
    Mutant(
        "least squares: singular values multiplied",
        "local/bases/dense_modes.py",
        "Vt[:rank, :].T / s[:rank] * sign",
        "Vt[:rank, :].T * s[:rank] * sign",
        "tests/local/bases/test_bases.py",
        "rank_deficient or wide_layer",
    ),
    Mutant(
        "least squares: the rank is cut early",
        "local/bases/dense_modes.py",
        "rank = int(xp.sum(xp.astype(s > least * s[0], xp.int64)))",
        "rank = int(xp.sum(xp.astype(s > 1e-2 * s[0], xp.int64)))",
        "tests/fit/test_beam_fit.py",
        "smaller_than_the_network",
    ),
    Mutant(
        "energy: half the order",
        "local/layers/axis_layers.py",
        "return np.asarray((epsilon + omega2) ** order)",
        "return np.asarray((epsilon + omega2) ** (order / 2))",
        "tests/fit/test_encoder.py",
        "least_energy and numpy",
    ),
    Mutant(
        "energy: prices span more than twelve decades",
        "local/layers/axis_layers.py",
        "10 ** (-decades / order)",
        "10 ** (-1.2 * decades / order)",
        "tests/local/test_layers.py",
        "price",
    ),
    # --- BEAM ----------------------------------------------------------------------------------
    Mutant(
        "Barron norm: waves squared",
        "partition/barron.py",
        "[np.abs(np.fft.fftfreq(n, 1 / n)) for n in size[:-1]]",
        "[np.abs(np.fft.fftfreq(n, 1 / n)) ** 2 for n in size[:-1]]",
        "tests/partition/test_barron.py",
        "printed_transform or number_of_waves",
    ),
    Mutant(
        "Barron norm: a lower bound that is none",
        "partition/barron.py",
        "else 0.999 * math.prod(size)",
        "else 3.0 * math.prod(size)",
        "tests/partition/test_barron.py",
        "lower_bound",
    ),
    Mutant(
        "merge: unions above the threshold",
        "partition/beam.py",
        "if beta > tau or beta == math.inf:",
        "if beta > 1.05 * tau or beta == math.inf:",
        "tests/partition/test_beam_merge.py",
        "printed_algorithm",
    ),
    Mutant(
        "merge: ties go to the last region",
        "partition/beam.py",
        "regions[k].first < regions[j].first",
        "regions[k].first > regions[j].first",
        "tests/partition/test_beam_merge.py",
        "ties",
    ),
    # --- the field -----------------------------------------------------------------------------
    Mutant(
        "gradient: without the scale of its axis",
        "field/point_values.py",
        "math.prod(per_unit[k] for k in own)",
        "math.prod(per_unit[k] for k in own[1:])",
        "tests/field/test_every_field.py",
        "derivatives and smooth-fresh",
    ),
    Mutant(
        "Hessian: with one scale of two",
        "field/point_values.py",
        "math.prod(per_unit[k] for k in own)",
        "math.prod(per_unit[k] for k in own[:1])",
        "tests/field/test_every_field.py",
        "derivatives and smooth-fresh",
    ),
    Mutant(
        "uneven axes: positions beside the samples",
        "domain/axis.py",
        "return (first + (v - low) / (high - low)) / self.per_sample - 1, turns",
        "return (first + 0.99 * (v - low) / (high - low)) / self.per_sample - 1, turns",
        "tests/field/test_uneven.py tests/domain/test_axis.py",
    ),
    Mutant(
        "uneven cells: means beside the samples",
        "local/bases/spline_modes.py",
        "/ half[:, None], over]",
        "/ half[:, None], 0.9 * over]",
        "tests/field/test_uneven.py",
        "kept_and_planes and small",
    ),
    Mutant(
        "means by area: sums beside the source's",
        "field/blend/means.py",
        "(share[:, None] * off[cell])",
        "(0.9 * share[:, None] * off[cell])",
        "tests/io/xarray/test_conservative.py",
        "sums",
    ),
    Mutant(
        "integral: nodes of a narrower interval",
        "field/blend/means.py",
        "x[at] = (a + b) / 2 + (b - a) / 2 * u",
        "x[at] = (a + b) / 2 + (b - a) / 2.02 * u",
        "tests/field/blend/test_integrals.py",
    ),
    Mutant(
        "coordinates: a periodic axis one turn off",
        "domain/axis.py",
        "v if self.turn is None else v - turns * self.turn",
        "v if self.turn is None else v - (turns + 1) * self.turn",
        "tests/domain/test_axis.py tests/field/test_uneven.py",
    ),
    Mutant(
        "sphere: no weight by latitude",
        "domain/sphere.py",
        "return np.maximum(np.cos(np.deg2rad(latitude)), 0.0)",
        "return np.maximum(np.cos(0.9 * np.deg2rad(latitude)), 0.0)",
        "tests/fit/test_globe.py",
        "areas",
    ),
    Mutant(
        "rounding: integers are cut off",
        "_array/backend.py",
        "xp.clip(xp.round(values)",
        "xp.clip(xp.trunc(values)",
        "tests/field/blend/test_grids.py",
        "integers_are_rounded and numpy",
    ),
    Mutant(
        "rounding: truth values above a half",
        "_array/backend.py",
        "return values >= 0.5",
        "return values >= 0.7",
        "tests/field/blend/test_grids.py",
        "truth_values and numpy",
    ),
    # --- tables --------------------------------------------------------------------------------
    Mutant(
        "table: terms beyond the highest degree are not in its error",
        "field/tables/table.py",
        "errors = left + expansion.beyond[: order + 1, full]",
        "errors = left",
        "tests/field/tables/test_table.py",
        "no_part_of_the_error or expansions_leave_over",
    ),
    Mutant(
        "table: terms that were dropped are not in its error",
        "field/tables/table.py",
        "left = np.maximum(left, dropped(expansion, block, full, [degree], order)[:, 0])",
        "pass",
        "tests/field/tables/test_table.py",
        "no_part_of_the_error or expansions_leave_over or farther_than_the_error",
    ),
    # --- targets and codes ---------------------------------------------------------------------
    Mutant(
        "targets: a bit more than was asked for",
        "field/code_samples.py",
        "(-min(psnr, 600.0) / 10)",
        "(-min(psnr, 600.0) / 10.1)",
        "tests/field/test_targets.py",
        "psnr_is_reached and not library",
    ),
    Mutant(
        "targets: the price of the index",
        "field/drop_modes.py",
        "INDEX_BIT_COST = 1 / 32",
        "INDEX_BIT_COST = 1 / 16",
        "tests/test_chosen_numbers.py tests/field/test_targets.py",
        "index_is_paid or INDEX_BIT_COST",
    ),
    Mutant(
        "codec: whole numbers half a unit beyond a bound",
        "codec/lossy/bounded.py",
        "> self.bound",
        "> self.bound + 1",
        "tests/codec/test_lossy.py tests/robust/test_bounds.py",
    ),
    Mutant(
        "gaps: masks of all channels",
        "field/coefficients/sample_boxes.py",
        "return first.copy() if (gone == first).all() else gone",
        "return gone",
        "tests/io/model/test_sample_files.py",
        "all_channels_miss",
    ),
    Mutant(
        "gaps: the order of filling",
        "settings/presets.py",
        "FILL_ORDER = 1.55",
        "FILL_ORDER = 1.1",
        "tests/test_chosen_numbers.py tests/fit/gaps/test_fill.py",
        "FILL_ORDER or suits_a_photograph",
    ),
    # --- measures ------------------------------------------------------------------------------
    Mutant(
        "PSNR: of amplitudes",
        "measure/metrics.py",
        "return 10 * math.log10((data_range / unit) ** 2 / mse)",
        "return 20 * math.log10((data_range / unit) ** 2 / mse)",
        "tests/measure/test_metrics.py",
        "definitions",
    ),
    Mutant(
        "the paper's PSNR: another ceiling",
        "measure/metrics.py",
        "scores.append(-10 * math.log10(mse + 1e-8))",
        "scores.append(-10 * math.log10(mse + 1e-9))",
        "tests/measure/test_metrics.py",
        "ceiling",
    ),
]


def main(words: list[str]) -> int:
    """Try the mutants whose names have one of the words; the exit code."""
    chosen = [m for m in MUTANTS if not words or any(w in m.name for w in words)]
    if not chosen:
        print(f"no mutant is called {' or '.join(words)}; there are: ")
        print(*(f"  {m.name}" for m in MUTANTS), sep="\n")
        return 1
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        # With what is compiled already, which a changed file does not match.
        shutil.copytree(ROOT / "src", Path(folder) / "src")
        for mutant in chosen:
            began = time.monotonic()
            verdict = try_mutant(mutant, Path(folder) / "src")
            print(f"{verdict:8}  {time.monotonic() - began:5.1f} s  {mutant.name}", flush=True)
            if verdict != "dead":
                wrong.append(mutant.name)
    print(f"{len(chosen) - len(wrong)} of {len(chosen)} mutants are dead.")
    return 1 if wrong else 0


def try_mutant(mutant: Mutant, src: Path) -> str:
    """What became of a mutant: "dead", "alive", or "error", with what is wrong printed."""
    path = src / "elmfield" / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(mutant.old) != 1:
        print(f"{mutant.file} has {mutant.old!r} {text.count(mutant.old)} times, not once")
        return "error"
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        ran = run_tests(mutant, src)
    finally:
        path.write_text(text, encoding="utf-8")
        shutil.copystat(ROOT / "src" / "elmfield" / mutant.file, path)
    if ran.returncode not in (0, FAILED):
        print(ran.stdout[-2000:] + ran.stderr[-2000:])
        return "error"
    return "dead" if ran.returncode == FAILED else "alive"


def run_tests(mutant: Mutant, src: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of a mutant until one fails."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    command += mutant.tests.split() + (["-k", mutant.words] if mutant.words else [])
    environment = {**os.environ, "PYTHONPATH": str(src), "ELMFIELD_HYPOTHESIS": "unshrunk"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
