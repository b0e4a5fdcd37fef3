"""Arrays larger than memory: time and memory of a fit in parts, beside one in memory.

    python benchmarks/scale.py                     everything, at sizes that take minutes
    python benchmarks/scale.py parts long          some sections
    python benchmarks/scale.py --side 20000        as large as you have time for
    python benchmarks/scale.py huge --side 20000 --folder /scratch --limit 200

Sections: parts, huge, shell, long, workers, kills, append, plans; frames through a GPU are in
``scale_device.py``. `huge` and `shell` work in
--folder for at most --limit seconds a process; called again, they go on. Each rewrites
its part of ``results/scale.json``;
``benchmarks/tables.py`` turns that into the tables of the documents. Memory is the most that a
process of its own ever held; times of one process are its processor's.
"""

import json
import math
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from common import asked, has, record, rows_of

WAVES = """
    import json, resource, sys, time
    import numpy as np, elmfield as ef

    def waves(i, j):
        y = np.sin(i[:, None] / 17 + np.sin(j / 29)) + np.cos(j / 41 + i[:, None] / 97)
        return (280 + 12 * y).astype("float32")

    class Waves:
        '''A field that is made where it is looked at.'''
        dtype, ndim = np.dtype("float32"), 2
        def __init__(self, *shape):
            self.shape = shape
        def __getitem__(self, slab):
            return waves(*(np.arange(s.start, s.stop, dtype=float) for s in slab))

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


def parts(words):
    """A square array in memory and in parts, without loss and within an error."""
    side, rows = words.side, []
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


def huge(words):
    """Twice as wide as high, made by Dask where it is looked at; without loss and within an error.

    A sea, with waves in one chunk of forty: most of it is quick to code, whatever its size. A
    process that is cut short tells how far it came; the next goes on.
    """
    n = words.side
    for settings in ("ef.smooth(order=2, max_error=0.5)", "ef.smooth(order=2)"):
        path = Path(words.folder) / f"huge-{n}{'-error' if 'max' in settings else ''}.elm.zarr"
        if path.exists():
            continue
        found = run(
            f"""
            import os, signal, dask.array as da
            n, path, limit = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
            made_of = [0]
            def made(spans):
                made_of[0] += 1
                if (spans[0][0] + 3 * spans[1][0]) // 2000 % 40:
                    return np.full([b - a for a, b in spans], 280, "float32")
                return waves(*(np.arange(*span, dtype=float) for span in spans))
            def truth(i, j):
                which = (i[:, None] // 2000 + 3 * (j // 2000)) % 40
                return np.where(which, np.float32(280), waves(i, j))
            def block(block_info=None):
                return made(block_info[None]["array-location"])
            chunks = da.core.normalize_chunks(2000, (n, 2 * n))
            x = da.map_blocks(block, chunks=chunks, dtype="float32")
            reached = [()]
            def tell(*stage):
                reached[0] = stage
            def cut(*_):
                told(seconds=time.process_time(), reached=reached[0], error=None,
                     made=made_of[0] / x.npartitions)
                sys.stdout.flush()
                os._exit(0)
            signal.signal(signal.SIGALRM, cut)
            signal.alarm(limit)
            field = ef.fit(x, {settings}, out=path, progress=tell)
            signal.alarm(0)
            took = time.process_time()
            error, rng = 0.0, np.random.default_rng()
            corners = np.stack(np.meshgrid(np.arange(0, n, 2000), np.arange(0, 2 * n, 2000)), -1)
            rough = [c for c in corners.reshape(-1, 2) if c @ (1, 3) // 2000 % 40 == 0]
            for k in range(24):  # windows anywhere; every other one where waves are
                corner = rng.integers(n - 40), rng.integers(2 * n - 40)
                if k % 2:
                    corner = np.add(rough[rng.integers(len(rough))], rng.integers(1960, size=2))
                i, j = (np.arange(a, a + 40.0) for a in corner)
                error = max(error, float(np.abs(field.grid(i, j) - truth(i, j)).max()))
            told(seconds=took, reached=None, error=error, made=made_of[0] / x.npartitions)
            """,
            n, path, words.limit,
        )  # fmt: skip
        added({"settings": settings, "shape": [n, 2 * n], **found}, "huge", ("settings", "shape"))
        if words.one:
            return


def added(row, section, names):
    """Put a row into a section; pieces of the same work are summed, and its memory is the most."""
    rows = [] if not has("scale", section) else rows_of("scale", section)
    same = [r for r in rows if all(r[k] == row[k] for k in names)]
    if same and same[0]["reached"] is not None:
        row["seconds"] += same[0]["seconds"]
        row["memory"] = max(row["memory"], same[0]["memory"])
        if "made" in row:
            row["made"] += same[0]["made"]
        row["pieces"] = same[0]["pieces"] + 1
    row.setdefault("pieces", 1)
    print(row, flush=True)
    record("scale", section, [r for r in rows if r not in same] + [row])


def shell(words):
    """A file of float32 by the command line: fitted, within a PSNR, rendered, compared."""
    n, folder = words.side, Path(words.folder)
    source, model = folder / f"x-{n}.npy", folder / f"x-{n}.elm.zarr"
    lossy, picture = folder / f"x-{n}-50.elm.zarr", folder / f"y-{n}.npy"
    if not source.exists():
        run(
            """
            n = int(sys.argv[1])
            x = np.lib.format.open_memmap(sys.argv[2], "w+", np.dtype("float32"), (n, n))
            for a in range(0, n, 500):
                rows = np.arange(a, min(a + 500, n), dtype=float)
                x[a : a + 500] = waves(rows, np.arange(n, dtype=float))
            told()
            """,
            n, source,
        )  # fmt: skip
    commands = {
        "fit": (["fit", source, "-o", model, "--order", "2"], model),
        "render": (["render", model, "-o", picture], picture),
        "compare": (["compare", source, model], None),
        "fit --psnr 50": (["fit", source, "-o", lossy, "--order", "2", "--psnr", "50"], lossy),
    }
    known = rows_of("scale", "shell") if has("scale", "shell") else []
    for name, (command, out) in commands.items():
        if any(r["command"] == name and r["side"] == n and r["reached"] is None for r in known) or (
            out is not None and out.exists()
        ):
            continue
        found = run(
            """
            import os, signal
            from elmfield.cli import cli
            def cut(*_):
                told(seconds=time.process_time(), reached="cut short")
                sys.stdout.flush()
                os._exit(0)
            signal.signal(signal.SIGALRM, cut)
            signal.alarm(int(sys.argv[1]))
            cli.main(sys.argv[2:], standalone_mode=False)
            told(seconds=time.process_time(), reached=None)
            """,
            words.limit, *command,
        )  # fmt: skip
        added({"command": name, "side": n, **found}, "shell", ("command", "side"))
        if words.one:
            return


def kills(_words):
    """Fits killed at thirty random moments of their work, then gone on with: as if nothing was.

    A moment is so much of the progress that an uncut fit reports, and some of the time until it
    reports more; who was done before that is not counted.
    """
    found = run(
        """
        import os, shutil, signal, tempfile
        from pathlib import Path
        folder = Path(tempfile.mkdtemp())
        from elmfield.field import tiling
        tiling.TILE = 1 << 16  # many tiles of few samples
        x = Waves(600, 500)[slice(0, 600), slice(0, 500)]
        rng = np.random.default_rng(0)
        asked = [ef.smooth(order=2), ef.smooth(order=2, max_error=4.0)]
        def entries(path):
            every = (p for p in path.rglob("*") if p.is_file())
            return {str(p.relative_to(path)): p.read_bytes() for p in every}
        def fit(name, settings, tell):
            ef.fit(x, settings, out=folder / name, memory_limit=1 << 20, progress=tell)
        moments, wanted = [], []
        for settings in asked:
            times = [time.perf_counter()]
            fit("b.elm.zarr", settings, lambda *_: times.append(time.perf_counter()))
            times.append(time.perf_counter())
            moments.append(np.diff(times))
            wanted.append(entries(folder / "b.elm.zarr"))
            shutil.rmtree(folder / "b.elm.zarr")
        tried = killed = right = 0
        while killed < 30 and tried < 60:
            which = tried % 2
            gaps = moments[which]
            k, tried = int(rng.integers(len(gaps))), tried + 1
            read, write = os.pipe()
            pid = os.fork()
            if pid == 0:
                fit("a.elm.zarr", asked[which], lambda *_: os.write(write, b"."))
                os._exit(0)
            os.close(write)
            for _ in range(k):
                os.read(read, 1)
            time.sleep(rng.random() * gaps[k])
            os.kill(pid, signal.SIGKILL)
            killed += (caught := os.waitpid(pid, 0)[1] == signal.SIGKILL)
            os.close(read)
            fit("a.elm.zarr", asked[which], lambda *_: None)
            alone = os.listdir(folder) == ["a.elm.zarr"]
            right += caught and entries(folder / "a.elm.zarr") == wanted[which] and alone
            shutil.rmtree(folder / "a.elm.zarr")
        shutil.rmtree(folder)
        told(moments=tried, killed=int(killed), right=int(right))
        """
    )
    print(found, flush=True)
    record("scale", "kills", [found])


def append(_words):
    """Ten frames put behind a thousand: what is written again, and how far it is from one fit."""
    with tempfile.TemporaryDirectory() as folder:
        found = run(
            """
            from pathlib import Path
            path = Path(sys.argv[1]) / "a.elm.zarr"
            t, y, x = np.arange(1010)[:, None, None], np.arange(64)[:, None], np.arange(96)
            frames = (280 + 9 * np.sin(t / 9 + y / 15) * np.cos(x / 14)).astype("float32")
            settings = ef.smooth(order=2)
            ef.fit(frames[:1000], settings, out=path)
            def tiles():
                return {str(p): p.read_bytes() for p in path.rglob("*") if "/samples/c/" in str(p)
                        and p.is_file()}
            before, began = tiles(), time.process_time()
            field = ef.append(path, frames[1000:])
            took, after = time.process_time() - began, tiles()
            whole = ef.fit(frames, settings)
            at = np.random.default_rng(0).random((2000, 3)) * [1009, 63, 95]
            same = sum(after[k] == v for k, v in before.items())
            told(seconds=took, tiles=len(before), same=same,
                 now=len(after), samples=float(np.abs(field.samples() - frames).max()),
                 between=float(np.abs(field(at) - whole(at)).max()))
            """,
            folder,
        )  # fmt: skip
    print(found, flush=True)
    record("scale", "append", [found])


def long(words):
    """Long axes: fit in parts, all samples again, and at nine tenths of their number."""
    n, rows = words.length, []
    for shape in ((n,), (2, n // 50)):
        with tempfile.TemporaryDirectory() as folder:
            found = run(
                f"""
                n = {math.prod(shape)}
                x = np.empty(n, "float32")
                for a in range(0, n, 1 << 20):
                    x[a : a + (1 << 20)] = np.sin(np.arange(a, min(a + (1 << 20), n)) / 31)
                x = x.reshape({shape})
                field = ef.fit(x, ef.smooth(order=2))
                fitted = most()
                y = field.samples()
                given = most()
                y -= x
                error = max(float(y.max()), -float(y.min()))
                del y
                field.resize([int(m * 0.9) + 1 for m in x.shape], antialias=False)
                told(fit=fitted, samples=given, error=error)
                """,
                folder,
            )
        rows.append({"shape": str(shape), "dtype": "float32", **found})
        print(rows[-1], flush=True)
    record("scale", "long", rows)


def workers(words):
    """One and two processes of a cluster on this machine."""
    side, rows = words.side, []
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

    from measurement.data import WEATHER
    from paper.research import datasets

    if name == "era5":
        with xarray.open_dataset(datasets.path(WEATHER["ERA5 t2m, winter 2023"])[0]) as file:
            (variable,) = (v for v in file.data_vars.values() if v.ndim >= 2)
            return variable.values.squeeze().astype(np.float32), None
    bands = tifffile.imread(datasets.path("sentinel2-l2a-chile")[0])
    bands = np.moveaxis(bands, int(np.argmin(bands.shape)), -1)
    return np.ascontiguousarray(bands[:768, :768, 1:4]), -1


def plans(_words):
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
    SECTIONS = {
        "parts": parts,
        "huge": huge,
        "shell": shell,
        "long": long,
        "workers": workers,
        "kills": kills,
        "append": append,
        "plans": plans,
    }
    words = asked(
        __doc__,
        SECTIONS,
        ("--side", {"type": int, "default": 2048, "help": "samples on each axis"}),
        ("--length", {"type": int, "default": 1_000_000, "help": "samples of a long axis"}),
        ("--limit", {"type": int, "default": 3600, "help": "seconds of a process"}),
        ("--one", {"action": "store_true", "help": "stop after one process"}),
        ("--folder", {"default": tempfile.gettempdir(), "help": "where large models are kept"}),
    )
    for section in words.sections.values():
        section(words)
