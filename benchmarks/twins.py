"""What compiled loops save: processor time of whole jobs with all of them, without some, and none.

    python benchmarks/twins.py [MILLIONS ...]     writes results/twins.json and results/twins.md

Jobs: packing and unpacking of tiles; ``fit`` and ``save``, ``load`` and ``samples`` of pictures of
1, 4 and 25 million samples, or others; BEAM.

A family of compiled loops stays where a user's job is at least three times as fast, or where the
speeds that files are to have cannot be met without. Measured alike before they went (2026, two
shared cores, times as fast with the loops than without):

    loops                                                 write    read
    boxes: ERA5 at 50 dB                                  1.5      1.8
    boxes: Blue Marble at 40 dB                           1.1      1.0
    BEAM, 512² and 1024², cells of 16 and 32              1.8 to 3.5; with the paper's fit 1.03

And those that are there, one core of another machine:

    prediction: ERA5 without loss                         1.3      6.9
    symbols, interpolation: ERA5 within 0.1 K             2.5      5.4
    smoothing: ERA5 at 50 dB                              1.5      2.4
    smoothing: Blue Marble at 40 dB, 25 M samples         1.4      1.6

Smoothing misses three times; without it Blue Marble is written at 11 MB a second of a processor
instead of 16, and 20 a second on two are asked for.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from scipy.ndimage import gaussian_filter

import elmfield as ef
from common import RESULTS, record, rows_of
from elmfield import codec
from elmfield._array import running
from measurement.tables import table
from paper.research import datasets

SIDE = 1024


def picture(side):
    """Blue Marble in grey, repeated where it ends."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    grey = np.asarray(Image.open(datasets.path("blue-marble")[0]).convert("L"))
    return np.tile(grey[:, 1024:], [-(-side // n) for n in (grey.shape[0], 3072)])[:side, :side]


def surface(side):
    """A smooth surface with every bit of its floats in use."""
    noise = np.random.default_rng(0).standard_normal((side, side))
    return (10 * gaussian_filter(noise, 3) + 280).astype(np.float32)


def tiles():
    """Name, tiles and how they are packed."""
    x, field = np.arange(SIDE), surface(SIDE)
    calm = np.add.outer(np.sin(x / 99), np.cos(x / 77)).astype(np.float32)
    quarters = [field[a : a + 256, b : b + 256] for a in x[::256] for b in x[::256]]
    warm = datasets.load("era5-spring").astype(np.float32)
    yield "uint8, no loss", [picture(SIDE)], {}
    yield "float32, no loss", [field], {}
    yield "uint8, step 4", [picture(SIDE)], {"step": 4.0}
    yield "float32, bound 0.05", [field], {"max_error": 0.05}
    yield "float32, bound 0.05, tiles of 256²", quarters, {"max_error": 0.05}
    yield "calm float32, bound 0.001", [calm], {"max_error": 1e-3}
    yield "temperature, bound 0.1 K", [warm], {"max_error": 0.1}


def jobs(millions):
    """Yield what is done, the work and the bytes it makes."""
    for name, some, how in tiles():
        packed = [data for data, _ in codec.pack_decoded(some, **how)]
        size = sum(map(len, packed))
        yield f"{name}: pack", partial(codec.pack_decoded, some, **how), size
        yield f"{name}: unpack", partial(codec.unpack_many, packed), size
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.elm"
        for million in millions:
            side = int((million * 1e6) ** 0.5)
            for name, make, how in WHOLE:
                values, settings = make(side), ef.smooth(**how)
                ef.save(ef.fit(values, settings), path)
                label, size = f"{million:g} M, {name}", path.stat().st_size
                yield (
                    f"{label}: fit, save",
                    lambda v=values, s=settings: ef.save(ef.fit(v, s), path),
                    size,
                )
                yield f"{label}: load, samples", lambda: ef.load(path).samples(), size
    values = surface(512).astype(np.float64)
    yield "BEAM, 512², cells of 16", lambda: ef.beam(values, cell=16, regions=200), 0


WHOLE = (
    ("uint8, no loss", picture, {}),
    ("float32, no loss", surface, {}),
    ("float32, bound 0.05", surface, {"max_error": 0.05}),
    ("uint8, 40 dB", picture, {"psnr": 40}),
)
FAMILIES = {
    "prediction": ["lossless.plane_coder"],
    "symbols, interpolation": ["ans", "lossy.interpolated"],
    "smoothing": ["lossy.deblock"],
}
"""Modules of the codec that ask whether to run loops, by what these do."""


def seconds(work, times=3):
    """Processor time of the fastest of a few runs, after one that compiles; one if it is long."""
    work()
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
        if found[0] > 1:
            break
    return min(found)


def measure(without, millions):
    """Print one row a job, as JSON, without a family of loops."""
    if running.installed():
        running.compile_loops()
    for name in FAMILIES.get(without, []):
        module = import_module(f"elmfield.codec.{name}")
        module.running = SimpleNamespace(pays=lambda work: False)
    for name, work, size in jobs(millions):
        row = {"job": name, "bytes": size, "seconds": seconds(work)}
        print(json.dumps(row), flush=True)


def compare(millions):
    """Run the jobs in a process each: all loops, without each family, without any; record."""
    found = {}
    for way in ("all", *FAMILIES, "none"):
        env = os.environ | {"ELMFIELD_COMPILED": "0" if way == "none" else "1"}
        words = [sys.executable, __file__, "measure", way, *millions]
        ran = subprocess.run(words, env=env, stdout=subprocess.PIPE, check=True)
        found[way] = [json.loads(line) for line in ran.stdout.splitlines()]
    rows = []
    for each in zip(*found.values(), strict=True):
        if len({row["bytes"] for row in each}) > 1:
            raise AssertionError(f"{each[0]['job']}: {[row['bytes'] for row in each]} bytes")
        rows.append({k: each[0][k] for k in ("job", "bytes")})
        rows[-1] |= {way: row["seconds"] for way, row in zip(found, each, strict=True)}
    record("twins", "jobs", rows)
    lines = [
        [r["job"], f"{r['all']:.3f}", *(f"{r[way] / r['all']:.1f}" for way in ("none", *FAMILIES))]
        for r in rows_of("twins", "jobs")
    ]
    heads = ["job", "all loops, s", "without any, times", *(f"without {f}" for f in FAMILIES)]
    text = "# Compiled loops, processor time of whole jobs\n\n" + table(heads, lines, "lrrrrr")
    (RESULTS / "twins.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2], [float(m) for m in sys.argv[3:]])
    else:
        compare(sys.argv[1:] or ["1", "4", "25"])
