"""What compiled loops save: processor time of whole jobs with numba and without.

    python benchmarks/twins.py [MILLIONS ...]     writes results/twins.json and results/twins.md

Jobs: packing and unpacking of tiles; ``fit`` and ``save``, ``load`` and ``samples`` of pictures of
1, 4 and 25 million samples, or others; a first million points; BEAM.

A family of compiled loops stays where a user's job is at least three times as fast. Those of the
lossless codec, which most bounds use too, do that when files are read. Measured alike before they
went (2026, two shared cores, times as fast with the loops than without, packing and unpacking):

    loops                                       u8      f32     f32, tiles of 256²
    BEAM, 512² and 1024², cells of 16 and 32    1.8 to 3.5; with the paper's fit 1.03

No loops are left there, nor at points: what these take is measured to say so. Those of boxes
(`box_loops`, `sample_loops`) came back with all of them together: 35 to 65 % of the processor's
time less each way, and threads that do not wait for each other.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

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
    x = np.random.default_rng(1).random((1_000_000, 2)) * 511
    yield "first million points, 512²", lambda: ef.fit(values)(x), 0
    yield "BEAM, 512², cells of 16", lambda: ef.beam(values, cell=16, regions=200), 0


WHOLE = (
    ("uint8, no loss", picture, {}),
    ("float32, no loss", surface, {}),
    ("float32, bound 0.05", surface, {"max_error": 0.05}),
)


def seconds(work, times=3):
    """Processor time of the fastest of a few runs, after one that compiles."""
    work()
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def measure(millions):
    """Print one row a job, as JSON."""
    if running.installed():
        running.compile_loops()
    for name, work, size in jobs(millions):
        row = {"job": name, "bytes": size, "seconds": seconds(work)}
        print(json.dumps(row), flush=True)


def compare(millions):
    """Run the jobs in two processes, with compiled loops and without, and record both."""
    found = []
    for on in ("1", "0"):
        words = [sys.executable, __file__, "measure", *millions]
        ran = subprocess.run(
            words, env=os.environ | {"ELMFIELD_COMPILED": on}, stdout=subprocess.PIPE, check=True
        )
        found.append([json.loads(line) for line in ran.stdout.splitlines()])
    rows = []
    for fast, plain in zip(*found, strict=True):
        if fast["bytes"] != plain["bytes"]:
            raise AssertionError(f"{fast['job']}: {fast['bytes']} and {plain['bytes']} bytes")
        rows.append({k: fast[k] for k in ("job", "bytes")})
        rows[-1] |= {"numba": fast["seconds"], "NumPy": plain["seconds"]}
    record("twins", "jobs", rows)
    lines = [
        [r["job"], f"{r['numba']:.3f}", f"{r['NumPy']:.3f}", f"{r['NumPy'] / r['numba']:.1f}"]
        for r in rows_of("twins", "jobs")
    ]
    heads = ["job", "with loops, s", "NumPy alone, s", "times"]
    text = "# Compiled loops, processor time of whole jobs\n\n" + table(heads, lines, "lrrr")
    (RESULTS / "twins.md").write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure([float(m) for m in sys.argv[2:]])
    else:
        compare(sys.argv[1:] or ["1", "4", "25"])
