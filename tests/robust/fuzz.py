"""The long run: damaged files, calls, promises, pools and kills, counted for docs/reliability.md.

    python tests/robust/fuzz.py                    all of it, from a new seed, which is printed
    python tests/robust/fuzz.py --seed 7 --part calls --write

With ``--write`` the counts go into benchmarks/results/reliability.json, and from there into the
document (benchmarks/tables.py). It ends with code 1 if anything was wrong.
"""

import argparse
import collections
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "src")]

import elmfield as ef  # noqa: E402
from measurement.records import read, record  # noqa: E402
from robust import calls, damage, processes, promises  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "reliability.json"
FINE = ("refused", "the same", "another", "done", "old", "new", "none", "kept")
MEMORY = 2 << 30
WORKERS = int(os.environ.get("ELMFIELD_WORKERS", "2"))


def in_parts(work, seeds, folder):
    """Outcomes of all seeds, by two processes; (seed, how, outcome) of those that are wrong."""
    parts = [seeds[k::8] for k in range(8)]
    counts, wrong, most = collections.Counter(), [], 0
    with ProcessPoolExecutor(WORKERS) as pool:
        for found, bad, memory in pool.map(partial(work, folder=folder), parts):
            counts += found
            wrong += bad
            most = max(most, memory)
    return counts, wrong, most


def _tally(outcomes):
    counts, wrong = collections.Counter(), []
    for seed, how, found in outcomes:
        kind = found.split(":")[0]
        counts[kind] += 1
        if kind not in FINE:
            wrong.append((seed, how, found))
    return counts, wrong, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _damaged(seeds, folder):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        every = damage.bases(Path(own))
        return _tally((s, *damage.attempt(s, every, own)) for s in seeds)


def _called(seeds, folder):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        path = Path(own) / "model.elm"
        return _tally((s, "call", calls.one_call(s, path)) for s in seeds)


def _promised(cases, folder):
    outcomes = []
    with tempfile.TemporaryDirectory(dir=folder) as own:
        for name, dtype, seed in cases:
            wrong, count = promises.checked(name, dtype, Path(own) / "model.elm", seed)
            outcomes += [(name, dtype, "kept")] * (count - len(wrong))
            outcomes += [(name, dtype, f"exceeded: {text}") for text in wrong]
    return _tally(outcomes)


def run_damage(seed, n, folder, skip=0):
    """Damaged files."""
    return in_parts(_damaged, [[seed, k] for k in range(skip, skip + n)], folder)


def run_calls(seed, n, folder, skip=0):
    """Generated calls."""
    return in_parts(_called, [[seed, k] for k in range(skip, skip + n)], folder)


def run_promises(seed, n, folder, skip=0):
    """60 arrays in four dtypes, at every station."""
    cases = promises.cases()[skip : skip + n]
    return in_parts(_promised, [(*case, seed) for case in cases], folder)


def run_pools(seed, n, folder, skip=0):
    """Pools, forked and spawned in turn, and threads."""
    outcomes = []
    for k in range(skip, skip + n):
        path = Path(folder) / ("pool.elm" if k % 4 < 2 else "pool.elm.zarr")
        ef.save(ef.fit(processes.values(k)), path)
        field = ef.load(path)
        field([1.0, 2.0])
        bad = processes.read_by_pool(path, "spawn" if k % 8 == 7 else "fork", field)
        bad += processes.read_by_threads(path) if k % 4 == 0 else 0
        outcomes.append((k, path.name, "the same" if bad == 0 else "wrong"))
    return _tally(outcomes)


def run_kills(seed, n, folder, skip=0):
    """Saves and streams that are killed, then one that is not: nothing is left behind."""
    import random

    rng, outcomes = random.Random(f"{seed} {skip}"), []
    old, new = processes.values(0, 192), processes.values(1, 192)
    fields = [ef.fit(v) for v in (old, new)]
    told = [f.samples() for f in fields]
    ways = {
        "save": lambda path: ef.save(fields[1], path),
        "stream": lambda path: ef.fit(new, out=path),
    }
    for k in range(skip, skip + n):
        way = ("save", "stream")[k % 2]
        place = Path(folder) / f"killed-{k}"
        place.mkdir()
        path = place / ("model.elm" if k % 4 < 2 else "model.elm.zarr")
        if k % 3:
            ef.save(fields[0], path)
        found = processes.killed(path, ways[way], *told, rng.uniform(0, 0.4))
        if found == "none" and k % 3:
            found = "wrong: what was there is gone"
        ways[way](path)
        if os.listdir(place) != [path.name]:
            found = f"wrong: left behind {os.listdir(place)}"
        outcomes.append((k, f"{way} {path.suffix}", found))
    return _tally(outcomes)


PARTS = {
    "damage": (run_damage, 10_000, "damaged model files"),
    "calls": (run_calls, 5_000, "generated calls"),
    "promises": (run_promises, 240, "adversarial arrays, in four dtypes"),
    "pools": (run_pools, 40, "pools of processes, and threads"),
    "kills": (run_kills, 200, "kills during saves and streams"),
}


def main():
    """Run, print, and record if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual numbers")
    parser.add_argument("--write", action="store_true", help="record the counts")
    parser.add_argument("--add", action="store_true", help="record them besides those there are")
    parser.add_argument("--skip", type=int, default=0, help="cases that are left out")
    words = parser.parse_args()
    print(f"seed {words.seed}", flush=True)
    failed = False
    for name in words.part or PARTS:
        work, n, title = PARTS[name]
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            n = max(1, round(n * words.share))
            counts, wrong, most = work(words.seed, n, folder, words.skip)
        took = time.perf_counter() - began
        said = ", ".join(f"{k} {v}" for k, v in sorted(counts.items()))
        print(f"{title}: {said}; {took:.0f} s, {most / 2**20:.0f} MiB", flush=True)
        for case in wrong[:40]:
            print("   ", *case, flush=True)
        failed |= bool(wrong) or most > MEMORY
        if words.write or words.add:
            seeds, n_wrong = [words.seed], len(wrong)
            if words.add and name in (known := read(RESULT)):
                (row,) = known[name]["rows"]
                counts, n_wrong = (
                    counts + collections.Counter(row["counts"]),
                    n_wrong + row["wrong"],
                )
                most, seeds = max(most, row["memory"]), [*known[name]["about"]["seed"], *seeds]
            row = {"title": title, "counts": dict(counts), "wrong": n_wrong, "memory": most}
            record(RESULT, name, [row], seed=seeds)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
