"""Speed of files: whole jobs, fit and save, load and samples, beside other codecs.

    python benchmarks/rate.py [--old SOURCE] [--side 6000] [JOB ...]

writes results/rate.json and results/rate.md. Every job runs in processes of its own, one after the
other: with compiled loops, without, and, with ``--old`` (the folder `src` of another checkout),
the older version with its loops. Times are seconds of the processor, and by the clock, in which
threads share the cores; the least of three. MB are those of the samples before they are coded.
Run ``elmfield compile`` of each version first: loops are compiled for large jobs only. Use a quiet
machine for MB/s that mean something by themselves; ratios within a run mean something on any.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from common import RESULTS, asked, has, record, rows_of
from measurement.tables import table

BOUND, TIMES = 0.1, 3


def both_clocks():
    """Seconds of the processor, all threads together, and those that pass."""
    return np.array([time.process_time(), time.perf_counter()])


def seconds(work, runs=TIMES):
    """Seconds by both clocks of the fastest of a few runs, after one that loads and plans."""
    made, found = work() if runs > 1 else None, []
    for _ in range(runs):
        start = both_clocks()
        made = work()
        found.append(both_clocks() - start)
    return np.min(found, axis=0), made


def rates(n_bytes, write, read, size, runs=TIMES):
    """MB/s of both ways by both clocks, and bytes."""
    put, made = seconds(write, runs)
    got, _ = seconds(lambda: read(made), runs)
    speeds = n_bytes / 1e6 / np.concatenate([put, got])
    names = ("write", "write, clock", "read", "read, clock")
    return {**dict(zip(names, speeds.tolist())), "bytes": size(made)}


def prepare(folder):
    """Put the samples where processes of all versions find them."""
    from PIL import Image

    from paper.research import datasets

    Image.MAX_IMAGE_PIXELS = None
    for name in ("era5-spring", "era5-winter"):
        np.save(f"{folder}/{name}.npy", datasets.load(name).astype(np.float32))
    np.save(f"{folder}/marble.npy", np.asarray(Image.open(datasets.path("blue-marble")[0])))


def samples(name):
    return np.load(f"{os.environ['RATE_DATA']}/{name}.npy")


def temperature():
    return samples("era5-spring")


def times():
    """Twelve times of a chunk: two fields, one turning into the other, and noise."""
    one, other = temperature(), samples("era5-winter")
    part = np.linspace(0, 1, 12)[:, None, None]
    found = (1 - part) * one[180:361, 360:720] + part * other[180:361, 360:720]
    noise = np.random.default_rng(0).normal(0, 0.02, found.shape)
    return (found + noise).astype(np.float32)


def picture(side=None):
    """Blue Marble in colour, or a square of it."""
    whole = samples("marble")
    return whole if side is None else whole[500 : 500 + side, 1000 : 1000 + side].copy()


def chunk(values, **how):
    """A chunk as the Zarr codec has it."""
    from elmfield import codec

    return rates(values.nbytes, lambda: codec.pack(values, **how), codec.unpack, len)


def job(values, **how):
    """Fit and save; load and give back all samples."""
    import elmfield as ef

    options = {"channel_axis": -1} if values.shape[-1] == 3 else {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.elm"

        def write():
            ef.save(ef.fit(values, ef.smooth(**how), **options), path)

        def size(_):
            return path.stat().st_size

        return rates(values.nbytes, write, lambda _: ef.load(path).samples(), size)


def rivals(values):
    """Other codecs to the same bound."""
    import imagecodecs as ic

    shape, dtype = values.shape, values.dtype
    ways = {
        "SZ3": (lambda: ic.sz3_encode(values, mode="abs", abs=BOUND),
                lambda data: ic.sz3_decode(data, shape, dtype)),
        "zfp": (lambda: ic.zfp_encode(values, level=BOUND, mode="a"), ic.zfp_decode),
        "SPERR": (lambda: ic.sperr_encode(values, BOUND, "pwe"), ic.sperr_decode),
    }  # fmt: skip
    return {name: rates(values.nbytes, *both, len) for name, both in ways.items()}


def zstd(values):
    """Without loss: zstd with bit shuffling."""
    import imagecodecs as ic

    def write():
        return ic.blosc_encode(values, level=9, compressor="zstd", shuffle="bitshuffle")

    return {"zstd, bits shuffled": rates(values.nbytes, write, ic.blosc_decode, len)}


def stream():
    """Zarr in, model out with a bound; samples read back. One run each: it takes a while."""
    import zarr

    import elmfield as ef

    side = int(os.environ["RATE_SIDE"])
    row = temperature()
    values = np.tile(row, (-(-side // row.shape[0]), -(-side // row.shape[1])))[:side, :side]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "x.elm.zarr"
        array = zarr.create_array(f"{folder}/in.zarr", data=values, chunks=(512, 512))

        def write():
            ef.fit(array, ef.smooth(max_error=BOUND), out=out)

        def size(_):
            return sum(p.stat().st_size for p in out.rglob("*") if p.is_file())

        return rates(values.nbytes, write, lambda _: ef.load(out).samples(), size, 1)


def fresh():
    """A colour picture in a process of its own, imports included: wall seconds, the first too."""
    import elmfield as ef

    code = (
        "import sys, numpy as np, elmfield as ef; "
        "ef.save(ef.fit(np.load(sys.argv[1]), ef.smooth(psnr=40), channel_axis=-1), sys.argv[2])"
    )
    found = []
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/x.npy", picture(512))
        words = [sys.executable, "-c", code, f"{folder}/x.npy", f"{folder}/x.elm"]
        env = os.environ | {
            "NUMBA_CACHE_DIR": folder,
            "PYTHONPATH": str(Path(ef.__file__).parents[1]),
        }
        for _ in range(1 + TIMES):
            start = time.perf_counter()
            subprocess.run(words, env=env, check=True)
            found.append(time.perf_counter() - start)
        size = Path(f"{folder}/x.elm").stat().st_size
    return {"first, s": found[0], "later, s": min(found[1:]), "bytes": size}


def points():
    """A million points of a new field, then of the same one, beside SciPy's cubic spline."""
    from scipy.ndimage import gaussian_filter, map_coordinates

    import elmfield as ef

    rng, found = np.random.default_rng(0), []
    values = gaussian_filter(rng.standard_normal((512, 512)), 3)
    x = rng.random((1_000_000, 2)) * 511
    for _ in range(TIMES + 1):
        field, ends = ef.fit(values), [time.perf_counter()]
        for work in (field, field, lambda x: map_coordinates(values, x.T, order=3)):
            work(x)
            ends.append(time.perf_counter())
        found.append(np.diff(ends))
    first, later, other = np.min(found, axis=0).tolist()
    spline = {"first, s": other, "later, s": other, "bytes": 0}
    return {"first, s": first, "later, s": later, "bytes": 0, "map_coordinates": spline}


JOBS = {
    "Zarr codec, 0.1 K": lambda: chunk(temperature(), max_error=BOUND) | rivals(temperature()),
    "Zarr codec, 0.1 K, effort 1": lambda: chunk(temperature(), max_error=BOUND, effort=1),
    "fit, 0.1 K": lambda: job(temperature(), max_error=BOUND),
    "fit, 50 dB": lambda: job(temperature(), psnr=50),
    "fit, no loss": lambda: job(temperature()) | zstd(temperature()),
    "12 times, 0.1 K": lambda: chunk(times(), max_error=BOUND) | rivals(times()),
    "stream, 0.1 K": stream,
    "Blue Marble, 40 dB": lambda: job(picture(), psnr=40),
    "512² colours, 40 dB": fresh,
    "a million points of 512²": points,
}


def measure(name, source, loops):
    """One job in a process of its own; None where that version cannot do it."""
    env = os.environ | {"ELMFIELD_COMPILED": loops, "PYTHONPATH": source}
    words = [sys.executable, __file__, "--measure", name]
    ran = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(ran.stdout) if ran.returncode == 0 else None


def show():
    """Write the table."""
    lines = []
    for row in rows_of("rate", "jobs"):
        for way, found in row["ways"].items():
            for who, got in [(way, found), *((k, v) for k, v in (found or {}).items())]:
                if not isinstance(got, dict) or (who != way and way != "NumPy and numba"):
                    continue
                if "write" in got:
                    kinds = ("write", "read", "write, clock", "read, clock")
                    both = [f"{got[k]:.1f}" if k in got else "" for k in kinds]
                else:
                    both = [f"{got['first, s']:.2f} s", f"{got['later, s']:.2f} s", "", ""]
                lines.append([row["job"], who, *both, got["bytes"]])
    heads = ["job", "by", "write, MB/s", "read, MB/s", "write, clock", "read, clock", "bytes"]
    text = (
        "# Whole jobs: MB of samples a processor second, and a second by the clock\n\n"
        + table(heads, lines, "llrrrrr")
        + "\n\n512² colours: wall seconds of a process, the first one (nothing compiled) and "
        "later ones. Points: seconds of the first call of a field, and of the next.\n\nOne run "
        "measures a job by all ways; in another the machine was more or less busy: compare within "
        "a job.\n"
    )
    (RESULTS / "rate.md").write_text(text)


def main():
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(JOBS[sys.argv[2]]()))
        return
    more = [("--old", {"metavar": "SOURCE"}), ("--side", {"type": int, "default": 6000})]
    given = asked(__doc__, JOBS, *more)
    os.environ["RATE_SIDE"] = str(given.side)
    import elmfield as ef

    own = str(Path(ef.__file__).parents[1])
    ways = {"NumPy and numba": (own, "1"), "NumPy": (own, "0")}
    if given.old:
        ways["before"] = (given.old, "1")
    known = {row["job"]: row for row in rows_of("rate", "jobs")} if has("rate", "jobs") else {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        os.environ["RATE_DATA"] = folder
        for name in given.sections:
            found = {way: measure(name, *how) for way, how in ways.items()}
            known[name] = {"job": name, "ways": found, "side": given.side}
            print(name, json.dumps(found), flush=True)
            record("rate", "jobs", [known[n] for n in JOBS if n in known])
    show()


if __name__ == "__main__":
    main()
