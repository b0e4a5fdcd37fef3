"""The long run: all parts of PARTS, counted for docs/reliability.md.

    python tests/robust/fuzz.py                    all of it, from a new seed, which is printed
    python tests/robust/fuzz.py --seeds 5          from five new seeds
    python tests/robust/fuzz.py --seed 7 8 --part calls --write

With ``--write`` the counts go into benchmarks/results/reliability.json, and from there into the
document (benchmarks/tables.py). It ends with code 1 if anything was wrong.

A part is a generator (seeds, folder) of (seed, what was tried, outcome), where a seed is a pair
[seed, number of the attempt], and an entry of PARTS.
"""

import argparse
import collections
import os
import random
import resource
import sys
import tempfile
import time
import unittest.mock
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "src")]

import elmfield as ef  # noqa: E402
from elmfield._array import running  # noqa: E402
from measurement.records import read, record  # noqa: E402
from robust import (  # noqa: E402
    bounds,
    calls,
    crops,
    damage,
    grids,
    levels,
    lossless,
    processes,
    promises,
    requests,
    tensors,
    twins,
    zarr_arrays,
)

RESULT = ROOT / "benchmarks" / "results" / "reliability.json"
FINE = ("refused", "the same", "another", "done", "old", "new", "none", "kept")
MEMORY = 2 << 30
WORKERS = int(os.environ.get("ELMFIELD_WORKERS", "2"))


def run(work, seeds, folder, shares=8):
    """Counts by outcome, (seed, what, outcome) of those that are wrong, and the most memory.

    In so many shares, by as many processes as there are workers; one share in this process.
    """
    if shares == 1:
        return count(work, seeds, folder)
    counts, wrong, most = collections.Counter(), [], 0
    with ProcessPoolExecutor(WORKERS) as pool:
        parts = [seeds[k::shares] for k in range(shares)]
        for found, bad, memory in pool.map(partial(count, work, folder=folder), parts):
            counts += found
            wrong += bad
            most = max(most, memory)
    return counts, wrong, most


def count(work, seeds, folder):
    """The same for one share."""
    counts, wrong = collections.Counter(), []
    with tempfile.TemporaryDirectory(dir=folder) as own:
        for seed, how, found in work(seeds, Path(own)):
            kind = found.split(":")[0]
            counts[kind] += 1
            if kind not in FINE:
                wrong.append((seed, how, found))
    return counts, wrong, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def damaged_files(seeds, folder):
    """Damaged files."""
    every = damage.bases(folder)
    for s in seeds:
        yield s, *damage.attempt(s, every, folder)


def generated_calls(seeds, folder):
    """Generated calls."""
    for s in seeds:
        yield s, "call", calls.one_call(s, folder / "model.elm")


def odd_arguments(seeds, folder):
    """Calls with one odd argument or two."""
    for s in seeds:
        yield s, "call", calls.bad_call(s, folder)


def scattered_points(seeds, folder):
    """Fits of scattered samples."""
    for s in seeds:
        yield s, "points", calls.one_fit_of_points(s)
        yield s, "observations", calls.one_fit_of_observations(s)


def lossless_arrays(seeds, folder):
    """Arrays of any dtype and shape, and dates, that must come back bit for bit, on every way."""
    for s in seeds:
        yield s, "trip", lossless.one_trip(s, folder)
        yield s, "dates", lossless.one_calendar(s, folder)


def coded_arrays(seeds, folder):
    """Zarr arrays of any kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for s in seeds:
            yield s, "array", zarr_arrays.attempt(s)


def torch_combinations(seeds, folder):
    """Fits and questions of tensors, in any mode of torch, against NumPy and finite differences."""
    for s in seeds:
        yield s, "tensors", tensors.one_trial(s)


def compiled_twins(seeds, folder):
    """Compiled loops and NumPy."""
    for s in seeds:
        yield s, "array", twins.attempt(s)


def bounds_of_files(seeds, folder):
    """Files with a bound, decoded by the slow decoder."""
    for s in seeds:
        yield s, "file", bounds.bounded(s, folder)


def damaged_tiles(seeds, folder):
    """Damaged tiles, by compiled loops and by NumPy."""
    if running.installed():  # compiling is not an attempt that hangs
        running.compile_loops()
    for s in seeds:
        yield s, "tile", bounds.damaged_tile(s)


def maps_on_grids(seeds, folder):
    """Generated maps and derivatives on grids."""
    for s in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for work in (grids.one_map, grids.one_derivative):
                yield s, work.__name__, work(s)


def cropped_fields(seeds, folder):
    """Crops and windows of generated fields, and tables of them."""
    for s in seeds:
        for found in crops.outcomes(s):
            yield s, *found


def coarse_levels(seeds, folder):
    """Coarse levels of generated fields, in memory, files and streams."""
    for s in seeds:
        for found in levels.outcomes(s, folder):
            yield s, *found


def adversarial_arrays(seeds, folder):
    """60 arrays in four dtypes, at every station."""
    for seed, k in seeds:
        every = promises.cases()
        name, dtype = random.Random(seed).sample(every, len(every))[k % len(every)]
        wrong, n = promises.checked(name, dtype, folder / "model.elm", seed)
        for text in ["kept"] * (n - len(wrong)) + [f"exceeded: {text}" for text in wrong]:
            yield name, dtype, text


def page_requests(seeds, folder):
    """Requests to pages."""
    with requests.Pages(0) as pages:
        for s in seeds:
            yield s, *requests.attempt(s, pages)


def pools(seeds, folder):
    """Pools, forked and spawned in turn, and threads."""
    for seed, k in seeds:
        path = folder / ("pool.elm" if k % 4 < 2 else "pool.elm.zarr")
        ef.save(ef.fit(processes.values([seed, k])), path)
        field = ef.load(path)
        field([1.0, 2.0])
        bad = processes.read_by_pool(path, "spawn" if k % 8 == 7 else "fork", field)
        bad += processes.read_by_threads(path) if k % 4 == 0 else 0
        yield k, path.name, "the same" if bad == 0 else "wrong"


def killed_saves(seeds, folder):
    """Saves and streams that are killed, then one that is not: nothing is left behind."""
    old, new = processes.values(0, 192), processes.values(1, 192)
    fields = [ef.fit(v) for v in (old, new)]
    told = [f.samples() for f in fields]
    ways = {
        "save": lambda path: ef.save(fields[1], path),
        "stream": lambda path: ef.fit(new, out=path),
    }
    for seed, k in seeds:
        way = ("save", "stream")[k % 2]
        place = folder / f"killed-{k}"
        place.mkdir()
        path = place / ("model.elm" if k % 4 < 2 else "model.elm.zarr")
        if k % 3:
            ef.save(fields[0], path)
        after = random.Random(f"{seed} {k}").uniform(0, 0.4)
        found = processes.killed(path, ways[way], *told, after)
        if found == "none" and k % 3:
            found = "wrong: what was there is gone"
        ways[way](path)
        if os.listdir(place) != [path.name]:
            found = f"wrong: left behind {os.listdir(place)}"
        yield k, f"{way} {path.suffix}", found


def use_small_parts():
    """Make tiles small, so that small arrays have many."""
    processes.small_parts(lambda name, value: unittest.mock.patch(name, value).start())


def killed_appends(seeds, folder):
    """Appends that end before any change of a file, and the same calls again."""
    use_small_parts()
    for seed, k in seeds:
        yield k, "append", processes.killed_append([seed, k // 5], k, folder)


def killed_streams(seeds, folder):
    """Streamed fits that end before any change of a file, and the same calls again."""
    use_small_parts()
    for seed, k in seeds:
        yield k, "stream", processes.killed_fit([seed, k // 5], k, folder)


def changed_work(seeds, folder):
    """Work that goes on in folders which somebody has changed."""
    use_small_parts()
    for s in seeds:
        yield s, "work", damage.spoiled(s, folder)


PARTS = {  # how, attempts, title
    "damage": (damaged_files, 10_000, "damaged model files"),
    "calls": (generated_calls, 5_000, "generated calls"),
    "arguments": (odd_arguments, 3_000, "calls with odd arguments"),
    "points": (scattered_points, 1_000, "fits of scattered samples"),
    "lossless": (lossless_arrays, 2_000, "arrays and dates that come back bit for bit"),
    "zarr": (coded_arrays, 1_000, "Zarr arrays of any kind, by the codec"),
    "tensors": (torch_combinations, 500, "combinations of torch: modes, dtypes, gradients"),
    "twins": (compiled_twins, 300, "compiled loops against NumPy"),
    "bounds": (bounds_of_files, 521, "files with a bound, read by another decoder"),
    "tiles": (damaged_tiles, 10_000, "damaged tiles, with compiled loops and without"),
    "grids": (maps_on_grids, 2_000, "generated maps and derivatives on grids"),
    "crops": (cropped_fields, 5_000, "crops, windows and their tables"),
    "levels": (coarse_levels, 1_000, "coarse levels in memory, files and streams"),
    "promises": (adversarial_arrays, 240, "adversarial arrays, in four dtypes"),
    "pools": (pools, 40, "pools of processes, and threads"),
    "kills": (killed_saves, 200, "kills during saves and streams"),
    "appends": (killed_appends, 200, "appends cut short at a file operation, and called again"),
    "streams": (killed_streams, 200, "streamed fits cut short at file operations, called again"),
    "work": (changed_work, 400, "work that goes on in damaged and hostile folders"),
    "requests": (page_requests, 10_000, "requests to the page in the browser"),
}
ATTEMPTS_A_SEED = {"crops": crops.EACH, "levels": levels.EACH, "grids": 2, "lossless": 2}
IN_THIS_PROCESS = ("pools", "kills")


def main():
    """Run, print, and record if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=1, help="how many new ones, if none is given")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual numbers, each seed")
    parser.add_argument("--write", action="store_true", help="record the counts")
    parser.add_argument("--add", action="store_true", help="record them besides those there are")
    words = parser.parse_args()
    seeds = words.seed or [int(time.time()) + k for k in range(words.seeds)]
    print("seeds", *seeds, flush=True)
    failed = False
    for name in words.part or PARTS:
        work, n, title = PARTS[name]
        n = max(1, round(n * words.share / ATTEMPTS_A_SEED.get(name, 1)))
        shares = 1 if name in IN_THIS_PROCESS else 8
        total = {"title": title, "counts": collections.Counter(), "wrong": 0, "memory": 0}
        for seed in seeds:
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                counts, wrong, most = run(work, [[seed, k] for k in range(n)], folder, shares)
            took = time.perf_counter() - began
            said = ", ".join(f"{k} {v}" for k, v in sorted(counts.items()))
            print(f"{title}, seed {seed}: {said}; {took:.0f} s, {most / 2**20:.0f} MiB", flush=True)
            for case in wrong[:40]:
                print("   ", *case, flush=True)
            failed |= bool(wrong) or most > MEMORY
            total["counts"] += counts
            total["wrong"] += len(wrong)
            total["memory"] = max(total["memory"], most)
        if words.write or words.add:
            _record(name, total, seeds, add=words.add)
    return 1 if failed else 0


def _record(name, total, seeds, *, add):
    """Write the counts of a part; with `add`, together with those that are recorded."""
    if add and name in (known := read(RESULT)):
        (row,) = known[name]["rows"]
        total["counts"] += collections.Counter(row["counts"])
        total["wrong"] += row["wrong"]
        total["memory"] = max(total["memory"], row["memory"])
        seeds = [*known[name]["about"]["seed"], *seeds]
    record(RESULT, name, [total], seed=seeds)


if __name__ == "__main__":
    sys.exit(main())
