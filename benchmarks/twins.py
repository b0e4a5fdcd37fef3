"""What compiled loops save: processor time of packing and unpacking with numba and without.

    python benchmarks/twins.py        writes results/twins.json and results/twins.md

A family of compiled loops stays where a user's job is at least three times as fast. Those of the
lossless codec, which most bounds use too, do that when files are read. Measured alike before they
went (2026, two shared cores, times as fast with the loops than without, packing and unpacking):

    loops                                       u8      f32     f32, tiles of 256²
    BEAM, 512² and 1024², cells of 16 and 32    1.8 to 3.5; with the paper's fit 1.03

Those of boxes (`box_loops`, `sample_loops`) came back with all of them together: 35 to 65 % of the
processor's time less each way, and threads that do not wait for each other.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np

from common import RESULTS, record, rows_of
from elmfield import codec
from measurement.tables import table
from paper.research import datasets

SIDE = 1024


def jobs():
    """Name, tiles and how they are packed."""
    from PIL import Image
    from scipy.ndimage import gaussian_filter

    Image.MAX_IMAGE_PIXELS = None
    picture = np.asarray(Image.open(datasets.path("blue-marble")[0]).convert("L"))
    picture = picture[:SIDE, SIDE : 2 * SIDE].copy()
    noise = np.random.default_rng(0).standard_normal((SIDE, SIDE))
    field = (10 * gaussian_filter(noise, 3) + 280).astype(np.float32)
    x = np.arange(SIDE)
    calm = np.add.outer(np.sin(x / 99), np.cos(x / 77)).astype(np.float32)
    quarters = [field[a : a + 256, b : b + 256] for a in x[::256] for b in x[::256]]
    yield "uint8, no loss", [picture], {}
    yield "float32, no loss", [field], {}
    yield "uint8, step 4", [picture], {"step": 4.0}
    yield "float32, bound 0.05", [field], {"max_error": 0.05}
    yield "float32, bound 0.05, tiles of 256²", quarters, {"max_error": 0.05}
    yield "calm float32, bound 0.001", [calm], {"max_error": 1e-3}
    yield "temperature, bound 0.1 K", [datasets.load("era5-spring")], {"max_error": 0.1}


def seconds(work, times=3):
    """Processor time of the fastest of a few runs, after one that compiles."""
    work()
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measure():
    """Print one row a job, as JSON."""
    for name, tiles, how in jobs():
        tiles = [np.asarray(tile, np.float32) if tile.dtype.kind == "f" else tile for tile in tiles]
        packed = [data for data, _ in codec.pack_decoded(tiles, **how)]
        row = {
            "job": name,
            "bytes": sum(map(len, packed)),
            "pack": seconds(lambda t=tiles, h=how: codec.pack_decoded(t, **h)),
            "unpack": seconds(lambda p=packed: codec.unpack_many(p)),
        }
        print(json.dumps(row), flush=True)


def compare():
    """Run the jobs in two processes, with compiled loops and without, and record both."""
    found = []
    for on in ("1", "0"):
        words = [sys.executable, __file__, "measure"]
        ran = subprocess.run(
            words, env=os.environ | {"ELMFIELD_COMPILED": on}, stdout=subprocess.PIPE, check=True
        )
        found.append([json.loads(line) for line in ran.stdout.splitlines()])
    rows = []
    for fast, plain in zip(*found, strict=True):
        if fast["bytes"] != plain["bytes"]:
            raise AssertionError(f"{fast['job']}: {fast['bytes']} and {plain['bytes']} bytes")
        rows.append({"job": fast["job"], "bytes": fast["bytes"]} | {
            f"{what}, {way}": row[what]
            for what in ("pack", "unpack")
            for way, row in (("numba", fast), ("NumPy", plain))
        })  # fmt: skip
    record("twins", "codec", rows)
    lines = [
        [r["job"], *(f"{r[f'{what}, {way}']:.3f}" if way != "times"
                     else f"{r[f'{what}, NumPy'] / r[f'{what}, numba']:.1f}"
                     for what in ("pack", "unpack") for way in ("numba", "NumPy", "times"))]
        for r in rows_of("twins", "codec")
    ]  # fmt: skip
    heads = ["pack, s", "NumPy alone", "times", "unpack, s", "NumPy alone", "times"]
    text = "# Compiled loops of the codec, processor time\n\n" + table(["job", *heads], lines)
    (RESULTS / "twins.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    measure() if sys.argv[1:] == ["measure"] else compare()
