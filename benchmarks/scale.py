"""Arrays larger than memory: time and memory of a fit in parts, beside one in memory.

    python benchmarks/scale.py                     everything, at sizes that take minutes
    python benchmarks/scale.py parts long          some sections
    python benchmarks/scale.py --side 20000        as large as you have time for

Sections: parts, long, workers, plans. Each rewrites its part of ``results/scale.json``;
``benchmarks/tables.py`` turns that into the tables of the documents. Memory is the most that a
process of its own ever held; times of one process are its processor's.
"""

import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from common import asked, record

WAVES = """
    import json, resource, sys, time
    import numpy as np, elmfield as ef

    class Waves:
        '''A field that is made where it is looked at.'''
        dtype, ndim = np.dtype("float32"), 2
        def __init__(self, *shape):
            self.shape = shape
        def __getitem__(self, slab):
            i, j = (np.arange(s.start, s.stop, dtype=float) for s in slab)
            y = np.sin(i[:, None] / 17 + np.sin(j / 29)) + np.cos(j / 41 + i[:, None] / 97)
            return (280 + 12 * y).astype("float32")

    def most():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def told(**facts):
        print(json.dumps({**facts, "memory": most()}))
"""


def run(code, *words, **options):
    """What a process of its own tells."""
    text = textwrap.dedent(WAVES) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, words)], capture_output=True, text=True, **options
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def parts(side):
    """A square array in memory and in parts, without loss and within an error."""
    rows = []
    for settings in ("ef.smooth(order=2)", "ef.smooth(order=2, max_error=0.05)"):
        for n, out in ((min(side, 1024), False), (min(side, 1024), True), (side, True)):
            with tempfile.TemporaryDirectory() as folder:
                found = run(
                    f"""
                    n, path = int(sys.argv[1]), sys.argv[2]
                    x = Waves(n, n)
                    if {not out}:
                        x = x[slice(0, n), slice(0, n)]
                    began = time.process_time()
                    if {out}:
                        field = ef.fit(x, {settings}, out=path)
                    else:
                        ef.save(ef.fit(x, {settings}), path)
                    took = time.process_time() - began
                    field = ef.load(path)
                    at = np.array([[n // 3, n // 2], [n - 1, 0]])
                    truth = [Waves(n, n)[tuple(slice(a, a + 1) for a in p)][0, 0] for p in at]
                    told(seconds=took, error=float(np.abs(field(at.astype(float)) - truth).max()))
                    """,
                    n, Path(folder) / "a.elm.zarr",
                )  # fmt: skip
            row = {"settings": settings, "side": n, "parts": out, **found}
            rows.append(row)
            print(row, flush=True)
    record("scale", "parts", rows)


def long(n):
    """Long axes: fit in parts, all samples again, and at nine tenths of their number."""
    rows = []
    for shape in (f"({n},)", f"(2, {n // 2})"):
        with tempfile.TemporaryDirectory() as folder:
            found = run(
                f"""
                x = np.sin(np.arange({n}) / 31).reshape({shape})
                field = ef.fit(x, ef.smooth(order=2))
                fitted = most()
                y = field.samples()
                error, given = float(np.abs(y - x).max()), most()
                del y
                field.resize([int(m * 0.9) + 1 for m in x.shape], antialias=False)
                told(fit=fitted, samples=given, error=error)
                """,
                folder,
            )
        rows.append({"shape": shape, **found})
        print(rows[-1], flush=True)
    record("scale", "long", rows)


def workers(side):
    """One and two processes of a cluster on this machine."""
    rows = []
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "work.py"
            body = f"""
                import dask.array as da
                if __name__ == "__main__":
                    from distributed import Client, LocalCluster
                    x = da.from_array(Waves({side}, {side}), chunks=512, asarray=False)
                    with LocalCluster(n_workers={count}, threads_per_worker=1,
                                      dashboard_address=None) as cluster, Client(cluster):
                        began = time.perf_counter()
                        ef.fit(x, ef.smooth(order=2), out=sys.argv[1])
                        told(seconds=time.perf_counter() - began)
            """
            script.write_text(textwrap.dedent(WAVES) + textwrap.dedent(body))
            done = subprocess.run(
                [sys.executable, script, Path(folder) / "a.elm.zarr"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            rows.append(
                {"workers": count, "side": side, **json.loads(done.stdout.splitlines()[-1])}
            )
            print(rows[-1], flush=True)
    record("scale", "workers", rows)


PLANS = {
    "a year of ERA5, hourly t2m, 0.25°": ("era5", 8784 * 721 * 1440, "float32", 0.05),
    "Africa, Sentinel-2, four bands of 10 m": ("sentinel", 4 * 30_000_000 * 10_000, "uint16", None),
}
"""What it is, samples, dtype, and the largest error allowed; None: without loss."""


def _piece(name):
    """Some samples like those of a plan, and which axis has channels."""
    import numpy as np
    import tifffile
    import xarray

    from elmfield.research import datasets
    from measurement.data import WEATHER

    if name == "era5":
        with xarray.open_dataset(datasets.path(WEATHER["ERA5 t2m, winter 2023"])[0]) as file:
            (variable,) = (v for v in file.data_vars.values() if v.ndim >= 2)
            return variable.values.squeeze().astype(np.float32), None
    bands = tifffile.imread(datasets.path("sentinel2-l2a-chile")[0])
    bands = np.moveaxis(bands, int(np.argmin(bands.shape)), -1)
    return np.ascontiguousarray(bands[:768, :768, 1:4]), -1


def plans(_side):
    """Bytes and processor time of a piece, for all of it."""
    import time

    import elmfield as ef

    rows = []
    for plan, (name, samples, dtype, bound) in PLANS.items():
        values, axis = _piece(name)
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            settings = ef.smooth(order=1.5, max_error=bound)
            field = ef.fit(values, settings, channel_axis=axis, out=Path(folder) / "a.elm.zarr")
            took = time.process_time() - began
            n_bytes = field.n_bytes
        row = {"plan": plan, "samples": samples, "dtype": dtype, "max_error": bound}
        row |= {"bits": 8 * n_bytes / values.size, "seconds": took / values.size}
        rows.append(row)
        print(row, flush=True)
    record("scale", "plans", rows)


if __name__ == "__main__":
    SECTIONS = {"parts": parts, "long": long, "workers": workers, "plans": plans}
    words = asked(
        __doc__,
        SECTIONS,
        ("--side", {"type": int, "default": 2048, "help": "samples on each axis"}),
        ("--length", {"type": int, "default": 1_000_000, "help": "samples of a long axis"}),
    )
    for name, section in words.sections.items():
        section(words.length if name == "long" else words.side)
